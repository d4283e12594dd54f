"""How a wrapper shows what it wraps."""

from __future__ import annotations

from typing import Any


class FromInner:
    """A class attribute of a wrapper that reads the attribute of that name of what it wraps.

    It has no ``__set__``, so that an assignment, to an instance or in the body of a subclass, takes its place.

    Args:
        inner: The wrapper's attribute that holds what it wraps.
    """

    def __init__(self, inner: str) -> None:
        self.inner = inner

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: type) -> Any:
        return self if wrapper is None else getattr(getattr(wrapper, self.inner), self.name)
