"""Price models against what is known of their laws: formulas to 1e-9, samples within 4 standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive_prices import Draws
from price_paths import derive, walk

from sims.data import load_history
from sims.prices import (
    BlockBootstrap,
    Brownian,
    Garch,
    Geometric,
    Heston,
    LogOrnsteinUhlenbeck,
    MertonJumps,
    OrnsteinUhlenbeck,
    RegimeSwitching,
    check_model,
    transition_of_rates,
)

slow = pytest.mark.slow
pytestmark = pytest.mark.compiled
GROUPS = 100


def agrees(statistic, sample, expected, within=4.0):
    """Whether a statistic of a sample is what it should be, by its spread over groups of the sample."""
    by_group = np.array([statistic(group) for group in sample[: len(sample) // GROUPS * GROUPS].reshape(GROUPS, -1)])
    error = by_group.std(ddof=1) / math.sqrt(GROUPS)
    found = by_group.mean()
    print(f"{statistic.__name__}: {found:.7g}, {expected:.7g} expected, {(found - expected) / error:+.2f} errors")
    return abs(found - expected) < within * error


def skewness(x):
    return ((x - x.mean()) ** 3).mean() / x.std() ** 3


def kurtosis(x):
    return ((x - x.mean()) ** 4).mean() / x.var() ** 2


def variance(x):
    return x.var(ddof=1)


# -- formulas ----------------------------------------------------------------------------------------------------


def test_the_transition_of_a_price_that_reverts():
    rates = derive(OrnsteinUhlenbeck(mean=100.0, speed=5.0, volatility=0.2), 1.0 / 252.0)
    assert rates.keep == pytest.approx(0.98035427, abs=5e-9)
    assert rates.scale == pytest.approx(0.01247485, abs=5e-9)
    assert rates.scale / math.sqrt(1.0 - rates.keep**2) == pytest.approx(0.2 / math.sqrt(10.0), rel=1e-9)
    assert 0.2 / math.sqrt(10.0) == pytest.approx(0.06324555, abs=5e-9)
    assert rates.shift == pytest.approx(100.0 * (1.0 - math.exp(-5.0 / 252.0)), rel=1e-9)


@slow
def test_the_transitions_of_diffusions():
    step = derive(Brownian(drift=3.0, volatility=2.0), 0.25)
    assert (step.shift, step.scale) == pytest.approx((0.75, 1.0), rel=1e-9)
    step = derive(Geometric(drift=0.05, volatility=0.2), 0.25)
    assert (step.shift, step.scale) == pytest.approx((0.0125 - 0.005, 0.1), rel=1e-9)
    step = derive(LogOrnsteinUhlenbeck(speed=5.0, volatility=0.2), 1.0 / 252.0)
    assert (step.keep, step.scale) == pytest.approx((0.9803542727, 0.0124748547), rel=1e-8)
    step = derive(MertonJumps(0.05, 0.2, jump_rate=1.0, jump_mean=-0.05, jump_sd=0.1), 1.0)
    assert step.shift - 0.05 == pytest.approx(0.0240025, abs=5e-8)  # with the jumps' mean of -.05 the mean of log S
    assert step.shift == pytest.approx(0.03 - math.expm1(-0.045), rel=1e-9) and step.jumps == 1.0


# -- samples -----------------------------------------------------------------------------------------------------


@slow
def test_geometric_prices():
    ends = walk(Geometric(drift=0.05, volatility=0.2), 400_000, 1, 1.0)[0][-1]
    assert agrees(np.mean, ends, 100.0 * math.exp(0.05))
    assert agrees(np.std, ends, 100.0 * math.exp(0.05) * math.sqrt(math.expm1(0.04)))
    assert agrees(np.median, ends, 100.0 * math.exp(0.03))
    assert 100.0 * math.exp(0.05) == pytest.approx(105.12711, abs=5e-6)
    assert 100.0 * math.exp(0.03) == pytest.approx(103.04545, abs=5e-6)
    assert 105.12711 * math.sqrt(math.expm1(0.04)) == pytest.approx(21.23744, abs=5e-6)


@slow
def test_a_path_of_many_steps_has_the_law_of_one():
    ends = walk(Geometric(drift=0.05, volatility=0.2), 100_000, 50, 1.0 / 50.0, seed=1)[0][-1]
    assert agrees(np.mean, ends, 105.12711) and agrees(np.std, ends, 21.23744)
    ends = walk(Brownian(drift=3.0, volatility=2.0), 100_000, 50, 1.0 / 50.0, seed=2)[0][-1]
    assert agrees(np.mean, ends, 103.0) and agrees(np.std, ends, 2.0)


@slow
def test_jumps_have_the_cumulants_of_merton():
    model = MertonJumps(drift=0.05, volatility=0.2, jump_rate=1.0, jump_mean=-0.05, jump_sd=0.1)
    for steps in (1, 10):
        ends = walk(model, 300_000, steps, 1.0 / steps, seed=3)[0][-1]
        logs = np.log(ends / 100.0)
        assert agrees(np.mean, logs, 0.0240025)
        assert agrees(variance, logs, 0.0525)
        assert agrees(skewness, logs, -0.135087)
        assert agrees(kurtosis, logs, 3.165533)
        assert agrees(np.mean, ends, 105.12711)


@slow
def test_many_jumps_in_a_step():
    model = MertonJumps(drift=0.0, volatility=0.0, jump_rate=300.0, jump_mean=0.01, jump_sd=0.02)
    logs = np.log(walk(model, 200_000, 1, 1.0, seed=4)[0][-1] / 100.0)
    assert agrees(np.mean, logs, 3.0 - 300.0 * math.expm1(0.0102))
    assert agrees(variance, logs, 300.0 * (0.01**2 + 0.02**2))


@slow
def test_prices_that_revert_become_stationary():
    ends = walk(OrnsteinUhlenbeck(mean=90.0, speed=5.0, volatility=0.2), 50_000, 30, 0.1, seed=5)[0][-1]
    assert agrees(np.mean, ends, 90.0) and agrees(np.std, ends, 0.06324555)
    paths = walk(LogOrnsteinUhlenbeck(mean=90.0, speed=5.0, volatility=0.2), 50_000, 30, 0.1, seed=6)[0]
    logs = np.log(paths / 90.0)
    assert agrees(np.mean, logs[-1], 0.0) and agrees(np.std, logs[-1], 0.06324555)
    assert agrees(np.mean, logs[1], math.exp(-0.5) * math.log(100.0 / 90.0))


@slow
def test_garch_is_stationary_from_the_start():
    paths, state = walk(Garch(omega=1e-6, alpha=0.05, beta=0.9), 400_000, 2, 1.0, seed=7)
    first, second = np.diff(np.log(paths), axis=0)
    for returns in (first, second):
        assert agrees(variance, returns, 2e-5)
        assert agrees(kurtosis, returns, 3.0 * (1.0 - 0.95**2) / (1.0 - 0.95**2 - 2.0 * 0.05**2))
    assert 3.0 * (1.0 - 0.95**2) / (1.0 - 0.95**2 - 2.0 * 0.05**2) == pytest.approx(3.162162, abs=5e-7)
    assert agrees(np.mean, state.variance, 2e-5)
    # Squared returns are correlated: of lag 1 a (1 - p b) / (1 - p^2 + a^2) with p = a + b (Bollerslev 1986).
    both = np.stack([first, second], axis=1)
    expected = 0.05 * (1.0 - 0.95 * 0.9) / (1.0 - 0.95**2 + 0.05**2)

    def correlation(group):
        return np.corrcoef(group.reshape(-1, 2).T ** 2)[0, 1]

    assert agrees(correlation, both.ravel(), expected)


@slow
@pytest.mark.parametrize(("alpha", "beta"), [(0.01, 0.9899), (0.05, 0.949)], ids=["finite variance", "infinite"])
def test_garch_near_1_is_stationary_from_the_start(alpha, beta):
    model = Garch(omega=1.0, alpha=alpha, beta=beta)
    first, later = (np.log(walk(model, 20_000, steps, 1.0, seed=16 + steps)[1].variance) for steps in (0, 500))
    for statistic in (np.mean, np.std, np.median):
        ends = [statistic(each.reshape(GROUPS, -1), axis=1) for each in (first, later)]
        error = math.sqrt(sum(each.var(ddof=1) for each in ends) / GROUPS)
        assert abs(ends[0].mean() - ends[1].mean()) < 4.0 * error


@slow
def test_regimes_are_stationary_from_the_start_and_drawn_before_the_return():
    paths, state = walk(RegimeSwitching(), 400_000, 1, 1.0 / 252.0, seed=8)
    assert agrees(np.mean, state.regime.astype(float), 0.25)
    returns = np.log(paths[1] / paths[0])
    for regime, sigma in ((0, 0.1), (1, 0.3)):
        assert agrees(np.std, returns[state.regime == regime], sigma / math.sqrt(252.0))
    chain = np.array([[0.0, 1.0], [1.0, 0.0]])
    model = RegimeSwitching(volatility=np.array([0.0, 1.0]), transition=chain, initial=np.array([1.0, 0.0]))
    paths, state = walk(model._replace(drift=np.zeros(2)), 10, 2, 1.0)
    assert (paths[1] != paths[0]).all() and (paths[2] == paths[1]).all() and not state.regime.any()


@slow
def test_a_chain_of_rates_spends_its_time_as_it_should():
    rates = [[0.0, 2.0, 1.0], [4.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    weights = np.array([9.0, 5.0, 7.0]) / 21.0
    assert weights @ (np.array(rates) - np.diag(np.sum(rates, axis=1))) == pytest.approx(np.zeros(3), abs=1e-12)
    model = RegimeSwitching(np.zeros(3), np.array([0.1, 0.2, 0.3]), transition_of_rates(rates, 0.1))
    regime = walk(model, 200_000, 1, 0.1, seed=9)[1].regime
    for each in range(3):
        assert agrees(np.mean, (regime == each).astype(float), weights[each])


@slow
def test_blocks_of_a_history():
    returns = np.arange(50) / 1000.0
    paths = walk(BlockBootstrap(returns, mean_block=5.0), 40_000, 10, 1.0, seed=10)[0]
    drawn = np.rint(1000.0 * np.diff(np.log(paths), axis=0)).astype(int)
    for step in (0, 9):
        counts = np.bincount(drawn[step], minlength=50)
        assert ((counts - 800.0) ** 2 / 800.0).sum() < 49.0 + 4.0 * math.sqrt(98.0)
    # A block goes on with chance 4/5, around the end; one that begins follows by chance in 1 of 50.
    follows = ((drawn[1:] - drawn[:-1]) % 50 == 1).mean(axis=0)
    assert agrees(np.mean, follows, 0.8 + 0.2 / 50.0)
    assert ((drawn[:-1] == 49) & (drawn[1:] == 0)).any()
    history = BlockBootstrap.from_history(load_history("nasdaq"))
    logs = np.log(walk(history, 100_000, 1, 1.0, seed=11)[0][-1] / 100.0)
    assert agrees(np.mean, logs, history.log_returns.mean())
    assert agrees(variance, logs, history.log_returns.var())


# -- Heston ------------------------------------------------------------------------------------------------------

FIGURE = Heston(drift=0.0, speed=2.0, mean=0.04, volatility=0.3, correlation=-0.7, variance0=0.04)


def call_price(model, strike, time, price=100.0):
    """A call without interest, by the formula of Heston (1993) with the characteristic function of Albrecher et al.

    (2007), "The little Heston trap": ``S - sqrt(S K) / pi * integral of Re(exp(i u k) f(u - i/2)) / (u^2 + 1/4)``,
    the form of Lewis (2001), by the trapezoidal rule, which converges geometrically here.
    """
    u = np.arange(0.0, 400.0, 0.01)
    kappa, theta, xi, rho = model.speed, model.mean, model.volatility, model.correlation
    w = 1j * (u - 0.5j)
    beta = kappa - rho * xi * w
    d = np.sqrt(beta**2 + xi**2 * (w - w**2))
    g = (beta - d) / (beta + d)
    decay = np.exp(-d * time)
    mean = kappa * theta / xi**2 * ((beta - d) * time - 2.0 * np.log((1.0 - g * decay) / (1.0 - g)))
    slope = (beta - d) / xi**2 * (1.0 - decay) / (1.0 - g * decay)
    values = (np.exp(1j * u * math.log(price / strike) + mean + slope * model.variance0)).real / (u**2 + 0.25)
    integral = (values.sum() - 0.5 * (values[0] + values[-1])) * 0.01
    return price - math.sqrt(price * strike) / math.pi * integral


def test_the_formula_for_a_call_gives_the_figure():
    assert call_price(FIGURE, 100.0, 1.0) == pytest.approx(7.61575, abs=5e-6)


@slow
@pytest.mark.parametrize(
    ("scheme", "paths", "steps", "bias"),
    [("qe", 200_000, 50, 0.005), ("euler", 50_000, 252, 0.015)],
    ids=["qe-1/50", "euler-1/252"],
)
def test_heston_prices_calls(scheme, paths, steps, bias):
    ends = walk(FIGURE._replace(scheme=scheme), paths, steps, 1.0 / steps, seed=12)[0][-1]
    assert agrees(np.mean, ends, 100.0)
    for strike in (80.0, 100.0, 120.0):
        paid, expected = np.maximum(ends - strike, 0.0), call_price(FIGURE, strike, 1.0)
        error = paid.std() / math.sqrt(len(paid))
        print(f"{scheme}, strike {strike}: {paid.mean():.5f} +- {error:.5f}, {expected:.5f} expected")
        assert abs(paid.mean() - expected) < 4.0 * error + (bias * expected if scheme == "euler" else 0.0)
        if strike == 100.0:
            assert abs(paid.mean() - expected) < bias * expected


@slow
@pytest.mark.parametrize("correlation", [-0.9, 0.9])
def test_qe_keeps_the_means_where_the_variance_reaches_0(correlation):
    model = Heston(0.0, 0.5, 0.04, 1.0, correlation, 0.04)
    ends, state = walk(model, 400_000, 10, 0.1, seed=13)
    assert agrees(np.mean, ends[-1], 100.0)
    assert agrees(np.mean, state.variance, 0.04)
    assert agrees(variance, state.variance, 0.04 * (1.0 - math.exp(-0.5)) * (1.0 + math.exp(-0.5)) / 1.0)


@slow
def test_qe_in_long_steps_has_the_bias_that_is_told():
    model = Heston(speed=40.0, volatility=0.1, correlation=-0.9)
    logs = np.log(walk(model, 200_000, 1, 0.1, seed=17)[0][-1] / 100.0)
    bias = 0.81 * (9.0 * (1.0 - math.exp(-8.0)) / 8.0 - 1.0)
    assert bias == pytest.approx(0.101, abs=5e-4)
    assert agrees(variance, logs, 0.004 * (1.0 + bias))


@slow
def test_heston_keeps_its_digits_down_to_the_least_volatility():
    model, dt = Heston(volatility=2e-6, variance0=0.04), 1e-6  # 1e-8 sqrt(0.04 / dt)
    check_model("prices", model, dt=dt)
    logs = np.log(walk(model, 100, 1, dt)[0][-1] / 100.0)
    z_variance, z = np.array([Draws(seed).normals() for seed in range(100)]).T
    expected = -0.7 * z_variance + math.sqrt(1.0 - 0.49) * z  # of a variance that stays the same
    assert np.abs((logs + 0.5 * 0.04 * dt) / math.sqrt(0.04 * dt) - expected).max() < 1e-7


def test_a_variance_that_hardly_varies_begins_at_its_mean():
    walk(Heston(volatility=1e-170), 1, 0, 0.1)  # of an infinite shape, and refused by its check: it only has to end
    for volatility, shape in ((1e-6, 1.6e11), (1e-30, 1.6e59)):
        state = walk(Heston(volatility=volatility), 1000, 0, 0.1, seed=19)[1]
        assert np.abs(state.variance / 0.04 - 1.0).max() < 5.0 / math.sqrt(shape) + 1e-15
        assert state.variance.std() == pytest.approx(0.04 / math.sqrt(shape), rel=0.1, abs=1e-17)


@slow
@pytest.mark.parametrize(("volatility", "correlation"), [(0.3, -0.7), (0.6, -0.7)], ids=["gamma of 1.8", "of 0.4"])
def test_the_variance_begins_in_its_stationary_distribution(volatility, correlation):
    model = Heston(volatility=volatility, correlation=correlation, variance0=None)
    for steps in (0, 20):
        state = walk(model, 200_000, steps, 0.05, seed=14)[1]
        assert agrees(np.mean, state.variance, 0.04)
        assert agrees(variance, state.variance, 0.04 * volatility**2 / 4.0)
    assert agrees(skewness, walk(model, 200_000, 0, 1.0, seed=15)[1].variance, volatility / math.sqrt(0.04))
