from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from toy_market import Walk, WalkVec

from sekai.errors import InvalidAction, ResetRequired, VecEnvClosed
from sekai.registry import EnvRegistry
from sekai.spaces import Dict, Discrete, Tuple
from sekai.vector import NativeVecEnv, SyncVecEnv, VecWrapper
from sekai.vector.native.single import SingleEnv
from sekai.wrappers import OrderEnforcing, TimeLimit
from sims.market_making import MarketMakingVecEnv


def single(**kwargs):
    return SingleEnv(partial(WalkVec, **kwargs))


def test_gives_the_numbers_of_the_native_env_with_one_sub_env():
    env, vec = single(noise=1.0, goal=9), WalkVec(1, noise=1.0, goal=9, autoreset=False)
    for seed in (7, None):
        one, batch = env.reset(seed=seed, options={"start": 2.0}), vec.reset(seed=[seed], options={"start": 2.0})
        assert np.array_equal(one.observation, batch.observations[0])
        assert one.info == batch.infos[0] == {"start": 2.0}
        done = False
        while not done:
            one, batch = env.step(1), vec.step(np.array([1]))
            assert np.array_equal(one.observation, batch.observations[0])
            assert (one.reward, one.terminated, one.truncated, one.info) == (
                batch.rewards[0],
                batch.terminated[0],
                batch.truncated[0],
                batch.infos[0],
            )
            done = one.done


def test_results_have_the_types_of_a_single_env():
    env = single(goal=1)
    env.reset()
    result = env.step(np.int64(1))
    assert (type(result.reward), type(result.terminated), type(result.truncated)) == (float, bool, bool)
    assert type(result.info) is dict
    assert result.observation.shape == (1,)
    assert (result.terminated, result.truncated, result.done) == (True, False, True)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [
        lambda values: values,
        read_only,
        lambda values: np.repeat(values, 2)[::2],  # with gaps
        lambda values: values.astype(np.float64),
        lambda values: values.tolist(),
    ],
    ids=["as it is", "read-only", "with gaps", "float64", "a list"],
)
def test_an_action_in_any_memory_is_the_same_action(array):
    vec, env = MarketMakingVecEnv(1, autoreset=False), SingleEnv(MarketMakingVecEnv)
    vec.reset(seed=[5]), env.reset(seed=5)
    for values in np.float32([[0.5, 0.25], [1.5, 0.75]]):
        ours, theirs = env.step(array(values.copy())), vec.step(values[None])
        assert (ours.reward, ours.info) == (theirs.rewards[0], theirs.infos[0])
        assert ours.observation.tolist() == theirs.observations[0].tolist()
    held = ours.observation.tolist()
    env.step(array(values.copy()))
    assert ours.observation.tolist() == held


def test_an_episode_that_ended_is_not_reset():
    env = single(goal=2)
    env.reset()
    for _ in range(2):
        result = env.step(1)
    assert result.observation.tolist() == [2.0]
    assert result.info == {"level": 2.0}


def test_results_are_snapshots():
    env = single()
    first = env.reset().observation
    env.step(1)
    assert first.tolist() == [0.0]
    first[0] = 99.0
    second = env.step(1).observation
    assert second.tolist() == [2.0]
    assert second.base is None  # no view of an array that a vector env might use again


def test_nested_spaces_arrive_as_elements():
    class Nested(NativeVecEnv):
        def __init__(self, num_envs, **kwargs):
            observation = Dict({"side": Discrete(3), "pair": Tuple((Discrete(4), Discrete(5)))})
            super().__init__(num_envs, observation, observation, **kwargs)
            self.last = {"side": np.array([0]), "pair": (np.array([1]), np.array([2]))}

        def _reset_envs(self, indices, options): ...

        def _observe(self):
            return self.last

        def _step(self, actions):
            self.last = actions
            return np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), {}

    env = SingleEnv(Nested)
    assert env.reset().observation == {"side": 0, "pair": (1, 2)}
    action = {"side": 2, "pair": (3, 4)}
    observation = env.step(action).observation
    assert observation == action
    assert env.observation_space.contains(observation)


def test_a_seed_repeats_and_none_continues():
    env = single(noise=1.0, goal=100)

    def walk(seed):
        env.reset(seed=seed)
        return [env.step(0).reward for _ in range(3)]

    assert walk(5) == walk(np.int64(5)) != walk(None)
    assert walk(np.random.default_rng(3)) == walk(np.random.default_rng(3)) != walk(5)


@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [([1], TypeError, "got list"), (True, TypeError, "the bool True"), (-1, ValueError, "got -1")],
)
def test_a_wrong_seed_is_refused(seed, error, text):
    with pytest.raises(error, match=text):
        single().reset(seed=seed)


def test_the_random_stream_is_the_native_envs_through_wrappers_too():
    env = OrderEnforcing(single(noise=1.0))
    assert env.rng is env.unwrapped.vec.rng
    env.reset(seed=4)
    assert env.rng is env.unwrapped.vec.rng
    assert env.unwrapped._rng_seed == 4
    with pytest.raises(TypeError, match=r"set by reset\(seed=\.\.\.\) alone"):
        env.unwrapped.rng = np.random.default_rng(1)


def test_options_that_are_no_dict_are_refused():
    with pytest.raises(TypeError, match="expected a dict or None"):
        single().reset(options=[{"start": 1}])


@pytest.mark.parametrize("action", [np.array([1]), [0, 1], "up", 0.5, {"side": 1}])
def test_an_action_of_the_wrong_form_is_refused_before_anything_moves(action):
    env = single()
    env.reset()
    with pytest.raises(InvalidAction, match=r"step\(action\): expected an element of Discrete\(2"):
        env.step(action)
    assert env.level == 0.0


def test_a_step_before_the_first_reset_is_refused():
    with pytest.raises(ResetRequired):
        single().step(1)


def test_attributes_are_those_of_the_one_sub_env():
    env = single(goal=8)
    env.reset(options={"start": 4.0})
    assert env.goal == 8
    assert env.level == 4.0  # a column of the native env
    assert env.get_attr("level") == 4.0
    assert env.num_envs == 1
    assert env.has_attr("goal") and not env.has_attr("nope")
    with pytest.raises(AttributeError, match="nope"):
        env.get_attr("nope")
    with pytest.raises(AttributeError, match="_hidden"):
        env._hidden  # noqa: B018


def test_methods_are_called_for_the_one_sub_env():
    env = single()
    env.reset(options={"start": 1.0})
    assert env.above(0.5) == True  # noqa: E712 - a NumPy bool, not an array
    assert env.above(0.5, by=1.0) == False  # noqa: E712
    assert np.ndim(env.above(0.5)) == 0


def test_set_attr_reaches_the_simulation_and_adds_nothing():
    env = TimeLimit(OrderEnforcing(single(goal=5)), 10)
    env.reset()
    env.set_attr("goal", 1)
    assert env.step(1).terminated
    env.set_attr("level", -3.0)
    env.reset(options={"start": -3.0})
    assert env.step(1).observation.tolist() == [-2.0]
    env.set_attr("weights", [5, 6, 7])  # one value that happens to be a list
    assert list(env.weights) == [5, 6, 7]
    with pytest.raises(AttributeError, match="nope"):
        env.set_attr("nope", 1)


def test_an_attribute_is_set_where_it_is_read():
    env = single(goal=5)
    env.reset()
    env.goal, env.mine = 1, 7
    assert env.goal == env.get_attr("goal") == env.vec.goal == 1 and env.mine == 7
    assert env.step(1).terminated and not hasattr(env.vec, "mine")


def test_close_closes_the_native_env():
    with single() as env:
        env.reset()
    assert env.vec.closed
    env.close()
    with pytest.raises(VecEnvClosed):
        env.step(1)


def test_a_factory_has_to_give_a_vec_env_of_one():
    built = []

    def two(num_envs, *, autoreset):
        built.append(WalkVec(2, autoreset=autoreset))
        return built[0]

    with pytest.raises(ValueError, match=r"expected 1 sub-env from .*two.*, got 2"):
        SingleEnv(two)
    assert built[0].closed
    with pytest.raises(TypeError, match=r"expected a VecEnv from .*, got Walk"):
        SingleEnv(lambda num_envs, autoreset: Walk())


@pytest.mark.parametrize("autoreset", [True, False])
def test_many_shells_in_a_row_step_as_the_native_env_does(autoreset):
    rows = SyncVecEnv([partial(SingleEnv, WalkVec)] * 3, autoreset=autoreset)
    native = WalkVec(3, autoreset=autoreset)
    options = [{"start": 0}, {"start": 1}, {"start": -9}]
    left, right = rows.reset(options=options), native.reset(options=options)
    for step in range(6):
        assert np.array_equal(left.observations, right.observations)
        assert repr(list(left.infos)) == repr(list(right.infos))
        actions = np.array([1, step % 2, 1])
        left, right = rows.step(actions), native.step(actions)
        assert np.array_equal(left.rewards, right.rewards)
        assert np.array_equal(left.terminated, right.terminated)
        assert np.array_equal(left.truncated, right.truncated)


def test_asynchronous_calls_run_the_synchronous_ones():
    import asyncio

    env = single()
    assert asyncio.run(env.async_reset()).observation.tolist() == [0.0]
    assert asyncio.run(env.async_step(1)).observation.tolist() == [1.0]


# -- native envs of every documented form --------------------------------------------------------------------


class FirstByAnotherName(WalkVec):
    def __init__(self, n, **kwargs):
        super().__init__(n, **kwargs)


class AlwaysResets(WalkVec):
    def __init__(self, num_envs, goal=3):
        super().__init__(num_envs, goal=goal)


class HandsOn(WalkVec):
    """Takes any argument, but not every one has a place to go."""

    def __init__(self, num_envs, **params):
        super().__init__(num_envs, **self.check(**params))

    @staticmethod
    def check(goal=3):
        return {"goal": goal}


class Deaf(WalkVec):
    def __init__(self, num_envs, goal=3, **ignored):
        super().__init__(num_envs, goal=goal)


class ResetsItsWrapped(VecWrapper):
    def __init__(self, num_envs, goal=3):
        super().__init__(WalkVec(num_envs, goal=goal))


def positional_only(num_envs, /, goal=3, autoreset=True):
    return WalkVec(num_envs, goal=goal, autoreset=autoreset)


class Untold:
    """A callable without a signature to read."""

    @property
    def __signature__(self):
        raise ValueError("no signature")

    def __call__(self, num_envs, goal=3, autoreset=True):
        return WalkVec(num_envs, goal=goal, autoreset=autoreset)


FORMS = [
    FirstByAnotherName,
    AlwaysResets,
    HandsOn,
    Deaf,
    ResetsItsWrapped,
    positional_only,
    Untold(),
    lambda n, goal=3: WalkVec(n, goal=goal),
]


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_native_env_gives_its_own_numbers(form):
    env, vec = SingleEnv(partial(form, goal=4)), form(1, goal=4)
    for start in (0.0, 1.0):
        one, batch = env.reset(options={"start": start}), vec.reset(options={"start": start})
        assert (one.observation.tolist(), one.info) == (batch.observations[0].tolist(), batch.infos[0])
        while not one.done:
            one, batch = env.step(1), vec.step(np.array([1]))
            assert (one.reward, one.terminated, one.truncated) == (
                batch.rewards[0],
                batch.terminated[0],
                batch.truncated[0],
            )
            info = batch.infos[0]
            observation = info.get("final_observation", batch.observations[0])
            assert (one.observation.tolist(), one.info) == (observation.tolist(), info.get("final_info", info))
        assert (one.observation.tolist(), one.info) == ([4.0], {"level": 4.0})
        assert set(map(type, (one.reward, one.terminated, one.truncated))) == {float, bool}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_native_env_rests_at_its_end_until_it_is_reset(form):
    env = SingleEnv(partial(form, goal=1))
    env.reset()
    end = env.step(1)
    assert end.observation.tolist() == [1.0]
    end.observation[0] = 99.0
    for _ in range(2):
        again = env.step(0)
        assert (again.observation.tolist(), again.reward, again.terminated, again.truncated, again.info) == (
            [1.0],
            0.0,
            True,
            False,
            {},
        )
        again.observation[0] = 99.0
    assert env.reset().observation.tolist() == [0.0]
    assert env.step(0).observation.tolist() == [0.0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_any_form_of_native_env_runs_in_every_mode(form, mode):
    registry = EnvRegistry()
    registry.register("Form-v0", vector_entry_point=form, kwargs={"goal": 2})
    env = registry.make("Form-v0")
    env.reset()
    assert [env.step(1).done for _ in range(2)] == [False, True]
    with registry.make_vec("Form-v0", 2, vectorization_mode=mode) as rows, registry.make_vec("Form-v0", 2) as native:
        assert rows.reset().observations.tolist() == native.reset().observations.tolist()
        for up in ([1, 0], [1, 1], [1, 1], [1, 1], [0, 1]):
            left, right = rows.step(np.array(up)), native.step(np.array(up))
            assert np.array_equal(left.observations, right.observations)
            assert np.array_equal(left.rewards, right.rewards)
            assert np.array_equal(left.dones, right.dones)
            assert repr(list(left.infos)) == repr(list(right.infos))


def test_an_argument_the_native_env_refuses_is_told():
    with pytest.raises(TypeError, match="gaol"):
        SingleEnv(partial(HandsOn, gaol=3))
    with pytest.raises(TypeError, match="missing 1 required .*'width'"):
        SingleEnv(lambda num_envs, width: WalkVec(num_envs))


def test_force_creates_an_attribute_beside_those_of_the_native_env():
    env = SingleEnv(WalkVec)
    with pytest.raises(AttributeError, match=r"no attribute 'gaol' \(did you mean 'goal'\?\)"):
        env.set_attr("gaol", 5)
    env.set_attr("goal", 5, force=True)
    assert env.vec.goal == 5
    env.set_attr("note", "x", force=True)
    assert env.get_attr("note") == "x"
    assert not hasattr(env.vec, "note")
