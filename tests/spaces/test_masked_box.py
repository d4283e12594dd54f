from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces_catalogue import masked_boxes, same, samples, seeded

from sekai.spaces import MaskedBox

INF = np.inf


def orders(**changes):
    """Up to 3 orders of price and size, both from 1 to 5; empty slots hold -1."""
    arguments = {"low": 1.0, "high": 5.0, "shape": (2,), "max_size": 3, "fill_value": -1.0} | changes
    return MaskedBox(**arguments)


def element(values, mask, dtype=np.float32):
    return {"values": np.array(values, dtype), "mask": np.array(mask, np.int8)}


ONE = element([[-1, -1], [2, 3], [-1, -1]], [0, 1, 0])


def test_attributes():
    space = orders(batch_shape=(4,))
    assert (space.shape, space.dtype, space.max_size) == ((2,), np.dtype(np.float32), 3)
    assert (space.batch_shape, space.values_shape, space.mask_shape) == ((4,), (4, 3, 2), (4, 3))
    assert space.fill_value == -1 and space.fill_value.dtype == np.float32
    assert (space.low.tolist(), space.high.tolist()) == ([1, 1], [5, 5])
    assert MaskedBox(0, 1, max_size=2).shape == (1,)
    assert MaskedBox(np.zeros((2, 3)), 1, max_size=2).values_shape == (2, 2, 3)
    assert MaskedBox(0, 1, max_size=2).fill_value == 0


def test_bounds_are_read_only():
    for bound in (orders().low, orders().high):
        with pytest.raises(ValueError, match="read-only"):
            bound[0] = 0


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"max_size": 0}, ValueError, r"MaskedBox max_size: expected at least 1, got 0"),
        ({"max_size": 2.0}, TypeError, r"MaskedBox max_size: expected an integer, got float"),
        ({"low": 6.0}, ValueError, r"MaskedBox: expected low <= high everywhere, got 6.0 > 5.0"),
        ({"low": np.nan}, ValueError, r"MaskedBox low: expected numbers, got NaN"),
        ({"low": np.zeros(3)}, ValueError, r"MaskedBox low: expected a number or shape \(2,\), got shape \(3,\)"),
        ({"dtype": "complex64"}, TypeError, r"MaskedBox dtype"),
        ({"fill_value": np.nan}, ValueError, r"MaskedBox fill_value: expected a number, got NaN"),
        ({"fill_value": "x"}, TypeError, r"MaskedBox fill_value: expected a number, got 'x'"),
        ({"fill_value": [0, 0]}, TypeError, r"MaskedBox fill_value: expected a number, got \[0, 0\]"),
        ({"fill_value": 0.5, "dtype": np.int32}, ValueError, r"fill_value: expected a value that fits int32, got 0.5"),
        ({"fill_value": -1, "dtype": np.uint8}, ValueError, r"fill_value: expected a value that fits uint8, got -1"),
        ({"fill_value": INF, "dtype": np.int32}, ValueError, r"fill_value: expected a value that fits int32, got inf"),
        ({"fill_value": 1e39}, ValueError, r"fill_value: expected a value that fits float32, got 1e\+39"),
        ({"batch_shape": (-1,)}, ValueError, r"MaskedBox batch_shape: axis 0"),
        ({"batch_shape": 4}, TypeError, r"MaskedBox batch_shape: expected a shape"),
    ],
)
def test_bad_arguments(changes, error, text):
    with pytest.raises(error, match=text):
        orders(**changes)


@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_samples_respect_the_mask(batch_shape, dtype):
    space = orders(batch_shape=batch_shape, dtype=dtype, seed=0)
    for _ in range(100):
        x = space.sample()
        assert x["values"].shape == (*batch_shape, 3, 2) and x["values"].dtype == dtype
        assert x["mask"].shape == (*batch_shape, 3) and x["mask"].dtype == np.int8
        occupied = x["mask"] == 1
        assert ((x["values"][occupied] >= 1) & (x["values"][occupied] <= 5)).all()
        assert (x["values"][~occupied] == -1).all()
        assert space.contains(x)


def test_every_number_of_slots_and_every_slot_is_equally_likely():
    space = MaskedBox(0, 1, max_size=3, batch_shape=(4000,), seed=0)
    mask = space.sample()["mask"]
    counts = np.bincount(mask.sum(axis=1), minlength=4)
    assert np.abs(counts / 1000 - 1).max() < 0.1
    assert np.abs(mask.mean(axis=0) - 0.5).max() < 0.03
    single = mask[mask.sum(axis=1) == 1]
    assert np.abs(single.mean(axis=0) - 1 / 3).max() < 0.05


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_a_mask_says_which_slots_are_occupied(batch_shape):
    space = orders(batch_shape=batch_shape, seed=0)
    mask = np.broadcast_to(np.array([0, 1, 1], np.int8), space.mask_shape)
    x = space.sample(mask)
    assert np.array_equal(x["mask"], mask)
    assert space.contains(x)


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (np.ones(3), TypeError, r"MaskedBox.sample mask: expected bools or integers, got dtype float64"),
        (np.ones(2, np.int8), ValueError, r"expected shape \(3,\), got \(2,\)"),
        (np.full(3, 2, np.int8), ValueError, r"expected values 0 or 1, got \[2\]"),
    ],
)
def test_bad_masks(mask, error, text):
    with pytest.raises(error, match=text):
        orders().sample(mask)


def test_contains():
    assert orders().contains(ONE) is True
    assert orders().contains(orders().empty()) is True
    assert orders().contains({"values": ONE["values"], "mask": ONE["mask"].astype(bool)})
    assert orders().contains({"values": ONE["values"].astype(np.float16), "mask": ONE["mask"]})


@pytest.mark.parametrize(
    "x",
    [
        element([[-1, -1], [2, 6], [-1, -1]], [0, 1, 0]),  # an occupied slot above its bound
        element([[-1, -1], [-1, -1], [-1, -1]], [0, 1, 0]),  # an occupied slot that holds the fill value
        element([[-1, -1], [2, np.nan], [-1, -1]], [0, 1, 0]),
        element([[-1, -1], [2, 3], [-1, 2]], [0, 1, 0]),  # an empty slot that does not hold the fill value
        element([[-1, -1], [2, 3], [0, 0]], [0, 1, 0]),
        element([[-1, -1], [2, 3], [-1, -1]], [0, 2, 0]),
        element([[-1, -1], [2, 3]], [0, 1]),
        element([[-1, -1], [2, 3], [-1, -1]], [0, 1, 0], np.float64),
        {"values": ONE["values"]},
        {**ONE, "more": 1},
        {"values": ONE["values"], "mask": ONE["mask"].astype(np.int64)},
        {"values": ONE["values"].tolist(), "mask": ONE["mask"]},
        {"values": ONE["values"], "mask": [0, 1, 0]},
        (ONE["values"], ONE["mask"]),
    ],
)
def test_does_not_contain(x):
    assert orders().contains(x) is False


def test_empty():
    x = orders(batch_shape=(2,)).empty()
    assert same(x, element(np.full((2, 3, 2), -1), np.zeros((2, 3))))


def test_pack_fills_the_first_slots():
    assert same(orders().pack([[2, 3], [4, 5]]), element([[2, 3], [4, 5], [-1, -1]], [1, 1, 0]))


def test_pack_into_chosen_slots():
    x = orders().pack(np.array([[2, 3], [4, 5]]), slots=[2, 0])
    assert same(x, element([[4, 5], [-1, -1], [2, 3]], [1, 0, 1]))


@pytest.mark.parametrize("values", [[], np.zeros((0, 2))])
@pytest.mark.parametrize("slots", [None, []])
def test_pack_of_nothing_is_the_empty_set(values, slots):
    assert same(orders().pack(values, slots), orders().empty())


def test_pack_of_numbers():
    space = MaskedBox(0, 9, (), max_size=3)
    assert same(space.pack([1, 2]), element([1, 2, 0], [1, 1, 0]))
    assert same(space.unpack(space.pack([7], [1])), (np.array([7], np.float32), np.array([1], np.intp)))


def test_unpack_gives_copies_in_the_order_of_slots():
    x = orders().pack([[2, 3], [4, 5]], slots=[2, 0])
    values, slots = orders().unpack(x)
    assert same((values, slots), (np.array([[4, 5], [2, 3]], np.float32), np.array([0, 2], np.intp)))
    values[:] = 0
    assert x["values"][0].tolist() == [4, 5]


@pytest.mark.parametrize(
    ("values", "slots", "error", "text"),
    [
        (np.ones((4, 2)), None, ValueError, r"MaskedBox.pack: expected at most 3 values \(max_size\), got 4"),
        (np.ones((2, 3)), None, ValueError, r"MaskedBox.pack: expected values of shape \(k, 2\), got \(2, 3\)"),
        (np.ones(2), None, ValueError, r"MaskedBox.pack: expected values of shape \(k, 2\), got \(2,\)"),
        (5.0, None, ValueError, r"MaskedBox.pack: expected values of shape \(k, 2\), got \(\)"),
        (np.ones((2, 2)), [0], ValueError, r"MaskedBox.pack: expected slots of shape \(2,\), .* got \(1,\)"),
        (np.ones((2, 2)), [1, 1], ValueError, r"MaskedBox.pack: expected different slots, got \[1, 1\]"),
        (np.ones((2, 2)), [0, 3], ValueError, r"MaskedBox.pack: expected slots from 0 to 2, got 3"),
        (np.ones((2, 2)), [0, -1], ValueError, r"MaskedBox.pack: expected slots from 0 to 2, got -1"),
        (np.ones((2, 2)), [0.0, 1.0], TypeError, r"MaskedBox.pack: expected integer slots, got float64"),
        ([["a", "b"]], None, TypeError, r"MaskedBox.pack: expected values that cast to float32"),
    ],
)
def test_bad_pack(values, slots, error, text):
    with pytest.raises(error, match=text):
        orders().pack(values, slots)


def test_pack_does_not_round_floats_to_integers():
    with pytest.raises(TypeError, match="expected values that cast to int32, got float64"):
        orders(dtype=np.int32).pack([[1.5, 2.0]])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_pack_takes_ints_that_fit_any_integer_dtype(dtype):
    space = MaskedBox(0, 9, (2,), max_size=3, dtype=dtype)
    x = space.pack([[2, 3], [4, 5]])
    assert x["values"].dtype == dtype and x["values"].tolist() == [[2, 3], [4, 5], [0, 0]]
    assert space.contains(x)


@pytest.mark.parametrize(
    ("dtype", "values", "got"),
    [
        ("uint8", [1, 256], 256),
        ("uint8", [1, -1], -1),
        ("int8", [1, 200], 200),
        ("int64", np.array([1, 2**63], np.uint64), 2**63),
        ("uint64", [1, -1], -1),
        ("float32", [1.0, 1e39], 1e39),
        ("float16", np.array([1, 70_000]), 70_000),
    ],
)
def test_pack_refuses_values_that_do_not_fit(dtype, values, got):
    text = re.escape(f"MaskedBox.pack: expected values that fit {dtype}, got {got}")
    with pytest.raises(ValueError, match=text):
        MaskedBox(0, 9, (), max_size=3, dtype=dtype).pack(values)


def test_pack_rounds_floats_and_keeps_infinity_and_nan():
    packed = MaskedBox(-np.inf, np.inf, (), max_size=4).pack([0.1, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(packed["values"], np.float32([0.1, np.inf, -np.inf, np.nan]))


def test_pack_and_unpack_are_of_one_set():
    space = orders(batch_shape=(2,))
    with pytest.raises(ValueError, match=r"MaskedBox.pack: expected the space of one set, got batch_shape=\(2,\)"):
        space.pack([[2, 3]])
    with pytest.raises(ValueError, match=r"MaskedBox.unpack: expected the space of one set"):
        space.unpack(space.empty())


@seeded
@given(st.data())
def test_pack_undoes_unpack(data):
    space = data.draw(masked_boxes())
    x = data.draw(samples(space))
    assert same(space.pack(*space.unpack(x)), x)


@pytest.mark.parametrize(
    "changes",
    [
        {"low": 0.0},
        {"high": 6.0},
        {"shape": (3,)},
        {"max_size": 4},
        {"dtype": np.float64},
        {"fill_value": 0},
        {"batch_shape": (1,)},
    ],
)
def test_every_argument_counts_for_equality(changes):
    assert orders() == orders(low=np.ones(2), seed=3)
    assert orders() != orders(**changes)


def test_axes_of_the_batch_are_not_axes_of_a_slot():
    assert MaskedBox(0, 1, (2,), max_size=3, batch_shape=(3,)) != MaskedBox(0, 1, (3, 2), max_size=3)


def test_repr():
    assert repr(MaskedBox(0, 1, (2,), max_size=4)) == "MaskedBox(0.0, 1.0, (2,), max_size=4, dtype=float32)"
    text = "MaskedBox(1.0, 5.0, (2,), max_size=3, dtype=float32, fill_value=-1.0, batch_shape=(2,))"
    assert repr(orders(batch_shape=(2,))) == text
