"""The scripts of several Toys as a row market."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from toys import BOX1

from sekai import Discrete, KernelVecEnv
from sekai.kernels import jit


class Script:
    """What every step of every sub-env shows, as arrays (N, K); beyond its end a script stays where it is."""

    def __init__(self, scripts: Any, shown: tuple[str, ...]) -> None:
        length = max(map(len, scripts))
        padded = [[*script, *[script[-1]] * (length - len(script))] for script in scripts]
        columns = zip(*[step for script in padded for step in script], strict=True)
        observations, rewards, terminated, truncated, infos = map(list, columns)
        shape = len(scripts), length
        self.value = np.array(observations, float).reshape(shape)
        self.reward = np.array(rewards, float).reshape(shape)
        self.terminated = np.array(terminated, bool).reshape(shape)
        self.truncated = np.array(truncated, bool).reshape(shape)
        self.why = np.array([info["why"] if shown else 0 for info in infos]).reshape(shape)


class Params(NamedTuple):
    script: Any = None
    first: float = 0.0
    new: int = 0


class Told(NamedTuple):
    value: Any
    reward: Any
    terminated: Any
    truncated: Any
    why: Any


class State(NamedTuple):
    k: np.int64
    value: np.float64
    why: np.int64
    n_reset: np.int64
    n_step: np.int64


def prepare(params):
    script = params.script
    return Told(script.value, script.reward, script.terminated, script.truncated, script.why)


@jit
def reset_row(params, state, i):
    state.k[i], state.value[i] = 0, params.first
    state.n_reset[i] += 1


@jit
def step_row(derived, state, i):
    at = min(state.k[i], derived.value.shape[1] - 1)
    state.value[i], state.why[i] = derived.value[i, at], derived.why[i, at]
    state.k[i] += 1
    state.n_step[i] += 1
    return derived.reward[i, at], derived.terminated[i, at], derived.truncated[i, at]


@jit
def observe_row(state, i, observation):
    observation[0] = state.value[i]


class RowToys(KernelVecEnv):
    Params, State, prepare = Params, State, staticmethod(prepare)
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = BOX1, Discrete(2)

    def add(self, a, b=0):
        return self.k + a + b


@cache
def showing(infos: tuple[str, ...], reset_infos: tuple[str, ...]) -> type[RowToys]:
    """A market that tells these infos, which a class says."""
    return type("RowToys", (RowToys,), {"infos": infos, "reset_infos": reset_infos, "__module__": __name__})


def row_toys(scripts: Any, *, r0: Any = (0.0,), i0: Any = None, **kwargs: Any) -> RowToys:
    """A market of these scripts, whose infos are at most "why", and "new" of a reset."""
    shown, i0 = tuple(scripts[0][0][4]), i0 or {}
    return showing(shown, tuple(i0))(len(scripts), script=Script(scripts, shown), first=r0[0], **i0, **kwargs)


@jit
def up_row(observation, action):
    """A policy of one row, for what takes 0 or 1: one until the first number of an observation is 2."""
    action[0] = 1 if observation[0] < 2.0 else 0
