"""Arguments of a market that may differ between its sub-envs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.checks import as_real
from sekai.vector import Randomized

#: One number for all sub-envs, one per sub-env (N,), or a range to draw from.
Parameter: TypeAlias = "float | NDArray[np.float64] | Randomized"


def check_parameter(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> Parameter:
    """A parameter as a float, a read-only float64 array or a ``Randomized``.

    Args:
        name: What the error message calls it.
        value: A number, a sequence of numbers or a ``Randomized``.
        above: What every value has to be greater than.
        least: What every value has to be at least.

    Raises:
        TypeError: It is none of these.
        ValueError: A value is not finite or out of range, or a sequence is not one-dimensional.
    """
    if isinstance(value, Randomized):
        for end in ("low", "high"):
            _check_range(f"{name}, {end} of {value}", np.array([getattr(value, end)]), above, least)
        return value
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return _check_column(name, value, above, least)
    number = as_real(value)
    if number is None:
        raise TypeError(f"{name}: expected a number, one per sub-env, or Randomized(low, high), got {value!r}")
    _check_range(name, np.array([number]), above, least)
    return number


def _check_column(name: str, value: Any, above: float | None, least: float | None) -> NDArray[np.float64]:
    try:
        column = np.asarray(value)
    except ValueError:  # ragged
        raise ValueError(f"{name}: expected one number per sub-env, got {value!r}") from None
    if column.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers, got {value!r}")
    if column.ndim != 1 or not column.size:
        raise ValueError(f"{name}: expected one number per sub-env, got an array of shape {column.shape}")
    column = column.astype(np.float64)
    _check_range(name, column, above, least)
    column.flags.writeable = False
    return column


def _check_range(name: str, values: NDArray[np.float64], above: float | None, least: float | None) -> None:
    good = np.isfinite(values)
    expected = "a finite number"
    if above is not None:
        good &= values > above
        expected = f"a finite number above {above:g}"
    if least is not None:
        good &= values >= least
        expected = f"a finite number of at least {least:g}"
    if not good.all():
        row = int(np.argmin(good))
        where = f" (sub-env {row})" if len(values) > 1 else ""
        raise ValueError(f"{name}: expected {expected}, got {values[row]}{where}")
