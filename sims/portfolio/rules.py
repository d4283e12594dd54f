"""What the baselines do, as compiled policies of one row: each reads an observation and writes an action.

Observations are those of ``PortfolioVecEnv``: returns, weights held, and where that may change, for how long in a row
assets are listed, over one bar more than there are returns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int64
from numpy.typing import NDArray

from sekai.kernels import jit, scratch

#: Assets of which a minimum variance is found: so many times so many numbers lie on a thread's stack.
MOST_ASSETS = 64
#: By how much variance must fall, as a fraction of what there is, for an asset to be worth holding.
_WORTH = 1e-10
#: What is added to variances, as a fraction of their mean, so that returns that move as one have weights as well.
_RIDGE = 1e-6
#: How far rounding to float32 moves a number, as a fraction of it; with a little room for float64's own.
HALF_ULP = 0.5001 * float(np.finfo(np.float32).eps)


class Layout(NamedTuple):
    """Where things lie in an observation, and what weights may be.

    Attributes:
        assets: K.
        lookback: Bars.
        tells_listed: 1 where an observation tells for how long assets are listed, else 0.
        most: The most that weights without their signs may sum to.
        shorts: 1 where weights may be negative, else 0.
        window: The bars that a rule looks at, 1 to ``lookback``.
    """

    assets: int
    lookback: int
    tells_listed: int
    most: float
    shorts: int
    window: int


class Constant(NamedTuple):
    """Weights, as they are.

    Attributes:
        weights: f4 (K,).
    """

    weights: NDArray[float32]


@jit
def _is_listed(layout: Layout, observation: NDArray[float32], k: int) -> bool:
    return layout.tells_listed == 0 or observation[(layout.lookback + 1) * layout.assets + k] > 0.0


@jit
def _has_window(layout: Layout, observation: NDArray[float32], k: int) -> bool:
    """Whether an asset has a close at either end of each return of the window: else some are 0 for want of one."""
    if layout.tells_listed == 0:
        return True
    closes = observation[(layout.lookback + 1) * layout.assets + k] * (layout.lookback + 1)
    return closes > layout.window + 0.5


@jit
def _share(layout: Layout, observation: NDArray[float32]) -> float:
    """An equal share of what may be invested without debts, of all that is listed."""
    count = 0
    for k in range(layout.assets):
        count += _is_listed(layout, observation, k)
    return min(1.0, layout.most) / count if count > 0 else 0.0


@jit
def constant_row(parameters: Constant, observation: NDArray[float32], action: NDArray[float32]) -> None:
    """The same weights, always."""
    for k in range(len(action)):
        action[k] = parameters.weights[k]


@jit
def equal_row(parameters: Layout, observation: NDArray[float32], action: NDArray[float32]) -> None:
    """The same weight of each asset that is listed."""
    share = _share(parameters, observation)
    for k in range(parameters.assets):
        action[k] = share if _is_listed(parameters, observation, k) else 0.0


@jit
def hold_row(parameters: Layout, observation: NDArray[float32], action: NDArray[float32]) -> None:
    """The weights that are held, whatever they have come to; equal ones where there are none yet.

    None of what is not listed, which stays by itself.
    """
    first, held = parameters.lookback * parameters.assets, False
    for k in range(parameters.assets):
        held = held or observation[first + k] != 0.0
    if not held:
        equal_row(parameters, observation, action)
    else:
        most = float32(parameters.most)
        for k in range(parameters.assets):
            weight = min(max(observation[first + k], -most if parameters.shorts else float32(0.0)), most)
            action[k] = weight if _is_listed(parameters, observation, k) else float32(0.0)


@jit
def momentum_row(parameters: Layout, observation: NDArray[float32], action: NDArray[float32]) -> None:
    """An equal share of each asset that has risen over the window; of one that has fallen the same, short, or none."""
    share, assets = _share(parameters, observation), parameters.assets
    for k in range(assets):
        growth, rounding = 1.0, 0.0
        for j in range(parameters.lookback - parameters.window, parameters.lookback):
            change = float64(observation[j * assets + k])
            growth *= 1.0 + change
            rounding += abs(change) / (1.0 + change)
        # Each return is off by up to half a unit in its last place, and moves the product by so much over its factor.
        side = 0.0
        if abs(growth - 1.0) > HALF_ULP * growth * rounding and _has_window(parameters, observation, k):
            side = 1.0 if growth > 1.0 else (-1.0 if parameters.shorts else 0.0)
        action[k] = side * share


@jit
def _factor(matrix: NDArray[float64], size: int, held: NDArray[np.int64], first: int, count: int, root: Any) -> None:
    """Write the rows of the Cholesky factor of a matrix's rows and columns ``held``, from row ``first`` on.

    Args:
        matrix: f8 (size * size,), symmetric and positive definite.
        size: Its rows.
        held: Of ``count`` of them, the numbers.
        first: Those before are there already.
        count: See ``held``.
        root: f8 (size * size,), lower triangular.
    """
    for a in range(first, count):
        for b in range(a + 1):
            rest = matrix[held[a] * size + held[b]]
            for m in range(b):
                rest -= root[a * size + m] * root[b * size + m]
            root[a * size + b] = math.sqrt(rest) if a == b else rest / root[b * size + b]


@jit
def _solve(root: NDArray[float64], size: int, count: int, found: NDArray[float64]) -> None:
    """Write the ``x`` with ``C x = 1``, given the factor of ``C``."""
    for a in range(count):
        rest = 1.0
        for m in range(a):
            rest -= root[a * size + m] * found[m]
        found[a] = rest / root[a * size + a]
    for b in range(count):
        a = count - 1 - b
        rest = found[a]
        for m in range(a + 1, count):
            rest -= root[m * size + a] * found[m]
        found[a] = rest / root[a * size + a]


@jit
def _least_long(
    matrix: NDArray[float64],
    size: int,
    held: NDArray[np.int64],
    root: NDArray[float64],
    found: NDArray[float64],
    x: NDArray[float64],
) -> None:
    """Write the ``x >= 0`` that minimises ``x' C x / 2 - sum(x)``.

    The active-set method of Lawson and Hanson (1974), "Solving least squares problems", chapter 23: take up the asset
    whose weight is most worth raising, solve for those held, and drop what would go below 0 on the way there.
    Variance falls each time, so that no set comes twice.
    """
    count = 0
    for _ in range(4 * size):
        best, steepest = -1, _WORTH
        for k in range(size):
            slope = 1.0
            for m in range(size):
                slope -= matrix[k * size + m] * x[m]
            for a in range(count):
                slope = 0.0 if held[a] == k else slope
            if slope > steepest:
                best, steepest = k, slope
        if best < 0:
            break
        held[count] = best
        _factor(matrix, size, held, count, count + 1, root)
        count += 1
        for _ in range(size):
            _solve(root, size, count, found)
            step = 1.0
            for a in range(count):
                if found[a] <= 0.0:
                    here = x[held[a]]
                    step = min(step, here / (here - found[a]) if here > 0.0 else 0.0)
            kept, first = 0, count
            for a in range(count):
                k, here = held[a], x[held[a]]
                reach = (here / (here - found[a]) if here > 0.0 else 0.0) if found[a] <= 0.0 else 2.0
                x[k] = here + step * (found[a] - here) if reach > step else 0.0
                if reach > step:
                    held[kept] = k
                    kept += 1
                else:
                    first = min(first, kept)
            if kept == count:
                break
            count = kept
            _factor(matrix, size, held, first, count, root)


@jit
def minimum_variance_row(parameters: Layout, observation: NDArray[float32], action: NDArray[float32]) -> None:
    """Weights that sum to what may be invested and of which the last returns had the least variance.

    They are in proportion to the ``x`` that minimises ``x' C x / 2 - sum(x)``, without shorts among ``x >= 0``.
    """
    assets, lookback, window = parameters.assets, parameters.lookback, parameters.window
    moments, root, counted, held = (
        scratch(4096, float64),
        scratch(4096, float64),
        scratch(64, int64),
        scratch(64, int64),
    )
    means, found, x = scratch(64, float64), scratch(64, float64), scratch(64, float64)
    size, total = 0, 0.0
    for k in range(assets):
        action[k] = 0.0
        if _has_window(parameters, observation, k):
            counted[size] = k
            size += 1
    for a in range(size):
        k = counted[a]
        held[a], x[a], means[a] = a, 0.0, 0.0
        for j in range(lookback - window, lookback):
            means[a] += observation[j * assets + k]
        means[a] /= window
        for b in range(a + 1):
            m, product = counted[b], 0.0
            for j in range(lookback - window, lookback):
                product += (observation[j * assets + k] - means[a]) * (observation[j * assets + m] - means[b])
            moments[a * size + b] = moments[b * size + a] = product
        total += moments[a * size + a]
    if total > 0.0:
        for a in range(size * size):
            moments[a] *= size / total
        for a in range(size):
            moments[a * size + a] += _RIDGE
        if parameters.shorts:
            _factor(moments, size, held, 0, size, root)
            _solve(root, size, size, x)
        else:
            _least_long(moments, size, held, root, found, x)
    else:  # nothing has moved
        for a in range(size):
            x[a] = 1.0
    whole, gross = 0.0, 0.0
    for a in range(size):
        whole += x[a]
        gross += abs(x[a])
    scale = min(min(1.0, parameters.most) / whole, parameters.most / gross) if size > 0 else 0.0
    for a in range(size):
        action[counted[a]] = min(max(x[a] * scale, -parameters.most), parameters.most)
