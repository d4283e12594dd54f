"""Masks as elements of a space of their own."""

from __future__ import annotations

import numpy as np
import pytest
from spaces_catalogue import each_fixed_space, same

from sekai.space_utils import allows_any, as_mask, batch_space, concatenate, full_mask, iterate, mask_space
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Tuple

ORDERS = Dict(kind=Discrete(3), size=MultiDiscrete([2, 3]), flags=MultiBinary(2), weights=Tuple((Box(0, 1, (2,)),)))
MASK = {"kind": [1, 0, 1], "size": [[1, 0], (True, False, True)], "flags": np.array([0, 2]), "weights": [None]}


@each_fixed_space
def test_the_full_mask_allows_every_sample(space):
    mask = full_mask(space)
    assert mask_space(space).contains(mask) and allows_any(space, mask)
    assert space.contains(space.sample(mask))


def test_a_mask_is_made_an_element():
    mask = as_mask(ORDERS, MASK)
    assert mask_space(ORDERS).contains(mask)
    expected = {
        "kind": np.int8([1, 0, 1]),
        "size": (np.int8([1, 0]), np.int8([1, 0, 1])),
        "flags": np.int8([0, 2]),
        "weights": (np.int8([1, 1]),),
    }
    assert same(mask, expected)
    assert ORDERS.contains(ORDERS.sample(mask))


def test_masks_are_batched_as_elements_are():
    masks = [as_mask(ORDERS, MASK), full_mask(ORDERS)]
    space = mask_space(ORDERS)
    batch = concatenate(space, masks)
    assert batch_space(space, 2).contains(batch)
    assert batch["size"][1].tolist() == [[1, 0, 1], [1, 1, 1]]
    assert same(list(iterate(space, batch, 2)), masks)


def test_a_batch_of_the_masks_of_single_choices_is_a_mask_of_the_batch():
    batch = np.array([[0, 1, 0], [0, 0, 1]], np.int8)
    assert batch_space(Discrete(3), 2).sample(batch).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        ({**MASK, "kind": [1, 0]}, ValueError, r"m\['kind'\]: expected shape \(3,\), got \(2,\)"),
        ({**MASK, "size": [[1, 0]]}, ValueError, r"expected 2 entries at depth 0, got 1"),
        ({**MASK, "size": [[1, 0], [1, 0]]}, ValueError, r"m\['size'\] of element \(1,\): expected shape \(3,\)"),
        ({**MASK, "weights": []}, TypeError, r"m\['weights'\]: expected a tuple of 1 masks, got \[\]"),
        ({**MASK, "weights": [[0.5, 1.0]]}, TypeError, r"m\['weights'\]\[0\]: expected bools or integers"),
        ({"kind": None}, ValueError, r"m: expected the keys \['kind', 'size', 'flags', 'weights'\], got \['kind'\]"),
        ([1], TypeError, r"m: expected a dict of masks, got \[1\]"),
    ],
    ids=["shape", "count", "element", "parts", "floats", "keys", "list"],
)
def test_what_is_no_mask(mask, error, text):
    with pytest.raises(error, match=text):
        as_mask(ORDERS, mask, "m")


def test_what_leaves_nothing_to_take():
    assert not allows_any(Discrete(2), np.zeros(2, np.int8))
    assert not allows_any(MultiDiscrete([[2], [3]]), ((np.int8([1, 1]),), (np.zeros(3, np.int8),)))
    assert not allows_any(Tuple((Discrete(2), Discrete(1))), (np.int8([1, 0]), np.int8([0])))
    assert allows_any(Tuple((Box(0, 1, (2,)), MultiBinary(2))), (np.zeros(2, np.int8), np.zeros(2, np.int8)))


def test_sequences_have_no_masks_of_a_fixed_form():
    with pytest.raises(TypeError, match=r"mask_space: expected a space whose masks have a fixed form, got Sequence"):
        mask_space(Dict(a=Sequence(Discrete(2))))
