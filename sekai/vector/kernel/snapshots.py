"""What a snapshot of a row market holds: columns of its memory, copied in one compiled call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.slab import Column, Slab, as_word, padded
from sekai.snapshots import SlabColumns, fingerprint

if TYPE_CHECKING:
    from sekai.vector.kernel.env import KernelVecEnv

#: What names of the parameters that sub-envs have of their own begin with.
PARAMS = "state.params."
#: Of sub-envs that may be frozen, what they show meanwhile.
_ENDS = ("frozen", "was_terminated", "was_truncated", "absent")


class MemoryRows:
    """Reads and writes those columns of a market's memory that are part of a snapshot.

    Args:
        vec: The env, with the memory that it has now.

    Attributes:
        shared: Fingerprints of the parameters that are one value, or one range, for all sub-envs.
    """

    def __init__(self, vec: KernelVecEnv[Any, Any]) -> None:
        self._vec = vec
        own = sorted([*vec._values.columns, *vec._values.ranges])
        names = {"random.key": "key", "random.counter": "counter", "elapsed_steps": "began"}
        if not vec.autoreset:
            names |= {name: name for name in (*_ENDS, *(f"final{k}" for k in range(len(vec._finals))))}
        names |= {f"{PARAMS}{path}": f"p_{as_word(path)}" for path in own}
        names |= {f"state.{path}": f"s_{as_word(path)}" for path in vec._definition.columns}
        columns = vec._columns
        self._slab = Slab.of(Column(name, columns[of].dtype, columns[of].shape[1:]) for name, of in names.items())
        starts = {each.name: start for each, start in vec._fused.market.memory.places(vec.num_envs)}
        self._starts = np.array([starts[of] for of in names.values()])
        self._row_bytes = np.array([each.row_bytes for each in self._slab.columns])
        self._sizes = np.array([padded(each.row_bytes * vec.num_envs) for each in self._slab.columns])
        self._derives = "derive_row" in vec._definition.functions and bool(own)
        self.shared = {
            f"params.{path}": str(value)
            if path in vec._values.ranges
            else fingerprint(value, f"snapshot(): {type(vec).__name__}.{path}")
            for path, value in vec._values.given.items()
            if path not in vec._values.columns
        }

    def keep(self, rows: NDArray[np.intp], are_all: bool = False) -> SlabColumns:
        """The columns of some rows; ``are_all`` where they are all in their order."""
        from sekai.kernels.slabs import copy_columns, copy_rows

        memory, count = self._vec._memory, len(rows)
        kept = SlabColumns(self._slab, count)
        if are_all:
            copy_columns(memory, self._starts, kept.memory, kept.starts, self._sizes)
        else:
            copy_rows(memory, self._starts, rows, kept.memory, kept.starts, np.arange(count), self._row_bytes)
        elapsed = kept.view("elapsed_steps")  # so far when each episode began
        np.subtract(self._vec._native.clock.now, elapsed, out=elapsed)
        return kept.freeze()

    def put_back(self, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]], are_all: bool = False) -> None:
        """Let rows be what ``keep`` gave of as many, or of one for all of them."""
        from sekai.kernels.slabs import copy_columns, copy_rows

        vec, memory, count = self._vec, self._vec._memory, len(rows)
        if isinstance(columns, SlabColumns) and columns.slab == self._slab:
            kept = columns
        else:
            kept = SlabColumns.of(self._slab, columns)
        if are_all:
            copy_columns(kept.memory, kept.starts, memory, self._starts, self._sizes)
        else:
            of_kept = np.arange(count) if kept.count == count else np.zeros(count, np.int64)
            copy_rows(kept.memory, kept.starts, of_kept, memory, self._starts, rows, self._row_bytes)
        began = vec._columns["began"]
        if are_all:
            np.subtract(vec._native.clock.now, began, out=began)
        else:
            began[rows] = vec._native.clock.now - began[rows]
        for path in vec._values.columns:  # of what was given
            given = np.array(vec._columns[f"p_{as_word(path)}"])
            given.flags.writeable = False
            vec._values.given[path] = given
        if self._derives:
            vec._fused.derive(vec.num_envs, rows, vec._addresses, *vec._arrays)

    def fits(self, columns: Mapping[str, NDArray[Any]]) -> bool:
        """Whether columns are for certain of the same layout; others may be, too."""
        return isinstance(columns, SlabColumns) and columns.slab is self._slab
