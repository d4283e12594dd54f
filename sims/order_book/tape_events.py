"""The messages of a file that is replayed, as row functions: what ``events`` is to a background."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int32, int64
from numpy.typing import NDArray

from sekai.kernels import jit, scratch
from sims.order_book.tape_book import (
    AHEAD,
    CODES,
    EXECUTION,
    FAR,
    HIDDEN,
    LEAVE,
    LOTS,
    NEVER,
    NEW,
    NOTHING,
    OUT,
    PRICE,
    RANK,
    SIDE,
    SINCE,
    UNKNOWN,
    File,
    TapeBook,
    TapeRules,
    displayed,
    fill_own,
    find_taken,
    forget_taken,
    key_of,
    look_row,
    next_own,
    note_taken,
    taken_of,
)

#: Nanoseconds of a second.
_SECOND = 1e9


class TapeClock(NamedTuple):
    """Where a row is in time.

    Attributes:
        time: Seconds since the reset.
        messages: Of the file since then.
        start: The time of the reset in the file, nanoseconds.
    """

    time: np.float64
    messages: np.int64
    start: np.int64


@jit(allocates=False)
def is_over(book: TapeBook, i: int) -> Any:
    """Whether no message is left."""
    return book.row[i] == len(book.file.time) - 1


@jit(inline=False, allocates=False)
def find_row(time: NDArray[np.int64], k: int, until: int) -> Any:
    """The last row from k on that is not later than a time; k if it is itself."""
    low, step = int64(k), int64(1)
    while low + step < len(time) and time[low + step] <= until:
        low += step
        step *= 2
    high = min(low + step, int64(len(time)))
    while high - low > 1:
        middle = (low + high) // 2
        if time[middle] <= until:
            low = middle
        else:
            high = middle
    return low


@jit(inline=False, allocates=False)
def watch(rules: TapeRules, book: TapeBook, i: int, least: Any, most: Any, view: Any) -> Any:
    """Which messages are to be met.

    Args:
        rules: Of the rows.
        book: Books.
        i: The row.
        least: i4 (CODES,), out: of the messages of a code those are met from this key on,
        most: i4 (CODES,), out: up to this one.
        view: i4 (4,), out: besides all after which the worst key in view of side 0 or 1 is above item 0 or 1, since one
            that mattered is out of view; or no more than item 2 or 3, since one is back.

    Returns:
        Whether there are any.
    """
    low, high, own = scratch(2, int32), scratch(2, int32), scratch(2, int32)
    for side in range(2):
        low[side], high[side], own[side] = FAR, -FAR, -FAR
        view[side], view[2 + side] = FAR, -FAR - 1
    is_watching = book.taken_count[i] > 0
    for slot in range(rules.slots):
        if book.own_price[i, slot] >= 0:
            side = book.own[i, slot, SIDE]
            key = key_of(side, book.own_price[i, slot])
            low[side], high[side], own[side] = min(low[side], key), max(high[side], key), max(own[side], key)
            if book.own[i, slot, OUT] == 1:
                view[2 + side] = max(view[2 + side], key)
            else:
                view[side] = min(view[side], key)
            is_watching = True
    for j in range(book.taken_count[i]):
        side = book.taken[i, j, SIDE]
        key = key_of(side, book.taken[i, j, PRICE])
        low[side], high[side] = min(low[side], key), max(high[side], key)
        if book.taken[i, j, OUT] == 1:
            view[2 + side] = max(view[2 + side], key)
        else:
            view[side] = min(view[side], key)
    for side in range(2):
        least[2 * NEW + side], most[2 * NEW + side] = -own[1 - side], FAR if own[1 - side] > -FAR else -FAR
        least[2 * LEAVE + side], most[2 * LEAVE + side] = low[side], high[side]
        for what in (EXECUTION, HIDDEN):
            least[2 * what + side], most[2 * what + side] = -FAR, high[side]
        least[2 * NOTHING + side], most[2 * NOTHING + side] = FAR, -FAR
    return is_watching


@jit(inline=False, allocates=False)
def meet_row(rules: TapeRules, book: TapeBook, i: int, k: int) -> None:
    """What message k does to own orders, and to what was taken.

    An own order is executed by an order of the other side that meets it; by an execution at a worse price; by one at
    its own price of an order that came after it, or if nobody is ahead; and by one of a hidden order at no better
    price.
    """
    file = book.file
    side, what = int64(file.code[k]) & 1, int64(file.code[k]) >> 1
    key, size, ref = int64(file.key[k]), int64(file.size[k]), int64(file.ref[k])
    price = key_of(side, key)
    # Executions, of the best own order first, and of no more lots than the message has.
    left, filled = size, int64(0)
    of, own_key, rank = side if what >= EXECUTION else 1 - side, int64(FAR), int64(-1)
    while what != LEAVE and what != NOTHING:
        slot = next_own(rules, book, i, of, own_key, rank)
        if slot < 0:
            break
        own_key, rank = key_of(of, book.own_price[i, slot]), book.own[i, slot, RANK]
        if what == NEW:
            fills = own_key >= -key
        elif what == HIDDEN:
            fills = own_key >= key
        else:
            is_first = ref >= book.own[i, slot, SINCE] or book.own[i, slot, AHEAD] <= 0
            fills = own_key > key or (own_key == key and is_first)
        if fills:
            book.own[i, slot, AHEAD] = 0
            lots = min(left, book.own[i, slot, LOTS])
            if lots > 0:
                fill_own(book, i, slot, lots)
                left, filled = left - lots, filled + lots
        elif own_key == key and what == EXECUTION:
            continue
        else:
            break
    if what == NEW and filled > 0:
        note_taken(rules, book, i, side, price, filled, k + 1)
    # Lots leave: first those that were taken, then those ahead.
    if what == LEAVE or what == EXECUTION:
        j = find_taken(book, i, side, price)
        if j >= 0 and leaves_before(file, k, what, book.taken[i, j, SINCE]):
            gone = book.taken[i, j, LOTS] if ref >= book.taken[i, j, SINCE] else min(size, book.taken[i, j, LOTS])
            book.taken[i, j, LOTS] -= gone
            if ref < book.taken[i, j, SINCE]:
                size -= gone
        for slot in range(rules.slots):
            if book.own_price[i, slot] == price and book.own[i, slot, SIDE] == side:
                ahead = book.own[i, slot, AHEAD]
                if ahead < UNKNOWN and leaves_before(file, k, what, book.own[i, slot, SINCE]):
                    book.own[i, slot, AHEAD] = max(ahead - size, 0)
    refresh(rules, book, i, k, side if what != HIDDEN and what != NOTHING else int64(-1), price)


@jit(allocates=False)
def leaves_before(file: File, k: int, what: int, since: int) -> Any:
    """Whether the lots that leave with message k were there before a message.

    What is executed was in front of all others. What is cancelled and has come while its price was out of view may not
    have been.
    """
    ref = file.ref[k]
    return what == EXECUTION or (ref < since and (ref >= 0 or file.seen[k] < since))


@jit(inline=False, allocates=False)
def refresh(rules: TapeRules, book: TapeBook, i: int, k: int, side: int, price: int) -> None:
    """No more was taken, and no more is ahead, than row k displays: at a price, and where it comes into view."""
    file = book.file
    j = int64(0)
    while j < book.taken_count[i]:
        of = int64(book.taken[i, j, SIDE])
        key = key_of(of, book.taken[i, j, PRICE])
        is_touched = of == side and book.taken[i, j, PRICE] == price
        if is_touched or book.taken[i, j, OUT] == 1 or key < file.edge[k, of]:
            there = displayed(file, k, of, key)
            book.taken[i, j, OUT] = int64(there < 0)
            if there >= 0:
                book.taken[i, j, LOTS] = min(book.taken[i, j, LOTS], there)
        if book.taken[i, j, LOTS] == 0:
            forget_taken(book, i, j)
        else:
            j += 1
    for slot in range(rules.slots):
        if book.own_price[i, slot] >= 0:
            of = int64(book.own[i, slot, SIDE])
            key = key_of(of, book.own_price[i, slot])
            is_touched = of == side and book.own_price[i, slot] == price
            if is_touched or book.own[i, slot, OUT] == 1 or key < file.edge[k, of]:
                there = displayed(file, k, of, key)
                book.own[i, slot, OUT] = int64(there < 0)
                if there >= 0:
                    there = max(there - taken_of(book, i, of, int64(book.own_price[i, slot])), 0)
                    book.own[i, slot, AHEAD] = min(book.own[i, slot, AHEAD], there)


@jit(inline=False, allocates=False)
def advance_row(rules: TapeRules, book: TapeBook, clock: TapeClock, i: int, until: float, most: int) -> None:
    """Apply the messages up to a time, or until so many have come; then it is that time.

    Args:
        rules: Of the rows.
        book: Books.
        clock: Their clocks.
        i: The row.
        until: Seconds since the reset; those that come at this very time are applied.
        most: Messages.
    """
    file = book.file
    began = book.row[i]
    stop = int64(NEVER)
    if until * _SECOND < float64(NEVER - clock.start[i]):
        stop = clock.start[i] + int64(np.round(until * _SECOND))
    last = find_row(file.time, began, stop)
    if last - began >= most:
        last = began + most
        clock.time[i] = float64(file.time[last] - clock.start[i]) / _SECOND
    elif stop < NEVER:
        clock.time[i] = until
    else:  # all there are
        clock.time[i] = float64(file.time[last] - clock.start[i]) / _SECOND
    clock.messages[i] += last - began
    least, greatest, view = scratch(CODES, int32), scratch(CODES, int32), scratch(4, int32)
    k = began + 1
    code, keys, edge = file.code, file.key, file.edge
    if watch(rules, book, i, least, greatest, view):
        while k <= last:
            of, key = int64(code[k]), keys[k]
            bid_edge, ask_edge = edge[k, 0], edge[k, 1]
            goes, comes = (view[0] < bid_edge) | (view[1] < ask_edge), (view[2] >= bid_edge) | (view[3] >= ask_edge)
            if ((key >= least[of]) & (key <= greatest[of])) | goes | comes:
                meet_row(rules, book, i, k)
                if not watch(rules, book, i, least, greatest, view):
                    break
            k += 1
    book.row[i] = last
    if last > began:
        look_row(rules, book, i)
