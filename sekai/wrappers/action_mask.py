"""Show the mask of actions beside the observation."""

from __future__ import annotations

from typing import Any, Generic

from sekai.env import Env, ObservationWrapper
from sekai.spaces import Dict, as_mask, full_mask, mask_space
from sekai.types import ActType


class ActionMaskObservation(ObservationWrapper[dict[str, Any], ActType, Any], Generic[ActType]):
    """Shows ``{"observation": ..., "action_mask": ...}``: what the env shows, and its ``action_mask()``.

    The mask is an element of ``sekai.space_utils.mask_space(env.action_space)``, with ones where the env says None. The
    terminal observation that an ``AutoReset`` inside hands out is shown with a mask of everything.

    Args:
        env: An env with action masks.

    Raises:
        ValueError: The env has none.
        TypeError: The masks of its action space have no fixed form.
    """

    def __init__(self, env: Env[Any, ActType]) -> None:
        super().__init__(env)
        if not env.has_action_mask:
            raise ValueError(f"ActionMaskObservation: expected an env with an action_mask(), got {env}")
        self.observation_space = Dict(observation=env.observation_space, action_mask=mask_space(env.action_space))

    def observation(self, obs: Any) -> dict[str, Any]:
        """The observation and the mask of the state that the env is in."""
        mask = as_mask(self.env.action_space, self.env.action_mask(), f"{self.env}.action_mask()")
        return {"observation": obs, "action_mask": mask}

    def final_observation(self, obs: Any) -> dict[str, Any]:
        """The observation and a mask of everything: the state that it showed is gone."""
        return {"observation": obs, "action_mask": full_mask(self.env.action_space)}
