"""Pictures of ``LimitOrderBook-v0``: the depth of a book over time, own orders and their queues, fill rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.plots.canvas import (
    BLUE,
    DARK,
    GREY,
    SMALL,
    VERMILLION,
    dress,
    legend_below,
    line_of,
    new_figure,
    whole_numbers,
)
from sekai.rollouts import Rollout
from sims.order_book.fills import FillEstimate
from sims.order_book.queue_laws import FillChances
from sims.plots.episodes import Episode, find_episode
from sims.plots.pages import new_page
from sims.plots.panels import draw_inventory, draw_wealth, legend_above, mark_trades, share_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_order_book(
    record: Rollout, *, depth: int = 5, tick_size: Any = 0.01, env: int = 0, episode: int = 0
) -> Figure:
    """A rollout of ``LimitOrderBook-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "mid_price", "cash", "fees", "bought", "sold", "inventory" and "wealth".
        depth: Of the market: levels a side in an observation.
        tick_size: Of the market: money of a tick, one number or one per sub-env.
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or observations are others.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = new_page(record)
    image = _draw_book(price, shown, _read_book(shown, depth, tick_size))
    draw_inventory(held, shown, "inventory", None)
    draw_wealth(wealth, lost, shown, "wealth", None, relative=False)
    share_time(shown, price, held, wealth, lost)
    _show_lots(figure, image, [price, held, wealth, lost])
    return figure


def plot_book(record: Rollout, *, depth: int = 5, tick_size: Any = 0.01, env: int = 0, episode: int = 0) -> Figure:
    """The depth of a book over time with own orders and trades in it, and how many lots are ahead of own orders.

    What is dark holds many lots; of prices beyond the levels that are observed nothing is known. A trade lies at the
    price paid on average in its step, or, where both was bought and sold, at the mid after it.

    Args:
        record: Of ``LimitOrderBook-v0``, with the infos "mid_price", "cash", "fees", "bought" and "sold".
        depth: As for ``plot_order_book``.
        tick_size: Likewise.
        env: Which sub-env.
        episode: Which of its episodes in the rollout.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or observations are others.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure = new_figure(8.0, 5.5)
    above, below = figure.subplots(2, 1, height_ratios=(3, 1))
    book = _read_book(shown, depth, tick_size)
    image = _draw_book(above, shown, book)
    _draw_queues(below, book)
    share_time(shown, above, below)
    _show_lots(figure, image, [above, below])
    return figure


def plot_fills(estimate: FillEstimate) -> Figure:
    """Measured fill rates with two standard errors, and the fitted curve, by the distance from the mid.

    Args:
        estimate: Of ``estimate_fills``.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = new_figure(6.0, 4.0)
    axes = figure.subplots()
    dress(axes, "Fill rates", x="distance from the mid, money", y="fills per time")
    bars = {"fmt": "o", "color": DARK, "markersize": 4, "capsize": 2}
    axes.errorbar(estimate.distances, estimate.rates, 2.0 * estimate.errors, label="measured", **bars)
    if np.isfinite(estimate.k):
        along = np.linspace(0.0, estimate.distances.max(), 100)
        label = f"{estimate.A:.3g} exp(-{estimate.k:.3g} distance)"
        axes.plot(along, estimate.curve(along), color=VERMILLION, linewidth=1.2, label=label)
    axes.set_yscale("log")
    legend_below(axes, 2)
    return figure


def plot_fill_chances(chances: FillChances) -> Figure:
    """Measured chances of a fill with two standard errors, and the exact ones, by the orders ahead.

    Args:
        chances: Of ``measure_fill_chances``.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = new_figure(6.0, 4.0)
    axes = figure.subplots()
    dress(axes, "Filled before the opposite queue is used up", x="orders ahead", y="probability")
    for number, opposite in enumerate(chances.opposite.tolist()):
        look = line_of(number)
        axes.plot(chances.ahead, chances.exact[:, number], linewidth=1.0, label=f"exact, {opposite} opposite", **look)
        errors = 2.0 * chances.errors[:, number]
        label = "measured" if number == 0 else "_"
        bars = {"fmt": "o", "color": look["color"], "markersize": 4, "capsize": 2}
        axes.errorbar(chances.ahead, chances.chances[:, number], errors, label=label, **bars)
    whole_numbers(axes.xaxis)
    axes.set_ylim(0.0, 1.0)
    legend_below(axes, 2)
    return figure


# -- reading -----------------------------------------------------------------------------------------------


class _Book(NamedTuple):
    """What an episode of L steps shows of a book at times 1 to L - 1, and of the trades in its steps.

    Attributes:
        lots: f8 (prices, L - 1), the lots at each price, NaN where that is not known.
        lowest: The lowest of these prices, ticks.
        mid: f8 (L - 1,), money.
        own: f8 (slots, 2, L - 1), the prices of own bids and asks, money, NaN where there is none.
        ahead: f8 (slots, 2, L - 1), lots ahead of them.
        paid: f8 (L,), the price of the step's trades, money.
        bought: bool (L,), whether something was bought in it.
        sold: bool (L,), likewise.
        tick_size: Money.
    """

    lots: NDArray[np.float64]
    lowest: float
    mid: NDArray[np.float64]
    own: NDArray[np.float64]
    ahead: NDArray[np.float64]
    paid: NDArray[np.float64]
    bought: NDArray[np.bool_]
    sold: NDArray[np.bool_]
    tick_size: float


def _read_book(episode: Episode, depth: int, tick_size: Any) -> _Book:
    seen = episode.record.observations
    width = seen.shape[-1] if isinstance(seen, np.ndarray) and seen.ndim == 3 else 0
    slots, left = divmod(width - 4 * depth - 4, 3)
    if slots < 1 or left:
        raise ValueError(
            f"plot: expected observations of an order book with {depth} levels a side, {4 * depth + 4} numbers and 3 "
            f"for each own order, got {np.shape(seen)[2:]}; give the market's depth: plot(..., depth=...)"
        )
    tick = float(np.broadcast_to(np.asarray(tick_size, np.float64), (episode.record.num_envs,))[episode.env])
    told = {name: episode.told(name).astype(np.float64) for name in ("mid_price", "cash", "fees", "bought", "sold")}
    # What the policy saw before a step is what the step before it has told; of time 0 no mid is told.
    seen = seen[episode.steps, episode.env][1:].astype(np.float64)
    mid = told["mid_price"][:-1]
    spread = seen[:, 4 * depth]
    bid, ask = np.rint(mid / tick - 0.5 * spread), np.rint(mid / tick + 0.5 * spread)
    lots, lowest = _grid(seen, depth, bid, ask)
    offset, resting, ahead = (seen[:, 4 * depth + 2 + k : 4 * depth + 2 + 3 * slots : 3].T for k in range(3))
    sides = np.stack([(resting > 0.0) & (offset > 0.0), (resting > 0.0) & (offset < 0.0)], axis=1)
    prices = tick * np.stack([ask - offset, bid - offset], axis=1)
    own, before = np.where(sides, prices, np.nan), np.where(sides, ahead[:, np.newaxis], np.nan)
    flow = np.diff(told["cash"], prepend=0.0) + told["fees"]
    bought, sold = told["bought"] > 0.0, told["sold"] > 0.0
    traded = told["bought"] + told["sold"]
    one_side = (bought != sold) & (traded > 0.0)
    paid = np.where(one_side, np.abs(flow) / np.maximum(traded, 1.0), told["mid_price"])
    return _Book(lots, lowest, mid, own, before, paid, bought, sold, tick)


def _grid(
    seen: NDArray[np.float64], depth: int, bid: NDArray[np.float64], ask: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Lots by price and time, and the lowest price."""
    parts = [seen[:, k * depth : (k + 1) * depth] for k in range(4)]
    prices = np.concatenate([ask[:, np.newaxis] - parts[0], bid[:, np.newaxis] + parts[2]], axis=1)
    volumes = np.concatenate([parts[1], parts[3]], axis=1)
    there = volumes > 0.0
    if not there.any():
        return np.full((1, len(seen)), np.nan), float(bid[0]) if len(bid) else 0.0
    lowest, highest = prices[there].min(), prices[there].max()
    lots = np.full((int(highest - lowest) + 1, len(seen)), np.nan)
    times, _ = np.nonzero(there)
    lots[(prices[there] - lowest).astype(np.int64), times] = volumes[there]
    return lots, float(lowest)


# -- panels ------------------------------------------------------------------------------------------------


def _draw_book(axes: Axes, episode: Episode, book: _Book) -> Any:
    """The heat map, own orders and trades; each state stands until the next step."""
    dress(axes, "Depth, own orders and trades", y="price")
    axes.grid(False)
    times = np.arange(1.0, episode.length)
    low, high = (book.tick_size * (book.lowest + edge) for edge in (-0.5, len(book.lots) - 0.5))
    most = np.nanpercentile(book.lots, 99.0) if np.isfinite(book.lots).any() else 1.0
    extent = (1.0, max(float(episode.length), 2.0), low, high)
    look = {"cmap": "Greys", "vmin": 0.0, "vmax": max(most, 1.0), "interpolation": "nearest"}
    lots = book.lots if book.lots.shape[1] else np.full((1, 1), np.nan)
    image = axes.imshow(lots, aspect="auto", origin="lower", extent=extent, **look)
    _draw_own(axes, times, book.own)
    axes.step(times, book.mid, where="post", color=GREY, linewidth=0.7, label="mid")
    middles = np.arange(episode.length) + 0.5
    mark_trades(axes, episode, middles, (book.paid, book.bought), (book.paid, book.sold))
    legend_above(axes)
    return image


def _draw_own(axes: Axes, times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Stairs of numbers of own orders, (slots, 2, n), in a colour for each side."""
    for side, (colour, label) in enumerate(((BLUE, "own bid"), (VERMILLION, "own ask"))):
        there = [line for line in values[:, side] if np.isfinite(line).any()] or [values[0, side]]
        for number, line in enumerate(there):
            named = {"label": label} if number == 0 else {}
            axes.step(times, line, where="post", color=colour, linewidth=0.9, **named)


def _draw_queues(axes: Axes, book: _Book) -> None:
    """The lots ahead of own orders."""
    dress(axes, "Lots ahead of own orders", y="lots")
    times = np.arange(1.0, book.lots.shape[1] + 1.0)
    _draw_own(axes, times, book.ahead)
    axes.set_ylim(bottom=0.0)
    whole_numbers(axes.yaxis)
    legend_above(axes)


def _show_lots(figure: Figure, image: Any, panels: list[Axes]) -> None:
    """What the shades of the heat map mean, beside the panels."""
    bar = figure.colorbar(image, ax=panels, fraction=0.03, pad=0.01, aspect=40)
    bar.set_label("lots at a price", fontsize=SMALL + 1)
    bar.ax.tick_params(labelsize=SMALL)
