"""Compiling before anybody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from sekai.kernels import threads


def warm_up(factory: Callable[[int], Any], num_envs: int = 8192) -> float:
    """Compile what a market needs, or load it from disk: build it, reset it, step it, close it.

    A small batch runs on one thread and a large one on several, which are two pieces of code: both are compiled, the
    second only where there is more than one thread.

    Args:
        factory: Builds the VecEnv, called as ``factory(num_envs)``.
        num_envs: Size of the large batch.

    Returns:
        Seconds that it took.
    """
    start = perf_counter()
    with threads.always_used():
        for count in (1, num_envs) if threads.get_num_threads() > 1 else (1,):
            vec = factory(count)
            try:
                vec.reset(seed=0)
                space = vec.batch_action_space
                space.seed(0)
                vec.step(space.sample())
            finally:
                vec.close()
    return perf_counter() - start
