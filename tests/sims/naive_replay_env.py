"""``LimitOrderBook-v0`` with a tape as one would write it down: every row is looked at, every order is an object.

The twin of ``sims.order_book.replay``, against which it is compared bit for bit; it takes nothing from there. Prices
are integer ticks, lots are shares, and money is float64 in the order of operations that the market has.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sims.data.tape import NO_ASK

BUY, SELL = 0, 1


@dataclass(eq=False)
class Own:
    """An own order that rests before message ``since``; ``ahead`` is None as long as its price was never in view."""

    slot: int
    side: int
    price: int
    lots: int
    since: int
    rank: int
    ahead: int | None


def better(side, price, than):
    """By how much a price comes before another one on a side."""
    return price - than if side == BUY else than - price


class Market:
    """A file from some row on, and what an agent does in it."""

    def __init__(self, tape, row, self_trade):
        self.tape, self.row, self.self_trade = tape, row, self_trade
        self.own: list[Own] = []
        self.taken = {}  # (side, price): [lots, since]
        self.placed = 0
        self.fills = [[0, 0], [0, 0]]
        self.refused = 0
        self.best = [self._first(row, "bid"), self._first(row, "ask")]
        bid, ask = self.file(row, BUY), self.file(row, SELL)
        self.best[SELL] = self.best[SELL] if ask else max(self.best[SELL], self.best[BUY] + 1)
        self.best[BUY] = self.best[BUY] if bid else min(self.best[BUY], self.best[SELL] - 1)

    def _first(self, row, side):
        """The best price of a side; where it is empty the last one before, or the first one after."""
        prices = (getattr(self.tape, f"{side}_price")[:, 0] // self.tape.tick).tolist()
        there = (getattr(self.tape, f"{side}_size")[:, 0] > 0).tolist()
        rows = [*range(row, -1, -1), *range(row + 1, len(there))]
        return next((prices[k] for k in rows if there[k]), 0)

    # -- what is there --------------------------------------------------------------------------------------

    def file(self, row, side):
        """The levels that a row displays."""
        of = ("bid", "ask")[side]
        prices, lots = (getattr(self.tape, f"{of}_{what}")[row].tolist() for what in ("price", "size"))
        return [(p // self.tape.tick, n) for p, n in zip(prices, lots, strict=True) if abs(p) != NO_ASK]

    def displayed(self, row, side, price):
        """Lots that a row displays at a price, None where that is out of view."""
        levels = self.file(row, side)
        if price in dict(levels):
            return dict(levels)[price]
        return 0 if len(levels) < self.tape.levels or better(side, price, levels[-1][0]) > 0 else None

    def in_view(self, side):
        """The levels of a side without what was taken, the best first."""
        return [(p, n - self.took(side, p)) for p, n in self.file(self.row, side) if n > self.took(side, p)]

    def took(self, side, price):
        return self.taken.get((side, price), (0, 0))[0]

    def queue(self, side):
        """Own orders of a side in the order of execution."""
        orders = [each for each in self.own if each.side == side]
        return sorted(orders, key=lambda each: (-better(side, each.price, 0), each.rank))

    def at(self, slot):
        return next((each for each in self.own if each.slot == slot), None)

    def lots_at(self, side, price):
        own = sum(each.lots for each in self.own if each.side == side and each.price == price)
        return own + dict(self.in_view(side)).get(price, 0)

    def levels(self, side):
        prices = {p for p, _ in self.in_view(side)} | {each.price for each in self.own if each.side == side}
        return [(p, self.lots_at(side, p)) for p in sorted(prices, reverse=side == BUY)]

    def ahead(self, order):
        if order.ahead is None:
            return -1
        same = [each for each in self.queue(order.side) if each.price == order.price and each.rank < order.rank]
        return order.ahead + sum(each.lots for each in same)

    # -- what the agent does --------------------------------------------------------------------------------

    def look(self):
        """The best prices; a level that has grown out of view fills an own order of the other side first."""
        crossing = True
        while crossing:
            crossing = False
            for side in (BUY, SELL):
                file, own = self.in_view(side), self.queue(1 - side)
                if file and own and better(side, file[0][0], own[0].price) >= 0:
                    lots = min(file[0][1], own[0].lots)
                    self.fill(own[0], lots)
                    self.note(side, file[0][0], lots, self.row + 1)
                    crossing = True
                    break
        bids, asks = self.levels(BUY), self.levels(SELL)
        if bids:
            self.best[BUY] = bids[0][0]
        if asks:
            self.best[SELL] = asks[0][0]
        if bids and not asks:
            self.best[SELL] = max(self.best[SELL], self.best[BUY] + 1)
        if asks and not bids:
            self.best[BUY] = min(self.best[BUY], self.best[SELL] - 1)

    def fill(self, order, lots):
        order.lots -= lots
        self.fills[order.side][0] += lots
        self.fills[order.side][1] += lots * order.price
        if order.lots == 0:
            self.own.remove(order)

    def note(self, side, price, lots, since):
        self.taken[side, price] = [self.took(side, price) + lots, since]

    def take(self, side, lots, worst=None):
        """An own order takes from the bids or the asks: lots, their value, and what is left of it."""
        taken = value = 0
        while lots:
            file, own = self.in_view(side), self.queue(side)
            meets_own = bool(own) and (
                not file
                or better(side, own[0].price, file[0][0]) > 0
                or (own[0].price == file[0][0] and own[0].ahead == 0)
            )
            if not (file or own):
                break
            price = own[0].price if meets_own else file[0][0]
            if worst is not None and better(side, worst, price) > 0:
                break
            if meets_own and self.self_trade == "cancel_incoming":
                lots = 0
                break
            self.best[side] = price
            if meets_own:
                self.own.remove(own[0])
                continue
            amount = min(lots, file[0][1])
            if own and own[0].price == price:
                amount = min(amount, own[0].ahead)
            self.note(side, price, amount, self.row + 1)
            for each in own:
                if each.price == price:
                    each.ahead -= amount
            taken, value, lots = taken + amount, value + amount * price, lots - amount
        self.look()
        return taken, value, lots

    def place(self, slot, side, price, lots):
        taken = value = 0
        if better(side, price, self.best[1 - side]) >= 0:
            taken, value, lots = self.take(1 - side, lots, price)
        if lots:
            against = self.file(self.row, 1 - side)
            is_beyond = len(against) == self.tape.levels and better(side, price, against[-1][0]) > 0
            if is_beyond or price < 1:
                self.refused += 1
            else:
                there = self.displayed(self.row, side, price)
                ahead = None if there is None else there - self.took(side, price)
                self.own.append(Own(slot, side, price, lots, self.row + 1, self.placed, ahead))
                self.placed += 1
                self.look()
        return taken, value

    def cancel(self, slot):
        if self.at(slot):
            self.own.remove(self.at(slot))
            self.look()

    def replace(self, slot, side, price, lots):
        order = self.at(slot)
        if order and (order.side, order.price) == (side, price) and 0 < lots <= order.lots:
            order.lots = lots
            return 0, 0
        self.cancel(slot)
        return self.place(slot, side, price, lots) if lots else (0, 0)

    # -- what the file does ---------------------------------------------------------------------------------

    def apply(self):
        """The next message."""
        self.row = k = self.row + 1
        kind, size, ref = (int(getattr(self.tape, name)[k]) for name in ("kind", "size", "ref"))
        side = BUY if self.tape.direction[k] == 1 else SELL
        at = Fraction(int(self.tape.price[k]), self.tape.tick)
        left = size
        for order in self.queue(1 - side if kind == 1 else side) if kind in (1, 4, 5) else ():
            ahead = better(side, order.price, at)  # by how much it comes before the message's order
            if kind == 1:
                is_filled = better(side, at, order.price) >= 0
            elif kind == 5:
                is_filled = ahead >= 0
            else:
                is_filled = ahead > 0 or (ahead == 0 and (ref >= order.since or order.ahead == 0))
            if is_filled:
                order.ahead = 0
                lots = min(left, order.lots)
                left -= lots
                if lots:
                    self.fill(order, lots)
        if kind == 1 and left < size:
            self.note(side, int(at), size - left, k + 1)
        if kind in (2, 3, 4):
            self.leave(k, kind, side, at, size, ref)
        for (of, price), entry in list(self.taken.items()):
            there = self.displayed(k, of, price)
            entry[0] = entry[0] if there is None else min(entry[0], there)
            if not entry[0]:
                del self.taken[of, price]
        for order in self.own:
            there = self.displayed(k, order.side, order.price)
            if there is not None:
                there -= self.took(order.side, order.price)
                order.ahead = there if order.ahead is None else min(order.ahead, there)

    def leave(self, k, kind, side, at, size, ref):
        def was_there(since):
            if kind == 4 or 0 <= ref < since:
                return True
            return ref < 0 and all(self.displayed(j, side, at) is not None for j in range(since - 1, k))

        entry = self.taken.get((side, at))
        if entry and was_there(entry[1]):
            if ref >= entry[1]:  # all that were before it have gone
                entry[0] = 0
            else:
                gone = min(size, entry[0])
                entry[0] -= gone
                size -= gone
        for order in self.own:
            if order.side == side and order.price == at and order.ahead is not None and was_there(order.since):
                order.ahead = max(order.ahead - size, 0)


@dataclass
class Settings:
    """The market's parameters of those names."""

    step: str = "time"
    step_time: float = 1.0
    step_messages: int = 1
    n_steps: int = 200
    actions: str = "quotes"
    slots: int = 2
    self_trade: str = "cancel_resting"
    latency: float = 0.0
    max_pending: int = 8
    tick_size: float = 0.01
    maker_fee: float = 0.0
    taker_fee: float = 0.0
    fee_per_lot: float = 0.0
    max_inventory: int | None = 50
    quantity: int = 20
    direction: str = "sell"
    at_end: str = "close"
    reward: str = "wealth"
    inventory_penalty: float = 5e-5
    levels: str = "occupied"
    depth: int = 5


class NaiveReplay:
    """An agent in a tape from a message on."""

    def __init__(self, tape, start, **settings):
        self.s, self.tape = Settings(**settings), tape
        self.market = Market(tape, start, self.s.self_trade)
        self.began = int(tape.time[start])
        self.time, self.elapsed, self.cash, self.inventory, self.turnover = 0.0, 0, 0.0, 0, 0.0
        if self.s.actions == "execution":
            self.inventory = self.s.quantity if self.s.direction == "sell" else -self.s.quantity
        self.pending = []
        self.forget()
        self.mark()
        self.arrival, self.marked = self.infos["mid_price"], self.infos["wealth"]

    def forget(self):
        self.infos = dict.fromkeys(("bought", "sold", "messages", "refused", "evicted", "cut", "dropped"), 0)
        self.infos["fees"] = 0.0

    def mark(self):
        bid, ask = self.market.best
        mid = 0.5 * self.s.tick_size * float(bid + ask)
        self.infos |= dict(mid_price=mid, spread=ask - bid, cash=self.cash, inventory=self.inventory)
        self.infos["wealth"] = self.cash + self.inventory * mid

    def trade(self, side, lots, value, fee):
        if lots:
            money = self.s.tick_size * float(value)
            fees = fee * money + self.s.fee_per_lot * lots
            self.turnover += money
            self.infos["fees"] += fees
            self.infos["bought" if side == BUY else "sold"] += lots
            self.inventory += lots if side == BUY else -lots
            self.cash = self.cash - (money + fees) if side == BUY else self.cash + (money - fees)

    def settle(self):
        for side in (BUY, SELL):
            self.trade(side, *self.market.fills[side], self.s.maker_fee)
            self.market.fills[side] = [0, 0]

    def allowed(self, side, lots, slot=None):
        if self.s.max_inventory is None:
            return lots
        held = self.inventory if side == BUY else -self.inventory
        held += sum(each.lots for each in self.market.own if each.side == side and each.slot != slot)
        most = min(lots, max(self.s.max_inventory - held, 0))
        self.infos["cut"] += lots - most
        return most

    def at_market(self, side, lots):
        lots = self.allowed(side, lots)
        if lots:
            self.trade(side, *self.market.take(1 - side, lots)[:2], self.s.taker_fee)

    def at_limit(self, slot, side, price, lots):
        lots = self.allowed(side, lots, slot) if lots else 0
        self.trade(side, *self.market.replace(slot, side, price, lots), self.s.taker_fee)

    def act(self, action):
        bid, ask = self.market.best
        if self.s.actions == "quotes":
            below, above, lots = int(action[0]), int(action[1]), int(action[2]) + 1
            buy, sell = ask - below, bid + above
            if below and above and buy >= sell:
                buy = (buy + sell) // 2
                sell = buy + 1
            self.at_limit(0, BUY, buy, lots if below else 0)
            self.at_limit(1, SELL, sell, lots if above else 0)
        elif self.s.actions == "orders":
            kind, offset, lots, slot = int(action[0]), int(action[1]), int(action[2]) + 1, int(action[3])
            if kind in (1, 2):
                self.at_limit(slot, (BUY, SELL)[kind - 1], ask - offset if kind == 1 else bid + offset, lots)
            elif kind in (3, 4):
                self.at_market((BUY, SELL)[kind - 3], lots)
            elif kind == 5:
                self.market.cancel(slot)
        else:
            side = SELL if self.inventory > 0 else BUY
            lots = round(float(action[0]) * abs(self.inventory))
            if lots:
                self.at_market(side, lots)
            lots = min(round(float(action[1]) * abs(self.inventory)), 65_535)
            self.at_limit(0, side, self.market.best[side], lots)

    def run(self, until, most):
        """Messages up to a time and to a number of them, whichever comes first; how many."""
        done = 0
        while done < most and self.market.row < len(self.tape) - 1:
            later = int(self.tape.time[self.market.row + 1]) - self.began
            if until is not None and later > round(until * 1e9):
                break
            self.market.apply()
            done += 1
        if done == most or until is None:
            self.time = (int(self.tape.time[self.market.row]) - self.began) / 1e9
        else:
            self.time = until
        if done:
            self.market.look()
        self.settle()
        return done

    def step(self, action):
        """The observation, reward, terminated, truncated, and infos."""
        s = self.s
        self.forget()
        refused, began, messages = self.market.refused, self.time, 0
        if len(self.pending) < s.max_pending:
            self.pending.append((max([self.time + s.latency, *(when for when, _ in self.pending)]), action))
        else:
            self.infos["dropped"] += 1
        end = (self.elapsed + 1) * s.step_time if s.step == "time" else None
        most = s.step_messages if s.step == "messages" else float("inf")
        while True:
            arrives = self.pending[0][0] if self.pending else None
            if None not in (arrives, end) and arrives <= (self.elapsed + 1 + 1e-9) * s.step_time:
                arrives = min(arrives, end)  # at the end, but for rounding
            stops = [when for when in (end, arrives) if when is not None]
            until = min(stops) if stops else None
            if (until is None or until > self.time) and messages < most:
                messages += self.run(until, most - messages)
            if arrives is None or arrives > self.time:
                break
            self.act(self.pending.pop(0)[1])
        self.elapsed += 1
        truncated = self.elapsed >= s.n_steps or self.market.row == len(self.tape) - 1
        terminated = s.actions == "execution" and self.inventory == 0
        if truncated and s.at_end == "close":
            for slot in range(s.slots):
                self.market.cancel(slot)
            side = SELL if self.inventory > 0 else BUY
            self.trade(side, *self.market.take(1 - side, abs(self.inventory))[:2], s.taker_fee)
        self.mark()
        self.infos["messages"], self.infos["refused"] = messages, self.market.refused - refused
        price = self.infos["mid_price"]
        if s.reward == "shortfall" and not (truncated and s.at_end == "mark"):
            price = self.arrival
        worth = self.cash + self.inventory * price
        reward, self.marked = worth - self.marked, worth
        if s.reward == "inventory_penalty":
            reward -= s.inventory_penalty * float(self.inventory) * float(self.inventory) * (self.time - began)
        return self.observe(), reward, terminated, truncated, self.infos

    def observe(self):
        s, (bid, ask) = self.s, self.market.best
        seen = []
        for side, best in ((BUY, bid), (SELL, ask)):
            levels = self.market.levels(side)
            if s.levels == "ticks":
                prices = [best - away if side == BUY else best + away for away in range(s.depth)]
                levels = [(price, self.market.lots_at(side, price)) for price in prices]
            levels = [*levels, *[None] * s.depth][: s.depth]
            other = ask if side == BUY else bid
            seen += [0 if level is None else abs(other - level[0]) for level in levels]
            seen += [0 if level is None else level[1] for level in levels]
        bids, asks = (np.float32(self.market.lots_at(side, best)) for side, best in ((BUY, bid), (SELL, ask)))
        seen += [ask - bid, (bids - asks) / (bids + asks) if bids + asks > 0 else 0.0]
        for slot in range(s.slots):
            order = self.market.at(slot)
            if order:
                seen += [(ask if order.side == BUY else bid) - order.price, order.lots, self.market.ahead(order)]
            else:
                seen += [0, 0, 0]
        held, unit = np.float32(self.inventory), s.quantity if s.actions == "execution" else s.max_inventory
        seen += [held if unit is None else held / np.float32(unit)]
        seen += [np.float32(s.n_steps - self.elapsed) / np.float32(s.n_steps)]
        return np.array(seen, dtype=np.float32)
