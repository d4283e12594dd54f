"""Normal variates from random words, by the transform of Box and Muller (1958).

A word of 32 bits gives the radius sqrt(-2 log u), another the angle. The first word is read as a signed integer, a:
below one half u is a, above it u - 1 is a. So u has all its digits close to 0, in the tails, and 1 - u has all of its
close to 1, in the middle of the distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.circular import sin_cos_reduced32, sin_cos_reduced64, turned32, turned64
from sekai.kernels.maths.constants import LN2_HIGH_32, singles
from sekai.kernels.maths.logarithm import BIAS_64, MANTISSA_64, OFFSET_64, START_64, TWO_52_BITS, log_of_parts64
from sekai.kernels.maths.primitives import (
    bits,
    float32_of_bits,
    float32_of_int32,
    float64_of_bits,
    float64_of_int32,
    fma,
    polynomial,
    signed32,
)

ZERO_32, TWO_32, MINUS_TWO_LN2_32 = singles(0.0, 2.0, -2.0 * float(LN2_HIGH_32))
#: The low bits of the angle's word, in units of the radius' word, and half of one of them.
STEP_32, HALF_STEP_32 = singles(2.0**-8, 2.0**-9)
#: From a, in units of 2**-32, to -2 a; from the angle's word, shifted left by two, to turns.
MINUS_TWICE_32, TURNS_32 = singles(-(2.0**-31), 2.0**-34)
ONE_HALF_BITS_32, MANTISSA_32 = bits(np.float32(0.5)), (1 << 23) - 1
#: Of a number's exponent where the number is in units of 2**-32 and its mantissa in [1/2, 1).
BIAS_32 = np.float32(126 + 32)
#: Of (-2 log(1 - g / 2) - g) / g**2 for g in [0, 1]; minimax, computed for this file.
MINUS_TWO_LOG_32 = singles(
    0.0055245785,
    -0.012805091,
    0.018878898,
    -0.0056481496,
    0.016477296,
    0.030461287,
    0.083407894,
    0.24999762,
)
WORD_64, UNIT_64, TURNS_64 = 2.0**32, 2.0**-64, 2.0**-66
TWO_52, TWO_52_LESS_HALF = 2.0**52, 2.0**52 - 0.5


@jit
def normal_pair(word_a: Any, word_b: Any) -> Any:
    """Return two independent standard normal variates, float32, from two random words."""
    word_a, word_b = np.int64(word_a), np.int64(word_b)
    a = float32_of_int32(word_a) + fma(float32_of_int32(word_b & 0xFF), STEP_32, HALF_STEP_32)
    # u = 2**e (1 - g / 2), with e = 0 if a is u - 1
    i = bits(a)
    e = ZERO_32 if a < ZERO_32 else float32_of_int32(i >> 23) - BIAS_32
    mantissa = float32_of_bits((i & MANTISSA_32) | ONE_HALF_BITS_32)
    g = a * MINUS_TWICE_32 if a < ZERO_32 else fma(mantissa, -TWO_32, TWO_32)
    radius = np.sqrt(fma(e, MINUS_TWO_LN2_32, fma(g * g, polynomial(g, MINUS_TWO_LOG_32), g)))
    # Without its two highest bits the angle's word is the signed distance to the nearest quarter turn.
    sin, cos = sin_cos_reduced32(float32_of_int32((word_b & 0xFFFFFF00) << 2) * TURNS_32)
    sin, cos = turned32(sin, cos, signed32(word_b + (1 << 29)) >> 30)
    return radius * cos, radius * sin


@jit
def normal(word_a: Any, word_b: Any) -> Any:
    """Return a standard normal variate, float32, from two random words: the first of ``normal_pair``."""
    return normal_pair(word_a, word_b)[0]


@jit
def normal_pair64(word_a: Any, word_b: Any, word_c: Any, word_d: Any) -> Any:
    """Return two independent standard normal variates, float64, from four random words."""
    word_a, word_b, word_c, word_d = np.int64(word_a), np.int64(word_b), np.int64(word_c), np.int64(word_d)
    low = float64_of_bits((word_b & 0xFFFFFFFF) | TWO_52_BITS) - TWO_52_LESS_HALF
    a = fma(float64_of_int32(word_a), WORD_64, low) * UNIT_64
    i = bits(1.0 + a if a < 0.0 else a) - OFFSET_64
    e = float64_of_bits(((i >> 52) & 0xFFF) | TWO_52_BITS) - BIAS_64
    f = a if e == 0.0 else float64_of_bits((i & MANTISSA_64) + START_64) - 1.0
    radius = np.sqrt(-2.0 * log_of_parts64(e, f))
    high = float64_of_int32((word_c << 2) | ((word_d >> 30) & 3))
    low = float64_of_bits(((word_d << 2) & 0xFFFFE000) | TWO_52_BITS) - TWO_52
    sin, cos = sin_cos_reduced64(fma(high, WORD_64, low) * TURNS_64)
    sin, cos = turned64(sin, cos, signed32(word_c + (1 << 29)) >> 30)
    return radius * cos, radius * sin


@jit
def normal64(word_a: Any, word_b: Any, word_c: Any, word_d: Any) -> Any:
    """Return a standard normal variate, float64, from four random words: the first of ``normal_pair64``."""
    return normal_pair64(word_a, word_b, word_c, word_d)[0]
