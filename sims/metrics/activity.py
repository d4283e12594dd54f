"""How much was traded, and how often it paid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sims.metrics.episodes import of_each_episode
from sims.metrics.paths import read_numbers, read_periods, read_wealth


@of_each_episode
def hit_rate(wealth: ArrayLike) -> Any:
    """The share of steps with a gain among those in which wealth changed at all.

    Args:
        wealth: (T,) or (T, N); NaN where it never changes.

    Returns:
        float64, or float64 (N,), in [0, 1].

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape.
    """
    paths = read_wealth(wealth, "hit_rate", relative=False)
    gains, losses = (np.count_nonzero(which, axis=0) for which in (paths[1:] > paths[:-1], paths[1:] < paths[:-1]))
    with np.errstate(invalid="ignore"):
        return np.divide(gains, gains + losses)


@of_each_episode
def turnover(traded: ArrayLike, periods_per_year: float, *, wealth: ArrayLike | None = None) -> Any:
    """How many times a year the wealth is traded: the mean of what a step trades, over the wealth before it, per year.

    What is bought and what is sold both count: to buy for all of it and sell again within a year is 2.

    Args:
        traded: (T - 1,) or (T - 1, N), value traded in each step, its sign ignored: a fraction of the wealth, or in
            the currency of ``wealth`` where that is given. NaN without a step.
        periods_per_year: How many steps make a year.
        wealth: (T,) or (T, N).

    Returns:
        float64, or float64 (N,), per year.

    Raises:
        TypeError: An argument holds no numbers.
        ValueError: A shape is another, ``periods_per_year`` is not above 0, or a path starts at or below 0.
    """
    value = np.abs(read_numbers(traded, "turnover(traded)"))
    periods = read_periods(periods_per_year, "turnover")
    value[~np.isfinite(value)] = np.nan
    if wealth is not None:
        paths = read_wealth(wealth, "turnover", relative=True)
        if paths[1:].shape != value.shape:
            raise ValueError(
                f"turnover(traded): expected one value for each step of the wealth, {paths[1:].shape}, "
                f"got shape {value.shape}"
            )
        with np.errstate(all="ignore"):
            value = np.where(paths[-1] == 0.0, np.nan, value / paths[:-1])
    if not len(value):
        return np.full(value.shape[1:], np.nan)[()]
    return periods * value.mean(axis=0)
