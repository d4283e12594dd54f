"""The book that an episode is told to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sims.order_book.book import BUY, MOST_LOTS, SELL


@dataclass(frozen=True, kw_only=True)
class StartBook:
    """Orders that rest, each in the order in which it joined its queue.

    Attributes:
        bids: (price, lots) of each order to buy of the background; prices are ticks.
        asks: Of each order to sell.
        own: (slot, price, lots) of each own order, behind the background's at its price; those at the best bid or
            below it are orders to buy.
    """

    bids: Sequence[tuple[int, int]] = ()
    asks: Sequence[tuple[int, int]] = ()
    own: Sequence[tuple[int, int, int]] = ()

    def __post_init__(self) -> None:
        for name, width in (("bids", 2), ("asks", 2), ("own", 3)):
            rows = tuple(tuple(row) for row in getattr(self, name))
            for k, row in enumerate(rows):
                if len(row) != width or not all(isinstance(each, (int, np.integer)) for each in row):
                    raise ValueError(f"initial_book.{name}[{k}]: expected {width} integers, got {row!r}")
            object.__setattr__(self, name, tuple(tuple(int(each) for each in row) for row in rows))


class Start(NamedTuple):
    """Orders as row functions read them; see ``market.Shared``."""

    prices: NDArray[np.int64]
    lots: NDArray[np.int64]
    slots: NDArray[np.int64]
    sides: NDArray[np.int64]
    bid: int
    ask: int


def read_start(book: Any, params: Any) -> Start:
    """The orders of an initial book.

    Args:
        book: A ``StartBook``, or None for none.
        params: Of the market: what a book holds, and where it begins without orders.

    Raises:
        TypeError: It is none.
        ValueError: It is crossed, or does not fit; the message names the order.
    """
    bid, ask = params.start_price, params.start_price + 1
    if book is None:
        none = np.zeros(0, np.int64)
        return Start(none, none, none, none, bid, ask)
    if not isinstance(book, StartBook):
        raise TypeError(f"initial_book: expected a StartBook or None, got {book!r}")
    named = [(f"initial_book.bids[{k}]", BUY, *row, -1) for k, row in enumerate(book.bids)]
    named += [(f"initial_book.asks[{k}]", SELL, *row, -1) for k, row in enumerate(book.asks)]
    bids, asks = [row[0] for row in book.bids], [row[0] for row in book.asks]
    bid, ask = _references(bids, asks, bid, ask)
    for k, (slot, price, lots) in enumerate(book.own):
        side = BUY if price <= bid else SELL
        named.append((f"initial_book.own[{k}]", side, price, lots, slot))
        if not 0 <= slot < params.rules.slots or slot in [row[0] for row in book.own[:k]]:
            raise ValueError(f"initial_book.own[{k}]: expected a free slot below {params.rules.slots}, got {slot}")
    if bids and asks and max(bids) >= min(asks):
        raise ValueError(f"initial_book: expected bids below asks, got {max(bids)} and {min(asks)}")
    if len(bids) + len(asks) > params.rules.max_orders:
        most, got = params.rules.max_orders, len(bids) + len(asks)
        raise ValueError(f"initial_book: expected at most {most} orders (max_orders), got {got}")
    held: dict[int, int] = {}
    for where, side, price, lots, _ in named:
        held[price] = held.get(price, 0) + lots
        away = ask - price if side == BUY else price - bid
        if lots < 1 or held[price] > MOST_LOTS:
            raise ValueError(f"{where}: expected 1 to {MOST_LOTS} lots at a price, got {lots}, {held[price]} in all")
        low, high, half = params.rules.lowest_price, params.rules.highest_price, params.rules.ring // 2
        if not (low <= price <= high and 0 < away < half):
            raise ValueError(
                f"{where}: expected a price from {low} to {high}, less than {half} ticks (ring / 2) away from the "
                f"opposite best, got {price}"
            )
    columns = [np.array([row[k] for row in named], np.int64) for k in range(1, 5)]
    sides, prices, lots_of, slots = columns
    return Start(prices, lots_of, slots, sides, bid, ask)


def _references(bids: list[int], asks: list[int], bid: int, ask: int) -> tuple[int, int]:
    """The bests that distances are counted from; where a side is empty, a tick beside the other one."""
    if bids and asks:
        return max(bids), min(asks)
    if bids:
        return max(bids), max(bids) + 1
    if asks:
        return min(asks) - 1, min(asks)
    return bid, ask
