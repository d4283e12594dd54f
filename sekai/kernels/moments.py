"""Moments of the columns of many samples, and samples normalised by moments.

Samples of ``width`` numbers lie one after the other in memory. A loop over the few numbers of one sample is too short
to be vectorised, and a sum in a single variable cannot be, as that would change its order. So memory is read in rows of
some 128 numbers, of several samples each: place j of such a row, a lane, belongs to column ``j % width`` and has a sum
of its own.

Blocks begin at fixed samples and their moments are merged in order, so that the result depends on the samples alone:
not on the number of threads, nor on whether there are several.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from sekai.kernels.batch import Spread, jit_batch
from sekai.kernels.columns import item_at, rows_between
from sekai.kernels.jit import compile_kernel, jit

#: Lanes at most, unless a sample has more numbers: enough to hide how long an addition takes.
LANES = 128

#: Rows of lanes in a block, an even number.
LENGTH = 32

#: From this many blocks on they are spread over threads: to wake those up costs what about 8 blocks take. It is not
#: left to the times of calls, which come from wrappers of all kinds of envs.
PARALLEL_FROM = 16

_Floats = NDArray[np.float64]
_Prior = tuple[_Floats | None, _Floats, float, float]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _quiet(function: _Function) -> _Function:
    """No warnings in plain Python either, as compiled code has it."""
    quiet = np.errstate(over="ignore", invalid="ignore")
    return quiet(function) if numba.config.DISABLE_JIT else function


@_quiet
def column_moments(samples: NDArray[Any], width: int, largest: float) -> tuple[_Floats, _Floats, bool]:
    """Mean and population variance of every column.

    The variance of a block comes from the deviations from the block's own mean; blocks are merged by Chan, Golub and
    LeVeque (1983), "Algorithms for computing the sample variance", equation 1.5, all of them at once.

    Args:
        samples: float32 or float64 (n * width,), not empty.
        width: Numbers in a sample.
        largest: The largest number expected.

    Returns:
        Mean and variance, float64 (width,) each, and whether all means and standard deviations are at most ``largest``;
        they are not if a number is not finite.
    """
    begin, length, lanes = _cut(samples.size, width)
    counts, means, squares = np.empty(len(begin)), np.empty((len(begin), width)), np.empty((len(begin), width))
    block_moments(begin, length, lanes, samples, counts, means, squares)
    mean, var = np.empty(width), np.empty(width)
    return mean, var, merge_moments(counts, means, squares, largest, mean, var)


@_quiet
def learn_and_normalize(
    samples: NDArray[Any],
    others: NDArray[Any],
    prior: _Prior,
    largest: float,
    epsilon: float,
    bound: float,
    out: NDArray[Any],
    others_out: NDArray[Any],
) -> tuple[_Floats, _Floats] | None:
    """Merge the moments of every column with those that are known, and normalise the samples by what comes out.

    Args:
        samples: float32 or float64 (n * width,), not empty.
        others: Of the same dtype, (k * width,): samples that are normalised without counting.
        prior: The mean that is known, float64 (width,), None for that of the samples; the variance; the shares of
            what is known and of the samples.
        largest: The largest number expected.
        epsilon: Added to the variance.
        bound: Normalised values are clipped to ``[-bound, bound]``.
        out: Written, float32 or float64 (n * width,).
        others_out: Written, of the same dtype, (k * width,).

    Returns:
        The mean and the variance, float64 (width,) each; None, with nothing written, if a mean or a standard deviation
        of the samples is beyond ``largest`` or not finite.
    """
    known, var_known, kept, added = prior
    width = var_known.size
    begin, length, lanes = _cut(samples.size, width)
    mean, var = np.empty(width), np.empty(width)
    before, var_before = mean if known is None else known.reshape(-1), var_known.reshape(-1)
    merged = before, var_before, known is not None, kept, added, largest, epsilon, bound, mean, var
    return (mean, var) if _LEARN(len(begin), length, lanes, samples, others, *merged, out, others_out) else None


@_quiet
def step_returns(
    rewards: _Floats,
    dones: NDArray[np.bool_],
    live: NDArray[np.bool_] | None,
    gamma: float,
    returns: _Floats,
    known: tuple[float, float, float, bool],
    largest: float,
    epsilon: float,
    out: _Floats,
) -> tuple[float, float, float]:
    """Advance discounted returns, merge their moments with those that are known, and scale rewards by what comes out.

    Args:
        rewards: float64 (n,); one that is not finite leaves its return as it is.
        dones: bool (n,), the returns that are 0 afterwards.
        live: bool (n,), the returns that go on; None for all.
        gamma: Discount factor.
        returns: float64 (n,), moved on in place to ``gamma`` times the return plus the reward.
        known: Mean and variance that are known, how many returns they are of, and whether they are of any: without,
            the mean is that of these.
        largest: Returns beyond it do not count in the moments.
        epsilon: Added to the variance.
        out: Written, float64 (n,): rewards over the root of the variance.

    Returns:
        The mean and the variance of all that count, and how many of the returns that went on do.
    """
    begin, length, lanes = _cut(returns.size, 1)
    every = True if live is None else live
    moments: tuple[float, float, float] = _RETURNS(
        len(begin), length, lanes, rewards, dones, every, gamma, returns, *known, largest, epsilon, out
    )
    return moments


def normalize_columns(samples: NDArray[Any], mean: _Floats, factor: _Floats, out: NDArray[Any]) -> None:
    """Write ``(sample - mean) * factor`` of every sample into ``out``; computed in float64.

    Args:
        samples: float32 or float64 (n * width,), not empty.
        mean: float64 (width,).
        factor: float64 (width,).
        out: float32 or float64 (n * width,).
    """
    begin, length, lanes = _cut(samples.size, len(mean))
    normalize_blocks(begin, length, lanes, samples, mean, factor, out)


@lru_cache(maxsize=64)
def _cut(size: int, width: int) -> tuple[NDArray[np.int64], int, int]:
    """Where blocks begin among ``size`` numbers, the numbers in each, and the number of lanes."""
    lanes = width
    while lanes * 2 <= LANES:
        lanes *= 2
    length = lanes * LENGTH
    return np.arange(0, size, length), length, lanes


@jit_batch(shared="length lanes samples", parallel_from=PARALLEL_FROM)
def block_moments(
    begin: NDArray[np.int64],
    length: int,
    lanes: int,
    samples: NDArray[Any],
    counts: _Floats,
    means: _Floats,
    squares: _Floats,
) -> None:
    """Number of samples, means and sums of squared deviations of some blocks.

    Args:
        begin: int64 (blocks,), where each block begins.
        length: Numbers in a block; the last one may be shorter.
        lanes: Number of lanes, the width times a power of two.
        samples: (n * width,).
        counts: Written, float64 (blocks,).
        means: Written, float64 (blocks, width).
        squares: Written, float64 (blocks, width).
    """
    centers, sums = np.empty(lanes), np.empty(lanes)
    for b in range(len(begin)):
        block = samples[begin[b] : begin[b] + length]
        counts[b] = len(block) // means.shape[1]
        measure(block, centers, sums, means[b], squares[b])


@jit_batch(shared="length lanes samples mean factor out", parallel_from=PARALLEL_FROM)
def normalize_blocks(
    begin: NDArray[np.int64],
    length: int,
    lanes: int,
    samples: NDArray[Any],
    mean: _Floats,
    factor: _Floats,
    out: NDArray[Any],
) -> None:
    """Write ``(sample - mean) * factor`` of some blocks, which begin at ``begin``, into ``out``."""
    centers, factors = np.empty(lanes), np.empty(lanes)
    fill_lanes(mean, centers)
    fill_lanes(factor, factors)
    for b in range(len(begin)):
        block, written = samples[begin[b] : begin[b] + length], out[begin[b] : begin[b] + length]
        for first in range(0, len(block), lanes):
            row, into = block[first : first + lanes], written[first : first + lanes]
            for j in range(len(row)):
                into[j] = (row[j] - centers[j]) * factors[j]


def _learn_and_normalize(
    num_blocks: int,
    length: int,
    lanes: int,
    samples: NDArray[Any],
    others: NDArray[Any],
    known: _Floats,
    var_known: _Floats,
    is_known: bool,
    kept: float,
    added: float,
    largest: float,
    epsilon: float,
    bound: float,
    mean: _Floats,
    var: _Floats,
    out: NDArray[Any],
    others_out: NDArray[Any],
) -> bool:
    """``learn_and_normalize``, compiled for one thread and for several; whether the samples are in range."""
    width = len(mean)
    counts, means, squares = np.empty(num_blocks), np.empty((num_blocks, width)), np.empty((num_blocks, width))
    for b in numba.prange(num_blocks):
        block = samples[b * length : (b + 1) * length]
        counts[b] = len(block) // width
        measure(block, np.empty(lanes), np.empty(lanes), means[b], squares[b])
    if not merge_moments(counts, means, squares, largest, mean, var):
        return False
    factor = np.empty(width)
    for c in range(width):
        before = known[c] if is_known else mean[c]
        mean[c], var[c] = combine(before, var_known[c], kept, mean[c], var[c], added)
        factor[c] = 1.0 / np.sqrt(var[c] + epsilon)
    for b in numba.prange(num_blocks):
        lo, hi = b * length, (b + 1) * length
        normalize(samples[lo:hi], lanes, mean, factor, bound, out[lo:hi])
    normalize(others, lanes, mean, factor, bound, others_out)
    return True


def _step_returns(
    num_blocks: int,
    length: int,
    lanes: int,
    rewards: _Floats,
    dones: NDArray[np.bool_],
    live: NDArray[np.bool_] | bool,
    gamma: float,
    returns: _Floats,
    known: float,
    var_known: float,
    count_known: float,
    is_known: bool,
    largest: float,
    epsilon: float,
    out: _Floats,
) -> tuple[float, float, float]:
    """``step_returns``, compiled for one thread and for several; ``live`` is True for all."""
    counts, means, squares = np.empty(num_blocks), np.empty((num_blocks, 1)), np.empty((num_blocks, 1))
    for b in numba.prange(num_blocks):
        lo, hi = b * length, (b + 1) * length
        block = advance(rewards[lo:hi], rows_between(live, lo, hi), gamma, returns[lo:hi], largest, np.empty(length))
        counts[b] = len(block)
        measure(block, np.empty(lanes), np.empty(lanes), means[b], squares[b])
    count = 0.0
    for b in range(num_blocks):
        count += counts[b]
    mean, var = np.empty(1), np.empty(1)
    mean[0], var[0] = known, var_known
    if count > 0.0:
        merge_moments(counts, means, squares, largest, mean, var)
        kept, added = count_known / (count_known + count), count / (count_known + count)
        before = known if is_known else mean[0]
        mean[0], var[0] = combine(before, var_known, kept, mean[0], var[0], added)
    factor = 1.0 / np.sqrt(var[0] + epsilon)
    for b in numba.prange(num_blocks):
        lo, hi = b * length, (b + 1) * length
        scale(rewards[lo:hi], dones[lo:hi], factor, returns[lo:hi], out[lo:hi])
    return mean[0], var[0], count


@jit
def merge_moments(
    counts: _Floats, means: _Floats, squares: _Floats, largest: float, mean: _Floats, var: _Floats
) -> bool:
    """Write mean and population variance of all blocks; whether no mean and no deviation is beyond ``largest``.

    Args:
        counts: float64 (blocks,), the samples of each block.
        means: float64 (blocks, width).
        squares: float64 (blocks, width), sums of squared deviations.
        largest: The largest number expected.
        mean: Written, float64 (width,).
        var: Written, float64 (width,).
    """
    total = 0.0
    for b in range(len(counts)):
        total += counts[b]
    fits = True
    for c in range(len(mean)):
        mean[c] = 0.0
        for b in range(len(counts)):
            mean[c] += counts[b] / total * means[b, c]
        var[c] = 0.0
        for b in range(len(counts)):
            deviation = means[b, c] - mean[c]
            var[c] += squares[b, c] / total + counts[b] / total * (deviation * deviation)
        fits &= (abs(mean[c]) <= largest) & (var[c] <= largest * largest)
    return fits


@jit
def combine(known: float, var_known: float, kept: float, mean: float, var: float, added: float) -> tuple[float, float]:
    """Mean and variance of two sets by those of each and their shares, ``kept`` and ``added``; see ``ArrayStats``."""
    delta = mean - known
    shift = delta * added
    return known + shift, (var_known + delta * shift) * kept + var * added


@jit
def advance(
    rewards: _Floats, live: NDArray[np.bool_] | bool, gamma: float, returns: _Floats, largest: float, kept: _Floats
) -> _Floats:
    """Advance the returns of a block; those that count, as they are when it is all of them, else in ``kept``.

    Args:
        rewards: float64 (k,).
        live: bool (k,), the returns that go on; True for all.
        gamma: Discount factor.
        returns: float64 (k,), moved on in place.
        largest: Returns beyond it do not count.
        kept: Overwritten, float64 (at least k,).
    """
    num_kept = 0
    for i in range(len(rewards)):
        goes_on = item_at(live, i) & (abs(rewards[i]) < np.inf)
        value = returns[i] * gamma + rewards[i]
        num_kept += goes_on & (abs(value) <= largest)
        returns[i] = value if goes_on else returns[i]
    if num_kept == len(rewards):
        return returns
    num_kept = 0
    for i in range(len(rewards)):
        if item_at(live, i) and abs(rewards[i]) < np.inf and abs(returns[i]) <= largest:
            kept[num_kept] = returns[i]
            num_kept += 1
    return kept[:num_kept]


@jit
def scale(rewards: _Floats, dones: NDArray[np.bool_], factor: float, returns: _Floats, out: _Floats) -> None:
    """Write ``rewards * factor`` of a block into ``out``, and 0 into the returns that are done."""
    for i in range(len(rewards)):
        out[i] = rewards[i] * factor
        returns[i] = 0.0 if dones[i] else returns[i]


@jit
def measure(block: NDArray[Any], centers: _Floats, sums: _Floats, mean: _Floats, squares: _Floats) -> None:
    """Write the mean and the sum of squared deviations of every column of a block.

    Two rows are added at a time, which saves half of the loads and stores of the sums.

    Args:
        block: The samples, one after the other.
        centers: Overwritten, float64 (lanes,).
        sums: Overwritten, float64 (lanes,).
        mean: Written, float64 (width,).
        squares: Written, float64 (width,).
    """
    lanes, width = len(sums), len(mean)
    for j in range(lanes):
        sums[j] = 0.0
    for first in range(0, len(block), 2 * lanes):
        row, other = block[first : first + lanes], block[first + lanes : first + 2 * lanes]
        for j in range(len(other)):
            sums[j] += np.float64(row[j]) + other[j]
        for j in range(len(other), len(row)):
            sums[j] += row[j]
    fold_lanes(sums, mean)
    for c in range(width):
        mean[c] /= max(1, len(block) // width)
    fill_lanes(mean, centers)
    for j in range(lanes):
        sums[j] = 0.0
    for first in range(0, len(block), 2 * lanes):
        row, other = block[first : first + lanes], block[first + lanes : first + 2 * lanes]
        for j in range(len(other)):
            deviation, its = row[j] - centers[j], other[j] - centers[j]
            sums[j] += deviation * deviation + its * its
        for j in range(len(other), len(row)):
            deviation = row[j] - centers[j]
            sums[j] += deviation * deviation
    fold_lanes(sums, squares)


@jit(inline=False)
def normalize(block: NDArray[Any], lanes: int, mean: _Floats, factor: _Floats, bound: float, out: NDArray[Any]) -> None:
    """Write ``(sample - mean) * factor`` of a block, clipped to ``[-bound, bound]``, into ``out``."""
    centers, factors = np.empty(lanes), np.empty(lanes)
    fill_lanes(mean, centers)
    fill_lanes(factor, factors)
    for first in range(0, len(block), lanes):
        row, into = block[first : first + lanes], out[first : first + lanes]
        for j in range(len(row)):
            into[j] = min(max((row[j] - centers[j]) * factors[j], -bound), bound)


@jit
def fold_lanes(sums: _Floats, totals: _Floats) -> None:
    """Write the sum of the lanes of each column, by halves; overwrites the sums of the lanes."""
    half = len(sums)
    while half > len(totals):
        half //= 2
        for j in range(half):
            sums[j] += sums[half + j]
    for c in range(len(totals)):
        totals[c] = sums[c]


@jit
def fill_lanes(values: _Floats, lanes: _Floats) -> None:
    """Write the value of its column into each lane, by doubles."""
    for c in range(len(values)):
        lanes[c] = values[c]
    filled = len(values)
    while filled < len(lanes):
        for j in range(filled):
            lanes[filled + j] = lanes[j]
        filled *= 2


def _spread(function: Any) -> Spread:
    """One loop over blocks, on one thread or, from as many blocks on as the kernels above, on several."""
    parallel = compile_kernel(function, parallel=True)

    def on_several(num_blocks: int, num_threads: int, *given: Any) -> Any:
        return parallel(num_blocks, *given)

    return Spread(compile_kernel(function), on_several, PARALLEL_FROM, is_measured=False)


_LEARN, _RETURNS = _spread(_learn_and_normalize), _spread(_step_returns)
