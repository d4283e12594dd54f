"""A progress bar where there is somebody to look at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(total: int | None, unit: str, *, wanted: bool = True) -> Iterator[Callable[[int], Any]]:
    """Draw a bar for as long as the block runs, if stderr is a terminal and tqdm is installed.

    Args:
        total: What it counts up to; None where that is not known.
        unit: What it counts.
        wanted: False draws none.

    Yields:
        What to call with every advance, bar or not.
    """
    if wanted and sys.stderr is not None and sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            with tqdm(total=total, unit=unit, leave=False) as bar:
                yield bar.update
            return
    yield lambda advance: None
