"""Action masks as other libraries have them: one flat array of bools for each sub-env.

For a ``Discrete`` that is its mask, for a ``MultiDiscrete`` those of its elements one after another, and for a
``MultiBinary`` a pair for each element, whether it may be 0 and whether it may be 1. Other spaces have no such form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.env import Env
from sekai.spaces import Discrete, MultiBinary, MultiDiscrete, Space, Tuple, as_mask, flatdim, mask_space
from sekai.spaces.space import check_mask
from sekai.vector import VecEnv

#: The name of the method by which other libraries ask.
ACTION_MASKS = "action_masks"


def has_flat_masks(env: Env[Any, Any] | VecEnv[Any, Any]) -> bool:
    """Whether an env or a VecEnv has masks, of a space for which they have a flat form."""
    return isinstance(env.action_space, (Discrete, MultiDiscrete, MultiBinary)) and env.has_action_mask


def flat_masks(vec: VecEnv[Any, Any]) -> NDArray[np.bool_]:
    """The masks of the sub-envs of a VecEnv, bool (num_envs, n).

    Raises:
        AttributeError: It has no masks, or none that have a flat form.
    """
    if not has_flat_masks(vec):
        expected = "expected a VecEnv with masks of a Discrete, MultiDiscrete or MultiBinary"
        raise AttributeError(f"{ACTION_MASKS}(): {expected}, got {vec!r} with actions of {vec.action_space!r}")
    return _flat(vec.action_space, vec.action_mask(), vec.num_envs)


def flat_mask(env: Env[Any, Any]) -> NDArray[np.bool_]:
    """The mask of an env, bool (n,)."""
    space = env.action_space
    mask = as_mask(space, env.action_mask(), f"{env}.action_mask()")
    row: NDArray[np.bool_] = _flat(space, layout.map_parts(lambda part: part[np.newaxis], mask), 1)[0]
    return row


def _flat(space: Space[Any], batch: Any, n: int) -> NDArray[np.bool_]:
    parts = [part for _, part in layout.named_parts(batch, "")]
    if isinstance(space, MultiBinary):
        return np.stack([parts[0] != 1, parts[0] != 0], axis=-1).reshape(n, -1)
    return np.concatenate([np.zeros((n, 0), np.bool_), *(part != 0 for part in parts)], axis=1)


def mask_of_flat(space: Space[Any], flat: Any, where: str) -> Any:
    """The mask, as ``space.sample(mask)`` takes it, that is told as a flat array.

    Args:
        space: A ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``.
        flat: The array.
        where: What error messages call it.

    Raises:
        TypeError: It holds something else than bools and integers.
        ValueError: It has another shape or other values than zeros and ones, or a pair of a ``MultiBinary`` leaves
            neither 0 nor 1.
    """
    if isinstance(space, MultiBinary):
        pairs = check_mask(np.asarray(flat), (2 * flatdim(space),), 1, where).reshape(-1, 2)
        if not pairs.any(axis=1).all():
            raise ValueError(f"{where}: expected 0 or 1 to be left for each element, got {np.asarray(flat).tolist()}")
        values = np.where(pairs[:, 0] & pairs[:, 1], 2, pairs[:, 1])
        return values.astype(np.int8).reshape(space.shape)
    array = check_mask(np.asarray(flat), (flatdim(space),), 1, where)
    begin = 0

    def take(masks: Any) -> Any:
        nonlocal begin
        if isinstance(masks, Tuple):
            return tuple(take(part) for part in masks)
        begin += masks.n
        return array[begin - masks.n : begin]

    return take(mask_space(space))
