"""Batches of action masks: elements of ``mask_space(action_space)``, each part with a first axis of the sub-envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sekai.batching import layout
from sekai.spaces import Dict, MultiDiscrete, Space, Tuple, as_mask, full_mask, mask_space
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
