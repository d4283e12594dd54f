"""The price models as one would write them down: one path, one draw and one sum at a time, in plain Python.

Twins of ``sims.prices``, against which those are compared bit for bit. Taken as given are ``maths.exp``, ``maths.log``,
``maths.normal``, ``maths.normal_pair64`` and ``maths.normal_cdf``, which have tests of their own, and the random words.
"""

from __future__ import annotations

import math

import numpy as np
from naive_market_making import philox, poisson, unit

from sekai.kernels import maths


def exp(x):
    return float(maths.exp(float(x)))


def log(x):
    return float(maths.log(float(x)))


class Draws:
    """The stream of a seed."""

    def __init__(self, seed):
        self.key, self.counter = seed, 0

    def words(self):
        words = philox(self.key, self.counter)
        self.counter += 1
        return words

    def normals(self):
        return tuple(float(z) for z in maths.normal_pair64(*(np.uint32(word) for word in self.words())))

    def uniform(self):
        a, b, _, _ = self.words()
        return unit(a, b)

    def gamma(self, shape):
        """Marsaglia and Tsang (2000)."""
        more = 1.0 if shape < 1.0 else 0.0
        d = shape + more - 1.0 / 3.0
        while True:
            x, _ = self.normals()
            v = 1.0 + (1.0 / math.sqrt(9.0 * d)) * x
            u = 1.0 - self.uniform()
            if v <= 0.0:
                continue
            v = v * v * v
            if log(u) < 0.5 * x * x + d - d * v + d * log(v):
                break
        return d * v * exp(log(1.0 - self.uniform()) / shape) if more else d * v


class Naive:
    """One path, with draws of its own or of somebody else."""

    def __init__(self, model, dt, seed, price, draws=None):
        self.__dict__.update(model._asdict())
        self.dt, self.draws, self.price = dt, Draws(seed) if draws is None else draws, price
        self.begin()

    def begin(self):
        pass

    def path(self, steps):
        prices = [self.price]
        for _ in range(steps):
            self.price = self.moved()
            prices.append(self.price)
        return prices


class NaiveBrownian(Naive):
    def moved(self):
        z, _ = self.draws.normals()
        return self.price + (self.drift * self.dt + self.volatility * math.sqrt(self.dt) * z)


class NaiveGeometric(Naive):
    def smooth(self, z):
        sd = self.volatility * math.sqrt(self.dt)
        return self.drift * self.dt - 0.5 * sd * sd, sd * z

    def moved(self):
        z, _ = self.draws.normals()
        shift, noise = self.smooth(z)
        return self.price * exp(shift + noise)


class NaiveMerton(NaiveGeometric):
    def moved(self):
        z, z_jump = self.draws.normals()
        mean = self.jump_rate * self.dt
        count = poisson(self.draws.uniform(), mean) if mean > 0.0 else 0
        shift, noise = self.smooth(z)
        shift -= self.jump_rate * self.dt * math.expm1(self.jump_mean + 0.5 * self.jump_sd * self.jump_sd)
        jumps = count * self.jump_mean + math.sqrt(count) * self.jump_sd * z_jump
        return self.price * exp(shift + noise + jumps)


class NaiveReverting(Naive):
    def noise(self):
        z, _ = self.draws.normals()
        return self.volatility * math.sqrt(-math.expm1(-2.0 * self.speed * self.dt) / (2.0 * self.speed)) * z

    def moved(self):
        left = math.exp(-self.speed * self.dt)
        return left * self.price + (self.mean * -math.expm1(-self.speed * self.dt) + self.noise())


class NaiveLogReverting(NaiveReverting):
    def moved(self):
        left = math.exp(-self.speed * self.dt)
        return self.mean * exp(left * log(self.price / self.mean) + self.noise())


class NaiveHeston(Naive):
    def begin(self):
        self.squares = self.uncorrected = 0  # steps of either kind
        self.variance = self.variance0 if self.variance0 is not None else self.stationary()

    def stationary(self):
        scale = 0.5 * self.volatility * self.volatility / self.speed
        return scale * self.draws.gamma(self.mean / scale)

    def moved(self):
        z_variance, z = self.draws.normals()
        return (self.euler if self.scheme == "euler" else self.qe)(z_variance, z)

    def euler(self, z_variance, z):
        counted = max(self.variance, 0.0)
        sd = math.sqrt(counted) * math.sqrt(self.dt)
        moved = self.variance + self.speed * (self.mean - counted) * self.dt
        self.variance = moved + self.volatility * sd * z_variance
        z = self.correlation * z_variance + math.sqrt(1.0 - self.correlation * self.correlation) * z
        return self.price * exp(self.drift * self.dt - 0.5 * counted * self.dt + sd * z)

    def qe(self, z_variance, z):
        """Andersen (2008), with his martingale correction."""
        kappa, theta, xi, rho, dt = self.speed, self.mean, self.volatility, self.correlation, self.dt
        v = self.variance
        e, gone = math.exp(-kappa * dt), -math.expm1(-kappa * dt)
        m = theta * gone + v * e
        s_2 = v * (xi * xi * e * gone / kappa) + 0.5 * theta * xi * xi * gone * gone / kappa
        psi = s_2 / (m * m)
        half = 0.5 * dt * (kappa * rho / xi - 0.5)
        k_0, k_1, k_2 = -rho * kappa * theta * dt / xi, half - rho / xi, half + rho / xi
        k_3 = 0.5 * dt * (1.0 - rho * rho)
        a_ = k_2 + 0.5 * k_3
        mean_of_exp = None
        self.squares += psi <= 1.5
        if psi <= 1.5:
            b_2 = 2.0 / psi - 1.0 + math.sqrt(2.0 / psi) * math.sqrt(2.0 / psi - 1.0)
            a = m / (1.0 + b_2)
            after = a * (math.sqrt(b_2) + z_variance) * (math.sqrt(b_2) + z_variance)
            if 2.0 * a_ * a < 0.99:
                mean_of_exp = a_ * b_2 * a / (1.0 - 2.0 * a_ * a) - 0.5 * log(1.0 - 2.0 * a_ * a)
        else:
            positive = 2.0 / (psi + 1.0)
            above = float(maths.normal_cdf(-z_variance))
            after = m / positive * log(positive / above) if above < positive else 0.0
            if a_ * (m / positive) < 0.99:
                mean_of_exp = log(1.0 - positive + positive / (1.0 - a_ * (m / positive)))
        k = k_0 + k_1 * v if mean_of_exp is None else -mean_of_exp - 0.5 * k_3 * v
        self.uncorrected += mean_of_exp is None
        self.variance = after
        return self.price * exp(self.drift * dt + k + k_2 * after + math.sqrt(k_3 * (v + after)) * z)


class NaiveGarch(Naive):
    def begin(self):
        if self.variance0 is not None:
            self.variance = self.variance0
            return
        total, weight, drawn = 0.0, 1.0, 0
        while weight > 1e-3 and drawn < 500:
            for z in self.draws.normals():
                total, weight = total + weight, weight * (self.alpha * z * z + self.beta)
                drawn += 1
        gone = (1.0 - self.alpha - self.beta) * (1.0 + self.alpha + self.beta)
        above = 0.5 * gone / max(self.alpha * self.alpha, 1e-40)
        before = above * self.omega / (1.0 - self.alpha - self.beta) / self.draws.gamma(1.0 + above)
        self.variance = self.omega * total + weight * before

    def moved(self):
        z, _ = self.draws.normals()
        e = math.sqrt(self.variance) * z
        self.variance = self.omega + self.alpha * e * e + self.beta * self.variance
        return self.price * exp(self.mean + e)


class NaiveRegimes(Naive):
    def begin(self):
        chances = self.initial
        if chances is None:  # the left eigenvector of 1: not to the last bit what elimination gives
            n = len(self.transition)
            equations = np.vstack([np.transpose(self.transition) - np.eye(n), np.ones(n)])
            chances = np.linalg.lstsq(equations, np.eye(n + 1)[n], rcond=None)[0]
        self.regime = self.picked(chances, self.draws.uniform())

    def picked(self, chances, u):
        ends = np.cumsum(chances)
        possible = [k for k, chance in enumerate(chances) if chance > 0.0]
        return next((k for k in possible if u < ends[k]), possible[-1])

    def moved(self):
        a, b, c, d = self.draws.words()
        self.regime = k = self.picked(self.transition[self.regime], unit(a, b))
        sd = self.volatility[k] * math.sqrt(self.dt)
        z = float(maths.normal(np.uint32(c), np.uint32(d)))
        return self.price * exp(self.drift[k] * self.dt - 0.5 * sd * sd + sd * z)


class NaiveBootstrap(Naive):
    def begin(self):
        self.next = int(self.draws.uniform() * len(self.log_returns))

    def moved(self):
        a, b, c, d = self.draws.words()
        if unit(a, b) * self.mean_block < 1.0:
            self.next = int(unit(c, d) * len(self.log_returns))
        now = self.next
        self.next = (now + 1) % len(self.log_returns)
        return self.price * exp(self.log_returns[now])
