"""Simulated books as messages of an exchange, for ``sims.data.write_lobster``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count, check_integer
from sims.data import Tape
from sims.data.tape_messages import NO_ASK, NO_BID
from sims.order_book import log
from sims.order_book.book import BUY, CAME, EXECUTED, SELL
from sims.order_book.env import LimitOrderBookVecEnv

#: A second, nanoseconds; and when the exchange opens, seconds after midnight.
_SECOND, _OPENING = 10**9, 34_200
#: A cent, in the unit of the files.
_CENT = 100
_NEW, _PART, _DELETE, _EXECUTION = 1, 2, 3, 4


def recorded_tape(vec: Any, row: int = 0, *, levels: int = 10) -> Tape:
    """What an exchange would have told of a sub-env's book since its last reset, the agent's orders among the others.

    A lot is a share, a tick a cent, and a unit of time a second. An order that is evicted is deleted, and what is left
    of one that executes others joins the book as an order of its own. As in the files, nothing is told of what happens
    beyond the ``levels`` best of a side, nor whose an order is. Autoreset begins a new record: with
    ``autoreset=False`` that of a whole episode can be had.

    Args:
        vec: A VecEnv of the order book, on any backend, made with ``record_messages=``.
        row: The sub-env.
        levels: Levels a side of the books, at least 1.

    Returns:
        A ``Tape``, which ``sims.data.write_lobster`` writes as a pair of files. If there were more messages than
        ``record_messages``, it has the first of them; a UserWarning says so, and so do its ``notes``.

    Raises:
        TypeError: ``row`` or ``levels`` is no integer.
        ValueError: The market keeps no record; it is none that is simulated; or nothing in view has happened yet.
        IndexError: There is no such sub-env.

    Examples:
        >>> vec = sekai.make_vec("LimitOrderBook-v0", num_envs=8, record_messages=10_000)  # doctest: +SKIP
        >>> vec.reset(seed=7)  # doctest: +SKIP
        >>> vec.step(actions)  # doctest: +SKIP
        >>> write_lobster(recorded_tape(vec, 3), "message.csv", "orderbook.csv")  # doctest: +SKIP
    """
    levels, row = check_count(levels, "levels"), check_integer(row, "row")
    if not 0 <= row < vec.num_envs:
        raise IndexError(f"row: expected a sub-env from 0 to {vec.num_envs - 1}, got {row}")
    rules = vec.get_attr("rules")[row]
    if getattr(rules, "record_messages", 0) == 0:
        raise ValueError("recorded_tape: expected a simulated market made with record_messages=..., got one without")
    told = _Exchange(rules, levels)
    lost = told.read(vec.get_attr("book")[row].log)
    if not told.rows:
        raise ValueError("recorded_tape: expected messages since the reset, got none")
    notes = ["simulated messages"]
    if lost:
        notes.append(f"the {lost} that followed were not recorded (record_messages={rules.record_messages})")
        warnings.warn(f"recorded_tape: expected at most {rules.record_messages} messages, {notes[-1]}", stacklevel=2)
    return told.tape(len(told.rows), *notes)


def record_tape(messages: int, *, seed: int, levels: int = 10, **params: Any) -> Tape:
    """What an exchange would have told of a sub-env's book in which no agent trades; see ``recorded_tape``.

    It is the book that a sub-env of this seed has as long as it sends no order, message by message.

    Args:
        messages: How many, at least 1.
        seed: Of the sub-env, as in ``reset(seed=[...])``.
        levels: Levels a side of the books, at least 1.
        **params: The arguments of ``LimitOrderBookVecEnv`` for its background.

    Returns:
        A ``Tape``, which ``sims.data.write_lobster`` writes as a pair of files.

    Raises:
        TypeError: As ``LimitOrderBookVecEnv``.
        ValueError: As ``LimitOrderBookVecEnv``; own orders are in the initial book; or hardly any event changes the
            book any more, so that there are no more messages.

    Examples:
        >>> write_lobster(record_tape(10_000, seed=7), "message.csv", "orderbook.csv")  # doctest: +SKIP
    """
    messages, levels = check_count(messages, "messages"), check_count(levels, "levels")
    if getattr(params.get("initial_book"), "own", ()):
        raise ValueError("initial_book: expected no own orders, as nobody trades in a book that is recorded")
    given = dict(params, actions="quotes", step="messages", step_messages=64, n_steps=2**31 - 1, latency=0.0)
    room = 2 ** (
        1 + messages.bit_length()
    )  # of which part is out of view; a power of two, as each is compiled by itself
    while True:
        room *= 2
        vec = LimitOrderBookVecEnv(1, record_messages=room, **given)
        vec.reset(seed=[seed])
        told, is_over = _Exchange(vec.get_attr("rules")[0], levels), False
        for _ in range(0, room, 64):
            is_over = is_over or vec.step(np.zeros((1, 3), np.int64)).infos[0]["messages"] < 64
        told.read(vec.get_attr("book")[0].log)
        if len(told.rows) >= messages:
            return told.tape(messages, "simulated messages of a book in which no agent trades")
        if is_over:
            raise ValueError(f"record_tape: expected {messages} messages, got {len(told.rows)} before they end")


class _Exchange:
    """The levels of a book, its orders with ids, and what has been told of it.

    Args:
        rules: Of the book.
        levels: Levels a side that are told.
    """

    def __init__(self, rules: Any, levels: int) -> None:
        self._levels, self._base, self._room = levels, int(rules.ring + rules.slots), int(rules.record_messages)
        self._orders: dict[int, tuple[int, int, int, int]] = {}  # by node: id, side, price, lots
        self._ids = self._count = 0  # orders that came, and those of the background that rest
        self._lots: tuple[dict[int, int], dict[int, int]] = {}, {}  # by side and price
        self._views: list[list[tuple[int, int]]] = [[], []]
        self.rows: list[tuple[int, ...]] = []
        self._books: list[list[list[tuple[int, int]]]] = []

    def read(self, entries: NDArray[np.float64]) -> int:
        """Take in a log.

        Returns:
            How many entries there was no room for.
        """
        count, last = int(entries[0, log.COUNT]), int(entries[0, log.LAST])
        for k, (time, *entry) in enumerate(entries[1 : 1 + min(count, last)].tolist()):
            self._change(time, k < last - self._room, *map(int, entry))
        return max(count - last, 0)

    def _change(self, time: float, is_start: bool, what: int, lots: int, node: int, side: int, price: int) -> None:
        kind = _NEW
        if what == CAME:
            self._ids += 1
            self._orders[node] = self._ids, side, price, lots
            self._count += int(node >= self._base)
            order, change = self._ids, lots
        else:
            order, side, price, resting = self._orders.pop(node)
            change = -lots
            if lots < resting:
                self._orders[node] = order, side, price, resting - lots
            elif node >= self._base:
                self._count -= 1
                if node != self._base + self._count:  # the last one moves to its place
                    self._orders[node] = self._orders.pop(self._base + self._count)
            kind = _EXECUTION if what == EXECUTED else _PART if lots < resting else _DELETE
        at = self._lots[side]
        at[price] = at.get(price, 0) + change
        if at[price] == 0:
            del at[price]
        prices = sorted(at, reverse=side == BUY)[: self._levels]
        view = [(each, at[each]) for each in prices]
        if view == self._views[side]:
            return
        self._views[side] = view
        if not is_start:
            nanoseconds = _OPENING * _SECOND + round(time * _SECOND)
            self.rows.append((nanoseconds, kind, order, lots, price * _CENT, 1 if side == BUY else -1))
            self._books.append([*self._views])

    def tape(self, count: int, *notes: str) -> Tape:
        """The first messages that have been told."""
        names = ("time", "kind", "order_id", "size", "price", "direction")
        columns: dict[str, Any] = dict(zip(names, np.array(self.rows[:count], np.int64).T, strict=True))
        for side, name, missing in ((BUY, "bid", NO_BID), (SELL, "ask", NO_ASK)):
            prices = np.full((count, self._levels), missing, np.int64)
            sizes = np.zeros((count, self._levels), np.int64)
            for row, book in enumerate(self._books[:count]):
                for level, (price, lots) in enumerate(book[side]):
                    prices[row, level], sizes[row, level] = price * _CENT, lots
            columns |= {f"{name}_price": prices, f"{name}_size": sizes}
        return Tape(**columns, tick=_CENT, notes=notes)
