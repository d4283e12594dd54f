"""Arguments that an entry point does not take: which, of which environment, and what it takes instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sekai.checks import did_you_mean

if TYPE_CHECKING:
    from inspect import Parameter

# What Python says of one argument, and of any where none is taken.
_REFUSAL = re.compile(
    r"got an unexpected keyword argument '(\w+)'|takes no arguments|object\.__init__\(\) takes exactly one argument"
)


@contextmanager
def refusals_named(function: Callable[..., Any], arguments: Collection[str], where: str) -> Iterator[None]:
    """Say of a mistyped argument whose it is, and what comes close, where Python names a class deep inside.

    Args:
        function: What is called in the block.
        arguments: Names of what it is given.
        where: What the error message calls it.

    Raises:
        TypeError: It does not take one of them.
    """
    try:
        yield
    except TypeError as error:
        refusal = _REFUSAL.search(str(error))
        names = parameter_names(function)
        unknown = [name for name in arguments if name not in names]
        refused = refusal and (refusal[1] or next(iter(unknown), None))
        if refused not in unknown:  # another call's
            raise
        raise TypeError(refuse(refused, names, where)) from error


def build_many(build: Callable[..., Any], num_envs: int, /, **arguments: Any) -> Any:
    """Call a vector entry point, with ``num_envs`` by keyword where it names that, or takes keywords alone."""
    parameters = _parameters(build)
    by_position = any(
        item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD, item.VAR_POSITIONAL) for item in parameters
    )
    named = any(item.name == "num_envs" and _is_named(item) for item in parameters)
    if named or (parameters and not by_position):
        return build(num_envs=num_envs, **arguments)
    return build(num_envs, **arguments)


def refuse(name: str, names: Sequence[str], where: str) -> str:
    """The message for an argument that is none of these names."""
    meant = did_you_mean(name, names)
    if name == "max_episode_steps":
        meant = " (which the class of a native environment has to take, to have a time limit)"
    return f"{where} has no argument {name!r}{meant}; it has: {', '.join(names) or 'none'}"


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """What a callable takes by name; of a class also what it hands on, by ``**kwargs``, to those it is derived from."""
    if not isinstance(function, type):
        return [item.name for item in _parameters(function) if _is_named(item)]
    names: list[str] = []
    if hasattr(function, "__signature__"):  # what it says of itself
        names = [item.name for item in _parameters(function) if _is_named(item)]
    for owner in function.__mro__[:-1]:
        if "__init__" not in vars(owner):
            continue
        parameters = _parameters(vars(owner)["__init__"])[1:]
        # A base's positional arguments are for the derived class to give.
        names += [item.name for item in parameters if _is_named(item) and (not names or item.kind is item.KEYWORD_ONLY)]
        if not any(item.kind is item.VAR_KEYWORD for item in parameters):
            break
    return [name for name in dict.fromkeys(names) if name != "num_envs"]


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    import inspect

    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a callable that does not tell
        return []


def _is_named(item: Parameter) -> bool:
    return item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
