"""The distribution function of the normal distribution.

Near 0 it is 1/2 plus an odd polynomial. Further out, with z = |x|, w = 1 / (z + k) and t = (z - k) w, the tail is
exp(-z**2 / 2) w g(t), where g changes little: the transform of Schonfelder (1978) for erfc. The polynomials are
minimax ones, computed for this file.
"""

from __future__ import annotations

from typing import Any

from sekai.kernels.jit import jit
from sekai.kernels.maths.exponential import exp32, exp64
from sekai.kernels.maths.precision import DOUBLE, SINGLE, Precision, by_precision
from sekai.kernels.maths.primitives import fma, polynomial

#: From here on the tail's form is used.
SPLIT = 0.75
#: From here on the tail is 0.
END = {SINGLE: 14.5, DOUBLE: 38.7}
#: k.
CENTRE = {SINGLE: 3.0, DOUBLE: 5.0}
#: Of (normal_cdf(x) - 1/2) / x, in x**2.
NEAR = {
    SINGLE: (9.8329794e-05, -0.0011754218, 0.009969853, -0.0664899, 0.39894226),
    DOUBLE: (
        1.975503147083531e-09,
        -4.0878432086386147e-08,
        6.657432833718037e-07,
        -9.44456824179031e-06,
        0.00011543466674057098,
        -0.0011873282125468992,
        0.009973557009810043,
        -0.06649038006689742,
        0.3989422804014326,
    ),
}
#: Of g, in t.
FAR = {
    SINGLE: (
        0.00015797235,
        -0.00019495566,
        -0.001054856,
        0.0010089122,
        0.0069755465,
        -0.01046049,
        -0.047263335,
        0.23001762,
        -0.509332,
        0.7290837,
    ),
    DOUBLE: (
        7.45162038027114e-09,
        -4.004008761333465e-09,
        -6.600107721714092e-08,
        3.5346468823821334e-08,
        4.3341602305706244e-07,
        -3.31525315836593e-07,
        -2.769490790187561e-06,
        3.978594400257559e-06,
        1.6681305935380607e-05,
        -4.976214882040929e-05,
        -5.9375750149876244e-05,
        0.0005448989435633759,
        -0.0007978693952723605,
        -0.002993376757128262,
        0.020795066799612415,
        -0.06911863870712877,
        0.16502036617039706,
        -0.3135331566712814,
        0.4953056159699762,
        -0.6653825028900568,
        0.769193049750063,
    ),
}


def _normal_cdf(p: Precision, exp: Any) -> Any:
    split, end, centre = p.numbers(SPLIT, END[p], CENTRE[p])
    zero, one_half, one = p.numbers(0.0, 0.5, 1.0)
    near_coefficients, far_coefficients = p.numbers(*NEAR[p]), p.numbers(*FAR[p])

    @jit
    def normal_cdf(x: Any) -> Any:
        z = abs(x)
        z = end if z > end else z
        square = z * z
        lost = fma(z, z, -square)
        w = one / (z + centre)
        g = w * polynomial((z - centre) * w, far_coefficients)
        tail = exp(-one_half * square) * fma(-one_half * lost, g, g)
        far = one - tail if x > zero else tail
        return fma(x, polynomial(square, near_coefficients), one_half) if z < split else far

    return normal_cdf


@by_precision(_normal_cdf(SINGLE, exp32), _normal_cdf(DOUBLE, exp64))
def normal_cdf(x: Any) -> Any:
    """Return the probability that a standard normal variate is below x.

    Largest error 5.7 ulp in float32, 5.5 in float64, into the left tail down to the smallest denormal; 1.4 ulp for
    abs(x) < 0.75. normal_cdf(0) is 0.5 exactly, of -inf 0, of inf 1; NaN stays NaN.

    Args:
        x: float32 or float64.
    """
