"""Copying rows of all columns of a slab in one compiled call, whatever their dtypes: as bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.kernels.jit import jit

_WORD = 8


@jit(allocates=False)
def copy_rows(
    source: NDArray[np.uint8],
    source_starts: NDArray[np.int64],
    source_rows: NDArray[np.int64],
    to: NDArray[np.uint8],
    to_starts: NDArray[np.int64],
    to_rows: NDArray[np.int64],
    row_bytes: NDArray[np.int64],
) -> None:
    """Copy some rows of columns in one stretch of memory to some rows of the same columns in another.

    Args:
        source: u1, the memory that is read.
        source_starts: i8 (C,), where its columns begin, multiples of 8.
        source_rows: i8 (k,), the rows that are read.
        to: u1, the memory that is written.
        to_starts: i8 (C,), likewise.
        to_rows: i8 (k,), the rows that are written.
        row_bytes: i8 (C,), the size of a row of each column.
    """
    for c in range(len(row_bytes)):
        size = row_bytes[c]
        if size % _WORD == 0:
            words, width = size // _WORD, size // _WORD
            source_words = source[source_starts[c] :].view(np.uint64)
            to_words = to[to_starts[c] :].view(np.uint64)
            for j in range(len(to_rows)):
                at, place = source_rows[j] * width, to_rows[j] * width
                for k in range(words):
                    to_words[place + k] = source_words[at + k]
        else:
            for j in range(len(to_rows)):
                at, place = source_starts[c] + source_rows[j] * size, to_starts[c] + to_rows[j] * size
                for k in range(size):
                    to[place + k] = source[at + k]


@jit(allocates=False)
def copy_columns(
    source: NDArray[np.uint8],
    source_starts: NDArray[np.int64],
    to: NDArray[np.uint8],
    to_starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Copy columns in one stretch of memory to another, whole.

    Args:
        source: u1, the memory that is read.
        source_starts: i8 (C,), where its columns begin, multiples of 8.
        to: u1, the memory that is written.
        to_starts: i8 (C,), likewise.
        sizes: i8 (C,), bytes of each column, to the end of its last word.
    """
    for c in range(len(sizes)):
        words = sizes[c] // _WORD
        source_words = source[source_starts[c] :].view(np.uint64)
        to_words = to[to_starts[c] :].view(np.uint64)
        for k in range(words):
            to_words[k] = source_words[k]
