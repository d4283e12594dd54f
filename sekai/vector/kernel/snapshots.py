"""What a snapshot of a row market holds: columns of its memory, copied at once, and what a subclass has besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from sekai.batching.slab import Column, Slab, as_word
from sekai.snapshots.agreement import fingerprint, names_of_classes, require_columns, require_equal
from sekai.snapshots.attributes import StateByAttributes, is_of_kit, known_names
from sekai.snapshots.columns import SlabColumns, places_of, spread
from sekai.snapshots.snapshot import Kept
from sekai.vector.kernel.parameters import flat_record

if TYPE_CHECKING:
    from sekai.vector.kernel.env import KernelVecEnv

#: What names of the parameters that sub-envs have of their own begin with.
_PARAMS = "state.params."
#: What names of the shapes of arrays that all sub-envs share begin with.
_SHAPE = "shape of "
#: Which of the columns has the steps of each episode.
_CLOCK = 2
_FIRST = np.zeros(1, np.int64)


class MemoryRows:
    """Reads and writes those columns of a market's memory that are part of a snapshot.

    Args:
        vec: The env, with the memory and the parameters that it has now.
    """

    def __init__(self, vec: KernelVecEnv[Any, Any]) -> None:
        from sekai.kernels.slabs import copy_rows

        self._copy_rows = copy_rows
        n, columns = vec.num_envs, vec._bound.columns
        own = [*vec._values.columns, *vec._values.ranges]
        names = {"key": "random.key", "counter": "random.counter", "began": "elapsed_steps"}
        names |= {f"p_{as_word(path)}": f"{_PARAMS}{path}" for path in own}
        names |= {f"s_{as_word(path)}": f"state.{path}" for path in vec._definition.columns}
        market = vec._bound.market
        carried = [*market.carried(freezes=not vec.autoreset)]
        slab = Slab.of(Column(names.get(each.name, each.name), each.dtype, each.shape) for each in carried)
        starts = {each.name: start for each, start in market.memory.places(n)}
        self._vec = vec
        self._one, self._all = places_of(slab, 1), places_of(slab, n)
        self._slab = self._one.slab
        self._words = vec._bound.memory.view(np.int64)
        self._starts = np.array([starts[each.name] for each in carried])
        self._to_one = np.array([self._starts, self._one.starts, self._one.row_bytes])
        self._from_one = np.array([self._one.starts, self._starts, self._one.row_bytes])
        first = int(self._starts[0]) // 8
        self._carried = self._words[first : first + self._all.words]
        self._now, self._began = columns["slot_now"], columns["began"]
        self._derives = "derive_row" in vec._definition.functions and bool(own)
        self._fingerprints = {
            f"params.{path}": str(value)
            if path in vec._values.ranges
            else fingerprint(value, f"snapshot(): {type(vec).__name__}.{path}")
            for path, value in vec._values.given.items()
            if path not in vec._values.columns
        }
        # Parts of other functions may have the same fields.
        parts = vec._definition.parts
        self._fingerprints |= {f"params.{name}": names_of_classes(kind)[0] for name, kind in parts.items()}
        told = {f"p_{as_word(path)}": f"params.{path}" for path in vec._values.given}
        if vec._prepared is not None:
            told |= {f"d_{as_word(path)}": f"derived.{path}" for path in flat_record(vec._prepared)}
        arrays = zip(market.arrays, vec._bound.arrays, strict=True)
        self._fingerprints |= {f"{_SHAPE}{told[each.name]}": str(array.shape) for each, array in arrays}
        kind = type(vec)
        is_default = is_of_kit(kind._snapshot_rows) and is_of_kit(kind._restore_rows)
        # Whose methods say what the market holds besides: those of its class if it writes them, else the default's.
        self._more: type[StateByAttributes] = StateByAttributes if is_default else kind
        known, has_slots = known_names(kind)
        #: The attributes beside which it holds nothing but what is in the memory.
        self._known = known if is_default and not has_slots else frozenset()
        self._settings: dict[str, Any] = {}
        self._shared = self._fingerprints

    def shared(self, settings: dict[str, Any]) -> dict[str, Any]:
        """What is the same for all sub-envs, not to be written to: the same object as long as it says the same.

        Args:
            settings: What is besides the parameters that are one value, or one range, for all.
        """
        if settings != self._settings:
            self._settings, self._shared = settings, self._fingerprints | settings
        return self._shared

    # -- the market, with what a subclass holds besides ----------------------------------------------------

    def snapshot(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        """What a snapshot of some rows holds; ``is_whole`` where it is of all of them."""
        vec = self._vec
        vec._native.streams.get()  # seeded when first asked for
        whole = vec._native.generator.keep(rows, is_whole)
        kept = self.keep(rows, is_whole or vec.num_envs == len(rows) == 1)
        if self._known.issuperset(vec.__dict__):
            return Kept(kept, self.shared(vec._snapshot_settings()), whole)
        return Kept(self._with_more(rows, kept), vec._snapshot_shared(), whole)

    def _with_more(self, rows: NDArray[np.intp], kept: SlabColumns) -> Mapping[str, NDArray[Any]]:
        """The columns that are in the memory, with what a subclass holds of these rows besides."""
        found = self._more._snapshot_rows(self._vec, rows)
        own = {f"state.{name}": column for name, column in found.items() if f"state.{name}" not in kept}
        return {**kept, **own} if own else kept

    def require_shapes(self, shared: Mapping[str, Any]) -> None:
        """ValueError where a snapshot is of arrays of other shapes, in which its rows may be in places that are none.

        Args:
            shared: What its sub-envs have in common.
        """
        expected, got = (
            {name: shape for name, shape in each.items() if name.startswith(_SHAPE)}
            for each in (self._fingerprints, shared)
        )
        require_equal(expected, got, "restore(snapshot)")

    def require_own_parameters(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """ValueError where a snapshot has a number for each sub-env of a parameter that is one for all here, or not so.

        Args:
            columns: Those of the snapshot.
        """
        if self.fits(columns):
            return
        here, there = (
            {name.removeprefix(_PARAMS) for name in names if name.startswith(_PARAMS)}
            for names in ([each.name for each in self._slab.columns], columns)
        )
        for path in sorted(here ^ there):
            words = "one value for all sub-envs", "one for each (given so, or drawn)"
            expected, got = reversed(words) if path in here else words
            remedy = 'restore(snapshot, parameters="keep") of the market leaves parameters as they are here'
            raise ValueError(f"restore(snapshot): {path}: expected {expected}, got {got}; {remedy}")

    def with_own_parameters(self, rows: NDArray[np.intp], kept: Kept) -> Kept:
        """What was kept of some rows, with the parameters that these have of their own in place of those."""
        now = {f"state.{name}": column for name, column in self._vec._snapshot_rows(rows).items()}
        columns = {name: spread(column, len(rows)) for name, column in kept.columns.items()}
        others = {name: column for name, column in columns.items() if not name.startswith(_PARAMS)}
        own = {name: column for name, column in now.items() if name.startswith(_PARAMS)}
        return kept._replace(columns={**others, **own})

    def restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        """See ``VecEnv._snapshot_restorer``."""
        vec = self._vec
        is_all = self._known.issuperset(vec.__dict__)
        fits = self.fits(kept.columns)
        if not (is_all and fits):
            none = rows[:0]
            require_columns(self.keep(none) if is_all else self._with_more(none, self.keep(none)), kept.columns)
        slab_columns = cast(SlabColumns, kept.columns) if fits else SlabColumns.of(self._slab, kept.columns)
        if not keep_parameters:
            shared = self.shared(vec._snapshot_settings()) if is_all else vec._snapshot_shared()
            if shared is not kept.shared:
                require_equal(shared, kept.shared, "restore(snapshot)")
        if kept.whole is None and not is_all:
            vec._require_untouched(rows, kept.columns)
        commit_generator = vec._native.generator.restorer(rows, kept.whole)
        are_all = kept.whole is not None or vec.num_envs == len(rows) == 1

        def commit() -> None:
            vec._native.streams.get()  # seeded when first asked for
            self._put_back(rows, slab_columns, are_all)
            if not is_all:
                more = self._more
                own = more._snapshot_rows(vec, rows[:0])
                columns = {name: np.array(spread(kept.columns[f"state.{name}"], len(rows))) for name in own}
                more._restore_rows(vec, rows, columns)
            commit_generator()

        return commit

    # -- the memory ----------------------------------------------------------------------------------------

    def keep(self, rows: NDArray[np.intp], are_all: bool = False) -> SlabColumns:
        """The columns of some rows; ``are_all`` where they are all in their order."""
        count = len(rows)
        if are_all:
            kept = SlabColumns(self._all, self._carried.copy())
        elif count == 1:
            kept = SlabColumns.empty(self._one)
            self._copy_rows(self._words, rows, kept.words, _FIRST, self._to_one)
        else:
            places = places_of(self._slab, count)
            kept = SlabColumns.empty(places)
            copied = np.array([self._starts, places.starts, places.row_bytes])
            self._copy_rows(self._words, rows, kept.words, np.arange(count), copied)
        words, start = kept.words, kept.places.offsets[_CLOCK]
        if count == 1:  # without the price of arrays
            words[start] = self._now.item() - words.item(start)
        else:
            elapsed = words[start : start + count]  # so far when each episode began
            np.subtract(self._now, elapsed, elapsed)
        return kept.freeze()

    def put_back(self, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> None:
        """Let rows be what ``keep`` gave of as many, or of one for all of them."""
        self._put_back(rows, columns if self.fits(columns) else SlabColumns.of(self._slab, columns), are_all=False)

    def _put_back(self, rows: NDArray[np.intp], kept: SlabColumns, are_all: bool) -> None:
        vec, count = self._vec, len(rows)
        if are_all:
            self._carried[...] = kept.words
        elif kept.count == 1:
            each = _FIRST if count == 1 else np.zeros(count, np.int64)
            self._copy_rows(kept.words, each, self._words, rows, self._from_one)
        else:
            copied = np.array([kept.places.starts, self._starts, kept.places.row_bytes])
            self._copy_rows(kept.words, np.arange(count), self._words, rows, copied)
        began = self._began  # which has the steps of each episode so far
        if count == 1:
            row = rows.item()
            began[row] = self._now.item() - began.item(row)
        elif are_all:
            np.subtract(self._now, began, began)
        else:
            began[rows] = self._now - began[rows]
        for path in vec._values.columns:  # of what was given
            given = np.array(vec._bound.columns[f"p_{as_word(path)}"])
            given.flags.writeable = False
            vec._values.given[path] = given
        if self._derives:
            vec._bound.derive(rows)

    def fits(self, columns: Mapping[str, NDArray[Any]]) -> TypeGuard[SlabColumns]:
        """Whether columns are for certain of the same layout; others may be, too."""
        return type(columns) is SlabColumns and columns.places.slab is self._slab
