"""InfoList: the infos of a native vector environment, columns until somebody reads a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import FINAL_INFO, FINAL_OBSERVATION, RESET_INFO, column_item, stack_values
from sekai.types import InfoDict

_NO_ROWS = np.empty(0, dtype=np.intp)
_NO_ROWS.flags.writeable = False

_Columns: TypeAlias = "dict[str, NDArray[Any]] | Callable[[], dict[str, NDArray[Any]]]"

_KEYS_OF_THE_RULE = (FINAL_OBSERVATION, FINAL_INFO, RESET_INFO)


class EndedRows(Protocol):
    """What ended episodes add to the info dicts of their rows (see ``sekai.batching.episodes``)."""

    def apply(self, info: InfoDict, position: int) -> InfoDict:
        """The info of the ``position``-th ended row."""

    def final(self, key: str) -> Any:
        """The values of a key the rule adds, for all ended rows; KeyError for any other key."""

    def replace_observations(self, space: Any, observations: Any) -> EndedRows:
        """The same with other terminal observations."""


class _ValuesAt(Mapping[int, Any]):
    """Values by their rows, which ascend."""

    __slots__ = ("_rows", "_values")

    def __init__(self, rows: NDArray[np.intp], values: Sequence[Any]) -> None:
        self._rows = rows
        self._values = values

    def __getitem__(self, row: int) -> Any:
        if row not in self:
            raise KeyError(row)
        return self._values[int(self._rows.searchsorted(row))]

    def __contains__(self, row: object) -> bool:
        position = self._rows.searchsorted(row)  # type: ignore[call-overload]
        return bool(position < self._rows.size and self._rows[position] == row)

    def __len__(self) -> int:
        return self._rows.size

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows.tolist())


class InfoList(list[InfoDict]):
    """The infos of a native vector environment: a list of dicts that holds columns until somebody reads a dict.

    Dict ``i`` is built the first time it is asked for and is the same object ever after. Every way of reading a
    list works; a way of changing one builds all dicts first. Training code that wants arrays reads them without any
    dict:

    Attributes:
        done: intp (k,), the rows whose episode ended in this step, ascending.
    """

    __slots__ = ("done", "_columns", "_num_rows", "_absent", "_ended", "_extras", "_dicts", "_is_list")

    def __init__(self, infos: Iterable[InfoDict] = ()) -> None:
        """A list of dicts like any other; ``InfoList.of_columns`` makes the other kind."""
        super().__init__(infos)
        self._columns: _Columns = {}
        self.done: NDArray[np.intp] = _NO_ROWS
        self._num_rows = 0
        self._ended: EndedRows | None = None
        self._absent: NDArray[np.bool_] | None = None
        self._extras: dict[str, Mapping[int, Any]] = {}
        self._dicts: dict[int, InfoDict] = {}
        self._is_list = True

    @classmethod
    def of_columns(
        cls,
        num_rows: int,
        columns: Mapping[str, NDArray[Any]] | Callable[[], dict[str, NDArray[Any]]] | None = None,
        *,
        done: NDArray[np.intp] = _NO_ROWS,
        ended: EndedRows | None = None,
        absent: NDArray[np.bool_] | None = None,
    ) -> InfoList:
        """Take over columns.

        Args:
            num_rows: How many infos.
            columns: Arrays with a first axis of ``num_rows``, which are not copied, or what makes them when
                somebody asks.
            done: The rows whose episode ended, ascending.
            ended: What to add to the infos of those rows; None adds nothing.
            absent: bool (num_rows,), rows whose info is empty whatever the columns hold; None for no such row.
        """
        infos = cls.__new__(cls)
        infos._columns = columns if callable(columns) else {} if columns is None else dict(columns)
        infos.done = done
        infos._num_rows = num_rows
        infos._ended = ended
        infos._absent = absent
        infos._extras = {}
        infos._dicts = {}
        infos._is_list = False
        return infos

    # -- columns -------------------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The info columns by key, each with a first axis of ``num_envs``; later steps never change them."""
        columns = self._columns
        if callable(columns):
            columns = self._columns = columns()
        return columns

    def final(self, key: str) -> Any:
        """The values of ``key`` at the rows of ``done``, in that order.

        ``"final_observation"`` gives the batch of terminal observations (nested like the observation space),
        ``"final_info"`` and ``"reset_info"`` dicts of columns, a key that only ended rows have (e.g. "episode") a
        list, and any other key the rows of its column. All of them are empty in a step that ended no episode.

        Raises:
            KeyError: Not every row of ``done`` has the key, e.g. "final_observation" without autoreset.
        """
        if key in self._extras:
            rows, at = self.done.tolist(), self._extras[key]
            if at.keys() >= set(rows):
                return [at[row] for row in rows]
            if key not in self.columns:
                raise KeyError(f"info {key!r} is not at every ended row, only at {sorted(at)}")
            return [self._look(row)[key] for row in rows]
        if self._ended is not None:
            if key == FINAL_INFO:
                return {name: column[self.done] for name, column in self.columns.items()}
            if key in _KEYS_OF_THE_RULE:
                return self._ended.final(key)
        if key not in self.columns:
            raise KeyError(f"no info {key!r} at the ended rows; there are {sorted({*self.columns, *self._extras})}")
        return self.columns[key][self.done]

    @property
    def has_final_observations(self) -> bool:
        """Whether rows of ``done`` carry a terminal observation, since rows that end are reset in the same step."""
        return self._ended is not None

    def replace_final_observations(self, space: Any, observations: Any) -> None:
        """Put other terminal observations in, a batch of ``len(done)`` elements of ``space``.

        Dicts that somebody has read, and may have written to, keep theirs (see ``read_final``).
        """
        assert self._ended is not None
        self._ended = self._ended.replace_observations(space, observations)

    def read_final(self) -> list[InfoDict]:
        """The dicts of the rows of ``done`` that somebody has read."""
        if not self._is_list and not self._dicts:
            return []
        read = (self._peek(row) for row in self.done.tolist())
        return [info for info in read if info is not None]

    def set_items(self, key: str, rows: Iterable[int], values: Iterable[Any]) -> None:
        """Give some rows a value under ``key``, without building their dicts.

        Args:
            key: The key.
            rows: Which rows.
            values: As many values. If they are a sequence, and the rows an array, intp (k,), that ascends, a value is
                asked for when somebody reads it.
        """
        values_at: Mapping[int, Any]
        if isinstance(rows, np.ndarray) and isinstance(values, Sequence) and len(rows) == len(values):
            values_at = _ValuesAt(rows, values)
        else:
            values_at = dict(zip(rows, values, strict=True))
        before = self._extras.get(key)
        self._extras[key] = {**before, **values_at} if before else values_at
        if not self.is_untouched:
            for row, value in values_at.items():
                read = self._peek(row)
                if read is not None:
                    read[key] = value

    @property
    def is_untouched(self) -> bool:
        """Whether nobody has read a dict, and may so have written to it."""
        return not self._is_list and not self._dicts

    @property
    def absent(self) -> NDArray[np.bool_] | None:
        """Bool (num_envs,), not to be written to: rows whose info is empty; None where there is none."""
        return self._absent

    @property
    def ended(self) -> EndedRows | None:
        """What ended episodes add to the dicts of their rows; None where nothing is added."""
        return self._ended

    @property
    def extras(self) -> Mapping[str, Mapping[int, Any]]:
        """What ``set_items`` has added: the values of each key by their rows."""
        return MappingProxyType(self._extras)

    def column(self, key: str) -> NDArray[Any] | None:
        """The column that tells, but for rows of ``absent``, what all dicts hold under a key; None where none does."""
        column = self.columns.get(key)
        ruled = self._ended is not None and key in _KEYS_OF_THE_RULE and self.done.size > 0
        if column is None or self._is_list or ruled or key in self._extras:
            return None
        if column.dtype == object:
            return None if self._dicts else column
        unchanged = (key in info and _same(info[key], column_item(column, row)) for row, info in self._dicts.items())
        return column if all(unchanged) else None

    def stacked(self) -> dict[str, NDArray[Any]]:
        """What ``stack_infos`` gives for this list: copies of the columns, as far as no dict says otherwise."""
        if not len(self):
            return {}
        ruled = _KEYS_OF_THE_RULE if self._ended is not None else ()
        keys = dict.fromkeys([*self.columns, *ruled, *self._extras, *(self._peek(0) or {})])
        return {key: self._stack(key) for key in keys if self._is_everywhere(key)}

    def _is_everywhere(self, key: str) -> bool:
        """Whether all dicts have the key, without building those that nobody has read."""
        if self._is_list:
            return all(key in info for info in self)
        if not all(key in info for info in self._dicts.values()):
            return False
        with_key = {*self._extras.get(key, ()), *self._dicts}
        if key in self.columns:
            if self._absent is None:
                return True
            with_key.update(np.flatnonzero(~self._absent).tolist())
        if self._ended is not None and key in _KEYS_OF_THE_RULE:
            with_key.update(self.done.tolist())
        return len(with_key) == self._num_rows

    def _stack(self, key: str) -> NDArray[Any]:
        column = self.column(key)
        if column is not None and column.dtype != object:
            return np.array(column)
        return stack_values([self._look(row)[key] for row in range(len(self))])

    # -- dicts ---------------------------------------------------------------------------------------------

    def _peek(self, row: int) -> InfoDict | None:
        """The dict of a row if somebody has read it."""
        return list.__getitem__(self, row) if self._is_list else self._dicts.get(row)

    def _look(self, row: int) -> InfoDict:
        """The dict of a row, without handing it out."""
        read = self._peek(row)
        return self._build(row) if read is None else read

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
        return self._dicts.setdefault(row, self._build(row)) if info is None else info

    def _become_list(self) -> None:
        """Build every dict and move them into the list's own storage, for what only works there."""
        if not self._is_list:
            list.extend(self, [self._dict(row) for row in range(self._num_rows)])
            self._dicts.clear()
            self._is_list = True

    def __len__(self) -> int:
        return list.__len__(self) if self._is_list else self._num_rows

    def __iter__(self) -> Iterator[InfoDict]:
        # Asks anew for each dict: while it goes on, the list may take them into its own storage, and change.
        row = 0
        while row < len(self):
            yield self[row]
            row += 1

    def __reversed__(self) -> Iterator[InfoDict]:
        for row in reversed(range(len(self))):
            if row < len(self):
                yield self[row]

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if self._is_list:
            return list.__getitem__(self, index)
        try:
            rows = range(self._num_rows)[index]
        except IndexError:
            raise IndexError(f"infos: index {index} is out of range for {self._num_rows} sub-envs") from None
        return self._dict(rows) if isinstance(rows, int) else [self._dict(row) for row in rows]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, list) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return list(self) != list(other) if isinstance(other, list) else NotImplemented

    __hash__ = None

    def __radd__(self, other: list[InfoDict]) -> list[InfoDict]:
        return other + list(self) if isinstance(other, list) else NotImplemented

    def copy(self) -> list[InfoDict]:
        """A plain list of the same dicts."""
        return list(self)

    __copy__ = copy

    def __reduce__(self) -> Any:
        if self._is_list:
            return list, (list(self),)
        extras = {key: dict(values) for key, values in self._extras.items()}
        state = (self._num_rows, self.columns, self.done, self._ended, self._absent, extras, self._dicts)
        return _restore, state

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.__reduce__()


def _restore(
    num_rows: int,
    columns: dict[str, NDArray[Any]],
    done: NDArray[np.intp],
    ended: EndedRows | None,
    absent: NDArray[np.bool_] | None,
    extras: dict[str, Mapping[int, Any]],
    dicts: dict[int, InfoDict],
) -> InfoList:
    infos = InfoList.of_columns(num_rows, columns, done=done, ended=ended, absent=absent)
    infos._extras = dict(extras)
    infos._dicts = dict(dicts)
    return infos


def _on_the_list(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def call(self: InfoList, *args: Any, **kwargs: Any) -> Any:
        for each in (self, *args):
            if isinstance(each, InfoList):
                each._become_list()
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


def _same(value: Any, built: Any) -> bool:
    """Whether a dict's value is still what the column says."""
    if isinstance(built, np.ndarray):
        alike = isinstance(value, np.ndarray) and value.dtype == built.dtype
        return alike and np.array_equal(value, built, equal_nan=built.dtype.kind in "fc")
    if type(value) is not type(built):
        return False
    return bool(value == built) or bool(value != value and built != built)


def stack_infos(infos: list[InfoDict]) -> dict[str, Any]:
    """One array per key of the infos of N sub-envs.

    A key that some sub-env lacks is left out. Numbers promote to a common type, strings
    keep their length, and arrays of one shape become one array with a leading axis; ragged arrays, dicts, None and
    mixed values become object arrays. An ``InfoList`` is stacked from its columns, in their dtypes, without building
    a dict.

    Args:
        infos: One dict per sub-env.

    Returns:
        A dict of fresh arrays with a first axis of ``len(infos)``; empty for an empty list.
    """
    if isinstance(infos, InfoList):
        return infos.stacked()
    if not infos:
        return {}
    first, *others = infos
    keys = [key for key in first if all(key in info for info in others)]
    return {key: stack_values([info[key] for info in infos]) for key in keys}
