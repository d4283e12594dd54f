"""``Discrete``: one of ``n`` consecutive integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sekai.checks import check_count, check_integer
from sekai.spaces.space import Space, allowed_of

_INT64 = np.iinfo(np.int64)


class Discrete(Space[np.int64]):
    """The integers ``start, start + 1, ..., start + n - 1``; a sample is a ``numpy.int64``.

    ``sample(mask)`` takes an array of shape ``(n,)``: 1 for an integer that may be drawn, 0 for one that may not.

    ``contains(x)`` takes ints, NumPy integers and integer arrays of shape ``()``; no bools, no floats.

    Args:
        n: How many integers, at least 1.
        seed: Seeds ``sample()``.
        start: The smallest one; may be negative.

    Attributes:
        n: As given.
        start: As given.

    Raises:
        TypeError: ``n`` or ``start`` is no integer.
        ValueError: ``n`` is below 1, or an element does not fit int64.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.int64]

    def __init__(self, n: int, seed: int | None = None, start: int = 0) -> None:
        self.n = check_count(n, "Discrete n")
        self.start = check_integer(start, "Discrete start")
        self._stop = self.start + self.n
        if self.start < _INT64.min or self._stop - 1 > _INT64.max:
            raise ValueError(f"Discrete: expected elements that fit int64, got n={self.n}, start={self.start}")
        super().__init__((), np.int64, seed)

    def sample(self, mask: ArrayLike | None = None) -> np.int64:
        """Draw one of the integers, all (or all that the mask allows) equally likely.

        Raises:
            TypeError: The mask holds something else than bools and integers.
            ValueError: The mask is not of shape ``(n,)``, holds values other than 0 and 1, or zeros only.
        """
        if mask is None:
            drawn: np.int64 = self.rng.integers(self.start, self._stop)
            return drawn
        allowed = allowed_of(mask, self.n, "Discrete.sample mask")
        value: np.int64 = np.int64(self.start + int(self.rng.choice(allowed)))
        return value

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is one of the integers."""
        if type(x) is not int:
            if not isinstance(x, (np.integer, np.ndarray)) or x.shape != () or x.dtype.kind not in "iu":
                return False
            x = int(x)
        return bool(self.start <= x < self._stop)

    def to_jsonable(self, samples: Iterable[Any]) -> list[int]:
        """Plain ints."""
        return [int(sample) for sample in samples]

    def from_jsonable(self, samples: Iterable[Any]) -> list[np.int64]:
        """The integers that ``to_jsonable`` wrote."""
        return [np.int64(sample) for sample in samples]

    def __repr__(self) -> str:
        return f"Discrete({self.n}, start={self.start})" if self.start else f"Discrete({self.n})"
