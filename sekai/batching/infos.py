"""Infos: the names of the keys the kit writes, copies, and many values as one array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import Buffers
from sekai.types import InfoArrays, InfoDict

FINAL_OBSERVATION = "final_observation"
FINAL_INFO = "final_info"
RESET_INFO = "reset_info"
EPISODE = "episode"
ELAPSED_STEPS = "elapsed_steps"

_ATOMS = (float, int, bool, str, type(None), np.generic)


def copy_value(value: Any) -> Any:
    """A copy of whatever may be written to later, at any depth; what cannot be copied is handed on as it is."""
    if isinstance(value, np.void):  # a record of a structured array is a view of it
        return value.copy()
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            return value.copy()
        copied = np.empty(value.size, dtype=object)
        for position, item in enumerate(value.flat):
            copied[position] = copy_value(item)
        return copied.reshape(value.shape)
    kind = type(value)
    if kind is dict:
        return {key: copy_value(item) for key, item in value.items()}
    if kind is list or kind is tuple or kind is set:
        return kind(copy_value(item) for item in value)
    from copy import deepcopy

    try:
        return deepcopy(value)
    except Exception:  # a lock, a socket, a generator: there is one of it
        return value


def copy_info(info: Mapping[str, Any]) -> InfoDict:
    """A copy of an info that nothing the environment does later can change."""
    if not info:
        return {}
    try:
        return {key: copy_value(value) for key, value in info.items()}
    except RecursionError:  # it holds itself
        from copy import deepcopy

        return deepcopy(dict(info))


def copy_columns(columns: InfoArrays, num_rows: int, where: str, buffers: Buffers) -> dict[str, NDArray[Any]]:
    """Copies of info columns; one that was taken from the buffers is taken over without a copy.

    Args:
        columns: Arrays whose first axis is the rows.
        num_rows: The expected length of that axis.
        where: What the error message calls their origin.
        buffers: Where copies come from.

    Raises:
        ValueError: A column is ragged, or its first axis is not ``num_rows`` long; the message names its key.
    """
    copied: dict[str, NDArray[Any]] = {}
    for key, column in columns.items():
        array = column if column.__class__ is np.ndarray else _as_column(column, key, where)
        shape = array.shape
        if not shape or shape[0] != num_rows:
            raise ValueError(
                f"{where}: expected info column {key!r} with a first axis of {num_rows}, got shape {shape}"
            )
        copied[key] = copy_value(array) if array.dtype.hasobject else buffers.own(array)
    return copied


def _as_column(column: Any, key: str, where: str) -> NDArray[Any]:
    try:
        return np.asarray(column)
    except ValueError as ragged:
        raise ValueError(f"{where}: expected info column {key!r} to be an array, got {ragged}") from None


def column_item(column: NDArray[Any], row: int) -> Any:
    """Row ``row`` of a column as a dict value: a plain Python scalar where there is one, else a copy."""
    return column.item(row) if _holds_scalars(column) else copy_value(column[row])


def item_reader(column: NDArray[Any]) -> Callable[[int], Any]:
    """What gives a row of a column as ``column_item`` does, for one that is read again and again."""
    return column.item if _holds_scalars(column) else partial(column_item, column)


def _holds_scalars(column: NDArray[Any]) -> bool:
    return column.ndim == 1 and column.dtype.kind in "biufcSU"


def stack_values(values: Sequence[Any]) -> NDArray[Any]:
    """One array of some values, none of which changes by it.

    Numbers promote to a common type, strings keep their length, and arrays (or lists) of one shape become one array
    with a leading axis. Ragged arrays, dicts, None and mixed values become an array of objects.
    """
    if all(isinstance(value, (bool, np.bool_, int, float, complex, np.number)) for value in values):
        return np.array(values)
    if all(isinstance(value, str) and not value.endswith("\0") for value in values):  # NumPy drops zeros at the end
        return np.array(values)
    if all(isinstance(value, bytes) and not value.endswith(b"\0") for value in values):
        return np.array(values)
    if all(isinstance(value, (np.ndarray, np.generic, list, tuple)) for value in values):
        try:
            arrays = [_as_array(value) for value in values]
            if all(_alike(array, arrays[0]) for array in arrays):
                return np.stack(arrays)
        except (TypeError, ValueError):  # ragged within one value, of mixed items, or without a common dtype
            pass
    stacked = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        stacked[row] = value
    return stacked


def _as_array(value: Any) -> NDArray[Any]:
    """A value as an array; TypeError where that would turn numbers into strings or drop zeros of a string."""
    array = np.asarray(value)
    if array.dtype.kind in "SU" and not isinstance(value, np.ndarray):
        if isinstance(value, (str, bytes)) or any(not isinstance(item, (str, bytes)) for item in value):
            raise TypeError("mixed items")
    return array


def _alike(array: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether both go into one array that keeps their values: the same shape, and kinds that promote."""
    numeric = array.dtype.kind in "biufc" and other.dtype.kind in "biufc"
    return array.shape == other.shape and (numeric or array.dtype.kind == other.dtype.kind)
