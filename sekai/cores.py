"""How many processor cores there are to use, and how many threads the environment asks for."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The number of cores this process may use, as far as the system tells; else of all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_asked_for() -> int | None:
    """The number of threads that ``SEKAI_NUM_THREADS`` asks for; None where it is not set.

    Raises:
        ValueError: It is no integer of at least 1.
    """
    text = os.environ.get("SEKAI_NUM_THREADS")
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"SEKAI_NUM_THREADS: expected an integer of at least 1, got {text!r}")
    return int(text)
