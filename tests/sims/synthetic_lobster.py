"""Faithful synthetic pairs of LOBSTER's files, and what the files do not tell: a whole book of individual orders.

Slow plain Python, which shares nothing with what reads the files. Orders rest in lists, first come first served. Of
what happens at prices below the ``levels`` best of a side the files tell nothing, as LOBSTER's do not; with
``tell_all`` the messages, not the books.
"""

from __future__ import annotations

import functools
import gzip
import random
from dataclasses import dataclass, field
from pathlib import Path

CENT = 100
NO_ASK, NO_BID = 9999999999, -9999999999
BUY, SELL = 1, -1

#: A queue: ids and shares, the first to be executed first. A side: price to queue. Both sides by direction.
Queue = tuple[tuple[int, int], ...]
Sides = dict[int, dict[int, Queue]]


@dataclass
class Pair:
    """The text of two files, and the truth about them.

    Attributes:
        message: What is in the file of messages.
        orderbook: What is in the file of books.
        in_view: For each message whether its order was among the best levels before it or is after it; None for
            hidden executions, crosses and halts.
        books: The whole book after each message.
        submitted: How many messages there were when the order of an id was submitted; -1 for those of the start. Where
            the submission is in the file, it is this message.
    """

    message: str = ""
    orderbook: str = ""
    in_view: list[bool | None] = field(default_factory=list)
    books: list[Sides] = field(default_factory=list)
    submitted: dict[int, int] = field(default_factory=dict)

    def write(self, folder: Path, suffix: str = ".csv") -> tuple[Path, Path]:
        """The paths of both files in a folder."""
        paths = folder / f"message{suffix}", folder / f"orderbook{suffix}"
        for path, text in zip(paths, (self.message, self.orderbook), strict=True):
            raw = text.encode()
            path.write_bytes(gzip.compress(raw, mtime=0) if suffix.endswith(".gz") else raw)
        return paths


class Exchange:
    """A book of individual orders, and a file that tells what happens in its view."""

    def __init__(self, rng: random.Random, *, levels: int, tell_all: bool, columns: int) -> None:
        self.rng, self.levels, self.tell_all, self.columns = rng, levels, tell_all, columns
        self.sides: dict[int, dict[int, list[list[int]]]] = {BUY: {}, SELL: {}}
        self.frozen: Sides = {BUY: {}, SELL: {}}
        self.orders: dict[int, tuple[int, int]] = {}  # of an id, direction and price
        self.next_id = 1000
        self.time = 34_200 * 10**9
        self.lines: list[str] = []
        self.rows: list[str] = []
        self.pair = Pair()
        self.is_open = False  # whether the file has begun

    # What is there.

    def prices(self, direction: int) -> list[int]:
        """The prices of a side, the best first."""
        return sorted(self.sides[direction], reverse=direction == BUY)

    def best(self, direction: int) -> int | None:
        return next(iter(self.prices(direction)), None)

    def is_visible(self, direction: int, price: int) -> bool:
        return price in self.prices(direction)[: self.levels]

    def remaining(self, number: int) -> int:
        direction, price = self.orders[number]
        return next(shares for each, shares in self.sides[direction][price] if each == number)

    # What can happen.

    def add(self, direction: int, price: int, size: int) -> int:
        number = self.next_id
        self.next_id += self.rng.randint(1, 9)
        self.sides[direction].setdefault(price, []).append([number, size])
        self.orders[number] = direction, price
        self.pair.submitted[number] = len(self.lines) if self.is_open else -1
        self.tell(1, number, size, price, direction, self.is_visible(direction, price))
        return number

    def take(self, kind: int, number: int, size: int) -> None:
        """Shares of an order leave: a cancel, a delete or an execution."""
        direction, price = self.orders[number]
        visible = self.is_visible(direction, price)
        queue = self.sides[direction][price]
        order = next(each for each in queue if each[0] == number)
        order[1] -= size
        assert order[1] >= 0
        if order[1] == 0:
            queue.remove(order)
            del self.orders[number]
        if not queue:
            del self.sides[direction][price]
        self.tell(kind, number, size, price, direction, visible)

    def send(self, direction: int, size: int, limit: int | None) -> None:
        """An order that may be executed at once: one message for each order that it meets; the rest of it rests."""
        while size and (price := self.best(-direction)) is not None:
            if limit is not None and direction * (limit - price) < 0:
                break
            number, shares = self.sides[-direction][price][0]
            self.take(4, number, min(size, shares))
            size -= min(size, shares)
        if size and limit is not None:
            self.add(direction, limit, size)

    def tell(self, kind: int, number: int, size: int, price: int, direction: int, visible: bool | None) -> None:
        if kind <= 4:
            queue = tuple((each, shares) for each, shares in self.sides[direction].get(price, ()))
            self.frozen = {**self.frozen, direction: {**self.frozen[direction], price: queue}}
            if not queue:
                del self.frozen[direction][price]
        if not self.is_open or not (visible or visible is None or self.tell_all):
            return
        more = ",null" if self.columns == 7 else ""
        second, rest = divmod(self.time, 10**9)
        self.lines.append(f"{second}.{rest:09d},{kind},{number},{size},{price},{direction}{more}\n")
        row = []
        asks, bids = (
            [(price, sum(shares for _, shares in self.sides[each][price])) for price in self.prices(each)]
            for each in (SELL, BUY)
        )
        for level in range(self.levels):
            row += asks[level] if level < len(asks) else (NO_ASK, 0)
            row += bids[level] if level < len(bids) else (NO_BID, 0)
        self.rows.append(",".join(map(str, row)) + "\n")
        self.pair.in_view.append(visible)
        self.pair.books.append(self.frozen)


def _size(rng: random.Random) -> int:
    return 100 * rng.randint(1, 5) if rng.random() < 0.6 else rng.randint(1, 300)


def make_pair(
    seed: int,
    messages: int = 1500,
    *,
    levels: int = 5,
    depth: int = 12,
    churn: float = 0.4,
    tell_all: bool = False,
    columns: int = 6,
) -> Pair:
    """A pair of files.

    Args:
        seed: Of what happens.
        messages: How many there are at least; the end of a sweep may bring a few more.
        levels: How many levels a side the files show.
        depth: At how many prices a side there are orders at the start. At about ``levels``, there are often fewer
            than that.
        churn: How often something is cancelled in a book of ``4 * depth`` orders; limit orders come 0.5 times.
        tell_all: Whether the messages out of view are in the file as well.
        columns: How many the messages have, 6 or 7.
    """
    rng = random.Random(seed)
    exchange = Exchange(rng, levels=levels, tell_all=tell_all, columns=columns)
    middle = 500_000
    for direction in (BUY, SELL):
        for step in range(1, depth + 1):
            for _ in range(rng.choice((0, 1, 1, 2, 4))):
                exchange.add(direction, middle - direction * CENT * step, _size(rng))
    exchange.is_open = True
    halts = {messages // 3, 2 * messages // 3}
    while len(exchange.lines) < messages:
        exchange.time += int(rng.expovariate(1) * 3e7) * rng.randint(0, 1)  # at the same time quite often
        if any(len(exchange.lines) >= at for at in halts):
            halts.discard(min(halts))
            for price in (-1, 0, 1):
                exchange.tell(7, 0, 0, price, -1, None)
                exchange.time += 300 * 10**9
        _happen(exchange, middle, depth, churn)
    pair = exchange.pair
    pair.message, pair.orderbook = "".join(exchange.lines), "".join(exchange.rows)
    return pair


def _happen(exchange: Exchange, middle: int, depth: int, churn: float) -> None:
    """One thing of all that can happen."""
    rng = exchange.rng
    direction = rng.choice((BUY, SELL))
    own, other = exchange.best(direction), exchange.best(-direction)
    # Each order leaves at the same rate, so that the book neither dies out nor grows without end.
    leave = churn * len(exchange.orders) / (4 * depth)
    weights = {"limit": 0.5, "leave": leave, "market": 0.05, "marketable": 0.03, "hidden": 0.03, "cross": 0.002}
    (what,) = rng.choices(list(weights), list(weights.values()))
    if what == "leave":
        number = rng.choice(list(exchange.orders))
        shares = exchange.remaining(number)
        if shares > 1 and rng.random() < 0.3:
            exchange.take(2, number, rng.randint(1, shares - 1))
        else:
            exchange.take(3, number, shares)
    elif what == "market":
        exchange.send(direction, rng.choice((_size(rng), _size(rng), _size(rng), 60 * depth)), None)
    elif what == "marketable" and other is not None:  # it rests where it is not used up
        exchange.send(direction, rng.randint(1, 900), other + direction * CENT * rng.randint(0, 2))
    elif what == "hidden" and own is not None and other is not None:  # at the middle, or in the spread
        price = (own + other) // 2 if abs(own - other) == CENT else own + direction * CENT
        exchange.tell(5, 0, _size(rng), price, direction, None)
    elif what == "cross":
        exchange.tell(6, -1, 10 * _size(rng), middle, -1, None)
    else:
        reference = other if other is not None else middle + direction * CENT * rng.randint(1, 3)
        # Near the best most often, in the spread if there is room, and far below the view.
        offset = rng.randint(1, 4) if rng.random() < 0.6 else rng.randint(1, 2 * depth)
        exchange.add(direction, reference - direction * CENT * offset, _size(rng))


#: What there is among pairs: deep books, thin ones, messages out of view, a single level, the newer files.
MAKES = {
    "deep": dict(levels=5, depth=14),
    "thin": dict(levels=5, depth=4, churn=0.8),
    "all told": dict(levels=4, depth=12, tell_all=True),
    "one level": dict(levels=1, depth=8),
    "ten levels, 7 columns": dict(levels=10, depth=12, columns=7),
}
PAIRS = [(make, seed) for make in MAKES for seed in (1, 2)]


@functools.cache
def get_pair(make: str, seed: int) -> Pair:
    """One of ``PAIRS``, of some 700 messages, made once."""
    return make_pair(seed, 700, **MAKES[make])
