"""A market for tests of shards, in a module that actors find by its name."""

from functools import partial

import numpy as np

from sekai import Box, Discrete, Env, NativeVecEnv, ResetResult, StepResult, SyncVecEnv

N = 5


class Walk(Env):
    """A walk with draws of its own, and of NumPy's global generator if ``wild``; ends after some steps."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(3)

    def __init__(self, length=7, scale=1.0, wild=False):
        self.length, self.scale, self.wild = length, scale, wild
        self.k, self.at = 0, 0.0

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.k, self.at = 0, float(self.rng.normal()) + (options or {}).get("from", 0.0)
        return ResetResult(np.array([self.at, 0.0]), {"began": self.at})

    def step(self, action):
        self.k += 1
        self.at += self.scale * float(self.rng.normal()) + action
        if self.wild:
            self.at += np.random.random()
        return StepResult(
            np.array([self.at, self.k]), self.at, self.k >= self.length, False, {"at": np.array([self.at])}
        )

    def jump(self, far):
        self.at += far
        return self.at


def walks(rows, autoreset=True, **kwargs):
    return SyncVecEnv([partial(Walk, 3 + row, **kwargs) for row in rows], autoreset=autoreset)


class Fees(NativeVecEnv):
    """A walk with a fee and a table of all rows, which only methods change."""

    def __init__(self, num_envs):
        super().__init__(num_envs, Box(-np.inf, np.inf, (1,), np.float64), Discrete(3))
        self.at, self.fee, self.table = np.zeros(num_envs), 0.0, np.zeros(2)

    def charge(self, fee):
        self.fee = fee

    def note(self, value):
        self.table[1] += value

    def _reset_envs(self, indices, options):
        self.at[indices] = 0.0

    def _observe(self):
        return self.at[:, None]

    def _step(self, actions):
        self.at += actions - self.fee + self.table.sum()
        never = np.zeros(self.num_envs, bool)
        return self.at.copy(), never, never.copy(), {}
