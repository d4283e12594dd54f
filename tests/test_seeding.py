"""Seeds of many sub-envs from one."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.seeding import make_seed_sequence


@pytest.mark.parametrize(
    "base", [0, 1, 5, 2**32 - 1, 2**32, 2**63 + 17, 2**64, 2**100 + 3, 2**128 - 1, 2**128, 2**200 + 1]
)
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_they_are_the_first_words_of_numpy_s_children(base, n):
    children = np.random.SeedSequence(base).spawn(n)
    seeds = make_seed_sequence(base, n)
    assert seeds == [int(child.generate_state(1, np.uint64)[0]) for child in children]
    assert all(type(seed) is int for seed in seeds)
