"""Batches as nested arrays: what can be done with one without its space.

An array (or a list, of elements without a fixed layout) is a part, dicts and tuples are the containers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import is_whole
from sekai.batching.infos import snapshot_value


def own_batch(batch: Any, *, held: int = 0) -> Any:
    """A batch whose arrays belong to the caller alone, so that nobody else can ever write to them.

    Call it on what a function has just returned: ``own_batch(compute())``. An array that nothing but the call refers
    to is taken over; any other is copied.

    Args:
        batch: The batch.
        held: How many variables of the caller hold it as well.
    """
    sole = sys.getrefcount(batch) <= _SOLE_ARGUMENT + held  # asked before the next call refers to it as well
    return _own(batch, sole)


def _own(part: Any, sole: bool) -> Any:
    if isinstance(part, np.ndarray):
        return part if sole and is_whole(part) and part.flags.writeable else part.copy()
    if isinstance(part, dict):
        return {key: _own_item(part, key, sole) for key in part}
    if isinstance(part, tuple):
        return tuple(_own_item(part, i, sole) for i in range(len(part)))
    return snapshot_value(part)


def _own_item(container: Any, key: Any, sole: bool) -> Any:
    sole = sole and sys.getrefcount(container[key]) <= _SOLE_ITEM
    return _own(container[key], sole)


def _count_of_argument(argument: Any) -> int:
    return sys.getrefcount(argument)


def _count_of_item(container: Any) -> int:
    return sys.getrefcount(container[0])


#: What ``sys.getrefcount`` says, in this interpreter, of an argument and of a container's item that nothing else
#: refers to.
_SOLE_ARGUMENT = _count_of_argument(np.empty(0))
_SOLE_ITEM = _count_of_item((np.empty(0),))


def copy_batch(batch: Any) -> Any:
    """A batch in fresh arrays."""
    if batch.__class__ is np.ndarray and batch.dtype != object:
        return batch.copy()
    return map_parts(lambda part: part.copy() if isinstance(part, np.ndarray) else snapshot_value(part), batch)


def take(batch: Any, rows: NDArray[np.intp]) -> Any:
    """The batch of some rows, in fresh arrays."""

    def rows_of(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return part.take(rows, axis=0)  # several times as quick as an index
        return [snapshot_value(part[row]) for row in rows.tolist()]

    return map_parts(rows_of, batch)


def put(batch: Any, rows: NDArray[np.intp] | slice, values: Any) -> None:
    """Write a batch of elements into some rows of another, in place.

    Args:
        batch: The batch to write into.
        rows: Which rows: their indices, or a slice.
        values: As many elements.
    """
    if isinstance(batch, np.ndarray):
        batch[rows] = values
    elif isinstance(batch, list):
        indices = range(len(batch))[rows] if isinstance(rows, slice) else rows.tolist()
        for row, value in zip(indices, values, strict=True):
            batch[row] = snapshot_value(value)
    else:
        for key in batch if isinstance(batch, dict) else range(len(batch)):
            put(batch[key], rows, values[key])


def batch_length(batch: Any) -> int | None:
    """The number of elements of a batch; None where it has no part that could tell."""
    if isinstance(batch, (np.ndarray, list)):
        return len(batch)
    parts = batch.values() if isinstance(batch, dict) else batch
    return next((length for length in map(batch_length, parts) if length is not None), None)


def map_parts(function: Callable[..., Any], batch: Any, *others: Any) -> Any:
    """Call ``function`` on the arrays (or lists of elements) that have the same place in batches nested alike."""
    if isinstance(batch, dict):
        return {key: map_parts(function, part, *(other[key] for other in others)) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map_parts(function, *parts) for parts in zip(batch, *others, strict=True))
    return function(batch, *others)
