"""Portfolios along prices that a model draws: the model of several assets, its twin, and Kelly's growth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive_portfolio import NaivePortfolio

from sekai.kernels import maths, streams
from sekai.vector import Randomized
from sims.portfolio import Merton, SimulatedPortfolioVecEnv
from sims.prices import CorrelatedGeometric, Geometric
from sims.prices.correlated import prepare

#: Three assets that jump together, and a matrix that is not symmetric about anything else.
MODEL = CorrelatedGeometric(
    drift=np.array([0.05, 0.1, -0.02]),
    volatility=np.array([0.2, 0.3, 0.1]),
    correlation=np.array([[1.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 1.0]]),
    jump_rate=2.0,
    jump_mean=np.array([-0.05, -0.1, 0.02]),
    jump_sd=np.array([0.1, 0.05, 0.02]),
)
LOOKBACK = 3


def make_env(num_envs, model=MODEL, **params):
    """Of a form that is compiled once."""
    default = {"lookback": LOOKBACK, "episode_length": 50, "bar_time": 1.0 / 12.0, "max_leverage": 2.0, "shorts": True}
    return SimulatedPortfolioVecEnv(num_envs, prices=model, **{**default, **params})


class NaiveModel:
    """Prices of one sub-env, in plain Python with the numbers of its stream."""

    def __init__(self, model, dt, key, price):
        self.model, self.dt = model, dt
        self.streams = streams.Streams(np.array([key], np.uint64), np.zeros(1, np.uint64))
        covariance = model.correlation * np.outer(model.volatility, model.volatility)
        root = np.linalg.cholesky(covariance).tolist()
        np.testing.assert_allclose(prepare(model).root, root, rtol=1e-12, atol=1e-16)
        self.root = prepare(model).root.tolist()
        self.prices = [price for _ in model.drift]

    def move(self):
        model, z = self.model, []
        while len(z) < len(self.prices):
            z += map(float, maths.normal_pair64(*streams.random_words(self.streams, 0)))
        jumps = model.jump_rate * self.dt
        count = float(streams.poisson(self.streams, 0, jumps))
        size = float(streams.normal(self.streams, 0))
        for k, (mu, sigma, m, s) in enumerate(
            zip(
                *(each.tolist() for each in (model.drift, model.volatility, model.jump_mean, model.jump_sd)),
                strict=True,
            )
        ):
            noise = 0.0
            for j in range(k + 1):
                noise += self.root[k][j] * z[j]
            excess = float(np.expm1(m + 0.5 * s * s))
            growth = (mu - 0.5 * sigma * sigma) * self.dt - jumps * excess + math.sqrt(self.dt) * noise
            jumped = count * m + math.sqrt(count) * s * size
            self.prices[k] = self.prices[k] * float(maths.exp(growth + jumped))
        return list(self.prices)


@pytest.mark.form
def test_equals_the_naive_twin_bit_for_bit():
    rows, steps = 5, 20
    env = make_env(rows, transaction_cost=0.01, cash_rate=1e-3, loan_rate=2e-3, borrow_rate=1e-3)
    seen = env.reset(seed=3).observations
    paths = []
    for key in env.streams.key:
        model = NaiveModel(MODEL, 1.0 / 12.0, key, 100.0)
        paths.append([[100.0] * 3, *(model.move() for _ in range(LOOKBACK + steps))])
    twins = [
        NaivePortfolio(
            path,
            None,
            LOOKBACK,
            LOOKBACK + 50,
            lookback=LOOKBACK,
            max_leverage=2.0,
            transaction_cost=0.01,
            cash_rate=1e-3,
            loan_rate=2e-3,
            borrow_rate=1e-3,
        )
        for path in paths
    ]
    assert seen.tolist() == [twin.observation() for twin in twins]
    for weights in np.random.default_rng(0).uniform(-1.0, 1.0, (steps, rows, 3)).astype(np.float32):
        result = env.step(weights)
        for i, twin in enumerate(twins):
            reward, terminated, _, info = twin.step(weights[i].tolist())
            assert (result.rewards[i], result.terminated[i]) == (reward, terminated)
            told = {key: np.asarray(value).tolist() for key, value in result.infos[i].items()}
            assert told == {key: value for key, value in info.items() if key != "bar"}
            assert result.observations[i].tolist() == twin.observation()


@pytest.mark.form
def test_a_step_draws_prices_after_it_has_traded():
    """The price of the trade is the one that was seen, whatever the action was."""
    left, right = make_env(4), make_env(4)
    for env in (left, right):
        env.reset(seed=0)
    for _ in range(3):
        before = left.price
        one = left.step(np.full((4, 3), 0.3, np.float32)).infos.columns
        two = right.step(np.zeros((4, 3), np.float32)).infos.columns
        np.testing.assert_array_equal(one["fill_price"], before)
        np.testing.assert_array_equal(one["price"], two["price"])


def moments(logs, dt):
    """Mean and covariances of log returns per time, and their standard errors."""
    n = len(logs)
    off = logs - logs.mean(axis=0)
    products = off[:, :, None] * off[:, None, :]
    return (
        (logs.mean(axis=0) / dt, logs.std(axis=0) / math.sqrt(n) / dt),
        (products.mean(axis=0) / dt, products.std(axis=0) / math.sqrt(n) / dt),
    )


@pytest.mark.slow
def test_the_moments_of_correlated_prices_that_jump():
    rows, dt, steps = 4096, 1.0 / 12.0, 20
    env = make_env(rows)
    env.reset(seed=1)
    logs = []
    for _ in range(steps):
        before = env.price
        env.step(np.zeros((rows, 3), np.float32))
        logs.append(np.log(env.price / before))
    logs = np.concatenate(logs)
    factors = MODEL
    mean_factor = np.exp(factors.jump_mean + 0.5 * factors.jump_sd**2) - 1.0
    mean = factors.drift - 0.5 * factors.volatility**2 + factors.jump_rate * (factors.jump_mean - mean_factor)
    # Of the jumps of a time: rate times E[log J_j log J_k], where the logs are m_j + s_j y with one y.
    jumped = np.outer(factors.jump_mean, factors.jump_mean) + np.outer(factors.jump_sd, factors.jump_sd)
    covariance = factors.correlation * np.outer(factors.volatility, factors.volatility) + factors.jump_rate * jumped
    (found, error), (found_products, error_products) = moments(logs, dt)
    assert (np.abs(found - mean) < 4.0 * error).all()
    assert (np.abs(found_products - covariance) < 4.0 * error_products).all()
    growth = np.exp(logs)  # mean prices grow at the drift, jumps or not
    error = growth.std(axis=0) / math.sqrt(len(growth))
    assert (np.abs(growth.mean(axis=0) - np.exp(factors.drift * dt)) < 4.0 * error).all()


def test_a_singular_correlation_is_one_too():
    for matrix in ([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]], np.ones((3, 3))):
        model = MODEL._replace(correlation=np.array(matrix))
        root = prepare(model).root
        assert (np.triu(root, 1) == 0.0).all()
        expected = model.correlation * np.outer(model.volatility, model.volatility)
        np.testing.assert_allclose(root @ root.T, expected, atol=1e-12)


@pytest.mark.form
def test_what_is_drawn_and_what_differs_between_sub_envs():
    env = make_env(3, MODEL._replace(jump_rate=Randomized(0.0, 4.0)), transaction_cost=[0.0, 0.01, 0.02])
    env.reset(seed=0)
    rates = [each.jump_rate for each in env.get_attr("prices")]
    assert len(set(rates)) == 3 and 0.0 <= min(rates) and max(rates) <= 4.0
    infos = env.step(np.full((3, 3), 0.2, np.float32)).infos
    assert [info["prices.jump_rate"] for info in infos] == rates
    assert [info["cost"] > 0.0 for info in infos] == [False, True, True]


@pytest.mark.form
def test_drifts_may_change_and_correlations_stay():
    env, twin = make_env(3), make_env(3)
    for each in (env, twin):
        each.reset(seed=0)
    env.set_attr("prices", MODEL._replace(drift=MODEL.drift + 1.2, jump_rate=2.0))
    for each in (env, twin):
        each.step(np.zeros((3, 3), np.float32))
    np.testing.assert_allclose(env.price / twin.price, np.exp(1.2 / 12.0), rtol=1e-12)
    with pytest.raises(AttributeError, match="prices.correlation: expected it to stay as it was"):
        env.set_attr("prices", MODEL._replace(correlation=np.eye(3)))


CORRELATION = {
    "not symmetric": ([[1.0, 0.9], [0.8, 1.0]], "a symmetric matrix, got 0.9 of assets 0 and 1, and 0.8 of 1 and 0"),
    "diagonal": ([[1.0, 0.5], [0.5, 1.5]], "1 on the diagonal, got 1.5 of asset 1"),
    "eigenvalue": ([[1.0, 1.1], [1.1, 1.0]], "a positive semidefinite matrix, got one with the eigenvalue -0.1:"),
    "shape": ([[1.0]], r"the shape \(2, 2\) of 2 assets \(drift\), got \(1, 1\)"),
    "nan": ([[1.0, math.nan], [math.nan, 1.0]], r"finite numbers, got nan at \[0, 1\]"),
}


@pytest.mark.parametrize("name", CORRELATION)
def test_matrices_that_are_no_correlations(name):
    matrix, message = CORRELATION[name]
    with pytest.raises(ValueError, match=f"^prices.correlation: expected {message}"):
        SimulatedPortfolioVecEnv(2, prices=CorrelatedGeometric(correlation=np.array(matrix)))


def test_a_triple_of_pairs_that_cannot_be():
    """Each pair is possible, all three are not."""
    matrix = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(ValueError, match="eigenvalue -0.8"):
        SimulatedPortfolioVecEnv(2, prices=MODEL._replace(correlation=matrix))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("drift", np.ones((2, 2)), "one number for each of 1 to 512 assets"),
        ("volatility", np.array([0.2]), r"the shape \(3,\) of 3 assets \(drift\), got \(1,\)"),
        ("volatility", np.array([0.2, -0.1, 0.1]), "at least 0, got -0.1 of asset 1"),
        ("jump_sd", np.array([-0.1]), "at least 0, got -0.1 of asset 0"),
        ("jump_rate", -1.0, "a finite number of at least 0, got -1.0"),
        ("jump_mean", np.array([0.0, 1e3, 0.0]), "jump_sd: expected"),
    ],
    ids=["drift", "volatility-shape", "volatility", "jump_sd", "jump_rate", "jump_mean"],
)
def test_models_that_are_wrong(field, value, message):
    with pytest.raises(ValueError, match=f"^prices.{field}.*{message}"):
        SimulatedPortfolioVecEnv(2, prices=MODEL._replace(**{field: value}))


# -- Kelly's weight ------------------------------------------------------------------------------------------

MU, SIGMA, KELLY = 0.05, 0.2, 1.25


def growth_rebalanced(weight, dt):
    """Growth per year of a weight restored every ``dt``: the mean of log(1 + w (S'/S - 1)), by quadrature.

    The factor is floored as in the market; a year's falls there once in some 10**15.
    """
    nodes, masses = np.polynomial.hermite_e.hermegauss(80)
    factors = np.exp((MU - 0.5 * SIGMA**2) * dt + SIGMA * math.sqrt(dt) * nodes)
    return float(masses @ np.log(np.maximum(1.0 + weight * (factors - 1.0), 1e-6))) / masses.sum() / dt


def test_growth_of_kellys_weight_converges_to_that_of_continuous_rebalancing():
    continuous = KELLY * MU - 0.5 * (KELLY * SIGMA) ** 2
    assert continuous == pytest.approx(0.03125, abs=1e-15)
    times = [1.0 / 12.0, 1.0 / 52.0, 1.0 / 252.0, 1.0 / 2520.0]
    off = [growth_rebalanced(KELLY, dt) - continuous for dt in times]
    assert growth_rebalanced(KELLY, 1.0 / 252.0) == pytest.approx(0.03124984, abs=1e-8)
    for slower, faster, ratio in zip(off, off[1:], (52 / 12, 252 / 52, 10), strict=False):
        assert slower / faster == pytest.approx(ratio, rel=0.05)  # in proportion to the time between rebalancings
    assert abs(growth_rebalanced(KELLY, 1.0) - continuous) > 3e-5  # which the market's error is below
    best = max(np.arange(0.0, 2.5, 0.05), key=lambda weight: growth_rebalanced(weight, 1.0 / 2520.0))
    assert best == pytest.approx(KELLY)


@pytest.mark.long
@pytest.mark.parametrize("dt", [1.0, 1.0 / 252.0], ids=["yearly", "daily"])
def test_growth_of_kellys_weight_in_the_market(dt):
    rows, steps = 8192, 240
    env = SimulatedPortfolioVecEnv(
        rows,
        prices=Geometric(drift=MU, volatility=SIGMA),
        lookback=1,
        episode_length=steps,
        transaction_cost=0.0,
        bar_time=dt,
        max_leverage=2.0,
    )
    policy = Merton.for_env(env)
    assert policy.weights == pytest.approx([KELLY])
    seen, gained = env.reset(seed=5).observations, []
    for _ in range(steps):
        before = env.price[:, 0]
        result = env.step(policy(seen))
        # Less what the weight times the log of the price does, whose mean is known, so that hardly any noise is left.
        log = np.log(result.infos.columns["price"][:, 0] / before)
        gained.append(result.rewards - KELLY * (log - (MU - 0.5 * SIGMA**2) * dt))
        seen = result.observations
    growth = np.concatenate(gained) / dt
    error = growth.std() / math.sqrt(growth.size)
    assert 4.0 * error < 3e-5
    assert abs(growth.mean() - growth_rebalanced(KELLY, dt)) < 4.0 * error


def test_defaults_are_not_changed_for_all():
    for values in CorrelatedGeometric():
        assert not isinstance(values, np.ndarray) or not values.flags.writeable
