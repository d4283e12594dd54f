"""What markets share whose accounts live along bars of prices: where they start, what they are paid, when they end."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sekai.checks import check_count
from sekai.kernels import jit, streams
from sekai.vector import part_of
from sims.checks import check_choice, check_range
from sims.data.history import LIMIT

#: Wealth at the start of an episode.
START_WEALTH = 1.0
#: Least growth of wealth per bar that the log reward tells apart; ruin pays ``log(GROWTH_FLOOR)``, not -inf.
GROWTH_FLOOR = 1e-6
#: Wealth above which an episode is truncated. One more bar from here stays far inside float64, given the limits that
#: ``sims.data.PriceHistory`` sets to prices and their rises.
MAX_WEALTH = 1e100

#: Prices at which a decision may trade: the open of the next bar, or the close just seen.
EXECUTIONS = ("open", "close")
#: What a step pays.
REWARDS = ("log_growth", "return")


class Start(NamedTuple):
    """What a reset can be told.

    Attributes:
        start: The bar to begin at; -1 for one drawn uniformly from all on which a whole episode fits.
    """

    start: int = -1


@jit
def first_bar(random: Any, i: int, lookback: int, episode_length: Any, last: int, start: int) -> int:
    """The bar at which row ``i`` begins an episode.

    A start is drawn even where one is named, so that naming one moves no later draw.

    Args:
        random: The streams.
        i: The row.
        lookback: Bars before the first start.
        episode_length: Steps of an episode, None for at least one.
        last: The last bar.
        start: The bar that is named, below 0 for none.
    """
    room = 1 if episode_length is None else episode_length
    drawn = streams.integers(random, i, lookback, last - room + 1)
    return start if start >= 0 else drawn


@jit
def reward_of(growth: float, params: Any) -> float:
    """What a step pays in which wealth grew by a factor.

    Args:
        growth: Wealth over wealth before.
        params: Of the market, with ``reward``, ``"log_growth"`` or ``"return"``: the compiler knows which of a field
            alone, and compares words, for which it takes over a second, if it is given the word.
    """
    return math.log(max(growth, GROWTH_FLOOR)) if params.reward == "log_growth" else growth - 1.0


class Rates(NamedTuple):
    """What follows per bar where a model draws the prices.

    Attributes:
        path: What the model derives.
    """

    path: part_of("prices", "Derived")  # type: ignore[valid-type]


@jit
def derive_row(params: Any) -> Rates:
    """What the model derives from the time of a bar."""
    return Rates(params.prices.derive(params.prices, params.bar_time))


@jit
def within_limits(close: float, before: float) -> float:
    """A close that a model drew, within ``LIMIT`` of the price before it and of 1, as those of a history are."""
    least, most = max(before / LIMIT, 1.0 / LIMIT), min(before * LIMIT, LIMIT)
    return min(max(close, least), most)


@jit
def is_at_limit(close: float) -> bool:
    """Whether a price has come to a bound, at which an episode is truncated."""
    return close >= LIMIT or close <= 1.0 / LIMIT


def check_fraction(name: str, number: float) -> None:
    """ValueError, which names ``name``, for a cost or a rate that is not in [0, 1)."""
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name}: expected a number in [0, 1), got {number}")


def check_bars(lookback: int, episode_length: int | None, bars: int) -> None:
    """Refuse a history on which no episode fits.

    Args:
        lookback: Returns in the observation.
        episode_length: Steps of an episode, None for at least one.
        bars: Of the history.

    Raises:
        TypeError: A number is no integer.
        ValueError: It is one, or a number is below 1.
    """
    check_count(lookback, "lookback")
    steps = 1 if episode_length is None else check_count(episode_length, "episode_length")
    needed = lookback + steps + 1
    if bars < needed:
        raise ValueError(
            f"prices: expected at least {needed} bars (lookback {lookback} + "
            f"{steps} step{'s' * (steps > 1)} of an episode + 1), got {bars}"
        )


def check_start(start: int, lookback: int, bars: int) -> None:
    """Refuse a start with too few bars before it, or none after it.

    Raises:
        ValueError: It is one.
    """
    first, last = lookback, bars - 2
    if not first <= start <= last:
        raise ValueError(f"start: expected an integer in [{first}, {last}], got {start}")


def check_simulated(params: Any) -> None:
    """Refuse what is out of its range of what a market is told that draws its bars from a model.

    Args:
        params: With ``execution``, ``lookback``, ``episode_length``, ``bar_time`` and ``initial_price``.

    Raises:
        TypeError: A number is no integer.
        ValueError: Something is out of its range.
    """
    if params.execution == "open":
        raise ValueError("execution='open': expected 'close', since a price model has no opens")
    check_choice("execution", "close" if params.execution is None else params.execution, EXECUTIONS)
    check_count(params.lookback, "lookback")
    check_count(params.episode_length, "episode_length")
    check_range("bar_time", params.bar_time, above=0.0)
    check_range("initial_price", params.initial_price, least=1e-30, most=1e30)
