"""What a snapshot and the environment that goes on from it must have in common."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def fingerprint(value: Any, where: str) -> Any:
    """By what to tell whether another value is the same: a number, a word or None itself, else a digest.

    Raises:
        TypeError: It cannot be kept: a socket, a lock, a live feed.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array {value.dtype} {value.shape} {_digest(np.ascontiguousarray(value).tobytes())}"
    if isinstance(value, (set, frozenset)):  # in no order
        each = sorted(str(fingerprint(item, where)) for item in value)
        return f"{type(value).__qualname__} {_digest(repr(each).encode())}"
    return f"{type(value).__qualname__} {_digest(dumps(value, where))}"


def _digest(content: bytes) -> str:
    import hashlib  # which nobody needs who takes no snapshots

    return hashlib.sha256(content).hexdigest()


def require_equal(expected: Mapping[str, Any], got: Mapping[str, Any], where: str) -> None:
    """ValueError, which names what differs, unless two sets of fingerprints are the same."""
    for name in differing(expected, got):
        one, other = (side.get(name, "none") for side in (expected, got))
        raise ValueError(f"{where}: {name}: expected {one}, got {other}")


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of what two sets of fingerprints have not alike; NaN is NaN."""
    if one == other:
        return []
    pairs = ((name, one.get(name, "none"), other.get(name, "none")) for name in sorted({*one, *other}))
    return [name for name, a, b in pairs if a != b and not (a != a and b != b)]


def require_columns(expected: Mapping[str, NDArray[Any]], got: Mapping[str, NDArray[Any]]) -> None:
    """ValueError, which names what differs, unless columns have the same names, dtypes and shapes of an entry."""
    require_equal(layout_of(expected), layout_of(got), "restore(snapshot): the layout of its columns")


def layout_of(columns: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """The dtype of each column and the shape of an entry, as text."""
    return {name: f"{column.dtype} {column.shape[1:]}" for name, column in sorted(columns.items())}


def dumps(value: Any, where: str) -> bytes:
    """Pickle a value, also one of a class of the main module.

    Raises:
        TypeError: It cannot be pickled.
    """
    import cloudpickle

    try:
        pickled: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{where}: expected what can be pickled, got {value!r} ({error})") from error
    return pickled


@functools.lru_cache(maxsize=256)
def names_of_classes(*kinds: type) -> tuple[str, ...]:
    """What a snapshot of objects of some classes is of."""
    return tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)


def is_same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are the same, bit for bit."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
