"""Rollouts: against a twin that keeps lists, over every backend, and whatever may be asked of the record."""

from __future__ import annotations

import io
import pickle
import sys
from contextlib import closing, nullcontext
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
from toy_market import Walk, WalkVec, always_up
from toys import INF, Draws, NativeToy, NCount, T, Toy, fns
from vector.backends import KINDS, assert_same, both_modes, everywhere, everywhere_once, here, make, scribble, scripted

import sekai
from sekai import (
    AutoReset,
    Box,
    Dict,
    Discrete,
    Env,
    InfoList,
    InvalidObservation,
    MaskedBox,
    ResetResult,
    Rollout,
    Sequence,
    StepResult,
    SyncVecEnv,
    Tuple,
    VecEnvClosed,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecResetResult,
    VecStepResult,
    VecWrapper,
    rollout,
)
from sekai.batching import layout

FIELDS = ["observations", "actions", "rewards", "terminated", "truncated", "frozen", "last_observations"]
FIELDS += ["final_indices", "final_observations", "infos"]


def still(vec):
    """A policy of actions that are all 0."""
    return lambda observations: layout.allocate(vec.action_space, vec.num_envs)


def parity(observations):
    """Actions that follow from the observations, (N, 1)."""
    return observations[:, 0].astype(np.int64) % 2


def naive(vec, policy, num_steps, *, seed=None, infos=()):
    """The same record, kept in lists of rows; for one array as observation and one as action."""
    kept = {name: [] for name in FIELDS[:6]}
    columns = {key: [] for key in infos}
    indices, finals, ends, returns, lengths = [], [], [], [], []
    running, length, over = [0.0] * vec.num_envs, [0] * vec.num_envs, [False] * vec.num_envs
    observations = vec.reset(seed=seed).observations
    for step in range(num_steps):
        actions = policy(observations)
        kept["observations"].append(observations.copy())
        kept["actions"].append(actions.copy())
        kept["frozen"].append(list(over))
        result = vec.step(actions)
        observations = result.observations
        for name in ("rewards", "terminated", "truncated"):
            kept[name].append(getattr(result, name).copy())
        for key in infos:
            columns[key].append([info.get(key, np.nan) for info in result.infos])
        for i in range(vec.num_envs):
            if over[i]:
                continue
            running[i] += result.rewards[i]
            length[i] += 1
            if not (result.terminated[i] or result.truncated[i]):
                continue
            ends.append((step, i))
            returns.append(running[i])
            lengths.append(length[i])
            running[i], length[i] = 0.0, 0
            over[i] = "final_observation" not in result.infos[i]
            if not over[i]:
                indices.append((step, i))
                finals.append(result.infos[i]["final_observation"])
    return {
        **{name: np.array(values) for name, values in kept.items()},
        "last_observations": observations,
        "final_indices": np.array(indices, dtype=np.intp).reshape(-1, 2),
        "final_observations": np.array(finals, dtype=observations.dtype).reshape(-1, *observations.shape[1:]),
        "infos": {key: np.array(column) for key, column in columns.items()},
        "episode_ends": np.array(ends, dtype=np.intp).reshape(-1, 2),
        "episode_returns": np.array(returns, dtype=np.float64),
        "episode_lengths": np.array(lengths, dtype=np.int64),
    }


def assert_as_naive(expected, got):
    for name, values in expected.items():
        assert_same(values, getattr(got, name), name)


# -- the numbers -------------------------------------------------------------------------------------------


def script(n, *, truncated=False):
    """n steps, the last one terminated or truncated, with an info and rewards that do not add up exactly."""
    last = (not truncated, truncated)
    return [([k + 0.25], 0.1 * k, *(last if k == n else (False, False)), {"k": k / 2}) for k in range(1, n + 1)]


@both_modes
@everywhere
def test_a_rollout_is_what_a_loop_with_lists_keeps(backend, autoreset):
    scripts = [script(3), script(2, truncated=True), script(7), script(1), script(30)]
    with scripted("sync", *scripts, autoreset=autoreset) as vec:
        expected = naive(vec, parity, 12, seed=3, infos=("k",))
    with scripted(backend, *scripts, autoreset=autoreset) as vec:
        record = rollout(vec, parity, 12, seed=3, infos=("k",))
    assert_as_naive(expected, record)
    assert len(record.episode_ends) == (12 // 3 + 12 // 2 + 1 + 12 if autoreset else 4)
    assert bool(record.frozen.any()) is not autoreset


@pytest.mark.parametrize("backend", [kind for kind in KINDS if kind != "native"])
def test_seeded_draws_are_the_same_on_every_backend(backend):
    def policy(observations):
        return (observations[:, 0] > 0.5).astype(np.int64)

    with SyncVecEnv([lambda n=n: Draws(n) for n in (2, 3, 5)]) as vec:
        expected = naive(vec, policy, 11, seed=7)
    with make(backend, [lambda n=n: Draws(n) for n in (2, 3, 5)]) as vec:
        assert_as_naive(expected, rollout(vec, policy, 11, seed=7))


@pytest.mark.parametrize("seed", range(8))
@both_modes
def test_episodes_of_any_lengths_are_told_apart(autoreset, seed):
    rng = np.random.default_rng(seed)
    lengths, num_steps = rng.integers(1, 9, 6), int(rng.integers(1, 25))
    vec = NCount(lengths, autoreset=autoreset)
    record = rollout(vec, parity, num_steps)
    assert_as_naive(naive(vec, parity, num_steps), record)
    np.testing.assert_array_equal(record.episode_lengths, lengths[record.episode_ends[:, 1]])


def test_shapes_and_dtypes():
    vec = sekai.make_vec("Trading-v0", 5)
    record = rollout(vec, lambda observations: np.ones(5, dtype=np.int32), 4, seed=1, infos=("wealth",))
    assert (record.num_steps, record.num_envs) == (4, 5)
    assert record.observations.shape == (4, 5, *vec.observation_space.shape)
    assert record.observations.dtype == vec.observation_space.dtype
    assert record.actions.shape == (4, 5) and record.actions.dtype == vec.action_space.dtype
    assert record.rewards.shape == (4, 5) and record.rewards.dtype == np.float64
    for flags in (record.terminated, record.truncated, record.frozen):
        assert flags.shape == (4, 5) and flags.dtype == bool
    assert record.last_observations.shape == (5, *vec.observation_space.shape)
    assert record.final_indices.shape == (0, 2) and record.final_indices.dtype == np.intp
    assert record.final_observations.shape == (0, *vec.observation_space.shape)
    assert record.infos["wealth"].shape == (4, 5) and list(record.infos) == ["wealth"]
    assert record.episode_returns.dtype == np.float64 and record.episode_returns.shape == (0,)
    assert record.episode_lengths.dtype == np.int64 and record.episode_lengths.shape == (0,)


# -- ends of episodes --------------------------------------------------------------------------------------


@everywhere
def test_an_end_at_the_last_step_counts_and_has_its_final_observation(backend):
    with scripted(backend, T(3), T(2), r0=(-1.0,)) as vec:
        record = rollout(vec, still(vec), 3)
    assert record.episode_ends.tolist() == record.final_indices.tolist() == [[1, 1], [2, 0]]
    assert record.final_observations.tolist() == [[2.0], [3.0]]
    assert record.last_observations.tolist() == [[-1.0], [1.0]]
    assert record.episode_lengths.tolist() == [2, 3]
    assert record.episode_returns.tolist() == [2.0, 3.0]


@everywhere
def test_a_frozen_sub_env_has_one_episode_and_shows_where_it_ended(backend):
    with scripted(backend, T(2), T(9), autoreset=False) as vec:
        record = rollout(vec, still(vec), 5)
    assert record.episode_ends.tolist() == [[1, 0]]
    assert record.episode_lengths.tolist() == [2] and record.episode_returns.tolist() == [2.0]
    assert record.frozen.tolist() == [[False] * 2] * 2 + [[True, False]] * 3
    assert record.terminated[:, 0].tolist() == [False, True, True, True, True]
    assert record.observations[:, 0, 0].tolist() == [0.0, 1.0, 2.0, 2.0, 2.0]
    assert record.final_indices.shape == (0, 2) and record.final_observations.shape == (0, 1)


def test_sub_envs_that_reset_themselves_go_on_without_autoreset():
    scripts = [script(2), script(3), script(4)]
    plain, itself, _ = (lambda script=script: Toy(script) for script in scripts)
    env_fns = [plain, lambda: AutoReset(itself()), lambda: AutoReset(Toy(scripts[2]))]
    with SyncVecEnv(env_fns, autoreset=False) as vec:
        expected = naive(vec, parity, 9)
        record = rollout(vec, parity, 9)
    assert_as_naive(expected, record)
    assert record.final_indices.tolist() == [[2, 1], [3, 2], [5, 1], [7, 2], [8, 1]]
    assert len(record.episode_ends) == 6


def test_the_terminal_observation_of_an_env_s_own_comes_in_the_dtype_of_the_others():
    class Own(Toy):
        def step(self, action):
            result = super().step(action)
            if not result.done:
                return result
            first = self.reset().observation
            return StepResult(first, 0.0, True, False, {"final_observation": [7.5]})

    vec = SyncVecEnv(fns(T(2), T(3), cls=Own, obs=Box(-INF, INF, (1,))), autoreset=False)
    record = rollout(vec, parity, 4)
    assert record.final_observations.dtype == record.observations.dtype == np.float32
    assert record.final_observations.tolist() == [[7.5]] * 3


@both_modes
@here
def test_next_observations_are_what_each_step_led_to(backend, autoreset):
    with scripted(backend, T(3), T(2), r0=(-1.0,), autoreset=autoreset) as vec:
        record = rollout(vec, still(vec), 4)
    following = record.next_observations()
    assert following[:, 0, 0].tolist() == [1.0, 2.0, 3.0, 1.0 if autoreset else 3.0]
    assert following[:, 1, 0].tolist() == ([1.0, 2.0, 1.0, 2.0] if autoreset else [1.0, 2.0, 2.0, 2.0])
    assert not np.shares_memory(following, record.observations)
    assert record.observations[:, 0, 0].tolist() == [-1.0, 1.0, 2.0, -1.0 if autoreset else 3.0]


def test_a_vec_env_that_loses_a_terminal_observation_is_named():
    class Forgetful(VecWrapper):
        def _after_step(self, result, frozen):
            return VecStepResult(
                result.observations,
                result.rewards,
                result.terminated,
                result.truncated,
                [{"k": info["k"]} for info in result.infos],
            )

    vec = Forgetful(SyncVecEnv(fns(script(9), script(2))))
    with pytest.raises(InvalidObservation, match=r"step 1: sub-env 1: expected 'final_observation' .* got \['k'\]"):
        rollout(vec, parity, 4)


def test_returns_are_exactly_those_of_the_statistics_wrapper():
    vec = VecRecordEpisodeStatistics(SyncVecEnv([lambda n=n: Draws(n) for n in (7, 12, 31)]), deque_size=1000)
    record = rollout(vec, lambda observations: np.zeros(3, dtype=int), 100, seed=2)
    episodes = vec.tracker.episodes
    assert record.episode_returns.tolist() == [episode.episode_return for episode in episodes]
    assert record.episode_lengths.tolist() == [episode.episode_length for episode in episodes]
    assert record.episode_ends[:, 1].tolist() == [episode.extra["env_index"] for episode in episodes]


# -- nested spaces -----------------------------------------------------------------------------------------

BOOK = MaskedBox(-INF, INF, (1,), max_size=3, dtype=np.float64)
NESTED = Dict({"price": Box(-INF, INF, (2,)), "book": Tuple((BOOK, Discrete(9)))})
ORDERS = Dict({"side": Discrete(2), "size": Tuple((Box(0, 9, (2,)), Discrete(3)))})


def nested(k):
    """An observation of NESTED with k (at most 3) occupied slots."""
    return {"price": np.float32([k, -k]), "book": (BOOK.pack(np.arange(1.0, k + 1)[:, None] * 10), k)}


def nested_vec(backend, **kwargs):
    scripts = [[(nested(k), float(k), k == n, False, {}) for k in range(1, n + 1)] for n in (3, 2)]
    return scripted(backend, *scripts, obs=NESTED, act=ORDERS, r0=nested(0), **kwargs)


def orders(observations):
    price = observations["price"]
    return {"side": np.array([0, 1]), "size": (price + 9 * (price < 0), np.array([1, 2]))}


@everywhere_once
def test_nested_spaces_give_nested_arrays_with_time_first(backend):
    with nested_vec(backend) as vec:
        record = rollout(vec, orders, 4)
    shown = [[nested(k) for k in ks] for ks in ([0, 0], [1, 1], [2, 0], [0, 1])]
    for step, row in enumerate(shown):
        batch = {
            "price": record.observations["price"][step],
            "book": (
                {key: part[step] for key, part in record.observations["book"][0].items()},
                record.observations["book"][1][step],
            ),
        }
        assert_same(layout.concatenate(NESTED, row), batch)
    assert record.observations["book"][0]["values"].shape == (4, 2, 3, 1)
    assert record.actions["size"][0].dtype == np.float32
    assert record.actions["size"][0][1].tolist() == [[1.0, 8.0], [1.0, 8.0]]
    assert record.actions["side"].tolist() == [[0, 1]] * 4
    assert record.final_indices.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert_same(layout.concatenate(NESTED, [nested(2), nested(3), nested(2)]), record.final_observations)
    assert_same(layout.concatenate(NESTED, [nested(1), nested(0)]), record.last_observations)
    assert record.next_observations()["price"][:, 0, 0].tolist() == [1.0, 2.0, 3.0, 1.0]
    assert record.next_observations()["book"][1][:, 1].tolist() == [1, 2, 1, 2]


TRADES = Dict({"trades": Sequence(Box(0, 9, (1,))), "cash": Box(-INF, INF, ())})


def trades(k):
    return {"trades": tuple(np.float32([j]) for j in range(k)), "cash": np.float32(k)}


@everywhere_once
def test_what_has_no_fixed_layout_is_kept_in_lists(backend, tmp_path):
    scripts = [[(trades(k), float(k), k == n, False, {}) for k in range(1, n + 1)] for n in (3, 2)]
    with scripted(backend, *scripts, obs=TRADES, act=Sequence(Discrete(4)), r0=trades(0)) as vec:
        record = rollout(vec, lambda observations: [(1,), (2, 3)], 3)
    assert [[len(element) for element in batch] for batch in record.observations["trades"]] == [[0, 0], [1, 1], [2, 0]]
    assert record.observations["cash"].tolist() == [[0, 0], [1, 1], [2, 0]]
    assert record.actions == [[(1,), (2, 3)]] * 3
    assert [len(element) for element in record.final_observations["trades"]] == [2, 3]
    assert [len(element) for element in record.last_observations["trades"]] == [0, 1]
    following = record.next_observations()["trades"]
    assert [[len(element) for element in batch] for batch in following] == [[1, 1], [2, 2], [3, 1]]

    np.savez(tmp_path / "record.npz", **record.to_dict())
    with np.load(tmp_path / "record.npz", allow_pickle=True) as saved:
        shapes = {key: saved[key].shape for key in saved}
        assert shapes["observations/trades"] == shapes["actions"] == (3, 2)
        assert shapes["last_observations/trades"] == shapes["final_observations/trades"] == (2,)
        assert saved["observations/trades"][2, 0][1].tolist() == [1.0]
        assert saved["actions"][0, 1] == (2, 3)


# -- snapshots ---------------------------------------------------------------------------------------------


@everywhere_once
def test_a_policy_that_writes_into_what_it_is_given_changes_nothing(backend):
    def careless(observations):
        actions = orders(observations)
        scribble(observations)
        return actions

    with nested_vec(backend) as vec:
        expected, record = rollout(vec, orders, 5), rollout(vec, careless, 5)
    for name in FIELDS:
        assert_same(getattr(expected, name), getattr(record, name), name)


def test_elements_without_a_fixed_layout_are_copies_too():
    def careless(observations):
        for trade in observations["trades"][0]:
            trade[...] = 7
        return np.zeros(1, dtype=int)

    script = [(trades(k), 0.0, False, False, {}) for k in range(1, 5)]
    record = rollout(SyncVecEnv(fns(script, obs=TRADES, r0=trades(0))), careless, 4)
    assert [float(trade[0]) for trade in record.observations["trades"][3][0]] == [0.0, 1.0, 2.0]


def test_a_policy_may_return_the_same_buffer_every_time():
    buffer, calls = np.zeros(2, dtype=np.int64), []

    def policy(observations):
        calls.append(observations)
        buffer[:] = len(calls) % 2
        return buffer

    record = rollout(SyncVecEnv(fns(T(9), T(9))), policy, 3)
    assert record.actions.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_later_steps_leave_the_record_alone():
    vec = WalkVec(3, goal=2)
    record = rollout(vec, always_up(vec), 5, infos=("level",))
    before = pickle.loads(pickle.dumps(record))
    result = vec.step(np.ones(3, dtype=int))
    scribble(result)
    rollout(vec, always_up(vec), 2)
    for name in FIELDS:
        assert_same(getattr(before, name), getattr(record, name), name)


# -- infos -------------------------------------------------------------------------------------------------


def told(*values, key="x", frozen_after=None):
    """A script whose k-th step tells ``values[k]``; ``...`` tells nothing."""
    last = len(values) if frozen_after is None else frozen_after
    return [([0.0], 0.0, k == last, False, {} if value is ... else {key: value}) for k, value in enumerate(values, 1)]


def column_of(*scripts, **kwargs):
    with SyncVecEnv(fns(*scripts), **kwargs) as vec:
        return rollout(vec, still(vec), len(scripts[0]), infos=("x",)).infos["x"]


@pytest.mark.parametrize("mode", ["native", "sync", "async", "proc"])
def test_info_columns_are_the_same_on_every_backend(mode):
    registry = sekai.EnvRegistry()
    registry.register("Walk-v0", Walk, vector_entry_point=WalkVec, max_episode_steps=4)
    with closing(registry.make_vec("Walk-v0", 3, vectorization_mode=mode, goal=3)) as vec:
        record = rollout(vec, always_up(vec), 6, infos=("level", "elapsed_steps", "level"))
    assert list(record.infos) == ["level", "elapsed_steps"]
    assert_same(np.array([[1.0] * 3, [2.0] * 3, [3.0] * 3] * 2), record.infos["level"])
    assert_same(np.array([[1] * 3, [2] * 3, [3] * 3] * 2), record.infos["elapsed_steps"])


@everywhere
def test_a_frozen_sub_env_tells_nothing(backend):
    scripts = [told(1, 2, frozen_after=2), told(1, 2, 3, 4, frozen_after=9)]
    with scripted(backend, *scripts, autoreset=False) as vec:
        x = rollout(vec, still(vec), 4, infos=("x",)).infos["x"]
    assert_same(np.array([[1.0, 1.0], [2.0, 2.0], [np.nan, 3.0], [np.nan, 4.0]]), x)


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        ((1, 2), (3, 4), np.array([[1, 2], [3, 4]])),
        ((1, 2), (0.5, 4), np.array([[1.0, 2.0], [0.5, 4.0]])),
        ((True, False), (2, 3), np.array([[1, 0], [2, 3]])),
        ((True, False), (..., True), np.array([[1.0, 0.0], [np.nan, 1.0]])),
        ((1, ...), (3, 4), np.array([[1.0, np.nan], [3.0, 4.0]])),
        ((1, 2), (..., ...), np.array([[1.0, 2.0], [np.nan, np.nan]])),
        ((1j, 2), (..., 1), np.array([[1j, 2], [np.nan, 1]])),
        ((np.float32(1), np.float32(2)), (..., np.float32(3)), np.array([[1, 2], [np.nan, 3]], dtype=np.float32)),
        (("a", "b"), ("long", "b"), np.array([["a", "b"], ["long", "b"]])),
        (("a", "b"), (..., "b"), np.array([["a", "b"], [None, "b"]], dtype=object)),
        (("a", "b"), (1.5, 2.5), np.array([["a", "b"], [1.5, 2.5]], dtype=object)),
        ((1, 2), (None, 3), np.array([[1, 2], [None, 3]], dtype=object)),
        ((None, 2), (..., 3), np.array([[None, 2], [None, 3]], dtype=object)),
        ((1, 2), ("a", "b"), np.array([[1, 2], ["a", "b"]], dtype=object)),
        (
            (np.datetime64("2020-01-01"), np.datetime64("2020-01-02")),
            (..., np.datetime64("2020-01-01T12")),
            np.array([["2020-01-01T00", "2020-01-02T00"], ["NaT", "2020-01-01T12"]], dtype="M8[h]"),
        ),
    ],
)
def test_a_column_is_widened_for_what_comes_later(first, later, expected):
    x = column_of(*(told(*values) for values in zip(first, later, strict=True)))
    assert_same(expected.dtype, x.dtype)
    if expected.dtype == object:
        assert x.tolist() == expected.tolist()
        assert [type(value) for value in x.flat] == [type(value) for value in expected.flat]
    else:
        np.testing.assert_array_equal(x, expected)


def test_arrays_in_infos_keep_their_shape_and_dtype():
    one, two = np.float32([1, 2]), np.float32([3, 4])
    x = column_of(told(one, two), told(two, one))
    assert_same(np.array([[one, two], [two, one]]), x)


def test_a_step_in_which_nobody_tells_an_array():
    one, two = np.float32([1, 2]), np.float32([3, 4])
    gap = np.full(2, np.nan, np.float32)
    x = column_of(told(one, ..., ...), told(two, ..., one))
    assert_same(np.array([[one, two], [gap, gap], [gap, one]]), x)


def test_values_of_many_shapes_become_objects():
    x = column_of(told([1.0, 2.0], [1.0], [[1, 2], [3]]), told([3.0, 4.0], ..., {"a": 1}))
    assert x.shape == (3, 2) and x.dtype == object
    assert [x[0, 0].tolist(), x[0, 1].tolist(), x[1, 0].tolist()] == [[1.0, 2.0], [3.0, 4.0], [1.0]]
    assert x[1, 1] is None
    assert x[2].tolist() == [[[1, 2], [3]], {"a": 1}]


def test_a_native_column_of_objects_with_more_axes_is_a_column_of_rows():
    class Told(NCount):
        def _step(self, actions):
            rewards, terminated, truncated, _ = super()._step(actions)
            x = np.empty((self.num_envs, 2), dtype=object)
            x[:] = [["a", 1.5]]
            return rewards, terminated, truncated, {"x": x}

    x = rollout(Told([9, 9]), parity, 3, infos=("x",)).infos["x"]
    assert x.shape == (3, 2) and x.dtype == object
    assert x[2, 1].tolist() == ["a", 1.5]


def test_a_native_column_keeps_its_dtype_and_its_axes():
    class Told(NCount):
        def _step(self, actions):
            rewards, terminated, truncated, _ = super()._step(actions)
            return rewards, terminated, truncated, {"x": np.float32([[1, 2], [3, 4]]) * self.c[0].astype(np.float32)}

    x = rollout(Told([9, 9]), parity, 3, infos=("x",)).infos["x"]
    assert x.dtype == np.float32 and x.shape == (3, 2, 2)
    assert x[2].tolist() == [[3.0, 6.0], [9.0, 12.0]]


def test_an_info_that_only_ended_sub_envs_have():
    vec = VecRecordEpisodeStatistics(NCount([1, 3]))
    record = rollout(vec, parity, 3, infos=("episode",))
    lengths = [[getattr(episode, "episode_length", None) for episode in row] for row in record.infos["episode"]]
    assert lengths == [[1, None], [1, None], [1, 3]]


@here
def test_a_key_that_the_first_step_lacks_is_refused(backend):
    with scripted(backend, script(3), script(4)) as vec:
        with pytest.raises(KeyError, match=r"rollout\(infos=...\): no info 'q' in the first step; there are \['k'\]"):
            rollout(vec, parity, 3, infos=("k", "q"))


class NoDicts(InfoList):
    """An InfoList no dict of which may be built."""

    def _build(self, row):
        raise AssertionError(f"the dict of row {row} was built")


def test_over_a_native_env_no_dict_is_built(monkeypatch):
    monkeypatch.setattr("sekai.batching.episodes.InfoList", NoDicts)
    vec = NativeToy([script(3), script(7), script(2)])
    record = rollout(VecNormalizeReward(VecNormalizeObservation(vec)), still(vec), 9, infos=("k",))
    assert len(record.final_indices) == 3 + 1 + 4
    assert record.infos["k"].shape == (9, 3)


def test_without_autoreset_no_dict_is_built_but_those_of_the_ends(monkeypatch):
    built = []

    class Watched(InfoList):
        def _build(self, row):
            built.append(row)
            return super()._build(row)

    monkeypatch.setattr("sekai.batching.episodes.InfoList", Watched)
    vec = NativeToy([script(3), script(7), script(2)], autoreset=False)
    record = rollout(vec, still(vec), 9, infos=("k",))
    assert len(record.episode_ends) == 3 and record.infos["k"].shape == (9, 3)
    assert sorted(built) == [0, 1, 2]


# -- around and inside -------------------------------------------------------------------------------------


@both_modes
def test_it_records_what_wrappers_show(autoreset):
    def wrapped():
        vec = NativeToy([script(3), script(5)], autoreset=autoreset)
        return VecNormalizeReward(VecNormalizeObservation(VecRecordEpisodeStatistics(vec)))

    vec = wrapped()
    assert_as_naive(naive(wrapped(), parity, 8), rollout(vec, parity, 8))


class ByHand(VecWrapper):
    """Shows other observations than its space says, which no wrapper of observations may."""

    def __init__(self, venv, change):
        super().__init__(venv)
        self.change = change

    def _after_reset(self, result):
        return VecResetResult(self.change(result.observations), result.infos)

    def _after_step(self, result, frozen):
        for info in result.infos:
            if "final_observation" in info:
                info["final_observation"] = self.change(info["final_observation"][None])[0]
        observations = self.change(result.observations)
        return VecStepResult(observations, result.rewards, result.terminated, result.truncated, result.infos)


def test_observations_are_kept_as_they_are_shown_whatever_the_space_says():
    pixels = Box(0, 255, (2,), np.uint8)
    shown = [(np.uint8([k, 255]), 0.0, k == 2, False, {}) for k in (1, 2)]
    vec = ByHand(NativeToy([shown], obs=pixels, r0=np.uint8([0, 0])), lambda pixels: pixels / 255.0)
    record = rollout(vec, still(vec), 3)
    assert record.observations.dtype == record.final_observations.dtype == np.float64
    assert record.observations[1, 0].tolist() == [1 / 255, 1.0]
    assert record.final_observations.tolist() == [[2 / 255, 1.0]]


@here
def test_what_a_wrapper_writes_into_the_info_dicts_is_seen(backend):
    class Doubled(VecWrapper):
        def _after_step(self, result, frozen):
            for info in result.infos:
                if "final_observation" in info:
                    info["final_observation"] = 2 * info["final_observation"]
                info["row"] = info["k"]
            return result

    vec = Doubled(scripted(backend, script(2), script(3)))
    with closing(vec):
        record = rollout(vec, parity, 4, infos=("row",))
    assert record.final_observations[:, 0].tolist() == [4.5, 6.5, 4.5]
    assert record.infos["row"][:, 1].tolist() == [0.5, 1.0, 1.5, 0.5]


def test_what_a_wrapper_writes_over_an_info_column_is_seen():
    class Marked(VecWrapper):
        def _after_step(self, result, frozen):
            result.infos[0]["k"] = -7.0
            result.infos.set_items("row", [1], [9])
            return result

    with closing(Marked(scripted("native", script(4), script(4)))) as vec:
        record = rollout(vec, parity, 3, infos=("k",))
    assert record.infos["k"].tolist() == [[-7.0, 0.5], [-7.0, 1.0], [-7.0, 1.5]]


def test_it_begins_with_a_reset_and_passes_seed_and_options_on():
    vec = SyncVecEnv(fns(T(9), T(9)))
    vec.reset()
    vec.step(np.zeros(2, dtype=int))
    record = rollout(vec, still(vec), 2, seed=[4, None], options={"start": 3})
    assert record.observations[0].tolist() == [[0.0], [0.0]]
    assert [env.last_seed for env in vec.envs] == [4, None]
    assert [env.last_options for env in vec.envs] == [{"start": 3}] * 2
    rollout(vec, still(vec), 1)
    assert [env.last_seed for env in vec.envs] == [None, None]
    assert not vec.closed


def test_a_policy_may_return_anything_the_env_takes():
    space = Box(-1, 1, (2,))
    vec = SyncVecEnv(fns(T(9), T(9), act=space))
    record = rollout(vec, lambda observations: [[0.5, 0.25], [1.0, 0.0]], 2)
    assert record.actions.dtype == np.float32
    assert record.actions[1].tolist() == [[0.5, 0.25], [1.0, 0.0]]
    assert vec.envs[0].last_action.dtype == np.float32


def test_wrong_actions_are_refused_before_the_env_is_stepped():
    vec = SyncVecEnv(fns(T(9), T(9)))
    with pytest.raises(ValueError, match=r"step\(actions\): expected shape \(2,\), got shape \(3,\)"):
        rollout(vec, lambda observations: np.zeros(3, dtype=int), 2)
    assert [env.n_step for env in vec.envs] == [0, 0]


@pytest.mark.parametrize(
    ("change", "got"),
    [(lambda obs: np.repeat(obs, 2, axis=1), r"shape \(2, 2\)"), (lambda obs: obs.astype(complex), "complex128")],
    ids=["shape", "dtype"],
)
def test_observations_that_change_their_make_are_refused(change, got):
    vec = ByHand(SyncVecEnv(fns(T(9), T(9))), lambda obs: change(obs) if obs[0, 0] == 2.0 else obs)
    with pytest.raises(InvalidObservation, match=rf"step 2: expected a batch of shape \(2, 1\) and dtype .*{got}"):
        rollout(vec, still(vec), 5)


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_what_the_policy_or_the_env_raises_goes_through(kind):
    error = kind("no more")

    def policy(observations):
        if observations[0, 0] == 2.0:
            raise error
        return np.zeros(1, dtype=int)

    with pytest.raises(kind) as raised:
        rollout(SyncVecEnv(fns(T(9))), policy, 5)
    assert raised.value is error

    class Failing(Toy):
        def step(self, action):
            raise error

    vec = SyncVecEnv(fns(T(9), cls=Failing))
    with pytest.raises(kind) as raised:
        rollout(vec, still(vec), 5)
    assert raised.value is error
    vec.close()
    with pytest.raises(VecEnvClosed):
        rollout(vec, still(vec), 5)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"vec": Toy(T(2))}, TypeError, r"rollout\(vec\): expected a VecEnv, got Toy"),
        ({"policy": "up"}, TypeError, r"rollout\(policy\): expected a callable or a policy of rows, got str"),
        ({"num_steps": 0}, ValueError, r"rollout\(num_steps\): expected at least 1, got 0"),
        ({"num_steps": 2.0}, TypeError, r"rollout\(num_steps\): expected an integer, got float"),
        ({"num_steps": True}, TypeError, r"rollout\(num_steps\): expected an integer, got the bool True"),
        ({"infos": "mid_price"}, TypeError, r"rollout\(infos=...\): expected a sequence of keys, got 'mid_price'"),
        ({"infos": None}, TypeError, "expected a sequence of keys, got None"),
        ({"infos": (1,)}, TypeError, r"expected a sequence of keys, got \(1,\)"),
        ({"out": "here"}, TypeError, r"rollout\(out=...\): expected a Rollout or None, got str"),
        ({"seed": -1}, ValueError, "seed"),
    ],
)
def test_wrong_arguments(arguments, error, text):
    vec = SyncVecEnv(fns(T(3)))
    with pytest.raises(error, match=text):
        rollout(**{"vec": vec, "policy": parity, "num_steps": 2, **arguments})
    assert vec.envs[0].n_reset == 0


# -- memory of an earlier one ------------------------------------------------------------------------------


def memory_of(record):
    """Where the arrays that have a row for each step begin."""
    once = ("last_", "final_")
    return {key: array.ctypes.data for key, array in record.to_dict().items() if not key.startswith(once)}


@both_modes
@everywhere
def test_the_memory_of_an_earlier_rollout_is_taken_again(backend, autoreset):
    def vec_env():
        return scripted(backend, script(2), script(3, truncated=True), autoreset=autoreset)

    def ones(observations):
        return np.ones(2, dtype=np.int64)

    with vec_env() as vec, vec_env() as twin:
        fresh = rollout(vec, parity, 6)
        used = rollout(twin, ones, 6)
        memory = memory_of(used)
        scribble(used.to_dict())
        again = rollout(twin, parity, 6, out=used)
    assert memory_of(again) == memory
    assert_same(fresh.to_dict(), again.to_dict())


def test_info_columns_are_written_over_where_they_fit():
    with scripted("native", script(4)) as vec:
        used = rollout(vec, parity, 4, infos=("k",))
        again = rollout(vec, parity, 4, infos=("k",), out=used)
        assert again.infos["k"] is used.infos["k"]
        without = rollout(vec, parity, 4, out=again)
        assert rollout(vec, parity, 4, infos=("k",), out=without).infos["k"].tolist() == [[0.5], [1.0], [1.5], [2.0]]


def test_memory_that_an_earlier_rollout_holds_twice_is_taken_once():
    with scripted("native", script(4)) as vec:
        expected = rollout(vec, parity, 4, infos=("k",))
        used = rollout(vec, parity, 4)
        used.infos["k"] = used.rewards
        again = rollout(vec, parity, 4, infos=("k",), out=used)
    assert_same(expected.rewards, again.rewards)
    assert_same(expected.infos["k"], again.infos["k"])


def test_the_history_of_an_earlier_rollout_by_another_clock():
    class Clocks(Env):
        observation_space = Box(-INF, INF, (1,))
        action_space = Discrete(2)
        history_clock = "bar"
        at = 0

        def reset(self, *, seed=None, options=None):
            self.at = 0
            return ResetResult(np.zeros(1, np.float32), {})

        def step(self, action):
            self.at += 1
            return StepResult(np.zeros(1, np.float32), 0.0, False, False, {"bar": self.at, "hour": 10 * self.at})

    vec = SyncVecEnv([Clocks])
    used = rollout(vec, still(vec), 3, infos=("bar",))
    vec.envs[0].history_clock = "hour"
    record = rollout(vec, still(vec), 3, infos=("bar",), out=used)
    assert record.history.tolist() == [[10], [20], [30]]
    assert record.infos["bar"].tolist() == [[1], [2], [3]]


@everywhere_once
def test_nested_and_listed_parts_of_an_earlier_rollout(backend):
    with nested_vec(backend) as vec:
        used, fresh = rollout(vec, orders, 4), rollout(vec, orders, 4)
        memory = memory_of(used)
        again = rollout(vec, orders, 4, out=used)
    assert memory_of(again) == memory
    assert_same(fresh.to_dict(), again.to_dict())


def test_memory_that_does_not_fit_is_refused():
    vec = SyncVecEnv(fns(T(3), T(3)))
    used = rollout(vec, lambda observations: np.zeros(2, dtype=np.int64), 3)
    fewer = SyncVecEnv(fns(T(3)))
    with pytest.raises(ValueError, match=r"out=...\): rewards: expected .* shape \(3, 1\) .* got shape \(3, 2\)"):
        rollout(fewer, parity, 3, out=used)
    with pytest.raises(ValueError, match=r"out=...\): rewards: expected .* shape \(2, 2\) .* got shape \(3, 2\)"):
        rollout(vec, still(vec), 2, out=used)
    with nested_vec("sync") as other:
        with pytest.raises(ValueError, match=r"out=...\): expected observations of the spaces of this env"):
            rollout(other, orders, 3, out=used)
    used.actions.flags.writeable = False
    with pytest.raises(ValueError, match=r"out=...\): actions: expected a writable, C-contiguous array"):
        rollout(vec, still(vec), 3, out=used)


# -- the record --------------------------------------------------------------------------------------------


def test_the_record_is_frozen_and_can_be_pickled():
    record = rollout(NCount([1, 3]), parity, 3)
    with pytest.raises(FrozenInstanceError):
        record.rewards = None
    assert not hasattr(record, "__dict__")
    assert repr(record) == "<Rollout num_steps=3 num_envs=2 episodes=4>"
    again = pickle.loads(pickle.dumps(record))
    assert isinstance(again, Rollout)
    for name in FIELDS:
        assert_same(getattr(record, name), getattr(again, name), name)


def test_a_record_goes_through_savez_and_back(tmp_path):
    scripts = [[(nested(k), float(k), k == n, False, {"k": k}) for k in range(1, n + 1)] for n in (3, 2)]
    vec = NativeToy(scripts, obs=NESTED, act=ORDERS, r0=nested(0))
    record = rollout(vec, orders, 4, infos=("k",))
    flat = record.to_dict()
    parts = ["price", "book/0/values", "book/0/mask", "book/1"]
    assert list(flat) == [
        *(f"observations/{part}" for part in parts),
        *(f"actions/{part}" for part in ("side", "size/0", "size/1")),
        *("rewards", "terminated", "truncated", "frozen"),
        *(f"last_observations/{part}" for part in parts),
        "final_indices",
        *(f"final_observations/{part}" for part in parts),
        "infos/k",
    ]
    assert flat["observations/book/0/mask"] is record.observations["book"][0]["mask"]
    np.savez(tmp_path / "record.npz", **flat)
    with np.load(tmp_path / "record.npz") as saved:
        assert_same(flat, dict(saved))


def test_two_arrays_of_one_path_are_refused():
    space = Dict({"a/b": Discrete(2), "a": Dict(b=Discrete(2))})
    script = [({"a/b": 0, "a": {"b": 1}}, 0.0, False, False, {})] * 3
    vec = NativeToy([script], obs=space, r0=script[0][0])
    with pytest.raises(ValueError, match="expected one array at 'observations/a/b', got two"):
        rollout(vec, still(vec), 2).to_dict()


def test_spaces_without_parts_are_kept_as_they_are():
    script = [({}, 1.0, k == 2, False, {}) for k in (1, 2)]
    record = rollout(NativeToy([script], obs=Dict({}), r0={}), lambda observations: [0], 3)
    assert record.observations == record.final_observations == record.next_observations() == {}
    assert record.episode_returns.tolist() == [2.0]


def test_the_name_is_the_function_s():
    from sekai.rollouts import rollout as same

    assert sekai.rollout is rollout is same


# -- the progress bar --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_progress_bar_is_drawn_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    rollout(NCount([2]), parity, 9)
    assert "/9" in sys.stderr.getvalue() and "step" in sys.stderr.getvalue()


def test_the_bar_advances_with_every_step_and_ends_with_the_rollout(monkeypatch):
    class Bar(nullcontext):
        advances, arguments = [], None

        def __init__(self, **kwargs):
            super().__init__(self)
            Bar.arguments = kwargs

        def update(self, advance):
            Bar.advances.append(advance)

        def __exit__(self, *exc):
            Bar.advances.append("end")

    def policy(observations):
        if len(Bar.advances) == 5:
            raise KeyboardInterrupt
        return parity(observations)

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=Bar))
    rollout(NCount([2]), policy, 3)
    with pytest.raises(KeyboardInterrupt):
        rollout(NCount([2]), policy, 3)
    assert Bar.advances == [1, 1, 1, "end", 1, "end"]
    assert Bar.arguments["total"] == 3


@pytest.mark.parametrize(
    ("stderr", "progress", "tqdm"),
    [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), True, True), (None, True, True)],
    ids=["not wanted", "no tqdm", "no terminal", "no stderr"],
)
def test_no_progress_bar(monkeypatch, stderr, progress, tqdm):
    if not tqdm:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", stderr)
    rollout(NCount([2]), parity, 9, progress=progress)
    assert stderr is None or stderr.getvalue() == ""


# -- one history that all share ----------------------------------------------------------------------------


class Along(sekai.Env):
    """A bar of a history, from a start drawn at random, for 3 or 4 steps."""

    observation_space = sekai.Box(-np.inf, np.inf, (1,))
    action_space = sekai.Discrete(2)
    history_clock = "bar"

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.bar = int(self.rng.integers(100))
        self.end = self.bar + int(self.rng.integers(3, 5))
        return sekai.ResetResult(np.zeros(1, np.float32), {"bar": self.bar})

    def step(self, action):
        self.bar += 1
        info = {"bar": self.bar, "start": self.end}
        return sekai.StepResult(np.zeros(1, np.float32), 1.0, self.bar == self.end, False, info)


@pytest.mark.parametrize("autoreset", [True, False])
@pytest.mark.parametrize("make", [sekai.SyncVecEnv, sekai.AsyncVecEnv])
def test_d3_where_episodes_lie_on_one_history_is_kept(make, autoreset):
    with make([Along] * 3, autoreset=autoreset) as vec:
        policy = lambda seen: np.zeros(3, np.int64)  # noqa: E731
        bare = sekai.rollout(vec, policy, 9, seed=1, progress=False)
        record = sekai.rollout(vec, policy, 9, seed=1, infos=("bar", "start"), out=bare, progress=False)
    assert bare.infos == {} and list(record.infos) == ["bar", "start"]
    np.testing.assert_array_equal(record.history, record.infos["bar"])
    ends = tuple(record.episode_ends.T)
    assert record.episode_starts.dtype == np.int64 and len(ends[0]) >= 3
    assert (record.episode_starts + record.episode_lengths).tolist() == record.infos["start"][ends].tolist()
    assert "history" in record.to_dict()


def test_without_a_history_there_is_none():
    class Nowhere(Along):
        history_clock = None

    class Forgets(sekai.VecWrapper):
        def get_attr(self, name):
            raise sekai.VecEnvAttributeError(0, "AttributeError", "no such attribute")

    for vec in (sekai.SyncVecEnv([Nowhere] * 2), Forgets(sekai.SyncVecEnv([Along] * 2))):
        record = sekai.rollout(vec, lambda seen: np.zeros(2, np.int64), 3, seed=0, progress=False)
        assert record.history is None and record.episode_starts is None
        assert not any(name.startswith("history") for name in record.to_dict())


class Unclocked(Along):
    history_clock = None


class Otherwise(Along):
    history_clock = "start"


class Untold(Along):
    """Names a clock that its steps do not tell."""

    def step(self, action):
        result = super().step(action)
        del result.info["bar"]
        return result


@pytest.mark.parametrize("second", [Unclocked, Otherwise, Untold])
@pytest.mark.parametrize("autoreset", [True, False])
def test_a_mixture_has_no_history(second, autoreset):
    with sekai.SyncVecEnv([Along, second], autoreset=autoreset) as vec:
        record = sekai.rollout(vec, lambda seen: np.zeros(2, np.int64), 9, seed=0, infos=("start",), progress=False)
    assert len(record.episode_ends) >= 2
    assert record.history is None and record.episode_starts is None
    assert list(record.infos) == ["start"]


def test_a_clock_that_no_step_tells_is_no_history():
    with sekai.SyncVecEnv([Untold] * 2) as vec:
        policy = lambda seen: np.zeros(2, np.int64)  # noqa: E731
        assert sekai.rollout(vec, policy, 3, seed=0, progress=False).history is None
        with pytest.raises(KeyError, match="no info 'bar' in the first step"):
            sekai.rollout(vec, policy, 3, seed=0, infos=("bar",), progress=False)
