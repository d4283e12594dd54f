"""A whole rollout of a market on one page: what ``sekai run --plot`` draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekai.plots.canvas import new_figure
from sekai.plots.returns import draw_returns
from sekai.plots.rewards import draw_rewards
from sekai.rollouts import Rollout
from sims.plots.episodes import find_episode
from sims.plots.figures import weight_bought
from sims.plots.panels import draw_inventory, draw_quotes, draw_trades, draw_wealth, share_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_market_making(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """A rollout of ``MarketMaking-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "mid_price", "inventory", "wealth", "bid_filled" and "ask_filled".
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, or an info is missing.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = _new_page(record)
    draw_quotes(price, shown, "mid_price", None)
    draw_inventory(held, shown, "inventory", 0.0)
    draw_wealth(wealth, lost, shown, "wealth", 0.0, relative=False)
    share_time(shown, price, held, wealth, lost)
    return figure


def plot_trading(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """A rollout of ``Trading-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "price", "position", "wealth" and "turnover".
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, or an info is missing.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = _new_page(record)
    draw_trades(price, shown, "price", weight_bought(shown))
    draw_inventory(held, shown, "position", 0.0)
    draw_wealth(wealth, lost, shown, "wealth", 1.0, relative=True, benchmark="price")
    share_time(shown, price, held, wealth, lost)
    return figure


def _new_page(record: Rollout) -> tuple[Figure, list[Axes]]:
    """A figure with what all episodes show on the right, and four empty axes on the left."""
    figure = new_figure(13.0, 8.0)
    halves = figure.add_gridspec(1, 2, width_ratios=(1.6, 1.0))
    left, right = halves[0].subgridspec(4, 1, height_ratios=(3.0, 1.2, 2.0, 1.2)), halves[1].subgridspec(2, 1)
    draw_returns(figure.add_subplot(right[0]), record)
    draw_rewards(figure.add_subplot(right[1]), record)
    return figure, [figure.add_subplot(left[row]) for row in range(4)]
