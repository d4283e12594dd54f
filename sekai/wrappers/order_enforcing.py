"""Refuse a step before the first reset."""

from __future__ import annotations

from typing import Generic

from sekai.env import Env, Wrapper
from sekai.errors import ResetRequired
from sekai.results import ResetResult, StepResult
from sekai.types import ActType, ObsType, OptionsType, SeedType


class OrderEnforcing(Wrapper[ObsType, ActType, ObsType, ActType], Generic[ObsType, ActType]):
    """Raises ``ResetRequired`` from a ``step()`` before the first ``reset()``.

    Attributes:
        has_reset: Whether the env has been reset.
    """

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self.has_reset = False

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env.

        Raises:
            ResetRequired: It has not been reset.
        """
        if not self.has_reset:
            raise self._reset_required()
        return self.env.step(action)

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the env."""
        result = self.env.reset(seed=seed, options=options)
        self.has_reset = True
        return result

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()``."""
        if not self.has_reset:
            raise self._reset_required()
        return await self.env.async_step(action)

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """``reset()``, through the env's ``async_reset()``."""
        result = await self.env.async_reset(seed=seed, options=options)
        self.has_reset = True
        return result

    def _reset_required(self) -> ResetRequired:
        return ResetRequired(f"step() on {self}: expected a reset() first, got none")
