"""The books of a tape: whether each is one, and whether it is what the messages make of the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sims.data.tape_messages import NO_ASK, NO_BID, Origin

#: Rows that are compared at once, so that what that takes stays in the cache.
_BLOCK = 8192

#: What each side is called, its direction, and the price of a level that is not there.
_SIDES = (("ask", -1, NO_ASK), ("bid", 1, NO_BID))


class _Side(NamedTuple):
    """A side of some books; its prices times minus its direction, so that the best are the lowest on both."""

    keys: NDArray[np.int64]
    sizes: NDArray[np.int32]


def check_books(columns: Mapping[str, NDArray[Any]], origin: Origin) -> None:
    """ValueError, which names the row and the level, where a book is none, or crossed."""
    for side, direction, missing in _SIDES:
        prices, sizes = columns[f"{side}_price"], columns[f"{side}_size"]
        is_missing = prices == missing
        keys = -direction * prices
        order = np.ones_like(is_missing)
        order[:, 1:] = (keys[:, 1:] > keys[:, :-1]) | (is_missing[:, 1:] & is_missing[:, :-1])
        for good, expected in (
            (is_missing | ((prices > 0) & (prices < NO_ASK)), f"a price above 0, or {missing} for none"),
            (np.where(is_missing, sizes == 0, sizes >= 1), "a size of at least 1, of 0 where there is none"),
            (order, "prices from the best on"),
        ):
            if not good.all():
                row, level = (int(each[0]) for each in np.nonzero(~good))
                raise ValueError(
                    f"{origin.at('ask_price', row)}, {side} {level + 1}: expected {expected}, got "
                    f"{_show(prices[row, level], sizes[row, level])}"
                    + (f" below {_show(prices[row, level - 1], sizes[row, level - 1])}" if good is order else "")
                )
    crossed = columns["ask_price"][:, 0] <= columns["bid_price"][:, 0]
    if crossed.any():
        row = int(np.argmax(crossed))
        raise ValueError(
            f"{origin.at('ask_price', row)}: expected an ask above the bid, got the ask {columns['ask_price'][row, 0]} "
            f"and the bid {columns['bid_price'][row, 0]}"
        )


def check_agreement(columns: Mapping[str, NDArray[Any]], origin: Origin) -> None:
    """ValueError, which names the row and the level, where a book is not what its message makes of the one before."""
    for start in range(1, len(columns["time"]), _BLOCK):
        rows = slice(start, min(start + _BLOCK, len(columns["time"])))
        faults = [_find_fault(columns, side, rows) for side in _SIDES]
        if any(faults):
            row, _, words = min(fault for fault in faults if fault)
            raise ValueError(f"{origin.at('ask_price', row)}: {words} ({_tell(columns, row, origin)})")


def _find_fault(
    columns: Mapping[str, NDArray[Any]], side: tuple[str, int, int], rows: slice
) -> tuple[int, bool, str] | None:
    """The first of some rows where a side of the book is another than expected; None without one.

    Returns:
        The row; False where the message cannot be true, True where the book alone is another; and that in words.
    """
    name, direction, missing = side
    keys, sizes = -direction * columns[f"{name}_price"][rows.start - 1 : rows.stop], columns[f"{name}_size"]
    before = _Side(keys[:-1], sizes[rows.start - 1 : rows.stop - 1])
    after = _Side(keys[1:], sizes[rows])
    touched = (columns["kind"][rows] <= 4) & (columns["direction"][rows] == direction)
    is_new = columns["kind"][rows] == 1
    key, size = -direction * columns["price"][rows], columns["size"][rows].astype(np.int64)

    levels = keys.shape[1]
    rank = (before.keys < key[:, None]).sum(axis=1)  # how many levels are better
    last = np.minimum(rank, levels - 1)
    each = np.arange(len(rank))
    in_view = touched & (rank < levels)
    there = np.where(in_view & (before.keys[each, last] == key), before.sizes[each, last], 0)
    short = in_view & ~is_new & (there < size)
    expected = _apply(before, after, rank, key, np.where(in_view, np.where(is_new, size, -size), 0), there)

    differs = (expected.keys != after.keys) | (expected.sizes != after.sizes)
    wrong = short | differs.any(axis=1)
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    price = int(columns["price"][rows][at])
    if short[at]:
        words = f"expected at least {size[at]} shares at {price} on the {name} side, got {there[at]}"
        return rows.start + at, False, words
    level = int(np.argmax(differs[at]))
    want, got = (_show(-direction * each.keys[at, level], each.sizes[at, level]) for each in (expected, after))
    return rows.start + at, True, f"expected {want} as {name} {level + 1}, got {got}"


def _apply(
    before: _Side,
    after: _Side,
    rank: NDArray[np.int64],
    key: NDArray[np.int64],
    change: NDArray[np.int64],
    there: NDArray[np.int64],
) -> _Side:
    """A side of each book with a change of its message applied.

    Args:
        before: The side, (n, L).
        after: What it became, of which only a level that comes into view counts: as the last, and so, in what is a
            book, only where all before it are there.
        rank: How many levels are better than the one that changes.
        key: The price of that, as in ``before``.
        change: The shares that come (above 0) or leave; 0 for a side that stays as it is.
        there: The shares that were there.
    """
    level = np.arange(before.keys.shape[1])
    comes, leaves = (change > 0) & (there == 0), (change < 0) & (there + change == 0)
    # From which level of the book before each of the new one is taken.
    source = level + (leaves[:, None] & (level >= rank[:, None])) - (comes[:, None] & (level > rank[:, None]))
    enters = source == len(level)
    source[enters] = len(level) - 1
    here = (change != 0)[:, None] & ~leaves[:, None] & (level == rank[:, None])
    keys, sizes = (np.take_along_axis(each, source, axis=1) for each in before)
    keys, sizes = np.where(enters, after.keys, keys), np.where(enters, after.sizes, sizes)
    return _Side(np.where(here, key[:, None], keys), np.where(here, (there + change)[:, None], sizes))


def _tell(columns: Mapping[str, NDArray[Any]], row: int, origin: Origin) -> str:
    names = ("kind", "order_id", "size", "price", "direction")
    return f"after the message {','.join(str(columns[name][row]) for name in names)} in {origin.at('kind', row)}"


def _show(price: Any, size: Any) -> str:
    return "no level" if abs(price) == NO_ASK and size == 0 else f"{size} at {price}"
