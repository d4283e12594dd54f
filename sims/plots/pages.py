"""Figures of a rollout: one episode in one panel, and the page of all that ``sekai run --plot`` draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sekai.plots.canvas import new_figure
from sekai.plots.returns import draw_returns
from sekai.plots.rewards import draw_rewards
from sekai.rollouts import Rollout
from sims.plots.episodes import Episode, find_episode
from sims.plots.panels import share_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_episode(
    record: Rollout, env: int, episode: int, height: float, draw: Callable[[Axes, Episode], None]
) -> Figure:
    """A figure of one episode in one panel.

    Args:
        record: The rollout.
        env: Which sub-env.
        episode: Which of its episodes.
        height: Of the figure, inches.
        draw: Draws the episode.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode.
        ImportError: matplotlib is not installed.
    """
    shown = find_episode(record, env, episode)
    figure = new_figure(8.0, height)
    axes = figure.subplots()
    draw(axes, shown)
    share_time(shown, axes)
    return figure


def new_page(record: Rollout, left: float = 1.6) -> tuple[Figure, list[Axes]]:
    """A figure with what all episodes show on the right, and four empty axes above each other on the left.

    They are for a price, what is held, the wealth and its drawdown (see ``sims.plots.panels``).

    Args:
        record: The rollout.
        left: The width of the left as a multiple of that of the right, where large returns take more room.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = new_figure(13.0, 8.0)
    halves = figure.add_gridspec(1, 2, width_ratios=(left, 1.0))
    panels, right = halves[0].subgridspec(4, 1, height_ratios=(3.0, 1.2, 2.0, 1.2)), halves[1].subgridspec(2, 1)
    draw_returns(figure.add_subplot(right[0]), record)
    draw_rewards(figure.add_subplot(right[1]), record)
    return figure, [figure.add_subplot(panels[row]) for row in range(4)]
