"""Geometric Brownian motion with log-normal jumps."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float64

from sekai.kernels import jit, maths, streams
from sims.checks import check_range
from sims.prices import geometric
from sims.prices.geometric import Geometric
from sims.prices.model import MOST, MOST_LOG, NoState, begin_without_state

#: Mean number of jumps in a step: they are counted in float64, and drawn exactly up to there.
_MOST_JUMPS = 1e9


class Transition(NamedTuple):
    """What a step adds to the log of the price.

    Attributes:
        shift: The mean of it without jumps.
        scale: The standard deviation of it without jumps.
        jumps: Mean number of jumps.
    """

    shift: np.float64
    scale: np.float64
    jumps: np.float64


def check(model: MertonJumps) -> None:
    """ValueError for what is out of its range."""
    check_range("volatility", model.volatility, least=0.0)
    check_range("jump_rate", model.jump_rate, least=0.0)
    check_range("jump_mean", model.jump_mean, least=-MOST, most=MOST)
    check_range("jump_sd", model.jump_sd, least=0.0, most=MOST)
    check_mean_factor(model.jump_mean, model.jump_sd)


def check_step(model: MertonJumps, derived: Transition, dt: float) -> None:
    """ValueError for more jumps in a step than are drawn exactly."""
    if derived.jumps > _MOST_JUMPS:
        raise ValueError(f"jump_rate: expected at most {_MOST_JUMPS:g} jumps per step, got {derived.jumps:g}")


def check_mean_factor(jump_mean: float, jump_sd: float) -> None:
    """ValueError for jumps whose mean factor is not finite."""
    log_mean = jump_mean + 0.5 * jump_sd * jump_sd
    if log_mean > MOST_LOG:
        raise ValueError(
            f"jump_mean, jump_sd: expected jump_mean + jump_sd^2 / 2, the log of the mean factor of a jump, "
            f"of at most {MOST_LOG:g}, got {log_mean:g}"
        )


@jit
def derive(model: Any, dt: float) -> Transition:
    """The transition over ``dt``."""
    smooth = geometric.derive(Geometric(model.drift, model.volatility), dt)
    excess = math.expm1(model.jump_mean + 0.5 * model.jump_sd * model.jump_sd)
    return Transition(smooth.shift - model.jump_rate * dt * excess, smooth.scale, model.jump_rate * dt)


@jit
def log_factor(model: Any, count: int, z: float) -> Any:
    """The log of the factor of ``count`` jumps together: normal, with as many times the mean and variance of one."""
    return count * model.jump_mean + math.sqrt(float64(count)) * model.jump_sd * z


@jit
def advance(derived: Any, price: float, z: float, jumps: float) -> Any:
    """The price a step later, with ``z`` standard normal and ``jumps`` the log of the factor of all jumps."""
    # One factor: two may be 0 and infinite.
    return price * maths.exp(derived.shift + derived.scale * z + jumps)


@jit
def move(model: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later."""
    word_0, word_1, word_2, word_3 = streams.random_words(random, i)
    z, z_jump = maths.normal_pair64(word_0, word_1, word_2, word_3)
    return advance(derived, price, z, log_factor(model, streams.poisson(random, i, derived.jumps), z_jump))


class MertonJumps(NamedTuple):
    """Geometric Brownian motion that jumps.

    Merton (1976), "Option pricing when underlying stock returns are discontinuous", Journal of Financial Economics 3:
    ``dS / S = (mu - lambda (E[J] - 1)) dt + sigma dB + (J - 1) dN`` with ``N`` a Poisson process of rate ``lambda`` and
    ``log J`` normal. Exact whatever ``dt``: the geometric step, compensated so that the mean price grows at the rate
    ``mu``, times a Poisson number of independent factors ``J``.

    Attributes:
        drift: ``mu``, per time.
        volatility: ``sigma``, per square root of time, at least 0.
        jump_rate: ``lambda``, jumps per time, at least 0, at most 1e9 per step.
        jump_mean: Mean of ``log J``.
        jump_sd: Standard deviation of ``log J``, at least 0.
    """

    drift: float = 0.0
    volatility: float = 0.2
    jump_rate: float = 1.0
    jump_mean: float = -0.05
    jump_sd: float = 0.1

    State, Derived, is_positive = NoState, Transition, True
    check, check_step = staticmethod(check), staticmethod(check_step)
    derive, begin, move = staticmethod(derive), staticmethod(begin_without_state), staticmethod(move)
