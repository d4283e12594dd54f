"""Indexes beyond the arrays of a kernel, and variables without a value: compiled code takes whatever memory is there.

A market is run once in a process of its own in which nothing is compiled. There an index goes through NumPy, which
checks it, as Python does variables, and an error has a traceback to the line; and what would have been written
elsewhere leaves no trace here.
"""

from __future__ import annotations

import linecache
import os
import pickle
import subprocess
import sys
from types import FrameType
from typing import Any

from sekai.testing.reference import Inputs, VecEnvFactory
from sekai.testing.shown import CallFailed, play
from sekai.testing.values import name_error

#: What compiled code does not look after, by what Python raises.
_EXPECTED = {
    IndexError: "indexes within their arrays",
    UnboundLocalError: "variables that have a value where they are read",
}

_COMMAND = "from sekai.testing.bounds import answer; answer()"


def find_beyond(factory: VecEnvFactory, num_envs: int, inputs: Inputs) -> tuple[list[str], list[str]]:
    """Run a market without compilation, and with its indexes checked.

    Args:
        factory: Builds the market; it is sent to the other process by cloudpickle.
        num_envs: Sub-envs of the run.
        inputs: What goes in.

    Returns:
        Problems, at most one, and hints: why the run could not be made.
    """
    import cloudpickle

    environ = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "NUMBA_BOUNDSCHECK": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _COMMAND],
            input=cloudpickle.dumps((factory, num_envs, inputs)),
            capture_output=True,
            env=environ,
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit status {done.returncode}")
        problem, reason = pickle.loads(done.stdout)
    except Exception as error:
        problem, reason = "", name_error(error)
    hint = f"the kernels could not be run without compilation, so their indexes were not checked: {reason}"
    return [problem] if problem else [], [hint] if reason else []


def answer() -> None:
    """In the other process: the problem and the reason why there was no run, each empty if there is none."""
    output = os.dup(1)
    os.dup2(2, 1)  # what the market prints goes elsewhere
    factory, num_envs, inputs = pickle.load(sys.stdin.buffer)
    with os.fdopen(output, "wb") as file:
        file.write(pickle.dumps(_run(factory, num_envs, inputs)))


def _run(factory: VecEnvFactory, num_envs: int, inputs: Inputs) -> tuple[str, str]:
    try:
        with factory.open(num_envs) as vec:
            for _ in play(vec, inputs.seeds, inputs.actions):
                pass
    except CallFailed as failure:
        call = str(failure).partition(": ")[0]
        for error in _causes(failure):
            for kind, expected in _EXPECTED.items():
                if isinstance(error, kind):
                    return f"{call}: expected {expected}, got {name_error(error)}, {_where(error)}", ""
        return "", str(failure)
    return "", ""


def _causes(error: BaseException) -> list[Exception]:
    """An exception and those that it was raised from, the first one first."""
    found = []
    cause: BaseException | None = error
    while cause is not None:
        found.append(cause)
        cause = cause.__cause__
    return [each for each in reversed(found) if isinstance(each, Exception)]


def _where(error: BaseException) -> str:
    """The innermost line of a user's code that an exception came through, which may call what is the kit's."""
    place: tuple[FrameType, int] | None = None
    entry: Any = error.__traceback__
    while entry is not None:
        home = str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if place is None or home not in ("sekai", "numpy"):
            place = entry.tb_frame, entry.tb_lineno
        entry = entry.tb_next
    if place is None:
        return "in an unknown place"
    code, line = place[0].f_code, place[1]
    source = linecache.getline(code.co_filename, line).strip()
    return f"in {code.co_name}() ({code.co_filename}, line {line}{f': {source}' if source else ''})"
