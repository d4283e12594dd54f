"""Functions of kernels: how exact they are, what they give at the edges, and that LLVM vectorises them."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import subprocess
import sys
from fractions import Fraction

import numba
import numpy as np
import pytest

from sekai.kernels import jit, maths

COMPILED = not numba.config.DISABLE_JIT
#: 64 bits of mantissa on x86; elsewhere it may be float64 itself, and as inexact.
LONG = np.longdouble
SLACK = 0.0 if np.finfo(LONG).nmant > 60 else 1.0
TWO_PI = LONG("6.283185307179586476925286766559005768")

PAIRS = ("sin_cos", "sin_cos_turns")
REFERENCES = {"exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh}
#: The largest argument of which the stated error holds.
DOMAIN = {("sin_cos", np.float32): 2.0**17, ("sin_cos", np.float64): 2.0**40}
NAMES = [*REFERENCES, *PAIRS, "normal_cdf"]


@pytest.fixture(scope="module", autouse=True)
def freshly_compiled():
    """What comes from a cache on disk has no assembly to look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEKAI_CACHE", "0")
        yield


def counts(full, in_plain_python=300):
    """Of a sample: what finds a coarse fault, and all of it; less where nothing is compiled."""
    whole = pytest.param(full, marks=[pytest.mark.slow, pytest.mark.compiled])
    return pytest.mark.parametrize("count", [full // 10 if COMPILED else in_plain_python, whole])


@functools.cache
def loop_of(name):
    """A loop over columns: as many out as the function gives values."""
    function = getattr(maths, name)

    @jit
    def one(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    @jit
    def two(x, out, other):
        for i in range(len(x)):
            out[i], other[i] = function(x[i])

    return two if name in PAIRS else one


def evaluate(name, x):
    """The function's values, in a list of columns."""
    columns = [np.empty_like(x) for _ in range(2 if name in PAIRS else 1)]
    loop_of(name)(x, *columns)
    return columns


def expected(name, x):
    """The exact values, in a list of columns of more digits."""
    number = np.float64 if x.dtype == np.float32 else LONG
    with np.errstate(all="ignore"):
        x = x.astype(number)
        if name == "sin_cos":
            return [np.sin(x), np.cos(x)]
        if name == "sin_cos_turns":
            rest = x - np.rint(x)
            quarters = np.rint(4 * rest)
            angle = number(TWO_PI) * (rest - quarters / 4)
            sin, cos, which = np.sin(angle), np.cos(angle), np.nan_to_num(quarters).astype(int) % 4
            return [np.choose(which, [sin, cos, -sin, -cos]), np.choose(which, [cos, -sin, -cos, sin])]
        return [REFERENCES[name](x)]


def stated(name, number):
    """The largest error that the function's docstring admits, in ulp."""
    errors = re.search(
        r"Largest error ([\d.]+\d) ulp in float32.*?([\d.]+\d) in float64", getattr(maths, name).__doc__, re.S
    )
    return float(errors[1 if number == np.float32 else 2]) + SLACK


def ulps(value, exact):
    """How far values lie from the exact ones, in units of the last place of these."""
    digits = np.finfo(value.dtype).nmant + 1
    lowest = np.finfo(value.dtype).minexp - digits + 1
    unit = np.ldexp(exact.dtype.type(1), np.maximum(np.frexp(exact)[1] - digits, lowest))
    return np.abs(value - exact) / unit


def sample(number, count):
    """Numbers of every size and sign, evenly over their bits, and all that are special."""
    integer = np.uint32 if number == np.float32 else np.uint64
    rng = np.random.default_rng(3)
    every = rng.integers(0, np.iinfo(integer).max, count, dtype=integer, endpoint=True).view(number)
    spread = np.concatenate([rng.uniform(-edge, edge, count // 4) for edge in (0.5, 2, 40, 800)]).astype(number)
    limits = np.finfo(number)
    powers = np.ldexp(number(1), np.arange(limits.minexp - limits.nmant, limits.maxexp)[:: 1 if COMPILED else 9])
    special = np.array([0, 1, 0.5, 0.75, 1.5, math.pi, math.e, 104, 89, 745, 709.78, limits.max, limits.tiny], number)
    with np.errstate(over="ignore"):
        beside = np.concatenate([np.nextafter(special, number(end)) for end in (math.inf, -math.inf)])
    positive = np.concatenate([powers, special, beside, WORST.astype(number)])
    return np.concatenate([every, spread, positive, -positive])


#: Where the exhaustive measurement found the largest errors.
WORST = np.array(
    [-5.8577476, 38.442913, 0.62848556, 17.126041, 0.39647412, -0.36928913, -0.55693716, 3.8711214, 68462.375]
)


@pytest.mark.parametrize("number", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*REFERENCES, *PAIRS])
@counts(400_000, in_plain_python=700)
def test_errors_stay_below_what_is_stated(name, number, count):
    x = sample(number, count)
    x = x[~(np.abs(x) > DOMAIN.get((name, number), np.inf))]
    for value, exact in zip(evaluate(name, x), expected(name, x), strict=True):
        with np.errstate(all="ignore"):
            rounded = exact.astype(number)
            assert np.array_equal(np.isnan(value), np.isnan(rounded))
            ordinary = np.isfinite(rounded) & np.isfinite(value) & (rounded != 0)
            error = ulps(value[ordinary], exact[ordinary])
            # What rounds to 0 or to infinity, or should, is right or one step beside it.
            rest = ~ordinary & ~np.isnan(value)
            assert np.all((value == rounded)[rest] | (np.nextafter(value, rounded) == rounded)[rest])
        worst = error.argmax()
        assert error[worst] <= stated(name, number), (x[ordinary][worst], value[ordinary][worst])


@pytest.mark.parametrize("number", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name, x, value",
    [
        ("exp", 0.0, 1.0),
        ("exp", -0.0, 1.0),
        ("exp", math.inf, math.inf),
        ("exp", -math.inf, 0.0),
        ("exp", 1000.0, math.inf),
        ("exp", -1000.0, 0.0),
        ("expm1", 0.0, 0.0),
        ("expm1", -0.0, -0.0),
        ("expm1", math.inf, math.inf),
        ("expm1", -math.inf, -1.0),
        ("expm1", 1000.0, math.inf),
        ("expm1", -1000.0, -1.0),
        ("log", 1.0, 0.0),
        ("log", 0.0, -math.inf),
        ("log", -0.0, -math.inf),
        ("log", math.inf, math.inf),
        ("log", -math.inf, math.nan),
        ("log", -1.0, math.nan),
        ("log", -1e-40, math.nan),
        ("log1p", 0.0, 0.0),
        ("log1p", -0.0, -0.0),
        ("log1p", -1.0, -math.inf),
        ("log1p", -1.5, math.nan),
        ("log1p", math.inf, math.inf),
        ("log1p", -math.inf, math.nan),
        ("tanh", 0.0, 0.0),
        ("tanh", -0.0, -0.0),
        ("tanh", math.inf, 1.0),
        ("tanh", -math.inf, -1.0),
        ("tanh", 1e30, 1.0),
        ("sin_cos", 0.0, (0.0, 1.0)),
        ("sin_cos", -0.0, (-0.0, 1.0)),
        ("sin_cos", math.inf, (math.nan, math.nan)),
        ("sin_cos", -math.inf, (math.nan, math.nan)),
        ("sin_cos", 2.0**41, (math.nan, math.nan)),
        ("sin_cos_turns", 0.0, (0.0, 1.0)),
        ("sin_cos_turns", -0.0, (-0.0, 1.0)),
        ("sin_cos_turns", math.inf, (math.nan, math.nan)),
        ("normal_cdf", 0.0, 0.5),
        ("normal_cdf", math.inf, 1.0),
        ("normal_cdf", -math.inf, 0.0),
        *((name, math.nan, (math.nan, math.nan) if name in PAIRS else math.nan) for name in NAMES),
    ],
)
def test_at_the_edges_they_give_what_ieee_says(name, number, x, value):
    got = [float(column[0]) for column in evaluate(name, np.array([x], number))]
    want = list(value) if name in PAIRS else [value]
    assert list(map(repr, got)) == list(map(repr, want))  # the sign of a zero included


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_denormals_are_numbers_like_others(number):
    smallest, tiny = np.finfo(number).smallest_subnormal, np.finfo(number).tiny
    x = np.array([smallest, 3 * smallest, tiny / 2], number)
    for name in ("expm1", "log1p", "tanh"):
        assert np.array_equal(evaluate(name, x)[0], x)
    assert np.allclose(evaluate("log", x)[0], np.log(x.astype(LONG)).astype(number), rtol=1e-6)
    logs = np.log(LONG(tiny) * np.array([0.5, 0.01, 1e-4])).astype(number)
    got = evaluate("exp", logs)[0]
    assert np.all((got > 0) & (got < tiny)) and np.all(ulps(got, np.exp(logs.astype(LONG))) <= 1.0)


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_whole_turns_are_exact(number):
    x = np.array([1, 0.25, 0.5, 0.75, -0.25, 1e6 + 0.25, 2.0**60], number)
    sin, cos = evaluate("sin_cos_turns", x)
    assert sin.tolist() == [0, 1, 0, -1, -1, 1, 0]
    assert cos.tolist() == [1, 0, -1, 0, 0, 0, 1]


#: Of the normal distribution function, by mpmath with 40 digits.
CDF = [
    (-38.0, "2.8854283600687843083509705e-316"),
    (-37.0, "5.7255712225245768226831925e-300"),
    (-30.5, "1.3029379131780763509227549e-204"),
    (-20.25, "1.7761998649495700308710397e-91"),
    (-14.0, "7.7935368191928002543596818e-45"),
    (-10.125, "2.1398936737196289872073216e-24"),
    (-5.5, "1.8989562465887719383851274e-8"),
    (-3.0, "1.3498980316300945266518148e-3"),
    (-2.421875, "7.7203303777314831097425435e-3"),
    (-1.875, "3.0396361765261375050602791e-2"),
    (-1.1875, "1.1751522829321414915027437e-1"),
    (-0.78125, "2.1732773567808563268902761e-1"),
    (-0.75, "2.2662735237686819932706217e-1"),
    (-0.6875, "2.4588385038026145382848109e-1"),
    (-0.3125, "3.7733028152984291316678181e-1"),
    (-0.0009765625, "4.9961040799121945899322425e-1"),
    (0.5, "6.9146246127401310363770461e-1"),
    (0.71875, "7.6385251502714555776680055e-1"),
    (1.1875, "8.8248477170678585084972563e-1"),
    (3.0, "9.9865010196836990547334819e-1"),
    (8.0, "9.9999999999999937790394257e-1"),
]


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_the_normal_distribution_function_is_as_exact_as_stated(number):
    x = np.array([row[0] for row in CDF], number)
    exact = np.array([LONG(row[1]) for row in CDF])
    keep = exact > np.finfo(number).tiny
    assert np.all(ulps(evaluate("normal_cdf", x)[0][keep], exact[keep]) <= stated("normal_cdf", number))


@counts(200_000)
def test_the_normal_distribution_function_in_float32_against_erfc(count):
    x = np.append(np.linspace(-14, 6, count + 1), -1.1554205).astype(np.float32)
    exact = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(float)])
    assert np.max(ulps(evaluate("normal_cdf", x)[0], exact)) <= stated("normal_cdf", np.float32)


@pytest.mark.parametrize("number", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_the_same_bits_wherever_it_stands(name, number):
    x = np.random.default_rng(8).normal(0.5, 3, 67).astype(number)
    for whole, *rows in zip(evaluate(name, x), *(evaluate(name, x[i : i + 1]) for i in range(len(x))), strict=True):
        assert whole.tobytes() == np.concatenate(rows).tobytes()


def digest():
    """Of values of everything, as this process computes them."""
    rng = np.random.default_rng(4)
    seen = hashlib.sha256()
    for number in (np.float32, np.float64):
        x = np.concatenate([rng.normal(0.5, 3, 40), [0.0, -0.0, 1e-40, 100.0, -100.0, np.inf]]).astype(number)
        for name in NAMES:
            for column in evaluate(name, x):
                column[np.isnan(column)] = np.nan  # whose bits say nothing
                seen.update(column.tobytes())
    for words in rng.integers(0, 2**32, (20, 4), dtype=np.uint32):
        seen.update(np.array(maths.normal_pair(*words[:2]), np.float32).tobytes())
        seen.update(np.array(maths.normal_pair64(*words), np.float64).tobytes())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bits():
    environ = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.path.dirname(__file__)}
    command = [sys.executable, "-W", "error", "-c", "import test_maths; print(test_maths.digest())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.stdout.strip() == digest(), done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_called_from_python_they_keep_the_type(name):
    function = getattr(maths, name)
    for x, number in ((np.float32(0.3), np.float32), (np.float64(0.3), np.float64), (0.3, np.float64), (1, np.float64)):
        value = function(x)
        assert {type(each) for each in (value if name in PAIRS else (value,))} == {number}
    assert function.__name__ == name and function.__doc__


def test_in_a_kernel_they_are_attributes_of_the_module():
    @jit
    def total(x):
        sin, cos = maths.sin_cos(x)
        return maths.fma(sin, sin, cos * cos) + maths.log(maths.exp(x)) + maths.exp(0)

    assert total(0.5) == pytest.approx(2.5, rel=1e-15)


# -- fused multiply-add ------------------------------------------------------------------------------------


@jit
def fused(a, b, c):
    return maths.fma(a, b, c)


def nearest_double(exact):
    """The float nearest to a fraction, infinite beyond the largest."""
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def test_fma_rounds_once():
    rng = np.random.default_rng(11)
    for a, b, c in rng.normal(size=(200, 3)) * 2.0 ** rng.integers(-40, 40, (200, 3)):
        want = nearest_double(Fraction(a) * Fraction(b) + Fraction(c))
        assert fused(a, b, c) == want == maths.fma(a, b, c)
        assert fused(a, b, -(a * b)) == maths.fma(a, b, -(a * b)) == float(Fraction(a) * Fraction(b) - Fraction(a * b))


def test_fma_of_float32_rounds_once():
    # In float64 the sum would round to halfway between two float32, and then to the wrong one.
    one, small = np.float32(1 + 2.0**-12), np.float32(2.0**-60)
    assert maths.fma(one, one, small) == np.float32(1 + 2.0**-11 + 2.0**-23) == fused(one, one, small)
    assert maths.fma(one, one, -small) == np.float32(1 + 2.0**-11) == fused(one, one, -small)
    rng = np.random.default_rng(12)
    for a, b, c in (rng.normal(size=(200, 3)) * 2.0 ** rng.integers(-9, 9, (200, 3))).astype(np.float32):
        assert maths.fma(a, b, c) == np.float32(fused(a, b, c))
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert (
            abs(Fraction(float(maths.fma(a, b, c))) - exact) <= Fraction(float(np.spacing(abs(np.float32(exact))))) / 2
        )


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_fma_at_the_edges(number):
    largest, smallest = np.finfo(number).max, np.finfo(number).smallest_subnormal
    cases = [
        (largest, number(2), number(0)),
        (largest, number(2), -largest),
        (largest, -largest, number(math.inf)),
        (smallest, number(0.5), number(0)),
        (-smallest, smallest, number(0)),
        (number(-0.0), number(1), number(-0.0)),
        (number(1), number(1), number(-1)),
        (number(math.inf), number(0), number(1)),
        (number(1), number(math.nan), number(1)),
    ]
    want = ["inf", repr(float(largest)), "inf", "0.0", "-0.0", "-0.0", "0.0", "nan", "nan"]
    assert [repr(float(maths.fma(*case))) for case in cases] == want
    assert [repr(float(number(fused(*case)))) for case in cases] == want


def test_fma_of_mixed_types_is_float64():
    third = np.float32(1 / 3)
    want = float(Fraction(float(third)) * 3 - 1)
    assert maths.fma(third, 3, -1.0) == want == fused(third, 3, -1.0)
    assert type(maths.fma(third, third, third)) is np.float32


# -- normal variates ---------------------------------------------------------------------------------------


@jit
def draw(a, b, first, second):
    for i in range(len(a)):
        first[i], second[i] = maths.normal_pair(a[i], b[i])


@jit
def draw_one(a, b, first):
    for i in range(len(a)):
        first[i] = maths.normal(a[i], b[i])


@jit
def draw64(a, b, c, d, first, second):
    for i in range(len(a)):
        first[i], second[i] = maths.normal_pair64(a[i], b[i], c[i], d[i])


@jit
def draw_one64(a, b, c, d, first):
    for i in range(len(a)):
        first[i] = maths.normal64(a[i], b[i], c[i], d[i])


def words(count, columns):
    """Random words, those of the ends of the range among them."""
    rng = np.random.default_rng(21)
    drawn = rng.integers(0, 2**32, (columns, count), dtype=np.uint32)
    drawn[0, : count // 4] >>= rng.integers(0, 32, count // 4, dtype=np.uint32)  # the tails
    drawn[0, count // 4 : count // 2] |= ~(np.uint32(2**32 - 1) >> rng.integers(0, 32, count // 4, dtype=np.uint32))
    ends = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    drawn[:, : len(ends)] = ends
    return drawn


def minus_two_log(high, bits):
    """Of (high + 1/2) / 2**bits for an array of Python integers."""
    whole = 1 << bits
    low = np.array([LONG(2 * int(v) + 1) for v in high]) / LONG(2 * whole)
    rest = np.array([LONG(2 * (whole - int(v)) - 1) for v in high]) / LONG(2 * whole)
    with np.errstate(divide="ignore"):
        return -2 * np.where(low < 0.5, np.log(low), np.log1p(-rest))


def box_muller(radius_bits, bits, angle, angle_bits):
    radius = np.sqrt(minus_two_log(radius_bits, bits))
    sin, cos = expected("sin_cos_turns", np.ldexp(angle.astype(np.float64), -angle_bits))
    return radius * cos, radius * sin


@counts(40_000)
def test_normal_variates_are_the_exact_transform(count):
    a, b = words(count, 2)
    got = np.empty((2, len(a)), np.float32)
    draw(a, b, *got)
    exact = box_muller(a.astype(object) * 256 + (b & 0xFF).astype(object), 40, b >> 8, 24)
    for value, want in zip(got, exact, strict=True):
        nonzero = want != 0
        assert np.max(ulps(value[nonzero], want[nonzero])) <= 3.2
        assert np.all(value[~nonzero] == 0)
    alone = np.empty_like(got[0])
    draw_one(a, b, alone)
    assert alone.tobytes() == got[0].tobytes()


@counts(40_000)
def test_normal_variates_in_float64_are_the_exact_transform(count):
    a, b, c, d = words(count, 4)
    got = np.empty((2, len(a)))
    draw64(a, b, c, d, *got)
    angle = (c.astype(np.int64) << 21) | (d.astype(np.int64) >> 11)
    exact = box_muller(a.astype(object) * 2**32 + b.astype(object), 64, angle, 53)
    for value, want in zip(got, exact, strict=True):
        nonzero = want != 0
        assert np.max(ulps(value[nonzero], want[nonzero])) <= 4.0 + 4 * SLACK
        assert np.all(value[~nonzero] == 0)
    alone = np.empty_like(got[0])
    draw_one64(a, b, c, d, alone)
    assert alone.tobytes() == got[0].tobytes()


def test_normal_variates_reach_far():
    assert maths.normal(0, 0) == pytest.approx(math.sqrt(82 * math.log(2)), rel=1e-6)  # 7.54
    assert maths.normal_pair(0, 1 << 30)[1] > 7.5 and maths.normal(0, 1 << 31) < -7.5
    assert 0 < maths.normal(2**32 - 1, 0xFF) < 1e-5
    assert maths.normal64(0, 0, 0, 0) == pytest.approx(math.sqrt(130 * math.log(2)), rel=1e-14)  # 9.49
    assert 0 < maths.normal64(2**32 - 1, 2**32 - 1, 0, 0) < 1e-9


def test_normal_variates_take_words_of_any_integer_type():
    a, b = 123456789, 0xFEDCBA98
    for number in (int, np.uint32, np.int64, np.uint64):
        assert maths.normal_pair(number(a), number(b)) == maths.normal_pair(a, b)


def test_the_low_bits_of_the_second_word_change_the_radius_and_the_others_the_angle():
    base = np.array(maths.normal_pair(5, 0x12345600), float)
    other = np.array(maths.normal_pair(5, 0x123456FF), float)
    assert math.atan2(*other) == pytest.approx(math.atan2(*base), rel=1e-6)
    assert math.hypot(*other) < math.hypot(*base) * 0.999
    turned = np.array(maths.normal_pair(5, 0x92345600), float)
    assert turned == pytest.approx(-base, rel=1e-6)


@pytest.mark.compiled
@counts(1_000_000)
def test_normal_variates_are_standard_normal(count):
    a, b = np.random.default_rng(31).integers(0, 2**32, (2, count), dtype=np.uint32)
    z = np.empty((2, count), np.float32)
    draw(a, b, *z)
    z = z.astype(float)
    for power, mean, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert np.mean(z**power) == pytest.approx(mean, abs=4 * math.sqrt(spread / (2 * count)))
    assert abs(np.mean(z[0] * z[1])) < 4 / math.sqrt(count)
    assert abs(np.mean(z[0] ** 2 * z[1] ** 2) - 1) < 4 * math.sqrt(8 / count)
    for x in (-3.0, -1.0, 0.0, 0.5, 2.0, 4.0):
        share = float(maths.normal_cdf(x))
        assert np.mean(z < x) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / (2 * count)))


# -- the assembly ------------------------------------------------------------------------------------------

PACKED = {
    np.float32: r"\bv?f?n?m(?:ul|add|sub)\w*ps\b.*%[xyz]mm|\bf?ml\w*\s+v\d+\.4s",
    np.float64: r"\bv?f?n?m(?:ul|add|sub)\w*pd\b.*%[xyz]mm|\bf?ml\w*\s+v\d+\.2d",
}
#: The names of libm, of numba's wrappers and of Intel's vector library.
CALL = re.compile(
    r"\b(?:__svml_|numba_|__)?(?:exp|expm1|exp2|log|log1p|log2|sin|cos|sincos|tanh|erf|erfc|rint|fma)f?\d*\b"
)


def scalar_calls(assembly):
    """Functions of single numbers that the assembly calls, or loads the address of."""
    called = re.findall(r"(?:call\w*|movabs\w*|jmp\w*|bl|adrp|ldr)\s+(.*)", assembly)
    return sorted({name for operand in called for name in CALL.findall(operand)})


def assembly_of(loop, *columns):
    loop(*columns)
    return loop.inspect_asm(tuple(numba.typeof(column) for column in columns))


if COMPILED:

    @pytest.mark.parametrize("number", [np.float32, np.float64])
    @pytest.mark.parametrize("name", NAMES)
    def test_a_loop_is_vectorised(name, number):
        columns = [np.full(5, 0.25, number) for _ in range(3 if name in PAIRS else 2)]
        assembly = assembly_of(loop_of(name), *columns)
        assert re.search(PACKED[number], assembly)
        assert scalar_calls(assembly) == []
        if number == np.float32:
            assert not re.search(r"\bv?cvt[ps]s2[ps]d|\bfcvtl", assembly), "float64 arithmetic in a float32 function"

    @pytest.mark.parametrize("draws, columns, number", [(draw, 2, np.float32), (draw64, 4, np.float64)])
    def test_a_loop_of_normal_variates_is_vectorised(draws, columns, number):
        arrays = [*np.ones((columns, 5), np.uint32), *np.zeros((2, 5), number)]
        assembly = assembly_of(draws, *arrays)
        assert re.search(PACKED[number], assembly)
        assert scalar_calls(assembly) == []

    def test_a_loop_over_many_of_them_still_is():
        @jit
        def many(x, out):
            for i in range(len(x)):
                sin, cos = maths.sin_cos(x[i])
                sin, cos = maths.sin_cos(sin * cos)
                out[i] = maths.normal_cdf(sin) + maths.normal_cdf(cos) + maths.log(maths.exp(sin) + maths.expm1(cos))

        assembly = assembly_of(many, np.ones(5, np.float32), np.ones(5, np.float32))
        assert re.search(PACKED[np.float32], assembly) and scalar_calls(assembly) == []

    def test_a_call_of_libm_would_be_seen():
        @jit
        def loop(x, out):
            for i in range(len(x)):
                out[i] = math.exp(x[i]) + math.log1p(x[i])

        assembly = assembly_of(loop, np.ones(5), np.ones(5))
        assert scalar_calls(assembly) and not re.search(PACKED[np.float64], assembly)
