"""What the compiled functions of a market are made from: its row functions, and what they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sekai.batching.slab import Column, Slab, as_word

#: Rows that are worked on at once at most, and the memory of those: a part of what a core's second cache holds.
_MOST_ROWS, _MOST_BYTES = 1024, 1 << 18

_I8, _F8, _BOOL = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)


class Field(NamedTuple):
    """One field of a record that row functions see.

    Attributes:
        name: Of the variable that holds it.
        kind: "number" (one for all rows), "column" (one for each), "state" (the column itself), "array" (shared by all
            rows) or "constant".
        dtype: Of a number or a column.
        shape: Of a row of a state column.
        value: Of a constant.
    """

    name: str
    kind: str
    dtype: Any = None
    shape: tuple[int, ...] = ()
    value: Any = None


class Record(NamedTuple):
    """A named tuple of fields, as row functions get it.

    Attributes:
        kind: The class.
        fields: In its order; a record where one is a named tuple itself.
    """

    kind: Any
    fields: tuple[Any, ...]

    def flat(self) -> list[Field]:
        """All fields, those of records in it too."""
        return [each for part in self.fields for each in (part.flat() if isinstance(part, Record) else [part])]


def _items(part: Any, k: int) -> list[tuple[Field, str]]:
    """Item ``k`` of a record: the fields in it, and where they are."""
    if isinstance(part, Record):
        return [(each, f"[{k}]{at}") for j, field in enumerate(part.fields) for each, at in _items(field, j)]
    return [(part, f"[{k}]")]


class Part(NamedTuple):
    """One array of a batch of actions or observations.

    Attributes:
        dtype: Its dtype.
        shape: Of one row.
        is_number: Whether a row function sees a number, not an array.
        valid: For actions: the source of whether items are valid, ``{x}`` standing for an item, by their position in a
            row; one entry if all are alike.
        limits: For actions of many items that differ: the least and the greatest of each.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_number: bool = False
    valid: tuple[str, ...] = ()
    limits: tuple[tuple[float, ...], ...] = ()

    @property
    def width(self) -> int:
        """Items of a row."""
        return int(np.prod(self.shape, dtype=np.int64))


class Batch(NamedTuple):
    """Actions or observations: one array, or several in a tuple or named tuple.

    Attributes:
        parts: The arrays.
        kind: The class of a named tuple, ``tuple``, or None for one array.
    """

    parts: tuple[Part, ...]
    kind: Any = None


@dataclass(eq=False)
class Market:
    """What the compiled functions of a market are made from.

    Attributes:
        name: Of the class, for its functions' names.
        module: Of the class.
        functions: The row functions, by what they do: "reset", "step", "observe", and "derive" where there is one.
        params: Parameters.
        state: State columns.
        derived: What follows from parameters; None for nothing.
        rows_derived: How many of its last fields, parts counted as one, ``derive`` returns.
        options: What resets can be told; None for nothing.
        randomized: Names of parameter columns that are drawn at resets, in order.
        actions: The batch of actions.
        observations: The batch of observations.
        masks: The batch of masks, None of a market without a row function "mask".
        infos: Keys of a step, and the names of their variables.
        reset_infos: The same of a reset.
        limited: Whether there is a time limit.
        parallel_from: From how many rows on it may run on several threads, None for the kit's number.
    """

    name: str
    module: str
    functions: dict[str, Any]
    params: Record
    state: Record
    derived: Record | None
    rows_derived: int
    options: Record | None
    randomized: tuple[str, ...]
    actions: Batch
    observations: Batch
    masks: Batch | None
    infos: dict[str, Field]
    reset_infos: dict[str, Field]
    limited: bool
    parallel_from: int | None

    def __post_init__(self) -> None:
        self.numbers = [each for each in self._fields(self.params, self.derived) if each.kind == "number"]
        self.arrays = [each for each in self._fields(self.params, self.derived) if each.kind == "array"]
        self.option_fields = self.options.flat() if self.options is not None else []
        self.memory = Slab.of(self._memory_columns())
        self.told_slab = self.slab_of(self.told)

    @staticmethod
    def _fields(*records: Record | None) -> list[Field]:
        return [each for record in records if record is not None for each in record.flat()]

    @classmethod
    def _columns_of(cls, *records: Record | None) -> list[Field]:
        return [each for each in cls._fields(*records) if each.kind == "column"]

    def _memory_columns(self) -> Iterable[Column]:
        for name in ("now", "limit"):
            yield Column(f"slot_{name}", _I8, has_rows=False)
        for each in (*self.numbers, *self.option_fields):
            yield Column(f"slot_{each.name}", np.dtype(each.dtype), has_rows=False)
        for name in self.randomized:
            yield Column(f"slot_low_{name}", _F8, has_rows=False)
            yield Column(f"slot_high_{name}", _F8, has_rows=False)
        yield from self.carried(freezes=True)
        for each in self._columns_of(self.derived):
            yield Column(each.name, np.dtype(each.dtype), each.shape)
        yield Column("ended", _I8)
        for key, each in self.reset_infos.items():
            yield Column(f"reset_{as_word(key)}", np.dtype(each.dtype), each.shape)

    def carried(self, freezes: bool) -> Iterator[Column]:
        """The columns that decide what rows show next, which lie in the memory side by side: a copy of all is one.

        Args:
            freezes: Whether rows may be frozen, so that what they show meanwhile is among them.
        """
        yield Column("key", np.dtype(np.uint64))
        yield Column("counter", np.dtype(np.uint64))
        yield Column("began", _I8)
        for each in (*self._columns_of(self.params), *self.state.flat()):
            yield Column(each.name, np.dtype(each.dtype), each.shape)
        if freezes:
            for name in ("frozen", "was_terminated", "was_truncated", "absent"):
                yield Column(name, _BOOL)
            for k, part in enumerate(self.observations.parts):
                yield Column(f"final{k}", part.dtype, part.shape)

    def slab_of(self, keys: Iterable[str]) -> Slab:
        """The slab of some infos of a step."""
        told = self.told
        return Slab.of(Column(f"told_{as_word(key)}", np.dtype(told[key].dtype), told[key].shape) for key in keys)

    @property
    def block(self) -> int:
        """Rows that are worked on at once, whose memory stays in a core's cache from one loop over them to the next."""
        row_bytes = sum(each.row_bytes for each in self.memory.columns if each.has_rows)
        return min(_MOST_ROWS, max(1, _MOST_BYTES // row_bytes))

    @property
    def kept(self) -> list[str]:
        """The columns of the memory with an entry for each row that ended in a step."""
        finals = [f"final{k}" for k in range(len(self.observations.parts))]
        return ["ended", *finals, *(f"reset_{as_word(key)}" for key in self.reset_infos)]

    @property
    def told(self) -> dict[str, Field]:
        """The infos of a step, with the elapsed steps where there is a time limit."""
        elapsed = {"elapsed_steps": Field("", "elapsed", _I8)} if self.limited else {}
        return {**self.infos, **elapsed}

    @property
    def follows(self) -> list[tuple[Field, str]]:
        """The fields that the row function "derive" returns, and where in it they are: "[2]", or "[2][0]" of a part."""
        if self.derived is None or not self.rows_derived:
            return []
        return [each for k, part in enumerate(self.derived.fields[-self.rows_derived :]) for each in _items(part, k)]

    @property
    def key(self) -> Any:
        """What its compiled functions depend on."""
        functions = tuple(sorted((what, function, names) for what, (function, names) in self.functions.items()))
        records = (self.params, self.state, self.derived, self.rows_derived, self.options, self.randomized)
        told = (tuple(self.infos.items()), tuple(self.reset_infos.items()), self.limited)
        batches = (self.actions, self.observations, self.masks)
        return self.name, self.module, functions, records, batches, told, self.parallel_from
