"""Result arrays whose memory is used again once nobody holds them any more.

Memory that is fresh from the system costs more to touch for the first time than a kernel takes to fill it, and every
large array is such memory. Arrays that a step returned are mostly gone a step or two later, so their memory is kept and
lent again. A loan ends as every object does: the arrays over it refer to it, and when the last of them, or of any view
of them, is gone, so is the loan, and with its end its memory comes back. Nothing counts or guesses.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.batching.slab import ALIGNMENT

#: Bytes below which the allocator gives memory that has been used before anyway.
SMALL = 1 << 15
#: How many memories of one size are kept at most.
_MOST = 32
#: How many shapes and dtypes are known at most: where they go on changing, what was kept for the old ones is let go.
_MOST_KINDS = 64


class Loan:
    """The memory of one array, for as long as anybody sees it.

    Attributes:
        address: Where it begins.
        is_taken: Whether the array has been handed to somebody as theirs alone.
    """

    __slots__ = ("__array_interface__", "address", "is_taken", "_memory", "_home")

    def __init__(
        self, shape: tuple[int, ...], typestr: str, memory: tuple[NDArray[np.uint8], int], home: deque[Any]
    ) -> None:
        self.address = memory[1]
        self.is_taken = False
        self._memory = memory
        self._home = home
        self.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (memory[1], False), "version": 3}

    def __del__(self) -> None:
        try:
            self._home.append(self._memory)
        except AttributeError:  # Ctrl-C came before it had begun
            pass


class Buffers:
    """Makes arrays, out of memory used before where there is some.

    Args:
        least: Bytes below which an array comes from the allocator.
    """

    def __init__(self, least: int = SMALL) -> None:
        self._least = least
        self._kept: dict[int, deque[Any]] = {}  # by size; the last that came back is still in a cache, and goes first
        # The same by shape and dtype, for speed; None where arrays come from the allocator.
        self._of_kind: dict[tuple[tuple[int, ...], Any], tuple[deque[Any], str, int] | None] = {}

    def __reduce__(self) -> Any:
        return Buffers, (self._least,)  # a copy has its own to make

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array of this shape and dtype, C-contiguous, its values undefined.

        No other array of those that are still referred to, in part or as a whole, shares its memory.
        """
        try:
            kind = self._of_kind[shape, dtype]
        except KeyError:
            kind = self._of_kind[shape, dtype] = self._find(shape, np.dtype(dtype))
        except TypeError:  # a list of fields
            return self.take(shape, np.dtype(dtype))
        if kind is None:
            return np.empty(shape, dtype)
        kept, typestr, size = kind
        try:
            memory = kept.pop()
        except IndexError:
            fresh = np.empty(size + ALIGNMENT, np.uint8)
            start = fresh.ctypes.data
            memory = fresh, start + -start % ALIGNMENT
        array: NDArray[Any] = np.asarray(Loan(shape, typestr, memory, kept))
        return array

    def copy(self, array: NDArray[Any]) -> NDArray[Any]:
        """A C-contiguous copy of an array, somebody's alone from the beginning."""
        if array.nbytes < self._least or array.dtype.hasobject:
            return np.array(array)
        copied = self.take(array.shape, array.dtype)
        copied[...] = array
        loan: Any = copied.base
        if loan.__class__ is Loan:
            loan.is_taken = True
        return copied

    def own(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array that nobody else can write to: over the same memory if it is lent and not taken yet, else a copy.

        Whoever made an array that is taken over can read it afterwards, but not write to it any more, unless through a
        view from before: nobody knows of those.
        """
        loan = array.base
        if loan.__class__ is not Loan or loan.is_taken or not array.flags.writeable:
            return self.copy(array)
        loan.is_taken = True
        owned: NDArray[Any] = np.asarray(loan)
        array.flags.writeable = False
        return owned

    def _find(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[deque[Any], str, int] | None:
        if len(self._of_kind) >= _MOST_KINDS:
            self._of_kind.clear()
            self._kept.clear()
        size = math.prod(map(int, shape)) * dtype.itemsize  # in Python's integers: NumPy's would wrap around
        if size < self._least or dtype.hasobject or dtype.kind not in "biufc":
            return None
        return self._kept.setdefault(size, deque(maxlen=_MOST)), dtype.str, size
