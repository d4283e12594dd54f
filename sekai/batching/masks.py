"""Batches of action masks: elements of ``mask_space(action_space)``, each part with a first axis of the sub-envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple, as_mask, full_mask, mask_space
from sekai.spaces.multi_discrete import draw_allowed, mask_at
from sekai.spaces.space import check_mask


def batch_of_masks(space: Space[Any], masks: Sequence[Any], where: str) -> Any:
    """The batch of the masks of some sub-envs, in fresh arrays; where one is None, everything is allowed.

    Args:
        space: The action space.
        masks: What each sub-env says.
        where: What error messages call it.

    Raises:
        TypeError: One of them is no mask of the space, or its masks have no fixed form.
        ValueError: One of them has another shape, other keys or other values.
    """
    rows = [as_mask(space, mask, f"{where}: sub-env {row}") for row, mask in enumerate(masks)]
    return layout.concatenate(mask_space(space), rows)


def full_masks(space: Space[Any], n: int) -> Any:
    """The batch of ``n`` masks that allow everything."""
    return layout.concatenate(mask_space(space), [full_mask(space)] * n)


def check_masks(masks: Space[Any], n: int, batch: Any, where: str) -> Any:
    """A batch of masks as int8 arrays, once it is known to be one; arrays of int8 are not copied.

    Args:
        masks: The space of one mask.
        n: The number of rows.
        batch: The batch.
        where: What error messages call it.

    Raises:
        TypeError: It is not nested like the space, or holds something else than bools and integers.
        ValueError: It has another shape or other values.
    """
    if isinstance(masks, Dict):
        if not isinstance(batch, dict) or batch.keys() != masks.keys():
            raise TypeError(f"{where}: expected a dict with the keys {list(masks)}, got {batch!r}")
        return {key: check_masks(part, n, batch[key], f"{where}[{key!r}]") for key, part in masks.items()}
    if isinstance(masks, Tuple):
        if not isinstance(batch, tuple) or len(batch) != len(masks):
            raise TypeError(f"{where}: expected a tuple of {len(masks)} batches, got {batch!r}")
        return tuple(
            check_masks(part, n, each, f"{where}[{i}]") for i, (part, each) in enumerate(zip(masks, batch, strict=True))
        )
    highest = 2 if isinstance(masks, MultiDiscrete) else 1
    return check_mask(batch, (n, *(masks.shape or ())), highest, where)


def rows_of_masks(space: Space[Any], batch: Any, n: int) -> list[Any]:
    """The mask of each sub-env, for ``space.sample(mask)``, in arrays of its own."""
    masks = mask_space(space)
    return [layout.copy_row(masks, row) for row in layout.iterate(masks, batch, n)]


def sample_batch(space: Space[Any], n: int, rng: np.random.Generator, masks: Any = None) -> Any:
    """A batch of random elements of a space, of those that a batch of masks allows.

    It is drawn as ``space.sample(mask)`` draws each, all rows at once: ``sample_batch(vec.action_space, vec.num_envs,
    rng, vec.action_mask())`` are actions for ``vec.step``.

    Args:
        space: The space of one element.
        n: How many.
        rng: What is drawn from.
        masks: A batch of elements of ``mask_space(space)``, as ``vec.action_mask()`` gives it; None allows everything.

    Raises:
        TypeError: The masks are not nested like the space's, or hold something else than bools and integers; or the
            masks of the space have no fixed form. Or ``rng`` is no Generator.
        ValueError: They have another shape or other values, or leave a row nothing to draw.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"sample_batch(rng): expected a numpy.random.Generator, got {rng!r}")
    if masks is None:
        batched = layout.batch_space(space, n)
        batched.seed(rng)
        return batched.sample()
    return sample_allowed(space, n, rng, masks, "sample_batch(masks)", "row")


def sample_allowed(
    space: Space[Any], n: int, rng: np.random.Generator, masks: Any, where: str, row: str = "sub-env"
) -> Any:
    """As ``sample_batch``, of masks that error messages call ``where``, and an entry of them ``row``."""
    masks = check_masks(mask_space(space), n, masks, where)
    empty = np.flatnonzero(~rows_with_any(space, n, masks))
    if empty.size:
        raise ValueError(f"{where}: expected at least one element to be left, got none in {row} {int(empty[0])}")
    return _sample_allowed(space, n, rng, masks)


def _sample_allowed(space: Space[Any], n: int, rng: np.random.Generator, masks: Any) -> Any:
    if isinstance(space, Dict):
        return {key: _sample_allowed(part, n, rng, masks[key]) for key, part in space.items()}
    if isinstance(space, Tuple):
        return tuple(_sample_allowed(part, n, rng, mask) for part, mask in zip(space, masks, strict=True))
    if isinstance(space, Discrete):
        return space.start + draw_allowed(masks, rng)
    if isinstance(space, MultiDiscrete):
        batch = layout.allocate(space, n)
        for index in np.ndindex(*space.shape):
            # A column at a time: its masks stand in one array, those of a row in as many as there are choices.
            drawn = draw_allowed(mask_at(masks, index, space.shape), rng)
            column = slice(None), *index
            batch[column] = int(space.start[index]) + drawn
        return batch
    if isinstance(space, Box):
        drawn = space.bounds.sample(rng, (n,))
        np.copyto(drawn, space.bounds.rest, where=masks == 0)
        return drawn
    batched = layout.batch_space(space, n)
    batched.seed(rng)
    return batched.sample(masks)


def rows_with_any(space: Space[Any], n: int, masks: Any) -> NDArray[np.bool_]:
    """In which rows a batch of masks, checked, leaves an element to take; bool (n,)."""
    if isinstance(space, Discrete):
        found: NDArray[np.bool_] = masks.any(axis=1)
        return found
    parts: list[NDArray[np.bool_]] = []
    if isinstance(space, Dict):
        parts = [rows_with_any(part, n, masks[key]) for key, part in space.items()]
    elif isinstance(space, Tuple):
        parts = [rows_with_any(part, n, mask) for part, mask in zip(space, masks, strict=True)]
    elif isinstance(space, MultiDiscrete):
        parts = [mask_at(masks, index, space.shape).any(axis=1) for index in np.ndindex(*space.shape)]
    return np.logical_and.reduce(parts, axis=0) if parts else np.ones(n, np.bool_)
