"""Counter-based random streams: one 64-bit key and one 64-bit counter per sub-env.

The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3",
SC11: a block of four 32-bit words is a function of key and counter alone. What a sub-env draws depends on its seed and
on how often it has drawn, never on the other sub-envs, on threads or on the process.

Two ways to draw in a kernel:

- ``uniform(streams, i)``, ``normal(streams, i)`` and the like draw for row ``i`` and move its counter on, by a block
  for each variate;
- ``philox(key, counter)`` with ``uniform_of``, ``maths.normal`` and ``maths.normal_pair64`` make the words of a block
  into variates and change nothing. A kernel that needs several gets them from one block, and then adds to the counters
  what it has used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.kernels import maths
from sekai.kernels.jit import jit
from sekai.seeding import check_seed

_ONE = np.uint64(1)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ZERO = np.uint64(0)
#: Multipliers and key increments of Philox4x32 (Salmon et al. 2011, tables 2 and section 4.3).
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_STEPS0 = tuple(np.uint64(_W0 * k) for k in range(10))
_STEPS1 = tuple(np.uint64(_W1 * k) for k in range(10))


class Streams(NamedTuple):
    """The random streams of N sub-envs.

    Attributes:
        key: u8 (N,), which stream.
        counter: u8 (N,), how many blocks of four words have been drawn from it; moved on in place.
    """

    key: NDArray[np.uint64]
    counter: NDArray[np.uint64]


def key_of_seed(seed: int) -> int:
    """The 64-bit key of the stream that a seed names: itself, or 64 bits that a longer seed is mixed into.

    Philox is made for keys in sequence: neighbouring ones give independent streams.

    Args:
        seed: At least 0.
    """
    if seed < 2**64:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def make_streams(seeds: Iterable[Any]) -> Streams:
    """Streams at their beginning.

    Args:
        seeds: One integer per sub-env, or None for a stream that no other run will draw. Of many, a uint64 array is
            the quick way.

    Raises:
        TypeError: A seed is no integer.
        ValueError: A seed is negative.
    """
    if isinstance(seeds, np.ndarray) and seeds.dtype == np.uint64:
        keys = np.array(seeds)  # see key_of_seed
    else:
        given = list(seeds)
        named = [row for row, seed in enumerate(given) if seed is not None]
        keys = np.empty(len(given), np.uint64) if len(named) == len(given) else draw_streams(len(given)).key
        keys[named] = [key_of_seed(check_seed(given[row])) for row in named]
    return Streams(keys, np.zeros(len(keys), dtype=np.uint64))


def draw_streams(count: int) -> Streams:
    """So many streams that no other run will draw, at their beginning."""
    # In one call of the system: one for each takes longer than a hundred steps of its row.
    keys = np.frombuffer(bytearray(os.urandom(8 * count)), np.uint64)
    return Streams(keys, np.zeros(count, dtype=np.uint64))


# -- words -------------------------------------------------------------------------------------------------


@jit
def _round(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    p0 = (c0 & _LOW) * _M0
    p1 = (c2 & _LOW) * _M1
    return (p1 >> _32) ^ c1 ^ k0, p1, (p0 >> _32) ^ c3 ^ k1, p0


@jit
def philox_words(key: Any, counter: Any, upper: Any) -> Any:
    """The four words of a block, with all 128 bits of the counter.

    Args:
        key: u8.
        counter: u8, the lower half of the counter.
        upper: u8, its upper half.

    Returns:
        Four u4.
    """
    # Words stay in 64-bit lanes, whose upper halves the next multiplication ignores: half the instructions of
    # 32-bit lanes, since a processor multiplies 32 by 32 bits into 64 there. No sum in it can overflow.
    c0, c1, c2, c3 = counter, counter >> _32, upper, upper >> _32
    k0, k1 = key & _LOW, key >> _32
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[1], k1 + _STEPS1[1])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[2], k1 + _STEPS1[2])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[3], k1 + _STEPS1[3])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[4], k1 + _STEPS1[4])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[5], k1 + _STEPS1[5])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[6], k1 + _STEPS1[6])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[7], k1 + _STEPS1[7])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[8], k1 + _STEPS1[8])
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEPS0[9], k1 + _STEPS1[9])
    return np.uint32(c0 & _LOW), np.uint32(c1 & _LOW), np.uint32(c2 & _LOW), np.uint32(c3 & _LOW)


@jit
def philox(key: Any, counter: Any) -> Any:
    """The four random words of a block.

    Args:
        key: u8, of the stream.
        counter: u8, of the block.

    Returns:
        Four u4.
    """
    return philox_words(key, counter, _ZERO)


@jit
def uniform_of(word: Any) -> Any:
    """A word as a uniform variate: f4 in (0, 1], ``(w + 1/2) / 2**31`` of its upper 31 bits ``w``, rounded.

    Below 2**-8 that is exact, so that ``uniform_of(word) <= p`` happens with probability ``p`` to within 2**-31 even
    for the smallest ``p``; it always does for ``p >= 1`` and never for ``p <= 0``.

    Args:
        word: u4.
    """
    # Signed, since only that conversion is one instruction everywhere.
    return maths.fma(np.float32(np.int32(word >> np.uint32(1))), np.float32(2.0**-31), np.float32(2.0**-32))


@jit
def _join(high: Any, low: Any) -> Any:
    return (np.uint64(high) << _32) | np.uint64(low)


@jit
def random_words(streams: Streams, i: int) -> Any:
    """Draw four random words, u4 each.

    Args:
        streams: The streams.
        i: The row.
    """
    counter = streams.counter[i]
    streams.counter[i] = counter + _ONE
    return philox(streams.key[i], counter)


@jit
def _random_longs(streams: Streams, i: int) -> Any:
    """Draw two random words of 64 bits, u8 each."""
    a, b, c, d = random_words(streams, i)
    return _join(a, b), _join(c, d)


# -- variates ----------------------------------------------------------------------------------------------


@jit
def uniform64_of(high: Any, low: Any) -> Any:
    """Two words as a uniform variate: f8 in [0, 1) with 53 random bits.

    Args:
        high: u4.
        low: u4.
    """
    return _unit(_join(high, low))


@jit
def _unit(word: Any) -> Any:
    """The upper 53 bits of a u8 as f8 in [0, 1)."""
    return np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53


@jit
def _log_unit(word: Any) -> Any:
    """``log((w + 1/2) / 2**63)`` of the upper 63 bits ``w`` of a u8, to full precision also close to 0."""
    low = np.float64(np.int64(word >> _ONE)) + 0.5
    rest = np.float64(np.int64((~word) >> _ONE)) + 0.5
    upper = word >= np.uint64(1 << 63)
    return maths.log1p(-rest * 2.0**-63) if upper else maths.log(low * 2.0**-63)


@jit
def uniform(streams: Streams, i: int) -> Any:
    """Draw from the uniform distribution on [0, 1): f8 with 53 random bits.

    Args:
        streams: The streams.
        i: The row.
    """
    word, _ = _random_longs(streams, i)
    return _unit(word)


@jit
def normal(streams: Streams, i: int) -> Any:
    """Draw from the standard normal distribution: f8, with tails to 9.4 standard deviations.

    See ``maths.normal64``.

    Args:
        streams: The streams.
        i: The row.
    """
    word_0, word_1, word_2, word_3 = random_words(streams, i)
    return maths.normal64(word_0, word_1, word_2, word_3)


@jit
def exponential(streams: Streams, i: int) -> Any:
    """Draw from the exponential distribution with mean 1: f8, by inversion of 63 random bits, up to 44.4.

    Args:
        streams: The streams.
        i: The row.
    """
    word, _ = _random_longs(streams, i)
    return -_log_unit(word)


@jit
def bernoulli(streams: Streams, i: int, p: float) -> Any:
    """Draw True with probability ``p``.

    Args:
        streams: The streams.
        i: The row.
        p: f8; below 0, and NaN, is as good as 0, above 1 as 1.
    """
    return uniform(streams, i) < p


@jit
def integers(streams: Streams, i: int, low: int, high: int) -> Any:
    """Draw from the integers ``low <= x < high``, each as likely as the others to the last bit.

    Args:
        streams: The streams.
        i: The row.
        low: i8.
        high: i8, above ``low``; where it is not, the result is ``low``.
    """
    if high <= low:
        return low
    most = np.uint64(high - low - 1)  # may be more than the largest i8
    mask = most
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    while True:
        for word in _random_longs(streams, i):
            offset = word & mask
            if offset <= most:
                half = np.int64(offset >> _ONE)
                return low + half + np.int64(offset - np.uint64(half))


@jit
def poisson_of(u: float, mean: float) -> Any:
    """A uniform variate as one of the Poisson distribution, by inversion: i8.

    Args:
        u: f8 in [0, 1).
        mean: f8, at least 0; the work grows with it, and past 700 the result has no meaning.
    """
    term = maths.exp(-mean)
    k = 0
    while u >= term and (k < mean or term > 1e-17):  # what rounding has left of u is no reason to go on
        u -= term
        k += 1
        term *= mean / k
    return k


@jit
def poisson(streams: Streams, i: int, mean: float) -> Any:
    """Draw from the Poisson distribution: i8.

    By inversion below a mean of 10, above it by the transformed rejection PTRS of Hörmann (1993), "The transformed
    rejection method for generating Poisson random variables", Insurance: Mathematics and Economics 12.

    Args:
        streams: The streams.
        i: The row.
        mean: f8 up to 1e15; 0 or less (and NaN) gives 0.
    """
    if not mean > 0.0:
        return 0
    if mean < 10.0:
        return poisson_of(uniform(streams, i), mean)
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    accepted = 0.9277 - 3.6224 / (b - 2.0)
    log_mean = maths.log(mean)
    while True:
        first, second = _random_longs(streams, i)
        u = _unit(first) - 0.5
        v = _unit(second)
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + mean + 0.43) if us > 0.0 else -1.0
        if us >= 0.07 and v <= accepted:
            return np.int64(k)
        if k < 0.0 or (us < 0.013 and v > us) or v <= 0.0:
            continue
        if maths.log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_mean - mean - _log_factorial(k):
            return np.int64(k)


@jit
def _log_factorial(k: float) -> Any:
    """``log(k!)``: exact products below 10, Stirling's series (error below 1e-12) from there."""
    if k < 10.0:
        product = 1.0
        for j in range(2, int(k) + 1):
            product *= j
        return maths.log(product)
    x = k + 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)))
    return (x - 0.5) * maths.log(x) - x + 0.9189385332046727 + series


@jit
def choice(streams: Streams, i: int, weights: Any) -> Any:
    """Draw a position of ``weights`` with probability proportional to the weight there.

    Args:
        streams: The streams.
        i: The row.
        weights: f8 (k,), at least 0, not all 0. Their sum need not be 1.
    """
    total = 0.0
    for weight in weights:
        total += weight
    left = uniform(streams, i) * total
    last = 0
    for k in range(len(weights)):
        if weights[k] > 0.0:
            last = k
            if left < weights[k]:
                return k
            left -= weights[k]
    return last
