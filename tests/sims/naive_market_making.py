"""The quoting market as one would write it down: one quoter, one draw and one sum at a time.

The twin of ``sims.market_making``, against which it is compared bit for bit. Sums are in float64 but where the market
has float32. Taken as given are ``maths.exp``, ``maths.expm1``, ``maths.normal`` and ``streams.uniform_of``, which have
tests of their own; everything else, the random words too, is done by hand.
"""

from __future__ import annotations

import math

import numpy as np

from sekai.kernels import maths, streams

WORD = 2**32 - 1


def philox(key, counter):
    """Four random words, in plain integers (Salmon et al. 2011)."""
    a, b, c, d = counter & WORD, counter >> 32, 0, 0
    low, high = key & WORD, key >> 32
    for _ in range(10):
        p, r = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (r >> 32) ^ b ^ low, r & WORD, (p >> 32) ^ d ^ high, p & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return a, b, c, d


def unit(high, low):
    """Two words as a number in [0, 1) of 53 bits."""
    return (((high << 32) | low) >> 11) / 2**53


def exp32(x):
    return np.float32(maths.exp(np.float32(x)))


def expm1_32(x):
    return np.float32(maths.expm1(np.float32(x)))


def exp64(x):
    return float(maths.exp(float(x)))


def normal(a, b):
    return float(np.float32(maths.normal(np.uint32(a), np.uint32(b))))


def poisson(u, mean):
    """The least k whose cumulative probability exceeds u."""
    term, k = exp64(-mean), 0
    while u >= term and (k < mean or term > 1e-17):
        u -= term
        k += 1
        term *= mean / k
    return k


class NaiveMarketMaker:
    """One quoter. ``terms`` are the arguments of ``MarketMakingVecEnv``, all of them numbers.

    A parameter given as a pair ``(low, high)`` is drawn anew at each reset.
    """

    def __init__(self, seed, **terms):
        self.key, self.counter = seed, 0
        self.__dict__.update(terms)
        self.dt = self.horizon / self.n_steps
        self.ranges = {}
        for name in ("initial_price", "volatility", "arrival_rate", "fill_decay"):
            if isinstance(terms[name], tuple):
                self.ranges[name] = terms[name]

    def draw_words(self):
        words = philox(self.key, self.counter)
        self.counter += 1
        return words

    def reset(self):
        """Returns the observation and the info."""
        for name, (low, high) in self.ranges.items():
            a, b, _, _ = self.draw_words()
            setattr(self, name, min(high, low + (high - low) * unit(a, b)))
        self.time = 0
        self.mid, self.inventory, self.cash, self.wealth = self.initial_price, 0.0, 0.0, 0.0
        return self.observation(), self.info()

    def info(self):
        drawn = {name: getattr(self, name) for name in self.ranges}
        held = {"mid_price": self.mid, "inventory": self.inventory, "cash": self.cash, "wealth": self.wealth}
        return {**held, **drawn}

    def observation(self):
        limit = 1.0 if self.max_inventory is None else self.max_inventory
        seen = [
            np.float32(self.inventory) / np.float32(limit),
            np.float32(self.n_steps - self.time) / np.float32(self.n_steps),
        ]
        if self.observe == "full":
            seen += [np.float32(self.mid / self.initial_price - 1.0), np.float32(self.cash)]
        return [float(value) for value in seen]

    def fills(self, word, distance):
        """Whether an order comes that meets a quote at a distance."""
        rate = np.float32(self.arrival_rate * self.dt) * exp32(-np.float32(self.fill_decay) * distance)
        chance = rate if self.fill_rule == "linear" else -expm1_32(-rate)
        return bool(np.float32(streams.uniform_of(np.uint32(word))) <= chance)

    def moved(self, z):
        """The mid after a step whose normal variate is z."""
        if self.midprice == "ou":
            kappa = self.mean_reversion
            mean = self.initial_price if self.mean_price is None else self.mean_price
            scale = self.volatility * math.sqrt(-math.expm1(-2.0 * kappa * self.dt) / (2.0 * kappa))
            step = mean * -math.expm1(-kappa * self.dt) + scale * z
            return math.exp(-kappa * self.dt) * self.mid + step
        scale = self.volatility * math.sqrt(self.dt)
        shift = self.drift * self.dt
        if self.midprice == "brownian":
            return self.mid + (shift + scale * z)
        shift -= 0.5 * scale * scale
        if self.midprice == "geometric":
            return self.mid * exp64(shift + scale * z)
        shift -= self.jump_rate * self.dt * math.expm1(self.jump_mean + 0.5 * self.jump_sd * self.jump_sd)
        a, b, c, d = self.draw_words()
        count = poisson(unit(a, b), self.jump_rate * self.dt)
        jumps = count * self.jump_mean + math.sqrt(count) * self.jump_sd * normal(c, d)
        return self.mid * exp64(shift + scale * z + jumps)

    def step(self, action):
        """Returns the reward, whether the episode is over, and the info."""
        bid, ask = (np.float32(distance) for distance in action)
        if self.clip_quotes:
            bid, ask = (max(distance, np.float32(0.0)) for distance in (bid, ask))
        limit = math.inf if self.max_inventory is None else self.max_inventory
        words = self.draw_words()
        bought = self.inventory < limit and self.fills(words[0], bid)
        sold = self.inventory > -limit and self.fills(words[1], ask)
        before = self.wealth
        quotes = {"bid_price": self.mid - float(bid), "ask_price": self.mid + float(ask)}
        paid = quotes["bid_price"] if bought else 0.0
        got = quotes["ask_price"] if sold else 0.0
        self.cash += got - paid
        self.inventory += bought - sold
        self.mid = self.moved(normal(words[2], words[3]))
        self.time += 1
        self.wealth = self.cash + self.inventory * self.mid
        over = self.time >= self.n_steps
        reward = self.wealth - before
        if self.reward == "running_penalty":
            penalty = self.inventory_penalty * self.dt + (self.terminal_penalty if over else 0.0)
            reward -= penalty * self.inventory * self.inventory
        elif self.reward == "exp_utility":
            reward = -exp64(-self.risk_aversion * self.wealth) if over else 0.0
        told = quotes if self.clip_quotes else {}
        return reward, over, {**self.info(), "bid_filled": bought, "ask_filled": sold, **told}
