"""``Tape``, the checked form of a day of messages and books, as a market replays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import check_count
from sims.data.tape_books import check_agreement, check_books
from sims.data.tape_messages import NO_ASK, NO_BID, Origin, check_messages, find_submissions

__all__ = ["NO_ASK", "NO_BID", "Tape"]

#: The columns of messages, and what they hold.
MESSAGE = {
    "time": np.int64,
    "kind": np.int8,
    "order_id": np.int64,
    "size": np.int32,
    "price": np.int64,
    "direction": np.int8,
}
#: The columns of books, one entry per level.
BOOK = {"ask_price": np.int64, "ask_size": np.int32, "bid_price": np.int64, "bid_size": np.int32}

#: A cent, in the unit of the files.
_CENT = 100


@dataclass(frozen=True, eq=False, repr=False)
class Tape:
    """Messages and the book after each, oldest first, in the terms of LOBSTER's files.

    Whatever is given is checked, and copied into read-only arrays: starting from the first book, messages of kinds 1 to
    4 are applied to the ``L`` levels of their side, and every book must be what comes out. A level that comes into view
    as another leaves is taken as it is. Messages at prices out of view may be there, and change nothing.

    Attributes:
        time: int64 (T,), nanoseconds after midnight, never falling.
        kind: int8 (T,): 1 a new order, 2 a cancel of a part, 3 a delete, 4 an execution of a displayed order, 5 of a
            hidden one, 6 a cross trade, 7 a halt.
        order_id: int64 (T,).
        size: int32 (T,), shares; at least 1 for kinds 1 to 5.
        price: int64 (T,), dollars times 10,000; for kind 7 -1 (halted), 0 (quoting) or 1 (trading).
        direction: int8 (T,), of the resting order: 1 to buy, -1 to sell.
        ask_price: int64 (T, L), the best first; ``NO_ASK`` (9999999999) where there is no such level, as in the files.
        ask_size: int32 (T, L), shares; 0 where there is no such level.
        bid_price: int64 (T, L), the best first; ``NO_BID`` (-9999999999) where there is no such level.
        bid_size: int32 (T, L).
        tick: The step of prices. Where it is not given: a cent, or the greatest part of it in whole units of which all
            prices of orders and levels are multiples; trades with hidden orders may be at others.
        notes: What there is to know of these messages, a sentence each.
        ref: int64 (T,), the index of the message that submitted the order of this one (its own index for kind 1); -1
            where that is not among the messages, and for kinds 5 to 7. It is known also of orders whose price was out
            of view for a while; an order that came while it was, though, has -1, as those from before the first row.
        origin: What errors call the files; no column.

    Raises:
        TypeError: A column is no array of integers, or ``tick`` no integer.
        ValueError: The columns have other shapes than these, a value is none of those above, a book is crossed, or
            messages and books do not agree with each other. The message names the row, in a file its line.
    """

    time: NDArray[np.int64]
    kind: NDArray[np.int8]
    order_id: NDArray[np.int64]
    size: NDArray[np.int32]
    price: NDArray[np.int64]
    direction: NDArray[np.int8]
    ask_price: NDArray[np.int64]
    ask_size: NDArray[np.int32]
    bid_price: NDArray[np.int64]
    bid_size: NDArray[np.int32]
    tick: int | None = None
    notes: tuple[str, ...] = ()
    ref: NDArray[np.int64] = field(init=False)
    origin: InitVar[Origin] = Origin()

    def __post_init__(self, origin: Origin) -> None:
        made = {name: getattr(self, name) for name in (*MESSAGE, *BOOK)}
        columns = _as_columns(made, origin)
        check_messages(columns, origin)
        check_books(columns, origin)
        ref = find_submissions(columns, origin)
        check_agreement(columns, origin)
        tick = _find_tick(columns) if self.tick is None else check_count(self.tick, "tick")
        if self.tick is not None:
            _check_tick(columns, tick, origin)
        for array in (*columns.values(), ref):
            array.flags.writeable = False
        # The record is frozen for its users; here its fields are still being made.
        for name, value in {**columns, "ref": ref, "tick": tick, "notes": tuple(self.notes)}.items():
            object.__setattr__(self, name, value)

    @property
    def levels(self) -> int:
        """L, how many levels a side of the book there are in view."""
        return int(self.ask_price.shape[1])

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        span = " to ".join(_clock(int(self.time[k])) for k in (0, -1))
        return f"Tape({len(self):,} messages, {self.levels} levels a side, {span}, tick {self.tick})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and unpickled arrays are writeable, so that copies of this have to be made anew.
        return type(self), tuple(getattr(self, each.name) for each in fields(self) if each.init)


def _as_columns(given: Mapping[str, ArrayLike], origin: Origin) -> dict[str, NDArray[Any]]:
    """Copies in the dtypes of a tape, once their shapes are seen to fit each other."""
    columns: dict[str, NDArray[Any]] = {}
    for name, values in given.items():
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise TypeError(f"{origin.of(name)}, column {name!r}: expected integers, got the dtype {array.dtype}")
        columns[name] = array
    shape, book = columns["time"].shape, columns["ask_price"].shape
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"{origin.message}, column 'time': expected the shape (T,), T >= 1, got {shape}")
    if len(book) != 2 or book[1] == 0:
        raise ValueError(f"{origin.orderbook}, column 'ask_price': expected the shape (T, L), L >= 1, got {book}")
    for name, array in columns.items():
        expected = shape if name in MESSAGE else (*shape, book[1])
        if array.shape != expected:
            raise ValueError(f"{origin.of(name)}, column {name!r}: expected the shape {expected}, got {array.shape}")
        dtype = MESSAGE[name] if name in MESSAGE else BOOK[name]
        wrong = np.nonzero(array.astype(dtype) != array)
        if len(wrong[0]):
            place, limits = tuple(int(each[0]) for each in wrong), np.iinfo(dtype)
            raise ValueError(
                f"{origin.at(name, place[0])}, column {name!r}: expected an integer from {limits.min} to {limits.max}, "
                f"got {array[place]}"
            )
        columns[name] = array.astype(dtype, order="C")  # a copy
    return columns


def _find_tick(columns: Mapping[str, NDArray[Any]]) -> int:
    of_orders = columns["price"][columns["kind"] <= 4]
    # Any other price in a book was in the first, or came into view as the last of its side.
    books = [columns[f"{side}_price"] for side in ("ask", "bid")]
    prices = np.concatenate([of_orders, *(book[0] for book in books), *(book[:, -1] for book in books)])
    return int(np.gcd.reduce(np.unique(prices[np.abs(prices) != NO_ASK]), initial=_CENT))


def _check_tick(columns: Mapping[str, NDArray[Any]], tick: int, origin: Origin) -> None:
    off = (columns["price"] % tick != 0) & (columns["kind"] <= 4)
    for name in ("ask_price", "bid_price"):
        off |= ((columns[name] % tick != 0) & (np.abs(columns[name]) != NO_ASK)).any(axis=1)
    if off.any():
        row = int(np.argmax(off))
        raise ValueError(f"{origin.at('price', row)}: expected prices that are multiples of the tick {tick}")


def _clock(nanoseconds: int) -> str:
    """A time of day in words, to the millisecond."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest // 10**6:03}"
