"""The portfolio market as one would write it down: one account, plain Python floats, one bar at a time."""

from __future__ import annotations

import math
import struct


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def left_after_costs(wealth, values, weights, rate):
    """The wealth x with x = wealth - rate * sum |w x - u|: on each piece it is a line, and the right piece is tried."""
    left = wealth
    for _ in range(len(values) + 3):
        above, slope = wealth, 1.0
        for value, weight in zip(values, weights, strict=True):
            change = weight * left - value
            side = rate if change > 0.0 else -rate if change < 0.0 else 0.0
            above += side * value
            slope += side * weight
        found = above / slope
        if not found < left:
            return left
        left = found
    raise AssertionError("an asset turned twice")


def base_of_weights(wealth, fixed, values, weights, rate, most):
    """What weights are of and what is traded, where positions of a value are fixed: each of three cases is tried.

    Returns:
        The wealth left, or as much less as the leverage leaves to it; the value traded.
    """
    left = left_after_costs(wealth, values, weights, rate)
    gross, held = 0.0, 0.0
    for value, weight in zip(values, weights, strict=True):
        gross += abs(weight)
        held += abs(value)
    if fixed and gross and gross * left + fixed > most * left:
        room = most * wealth - fixed
        if room <= rate * most * held:
            return [0.0 for _ in weights], 0.0, held
        weights = [weight / gross for weight in weights]
        left = left_after_costs(room, values, weights, rate * most)
    traded = 0.0
    for value, weight in zip(values, weights, strict=True):
        traded += abs(weight * left - value)
    return weights, left, traded


class NaivePortfolio:
    """One account. The twin of ``sims.portfolio.account``, against which it is compared bit for bit."""

    def __init__(
        self,
        closes,
        opens,
        start,
        end,
        *,
        lookback=1,
        max_leverage=1.0,
        transaction_cost=0.0,
        cash_rate=0.0,
        loan_rate=0.0,
        borrow_rate=0.0,
        reward="log_growth",
    ):
        self.closes, self.opens = closes, opens  # lists of rows, with None where an asset is not listed
        self.assets = range(len(closes[0]))
        self.tells_listed = any(price is None for row in closes for price in row)
        self.bar, self.end, self.lookback = start, end, lookback
        self.max_leverage, self.rate = max_leverage, transaction_cost
        self.cash_rate, self.loan_rate, self.borrow_rate = cash_rate, loan_rate, borrow_rate
        self.reward = reward
        self.units = [0.0 for _ in self.assets]
        self.cash = self.wealth = 1.0
        self.weights = [0.0 for _ in self.assets]

    def last_close(self, bar, k):
        for earlier in range(bar, -1, -1):
            if self.closes[earlier][k] is not None:
                return self.closes[earlier][k]
        return 0.0

    def observation(self):
        seen = []
        for bar in range(self.bar - self.lookback + 1, self.bar + 1):
            for k in self.assets:
                before = self.last_close(bar - 1, k)
                seen.append(self.last_close(bar, k) / before - 1.0 if before else 0.0)
        seen += self.weights
        if self.tells_listed:
            seen += [self.closes_in_a_row(k) / (self.lookback + 1) for k in self.assets]
        return [as_float32(value) for value in seen]

    def closes_in_a_row(self, k):
        count = 0
        while count <= min(self.lookback, self.bar) and self.closes[self.bar - count][k] is not None:
            count += 1
        return count

    def opens_next(self, k):
        return self.opens is None or self.opens[self.bar + 1][k] is not None

    def has_left(self, bar, k):
        """Whether an asset has had its last close before a bar."""
        return all(row[k] is None for row in self.closes[bar:])

    def is_fixed(self, k):
        """Whether a position stays as it is, since the asset pauses."""
        trades = self.closes[self.bar][k] is not None and self.opens_next(k)
        return not trades and not self.has_left(self.bar + (self.opens is not None), k)

    def aim(self, asked):
        weights, gross = [], 0.0
        for k in self.assets:
            weights.append(asked[k] if self.closes[self.bar][k] is not None else 0.0)
            gross += abs(weights[k])
        if gross > self.max_leverage:
            weights = [weight * (self.max_leverage / gross) for weight in weights]
        return [weight if self.opens_next(k) else 0.0 for k, weight in enumerate(weights)]

    def fill_prices(self):
        opens = [None for _ in self.assets] if self.opens is None else self.opens[self.bar + 1]
        return [self.last_close(self.bar, k) if opens[k] is None else opens[k] for k in self.assets]

    def trade(self, asked, prices):
        """Returns the wealth before, the value traded, its cost, and the units bought."""
        weights = self.aim(asked)
        values = [units * price for units, price in zip(self.units, prices, strict=True)]
        wealth, gross, fixed = self.cash, 0.0, 0.0
        for k, value in enumerate(values):
            wealth += value
            if self.is_fixed(k):
                fixed += abs(value)
                values[k] = 0.0
            gross += abs(values[k])
        stay = [self.is_fixed(k) for k in self.assets]
        if wealth <= self.rate * gross:  # cannot pay for its way out
            weights, base, traded = [0.0 for _ in self.assets], 0.0, gross + fixed
            stay = [False for _ in self.assets]
        else:
            weights, base, traded = base_of_weights(wealth, fixed, values, weights, self.rate, self.max_leverage)
        cost = self.rate * traded
        held = list(self.units)
        if traded != 0.0:
            self.cash = left = wealth - cost
            base = base if fixed else left
            for k in self.assets:
                if stay[k]:
                    self.cash -= self.units[k] * prices[k]
                    continue
                position = weights[k] * base if base > 0.0 else 0.0 * weights[k]
                self.cash -= position
                self.units[k] = position / prices[k] if position else 0.0
        return wealth, traded, cost, [new - old for new, old in zip(self.units, held, strict=True)]

    def step(self, asked):
        """Returns reward, terminated, truncated and the info."""
        before, prices = self.wealth, self.fill_prices()
        at_trade, traded, cost, bought = self.trade(asked, prices)
        owed = 0.0
        for k in self.assets:
            if self.units[k] < 0.0:
                owed += -self.units[k] * prices[k]
        borrow = self.borrow_rate * owed + (self.loan_rate * -self.cash if self.cash < 0.0 else 0.0)
        interest = self.cash_rate * self.cash if self.cash > 0.0 else 0.0
        self.cash = self.cash + (interest - borrow)
        self.bar += 1
        self.wealth, positions = self.cash, []
        for k in self.assets:
            position = self.units[k] * self.last_close(self.bar, k)
            if self.has_left(self.bar, k):  # sold, at its last close
                fee = self.rate * abs(position)
                self.cash += position - fee
                self.wealth += position - fee
                cost += fee
                traded += abs(position)
                bought[k] -= self.units[k]
                self.units[k] = position = 0.0
            self.wealth += position
            positions.append(position)
        alive = self.wealth > 0.0
        self.weights = [position / self.wealth if alive else 0.0 for position in positions]
        growth = self.wealth / before
        info = {
            "price": [self.last_close(self.bar, k) for k in self.assets],
            "wealth": self.wealth,
            "weights": self.weights,
            "cash": self.cash,
            "turnover": traded / at_trade if at_trade > 0.0 else 0.0,
            "cost": cost,
            "borrow": borrow,
            "interest": interest,
            "fill_price": prices,
            "units_traded": bought,
            "bar": self.bar,
        }
        reward = math.log(max(growth, 1e-6)) if self.reward == "log_growth" else growth - 1.0
        return reward, not alive, self.bar >= self.end or self.wealth > 1e100, info
