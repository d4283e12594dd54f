"""What each step of a rollout brought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.plots.canvas import BLUE, GREY, dress, legend_below, new_figure, whole_numbers
from sekai.plots.returns import draw_returns
from sekai.rollouts import Rollout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 200


def plot_rollout(record: Rollout) -> Figure:
    """What a rollout of any environment shows: how the returns of its episodes are distributed, and reward over time.

    Args:
        record: As ``sekai.rollout`` returns it.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = new_figure(11.0, 4.5)
    left, right = figure.subplots(1, 2)
    draw_returns(left, record)
    draw_rewards(right, record)
    return figure


def draw_rewards(axes: Axes, record: Rollout) -> None:
    """The mean reward of a step over time, with a band of two standard errors; a long rollout in intervals.

    The mean is over all sub-envs (steps that only repeat an end left out) and, where there are more than 200 steps,
    over an interval of them. The standard error takes rewards for independent of each other;
    where a history is shared, which makes them depend, the legend says so.
    """
    width = -(-record.num_steps // _MOST_POINTS)
    starts = np.arange(0, record.num_steps, width)
    counted = ~record.frozen

    def totals(values: Any) -> Any:
        """Of each interval."""
        return np.add.reduceat(np.where(counted, values, 0.0).sum(axis=1), starts)

    count = np.add.reduceat(counted.sum(axis=1), starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = totals(record.rewards) / count
        deviations = record.rewards - np.repeat(mean, width)[: record.num_steps, np.newaxis]
        error = np.sqrt(totals(deviations * deviations) / (count - 1.0) / count)
    band = "± 2 standard errors" + (" (independent rewards)" if record.history is not None else "")
    middle = starts + 0.5 * (np.minimum(starts + width, record.num_steps) - starts)
    over = "sub-envs" if width == 1 else f"sub-envs and {width:,} steps"
    dress(axes, "Reward over time", x="step", y="mean reward of a step")
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.plot(middle, mean, color=BLUE, linewidth=1.2, label=f"mean over {over}")
    axes.fill_between(middle, mean - 2 * error, mean + 2 * error, color=BLUE, alpha=0.25, linewidth=0, label=band)
    axes.set_xlim(0, record.num_steps)
    whole_numbers(axes.xaxis)
    legend_below(axes, columns=2 if record.history is None else 1)
