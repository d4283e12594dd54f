"""Result arrays whose memory is used again once nobody holds it any more.

Memory that is fresh from the system costs more to touch for the first time than a kernel takes to fill it, and every
large array is such memory. Arrays that a step returned are mostly gone a step or two later, so their memory is kept
and handed out again: only once nothing refers to the array, or to any view of it.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: Bytes below which the allocator gives memory that has been used before anyway.
SMALL = 1 << 15
#: Where arrays begin: at a cache line.
_ALIGNMENT = 64
#: How many memories of one size are kept at most.
_MOST = 32


class Slab(np.ndarray):
    """The memory of one array; its class tells the arrays made here from all others.

    Attributes:
        offset: Where in it the array begins.
    """

    offset: int = 0


class Buffers:
    """Makes arrays, out of memory used before where there is some.

    Args:
        least: Bytes below which an array comes from the allocator.
    """

    def __init__(self, least: int = SMALL) -> None:
        self._least = least
        self._kept: dict[int, deque[Any]] = {}  # by size, the oldest first
        # The same by shape and dtype, for speed; None where arrays come from the allocator.
        self._of_kind: dict[tuple[tuple[int, ...], Any], deque[Any] | None] = {}

    def __reduce__(self) -> Any:
        return Buffers, (self._least,)  # a copy has its own to make

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array of this shape and dtype, C-contiguous, its values undefined.

        No other array of those that are still referred to, in part or as a whole, shares its memory.
        """
        try:
            kept = self._of_kind[shape, dtype]
        except KeyError:
            kept = self._of_kind[shape, dtype] = self._find(shape, np.dtype(dtype))
        except TypeError:  # a list of fields
            return self.take(shape, np.dtype(dtype))
        if kept is None:
            return np.empty(shape, dtype)
        slab = kept.popleft() if kept else None
        if slab is None or sys.getrefcount(slab) > _SOLE:
            if slab is not None and len(kept) < _MOST - 1:
                kept.append(slab)
            slab = Slab(math.prod(shape) * np.dtype(dtype).itemsize + _ALIGNMENT, np.uint8)
            slab.offset = -slab.ctypes.data % _ALIGNMENT
        kept.append(slab)
        array: NDArray[Any] = np.ndarray(shape, dtype, slab, slab.offset)
        return array

    def _find(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> deque[Any] | None:
        size = math.prod(shape) * dtype.itemsize
        if size < self._least or dtype.hasobject:  # nobody would count references to those
            return None
        return self._kept.setdefault(size, deque())


def is_recycled(array: NDArray[Any]) -> bool:
    """Whether an array is one that ``Buffers.take`` made, as a whole."""
    return array.base.__class__ is Slab


def is_whole(array: NDArray[Any]) -> bool:
    """Whether an array is no view of another one, so that who holds the only reference to it has its memory alone."""
    return array.flags.owndata or is_recycled(array)


def _count_sole() -> int:
    kept = deque([Slab(1, np.uint8)])
    slab = kept.popleft()
    return sys.getrefcount(slab)


#: What ``sys.getrefcount`` says, in this interpreter, of a variable's object that nothing else refers to.
_SOLE = _count_sole()
