"""Snapshots: any state of any backend, kept and gone back to, branched, elsewhere; and resets of some sub-envs."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import pickle
import signal
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
from backends import assert_same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sekai
from sekai import Box, Discrete, Env, ResetResult, StepResult, TimeLimit
from sekai.kernels import jit, streams
from sekai.snapshots import Snapshot
from sekai.vector import (
    AsyncVecEnv,
    KernelVecEnv,
    NativeVecEnv,
    ProcVecEnv,
    Randomized,
    SyncVecEnv,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecWrapper,
    column,
)

N = 4

# -- markets ---------------------------------------------------------------------------------------------------


class Params(NamedTuple):
    drift: float = 0.0
    fee: float = 0.5
    limit: float = 3.0


class State(NamedTuple):
    price: np.float64
    last: column(np.float32, 2)
    trades: np.int64


class Rates(NamedTuple):
    shift: np.float64


@jit
def derive_row(params) -> Rates:
    return Rates(2.0 * params.drift)


@jit
def reset_row(state, random, i):
    state.price[i], state.trades[i] = streams.normal(random, i), 0
    state.last[i, 0] = state.last[i, 1] = 0.0


@jit
def step_row(params, derived, state, random, i, action):
    state.last[i, 0] = state.last[i, 1]
    state.last[i, 1] = state.price[i]
    state.price[i] += derived.shift + streams.normal(random, i)
    state.trades[i] += action
    return state.price[i] - params.fee * action, abs(state.price[i]) > params.limit, False


@jit
def observe_row(state, i, observation):
    observation[0], observation[1] = state.price[i], state.last[i, 0]


class Rows(KernelVecEnv):
    Params, State = Params, State
    derive_row, reset_row, step_row, observe_row = derive_row, reset_row, step_row, observe_row
    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(2)
    infos = ("price", "last", "trades")


class Stepped(Rows):
    """With a hook of its own, so that it runs as any other native env, and an attribute of its own."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.seen = np.zeros(num_envs)

    def _step(self, actions):
        self.seen += 1.0
        rewards, terminated, truncated, infos = super()._step(actions)
        return rewards + self.seen, terminated, truncated, infos


class Pair(NamedTuple):
    price: np.ndarray
    volume: np.ndarray


class Arrays(NativeVecEnv):
    """In arrays of its own; a step rebinds one of them and alters another."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, Box(-np.inf, np.inf, (1,), np.float64), Discrete(2), **kwargs)
        self.walk = np.zeros(num_envs)
        self.book = Pair(np.zeros(num_envs), np.zeros((num_envs, 2)))
        self.scale = 2.0

    def _reset_envs(self, indices, options):
        self.walk[indices] = 0.0
        self.book.price[indices], self.book.volume[indices] = 1.0, 0.0

    def _observe(self):
        return self.walk[:, None]

    def _step(self, actions):
        made = self.streams
        drawn = np.array([streams.normal(made, i) for i in range(self.num_envs)])
        self.walk = self.walk + self.scale * drawn
        self.book.price[:] += self.walk
        self.book.volume[:, 0] += actions
        over = np.abs(self.walk) > 4.0
        return self.book.price * 1.0, over, np.zeros(self.num_envs, bool), {"volume": self.book.volume}


class Drawn(Arrays):
    """Draws from the generator that its sub-envs share."""

    def _step(self, actions):
        self.walk += self.rng.normal(size=self.num_envs)
        return super()._step(actions)


class Walk(Env):
    """An Env object with a stream and a list."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.path = [float((options or {}).get("start", 0.0))]
        return ResetResult(np.array(self.path[-1:]), {"begun": self.path[0]})

    def step(self, action):
        self.path.append(self.path[-1] + self.rng.normal() + action)
        return StepResult(
            np.array(self.path[-1:]), self.path[-1], abs(self.path[-1]) > 3.0, False, {"n": len(self.path)}
        )


class Brief(Walk):
    """Says its state itself."""

    def snapshot(self):
        return self.path[-1], len(self.path), self.rng.bit_generator.state

    def restore(self, snapshot):
        last, count, self.rng.bit_generator.state = snapshot
        self.path = [last] * count


def objects(backend, **kwargs):
    def make(num_envs, autoreset=True, kind=Walk):
        return backend([lambda: TimeLimit(kind(), 6)] * num_envs, autoreset=autoreset, **kwargs)

    return make


NATIVE = {"rows": Rows, "stepped": Stepped, "arrays": Arrays, "drawn": Drawn}
HERE = {**NATIVE, "sync": objects(SyncVecEnv), "async": objects(AsyncVecEnv)}
PROC = {
    "proc": objects(ProcVecEnv, num_workers=2),
    "proc-grouped-pipe": objects(ProcVecEnv, num_workers=2, shared_memory=False),
}
#: All in this process, and each kind of workers once, with autoreset or without: starting them takes its time.
EVERYWHERE = [(name, autoreset) for name in HERE for autoreset in (True, False)]
EVERYWHERE += [("proc", False), ("proc-grouped-pipe", True)]
everywhere = pytest.mark.parametrize(
    ("name", "autoreset"),
    EVERYWHERE,
    ids=[f"{name}-{'autoreset' if auto else 'freezing'}" for name, auto in EVERYWHERE],
)


def every_wrapper(vec):
    return VecNormalizeReward(VecNormalizeObservation(VecRecordEpisodeStatistics(vec)))


def actions_of(vec, count, seed=1):
    space = copy.deepcopy(vec.batch_action_space)
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def shown(result, timed=False):
    infos = [dict(info) for info in result.infos]
    for info in infos if timed else ():
        for each in (info, info.get("final_info", {})):
            each.pop("episode", None)
    return result.observations, result.rewards, result.terminated, result.truncated, infos


def play(vec, actions):
    return [shown(vec.step(each), timed=True) for each in actions]


def go_back_and_compare(vec, autoreset):
    vec.reset(seed=5)
    play(vec, actions_of(vec, 7))
    kept = pickle.loads(pickle.dumps(vec.snapshot()))
    actions = actions_of(vec, 9, seed=2)
    expected = play(vec, actions)
    vec.restore(kept)
    assert_same(expected, play(vec, actions))
    return kept, actions, expected


# -- going back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda vec: vec, every_wrapper], ids=["bare", "wrapped"])
@everywhere
def test_the_same_actions_give_the_same_numbers_after_a_restore(name, wrap, autoreset):
    if name in PROC and (name == "proc") != (wrap is every_wrapper):
        pytest.skip("each kind of workers once")
    make = {**HERE, **PROC}[name]
    with wrap(make(N, autoreset=autoreset)) as vec:
        kept, actions, expected = go_back_and_compare(vec, autoreset)
        with wrap(make(N, autoreset=autoreset)) as another:  # never reset
            another.restore(kept)
            assert_same(expected, play(another, actions))
            if name in NATIVE:
                another.restore(kept)
                assert another.snapshot() == kept


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(["rows", "stepped", "arrays", "sync", "async"]),
    wrapped=st.booleans(),
    autoreset=st.booleans(),
    before=st.integers(0, 8),
    between=st.integers(0, 8),
    rows=st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True),
    target=st.permutations(range(N + 2)),
)
def test_some_sub_envs_go_back_elsewhere_and_the_others_go_on(name, wrapped, autoreset, before, between, rows, target):
    wrap = VecRecordEpisodeStatistics if wrapped else lambda vec: vec
    source, other, still = (wrap(HERE[name](n, autoreset=autoreset)) for n in (N, N + 2, N + 2))
    for vec, seed in ((source, 1), (other, 2), (still, 2)):
        vec.reset(seed=seed)
        play(vec, actions_of(vec, before))
    kept = source.snapshot(rows)
    assert len(kept) == len(rows)
    for vec in (other, still):
        play(vec, actions_of(vec, between, seed=3))
    target = list(target[: len(rows)])
    other.restore(kept, target)
    rest = [row for row in range(N + 2) if row not in target]
    for step in range(6):
        one = np.arange(N) % 2 if step % 2 else np.zeros(N, int)
        two = np.ones(N + 2, int)
        two[target] = one[rows]
        got, expected, alone = (
            shown(vec.step(acts), timed=True) for vec, acts in ((other, two), (source, one), (still, two))
        )
        for one_part, two_part, three in zip(expected, got, alone, strict=True):
            for row, at in zip(rows, target, strict=True):
                assert_same(one_part[row], two_part[at])
            for row in rest:
                assert_same(three[row], two_part[row])


def test_a_frozen_sub_env_goes_on_acting_as_it_did_when_another_is_restored():
    acted = []

    class Seen(Arrays):
        def _step(self, actions):
            acted.append(actions.tolist())
            return super()._step(actions)

    vec = Seen(2, autoreset=False, max_episode_steps=2)
    vec.reset(seed=0)
    kept = vec.snapshot([0])
    for actions in ([1, 1], [0, 1]):
        vec.step(actions)
    assert vec.frozen.all()
    vec.restore(kept, [0])
    vec.step([0, 0])
    assert acted[-1] == [0, 1]


@pytest.mark.parametrize("name", [*HERE, pytest.param("proc", marks=pytest.mark.slow)])
def test_branches_of_one_sub_env_equal_each_other_under_equal_actions(name):
    if name == "drawn":
        pytest.skip("what draws from a shared generator has no branches")
    with {**HERE, **PROC}[name](N) as vec:
        vec.reset(seed=0)
        play(vec, actions_of(vec, 3))
        vec.restore(vec.snapshot(2))
        for action in (0, 1, 1, 0, 1):
            observations, rewards, *_ = shown(vec.step(np.full(N, action)))
            assert len({*rewards.tolist()}) == 1 and (observations == observations[0]).all()


def restore_in_another_process(pickled, actions, queue):
    name, kept = pickle.loads(pickled)
    vec = HERE[name](N)
    vec.restore(kept)
    queue.put(pickle.dumps(play(vec, actions)))


@pytest.mark.parametrize("name", ["rows", *(pytest.param(name, marks=pytest.mark.slow) for name in ("arrays", "sync"))])
def test_a_snapshot_goes_on_in_another_process(name):
    vec = HERE[name](N)
    kept, actions, expected = go_back_and_compare(vec, True)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=restore_in_another_process, args=(pickle.dumps((name, kept)), actions, queue))
    worker.start()
    got = pickle.loads(queue.get())
    worker.join()
    assert_same(expected, got)


def test_env_objects_go_on_under_any_backend():
    expected, kept = None, None
    for name in ("sync", "async", *PROC, "sync"):
        with {**HERE, **PROC}[name](N, kind=Brief) as vec:
            vec.reset(seed=3)
            if kept is None:
                play(vec, actions_of(vec, 4))
                kept = vec.snapshot()
            else:
                vec.restore(kept)
            got = play(vec, actions_of(vec, 8, seed=2))
            expected = got if expected is None else expected
            assert_same(expected, got)
            kept = kept if name == "sync" else vec_snapshot_before(vec, kept)


def vec_snapshot_before(vec, kept):
    """The same state, kept by this backend."""
    vec.restore(kept)
    return vec.snapshot()


def test_single_envs_are_kept_too():
    sekai.register("Kept-v0", vector_entry_point=Rows)
    try:
        with sekai.make("Kept-v0", fee=0.25) as env, sekai.make("Kept-v0", fee=0.25) as other:
            env.reset(seed=1)
            for action in (0, 1):
                env.step(action)
            kept = env.snapshot()
            expected = [env.step(1).reward for _ in range(5)]
            env.restore(kept)
            assert [env.step(1).reward for _ in range(5)] == expected
            other.restore(pickle.loads(pickle.dumps(kept)))
            assert [other.step(1).reward for _ in range(5)] == expected
    finally:
        sekai.deregister("Kept-v0")


def test_parameters_that_sub_envs_have_of_their_own_go_with_them():
    vec = Rows(N, drift=Randomized(0.5, 1.5), fee=[0.0, 1.0, 2.0, 3.0])
    vec.reset(seed=0)
    kept, drifts = vec.snapshot([1, 3]), vec.drift
    vec.reset(seed=9)
    vec.restore(kept, [0, 2])
    assert vec.drift[[0, 2]].tolist() == drifts[[1, 3]].tolist() and vec.fee.tolist() == [1.0, 1.0, 3.0, 3.0]
    before = vec.price[0]
    twin = Rows(N, drift=drifts, fee=[0.0, 1.0, 2.0, 3.0])
    twin.reset(seed=0)
    twin.restore(vec.snapshot(0).__class__.concatenate([twin.snapshot([0])]), [0])
    moved = vec.step(np.zeros(N, int)).infos[0]["price"] - before
    random = streams.Streams(kept.columns["random.key"].copy(), kept.columns["random.counter"].copy())
    assert moved == pytest.approx(2.0 * drifts[1] + streams.normal(random, 0), abs=1e-12)


def test_parameters_of_the_whole_market_have_to_agree_or_are_kept():
    vec, other = Rows(N), Rows(N, fee=2.0)
    vec.reset(seed=0)
    kept = vec.snapshot()
    with pytest.raises(ValueError, match=r"restore\(snapshot\): params.fee: expected 2.0, got 0.5"):
        other.restore(kept)
    with pytest.raises(sekai.ResetRequired):
        other.step(np.zeros(N, int))
    other.restore(kept, parameters="keep")
    acted = np.ones(N, int)
    assert vec.step(acted).rewards - other.step(acted).rewards == pytest.approx(np.full(N, 1.5))
    with pytest.raises(ValueError, match=r"restore\(parameters=...\): expected 'match' or 'keep', got 'mix'"):
        vec.restore(kept, parameters="mix")


def test_a_generator_that_sub_envs_share_is_kept_as_a_whole_or_not_at_all():
    vec, quiet = Drawn(N), Arrays(N)
    for each in (vec, quiet):
        each.reset(seed=0)
        each.step(np.zeros(N, int))
    for refused in (lambda: vec.snapshot([1]), lambda: vec.restore(quiet_like(vec), [1])):
        with pytest.raises(ValueError, match="they share"):
            refused()
    with pytest.raises(ValueError, match="they share a generator"):
        vec.snapshot()[1]
    assert len(quiet.snapshot([1])) == 1
    quiet.rng.normal()
    with pytest.raises(ValueError, match="they share the generator rng"):
        quiet.snapshot([1])


def test_a_generator_that_was_only_looked_at_is_none_that_sub_envs_share():
    looked, vec = Arrays(N), Arrays(N)
    for each in (looked, vec):
        each.reset(seed=0)
    assert looked.rng.bit_generator.state["has_uint32"] == 0
    assert looked.snapshot() == vec.snapshot() and len(looked.snapshot([1])) == 1
    vec.restore(looked.snapshot())
    assert vec.rng.normal() == looked.rng.normal()
    looked.reset(seed=0)
    looked.rng.spawn(1)
    with pytest.raises(ValueError, match="they share the generator rng"):
        looked.snapshot([1])


def test_a_generator_that_was_never_seeded_goes_on_too():
    vec = Drawn(N)
    vec.reset()
    kept, actions = vec.snapshot(), actions_of(vec, 3)
    expected = play(vec, actions)
    vec.restore(kept)
    assert_same(expected, play(vec, actions))


def quiet_like(vec):
    fresh = type(vec)(N)
    fresh.reset(seed=0)
    return fresh.snapshot([1])


def test_statistics_of_wrappers_are_part_of_a_whole_snapshot_and_left_alone_by_another():
    vec = VecNormalizeReward(VecNormalizeObservation(Rows(N)))
    vec.reset(seed=0)
    play(vec, actions_of(vec, 5))
    kept, part = vec.snapshot(), vec.snapshot([0, 1])
    seen = copy.deepcopy(vec.venv.state_dict()), copy.deepcopy(vec.state_dict())
    play(vec, actions_of(vec, 5))
    later = copy.deepcopy(vec.venv.state_dict()), copy.deepcopy(vec.state_dict())
    vec.restore(part, [0, 1])
    assert (vec.venv.state_dict(), vec.state_dict()) == later != seen
    vec.restore(kept)
    assert (vec.venv.state_dict(), vec.state_dict()) == seen


def test_an_episode_that_is_gone_on_with_counts_from_where_it_was():
    vec = VecRecordEpisodeStatistics(Rows(N, limit=1e9, max_episode_steps=6))
    vec.reset(seed=0)
    play(vec, actions_of(vec, 4))
    kept = vec.snapshot()
    play(vec, actions_of(vec, 9))
    vec.restore(kept)
    vec.step(np.zeros(N, int))
    episode = vec.step(np.zeros(N, int)).infos[0]["episode"]
    assert episode.episode_length == 6 and 0.0 <= episode.elapsed_time


# -- snapshots as data -----------------------------------------------------------------------------------------


def test_snapshots_are_data():
    vec = Rows(N)
    vec.reset(seed=0)
    kept = vec.snapshot()
    assert len(kept) == N and kept.nbytes == sum(each.nbytes for each in kept.columns.values()) > 0
    assert repr(kept) == f"<Snapshot of 4 sub-envs of {Rows.__module__}.Rows>"
    assert repr(kept[0]) == f"<Snapshot of 1 sub-env of {Rows.__module__}.Rows>"
    assert kept == vec.snapshot() == pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept)
    joined = Snapshot.concatenate([kept[2:], kept[[0, 1]]])
    assert joined == vec.snapshot([2, 3, 0, 1]) and [len(each) for each in joined] == [1] * N
    assert kept[np.array([True, False, False, True])] == vec.snapshot([0, 3])
    vec.step(np.zeros(N, int))
    assert kept != vec.snapshot() and kept != 3
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(kept)).columns["state.price"][0] = 1.0
    for wrong, error in (([], ValueError), ([kept, 3], TypeError), ([kept, twin_snapshot()], ValueError)):
        with pytest.raises(error, match=r"Snapshot.concatenate\(snapshots\)"):
            Snapshot.concatenate(wrong)


def twin_snapshot():
    other = Rows(N, fee=1.0)
    other.reset(seed=0)
    return other.snapshot()


def refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_does_not_fit_is_refused_and_changes_nothing():
    vec = Rows(N)
    vec.reset(seed=0)
    before = vec.snapshot()
    arrays, wrapped, limited = Arrays(N), VecRecordEpisodeStatistics(Rows(N)), Rows(N, max_episode_steps=9)
    frozen, own = Rows(N, autoreset=False), Rows(N, fee=[1.0, 2.0, 3.0, 4.0])
    for each in (arrays, wrapped, limited, frozen, own):
        each.reset(seed=0)
    where = r"restore\(snapshot\): "
    for snapshot, message in (
        (before[[0, 1, 2]], where + "expected one of 1 or 4 sub-envs, got one of 3"),
        (arrays.snapshot(), where + r"expected one of .*Rows, got one of .*Arrays"),
        (wrapped.snapshot(), where + r"expected one of .*Rows, got one of .*Rows in .*VecRecordEpisodeStatistics"),
        (limited.snapshot(), where + "max_episode_steps: expected None, got 9"),
        (frozen.snapshot(), where + "the layout of its columns: absent: expected none, got bool"),
        (own.snapshot(), where + "fee: expected one value for all sub-envs, got one for each .*keep"),
    ):
        refused(lambda snapshot=snapshot: vec.restore(snapshot), ValueError, message)
    mirrored = where + r"fee: expected one for each \(given so, or drawn\), got one value for all sub-envs; .*keep"
    refused(lambda: own.restore(before), ValueError, mirrored)
    for one, other in ((vec, own), (own, vec)):
        one.restore(other.snapshot(), parameters="keep")
    vec.restore(before)
    for call, error, message in (
        (lambda: vec.restore(before, [0, 1]), ValueError, "expected one of 1 or 2 sub-envs, got one of 4"),
        (lambda: vec.restore(before[[0, 1]], [0, 0]), ValueError, "expected each sub-env once, got"),
        (
            lambda: vec.restore(before[0], 4),
            ValueError,
            r"restore\(indices=...\): expected sub-envs in \[0, 3\], got \[4\]",
        ),
        (lambda: vec.restore(before[0], -1), ValueError, r"expected sub-envs in \[0, 3\], got \[-1\]"),
        (lambda: vec.snapshot([0.5]), TypeError, r"snapshot\(indices=...\): expected integers, or a mask of sub-envs"),
        (lambda: vec.snapshot([True, False]), ValueError, r"expected a mask of shape \(4,\) \(num_envs\), got \(2,\)"),
        (lambda: vec.restore({}), TypeError, r"restore\(snapshot\): expected a Snapshot, got {}"),
        (lambda: Rows(N).snapshot(), sekai.ResetRequired, r"Rows.snapshot\(\): call reset\(\) first"),
        (lambda: Rows(N).restore(before[0], 0), sekai.ResetRequired, r"restore\(\) of some sub-envs: call reset\(\)"),
    ):
        refused(call, error, message)
    assert vec.snapshot() == before
    vec.close()
    refused(vec.snapshot, sekai.VecEnvClosed, "snapshot")
    refused(lambda: vec.restore(before), sekai.VecEnvClosed, "restore")


@pytest.mark.parametrize("name", ["sync", "proc"])
def test_what_cannot_be_read_changes_no_sub_env(name):
    with {**HERE, **PROC}[name](N) as vec:
        vec.reset(seed=0)
        kept = vec.snapshot()
        column = kept.columns["env"].copy()
        column[2] = column[2][:40]
        columns = {**kept.columns, "env": column}
        spaces = kept.observation_space, kept.action_space
        torn = Snapshot(kept.market, spaces, kept.kept._replace(columns=columns))
        play(vec, actions_of(vec, 2))
        expected = vec.call("path")
        error = ValueError if name == "sync" else sekai.VecEnvWorkerError
        refused(lambda: vec.restore(torn), error, "sub-env 2: .*expected what snapshot")
        assert vec.call("path") == expected


@pytest.mark.parametrize("name", ["sync", "proc"])
def test_columns_that_are_missing_or_of_another_dtype_are_refused(name):
    with {**HERE, **PROC}[name](N) as vec:
        vec.reset(seed=0)
        kept = vec.snapshot()
        (shown,) = set(kept.columns) - {"env"}
        for columns in (
            {"env": kept.columns["env"]},
            {**kept.columns, shown: kept.columns[shown].astype(np.float16)},
            {**kept.columns, "more": np.zeros(N)},
        ):
            spaces = kept.observation_space, kept.action_space
            other = Snapshot(kept.market, spaces, kept.kept._replace(columns=columns))
            refused(lambda other=other: vec.restore(other), ValueError, "the layout of its columns")
        assert vec.snapshot() == kept


class Picky(Brief):
    """Finds out that it cannot go on from somewhere when it is there already."""

    def restore(self, snapshot):
        super().restore(snapshot)
        if len(self.path) == 99:
            raise ValueError("99 is too far")


@pytest.mark.parametrize("name", ["sync", "async", pytest.param("proc", marks=pytest.mark.slow)])
def test_an_env_that_refuses_in_the_middle_leaves_none_restored(name):
    make = objects(ProcVecEnv, num_workers=1) if name == "proc" else HERE[name]
    with make(N, kind=Picky) as vec, make(N, kind=Picky) as twin:
        for each in (vec, twin):
            each.reset(seed=0)
            play(each, actions_of(each, 3))
        twin.set_attr("path", [[0.5] * 99], indices=[2])
        kept = twin.snapshot()
        play(vec, actions_of(vec, 2, seed=2))
        before = vec.snapshot()
        error = sekai.VecEnvWorkerError if name == "proc" else ValueError
        refused(lambda: vec.restore(kept), error, "99 is too far")
        assert vec.snapshot() == before
        vec.restore(kept[[3, 1]], [1, 3])
        assert [len(path) for path in vec.call("path")] == [6, 4, 6, 4]


@pytest.mark.slow
@pytest.mark.parametrize("shared_memory", [True, False], ids=["shared", "pipe"])
def test_those_of_a_worker_in_which_none_refuses_go_back_too(shared_memory):
    env_fns = [lambda kind=kind: TimeLimit(kind(), 6) for kind in (Walk, Walk, Picky, Picky)]
    with ProcVecEnv(env_fns, autoreset=False, num_workers=2, shared_memory=shared_memory) as vec:
        vec.reset(seed=0)
        play(vec, actions_of(vec, 3))
        vec.set_attr("path", [[0.5] * 99], indices=[2])
        kept = vec.snapshot()
        play(vec, actions_of(vec, 3))
        before, shown = [(len(path), path[-1]) for path in vec.call("path")], vec.step([0] * 4)
        assert vec.frozen.all()
        refused(lambda: vec.restore(kept), sekai.VecEnvWorkerError, "sub-env 2: ValueError: 99 is too far")
        assert [(len(path), path[-1]) for path in vec.call("path")] == before
        assert vec.frozen.all()
        assert_same(vec.step([0] * 4), shown)
        refused(lambda: vec.restore(kept[2], 3), sekai.VecEnvWorkerError, "sub-env 3: ValueError: 99 is too far")


class Waits(Brief):
    """Waits in its restore() until it is told to go on."""

    def __init__(self, folder):
        self.folder = folder

    def restore(self, snapshot):
        (self.folder / "waits").touch()
        for _ in range(6000):
            if (self.folder / "goes on").exists():
                break
            time.sleep(0.01)
        super().restore(snapshot)


@pytest.mark.slow
def test_a_restore_that_is_interrupted_asks_for_a_reset(tmp_path):
    def press():
        for _ in range(6000):
            if (tmp_path / "waits").exists():
                break
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with ProcVecEnv([Walk, lambda: Waits(tmp_path)], num_workers=2) as vec:
        vec.reset(seed=0)
        kept = vec.snapshot()
        expected = play(vec, actions_of(vec, 3))
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            vec.restore(kept)
        thread.join()
        (tmp_path / "goes on").touch()
        for call in (vec.snapshot, lambda: vec.step([0, 0]), lambda: vec.restore(kept[0], 0)):
            refused(call, sekai.ResetRequired, r"call reset\(\)")
        vec.restore(kept)
        assert_same(expected, play(vec, actions_of(vec, 3)))


class Steps(Walk):
    """Waits in its third step until it is told to go on."""

    def __init__(self, folder):
        self.folder = folder

    def step(self, action):
        if len(self.path) == 3 and not (self.folder / "goes on").exists():
            (self.folder / "waits").touch()
            for _ in range(6000):
                if (self.folder / "goes on").exists():
                    break
                time.sleep(0.01)
        return super().step(action)


@pytest.mark.slow
@pytest.mark.parametrize("shared_memory", [True, False], ids=["shared", "pipe"])
def test_a_snapshot_after_a_step_that_is_interrupted_holds_what_came_of_it_or_is_refused(shared_memory, tmp_path):
    def press():
        for _ in range(6000):
            if (tmp_path / "waits").exists():
                break
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    env_fns, thread = [Walk, lambda: Steps(tmp_path)], threading.Thread(target=press)
    with ProcVecEnv(env_fns, num_workers=2, shared_memory=shared_memory) as vec:
        vec.reset(seed=0)
        start = vec.snapshot()
        actions = actions_of(vec, 6)
        play(vec, actions[:2])
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            vec.step(actions[2])
        thread.join()
        (tmp_path / "goes on").touch()
        if shared_memory:
            kept = vec.snapshot()
        else:
            refused(vec.snapshot, sekai.ResetRequired, r"call step\(\) or reset\(\)")
        after = play(vec, actions[3:])
        vec.snapshot()
        vec.restore(start)
        play(vec, actions[:3])
        if shared_memory:
            assert vec.snapshot() == kept
        assert_same(after, play(vec, actions[3:]))


def test_markets_of_one_sub_env_are_restored_all_or_none():
    sekai.register("Paid-v0", vector_entry_point=Rows)
    try:
        one, other = ([lambda fee=fee: sekai.make("Paid-v0", fee=fee) for fee in fees] for fees in ((1, 1), (1, 2)))
        source, vec = SyncVecEnv(one), SyncVecEnv(other)
        for each in (source, vec):
            each.reset(seed=0)
        play(vec, actions_of(vec, 2))
        before = vec.snapshot()
        refused(lambda: vec.restore(source.snapshot()), ValueError, "params.fee: expected 2.0, got 1.0")
        assert vec.snapshot() == before
    finally:
        sekai.deregister("Paid-v0")


class Held(Walk):
    def reset(self, *, seed=None, options=None):
        self.lock = threading.Lock()
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("name", ["sync", pytest.param("proc", marks=pytest.mark.slow)])
def test_what_cannot_be_kept_is_named(name):
    with {**HERE, **PROC}[name](N, kind=Held) as vec:
        vec.reset(seed=0)
        error = TypeError if name == "sync" else sekai.VecEnvWorkerError
        refused(
            vec.snapshot, error, r"snapshot\(\): Held.lock: expected what can be pickled, got <unlocked _thread.lock"
        )
        vec.step(np.zeros(N, int))


class Counting(Arrays):
    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.history = []

    def _step(self, actions):
        self.history.append(1.0)
        return super()._step(actions)


class Told(Counting):
    """Says what its state is."""

    def _snapshot_rows(self, indices):
        return {**super()._snapshot_rows(indices), "steps": np.full(len(indices), len(self.history))}

    def _restore_rows(self, indices, rows):
        self.history = [1.0] * int(rows.pop("steps")[0])
        super()._restore_rows(indices, rows)


class Careless(Counting):
    snapshot_ignores = ("history",)


class Live(Arrays):
    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.feed = threading.Lock()


class Ticking(VecWrapper):
    def __init__(self, venv):
        super().__init__(venv)
        self.ticks = 0

    def step(self, actions):
        self.ticks += 1
        return super().step(actions)


def test_state_that_a_snapshot_would_miss_is_found_by_name():
    for vec, name in ((Counting(N), "Counting.history"), (Ticking(Arrays(N)), "Ticking.ticks")):
        vec.reset(seed=0)
        vec.step(np.zeros(N, int))
        expected = (
            rf"snapshot\(\): {name}: expected state in arrays with a first axis of num_envs, got another attribute"
        )
        refused(vec.snapshot, TypeError, expected)
    live = Live(N)
    live.reset(seed=0)
    refused(live.snapshot, TypeError, r"snapshot\(\): Live.feed: expected what can be pickled")
    for kind in (Told, Careless):
        vec = kind(N)
        go_back_and_compare(vec, True)
    told = Told(N)
    told.reset(seed=0)
    kept = told.snapshot()
    told.step(np.zeros(N, int))
    told.restore(kept)
    assert told.history == []


def test_what_has_changed_since_and_cannot_be_put_back_is_named():
    vec = Arrays(N)
    vec.reset(seed=0)
    kept = vec.snapshot()
    vec.scale = 3.0
    refused(lambda: vec.restore(kept), ValueError, r"restore\(snapshot\): scale: expected 3.0, got 2.0")


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_state_put_back_into_none_of_them_changes_none(num_envs):
    vec = Rows(num_envs)
    vec.reset(seed=0)
    kept = vec.snapshot(0)
    play(vec, actions_of(vec, 2))
    before = vec.snapshot()
    vec.restore(kept, [])
    assert vec.snapshot() == before != vec.snapshot(0).concatenate([kept] * num_envs)


def test_state_that_has_come_since_is_named_and_nothing_changes():
    vec = Rows(N)
    vec.reset(seed=0)
    kept, actions = vec.snapshot(), actions_of(vec, 2)
    play(vec, actions)
    vec.extra = np.arange(4.0)
    before = vec.snapshot()
    message = r"restore\(snapshot\): the layout of its columns: state.extra: expected float64 \(\), got none"
    for snapshot, rows in ((kept, None), (kept[0], 2)):
        refused(lambda snapshot=snapshot, rows=rows: vec.restore(snapshot, rows), ValueError, message)
    assert vec.snapshot() == before
    del vec.extra
    vec.restore(kept)
    assert vec.snapshot() == kept


def test_a_snapshot_in_the_middle_of_an_async_call_is_refused():
    import asyncio

    class Slow(Walk):
        async def async_step(self, action):
            await asyncio.sleep(0.01)
            return self.step(action)

    vec = AsyncVecEnv([Slow] * 2)
    vec.reset(seed=0)
    kept = vec.snapshot()

    async def both():
        stepping = asyncio.ensure_future(vec.async_step(np.zeros(2, int)))
        await asyncio.sleep(0)
        for call in (vec.snapshot, lambda: vec.restore(kept)):
            with pytest.raises(sekai.AsyncCallPending):
                call()
        return await stepping

    asyncio.run(both())
    vec.close()


# -- resets of some sub-envs, and their attributes -------------------------------------------------------------


@everywhere
def test_some_sub_envs_are_reset_in_the_middle_of_an_episode(name, autoreset):
    make = {**HERE, **PROC}[name]
    with make(N, autoreset=autoreset) as vec, make(N, autoreset=autoreset) as twin:
        whole = twin.reset(seed=8)
        vec.reset(seed=0)
        for action in (1, 1, 1):
            vec.step(np.full(N, action))
        result = vec.reset_envs([3, 1], seed=8)
        assert_same(whole.observations[[3, 1]], result.observations)
        assert_same([whole.infos[3], whole.infos[1]], list(result.infos))
        assert not vec.frozen[[1, 3]].any()
        if name in ("drawn", "stepped"):
            return  # a generator that is shared goes on, and so does a count of all steps
        for _ in range(3):
            got, expected = shown(vec.step(np.ones(N, int))), shown(twin.step(np.ones(N, int)))
            for one, two in zip(got, expected, strict=True):
                for row in (1, 3):
                    assert_same(two[row], one[row])


def test_a_reset_of_some_takes_seeds_and_options_for_each():
    for make in (objects(SyncVecEnv), objects(AsyncVecEnv), objects(ProcVecEnv, num_workers=2)):
        with make(N) as vec:
            vec.reset(seed=0)
            result = vec.reset_envs([2, 0], seed=[5, None], options=[{"start": 1.5}, None])
            assert result.observations.tolist() == [[1.5], [0.0]] and result.infos[0] == {"begun": 1.5}
            assert vec.get_attr("rng_seed", [2]) == [5]
            one = vec.reset_envs(np.array([False, True, False, False]), options={"start": 2.0})
            assert one.observations.tolist() == [[2.0]]
            for call, error in (
                (lambda: vec.reset_envs([0, 0]), ValueError),
                (lambda: vec.reset_envs([0, 1], seed=[1]), ValueError),
                (lambda: vec.reset_envs([0], seed=-1), ValueError),
                (lambda: vec.reset_envs([0, 1], options=[{}]), ValueError),
                (lambda: vec.reset_envs("0"), TypeError),
            ):
                with pytest.raises(error):
                    call()


@pytest.mark.parametrize("name", [*HERE, pytest.param("proc-grouped-pipe", marks=pytest.mark.slow)])
def test_sub_envs_that_are_reseeded_go_on_with_other_streams(name):
    seeds = sekai.make_seed_sequence(9, N)
    with every_wrapper({**HERE, **PROC}[name](N)) as vec:
        vec.reset(seed=0)
        play(vec, actions_of(vec, 3))
        kept, actions = vec.snapshot(), actions_of(vec, 5, seed=2)

        def rewards_after(*reseeded):
            vec.restore(kept)
            if reseeded:
                vec.reseed(*reseeded)
            vec.venv.update_running_mean = vec.update_running_mean = False  # so that rows do not move each other
            return np.array([vec.step(each).rewards for each in actions])

        before, after = rewards_after(), rewards_after(9)
        assert (before[:3] != after[:3]).all()
        assert_same(after, rewards_after(9))
        assert_same(before, rewards_after([None] * N))
        if name != "drawn":  # whose one generator is seeded for all or not at all
            assert_same(after, rewards_after(seeds))
            some = rewards_after([seeds[3], seeds[1]], [3, 1])
            assert_same(after[:, [1, 3]], some[:, [1, 3]])
            assert_same(before[:, [0, 2]], some[:, [0, 2]])


@pytest.mark.parametrize("name", list(HERE))
def test_streams_that_are_reseeded_are_those_that_a_reset_begins(name):
    with {**HERE, **PROC}[name](N) as vec, {**HERE, **PROC}[name](N) as twin:
        vec.reset(seed=0)
        vec.reseed(9)
        twin.reset(seed=9)
        if name in NATIVE:
            assert vec.streams.key.tolist() == twin.streams.key.tolist()
        if name not in ("rows", "stepped"):
            one, two = ([generator.random() for generator in each.get_attr("rng")] for each in (vec, twin))
            assert one == two


def test_single_envs_are_reseeded_as_they_are_reset():
    sekai.register("Reseeded-v0", vector_entry_point=Rows)
    try:
        with sekai.make("Reseeded-v0") as env, sekai.make("Reseeded-v0") as twin:
            env.reset(seed=1)
            env.reseed(5)
            twin.reset(seed=5)
            assert env.streams.key == twin.streams.key and env.rng_seed == 5
            env.reseed(None)
            assert env.streams.key == twin.streams.key
    finally:
        sekai.deregister("Reseeded-v0")


class Elsewhere(Walk):
    """Draws from a generator of its own."""

    def reset(self, *, seed=None, options=None):
        self.path, self.own = [0.0], np.random.default_rng(seed)
        return ResetResult(np.array([0.0]), {})


def test_what_cannot_be_reseeded_is_named():
    for backend, error in ((SyncVecEnv, NotImplementedError), (ProcVecEnv, sekai.VecEnvWorkerError)):
        with backend([Elsewhere] * 2) as vec:
            with pytest.raises(sekai.ResetRequired, match="reseed"):
                vec.reseed(0)
            vec.reset(seed=0)
            refused(
                lambda vec=vec: vec.reseed(0), error, "Elsewhere>.reseed.*expected an env that has drawn from self.rng"
            )
    vec = Rows(N)
    vec.reset(seed=0)
    before = vec.snapshot()
    for arguments, error in (((-1,), ValueError), ((1.5,), TypeError), (([1],), ValueError), ((1, [0, 0]), ValueError)):
        with pytest.raises(error):
            vec.reseed(*arguments)
    assert vec.snapshot() == before


class Options(NamedTuple):
    start: float = 0.0


@jit
def reset_row_at(state, random, i, options):
    state.price[i], state.trades[i] = options.start + streams.normal(random, i), 0
    state.last[i, 0] = state.last[i, 1] = 0.0


class Optional(Rows):
    Options, reset_row = Options, reset_row_at


def test_options_of_some_rows_that_are_refused_change_nothing():
    vec = Optional(N)
    vec.reset(seed=0)
    vec.step(np.ones(N, int))
    before = vec.snapshot()
    for options, message in (({"stop": 1.0}, "got 'stop'"), ([None, {"start": "x"}], "sub-env 3: .*start")):
        with pytest.raises((TypeError, ValueError), match=message):
            vec.reset_envs([1, 3], seed=4, options=options)
    assert vec.snapshot() == before
    begun = vec.reset_envs([3, 1], seed=4, options=[{"start": 100.0}, None]).observations[:, 0]
    assert begun[0] > 90.0 > begun[1] and (vec.price[[3, 1]] == begun).all()


def test_statistics_of_an_episode_that_is_cut_off_are_dropped():
    vec = VecNormalizeReward(VecRecordEpisodeStatistics(Rows(N, limit=1e9, max_episode_steps=5)))
    vec.reset(seed=0)
    play(vec, actions_of(vec, 3))
    vec.reset_envs([1])
    assert vec.returns[1] == 0.0 != vec.returns[0]
    lengths = {}
    for _ in range(5):
        for row, info in enumerate(vec.step(np.zeros(N, int)).infos):
            if "episode" in info:
                lengths.setdefault(row, info["episode"].episode_length)
    assert lengths == {0: 5, 1: 5, 2: 5, 3: 5}
    assert {each.extra["env_index"] for each in vec.tracker.episodes} == set(range(N))


def test_a_wrapper_with_a_reset_of_its_own_is_not_passed_by():
    class Own(VecWrapper):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed, options=options)

    class Shifted(VecWrapper):
        def _after_reset(self, result):
            result.observations[:] += 1.0
            return result

    class ShiftedSome(Shifted):
        def _after_reset_some(self, result, rows):
            return self._after_reset(result)

    for kind in (Own, Shifted):
        vec = kind(Rows(N))
        vec.reset(seed=0)
        assert not vec.resets_some
        with pytest.raises(
            NotImplementedError, match=rf"{kind.__name__}.reset_envs\(\): it resets all its sub-envs or"
        ):
            vec.reset_envs([0])
    vec = ShiftedSome(Rows(N))
    assert (vec.reset(seed=0).observations[[2]] == vec.reset_envs([2], seed=0).observations).all()


@pytest.mark.parametrize("name", ["sync", "async", "proc-grouped-pipe"])
def test_attributes_and_methods_of_some_sub_envs(name):
    with {**HERE, **PROC}[name](N) as vec:
        vec.reset(seed=0)
        vec.set_attr("path", [[1.0], [2.0]], indices=[3, 0])
        assert vec.get_attr("path", [3, 1, 3]) == [[1.0], [0.0], [1.0]] and vec.get_attr("path")[0] == [2.0]
        assert vec.call_at([0, 3], "has_attr", "path") == [True, True]
        kept = vec.call_at([2], "step", 1)[0]
        assert kept.info["n"] == 2 and [len(path) for path in vec.get_attr("path")] == [1, 1, 2, 1]
        for call in (
            lambda: vec.set_attr("path", [[1.0]], indices=[1, 2]),
            lambda: vec.get_attr("path", [4]),
            lambda: vec.call_at([-1], "path"),
            lambda: vec.call_at([1, 1], "path"),
        ):
            with pytest.raises(ValueError):
                call()


def test_attributes_of_some_rows_of_a_native_env():
    vec = Arrays(N)
    vec.reset(seed=0)
    vec.set_attr("walk", [5.0, 7.0], indices=[1, 3])
    assert vec.walk.tolist() == [0.0, 5.0, 0.0, 7.0] and vec.get_attr("walk", [3]) == [7.0]
    rows = Rows(N, fee=[0.0, 1.0, 2.0, 3.0])
    rows.set_attr("fee", 9.0, indices=[0, 2])
    assert rows.fee.tolist() == [9.0, 1.0, 9.0, 3.0] and rows.call_at([2], "fee") == [9.0]
    wrapped = VecRecordEpisodeStatistics(rows)
    wrapped.set_attr("fee", 4.0, indices=3)
    assert wrapped.get_attr("fee", [3]) == [4.0] and wrapped.call_at(3, "fee") == [4.0]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda vec: pickle.loads(pickle.dumps(vec))], ids=["deep", "pickle"])
@pytest.mark.parametrize("name", list(HERE))
def test_a_copy_in_the_middle_of_an_episode_goes_on_alike(name, clone):
    class_of_backend = HERE[name]
    vec = class_of_backend(N)
    vec.reset(seed=0)
    play(vec, actions_of(vec, 3))
    other = clone(vec)
    actions = actions_of(vec, 8, seed=2)
    assert_same(play(vec, actions), play(other, actions))


def test_a_vec_env_of_processes_says_that_it_cannot_be_copied():
    with PROC["proc"](1) as vec:
        for clone in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a ProcVecEnv has processes and cannot be pickled or copied"):
                clone(vec)


# -- what once went wrong --------------------------------------------------------------------------------------


def test_parameters_of_sub_envs_find_their_places_whichever_are_drawn():
    one = Rows(2, drift=[2.0, 3.0], fee=Randomized(140.0, 141.0))
    other = Rows(2, drift=Randomized(1.0, 2.0), fee=[100.0, 101.0])
    for vec in (one, other):
        vec.reset(seed=0)
    with pytest.raises(ValueError, match=r"restore\(snapshot\): params\.(fee|drift): expected"):
        other.restore(one.snapshot())
    other.restore(one.snapshot(), parameters="keep")
    assert other.fee.tolist() == [100.0, 101.0]
    same = Rows(2, fee=Randomized(140.0, 141.0), drift=[7.0, 8.0])
    same.restore(one.snapshot())
    assert same.drift.tolist() == same.params.drift.tolist() == [2.0, 3.0] and same.fee.tolist() == one.fee.tolist()


def test_ranges_and_options_of_autoreset_have_to_agree():
    vec, other = Rows(N, drift=Randomized(1, 1.1)), Rows(N, drift=Randomized(50, 60))
    vec.reset(seed=0)
    with pytest.raises(ValueError, match=r"params.drift: expected Randomized\(low=50.0, .*, got Randomized\(low=1.0"):
        other.restore(vec.snapshot())
    told, untold = (Arrays(N, autoreset_options=options) for options in ({"a": 1}, None))
    told.reset(seed=0)
    with pytest.raises(ValueError, match="autoreset_options: expected None, got dict"):
        untold.restore(told.snapshot())


class Budgeted(Rows):
    """Made of row functions, with something of its own beside them."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.budget = [0] * num_envs

    def step(self, actions):
        self.budget = [each + 1 for each in self.budget]
        result = super().step(actions)
        result.rewards[:] = self.budget
        return result

    def _snapshot_rows(self, indices):
        return super()._snapshot_rows(indices) | {"budget": np.array(self.budget)[indices]}

    def _restore_rows(self, indices, rows):
        for row, value in zip(indices.tolist(), rows.pop("budget").tolist(), strict=True):
            self.budget[row] = value
        super()._restore_rows(indices, rows)


def test_a_subclass_of_a_row_market_says_what_else_there_is():
    vec = Budgeted(N)
    kept, *_ = go_back_and_compare(vec, True)
    assert "state.budget" in kept.columns
    vec.restore(kept[1], [0])
    assert vec.budget[0] == 7


class Hurried(Rows):
    """Holds what follows from its state, and restores it alone."""

    snapshot_ignores = ("doubled",)

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.doubled = None

    def step(self, actions):
        result = super().step(actions)
        self.doubled = 2 * self.price
        return result

    def _restore_rows(self, indices, rows):
        super()._restore_rows(indices, rows)
        self.doubled = 2 * self.price


def test_a_subclass_of_a_row_market_may_write_what_restores_it_alone():
    vec = Hurried(N)
    vec.reset(seed=0)
    vec.step(vec.batch_action_space.sample())
    kept = vec.snapshot()
    vec.step(vec.batch_action_space.sample())
    for restore in (lambda: vec.restore(kept), lambda: vec.restore(kept[2], [1])):
        restore()
        assert vec.doubled.tolist() == (2 * vec.price).tolist()


def test_a_row_market_keeps_the_generator_that_its_rows_share():
    vec = Rows(N)
    vec.reset(seed=1)
    fresh, some = vec.snapshot(), vec.snapshot([2])
    first = vec.rng.random()
    kept, second = pickle.loads(pickle.dumps(vec.snapshot())), vec.rng.random()
    for _ in range(2):
        vec.restore(kept)
        assert vec.rng.random() == second
    vec.reset(seed=2)  # begins another
    vec.restore(fresh)
    assert vec.rng.random() == first
    refused(lambda: vec.snapshot([2]), ValueError, r"snapshot\(indices=...\): .*share the generator rng")
    refused(lambda: vec.restore(some, [2]), ValueError, r"restore\(snapshot\): .*share the generator rng")
    refused(lambda: vec.restore(kept, range(N)[::-1]), ValueError, "all its sub-envs in their order")
    with sekai.make(sekai.EnvSpec("Rows-v0", vector_entry_point=Rows)) as env:
        env.reset(seed=1)
        kept, drawn = env.snapshot(), env.unwrapped.rng.random()
        env.restore(kept)
        assert env.unwrapped.rng.random() == drawn


class Bound(Walk):
    """Refers to itself, in a method and in a closure."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.count, self.callbacks, self.seen = 0, [self.tick], lambda: self.count
        return result

    def tick(self):
        self.count += 1

    def step(self, action):
        for each in self.callbacks:
            each()
        result = super().step(action)
        return StepResult(result.observation, float(self.seen()), False, False, {})


class Peeking(sekai.Wrapper):
    """Holds what is inside, and shares its generator."""

    def __init__(self, env):
        super().__init__(env)
        self.base, self.gen = env.unwrapped, None

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.gen = self.base.rng
        return result

    def step(self, action):
        result = super().step(action)
        return StepResult(result.observation, self.base.count + self.gen.normal(), False, False, {})


class Slotted(Walk):
    __slots__ = ("__hidden", "shown")

    def reset(self, *, seed=None, options=None):
        self.__hidden, self.shown = 0.0, 0.0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.__hidden += 1.0
        self.shown += self.__hidden
        return StepResult(super().step(action).observation, self.shown, False, False, {})


class Tucked(Walk):
    """Holds a number where only a property reads it, and another from its second step on."""

    @property
    def level(self):
        return vars(self)["level"]

    def reset(self, *, seed=None, options=None):
        vars(self)["level"] = 0.0
        vars(self).pop("late", None)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        vars(self)["level"] = self.level + (10.0 if hasattr(self, "late") else 1.0)
        if self.level > 1.0:
            self.late = True
        return StepResult(super().step(action).observation, self.level, False, False, {})


@pytest.mark.parametrize(
    "make",
    [Bound, lambda: Peeking(TimeLimit(Bound(), 99)), Slotted, Tucked],
    ids=["self", "inner", "slots", "property"],
)
def test_an_env_is_itself_again_with_all_it_refers_to(make):
    env, other = make(), make()
    for each in (env, other):
        each.reset(seed=1)
    env.step(0)
    kept = pickle.loads(pickle.dumps(env.snapshot()))
    expected = [env.step(1).reward for _ in range(3)]
    for each in (env, other, env):
        each.restore(kept)
        assert [each.step(1).reward for _ in range(3)] == expected


class Books(Arrays):
    """An object for each sub-env."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.books = np.array([[0] for _ in range(num_envs)] + [None], object)[:-1]

    def _step(self, actions):
        for book in self.books:
            book[0] += 1
        return super()._step(actions)


class Table(Arrays):
    """A table that all share, of as many entries as there are sub-envs."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.table = np.arange(4.0) * 100.0


class Unshared(Table):
    snapshot_ignores = "table"


class Moody(Arrays):
    """What decides nothing, and looks as if it changed."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.limit, self.names = float("nan"), {"a", "b", "c"}


def test_objects_and_tables_are_not_taken_for_state_of_rows():
    books = Books(N)
    books.reset(seed=0)
    refused(books.snapshot, TypeError, r"snapshot\(\): Books.books: expected state in arrays")
    table = Table(4)
    table.reset(seed=0)
    kept = table.snapshot()
    table.restore(kept)
    refused(lambda: table.restore(kept[0], [2]), ValueError, r"Table.table: .* name it in snapshot_ignores")
    assert table.table.tolist() == [0.0, 100.0, 200.0, 300.0]
    unshared = Unshared(4)
    unshared.reset(seed=0)
    unshared.restore(unshared.snapshot([0]), [2])
    go_back_and_compare(Moody(N), True)


class Moved(NativeVecEnv):
    """Is where the actions have led from 0."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, Box(-np.inf, np.inf, (1,)), Discrete(3), **kwargs)
        self.position = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.position[indices] = 0.0

    def _observe(self):
        return self.position[:, None].astype(np.float32)

    def _step(self, actions):
        self.position = np.where(self.frozen, self.position, self.position + actions - 1)
        never = np.zeros(self.num_envs, bool)
        return self.position, never, never, {}


@pytest.mark.parametrize("limit", [1, 2])
def test_state_is_known_as_such_wherever_a_few_steps_have_led(limit):
    """Among them where a copy goes that is looked at, and where a frozen one stays."""
    for start in itertools.product(range(3), repeat=2):
        vec, other = (Moved(2, autoreset=False, max_episode_steps=limit) for _ in range(2))
        for each, actions in ((vec, start), (other, start[::-1])):
            each.reset(seed=0)
            for _ in range(limit):
                each.step(np.array(actions))
        vec.snapshot()
        vec.restore(other.snapshot([0]), [0])
        assert vec.position[0] == other.position[0]


class Sticky(VecWrapper):
    """With a name that wrappers of the kit use too."""

    def __init__(self, venv):
        super().__init__(venv)
        self._held = np.zeros(self.num_envs)

    def _after_step(self, result, frozen):
        self._held += 1.0
        result.rewards[:] = self._held
        return result


class Stack(sekai.VecObservationWrapper):
    """Shows how often it was asked."""

    def __init__(self, venv):
        super().__init__(venv)
        self.asked = np.zeros((self.num_envs, 1))

    def observation(self, obs):
        self.asked += 1.0
        return obs + self.asked


def test_wrappers_of_others_keep_all_they_have():
    go_back_and_compare(Sticky(Rows(N)), True)
    vec = Stack(Rows(N))
    kept, *_ = go_back_and_compare(vec, True)
    asked = vec.asked.copy()
    with pytest.raises(NotImplementedError, match="Stack: expected an observation\\(\\) that shows the same again"):
        vec._observe_now()
    assert vec.asked.tolist() == asked.tolist()


def test_a_generator_that_was_drawn_from_goes_nowhere_alone():
    vec, other = Drawn(2), Drawn(2)
    vec.reset(seed=0)
    vec.step(np.zeros(2, int))
    other.reset(seed=1)
    for call in (lambda: other.restore(vec.snapshot(), [1, 0]), lambda: Snapshot.concatenate([vec.snapshot()])):
        refused(call, ValueError, "share a generator")


@pytest.mark.parametrize("name", ["sync", "async"])
def test_parameters_of_env_objects_are_not_told_from_their_state(name):
    vec = HERE[name](N)
    vec.reset(seed=0)
    refused(
        lambda: vec.restore(vec.snapshot(), parameters="keep"), ValueError, "expected 'match', since what of an Env"
    )


def test_a_parameter_that_is_drawn_is_changed_for_all_or_none():
    vec = Rows(N, fee=Randomized(1.0, 9.0))
    vec.reset(seed=0)
    with pytest.raises(ValueError, match=r"set_attr\('fee', indices=...\): expected all sub-envs, since fee is drawn"):
        vec.set_attr("fee", 5.0, indices=[0])


def test_parameters_of_the_kits_wrappers_have_to_agree():
    vec, other = VecNormalizeReward(Rows(N), gamma=0.99), VecNormalizeReward(Rows(N), gamma=0.5)
    for each in (vec, other):
        each.reset(seed=0)
    refused(lambda: other.restore(vec.snapshot()), ValueError, "VecNormalizeReward: gamma: expected 0.5, got 0.99")


def test_snapshots_are_equal_by_what_they_hold_and_stay_as_they_are():
    vec = Rows(N)
    vec.reset(seed=0)
    kept = vec.snapshot()
    assert Snapshot.concatenate(list(kept)) == kept == kept[:] == vec.snapshot(range(N))
    with pytest.raises(ValueError, match="WRITEABLE"):
        kept.columns["state.price"].flags.writeable = True
    with pytest.raises(TypeError, match="item assignment"):
        kept.shared["params.fee"] = 0.0
    torn = pickle.loads(pickle.dumps(kept))
    torn.columns["state.trades"] = torn.columns["state.trades"][:1]
    refused(lambda: vec.restore(torn), ValueError, r"restore\(snapshot\): state.trades: expected 4 entries, got 1")
