"""The arguments of some rows of a market: which of all that it was given differ between rows, as its ``Params`` say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args

import numpy as np

from sekai.vector.kernel.parameters import annotations_of, is_part, read_parameter, takes_parts


class FieldOfParams:
    """Marks the annotation of an argument as that of a field of ``Params``, which says what may differ between rows."""


def as_argument(annotation: Any) -> Any:
    """The annotation of a field of ``Params`` in a signature."""
    return Annotated[annotation, FieldOfParams]


def field_annotation(annotation: Any) -> Any:
    """What ``as_argument`` was given; None for the annotation of an argument that is no field of ``Params``."""
    given, *marks = get_args(annotation) if hasattr(annotation, "__metadata__") else (None,)
    return given if FieldOfParams in marks else None


def signature_of_either(*markets: Callable[..., Any]) -> inspect.Signature:
    """What a function takes that builds one of several markets, to be its ``__signature__``.

    An argument of several has the default of the first one. Where they say otherwise of it what may differ between
    rows, a part that is given has its rows, and anything else is the same for all; two kinds of numbers are none.

    Args:
        markets: Their classes.
    """
    found: dict[str, inspect.Parameter] = {}
    for market in markets:
        for name, each in inspect.signature(market).parameters.items():
            found[name] = _joined(found[name], each) if name in found else each
    return inspect.Signature(sorted(found.values(), key=lambda each: each.kind))


def _joined(one: inspect.Parameter, other: inspect.Parameter) -> inspect.Parameter:
    annotations = [field_annotation(each.annotation) for each in (one, other)]
    if annotations[0] == annotations[1] or None in annotations:
        return one if annotations[0] is not None else one.replace(annotation=other.annotation)
    if all(_is_number(each) for each in annotations):
        return one
    either = tuple | Any if any(map(takes_parts, annotations)) else Any
    return one.replace(annotation=as_argument(either))


def _is_number(annotation: Any) -> bool:
    has_fields = hasattr(annotation, "_fields")
    return not has_fields and Any not in get_args(annotation) and read_parameter("", annotation).number is not None


def take_rows(annotation: Any, value: Any, rows: range, num_envs: int, path: str) -> Any:
    """What an argument is for some rows: its part of one number per sub-env, in named tuples too; else the same.

    Args:
        annotation: Of the field of ``Params``.
        value: What was given for all rows.
        rows: Which are wanted.
        num_envs: How many there are.
        path: What error messages call it.

    Raises:
        ValueError: There is not one number per sub-env.
    """
    kind = type(value)
    if is_part(value) and (annotation is kind or takes_parts(annotation)):
        told = annotations_of(kind, path)
        cut = [
            take_rows(told[name], each, rows, num_envs, f"{path}.{name}")
            for name, each in zip(kind._fields, value, strict=True)
        ]
        return value if all(new is old for new, old in zip(cut, value, strict=True)) else kind(*cut)
    if is_part(value) or Any in get_args(annotation):
        return value
    parameter = read_parameter(path, annotation)
    if parameter.number is None or not isinstance(value, (list, tuple, np.ndarray)) or np.ndim(value) != 1:
        return value
    if len(value) != num_envs:
        raise ValueError(f"{path}: expected {num_envs} values (num_envs), got {len(value)}")
    return value[rows.start : rows.stop]
