"""The step of the trading market for rollouts in compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import bool_, float64, int64
from numpy.typing import NDArray

from sekai.kernels import jit, streams
from sekai.kernels.streams import Streams
from sims.trading.kernels import advance_trading, begin_row, observe_trading
from sims.trading.records import Account, Game, Outcome


class RollingColumns(NamedTuple):
    """The live state of a compiled rollout.

    Attributes:
        account: The accounts.
        random: Their streams.
    """

    account: Account
    random: Streams


class StepInfos(NamedTuple):
    """The info columns of a step, see ``TradingVecEnv``.

    Attributes:
        price: f8.
        wealth: f8.
        position: f8.
        turnover: f8.
        cost: f8.
        borrow: f8.
        bar: i8.
    """

    price: NDArray[float64]
    wealth: NDArray[float64]
    position: NDArray[float64]
    turnover: NDArray[float64]
    cost: NDArray[float64]
    borrow: NDArray[float64]
    bar: NDArray[int64]


_advance_block, _observe_block = advance_trading.kernel, observe_trading.kernel


@jit(inline=False)
def roll_trading(
    shared: Game,
    columns: RollingColumns,
    now: int,
    actions: NDArray[Any],
    before: StepInfos,
    infos: StepInfos,
    outcome: Any,
) -> None:
    """Advance a block of accounts by one bar and begin new episodes where it ended one.

    Args:
        shared: The market.
        columns: Of ``n`` rows, moved on in place.
        now: Not read; accounts count their own bars.
        actions: i8 (n,) or f4 (n, 1).
        before: Not read.
        infos: The info columns, (n,) each, written.
        outcome: A ``sekai.kernels.rolling.RolledStep``, written.
    """
    account = columns.account
    n = len(account.bar)
    weights, flat = np.empty(n), actions.reshape(-1)
    for i in range(n):
        weight = flat[i] - 1.0 if shared.discrete else float64(flat[i])
        outcome.invalid[i] = not abs(weight) <= 1.0
        weights[i] = 0.0 if outcome.invalid[i] else weight
    told = Outcome(
        outcome.rewards, outcome.terminated, outcome.truncated, infos.price, infos.turnover, infos.cost, infos.borrow
    )
    _advance_block(shared.market, shared.terms, account, weights, np.zeros(n, dtype=bool_), told)
    _observe_block(shared.market.returns, account.bar, account.weight, outcome.observations)
    for i in range(n):
        infos.wealth[i], infos.position[i], infos.bar[i] = account.wealth[i], account.weight[i], account.bar[i]
    for i in range(n):
        if outcome.terminated[i] or outcome.truncated[i]:
            outcome.final_observations[i, :] = outcome.observations[i]
            start = streams.integers(columns.random, i, shared.first_start, shared.last_start + 1)
            begin_row(account, i, start, shared.length, len(shared.market.close) - 1)
            _observe_block(
                shared.market.returns,
                account.bar[i : i + 1],
                account.weight[i : i + 1],
                outcome.observations[i : i + 1],
            )
