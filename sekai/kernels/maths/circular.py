"""sin and cos together, of an angle in radians and of one in turns.

The angle is reduced to the nearest quarter turn and a rest of at most an eighth. The polynomials in the square of the
rest are minimax ones, computed for this file.
"""

from __future__ import annotations

import math
from typing import Any

from sekai.kernels.jit import jit
from sekai.kernels.maths.precision import DOUBLE, SINGLE, Precision, by_precision
from sekai.kernels.maths.primitives import bits, fma, nearest, polynomial

#: The largest angle in radians that is reduced with full accuracy.
LIMIT = {SINGLE: 2.0**17, DOUBLE: 2.0**40}
#: pi / 2 as the sum of three numbers (Cody and Waite 1980).
HALF_PI = {
    SINGLE: (float.fromhex("0x1.921fb6p0"), float.fromhex("-0x1.777a5cp-25"), float.fromhex("-0x1.ee59dap-50")),
    DOUBLE: (
        float.fromhex("0x1.921fb54442d18p0"),
        float.fromhex("0x1.1a62633145c07p-54"),
        float.fromhex("-0x1.f1976b7ed8fbcp-110"),
    ),
}
#: 2 pi as the sum of two. Both are positive: so sin keeps the sign of a zero.
TWO_PI = {
    SINGLE: (float.fromhex("0x1.921fb4p2"), float.fromhex("0x1.4442d2p-22")),
    DOUBLE: (float.fromhex("0x1.921fb54442d18p2"), float.fromhex("0x1.1a62633145c07p-52")),
}
#: Of (sin(r) - r) / r**3, in r**2.
SIN = {
    SINGLE: (-0.00019518286, 0.008332189, -0.16666655),
    DOUBLE: (
        1.5895433185284912e-10,
        -2.5050734387857487e-08,
        2.7557313538508207e-06,
        -0.0001984126982935852,
        0.00833333333332184,
        -0.1666666666666663,
    ),
}
#: Of (cos(r) - 1 + r**2 / 2) / r**4, in r**2.
COS = {
    SINGLE: (2.4432327e-05, -0.001388731, 0.041666646),
    DOUBLE: (
        -1.1358910692953161e-11,
        2.0875708524977504e-09,
        -2.755731423934004e-07,
        2.4801587289071136e-05,
        -0.001388888888887342,
        0.041666666666666595,
    ),
}
#: Of (sin(2 pi r) - 2 pi r) / r**3, in r**2.
SIN_TURNS = {
    SINGLE: (-75.42754, 81.59343, -41.34167),
    DOUBLE: (
        3.7811234752390046,
        -15.093818480875006,
        42.05868532690197,
        -76.70585970743134,
        81.60524927596379,
        -41.34170224039967,
    ),
}
#: Of cos(2 pi r), in r**2.
COS_TURNS = {
    SINGLE: (58.62106, -85.42452, 64.93915, -19.739208, 1.0),
    DOUBLE: (
        -1.68826578725452,
        7.902627659105713,
        -26.42624110309443,
        60.244641227008216,
        -85.45681720598861,
        64.93939402266668,
        -19.739208802178716,
        1.0,
    ),
}


def turned_by(p: Precision) -> Any:
    """Make the function that turns an angle, given by its sin and cos, by some quarters.

    The quarters are an integer of which the two lowest bits count.
    """
    to_sign, of_bits = p.width - 2, p.of_bits

    @jit
    def turned(sin: Any, cos: Any, quarters: Any) -> Any:
        new_sin, new_cos = (cos, sin) if quarters & 1 else (sin, cos)
        return (
            of_bits(bits(new_sin) ^ ((quarters & 2) << to_sign)),
            of_bits(bits(new_cos) ^ (((quarters + 1) & 2) << to_sign)),
        )

    return turned


def sin_cos_rest_of(p: Precision) -> Any:
    """Make the function that gives sin and cos of at most an eighth of a turn, in turns."""
    two_pi_high, two_pi_low = p.numbers(*TWO_PI[p])
    sin_coefficients, cos_coefficients = p.numbers(*SIN_TURNS[p]), p.numbers(*COS_TURNS[p])

    @jit
    def sin_cos_rest(r: Any) -> Any:
        square = r * r
        small = r * fma(square, polynomial(square, sin_coefficients), two_pi_low)
        return fma(r, two_pi_high, small), polynomial(square, cos_coefficients)

    return sin_cos_rest


def _sin_cos_turns(p: Precision) -> Any:
    turned, sin_cos_rest = turned_by(p), sin_cos_rest_of(p)
    rounder, four, quarter = p.numbers(p.rounder, 4.0, 0.25)
    sign_bit, of_bits = p.sign_bit, p.of_bits

    @jit
    def sin_cos_turns(x: Any) -> Any:
        size = abs(x)
        size -= nearest(size)
        rounded = fma(size, four, rounder)
        sin, cos = sin_cos_rest(fma(rounded - rounder, -quarter, size))
        sin, cos = turned(sin, cos, bits(rounded))
        return of_bits(bits(sin) ^ (bits(x) & sign_bit)), cos

    return sin_cos_turns


def _sin_cos(p: Precision) -> Any:
    turned = turned_by(p)
    first_part, second_part, third_part = p.numbers(*HALF_PI[p])
    limit, nan, quarters_per_radian, rounder = p.numbers(LIMIT[p], math.nan, 2.0 / math.pi, p.rounder)
    one_half, one = p.numbers(0.5, 1.0)
    sin_coefficients, cos_coefficients = p.numbers(*SIN[p]), p.numbers(*COS[p])

    @jit
    def sin_cos(x: Any) -> Any:
        y = x if abs(x) <= limit else nan
        rounded = fma(y, quarters_per_radian, rounder)
        quarters = rounded - rounder
        first = fma(quarters, -first_part, y)  # exact
        product = quarters * second_part
        r = first - product
        # What the product and the difference lost (Knuth's sum of two numbers), and the third part.
        back = r - first
        lost = (first - (r - back)) - (product + back) - fma(quarters, second_part, -product)
        low = fma(quarters, -third_part, lost)
        square = r * r
        sin = r + fma(r * square, polynomial(square, sin_coefficients), low)
        near = fma(-one_half, square, one)
        lost = fma(-one_half, square, one - near)
        cos = near + fma(square * square, polynomial(square, cos_coefficients), fma(-r, low, lost))
        sin, cos = turned(sin, cos, bits(rounded))
        return (sin if x else x), cos

    return sin_cos


@by_precision(_sin_cos_turns(SINGLE), _sin_cos_turns(DOUBLE))
def sin_cos_turns(x: Any) -> Any:
    """Return sin(2 pi x) and cos(2 pi x).

    Largest error 1.00 ulp in float32 (where sin is denormal; else 0.88), 0.90 in float64, for x of any size: whole
    turns are taken off exactly. Quarter turns give 0, 1 and -1 exactly; such a zero may have either sign, but sin(-0)
    is -0. Infinities and NaN give NaN.

    Args:
        x: The angle in turns, float32 or float64.

    Returns:
        The pair (sin, cos).
    """


@by_precision(_sin_cos(SINGLE), _sin_cos(DOUBLE))
def sin_cos(x: Any) -> Any:
    """Return sin(x) and cos(x).

    Largest error 0.88 ulp in float32, up to 2**17 = 131072 radians, and 0.86 in float64, up to 2**40 = 1.1e12. Beyond,
    the result is NaN rather than inexact, as it is for infinities and NaN: an angle that large should be kept in turns.
    sin(-0) is -0.

    Args:
        x: The angle in radians, float32 or float64.

    Returns:
        The pair (sin, cos).
    """
