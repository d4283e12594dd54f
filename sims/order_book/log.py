"""The log of a book: what joined it and what left it, in order, as row functions; ``record`` makes a tape of it.

Row 0 of a log has the time of what happens now, how many entries there were to be made, and the last for which there is
room; the entries follow. Whatever there is no room for is counted, and not kept. A book that keeps no log
(``rules.record_messages`` is 0) has none of this in its memory, nor in what is compiled.
"""

from __future__ import annotations

from typing import Any

from numpy import float64, int64

from sekai.kernels import jit

#: Parts of an entry: the time since the reset, what became of lots (``book.CAME`` to ``EVICTED``), how many they were,
#: the node of their order; and of those that came the side and the price, ticks.
TIME, WHAT, LOTS, NODE, SIDE, PRICE = range(6)
PARTS = 6
#: Parts of row 0.
NOW, COUNT, LAST = range(3)


def count_entries(params: Any) -> int:
    """Rows of a log: those of the orders that an episode begins with, and of as many changes as are to be kept."""
    rules = params.rules
    most = rules.record_messages
    return 1 + rules.slots + rules.max_orders + most if most > 0 else 0


@jit(allocates=False)
def set_time(rules: Any, book: Any, i: int, time: float) -> None:
    """Tell the time of what happens next."""
    if rules.record_messages > 0:
        book.log[i, 0, NOW] = time


@jit(allocates=False)
def set_room(rules: Any, book: Any, i: int, count: int) -> None:
    """Empty a log, and give it room for so many entries."""
    if rules.record_messages > 0:
        book.log[i, 0, NOW], book.log[i, 0, COUNT], book.log[i, 0, LAST] = 0.0, 0.0, float64(count)


@jit(allocates=False)
def write(rules: Any, book: Any, i: int, what: int, lots: int, node: int, side: int, price: int) -> None:
    """Make an entry."""
    if rules.record_messages > 0:
        _write(book.log[i], int64(what), int64(lots), int64(node), int64(side), int64(price))


@jit(inline=False, allocates=False)
def _write(log: Any, what: int, lots: int, node: int, side: int, price: int) -> None:
    log[0, COUNT] += 1.0
    if log[0, COUNT] <= log[0, LAST]:
        k = int64(log[0, COUNT])
        log[k, TIME], log[k, WHAT], log[k, LOTS] = log[0, NOW], float64(what), float64(lots)
        log[k, NODE], log[k, SIDE], log[k, PRICE] = float64(node), float64(side), float64(price)
