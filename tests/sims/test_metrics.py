"""Performance measures: by hand, against empyrical on the S&P 500, and standard errors against simulation."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import empyrical
import numpy as np
import pytest
from pictures import make_rollout

import sekai
import sims.data
from sekai.estimates import estimate_mean
from sims import metrics
from sims.trading import TradingVecEnv

#: One path each: up, down below the start, up again; and the returns of its steps.
PATH = [100.0, 110.0, 99.0, 99.0, 132.0]
RETURNS = [0.1, -0.1, 0.0, 1 / 3]

#: Every measure of wealth alone, as a function of it.
MEASURES = {
    "total_return": metrics.total_return,
    "annualised_return": lambda wealth, **kwargs: metrics.annualised_return(wealth, 4, **kwargs),
    "annualised_volatility": lambda wealth, **kwargs: metrics.annualised_volatility(wealth, 4, **kwargs),
    "sharpe_ratio": lambda wealth, **kwargs: np.array(metrics.sharpe_ratio(wealth, 4, lags=1, **kwargs)),
    "sortino_ratio": lambda wealth, **kwargs: np.array(metrics.sortino_ratio(wealth, 4, lags=1, **kwargs)),
    "max_drawdown": metrics.max_drawdown,
    "max_drawdown_length": metrics.max_drawdown_length,
    "hit_rate": metrics.hit_rate,
    "drawdown": metrics.drawdown,
    "drawdown_length": metrics.drawdown_length,
    "returns": metrics.returns,
}
#: Those that do not ask whether returns are relative.
OF_ORDER = ("max_drawdown_length", "hit_rate", "drawdown_length")
everyone = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
relative_ones = pytest.mark.parametrize("name", [name for name in MEASURES if name not in OF_ORDER])


# -- by hand -----------------------------------------------------------------------------------------------


def test_returns_and_growth():
    assert metrics.returns(PATH) == pytest.approx(RETURNS)
    assert metrics.total_return(PATH) == pytest.approx(0.32)
    assert metrics.annualised_return(PATH, 4) == pytest.approx(0.32)  # four quarters
    assert metrics.annualised_return(PATH, 8) == pytest.approx(1.32**2 - 1)
    assert metrics.annualised_return(PATH, 2) == pytest.approx(math.sqrt(1.32) - 1)
    assert metrics.annualised_volatility([100, 110, 99], 9) == pytest.approx(3 * 0.1 * math.sqrt(2))


def test_growth_in_currency():
    path = [0, 5, -3, 4]
    assert metrics.returns(path, relative=False).tolist() == [5, -8, 7]
    assert metrics.total_return(path, relative=False) == 4
    assert metrics.annualised_return(path, 6, relative=False) == 8  # in half a year
    assert metrics.annualised_volatility([0, 1, 0], 4, relative=False) == pytest.approx(2 * math.sqrt(2))


def test_sharpe_ratio():
    # Returns 0.1, -0.1, 0, 1/3: mean 1/12; with squares adding up to 0.02 + 1/9.
    variance = (0.02 + 1 / 9 - 4 / 144) / 3
    ratio, error = metrics.sharpe_ratio(PATH, 9)
    assert ratio == pytest.approx(3 / 12 / math.sqrt(variance))
    assert error > 0
    shifted = metrics.sharpe_ratio(PATH, 9, risk_free=1 / 12)
    assert shifted.value == pytest.approx(0, abs=1e-12)
    assert shifted.standard_error == pytest.approx(3 / 2)  # sqrt(9 / n), whatever the shape, where the ratio is 0


def test_sharpe_ratio_in_currency():
    # Changes 3, 1: mean 2, standard deviation sqrt(2); each lies one sd of the population from the mean.
    ratio, error = metrics.sharpe_ratio([0, 3, 4], 1, relative=False)
    assert ratio == pytest.approx(math.sqrt(2))
    assert error == pytest.approx(math.sqrt(1 / 2))


def test_the_standard_error_is_that_of_lo_with_the_moments_of_the_returns():
    returns = np.random.default_rng(3).gamma(2.0, size=400) - 1.5
    z = (returns - returns.mean()) / returns.std()
    ratio = returns.mean() / returns.std(ddof=1)
    skewness, kurtosis = np.mean(z**3), np.mean(z**4)
    mertens = 1 + ratio**2 / 2 - skewness * ratio + (kurtosis - 3) / 4 * ratio**2
    got = metrics.sharpe_ratio(np.append(0.0, returns.cumsum()), 12, relative=False)
    assert got.value == pytest.approx(ratio * math.sqrt(12))
    assert got.standard_error == pytest.approx(math.sqrt(12 * mertens / 400), rel=1e-12)


def test_sortino_ratio():
    # Only -0.1 falls short of 0, and by 0.1; all but 1/3 fall short of 0.1, by 0, 0.2 and 0.1.
    ratio, error = metrics.sortino_ratio(PATH, 9)
    assert ratio == pytest.approx(3 / 12 / math.sqrt(0.01 / 4))
    assert error > 0
    ratio = metrics.sortino_ratio(PATH, 9, target=0.1).value
    assert ratio == pytest.approx(3 * (1 / 12 - 0.1) / math.sqrt(0.05 / 4))


def test_the_standard_error_of_the_sortino_ratio_by_the_delta_method():
    returns = np.random.default_rng(4).standard_normal(300) + 0.3
    shortfall = np.minimum(returns - 0.1, 0)
    mean, square = returns.mean() - 0.1, np.mean(shortfall**2)
    gradient = np.array([1 / math.sqrt(square), -mean / (2 * square**1.5)])
    covariance = np.cov(returns, shortfall**2, ddof=0)
    got = metrics.sortino_ratio(np.append(0.0, returns.cumsum()), 1, target=0.1, relative=False)
    assert got.standard_error == pytest.approx(math.sqrt(gradient @ covariance @ gradient / 300), rel=1e-12)


def test_drawdown():
    assert metrics.drawdown(PATH) == pytest.approx([0, 0, 0.1, 0.1, 0])
    assert metrics.drawdown(PATH, relative=False) == pytest.approx([0, 0, 11, 11, 0])
    assert metrics.max_drawdown(PATH) == pytest.approx(0.1)
    assert metrics.max_drawdown([0, -2, 3, -4, 5], relative=False) == 7


@pytest.mark.parametrize(
    ("path", "lengths"),
    [
        (PATH, [0, 0, 1, 2, 3]),  # from the peak at 1 until wealth is above it again, at 4
        ([1, 2, 3], [0, 0, 0]),
        ([3, 2, 1], [0, 1, 2]),  # never made good
        ([3, 2, 3, 3], [0, 1, 2, 0]),
        ([3, 2, 3, 2, 3], [0, 1, 2, 1, 2]),
        ([3, 3, 2, 4, 3, 3], [0, 0, 1, 2, 1, 2]),
        ([-1, -2, -1], [0, 1, 2]),
        ([7], [0]),
    ],
)
def test_drawdown_length(path, lengths):
    assert metrics.drawdown_length(path).tolist() == lengths
    assert metrics.max_drawdown_length(path) == max(lengths)


def test_hit_rate():
    assert metrics.hit_rate(PATH) == pytest.approx(2 / 3)  # the step without a change does not count
    assert metrics.hit_rate([0, -1, -2]) == 0
    assert metrics.hit_rate([0, 1, 2]) == 1
    assert math.isnan(metrics.hit_rate([1, 1, 1]))


def test_turnover():
    # Half of 100 is bought, then 30 of 120 sold, then nothing: a quarter of the wealth per step.
    assert metrics.turnover([50, -30, 0], 12, wealth=[100, 120, 120, 90]) == pytest.approx(12 * 0.25)
    assert metrics.turnover([0.5, 0.25, 0], 12) == pytest.approx(12 * 0.25)


def test_turnover_of_what_the_trading_market_tells():
    import sekai
    from sims.trading import BuyAndHold

    with sekai.make_vec("Trading-v0", 3, episode_length=20, transaction_cost=0.0) as vec:
        record = sekai.rollout(vec, BuyAndHold.for_env(vec), 20, seed=0, infos=("turnover",), progress=False)
    assert metrics.turnover(record.infos["turnover"], 252) == pytest.approx([252 / 20] * 3)  # bought once


# -- against empyrical -------------------------------------------------------------------------------------


def sp500():
    return sims.data.load("sp500")["close"]


def quarters():
    """Ten paths of 500 days of the S&P 500, side by side, (501, 10)."""
    return sp500()[:5001].reshape(-1)[np.arange(501)[:, None] + 500 * np.arange(10)]


@pytest.mark.parametrize("wealth", [sp500(), quarters()], ids=["one path", "ten paths"])
def test_measures_agree_with_empyrical_on_the_sp500(wealth):
    daily = wealth[1:] / wealth[:-1] - 1
    columns = daily.T if daily.ndim > 1 else [daily]

    def expected(function, **kwargs):
        values = [function(column, **kwargs) for column in columns]
        return np.array(values) if daily.ndim > 1 else values[0]

    def agree(got, function, **kwargs):
        np.testing.assert_allclose(got, expected(function, **kwargs), rtol=1e-9)

    np.testing.assert_allclose(metrics.returns(wealth), daily, rtol=0, atol=1e-15)
    agree(metrics.total_return(wealth), empyrical.cum_returns_final)
    agree(metrics.annualised_return(wealth, 252), empyrical.annual_return, annualization=252)
    agree(metrics.annualised_volatility(wealth, 252), empyrical.annual_volatility, annualization=252)
    agree(metrics.sharpe_ratio(wealth, 252).value, empyrical.sharpe_ratio, annualization=252)
    agree(
        metrics.sharpe_ratio(wealth, 252, risk_free=1e-4).value,
        empyrical.sharpe_ratio,
        risk_free=1e-4,
        annualization=252,
    )
    agree(metrics.sortino_ratio(wealth, 252).value, empyrical.sortino_ratio, annualization=252)
    agree(
        metrics.sortino_ratio(wealth, 252, target=2e-4).value,
        empyrical.sortino_ratio,
        required_return=2e-4,
        annualization=252,
    )
    agree(-metrics.max_drawdown(wealth), empyrical.max_drawdown)
    assert metrics.drawdown(wealth).shape == wealth.shape


def test_the_sp500_from_1999_to_2018():
    close, dates = sp500(), sims.data.load("sp500")["date"]
    assert metrics.total_return(close) == pytest.approx(1.04124, abs=5e-6)  # as sims/data/README.md has it
    # From the peak of 9 October 2007 to the trough of 9 March 2009; above the peak again on 28 March 2013.
    drawdown, length = metrics.drawdown(close), metrics.drawdown_length(close)
    assert dates[drawdown.argmax()] == np.datetime64("2009-03-09")
    end = np.flatnonzero(dates == np.datetime64("2013-03-28"))[0]
    assert dates[end - int(length[end])] == np.datetime64("2007-10-09")
    # The longest began in March 2000 and ended in May 2007.
    longest = length.argmax()
    assert dates[longest] == np.datetime64("2007-05-30")
    assert dates[longest - int(metrics.max_drawdown_length(close))] == np.datetime64("2000-03-24")


# -- standard errors against simulation --------------------------------------------------------------------

STEPS, PATHS = 1000, 3000


def normal(rng):
    return rng.standard_normal((STEPS, PATHS)) + 0.1


def sharp(rng):
    """Normal returns with so high a ratio that the spread of the standard deviation matters."""
    return rng.standard_normal((STEPS, PATHS)) + 1.5


def fat_tailed(rng):
    return rng.standard_t(9, (STEPS, PATHS)) + 0.5


def skewed(rng):
    """Many small gains, few large losses."""
    return 1.4 - rng.gamma(1.0, size=(STEPS, PATHS))


def persistent(rng):
    """Returns that remember those before them: AR(1) with a coefficient of 0.3."""
    noise = rng.standard_normal((STEPS + 30, PATHS))
    for t in range(1, len(noise)):
        noise[t] += 0.3 * noise[t - 1]
    return noise[30:] + 0.2


LAWS = [(normal, 0), (fat_tailed, 0), (skewed, 0), (persistent, 15)]


@pytest.mark.parametrize(
    ("ratio", "law", "lags"),
    [(metrics.sharpe_ratio, sharp, 0)]
    + [(ratio, *law) for ratio in (metrics.sharpe_ratio, metrics.sortino_ratio) for law in LAWS],
)
def test_standard_errors_are_the_spread_of_the_estimates(ratio, law, lags):
    returns = law(np.random.default_rng(11))
    wealth = np.concatenate([np.zeros((1, PATHS)), returns.cumsum(axis=0)])
    values, errors = ratio(wealth, 252, lags=lags, relative=False)
    # The spread of 3000 estimates is known to 1 in 77, four times which is 5.2%.
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(ddof=1), rel=0.052)


def test_without_lags_the_error_of_persistent_returns_is_too_small():
    returns = persistent(np.random.default_rng(11))
    wealth = np.concatenate([np.zeros((1, PATHS)), returns.cumsum(axis=0)])
    values, errors = metrics.sharpe_ratio(wealth, 252, relative=False)
    assert np.sqrt(np.mean(errors**2)) < 0.8 * values.std(ddof=1)


def test_the_error_of_normal_returns_is_the_closed_form_of_lo():
    returns = np.random.default_rng(5).standard_normal(200_000) + 0.8
    got = metrics.sharpe_ratio(np.append(0.0, returns.cumsum()), 1, relative=False)
    assert got.standard_error == pytest.approx(math.sqrt((1 + got.value**2 / 2) / 200_000), rel=0.01)


# -- one path or many --------------------------------------------------------------------------------------


@everyone
def test_paths_do_not_notice_each_other(measure):
    rng = np.random.default_rng(0)
    wealth = np.exp(rng.standard_normal((30, 6)).cumsum(axis=0) * 0.1)
    wealth[7, 1], wealth[-1, 2], wealth[9, 3], wealth[3, 4] = np.nan, 0.0, -1.0, np.inf
    together = measure(wealth)
    for path in range(6):
        np.testing.assert_allclose(together[..., path], measure(wealth[:, path]), rtol=1e-12)
    assert measure(wealth[:, :0]).shape[-1] == 0


@everyone
def test_one_path_gives_float64(measure):
    assert measure(PATH).dtype == np.float64
    assert measure(np.array(PATH, dtype=np.float32)).dtype == np.float64
    assert isinstance(metrics.total_return(PATH), float)


@everyone
def test_wealth_is_left_as_it_is(measure):
    wealth = np.array([[1.0, 1.0, 1.0], [2.0, np.nan, -1.0], [1.0, 1.0, 1.0], [3.0, 1.0, 1.0]])
    wealth.flags.writeable = False
    measure(wealth)


@everyone
def test_a_measure_does_not_depend_on_the_currency(measure):
    np.testing.assert_allclose(measure(np.array(PATH) * 7), measure(PATH), rtol=1e-12, atol=1e-15)


# -- the rules ---------------------------------------------------------------------------------------------


@everyone
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 2, 4])
def test_a_path_that_is_not_finite_has_no_measures(measure, bad, where):
    path = np.array(PATH)
    path[where] = bad
    assert np.isnan(measure(path)).all()


@everyone
@pytest.mark.parametrize("dtype", [float, int])
def test_a_masked_number_is_none(measure, dtype):
    hidden = np.zeros((5, 2), dtype=bool)
    hidden[1, 0] = True
    wealth = np.array([[100, 100], [1, 110], [99, 99], [99, 99], [132, 132]], dtype=dtype)
    result = np.asarray(measure(np.ma.array(wealth, mask=hidden)))
    assert np.isnan(result[..., 0]).all()
    np.testing.assert_array_equal(result[..., 1], np.asarray(measure(wealth[:, 1])))
    np.testing.assert_array_equal(measure(np.ma.array(wealth)), measure(wealth))


def test_a_masked_trade_is_none():
    assert math.isnan(metrics.turnover(np.ma.array([1.0, 1.0], mask=[True, False]), 252))


@pytest.mark.parametrize("path", [[100, 50, 0, 0, 0], [100, 50, -10, 20, 300], [100, 50, 60, 70, 0]])
def test_ruin(path):
    assert metrics.total_return(path) == -1
    assert metrics.annualised_return(path, 252) == -1
    assert metrics.max_drawdown(path) == 1
    first = int(np.argmax(np.array(path) <= 0))
    assert (metrics.drawdown(path)[first:] == 1).all() and (metrics.drawdown(path)[:first] < 1).all()
    assert np.isnan(metrics.returns(path)).all()
    assert math.isnan(metrics.annualised_volatility(path, 252))
    for estimate in (metrics.sharpe_ratio(path, 252), metrics.sortino_ratio(path, 252)):
        assert np.isnan(estimate).all()
    assert math.isnan(metrics.turnover([1, 1, 1, 1], 252, wealth=path))


def test_profits_and_losses_know_no_ruin():
    path = [100, 50, -10, 20, 300]
    assert metrics.total_return(path, relative=False) == 200
    assert metrics.max_drawdown(path, relative=False) == 110
    assert np.isfinite(metrics.sharpe_ratio(path, 252, relative=False)).all()
    assert metrics.hit_rate(path) == 0.5
    assert metrics.max_drawdown_length(path) == 4


@relative_ones
@pytest.mark.parametrize("start", [0.0, -1.0])
def test_relative_measures_want_wealth_to_start_above_0(name, start):
    wealth = np.ones((3, 4))
    wealth[0, 2] = start
    with pytest.raises(ValueError, match=rf"^{name}\(wealth\): expected wealth above 0 .* got {start} \(path 2\); for"):
        MEASURES[name](wealth)
    with pytest.raises(ValueError, match=rf"got {start}; for profits and losses give relative=False"):
        MEASURES[name](wealth[:, 2])
    MEASURES[name](wealth, relative=False)


def test_one_point_in_time():
    assert metrics.total_return([5.0]) == metrics.max_drawdown([5.0]) == metrics.max_drawdown_length([5.0]) == 0
    assert metrics.returns([5.0]).shape == (0,)
    assert metrics.returns(np.ones((1, 3))).shape == (0, 3)
    assert math.isnan(metrics.annualised_return([5.0], 252))
    assert math.isnan(metrics.annualised_volatility([5.0], 252))
    assert math.isnan(metrics.hit_rate([5.0]))
    assert math.isnan(metrics.turnover([], 252)) and math.isnan(metrics.turnover(np.empty(0), 252, wealth=[5.0]))
    for ratio in (metrics.sharpe_ratio, metrics.sortino_ratio):
        assert np.isnan(ratio([5.0], 252)).all()
        assert ratio(np.ones((1, 3)), 252).value.shape == (3,)


def test_one_step_has_a_return_but_no_spread():
    path = [5.0, 4.0]
    assert metrics.total_return(path) == pytest.approx(-0.2)
    assert metrics.annualised_return(path, 2) == pytest.approx(0.8**2 - 1)
    assert math.isnan(metrics.annualised_volatility(path, 252))
    assert np.isnan(metrics.sharpe_ratio(path, 252)).all()
    assert np.isnan(metrics.sortino_ratio(path, 252)).all()


@pytest.mark.parametrize("rate", [0.0, 0.01, 1e-7, 0.3])
def test_steady_growth_has_no_spread_and_no_ratio(rate):
    path = np.cumprod(np.full(100, 1 + rate))
    assert metrics.annualised_volatility(path, 252) == 0
    assert np.isnan(metrics.sharpe_ratio(path, 252)).all()
    assert np.isnan(metrics.sharpe_ratio(path, 252, risk_free=rate)).all()
    assert np.isnan(metrics.sortino_ratio(path, 252)).all()
    assert np.isnan(metrics.sortino_ratio(path, 252, target=rate)).all()  # short of it by rounding alone
    steps = np.cumsum(np.full(100, rate))
    assert metrics.annualised_volatility(steps, 252, relative=False) == 0
    assert np.isnan(metrics.sharpe_ratio(steps, 252, relative=False)).all()


def test_little_spread_is_spread():
    returns = np.random.default_rng(0).standard_normal(500) * 1e-9
    assert metrics.annualised_volatility(np.append(1.0, np.cumprod(1 + returns)), 1) == pytest.approx(
        returns.std(ddof=1), rel=1e-6
    )


def test_a_path_without_shortfall_has_a_sharpe_but_no_sortino_ratio():
    path = [1.0, 1.1, 1.3, 1.4]
    assert np.isfinite(metrics.sharpe_ratio(path, 252)).all()
    assert np.isnan(metrics.sortino_ratio(path, 252)).all()


# -- mistakes ----------------------------------------------------------------------------------------------


@everyone
def test_wealth_of_another_kind_is_refused(measure):
    for wrong in (["a", "b"], [True, False], [1j, 2j], [None, 1.0], "path"):
        with pytest.raises(TypeError, match=r"\(wealth\): expected real numbers, got dtype"):
            measure(wrong)
    for wrong in (1.0, np.ones((2, 2, 2))):
        with pytest.raises(ValueError, match=r"expected one path \(T,\) or a batch of them \(T, N\), got shape"):
            measure(wrong)
    with pytest.raises(ValueError, match="expected at least one point in time, got none"):
        measure(np.empty(0))


ANNUAL = {
    "annualised_return": metrics.annualised_return,
    "annualised_volatility": metrics.annualised_volatility,
    "sharpe_ratio": metrics.sharpe_ratio,
    "sortino_ratio": metrics.sortino_ratio,
    "turnover": lambda wealth, *args: metrics.turnover([0.1], *args),
}


@pytest.mark.parametrize("name", ANNUAL)
def test_the_number_of_periods_is_never_guessed(name):
    with pytest.raises(TypeError, match="periods_per_year"):
        ANNUAL[name](PATH)
    for wrong in ("252", None, True):
        with pytest.raises(TypeError, match=rf"^{name}\(periods_per_year\): expected a number, got"):
            ANNUAL[name](PATH, wrong)
    for wrong in (0, -252, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"^{name}\(periods_per_year\): expected a"):
            ANNUAL[name](PATH, wrong)
    whole = ANNUAL[name](PATH, 12)
    for same in (12.0, np.int32(12), Fraction(12), Decimal(12)):
        assert ANNUAL[name](PATH, same) == whole


def test_other_numbers_are_checked():
    with pytest.raises(TypeError, match=r"sharpe_ratio\(risk_free\): expected a number, got 'x'"):
        metrics.sharpe_ratio(PATH, 12, risk_free="x")
    with pytest.raises(ValueError, match=r"sortino_ratio\(target\): expected a finite number, got nan"):
        metrics.sortino_ratio(PATH, 12, target=math.nan)
    for ratio in (metrics.sharpe_ratio, metrics.sortino_ratio):
        with pytest.raises(ValueError, match=r"\(lags\): expected fewer than there are steps, 4, got 4"):
            ratio(PATH, 12, lags=4)
        with pytest.raises(ValueError, match=r"\(lags\): expected at least 0, got -1"):
            ratio(PATH, 12, lags=-1)
        with pytest.raises(TypeError, match=r"\(lags\): expected an integer, got float"):
            ratio(PATH, 12, lags=1.0)


def test_what_is_traded_has_one_value_for_each_step():
    with pytest.raises(ValueError, match=r"one value for each step of the wealth, \(4,\), got shape \(5,\)"):
        metrics.turnover(PATH, 12, wealth=PATH)
    with pytest.raises(TypeError, match=r"turnover\(traded\): expected real numbers"):
        metrics.turnover(["x"], 12)


# -- episodes of a rollout ---------------------------------------------------------------------------------


def rising():
    """Two sub-envs whose price rises by 10% a step, and begins at 100 again where an episode ends."""
    ends = [(1, 0), (4, 0), (2, 1), (4, 1)]
    steps = np.array([[1, 1], [2, 2], [1, 3], [2, 1], [3, 2]])
    return make_rollout(np.ones((5, 2)), ends=ends, wealth=1.1**steps, traded=steps, first=np.ones((5, 2)))


def test_d4_measures_of_episodes_do_not_take_a_reset_for_a_loss():
    record = rising()
    assert (metrics.max_drawdown(record.infos["wealth"]) > 0.09).all()  # of two episodes after each other
    paths = metrics.episodes(record, "wealth", start=1.0)
    assert len(paths) == 4 and paths.lengths.tolist() == [2, 3, 3, 2]  # ordered by step, then sub-env
    assert [path.tolist() for path in paths] == [(1.1 ** np.arange(n + 1.0)).tolist() for n in (2, 3, 3, 2)]
    assert metrics.max_drawdown(paths).tolist() == [0.0] * 4
    assert metrics.total_return(paths) == pytest.approx([1.1**n - 1.0 for n in (2, 3, 3, 2)])
    assert metrics.hit_rate(paths).tolist() == [1.0] * 4
    assert metrics.annualised_return(paths, 1) == pytest.approx([0.1] * 4)
    assert np.isnan(metrics.sharpe_ratio(paths, 252).value).all()  # no spread
    traded = metrics.episodes(record, "traded", start=None)
    assert [path.tolist() for path in traded] == [[1, 2], [1, 2, 3], [1, 2, 3], [1, 2]]
    each = [metrics.turnover(one, 252, wealth=path) for one, path in zip(traded, paths, strict=True)]
    assert metrics.turnover(traded, 252, wealth=paths).tolist() == each
    mean = paths.mean(metrics.total_return(paths))
    assert mean == estimate_mean(metrics.total_return(paths)) and mean.standard_error > 0.0


def test_measures_take_their_first_argument_by_its_name():
    paths = metrics.episodes(rising(), "wealth", start=1.0)
    traded = metrics.episodes(rising(), "traded", start=None)
    assert metrics.max_drawdown(wealth=[2.0, 1.0, 3.0]) == 0.5
    assert metrics.max_drawdown(wealth=paths).tolist() == metrics.max_drawdown(paths).tolist()
    assert metrics.sharpe_ratio(periods_per_year=4, wealth=PATH) == metrics.sharpe_ratio(PATH, 4)
    given = metrics.turnover(wealth=paths, periods_per_year=252, traded=traded)
    assert given.tolist() == metrics.turnover(traded, 252, wealth=paths).tolist()
    with pytest.raises(TypeError, match=r"max_drawdown\(\) missing 1 required positional argument: 'wealth'"):
        metrics.max_drawdown()
    with pytest.raises(TypeError, match="multiple values for argument 'wealth'"):
        metrics.max_drawdown(paths, wealth=paths)


def test_the_first_value_of_an_episode_may_be_told():
    record = rising()
    firsts = [path[0] for path in metrics.episodes(record, "wealth", start=[3.0, 4.0])]
    assert firsts == [3.0, 4.0, 3.0, 4.0]
    assert [path[0] for path in metrics.episodes(record, "wealth", start="first")] == [1.0] * 4


def test_episodes_of_one_length_are_an_array():
    record = make_rollout(np.ones((4, 2)), ends=[(1, 0), (1, 1), (3, 0)], wealth=np.arange(8.0).reshape(4, 2))
    paths = metrics.episodes(record, "wealth", start=1.0)
    assert np.asarray(paths).tolist() == [[1.0, 1.0, 1.0], [0.0, 1.0, 4.0], [2.0, 3.0, 6.0]]
    assert np.array_equal(metrics.drawdown(paths, relative=False), metrics.drawdown(np.asarray(paths), relative=False))
    with pytest.raises(ValueError, match=r"drawdown\(wealth\): .* got rows of different lengths"):
        metrics.drawdown(metrics.episodes(rising(), "wealth", start=1.0))


def test_no_episode_has_ended():
    paths = metrics.episodes(make_rollout(np.ones((4, 2)), wealth=np.ones((4, 2))), "wealth", start=1.0)
    assert len(paths) == 0 and metrics.max_drawdown(paths).shape == (0,)
    assert metrics.sharpe_ratio(paths, 252).value.shape == (0,)
    assert all(map(math.isnan, paths.mean(metrics.max_drawdown(paths))))


@pytest.mark.parametrize(
    ("info", "start", "message"),
    [
        ("profit", 1.0, r"episodes: expected the info 'profit' in the rollout, got \['first', 'traded', 'wealth'\]"),
        ("wealth", "profit", "episodes: expected the info 'profit' in the rollout"),
        ("wealth", [1.0] * 3, r"episodes\(start\): expected a number, or one per sub-env \(2,\), got shape \(3,\)"),
    ],
)
def test_episodes_that_cannot_be_cut(info, start, message):
    with pytest.raises(ValueError, match=message):
        metrics.episodes(rising(), info, start=start)
    paths = metrics.episodes(rising(), "wealth", start=1.0)
    with pytest.raises(
        TypeError, match=r"Episodes.mean\(values\): expected numbers, got an Estimate; hand in its .val"
    ):
        paths.mean(metrics.sharpe_ratio(paths, 252))
    with pytest.raises(ValueError, match=r"Episodes.mean\(values\): expected one of each of 4 episodes, got shape"):
        paths.mean([1.0, 2.0])


@pytest.mark.compiled
def test_d3_buy_and_hold_has_the_error_of_the_file_s_annual_returns():
    table = sims.data.load("sp500")
    years = table["date"].astype("datetime64[Y]")
    at_end = [table["close"][years == year][-1] for year in np.unique(years)]
    annual = np.diff(np.log([table["close"][0], *at_end]))
    expected = annual.std(ddof=1) / np.sqrt(len(annual))
    with TradingVecEnv(256, prices="sp500", execution="close") as vec:
        held = np.full(256, 2)
        record = sekai.rollout(vec, lambda seen: held, 756, seed=0, infos=("wealth",), progress=False)
    paths = metrics.episodes(record, "wealth", start=1.0)
    growth = paths.mean(np.log1p(metrics.total_return(paths)))
    assert len(paths) == 768 and growth.value == pytest.approx(record.episode_returns.mean())
    assert 1.0 / 1.3 < growth.standard_error / expected < 1.3
    assert estimate_mean(record.episode_returns).standard_error < expected / 4.0
