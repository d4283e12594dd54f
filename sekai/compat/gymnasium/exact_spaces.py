"""Gymnasium spaces for what gymnasium's own cannot say.

That is: slots that are empty, a limit on the length of a sequence, and integers without a bound.
"""

from __future__ import annotations

import copy
from typing import Any

from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from sekai.spaces import MaskedBox, Sequence, Space
from sekai.spaces.bounds import Bounds


class _DrawnBySekai:
    """Mixin for a gymnasium space whose elements are those of a sekai space, which draws and checks them.

    ``sample(mask)`` and ``seed(seed)`` take and return what the sekai space's do.

    Attributes:
        sekai_space: The sekai space, with a generator of its own.
    """

    sekai_space: Space[Any]

    def seed(self, seed: Any = None) -> Any:
        """Start the generator afresh; returns the seed used."""
        return self.sekai_space.seed(seed)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an element.

        Raises:
            ValueError: A probability mask was given.
        """
        if probability is not None:
            raise ValueError(f"{type(self).__name__}.sample: expected no probability, got {probability!r}")
        return self.sekai_space.sample(mask)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an element of the sekai space."""
        return self.sekai_space.contains(x)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.sekai_space == other.sekai_space

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sekai_space!r})"


class MaskedBoxDict(_DrawnBySekai, spaces.Dict):
    """A ``MaskedBox`` as a gymnasium ``Dict`` of "values" and "mask".

    To code that looks at its parts it is a ``Box`` of all slots, wide enough for occupied and for empty ones, and a
    ``MultiBinary``. Unlike a plain ``Dict`` of these it draws and contains only sets whose empty slots hold the fill
    value.

    Args:
        space: The sekai space.
        values: The gymnasium space of "values".
    """

    sekai_space: MaskedBox

    def __init__(self, space: MaskedBox, values: spaces.Box) -> None:
        self.sekai_space = space.expand(())
        super().__init__([("values", values), ("mask", spaces.MultiBinary(space.mask_shape))])


def _batch_masked_box(space: MaskedBoxDict, n: int = 1) -> MaskedBoxDict:
    """What gymnasium's vector environments make of it; they would take it for a plain ``Dict`` otherwise."""
    values = batch_space(space["values"], n)
    assert isinstance(values, spaces.Box)
    return MaskedBoxDict(space.sekai_space.expand((n,)), values)


batch_space.register(MaskedBoxDict, _batch_masked_box)


class LimitedSequence(_DrawnBySekai, spaces.Sequence):
    """A ``Sequence`` with a ``max_length``, which gymnasium's has not.

    Args:
        space: The sekai space.
        feature_space: The gymnasium space of one feature.
    """

    sekai_space: Sequence

    def __init__(self, space: Sequence, feature_space: spaces.Space[Any]) -> None:
        self.sekai_space = copy.deepcopy(space)
        self.sekai_space.seed()  # else it would draw what `space` does
        super().__init__(feature_space, stack=space.stack)


class OpenBox(spaces.Box):
    """A ``Box`` of integers some of which have no bound, where gymnasium's own would see the limit of the dtype.

    Args:
        bounds: The bounds of the sekai space.
    """

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.low.copy(), bounds.high.copy(), bounds.shape, bounds.dtype)
        self.bounded_below, self.bounded_above = bounds.bounded_below.copy(), bounds.bounded_above.copy()


def _batch_open_box(space: OpenBox, n: int = 1) -> OpenBox:
    """What gymnasium's vector environments make of it; they would bound it by the limits of its dtype otherwise."""
    sides = space.low, space.high, space.bounded_below, space.bounded_above
    return OpenBox(Bounds(space.shape, space.dtype, *sides).expand((n,)))


batch_space.register(OpenBox, _batch_open_box)

# A batch of a Tuple is split into rows where gymnasium knows the class of each part itself, not of a base of it alone.
iterate.register(MaskedBoxDict, iterate.dispatch(spaces.Dict))
iterate.register(OpenBox, iterate.dispatch(spaces.Box))
