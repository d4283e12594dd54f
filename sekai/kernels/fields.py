"""Arguments field by field, for source that is written to be compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def structure(value: Any) -> Any:
    """What tells arguments apart that take other source: the types of tuples, at any depth, and of what is in them."""
    return (type(value), *map(structure, value)) if isinstance(value, tuple) else type(value)


class Fields:
    """An argument of generated source field by field, as which a named tuple goes in three times as fast as whole.

    Numba's parallel loops, moreover, cannot capture a tuple of tuples.

    Attributes:
        names: A name for each scalar and array.
        taken_apart: The source of a caller that has the argument, for those names, separated by commas.

    Args:
        name: Of the argument.
        value: One like those it will have.
        scope: Where the source will run; the classes of named tuples go there.
    """

    def __init__(self, name: str, value: Any, scope: dict[str, Any]) -> None:
        self.names: list[str] = []
        self._template = self._unfold(name, value, scope)
        paths = list(_paths(name, value))
        self.taken_apart = f"*{name}" if _is_flat(value) else ", ".join(paths)

    def put_together(self, field: str) -> str:
        """The source of the argument again, each scalar and array ``{}`` in the source ``field``."""
        return self._template.format(*(field.format(name) for name in self.names))

    def _unfold(self, name: str, value: Any, scope: dict[str, Any]) -> str:
        if not isinstance(value, tuple):
            self.names.append(name)
            return "{}"
        items = [self._unfold(f"{name}_{k}", item, scope) for k, item in enumerate(value)]
        inner = "".join(f"{item}, " for item in items)
        if not hasattr(value, "_fields"):
            return f"({inner})"
        scope[f"_{name}"] = type(value)
        return f"_{name}({inner})"


def _is_flat(value: Any) -> bool:
    return isinstance(value, tuple) and not any(isinstance(item, tuple) for item in value)


def _paths(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        for k, item in enumerate(value):
            yield from _paths(f"{path}[{k}]", item)
    else:
        yield path
