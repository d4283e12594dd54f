"""Arithmetic of every row of a batch with the same few numbers, a stretch of memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Numbers that are worked on at once: few enough for what lies between two lines of arithmetic to stay in a cache.
_BLOCK = 1 << 15


class RowBlocks:
    """Terms for each number of a row, repeated for a block of rows.

    NumPy would loop over the few numbers of one row again and again, which takes longer than the arithmetic.

    Args:
        terms: Arrays of the shape of a row.
        most: Rows of a batch at most, where that is known.
    """

    def __init__(self, *terms: NDArray[Any], most: int = _BLOCK) -> None:
        self._size = max(1, terms[0].size)
        self._rows = max(1, min(most, _BLOCK // self._size))
        self._terms = [self._repeated(term) for term in terms]

    def _repeated(self, numbers: NDArray[Any]) -> Any:
        """A number where all are the same, else one for each of a block of rows."""
        if numbers.size and (numbers == numbers.flat[0]).all():
            return numbers.flat[0]
        return np.tile(numbers.reshape(-1), self._rows)

    def of(self, count: int) -> Iterator[tuple[slice, list[Any]]]:
        """The blocks of a flat batch of ``count`` numbers: which of them, and the terms, a number or as many."""
        block = self._rows * self._size
        for begin in range(0, count, block):
            part = slice(begin, min(begin + block, count))
            length = part.stop - begin
            yield part, [term[:length] if isinstance(term, np.ndarray) else term for term in self._terms]
