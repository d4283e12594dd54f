"""Transform observations, rewards and actions one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.actions import ActionClipping, ActionRescaling
from sekai.arguments import Checked
from sekai.batching.layout import copy_row
from sekai.checks import check_reward_bounds
from sekai.env import ActionWrapper, Env, ObservationWrapper, RewardWrapper
from sekai.spaces import Space, flatten, flatten_space
from sekai.types import ActType, ObsType


class TransformObservation(ObservationWrapper[Any, ActType, Any], Generic[ActType]):
    """Applies ``func`` to every observation, terminal ones too.

    Args:
        env: The env to wrap.
        func: Takes an observation and returns another.
        new_observation_space: The space of what it returns; None if that is the env's own. It is not looked at here:
            a ``VecEnv``, and a wrapper that works with it, raises ``InvalidObservation`` for an observation of another
            shape or kind of dtype.

    Examples:
        Pixels, uint8 from 0 to 255, as floats from 0 to 1:

        >>> space = Box(0.0, 1.0, env.observation_space.shape)
        >>> env = TransformObservation(env, lambda obs: obs / np.float32(255), space)
    """

    def __init__(
        self,
        env: Env[Any, ActType],
        func: Callable[[Any], Any],
        new_observation_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env)
        self.func = func
        if new_observation_space is not None:
            self.observation_space = new_observation_space

    def observation(self, obs: Any) -> Any:
        """``func(obs)``."""
        return self.func(obs)


class FlattenObservation(ObservationWrapper[NDArray[Any], ActType, Any], Generic[ActType]):
    """Flattens every observation, however nested, into one vector (see ``sekai.space_utils.flatten``).

    Args:
        env: The env to wrap.
    """

    def __init__(self, env: Env[Any, ActType]) -> None:
        super().__init__(env)
        self.observation_space = flatten_space(env.observation_space)

    def observation(self, obs: Any) -> NDArray[Any]:
        """The observation as one vector.

        Raises:
            InvalidObservation: Its shape, dtype or structure is another than that of the env's observation space.
        """
        space = self.env.observation_space
        return flatten(space, copy_row(space, obs))


class TransformReward(RewardWrapper[ObsType, ActType], Generic[ObsType, ActType]):
    """Applies ``func`` to every reward.

    Args:
        env: The env to wrap.
        func: Takes a reward and returns another.

    Examples:
        >>> env = TransformReward(env, lambda reward: 0.1 * reward)
    """

    def __init__(self, env: Env[ObsType, ActType], func: Callable[[float], float]) -> None:
        super().__init__(env)
        self.func = func

    def reward(self, reward: float) -> float:
        """``func(reward)``."""
        return self.func(reward)


class ClipReward(RewardWrapper[ObsType, ActType], Generic[ObsType, ActType]):
    """Clips every reward to ``[min_reward, max_reward]``.

    Args:
        env: The env to wrap.
        min_reward: The least reward, a number or an array of one; None for no bound.
        max_reward: The greatest reward, likewise.

    Attributes:
        min_reward: The least reward, a float or None; another one holds from the next step on.
        max_reward: The greatest reward; likewise.

    Raises:
        TypeError: A bound is no number.
        ValueError: There is none, one is NaN or holds several numbers, or the least is above the greatest.
    """

    min_reward: Any = Checked(
        lambda self, given: check_reward_bounds(given, vars(self).get("max_reward", math.inf), type(self).__name__)[0]
    )
    max_reward: Any = Checked(
        lambda self, given: check_reward_bounds(vars(self).get("min_reward", -math.inf), given, type(self).__name__)[1]
    )

    def __init__(
        self, env: Env[ObsType, ActType], min_reward: ArrayLike | None = None, max_reward: ArrayLike | None = None
    ) -> None:
        super().__init__(env)
        self.min_reward = min_reward
        self.max_reward = max_reward

    def reward(self, reward: float) -> float:
        """The reward, clipped."""
        return float(np.clip(reward, self.min_reward, self.max_reward))


class ClipAction(ActionWrapper[ObsType, NDArray[Any], NDArray[Any]], Generic[ObsType]):
    """Takes any action of the right shape and clips it to the bounds of the env's action space.

    Its own action space is unbounded (the whole range of the dtype, for integers).

    Args:
        env: An env whose action space is a ``Box``.

    Raises:
        TypeError: The action space is no ``Box``.
    """

    def __init__(self, env: Env[ObsType, NDArray[Any]]) -> None:
        super().__init__(env)
        self._clip = ActionClipping(env.action_space, None, "ClipAction")
        self.action_space = self._clip.space

    def action(self, action: NDArray[Any]) -> NDArray[Any]:
        """The action, clipped, in the dtype of the env's action space.

        Raises:
            InvalidAction: It is of another shape, or holds something else than numbers.
        """
        return self._clip(action)

    def action_mask(self) -> Any:
        """The mask of the env inside: what rests at 0 here rests at the bound nearest to it there."""
        return self.env.action_mask()

    @property
    def has_action_mask(self) -> bool:
        """Whether the env inside has a mask."""
        return self.env.has_action_mask


class RescaleAction(ActionWrapper[ObsType, NDArray[Any], NDArray[Any]], Generic[ObsType]):
    """Maps actions from ``[min_action, max_action]`` to the bounds of the env's action space.

    The map is affine in every number, and exact at both ends.

    Args:
        env: An env whose action space is a bounded ``Box`` of floats.
        min_action: What becomes the lower bound; a number, or an array that broadcasts to the action's shape.
        max_action: What becomes the upper bound; above ``min_action`` everywhere.

    Raises:
        TypeError: The action space is no ``Box`` of floats.
        ValueError: It is unbounded, or the new bounds are not finite, not ascending or of another shape.
    """

    def __init__(self, env: Env[ObsType, NDArray[Any]], min_action: ArrayLike, max_action: ArrayLike) -> None:
        super().__init__(env)
        self._rescale = ActionRescaling(env.action_space, min_action, max_action, None, "RescaleAction")
        self.action_space = self._rescale.space

    def action(self, action: NDArray[Any]) -> NDArray[Any]:
        """The action on the scale of the env's action space.

        Raises:
            InvalidAction: It is of another shape, or outside ``[min_action, max_action]``.
        """
        return self._rescale(action)

    def reverse_action(self, action: NDArray[Any]) -> NDArray[Any]:
        """The action of this wrapper that becomes an action of the env inside, for demonstrations and replayed ones.

        Of a number that the env leaves no choice of, it is ``min_action``.

        Raises:
            InvalidAction: It is of another shape, or not within the bounds of the env's action space.
        """
        return self._rescale.reverse(action)
