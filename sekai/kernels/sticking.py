"""Which sub-envs take the action before once more, each by its own stream of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.kernels.jit import jit
from sekai.kernels.streams import philox_words, uniform_of

_32 = np.uint64(32)


@jit(inline=False)
def choose_stuck(
    key: Any,
    counter: Any,
    frozen: Any,
    has_last: Any,
    left: Any,
    stuck: Any,
    upper: Any,
    probability: float,
    least: int,
    most: int,
) -> None:
    """Draw for every sub-env that is stepped, one block of its stream in each step; without a branch, to be vectorised.

    Args:
        key: u8 (N,), the streams.
        counter: u8 (N,), blocks drawn from them, moved on in place.
        frozen: bool (N,), sub-envs that no step reaches: nothing is drawn for them.
        has_last: bool (N,), whether there is an action before, set in place.
        left: i8 (N,), steps for which that one goes on sticking, updated in place.
        stuck: bool (N,), written: whether the action before is taken once more.
        upper: u8, the upper half of the counter, which tells these draws from a market's own.
        probability: f8, of an action beginning to stick, to within 2**-24.
        least: i8, steps for which it does at least.
        most: i8, steps at most.
    """
    span = np.uint64(most - least + 1)
    chance = np.float32(probability)
    for i in range(len(key)):
        first, second, _, _ = philox_words(key[i], counter[i], upper)
        live = not frozen[i]
        begins = live & has_last[i] & (left[i] == 0) & (uniform_of(first) <= chance)
        drawn = least + np.int64((np.uint64(second) * span) >> _32)
        repeats = drawn if begins else left[i]
        is_stuck = live & (repeats > 0)
        counter[i] += np.uint64(live)
        has_last[i] |= live
        left[i] = repeats - np.int64(is_stuck)
        stuck[i] = is_stuck
