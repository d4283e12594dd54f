"""A market that is nothing but a price, to see models through: an action does nothing, a step moves the price."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sekai import Box, Discrete
from sekai.kernels import jit
from sekai.vector import KernelVecEnv, part_of
from sims.prices import Geometric, check_model


class Params(NamedTuple):
    prices: tuple = Geometric()
    initial_price: float = 100.0
    dt: float = 1.0 / 252.0


class State(NamedTuple):
    price: np.float64
    path: part_of("prices", "State")


class Derived(NamedTuple):
    path: part_of("prices", "Derived")


@jit
def derive_row(params) -> Derived:
    return Derived(params.prices.derive(params.prices, params.dt))


@jit
def reset_row(params, derived, state, random, i):
    state.price[i] = params.initial_price
    params.prices.begin(params.prices, derived.path, state.path, random, i, params.initial_price)


@jit
def step_row(params, derived, state, random, i):
    state.price[i] = params.prices.move(params.prices, derived.path, state.path, random, i, state.price[i])
    return 0.0, False, False


@jit
def observe_row(state, i, observation):
    observation[0] = state.price[i]


def check(params):
    check_model("prices", params.prices, dt=params.dt)


class PriceVecEnv(KernelVecEnv[Any, Any]):
    Params, State, check, derive_row = Params, State, check, derive_row
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(1)


def walk(model, num_envs, steps, seed=0, **params):
    """The prices (steps + 1, N) of so many sub-envs, and the env."""
    vec = PriceVecEnv(num_envs, prices=model, **params)
    vec.reset(seed=seed)
    paths, stay = np.empty((steps + 1, num_envs)), np.zeros(num_envs, np.int64)
    paths[0] = vec.price
    for step in range(steps):
        paths[step + 1] = vec.step(stay).observations[:, 0]
    return paths, vec
