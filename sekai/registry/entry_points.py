"""Entry points: ``"module:attr"`` strings that are imported when they are needed, or plain callables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

#: Where something is built: the text ``"package.module:attr"``, or the callable itself.
EntryPoint: TypeAlias = "str | Callable[..., Any]"

# Modules need not be identifiers ("01_walk" can be imported by name), attributes have to be.
_MODULE = re.compile(r"\w+(?:\.\w+)*")
_FORM = re.compile(rf"{_MODULE.pattern}:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def check_entry_point(entry_point: Any, where: str) -> None:
    """Refuse what cannot be an entry point, without importing it.

    Args:
        entry_point: The candidate.
        where: What the error message calls it.

    Raises:
        TypeError: It is neither text nor callable.
        ValueError: The text has another form than ``"module:attr"``.
    """
    if isinstance(entry_point, str):
        if not _FORM.fullmatch(entry_point):
            raise ValueError(f"{where}: expected the form 'module:attr', got {entry_point!r}")
    elif not callable(entry_point):
        raise TypeError(f"{where}: expected 'module:attr' or a callable, got {type(entry_point).__name__}")


def load_entry_point(entry_point: EntryPoint, where: str) -> Callable[..., Any]:
    """The callable behind an entry point, imported if it is named by text.

    Args:
        entry_point: ``"module:attr"`` (the attribute may have dots) or a callable.
        where: What the error message calls it.

    Raises:
        ImportError: The module cannot be imported, or lacks the attribute.
        TypeError: What was found cannot be called.
    """
    if not isinstance(entry_point, str):
        return entry_point
    import importlib

    module_name, _, path = entry_point.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(
            f"{where}: {entry_point!r} cannot be imported ({error}); "
            f"install the package that has it, or correct the registration"
        ) from error
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise ImportError(f"{where}: {entry_point!r} cannot be imported ({error})") from error
    if not callable(found):
        raise TypeError(f"{where}: expected {entry_point!r} to be callable, got {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def import_module_of(id: str) -> str:
    """Import the module that an id of the form ``"module:Id"`` names, and which registers it.

    Returns:
        The id without the module; any other id as it is.

    Raises:
        ImportError: The module cannot be imported.
    """
    module, colon, rest = id.partition(":")
    if not colon or not _MODULE.fullmatch(module):
        return id
    import importlib

    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"environment {id!r}: the module {module!r} cannot be imported ({error})") from error
    return rest


def check_no_vec_env(entry_point: EntryPoint, where: str) -> None:
    """Refuse a ``VecEnv`` class where single environments are expected. Text is not imported for it.

    Args:
        entry_point: The candidate.
        where: What the error message calls it.

    Raises:
        TypeError: It is a subclass of ``VecEnv``.
    """
    if not isinstance(entry_point, type):
        return
    from sekai.vector import VecEnv

    if issubclass(entry_point, VecEnv):
        raise TypeError(
            f"{where}: expected an Env from entry_point {describe_entry_point(entry_point)}, "
            f"which is a VecEnv class; register it as vector_entry_point"
        )


def describe_entry_point(entry_point: EntryPoint | None) -> str:
    """An entry point as text, for tables and messages."""
    if entry_point is None:
        return "-"
    if isinstance(entry_point, str):
        return entry_point
    name = getattr(entry_point, "__qualname__", None)
    return repr(entry_point) if name is None else f"{entry_point.__module__}:{name}"
