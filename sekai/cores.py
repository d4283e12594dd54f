"""How many processor cores there are to use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The number of cores this process may use, as far as the system tells; else of all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
