"""log and log1p.

Both write their argument as 2**e (1 + f), with 1 + f from 3/4 to 3/2 in float32 and from 1/sqrt(2) to sqrt(2) in
float64, so that numbers near 1 have e = 0 and lose nothing. The polynomials are minimax ones, computed for this file.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.exponential import LN2
from sekai.kernels.maths.precision import DOUBLE, SINGLE, Precision, by_precision
from sekai.kernels.maths.primitives import bits, fma, polynomial

#: The lowest value of 1 + f.
START = {SINGLE: 0.75, DOUBLE: math.sqrt(0.5)}
#: Of (log(1 + f) - f) / f**2.
LOG1P_32 = SINGLE.numbers(
    -0.045239896,
    0.104778305,
    -0.13164482,
    0.14478123,
    -0.16647038,
    0.19990824,
    -0.25000137,
    0.33333462,
    -0.5,
)
#: Of (2 atanh(s) - 2 s) / s**3, in s**2.
ATANH_64 = (
    0.14796947891418294,
    0.1531399304319507,
    0.1818356492621379,
    0.22222198591674566,
    0.28571428741962257,
    0.3999999999941723,
    0.6666666666666734,
)
LN2_32 = np.float32(LN2[SINGLE][0])
LN2_HIGH_64, LN2_LOW_64 = LN2[DOUBLE]


@jit
def log_of_parts32(e: Any, f: Any) -> Any:
    """Return the logarithm of 2**e (1 + f), float32."""
    return fma(e, LN2_32, fma(f * f, polynomial(f, LOG1P_32), f))


@jit
def log_of_parts64(e: Any, f: Any) -> Any:
    """Return the logarithm of 2**e (1 + f), float64.

    With s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - (f**2 / 2 - s (f**2 / 2 + r)), where r is what the polynomial
    gives: the large term is exact.
    """
    s = f / (2.0 + f)
    square = s * s
    r = square * polynomial(square, ATANH_64)
    half = 0.5 * f * f
    return fma(e, LN2_HIGH_64, f - (half - fma(s, half + r, e * LN2_LOW_64)))


def parts_of(p: Precision) -> Any:
    """Make the function that takes a number apart.

    It gives e with its bias, an integer, and f. The number is positive and normal.
    """
    start = bits(p.number(START[p]))
    offset = start - (p.bias << p.digits)
    digits, of_bits, one = p.digits, p.of_bits, p.number(1.0)
    mantissa, field = (1 << digits) - 1, (1 << (p.width - digits)) - 1

    @jit
    def parts(x: Any) -> Any:
        i = bits(x) - offset
        return (i >> digits) & field, of_bits((i & mantissa) + start) - one

    return parts


def exponent_of(p: Precision) -> Any:
    """Make the function that gives an exponent of ``parts_of`` as a number, less a bias.

    The bits of 2**digits take it up as they are. To convert an int64 takes AVX-512.
    """
    carrier, of_bits = bits(p.number(2.0**p.digits)), p.of_bits

    @jit
    def exponent(field: Any, bias: Any) -> Any:
        return of_bits(field | carrier) - bias

    return exponent


def _log(p: Precision, log_of_parts: Any) -> Any:
    parts, exponent = parts_of(p), exponent_of(p)
    normal, lift = p.numbers(2.0 ** (1 - p.bias), 2.0**p.digits)
    bias, lifted_bias = p.numbers(2.0**p.digits + p.bias, 2.0**p.digits + p.bias + p.digits)
    zero, infinity, nan = p.numbers(0.0, math.inf, math.nan)

    @jit
    def log(x: Any) -> Any:
        denormal = x < normal
        field, f = parts(x * lift if denormal else x)
        result = log_of_parts(exponent(field, lifted_bias if denormal else bias), f)
        result = result if x < infinity else x
        return result if x > zero else (-infinity if x == zero else nan)

    return log


def _log1p(p: Precision, log_of_parts: Any) -> Any:
    parts, exponent = parts_of(p), exponent_of(p)
    bias = p.number(2.0**p.digits + p.bias)
    one, quarter, infinity, nan, tiny = p.numbers(1.0, 0.25, math.inf, math.nan, 2.0 ** -(p.digits + 3))
    digits, of_bits, turned_round = p.digits, p.of_bits, 2 * p.bias + 2

    @jit
    def log1p(x: Any) -> Any:
        field, _ = parts(one + x)
        # f = x / 2**e + (1 / 2**e - 1), rounded once. Four times the scale is never denormal.
        scale = of_bits((turned_round - field) << digits)
        f = fma(quarter * x, scale, fma(quarter, scale, -one))
        result = log_of_parts(exponent(field, bias), f)
        result = result if x < infinity else x
        result = result if x > -one else (-infinity if x == -one else nan)
        return x if abs(x) < tiny else result

    return log1p


@by_precision(_log(SINGLE, log_of_parts32), _log(DOUBLE, log_of_parts64))
def log(x: Any) -> Any:
    """Return the natural logarithm of x.

    Largest error 0.92 ulp in float32, 0.84 in float64, denormal arguments included. The logarithm of 0, of either
    sign, is -inf, of inf inf, of a negative number NaN; NaN stays NaN.

    Args:
        x: float32 or float64.
    """


@by_precision(_log1p(SINGLE, log_of_parts32), _log1p(DOUBLE, log_of_parts64))
def log1p(x: Any) -> Any:
    """Return the natural logarithm of 1 + x.

    Largest error 0.92 ulp in float32, 1.38 in float64. Close to 0 the result is x itself, the sign of a zero included;
    log1p(-1) is -inf, below that it is NaN; log1p(inf) is inf; NaN stays NaN.

    Args:
        x: float32 or float64.
    """
