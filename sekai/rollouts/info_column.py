"""InfoColumn: one info of every step and sub-env, as an array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.batching.info_list import InfoList
from sekai.batching.infos import column_item, stack_values
from sekai.types import InfoDict

_OBJECT = np.dtype(object)
_NUMBERS = "biufc"
#: What stands for a missing value, by the kind of dtype that has something for it.
_GAPS = {"f": np.nan, "c": np.nan, "m": np.timedelta64("NaT", "ns"), "M": np.datetime64("NaT", "ns"), "O": None}


class InfoColumn:
    """One info over time, in an array that is allocated once, and again only if a later value does not fit into it.

    Args:
        key: Its key in the infos.
        num_steps: The number T of steps.
        used: An array of which nothing is needed any more, taken if it fits; None for fresh memory.

    Attributes:
        array: (T, N, ...), once the first step is written.
    """

    def __init__(self, key: str, num_steps: int, used: NDArray[Any] | None = None) -> None:
        self.key = key
        self.num_steps = num_steps
        self.array: NDArray[Any]
        self._used = used

    def write(self, step: int, infos: list[InfoDict]) -> None:
        """Take in one step.

        Args:
            step: Which; steps come in order.
            infos: One per sub-env.

        Raises:
            KeyError: It is the first step, and no sub-env has the key.
        """
        rows, values = _rows_with(self.key, infos)
        if step == 0 and not len(values):
            raise no_info(self.key, {key for info in infos for key in info})
        self.put(step, rows, values, len(infos))

    def put(self, step: int, rows: Any, values: NDArray[Any], num_envs: int) -> None:
        """Take in one step of which the values are known.

        Args:
            step: Which; steps come in order.
            rows: The sub-envs that told one, as an index.
            values: What they told, as one array; of the first step not empty.
            num_envs: The number N of sub-envs.
        """
        if step == 0:
            shape = () if values.dtype == _OBJECT else values.shape[1:]
            self.array = self.room((self.num_steps, num_envs, *shape), values.dtype)
        array, gaps = self.array, len(values) < num_envs
        if not gaps and values.dtype == array.dtype and values.shape == array.shape[1:]:
            array[step] = values
            return
        dtype = array.dtype
        if len(values):
            dtype = _common_dtype(dtype, values.dtype) if values.shape[1:] == array.shape[2:] else _OBJECT
        if gaps:
            dtype = _with_gaps(dtype)
        if dtype != array.dtype:
            self._convert(step, dtype)
        if gaps:
            self.array[step] = _GAPS[dtype.kind]
        if len(values):
            self.array[step, rows] = _as_objects(values) if dtype == _OBJECT else values

    def room(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array (T, N, ...) that is not filled."""
        used = self._used
        if used is not None and used.shape == shape and used.dtype == dtype and used.flags.carray:
            return used
        return np.empty(shape, dtype)

    def _convert(self, num_written: int, dtype: np.dtype[Any]) -> None:
        """Move the steps written so far into an array of another dtype, which is (T, N) if that is object."""
        array = self.array
        shape = array.shape[:2] if dtype == _OBJECT else array.shape
        self.array = np.empty(shape, dtype)
        for step in range(num_written):
            self.array[step] = _as_objects(array[step]) if dtype == _OBJECT else array[step]


def no_info(key: str, there: Iterable[str]) -> KeyError:
    """The error for a key that no sub-env has in the first step."""
    return KeyError(f"rollout(infos=...): no info {key!r} in the first step; there are {sorted(there)}")


def _rows_with(key: str, infos: list[InfoDict]) -> tuple[Any, NDArray[Any]]:
    """The rows whose info has the key, as an index, and their values."""
    column = column_of(key, infos)
    if column is not None:
        return column
    having = [row for row, info in enumerate(infos) if key in info]
    return having, stack_values([infos[row][key] for row in having])


def column_of(key: str, infos: list[InfoDict]) -> tuple[Any, NDArray[Any]] | None:
    """The same of infos that hold a column of the key; None of others."""
    column = infos.column(key) if isinstance(infos, InfoList) else None
    if not isinstance(infos, InfoList) or column is None:
        return None
    rows = slice(None) if infos.absent is None else np.flatnonzero(~infos.absent)
    return rows, column[rows]


def _common_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype for values of both, by the rule of ``stack_infos``."""
    if a == b:
        return a
    if (a.kind in _NUMBERS and b.kind in _NUMBERS) or (a.kind == b.kind and a.kind in "SUmM"):
        return np.promote_types(a, b)
    return _OBJECT


def _with_gaps(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype for the same values and missing ones."""
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    return dtype if dtype.kind in _GAPS else _OBJECT


def _as_objects(values: NDArray[Any]) -> NDArray[Any]:
    """An object array (n,) of the rows of an array (n, ...)."""
    if values.dtype == _OBJECT and values.ndim == 1:
        return values
    objects = np.empty(len(values), dtype=object)
    for row in range(len(values)):
        objects[row] = column_item(values, row)
    return objects
