"""A picture of ``OptimalExecution-v0``: a whole rollout on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sekai.plots.canvas import BLUE, DARK, GREY, dress, line_of
from sekai.rollouts import Rollout
from sims.execution.market import PARTS
from sims.plots.episodes import Episode, find_episode
from sims.plots.pages import new_page
from sims.plots.panels import draw_inventory, draw_trades, legend_above, share_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_execution(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """A rollout of ``OptimalExecution-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "price", "units_left", "units_traded", "fill_price", "shortfall" and its parts.
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, or an info is missing.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, left, costs, slices) = new_page(record, left=1.3)
    bought = shown.told("units_traded")
    order = float(shown.told("units_left")[0] + abs(bought[0]))
    largest = np.abs(bought).max() or 1.0
    draw_trades(price, shown, "price", shown.told("fill_price"), bought / largest, _arrival_price(shown))
    draw_inventory(left, shown, "units_left", order)
    left.set_title("What is left of the order", loc="left", fontsize=10)
    _draw_costs(costs, shown)
    _draw_slices(slices, shown)
    share_time(shown, price, left, costs, slices)
    return figure


def _arrival_price(episode: Episode) -> float | None:
    """The price of which the shortfall is counted, which no step tells: by the largest slice; None before any."""
    bought = episode.told("units_traded")
    largest = int(np.argmax(np.abs(bought)))
    if not bought[largest]:
        return None
    cost = np.diff(episode.told("shortfall"), prepend=0.0)[largest]
    return float(episode.told("fill_price")[largest] - cost / bought[largest])


def _draw_costs(axes: Axes, episode: Episode) -> None:
    dress(axes, "Shortfall so far", y="money")
    for number, part in enumerate(PARTS):
        times, cost = episode.path(part, 0.0)
        if cost.any():
            axes.plot(times, cost, label=part.removesuffix("_cost"), linewidth=1.0, **line_of(number))
    times, cost = episode.path("shortfall", 0.0)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.plot(times, cost, color=DARK, linewidth=1.4, label="all")
    _in_full(axes)
    legend_above(axes, columns=6)


def _draw_slices(axes: Axes, episode: Episode) -> None:
    dress(axes, "Slices", y="units bought")
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.bar(np.arange(episode.length) + 0.5, episode.told("units_traded"), width=0.9, color=BLUE)
    _in_full(axes)


def _in_full(axes: Axes) -> None:
    """Write large numbers out, not as multiples of a power of 10 that lies where the title is."""
    if np.abs(axes.get_ylim()).max() >= 100.0:
        axes.yaxis.set_major_formatter("{x:,.0f}")
