"""Normalise observations and rewards by running statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import numpy as np

from sekai.batching.layout import concatenate, iterate
from sekai.env import Env, ObservationWrapper, Wrapper
from sekai.normalization import DiscountedReturn, ObservationNormalizer
from sekai.results import ResetResult, StepResult
from sekai.stats import RunningMeanStd, StatsKind
from sekai.types import ActType, ObsType, OptionsType, SeedType


class NormalizeObservation(ObservationWrapper[Any, ActType, Any], Generic[ActType]):
    """Normalises observations to mean 0 and variance 1 by the statistics of those seen so far.

    Works on any observation space: ``Box`` leaves are normalised, ``MaskedBox`` leaves over occupied slots
    only, other leaves pass through. Reset observations update the statistics like any other; a terminal
    observation (``info["final_observation"]`` of an ``AutoReset`` inside) is normalised without updating
    them. A leaf or slot that holds a NaN or an infinity does not update them either.

    Args:
        env: The env to wrap.
        epsilon: Added to the variance.
        stats: "running" for statistics of everything seen, "ewm" for exponentially weighted ones.
        halflife: Of "ewm": observations after which one counts half.
        clip: Normalised values are clipped to ``[-clip, clip]``; None for no clipping.

    Attributes:
        update_running_mean: Set it to False to freeze the statistics.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        env: Env[Any, ActType],
        epsilon: float = 1e-8,
        *,
        stats: StatsKind = "running",
        halflife: float = 1000.0,
        clip: float | None = None,
    ) -> None:
        super().__init__(env)
        self._normalizer = ObservationNormalizer(
            env.observation_space, kind=stats, halflife=halflife, epsilon=epsilon, clip=clip
        )
        self.observation_space = self._normalizer.space
        self.update_running_mean = True

    @property
    def obs_rms(self) -> Any:
        """The running statistics (nested like the observation space)."""
        return self._normalizer.stats

    def observation(self, obs: Any) -> Any:
        """Update the statistics and normalise."""
        batch = concatenate(self.env.observation_space, [obs])
        if self.update_running_mean:
            self._normalizer.update(batch)
        return self._normalized(batch)

    def final_observation(self, obs: Any) -> Any:
        """Normalise without updating the statistics."""
        return self._normalized(concatenate(self.env.observation_space, [obs]))

    def _normalized(self, batch: Any) -> Any:
        return next(iterate(self._normalizer.space, self._normalizer.normalize(batch), 1))

    def state_dict(self) -> dict[str, Any]:
        """The normalisation statistics as plain data."""
        return self._normalizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore statistics saved by ``state_dict()``.

        Raises:
            ValueError: They are of another kind, shape or nesting.
        """
        self._normalizer.load_state_dict(state)


class NormalizeReward(Wrapper[ObsType, ActType, ObsType, ActType], Generic[ObsType, ActType]):
    """Scales rewards by the running standard deviation of the discounted return.

    OpenAI baselines' ``VecNormalize`` reward scaling: rewards are divided, not centred. The return starts
    again with every episode. A reward that is NaN or infinite neither enters it nor counts.

    Args:
        env: The env to wrap.
        gamma: Discount factor in [0, 1].
        epsilon: Added to the variance.

    Attributes:
        update_running_mean: Set it to False to freeze the statistics; the return they are of goes on.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(self, env: Env[ObsType, ActType], gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env)
        self._discounted = DiscountedReturn(1, gamma, epsilon)
        self.update_running_mean = True

    @property
    def return_rms(self) -> RunningMeanStd:
        """The running statistics of the discounted return."""
        return self._discounted.return_rms

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env and scale its reward."""
        return self._scale(self.env.step(action))

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the env and the return; the statistics stay."""
        result = self.env.reset(seed=seed, options=options)
        self._discounted.reset()
        return result

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()``."""
        return self._scale(await self.env.async_step(action))

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """``reset()``, through the env's ``async_reset()``."""
        result = await self.env.async_reset(seed=seed, options=options)
        self._discounted.reset()
        return result

    def state_dict(self) -> dict[str, Any]:
        """The statistics of the return as plain data."""
        return self._discounted.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore statistics saved by ``state_dict()``.

        Raises:
            ValueError: They are of another kind or shape.
        """
        self._discounted.load_state_dict(state)

    def _scale(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        rewards = np.array([result.reward], dtype=np.float64)
        dones = np.array([result.done])
        reward = self._discounted.step(rewards, dones, learn=self.update_running_mean).item()
        return StepResult(result.observation, reward, result.terminated, result.truncated, result.info)
