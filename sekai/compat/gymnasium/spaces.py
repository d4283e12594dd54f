"""Spaces, both ways.

Elements need no conversion: an element of a space is one of its counterpart, and so is a sample of either. Seeds do
not carry over, since the two libraries draw in different ways, but what ``seed()`` returns on one side is taken by
``seed()`` on the other. A ``MaskedBox`` becomes a ``Dict`` of "values" and "mask"; a ``Text``, ``Graph`` or ``OneOf``
has no counterpart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from sekai.compat.gymnasium.exact_spaces import LimitedSequence, MaskedBoxDict, OpenBox
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Sequence, Space, Tuple
from sekai.spaces.bounds import Bounds, check_dtype


def to_gymnasium_space(space: Space[Any]) -> spaces.Space[Any]:
    """The gymnasium space with the same elements.

    Two spaces that gymnasium 1.4 can describe it cannot sample from: a ``Box`` of uint64 beyond the range of int64,
    and one of float64 whose bounds are further apart than the largest float.

    Args:
        space: A sekai space. Its generator is not shared.

    Raises:
        TypeError: It is no space, or of a class of its own.
        ValueError: A ``MultiDiscrete`` has shape () or counts that do not fit its dtype, as gymnasium's have to.
    """
    if isinstance(space, Box):
        return _to_box(space.bounds)
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n, start=space.start)
    if isinstance(space, MultiDiscrete):
        return _to_multi_discrete(space)
    if isinstance(space, MultiBinary):
        return spaces.MultiBinary(space.n)
    if isinstance(space, MaskedBox):
        lead = space.mask_shape
        return MaskedBoxDict(space, _to_box(space.bounds.widen(space.fill_value).expand(lead)))
    if isinstance(space, Dict):
        return spaces.Dict([(key, to_gymnasium_space(part)) for key, part in space.items()])  # in the order of pairs
    if isinstance(space, Tuple):
        return spaces.Tuple([to_gymnasium_space(part) for part in space])
    if isinstance(space, Sequence):
        feature_space = to_gymnasium_space(space.feature_space)
        if space.max_length is not None:
            return LimitedSequence(space, feature_space)
        return spaces.Sequence(feature_space, stack=space.stack)
    raise TypeError(f"to_gymnasium_space: expected a space of sekai.spaces, got {space!r}")


def from_gymnasium_space(space: spaces.Space[Any]) -> Space[Any]:
    """The sekai space with the same elements.

    An element of a ``Discrete`` is int64 here; ``conform`` gives it the dtype that gymnasium's may have.

    Args:
        space: A gymnasium space. Its generator is not shared.

    Raises:
        TypeError: It is no space, one without a counterpart (``Text``, ``Graph``, ``OneOf``), or of a dtype of more
            than 64 bits.
        ValueError: A ``Discrete`` has elements that do not fit int64.
    """
    if isinstance(space, MaskedBoxDict):
        return space.sekai_space.expand(())
    if isinstance(space, LimitedSequence):
        return Sequence(
            from_gymnasium_space(space.feature_space),
            max_length=space.sekai_space.max_length,
            stack=space.stack,
        )
    if isinstance(space, spaces.Box):
        return _from_box(space)
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), start=int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(space.nvec, dtype=space.dtype, start=space.start)
    if isinstance(space, spaces.MultiBinary):
        return MultiBinary(space.shape if isinstance(space.n, tuple) else int(space.n))
    if isinstance(space, spaces.Dict):
        return Dict({key: from_gymnasium_space(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return Tuple([from_gymnasium_space(part) for part in space.spaces])
    if isinstance(space, spaces.Sequence):
        return Sequence(from_gymnasium_space(space.feature_space), stack=space.stack)
    known = "Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple or Sequence"
    raise TypeError(f"from_gymnasium_space: expected a {known} of gymnasium, got {space!r}")


def conform(space: spaces.Space[Any], value: Any) -> Any:
    """An element (or a batch) as a gymnasium space has it: integers in its dtype, sequences as tuples.

    Args:
        space: The gymnasium space, for a batch that of the batch.
        value: An element of the sekai counterpart, or a batch as ``sekai.batching`` lays it out.
    """
    if isinstance(space, MaskedBoxDict):
        return value
    if isinstance(space, spaces.Dict):
        return {key: conform(part, value[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(conform(part, item) for part, item in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(value)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(value, dtype=space.dtype)
    if isinstance(space, spaces.Sequence):
        if space.stack:
            return conform(space.stacked_feature_space, value)
        return tuple(conform(space.feature_space, feature) for feature in value)
    return value


def _to_box(bounds: Bounds) -> spaces.Box:
    if bounds.dtype.kind == "f" or all(bounds.all_bounded):
        return spaces.Box(bounds.low.copy(), bounds.high.copy(), bounds.shape, bounds.dtype)
    return OpenBox(bounds)


def _from_box(box: spaces.Box) -> Box:
    dtype = check_dtype(box.dtype, "from_gymnasium_space: Box")
    below, above = np.array(box.bounded_below), np.array(box.bounded_above)
    return Box.from_bounds(Bounds(box.shape, dtype, np.array(box.low), np.array(box.high), below, above))


def _to_multi_discrete(space: MultiDiscrete) -> spaces.MultiDiscrete:
    where = f"to_gymnasium_space: {space!r}"
    if space.shape == ():
        raise ValueError(f"{where}: expected at least one axis, got shape () (gymnasium's holds none of its samples)")
    highest = int(np.iinfo(space.dtype).max)
    if int(space.nvec.max()) > highest:
        raise ValueError(f"{where}: expected counts that fit {space.dtype}, got {int(space.nvec.max())}")
    return spaces.MultiDiscrete(space.nvec.copy(), dtype=space.dtype.type, start=space.start.copy())
