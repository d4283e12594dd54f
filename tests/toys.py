"""Environments whose every step is written down beforehand, as rows and as one native env."""

from __future__ import annotations

import numpy as np

from sekai import Box, Discrete, Env, NativeVecEnv, ResetResult, StepResult
from sekai.batching import layout

INF = np.inf
BOX1 = Box(-INF, INF, (1,), np.float64)


class Toy(Env):
    """Step k of every episode returns ``script[k]`` = (obs, reward, terminated, truncated, info)."""

    def __init__(self, script, obs=BOX1, act=None, r0=(0.0,), i0=None):
        self.observation_space = obs
        self.action_space = Discrete(2) if act is None else act
        self.script = script
        self.r0, self.i0 = r0, {} if i0 is None else i0
        self.n_reset = self.n_step = self.n_close = 0
        self.last_seed = self.last_options = self.last_action = None
        self.k = 0

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.n_reset += 1
        self.last_seed, self.last_options = seed, options
        self.k = 0
        return ResetResult(self.r0, self.i0)

    def step(self, action):
        self.n_step += 1
        self.last_action = action
        result = StepResult(*self.script[self.k])
        self.k += 1
        return result

    def close(self):
        self.n_close += 1

    def add(self, a, b=0):
        return self.k + a + b


def T(n):
    """A script of n steps with obs [1.], [2.], ..., reward 1.0, terminated on the n-th."""
    return [([float(k)], 1.0, k == n, False, {}) for k in range(1, n + 1)]


def fns(*scripts, cls=Toy, **kwargs):
    return [lambda script=script: cls(script, **kwargs) for script in scripts]


def Z(vec):
    """Any valid batch of actions."""
    return vec.batch_action_space.sample()


class Draws(Env):
    """Every observation is a draw from the env's own generator."""

    observation_space = Box(0, 1, (3,), np.float64)
    action_space = Discrete(2)

    def __init__(self, length=4):
        self.length = length

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.k = 0
        return ResetResult(self.rng.random(3), {})

    def step(self, action):
        self.k += 1
        return StepResult(self.rng.random(3), float(self.rng.random()), self.k >= self.length, False, {})


class Draughtsman(Draws):
    """Draws frames whose pixels are the number of its steps."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 12}

    def __init__(self, length=4, render_mode="rgb_array"):
        super().__init__(length)
        self.render_mode = render_mode
        self.k = 0

    def render(self):
        return "text" if self.render_mode == "ansi" else np.full((4, 6, 3), self.k, np.uint8)


class NativeToy(NativeVecEnv):
    """The scripts of several Toys as one native env; the infos of all steps must have the same keys."""

    def __init__(self, scripts, obs=BOX1, act=None, r0=(0.0,), i0=None, **kwargs):
        super().__init__(len(scripts), obs, Discrete(2) if act is None else act, **kwargs)
        self.scripts, self.r0, self.i0 = scripts, r0, {} if i0 is None else i0
        self.k = np.zeros(self.num_envs, dtype=int)
        self.n_reset = np.zeros(self.num_envs, dtype=int)
        self.n_step = np.zeros(self.num_envs, dtype=int)
        self.last_options = [None] * self.num_envs
        self.last_action = None
        self.observations = layout.allocate(obs, self.num_envs)

    def _reset_envs(self, indices, options):
        self.k[indices] = 0
        self.n_reset[indices] += 1
        for i, option in zip(indices, options, strict=True):
            self.last_options[i] = option
            layout.write_row(self.observation_space, self.observations, i, self.r0)

    def _observe(self):
        return self.observations  # live state, on purpose

    def _reset_infos(self, indices):
        return {key: np.array([value] * len(indices)) for key, value in self.i0.items()}

    def _step(self, actions):
        self.last_action = actions
        live = ~self.frozen
        rows = [script[min(k, len(script) - 1)] for script, k in zip(self.scripts, self.k, strict=True)]
        self.k += live
        self.n_step += live
        for i, row in enumerate(rows):
            if live[i]:
                layout.write_row(self.observation_space, self.observations, i, row[0])
        columns = {key: np.array([row[4][key] for row in rows]) for key in rows[0][4]}
        _, rewards, terminated, truncated, _ = zip(*rows, strict=True)
        return np.array(rewards), np.array(terminated), np.array(truncated), columns

    def add(self, a, b=0):
        return self.k + a + b


class NCount(NativeVecEnv):
    """Env i ends after T[i] steps."""

    def __init__(self, T, **kwargs):
        super().__init__(len(T), BOX1, Discrete(2), **kwargs)
        self.T = np.array(T)
        self.c = np.zeros(len(T))

    def _reset_envs(self, indices, options):
        self.c[indices] = 0

    def _observe(self):
        return self.c[:, None]  # a view of live state, on purpose

    def _step(self, actions):
        self.c[~self.frozen] += 1
        return np.ones(self.num_envs), self.c >= self.T, np.zeros(self.num_envs, bool), {}
