"""The policies that come with the portfolio market: what they hold, and what they hold is right for."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import sekai
from sekai.vector import Randomized
from sims.data import PricePanel
from sims.portfolio import (
    BuyAndHold,
    EqualWeight,
    Merton,
    MinimumVariance,
    Momentum,
    PortfolioVecEnv,
    SimulatedPortfolioVecEnv,
)
from sims.prices import CorrelatedGeometric, Geometric, Heston

K, LOOKBACK = 3, 12
PLAIN = {"assets": K, "lookback": LOOKBACK}


def observe(returns, held=(0.0, 0.0, 0.0), listed=None):
    """Observations of one account."""
    parts = [np.ravel(returns), held, *([] if listed is None else [listed])]
    return np.concatenate(parts)[None].astype(np.float32)


def random_returns(seed=0, sd=0.02):
    return np.random.default_rng(seed).normal(0.0, sd, (LOOKBACK, K)).astype(np.float32)


def make_env(num_envs=2, bars=60, **params):
    moves = np.random.default_rng(3).normal(0.0, 0.02, (bars, K))
    close = 100.0 * np.exp(moves.cumsum(axis=0))
    close[:20, 2] = np.nan
    params = {"lookback": LOOKBACK, "episode_length": 30, **params}
    return PortfolioVecEnv(num_envs, prices=PricePanel(close), **params)


def test_equal_weights_are_of_what_is_listed():
    assert EqualWeight(**PLAIN)(observe(random_returns())).tolist() == [[np.float32(1 / 3)] * 3]
    policy = EqualWeight(**PLAIN, tells_listed=True, max_leverage=0.5)
    assert policy(observe(random_returns(), listed=(1, 0, 0.1))).tolist() == [[0.25, 0.0, 0.25]]
    assert policy(observe(random_returns(), listed=(0, 0, 0))).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.form
def test_what_is_held_is_held():
    env = make_env(4, transaction_cost=0.01)
    policy, seen = BuyAndHold.for_env(env), env.reset(options={"start": 25}).observations
    units = None
    for _ in range(20):
        result = env.step(policy(seen))
        seen = result.observations
        if units is not None:
            np.testing.assert_allclose(env.units, units, rtol=1e-5)
            assert result.infos.columns["turnover"].max() < 1e-6
        units = env.units
    np.testing.assert_allclose(units * env.closes[25], np.full((4, K), 1 / 3 / 1.01), rtol=1e-5)
    short = BuyAndHold(**PLAIN, shorts=True, max_leverage=1.0)
    assert short(observe(random_returns(), held=(-0.5, 1.5, 0.0))).tolist() == [[-0.5, 1.0, 0.0]]
    assert BuyAndHold(**PLAIN)(observe(random_returns(), held=(-0.5, 0.5, 0.0))).tolist() == [[0.0, 0.5, 0.0]]


def test_momentum_follows_the_sign_of_the_window():
    returns = np.zeros((LOOKBACK, K))
    returns[0], returns[-1] = [-0.5, -0.5, 0.9], [0.01, -0.01, 0.0]
    third = np.float32(1 / 3)
    assert Momentum(**PLAIN, window=4)(observe(returns)).tolist() == [[third, 0.0, 0.0]]
    assert Momentum(**PLAIN, window=4, shorts=True)(observe(returns)).tolist() == [[third, -third, 0.0]]
    assert Momentum(**PLAIN)(observe(returns)).tolist() == [[0.0, 0.0, third]]
    flat = np.zeros((LOOKBACK, K), np.float32)  # up and down by what leaves a price where it was, but for rounding
    flat[3], flat[7] = 0.1, np.float32(1.0 / 1.1 - 1.0)
    assert not Momentum(**PLAIN, shorts=True)(observe(flat)).any()


def least_variance(covariance):
    """The best of all weights of at least 0, by trying every set of assets to hold."""
    found = []
    for count in range(1, K + 1):
        for held in map(list, itertools.combinations(range(K), count)):
            x = np.linalg.solve(covariance[np.ix_(held, held)], np.ones(count))
            if (x >= 0.0).all():
                weights = np.zeros(K)
                weights[held] = x / x.sum()
                found.append((weights @ covariance @ weights, weights))
    return min(found, key=lambda each: each[0])[1]


@pytest.mark.form
@pytest.mark.parametrize("seed", range(6))
def test_minimum_variance(seed):
    returns = random_returns(seed)
    returns[:, 1] += 0.8 * returns[:, 0] * (seed % 3)  # so that some are best not held at all
    window = returns[-10:].astype(np.float64)
    covariance = np.cov(window.T)
    covariance += 1e-6 * covariance.trace() / K * np.eye(K)
    found = MinimumVariance(**PLAIN, window=10)(observe(returns))[0]
    np.testing.assert_allclose(found, least_variance(covariance), atol=1e-5)
    shorts = MinimumVariance(**PLAIN, window=10, shorts=True, max_leverage=9.0)(observe(returns))[0]
    x = np.linalg.solve(covariance, np.ones(K))
    np.testing.assert_allclose(shorts, x / x.sum(), atol=1e-4)


@pytest.mark.form
def test_minimum_variance_of_what_does_not_move():
    returns = random_returns()
    returns[:, 1] = 0.0
    policy = MinimumVariance(**PLAIN, tells_listed=True)
    assert policy(observe(returns, listed=(1, 0, 1)))[0, 1] == 0.0
    assert policy(observe(returns, listed=(1, 1, 1)))[0, 1] > 0.99
    assert policy(observe(0.0 * returns, listed=(1, 1, 0))).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.form
def test_an_asset_counts_that_was_listed_over_the_window():
    returns = random_returns()
    returns[:-2, 1] = 0.0  # its first 2 returns
    returns[-2:, 1] = 0.1
    closes = np.array([LOOKBACK + 1, 3, LOOKBACK + 1]) / (LOOKBACK + 1)
    for policy in (MinimumVariance, Momentum):
        told = {**PLAIN, "tells_listed": True}
        for window, counts in ((None, False), (4, False), (3, False), (2, True)):
            acted = policy(**told, window=window)(observe(returns, listed=closes))[0]
            assert acted[1] == 0.0 or counts
            assert acted[1] > 0.0 or not counts or policy is MinimumVariance  # which may hold none
        assert not policy(**told)(observe(returns, listed=0.9 * closes)).any()  # of no asset, all in cash
    assert BuyAndHold(**told)(observe(returns, (0.25, 0.25, 0.5), listed=(1, 0, 1))).tolist() == [[0.25, 0.0, 0.5]]


@pytest.mark.form
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 1.0])
def test_no_weights_have_less_variance(correlation):
    """By the conditions of Karush, Kuhn and Tucker, with more assets than returns."""
    rng, count = np.random.default_rng(int(10 * correlation)), 40
    common, own = rng.normal(0.0, 0.01, (LOOKBACK, 1)), rng.normal(0.0, 0.01, (LOOKBACK, count))
    returns = (correlation**0.5 * common + (1.0 - correlation) ** 0.5 * own) * rng.uniform(0.5, 2.0, count)
    seen = np.concatenate([returns.ravel(), np.zeros(count)])[None].astype(np.float32)
    covariance = np.cov(seen[0, : LOOKBACK * count].reshape(LOOKBACK, count).astype(np.float64).T)
    covariance += 1e-6 * covariance.trace() / count * np.eye(count)
    found = MinimumVariance(assets=count, lookback=LOOKBACK)(seen)[0].astype(np.float64)
    slopes = covariance @ found / (found @ covariance @ found)
    assert found.min() >= 0.0 and found.sum() == pytest.approx(1.0, abs=1e-6)
    tolerance = 2e-7 * count * covariance.max() / (found @ covariance @ found)  # of weights rounded to float32
    assert slopes.min() > 1.0 - tolerance and np.abs(slopes[found > 1e-6] - 1.0).max() < tolerance
    shorts = MinimumVariance(assets=count, lookback=LOOKBACK, shorts=True, max_leverage=100.0)(seen)[0]
    exact = np.linalg.solve(covariance, np.ones(count))
    np.testing.assert_allclose(shorts, exact / exact.sum(), atol=1e-5)
    half = MinimumVariance(assets=count, lookback=LOOKBACK, shorts=True, max_leverage=0.5)(seen)[0]
    np.testing.assert_allclose(half, 0.5 * exact / np.abs(exact).sum(), atol=1e-5)


def test_mertons_weights():
    correlation = np.array([[1.0, 0.4, 0.0], [0.4, 1.0, 0.0], [0.0, 0.0, 1.0]])
    known = {"drift": [0.05, 0.04, 0.01], "volatility": [0.2, 0.1, 0.3], "correlation": correlation, "rate": 0.02}
    policy = Merton(**PLAIN, **known, risk_aversion=4.0)
    covariance = correlation * np.outer(known["volatility"], known["volatility"])
    np.testing.assert_allclose(4.0 * covariance @ policy.weights, [0.03, 0.02, -0.01], atol=1e-15)
    acted = policy(np.zeros((2, 39), np.float32))
    assert acted[0, 2] == 0.0 > policy.weights[2]  # no shorts here
    np.testing.assert_allclose(acted[:, :2], np.tile(policy.weights[:2], (2, 1)), rtol=1e-6)
    much = Merton(**PLAIN, **known, risk_aversion=0.1)(np.zeros((1, 39), np.float32)).astype(np.float64)[0]
    np.testing.assert_allclose(much[:2], policy.weights[:2] / policy.weights[:2].sum(), rtol=1e-6)
    assert much.sum() <= 1.0 + 1e-6  # which the strict form takes
    shorts = Merton(**PLAIN, **known, risk_aversion=0.1, shorts=True, max_leverage=0.5)(np.zeros((1, 39), np.float32))
    np.testing.assert_allclose(shorts[0], 0.5 * policy.weights / np.abs(policy.weights).sum(), rtol=1e-6)
    kelly = Merton(assets=1, lookback=1, drift=0.05, volatility=0.2, max_leverage=2.0)
    assert kelly.weights == pytest.approx([1.25]) and kelly(np.zeros((1, 2), np.float32)).tolist() == [[1.25]]


@pytest.mark.form
def test_merton_takes_what_a_model_says():
    model = CorrelatedGeometric(drift=np.array([0.04, 0.05]), volatility=np.array([0.3, 0.4]))
    env = SimulatedPortfolioVecEnv(2, prices=model, bar_time=0.01, cash_rate=1e-4, max_leverage=3.0)
    policy = Merton.for_env(env)
    covariance = model.correlation * np.outer(model.volatility, model.volatility)
    np.testing.assert_allclose(policy.weights, np.linalg.solve(covariance, model.drift - 0.01))
    assert Merton.for_env(env, drift=0.11, volatility=0.2).weights == pytest.approx([2.5 / 1.5, 2.5 / 1.5])
    told = Merton.for_env(env, drift=model.drift, volatility=model.volatility)
    np.testing.assert_array_equal(told.weights, policy.weights)
    assert Merton.for_env(env, drift=model.drift, rate=0.0).rate == 0.0
    history = make_env(cash_rate=0.01)
    told = Merton.for_env(history, drift=0.02, volatility=[0.1, 0.2, 0.5])  # all per bar
    np.testing.assert_allclose(told.weights, [1.0, 0.25, 0.04])
    one = SimulatedPortfolioVecEnv(2, prices=Geometric(0.05, 0.2), max_leverage=2.0)
    assert Merton.for_env(one).weights == pytest.approx([1.25])
    for other in (Heston(), model._replace(jump_rate=1.0)):
        with pytest.raises(ValueError, match="merton: expected a model of geometric Brownian motions without jumps"):
            Merton.for_env(SimulatedPortfolioVecEnv(2, prices=other))
    assert set(SimulatedPortfolioVecEnv.policies) - set(PortfolioVecEnv.policies) == {"merton"}
    with pytest.raises(ValueError, match="merton: expected drift and volatility of each asset"):
        Merton.for_env(make_env())


@pytest.mark.parametrize("drift", [[0.01, 0.2], Randomized(0.01, 0.2)], ids=["each", "drawn"])
def test_merton_has_one_set_of_weights(drift):
    env = SimulatedPortfolioVecEnv(2, prices=Geometric(drift, 0.2))
    with pytest.raises(ValueError, match=r"merton: expected one prices\.drift for all sub-envs and episodes"):
        Merton.for_env(env)
    assert Merton.for_env(env, drift=0.04).weights == pytest.approx([1.0])


WRONG = [
    (lambda: Momentum(**PLAIN, window=13), r"Momentum\(window\): expected 1 to 12 bars \(lookback\), got 13"),
    (lambda: MinimumVariance(**PLAIN, window=1), "expected at least 2 bars, of which there is a variance, got 1"),
    (lambda: MinimumVariance(assets=65, lookback=2), "expected at most 64 assets, got 65"),
    (lambda: EqualWeight(assets=0, lookback=2), r"EqualWeight\(assets\)"),
    (lambda: EqualWeight(**PLAIN, max_leverage=0.0), r"EqualWeight\(max_leverage\): expected a finite number above 0"),
    (lambda: Merton(**PLAIN, drift=[0.1, 0.2], volatility=0.2), r"Merton\(drift\): expected a number for each of 3"),
    (lambda: Merton(**PLAIN, drift=0.1, volatility=0.0), r"Merton\(volatility\): expected a finite number above 0"),
    (lambda: Merton(**PLAIN, drift=0.1, volatility=0.2, risk_aversion=0.0), r"Merton\(risk_aversion\)"),
    (
        lambda: Merton(**PLAIN, drift=0.1, volatility=0.2, correlation=np.ones((3, 3))),
        r"Merton\(correlation\): expected a matrix that can be inverted",
    ),
    (
        lambda: Merton(assets=2, lookback=1, drift=0.1, volatility=0.2, correlation=[[1.0, 0.5], [0.2, 1.0]]),
        r"Merton\(correlation\): expected a symmetric matrix, got 0.5",
    ),
    (
        lambda: Merton(assets=2, lookback=1, drift=0.1, volatility=0.2, correlation=[[1.0, 2.0], [2.0, 1.0]]),
        r"Merton\(correlation\): expected a positive semidefinite matrix",
    ),
    (
        lambda: Merton(**PLAIN, drift=0.1, volatility=0.2, correlation=np.eye(2)),
        r"Merton\(correlation\): expected the shape \(3, 3\), got \(2, 2\)",
    ),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_policies_that_are_wrong(number):
    make, message = WRONG[number]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.form) for name in ("equal-weight", "buy-and-hold", "momentum")),
        pytest.param("minimum-variance", marks=pytest.mark.form),
    ],
)
def test_batches_and_compiled_rollouts_agree(name):
    policies = pickle.loads(pickle.dumps(PortfolioVecEnv.policies))
    env = make_env(5)
    policy = policies[name](env)
    rolled = sekai.rollout(env, policy, 40, seed=2, infos=("wealth", "turnover"), progress=False)
    stepped = sekai.rollout(env, lambda seen: policy(seen), 40, seed=2, infos=("wealth", "turnover"), progress=False)
    np.testing.assert_array_equal(rolled.observations, stepped.observations)
    np.testing.assert_array_equal(rolled.infos["wealth"], stepped.infos["wealth"])
    assert np.abs(rolled.actions).sum(axis=2).max() < 1.0 + 1e-6


@pytest.mark.form
def test_a_rollout_along_drawn_prices():
    env = SimulatedPortfolioVecEnv(5, lookback=LOOKBACK, episode_length=15)
    policy = MinimumVariance.for_env(env, window=10)
    rolled = sekai.rollout(env, policy, 40, seed=2, infos=("wealth",), progress=False)
    stepped = sekai.rollout(env, lambda seen: policy(seen), 40, seed=2, infos=("wealth",), progress=False)
    assert env.can_roll
    np.testing.assert_array_equal(rolled.observations, stepped.observations)
    np.testing.assert_array_equal(rolled.infos["wealth"], stepped.infos["wealth"])
