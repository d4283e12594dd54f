"""Policies of one row, for batches and for compiled rollouts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.kernels import threads
from sekai.kernels.batch import BLOCK, BOUNDS_ARE_CHECKED, jit_batch
from sekai.kernels.jit import jit

#: From how many rows on a rollout is spread over threads: fewer than a single step is, as many steps are made at once.
ROLLED_PARALLEL_FROM = 4 * BLOCK


def rolling_threads(num_envs: int, parallel_from: int | None) -> int:
    """How many threads a rollout of so many sub-envs is worth.

    Args:
        num_envs: How many.
        parallel_from: Of the market, from how many on a single step is spread over threads; None for the kit's number.
    """
    start = ROLLED_PARALLEL_FROM if parallel_from is None else parallel_from
    return threads.get_num_threads() if num_envs >= start and not BOUNDS_ARE_CHECKED else 1


def unwritten(dtype: np.dtype[Any]) -> Any:
    """What an action holds before a row policy writes it, so that an item it leaves out is no number of most spaces."""
    if dtype.kind == "f":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.False_
    limits = np.iinfo(dtype)
    return dtype.type(limits.min or limits.max)


@jit
def act(policy: Any, parameters: Any, before: Any, observations: NDArray[Any], actions: NDArray[Any]) -> None:
    """Let a row policy act on every row, of observations and actions flattened to (n, width).

    Args:
        policy: ``policy(parameters, observation, action)``.
        parameters: What it is given.
        before: What an action holds before (see ``unwritten``).
        observations: Of all rows.
        actions: Likewise, written.
    """
    for i in range(len(observations)):
        action = actions[i]
        for j in range(len(action)):
            action[j] = before
        policy(parameters, observations[i], action)


@functools.lru_cache(maxsize=64)
def with_parameters(policy: Callable[..., None]) -> Callable[..., None]:
    """A row policy ``policy(observation, action)`` as one with parameters, which it ignores."""

    def act_without(parameters: Any, observation: NDArray[Any], action: NDArray[Any]) -> None:
        policy(observation, action)

    act_without.__qualname__ = policy.__qualname__
    return jit(act_without)


def act_on_batch(
    policy: Callable[..., None], parameters: Any, observations: NDArray[Any], actions: NDArray[Any]
) -> None:
    """Let a row policy act on a batch, as a compiled rollout does.

    Args:
        policy: ``policy(parameters, observation, action)``, compiled.
        parameters: What it is given.
        observations: (n, ...), which it cannot write to.
        actions: (n, ...), written.
    """
    observations = observations.view()
    observations.flags.writeable = False
    _batch_of(policy)(parameters, unwritten(actions.dtype), observations, actions)


@functools.lru_cache(maxsize=64)
def _batch_of(policy: Callable[..., None]) -> Callable[..., None]:
    """A row policy for a batch: ``act_on(parameters, before, observations, actions)``, as in ``act``."""

    def act_on(parameters: Any, before: Any, observations: NDArray[Any], actions: NDArray[Any]) -> None:
        n = len(observations)
        act(policy, parameters, before, observations.reshape((n, -1)), actions.reshape((n, -1)))

    act_on.__qualname__ = f"{policy.__qualname__}_on_rows"
    return jit_batch(shared="parameters")(act_on)
