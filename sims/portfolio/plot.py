"""Pictures of ``Portfolio-v0``: a whole rollout on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.plots.canvas import GREY, dress, line_of, name_of
from sekai.rollouts import Rollout
from sims.bars import START_WEALTH
from sims.plots.episodes import Episode, find_episode
from sims.plots.pages import new_page
from sims.plots.panels import draw_wealth, legend_above, share_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Assets in a picture at most: of more, those of which most is held.
_MOST_SHOWN = 6


def plot_portfolio(record: Rollout, *, env: int = 0, episode: int = 0, assets: Sequence[str] | None = None) -> Figure:
    """A rollout of ``Portfolio-v0``: one episode on the left, all of them on the right.

    Args:
        record: With the infos "price", "weights" and "wealth", and "fill_price" for prices from the start on.
        env: Which sub-env's episode.
        episode: Which of its episodes.
        assets: The names of the assets; None for their numbers.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode, an info is missing, or there is not a name for each asset.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure, (price, held, wealth, lost) = new_page(record)
    weights = shown.told_each("weights").astype(np.float64)
    names = [f"asset {k}" for k in range(weights.shape[1])] if assets is None else list(assets)
    if len(names) != weights.shape[1]:
        raise ValueError(f"plot(assets): expected {weights.shape[1]} names, one of each asset, got {names}")
    most = np.sort(np.argsort(-np.abs(weights).mean(axis=0), kind="stable")[:_MOST_SHOWN])
    _draw_prices(price, shown, most, names)
    _draw_weights(held, shown, weights[:, most], len(names))
    draw_wealth(wealth, lost, shown, "wealth", START_WEALTH, relative=True)
    share_time(shown, price, held, wealth, lost)
    return figure


def _draw_prices(axes: Axes, episode: Episode, which: NDArray[np.intp], names: Sequence[str]) -> None:
    """Prices of some assets, each over its first one in the episode: that of the first trade, if it is told."""
    prices = episode.told_each("price").astype(np.float64)
    times = np.arange(1.0, episode.length + 1.0)
    if "fill_price" in episode.record.infos:
        prices = np.concatenate([episode.told_each("fill_price")[:1].astype(np.float64), prices])
        times = np.append(0.0, times)
    dress(axes, "Prices" if len(which) == len(names) else f"Prices, {len(which)} of {len(names)}", y="over the first")
    for number, k in enumerate(which):
        path = np.where(prices[:, k] > 0.0, prices[:, k], np.nan)  # 0 before it was listed
        there = path[~np.isnan(path)]
        axes.plot(times, path / there[0] if len(there) else path, label=name_of(names[k]), **_look(number))
    legend_above(axes)


def _draw_weights(axes: Axes, episode: Episode, weights: NDArray[np.float64], count: int) -> None:
    """The weights of the same assets, in the same colours."""
    times = np.arange(1.0, episode.length + 1.0)
    dress(axes, "Weights" if weights.shape[1] == count else f"Weights, {weights.shape[1]} of {count}", y="of wealth")
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    for number, held in enumerate(weights.T):
        axes.step(times, held, where="post", **_look(number))


def _look(number: int) -> dict[str, Any]:
    return {**line_of(number), "linewidth": 1.2}
