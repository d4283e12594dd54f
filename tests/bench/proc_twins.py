"""The same small environments for every library's process backend, in a module that workers find by name."""

from __future__ import annotations

import math
import time

import numpy as np

from sekai import Box, Discrete, Env, ResetResult, StepResult

INF = np.inf


class Pole:
    """The dynamics of a cart and a pole (Barto, Sutton and Anderson 1983), in plain Python."""

    def begin(self):
        self.state = (0.01, 0.02, 0.03, 0.04)
        return np.array(self.state, dtype=np.float32)

    def advance(self, action):
        x, v, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(angle), math.sin(angle)
        push = (force + 0.05 * turn * turn * sin) / 1.1
        turning = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        moving = push - 0.05 * turning * cos / 1.1
        self.state = (x + 0.02 * v, v + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning)
        over = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095
        return np.array(self.state, dtype=np.float32), over


class Image:
    """Shows 64 KiB that never change."""

    def begin(self):
        self.observation = np.arange(16384, dtype=np.float32)
        return self.observation

    def advance(self, action):
        return self.observation, False


class Work(Pole):
    """Takes a millisecond of computation for a step."""

    def advance(self, action):
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass
        return super().advance(action)


class Computes(Pole):
    """Computes so many rounds for a step, whatever else the machine does."""

    def __init__(self, rounds):
        self.rounds = rounds

    def compute(self):
        total = 0
        for k in range(self.rounds):
            total += k
        return total

    def advance(self, action):
        self.compute()
        return super().advance(action)


SIZES = {Pole: 4, Image: 16384, Work: 4}


class Ours(Env):
    def __init__(self, dynamics):
        self.dynamics = dynamics()
        self.observation_space, self.action_space = Box(-INF, INF, (SIZES.get(dynamics, 4),)), Discrete(2)

    def reset(self, *, seed=None, options=None):
        return ResetResult(self.dynamics.begin(), {})

    def step(self, action):
        observation, over = self.dynamics.advance(action)
        return StepResult(observation, 1.0, over, False, {})


def gymnasium_twin(dynamics):
    """The same environment for gymnasium, and for Stable-Baselines3, which takes those."""
    import gymnasium

    class Theirs(gymnasium.Env):
        def __init__(self):
            self.dynamics = dynamics()
            self.observation_space = gymnasium.spaces.Box(-INF, INF, (SIZES[dynamics],))
            self.action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return self.dynamics.begin(), {}

        def step(self, action):
            observation, over = self.dynamics.advance(action)
            return observation, 1.0, over, False, {}

    return Theirs()
