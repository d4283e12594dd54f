"""Copying rows of all columns of a slab in one compiled call, whatever their dtypes: as bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.kernels.jit import jit

_WORD = 8


@jit(allocates=False)
def copy_rows(
    source: NDArray[np.int64],
    source_rows: NDArray[np.int64],
    to: NDArray[np.int64],
    to_rows: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Copy some rows of columns in one stretch of memory to some rows of the same columns in another.

    Args:
        source: i8, the memory that is read, as words.
        source_rows: i8 (k,), the rows that are read.
        to: i8, the memory that is written, likewise.
        to_rows: i8 (k,), the rows that are written.
        places: i8 (3, C), of each column the byte at which it begins in ``source``, that in ``to``, both multiples of
            8, and the size of a row.
    """
    source_bytes, to_bytes = source.view(np.uint8), to.view(np.uint8)
    for c in range(places.shape[1]):
        start, to_start, size = places[0, c], places[1, c], places[2, c]
        if size % _WORD == 0:
            words = size // _WORD
            for j in range(len(to_rows)):
                at, place = start // _WORD + source_rows[j] * words, to_start // _WORD + to_rows[j] * words
                for k in range(words):
                    to[place + k] = source[at + k]
        else:
            for j in range(len(to_rows)):
                at, place = start + source_rows[j] * size, to_start + to_rows[j] * size
                for k in range(size):
                    to_bytes[place + k] = source_bytes[at + k]
