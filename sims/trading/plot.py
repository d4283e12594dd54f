"""Pictures of ``Trading-v0``: what was traded, and a whole rollout on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sekai.rollouts import Rollout
from sims.bars import START_WEALTH
from sims.plots.episodes import Episode, find_episode
from sims.plots.pages import draw_episode, new_page
from sims.plots.panels import draw_inventory, draw_trades, draw_wealth, share_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_trading(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """A rollout of ``Trading-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "price", "position", "wealth", "turnover", "fill_price" and "units_traded".
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, or an info is missing.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = new_page(record)
    _draw_trades(price, shown)
    draw_inventory(held, shown, "position", 0.0)
    draw_wealth(wealth, lost, shown, "wealth", START_WEALTH, relative=True, benchmark="price")
    share_time(shown, price, held, wealth, lost)
    return figure


def plot_trades(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """Price with trades, at the prices they were made at. Markers are as large as what was traded of the wealth.

    Args:
        record: Of ``Trading-v0``, with the infos "price", "turnover", "fill_price" and "units_traded".
        env: Which sub-env.
        episode: Which of its episodes in the rollout.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, or an info is missing.
        ImportError: matplotlib is not installed.
    """
    return draw_episode(record, env, episode, 4.5, _draw_trades)


def _draw_trades(axes: Axes, episode: Episode) -> None:
    bought = np.sign(episode.told("units_traded")) * episode.told("turnover")
    draw_trades(axes, episode, "price", episode.told("fill_price"), bought)
