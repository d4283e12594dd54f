"""The generators that everything in a process shares, which each worker starts for itself."""

from __future__ import annotations

import copy
import importlib
import random
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from sekai.types import SeedType


def restart_global_generators(seeds: Iterable[SeedType] | None = None) -> None:
    """Start the global generators of NumPy, of Python and, if it is loaded, of torch.

    A forked worker has its parent's otherwise, as have all that are forked with it.

    Args:
        seeds: What to start them from; of a generator, what it would draw next, which it still does. Where none is
            given they are left as they are. None starts them from OS entropy.
    """
    entropy: list[int] | None = None
    if seeds is not None:
        entropy = [number for seed in seeds for number in _numbers(seed)]
        if not entropy:
            return
    # One sequence each: Python's and NumPy's are of the same kind, and would give the same numbers.
    for_numpy, for_python, for_torch = np.random.SeedSequence(entropy).spawn(3)
    numpy_random: Any = np.random  # whose types leave these two out
    numpy_random.set_bit_generator(type(numpy_random.get_bit_generator())(for_numpy))
    random.seed(_integer(for_python))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(_integer(for_torch))


def keep_global_generators() -> tuple[Any, ...]:
    """The states of the same generators, for ``put_global_generators_back()``."""
    numpy_random: Any = np.random
    torch: Any = sys.modules.get("torch")
    for_torch = None if torch is None else torch.get_rng_state().numpy()
    return numpy_random.get_bit_generator().state, random.getstate(), for_torch


def put_global_generators_back(kept: tuple[Any, ...]) -> None:
    """Let them go on from what ``keep_global_generators()`` gave."""
    for_numpy, for_python, for_torch = kept
    numpy_random: Any = np.random
    numpy_random.get_bit_generator().state = for_numpy
    random.setstate(for_python)
    if for_torch is not None:
        torch: Any = importlib.import_module("torch")  # whoever drew from it will load it, if not yet
        torch.set_rng_state(torch.from_numpy(np.array(for_torch)))


def _numbers(seed: SeedType) -> list[int]:
    if isinstance(seed, np.random.Generator):
        return [int(number) for number in copy.deepcopy(seed).integers(1 << 63, size=2)]
    return [] if seed is None else [int(seed)]


def _integer(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1, np.uint64)[0])
