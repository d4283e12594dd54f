"""What policies share: those written as compiled functions of one row, and those made of checked numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.kernels.rolling import act_on_batch


class RowPolicy(ABC):
    """A policy that acts by what one observation shows, for batches and for compiled rollouts.

    Attributes:
        width: Numbers of an action.
        dtype: Of an action.
    """

    width: int
    dtype: type

    @abstractmethod
    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        """The compiled policy of a row, and its parameters."""

    def row_policy(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        """The policy for one sub-env at a time, compiled.

        Returns:
            ``row(parameters, observation, action)``, which reads an observation (numbers,) and writes an action; and
            its parameters.
        """
        return self._rule()

    def __call__(self, observations: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Actions, (N, width), for a batch of observations (N, numbers)."""
        row, parameters = self._rule()
        actions = np.empty((len(observations), self.width), self.dtype)
        act_on_batch(row, parameters, observations, actions)
        return actions


class ParametricPolicy(ABC):
    """A frozen dataclass of parameters that are checked, from which follows once what it acts by.

    A parameter that is one number per sub-env makes a policy for that many sub-envs. A subclass says what an
    observation tells it, in ``_act`` for a batch and in ``_row`` for one, which have to agree bit for bit.

    Attributes:
        checks: From the name of a field to its ``check(value, where)``, which returns what the field becomes.
        widths: How many numbers an observation may have.
    """

    checks: ClassVar[Mapping[str, Callable[[Any, str], Any]]]
    widths: ClassVar[tuple[int, ...]]

    _plan: Any

    def __post_init__(self) -> None:
        # The record is frozen for its users; here its fields are still being made.
        name = type(self).__name__
        for field, value in self._parameters().items():
            object.__setattr__(self, field, self.checks[field](value, f"{name}: {field}"))
        lengths = {field: len(values) for field, values in self._per_env().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{name}: expected as many numbers in each parameter, got {lengths}")
        plan = None
        with np.errstate(all="ignore"), suppress(OverflowError, ZeroDivisionError):
            plan = self._make_plan()
        if plan is None or not all(np.isfinite(part).all() for part in plan):
            raise ValueError(f"{name}: expected parameters that give finite actions, got {self}")
        object.__setattr__(self, "_plan", plan)

    @abstractmethod
    def _make_plan(self) -> Any:
        """What the policy acts by, a named tuple of numbers and arrays, from its checked parameters."""

    @abstractmethod
    def _act(self, observations: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Actions for a batch of observations of one of the widths."""

    @abstractmethod
    def _row(self) -> Callable[[Any, Any, Any], None]:
        """The compiled function ``row(plan, observation, action)``."""

    def _parameters(self) -> dict[str, Any]:
        """The fields that are checked."""
        kind: Any = self
        return {item.name: getattr(self, item.name) for item in fields(kind) if item.name in self.checks}

    def _per_env(self) -> dict[str, NDArray[np.float64]]:
        """The parameters that differ between sub-envs."""
        return {name: value for name, value in self._parameters().items() if isinstance(value, np.ndarray)}

    def __call__(self, observations: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Actions for a batch of observations.

        Args:
            observations: (N, one of ``widths``).

        Returns:
            float32 (N, numbers of an action).

        Raises:
            ValueError: Observations are no such batch, or the policy is for another number of sub-envs.
        """
        name, observations = type(self).__name__, np.asarray(observations)
        if observations.ndim != 2 or observations.shape[1] not in self.widths:
            shapes = " or ".join(f"(N, {width})" for width in self.widths)
            raise ValueError(f"{name}: expected observations of shape {shapes}, got {observations.shape}")
        for field, values in self._per_env().items():
            if len(values) != len(observations):
                raise ValueError(
                    f"{name}: expected observations of {len(values)} sub-envs (one {field} each), "
                    f"got {len(observations)}"
                )
        return self._act(observations)

    def row_policy(self) -> tuple[Callable[[Any, Any, Any], None], Any] | None:
        """The policy for one sub-env at a time, compiled; bit for bit the same actions.

        Returns:
            ``row(plan, observation, action)``, which reads an observation, float32 (one of ``widths``,), and writes an
            action; and the plan. None where a parameter differs between sub-envs.
        """
        return None if self._per_env() else (self._row(), self._plan)
