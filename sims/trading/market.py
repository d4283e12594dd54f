"""The law of ``Trading-v0``: what one account can be told, what it holds, and what a bar does to it.

Wealth, cash, positions and costs count in the wealth an episode starts with (so it starts at 1.0), units are wealth
per price, and rates are fractions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int64
from numpy.typing import NDArray

from sekai.checks import check_count
from sekai.kernels import jit
from sekai.spaces import Box, Discrete, Space
from sims.bars import (
    EXECUTIONS,
    MAX_WEALTH,
    REWARDS,
    START_WEALTH,
    Start,
    check_bars,
    check_fraction,
    check_start,
    first_bar,
    reward_of,
)
from sims.checks import check_choice

_CHOICES = {"actions": ("discrete", "weight"), "execution": EXECUTIONS, "reward": REWARDS}


# -- records -----------------------------------------------------------------------------------------------


class TradingParams(NamedTuple):
    """What one bar is, costs and pays. See ``TradingVecEnv`` for the market itself.

    Attributes:
        prices: The history, a ``sims.data.PriceHistory``; None stands for the one that ``TradingVecEnv`` loads.
        lookback: Returns in the observation, bars, at least 1.
        episode_length: Steps (bars) after which an episode is truncated, at least 1; None for the end of the data.
        actions: ``"discrete"`` (0 short, 1 flat, 2 long) or ``"weight"`` (a number in [-1, 1]).
        transaction_cost: Fraction of the value traded, in [0, 1).
        borrow_rate: Per bar, fraction of the value of a short position, in [0, 1).
        execution: Price of a trade: ``"open"`` of the next bar, or the ``"close"`` last seen; None for what
            ``TradingVecEnv`` takes by the history.
        reward: ``"log_growth"`` of wealth or its simple ``"return"``.
    """

    prices: Any = None
    lookback: int = 32
    episode_length: int | None = 252
    actions: str = "discrete"
    transaction_cost: float = 1e-3
    borrow_rate: float = 0.0
    execution: Any = None  # no row function reads it, so that both are one to the compiler
    reward: str = "log_growth"


class Prices(NamedTuple):
    """The history as row functions read it.

    Attributes:
        close: f8 (T,), the close of each bar.
        execution: f8 (T-1,), the price at which a decision taken after bar ``i`` trades: ``close[i]``, or the open
            of bar ``i + 1``.
        returns: f4 (T-1,), ``close[j + 1] / close[j] - 1``.
    """

    close: NDArray[float64]
    execution: NDArray[float64]
    returns: NDArray[float32]


class Account(NamedTuple):
    """One account per sub-env.

    Attributes:
        bar: The last bar whose close has been seen.
        end: The bar with which the episode is truncated at the latest.
        units: Units of the asset held, negative when short.
        cash: Cash held, may be negative only after a loss on a short position.
        price: The close of ``bar``.
        wealth: ``cash + units * price``.
        position: The weight held, ``units * price / wealth``, and 0 at ruin (wealth at or below 0).
        turnover: Value traded over wealth in the last step, both at the execution price and before costs; 0 after a
            ruinous gap.
        cost: Paid for that trade.
        borrow: Paid for the short position held over the last bar.
        fill_price: The execution price of the last step, whether or not it traded.
        units_traded: Units bought in it, negative for those sold.
    """

    bar: int64
    end: int64
    units: float64
    cash: float64
    price: float64
    wealth: float64
    position: float64
    turnover: float64
    cost: float64
    borrow: float64
    fill_price: float64
    units_traded: float64


# -- one row -----------------------------------------------------------------------------------------------


@jit
def reset_row(params: Any, derived: Prices, state: Any, random: Any, i: int, options: Start) -> None:
    """Begin an episode, flat and with a wealth of 1."""
    last = len(derived.close) - 1
    bar = first_bar(random, i, params.lookback, params.episode_length, last, options.start)
    state.bar[i] = bar
    state.end[i] = last if params.episode_length is None else min(bar + params.episode_length, last)
    open_account(state, i, derived.close[bar])


@jit
def open_account(state: Any, i: int, price: float) -> None:
    """Begin with cash alone, at a price."""
    state.units[i], state.cash[i] = 0.0, START_WEALTH
    state.price[i], state.wealth[i], state.position[i] = price, START_WEALTH, 0.0
    state.turnover[i], state.cost[i], state.borrow[i] = 0.0, 0.0, 0.0
    state.fill_price[i], state.units_traded[i] = price, 0.0


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
def hold_row(params: Any, state: Any, i: int, action: Any, price: float, close: float) -> tuple[float, bool, bool]:
    """Advance an account by one bar, given its prices.

    In this order: trade to the weight wanted at the execution price, or close out an account that cannot pay for
    that (the position held before earns the gap from the last close up to there); pay ``borrow_rate`` on the value
    of a short position at that price; hold the position to the next close; mark the account there.

    Args:
        params: ``actions``, ``transaction_cost``, ``borrow_rate`` and ``reward``, as ``TradingParams`` has them.
        state: Columns of accounts; ``wealth > 0`` in row ``i``.
        i: The row.
        action: 0, 1 or 2, or an array (1,) of a weight in [-1, 1].
        price: The execution price.
        close: The close of the bar.

    Returns:
        The reward; whether the account is ruined; whether wealth is above ``MAX_WEALTH``.
    """
    weight = action - 1.0 if params.actions == "discrete" else float64(action[0])
    wealth = state.cash[i] + state.units[i] * price
    units, cash, traded, cost = trade_row(state.units[i], state.cash[i], price, weight, params.transaction_cost)
    borrow = params.borrow_rate * (-units * price) if units < 0.0 else 0.0
    cash -= borrow
    state.turnover[i] = traded / wealth if wealth > 0.0 else 0.0
    state.cost[i], state.borrow[i] = cost, borrow
    state.fill_price[i], state.units_traded[i] = price, units - state.units[i]

    position = units * close
    wealth = cash + position
    growth = wealth / state.wealth[i]
    reward = reward_of(growth, params)
    state.units[i], state.cash[i] = units, cash
    state.price[i], state.wealth[i] = close, wealth
    state.position[i] = position / wealth if wealth > 0.0 else 0.0
    return reward, wealth <= 0.0, wealth > MAX_WEALTH


@jit
def step_row(params: Any, derived: Prices, state: Any, i: int, action: Any) -> tuple[float, bool, bool]:
    """Advance an account by one bar of the history; ``bar < T - 1`` before. See ``hold_row``.

    Returns:
        The reward; whether the account is ruined; whether this was the last bar of the episode, or wealth is above
        ``MAX_WEALTH``.
    """
    bar = state.bar[i]
    reward, ruined, is_rich = hold_row(params, state, i, action, derived.execution[bar], derived.close[bar + 1])
    state.bar[i] = bar + 1
    return reward, ruined, bar + 1 >= state.end[i] or is_rich


@jit
def observe_row(derived: Prices, state: Any, i: int, observation: NDArray[float32]) -> None:
    """Write the returns of the last ``lookback`` bars up to ``bar``, oldest first, then the weight held."""
    lookback = len(observation) - 1
    window = derived.returns[state.bar[i] - lookback :]  # indexed from 0 up: many are copied at a time
    for k in range(lookback):
        observation[k] = window[k]
    observation[lookback] = state.position[i]


# -- all rows ----------------------------------------------------------------------------------------------


def check(params: TradingParams) -> None:
    """Refuse what is out of its range, and a history on which no episode fits.

    Raises:
        TypeError: Something is of another type.
        ValueError: Something is out of its range.
    """
    check_terms(params)
    if params.execution == "open" and params.prices.open is None:
        raise ValueError("execution='open': expected prices with a column 'open', got closes alone")
    check_bars(params.lookback, params.episode_length, len(params.prices))


def check_terms(params: Any) -> None:
    """Refuse what is out of its range of what an account is told, wherever its prices come from.

    Raises:
        TypeError: Something is of another type.
        ValueError: Something is out of its range.
    """
    check_count(params.lookback, "lookback")
    for name in ("transaction_cost", "borrow_rate"):
        check_fraction(name, getattr(params, name))
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(params, name), choices)


def check_options(params: TradingParams, options: Start) -> None:
    """Refuse a start with too few bars before it, or none after it.

    Raises:
        ValueError: It is one.
    """
    check_start(options.start, params.lookback, len(params.prices))


def prepare(params: TradingParams) -> Prices:
    """The history as row functions read it."""
    close = params.prices.close
    execution = params.prices.open[1:] if params.execution == "open" else close[:-1]
    return Prices(close, execution, returns=(close[1:] / close[:-1] - 1.0).astype(float32))


def observation_space(params: Any) -> Space[Any]:
    """Returns above -1 (float32 may round to it), then a weight, which falls without bound as a short loses."""
    low = np.full(params.lookback + 1, -1.0, dtype=float32)
    high = np.full(params.lookback + 1, np.inf, dtype=float32)
    low[-1], high[-1] = -np.inf, 1.0
    return Box(low, high, dtype=float32)


def action_space(params: Any) -> Space[Any]:
    """A position to take, or a weight."""
    return Discrete(3) if params.actions == "discrete" else Box(-1.0, 1.0, (1,), float32)
