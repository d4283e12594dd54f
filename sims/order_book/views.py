"""What an agent sees of a book, as row functions: the best levels of either side, its own orders in their queues."""

from __future__ import annotations

from typing import Any

from numpy import float32, int64

from sekai.kernels import jit
from sims.order_book import tape_book
from sims.order_book.book import BUY, LOTS, SELL, level_of, word
from sims.order_book.venue import best_lots, own_lots, own_side, queue_ahead

LEVELS = ("occupied", "ticks")


def count_items(params: Any) -> int:
    """Numbers of an observation of a book and its own orders."""
    return 4 * params.depth + 2 + 3 * params.rules.slots


@jit(allocates=False)
def list_levels(params: Any, book: Any, i: int, side: int, observation: Any, at: int) -> Any:
    """Write the levels of a side of a book with a background.

    Returns:
        How many there are.
    """
    nodes, ring, depth = book.nodes[i], params.rules.ring, params.depth
    bid, ask = int64(book.bid[i]), int64(book.ask[i])
    within = ring // 2 - (ask - bid)  # ticks from a best that orders may lie
    sign, best = 2 * side - 1, bid if side == BUY else ask
    found, away = 0, 0
    while found < depth and away < within:
        lots = nodes[word(level_of(best + sign * away, ring), LOTS)]
        # Written in any case and overwritten if the level is empty, which the processor could not guess.
        observation[at + found] = float32(ask - bid + away)
        observation[at + depth + found] = float32(lots)
        found += int64(lots != 0) if params.levels == "occupied" else 1
        away += 1
    return found


@jit(allocates=False)
def observe_levels(params: Any, book: Any, i: int, observation: Any) -> int:
    """Write the levels: of each side, best first, the offsets from the opposite best and the lots; spread, imbalance.

    Returns:
        The place of the next number.
    """
    depth = params.depth
    bid, ask = int64(book.bid[i]), int64(book.ask[i])
    for side in range(2):
        at = 2 * depth * side
        if params.rules.replays:
            found = tape_book.list_levels(params, book, i, side, observation, at)
        else:
            found = list_levels(params, book, i, side, observation, at)
        for k in range(found, depth):
            observation[at + k] = observation[at + depth + k] = float32(0.0)
    bids, asks = float32(best_lots(params.rules, book, i, BUY)), float32(best_lots(params.rules, book, i, SELL))
    at = 4 * depth
    observation[at] = float32(ask - bid)
    observation[at + 1] = (bids - asks) / (bids + asks) if bids + asks > 0.0 else float32(0.0)
    return at + 2


@jit(allocates=False)
def observe_own(params: Any, book: Any, i: int, observation: Any, at: int) -> int:
    """Write of each own order its offset from the opposite best, negative to sell, its lots, and the lots ahead of it.

    Returns:
        The place of the next number.
    """
    for slot in range(params.rules.slots):
        side, price = own_side(params.rules, book, i, slot), int64(book.own_price[i, slot])
        offset, lots, ahead = int64(0), int64(0), int64(0)
        if side == BUY:
            offset = int64(book.ask[i]) - price
        elif side == SELL:
            offset = int64(book.bid[i]) - price
        if side >= 0:
            lots, ahead = own_lots(params.rules, book, i, slot), queue_ahead(params.rules, book, i, slot)
        observation[at] = float32(offset)
        observation[at + 1] = float32(lots)
        observation[at + 2] = float32(ahead)
        at += 3
    return at
