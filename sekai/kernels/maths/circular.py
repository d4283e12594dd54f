"""sin and cos together, of an angle in radians and of one in turns.

The angle is reduced to the nearest multiple of a quarter turn and a rest r of at most an eighth of a turn. The
polynomials in r**2 are minimax ones, computed for this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.constants import NAN_32, singles
from sekai.kernels.maths.precision import by_precision
from sekai.kernels.maths.primitives import bits, float32_of_bits, float64_of_bits, fma, nearest, polynomial

#: Adding it rounds a small number to an integer, which is left in the low bits of the sum.
SHIFT_32, SHIFT_64 = np.float32(1.5 * 2**23), 1.5 * 2**52
HALF_32, ONE_32, FOUR_32, QUARTER_32 = singles(0.5, 1.0, 4.0, 0.25)

#: Beyond this, neighbouring numbers lie so far apart that the quarter turn is lost.
LIMIT_32, LIMIT_64 = np.float32(2.0**17), 2.0**40
TWO_OVER_PI_64 = 0.6366197723675814
TWO_OVER_PI_32 = np.float32(TWO_OVER_PI_64)
#: pi / 2 as the sum of three numbers (Cody and Waite 1980).
HALF_PI_32 = singles(float.fromhex("0x1.921fb6p0"), float.fromhex("-0x1.777a5cp-25"), float.fromhex("-0x1.ee59dap-50"))
HALF_PI_64 = (
    float.fromhex("0x1.921fb54442d18p0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)
#: 2 pi as the sum of two positive numbers: then sin keeps the sign of a zero.
TWO_PI_32 = singles(float.fromhex("0x1.921fb4p2"), float.fromhex("0x1.4442d2p-22"))
TWO_PI_64 = (float.fromhex("0x1.921fb54442d18p2"), float.fromhex("0x1.1a62633145c07p-52"))

#: Of (sin(r) - r) / r**3 and of cos(r), r in radians.
SIN_32 = singles(-0.00019518286, 0.008332189, -0.16666655)
COS_32 = singles(2.4432327e-05, -0.001388731, 0.041666646)
SIN_64 = (
    1.5895433185284912e-10,
    -2.5050734387857487e-08,
    2.7557313538508207e-06,
    -0.0001984126982935852,
    0.00833333333332184,
    -0.1666666666666663,
)
COS_64 = (
    -1.1358910692953161e-11,
    2.0875708524977504e-09,
    -2.755731423934004e-07,
    2.4801587289071136e-05,
    -0.001388888888887342,
    0.041666666666666595,
)
#: The same in turns, of (sin(2 pi r) - 2 pi r) / r**3 and of cos(2 pi r).
SIN_TURNS_32 = singles(-75.42754, 81.59343, -41.34167)
COS_TURNS_32 = singles(58.62106, -85.42452, 64.93915, -19.739208, 1.0)
SIN_TURNS_64 = (
    3.7811234752390046,
    -15.093818480875006,
    42.05868532690197,
    -76.70585970743134,
    81.60524927596379,
    -41.34170224039967,
)
COS_TURNS_64 = (
    -1.68826578725452,
    7.902627659105713,
    -26.42624110309443,
    60.244641227008216,
    -85.45681720598861,
    64.93939402266668,
    -19.739208802178716,
    1.0,
)


@jit
def turned32(sin: Any, cos: Any, quarters: Any) -> Any:
    """Return sin and cos of an angle that lies some quarter turns further: an integer, of which two bits count."""
    new_sin, new_cos = (cos, sin) if quarters & 1 else (sin, cos)
    return (
        float32_of_bits(bits(new_sin) ^ ((quarters & 2) << 30)),
        float32_of_bits(bits(new_cos) ^ (((quarters + 1) & 2) << 30)),
    )


@jit
def turned64(sin: Any, cos: Any, quarters: Any) -> Any:
    new_sin, new_cos = (cos, sin) if quarters & 1 else (sin, cos)
    return (
        float64_of_bits(bits(new_sin) ^ ((quarters & 2) << 62)),
        float64_of_bits(bits(new_cos) ^ (((quarters + 1) & 2) << 62)),
    )


@jit
def sin_cos_reduced32(r: Any) -> Any:
    """Return sin and cos of at most an eighth of a turn, in turns."""
    square = r * r
    rest = r * fma(square, polynomial(square, SIN_TURNS_32), TWO_PI_32[1])
    return fma(r, TWO_PI_32[0], rest), polynomial(square, COS_TURNS_32)


@jit
def sin_cos_reduced64(r: Any) -> Any:
    square = r * r
    rest = r * fma(square, polynomial(square, SIN_TURNS_64), TWO_PI_64[1])
    return fma(r, TWO_PI_64[0], rest), polynomial(square, COS_TURNS_64)


@jit
def _sin_cos_turns32(x: Any) -> Any:
    size = abs(x)
    size -= nearest(size)
    shifted = fma(size, FOUR_32, SHIFT_32)
    sin, cos = sin_cos_reduced32(fma(shifted - SHIFT_32, -QUARTER_32, size))
    sin, cos = turned32(sin, cos, bits(shifted))
    return float32_of_bits(bits(sin) ^ (bits(x) & 0x80000000)), cos


@jit
def _sin_cos_turns64(x: Any) -> Any:
    size = abs(x)
    size -= nearest(size)
    shifted = fma(size, 4.0, SHIFT_64)
    sin, cos = sin_cos_reduced64(fma(shifted - SHIFT_64, -0.25, size))
    sin, cos = turned64(sin, cos, bits(shifted))
    return float64_of_bits(bits(sin) ^ ((bits(x) >> 63) << 63)), cos


@by_precision(_sin_cos_turns32, _sin_cos_turns64)
def sin_cos_turns(x: Any) -> Any:
    """Return sin(2 pi x) and cos(2 pi x)."""


@jit
def _sin_cos32(x: Any) -> Any:
    y = x if abs(x) <= LIMIT_32 else NAN_32
    shifted = fma(y, TWO_OVER_PI_32, SHIFT_32)
    k = shifted - SHIFT_32
    first = fma(k, -HALF_PI_32[0], y)  # exact
    product = k * HALF_PI_32[1]
    r = first - product
    # What both roundings lost (Knuth's sum of two numbers), and the third part of pi / 2.
    back = r - first
    lost = (first - (r - back)) - (product + back) - fma(k, HALF_PI_32[1], -product)
    low = fma(k, -HALF_PI_32[2], lost)
    square = r * r
    sin = r + fma(r * square, polynomial(square, SIN_32), low)
    near = fma(-HALF_32, square, ONE_32)
    lost = fma(-HALF_32, square, ONE_32 - near)
    cos = near + fma(square * square, polynomial(square, COS_32), fma(-r, low, lost))
    sin, cos = turned32(sin, cos, bits(shifted))
    return (sin if x else x), cos


@jit
def _sin_cos64(x: Any) -> Any:
    y = x if abs(x) <= LIMIT_64 else np.nan
    shifted = fma(y, TWO_OVER_PI_64, SHIFT_64)
    k = shifted - SHIFT_64
    first = fma(k, -HALF_PI_64[0], y)
    product = k * HALF_PI_64[1]
    r = first - product
    # What both roundings lost (Knuth's sum of two numbers), and the third part of pi / 2.
    back = r - first
    lost = (first - (r - back)) - (product + back) - fma(k, HALF_PI_64[1], -product)
    low = fma(k, -HALF_PI_64[2], lost)
    square = r * r
    sin = r + fma(r * square, polynomial(square, SIN_64), low)
    near = fma(-0.5, square, 1.0)
    lost = fma(-0.5, square, 1.0 - near)
    cos = near + fma(square * square, polynomial(square, COS_64), fma(-r, low, lost))
    sin, cos = turned64(sin, cos, bits(shifted))
    return (sin if x else x), cos


@by_precision(_sin_cos32, _sin_cos64)
def sin_cos(x: Any) -> Any:
    """Return sin(x) and cos(x)."""
