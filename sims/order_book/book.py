"""An order book with exact queues, as row functions that any market can use.

``Book`` is a part of such a market's ``State``, ``BookRules`` one of its ``Params``, called ``rules``.

Prices are integer ticks. Every price has a FIFO queue of individual orders: those of the background, and up to A own
ones in slots. The best bid is always below the best ask. A side without orders keeps its last best price, as the
reference that distances from it are counted from.

Nodes, all in one array of u2, are four words each: next, previous, level, lots. First come the W levels, each the head
of a circular list, its lots those of the whole queue; then the A own orders; then those of the background, without
holes: the last one moves to where one goes. So the order to be cancelled, any of them, is found by its number. The
level of a price is ``price & (W - 1)``: all orders stay less than W/2 ticks away from the opposite best, and are
evicted where it moves away from them. What does not fit is refused. Both are counted; nothing is ever overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import int64, uint16, uint64

from sekai.kernels import jit, prefetch
from sekai.vector import column
from sims.order_book import log

#: The lots of a level at most, which are counted in 16 bits.
MOST_LOTS = 65_535
#: The price limits of books that have none of their own, ticks.
ANY_PRICE = (1, 2**30)
#: Nodes at most, which are numbered in 16 bits.
MOST_NODES = 65_536
#: Words of a node, and where its parts are.
WORDS = 4
NEXT, PREVIOUS, LEVEL, LOTS = 0, 1, 2, 3
#: Nodes of a cache line of 64 bytes.
LINE = 8

BUY, SELL = 0, 1
#: What became of orders, and whether it is they or their lots that are counted.
CAME, EXECUTED, CANCELLED, REFUSED, EVICTED = range(5)
ORDERS, OF_LOTS = 0, 1


class BookRules(NamedTuple):
    """What a book holds and what it refuses, a part of a market's ``Params`` called ``rules``.

    Attributes:
        max_orders: ``M``, background orders at most.
        ring: ``W``, prices that orders may lie on at a time, a power of two.
        slots: ``A``, own orders at most.
        lowest_price: Below it no order may rest, ticks; at least 1.
        highest_price: Above it no order may rest, ticks; at most 2**30.
        self_trade: What happens where an own order meets another one: "cancel_resting", or "cancel_incoming".
        record_messages: Changes of the book in an episode that are kept in its log, at most; 0 for no log.
        replays: Whether it is the book of a file: not this one, but that of a ``ReplayVecEnv``.
    """

    max_orders: int = 1024
    ring: int = 256
    slots: int = 2
    lowest_price: int = ANY_PRICE[0]
    highest_price: int = ANY_PRICE[1]
    self_trade: str = "cancel_resting"
    record_messages: int = 0
    replays: bool = False


def count_words(params: Any) -> int:
    """Words of all nodes of a book."""
    return WORDS * (params.rules.ring + params.rules.slots + params.rules.max_orders)


class Book(NamedTuple):
    """A book in each row.

    Attributes:
        nodes: The orders, see this module.
        bid: The best bid, ticks; the reference where nobody bids.
        ask: The best ask, ticks; the reference where nobody asks.
        count: Background orders.
        own_price: The price of each own order, ticks; -1 for none.
        fills: Of own resting orders that were executed, by side (``BUY``, ``SELL``): lots, and prices times lots in
            ticks.
        tallies: What became of orders, by ``CAME`` to ``EVICTED``, and of their lots. Those that came rest, or were
            refused since they did not fit, or executed, cancelled, or evicted since the best moved too far away; an
            order counts when its last lot goes.
        log: What has happened since ``begin_log``, see ``log``.
    """

    nodes: column(np.uint16, count_words)  # type: ignore[valid-type]
    bid: np.int32
    ask: np.int32
    count: np.int32
    own_price: column(np.int32, "rules.slots")  # type: ignore[valid-type]
    fills: column(np.int64, 2, 2)  # type: ignore[valid-type]
    tallies: column(np.int64, 5, 2)  # type: ignore[valid-type]
    log: column(np.float64, log.count_entries, log.PARTS)  # type: ignore[valid-type]


# -- parts ---------------------------------------------------------------------------------------------------


@jit(allocates=False)
def level_of(price: Any, ring: Any) -> Any:
    """The node of the level of a price."""
    return price & (ring - 1)


@jit(allocates=False)
def word(node: Any, part: int) -> Any:
    """Where a part of a node is: u8, since an index below 0 would be looked at twice."""
    return uint64(WORDS * int64(node) + part)


@jit(allocates=False)
def lots_at(book: Any, i: int, price: Any, ring: Any) -> Any:
    """Lots that rest at a price within the ring: i8."""
    return int64(book.nodes[i, word(level_of(price, ring), LOTS)])


@jit(allocates=False)
def price_at(level: Any, bid: Any, ring: Any) -> Any:
    """The price of a level on which orders rest."""
    half = ring // 2
    return bid + ((level - bid + half - 1) & (ring - 1)) - (half - 1)


@jit(allocates=False)
def clear_row(rules: BookRules, book: Any, i: int, bid: int, ask: int) -> None:
    """An empty book with the two references."""
    ring, nodes = rules.ring, book.nodes[i]
    for level in range(ring):
        nodes[word(level, NEXT)] = nodes[word(level, PREVIOUS)] = nodes[word(level, LEVEL)] = uint16(level)
        nodes[word(level, LOTS)] = 0
    for slot in range(rules.slots):
        book.own_price[i, slot] = -1
    book.bid[i], book.ask[i], book.count[i] = bid, ask, 0
    clear_tallies(book, i)
    log.set_room(rules, book, i, 0)


@jit(allocates=False)
def clear_tallies(book: Any, i: int) -> None:
    """Nothing counted yet."""
    for what in range(5):
        book.tallies[i, what, ORDERS] = book.tallies[i, what, OF_LOTS] = 0
    for side in range(2):
        book.fills[i, side, 0] = book.fills[i, side, 1] = 0


@jit(allocates=False)
def begin_log(rules: BookRules, book: Any, i: int) -> None:
    """Begin the log of a row at time 0, with the orders that rest: by price, and at each as they came."""
    if rules.record_messages > 0:
        nodes, ring, half = book.nodes[i], rules.ring, rules.ring // 2
        bid, ask = int64(book.bid[i]), int64(book.ask[i])
        log.set_room(rules, book, i, rules.slots + rules.max_orders)
        for price in range(ask - half + 1, bid + half):
            k = int64(nodes[word(level_of(price, ring), NEXT)])
            while k >= ring:
                log.write(rules, book, i, CAME, int64(nodes[word(k, LOTS)]), k, BUY if price <= bid else SELL, price)
                k = int64(nodes[word(k, NEXT)])
        book.log[i, 0, log.LAST] = book.log[i, 0, log.COUNT] + rules.record_messages


@jit(allocates=False)
def count_up(book: Any, i: int, what: int, orders: int, lots: int) -> None:
    """Count orders and lots."""
    book.tallies[i, what, ORDERS] += orders
    book.tallies[i, what, OF_LOTS] += lots


@jit(allocates=False)
def unlink(nodes: Any, k: Any) -> None:
    """Take a node out of the queue it is in; the lots of its level are somebody else's."""
    after, before = nodes[word(k, NEXT)], nodes[word(k, PREVIOUS)]
    nodes[word(before, NEXT)] = after
    nodes[word(after, PREVIOUS)] = before


@jit(allocates=False)
def fill_hole(nodes: Any, k: Any, last: Any) -> None:
    """Move the last background order to where one has gone."""
    if k != last:
        after, before = nodes[word(last, NEXT)], nodes[word(last, PREVIOUS)]
        nodes[word(k, NEXT)], nodes[word(k, PREVIOUS)] = after, before
        nodes[word(k, LEVEL)], nodes[word(k, LOTS)] = nodes[word(last, LEVEL)], nodes[word(last, LOTS)]
        nodes[word(before, NEXT)] = nodes[word(after, PREVIOUS)] = uint16(k)


@jit(allocates=False)
def next_best(nodes: Any, price: Any, direction: Any, ring: Any) -> Any:
    """The nearest price with orders below (-1) or above (1) another; that itself if there is none."""
    for k in range(1, ring // 2):
        if nodes[word(level_of(price + direction * k, ring), LOTS)]:
            return price + direction * k
    return price


@jit(allocates=False)
def moves_freely(nodes: Any, other: Any, before: Any, now: Any, ring: Any) -> Any:
    """Whether nothing is half a ring away from a best that moves away from the other one.

    Args:
        nodes: Of a row.
        other: The other best.
        before: The best.
        now: What it becomes.
        ring: ``W``.
    """
    half = ring // 2
    if abs(now - other) >= half:
        return False
    low, high = (now + half, before + half) if now < before else (before - half + 1, now - half + 1)
    for price in range(low, high):
        if nodes[word(level_of(price, ring), LOTS)]:
            return False
    return True


@jit(allocates=False)
def prefetch_row(rules: BookRules, book: Any, i: int) -> None:
    """Ask for the memory that a step of a row reads first: levels about the bests, own orders, the end of the pool.

    Args:
        rules: Of the books.
        book: Books.
        i: The row; nothing is done beyond the last one.
    """
    if i < len(book.bid):
        nodes, ring = book.nodes[i], rules.ring
        for away in range(-2 * LINE, 3 * LINE, LINE):
            prefetch(nodes, WORDS * level_of(int64(book.bid[i]) - away, ring))
        prefetch(nodes, WORDS * ring)
        prefetch(nodes, WORDS * (ring + rules.slots + int64(book.count[i])))


# -- operations ----------------------------------------------------------------------------------------------


@jit(inline=False, allocates=False)
def add_row(rules: BookRules, book: Any, i: int, side: int, price: int, lots: int, slot: int) -> bool:
    """An order that does not cross joins the end of its queue.

    Args:
        rules: Of the books.
        book: Books.
        i: The row.
        side: ``BUY`` or ``SELL``.
        price: Ticks, less than W/2 away from the opposite best.
        lots: At least 1.
        slot: Of an own order, which is free; -1 for one of the background.

    Returns:
        Whether it rests; else it did not fit.
    """
    nodes, ring = book.nodes[i], rules.ring
    count_up(book, i, CAME, 1, lots)
    level = level_of(price, ring)
    held = int64(nodes[word(level, LOTS)])
    bid, ask = int64(book.bid[i]), int64(book.ask[i])
    away = ask - price if side == BUY else price - bid
    fits = held + lots <= MOST_LOTS and rules.lowest_price <= price <= rules.highest_price and abs(away) < ring // 2
    if not fits or (slot < 0 and book.count[i] >= rules.max_orders):
        count_up(book, i, REFUSED, 1, lots)
        return False
    if slot < 0:
        k = ring + rules.slots + book.count[i]
        book.count[i] += 1
    else:
        k = ring + slot
        book.own_price[i, slot] = price
    no_bid, no_ask = lots_at(book, i, bid, ring) == 0, lots_at(book, i, ask, ring) == 0
    last = int64(nodes[word(level, PREVIOUS)])
    nodes[word(k, NEXT)], nodes[word(k, PREVIOUS)] = uint16(level), uint16(last)
    nodes[word(k, LEVEL)], nodes[word(k, LOTS)] = uint16(level), uint16(lots)
    nodes[word(last, NEXT)] = nodes[word(level, PREVIOUS)] = uint16(k)
    nodes[word(level, LOTS)] = uint16(held + lots)
    log.write(rules, book, i, CAME, lots, k, side, price)
    # A reference, where nobody is, gives way to an own order.
    if side == BUY:
        if no_bid or price > bid:
            move_best(rules, book, i, BUY, price)
        if no_ask and price >= ask:
            move_best(rules, book, i, SELL, price + 1)
    else:
        if no_ask or price < ask:
            move_best(rules, book, i, SELL, price)
        if no_bid and price <= bid:
            move_best(rules, book, i, BUY, price - 1)
    return True


@jit(allocates=False)
def drop(rules: BookRules, book: Any, i: int, what: int, k: int, lots: int) -> None:
    """Some lots of an order go, and are counted; with the last one the order does. The bests are somebody else's."""
    nodes, base = book.nodes[i], rules.ring + rules.slots
    count_up(book, i, what, int64(lots == nodes[word(k, LOTS)]), lots)
    log.write(rules, book, i, what, lots, k, 0, 0)
    level = int64(nodes[word(k, LEVEL)])
    nodes[word(level, LOTS)] -= uint16(lots)
    nodes[word(k, LOTS)] -= uint16(lots)
    if nodes[word(k, LOTS)] == 0:
        unlink(nodes, k)
        if k >= base:
            book.count[i] -= 1
            fill_hole(nodes, k, base + int64(book.count[i]))
        else:
            book.own_price[i, k - rules.ring] = -1


@jit(allocates=False)
def renew_best(rules: BookRules, book: Any, i: int, side: int) -> None:
    """Find the next best of a side, if the last order at its best has gone."""
    nodes, ring = book.nodes[i], rules.ring
    best = int64(book.bid[i]) if side == BUY else int64(book.ask[i])
    if nodes[word(level_of(best, ring), LOTS)] == 0:
        move_best(rules, book, i, side, next_best(nodes, best, -1 if side == BUY else 1, ring))


@jit(inline=False, allocates=False)
def move_best(rules: BookRules, book: Any, i: int, side: int, price: int) -> None:
    """Set a best; where it moves away from the other side, evict what is half a ring from it, the nearest first.

    Where that leaves nobody on the other side, or nobody was there, its reference is the farthest price that is not.
    """
    nodes, half = book.nodes[i], rules.ring // 2
    before = int64(book.bid[i]) if side == BUY else int64(book.ask[i])
    away = before - price if side == BUY else price - before
    if side == BUY:
        book.bid[i] = price
    else:
        book.ask[i] = price
    for step in range(away):
        level = level_of(price + half + step if side == BUY else price - half - step, rules.ring)
        while nodes[word(level, LOTS)]:
            k = int64(nodes[word(level, NEXT)])
            drop(rules, book, i, EVICTED, k, int64(nodes[word(k, LOTS)]))
    if side == BUY:
        book.ask[i] = min(int64(book.ask[i]), price + half - 1)
    else:
        book.bid[i] = max(int64(book.bid[i]), price - half + 1)


@jit(inline=False, allocates=False)
def take_row(rules: BookRules, book: Any, i: int, side: int, lots: int, worst: int, is_own: bool) -> Any:
    """Execute resting orders, best price first, at each price in the order in which they came.

    Args:
        rules: Of the books.
        book: Books.
        i: The row.
        side: Of the orders that rest: ``BUY`` for an incoming order that sells.
        lots: Of the incoming order.
        worst: The price beyond which nothing is taken, ticks; 0 for none.
        is_own: Whether the incoming order is an own one; it does not trade with own ones.

    Returns:
        Lots taken, their prices times lots in ticks, and the lots of the incoming order that are left.
    """
    nodes, ring = book.nodes[i], rules.ring
    taken, value, left = 0, 0, lots
    while left > 0:
        best = int64(book.bid[i]) if side == BUY else int64(book.ask[i])
        level = level_of(best, ring)
        is_beyond = worst > 0 and (best < worst if side == BUY else best > worst)
        if is_beyond or nodes[word(level, LOTS)] == 0:
            break
        k = int64(nodes[word(level, NEXT)])
        resting = int64(nodes[word(k, LOTS)])
        rests_own = k < ring + rules.slots
        if rests_own and is_own:
            if rules.self_trade == "cancel_incoming":
                left = 0
                break
            drop(rules, book, i, CANCELLED, k, resting)
        else:
            amount = min(left, resting)
            if rests_own:
                book.fills[i, side, 0] += amount
                book.fills[i, side, 1] += amount * best
            taken, value, left = taken + amount, value + amount * best, left - amount
            drop(rules, book, i, EXECUTED, k, amount)
        renew_best(rules, book, i, side)
    return taken, value, left


@jit(inline=False, allocates=False)
def place_row(rules: BookRules, book: Any, i: int, slot: int, side: int, price: int, lots: int) -> Any:
    """An own limit order, in a free slot: what crosses is executed up to its price, what is left rests.

    Args:
        rules: Of the books.
        book: Books.
        i: The row.
        slot: The slot.
        side: ``BUY`` or ``SELL``.
        price: Ticks.
        lots: At least 1.

    Returns:
        Lots taken at once, and their prices times lots in ticks.
    """
    taken, value, left = 0, 0, lots
    if price >= book.ask[i] if side == BUY else price <= book.bid[i]:
        taken, value, left = take_row(rules, book, i, SELL if side == BUY else BUY, lots, price, True)
    if left > 0:
        add_row(rules, book, i, side, price, left, slot)
    return taken, value


@jit(inline=False, allocates=False)
def cancel_row(rules: BookRules, book: Any, i: int, slot: int, lots: int) -> None:
    """Cancel lots of an own order, all of them with as many as it has; nothing of a free slot.

    Args:
        rules: Of the books.
        book: Books.
        i: The row.
        slot: The slot.
        lots: How many.
    """
    price = int64(book.own_price[i, slot])
    if price >= 0:
        k = rules.ring + slot
        side = BUY if price <= book.bid[i] else SELL
        drop(rules, book, i, CANCELLED, k, min(lots, int64(book.nodes[i, word(k, LOTS)])))
        renew_best(rules, book, i, side)


@jit(allocates=False)
def own_lots(rules: BookRules, book: Any, i: int, slot: int) -> Any:
    """Lots of the own order in a slot: i8, 0 for none."""
    return int64(book.nodes[i, word(rules.ring + slot, LOTS)]) if book.own_price[i, slot] >= 0 else 0


@jit(allocates=False)
def own_side(book: Any, i: int, slot: int) -> Any:
    """The side of the own order in a slot: ``BUY`` or ``SELL``; -1 for none."""
    price = book.own_price[i, slot]
    return -1 if price < 0 else BUY if price <= book.bid[i] else SELL


@jit(allocates=False)
def replace_row(rules: BookRules, book: Any, i: int, slot: int, side: int, price: int, lots: int) -> Any:
    """Make the own order in a slot another one: of fewer lots it keeps its place, else it goes to the end of a queue.

    Args:
        rules: Of the books.
        book: Books.
        i: The row.
        slot: The slot, free or not.
        side: ``BUY`` or ``SELL``.
        price: Ticks.
        lots: 0 for none.

    Returns:
        Lots taken at once, and their prices times lots in ticks.
    """
    resting = own_lots(rules, book, i, slot)
    keeps = resting >= lots > 0 and book.own_price[i, slot] == price and own_side(book, i, slot) == side
    if keeps:
        if lots < resting:
            cancel_row(rules, book, i, slot, resting - lots)
        return 0, 0
    if resting > 0:
        cancel_row(rules, book, i, slot, resting)
    if lots > 0:
        return place_row(rules, book, i, slot, side, price, lots)
    return 0, 0


@jit(allocates=False)
def queue_ahead(rules: BookRules, book: Any, i: int, slot: int) -> Any:
    """Lots before the own order in a slot, in its queue: i8."""
    nodes, ring = book.nodes[i], rules.ring
    ahead = 0
    k = int64(nodes[word(ring + slot, PREVIOUS)])
    while k >= ring:
        ahead += int64(nodes[word(k, LOTS)])
        k = int64(nodes[word(k, PREVIOUS)])
    return ahead
