"""The contract of every VecEnv: one test per sentence of the specification, on every backend."""

import asyncio
import copy
from functools import partial

import numpy as np
import pytest
from backends import ALL, KINDS, ROW_MARKET, ROWS, TWO_PROCS, assert_same, both_modes, error, make, scribble, scripted
from toys import BOX1, INF, Draws, T, Toy, Z, fns

from sekai import (
    AsyncVecEnv,
    AutoReset,
    Box,
    Dict,
    Discrete,
    Env,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    ResetRequired,
    ResetResult,
    Sequence,
    SpaceMismatch,
    StepResult,
    SyncVecEnv,
    TimeLimit,
    Tuple,
    VecEnvClosed,
    VecResetResult,
    VecStepResult,
    stack_infos,
)
from sekai.vector import ProcVecEnv


class Builder:
    """Builds VecEnvs on one backend."""

    def __init__(self, backend):
        self.backend = backend
        self.made = []

    def error(self, kind):
        """What an exception of a sub-env becomes."""
        return error(self.backend, kind)

    def keep(self, vec):
        self.made.append(vec)
        return vec

    def close(self):
        for vec in self.made:
            vec.close()


class Toys(Builder):
    """Of scripted sub-envs."""

    def __call__(self, *scripts, **kwargs):
        return self.keep(scripted(self.backend, *scripts, **kwargs))


class Rows(Builder):
    """Of Env objects."""

    def __call__(self, env_fns, **kwargs):
        return self.keep(make(self.backend, env_fns, **kwargs))


@pytest.fixture(params=[*KINDS, ROW_MARKET])
def toys(request):
    builder = Toys(request.param)
    yield builder
    builder.close()


@pytest.fixture(params=KINDS)
def free_toys(request):
    """Of scripts with any spaces and infos, options and attributes that can be set, which row markets declare."""
    builder = Toys(request.param)
    yield builder
    builder.close()


@pytest.fixture(params=[*ROWS, *TWO_PROCS])
def rows(request):
    builder = Rows(request.param)
    yield builder
    builder.close()


@pytest.fixture(params=ROWS)
def rows_here(request):
    """On a backend whose sub-envs live in this process, where a test can look at them."""
    builder = Rows(request.param)
    yield builder
    builder.close()


@pytest.mark.parametrize("name", ["observations", "rewards", "terminated", "truncated", "infos"])
def test_results_are_compared_field_by_field(name):
    def step(value):
        parts = {each: np.zeros(1) for each in ("observations", "rewards", "terminated", "truncated")}
        return VecStepResult(**{**parts, "infos": [{"x": 0.0}], name: value})

    for record in (step, lambda value: VecResetResult(np.zeros(1), value)):
        assert_same(record([{"x": 1.0}]), record([{"x": 1.0}]))
        with pytest.raises(AssertionError):
            assert_same(record([{"x": 1.0}]), record([{"x": 2.0}]))


def play(vec, steps, seed=3):
    return [vec.reset(seed=seed), *(vec.step(Z(vec)) for _ in range(steps))]


# -- "Runs N environments in parallel and returns batched results." ------------------------------------------


@both_modes
def test_every_backend_agrees_on_the_same_episodes(autoreset):
    scripts = [T(1), T(3), [([9.0], 2.5, False, False, {}), ([8.0], -1.0, True, True, {})]]
    runs = []
    for name in [*ALL, ROW_MARKET]:
        with scripted(name, *scripts, autoreset=autoreset) as vec:
            runs.append(play(vec, 9))
    for run in runs[1:]:
        assert_same(runs[0], run)


def test_results_are_batched(toys):
    vec = toys(T(2), T(2), T(2))
    first = vec.reset()
    assert isinstance(first, VecResetResult)
    assert first.observations.shape == (3, 1) and first.observations.dtype == np.float64
    assert not first.dones.any() and first.dones.shape == (3,)
    result = vec.step([0, 1, 0])
    assert isinstance(result, VecStepResult)
    assert result.observations.tolist() == [[1.0]] * 3
    assert result.rewards.dtype == np.float64 and result.rewards.shape == (3,)
    assert result.terminated.dtype == result.truncated.dtype == np.bool_
    assert result.terminated.shape == result.truncated.shape == (3,)


def test_spaces_are_those_of_one_env_and_of_the_batch(toys):
    vec = toys(T(2), T(2))
    assert vec.num_envs == 2
    assert vec.observation_space == BOX1 and vec.action_space == Discrete(2)
    assert vec.batch_observation_space == Box(-INF, INF, (2, 1), np.float64)
    assert vec.batch_action_space == MultiDiscrete([2, 2])
    assert vec.reset().observations in vec.batch_observation_space
    assert vec.step(Z(vec)).observations in vec.batch_observation_space


def test_batch_spaces_keep_their_seed(toys):
    vec = toys(T(2), T(2))
    vec.batch_action_space.seed(5)
    first = [Z(vec).tolist() for _ in range(5)]
    vec.batch_action_space.seed(5)
    assert [Z(vec).tolist() for _ in range(5)] == first


def test_infos_are_a_list_of_dicts(toys):
    vec = toys(T(1), T(2))
    for result in (vec.reset(), vec.step(Z(vec))):
        assert isinstance(result.infos, list)
        assert len(result.infos) == 2 and all(type(info) is dict for info in result.infos)


# -- autoreset -----------------------------------------------------------------------------------------------


def test_a_finished_sub_env_is_reset_in_the_same_step(toys):
    script = [([5.0], 2.0, True, False, {"why": 1})]
    vec = toys(script, [([6.0], 3.0, False, False, {"why": 2})] * 9, i0={"new": 7})
    vec.reset()
    result = vec.step(Z(vec))
    assert result.observations.tolist() == [[0.0], [6.0]]  # the first of the new episode, and a step
    assert result.rewards.tolist() == [2.0, 3.0]
    assert result.terminated.tolist() == [True, False]
    assert result.infos[0]["final_observation"].tolist() == [5.0]
    assert result.infos[0]["final_info"] == {"why": 1}
    assert result.infos[0]["reset_info"] == {"new": 7}
    assert result.infos[0]["why"] == 1 and "new" not in result.infos[0]
    assert result.infos[1] == {"why": 2}


def test_autoreset_matches_the_autoreset_wrapper(rows):
    script = [([1.0], 1.0, False, False, {"k": 1}), ([2.0], 2.0, False, True, {"k": 2})]
    vec = rows(fns(script, i0={"k": 0}))
    env = AutoReset(Toy(script, i0={"k": 0}))
    vec.reset(), env.reset()
    for _ in range(5):
        result, single = vec.step([1]), env.step(1)
        assert_same(result.observations, np.array([single.observation]))
        assert result.rewards[0] == single.reward
        assert (result.terminated[0], result.truncated[0]) == (single.terminated, single.truncated)
        assert_same(result.infos[0], single.info)


def test_autoreset_passes_no_options_unless_given(rows):
    vec = rows(fns(T(1), T(1)))
    vec.reset(options={"a": 1})
    assert vec.get_attr("last_options") == [{"a": 1}] * 2
    vec.step(Z(vec))
    assert vec.get_attr("last_options") == [None] * 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"start": 4}, [{"start": 4}] * 2), (lambda i: {"start": i}, [{"start": 0}, {"start": 1}])],
    ids=["dict", "callable"],
)
def test_autoreset_options(free_toys, given, expected):
    vec = free_toys(T(1), T(1), autoreset_options=given)
    vec.reset()
    vec.step(Z(vec))
    last = vec.get_attr("last_options")
    assert (last[0] if isinstance(last[0], list) else last) == expected  # a native list is one value for all


def test_autoreset_options_of_a_wrong_type(toys):
    with pytest.raises(TypeError, match="autoreset_options: expected a dict, a callable"):
        toys(T(1), autoreset_options=3)


# -- without autoreset ---------------------------------------------------------------------------------------


def test_a_finished_sub_env_is_frozen_until_the_next_reset(toys):
    script = [([4.0], 2.0, False, True, {"why": 1})]
    vec = toys(script, [([6.0], 3.0, False, False, {"why": 2})] * 9, autoreset=False)
    vec.reset()
    assert vec.frozen.tolist() == [False, False]
    ended = vec.step(Z(vec))
    assert ended.observations.tolist() == [[4.0], [6.0]]
    assert ended.infos[0] == {"why": 1}  # no reset, so nothing of one
    for _ in range(3):
        result = vec.step(Z(vec))
        assert vec.frozen.tolist() == [True, False]
        assert result.observations.tolist() == [[4.0], [6.0]]
        assert result.rewards.tolist() == [0.0, 3.0]
        assert result.terminated.tolist() == [False, False]
        assert result.truncated.tolist() == result.dones.tolist() == [True, False]
        assert result.infos == [{}, {"why": 2}]
    assert vec.get_attr("n_step") == [1, 4]
    assert vec.get_attr("n_reset") == [1, 1]
    assert vec.reset().observations.tolist() == [[0.0], [0.0]]
    assert not vec.frozen.any()
    assert vec.step(Z(vec)).rewards.tolist() == [2.0, 3.0]


def test_both_flags_of_a_frozen_sub_env_stay(toys):
    vec = toys([([1.0], 1.0, True, True, {})], autoreset=False)
    vec.reset()
    for _ in range(3):
        result = vec.step(Z(vec))
        assert result.terminated.tolist() == result.truncated.tolist() == [True]


@both_modes
def test_a_sub_env_that_resets_itself_is_neither_reset_again_nor_frozen(rows, autoreset):
    vec = rows([lambda: AutoReset(Toy(T(2), i0={"n": 1}))], autoreset=autoreset)
    vec.reset()
    for episode in range(1, 4):
        vec.step(Z(vec))
        result = vec.step(Z(vec))
        assert result.observations.tolist() == [[0.0]] and result.terminated.tolist() == [True]
        assert_same(result.infos[0], {"final_observation": np.array([2.0]), "final_info": {}, "reset_info": {"n": 1}})
        assert vec.get_attr("n_reset") == [1 + episode]
        assert not vec.frozen.any()


# -- async ---------------------------------------------------------------------------------------------------


@both_modes
def test_async_methods_give_what_the_sync_ones_give(toys, autoreset):
    scripts = [T(1), T(3)]
    sync = play(toys(*scripts, autoreset=autoreset), 6)
    vec = toys(*scripts, autoreset=autoreset)

    async def play_async():
        return [await vec.async_reset(seed=3), *[await vec.async_step(Z(vec)) for _ in range(6)]]

    assert_same(sync, asyncio.run(play_async()))


@pytest.mark.parametrize("kind", [SyncVecEnv, AsyncVecEnv, ProcVecEnv])
def test_a_subclass_that_overrides_only_the_sync_methods_gets_async_ones_that_run_them(kind):
    class Loud(kind):
        def step(self, actions):
            return "stepped"

        def reset(self, *, seed=None, options=None):
            return "reset", seed

    with Loud(fns(T(1))) as vec:
        assert asyncio.run(vec.async_step([0])) == "stepped"
        assert asyncio.run(vec.async_reset(seed=3)) == ("reset", 3)


# -- reset ---------------------------------------------------------------------------------------------------


def test_an_int_seed_derives_one_independent_seed_per_sub_env(rows):
    vec = rows([Draws] * 4)
    first = vec.reset(seed=0).observations
    assert len(np.unique(first)) == first.size
    assert_same(vec.reset(seed=0).observations, first)
    assert not np.isin(vec.reset(seed=1).observations, first).any()


def test_a_list_gives_each_sub_env_its_own_seed(rows):
    vec = rows([Draws] * 3)
    observations = vec.reset(seed=[7, 8, 7]).observations
    assert_same(observations[0], np.random.default_rng(7).random(3))
    assert_same(observations[1], np.random.default_rng(8).random(3))
    assert_same(observations[2], observations[0])


def test_none_continues_each_stream(rows):
    vec = rows([Draws] * 2)
    vec.reset(seed=[7, 8])
    observations = vec.reset(seed=[None, 9]).observations
    assert_same(observations[0], np.random.default_rng(7).random(6)[3:])
    assert_same(observations[1], np.random.default_rng(9).random(3))
    assert_same(vec.reset().observations[1], np.random.default_rng(9).random(6)[3:])


def test_autoreset_continues_the_stream(rows):
    vec = rows([partial(Draws, length=1)])
    vec.reset(seed=[7])
    stream = np.random.default_rng(7)
    stream.random(3)
    for _ in range(3):
        result = vec.step(Z(vec))
        assert_same(result.infos[0]["final_observation"], stream.random(3))
        assert result.rewards[0] == stream.random()
        assert_same(result.observations[0], stream.random(3))


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        ([1, 2], ValueError, r"reset\(seed=...\): expected 3 seeds \(num_envs\), got 2"),
        (-1, ValueError, r"reset\(seed=...\): expected an integer of at least 0, got -1"),
        ([1, -2, 3], ValueError, "sub-env 1: expected an integer of at least 0, got -2"),
        (True, TypeError, "got the bool True"),
        ([1, 2, False], TypeError, "sub-env 2: expected an integer or None, got the bool False"),
        (1.5, TypeError, "expected an integer or None, got float"),
        ("7", TypeError, "expected an integer or None, got str"),
        (np.random.default_rng(0), TypeError, "got Generator"),
        (np.zeros((3, 1), int), TypeError, r"expected a 1-D integer array, got shape \(3, 1\)"),
        (np.zeros(3), TypeError, "of dtype float64"),
    ],
    ids=str,
)
def test_wrong_seeds_are_refused_before_anything_is_reset(toys, seed, error, message):
    vec = toys(T(2), T(2), T(2))
    vec.reset()
    with pytest.raises(error, match=message):
        vec.reset(seed=seed)
    assert vec.get_attr("n_reset") == [1, 1, 1]
    assert vec.step(Z(vec)).observations.tolist() == [[1.0]] * 3  # the episode goes on


@pytest.mark.parametrize(
    "seed", [np.int64(7), np.uint8(7), [np.uint32(1), 2], (1, 2), np.array([1, 2]), np.array([1, 2], np.uint8), 2**100]
)
def test_seeds_of_every_integer_kind(toys, seed):
    vec = toys(T(1), T(1))
    vec.reset(seed=seed)


def test_options_for_all_or_one_per_sub_env(free_toys):
    vec = free_toys(T(2), T(2))

    def last():
        options = vec.get_attr("last_options")
        return options[0] if isinstance(options[0], list) else options

    vec.reset(options={"a": 1})
    assert last() == [{"a": 1}] * 2
    vec.reset(options=[{"b": 2}, None])
    assert last() == [{"b": 2}, None]
    vec.reset()
    assert last() == [None, None]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ([{}], ValueError, r"reset\(options=...\): expected 2 options \(num_envs\), got 1"),
        (3, TypeError, r"reset\(options=...\): expected a dict, None or a list of them, got int"),
        ([None, 3], TypeError, "expected a dict or None for sub-env 1, got int"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_before_anything_is_reset(toys, options, error, message):
    vec = toys(T(2), T(2))
    vec.reset()
    with pytest.raises(error, match=message):
        vec.reset(options=options)
    assert vec.get_attr("n_reset") == [1, 1]


# -- step ----------------------------------------------------------------------------------------------------


def test_step_before_the_first_reset(toys):
    vec = toys(T(1))
    with pytest.raises(ResetRequired, match=r"step\(\): call reset\(\) first"):
        vec.step([0])
    vec.reset()
    vec.step([0])


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((3, 1), int), r"step\(actions\): expected shape \(3,\), got shape \(3, 1\)"),
        (np.zeros(2, int), r"expected shape \(3,\), got shape \(2,\)"),
        (0, r"expected shape \(3,\), got shape \(\)"),
        (np.zeros(3), "expected dtype int64, got float64"),
        (None, "expected shape"),
        ([0, [1], 2], "expected shape"),
    ],
    ids=str,
)
def test_wrong_actions_are_refused_before_any_sub_env_is_stepped(toys, actions, message):
    vec = toys(T(2), T(2), T(2))
    vec.reset()
    with pytest.raises(ValueError, match=message):
        vec.step(actions)
    assert vec.get_attr("n_step") == [0, 0, 0]


@pytest.mark.parametrize(
    "act",
    [
        Discrete(3, start=-1),
        Box(-1, 1, (2,)),
        Box(0, 9, (), np.int16),
        MultiDiscrete([[2, 3], [4, 5]]),
        MultiBinary(3),
        Dict({"side": Discrete(2), "qty": Box(0, 1, (2,))}),
        Tuple((Discrete(2), Dict({"x": Box(0, 1, (1,))}))),
        MaskedBox(-1, 1, (2,), max_size=3),
        Sequence(Discrete(3)),
    ],
    ids=lambda space: type(space).__name__,
)
def test_each_sub_env_receives_an_element_of_its_own_space(rows, act):
    vec = rows(fns(T(50), T(50), T(50), act=act))
    vec.reset()
    vec.batch_action_space.seed(1)
    for _ in range(20):
        vec.step(Z(vec))
        assert all(action in act for action in vec.get_attr("last_action"))


def test_actions_are_copied(rows):
    vec = rows(fns(T(9), T(9), act=Box(0, 1, (2,), np.float64)))
    vec.reset()
    actions = np.zeros((2, 2))
    vec.step(actions)
    actions[:] = 1
    assert_same(vec.get_attr("last_action")[1], np.zeros(2))


def test_a_sub_env_that_writes_into_its_action_does_not_change_the_callers(rows_here):
    vec = rows_here(fns(T(9), T(9), act=Box(0, 1, (2,), np.float64)))
    vec.reset()
    actions = np.ones((2, 2))
    vec.step(actions)
    vec.envs[0].last_action[:] = 5
    assert (actions == 1).all()


def test_a_raising_sub_env_leaves_the_others_usable(rows):
    class Bad(Toy):
        def step(self, action):
            if self.n_step == 1:
                self.n_step += 1
                raise ZeroDivisionError("bad step")
            return super().step(action)

    vec = rows([lambda: Toy(T(9)), lambda: Bad(T(9)), lambda: Toy(T(9))])
    vec.reset()
    vec.step(Z(vec))
    with pytest.raises(rows.error(ZeroDivisionError), match="bad step"):
        vec.step(Z(vec))
    result = vec.step(Z(vec))
    assert result.observations[0].tolist() == [3.0] and result.observations[1].tolist() == [2.0]


def test_a_failed_autoreset_needs_a_reset(rows):
    class Bad(Toy):
        def reset(self, *, seed=None, options=None):
            if self.n_reset == 1:
                self.n_reset += 1
                raise OSError("no reset")
            return super().reset(seed=seed, options=options)

    vec = rows([lambda: Bad(T(1)), lambda: Toy(T(9))])
    vec.reset()
    with pytest.raises(rows.error(OSError), match="no reset"):
        vec.step(Z(vec))
    with pytest.raises(rows.error(ResetRequired), match="sub-env 0"):
        vec.step(Z(vec))
    vec.reset()
    assert vec.step(Z(vec)).terminated.tolist() == [True, False]


# -- snapshots -----------------------------------------------------------------------------------------------


@both_modes
def test_results_never_change_and_writing_into_them_changes_nothing(free_toys, autoreset):
    obs = Dict({"a": Box(-INF, INF, (2,), np.float64), "t": Tuple((Discrete(9), Box(-INF, INF, (1,), np.float64)))})

    def at(k):
        return {"a": np.full(2, float(k)), "t": (k, np.array([float(k)]))}

    script = [(at(k), float(k), k == 3, False, {"x": k, "v": np.full(2, k)}) for k in range(1, 4)]
    kwargs = {"obs": obs, "r0": at(0), "i0": {"x": 0}, "autoreset": autoreset}
    untouched = play(free_toys(script, script, **kwargs), 7)
    vec = free_toys(script, script, **kwargs)
    results, copies = [], []
    for k in range(8):
        results.append(vec.step(Z(vec)) if k else vec.reset(seed=3))
        copies.append(copy.deepcopy(results[-1]))
        assert_same(results, copies)
    assert_same(results, untouched)
    vec.reset()
    for _ in range(7):
        scribble(vec.step(Z(vec)))
    assert_same(play(vec, 7), untouched)


def test_sub_envs_that_share_one_array(rows):
    buffer = np.zeros(1)

    class Shared(Toy):
        def step(self, action):
            buffer[0] = action
            return StepResult(buffer, 0.0, False, False, {"b": buffer})

    vec = rows([lambda: Shared(T(1)) for _ in range(3)], autoreset=True)
    vec.reset()
    result = vec.step([1, 0, 1])
    assert result.observations.tolist() == [[1.0], [0.0], [1.0]]
    assert [info["b"].tolist() for info in result.infos] == [[1.0], [0.0], [1.0]]


# -- observations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([5.0]), r"sub-env 1: expected an observation of shape \(3,\), got shape \(1,\)"),
        (np.zeros((3, 1)), r"got shape \(3, 1\)"),
        (np.float64(2), r"got shape \(\)"),
        (None, r"sub-env 1: expected an observation"),
        ({"a": 1}, r"sub-env 1: expected an observation"),
        (np.zeros(3, complex), "expected an observation of dtype float32, got complex128"),
        (["a", "b", "c"], "expected an observation of dtype float32"),
    ],
    ids=str,
)
def test_a_wrong_observation_is_never_broadcast(rows, value, message):
    from sekai import InvalidObservation

    obs = Box(-1, 1, (3,))
    good = [(np.zeros(3), 0.0, False, False, {})] * 4
    bad = [good[0], (value, 0.0, False, False, {}), *good]
    vec = rows(fns(good, bad, obs=obs, r0=np.zeros(3)))
    vec.reset()
    vec.step(Z(vec))
    with pytest.raises(rows.error(InvalidObservation), match=message):
        vec.step(Z(vec))


def test_floats_convert_and_integers_must_fit(rows):
    from sekai import InvalidObservation

    vec = rows(fns([([1.0, 2.0], 0.0, False, False, {})], obs=Box(0, 9, (2,)), r0=[0, 0]))
    assert vec.reset().observations.dtype == np.float32
    assert vec.step(Z(vec)).observations.tolist() == [[1.0, 2.0]]
    for value, fits in [([255, 0], True), ([256, 0], False), ([-1, 0], False), ([1.0, 2.0], False)]:
        script = [(np.array(value), 0.0, False, False, {})]
        vec = rows(fns(script, obs=Box(0, 255, (2,), np.uint8), r0=np.zeros(2, np.uint8)))
        vec.reset()
        if fits:
            assert vec.step(Z(vec)).observations.tolist() == [value]
        else:
            with pytest.raises(rows.error(InvalidObservation), match="uint8"):
                vec.step(Z(vec))


# -- close ---------------------------------------------------------------------------------------------------


def test_close_twice_then_use(toys):
    vec = toys(T(2))
    vec.reset()
    assert not vec.closed
    vec.close()
    vec.close()
    assert vec.closed
    for use in (
        lambda: vec.step([0]),
        vec.reset,
        lambda: vec.get_attr("k"),
        lambda: vec.set_attr("k", 0),
        lambda: vec.call("add", 1),
    ):
        with pytest.raises(VecEnvClosed, match="is closed"):
            use()


def test_every_sub_env_is_closed_even_if_another_raises(rows_here):
    class Stubborn(Toy):
        def close(self):
            super().close()
            raise OSError(f"stuck {self.script[0][0]}")

    built = [Toy(T(1)), Stubborn([([1.0], 0.0, True, False, {})]), Stubborn([([2.0], 0.0, True, False, {})]), Toy(T(1))]
    vec = rows_here([lambda env=env: env for env in built])
    with pytest.raises(OSError, match=r"stuck \[1.0\]"):
        vec.close()
    vec.close()
    assert [env.n_close for env in built] == [1, 1, 1, 1]


def test_context_manager_closes(toys):
    with toys(T(1)) as vec:
        vec.reset()
    assert vec.closed


# -- construction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_if_an_env_fn_raises_the_built_ones_are_closed(rows_here, error):
    built = [Toy(T(1)), Toy(T(1))]

    def fail():
        raise error("third")

    with pytest.raises(error, match="third"):
        rows_here([lambda: built[0], lambda: built[1], fail, lambda: Toy(T(1))])
    assert [env.n_close for env in built] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "other"),
    [("observation_space", {"obs": Box(-1, 1, (2,))}), ("action_space", {"act": Discrete(3)})],
)
def test_spaces_must_be_the_same(rows_here, kind, other):
    built = [Toy(T(1)), Toy(T(1), **other), Toy(T(1))]
    with pytest.raises(SpaceMismatch, match=f"sub-env 1: expected the {kind} of sub-env 0"):
        rows_here([lambda env=env: env for env in built])
    assert [env.n_close for env in built] == [1, 1, 0]


def test_construction_errors(rows):
    with pytest.raises(ValueError, match="expected at least one callable"):
        rows([])
    with pytest.raises(TypeError, match=r"env_fns\[1\]: expected a callable"):
        rows([lambda: Toy(T(1)), Toy(T(1))])
    with pytest.raises(TypeError, match=r"env_fns\[0\]: expected it to build a sekai.Env, got int"):
        rows([lambda: 3])


def test_one_env_object_for_two_sub_envs(rows_here):
    env = Toy(T(1))
    for again in (env, TimeLimit(env, 3)):
        with pytest.raises(ValueError, match=r"env_fns\[1\] gave the same env object as env_fns\[0\]"):
            rows_here([lambda: env, lambda again=again: again])


# -- attributes ----------------------------------------------------------------------------------------------


def test_call_calls_a_method_or_reads_an_attribute(toys):
    vec = toys(T(9), T(9))
    vec.reset()
    vec.step(Z(vec))
    assert vec.call("add", 2, b=3) == [6, 6]
    assert vec.call("k") == [1, 1]
    with pytest.raises(toys.error(TypeError), match=r"call\('k'\)"):
        vec.call("k", 1)


def test_attributes_are_found_through_the_wrapper_stack(rows):
    vec = rows([lambda: AutoReset(TimeLimit(Toy(T(9)), 5)), lambda: AutoReset(TimeLimit(Toy(T(9)), 5))])
    vec.reset()
    vec.step(Z(vec))
    assert vec.get_attr("elapsed_steps") == [1, 1]  # of the TimeLimit
    assert vec.get_attr("n_step") == vec.call("n_step") == [1, 1]  # of the Toy
    assert vec.call("add", 1) == [2, 2]
    vec.set_attr("k", 4)
    assert [env.k for env in vec.get_attr("unwrapped")] == [4, 4]
    vec.set_attr("n_step", [8, 9])
    assert vec.get_attr("n_step") == [8, 9]


def test_set_attr_takes_one_value_or_a_list(free_toys):
    vec = free_toys(T(9), T(9), T(9))
    vec.reset()
    vec.set_attr("k", [1, 2, 3])
    assert vec.get_attr("k") == [1, 2, 3]
    vec.set_attr("k", 5)
    assert vec.get_attr("k") == [5, 5, 5]
    with pytest.raises(ValueError, match=r"set_attr\('k'\): expected 3 values \(num_envs\), got a list of 2"):
        vec.set_attr("k", [1, 2])
    assert vec.get_attr("k") == [5, 5, 5]
    vec.set_attr("r0", (7.0,))  # a tuple is one value for all
    assert vec.get_attr("r0") == [(7.0,)] * 3


def test_unknown_attributes(toys):
    vec = toys(T(9), T(9))
    vec.reset()
    for use in (
        lambda: vec.get_attr("nope"),
        lambda: vec.call("nope"),
        lambda: vec.set_attr("nope", 1),
        lambda: vec.set_attr("nope", [1, 2]),
    ):
        with pytest.raises(toys.error(AttributeError), match="nope"):
            use()
    with pytest.raises(toys.error(AttributeError)):
        vec.get_attr("nope")  # nothing was added
    assert vec.step(Z(vec)).observations.tolist() == [[1.0], [1.0]]


# -- the rest ------------------------------------------------------------------------------------------------


def test_repr_names_the_class_and_the_number(toys):
    vec = toys(T(1), T(1))
    assert repr(vec) == f"<{type(vec).__name__} num_envs=2>"


def test_sync_copy_has_no_effect():
    for copying in (True, False):
        with SyncVecEnv(fns(T(3)), copy=copying) as vec:
            first = vec.reset().observations
            vec.step([0])
        assert first.tolist() == [[0.0]]


def test_sequence_observations(rows):
    obs = Sequence(Box(0, 9, (1,), np.float64))

    class Growing(Env):
        observation_space, action_space = obs, Discrete(2)

        def __init__(self):
            self.rows = []

        def reset(self, *, seed=None, options=None):
            self.rows.clear()
            return ResetResult(tuple(self.rows), {})

        def step(self, action):
            self.rows.append(np.array([float(len(self.rows))]))
            return StepResult(tuple(self.rows), 0.0, len(self.rows) == 2, False, {})

    vec = rows([Growing, Growing])
    assert vec.reset().observations == [(), ()]
    first = vec.step(Z(vec))
    second = vec.step(Z(vec))
    assert [len(row) for row in first.observations] == [1, 1]
    assert [len(row) for row in second.observations] == [0, 0]
    assert [len(info["final_observation"]) for info in second.infos] == [2, 2]
    assert first.observations in vec.batch_observation_space


def test_stacked_infos_agree(free_toys):
    script = [([1.0], 1.0, False, False, {"p": 1.5, "n": 2}), ([2.0], 1.0, True, False, {"p": 2.5, "n": 3})]
    vec = free_toys(script, script[:1] * 9)
    vec.reset()
    for expected in ({"p": [1.5, 1.5], "n": [2, 2]}, {"p": [2.5, 1.5], "n": [3, 2]}):
        stacked = stack_infos(vec.step(Z(vec)).infos)
        assert {key: column.tolist() for key, column in stacked.items()} == expected


def test_async_backend_waits_for_all_before_it_raises():
    log = []

    class Slow(Toy):
        async def async_step(self, action):
            await asyncio.sleep(0.05)
            log.append("slow")
            return self.step(action)

    class Bad(Toy):
        async def async_step(self, action):
            raise OSError("bad")

    with AsyncVecEnv([lambda: Bad(T(9)), lambda: Slow(T(9))]) as vec:
        vec.reset()
        with pytest.raises(OSError, match="bad"):
            vec.step([0, 0])
    assert log == ["slow"]


def test_async_backend_runs_sub_envs_concurrently():
    barrier_size = 4
    waiting = []

    class Meets(Toy):
        async def async_step(self, action):
            waiting.append(self)
            for _ in range(100):  # turns of the loop, in any of which the others may come
                await asyncio.sleep(0)
            assert len(waiting) == barrier_size
            return self.step(action)

    with AsyncVecEnv([lambda: Meets(T(9)) for _ in range(barrier_size)]) as vec:
        vec.reset()
        assert vec.step([0] * barrier_size).observations.tolist() == [[1.0]] * barrier_size
