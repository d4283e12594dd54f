"""Pictures of ``Trading-v0``: what was traded, and a whole rollout on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sekai.rollouts import Rollout
from sims.plots.episodes import Episode, find_episode
from sims.plots.pages import draw_episode, new_page
from sims.plots.panels import draw_inventory, draw_trades, draw_wealth, share_time
from sims.trading.market import START_WEALTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_trading(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """A rollout of ``Trading-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "price", "position", "wealth" and "turnover".
        env: Which sub-env's episode.
        episode: Which of its episodes.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or actions are others.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = new_page(record)
    draw_trades(price, shown, "price", _weight_bought(shown))
    draw_inventory(held, shown, "position", 0.0)
    draw_wealth(wealth, lost, shown, "wealth", START_WEALTH, relative=True, benchmark="price")
    share_time(shown, price, held, wealth, lost)
    return figure


def plot_trades(record: Rollout, *, env: int = 0, episode: int = 0) -> Figure:
    """Price with trades. Markers are as large as what was traded of the wealth.

    Args:
        record: Of ``Trading-v0``, with the infos "price", "position" and "turnover".
        env: Which sub-env.
        episode: Which of its episodes in the rollout.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or actions are others.
        ImportError: matplotlib is not installed.
    """
    return draw_episode(
        record, env, episode, 4.5, lambda axes, shown: draw_trades(axes, shown, "price", _weight_bought(shown))
    )


def _weight_bought(episode: Episode) -> NDArray[np.float64]:
    """What each step bought, a fraction of the wealth, negative for what it sold; float64 (L,)."""
    actions = episode.actions((), (1,))
    wanted = actions - 1.0 if actions.ndim == 1 else actions[:, 0].astype(np.float64)
    held = np.append(0.0, episode.told("position")[:-1])
    bought: NDArray[np.float64] = np.sign(wanted - held) * episode.told("turnover")
    return bought
