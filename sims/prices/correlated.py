"""Several prices that move together: correlated geometric Brownian motions with common jumps."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.kernels import jit, maths, scratch, streams
from sims.checks import check_range
from sims.prices.merton import check_mean_factor
from sims.prices.model import NoState

#: Assets: their normal variates lie on a thread's stack.
MOST_ASSETS = 512
#: How far a correlation may be off by rounding.
_ROUNDING = 1e-9
#: Mean number of jumps in a step.
_MOST_RATE = 1e9


class Transition(NamedTuple):
    """What follows per step.

    Attributes:
        time: Of a step.
        root_time: Its square root.
        jumps: Mean number of jumps.
    """

    time: np.float64
    root_time: np.float64
    jumps: np.float64


class Factors(NamedTuple):
    """What is worked out once, from what all sub-envs share.

    Attributes:
        shift: f8 (K,), the mean growth of the log of each price without jumps, per time.
        root: f8 (K, K), lower triangular: its product with its transpose has the covariances per time of the logs.
        excess: f8 (K,), the mean of a jump's factor, less 1.
        jump_mean: f8 (K,), the mean of the log of a jump's factor.
        jump_sd: f8 (K,), its standard deviation.
    """

    shift: NDArray[np.float64]
    root: NDArray[np.float64]
    excess: NDArray[np.float64]
    jump_mean: NDArray[np.float64]
    jump_sd: NDArray[np.float64]


def count_assets(model: CorrelatedGeometric) -> int:
    """The number K of assets, by the matrix: what sizes follow from stays as it is, and drifts may change."""
    return len(model.correlation)


def check(model: CorrelatedGeometric) -> None:
    """Refuse arrays that do not fit together, numbers out of range, and a matrix that is no correlation matrix.

    Raises:
        ValueError: It is one; the message names the field, and the assets by their numbers.
    """
    if np.ndim(model.drift) != 1 or not 1 <= len(model.drift) <= MOST_ASSETS:
        raise ValueError(
            f"drift: expected one number for each of 1 to {MOST_ASSETS} assets, got shape {np.shape(model.drift)}"
        )
    assets = len(model.drift)
    shapes = {"volatility": (assets,), "correlation": (assets, assets), "jump_mean": (assets,), "jump_sd": (assets,)}
    for name, shape in {"drift": (assets,), **shapes}.items():
        values = np.asarray(getattr(model, name))
        if values.shape != shape and not (name.startswith("jump") and values.shape == (1,)):
            raise ValueError(f"{name}: expected the shape {shape} of {assets} assets (drift), got {values.shape}")
        if not np.isfinite(values).all():
            where = np.argwhere(~np.isfinite(values))[0].tolist()
            raise ValueError(f"{name}: expected finite numbers, got {values[tuple(where)]} at {where}")
        if name in ("volatility", "jump_sd") and (values < 0.0).any():
            k = int(np.argmax(values < 0.0))
            raise ValueError(f"{name}: expected at least 0, got {values[k]} of asset {k}")
    check_correlation(np.asarray(model.correlation, np.float64))
    check_range("jump_rate", model.jump_rate, least=0.0, most=_MOST_RATE)
    for mean, sd in zip(*(np.broadcast_to(each, assets) for each in (model.jump_mean, model.jump_sd)), strict=True):
        check_mean_factor(float(mean), float(sd))


def check_correlation(matrix: NDArray[np.float64]) -> None:
    """Refuse a square matrix that is no correlation matrix.

    Raises:
        ValueError: It is one; the message begins with "correlation: ".
    """
    off = np.abs(matrix - matrix.T)
    if off.max() > _ROUNDING:
        j, k = np.unravel_index(int(off.argmax()), off.shape)
        raise ValueError(
            f"correlation: expected a symmetric matrix, got {matrix[j, k]} of assets {j} and {k}, and {matrix[k, j]} "
            f"of {k} and {j}"
        )
    off = np.abs(matrix.diagonal() - 1.0)
    if off.max() > _ROUNDING:
        k = int(off.argmax())
        raise ValueError(f"correlation: expected 1 on the diagonal, got {matrix[k, k]} of asset {k}")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -_ROUNDING * len(matrix):
        raise ValueError(
            f"correlation: expected a positive semidefinite matrix, got one with the eigenvalue {least:.6g}: no assets "
            "are correlated like that"
        )


def prepare(model: CorrelatedGeometric) -> Factors:
    """The Cholesky factor and the rest that does not change, in plain Python, once per market."""
    drift, volatility = (np.array(each, dtype=np.float64) for each in (model.drift, model.volatility))
    mean, sd = (np.array(np.broadcast_to(each, len(drift)), np.float64) for each in (model.jump_mean, model.jump_sd))
    root = volatility[:, None] * _lower_root(np.asarray(model.correlation, np.float64))
    excess = np.expm1(mean + 0.5 * sd * sd)
    return Factors(drift - 0.5 * volatility * volatility, np.ascontiguousarray(root), excess, mean, sd)


def _lower_root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A lower triangular L with ``L L' = matrix``, of one that may be singular."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r")
        return upper.T * np.where(upper.diagonal() < 0.0, -1.0, 1.0)


@jit
def derive(model: Any, dt: float) -> Transition:
    """The transition over ``dt``."""
    return Transition(dt, math.sqrt(dt), model.jump_rate * dt)


@jit
def begin_all(
    model: Any, derived: Any, factors: Any, state: Any, random: Any, i: int, prices: NDArray[np.float64]
) -> None:
    """Begin an episode: there is nothing to set."""


@jit
def move_all(
    model: Any, derived: Any, factors: Any, state: Any, random: Any, i: int, prices: NDArray[np.float64]
) -> None:
    """Draw the prices a step later, in place: f8 (K,)."""
    assets = len(prices)
    z, first = scratch(512, np.float64), random.counter[i]
    blocks = (assets + 1) // 2
    for k in range(blocks):  # two from each block; of an odd number one is left over
        word_0, word_1, word_2, word_3 = streams.philox(random.key[i], first + np.uint64(k))
        z[2 * k], z[2 * k + 1] = maths.normal_pair64(word_0, word_1, word_2, word_3)
    random.counter[i] = first + np.uint64(blocks)
    count, jump = 0.0, 0.0
    if derived.jumps > 0.0:
        count = np.float64(streams.poisson(random, i, derived.jumps))
        jump = streams.normal(random, i)
    for k in range(assets):
        noise = 0.0
        for m in range(k + 1):
            noise += factors.root[k, m] * z[m]
        growth = factors.shift[k] * derived.time - derived.jumps * factors.excess[k] + derived.root_time * noise
        jumped = count * factors.jump_mean[k] + math.sqrt(count) * factors.jump_sd[k] * jump
        prices[k] = prices[k] * maths.exp(growth + jumped)  # one factor: two may be 0 and infinite


def fixed(values: list[Any]) -> NDArray[np.float64]:
    """An array that nobody can change for all who take the default."""
    array = np.array(values, np.float64)
    array.flags.writeable = False
    return array


class CorrelatedGeometric(NamedTuple):
    """K geometric Brownian motions, correlated, that jump together.

    ``dS_k / S_k = (mu_k - lambda (E[J_k] - 1)) dt + sigma_k dB_k + (J_k - 1) dN`` with ``dB_j dB_k = rho_jk dt`` and
    one Poisson process ``N`` of rate ``lambda`` for all assets, the form for several of Merton (1976), "Option pricing
    when underlying stock returns are discontinuous", Journal of Financial Economics 3. The logs of a jump's factors are
    normal, ``m_k + s_k y`` with one and the same y for all assets, so that their sizes are fully correlated too.

    Exact whatever ``dt``: logs move by ``(mu_k - sigma_k^2 / 2 - lambda (E[J_k] - 1)) dt``, by correlated normals, made
    by the Cholesky factor of the covariances, which is worked out once per market, and by a Poisson number of jumps.
    Mean prices grow at the rates ``mu_k``.

    A model of K prices: see ``sims.prices.SeveralPricesModel``.

    Attributes:
        drift: (K,), ``mu``, per time.
        volatility: (K,), ``sigma``, per square root of time, at least 0.
        correlation: (K, K), ``rho``, symmetric, 1 on the diagonal, positive semidefinite.
        jump_rate: ``lambda``, jumps per time, at least 0.
        jump_mean: (K,), or (1,) for all, the mean of the log of a jump's factor.
        jump_sd: (K,), or (1,) for all, its standard deviation, at least 0.
    """

    drift: np.ndarray = fixed([0.05, 0.05])  # type: ignore[type-arg]
    volatility: np.ndarray = fixed([0.2, 0.2])  # type: ignore[type-arg]
    correlation: np.ndarray = fixed([[1.0, 0.5], [0.5, 1.0]])  # type: ignore[type-arg]
    jump_rate: float = 0.0
    jump_mean: np.ndarray = fixed([0.0])  # type: ignore[type-arg]
    jump_sd: np.ndarray = fixed([0.0])  # type: ignore[type-arg]

    State, Derived, is_positive = NoState, Transition, True
    check, prepare, count_assets = staticmethod(check), staticmethod(prepare), staticmethod(count_assets)
    derive, begin_all, move_all = staticmethod(derive), staticmethod(begin_all), staticmethod(move_all)
