"""Columns of a snapshot: one entry of each per sub-env, in one stretch of memory or each in its own."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.slab import Slab


@dataclass(frozen=True, eq=False)
class Places:
    """Where the columns of a slab lie in memory for a number of entries.

    Attributes:
        slab: The columns.
        count: Entries of each.
        starts: i8, the bytes at which they begin.
        offsets: The same, in words of 8 bytes.
        words: The size of the memory, likewise.
        row_bytes: i8, the size of an entry of each.
    """

    slab: Slab
    count: int
    starts: NDArray[np.int64]
    offsets: tuple[int, ...]
    words: int
    row_bytes: NDArray[np.int64]


@functools.lru_cache(maxsize=256)
def places_of(slab: Slab, count: int) -> Places:
    """Where the columns of a slab lie: of an equal one the same object, so that most need not be compared."""
    slab = slab if count == 1 else places_of(slab, 1).slab
    starts = [start for _, start in slab.places(count)]
    offsets = tuple(start // 8 for start in starts)
    row_bytes = np.array([each.row_bytes for each in slab.columns])
    return Places(slab, count, np.array(starts), offsets, slab.nbytes(count) // 8, row_bytes)


class SlabColumns(Mapping[str, NDArray[Any]]):
    """Columns that lie in one stretch of memory, of which arrays are made when somebody asks for them.

    Args:
        places: Where they lie.
        words: i8, the memory, aligned for any number.

    Attributes:
        places: The same.
        words: The same.
    """

    __slots__ = ("places", "words")

    def __init__(self, places: Places, words: NDArray[np.int64]) -> None:
        self.places = places
        self.words = words

    @classmethod
    def empty(cls, places: Places) -> SlabColumns:
        """Columns whose values are undefined."""
        return cls(places, np.empty(places.words, np.int64))

    @classmethod
    def of(cls, slab: Slab, columns: Mapping[str, NDArray[Any]]) -> SlabColumns:
        """A copy of columns, among which are those of the slab."""
        made = cls.empty(places_of(slab, len(columns[slab.columns[0].name])))
        for each in slab.columns:
            made.view(each.name)[...] = columns[each.name]
        return made

    @property
    def count(self) -> int:
        """Entries of each column."""
        return self.places.count

    def freeze(self) -> SlabColumns:
        """The same, never to be written to again."""
        self.words.setflags(write=False)
        return self

    def take(self, rows: NDArray[np.intp]) -> SlabColumns:
        """The columns of some of the entries."""
        from sekai.kernels.slabs import copy_rows

        own = self.places
        taken = SlabColumns.empty(places_of(own.slab, len(rows)))
        places = np.array([own.starts, taken.places.starts, own.row_bytes])
        copy_rows(self.words, rows, taken.words, np.arange(len(rows)), places)
        return taken.freeze()

    def view(self, name: str) -> NDArray[Any]:
        """A column as an array over the memory."""
        for each, start in zip(self.places.slab.columns, self.places.starts.tolist(), strict=True):
            if each.name == name:
                array: NDArray[Any] = np.ndarray((self.count, *each.shape), each.dtype, self.words, start)
                return array
        raise KeyError(name)

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self.view(name)
        array.flags.writeable = False
        return array

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in self.places.slab.columns)

    def __len__(self) -> int:
        return len(self.places.slab.columns)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def spread(column: NDArray[Any], count: int) -> NDArray[Any]:
    """A column of as many entries: that of one sub-env is all sub-envs'."""
    return column if len(column) == count else np.repeat(column, count, axis=0)
