"""Two ways to quote, each for a batch of observations and, compiled, for one.

The distances are worked out by one function for both, which NumPy runs on arrays and numba on scalars, in float64 and
without anything but sums, products and look-ups; hence both forms give the same float32 actions, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.kernels import jit
from sims.parameters import Numbers

#: A compiled function ``quote_row(parameters, observation, action)``.
QuoteRow: TypeAlias = Callable[[Any, NDArray[np.float32], NDArray[np.float32]], None]


class LinearQuotes(NamedTuple):
    """Quotes linear in the inventory and in the time left; prices and prices per time.

    With ``left`` the time left, the bid is ``half_spread + half_spread_rate * left + (skew + skew_rate * left) * q``
    away from the mid, and the ask as far as the bid for ``-q``. Each coefficient is one number, or float64 (N,).

    Attributes:
        half_spread: Half the spread at the horizon.
        half_spread_rate: What it is more, per time left.
        skew: What the bid moves away and the ask comes closer, per unit held, at the horizon.
        skew_rate: What it is more, per time left.
        horizon: Time of an episode.
        n_steps: Steps of an episode, a whole number.
        inventory_scale: Units held where the observation says 1.
    """

    half_spread: Numbers
    half_spread_rate: Numbers
    skew: Numbers
    skew_rate: Numbers
    horizon: float
    n_steps: float
    inventory_scale: float

    @property
    def quote_row(self) -> QuoteRow:
        """The compiled function that quotes by these numbers for one sub-env."""
        return quote_linear_row

    def distances(self, inventory: Any, step: Any) -> tuple[Any, Any]:
        """Distances of the bid and the ask, float64 (N,), for units held at time steps, float64 (N,)."""
        return linear_distances(self, inventory, step)


class TabulatedQuotes(NamedTuple):
    """Quotes looked up by time step and inventory; beyond the table those of its edge.

    Attributes:
        bid: f8 (M, n_steps + 1, 2 limit + 1), price: M tables of the distance of the bid, from the first step to the
            horizon and from ``-limit`` to ``limit`` units. The ask for ``q`` is as far as the bid for ``-q``.
        table: Which one to look into: one number, or intp (N,).
        limit: The largest inventory in a table, units.
        n_steps: Steps of an episode, a whole number.
        inventory_scale: Units held where the observation says 1.
    """

    bid: NDArray[np.float64]
    table: int | NDArray[np.intp]
    limit: int
    n_steps: float
    inventory_scale: float

    @property
    def quote_row(self) -> QuoteRow:
        """The compiled function that quotes by this table for one sub-env."""
        return quote_tabulated_row

    def distances(self, inventory: Any, step: Any) -> tuple[Any, Any]:
        """Distances of the bid and the ask, float64 (N,), for units held at time steps, float64 (N,)."""
        return tabulated_distances(self, inventory, step)


def linear_distances(quotes: LinearQuotes, inventory: Any, step: Any) -> tuple[Any, Any]:
    """Distances (bid, ask) in price, float64, for units held at a step, both whole floats."""
    left = quotes.horizon * (quotes.n_steps - step) / quotes.n_steps
    half_spread = quotes.half_spread + quotes.half_spread_rate * left
    skew = (quotes.skew + quotes.skew_rate * left) * inventory
    return half_spread + skew, half_spread - skew


def tabulated_distances(quotes: TabulatedQuotes, inventory: Any, step: Any) -> tuple[Any, Any]:
    """Distances (bid, ask) in price, float64, for units held at a step, both whole floats."""
    # fmin and fmax pass over a NaN, so that an index is never out of its range.
    units = np.int64(np.fmax(np.fmin(inventory, quotes.limit), -quotes.limit))
    row = np.int64(np.fmax(np.fmin(step, quotes.n_steps), 0.0))
    bid = quotes.bid[quotes.table, row, quotes.limit + units]
    return bid, quotes.bid[quotes.table, row, quotes.limit - units]


def read_observation(quotes: LinearQuotes | TabulatedQuotes, level: Any, time_left: Any) -> tuple[Any, Any]:
    """Units held and the step, whole floats, from the first two entries of an observation, as float64."""
    return np.rint(level * quotes.inventory_scale), np.rint((1.0 - time_left) * quotes.n_steps)


_read_row = jit(read_observation)
_linear_row = jit(linear_distances)
_tabulated_row = jit(tabulated_distances)


@jit
def quote_linear_row(quotes: LinearQuotes, observation: NDArray[np.float32], action: NDArray[np.float32]) -> None:
    """Quote for one sub-env.

    Args:
        quotes: Numbers shared by all sub-envs.
        observation: f4 (2,) or (4,).
        action: f4 (2,), out: distances of the bid and the ask, price.
    """
    inventory, step = _read_row(quotes, np.float64(observation[0]), np.float64(observation[1]))
    action[0], action[1] = _linear_row(quotes, inventory, step)


@jit
def quote_tabulated_row(quotes: TabulatedQuotes, observation: NDArray[np.float32], action: NDArray[np.float32]) -> None:
    """Quote for one sub-env.

    Args:
        quotes: One table, shared by all sub-envs.
        observation: f4 (2,) or (4,).
        action: f4 (2,), out: distances of the bid and the ask, price.
    """
    inventory, step = _read_row(quotes, np.float64(observation[0]), np.float64(observation[1]))
    action[0], action[1] = _tabulated_row(quotes, inventory, step)
