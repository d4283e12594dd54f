"""Begin the next episode in the step that ends one."""

from __future__ import annotations

from typing import Generic

from sekai.batching.episodes import ended_info, resets_itself
from sekai.batching.infos import snapshot_info
from sekai.batching.layout import copy_row
from sekai.env import Wrapper
from sekai.results import ResetResult, StepResult
from sekai.types import ActType, InfoDict, ObsType


class AutoReset(Wrapper[ObsType, ActType, ObsType, ActType], Generic[ObsType, ActType]):
    """Resets the env in the same ``step()`` that ends its episode, as every VecEnv does.

    That step returns the first observation of the new episode beside the reward and the flags of the old
    one. Its info holds the step's own keys and ``"final_observation"``, ``"final_info"`` (the step's info,
    whole) and ``"reset_info"`` (the reset's), all of them copies taken before the env goes on. An env that
    already resets itself is left to it.
    """

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env, and reset it if its episode ended."""
        result = self.env.step(action)
        if not result.done or resets_itself(result.info):
            return result
        final = self._snapshot(result)
        return self._restarted(result, final, self.env.reset())

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()`` and ``async_reset()``."""
        result = await self.env.async_step(action)
        if not result.done or resets_itself(result.info):
            return result
        final = self._snapshot(result)
        return self._restarted(result, final, await self.env.async_reset())

    def _snapshot(self, result: StepResult[ObsType]) -> tuple[ObsType, InfoDict]:
        return copy_row(self.env.observation_space, result.observation), snapshot_info(result.info)

    def _restarted(
        self, result: StepResult[ObsType], final: tuple[ObsType, InfoDict], reset: ResetResult[ObsType]
    ) -> StepResult[ObsType]:
        observation, step_info = final
        info = ended_info(step_info, observation, snapshot_info(reset.info))
        return StepResult(reset.observation, result.reward, result.terminated, result.truncated, info)
