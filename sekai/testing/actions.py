"""Random actions for an env whose mask says which of them make sense."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, overload

from sekai.env import Env
from sekai.seeding import make_seed_sequence
from sekai.spaces import allows_any, as_mask
from sekai.testing.values import same


class MaskedActions(Sequence[Any]):
    """One action for every step of a run, each drawn when it is asked for, as the env's ``action_mask()`` allows then.

    The same one is drawn again where the mask is the same.

    Args:
        env: The env.
        seeds: What each action follows from.
    """

    def __init__(self, env: Env[Any, Any], seeds: list[int]) -> None:
        self._env, self._seeds = env, seeds
        self._space = deepcopy(env.action_space)

    def __len__(self) -> int:
        return len(self._seeds)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> MaskedActions: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return MaskedActions(self._env, self._seeds[index])
        self._space.seed(self._seeds[index])
        mask = as_mask(self._space, self._env.action_mask(), "action_mask()")
        again = as_mask(self._space, self._env.action_mask(), "action_mask()")
        if not same(mask, again):
            raise ValueError(f"action_mask(): expected the same when it is called again, got {mask}, then {again}")
        if not allows_any(self._space, mask):
            raise ValueError(f"action_mask(): expected at least one action to be left, got {mask}")
        return self._space.sample(mask)


def draw_actions(env: Env[Any, Any], n_steps: int, seed: int) -> Sequence[Any]:
    """Random actions for the steps of a run, from the whole action space where the env has no mask."""
    if env.has_action_mask:
        return MaskedActions(env, make_seed_sequence(seed, n_steps))
    space = deepcopy(env.action_space)
    space.seed(seed)
    return [space.sample() for _ in range(n_steps)]
