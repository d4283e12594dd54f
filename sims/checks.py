"""Checks that the arguments of several markets share."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from sekai.checks import as_real


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


def check_range(
    name: str, value: float, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> None:
    """ValueError, which names ``name``, for a number that is not in a range.

    Args:
        name: What the error message calls it.
        value: The number.
        above: What it has to be greater than.
        least: What it has to be at least.
        most: What it has to be at most.
    """
    for bound, good, words in (
        (above, above is None or value > above, "above"),
        (least, least is None or value >= least, "of at least"),
        (most, most is None or value <= most, "of at most"),
    ):
        if not good:
            raise ValueError(f"{name}: expected a finite number {words} {bound:g}, got {value}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """The value, if it is one of some words.

    Raises:
        ValueError: It is not; the message names ``name`` and the choices.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def warn_caller(text: str) -> None:
    """UserWarning at the line that called into ``sekai`` or ``sims``.

    Python by itself shows one and the same text once a line, or again after somebody has changed its filters, as the
    compiler does.

    Args:
        text: What is shown.
    """
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sekai", "sims"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=depth)
