"""``OptimalExecution-v0`` against the same arithmetic in a loop that one writes with Numba for this market alone."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from rounds import ratio, take_turns

from sekai.kernels import get_num_threads, set_num_threads, streams
from sims.execution import ExecutionVecEnv

pytestmark = pytest.mark.bench

TERMS = {"units": 1e6, "initial_price": 50.0, "n_steps": 50, "half_spread": 0.0625, "permanent": 2.5e-7}
TERMS |= {"transient": 1e-7, "temporary": 2.5e-6 / 0.1, "decay": math.exp(-10.0 * 0.1), "scale": 0.95 * math.sqrt(0.1)}


@numba.njit(error_model="numpy")
def execution_step(terms, state, random, began, now, actions, seen, rewards, terminated, truncated, told, finals):
    """One step of all orders: how many episodes ended, or -1 if an action is none."""
    units, initial, n_steps, half_spread, permanent, transient, temporary, decay, scale = terms
    bad = 0
    for i in range(len(actions)):
        bad += np.int32(not (actions[i, 0] >= 0.0 and actions[i, 0] <= 1.0))
    if bad:
        return -1
    lefts, frees, goods, pushes, prices = state[0], state[1], state[2], state[3], state[4]
    costs, spreads, owns, lasting, passing, noises = state[5], state[6], state[7], state[8], state[9], state[10]
    trades, fills = told[3], told[4]
    for i in range(len(actions)):
        left, unaffected, good, pushed = lefts[i], frees[i], goods[i], pushes[i]
        elapsed = now - began[i]
        traded = left if elapsed + 1 >= n_steps else np.float64(actions[i, 0]) * left
        own = temporary * traded
        found = pushed + 0.5 * transient * traded
        fill = prices[i] - (half_spread + own + (found - pushed))
        cost = -traded * (fill - initial)
        trades[i], fills[i] = -traded, fill
        spreads[i] += traded * half_spread
        owns[i] += traded * own
        lasting[i] += traded * good
        passing[i] += traded * found
        noises[i] -= traded * (unaffected - initial)
        costs[i] = spreads[i] + owns[i] + lasting[i] + passing[i] + noises[i]
        left -= traded
        unaffected = unaffected + scale * streams.normal(random, i)
        good += permanent * traded
        pushed = (pushed + transient * traded) * decay
        lefts[i], frees[i], goods[i], pushes[i], prices[i] = (
            left,
            unaffected,
            good,
            pushed,
            unaffected - (good + pushed),
        )
        rewards[i], terminated[i], truncated[i] = -cost, left <= 0.0, False
    ends = 0
    for i in range(len(actions)):
        seen[i, 0], seen[i, 1] = lefts[i] / units, np.float32(n_steps - (now - began[i]) - 1) / np.float32(n_steps)
        seen[i, 2], seen[i, 3] = 100.0 * (initial - prices[i]) / initial, 100.0 * pushes[i] / initial
        ends += np.int32(terminated[i])
    told[0], told[1], told[2] = prices, frees, lefts
    told[5:] = state[5:]
    total = 0
    if ends:
        which, last = finals
        for i in range(len(actions)):
            if terminated[i]:
                which[total], last[total] = i, seen[i]
                state[:, i] = 0.0
                state[0, i], state[1, i], state[4, i] = units, initial, initial
                seen[i, 0], seen[i, 1], seen[i, 2], seen[i, 3] = 1.0, 1.0, 0.0, 0.0
                began[i] = now + 1
                total += 1
    return total


class Execution:
    """The market by hand: state, and the arrays that a step fills, the same ones each time."""

    def __init__(self, num_envs: int) -> None:
        n, self.random, self.now = num_envs, streams.make_streams(range(num_envs)), 0
        self.state, self.began = np.zeros((11, n)), -(np.arange(n) % 50)
        self.state[0], self.state[1], self.state[4] = 1e6, 50.0, 50.0
        self.results: Any = np.zeros((n, 4), np.float32), np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self.told, self.finals = np.zeros((11, n)), (np.zeros(n, np.int64), np.zeros((n, 4), np.float32))

    def step(self, actions):
        rest = actions, *self.results, self.told, self.finals
        ended = execution_step(tuple(TERMS.values()), self.state, self.random, self.began, self.now, *rest)
        self.now += 1
        return ended


def test_a_step_of_16384_against_a_loop_by_hand(report):
    num_envs, before = 16_384, get_num_threads()
    set_num_threads(1)
    vec, hand = ExecutionVecEnv(num_envs, transient_impact=TERMS["transient"]), Execution(num_envs)
    vec.reset(seed=list(range(num_envs)))
    vec.episode_clock.began[:] -= np.arange(num_envs) % 50  # so that episodes end at different steps
    actions = np.full((num_envs, 1), 0.1, dtype=np.float32)
    for _ in range(60):
        result, ended = vec.step(actions), hand.step(actions)
    np.testing.assert_allclose(result.rewards, hand.results[1], rtol=1e-9)
    assert result.truncated.sum() + result.terminated.sum() == ended
    try:
        sides = {"sekai": lambda: vec.step(actions), "by hand": lambda: hand.step(actions)}
        times = take_turns(sides, rounds=15, block=0.1)
    finally:
        set_num_threads(before)
    share = f"{1 / ratio(times, 'sekai', 'by hand'):.2f}"
    report(
        f"OptimalExecution-v0, step() of {num_envs:,}, share of a loop by hand", times, *sides, "at least 0.7", share
    )
