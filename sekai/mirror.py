"""The rule by which asynchronous methods follow the synchronous ones, for ``Env`` and ``VecEnv`` alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class AsyncMirror:
    """Gives a class ``async_step()`` and ``async_reset()`` that run its ``step()`` and ``reset()``.

    The rule, applied to every class when it is defined and to step and reset each on its own: of the class
    that provides ``step`` and the class that provides ``async_step``, whichever comes first in the method
    resolution order decides. If it is ``step``, the inherited ``async_step`` belongs to an older ``step``
    and is replaced by the default, which runs the new one. If it is ``async_step``, or one class provides
    both, it stays. So a class that overrides only ``step()``, in its own body or through a mixin, never has
    an ``async_step()`` that does something else.
    """

    step: Callable[..., Any]
    reset: Callable[..., Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if _comes_first(cls, "step", "async_step"):
            cls.async_step = AsyncMirror.async_step  # type: ignore[method-assign]
        if _comes_first(cls, "reset", "async_reset"):
            cls.async_reset = AsyncMirror.async_reset  # type: ignore[method-assign]

    async def async_step(self, *args: Any, **kwargs: Any) -> Any:
        """Async step; the default runs ``step()``."""
        return self.step(*args, **kwargs)

    async def async_reset(self, *args: Any, **kwargs: Any) -> Any:
        """Async reset; the default runs ``reset()``."""
        return self.reset(*args, **kwargs)


def _comes_first(cls: type, name: str, other: str) -> bool:
    """Whether a class of ``cls.__mro__`` that provides ``name`` alone precedes all that provide ``other``."""
    for provider in cls.__mro__:
        if other in provider.__dict__:
            return False
        if name in provider.__dict__:
            return True
    return False
