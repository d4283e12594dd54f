"""One public name for a function's float32 and float64 forms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

Function = Callable[[Any], Any]


def by_precision(single: Function, double: Function) -> Callable[[Function], Function]:
    """Decorate the public name (and docstring) of a function of one number with its two forms.

    Args:
        single: Takes and gives float32.
        double: Takes and gives float64. Also for integers and Python's floats.
    """

    def choose(x: Any) -> Any:
        if x == types.float32:
            return lambda x: single(x)
        if isinstance(x, (types.Float, types.Integer)):
            return lambda x: double(np.float64(x))
        return None

    def decorate(public: Function) -> Function:
        @functools.wraps(public)
        def function(x: Any) -> Any:
            with np.errstate(all="ignore"):
                return typed(np.float32, single(x)) if isinstance(x, np.float32) else double(np.float64(x))

        del function.__wrapped__  # type: ignore[attr-defined]  # its body is its docstring: the forms are what it is made of
        overload(function)(lambda x: choose(x))  # numba compares signatures, annotations included
        return function

    return decorate


def typed(scalar: type, value: Any) -> Any:
    """Give a compiled function's result, a Python float or several, its NumPy type again."""
    return tuple(map(scalar, value)) if isinstance(value, tuple) else scalar(value)
