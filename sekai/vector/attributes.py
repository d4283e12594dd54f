"""Reading and changing attributes of an object that stands for every sub-env, as a native environment does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import stack_values
from sekai.checks import did_you_mean

MemberT = TypeVar("MemberT", bound="Callable[..., Any] | property")

_MARK = "_sekai_shared"


def shared(member: MemberT) -> MemberT:
    """Say of a method or a property of a native env that what it gives belongs to all sub-envs alike.

    By its shape alone nobody could tell: a price grid of 64 levels looks like one number for each of 64 sub-envs, and
    ``get_attr()`` and ``call()`` would deal it out.

    Examples:
        >>> class Auction(NativeVecEnv):
        ...     @property
        ...     @shared
        ...     def levels(self) -> np.ndarray:  # (64,), prices at which anybody may bid
        ...         return self._levels
    """
    setattr(_function_of(member), _MARK, True)
    return member


def _is_shared(owner: Any, name: str) -> bool:
    for provider in type(owner).__mro__:
        if name in provider.__dict__:
            return getattr(_function_of(provider.__dict__[name]), _MARK, False) is True
    return False


def _function_of(member: Any) -> Any:
    """The function inside a property, functools.cached_property, staticmethod or classmethod."""
    for holder in ("fget", "func", "__func__"):
        member = getattr(member, holder, None) or member
    return member


def read_shared_object(
    owner: Any,
    name: str,
    num_envs: int,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    call: bool = False,
) -> list[Any]:
    """One value per sub-env of an attribute or method of ``owner``.

    An array with a leading ``num_envs`` axis is split, into copies, and so is a named tuple of such arrays, and of such
    named tuples, into named tuples; anything else is repeated, and so is everything that a member marked with
    ``@shared`` gives.

    Args:
        owner: The object.
        name: The attribute or method.
        num_envs: The number of sub-envs.
        args: What a method is called with.
        kwargs: What a method is called with.
        call: Whether to call what is callable.

    Raises:
        AttributeError: There is no such name.
        TypeError: There are arguments, but the attribute is not callable.
    """
    value = getattr(owner, name)
    if call and callable(value):
        value = value(*args, **(kwargs or {}))
    elif call and (args or kwargs):
        raise TypeError(f"call({name!r}): {type(owner).__name__}.{name} is no method, but arguments were given")
    if _is_shared(owner, name):
        return [value] * num_envs
    return _split(value) if _has_rows(value, num_envs) else [value] * num_envs


def _has_rows(value: Any, num_envs: int) -> bool:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return bool(value) and all(_has_rows(item, num_envs) for item in value)
    return isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == num_envs


def _split(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [type(value)(*items) for items in zip(*map(_split, value), strict=True)]
    return list(value) if value.ndim == 1 else [row.copy() for row in value]


def _convert(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers in another dtype, if none changes by more than the rounding of a float."""
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
        if values.dtype.kind == dtype.kind == "f":
            kept = np.array_equal(np.isfinite(converted), np.isfinite(values))
        else:
            kept = np.array_equal(converted, values)
    return converted if kept else values


def is_owned(kind: type, name: str) -> bool:
    """Whether an attribute of a vector environment is private, or one that a class of the kit brings along.

    A property of the kit that can be assigned to is none.
    """
    if name.startswith("_"):
        return True
    for provider in kind.__mro__:
        if provider.__module__.partition(".")[0] != "sekai":
            continue
        member = vars(provider).get(name)
        if isinstance(member, property) and member.fset is not None:
            return False
        if name in vars(provider) or name in vars(provider).get("__annotations__", ()):
            return True
    return False


def settable_names(owner: Any) -> set[str]:
    """What ``set_attr`` may have been meant to name, of an object that stands for all sub-envs."""
    kind = type(owner)
    return {name for name in dir(owner) if not (is_owned(kind, name) or callable(getattr(kind, name, None)))}


def write_shared_object(owner: Any, name: str, values: Any, spread: list[Any]) -> None:
    """Change an existing attribute of ``owner``.

    Per-env values, a list or what goes into an attribute that is an array with a leading axis of the sub-envs, are
    stored as one array: of that attribute's dtype where they convert to it without loss, else of their own; a property
    gets them in their own, to check.

    Args:
        owner: The object.
        name: The attribute.
        values: What the caller gave: a list of per-env values, or one value for all.
        spread: The same as one value per sub-env.

    Raises:
        AttributeError: There is no such name, since a new attribute would have no effect on the simulation; or it is
            one that the kit itself uses.
    """
    if is_owned(type(owner), name):
        raise AttributeError(
            f"set_attr: {type(owner).__name__}.{name}: expected an attribute of the simulation, got one that the "
            "vector environment itself works with"
        )
    if not hasattr(owner, name):
        hint = did_you_mean(name, settable_names(owner))
        raise AttributeError(
            f"set_attr: {type(owner).__name__} has no attribute {name!r}{hint}; a new one would have no effect"
        )
    current = getattr(owner, name)
    per_env = isinstance(current, np.ndarray) and current.ndim > 0 and len(current) == len(spread)
    if isinstance(values, list) or (per_env and not _is_shared(owner, name)):
        values = stack_values(spread)
        checks = hasattr(getattr(type(owner), name, None), "__set__")
        if per_env and not checks and values.dtype.kind in "biuf" and current.dtype.kind in "biuf":
            if values.shape != current.shape:
                expected = f"expected a value of shape {current.shape[1:]} for each sub-env (a list holds one each)"
                raise ValueError(f"set_attr({name!r}): {expected}, got one of shape {values.shape[1:]}")
            values = _convert(values, current.dtype)
    setattr(owner, name, values)
