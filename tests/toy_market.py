"""A walk that goes up by its action, written once as an Env and once as a NativeVecEnv; for the registry, the
single-env single and the command."""

from __future__ import annotations

import numpy as np

from sekai.env import Env
from sekai.results import ResetResult, StepResult
from sekai.spaces import Box, Discrete
from sekai.vector import NativeVecEnv

OBSERVATION = Box(-np.inf, np.inf, (1,), np.float64)
ACTION = Discrete(2)


def always_up(vec):
    return lambda observations: np.ones(vec.num_envs, dtype=np.int64)


def interrupted_at_the_fourth_call(vec):
    calls = []

    def policy(observations):
        calls.append(observations)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return np.ones(vec.num_envs, dtype=np.int64)

    return policy


def up_to_two(vec):
    return lambda observations: (observations[:, 0] < 2).astype(np.int64)


def fussy(vec):
    raise ValueError("fussy: expected another market")


POLICIES = {"up": always_up, "up-to-two": up_to_two, "interrupted": interrupted_at_the_fourth_call, "fussy": fussy}


class Walk(Env):
    """Reward is the level; terminates at ``goal``."""

    observation_space = OBSERVATION
    action_space = ACTION
    policies = POLICIES

    def __init__(self, *, goal=3, start=0.0):
        self.goal = goal
        self.start = start
        self.level = 0.0
        self.closed = False

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.level = float((options or {}).get("start", self.start))
        return ResetResult(np.array([self.level]), {"start": self.level})

    def step(self, action):
        self.level += int(action)
        return StepResult(np.array([self.level]), self.level, self.level >= self.goal, False, {"level": self.level})

    def close(self):
        self.closed = True


class Lambdas(Walk):
    """Its policies are functions that no process can send to another one."""

    policies = {"up": lambda vec: always_up(vec)}


class MadeInside(Walk):
    """Neither can those, which only an object of the class has."""

    @property
    def policies(self):
        return {"up": lambda vec: always_up(vec)}


class WalkVec(NativeVecEnv):
    """The same, with noise of standard deviation ``noise`` on each step."""

    policies = POLICIES

    def __init__(
        self,
        num_envs,
        *,
        goal=3,
        start=0.0,
        noise=0.0,
        autoreset=True,
        max_episode_steps=None,
        shift=None,
        autoreset_options=None,
    ):
        super().__init__(
            num_envs,
            OBSERVATION,
            ACTION,
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self.max_episode_steps = max_episode_steps
        self.goal = goal
        self.start = start
        self.noise = noise
        self.shift = shift
        self.level = np.zeros(num_envs)
        self.weights = [1, 2]

    def above(self, threshold, *, by=0.0):
        return self.level > threshold + by

    def _reset_envs(self, indices, options):
        self.level[indices] = [float((each or {}).get("start", self.start)) for each in options]

    def _reset_infos(self, indices):
        return {"start": self.level[indices]}

    def _observe(self):
        return self.level[:, None]

    def _step(self, actions):
        moves = actions + self.noise * self.rng.standard_normal(self.num_envs)
        self.level = np.where(self.frozen, self.level, self.level + moves)
        return self.level, self.level >= self.goal, np.zeros(self.num_envs, bool), {"level": self.level}
