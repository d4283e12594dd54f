"""Show the masks of actions beside the observations."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.masks import full_masks
from sekai.results import VecResetResult
from sekai.spaces import Dict, full_mask, mask_space
from sekai.types import ActType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecObservationWrapper, VecWrapper


class VecActionMaskObservation(VecObservationWrapper[dict[str, Any], ActType, Any], Generic[ActType]):
    """Shows ``{"observation": ..., "action_mask": ...}``: what the VecEnv shows, and its ``action_mask()``.

    The masks are a batch of elements of ``sekai.space_utils.mask_space(vec.action_space)``. The terminal observations
    that autoreset hands out in infos are shown with masks of everything: the states that they showed are gone.

    Args:
        venv: A VecEnv with action masks.

    Raises:
        ValueError: It has none.
        TypeError: The masks of its action space have no fixed form.
    """

    def __init__(self, venv: VecEnv[Any, ActType]) -> None:
        super().__init__(venv)
        if not venv.has_action_mask:
            raise ValueError(f"VecActionMaskObservation: expected a VecEnv with an action_mask(), got {venv!r}")
        self.observation_space = Dict(observation=venv.observation_space, action_mask=mask_space(venv.action_space))

    def observation(self, obs: Any) -> dict[str, Any]:
        """The observations and the masks of the states that all sub-envs are in."""
        return {"observation": obs, "action_mask": self.venv.action_mask()}

    def final_observation(self, obs: Any) -> dict[str, Any]:
        """A terminal observation and a mask of everything."""
        return {"observation": obs, "action_mask": full_mask(self.venv.action_space)}

    def _final_observations(self, batch: Any, n: int) -> dict[str, Any]:
        return {"observation": batch, "action_mask": full_masks(self.venv.action_space, n)}

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        masks = layout.take(self.venv.action_mask(), rows)
        observations = self._taken_in(result.observations, len(rows))
        return VecResetResult({"observation": observations, "action_mask": masks}, result.infos)

    def _observe_now(self) -> Any:
        observations = self._observe(VecWrapper._observe_now(self), self.num_envs)
        if self._held is not None:
            self._held.write(observations, self.venv.frozen)
        return observations
