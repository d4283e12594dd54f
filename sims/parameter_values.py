"""The parameters of a market that may differ between its sub-envs, as they are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.kernels import jit, streams
from sekai.kernels.streams import Streams
from sims.parameters import Parameter, Randomized, check_parameter


class ParameterValues:
    """Parameters by name: one number for all sub-envs, or float64 (N,).

    A ``Randomized`` one is the middle of its range until it is drawn.

    Args:
        num_envs: The number N of sub-envs.
        limits: The keyword arguments of ``check_parameter`` for each parameter; they are drawn in this order.
        given: A checked value for each.

    Attributes:
        now: The values in force, by name; not to be written to.
        ranges: Those that are drawn.

    Raises:
        ValueError: There is not one value per sub-env.
    """

    def __init__(
        self, num_envs: int, limits: Mapping[str, Mapping[str, float]], given: Mapping[str, Parameter]
    ) -> None:
        self._num_envs = num_envs
        self._limits = limits
        self.now: dict[str, float | NDArray[np.float64]] = {}
        self.ranges: dict[str, Randomized] = {}
        for name in limits:
            self._set(name, given[name])

    @property
    def differ(self) -> bool:
        """Whether any may differ between sub-envs."""
        return not all(isinstance(value, float) for value in self.now.values())

    def read(self, name: str) -> Any:
        """The value in force, a copy."""
        value = self.now[name]
        return value if isinstance(value, float) else np.array(value)

    def change(self, name: str, value: Any) -> Parameter:
        """Set a parameter.

        Args:
            name: Which.
            value: Any that ``check_parameter`` takes; or the same for each sub-env, as ``set_attr`` hands it on.

        Returns:
            What ``check_parameter`` makes of it.

        Raises:
            TypeError: It is no such value.
            ValueError: A value is out of its range, or there is not one per sub-env.
        """
        if isinstance(value, np.ndarray) and value.dtype == object and value.size:
            first = value.flat[0]
            if isinstance(first, Randomized) and any(item != first for item in value.flat):
                raise ValueError(f"{name}: expected one Randomized(low, high) for all sub-envs, got {value.tolist()}")
            value = first if isinstance(first, Randomized) else value.tolist()
        checked = check_parameter(name, value, **self._limits[name])
        self._set(name, checked)
        return checked

    def draw(self, random: Streams, indices: NDArray[np.intp]) -> None:
        """Draw the randomized ones for some sub-envs, which begin an episode, each from its own stream."""
        for name in self._limits:  # in this order, whichever was changed last
            if name in self.ranges:
                draw_uniform(random, indices, self.ranges[name].low, self.ranges[name].high, self.now[name])

    def at(self, indices: NDArray[np.intp]) -> dict[str, Any]:
        """The values in force for some sub-envs: a number, or float64 (k,), by name."""
        return {name: value if isinstance(value, float) else value[indices] for name, value in self.now.items()}

    def _set(self, name: str, value: Parameter) -> None:
        if isinstance(value, np.ndarray) and len(value) != self._num_envs:
            raise ValueError(f"{name}: expected {self._num_envs} values (num_envs), got {len(value)}")
        self.ranges.pop(name, None)
        if isinstance(value, Randomized):
            self.ranges[name] = value
            value = np.full(self._num_envs, 0.5 * value.low + 0.5 * value.high)
        self.now[name] = np.array(value) if isinstance(value, np.ndarray) else value


@jit
def draw_uniform(random: Streams, rows: NDArray[np.intp], low: float, high: float, out: NDArray[np.float64]) -> None:
    """Draw from the uniform distribution on [low, high] for some rows, each from its own stream.

    Args:
        random: The streams of N rows.
        rows: i8 (k,), which.
        low: The least value.
        high: The greatest.
        out: f8 (N,), written at these rows.
    """
    for row in rows:
        out[row] = min(high, low + (high - low) * streams.uniform(random, row))


class ParameterInForce:
    """An attribute of a market that has ``parameter_values`` and ``change_parameter(name, value)``: one of the former.

    Args:
        doc: What it is.
    """

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, market: Any, owner: type) -> Any:
        return self if market is None else market.parameter_values.read(self._name)

    def __set__(self, market: Any, value: Any) -> None:
        market.change_parameter(self._name, value)
