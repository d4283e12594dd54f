"""How many threads a batch of rows is spread over.

``SEKAI_NUM_THREADS`` says how many, else there are as many as the process may use cores, and never more than Numba
has (``NUMBA_NUM_THREADS``). Worker processes of a ``ProcVecEnv`` use one, unless the variable is set, and so does,
always, a process that was forked from one in which Numba had started its threads: the libraries below cannot be used
on both sides of a fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numba

from sekai.checks import check_count
from sekai.cores import threads_asked_for, usable_cores

#: How many there can be.
_most = int(numba.config.NUMBA_NUM_THREADS)


_num_threads = min(threads_asked_for() or usable_cores(), _most)


def get_num_threads() -> int:
    """The number of threads that large batches are spread over."""
    return _num_threads


def set_num_threads(n: int) -> None:
    """Set the number of threads that large batches are spread over, in this process. It changes no number.

    A kernel uses them where that is quicker than one thread is: its calls are timed. A compiled rollout of at least
    4096 sub-envs, and a kernel that says from how many rows on, use them whether it is or not.

    Args:
        n: At least 1; more than there are means all there are.

    Raises:
        TypeError: ``n`` is no integer.
        ValueError: ``n`` is below 1.
    """
    global _num_threads
    _num_threads = min(check_count(n, "set_num_threads(n)"), _most)


_unmeasured: set[object] = set()  # one for each block that is under way


def are_measured() -> bool:
    """Whether the times of calls decide if a large batch is spread over threads, and not its size alone."""
    return not _unmeasured


@contextmanager
def always_used() -> Iterator[None]:
    """Spread large batches over threads whether that is quicker or not, for tests of what threads might change."""
    block = object()
    _unmeasured.add(block)
    try:
        yield
    finally:
        _unmeasured.remove(block)


#: How often a thread of GNU OpenMP looks for work before it goes to sleep. By itself it would look for a millisecond,
#: which on cores that others use too keeps the very thread that is waited for from running: steps of 0.3 ms took 13.
_SPINS = "3000"

_launched = False
_launching = threading.Lock()

#: Whether Numba's threads end the process if they are run from two threads at once, and held by the one that runs them.
_take_turns = False
_turn = threading.Lock()


def _launch() -> None:
    """Let Numba load its threads, which read this variable of the environment then and only then."""
    global _launched, _take_turns
    told = "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
    if not told:
        os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        numba.get_num_threads()
    finally:
        if not told:
            del os.environ["GOMP_SPINCOUNT"]
    _take_turns = numba.threading_layer() == "workqueue"
    _launched = True


def enter(n: int) -> int:
    """Let Numba run ``n`` threads in this one, so that no more are woken up than have work.

    Returns:
        How many it was to run before: that number is the user's, to be given back with ``leave()``. 0 if another thread
        runs them and this one has to do without.
    """
    if not _launched:
        with _launching:
            if not _launched:
                _launch()
    if _take_turns and not _turn.acquire(blocking=False):
        return 0
    before = int(numba.get_num_threads())
    if before != n:
        numba.set_num_threads(n)
    return before


def leave(before: int) -> None:
    """Undo ``enter()``, which returned ``before``."""
    if before != numba.get_num_threads():
        numba.set_num_threads(before)
    if _take_turns:
        _turn.release()


def _begin_after_fork() -> None:
    """In a forked process: leave threads alone if Numba's were there before."""
    global _most
    try:
        numba.threading_layer()
    except ValueError:  # none has been chosen yet
        return
    _most = 1  # no more is run on several
    set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_after_fork)
