"""Seeds and the generators made from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.checks import check_integer
from sekai.types import SeedType


def check_seed(seed: Any, where: str = "seed") -> int:
    """The seed as a plain int.

    Args:
        seed: Anything ``operator.index`` takes, except a bool.
        where: What the error message calls it.

    Raises:
        TypeError: It is no integer, or a bool.
        ValueError: It is negative.
    """
    value = check_integer(seed, where, "an integer or None")
    if value < 0:
        raise ValueError(f"{where}: expected an integer of at least 0, got {value}")
    return value


def np_random(seed: SeedType = None) -> tuple[np.random.Generator, int | None]:
    """A NumPy generator and the seed it was made from.

    Args:
        seed: An integer; None for 128 bits from the operating system; or a generator, which is handed back.

    Returns:
        The generator and the seed used (None for a generator that was handed in).

    Raises:
        TypeError: The seed is neither an integer, a generator nor None.
        ValueError: The seed is negative.
    """
    if isinstance(seed, np.random.Generator):
        return seed, None
    if seed is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        used = entropy
    else:
        used = check_seed(seed)
    return np.random.default_rng(used), used


def make_seed_sequence(base_seed: int, n: int) -> list[int]:
    """``n`` independent seeds derived from one, as an int seed of a VecEnv hands to its sub-envs.

    They are the first words of the children of ``numpy.random.SeedSequence(base_seed)``, 64 bits each, so that
    neighbouring base seeds share none of them.

    Args:
        base_seed: An integer of at least 0.
        n: How many seeds.
    """
    children = np.random.SeedSequence(check_seed(base_seed)).spawn(n)
    return [int(child.generate_state(1, np.uint64)[0]) for child in children]
