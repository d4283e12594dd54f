"""A batch of thousands of rows: what a market computes in blocks and on several threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sekai.batching import layout
from sekai.testing.reach import Kernels
from sekai.testing.reference import Inputs, ReferenceRun
from sekai.testing.shown import Shown, difference_between, play
from sekai.vector import VecEnv

#: Steps of a wide run, if the run that it is compared with has as many.
STEPS = 16

#: From how many rows on a kernel is taken to use threads, unless it says so itself.
_PARALLEL_FROM = 4096
#: Bytes that one batch of observations may take.
_MOST_BYTES = 2**25


def count_rows(reference: ReferenceRun, kernels: Kernels) -> int:
    """Rows enough for two threads to have several blocks of their kernel, the last one not a whole one."""
    starts = [_PARALLEL_FROM, *(int(kernel.parallel_from) for kernel in kernels.batches)]
    return max(2 * reference.num_envs, min(2 * max(starts) + 3, _MOST_BYTES // reference.observation_bytes))


def check_wide(reference: ReferenceRun, num_rows: int, *, compare: bool) -> list[str]:
    """Run a wide batch, whose first and last rows are those of another run, on one thread and on two.

    Args:
        reference: That run, of a native env.
        num_rows: The rows of the batch, at least twice those of that run.
        compare: Whether to hold those rows against it.
    """
    n = reference.num_envs
    both_ends = (range(n), range(num_rows - n, num_rows))
    kept = {row for rows in both_ends for row in rows}
    widened = ""
    with reference.factory.open(num_rows) as one_vec, reference.factory.open(num_rows) as two_vec:
        inputs = _widen(reference, one_vec)
        one_run, two_run = (play(vec, inputs.seeds, inputs.actions, kept) for vec in (one_vec, two_vec))
        for expected, one, two in zip(reference.shown, _on_threads(1, one_run), _on_threads(2, two_run), strict=False):
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


def _widen(reference: ReferenceRun, vec: VecEnv[Any, Any]) -> Inputs:
    """Seeds and actions for all rows of a wide batch."""
    n, ours = reference.num_envs, reference.inputs
    inputs = Inputs.draw(vec, min(STEPS, len(ours.actions)), seed=ours.seeds[0])
    inputs.seeds[:n] = inputs.seeds[-n:] = ours.seeds
    for wide, batch in zip(inputs.actions, ours.actions, strict=False):
        layout.put(wide, slice(0, n), batch)
        layout.put(wide, slice(vec.num_envs - n, vec.num_envs), batch)
    return inputs


def _on_threads(num_threads: int, run: Iterator[Shown]) -> Iterator[Shown]:
    """A run whose calls are spread over a number of threads."""
    from sekai.kernels import get_num_threads, set_num_threads
    from sekai.kernels.threads import always_used

    before = get_num_threads()
    while True:
        set_num_threads(num_threads)
        numba_before = _limit_numba(get_num_threads())  # for kernels that use Numba's threads by themselves
        try:
            with always_used():
                shown = next(run, None)
        finally:
            _limit_numba(numba_before)
            set_num_threads(before)
        if shown is None:
            return
        yield shown


def _limit_numba(num_threads: int) -> int:
    """Let Numba run a number of threads, whoever uses them; how many it was to run before."""
    from sekai.kernels.threads import enter, leave

    before = enter(num_threads)
    if before:
        leave(num_threads)  # that many from now on, not held by this one
    return before or num_threads
