"""Spaces, observations and actions as the policies of Stable-Baselines3 take them.

They are Gymnasium's but for two things. A policy counts the values of a ``Discrete`` and of a ``MultiDiscrete`` from 0,
whatever their ``start`` is. And it has a torch module for each key of a ``Dict``, none of which can be named "values",
as a part of a ``MaskedBox`` is: that is "slots" there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sekai.compat.gymnasium import to_gymnasium_space
from sekai.spaces import Dict, Discrete, MaskedBox, MultiDiscrete, Space, Tuple

#: The keys of a ``MaskedBox``'s parts, here and in sekai.
_PARTS = {"slots": "values", "mask": "mask"}


def to_sb3_space(space: Space[Any]) -> spaces.Space[Any]:
    """The gymnasium space that a policy is built for.

    Raises:
        TypeError: Gymnasium has no such space.
        ValueError: It has, but not of this shape or dtype (see ``to_gymnasium_space``).
    """
    if isinstance(space, Dict):
        return spaces.Dict([(key, to_sb3_space(part)) for key, part in space.items()])  # in the order of pairs
    if isinstance(space, Tuple):
        return spaces.Tuple([to_sb3_space(part) for part in space])
    there = to_gymnasium_space(space)
    if isinstance(space, Discrete):
        return spaces.Discrete(there.n)
    if isinstance(space, MultiDiscrete):
        return spaces.MultiDiscrete(there.nvec, dtype=there.dtype.type)
    if isinstance(space, MaskedBox):
        return spaces.Dict([(key, there[part]) for key, part in _PARTS.items()])
    return there


def to_sb3(space: Space[Any], value: Any) -> Any:
    """An element of a space, or a batch, as ``to_sb3_space(space)`` has it; arrays that are the same are not copied."""
    if isinstance(space, Dict):
        return {key: to_sb3(part, value[key]) for key, part in space.items()}
    if isinstance(space, Tuple):
        return tuple(to_sb3(part, item) for part, item in zip(space, value, strict=True))
    if isinstance(space, MaskedBox):
        return {key: value[part] for key, part in _PARTS.items()}
    start = _start(space)
    return value if start is None else value - start


def from_sb3(space: Space[Any], actions: Any) -> Any:
    """The actions of a policy as a batch of the space's elements; arrays that are the same are not copied."""
    if isinstance(space, Dict):
        return {key: from_sb3(part, actions[key]) for key, part in space.items()}
    if isinstance(space, Tuple):
        return tuple(from_sb3(part, item) for part, item in zip(space, actions, strict=True))
    if isinstance(space, MaskedBox):
        return {part: actions[key] for key, part in _PARTS.items()}
    actions = _in_dtype(np.asarray(actions), space.dtype)
    start = _start(space)
    return actions if start is None else actions + start


def _start(space: Space[Any]) -> Any:
    """The smallest value of each element; None where that is 0, or there is none."""
    if isinstance(space, (Discrete, MultiDiscrete)) and np.any(space.start):
        return space.start
    return None


def _in_dtype(actions: NDArray[Any], dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """Whole numbers in an integer dtype: the policies of SB3 give the actions of a MultiBinary as floats."""
    if dtype is None or dtype.kind not in "iu" or actions.dtype.kind != "f":
        return actions
    whole = actions.astype(dtype)
    return whole if np.array_equal(whole, actions) else actions  # the VecEnv says what is wrong
