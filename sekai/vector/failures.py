"""What went wrong in sub-envs that run elsewhere, as text, and the exception that is made of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sekai.errors import VecEnvAttributeError, VecEnvWorkerError

#: Marks the name of an exception that the kit itself raised.
OWN = "sekai: "

#: Characters of a message or a traceback that are told.
_LONGEST = 100_000


class Failure(NamedTuple):
    """What went wrong in one sub-env, as text: an exception may not survive the way to the parent."""

    rank: int
    exc_type: str
    message: str
    traceback: str = ""
    is_attribute_error: bool = False

    @classmethod
    def describe(cls, rank: int, error: BaseException, own: bool = False, of_attribute: bool = False) -> Failure:
        """An exception as text.

        Args:
            rank: The sub-env.
            error: What it raised.
            own: Whether the kit, not the user's code, refused something.
            of_attribute: Whether an attribute was read, changed or called: an AttributeError then says so to the
                caller, which it must not in the middle of a step.
        """
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        if own:
            name = OWN + kind.__name__
        message = _safely(lambda: str(error), "(its message cannot be read)")
        text = _safely(
            lambda: "".join(traceback.format_exception(kind, error, error.__traceback__)),
            "(its traceback cannot be read)",
        )
        is_attribute_error = of_attribute and isinstance(error, AttributeError)
        return cls(rank, name, message[:_LONGEST], text[-_LONGEST:], is_attribute_error)


def worker_error(failures: Sequence[Failure]) -> VecEnvWorkerError:
    """The failure of the first sub-env as an exception, whose message names the others."""
    first, *others = sorted(failures, key=lambda failure: failure.rank)
    message = first.message
    if others:
        also = ", ".join(f"sub-env {other.rank} ({other.exc_type}: {other.message})" for other in others)
        message += f"; also failed: {also}"
    kind = VecEnvAttributeError if first.is_attribute_error else VecEnvWorkerError
    return kind(first.rank, first.exc_type, message, first.traceback)


def _safely(read: Callable[[], str], otherwise: str) -> str:
    """What an exception says, which is code of its own and may do anything."""
    try:
        return str.__str__(read())
    except BaseException:
        return otherwise
