"""log and log1p.

Both write their argument as 2**e (1 + f) with 1 + f in [3/4, 3/2), in float64 in [1/sqrt(2), sqrt(2)), so that
numbers near 1 have e = 0 and lose nothing. The polynomials are minimax ones, computed for this file.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.constants import (
    INFINITY_32,
    LN2_HIGH_32,
    LN2_HIGH_64,
    LN2_LOW_64,
    NAN_32,
    TINY_32,
    TINY_64,
    singles,
)
from sekai.kernels.maths.precision import by_precision
from sekai.kernels.maths.primitives import (
    bits,
    float32_of_bits,
    float32_of_int32,
    float64_of_bits,
    fma,
    polynomial,
)

ZERO_32, ONE_32, QUARTER_32 = singles(0.0, 1.0, 0.25)
NORMAL_32, NORMAL_64 = np.float32(2.0**-126), 2.0**-1022
#: Makes a denormal normal.
LIFT_32, LIFT_64 = np.float32(2.0**23), 2.0**54
BIAS_32, LIFTED_BIAS_32 = singles(127, 127 + 23)
MANTISSA_32, MANTISSA_64 = (1 << 23) - 1, (1 << 52) - 1
#: Where 1 + f starts, and what to subtract from the bits of a number so that its exponent field is e plus the bias.
START_32, START_64 = bits(np.float32(0.75)), bits(np.float64(math.sqrt(0.5)))
OFFSET_32, OFFSET_64 = START_32 - (127 << 23), START_64 - (1023 << 52)
#: The bits of 2**52, whose low bits a smaller integer can be put into: AVX2 cannot convert an int64.
TWO_52_BITS = bits(np.float64(2.0**52))
BIAS_64, LIFTED_BIAS_64 = 2.0**52 + 1023, 2.0**52 + 1023 + 54

#: Of (log(1 + f) - f) / f**2.
LOG1P_32 = singles(
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


@jit
def log_of_parts32(e: Any, f: Any) -> Any:
    """Return the logarithm of 2**e (1 + f)."""
    return fma(e, LN2_HIGH_32, fma(f * f, polynomial(f, LOG1P_32), f))


@jit
def log_of_parts64(e: Any, f: Any) -> Any:
    """Return the logarithm of 2**e (1 + f): log(1 + f) = 2 atanh(s) = f - (f**2 / 2 - s (f**2 / 2 + r))."""
    s = f / (2.0 + f)
    square = s * s
    r = square * polynomial(square, ATANH_64)
    half = 0.5 * f * f
    return fma(e, LN2_HIGH_64, f - (half - fma(s, half + r, e * LN2_LOW_64)))


@jit
def _log32(x: Any) -> Any:
    denormal = x < NORMAL_32
    i = bits(x * LIFT_32 if denormal else x) - OFFSET_32
    e = float32_of_int32((i >> 23) & 0x1FF) - (LIFTED_BIAS_32 if denormal else BIAS_32)
    f = float32_of_bits((i & MANTISSA_32) + START_32) - ONE_32
    result = log_of_parts32(e, f)
    result = result if x < INFINITY_32 else x
    return result if x > ZERO_32 else (-INFINITY_32 if x == ZERO_32 else NAN_32)


@jit
def _log64(x: Any) -> Any:
    denormal = x < NORMAL_64
    i = bits(x * LIFT_64 if denormal else x) - OFFSET_64
    e = float64_of_bits(((i >> 52) & 0xFFF) | TWO_52_BITS) - (LIFTED_BIAS_64 if denormal else BIAS_64)
    f = float64_of_bits((i & MANTISSA_64) + START_64) - 1.0
    result = log_of_parts64(e, f)
    result = result if x < np.inf else x
    return result if x > 0.0 else (-np.inf if x == 0.0 else np.nan)


@by_precision(_log32, _log64)
def log(x: Any) -> Any:
    """Return the natural logarithm of x."""


@jit
def _log1p32(x: Any) -> Any:
    i = bits(ONE_32 + x) - OFFSET_32
    exponent = (i >> 23) & 0x1FF
    # f = x / 2**e + (1 / 2**e - 1), rounded once. Four times the scale is never denormal.
    scale = float32_of_bits((256 - exponent) << 23)
    f = fma(QUARTER_32 * x, scale, fma(QUARTER_32, scale, -ONE_32))
    result = log_of_parts32(float32_of_int32(exponent) - BIAS_32, f)
    result = result if x < INFINITY_32 else x
    result = result if x > -ONE_32 else (-INFINITY_32 if x == -ONE_32 else NAN_32)
    return x if abs(x) < TINY_32 else result


@jit
def _log1p64(x: Any) -> Any:
    i = bits(1.0 + x) - OFFSET_64
    exponent = (i >> 52) & 0xFFF
    scale = float64_of_bits((2048 - exponent) << 52)
    f = fma(0.25 * x, scale, fma(0.25, scale, -1.0))
    result = log_of_parts64(float64_of_bits(exponent | TWO_52_BITS) - BIAS_64, f)
    result = result if x < np.inf else x
    result = result if x > -1.0 else (-np.inf if x == -1.0 else np.nan)
    return x if abs(x) < TINY_64 else result


@by_precision(_log1p32, _log1p64)
def log1p(x: Any) -> Any:
    """Return the natural logarithm of 1 + x."""
