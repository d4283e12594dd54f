from __future__ import annotations

import numpy as np
import pytest
from script_env import ScriptEnv, ends_after

from sekai.errors import InvalidObservation
from sekai.results import ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete
from sekai.vector import SyncVecEnv
from sekai.wrappers import AutoReset


class Reuse(ScriptEnv):
    """Returns the same array and the same dict every time."""

    def __init__(self, script):
        super().__init__(script)
        self.buffer, self.shared = np.zeros(1), {}

    def _show(self, value):
        self.buffer[0] = self.shared["k"] = value
        self.shared["trace"] = self.buffer
        return self.buffer, self.shared

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        return ResetResult(*self._show(-1.0))

    def step(self, action):
        result = super().step(action)
        observation, info = self._show(float(self.k))
        return StepResult(observation, result.reward, result.terminated, result.truncated, info)


def test_a_running_episode_passes_through(drive):
    inner = ScriptEnv(ends_after(2))
    env = AutoReset(inner)
    assert drive.reset(env).observation == [0.0]
    result = drive.step(env)
    assert result.observation == [1.0] and not result.done and result.info == {}
    assert inner.n_reset == 1


@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True), (True, True)])
def test_the_step_that_ends_an_episode_begins_the_next(drive, terminated, truncated):
    inner = ScriptEnv([([5.0], 3.0, terminated, truncated, {"why": "end"})], first_info={"why": "begin"})
    env = AutoReset(inner)
    drive.reset(env)
    result = drive.step(env)
    assert result.observation == [0.0] and result.reward == 3.0
    assert (result.terminated, result.truncated) == (terminated, truncated) and result.done
    assert result.info == {
        "why": "end",
        "final_observation": [5.0],
        "final_info": {"why": "end"},
        "reset_info": {"why": "begin"},
    }
    assert inner.n_reset == 2
    assert drive.step(env).observation == [0.0] and inner.n_reset == 3


def test_the_reset_is_awaited_too(drive):
    inner = ScriptEnv(ends_after(1))
    env = AutoReset(inner)
    drive.reset(env)
    drive.step(env)
    assert inner.async_calls == (3 if drive.asynchronous else 0)


def test_final_data_are_copies_taken_before_the_reset(drive):
    """Case 1.1: an env that reuses one array and one dict."""
    env = AutoReset(Reuse(ends_after(2)))
    drive.reset(env)
    drive.step(env)
    result = drive.step(env)
    drive.step(env)
    info = result.info
    assert info["final_observation"] == [2.0] and info["final_info"]["k"] == 2.0 == info["k"]
    assert info["final_info"]["trace"] == [2.0]
    assert info["reset_info"]["k"] == -1.0 and info["reset_info"]["trace"] == [-1.0]


def test_own_keys_with_the_reserved_names_survive_in_final_info(drive):
    """Case 1.5: step and reset info with the kit's own key names."""
    info = {"why": "win", "final_info": "mine"}
    env = AutoReset(ScriptEnv([([1.0], 1.0, True, False, info)], first_info={"why": "new", "reset_info": 7}))
    drive.reset(env)
    result = drive.step(env)
    assert result.info["final_info"] == {"why": "win", "final_info": "mine"}
    assert result.info["reset_info"] == {"why": "new", "reset_info": 7}
    assert result.info["why"] == "win"


def test_an_env_that_resets_itself_is_left_to_it(drive):
    inner = ScriptEnv(ends_after(2), first_info={"k": 0})
    env = AutoReset(AutoReset(inner))
    drive.reset(env)
    drive.step(env)
    result = drive.step(env)
    assert inner.n_reset == 2 and result.info["final_observation"] == [2.0]
    assert result.info["reset_info"] == {"k": 0}


def test_the_seed_is_not_used_again(drive):
    env = AutoReset(ScriptEnv(ends_after(1)))
    drive.reset(env, seed=3)
    first = env.rng.random()
    drive.step(env)
    assert env._rng_seed == 3 and env.rng.random() != first


def test_nested_observations(drive):
    space = Dict({"a": Box(0.0, 9.0, (2,)), "b": Discrete(3)})
    live = {"a": np.zeros(2, np.float32), "b": 1}

    class Nested(ScriptEnv):
        def _observe(self, value):
            live["a"][:] = value
            return live

    env = AutoReset(Nested([(4.0, 0.0, True, False, {})], observation_space=space, first=0.0))
    drive.reset(env)
    final = drive.step(env).info["final_observation"]
    assert space.contains(final) and final["a"].tolist() == [4.0, 4.0] and final["b"] == 1


def test_a_final_observation_of_the_wrong_shape_is_refused(drive):
    env = AutoReset(ScriptEnv([([1.0, 2.0], 0.0, True, False, {})]))
    drive.reset(env)
    with pytest.raises(InvalidObservation, match=r"\(1,\).*\(2,\)"):
        drive.step(env)


def test_the_flags_of_a_step_that_ends_an_episode_are_bools(drive):
    """As a VecEnv gives them, whatever the env says."""
    env = AutoReset(ScriptEnv([([1.0], 0.0, np.int64(1), 0, {})]))
    drive.reset(env)
    result = drive.step(env)
    assert result.terminated is True and result.truncated is False


def test_the_reward_is_a_copy_taken_before_the_reset(drive):
    reward = np.array(3.0)

    class Paid(ScriptEnv):
        def reset(self, *, seed=None, options=None):
            reward[()] = 0.0
            return super().reset(seed=seed, options=options)

        def step(self, action):
            reward[()] = 3.0
            return super().step(action)

    env = AutoReset(Paid(ends_after(1, reward=reward)))
    drive.reset(env)
    assert drive.step(env).reward == 3.0 and reward == 0.0


@pytest.mark.parametrize(
    "script",
    [
        ends_after(2),
        [([1.0], np.float32(2.0), np.int64(1), np.bool_(False), {"a": [1]})],
        [([1.0], 0.5, False, 1, {"final_info": "mine"})],
    ],
)
def test_it_does_what_a_vec_env_does(drive, script):
    env = AutoReset(ScriptEnv(script, first_info={"new": 1}))
    with SyncVecEnv([lambda: ScriptEnv(script, first_info={"new": 1})]) as vec:
        drive.reset(env)
        vec.reset()
        for _ in range(5):
            one, all_ = drive.step(env), vec.step([0])
            assert one.observation.tolist() == all_.observations[0].tolist()
            assert (one.reward, one.terminated, one.truncated) == (
                all_.rewards[0],
                all_.terminated[0],
                all_.truncated[0],
            )
            assert one.info == all_.infos[0]
