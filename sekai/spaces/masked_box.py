"""``MaskedBox``: a padded set, up to ``max_size`` arrays and a mask that tells which slots are occupied."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.checks import check_count
from sekai.spaces.bounds import Bounds, plain_numbers
from sekai.spaces.space import Space, check_mask, check_shape

#: The key of the arrays and the key of the mask in a sample.
_VALUES, _MASK = "values", "mask"


class MaskedBox(Space[dict[str, NDArray[Any]]]):
    """Sets of up to ``max_size`` arrays, padded to a fixed size: open orders, assets that trade today.

    An element is ``{"values": (*batch_shape, max_size, *shape) dtype, "mask": (*batch_shape, max_size)
    int8}``. The mask is 1 for an occupied slot, 0 for an empty one; occupied slots may be any. Occupied slots
    lie within the bounds, empty ones hold ``fill_value`` exactly (which itself need not lie within the
    bounds).

    ``sample()`` draws how many slots are occupied, then which, all equally likely, and their values as
    ``Box`` does. ``sample(mask)`` takes an array of ``mask_shape``: 1 for an occupied slot, 0 for an empty one.

    Args:
        low: Lower bound of one slot's array, as for ``Box``.
        high: Upper bound, likewise.
        shape: Shape of one slot's array. None takes that of the bounds, ``(1,)`` when both are numbers.
        max_size: How many slots, at least 1.
        dtype: Dtype of the values, as for ``Box``.
        fill_value: What empty slots hold, a number; None for 0.
        seed: Seeds ``sample()``.
        batch_shape: Axes in front, for a batch of sets.

    Attributes:
        shape: Shape of one slot's array.
        dtype: Dtype of the values.
        max_size: As given.
        fill_value: A NumPy scalar of the dtype.
        batch_shape: As given.
        values_shape: ``(*batch_shape, max_size, *shape)``.
        mask_shape: ``(*batch_shape, max_size)``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: A bound is wrong (see ``Box``), ``max_size`` is below 1, or ``fill_value`` is NaN or does
            not fit the dtype.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        shape: Iterable[int] | None = None,
        *,
        max_size: int,
        dtype: DTypeLike = np.float32,
        fill_value: float | None = None,
        seed: int | None = None,
        batch_shape: Iterable[int] = (),
    ) -> None:
        self.bounds = Bounds.parse(low, high, shape, dtype, "MaskedBox")
        self.max_size = check_count(max_size, "MaskedBox max_size")
        self._set_batch_shape(check_shape(batch_shape, "MaskedBox batch_shape"))
        self.fill_value = _check_fill(0 if fill_value is None else fill_value, self.bounds.dtype)
        super().__init__(self.bounds.shape, self.bounds.dtype, seed)

    def _set_batch_shape(self, batch_shape: tuple[int, ...]) -> None:
        self.batch_shape = batch_shape
        self.mask_shape = (*batch_shape, self.max_size)
        self.values_shape = self.mask_shape + self.bounds.shape

    def expand(self, lead: tuple[int, ...]) -> MaskedBox:
        """The space of a batch of these sets, with axes ``lead`` in front and a generator of its own."""
        batch = copy(self)
        batch._rng = None
        batch._set_batch_shape(lead + self.batch_shape)
        return batch

    @property
    def low(self) -> NDArray[Any]:
        """Lower bounds of one slot's array, read-only, of its shape and dtype."""
        return self.bounds.low

    @property
    def high(self) -> NDArray[Any]:
        """Upper bounds of one slot's array, read-only, of its shape and dtype."""
        return self.bounds.high

    def sample(self, mask: ArrayLike | None = None) -> dict[str, NDArray[Any]]:
        """Draw a set, of the occupied slots that the mask says.

        Raises:
            TypeError: The mask holds something else than bools and integers.
            ValueError: The mask is not of ``mask_shape`` or holds values other than 0 and 1.
        """
        if mask is None:
            occupied = self._draw_occupied()
        else:
            occupied = check_mask(mask, self.mask_shape, 1, "MaskedBox.sample mask") == 1
        values = self.bounds.sample(self.rng, self.mask_shape)
        values[~occupied] = self.fill_value
        return {_VALUES: values, _MASK: occupied.astype(np.int8)}

    def _draw_occupied(self) -> NDArray[np.bool_]:
        sizes = self.rng.integers(0, self.max_size, size=(*self.batch_shape, 1), endpoint=True)
        order = self.rng.random(self.mask_shape).argsort(axis=-1)
        return order < sizes

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a set of this size: occupied slots in bounds, the others at fill_value."""
        if not isinstance(x, dict) or x.keys() != {_VALUES, _MASK}:
            return False
        values, mask = x[_VALUES], x[_MASK]
        if not _fits(values, self.values_shape, self.dtype) or not _fits(mask, self.mask_shape, np.dtype(np.int8)):
            return False
        if ((mask != 0) & (mask != 1)).any():
            return False
        occupied = (mask == 1).reshape(self.mask_shape + (1,) * len(self.shape))
        return bool(np.where(occupied, self.bounds.inside(values), values == self.fill_value).all())

    def empty(self) -> dict[str, NDArray[Any]]:
        """The element without an occupied slot."""
        return {
            _VALUES: np.full(self.values_shape, self.fill_value, dtype=self.dtype),
            _MASK: np.zeros(self.mask_shape, dtype=np.int8),
        }

    def pack(self, values: ArrayLike, slots: ArrayLike | None = None) -> dict[str, NDArray[Any]]:
        """Put ``k`` arrays into slots of their own.

        Args:
            values: Shape ``(k, *shape)``; integers for an integer dtype, numbers for a float one, to which
                they are rounded. Not checked against the bounds; ``contains`` does that.
            slots: k different slots in ``range(max_size)``; None for the first k.

        Returns:
            An element with those slots occupied.

        Raises:
            TypeError: The values do not cast to the dtype, or slots are not integers.
            ValueError: The space is a batch, there are more values than slots or values of another shape, a
                value does not fit the dtype, or a slot is repeated or out of range.
        """
        self._refuse_batch("pack")
        array = np.asarray(values)
        if array.size == 0 and array.shape == (0,):
            array = np.empty((0, *self.shape), dtype=self.dtype)
        if array.shape[1:] != self.shape or array.ndim == 0:
            expected = ", ".join(("k", *map(str, self.shape)))
            raise ValueError(f"MaskedBox.pack: expected values of shape ({expected}), got {array.shape}")
        k = len(array)
        if k > self.max_size:
            raise ValueError(f"MaskedBox.pack: expected at most {self.max_size} values (max_size), got {k}")
        integers = array.dtype.kind in "iu" and self.dtype.kind in "iu"
        if not integers and not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise TypeError(f"MaskedBox.pack: expected values that cast to {self.dtype}, got {array.dtype}")
        cast, changed = _cast(array, self.dtype)
        if changed.any():
            raise ValueError(f"MaskedBox.pack: expected values that fit {self.dtype}, got {array[changed][0]}")
        at: Any = slice(k) if slots is None else self._check_slots(slots, k)
        sample = self.empty()
        sample[_VALUES][at] = cast
        sample[_MASK][at] = 1
        return sample

    def _check_slots(self, slots: ArrayLike, k: int) -> NDArray[np.intp]:
        array = np.asarray(slots)
        if array.shape != (k,):
            raise ValueError(f"MaskedBox.pack: expected slots of shape ({k},), one per value, got {array.shape}")
        if k and array.dtype.kind not in "iu":
            raise TypeError(f"MaskedBox.pack: expected integer slots, got {array.dtype}")
        outside = array[(array < 0) | (array >= self.max_size)]
        if len(outside):
            raise ValueError(f"MaskedBox.pack: expected slots from 0 to {self.max_size - 1}, got {outside[0]}")
        if len(np.unique(array)) != k:
            raise ValueError(f"MaskedBox.pack: expected different slots, got {array.tolist()}")
        return array.astype(np.intp)

    def unpack(self, sample: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The arrays of the occupied slots.

        Returns:
            Values of shape ``(k, *shape)`` and their k slots in rising order, copies both.

        Raises:
            ValueError: The space is a batch.
        """
        self._refuse_batch("unpack")
        slots = np.flatnonzero(sample[_MASK])
        return sample[_VALUES][slots], slots

    def _refuse_batch(self, method: str) -> None:
        if self.batch_shape:
            raise ValueError(f"MaskedBox.{method}: expected the space of one set, got batch_shape={self.batch_shape}")

    def to_jsonable(self, samples: Iterable[Any]) -> list[dict[str, Any]]:
        """One dict of nested lists per element."""
        return [{key: np.asarray(sample[key]).tolist() for key in (_VALUES, _MASK)} for sample in samples]

    def from_jsonable(self, samples: Iterable[Any]) -> list[dict[str, NDArray[Any]]]:
        """The dicts of arrays that ``to_jsonable`` wrote."""
        return [
            {
                _VALUES: np.asarray(sample[_VALUES], dtype=self.dtype).reshape(self.values_shape),
                _MASK: np.asarray(sample[_MASK], dtype=np.int8).reshape(self.mask_shape),
            }
            for sample in samples
        ]

    def __repr__(self) -> str:
        low, high = self.bounds.describe()
        text = f"{low}, {high}, {self.shape}, max_size={self.max_size}, dtype={self.dtype}"
        if self.fill_value != 0:
            text += f", fill_value={plain_numbers(self.fill_value)!r}"
        if self.batch_shape:
            text += f", batch_shape={self.batch_shape}"
        return f"MaskedBox({text})"


def _check_fill(fill_value: Any, dtype: np.dtype[Any]) -> Any:
    """``fill_value`` as a scalar of ``dtype``; only a float may be rounded."""
    given = np.asarray(fill_value)
    if given.ndim or given.dtype.kind not in "biuf":
        raise TypeError(f"MaskedBox fill_value: expected a number, got {fill_value!r}")
    if given != given:
        raise ValueError("MaskedBox fill_value: expected a number, got NaN")
    cast, changed = _cast(given, dtype)
    if changed:
        raise ValueError(f"MaskedBox fill_value: expected a value that fits {dtype}, got {fill_value!r}")
    return cast[()]


def _cast(array: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """``array`` in ``dtype``, and where that changed it: a float may be rounded, but not to infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    return cast, np.asarray(np.isinf(cast) != np.isinf(array) if dtype.kind == "f" else cast != array)


def _fits(x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return isinstance(x, np.ndarray) and x.shape == shape and np.can_cast(x.dtype, dtype)
