"""Rollouts in one compiled loop, where market and policy allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.rollouts.storage import Storage
from sekai.spaces import Space
from sekai.vector import KernelVecEnv, VecEnv

#: Steps between two looks at Ctrl-C and the progress bar.
_STEPS_AT_ONCE = 64


class RowPolicy:
    """A compiled policy of one row, for batches.

    Args:
        row: Compiled, ``row(parameters, observation, action)``; the observation is read-only.
        parameters: What it is called with: a named tuple of scalars and arrays that all rows share.
        action_space: Of the env, whose actions are one array.

    Attributes:
        row: As given.
        parameters: As given.
    """

    def __init__(self, row: Any, parameters: Any, action_space: Space[Any]) -> None:
        self.row = row
        self.parameters = parameters
        self._action_space = action_space

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The actions for a batch of observations."""
        from sekai.kernels.rolling import act_on_batch

        actions: NDArray[Any] = layout.allocate(self._action_space, len(observations), np.empty)
        act_on_batch(self.row, self.parameters, observations, actions)
        return actions


def as_row_policy(policy: Any, vec: VecEnv[Any, Any]) -> RowPolicy | None:
    """A policy as one of rows; None for one that is not.

    Args:
        policy: Of rows is a function of an observation and an action, made by ``sekai.kernels.jit``, and what has a
            ``row_policy()`` that gives one with parameters, and those; None where the policy differs between rows.
        vec: The env.

    Raises:
        TypeError: It is one of rows, but an observation or an action is no array.
    """
    row, parameters = None, ()
    if getattr(policy, "is_kernel", False) and _num_parameters(policy) == 2:
        from sekai.kernels.rolling import with_parameters

        row = with_parameters(policy)
    elif callable(getattr(policy, "row_policy", None)):
        row, parameters = policy.row_policy() or (None, ())
    if row is None:
        return None
    for name, space in (("observation", vec.observation_space), ("action", vec.action_space)):
        if not isinstance(layout.allocate(space, 0), np.ndarray):
            raise TypeError(f"rollout(policy): a policy of rows needs {name}s of one array each, got the space {space}")
    return RowPolicy(row, parameters, vec.action_space)


def _num_parameters(kernel: Any) -> int:
    return int(getattr(kernel, "py_func", kernel).__code__.co_argcount)


def can_roll(vec: VecEnv[Any, Any], policy: RowPolicy, infos: Iterable[str]) -> bool:
    """Whether market and policy can be run in one compiled loop; else the market is stepped."""
    if not isinstance(vec, KernelVecEnv) or not hasattr(policy.row, "py_func"):  # NUMBA_DISABLE_JIT leaves none
        return False
    return vec.can_roll and set(infos) <= vec.told.keys()


def fill_compiled(
    storage: Storage,
    vec: KernelVecEnv[Any, Any],
    policy: RowPolicy,
    first_observations: NDArray[Any],
    advance: Callable[[int], Any],
) -> NDArray[Any]:
    """Fill the storage in compiled code; returns the observations after the last step.

    Args:
        storage: To be filled.
        vec: The market, just reset.
        policy: Of rows.
        first_observations: What it shows now.
        advance: Called with numbers of steps as they are made.

    Raises:
        InvalidAction: The policy gave an action that the market refuses; the env has to be reset then.
    """
    total, num_envs = storage.rewards.shape
    observations, actions = storage.observations, storage.actions
    observations[0] = first_observations
    last: NDArray[Any] = np.empty_like(first_observations)
    at_once = min(_STEPS_AT_ONCE, total)
    keys = tuple(key for key in vec.told if key in storage.columns)
    infos = [storage.columns[key].room((total, num_envs), vec.told[key]) for key in keys]
    roll = vec.roll(policy.row, policy.parameters, keys)
    room = at_once * num_envs
    ended, when = np.empty(room, np.int64), np.empty(room, np.int64)
    finals = np.empty((room, *observations.shape[2:]), observations.dtype)
    flags = storage.rewards, storage.terminated, storage.truncated
    done = 0
    while done < total:
        steps = min(at_once, total - done)
        regions = roll(done, steps, (observations, last, actions, *flags, ended, when, finals), infos)
        rows = np.concatenate([np.arange(start, start + count) for start, count in regions]).astype(np.intp)
        rows = rows[np.lexsort((ended[rows], when[rows]))]
        if len(rows):
            storage.add_finals(np.stack([when[rows], ended[rows]], axis=1), finals[rows])
        done += steps
        advance(steps)
    for key, info in zip(keys, infos, strict=True):
        storage.columns[key].array = info
    return last
