"""An agent's account and its orders under way, as row functions: what any market with a book needs of them.

Prices of a book are ticks; an account is in money, a tick being ``tick`` of it, as it was when the episode began.
``account`` is a market's state, which has a column for each of its numbers: see ``market.State``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int64, uint64

from sekai.kernels import jit, maths, streams
from sekai.vector import column
from sims.order_book.book import BUY, SELL
from sims.order_book.venue import own_lots, own_side, replace_row, take_row

#: What an action under way is kept as, numbers.
ACTION = 4


class Pending(NamedTuple):
    """Actions that have been sent and have not arrived, in order, in a ring.

    Attributes:
        arrives: When each arrives, time since the reset.
        action: What it is.
        first: The place of the next one to arrive.
        count: How many there are.
        last: When the last one that was sent arrives.
        drawn: How many latencies have been drawn in this episode.
        upper: The upper half of the counter of the blocks that they are drawn from.
    """

    arrives: column(np.float64, "max_pending")  # type: ignore[valid-type]
    action: column(np.float64, "max_pending", ACTION)  # type: ignore[valid-type]
    first: np.int64
    count: np.int64
    last: np.float64
    drawn: np.uint64
    upper: np.uint64


@jit(allocates=False)
def open_account(account: Any, i: int, inventory: int) -> None:
    """Begin with no cash and some lots."""
    account.cash[i], account.inventory[i], account.turnover[i] = 0.0, inventory, 0.0
    begin_step(account, i)


@jit(allocates=False)
def begin_step(account: Any, i: int) -> None:
    """Forget what the last step did."""
    account.bought[i] = account.sold[i] = account.cut[i] = account.dropped[i] = 0
    account.fees[i] = 0.0


@jit(allocates=False)
def mark(params: Any, account: Any, book: Any, i: int) -> None:
    """Take over the prices of the book."""
    account.mid_price[i] = 0.5 * account.tick[i] * float64(int64(book.bid[i]) + int64(book.ask[i]))
    account.spread[i] = int64(book.ask[i]) - int64(book.bid[i])
    account.wealth[i] = account.cash[i] + float64(account.inventory[i]) * account.mid_price[i]


@jit(allocates=False)
def trade(params: Any, account: Any, i: int, side: int, lots: int, value: int, fee: float) -> None:
    """Book lots bought or sold, for their prices times lots in ticks, and the fees on them.

    Args:
        params: With ``fee_per_lot``.
        account: Anys.
        i: The row.
        side: ``BUY`` or ``SELL``.
        lots: How many, 0 for nothing.
        value: In ticks.
        fee: A fraction of the value.
    """
    if lots > 0:
        money = account.tick[i] * float64(value)
        fees = fee * money + params.fee_per_lot * float64(lots)
        account.turnover[i] += money
        account.fees[i] += fees
        if side == BUY:
            account.bought[i] += lots
            account.inventory[i] += lots
            account.cash[i] -= money + fees
        else:
            account.sold[i] += lots
            account.inventory[i] -= lots
            account.cash[i] += money - fees


@jit(allocates=False)
def settle(params: Any, account: Any, book: Any, i: int) -> None:
    """Book what others have executed of own orders since the last time."""
    for side in range(2):
        trade(params, account, i, side, book.fills[i, side, 0], book.fills[i, side, 1], params.maker_fee)
        book.fills[i, side, 0] = book.fills[i, side, 1] = 0


@jit(allocates=False)
def room(params: Any, account: Any, book: Any, i: int, side: int, slot: int) -> Any:
    """Lots that may be bought or sold up to the inventory limit, if all other own orders of that side are executed.

    Args:
        params: With ``max_inventory``, a number.
        account: Accounts.
        book: Books.
        i: The row.
        side: ``BUY`` or ``SELL``.
        slot: The slot whose order counts for nothing; -1 for none.
    """
    held = account.inventory[i] if side == BUY else -account.inventory[i]
    for other in range(params.rules.slots):
        if other != slot and own_side(params.rules, book, i, other) == side:
            held += own_lots(params.rules, book, i, other)
    return max(params.max_inventory - held, 0)


@jit(allocates=False)
def allowed(params: Any, account: Any, book: Any, i: int, side: int, lots: int, slot: int) -> Any:
    """Lots of an order that the inventory limit leaves, whatever of the other own orders is executed.

    Args:
        params: With ``max_inventory``.
        account: Anys.
        book: Books.
        i: The row.
        side: ``BUY`` or ``SELL``.
        lots: Of the order.
        slot: The slot that it takes the place of; -1 for none.
    """
    if params.max_inventory is None:
        return lots
    most = min(lots, room(params, account, book, i, side, slot))
    account.cut[i] += lots - most
    return most


@jit(allocates=False)
def order_at_market(params: Any, account: Any, book: Any, i: int, side: int, lots: int) -> None:
    """Buy or sell at once, as far as there is something to trade with and the inventory limit leaves."""
    most = allowed(params, account, book, i, side, lots, -1)
    if most > 0:
        taken, value = take_row(params.rules, book, i, SELL if side == BUY else BUY, most)
        trade(params, account, i, side, taken, value, params.taker_fee)


@jit(allocates=False)
def order_at_limit(params: Any, account: Any, book: Any, i: int, slot: int, side: int, price: int, lots: int) -> None:
    """Make the order in a slot one to buy or sell at a price or better, as far as the inventory limit leaves."""
    most = allowed(params, account, book, i, side, lots, slot) if lots > 0 else 0
    taken, value = replace_row(params.rules, book, i, slot, side, price, most)
    trade(params, account, i, side, taken, value, params.taker_fee)


@jit(allocates=False)
def send(params: Any, account: Any, pending: Pending, random: Any, i: int, now: float) -> Any:
    """Send an action; it arrives after the latency, and not before one that was sent earlier.

    Latencies come from a part of the row's stream that nothing else draws from, so that they move no other draw.

    Returns:
        The place where the action is to be written, -1 where too many are under way and it is refused.
    """
    delay = params.latency
    if params.latency_law != "fixed":
        word, _, _, _ = streams.philox_words(random.key[i], pending.drawn[i], pending.upper[i])
        pending.drawn[i] += uint64(1)
        uniform = float64(streams.uniform_of(word))
        delay *= -maths.log(uniform) if params.latency_law == "exponential" else 2.0 * uniform
    if pending.count[i] >= params.max_pending:
        account.dropped[i] += 1
        return -1
    place = (pending.first[i] + pending.count[i]) % params.max_pending
    pending.last[i] = max(pending.last[i], now + delay)
    pending.arrives[i, place] = pending.last[i]
    pending.count[i] += 1
    return place


@jit(allocates=False)
def clear_pending(pending: Pending, random: Any, i: int) -> None:
    """Nothing is under way; the latencies of this episode are others than those of the ones before."""
    pending.first[i], pending.count[i], pending.last[i], pending.drawn[i] = 0, 0, 0.0, 0
    pending.upper[i] = random.counter[i]  # at least 1, and more than in the episodes before: a reset draws
