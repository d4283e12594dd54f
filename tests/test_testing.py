from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
import toy_market

from sekai.env import Env
from sekai.errors import ResetRequired
from sekai.results import ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from sekai.testing import check_env
from sekai.wrappers import AutoReset, NormalizeObservation, OrderEnforcing, RecordEpisodeStatistics, TimeLimit


class Walk(Env):
    """A correct env: a random walk that ends outside [-2, 2]."""

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-1.0, 1.0, (1,))

    def observe(self):
        return np.array([self.x, self.rng.random()])

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.x = 0.0
        return ResetResult(self.observe(), {})

    def step(self, action):
        self.x += float(action[0]) + self.rng.normal()
        return self.outcome(self.observe(), -abs(self.x), abs(self.x) > 2.0, False, {"x": self.x})

    def outcome(self, *values):
        return StepResult(*values)


def changed(**values):
    """Walk, with some fields of every step's result changed."""

    class Changed(Walk):
        def outcome(self, observation, reward, terminated, truncated, info):
            fields = {
                "observation": observation,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
                "info": info,
            }
            return StepResult(**{**fields, **values})

    return Changed()


def the_only_problem(env, **kwargs):
    problems = check_env(env, **kwargs)
    assert len(problems) == 1, problems
    return problems[0]


# -- nothing to find ---------------------------------------------------------------------------------------


class Still(Env):
    """Draws nothing, and is over after three steps."""

    observation_space = Dict({"k": Discrete(5)})
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.k = 0
        return ResetResult({"k": np.int64(0)}, {})

    def step(self, action):
        if self.k == 3:
            raise ResetRequired("over")
        self.k += 1
        return StepResult({"k": np.int64(self.k)}, np.float32(1.0), np.bool_(self.k == 3), False, {})


@pytest.mark.parametrize("make", [Walk, Still])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: env,
        AutoReset,
        OrderEnforcing,
        lambda env: TimeLimit(env, 2),
        lambda env: AutoReset(RecordEpisodeStatistics(TimeLimit(env, 2))),
    ],
)
def test_a_correct_env_has_no_problems(make, wrap):
    assert check_env(wrap(make())) == []


def test_a_normaliser_is_reproducible_once_frozen():
    env = NormalizeObservation(Walk())
    env.update_running_mean = False
    assert check_env(env, n_steps=20, seed=5) == []


def test_the_global_generators_and_the_envs_spaces_are_left_alone():
    env = Walk()
    env.action_space.seed(1)
    expected = env.action_space.sample()
    env.action_space.seed(1)
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    check_env(env)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    np.testing.assert_array_equal(env.action_space.sample(), expected)


# -- spaces ------------------------------------------------------------------------------------------------


def test_no_env():
    assert "expected an Env, got 3 (int)" in the_only_problem(3)
    of_many = "is for environments that are a VecEnv"
    assert the_only_problem(toy_market.WalkVec(2)).endswith(f"(WalkVec); check_vec_env(factory) {of_many}")
    assert the_only_problem(toy_market.WalkVec).endswith(f"; check_vec_env(WalkVec) {of_many}")
    assert "; check_env(Walk()) takes an object" in the_only_problem(Walk)


def test_a_missing_space():
    env = Walk()
    del env.observation_space
    assert the_only_problem(env) == "observation_space: expected a Space, got None (NoneType)"


def test_something_else_as_space():
    env = Walk()
    env.action_space = 4
    assert the_only_problem(env) == "action_space: expected a Space, got 4 (int)"


def test_a_space_that_cannot_be_pickled():
    class Local(Box):
        pass

    env = Walk()
    env.action_space = Local(-1.0, 1.0, (1,))
    assert "action_space: expected a space that can be pickled, got" in the_only_problem(env)


class Forgetful(Box):
    """A space whose copies are wider."""

    def __reduce__(self):
        return Box, (-9.0, 9.0, self.shape)


def test_a_space_that_changes_when_pickled():
    env = Walk()
    env.action_space = Forgetful(-1.0, 1.0, (1,))
    assert "action_space: expected a pickled copy to equal" in the_only_problem(env)


# -- results -----------------------------------------------------------------------------------------------


def test_reset_returns_something_else():
    class Bare(Walk):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2), {}

    assert the_only_problem(Bare()).startswith("reset(seed=0): expected a ResetResult, got (array([0., 0.]), {})")


def test_step_returns_something_else():
    class Bare(Walk):
        def outcome(self, *values):
            return values

    assert the_only_problem(Bare()).startswith("step 1: expected a StepResult, got (array(")


@pytest.mark.parametrize(
    "observation", [np.zeros(3), np.zeros((2, 1)), [0.0], None, np.array([np.nan, 0.0]), np.array(["a", "b"])]
)
def test_an_observation_outside_its_space(observation):
    problem = check_env(changed(observation=observation))[0]
    assert problem.startswith("step 1: expected an observation in Box(-inf, inf, (2,), float64), got")


def test_an_observation_of_lists():
    assert check_env(changed(observation=[0.0, 0.0]))[0] == (
        "step 1: expected an observation of arrays, got [0.0, 0.0] (list)"
    )

    class Nested(Walk):
        def __init__(self):
            super().__init__()
            self.observation_space = Dict(x=Tuple((self.observation_space, MultiBinary(2), Discrete(2))))

        def observe(self):
            return {"x": (super().observe(), (0, 1), 1)}

    assert the_only_problem(Nested()).startswith("reset(seed=0): expected an observation of arrays, got {'x':")


def test_a_first_observation_outside_its_space():
    class Early(Walk):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return ResetResult(np.zeros(3), {})

    assert the_only_problem(Early()).startswith("reset(seed=0): expected an observation in Box(")


@pytest.mark.parametrize("reward", [np.nan, np.inf, None, "1", True, np.zeros(1), 1j])
def test_a_reward_that_is_no_finite_number(reward):
    problem = the_only_problem(changed(reward=reward))
    assert problem.startswith("step 1: expected a finite real number as reward, got")


@pytest.mark.parametrize("name", ["terminated", "truncated"])
@pytest.mark.parametrize("flag", [0, 1, None, np.zeros(1, bool)])
def test_a_flag_that_is_no_bool(name, flag):
    problem = the_only_problem(changed(**{name: flag}))
    assert problem.startswith(f"step 1: expected a bool as {name}, got")


def test_an_info_that_is_no_dict():
    assert the_only_problem(changed(info=[("a", 1)])) == ("step 1: expected a dict as info, got [('a', 1)] (list)")


def test_info_keys_that_are_no_strings():
    assert the_only_problem(changed(info={"a": 1, 2: 3})) == ("step 1: expected info keys that are strings, got [2]")


def test_an_info_of_a_reset_that_is_no_dict():
    class NoInfo(Walk):
        def reset(self, *, seed=None, options=None):
            return ResetResult(super().reset(seed=seed).observation, None)

    assert the_only_problem(NoInfo()) == "reset(seed=0): expected a dict as info, got None (NoneType)"


def test_an_info_of_none_is_told_once():
    assert the_only_problem(changed(info=None)) == "step 1: expected a dict as info, got None (NoneType)"


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
@pytest.mark.parametrize("place", ["step", "reset"])
def test_a_space_that_changes_on_the_way(name, place):
    class Moves(Walk):
        def change(self):
            old = getattr(self, name)
            setattr(self, name, Box(-9.0, 9.0, old.shape, old.dtype))

        def reset(self, *, seed=None, options=None):
            result = super().reset(seed=seed)
            if place == "reset":
                self.change()
            return result

        def step(self, action):
            result = super().step(action)
            if place == "step":
                self.change()
            return result

    problem = the_only_problem(Moves())
    where = "step 1" if place == "step" else "reset(seed=0)"
    assert problem.startswith(f"{where}: expected {name} to stay Box(") and "got Box(-9.0, 9.0, " in problem


def test_a_space_that_is_changed_in_place():
    class Grows(Still):
        def __init__(self):
            self.action_space = Discrete(2)

        def step(self, action):
            self.action_space.n += 1
            return super().step(action)

    assert the_only_problem(Grows()) == "step 1: expected action_space to stay Discrete(2), got Discrete(3)"


def test_a_space_made_afresh_each_time_is_no_problem():
    class Fresh(Walk):
        def __init__(self):
            self.action_space = Box(-1.0, 1.0, (1,))

        @property
        def observation_space(self):
            return Box(-np.inf, np.inf, (2,), np.float64)

    assert check_env(Fresh()) == []


def test_every_problem_is_told_once_and_beside_the_others():
    problems = check_env(changed(reward=None, terminated=0, info=None))
    assert len(problems) == 3
    assert [word for word in ("reward", "terminated", "info") for text in problems if word in text] == [
        "reward",
        "terminated",
        "info",
    ]


def test_an_env_that_raises():
    class Broken(Walk):
        def step(self, action):
            raise KeyError("price")

    assert the_only_problem(Broken()) == "step 1: expected a result, got KeyError: 'price'"

    class NeverStarts(Walk):
        def reset(self, *, seed=None, options=None):
            raise OSError("no data")

    assert the_only_problem(NeverStarts()) == "reset(seed=0): expected a result, got OSError: no data"


def test_a_reset_that_raises_after_an_episode():
    class Once(Walk):
        def reset(self, *, seed=None, options=None):
            if seed is None:
                raise ValueError("only once")
            return super().reset(seed=seed)

    problem = the_only_problem(Once())
    assert problem.startswith("reset() after step") and "ValueError: only once" in problem


# -- seeds -------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_be_repeated():
    class Own(Walk):
        def observe(self):
            return np.array([self.x, np.random.default_rng().random()])

    problem = the_only_problem(Own())
    assert problem.startswith("reset(seed=0): expected the same seed and actions to give the same run, got: result 0")


def test_state_that_survives_a_reset():
    class Grows(Walk):
        total = 0.0

        def outcome(self, *values):
            self.total += 1.0
            return StepResult(values[0], self.total, *values[2:])

    assert "expected the same seed and actions to give the same run, got: result 1" in the_only_problem(Grows())


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (100, "reset(seed=0): expected the same seed and actions to give the same run, got: step 1: expected a"),
        (200, "with seed 1: step 1: expected a result, got IndexError: worn out"),
        (300, "async_reset() and async_step(): expected the same run as through reset() and step(), got: step 1"),
        (400, "a further run: expected no error, got IndexError: worn out"),
    ],
)
def test_an_env_that_wears_out(n, message):
    class Wears(Walk):
        steps = 0

        def step(self, action):
            self.steps += 1
            if self.steps > n:
                raise IndexError("worn out")
            return super().step(action)

    assert the_only_problem(Wears()).startswith(message)


def test_a_seed_that_is_ignored():
    class Fixed(Walk):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=np.random.default_rng(7) if seed is not None else None)

    problem = the_only_problem(Fixed())
    assert problem == (
        "reset(seed=1): expected the seed to reach _set_rng(), got rng_seed None and the same run as with seed 0"
    )


@pytest.mark.parametrize("wrap", [lambda env: env, AutoReset])
@pytest.mark.parametrize("limit", [5, 1000])  # episodes that end during the run, and one that does not
@pytest.mark.parametrize("fallback", [0, 7])
def test_a_reset_that_starts_the_stream_again(wrap, limit, fallback):
    class Restarts(Walk):
        def reset(self, *, seed=None, options=None):
            self.n = 0
            return super().reset(seed=fallback if seed is None else seed)

        def step(self, action):
            self.n += 1
            return super().step(action)

        def outcome(self, observation, reward, terminated, truncated, info):
            return StepResult(observation, reward, False, self.n >= limit, info)

    env = wrap(Restarts())
    problem = the_only_problem(env)
    if limit > 100:
        place = "reset() at the end"
    else:
        place = "step 5" if isinstance(env, AutoReset) else "reset() after step 5"
    assert problem == f"{place}: expected the random stream to go on without a seed, got a new generator"


class OwnStream(Walk):
    """A correct env that draws from a generator that it keeps itself."""

    own = None

    def generator(self, seed):
        if seed is not None or self.own is None:
            self.own = np.random.default_rng(seed)

    def reset(self, *, seed=None, options=None):
        self.generator(seed)
        self.x = 0.0
        return ResetResult(self.observe(), {})

    def observe(self):
        return np.array([self.x, self.own.random()])

    def step(self, action):
        self.x += float(action[0])
        return self.outcome(self.observe(), -abs(self.x), abs(self.x) > 2.0, False, {})


def test_an_own_stream_that_starts_again():
    class Restarts(OwnStream):
        def generator(self, seed):
            self.own = np.random.default_rng(0 if seed is None else seed)

    assert check_env(OwnStream()) == []
    assert the_only_problem(Restarts()) == (
        "reset() without a seed: expected the random stream to go on, got the same episode each time"
    )


def test_episodes_that_are_alike_by_chance_are_no_problem():
    class Coin(OwnStream):
        def observe(self):
            return np.array([self.x, float(self.own.random() < 0.5)])

    class Once(OwnStream):  # draws when it is seeded, and never again
        def generator(self, seed):
            if seed is not None:
                self.drawn = float(seed % 2)

        def observe(self):
            return np.array([self.x, self.drawn])

    for env in (Coin(), Once()):
        assert check_env(env, n_steps=5) == []


# -- async -------------------------------------------------------------------------------------------------


class Twofold(Walk):
    """An env whose async methods are its own."""

    async def async_step(self, action):
        await asyncio.sleep(0)
        return self.step(action)

    async def async_reset(self, *, seed=None, options=None):
        await asyncio.sleep(0)
        return self.reset(seed=seed, options=options)


def test_async_methods_of_its_own_that_do_the_same():
    assert check_env(Twofold()) == []
    assert check_env(AutoReset(Twofold())) == []


def test_an_async_step_that_returns_something_else():
    class Later(Twofold):
        async def async_step(self, action):
            result = await super().async_step(action)
            return StepResult(result.observation, result.reward + 1.0, result.terminated, result.truncated, {})

    assert the_only_problem(Later()).startswith(
        "async_reset() and async_step(): expected the same run as through reset() and step(), got: result 1 is ("
    )


def test_an_async_reset_that_returns_something_else():
    class Later(Twofold):
        async def async_reset(self, *, seed=None, options=None):
            return (await super().async_reset(seed=seed)).observation

    assert "got: reset(seed=0): expected a ResetResult, got" in the_only_problem(Later())


def test_an_async_step_with_another_info():
    class Later(Twofold):
        async def async_step(self, action):
            result = await super().async_step(action)
            return StepResult(result.observation, result.reward, result.terminated, result.truncated, None)

    assert the_only_problem(Later()).endswith("got: step 1: expected a dict as info, got None (NoneType)")


def test_an_async_step_that_fails():
    class Fails(Twofold):
        async def async_step(self, action):
            raise OSError("no connection")

    class Plain(Twofold):
        def async_step(self, action):
            return self.step(action)

    assert the_only_problem(Fails()).endswith("got: step 1: expected a result, got OSError: no connection")
    assert "got: step 1: expected a result, got TypeError" in the_only_problem(Plain())


def test_an_env_is_checked_within_a_running_loop():
    class Later(Twofold):
        async def async_step(self, action):
            return None

    async def check():
        return check_env(Twofold()), check_env(Later())

    good, bad = asyncio.run(check())
    assert good == [] and len(bad) == 1 and "got: step 1: expected a StepResult, got None" in bad[0]


def test_the_global_numpy_generator():
    class Global(Walk):
        def observe(self):
            return np.array([self.x, np.random.random() * 0.0])

    assert the_only_problem(Global()) == (
        "expected every random draw to come from env.rng, got draws from a global generator"
    )


def test_the_global_python_generator():
    class Global(Walk):
        def observe(self):
            return np.array([self.x, random.random() * 0.0])

    assert "got draws from a global generator" in the_only_problem(Global())


# -- memory ------------------------------------------------------------------------------------------------


def test_an_observation_that_is_live_state():
    class Live(Walk):
        def reset(self, *, seed=None, options=None):
            self.memory = np.zeros(2)
            return super().reset(seed=seed)

        def observe(self):
            self.memory[:] = super().observe()
            return self.memory

    problem = the_only_problem(Live())
    assert problem.startswith("step 1: expected the observation returned before to stay as it was, got it changed")


def test_a_buffer_shared_between_reset_and_step():
    class Shared(Walk):
        memory = {"a": np.zeros(2)}

        def __init__(self):
            super().__init__()
            self.observation_space = Dict({"a": self.observation_space})

        def observe(self):
            self.memory["a"] = super().observe()
            return self.memory

    assert "expected the observation returned before to stay" in the_only_problem(Shared())


def test_an_action_that_is_written_to():
    class Writes(Walk):
        def step(self, action):
            result = super().step(action)
            action[:] = 9.0
            return result

    assert the_only_problem(Writes()).startswith("step 1: expected the action to stay array(")


# -- past the end ------------------------------------------------------------------------------------------


def test_a_step_past_the_end_that_crashes():
    class Reads(Walk):
        over = False

        def reset(self, *, seed=None, options=None):
            self.over = False
            return super().reset(seed=seed)

        def step(self, action):
            if self.over:
                raise IndexError("past the data")
            result = super().step(action)
            self.over = result.done
            return result

    assert the_only_problem(Reads()) == (
        "step() after the end of an episode: expected a StepResult or ResetRequired, got IndexError: past the data"
    )


def test_a_step_past_the_end_that_returns_something_else():
    class Nothing(Walk):
        over = False

        def reset(self, *, seed=None, options=None):
            self.over = False
            return super().reset(seed=seed)

        def step(self, action):
            if self.over:
                return None
            result = super().step(action)
            self.over = result.done
            return result

    assert the_only_problem(Nothing()) == (
        "step() after the end of an episode: expected a StepResult or ResetRequired, got None (NoneType)"
    )
