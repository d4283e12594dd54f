"""exp, expm1 and tanh.

Both exponentials write x as n log 2 + r with |r| <= log(2) / 2 and log 2 in two parts (Cody and Waite 1980). The
polynomials are minimax ones, computed for this file. Clamping the argument, where the result has become infinite or
no longer changes, keeps n small; the comparisons let NaN through.
"""

from __future__ import annotations

from typing import Any

from sekai.kernels.jit import jit
from sekai.kernels.maths.precision import DOUBLE, SINGLE, Precision, by_precision
from sekai.kernels.maths.primitives import bits, fma, polynomial

LOG2_E = 1.4426950408889634
#: log 2 as the sum of two numbers.
LN2 = {
    SINGLE: (float.fromhex("0x1.62e43p-1"), float.fromhex("-0x1.05c61p-29")),
    DOUBLE: (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")),
}
#: From the lowest argument whose exp is 0 to the highest whose is infinite, and a little further.
EXP_RANGE = {SINGLE: (-104.0, 89.0), DOUBLE: (-746.0, 710.0)}
EXPM1_RANGE = {SINGLE: (-18.0, 89.0), DOUBLE: (-40.0, 710.0)}
#: Of (expm1(r) - r) / r**2; exp's go on with 1, 1.
EXPM1 = {
    SINGLE: (0.0013828143, 0.008368459, 0.04166801, 0.16666529, 0.49999997),
    DOUBLE: (
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
    ),
}
#: Where tanh is one half; up to here it is a polynomial.
TANH_SPLIT = 0.5493061443340549
#: Of (tanh(x) - x) / x**3 in x**2.
TANH = {
    SINGLE: (-0.0062428494, 0.021050714, -0.053847548, 0.13332544, -0.33333316),
    DOUBLE: (
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
    ),
}


def _exp(p: Precision) -> Any:
    lowest, highest = p.numbers(*EXP_RANGE[p])
    ln2_high, ln2_low = p.numbers(*LN2[p])
    log2_e, rounder = p.numbers(LOG2_E, p.rounder + 2 * p.bias)
    coefficients = p.numbers(*EXPM1[p], 1.0, 1.0)
    digits, of_bits = p.digits, p.of_bits

    @jit
    def exp(x: Any) -> Any:
        x = lowest if x < lowest else x
        x = highest if x > highest else x
        rounded = fma(x, log2_e, rounder)
        n = rounded - rounder
        r = fma(n, -ln2_low, fma(n, -ln2_high, x))
        # 2**n as a product: where the result is denormal or infinite, its factors are not.
        exponents = bits(rounded)  # the sum of two, each with its bias
        half = exponents >> 1
        return polynomial(r, coefficients) * of_bits(half << digits) * of_bits((exponents - half) << digits)

    return exp


def _expm1(p: Precision) -> Any:
    lowest, highest = p.numbers(*EXPM1_RANGE[p])
    ln2_high, ln2_low = p.numbers(*LN2[p])
    log2_e, rounder = p.numbers(LOG2_E, p.rounder + p.bias - 1)
    coefficients = p.numbers(*EXPM1[p])
    one_half, tiny = p.numbers(0.5, 2.0 ** -(p.digits + 3))
    digits, of_bits = p.digits, p.of_bits

    @jit
    def expm1(x: Any) -> Any:
        y = lowest if x < lowest else x
        y = highest if y > highest else y
        rounded = fma(y, log2_e, rounder)
        n = rounded - rounder
        high = fma(n, -ln2_high, y)  # exact
        low = n * ln2_low
        r = high - low
        rest = fma(r * r, polynomial(r, coefficients), -low)  # expm1(r) = high + rest
        # 2**n high + 2**n - 1, all of it halved, since 2**n may be infinite; and what the sum loses.
        scale = of_bits(bits(rounded) << digits)
        offset = scale - one_half
        total = fma(scale, high, offset)
        lost = fma(scale, high, offset - total)
        half = total + fma(scale, rest, lost)
        return x if abs(x) < tiny else half + half

    return expm1


exp32, exp64 = _exp(SINGLE), _exp(DOUBLE)


@by_precision(exp32, exp64)
def exp(x: Any) -> Any:
    """Return e to the power x.

    Largest error 0.90 ulp in float32, 0.90 in float64, denormal results included. Beyond the largest number the result
    is infinite, below half the smallest it is 0; NaN stays NaN.

    Args:
        x: float32 or float64.
    """


@by_precision(_expm1(SINGLE), _expm1(DOUBLE))
def expm1(x: Any) -> Any:
    """Return e to the power x, less 1.

    Largest error 1.10 ulp in float32, 1.14 in float64. Close to 0 the result is x itself, the sign of a zero included;
    expm1(-inf) is -1; NaN stays NaN.

    Args:
        x: float32 or float64.
    """


def _tanh(p: Precision, exp: Any) -> Any:
    split, one, two = p.numbers(TANH_SPLIT, 1.0, 2.0)
    coefficients = p.numbers(*TANH[p])
    sign_bit, of_bits = p.sign_bit, p.of_bits

    @jit
    def tanh(x: Any) -> Any:
        square = x * x
        near = fma(x * square, polynomial(square, coefficients), x)
        far = one - two / (exp(two * abs(x)) + one)
        far = of_bits(bits(far) | (bits(x) & sign_bit))
        return (near if x else x) if abs(x) < split else far

    return tanh


@by_precision(_tanh(SINGLE, exp32), _tanh(DOUBLE, exp64))
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of x.

    Largest error 1.59 ulp in float32, 1.57 in float64. Close to 0 the result is x itself, the sign of a zero included;
    infinities give 1 and -1; NaN stays NaN.

    Args:
        x: float32 or float64.
    """
