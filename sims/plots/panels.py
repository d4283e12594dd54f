"""What can be drawn of one episode, each on axes of a figure; time runs in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.plots.canvas import BLUE, DARK, GREY, ORANGE, PURPLE, SMALL, VERMILLION, dress, whole_numbers
from sims.metrics import drawdown, max_drawdown, max_drawdown_length
from sims.plots.episodes import Episode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bought and sold differ in colour, in shape and in where they point.
_BOUGHT: dict[str, Any] = {"marker": "^", "color": BLUE, "label": "bought"}
_SOLD: dict[str, Any] = {"marker": "v", "color": VERMILLION, "label": "sold"}
_MARKER_AREA = 26.0  # points squared, of an episode short enough to see each by itself
_SHORT = 300


def draw_quotes(axes: Axes, episode: Episode, price: str, start: float | None) -> None:
    """The mid, the quotes about it and where they filled.

    Quotes are made at a time and stand until the next, so that all lines are stairs; a fill lies in the middle of its
    step, at the price it was made at.
    """
    times, mid = episode.path(price, start)
    if {"bid_price", "ask_price"} <= episode.record.infos.keys():
        first = 0
        bid, ask = (episode.told(side).astype(np.float64) for side in ("bid_price", "ask_price"))
    else:
        first = episode.length + 1 - len(times)  # the first step before which the mid is known
        distances = episode.actions((2,))[first:]
        bid, ask = mid[:-1] - distances[:, 0], mid[:-1] + distances[:, 1]
    quoted = np.arange(first, episode.length)
    dress(axes, "Price, quotes and fills", y="price")
    axes.step(quoted, ask, where="post", color=VERMILLION, linewidth=0.7, alpha=0.8, label="ask")
    axes.step(times, mid, where="post", color=DARK, linewidth=1.2, label="mid")
    axes.step(quoted, bid, where="post", color=BLUE, linewidth=0.7, alpha=0.8, label="bid")
    bought, sold = (episode.told(told)[first:].astype(bool) for told in ("bid_filled", "ask_filled"))
    mark_trades(axes, episode, quoted + 0.5, (bid, bought), (ask, sold))
    legend_above(axes)


def mark_trades(
    axes: Axes,
    episode: Episode,
    times: NDArray[np.float64],
    bought: tuple[NDArray[np.float64], NDArray[np.bool_]],
    sold: tuple[NDArray[np.float64], NDArray[np.bool_]],
) -> None:
    """Markers where something was bought or sold, smaller in a long episode.

    Args:
        axes: To draw on.
        episode: The episode.
        times: float64 (n,).
        bought: float64 (n,) and bool (n,), the prices at these times, and at which of them it was.
        sold: Likewise.
    """
    area = _MARKER_AREA * min(1.0, (_SHORT / episode.length) ** 0.5)
    for (prices, when), look in ((bought, _BOUGHT), (sold, _SOLD)):
        axes.scatter(times[when], prices[when], s=area, zorder=3, linewidths=0, **look)


def draw_trades(
    axes: Axes,
    episode: Episode,
    price: str,
    paid: NDArray[np.float64],
    bought: NDArray[np.float64],
    start: float | None = None,
) -> None:
    """The price and what was traded in each step, in the middle of it, at the price it was traded at.

    Args:
        axes: To draw on.
        episode: The episode.
        price: The info that is the price.
        paid: float64 (L,), the price of each step's trade.
        bought: float64 (L,), what each step bought, a fraction of the wealth, negative for what it sold; the area of a
            marker is in proportion to it, up to all of the wealth.
        start: The price at the start of the episode; None where it is not known.
    """
    times, values = episode.path(price, start)
    dress(axes, "Price and trades", y="price")
    axes.plot(times, values, color=DARK, linewidth=1.2, label="price")
    for size, look in ((bought, _BOUGHT), (-bought, _SOLD)):
        traded = size > 0.0
        area = 2.0 * _MARKER_AREA * np.minimum(size[traded], 1.0)
        axes.scatter(np.flatnonzero(traded) + 0.5, paid[traded], s=area, zorder=3, linewidths=0, **look)
    legend_above(axes)


def draw_inventory(axes: Axes, episode: Episode, inventory: str, start: float | None) -> None:
    """What is held, stairs about zero: units, or the weight of a "position"."""
    times, held = episode.path(inventory, start)
    weight = inventory == "position"
    dress(axes, "Position" if weight else "Inventory", y="share of wealth" if weight else "units")
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.fill_between(times, held, step="post", color=PURPLE, alpha=0.25, linewidth=0)
    axes.step(times, held, where="post", color=PURPLE, linewidth=1.2)
    if not weight:
        whole_numbers(axes.yaxis)


def draw_wealth(
    above: Axes,
    below: Axes,
    episode: Episode,
    wealth: str,
    start: float | None,
    relative: bool,
    benchmark: str | None = None,
) -> None:
    """Wealth and its peak, and how far it is below that.

    Args:
        above: Axes for the wealth.
        below: Axes for the drawdown.
        episode: The episode.
        wealth: The info that is the wealth.
        start: The wealth at the start of the episode.
        relative: Whether the drawdown is a fraction of the peak.
        benchmark: The info that is a price: what would have come of holding the asset from the first time shown on.
    """
    times, values = episode.path(wealth, start)
    peak, lost = np.maximum.accumulate(values), drawdown(values, relative=relative)
    dress(above, "Wealth", y="wealth" if relative else "profit and loss")
    above.fill_between(times, values, peak, color=ORANGE, alpha=0.3, linewidth=0)
    above.plot(times, peak, color=ORANGE, linewidth=0.9, linestyle="--", label="peak")
    if benchmark is not None:
        price_times, price = episode.path(benchmark, None)
        held = values[-len(price)] * price / price[0]
        above.plot(price_times, held, color=GREY, linewidth=1.0, linestyle=":", label="asset, held")
    above.plot(times, values, color=DARK, linewidth=1.3, label="wealth")
    legend_above(above)
    depth, length = max_drawdown(values, relative=relative), max_drawdown_length(values)
    deepest = f"{depth:.1%}" if relative else f"{depth:.4g}"
    dress(below, f"Drawdown: {deepest} at the deepest, {length:,.0f} steps at the longest", y="below peak")
    below.fill_between(times, -lost, color=ORANGE, alpha=0.4, linewidth=0)
    below.plot(times, -lost, color=ORANGE, linewidth=1.0)
    below.set_ylim(top=0.0)
    if relative:
        from matplotlib.ticker import PercentFormatter

        below.yaxis.set_major_formatter(PercentFormatter(1.0))


def share_time(episode: Episode, *panels: Axes) -> None:
    """Let panels above each other share the time, and label it at the lowest."""
    for axes in panels:
        axes.set_xlim(0.0, episode.length)
        whole_numbers(axes.xaxis)
        axes.tick_params(labelbottom=axes is panels[-1])
    panels[-1].set_xlabel(f"step of {episode}", fontsize=SMALL + 1)


def legend_above(axes: Axes, columns: int = 5) -> None:
    """A legend in one row of so many names above the axes, at the right."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        fontsize=SMALL,
        frameon=False,
        borderaxespad=0.1,
        columnspacing=1.2,
        handlelength=1.6,
    )
