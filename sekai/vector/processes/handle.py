"""One worker of a pool as the parent sees it, and what is heard from them all."""

from __future__ import annotations

import os
import selectors
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sekai.vector.failures import Failure
from sekai.vector.processes import pipe
from sekai.vector.processes.pickles import load_each
from sekai.vector.processes.pipe import Pipe
from sekai.vector.processes.worker import DONE

if TYPE_CHECKING:
    import asyncio
    from multiprocessing.process import BaseProcess


class Said(NamedTuple):
    """What a worker says in a reply."""

    values: dict[str, dict[int, Any]]  # what it is ("info", say), then by row
    beside: dict[str, Any]  # parts of the batch that no block has


class WorkerHandle:
    """One worker as the parent sees it."""

    def __init__(self, rank: int, rows: slice, process: BaseProcess, end: Pipe) -> None:
        """Take the ``rank``-th worker, which runs the sub-envs ``rows``."""
        self.rank = rank
        self.rows = rows
        self.process = process
        self.pipe = end
        self.owed = 0  # replies under way
        self.reply = DONE  # the last one
        self.death: Failure | None = None
        self.pidfd = _open_pid(process.pid)

    @property
    def sentinel(self) -> Any:
        """What can be waited for to hear of the worker's end."""
        return self.process.sentinel if self.pidfd is None else self.pidfd

    def describe(self) -> str:
        """Which worker it is, and which sub-envs it runs."""
        envs = ", ".join(map(str, range(self.rows.start, self.rows.stop)))
        noun = "sub-env" if self.rows.stop - self.rows.start == 1 else "sub-envs"
        return f"worker {self.rank} (process {self.process.pid}, {noun} {envs})"

    def read(self, failures: list[Failure]) -> Said | None:
        """What the last reply says, None if nothing; what went wrong is added to ``failures``."""
        if self.death is not None and self.owed:
            failures.append(self.death)
            return None
        reply, self.reply = self.reply, DONE  # which frees a large one
        if reply == DONE:
            return None
        parts = load_each(reply[1:])
        failed, keys, beside = next(parts)
        failures += failed
        said = Said({}, beside)
        for what, row in keys:
            try:
                said.values.setdefault(what, {})[row] = next(parts)
            except Exception as error:  # those that come after it are not known
                failures.append(Failure(row, type(error).__name__, f"its {what} cannot be unpickled: {error}"))
                break
        return said

    def release(self) -> None:
        """Release the pipe, and the process if it has ended."""
        self.pipe.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        if not self.process.is_alive():
            self.process.close()


def _open_pid(pid: int | None) -> int | None:
    """A descriptor of a process; unlike a sentinel, it tells its end although others have inherited what it held."""
    if pid is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # it has ended already, or the system is too old
        return None


class Listener:
    """Hears at once what comes from any worker: a reply, room for what is unsent, or its end."""

    def __init__(self, spin: bool) -> None:
        """Listen to nobody yet; ``spin`` says whether ``wait()`` spins before it sleeps."""
        self._selector = selectors.DefaultSelector()
        self._sources: dict[Any, tuple[WorkerHandle, bool]] = {}  # by what is waited for
        self._spin = pipe.Spin(partial(self._selector.select, 0)) if spin and pipe.DESCRIPTORS else None
        self._awaited: asyncio.Event | None = None

    def listen_to(self, worker: WorkerHandle) -> None:
        """Hear from a worker."""
        self._sources[worker.pipe.connection] = (worker, False)
        self._sources[worker.sentinel] = (worker, True)
        if pipe.DESCRIPTORS:
            for source in (worker.pipe.connection, worker.sentinel):
                self._selector.register(source, selectors.EVENT_READ, self._sources[source])

    def mind_unsent(self, worker: WorkerHandle) -> None:
        """Hear, as long as something is unsent, when there is room for it."""
        if pipe.DESCRIPTORS:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.pipe.unsent else 0)
            self._selector.modify(worker.pipe.connection, events, self._sources[worker.pipe.connection])

    def forget(self, worker: WorkerHandle) -> None:
        """Hear from a worker no more."""
        for source in (worker.pipe.connection, worker.sentinel):
            del self._sources[source]
            if pipe.DESCRIPTORS:
                self._selector.unregister(source)

    def wait(self, timeout: float | None) -> list[tuple[WorkerHandle, bool]]:
        """Who is heard, and whether it is the end; waits until there is something, or ``timeout`` seconds."""
        if not pipe.DESCRIPTORS:
            from multiprocessing.connection import wait

            return [self._sources[source] for source in wait(list(self._sources), timeout)]
        come: list[Any] = []
        if self._spin is not None and timeout != 0.0:
            come = self._spin()
        return [key.data for key, _ in come or self._selector.select(timeout)]

    async def something(self, timeout: float | None) -> None:
        """Wait until there is something to hear, with the event loop free meanwhile."""
        import asyncio

        loop = asyncio.get_running_loop()
        if not pipe.DESCRIPTORS:
            # Short, since the thread goes on after the await was cancelled.
            await loop.run_in_executor(None, self.wait, 0.05 if timeout is None else min(timeout, 0.05))
            return
        heard = self._awaited = asyncio.Event()
        keys = list(self._selector.get_map().values())
        for key in keys:
            loop.add_reader(key.fd, heard.set)
            if key.events & selectors.EVENT_WRITE:
                loop.add_writer(key.fd, heard.set)
        try:
            await asyncio.wait_for(heard.wait(), timeout)
        except asyncio.TimeoutError:
            pass
        finally:
            self._awaited = None
            for key in keys:
                loop.remove_reader(key.fd)
                loop.remove_writer(key.fd)

    def close(self) -> None:
        """Listen to nobody any more; whoever awaits something goes on."""
        self._selector.close()
        if self._awaited is not None:
            self._awaited.set()
