"""What went wrong in sub-envs that run elsewhere, as text, and the exception that is made of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sekai.errors import VecEnvWorkerError

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

    @classmethod
    def describe(cls, rank: int, error: BaseException, own: bool = False) -> Failure:
        """An exception of sub-env ``rank`` as text; ``own`` marks what the kit, not the user's code, refused."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        if own:
            name = OWN + kind.__name__
        message = _safely(lambda: str(error), "(its message cannot be read)")
        text = _safely(
            lambda: "".join(traceback.format_exception(kind, error, error.__traceback__)),
            "(its traceback cannot be read)",
        )
        return cls(rank, name, message[:_LONGEST], text[-_LONGEST:])


def worker_error(failures: Sequence[Failure]) -> VecEnvWorkerError:
    """The failure of the first sub-env as an exception, whose message names the others."""
    first, *others = sorted(failures, key=lambda failure: failure.rank)
    message = first.message
    if others:
        also = ", ".join(f"sub-env {other.rank} ({other.exc_type}: {other.message})" for other in others)
        message += f"; also failed: {also}"
    return VecEnvWorkerError(first.rank, first.exc_type, message, first.traceback)


def _safely(read: Callable[[], str], otherwise: str) -> str:
    """What an exception says, which is code of its own and may do anything."""
    try:
        return str.__str__(read())
    except BaseException:
        return otherwise
