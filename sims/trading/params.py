"""The terms of the trading market, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sekai.checks import check_count
from sims.checks import as_real, check_choice
from sims.data import PriceHistory

_CHOICES = {
    "actions": ("discrete", "weight"),
    "execution": ("open", "close"),
    "reward": ("log_growth", "return"),
}


@dataclass(frozen=True, kw_only=True)
class TradingParams:
    """What one bar is, costs and pays. See ``TradingVecEnv`` for the market itself.

    Attributes:
        lookback: Returns in the observation, bars, at least 1.
        episode_length: Steps (bars) after which an episode is truncated, at least 1; None for the end of the data.
        actions: ``"discrete"`` (0 short, 1 flat, 2 long) or ``"weight"`` (a number in [-1, 1]).
        transaction_cost: Fraction of the value traded, in [0, 1).
        borrow_rate: Per bar, fraction of the value of a short position, in [0, 1).
        execution: Price of a trade: ``"open"`` of the next bar, or the ``"close"`` last seen.
        reward: ``"log_growth"`` of wealth or its simple ``"return"``.

    Raises:
        TypeError: An argument is not of the type above.
        ValueError: An argument is not in the range above.
    """

    lookback: int
    episode_length: int | None
    actions: str
    transaction_cost: float
    borrow_rate: float
    execution: str
    reward: str

    def __post_init__(self) -> None:
        # The record is frozen for its users; here its fields are still being made.
        object.__setattr__(self, "lookback", check_count(self.lookback, "lookback"))
        if self.episode_length is not None:
            object.__setattr__(self, "episode_length", check_count(self.episode_length, "episode_length"))
        object.__setattr__(self, "transaction_cost", _fraction("transaction_cost", self.transaction_cost))
        object.__setattr__(self, "borrow_rate", _fraction("borrow_rate", self.borrow_rate))
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)

    def last_start(self, history: PriceHistory) -> int:
        """The last bar on which an episode can start so that all of it fits into the history.

        Raises:
            ValueError: Not even the first possible start, bar ``lookback``, leaves room for an episode.
        """
        steps = 1 if self.episode_length is None else self.episode_length
        needed = self.lookback + steps + 1
        if len(history) < needed:
            raise ValueError(
                f"prices: expected at least {needed} bars (lookback {self.lookback} + "
                f"{steps} step{'s' * (steps > 1)} of an episode + 1), got {len(history)}"
            )
        return len(history) - 1 - steps


def choose_execution(execution: str | None, history: PriceHistory) -> str:
    """The execution asked for, or for None the later price of the two that the history knows.

    Raises:
        ValueError: ``"open"`` is asked for and the history has no opens.
    """
    if execution is None:
        return "close" if history.open is None else "open"
    if isinstance(execution, str) and execution == "open" and history.open is None:
        raise ValueError("execution='open': expected prices with a column 'open', got closes alone")
    return execution


def _fraction(name: str, value: Any) -> float:
    """The value as a float in [0, 1)."""
    number = as_real(value)
    if number is None:
        raise TypeError(f"{name}: expected a number, got {value!r}")
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name}: expected a number in [0, 1), got {number}")
    return number
