"""``MultiDiscrete``: arrays of integers, each from a range of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.spaces.bounds import Bounds, array_of, check_dtype, compact, describe_array
from sekai.spaces.space import Space, allowed_of, check_mask


class MultiDiscrete(Space[NDArray[Any]]):
    """Integer arrays whose element at index i is one of ``start[i], ..., start[i] + nvec[i] - 1``.

    ``sample(mask)`` takes tuples (or lists, or arrays) nested like the axes of ``nvec``, with an array of shape
    ``(nvec[i],)`` for each element: 1 for a value that may be drawn, 0 for one that may not.

    ``contains(x)`` wants an integer array of this shape, of a dtype that casts safely to this one. It takes
    nested lists and tuples of ints as well, and for shape ``()`` an int.

    Args:
        nvec: How many values each element may take, all at least 1; an array of any number of axes.
        dtype: An integer dtype.
        seed: Seeds ``sample()``.
        start: The smallest value of each element, shape of ``nvec``; None for zeros.

    Raises:
        TypeError: ``nvec``, ``start`` or ``dtype`` is not of integers.
        ValueError: An entry of ``nvec`` is below 1, ``start`` has another shape, or a value does not fit the
            dtype.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    _uncompared = ("_nvec",)  # the bounds, stored with or without what repeats

    def __init__(
        self,
        nvec: ArrayLike,
        dtype: DTypeLike = np.int64,
        seed: int | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        counts = _integers(nvec, "MultiDiscrete nvec")
        starts = _integers(np.broadcast_to(0, counts.shape) if start is None else start, "MultiDiscrete start")
        if starts.shape != counts.shape:
            raise ValueError(f"MultiDiscrete start: expected the shape of nvec {counts.shape}, got {starts.shape}")
        if check_dtype(dtype, "MultiDiscrete").kind not in "iu":
            raise TypeError(f"MultiDiscrete dtype: expected an integer dtype, got {dtype!r}")
        small_counts, small_starts = compact(counts), compact(starts)
        if (small_counts < 1).any():
            raise ValueError(f"MultiDiscrete nvec: expected at least 1 everywhere, got {int(small_counts.min())}")
        with np.errstate(over="ignore"):
            last = small_starts + (small_counts - 1)
        if (last < small_starts).any():
            raise ValueError("MultiDiscrete: expected start + nvec - 1 to fit int64")
        self._nvec = small_counts.copy()
        self.bounds = Bounds.parse(starts, np.broadcast_to(last, counts.shape), counts.shape, dtype, "MultiDiscrete")
        super().__init__(self.bounds.shape, self.bounds.dtype, seed)

    @property
    def nvec(self) -> NDArray[np.int64]:
        """int64, read-only, of the shape of an element: how many values each entry may take."""
        return np.broadcast_to(self._nvec, self.shape)

    @property
    def start(self) -> NDArray[Any]:
        """Read-only, of shape and dtype of an element: the smallest value of each entry."""
        return self.bounds.low

    def sample(self, mask: Any = None) -> NDArray[Any]:
        """Draw each element by itself, all values (or all that its mask allows) equally likely.

        Raises:
            TypeError: A mask holds something else than bools and integers, or the masks are not nested.
            ValueError: A mask has the wrong shape, holds values other than 0 and 1, or zeros only.
        """
        if mask is None:
            return self.bounds.sample(self.rng)
        x: NDArray[Any] = self.start.copy()
        nvec = self.nvec
        if isinstance(mask, np.ndarray) and mask.ndim == x.ndim + 1 and x.size and (nvec == mask.shape[-1]).all():
            whole = check_mask(mask, (*self.shape, mask.shape[-1]), 1, "MultiDiscrete.sample mask")
            rows = whole.reshape(x.size, -1)
            if rows.any(axis=1).all():
                x += draw_allowed(rows, self.rng).reshape(self.shape).astype(self.dtype)
                return x
        for index in np.ndindex(*self.shape):
            where = f"MultiDiscrete.sample mask of element {index}"
            allowed = allowed_of(mask_at(mask, index, self.shape), int(nvec[index]), where)
            x[index] = int(x[index]) + int(self.rng.choice(allowed))
        return x

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an integer array (or list) of this shape with every element in its range."""
        array = array_of(x)
        return array is not None and (array.dtype.kind in "iu" or not array.size) and self.bounds.contain(x)

    def to_jsonable(self, samples: Iterable[Any]) -> list[Any]:
        """Nested lists of ints."""
        return [np.asarray(sample).tolist() for sample in samples]

    def from_jsonable(self, samples: Iterable[Any]) -> list[NDArray[Any]]:
        """The arrays that ``to_jsonable`` wrote."""
        return [np.asarray(sample, dtype=self.dtype).reshape(self.shape) for sample in samples]

    def __repr__(self) -> str:
        text = describe_array(self._nvec, self.shape)
        if self.dtype != np.int64:
            text += f", dtype={self.dtype}"
        start = compact(self.start)
        if start.any():
            text += f", start={describe_array(start, self.shape)}"
        return f"MultiDiscrete({text})"


def draw_allowed(allowed: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw in each row the position of a one, all equally likely, as so many ``rng.choice`` would.

    Args:
        allowed: bool or int8 (n, k), zeros and ones, at least a one in each row.
        rng: What is drawn from.

    Returns:
        int64 (n,).
    """
    ones = allowed.cumsum(axis=1, dtype=np.int64)
    drawn = rng.integers(0, ones[:, -1])
    positions: NDArray[np.int64] = (ones > drawn[:, None]).argmax(axis=1)
    return positions


def _integers(values: ArrayLike, where: str) -> NDArray[np.int64]:
    """``values`` as an int64 array that keeps the zero strides of a broadcast view."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError(f"{where}: expected integers in a regular array, got {values!r}") from None
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{where}: expected integers, got {values!r}")
    small = compact(array)
    if small.size and int(small.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{where}: expected values that fit int64, got {int(small.max())}")
    return np.broadcast_to(small.astype(np.int64), array.shape)


def mask_at(mask: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The mask of one element, out of tuples nested like the axes.

    Raises:
        TypeError: They are not nested as deep as there are axes.
        ValueError: They are of other lengths than the axes.
    """
    for axis, i in enumerate(index):
        if not isinstance(mask, (tuple, list)) and (not isinstance(mask, np.ndarray) or mask.ndim == 0):
            raise TypeError(
                f"MultiDiscrete.sample mask: expected tuples nested {len(shape)} deep, "
                f"got {type(mask).__name__} at depth {axis}"
            )
        if len(mask) != shape[axis]:
            raise ValueError(
                f"MultiDiscrete.sample mask: expected {shape[axis]} entries at depth {axis}, got {len(mask)}"
            )
        mask = mask[i]
    return mask
