from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from sekai.spaces import Box

INF = np.inf
F64_MAX = float(np.finfo(np.float64).max)
FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


# --- construction


@pytest.mark.parametrize(
    ("low", "high", "shape", "expected"),
    [
        (0, 1, None, (1,)),
        (np.float32(0), np.float64(1), None, (1,)),
        (np.array(0.0), 1, None, ()),
        (np.zeros((2, 3)), 1, None, (2, 3)),
        (0, np.ones(4), None, (4,)),
        ([0, 0], [1, 1], None, (2,)),
        (np.zeros(2), np.ones(2), None, (2,)),
        (np.array(0.0), np.ones(2), None, (2,)),
        (0, 1, (), ()),
        (0, 1, [2, 3], (2, 3)),
        (0, 1, np.array([2, 3]), (2, 3)),
        (np.zeros(3), 1, (3,), (3,)),
    ],
)
def test_shape_is_given_or_taken_from_the_bounds(low, high, shape, expected):
    box = Box(low, high, shape)
    assert box.shape == expected
    assert box.low.shape == box.high.shape == expected
    assert all(type(axis) is int for axis in box.shape)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_bounds_have_the_dtype(dtype):
    box = Box(0, 1, (2,), dtype)
    assert box.dtype == np.dtype(dtype)
    assert box.low.dtype == box.high.dtype == box.dtype
    assert box.low.tolist() == [0, 0]
    assert box.high.tolist() == [1, 1]


def test_float32_is_the_default():
    assert Box(0, 1).dtype == np.float32


@pytest.mark.parametrize("low", [0.0, np.zeros(3), np.broadcast_to(0.0, (3,))], ids=["number", "array", "view"])
@pytest.mark.parametrize("clone", [lambda box: box, copy.deepcopy, lambda box: pickle.loads(pickle.dumps(box))])
def test_bounds_are_read_only(low, clone):
    box = clone(Box(low, np.ones(3)))
    for bound in (box.low, box.high, box.bounded_below, box.bounded_above):
        with pytest.raises(ValueError, match="read-only"):
            bound[0] = 0
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            bound.setflags(write=True)
    with pytest.raises(AttributeError):
        box.low = np.zeros(3)


def test_bounds_do_not_share_memory_with_the_arguments():
    low, high = np.zeros(3, np.float32), np.ones(3, np.float32)
    box = Box(low, high)
    low[:], high[:] = 9, 9
    assert box.low.tolist() == [0, 0, 0]
    assert box.high.tolist() == [1, 1, 1]
    assert low.flags.writeable


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((np.nan, 1), r"Box low: expected numbers, got NaN"),
        ((np.zeros(2), np.array([1, np.nan])), r"Box high: expected numbers, got NaN"),
        ((np.nan, 1, (2,), np.int32), r"Box low: expected numbers, got NaN"),
        ((1, 0), r"Box: expected low <= high everywhere, got 1.0 > 0.0 at index \(0,\)"),
        ((np.array([[0, 0], [0, 5]]), 4), r"got 5.0 > 4.0 at index \(1, 1\)"),
        ((INF, INF), r"Box low: expected no inf"),
        ((-INF, -INF), r"Box high: expected no -inf"),
        ((np.zeros(2), np.ones(3)), r"Box: expected low and high of one shape, got \(2,\) and \(3,\)"),
        ((np.zeros(2), 1, (3,)), r"Box low: expected a number or shape \(3,\), got shape \(2,\)"),
        ((0, np.zeros(2), (2, 2)), r"Box high: expected a number or shape \(2, 2\), got shape \(2,\)"),
        ((0, 1, (-1,)), r"axis 0 of the shape: expected at least 0, got -1"),
        ((0.5, 3, (2,), np.int32), r"Box low: expected whole numbers that fit int32, got 0.5"),
        ((0, 256, (2,), np.uint8), r"Box high: expected values that fit uint8, got 256"),
        ((-1, 3, (2,), np.uint8), r"Box low: expected values that fit uint8, got -1"),
        ((0, 256.0, (2,), np.uint8), r"Box high: expected whole numbers that fit uint8, got 256.0"),
        ((0, 2.0**63, (2,), np.int64), r"Box high: expected whole numbers that fit int64"),
        ((0, 2**63, (2,), np.int64), r"Box high: expected values that fit int64, got 9223372036854775808"),
        ((0, 10**30, (2,), np.int64), r"Box high: expected whole numbers that fit int64, got 1e\+30"),
        ((0, 10**400), r"Box high: expected values that fit a dtype"),
        ((-INF, 3, (2,), np.uint8), r"Box low: uint8 has no values without bound, got -inf"),
        ((0, INF, (2,), np.bool_), r"Box high: bool has no values without bound, got inf"),
        ((0, 2, (2,), np.bool_), r"Box high: expected values that fit bool, got 2"),
        ((0, 1e39, (2,), np.float32), r"Box high: expected values that fit float32, got 1e\+39"),
        ((0, 1e5, (2,), np.float16), r"Box high: expected values that fit float16, got 100000.0"),
    ],
)
def test_a_bad_value_is_a_value_error(arguments, text):
    with pytest.raises(ValueError, match=text):
        Box(*arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 1, 3), r"Box shape: expected a shape, a tuple of integers, got 3"),
        ((0, 1, "33"), r"Box shape: expected a shape"),
        ((0, 1, (2.0,)), r"axis 0 of the shape: expected an integer, got float"),
        ((0, 1, (True,)), r"axis 0 of the shape: expected an integer, got the bool True"),
        ((0, 1, (2,), np.complex64), r"Box dtype: expected bool, an integer or a float .* got complex64"),
        ((0, 1, (2,), "datetime64[s]"), r"Box dtype"),
        ((0, 1, (2,), np.longdouble), r"Box dtype: .* at most 64 bits"),
        ((0, 1, (2,), "no dtype"), r"Box dtype: .* got 'no dtype'"),
        ((0, 1, (2,), None), r"Box dtype: .* got None"),
        (("0", 1), r"Box low: expected a number or an array of numbers, got '0'"),
        ((0, None), r"Box high: expected a number or an array of numbers, got None"),
        ((0, 1j), r"Box high: expected a number or an array of numbers"),
        ((0, [[1], [1, 2]]), r"Box high: expected a number or an array of numbers"),
    ],
)
def test_a_bad_type_is_a_type_error(arguments, text):
    with pytest.raises(TypeError, match=text):
        Box(*arguments)


def test_large_ints_are_bounds_of_floats():
    assert Box(-(10**30), 10**30, dtype=np.float64).high[0] == 1e30


def test_integer_bounds_keep_every_digit():
    assert Box(2**63 - 2, 2**63 - 1, (1,), np.int64).low[0] == 2**63 - 2
    box = Box(np.uint64(2**64 - 2), np.uint64(2**64 - 1), (1,), np.uint64)
    assert (int(box.low[0]), int(box.high[0])) == (2**64 - 2, 2**64 - 1)


# --- bounds that repeat


def test_broadcast_bounds_cost_one_row():
    row = np.array([0.0, 1.0], np.float32)
    box = Box(np.broadcast_to(row, (10**12, 2)), np.broadcast_to(np.float32(5.0), (10**12, 2)))
    assert box.low.shape == (10**12, 2)
    assert box.low.strides == (0, 4)
    assert box.high.strides == (0, 0)
    assert box.is_bounded()
    assert box == Box(np.broadcast_to(row, (10**12, 2)), 5.0, (10**12, 2))
    assert box != Box(np.broadcast_to(row, (10**12, 2)), 6.0, (10**12, 2))
    assert len(pickle.dumps(box)) < 2000
    assert pickle.loads(pickle.dumps(box)) == box
    assert repr(box) == "Box(broadcast_to([[0.0, 1.0]], (1000000000000, 2)), 5.0, (1000000000000, 2), float32)"


def test_broadcast_bounds_equal_written_out_ones():
    row = np.array([0.0, 1.0], np.float32)
    view, full = Box(np.broadcast_to(row, (3, 2)), 5.0), Box(np.tile(row, (3, 1)), np.full((3, 2), 5.0))
    assert view == full
    view.seed(1)
    full.seed(1)
    assert np.array_equal(view.sample(), full.sample())
    assert view.contains(full.low) and not view.contains(full.low - 1)


# --- is_bounded


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    ("low", "high", "below", "above"),
    [
        ([0, 0], [1, 1], True, True),
        ([-INF, 0], [1, 1], False, True),
        ([0, 0], [1, INF], True, False),
        ([-INF, 0], [1, INF], False, False),
    ],
)
def test_is_bounded(dtype, low, high, below, above):
    box = Box(np.array(low), np.array(high), dtype=dtype)
    assert box.is_bounded("below") is below
    assert box.is_bounded("above") is above
    assert box.is_bounded("both") is box.is_bounded() is (below and above)
    assert box.bounded_below.tolist() == [bound > -INF for bound in low]
    assert box.bounded_above.tolist() == [bound < INF for bound in high]


def test_is_bounded_knows_three_manners():
    with pytest.raises(ValueError, match="expected manner 'both', 'below' or 'above', got 'left'"):
        Box(0, 1).is_bounded("left")


def test_an_infinite_integer_bound_is_the_limit_of_the_dtype():
    box = Box(-INF, INF, (1,), np.int8)
    assert (box.low[0], box.high[0]) == (-128, 127)
    assert Box(0, INF, (1,), np.uint8).high[0] == 255


# --- sampling


def test_bounded_samples_are_uniform():
    x = Box(-2.0, 6.0, (200_000,), np.float64, seed=0).sample()
    assert abs(x.mean() - 2) < 0.03
    assert abs(x.var() - 64 / 12) < 0.05
    assert np.abs(np.histogram(x, bins=8, range=(-2, 6))[0] / 25_000 - 1).max() < 0.03


def test_a_single_bound_gives_exponential_distances():
    box = Box(np.array([3.0, -INF]), np.array([INF, 3.0]), seed=0)
    x = np.array([box.sample() for _ in range(20_000)], dtype=np.float64)
    distance = np.stack([x[:, 0] - 3, 3 - x[:, 1]])
    assert distance.min() >= 0
    assert np.abs(distance.mean(axis=1) - 1).max() < 0.04
    assert np.abs(distance.var(axis=1) - 1).max() < 0.1
    assert abs(np.corrcoef(distance)[0, 1]) < 0.03


def test_unbounded_samples_are_standard_normal():
    x = Box(-INF, INF, (200_000,), np.float64, seed=0).sample()
    assert abs(x.mean()) < 0.01
    assert abs(x.std() - 1) < 0.01
    assert abs((np.abs(x) < 1).mean() - 0.6827) < 0.005


def test_integer_bounds_are_inclusive_and_equally_likely():
    x = Box(-1, 2, (100_000,), np.int8, seed=0).sample()
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == [-1, 0, 1, 2]
    assert np.abs(counts / 25_000 - 1).max() < 0.03


def test_integers_with_one_bound_or_none():
    box = Box(np.array([5, -INF, -INF]), np.array([INF, 5, INF]), dtype=np.int64, seed=0)
    x = np.array([box.sample() for _ in range(5000)])
    assert x[:, 0].min() == 5 and x[:, 0].max() > 8
    assert x[:, 1].max() == 5 and x[:, 1].min() < 2
    assert x[:, 2].min() < -1 and x[:, 2].max() > 1


def test_sampling_mixes_all_kinds_of_bounds():
    box = Box(np.array([0, -INF, -INF, 5.0]), np.array([1, 0, INF, INF]), seed=0)
    x = np.array([box.sample() for _ in range(2000)])
    assert (x >= box.low).all() and (x <= box.high).all()
    assert x[:, 0].std() < 0.4 < x[:, 2].std()


@pytest.mark.parametrize("dtype", FLOATS)
def test_samples_stay_within_extreme_bounds(dtype):
    limits = np.finfo(dtype)
    least, most = float(limits.min), float(limits.max)
    tiny = float(limits.smallest_subnormal)
    near = float(np.nextafter(np.dtype(dtype).type(1), np.dtype(dtype).type(2)))
    low = np.array([least, least, 0.0, most, -INF, 1.0, tiny, least])
    high = np.array([most, INF, tiny, INF, least, near, tiny, least])
    box = Box(low, high, dtype=dtype, seed=0)
    for _ in range(300):
        x = box.sample()
        assert np.isfinite(x).all()
        assert box.contains(x)


def test_the_whole_float64_range_is_drawn_from():
    x = Box(-F64_MAX, F64_MAX, (10_000,), np.float64, seed=0).sample() / F64_MAX
    assert abs(x.mean()) < 0.03
    assert x.min() < -0.9 and x.max() > 0.9


def test_rounding_to_float32_does_not_leave_the_bounds():
    low = np.float32(0.1)
    high = np.nextafter(low, np.float32(1))
    x = Box(low, high, (10_000,), seed=0).sample()
    assert set(np.unique(x)) == {low, high}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_whole_integer_range_is_drawn_from(dtype):
    limits = np.iinfo(dtype)
    x = Box(limits.min, limits.max, (2000,), dtype, seed=0).sample()
    span = int(limits.max) - int(limits.min)
    assert int(x.min()) < int(limits.min) + span // 50
    assert int(x.max()) > int(limits.max) - span // 50


def test_integers_do_not_wrap_at_the_end_of_the_dtype():
    box = Box(np.array([126, -INF]), np.array([INF, -127]), dtype=np.int8, seed=0)
    x = np.array([box.sample() for _ in range(300)])
    assert set(x[:, 0]) == {126, 127}
    assert set(x[:, 1]) == {-127, -128}
    far = Box(2**63 - 2, INF, (1,), np.int64, seed=0)
    assert {int(far.sample()[0]) for _ in range(50)} == {2**63 - 2, 2**63 - 1}


def test_bools_are_both_drawn():
    x = Box(False, True, (1000,), np.bool_, seed=0).sample()
    assert x.dtype == np.bool_
    assert 400 < x.sum() < 600


def test_samples_are_fresh_writable_arrays():
    box = Box(0, 1, (2,), seed=0)
    x = box.sample()
    x[:] = 9
    assert box.contains(box.sample())
    assert isinstance(Box(0, 1, (), seed=0).sample(), np.ndarray)


def test_what_a_mask_leaves_out_rests():
    space = Box(np.array([-1.0, -1.0, 2.0, -5.0]), np.array([1.0, 1.0, 3.0, -4.0]), seed=0)
    x = np.array([space.sample([1, 0, 0, False]) for _ in range(20)])
    assert len(set(x[:, 0])) == 20
    assert (x[:, 1:] == [0.0, 2.0, -4.0]).all()
    assert space.contains(x[0])
    with pytest.raises(ValueError, match=r"Box.sample mask: expected shape \(4,\), got \(3,\)"):
        space.sample(np.ones(3, np.int64))


def test_a_mask_of_numbers_other_than_zeros_and_ones_is_refused():
    with pytest.raises(TypeError, match="Box.sample mask: expected bools or integers, got dtype float64"):
        Box(0, 1).sample(np.ones(1))


# --- contains


def test_bounds_are_contained():
    box = Box(-1, 1, (2,))
    assert box.contains(box.low) and box.contains(box.high)
    assert not box.contains(np.nextafter(box.high, np.float32(2)))
    assert not box.contains(np.nextafter(box.low, np.float32(-2)))


def test_one_element_outside_is_enough():
    assert not Box(-1, 1, (3,)).contains(np.array([0, 0, 1.5], np.float32))


@pytest.mark.parametrize("low", [-INF, -1.0])
def test_nan_is_never_contained(low):
    assert not Box(low, INF, (2,)).contains(np.array([0, np.nan], np.float32))


def test_infinity_is_contained_where_there_is_no_bound():
    assert Box(-INF, INF, (1,)).contains(np.array([INF], np.float32))
    assert not Box(-INF, 1e30, (1,)).contains(np.array([INF], np.float32))


@pytest.mark.parametrize(
    ("dtype", "other", "expected"),
    [
        ("float32", "float32", True),
        ("float32", "float16", True),
        ("float32", "int8", True),
        ("float32", "float64", False),
        ("float32", "int64", False),
        ("float64", "float32", True),
        ("int64", "int32", True),
        ("int32", "int64", False),
        ("int64", "float32", False),
        ("uint8", "int8", False),
        ("float32", "complex64", False),
        ("float32", "object", False),
    ],
)
def test_the_dtype_must_cast_safely(dtype, other, expected):
    assert Box(0, 1, (2,), dtype).contains(np.zeros(2, other)) is expected


@pytest.mark.parametrize("x", [np.zeros((1, 2)), np.zeros(3), np.zeros(()), np.zeros((2, 1))])
def test_the_shape_must_match(x):
    assert not Box(0, 1, (2,), np.float64).contains(x)


@pytest.mark.parametrize(
    ("box", "x", "expected"),
    [
        (Box(0, 1), [0.5], True),
        (Box(0, 1, (2,)), [0, 1], True),
        (Box(0, 1, (2,)), (0.0, np.float64(1.0)), True),
        (Box(0, 1, (1, 2)), ([0.0, 1.0],), True),
        (Box(0, 0.7), [0.7], True),  # above the bound before it is rounded
        (Box(0, 0.7, ()), 0.7, True),
        (Box(0, 1, (2,)), [0.0, 1.5], False),
        (Box(0, 1, (2,)), [0.0, np.nan], False),
        (Box(0, 1, (2,)), [0.0], False),
        (Box(0, 1, (2,)), [[0.0, 1.0]], False),
        (Box(0, 1, (2,)), [0.0, [1.0]], False),
        (Box(0, 1, (2,)), ["0", "1"], False),
        (Box(0, 1, (2,)), [None, 0.0], False),
        (Box(-INF, INF), [INF], True),
        (Box(-INF, INF), [1e39], False),
        (Box(-INF, INF, ()), 1e39, False),
        (Box(-INF, INF, (), np.float64), 2**70, True),
        (Box(0, 300, (2,), np.int16), [0, 300], True),
        (Box(0, 255, (2,), np.uint8), [0, 256], False),
        (Box(0, 255, (2,), np.uint8), [0.0, 1.0], False),
        (Box(False, True, (2,), np.bool_), [True, False], True),
        (Box(False, True, (2,), np.bool_), [1, 0], False),
        (Box(0, 1, (0,), np.int8), [], True),
        (Box(0, 1, (2,)), 0.0, False),
        (Box(0, 1, (2,)), None, False),
        (Box(0, 1, (2,)), {0.0, 1.0}, False),
        (Box(0, 1, (2,)), "01", False),
    ],
)
def test_lists_and_tuples_count_as_arrays(box, x, expected):
    assert box.contains(x) is expected


@pytest.mark.parametrize(
    ("dtype", "x", "expected"),
    [
        ("float32", 0.5, True),
        ("float32", 1, True),
        ("float32", 2, False),
        ("float32", float("nan"), False),
        ("float32", np.float32(0.5), True),
        ("float32", np.array(0.5, np.float32), True),
        ("float32", True, False),
        ("float32", "0", False),
        ("int64", 1, True),
        ("int64", 0.5, False),
        ("int64", np.int8(1), True),
        ("bool", True, True),
        ("bool", 1, False),
    ],
)
def test_numbers_are_contained_in_a_box_without_axes(dtype, x, expected):
    assert Box(0, 1, (), dtype).contains(x) is expected


def test_zero_size_boxes():
    box = Box(0, 1, (0, 3))
    assert box.sample().shape == (0, 3)
    assert box.contains(np.zeros((0, 3), np.float32))
    assert not box.contains(np.zeros((0, 2), np.float32))
    assert box.is_bounded()
    assert Box(np.zeros((0, 3)), np.ones((0, 3))) == box == Box(-INF, 5, (0, 3))
    assert Box(-INF, INF, (0, 3)).is_bounded()


# --- equality and repr


@pytest.mark.parametrize(
    "other",
    [Box(0, 2, (2,)), Box(-1, 1, (2,)), Box(0, 1, (3,)), Box(0, 1, (2,), np.float64), Box(0, 1, (2, 1))],
)
def test_every_argument_counts_for_equality(other):
    assert Box(0, 1, (2,)) == Box(np.zeros(2), np.ones(2))
    assert Box(0, 1, (2,)) != other


@pytest.mark.parametrize(
    ("box", "text"),
    [
        (Box(0, 1, (2,)), "Box(0.0, 1.0, (2,), float32)"),
        (Box(-INF, INF, (2,), np.int64), "Box(-inf, inf, (2,), int64)"),
        (Box(np.array([0, -INF]), 1.5), "Box([0.0, -inf], 1.5, (2,), float32)"),
        (Box(0, 255, (), np.uint8), "Box(0, 255, (), uint8)"),
    ],
)
def test_repr(box, text):
    assert repr(box) == text


def test_repr_is_as_short_as_the_dtype_allows():
    box = Box(np.float32([-1.2, 0.1]), np.float16([3.3, 65504.0]), dtype=np.float32)
    assert repr(box) == "Box([-1.2, 0.1], [3.3007812, 65504.0], (2,), float32)"
    assert repr(Box(0.1, np.float32(0.1), dtype=np.float64)) == "Box(0.1, 0.10000000149011612, (1,), float64)"
    numbers = np.random.default_rng(0).integers(0, 2**32, 400, dtype=np.uint32).view(np.float32)
    for number in numbers[np.isfinite(numbers)]:
        assert eval(repr(Box(number, number)), {"Box": Box, "float32": np.float32}).low[0] == number


def test_repr_of_many_different_bounds_is_short():
    assert len(repr(Box(np.arange(10_000.0), 1e6))) < 200


def test_a_missing_bound_of_an_integer_is_not_the_limit_of_its_dtype():
    limits = np.iinfo(np.int32)
    free, full = Box(-INF, INF, (1,), np.int32), Box(limits.min, limits.max, (1,), np.int32)
    assert free != full and repr(free) != repr(full) and free.is_bounded() != full.is_bounded()
    assert Box(0, INF, (1,), np.uint8) != Box(0, 255, (1,), np.uint8)
    assert free == Box(np.array([-INF]), np.array([INF]), dtype=np.int32)
    assert pickle.loads(pickle.dumps(free)) == free


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
def test_equal_boxes_of_one_seed_draw_the_same(dtype):
    number, array = Box(0, 1, (2, 3), dtype, seed=1), Box(np.zeros((2, 3)), np.ones((2, 3)), dtype=dtype, seed=1)
    assert number == array and repr(number) == repr(array)
    for _ in range(3):
        np.testing.assert_array_equal(number.sample(), array.sample())


def test_equal_spaces_have_one_hash():
    assert len({Box(0, 1), Box([0], [1], seed=3), Box(0, 2)}) == 2


def test_a6_integers_in_lists_do_not_go_through_floats():
    assert Box([0, 0], [1, 2**63 + 1], dtype=np.uint64).high.tolist() == [1, 2**63 + 1]
    objects = Box(np.array([0, 0], object), np.array([1, 2**63 + 1], object), dtype=np.uint64)
    assert objects.high.tolist() == [1, 2**63 + 1]
    full = Box([0, 0], [1, 2**64 - 1], dtype=np.uint64)
    assert full.high.tolist() == [1, 2**64 - 1]
    assert Box([np.uint64(3), 2**63], [INF, 2**63 + 1], dtype=np.uint64).low.tolist() == [3, 2**63]
    assert Box([0, 0], [INF, 2**63 + 1], dtype=np.uint64).high[1] == 2**63 + 1
    assert Box([-INF, -(2**53) - 1], [INF, 2**53 + 1], dtype=np.int64).low[1] == -(2**53) - 1
    for element in ([0, 2**64 - 1], [1, 2**63 + 1], [np.uint64(1), 3], [0, 5]):
        assert full.contains(element) and full.contains(np.array(element, np.uint64))
    for element in ([0, 2**64], [-1, 2**63], [2, 2**64 - 1], [0.0, 2**63 + 1], [1, 2**63 + 0.5]):
        assert not full.contains(element)


def test_a6_samples_as_lists_are_elements():
    space = Box([0, 2**63], [1, 2**64 - 1], dtype=np.uint64, seed=0)
    assert all(space.contains(space.sample().tolist()) for _ in range(20))
    assert space.from_jsonable(space.to_jsonable([space.high]))[0].tolist() == [1, 2**64 - 1]


@pytest.mark.parametrize("high", [[1, 2**64], [1, 2**70], [1.5, 2**63]])
def test_a6_what_does_not_fit_is_still_refused(high):
    with pytest.raises(ValueError, match="Box high: expected whole numbers that fit uint64"):
        Box([0, 0], high, dtype=np.uint64)
    assert Box([0, 0], high, dtype=np.float64).high.tolist() == [float(each) for each in high]
