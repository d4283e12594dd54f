"""One call at a time."""

from __future__ import annotations

import threading

from sekai.errors import AsyncCallPending


class CallGuard:
    """Refuses a call while an earlier one, from this thread or another, still runs: ``with guard("step()"): ...``.

    Args:
        owner: What the error message calls the owner of the calls.
        lock: Held while a call runs; None for one of its own.
    """

    def __init__(self, owner: str, lock: threading.Lock | None = None) -> None:
        self._owner = owner
        self._lock = threading.Lock() if lock is None else lock
        self._pending = ""

    def __call__(self, call: str) -> threading.Lock:
        """The lock to run ``call`` under; AsyncCallPending if another call runs.

        The lock itself is the context manager, since in one written in Python Ctrl-C could come between taking the lock
        and the promise to give it back. Two calls that come at the very same time run one after the other.
        """
        if self._lock.locked():
            raise AsyncCallPending(f"{self._owner}.{call}: an earlier {self._pending} is still running; await it first")
        self._pending = call
        return self._lock

    def wait(self) -> None:
        """Wait until no call runs."""
        with self._lock:
            pass
