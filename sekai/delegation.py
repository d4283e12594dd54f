"""How a wrapper shows what it wraps, and what of it it does not show."""

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


def require_no_mask(wrapper: Any, inner: Any) -> None:
    """NotImplementedError where what is inside has masks, for a wrapper that takes other actions than it.

    Args:
        wrapper: An ``ActionWrapper`` or ``VecActionWrapper``.
        inner: What it wraps.
    """
    if inner.has_action_mask:
        expected = f"expected one of the actions that it takes, got that of what it hands to {inner}"
        remedy = "write action_mask(), or ask only where has_action_mask is True"
        raise NotImplementedError(f"{type(wrapper).__name__}.action_mask(): {expected}; {remedy}")
