"""What all sub-envs share, where they are parts of a batch that each keep their own."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sekai.batching.joining import join_columns
from sekai.snapshots.agreement import dumps, require_equal
from sekai.snapshots.snapshot import RNG, SEED_OF_RNG, Kept, Snapshot


class OfParts(NamedTuple):
    """What the parts of a VecEnv keep, each its own, where one that is in one piece keeps one value.

    Attributes:
        values: One for each part.
    """

    values: tuple[Any, ...]


def join_kept(parts: Sequence[Snapshot], is_whole: bool) -> Kept:
    """What a VecEnv of all sub-envs keeps, of snapshots of its parts.

    Args:
        parts: One of each part, in their order.
        is_whole: Whether what all sub-envs of a part share is part of it.

    Raises:
        ValueError: What parts have alike is not, or their columns are of several layouts.
    """
    first, *others = parts
    for each in others:
        require_equal(first.kept.shared, each.kept.shared, "snapshot(): what shards have alike")
    columns = join_columns([each.columns for each in parts])
    if columns is None:
        expected = f"expected columns of one layout in all shards, {first.layout}"
        raise ValueError(f"snapshot(): {expected}, got {[each.layout for each in others]}")
    whole = _join_whole([each.whole or {} for each in parts]) if is_whole else None
    return Kept(columns, first.kept.shared, whole)


def _join_whole(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all sub-envs share, of what those of each part do."""
    first, *others = parts
    if all(each == first for each in others):
        return first
    return {name: OfParts(tuple(each.get(name) for each in parts)) for name in {**first}.keys() | set().union(*others)}


def cut_whole(whole: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What each of ``count`` parts takes over of what all sub-envs share.

    Raises:
        ValueError: It is of another number of parts, or one generator that has been drawn from.
    """
    cut: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, value in whole.items():
        if isinstance(value, OfParts) and len(value.values) != count:
            raise ValueError(f"restore(snapshot): {name}: expected one of {count} parts, got {len(value.values)}")
        if name == RNG and not isinstance(value, OfParts) and count > 1:
            raise ValueError(f"restore(snapshot): {name}: expected a generator for each of {count} parts, got one")
        for part, each in enumerate(cut):
            if isinstance(value, OfParts):
                each[name] = value.values[part]
            elif name == SEED_OF_RNG and count > 1:  # parts are not to draw the same
                each[name] = _spawned(value, part)
            else:
                each[name] = value
    return [{name: value for name, value in each.items() if value is not None} for each in cut]


def _spawned(seed: bytes, part: int) -> bytes:
    """A child of a pickled SeedSequence."""
    parent = pickle.loads(seed)
    key = (*parent.spawn_key, part)
    return dumps(np.random.SeedSequence(parent.entropy, spawn_key=key), f"restore(snapshot): {SEED_OF_RNG}")
