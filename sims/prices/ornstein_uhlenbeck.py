"""Ornstein-Uhlenbeck processes, of the price and of its log."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sekai.kernels import jit, maths, streams
from sims.checks import check_range
from sims.prices.model import NoState, begin_without_state

#: Of a speed, and of the mean of a log: what follows is neither 0 nor infinite.
_LEAST, _MOST = 1e-30, 1e30
#: What a step may add to the log of a price, as a standard deviation: its exponential is finite.
_MOST_SCALE = 50.0


class Transition(NamedTuple):
    """What a step makes of the price.

    Attributes:
        keep: How much is left of its distance from the mean, ``exp(-kappa dt)``.
        shift: What is added on average, price.
        scale: The standard deviation of that, price.
    """

    keep: np.float64
    shift: np.float64
    scale: np.float64


class LogTransition(NamedTuple):
    """What a step makes of the log of the price.

    Attributes:
        keep: How much is left of its distance from the log of the mean, ``exp(-kappa dt)``.
        scale: The standard deviation of what is added.
    """

    keep: np.float64
    scale: np.float64


def check(model: OrnsteinUhlenbeck) -> None:
    """ValueError for what is out of its range."""
    check_range("speed", model.speed, least=_LEAST, most=_MOST)
    check_range("volatility", model.volatility, least=0.0)


def check_log(model: LogOrnsteinUhlenbeck) -> None:
    """ValueError for what is out of its range."""
    check_range("mean", model.mean, least=_LEAST, most=_MOST)
    check_range("speed", model.speed, least=_LEAST, most=_MOST)
    check_range("volatility", model.volatility, least=0.0)


def check_log_step(model: LogOrnsteinUhlenbeck, derived: LogTransition, dt: float) -> None:
    """ValueError for a price that a step may make infinite."""
    if derived.scale > _MOST_SCALE:
        raise ValueError(
            f"volatility: expected a standard deviation of at most {_MOST_SCALE:g} of what a step adds to the log of "
            f"the price, got {derived.scale:g}"
        )


@jit
def noise_scale(model: Any, dt: float) -> Any:
    """The standard deviation of what a step adds."""
    return model.volatility * math.sqrt(-math.expm1(-2.0 * model.speed * dt) / (2.0 * model.speed))


@jit
def derive(model: Any, dt: float) -> Transition:
    """The transition over ``dt``."""
    shift = model.mean * -math.expm1(-model.speed * dt)
    return Transition(math.exp(-model.speed * dt), shift, noise_scale(model, dt))


@jit
def derive_log(model: Any, dt: float) -> LogTransition:
    """The transition over ``dt``."""
    return LogTransition(math.exp(-model.speed * dt), noise_scale(model, dt))


@jit
def advance(derived: Any, price: float, z: float) -> Any:
    """The price a step later, with ``z`` standard normal."""
    return derived.keep * price + (derived.shift + derived.scale * z)


@jit
def move(model: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later."""
    return advance(derived, price, streams.normal(random, i))


@jit
def move_log(model: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later."""
    distance = maths.log(price / model.mean)
    return model.mean * maths.exp(derived.keep * distance + derived.scale * streams.normal(random, i))


class OrnsteinUhlenbeck(NamedTuple):
    """A price that reverts to a mean, ``dS = kappa (m - S) dt + sigma dB`` (Uhlenbeck and Ornstein 1930).

    Exact: ``S e + m (1 - e) + sigma sqrt((1 - e^2) / (2 kappa)) z`` with ``e = exp(-kappa dt)`` and z standard normal,
    whatever ``dt``. In the long run it is normal about ``m`` with the standard deviation ``sigma / sqrt(2 kappa)``, so
    that it may fall below 0. It begins at the market's initial price.

    Attributes:
        mean: ``m``, price.
        speed: ``kappa``, per time, 1e-30 to 1e30.
        volatility: ``sigma``, price per square root of time, at least 0.
    """

    mean: float = 100.0
    speed: float = 1.0
    volatility: float = 1.0

    State, Derived, is_positive = NoState, Transition, False
    check = staticmethod(check)
    derive, begin, move = staticmethod(derive), staticmethod(begin_without_state), staticmethod(move)


class LogOrnsteinUhlenbeck(NamedTuple):
    """A price whose log reverts: ``X = log S`` with ``dX = kappa (log m - X) dt + sigma dB``.

    The one-factor model of Schwartz (1997), "The stochastic behavior of commodity prices", Journal of Finance 52, with
    ``log m`` for what he calls alpha. Exact: ``X`` moves as the price of ``OrnsteinUhlenbeck`` does. In the long run
    ``log S`` is normal about ``log m``, the log of the median price, with the standard deviation ``sigma / sqrt(2
    kappa)``.

    Attributes:
        mean: ``m``, price, 1e-30 to 1e30.
        speed: ``kappa``, per time, 1e-30 to 1e30.
        volatility: ``sigma``, per square root of time, at least 0; the standard deviation of what a step adds to the
            log at most 50.
    """

    mean: float = 100.0
    speed: float = 1.0
    volatility: float = 0.2

    State, Derived, is_positive = NoState, LogTransition, True
    check, check_step = staticmethod(check_log), staticmethod(check_log_step)
    derive, begin, move = staticmethod(derive_log), staticmethod(begin_without_state), staticmethod(move_log)
