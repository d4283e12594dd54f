"""Return per unit of risk, with its standard error.

Both ratios are functions of two means: that of the returns, and that of their squares (Sharpe) or of the squares of
their shortfalls (Sortino). The delta method turns a ratio of n returns into the mean of what each of them contributes,
its influence psi, and its standard error into that of this mean, ``sqrt(V / n)``. V is the variance of psi, or for
returns that depend on those before them its long-run variance, the sum of ``Cov(psi[t], psi[t + k])`` over all k,
estimated with Bartlett's weights over some lags (Newey and West 1987, "A simple, positive semi-definite,
heteroskedasticity and autocorrelation consistent covariance matrix", Econometrica 55). All it takes is that returns are
stationary and have four moments.

For the Sharpe ratio that is what Lo (2002), "The statistics of Sharpe ratios", Financial Analysts Journal 58(4),
derives. Without lags it comes to his ``sqrt((1 + SR^2 / 2) / n)`` for normal returns, and takes in the skewness and
kurtosis of others (Mertens 2002, "Comments on variance of the IID estimator in Lo"). For the Sortino ratio it is the
same derivation with the second lower partial moment in the place of the variance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import check_count
from sekai.estimates import Estimate
from sims.checks import check_number
from sims.metrics.episodes import of_each_episode
from sims.metrics.paths import deviation_of, read_periods, read_wealth, returns_of, rounding_of


@of_each_episode
def sharpe_ratio(
    wealth: ArrayLike, periods_per_year: float, *, risk_free: float = 0.0, lags: int = 0, relative: bool = True
) -> Estimate:
    """The annualised Sharpe ratio: mean over standard deviation of the returns above ``risk_free``.

    Both numbers are annualised by ``sqrt(periods_per_year)``, which is right for returns that are not correlated over
    time (Lo 2002); ``lags`` takes correlation into the standard error, not into that factor.

    Args:
        wealth: (T,) or (T, N); NaN with fewer than two steps, or where returns have no spread.
        periods_per_year: How many steps make a year.
        risk_free: What is earned without risk, per step and in the units of the returns.
        lags: How many steps a return may depend on those before it, below T - 1; 0 for independent returns.
        relative: Whether returns are fractions or, in currency, changes.

    Returns:
        The ratio and its standard error, per square root of a year. The error holds for many steps; of a few dozen it
        is too small, of a handful by far.

    Raises:
        TypeError: An argument holds no numbers.
        ValueError: ``wealth`` has another shape, ``relative`` and a path starts at or below 0, or a number is out of
            its range.
    """
    steps, rounding, periods = _read(wealth, periods_per_year, lags, relative, "sharpe_ratio")
    excess = steps - check_number(risk_free, "sharpe_ratio(risk_free)")
    if len(excess) < 2:
        return _nothing(excess)
    with np.errstate(all="ignore"):
        mean, deviation = excess.mean(axis=0), deviation_of(excess, rounding)
        ratio = np.where(deviation > 0.0, mean / deviation, np.nan)
        centred = (excess - mean) / excess.std(axis=0)
        influence = centred - 0.5 * ratio * (centred * centred - 1.0)
        return _annualised(ratio, influence, lags, periods)


@of_each_episode
def sortino_ratio(
    wealth: ArrayLike, periods_per_year: float, *, target: float = 0.0, lags: int = 0, relative: bool = True
) -> Estimate:
    """The annualised Sortino ratio: mean of the returns above ``target``, over the root mean square of the shortfalls.

    A shortfall is ``min(r - target, 0)``; the mean of their squares is over all returns (Sortino and Price 1994,
    "Performance measurement in a downside risk framework", Journal of Investing 3(3)).

    Args:
        wealth: (T,) or (T, N); NaN with fewer than two steps, or where no return falls short.
        periods_per_year: How many steps make a year.
        target: The return that is wanted, per step and in the units of the returns.
        lags: How many steps a return may depend on those before it, below T - 1; 0 for independent returns.
        relative: Whether returns are fractions or, in currency, changes.

    Returns:
        The ratio and its standard error, per square root of a year. The error holds for many steps; of a few dozen it
        is too small, of a handful by far.

    Raises:
        TypeError: An argument holds no numbers.
        ValueError: ``wealth`` has another shape, ``relative`` and a path starts at or below 0, or a number is out of
            its range.
    """
    steps, rounding, periods = _read(wealth, periods_per_year, lags, relative, "sortino_ratio")
    excess = steps - check_number(target, "sortino_ratio(target)")
    if len(excess) < 2:
        return _nothing(excess)
    with np.errstate(all="ignore"):
        shortfall = np.minimum(excess, 0.0)
        mean, deviation = excess.mean(axis=0), np.sqrt(np.mean(shortfall * shortfall, axis=0))
        ratio = np.where(deviation > rounding, mean / deviation, np.nan)
        squares = (shortfall / deviation) ** 2
        influence = (excess - mean) / deviation - 0.5 * ratio * (squares - 1.0)
        return _annualised(ratio, influence, lags, periods)


def _read(
    wealth: ArrayLike, periods_per_year: float, lags: int, relative: bool, measure: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The returns, by how much rounding alone may make them differ, and the steps of a year."""
    paths = read_wealth(wealth, measure, relative)
    periods = read_periods(periods_per_year, measure)
    steps = returns_of(paths, relative)
    lags = check_count(lags, f"{measure}(lags)", minimum=0)
    if lags and lags >= len(steps):
        raise ValueError(f"{measure}(lags): expected fewer than there are steps, {len(steps)}, got {lags}")
    return steps, rounding_of(paths, relative), periods


def _nothing(steps: NDArray[np.float64]) -> Estimate:
    """The estimate where there are too few steps for one."""
    return Estimate(*(np.full(steps.shape[1:], np.nan)[()] for _ in range(2)))


def _annualised(ratio: NDArray[np.float64], influence: NDArray[np.float64], lags: int, periods: float) -> Estimate:
    """A ratio per step, and the influence of each step on it (n,) or (n, N), as an annual estimate."""
    n = len(influence)
    variance = np.mean(influence * influence, axis=0)
    for lag in range(1, lags + 1):
        covariance = np.sum(influence[lag:] * influence[:-lag], axis=0) / n
        variance += 2.0 * (1.0 - lag / (lags + 1.0)) * covariance
    # Where it is 0 but for rounding (two returns, one influence), that may be on either side.
    error = np.sqrt(np.maximum(variance, 0.0) / n)
    return Estimate(np.sqrt(periods) * ratio[()], np.sqrt(periods) * error)
