"""The execution market as one would write it down: one order, one draw and one sum at a time.

The twin of ``sims.execution`` under a Brownian price, against which it is compared bit for bit. Taken as given are
``streams.normal`` and ``streams.uniform``, which have tests of their own.
"""

from __future__ import annotations

import math

import numpy as np

from sekai.kernels import streams

PARTS = ("spread", "temporary", "permanent", "transient", "noise")


class NaiveExecution:
    """One order. ``terms`` are the arguments of ``ExecutionVecEnv``, all of them numbers or words.

    Of the price's model they have ``volatility`` and ``drift``. A parameter given as a pair ``(low, high)`` is drawn
    anew at each reset.
    """

    def __init__(self, seed, **terms):
        self.random = streams.make_streams([seed])
        self.ranges = {name: value for name, value in terms.items() if isinstance(value, tuple)}
        self.__dict__.update(terms)

    def reset(self):
        """Returns the observation and the info."""
        for name, (low, high) in self.ranges.items():
            setattr(self, name, min(high, low + (high - low) * streams.uniform(self.random, 0)))
        self.dt = self.horizon / self.n_steps
        self.sign = {"buy": 1.0, "sell": -1.0}[self.side]
        self.step_number = 0
        self.start = self.free = self.price = self.initial_price
        self.order = self.left = self.units
        self.lasting = self.passing = 0.0
        self.shortfall, self.parts = 0.0, dict.fromkeys(PARTS, 0.0)
        return self.observation(), self.reset_info()

    def weight(self, k):
        if self.volume_profile is None:
            return 1.0
        volumes = np.array(self.volume_profile, dtype=np.float64)
        return float((volumes / volumes.mean())[k]) if k < len(volumes) else 0.0

    def observation(self):
        against = 100.0 * (self.sign * self.price - self.sign * self.start) / self.start
        seen = [
            self.left / self.order,
            np.float32(self.n_steps - self.step_number) / np.float32(self.n_steps),
            against,
            100.0 * self.passing / self.start,
        ]
        if self.volume_profile is not None:
            seen.append(self.weight(self.step_number))
        return [float(np.float32(each)) for each in seen]

    def reset_info(self):
        drawn = {("prices." if name == "volatility" else "") + name: getattr(self, name) for name in self.ranges}
        return {"price": self.price, "unaffected_price": self.free, "units_left": self.left, **drawn}

    def step(self, action):
        """Returns the reward, whether the episode is over, and the info."""
        asked = float(action[0])
        traded = asked * self.left if self.actions == "share" else min(asked * self.order, self.left)
        if self.step_number == self.n_steps - 1:
            traded = self.left
        own = self.temporary_impact / self.dt
        if self.volume_profile is not None:
            own /= self.weight(self.step_number)
        own *= traded
        passing = self.passing + 0.5 * self.transient_impact * traded
        fill = self.price + self.sign * (self.half_spread + own + (passing - self.passing))
        bought = self.sign * traded
        cost = bought * (fill - self.start)
        noise = bought * (self.free - self.start)
        paid = (traded * self.half_spread, traded * own, traded * self.lasting, traded * passing, noise)
        for name, part in zip(PARTS, paid, strict=True):
            self.parts[name] += part
        self.shortfall = sum(self.parts.values())

        self.left -= traded
        normal = streams.normal(self.random, 0)
        self.free = self.free + (self.drift * self.dt + self.volatility * math.sqrt(self.dt) * normal)
        self.lasting += self.permanent_impact * traded
        self.passing = (self.passing + self.transient_impact * traded) * math.exp(-self.resilience * self.dt)
        self.price = self.free + self.sign * (self.lasting + self.passing)
        self.step_number += 1
        sigma = self.volatility if self.risk_volatility is None else self.risk_volatility
        paid = cost + self.risk_aversion * self.dt * self.left * self.left * (sigma * sigma)
        if self.reward == "bps":
            paid *= 1e4 / (self.order * self.start)
        info = {**self.reset_info(), "units_traded": bought, "fill_price": fill, "shortfall": self.shortfall}
        info |= {f"{name}_cost": self.parts[name] for name in PARTS}
        return -paid, self.left <= 0.0, info
