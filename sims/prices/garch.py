"""Volatility that clusters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sekai.kernels import jit, maths, streams
from sims.checks import check_range
from sims.prices.gamma import draw_gamma
from sims.prices.model import MOST, NoState

#: For what the variance before the returns that are drawn for a start may count, and how many these may be.
_FORGOTTEN, _MOST_BURN_IN = 1e-3, 500


class Variance(NamedTuple):
    """What a row has besides its price.

    Attributes:
        variance: Of the next log return.
    """

    variance: np.float64


def check(model: Garch) -> None:
    """ValueError for what is out of its range, or for a stationary start where there is none."""
    for name in ("omega", "alpha", "beta"):
        check_range(name, getattr(model, name), least=0.0, most=MOST)
    persistence = model.alpha + model.beta
    if model.variance0 is not None:
        check_range("variance0", model.variance0, least=0.0, most=MOST)
        if persistence > 1.0:
            raise ValueError(f"alpha, beta: expected alpha + beta of at most 1, got {persistence:g}")
    elif persistence >= 1.0:
        raise ValueError(
            f"alpha, beta: expected alpha + beta below 1, since variance0 is None, a stationary start, "
            f"got {persistence:g}"
        )


@jit
def derive(model: Any, dt: float) -> NoState:
    """Nothing follows from the time of a step."""
    return NoState()


@jit
def draw_before(model: Any, random: Any, i: int) -> Any:
    """Draw the variance before the returns that are drawn: inverse gamma, with the stationary mean and variance."""
    gone = (1.0 - model.alpha - model.beta) * (1.0 + model.alpha + model.beta)
    above = 0.5 * gone / max(model.alpha * model.alpha, 1e-40)  # shape - 1; with an alpha of 0 the draw is the mean
    return above * model.omega / (1.0 - model.alpha - model.beta) / draw_gamma(random, i, 1.0 + above)


@jit
def begin(model: Any, derived: Any, state: Variance, random: Any, i: int, price: float) -> None:
    """Set the variance that an episode begins with."""
    if model.variance0 is None:
        # Back in time, h = omega (1 + f_1 + f_1 f_2 + ...) with f = alpha z^2 + beta. Forward in time the length would
        # depend on the last draws, and so would the variance on where it ends.
        total, weight, drawn = 0.0, 1.0, 0
        while weight > _FORGOTTEN and drawn < _MOST_BURN_IN:
            word_0, word_1, word_2, word_3 = streams.random_words(random, i)
            for z in maths.normal_pair64(word_0, word_1, word_2, word_3):
                total += weight
                weight *= model.alpha * z * z + model.beta
            drawn += 2
        state.variance[i] = model.omega * total + weight * draw_before(model, random, i)
    else:
        state.variance[i] = model.variance0


@jit
def move(model: Any, derived: Any, state: Variance, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later, and set the variance of the step after it."""
    variance = state.variance[i]
    noise = math.sqrt(variance) * streams.normal(random, i)
    state.variance[i] = model.omega + model.alpha * noise * noise + model.beta * variance
    return price * maths.exp(model.mean + noise)


class Garch(NamedTuple):
    """GARCH(1,1): log returns whose variance follows from the last one.

    Bollerslev (1986), "Generalized autoregressive conditional heteroskedasticity", Journal of Econometrics 31: ``log(S'
    / S) = mean + e`` with ``e = sqrt(h) z``, z standard normal, and then ``h' = omega + alpha e^2 + beta h``. A model
    of periods: a step is one, whatever time the market says it takes, and parameters count per step. Exact.

    The stationary variance of a return is ``omega / (1 - alpha - beta)``, its kurtosis, where finite,
    ``3 (1 - p^2) / (1 - p^2 - 2 alpha^2)`` with ``p = alpha + beta``.

    Attributes:
        mean: Of the log return.
        omega: Variance, at least 0.
        alpha: At least 0.
        beta: At least 0; ``alpha + beta`` below 1, or with ``variance0`` at most 1.
        variance0: ``h`` at the start of an episode, at least 0; None for a draw from the stationary distribution. It
            comes of as many returns before as it takes until the ``h`` before them counts for less than 1e-3 (some 130
            where ``alpha + beta`` is 0.95), at most 500, so that a reset costs as much as that many steps. That ``h``
            is drawn from the inverse gamma distribution of the shape ``1 + (1 - p^2) / (2 alpha^2)``, with the mean
            and, where finite, variance of the stationary one, which it is in the limit of Nelson (1990), "ARCH models
            as diffusion approximations", Journal of Econometrics 45, where more returns would count.
    """

    mean: float = 0.0
    omega: float = 1e-6
    alpha: float = 0.05
    beta: float = 0.9
    variance0: float | None = None

    State, Derived, is_positive = Variance, NoState, True
    check = staticmethod(check)
    derive, begin, move = staticmethod(derive), staticmethod(begin), staticmethod(move)
