"""Whether a batch is worth several threads: measured, since nothing else tells.

Threads that have slept have to be woken up, which takes as long as a kernel over thousands of rows; and a core that
other processes use too makes everybody wait for the thread that runs there. So the calls of a kernel are timed, each
way is tried now and then, and the quicker one is kept. The numbers are the same either way.
"""

from __future__ import annotations

import threading
from collections import deque
from statistics import median

#: Calls whose times are compared, of either way, and calls in a trial of the other way.
_KEPT, _TRIED = 7, 7
#: Calls between two trials: at first, and at most, as each trial that fails doubles them.
_FIRST_INTERVAL, _LONGEST_INTERVAL = 256, 4096
#: Calls between two looks at whether the way that is taken has become slower than the other one was.
_LOOK = 32
#: How much quicker the other way has to be.
_GAIN = 0.95


class ThreadChoice:
    """One thread or several, for calls of one kernel with numbers of rows that are much alike.

    Make a call in the way that ``parallel`` says, and ``record`` how long it took. It begins on one thread.

    Attributes:
        parallel: Whether the next call is for several threads.
    """

    __slots__ = ("parallel", "_times", "_unmeasured", "_trial", "_since", "_interval", "_recording")

    def __init__(self) -> None:
        """Know nothing yet."""
        self.parallel = False
        self._recording = threading.Lock()
        self._times: dict[bool, deque[float]] = {way: deque(maxlen=_KEPT) for way in (False, True)}
        self._interval = _FIRST_INTERVAL
        self._begin_trial(parallel=False, calls=_KEPT)

    def record(self, parallel: bool, seconds: float) -> None:
        """Take in how long a call took.

        Args:
            parallel: How it was made. Of calls in several threads, not all count.
            seconds: Per row, where the numbers of rows differ.
        """
        if not self._recording.acquire(blocking=False):
            return
        try:
            if parallel is self.parallel:
                self._record(seconds)
        finally:
            self._recording.release()

    def _record(self, seconds: float) -> None:
        if self._unmeasured:
            self._unmeasured -= 1
            return
        self._times[self.parallel].append(seconds)
        if self._trial > 1:
            self._trial -= 1
        elif self._trial:
            self._end_trial()
        else:
            self._since += 1
            if self._since >= self._interval or (self._since % _LOOK == 0 and not self._is_quicker(self.parallel)):
                self._begin_trial(not self.parallel, calls=_TRIED)

    def _begin_trial(self, parallel: bool, calls: int) -> None:
        self.parallel = parallel
        self._trial = calls
        self._unmeasured = 1  # it may compile, or find everything in another core's cache
        self._since = 0

    def _end_trial(self) -> None:
        self._trial = 0
        tried = self.parallel
        if not all(self._times.values()):
            self._begin_trial(not tried, calls=_KEPT)
        elif self._is_quicker(tried):
            self._interval = _FIRST_INTERVAL
        else:
            self.parallel = not tried
            self._interval = min(2 * self._interval, _LONGEST_INTERVAL)

    def _is_quicker(self, parallel: bool) -> bool:
        """Whether one way has been quicker lately than the other; in doubt, one thread."""
        one, several = (median(self._times[way]) for way in (False, True))
        return (several < _GAIN * one) is parallel
