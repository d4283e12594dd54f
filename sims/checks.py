"""Checks that the arguments of several markets share."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np


def as_real(value: Any) -> float | None:
    """A real number as a float, infinite if it is too large; None for what is no number.

    Text, bools, complex numbers, time spans and arrays are no numbers.
    """
    # A bool is an int to Python, and a time span an integer to NumPy.
    is_real = isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, (bool, np.timedelta64))
    if not is_real:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def check_number(value: Any, name: str) -> float:
    """A finite real number as a float.

    Raises:
        TypeError: It is no real number (see ``as_real``).
        ValueError: It is not finite.
    """
    number = as_real(value)
    if number is None:
        raise TypeError(f"{name}: expected a number, got {value!r}")
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a finite number, got {value}")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """The value, if it is one of some words.

    Raises:
        ValueError: It is not; the message names ``name`` and the choices.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}")
    return value
