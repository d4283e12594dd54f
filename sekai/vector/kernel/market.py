"""From a definition and its parameters to what the compiled functions are made from."""

from __future__ import annotations

import functools
from collections import namedtuple
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.batching.slab import as_word
from sekai.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, mask_space
from sekai.vector.kernel.definition import Definition, leaves, told_keys
from sekai.vector.kernel.parameters import (
    Parameter,
    SharedParams,
    Values,
    annotations_of,
    as_int64,
    paths_read,
    read_tree,
)

if TYPE_CHECKING:
    from sekai.kernels.market import Batch, Field, Market, Record


def make_market(
    definition: Definition,
    values: Values,
    prepared: Any,
    follows: Any,
    spaces: dict[str, Space[Any]],
    limited: bool,
) -> tuple[Market, set[str]]:
    """What the compiled functions of a market are made from, and the parameters that sizes and infos depend on.

    Args:
        definition: The market as its class writes it.
        values: Its parameters.
        prepared: What ``prepare`` returned, None without one.
        follows: The named tuple class that ``derive_row`` returns, None without one.
        spaces: "observation_space" and "action_space".
        limited: Whether there is a time limit.

    Returns:
        What they are made from, and the paths of the parameters that sizes of columns and infos were taken from.

    Raises:
        TypeError: A size is no integer, an info no number, a space of no arrays, or what ``prepare`` or ``derive_row``
            gives is nothing that a row function can have.
    """
    from sekai.kernels.market import Field, Market, Record

    name = definition.name
    sizes = SharedParams(values, f"the shape of {name}.State")
    shapes = {
        path: tuple(_size(sizes, size, f"{name}.State.{path}", [*values.given]) for size in each.shape)
        for path, each in definition.columns.items()
    }
    (infos, read), (reset_infos, read_at_reset) = (
        told_keys(definition, which, values) for which in ("infos", "reset_infos")
    )
    # Columns are compiled for their shapes, so what these follow from may as well be constant.
    constants = paths_read(sizes).difference(infos, reset_infos)
    by_path = {each.name: _param(each, values, each.name in constants) for each in definition.parameters}
    params = definition.params.build(by_path.__getitem__, make=Record)
    for path, each in definition.columns.items():
        by_path[path] = Field(f"s_{as_word(path)}", "state", each.dtype, shapes[path])
    state = definition.state.build(by_path.__getitem__, make=Record)
    derived, rows_derived = _derived(definition, values, prepared, follows)
    options = None
    if definition.options is not None:
        kinds = annotations_of(definition.options, f"{name}.Options")
        fields = (
            Field(f"o_{each}", "number", _dtype_of(kinds[each], f"{name}.Options.{each}"))
            for each in definition.options._fields
        )
        options = Record(definition.options, tuple(fields))
    seen, acted = (
        _batch(spaces[which], f"{name}.{which}", which == "action_space")
        for which in ("observation_space", "action_space")
    )
    masks = None
    if "mask_row" in definition.functions:
        masks = _batch(mask_space(spaces["action_space"]), f"{name}.mask_row: mask", False)
    for key in (*infos, *reset_infos):
        if by_path[key].kind == "constant":
            raise TypeError(f"{key}: expected a number, since {name} tells it in infos, got {by_path[key].value!r}")
    functions = {
        what.removesuffix("_row"): (function, names) for what, (function, names) in definition.functions.items()
    }
    market = Market(
        name=name,
        module=definition.module,
        functions=functions,
        params=params,
        state=state,
        derived=derived,
        rows_derived=rows_derived,
        options=options,
        randomized=tuple(by_path[path].name for path in values.ranges),
        actions=acted,
        observations=seen,
        masks=masks,
        infos={key: by_path[key] for key in infos},
        reset_infos={key: by_path[key] for key in reset_infos},
        limited=limited,
        parallel_from=definition.parallel_from,
    )
    return market, paths_read(sizes) | read | read_at_reset


def _param(parameter: Parameter, values: Values, is_constant: bool) -> Field:
    from sekai.kernels.market import Field

    path, name = parameter.name, f"p_{as_word(parameter.name)}"
    value = None if parameter.is_object else values.given[path]
    if value is None or isinstance(value, (str, bool)) or (is_constant and isinstance(value, int)):
        return Field(name, "constant", value=value)
    if path in values.columns or path in values.ranges:
        return Field(name, "column", np.dtype(getattr(value, "dtype", np.float64)))
    if isinstance(value, np.ndarray):
        return Field(name, "array")
    return Field(name, "number", np.dtype(np.int64 if isinstance(value, int) else np.float64))


def _size(params: SharedParams, size: Any, where: str, paths: list[str]) -> int:
    length = size(params) if callable(size) else size
    if isinstance(size, str):
        # A part that several markets have does not know what it is called there.
        named = [size] if size in paths else [path for path in paths if path.endswith(f".{size}")]
        if len(named) != 1:
            raise TypeError(f"{where}: expected a size that is one parameter of {paths}, got {size!r}")
        length = attrgetter(named[0])(params)
    if not isinstance(length, int) or isinstance(length, bool) or length < 0:
        raise TypeError(f"{where}: expected a shape of integers of at least 0, got {size!r}: {length!r}")
    return length


def _derived(definition: Definition, values: Values, prepared: Any, follows: Any) -> tuple[Record | None, int]:
    """What row functions get as ``derived``: the fields of what was prepared, then those of each row.

    Returns:
        The record, None without any; and how many of its last fields are of each row.
    """
    from sekai.kernels.market import Field, Record

    market, records = definition.name, []
    if prepared is not None:
        records.append(_prepared(prepared, f"{market}.prepare: "))
    rows_derived = 0
    if follows is not None:
        kind = "column" if values.columns or values.ranges else "number"
        tree = read_tree(follows, follows.__name__, definition.parts)
        fields = {
            path: Field(f"d_{as_word(path)}", kind, _dtype_of(each, f"{market}.derive_row: {path}"))
            for path, each in tree.leaves().items()
        }
        records.append(tree.build(fields.__getitem__, make=Record))
        rows_derived = len(tree.fields)
    if len(records) < 2:
        return records[0] if records else None, rows_derived
    names = [name for record in records for name in record.kind._fields]
    for name in names:
        if names.count(name) > 1:
            raise TypeError(f"{market}.derive_row: expected other names than those of prepare, got {name!r} in both")
    return Record(_tuple_of("Derived", tuple(names)), records[0].fields + records[1].fields), rows_derived


def _prepared(prepared: Any, where: str, path: str = "") -> Record:
    from sekai.kernels.market import Field, Record

    fields: list[Any] = []
    for name, value in zip(prepared._fields, prepared, strict=True):
        word = f"d_{as_word(path + name)}"
        if hasattr(value, "_fields"):
            fields.append(_prepared(value, where, f"{path}{name}."))
        elif value is None or isinstance(value, (str, bool, np.bool_)):
            fields.append(Field(word, "constant", value=bool(value) if isinstance(value, np.bool_) else value))
        elif isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "biuf":
            fields.append(Field(word, "array"))
        elif isinstance(value, (int, np.integer)) and as_int64(value, f"{where}{path}{name}") == value:
            fields.append(Field(word, "number", np.dtype(np.int64)))
        elif isinstance(value, (float, np.floating)):
            fields.append(Field(word, "number", np.dtype(np.float64)))
        else:
            expected = "expected an array of numbers, a number, a string, a bool or None"
            raise TypeError(f"{where}{path}{name}: {expected}, got {value!r}")
    return Record(type(prepared), tuple(fields))


@functools.cache
def _tuple_of(name: str, fields: tuple[str, ...]) -> Any:
    """A named tuple class, the same one for the same fields: for another one everything would be compiled again."""
    return namedtuple(name, fields)


def _dtype_of(annotation: Any, where: str) -> np.dtype[Any]:
    if not isinstance(annotation, (type, np.dtype)) or np.dtype(annotation).kind not in "biuf":
        raise TypeError(f"{where}: expected a dtype of numbers as annotation, e.g. np.float64, got {annotation!r}")
    return np.dtype(annotation)


def _batch(space: Space[Any], where: str, are_actions: bool) -> Batch:
    from sekai.kernels.market import Batch, Part
    from sekai.kernels.source import MOST_UNROLLED

    spaces, names = leaves(space, where)
    parts = []
    for each in spaces:
        is_number = are_actions and each.shape == ()
        shape = each.shape or ((1,) if not is_number else ())
        valid = _valid(each) if are_actions else ()
        limits = _limits(each) if len(set(valid)) > MOST_UNROLLED else ()
        parts.append(Part(np.dtype(each.dtype), shape, is_number, valid, limits))
    if not names:
        return Batch(tuple(parts))
    return Batch(tuple(parts), tuple if names is True else _tuple_of("Named", names))


def _limits(space: Any) -> tuple[tuple[float, ...], ...]:
    """The least and the greatest of each item."""
    if isinstance(space, Box):
        low, high = space.low, space.high
    else:
        low, high = space.start, space.start + space.nvec - 1
    return tuple(np.ravel(low).tolist()), tuple(np.ravel(high).tolist())


def _valid(space: Any) -> tuple[str, ...]:
    """The source of whether items are of a space; NaN and infinite ones never are."""
    if isinstance(space, Discrete):
        return (f"({{x}} >= {space.start}) & ({{x}} <= {space.start + space.n - 1})",)
    if isinstance(space, MultiBinary):
        return ("({x} >= 0) & ({x} <= 1)",) * int(np.prod(space.shape))
    if isinstance(space, MultiDiscrete):
        starts, counts = np.ravel(space.start), np.ravel(space.nvec)
        pairs = zip(starts.tolist(), counts.tolist(), strict=True)
        return tuple(f"({{x}} >= {start}) & ({{x}} <= {start + n - 1})" for start, n in pairs)
    if space.dtype.kind == "b":
        return ("{x} == {x}",) * (int(np.prod(space.shape)) if space.shape else 1)
    word = f"_{space.dtype.name}"
    low, high = np.ravel(space.low), np.ravel(space.high)
    return tuple(_between(a, b, word) for a, b in zip(low.tolist(), high.tolist(), strict=True))


def _between(low: float, high: float, word: str) -> str:
    if isinstance(low, int):
        return f"({{x}} >= {word}({low})) & ({{x}} <= {word}({high}))"
    if low == -np.inf and high == np.inf:
        return f"abs({{x}}) < {word}(_inf)"
    below = f"({{x}} < {word}(_inf))" if high == np.inf else f"({{x}} <= {word}({high!r}))"
    above = f"({{x}} > {word}(-_inf))" if low == -np.inf else f"({{x}} >= {word}({low!r}))"
    return f"{above} & {below}"
