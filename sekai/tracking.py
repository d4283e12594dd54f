"""The statistics of episodes, and the trackers they are reported to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sekai.types import InfoDict, SeedType

if TYPE_CHECKING:
    import logging


@dataclass(frozen=True, slots=True)
class EpisodeStats:
    """What one episode came to.

    Attributes:
        episode_return: Sum of the rewards.
        episode_length: Number of steps.
        elapsed_time: Seconds from the reset that began it to its last step.
        start_time: Monotonic clock at the start, in seconds.
        end_time: Monotonic clock at the end, in seconds.
        terminated: Its last step was terminal.
        truncated: Its last step was cut off.
        extra: Anything else; ``"env_index"`` of a sub-env's episode.
    """

    episode_return: float
    episode_length: int
    elapsed_time: float
    start_time: float
    end_time: float
    terminated: bool
    truncated: bool
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the episode ran to its end."""
        return self.terminated or self.truncated


class StatsTracker(Protocol):
    """What episode statistics are reported to."""

    def on_reset(self, env_id: str | int, seed: SeedType) -> None:
        """An env was reset: its registered id or class name, or its index; and the seed it was given."""

    def on_step(self, reward: float, terminated: bool, truncated: bool, info: InfoDict) -> None:
        """An env was stepped."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """An episode ended."""

    def summary(self) -> dict[str, float]:
        """Figures over the episodes reported."""


class InMemoryTracker:
    """Keeps the last episodes.

    Args:
        max_episodes: How many.

    Attributes:
        episodes: A deque of ``EpisodeStats``, oldest first.

    Raises:
        ValueError: ``max_episodes`` is below 1.
    """

    def __init__(self, max_episodes: int = 100) -> None:
        if max_episodes < 1:
            raise ValueError(f"InMemoryTracker: expected max_episodes of at least 1, got {max_episodes}")
        self.episodes: deque[EpisodeStats] = deque(maxlen=max_episodes)

    def on_reset(self, env_id: str | int, seed: SeedType) -> None:
        """Nothing is kept of a reset."""

    def on_step(self, reward: float, terminated: bool, truncated: bool, info: InfoDict) -> None:
        """Nothing is kept of a single step."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Keep the episode, and drop the oldest one if there are too many."""
        self.episodes.append(stats)

    def summary(self) -> dict[str, float]:
        """Figures over the episodes kept; NaN, beside ``num_episodes`` 0, when there are none."""
        returns = [stats.episode_return for stats in self.episodes] or [np.nan]
        lengths = [float(stats.episode_length) for stats in self.episodes] or [np.nan]
        return {
            "num_episodes": len(self.episodes),
            "mean_return": float(np.mean(returns)),
            "min_return": float(np.min(returns)),
            "max_return": float(np.max(returns)),
            "mean_length": float(np.mean(lengths)),
        }


class LoggingTracker(InMemoryTracker):
    """Writes one log record of level INFO per episode, and keeps the last 100.

    Args:
        logger: Where to; None for the logger ``"sekai.episodes"``.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        super().__init__()
        if logger is None:
            from logging import getLogger  # here, to keep `import sekai` quick

            logger = getLogger("sekai.episodes")
        self.logger = logger

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Log the episode."""
        super().on_episode_end(stats)
        self.logger.info(
            "episode ended: return %.6g, length %d, %.3f s, terminated %s, truncated %s%s",
            stats.episode_return,
            stats.episode_length,
            stats.elapsed_time,
            stats.terminated,
            stats.truncated,
            f", {stats.extra}" if stats.extra else "",
        )
