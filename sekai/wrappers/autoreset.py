"""Begin the next episode in the step that ends one."""

from __future__ import annotations

from typing import Generic

from sekai.batching.episodes import RowEpisode
from sekai.env import Wrapper
from sekai.results import StepResult
from sekai.types import ActType, ObsType


class AutoReset(Wrapper[ObsType, ActType, ObsType, ActType], Generic[ObsType, ActType]):
    """Resets the env in the same ``step()`` that ends its episode, as every VecEnv does.

    That step returns the first observation of the new episode beside the reward and the flags of the old
    one. Its info holds the step's own keys and ``"final_observation"``, ``"final_info"`` (the step's info,
    whole) and ``"reset_info"`` (the reset's), all of them copies taken before the env goes on. An env that
    already resets itself is left to it. It belongs outermost: see ``Wrapper``.
    """

    _begins_episodes = True

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env, and reset it if its episode ended."""
        result = self.env.step(action)
        if not result.done:
            return result
        episode = self._episode()
        if episode.end(result):
            reset = self.env.reset()
            episode.restart(reset.observation, reset.info)
        return episode.outcome

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()`` and ``async_reset()``."""
        result = await self.env.async_step(action)
        if not result.done:
            return result
        episode = self._episode()
        if episode.end(result):
            reset = await self.env.async_reset()
            episode.restart(reset.observation, reset.info)
        return episode.outcome

    def _episode(self) -> RowEpisode:
        """The rule that VecEnvs follow, for a batch of one."""
        return RowEpisode(self.env.observation_space, 0, autoreset=True)
