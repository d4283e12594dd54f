"""Return, length and time of every episode."""

from __future__ import annotations

from time import monotonic
from typing import Generic

from sekai.batching.episodes import resets_itself
from sekai.batching.infos import EPISODE
from sekai.env import Env, Wrapper
from sekai.results import ResetResult, StepResult
from sekai.tracking import EpisodeStats, InMemoryTracker, StatsTracker
from sekai.types import ActType, ObsType, OptionsType, SeedType


class RecordEpisodeStatistics(Wrapper[ObsType, ActType, ObsType, ActType], Generic[ObsType, ActType]):
    """Puts the ``EpisodeStats`` of every finished episode into ``info["episode"]``.

    They are also reported to a tracker. An episode lasts from a ``reset()`` (or from the one an
    ``AutoReset`` inside makes) to the step that ends it. An episode that a ``reset()`` cuts short is not
    recorded, nor are steps past the end of one. The time of one that a ``restore()`` goes on with counts from there.

    Args:
        env: The env to wrap.
        tracker: Told of every reset, step and episode end; None for an ``InMemoryTracker``.
        deque_size: Episodes that ``InMemoryTracker`` keeps.

    Attributes:
        tracker: The tracker.
        episode_stats: The last finished episode, None before the first has finished.
    """

    snapshot_ignores = ("tracker", "episode_stats", "_start")

    def _after_restore(self) -> None:
        self._start = monotonic()

    def __init__(self, env: Env[ObsType, ActType], tracker: StatsTracker | None = None, deque_size: int = 100) -> None:
        super().__init__(env)
        self.tracker: StatsTracker = InMemoryTracker(deque_size) if tracker is None else tracker
        self.episode_stats: EpisodeStats | None = None
        self._under_way = False
        self._return = 0.0
        self._length = 0
        self._start = 0.0

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env."""
        return self._record(self.env.step(action))

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the env and begin an episode."""
        result = self.env.reset(seed=seed, options=options)
        self._begin(seed)
        return result

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()``."""
        return self._record(await self.env.async_step(action))

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """``reset()``, through the env's ``async_reset()``."""
        result = await self.env.async_reset(seed=seed, options=options)
        self._begin(seed)
        return result

    def _begin(self, seed: SeedType) -> None:
        self._under_way = True
        self._return = 0.0
        self._length = 0
        self._start = monotonic()
        base = self.unwrapped
        self.tracker.on_reset(type(base).__name__ if base.spec is None else base.spec.id, seed)

    def _record(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        if not self._under_way:
            return result
        self._return += float(result.reward)
        self._length += 1
        self.tracker.on_step(result.reward, result.terminated, result.truncated, result.info)
        return self._end(result) if result.terminated or result.truncated else result

    def _end(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        now = monotonic()
        stats = EpisodeStats(
            episode_return=self._return,
            episode_length=self._length,
            elapsed_time=now - self._start,
            start_time=self._start,
            end_time=now,
            terminated=bool(result.terminated),
            truncated=bool(result.truncated),
        )
        self.episode_stats = stats
        self.tracker.on_episode_end(stats)
        self._under_way = False
        if resets_itself(result.info):
            self._begin(None)
        info = {**result.info, EPISODE: stats}
        return StepResult(result.observation, result.reward, result.terminated, result.truncated, info)
