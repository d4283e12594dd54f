"""What a bar does to one account of ``Portfolio-v0``, wherever its prices come from: it opens, trades and is marked.

Columns, parameters and units are as in ``sims.portfolio.market``.
"""

from __future__ import annotations

from typing import Any

from numpy import float64
from numpy.typing import NDArray

from sekai.kernels import jit, maths
from sims.bars import START_WEALTH
from sims.portfolio.costs import share_wealth


@jit
def open_account(state: Any, i: int, prices: NDArray[float64], at: int) -> None:
    """Begin with cash alone, at the prices in a row ``at`` of some."""
    state.cash[i] = state.wealth[i] = START_WEALTH
    state.turnover[i], state.cost[i], state.borrow[i], state.interest[i] = 0.0, 0.0, 0.0, 0.0
    for k in range(state.units.shape[1]):
        state.units[i, k], state.weights[i, k], state.units_traded[i, k] = 0.0, 0.0, 0.0
        state.price[i, k] = state.fill_price[i, k] = prices[at, k]


@jit
def aim_row(params: Any, derived: Any, weights: NDArray[float64], i: int, at: int, action: Any) -> None:
    """Write the weights that an action asks for and may have.

    They are scaled by what is known when it is taken, so that none tells what opens in the next bar: the share of an
    asset that does not stays in cash.
    """
    gross, most, whole = 0.0, 0.0, 1.0
    if params.actions == "softmax":
        most, whole = float64(action[0]), 0.0
        for k in range(1, len(action)):
            most = max(most, float64(action[k]))
        for k in range(len(action)):
            whole += maths.exp(float64(action[k]) - most)
    for k in range(weights.shape[1]):
        weight = float64(action[k])
        if params.actions == "softmax":
            weight = maths.exp(weight - most) / whole
        if derived.has_gaps:
            weight = weight if derived.listed[at, k] else 0.0
        weights[i, k] = weight
        gross += abs(weight)
    if gross > params.max_leverage:
        scale = params.max_leverage / gross
        for k in range(weights.shape[1]):
            weights[i, k] *= scale
    if derived.has_gaps:
        for k in range(weights.shape[1]):
            weights[i, k] = weights[i, k] if derived.tradable[at, k] else 0.0


@jit
def trade_row(
    params: Any, derived: Any, state: Any, i: int, action: Any, prices: NDArray[float64], at: int
) -> tuple[float, float]:
    """Trade an account to the weights wanted, or close it out if it cannot pay for that; then pay and earn rates.

    Args:
        params: See ``PortfolioParams``.
        derived: ``has_gaps`` and, if there are any, ``listed``, ``tradable`` and ``fixed``.
        state: Columns of accounts; ``wealth > 0`` in row ``i``.
        i: The row.
        action: f4 (K,), the weights wanted, or f4 (K + 1,), logits.
        prices: f8 (n, K), with the execution prices in row ``at``.
        at: That row, of ``listed`` and the like too.

    Returns:
        The wealth before it at these prices, and the value traded.
    """
    # Columns that this step writes later on hold, until then, the weights to be had and the values to be traded.
    weights, values = state.weights, state.units_traded
    aim_row(params, derived, weights, i, at, action)
    wealth, gross, fixed = state.cash[i], 0.0, 0.0
    for k in range(weights.shape[1]):
        value = state.units[i, k] * prices[at, k]
        wealth += value
        if derived.has_gaps:
            fixed += abs(value) if derived.fixed[at, k] else 0.0
            value = 0.0 if derived.fixed[at, k] else value
        values[i, k] = value
        gross += abs(value)
    is_ruined = wealth <= params.transaction_cost * gross
    if is_ruined:  # all is closed, at its last price even what does not trade
        for k in range(weights.shape[1]):
            weights[i, k] = 0.0
        base, traded = 0.0, gross + fixed
    else:
        base, traded = share_wealth(wealth, fixed, values, weights, i, params.transaction_cost, params.max_leverage)
    cost = params.transaction_cost * traded
    left = wealth - cost
    base = left if fixed == 0.0 or is_ruined else base
    cash, owed = left, 0.0
    for k in range(weights.shape[1]):
        units, price = state.units[i, k], prices[at, k]
        position = weights[i, k] * max(base, 0.0)  # rounding may take the last of it
        wanted = position / price if position != 0.0 else 0.0  # the price of an asset that never was listed is 0
        wanted = units if traded == 0.0 else wanted
        if derived.has_gaps:
            stays = derived.fixed[at, k] and not is_ruined
            wanted, position = (units, units * price) if stays else (wanted, position)
        cash -= position
        owed += max(-wanted * price, 0.0)
        state.units[i, k], state.units_traded[i, k], state.fill_price[i, k] = wanted, wanted - units, price
    cash = state.cash[i] if traded == 0.0 else cash
    borrow = params.borrow_rate * owed + params.loan_rate * max(-cash, 0.0)
    interest = params.cash_rate * max(cash, 0.0)
    state.cash[i] = cash + (interest - borrow)
    state.cost[i], state.borrow[i], state.interest[i] = cost, borrow, interest
    return wealth, traded


@jit
def mark_row(
    params: Any, derived: Any, state: Any, i: int, prices: NDArray[float64], at: int, before: float, traded: float
) -> float:
    """Hold an account to the next closes, sell what has had its last one, and mark it.

    Args:
        params: See ``PortfolioParams``.
        derived: ``has_gaps`` and, if there are any, ``left``.
        state: Columns of accounts.
        i: The row.
        prices: f8 (n, K), with the closes in row ``at``.
        at: That row, of ``left`` too.
        before: The wealth before the trade, at its prices.
        traded: The value traded there.

    Returns:
        The factor by which wealth has grown in the step.
    """
    cash = state.cash[i]
    wealth = cash
    for k in range(state.units.shape[1]):
        close = prices[at, k]
        position = state.units[i, k] * close
        if derived.has_gaps:  # what comes to no other close is sold, at its last one
            has_left = derived.left[at, k]
            sold = position if has_left else 0.0
            cost = params.transaction_cost * abs(sold)
            cash += sold - cost
            wealth += sold - cost
            position -= sold
            traded += abs(sold)
            state.cost[i] += cost
            state.units_traded[i, k] -= state.units[i, k] if has_left else 0.0
            state.units[i, k] = 0.0 if has_left else state.units[i, k]
        wealth += position
        state.price[i, k], state.weights[i, k] = close, position
    for k in range(state.units.shape[1]):
        state.weights[i, k] = state.weights[i, k] / wealth if wealth > 0.0 else 0.0
    growth = wealth / state.wealth[i]
    state.turnover[i] = traded / before if before > 0.0 else 0.0
    state.cash[i], state.wealth[i] = cash, wealth
    return growth
