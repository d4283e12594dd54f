"""The steps of two markets as one writes them with Numba alone: one loop, for one market, over arrays kept ready."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from sekai.kernels import jit, maths, streams


@numba.njit(error_model="numpy")
def reversion_step(speed, sigma, price, position, random, actions, seen, rewards, terminated, truncated, told, finals):
    """The README's market: how many episodes ended, or -1 if an action is none. ``finals``: which, and their last."""
    bad = 0
    for i in range(len(actions)):
        bad += np.int32((actions[i] < 0) | (actions[i] > 2))
    if bad:
        return -1
    ends = 0
    for i in range(len(actions)):
        position[i] = actions[i] - 1.0
        change = speed * (1.0 - price[i]) + sigma * streams.normal(random, i)
        price[i] += change
        rewards[i] = position[i] * change
        seen[i, 0], seen[i, 1] = price[i], position[i]
        terminated[i], truncated[i], told[i] = price[i] <= 0.0, False, price[i]
        ends += np.int32(terminated[i])
    total = 0
    if ends:
        which, last = finals
        for i in range(len(actions)):
            if terminated[i]:
                which[total], last[total, 0], last[total, 1] = i, seen[i, 0], seen[i, 1]
                price[i], position[i] = 1.0, 0.0
                seen[i, 0], seen[i, 1] = 1.0, 0.0
                total += 1
    return total


class Reversion:
    """The README's market by hand: state, and the arrays that a step fills, the same ones each time."""

    def __init__(self, num_envs: int) -> None:
        n, self.random = num_envs, streams.make_streams(range(num_envs))
        self.state = np.ones(n), np.zeros(n)
        self.results: Any = np.zeros((n, 2), np.float32), np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self.told, self.finals = np.zeros(n), (np.zeros(n, np.int64), np.zeros((n, 2), np.float32))

    def step(self, actions):
        return reversion_step(0.1, 0.05, *self.state, self.random, actions, *self.results, self.told, self.finals)


# -- the quoting market: what its first step takes to compile -------------------------------------------------


class Params(NamedTuple):
    initial: float = 100.0
    scale: float = 2.0 * (1 / 200) ** 0.5
    intensity: float = 0.7
    decay: float = 1.5
    most: float = 50.0
    n_steps: int = 200


class State(NamedTuple):
    mid: np.ndarray
    inventory: np.ndarray
    cash: np.ndarray
    wealth: np.ndarray
    bid_filled: np.ndarray
    ask_filled: np.ndarray


@jit
def reset_row(params, state, i):
    state.mid[i], state.inventory[i], state.cash[i], state.wealth[i] = params.initial, 0.0, 0.0, 0.0


@jit
def step_row(params, state, random, i, bid, ask):
    w0, w1, w2, w3 = streams.random_words(random, i)
    intensity, decay = np.float32(params.intensity), np.float32(params.decay)
    hit = np.float32(streams.uniform_of(w0) <= intensity * maths.exp(-decay * bid))
    lift = np.float32(streams.uniform_of(w1) <= intensity * maths.exp(-decay * ask))
    mid, inventory, cash = state.mid[i], state.inventory[i], state.cash[i]
    bought = np.float64(hit) if inventory < params.most else 0.0
    sold = np.float64(lift) if inventory > -params.most else 0.0
    before = cash + inventory * mid
    inventory += bought - sold
    cash += sold * (mid + np.float64(ask)) - bought * (mid - np.float64(bid))
    mid += params.scale * np.float64(maths.normal(w2, w3))
    state.mid[i], state.inventory[i], state.cash[i], state.wealth[i] = mid, inventory, cash, cash + inventory * mid
    state.bid_filled[i], state.ask_filled[i] = bought != 0.0, sold != 0.0
    return cash + inventory * mid - before


@jit
def observe_row(params, state, i, left, seen):
    seen[2 * i] = np.float32(state.inventory[i]) / np.float32(params.most)
    seen[2 * i + 1] = np.float32(left) / np.float32(params.n_steps)


@jit(inline=False)
def quoting_block(params, state, random, began, now, actions, seen, rewards, truncated, told):
    flat, shown, ends = actions.reshape(-1), seen.reshape(-1), 0
    for i in range(len(began)):
        rewards[i] = step_row(params, state, random, i, flat[2 * i], flat[2 * i + 1])
    for i in range(len(began)):
        left = np.int32(began[i] + params.n_steps - now - 1)
        observe_row(params, state, i, left, shown)
        truncated[i] = left <= 0
        ends += np.int32(left <= 0)
    for i in range(len(began)):
        told[0, i], told[1, i], told[2, i], told[3, i] = (
            state.mid[i],
            state.inventory[i],
            state.cash[i],
            state.wealth[i],
        )
    return ends


@numba.njit(error_model="numpy")
def quoting_step(params, floats, flags, random, began, now, actions, seen, finals, which, told, truncated):
    """One step of all rows of the quoting market, ends and resets included; returns how many episodes ended."""
    total = 0
    for lo in range(0, len(began), 1024):
        hi = min(lo + 1024, len(began))
        mid, inventory, cash, wealth = floats[0, lo:hi], floats[1, lo:hi], floats[2, lo:hi], floats[3, lo:hi]
        state = State(mid, inventory, cash, wealth, flags[0, lo:hi], flags[1, lo:hi])
        rows = streams.Streams(random.key[lo:hi], random.counter[lo:hi])
        results = seen[lo:hi], told[0, lo:hi], truncated[lo:hi], told[1:, lo:hi]
        if quoting_block(params, state, rows, began[lo:hi], now, actions[lo:hi], *results):
            for i in range(hi - lo):
                if truncated[lo + i]:
                    which[total], finals[total, 0], finals[total, 1] = lo + i, seen[lo + i, 0], seen[lo + i, 1]
                    reset_row(params, state, i)
                    began[lo + i] = now + 1
                    observe_row(params, state, i, params.n_steps, seen[lo:hi].reshape(-1))
                    total += 1
    return total


def first_quoting_step(num_envs: int = 1024) -> int:
    """Compile that step, and make one of it."""
    n, floats = num_envs, np.zeros((4, num_envs))
    arrays = np.zeros((n, 2), np.float32), np.zeros((n, 2), np.float32), np.zeros(n, np.int64)
    actions, told, began = np.full((n, 2), 0.6, np.float32), np.zeros((5, n)), np.zeros(n, np.int64)
    random, flags = streams.make_streams(range(n)), np.zeros((2, n), np.bool_)
    return quoting_step(Params(), floats, flags, random, began, 0, actions, *arrays, told, np.zeros(n, np.bool_))
