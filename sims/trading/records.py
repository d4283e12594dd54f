"""What the kernels of the trading market are given and what they write, as named tuples of scalars and columns (N,)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import bool_, float32, float64, int64
from numpy.typing import NDArray


class Market(NamedTuple):
    """The prices, read only.

    Attributes:
        close: f8 (T,), the close of each bar.
        execution: f8 (T-1,), the price at which a decision taken after bar ``i`` trades: ``close[i]``, or the open
            of bar ``i + 1``.
        returns: f4 (T-1,), ``close[j + 1] / close[j] - 1``.
    """

    close: NDArray[float64]
    execution: NDArray[float64]
    returns: NDArray[float32]


class Terms(NamedTuple):
    """The scalars of the market.

    Attributes:
        transaction_cost: Fraction of the value traded, in [0, 1).
        borrow_rate: Per bar, fraction of the value of a short position.
        log_growth: Whether the reward is the log growth of wealth, else its simple return.
    """

    transaction_cost: float
    borrow_rate: float
    log_growth: bool


class Game(NamedTuple):
    """All that accounts share.

    Attributes:
        market: The prices.
        terms: Costs and kind of reward.
        discrete: Whether an action is 0, 1 or 2, else a weight.
        first_start: The first bar that an episode can start on.
        last_start: The last.
        length: Bars of an episode, at most.
    """

    market: Market
    terms: Terms
    discrete: bool
    first_start: int
    last_start: int
    length: int


class Account(NamedTuple):
    """State columns (N,), updated in place.

    Attributes:
        bar: i8, the last bar whose close has been seen.
        end: i8, the bar with which the episode is truncated at the latest.
        units: f8, units of the asset held, negative when short.
        cash: f8, may be negative only after a loss on a short position.
        wealth: f8, ``cash + units * close[bar]``.
        weight: f8, ``units * close[bar] / wealth``, and 0 at ruin (wealth at or below 0).
    """

    bar: NDArray[int64]
    end: NDArray[int64]
    units: NDArray[float64]
    cash: NDArray[float64]
    wealth: NDArray[float64]
    weight: NDArray[float64]


class Outcome(NamedTuple):
    """Output columns (N,) of one step.

    Attributes:
        reward: f8, see ``Terms.log_growth``.
        terminated: bool, ruin.
        truncated: bool, the last bar of the episode, or a wealth above ``MAX_WEALTH``.
        price: f8, the close of the new bar.
        turnover: f8, value traded over wealth, both at the execution price and before costs; 0 after a ruinous gap.
        cost: f8, paid for the trade.
        borrow: f8, paid for the short position held over the bar.
    """

    reward: NDArray[float64]
    terminated: NDArray[bool_]
    truncated: NDArray[bool_]
    price: NDArray[float64]
    turnover: NDArray[float64]
    cost: NDArray[float64]
    borrow: NDArray[float64]

    @classmethod
    def zeros(cls, n: int) -> Outcome:
        """Fresh columns of ``n`` rows."""
        return cls(
            reward=np.zeros(n),
            terminated=np.zeros(n, dtype=bool_),
            truncated=np.zeros(n, dtype=bool_),
            price=np.zeros(n),
            turnover=np.zeros(n),
            cost=np.zeros(n),
            borrow=np.zeros(n),
        )
