"""Transforms of a VecEnv by a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.arguments import Checked
from sekai.checks import check_reward_bounds
from sekai.spaces import Space
from sekai.types import ActType, ObsType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecObservationWrapper, VecRewardWrapper


class VecTransformObservation(VecObservationWrapper[Any, ActType, Any]):
    """Applies ``func`` to every batch of observations.

    Args:
        venv: The VecEnv to wrap.
        func: Takes and returns a batch of observations, arrays of shape (N, *obs_shape); it also sees terminal
            observations, as batches of one.
        new_observation_space: The space of one transformed observation; None where it stays as it is. A step or reset
            raises ``InvalidObservation`` where ``func`` returns another shape or kind of dtype.

    Examples:
        Pixels, uint8 from 0 to 255, as floats from 0 to 1:

        >>> space = Box(0.0, 1.0, vec.observation_space.shape)
        >>> vec = VecTransformObservation(vec, lambda obs: obs / np.float32(255), space)
    """

    def __init__(
        self,
        venv: VecEnv[Any, ActType],
        func: Callable[[Any], Any],
        new_observation_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(venv)
        self.func = func
        if new_observation_space is not None:
            self.observation_space = new_observation_space

    def observation(self, obs: Any) -> Any:
        """Apply ``func``."""
        return self.func(obs)


class VecTransformReward(VecRewardWrapper[ObsType, ActType]):
    """Applies ``func`` to every batch of rewards (an (N,) float64 array).

    Args:
        venv: The VecEnv to wrap.
        func: Takes and returns float64 (N,).

    Examples:
        >>> vec = VecTransformReward(vec, np.sign)
    """

    def __init__(
        self, venv: VecEnv[ObsType, ActType], func: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> None:
        super().__init__(venv)
        self.func = func

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply ``func``."""
        return self.func(rewards)


class VecClipReward(VecRewardWrapper[ObsType, ActType]):
    """Clips every reward to ``[min_reward, max_reward]``, as ``ClipReward`` does for one env.

    Args:
        venv: The VecEnv to wrap.
        min_reward: The least reward; None for no bound.
        max_reward: The greatest reward; None for no bound.

    Attributes:
        min_reward: As given; another one holds from the next step on.
        max_reward: As given; likewise.

    Raises:
        TypeError: A bound is no number.
        ValueError: There is none, one is NaN, or the least is above the greatest.
    """

    min_reward: Any = Checked(
        lambda self, given: check_reward_bounds(given, vars(self).get("max_reward", math.inf), type(self).__name__)[0]
    )
    max_reward: Any = Checked(
        lambda self, given: check_reward_bounds(self.min_reward, given, type(self).__name__)[1]  # the least comes first
    )

    def __init__(
        self, venv: VecEnv[ObsType, ActType], min_reward: float | None = None, max_reward: float | None = None
    ) -> None:
        super().__init__(venv)
        self.min_reward = min_reward
        self.max_reward = max_reward

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rewards, clipped."""
        clipped: NDArray[np.float64] = np.clip(rewards, self.min_reward, self.max_reward)
        return clipped
