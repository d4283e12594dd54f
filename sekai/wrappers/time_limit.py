"""Cut episodes off after a number of steps."""

from __future__ import annotations

from typing import Generic

from sekai.batching.episodes import resets_itself
from sekai.batching.infos import ELAPSED_STEPS
from sekai.checks import check_count
from sekai.env import Env, Wrapper
from sekai.results import ResetResult, StepResult
from sekai.types import ActType, ObsType, OptionsType, SeedType


class TimeLimit(Wrapper[ObsType, ActType, ObsType, ActType], Generic[ObsType, ActType]):
    """Truncates every episode at its ``max_episode_steps``-th step.

    The info of every step carries ``"elapsed_steps"``, the steps of the episode so far, in place of any key
    of that name the env has. ``truncated`` is set beside ``terminated`` when both happen in one step. Put an
    ``AutoReset`` around it and not inside, where it does not see the truncation.

    Args:
        env: The env to wrap.
        max_episode_steps: The limit, at least 1.

    Attributes:
        max_episode_steps: The limit; another one holds from the next step on.
        elapsed_steps: Steps of the current episode so far.

    Raises:
        TypeError: The limit is no integer.
        ValueError: It is below 1.
    """

    _follows_autoreset = False

    def __init__(self, env: Env[ObsType, ActType], max_episode_steps: int) -> None:
        super().__init__(env)
        self.max_episode_steps = max_episode_steps
        self.elapsed_steps = 0

    @property
    def max_episode_steps(self) -> int:
        """The limit."""
        return self._limit

    @max_episode_steps.setter
    def max_episode_steps(self, limit: int) -> None:
        self._limit = check_count(limit, "TimeLimit: max_episode_steps")

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env, truncated at the limit."""
        return self._count(self.env.step(action))

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the env and the count."""
        result = self.env.reset(seed=seed, options=options)
        self.elapsed_steps = 0
        return result

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()``."""
        return self._count(await self.env.async_step(action))

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """``reset()``, through the env's ``async_reset()``."""
        result = await self.env.async_reset(seed=seed, options=options)
        self.elapsed_steps = 0
        return result

    def _count(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        elapsed = self.elapsed_steps + 1
        self.elapsed_steps = 0 if resets_itself(result.info) else elapsed
        truncated = result.truncated or elapsed >= self._limit
        info = {**result.info, ELAPSED_STEPS: elapsed}
        return StepResult(result.observation, result.reward, result.terminated, truncated, info)
