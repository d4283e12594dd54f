"""Elementary functions for kernels, in forms that LLVM vectorises: float32 and float64, no call to libm."""

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
