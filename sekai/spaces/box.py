"""``Box``: arrays of numbers between bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.spaces.bounds import Bounds
from sekai.spaces.space import Space, check_mask


class Box(Space[NDArray[Any]]):
    """Arrays of one shape and dtype, each element between a lower and an upper bound (both inclusive).

    ``sample()`` draws each element by itself: uniform between two bounds, at an exponentially distributed
    distance (mean 1) from a single bound, standard normal without bounds. ``sample(mask)`` takes an array of the
    shape: 1 for an element that is drawn, 0 for one that rests, at 0 or the bound nearest to it (what
    ``zero_sample`` gives).

    ``contains(x)`` wants an array of this shape and of a dtype that casts safely to this one; NaN is never
    contained. It takes nested lists and tuples of numbers as well, and for shape ``()`` a number.

    Boxes are equal when their shapes, dtypes and bounds are. An integer without a bound differs from one
    bounded by the limit of the dtype: ``is_bounded()``, samples and the repr do.

    Args:
        low: Lower bound, a number or an array of the shape; ``-inf`` where there is none.
        high: Upper bound, likewise; ``inf`` where there is none.
        shape: Shape of an element. None takes that of the bounds, ``(1,)`` when both are numbers.
        dtype: bool, an integer or a float of at most 64 bits.
        seed: Seeds ``sample()``.

    Attributes:
        shape: Shape of an element.
        dtype: Dtype of an element.

    Raises:
        TypeError: The shape, the dtype or a bound is of the wrong type.
        ValueError: A bound is NaN, has another shape or does not fit the dtype, or low exceeds high.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        shape: Iterable[int] | None = None,
        dtype: DTypeLike = np.float32,
        seed: int | None = None,
    ) -> None:
        self.bounds = Bounds.parse(low, high, shape, dtype, "Box")
        super().__init__(self.bounds.shape, self.bounds.dtype, seed)

    @classmethod
    def from_bounds(cls, bounds: Bounds, seed: int | None = None) -> Box:
        """A box of bounds that have been checked before."""
        box = cls.__new__(cls)
        box.bounds = bounds
        Space.__init__(box, bounds.shape, bounds.dtype, seed)
        return box

    @property
    def low(self) -> NDArray[Any]:
        """Lower bounds, read-only, of shape and dtype of an element."""
        return self.bounds.low

    @property
    def high(self) -> NDArray[Any]:
        """Upper bounds, read-only, of shape and dtype of an element."""
        return self.bounds.high

    @property
    def bounded_below(self) -> NDArray[np.bool_]:
        """bool, read-only, of the shape of an element: which entries have a lower bound."""
        return self.bounds.bounded_below

    @property
    def bounded_above(self) -> NDArray[np.bool_]:
        """bool, read-only, of the shape of an element: which entries have an upper bound."""
        return self.bounds.bounded_above

    def is_bounded(self, manner: str = "both") -> bool:
        """Whether every element has a bound ``"below"``, ``"above"`` or on ``"both"`` sides.

        Raises:
            ValueError: ``manner`` is none of the three.
        """
        if manner not in ("both", "below", "above"):
            raise ValueError(f"Box.is_bounded: expected manner 'both', 'below' or 'above', got {manner!r}")
        below, above = self.bounds.all_bounded
        return (below or manner == "above") and (above or manner == "below")

    def sample(self, mask: ArrayLike | None = None) -> NDArray[Any]:
        """Draw an array; see the class for the distribution.

        Raises:
            TypeError: The mask holds something else than bools and integers.
            ValueError: The mask is not of the shape or holds values other than 0 and 1.
        """
        x = self.bounds.sample(self.rng)
        if mask is not None:
            np.copyto(x, self.bounds.rest, where=check_mask(mask, self.shape, 1, "Box.sample mask") == 0)
        return x

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an array (or list) of this shape, of a dtype that casts safely, in bounds."""
        return self.bounds.contain(x)

    def to_jsonable(self, samples: Iterable[Any]) -> list[Any]:
        """Nested lists of numbers, one per element of the space."""
        return [np.asarray(sample).tolist() for sample in samples]

    def from_jsonable(self, samples: Iterable[Any]) -> list[NDArray[Any]]:
        """The arrays that ``to_jsonable`` wrote."""
        return [np.asarray(sample, dtype=self.dtype).reshape(self.shape) for sample in samples]

    def __repr__(self) -> str:
        low, high = self.bounds.describe()
        return f"Box({low}, {high}, {self.shape}, {self.dtype})"
