"""What no compiler checks: whether a row function writes all of what it is given and nothing else; and actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.actions import expected_action
from sekai.spaces import MultiDiscrete, Space

#: Items before and behind an array that are looked at to see whether it is written too wide.
_BESIDE = 256


def items_written(
    kinds: Sequence[tuple[np.dtype[Any], int]], write: Callable[[list[NDArray[Any]]], None], where: str
) -> list[NDArray[np.bool_]]:
    """Let a function write arrays twice, into memory of other contents each time, with room around them.

    Args:
        kinds: The dtype and the number of items of each array.
        write: Given the arrays, (items,) each.
        where: What error messages call what it writes.

    Returns:
        For each array, bool (items,): which of them were written.

    Raises:
        IndexError: Something beside them was.
    """
    written = [np.zeros(width, dtype=np.bool_) for _, width in kinds]
    for content in (0x55, 0xAA):
        rooms = [np.full((width + 2 * _BESIDE) * dtype.itemsize, content, np.uint8) for dtype, width in kinds]
        write([room.view(dtype)[_BESIDE : _BESIDE + width] for room, (dtype, width) in zip(rooms, kinds, strict=True)])
        for room, items, (dtype, width) in zip(rooms, written, kinds, strict=True):
            is_new = (room != content).reshape(-1, dtype.itemsize).any(axis=1)
            if is_new[:_BESIDE].any() or is_new[_BESIDE + width :].any():
                raise IndexError(f"{where}: expected no more than its {width} items to be written")
            items |= is_new[_BESIDE : _BESIDE + width]
    return written


def is_action(space: Space[Any], action: Any) -> bool:
    """Whether a market takes an action: one of the space, all of its numbers finite."""
    return space.contains(action) and _is_finite(action)


def say_refused(space: Space[Any], action: Any) -> str:
    """What was expected of an action that is none, and what came; of a ``MultiDiscrete`` also which item it was."""
    said = f"expected {expected_action(space)}, got {action}"
    if isinstance(space, MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
        at = tuple(int(each[0]) for each in np.nonzero((action < low) | (action > high)))
        said += f": item {', '.join(map(str, at))} has to be from {low[at]} to {high[at]}, and is {action[at]}"
    return said


def _is_finite(action: Any) -> bool:
    if isinstance(action, dict):
        return all(map(_is_finite, action.values()))
    if isinstance(action, tuple):
        return all(map(_is_finite, action))
    return bool(np.isfinite(action).all())
