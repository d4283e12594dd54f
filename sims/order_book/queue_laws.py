"""Chances of an own order in its queue: exact, by linear algebra, and measured in the market.

Of a book that is limited to its two best prices the queues are independent birth-death chains, as in Cont, Stoikov and
Talreja (2010), "A stochastic model for order book dynamics", Operations Research 58(3), section 3. Their equations with
an own order in the bid queue, which is never cancelled, are solved here; orders are of one lot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count
from sekai.seeding import make_seed_sequence

#: Orders by which a queue is followed beyond the longest that is asked for.
_BEYOND = 60


def fill_chance(lam: float, mu: float, theta: float, ahead: int, opposite: int) -> NDArray[np.float64]:
    """The probability that an own order is executed before the opposite queue is used up, for all queues up to two.

    With ``d = mu + k theta``, of ``P[k, m]`` with ``k`` orders ahead and ``m`` opposite:
    ``(lam + mu + m theta + d) P[k, m] = lam P[k, m + 1] + (mu + m theta) P[k, m - 1] + d P[k - 1, m]``, where
    ``P[-1, m] = 1`` and ``P[k, 0] = 0``.

    Args:
        lam: Limit orders that join a queue, per time.
        mu: Market orders a side, per time.
        theta: Cancels of each order, per time, above 0.
        ahead: The largest ``k``.
        opposite: The largest ``m``.

    Returns:
        f8 (ahead + 1, opposite + 1).
    """
    longest = opposite + _BEYOND
    m = np.arange(1, longest + 1)
    grow, shrink = np.where(m < longest, lam, 0.0), mu + m * theta
    chance = np.zeros((ahead + 1, opposite + 1))
    sooner = np.ones(longest)
    for k in range(ahead + 1):
        served = mu + k * theta
        system = np.diag(grow + shrink + served) - np.diag(grow[:-1], 1) - np.diag(shrink[1:], -1)
        sooner = np.linalg.solve(system, served * sooner)
        chance[k, 1:] = sooner[:opposite]
    return chance


@dataclass(frozen=True, eq=False)
class FillChances:
    """Measured probabilities that an own bid is executed before the asks are used up, beside the exact ones.

    Attributes:
        ahead: i8 (K,), orders ahead of the own one.
        opposite: i8 (M,), asks.
        chances: f8 (K, M), measured.
        errors: f8 (K, M), their standard errors.
        exact: f8 (K, M).
    """

    ahead: NDArray[np.int64]
    opposite: NDArray[np.int64]
    chances: NDArray[np.float64]
    errors: NDArray[np.float64]
    exact: NDArray[np.float64]


def measure_fill_chances(
    ahead: Sequence[int],
    opposite: Sequence[int],
    *,
    lam: float = 1.85,
    mu: float = 0.94,
    theta: float = 0.71,
    num_envs: int = 4000,
    seed: int = 0,
) -> FillChances:
    """Put an own bid behind some orders in a book of two prices, and see whether it is executed before the asks go.

    Args:
        ahead: Numbers of orders ahead of it, at least 0.
        opposite: Numbers of asks, at least 1.
        lam: Limit orders that join a queue, per time; the rates are those estimated by Cont, Stoikov and Talreja at the
            best prices, unless told otherwise.
        mu: Market orders a side, per time.
        theta: Cancels of each order of the background, per time, above 0.
        num_envs: Books for each pair of queues.
        seed: Of the runs.

    Raises:
        TypeError: A number of orders is no integer.
        ValueError: A number is out of its range.
    """
    ks = [check_count(k, "measure_fill_chances(ahead)", minimum=0) for k in ahead]
    ms = [check_count(m, "measure_fill_chances(opposite)") for m in opposite]
    num_envs = check_count(num_envs, "measure_fill_chances(num_envs)")
    seeds = iter(make_seed_sequence(seed, len(ks) * len(ms)))
    chances = np.array([[_share(k, m, lam, mu, theta, num_envs, next(seeds)) for m in ms] for k in ks])
    errors = np.sqrt(chances * (1.0 - chances) / num_envs)
    exact = fill_chance(lam, mu, theta, max(ks), max(ms))[np.ix_(ks, ms)]
    return FillChances(np.array(ks), np.array(ms), chances, errors, exact)


def _share(k: int, m: int, lam: float, mu: float, theta: float, num_envs: int, seed: int) -> float:
    """The share of books in which the own bid with ``k`` ahead of it is executed before the ``m`` asks are used up."""
    from sims.order_book.env import LimitOrderBookVecEnv
    from sims.order_book.flows import CST
    from sims.order_book.start import StartBook

    bid, ask = 10_000, 10_001  # where a market starts
    book = StartBook(bids=[(bid, 1)] * k, asks=[(ask, 1)] * m, own=[(0, bid, 1)])
    market: dict[str, Any] = {"flow": CST(lam=(lam,), mu=mu, theta=theta), "price_limits": (bid, ask)}
    vec = LimitOrderBookVecEnv(
        num_envs, initial_book=book, warm_up=0.0, step="messages", step_messages=1, n_steps=2**31 - 1, **market
    )
    vec.reset(seed=seed)
    hold = np.zeros((num_envs, 3), np.int64)
    hold[:, 0] = 1
    filled, over = np.zeros(num_envs, bool), np.zeros(num_envs, bool)
    while not over.all():
        result = vec.step(hold)
        filled |= ~over & (result.infos.column("bought") > 0)
        over |= filled | (result.observations[:, 3 * vec.depth] == 0.0)  # lots at the best ask
    return float(filled.mean())
