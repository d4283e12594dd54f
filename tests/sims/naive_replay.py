"""What becomes of an own order in a market that is replayed, in plain Python: one walk along a tape for each order."""

from __future__ import annotations

import math

from sims.data import Tape


def replay(
    tape: Tape, start: int, direction: int, price: int, size: int = 1
) -> tuple[list[tuple[int, int]], list[float]]:
    """The fills of an own order that is placed just before a message is applied; the file does not react to it.

    Args:
        tape: Of the market.
        start: The index of the message; at least 1, as nothing is known of the book before message 0.
        direction: 1 to buy, -1 to sell.
        price: Not through the other side's best.
        size: Its shares.

    Returns:
        The index of the message and the shares of each fill, never more than the shares of the message; and the shares
        ahead of it after each message from ``start - 1`` on, until it is filled: infinite while nothing is known of
        its price, and an upper bound from when that has been out of view.
    """
    side = "bid" if direction == 1 else "ask"
    prices, sizes = getattr(tape, f"{side}_price").tolist(), getattr(tape, f"{side}_size").tolist()
    columns = [getattr(tape, name)[start:].tolist() for name in ("kind", "size", "price", "direction", "ref")]

    def displayed(row: int) -> float:
        if price in prices[row]:
            return float(sizes[row][prices[row].index(price)])
        return 0 if direction * (price - prices[row][-1]) > 0 else math.inf  # out of view

    fills: list[tuple[int, int]] = []
    ahead = [displayed(start - 1)]
    stayed = ahead[0] < math.inf
    for k, (kind, shares, at, resting, ref) in enumerate(zip(*columns, strict=True), start):
        better = direction * (price - at)  # by how much the own price comes before that of the message
        before = ahead[-1]
        if resting == -direction:
            is_fill = kind == 1 and better >= 0  # an order of the other side that meets this one
        elif kind == 4 and better == 0:
            is_fill = ref >= start or before == 0  # somebody behind in time
        else:  # somebody behind in price; and displayed orders come before hidden ones
            is_fill = (kind == 4 and better > 0) or (kind == 5 and better >= 0)
        if is_fill:
            fills.append((k, min(shares, size)))
            size -= fills[-1][1]
            if size == 0:
                break
            before = 0
        elif kind in (2, 3, 4) and resting == direction and better == 0:
            # What is executed was in front of all others. What is cancelled and came out of view may have been behind.
            is_ahead = kind == 4 or 0 <= ref < start or (ref < 0 and stayed)
            before -= shares if is_ahead else 0
        ahead.append(min(max(before, 0), displayed(k)))
        stayed = stayed and displayed(k) < math.inf
    return fills, ahead
