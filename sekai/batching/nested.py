"""Batches as nested arrays: what can be done with one without its space.

An array (or a list, of elements without a fixed layout) is a part, dicts and tuples are the containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import Buffers
from sekai.batching.infos import copy_value


def own_batch(batch: Any, buffers: Buffers) -> Any:
    """A batch whose arrays belong to the caller alone, so that nobody else can ever write to them.

    Args:
        batch: The batch.
        buffers: Where copies come from; an array that was taken from them is taken over without one.
    """
    if batch.__class__ is np.ndarray and not batch.dtype.hasobject:
        return buffers.own(batch)
    return map_parts(lambda part: buffers.own(part) if _is_plain(part) else copy_value(part), batch)


def _is_plain(part: Any) -> bool:
    return isinstance(part, np.ndarray) and not part.dtype.hasobject


def copy_batch(batch: Any) -> Any:
    """A batch in fresh arrays."""
    if batch.__class__ is np.ndarray and batch.dtype != object:
        return batch.copy()
    return map_parts(lambda part: part.copy() if isinstance(part, np.ndarray) else copy_value(part), batch)


def take(batch: Any, rows: NDArray[np.intp]) -> Any:
    """The batch of some rows, in fresh arrays."""

    def rows_of(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return part.take(rows, axis=0)  # several times as quick as an index
        return [copy_value(part[row]) for row in rows.tolist()]

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
            batch[row] = copy_value(value)
    else:
        for key in batch if isinstance(batch, dict) else range(len(batch)):
            put(batch[key], rows, values[key])


def batch_length(batch: Any) -> int | None:
    """The number of elements of a batch; None where it has no part that could tell."""
    if isinstance(batch, (np.ndarray, list)):
        return len(batch)
    parts = batch.values() if isinstance(batch, dict) else batch
    return next((length for length in map(batch_length, parts) if length is not None), None)


def named_parts(batch: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The arrays (or lists of elements) of a nested batch, each with a name that says where it is: "name['key'][0]"."""
    if isinstance(batch, dict):
        for key, part in batch.items():
            yield from named_parts(part, f"{name}[{key!r}]")
    elif isinstance(batch, tuple):
        for position, part in enumerate(batch):
            yield from named_parts(part, f"{name}[{position}]")
    else:
        yield name, batch


def map_parts(function: Callable[..., Any], batch: Any, *others: Any) -> Any:
    """Call ``function`` on the arrays (or lists of elements) that have the same place in batches nested alike."""
    if isinstance(batch, dict):
        return {key: map_parts(function, part, *(other[key] for other in others)) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map_parts(function, *parts) for parts in zip(batch, *others, strict=True))
    return function(batch, *others)
