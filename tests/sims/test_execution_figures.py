"""Published figures of optimal execution, and the laws of what schedules cost."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sims.execution import (
    TWAP,
    VWAP,
    AlmgrenChriss,
    CarteaJaimungal,
    ExecutionVecEnv,
    ObizhaevaWang,
    closed_forms,
    cost_variance,
    expected_cost,
)
from sims.prices import Brownian

#: The example of Almgren and Chriss (2001): a million shares in five days.
IMPACT = {"half_spread": 0.0625, "temporary_impact": 2.5e-6, "permanent_impact": 2.5e-7}
EXAMPLE = {"units": 1e6, "initial_price": 50.0, "horizon": 5.0, "n_steps": 5, **IMPACT}
SIGMA = 0.95
#: Obizhaeva and Wang's book: 11 trades within one time, whose first is at once and whose last is at its end.
BOOK = {"transient_impact": 1e-4, "resilience": 20.0}
TRANSIENT = {"units": 1e5, "horizon": 1.1, "n_steps": 11, **dict.fromkeys(IMPACT, 0.0), **BOOK}

#: Orders, some episodes of each: fewer than there are threads for, which take another form of the step.
PATHS, EPISODES = 8_000, 5


def make(num_envs=1, volatility=0.0, **terms):
    return ExecutionVecEnv(num_envs, prices=Brownian(volatility=volatility), **terms)


def play(env, policy, seed=0):
    """An episode: its rewards (N, envs), what each step traded and the shortfalls."""
    seen, rewards, traded = env.reset(seed=seed).observations, [], []
    for _ in range(env.params.n_steps):
        result = env.step(policy(seen))
        told, seen = result.infos.columns, result.observations
        rewards.append(result.rewards)
        traded.append(np.abs(told["units_traded"]))
    assert result.terminated.all()
    return np.array(rewards), np.array(traded), np.array(told["shortfall"])


# -- Almgren and Chriss ------------------------------------------------------------------------------------


def test_the_example_of_almgren_and_chriss():
    assert closed_forms.urgency(1e-6, SIGMA, 2.5e-6, 2.5e-7, 1.0) == pytest.approx(0.607076, abs=5e-7)
    env = make(**EXAMPLE, volatility=SIGMA)
    for aversion, slices, mean, variance in (
        (0.0, [200_000] * 5, 662_500.0, 1.083e12),
        (1e-6, [458_044, 252_101, 141_957, 85_756, 62_142], 911_227.0, 3.641286e11),
    ):
        policy = AlmgrenChriss.for_env(env, aversion)
        planned = policy.slices(EXAMPLE["units"])
        assert np.round(planned).tolist() == slices
        assert expected_cost(planned, 1.0, **IMPACT) == pytest.approx(mean, abs=0.05)
        assert cost_variance(planned, 1.0, SIGMA) == pytest.approx(variance, rel=1e-7)


def test_without_risk_aversion_almgren_and_chriss_trade_evenly():
    env = make(**EXAMPLE, volatility=SIGMA)
    np.testing.assert_allclose(AlmgrenChriss.for_env(env, 0.0).slices(), TWAP.for_env(env).slices(), rtol=1e-14)
    assert expected_cost(np.full(5, 2e5), 1.0, **IMPACT) == pytest.approx(662_500.0, rel=1e-9)
    assert cost_variance(np.full(5, 2e5), 1.0, SIGMA) == pytest.approx(1.083e12, rel=1e-9)


@pytest.mark.parametrize("side", ["sell", "buy"])
def test_without_noise_any_schedule_costs_its_mean_to_the_cent(side):
    rng = np.random.default_rng(0)
    for terms, costs in ((EXAMPLE, IMPACT), (TRANSIENT, BOOK), ({**EXAMPLE, "transient_impact": 1e-6}, None)):
        costs = {**IMPACT, "transient_impact": 1e-6, "resilience": 10.0} if costs is None else costs
        env, n = make(8, **terms, side=side), terms["n_steps"]
        schedule = rng.uniform(0.0, 1.0, (n, 8, 1)).astype(np.float32)
        steps = iter(schedule)
        rewards, traded, shortfall = play(env, lambda seen, steps=steps: next(steps))
        means = expected_cost(traded.T, terms["horizon"] / n, **costs)
        assert np.abs(shortfall - means).max() < 0.005
        assert np.abs(rewards.sum(axis=0) + means).max() < 0.005


def test_the_env_costs_what_the_optimal_schedule_does():
    env = make(**EXAMPLE)
    policy = AlmgrenChriss.for_env(env, 1e-6, volatility=SIGMA)
    _, traded, shortfall = play(env, policy)
    assert np.round(traded[:, 0]).tolist() == [458_044, 252_101, 141_957, 85_756, 62_142]
    assert shortfall[0] == pytest.approx(911_227.0, abs=0.1)  # shares are rounded to float32


@pytest.mark.compiled
@pytest.mark.parametrize("aversion", [0.0, 1e-6])
def test_mean_and_variance_of_the_shortfall(aversion):
    env = make(PATHS, **EXAMPLE, volatility=SIGMA)
    policy = AlmgrenChriss.for_env(env, aversion)
    shortfall = np.concatenate([play(env, policy, seed)[2] for seed in range(EPISODES)])
    slices = policy.slices(EXAMPLE["units"])
    mean, variance = expected_cost(slices, 1.0, **IMPACT), cost_variance(slices, 1.0, SIGMA)
    assert abs(shortfall.mean() - mean) <= 4.0 * np.sqrt(variance / shortfall.size)
    assert abs(shortfall.var() - variance) <= 4.0 * variance * np.sqrt(2.0 / shortfall.size)


# -- Obizhaeva and Wang ------------------------------------------------------------------------------------


def test_the_example_of_obizhaeva_and_wang():
    env = make(**TRANSIENT)
    for policy, slices, cost in (
        (ObizhaevaWang.for_env(env), [10222.8767, *[8839.3607] * 9, 10222.8767], 58_031.9628),
        (TWAP.for_env(env), [1e5 / 11] * 11, 58_187.4269),
    ):
        planned = policy.slices(1e5)
        np.testing.assert_allclose(planned, slices, atol=5e-5)
        assert expected_cost(planned, 0.1, **BOOK) == pytest.approx(cost, abs=5e-5)
        assert play(env, policy)[2][0] == pytest.approx(cost, abs=1e-3)


def test_a_permanent_part_of_the_book_is_half_in_a_slice_s_own_price():
    """Their cost of an impact in proportion to trades, for good: lambda X^2 / 2 whatever the schedule."""
    permanent, dt = 3e-5, 0.1
    slices = np.random.default_rng(1).dirichlet(np.ones(11), 20) * 1e5
    costs = expected_cost(slices, dt, permanent_impact=permanent, temporary_impact=permanent * dt / 2.0)
    np.testing.assert_allclose(costs, permanent * 1e10 / 2.0, rtol=1e-12)


def test_with_little_temporary_impact_to_trade_at_once_is_best():
    """Where eta < gamma tau / 2: a slice does not pay its own permanent impact."""
    for eta, best in ((1.01e-6, 0), (0.99e-6, 1)):
        env = make(1, n_steps=4, horizon=4.0, temporary_impact=eta, permanent_impact=2e-6, half_spread=0.0)
        costs = [play(env, policy)[2][0] for policy in (TWAP.for_env(env), lambda seen: np.ones((1, 1), np.float32))]
        assert int(np.argmin(costs)) == best


def test_what_a_schedule_costs_is_worked_out_slice_by_slice():
    """A matrix of all pairs of these would take more memory than there is."""
    n, rate = 40_000, 3.0
    slices, decay = np.full(n, 1.0 / n), np.exp(-rate / n)
    pushed = decay * (1.0 - decay ** np.arange(n)) / (1.0 - decay) / n
    expected = 2.0 * np.sum(slices * (0.5 * slices + pushed))
    found = expected_cost(slices, 1.0 / n, transient_impact=2.0, resilience=rate)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: expected_cost(3.0, 1.0),
            "expected_cost: slices: expected an array of shape (..., N), got one of shape ()",
        ),
        (
            lambda: expected_cost([-1.0], 1.0),
            "expected_cost: slices: expected finite numbers of at least 0, got [-1.0]",
        ),
        (lambda: expected_cost([1.0], 0.0), "expected_cost: dt: expected a finite number above 0, got 0.0"),
        (
            lambda: expected_cost([1.0], 1.0, half_spread=-1.0),
            "expected_cost: half_spread: expected a finite number of",
        ),
        (
            lambda: expected_cost([1.0, 2.0], 1.0, volume_profile=[1.0]),
            "expected_cost: volume_profile: expected 2 volumes (n_steps), got an array of shape (1,)",
        ),
        (
            lambda: cost_variance(3.0, 1.0, 1.0),
            "cost_variance: slices: expected an array of shape (..., N), got one of",
        ),
        (lambda: cost_variance([1.0], 0.0, 1.0), "cost_variance: dt: expected a finite number above 0, got 0.0"),
    ],
)
def test_what_no_cost_can_be_worked_out_from(build, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


# -- schedules against the optimum of a quadratic ----------------------------------------------------------


def best_slices(cost, n):
    """The slices of an order of 1 of which a cost that is quadratic in them is least, by its second differences."""
    unit = np.eye(n)
    alone = np.array([cost(one) for one in unit])
    both = np.array([[cost(one + other) for other in unit] for one in unit])
    slices = np.linalg.solve(both - alone[:, None] - alone, np.ones(n))
    return slices / slices.sum()


def test_every_policy_has_the_least_cost_of_its_model():
    n, dt = 7, 0.3
    terms = {"n_steps": n, "horizon": n * dt}
    profile = np.array([3.0, 1.0, 2.0, 0.5, 1.0, 1.5, 4.0])
    temporary = {"temporary_impact": 2e-6, "permanent_impact": 3e-7}
    risky = lambda slices: expected_cost(slices, dt, **temporary) + 2e-6 * cost_variance(slices, dt, 0.8)  # noqa: E731
    for policy, cost in (
        (AlmgrenChriss(**terms, **temporary, risk_aversion=2e-6, volatility=0.8), risky),
        (
            ObizhaevaWang(**terms, resilience=1.7),
            lambda slices: expected_cost(slices, dt, transient_impact=1e-5, resilience=1.7),
        ),
        (
            VWAP(n_steps=n, profile=profile),
            lambda slices: expected_cost(slices, dt, temporary_impact=1e-6, volume_profile=profile),
        ),
    ):
        np.testing.assert_allclose(policy.slices(), best_slices(cost, n), rtol=1e-6, err_msg=type(policy).__name__)


@pytest.mark.parametrize("penalty", [0.0, 1e-5, 4e-3, None])
@pytest.mark.parametrize("running", [0.0, 3e-6, 1e-3])
def test_cartea_and_jaimungal_s_inventory_is_the_least_of_their_criterion(running, penalty):
    """Of the integral of eta v^2 + phi Q^2, and (alpha - gamma / 2) Q(T)^2, on a fine grid."""
    eta, gamma, horizon, n = 2e-6, 3e-7, 1.5, 400
    dt = horizon / n
    final = np.inf if penalty is None else penalty + gamma / 2.0
    policy = CarteaJaimungal(
        n_steps=n,
        horizon=horizon,
        running_penalty=running,
        terminal_penalty=None if penalty is None else final,
        temporary_impact=eta,
        permanent_impact=gamma,
    )
    shown = 1.0 - np.cumsum(policy.slices())[:-1]
    # Q[1..n] with Q[0] = 1; where the end is free the last one is unknown, too.
    free = n - 1 if penalty is None else n
    matrix = np.diag(np.full(free, 2.0 * eta / dt + running * dt)) - np.diag(np.full(free - 1, eta / dt), 1)
    matrix -= np.diag(np.full(free - 1, eta / dt), -1)
    if penalty is not None:
        matrix[-1, -1] = eta / dt + 0.5 * running * dt + penalty
    given = np.zeros(free)
    given[0] = eta / dt
    expected = np.linalg.solve(matrix, given)[: n - 1]
    np.testing.assert_allclose(shown, expected, atol=2e-3)


def test_without_any_penalty_cartea_and_jaimungal_leave_all_to_the_last_slice():
    slices = closed_forms.cartea_jaimungal_shares(0.0, 1e-7, 2e-6, 2e-7, 1.0, 4)
    assert slices.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_what_hardly_falls_does_not_rise():
    for running in np.geomspace(1e-22, 1e-16, 40):
        shares = closed_forms.cartea_jaimungal_shares(running, 1e-7, 2e-6, 2e-7, 1.0, 50)
        assert (shares >= 0.0).all() and (shares <= 1.0).all()


def test_in_many_slices_almgren_and_chriss_trade_as_cartea_and_jaimungal():
    terms = {"n_steps": 5000, "horizon": 5.0, "temporary_impact": 2.5e-6}
    discrete = AlmgrenChriss(**terms, risk_aversion=1e-6, volatility=SIGMA)
    continuous = CarteaJaimungal(**terms, running_penalty=1e-6 * SIGMA**2)
    np.testing.assert_allclose(discrete.slices(), continuous.slices(), rtol=1e-4)
