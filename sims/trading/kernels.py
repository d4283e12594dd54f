"""The step of the trading market over columns of N accounts.

Wealth, cash, positions and costs count in the wealth an episode starts with (so it starts at 1.0), units are wealth
per price, and rates are fractions. Row ``i`` of every column belongs to sub-env ``i``; no row looks at another.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import bool_, float32, float64, int64
from numpy.typing import NDArray

from sekai.kernels import jit, jit_batch, streams
from sekai.kernels.streams import Streams
from sims.trading.records import Account, Game, Market, Outcome, Terms

#: Wealth at the start of an episode.
START_WEALTH = 1.0
#: Least growth of wealth per bar that the log reward tells apart; ruin pays ``log(GROWTH_FLOOR)``, not -inf.
GROWTH_FLOOR = 1e-6
#: Wealth above which an episode is truncated. One more bar from here stays far inside float64, given the limits that
#: ``sims.data.PriceHistory`` sets to prices and their rises.
MAX_WEALTH = 1e100


@jit
def trade_row(units: float, cash: float, price: float, weight: float, rate: float) -> tuple[float, float, float, float]:
    """Trade one account to a weight that holds exactly after the cost has been paid.

    With wealth ``W = cash + u`` and position ``u = units * price`` before the trade, the position after it is the
    ``x`` that solves ``x = weight * (W - rate * |x - u|)``. The value traded is therefore

        ``|x - u| = (weight * W - u) / (1 + rate * weight)``  when ``weight * W > u`` (a purchase),
        ``|x - u| = (u - weight * W) / (1 - rate * weight)``  when ``weight * W < u`` (a sale),

    and nothing is traded when the two are equal: an account that is all long, or flat, stays as it is to the bit.
    That trade leaves ``W' = (W + rate * u) / (1 + rate * weight)`` in a purchase and ``(W - rate * u) / (1 - rate *
    weight)`` in a sale, which is above 0 just when ``W > rate * |u|``. Any other account cannot even pay for its way
    out: it is closed out, whatever the weight asked for, and is left with a wealth of 0 or less and no position.

    Args:
        units: Units held, negative when short.
        cash: Cash held.
        price: Price of the trade, above 0.
        weight: Value of the position wanted, over wealth, in [-1, 1].
        rate: Cost as a fraction of the value traded, in [0, 1).

    Returns:
        Units and cash after the trade, the value traded, and the cost, which has been taken from the cash.
    """
    position = units * price
    wealth = cash + position
    if wealth <= rate * abs(position):
        weight = 0.0
    change = weight * wealth - position
    if change == 0.0:
        return units, cash, 0.0, 0.0
    # One formula for both directions: a branch on the direction is one that the processor mostly guesses wrong.
    traded = abs(change) / (1.0 + rate * (weight if change > 0.0 else -weight))
    cost = rate * traded
    wealth -= cost
    position = weight * max(wealth, 0.0)  # rounding may take the last of it
    return position / price, wealth - position, traded, cost


@jit
def reward_row(before: float, after: float, log_growth: bool) -> float:
    """The reward of a bar over which wealth went from ``before`` (above 0) to ``after``."""
    if log_growth:
        return math.log(max(after / before, GROWTH_FLOOR))
    return after / before - 1.0


@jit_batch(shared="market terms")
def advance_trading(
    market: Market,
    terms: Terms,
    account: Account,
    weights: NDArray[float64],
    frozen: NDArray[bool_],
    outcome: Outcome,
) -> None:
    """Advance every account that is not frozen by one bar.

    In this order: trade to the weight wanted at the execution price, or close out an account that cannot pay for
    that (the position held before earns the gap from the last close up to there); pay ``borrow_rate`` on the value
    of a short position at that price; hold the position to the next close; mark the account there.

    Args:
        market: Prices.
        terms: Costs and kind of reward.
        account: State, updated in place; ``bar < T - 1`` and ``wealth > 0`` in every row that is not frozen.
        weights: f8 (N,), the weights wanted, in [-1, 1].
        frozen: bool (N,), rows that are left as they are, in the state and in the outcome.
        outcome: Written in place.
    """
    for i in range(len(weights)):
        if frozen[i]:
            continue
        bar = account.bar[i]
        price = market.execution[bar]
        wealth = account.cash[i] + account.units[i] * price
        units, cash, traded, cost = trade_row(
            account.units[i], account.cash[i], price, weights[i], terms.transaction_cost
        )
        borrow = terms.borrow_rate * (-units * price) if units < 0.0 else 0.0
        cash -= borrow
        outcome.turnover[i] = traded / wealth if wealth > 0.0 else 0.0
        outcome.cost[i] = cost
        outcome.borrow[i] = borrow

        bar += 1
        close = market.close[bar]
        position = units * close
        wealth = cash + position
        outcome.reward[i] = reward_row(account.wealth[i], wealth, terms.log_growth)
        outcome.terminated[i] = wealth <= 0.0
        outcome.truncated[i] = bar >= account.end[i] or wealth > MAX_WEALTH
        outcome.price[i] = close
        account.bar[i] = bar
        account.units[i] = units
        account.cash[i] = cash
        account.wealth[i] = wealth
        account.weight[i] = position / wealth if wealth > 0.0 else 0.0


@jit_batch(shared="returns")
def observe_trading(
    returns: NDArray[float32], bar: NDArray[int64], weight: NDArray[float64], observations: NDArray[float32]
) -> None:
    """Write what every account sees.

    Args:
        returns: f4 (T-1,), see ``Market``.
        bar: i8 (N,), see ``Account``; at least ``lookback``.
        weight: f8 (N,), see ``Account``.
        observations: f4 (N, lookback + 1), written in place: the returns of the last ``lookback`` bars up to
            ``bar``, oldest first, then the weight held.
    """
    lookback = observations.shape[1] - 1
    for i in range(len(observations)):
        row = observations[i]
        window = returns[bar[i] - lookback :]  # indexed from 0 up, which lets the compiler copy many at a time
        for k in range(lookback):
            row[k] = window[k]
        row[lookback] = weight[i]


@jit
def begin_row(account: Account, i: int, start: int, length: int, last_bar: int) -> None:
    """Begin an episode in row ``i``, flat and with a wealth of 1, at bar ``start``; it ends after ``length`` bars."""
    account.bar[i] = start
    account.end[i] = min(start + length, last_bar)
    account.units[i] = 0.0
    account.cash[i] = START_WEALTH
    account.wealth[i] = START_WEALTH
    account.weight[i] = 0.0


@jit(inline=False)
def begin_episodes(
    shared: Game, account: Account, random: Streams, rows: NDArray[np.intp], starts: NDArray[int64]
) -> None:
    """Begin an episode in some accounts.

    Args:
        shared: The market.
        account: All accounts, moved on in place.
        random: Their streams; each of the rows draws, named start or not.
        rows: i8 (k,), which accounts.
        starts: i8 (k,), the bars to start at; -1 for one drawn uniformly from all on which a whole episode fits.
    """
    for j in range(len(rows)):
        drawn = streams.integers(random, rows[j], shared.first_start, shared.last_start + 1)
        start = starts[j] if starts[j] >= 0 else drawn
        begin_row(account, rows[j], start, shared.length, len(shared.market.close) - 1)
