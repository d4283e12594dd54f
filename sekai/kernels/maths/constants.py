"""Constants that several of the functions need."""

from __future__ import annotations

import numpy as np


def singles(*values: float) -> tuple[np.float32, ...]:
    """Return values as float32: a plain float would turn the arithmetic of a kernel into float64."""
    return tuple(map(np.float32, values))


#: log 2 as the sum of two numbers.
LN2_HIGH_32, LN2_LOW_32 = singles(float.fromhex("0x1.62e43p-1"), float.fromhex("-0x1.05c61p-29"))
LN2_HIGH_64, LN2_LOW_64 = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")
#: Below this size expm1(x), log1p(x) and tanh(x) are x, the sign of a zero included.
TINY_32, TINY_64 = np.float32(2.0**-26), 2.0**-55
INFINITY_32, NAN_32 = singles(np.inf, np.nan)
