"""Returns whose mean and volatility depend on a regime that switches."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float64
from numpy.typing import NDArray

from sekai.kernels import jit, maths, scratch, streams
from sims.prices.model import MOST, ArrayCheck

#: As many regimes as there may be.
MOST_REGIMES = 8
_MOST_ENTRIES = MOST_REGIMES * MOST_REGIMES
#: By how much chances may miss a sum of 1.
_ROUNDING = 1e-9


class Step(NamedTuple):
    """What follows from the time of a step.

    Attributes:
        dt: The time.
        root_dt: Its square root.
    """

    dt: np.float64
    root_dt: np.float64


class Regime(NamedTuple):
    """What a row has besides its price.

    Attributes:
        regime: Of the last return; at the start of an episode the one that the first step switches from.
    """

    regime: np.int64


def transition_of_rates(rates: Any, dt: float) -> NDArray[np.float64]:
    """The chances of a chain in continuous time over a step: ``exp(Q dt)``, for ``RegimeSwitching.transition``.

    Args:
        rates: (n, n), rates per time from the first index to the second, at least 0; the diagonal does not count.
        dt: The time of a step, at least 0.

    Returns:
        float64 (n, n), rows that sum to 1.

    Raises:
        ValueError: The rates are no square matrix of finite numbers of at least 0, or ``dt`` is none, or their product
            is not finite.
    """
    generator = np.array(rates, dtype=np.float64)
    if generator.ndim != 2 or generator.shape[0] != generator.shape[1] or not generator.size:
        raise ValueError(f"rates: expected a square matrix, got an array of shape {generator.shape}")
    np.fill_diagonal(generator, 0.0)
    if not (np.isfinite(generator) & (generator >= 0.0)).all():
        raise ValueError(f"rates: expected finite numbers of at least 0, got {rates!r}")
    if not 0.0 <= dt < math.inf:
        raise ValueError(f"dt: expected a finite time of at least 0, got {dt}")
    with np.errstate(over="ignore"):
        leaving = generator.sum(axis=1)
    # By uniformization over 2^-k of the time, where all terms are above 0 and nothing cancels, and k squarings.
    most = float(leaving.max()) * dt
    if not most < math.inf:
        raise ValueError(f"rates: expected a finite number of switches in a step of {dt:g}, got {rates!r}")
    halvings = max(0, math.ceil(math.log2(most)) + 1) if most > 0.0 else 0
    most *= 0.5**halvings
    jump = np.eye(len(generator))
    if most > 0.0:
        jump = (generator + np.diag(leaving.max() - leaving)) / leaving.max()
    term = np.eye(len(generator)) * math.exp(-most)
    chances = term.copy()
    for k in range(1, 30):
        term = term @ jump * (most / k)
        chances += term
    for left in range(halvings, -1, -1):
        chances /= chances.sum(axis=1, keepdims=True)  # each time, or squarings double what rounding has left
        if left:
            chances = chances @ chances
    return chances


def check(model: RegimeSwitching) -> None:
    """ValueError for arrays that do not fit together, or chances that are none."""
    _check_arrays(model.drift, model.volatility, model.transition, model.initial)


@ArrayCheck
def _check_arrays(drift: Any, volatility: Any, transition: Any, initial: Any) -> None:
    drift, volatility, transition = (np.asarray(each) for each in (drift, volatility, transition))
    n = len(volatility) if volatility.ndim == 1 else 0
    if not 1 <= n <= MOST_REGIMES:
        raise ValueError(f"volatility: expected an array of 1 to {MOST_REGIMES} regimes, got shape {volatility.shape}")
    if not ((volatility >= 0.0) & (volatility <= MOST)).all():
        raise ValueError(f"volatility: expected numbers of at least 0 and at most {MOST:g}, got {volatility}")
    if drift.shape != (n,):
        raise ValueError(f"drift: expected {n} numbers, one for each regime of volatility, got shape {drift.shape}")
    if not (np.abs(drift) <= MOST).all():
        raise ValueError(f"drift: expected numbers of at most {MOST:g}, got {drift}")
    if transition.shape != (n, n):
        expected = f"a matrix of shape ({n}, {n}), since volatility has {n} regimes"
        raise ValueError(f"transition: expected {expected}, got shape {transition.shape}")
    for k, row in enumerate(transition):
        _check_chances(f"transition, row {k}", row)
    if initial is not None:
        initial = np.asarray(initial)
        if initial.shape != (n,):
            raise ValueError(f"initial: expected {n} chances, one for each regime, got shape {initial.shape}")
        _check_chances("initial", initial)
        return
    ways = np.linalg.matrix_power((transition > 0.0) | np.eye(n, dtype=bool), n)
    if not ways.all():
        start, end = np.argwhere(~ways)[0]
        raise ValueError(
            f"initial: expected chances, since transition has no way from regime {start} to regime {end}, "
            f"and so no stationary distribution to begin in, got None"
        )


def _check_chances(name: str, chances: Any) -> None:
    if not (np.isfinite(chances) & (chances >= 0.0)).all() or abs(chances.sum() - 1.0) > _ROUNDING:
        raise ValueError(f"{name}: expected chances of at least 0 that sum to 1, got {chances} (sum {chances.sum()})")


@jit
def derive(model: Any, dt: float) -> Step:
    """The time of a step."""
    return Step(dt, math.sqrt(dt))


@jit
def pick(chances: Any, u: float) -> Any:
    """The position in an array of chances that a uniform variate means; never one whose chance is 0."""
    picked, begins = 0, 0.0
    for k in range(len(chances)):
        # Without a branch, as no processor would guess it.
        picked = k if chances[k] > 0.0 and u >= begins else picked
        begins += chances[k]
    return picked


@jit
def stationary(transition: Any, n: int, left: Any, chances: Any) -> None:
    """Write the stationary distribution of a chain of which every regime can be reached from every other.

    By the elimination of Grassmann, Taksar and Heyman (1985), "Regenerative analysis and steady state distributions for
    Markov chains", Operations Research 33, which subtracts nothing.

    Args:
        transition: f8 (n, n).
        n: Regimes.
        left: f8 (n * n,), to work in.
        chances: f8 (n,), written.
    """
    for j in range(n):
        for k in range(n):
            left[j * n + k] = transition[j, k]
    for last in range(n - 1, 0, -1):
        total = 0.0
        for k in range(last):
            total += left[last * n + k]
        for j in range(last):
            left[j * n + last] /= total
            for k in range(last):
                left[j * n + k] += left[j * n + last] * left[last * n + k]
    chances[0] = total = 1.0
    for k in range(1, n):
        chances[k] = 0.0
        for j in range(k):
            chances[k] += chances[j] * left[j * n + k]
        total += chances[k]
    for k in range(n):
        chances[k] /= total


@jit
def begin(model: Any, derived: Any, state: Regime, random: Any, i: int, price: float) -> None:
    """Draw the regime that the first step switches from."""
    n, u = len(model.volatility), streams.uniform(random, i)
    if model.initial is None:
        chances = scratch(MOST_REGIMES, np.float64)
        stationary(model.transition, n, scratch(_MOST_ENTRIES, np.float64), chances)
        state.regime[i] = pick(chances[:n], u)
    else:
        state.regime[i] = pick(model.initial, u)


@jit
def move(model: Any, derived: Any, state: Regime, random: Any, i: int, price: float) -> Any:
    """Switch, then draw the price a step later."""
    word_0, word_1, word_2, word_3 = streams.random_words(random, i)
    regime = pick(model.transition[state.regime[i]], streams.uniform64_of(word_0, word_1))
    state.regime[i] = regime
    scale = model.volatility[regime] * derived.root_dt
    shift = model.drift[regime] * derived.dt - 0.5 * scale * scale
    return price * maths.exp(shift + scale * float64(maths.normal(word_2, word_3)))


class RegimeSwitching(NamedTuple):
    """Geometric Brownian motion whose drift and volatility follow a Markov chain.

    Hamilton (1989), "A new approach to the economic analysis of nonstationary time series and the business cycle",
    Econometrica 57. In each step the regime is drawn *before* the return: first it moves on by the row of
    ``transition`` of the regime before, then the log return is normal with mean ``(mu - sigma^2 / 2) dt`` and variance
    ``sigma^2 dt`` of the new one. So the first return of an episode is already that of a regime one step on from where
    the episode began. Exact, of a chain that switches between steps; ``transition_of_rates`` gives the chances per step
    of one in continuous time. All sub-envs share the arrays.

    Attributes:
        drift: (n,), ``mu`` of each regime, per time.
        volatility: (n,), ``sigma`` of each, per square root of time, at least 0; up to 8 regimes.
        transition: (n, n), chances per step, whatever time it takes, from the regime of the row to that of the column;
            rows sum to 1.
        initial: (n,), chances of the regime that the first step switches from; None for the stationary distribution.
    """

    drift: np.ndarray = np.array([0.1, -0.1])
    volatility: np.ndarray = np.array([0.1, 0.3])
    transition: np.ndarray = np.array([[0.99, 0.01], [0.03, 0.97]])
    initial: np.ndarray | None = None

    State, Derived, is_positive = Regime, Step, True
    check = staticmethod(check)
    derive, begin, move = staticmethod(derive), staticmethod(begin), staticmethod(move)
