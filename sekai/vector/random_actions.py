"""Random actions that make sense now."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.masks import full_masks, sample_allowed, sample_batch
from sekai.vector.base import VecEnv


def random_actions(vec: VecEnv[Any, Any], rng: np.random.Generator) -> Any:
    """A batch of random actions, of those that the masks of a VecEnv allow, where it has masks.

    Args:
        vec: The VecEnv. Frozen sub-envs, whose actions are ignored, are taken to allow everything.
        rng: What is drawn from.

    Raises:
        TypeError: ``vec.action_mask()`` is no batch of masks.
        ValueError: It has another shape or other values, or leaves a sub-env nothing to do.
    """
    masks = vec.action_mask() if vec.has_action_mask else None
    if masks is not None and not vec.autoreset and vec.frozen.any():
        frozen = np.flatnonzero(vec.frozen)
        layout.put(masks, frozen, full_masks(vec.action_space, len(frozen)))
    if masks is None:
        return sample_batch(vec.action_space, vec.num_envs, rng)
    return sample_allowed(vec.action_space, vec.num_envs, rng, masks, "action_mask()")
