"""Infos: sekai's columns, or one dict per sub-env, and gymnasium's one dict of arrays.

In gymnasium's layout every key has an array with a row per sub-env and beside it, under the key with an underscore in
front, a mask of the sub-envs that have it; where they have not, the array holds zeros (None in an array of objects).
Of a sub-env that same-step autoreset has reset, the keys at the top are those of its reset, "final_info" holds the
step's, in the same layout, and "final_obs" the terminal observation. Next-step autoreset has neither: the step that
ends an episode tells what a step tells, the next one what the reset told. The statistics of its episode are "r"
(return), "l" (length) and "t" (seconds) below "episode".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.buffers import Buffers
from sekai.batching.episodes import resets_itself
from sekai.batching.info_list import InfoList
from sekai.batching.infos import EPISODE, FINAL_INFO, FINAL_OBSERVATION, RESET_INFO, column_item, copy_value
from sekai.spaces import Space
from sekai.tracking import EpisodeStats
from sekai.types import InfoDict

FINAL_OBS = "final_obs"

#: Gymnasium's keys below "episode", and what of an ``EpisodeStats`` stands there.
_STATISTICS = {"r": "episode_return", "l": "episode_length", "t": "elapsed_time"}


# -- to gymnasium ------------------------------------------------------------------------------------------


def holds_columns(infos: list[InfoDict]) -> bool:
    """Whether the infos are columns of which nobody has read a dict, and may so have written to it."""
    return isinstance(infos, InfoList) and infos.is_untouched


def gymnasium_statistics(info: InfoDict) -> InfoDict:
    """The info with the kit's statistics of an episode, its own and those below "final_info", as gymnasium has them."""
    translated = _statistics(info)
    final = info.get(FINAL_INFO)
    if isinstance(final, dict) and (below := _statistics(final)):
        translated[FINAL_INFO] = {**final, **below}
    return {**info, **translated} if translated else info


def _statistics(info: InfoDict) -> dict[str, Any]:
    stats = info.get(EPISODE)
    if not isinstance(stats, EpisodeStats):
        return {}
    return {EPISODE: {key: getattr(stats, name) for key, name in _STATISTICS.items()}}


def gymnasium_info(info: InfoDict) -> dict[str, Any]:
    """The info of a sub-env whose episode has ended, under gymnasium's names.

    What a wrapper has added to it, as ``VecRecordEpisodeStatistics`` does, stays at the top.
    """
    info = gymnasium_statistics(info)
    if not resets_itself(info):
        return info
    told = {key: info[key] for key in (FINAL_INFO, RESET_INFO) if isinstance(info.get(key), Mapping)}
    final = told.get(FINAL_INFO, {})
    ruled = (FINAL_OBSERVATION, *told)
    added = {key: value for key, value in info.items() if key not in final and key not in ruled}
    return {FINAL_OBS: info[FINAL_OBSERVATION], FINAL_INFO: final, **told.get(RESET_INFO, {}), **added}


class ColumnsToInfos:
    """Lays columns out as gymnasium has them, without building any dict of a sub-env.

    Memory of large arrays is used again once nobody holds it, since most of the time would go into fresh memory.

    Args:
        space: The space of one observation.
        num_envs: The number N of sub-envs.
    """

    def __init__(self, space: Space[Any], num_envs: int) -> None:
        self._space = space
        self._num_envs = num_envs
        self._buffers = Buffers()

    def __call__(self, infos: InfoList, rows: NDArray[np.intp], resets: InfoList | None) -> dict[str, Any]:
        """The infos as a dict of arrays and masks, all with a first axis of N.

        Args:
            infos: Infos of which ``holds_columns``. Their columns may become the arrays.
            rows: The rows that next-step autoreset has reset: whatever the columns hold there, the infos have not.
            resets: What those resets told, in that order, of which ``holds_columns`` too; None where there are none.
        """
        if resets is not None:
            arrays = self._with_resets(infos.columns, rows, resets.columns)
        elif infos.has_final_observations and infos.done.size:
            arrays = self._ended(infos, infos.done)
        else:
            own = {key: self._own(column) for key, column in infos.columns.items()}
            arrays = _with_masks(own, np.ones(self._num_envs, dtype=np.bool_))
        for key, values in infos.extras.items():
            if values:
                at = np.fromiter(values, np.intp, len(values))
                arrays |= _with_masks({key: self._added(at, list(values.values()))}, self._mask(at))
        return arrays

    def _ended(self, infos: InfoList, rows: NDArray[np.intp]) -> dict[str, Any]:
        """The infos of a step that ended the episodes of some rows, which same-step autoreset has reset."""
        ended = self._mask(rows)
        steps = infos.final(FINAL_INFO)
        finals = layout.iterate(self._space, infos.final(FINAL_OBSERVATION), rows.size)
        final_info = _with_masks({key: self._spread(values, rows) for key, values in steps.items()}, ended)
        ends = _with_masks({FINAL_OBS: self._objects(rows, finals), FINAL_INFO: final_info}, ended)
        # The ends win over columns of the same name.
        return self._with_resets(infos.columns, rows, infos.final(RESET_INFO)) | ends

    def _with_resets(
        self, columns: Mapping[str, Any], rows: NDArray[np.intp], resets: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Columns whose rows have been reset: these show what the resets told, and nothing else."""
        begun = self._mask(rows)
        arrays: dict[str, Any] = {}
        for key, column in columns.items():
            if key in resets:
                merged = self._copy(column, np.result_type(column, resets[key]))
                merged[rows] = resets[key]
                arrays |= _with_masks({key: merged}, np.ones(self._num_envs, dtype=np.bool_))
            elif rows.size < self._num_envs:
                rest = self._copy(column, column.dtype)
                rest[rows] = None if column.dtype == object else np.zeros((), column.dtype)
                arrays |= _with_masks({key: rest}, ~begun)
        new = {key: self._spread(values, rows) for key, values in resets.items() if key not in columns}
        return arrays | _with_masks(new, begun)

    def _mask(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        mask = np.zeros(self._num_envs, dtype=np.bool_)
        mask[rows] = True
        return mask

    def _objects(self, rows: NDArray[np.intp], values: Iterable[Any]) -> NDArray[Any]:
        """An array of objects that holds values at their rows, None elsewhere."""
        column = np.full(self._num_envs, None)
        column[rows] = np.fromiter(values, object, rows.size)
        return column

    def _added(self, rows: NDArray[np.intp], values: list[Any]) -> Any:
        """What a wrapper has added to some rows: an array of objects, or the columns of episode statistics."""
        if not all(isinstance(value, EpisodeStats) for value in values):
            return self._objects(rows, values)
        columns = {
            key: self._spread(np.array([getattr(stats, name) for stats in values]), rows)
            for key, name in _STATISTICS.items()
        }
        return _with_masks(columns, self._mask(rows))

    def _spread(self, values: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
        """A column that holds values at their rows, zeros (None among objects) elsewhere."""
        column = self._new(values.shape[1:], values.dtype)
        column[...] = None if values.dtype == object else np.zeros((), values.dtype)
        column[rows] = values
        return column

    def _own(self, column: NDArray[Any]) -> NDArray[Any]:
        """The column for the caller to write to: one that is read-only may be the state of the market."""
        return column if column.flags.writeable else self._copy(column, column.dtype)

    def _copy(self, column: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        copied = self._new(column.shape[1:], dtype)
        copied[...] = column
        return copied

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._buffers.take((self._num_envs, *shape), dtype)


def _with_masks(columns: Mapping[str, Any], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Each column and, beside it, a mask of its own."""
    arrays: dict[str, Any] = {}
    for key, column in columns.items():
        arrays[key], arrays[f"_{key}"] = column, mask.copy()
    return arrays


# -- from gymnasium ----------------------------------------------------------------------------------------


def rows_of(infos: Mapping[str, Any], n: int) -> list[InfoDict]:
    """One dict per sub-env, each of copies.

    Args:
        infos: The infos in gymnasium's layout. A key without a mask is every sub-env's: a row of it, if it is an array
            of ``n`` rows, else the whole value.
        n: The number of sub-envs.
    """
    rows: list[InfoDict] = [{} for _ in range(n)]
    for key, column in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        mask = infos.get(f"_{key}")
        inner = rows_of(column, n) if isinstance(column, Mapping) else None
        is_column = isinstance(column, np.ndarray) and column.ndim > 0 and len(column) == n
        for row in range(n) if mask is None else np.flatnonzero(mask).tolist():
            if inner is not None:
                rows[row][key] = inner[row]
            else:
                rows[row][key] = column_item(column, row) if is_column else copy_value(column)
    return rows
