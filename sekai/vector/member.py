"""One worker of a crew as the parent sees it, and what is heard from them all."""

from __future__ import annotations

import pickle
import selectors
import time
from typing import TYPE_CHECKING, Any

from sekai.vector import line
from sekai.vector.line import Line
from sekai.vector.worker import DONE, FAILED, Failure

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


class Member:
    """One worker as the parent sees it."""

    def __init__(self, rank: int, rows: slice, process: BaseProcess, end: Line) -> None:
        """Take the ``rank``-th worker, which runs the sub-envs ``rows``."""
        self.rank = rank
        self.rows = rows
        self.process = process
        self.line = end
        self.owed = 0  # replies under way
        self.reply = b""  # the last one
        self.death: Failure | None = None

    def describe(self) -> str:
        """Which worker it is, and which sub-envs it runs."""
        envs = ", ".join(map(str, range(self.rows.start, self.rows.stop)))
        noun = "sub-env" if self.rows.stop - self.rows.start == 1 else "sub-envs"
        return f"worker {self.rank} (process {self.process.pid}, {noun} {envs})"

    def read(self, failures: list[Failure]) -> Any:
        """What the last reply says, None if nothing; what went wrong is added to ``failures``."""
        if self.death is not None and self.owed:
            failures.append(self.death)
            return None
        if self.reply == DONE:
            return None
        try:
            said = pickle.loads(self.reply[1:])
        except Exception as error:
            message = f"its reply cannot be unpickled: {error}"
            failures.append(Failure(self.rows.start, type(error).__name__, message))
            return None
        if self.reply[:1] == FAILED:
            failures += said
            return None
        return said


class Ears:
    """Hears at once what comes from any worker: a reply, or its end."""

    def __init__(self, spin: bool) -> None:
        """Listen to nobody yet; ``spin`` says whether ``wait()`` spins before it sleeps."""
        self._selector = selectors.DefaultSelector()
        self._sources: dict[Any, tuple[Member, bool]] = {}  # by what is waited for
        self._spin = spin and line.DESCRIPTORS

    def listen_to(self, member: Member) -> None:
        """Hear from a worker."""
        self._sources[member.line.connection] = (member, False)
        self._sources[member.process.sentinel] = (member, True)
        if line.DESCRIPTORS:
            for source in (member.line.connection, member.process.sentinel):
                self._selector.register(source, selectors.EVENT_READ, self._sources[source])

    def forget(self, member: Member) -> None:
        """Hear from a worker no more."""
        for source in (member.line.connection, member.process.sentinel):
            del self._sources[source]
            if line.DESCRIPTORS:
                self._selector.unregister(source)

    def wait(self, timeout: float | None) -> list[tuple[Member, bool]]:
        """Who is heard, and whether it is the end; waits until there is something, or ``timeout`` seconds."""
        if not line.DESCRIPTORS:
            from multiprocessing.connection import wait

            return [self._sources[source] for source in wait(list(self._sources), timeout)]
        come: list[Any] = []
        if self._spin and timeout != 0.0:
            end_of_spin = time.perf_counter() + line.SPIN
            while not come and time.perf_counter() < end_of_spin:
                come = self._selector.select(0)
        return [key.data for key, _ in come or self._selector.select(timeout)]

    async def something(self, timeout: float | None) -> None:
        """Wait until there is something to hear, with the event loop free meanwhile."""
        import asyncio

        loop = asyncio.get_running_loop()
        if not line.DESCRIPTORS:
            # Short, since the thread goes on after the await was cancelled.
            await loop.run_in_executor(None, self.wait, 0.05 if timeout is None else min(timeout, 0.05))
            return
        heard = asyncio.Event()
        descriptors = list(self._selector.get_map())
        for descriptor in descriptors:
            loop.add_reader(descriptor, heard.set)
        try:
            await asyncio.wait_for(heard.wait(), timeout)
        except asyncio.TimeoutError:
            pass
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)

    def close(self) -> None:
        """Listen to nobody any more."""
        self._selector.close()
