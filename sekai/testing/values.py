"""Values of any kind, compared and described: what every check needs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sekai.spaces import Box, Dict, MultiBinary, MultiDiscrete, Space, Tuple

_LONGEST = 200


def same(a: Any, b: Any) -> bool:
    """Deep equality in which types count and NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (np.ndarray, np.generic, float)):
        x, y = np.asarray(a), np.asarray(b)
        return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
    return bool(a == b)


def holds_lists(space: Space[Any], x: Any) -> bool:
    """Whether a list or tuple stands where the space has an array, which ``contains()`` allows."""
    if isinstance(space, Dict):
        return any(holds_lists(part, x[key]) for key, part in space.items())
    if isinstance(space, Tuple):
        return any(holds_lists(part, value) for part, value in zip(space, x, strict=True))
    return isinstance(space, (Box, MultiBinary, MultiDiscrete)) and isinstance(x, (list, tuple))


def show(value: Any) -> str:
    """The repr of a value as an error message shows it: on one line, a long one cut off."""
    text = re.sub(r"\n\s*", " ", repr(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def describe(value: Any) -> str:
    """A value as an error message shows it, with what it is."""
    text = show(value)
    if isinstance(value, np.ndarray):
        return f"{text} (shape {value.shape}, {value.dtype})"
    return f"{text} ({type(value).__name__})"


def name_error(error: Exception) -> str:
    """An exception as an error message shows it."""
    return f"{type(error).__name__}: {error}"
