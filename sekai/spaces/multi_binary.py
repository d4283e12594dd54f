"""``MultiBinary``: arrays of zeros and ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import check_count
from sekai.spaces.bounds import array_of
from sekai.spaces.space import Space, check_mask, check_shape


class MultiBinary(Space[NDArray[np.int8]]):
    """int8 arrays of zeros and ones.

    ``sample(mask)`` takes an array of the shape: 0 and 1 fix an element to that value, 2 leaves it free.

    ``contains(x)`` takes integer and bool arrays of the shape, nested lists and tuples likewise, and for
    shape ``()`` a number.

    Args:
        n: How many elements, for a 1-D array; or a shape. Every axis is at least 1.
        seed: Seeds ``sample()``.

    Attributes:
        n: As given, an int or a tuple of ints.

    Raises:
        TypeError: ``n`` is neither an integer nor a sequence of them.
        ValueError: An axis is below 1.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.int8]

    _uncompared = ("n",)  # the shape, as it was given

    def __init__(self, n: int | Iterable[int], seed: int | None = None) -> None:
        shape: tuple[int, ...]
        self.n: int | tuple[int, ...]
        if isinstance(n, Iterable) and not (isinstance(n, np.ndarray) and n.ndim == 0):
            self.n = shape = check_shape(n, "MultiBinary n")
        else:
            self.n = check_count(n, "MultiBinary n")
            shape = (self.n,)
        if 0 in shape:
            raise ValueError(f"MultiBinary n: expected every axis to be at least 1, got {shape}")
        super().__init__(shape, np.int8, seed)

    def sample(self, mask: ArrayLike | None = None) -> NDArray[np.int8]:
        """Draw each element by itself, 0 and 1 equally likely where the mask leaves it free.

        Raises:
            TypeError: The mask holds something else than bools and integers.
            ValueError: The mask is not of the shape or holds values other than 0, 1 and 2.
        """
        x = np.asarray(self.rng.integers(0, 2, size=self.shape, dtype=np.int8))
        if mask is not None:
            fixed = check_mask(mask, self.shape, 2, "MultiBinary.sample mask")
            np.copyto(x, fixed, where=fixed != 2)
        return x

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an integer or bool array (or list) of this shape, of zeros and ones."""
        array = array_of(x)
        return (
            array is not None
            and array.shape == self.shape
            and array.dtype.kind in "iub"
            and bool(((array == 0) | (array == 1)).all())
        )

    def to_jsonable(self, samples: Iterable[Any]) -> list[Any]:
        """Nested lists of ints."""
        return [np.asarray(sample, dtype=np.int8).tolist() for sample in samples]

    def from_jsonable(self, samples: Iterable[Any]) -> list[NDArray[np.int8]]:
        """The arrays that ``to_jsonable`` wrote."""
        return [np.asarray(sample, dtype=np.int8) for sample in samples]

    def __repr__(self) -> str:
        return f"MultiBinary({self.n})"
