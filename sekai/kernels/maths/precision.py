"""Float32 and float64 from one source, and under one name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from sekai.kernels.maths.primitives import float32_of_bits, float64_of_bits

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Precision:
    """A floating-point format, as far as the functions of this package take it apart.

    Attributes:
        number: Its NumPy type. In a kernel a plain float beside a float32 would give a float64.
        digits: How many bits the mantissa has, beside the leading one that is not stored.
        bias: What the exponent field holds beyond the exponent.
        width: How many bits there are in all.
        of_bits: The number that an integer's bits stand for.
    """

    number: type
    digits: int
    bias: int
    width: int
    of_bits: Callable[[int], Any]

    def numbers(self, *values: float) -> tuple[Any, ...]:
        """Values in this format."""
        return tuple(map(self.number, values))

    @property
    def sign_bit(self) -> int:
        """The bits of -0."""
        return -1 << (self.width - 1)

    @property
    def rounder(self) -> float:
        """Added to a small number it rounds that to an integer, which is left in the low bits of the sum."""
        return 1.5 * 2.0**self.digits


SINGLE = Precision(np.float32, 23, 127, 32, float32_of_bits)
DOUBLE = Precision(np.float64, 52, 1023, 64, float64_of_bits)


def by_precision(single: Function, double: Function) -> Callable[[Function], Function]:
    """Decorate the public name (and docstring) of a function of one number with its two forms.

    Args:
        single: Takes and gives float32.
        double: Takes and gives float64; also for integers and Python's floats.
    """

    def choose(x: Any) -> Any:
        if x == types.float32:
            return lambda x: single(x)
        if isinstance(x, (types.Float, types.Integer)):
            return lambda x: double(np.float64(x))
        return None

    def decorate(public: Function) -> Function:
        def function(x: Any) -> Any:
            with np.errstate(all="ignore"):
                if isinstance(x, np.float32):
                    return _typed(np.float32, single(x))
                return _typed(np.float64, double(np.float64(x)))

        # Not functools.wraps: who looks through it, such as the cache of kernels, would find a docstring and no code.
        for name in functools.WRAPPER_ASSIGNMENTS:
            setattr(function, name, getattr(public, name))
        # The lambda, because numba compares signatures, annotations included.
        overload(function, jit_options={"forceinline": True})(lambda x: choose(x))
        return function

    return decorate


def _typed(number: type, value: Any) -> Any:
    """A compiled function gives plain Python a float, or several: in NumPy's type again."""
    return tuple(map(number, value)) if isinstance(value, tuple) else number(value)
