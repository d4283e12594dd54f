"""Parts of a rollout, each of some of the sub-envs, and the rollout of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import column_item, stack_values
from sekai.batching.joining import join
from sekai.batching.nested import copy_batch, map_parts, named_parts, take
from sekai.rollouts.info_column import InfoColumn, column_of, no_info
from sekai.rollouts.record import Rollout
from sekai.rollouts.run import fill_storage
from sekai.rollouts.storage import history_of
from sekai.types import InfoDict
from sekai.vector import VecEnv

#: The types of values of which an array keeps everything, besides NumPy's numbers and arrays.
_PLAIN = (float, int, bool, str, bytes)


@dataclass(frozen=True)
class Told:
    """What some sub-envs told under one key in one step.

    Attributes:
        rows: Those that told something, intp (k,); None for all.
        values: An array (k, ...), or a list of k values that no array keeps as they are.
        kind: The type of each value; None for those of a column of the market's own.
    """

    rows: NDArray[np.intp] | None
    values: Any
    kind: type | None

    def copy(self) -> Told:
        """The same in memory of its own."""
        rows, values = (part.copy() if isinstance(part, np.ndarray) else part for part in (self.rows, self.values))
        return Told(rows, values, self.kind)

    def each(self) -> list[Any]:
        """The values one by one, as the infos hold them."""
        if isinstance(self.values, list):
            return self.values
        if self.kind is None:
            return [column_item(self.values, row) for row in range(len(self.values))]
        return self.values.tolist() if self.kind in _PLAIN else list(self.values)


class PartColumn(InfoColumn):
    """One info of some sub-envs, kept so that nothing of the values is lost: of which dtype they are all tell together.

    Attributes:
        steps: What each step told, as long as ``array`` does not hold all of it.
        kind: The type of the values of ``array`` (see ``Told``).
        keys: All keys of the first step, where none of the sub-envs told this one.
    """

    def __init__(self, key: str, num_steps: int, used: NDArray[Any] | None = None) -> None:
        super().__init__(key, num_steps, used)
        self.steps: list[Told] | None = None
        self.kind: type | None = None
        self.keys: list[str] = []

    def write(self, step: int, infos: list[InfoDict]) -> None:
        """Take in one step (see ``InfoColumn.write``); whether all lack the key is not for a part to say."""
        told = self._told(infos)
        if step == 0:
            self.kind, self.steps = told.kind, []
            if told.rows is None and isinstance(told.values, np.ndarray):
                self.steps = None
                self.array = self.room((self.num_steps, *told.values.shape), told.values.dtype)
            elif told.rows is not None and not len(told.rows):
                self.keys = sorted({key for info in infos for key in info})
        if self.steps is None:
            values, array = told.values, self.array
            if told.rows is None and told.kind == self.kind and _is_like(values, array[step]):
                array[step] = values
                return
            self.steps = [Told(None, array[k], self.kind) for k in range(step)]
        self.steps.append(told)

    def _told(self, infos: list[InfoDict]) -> Told:
        column = column_of(self.key, infos)
        if column is not None:
            rows, values = column
            return Told(None if isinstance(rows, slice) else rows, values, None)
        having = [row for row, info in enumerate(infos) if self.key in info]
        rows = None if len(having) == len(infos) else np.array(having, np.intp)
        each = [infos[row][self.key] for row in having]
        kind = _kind_of(each)
        return Told(rows, each if kind is None else stack_values(each), kind)

    def at(self, step: int) -> Told:
        """What one step told."""
        return Told(None, self.array[step], self.kind) if self.steps is None else self.steps[step]


def _is_like(values: Any, row: NDArray[Any]) -> bool:
    return isinstance(values, np.ndarray) and values.dtype == row.dtype and values.shape == row.shape


def _kind_of(values: list[Any]) -> type | None:
    """The type of values of which an array keeps everything; None where none does."""
    first: Any = values[0] if values else None
    kind: type = type(first)
    if any(type(value) is not kind for value in values):
        return None
    if kind is np.ndarray:
        alike = all(value.dtype == first.dtype and value.shape == first.shape for value in values)
        return kind if alike and first.ndim and first.dtype.kind in "biufc" else None
    if kind is int:
        return kind if all(-(2**63) <= value < 2**63 for value in values) else None
    if kind in (str, bytes):
        return kind if not any(value.endswith("\0" if kind is str else b"\0") for value in values) else None
    return kind if kind in _PLAIN or issubclass(kind, (np.number, np.bool_)) else None


@dataclass(frozen=True)
class Part:
    """The rollout of some sub-envs, to be put together with those of the others.

    Attributes:
        record: All of it but the infos and the history.
        columns: The infos, by their keys, that of the clock too.
        clock: The key of the info that tells the history; None where the sub-envs name none.
    """

    record: Rollout
    columns: dict[str, PartColumn]
    clock: str | None


def roll_part(
    vec: VecEnv[Any, Any], policy: Callable[[Any], Any], num_steps: int, infos: Iterable[str] = (), **reset: Any
) -> Part:
    """Roll out some of the sub-envs (see ``rollout``).

    Args:
        vec: Of these sub-envs.
        policy: As ``rollout`` takes it.
        num_steps: The number T of steps.
        infos: The keys of the infos to keep.
        **reset: ``seed``, ``options`` and ``start``, as ``rollout`` takes them.
    """
    storage, last = fill_storage(vec, policy, num_steps, infos=infos, column=PartColumn, **reset)
    columns = {key: column for key, column in storage.columns.items() if isinstance(column, PartColumn)}
    return Part(storage.record(last, {}), columns, storage.clock)


class Joining:
    """The rollout of all sub-envs, filled by parts in any order; what ``rollout`` gives of all of them at once.

    Args:
        num_envs: The number N of all.
        infos: The keys of the infos that are kept.
    """

    def __init__(self, num_envs: int, infos: Iterable[str] = ()) -> None:
        self._num_envs = num_envs
        self._keys = list(infos)
        self._first: Part | None = None
        self._parts: list[tuple[range, Part]] = []
        self._whole: dict[str, Any] = {}
        self._dense: dict[str, NDArray[Any]] = {}

    def add(self, rows: range, part: Part) -> None:
        """Take over a part; its arrays are copied.

        Args:
            rows: Its sub-envs.
            part: What they did.

        Raises:
            ValueError: Its observations or actions are of another shape or dtype than those of the parts before.
        """
        record = part.record
        if self._first is None:
            self._first = part
            for name in _BATCHES:
                self._whole[name] = _room(getattr(record, name), self._num_envs, _axis_of(name))
        for name in _BATCHES:
            if getattr(record, name) is not None:
                _put(self._whole[name], getattr(record, name), rows, name)
        for key, column in part.columns.items():
            self._take_over(key, column, rows)
        # All is copied: where parts come from, what is left of one may keep the memory of all of it.
        finals = copy_batch(record.final_observations)
        small = {"final_indices": record.final_indices.copy(), "final_observations": finals}
        held = Rollout(**{**dict.fromkeys(Rollout.__dataclass_fields__), **small})
        self._parts.append((rows, Part(held, part.columns, part.clock)))

    def _take_over(self, key: str, column: PartColumn, rows: range) -> None:
        """Let a column of one dtype lie in the array of all, where it will be if theirs is the same."""
        if column.steps is not None:
            column.steps = [told.copy() for told in column.steps]
            return
        array = column.array
        if key not in self._dense:
            self._dense[key] = np.empty((len(array), self._num_envs, *array.shape[2:]), array.dtype)
        whole = self._dense[key][:, rows.start : rows.stop]
        if _is_like(array, whole):
            whole[...] = array
        column.array = whole if _is_like(array, whole) else array.copy()

    def rollout(self) -> Rollout:
        """The record, once all parts are there.

        Raises:
            KeyError: No sub-env's info has one of the keys in the first step.
        """
        assert self._first is not None
        self._parts.sort(key=lambda each: each[0].start)
        clocks = {part.clock for _, part in self._parts}
        clock = clocks.pop() if len(clocks) == 1 else None
        infos = {key: self._column(key) for key in dict.fromkeys(self._keys)}
        told: InfoColumn | None = None
        if clock is not None:
            try:
                told = infos[clock] if clock in infos else self._column(clock)
            except KeyError:  # nobody has asked for it, and no sub-env tells it
                pass
        whole = self._whole
        indices = [np.add(part.record.final_indices, [0, rows.start]) for rows, part in self._parts]
        finals = join([part.record.final_observations for _, part in self._parts], whole["last_observations"])
        ended = np.concatenate(indices)
        order = np.lexsort((ended[:, 1], ended[:, 0]))
        return Rollout(
            **whole,
            final_indices=ended[order],
            final_observations=take(finals, order),
            infos={key: column.array for key, column in infos.items()},
            history=history_of(told, whole["frozen"]),
        )

    def _column(self, key: str) -> InfoColumn:
        columns = [part.columns[key] for _, part in self._parts]
        whole = InfoColumn(key, len(self._whole["rewards"]))
        dense = self._dense.get(key)
        if dense is not None and all(each.steps is None and each.array.base is dense for each in columns):
            if len({each.kind for each in columns}) == 1:
                whole.array = dense
                return whole
        for step in range(whole.num_steps):
            told = [column.at(step) for column in columns]
            rows, values = self._joined(told)
            if step == 0 and not len(values):
                raise no_info(key, {other for column in columns for other in column.keys})
            whole.put(step, rows, values, self._num_envs)
        return whole

    def _joined(self, told: list[Told]) -> tuple[Any, NDArray[Any]]:
        """The rows of all that told something, and what, as one array."""
        rows: Any = slice(None)
        if any(each.rows is not None for each in told):
            which = [np.arange(len(rows)) if each.rows is None else each.rows for (rows, _), each in self._zip(told)]
            rows = np.concatenate([each + of.start for (of, _), each in zip(self._parts, which, strict=True)])
        some = [each for each in told if len(each.values)]
        arrays = [each.values for each in some if isinstance(each.values, np.ndarray)]
        is_one = len({each.kind for each in some}) == len({array.shape[1:] for array in arrays}) == 1
        kinds = {array.dtype.kind for array in arrays}
        if is_one and len(arrays) == len(some) and (len(kinds) == 1 or kinds <= set("biufc")):
            return rows, np.concatenate(arrays)
        return rows, stack_values([value for each in some for value in each.each()])

    def _zip(self, told: list[Told]) -> Any:
        return zip(self._parts, told, strict=True)


#: The attributes of a rollout that have an axis of the sub-envs.
_BATCHES = (
    *("observations", "actions", "rewards", "terminated", "truncated", "frozen"),
    *("last_observations", "continued"),
)


def _axis_of(name: str) -> int:
    return 0 if name in ("last_observations", "continued") else 1


def _room(batch: Any, num_envs: int, axis: int) -> Any:
    """Room for what all sub-envs have of this, not filled."""

    def room(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return np.empty((*part.shape[:axis], num_envs, *part.shape[axis + 1 :]), part.dtype)
        return [[None] * num_envs for _ in part] if axis else [None] * num_envs

    return None if batch is None else map_parts(room, batch)


def _put(whole: Any, batch: Any, rows: range, name: str) -> None:
    """Copy a part to where it belongs."""
    own = slice(rows.start, rows.stop)
    expected, got = (dict(named_parts(each, name)) for each in (whole, batch))
    for path, part in got.items():
        room = expected.get(path)
        if isinstance(part, np.ndarray) and isinstance(room, np.ndarray):
            place = room[own] if _axis_of(name) == 0 else room[:, own]
            if _is_like(part, place):
                place[...] = part
                continue
        elif isinstance(part, list) and isinstance(room, list):
            for here, there in [(room, part)] if _axis_of(name) == 0 else zip(room, part, strict=True):
                here[own] = there
            continue
        told = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else each for each in (room, part)]
        raise ValueError(
            f"rollout, rows {rows.start} to {rows.stop - 1}: {path}: expected what other rows have, {told[0]}, "
            f"got {told[1]}"
        )
