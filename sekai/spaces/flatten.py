"""Spaces and their elements as flat vectors, in gymnasium's layout; and an element to begin with.

``Box`` and ``MultiBinary`` are raveled; ``Discrete`` and ``MultiDiscrete`` become one-hot vectors, one after
another; ``MaskedBox`` its values, then its mask; ``Dict`` and ``Tuple`` their parts one after another, in a
dtype that holds all of them. Beside a float part that dtype is its own, if the bounds of all integers fit into it (as
one-hot vectors do), else a wider float. Integers alone become integers; uint64 beside signed ones too, in whichever of
both dtypes holds the bounds of all, and floats only where neither does. In floats integers beyond 2**53 lose digits.

The functions dispatch on the class of the space: ``flatten.register(MySpace)`` teaches them another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.checks import as_numbers
from sekai.spaces.bounds import Bounds
from sekai.spaces.box import Box
from sekai.spaces.composite import Dict, Tuple
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.sequence import Sequence, stack_features
from sekai.spaces.space import Space, name_instead


def _unknown(function: str, space: Any) -> Exception:
    if isinstance(space, Sequence):
        return ValueError(f"{function}: {space!r} has elements of many lengths, so no vector of fixed length fits it")
    if isinstance(space, Space):
        return TypeError(f"{function}: no rule for {type(space).__name__}, add one with {function}.register")
    return TypeError(f"{function}: expected a space, got {name_instead(space, type(space).__name__)}")


# --- flatdim -----------------------------------------------------------------------------------


@singledispatch
def flatdim(space: Space[Any]) -> int:
    """How many numbers a flattened element of ``space`` has.

    Raises:
        ValueError: Elements have no fixed length (``Sequence``).
        TypeError: There is no rule for the class.
    """
    raise _unknown("flatdim", space)


@flatdim.register(Box)
@flatdim.register(MultiBinary)
def _(space: Box | MultiBinary) -> int:
    return math.prod(space.shape)


@flatdim.register
def _(space: Discrete) -> int:
    return space.n


@flatdim.register
def _(space: MultiDiscrete) -> int:
    return int(space.nvec.sum())


@flatdim.register
def _(space: MaskedBox) -> int:
    return math.prod(space.values_shape) + math.prod(space.mask_shape)


@flatdim.register(Dict)
@flatdim.register(Tuple)
def _(space: Dict | Tuple) -> int:
    return sum(flatdim(part) for part in _parts(space))


# --- flatten_space -----------------------------------------------------------------------------


@singledispatch
def flatten_space(space: Space[Any]) -> Box:
    """The ``Box`` of the flattened elements of ``space``, of shape ``(flatdim(space),)``.

    Raises:
        ValueError: Elements have no fixed length (``Sequence``).
        TypeError: There is no rule for the class.
    """
    raise _unknown("flatten_space", space)


@flatten_space.register
def _(space: Box) -> Box:
    return Box.from_bounds(space.bounds.ravel())


@flatten_space.register(Discrete)
@flatten_space.register(MultiDiscrete)
@flatten_space.register(MultiBinary)
def _(space: Discrete | MultiDiscrete | MultiBinary) -> Box:
    return Box(0, 1, (flatdim(space),), space.dtype)


@flatten_space.register
def _(space: MaskedBox) -> Box:
    values = space.bounds.widen(space.fill_value).expand(space.mask_shape)
    mask = Box(0, 1, (math.prod(space.mask_shape),), np.int8)
    return Box.from_bounds(Bounds.join([values.ravel(), mask.bounds]))


@flatten_space.register(Dict)
@flatten_space.register(Tuple)
def _(space: Dict | Tuple) -> Box:
    if not len(space):
        return Box(0, 1, (0,), np.float32)
    return Box.from_bounds(Bounds.join([flatten_space(part).bounds for part in _parts(space)]))


# --- flatten -----------------------------------------------------------------------------------


@singledispatch
def flatten(space: Space[Any], x: Any) -> NDArray[Any]:
    """``x``, an element of ``space``, as a new 1-D array of ``flatdim(space)`` numbers.

    Raises:
        ValueError: Elements have no fixed length (``Sequence``), or a number lies outside a ``Discrete`` or
            ``MultiDiscrete``.
        TypeError: There is no rule for the class, or numbers of a ``Box`` or ``MaskedBox`` are complex or none.
    """
    raise _unknown("flatten", space)


@flatten.register(Box)
@flatten.register(MultiBinary)
def _(space: Box | MultiBinary, x: Any) -> NDArray[Any]:
    as_numbers(x, "flatten", "biuf")
    return np.array(x, dtype=space.dtype).reshape(-1)  # of a list too, in which NumPy may find floats by itself


@flatten.register
def _(space: Discrete, x: Any) -> NDArray[Any]:
    index = int(x) - space.start
    if not 0 <= index < space.n:
        raise ValueError(f"flatten: expected an element of {space}, got {x!r}")
    one_hot = np.zeros(space.n, dtype=space.dtype)
    one_hot[index] = 1
    return one_hot


@flatten.register
def _(space: MultiDiscrete, x: Any) -> NDArray[Any]:
    one_hot = np.zeros(flatdim(space), dtype=space.dtype)
    # In int64: a small dtype may hold the values, but not their distance from the start.
    index = np.asarray(x, dtype=np.int64) - space.start.astype(np.int64)
    if ((index < 0) | (index >= space.nvec)).any():
        raise ValueError(f"flatten: expected an element of {space}, got {x!r}")
    one_hot[_offsets(space)[:-1] + index.ravel()] = 1
    return one_hot


@flatten.register
def _(space: MaskedBox, x: Any) -> NDArray[Any]:
    as_numbers(x["values"], "flatten, values of a MaskedBox", "biuf")
    return np.concatenate([np.asarray(x["values"], dtype=space.dtype).ravel(), np.asarray(x["mask"], np.int8).ravel()])


@flatten.register
def _(space: Dict, x: Any) -> NDArray[Any]:
    return _join(space, [flatten(part, x[key]) for key, part in space.items()])


@flatten.register
def _(space: Tuple, x: Any) -> NDArray[Any]:
    return _join(space, [flatten(part, value) for part, value in zip(space, x, strict=True)])


# --- unflatten ---------------------------------------------------------------------------------


def unflatten(space: Space[Any], array: NDArray[Any]) -> Any:
    """The element of ``space`` that ``flatten`` made ``array`` from, sharing no memory with it.

    Of an array that it makes of none, such as what a network puts out, it is the nearest element: numbers are moved to
    a bound that they exceed and integers are rounded, of a one-hot part the largest entry counts, and empty slots of a
    ``MaskedBox`` hold its ``fill_value``.

    Raises:
        ValueError: The array is not of shape ``(flatdim(space),)`` or holds NaN, or elements have no fixed length
            (``Sequence``).
        TypeError: There is no rule for the class, or the array holds complex numbers or none.
    """
    array = as_numbers(array, "unflatten", "biuf")
    expected = (flatdim(space),)
    if array.shape != expected:
        raise ValueError(f"unflatten: expected an array of shape {expected}, got {array.shape}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"unflatten: expected numbers, got NaN at {int(np.isnan(array).argmax())}")
    return _unflatten(space, array)


@singledispatch
def _unflatten(space: Space[Any], array: NDArray[Any]) -> Any:
    raise _unknown("unflatten", space)


unflatten.register = _unflatten.register  # type: ignore[attr-defined]


@_unflatten.register
def _(space: Box, array: NDArray[Any]) -> Any:
    return space.bounds.nearest(array.reshape(space.shape))


@_unflatten.register
def _(space: MultiBinary, array: NDArray[Any]) -> Any:
    return np.asarray(array > 0.5, dtype=space.dtype).reshape(space.shape)


@_unflatten.register
def _(space: Discrete, array: NDArray[Any]) -> Any:
    return np.int64(space.start + int(array.argmax()))


@_unflatten.register
def _(space: MultiDiscrete, array: NDArray[Any]) -> Any:
    offsets = _offsets(space)
    index = [array[offsets[i] : offsets[i + 1]].argmax() for i in range(len(offsets) - 1)]
    x = space.start.astype(np.int64) + np.array(index, dtype=np.int64).reshape(space.shape)
    return np.asarray(x, dtype=space.dtype)


@_unflatten.register
def _(space: MaskedBox, array: NDArray[Any]) -> Any:
    values, mask = np.split(array, [math.prod(space.values_shape)])
    occupied = (mask > 0.5).reshape(space.mask_shape)
    inside = space.bounds.expand(space.mask_shape).nearest(values.reshape(space.values_shape))
    inside[~occupied] = space.fill_value
    return {"values": inside, "mask": occupied.astype(np.int8)}


@_unflatten.register
def _(space: Dict, array: NDArray[Any]) -> Any:
    return dict(zip(space, _unflatten_parts(space, array), strict=True))


@_unflatten.register
def _(space: Tuple, array: NDArray[Any]) -> Any:
    return tuple(_unflatten_parts(space, array))


# --- zero_sample -------------------------------------------------------------------------------


@singledispatch
def zero_sample(space: Space[Any]) -> Any:
    """An element of ``space`` to begin with, the same each time and freshly made.

    Zeros for a ``Box``, moved to the nearest bound where 0 lies outside; ``start`` for ``Discrete`` and
    ``MultiDiscrete``; zeros for ``MultiBinary``; the empty set for ``MaskedBox`` and the empty ``Sequence``;
    containers of those.

    Raises:
        TypeError: There is no rule for the class.
    """
    raise _unknown("zero_sample", space)


@zero_sample.register
def _(space: Box) -> Any:
    return space.bounds.rest


@zero_sample.register
def _(space: Discrete) -> Any:
    return np.int64(space.start)


@zero_sample.register
def _(space: MultiDiscrete) -> Any:
    return space.start.copy()


@zero_sample.register
def _(space: MultiBinary) -> Any:
    return np.zeros(space.shape, dtype=space.dtype)


@zero_sample.register
def _(space: MaskedBox) -> Any:
    return space.empty()


@zero_sample.register
def _(space: Dict) -> Any:
    return {key: zero_sample(part) for key, part in space.items()}


@zero_sample.register
def _(space: Tuple) -> Any:
    return tuple(zero_sample(part) for part in space)


@zero_sample.register
def _(space: Sequence) -> Any:
    return stack_features(space.feature_space, ()) if space.stack else ()


# --- helpers -----------------------------------------------------------------------------------


def _parts(space: Dict | Tuple) -> Iterable[Space[Any]]:
    return space.values() if isinstance(space, Dict) else space


#: So that there is something to concatenate where a container has no parts.
_NOTHING = np.zeros(0, dtype=np.bool_)


def _join(space: Dict | Tuple, parts: list[NDArray[Any]]) -> NDArray[Any]:
    # Every element fits the dtype, also where NumPy sees signed integers made unsigned.
    return np.concatenate([_NOTHING, *parts], dtype=space.flat_dtype, casting="unsafe")


def _offsets(space: MultiDiscrete) -> NDArray[np.int64]:
    """Where the one-hot vector of each element begins, in order of ``ravel()``, and the last one ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(space.nvec)])


def _unflatten_parts(space: Dict | Tuple, array: NDArray[Any]) -> list[Any]:
    values, begin = [], 0
    for part in _parts(space):
        end = begin + flatdim(part)
        values.append(_unflatten(part, array[begin:end]))
        begin = end
    return values
