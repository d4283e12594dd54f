"""How many threads the libraries of a worker use: one, unless the user has said otherwise."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sekai.cores import threads_asked_for

#: What is 1 for a worker, unless the user has set it, so that its libraries use one thread.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "SEKAI_NUM_THREADS",
)

#: Names, in the environment of a starting process, the variables that are there only to make libraries load for one
#: thread.
ONE_THREAD_MARK = "SEKAI_ONE_THREAD"

#: Held while the environment is another than the user's.
_environment = threading.Lock()


@contextmanager
def one_thread_each() -> Iterator[dict[str, str]]:
    """An environment in which the libraries of a starting process use one thread, unless the user has set them.

    Gives the variables as they are then. Numba gets as many threads as kernels are to use.
    """
    with _environment:
        added = [name for name in THREAD_VARIABLES if name not in os.environ]
        values = dict.fromkeys(added, "1")
        if "NUMBA_NUM_THREADS" in added:
            values["NUMBA_NUM_THREADS"] = str(threads_asked_for() or 1)
        os.environ.update(values, **{ONE_THREAD_MARK: " ".join(added)})
        try:
            yield {name: os.environ[name] for name in THREAD_VARIABLES}
        finally:
            for name in (*added, ONE_THREAD_MARK):
                os.environ.pop(name, None)


def limit_threads(variables: Mapping[str, str]) -> None:
    """Set the variables for libraries that will be loaded, and tell Numba and the kernels if they have been."""
    os.environ.pop(ONE_THREAD_MARK, None)
    os.environ.update(variables)
    numba: Any = sys.modules.get("numba")
    if numba is not None:
        most = numba.config.NUMBA_NUM_THREADS
        numba.set_num_threads(min(int(variables["NUMBA_NUM_THREADS"]), most))
        # Once its threads run, numba refuses to compile if the variable says another number than it did.
        os.environ["NUMBA_NUM_THREADS"] = str(most)
    kernels: Any = sys.modules.get("sekai.kernels.threads")
    if kernels is not None:
        kernels.set_num_threads(threads_asked_for() or 1)
