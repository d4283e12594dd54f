from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces_catalogue import each_fixed_space, each_space, same, samples, seeded, spaces

from sekai.spaces import (
    Box,
    Dict,
    Discrete,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Space,
    Tuple,
    flatdim,
    flatten,
    flatten_space,
    unflatten,
    zero_sample,
)

INF = np.inf
UINT64 = Box(0, INF, dtype=np.uint64)


@pytest.mark.parametrize(
    ("space", "x", "flat"),
    [
        (Box(0, 9, (2, 2)), np.array([[1, 2], [3, 4]], np.float32), [1, 2, 3, 4]),
        (Box(0, 9, ()), np.array(5, np.float32), [5]),
        (Discrete(3), np.int64(1), [0, 1, 0]),
        (Discrete(3, start=-1), np.int64(1), [0, 0, 1]),
        (MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (MultiDiscrete([[2, 1], [3, 2]], start=[[5, 5], [5, 5]]), np.array([[6, 5], [7, 5]]), [0, 1, 1, 0, 0, 1, 1, 0]),
        (MultiBinary((2, 2)), np.array([[1, 0], [0, 1]], np.int8), [1, 0, 0, 1]),
        (Dict(b=Discrete(2), a=Box(0, 9, (1,))), {"b": np.int64(0), "a": np.array([7], np.float32)}, [1, 0, 7]),
        (Tuple((Box(0, 9, (1,)), Discrete(2))), (np.array([7], np.float32), np.int64(1)), [7, 0, 1]),
        (
            MaskedBox(1, 9, (2,), max_size=2, fill_value=-1),
            {"values": np.array([[3, 4], [-1, -1]], np.float32), "mask": np.array([1, 0], np.int8)},
            [3, 4, -1, -1, 1, 0],
        ),
    ],
)
def test_layout(space, x, flat):
    assert flatten(space, x).tolist() == flat
    assert flatdim(space) == len(flat)
    assert same(unflatten(space, np.array(flat)), x)


@pytest.mark.parametrize(
    ("space", "flat"),
    [
        (Box(np.array([[0, -INF]]), np.array([[1, INF]])), Box(np.array([0, -INF]), np.array([1, INF]))),
        (Box(0, 255, (2, 2), np.uint8), Box(0, 255, (4,), np.uint8)),
        (Box(-INF, INF, (2,), np.int64), Box(-INF, INF, (2,), np.int64)),
        (Discrete(3, start=5), Box(0, 1, (3,), np.int64)),
        (MultiDiscrete([2, 3], np.int8), Box(0, 1, (5,), np.int8)),
        (MultiBinary((2, 2)), Box(0, 1, (4,), np.int8)),
        (Dict(b=Discrete(2), a=Box(-2, 3, (1,))), Box(np.array([0, 0, -2]), np.array([1, 1, 3]), dtype=np.float32)),
        (Tuple((Discrete(2), MultiBinary(1))), Box(0, 1, (3,), np.int64)),
        (
            MaskedBox(2, 9, (1,), max_size=2, fill_value=-1),
            Box(np.array([-1, -1, 0, 0]), np.array([9, 9, 1, 1])),
        ),
        (Dict({}), Box(0, 1, (0,))),
    ],
)
def test_flatten_space(space, flat):
    assert flatten_space(space) == flat
    assert flatten_space(space).is_bounded("below") == flat.is_bounded("below")


@each_fixed_space
def test_round_trip_over_the_catalogue(space):
    space.seed(0)
    flat_space = flatten_space(space)
    assert flat_space.shape == (flatdim(space),)
    for x in [zero_sample(space), *(space.sample() for _ in range(10))]:
        flat = flatten(space, x)
        assert flat.dtype == flat_space.dtype
        assert flat_space.contains(flat)
        assert same(unflatten(space, flat), x)


@seeded
@given(st.data())
def test_round_trip_of_generated_spaces(data):
    space = data.draw(spaces(fixed=True))
    x = data.draw(samples(space))
    flat = flatten(space, x)
    assert flat.dtype == flatten_space(space).dtype
    assert flatten_space(space).contains(flat)
    assert same(unflatten(space, flat), x)


@each_fixed_space
def test_samples_of_the_flat_space_unflatten(space):
    flat_space = flatten_space(space)
    flat_space.seed(0)
    unflatten(space, flat_space.sample())


@pytest.mark.parametrize("space", [Box(0, 1, (3,)), Dict(a=Box(0, 1, (3,)))])
def test_no_memory_is_shared(space):
    x = space.sample()
    leaf = x["a"] if isinstance(x, dict) else x
    before = leaf.copy()
    flat = flatten(space, x)
    flat[:] = 9
    assert np.array_equal(leaf, before)
    back = unflatten(space, flat)
    (back["a"] if isinstance(back, dict) else back)[:] = 0
    assert (flat == 9).all()


def test_the_largest_score_of_a_one_hot_part_counts():
    assert unflatten(Discrete(3, start=4), np.array([0.1, 0.7, 0.2])) == 5
    assert unflatten(MultiDiscrete([2, 2]), np.array([0.1, 0.7, 0.2, 0.1])).tolist() == [1, 0]


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((1, 4)), np.zeros(())])
def test_unflatten_checks_the_shape(array):
    with pytest.raises(ValueError, match=r"unflatten: expected an array of shape \(4,\), got"):
        unflatten(Box(0, 1, (2, 2)), array)


SEQUENCE = Sequence(Discrete(2))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("flatdim", flatdim),
        ("flatten_space", flatten_space),
        ("flatten", lambda space: flatten(space, ())),
        ("flatdim", lambda space: unflatten(space, np.zeros(1))),
    ],
)
@pytest.mark.parametrize("space", [SEQUENCE, Dict(a=Tuple((SEQUENCE,)))])
def test_a_sequence_does_not_flatten(name, call, space):
    if isinstance(space, Dict) and name == "flatten":
        space, call = SEQUENCE, lambda space: flatten(Tuple((space,)), ((),))
    with pytest.raises(ValueError, match=rf"{name}: Sequence.* has elements of many lengths"):
        call(space)


class Percent(Space[float]):
    def sample(self, mask=None):
        return 50.0

    def contains(self, x):
        return True


def test_other_classes_need_a_rule():
    for function in (flatdim, flatten_space, zero_sample):
        with pytest.raises(TypeError, match=f"{function.__name__}: no rule for Percent, add one with"):
            function(Percent())
    with pytest.raises(TypeError, match="flatten: no rule for Percent"):
        flatten(Percent(), 1.0)
    with pytest.raises(TypeError, match="flatdim: expected a space, got int"):
        flatdim(3)


def test_a_rule_can_be_added():
    class Mine(Percent):
        pass

    flatdim.register(Mine, lambda space: 1)
    flatten.register(Mine, lambda space, x: np.array([x / 100]))
    flatten_space.register(Mine, lambda space: Box(0, 1, (1,), np.float64))
    unflatten.register(Mine, lambda space, array: float(array[0]) * 100)
    zero_sample.register(Mine, lambda space: 0.0)
    space = Tuple((Mine(), Discrete(2)))
    x = (50.0, np.int64(1))
    assert flatten(space, x).tolist() == [0.5, 0, 1]
    assert unflatten(space, flatten(space, x)) == x
    assert flatten_space(space).shape == (flatdim(space),) == (3,)
    assert zero_sample(space) == (0.0, 0)


@each_fixed_space
def test_whatever_is_unflattened_is_an_element(space):
    rng = np.random.default_rng(0)
    for scale in (0.1, 100.0, 1e300):
        for array in (rng.normal(size=flatdim(space)) * scale, np.full(flatdim(space), scale)):
            x = unflatten(space, array)
            assert space.contains(x) and same(x, copy.deepcopy(x))
    for dtype in (np.int64, np.uint64, np.bool_):
        assert space.contains(unflatten(space, np.full(flatdim(space), np.array(-1).astype(dtype))))


@pytest.mark.parametrize(
    ("space", "array", "nearest"),
    [
        (Box(-1, 1, (3,)), [-1.0000001, 0.3, 7.0], np.float32([-1, 0.3, 1])),
        (Box(0, 9, (3,), np.int32), [2.9999998, -3.0, 1e30], np.int32([3, 0, 9])),
        (Box(-INF, INF, (2,), np.int64), [-1e30, 1e30], np.array([-(2**63), 2**63 - 1])),
        (MultiBinary(3), [0.4, 0.6, 5.0], np.int8([0, 1, 1])),
        (
            MaskedBox(1, 9, (), max_size=3, fill_value=-1),
            [10.0, 3.0, 4.0, 0.9, 0.1, 1.0],
            {"values": np.float32([9, -1, 4]), "mask": np.int8([1, 0, 1])},
        ),
    ],
    ids=["float", "rounded", "beyond", "binary", "slots"],
)
def test_the_nearest_element(space, array, nearest):
    assert same(unflatten(space, np.array(array)), nearest)


def test_no_element_is_near_nan():
    with pytest.raises(ValueError, match="unflatten: expected numbers, got NaN at 1"):
        unflatten(Box(-1, 1, (2,)), np.array([0.0, np.nan]))


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        ([Box(0, 1), Discrete(3), MultiDiscrete([4]), MultiBinary(2)], np.float32),
        ([Box(0, 1), Box(-(2**24), 2**24, dtype=np.int64)], np.float32),
        ([Box(0, 1), Box(0, 2**24 + 1, dtype=np.int64)], np.float64),
        ([Box(0, 1, dtype=np.float16), Box(0, 2049, dtype=np.int32)], np.float64),
        ([Box(0, 1, dtype=np.float16), Discrete(3)], np.float16),
        ([Box(0, 1), Box(0, 1, dtype=np.float64)], np.float64),
        ([Discrete(3), MultiBinary(2)], np.int64),
        ([UINT64, Discrete(3)], np.uint64),
        ([UINT64, Box(0, 9, dtype=np.int8), MultiBinary(2)], np.uint64),
        ([Box(0, 2**63 - 1, dtype=np.uint64), Box(-1, 9, dtype=np.int8)], np.int64),
        ([UINT64, Box(-1, 9, dtype=np.int8)], np.float64),
        ([UINT64, Box(0, 1)], np.float64),
    ],
    ids=lambda value: None,
)
def test_a_container_is_flattened_to_floats_that_hold_its_parts(parts, dtype):
    for space in (Tuple(parts), Dict(a=Tuple(parts), b=Discrete(2))):
        assert flatten_space(space).dtype == flatten(space, space.sample()).dtype == dtype
        x = space.sample()
        assert same(unflatten(space, flatten(space, x)), x)


def test_integers_keep_their_digits_beside_each_other():
    space = Dict(a=UINT64, b=Discrete(2), c=Tuple((Box(0, 2**62, (), np.int64),)))
    x = {"a": np.array([2**63 + 1], np.uint64), "b": np.int64(1), "c": (np.array(2**62 - 1),)}
    flat = flatten(space, x)
    assert flat.dtype == np.uint64 and flat.tolist() == [2**63 + 1, 0, 1, 2**62 - 1]
    assert flat in flatten_space(space) and same(unflatten(space, flat), x)
    signed = Tuple((Box(0, 2**60, (), np.uint64), Box(-(2**62), 0, (), np.int64)))
    y = (np.array(2**60 - 1, np.uint64), np.array(1 - 2**62))
    assert flatten(signed, y).tolist() == [2**60 - 1, 1 - 2**62] and same(unflatten(signed, flatten(signed, y)), y)


def test_lists_keep_their_digits():
    assert flatten(Box(0, INF, (2,), np.uint64), [1, 2**64 - 1]).tolist() == [1, 2**64 - 1]


@pytest.mark.parametrize("array", [[1j, 1.0], np.complex64([0, 1]), ["a", "b"]], ids=["list", "array", "text"])
def test_complex_numbers_are_refused(array):
    for space in (Box(0, 1, (2,)), MultiBinary(2), Discrete(2), Tuple((Box(0, 1), Box(0, 1)))):
        with pytest.raises(TypeError, match="^unflatten: expected real numbers, got dtype"):
            unflatten(space, array)
    for space in (Box(0, 1, (2,)), MultiBinary(2)):
        with pytest.raises(TypeError, match="^flatten: expected real numbers, got dtype"):
            flatten(space, array)
    with pytest.raises(TypeError, match="^flatten, values of a MaskedBox: expected real numbers, got dtype"):
        flatten(MaskedBox(0, 1, (), max_size=2), {"values": array, "mask": [1, 1]})


# --- zero_sample


@each_space
def test_the_zero_sample_is_an_element_and_fresh(space):
    assert space.contains(zero_sample(space))
    assert same(zero_sample(space), zero_sample(space))


@seeded
@given(spaces())
def test_the_zero_sample_of_generated_spaces_is_an_element(space):
    assert space.contains(zero_sample(space))


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box(-1, 1, (2,)), np.zeros(2, np.float32)),
        (Box(np.array([2, -5, -1]), np.array([3, -4, 1])), np.array([2, -4, 0], np.float32)),
        (Box(-INF, INF, ()), np.array(0, np.float32)),
        (Discrete(3, start=4), np.int64(4)),
        (MultiDiscrete([2, 2], start=[-5, 1]), np.array([-5, 1])),
        (MultiBinary(2), np.zeros(2, np.int8)),
        (Sequence(Discrete(2)), ()),
        (Sequence(Dict(a=Box(0, 1, (2,))), stack=True), {"a": np.zeros((0, 2), np.float32)}),
        (Dict(a=Tuple((Discrete(2),))), {"a": (np.int64(0),)}),
    ],
)
def test_the_zero_sample(space, expected):
    assert same(zero_sample(space), expected)


def test_the_zero_sample_can_be_written_to():
    space = MultiDiscrete([3, 3])
    zero_sample(space)[:] = 2
    assert zero_sample(space).tolist() == [0, 0]


@pytest.mark.parametrize(
    "space, x",
    [
        (Discrete(3), -1),
        (Discrete(3, start=2), 1),
        (MultiDiscrete([2, 3]), [2, 0]),
        (MultiDiscrete([[2], [3]]), [[0], [-1]]),
    ],
    ids=str,
)
def test_what_is_no_category_has_no_place(space, x):
    with pytest.raises(ValueError, match="^flatten: expected an element of (Multi)?Discrete.*, got"):
        flatten(space, x)
