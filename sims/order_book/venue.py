"""The operations of a book for whoever trades in it, of either kind: one with a background, or one that is replayed.

``rules`` says which, ``BookRules`` or ``TapeRules``; the compiler drops the other one. See ``book`` for what each does.
"""

from __future__ import annotations

from typing import Any

from sekai.kernels import jit
from sims.order_book import book as orders
from sims.order_book import log
from sims.order_book import tape_book as tapes


@jit(allocates=False)
def book_of(rules: Any, derived: Any, state: Any) -> Any:
    """The book of a market's state, as everything here takes it."""
    if rules.replays:
        own = state.book
        return tapes.TapeBook(
            derived.file,
            own.row,
            own.bid,
            own.ask,
            own.own_price,
            own.own,
            own.placed,
            own.taken,
            own.taken_count,
            own.fills,
            own.tallies,
        )
    return state.book


@jit(allocates=False)
def set_time(rules: Any, book: Any, i: int, time: float) -> None:
    """Tell a book that keeps a log the time of what happens next."""
    if not rules.replays:
        log.set_time(rules, book, i, time)


@jit(allocates=False)
def take_row(rules: Any, book: Any, i: int, side: int, lots: int) -> Any:
    """Execute resting orders for an own market order: lots taken, and their prices times lots in ticks."""
    if rules.replays:
        taken, value, _ = tapes.take_row(rules, book, i, side, lots, 0)
    else:
        taken, value, _ = orders.take_row(rules, book, i, side, lots, 0, True)
    return taken, value


@jit(allocates=False)
def replace_row(rules: Any, book: Any, i: int, slot: int, side: int, price: int, lots: int) -> Any:
    """Make the own order in a slot another one."""
    if rules.replays:
        return tapes.replace_row(rules, book, i, slot, side, price, lots)
    return orders.replace_row(rules, book, i, slot, side, price, lots)


@jit(allocates=False)
def cancel_row(rules: Any, book: Any, i: int, slot: int, lots: int) -> None:
    """Cancel lots of an own order."""
    if rules.replays:
        tapes.cancel_row(rules, book, i, slot, lots)
    else:
        orders.cancel_row(rules, book, i, slot, lots)


@jit(allocates=False)
def own_lots(rules: Any, book: Any, i: int, slot: int) -> Any:
    """Lots of the own order in a slot."""
    if rules.replays:
        return tapes.own_lots(book, i, slot)
    return orders.own_lots(rules, book, i, slot)


@jit(allocates=False)
def own_side(rules: Any, book: Any, i: int, slot: int) -> Any:
    """The side of the own order in a slot, -1 for none."""
    if rules.replays:
        return tapes.own_side(book, i, slot)
    return orders.own_side(book, i, slot)


@jit(allocates=False)
def queue_ahead(rules: Any, book: Any, i: int, slot: int) -> Any:
    """Lots before the own order in a slot; -1 where nobody knows."""
    if rules.replays:
        return tapes.queue_ahead(rules, book, i, slot)
    return orders.queue_ahead(rules, book, i, slot)


@jit(allocates=False)
def best_lots(rules: Any, book: Any, i: int, side: int) -> Any:
    """Lots at the best price of a side."""
    price = book.bid[i] if side == orders.BUY else book.ask[i]
    if rules.replays:
        return tapes.lots_at(rules, book, i, side, price)
    return orders.lots_at(book, i, price, rules.ring)
