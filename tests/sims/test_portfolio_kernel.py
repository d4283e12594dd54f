"""The law of the portfolio market: against the naive twin, the wealth identity, the costs, and what it may not see."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_portfolio import NaivePortfolio

from sekai.kernels import jit
from sekai.vector import Randomized
from sims.data import PricePanel
from sims.portfolio import PortfolioVecEnv
from sims.portfolio.costs import wealth_after_costs

BARS, ASSETS, ROWS, LOOKBACK = 40, 3, 24, 3

#: (standard deviation of a bar's log return, parameters): calm and long only; dear and leveraged, with rates; ruinous.
SETTINGS = {
    "calm": (0.01, {"transaction_cost": 0.0}),
    "dear": (
        0.05,
        {
            "transaction_cost": 0.02,
            "max_leverage": 2.0,
            "shorts": True,
            "cash_rate": 1e-3,
            "loan_rate": 3e-3,
            "borrow_rate": 2e-3,
        },
    ),
    "ruinous": (0.5, {"transaction_cost": 0.2, "max_leverage": 2.0, "shorts": True, "borrow_rate": 0.05}),
}


def make_panel(sd=0.02, gaps=False, opens=True, seed=0, bars=BARS):
    """Each open off the close before, each close off its open; with gaps the last assets come late, pause and leave."""
    rng = np.random.default_rng(seed)
    path = 100.0 * np.exp(np.cumsum(sd * rng.standard_normal((2 * bars, ASSETS)), axis=0))
    close, start = path[1::2].copy(), path[0::2].copy()
    if gaps:
        close[:8, 1] = close[20:23, 1] = close[30:, 2] = np.nan
        start[np.isnan(close)] = np.nan
    return PricePanel(close, ["a", "b", "c"], start if opens else None)


def make_env(num_envs=ROWS, panel=None, **params):
    """Of a form that is compiled once, where shorts and the leverage limit are one too: a step is written for them."""
    panel = make_panel(gaps=True) if panel is None else panel
    default = {"lookback": LOOKBACK, "episode_length": np.full(num_envs, BARS // 4), "autoreset": False}
    return PortfolioVecEnv(num_envs, prices=panel, **{**default, **params})


def random_weights(env, rng, steps=BARS):
    """A third of them at the ends, and many sums beyond the limit."""
    space = env.action_space
    weights = rng.uniform(space.low, space.high, (steps, env.num_envs, ASSETS))
    corner = rng.random(weights.shape) < 0.4
    weights[corner] = rng.choice([float(space.low[0]), 0.0, float(space.high[0])], int(corner.sum()))
    return weights.astype(np.float32)


def rows_of(matrix):
    return [[None if math.isnan(price) else price for price in row] for row in matrix.tolist()]


def plain(info):
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in info.items()}


@pytest.mark.parametrize(
    ("name", "gaps", "execution", "reward"),
    [
        ("dear", True, "open", "log_growth"),
        ("dear", True, "close", "log_growth"),
        ("ruinous", True, "open", "log_growth"),
        ("ruinous", True, "close", "log_growth"),
        pytest.param("calm", False, "open", "return", marks=pytest.mark.form),
        pytest.param("ruinous", False, "close", "return", marks=pytest.mark.form),
    ],
)
def test_equals_the_naive_twin_bit_for_bit(name, gaps, execution, reward):
    sd, params = SETTINGS[name]
    ruined = ended = sold = 0
    for seed in range(3):
        rng, panel = np.random.default_rng(seed), make_panel(sd, gaps, seed=seed)
        starts = rng.integers(LOOKBACK, BARS - 1, ROWS)
        lengths = rng.integers(1, 30, ROWS)
        env = make_env(panel=panel, execution=execution, reward=reward, episode_length=lengths, **params)
        env.reset(options=[{"start": int(start)} for start in starts])
        told = {key: value for key, value in params.items() if key != "shorts"}
        opens = rows_of(panel.open) if execution == "open" else None
        twins = [
            NaivePortfolio(
                rows_of(panel.close),
                opens,
                int(starts[i]),
                int(min(starts[i] + lengths[i], BARS - 1)),
                lookback=LOOKBACK,
                reward=reward,
                **told,
            )
            for i in range(ROWS)
        ]
        for weights in random_weights(env, rng):
            frozen, held = env.frozen, env.units
            result = env.step(weights)
            for i in np.flatnonzero(~frozen):
                expected, terminated, truncated, info = twins[i].step(weights[i].tolist())
                assert result.rewards[i] == expected
                assert (result.terminated[i], result.truncated[i]) == (terminated, truncated)
                assert {key: plain(result.infos[i])[key] for key in info} == info
                assert result.observations[i].tolist() == twins[i].observation()
                assert env.units[i].tolist() == twins[i].units
                ruined += terminated
                ended += terminated or truncated
                sold += bool((held[i][~panel.listed[result.infos[i]["bar"]]] != 0.0).any())
        assert env.frozen.all()
    assert ended == 3 * ROWS
    assert (ruined > 0) == (name == "ruinous")
    assert (sold > 0) == gaps  # what is held leaves the list


@pytest.mark.parametrize("name", ["dear", "ruinous"])
def test_wealth_changes_by_what_prices_costs_and_rates_make_of_it(name):
    sd, params = SETTINGS[name]
    panel = make_panel(sd, True, seed=5)
    env = make_env(panel=panel, execution="open", **params)
    env.reset(seed=1)
    for weights in random_weights(env, np.random.default_rng(5)):
        frozen, before = env.frozen, {each: getattr(env, each) for each in ("units", "price", "wealth")}
        told = env.step(weights).infos.columns
        after = before["units"] + told["units_traded"]
        gained = before["units"] * (told["fill_price"] - before["price"]) + after * (told["price"] - told["fill_price"])
        expected = before["wealth"] + gained.sum(axis=1) - told["cost"] - told["borrow"] + told["interest"]
        scale = 1.0 + np.abs(before["wealth"]) + np.abs(gained).sum(axis=1)
        error = np.abs(told["wealth"] - expected)[~frozen] / scale[~frozen]
        assert error.size == 0 or error.max() < 1e-12
        marked = told["cash"] + (env.units * told["price"]).sum(axis=1)
        assert (np.abs(marked - told["wealth"])[~frozen] <= 1e-12 * scale[~frozen]).all()


def test_weights_hold_exactly_after_the_cost():
    panel = make_panel(0.05, True, opens=False)
    env = make_env(panel=panel, transaction_cost=0.02, shorts=True, max_leverage=2.0)
    env.reset(seed=2, options={"start": 9})  # until bar 19 all are listed
    for weights in random_weights(env, np.random.default_rng(2), 10):
        frozen, before = env.frozen, env.wealth
        told = env.step(weights).infos.columns
        left = before - told["cost"]  # trades are at the closes at which wealth was marked
        asked = weights.astype(np.float64)
        asked /= np.maximum(np.abs(asked).sum(axis=1, keepdims=True) / 2.0, 1.0)
        held = env.units * told["fill_price"] / left[:, None]
        np.testing.assert_allclose(held[~frozen], asked[~frozen], atol=1e-14)


solve = jit(wealth_after_costs.py_func) if hasattr(wealth_after_costs, "py_func") else wealth_after_costs
values = st.lists(st.tuples(st.floats(-3.0, 3.0), st.floats(-1.0, 1.0)), min_size=1, max_size=6)


@given(values, st.floats(0.0, 0.15), st.floats(0.01, 10.0))
@settings(max_examples=150, deadline=None)
def test_the_wealth_after_costs_solves_its_equation(pairs, rate, above):
    held, wanted = (np.array([column], dtype=np.float64) for column in zip(*pairs, strict=True))
    wealth = rate * float(np.abs(held).sum()) + above
    left, traded = solve(wealth, held, wanted, 0, rate)
    # In exact numbers: what is missing changes its sign between two neighbours of what was found.
    exact = [(Fraction(float(w)), Fraction(float(u))) for u, w in zip(held[0], wanted[0], strict=True)]

    def missing(x):
        x = Fraction(x)
        return x + Fraction(rate) * sum(abs(w * x - u) for w, u in exact) - Fraction(wealth)

    width = 1e-14 * (wealth + float(np.abs(held).sum()))
    assert missing(left - width) < 0 < missing(left + width)
    assert 0.0 < left <= wealth
    assert traded == pytest.approx(float(sum(abs(w * Fraction(left) - u) for w, u in exact)), rel=1e-12, abs=1e-15)


def test_nothing_moves_where_nothing_is_asked_for():
    panel = make_panel(gaps=True, opens=False)
    env = make_env(panel=panel, transaction_cost=0.01, shorts=True, max_leverage=2.0)
    env.reset(seed=0, options={"start": 9})
    for _ in range(3):
        told = env.step(np.zeros((ROWS, ASSETS), np.float32)).infos.columns
        assert not told["turnover"].any() and (told["wealth"] == 1.0).all() and (told["cash"] == 1.0).all()
    only = np.zeros((ROWS, ASSETS), np.float32)
    only[:, 1] = 1.0
    env.step(only)
    units = env.units
    told = env.step(only).infos.columns  # all in one asset, to the bit or nearly so, stays there
    np.testing.assert_allclose(env.units, units, rtol=1e-15)
    assert told["turnover"].max() < 1e-15


@pytest.mark.parametrize("execution", ["open", "close"])
def test_no_step_sees_a_later_price(execution):
    """Whatever comes after the bar that a step leads to may be garbage, or missing, so long as all come back."""
    panel, last = make_panel(0.03, True, seed=3), 20
    close, start = panel.close.copy(), panel.open.copy()
    rng = np.random.default_rng(9)
    close[last + 1 :], start[last + 1 :] = (rng.uniform(1e-3, 1e3, (BARS - last - 1, ASSETS)) for _ in range(2))
    missing = rng.random((BARS - last - 2, ASSETS)) < 0.4
    missing[:, 0] = False
    close[last + 1 : -1][missing] = start[last + 1 : -1][missing] = np.nan
    other = PricePanel(close, panel.assets, start)
    envs = [make_env(panel=each, execution=execution, shorts=True, max_leverage=2.0) for each in (panel, other)]
    for env in envs:
        env.set_attr("episode_length", 20)
    results = [[env.reset(seed=4, options={"start": 10})] for env in envs]
    for weights in random_weights(envs[0], rng, last - 10):
        for env, seen in zip(envs, results, strict=True):
            seen.append(env.step(weights))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one.observations, two.observations)
        assert [plain(info) for info in one.infos] == [plain(info) for info in two.infos]
    assert envs[0].bar.tolist() == [last] * ROWS
    np.testing.assert_array_equal(results[0][-1].rewards, results[1][-1].rewards)
    for env, seen in zip(envs, results, strict=True):
        seen.append(env.step(np.ones((ROWS, ASSETS), np.float32)))
    assert (results[0][-1].rewards != results[1][-1].rewards).all()


@pytest.mark.form
def test_costs_and_rates_may_differ_between_sub_envs_and_be_drawn():
    env = make_env(4, transaction_cost=[0.0, 0.01, 0.02, 0.03], cash_rate=Randomized(1e-4, 1e-3), autoreset=True)
    env.set_attr("episode_length", 2)
    env.reset(seed=0, options={"start": 9})
    first = env.cash_rate
    assert len(set(first)) == 4 and ((first >= 1e-4) & (first <= 1e-3)).all()
    told = env.step(np.full((4, ASSETS), 0.2, np.float32)).infos.columns
    weight = 3 * float(np.float32(0.2))
    np.testing.assert_allclose(told["cost"], [c * weight / (1.0 + c * weight) for c in (0.0, 0.01, 0.02, 0.03)])
    np.testing.assert_allclose(told["interest"], first * told["cash"] / (1.0 + first))
    np.testing.assert_array_equal(told["cash_rate"], first)
    env.step(np.zeros((4, ASSETS), np.float32))
    assert (env.cash_rate != first).all()
