"""The trading market as one would write it down: one account, plain Python floats, one bar at a time."""

from __future__ import annotations

import math
import struct


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class NaiveTrader:
    """One account. The twin of ``sims.trading.market``, against which it is compared bit for bit."""

    def __init__(
        self, closes, opens, start, end, *, transaction_cost=0.0, borrow_rate=0.0, reward="log_growth", lookback=1
    ):
        self.closes = [float(price) for price in closes]
        self.opens = None if opens is None else [float(price) for price in opens]
        self.bar = start
        self.end = end
        self.transaction_cost = transaction_cost
        self.borrow_rate = borrow_rate
        self.reward = reward
        self.lookback = lookback
        self.units = 0.0
        self.cash = 1.0

    def position(self, price):
        return self.units * price

    def wealth(self, price=None):
        return self.cash + self.position(self.closes[self.bar] if price is None else price)

    def weight(self):
        if self.wealth() <= 0.0:
            return 0.0
        return self.position(self.closes[self.bar]) / self.wealth()

    def observation(self):
        window = range(self.bar - self.lookback + 1, self.bar + 1)
        returns = [self.closes[j] / self.closes[j - 1] - 1.0 for j in window]
        return [as_float32(value) for value in [*returns, self.weight()]]

    def trade(self, price, weight):
        """Returns the value traded and its cost."""
        wealth = self.wealth(price)
        if wealth <= self.transaction_cost * abs(self.position(price)):  # cannot pay for its way out
            weight = 0.0
        missing = weight * wealth - self.position(price)
        if missing > 0.0:
            traded = missing / (1.0 + self.transaction_cost * weight)
        elif missing < 0.0:
            traded = -missing / (1.0 - self.transaction_cost * weight)
        else:
            return 0.0, 0.0
        cost = self.transaction_cost * traded
        left = wealth - cost
        position = weight * left if left > 0.0 else 0.0
        self.units = position / price
        self.cash = left - position
        return traded, cost

    def step(self, weight):
        """Returns reward, terminated, truncated and the info."""
        before = self.wealth()
        price = self.closes[self.bar] if self.opens is None else self.opens[self.bar + 1]
        at_trade = self.wealth(price)
        held = self.units
        traded, cost = self.trade(price, weight)
        borrow = 0.0
        if self.units < 0.0:
            borrow = self.borrow_rate * -self.position(price)
            self.cash -= borrow
        self.bar += 1
        after = self.wealth()
        if self.reward == "log_growth":
            reward = math.log(max(after / before, 1e-6))
        else:
            reward = after / before - 1.0
        info = {
            "price": self.closes[self.bar],
            "wealth": after,
            "position": self.weight(),
            "turnover": traded / at_trade if at_trade > 0.0 else 0.0,
            "cost": cost,
            "borrow": borrow,
            "fill_price": price,
            "units_traded": self.units - held,
            "bar": self.bar,
        }
        return reward, after <= 0.0, self.bar >= self.end or after > 1e100, info
