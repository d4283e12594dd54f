"""VecRecordEpisodeStatistics: returns, lengths and times of the episodes of every sub-env."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.info_list import InfoList
from sekai.batching.infos import EPISODE
from sekai.results import VecResetResult, VecStepResult
from sekai.tracking import EpisodeStats, InMemoryTracker, StatsTracker
from sekai.types import ActType, ObsType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecWrapper


class _EpisodeFields:
    """An ``EpisodeStats`` that is being filled.

    Large batches end hundreds of episodes in a step, and a frozen dataclass takes four times as long to set its fields
    (see ``sekai.results``).
    """

    __slots__ = tuple(EpisodeStats.__dataclass_fields__)


class VecRecordEpisodeStatistics(VecWrapper[ObsType, ActType, ObsType, ActType]):
    """Per-sub-env episode statistics for a VecEnv.

    When sub-env i finishes an episode, ``infos[i]["episode"]`` is an ``EpisodeStats`` (its ``extra["env_index"]``
    is i), exactly as with the single-env ``RecordEpisodeStatistics``, and the stats are reported to the tracker's
    ``on_episode_end()``. Works with autoreset on or off: a frozen sub-env keeps reporting done, but is ignored until
    the next ``reset()``, so that each episode is recorded once. A ``reset()`` in mid-episode records nothing.

    Args:
        venv: The VecEnv to wrap.
        tracker: What the stats are reported to; an ``InMemoryTracker`` of ``deque_size`` episodes by default.
        deque_size: How many episodes the default tracker keeps.

    Attributes:
        tracker: What the stats are reported to.
    """

    def __init__(
        self,
        venv: VecEnv[ObsType, ActType],
        tracker: StatsTracker | None = None,
        deque_size: int = 100,
    ) -> None:
        super().__init__(venv)
        self.tracker: StatsTracker = InMemoryTracker(deque_size) if tracker is None else tracker
        self._steps = 0
        self._begun_at = np.zeros(self.num_envs, dtype=np.int64)  # `_steps` at the start of each episode
        self._returns: NDArray[np.float64] = np.zeros(self.num_envs)
        self._start_times: NDArray[np.float64] = np.zeros(self.num_envs)

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        self._begin(slice(None), time.monotonic())
        return result

    def _begin(self, rows: Any, now: float) -> None:
        self._begun_at[rows] = self._steps
        self._returns[rows] = 0.0
        self._start_times[rows] = now

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        self._steps += 1
        self._returns += result.rewards
        dones = result.dones
        ended = (dones if frozen is None else dones & ~frozen).nonzero()[0]
        now = time.monotonic()
        rows = ended.tolist()
        episodes = self._stats(ended, rows, result, now) if rows else []
        if isinstance(result.infos, InfoList):
            result.infos.set_items(EPISODE, rows, episodes)
        else:
            for row, episode in zip(rows, episodes, strict=True):
                result.infos[row][EPISODE] = episode
        if episodes:
            self._begin(ended, now)
        report = self.tracker.on_episode_end
        for episode in episodes:
            report(episode)
        return result

    def _stats(
        self, ended: NDArray[np.intp], rows: list[int], result: VecStepResult[Any], now: float
    ) -> list[EpisodeStats]:
        starts = self._start_times[ended]
        columns = (
            self._returns[ended].tolist(),
            (self._steps - self._begun_at[ended]).tolist(),
            (now - starts).tolist(),
            starts.tolist(),
            result.terminated[ended].tolist(),
            result.truncated[ended].tolist(),
            rows,
        )
        episodes = []
        for episode_return, length, elapsed, start, terminated, truncated, row in zip(*columns, strict=True):
            episode: Any = _EpisodeFields()
            episode.episode_return = episode_return
            episode.episode_length = length
            episode.elapsed_time = elapsed
            episode.start_time = start
            episode.end_time = now
            episode.terminated = terminated
            episode.truncated = truncated
            episode.extra = {"env_index": row}
            episode.__class__ = EpisodeStats
            episodes.append(episode)
        return episodes
