"""SyncVecEnv against gymnasium's SyncVectorEnv and against a bare loop, on an env that does nothing."""

from __future__ import annotations

import numpy as np
import pytest
from rounds import overhead_ratio, take_turns

from sekai import Box, Discrete, Env, ResetResult, StepResult, SyncVecEnv

pytestmark = pytest.mark.bench

INF = np.inf
FIRST = np.arange(4, dtype=np.float32)


class Idle(Env):
    """Returns a result; with a length, truncated after that many steps."""

    def __init__(self, length=None):
        self.observation_space, self.action_space = Box(-INF, INF, (4,), np.float32), Discrete(2)
        self.observation, self.length, self.steps = FIRST.copy(), length, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return ResetResult(self.observation, {})

    def step(self, action):
        self.steps += 1
        return StepResult(self.observation, 1.0, False, self.steps == self.length, {})


class Constant(Idle):
    """Returns the one result it has, so that all that is left to time is the vector env."""

    def __init__(self):
        super().__init__()
        self.result = StepResult(self.observation, 1.0, False, False, {})

    def step(self, action):
        return self.result


def gymnasium_twins():
    """The same two envs for gymnasium."""
    import gymnasium

    class GymIdle(gymnasium.Env):
        def __init__(self, length=None):
            self.observation_space = gymnasium.spaces.Box(-INF, INF, (4,), np.float32)
            self.action_space = gymnasium.spaces.Discrete(2)
            self.observation, self.length, self.steps = FIRST.copy(), length, 0

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return self.observation, {}

        def step(self, action):
            self.steps += 1
            return self.observation, 1.0, False, self.steps == self.length, {}

    class GymConstant(GymIdle):
        def __init__(self):
            super().__init__()
            self.result = (self.observation, 1.0, False, False, {})

        def step(self, action):
            return self.result

    return GymIdle, GymConstant


def build(num_envs, kind, length):
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    gym_idle, gym_constant = gymnasium_twins()
    if kind == "constant":
        ours, theirs = Constant, gym_constant
    else:
        ours, theirs = (lambda: Idle(length)), (lambda: gym_idle(length))
    vec = SyncVecEnv([ours] * num_envs)
    gym_vec = SyncVectorEnv([theirs] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    vec.reset(seed=0)
    gym_vec.reset(seed=0)
    return vec, gym_vec


def bare_loop(envs):
    """A step of all envs as one would write it down, with nothing looked at and nothing promised."""
    num_envs = len(envs)

    def step(actions):
        observations, rewards = np.empty((num_envs, 4), np.float32), np.empty(num_envs)
        terminated, truncated = np.empty(num_envs, np.bool_), np.empty(num_envs, np.bool_)
        infos = []
        for i, (env, action) in enumerate(zip(envs, actions, strict=True)):
            result = env.step(action)
            observations[i] = result.observation
            rewards[i] = result.reward
            terminated[i], truncated[i] = result.terminated, result.truncated
            if result.truncated:
                env.reset()
            infos.append(result.info)
        return observations, rewards, terminated, truncated, infos

    return step


def assert_same_steps(vec, gym_vec, actions, steps):
    for _ in range(steps):
        result = vec.step(actions)
        observations, rewards, terminated, truncated, infos = gym_vec.step(actions)
        assert np.array_equal(result.observations, observations) and observations.shape == (len(actions), 4)
        assert np.array_equal(result.rewards, rewards)
        assert np.array_equal(result.terminated, terminated)
        assert np.array_equal(result.truncated, truncated)
        for i, info in enumerate(result.infos):
            assert ("final_observation" in info) == truncated[i]
            if truncated[i]:
                assert np.array_equal(info["final_observation"], infos["final_obs"][i])


@pytest.mark.parametrize("num_envs", [8, 64])
@pytest.mark.parametrize(
    "kind, length",
    [("constant", None), ("endless", None), ("episodes of 200", 200)],
    ids=["constant", "endless", "episodes"],
)
def test_sync_against_gymnasium(num_envs, kind, length, report):
    vec, gym_vec = build(num_envs, kind, length)
    actions = np.zeros(num_envs, dtype=np.int64)
    assert_same_steps(vec, gym_vec, actions, 410)
    loop = bare_loop(vec.envs)
    times = take_turns(
        {
            "sekai": lambda: vec.step(actions),
            "a bare loop": lambda: loop(actions),
            "gymnasium": lambda: gym_vec.step(actions),
            "sekai, bare envs": lambda: [env.step(0) for env in vec.envs],
            "gymnasium, bare envs": lambda: [env.step(0) for env in gym_vec.envs],
        },
        rounds=31,
        block=0.01,
    )
    what = f"SyncVecEnv, {num_envs} envs, {kind}"
    report(what, times, "sekai", "gymnasium", "at most 0.5")
    report(f"{what}, against a loop", times, "sekai", "a bare loop", "at most 1.15" if num_envs == 64 else "")
    left = overhead_ratio(times, "sekai", "sekai, bare envs", "gymnasium", "gymnasium, bare envs")
    report(f"{what}: overhead", times, "sekai", "gymnasium", "at most 0.5", value=f"{left:.2f}")
    vec.close()
    gym_vec.close()
