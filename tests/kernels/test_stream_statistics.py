"""The distributions of what is drawn, and its independence of everything beside it.

Over some hundred thousand draws each, which show a coarse fault; marked as slow, over ten million. Seeds are fixed, so
that nothing here changes from run to run. Tests are made at the level p = 1e-6, whatever the sample.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sekai.kernels import jit, maths, streams
from sekai.kernels.streams import Streams, make_streams, philox
from sekai.seeding import make_seed_sequence

pytestmark = pytest.mark.compiled

MASK = 2**32 - 1

#: Neighbouring seeds.
ROWS = 1000

#: The normal quantile of 1 - 1e-6 (of one side), and a little more for what is tested on both.
SIGMAS = 4.9


# -- tests of goodness of fit --------------------------------------------------------------------------------


def assert_moments(sample, moments):
    """Compare the means of powers; ``moments``: those of the first to the 2m-th, of which m are compared."""
    power = np.ones_like(sample)
    for k in range(1, len(moments) // 2 + 1):
        power *= sample
        error = math.sqrt((moments[2 * k - 1] - moments[k - 1] ** 2) / sample.size)
        assert abs(power.mean() - moments[k - 1]) < SIGMAS * error, f"moment {k}"


def assert_distributed(probabilities):
    """Kolmogorov and Smirnov's test; ``probabilities``: the distribution function of each draw."""
    ordered = np.sort(probabilities, axis=None)
    n = ordered.size
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    # Of the limit distribution, whose tail is 2 exp(-2 t**2).
    assert distance * math.sqrt(n) < math.sqrt(-math.log(1e-6 / 2) / 2)
    assert distance * math.sqrt(n) > 0.2  # as improbable: too regular


def assert_frequencies(counts, probabilities):
    """Pearson's test, on both sides, with Wilson and Hilferty's approximation of chi-square."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities) * np.sum(counts)
    assert expected.min() > 20
    assert expected.sum() == pytest.approx(counts.sum())
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square_score(chi_square, counts.size - 1)) < SIGMAS


def chi_square_score(value, degrees):
    spread = 2 / (9 * degrees)
    return ((value / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def assert_uncorrelated(a, b):
    a, b = a.ravel() - a.mean(), b.ravel() - b.mean()
    correlation = (a @ b) / math.sqrt((a @ a) * (b @ b))
    assert abs(correlation) * math.sqrt(a.size) < SIGMAS


def assert_pairs_fill_the_square(a, b, bins):
    """Pairs of integers from 0 to ``bins - 1``: each pair as often as any other."""
    counts = np.bincount((a.astype(np.intp) * bins + b).ravel(), minlength=bins * bins)
    assert_frequencies(counts, np.full(bins * bins, 1 / bins**2))


def assert_share(which, probability):
    """As many of a sample are true as should be; where that is fewer than 20, the sample is too small to tell."""
    expected = probability * which.size
    assert expected < 20 or abs(np.count_nonzero(which) - expected) < SIGMAS * math.sqrt(expected * (1 - probability))


# -- samples -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[700, pytest.param(10_000, marks=pytest.mark.slow)])
def count(request):
    """Draws from each seed."""
    return request.param


@jit
def fill(draw, arguments, made, out):
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = draw(made, i, *arguments)


def sample(count, draw, *arguments, dtype=np.float64, rows=ROWS):
    """(rows, count): a row for each seed."""
    out = np.empty((rows, count), dtype)
    fill(draw, arguments, make_streams(range(rows)), out)
    return out


@jit
def blocks(made, out):
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k, 0], out[i, k, 1], out[i, k, 2], out[i, k, 3] = streams.random_words(made, i)


@pytest.fixture(scope="module")
def words(count):
    """u4 (ROWS, count // 4, 4)."""
    out = np.empty((ROWS, count // 4, 4), np.uint32)
    blocks(make_streams(range(ROWS)), out)
    return out


@pytest.fixture(scope="module")
def uniforms(count):
    return sample(count, streams.uniform)


@pytest.fixture(scope="module")
def normals(count):
    return sample(count, streams.normal)


@jit
def cumulative(x, out):
    for i in range(len(x)):
        out[i] = 0.5 * math.erfc(-x[i] * math.sqrt(0.5))


def normal_probabilities(x):
    out = np.empty(x.size)
    cumulative(x.ravel(), out)
    return out


NORMAL_MOMENTS = [0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395]
UNIFORM_MOMENTS = [1 / (k + 1) for k in range(1, 9)]


# -- distributions -------------------------------------------------------------------------------------------


def test_words(words):
    """Each bit, each byte, and each pair of neighbouring bytes."""
    n = words.size
    for bit in range(32):
        ones = np.count_nonzero(words & np.uint32(1 << bit))
        assert abs(ones - n / 2) < SIGMAS * math.sqrt(n) / 2
    halves = np.bincount(words.ravel().view(np.uint16), minlength=2**16)
    assert_frequencies(halves, np.full(2**16, 2.0**-16))
    assert_distributed((words + 0.5) / 2**32)


def test_uniform(uniforms):
    close = 10 / uniforms.size
    assert 0 <= uniforms.min() < close and 1 - close < uniforms.max() < 1
    assert_moments(uniforms, UNIFORM_MOMENTS)
    assert_distributed(uniforms)
    # The lower bits too.
    assert_distributed(uniforms * 2.0**20 % 1)


def test_normal(normals):
    assert_moments(normals, NORMAL_MOMENTS)
    assert_distributed(normal_probabilities(normals))
    for x in (3.0, 4.0, 4.5):
        for tail in (normals > x, normals < -x):
            assert_share(tail, 0.5 * math.erfc(x / math.sqrt(2)))


def test_exponential(count):
    drawn = sample(count, streams.exponential)
    assert drawn.min() > 0
    assert_moments(drawn, [math.factorial(k) for k in range(1, 9)])
    assert_distributed(-np.expm1(-drawn))
    for x in (8.0, 10.0, 12.0):
        assert_share(drawn > x, math.exp(-x))


@pytest.mark.parametrize("p", [1e-4, 0.3, 0.5, 0.999])
def test_bernoulli(count, p):
    assert_share(sample(count, streams.bernoulli, p, dtype=np.bool_), p)


@pytest.mark.parametrize(("low", "size"), [(0, 3), (-7, 10), (100, 1000), (0, 2**10)])
def test_integers_of_a_short_range(count, low, size):
    drawn = sample(count, streams.integers, low, low + size, dtype=np.int64)
    assert_frequencies(np.bincount((drawn - low).ravel(), minlength=size), np.full(size, 1 / size))


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 2**31 + 1), (-(2**40), 2**41 + 3), (0, 2**62 + 1), (-(2**62) - 1, 2**62), (-(2**63), 2**63 - 1)],
)
def test_integers_of_a_long_range(count, low, high):
    """Numbers that a remainder or a product would favour, had they been made so, fall in some of the bins."""
    drawn = sample(count, streams.integers, low, high, dtype=np.int64)
    size = high - low
    offsets = drawn.view(np.uint64) - np.uint64(low % 2**64)
    assert int(offsets.max()) < size
    bins = 997
    edges = np.array([size * k // bins for k in range(1, bins)], dtype=np.uint64)
    counts = np.bincount(np.searchsorted(edges, offsets.ravel(), side="right"), minlength=bins)
    widths = np.diff([0, *(int(edge) for edge in edges), size]) / size
    assert_frequencies(counts, widths.astype(float))
    assert_frequencies(np.bincount((offsets % np.uint64(64)).astype(np.intp).ravel()), np.full(64, 1 / 64))


def poisson_probabilities(mean, up_to):
    return [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(up_to)]


@pytest.mark.parametrize("mean", [0.1, 1.0, 9.99, 10.0, 14.5, 100.0, 10_000.0])
def test_poisson(count, mean):
    drawn = sample(count, streams.poisson, mean, dtype=np.int64)
    n = drawn.size
    assert abs(drawn.mean() - mean) < SIGMAS * math.sqrt(mean / n)
    fourth = mean + 3 * mean**2
    assert abs(((drawn - mean) ** 2).mean() - mean) < SIGMAS * math.sqrt((fourth - mean**2) / n)
    counts = np.bincount(drawn.ravel(), minlength=int(mean + 30 * math.sqrt(mean) + 30)).astype(float)
    expected = np.array(poisson_probabilities(mean, counts.size))
    # Neighbours are joined where fewer than 50 are expected, in the tails; as the tails are so, they are tested whole.
    edges = np.flatnonzero(expected * n > 50)
    lo, hi = edges[0], edges[-1]
    joined = [np.r_[each[:lo].sum(), each[lo:hi], each[hi:].sum()] for each in (counts, expected)]
    if joined[1][0] * n < 20:
        joined = [np.r_[each[0] + each[1], each[2:]] for each in joined]
    assert_frequencies(joined[0], joined[1] / joined[1].sum())


@jit
def transformed_rejection(made, i, mean):
    """Algorithm PTRS as Hörmann (1993) has it, with the C library's logarithms."""
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    while True:
        w0, w1, w2, w3 = streams.random_words(made, i)
        u, v = streams.uniform64_of(w0, w1) - 0.5, streams.uniform64_of(w2, w3)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + mean + 0.43)
        if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        height = math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
        if height <= k * math.log(mean) - mean - math.lgamma(k + 1):
            return k


@pytest.mark.parametrize("mean", [10.0, 12.0, 30.0, 1e4, 1e7])
def test_poisson_by_rejection_accepts_what_it_should(count, mean):
    """To the last one: of three million, an error of a thousandth in the logarithm of a factorial would show."""
    drawn = sample(count, streams.poisson, mean, dtype=np.int64, rows=300)
    assert np.array_equal(drawn, sample(count, transformed_rejection, mean, dtype=np.int64, rows=300))


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0], [0.25, 0.0, 0.5, 1e-3, 0.1], list(range(100))])
def test_choice(count, weights):
    weights = np.array(weights, float)
    drawn = sample(count, streams.choice, weights, dtype=np.int8)
    counts = np.bincount(drawn.ravel(), minlength=len(weights))
    assert not counts[weights == 0].any()
    assert_frequencies(counts[weights > 0], weights[weights > 0] / weights.sum())


# -- words made into variates --------------------------------------------------------------------------------


@jit
def uniforms_of(words, out):
    for i in range(len(out)):
        out[i] = streams.uniform_of(words[i])


@jit
def uniforms64_of(words, out):
    for i in range(len(out)):
        out[i] = streams.uniform64_of(words[i, 0], words[i, 1])


@jit
def normals_of(words, first, second):
    for i in range(len(first)):
        first[i], second[i] = maths.normal_pair(words[i, 0], words[i, 1])


@jit
def normals64_of(words, first, second):
    for i in range(len(first)):
        first[i], second[i] = maths.normal_pair64(words[i, 0], words[i, 1], words[i, 2], words[i, 3])


def test_uniform_of(words):
    drawn = np.empty(words.size, np.float32)
    uniforms_of(words.ravel(), drawn)
    close = 10 / drawn.size
    assert 0 < drawn.min() < close and 1 - close < drawn.max() <= 1
    assert_moments(drawn.astype(float), UNIFORM_MOMENTS)
    assert_distributed(drawn.astype(float))
    for p in (1e-5, 1e-3, 0.1):
        assert_share(drawn <= np.float32(p), p)


def test_uniform64_of(words):
    drawn = np.empty(words.size // 2)
    uniforms64_of(words.reshape(-1, 2), drawn)
    assert_moments(drawn, UNIFORM_MOMENTS)
    assert_distributed(drawn)


def test_normal_pairs_of_two_words(words):
    first, second = np.empty((2, words.size // 2), np.float32)
    normals_of(words.reshape(-1, 2), first, second)
    both = np.concatenate([first, second]).astype(float)
    assert_moments(both, NORMAL_MOMENTS)
    assert_distributed(normal_probabilities(both))
    assert_uncorrelated(first, second)
    assert_uncorrelated(first**2, second**2)


def test_normal_pairs_of_four_words(words):
    first, second = np.empty((2, words.size // 4))
    normals64_of(words.reshape(-1, 4), first, second)
    both = np.concatenate([first, second])
    assert_moments(both, NORMAL_MOMENTS)
    assert_distributed(normal_probabilities(both))
    assert_uncorrelated(first, second)
    assert_uncorrelated(first**2, second**2)


@jit
def count_far32(made, i, draws, x, words):
    """How many normals lie beyond ``x``, of some whose first word is below ``words``."""
    far = 0
    for _ in range(draws):
        a, b, c, d = streams.random_words(made, i)
        word = np.uint32(np.int64(streams.uniform64_of(a, b) * words))
        far += abs(maths.normal(word, c)) > x
    return far


@jit
def count_far64(made, i, draws, x, words):
    """The same where it is the first two words, as one number."""
    far = 0
    for _ in range(draws):
        a, b, c, d = streams.random_words(made, i)
        word = np.uint64(np.int64(streams.uniform64_of(a, b) * words))
        far += abs(maths.normal64(np.uint32(word >> np.uint64(32)), np.uint32(word & np.uint64(MASK)), c, d)) > x
    return far


def assert_far_out(far, count, portion, x, tolerance):
    """Of 1000 * count draws from a portion of all, as many beyond ``x`` as should; ``tolerance``: for count 10,000."""
    share = far / (1000 * count) * portion
    assert share == pytest.approx(math.erfc(x / math.sqrt(2)), rel=tolerance * math.sqrt(10_000 / count))


@pytest.mark.parametrize(("x", "tolerance"), [(4.0, 0.005), (5.0, 0.005), (6.0, 0.005), (7.0, 0.02)])
def test_normals_of_two_words_lie_far_out_as_often_as_they_should(count, x, tolerance):
    """Beyond ``x`` lie only normals whose radius does, which the smallest words give: draws from those alone."""
    words = math.floor(2**32 * math.exp(-0.5 * x * x)) + 1
    far = count_far32(make_streams([1]), 0, 1000 * count, np.float32(x), words)
    assert_far_out(far, count, words / 2**32, x, tolerance)
    beside = np.random.default_rng(3).integers(2**32, size=(100 * count, 2), dtype=np.uint32)
    beside[:1000, 0] = words + np.arange(1000)
    beside[beside[:, 0] < words, 0] += words
    first, second = np.empty((2, len(beside)), np.float32)
    normals_of(beside, first, second)
    assert max(abs(first).max(), abs(second).max()) <= x + 1e-5


@pytest.mark.parametrize("x", [4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
def test_normals_of_four_words_lie_far_out_as_often_as_they_should(count, x):
    words = math.floor(2**64 * math.exp(-0.5 * x * x)) + 1
    far = count_far64(make_streams([1]), 0, 1000 * count, x, words)
    assert_far_out(far, count, words / 2**64, x, tolerance=0.006)


# -- independence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [1, 2, 3, 64])
def test_neighbouring_seeds_draw_independently(uniforms, normals, lag):
    assert_uncorrelated(uniforms[lag:], uniforms[:-lag])
    assert_uncorrelated(normals[lag:], normals[:-lag])
    assert_uncorrelated(normals[lag:] ** 2, normals[:-lag] ** 2)
    bins = (uniforms * 32).astype(np.int8)
    assert_pairs_fill_the_square(bins[lag:], bins[:-lag], 32)


@pytest.mark.parametrize("lag", [1, 2, 3, 64])
def test_draws_one_after_another_are_independent(uniforms, normals, lag):
    assert_uncorrelated(uniforms[:, lag:], uniforms[:, :-lag])
    assert_uncorrelated(normals[:, lag:], normals[:, :-lag])
    assert_uncorrelated(normals[:, lag:] ** 2, normals[:, :-lag] ** 2)
    bins = (uniforms * 32).astype(np.int8)
    assert_pairs_fill_the_square(bins[:, lag:], bins[:, :-lag], 32)


def test_the_draws_of_a_seed_are_distributed_as_those_of_all(uniforms, normals):
    """The means of rows and of columns, each against their own distribution."""
    for axis in (0, 1):
        n = uniforms.shape[axis]
        assert_distributed(normal_probabilities((uniforms.mean(axis) - 0.5) * math.sqrt(12 * n)))
        assert_distributed(normal_probabilities(normals.mean(axis) * math.sqrt(n)))


def test_the_words_of_a_block_are_independent(words):
    bins = (words >> np.uint32(27)).astype(np.int8)
    low = (words & np.uint32(31)).astype(np.int8)
    for j in range(4):
        for k in range(j):
            assert_pairs_fill_the_square(bins[..., j], bins[..., k], 32)
            assert_pairs_fill_the_square(low[..., j], low[..., k], 32)
        assert_pairs_fill_the_square(bins[..., j], low[..., j], 32)


@jit
def words_at(key, counter, out):
    for i in range(len(out)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = philox(key[i], counter[i])


def words_of(key, counter):
    out = np.empty((len(key), 4), np.uint32)
    words_at(key, counter, out)
    return out


def test_each_bit_of_key_and_counter_changes_each_bit_of_the_words_half_the_time():
    n = 20_000
    key, counter = np.random.default_rng(5).integers(2**64, size=(2, n), dtype=np.uint64)
    words = words_of(key, counter)
    changes = np.empty((128, 128))
    for bit in range(64):
        flip = np.uint64(1 << bit)
        for row, changed in enumerate((words_of(key ^ flip, counter), words_of(key, counter ^ flip))):
            bits = np.unpackbits((words ^ changed).view(np.uint8), axis=1)
            changes[2 * bit + row] = bits.mean(0)
    scores = (changes - 0.5) * 2 * math.sqrt(n)
    assert np.abs(scores).max() < 6.5  # of 16,384
    assert_distributed(normal_probabilities(scores + 0.0))


@pytest.mark.parametrize(
    "seeds",
    [
        lambda n: range(n),
        lambda n: range(0, n * (2**62 // n), 2**62 // n),
        lambda n: range(0, n << 32, 1 << 32),
        lambda n: make_seed_sequence(0, n),
        lambda n: [seed for base in range(1000) for seed in make_seed_sequence(base, n // 1000)],
    ],
    ids=["in sequence", "far apart", "of the upper half", "of an int", "of neighbouring ints"],
)
def test_the_first_draws_of_many_envs(count, seeds):
    keys = np.array(seeds(100 * count), np.uint64)
    out = np.empty((len(keys), 2))
    fill(streams.uniform, (), Streams(keys, np.zeros_like(keys)), out)
    assert_distributed(out[:, 0])
    assert_distributed(out[:, 1])
    assert_uncorrelated(out[:, 0], out[:, 1])
    assert_uncorrelated(out[1:, 0], out[:-1, 0])
    bins = (out * 32).astype(np.int8)
    assert_pairs_fill_the_square(bins[:, 0], bins[:, 1], 32)
    assert_pairs_fill_the_square(bins[1:, 0], bins[:-1, 0], 32)


def test_nearby_counters_of_nearby_keys_do_not_meet(count):
    """A stream is no other's further on: of all blocks in a square of keys and counters, no two are the same."""
    side = count // 10
    key, counter = np.divmod(np.arange(side**2, dtype=np.uint64), np.uint64(side))
    halves = words_of(key, counter).view(np.uint64)
    for half in halves.T:
        assert len(np.unique(half)) == len(half)
