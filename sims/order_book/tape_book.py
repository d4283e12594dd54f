"""The book of a file as it was, with an agent's orders in it, as row functions: what ``book`` is without a file.

All sub-envs share one ``File``; what a row has of its own is its place in the file, its own orders, and what it has
taken of the displayed lots. The file does not react to any of it. Messages that concern neither are passed over without
a look at the book; the others are met one by one.

Prices are ticks; a *key* is a price on a side so that the greater is the better: the price to buy, minus it to sell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int64
from numpy.typing import NDArray

from sekai.kernels import jit
from sekai.vector import column
from sims.order_book.book import BUY, CAME, CANCELLED, EVICTED, EXECUTED, OF_LOTS, ORDERS, REFUSED, count_up

#: What messages do; a message's code is twice that and the side of the resting order.
NEW, LEAVE, EXECUTION, HIDDEN, NOTHING = range(5)
CODES = 10
#: Beyond all keys; those of the tape are less than this away from 0.
FAR = 2**30
#: The lots ahead of an order whose price nobody has seen yet.
UNKNOWN = 2**40
#: No time at all to stop at, nanoseconds.
NEVER = 2**62
#: Of an own order, or of lots taken: ``BUY`` or ``SELL``; lots; the first message after it came, or they were taken;
#: whether the price is out of view.
SIDE, LOTS, SINCE, OUT = range(4)
#: Of an own order: lots of the file ahead of it, ``UNKNOWN`` as long as its price has not been in view; the how manieth
#: own order it was. Of lots taken: their price, ticks.
AHEAD, RANK, PRICE = 4, 5, 4
_WORDS = 6


class TapeRules(NamedTuple):
    """What a row has in a book that is replayed, a part of a market's ``Params`` called ``rules``.

    Attributes:
        slots: ``A``, own orders at most.
        most_taken: Levels at most of which it is known what was taken of them; more than twice those in view.
        self_trade: As of ``BookRules``.
        replays: That it is such a book; of ``BookRules`` False.
    """

    slots: int = 2
    most_taken: int = 32
    self_trade: str = "cancel_resting"
    replays: bool = True


class File(NamedTuple):
    """A tape as row functions read it; row k is what was after message k.

    Attributes:
        time: i8 (T,), nanoseconds.
        code: i1 (T,), twice what message k does, ``NEW`` to ``NOTHING``, and the side of its order.
        key: i4 (T,), the key of its price; of a hidden order that of the next worse tick that its execution reaches.
        size: i4 (T,).
        ref: i4 (T,), the message that submitted its order, -1 where that is unknown.
        seen: i4 (T,), the row from which its price has been in view without a break, k where it was not.
        edge: i4 (T, 2), the key of the worst level in view of each side; ``-FAR`` where all there is is in view.
        prices: i4 (T, 2, L), of the levels of each side, the best first.
        lots: i4 (T, 2, L), 0 where there is no such level.
        bests: i4 (T, 2), the best prices; where a side is empty what distances are counted from.
    """

    time: NDArray[np.int64]
    code: NDArray[np.int8]
    key: NDArray[np.int32]
    size: NDArray[np.int32]
    ref: NDArray[np.int32]
    seen: NDArray[np.int32]
    edge: NDArray[np.int32]
    prices: NDArray[np.int32]
    lots: NDArray[np.int32]
    bests: NDArray[np.int32]


class TapeOrders(NamedTuple):
    """What a row has of its own.

    Attributes:
        row: The last message that has been applied.
        bid: The best bid, with own orders and without what has been taken, ticks; the reference where nobody bids.
        ask: The best ask.
        own_price: Of each own order, ticks; -1 for none.
        own: Of each ``SIDE``, ``LOTS``, ``SINCE`` and so on.
        placed: Own orders placed so far.
        taken: Of each level of which something has been taken that the file still displays, likewise.
        taken_count: How many there are.
        fills: As of ``Book``.
        tallies: As of ``Book``, of own orders alone; lots of the file that were taken and have been forgotten, as too
            many levels are out of view, are evicted.
    """

    row: np.int64
    bid: np.int32
    ask: np.int32
    own_price: column(np.int32, "rules.slots")  # type: ignore[valid-type]
    own: column(np.int64, "rules.slots", _WORDS)  # type: ignore[valid-type]
    placed: np.int64
    taken: column(np.int64, "rules.most_taken", _WORDS)  # type: ignore[valid-type]
    taken_count: np.int64
    fills: column(np.int64, 2, 2)  # type: ignore[valid-type]
    tallies: column(np.int64, 5, 2)  # type: ignore[valid-type]


class TapeBook(NamedTuple):
    """The file, and the fields of ``TapeOrders``."""

    file: File
    row: NDArray[np.int64]
    bid: NDArray[np.int32]
    ask: NDArray[np.int32]
    own_price: NDArray[np.int32]
    own: NDArray[np.int64]
    placed: NDArray[np.int64]
    taken: NDArray[np.int64]
    taken_count: NDArray[np.int64]
    fills: NDArray[np.int64]
    tallies: NDArray[np.int64]


# -- parts ---------------------------------------------------------------------------------------------------


@jit(allocates=False)
def key_of(side: int, price: Any) -> Any:
    """A price as a key, i8; and a key as a price."""
    return int64(price) if side == BUY else -int64(price)


@jit(inline=False, allocates=False)
def displayed(file: File, k: int, side: int, key: int) -> Any:
    """Lots that row k of the file displays at a key; -1 where that is out of view."""
    for level in range(file.prices.shape[2]):
        here = key_of(side, file.prices[k, side, level])
        if key >= here:
            return int64(file.lots[k, side, level]) if key == here else int64(0)
    return int64(-1)


@jit(inline=False, allocates=False)
def find_taken(book: TapeBook, i: int, side: int, price: int) -> Any:
    """Where it is noted what was taken of a level, -1 for nowhere."""
    for j in range(book.taken_count[i]):
        if book.taken[i, j, PRICE] == price and book.taken[i, j, SIDE] == side:
            return int64(j)
    return int64(-1)


@jit(allocates=False)
def taken_of(book: TapeBook, i: int, side: int, price: int) -> Any:
    """Lots taken of a level that the file still displays."""
    j = find_taken(book, i, side, price)
    return book.taken[i, j, LOTS] if j >= 0 else int64(0)


@jit(inline=False, allocates=False)
def forget_taken(book: TapeBook, i: int, j: int) -> None:
    """Note no longer what was taken of a level; the last one moves to its place."""
    book.taken_count[i] -= 1
    last = book.taken_count[i]
    for word in range(_WORDS):
        book.taken[i, j, word] = book.taken[i, last, word]


@jit(inline=False, allocates=False)
def note_taken(rules: TapeRules, book: TapeBook, i: int, side: int, price: int, lots: int, since: int) -> None:
    """Lots of a level in view have been taken, before the message ``since``."""
    j = find_taken(book, i, side, price)
    if j < 0:
        if book.taken_count[i] == rules.most_taken:
            out = int64(-1)  # the oldest out of view, of which there are some, as there are fewer levels in view
            for one in range(rules.most_taken):
                is_older = out < 0 or book.taken[i, one, SINCE] < book.taken[i, out, SINCE]
                if book.taken[i, one, OUT] == 1 and is_older:
                    out = int64(one)
            count_up(book, i, EVICTED, 1, book.taken[i, out, LOTS])
            forget_taken(book, i, out)
        j = book.taken_count[i]
        book.taken_count[i] += 1
        book.taken[i, j, PRICE], book.taken[i, j, SIDE] = price, side
        book.taken[i, j, LOTS], book.taken[i, j, OUT] = 0, 0
    book.taken[i, j, LOTS] += lots
    book.taken[i, j, SINCE] = since


@jit(inline=False, allocates=False)
def next_own(rules: TapeRules, book: TapeBook, i: int, side: int, key: int, rank: int) -> Any:
    """The own order of a side that is the next to be executed after one of some key and rank; -1 for none."""
    found, best, first = int64(-1), int64(0), int64(0)
    for slot in range(rules.slots):
        if book.own_price[i, slot] >= 0 and book.own[i, slot, SIDE] == side:
            of, when = key_of(side, book.own_price[i, slot]), book.own[i, slot, RANK]
            is_after = of < key or (of == key and when > rank)
            if is_after and (found < 0 or of > best or (of == best and when < first)):
                found, best, first = int64(slot), of, when
    return found


@jit(inline=False, allocates=False)
def next_level(book: TapeBook, file: File, i: int, side: int, level: int) -> Any:
    """The next level in view, from one on, of which something is left; L for none."""
    k, levels = book.row[i], file.prices.shape[2]
    while level < levels and file.lots[k, side, level] <= taken_of(book, i, side, int64(file.prices[k, side, level])):
        level += 1
    return int64(level)


@jit(inline=False, allocates=False)
def fill_own(book: TapeBook, i: int, slot: int, lots: int) -> None:
    """Lots of an own order are executed, at its price."""
    side, price = book.own[i, slot, SIDE], int64(book.own_price[i, slot])
    book.own[i, slot, LOTS] -= lots
    count_up(book, i, EXECUTED, int64(book.own[i, slot, LOTS] == 0), lots)
    book.fills[i, side, 0] += lots
    book.fills[i, side, 1] += lots * price
    if book.own[i, slot, LOTS] == 0:
        book.own_price[i, slot] = -1


@jit(inline=False, allocates=False)
def look_row(rules: TapeRules, book: TapeBook, i: int) -> None:
    """Find the best prices.

    A level that comes back into view may have grown, and cross an own order of the other side: it fills that first.
    """
    file = book.file
    k, levels = book.row[i], file.prices.shape[2]
    while True:
        keys = (int64(-FAR), int64(-FAR))
        crossing, of, lots = int64(-1), 0, int64(0)
        for side in range(2):
            level, own = next_level(book, file, i, side, 0), next_own(rules, book, i, side, FAR, -1)
            key = key_of(side, file.prices[k, side, level]) if level < levels else int64(-FAR)
            against = next_own(rules, book, i, 1 - side, FAR, -1)
            if against >= 0 and level < levels and key + key_of(1 - side, book.own_price[i, against]) >= 0:
                price = int64(file.prices[k, side, level])
                crossing, of = against, side
                lots = file.lots[k, side, level] - taken_of(book, i, side, price)
                keys = (price, int64(0))
                break
            if own >= 0:
                key = max(key, key_of(side, book.own_price[i, own]))
            keys = (key, keys[1]) if side == BUY else (keys[0], key)
        if crossing < 0:
            break
        lots = min(lots, book.own[i, crossing, LOTS])
        fill_own(book, i, crossing, lots)
        note_taken(rules, book, i, of, keys[0], lots, k + 1)
    has_bid, has_ask = keys[0] > -FAR, keys[1] > -FAR
    if has_bid:
        book.bid[i] = keys[0]
    if has_ask:
        book.ask[i] = -keys[1]
    if has_bid and not has_ask:
        book.ask[i] = max(book.ask[i], book.bid[i] + 1)
    if has_ask and not has_bid:
        book.bid[i] = min(book.bid[i], book.ask[i] - 1)


# -- operations: those of ``book`` ---------------------------------------------------------------------------


@jit(inline=False, allocates=False)
def clear_row(rules: TapeRules, book: TapeBook, i: int, k: int) -> None:
    """The book after message k, with nothing of one's own."""
    book.row[i], book.placed[i], book.taken_count[i] = k, 0, 0
    for slot in range(rules.slots):
        book.own_price[i, slot] = -1
        for word in range(_WORDS):
            book.own[i, slot, word] = 0
    for j in range(rules.most_taken):
        for word in range(_WORDS):
            book.taken[i, j, word] = 0
    for side in range(2):
        book.fills[i, side, 0] = book.fills[i, side, 1] = 0
    for what in range(5):
        book.tallies[i, what, ORDERS] = book.tallies[i, what, OF_LOTS] = 0
    book.bid[i], book.ask[i] = book.file.bests[k, 0], book.file.bests[k, 1]


@jit(inline=False, allocates=False)
def take_row(rules: TapeRules, book: TapeBook, i: int, side: int, lots: int, worst: int) -> Any:
    """Take displayed lots for an own order, best price first, as far as there are any in view; see ``book.take_row``.

    Args:
        rules: Of the rows.
        book: Books.
        i: The row.
        side: Of the lots: ``BUY`` for an incoming order that sells.
        lots: Of the incoming order.
        worst: The price beyond which nothing is taken, ticks; 0 for none.

    Returns:
        Lots taken, their prices times lots in ticks, and the lots of the incoming order that are left.
    """
    file = book.file
    k, levels, level = book.row[i], file.prices.shape[2], int64(0)
    taken, value, left = int64(0), int64(0), int64(lots)
    while left > 0:
        level, own = next_level(book, file, i, side, level), next_own(rules, book, i, side, FAR, -1)
        if level == levels and own < 0:
            break
        key = key_of(side, file.prices[k, side, level]) if level < levels else int64(-FAR)
        own_key = key_of(side, book.own_price[i, own]) if own >= 0 else int64(-FAR)
        is_own = own_key > key or (own_key == key and book.own[i, own, AHEAD] <= 0)
        price = key_of(side, own_key if is_own else key)
        if worst > 0 and (price < worst if side == BUY else price > worst):
            break
        if is_own:
            if rules.self_trade == "cancel_incoming":
                left = int64(0)
                break
            count_up(book, i, CANCELLED, 1, book.own[i, own, LOTS])
            book.own_price[i, own] = -1
        else:
            amount = min(left, file.lots[k, side, level] - taken_of(book, i, side, price))
            if own_key == key:
                amount = min(amount, book.own[i, own, AHEAD])
            note_taken(rules, book, i, side, price, amount, k + 1)
            for slot in range(rules.slots):
                if book.own_price[i, slot] == price and book.own[i, slot, SIDE] == side:
                    book.own[i, slot, AHEAD] -= amount
            taken, value, left = taken + amount, value + amount * price, left - amount
        if side == BUY:  # the reference, if nobody is left
            book.bid[i] = price
        else:
            book.ask[i] = price
    look_row(rules, book, i)
    return taken, value, left


@jit(inline=False, allocates=False)
def place_row(rules: TapeRules, book: TapeBook, i: int, slot: int, side: int, price: int, lots: int) -> Any:
    """An own limit order, in a free slot: what crosses takes displayed lots up to its price, what is left of it rests.

    It is refused where that is beyond all that is in view of the other side, as nobody knows whom it meets there.
    See ``book.place_row``.
    """
    file, other = book.file, 1 - side
    taken, value, left = int64(0), int64(0), int64(lots)
    if price >= book.ask[i] if side == BUY else price <= book.bid[i]:
        taken, value, left = take_row(rules, book, i, other, lots, price)
    if left > 0:
        k, key = book.row[i], key_of(side, price)
        count_up(book, i, CAME, 1, left)
        if key_of(other, price) < file.edge[k, other] or not 1 <= price < FAR:
            count_up(book, i, REFUSED, 1, left)
        else:
            there = displayed(file, k, side, key)
            book.own_price[i, slot], book.own[i, slot, SIDE], book.own[i, slot, LOTS] = price, side, left
            book.own[i, slot, SINCE], book.own[i, slot, RANK] = k + 1, book.placed[i]
            book.own[i, slot, OUT] = int64(there < 0)
            book.own[i, slot, AHEAD] = UNKNOWN if there < 0 else max(there - taken_of(book, i, side, price), 0)
            book.placed[i] += 1
            look_row(rules, book, i)
    return taken, value


@jit(inline=False, allocates=False)
def cancel_row(rules: TapeRules, book: TapeBook, i: int, slot: int, lots: int) -> None:
    """Cancel lots of an own order, all of them with as many as it has; nothing of a free slot."""
    if book.own_price[i, slot] >= 0:
        gone = min(lots, book.own[i, slot, LOTS])
        book.own[i, slot, LOTS] -= gone
        count_up(book, i, CANCELLED, int64(book.own[i, slot, LOTS] == 0), gone)
        if book.own[i, slot, LOTS] == 0:
            book.own_price[i, slot] = -1
        look_row(rules, book, i)


@jit(allocates=False)
def own_lots(book: TapeBook, i: int, slot: int) -> Any:
    """Lots of the own order in a slot: i8, 0 for none."""
    return book.own[i, slot, LOTS] if book.own_price[i, slot] >= 0 else int64(0)


@jit(allocates=False)
def own_side(book: TapeBook, i: int, slot: int) -> Any:
    """The side of the own order in a slot: ``BUY`` or ``SELL``; -1 for none."""
    return int64(book.own[i, slot, SIDE]) if book.own_price[i, slot] >= 0 else int64(-1)


@jit(inline=False, allocates=False)
def replace_row(rules: TapeRules, book: TapeBook, i: int, slot: int, side: int, price: int, lots: int) -> Any:
    """Make the own order in a slot another one: of fewer lots it keeps its place; see ``book.replace_row``."""
    resting = own_lots(book, i, slot)
    if resting >= lots > 0 and book.own_price[i, slot] == price and book.own[i, slot, SIDE] == side:
        if lots < resting:
            cancel_row(rules, book, i, slot, resting - lots)
        return int64(0), int64(0)
    if resting > 0:
        cancel_row(rules, book, i, slot, resting)
    if lots > 0:
        return place_row(rules, book, i, slot, side, price, lots)
    return int64(0), int64(0)


@jit(inline=False, allocates=False)
def own_lots_at(rules: TapeRules, book: TapeBook, i: int, side: int, price: int, before: int) -> Any:
    """Lots of own orders at a price that were placed before one of a rank."""
    lots = int64(0)
    for slot in range(rules.slots):
        is_there = book.own_price[i, slot] == price and book.own[i, slot, SIDE] == side
        if is_there and book.own[i, slot, RANK] < before:
            lots += book.own[i, slot, LOTS]
    return lots


@jit(allocates=False)
def queue_ahead(rules: TapeRules, book: TapeBook, i: int, slot: int) -> Any:
    """Lots before the own order in a slot, in its queue: i8; -1 as long as its price has not been in view."""
    if book.own[i, slot, AHEAD] >= UNKNOWN:
        return int64(-1)
    side, price = int64(book.own[i, slot, SIDE]), int64(book.own_price[i, slot])
    return book.own[i, slot, AHEAD] + own_lots_at(rules, book, i, side, price, book.own[i, slot, RANK])


@jit(inline=False, allocates=False)
def lots_at(rules: TapeRules, book: TapeBook, i: int, side: int, price: int) -> Any:
    """Lots at a price of a side, own ones included and without those taken: i8; 0 out of view."""
    there = max(displayed(book.file, book.row[i], side, key_of(side, price)) - taken_of(book, i, side, price), 0)
    return there + own_lots_at(rules, book, i, side, price, int64(NEVER))


@jit(inline=False, allocates=False)
def list_levels(params: Any, book: TapeBook, i: int, side: int, observation: Any, at: int) -> Any:
    """Write the levels of a side, as ``views.list_levels`` does: how many there are."""
    file, rules, depth = book.file, params.rules, params.depth
    bid, ask = int64(book.bid[i]), int64(book.ask[i])
    best, other = key_of(side, bid if side == BUY else ask), key_of(side, ask if side == BUY else bid)
    if params.levels == "ticks":
        for away in range(depth):
            observation[at + away] = float32(ask - bid + away)
            observation[at + depth + away] = float32(lots_at(rules, book, i, side, key_of(side, best - away)))
        return int64(depth)
    k, levels, level = book.row[i], file.prices.shape[2], int64(0)
    found, own = int64(0), next_own(rules, book, i, side, FAR, -1)
    while found < depth:
        level = next_level(book, file, i, side, level)
        if level == levels and own < 0:
            break
        key = key_of(side, file.prices[k, side, level]) if level < levels else int64(-FAR)
        own_key = key_of(side, book.own_price[i, own]) if own >= 0 else int64(-FAR)
        if own_key < key:
            lots = file.lots[k, side, level] - taken_of(book, i, side, key_of(side, key))
        else:
            key = own_key
            lots = lots_at(rules, book, i, side, key_of(side, key))
            own = next_own(rules, book, i, side, key, NEVER)  # at another price
        if level < levels and key == key_of(side, file.prices[k, side, level]):
            level += 1
        observation[at + found], observation[at + depth + found] = float32(other - key), float32(lots)
        found += 1
    return found
