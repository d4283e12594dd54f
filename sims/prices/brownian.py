"""Brownian motion with drift."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sekai.kernels import jit, streams
from sims.checks import check_range
from sims.prices.model import NoState, begin_without_state


class Transition(NamedTuple):
    """What a step adds to the price, or to its log where that is what moves.

    Attributes:
        shift: Its mean.
        scale: Its standard deviation.
    """

    shift: np.float64
    scale: np.float64


def check(model: Brownian) -> None:
    """ValueError for a volatility below 0."""
    check_range("volatility", model.volatility, least=0.0)


@jit
def derive(model: Any, dt: float) -> Transition:
    """The transition over ``dt``."""
    return Transition(model.drift * dt, model.volatility * math.sqrt(dt))


@jit
def advance(derived: Any, price: float, z: float) -> Any:
    """The price a step later, with ``z`` standard normal."""
    return price + (derived.shift + derived.scale * z)


@jit
def move(model: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later."""
    return advance(derived, price, streams.normal(random, i))


class Brownian(NamedTuple):
    """Arithmetic Brownian motion (Bachelier 1900), ``dS = mu dt + sigma dB``; the price may fall below 0.

    Exact: ``S + mu dt + sigma sqrt(dt) z`` with z standard normal, whatever ``dt``.

    Attributes:
        drift: ``mu``, price per time.
        volatility: ``sigma``, price per square root of time, at least 0.
    """

    drift: float = 0.0
    volatility: float = 1.0

    State, Derived, is_positive = NoState, Transition, False
    check = staticmethod(check)
    derive, begin, move = staticmethod(derive), staticmethod(begin_without_state), staticmethod(move)
