"""Numbers that may differ between the sub-envs of a market, as policies take them and read them off an env."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.checks import as_real
from sekai.vector import Randomized

#: One number for all sub-envs, or one per sub-env (N,).
Numbers: TypeAlias = "float | NDArray[np.float64]"


def check_numbers(value: Any, where: str, *, above: float | None = None, least: float | None = None) -> Numbers:
    """A float, or a read-only float64 (N,); an array of one and the same number counts as the number.

    Args:
        value: A number, or a sequence of them, one per sub-env.
        where: What the error message calls it.
        above: What every number has to be greater than.
        least: What every number has to be at least.

    Raises:
        TypeError: It is neither.
        ValueError: A number is not finite or out of range, or a sequence is not one-dimensional.
    """
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        try:
            column = np.asarray(value)
        except ValueError:  # ragged
            raise ValueError(f"{where}: expected one number per sub-env, got {value!r}") from None
        if column.dtype.kind not in "iuf":
            raise TypeError(f"{where}: expected numbers, got {value!r}")
        if column.ndim != 1 or not column.size:
            raise ValueError(f"{where}: expected one number per sub-env, got an array of shape {column.shape}")
    else:
        number = as_real(value)
        if number is None:
            raise TypeError(f"{where}: expected a number, or one per sub-env, got {value!r}")
        column = np.array([number])
    column = column.astype(np.float64)
    good, expected = np.isfinite(column), "a finite number"
    if above is not None:
        good &= column > above
        expected = f"a finite number above {above:g}"
    if least is not None:
        good &= column >= least
        expected = f"a finite number of at least {least:g}"
    if not good.all():
        row = int(np.argmin(good))
        sub_env = f" (sub-env {row})" if len(column) > 1 else ""
        raise ValueError(f"{where}: expected {expected}, got {column[row]}{sub_env}")
    if (column == column[0]).all():
        return float(column[0])
    column.flags.writeable = False
    return column


def read_records(vec: Any) -> list[Any]:
    """The parameters of a VecEnv: one record for all sub-envs; or one each, where they are envs of their own."""
    return list({id(record): record for record in vec.get_attr("params")}.values())


def read_shared(vec: Any, where: str, name: str) -> Any:
    """A parameter that all sub-envs share: a number, a word or None.

    Args:
        vec: A VecEnv of a market.
        where: What the error message calls the reader.
        name: The field of its parameters.

    Raises:
        ValueError: It is drawn anew at each episode, or differs between sub-envs.
    """
    values: dict[Any, None] = {}
    for record in read_records(vec):
        value = getattr(record, name)
        values |= dict.fromkeys(value.tolist() if isinstance(value, np.ndarray) else [value])
    first, *others = values
    if others or isinstance(first, Randomized):
        raise ValueError(f"{where}: expected sub-envs of one {name}, got {sorted(values, key=str)}")
    return first


def read_numbers(vec: Any, where: str, name: str, factors: Callable[[Any], dict[str, Any]] | None = None) -> Any:
    """A parameter that may differ between sub-envs.

    Args:
        vec: A VecEnv of a market.
        where: What the error message calls the reader.
        name: What it is called.
        factors: From a record of parameters to the numbers it is the product of, by what they are called; None for the
            field ``name``.

    Returns:
        The number that all sub-envs share, or float64 (N,).

    Raises:
        ValueError: It is drawn anew at each episode.
    """
    numbers = []
    for record in read_records(vec):
        found = {name: getattr(record, name)} if factors is None else factors(record)
        for factor, value in found.items():
            if isinstance(value, Randomized):
                raise ValueError(
                    f"{where}: {factor} is drawn anew at each episode ({value}), where a policy cannot see it; "
                    f"give the {name} to go by, for_env(..., {name}=...)"
                )
        numbers.append(math.prod(found.values()))
    return numbers[0] if len(numbers) == 1 else np.array([np.asarray(number).item() for number in numbers])
