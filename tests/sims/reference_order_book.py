"""Exact laws of the order book and its flows, by linear algebra, without an event of a simulation.

The second reference of ``sims.order_book`` beside the plain Python twin, with which it shares no line. Unit lots. Rates
are per unit of time: ``lam`` of limit orders, one number or by offset from the opposite best; ``mu`` of market orders,
of one side; ``theta`` at which each order of the background is cancelled.

Queues at the best are birth-death chains as in Cont, Stoikov and Talreja (2010), "A stochastic model for order book
dynamics", Operations Research 58(3), section 3; self-exciting counts as in Hawkes (1971), "Spectra of some
self-exciting and mutually exciting point processes", Biometrika 58(1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

#: Orders up to which a queue is followed: longer ones have a probability below 1e-13 at the rates of the figures.
LONGEST = 24


def queue_law(lam, mu, theta, longest=LONGEST):
    """The stationary probabilities of a queue of 0, 1, ... orders: by detailed balance."""
    sizes = np.arange(1, longest + 1)
    law = np.concatenate([[1.0], np.cumprod(lam / (mu + sizes * theta))])
    return law / law.sum()


def race(lam, mu, theta, longest=LONGEST):
    """``P[b, a]``: of two independent queues of b bids and a asks, the asks are the first to be used up."""
    size = longest + 1
    system, given = np.eye(size * size), np.zeros(size * size)
    at = np.arange(size * size).reshape(size, size)
    given[at[1:, 0]] = 1.0  # and 0 where the bids have gone
    for b in range(1, size):
        for a in range(1, size):
            moves = {(b - 1, a): mu + b * theta, (b, a - 1): mu + a * theta}
            if b < longest:
                moves[b + 1, a] = lam
            if a < longest:
                moves[b, a + 1] = lam
            for to, rate in moves.items():
                system[at[b, a], at[to]] -= rate / sum(moves.values())
    return np.linalg.solve(system, given).reshape(size, size)


def fill_chance(lam, mu, theta, ahead, longest=LONGEST):
    """``P[k, m]``: an own bid with up to ``ahead`` orders before it fills before the m asks are used up.

    The own order is never cancelled, and what comes behind it has no part in this.
    """
    chance = np.zeros((ahead + 1, longest + 1))
    asks = np.arange(1, longest + 1)
    for k in range(ahead + 1):
        served = mu + k * theta
        grow = np.where(asks < longest, lam, 0.0)
        shrink = mu + asks * theta
        system = np.diag(grow + shrink + served) - np.diag(grow[:-1], 1) - np.diag(shrink[1:], -1)
        sooner = chance[k - 1, 1:] if k else np.ones(longest)
        chance[k, 1:] = np.linalg.solve(system, served * sooner)
    return chance


def wait_mean(mu, theta, ahead):
    """The mean time to the fill of an order with a number of orders before it, all at one price that stays the best."""
    return sum(1.0 / (mu + j * theta) for j in range(ahead + 1))


def wait_law(mu, theta, ahead, time):
    """The probability that this takes no longer than a time: a sum of exponential times, of different rates."""
    rates = [mu + j * theta for j in range(ahead + 1)]
    later = 0.0
    for rate in rates:
        others = [other for other in rates if other != rate]
        later += math.exp(-rate * time) * math.prod(other / (other - rate) for other in others)
    return 1.0 - later


class BookLaw(NamedTuple):
    """Stationary figures of a book; ``states`` are those it was found with."""

    mean_spread: float
    spread_one: float
    bids_empty: float
    mean_orders: float
    events: float
    states: int


def few_prices_law(lam, mu, theta, prices, bid, ask, *, most=17, longest=None, error=1e-13):
    """The stationary law of a whole book whose prices are limited to ``1..prices``.

    Args:
        lam: By offset from the opposite best, at least one for each offset that the prices leave room for.
        mu, theta: The rates.
        prices: How many.
        bid, ask: The references of the book it starts from, which is empty.
        most: Orders in the whole book; those beyond are refused, which is the only inexactness.
        longest: Orders at a price, if they are to be bounded too.
        error: Of the sum of the probabilities' changes at which the iteration ends.

    Returns:
        The figures.
    """
    # A state: the two references, and the orders at each price. Every change is by one order, so that books of an even
    # number of them lead to odd ones only, and back: the iteration goes from the one half to the other.
    index = {(bid, ask, (0,) * prices): 0}
    states, origins, targets, rates = list(index), [], [], []
    for state in states:  # which grows meanwhile
        for rate, target in _changes(*state, lam, mu, theta, prices):
            if sum(target[2]) > most or (longest is not None and max(target[2]) > longest):
                continue
            if target not in index:
                index[target] = len(states)
                states.append(target)
            origins.append(index[state])
            targets.append(index[target])
            rates.append(rate)
    origins, targets, rates = np.array(origins), np.array(targets), np.array(rates)
    orders = np.array([sum(counts) for _, _, counts in states])
    leaving = np.bincount(origins, rates, len(states))
    halves = []
    for parity in (0, 1):
        into = orders[targets] % 2 == parity
        halves.append((orders % 2 == parity, origins[into], targets[into], rates[into]))
    law, change = np.full(len(states), 1.0 / len(states)), 1.0
    while change > error:
        before = law.copy()
        for half, start, end, rate in halves:
            law = np.where(half, np.bincount(end, law[start] * rate, len(states)) / leaving, law)
        law /= law.sum()
        change = np.abs(law - before).sum()
    spreads = np.array([a - b for b, a, _ in states])
    no_bids = np.array([not any(counts[:b]) for b, _, counts in states])
    return BookLaw(
        mean_spread=float(law @ spreads),
        spread_one=float(law @ (spreads == 1)),
        bids_empty=float(law @ no_bids),
        mean_orders=float(law @ orders),
        events=float(law @ leaving),
        states=len(states),
    )


def _changes(b, a, counts, lam, mu, theta, prices):
    """The (rate, state) of all that can happen to a book: bids lie at 1..b, asks at a..prices."""
    for offset, rate in enumerate(lam, 1):
        price = a - offset
        if price >= 1:
            yield rate, (max(price, b) if any(counts[:b]) else price, a, _with(counts, price, 1))
        price = b + offset
        if price <= prices:
            yield rate, (b, min(price, a) if any(counts[a - 1 :]) else price, _with(counts, price, 1))
    for price in range(1, prices + 1):
        if price <= b and counts[price - 1]:
            left = _with(counts, price, -1)
            best = max((p for p in range(1, b + 1) if left[p - 1]), default=b)
            yield theta * counts[price - 1] + (mu if price == b else 0.0), (best, a, left)
        if price >= a and counts[price - 1]:
            left = _with(counts, price, -1)
            best = min((p for p in range(a, prices + 1) if left[p - 1]), default=a)
            yield theta * counts[price - 1] + (mu if price == a else 0.0), (b, best, left)


def _with(counts, price, change):
    return (*counts[: price - 1], counts[price - 1] + change, *counts[price:])


def hawkes_rate(mu, alpha, beta):
    """The stationary rate of a process whose events each add ``alpha exp(-beta t)`` to its rate."""
    return mu * beta / (beta - alpha)


def hawkes_variance(mu, alpha, beta, time):
    """The stationary variance of its events within a time: from the covariance density of Hawkes (1971), section 3."""
    rate, decay = hawkes_rate(mu, alpha, beta), beta - alpha
    density = rate * alpha * (2.0 * beta - alpha) / (2.0 * decay)  # at a lag of 0+; it falls by exp(-decay lag)
    return rate * time + 2.0 * density * (time / decay - (1.0 - math.exp(-decay * time)) / decay**2)
