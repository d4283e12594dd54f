"""Paths of wealth: what every measure reads first, by the rules of ``sims.metrics``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import as_numbers
from sims.checks import check_number

#: Returns whose spread is at most so much of what they were computed from differ by rounding alone.
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


def returns(wealth: ArrayLike, *, relative: bool = True) -> NDArray[np.float64]:
    """The return of each step, which volatility and ratios are computed from.

    Args:
        wealth: (T,) or (T, N), of T - 1 steps.
        relative: Whether a return is ``W[t+1] / W[t] - 1`` or, in the currency of the wealth, ``W[t+1] - W[t]``.

    Returns:
        float64 (T - 1,) or (T - 1, N). Relative ones of a path that is ruined are NaN.

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape, or ``relative`` and a path starts at or below 0.
    """
    return returns_of(read_wealth(wealth, "returns", relative), relative)


def read_wealth(wealth: ArrayLike, measure: str, relative: bool) -> NDArray[np.float64]:
    """The paths that a measure is given, float64 (T,) or (T, N), in a fresh array.

    Paths that are not finite are NaN throughout, and where ``relative`` others are 0 from their ruin on.

    Args:
        wealth: As it was given.
        measure: What the error message calls it.
        relative: Whether the measure relates wealth to what it was before.

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape, or ``relative`` and a path starts at or below 0.
    """
    where = f"{measure}(wealth)"
    paths = read_numbers(wealth, where)
    if not len(paths):
        raise ValueError(f"{where}: expected at least one point in time, got none")
    paths = np.where(np.isfinite(paths).all(axis=0), paths, np.nan)
    if not relative:
        return paths
    starts = np.atleast_1d(paths[0])
    if (starts <= 0.0).any():
        path = int(np.argmax(starts <= 0.0))
        which = f" (path {path})" if paths.ndim > 1 else ""
        raise ValueError(
            f"{where}: expected wealth above 0 at the start, got {starts[path]}{which}; "
            "for profits and losses give relative=False, or add the capital they were made with"
        )
    paths[np.logical_or.accumulate(paths <= 0.0)] = 0.0
    return paths


def read_numbers(values: ArrayLike, where: str) -> NDArray[np.float64]:
    """Numbers over time, float64 (T,) or (T, N), in a fresh array; NaN where they are masked.

    Raises:
        TypeError: They are no real numbers.
        ValueError: They have another shape.
    """
    array = as_numbers(values, where)
    if array.ndim not in (1, 2):
        raise ValueError(f"{where}: expected one path (T,) or a batch of them (T, N), got shape {array.shape}")
    return array.astype(np.float64)


def read_periods(periods_per_year: Any, measure: str) -> float:
    """How many steps make a year, as a float.

    Raises:
        TypeError: It is no real number.
        ValueError: It is not finite, or not above 0.
    """
    where = f"{measure}(periods_per_year)"
    number = check_number(periods_per_year, where)
    if number <= 0.0:
        raise ValueError(f"{where}: expected a number above 0, got {number:g}")
    return number


def returns_of(paths: NDArray[np.float64], relative: bool) -> NDArray[np.float64]:
    """The return of each step of paths that ``read_wealth`` gave; NaN throughout where a path is ruined."""
    with np.errstate(all="ignore"):
        if not relative:
            return np.diff(paths, axis=0)
        return np.where(paths[-1] == 0.0, np.nan, paths[1:] / paths[:-1] - 1.0)


def rounding_of(paths: NDArray[np.float64], relative: bool) -> NDArray[np.float64]:
    """By how much the returns of a path may differ without having any spread, float64 () or (N,)."""
    with np.errstate(all="ignore"):
        sizes = paths[1:] / paths[:-1] if relative else np.abs(paths)
        rounding: NDArray[np.float64] = _ROUNDING * sizes.max(axis=0, initial=0.0)
    return rounding


def deviation_of(steps: NDArray[np.float64], rounding: NDArray[np.float64]) -> Any:
    """The standard deviation of a sample of returns, float64 or (N,): 0 if it is no more than rounding, NaN of one."""
    if len(steps) < 2:
        return np.full(steps.shape[1:], np.nan)[()]
    with np.errstate(all="ignore"):
        deviation = steps.std(axis=0, ddof=1)
        return np.where(deviation <= rounding, 0.0, deviation)[()]
