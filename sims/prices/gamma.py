"""Gamma variates, for states that begin in their stationary distribution."""

from __future__ import annotations

import math
from typing import Any

from sekai.kernels import jit, maths, streams

#: From which shape on a candidate is taken without a test, which would refuse fewer than one in 1e10 but for rounding.
_TESTED = 1e10


@jit
def draw_gamma(random: Any, i: int, shape: float) -> Any:
    """Draw from the gamma distribution with scale 1: f8.

    By the rejection of Marsaglia and Tsang (2000), "A simple method for generating gamma variables", ACM Transactions
    on Mathematical Software 26; below a shape of 1 by their ``gamma(shape + 1) u^(1 / shape)``.

    Args:
        random: The streams.
        i: The row.
        shape: f8, above 0; from 1e10 on what their test is made for is so close to the cube of a normal variate that
            there is none.
    """
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = streams.normal(random, i)
        root = 1.0 + c * x
        u = 1.0 - streams.uniform(random, i)  # above 0
        if not d < _TESTED:
            v = root * root * root
            break
        if root > 0.0:
            v = root * root * root
            if maths.log(u) < 0.5 * x * x + d - d * v + d * maths.log(v):
                break
    if shape >= 1.0:
        return d * v
    return d * v * maths.exp(maths.log(1.0 - streams.uniform(random, i)) / shape)
