"""What ``step()`` and ``reset()`` return: frozen records of data, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from sekai.types import InfoDict, ObsType


@dataclass(frozen=True, slots=True, init=False)
class StepResult(Generic[ObsType]):
    """Result of ``Env.step()``.

    Attributes:
        observation: An element of the observation space.
        reward: The reward of this step.
        terminated: The episode reached a terminal state.
        truncated: The episode was cut off, e.g. by a time limit.
        info: Anything else.
    """

    observation: ObsType
    reward: float
    terminated: bool
    truncated: bool
    info: InfoDict

    def __init__(self, observation: ObsType, reward: float, terminated: bool, truncated: bool, info: InfoDict) -> None:
        # One is made in every step of every sub-env: going straight to the slots takes half the time of the
        # ``object.__setattr__`` calls that a generated ``__init__`` of a frozen dataclass makes.
        _set_observation(self, observation)
        _set_reward(self, reward)
        _set_terminated(self, terminated)
        _set_truncated(self, truncated)
        _set_info(self, info)

    @property
    def done(self) -> bool:
        """Whether the episode ended with this step."""
        return self.terminated or self.truncated


_set_observation: Any = StepResult.__dict__["observation"].__set__
_set_reward: Any = StepResult.__dict__["reward"].__set__
_set_terminated: Any = StepResult.__dict__["terminated"].__set__
_set_truncated: Any = StepResult.__dict__["truncated"].__set__
_set_info: Any = StepResult.__dict__["info"].__set__


@dataclass(frozen=True, slots=True)
class ResetResult(Generic[ObsType]):
    """Result of ``Env.reset()``.

    Attributes:
        observation: The first observation of the episode.
        info: Anything else.
    """

    observation: ObsType
    info: InfoDict

    @property
    def done(self) -> bool:
        """Always False: an episode that has just begun has not ended."""
        return False


@dataclass(frozen=True, slots=True)
class VecStepResult(Generic[ObsType]):
    """Structured result from ``VecEnv.step()``.

    Attributes:
        observations: The batch of observations, arrays of shape (N, *obs_shape).
        rewards: float64 (N,).
        terminated: bool (N,).
        truncated: bool (N,).
        infos: One dict per sub-env (see ``sekai.stack_infos`` for arrays).
    """

    observations: ObsType
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    infos: list[InfoDict]

    @property
    def dones(self) -> NDArray[np.bool_]:
        """Bool (N,): whose episode ended."""
        return self.terminated | self.truncated


@dataclass(frozen=True, slots=True)
class VecResetResult(Generic[ObsType]):
    """Structured result from ``VecEnv.reset()``.

    Attributes:
        observations: The batch of first observations, arrays of shape (N, *obs_shape).
        infos: One dict per sub-env.
    """

    observations: ObsType
    infos: list[InfoDict]

    @property
    def dones(self) -> NDArray[np.bool_]:
        """Bool (N,), all False, mirroring ``VecStepResult``."""
        return np.zeros(len(self.infos), dtype=np.bool_)
