"""The order book and its background flow as one would write them down: lists of orders, one event at a time.

The twin of ``sims.order_book``, against which it is compared bit for bit. Taken as given are ``streams.philox``,
``streams.uniform_of``, ``maths.log`` and ``maths.exp``, which have tests of their own; everything else is done by hand.
Prices are integer ticks, lots are integers, times and rates are floats (float64) in the order of operations that the
market has. The tables of the flow's laws (see ``law_of_tables``) are given, since many tables have one law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sekai.kernels import maths, streams

BUY, SELL = 0, 1
BUY_LIMIT, SELL_LIMIT, MARKET_SELL, MARKET_BUY, CANCEL, NOTHING = range(6)
MOST_LOTS = 65_535  # a level
WORD = 2**32 - 1
TALLIES = ("in", "refused", "cancelled", "executed", "evicted")


@dataclass(eq=False)
class Order:
    """A resting order; ``slot`` is None for one of the background."""

    side: int
    price: int
    lots: int
    slot: int | None = None


class Fill(NamedTuple):
    """What an incoming order took from a resting one, whose owner ``slot`` is (None: the background)."""

    price: int
    lots: int
    slot: int | None
    own_taker: bool


class NaiveBook:
    """Price-time priority, with a bounded number of background orders and of prices.

    Args:
        bid, ask: The references to begin with, both sides being empty.
        orders: The most background orders.
        ring: Prices in reach: resting orders are less than half of it from the opposite best.
        slots: Own orders.
        price_limits: The lowest and the highest price that an order may rest at.
        self_trade: ``cancel_resting`` or ``cancel_incoming``.
    """

    def __init__(self, bid, ask, *, orders=128, ring=128, slots=4, price_limits=None, self_trade="cancel_resting"):
        assert bid < ask and self_trade in ("cancel_resting", "cancel_incoming")
        self.best = {BUY: bid, SELL: ask}
        self.orders, self.ring, self.price_limits, self.self_trade = orders, ring, price_limits, self_trade
        self.queues = {BUY: {}, SELL: {}}  # side -> price -> the orders there, the first to be filled first
        self.pool = []  # the background's orders
        self.slots = [None] * slots
        self.tallies = {f"{what}_{how}": 0 for what in ("orders", "lots") for how in TALLIES}
        self.hear = lambda what, order, lots: None  # told whatever joins a queue, and leaves one

    # -- what can be seen -----------------------------------------------------------------------------------

    @property
    def bid(self):
        return self.best[BUY]

    @property
    def ask(self):
        return self.best[SELL]

    @property
    def n(self):
        return len(self.pool)

    def empty(self, side):
        return not self.queues[side]

    def levels(self):
        """The (price, lots) of each occupied level, from the best: of the bids, and of the asks."""
        bids, asks = (
            [(price, self.volume(side, price)) for price in sorted(self.queues[side], reverse=side == BUY)]
            for side in (BUY, SELL)
        )
        return bids, asks

    def volume(self, side, price):
        return sum(order.lots for order in self.queues[side].get(price, []))

    def queue(self, price):
        """The (lots, slot) of the orders at a price, the first in time first; a slot of None is the background."""
        both = self.queues[BUY].get(price, []) + self.queues[SELL].get(price, [])
        return [(order.lots, order.slot) for order in both]

    def own(self, slot):
        """The (side, price, lots) of an own order, or None."""
        order = self.slots[slot]
        return order and (order.side, order.price, order.lots)

    def queue_ahead(self, slot):
        """The lots before an own order in its queue."""
        order = self.slots[slot]
        queue = self.queues[order.side][order.price]
        return sum(before.lots for before in queue[: queue.index(order)])

    def check(self):
        """Whatever has happened, this holds."""
        assert self.bid < self.ask
        resting = [order for side in (BUY, SELL) for queue in self.queues[side].values() for order in queue]
        for side in (BUY, SELL):
            for price, queue in self.queues[side].items():
                assert queue and all((order.side, order.price) == (side, price) for order in queue)
                assert sum(order.lots for order in queue) <= MOST_LOTS
                assert abs(price - self.best[1 - side]) < self.ring // 2
        if self.queues[BUY]:
            assert self.bid == max(self.queues[BUY])
        if self.queues[SELL]:
            assert self.ask == min(self.queues[SELL])
        assert all(order.lots > 0 for order in resting)
        assert {id(order) for order in resting if order.slot is None} == {id(order) for order in self.pool}
        assert len({id(order) for order in self.pool}) == len(self.pool) <= self.orders
        own = [order for order in resting if order.slot is not None]
        assert len(own) == len([order for order in self.slots if order is not None])
        assert all(self.slots[order.slot] is order for order in own)
        for what, still in (("orders", len(resting)), ("lots", sum(order.lots for order in resting))):
            came, *went = (self.tallies[f"{what}_{how}"] for how in TALLIES)
            assert came == still + sum(went), (what, came, still, went)

    # -- what changes it ------------------------------------------------------------------------------------

    def add(self, side, price, lots, slot=None):
        """An order joins the tail of the queue at its price. Whether it did: otherwise it is refused.

        Into the prices of an empty opposite side it may go, whose reference then gives way.
        """
        assert lots > 0
        opposite, sign = 1 - side, 1 if side == BUY else -1
        crosses = sign * (price - self.best[opposite]) >= 0
        assert not crosses or self.empty(opposite)
        self._count("in", lots)
        low, high = self.price_limits or (price, price)
        if (
            (slot is None and self.n == self.orders)
            or self.volume(side, price) + lots > MOST_LOTS
            or not low <= price <= high
            or abs(self.best[opposite] - price) >= self.ring // 2
        ):
            self._count("refused", lots)
            return False
        order = Order(side, price, lots, slot)
        first = self.empty(side)
        self.queues[side].setdefault(price, []).append(order)
        if slot is None:
            self.pool.append(order)
        else:
            assert self.slots[slot] is None
            self.slots[slot] = order
        self.hear("in", order, lots)
        if first or sign * (price - self.best[side]) > 0:
            self._move_best(side, price)
        if crosses:
            self._move_best(opposite, price + sign)
        return True

    def take(self, side, lots, *, own=False, limit=None):
        """A market order takes from the bids or the asks, up to a limit price. The fills, and the lots left to it."""
        fills = []
        while lots and not self.empty(side):
            price = self.best[side]
            if limit is not None and (price > limit if side == SELL else price < limit):
                break
            head = self.queues[side][price][0]
            if own and head.slot is not None:
                if self.self_trade == "cancel_incoming":
                    return fills, 0
                self.remove(head)
                continue
            taken = min(lots, head.lots)
            lots -= taken
            self.tallies["lots_executed"] += taken
            self.tallies["orders_executed"] += taken == head.lots
            fills.append(Fill(price, taken, head.slot, own))
            self._leave(head, "executed", taken)
        return fills, lots

    def remove(self, order):
        """An order is cancelled whole."""
        self._count("cancelled", order.lots)
        self._leave(order, "cancelled", order.lots)

    # -- own orders -----------------------------------------------------------------------------------------

    def place(self, slot, side, price, lots):
        """An own limit order: it takes what it crosses, and what is left of it rests. The fills."""
        assert self.slots[slot] is None and lots > 0
        opposite = 1 - side
        crosses = price >= self.ask if side == BUY else price <= self.bid
        fills = []
        if crosses and not self.empty(opposite):
            fills, lots = self.take(opposite, lots, own=True, limit=price)
        if lots:
            self.add(side, price, lots, slot)
        return fills

    def market_order(self, side, lots):
        """An own market order, to buy or to sell. The fills."""
        return self.take(1 - side, lots, own=True)[0]

    def cancel(self, slot):
        if self.slots[slot] is not None:
            self.remove(self.slots[slot])

    def replace(self, slot, price, lots):
        """Another price or size for an own order, which keeps its place only if nothing but its size falls."""
        order = self.slots[slot]
        if order is None:
            return []
        if price == order.price and lots <= order.lots:
            self.tallies["lots_cancelled"] += order.lots - lots
            if lots < order.lots:
                self._leave(order, "cancelled", order.lots - lots)
            return []
        self.remove(order)
        return self.place(slot, order.side, price, lots)

    # -- within ---------------------------------------------------------------------------------------------

    def _count(self, how, lots):
        self.tallies[f"orders_{how}"] += 1
        self.tallies[f"lots_{how}"] += lots

    def _leave(self, order, why, lots):
        """Lots have left an order; it goes with all of them, and with the last order of a best level the best price."""
        side, price = order.side, order.price
        order.lots -= lots
        if order.lots:
            self.hear(why, order, lots)
            return
        self.queues[side][price].remove(order)
        if order.slot is None:
            last = self.pool.pop()
            if last is not order:
                self.pool[self.pool.index(order)] = last
        else:
            self.slots[order.slot] = None
        was_last = not self.queues[side][price]
        if was_last:
            del self.queues[side][price]
        self.hear(why, order, lots)
        if was_last and price == self.best[side] and self.queues[side]:
            self._move_best(side, max(self.queues[BUY]) if side == BUY else min(self.queues[SELL]))

    def _move_best(self, side, price):
        """Another best price; what is then too far from it on the other side is evicted, the nearest first."""
        self.best[side] = price
        reach = self.ring // 2
        if side == BUY:
            far = sorted(p for p in self.queues[SELL] if p >= price + reach)
        else:
            far = sorted((p for p in self.queues[BUY] if p <= price - reach), reverse=True)
        for level in far:
            for order in list(self.queues[1 - side][level]):
                self._count("evicted", order.lots)
                self._leave(order, "evicted", order.lots)
        if self.empty(1 - side):  # its reference is not left behind
            edge = price + reach - 1 if side == BUY else price - reach + 1
            self.best[1 - side] = min(self.ask, edge) if side == BUY else max(self.bid, edge)


# -- laws by tables ----------------------------------------------------------------------------------------


def look_up(word, accept, alias):
    """An index by the upper bits of a word, or its alias, by the others (Walker 1977)."""
    bits = len(accept).bit_length() - 1
    assert len(accept) == 2**bits and bits > 0
    slot = word >> (32 - bits)
    rest = (word << bits) & WORD
    return slot if rest < int(accept[slot]) else int(alias[slot])


def law_of_tables(accept, alias):
    """The exact probability of each index that ``look_up`` gives, over all words."""
    size = len(accept)
    bits = size.bit_length() - 1
    law = [Fraction(0)] * size
    for slot in range(size):
        # The rests are the multiples of 2**bits.
        kept = Fraction(-(-int(accept[slot]) // 2**bits), 2 ** (32 - bits))
        law[slot] += kept / size
        law[int(alias[slot])] += (1 - kept) / size
    return law


def check_tables(accept, alias, weights):
    """Given tables have the law that is proportional to weights, to 2**-26 at each index."""
    assert len(accept) == len(alias) >= max(2, len(weights))
    padded = [Fraction(float(w)) for w in weights] + [Fraction(0)] * (len(accept) - len(weights))
    total = sum(padded)
    for index, (got, weight) in enumerate(zip(law_of_tables(accept, alias), padded, strict=True)):
        error = abs(got - weight / total)
        assert error <= Fraction(1, 2**26), f"index {index}: probability off by {float(error):.3g}"


def make_tables(weights, size=None):
    """Some tables for a law, of the least power of two or of a given size (Vose 1991)."""
    size = size or max(2, 2 ** math.ceil(math.log2(len(weights))))
    total = math.fsum(weights)
    share = [w / total * size for w in weights] + [0.0] * (size - len(weights))
    accept, alias = np.full(size, WORD, np.uint32), np.arange(size)
    poor = [k for k in range(size) if share[k] < 1.0]
    rich = [k for k in range(size) if share[k] >= 1.0]
    while poor and rich:
        k, giver = poor.pop(), rich[-1]
        accept[k], alias[k] = int(share[k] * WORD), giver
        share[giver] -= 1.0 - share[k]
        if share[giver] < 1.0:
            poor.append(rich.pop())
    return accept, alias


# -- flows -------------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """An event of the background; it is a message if it has changed the book."""

    time: float
    kind: int
    message: bool
    fills: list


class Flow:
    """What both kinds have in common: where orders go, how large they are, which are cancelled.

    Args:
        offsets: The tables (accept, alias) of the offsets from the opposite best, from 1.
        theta: The rate at which an order is cancelled, or one for each distance, from 1.
        sizes: The tables of the lots, from 1; None for one lot.
    """

    def __init__(self, offsets, theta, sizes):
        self.offsets, self.sizes = offsets, sizes
        self.thetas = [float(theta)] if np.ndim(theta) == 0 else [float(each) for each in theta]
        most = max(self.thetas)
        self.accept_theta = [math.floor(each / most * 2.0**32) if most else 0 for each in self.thetas]

    def change(self, book, kind, words):
        """Do what an event asks for. Whether it was a message, and the fills."""
        _, where, _, which = words
        lots = 1 if self.sizes is None else 1 + look_up(which, *self.sizes)
        if kind in (BUY_LIMIT, SELL_LIMIT):
            offset = 1 + look_up(where, *self.offsets)
            if kind == BUY_LIMIT:
                return book.add(BUY, book.ask - offset, lots), []
            return book.add(SELL, book.bid + offset, lots), []
        if kind in (MARKET_SELL, MARKET_BUY):
            fills, _ = book.take(BUY if kind == MARKET_SELL else SELL, lots)
            return bool(fills), fills
        if kind == CANCEL:
            order = book.pool[(where * book.n) >> 32]
            if len(self.thetas) > 1:
                distance = min(abs(order.price - book.best[1 - order.side]), len(self.thetas))
                if which >= self.accept_theta[distance - 1]:
                    return False, []
            book.remove(order)
            return True, []
        return False, []


class PoissonFlow(Flow):
    """Independent flows at given rates.

    Args:
        lam: The rates by offset, one side's, or their sum.
        mu: The rate of market orders, one side's.
        theta, offsets, sizes: See ``Flow``.
        lam_factor, theta_factor, rate_factor: On all ``lam``, all ``theta``, all rates.
    """

    def __init__(self, lam, mu, theta, offsets, sizes=None, *, lam_factor=1.0, theta_factor=1.0, rate_factor=1.0):
        super().__init__(offsets, theta, sizes)
        total = float(lam) if np.ndim(lam) == 0 else sum(float(each) for each in lam)
        self.limit = rate_factor * lam_factor * total
        self.market = rate_factor * mu
        self.cancel = rate_factor * theta_factor * max(self.thetas)

    def rate(self, n):
        return (2.0 * self.limit + 2.0 * self.market) + self.cancel * n

    def kind(self, x, n, time):
        """What an event is, by a number below the rate."""
        if x < self.limit:
            return BUY_LIMIT
        if x < 2.0 * self.limit:
            return SELL_LIMIT
        if x < 2.0 * self.limit + self.market:
            return MARKET_SELL
        if x < 2.0 * self.limit + 2.0 * self.market:
            return MARKET_BUY
        return CANCEL


class HawkesFlow(Flow):
    """Limit and market orders that excite each other; cancels as ever. By thinning (Ogata 1981).

    Args:
        mu: The four base rates: buy limits, sell limits, market sells, market buys.
        alpha: What an event of stream ``j`` adds to the rate of stream ``k``: ``alpha[k][j]``.
        beta: The rate at which that decays.
        theta, offsets, sizes: See ``Flow``.
        theta_factor, rate_factor: On all ``theta``, all rates.
        excitation: What the rates are above their bases at the time ``start``.
    """

    def __init__(
        self, mu, alpha, beta, theta, offsets, sizes=None, *,
        theta_factor=1.0, rate_factor=1.0, excitation=(0.0, 0.0, 0.0, 0.0), start=0.0,
    ):  # fmt: skip
        super().__init__(offsets, theta, sizes)
        self.scale, self.mu = rate_factor, [float(each) for each in mu]
        self.alpha = [[float(each) for each in row] for row in alpha]
        self.beta = rate_factor * beta
        self.cancel = rate_factor * theta_factor * max(self.thetas)
        self.excitation, self.last = [float(each) for each in excitation], start

    def intensities(self):
        """The four rates right after the last event that was proposed."""
        return [self.scale * (mu + above) for mu, above in zip(self.mu, self.excitation, strict=True)]

    def rate(self, n):
        a, b, c, d = self.intensities()
        return (((a + b) + c) + d) + self.cancel * n

    def kind(self, x, n, time):
        """What an event is, by a number below the rate; the excitations move on to it, and past it."""
        decay = float(maths.exp(-self.beta * (time - self.last)))
        self.excitation = [above * decay for above in self.excitation]
        self.last = time
        reached = 0.0
        for kind, intensity in enumerate(self.intensities()):
            reached += intensity
            if x < reached:
                self.excitation = [above + row[kind] for above, row in zip(self.excitation, self.alpha, strict=True)]
                return kind
        return CANCEL if x < reached + self.cancel * n else NOTHING


class NaiveMarket:
    """A book and its background flow in continuous time.

    Args:
        book, flow: See there.
        key: Of the stream that all randomness comes from.
        counter: The block of its next event.
        clock: The time.
    """

    def __init__(self, book, flow, key, counter=0, clock=0.0):
        self.book, self.flow, self.key, self.counter, self.clock = book, flow, key, counter, clock
        self.messages = 0
        self._wait()

    def _words(self):
        """The random words of the event under way."""
        return [int(word) for word in streams.philox(np.uint64(self.key), np.uint64(self.counter))]

    def _wait(self):
        """When the next event is due."""
        rate = self.rate = self.flow.rate(self.book.n)
        uniform = np.float32(streams.uniform_of(np.uint32(self._words()[2])))
        exponential = -float(np.float32(maths.log(uniform)))
        self.due = self.clock + exponential / rate if rate else math.inf

    def next_event(self):
        """The event that is due happens, now."""
        words, n = self._words(), self.book.n
        self.clock = self.due
        x = (words[0] + 0.5) * 2.0**-32 * self.flow.rate(n)
        kind = self.flow.kind(x, n, self.clock)
        message, fills = self.flow.change(self.book, kind, words)
        self.messages += message
        self.counter += 1
        self._wait()
        return Event(self.clock, kind, message, fills)

    def run(self, until=math.inf, messages=math.inf):
        """The events up to a time, or up to the last of a number of messages, whichever comes first."""
        events, last = [], self.messages + messages
        rate = self.flow.rate(self.book.n)
        if rate != self.rate:  # by own orders; what is left of the wait is as long as the new rate makes it
            self.due = self.clock + (self.due - self.clock) * self.rate / rate if rate else math.inf
            self.rate = rate
        while self.messages < last:
            if self.due > until or self.due == math.inf:
                self.clock = until if until < math.inf else self.clock
                break
            events.append(self.next_event())
        return events
