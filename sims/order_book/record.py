"""The background of a simulated book as messages of an exchange, for ``sims.data.write_lobster``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.checks import check_count
from sims.data import Tape
from sims.data.tape_messages import NO_ASK, NO_BID
from sims.order_book.book import BUY, CANCELLED, EXECUTED, LEVEL, LOTS, NEXT, OF_LOTS, ORDERS, SELL, WORDS
from sims.order_book.env import LimitOrderBookVecEnv

#: A second, nanoseconds; and when the exchange opens, seconds after midnight.
_SECOND, _OPENING = 10**9, 34_200
#: A cent, in the unit of the files.
_CENT = 100
_NEW, _DELETE, _EXECUTION = 1, 3, 4


def record_tape(messages: int, *, seed: int, levels: int = 10, **params: Any) -> Tape:
    """What an exchange would have told of a sub-env's book, in which no agent trades.

    It is the book that a sub-env of this seed has as long as it sends no order, message by message; a lot is a share,
    a tick a cent, and a unit of time a second. As in the files, nothing is told of what happens beyond the ``levels``
    best of a side. An order that is evicted is deleted.

    Args:
        messages: How many, at least 1; the end of an order that executes several may bring a few more.
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
    given = dict(params, actions="quotes", step="messages", step_messages=1, n_steps=2**31 - 1, latency=0.0)
    vec = LimitOrderBookVecEnv(1, **given)
    vec.reset(seed=[seed])
    if (vec.get_attr("book")[0].own_price >= 0).any():
        raise ValueError("initial_book: expected no own orders, as nobody trades in a book that is recorded")
    recorder = _Recorder(vec, levels)
    nobody = np.zeros((1, 3), np.int64)
    while len(recorder.rows) < messages:
        if vec.step(nobody).infos[0]["messages"] == 0:
            raise ValueError(f"record_tape: expected {messages} messages, got {len(recorder.rows)} before they end")
        recorder.look()
    return recorder.tape()


class _Recorder:
    """A copy of a book in which orders have ids, and what has been told of it.

    Args:
        vec: The market, one sub-env.
        levels: Levels a side that are told.
    """

    def __init__(self, vec: Any, levels: int) -> None:
        self.vec, self.levels = vec, levels
        self.ring = int(vec.get_attr("rules")[0].ring)
        self.base = self.ring + int(vec.get_attr("rules")[0].slots)
        self.queues: tuple[dict[int, list[int]], dict[int, list[int]]] = {}, {}  # by side, price: ids
        self.lots: dict[int, int] = {}
        self.pool: list[int] = []  # ids, as the background's orders lie in the book
        self.next_id, self.time = 1, _OPENING * _SECOND
        self.rows: list[tuple[int, ...]] = []
        self.books: list[list[list[tuple[int, int]]]] = []
        self.before = vec.get_attr("book")[0]
        nodes = self.before.nodes.reshape(-1, WORDS)
        self.pool = [0] * int(self.before.count)
        for level in range(self.ring):
            k = int(nodes[level, NEXT])
            while k != level:
                self._join(int(self._price(nodes[k, LEVEL])), int(nodes[k, LOTS]), k - self.base)
                k = int(nodes[k, NEXT])

    def _price(self, level: Any) -> int:
        bid, half = int(self.before.bid), self.ring // 2
        return bid + ((int(level) - bid + half - 1) & (self.ring - 1)) - (half - 1)

    def _join(self, price: int, lots: int, place: int) -> None:
        """An order of the next id joins the end of its queue."""
        side = BUY if price <= int(self.before.bid) else SELL
        self.queues[side].setdefault(price, []).append(self.next_id)
        self.lots[self.next_id] = lots
        self.pool[place] = self.next_id
        self.next_id += 1

    # -- what has happened ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Tell what the last message has changed."""
        before, after = self.before, self.vec.get_attr("book")[0]
        self.before = after
        self.time = _OPENING * _SECOND + round(float(self.vec.get_attr("clock")[0].time) * _SECOND)
        nodes, change = after.nodes.reshape(-1, WORDS), after.tallies - before.tallies
        if change[EXECUTED, OF_LOTS]:
            self._execute(before, int(change[EXECUTED, OF_LOTS]), nodes)
        elif change[CANCELLED, ORDERS]:
            self._cancel(nodes)
        else:
            self.pool.append(0)
            k = len(self.pool) - 1
            price = self._price(nodes[self.base + k, LEVEL])
            views = [self._view(side) for side in (BUY, SELL)]
            self._join(price, int(nodes[self.base + k, LOTS]), k)
            self._tell(_NEW, self.next_id - 1, self.lots[self.next_id - 1], price, views)
        self._evict()
        if not self._is(nodes):
            raise AssertionError("record_tape: expected the copy of the book to be the book")

    def _execute(self, before: Any, lots: int, nodes: Any) -> None:
        """A market order, of the side whose best has lost lots."""
        best = {BUY: int(before.bid), SELL: int(before.ask)}
        (side,) = (
            each
            for each in (BUY, SELL)
            if sum(self.lots[one] for one in self.queues[each].get(best[each], ()))
            != self._lots_at(nodes, best[each], each)
        )
        while lots:
            price = max(self.queues[BUY]) if side == BUY else min(self.queues[SELL])
            first = self.queues[side][price][0]
            amount = min(lots, self.lots[first])
            self._leave(_EXECUTION, first, amount, side, price)
            lots -= amount

    def _lots_at(self, nodes: Any, price: int, side: int) -> int:
        """Lots of a side at a price in the book as it is now."""
        is_there = price <= int(self.before.bid) if side == BUY else price >= int(self.before.ask)
        return int(nodes[price & (self.ring - 1), LOTS]) if is_there else 0

    def _cancel(self, nodes: Any) -> None:
        """The cancel of an order; of several that leave the same book behind, of any."""
        for side in (BUY, SELL):
            for price, queue in list(self.queues[side].items()):
                lost = sum(self.lots[each] for each in queue) - self._lots_at(nodes, price, side)
                if not lost or self._is_far(side, price):
                    continue
                for each in queue:
                    if self.lots[each] == lost and self._is_without(nodes, each, side, price):
                        self._leave(_DELETE, each, lost, side, price)
                        return
        raise AssertionError("record_tape: expected the order that was cancelled among those that were there")

    def _is_without(self, nodes: Any, order: int, side: int, price: int) -> bool:
        """Whether the queue of an order, and the pool, are now what its cancel would make of them."""
        pool = [*self.pool]
        self._drop(pool, order)
        far = [each for one in (BUY, SELL) for at in self._far(one) for each in self.queues[one][at]]
        for each in far:
            self._drop(pool, each)
        lots = nodes[self.base :][: len(pool), LOTS].tolist() == [self.lots[each] for each in pool]
        return lots and self._walk(nodes, price, pool) == [each for each in self.queues[side][price] if each != order]

    def _walk(self, nodes: Any, price: int, pool: list[int]) -> list[int]:
        """The ids in the queue of a price, where orders lie in the book like this."""
        level = price & (self.ring - 1)
        k, found = int(nodes[level, NEXT]), []
        while k != level:
            place = k - self.base
            found.append(pool[place] if place < len(pool) else 0)
            k = int(nodes[k, NEXT])
        return found

    def _is(self, nodes: Any) -> bool:
        """Whether the book is the copy."""
        lots = [self.lots[each] for each in self.pool]
        return len(lots) == int(self.before.count) and (
            nodes[self.base :][: len(lots), LOTS].tolist() == lots
            and all(
                self._walk(nodes, price, self.pool) == queue
                for side in (BUY, SELL)
                for price, queue in self.queues[side].items()
            )
        )

    def _is_far(self, side: int, price: int) -> bool:
        away = int(self.before.ask) - price if side == BUY else price - int(self.before.bid)
        return away >= self.ring // 2

    def _far(self, side: int) -> list[int]:
        """Prices that the best has moved too far away from, the nearest first."""
        return sorted((price for price in self.queues[side] if self._is_far(side, price)), reverse=side == BUY)

    def _evict(self) -> None:
        for side in (BUY, SELL):
            for price in self._far(side):
                for each in list(self.queues[side][price]):
                    self._leave(_DELETE, each, self.lots[each], side, price)

    # -- what is told ---------------------------------------------------------------------------------------

    @staticmethod
    def _drop(pool: list[int], order: int) -> None:
        """An order goes, and the last one moves to its place."""
        last = pool.pop()
        if last != order:
            pool[pool.index(order)] = last

    def _leave(self, kind: int, order: int, lots: int, side: int, price: int) -> None:
        """Lots of an order go, and with the last one the order."""
        views = [self._view(each) for each in (BUY, SELL)]
        self.lots[order] -= lots
        if self.lots[order] == 0:
            self._drop(self.pool, order)
            del self.lots[order]
            self.queues[side][price].remove(order)
            if not self.queues[side][price]:
                del self.queues[side][price]
        self._tell(kind, order, lots, price, views, side)

    def _view(self, side: int) -> list[tuple[int, int]]:
        """The levels of a side that are told: prices, and lots."""
        prices = sorted(self.queues[side], reverse=side == BUY)[: self.levels]
        return [(price, sum(self.lots[each] for each in self.queues[side][price])) for price in prices]

    def _tell(self, kind: int, order: int, lots: int, price: int, before: Any, side: int | None = None) -> None:
        """Tell a message, if it is seen."""
        after = [self._view(each) for each in (BUY, SELL)]
        if after == before:
            return
        if side is None:
            side = BUY if price <= int(self.before.bid) else SELL
        self.rows.append((self.time, kind, order, lots, price * _CENT, 1 if side == BUY else -1))
        self.books.append(after)

    def tape(self) -> Tape:
        """All that has been told."""
        names = ("time", "kind", "order_id", "size", "price", "direction")
        columns: dict[str, Any] = dict(zip(names, np.array(self.rows, np.int64).T, strict=True))
        for side, name, missing in ((BUY, "bid", NO_BID), (SELL, "ask", NO_ASK)):
            prices = np.full((len(self.books), self.levels), missing, np.int64)
            sizes = np.zeros((len(self.books), self.levels), np.int64)
            for row, book in enumerate(self.books):
                for level, (price, lots) in enumerate(book[side]):
                    prices[row, level], sizes[row, level] = price * _CENT, lots
            columns |= {f"{name}_price": prices, f"{name}_size": sizes}
        return Tape(**columns, tick=_CENT, notes=("simulated messages of a book in which no agent trades",))
