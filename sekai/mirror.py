"""The rule by which asynchronous methods follow the synchronous ones, for ``Env`` and ``VecEnv`` alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LoopRunning(RuntimeError):
    """A method that needs an event loop of its own was called inside a running one."""


class AsyncMirror:
    """Gives a class ``async_step()`` and ``async_reset()`` that run its ``step()`` and ``reset()``.

    The rule, for step and reset each on its own: a class that has a ``step()`` in its body and no ``async_step()``
    is given one, which runs the ``step()`` of that class and not the most derived one, so that ``super()`` leads
    both ways through the same classes in the same order, each once. This holds for every class of the method
    resolution order, mixins that are no ``AsyncMirror`` included, and is seen to whenever a class is defined. So a
    class that overrides only ``step()``, in its own body or through a mixin, never has an ``async_step()`` that
    does something else.
    """

    step: Callable[..., Any]
    reset: Callable[..., Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, other in (("step", "async_step"), ("reset", "async_reset")):
            for provider in cls.__mro__:
                if _has(provider, name) and _lacks(provider, other):
                    _give(provider, cls, name, other)

    async def async_step(self, *args: Any, **kwargs: Any) -> Any:
        """Async step; the default runs ``step()``."""
        return _lowest(self, "step")(*args, **kwargs)

    async def async_reset(self, *args: Any, **kwargs: Any) -> Any:
        """Async reset; the default runs ``reset()``."""
        return _lowest(self, "reset")(*args, **kwargs)


def _has(provider: type, name: str) -> bool:
    """Whether a class has a method in its own body that does something."""
    own = provider.__dict__
    return name in own and not getattr(own[name], "__isabstractmethod__", False) and not own.get("_is_protocol")


def _lacks(provider: type, other: str) -> bool:
    """Whether a class has no such method of its own, but perhaps one copied with a class (as by dataclass slots)."""
    own = provider.__dict__.get(other)
    return own is None or getattr(own, "mirrors", provider) is not provider


def _give(provider: type, cls: type, name: str, other: str) -> None:
    """Give ``provider``, a base of ``cls``, the method ``other`` that runs its method ``name``."""
    try:
        setattr(provider, other, _mirror(provider, name, other))
    except TypeError:  # a class written in C takes none; where it comes first, the class made of it does
        if next(each for each in cls.__mro__ if name in each.__dict__ or other in each.__dict__) is provider:
            setattr(cls, other, _mirror(cls, name, other))


def _mirror(provider: type, name: str, other: str) -> Any:
    """An asynchronous method that runs the method ``name`` as ``provider`` has it."""

    async def mirror(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return _bound(self, provider, name)(*args, **kwargs)
        except LoopRunning as error:
            cls = provider.__name__
            raise RuntimeError(
                f"{type(self).__name__}.{other}(): {cls} overrides {name}() and not {other}(), so that {cls}.{name}() "
                f"is run inside the event loop, where what it calls cannot work (see the error above). Write "
                f"{cls}.{other}() as well, with `await super().{other}(...)` where {cls}.{name}() has the sync call"
            ) from error

    mirror.__name__, mirror.__qualname__ = other, f"{provider.__qualname__}.{other}"
    mirror.__doc__ = f"Run ``{name}()``."
    mirror.mirrors = provider  # type: ignore[attr-defined]
    return mirror


def _bound(self: Any, provider: type, name: str) -> Any:
    """The method ``name`` of an object as its base ``provider`` has it."""
    order = type(self).__mro__
    above = order[: order.index(provider)]
    if any(name in each.__dict__ for each in above):
        return getattr(super(above[-1], self), name)
    return getattr(self, name)  # with what has been assigned to the instance


def _lowest(self: Any, name: str) -> Any:
    """The method ``name`` of the last class that has one: whoever gets here asks for no other's changes."""
    providers = [each for each in type(self).__mro__ if _has(each, name)]
    return _bound(self, providers[-1] if providers else type(self), name)
