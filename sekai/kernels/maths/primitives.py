"""The instructions that the functions of this package are built from, and that numba has no name for.

Each is an ordinary function with a second, compiled form. Compiled it is one or two vector instructions; in plain
Python (``NUMBA_DISABLE_JIT=1``) it gives the same bits, slowly. Integers are int64, as numba has them everywhere;
where only their low 32 bits matter, LLVM works in 32-bit lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once.

    Asking for the fused form gives the same bits everywhere: in the body of a vectorised loop, in the rows that remain
    after it and for a single row. Leaving it to the compiler (fastmath's ``contract``) does not. A processor without
    the instruction computes it in software, slowly.

    Args:
        a: A number.
        b: A number.
        c: A number. Three float32 give a float32; anything else is taken as float64.
    """
    if isinstance(a, np.float32) and isinstance(b, np.float32) and isinstance(c, np.float32):
        return _fma32(float(a), float(b), float(c))
    return _fma64(float(a), float(b), float(c))


def _fma32(a: float, b: float, c: float) -> Any:
    product = a * b  # exact: 48 bits
    total = product + c
    if math.isfinite(total):
        # Round to odd: where the sum is inexact, the second rounding, to 24 bits, sees on which side it was.
        summand = total - product
        error = (product - (total - summand)) + (c - summand)
        if error and not bits(np.float64(total)) & 1:
            total = math.nextafter(total, math.copysign(math.inf, error))
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(total)


def _fma64(a: float, b: float, c: float) -> Any:
    if not (a and b and math.isfinite(a) and math.isfinite(b)):
        return np.float64(a * b + c)
    if not math.isfinite(c):
        return np.float64(c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return np.float64(a * b + c)  # which zero it is
    try:
        return np.float64(float(exact))
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


def polynomial(x: Any, coefficients: tuple[Any, ...]) -> Any:
    """Return a polynomial in ``x`` by Horner's rule, one fused multiply-add per power.

    Args:
        x: float32 or float64.
        coefficients: Of the type of ``x``, the highest power's first.
    """
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = fma(total, x, coefficient)
    return total


def nearest(x: Any) -> Any:
    """Return the integer nearest to a float32 or float64, the even one of two, in its type."""
    return np.rint(x)


def bits(x: Any) -> int:
    """Return the bits of a float32 or float64 as a signed integer."""
    return int(x.view(np.int32 if isinstance(x, np.float32) else np.int64))


def float32_of_bits(i: int) -> Any:
    """Return the float32 whose bits are the low 32 of an integer."""
    return np.uint32(int(i) & 0xFFFFFFFF).view(np.float32)


def float64_of_bits(i: int) -> Any:
    """Return the float64 whose bits are the low 64 of an integer."""
    return np.uint64(int(i) & 0xFFFFFFFFFFFFFFFF).view(np.float64)


def float32_of_int32(i: int) -> Any:
    """Return the low 32 bits of an integer, read as a signed number, as a float32."""
    return np.float32(signed32(i))


def float64_of_int32(i: int) -> Any:
    """Return the low 32 bits of an integer, read as a signed number, as a float64."""
    return np.float64(signed32(i))


def signed32(i: int) -> int:
    """Return the low 32 bits of an integer, read as a signed number."""
    return int(np.uint32(int(i) & 0xFFFFFFFF).view(np.int32))


def _compile_as(function: Callable[..., Any], typer: Callable[..., Any], lower: Callable[..., Any]) -> None:
    """Give a function its compiled form.

    Args:
        function: What plain Python calls.
        typer: From the argument types to numba's signature; its parameters have the function's names.
        lower: From LLVM's builder and values to the value.
    """

    def lowering(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return lower(builder, *arguments)

    type_callable(function)(lambda context: typer)
    lower_builtin(function, types.VarArg(types.Any))(lowering)


def _fma_signature(a: Any, b: Any, c: Any) -> Any:
    number = types.float32 if a == b == c == types.float32 else types.float64
    return number(number, number, number)


def _lower_polynomial(builder: Any, x: Any, coefficients: Any) -> Any:
    total = builder.extract_value(coefficients, 0)
    for power in range(1, coefficients.type.count):
        total = builder.fma(total, x, builder.extract_value(coefficients, power))
    return total


def _lower_nearest(builder: Any, x: Any) -> Any:
    return builder.call(builder.module.declare_intrinsic("llvm.rint", [x.type]), [x])


def _lower_bits(builder: Any, x: Any) -> Any:
    if x.type == ir.FloatType():
        return builder.sext(builder.bitcast(x, ir.IntType(32)), ir.IntType(64))
    return builder.bitcast(x, ir.IntType(64))


_compile_as(fma, _fma_signature, lambda builder, a, b, c: builder.fma(a, b, c))
_compile_as(polynomial, lambda x, coefficients: x(x, coefficients), _lower_polynomial)
_compile_as(nearest, lambda x: x(x), _lower_nearest)
_compile_as(bits, lambda x: types.int64(x), _lower_bits)
_compile_as(float32_of_bits, lambda i: types.float32(types.int32), lambda build, i: build.bitcast(i, ir.FloatType()))
_compile_as(float64_of_bits, lambda i: types.float64(types.int64), lambda build, i: build.bitcast(i, ir.DoubleType()))
_compile_as(signed32, lambda i: types.int64(types.int32), lambda builder, i: builder.sext(i, ir.IntType(64)))
_compile_as(float32_of_int32, lambda i: types.float32(types.int32), lambda build, i: build.sitofp(i, ir.FloatType()))
_compile_as(float64_of_int32, lambda i: types.float64(types.int32), lambda build, i: build.sitofp(i, ir.DoubleType()))
