"""What ``step()`` and ``reset()`` return: frozen records of data, nothing else.

One ``StepResult`` is made in every step of every sub-env, so the two records of a step are filled while they are still
of a class that is not frozen: the ``object.__setattr__`` calls of a frozen dataclass take three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

from sekai.types import InfoDict, ObsType

_new: Any = object.__new__


def _fill(record: Any, values: tuple[Any, ...]) -> Any:
    """Set the fields of a frozen record."""
    for name, value in zip(record.__dataclass_fields__, values, strict=False):
        object.__setattr__(record, name, value)
    return record


class _Record:
    """What all four results share: that they are read by name, and say so to whoever unpacks them."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker finds it by itself, as long as there is no such method

        def __iter__(self) -> Any:
            raise TypeError(_line_to_write(self, "unpacked"))

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(_line_to_write(self, f"indexed with {key!r}"))


def _line_to_write(record: Any, done: str) -> str:
    fields = ", ".join(f"result.{name}" for name in record.__dataclass_fields__)
    # Several calls return it (reset(), reset_envs(), await async_reset(), ...), so that none is named.
    remedy = f"write `result = ...` with the same call in place of the dots, and then {fields}"
    return f"{type(record).__name__} is read by name and cannot be {done}: {remedy}"


class _StepFields(_Record, Generic[ObsType]):
    """A ``StepResult`` that is being filled."""

    __slots__ = ("observation", "reward", "terminated", "truncated", "info")


@dataclass(frozen=True, init=False)
class StepResult(_StepFields[ObsType]):
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

    __slots__ = ()

    def __new__(
        cls, observation: ObsType, reward: float, terminated: bool, truncated: bool, info: InfoDict
    ) -> StepResult[ObsType]:
        """Make the record; see above for the way."""
        result: Any = _new(_StepFields if cls is StepResult else cls)
        if cls is not StepResult:  # a subclass has another layout
            return _fill(result, (observation, reward, terminated, truncated, info))  # type: ignore[no-any-return]
        result.observation = observation
        result.reward = reward
        result.terminated = terminated
        result.truncated = truncated
        result.info = info
        result.__class__ = cls
        return result  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return type(self), (self.observation, self.reward, self.terminated, self.truncated, self.info)

    @property
    def done(self) -> bool:
        """Whether the episode ended with this step."""
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class ResetResult(_Record, Generic[ObsType]):
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


class _VecStepFields(_Record, Generic[ObsType]):
    """A ``VecStepResult`` that is being filled."""

    __slots__ = ("observations", "rewards", "terminated", "truncated", "infos")


@dataclass(frozen=True, init=False)
class VecStepResult(_VecStepFields[ObsType]):
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

    __slots__ = ()

    def __new__(
        cls,
        observations: ObsType,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: list[InfoDict],
    ) -> VecStepResult[ObsType]:
        """Make the record; see above for the way."""
        result: Any = _new(_VecStepFields if cls is VecStepResult else cls)
        if cls is not VecStepResult:  # a subclass has another layout
            return _fill(result, (observations, rewards, terminated, truncated, infos))  # type: ignore[no-any-return]
        result.observations = observations
        result.rewards = rewards
        result.terminated = terminated
        result.truncated = truncated
        result.infos = infos
        result.__class__ = cls
        return result  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return type(self), (self.observations, self.rewards, self.terminated, self.truncated, self.infos)

    @property
    def dones(self) -> NDArray[np.bool_]:
        """Bool (N,): whose episode ended."""
        return self.terminated | self.truncated


@dataclass(frozen=True, slots=True)
class VecResetResult(_Record, Generic[ObsType]):
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
