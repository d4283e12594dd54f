"""How many threads a batch of rows is spread over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest

from sekai.cores import usable_cores
from sekai.kernels import get_num_threads, set_num_threads

MOST = numba.config.NUMBA_NUM_THREADS


@pytest.fixture(autouse=True)
def threads():
    """Gives the number of threads back."""
    before = get_num_threads()
    yield
    set_num_threads(before)


def test_what_is_set_is_what_one_gets():
    for n in {1, MOST}:
        assert set_num_threads(n) is None
        assert get_num_threads() == n
    set_num_threads(np.int64(1))
    assert get_num_threads() == 1 and type(get_num_threads()) is int


def test_more_than_there_are_means_all():
    set_num_threads(10_000)
    assert get_num_threads() == MOST


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [
        (0, ValueError, "expected at least 1, got 0"),
        (-1, ValueError, "expected at least 1, got -1"),
        (True, TypeError, "expected an integer, got the bool True"),
        (2.5, TypeError, "expected an integer, got float"),
        ("2", TypeError, "expected an integer, got str"),
        (None, TypeError, "expected an integer, got NoneType"),
    ],
)
def test_anything_but_a_count_is_refused(n, error, message):
    before = get_num_threads()
    with pytest.raises(error, match=rf"set_num_threads\(n\): {message}"):
        set_num_threads(n)
    assert get_num_threads() == before


# -- the environment -----------------------------------------------------------------------------------------


def run(arguments, **environ):
    """What a fresh process prints; the variables of this one that are about threads are not handed on."""
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=240, env={**inherited, **environ}
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, min(usable_cores(), MOST)),
        ({"SEKAI_NUM_THREADS": "1"}, 1),
        ({"SEKAI_NUM_THREADS": " 2 ", "NUMBA_NUM_THREADS": "2"}, 2),
        ({"SEKAI_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "2"}, 2),
        ({"NUMBA_NUM_THREADS": "1"}, 1),
    ],
    ids=str,
)
def test_the_environment_says_how_many_to_begin_with(environ, expected):
    out, err = run(["-c", "from sekai.kernels import get_num_threads; print(get_num_threads())"], **environ)
    assert (out, err) == (str(expected), "")


IMPORT_ANEW = """
import os

for text in ["0", "two", "1.5"]:
    os.environ["SEKAI_NUM_THREADS"] = text
    try:
        import sekai.kernels
    except ValueError as error:
        print(error)
os.environ["SEKAI_NUM_THREADS"] = ""
import sekai.kernels
"""


def test_an_environment_that_says_nonsense_is_told_so():
    out, err = run(["-c", IMPORT_ANEW])
    message = "SEKAI_NUM_THREADS: expected an integer of at least 1, got "
    assert out.splitlines() == [f"{message}{text!r}" for text in ("0", "two", "1.5")]
    assert err.splitlines()[-1] == f"ValueError: {message}''"


# -- other processes -----------------------------------------------------------------------------------------

MARKET = """
import numpy as np
from sekai import Box, Discrete, Env, ResetResult, StepResult

class Crowd(Env):
    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(2)

    def reset(self, *, seed=None, options=None):
        return ResetResult(np.zeros(1), {})

    def step(self, action):
        return StepResult(np.zeros(1), 0.0, False, False, {})

    def count_threads(self):
        from kernels import shift
        from sekai.kernels import get_num_threads

        out = np.zeros(10_000)
        shift(np.ones(10_000), out)
        assert (out == 2.0).all()
        return get_num_threads()
"""

KERNELS = """
from sekai.kernels import jit_batch

@jit_batch(block=16, parallel_from=40)
def shift(x, out):
    for i in range(len(out)):
        out[i] = x[i] + 1.0
"""

SCRIPT = """
import json, sys, warnings
import numpy as np
from crowd import Crowd
from sekai.vector import ProcVecEnv

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # about fork
    context, before = sys.argv[1:]
    if before != "nothing":
        from kernels import shift
        from sekai.kernels import get_num_threads, set_num_threads
    if before == "run":
        set_num_threads(2)
        shift(np.ones(10_000), np.zeros(10_000))
    with ProcVecEnv([Crowd] * 2, context=context) as vec:
        print(json.dumps(vec.call("count_threads")))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the modules are, and what was compiled of them."""
    folder = tmp_path_factory.mktemp("workers")
    for name, source in {"crowd": MARKET, "kernels": KERNELS, "script": SCRIPT}.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
    return folder


#: By default the one that is a worker's unless the user says otherwise.
each_context = pytest.mark.parametrize(
    "context", ["forkserver", *(pytest.param(each, marks=pytest.mark.slow) for each in ("fork", "spawn"))]
)


def in_workers(folder, context, before="nothing", **environ):
    """The number of threads in two workers, once each has run a kernel; ``before``: the parent's use of kernels."""
    out, err = run([str(folder / "script.py"), context, before], SEKAI_CACHE_DIR=str(folder / "cache"), **environ)
    assert err == ""
    return json.loads(out)


@each_context
def test_a_worker_uses_one_thread(folder, context):
    assert in_workers(folder, context) == [1, 1]


@pytest.mark.parametrize(
    ("context", "before"),
    [
        ("fork", "run"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in [("fork", "import"), ("forkserver", "run")]),
    ],
)
def test_so_does_one_whose_parent_uses_several(folder, context, before):
    assert in_workers(folder, context, before) == [1, 1]


@each_context
def test_unless_the_user_has_set_the_variable(folder, context):
    assert in_workers(folder, context, SEKAI_NUM_THREADS=" 2 ") == [2, 2]


def test_a_worker_has_no_more_than_numba(folder):
    assert in_workers(folder, "fork", SEKAI_NUM_THREADS="2", NUMBA_NUM_THREADS="1") == [1, 1]


def test_a_forked_worker_may_use_several_threads_only_if_its_parent_has_not(folder):
    assert in_workers(folder, "fork", "import", SEKAI_NUM_THREADS="2", NUMBA_NUM_THREADS="2") == [2, 2]
    assert in_workers(folder, "fork", "run", SEKAI_NUM_THREADS="2", NUMBA_NUM_THREADS="2") == [1, 1]
