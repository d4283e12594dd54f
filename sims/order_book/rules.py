"""What the baselines do, as compiled policies of one row: each reads an observation and writes an action.

Observations are those of ``LimitOrderBookVecEnv``: spread and imbalance come after the levels, what is held and the
time left come last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int64
from numpy.typing import NDArray

from sekai.kernels import jit
from sims.market_making.quotes import linear_distances, read_observation
from sims.order_book.actions import MARKET_BUY, MARKET_SELL, NONE

_distances = jit(linear_distances)
_read_held = jit(read_observation)


class Fixed(NamedTuple):
    """An action of quotes, as it is.

    Attributes:
        bid: Offset.
        ask: Offset.
        size: Lots less 1.
    """

    bid: int
    ask: int
    size: int


class Join(NamedTuple):
    """Quotes at the best prices.

    Attributes:
        most: The largest offset, ticks.
        depth: Levels a side in an observation.
        size: Lots less 1.
    """

    most: int
    depth: int
    size: int


class Skew(NamedTuple):
    """Quotes at distances from the mid: the fields of ``sims.market_making.quotes.LinearQuotes``, then of ``Join``.

    Attributes:
        half_spread: See there, as of all that come before ``tick_size``.
        half_spread_rate: See there.
        skew: See there.
        skew_rate: See there.
        horizon: See there.
        n_steps: See there.
        inventory_scale: See there.
        tick_size: Money of a tick.
        most: The largest offset, ticks.
        depth: Levels a side in an observation.
        size: Lots less 1.
    """

    half_spread: float
    half_spread_rate: float
    skew: float
    skew_rate: float
    horizon: float
    n_steps: float
    inventory_scale: float
    tick_size: float
    most: int
    depth: int
    size: int


class Take(NamedTuple):
    """Market orders with the imbalance.

    Attributes:
        threshold: Of the imbalance.
        limit: Lots held at most.
        inventory_scale: Lots held where an observation says 1.
        depth: Levels a side in an observation.
    """

    threshold: float
    limit: float
    inventory_scale: float
    depth: int


class Schedule(NamedTuple):
    """What is to be left of a position.

    Attributes:
        left: f8 (n_steps,), lots after each step.
        quantity: Lots at the start.
    """

    left: NDArray[np.float64]
    quantity: float


@jit
def offset_of(ticks: float, most: int) -> Any:
    """The nearest offset to a number of ticks, of 1 to the largest."""
    return int64(min(max(np.rint(ticks), 1.0), float64(most)))


@jit
def fixed_row(parameters: Fixed, observation: Any, action: Any) -> None:
    """Quote as always."""
    action[0], action[1], action[2] = parameters.bid, parameters.ask, parameters.size


@jit
def join_row(parameters: Join, observation: Any, action: Any) -> None:
    """Quote at the best prices, which are the spread away from each other."""
    offset = offset_of(float64(observation[4 * parameters.depth]), parameters.most)
    action[0], action[1], action[2] = offset, offset, parameters.size


@jit
def skew_row(parameters: Skew, observation: Any, action: Any) -> None:
    """Quote at the ticks nearest to distances from the mid."""
    level, time_left = float64(observation[len(observation) - 2]), float64(observation[len(observation) - 1])
    held, step = _read_held(parameters, level, time_left)
    bid, ask = _distances(parameters, held, step)
    half = 0.5 * float64(observation[4 * parameters.depth])
    action[0] = offset_of(bid / parameters.tick_size + half, parameters.most)
    action[1] = offset_of(ask / parameters.tick_size + half, parameters.most)
    action[2] = parameters.size


@jit
def follow_imbalance_row(parameters: Take, observation: Any, action: Any) -> None:
    """Send a market order of 1 lot to the side with more lots, as far as the limit allows."""
    imbalance = float64(observation[4 * parameters.depth + 1])
    held = np.rint(float64(observation[len(observation) - 2]) * parameters.inventory_scale)
    kind = NONE
    if imbalance >= parameters.threshold and held < parameters.limit:
        kind = MARKET_BUY
    elif imbalance <= -parameters.threshold and held > -parameters.limit:
        kind = MARKET_SELL
    action[0], action[1], action[2], action[3] = kind, 0, 0, 0


@jit
def schedule_row(parameters: Schedule, observation: Any, action: Any) -> None:
    """Trade at market what is held beyond what is to be left after this step."""
    n_steps = len(parameters.left)
    level, time_left = float64(observation[len(observation) - 2]), float64(observation[len(observation) - 1])
    held = np.rint(abs(level) * parameters.quantity)
    step = min(max(int64(np.rint((1.0 - time_left) * n_steps)), 0), n_steps - 1)
    beyond = max(held - parameters.left[step], 0.0)
    action[0] = float32(beyond / held) if held > 0.0 else float32(0.0)
    action[1] = float32(0.0)
