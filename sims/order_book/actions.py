"""What an agent can do in a book, as row functions: quotes, orders, or working off a position.

Each is kept as four numbers until it arrives, and is then carried out by the book as it stands.
"""

from __future__ import annotations

from typing import Any

from numpy import float32, float64, int64, round

from sekai.kernels import jit
from sekai.spaces import Box, MultiDiscrete, Space
from sims.order_book.account import order_at_limit, order_at_market, room
from sims.order_book.book import BUY, MOST_LOTS, SELL
from sims.order_book.venue import book_of, cancel_row

ACTIONS = ("quotes", "orders", "execution")
#: Kinds of ``orders``.
NONE, LIMIT_BUY, LIMIT_SELL, MARKET_BUY, MARKET_SELL, CANCEL = range(6)


def action_space(params: Any) -> Space[Any]:
    """Whole numbers for quotes and orders, two shares for execution."""
    if params.actions == "quotes":
        return MultiDiscrete([params.max_offset + 1, params.max_offset + 1, params.max_size])
    if params.actions == "orders":
        return MultiDiscrete([6, params.max_offset + 1, params.max_size, params.rules.slots])
    return Box(0.0, 1.0, (2,), float32)


@jit(allocates=False)
def mask_row(params: Any, derived: Any, state: Any, i: int, mask: Any) -> None:
    """Leave out what the inventory limit would cut to nothing, were it to arrive now.

    That is quotes of a side on which there is no room, and orders of a side on which there is none whatever slot they
    are put into. How many lots there is room for, a mask of the sizes alone cannot say.
    """
    book = book_of(params.rules, derived, state)
    for side in range(2):
        if params.actions == "quotes":
            if room(params, state, book, i, side, side) == 0:
                for offset in range(1, params.max_offset + 1):
                    mask[side][offset] = 0
        else:
            most = 0
            for slot in range(params.rules.slots):
                most = max(most, room(params, state, book, i, side, slot))
            if most == 0:
                mask[0][LIMIT_BUY if side == BUY else LIMIT_SELL] = 0
            if room(params, state, book, i, side, -1) == 0:
                mask[0][MARKET_BUY if side == BUY else MARKET_SELL] = 0


def has_mask(params: Any) -> bool:
    """Whether there is a limit that leaves actions out."""
    return params.actions != "execution" and params.max_inventory is not None


@jit(allocates=False)
def keep_action(params: Any, kept: Any, action: Any) -> None:
    """Write an action as four numbers."""
    kept[0], kept[1], kept[2], kept[3] = float64(action[0]), float64(action[1]), 0.0, 0.0
    if params.actions != "execution":
        kept[2] = float64(action[2])
    if params.actions == "orders":
        kept[3] = float64(action[3])


@jit(allocates=False)
def carry_out(params: Any, account: Any, book: Any, i: int, kept: Any) -> None:
    """Do what an action says, which arrives now."""
    if params.actions == "quotes":
        quote(params, account, book, i, int64(kept[0]), int64(kept[1]), 1 + int64(kept[2]))
    elif params.actions == "orders":
        order(params, account, book, i, int64(kept[0]), int64(kept[1]), 1 + int64(kept[2]), int64(kept[3]))
    else:
        work_off(params, account, book, i, kept[0], kept[1])


@jit(allocates=False)
def quote(params: Any, account: Any, book: Any, i: int, bid_offset: int, ask_offset: int, lots: int) -> None:
    """Quote a bid in slot 0 and an ask in slot 1, each so many ticks from the opposite best; 0 for none.

    Both are counted from the book as the quotes find it. Two that would cross each other are put side by side in the
    middle of where they were to be.
    """
    bid, ask = int64(book.ask[i]) - bid_offset, int64(book.bid[i]) + ask_offset
    if bid_offset > 0 and ask_offset > 0 and bid >= ask:
        bid = (bid + ask) // 2
        ask = bid + 1
    order_at_limit(params, account, book, i, 0, BUY, bid, lots if bid_offset > 0 else 0)
    order_at_limit(params, account, book, i, 1, SELL, ask, lots if ask_offset > 0 else 0)


@jit(allocates=False)
def order(params: Any, account: Any, book: Any, i: int, kind: int, offset: int, lots: int, slot: int) -> None:
    """One order: a limit order takes the place of what is in its slot, and may be at the opposite best, or beyond."""
    if kind == LIMIT_BUY:
        order_at_limit(params, account, book, i, slot, BUY, int64(book.ask[i]) - offset, lots)
    elif kind == LIMIT_SELL:
        order_at_limit(params, account, book, i, slot, SELL, int64(book.bid[i]) + offset, lots)
    elif kind == MARKET_BUY:
        order_at_market(params, account, book, i, BUY, lots)
    elif kind == MARKET_SELL:
        order_at_market(params, account, book, i, SELL, lots)
    elif kind == CANCEL:
        cancel_row(params.rules, book, i, slot, MOST_LOTS)


@jit(allocates=False)
def work_off(params: Any, account: Any, book: Any, i: int, at_market: float, at_best: float) -> None:
    """Trade a share of what is left at market, and have a share of what is left then wait at the own best price."""
    side = SELL if account.inventory[i] > 0 else BUY
    lots = int64(round(at_market * float64(abs(account.inventory[i]))))
    if lots > 0:
        order_at_market(params, account, book, i, side, lots)
    lots = int64(round(at_best * float64(abs(account.inventory[i]))))
    price = int64(book.ask[i]) if side == SELL else int64(book.bid[i])
    order_at_limit(params, account, book, i, 0, side, price, min(lots, MOST_LOTS))
