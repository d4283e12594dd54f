"""How far wealth is below its peak, and for how long.

The peak at a time is the most there has been up to it. A drawdown begins at a peak and ends when wealth is at the peak
again, or with the path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sims.metrics.episodes import of_each_episode
from sims.metrics.paths import read_wealth


def drawdown(wealth: ArrayLike, *, relative: bool = True) -> NDArray[np.float64]:
    """How far wealth is below its peak at each point in time.

    Args:
        wealth: (T,) or (T, N).
        relative: Whether it is the fraction of the peak that is lost, ``1 - W / peak``, in [0, 1], or the difference
            ``peak - W``, in currency.

    Returns:
        float64 (T,) or (T, N), at least 0.

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape, or ``relative`` and a path starts at or below 0.
    """
    return _drawdown(read_wealth(wealth, "drawdown", relative), relative)


@of_each_episode
def max_drawdown(wealth: ArrayLike, *, relative: bool = True) -> Any:
    """The deepest drawdown of a path, as ``drawdown`` gives it.

    Args:
        wealth: (T,) or (T, N).
        relative: Whether it is a fraction of the peak or, in currency, a difference.

    Returns:
        float64, or float64 (N,).

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape, or ``relative`` and a path starts at or below 0.
    """
    return _drawdown(read_wealth(wealth, "max_drawdown", relative), relative).max(axis=0)


def drawdown_length(wealth: ArrayLike) -> NDArray[np.float64]:
    """How many steps the drawdown under way has lasted; where it ends, its whole length; elsewhere 0.

    Args:
        wealth: (T,) or (T, N).

    Returns:
        float64 (T,) or (T, N), whole numbers, or NaN.

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape.
    """
    return _length(read_wealth(wealth, "drawdown_length", relative=False))


@of_each_episode
def max_drawdown_length(wealth: ArrayLike) -> Any:
    """Steps of the longest drawdown of a path: from its peak until wealth is there again, or to the end of the path.

    Args:
        wealth: (T,) or (T, N).

    Returns:
        float64, or float64 (N,), whole numbers, or NaN.

    Raises:
        TypeError: ``wealth`` holds no numbers.
        ValueError: It has another shape.
    """
    return _length(read_wealth(wealth, "max_drawdown_length", relative=False)).max(axis=0)


def _drawdown(paths: NDArray[np.float64], relative: bool) -> NDArray[np.float64]:
    peak = np.maximum.accumulate(paths, axis=0)
    with np.errstate(over="ignore"):
        return (peak - paths) / peak if relative else peak - paths


def _length(paths: NDArray[np.float64]) -> NDArray[np.float64]:
    below = paths < np.maximum.accumulate(paths, axis=0)
    time = np.arange(len(paths)).reshape(-1, *[1] * (paths.ndim - 1))
    last_peak = np.maximum.accumulate(np.where(below, 0, time), axis=0)
    length = time - last_peak
    # A drawdown lasts one step longer than wealth is seen below the peak, if it comes to an end.
    ends = below[:-1] & ~below[1:]
    length[1:][ends] = length[:-1][ends] + 1
    return np.where(np.isnan(paths), np.nan, length)
