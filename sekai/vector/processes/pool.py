"""The worker processes of a ProcVecEnv, the pipes to them, and how they end."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sekai.errors import VecEnvClosed, VecEnvWorkerError
from sekai.vector.failures import Failure, worker_error
from sekai.vector.interrupts import Uninterrupted, interrupts_blocked
from sekai.vector.processes.handle import Listener, WorkerHandle
from sekai.vector.processes.pipe import Pipe, PipeClosed
from sekai.vector.processes.thread_limits import one_thread_each
from sekai.vector.processes.worker import CLOSE, FAILED, NO_MAIN_GUARD, Plan, run_worker

#: Seconds that a worker has to end once it was told to by a signal.
_PATIENCE = 0.3

_MAIN_GUARD = (
    "the script that creates a ProcVecEnv is run again in every worker, and must guard its entry point with "
    "`if __name__ == '__main__':`"
)


class WorkerPool:
    """Worker processes that each take the same number of commands and answer each with one reply.

    Args:
        plans: What each worker is started with.
        context: The start method.
        daemon: Whether they are daemonic.
        close_timeout: Seconds they have to close their sub-envs if not all can be started.
        lock: Held while a call goes on.

    Attributes:
        slices: The rows of each worker.
        sizes: The number of rows of each worker.
        lock: As given.
        said_beside_failures: What each worker said in the last exchange that failed, None where that is nothing.
    """

    def __init__(
        self, plans: Sequence[Plan], context: str, daemon: bool, close_timeout: float, lock: threading.Lock
    ) -> None:
        """Start the workers; nothing is left of them if one cannot be started."""
        _refuse_bootstrapping()
        starts = [plan.start for plan in plans]
        self.sizes = [stop - start for start, stop in zip(starts, [*starts[1:], plans[0].num_envs], strict=True)]
        self.slices = [slice(start, start + size) for start, size in zip(starts, self.sizes, strict=True)]
        self.lock = lock
        self._closing_failures: list[Failure] = []
        self.said_beside_failures: list[Any] = []
        self._stopped = False
        self._holder = threading.get_ident()  # the thread that holds the lock; a pool may be made within a call
        self._creator = os.getpid()
        self.workers: list[WorkerHandle] = []
        self._owed = 0  # replies under way from workers that live
        self._listener = Listener(all(plan.spin for plan in plans))
        from multiprocessing import get_context

        ctx: Any = get_context(context)
        if context == "forkserver":
            _preload(ctx)
        try:
            with one_thread_each() as variables, interrupts_blocked(), _no_main_without_a_file():
                for rank, (plan, rows) in enumerate(zip(plans, self.slices, strict=True)):
                    self._start(ctx, rank, plan._replace(variables=variables), rows, daemon)
        except BaseException:
            self.stop(close_timeout)
            raise

    def _start(self, ctx: Any, rank: int, plan: Plan, rows: slice, daemon: bool) -> None:
        mine, theirs = ctx.Pipe()
        inherited = [mine, *(worker.pipe.connection for worker in self.workers)]
        arguments = (theirs, plan, inherited if ctx.get_start_method() == "fork" else ())
        process = ctx.Process(target=run_worker, args=arguments, daemon=daemon, name=f"sekai-worker-{rank}")
        try:
            process.start()
        except BaseException as error:
            mine.close()
            # All that is heard of a fork server that has ended.
            if ctx.get_start_method() == "forkserver" and isinstance(error, (EOFError, ConnectionError)):
                message = f"the fork server has ended: where it imports the main module, {_MAIN_GUARD}"
                raise worker_error([Failure(rows.start, "WorkerDied", message)]) from None
            raise
        finally:
            theirs.close()
        worker = WorkerHandle(rank, rows, process, Pipe(mine, blocking=False))
        self.workers.append(worker)
        self._listener.listen_to(worker)
        worker.owed = 1  # the first reply comes unasked
        self._owed += 1

    # -- calls ---------------------------------------------------------------------------------------------

    def exchange(self, commands: Sequence[bytes], timeout: float | None = None) -> list[Any]:
        """Send each worker a command and wait for the replies.

        Args:
            commands: One each.
            timeout: Seconds to wait; None for as long as it takes.

        Returns:
            What each worker says, None where that is nothing.

        Raises:
            VecEnvWorkerError: A sub-env failed, or a worker died or took too long.
        """
        self._send(commands)
        self._wait(timeout)
        return self._read()

    def first_replies(self) -> list[Any]:
        """What each worker says unasked, or the first failure, without waiting for those that still build."""
        while self._owed and not any(worker.reply[:1] == FAILED or worker.death for worker in self.workers):
            self._take(None)
        failures: list[Failure] = []
        replies = [worker.read(failures) for worker in self.workers if not (worker.owed and worker.death is None)]
        if failures:
            raise worker_error(failures)
        return replies

    async def async_exchange(self, commands: Sequence[bytes], timeout: float | None = None) -> list[Any]:
        """As ``exchange``, with the event loop free meanwhile."""
        self._send(commands)
        await self._async_wait(timeout)
        return self._read()

    def settle(self, timeout: float | None = None) -> None:
        """Wait for the replies that an interrupted call has left under way, and discard them.

        Raises:
            VecEnvWorkerError: A worker takes too long.
        """
        self._begin()
        if self._owed:
            self._wait(timeout)

    async def async_settle(self, timeout: float | None = None) -> None:
        """As ``settle``, with the event loop free meanwhile."""
        self._begin()
        if self._owed:
            await self._async_wait(timeout)

    def _begin(self) -> None:
        """A call begins, under the lock."""
        if os.getpid() != self._creator:
            raise RuntimeError(f"ProcVecEnv: made in process {self._creator}, it cannot be used in {os.getpid()}")
        self._holder = threading.get_ident()

    def _send(self, commands: Sequence[bytes]) -> None:
        deaths = [worker.death for worker in self.workers if worker.death is not None]
        if deaths:
            raise worker_error(deaths)
        with Uninterrupted():
            for worker, command in zip(self.workers, commands, strict=True):
                self._tell(worker, command)

    def _tell(self, worker: WorkerHandle, command: bytes) -> None:
        with self._whole(worker):  # what is counted but not asked for would be waited for
            worker.owed += 1
            self._owed += 1
            worker.pipe.send(command)
            if worker.pipe.unsent:
                self._listener.mind_unsent(worker)

    @contextmanager
    def _whole(self, worker: WorkerHandle) -> Iterator[None]:
        """Bury a worker whose pipe has broken, or has been left in the middle of a message."""
        try:
            yield
        except PipeClosed:
            self._bury(worker)
        except BaseException:  # of a signal handler: nobody knows what has been sent or read
            worker.process.kill()
            self._bury(worker)
            raise

    def _read(self) -> list[Any]:
        failures: list[Failure] = []
        replies = [worker.read(failures) for worker in self.workers]
        if failures:
            self.said_beside_failures = replies
            raise worker_error(failures)
        return replies

    # -- waiting -------------------------------------------------------------------------------------------

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._owed:
            self._take(None if deadline is None else max(0.0, deadline - time.monotonic()))
            self._check_time(deadline, timeout)

    async def _async_wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._owed:
            await self._listener.something(None if deadline is None else max(0.0, deadline - time.monotonic()))
            self._take(0.0)
            self._check_time(deadline, timeout)

    def _check_time(self, deadline: float | None, timeout: float | None) -> None:
        if deadline is not None and self._owed and time.monotonic() >= deadline:
            raise self._too_slow(timeout)

    def _take(self, timeout: float | None) -> None:
        """Receive what has come, waiting for something to come at first."""
        try:
            come = [] if self._stopped else self._listener.wait(timeout)
        except (OSError, ValueError):  # the descriptors went while it waited
            if not self._stopped:
                raise
        if self._stopped:
            raise VecEnvClosed("ProcVecEnv: closed while a call was going on")
        with Uninterrupted():
            for worker, ended in come:
                if worker.death is None:
                    with self._whole(worker):
                        self._receive(worker, ended)

    def _receive(self, worker: WorkerHandle, ended: bool) -> None:
        """Take the replies that have come; of a worker that has ended, the last one may be there or not."""
        if worker.pipe.unsent:
            worker.pipe.flush()
            if not worker.pipe.unsent:
                self._listener.mind_unsent(worker)
        reply = worker.pipe.receive()
        if reply is None and ended:
            raise PipeClosed
        while reply is not None:
            worker.reply = reply
            worker.owed -= 1
            self._owed -= 1
            # Another may have come with it, of which nothing more would be heard.
            reply = worker.pipe.receive() if worker.owed else None

    def _bury(self, worker: WorkerHandle) -> None:
        """A worker has died: say so from now on, and listen no more."""
        self._listener.forget(worker)
        self._owed = sum(each.owed for each in self.workers if each is not worker and each.death is None)
        worker.process.join(_PATIENCE)
        code = worker.process.exitcode
        if code == NO_MAIN_GUARD:
            message = _MAIN_GUARD
        else:
            message = f"{worker.describe()} died {_describe_exit(code)}"
        worker.death = Failure(worker.rows.start, "WorkerDied", message)

    def _too_slow(self, timeout: float | None) -> VecEnvWorkerError:
        slow = [worker for worker in self.workers if worker.owed and worker.death is None]
        return worker_error(
            [
                Failure(worker.rows.start, "TimeoutError", f"{worker.describe()} took longer than {timeout} s")
                for worker in slow
            ]
        )

    # -- the end -------------------------------------------------------------------------------------------

    def stop(self, timeout: float) -> list[Failure]:
        """Close every sub-env and end every worker, by force after ``timeout`` seconds.

        Returns:
            What went wrong in closing sub-envs.
        """
        deadline = time.monotonic() + timeout
        # A call that goes on in another thread gives the pipes up when its workers die. One that this thread itself has
        # interrupted, to close, cannot go on.
        free = self.lock.acquire(blocking=False)
        mine = free or self._holder == threading.get_ident()
        if not mine:
            free = mine = self.lock.acquire(timeout=timeout)
        try:
            if mine:
                self._ask_to_close(deadline)
        except BaseException:
            deadline = time.monotonic()
            raise
        finally:
            self._stopped = True
            self._end_processes(deadline if mine else time.monotonic())
            if not mine:
                free = self.lock.acquire(timeout=_PATIENCE)
            for worker in self.workers:
                worker.release()
            self._listener.close()
            if free:
                self.lock.release()
        return self._closing_failures

    def _ask_to_close(self, deadline: float) -> None:
        for worker in self.workers:
            if worker.death is None:
                self._tell(worker, CLOSE)
        with suppress(VecEnvWorkerError):  # those that take longer are ended by force
            self._wait(max(0.0, deadline - time.monotonic()))
        for worker in self.workers:
            if not worker.owed:
                worker.read(self._closing_failures)

    def _end_processes(self, deadline: float) -> None:
        processes = [worker.process for worker in self.workers]
        for end, patience in ((None, max(0.0, deadline - time.monotonic())), ("terminate", _PATIENCE), ("kill", 5.0)):
            living = [process for process in processes if process.is_alive()]
            if end is not None:
                for process in living:
                    getattr(process, end)()
            until = time.monotonic() + patience
            for process in living:
                process.join(max(0.0, until - time.monotonic()))


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "(its exit status is not known)"
    if code < 0:
        return f"of {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"of signal {-code}"
    return f"with exit status {code}"


def _refuse_bootstrapping() -> None:
    """End a worker, or fork server, that is about to start workers of its own: its script has no main guard."""
    from multiprocessing import current_process

    if getattr(current_process(), "_inheriting", False):
        os._exit(NO_MAIN_GUARD)


@contextmanager
def _no_main_without_a_file() -> Iterator[None]:
    """Let workers do without a main module that they could not run again: a script on standard input is no file.

    They need none of it, since env_fns bring with them what they use of it.
    """
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or getattr(main, "__spec__", None) is not None or os.path.exists(path):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path


def _preload(ctx: Any) -> None:
    """Let the fork server import this package once for all workers, unless the user has told it what to import.

    The main module, which newer versions of Python have it import unless told otherwise, is left to the workers: one
    without a main guard would end the server, and with it the chance to say why.
    """
    from multiprocessing import forkserver

    if getattr(getattr(forkserver, "_forkserver", None), "_preload_modules", None) == ["__main__"]:
        ctx.set_forkserver_preload(["sekai.vector.processes.preload"])
