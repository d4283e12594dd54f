"""From a ``sims.data.Tape`` to what row functions read of it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy import int64
from numpy.typing import NDArray

from sekai.kernels import jit
from sims.data import Tape
from sims.order_book.book import BUY, SELL
from sims.order_book.tape_book import EXECUTION, FAR, HIDDEN, LEAVE, NEW, NOTHING, File

#: What the kinds 1 to 7 do: new, cancelled in part, deleted, executed, hidden and executed, crossed, halted.
_WHAT = np.array([NOTHING, NEW, LEAVE, LEAVE, EXECUTION, HIDDEN, NOTHING, NOTHING], np.int8)

#: Those that have been checked and read, as long as anybody has the tape: parameters of each sub-env are checked.
_CHECKED: WeakSet[Tape] = WeakSet()
_READ: WeakKeyDictionary[Tape, File] = WeakKeyDictionary()


def check_tape(tape: Any) -> None:
    """Refuse what cannot be replayed.

    Raises:
        TypeError: It is no ``Tape``.
        ValueError: No row of it has an order, or a price is beyond what the market has room for.
    """
    if not isinstance(tape, Tape):
        raise TypeError(f"flow: expected a sims.data.Tape to be replayed, got {tape!r}")
    if tape in _CHECKED:
        return
    sizes = np.stack([tape.bid_size, tape.ask_size])
    if not sizes.any():
        raise ValueError("flow: expected a Tape with an order in one of its books, got none")
    prices = np.where(sizes > 0, np.stack([tape.bid_price, tape.ask_price]), 0)
    most, tick = max(int(prices.max()), int(tape.price[tape.kind <= 5].max(initial=0))), int(tape.tick or 1)
    if most // tick >= FAR - 1:
        raise ValueError(f"flow: expected prices below {FAR - 1} ticks of {tick}, got {most // tick}")
    _CHECKED.add(tape)


def read_tape(tape: Tape) -> File:
    """A tape as row functions read it, worked out once."""
    if tape not in _READ:
        _READ[tape] = _read(tape)
    return _READ[tape]


def _read(tape: Tape) -> File:
    tick = int(tape.tick or 1)
    prices, lots = (
        np.stack([getattr(tape, f"{side}_{what}") for side in ("bid", "ask")], axis=1) for what in ("price", "size")
    )
    # A level that is not there is worse than all others, so that all there may be is in view.
    missing = np.array([-FAR, FAR])[None, :, None]
    prices = np.where(lots > 0, prices // tick, missing).astype(np.int32)
    edge = prices[:, :, -1] * np.array([1, -1], np.int32)
    side = np.where(tape.direction == 1, BUY, SELL).astype(np.int8)
    what = _WHAT[tape.kind]
    # A hidden order's price may lie between two ticks: an own order is executed first from the next better one on.
    key = np.where(side == BUY, -(-tape.price // tick), -(tape.price // tick))
    key = np.where(what == NOTHING, 0, key).astype(np.int32)
    ref = tape.ref.astype(np.int32)
    unsure = np.flatnonzero((what == LEAVE) & (ref < 0))
    seen = np.arange(len(ref), dtype=np.int32)
    for each in (BUY, SELL):
        rows = unsure[side[unsure] == each]
        seen[rows] = in_view_from(np.ascontiguousarray(edge[:, each]), rows, key[rows])
    bests = np.stack([_references(prices[:, each, 0], lots[:, each, 0]) for each in (BUY, SELL)], axis=1)
    has_bid, has_ask = lots[:, 0, 0] > 0, lots[:, 1, 0] > 0
    bests[:, 1] = np.where(has_ask, bests[:, 1], np.maximum(bests[:, 1], bests[:, 0] + 1))
    bests[:, 0] = np.where(has_bid, bests[:, 0], np.minimum(bests[:, 0], bests[:, 1] - 1))
    code = (2 * what + side).astype(np.int8)
    arrays = (tape.time, code, key, tape.size, ref, seen, edge, prices, lots, bests)
    return File(*(np.ascontiguousarray(each) for each in arrays))


def _references(best: NDArray[np.int32], lots: NDArray[np.int32]) -> NDArray[np.int32]:
    """The best prices of a side; where it is empty the last one before, or else the first one after."""
    rows = np.flatnonzero(lots > 0)
    if not len(rows):
        return np.zeros_like(best)
    last = np.searchsorted(rows, np.arange(len(best)), side="right") - 1
    return best[rows[np.maximum(last, 0)]]


@jit
def in_view_from(edge: NDArray[np.int32], rows: NDArray[np.int64], keys: NDArray[np.int32]) -> NDArray[np.int32]:
    """From which row on the price of a message has been in view without a break.

    Args:
        edge: i4 (T,), the key of the worst level in view of a side.
        rows: i8 (M,), messages, in order.
        keys: i4 (M,), of their prices on that side.

    Returns:
        i4 (M,): the first row from which on, up to the one before the message, the edge was never better; the message's
        own where it was.
    """
    found = np.empty(len(rows), np.int32)
    # Rows whose edge is better than those of all rows after them.
    stack = np.empty(len(edge), np.int32)
    height, k = int64(0), int64(0)
    for m in range(len(rows)):
        while k < rows[m]:
            while height > 0 and edge[stack[height - 1]] <= edge[k]:
                height -= 1
            stack[height] = k
            height += 1
            k += 1
        low, high = int64(0), height  # how many of the stack are out of the way: those with an edge above the key
        while low < high:
            middle = (low + high) // 2
            if edge[stack[middle]] > keys[m]:
                low = middle + 1
            else:
                high = middle
        found[m] = stack[low - 1] + 1 if low > 0 else 0
    return found
