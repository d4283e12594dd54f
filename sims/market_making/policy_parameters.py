"""The parameters of the baselines: what is valid, and how to read them off an env."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sekai.checks import check_count
from sims.checks import as_real
from sims.parameters import check_numbers, read_numbers, read_shared
from sims.prices.volatility import volatility_factors

#: Mids whose volatility is a fraction of the price.
_RELATIVE_MIDPRICES = ("geometric", "jumps")


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
        a mid which moves by a fraction of its price is taken at the initial price. Of a mid with a model it is the
        model's, without its jumps.

    Raises:
        ValueError: It is drawn anew at each episode, or differs between sub-envs where it may not; or it is the
            volatility of a model that has no such number.
    """
    if not per_env:
        return read_shared(vec, where, name)
    factors = partial(_volatility_factors, where=where) if name == "volatility" else None
    return read_numbers(vec, where, name, factors)


def _volatility_factors(record: Any, where: str) -> dict[str, Any]:
    if not isinstance(record.midprice, str):
        return volatility_factors(record.midprice, "midprice", record.initial_price, where, "volatility")
    start = {"initial_price": record.initial_price} if record.midprice in _RELATIVE_MIDPRICES else {}
    return {"volatility": record.volatility, **start}
