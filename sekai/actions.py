"""Actions that are checked, clipped or on another scale: for the wrappers of one env and of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.batching import layout
from sekai.batching.blocks import RowBlocks
from sekai.batching.buffers import Buffers
from sekai.batching.inputs import check_actions
from sekai.errors import InvalidAction, InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from sekai.spaces.space import name_instead


def expected_action(space: Space[Any]) -> str:
    """What an error message expects of an action: an element of its space, and no NaN or infinity, which a box holds.

    Args:
        space: The action space of one env.
    """
    return f"an element of {space}{', of finite numbers' * _holds_floats(space)}"


def _holds_floats(space: Space[Any]) -> bool:
    if isinstance(space, (Dict, Tuple)):
        return any(map(_holds_floats, space.values() if isinstance(space, Dict) else space))
    return space.dtype is None or space.dtype.kind == "f"


class ActionCheck:
    """Refuses actions that are not in their space, or infinite.

    Args:
        space: The action space of one env.
        n: The number of sub-envs.
    """

    def __init__(self, space: Space[Any], n: int = 1) -> None:
        self._space, self._n = space, n
        self._within = _Within(space, n)

    def one(self, action: Any, where: str) -> None:
        """Refuse the action of one env.

        Args:
            action: The action, which may have to be cast to the space's dtypes.
            where: What the error message begins with.

        Raises:
            InvalidAction: It is not in the space, or infinite.
        """
        try:
            is_in = self._within.holds(layout.batch_of_one(self._space, action), 1)
        except InvalidObservation:
            is_in = False
        if not is_in:
            raise InvalidAction(f"{where}: expected {expected_action(self._space)}, got {action!r}")

    def batch(self, actions: Any, frozen: NDArray[np.bool_] | None) -> Any:
        """The batch in the space's dtypes; not copied where it fits already.

        Args:
            actions: As ``step()`` takes them.
            frozen: bool (n,), sub-envs whose actions nobody takes, which may be anything; None for none.

        Raises:
            ValueError: Their number, shape, dtype or structure is another than that of the batch.
            InvalidAction: One is not in the space, or infinite.
        """
        batch = check_actions(self._space, self._n, actions)
        rows: Sequence[int] = range(self._n)
        looked_at = batch
        if frozen is not None and frozen.any():
            live = np.flatnonzero(~frozen)
            rows, looked_at = live.tolist(), layout.take(batch, live)
        if not self._within.holds(looked_at, len(rows)):
            single = ActionCheck(self._space)
            for row, action in zip(rows, layout.iterate(self._space, looked_at, len(rows)), strict=True):
                single.one(action, f"step(actions), sub-env {row}")
        return batch


class _Within:
    """Whether all elements of a batch are in a space and finite, found out for all at once where that is known how."""

    def __init__(self, space: Space[Any], n: int) -> None:
        self._space = space
        self._parts: dict[Any, _Within] = {}
        self._bounds: RowBlocks | None = None
        kind = type(space)  # a subclass may say anew what is in it
        if isinstance(space, (Dict, Tuple)) and kind in (Dict, Tuple):
            parts = space.items() if isinstance(space, Dict) else enumerate(space)
            self._parts = {key: _Within(part, n) for key, part in parts}
        elif isinstance(space, Box) and kind is Box:
            low, high = space.low, space.high
            if space.dtype.kind == "f":
                limits = np.finfo(space.dtype)
                low, high = np.maximum(low, limits.min), np.minimum(high, limits.max)
            self._bounds = RowBlocks(low, high, most=n)
        elif isinstance(space, (Discrete, MultiDiscrete)) and kind in (Discrete, MultiDiscrete):
            count = space.n if isinstance(space, Discrete) else space.nvec
            self._bounds = RowBlocks(np.asarray(space.start), np.asarray(space.start + count - 1), most=n)
        elif isinstance(space, MultiBinary) and kind is MultiBinary:
            self._bounds = RowBlocks(np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8), most=n)

    def holds(self, batch: Any, count: int) -> bool:
        """Whether all of so many, at most n, are; the batch is laid out for the space and in its dtypes."""
        if self._bounds is not None:
            flat = batch.reshape(-1)
            return all(_is_between(flat[part], *bounds) for part, bounds in self._bounds.of(flat.size))
        if self._parts:
            return all(within.holds(batch[key], count) for key, within in self._parts.items())
        return all(map(self._space.contains, layout.iterate(self._space, batch, count)))


def _is_between(numbers: NDArray[Any], low: Any, high: Any) -> bool:
    """Whether all numbers are, which NaN never is; the bounds are a number each, or as many as there are numbers."""
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
        return bool(((numbers >= low) & (numbers <= high)).all())
    return bool(numbers.min() >= low and numbers.max() <= high)  # the quicker way: nothing is written


class _Map:
    """What becomes of the actions of one env or, all at once, of many.

    Args:
        space: The action space of one env inside.
        n: The number of sub-envs; None for one env, whose actions have no leading axis.
        where: What error messages begin with.

    Attributes:
        inner: The space.

    Raises:
        TypeError: The space is no ``Box``.
    """

    def __init__(self, space: Space[Any], n: int | None, where: str) -> None:
        if not isinstance(space, Box):
            raise TypeError(f"{where}: expected a Box action space, got {name_instead(space, str(space))}")
        self.inner = space
        self._is_one, self._name = n is None, where
        self._where = where if n is None else f"{where}: step(actions)"
        self._shape = space.shape if n is None else (n, *space.shape)
        self._most = 1 if n is None else n

    def _numbers_of(self, action: Any, where: str) -> NDArray[Any]:
        """The action, or the batch, as an array, once it is known to be of its shape; it is never broadcast."""
        expected = f"{where}: expected {'an action' if self._is_one else 'actions'}"
        try:
            array = np.asarray(action)
        except ValueError as ragged:
            raise InvalidAction(f"{expected} of shape {self._shape}, got {ragged}") from None
        if array.shape != self._shape:
            raise InvalidAction(f"{expected} of shape {self._shape}, got shape {array.shape}")
        if array.dtype.kind not in "biuf" or np.ma.is_masked(action):
            raise InvalidAction(f"{expected} of numbers, got {action}")
        return array

    def _row(self, wrong: NDArray[np.bool_], numbers: NDArray[Any], begin: int = 0) -> tuple[str, Any]:
        """Whose action is the first with a wrong number, from the number ``begin`` on, and the action."""
        if self._is_one:
            return "", numbers
        row = (begin + int(wrong.argmax())) // max(1, self.inner.low.size)
        return f", sub-env {row}", numbers[row]

    def _new(self, dtype: np.dtype[Any], buffers: Buffers | None) -> NDArray[Any]:
        return np.empty(self._shape, dtype) if buffers is None else buffers.take(self._shape, dtype)


class ActionClipping(_Map):
    """Clips actions of any size to the bounds of a box.

    Args:
        space: The action space of one env inside.
        n: The number of sub-envs; None for one env.
        where: What error messages begin with.

    Attributes:
        space: The same without bounds (the whole range of the dtype, for integers).

    Raises:
        TypeError: The space is no ``Box``.
    """

    def __init__(self, space: Space[Any], n: int | None, where: str) -> None:
        super().__init__(space, n, where)
        low: float = -np.inf
        high: float = np.inf
        if self.inner.dtype.kind in "iu":
            low, high = np.iinfo(self.inner.dtype).min, np.iinfo(self.inner.dtype).max
        elif self.inner.dtype.kind == "b":
            low, high = 0, 1
        self.space = Box(low, high, self.inner.shape, self.inner.dtype)
        self._terms = RowBlocks(self.inner.low, self.inner.high, most=self._most)

    def __call__(
        self, actions: Any, frozen: NDArray[np.bool_] | None = None, buffers: Buffers | None = None
    ) -> NDArray[Any]:
        """The action or the batch, clipped, in a new array of the dtype of the space inside.

        Args:
            actions: Numbers of that shape, of any dtype.
            frozen: bool (n,), sub-envs whose actions may be anything; None for none.
            buffers: Where a large array comes from.

        Raises:
            InvalidAction: They are of another shape, or something else than numbers.
        """
        numbers = self._numbers_of(actions, self._where)
        if frozen is not None and frozen.any():
            numbers = numbers.copy()
            numbers[frozen] = 0
        if numbers.dtype.kind == "f" and np.isnan(numbers).any():
            whose, action = self._row(np.isnan(numbers).reshape(-1), numbers)
            raise InvalidAction(f"{self._where}{whose}: expected an action of numbers, got {action}")
        out = self._new(self.inner.dtype, buffers)
        flat, result = numbers.reshape(-1), out.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):  # what has no place in the dtype is replaced by a bound
            for block, (low, high) in self._terms.of(flat.size):
                part, clipped = flat[block], result[block]
                if out.dtype.kind == "f":
                    clipped[...] = np.minimum(np.maximum(part, low), high)
                else:  # not in a common dtype, which may be a float that holds no large integers
                    clipped[...] = part.astype(out.dtype)
                    np.copyto(clipped, low, where=part <= low)
                    np.copyto(clipped, high, where=part >= high)
        return out


class ActionRescaling(_Map):
    """Maps actions from other bounds to those of a box, affinely in every number, and exactly at both ends.

    Args:
        space: The action space of one env inside.
        low: What becomes its lower bound; a number, or an array that broadcasts to its shape.
        high: What becomes its upper bound, likewise.
        n: The number of sub-envs; None for one env.
        where: What error messages begin with.

    Attributes:
        space: Of one action on the other scale.

    Raises:
        TypeError: The space is no ``Box`` of floats.
        ValueError: It is unbounded, or the new bounds are not finite, not ascending or of another shape.
    """

    def __init__(self, space: Space[Any], low: ArrayLike, high: ArrayLike, n: int | None, where: str) -> None:
        super().__init__(space, n, where)
        inner = self.inner
        if inner.dtype.kind != "f":
            raise TypeError(f"{where}: expected an action space of floats, got {inner}")
        if not inner.is_bounded():
            raise ValueError(f"{where}: expected a bounded action space, got {inner}")
        least, most = (np.broadcast_to(np.asarray(bound, dtype=inner.dtype), inner.shape) for bound in (low, high))
        if not (np.isfinite(least).all() and np.isfinite(most).all() and (least < most).all()):
            raise ValueError(f"{where}: expected finite min_action < max_action, got {low!r} and {high!r}")
        self.space = Box(least, most, inner.shape, inner.dtype)
        # In float64 a width may be beyond the largest number, but not its half, and rounding may lead beyond a bound;
        # that of narrower floats, at the end, leads back to it.
        self._is_wide = inner.dtype == np.float64
        self._scale = 0.5 if self._is_wide else 1.0
        self._to_inner, self._from_inner = self._terms(self.space, inner), self._terms(inner, self.space)

    def _terms(self, source: Box, target: Box) -> RowBlocks:
        origin = np.multiply(source.low, self._scale, dtype=np.float64)
        width = np.multiply(source.high, self._scale, dtype=np.float64) - origin
        width = np.where(width == 0, 1.0, width)  # of what leaves no choice, the share is 0
        ends = (bound.astype(np.float64) for bound in (source.low, source.high, target.low, target.high))
        return RowBlocks(origin, width, *ends, most=self._most)

    def __call__(
        self, actions: Any, frozen: NDArray[np.bool_] | None = None, buffers: Buffers | None = None
    ) -> NDArray[Any]:
        """The action or the batch on the scale of the space inside, in a new array.

        Args:
            actions: Within ``space``.
            frozen: bool (n,), sub-envs whose actions may be anything; None for none.
            buffers: Where a large array comes from.

        Raises:
            InvalidAction: They are of another shape, or one is outside ``space``.
        """
        numbers = self._numbers_of(actions, self._where)
        if frozen is not None and frozen.any():
            numbers = numbers.astype(np.float64)
            numbers[frozen] = self.space.low
        return self._mapped(numbers, self._to_inner, (self.space, self.inner), self._where, buffers)

    def reverse(self, actions: Any) -> NDArray[Any]:
        """The action or the batch within ``space`` that becomes this one; of what leaves no choice, the lower bound.

        Raises:
            InvalidAction: They are of another shape, or one is outside the space inside.
        """
        where = f"{self._name}.reverse_action"
        numbers = self._numbers_of(actions, where)
        return self._mapped(numbers, self._from_inner, (self.inner, self.space), where, None)

    def _mapped(
        self, numbers: NDArray[Any], terms: RowBlocks, spaces: tuple[Box, Box], where: str, buffers: Buffers | None
    ) -> NDArray[Any]:
        source, target = spaces
        out = self._new(target.dtype, buffers)
        flat, result = numbers.reshape(-1), out.reshape(-1)
        for block, (origin, width, least, most, low, high) in terms.of(flat.size):
            part = flat[block]
            if not _is_between(part, least, most):
                wrong = ~((part >= least) & (part <= most))
                whose, action = self._row(wrong, numbers, block.start)
                raise InvalidAction(f"{where}{whose}: expected an action in {source}, got {action}")
            share = part.astype(np.float64)
            if self._is_wide:
                share *= self._scale
            share -= origin
            share /= width
            rest = 1.0 - share
            rest *= low
            share *= high
            share += rest
            if self._is_wide:
                np.maximum(share, low, out=share)
                np.minimum(share, high, out=share)
            result[block] = share
        return out
