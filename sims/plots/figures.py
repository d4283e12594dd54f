"""Figures of one episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekai.plots.canvas import new_figure
from sekai.rollouts import Rollout
from sims.plots.episodes import find_episode
from sims.plots.pages import draw_episode
from sims.plots.panels import draw_inventory, draw_quotes, draw_wealth, share_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 8.0


def plot_quotes(
    record: Rollout, *, env: int = 0, episode: int = 0, price: str = "mid_price", start: float | None = None
) -> Figure:
    """Price with quotes and fills, of a market that takes the distances of bid and ask from the mid.

    Quotes and fills lie where the infos "bid_price" and "ask_price" say, which ``MarketMaking-v0`` tells with
    ``tell_quotes=True``, and with ``clip_quotes=True`` unless told not to. Without these infos, quotes are shown as the
    policy asked for them, about the mid that it saw, and of the first step only if ``start`` tells that mid.

    Args:
        record: With the infos ``price``, "bid_filled" and "ask_filled", and "bid_price" and "ask_price", or actions
            (T, N, 2).
        env: Which sub-env.
        episode: Which of its episodes in the rollout.
        price: The info that is the mid after each step.
        start: The mid at the start of the episode, where it is known.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or actions are others.
        ImportError: matplotlib is not installed.
    """
    return draw_episode(record, env, episode, 4.5, lambda axes, shown: draw_quotes(axes, shown, price, start))


def plot_inventory(
    record: Rollout, *, env: int = 0, episode: int = 0, inventory: str = "inventory", start: float | None = None
) -> Figure:
    """What was held.

    Args:
        record: With the info ``inventory``.
        env: Which sub-env.
        episode: Which of its episodes in the rollout.
        inventory: The info that is held after each step: units, or "position" in ``Trading-v0``, a weight.
        start: What is held at the start of the episode, where it is known.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, or the info is missing.
        ImportError: matplotlib is not installed.
    """
    return draw_episode(record, env, episode, 3.5, lambda axes, shown: draw_inventory(axes, shown, inventory, start))


def plot_wealth(
    record: Rollout,
    *,
    env: int = 0,
    episode: int = 0,
    wealth: str = "wealth",
    start: float | None = None,
    relative: bool = True,
    benchmark: str | None = None,
) -> Figure:
    """Wealth with its peak, and its drawdown below.

    Args:
        record: With the info ``wealth``.
        env: Which sub-env.
        episode: Which of its episodes in the rollout.
        wealth: The info that is the wealth after each step.
        start: The wealth at the start of the episode, where it is known.
        relative: Whether the drawdown is a fraction of the peak, or in the currency of the wealth: for profits and
            losses, which may start at 0, as in ``MarketMaking-v0``.
        benchmark: The info that is a price; what would have come of holding the asset is drawn beside the wealth.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or ``relative`` and wealth is at or below 0
            at the start.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure = new_figure(_WIDTH, 5.0)
    above, below = figure.subplots(2, 1, height_ratios=(2, 1))
    draw_wealth(above, below, shown, wealth, start, relative, benchmark)
    share_time(shown, above, below)
    return figure
