"""The step of the quoting market for rollouts in compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import bool_, float32, float64, int64
from numpy.typing import NDArray

from sekai.kernels import jit
from sekai.kernels.streams import Streams
from sims.market_making.kernels import advance_market_making
from sims.market_making.records import Outcome, Rates, State, Terms


class RollingColumns(NamedTuple):
    """The live state of a compiled rollout.

    Attributes:
        rates: Scalars, or columns.
        random: The streams.
        began: i8 (N,), the count of steps at which each episode began.
    """

    rates: Rates
    random: Streams
    began: NDArray[int64]


class StepInfos(NamedTuple):
    """The info columns of a step.

    Attributes:
        mid_price: f8, the mid.
        inventory: f8, units held.
        cash: f8.
        wealth: f8.
        bid_filled: bool.
        ask_filled: bool.
    """

    mid_price: NDArray[float64]
    inventory: NDArray[float64]
    cash: NDArray[float64]
    wealth: NDArray[float64]
    bid_filled: NDArray[bool_]
    ask_filled: NDArray[bool_]


_advance_block = advance_market_making.kernel


@jit(inline=False)
def roll_market_making(
    terms: Terms,
    columns: RollingColumns,
    now: int,
    actions: NDArray[float32],
    before: StepInfos,
    infos: StepInfos,
    outcome: Any,
) -> None:
    """Advance a block of rows by one step and begin new episodes where it ended one.

    Args:
        terms: The terms.
        columns: Of ``n`` rows, moved on in place.
        now: The count of steps.
        actions: f4 (n, 2).
        before: The info columns of the step before, (n,) each; whether it filled is not read.
        infos: Those of this step, written.
        outcome: A ``sekai.kernels.rolling.RolledStep``, written.
    """
    told = Outcome(
        outcome.rewards, outcome.truncated, infos.bid_filled, infos.ask_filled, outcome.invalid, outcome.observations
    )
    old = State(before.mid_price, before.inventory, before.cash, before.wealth)
    new = State(infos.mid_price, infos.inventory, infos.cash, infos.wealth)
    _advance_block(
        terms, columns.rates, columns.random, actions, columns.began, now, outcome.invalid, False, old, new, told
    )
    ends = 0
    for i in range(len(outcome.truncated)):
        ends += np.int32(outcome.truncated[i])
    if ends > 0:
        for i in range(len(outcome.truncated)):
            if outcome.truncated[i]:
                columns.began[i] = now + 1
                for k in range(outcome.observations.shape[1]):
                    outcome.final_observations[i, k] = outcome.observations[i, k]
                    outcome.observations[i, k] = 0.0
                outcome.observations[i, 1] = 1.0
