"""Masks of actions: what ``space.sample(mask)`` takes, as elements of a space of their own.

==================  ====================================================================================
space               mask
==================  ====================================================================================
``Discrete``        int8 ``(n,)``: 1 for a value that may be taken
``MultiDiscrete``   tuples nested like its axes, with such an array for each element
``MultiBinary``     int8 of its shape: 0 and 1 fix an element to that value, 2 leaves it free
``Box``             int8 of its shape: 1 for an element that may be chosen, 0 for one that rests
``MaskedBox``       int8 of ``mask_shape``: 1 for an occupied slot
``Dict``, ``Tuple`` a dict or tuple with a mask, or None, for each part
==================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sekai.spaces.bounds import Bounds
from sekai.spaces.box import Box
from sekai.spaces.composite import Dict, Tuple
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete, mask_at
from sekai.spaces.space import Space, check_mask


def mask_space(space: Space[Any]) -> Space[Any]:
    """The space of the masks of an action space: zeros and ones, nested as ``space.sample(mask)`` takes them.

    Raises:
        TypeError: The masks of the space have no fixed form, as those of a ``Sequence``, or it is of a class of its
            own.
    """
    if isinstance(space, Dict):
        return Dict({key: mask_space(part) for key, part in space.items()})
    if isinstance(space, Tuple):
        return Tuple([mask_space(part) for part in space])
    if isinstance(space, MultiDiscrete):
        nested: Space[Any] = _nested(space, (), lambda index: MultiBinary(int(space.nvec[index])), Tuple)
        return nested
    if isinstance(space, MultiBinary):
        return MultiDiscrete(np.full(space.shape, 3), np.int8)
    if isinstance(space, Discrete):
        return MultiBinary(space.n)
    if isinstance(space, Box):
        return Box.from_bounds(_zeros_and_ones(space.shape))
    if isinstance(space, MaskedBox):
        return MultiBinary(space.mask_shape)
    raise TypeError(f"mask_space: expected a space whose masks have a fixed form, got {space!r}")


@lru_cache(maxsize=64)
def _zeros_and_ones(shape: tuple[int, ...]) -> Bounds:
    """The bounds of masks of a ``Box``, kept since a policy that reads masks comes here at each step."""
    return Bounds.parse(0, 1, shape, np.int8, "mask_space")


def full_mask(space: Space[Any]) -> Any:
    """The mask that allows every element of an action space, freshly made.

    Raises:
        TypeError: See ``mask_space``.
    """
    return as_mask(space, None)


def as_mask(space: Space[Any], mask: Any, where: str = "mask") -> Any:
    """A mask as an element of ``mask_space(space)``: fresh int8 arrays throughout, with ones where nothing was said.

    Args:
        space: The action space.
        mask: What ``space.sample(mask)`` takes; None allows everything.
        where: What error messages call it.

    Raises:
        TypeError: See ``mask_space``; or the mask holds something else than bools and integers, or is not nested so.
        ValueError: It has another shape, other keys or other values.
    """
    if isinstance(space, Dict):
        given = dict.fromkeys(space) if mask is None else mask
        if not isinstance(given, Mapping):
            raise TypeError(f"{where}: expected a dict of masks, got {given!r}")
        if given.keys() != space.keys():
            raise ValueError(f"{where}: expected the keys {list(space)}, got {list(given)}")
        return {key: as_mask(part, given[key], f"{where}[{key!r}]") for key, part in space.items()}
    if isinstance(space, Tuple):
        given = (None,) * len(space) if mask is None else mask
        if not isinstance(given, (tuple, list)) or len(given) != len(space):
            raise TypeError(f"{where}: expected a tuple of {len(space)} masks, got {given!r}")
        parts = enumerate(zip(space, given, strict=True))
        return tuple(as_mask(part, each, f"{where}[{i}]") for i, (part, each) in parts)
    if isinstance(space, MultiDiscrete):

        def of_element(index: tuple[int, ...]) -> Any:
            n = int(space.nvec[index])
            if mask is None:
                return np.ones(n, np.int8)
            return check_mask(mask_at(mask, index, space.shape), (n,), 1, f"{where} of element {index}").copy()

        return _nested(space, (), of_element, tuple)
    highest = 2 if isinstance(space, MultiBinary) else 1
    shape = mask_space(space).shape
    assert shape is not None
    # A copy: an env may keep its mask as an array, and write to it in the next step.
    return np.full(shape, highest, np.int8) if mask is None else check_mask(mask, shape, highest, where).copy()


def allows_any(space: Space[Any], mask: Any) -> bool:
    """Whether a mask, an element of ``mask_space(space)``, leaves an action to take."""
    if isinstance(space, Dict):
        return all(allows_any(part, mask[key]) for key, part in space.items())
    if isinstance(space, Tuple):
        return all(allows_any(part, each) for part, each in zip(space, mask, strict=True))
    if isinstance(space, MultiDiscrete):
        return all(mask_at(mask, index, space.shape).any() for index in np.ndindex(*space.shape))
    return not isinstance(space, Discrete) or bool(mask.any())


def _nested(
    space: MultiDiscrete,
    index: tuple[int, ...],
    make: Callable[[tuple[int, ...]], Any],
    join: Callable[[list[Any]], Any],
) -> Any:
    """What is made for each element of a space, nested like its axes."""
    if len(index) == len(space.shape):
        return make(index)
    return join([_nested(space, (*index, i), make, join) for i in range(space.shape[len(index)])])
