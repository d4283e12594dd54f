"""Which rows a shard has, and what of a reset of all is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from sekai.batching.inputs import spread_seeds
from sekai.checks import check_count
from sekai.seeding import check_seed, spawn_seeds
from sekai.snapshots import Snapshot

#: Rows of a shard where nobody says how many: of short rollouts, where what a shard costs however few its rows and
#: steps are (a millisecond or two) is a part of it that counts; and of long ones, where its memory is what counts.
_MOST_ROWS, _FEWEST_ROWS = 16_384, 4096
#: Steps of all rows of a shard together, if that can be.
_ROW_STEPS = 4_194_304


def split_rows(num_envs: Any, shard_size: Any, steps: int) -> list[range]:
    """The rows of each shard, in order: all of one size, the last one perhaps smaller.

    Args:
        num_envs: The number N of all rows, at least 1.
        shard_size: Rows of a shard, at least 1; None for 16,384 up to 256 steps, and fewer of longer rollouts, down to
            4,096 from 1,024 steps on.
        steps: The number T of steps of a row.

    Raises:
        TypeError: A number is no integer.
        ValueError: A number is below 1.
    """
    total = check_count(num_envs, "num_envs")
    size = min(max(_ROW_STEPS // steps, _FEWEST_ROWS), _MOST_ROWS)
    if shard_size is not None:
        size = check_count(shard_size, "shard_size")
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


def where_rows(rows: range) -> str:
    """Which rows an error message speaks of."""
    return f"rows {rows.start} to {rows.stop - 1}"


@dataclass(frozen=True)
class Reset:
    """The reset of some rows, or the snapshot they go on from; as small as it can be, since it is sent.

    Attributes:
        rows: Which.
        seed: An int that the seeds of all rows follow from, a list of theirs, or None.
        options: As ``VecEnv.reset`` takes them.
        start: A snapshot of these rows or of one for all, or None.
        is_whole: Whether there are no other rows.
    """

    rows: range
    seed: Any
    options: Any
    start: Snapshot | None
    is_whole: bool

    def arguments(self) -> dict[str, Any]:
        """The arguments ``seed``, ``options`` and ``start`` of their rollout; seeds that follow from one as uint64."""
        seed = self.seed
        if isinstance(seed, int) and not self.is_whole:
            seed = spawn_seeds(seed, len(self.rows), self.rows.start)
        return {"seed": seed, "options": self.options, "start": self.start}


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

    def of(self, rows: range) -> Reset:
        """That of some rows."""
        is_whole = len(rows) == self._num_envs
        seed, options, start = self.seed, self._options, self._start
        if isinstance(seed, list):
            seed = seed[rows.start : rows.stop]
        if isinstance(options, (list, tuple)):
            options = options[rows.start : rows.stop]
        if start is not None and len(start) == self._num_envs and not is_whole:
            start = start[rows.start : rows.stop]
        return Reset(rows, seed, options, start, is_whole)


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
