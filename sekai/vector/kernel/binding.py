"""The compiled functions of a row market, bound to the memory of one batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import item_reader
from sekai.batching.slab import as_word
from sekai.types import InfoArrays
from sekai.vector.kernel.lending import Results
from sekai.vector.kernel.parameters import Values, flat_record

if TYPE_CHECKING:
    from sekai.kernels.batch import Spread
    from sekai.kernels.market import Field, Market


class Binding:
    """What the functions of a market work on: columns in one stretch of memory, arrays that all rows share, results.

    Args:
        market: What is compiled.
        num_envs: How many rows.
        mode: What becomes of rows that end (see ``Fused.step``).
        values: The parameters, of which the arrays are shared.
        changed: The paths of those that are new: what has been drawn of the others' ranges stays.
        prepared: What follows from them for all rows, a named tuple or None.
        before: What the batch was bound to until now, whose columns go on where there are such again.

    Attributes:
        market: As given.
        fused: Its compiled functions.
        step: That of all rows. It goes on, with what it has found out of threads, where the functions stay the same.
        memory: The bytes of all columns.
        columns: The columns, live, by their names in the memory.
        addresses: Int64, where the compiled functions find the memory, results and what is kept of ends.
        arrays: What all rows share, read-only.
        results: What a step writes its results into.
        scratch: Of one row alone: results that every step writes over, and a key and a reader for each info in them.
        finals: The terminal observations of the last step, live, an array for each part of the space.
        resets: What resets told in the last step, live.
        uses_streams: Whether a row function draws from the streams.
    """

    def __init__(
        self,
        market: Market,
        num_envs: int,
        mode: str,
        values: Values,
        changed: Collection[str],
        prepared: Any,
        before: Binding | None,
    ) -> None:
        from sekai.kernels.fused import fuse

        self.market, self._num_envs = market, num_envs
        self.fused = fuse(market)
        self.step: Spread = before.step if before is not None and before.fused is self.fused else self.fused.step(mode)
        self.memory = market.memory.allocate(num_envs)
        self.columns: dict[str, NDArray[Any]] = market.memory.views(self.memory, num_envs)
        if before is not None:
            for name, column in before.columns.items():
                if name in self.columns and self.columns[name].shape == column.shape:
                    self.columns[name][...] = column
        elif market.options is not None:
            for field, value in market.options.kind._field_defaults.items():
                self.columns[f"slot_o_{field}"][0] = value
        self.results = Results(market, num_envs)
        if num_envs == 1:  # of steps that copy what they return
            scratch = self.results.new()
            told = self.results.told(scratch[-1])
            self.scratch = scratch, [(key, item_reader(column)) for key, column in told.items()]
        written = [0] * (4 + len(market.observations.parts))  # where results are: each step says so itself
        kept = [self.columns[name].ctypes.data for name in market.kept]
        self.addresses = np.array([self.memory.ctypes.data, *written, *kept], dtype=np.int64)
        self.finals = [self.columns[f"final{k}"] for k in range(len(market.observations.parts))]
        self.resets = {key: self.columns[f"reset_{as_word(key)}"] for key in market.reset_infos}
        self.uses_streams = bool(market.randomized) or any("random" in names for _, names in market.functions.values())
        self._write_parameters(values, changed)
        self._write_prepared(prepared)
        self.arrays = self._shared_arrays(values, prepared)

    def _write_prepared(self, prepared: Any) -> None:
        if prepared is not None:
            for path, value in flat_record(prepared).items():
                if f"slot_d_{as_word(path)}" in self.columns:
                    self.columns[f"slot_d_{as_word(path)}"][0] = value

    def _shared_arrays(self, values: Values, prepared: Any) -> tuple[NDArray[Any], ...]:
        """Views, read-only also in a copy of the batch, where the flag of an array is lost."""
        given = {f"p_{as_word(path)}": value for path, value in values.given.items()}
        if prepared is not None:
            given.update((f"d_{as_word(path)}", value) for path, value in flat_record(prepared).items())
        arrays = [np.ascontiguousarray(given[each.name]).view() for each in self.market.arrays]
        for array in arrays:
            array.flags.writeable = False
        return tuple(arrays)

    def _write_parameters(self, values: Values, paths: Collection[str]) -> None:
        """Put some parameters into the memory; a range is its middle until it is drawn."""
        for path in paths:
            value, name = values.given[path], f"p_{as_word(path)}"
            if path in values.ranges:
                self.columns[name][:] = 0.5 * value.low + 0.5 * value.high
                self.columns[f"slot_low_{name}"][0], self.columns[f"slot_high_{name}"][0] = value.low, value.high
            elif path in values.columns:
                self.columns[name][:] = value
            elif f"slot_{name}" in self.columns:
                self.columns[f"slot_{name}"][0] = value

    # -- calls of the compiled functions -------------------------------------------------------------------

    def reset(self, rows: NDArray[np.intp], options: Collection[NDArray[Any]]) -> None:
        """Begin episodes in some rows."""
        told = [np.empty((len(rows), *column.shape[1:]), column.dtype) for column in self.resets.values()]
        self.fused.reset(self._num_envs, rows, self.addresses, *options, *told, *self.arrays)
        self.columns["frozen"][rows] = False

    def observe(self, rows: NDArray[np.intp], seen: Collection[NDArray[Any]]) -> None:
        """Write what some rows show."""
        self.fused.observe(self._num_envs, rows, self.addresses, *seen, *self.arrays)

    def mask(self, rows: NDArray[np.intp], masks: Collection[NDArray[Any]]) -> None:
        """Write what some rows may do."""
        self.fused.mask(self._num_envs, rows, self.addresses, *masks, *self.arrays)

    def derive(self, rows: NDArray[np.intp]) -> None:
        """Work out what follows from the parameters of some rows."""
        self.fused.derive(self._num_envs, rows, self.addresses, *self.arrays)

    def reset_infos(self, rows: NDArray[np.intp]) -> InfoArrays:
        """What resets of some rows tell, as it is now."""
        return {key: self._info(field, rows) for key, field in self.market.reset_infos.items()}

    def _info(self, field: Field, rows: NDArray[np.intp]) -> NDArray[Any]:
        if field.kind == "number":
            return np.repeat(self.columns[f"slot_{field.name}"], len(rows))
        return self.columns[field.name].take(rows, axis=0)
