"""Snapshots of sub-envs that are Env objects: what a VecEnv of them keeps, wherever they are, and how they go back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.snapshots.agreement import require_columns
from sekai.snapshots.columns import spread
from sekai.snapshots.snapshot import Kept
from sekai.spaces import Space
from sekai.vector.sub_envs.sub_env import SubEnv


def keep_envs(
    states: Sequence[bytes], space: Space[Any], shown: Any, rows: NDArray[np.intp], is_whole: bool = False
) -> Kept:
    """What a VecEnv of Env objects keeps of some of them.

    Args:
        states: What ``SubEnv.keep()`` has given of each.
        space: Of an observation.
        shown: A batch of what all sub-envs show.
        rows: Which they are.
        is_whole: Whether they are all.
    """
    column = np.empty(len(rows), object)
    column[:] = states
    return Kept({"env": column, **layout.columns_of(space, shown, rows, "shown")}, {}, {} if is_whole else None)


def read_envs(kept: Kept, space: Space[Any], count: int, keep_parameters: bool) -> tuple[list[bytes], Any]:
    """What ``keep_envs()`` has kept, for so many sub-envs: a state for each, and a batch of what they show.

    Raises:
        ValueError: It is of other observations, or parameters are to be kept.
    """
    if keep_parameters:
        expected = "expected 'match', since what of an Env object is a parameter is not known"
        raise ValueError(f"restore(parameters=...): {expected}, got 'keep'")
    nobody = keep_envs([], space, layout.allocate(space, 0), np.empty(0, np.intp))
    require_columns(nobody.columns, kept.columns)
    columns = {name: spread(column, count) for name, column in kept.columns.items()}
    return columns["env"].tolist(), layout.batch_of(space, columns, "shown", count)


def restore_all(prepared: Sequence[tuple[SubEnv, Callable[[], None]]], may_refuse: bool) -> list[Callable[[], None]]:
    """Let some sub-envs go on from elsewhere, all or none.

    Args:
        prepared: Each, and what its ``put_back()`` has returned.
        may_refuse: Whether one of them, or of others that are restored with them, ``may_refuse``. Where it does, it and
            those before it are put back to where they are now.

    Returns:
        What puts each back to where it is now, in case others refuse; nothing unless ``may_refuse``.
    """
    undo = [_way_back(sub_env) for sub_env, _ in prepared] if may_refuse else []
    for k, (_, commit) in enumerate(prepared):
        try:
            commit()
        except BaseException:
            for back in undo[: k + 1]:
                back()
            raise
    return undo


def _way_back(sub_env: SubEnv) -> Callable[[], None]:
    """What puts a sub-env back to where it is now; one that has no state has to be reset in any case."""
    return sub_env.put_back(sub_env.keep()) if sub_env.has_state else _nothing


def _nothing() -> None:
    pass
