"""Price models: each against a twin in plain Python, bit for bit; their states, parameters and refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from naive_prices import (
    NaiveBootstrap,
    NaiveBrownian,
    NaiveGarch,
    NaiveGeometric,
    NaiveHeston,
    NaiveLogReverting,
    NaiveMerton,
    NaiveRegimes,
    NaiveReverting,
)
from price_market import PriceVecEnv
from price_paths import walk

from sekai.vector import Randomized
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
#: Regime 2 is never entered, but may be begun in.
CHAIN = np.array([[0.9, 0.1, 0.0], [0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
RETURNS = np.array([0.01, -0.02, 0.03, 0.0, -0.01])

CASES = {
    "brownian": (Brownian(drift=3.0, volatility=2.0), NaiveBrownian),
    "geometric": (Geometric(drift=0.1, volatility=0.4), NaiveGeometric),
    "ornstein-uhlenbeck": (OrnsteinUhlenbeck(mean=90.0, speed=2.0, volatility=3.0), NaiveReverting),
    "log-ornstein-uhlenbeck": (LogOrnsteinUhlenbeck(mean=90.0, speed=2.0, volatility=0.3), NaiveLogReverting),
    "merton": (MertonJumps(0.05, 0.2, jump_rate=20.0, jump_mean=-0.05, jump_sd=0.1), NaiveMerton),
    "heston": (Heston(drift=0.03), NaiveHeston),
    "heston-given-start": (Heston(variance0=0.01), NaiveHeston),
    "heston-euler": (Heston(drift=0.03, scheme="euler"), NaiveHeston),
    "garch": (Garch(mean=1e-4), NaiveGarch),
    "garch-near-1": (Garch(alpha=0.01, beta=0.9899), NaiveGarch),
    "garch-given-start": (Garch(alpha=0.06, omega=0.0, beta=0.94, variance0=1e-4), NaiveGarch),
    "regimes": (RegimeSwitching(), NaiveRegimes),
    "regimes-given-start": (
        RegimeSwitching(np.array([0.1, -0.1, 0.0]), np.array([0.1, 0.3, 1.0]), CHAIN, np.array([0.2, 0.3, 0.5])),
        NaiveRegimes,
    ),
    "bootstrap": (BlockBootstrap(RETURNS, mean_block=3.0), NaiveBootstrap),
}
QUICK = ("heston",)
#: Where either form of the variance is drawn, its mean is finite and is not, and the variance reaches 0.
HARD = Heston(drift=0.03, speed=4.0, mean=0.04, volatility=4.0, correlation=0.9, variance0=0.04)


def check_against(twin, model, dt, paths=40, steps=60, seed=10):
    prices, state = walk(model, paths, steps, dt, seed=seed)
    twins = [twin(model, dt, seed + row, 100.0) for row in range(paths)]
    np.testing.assert_array_equal(prices.T, [each.path(steps) for each in twins])
    for name in state._fields:
        assert getattr(state, name).tolist() == [getattr(each, name) for each in twins]
    return twins


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=slow) for name in CASES], ids=str)
def test_a_model_equals_its_twin(name):
    model, twin = CASES[name]
    check_against(twin, model, 1.0 / 50.0)


@slow
@pytest.mark.parametrize("dt", [0.02, 4.0])
def test_heston_equals_its_twin_where_the_variance_reaches_0(dt):
    # the same compiled code as with a start given
    assert "Feller" in HARD.check(HARD)[0]
    twins = check_against(NaiveHeston, HARD, dt)
    assert (sum(each.squares for each in twins) > 10) == (dt < 1.0)
    assert (sum(each.uncorrected for each in twins) > 10) == (dt > 1.0)
    assert 0 < sum(each.variance == 0.0 for each in twins) < 40


# -- in a market -------------------------------------------------------------------------------------------------


def steps_of(vec, steps):
    stay = np.zeros(vec.num_envs, np.int64)
    return np.array([vec.step(stay).observations[:, 0] for _ in range(steps)])


@pytest.mark.long
def test_parameters_may_differ_between_sub_envs_and_be_drawn():
    model = Heston(drift=[0.0, 0.1, 0.2], variance0=[0.01, 0.04, 0.09], volatility=Randomized(0.2, 0.3))
    vec = PriceVecEnv(3, prices=model, dt=0.02)
    told = vec.reset(seed=[5, 6, 7]).infos.columns["prices.volatility"]
    assert vec.path.variance.tolist() == [0.01, 0.04, 0.09] and len(set(told)) == 3
    moved = steps_of(vec, 5)
    for row in range(3):
        record = Heston(drift=model.drift[row], variance0=model.variance0[row], volatility=told[row])
        twin = NaiveHeston(record, 0.02, 5 + row, 100.0)
        twin.draws.counter = 1  # the parameter was drawn first
        assert moved[:, row].tolist() == twin.path(5)[1:]
        assert vec.path.variance[row] == twin.variance


@pytest.mark.long
def test_rows_depend_on_their_seed_alone():
    few, many = (PriceVecEnv(n, prices=RegimeSwitching()) for n in (2, 5))
    few.reset(seed=[8, 9])
    many.reset(seed=[1, 9, 2, 8, 3])
    np.testing.assert_array_equal(steps_of(few, 4), steps_of(many, 4)[:, [3, 1]])


# -- refusals ----------------------------------------------------------------------------------------------------

TWO = np.array([0.1, 0.2])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Brownian(volatility=-1.0), "prices.volatility: expected a finite number of at least 0, got -1.0"),
        (Geometric(volatility=-1.0), "prices.volatility: expected"),
        (OrnsteinUhlenbeck(speed=0.0), "prices.speed: expected a finite number of at least 1e-30, got 0.0"),
        (OrnsteinUhlenbeck(volatility=-1.0), "prices.volatility: expected"),
        (LogOrnsteinUhlenbeck(mean=-1.0), "prices.mean: expected a finite number of at least 1e-30, got -1.0"),
        (LogOrnsteinUhlenbeck(speed=-1.0), "prices.speed: expected"),
        (LogOrnsteinUhlenbeck(volatility=-1.0), "prices.volatility: expected"),
        (MertonJumps(volatility=-0.1), "prices.volatility: expected"),
        (MertonJumps(jump_rate=-1.0), "prices.jump_rate: expected"),
        (MertonJumps(jump_sd=-1.0), "prices.jump_sd: expected"),
        (
            MertonJumps(jump_mean=500.0, jump_sd=30.0),
            "prices.jump_mean, prices.jump_sd: expected .* at most 700, got 950",
        ),
        (Heston(speed=0.0), "prices.speed: expected"),
        (Heston(mean=0.0), "prices.mean: expected"),
        (Heston(volatility=0.0), "prices.volatility: expected"),
        (Heston(correlation=-1.1), "prices.correlation: expected a finite number of at least -1, got -1.1"),
        (Heston(variance0=-0.1), "prices.variance0: expected"),
        (Heston(scheme="milstein"), "prices.scheme: expected 'qe' or 'euler', got 'milstein'"),
        (Garch(omega=-1.0), "prices.omega: expected"),
        (Garch(alpha=-0.1), "prices.alpha: expected"),
        (Garch(beta=-0.1), "prices.beta: expected"),
        (Garch(alpha=0.1, beta=0.9), r"prices.alpha, prices.beta: expected alpha \+ beta below 1, since"),
        (
            Garch(alpha=0.2, beta=0.9, variance0=1.0),
            r"prices.alpha, prices.beta: expected alpha \+ beta of at most 1, got 1.1",
        ),
        (Garch(variance0=-1.0), "prices.variance0: expected"),
        (
            RegimeSwitching(volatility=np.ones(9)),
            r"prices.volatility: expected an array of 1 to 8 regimes, got shape \(9,",
        ),
        (RegimeSwitching(volatility=-TWO), "prices.volatility: expected numbers of at least 0 and at most"),
        (RegimeSwitching(drift=np.ones(3)), "prices.drift: expected 2 numbers, one for each regime"),
        (RegimeSwitching(transition=np.ones((2, 3))), r"prices.transition: expected a matrix of shape \(2, 2\)"),
        (RegimeSwitching(transition=np.array([[0.5, 0.5], [0.5, 0.4]])), "prices.transition, row 1: expected chances"),
        (RegimeSwitching(transition=np.array([[1.5, -0.5], [0.5, 0.5]])), "prices.transition, row 0: expected chances"),
        (
            RegimeSwitching(initial=TWO),
            r"prices.initial: expected chances of at least 0 that sum to 1, got \[0.1 0.2\]",
        ),
        (RegimeSwitching(initial=np.ones(1)), "prices.initial: expected 2 chances"),
        (
            RegimeSwitching(transition=np.eye(2)),
            "prices.initial: expected chances, .* no way from regime 0 to regime 1",
        ),
        (BlockBootstrap(np.empty(0)), "prices.log_returns: expected an array of at least one return"),
        (BlockBootstrap(np.array([0.1, np.nan])), "prices.log_returns: expected finite log returns .*, got nan at 1"),
        (BlockBootstrap(RETURNS, mean_block=0.5), "prices.mean_block: expected a finite number of at least 1, got 0.5"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, tuple) else re.sub(r"[^\w ]", "", value)[7:30].strip(),
)
def test_a_parameter_out_of_its_range_is_refused_by_name(model, message):
    with pytest.raises(ValueError, match=message):
        check_model("prices", model)


def test_what_is_no_model_and_where_prices_must_stay_above_0():
    with pytest.raises(
        TypeError, match=r"prices: expected a price model \(see sims.prices\), got 3, without \['State',"
    ):
        check_model("prices", 3)
    with pytest.raises(ValueError, match="mid: expected a model whose prices stay above 0, got Brownian"):
        check_model("mid", Brownian(), positive=True)
    check_model("mid", Geometric(), positive=True)


def test_the_sub_env_with_a_wrong_parameter_is_named():
    with pytest.raises(ValueError, match=r"^prices.volatility: expected .* got -1.0 \(sub-env 1\)$"):
        PriceVecEnv(3, prices=Geometric(volatility=[1.0, -1.0, 2.0]))


# -- what is made in Python --------------------------------------------------------------------------------------


def test_chances_of_rates():
    a, b, dt = 2.0, 0.5, 0.3  # of two regimes there is a formula
    gone = (1.0 - np.exp(-(a + b) * dt)) / (a + b)
    expected = [[1.0 - a * gone, a * gone], [b * gone, 1.0 - b * gone]]
    np.testing.assert_allclose(transition_of_rates([[9.0, a], [b, 0.0]], dt), expected, rtol=0, atol=1e-15)
    rates = np.array([[0.0, 3.0, 0.1], [0.0, 0.0, 2.0], [50.0, 0.0, 0.0]])
    twice = transition_of_rates(rates, 0.7) @ transition_of_rates(rates, 0.7)
    np.testing.assert_allclose(transition_of_rates(rates, 1.4), twice, rtol=0, atol=1e-13)
    assert transition_of_rates(rates, 0.0).tolist() == np.eye(3).tolist()
    for most in (1e10, 1e100, 1e300):  # as long a step as to be stationary, and to lose no digit
        found = transition_of_rates([[0.0, most], [3.0 * most, 0.0]], 1.0)
        np.testing.assert_allclose(found, [[0.75, 0.25], [0.75, 0.25]], rtol=1e-12)
    for rates, dt, message in (
        (np.ones((2, 3)), 1.0, "rates: expected a square matrix"),
        ([[0.0, -1.0], [1.0, 0.0]], 1.0, "rates: expected finite numbers of at least 0"),
        (
            [[0.0, 1e308, 1e308], [1.0] * 3, [1.0] * 3],
            1.0,
            "rates: expected a finite number of switches in a step of 1",
        ),
        ([[0.0, 1.0], [1.0, 0.0]], -1.0, "dt: expected a finite time of at least 0, got -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            transition_of_rates(rates, dt)


def test_the_bootstrap_of_a_history_has_its_log_returns():
    history = load_history("nasdaq")
    model = BlockBootstrap.from_history(history, mean_block=10.0)
    check_model("prices", model)
    assert model.mean_block == 10.0 and len(model.log_returns) == len(history) - 1
    np.testing.assert_allclose(np.exp(model.log_returns), history.close[1:] / history.close[:-1], rtol=1e-12)
