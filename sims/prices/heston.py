"""Stochastic volatility."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sekai.kernels import jit, maths, streams
from sims.checks import check_choice, check_range
from sims.prices.gamma import draw_gamma

SCHEMES = ("qe", "euler")
#: Up to which psi the next variance is the square of a normal variate (Andersen 2008: any from 1 to 2).
PSI_C = 1.5
#: The least psi, against a quotient by 0.
_LEAST_PSI = 1e-300
#: Of the parameters: what follows of them is neither 0 nor infinite.
_LEAST, _MOST = 1e-30, 1e30
#: The least ``xi sqrt(dt / V)``: in units of its noise, "qe" rounds a log return by 1e-16 over that.
_LEAST_VOLATILITY = 1e-8
#: By how much of itself the variance of a log return may be off before it is warned of.
_MOST_BIAS = 0.05
#: How close to its pole a moment generating function is taken; from there on the drift is not corrected.
_MOST_OF_POLE = 0.99


class Transition(NamedTuple):
    """What follows per step.

    Attributes:
        shift: ``mu dt``.
        dt: The time of the step, which "euler" alone reads; so ``root_dt`` and ``rest``.
        root_dt: Its square root.
        rest: ``sqrt(1 - rho^2)``.
        keep: How much of this variance counts in the mean of the next, ``exp(-kappa dt)``; this and all below are of
            "qe".
        pull: What is added to that, ``theta (1 - exp(-kappa dt))``.
        noise: The variance of the next variance, per unit of this one.
        noise_mean: The part of it that does not depend on this one.
        k_0: ``K_0`` of Andersen (2008), with ``gamma_1 = gamma_2 = 1/2``.
        k_1: ``K_1``.
        k_2: ``K_2``.
        k_3: ``K_3``, which ``K_4`` equals.
    """

    shift: np.float64
    dt: np.float64
    root_dt: np.float64
    rest: np.float64
    keep: np.float64
    pull: np.float64
    noise: np.float64
    noise_mean: np.float64
    k_0: np.float64
    k_1: np.float64
    k_2: np.float64
    k_3: np.float64


class Variance(NamedTuple):
    """What a row has besides its price.

    Attributes:
        variance: Of the log of the price, per time; with "euler" it may be below 0, and then counts as 0.
    """

    variance: np.float64


def check(model: Heston) -> list[str]:
    """ValueError for what is out of its range; a warning where the variance reaches 0."""
    for name in ("speed", "mean", "volatility"):
        check_range(name, getattr(model, name), least=_LEAST, most=_MOST)
    check_range("correlation", model.correlation, least=-1.0, most=1.0)
    if model.variance0 is not None:
        check_range("variance0", model.variance0, least=0.0, most=_MOST)
    check_choice("scheme", model.scheme, SCHEMES)
    if 2.0 * model.speed * model.mean >= model.volatility * model.volatility:
        return []
    # Without the numbers, as in all warnings here, so that Python shows it once and not for each sub-env.
    return [
        "speed, mean, volatility: Feller's condition 2 speed mean >= volatility^2 does not hold: "
        "the variance of this Heston model reaches 0"
    ]


def check_step(model: Heston, derived: Transition, dt: float) -> list[str]:
    """ValueError where "qe" would lose its digits; a warning of steps that are too long for a scheme."""
    time = model.speed * dt
    if model.scheme == "euler":
        return ['speed: with "euler", expected steps of at most 1 / speed, beyond which it overshoots'] * (time > 1.0)
    least = _LEAST_VOLATILITY * math.sqrt(max(model.mean, model.variance0 or 0.0) / dt)
    if model.volatility < least:
        raise ValueError(
            f"volatility: expected a number of at least {least:g}, below which rounding decides a step of {dt:g}, "
            f"got {model.volatility}: for a variance that stays the same there is Geometric"
        )
    if abs(variance_bias(time, model.correlation)) <= _MOST_BIAS:
        return []
    return [
        f'speed, correlation: expected steps of at most 3 / speed: in longer ones "qe" makes the variance of log '
        f"returns more than {_MOST_BIAS:.0%} too large, by about correlation^2 speed dt / 8 of itself"
    ]


def variance_bias(time: float, correlation: float) -> float:
    """By how much of itself "qe" makes the variance of a log return too large, with ``time`` for ``kappa dt``.

    At a V of its long-run mean, to the first order in ``xi^2``: with the martingale correction, leverage adds ``rho /
    xi (1 + kappa dt / 2)`` times the deviation of V' from its mean, which should have the variance ``rho^2 theta dt``.
    """
    factor = 1.0 + 0.5 * time
    return correlation * correlation * (factor * factor * -math.expm1(-2.0 * time) / (2.0 * time) - 1.0)


@jit
def derive(model: Any, dt: float) -> Transition:
    """The transition over ``dt``."""
    kappa, theta, xi, rho = model.speed, model.mean, model.volatility, model.correlation
    keep, gone = math.exp(-kappa * dt), -math.expm1(-kappa * dt)
    half = 0.5 * dt * (kappa * rho / xi - 0.5)
    return Transition(
        shift=model.drift * dt,
        dt=dt,
        root_dt=math.sqrt(dt),
        rest=math.sqrt(1.0 - rho * rho),
        keep=keep,
        pull=theta * gone,
        noise=xi * xi * keep * gone / kappa,
        noise_mean=0.5 * theta * xi * xi * gone * gone / kappa,
        k_0=-rho * kappa * theta * dt / xi,
        k_1=half - rho / xi,
        k_2=half + rho / xi,
        k_3=0.5 * dt * (1.0 - rho * rho),
    )


@jit
def begin(model: Any, derived: Any, state: Variance, random: Any, i: int, price: float) -> None:
    """Set the variance that an episode begins with."""
    if model.variance0 is None:
        scale = 0.5 * model.volatility * model.volatility / model.speed
        state.variance[i] = scale * draw_gamma(random, i, model.mean / scale)
    else:
        state.variance[i] = model.variance0


@jit
def move(model: Any, derived: Any, state: Variance, random: Any, i: int, price: float) -> Any:
    """Draw the variance and the price a step later."""
    word_0, word_1, word_2, word_3 = streams.random_words(random, i)
    z_variance, z = maths.normal_pair64(word_0, word_1, word_2, word_3)
    before = state.variance[i]
    if model.scheme == "euler":
        counted = max(before, 0.0)
        scale = math.sqrt(counted) * derived.root_dt
        state.variance[i] = (
            before + model.speed * (model.mean - counted) * derived.dt + model.volatility * scale * z_variance
        )
        z = model.correlation * z_variance + derived.rest * z
        return price * maths.exp(derived.shift - 0.5 * counted * derived.dt + scale * z)
    slope = derived.k_2 + 0.5 * derived.k_3  # A of Andersen
    after, log_mean = next_variance(derived, before, slope, z_variance)
    # With the log of the mean of exp(slope * after) taken off, the mean of the price is what the drift says.
    is_known = log_mean < math.inf
    known = -log_mean - 0.5 * derived.k_3 * before if is_known else derived.k_0 + derived.k_1 * before
    state.variance[i] = after
    scale = math.sqrt(derived.k_3 * (before + after))
    return price * maths.exp(derived.shift + known + derived.k_2 * after + scale * z)


@jit
def next_variance(derived: Any, before: float, slope: float, z: float) -> Any:
    """The variance a step later by Andersen's QE, and the log of the mean of ``exp(slope * variance)``.

    Both forms are computed and one is taken, so that a loop over rows has no branch.

    Args:
        derived: A ``Transition``.
        before: The variance now, at least 0.
        slope: Of the exponent; of a slope so close to the pole that the mean is not finite, or nearly not, the log is
            infinite.
        z: A standard normal variate.
    """
    mean = derived.pull + before * derived.keep
    psi = (before * derived.noise + derived.noise_mean) / (mean * mean)

    twice = 2.0 / max(min(psi, PSI_C), _LEAST_PSI)
    b_squared = twice - 1.0 + math.sqrt(twice) * math.sqrt(twice - 1.0)
    a = mean / (1.0 + b_squared)
    root = math.sqrt(b_squared) + z
    pole = 2.0 * slope * a
    room = 1.0 - min(pole, _MOST_OF_POLE)
    log_mean = slope * b_squared * a / room - 0.5 * maths.log(room)

    positive = 2.0 / (max(psi, PSI_C) + 1.0)  # the chance of a variance above 0, 1 - p
    spread = mean / positive  # 1 / beta
    # 1 - U, with as many digits where it is small.
    drawn = spread * maths.log(positive / min(maths.normal_cdf(-z), positive))
    pole_drawn = slope * spread
    log_mean_drawn = maths.log(1.0 - positive + positive / (1.0 - min(pole_drawn, _MOST_OF_POLE)))

    is_squared = psi <= PSI_C
    pole = pole if is_squared else pole_drawn
    log_mean = log_mean if is_squared else log_mean_drawn
    return a * root * root if is_squared else drawn, math.inf if pole >= _MOST_OF_POLE else log_mean


class Heston(NamedTuple):
    """Stochastic volatility.

    Heston (1993), "A closed-form solution for options with stochastic volatility with applications to bond and currency
    options", Review of Financial Studies 6: ``dS / S = mu dt + sqrt(V) dB`` and ``dV = kappa (theta - V) dt + xi
    sqrt(V) dW``, with ``rho`` the correlation of B and W. Where Feller's condition ``2 kappa theta >= xi^2`` does not
    hold, V reaches 0; that is legal, and warned of. There is no exact transition that is quick, but two schemes, of
    which both tend to the exact law as the step becomes shorter:

    - "qe" of Andersen (2008), "Simple and efficient simulation of the Heston stochastic volatility model", Journal of
      Computational Finance 11(3), with ``psi_c = 1.5`` and ``gamma_1 = gamma_2 = 1/2``. V has the exact mean and
      variance given the V before, and the price, through his martingale correction, the exact mean; it is left out in
      steps in which that mean is not finite, or nearly not (``rho`` above 0 and a long step). U is ``Phi(Z_V)``. What
      bias is left comes from the form of V's law and from its integral over the step by the trapezoidal rule. That
      makes the variance of a log return too large by ``rho^2 ((1 + h / 2)^2 (1 - exp(-2 h)) / (2 h) - 1)`` of itself,
      with ``h = kappa dt`` and ``xi`` small: by ``-rho^2 h^2 / 12`` in short steps, -3 % at the least, by nothing about
      ``h = 2.4``, by ``rho^2 (h / 8 - 1 / 2)`` in long ones. More than 5 % are warned of.
    - "euler" with full truncation: Lord, Koekkoek and van Dijk (2010), "A comparison of biased simulation schemes for
      stochastic volatility models", Quantitative Finance 10(2). V may fall below 0 and then counts as 0, so that for a
      time the mean of what counts is too large; in the stationary state it is ``theta``, and that of V is below. The
      mean of the price is exact. Of steps longer than ``1 / kappa``, in which V overshoots, is warned.

    Where the time of a step is known, "qe" needs a ``xi`` of at least ``1e-8 sqrt(V / dt)``, with the larger of
    ``theta`` and ``variance0`` for V, since it divides a difference of variances by ``xi``. With less, the variance
    stays the same, as in ``Geometric``.

    Attributes:
        drift: ``mu``, per time.
        speed: ``kappa``, per time, 1e-30 to 1e30.
        mean: ``theta``, the variance in the long run, per time, 1e-30 to 1e30.
        volatility: ``xi``, of the variance, per time, 1e-30 to 1e30.
        correlation: ``rho``, in [-1, 1].
        variance0: V at the start of an episode, 0 to 1e30; None for a draw from the stationary distribution, which is
            a gamma distribution of mean ``theta`` and variance ``theta xi^2 / (2 kappa)``.
        scheme: "qe" or "euler".
    """

    drift: float = 0.0
    speed: float = 2.0
    mean: float = 0.04
    volatility: float = 0.3
    correlation: float = -0.7
    variance0: float | None = None
    scheme: str = "qe"

    State, Derived, is_positive = Variance, Transition, True
    check, check_step = staticmethod(check), staticmethod(check_step)
    derive, begin, move = staticmethod(derive), staticmethod(begin), staticmethod(move)
