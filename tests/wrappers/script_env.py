"""An environment that plays a script, for the tests of the wrappers."""

from __future__ import annotations

import asyncio

import numpy as np

from sekai.env import Env
from sekai.results import ResetResult, StepResult
from sekai.spaces import Box, Discrete

LINE = Box(-np.inf, np.inf, (1,), np.float64)


def ends_after(n, reward=1.0):
    """A script of ``n`` steps with observations [1.], [2.], ... that terminates on the last."""
    return [([float(k)], reward, k == n, False, {}) for k in range(1, n + 1)]


class ScriptEnv(Env):
    """Step k of every episode returns script[k] = (observation, reward, terminated, truncated, info).

    Past the script's end its last entry is repeated. Observations that are lists become float64 arrays.
    """

    def __init__(self, script, observation_space=LINE, action_space=None, first=(0.0,), first_info=None):
        self.observation_space = observation_space
        self.action_space = Discrete(2) if action_space is None else action_space
        self.script = script
        self.first = first
        self.first_info = first_info or {}
        self.k = 0
        self.n_reset = 0
        self.async_calls = 0
        self.last_action = None

    def _observe(self, value):
        return np.array(value, dtype=np.float64) if isinstance(value, (list, tuple)) else value

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.k = 0
        self.n_reset += 1
        return ResetResult(self._observe(self.first), self.first_info)

    def step(self, action):
        self.last_action = action
        observation, reward, terminated, truncated, info = self.script[min(self.k, len(self.script) - 1)]
        self.k += 1
        return StepResult(self._observe(observation), reward, terminated, truncated, info)

    async def async_step(self, action):
        self.async_calls += 1
        await asyncio.sleep(0)
        return self.step(action)

    async def async_reset(self, *, seed=None, options=None):
        self.async_calls += 1
        await asyncio.sleep(0)
        return self.reset(seed=seed, options=options)


class Driver:
    """Calls ``reset`` and ``step``, or their async twins, under the same names."""

    def __init__(self, asynchronous):
        self.asynchronous = asynchronous

    def reset(self, env, **kwargs):
        return asyncio.run(env.async_reset(**kwargs)) if self.asynchronous else env.reset(**kwargs)

    def step(self, env, action=0):
        return asyncio.run(env.async_step(action)) if self.asynchronous else env.step(action)
