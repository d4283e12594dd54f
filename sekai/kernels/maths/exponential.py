"""exp, expm1 and tanh.

Both exponentials write x as n log 2 + r with |r| <= log(2) / 2 (Cody and Waite 1980, log 2 in two parts). The
polynomials are minimax ones, computed for this file. An upper bound clamps the argument where the result has become
infinite, a lower one where it no longer changes; the comparisons let NaN through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.constants import LN2_HIGH_32, LN2_HIGH_64, LN2_LOW_32, LN2_LOW_64, TINY_32, TINY_64, singles
from sekai.kernels.maths.precision import by_precision
from sekai.kernels.maths.primitives import bits, float32_of_bits, float64_of_bits, fma, polynomial

LOG2_E_64 = 1.4426950408889634
LOG2_E_32 = np.float32(LOG2_E_64)
#: Adding it rounds a small number to an integer, which is left in the low bits of the sum, plus twice the bias of an
#: exponent: half of them, shifted into place, is the float 2**(n / 2).
SHIFT_32, SHIFT_64 = np.float32(1.5 * 2**23 + 2 * 127), 1.5 * 2**52 + 2 * 1023
#: The same for 2**(n - 1).
SHIFT_HALF_32, SHIFT_HALF_64 = np.float32(1.5 * 2**23 + 127 - 1), 1.5 * 2**52 + 1023 - 1

EXP_LOWEST_32, EXP_HIGHEST_32 = singles(-104.0, 89.0)
EXP_LOWEST_64, EXP_HIGHEST_64 = -746.0, 710.0
EXPM1_LOWEST_32, EXPM1_LOWEST_64 = np.float32(-18.0), -40.0
HALF_32, ONE_32, TWO_32 = singles(0.5, 1.0, 2.0)

#: Of (expm1(r) - r) / r**2.
EXPM1_32 = singles(0.0013828143, 0.008368459, 0.04166801, 0.16666529, 0.49999997)
EXPM1_64 = (
    2.088218222880272e-09,
    2.510813190272195e-08,
    2.7557344623208955e-07,
    2.755724634291611e-06,
    2.480158728561333e-05,
    0.0001984126988471413,
    0.0013888888888883802,
    0.008333333333321813,
    0.04166666666666669,
    0.16666666666666677,
    0.5,
)
#: Of exp(r).
EXP_32, EXP_64 = (*EXPM1_32, ONE_32, ONE_32), (*EXPM1_64, 1.0, 1.0)
#: Up to here, where it is one half, tanh is a polynomial: (tanh(x) - x) / x**3 in x**2.
TANH_SPLIT_64 = 0.5493061443340549
TANH_SPLIT_32 = np.float32(TANH_SPLIT_64)
TANH_32 = singles(-0.0062428494, 0.021050714, -0.053847548, 0.13332544, -0.33333316)
TANH_64 = (
    -1.9490034337848115e-05,
    8.330820423293289e-05,
    -0.00023337537851051185,
    0.0005884419076496485,
    -0.0014555421893885116,
    0.0035920919248402876,
    -0.008863232590713963,
    0.021869488385189546,
    -0.0539682539637371,
    0.1333333333332658,
    -0.333333333333333,
)


@jit
def exp32(x: Any) -> Any:
    x = EXP_LOWEST_32 if x < EXP_LOWEST_32 else x
    x = EXP_HIGHEST_32 if x > EXP_HIGHEST_32 else x
    shifted = fma(x, LOG2_E_32, SHIFT_32)
    n = shifted - SHIFT_32
    r = fma(n, -LN2_LOW_32, fma(n, -LN2_HIGH_32, x))
    # 2**n in two factors: where the result is denormal or infinite, neither factor is.
    i = bits(shifted)
    half = i >> 1
    return polynomial(r, EXP_32) * float32_of_bits(half << 23) * float32_of_bits((i - half) << 23)


@jit
def exp64(x: Any) -> Any:
    x = EXP_LOWEST_64 if x < EXP_LOWEST_64 else x
    x = EXP_HIGHEST_64 if x > EXP_HIGHEST_64 else x
    shifted = fma(x, LOG2_E_64, SHIFT_64)
    n = shifted - SHIFT_64
    r = fma(n, -LN2_LOW_64, fma(n, -LN2_HIGH_64, x))
    i = bits(shifted)
    half = i >> 1
    return polynomial(r, EXP_64) * float64_of_bits(half << 52) * float64_of_bits((i - half) << 52)


@by_precision(exp32, exp64)
def exp(x: Any) -> Any:
    """Return e to the power x."""


@jit
def _expm1_32(x: Any) -> Any:
    y = EXPM1_LOWEST_32 if x < EXPM1_LOWEST_32 else x
    y = EXP_HIGHEST_32 if y > EXP_HIGHEST_32 else y
    shifted = fma(y, LOG2_E_32, SHIFT_HALF_32)
    n = shifted - SHIFT_HALF_32
    high = fma(n, -LN2_HIGH_32, y)  # exact
    low = n * LN2_LOW_32
    r = high - low
    rest = fma(r * r, polynomial(r, EXPM1_32), -low)  # expm1(r) = high + rest
    half = float32_of_bits(bits(shifted) << 23)  # of 2**n, which itself may be infinite
    offset = half - HALF_32
    total = fma(half, high, offset)
    lost = fma(half, high, offset - total)
    result = total + fma(half, rest, lost)
    return x if abs(x) < TINY_32 else result + result


@jit
def _expm1_64(x: Any) -> Any:
    y = EXPM1_LOWEST_64 if x < EXPM1_LOWEST_64 else x
    y = EXP_HIGHEST_64 if y > EXP_HIGHEST_64 else y
    shifted = fma(y, LOG2_E_64, SHIFT_HALF_64)
    n = shifted - SHIFT_HALF_64
    high = fma(n, -LN2_HIGH_64, y)
    low = n * LN2_LOW_64
    r = high - low
    rest = fma(r * r, polynomial(r, EXPM1_64), -low)
    half = float64_of_bits(bits(shifted) << 52)
    offset = half - 0.5
    total = fma(half, high, offset)
    lost = fma(half, high, offset - total)
    result = total + fma(half, rest, lost)
    return x if abs(x) < TINY_64 else result + result


@by_precision(_expm1_32, _expm1_64)
def expm1(x: Any) -> Any:
    """Return e to the power x, less 1."""


@jit
def _tanh32(x: Any) -> Any:
    square = x * x
    near = fma(x * square, polynomial(square, TANH_32), x)
    far = ONE_32 - TWO_32 / (exp32(TWO_32 * abs(x)) + ONE_32)
    far = float32_of_bits(bits(far) | (bits(x) & 0x80000000))
    return (near if x else x) if abs(x) < TANH_SPLIT_32 else far


@jit
def _tanh64(x: Any) -> Any:
    square = x * x
    near = fma(x * square, polynomial(square, TANH_64), x)
    far = 1.0 - 2.0 / (exp64(2.0 * abs(x)) + 1.0)
    far = float64_of_bits(bits(far) | ((bits(x) >> 63) << 63))
    return (near if x else x) if abs(x) < TANH_SPLIT_64 else far


@by_precision(_tanh32, _tanh64)
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of x."""
