"""The distribution function of the normal distribution.

Near 0 it is 1/2 plus an odd polynomial. Further out, with z = |x|, w = 1 / (z + k) and t = (z - k) / (z + k), the tail
is exp(-z**2 / 2) w g(t): what is left of it, g, is as good as straight (the transform of Schonfelder 1978 for erfc).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.maths.constants import singles
from sekai.kernels.maths.exponential import exp32, exp64
from sekai.kernels.maths.precision import by_precision
from sekai.kernels.maths.primitives import fma, polynomial

ZERO_32, HALF_32, ONE_32 = singles(0.0, 0.5, 1.0)
#: From here on the tail's form is used.
SPLIT_32, SPLIT_64 = np.float32(0.75), 0.75
#: From here on the tail is 0.
END_32, END_64 = np.float32(14.5), 38.7
#: k.
CENTRE_32, CENTRE_64 = np.float32(3.0), 5.0

#: Of (cdf(x) - 1/2) / x in x**2.
NEAR_32 = singles(9.8329794e-05, -0.0011754218, 0.009969853, -0.0664899, 0.39894226)
NEAR_64 = (
    1.975503147083531e-09,
    -4.0878432086386147e-08,
    6.657432833718037e-07,
    -9.44456824179031e-06,
    0.00011543466674057098,
    -0.0011873282125468992,
    0.009973557009810043,
    -0.06649038006689742,
    0.3989422804014326,
)
#: Of g(t).
FAR_32 = singles(
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
)
FAR_64 = (
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
)


@jit
def _normal_cdf32(x: Any) -> Any:
    z = abs(x)
    z = END_32 if z > END_32 else z
    square = z * z
    lost = fma(z, z, -square)
    w = ONE_32 / (z + CENTRE_32)
    g = w * polynomial((z - CENTRE_32) * w, FAR_32)
    tail = exp32(-HALF_32 * square) * fma(-HALF_32 * lost, g, g)
    far = ONE_32 - tail if x > ZERO_32 else tail
    return fma(x, polynomial(square, NEAR_32), HALF_32) if z < SPLIT_32 else far


@jit
def _normal_cdf64(x: Any) -> Any:
    z = abs(x)
    z = END_64 if z > END_64 else z
    square = z * z
    lost = fma(z, z, -square)
    w = 1.0 / (z + CENTRE_64)
    g = w * polynomial((z - CENTRE_64) * w, FAR_64)
    tail = exp64(-0.5 * square) * fma(-0.5 * lost, g, g)
    far = 1.0 - tail if x > 0.0 else tail
    return fma(x, polynomial(square, NEAR_64), 0.5) if z < SPLIT_64 else far


@by_precision(_normal_cdf32, _normal_cdf64)
def normal_cdf(x: Any) -> Any:
    """Return the probability that a standard normal variate is below x."""
