"""What the author of a market made of row functions has written, read once per class."""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sekai.checks import check_count, did_you_mean
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from sekai.spaces.space import name_instead
from sekai.vector.kernel.parameters import (
    Parameter,
    SharedParams,
    Tree,
    Values,
    is_part,
    paths_read,
    read_parameters,
    read_tree,
)

#: What each row function may ask for, by name.
ARGUMENTS = {
    "reset_row": ("params", "derived", "state", "random", "i", "options"),
    "step_row": ("params", "derived", "state", "random", "i", "elapsed", "action"),
    "observe_row": ("params", "derived", "state", "i", "elapsed", "observation"),
    "derive_row": ("params",),
    "mask_row": ("params", "derived", "state", "i", "elapsed", "mask"),
}
#: What a market's class writes where it wants to.
WRITTEN = ("Options", *ARGUMENTS, "prepare", "check", "check_options")
#: Those that a market may do without.
_OPTIONAL_ROWS = ("derive_row", "mask_row")


class ColumnOf(NamedTuple):
    """The annotation of a state field that is an array in each row; see ``column``."""

    dtype: Any
    shape: tuple[Any, ...]


def column(dtype: Any, *shape: int | str | Callable[[Any], int]) -> Any:
    """Annotate a state field that has an array in each row.

    Args:
        dtype: Of its items.
        shape: Of one row: numbers, names of parameters that are integers (of a part's, where no other parameter has
            the name, or with the part: "book.levels"), and functions of the parameters that all sub-envs share.

    Examples:
        >>> class State(NamedTuple):
        ...     depth: column(np.int32, "levels", 2)
        ...     queue: column(np.uint16, lambda params: 4 * params.levels)
    """
    return ColumnOf(np.dtype(dtype), shape)


@dataclass(frozen=True, eq=False)
class Definition:
    """A market as its class writes it.

    Attributes:
        name: Of the class.
        module: Of the class.
        params: The ``Params`` class.
        parameters: Its fields.
        state: The ``State`` class.
        columns: The dtype and shape of its fields, by path.
        options: The ``Options`` class, None for none.
        functions: The row functions and the names of their arguments, by "reset_row" and so on.
        plain: Functions in plain Python: ``prepare``, ``check``, ``check_options``, where there are any.
        spaces: "observation_space" and "action_space": a space, or a function of the parameters.
        infos: Keys of the infos of a step, or a function of the parameters.
        reset_infos: Those of a reset, likewise.
        parallel_from: From how many sub-envs on it may run on several threads, None for the kit's number.
        parts: The classes of the parts that an env was given where there may be one of any class.
    """

    name: str
    module: str
    params: Tree
    parameters: tuple[Parameter, ...]
    state: Tree
    columns: dict[str, ColumnOf]
    options: Any
    functions: dict[str, tuple[Any, tuple[str, ...]]]
    plain: dict[str, Callable[..., Any]]
    spaces: dict[str, Any]
    infos: tuple[str, ...] | Callable[..., Any]
    reset_infos: tuple[str, ...] | Callable[..., Any]
    parallel_from: int | None
    parts: dict[str, Any]


#: What a market's class may leave out, or have from its base, so that nobody would notice it misspelt.
_UNNOTICED = (
    *("infos", "reset_infos", "parallel_from", "check_options", "held_parameters", "snapshot_ignores"),
    *("observation_space", "action_space", *ARGUMENTS),
)
#: What it may leave out and whose name a subclass might have other use for.
_UNNOTICED_WHERE_MISSING = ("Params", "Options", "prepare", "check")
#: Arguments of an env, which nobody reads from its class.
_OF_AN_ENV = ("num_envs", "autoreset", "max_episode_steps", "autoreset_options")


class NoParams(NamedTuple):
    """The parameters of a market that has none."""


def read_definition(market: type, reserved: Callable[[str], bool]) -> Definition:
    """Read a market's class.

    Args:
        market: The class.
        reserved: Whether a name is one of the base class.

    Raises:
        TypeError: Something is missing, is not what it has to be, or has a name that is taken; the message names it.
    """
    name = market.__name__
    _refuse_misspelt(market, reserved)
    params = read_tree(_static(market, "Params", NoParams), f"{name}.Params", {})
    parameters = read_parameters(params, f"{name}.Params")
    if _static(market, "State", None) is None:
        raise TypeError(f"{name}.State: expected a named tuple class with a field for each column, got none")
    state = read_tree(_static(market, "State", None), f"{name}.State", {})
    columns = _columns(state, name)
    options = _static(market, "Options", None)
    if options is not None:
        for field in read_parameters(read_tree(options, f"{name}.Options"), f"{name}.Options"):
            if field.number is None or field.constants or field.name not in options._field_defaults:
                raise TypeError(f"{name}.Options.{field.name}: expected a number with a default value")
    for each in (*params.fields, *state.fields):
        if reserved(each) or each in ("autoreset", "max_episode_steps", "autoreset_options"):
            raise TypeError(f"{name}: expected no field named {each!r}, which every KernelVecEnv has")
    for each in state.fields:
        if each in params.fields:
            raise TypeError(f"{name}: expected other names in State than in Params, got {each!r} in both")
    functions = {}
    for each in ARGUMENTS:
        function = _static(market, each, None)
        if each == "mask_row" and _is_older(market, each, "action_space"):
            continue  # of other actions
        if function is not None:
            functions[each] = _row_function(function, each, name, options)
        elif each not in _OPTIONAL_ROWS:
            raise TypeError(f"{name}.{each}: expected a function of one row, compiled by sekai.kernels.jit, got none")
    plain = {}
    for each in ("prepare", "check", "check_options"):
        function = _static(market, each, None)
        if function is not None:
            plain[each] = function
    for each, (_, arguments) in functions.items():
        if "derived" in arguments and "derive_row" not in functions and "prepare" not in plain:
            raise TypeError(f"{name}.{each}: expected a derive_row or a prepare, since it asks for derived")
    told = {each: _static(market, each, ()) for each in ("infos", "reset_infos")}
    for each, keys in told.items():
        if not callable(keys):
            told[each] = _read_keys(keys, f"{name}.{each}", columns, parameters)
    spaces = {}
    for each in ("observation_space", "action_space"):
        spaces[each] = _static(market, each, None)
        if not isinstance(spaces[each], Space) and not callable(spaces[each]):
            got = name_instead(spaces[each], repr(spaces[each]))
            raise TypeError(f"{name}.{each}: expected a sekai Space or a function of the parameters, got {got}")
    parallel_from = _static(market, "parallel_from", None)
    return Definition(
        name=name,
        module=market.__module__,
        params=params,
        parameters=parameters,
        state=state,
        columns=columns,
        options=options,
        functions=functions,
        plain=plain,
        spaces=spaces,
        parallel_from=None if parallel_from is None else check_count(parallel_from, f"{name}.parallel_from"),
        parts={},
        **told,
    )


def with_parts(definition: Definition, params: Any) -> Definition:
    """The definition of an env whose parameters hold parts where there may be one of any class.

    Args:
        definition: The market as its class writes it.
        params: A ``Params``.

    Raises:
        TypeError: A part lacks a class that the market asks for, or a field of it is annotated wrongly.
    """
    open_fields = [each.name for each in definition.parameters if each.is_part]
    parts = {name: type(getattr(params, name)) for name in open_fields if is_part(getattr(params, name))}
    if not parts:
        return definition
    name = definition.name
    tree = read_tree(definition.params.kind, f"{name}.Params", parts)
    state = read_tree(definition.state.kind, f"{name}.State", parts)
    return replace(
        definition,
        params=tree,
        parameters=read_parameters(tree, f"{name}.Params"),
        state=state,
        columns=_columns(state, name),
        parts=parts,
    )


def _columns(state: Tree, market: str) -> dict[str, ColumnOf]:
    _refuse_defaults(state, f"{market}.State")
    return {path: _column(annotation, f"{market}.State.{path}") for path, annotation in state.leaves().items()}


def _refuse_defaults(state: Tree, where: str) -> None:
    """TypeError for a default of a column, which would not be seen: what an episode begins with is ``reset_row``'s."""
    for name, value in state.kind._field_defaults.items():
        raise TypeError(f"{where}.{name}: expected no default, since reset_row says how it begins, got {value!r}")
    for name, each in state.fields.items():
        if isinstance(each, Tree):
            _refuse_defaults(each, f"{where}.{name}")


def _refuse_misspelt(market: type, reserved: Callable[[str], bool]) -> None:
    """TypeError for an attribute of a class that nobody would read, where it is sure that one was meant to be read."""
    from difflib import get_close_matches

    known = (*_UNNOTICED, *_UNNOTICED_WHERE_MISSING, "State")
    written = {
        name: value
        for name, value in vars(market).items()
        if not name.startswith("_") and name not in known and not _is_for_envs(value)
    }
    by_lower = {name.lower(): name for name in written}
    for expected in (*_UNNOTICED, *_UNNOTICED_WHERE_MISSING):
        is_missing = _static(market, expected, None) is None
        if vars(market).get(expected) is None and (is_missing or expected in _UNNOTICED):
            for each in get_close_matches(expected.lower(), by_lower, cutoff=0.88):  # "info", not "step_now"
                got = by_lower[each]
                if is_missing or not reserved(got):
                    raise TypeError(f"{market.__name__}.{got}: expected another name, or {expected!r} if that is meant")
    for name, value in written.items():
        if name in _OF_AN_ENV:
            raise TypeError(f"{market.__name__}.{name}: expected as an argument of an env, got {value!r} in the class")
        if getattr(value, "is_kernel", False) and (name.endswith("_row") or f"{name}_row" in ARGUMENTS):
            raise TypeError(
                f"{market.__name__}.{name}: expected a row function to be one of {', '.join(ARGUMENTS)}; "
                f"one for another use has a name with an underscore in front"
            )


def _is_for_envs(value: Any) -> bool:
    """Whether what a class has is a method or a property of an env, as none of what a market is made of is."""
    if isinstance(value, (property, classmethod, functools.cached_property)):
        return True
    return inspect.isfunction(value) and next(iter(inspect.signature(value).parameters), "") == "self"


def _static(market: type, name: str, default: Any) -> Any:
    """An attribute as it stands in the class, no method of it, nor one of the base class."""
    for kind in market.__mro__:
        if kind.__name__ == "KernelVecEnv" and kind.__module__.startswith("sekai.vector."):
            return default
        if name in vars(kind):
            value = vars(kind)[name]
            return value.__func__ if isinstance(value, staticmethod) else value
    return default


def _is_older(market: type, name: str, other: str) -> bool:
    """Whether a class has an attribute from further up than another one."""
    first, second = (
        next((place for place, kind in enumerate(market.__mro__) if each in vars(kind)), 0) for each in (name, other)
    )
    return first > second


def _column(annotation: Any, where: str) -> ColumnOf:
    shape = ()
    if isinstance(annotation, ColumnOf):
        annotation, shape = annotation
    try:
        dtype = np.dtype(annotation)
    except TypeError:
        dtype = np.dtype(object)
    if not _is_compiled(dtype):
        expected = "expected a dtype as annotation, e.g. np.float64, or column(dtype, *shape)"
        raise TypeError(f"{where}: {expected}, got {annotation}")
    return ColumnOf(dtype, shape)


def _is_compiled(dtype: np.dtype[Any]) -> bool:
    """Whether Numba has numbers of this dtype."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype != np.float16


def _row_function(function: Any, what: str, market: str, options: Any) -> tuple[Any, tuple[str, ...]]:
    where = f"{market}.{what}"
    if not getattr(function, "is_kernel", False):
        raise TypeError(f"{where}: expected a function compiled by sekai.kernels.jit, got {function!r}")
    names = tuple(inspect.signature(getattr(function, "py_func", function)).parameters)
    for name in names:
        if name not in ARGUMENTS[what]:
            raise TypeError(f"{where}: expected arguments among {', '.join(ARGUMENTS[what])}, got {name!r}")
        if name == "options" and options is None:
            raise TypeError(f"{where}: expected the market to have Options, since it asks for options")
    return function, names


def _read_keys(keys: Any, where: str, columns: Collection[str], parameters: Iterable[Parameter]) -> tuple[str, ...]:
    if isinstance(keys, (str, Mapping)):  # a str is what a forgotten comma makes
        raise TypeError(f"{where}: expected a sequence of names, got {keys!r}")
    numbers = [each.name for each in parameters if each.number is not None]
    for key in keys:
        if key not in columns and key not in numbers:
            raise TypeError(f"{where}: expected fields of State and numbers of Params, got {key!r}")
    return tuple(keys)


def told_keys(definition: Definition, which: str, values: Values) -> tuple[tuple[str, ...], set[str]]:
    """What the infos of a step ("infos") or of a reset ("reset_infos") tell.

    That is what the market says, and then whatever parameters are drawn: nothing else tells which an episode had.

    Returns:
        The keys, and the names of the parameters they depend on.

    Raises:
        TypeError: The market's function gives no names of columns and numbers.
    """
    keys, read = getattr(definition, which), set()
    if callable(keys):
        where = f"{definition.name}.{which}"
        params = SharedParams(values, where)
        keys, read = _read_keys(keys(params), where, definition.columns, definition.parameters), paths_read(params)
    return tuple(dict.fromkeys((*keys, *values.ranges))), read


def make_space(definition: Definition, which: str, values: Values) -> tuple[Space[Any], set[str]]:
    """A space of a market, and the names of the parameters it depends on."""
    space = definition.spaces[which]
    if isinstance(space, Space):
        return space, set()
    params = SharedParams(values, f"{definition.name}.{which}")
    made = space(params)
    if not isinstance(made, Space):
        got = name_instead(made, repr(made))
        raise TypeError(f"{definition.name}.{which}: expected it to return a sekai Space, got {got}")
    return made, paths_read(params)


def leaves(space: Space[Any], where: str) -> tuple[list[Any], tuple[str, ...] | bool]:
    """The parts of a space that are one array each, and their names; True for a tuple, False for one array.

    Raises:
        TypeError: The space has parts that are no array of a fixed shape, or containers in containers.
    """
    names: tuple[str, ...] | bool = False
    parts: list[Any] = [space]
    if isinstance(space, Dict):
        parts, names = list(space.spaces.values()), tuple(space.spaces)
    elif isinstance(space, Tuple):
        parts, names = list(space.spaces), True
    if not parts:
        raise TypeError(f"{where}: expected at least one array, got {space!r}")
    for part in parts:
        if not isinstance(part, (Box, Discrete, MultiDiscrete, MultiBinary)) or not _is_compiled(np.dtype(part.dtype)):
            raise TypeError(f"{where}: expected arrays of fixed shapes, or a Dict or Tuple of them, got {part!r}")
    if isinstance(names, tuple) and not all(map(_is_field, names)):
        raise TypeError(f"{where}: expected keys that are names, got {list(names)}")
    return parts, names


def _is_field(name: str) -> bool:
    """Whether a named tuple may have a field of this name."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def bind_parameters(definition: Definition, given: dict[str, Any]) -> Any:
    """A ``Params``, as Python would bind it."""
    names, defaults = definition.params.fields, definition.params.kind._field_defaults
    for name in given:
        if name not in names:
            hint = did_you_mean(name, (*names, *_OF_AN_ENV))
            raise TypeError(f"{definition.name}() got an unexpected keyword argument {name!r}{hint}")
    missing = [name for name in names if name not in given and name not in defaults]
    if missing:
        raise TypeError(f"{definition.name}() missing required keyword arguments: {', '.join(map(repr, missing))}")
    return definition.params.kind(**given)


def require_no_verdict(returned: Any, where: str) -> None:
    """TypeError where a function that is to raise says by a bool what it thinks, which nobody would hear."""
    if isinstance(returned, (bool, np.bool_)):
        raise TypeError(f"{where}: expected it to raise ValueError where something is wrong, got {returned} returned")


def check_parameters(definition: Definition, given: dict[str, Any]) -> Values:
    """Parameters, checked by their annotations and by the market."""
    checked = {each.name: each.check(given[each.name]) for each in definition.parameters}
    values = Values(definition.params, definition.parameters, checked)
    if "check" in definition.plain:
        for params, where in values.combinations():
            try:
                require_no_verdict(definition.plain["check"](params), f"{definition.name}.check")
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error}{where}") from None
            except AttributeError as error:
                if not isinstance(error.obj, tuple) or not hasattr(error.obj, "_fields"):
                    raise
                hint = did_you_mean(str(error.name), error.obj._fields)
                raise AttributeError(f"{definition.name}.check: {error}{hint}") from error
    return values
