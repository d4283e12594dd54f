"""Timing that holds on a shared machine: the sides take turns, and ratios are taken within a round.

A round times every side once, in an order that alternates, so that whatever slows the machine down for a while slows
both sides. The median over the rounds then leaves out the rounds in which it slowed only one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter

Times = dict[str, list[float]]


def take_turns(sides: dict[str, Callable[[], object]], *, rounds: int = 15, block: float = 0.02) -> Times:
    """Seconds per call of every side, one entry per round.

    Args:
        sides: What to time, by name. Each is called a few times first, so that nothing is timed while it compiles.
        rounds: How many rounds.
        block: Seconds that one side takes in one round, about; at least one call.
    """
    calls = {name: _calls(call, block) for name, call in sides.items()}
    times: Times = {name: [] for name in sides}
    gc.collect()
    for turn in range(rounds):
        for name in list(sides) if turn % 2 else reversed(list(sides)):
            times[name].append(_time(sides[name], calls[name]))
    return times


def ratio(times: Times, side: str, other: str) -> float:
    """How many times as long ``side`` takes as ``other``: the median of the ratios within the rounds."""
    return median(a / b for a, b in zip(times[side], times[other], strict=True))


def overhead_ratio(times: Times, side: str, bare: str, other: str, other_bare: str) -> float:
    """The same of what is left once the time of ``bare`` is taken from each."""
    rows = zip(times[side], times[bare], times[other], times[other_bare], strict=True)
    return median((a - b) / (c - d) for a, b, c, d in rows)


def _calls(call: Callable[[], object], block: float) -> int:
    for _ in range(3):
        call()
    once = min(_time(call, 1) for _ in range(3))
    return max(1, round(block / once))


def _time(call: Callable[[], object], calls: int) -> float:
    start = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - start) / calls
