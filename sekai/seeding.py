"""Seeds and the generators made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    seeds: list[int] = spawn_seeds(check_seed(base_seed), n).tolist()
    return seeds


def spawn_seeds(base_seed: int, n: int, start: int = 0) -> NDArray[np.uint64]:
    """What ``make_seed_sequence`` gives, as uint64 (n,); the base seed is known to be one.

    Args:
        base_seed: An int of at least 0.
        n: How many seeds.
        start: The number of the first one; those before it are left out.
    """
    if base_seed.bit_length() > 128:  # longer than the pool: its words come before those of the spawn key
        children = (np.random.SeedSequence(base_seed, spawn_key=(child,)) for child in range(start, start + n))
        return np.array([child.generate_state(1, np.uint64)[0] for child in children], dtype=np.uint64)
    return _spawn_words(np.random.SeedSequence(base_seed).pool, np.arange(start, start + n, dtype=np.uint32))


# The constants of NumPy's SeedSequence, which promises to give the same numbers for good.
_INIT_A, _MULT_A, _INIT_B, _MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_16 = np.uint32(16)


def _hash(words: NDArray[np.uint32], key: int, mult: int) -> tuple[NDArray[np.uint32], int]:
    following = key * mult & 0xFFFFFFFF
    hashed = (words ^ np.uint32(key)) * np.uint32(following)
    return hashed ^ (hashed >> _16), following


def _spawn_words(pool: NDArray[np.uint32], number: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The first 64-bit word of each of these children of a SeedSequence of at most 128 bits, by their number.

    A child's pool is its parent's, mixed with the child's number. All children at once, since a list of them takes
    seconds for as many as a native env has sub-envs.
    """
    key = _INIT_A * pow(_MULT_A, 16, 2**32) & 0xFFFFFFFF  # the parent's pool has taken 16 hashes
    mixed = []
    for word in pool:
        hashed, key = _hash(number, key, _MULT_A)
        child = _MIX_L * np.full(len(number), word) - _MIX_R * hashed
        mixed.append(child ^ (child >> _16))
    low, key = _hash(mixed[0], _INIT_B, _MULT_B)
    high, _ = _hash(mixed[1], key, _MULT_B)
    words: NDArray[np.uint64] = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    return words
