"""How a policy got better while it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from sekai.checks import as_numbers, check_count
from sekai.plots.canvas import dress, height_with, legend_below, line_of, name_of, new_figure, note, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Steps of training so far (k,), and the returns of episodes then: (k,), or (k, R) of R runs.
Curve: TypeAlias = "tuple[ArrayLike, ArrayLike]"

#: Characters of the longest entry with which a legend has two columns.
_LONGEST_OF_TWO = 24


def plot_learning_curve(
    curves: Mapping[str, Curve], *, baselines: Mapping[str, float] | None = None, window: int = 1
) -> Figure:
    """Returns over the steps of training, of one training run or of several, against baselines.

    Of one run the mean of the last ``window`` returns is drawn, with the returns themselves faintly behind it; of
    several runs the mean of these means, with a band of two standard errors.

    Where episodes have one length, all N sub-envs end theirs in the same step, and the curve of single returns is a
    staircase with a streak at each such step. Give it the mean of each step instead, or with (k, N) the spread too.

    Args:
        curves: By name, the steps of training so far (k,), which never fall, and the returns then, (k,), or (k, R) of R
            runs: of each episode as it ended, say, or of each evaluation.
        baselines: By name, mean returns to compare with, finite, drawn as horizontal lines.
        window: Returns that a mean is over, at least 1; at the beginning as many as there are.

    Raises:
        TypeError: ``curves`` or ``baselines`` is no mapping, steps, returns or a baseline are no numbers, or ``window``
            is no integer.
        ValueError: Shapes are others, steps fall, a number is not finite, or ``window`` is below 1.
        ImportError: matplotlib is not installed.

    Examples:
        >>> plot_learning_curve({"PPO": (steps, returns)}, baselines={"fixed spread": 68.2}, window=100)
        >>> N = 8  # sub-envs whose episodes end together
        >>> plot_learning_curve({"PPO": (steps[::N], returns.reshape(-1, N).mean(axis=1))})
    """
    window = check_count(window, "plot_learning_curve(window)")
    read = {
        name: _read_curve(curve, f"plot_learning_curve({name!r})")
        for name, curve in _check_mapping(curves, "curves").items()
    }
    levels = {
        name: _read_level(level, f"plot_learning_curve(baselines={{{name!r}: ...}})")
        for name, level in _check_mapping(baselines or {}, "baselines").items()
    }
    labels = [
        *(_describe(name, returns) for name, (_, returns) in read.items()),
        *(f"{name_of(name)}: {level:.4g}" for name, level in levels.items()),
    ]
    columns = 2 if max(map(len, labels), default=0) <= _LONGEST_OF_TWO else 1
    figure = new_figure(7.0, height_with(-(-len(labels) // columns), 4.5))
    axes = figure.subplots()
    what = "return of an episode" if window == 1 else f"return of an episode, mean of the last {window:,}"
    dress(axes, "Learning curve", x="steps of training", y=what)
    whole_numbers(axes.xaxis)
    if not labels:
        note(axes, "no curve was given")
    for number, (steps, returns) in enumerate(read.values()):
        _draw_curve(axes, labels[number], steps, returns, window, number)
    for number, level in enumerate(levels.values(), len(read)):
        axes.axhline(level, **{**line_of(number), "linestyle": ":"}, label=labels[number])
    legend_below(axes, columns)
    return figure


def _describe(name: str, returns: NDArray[np.float64]) -> str:
    if returns.ndim == 1:
        return name_of(name)
    runs = returns.shape[1]
    return f"{name_of(name)}: mean of {runs} run{'s' * (runs > 1)}, ± 2 standard errors"


def _draw_curve(
    axes: Axes, label: str, steps: NDArray[np.float64], returns: NDArray[np.float64], window: int, number: int
) -> None:
    line = line_of(number)
    mean = _running_mean(returns, window)
    if returns.ndim == 1:
        if window > 1:
            axes.plot(steps, returns, color=line["color"], alpha=0.25, linewidth=0.6)
    else:
        runs = returns.shape[1]
        error = mean.std(axis=1, ddof=1) / np.sqrt(runs) if runs > 1 else 0.0
        mean = mean.mean(axis=1)
        axes.fill_between(steps, mean - 2 * error, mean + 2 * error, color=line["color"], alpha=0.2, linewidth=0)
    axes.plot(steps, mean, **line, label=label)


def _running_mean(returns: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean of each return and up to ``window - 1`` before it, along the first axis."""
    first = returns[: window - 1]
    counts = np.arange(1, len(first) + 1).reshape(-1, *[1] * (returns.ndim - 1))
    means = [np.cumsum(first, axis=0) / counts]
    if len(returns) >= window:
        means.append(sliding_window_view(returns, window, axis=0).mean(axis=-1))
    return np.concatenate(means)


def _read_curve(curve: Curve, where: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    try:
        steps, returns = curve
    except (TypeError, ValueError):
        raise TypeError(f"{where}: expected a pair (steps, returns), got {type(curve).__name__}") from None
    steps, returns = (as_numbers(part, where).astype(np.float64) for part in (steps, returns))
    if steps.ndim != 1 or returns.ndim not in (1, 2) or len(steps) != len(returns) or 0 in returns.shape[1:]:
        raise ValueError(
            f"{where}: expected steps (k,) and returns (k,) or (k, R > 0), got shapes {steps.shape} and {returns.shape}"
        )
    if not (np.isfinite(steps).all() and np.isfinite(returns).all()):
        raise ValueError(f"{where}: expected finite numbers")
    if (np.diff(steps) < 0.0).any():
        raise ValueError(f"{where}: expected steps that never fall, got {steps[1:][np.diff(steps) < 0.0][0]:g}")
    return steps, returns


def _read_level(level: float, where: str) -> float:
    number = as_numbers(level, where)
    if number.ndim or not np.isfinite(number):
        raise ValueError(f"{where}: expected one finite number, got {level!r}")
    return float(number)


def _check_mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"plot_learning_curve({name}): expected a mapping from names, got {type(value).__name__}")
    return value
