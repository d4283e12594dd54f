"""What the kernels of the quoting market are given and what they write, as named tuples of scalars and columns (N,)."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import bool_, float32, float64
from numpy.typing import NDArray

#: How the mid moves: by an affine step, by a random factor, or by one with jumps.
AFFINE, FACTOR, JUMPS = 0, 1, 2


class Terms(NamedTuple):
    """What all sub-envs share.

    Attributes:
        n_steps: Steps of an episode.
        max_inventory: Units, infinite where there is no limit.
        inventory_scale: What an observation counts inventories in.
        linear_fills: Whether a fill has probability ``A exp(-k d) dt``, else ``1 - exp(-A exp(-k d) dt)``.
        least_distance: Distances below it count as it: 0 or minus infinity.
        move: ``AFFINE``, ``FACTOR`` or ``JUMPS``.
        keep: What an affine step multiplies the mid by.
        jumps: Mean number of jumps per step.
        jump_mean: Mean of the log of a jump's factor.
        jump_sd: Its standard deviation.
        running_penalty: Reward per unit of inventory squared and step.
        terminal_penalty: Reward per unit of inventory squared at the end of an episode.
        risk_aversion: Of the exponential utility of the final wealth, which is then the reward; 0 for profit and loss.
    """

    n_steps: int
    max_inventory: float
    inventory_scale: float
    linear_fills: bool
    least_distance: float
    move: int
    keep: float
    jumps: float
    jump_mean: float
    jump_sd: float
    running_penalty: float
    terminal_penalty: float
    risk_aversion: float


class Rates(NamedTuple):
    """What may differ between sub-envs: all of them scalars, or all of them columns (N,).

    Attributes:
        initial_price: f8, the mid at the start of an episode.
        shift: f8, what a step adds to the mid, or to its log, on average.
        scale: f8, the standard deviation of that.
        intensity: f4, ``A dt``, orders per step and side at a distance of 0.
        decay: f4, ``k``, per price.
    """

    initial_price: Any
    shift: Any
    scale: Any
    intensity: Any
    decay: Any


class State(NamedTuple):
    """Columns (N,): read from one set and written to another, so that infos need no copy of them.

    Attributes:
        mid: f8, the mid.
        inventory: f8, units held, negative when short.
        cash: f8.
        wealth: f8, cash and the inventory at the mid.
    """

    mid: NDArray[float64]
    inventory: NDArray[float64]
    cash: NDArray[float64]
    wealth: NDArray[float64]


class Outcome(NamedTuple):
    """What a step tells beside the new state, columns (N,).

    Attributes:
        reward: f8.
        truncated: bool, whether the episode is over.
        bid_filled: bool, whether a unit was bought.
        ask_filled: bool, whether a unit was sold.
        invalid: bool, whether a distance was not finite; if any is, the step does not count.
        observations: f4 (N, 2 or 4), see ``MarketMakingVecEnv``.
    """

    reward: NDArray[float64]
    truncated: NDArray[bool_]
    bid_filled: NDArray[bool_]
    ask_filled: NDArray[bool_]
    invalid: NDArray[bool_]
    observations: NDArray[float32]
