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
        self._returns: NDArray[np.float64] = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._start_times: NDArray[np.float64] = np.zeros(self.num_envs)

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        self._begin(slice(None), time.monotonic())
        return result

    def _begin(self, rows: Any, now: float) -> None:
        self._returns[rows] = 0.0
        self._lengths[rows] = 0
        self._start_times[rows] = now

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        self._returns += result.rewards
        dones = result.terminated | result.truncated
        if frozen is None:
            self._lengths += 1
        else:
            self._lengths += ~frozen
            dones &= ~frozen
        ended = np.flatnonzero(dones)
        now = time.monotonic()
        stats = self._stats(ended, result, now) if ended.size else []
        rows = ended.tolist()
        if isinstance(result.infos, InfoList):
            result.infos.set_items(EPISODE, rows, stats)
        else:
            for row, episode in zip(rows, stats, strict=True):
                result.infos[row][EPISODE] = episode
        if stats:
            self._begin(ended, now)
        for episode in stats:
            self.tracker.on_episode_end(episode)
        return result

    def _stats(self, ended: NDArray[np.intp], result: VecStepResult[Any], now: float) -> list[EpisodeStats]:
        columns = (
            self._returns[ended].tolist(),
            self._lengths[ended].tolist(),
            (now - self._start_times[ended]).tolist(),
            self._start_times[ended].tolist(),
            result.terminated[ended].tolist(),
            result.truncated[ended].tolist(),
            ended.tolist(),
        )
        return [
            EpisodeStats(
                episode_return=episode_return,
                episode_length=length,
                elapsed_time=elapsed,
                start_time=start,
                end_time=now,
                terminated=terminated,
                truncated=truncated,
                extra={"env_index": row},
            )
            for episode_return, length, elapsed, start, terminated, truncated, row in zip(*columns, strict=True)
        ]
