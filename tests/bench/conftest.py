"""One table of all benchmarks, printed at the end of the run."""

from __future__ import annotations

from statistics import median

import pytest
from rounds import Times, ratio

_HEADER = ("what", "this", "time", "that", "time", "ratio", "aim")
_ROWS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[_ROWS] = []


def pytest_terminal_summary(terminalreporter, config):
    rows = [_HEADER, *config.stash[_ROWS]]
    if len(rows) == 1:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    terminalreporter.section("benchmarks (medians; ratio = this / that within a round)")
    for row in rows:
        terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


@pytest.fixture
def report(request):
    """``report(what, times, this, that, aim="", value=None)`` adds a row; ``value`` replaces the ratio of the two."""

    def add(what: str, times: Times, this: str, that: str, aim: str = "", value: str | None = None) -> None:
        shown = f"{ratio(times, this, that):.2f}" if value is None else value
        row = (what, this, _duration(times[this]), that, _duration(times[that]), shown, aim)
        request.config.stash[_ROWS].append(row)

    return add


def _duration(seconds: list[float]) -> str:
    middle = median(seconds)
    if middle < 1e-6:
        return f"{middle * 1e9:.1f} ns"
    return f"{middle * 1e6:.1f} us" if middle < 1e-3 else f"{middle * 1e3:.1f} ms"
