"""What runs in a Ray worker process: one shard of a rollout."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle

from sekai.errors import SekaiError, VecEnvWorkerError
from sekai.rollouts import Rollout
from sekai.shards.cutting import where_rows
from sekai.shards.rolling import Shard, Work

#: Whether threads are the user's to say, as in worker processes of a ``ProcVecEnv``.
_ARE_TOLD = "SEKAI_NUM_THREADS" in os.environ

#: The last record that was summarised; what came of it has been pickled when the next task begins.
_memory: dict[Any, Rollout] = {}


@dataclass(frozen=True)
class Failure:
    """What a market or a policy has raised in a task; no fault of Ray's, so that nothing is tried again.

    Attributes:
        error: The exception, pickled; None of one that cannot be.
        name: Of its class.
        message: Its text.
        traceback: Of the task, as text.
    """

    error: bytes | None
    name: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """An exception as it travels."""
        told = type(error).__name__, str(error), "".join(traceback.format_exception(error))
        try:
            pickled = cloudpickle.dumps(error)
            pickle.loads(pickled)
        except Exception:  # whatever its own methods raise
            return cls(None, *told)
        return cls(pickled, *told)

    def raised(self, rows: range) -> BaseException:
        """The exception again, its cause being what names the rows and holds the traceback of the task."""
        where = f"{where_rows(rows)}, which their task counts from 0"
        if self.error is None:
            return VecEnvWorkerError(rows.start, self.name, f"{self.message} ({where})", self.traceback)
        error: BaseException = pickle.loads(self.error)
        if hasattr(error, "add_note"):
            error.add_note(f"in {where}")
        error.__cause__ = SekaiError(f"in {where}:\n\n{self.traceback}")
        return error


@contextmanager
def threads_of_task(count: int) -> Iterator[None]:
    """Let kernels use so many threads, as a worker process has other tasks later; but what the user has said, if so."""
    if _ARE_TOLD:
        yield
        return
    os.environ["SEKAI_NUM_THREADS"] = str(count)  # for kernels that are to be loaded
    kernels: Any = sys.modules.get("sekai.kernels.threads")
    before = None if kernels is None else kernels.get_num_threads()
    if kernels is not None:
        kernels.set_num_threads(count)
    try:
        yield
    finally:
        del os.environ["SEKAI_NUM_THREADS"]
        if kernels is not None:
            kernels.set_num_threads(before)


def run_shard(work: Work, shard: Shard, num_threads: int) -> Any:
    """Roll out a shard; what it hands back, or a ``Failure``."""
    try:
        with threads_of_task(num_threads):
            return work.do(shard, _memory)
    except (Exception, SystemExit) as error:  # an exit would be taken for a loss
        return Failure.of(error)
