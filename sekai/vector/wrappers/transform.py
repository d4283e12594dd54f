"""Transform batches of observations, rewards and actions by a function, or to other bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.actions import ActionClipping, ActionRescaling
from sekai.arguments import Checked
from sekai.batching.buffers import Buffers
from sekai.checks import check_reward_bounds
from sekai.snapshots.agreement import fingerprint
from sekai.spaces import Space
from sekai.types import ActType, ObsType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecActionWrapper, VecObservationWrapper, VecRewardWrapper


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
        min_reward: The least reward, a number or an array (N,) of one for each sub-env; None for no bound.
        max_reward: The greatest reward, likewise.

    Attributes:
        min_reward: The least reward, a float, float64 (N,) or None; another one holds from the next step on.
        max_reward: The greatest reward; likewise.

    Raises:
        TypeError: A bound is no number.
        ValueError: There is none, one is NaN or of another shape, or the least is above the greatest.
    """

    min_reward: Any = Checked(
        lambda self, given: check_reward_bounds(
            given, vars(self).get("max_reward", math.inf), type(self).__name__, self.num_envs
        )[0]
    )
    max_reward: Any = Checked(
        lambda self, given: check_reward_bounds(
            vars(self).get("min_reward", -math.inf), given, type(self).__name__, self.num_envs
        )[1]
    )

    def __init__(
        self, venv: VecEnv[ObsType, ActType], min_reward: ArrayLike | None = None, max_reward: ArrayLike | None = None
    ) -> None:
        super().__init__(venv)
        self.min_reward = min_reward
        self.max_reward = max_reward

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("min_reward", "max_reward")  # which a sub-env does not take along

    def _snapshot_others(self) -> dict[str, Any]:
        bounds = {name: fingerprint(vars(self)[name], name) for name in ("min_reward", "max_reward")}
        return {**super()._snapshot_others(), **bounds}

    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rewards, clipped."""
        clipped: NDArray[np.float64] = np.clip(rewards, self.min_reward, self.max_reward)
        return clipped


class VecClipAction(VecActionWrapper[ObsType, NDArray[Any], NDArray[Any]]):
    """Takes any actions of the right shape and clips them to the bounds of the action space.

    What ``ClipAction`` is for one env, with the same action space, which is unbounded. The actions of frozen sub-envs
    may be anything.

    Args:
        venv: A VecEnv whose action space is a ``Box``.

    Raises:
        TypeError: The action space is no ``Box``.
    """

    def __init__(self, venv: VecEnv[ObsType, NDArray[Any]]) -> None:
        super().__init__(venv)
        self._clip = ActionClipping(venv.action_space, self.num_envs, "VecClipAction")
        self.action_space = self._clip.space
        self._buffers = Buffers()

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_buffers", "_clip")  # the space inside tells what it does

    def action(self, actions: Any) -> NDArray[Any]:
        """The batch, clipped, in the dtype of the action space inside.

        Raises:
            InvalidAction: It is of another shape, or holds something else than numbers.
        """
        return self._clip(actions, self._frozen_before(), self._buffers)

    def action_mask(self) -> Any:
        """The masks of the VecEnv inside: what rests at 0 here rests at the bound nearest to it there."""
        return self.venv.action_mask()

    @property
    def has_action_mask(self) -> bool:
        """Whether the VecEnv inside has masks."""
        return self.venv.has_action_mask


class VecRescaleAction(VecActionWrapper[ObsType, NDArray[Any], NDArray[Any]]):
    """Maps actions from ``[min_action, max_action]`` to the bounds of the action space.

    What ``RescaleAction`` is for one env. The actions of frozen sub-envs may be anything.

    Args:
        venv: A VecEnv whose action space is a bounded ``Box`` of floats.
        min_action: What becomes the lower bound; a number, or an array that broadcasts to the shape of one action.
        max_action: What becomes the upper bound; above ``min_action`` everywhere.

    Raises:
        TypeError: The action space is no ``Box`` of floats.
        ValueError: It is unbounded, or the new bounds are not finite, not ascending or of another shape.
    """

    def __init__(self, venv: VecEnv[ObsType, NDArray[Any]], min_action: ArrayLike, max_action: ArrayLike) -> None:
        super().__init__(venv)
        self._rescale = ActionRescaling(venv.action_space, min_action, max_action, self.num_envs, "VecRescaleAction")
        self.action_space = self._rescale.space
        self._buffers = Buffers()

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_buffers", "_rescale")  # the spaces tell what it does

    def action(self, actions: Any) -> NDArray[Any]:
        """The batch on the scale of the action space inside.

        Raises:
            InvalidAction: It is of another shape, or an action is outside ``[min_action, max_action]``.
        """
        return self._rescale(actions, self._frozen_before(), self._buffers)

    def reverse_action(self, actions: Any) -> NDArray[Any]:
        """The batch that becomes a batch of actions of the VecEnv inside, for demonstrations and replayed ones.

        Of a number that the space inside leaves no choice of, it is ``min_action``.

        Args:
            actions: (N, *shape), of all sub-envs.

        Raises:
            InvalidAction: It is of another shape, or an action is not within the bounds of the space inside.
        """
        return self._rescale.reverse(actions)
