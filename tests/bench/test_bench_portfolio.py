"""One step of Portfolio-v0 with five assets against the same arithmetic as one writes it with Numba alone."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from rounds import take_turns

from sekai.kernels import get_num_threads, set_num_threads
from sims.data import PricePanel
from sims.portfolio import PortfolioVecEnv

pytestmark = pytest.mark.bench

#: An episode takes longer than the benchmark.
ASSETS, BARS, LENGTH, COST = 5, 8000, 4000, 1e-3


@numba.njit(error_model="numpy")
def step_by_hand(
    close, returns, bar, end, cash, wealth, units, price, weights, turnover, cost, borrow, interest, fill, bought,
    actions, seen, rewards, terminated, truncated, told, told_bar, ended, lookback, rate, cash_rate, loan_rate,
    borrow_rate,
):  # fmt: skip
    """A step of all accounts: state, results, infos; returns how many episodes ended."""
    n, assets = actions.shape
    for i in range(n):
        for k in range(assets):
            if not 0.0 <= actions[i, k] <= 1.0:
                return -1
    total = 0
    for i in range(n):
        at, gross = bar[i], 0.0
        for k in range(assets):
            weights[i, k] = actions[i, k]
            gross += weights[i, k]
        if gross > 1.0:
            for k in range(assets):
                weights[i, k] *= 1.0 / gross
        before, held = cash[i], 0.0
        for k in range(assets):
            bought[i, k] = units[i, k] * close[at, k]
            before += bought[i, k]
            held += abs(bought[i, k])
        left = before
        if before <= rate * held:
            left = 0.0
            for k in range(assets):
                weights[i, k] = 0.0
        else:
            while True:
                above, slope = before, 1.0
                for k in range(assets):
                    change = weights[i, k] * left - bought[i, k]
                    side = rate if change > 0.0 else (-rate if change < 0.0 else 0.0)
                    above += side * bought[i, k]
                    slope += side * weights[i, k]
                found = above / slope
                if not found < left:
                    break
                left = found
        traded = 0.0
        for k in range(assets):
            traded += abs(weights[i, k] * left - bought[i, k])
        cost[i] = rate * traded
        left = before - cost[i]
        rest, owed = left, 0.0
        for k in range(assets):
            position = weights[i, k] * left
            rest -= position
            now = position / close[at, k]
            bought[i, k], units[i, k], fill[i, k] = now - units[i, k], now, close[at, k]
            owed += max(-position, 0.0)
        borrow[i] = borrow_rate * owed + loan_rate * max(-rest, 0.0)
        interest[i] = cash_rate * max(rest, 0.0)
        rest += interest[i] - borrow[i]
        at += 1
        after = rest
        for k in range(assets):
            price[i, k] = close[at, k]
            weights[i, k] = units[i, k] * close[at, k]
            after += weights[i, k]
        for k in range(assets):
            weights[i, k] = weights[i, k] / after if after > 0.0 else 0.0
        rewards[i] = np.log(max(after / wealth[i], 1e-6))
        turnover[i] = traded / before if before > 0.0 else 0.0
        bar[i], cash[i], wealth[i] = at, rest, after
        terminated[i], truncated[i] = after <= 0.0, at >= end[i]
        window = returns[(at - lookback) * assets :]
        for j in range(lookback * assets):
            seen[i, j] = window[j]
        for k in range(assets):
            seen[i, lookback * assets + k] = weights[i, k]
        for m, column in enumerate((price, weights, fill, bought)):
            for k in range(assets):
                told[m, i, k] = column[i, k]
        told_bar[0, i], told_bar[1, i], told_bar[2, i], told_bar[3, i] = after, rest, turnover[i], cost[i]
        told_bar[4, i], told_bar[5, i], told_bar[6, i] = borrow[i], interest[i], at
        if terminated[i] or truncated[i]:
            ended[total] = i
            total += 1
    return total


class ByHand:
    """The market by hand, as long as no episode ends."""

    def __init__(self, panel, bar, lookback):
        n = len(bar)
        close = panel.close
        returns = (close[1:] / close[:-1] - 1.0).astype(np.float32).reshape(-1)
        wide = [np.zeros((n, ASSETS)) for _ in range(5)]
        units, price, weights, fill, bought = wide
        turnover, cost, borrow, interest = (np.zeros(n) for _ in range(4))
        self.state = [close, returns, bar.copy(), bar + LENGTH, np.ones(n), np.ones(n), units, price, weights]
        self.state += [turnover, cost, borrow, interest, fill, bought]
        self.seen, self.rewards = np.zeros((n, (lookback + 1) * ASSETS), np.float32), np.zeros(n)
        self.told, self.told_numbers = np.zeros((4, n, ASSETS)), np.zeros((7, n))
        self.results = [self.seen, self.rewards, np.zeros(n, np.bool_), np.zeros(n, np.bool_)]
        self.results += [self.told, self.told_numbers, np.zeros(n, np.int64)]
        self.lookback = lookback

    def step(self, actions):
        return step_by_hand(*self.state, actions, *self.results, self.lookback, COST, 0.0, 0.0, 0.0)


@pytest.fixture(autouse=True)
def threads():
    before = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


@pytest.mark.parametrize("lookback", [32, 1])
def test_one_step_against_a_loop_by_hand(lookback, report, num_envs=16384):
    moves = np.random.default_rng(0).normal(0.0, 0.01, (BARS, ASSETS))
    panel = PricePanel(100.0 * np.exp(np.cumsum(moves, axis=0)))
    vec = PortfolioVecEnv(num_envs, prices=panel, lookback=lookback, transaction_cost=COST, episode_length=LENGTH)
    actions = np.random.default_rng(1).dirichlet(np.ones(ASSETS), (20, num_envs)).astype(np.float32)
    vec.reset(seed=0)
    hand = ByHand(panel, vec.bar, lookback)
    for batch in actions[:3]:
        ours = vec.step(batch)
        hand.step(batch)
        np.testing.assert_array_equal(ours.observations, hand.seen)
        np.testing.assert_allclose(ours.rewards, hand.rewards, rtol=1e-13, atol=1e-16)
        np.testing.assert_array_equal(ours.infos.columns["weights"], hand.told[1])
    turns = {name: itertools.cycle(actions) for name in ("sekai", "by hand")}
    sides = {
        "sekai": lambda: vec.step(next(turns["sekai"])),
        "by hand": lambda: hand.step(next(turns["by hand"])),
    }
    times = take_turns(sides, rounds=9)
    assert vec.bar.max() < BARS - 1 and hand.state[2].max() < BARS - 1  # no episode has ended
    report(f"Portfolio-v0, {ASSETS} assets, lookback {lookback}, {num_envs} envs", times, "by hand", "sekai", "0.70")
    vec.close()
