"""A picture of ``MarketMaking-v0``: a whole rollout on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekai.rollouts import Rollout
from sims.plots.episodes import find_episode
from sims.plots.pages import new_page
from sims.plots.panels import draw_inventory, draw_quotes, draw_wealth, share_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_market_making(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """A rollout of ``MarketMaking-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "mid_price", "inventory", "wealth", "bid_filled" and "ask_filled", and where the market
            tells them, "bid_price" and "ask_price" (see ``sims.plots.plot_quotes``).
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or actions are others.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = new_page(record)
    draw_quotes(price, shown, "mid_price", None)
    draw_inventory(held, shown, "inventory", 0.0)
    draw_wealth(wealth, lost, shown, "wealth", 0.0, relative=False)
    share_time(shown, price, held, wealth, lost)
    return figure
