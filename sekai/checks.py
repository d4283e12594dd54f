"""Checks of arguments that every layer shares."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Seconds that the system can wait for; nobody will notice that it is not longer.
_FOREVER = 1e6


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """What an error message says of a name that is none of some names, but near one; nothing where it is near none."""
    from difflib import get_close_matches

    known = sorted(names)
    close = [] if name in known else get_close_matches(name, known)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


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


def check_seconds(value: Any, name: str) -> float:
    """A time to wait for, in seconds, as a plain float of at most a million.

    Args:
        value: A Python or NumPy number of at least 0.
        name: What the error message calls it.

    Raises:
        TypeError: It is no number, or a bool.
        ValueError: It is negative or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number of seconds, got {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}: expected a number of seconds of at least 0, got {value}")
    return float(min(value, _FOREVER))


def as_numbers(values: ArrayLike, name: str, kinds: str = "iuf") -> NDArray[Any]:
    """Real numbers as an array.

    Args:
        values: As they were given; where a masked array hides a number, NaN takes its place.
        name: What the error message calls them.
        kinds: The kinds of dtypes that are numbers here: integers and floats, or with "b" bools too.

    Returns:
        An array of their own dtype, or float64 where numbers were masked. It may be ``values`` itself.

    Raises:
        TypeError: They are of another dtype.
        ValueError: They are ragged.
    """
    if values.__class__ is np.ndarray and values.dtype.kind in kinds:
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name}: expected numbers in one array, got rows of different lengths") from None
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}")
    if np.ma.is_masked(values):
        return np.asarray(np.ma.filled(np.ma.asarray(values, np.float64), np.nan))
    return array


def as_integers(values: Any) -> NDArray[Any] | None:
    """Integers in lists as an array of them, where NumPy makes floats; None for anything else.

    NumPy reads integers of which some fit int64 alone and some uint64 alone as float64, which rounds them.

    Args:
        values: Lists or tuples, nested or not, that NumPy reads as floats.
    """
    if isinstance(values, (np.ndarray, np.generic)):
        return None
    numbers = np.array(values, dtype=object)
    each = numbers.ravel().tolist()
    is_exact = all(isinstance(number, (int, np.integer)) and 0 <= number < 2**64 for number in each)
    return numbers.astype(np.uint64) if each and is_exact else None


def check_reward_bounds(least: Any, greatest: Any, where: str, n: int | None = None) -> tuple[Any, Any]:
    """The bounds that rewards are clipped to: floats, arrays float64 (n,), or None for no bound.

    Args:
        least: The lower one, a number or an array of one; for many rewards also of one each.
        greatest: The upper one, likewise.
        where: What the error message begins with.
        n: How many rewards are clipped at once; None for one.

    Raises:
        TypeError: One is no number, nor an array of numbers.
        ValueError: There is none, one is NaN or of another shape, or they are not in order.
    """
    low = _reward_bound(least, f"{where}: min_reward", n)
    high = _reward_bound(greatest, f"{where}: max_reward", n)
    if low is None and high is None:
        raise ValueError(f"{where}: expected a min_reward or a max_reward, got neither")
    if not np.all((-math.inf if low is None else low) <= (math.inf if high is None else high)):
        raise ValueError(f"{where}: expected min_reward <= max_reward, got {low} and {high}")
    return low, high


def _reward_bound(bound: Any, name: str, n: int | None) -> Any:
    number = None if bound is None else as_real(bound)
    if bound is None or number is not None:
        return number
    try:
        array = as_numbers(bound, name)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number or None, got {bound!r}") from None
    if array.size == 1 and array.ndim <= 1:
        return float(array.item())
    if n is None or array.shape != (n,):
        expected = "a number" if n is None else f"a number, or an array of shape ({n},) (num_envs)"
        raise ValueError(f"{name}: expected {expected}, got shape {array.shape}")
    each = np.array(array, np.float64)
    each.flags.writeable = False  # another one is assigned, and checked
    return each
