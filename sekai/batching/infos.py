"""Infos of a batch: the names of the keys the kit writes, lazily built dicts, and the way back to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from sekai.types import InfoArrays, InfoDict

FINAL_OBSERVATION = "final_observation"
FINAL_INFO = "final_info"
RESET_INFO = "reset_info"
EPISODE = "episode"
ELAPSED_STEPS = "elapsed_steps"

_ATOMS = (float, int, bool, str, type(None), np.generic)
_NO_ROWS = np.empty(0, dtype=np.intp)
_NO_ROWS.flags.writeable = False


def snapshot_value(value: Any) -> Any:
    """A copy of whatever may be written to later, at any depth; what cannot be copied is handed on as it is."""
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            return value.copy()
        copied = np.empty(value.size, dtype=object)
        for position, item in enumerate(value.flat):
            copied[position] = snapshot_value(item)
        return copied.reshape(value.shape)
    kind = type(value)
    if kind is dict:
        return {key: snapshot_value(item) for key, item in value.items()}
    if kind is list or kind is tuple or kind is set:
        return kind(snapshot_value(item) for item in value)
    from copy import deepcopy

    try:
        return deepcopy(value)
    except Exception:  # a lock, a socket, a generator: there is one of it
        return value


def snapshot_info(info: Mapping[str, Any]) -> InfoDict:
    """A copy of an info that nothing the environment does later can change."""
    return {key: snapshot_value(value) for key, value in info.items()} if info else {}


def snapshot_columns(columns: InfoArrays, num_rows: int, where: str) -> dict[str, NDArray[Any]]:
    """Copies of info columns.

    An array that owns its data and is marked read-only is taken as it is: nothing can write to it, so that a
    kernel which writes new arrays each step hands them over at no cost.

    Args:
        columns: Arrays whose first axis is the rows.
        num_rows: The expected length of that axis.
        where: What the error message calls their origin.

    Raises:
        ValueError: A column's first axis is not ``num_rows`` long; the message names its key and shape.
    """
    copied: dict[str, NDArray[Any]] = {}
    for key, column in columns.items():
        array = np.asarray(column)
        if array.ndim == 0 or len(array) != num_rows:
            raise ValueError(
                f"{where}: expected info column {key!r} with a first axis of {num_rows}, got shape {array.shape}"
            )
        immutable = array.flags.owndata and not array.flags.writeable and array.dtype != object
        copied[key] = array if immutable else snapshot_value(array)
    return copied


def column_item(column: NDArray[Any], row: int) -> Any:
    """Row ``row`` of a column as a dict value: a plain Python scalar where there is one, else a copy."""
    if column.ndim > 1:
        return column[row].copy()
    return column.item(row) if column.dtype.kind in "biufcSU" else snapshot_value(column[row])


class EndedRows(Protocol):
    """What ended episodes add to the info dicts of their rows (see ``sekai.batching.episodes``)."""

    def apply(self, info: InfoDict, position: int) -> InfoDict:
        """The info of the ``position``-th ended row."""

    def final(self, key: str) -> Any:
        """The values of a key the rule adds, for all ended rows; KeyError for any other key."""

    def replace_observations(self, space: Any, observations: Any) -> EndedRows:
        """The same with other terminal observations."""


class InfoList(list[InfoDict]):
    """The infos of a native vector environment: a list of dicts that holds columns until somebody reads a dict.

    Dict ``i`` is built the first time it is asked for and is the same object ever after. Every way of reading a
    list works. Training code that wants arrays reads them without any dict:

    Attributes:
        columns: The info columns, each with a first axis of ``num_envs``. A snapshot: later steps never change it.
        done: intp (k,), the rows whose episode ended in this step, ascending.
    """

    __slots__ = ("columns", "done", "_num_rows", "_absent", "_ended", "_extras", "_dicts", "_is_list")

    def __init__(
        self,
        num_rows: int,
        columns: Mapping[str, NDArray[Any]] | None = None,
        *,
        done: NDArray[np.intp] = _NO_ROWS,
        ended: EndedRows | None = None,
        absent: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take over columns.

        Args:
            num_rows: How many infos.
            columns: Snapshots with a first axis of ``num_rows``; they are not copied.
            done: The rows whose episode ended, ascending.
            ended: What to add to the infos of those rows; None adds nothing.
            absent: bool (num_rows,), rows whose info is empty whatever the columns hold; None for no such row.
        """
        super().__init__()
        self.columns = dict(columns or {})
        self.done = done
        self._num_rows = num_rows
        self._ended = ended
        self._absent = absent
        self._extras: dict[str, dict[int, Any]] = {}
        self._dicts: dict[int, InfoDict] = {}
        self._is_list = False

    # -- columns -------------------------------------------------------------------------------------------

    def final(self, key: str) -> Any:
        """The values of ``key`` at the rows of ``done``, in that order.

        ``"final_observation"`` gives the batch of terminal observations (nested like the observation space),
        ``"final_info"`` and ``"reset_info"`` dicts of columns, a key that only ended rows have (e.g. "episode") a
        list, and any other key the rows of its column.

        Raises:
            KeyError: No row of ``done`` has the key.
        """
        if key in self._extras:
            values = self._extras[key]
            return [values[int(row)] for row in self.done]
        if self._ended is not None:
            if key == FINAL_INFO:
                return {name: column[self.done] for name, column in self.columns.items()}
            try:
                return self._ended.final(key)
            except KeyError:
                pass
        if key not in self.columns:
            raise KeyError(f"no info {key!r} at the ended rows; there are {sorted(self._keys())}")
        return self.columns[key][self.done]

    @property
    def has_final_observations(self) -> bool:
        """Whether rows of ``done`` carry a terminal observation, since they were reset in the same step."""
        return self._ended is not None and self.done.size > 0

    def replace_final_observations(self, space: Any, observations: Any) -> None:
        """Put other terminal observations in, a batch of ``len(done)`` elements of ``space``.

        Dicts that somebody has read, and may have written to, keep theirs (see ``read_final``).
        """
        assert self._ended is not None
        self._ended = self._ended.replace_observations(space, observations)

    def read_final(self) -> list[InfoDict]:
        """The dicts of the rows of ``done`` that somebody has read."""
        read = (self._peek(row) for row in self.done.tolist())
        return [info for info in read if info is not None]

    def set_items(self, key: str, rows: Iterable[int], values: Iterable[Any]) -> None:
        """Give some rows a value under ``key``, without building their dicts."""
        extra = self._extras.setdefault(key, {})
        for row, value in zip(rows, values, strict=True):
            extra[row] = value
            handed_out = self._peek(row)
            if handed_out is not None:
                handed_out[key] = value

    def stacked(self) -> dict[str, NDArray[Any]] | None:
        """What ``stack_infos`` gives for this list, from the columns; None when only the dicts can tell."""
        everyone_ended = self.done.size == self._num_rows
        if self._is_list or everyone_ended or len(self._dicts) == self._num_rows:
            return None
        if self._absent is not None and any(row not in self._dicts for row in np.flatnonzero(self._absent)):
            return {}
        stacked: dict[str, NDArray[Any]] = {}
        for key, column in self.columns.items():
            if all(key in info for info in self._dicts.values()):
                if not all(_same(info[key], column_item(column, row)) for row, info in self._dicts.items()):
                    return None
                stacked[key] = column.copy()
        return stacked

    def _keys(self) -> set[str]:
        return {*self.columns, *self._extras}

    # -- dicts ---------------------------------------------------------------------------------------------

    def _peek(self, row: int) -> InfoDict | None:
        return list.__getitem__(self, row) if self._is_list else self._dicts.get(row)

    def _build(self, row: int) -> InfoDict:
        absent = self._absent is not None and bool(self._absent[row])
        info = {} if absent else {key: column_item(column, row) for key, column in self.columns.items()}
        if self._ended is not None:
            position = int(np.searchsorted(self.done, row))
            if position < self.done.size and self.done[position] == row:
                info = self._ended.apply(info, position)
        for key, values in self._extras.items():
            if row in values:
                info[key] = values[row]
        return info

    def _dict(self, row: int) -> InfoDict:
        info = self._dicts.get(row)
        if info is None:
            info = self._dicts[row] = self._build(row)
        return info

    def _become_list(self) -> None:
        """Build every dict and move them into the list's own storage, for what only works there."""
        if not self._is_list:
            list.extend(self, [self._dict(row) for row in range(self._num_rows)])
            self._dicts.clear()
            self._is_list = True

    def __len__(self) -> int:
        return list.__len__(self) if self._is_list else self._num_rows

    def __iter__(self) -> Iterator[InfoDict]:
        if self._is_list:
            return list.__iter__(self)
        return (self._dict(row) for row in range(self._num_rows))

    def __reversed__(self) -> Iterator[InfoDict]:
        if self._is_list:
            return list.__reversed__(self)
        return (self._dict(row) for row in reversed(range(self._num_rows)))

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if self._is_list:
            return list.__getitem__(self, index)
        try:
            rows = range(self._num_rows)[index]
        except IndexError:
            raise IndexError(f"infos: index {index} is out of range for {self._num_rows} sub-envs") from None
        return self._dict(rows) if isinstance(rows, int) else [self._dict(row) for row in rows]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and list(self) == list(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __radd__(self, other: list[InfoDict]) -> list[InfoDict]:
        return other + list(self)

    def copy(self) -> list[InfoDict]:
        """A plain list of the same dicts."""
        return list(self)

    def __reduce__(self) -> Any:
        if self._is_list:
            return list, (list(self),)
        state = (
            self._num_rows,
            self.columns,
            self.done,
            self._ended,
            self._absent,
            self._extras,
            self._dicts,
        )
        return _restore, state

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.__reduce__()


def _restore(
    num_rows: int,
    columns: dict[str, NDArray[Any]],
    done: NDArray[np.intp],
    ended: EndedRows | None,
    absent: NDArray[np.bool_] | None,
    extras: dict[str, dict[int, Any]],
    dicts: dict[int, InfoDict],
) -> InfoList:
    infos = InfoList(num_rows, columns, done=done, ended=ended, absent=absent)
    infos._extras = {key: dict(values) for key, values in extras.items()}
    infos._dicts = dict(dicts)
    return infos


def _on_the_list(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def call(self: InfoList, *args: Any, **kwargs: Any) -> Any:
        self._become_list()
        return method(self, *args, **kwargs)

    call.__name__ = name
    call.__doc__ = method.__doc__
    return call


# What C code does on a list's own storage: build the dicts first.
for _name in (
    "__setitem__ __delitem__ __add__ __iadd__ __mul__ __rmul__ __imul__ __contains__ __repr__ __lt__ __le__ __gt__ "
    "__ge__ append clear count extend index insert pop remove reverse sort"
).split():
    setattr(InfoList, _name, _on_the_list(_name))


def stack_infos(infos: list[InfoDict]) -> dict[str, Any]:
    """Stack a list of per-env info dicts into ``{key: np.array}``.

    Keys that appear in all dicts are stacked; missing keys are skipped. Numbers promote to a common type, strings
    keep their length, and arrays of one shape become one array with a leading axis; ragged arrays, dicts, None and
    mixed values become object arrays. An ``InfoList`` is stacked from its columns without building a dict.

    Args:
        infos: One dict per sub-env.

    Returns:
        A dict of fresh arrays with a first axis of ``len(infos)``; empty for an empty list.
    """
    if isinstance(infos, InfoList):
        stacked = infos.stacked()
        if stacked is not None:
            return stacked
    if not infos:
        return {}
    first, *others = infos
    keys = [key for key in first if all(key in info for info in others)]
    return {key: stack_values([info[key] for info in infos]) for key in keys}


def stack_values(values: Sequence[Any]) -> NDArray[Any]:
    """One array of some values, by the rules of ``stack_infos``: no value is changed."""
    if all(isinstance(value, (bool, np.bool_, int, float, complex, np.number)) for value in values):
        return np.array(values)
    if all(isinstance(value, (str, np.str_)) for value in values):
        return np.array(values, dtype=np.str_)
    if all(isinstance(value, (bytes, np.bytes_)) for value in values) and not any(
        value.endswith(b"\0") for value in values
    ):
        return np.array(values, dtype=np.bytes_)
    if all(isinstance(value, (np.ndarray, list, tuple, np.generic)) for value in values):
        try:
            arrays = [np.asarray(value) for value in values]
        except ValueError:  # ragged within one value
            arrays = []
        if arrays and all(_alike(array, arrays[0]) for array in arrays):
            return np.stack(arrays)
    stacked = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        stacked[row] = value
    return stacked


def _alike(array: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether both go into one array that keeps their values: the same shape, and kinds that promote."""
    numeric = array.dtype.kind in "biufc" and other.dtype.kind in "biufc"
    return array.shape == other.shape and (numeric or array.dtype.kind == other.dtype.kind)


def _same(value: Any, built: Any) -> bool:
    """Whether a dict's value is still what the column says."""
    if isinstance(built, np.ndarray):
        return isinstance(value, np.ndarray) and np.array_equal(value, built, equal_nan=built.dtype.kind in "fc")
    return type(value) is type(built) and (value is built or bool(value == built) or value != value)
