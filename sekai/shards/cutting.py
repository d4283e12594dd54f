"""Which rows a shard has, and what of a reset of all is theirs."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import spread_seeds
from sekai.checks import check_count
from sekai.seeding import check_seed, spawn_seeds
from sekai.snapshots import Snapshot

#: Rows of a shard where nobody says how many.
SHARD_SIZE = 4096


def split_rows(num_envs: Any, shard_size: Any = None) -> list[range]:
    """The rows of each shard, in order: all of one size, the last one perhaps smaller.

    Args:
        num_envs: The number N of all rows, at least 1.
        shard_size: Rows of a shard, at least 1; None for 4096.

    Raises:
        TypeError: A number is no integer.
        ValueError: A number is below 1.
    """
    total = check_count(num_envs, "num_envs")
    size = SHARD_SIZE if shard_size is None else check_count(shard_size, "shard_size")
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


def where_rows(rows: range) -> str:
    """Which rows an error message speaks of."""
    return f"rows {rows.start} to {rows.stop - 1}"


class Resets:
    """What the reset of all rows is told, or the snapshot they go on from, cut into that of some.

    A seed of None is drawn once, here, so that a shard that is run again repeats its numbers.

    Args:
        num_envs: The number N of all rows.
        seed: As ``VecEnv.reset`` takes it, but for generators.
        options: As ``VecEnv.reset`` takes them.
        start: Instead of a reset, a snapshot of N rows or of one for all.
        where: What error messages begin with.

    Attributes:
        seed: An int that all seeds follow from; a list of N ints; None with ``start``.

    Raises:
        TypeError: A seed is no integer, options are no dict, or ``start`` is no Snapshot.
        ValueError: A seed is negative, a list has another length than N, or ``start`` is given with either or has
            another number of rows than N and 1.
    """

    def __init__(
        self, num_envs: int, seed: Any = None, options: Any = None, start: Snapshot | None = None, where: str = "reset"
    ) -> None:
        if not isinstance(start, (Snapshot, NoneType)):
            raise TypeError(f"{where}(start=...): expected a Snapshot or None, got {start!r}")
        if start is not None:
            for name, given in (("seed", seed), ("options", options)):
                if given is not None:
                    expected = "expected None with start=, which makes no reset"
                    raise ValueError(f"{where}({name}=...): {expected}, got {given!r}")
            if len(start) not in (1, num_envs):
                raise ValueError(f"{where}(start=...): expected {num_envs} sub-envs (num_envs) or 1, got {len(start)}")
        if isinstance(options, (list, tuple)) and len(options) != num_envs:
            raise ValueError(f"{where}(options=...): expected {num_envs} options (num_envs), got {len(options)}")
        if not isinstance(options, (dict, list, tuple, NoneType)):
            expected = "expected a dict, None or a list of them"
            raise TypeError(f"{where}(options=...): {expected}, got {type(options).__name__}")
        self._num_envs = num_envs
        self._options = options
        self._start = start
        self.seed: Any = None if start is not None else _fixed(seed, num_envs, where)
        self._spawned: NDArray[np.uint64] | None = None

    def of(self, rows: range) -> dict[str, Any]:
        """The arguments ``seed``, ``options`` and ``start`` of some rows."""
        every = len(rows) == self._num_envs
        options, start = self._options, self._start
        if isinstance(options, (list, tuple)):
            options = options[rows.start : rows.stop]
        if start is not None and len(start) == self._num_envs and not every:
            start = start[rows.start : rows.stop]
        return {"seed": self.seed if every else self._seeds(rows), "options": options, "start": start}

    def _seeds(self, rows: range) -> Any:
        """As uint64 where they follow from one, else a list."""
        if self.seed is None or isinstance(self.seed, list):
            return None if self.seed is None else self.seed[rows.start : rows.stop]
        if self._spawned is None:
            self._spawned = spawn_seeds(self.seed, self._num_envs)
        return self._spawned[rows.start : rows.stop]


def _fixed(seed: Any, num_envs: int, where: str) -> Any:
    """A seed that gives the same numbers each time it is used."""
    if seed is None:
        return np.random.SeedSequence().entropy
    if isinstance(seed, (list, tuple)) or np.ndim(seed):
        fresh = np.random.SeedSequence()
        seeds = spread_seeds(seed, num_envs)
        for row, each in enumerate(seeds):
            if isinstance(each, np.random.Generator):
                raise TypeError(f"{where}(seed=...): expected integers or None, got a generator for sub-env {row}")
            if each is None:
                seeds[row] = int(fresh.spawn(1)[0].generate_state(1, np.uint64)[0])
        return seeds
    return check_seed(seed, f"{where}(seed=...)")
