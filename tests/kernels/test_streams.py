"""Random streams: the words are those of the published generator, and a draw depends on key and counter alone."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sekai.kernels import get_num_threads, jit, jit_batch, maths, set_num_threads, streams
from sekai.kernels.streams import Streams, key_of_seed, make_streams, philox, philox_words

MASK = 2**32 - 1


def u8(*words):
    """Words, little end first, as one number of 64 bits."""
    return np.uint64(words[0] | words[1] << 32)


# -- words ---------------------------------------------------------------------------------------------------

#: Counter, key and result of the known-answer tests that the Random123 library publishes for philox4x32-10.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((MASK,) * 4, (MASK,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_the_published_answers(counter, key, answer):
    assert philox_words(u8(*key), u8(*counter[:2]), u8(*counter[2:])) == answer


def philox_in_plain_integers(counter, key):
    """The ten rounds as the paper has them."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def test_any_key_and_counter_give_the_words_of_the_paper():
    rng = np.random.default_rng(0)
    cases = rng.integers(2**32, size=(200, 6)).tolist() + (rng.integers(2, size=(64, 6)) * MASK).tolist()
    for c0, c1, c2, c3, k0, k1 in cases:
        words = philox_in_plain_integers((c0, c1, c2, c3), (k0, k1))
        assert philox_words(u8(k0, k1), u8(c0, c1), u8(c2, c3)) == words
        words = philox_in_plain_integers((c0, c1, 0, 0), (k0, k1))
        assert philox(u8(k0, k1), u8(c0, c1)) == words


def test_a_loop_over_rows_is_vectorised(monkeypatch):
    monkeypatch.setenv("SEKAI_CACHE", "0")  # numba cannot show the assembly of code from the disk

    def draw(key, counter, out):
        for i in range(len(out)):
            a, b, c, d = philox(key[i], counter[i])
            out[i] = a ^ b ^ c ^ d

    rng = np.random.default_rng(1)
    key, counter = rng.integers(2**64, size=(2, 50), dtype=np.uint64)
    compiled, out = jit(draw), np.zeros(50, np.uint32)
    compiled(key, counter, out)
    for i in range(50):
        a, b, c, d = philox_in_plain_integers(
            (int(counter[i]) & MASK, int(counter[i]) >> 32, 0, 0), (int(key[i]) & MASK, int(key[i]) >> 32)
        )
        assert out[i] == a ^ b ^ c ^ d
    if not numba.config.DISABLE_JIT:
        (assembly,) = compiled.inspect_asm().values()
        # Products of several 32-bit words at once, of x86 and of ARM: two in a round, fewer in the first.
        assert len(re.findall(r"\bv?pmuludq\b|\bumull2?\s+v\d", assembly)) >= 18


# -- streams -------------------------------------------------------------------------------------------------


def test_a_seed_is_its_own_key_if_it_has_64_bits():
    assert [key_of_seed(seed) for seed in (0, 1, 2**64 - 1)] == [0, 1, 2**64 - 1]
    long = [2**64, 2**64 + 1, 2**65, 2**128, 2**1000 + 7]
    keys = [key_of_seed(seed) for seed in long]
    assert len(set(keys)) == len(long) and all(2**32 < key < 2**64 for key in keys)
    assert keys == [key_of_seed(seed) for seed in long]


def test_streams_begin_at_the_beginning():
    made = make_streams([5, np.int32(6), 2**64 - 1, 2**70])
    assert isinstance(made, Streams)
    assert made.key.dtype == made.counter.dtype == np.uint64
    assert made.key.tolist() == [5, 6, 2**64 - 1, key_of_seed(2**70)]
    assert made.counter.tolist() == [0, 0, 0, 0]
    assert make_streams([]).key.shape == (0,)


def test_a_stream_without_a_seed_is_its_own():
    keys = make_streams([None] * 100).key.tolist() + make_streams(iter([None])).key.tolist()
    assert len(set(keys)) == 101
    made = make_streams([5, None, 7])
    assert made.key[::2].tolist() == [5, 7] and made.key[1] not in keys and made.counter.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ValueError, "expected an integer of at least 0, got -1"),
        (True, TypeError, "expected an integer or None, got the bool True"),
        (1.0, TypeError, "expected an integer or None, got float"),
    ],
)
def test_a_seed_is_a_natural_number(seed, error, message):
    with pytest.raises(error, match=message):
        make_streams([0, seed])


# -- draws ---------------------------------------------------------------------------------------------------

WEIGHTS = np.array([1.0, 0.0, 2.0, 0.5])


def drawing(function, *arguments):
    return lambda made, i: function(made, i, *arguments)


#: Each draws once for row ``i``.
DRAWS = {
    "random_words": drawing(streams.random_words),
    "uniform": drawing(streams.uniform),
    "normal": drawing(streams.normal),
    "exponential": drawing(streams.exponential),
    "bernoulli": drawing(streams.bernoulli, 0.3),
    "integers": drawing(streams.integers, -5, 1000),
    "poisson, small mean": drawing(streams.poisson, 1.5),
    "poisson, large mean": drawing(streams.poisson, 50.0),
    "choice": drawing(streams.choice, WEIGHTS),
}
draws = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)

#: Those that take exactly one block; the others reject some.
ONE_BLOCK = ["random_words", "uniform", "normal", "exponential", "bernoulli", "poisson, small mean", "choice"]


@draws
def test_a_draw_moves_the_counter_of_its_row_alone(draw):
    made = make_streams([1, 2, 3])
    for k in range(5):
        draw(made, 1)
        assert made.counter[0] == made.counter[2] == 0 and made.counter[1] > k
    assert made.key.tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ONE_BLOCK)
def test_it_takes_one_block(name):
    made = make_streams([1])
    for _ in range(5):
        DRAWS[name](made, 0)
    assert made.counter.tolist() == [5]


@draws
def test_a_draw_depends_on_key_and_counter_alone(draw):
    alone, among = make_streams([7]), make_streams([9, 8, 7, 6])
    values = [draw(alone, 0) for _ in range(20)]
    for k in range(20):
        draw(among, k % 2)
        assert draw(among, 2) == values[k]
    middle = Streams(np.array([7], np.uint64), np.array([0], np.uint64))
    for _ in range(10):
        draw(middle, 0)
    again = Streams(middle.key.copy(), middle.counter.copy())
    assert [draw(again, 0) for _ in range(10)] == values[10:] == [draw(middle, 0) for _ in range(10)]
    assert len(set(values)) > 1


@jit_batch(block=64, parallel_from=128)
def draw_rows(made, out):
    for i in range(len(out)):
        out[i] = streams.integers(made, i, 0, 2**62 + 1)  # of as many blocks as it takes


def test_rows_draw_the_same_whatever_their_number_threads_or_place():
    before, n = get_num_threads(), 500
    expected = np.zeros((3, n), np.int64)
    whole = make_streams(range(n))
    for out in expected:
        draw_rows(whole, out)
    try:
        for num_threads in (1, 2):
            set_num_threads(num_threads)
            for cuts in ([0, n], [0, 1, 8, n], [0, 250, n]):
                for lo, hi in zip(cuts, cuts[1:], strict=False):
                    made, out = make_streams(range(lo, hi)), np.zeros((3, hi - lo), np.int64)
                    for row in out:
                        draw_rows(made, row)
                    assert_array_equal(out, expected[:, lo:hi])
                    assert_array_equal(made.counter, whole.counter[lo:hi])
    finally:
        set_num_threads(before)


def drawn():
    """Of everything, as this process computes it."""
    made = make_streams([3, 2**64 - 5])
    many = {**DRAWS, "integers of a long range": drawing(streams.integers, -3, 2**62 + 1)}
    values = [each(made, i) for i in (0, 1) for _ in range(30) for each in many.values()]
    return [[float(number).hex() for number in np.atleast_1d(value)] for value in values]


def test_compiled_and_in_plain_python_it_draws_the_same_bits():
    environ = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.path.dirname(__file__)}
    code = "import json, test_streams; print(json.dumps(test_streams.drawn()))"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == drawn()


# -- what the variates are made of ---------------------------------------------------------------------------


def longs(made, i):
    """The two words of 64 bits, as Python's integers, that the next draw of a row is made of."""
    a, b, c, d = map(int, philox(made.key[i], made.counter[i]))
    return a << 32 | b, c << 32 | d


def minus_log(word, bits):
    """``-log((w + 1/2) / 2**bits)`` of the upper bits ``w``, with all digits at both ends."""
    w, most = word >> (64 - bits), 2**bits
    return -math.log((w + 0.5) / most) if 2 * w < most else -math.log1p(-(most - w - 0.5) / most)


# A search through the first 2**34 blocks of the stream with key 0 found these counters.
# fmt: off
#: Every normal variate beyond 6 standard deviations: 32 of them, where 33.9 are to be expected.
BEYOND_SIX = [
    355231605, 533717132, 894221930, 1498199094, 3484086322, 4071800867, 4275726547, 5145262111, 5314832946, 5915033260,
    6110577456, 6444230348, 7686148640, 7769635642, 7806748163, 8174614093, 8198085180, 8587087538, 8848464811,
    9033749103, 9341565282, 10010330206, 10490258587, 10742110428, 10943498980, 11836556100, 13244895806, 14829679003,
    15348060972, 15989909950, 16639168665, 16692861419,
]
# fmt: on
#: The longest exponential variates, of 21.2 to 22.7.
LONGEST = [7741293826, 8145324878, 14041942692, 14688199038, 5045761891, 14919134696, 1125373601, 826190408]
#: The shortest, of 1.1e-10 to 2.2e-10.
SHORTEST = [16942237402, 9339129252, 10821808133, 15099879880]


def at(key, counter):
    return Streams(np.array([key], np.uint64), np.array([counter], np.uint64))


def many_places():
    """Streams at which to look at one draw."""
    rng = np.random.default_rng(2)
    for key, counter in rng.integers(2**64, size=(500, 2), dtype=np.uint64):
        yield at(key, counter)
    for counter in (*BEYOND_SIX, *LONGEST, *SHORTEST):
        yield at(0, counter)


def test_a_uniform_variate_is_the_upper_53_bits():
    for made in many_places():
        word, _ = longs(made, 0)
        assert streams.uniform(made, 0) == (word >> 11) / 2**53


def test_an_exponential_variate_is_the_logarithm_of_63_bits():
    for made in many_places():
        word, _ = longs(made, 0)
        assert streams.exponential(made, 0) == pytest.approx(minus_log(word, 63), rel=1e-15, abs=0)


def test_a_normal_variate_is_box_and_mullers():
    for made in many_places():
        word, angle = longs(made, 0)
        radius = math.sqrt(2 * minus_log(word, 64))
        expected = radius * math.cos(2 * math.pi * angle / 2**64)
        assert streams.normal(made, 0) == pytest.approx(expected, rel=1e-14, abs=1e-15 * radius)


def test_normal_variates_are_as_far_out_as_they_should():
    assert abs(len(BEYOND_SIX) - 2**34 * math.erfc(6 / math.sqrt(2))) < 2 * math.sqrt(len(BEYOND_SIX))
    assert all(6 < abs(streams.normal(at(0, counter), 0)) < 7 for counter in BEYOND_SIX)
    assert all(21 < streams.exponential(at(0, counter), 0) < 23 for counter in LONGEST)
    assert all(0 < streams.exponential(at(0, counter), 0) < 3e-10 for counter in SHORTEST)


def test_a_word_as_a_uniform_variate():
    def of(word):
        value = streams.uniform_of(np.uint32(word))
        return np.float32(value)

    assert of(0) == of(1) == 2.0**-32 and of(MASK) == 1.0
    for word in range(0, 2**24, 99_991):  # below 2**-8 nothing is rounded
        assert float(of(word)) == ((word >> 1) + 0.5) / 2**31
    words = np.linspace(0, MASK, 1000).astype(np.uint32)
    values = [of(word) for word in words]
    assert values == sorted(values) and 0 < values[0] and values[-1] <= 1
    assert np.abs(np.float64(values) - ((words >> 1) + 0.5) / 2**31).max() <= 2.0**-24


def test_two_words_as_a_uniform_variate():
    assert streams.uniform64_of(np.uint32(0), np.uint32(MASK)) == (MASK >> 11) / 2**53
    assert streams.uniform64_of(np.uint32(MASK), np.uint32(MASK)) == 1 - 2.0**-53
    assert streams.uniform64_of(np.uint32(1 << 31), np.uint32(0)) == 0.5


RANGES = [
    (0, 2),
    (-3, 4),
    (0, 2**31 + 1),
    (-(2**40), 3),
    (0, 2**62 + 1),
    (-(2**62) - 1, 2**62),
    (-(2**63), 1),
    (-1, 2**63 - 1),
    (-(2**63), 2**63 - 1),
]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_integers_lie_in_their_range(low, high):
    made = make_streams([4])
    drawn = [int(streams.integers(made, 0, low, high)) for _ in range(200)]
    assert all(low <= value < high for value in drawn)
    # Each octile of a range holds some of 200.
    assert len({(value - low) * 8 // (high - low) for value in drawn}) == min(8, high - low)


def test_integers_from_a_range_of_one_or_none():
    made = make_streams([4])
    top, bottom = 2**63 - 1, -(2**63)
    for low, high in [(5, 6), (5, 5), (5, 4), (5, -5), (top, bottom), (top, top), (bottom, bottom + 1)]:
        assert streams.integers(made, 0, low, high) == low


def test_integers_are_the_first_words_that_fit():
    made, low, high = make_streams([4]), 10, 10 + 5
    expected = []
    counter = np.uint64(0)
    while len(expected) < 100:
        a, b, c, d = map(int, philox(np.uint64(4), counter))
        fitting = [word & 7 for word in (a << 32 | b, c << 32 | d) if word & 7 < 5]
        expected += fitting[:1]
        counter += np.uint64(1)
    assert [int(streams.integers(made, 0, low, high)) - low for _ in range(100)] == expected


def test_a_coin_that_is_certain():
    made = make_streams([4])
    for p, expected in [(0.0, False), (-1.0, False), (math.nan, False), (1.0, True), (2.0, True)]:
        assert {bool(streams.bernoulli(made, 0, p)) for _ in range(50)} == {expected}


def test_no_mean_no_events():
    made = make_streams([4])
    for mean in (0.0, -1.0, math.nan):
        assert {int(streams.poisson(made, 0, mean)) for _ in range(50)} == {0}


def test_a_large_mean_is_met():
    made = make_streams([4])
    for mean in (1e6, 1e12, 1e15):
        drawn = [int(streams.poisson(made, 0, mean)) for _ in range(20)]
        assert all(abs(value - mean) < 6 * math.sqrt(mean) for value in drawn)
        assert len(set(drawn)) > 10


@pytest.mark.parametrize("mean", [1e-12, 0.3, 3.0, 50.0, 500.0])
def test_a_uniform_variate_as_a_poisson_one_is_the_inverse_of_the_distribution(mean):
    total, k, term = 0.0, 0, math.exp(-mean)
    while total < 1 - 1e-9 and k < 1000:
        middle = total + 0.5 * term
        if term > 1e-12:
            assert streams.poisson_of(middle, mean) == k
        total += term
        k += 1
        term *= mean / k
    assert streams.poisson_of(0.0, mean) == 0
    most = streams.poisson_of(1 - 2.0**-53, mean)
    assert mean <= most <= mean + 10 * math.sqrt(mean) + 20


def test_what_weighs_nothing_is_never_chosen():
    made = make_streams([4])
    weights = np.array([0.0, 3.0, 0.0, 1e-300, 1.0, 0.0])
    assert {int(streams.choice(made, 0, weights)) for _ in range(300)} == {1, 4}
    assert {int(streams.choice(made, 0, np.array([0.0, 2.0]))) for _ in range(50)} == {1}
    assert int(streams.choice(made, 0, np.array([1e-9]))) == 0


def test_a_choice_is_where_the_sum_of_weights_passes_a_uniform_variate():
    weights = np.array([1.0, 0.0, 2.0, 0.5])
    drawn, made = make_streams([4]), make_streams([4])
    for _ in range(100):
        u = streams.uniform(made, 0)
        expected = int(np.searchsorted(np.cumsum(weights), u * weights.sum(), side="right"))
        assert streams.choice(drawn, 0, weights) == expected


def test_a_normal_variate_is_that_of_the_words_of_its_block():
    for made in many_places():
        words = philox(made.key[0], made.counter[0])
        assert streams.normal(made, 0) == maths.normal64(*map(np.uint32, words))
