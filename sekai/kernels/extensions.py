"""Forms that others than Numba have registered for what Numba compiles: overloads of functions, methods and attributes.

A kernel that calls ``np.rot90(x)`` or ``x.total()`` names none of them, and is compiled from them all the same.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from numba.core.typing.templates import builtin_registry

#: Modules whose functions are known by their version.
VERSIONED = ("numba", "numpy", "llvmlite", "math", "builtins", "operator", "cmath", "typing", "collections", "abc")


def is_versioned(module: str | None) -> bool:
    """Whether the functions of a module are known by its version."""
    return module is not None and module.partition(".")[0] in VERSIONED


class Extensions:
    """What is registered, as far as it is no part of Numba and ``look`` has seen it."""

    def __init__(self) -> None:
        """Know none yet."""
        self._seen = {"functions": 0, "attributes": 0}
        self._of_functions: dict[int, list[Any]] = defaultdict(list)  # by the identity of what they are a form of
        self._of_names: dict[str, list[Any]] = defaultdict(list)
        self._of_operators: list[Any] = []

    def of_function(self, function: Any) -> list[Any]:
        """The forms of a function."""
        return self._of_functions.get(id(function), [])

    def of_names(self, names: set[str]) -> Iterator[Any]:
        """The forms of methods and attributes of any type that have one of some names."""
        for name in sorted(names & self._of_names.keys()):
            yield from self._of_names[name]

    def of_operators(self) -> list[Any]:
        """The forms of all operators."""
        return self._of_operators

    def look(self) -> None:
        """Take note of what has been registered since."""
        for kind, seen in self._seen.items():
            templates = getattr(builtin_registry, kind)
            for template in templates[seen:]:
                form = getattr(template, "_overload_func", None)
                # By where its code stands: what wraps another function goes by that one's module, if it has one.
                if form is None or is_versioned(getattr(form, "__globals__", {}).get("__name__")):
                    continue
                if kind == "attributes":
                    self._of_names[template._attr].append(form)
                elif template.key in _OPERATORS:
                    self._of_operators.append(form)
                else:
                    self._of_functions[id(template.key)].append(form)
            self._seen[kind] = len(templates)


_OPERATORS = frozenset(each for each in vars(operator).values() if callable(each))

#: Those of this process.
EXTENSIONS = Extensions()
