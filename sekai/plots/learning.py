"""How a policy got better while it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from sekai.checks import check_count
from sekai.plots.canvas import dress, legend_below, line_of, new_figure, read_numbers, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Steps of training so far (k,), and the returns of episodes then: (k,), or (k, R) of R runs.
Curve: TypeAlias = "tuple[ArrayLike, ArrayLike]"


def plot_learning_curve(
    curves: Mapping[str, Curve], *, baselines: Mapping[str, float] | None = None, window: int = 1
) -> Figure:
    """Returns over the steps of training, of one training run or of several, against baselines.

    Of one run the mean of the last ``window`` returns is drawn, with the returns themselves faintly behind it; of
    several runs the mean of these means, with a band of two standard errors.

    Args:
        curves: By name, the steps of training so far (k,), which never fall, and the returns then, (k,), or (k, R) of R
            runs: of each episode as it ended, say, or of each evaluation.
        baselines: By name, mean returns to compare with, drawn as horizontal lines.
        window: Returns that a mean is over, at least 1; at the beginning as many as there are.

    Raises:
        TypeError: Steps or returns are no numbers, or ``window`` is no integer.
        ValueError: Shapes are others, steps fall, a number is not finite, or ``window`` is below 1.
        ImportError: matplotlib is not installed.

    Example:
        >>> plot_learning_curve({"PPO": (steps, returns)}, baselines={"fixed spread": 68.2}, window=100)
    """
    window = check_count(window, "plot_learning_curve(window)")
    read = {name: _read_curve(curve, f"plot_learning_curve({name!r})") for name, curve in curves.items()}
    figure = new_figure(7.0, 4.5)
    axes = figure.subplots()
    what = "return of an episode" if window == 1 else f"return of an episode, mean of the last {window:,}"
    dress(axes, "Learning curve", x="steps of training", y=what)
    whole_numbers(axes.xaxis)
    for number, (name, (steps, returns)) in enumerate(read.items()):
        _draw_curve(axes, name, steps, returns, window, number)
    for number, (name, level) in enumerate((baselines or {}).items(), len(read)):
        axes.axhline(level, **{**line_of(number), "linestyle": ":"}, label=f"{name}: {level:.4g}")
    legend_below(axes, columns=2)
    return figure


def _draw_curve(
    axes: Axes, name: str, steps: NDArray[np.float64], returns: NDArray[np.float64], window: int, number: int
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
        name = f"{name}: mean of {runs} runs, ± 2 standard errors"
    axes.plot(steps, mean, **line, label=name)


def _running_mean(returns: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The mean of each return and up to ``window - 1`` before it, along the first axis."""
    first = returns[: window - 1]
    counts = np.arange(1, len(first) + 1).reshape(-1, *[1] * (returns.ndim - 1))
    means = [np.cumsum(first, axis=0) / counts]
    if len(returns) >= window:
        means.append(sliding_window_view(returns, window, axis=0).mean(axis=-1))
    return np.concatenate(means)


def _read_curve(curve: Curve, where: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    steps, returns = (read_numbers(part, where) for part in curve)
    if steps.ndim != 1 or returns.ndim not in (1, 2) or len(steps) != len(returns):
        raise ValueError(
            f"{where}: expected steps (k,) and returns (k,) or (k, R), got shapes {steps.shape} and {returns.shape}"
        )
    if not (np.isfinite(steps).all() and np.isfinite(returns).all()):
        raise ValueError(f"{where}: expected finite numbers")
    if (np.diff(steps) < 0.0).any():
        raise ValueError(f"{where}: expected steps that never fall, got {steps[1:][np.diff(steps) < 0.0][0]:g}")
    return steps, returns
