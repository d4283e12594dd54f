"""A batch of thousands of rows: what a market computes in blocks and on several threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sekai.batching import layout
from sekai.testing.outcomes import Outcome, difference_between, play
from sekai.testing.reach import Kernels
from sekai.testing.trial import Drive, Trial
from sekai.vector import VecEnv

#: Steps of a wide run, if the trial has as many.
STEPS = 16

#: From how many rows on a kernel is taken to use threads, unless it says so itself.
_PARALLEL_FROM = 4096
#: Bytes that one batch of observations may take.
_MOST_BYTES = 2**25


def count_rows(trial: Trial, kernels: Kernels) -> int:
    """Rows enough for two threads to have several blocks of their kernel, the last one not a whole one."""
    starts = [_PARALLEL_FROM, *(int(kernel.parallel_from) for kernel in kernels.batches)]
    batch = [part for name, part in trial.recorded[0].parts.items() if name.startswith("observations")]
    size = sum(int(getattr(part, "nbytes", 0)) for part in batch) // trial.num_envs
    return max(2 * trial.num_envs, min(2 * max(starts) + 3, _MOST_BYTES // max(size, 1)))


def check_wide(trial: Trial, num_rows: int, *, compare: bool) -> list[str]:
    """Run a wide batch, whose first and last rows are those of the trial, on one thread and on two.

    Args:
        trial: The trial, of a native env.
        num_rows: The rows of the batch, at least twice those of the trial.
        compare: Whether to hold those rows against the recorded ones.
    """
    n = trial.num_envs
    both_ends = (range(n), range(num_rows - n, num_rows))
    kept = {row for rows in both_ends for row in rows}
    widened = ""
    with trial.market.open(num_rows) as one_vec, trial.market.open(num_rows) as two_vec:
        drive = _widen(trial, one_vec)
        one_run, two_run = (play(vec, drive.seeds, drive.actions, kept) for vec in (one_vec, two_vec))
        for expected, one, two in zip(trial.recorded, _on_threads(1, one_run), _on_threads(2, two_run), strict=False):
            difference = difference_between(one, two)
            if difference is not None:
                return [difference.problem(", as on 1 thread", " on 2", f"{difference.row} of {num_rows}")]
            for rows in both_ends if compare and not widened else ():
                difference = difference_between(expected, one, range(n), rows)
                if difference is not None:
                    because = f", as in a VecEnv of {n} with this seed and these actions"
                    widened = difference.problem(because, f" in one of {num_rows}", rows[difference.row])
                    break
    return [widened] if widened else []


def _widen(trial: Trial, vec: VecEnv[Any, Any]) -> Drive:
    """Seeds and actions for all rows of a wide batch."""
    n, ours = trial.num_envs, trial.drive
    drive = Drive.draw(vec, min(STEPS, len(ours.actions)), seed=ours.seeds[0])
    drive.seeds[:n] = drive.seeds[-n:] = ours.seeds
    for wide, batch in zip(drive.actions, ours.actions, strict=False):
        layout.put(wide, slice(0, n), batch)
        layout.put(wide, slice(vec.num_envs - n, vec.num_envs), batch)
    return drive


def _on_threads(num_threads: int, run: Iterator[Outcome]) -> Iterator[Outcome]:
    """A run whose calls are spread over a number of threads."""
    from sekai.kernels import get_num_threads, set_num_threads
    from sekai.kernels.threads import limit

    before = get_num_threads()
    while True:
        set_num_threads(num_threads)
        numba_before = limit(get_num_threads())  # for kernels that use Numba's threads by themselves
        try:
            outcome = next(run, None)
        finally:
            limit(numba_before)
            set_num_threads(before)
        if outcome is None:
            return
        yield outcome
