"""Moments of the columns of many samples, and samples normalised by moments.

Samples are rows of ``width`` numbers, one after the other in memory. A loop over the few numbers of one sample is too
short to be vectorised, and a sum in a single variable cannot be, as that would change its order. So memory is read in
rows of some 64 numbers, of several samples each: place j of such a row, a lane, belongs to column ``j % width`` and has
a sum of its own.

Blocks begin at fixed samples and their moments are merged in order, so that the result depends on the samples alone: not
on the number of threads, nor on whether there are several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.kernels.batch import item_at, jit_batch, rows_between
from sekai.kernels.jit import jit

#: Lanes at most, unless a sample has more numbers: enough to hide how long an addition takes.
LANES = 256

#: Rows of lanes in a block.
LENGTH = 32

#: From this many blocks on they are spread over threads: to wake those up costs what about 8 blocks take.
PARALLEL_FROM = 16


def column_moments(samples: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population variance of every column.

    The variance of a block comes from the deviations from the block's own mean; blocks are merged by Chan, Golub and
    LeVeque (1983), "Algorithms for computing the sample variance", equation 1.5, all of them at once. A number that is
    not finite makes the moments of its column so.

    Args:
        samples: float32 or float64 (n, width), C-contiguous, not empty.

    Returns:
        Mean and variance, float64 (width,) each.
    """
    width = samples.shape[1]
    begin, length, lanes = _cut(samples.size, width)
    counts, means, squares = np.empty(len(begin)), np.empty((len(begin), width)), np.empty((len(begin), width))
    block_moments(begin, length, lanes, samples.reshape(-1), counts, means, squares)
    mean, var = np.empty(width), np.empty(width)
    merge_moments(counts, means, squares, mean, var)
    return mean, var


def advance_returns(
    rewards: NDArray[np.float64],
    live: NDArray[np.bool_] | None,
    gamma: float,
    returns: NDArray[np.float64],
    largest: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Advance discounted returns, in place: ``gamma`` times the return, plus the reward.

    Args:
        rewards: float64 (n,); one that is not finite leaves its return as it is.
        live: bool (n,), the returns that go on; None for all.
        gamma: Discount factor.
        returns: float64 (n,), the returns so far.
        largest: Returns beyond it do not count in the moments.

    Returns:
        Mean and population variance, float64 () each, of the returns that went on and count, and their number.
    """
    begin, length, lanes = _cut(returns.size, 1)
    counts, means, squares = np.empty(len(begin)), np.empty((len(begin), 1)), np.empty((len(begin), 1))
    return_moments(
        begin, length, lanes, rewards, True if live is None else live, gamma, returns, largest, counts, means, squares
    )
    mean, var = np.empty(1), np.empty(1)
    count = merge_moments(counts, means, squares, mean, var)
    return mean[0], var[0], count


def normalize_columns(
    samples: NDArray[Any], mean: NDArray[np.float64], factor: NDArray[np.float64], out: NDArray[Any]
) -> None:
    """Write ``(samples - mean) * factor`` into ``out``; computed in float64.

    Args:
        samples: float32 or float64 (n, width), C-contiguous, not empty.
        mean: float64 (width,).
        factor: float64 (width,).
        out: float32 or float64 (n, width), C-contiguous.
    """
    begin, length, lanes = _cut(samples.size, len(mean))
    normalize_blocks(begin, length, lanes, samples.reshape(-1), mean, factor, out.reshape(-1))


def _cut(size: int, width: int) -> tuple[NDArray[np.int64], int, int]:
    """Where blocks begin among ``size`` numbers, the numbers in each, and the number of lanes."""
    lanes = width
    while lanes * 2 <= LANES:
        lanes *= 2
    length = lanes * LENGTH
    return np.arange(0, size, length), length, lanes


@jit_batch(shared="length lanes samples", parallel_from=PARALLEL_FROM)
def block_moments(begin, length, lanes, samples, counts, means, squares):  # type: ignore[no-untyped-def]
    """Count, mean and sum of squared deviations of every column in some blocks.

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


@jit_batch(shared="length lanes rewards live gamma returns largest", parallel_from=PARALLEL_FROM)
def return_moments(begin, length, lanes, rewards, live, gamma, returns, largest, counts, means, squares):  # type: ignore[no-untyped-def]
    """Advance the returns of some blocks, and write the moments of those that count as ``block_moments`` does."""
    centers, sums, counted = np.empty(lanes), np.empty(lanes), np.empty(length)
    for b in range(len(begin)):
        lo, hi = begin[b], begin[b] + length
        block = advance(rewards[lo:hi], rows_between(live, lo, hi), gamma, returns[lo:hi], largest, counted)
        counts[b] = len(block)
        measure(block, centers, sums, means[b], squares[b])


@jit
def advance(rewards, live, gamma, returns, largest, counted):  # type: ignore[no-untyped-def]
    """Advance the returns of a block; those that count, which are all of them or copied to ``counted``."""
    num_counted = 0
    for i in range(len(rewards)):
        value = returns[i] * gamma + rewards[i]
        num_counted += (abs(rewards[i]) < np.inf) & (abs(value) <= largest) & item_at(live, i)
    if num_counted == len(rewards):
        for i in range(len(rewards)):
            returns[i] = returns[i] * gamma + rewards[i]
        return returns
    num_counted = 0
    for i in range(len(rewards)):
        if item_at(live, i) and abs(rewards[i]) < np.inf:
            returns[i] = returns[i] * gamma + rewards[i]
            if abs(returns[i]) <= largest:
                counted[num_counted] = returns[i]
                num_counted += 1
    return counted[:num_counted]


@jit_batch(shared="length lanes samples mean factor out", parallel_from=PARALLEL_FROM)
def normalize_blocks(begin, length, lanes, samples, mean, factor, out):  # type: ignore[no-untyped-def]
    """Write ``(samples - mean) * factor`` of some blocks, which begin at ``begin``, into ``out``."""
    centers, factors = np.empty(lanes), np.empty(lanes)
    fill_lanes(mean, centers)
    fill_lanes(factor, factors)
    for b in range(len(begin)):
        block = samples[begin[b] : begin[b] + length]
        written = out[begin[b] : begin[b] + length]
        for first in range(0, len(block), lanes):
            row, into = block[first : first + lanes], written[first : first + lanes]
            for j in range(len(row)):
                into[j] = (row[j] - centers[j]) * factors[j]


@jit
def merge_moments(counts, means, squares, mean, var):  # type: ignore[no-untyped-def]
    """Write the mean and the population variance of all blocks together, from what ``block_moments`` wrote."""
    total = counts.sum()
    for c in range(len(mean)):
        mean[c] = 0.0
        for b in range(len(counts)):
            mean[c] += counts[b] / total * means[b, c]
        var[c] = 0.0
        for b in range(len(counts)):
            deviation = means[b, c] - mean[c]
            var[c] += squares[b, c] / total + counts[b] / total * (deviation * deviation)
    return total


@jit
def measure(block, centers, sums, mean, squares):  # type: ignore[no-untyped-def]
    """Write the mean and the sum of squared deviations of every column of a block; ``centers`` and ``sums`` are scratch."""
    sum_lanes(block, sums)
    mean[:] = fold_lanes(sums, len(mean))
    mean /= max(1, len(block) // len(mean))
    fill_lanes(mean, centers)
    sum_squares(block, centers, sums)
    squares[:] = fold_lanes(sums, len(mean))


@jit
def sum_lanes(block, sums):  # type: ignore[no-untyped-def]
    """Write the sum of each lane."""
    sums[:] = 0.0
    for first in range(0, len(block), len(sums)):
        row = block[first : first + len(sums)]
        for j in range(len(row)):
            sums[j] += row[j]


@jit
def sum_squares(block, centers, sums):  # type: ignore[no-untyped-def]
    """Write the sum of the squared deviations of each lane from its center."""
    sums[:] = 0.0
    for first in range(0, len(block), len(sums)):
        row = block[first : first + len(sums)]
        for j in range(len(row)):
            deviation = row[j] - centers[j]
            sums[j] += deviation * deviation


@jit
def fold_lanes(sums, width):  # type: ignore[no-untyped-def]
    """The sum of the lanes of each column, (width,), by halves; overwrites the sums of the lanes."""
    lanes = len(sums)
    while lanes > width:
        lanes //= 2
        low, high = sums[:lanes], sums[lanes : 2 * lanes]
        for j in range(len(low)):
            low[j] += high[j]
    return sums[:width]


@jit
def fill_lanes(values, lanes):  # type: ignore[no-untyped-def]
    """Write the value of its column into each lane, by doubles."""
    filled = len(values)
    lanes[:filled] = values
    while filled < len(lanes):
        lanes[filled : 2 * filled] = lanes[:filled]
        filled *= 2
