"""The terms of the quoting market, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sekai.checks import check_count
from sims.checks import as_real, check_choice
from sims.parameters import Parameter, check_parameter

FILL_RULES = ("linear", "exact")
MIDPRICES = ("brownian", "geometric", "ou", "jumps")
REWARDS = ("pnl", "running_penalty", "exp_utility")
OBSERVATIONS = ("basic", "full")

#: What may differ between sub-envs, with the range of each value.
PER_ENV: dict[str, dict[str, float]] = {
    "initial_price": {"above": 0.0},
    "volatility": {"least": 0.0},
    "arrival_rate": {"least": 0.0},
    "fill_decay": {"least": 0.0},
}


@dataclass(frozen=True, kw_only=True, eq=False)
class MarketMakingParams:
    """How the mid moves, how orders arrive and what is paid for. See ``MarketMakingVecEnv`` for the market itself.

    The first four may be one number for all sub-envs, one each (N,), or a ``Randomized`` range.

    Attributes:
        initial_price: ``S0``, the mid at the start of an episode, above 0.
        volatility: ``sigma``, at least 0: price per square root of time ("brownian", "ou"), or a fraction of the price
            per square root of time ("geometric", "jumps").
        arrival_rate: ``A``, orders per time at a distance of 0, at least 0.
        fill_decay: ``k``, per price, at least 0.
        horizon: ``T``, the time an episode lasts, above 0.
        n_steps: ``N``, its steps, 1 to 2**31 - 1.
        max_inventory: Units held at most, long or short, 1 to 2**53; None for no limit.
        fill_rule: "linear" or "exact".
        clip_quotes: Whether distances below 0 count as 0.
        midprice: "brownian", "geometric", "ou" or "jumps".
        reward: "pnl", "running_penalty" or "exp_utility".
        observe: "basic" or "full".
        drift: ``mu``: price per time ("brownian"), or a fraction of the price per time ("geometric", "jumps").
        mean_reversion: ``kappa`` of "ou", per time, above 0.
        mean_price: Where "ou" reverts to; None for the initial price.
        jump_rate: Jumps per time of "jumps", at least 0, at most 100 per step.
        jump_mean: Mean of the log of the factor by which a jump moves the price.
        jump_sd: Its standard deviation, at least 0.
        inventory_penalty: ``phi`` of "running_penalty", reward per time and unit of inventory squared.
        terminal_penalty: ``alpha`` of "running_penalty", reward per unit of inventory squared at the end.
        risk_aversion: ``gamma`` of "exp_utility", per unit of wealth, above 0.

    Raises:
        TypeError: An argument is not of the type above.
        ValueError: An argument is not in the range above.
    """

    initial_price: Parameter
    volatility: Parameter
    arrival_rate: Parameter
    fill_decay: Parameter
    horizon: float
    n_steps: int
    max_inventory: int | None
    fill_rule: str
    clip_quotes: bool
    midprice: str
    reward: str
    observe: str
    drift: float
    mean_reversion: float
    mean_price: float | None
    jump_rate: float
    jump_mean: float
    jump_sd: float
    inventory_penalty: float
    terminal_penalty: float
    risk_aversion: float

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            **{name: check_parameter(name, getattr(self, name), **limits) for name, limits in PER_ENV.items()},
            "n_steps": _count("n_steps", self.n_steps, most=_MOST_STEPS),
            "max_inventory": None
            if self.max_inventory is None
            else _count("max_inventory", self.max_inventory, most=_MOST_INVENTORY),
            "fill_rule": check_choice("fill_rule", self.fill_rule, FILL_RULES),
            "midprice": check_choice("midprice", self.midprice, MIDPRICES),
            "reward": check_choice("reward", self.reward, REWARDS),
            "observe": check_choice("observe", self.observe, OBSERVATIONS),
            "clip_quotes": _flag("clip_quotes", self.clip_quotes),
            **{name: _number(name, getattr(self, name)) for name in ("drift", "jump_mean")},
            **{name: _number(name, getattr(self, name), above=0.0) for name in _ABOVE_ZERO},
            **{name: _number(name, getattr(self, name), least=0.0) for name in _AT_LEAST_ZERO},
        }
        if self.mean_price is not None:
            checked["mean_price"] = _number("mean_price", self.mean_price)
        for name, value in checked.items():  # the record is frozen for its users; here it is still being made
            object.__setattr__(self, name, value)
        self._check_jumps()

    def _check_jumps(self) -> None:
        if self.jump_rate * self.dt > _MOST_JUMPS:
            jumps = self.jump_rate * self.dt
            raise ValueError(f"jump_rate: expected at most {_MOST_JUMPS:g} jumps per step, got {jumps:g}")
        log_mean = self.jump_mean + 0.5 * self.jump_sd * self.jump_sd
        if log_mean > _MOST_LOG:
            raise ValueError(
                f"jump_mean, jump_sd: expected jump_mean + jump_sd^2 / 2, the log of the mean factor of a jump, "
                f"of at most {_MOST_LOG:g}, got {log_mean:g}"
            )

    @property
    def dt(self) -> float:
        """The time of one step."""
        return self.horizon / self.n_steps


_ABOVE_ZERO = ("horizon", "mean_reversion", "risk_aversion")
_AT_LEAST_ZERO = ("jump_rate", "jump_sd", "inventory_penalty", "terminal_penalty")
#: The kernel counts the steps that are left in 32 bits, and units in float64.
_MOST_STEPS, _MOST_INVENTORY = 2**31 - 1, 2**53
#: Jumps per step; their number is found by counting up to it.
_MOST_JUMPS = 100.0
#: Of a factor: its exponential is finite.
_MOST_LOG = 700.0


def _count(name: str, value: Any, *, most: int) -> int:
    count = check_count(value, name)
    if count > most:
        raise ValueError(f"{name}: expected at most {most}, got {count}")
    return count


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected a bool, got {value!r}")
    return bool(value)


def _number(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> float:
    if as_real(value) is None:
        raise TypeError(f"{name}: expected a number, got {value!r}")
    number = check_parameter(name, value, above=above, least=least)
    assert isinstance(number, float) and math.isfinite(number)
    return number
