"""Checks of arguments that every layer shares."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def check_integer(value: Any, name: str, expected: str = "an integer") -> int:
    """An integer as a plain int.

    Args:
        value: Anything ``operator.index`` takes, except a bool.
        name: What the error message calls it.
        expected: What the error message asks for.

    Raises:
        TypeError: It is no integer, or a bool.
    """
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected {expected}, got the bool {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}") from None


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """A number of things as a plain int.

    Args:
        value: Anything ``operator.index`` takes, except a bool.
        name: What the error message calls it.
        minimum: The smallest number allowed.

    Raises:
        TypeError: It is no integer, or a bool.
        ValueError: It is below ``minimum``.
    """
    count = check_integer(value, name)
    if count < minimum:
        raise ValueError(f"{name}: expected at least {minimum}, got {count}")
    return count
