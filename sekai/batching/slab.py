"""Many columns in one stretch of memory, so that a compiled function is told one address for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Where columns begin, in bytes: at a cache line.
ALIGNMENT = 64


def as_word(path: str) -> str:
    """A path, "model.sigma", as a word in a column's name."""
    return path.replace(".", "__")


class Column(NamedTuple):
    """One array of a slab.

    Attributes:
        name: How it is called.
        dtype: Of its items.
        shape: Of one row.
        has_rows: Whether it has one entry per row; else it is one entry.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    has_rows: bool = True

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry."""
        return self.dtype.itemsize * math.prod(self.shape)


class Slab(NamedTuple):
    """Where each of some columns lies in a stretch of memory for a number of rows.

    Attributes:
        columns: In the order in which they lie there.
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, columns: Iterable[Column]) -> Slab:
        """A slab of some columns."""
        return cls(tuple(columns))

    def places(self, num_rows: int) -> Iterator[tuple[Column, int]]:
        """The columns and the bytes at which they begin."""
        start = 0
        for each in self.columns:
            yield each, start
            start += padded(each.row_bytes * (num_rows if each.has_rows else 1))

    def nbytes(self, num_rows: int) -> int:
        """The size of the memory."""
        return sum(padded(each.row_bytes * (num_rows if each.has_rows else 1)) for each in self.columns)

    def allocate(self, num_rows: int) -> NDArray[np.uint8]:
        """Memory of zeros, which begins at a cache line."""
        size = self.nbytes(num_rows)
        memory = np.zeros(size + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + size]

    def views(self, memory: NDArray[np.uint8], num_rows: int) -> dict[str, NDArray[Any]]:
        """The columns as arrays (num_rows, *shape), or (1, *shape), over the memory."""
        return {
            each.name: np.ndarray((num_rows if each.has_rows else 1, *each.shape), each.dtype, memory, start)
            for each, start in self.places(num_rows)
        }


def padded(size: int) -> int:
    """A size that ends where the next column may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT
