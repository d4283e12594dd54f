"""Consecutive parts of a batch as one: of arrays, and of infos without a dict being built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.episodes import EndedBatch
from sekai.batching.info_list import InfoList
from sekai.batching.infos import copy_value
from sekai.batching.nested import map_parts
from sekai.types import InfoDict


def join(batches: Sequence[Any], like: Any) -> Any:
    """The rows of some batches as one, in fresh arrays of the dtypes of a batch like them."""

    def joined(part: Any, *parts: Any) -> Any:
        if isinstance(part, np.ndarray):
            return np.concatenate([part[:0], *parts], dtype=part.dtype, casting="same_kind")
        return [copy_value(row) for rows in parts for row in rows]

    return map_parts(joined, like, *batches)


def join_columns(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]] | None:
    """Columns of the same names as one each, in fresh arrays; None where that would change values."""
    names = parts[0].keys()
    if any(each.keys() != names for each in parts):
        return None
    columns = {name: [each[name] for each in parts] for name in names}
    if not all(_are_alike(column) for column in columns.values()):
        return None
    joined = {name: np.concatenate(column) for name, column in columns.items()}
    return {name: copy_value(column) if column.dtype == object else column for name, column in joined.items()}


def _are_alike(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether their entries are the same in one array: of one dtype, or strings, whose lengths may differ."""
    kinds = {array.dtype if array.dtype.kind not in "SU" else array.dtype.kind for array in arrays}
    return len(kinds) == 1 and len({array.shape[1:] for array in arrays}) == 1


def join_infos(parts: Sequence[list[InfoDict]]) -> list[InfoDict]:
    """The infos of some batches as those of one: columns where all have the same ones, else dicts."""
    columnar = [each for each in parts if isinstance(each, InfoList) and each.is_untouched]
    joined = _join_lists(columnar) if len(columnar) == len(parts) else None
    return [info for infos in parts for info in infos] if joined is None else joined


def _join_lists(parts: Sequence[InfoList]) -> InfoList | None:
    columns = join_columns([each.columns for each in parts])
    batches = [each.ended for each in parts if isinstance(each.ended, EndedBatch)]
    if columns is None or (not batches and any(each.ended is not None for each in parts)):
        return None
    told = None
    if batches:
        if len(batches) < len(parts):
            return None
        told = _join_ended(batches, [each.done.size for each in parts])
        if told is None:
            return None
    starts = np.cumsum([0, *(len(each) for each in parts)]).tolist()
    absent = None
    if any(each.absent is not None for each in parts):
        masks = [np.zeros(len(each), np.bool_) if each.absent is None else each.absent for each in parts]
        absent = np.concatenate(masks)
    done = np.concatenate([each.done + start for each, start in zip(parts, starts, strict=False)])
    infos = InfoList.of_columns(starts[-1], columns, done=done, ended=told, absent=absent)
    for each, start in zip(parts, starts, strict=False):
        for key, values in each.extras.items():
            infos.set_items(key, [row + start for row in values], list(values.values()))
    return infos


def _join_ended(parts: Sequence[EndedBatch], counts: Sequence[int]) -> EndedBatch | None:
    """What ended rows add, of parts of which some may have none; those say nothing of a reset's columns."""
    told = [each.reset_columns for each, count in zip(parts, counts, strict=True) if count]
    reset_columns = join_columns(told) if told else {}
    if reset_columns is None:
        return None
    space = parts[0].space
    return EndedBatch(space, join([each.observations for each in parts], parts[0].observations), reset_columns)
