"""Elementary functions for kernels, in forms that LLVM vectorises.

``from sekai.kernels import maths``, then ``maths.exp(x)`` in a kernel. Each works in the precision of its argument,
float32 or float64 (an integer counts as float64), without a call to libm and without a branch, and gives the same
bits in the body of a vectorised loop, in the rows that remain after it and for a single row, on every processor, and
in plain Python under ``NUMBA_DISABLE_JIT=1``. That takes a fused multiply-add in hardware to be fast (on x86 since
2013); without it the results are the same, but slow.

The errors that the functions state are the largest found, in units of the last place of the exact result: in float32
over all 2**32 numbers, denormals included, against float64; in float64 over more than 10**8 numbers, spread over
their bits and over the ranges where the method changes, against 64 bits of mantissa. Denormals are never flushed.
"""

from __future__ import annotations

from sekai.kernels.maths.circular import sin_cos, sin_cos_turns
from sekai.kernels.maths.distribution import normal_cdf
from sekai.kernels.maths.exponential import exp, expm1, tanh
from sekai.kernels.maths.gaussian import normal, normal64, normal_pair, normal_pair64
from sekai.kernels.maths.logarithm import log, log1p
from sekai.kernels.maths.primitives import fma

__all__ = [
    "exp",
    "expm1",
    "fma",
    "log",
    "log1p",
    "normal",
    "normal64",
    "normal_cdf",
    "normal_pair",
    "normal_pair64",
    "sin_cos",
    "sin_cos_turns",
    "tanh",
]
