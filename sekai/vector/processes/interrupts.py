"""Ctrl-C, kept away from where it would leave something half done."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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


# signal.signal() turns its arguments and its result into enums, which takes ten times as long as the rest of it.
_set_handler: Any = getattr(importlib.import_module("_signal"), "signal", signal.signal)
