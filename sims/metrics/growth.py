"""What a path of wealth came to, and how much it swayed on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sims.metrics.episodes import of_each_episode
from sims.metrics.paths import deviation_of, read_periods, read_wealth, returns_of, rounding_of


@of_each_episode
def total_return(wealth: ArrayLike, *, relative: bool = True) -> Any:
    """What the whole path returned.

    Args:
        wealth: (T,) or (T, N).
        relative: Whether it is ``W[T-1] / W[0] - 1``, a fraction, or ``W[T-1] - W[0]``, in currency.

    Returns:
        float64, or float64 (N,).

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape, or ``relative`` and a path starts at or below 0.
    """
    paths = read_wealth(wealth, "total_return", relative)
    with np.errstate(over="ignore"):
        return paths[-1] / paths[0] - 1.0 if relative else paths[-1] - paths[0]


@of_each_episode
def annualised_return(wealth: ArrayLike, periods_per_year: float, *, relative: bool = True) -> Any:
    """The return per year that would have come to the same.

    Args:
        wealth: (T,) or (T, N); NaN without a step.
        periods_per_year: How many steps make a year.
        relative: Whether it is compounded, ``(W[T-1] / W[0]) ** (periods_per_year / (T - 1)) - 1``, or the mean change
            of a step times ``periods_per_year``, in currency.

    Returns:
        float64, or float64 (N,).

    Raises:
        TypeError: An argument holds no numbers.
        ValueError: ``wealth`` has another shape, ``relative`` and a path starts at or below 0, or
            ``periods_per_year`` is not above 0.
    """
    paths = read_wealth(wealth, "annualised_return", relative)
    periods = read_periods(periods_per_year, "annualised_return")
    if len(paths) < 2:
        return np.full(paths.shape[1:], np.nan)[()]
    per_step = periods / (len(paths) - 1)
    with np.errstate(over="ignore", divide="ignore"):
        if relative:
            return np.expm1(per_step * np.log(paths[-1] / paths[0]))  # of ruin: log 0, so that it is -1
        return per_step * (paths[-1] - paths[0])


@of_each_episode
def annualised_volatility(wealth: ArrayLike, periods_per_year: float, *, relative: bool = True) -> Any:
    """The standard deviation of a step's return (of a sample: over n - 1), times ``sqrt(periods_per_year)``.

    Args:
        wealth: (T,) or (T, N); NaN with fewer than two steps.
        periods_per_year: How many steps make a year.
        relative: Whether returns are fractions or, in currency, changes.

    Returns:
        float64, or float64 (N,), per square root of a year.

    Raises:
        TypeError: An argument holds no numbers.
        ValueError: ``wealth`` has another shape, ``relative`` and a path starts at or below 0, or
            ``periods_per_year`` is not above 0.
    """
    paths = read_wealth(wealth, "annualised_volatility", relative)
    periods = read_periods(periods_per_year, "annualised_volatility")
    return np.sqrt(periods) * deviation_of(returns_of(paths, relative), rounding_of(paths, relative))
