"""The parameters of the baselines: what is valid, and how to read them off an env."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sekai.checks import check_count
from sims.checks import as_real
from sims.market_making.closed_forms import Numbers
from sims.parameters import Randomized, check_parameter

#: Mids whose volatility is a fraction of the price.
_RELATIVE_MIDPRICES = ("geometric", "jumps")


def check_numbers(value: Any, where: str, *, above: float | None = None, least: float | None = None) -> Numbers:
    """A float, or a read-only float64 (N,); an array of one and the same number counts as the number.

    Args:
        value: A number, or a sequence of them, one per sub-env.
        where: What the error message calls it.
        above: What every number has to be greater than.
        least: What every number has to be at least.

    Raises:
        TypeError: It is neither.
        ValueError: A number is not finite or out of range, or a sequence is not one-dimensional.
    """
    numbers = check_parameter(where, value, above=above, least=least)
    if isinstance(numbers, Randomized):
        raise TypeError(f"{where}: expected a number, or one per sub-env, got {value!r}")
    if isinstance(numbers, np.ndarray) and np.all(numbers == numbers[0]):
        return float(numbers[0])
    return numbers


def _check_horizon(value: Any, where: str) -> float:
    if as_real(value) is None:
        raise TypeError(f"{where}: expected a number, got {value!r}")
    return float(check_numbers(value, where, above=0.0))


def _check_limit(value: Any, where: str) -> int | None:
    return None if value is None else check_count(value, where)


#: What makes a valid value of each parameter, by name.
CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "half_spread": check_numbers,
    "gamma": partial(check_numbers, above=0.0),
    "phi": partial(check_numbers, least=0.0),
    "alpha": partial(check_numbers, least=0.0),
    "volatility": partial(check_numbers, least=0.0),
    "arrival_rate": partial(check_numbers, above=0.0),
    "fill_decay": partial(check_numbers, above=0.0),
    "horizon": _check_horizon,
    "n_steps": check_count,
    "max_inventory": _check_limit,
    "grid_limit": _check_limit,
}


def read_market(vec: Any, where: str, **given: Any) -> dict[str, Any]:
    """The parameters of a quoting market that a policy is built from.

    Args:
        vec: A VecEnv of the market.
        where: What the error message calls the policy.
        **given: Parameters that may differ between sub-envs: a value to quote by, or None for the env's.

    Returns:
        These, and the horizon, n_steps and max_inventory of the env, by name.

    Raises:
        ValueError: See ``read_parameter``.
    """
    own = {name: read_parameter(vec, where, name) for name in ("horizon", "n_steps", "max_inventory")}
    return own | {
        name: read_parameter(vec, where, name, per_env=True) if value is None else value
        for name, value in given.items()
    }


def read_parameter(vec: Any, where: str, name: str, per_env: bool = False) -> Any:
    """One parameter of a quoting market.

    Args:
        vec: A VecEnv of the market.
        where: What the error message calls the policy.
        name: The field of ``MarketMakingParams``.
        per_env: Whether it may differ between sub-envs.

    Returns:
        The value that all sub-envs share, or float64 (N,). The volatility is in price per square root of time: that of
        a mid which moves by a fraction of its price is taken at the initial price.

    Raises:
        ValueError: It is drawn anew at each episode, or differs between sub-envs where it may not.
    """
    # One record for all sub-envs; or one each, where they are envs of their own.
    records = list({id(record): record for record in vec.get_attr("params")}.values())
    if not per_env:
        values = [getattr(record, name) for record in records]
        if any(isinstance(value, (np.ndarray, Randomized)) or value != values[0] for value in values):
            raise ValueError(f"{where}: expected sub-envs of one {name}, got {sorted(values, key=str)}")
        return values[0]
    numbers = [_read_numbers(record, where, name) for record in records]
    return numbers[0] if len(numbers) == 1 else np.array([np.asarray(number).item() for number in numbers])


def _read_numbers(record: Any, where: str, name: str) -> Any:
    factors = {name: getattr(record, name)}
    if name == "volatility" and record.midprice in _RELATIVE_MIDPRICES:
        factors["initial_price"] = record.initial_price
    for factor, value in factors.items():
        if isinstance(value, Randomized):
            raise ValueError(
                f"{where}: {factor} is drawn anew at each episode ({value}), where a policy cannot see it; "
                f"give the {name} to quote by, for_env(..., {name}=...)"
            )
    return math.prod(factors.values())
