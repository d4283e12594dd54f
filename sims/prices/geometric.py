"""Geometric Brownian motion."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sekai.kernels import jit, maths, streams
from sims.checks import check_range
from sims.prices.brownian import Transition
from sims.prices.model import NoState, begin_without_state


def check(model: Geometric) -> None:
    """ValueError for a volatility below 0."""
    check_range("volatility", model.volatility, least=0.0)


@jit
def derive(model: Any, dt: float) -> Transition:
    """The transition of the log over ``dt``."""
    scale = model.volatility * math.sqrt(dt)
    return Transition(model.drift * dt - 0.5 * scale * scale, scale)


@jit
def advance(derived: Any, price: float, z: float) -> Any:
    """The price a step later, with ``z`` standard normal."""
    return price * maths.exp(derived.shift + derived.scale * z)


@jit
def move(model: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later."""
    return advance(derived, price, streams.normal(random, i))


class Geometric(NamedTuple):
    """Geometric Brownian motion (Samuelson 1965; Black and Scholes 1973), ``dS = mu S dt + sigma S dB``.

    Exact: ``S exp((mu - sigma^2 / 2) dt + sigma sqrt(dt) z)`` with z standard normal, whatever ``dt``; the mean price
    grows at the rate ``mu``.

    Attributes:
        drift: ``mu``, per time.
        volatility: ``sigma``, per square root of time, at least 0.
    """

    drift: float = 0.0
    volatility: float = 0.2

    State, Derived, is_positive = NoState, Transition, True
    check = staticmethod(check)
    derive, begin, move = staticmethod(derive), staticmethod(begin_without_state), staticmethod(move)
