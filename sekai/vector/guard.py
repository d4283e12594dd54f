"""One call at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sekai.errors import AsyncCallPending


class CallGuard:
    """Refuses a call while an earlier one, from this thread or another, still runs.

    Args:
        owner: What the error message calls the owner of the calls.
        lock: Held while a call runs; None for one of its own.
    """

    def __init__(self, owner: str, lock: threading.Lock | None = None) -> None:
        self._owner = owner
        self._lock = threading.Lock() if lock is None else lock
        self._pending = ""

    @contextmanager
    def __call__(self, call: str) -> Iterator[None]:
        """Run ``call``; AsyncCallPending if another one runs."""
        if not self._lock.acquire(blocking=False):
            raise AsyncCallPending(f"{self._owner}.{call}: an earlier {self._pending} is still running; await it first")
        self._pending = call
        try:
            yield
        finally:
            self._lock.release()
