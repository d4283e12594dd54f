"""The background of a book, event by event, as row functions: Poisson and Hawkes flows of single orders.

Every event takes one block of random words: what kind it is, which distance or order, when, how many lots. The time of
the next event is worked out when the one before it is done, so that nothing depends on how time is cut into steps.

``flow`` is a ``flows.FlowTables``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, uint16, uint32, uint64

from sekai.kernels import jit, maths, prefetch, scratch, streams
from sekai.vector import column
from sims.order_book import log
from sims.order_book.book import (
    BUY,
    CAME,
    CANCELLED,
    EXECUTED,
    LEVEL,
    LOTS,
    MOST_LOTS,
    NEXT,
    PREVIOUS,
    SELL,
    WORDS,
    add_row,
    count_up,
    fill_hole,
    level_of,
    move_best,
    moves_freely,
    next_best,
    price_at,
    take_row,
    word,
)

#: Events whose words are drawn at once, at most, and of more than two in whole vectors: the rest of one would be drawn
#: one by one, which takes longer.
CHUNK, LANES = 64, 8
#: No time at all to stop at.
NEVER = 1e300
#: What is left to a slower function: an order joins a queue, orders are taken, a best moves away.
_ADD, _TAKE, _MOVE_BID, _MOVE_ASK = 1, 2, 3, 4


class Clock(NamedTuple):
    """When the background of a row acts.

    Attributes:
        time: Since the reset.
        due: The time of the next event.
        rate: Events per time by which that was worked out.
        messages: Events that changed the book.
        excitation: What past events add to the rates of the four kinds of orders, of a Hawkes flow, at a factor of 1.
        excited: The time for which that holds.
        scale: What the rates of a Hawkes flow have been multiplied by since then.
        pick: The word that says which order the next event cancels if it is a cancel, for ``prefetch_event``.
    """

    time: np.float64
    due: np.float64
    rate: np.float64
    messages: np.int64
    excitation: column(np.float64, 4)  # type: ignore[valid-type]
    excited: np.float64
    scale: np.float64
    pick: np.uint32


class Rates(NamedTuple):
    """The rates of a row, per time.

    Attributes:
        lam: Limit orders a side.
        mu: Market orders a side.
        theta: Cancels of each order, the greatest of all distances.
        scale: What the rates of a Hawkes flow are multiplied by.
    """

    lam: np.float64
    mu: np.float64
    theta: np.float64
    scale: np.float64


@jit(allocates=False)
def drawn_of(word: Any, bits: Any, accept: Any, drawn: Any) -> Any:
    """What a word draws by an alias table, i4; see ``flows.alias_table``."""
    slot = word >> uint32(32 - bits)
    # By its place, not by a branch, which the processor would guess wrong half of the time.
    return drawn[2 * slot + uint32(uint32(word << uint32(bits)) >= accept[slot])]


@jit(allocates=False)
def draw_words(random: Any, i: int, m: int, flow: Any, kind: Any, pick: Any, spare: Any, drawn: Any, wait: Any) -> None:
    """The words of the next ``m`` events, which leave the streams where they are.

    Args:
        random: The streams.
        i: The row.
        m: How many, at most ``CHUNK``.
        flow: The flow.
        kind: u4 (CHUNK,), out: what kind of event.
        pick: u4 (CHUNK,), out: which order.
        spare: u4 (CHUNK,), out: a word for its size, or for whether it happens; of flows that need it.
        drawn: i4 (CHUNK,), out: the distance of a limit order, ticks.
        wait: f4 (CHUNK,), out: standard exponential variates, the first of which is never read.
    """
    key, counter, third = random.key[i], random.counter[i], scratch(CHUNK, uint32)
    if flow.has_sizes or flow.by_distance:
        for j in range(m):
            kind[j], pick[j], third[j], spare[j] = streams.philox(key, counter + uint64(j))
    else:
        for j in range(m):
            kind[j], pick[j], third[j], _ = streams.philox(key, counter + uint64(j))
    alone = int64(m == 2)  # one event, and the wait after it: what else there is to be read is left out
    for j in range(alone, m):
        wait[j] = -maths.log(streams.uniform_of(third[j]))
    bits, accept, table = flow.offset_bits, flow.accept_offset, flow.drawn_offset
    for j in range(m - alone):
        drawn[j] = drawn_of(pick[j], bits, accept, table)


@jit(allocates=False)
def is_calm(nodes: Any, bid: Any, ask: Any, ring: Any) -> Any:
    """Whether orders rest on both sides."""
    bids, asks = nodes[word(level_of(bid, ring), LOTS)], nodes[word(level_of(ask, ring), LOTS)]
    return bids != 0 and asks != 0


@jit(allocates=False)
def begin_clock(book: Any, clock: Any, random: Any, i: int, flow: Any, rates: Any) -> None:
    """Start the clock of a row, whose book stands, at 0."""
    clock.time[i], clock.excited[i], clock.messages[i], clock.pick[i] = 0.0, 0.0, 0, 0
    clock.scale[i] = rates.scale
    for k in range(4):
        clock.excitation[i, k] = 0.0
    rate = rate_of(book, clock, i, flow, rates)
    _, _, third, _ = streams.philox(random.key[i], random.counter[i])
    clock.rate[i], clock.due[i] = rate, float64(-maths.log(streams.uniform_of(third))) / rate


@jit(allocates=False)
def prefetch_event(rules: Any, book: Any, clock: Any, i: int) -> None:
    """Ask for the memory of the order that the next event of a row cancels, if it is a cancel.

    Args:
        rules: Of the books.
        book: Books.
        clock: Their clocks.
        i: The row; nothing is done beyond the last one.
    """
    if i < len(book.bid):
        k = (uint64(clock.pick[i]) * uint64(book.count[i])) >> uint64(32)
        prefetch(book.nodes[i], WORDS * (rules.ring + rules.slots + int64(k)))


@jit(allocates=False)
def rate_of(book: Any, clock: Any, i: int, flow: Any, rates: Any) -> Any:
    """Events per time of a row; of a Hawkes flow at most that many, from the time for which the excitation holds."""
    orders = 2.0 * rates.lam + 2.0 * rates.mu
    if flow.excites:
        orders = 0.0
        for k in range(4):
            orders += rates.scale * (flow.base[k] + clock.excitation[i, k])
    return orders + rates.theta * book.count[i]


@jit(allocates=False)
def advance_row(
    rules: Any, book: Any, clock: Any, random: Any, i: int, flow: Any, rates: Any, until: float, most: int
) -> None:
    """Let the background act until a time, or until so many messages have come; then it is that time.

    Messages come to fewer where hardly any event changes the book any more.

    Args:
        rules: Of the books.
        book: Books.
        clock: Their clocks.
        random: The streams.
        i: The row.
        flow: The flow.
        rates: The rates of this row.
        until: Time since the reset; ``NEVER`` for none.
        most: Messages.
    """
    due, now, excited = clock.due[i], clock.time[i], clock.excited[i]
    rate = rate_of(book, clock, i, flow, rates)
    if rate != clock.rate[i]:
        # By an own order, or by other parameters; what is left of the wait is as long in its own time.
        due = now + (due - now) * clock.rate[i] / rate
    if flow.excites and rates.scale != clock.scale[i]:  # what has faded so far has
        excited = now + (excited - now) * clock.scale[i] / rates.scale
        clock.excited[i], clock.scale[i] = excited, rates.scale
    if due > until:
        clock.time[i], clock.due[i], clock.rate[i] = until if until < NEVER else now, due, rate
        return
    nodes, ring = book.nodes[i], rules.ring
    base, full, low, high = ring + rules.slots, rules.max_orders, rules.lowest_price, rules.highest_price
    kind, pick, spare = scratch(CHUNK, uint32), scratch(CHUNK, uint32), scratch(CHUNK, uint32)
    drawn, wait = scratch(CHUNK, int32), scratch(CHUNK, float32)
    bid, ask, n = int64(book.bid[i]), int64(book.ask[i]), int64(book.count[i])
    lam, limits = rates.lam, 2.0 * rates.lam
    sells, trades = limits + rates.mu, limits + 2.0 * rates.mu
    theta, scale, beta = rates.theta, rates.scale, flow.beta * rates.scale
    if flow.excites:
        e0, e1, e2, e3 = clock.excitation[i, 0], clock.excitation[i, 1], clock.excitation[i, 2], clock.excitation[i, 3]
        b0, b1, b2, b3 = (
            flow.base[0],
            flow.base[1],
            flow.base[2],
            flow.base[3],
        )
    began, done, told, traded, tries = n, 0, 0, 0, 0
    lots_in, lots_out = 0, 0
    patience = CHUNK * (min(most, 2**50) + CHUNK)
    while done + told < most and due <= until and tries < patience:
        m = int64(min(1.1 * (until - due) * rate + 4.0, float64(min(CHUNK - 1, most - done - told))))
        count = m + 1 if m == 1 else (m + LANES) & -LANES
        draw_words(random, i, count, flow, kind, pick, spare, drawn, wait)
        j, idle = 0, 0
        # Then neither a full pool nor an empty side has to be thought of.
        calm = is_calm(nodes, bid, ask, ring) and n + m <= full
        while j < m and due <= until:
            slow = 0
            while j < m and due <= until:
                log.set_time(rules, book, i, due)
                x = (float64(kind[uint64(j)]) + 0.5) * 2.0**-32 * rate
                if flow.excites:
                    fade = maths.exp(-beta * (due - excited))
                    excited = due
                    e0, e1, e2, e3 = e0 * fade, e1 * fade, e2 * fade, e3 * fade
                    lam = scale * (b0 + e0)
                    limits = lam + scale * (b1 + e1)
                    sells = limits + scale * (b2 + e2)
                    trades = sells + scale * (b3 + e3)
                    if x < trades:
                        of = int64(x >= lam) + int64(x >= limits) + int64(x >= sells)
                        e0 += flow.alpha[0, of]
                        e1 += flow.alpha[1, of]
                        e2 += flow.alpha[2, of]
                        e3 += flow.alpha[3, of]
                if x < limits:  # a limit order joins the end of its queue
                    sell = -int64(x >= lam)  # all bits set, or none: no branch to guess wrong
                    price, other = ask - int64(drawn[uint64(j)]), bid + int64(drawn[uint64(j)])
                    price ^= (price ^ other) & sell
                    lots = 1
                    if flow.has_sizes:
                        lots = int64(drawn_of(spare[uint64(j)], flow.size_bits, flow.accept_size, flow.drawn_size))
                    level, k = level_of(price, ring), base + n
                    there = nodes[word(level, LOTS)]
                    fits = (int64(there) + lots <= MOST_LOTS) & (price >= low) & (price <= high)
                    if not (calm & fits):
                        slow = _ADD
                        break
                    last = nodes[word(level, PREVIOUS)]
                    nodes[word(k, NEXT)], nodes[word(k, PREVIOUS)] = uint16(level), last
                    nodes[word(k, LEVEL)], nodes[word(k, LOTS)] = uint16(level), uint16(lots)
                    nodes[word(last, NEXT)] = nodes[word(level, PREVIOUS)] = uint16(k)
                    nodes[word(level, LOTS)] = uint16(int64(there) + lots)
                    log.write(rules, book, i, CAME, lots, k, -sell, price)
                    n += 1
                    if flow.has_sizes:
                        lots_in += lots
                    bid ^= (bid ^ price) & (-int64(price > bid) & ~sell)
                    ask ^= (ask ^ price) & (-int64(price < ask) & sell)
                else:
                    k = int64(0)
                    if x < trades:  # the first in the queue at a best goes
                        k = int64(nodes[word(level_of(bid if x < sells else ask, ring), NEXT)])
                        if k >= ring and (flow.has_sizes or k < base):
                            slow = _TAKE
                            break
                        traded += int64(k >= base)
                    elif not flow.excites or x < trades + theta * n:  # any one goes
                        k = base + int64((uint64(pick[uint64(j)]) * uint64(n)) >> uint64(32))
                        if flow.by_distance:
                            of = price_at(int64(nodes[word(k, LEVEL)]), bid, ring)
                            distance = min(max(ask - of, of - bid), len(flow.accept_cancel))
                            if uint64(spare[uint64(j)]) >= flow.accept_cancel[distance - 1]:
                                k = int64(0)
                    if k < base:
                        idle += 1
                    else:
                        after, before, level = nodes[word(k, NEXT)], nodes[word(k, PREVIOUS)], nodes[word(k, LEVEL)]
                        gone = int64(nodes[word(k, LOTS)])
                        log.write(rules, book, i, EXECUTED if x < trades else CANCELLED, gone, k, 0, 0)
                        left = int64(nodes[word(level, LOTS)]) - gone
                        nodes[word(before, NEXT)], nodes[word(after, PREVIOUS)] = after, before
                        nodes[word(level, LOTS)] = uint16(left)
                        n -= 1
                        fill_hole(nodes, k, base + n)
                        if flow.has_sizes:
                            lots_out += gone
                        if left == 0:
                            if level == level_of(bid, ring):
                                found = next_best(nodes, bid, -1, ring)
                                if not moves_freely(nodes, ask, bid, found, ring):
                                    slow = _MOVE_BID
                                    break
                                calm = calm and found != bid
                                bid = found
                            elif level == level_of(ask, ring):
                                found = next_best(nodes, ask, 1, ring)
                                if not moves_freely(nodes, bid, ask, found, ring):
                                    slow = _MOVE_ASK
                                    break
                                calm = calm and found != ask
                                ask = found
                if flow.excites:
                    trades = scale * (b0 + e0) + scale * (b1 + e1) + scale * (b2 + e2) + scale * (b3 + e3)
                rate = trades + theta * n
                j += 1
                now = due
                due += float64(wait[uint64(j)]) / rate
            if slow != 0:
                before_n = n
                book.bid[i], book.ask[i], book.count[i] = bid, ask, n
                if slow == _ADD:
                    idle += 1
                    told += add_row(rules, book, i, -sell, price, lots, -1)
                elif slow == _TAKE:
                    idle += 1
                    told += 1
                    wanted = 1
                    if flow.has_sizes:
                        wanted = int64(drawn_of(spare[uint64(j)], flow.size_bits, flow.accept_size, flow.drawn_size))
                    take_row(rules, book, i, BUY if x < sells else SELL, wanted, 0, False)
                else:
                    move_best(rules, book, i, BUY if slow == _MOVE_BID else SELL, found)
                bid, ask, n = int64(book.bid[i]), int64(book.ask[i]), int64(book.count[i])
                began += n - before_n
                calm = is_calm(nodes, bid, ask, ring) and n + m <= full
                if flow.excites:
                    trades = scale * (b0 + e0) + scale * (b1 + e1) + scale * (b2 + e2) + scale * (b3 + e3)
                rate = trades + theta * n
                j += 1
                now = due
                due += float64(wait[uint64(j)]) / rate
        random.counter[i] += uint64(j)
        clock.pick[i] = pick[uint64(j)]
        done += j - idle
        tries += j
    book.bid[i], book.ask[i], book.count[i] = bid, ask, n
    if flow.excites:
        clock.excitation[i, 0], clock.excitation[i, 1], clock.excitation[i, 2], clock.excitation[i, 3] = e0, e1, e2, e3
    if done + told < most and until < min(due, NEVER):
        now = until
    clock.time[i], clock.due[i], clock.rate[i], clock.excited[i] = now, due, rate, excited
    clock.messages[i] += done + told
    removed = (done - (n - began)) // 2
    if not flow.has_sizes:
        lots_in, lots_out = done - removed, removed
    count_up(book, i, CAME, done - removed, lots_in)
    count_up(book, i, EXECUTED, traded, traded)
    count_up(book, i, CANCELLED, removed - traded, lots_out - traded)
