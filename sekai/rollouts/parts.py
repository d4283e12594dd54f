"""Batches as nested arrays over many steps: room for them, and writing one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.batching.nested import copy_batch, map_parts
from sekai.errors import InvalidObservation


def room_for(name: str, batch: Any, num_steps: int, used: Any = None) -> Any:
    """Room for ``num_steps`` batches like this one, not filled: arrays with one more axis, or a list of batches.

    Args:
        name: What the batches are, for error messages.
        batch: One of them.
        num_steps: How many there will be.
        used: Room of which nothing is needed any more, to be taken again; None for fresh memory.

    Raises:
        ValueError: What was used is nested otherwise, or of another shape or dtype.
    """

    def room(part: Any, used: Any = None) -> Any:
        if isinstance(part, np.ndarray):
            return room_of(name, (num_steps, *part.shape), part.dtype, used)
        return [None] * num_steps

    if used is None:
        return map_parts(room, batch)
    try:
        return map_parts(room, batch, used)
    except (IndexError, KeyError, TypeError):
        raise ValueError(f"rollout(out=...): expected {name} of the spaces of this env, nested alike") from None


def room_of(name: str, shape: tuple[int, ...], dtype: DTypeLike, used: Any = None) -> NDArray[Any]:
    """An array, not filled (see ``room_for``)."""
    if used is None:
        return np.empty(shape, dtype)
    if not isinstance(used, np.ndarray) or used.shape != shape or used.dtype != dtype or not used.flags.carray:
        got = f"shape {used.shape} and dtype {used.dtype}" if isinstance(used, np.ndarray) else type(used).__name__
        raise ValueError(
            f"rollout(out=...): {name}: expected a writable, C-contiguous array of shape {shape} and dtype "
            f"{np.dtype(dtype)}, got {got}"
        )
    return used


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
