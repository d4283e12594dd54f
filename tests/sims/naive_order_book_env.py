"""The order-book market as one would write it down: one agent, one order and one sum at a time.

The twin of ``sims.order_book.market``, on top of the plain book and background of ``naive_order_book``, against which
it is compared bit for bit. Given are the parameters of the market, the tables of its flow's laws, and
``streams.philox_words``, which has tests of its own; books that have been warmed up for all are read from the market.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from naive_order_book import BUY, MARKET_SELL, SELL, HawkesFlow, NaiveBook, NaiveMarket, Order, PoissonFlow

from sekai.kernels import maths, streams
from sims.order_book import book as books
from sims.order_book import flows

NONE, LIMIT_BUY, LIMIT_SELL, MARKET_BUY, MARKET_ORDER_SELL, CANCEL = range(6)
MOST = books.MOST_LOTS


def make_flow(params):
    """The plain flow of a market's parameters, those of one row."""
    flow, read = params.flow, flows.read_flow(params.flow)
    offsets = (read.accept_offset, read.drawn_offset[1::2] - 1)
    sizes = (read.accept_size, read.drawn_size[1::2] - 1) if read.has_sizes else None
    factors = dict(theta_factor=params.theta_factor, rate_factor=params.rate_factor)
    if read.excites:
        return HawkesFlow(flow.mu, flow.alpha, flow.beta, flow.theta, offsets, sizes, **factors)
    mu = flow.mu if params.mu is None else params.mu
    return PoissonFlow(read.lam, mu, flow.theta, offsets, sizes, lam_factor=params.lam_factor, **factors)


def walk(nodes, level, least):
    """The numbers of the nodes in the queue of a level, in order; all of them are at least ``least``."""
    k, found = int(nodes[level, books.NEXT]), []
    while k >= least:
        found.append(k)
        k = int(nodes[k, books.NEXT])
    assert k == level
    return found


class NaiveTrader:
    """One agent in a book of its own.

    Args:
        seed: Of the row, a small number: the key of its stream.
        params: ``LimitOrderBookParams`` of that row, all of them numbers.
    """

    def __init__(self, seed, params):
        self.seed, self.params, self.rules = seed, params, params.rules
        self.counter = 0

    # -- beginnings -----------------------------------------------------------------------------------------

    def _empty_book(self, bid, ask):
        rules = self.rules
        return NaiveBook(
            bid, ask, orders=rules.max_orders, ring=rules.ring, slots=rules.slots,
            price_limits=(rules.lowest_price, rules.highest_price), self_trade=rules.self_trade,
        )  # fmt: skip

    def reset(self):
        """An episode from the initial book, or from no order at all, after a warm-up of its own."""
        params, given = self.params, self.params.initial_book
        if self.counter or hasattr(self, "market"):
            self.counter = self.market.counter
        self.counter += 1
        bid, ask = params.start_price, params.start_price + 1
        bids, asks = (given.bids, given.asks) if given else ((), ())
        if bids or asks:
            bid = max(price for price, _ in bids) if bids else min(price for price, _ in asks) - 1
            ask = min(price for price, _ in asks) if asks else bid + 1
        book = self._empty_book(bid, ask)
        for side, orders in ((BUY, bids), (SELL, asks)):
            for price, lots in orders:
                assert book.add(side, price, lots)
        for slot, price, lots in given.own if given else ():
            assert book.add(BUY if price <= bid else SELL, price, lots, slot)
        self.market = NaiveMarket(book, make_flow(params), self.seed, self.counter)
        warm_up = params.warm_up / (params.rate_factor * min(1.0, params.theta_factor))
        if warm_up > 0.0:
            self.market.run(warm_up)
            self._set_clock_back()
        return self._begin()

    def _set_clock_back(self):
        market = self.market
        market.due -= market.clock
        if isinstance(market.flow, HawkesFlow):
            market.flow.last -= market.clock
        market.clock, market.messages = 0.0, 0

    def adopt(self, book, clock, counter):
        """An episode from what the market has begun with: its book, its clock, and its stream's counter."""
        rules, nodes = self.rules, book.nodes.reshape(-1, books.WORDS)
        plain, base = self._empty_book(int(book.bid), int(book.ask)), rules.ring + rules.slots
        bid, ask, made = plain.bid, plain.ask, {}
        for price in range(ask - rules.ring // 2 + 1, bid + rules.ring // 2):
            for k in walk(nodes, price % rules.ring, rules.ring):
                order = Order(BUY if price <= bid else SELL, price, int(nodes[k, books.LOTS]))
                plain.queues[order.side].setdefault(price, []).append(order)
                made[k] = order
        assert set(made) == {base + j for j in range(int(book.count))}  # no own order yet
        plain.pool = [made[base + j] for j in range(len(made))]
        for how, amount in (("orders", len(made)), ("lots", sum(order.lots for order in made.values()))):
            plain.tallies[f"{how}_in"] = amount
        self.market = NaiveMarket(plain, make_flow(self.params), self.seed, counter)
        if isinstance(self.market.flow, HawkesFlow):
            self.market.flow.excitation = clock.excitation.tolist()
            self.market.flow.last = float(clock.excited)
        self.market.due, self.market.rate = float(clock.due), float(clock.rate)
        return self._begin()

    def _begin(self):
        params, book = self.params, self.market.book
        came = {
            how: sum(1 if how == "orders" else order.lots for order in self._resting()) for how in ("orders", "lots")
        }
        book.tallies = dict.fromkeys(book.tallies, 0) | {f"{how}_in": amount for how, amount in came.items()}
        self.came = came
        if self.rules.record_messages:
            resting = sorted(self._resting(), key=lambda order: order.price)
            self.ids = {order: 1 + k for k, order in enumerate(resting)}
            # Each change of the book, (time, what, id, lots, price, side), and the levels after it; first those before.
            self.told = [(None, book.levels())]
            book.hear = self._hear
        self.cash, self.inventory, self.turnover = 0.0, 0, 0.0
        self.exact = Fraction(0)  # the cash, without rounding
        if params.actions == "execution":
            self.inventory = params.quantity if params.direction == "sell" else -params.quantity
        self.pending, self.last, self.drawn = [], 0.0, 0
        self.upper, self.elapsed = self.market.counter, 0
        self._begin_step()
        self._mark()
        self.arrival, self.marked = self.mid, self.wealth
        return self.observation(), self.info(is_step=False)

    def _hear(self, what, order, lots):
        number = self.ids.setdefault(order, 1 + len(self.ids))
        what = "reduced" if what == "cancelled" and order.lots else what
        message = (self.market.clock, what, number, lots, order.price, order.side)
        self.told.append((message, self.market.book.levels()))

    def _resting(self):
        return [order for side in (BUY, SELL) for queue in self.market.book.queues[side].values() for order in queue]

    # -- the account ----------------------------------------------------------------------------------------

    def _begin_step(self):
        self.bought = self.sold = self.cut = self.dropped = 0
        self.fees = 0.0

    def _mark(self):
        book = self.market.book
        self.mid = 0.5 * self.params.tick_size * float(book.bid + book.ask)
        self.wealth = self.cash + float(self.inventory) * self.mid

    def _trade(self, side, fills, fee):
        lots, value = sum(fill.lots for fill in fills), sum(fill.lots * fill.price for fill in fills)
        if not lots:
            return
        self.exact += Fraction(self.params.tick_size) * value * (1 if side == SELL else -1)
        money = self.params.tick_size * float(value)
        fees = fee * money + self.params.fee_per_lot * float(lots)
        self.turnover += money
        self.fees += fees
        self.exact -= Fraction(fee) * Fraction(self.params.tick_size) * value + Fraction(self.params.fee_per_lot) * lots
        if side == BUY:
            self.bought += lots
            self.inventory += lots
            self.cash -= money + fees
        else:
            self.sold += lots
            self.inventory -= lots
            self.cash += money - fees

    def _allowed(self, side, lots, slot=None):
        """Lots that keep the inventory within its limit even if all own orders of that side are filled."""
        if self.params.max_inventory is None:
            return lots
        held = self.inventory if side == BUY else -self.inventory
        own = [order for order in self.market.book.slots if order and order.side == side and order.slot != slot]
        room = max(0, self.params.max_inventory - held - sum(order.lots for order in own))
        self.cut += max(0, lots - room)
        return min(lots, room)

    def _run(self, until, messages):
        events = self.market.run(until, messages)
        for side in (BUY, SELL):
            fills = [
                fill for event in events for fill in event.fills
                if fill.slot is not None and (event.kind == MARKET_SELL) == (side == BUY)
            ]  # fmt: skip
            self._trade(side, fills, self.params.maker_fee)

    # -- what an agent does ---------------------------------------------------------------------------------

    def _at_market(self, side, lots):
        lots = self._allowed(side, lots)
        if lots:
            self._trade(side, self.market.book.market_order(side, lots), self.params.taker_fee)

    def _at_limit(self, slot, side, price, lots):
        book = self.market.book
        if lots:
            lots = self._allowed(side, lots, slot)
        own = book.own(slot)
        if own and own[:2] == (side, price) and 0 < lots <= own[2]:
            book.replace(slot, price, lots)
            return
        book.cancel(slot)
        if lots:
            self._trade(side, book.place(slot, side, price, lots), self.params.taker_fee)

    def _carry_out(self, action):
        book, params = self.market.book, self.params
        if params.actions == "quotes":
            bid_offset, ask_offset, size = (int(each) for each in action)
            bid, ask = book.ask - bid_offset, book.bid + ask_offset
            if bid_offset and ask_offset and bid >= ask:
                bid = (bid + ask) // 2
                ask = bid + 1
            self._at_limit(0, BUY, bid, 1 + size if bid_offset else 0)
            self._at_limit(1, SELL, ask, 1 + size if ask_offset else 0)
        elif params.actions == "orders":
            kind, offset, size, slot = (int(each) for each in action)
            if kind == LIMIT_BUY:
                self._at_limit(slot, BUY, book.ask - offset, 1 + size)
            elif kind == LIMIT_SELL:
                self._at_limit(slot, SELL, book.bid + offset, 1 + size)
            elif kind == CANCEL:
                book.cancel(slot)
            elif kind != NONE:
                self._at_market(BUY if kind == MARKET_BUY else SELL, 1 + size)
        else:
            at_market, at_best = (float(share) for share in action)
            side = SELL if self.inventory > 0 else BUY
            self._at_market(side, round(at_market * abs(self.inventory)))
            lots = round(at_best * abs(self.inventory))
            self._at_limit(0, side, book.ask if side == SELL else book.bid, min(lots, MOST))

    def _send(self, action):
        params, delay = self.params, self.params.latency
        if params.latency_law != "fixed":
            key, counter, upper = (np.uint64(each) for each in (self.seed, self.drawn, self.upper))
            uniform = float(streams.uniform_of(streams.philox_words(key, counter, upper)[0]))
            delay *= -float(maths.log(uniform)) if params.latency_law == "exponential" else 2.0 * uniform
            self.drawn += 1
        if len(self.pending) == params.max_pending:
            self.dropped += 1
            return
        self.last = max(self.last, self.market.clock + delay)
        self.pending.append((self.last, action))

    # -- steps ----------------------------------------------------------------------------------------------

    def step(self, action):
        """Returns the observation, the reward, whether it terminated and was truncated, and the info."""
        params, market, book = self.params, self.market, self.market.book
        self._begin_step()
        began, messages, tallies = market.clock, market.messages, dict(book.tallies)
        self._send(action)
        end, soon, goal = math.inf, math.inf, market.messages + params.step_messages
        if params.step_by == "time":
            end, goal = float(self.elapsed + 1) * params.step_time, math.inf
            soon = (float(self.elapsed + 1) + 1e-9) * params.step_time
        while True:
            arrives = self.pending[0][0] if self.pending else math.inf
            arrives = min(arrives, end) if arrives <= soon else arrives
            until = min(end, arrives)
            if until > market.clock and market.messages < goal:
                self._run(until, goal - market.messages)
            if arrives > market.clock or not self.pending:
                break
            self._carry_out(self.pending.pop(0)[1])
        self.elapsed += 1
        over = self.elapsed == params.n_steps
        done = params.actions == "execution" and self.inventory == 0
        if over and params.at_end == "close":
            for slot in range(self.rules.slots):
                book.cancel(slot)
            side = SELL if self.inventory > 0 else BUY
            self._trade(side, book.market_order(side, abs(self.inventory)), params.taker_fee)
        self._mark()
        self.messages = market.messages - messages
        self.refused, self.evicted = (
            book.tallies[f"orders_{how}"] - tallies[f"orders_{how}"] for how in ("refused", "evicted")
        )
        price = self.mid
        if params.reward == "shortfall" and not (over and params.at_end == "mark"):
            price = self.arrival
        worth = self.cash + float(self.inventory) * price
        reward = worth - self.marked
        self.marked = worth
        if params.reward == "inventory_penalty":
            held = float(self.inventory)
            reward -= params.inventory_penalty * held * held * (market.clock - began)
        book.check()
        return self.observation(), reward, done, over, self.info()

    # -- what is seen ---------------------------------------------------------------------------------------

    def info(self, is_step=True):
        book = self.market.book
        told = dict(
            mid_price=self.mid, spread=book.ask - book.bid, cash=self.cash, inventory=self.inventory, wealth=self.wealth
        )
        if is_step:
            names = ("bought", "sold", "fees", "messages", "refused", "evicted", "cut", "dropped")
            told |= {name: getattr(self, name) for name in names}
        return told

    def observation(self):
        params, book = self.params, self.market.book
        seen = []
        for side, levels in zip((BUY, SELL), book.levels(), strict=True):
            best, other, sign = book.best[side], book.best[1 - side], 1 if side == BUY else -1
            if params.levels == "ticks":
                prices = [best - sign * away for away in range(params.depth)]
                prices = [price for price in prices if abs(price - other) < self.rules.ring // 2]
                levels = [(price, book.volume(side, price)) for price in prices]
            shown = levels[: params.depth]
            nothing = [0] * (params.depth - len(shown))
            seen += [*(abs(price - other) for price, _ in shown), *nothing, *(lots for _, lots in shown), *nothing]
        bids, asks = np.float32(book.volume(BUY, book.bid)), np.float32(book.volume(SELL, book.ask))
        seen += [book.ask - book.bid, (bids - asks) / (bids + asks) if bids + asks else 0]
        for slot in range(self.rules.slots):
            own = book.own(slot)
            if own:
                side, price, lots = own
                seen += [(book.ask if side == BUY else book.bid) - price, lots, book.queue_ahead(slot)]
            else:
                seen += [0, 0, 0]
        unit = params.quantity if params.actions == "execution" else params.max_inventory
        left = np.float32(params.n_steps - self.elapsed) / np.float32(params.n_steps)
        held = np.float32(self.inventory)
        return np.array([*seen, held if unit is None else held / np.float32(unit), left], dtype=np.float32)
