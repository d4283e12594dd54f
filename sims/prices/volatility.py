"""The volatility of a price, of whichever model, as what reads one number for it takes it."""

from __future__ import annotations

from typing import Any

from sims.prices.brownian import Brownian
from sims.prices.geometric import Geometric
from sims.prices.merton import MertonJumps
from sims.prices.ornstein_uhlenbeck import LogOrnsteinUhlenbeck, OrnsteinUhlenbeck

#: Models whose volatility is in price, and those in which it is a fraction of it.
_ABSOLUTE = (Brownian, OrnsteinUhlenbeck)
_RELATIVE = (Geometric, LogOrnsteinUhlenbeck, MertonJumps)


def volatility_factors(model: Any, name: str, initial_price: Any, where: str, asked: str) -> dict[str, Any]:
    """The numbers whose product is the volatility of a model in price per square root of time.

    That of a model which moves by a fraction of its price is taken at the initial price; jumps are left out.

    Args:
        model: The price model.
        name: The parameter of the market that it is.
        initial_price: Price.
        where: What the error message calls the policy that reads it.
        asked: The parameter of that policy to give instead.

    Returns:
        By what they are called, for ``sims.parameters.read_numbers``.

    Raises:
        ValueError: The model has no one number for it.
    """
    if isinstance(model, _ABSOLUTE):
        return {f"{name}.volatility": model.volatility}
    if isinstance(model, _RELATIVE):
        return {f"{name}.volatility": model.volatility, "initial_price": initial_price}
    raise ValueError(
        f"{where}: expected the {asked} to go by, for_env(..., {asked}=...), since {name} is a {type(model).__name__}, "
        "which has no one number for its volatility"
    )
