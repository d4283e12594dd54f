"""What adapters ask the sub-envs of a VecEnv for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sekai.errors import VecEnvWorkerError
from sekai.vector import VecEnv


@contextmanager
def attribute_errors() -> Iterator[None]:
    """An attribute that sub-envs in worker processes lack is an AttributeError here, which other libraries expect."""
    try:
        yield
    except VecEnvWorkerError as error:
        if error.exc_type != "AttributeError":
            raise
        raise AttributeError(str(error)) from error


def render_modes(vec: VecEnv[Any, Any]) -> list[Any]:
    """The ``render_mode`` of each sub-env, None for all where they have none, as they draw nothing."""
    try:
        with attribute_errors():
            return vec.get_attr("render_mode")
    except AttributeError:
        return [None] * vec.num_envs
