"""Actions outside of the action space, which a market should refuse."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from sekai.testing.reference import Inputs, ReferenceRun
from sekai.testing.values import show
from sekai.vector import NativeVecEnv


def acceptance_hints(reference: ReferenceRun) -> list[str]:
    """Says so if a native market takes an action outside of its space."""
    with reference.factory.open(reference.num_envs) as vec:
        native = vec.unwrapped
        if not isinstance(native, NativeVecEnv):
            return []
        space, seeds = native.action_space, reference.inputs.seeds
        for actions in outside_actions(space, Inputs.draw(native, 1, seeds[0]).actions[0]):
            if not is_refused(native, seeds, actions):
                return [
                    f"accepts action {show_action(space, actions)} of {show(space)}; "
                    "whether actions lie in the space is for the market to check"
                ]
    return []


def outside_actions(space: Space[Any], inside: Any) -> Iterator[Any]:
    """Copies of a batch of actions with one number changed, so that the first action is not in the space any more.

    It lies next to the space, so that a market that takes it for an index does not read far from its arrays.

    Args:
        space: The space of one action.
        inside: The batch.
    """
    for position, (part, numbers) in enumerate(_arrays(space, inside)):
        for value in _values_outside(part) if numbers.size else ():
            actions = layout.copy_batch(inside)
            _, changed = list(_arrays(space, actions))[position]
            changed[(0,) * changed.ndim] = value
            yield actions


def _arrays(space: Space[Any], batch: Any) -> Iterator[tuple[Space[Any], NDArray[Any]]]:
    """The arrays of a nested batch, each with its part of the space."""
    if isinstance(space, (Dict, Tuple)):
        for key, part in space.items() if isinstance(space, Dict) else enumerate(space):
            yield from _arrays(part, batch[key])
    elif isinstance(space, (Box, Discrete, MultiBinary, MultiDiscrete)):
        yield space, batch


def _values_outside(space: Space[Any]) -> list[Any]:
    """What the first number of an element cannot be: NaN, or the integers next to those it can be."""
    dtype = np.dtype(space.dtype)
    if dtype.kind not in "iu":
        return [np.nan] if dtype.kind == "f" else []
    if isinstance(space, Box):
        low, high = int(space.low.flat[0]), int(space.high.flat[0])
    elif isinstance(space, MultiDiscrete):
        low = int(space.start.flat[0])
        high = low + int(space.nvec.flat[0]) - 1
    elif isinstance(space, Discrete):
        low, high = space.start, space.start + space.n - 1
    else:  # MultiBinary
        low, high = 0, 1
    limits = np.iinfo(dtype)
    return [value for value in (high + 1, low - 1) if limits.min <= value <= limits.max]


def is_refused(native: NativeVecEnv[Any, Any], seeds: list[int], actions: Any) -> bool:
    """Whether the first step with these actions raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            native.reset(seed=list(seeds))
            native.step(layout.copy_batch(actions))
        except Exception:
            return True
    return False


def show_action(space: Space[Any], actions: Any) -> str:
    """The first action of a batch as an error message shows it."""
    action = next(iter(layout.iterate(space, actions)))
    return show(action.item() if isinstance(action, np.generic) else action)
