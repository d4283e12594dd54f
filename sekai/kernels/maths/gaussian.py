"""Normal variates from random words, by the transform of Box and Muller (1958).

A word of 32 bits gives the radius sqrt(-2 log u), another the angle. The first word is read as a signed integer, a:
below one half u is a, above it u - 1 is a. So u has all its digits close to 0, in the tails, and 1 - u has all of its
close to 1, in the middle of the distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.circular import sin_cos_rest_of, turned_by
from sekai.kernels.maths.exponential import LN2
from sekai.kernels.maths.logarithm import exponent_of, log_of_parts64, parts_of
from sekai.kernels.maths.precision import DOUBLE, SINGLE
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

sin_cos_rest32, sin_cos_rest64 = sin_cos_rest_of(SINGLE), sin_cos_rest_of(DOUBLE)
turned32, turned64 = turned_by(SINGLE), turned_by(DOUBLE)
parts64, exponent64 = parts_of(DOUBLE), exponent_of(DOUBLE)

ZERO_32, TWO_32, MINUS_TWO_LN2_32 = SINGLE.numbers(0.0, 2.0, -2.0 * LN2[SINGLE][0])
#: The low bits of the angle's word, in units of the radius' word, and half of one of them.
STEP_32, HALF_STEP_32 = SINGLE.numbers(2.0**-8, 2.0**-9)
#: From a, in units of 2**-32, to -2 a; from the angle's word, shifted left by two, to turns.
MINUS_TWICE_32, TURNS_32 = SINGLE.numbers(-(2.0**-31), 2.0**-34)
MANTISSA_32, ONE_HALF_BITS_32 = (1 << 23) - 1, bits(np.float32(0.5))
#: Of a number in units of 2**-32 whose mantissa is taken to lie between 1/2 and 1.
BIAS_32 = np.float32(126 + 32)
#: Of (-2 log(1 - g / 2) - g) / g**2 for g from 0 to 1; minimax, computed for this file.
MINUS_TWO_LOG_32 = SINGLE.numbers(
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
#: Its bits take up a word as it is: AVX2 can only convert signed ones.
TWO_52 = 2.0**52
TWO_52_BITS, TWO_52_LESS_HALF, BIAS_64 = bits(np.float64(TWO_52)), TWO_52 - 0.5, TWO_52 + 1023


@jit
def normal_pair(word_a: Any, word_b: Any) -> Any:
    """Return two independent standard normal variates, float32, from two random words.

    With u = (a + ((b & 0xFF) + 1/2) / 2**8) / 2**32 and an angle of (b >> 8) / 2**24 turns they are sqrt(-2 log u)
    times its cos and its sin. Largest error 3.2 ulp over 10**9 pairs of words. The radius has 40 bits and reaches from
    1e-6 to 7.54; the angle has the other 24.

    Args:
        word_a: An integer of which the low 32 bits count; so ``word_b``.
        word_b: Its 8 low bits refine the radius, the others are the angle.
    """
    word_a, word_b = np.int64(word_a), np.int64(word_b)
    a = float32_of_int32(word_a) + fma(float32_of_int32(word_b & 0xFF), STEP_32, HALF_STEP_32)
    # u = 2**e (1 - g / 2), with e = 0 if a is u - 1
    i = bits(a)
    e = ZERO_32 if a < ZERO_32 else float32_of_int32(i >> 23) - BIAS_32
    mantissa = float32_of_bits((i & MANTISSA_32) | ONE_HALF_BITS_32)
    g = a * MINUS_TWICE_32 if a < ZERO_32 else fma(mantissa, -TWO_32, TWO_32)
    radius = np.sqrt(fma(e, MINUS_TWO_LN2_32, fma(g * g, polynomial(g, MINUS_TWO_LOG_32), g)))
    # Without its two highest bits the angle's word is the signed distance to the nearest quarter turn.
    sin, cos = sin_cos_rest32(float32_of_int32((word_b & 0xFFFFFF00) << 2) * TURNS_32)
    sin, cos = turned32(sin, cos, signed32(word_b + (1 << 29)) >> 30)
    return radius * cos, radius * sin


@jit
def normal(word_a: Any, word_b: Any) -> Any:
    """Return a standard normal variate, float32, from two random words: the first of ``normal_pair``."""
    return normal_pair(word_a, word_b)[0]


@jit
def normal_pair64(word_a: Any, word_b: Any, word_c: Any, word_d: Any) -> Any:
    """Return two independent standard normal variates, float64, from four random words.

    With u = (a 2**32 + b + 1/2) / 2**64 and an angle of (c 2**21 + (d >> 11)) / 2**53 turns they are sqrt(-2 log u)
    times its cos and its sin. Largest error 4 ulp over 10**7 sets of words. The radius reaches from 2e-10 to 9.49.

    Args:
        word_a: The high word of the radius: an integer of which the low 32 bits count, as of all.
        word_b: Its low word.
        word_c: The high word of the angle.
        word_d: Its low word, of which the upper 21 bits count.
    """
    word_a, word_b, word_c, word_d = np.int64(word_a), np.int64(word_b), np.int64(word_c), np.int64(word_d)
    low = float64_of_bits((word_b & 0xFFFFFFFF) | TWO_52_BITS) - TWO_52_LESS_HALF
    a = fma(float64_of_int32(word_a), WORD_64, low) * UNIT_64
    field, f = parts64(1.0 + a if a < 0.0 else a)
    e = exponent64(field, BIAS_64)
    f = a if e == 0.0 else f
    radius = np.sqrt(-2.0 * log_of_parts64(e, f))
    high = float64_of_int32((word_c << 2) | ((word_d >> 30) & 3))
    low = float64_of_bits(((word_d << 2) & 0xFFFFE000) | TWO_52_BITS) - TWO_52
    sin, cos = sin_cos_rest64(fma(high, WORD_64, low) * TURNS_64)
    sin, cos = turned64(sin, cos, signed32(word_c + (1 << 29)) >> 30)
    return radius * cos, radius * sin


@jit
def normal64(word_a: Any, word_b: Any, word_c: Any, word_d: Any) -> Any:
    """Return a standard normal variate, float64, from four random words: the first of ``normal_pair64``."""
    return normal_pair64(word_a, word_b, word_c, word_d)[0]
