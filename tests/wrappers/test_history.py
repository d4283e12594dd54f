"""The time of the episode, stacks of observations, and observations that come late."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from script_env import LINE, ScriptEnv, ends_after

from sekai.errors import InvalidObservation
from sekai.registry import EnvSpec
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence, Tuple
from sekai.wrappers import (
    AutoReset,
    DelayObservation,
    FrameStackObservation,
    TimeAwareObservation,
    TimeLimit,
)


def shown(drive, env, steps):
    """The observations of a reset and some steps, and the terminal ones."""
    results = [drive.reset(env), *(drive.step(env) for _ in range(steps))]
    finals = [result.info["final_observation"] for result in results if "final_observation" in result.info]
    return [np.asarray(result.observation).tolist() for result in results], [np.asarray(f).tolist() for f in finals]


# -- TimeAwareObservation ----------------------------------------------------------------------------------


def test_time_beside_an_observation(drive):
    env = TimeAwareObservation(TimeLimit(ScriptEnv(ends_after(9)), 4))
    assert env.max_timesteps == 4
    assert env.observation_space == Box(np.array([-np.inf, 0]), np.array([np.inf, 4]), dtype=np.float64)
    assert shown(drive, env, 4) == ([[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]], [])
    assert drive.reset(env).observation.tolist() == [0, 0] and env.timesteps == 0


@pytest.mark.filterwarnings("ignore:TimeLimit around AutoReset")
def test_time_of_an_env_that_resets_itself(drive):
    env = TimeAwareObservation(TimeLimit(AutoReset(ScriptEnv(ends_after(2))), 4), normalize_time=True)
    assert shown(drive, env, 3) == ([[0, 0], [1, 0.25], [0, 0], [1, 0.25]], [[2, 0.5]])


def test_time_in_a_dict_of_its_own():
    env = TimeAwareObservation(TimeLimit(ScriptEnv(ends_after(9)), 4), flatten=False)
    assert env.observation_space == Dict(obs=LINE, time=Box(0, 4, (1,), np.int32))
    env.reset()
    observation = env.step(0).observation
    assert observation in env.observation_space
    assert observation["obs"] == [1.0] and observation["time"].tolist() == [1] and observation["time"].dtype == np.int32


def test_time_as_a_part():
    named, placed = Dict(a=Discrete(2)), Tuple((Discrete(2),))
    env = TimeAwareObservation(TimeLimit(ScriptEnv([], named, first={"a": 1}), 4), False, dict_time_key="clock")
    assert env.observation_space == Dict(a=Discrete(2), clock=Box(0, 4, (1,), np.int32))
    assert env.reset().observation == {"a": 1, "clock": [0]}
    placed_env = ScriptEnv([], placed)
    placed_env._observe = lambda value: (1,)
    env = TimeAwareObservation(TimeLimit(placed_env, 4), False, True)
    assert env.observation_space == Tuple((Discrete(2), Box(0.0, 1.0, (1,))))
    assert env.reset().observation == (1, [0.0])
    with pytest.raises(ValueError, match="^TimeAwareObservation: expected a dict_time_key that .* not have, got 'a'"):
        TimeAwareObservation(TimeLimit(ScriptEnv([], named), 4), dict_time_key="a")


def test_the_limit_of_a_spec_and_none():
    env = ScriptEnv(ends_after(9))
    with pytest.raises(ValueError, match="^TimeAwareObservation: expected an env with a TimeLimit, or a limit in its"):
        TimeAwareObservation(env)
    env.spec = EnvSpec("Some-v0", entry_point=ScriptEnv, max_episode_steps=6)
    assert TimeAwareObservation(env).max_timesteps == 6


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("normalize_time", [True, False])
def test_a_limit_that_is_raised_later(drive, flatten, normalize_time):
    env = TimeAwareObservation(TimeLimit(ScriptEnv(ends_after(9)), 2), flatten, normalize_time)
    drive.reset(env)
    env.set_attr("max_episode_steps", 4)
    for _ in range(2):
        assert drive.step(env).observation in env.observation_space
    expected = "TimeAwareObservation: expected at most 2 steps in an episode, .* when it was wrapped, got 3"
    with pytest.raises(InvalidObservation, match=expected):
        drive.step(env)


# -- FrameStackObservation ---------------------------------------------------------------------------------

PADDINGS = {"reset": ("reset", 5.0), "zero": ("zero", 0.0), "given": (np.array([7.0]), 7.0)}


@pytest.mark.parametrize("padding, value", PADDINGS.values(), ids=PADDINGS)
def test_stacks(drive, padding, value):
    env = FrameStackObservation(ScriptEnv(ends_after(9), first=(5.0,)), 3, padding_type=padding)
    assert env.observation_space == Box(-np.inf, np.inf, (3, 1), np.float64) and env.stack_size == 3
    for _ in range(2):
        stacks, _ = shown(drive, env, 3)
        assert np.squeeze(stacks, 2).tolist() == [[value, value, 5], [value, 5, 1], [5, 1, 2], [1, 2, 3]]


def test_stacks_of_an_env_that_resets_itself(drive):
    env = FrameStackObservation(AutoReset(ScriptEnv(ends_after(2))), 2)
    stacks, finals = shown(drive, env, 3)
    assert np.squeeze(stacks, 2).tolist() == [[0, 0], [0, 1], [0, 0], [0, 1]]
    assert np.squeeze(finals, 2).tolist() == [[1, 2]]


def test_stacks_of_parts():
    space = Dict(a=Discrete(5), b=Tuple((Box(0, 9, (2,), np.int64),)))
    script = [({"a": k, "b": (np.array([k, k]),)}, 0.0, False, False, {}) for k in (1, 2)]
    env = FrameStackObservation(ScriptEnv(script, space, first={"a": 4, "b": (np.array([4, 4]),)}), 2)
    assert env.observation_space == Dict(a=MultiDiscrete([5, 5]), b=Tuple((Box(0, 9, (2, 2), np.int64),)))
    env.reset()
    observation = env.step(0).observation
    assert observation in env.observation_space
    assert observation["a"].tolist() == [4, 1] and observation["b"][0].tolist() == [[4, 4], [1, 1]]


def test_stacks_are_copies():
    class Reusing(ScriptEnv):
        """Shows the same array in every step."""

        array = np.zeros(1)

        def _observe(self, value):
            self.array[:] = value
            return self.array

    env = FrameStackObservation(Reusing(ends_after(9), first=(5.0,)), 2)
    first = env.reset().observation
    second = env.step(0).observation
    second[:] = 99.0
    assert first.tolist() == [[5], [5]] and env.step(0).observation.tolist() == [[1], [2]]


WRONG = {
    "size": (lambda e: FrameStackObservation(e, 0), ValueError, "FrameStackObservation: stack_size: expected at least"),
    "type": (lambda e: FrameStackObservation(e, 2.0), TypeError, "FrameStackObservation: stack_size: expected an int"),
    "word": (lambda e: FrameStackObservation(e, 2, padding_type="one"), ValueError, "expected a padding_type of 'res"),
    "shape": (lambda e: FrameStackObservation(e, 2, padding_type=np.zeros(2)), ValueError, "expected a padding_type"),
    "delay": (lambda e: DelayObservation(e, -1), ValueError, "DelayObservation: delay: expected at least 0, got -1"),
}


@pytest.mark.parametrize("wrap, error, message", WRONG.values(), ids=WRONG)
def test_arguments_are_refused(wrap, error, message):
    with pytest.raises(error, match=message):
        wrap(ScriptEnv(ends_after(1)))


def test_sequences_cannot_be_stacked():
    with pytest.raises(TypeError, match="^FrameStackObservation: expected observations of a fixed layout, got Seq"):
        FrameStackObservation(ScriptEnv([], Sequence(LINE)), 2)


# -- DelayObservation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay, expected", [(0, [5, 1, 2, 3]), (1, [0, 5, 1, 2]), (3, [0, 0, 0, 5]), (9, [0] * 4)])
def test_late_observations(drive, delay, expected):
    env = DelayObservation(ScriptEnv(ends_after(9), first=(5.0,)), delay)
    assert env.observation_space is LINE and env.delay == delay
    for _ in range(2):
        assert np.squeeze(shown(drive, env, 3)[0], 1).tolist() == expected


def test_late_observations_of_an_env_that_resets_itself(drive):
    env = DelayObservation(AutoReset(ScriptEnv(ends_after(3), first=(5.0,))), 2)
    assert shown(drive, env, 5) == ([[0], [0], [5], [0], [0], [5]], [[1]])


def test_before_the_first_one_there_is_an_element_of_the_space():
    space = Box(2.0, 3.0, (1,), np.float64)
    assert DelayObservation(ScriptEnv([], space, first=(2.5,)), 1).reset().observation.tolist() == [2.0]


# -- snapshots ---------------------------------------------------------------------------------------------

STATEFUL = {
    "time": lambda env: TimeAwareObservation(TimeLimit(env, 9)),
    "stack": lambda env: FrameStackObservation(env, 3),
    "delay": lambda env: DelayObservation(env, 2),
}


@pytest.mark.parametrize("wrap", STATEFUL.values(), ids=STATEFUL)
def test_snapshots_hold_what_was_seen(wrap):
    env, other = (wrap(ScriptEnv(ends_after(9), first=(5.0,))) for _ in range(2))
    env.reset()
    env.step(0), env.step(0)
    kept = pickle.loads(pickle.dumps(env.snapshot()))
    expected = [env.step(0).observation.tolist() for _ in range(3)]
    other.restore(kept)
    assert [other.step(0).observation.tolist() for _ in range(3)] == expected
    env.restore(kept)
    assert [env.step(0).observation.tolist() for _ in range(3)] == expected
