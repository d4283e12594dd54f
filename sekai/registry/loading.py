"""The loaders of namespaces and plug-ins: run once each, and never in a way that two threads can block each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Loader:
    """A loader while it runs.

    Attributes:
        key: What tells it from the others.
        origin: What it is, for messages.
        outer: The loader that needed it, if any.
        offered: The ids and namespaces it has registered so far, those that were there already included.
    """

    key: str
    origin: str
    outer: Loader | None = None
    offered: set[str] = field(default_factory=set)


class Loading:
    """Runs loaders, and knows which one a registration comes from.

    A thread that needs a loader which another thread runs waits for it, with one exception. A thread that is in the
    middle of an import holds that module's import lock, and the loader may be about to import the same module; so
    it does not wait but runs the loader too, whose registrations are then met a second time.
    """

    def __init__(self) -> None:
        self._done: set[str] = set()
        self._turn = threading.RLock()
        self._here = threading.local()

    @property
    def current(self) -> Loader | None:
        """The innermost loader that this thread runs."""
        return getattr(self._here, "loader", None)

    def is_done(self, key: str) -> bool:
        """Whether this loader has been run."""
        return key in self._done

    def is_running(self, key: str) -> bool:
        """Whether this thread is running this loader."""
        loader = self.current
        while loader is not None and loader.key != key:
            loader = loader.outer
        return loader is not None

    @contextmanager
    def attributed_to(self, key: str, origin: str) -> Iterator[None]:
        """What this thread registers inside comes from this loader."""
        outer = self.current
        self._here.loader = Loader(key, origin, outer)
        try:
            yield
        finally:
            self._here.loader = outer

    def run(self, key: str, origin: str, load: Callable[[], Callable[[], object]]) -> None:
        """Import a loader and call it, unless it is done or running in this thread.

        Args:
            key: What tells the loader from the others.
            origin: What it is, for messages.
            load: Imports it; called while no lock is held.

        Raises:
            BaseException: Whatever the loader raised. It is not done then.
        """
        if self.is_done(key) or self.is_running(key):
            return
        with self.attributed_to(key, origin):
            function = load()
            with self._wait_for_turn():
                if not self.is_done(key):
                    function()
                    self._done.add(key)

    @contextmanager
    def _wait_for_turn(self) -> Iterator[None]:
        has_turn = self._turn.acquire(blocking=not _is_importing())
        try:
            yield
        finally:
            if has_turn:
                self._turn.release()


def _is_importing() -> bool:
    """Whether this thread is in the middle of an import."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
    return False
