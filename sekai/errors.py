"""Every exception of the kit. All can be pickled, so that they survive the way out of a worker process."""

from __future__ import annotations

from collections.abc import Sequence


class SekaiError(Exception):
    """Base of every exception the kit raises on its own account."""


class EnvNotFound(SekaiError, LookupError):
    """No environment is registered under an id.

    Attributes:
        id: The id that was looked up.
        suggestions: Registered ids that come close to it.
        remedy: What else might help, a sentence for the message.
    """

    def __init__(self, id: str, suggestions: Sequence[str] = (), remedy: str = "") -> None:
        self.id = id
        self.suggestions = list(suggestions)
        self.remedy = remedy
        text = f"no environment is registered as {id!r}"
        if self.suggestions:
            text += f"; did you mean {' or '.join(repr(name) for name in self.suggestions)}?"
        elif remedy:
            text += "."
        super().__init__(text + (f" {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[type[EnvNotFound], tuple[str, list[str], str]]:
        return type(self), (self.id, self.suggestions, self.remedy)


class EnvAlreadyRegistered(SekaiError, ValueError):
    """An id was registered a second time."""


class InvalidAction(SekaiError, ValueError):
    """An action lies outside the action space."""


class InvalidObservation(SekaiError, ValueError):
    """An observation is of another shape, dtype or structure than its space, or a wrapper cannot show it in its own."""


class ResetRequired(SekaiError, RuntimeError):
    """``step()`` was called before the first ``reset()``, or after an episode ended without one."""


class AsyncCallPending(SekaiError, RuntimeError):
    """A call was made while an earlier asynchronous one was still running."""


class SpaceMismatch(SekaiError, ValueError):
    """Sub-envs of one vector environment have different spaces."""


class DependentRows(SekaiError, ValueError):
    """Sub-envs were to be cut into shards that depend on each other."""


class VecEnvClosed(SekaiError, RuntimeError):
    """A closed vector environment was used."""


class VecEnvWorkerError(SekaiError, RuntimeError):
    """A sub-env failed in its worker process, or the worker died.

    Attributes:
        rank: Index of the sub-env.
        exc_type: Name of the exception's class in the worker.
        message: Text of that exception.
        remote_traceback: The worker's traceback, as text.
    """

    def __init__(self, rank: int, exc_type: str, message: str, remote_traceback: str = "") -> None:
        self.rank = rank
        self.exc_type = exc_type
        self.message = message
        self.remote_traceback = remote_traceback
        text = f"sub-env {rank}: {exc_type}: {message}"
        super().__init__(text + (f"\n\n{remote_traceback}" if remote_traceback else ""))

    def __reduce__(self) -> tuple[type[VecEnvWorkerError], tuple[int, str, str, str]]:
        return type(self), (self.rank, self.exc_type, self.message, self.remote_traceback)


class VecEnvAttributeError(VecEnvWorkerError, AttributeError):
    """An attribute of a sub-env in a worker process could not be read, changed or called, with an AttributeError there.

    So ``except AttributeError`` hears of an unknown name on every backend. One in a ``step()`` or ``reset()`` is a
    ``VecEnvWorkerError`` like any other exception.
    """
