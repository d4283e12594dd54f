"""Columns and tuples of columns: their rows, in plain Python and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload


def lengths(value: Any) -> Iterator[int]:
    """The number of rows of each array."""
    if isinstance(value, np.ndarray) and value.ndim:
        yield len(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from lengths(item)


def rows_between(value: Any, lo: int, hi: int) -> Any:
    """Rows ``lo`` to ``hi`` of an array or of every array in a tuple; a scalar as it is."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value[lo:hi]
    if isinstance(value, tuple):
        return _like(value, [rows_between(item, lo, hi) for item in value])
    return value


def has_rows(value: Any, n: int) -> bool:
    """Whether every array has ``n`` rows."""
    return all(length == n for length in lengths(value))


def item_at(value: Any, i: int) -> Any:
    """Row ``i`` of a column, or the value that all rows share: an array is read, a scalar is itself."""
    return value[i] if isinstance(value, np.ndarray) else value


def _like(value: Any, items: list[Any]) -> Any:
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _is_rows(value: Any) -> bool:
    return isinstance(value, types.Array) and value.ndim > 0


def _unrolled(name: str, arguments: str, body: str, value: Any) -> Any:
    """A function that names every item of a tuple type, as numba has no loop over items of different types."""
    scope: dict[str, Any] = {"_rows": rows_between, "_fits": has_rows, "_new": getattr(value, "instance_class", None)}
    exec(f"def {name}({arguments}):\n    return {body}\n", scope)
    return scope[name]


def _compiled_form(function: Any) -> Callable[[Any], Any]:
    """Register what numba puts in the place of a function; it compares signatures, annotations included."""

    def decorate(form: Any) -> Any:
        form.__annotations__ = {}
        return overload(function)(form)

    return decorate


@_compiled_form(rows_between)
def _overload_rows_between(value: Any, lo: Any, hi: Any) -> Any:
    if _is_rows(value):
        return lambda value, lo, hi: value[lo:hi]
    if isinstance(value, types.BaseTuple):
        items = "".join(f"_rows(value[{k}], lo, hi), " for k in range(len(value)))
        named = isinstance(value, types.BaseNamedTuple)
        return _unrolled("rows_between", "value, lo, hi", f"_new({items})" if named else f"({items})", value)
    return lambda value, lo, hi: value


@_compiled_form(has_rows)
def _overload_has_rows(value: Any, n: Any) -> Any:
    if _is_rows(value):
        return lambda value, n: len(value) == n
    if isinstance(value, types.BaseTuple) and len(value):
        body = " and ".join(f"_fits(value[{k}], n)" for k in range(len(value)))
        return _unrolled("has_rows", "value, n", body, value)
    return lambda value, n: True


@_compiled_form(item_at)
def _overload_item_at(value: Any, i: Any) -> Any:
    if isinstance(value, types.Array):
        return lambda value, i: value[i]
    return lambda value, i: value
