"""The statistics of episodes, and the trackers they are reported to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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


class EpisodeBatch(Sequence[EpisodeStats]):
    """The statistics of episodes that ended in one step; a record is made when somebody reads it, once.

    Args:
        env_index: intp (k,), the sub-envs.
        episode_return: float64 (k,).
        episode_length: int64 (k,).
        start_time: float64 (k,).
        end_time: Of all of them.
        terminated: bool (k,).
        truncated: bool (k,).
    """

    __slots__ = ("_columns", "_end_time", "_records")

    def __init__(
        self,
        env_index: NDArray[np.intp],
        episode_return: NDArray[np.float64],
        episode_length: NDArray[np.int64],
        start_time: NDArray[np.float64],
        end_time: float,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> None:
        self._columns = (env_index, episode_return, episode_length, start_time, terminated, truncated)
        self._end_time = end_time
        self._records: dict[int, EpisodeStats] = {}

    def __reduce__(self) -> Any:  # for the pickle protocols that know no slots
        env_index, episode_return, length, start, terminated, truncated = self._columns
        return EpisodeBatch, (env_index, episode_return, length, start, self._end_time, terminated, truncated)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        k = range(len(self))[index]
        record = self._records.get(k)
        return self._records.setdefault(k, self._make(k)) if record is None else record

    def _make(self, k: int) -> EpisodeStats:
        values: list[Any] = [column.item(k) for column in self._columns]
        env_index, episode_return, length, start, terminated, truncated = values
        elapsed = self._end_time - start
        extra = {"env_index": env_index}
        return EpisodeStats(episode_return, length, elapsed, start, self._end_time, terminated, truncated, extra)


@runtime_checkable
class StatsTracker(Protocol):
    """What episode statistics are reported to: anything with these methods, as ``isinstance`` tells."""

    def on_reset(self, env_id: str | int, seed: SeedType) -> None:
        """An env was reset: its registered id or class name, or its index; and the seed it was given."""

    def on_step(self, reward: float, terminated: bool, truncated: bool, info: InfoDict) -> None:
        """An env was stepped."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """An episode ended.

        A tracker that can do better with many may also have ``on_episodes_end(episodes)``, which vector envs then call
        instead with a sequence of the episodes that ended in one step.
        """

    def summary(self) -> dict[str, float]:
        """Figures over the episodes reported."""


class InMemoryTracker:
    """Keeps the last episodes.

    Args:
        max_episodes: How many.

    Raises:
        ValueError: ``max_episodes`` is below 1.
    """

    def __init__(self, max_episodes: int = 100) -> None:
        if max_episodes < 1:
            raise ValueError(f"InMemoryTracker: expected max_episodes of at least 1, got {max_episodes}")
        self._max_episodes = max_episodes
        self._episodes: deque[EpisodeStats] = deque(maxlen=max_episodes)
        # Batches that are not among these yet: large vector envs end more episodes than anybody reads.
        self._unread: deque[Sequence[EpisodeStats]] = deque()
        self._num_unread = 0

    @property
    def episodes(self) -> deque[EpisodeStats]:
        """The episodes kept, oldest first."""
        while self._unread:
            self._episodes.extend(self._unread.popleft()[-self._max_episodes :])
        self._num_unread = 0
        return self._episodes

    def on_reset(self, env_id: str | int, seed: SeedType) -> None:
        """Nothing is kept of a reset."""

    def on_step(self, reward: float, terminated: bool, truncated: bool, info: InfoDict) -> None:
        """Nothing is kept of a single step."""

    def on_episode_end(self, stats: EpisodeStats) -> None:
        """Keep the episode, and drop the oldest one if there are too many."""
        self.episodes.append(stats)

    def on_episodes_end(self, episodes: Sequence[EpisodeStats]) -> None:
        """Take in episodes that ended in one step, as ``on_episode_end`` would one after the other."""
        if getattr(self.on_episode_end, "__func__", None) is not InMemoryTracker.on_episode_end:  # it has its own
            for stats in episodes:
                self.on_episode_end(stats)
            return
        self._unread.append(episodes)
        self._num_unread += len(episodes)
        while self._num_unread - len(self._unread[0]) >= self._max_episodes:
            self._num_unread -= len(self._unread.popleft())

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
