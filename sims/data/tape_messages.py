"""The messages of a tape: whether each is one, and which message submitted the order of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

#: The prices of a level that is not there, as LOBSTER writes them.
NO_ASK, NO_BID = 9_999_999_999, -9_999_999_999

_HALTS = (-1, 0, 1)


class Origin(NamedTuple):
    """Where a tape came from, as an error names it.

    Attributes:
        message: What the messages are called: the path of their file.
        orderbook: What the books are called.
        row: What a row is called.
        first: The number of the first row.
    """

    message: str = "Tape"
    orderbook: str = "Tape"
    row: str = "row"
    first: int = 0

    def of(self, name: str) -> str:
        """The file of a column."""
        return self.orderbook if name.startswith(("ask_", "bid_")) else self.message

    def at(self, name: str, row: int) -> str:
        """The file and row of an entry of a column."""
        return f"{self.of(name)}, {self.row} {row + self.first}"

    def number(self, row: int) -> str:
        """A row alone."""
        return f"{self.row} {row + self.first}"


def check_messages(columns: Mapping[str, NDArray[Any]], origin: Origin) -> None:
    """ValueError, which names the row, where a message is none, or earlier than the one before."""
    time, kind, size, price, direction = (columns[name] for name in ("time", "kind", "size", "price", "direction"))
    of_order, is_halt = kind <= 5, kind == 7
    lots = np.where(of_order, size >= 1, size >= 0)
    prices = np.where(is_halt, np.isin(price, _HALTS), (price < NO_ASK) & (price >= np.where(size > 0, 1, 0)))
    sides = np.where(of_order, np.abs(direction) == 1, np.abs(direction) <= 1)
    # A cross in which nothing was traded has neither a size nor a price.
    for name, good, expected in (
        ("kind", (kind >= 1) & (kind <= 7), "a type from 1 to 7"),
        ("time", time >= 0, "a time of at least 0"),
        ("size", lots, "a size of at least 1 (of crosses and halts 0)"),
        ("price", prices, f"a price above 0 and below {NO_ASK}, of halts -1, 0 or 1"),
        ("direction", sides, "the direction 1 or -1"),
    ):
        if not good.all():
            row = int(np.argmin(good))
            of = "" if name == "kind" else f" in a message of type {kind[row]}"
            raise ValueError(f"{origin.at(name, row)}: expected {expected}, got {columns[name][row]}{of}")
    falls = time[1:] < time[:-1]
    if falls.any():
        row = int(np.argmax(falls)) + 1
        raise ValueError(
            f"{origin.at('time', row)}: expected times that never fall, got {_seconds(time[row])} s after "
            f"{_seconds(time[row - 1])} s"
        )


def find_submissions(columns: Mapping[str, NDArray[Any]], origin: Origin) -> NDArray[np.int64]:
    """For each message the index of the one that submitted its order, -1 where there is none (see ``Tape.ref``).

    Raises:
        ValueError: An id is submitted twice, or after it was used; a message is at another price or on another side
            than its order; or more of an order leaves than was submitted. The message names the row.
    """
    kind, ids = columns["kind"], columns["order_id"]
    submissions = np.flatnonzero(kind == 1)
    submissions = submissions[np.argsort(ids[submissions], kind="stable")]
    known = ids[submissions]
    again = known[1:] == known[:-1]
    if again.any():
        row = int(submissions[1:][again].min())
        before = int(submissions[np.searchsorted(known, ids[row])])
        raise ValueError(
            f"{origin.at('order_id', row)}: expected an id of its own for a new order, got {ids[row]}, which was "
            f"submitted in {origin.number(before)}"
        )
    ref = np.full(len(ids), -1, np.int64)
    of_order = np.flatnonzero(kind <= 4)
    if len(known):
        places = np.minimum(np.searchsorted(known, ids[of_order]), len(known) - 1)
        found = known[places] == ids[of_order]
        ref[of_order[found]] = submissions[places[found]]
    _check_orders(columns, ref, origin)
    return ref


def _check_orders(columns: Mapping[str, NDArray[Any]], ref: NDArray[np.int64], origin: Origin) -> None:
    """ValueError where a message contradicts the one that submitted its order."""
    rows = np.flatnonzero((ref >= 0) & (columns["kind"] > 1))
    first = ref[rows]
    early = first > rows
    differs = {name: columns[name][rows] != columns[name][first] for name in ("price", "direction")}
    # Running totals of what has left of each order, its messages together and in order.
    together = np.argsort(first, kind="stable")
    totals = np.cumsum(columns["size"][rows][together], dtype=np.int64)
    starts = np.flatnonzero(np.diff(first[together], prepend=-1))
    before = np.repeat(np.append(0, totals)[starts], np.diff(np.append(starts, len(rows))))
    left = np.empty_like(totals)
    left[together] = totals - before
    too_much = left > columns["size"][first]
    wrong = early | differs["price"] | differs["direction"] | too_much
    if wrong.any():
        at = int(np.argmax(wrong))
        _refuse_order(columns, int(rows[at]), int(first[at]), int(left[at]), origin)


def _refuse_order(columns: Mapping[str, NDArray[Any]], row: int, first: int, left: int, origin: Origin) -> NoReturn:
    where = f"{origin.at('order_id', row)}, order {columns['order_id'][row]}"
    if first > row:
        raise ValueError(f"{where}: expected a new order before what happens to it, got it in {origin.number(first)}")
    for name in ("price", "direction"):
        if columns[name][row] != columns[name][first]:
            raise ValueError(
                f"{where}: expected the {name} {columns[name][first]}, at which it was submitted in "
                f"{origin.number(first)}, got {columns[name][row]}"
            )
    raise ValueError(
        f"{where}: expected at most {columns['size'][first]} shares to leave, which were submitted in "
        f"{origin.number(first)}, got {left} by here"
    )


def _seconds(nanoseconds: Any) -> str:
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09}"
