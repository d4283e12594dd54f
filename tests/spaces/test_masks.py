"""Masks as elements of a space of their own."""

from __future__ import annotations

import numpy as np
import pytest
from spaces_catalogue import each_fixed_space, same

from sekai.space_utils import (
    allows_any,
    as_mask,
    batch_space,
    concatenate,
    full_mask,
    iterate,
    mask_space,
    sample_batch,
)
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
    "space", [MultiDiscrete([3, 3], start=[-1, 5]), MultiDiscrete([[4] * 2] * 3, np.int8)], ids=str
)
def test_a_mask_in_one_array_draws_what_nested_lists_draw(space):
    masks = np.random.default_rng(0).integers(0, 2, (50, *space.nvec.shape, space.nvec.max()))
    masks[..., 1] = 1
    space.seed(7)
    in_lists = [space.sample(mask.tolist()) for mask in masks]
    space.seed(7)
    assert same([space.sample(mask) for mask in masks], in_lists)


@each_fixed_space
def test_a_batch_is_drawn_of_what_every_row_allows(space):
    full = concatenate(mask_space(space), [full_mask(space)] * 3)
    for masks in (None, full):
        batch = sample_batch(space, 3, np.random.default_rng(0), masks)
        assert all(map(space.contains, iterate(space, batch, 3)))
        assert same(batch, sample_batch(space, 3, np.random.default_rng(0), masks))


def test_rows_of_a_batch_have_masks_of_their_own():
    masks = concatenate(mask_space(ORDERS), [as_mask(ORDERS, MASK), full_mask(ORDERS)] * 200)
    batch = sample_batch(ORDERS, 400, np.random.default_rng(0), masks)
    masked, free = slice(0, None, 2), slice(1, None, 2)

    def drawn(column):
        return [sorted(set(column[rows].tolist())) for rows in (masked, free)]

    assert drawn(batch["kind"]) == [[0, 2], [0, 1, 2]]
    assert drawn(batch["size"][:, 0]) == [[0], [0, 1]]
    assert drawn(batch["size"][:, 1]) == [[0, 2], [0, 1, 2]]
    assert drawn(batch["flags"][:, 0]) == [[0], [0, 1]]
    assert drawn(batch["flags"][:, 1]) == [[0, 1], [0, 1]]
    counts = np.unique(batch["size"][free, 1], return_counts=True)[1]
    assert (abs(counts - 200 / 3) < 30).all()  # of a standard deviation of 6.7


@pytest.mark.parametrize(
    "space",
    [
        Box(-np.inf, np.inf, (2,)),
        Box(np.float32([0.5, -1]), np.float32([np.inf, 1])),
        Box(np.array([3, -np.inf]), np.array([9, np.inf]), dtype=np.int16),
    ],
    ids=["free", "floats", "integers"],
)
def test_what_masks_of_a_box_leave_is_drawn_as_without_them(space):
    masks = np.int8([[1, 1], [0, 1], [1, 0], [0, 0]])
    got, free = (sample_batch(space, 4, np.random.default_rng(5), each) for each in (masks, None))
    assert got.dtype == free.dtype == space.dtype
    assert same(got[masks == 1], free[masks == 1])
    assert same(got[masks == 0], np.stack([space.sample([0, 0])] * 4)[masks == 0])


@pytest.mark.parametrize(
    ("space", "masks", "error", "text"),
    [
        (Discrete(2), np.int8([[1, 0], [0, 0]]), ValueError, r"at least one element to be left, got none in row 1"),
        (MultiDiscrete([1, 2]), (np.ones((2, 1)), np.eye(2)), TypeError, r"masks\)\[0\]: expected bools or integers"),
        (MultiDiscrete([1, 2]), (np.int8([[1], [0]]), np.eye(2, dtype=int)), ValueError, r"got none in row 1"),
        (Tuple((Box(0, 1, ()), Discrete(2))), (np.int8([1, 1]), np.int8([[0, 0], [1, 0]])), ValueError, r"in row 0"),
        (Discrete(2), np.ones((3, 2), np.int8), ValueError, r"expected shape \(2, 2\), got \(3, 2\)"),
        (Dict(a=Discrete(2)), np.ones((2, 2), np.int8), TypeError, r"expected a dict with the keys \['a'\]"),
    ],
    ids=["nothing left", "floats", "of one choice", "of a part", "rows", "nesting"],
)
def test_of_what_no_batch_is_drawn(space, masks, error, text):
    with pytest.raises(error, match=text):
        sample_batch(space, 2, np.random.default_rng(0), masks)


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


@pytest.mark.parametrize("masks", [None, np.ones((2, 3), np.int8)], ids=["all", "masks"])
def test_a_seed_is_no_generator(masks):
    with pytest.raises(TypeError, match=r"sample_batch\(rng\): expected a numpy.random.Generator, got 7"):
        sample_batch(Discrete(3), 2, 7, masks)
