"""The law of ``Portfolio-v0``: what one account can be told, what it holds, and what a bar does to it.

Wealth, cash, values and costs count in the wealth an episode starts with (so it starts at 1.0), units are wealth per
price, and rates are fractions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int64
from numpy.typing import NDArray

from sekai.kernels import jit
from sekai.spaces import Box
from sekai.vector import column
from sims.bars import (
    EXECUTIONS,
    MAX_WEALTH,
    REWARDS,
    Start,
    check_bars,
    check_fraction,
    check_start,
    first_bar,
    reward_of,
)
from sims.checks import check_choice, check_range
from sims.portfolio import account

#: What an action is: a weight of each asset, or the logits of those and of the weight of cash.
ACTIONS = ("weights", "softmax")
#: The largest logit, and less 0 the least. A weight may be 1 / (1 + K exp(-2 * 5)) at most, 0.9995 for 10 assets.
MAX_LOGIT = 5.0

# -- records -----------------------------------------------------------------------------------------------


class PortfolioParams(NamedTuple):
    """What one bar is, costs and pays. See ``PortfolioVecEnv`` for the market itself.

    Attributes:
        prices: The histories of K assets, a ``sims.data.PricePanel``; None stands for the one that ``PortfolioVecEnv``
            loads.
        lookback: Bars whose returns are in the observation, at least 1.
        episode_length: Steps (bars) after which an episode is truncated, at least 1; None for the end of the data.
        actions: ``"weights"`` or ``"softmax"``, the logits of those of each asset and of cash.
        shorts: Whether weights may be negative; not with "softmax".
        max_leverage: The most that weights without their signs may sum to, above 0, at most 1e30.
        transaction_cost: Fraction of the value traded, in [0, 1), and below 1 / ``max_leverage``.
        cash_rate: Per bar, fraction of the cash held, in [0, 1).
        loan_rate: Per bar, fraction of the cash owed, in [0, 1).
        borrow_rate: Per bar, fraction of the value of short positions, in [0, 1).
        execution: Price of a trade: ``"open"`` of the next bar, or the ``"close"`` last seen; None for what
            ``PortfolioVecEnv`` takes by the history.
        reward: ``"log_growth"`` of wealth or its simple ``"return"``.
    """

    prices: Any = None
    lookback: int = 32
    episode_length: int | None = 252
    actions: str = "weights"
    shorts: Any = False  # no row function reads it, nor execution, so that all of these are one to the compiler
    max_leverage: float = 1.0
    transaction_cost: float = 1e-3
    cash_rate: float = 0.0
    loan_rate: float = 0.0
    borrow_rate: float = 0.0
    execution: Any = None
    reward: str = "log_growth"


class Prices(NamedTuple):
    """The histories as row functions read them.

    Attributes:
        close: f8 (T, K), the last close up to each bar, 0 before the first.
        execution: f8 (T-1, K), the price at which a decision taken after bar ``j`` trades: ``close[j]``, or the open of
            bar ``j + 1``, and again ``close[j]`` of an asset that has no such open.
        returns: f4 (T-1, K), ``close[j + 1] / close[j] - 1``, 0 where there are not both.
        seen: f4 (T, K), closes in a row up to each bar, at most ``lookback + 1``, over that; 0 where there is none.
        listed: bool (T, K), whether an asset has a close in the bar.
        left: bool (T, K), whether its last one is before the bar.
        tradable: bool (T-1, K), whether a decision taken after bar ``j`` is carried out.
        fixed: bool (T-1, K), whether it is not, and what is held stays.
        has_gaps: Whether an asset is anywhere not listed.
    """

    close: NDArray[float64]
    execution: NDArray[float64]
    returns: NDArray[float32]
    seen: NDArray[float32]
    listed: NDArray[np.bool_]
    left: NDArray[np.bool_]
    tradable: NDArray[np.bool_]
    fixed: NDArray[np.bool_]
    has_gaps: bool


def count_assets(params: Any) -> int:
    """The number K of assets."""
    return len(params.prices.assets)


class Account(NamedTuple):
    """One account per sub-env.

    Attributes:
        bar: The last bar whose closes have been seen.
        end: The bar with which the episode is truncated at the latest.
        cash: Cash held, negative when owed.
        wealth: ``cash + sum_k units_k price_k``.
        units: Units of each asset held, negative when short.
        price: The last close of each asset up to ``bar``, 0 before its first.
        weights: The weights held, ``units * price / wealth``, and 0 at ruin (wealth at or below 0).
        turnover: Value traded over wealth in the last step, both at the execution prices and before costs; 0 after a
            ruinous gap.
        cost: Paid for that.
        borrow: Paid for short positions and owed cash over the last bar.
        interest: Received for cash over the last bar.
        fill_price: The execution price of each asset in the last step, whether or not it was traded.
        units_traded: Units of each asset bought in it, negative for those sold, those sold for having left too.
    """

    bar: int64
    end: int64
    cash: float64
    wealth: float64
    units: column(float64, count_assets)  # type: ignore[valid-type]
    price: column(float64, count_assets)  # type: ignore[valid-type]
    weights: column(float64, count_assets)  # type: ignore[valid-type]
    turnover: float64
    cost: float64
    borrow: float64
    interest: float64
    fill_price: column(float64, count_assets)  # type: ignore[valid-type]
    units_traded: column(float64, count_assets)  # type: ignore[valid-type]


# -- one row -----------------------------------------------------------------------------------------------


@jit
def reset_row(params: Any, derived: Prices, state: Any, random: Any, i: int, options: Start) -> None:
    """Begin an episode, in cash and with a wealth of 1."""
    last = len(derived.close) - 1
    bar = first_bar(random, i, params.lookback, params.episode_length, last, options.start)
    state.bar[i] = bar
    state.end[i] = last if params.episode_length is None else min(last, bar + params.episode_length)
    account.open_account(state, i, derived.close, bar)


@jit
def step_row(params: Any, derived: Prices, state: Any, i: int, action: Any) -> tuple[float, bool, bool]:
    """Advance an account by one bar of the histories; see ``PortfolioVecEnv``.

    Returns:
        The reward; whether the account is ruined; whether this was the last bar of the episode, or wealth is above
        ``MAX_WEALTH``.
    """
    bar = state.bar[i]
    before, traded = account.trade_row(params, derived, state, i, action, derived.execution, bar)
    bar += 1
    reward = reward_of(account.mark_row(params, derived, state, i, derived.close, bar, before, traded), params)
    state.bar[i], wealth = bar, state.wealth[i]
    return reward, wealth <= 0.0, bar >= state.end[i] or wealth > MAX_WEALTH


@jit
def observe_row(params: Any, derived: Prices, state: Any, i: int, observation: NDArray[float32]) -> None:
    """Write the returns of the last bars, the weights held, and how long assets are listed where that may change."""
    bar, assets = state.bar[i], state.units.shape[1]
    seen = params.lookback * assets
    window = derived.returns.reshape(-1)[(bar - params.lookback) * assets :]
    for j in range(seen):  # indexed from 0 up: many are copied at a time
        observation[j] = window[j]
    for k in range(assets):
        observation[seen + k] = state.weights[i, k]
    if derived.has_gaps:
        for k in range(assets):
            observation[seen + assets + k] = derived.seen[bar, k]


# -- all rows ----------------------------------------------------------------------------------------------


def check(params: PortfolioParams) -> None:
    """Refuse what is out of its range, and a history on which no episode fits.

    Raises:
        TypeError: Something is of another type.
        ValueError: Something is out of its range.
    """
    check_terms(params)
    check_choice("execution", params.execution, EXECUTIONS)
    if params.execution == "open" and params.prices.open is None:
        raise ValueError("execution='open': expected prices with opens, got closes alone")
    check_bars(params.lookback, params.episode_length, len(params.prices))


def check_terms(params: Any) -> None:
    """Refuse what is out of its range of what an account is told, wherever its prices come from.

    Raises:
        TypeError: Something is of another type.
        ValueError: Something is out of its range.
    """
    for name in ("transaction_cost", "cash_rate", "loan_rate", "borrow_rate"):
        check_fraction(name, getattr(params, name))
    if not isinstance(params.shorts, (bool, np.bool_)):
        raise TypeError(f"shorts: expected a bool, got {params.shorts!r}")
    check_choice("actions", params.actions, ACTIONS)
    if params.actions == "softmax" and params.shorts:
        raise ValueError("actions='softmax': expected shorts=False, since such weights are never negative")
    check_range("max_leverage", params.max_leverage, above=0.0, most=1e30)
    if params.transaction_cost * params.max_leverage >= 1.0:
        raise ValueError(
            f"transaction_cost: expected less than 1 / max_leverage, {1.0 / params.max_leverage:g}, so that weights "
            f"can be paid for, got {params.transaction_cost}"
        )
    check_choice("reward", params.reward, REWARDS)


def check_options(params: PortfolioParams, options: Start) -> None:
    """Refuse a start with too few bars before it, or none after it.

    Raises:
        ValueError: It is one.
    """
    check_start(options.start, params.lookback, len(params.prices))


def prepare(params: PortfolioParams) -> Prices:
    """The histories as row functions read them."""
    panel = params.prices
    listed, bars = panel.listed, np.arange(len(panel))[:, None]
    last = np.maximum.accumulate(np.where(listed, bars, -1), axis=0)  # the bar of the last close, -1 for none
    close = np.where(last < 0, 0.0, np.take_along_axis(panel.close, np.maximum(last, 0), axis=0))
    left = bars > last[-1]
    tradable, leaves = listed[:-1], left[:-1]
    execution = close[:-1]
    if params.execution == "open":
        tradable, leaves = tradable & listed[1:], left[1:]
        execution = np.where(listed[1:], panel.open[1:], execution)
    missing = np.maximum.accumulate(np.where(listed, -1, bars), axis=0)  # the last bar without a close
    seen = np.minimum(bars - missing, params.lookback + 1) / (params.lookback + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = np.where(last[:-1] < 0, 0.0, close[1:] / close[:-1] - 1.0).astype(float32)
    return Prices(
        *(close, execution, returns, seen.astype(float32)),
        *(listed, left, tradable, ~(tradable | leaves), not listed.all()),
    )


def space_of_seen(assets: int, lookback: int, tells_listed: bool) -> Box:
    """Returns above -1 (float32 may round to it), weights, which move without bound as losses grow, and fractions."""
    low = [np.full(lookback * assets, -1.0), np.full(assets, -np.inf)]
    high = [np.full(lookback * assets, np.inf), np.full(assets, np.inf)]
    if tells_listed:
        low.append(np.zeros(assets))
        high.append(np.ones(assets))
    return Box(np.concatenate(low).astype(float32), np.concatenate(high).astype(float32), dtype=float32)


def space_of_weights(params: Any, assets: int) -> Box:
    """A weight of each asset, or logits of those and of that of cash."""
    if params.actions == "softmax":
        return Box(-MAX_LOGIT, MAX_LOGIT, (assets + 1,), float32)
    return Box(-params.max_leverage if params.shorts else 0.0, params.max_leverage, (assets,), float32)


def observation_space(params: PortfolioParams) -> Box:
    """What is seen of the histories."""
    return space_of_seen(count_assets(params), params.lookback, not params.prices.listed.all())


def action_space(params: PortfolioParams) -> Box:
    """A weight of each asset."""
    return space_of_weights(params, count_assets(params))
