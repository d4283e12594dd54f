"""Ctrl-C, kept away from where it would leave something half done."""

from __future__ import annotations

import importlib
import inspect
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from a process that is being started until it has said what it does about it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Uninterrupted:
    """Puts off Ctrl-C while messages are half sent or half read."""

    __slots__ = ("_pressed", "_previous")

    def __enter__(self) -> None:
        self._pressed: list[Any] = []
        self._previous: Any = None
        if threading.current_thread() is threading.main_thread():
            self._previous = _set_handler(signal.SIGINT, lambda *press: self._pressed.append(press))

    def __exit__(self, *exc_info: object) -> None:
        if self._previous is not None:
            _set_handler(signal.SIGINT, self._previous)
            if self._pressed and callable(self._previous):
                self._previous(*self._pressed[0])


class LoopInterrupts:
    """Keeps Ctrl-C out of an event loop's own code, which would lose a callback or not know that it has stopped.

    In a coroutine, Ctrl-C is what it always is. In the loop, what its handler raises is kept: the call under way is
    cancelled, and the error raised at the end of the ``with`` block.

    Args:
        loop: The loop that runs in the block.
    """

    __slots__ = ("_kept", "_loop", "_previous", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._previous: Any = None
        self._kept: BaseException | None = None

    def cancel_by_interrupt(self, task: asyncio.Task[Any]) -> None:
        """Say what to cancel."""
        self._task = task
        if self._kept is not None:
            task.cancel()

    def __enter__(self) -> LoopInterrupts:
        if threading.current_thread() is threading.main_thread():
            previous: Any = signal.getsignal(signal.SIGINT)
            if callable(previous):
                self._previous = previous
                _set_handler(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._previous is not None:
            _set_handler(signal.SIGINT, self._previous)
        if self._kept is not None:
            raise self._kept

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        if _in_a_coroutine(frame):
            self._previous(number, frame)
            return
        try:
            self._previous(number, frame)
        except BaseException as error:
            self._kept = self._kept or error
            if self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)


def _in_a_coroutine(frame: FrameType | None) -> bool:
    """Whether a frame belongs to a coroutine rather than to the event loop, or what that calls for it."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("asyncio.") or module == "selectors":
            return False
        if frame.f_code.co_flags & inspect.CO_COROUTINE:
            return True
        frame = frame.f_back
    return False


# signal.signal() turns its arguments and its result into enums, which takes ten times as long as the rest of it.
_set_handler: Any = getattr(importlib.import_module("_signal"), "signal", signal.signal)
