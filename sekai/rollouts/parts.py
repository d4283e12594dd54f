"""Batches as nested arrays over many steps: room for them, writing one, joining some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sekai.batching.layout import copy_batch
from sekai.errors import InvalidObservation


def map_parts(function: Callable[..., Any], batch: Any, *others: Any) -> Any:
    """Call ``function`` on the arrays (or lists of elements) that have the same place in batches nested alike."""
    if isinstance(batch, dict):
        return {key: map_parts(function, part, *(other[key] for other in others)) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map_parts(function, *parts) for parts in zip(batch, *others, strict=True))
    return function(batch, *others)


def room_for(batch: Any, num_steps: int) -> Any:
    """Room for ``num_steps`` batches like this one, not filled: arrays with one more axis, or a list of batches."""

    def room(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return np.empty((num_steps, *part.shape), part.dtype)
        return [None] * num_steps

    return map_parts(room, batch)


def write_step(steps: Any, step: int, batch: Any) -> None:
    """Copy a batch into its place among the steps.

    Args:
        steps: As ``room_for`` gives it.
        step: Which step.
        batch: A batch like the first one: of its shapes, and of dtypes that convert to its without loss.

    Raises:
        InvalidObservation: A shape or dtype is another.
    """
    if isinstance(steps, np.ndarray):
        fits = batch.dtype == steps.dtype or np.can_cast(batch.dtype, steps.dtype, "safe")
        if batch.shape != steps.shape[1:] or not fits:
            raise InvalidObservation(
                f"step {step}: expected a batch of shape {steps.shape[1:]} and dtype {steps.dtype}, as before, "
                f"got shape {batch.shape} and dtype {batch.dtype}"
            )
        steps[step] = batch
    elif isinstance(steps, list):
        steps[step] = copy_batch(batch)
    else:
        for key in steps if isinstance(steps, dict) else range(len(steps)):
            write_step(steps[key], step, batch[key])


def join(batches: Sequence[Any], like: Any) -> Any:
    """The rows of some batches as one, in the dtypes of a batch like them."""

    def joined(part: Any, *parts: Any) -> Any:
        if isinstance(part, np.ndarray):
            return np.concatenate([part[:0], *parts], dtype=part.dtype, casting="same_kind")
        return [row for rows in parts for row in rows]

    return map_parts(joined, like, *batches)
