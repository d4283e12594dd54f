"""Whether actions are in their space: for the wrappers of one env and of many that keep them for later."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.blocks import RowBlocks
from sekai.batching.inputs import check_actions, hold_actions
from sekai.errors import InvalidAction, InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, zero_sample


class ActionCheck:
    """Refuses actions that are not in their space.

    Args:
        space: The action space of one env.
        n: The number of sub-envs.
        finite: Whether infinite numbers are refused too.
    """

    def __init__(self, space: Space[Any], n: int = 1, *, finite: bool = False) -> None:
        self._space, self._n, self._finite = space, n, finite
        self._within = _Within(space, n, finite)
        self._rest: Any = None

    def one(self, action: Any, where: str) -> None:
        """Refuse the action of one env.

        Args:
            action: The action, which may have to be cast to the space's dtypes.
            where: What the error message begins with.

        Raises:
            InvalidAction: It is not in the space.
        """
        try:
            is_in = self._within.holds(layout.batch_of_one(self._space, action))
        except InvalidObservation:
            is_in = False
        if not is_in:
            raise InvalidAction(f"{where}: {self._expected}, got {action!r}")

    def batch(self, actions: Any, frozen: NDArray[np.bool_] | None) -> Any:
        """The batch in the space's dtypes; not copied where it fits already and no sub-env is frozen.

        Args:
            actions: As ``step()`` takes them.
            frozen: bool (n,), sub-envs whose actions nobody takes: others, which are in the space, stand for them. None
                for no such sub-envs.

        Raises:
            ValueError: Their number, shape, dtype or structure is another than that of the batch.
            InvalidAction: One is not in the space.
        """
        batch = check_actions(self._space, self._n, actions)
        if frozen is not None and frozen.any():
            if self._rest is None:
                self._rest = layout.concatenate(self._space, [zero_sample(self._space)] * self._n)
            batch = hold_actions(batch, self._rest, frozen)
        if not self._within.holds(batch):
            single = ActionCheck(self._space, finite=self._finite)
            for row, action in enumerate(layout.iterate(self._space, batch, self._n)):
                single.one(action, f"step(actions), sub-env {row}")
        return batch

    @property
    def _expected(self) -> str:
        return f"expected {'finite numbers in' if self._finite else 'an element of'} {self._space}"


class _Within:
    """Whether all elements of a batch are in a space, found out for all at once where that is known how."""

    def __init__(self, space: Space[Any], n: int, finite: bool) -> None:
        self._parts: dict[Any, _Within] = {}
        self._bounds: RowBlocks | None = None
        self._batched: Space[Any] | None = None
        if isinstance(space, (Dict, Tuple)):
            parts = space.items() if isinstance(space, Dict) else enumerate(space)
            self._parts = {key: _Within(part, n, finite) for key, part in parts}
            return
        if isinstance(space, Box):
            low, high = space.low, space.high
            if finite and space.dtype.kind == "f":
                limits = np.finfo(space.dtype)
                low, high = np.maximum(low, limits.min), np.minimum(high, limits.max)
        elif isinstance(space, (Discrete, MultiDiscrete)):
            count = space.n if isinstance(space, Discrete) else space.nvec
            low, high = np.asarray(space.start), np.asarray(space.start + count - 1)
        elif isinstance(space, MultiBinary):
            low, high = np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
        else:
            self._batched = layout.batch_space(space, n)
            return
        self._bounds = RowBlocks(low, high, most=n)

    def holds(self, batch: Any) -> bool:
        """Whether all are; the batch is laid out for the space and in its dtypes."""
        if self._bounds is not None:
            flat = batch.reshape(-1)
            return all(_is_between(flat[part], *bounds) for part, bounds in self._bounds.of(flat.size))
        if self._batched is not None:
            return self._batched.contains(batch)
        return all(within.holds(batch[key]) for key, within in self._parts.items())


def _is_between(numbers: NDArray[Any], low: Any, high: Any) -> bool:
    """Whether all numbers are, which NaN never is; the bounds are a number each, or as many as there are numbers."""
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
        return bool(((numbers >= low) & (numbers <= high)).all())
    return bool(numbers.min() >= low and numbers.max() <= high)  # the quicker way: nothing is written
