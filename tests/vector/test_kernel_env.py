"""KernelVecEnv: a market made from functions of one row, against a twin in plain Python and against itself."""

import copy
import inspect
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import sekai
from sekai import (
    Box,
    Dict,
    Discrete,
    Env,
    InvalidAction,
    MultiBinary,
    MultiDiscrete,
    NativeVecEnv,
    ResetRequired,
    ResetResult,
    StepResult,
    SyncVecEnv,
    TimeLimit,
    Tuple,
)
from sekai.kernels import jit, streams, threads
from sekai.vector import KernelVecEnv, Randomized
from sekai.vector.kernel import column
from sekai.vector.native.single import SingleEnv

INF = np.inf
PLAIN = bool(numba.config.DISABLE_JIT)
#: Batches whose results lie in the env's own memory, and in memory that is lent.
SIZES = [3] if PLAIN else [3, 2500]

# -- a walk: numbers, streams, options -------------------------------------------------------------------------


class Params(NamedTuple):
    speed: float = 0.25
    sigma: float = 0.5
    length: int = 6
    kind: str = "up"


class State(NamedTuple):
    price: np.float64
    count: np.int64


class Options(NamedTuple):
    start: float = 1.0
    lead: int = 0


@jit
def reset_row(params, state, random, i, options):
    price = options.start + params.speed * streams.uniform(random, i)
    state.price[i] = price if params.kind == "up" else -price
    state.count[i] = options.lead


@jit
def step_row(elapsed, action, i, random, state, params):  # in another order than they are listed in
    change = params.speed * (action - 1.0) + params.sigma * streams.normal(random, i)
    state.price[i] += change
    state.count[i] += 1
    return change * state.price[i], state.price[i] < 0.0, elapsed + 1 >= params.length


@jit
def observe_row(state, i, elapsed, observation):
    observation[0], observation[1] = state.price[i], elapsed


def check(params):
    if params.sigma < 0.0:
        raise ValueError(f"sigma: expected a number of at least 0, got {params.sigma}")


def check_options(params, options):
    if options.lead >= params.length:
        raise ValueError(f"lead: expected an integer below {params.length}, got {options.lead}")


class Walk(KernelVecEnv):
    Params, State, Options = Params, State, Options
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    check, check_options = check, check_options
    observation_space = Box(-INF, INF, (2,), np.float64)
    action_space = Discrete(3)
    infos = ("price", "count", "speed")
    reset_infos = ("price", "speed")


#: Most tests run this one form, which is compiled once.
SPEED = Randomized(0.1, 0.4)
LIMIT = 4
make_walk = partial(Walk, speed=SPEED, max_episode_steps=LIMIT)


class Twin(Env):
    """A ``Walk`` as one writes it without the kit."""

    observation_space = Walk.observation_space
    action_space = Walk.action_space

    def __init__(self, speed=SPEED, sigma=0.5, length=6):
        self.range, self.sigma, self.length = speed, sigma, length

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.random = streams.make_streams([seed])
        self.speed = self.range
        if isinstance(self.range, Randomized):
            low, high = self.range.low, self.range.high
            self.speed = min(high, low + (high - low) * float(streams.uniform(self.random, 0)))
        options = options or {}
        self.price = options.get("start", 1.0) + self.speed * float(streams.uniform(self.random, 0))
        self.count = options.get("lead", 0)
        self.elapsed = 0
        return ResetResult(np.array([self.price, 0.0]), {"price": self.price, "speed": self.speed})

    def step(self, action):
        change = self.speed * (action - 1.0) + self.sigma * float(streams.normal(self.random, 0))
        self.price += change
        self.count += 1
        self.elapsed += 1
        info = {"price": self.price, "count": self.count, "speed": self.speed}
        observation = np.array([self.price, float(self.elapsed)])
        return StepResult(observation, change * self.price, self.price < 0.0, self.elapsed >= self.length, info)


def twins(n, autoreset=True, autoreset_options=None, **kwargs):
    envs = [lambda: TimeLimit(Twin(**kwargs), LIMIT)] * n
    return SyncVecEnv(envs, autoreset=autoreset, autoreset_options=autoreset_options)


def actions_of(vec, steps, seed=0):
    vec.batch_action_space.seed(seed)
    return [vec.batch_action_space.sample() for _ in range(steps)]


def assert_same(ours, theirs):
    """Two values, nested alike, are equal to the bit."""
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other)
    else:
        np.testing.assert_array_equal(ours, theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype


def assert_same_result(ours, theirs):
    for name in ("observations", "rewards", "terminated", "truncated"):
        if hasattr(theirs, name):
            assert_same(getattr(ours, name), getattr(theirs, name))
    assert [set(info) for info in ours.infos] == [set(info) for info in theirs.infos]
    for mine, other in zip(ours.infos, theirs.infos, strict=True):
        assert_same(mine, {key: other[key] for key in mine})


def run(vec, steps, seed=1, options=None):
    """What a reset and some steps give."""
    return [vec.reset(seed=seed, options=options), *map(vec.step, actions_of(vec, steps))]


def assert_same_run(ours, theirs, steps=12, **kwargs):
    for mine, other in zip(run(ours, steps, **kwargs), run(theirs, steps, **kwargs), strict=True):
        assert_same_result(mine, other)


# -- the numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
def test_the_numbers_are_those_of_a_plain_twin(autoreset):
    assert_same_run(make_walk(5, autoreset=autoreset), twins(5, autoreset))


def test_options_of_a_reset_and_of_autoresets_reach_the_rows():
    options = [{"start": 2.0}, None, {"lead": 3, "start": 4}]
    given = {"start": 3.0, "lead": 2}
    assert_same_run(make_walk(3, autoreset_options=given), twins(3, autoreset_options=given), options=options)


def test_autoreset_options_may_be_a_function_of_the_sub_env():
    def given(i):
        return {"start": 1.0 + i, "lead": i} if i else None

    assert_same_run(make_walk(3, autoreset_options=given), twins(3, autoreset_options=given))


def test_what_a_function_gives_is_checked_and_asks_for_a_reset():
    vec = make_walk(3, autoreset_options=lambda i: {"stat": 1.0})
    vec.reset(seed=0)
    with pytest.raises(ValueError, match=r"sub-env \d: expected one of the keys \['start', 'lead'\], got 'stat'"):
        for _ in range(LIMIT):
            vec.step([1, 1, 1])
    with pytest.raises(ResetRequired):
        vec.step([1, 1, 1])


@pytest.mark.parametrize("n", [3, 2500])  # whose results come from the allocator, and are lent
def test_infos_that_are_read_late_tell_of_their_own_step(n):
    vec, twin = make_walk(n), make_walk(n)
    kept, expected = [], []
    for each in (vec, twin):
        each.reset(seed=3)
    for actions in actions_of(vec, 2 * LIMIT):
        kept.append(vec.step(actions).infos)  # all else of the result is gone, and nothing has been read
        expected.append({key: column.copy() for key, column in twin.step(actions).infos.columns.items()})
    vec.set_attr("speed", Randomized(0.2, 0.3))  # other memory of results
    vec.step(actions)
    for infos, columns in zip(kept, expected, strict=True):
        sent = pickle.loads(pickle.dumps(infos)) if infos is kept[0] else infos
        assert {key: column.tolist() for key, column in sent.columns.items()} == {
            key: column.tolist() for key, column in columns.items()
        }
        assert sent.columns is sent.columns


def test_parameters_without_a_limit():
    theirs = SyncVecEnv([partial(Twin, speed=speed, length=3) for speed in (0.1, 0.2)])
    assert_same_run(Walk(2, speed=[0.1, 0.2], length=3), theirs)


@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
@pytest.mark.parametrize("hook", ["_observe", "_step", "_reset_infos", "_observe_rows"])
def test_an_overridden_hook_is_run_with_the_same_numbers(hook, autoreset):
    calls = []

    def overridden(self, *args):
        calls.append(hook)
        return getattr(Walk, hook)(self, *args)

    vec = type("Walk", (Walk,), {hook: overridden})(3, speed=SPEED, max_episode_steps=LIMIT, autoreset=autoreset)
    assert_same_run(vec, make_walk(3, autoreset=autoreset))
    assert calls
    assert vec.frozen.tolist() == [not autoreset] * 3


def test_a_hook_may_change_what_is_given():
    def _step(self, actions):
        rewards, *others = Walk._step(self, actions)
        return (2.0 * rewards, *others)

    double = {"_observe": lambda self: 2.0 * Walk._observe(self), "_step": _step}
    ours, theirs = type("Walk", (Walk,), double)(3, speed=SPEED, max_episode_steps=LIMIT), make_walk(3)
    for mine, other in zip(run(ours, 9), run(theirs, 9), strict=True):
        assert_same(mine.observations, 2.0 * other.observations)
        if hasattr(other, "rewards"):
            assert_same(mine.rewards, 2.0 * other.rewards)


def test_a_subclass_may_replace_one_row_function():
    @jit
    def observe_elapsed(elapsed, observation):
        observation[0], observation[1] = elapsed, -elapsed

    class Blind(Walk):
        observe_row = observe_elapsed

    vec = Blind(2, speed=SPEED, max_episode_steps=LIMIT)
    assert vec.reset(seed=0).observations.tolist() == [[0.0, 0.0]] * 2
    walk = make_walk(2)
    walk.reset(seed=0)
    assert vec.price.tolist() == walk.price.tolist()


def test_a_single_env_is_a_vector_of_one():
    sekai.register("KernelWalk-v0", vector_entry_point=Walk, kwargs={"speed": SPEED}, max_episode_steps=LIMIT)
    try:
        env, vec = sekai.make("KernelWalk-v0"), make_walk(1, autoreset=False)
        assert isinstance(env.unwrapped, SingleEnv) and env.unwrapped.vec.steps_alone
        first, firsts = env.reset(seed=3, options={"start": 2.0}), vec.reset(seed=[3], options={"start": 2.0})
        assert_same(first.observation, firsts.observations[0])
        for _ in range(LIMIT):
            mine, other = env.step(2), vec.step([2])
            assert_same(mine.observation, other.observations[0])
            assert (mine.reward, mine.terminated, mine.truncated) == (other.rewards, other.terminated, other.truncated)
            assert mine.info == other.infos[0]
        assert env.unwrapped.length == 6 and env.unwrapped.price == vec.price[0]
        with pytest.raises(InvalidAction, match="got 3"):
            env.reset()
            env.step(3)
    finally:
        sekai.deregister("KernelWalk-v0")


def test_the_signature_is_that_of_the_parameters():
    names = ["num_envs", "speed", "sigma", "length", "kind", "autoreset", "max_episode_steps", "autoreset_options"]
    signature = inspect.signature(Walk)
    assert list(signature.parameters) == names
    assert signature.parameters["speed"].default == 0.25
    assert signature.parameters["speed"].kind is inspect.Parameter.KEYWORD_ONLY

    class Paced(Walk):
        def __init__(self, num_envs, *, speed=None, pace: str = "slow", **others):
            super().__init__(num_envs, speed={"slow": 0.1}[pace] if speed is None else speed, **others)

    own = inspect.signature(Paced).parameters
    assert list(own) == [*names[:5], "pace", *names[5:]] and own["pace"].default == "slow"
    assert Paced(2, pace="slow").speed == 0.1


# -- time, ends, freezing ----------------------------------------------------------------------------------------


def test_the_time_limit_truncates_and_counts():
    vec = make_walk(2, sigma=0.0)
    vec.reset(seed=0)
    for step in range(1, 2 * LIMIT + 1):
        result = vec.step([1, 1])
        last = step % LIMIT == 0
        assert result.truncated.tolist() == [last] * 2
        assert result.infos.columns["elapsed_steps"].tolist() == [(step - 1) % LIMIT + 1] * 2
        assert vec.elapsed_steps.tolist() == [0 if last else step % LIMIT] * 2
        if last:
            assert result.infos[0]["final_observation"][1] == LIMIT
            assert result.infos[0]["final_info"]["count"] == LIMIT
            assert set(result.infos[0]["reset_info"]) == {"price", "speed"}
            assert result.observations[:, 1].tolist() == [0.0] * 2


def test_a_step_long_after_the_first_still_counts():
    vec, young = make_walk(3), make_walk(3)
    vec._bound.columns["slot_now"][0] = 2**40
    assert_same_run(vec, young)
    assert vec.elapsed_steps.tolist() == young.elapsed_steps.tolist()
    assert vec.episode_clock.now == 2**40 + 12


def test_frozen_rows_keep_their_state_draw_nothing_and_ignore_actions():
    vec = make_walk(3, sigma=0.01, autoreset=False)
    vec.reset(seed=0, options=[{"start": -5.0}, None, {"start": -5.0}])
    end = vec.step([1, 1, 1])
    assert vec.frozen.tolist() == [True, False, True]
    price, drawn = vec.price, np.array(vec.streams.counter)
    result = vec.step([99, 2, -7])
    assert vec.price[[0, 2]].tolist() == price[[0, 2]].tolist() and vec.price[1] != price[1]
    assert (np.array(vec.streams.counter) - drawn).tolist() == [0, 1, 0]
    assert vec.elapsed_steps.tolist() == [1, 2, 1]
    assert result.observations[0].tolist() == end.observations[0].tolist()
    assert result.rewards[[0, 2]].tolist() == [0.0, 0.0]
    assert result.terminated.tolist() == [True, False, True] and not result.truncated.any()
    assert [bool(info) for info in result.infos] == [False, True, False]
    with pytest.raises(InvalidAction, match=r"got 3 \(sub-env 1\)"):
        vec.step([99, 3, -7])
    vec.reset()
    assert not vec.frozen.any()


# -- what can be told --------------------------------------------------------------------------------------------


def test_a_range_is_drawn_from_the_rows_own_stream_at_each_reset():
    vec = make_walk(3)
    vec.reset(seed=[7, 8, 9])
    alone = make_walk(1)
    alone.reset(seed=[8])
    first = vec.speed
    assert first[1] == alone.speed[0] and len(set(first)) == 3
    assert ((first >= 0.1) & (first <= 0.4)).all()
    vec.reset()
    alone.reset()
    assert vec.speed[1] == alone.speed[0] != first[1]


def test_d6_only_what_is_drawn_is_told_beside_what_the_market_names():
    assert list(Walk(3, sigma=Randomized(0.1, 0.2)).told) == ["price", "count", "speed", "sigma"]
    assert list(make_walk(3).told) == ["price", "count", "speed", "elapsed_steps"]
    vec = Walk(3, sigma=[0.1, 0.2, 0.3])
    assert "sigma" not in vec.told
    vec.set_attr("sigma", Randomized(0.1, 0.2))
    assert "sigma" in vec.told
    vec.set_attr("sigma", 0.1)
    assert "sigma" not in vec.told


@pytest.mark.slow
def test_d6_what_was_drawn_is_told_in_every_info():
    vec = Walk(3, sigma=Randomized(0.1, 0.2), max_episode_steps=LIMIT)
    had = vec.reset(seed=0).infos.columns["sigma"]
    assert had.tolist() == vec.sigma.tolist() and len(set(had)) == 3
    for actions in actions_of(vec, LIMIT):
        infos = vec.step(actions).infos
        ended = infos.done.size > 0
        assert infos.columns["sigma"].tolist() == had.tolist()  # of the episode that the step is of
        assert [info["sigma"] for info in infos] == had.tolist()
    assert ended and [info["final_info"]["sigma"] for info in infos] == had.tolist()
    assert [info["reset_info"]["sigma"] for info in infos] == vec.sigma.tolist() != had.tolist()
    rolled = sekai.rollout(vec, lambda seen: np.ones(3, np.int64), 2 * LIMIT, seed=0, infos=("sigma",), progress=False)
    assert rolled.infos["sigma"][:LIMIT].tolist() == [had.tolist()] * LIMIT
    assert (rolled.infos["sigma"][LIMIT] != had).all()


def test_infos_may_depend_on_the_parameters():
    def told(params):
        return ("price", "count") if params.kind == "up" else ("price",)

    class Teller(Walk):
        infos = told

    for kind, keys in (("up", ["price", "count"]), ("down", ["price"])):
        vec = Teller(2, kind=kind)
        assert list(vec.told) == keys
        with pytest.raises(AttributeError, match="kind: expected it to stay as it was"):
            vec.set_attr("kind", "sideways")

    class Odd(Walk):
        infos = staticmethod(lambda params: ("nothing",))

    with pytest.raises(TypeError, match=r"Odd\.infos: expected fields of State and numbers of Params, got 'nothing'"):
        Odd(2)


def test_set_attr_of_a_range():
    vec = make_walk(3)
    vec.reset(seed=0)
    vec.set_attr("speed", Randomized(5.0, 6.0))
    assert vec.speed.tolist() == [5.5] * 3  # until it is drawn
    vec.reset()
    assert ((vec.speed >= 5.0) & (vec.speed <= 6.0)).all() and len(set(vec.speed)) == 3
    assert vec.params.speed == Randomized(5.0, 6.0)
    with pytest.raises(ValueError, match="speed: expected one Randomized"):
        vec.set_attr("speed", [Randomized(0.0, 1.0), SPEED, SPEED])


def test_set_attr_of_one_parameter_leaves_what_was_drawn_of_others():
    vec = make_walk(3)
    vec.reset(seed=0)
    drawn = vec.speed
    vec.set_attr("length", 9)
    assert vec.speed.tolist() == drawn.tolist()
    assert vec.length == 9


class Held(Walk):
    """Its price stands for the speed that an episode began with."""

    held_parameters = {"speed": "price"}

    @staticmethod
    def check(params):
        if params.speed > 10.0 * params.sigma:
            raise ValueError(f"sigma: expected at least {params.speed} / 10, got {params.sigma}")


@pytest.mark.parametrize("sigma", [0.5, Randomized(0.4, 0.6)], ids=["number", "drawn"])
def test_kept_parameters_are_checked_with_what_episodes_of_a_snapshot_began_with(sigma):
    source, vec = Held(3, sigma=0.8), Held(3, sigma=sigma)
    source.reset(seed=0, options=[{}, {"start": 7.5}, {"start": 2.5}])
    vec.reset(seed=1)
    kept, before = source.snapshot(), vec.snapshot()
    message = r"restore\(parameters='keep'\): sigma: expected at least 7\.\d+ / 10, got 0\.\d+ \(sub-env 2\)"
    with pytest.raises(ValueError, match=message):
        vec.restore(kept[1], 2, parameters="keep")
    assert vec.snapshot() == before
    vec.restore(kept[2], 2, parameters="keep")
    assert vec.price[2] == source.price[2]
    vec.restore(kept[[0, 2]], [0, 1], parameters="keep")


def test_set_attr_is_checked_with_what_episodes_under_way_began_with():
    vec = Held(3, speed=0.2, max_episode_steps=LIMIT)
    vec.set_attr("sigma", 0.4)  # no episode is under way
    vec.reset(seed=0, options=[{}, {"start": 7.0}, {}])
    with pytest.raises(ValueError, match=r"sigma: expected at least 7\.\d+ / 10, got 0\.5 \(sub-env 1\)"):
        vec.set_attr("sigma", 0.5)
    assert vec.sigma == 0.4
    vec.set_attr("sigma", 0.8)
    vec.set_attr("speed", 0.1)  # of the next episode alone
    assert (vec.sigma, vec.speed) == (0.8, 0.1)
    with pytest.raises(
        TypeError, match=r"Odd\.held_parameters: expected columns of State by fields of Params, got 'size'"
    ):

        class Odd(Walk):
            held_parameters = {"speed": "size"}


@pytest.mark.parametrize("speed", [0.5, [0.5, 0.6, 0.7]], ids=["number", "column"])
def test_set_attr_within_an_episode_keeps_state_streams_and_clock(speed):
    vec, other = Walk(3, speed=0.2), Walk(3, speed=[0.2] * 3)
    run(vec, 3), run(other, 3)
    before = vec.price, vec.count, np.array(vec.streams), vec.elapsed_steps
    vec.set_attr("speed", speed)
    other.set_attr("speed", speed)
    assert_same((vec.price, vec.count, np.array(vec.streams), vec.elapsed_steps), before)
    assert vec.get_attr("speed") == (speed if isinstance(speed, list) else [speed] * 3)
    for actions in actions_of(vec, 6):
        assert_same_result(vec.step(actions), other.step(actions))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("sigma", -1.0, ValueError, "sigma: expected a number of at least 0, got -1.0"),
        ("sigma", [0.5, -1.0], ValueError, r"sigma: expected .* got -1.0 \(sub-env 1\)"),
        ("sigma", Randomized(-1, 1), ValueError, "sigma: expected .* got -1.0"),
        ("sigma", [1.0, 2.0, 3.0], ValueError, "expected 2 values"),
        ("sigma", np.nan, ValueError, "sigma: expected a finite number"),
        ("sigma", "0.5", TypeError, "sigma: expected a number"),
        ("sigma", True, TypeError, "sigma: expected a number"),
        ("length", 1.5, TypeError, "length: expected an integer"),
        ("length", Randomized(1, 2), TypeError, "length: expected an integer"),
        ("length", 2**70, ValueError, "length: expected an integer of 64 bits"),
        ("length", np.array([2**63, 1], np.uint64), ValueError, "length: expected an integer of 64 bits"),
        ("kind", "down", AttributeError, "kind: expected it to stay as it was when the env was made"),
    ],
    ids=str,
)
def test_values_that_are_refused(name, value, error, message):
    vec = Walk(2, speed=[0.1, 0.2], length=3)
    run(vec, 1)
    state = vec.price, vec.sigma, vec.length, vec.kind
    with pytest.raises(error, match=message):
        vec.set_attr(name, value)
    assert_same((vec.price, vec.sigma, vec.length, vec.kind), state)
    if name != "kind" and not isinstance(value, list):
        with pytest.raises(error, match=message):
            Walk(2, **{name: value})
    vec.step([1, 1])


def test_arguments_are_bound_as_python_binds_them():
    with pytest.raises(TypeError, match=r"Walk\(\) got an unexpected keyword argument 'sped'"):
        Walk(2, sped=1.0)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'sigm' \(did you mean 'sigma'\?\)"):
        Walk(2, sigm=1.0)
    with pytest.raises(ValueError, match="num_envs: expected at least 1, got 0"):
        Walk(0)
    with pytest.raises(AttributeError, match="has no attribute 'sped'"):
        Walk(2).set_attr("sped", 1.0)


def test_a_constant_is_one_to_the_compiler():
    up, down = Walk(2, speed=0.2), Walk(2, speed=0.2, kind="down")
    up.reset(seed=0), down.reset(seed=0)
    assert up.price.tolist() == (-down.price).tolist()
    assert down.get_attr("kind") == ["down", "down"]


def test_columns_of_the_state_are_attributes():
    vec = make_walk(3)
    vec.reset(seed=0)
    price = vec.price
    price[:] = 0.0  # a copy
    assert vec.get_attr("price") == vec.price.tolist() != [0.0] * 3
    for value in (5.0, [5.0, 6.0, 7.0]):
        with pytest.raises(AttributeError, match="price: expected it to be changed by step"):
            vec.set_attr("price", value)


# -- options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stat": 1.0}, ValueError, r"reset\(options=...\): expected one of the keys \['start', 'lead'\], got 'stat'"),
        ([None, {"start": "1"}], TypeError, "sub-env 1: start: expected a number, got '1'"),
        ([None, {"start": True}], TypeError, "sub-env 1: start: expected a number, got True"),
        ([None, {"lead": 1.5}], TypeError, "sub-env 1: lead: expected an integer"),
        ([None, {"lead": 2**70}], ValueError, "sub-env 1: lead: expected an integer of 64 bits"),
        ([{"lead": 6}, None], ValueError, "sub-env 0: lead: expected an integer below 6, got 6"),
        ([None], ValueError, r"expected 2 options \(num_envs\), got 1"),
    ],
    ids=str,
)
def test_options_that_are_refused_change_nothing(options, error, message):
    vec, twin = make_walk(2), make_walk(2)
    vec.reset(seed=0), twin.reset(seed=0)
    assert_same_result(vec.step([2, 2]), twin.step([2, 2]))
    with pytest.raises(error, match=message):
        vec.reset(seed=5, options=options)
    for _ in range(LIMIT):
        assert_same_result(vec.step([1, 2]), twin.step([1, 2]))


def test_autoreset_options_are_checked_when_the_env_is_made():
    with pytest.raises(ValueError, match="autoreset_options: expected one of the keys .* got 'stat'"):
        make_walk(2, autoreset_options={"stat": 1.0})
    with pytest.raises(ValueError, match="autoreset_options: lead: expected an integer below 6"):
        make_walk(2, autoreset_options={"lead": 7})


# -- a book: shapes, shared arrays, what follows from parameters, Dict spaces ------------------------------------


class BookParams(NamedTuple):
    table: np.ndarray
    levels: int = 3
    tick: float = 0.5
    fee: float | None = None
    source: Any = "a file"


class BookState(NamedTuple):
    depth: column(np.int32, lambda params: params.levels, 2)
    open: np.bool_
    small: np.int8
    mark: np.float32


class Prepared(NamedTuple):
    squares: np.ndarray
    size: int
    word: str


class Follows(NamedTuple):
    half: float


def prepare(params):
    return Prepared(params.table**2, np.int64(len(params.table)), "squares")


@jit
def derive_row(params) -> Follows:
    return Follows(params.tick / 2.0)


@jit
def reset_book(params, derived, state, i):
    for level in range(params.levels):
        state.depth[i, level, 0], state.depth[i, level, 1] = level, 10 * level
    state.open[i], state.small[i], state.mark[i] = True, -3, derived.half


@jit
def step_book(params, derived, state, i, elapsed, action):
    state.depth[i, 1, 1] += action.side
    state.open[i] = not state.open[i]
    state.small[i] += 1
    state.mark[i] += derived.squares[elapsed % derived.size]
    fee = 0.0 if params.fee is None else params.fee
    bonus = 100.0 if derived.word == "squares" else 0.0
    return action.size[0, 0] - action.size[1, 1] + derived.half - fee + bonus, elapsed >= 2, False


@jit
def observe_book(params, state, i, observation):
    for level in range(params.levels):
        for side in range(2):
            observation.depth[level, side] = state.depth[i, level, side]
    observation.open[0] = state.open[i]


class Book(KernelVecEnv):
    Params, State, prepare, derive_row = BookParams, BookState, prepare, derive_row
    reset_row, step_row, observe_row = reset_book, step_book, observe_book
    infos = ("depth", "open", "small", "mark", "tick")
    reset_infos = ("depth", "tick")
    action_space = Dict({"side": Discrete(3, start=-1), "size": Box(-1.0, 1.0, (2, 2), np.float64)})

    def observation_space(params):
        return Dict({"depth": Box(-99, 99, (params.levels, 2), np.int32), "open": Discrete(2)})


TABLE = np.array([1.0, 2.0, 3.0])
make_book = partial(Book, table=TABLE)


def act(n, side=1, size=0.0):
    return {"side": np.full(n, side), "size": np.full((n, 2, 2), size) * [[1, 0], [0, -1]]}


def test_dict_spaces_shapes_and_dtypes():
    vec = make_book(3)
    first = vec.reset(seed=0)
    assert first.observations["depth"].tolist() == [[[0, 0], [1, 10], [2, 20]]] * 3
    assert first.observations["depth"].dtype == np.int32 and first.observations["open"].tolist() == [1, 1, 1]
    assert first.infos[0]["depth"].shape == (3, 2)
    for k in range(3):
        result = vec.step(act(3, size=0.25))
        assert vec.batch_observation_space.contains(result.observations)
        assert result.rewards.tolist() == [100.0 + 0.5 + 0.25] * 3
        columns = result.infos.columns
        assert columns["depth"][:, 1, 1].tolist() == [11 + k] * 3 and columns["depth"].dtype == np.int32
        assert columns["open"].tolist() == [k == 1] * 3 and columns["open"].dtype == np.bool_
        assert columns["small"].tolist() == [k - 2] * 3 and columns["small"].dtype == np.int8
        assert columns["mark"][0] == np.float32([1.25, 5.25, 14.25][k]) and columns["mark"].dtype == np.float32
    assert result.terminated.all()
    assert result.infos[0]["final_observation"]["depth"][1].tolist() == [1, 13]
    assert result.infos[0]["final_observation"]["open"] == 0
    assert result.infos[0]["reset_info"]["depth"].tolist() == [[0, 0], [1, 10], [2, 20]]
    assert result.observations["depth"][:, 1, 1].tolist() == [10] * 3


def test_a_snapshot_goes_nowhere_where_arrays_have_other_shapes():
    vec, other, short = make_book(2), make_book(2, table=TABLE + 1.0), make_book(2, table=TABLE[:2])
    for each in (vec, other, short):
        each.reset(seed=0)
    kept, before = vec.snapshot(), short.snapshot()
    other.restore(kept, parameters="keep")
    with pytest.raises(ValueError, match=r"restore\(snapshot\): shape of derived.squares: expected \(2,\), got \(3,\)"):
        short.restore(kept, parameters="keep")
    assert short.snapshot() == before


def test_the_hooks_give_a_dict_too():
    vec = make_book(3)
    seen = vec.reset(seed=0).observations
    assert_same(vec._observe(), seen)
    assert_same(vec._observe_rows(np.array([2])), {name: part[2:] for name, part in seen.items()})


@pytest.mark.parametrize(
    ("side", "size"),
    [(2, 0.0), (-2, 0.0), (0, np.nan), (0, INF), (0, 1.5)],
    ids=["above", "below", "nan", "inf", "size"],
)
def test_an_action_of_a_dict_is_refused_before_anything_changes(side, size):
    vec = make_book(2)
    vec.reset(seed=0)
    actions = act(2)
    actions["side"][1], actions["size"][1, 1, 0] = side, size
    with pytest.raises(InvalidAction, match=r"(?s)step\(actions\): expected an element of Dict.* \(sub-env 1\)"):
        vec.step(actions)
    assert vec.elapsed_steps.tolist() == [0, 0] and vec.small.tolist() == [-3, -3]
    vec.step(act(2))


def test_a_second_env_of_a_dict_market_is_not_compiled_again():
    ours, theirs = make_book(2), make_book(3)
    assert ours.compiled_step.dispatchers == theirs.compiled_step.dispatchers
    ours.set_attr("table", np.array([4.0, 5.0]))
    assert ours.compiled_step.dispatchers == theirs.compiled_step.dispatchers


def test_arrays_are_shared_and_what_follows_from_them_follows():
    given = TABLE.copy()
    vec = Book(3, table=given)  # as many entries as there are sub-envs
    given[:] = 0.0
    assert [each.tolist() for each in vec.get_attr("table")] == [TABLE.tolist()] * 3
    with pytest.raises(ValueError, match="read-only"):
        vec.table[0] = 1.0
    vec.reset(seed=0)
    vec.set_attr("table", np.array([10.0]))
    vec.step(act(3))
    assert vec.mark.tolist() == [100.25] * 3
    vec.set_attr("tick", [1.0, 2.0, 3.0])
    vec.reset()
    assert vec.mark.tolist() == [0.5, 1.0, 1.5]


def test_what_follows_from_a_range_follows_each_draw():
    vec = make_book(2, tick=Randomized(1.0, 2.0))
    vec.reset(seed=0)
    assert vec.mark.tolist() == (vec.tick / 2.0).astype(np.float32).tolist()
    assert len(set(vec.tick)) == 2


def test_parameters_that_shapes_depend_on_and_constants_stay():
    vec = make_book(2)
    for name, value in (("levels", 4), ("fee", 0.5), ("source", "another")):
        with pytest.raises(AttributeError, match=f"{name}: expected it to stay as it was when the env was made"):
            vec.set_attr(name, value)
    with pytest.raises(ValueError, match="levels: expected one value for all sub-envs"):
        make_book(2, levels=[3, 4])


# -- a tuple of everything ---------------------------------------------------------------------------------------


class Last(NamedTuple):
    total: np.float64


@jit
def reset_last(state, i):
    state.total[i] = 0.0


@jit
def step_last(state, i, action):
    multi, binary, box = action
    state.total[i] = 100 * multi[0] + 10 * multi[1] + binary[2] + 0.5 * box
    return state.total[i], False, False


@jit
def observe_last(state, i, observation):
    observation[0][0] = state.total[i]
    observation[1][0], observation[1][1] = 1.0, 2.0


class Every(KernelVecEnv):
    State = Last
    reset_row, step_row, observe_row = reset_last, step_last, observe_last
    observation_space = Tuple([Box(-INF, INF, (), np.float64), Box(0, 9, (2,), np.float32)])
    action_space = Tuple([MultiDiscrete([3, 4]), MultiBinary(3), Box(-1.0, 2.0, (), np.float32)])


def test_a_tuple_of_every_kind_of_action():
    vec = Every(4, autoreset=False)
    vec.reset()
    actions = vec.batch_action_space.sample()
    result = vec.step(actions)
    multi, binary, box = actions
    np.testing.assert_array_equal(
        result.rewards, 100 * multi[:, 0] + 10 * multi[:, 1] + binary[:, 2] + 0.5 * box.astype(np.float64)
    )
    assert result.observations[0].tolist() == result.rewards.tolist()
    assert result.observations[1].tolist() == [[1.0, 2.0]] * 4


@pytest.mark.parametrize(
    ("part", "item", "value"),
    [(0, (2, 1), 4), (0, (2, 0), -1), (1, (2, 2), 2), (1, (2, 0), -1), (2, 2, np.nan), (2, 2, 2.5), (2, 2, -INF)],
)
def test_each_part_of_a_tuple_is_looked_at(part, item, value):
    vec = Every(4, autoreset=False)
    vec.reset()
    actions = tuple(np.array(each) for each in vec.batch_action_space.sample())
    actions[part][item] = value
    with pytest.raises(InvalidAction, match=r"\(sub-env 2\)"):
        vec.step(actions)


# -- wide actions, in any memory ---------------------------------------------------------------------------------


@jit
def step_sum(state, i, action):
    state.total[i] = 0.0
    for k in range(len(action)):
        state.total[i] += action[k]
    return state.total[i], state.total[i] > 2.5, False


@jit
def observe_total(state, i, observation):
    observation[0] = state.total[i]


def summing(low):
    space = Box(low, -low, dtype=np.float64)
    parts = {"State": Last, "reset_row": reset_last, "step_row": step_sum, "observe_row": observe_total}
    scalar = Box(-INF, INF, (), np.float64)
    return type("Sum", (KernelVecEnv,), {**parts, "observation_space": scalar, "action_space": space})


class Choices(KernelVecEnv):
    State = Last
    reset_row, step_row, observe_row = reset_last, step_sum, observe_total
    observation_space, action_space = Box(-INF, INF, (), np.float64), MultiDiscrete([3, 4], start=[0, -1])


@pytest.mark.parametrize(
    ("action", "said"),
    [((1, 3), "item 1 has to be from -1 to 2, and is 3"), ((-5, 3), "item 0 has to be from 0 to 2, and is -5")],
)
def test_of_several_choices_the_first_that_is_none_is_named(action, said):
    vec = Choices(3)
    vec.reset(seed=0)
    actions = np.zeros((3, 2), np.int64)
    actions[1] = action
    with pytest.raises(InvalidAction, match=rf"an element of MultiDiscrete\(.*, got \[.*\]: {said} \(sub-env 1\)"):
        vec.step(actions)


TWO = -np.arange(1.0, 3.0)


@pytest.mark.parametrize(
    ("low", "autoreset"),
    [(TWO[:0], True), (TWO, True), (-np.arange(1.0, 41.0), True), (np.repeat(TWO, 20), False)],
    ids=["none", "few", "many", "two kinds"],
)
def test_each_item_of_a_wide_action_has_its_own_bounds(low, autoreset):
    vec = summing(low)(3, autoreset=autoreset)
    vec.reset()
    width = len(low)
    assert vec.step(np.tile(low, (3, 1))).rewards.tolist() == [low.sum()] * 3
    for item in range(width):
        for value in (low[item] - 0.5, 0.5 - low[item] + 0.5, np.nan, INF, -INF):
            actions = np.zeros((3, width))
            actions[1, item] = value
            with pytest.raises(InvalidAction, match=r"\(sub-env 1\)"):
                vec.step(actions)


def test_markets_whose_classes_are_made_by_type_are_told_apart_on_disk():
    if not PLAIN:
        from sekai.kernels.fingerprint import describe

        one, two = (summing(TWO[:width])(2).compiled_step.py_func for width in (1, 2))
        assert describe(one).texts != describe(two).texts


def memories(values):
    """The same numbers in memory of every kind."""
    wide = np.zeros((2 * len(values), 2 * values.shape[1]))
    wide[::2, ::2] = values
    read_only = values.copy()
    read_only.flags.writeable = False
    unaligned = np.ndarray(values.shape, values.dtype, bytearray(b"\0" + values.tobytes()), 1)
    yield from (values, np.asfortranarray(values), wide[::2, ::2], values[::-1].copy()[::-1], read_only, unaligned)
    yield from (values.astype(">f8"), values.astype(np.float32), values.tolist(), np.ma.array(values))


def test_actions_may_lie_in_any_memory():
    values = np.array([[0.5, -0.25], [1.0, 0.75], [-1.0, 2.0]])
    vec = summing(TWO)(3)
    vec.reset()
    for each in memories(values):
        kept = copy.deepcopy(each)
        assert vec.step(each).rewards.tolist() == [0.25, 1.75, 1.0]
        assert np.array_equal(each, kept)
    for wrong in (values[:2], values[:, :1], values.T, values.astype(complex), values.astype(str), values[0]):
        with pytest.raises(ValueError, match=r"step\(actions\)"):
            vec.step(wrong)
    if not PLAIN:
        assert len(vec.compiled_step.dispatchers[0].overloads) == 1


# -- actions of a walk -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("action", [3, -1, 2**62])
def test_an_action_that_is_none_is_refused_by_name_and_changes_nothing(action, n):
    vec, twin = make_walk(n), make_walk(n)
    vec.reset(seed=0), twin.reset(seed=0)
    actions = np.ones(n, np.int64)
    actions[n - 1] = action
    expected = rf"step\(actions\): expected an element of Discrete\(3\), got {action} \(sub-env {n - 1}\)"
    with pytest.raises(InvalidAction, match=expected):
        vec.step(actions)
    assert_same_columns(vec.step(np.ones(n, np.int64)), twin.step(np.ones(n, np.int64)))


# -- copies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda vec: pickle.loads(pickle.dumps(vec))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("n", SIZES)
def test_a_copy_goes_its_own_way(duplicate, n):
    same = assert_same_result if n < 9 else assert_same_columns
    vec, twin = make_walk(n), make_walk(n)
    results = run(twin, 7)
    run(vec, 3)
    other = duplicate(vec)
    assert_same((other.speed, other.price, other.elapsed_steps), (vec.speed, vec.price, vec.elapsed_steps))
    other.set_attr("sigma", 50.0)
    other.step(np.ones(n, np.int64))
    other.reset(seed=9)
    again = duplicate(vec)
    for actions, result in zip(actions_of(vec, 7)[3:], results[4:], strict=True):
        same(vec.step(actions), result)
        same(again.step(actions), result)
    assert_same(vec.elapsed_steps, twin.elapsed_steps)


def test_a_copy_shares_compiled_code_and_locks_its_arrays():
    vec = make_book(2)
    vec.reset(seed=0)
    other = copy.deepcopy(vec)
    other.step(act(2)), vec.step(act(2))
    assert not other.table.flags.writeable
    assert other.compiled_step.dispatchers == vec.compiled_step.dispatchers
    if not PLAIN:
        assert len(vec.compiled_step.dispatchers[0].overloads) == 1


# -- many rows ---------------------------------------------------------------------------------------------------

MANY = [3, 2100] if PLAIN else [3, 2047, 2048, 2049, 2500, 20_000]


@pytest.mark.parametrize("n", MANY)
def test_rows_do_not_depend_on_how_many_there_are_nor_on_threads(n):
    def last(num_threads, rows):
        vec = make_walk(len(rows))
        vec.reset(seed=[int(row) for row in rows])
        threads.set_num_threads(num_threads)
        with threads.always_used():
            results = [vec.step(np.full(len(rows), k % 3)) for k in range(5)]
        ends = [result.infos.final("final_observation") for result in results]
        told = [result.infos.final("reset_info").get("speed") for result in results]
        done = [rows[result.infos.done] for result in results]
        return results, ends, told, done

    before = threads.get_num_threads()
    try:
        results, ends, told, done = last(1, np.arange(n))
        some = np.unique(np.linspace(0, n - 1, 50).astype(int))
        others, its_ends, its_told, its_done = last(1, some)
        for mine, other in zip(results, others, strict=True):
            assert_same(mine.observations[some], other.observations)
            assert_same(mine.rewards[some], other.rewards)
        for k in range(5):
            at = np.isin(done[k], some)
            assert_same((done[k][at], ends[k][at]), (its_done[k], its_ends[k]))
            if at.any():
                assert_same(told[k][at], its_told[k])
        again, its_ends, its_told, its_done = last(2, np.arange(n))
        for mine, other in zip(results, again, strict=True):
            assert_same_columns(mine, other)
        assert_same((done, ends, told), (its_done, its_ends, its_told))
    finally:
        threads.set_num_threads(before)


@pytest.mark.form
@pytest.mark.parametrize(
    "ending",
    [{}, {"autoreset": False}, {"autoreset_options": lambda i: {"start": float(i % 3)}}],
    ids=["reset", "frozen", "reset-by-a-function"],
)
def test_rows_that_end_are_gathered_from_all_threads(ending):
    class Wide(Walk):
        parallel_from = 50

    def play(num_threads):
        vec = Wide(101, speed=SPEED, max_episode_steps=LIMIT, **ending)
        vec.reset(seed=1)
        threads.set_num_threads(num_threads)
        with threads.always_used():
            return [vec.step(np.full(101, k % 3)) for k in range(5)]

    before = threads.get_num_threads()
    try:
        for mine, other in zip(play(1), play(2), strict=True):
            assert_same_columns(mine, other)
            assert_same(list(mine.infos), list(other.infos))
    finally:
        threads.set_num_threads(before)


def assert_same_columns(ours, theirs):
    for name in ("observations", "rewards", "terminated", "truncated"):
        assert_same(getattr(ours, name), getattr(theirs, name))
    assert_same(ours.infos.columns, theirs.infos.columns)


@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
@pytest.mark.parametrize("n", SIZES)
def test_results_never_change_and_writing_into_them_changes_nothing(n, autoreset):
    vec, twin = make_walk(n, autoreset=autoreset), make_walk(n, autoreset=autoreset)
    vec.reset(seed=0), twin.reset(seed=0)
    kept = []
    for actions in actions_of(vec, 6):
        result = vec.step(actions)
        kept.append(
            (result, copy.deepcopy((result.observations, result.rewards, result.truncated, result.infos.columns)))
        )
        spoiled = twin.step(actions)
        assert_same_columns(spoiled, result)
        arrays = [spoiled.observations, spoiled.rewards, spoiled.terminated, spoiled.truncated]
        for array in (*arrays, *spoiled.infos.columns.values()):
            array[...] = 1
    for result, values in kept:
        assert_same((result.observations, result.rewards, result.truncated, result.infos.columns), values)


# -- rollouts ----------------------------------------------------------------------------------------------------


class Lean(NamedTuple):
    bias: float
    stray_at: float


@jit
def lean(parameters, observation, action):
    action[0] = 2 if observation[0] > parameters.bias else int(observation[1]) % 2
    if observation[1] == parameters.stray_at:
        action[0] = 7


class Leaning:
    """A policy of rows, which gives an action that is none at some step of an episode."""

    def __init__(self, stray_at=-1.0):
        self.parameters = Lean(1.0, stray_at)

    def row_policy(self):
        return lean, self.parameters


#: Kept in each rollout: for others the loop would be compiled again.
INFOS = ("price", "count", "speed", "elapsed_steps")


def stepped(monkeypatch, *args, **kwargs):
    with monkeypatch.context() as patch:
        patch.setattr(KernelVecEnv, "can_roll", False)
        return sekai.rollout(*args, **kwargs)


@pytest.mark.parametrize("n", [3, *([] if PLAIN else [2500, pytest.param(20_000, marks=pytest.mark.slow)])])
def test_a_compiled_rollout_is_a_stepped_one(n, monkeypatch):
    given = {"start": 0.5, "lead": 1}
    ours, theirs = make_walk(n, autoreset_options=given), make_walk(n, autoreset_options=given)
    steps = 150 if n == 3 else 9  # 64 are made at once
    assert ours.can_roll
    mine = sekai.rollout(ours, Leaning(), steps, seed=4, infos=INFOS)
    other = stepped(monkeypatch, theirs, Leaning(), steps, seed=4, infos=INFOS)
    assert len(mine.final_indices) >= n
    assert_same(mine.to_dict(), other.to_dict())
    assert_same((ours.price, ours.elapsed_steps, ours.speed), (theirs.price, theirs.elapsed_steps, theirs.speed))
    assert_same_columns(ours.step(np.ones(n, np.int64)), theirs.step(np.ones(n, np.int64)))
    again = sekai.rollout(ours, Leaning(), steps, seed=4, infos=INFOS, out=mine)
    assert_same(again.to_dict(), other.to_dict())


@pytest.mark.compiled
@pytest.mark.parametrize("n", [3, 20_000])
def test_the_earliest_action_of_a_rollout_that_is_refused_is_named(n):
    vec = make_walk(n, sigma=0.0)
    with pytest.raises(InvalidAction, match=r"rollout, step 2: .* got 7 \(sub-env 0\)"):
        sekai.rollout(vec, Leaning(2.0), 8, seed=0, infos=INFOS)
    with pytest.raises(ResetRequired):
        vec.step(np.ones(n, np.int64))
    vec.reset(seed=0)
    vec.step(np.ones(n, np.int64))


@jit
def hold(observation, action):
    action[0], action[1] = (1.0, 2.0) if observation[0] < 0.0 else (-0.5, 0.25)


def test_a_rollout_of_numbers_and_arrays(monkeypatch):
    mine = sekai.rollout(summing(TWO)(3), hold, 5, seed=0)
    other = stepped(monkeypatch, summing(TWO)(3), hold, 5, seed=0)
    assert mine.observations.shape == (5, 3) and mine.final_observations.tolist() == [3.0] * 6
    assert_same(mine.to_dict(), other.to_dict())


# -- classes that are not written as they have to be -------------------------------------------------------------


def market_of(**changes):
    parts = {
        "State": Last,
        "reset_row": reset_last,
        "step_row": step_sum,
        "observe_row": observe_total,
        "observation_space": Box(-INF, INF, (1,), np.float64),
        "action_space": Box(-1.0, 1.0, (2,), np.float64),
    }
    return type(
        "Odd", (KernelVecEnv,), {name: value for name, value in {**parts, **changes}.items() if value is not None}
    )


@jit
def unknown_argument(state, j):
    state.total[j] = 0.0


@jit
def wants_options(state, i, options):
    state.total[i] = 0.0


def not_compiled(state, i):
    state.total[i] = 0.0


def a_state(**fields):
    return NamedTuple("State", list(fields.items()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reset_row": unknown_argument}, "Odd.reset_row: expected arguments among params, derived, .* got 'j'"),
        ({"reset_row": wants_options}, "Odd.reset_row: expected the market to have Options"),
        ({"reset_row": not_compiled}, "Odd.reset_row: expected a function compiled by sekai.kernels.jit, got"),
        ({"reset_row": None}, "Odd.reset_row: expected a function of one row"),
        ({"observe_row": None}, "Odd.observe_row: expected a function of one row"),
        ({"State": None}, "Odd.State: expected a named tuple class with a field for each column, got none"),
        ({"State": dict}, "Odd.State: expected a named tuple class"),
        ({"State": a_state(total="np.flaot64")}, "Odd.State: expected annotations that name what the module has"),
        ({"State": a_state(total=str)}, "Odd.State.total: expected a dtype as annotation"),
        ({"State": a_state(total=np.float16)}, "Odd.State.total: expected a dtype as annotation"),
        ({"State": a_state(total=column(complex, 2))}, "Odd.State.total: expected a dtype as annotation"),
        ({"State": a_state(total=np.float64, rng=np.float64)}, "Odd: expected no field named 'rng'"),
        ({"State": a_state(total=np.float64, num_envs=np.int64)}, "Odd: expected no field named 'num_envs'"),
        ({"Params": NamedTuple("Params", [("check", float)])}, "Odd: expected no field named 'check'"),
        ({"Params": NamedTuple("Params", [("total", float)])}, "Odd: expected other names in State than in Params"),
        ({"Params": NamedTuple("Params", [("x", list)])}, "Odd.Params.x: expected an annotation of float"),
        ({"Params": NamedTuple("Params", [("x", float | np.ndarray)])}, "Odd.Params.x: expected an annotation of"),
        ({"Options": NamedTuple("Options", [("x", float)])}, "Odd.Options.x: expected a number with a default value"),
        ({"infos": ("totl",)}, "Odd.infos: expected fields of State and numbers of Params, got 'totl'"),
        ({"infos": "total"}, "Odd.infos: expected a sequence of names, got 'total'"),
        ({"action_space": 3}, "Odd.action_space: expected a sekai Space or a function of the parameters, got 3"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_class_that_is_refused(changes, message):
    with pytest.raises(TypeError, match=message):
        market_of(**changes)


def test_a_parameter_that_is_misspelt_in_a_check_is_named():
    def check(params):
        return params.feee > 0

    odd = market_of(Params=OneParam, check=staticmethod(check))
    with pytest.raises(AttributeError, match=r"^Odd\.check: .* no attribute 'feee' \(did you mean 'fee'\?\)$"):
        odd(2)


class OneParam(NamedTuple):
    fee: float | None = None
    levels: int = 2


class Lists(NamedTuple):
    items: Any


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Params": OneParam, "infos": ("fee",)}, "fee: expected a number, since Odd tells it in infos, got None"),
        ({"action_space": lambda params: 3}, "Odd.action_space: expected it to return a sekai Space, got 3"),
        ({"action_space": Dict({})}, "Odd.action_space: expected at least one array"),
        ({"action_space": Dict({"a": Dict({"b": Discrete(2)})})}, "Odd.action_space: expected arrays of fixed shapes"),
        (
            {"action_space": Dict({"from": Discrete(2)})},
            r"Odd.action_space: expected keys that are names, got \['from'\]",
        ),
        ({"action_space": Box(0, 1, (2,), np.float16)}, "Odd.action_space: expected arrays of fixed shapes"),
        ({"prepare": lambda params: 3}, "Odd.prepare: expected it to return a named tuple, got 3"),
        ({"prepare": lambda params: Lists([1, 2])}, "Odd.prepare: items: expected an array of numbers"),
        ({"prepare": lambda params: Follows(2.0), "derive_row": derive_row}, "Odd.derive_row: expected other names"),
        (
            {"State": a_state(total=column(np.float64, "levles")), "Params": OneParam},
            r"Odd.State.total: expected a size that is one parameter of \[.*\], got .levles.",
        ),
        ({"State": a_state(total=column(np.float64, "fee")), "Params": OneParam}, "Odd.State.total: expected a shape"),
        ({"State": a_state(total=column(np.float64, -1))}, "Odd.State.total: expected a shape of integers"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_env_that_cannot_be_made(changes, message):
    with pytest.raises((TypeError, AttributeError), match=message):
        market_of(**changes)(2)


def test_the_base_class_is_no_market():
    with pytest.raises(TypeError, match="KernelVecEnv.step_row: expected a function of one row, got none"):
        KernelVecEnv(2)
    assert issubclass(KernelVecEnv, NativeVecEnv)


@jit
def two_values(state, i):
    return state.total[i], False


@jit
def undeclared(state, i):
    state.ttal[i] = 1.0
    return 0.0, False, False


@jit
def helped(state, i):
    undeclared(state, i)
    return 0.0, False, False


@jit
def unknown_parameter(params, state, i):
    return params.speed, False, False


def plain_python(x):
    return x


@jit
def without_row(state, i):
    state.total = 1.0
    return 0.0, False, False


@jit
def calling_plain(state, i):
    return plain_python(state.total[i]), False, False


@jit
def complex_reward(state, i):
    return state.total[i] * 1j, False, False


@jit
def no_row_read(state, i):
    return state.total, False, False


LIST, DICT = [1.0, 2.0], {"a": 1.0}


@jit
def reading_list(state, i):
    return LIST[0], False, False


@jit
def reading_dict(state, i):
    return DICT["a"], False, False


def reading_list_around():
    weights = [1.0, 2.0]

    @jit
    def read(state, i):
        return weights[0], False, False

    return read


def outside(name, kind, source):
    """A pattern of what is said of a global that cannot be compiled."""
    got = f"{name}, from outside the function, is of type {kind}, which compiled code cannot read"
    return f"{got}: expected .* tuple of numbers or a NumPy array there, or a field of .* {line_of(source)}$"


@jit
def opening(state, i):
    with open("a file"):
        return 0.0, False, False


def line_of(source):
    """A pattern of the place of a line of this file."""
    return rf"\({re.escape(Path(__file__).name)}, line \d+: {re.escape(source)}\)"


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            two_values,
            r"expected it to return a number and two bools \(reward, terminated, truncated\), got \(float64, bool\)$",
        ),
        (helped, rf"Last has no field 'ttal', expected one of: total {line_of('state.ttal[i] = 1.0')}$"),
        (
            unknown_parameter,
            rf"NoParams has no field 'speed', expected one of: none {line_of('return params.speed, False, False')}$",
        ),
        (
            without_row,
            rf"expected no assignment to a field of a named tuple, got one to Last.total; .* total\[i\] "
            rf"{line_of('state.total = 1.0')}$",
        ),
        (
            calling_plain,
            "plain_python is a plain Python function, expected one compiled by sekai.kernels.jit "
            rf"{line_of('return plain_python(state.total[i]), False, False')}$",
        ),
        (complex_reward, r"expected it to return a number and two bools .* got \(complex128, bool, bool\)$"),
        (no_row_read, r"expected it to return a number and two bools .* got \(an array of float64, bool, bool\)$"),
        (reading_list, outside("LIST", "list", "return LIST[0], False, False")),
        (reading_dict, outside("DICT", "dict", 'return DICT["a"], False, False')),
        (reading_list_around(), outside("weights", "list", "return weights[0], False, False")),
        (opening, rf"Unsupported context manager in use {line_of('with open(')[:-2]}"),
    ],
    ids=[
        "two values",
        "in a helper",
        "parameter",
        "no row",
        "plain",
        "complex",
        "a column",
        "a list",
        "a dict",
        "a list around it",
        "with",
    ],
)
def test_a_step_that_cannot_be_compiled_is_named(step, message):
    vec = market_of(step_row=step)(2)
    vec.reset()
    with pytest.raises(TypeError, match=rf"^Odd\.step_row \(.*test_kernel_env\.py, line \d+\): {message}"):
        vec.step(np.zeros((2, 2)))


@jit
def reset_undeclared(state, i):
    state.ttal[i] = 1.0


@jit
def observe_undeclared(state, i, observation):
    observation[0] = state.ttal[i]


@pytest.mark.compiled
@pytest.mark.parametrize("function", [reset_undeclared, observe_undeclared], ids=["reset_row", "observe_row"])
def test_a_reset_that_cannot_be_compiled_is_named(function):
    name = f"{function.__name__.split('_')[0]}_row"
    vec = market_of(**{name: function})(2)
    with pytest.raises(TypeError, match=rf"^Odd\.{name} \(.*line \d+\): Last has no field 'ttal'"):
        vec.reset()


@jit
def count_total(state, i, action):
    state.total[i] += action
    return 0.0, False, False


@jit
def reset_to(state, i):
    state.total[i] = 1.0
    return state.total[i]


@jit
def observe_anew(state, i):
    return np.full(1, state.total[i], np.float32)


@jit
def mask_anew(state, i):
    return np.array([1, 0], np.int8)


@jit
def mask_at_times(state, i, mask):
    if state.total[i] > 1.0:
        return mask
    return None


@pytest.mark.parametrize(
    ("function", "written", "got"),
    [
        (reset_to, "state", "float64"),
        (observe_anew, "observation", "an array of float32"),
        (mask_anew, "mask", "an array of int8"),
        (mask_at_times, "mask", "an array of int8 or None"),
    ],
    ids=["reset_row", "observe_row", "mask_row", "mask_row in a branch"],
)
def test_what_is_to_be_written_is_not_returned(function, written, got):
    """Nobody would look at it, and a mask of ones would say that everything is allowed."""
    name = f"{function.__name__.split('_')[0]}_row"
    vec = market_of(**{name: function}, action_space=Discrete(2), step_row=count_total)(2)
    with pytest.raises(TypeError, match="expected .*nothing") as raised:
        vec.reset()
        vec.step([1, 1])
        vec.step([1, 1])
        vec.action_mask()
    if not PLAIN:
        where = rf"Odd\.{name} \(.*test_kernel_env\.py, line \d+\)"
        expected = rf"{where}: expected it to return nothing \(it writes into {written}\), got {got}"
        assert re.fullmatch(expected, str(raised.value))


@jit
def observe_two(state, i, observation):
    observation[0], observation[1] = state.total[i], 2.0


def test_an_observation_that_is_written_beyond_its_end_is_refused():
    with pytest.raises(IndexError, match="Odd.observe_row: observation: "):
        market_of(observe_row=observe_two)(2).reset()


def test_an_observation_that_is_not_written_whole_is_refused():
    space = Box(-INF, INF, (2, 2), np.float32)

    @jit
    def observe_some(observation):
        observation[0, 0] = observation[0, 1] = observation[1, 1] = 0.0

    with pytest.raises(
        ValueError, match=r"Odd.observe_row: observation: expected all items .* not so that at \[1, 0\]"
    ):
        market_of(observe_row=observe_some, observation_space=space)(2).reset()


def test_what_a_row_function_raises_asks_for_a_reset():
    @jit
    def raises(state, i, action):
        if action[0] > 0.5:
            raise ValueError("too much")
        return 0.0, False, False

    market = market_of(step_row=raises)
    vec = market(2)
    vec.reset()
    vec.step(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="too much"):
        vec.step(np.ones((2, 2)))
    with pytest.raises(ResetRequired):
        vec.step(np.zeros((2, 2)))
    vec.reset()
    vec.step(np.zeros((2, 2)))
    single = SingleEnv(market)
    single.reset()
    with pytest.raises(ValueError, match="too much"):
        single.step(np.ones(2))
    with pytest.raises(ResetRequired):
        single.step(np.zeros(2))


class OneRange(NamedTuple):
    x: float = 0.5


@jit
def end_at_once(params, action):
    return params.x, True, False


def test_a_range_set_after_a_reset_is_drawn_from_the_streams_of_its_seed():
    market = market_of(Params=OneRange, step_row=end_at_once, reset_infos=("x",))
    late, early = market(4), market(4, x=Randomized(0.0, 1.0))
    late.reset(seed=[1, 2, 3, 4])
    late.set_attr("x", Randomized(0.0, 1.0))
    early.reset(seed=[1, 2, 3, 4])  # which draws once
    drawn = early.x
    late.step(np.zeros((4, 2)))
    assert late.x.tolist() == drawn.tolist() and len(set(drawn)) == 4


def test_every_sub_env_is_checked_at_both_ends_of_a_range():
    class Limits(NamedTuple):
        x: float = 0.0
        most: float = 1.0

    def check(params):
        if params.x > params.most:
            raise ValueError(f"x: expected at most {params.most}, got {params.x}")

    market = market_of(Params=Limits, check=check)
    market(2, x=Randomized(0.0, 1.0), most=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"x: expected at most 0.5, got 1.0 \(the upper end of .*\) \(sub-env 1\)"):
        market(2, x=Randomized(0.0, 1.0), most=[1.0, 0.5])


def test_options_are_finite_numbers():
    class MaybeStart(NamedTuple):
        start: int | None = None

    class Start(NamedTuple):
        start: float = 0.0

    with pytest.raises(TypeError, match="Odd.Options.start: expected a number with a default value"):
        market_of(Options=MaybeStart)
    vec = market_of(Options=Start, reset_row=start_last)(2)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"start: expected a finite number, got {bad}"):
            vec.reset(options={"start": bad})


@jit
def start_last(state, i, options):
    state.total[i] = options.start


def test_attributes_of_a_subclass_are_its_own():
    market = market_of(Params=OneRange)

    class Other(market):
        State = a_state(other=np.float64)
        reset_row, step_row, observe_row = reset_other, end_at_once, observe_other

    vec = Other(2)
    assert vec.other.tolist() == [0.0, 0.0] and not hasattr(vec, "total")
    for written in (property(lambda self: "mine"), lambda self: 7, 5):
        with pytest.raises(TypeError, match="Written.x: expected no attribute of the name of a field"):
            type("Written", (market,), {"x": written})


@jit
def reset_other(state, i):
    state.other[i] = 0.0


@jit
def observe_other(state, i, observation):
    observation[0] = state.other[i]


@jit
def swapped(action):
    return False, False, action[0]


@jit
def flag_as_number(action):
    return action[0], 0, False


@jit
def bool_as_reward(action):
    return action[0] > 0.0, False, False


@jit
def sometimes(action):
    if action[0] > 0.5:
        return 1.0, False, False


@pytest.mark.parametrize("step", [swapped, flag_as_number, bool_as_reward, sometimes], ids=lambda step: step.__name__)
def test_b5_what_a_step_returns_is_a_number_and_two_bools(step):
    vec = market_of(step_row=step)(2)
    vec.reset()
    named = r"Odd.step_row .*: expected it to return a number and two bools \("
    with pytest.raises(TypeError, match="expected .*(bool|number|something)" if PLAIN else named):
        vec.step(np.zeros((2, 2)))


def test_what_follows_has_to_follow_from_something():
    @jit
    def step(derived):
        return 0.0, False, False

    with pytest.raises(TypeError, match="Odd.step_row: expected a derive_row or a prepare, since it asks for derived"):
        market_of(step_row=step)


@jit
def act_nothing(observation, action):
    pass


@jit
def act_half(observation, action):
    action[0] = 0.5


@jit
def act_beyond(observation, action):
    action[0] = action[1] = action[2] = 0.5


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (act_nothing, ValueError, "expected all of its 2 items to be written, not so item 0"),
        (act_half, ValueError, "expected all of its 2 items to be written, not so item 1"),
        (act_beyond, IndexError, "expected no more than its 2 items to be written"),
    ],
    ids=["nothing", "half", "beyond"],
)
def test_a_policy_of_rows_writes_its_action_and_no_more(policy, error, message):
    with pytest.raises(error, match=rf"rollout\(policy\): action: {message}"):
        sekai.rollout(summing(TWO)(3), policy, 5, seed=0, progress=False)


@jit
def act_unknown(observation, action):
    action[0] = observation.price


@pytest.mark.compiled
def test_a_policy_that_cannot_be_compiled_is_named():
    place = line_of("action[0] = observation.price")
    expected = rf"^rollout\(policy\): act_unknown: Unknown attribute 'price' of type readonly array.* {place}$"
    with pytest.raises(TypeError, match=expected):
        sekai.rollout(market_of()(2), act_unknown, 3)


class Fixed(NamedTuple):
    cap: float | None = None
    flag: bool = False
    x: float = 1.0


@jit
def unpacked(params):
    cap, flag, x = params
    return x if cap is None else 2.0, flag, False


@jit
def indexed(params):
    return 1.0 if params[0] is None else 2.0, False, False


@jit
def cap_of(cap, flag, x):
    return 1.0 if cap is None else 2.0


@jit
def handed_on(params):
    return cap_of(*params), False, False


@jit
def in_a_list(params):
    return sum([1.0 if params.cap is None else 0.0 for _ in range(1)]), False, False


@jit
def as_usual(params):
    part = params
    return 1.0 if part.cap is None and not params.flag else 2.0, params.flag, False


@pytest.mark.parametrize("step", [unpacked, indexed, handed_on, in_a_list, as_usual], ids=lambda step: step.__name__)
def test_a_constant_is_read_right_or_not_at_all(step):
    vec = market_of(Params=Fixed, step_row=step)(2)
    vec.reset()
    if PLAIN or step is as_usual:
        assert vec.step(np.zeros((2, 2))).rewards.tolist() == [1.0, 1.0]
    else:
        with pytest.raises(TypeError, match=r"(?s)Odd.step_row .*expected a constant to be read where it is needed"):
            vec.step(np.zeros((2, 2)))


class Shown(NamedTuple):
    shown: float = 1.0


@jit
def show(params, state, i, observation):
    observation[0] = params.shown + state.total[i]


def test_a_frozen_sub_env_repeats_what_it_showed_whatever_is_set_since():
    vec = market_of(Params=Shown, observe_row=show)(2, autoreset=False, max_episode_steps=1)
    vec.reset()
    last = vec.step(np.zeros((2, 2))).observations.copy()
    vec.set_attr("shown", 5.0)
    assert vec.step(np.zeros((2, 2))).observations.tolist() == last.tolist()
    assert (vec.reset().observations != last).all()


@jit
def halve(state, i, action):
    action[0] *= 0.5
    return action[0], False, False


def test_actions_cannot_be_written_to():
    vec = market_of(step_row=halve)(2)
    vec.reset()
    actions = np.ones((2, 2))
    with pytest.raises((TypeError, ValueError), match="(?i)read.?only|cannot store|Cannot modify"):
        vec.step(actions)
    assert (actions == 1.0).all()


class Curve(NamedTuple):
    curve: np.ndarray = np.array([1.0, 2.0, 3.0])
    rate: float = 1.0


@jit
def by_curve(params):
    return params.curve[2] * params.rate, False, False


def test_an_array_that_all_share_is_set_as_it_is_read():
    vec = market_of(Params=Curve, step_row=by_curve)(2)
    vec.reset()
    vec.set_attr("curve", vec.get_attr("curve"))
    vec.set_attr("curve", np.array([4.0, 5.0, 6.0]))
    assert vec.step(np.zeros((2, 2))).rewards.tolist() == [6.0, 6.0]
    for bad in (np.zeros((2, 3)), [np.zeros(3), np.ones(3)], [4.0, 5.0]):
        with pytest.raises(ValueError, match="curve: expected"):
            vec.set_attr("curve", bad)
    vec.set_attr("rate", np.array([1.0, 2.0]))
    vec.set_attr("rate", vec.rate * 2.0)
    assert vec.step(np.zeros((2, 2))).rewards.tolist() == [12.0, 24.0]


@jit
def observe_before(observation):
    observation[0], observation[-2] = 1.0, 7.0


@pytest.mark.compiled
def test_an_observation_is_not_written_before_its_beginning():
    with pytest.raises(IndexError, match="Odd.observe_row: observation: expected no more than its 1 items"):
        market_of(observe_row=observe_before)(2).reset()


def test_discrete_actions_at_the_end_of_the_integers():
    vec = market_of(action_space=Discrete(3, start=2**63 - 3), step_row=number_of)(2)
    vec.reset()
    assert vec.step(np.array([2**63 - 3, 2**63 - 1])).rewards.tolist() == [0.0, 2.0]


@jit
def number_of(action):
    return 1.0 * (action - (2**63 - 3)), False, False


# -- found in use: A2, A3, A8, A11, A21 ------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES[:1])
def test_a3_the_time_limit_can_be_read_and_set(n):
    vec, theirs = make_walk(n), twins(n)
    ours = SingleEnv(Walk)
    with pytest.raises(AttributeError, match="max_episode_steps"):
        ours.get_attr("max_episode_steps")
    assert vec.get_attr("max_episode_steps") == theirs.get_attr("max_episode_steps") == [LIMIT] * n
    for limit in (2, 3):
        for each in (vec, theirs, pickle.loads(pickle.dumps(vec)), copy.deepcopy(vec)):
            each.reset(seed=[7] * n)
            each.set_attr("max_episode_steps", limit)
            assert each.get_attr("max_episode_steps") == [limit] * n
            ends = [each.step(np.ones(n, np.int64)).truncated[0] for _ in range(limit)]
            assert ends == [False] * (limit - 1) + [True]
    vec.set_attr("sigma", 0.25)  # which makes its memory anew
    assert vec.max_episode_steps == 3
    with pytest.raises(ValueError, match="expected one limit for all sub-envs"):
        vec.set_attr("max_episode_steps", [2, 3, 3])


def test_a2_generators_in_a_list_of_seeds():
    ours, theirs = make_walk(3), make_walk(3)
    drawn = int(np.random.default_rng(5).integers(2**63))
    assert_same_result(ours.reset(seed=[np.random.default_rng(5), 2, 3]), theirs.reset(seed=[drawn, 2, 3]))


@pytest.mark.compiled
def test_a8_actions_in_any_layout_are_one_form_of_the_step():
    vec = make_walk(3)
    vec.reset(seed=1)
    plain = np.array([0, 1, 2])
    frozen = plain.copy()
    frozen.flags.writeable = False
    vec.step(plain)
    known = [len(each.signatures) for each in vec.compiled_step.dispatchers]
    for actions in (plain[::-1].copy()[::-1], np.repeat(plain, 2)[::2], frozen, plain.astype(np.int8), plain.tolist()):
        vec.step(actions)
    assert [len(each.signatures) for each in vec.compiled_step.dispatchers] == known


def test_a11_options_stay_the_caller_s():
    options, at_ends = {"start": 2.0}, {"start": 3.0}
    vec = make_walk(3, autoreset_options=at_ends)
    vec.reset(seed=1, options=options)
    SingleEnv(Walk).reset(options=options)
    assert options == {"start": 2.0} and at_ends == {"start": 3.0}


@pytest.mark.parametrize(
    "name",
    ["num_envs", "action_space", "observation_space", "autoreset", "infos", "reset_infos", "step_row", "reset_row"]
    + ["observe_row", "check", "Params", "State", "Options", "params", "step", "roll", "_columns", "_values"],
)
def test_a21_what_the_class_and_its_base_own_cannot_be_set(name):
    vec = make_walk(3)
    vec.reset(seed=1)
    for owner in (vec, SingleEnv(make_walk).vec):
        with pytest.raises(AttributeError, match=name):
            owner.set_attr(name, 1)
    with pytest.raises(AttributeError, match="price"):
        vec.set_attr("price", 1.0)
    vec.step([1, 1, 1])


@pytest.mark.parametrize("value", [[1.5, 2], [1.0, 2.0], np.array([3.5, 4.5]), 2.5, (1, 2.5)], ids=str)
def test_numbers_of_an_integer_parameter_are_not_cut(value):
    with pytest.raises(TypeError, match="length: expected an integer"):
        Walk(2, length=value)
    vec = Walk(2, length=[3, 4])
    with pytest.raises(TypeError, match="length: expected an integer"):
        vec.set_attr("length", value)
    assert vec.length.tolist() == [3, 4]


def test_masked_numbers_are_no_parameters():
    masked = np.ma.masked_array([0.1, 0.2], [False, True])
    with pytest.raises(ValueError, match="sigma: expected numbers, got an array with masked entries"):
        Walk(2, sigma=masked)


class Bare(KernelVecEnv):
    State, reset_row, step_row, observe_row = Last, reset_last, step_last, observe_last
    observation_space, action_space = Walk.observation_space, Walk.action_space


@pytest.mark.parametrize(
    "name, meant",
    [("infoes", "infos"), ("Option", "Options"), ("options", "Options"), ("reset_info", "reset_infos")]
    + [("check_option", "check_options"), ("derive_rows", "derive_row"), ("Param", "Params"), ("Prepare", "prepare")]
    + [
        ("paralel_from", "parallel_from"),
        ("held_parameter", "held_parameters"),
        ("snapshot_ignore", "snapshot_ignores"),
    ],
)
def test_a_misspelt_attribute_of_the_class_is_named(name, meant):
    with pytest.raises(TypeError, match=rf"Misspelt\.{name}: expected another name, or '{meant}' if that is meant"):
        type("Misspelt", (Bare,), {name: ()})


@pytest.mark.parametrize(
    "name, meant",
    [("info", "infos"), ("observe_rows", "observe_row"), ("step_now", None), ("action_spaces", "action_space")],
)
def test_so_is_one_that_the_base_has_under_the_right_name(name, meant):
    told = type("Told", (Bare,), {"infos": ("total",)})
    if meant is None:
        type("Spelt", (told,), {name: ()})
    else:
        with pytest.raises(TypeError, match=rf"Misspelt\.{name}: expected another name, or '{meant}' if that is meant"):
            type("Misspelt", (told,), {name: ()})


class Filled(NamedTuple):
    total: np.float64 = 5.0


class FilledPart(NamedTuple):
    part: Filled


@pytest.mark.parametrize(("state", "path"), [(Filled, "total"), (FilledPart, "part.total")])
def test_a_column_has_no_default(state, path):
    """Its first values are those that reset_row writes."""
    with pytest.raises(TypeError, match=rf"Odd\.State\.{path}: expected no default, .*reset_row.*, got 5.0"):
        type("Odd", (Bare,), {"State": state})


class Given(NamedTuple):
    speed: float = 1.0


def test_a_check_raises_and_returns_no_verdict():
    members = {"Params": Given, "check": lambda params: params.speed > 0.0}
    with pytest.raises(TypeError, match=r"Odd\.check: expected it to raise ValueError .*, got False returned"):
        type("Odd", (Bare,), members)(2, speed=-1.0)
    members = {"Options": Given, "check_options": lambda params, options: options.speed > 0.0}
    vec = type("Odd", (Bare,), members)(2)
    with pytest.raises(TypeError, match=r"Odd\.check_options: expected it to raise ValueError .*, got False returned"):
        vec.reset(options={"speed": -1.0})


def test_infos_are_names_not_names_of_names():
    with pytest.raises(TypeError, match=r"Odd\.infos: expected a sequence of names, got {'total': 'sum'}"):
        type("Odd", (Bare,), {"infos": {"total": "sum"}})


@pytest.mark.parametrize("name", ["mask", "act_row", "step"])
def test_a_row_function_under_a_name_that_nobody_calls_is_named(name):
    with pytest.raises(TypeError, match=rf"Odd\.{name}: expected a row function to be one of reset_row, .*mask_row"):
        type("Odd", (Bare,), {name: step_last})


@pytest.mark.parametrize("name", ["num_envs", "autoreset", "max_episode_steps", "autoreset_options"])
def test_an_argument_of_an_env_is_none_of_its_class(name):
    with pytest.raises(TypeError, match=rf"Odd\.{name}: expected as an argument of an env, got 5 in the class"):
        type("Odd", (Bare,), {name: 5})


def test_what_is_of_use_to_others_has_any_name():
    """Methods and properties, policies, what functions of rows call, and row functions with an underscore in front."""

    @jit
    def policy(observation, action):
        action[0] = 0

    class Helped(Bare):
        _act_row = step_last
        hold, fair_value = policy, step_last
        resets = "a note"

        def info(self):
            return 1

        @property
        def checks(self):
            return 2

    vec = Helped(2)
    assert vec.info() + vec.checks == 3


@pytest.mark.parametrize("value, error", [(0, ValueError), ("many", TypeError), (True, TypeError)])
def test_parallel_from_is_a_number_of_sub_envs(value, error):
    with pytest.raises(error, match=r"Odd\.parallel_from"):
        type("Odd", (Walk,), {"parallel_from": value})


@pytest.mark.compiled
def test_a_market_of_long_steps_uses_threads_from_where_it_says():
    class Long(Walk):
        parallel_from = 4

    def run_parallel(kind):
        vec = kind(7)
        with threads.always_used():
            vec.reset(seed=3)
            vec.step(np.full(7, 1))
        return len(vec.compiled_step.dispatchers[1].signatures) > 0

    assert (run_parallel(Walk), run_parallel(Long)) == (False, threads.get_num_threads() > 1)


@pytest.mark.compiled
def test_each_env_finds_out_for_itself_whether_threads_are_quicker():
    one, other = make_walk(3), make_walk(3)
    assert other.compiled_step is not one.compiled_step  # whose times say nothing of another batch
    assert other.compiled_step.dispatchers == one.compiled_step.dispatchers  # compiled once all the same
    step = one.compiled_step
    one.set_attr("sigma", 0.75)
    assert one.compiled_step is step  # and knows what it has found out


@pytest.mark.compiled
def test_so_does_a_rollout_of_it(monkeypatch):
    asked = []
    monkeypatch.setattr(threads, "enter", lambda count: asked.append(count) or 0)  # as where others run them: on one
    monkeypatch.setattr(threads, "get_num_threads", lambda: 2)
    for parallel_from in (8, 7):
        vec = type("Sum", (summing(TWO),), {"parallel_from": parallel_from})(7)
        sekai.rollout(vec, hold, 5, seed=0, progress=False)
        assert asked == [2] * (parallel_from == 7)
