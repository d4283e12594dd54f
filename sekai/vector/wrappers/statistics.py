"""VecRecordEpisodeStatistics: returns, lengths and times of the episodes of every sub-env."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.info_list import InfoList
from sekai.batching.infos import EPISODE
from sekai.results import VecResetResult, VecStepResult
from sekai.tracking import EpisodeBatch, InMemoryTracker, StatsTracker
from sekai.types import ActType, ObsType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecWrapper


class VecRecordEpisodeStatistics(VecWrapper[ObsType, ActType, ObsType, ActType]):
    """Return, length and time of every episode, as ``RecordEpisodeStatistics`` has them for one env.

    The info of the step that ends an episode gets them as ``"episode"``, an ``EpisodeStats`` whose ``extra`` tells
    the sub-env by ``"env_index"``. A tracker is told too: of each by ``on_episode_end()``, or of all that end in a step
    by ``on_episodes_end()`` where it has that. An episode counts once, though a frozen sub-env goes on showing its
    flags, and not at all where a ``reset()`` cuts it short. Of one that a ``restore()`` goes on
    with, the time is counted from there.

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

    snapshot_ignores = ("tracker", "_steps", "_begun_at", "_returns", "_start_times")

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        own = {"return": self._returns.take(indices), "length": self._steps - self._begun_at.take(indices)}
        return super()._snapshot_rows(indices) | own

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        self._returns[indices] = rows.pop("return")
        self._begun_at[indices] = self._steps - rows.pop("length")
        self._start_times[indices] = time.monotonic()
        super()._restore_rows(indices, rows)

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        self._begin(slice(None), time.monotonic())
        return result

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        self._begin(rows, time.monotonic())
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
        if ended.size:
            self._report(ended, result, time.monotonic())
        elif isinstance(result.infos, InfoList):
            result.infos.set_items(EPISODE, ended, ())  # so that there is something final, of length 0
        return result

    def _report(self, ended: NDArray[np.intp], result: VecStepResult[Any], now: float) -> None:
        """Put statistics into the infos of the sub-envs whose episode ended, and report them."""
        episodes = EpisodeBatch(
            ended,
            self._returns[ended],
            self._steps - self._begun_at[ended],
            self._start_times[ended],
            now,
            result.terminated[ended],
            result.truncated[ended],
        )
        if isinstance(result.infos, InfoList):
            result.infos.set_items(EPISODE, ended, episodes)
        else:
            for row, episode in zip(ended.tolist(), episodes, strict=True):
                result.infos[row][EPISODE] = episode
        self._begin(ended, now)
        report_all = getattr(type(self.tracker), "on_episodes_end", None)  # its own, not one that it hands on to
        if report_all is not None:
            report_all(self.tracker, episodes)
        else:
            for episode in episodes:
                self.tracker.on_episode_end(episode)
