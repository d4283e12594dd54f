"""Batches flattened into one array."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.batching.flat import flatten_batch
from sekai.batching.layout import stack
from sekai.errors import InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Tuple, flatten, flatten_space

SPACES = {
    "box": Box(-1.0, 1.0, (2, 3)),
    "wide box": Box(0, 255, (4, 5), np.uint8),
    "box of nothing": Box(0, 1, (0,)),
    "discrete": Discrete(4, start=-2),
    "small dtype": MultiDiscrete([200, 3], dtype=np.int8, start=[-100, 0]),
    "unsigned": MultiDiscrete([[2, 3], [4, 5]], dtype=np.uint8, start=[[7, 0], [1, 250]]),
    "binary": MultiBinary((2, 2)),
    "masked": MaskedBox(-1.0, 1.0, (2,), max_size=3),
    "nested": Dict({"b": Tuple((Discrete(2), Box(0, 9, (), np.int64))), "a": Dict({"c": MultiBinary(3)})}),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_rows_are_what_each_element_is(space):
    space.seed(3)
    elements = [space.sample() for _ in range(40)]
    flat = flatten_batch(space, flatten_space(space), stack(space, elements), len(elements))
    assert flat.dtype == flatten_space(space).dtype
    np.testing.assert_array_equal(flat, [flatten(space, element) for element in elements])


@pytest.mark.parametrize(
    "space, batch, got",
    [
        (Discrete(3), [0, 3, 1], "got 3"),
        (Discrete(3, start=1), [0, 3, 1], "got 0"),
        (MultiDiscrete([2, 3]), [[1, 2], [0, 0], [2, 0]], r"got \[2 0\]"),
    ],
    ids=["above", "below", "of the next group"],
)
def test_what_is_no_category_has_no_place(space, batch, got):
    with pytest.raises(InvalidObservation, match=f"^flatten: expected elements of {type(space).__name__}.*{got}"):
        flatten_batch(space, flatten_space(space), np.array(batch, space.dtype), 3)
