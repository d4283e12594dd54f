"""How elements become batches and come back: over the catalogue, over generated spaces, and on faulty input."""

from __future__ import annotations

import copy
import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces_catalogue import CATALOGUE, draw, each_fixed_space, each_space, samples, spaces
from spaces_catalogue import has_fixed_layout as expect_fixed_layout
from spaces_catalogue import same as same_types

from sekai.batching.buffers import SMALL, Buffers, Loan
from sekai.batching.layout import (
    allocate,
    as_batch,
    batch_space,
    concatenate,
    copy_batch,
    copy_row,
    has_fixed_layout,
    iterate,
    own_batch,
    put,
    split,
    stack,
    take,
    write_row,
)
from sekai.errors import InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Sequence, Space, Tuple

INF = np.inf
seeded = settings(derandomize=True, deadline=None, max_examples=40, database=None)


@st.composite
def batches(draw: st.DrawFn, *, least: int = 0, fixed: bool = False) -> tuple[Space[Any], list[Any]]:
    """A generated space and some of its elements."""
    space = draw(spaces(fixed=fixed))
    return space, draw(st.lists(samples(space), min_size=least, max_size=5))


def arrays_of(value: Any) -> list[np.ndarray[Any, Any]]:
    """Every array anywhere inside."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return arrays_of(list(value.values()))
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in arrays_of(part)]
    return []


def same(a: Any, b: Any) -> bool:
    """Whether two elements or batches are equal in structure, dtype and value; an array () may come as a scalar."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(plain(part) for part in value)
        return value[()] if isinstance(value, np.ndarray) else value

    return same_types(plain(a), plain(b))


def share_memory(a: Any, b: Any) -> bool:
    return any(np.shares_memory(x, y) for x in arrays_of(a) for y in arrays_of(b))


def scribble(value: Any) -> None:
    """Change every array anywhere inside."""
    for array in arrays_of(value):
        array[...] = ~array if array.dtype == bool else array + 1


def elements(space: Space[Any], n: int, seed: int = 0) -> list[Any]:
    return [draw(space, seed + i) for i in range(n)]


class Anything(Space[Any]):
    """A space that the layer knows nothing about."""

    def sample(self, mask: Any = None) -> Any:
        return {"items": [np.zeros(2)]}

    def contains(self, x: Any) -> bool:
        return isinstance(x, dict)


# -- round trips -------------------------------------------------------------------------------------------


@given(batches())
@seeded
def test_iterate_undoes_concatenate(case):
    space, items = case
    assert same(list(iterate(space, concatenate(space, items), len(items))), items)


@each_space
def test_iterate_undoes_concatenate_in_the_catalogue(space):
    items = elements(space, 3)
    assert same(list(iterate(space, concatenate(space, items), 3)), items)


@given(batches(), st.lists(st.integers(0, 3), min_size=1, max_size=4))
@seeded
def test_concatenating_the_rows_of_the_pieces_gives_the_batch(case, sizes):
    space, items = case
    items = [items[i % len(items)] for i in range(sum(sizes))] if items else []
    if not items:
        sizes = [0] * len(sizes)
    batch = concatenate(space, items)
    pieces = split(space, batch, sizes)
    assert len(pieces) == len(sizes)
    rows = [row for piece, size in zip(pieces, sizes, strict=True) for row in iterate(space, piece, size)]
    assert len(rows) == sum(sizes)
    assert same(concatenate(space, rows), batch)


@given(batches(fixed=True))
@seeded
def test_pieces_of_arrays_are_views(case):
    space, items = case
    batch = concatenate(space, items)
    (piece,) = split(space, batch, [len(items)])
    for part, whole in zip(arrays_of(piece), arrays_of(batch), strict=True):
        assert part.base is whole


@given(batches(least=1), st.data())
@seeded
def test_putting_back_what_was_taken_changes_nothing(case, data):
    space, items = case
    rows = np.array(data.draw(st.permutations(range(len(items)))), dtype=np.intp)
    rows = rows[: data.draw(st.integers(0, len(rows)))]
    batch = concatenate(space, items)
    before = copy.deepcopy(batch)
    put(batch, rows, take(batch, rows))
    assert same(batch, before)


@given(batches(least=1), st.data())
@seeded
def test_put_writes_the_rows_and_no_others(case, data):
    space, items = case
    row = st.integers(0, len(items) - 1)
    rows = data.draw(st.lists(row, unique=True))
    new = [data.draw(samples(space)) for _ in rows]
    batch = concatenate(space, items)
    put(batch, np.array(rows, dtype=np.intp), concatenate(space, new))
    for row, value in zip(rows, new, strict=True):
        items[row] = value
    assert same(batch, concatenate(space, items))


@given(batches(least=1), st.data())
@seeded
def test_take_gives_the_rows_asked_for_in_fresh_memory(case, data):
    space, items = case
    rows = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=6))
    batch = concatenate(space, items)
    taken = take(batch, np.array(rows, dtype=np.intp))
    assert same(list(iterate(space, taken, len(rows))), [items[row] for row in rows])
    assert not share_memory(taken, batch)


@given(batches(least=1))
@seeded
def test_writing_a_row_then_iterating_gives_it_back(case):
    space, items = case
    n = len(items)
    batch = allocate(space, n)
    for row in reversed(range(n)):
        write_row(space, batch, row, items[row])
    assert same(list(iterate(space, batch, n)), items)


@given(batches(least=1))
@seeded
def test_a_row_is_copied_when_it_is_written(case):
    space, items = case
    kept = copy.deepcopy(items)
    batch = concatenate(space, items)
    assert not share_memory(batch, items)
    scribble(items)
    assert same(list(iterate(space, batch, len(items))), kept)


@given(batches())
@seeded
def test_concatenate_into_a_given_batch(case):
    space, items = case
    out = allocate(space, len(items))
    assert concatenate(space, items, out) is out
    assert same(out, concatenate(space, items))


@given(spaces(), st.data())
@seeded
def test_copy_row_gives_the_element_in_fresh_memory(space, data):
    item = data.draw(samples(space))
    copied = copy_row(space, item)
    assert same(copied, item)
    assert not share_memory(copied, item)


@given(batches())
@seeded
def test_copies_of_a_batch_are_equal_and_fresh(case):
    space, items = case
    batch = concatenate(space, items)
    for copied in (copy_batch(batch), own_batch(batch, Buffers(least=0))):
        assert same(copied, batch)
        assert not share_memory(copied, batch)


@given(batches())
@seeded
def test_a_batch_passes_through_as_batch(case):
    space, items = case
    batch = concatenate(space, items)
    passed = as_batch(space, len(items), batch)
    assert same(passed, batch)
    if expect_fixed_layout(space):
        for part, whole in zip(arrays_of(passed), arrays_of(batch), strict=True):
            assert part is whole


@given(batches(least=1, fixed=True))
@seeded
def test_stack_is_concatenate_for_elements(case):
    space, items = case
    assert same(stack(space, items), concatenate(space, items))


def test_stack_keeps_the_dtype_that_the_rows_share():
    space = Dict({"x": Box(0, 1, (2,), np.float32), "y": Discrete(3)})
    stacked = stack(space, [{"x": np.zeros(2, np.float64), "y": 0.5}, {"x": np.ones(2, np.float64), "y": 1.5}])
    assert stacked["x"].dtype == np.float64
    np.testing.assert_array_equal(stacked["y"], [0.5, 1.5])


def test_iterate_finds_the_length_of_a_batch_with_an_empty_part():
    """Only a batch without any array needs to be told how many elements it has."""
    space = Dict({"x": Box(0, 1, (1,)), "none": Dict({}), "also": Tuple(())})
    items = elements(space, 3)
    assert same(list(iterate(space, concatenate(space, items))), items)


@pytest.mark.parametrize("space, element", [(Dict({}), {}), (Tuple(()), ()), (Tuple([Dict({})]), ({},))])
def test_a_batch_without_arrays_has_as_many_elements_as_it_is_told(space, element):
    assert list(iterate(space, concatenate(space, [element] * 3), 3)) == [element] * 3


def test_elements_of_a_batch_are_views_of_it():
    space = Dict({"x": Box(-INF, INF, (2,))})
    batch = allocate(space, 2)
    for i, element in enumerate(iterate(space, batch)):
        element["x"][:] = i + 1
    np.testing.assert_array_equal(batch["x"], [[1, 1], [2, 2]])


def test_containers_keep_their_type_and_order():
    space = Tuple((Discrete(3), Discrete(4)))
    batch = concatenate(space, [(0, 1), [1, 2]])
    assert same(batch, (np.array([0, 1]), np.array([1, 2])))
    assert list(concatenate(CATALOGUE["dict"], elements(CATALOGUE["dict"], 2))) == ["b", "a"]


@pytest.mark.parametrize("sizes", [[2], [2, 2], []])
def test_split_refuses_sizes_that_do_not_add_up(sizes):
    for space in (Box(0, 1, (2,)), Dict({"x": Discrete(2)}), Sequence(Discrete(2))):
        batch = concatenate(space, elements(space, 3))
        with pytest.raises(ValueError, match=r"sizes that add up to 3, got \[" + ", ".join(map(str, sizes))):
            split(space, batch, sizes)


# -- spaces ------------------------------------------------------------------------------------------------


@given(batches(least=1))
@seeded
def test_a_batch_is_in_the_batch_space(case):
    space, items = case
    assert batch_space(space, len(items)).contains(concatenate(space, items))


@each_space
def test_a_batch_is_in_the_batch_space_in_the_catalogue(space):
    assert batch_space(space, 3).contains(concatenate(space, elements(space, 3)))


@given(spaces(), st.integers(1, 5), st.integers(0, 99))
@seeded
def test_a_sample_of_the_batch_space_iterates_into_elements(space, n, seed):
    batched = batch_space(space, n)
    batched.seed(seed)
    rows = list(iterate(space, batched.sample(), n))
    assert len(rows) == n
    assert all(space.contains(row) for row in rows)


@given(spaces(), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
@seeded
def test_a_batch_of_batches_is_in_the_batch_space_of_the_batch_space(space, n, m, seed):
    inner = batch_space(space, n)
    outer = batch_space(inner, m)
    batches_of = [concatenate(space, elements(space, n, seed + i)) for i in range(m)]
    whole = concatenate(inner, batches_of)
    assert outer.contains(whole)
    for batch, row in zip(batches_of, iterate(inner, whole, m), strict=True):
        assert same(list(iterate(space, row, n)), list(iterate(space, batch, n)))


@given(spaces(), st.integers(1, 3))
@seeded
def test_the_batch_space_depends_on_the_space_and_the_length_alone(space, n):
    assert batch_space(space, n) == batch_space(copy.deepcopy(space), n)
    assert batch_space(space, n) != batch_space(space, n + 1) or not arrays_of(allocate(space, 1))


@pytest.mark.parametrize(
    "space, batched",
    [
        (Box(-1, 2, (3,)), Box(-1, 2, (4, 3))),
        (Box(0, 255, (), np.uint8), Box(0, 255, (4,), np.uint8)),
        (Box(np.array([0, -INF]), np.array([INF, 1])), Box(np.array([[0, -INF]] * 4), np.array([[INF, 1]] * 4))),
        (Discrete(3, start=-1), MultiDiscrete([3] * 4, start=[-1] * 4)),
        (MultiDiscrete([2, 3], start=[5, 0]), MultiDiscrete([[2, 3]] * 4, start=[[5, 0]] * 4)),
        (MultiDiscrete([2, 3], np.int8), MultiDiscrete([[2, 3]] * 4, np.int8)),
        (MultiBinary(2), MultiBinary((4, 2))),
        (MaskedBox(0, 1, max_size=2, fill_value=7), MaskedBox(0, 1, max_size=2, fill_value=7, batch_shape=(4,))),
        (Dict(a=Discrete(2)), Dict(a=MultiDiscrete([2] * 4))),
        (Tuple([Discrete(2)]), Tuple([MultiDiscrete([2] * 4)])),
        (Sequence(Discrete(2), max_length=3), Tuple([Sequence(Discrete(2), max_length=3)] * 4)),
        (Anything(), Tuple([Anything()] * 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_batch_space_of_each_kind(space, batched):
    assert batch_space(space, 4) == batched


@pytest.mark.parametrize(
    "space",
    [
        Box(0, INF, (3,), np.int64),
        Box(-INF, 0, (3,), np.int64),
        Box(-INF, INF, (3,), np.int32),
        Box(np.array([0, 5]), np.array([INF, 9]), dtype=np.uint8),
        Box(0, INF, (3,)),
    ],
    ids=repr,
)
def test_a_missing_bound_stays_missing_in_the_batch_space(space):
    """Integer bounds too, whose stored value is the limit of the dtype: samples are drawn near the other bound."""
    batched = batch_space(space, 2)
    np.testing.assert_array_equal(batched.bounded_below, [space.bounded_below] * 2)
    np.testing.assert_array_equal(batched.bounded_above, [space.bounded_above] * 2)


def test_a_missing_bound_stays_missing_in_the_batch_of_a_masked_box():
    space = MaskedBox(0, INF, (), max_size=3, dtype=np.int64)
    batched = batch_space(space, 2)
    batched.seed(0)
    assert max(batched.sample()["values"].max() for _ in range(20)) < 1000  # exponential with mean 1


def test_rows_of_a_batch_space_are_drawn_independently_of_each_other():
    """Also where the space was seeded before its batch space was made."""
    batched = batch_space(Sequence(Box(0, 1, ()), seed=5), 4)
    drawn = [batched.sample() for _ in range(10)]
    assert not all(same(rows[0], row) for rows in drawn for row in rows)


def test_an_empty_batch_has_a_space_where_the_kind_allows_it():
    for space in (Box(0, 1, (2,)), Discrete(2), MaskedBox(0, 1, max_size=2), Dict(a=Discrete(2)), Tuple([])):
        assert batch_space(space, 0).contains(concatenate(space, []))


@each_space
def test_has_fixed_layout(space):
    assert has_fixed_layout(space) == expect_fixed_layout(space)


@given(spaces(), st.integers(1, 3))
@seeded
def test_has_fixed_layout_of_generated_spaces_and_their_batches(space, n):
    assert has_fixed_layout(space) == expect_fixed_layout(space)
    assert has_fixed_layout(batch_space(space, n)) == expect_fixed_layout(space)


def test_a_space_that_inherits_from_one_of_arrays_is_one():
    class Prices(Box):
        pass

    space = Prices(0.0, 1.0, (2,), np.float64)
    assert has_fixed_layout(space) and same(allocate(space, 3), np.zeros((3, 2)))
    assert same(as_batch(space, 2, [[0.5, 1.0], [0.0, 0.25]]), np.array([[0.5, 1.0], [0.0, 0.25]]))


def test_an_unknown_space_has_no_fixed_layout():
    assert not has_fixed_layout(Anything())
    assert not has_fixed_layout(Dict(a=Discrete(2), b=Anything()))
    items = [{"items": [np.zeros(2)]}, {"items": []}]
    batch = concatenate(Anything(), items)
    assert isinstance(batch, list)
    assert not share_memory(batch, items)
    assert same(list(iterate(Anything(), batch)), items)


# -- allocate ----------------------------------------------------------------------------------------------


@given(spaces(fixed=True), st.integers(0, 5))
@seeded
def test_allocate_gives_zeros_of_the_shapes_of_the_elements(space, n):
    element, batch = arrays_of(concatenate(space, [draw(space, 0)])), arrays_of(allocate(space, n))
    assert [array.shape for array in batch] == [(n, *array.shape[1:]) for array in element]
    assert [array.dtype for array in batch] == [array.dtype for array in element]
    assert not any(array.any() for array in batch)
    assert all(array.flags.writeable and array.flags.owndata for array in batch)


def test_allocate_without_a_fixed_layout_gives_a_list():
    assert allocate(Sequence(Discrete(2)), 3) == [None] * 3
    assert allocate(Dict(a=Sequence(Discrete(2))), 2) == {"a": [None] * 2}


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_zero_size_spaces(shape):
    space = Dict({"e": Box(0, 1, shape), "x": Box(-INF, INF, (1,), np.float64)})
    batch = concatenate(space, elements(space, 2))
    assert batch["e"].shape == (2, *shape)
    assert batch_space(space, 2).contains(batch)
    with pytest.raises(
        InvalidObservation, match=re.escape(f"expected an observation of shape {shape}, got shape (5,)")
    ):
        concatenate(space, [{"e": np.zeros(5), "x": np.zeros(1)}])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_])
def test_an_empty_list_is_an_element_of_a_zero_size_space_of_any_dtype(dtype):
    """It has no values that a dtype could change."""
    space = Box(0, 1, (0,), dtype)
    assert concatenate(space, [[], []]).shape == (2, 0)
    assert as_batch(space, 2, [[], []]).dtype == dtype


# -- what is refused ---------------------------------------------------------------------------------------

BOX3 = Box(-INF, INF, (3,), np.float32)


@pytest.mark.parametrize(
    "space, value, shapes",
    [
        (BOX3, np.array([5.0]), ("(3,)", "(1,)")),
        (BOX3, np.zeros((3, 1)), ("(3,)", "(3, 1)")),
        (BOX3, np.zeros((1, 3), np.float32), ("(3,)", "(1, 3)")),
        (BOX3, 5.0, ("(3,)", "()")),
        (BOX3, [], ("(3,)", "(0,)")),
        (BOX3, None, ("(3,)", "()")),
        (BOX3, {"x": 1}, ("(3,)", "()")),
        (Box(-INF, INF, ()), np.array([5.0]), ("()", "(1,)")),
        (Discrete(3), [1], ("()", "(1,)")),
        (MultiDiscrete([2, 3]), 1, ("(2,)", "()")),
        (MultiBinary((2, 2)), [0, 1], ("(2, 2)", "(2,)")),
        (Dict(a=Dict(b=BOX3)), {"a": {"b": np.zeros(1)}}, ("(3,)", "(1,)")),
        (Tuple([Discrete(2), BOX3]), (0, np.zeros(1)), ("(3,)", "(1,)")),
        (
            MaskedBox(0, 1, (), max_size=2),
            {"values": np.zeros(1, np.float32), "mask": np.zeros(2, np.int8)},
            ("(2,)", "(1,)"),
        ),
        (
            MaskedBox(0, 1, (), max_size=2),
            {"values": np.zeros(2, np.float32), "mask": np.zeros(1, np.int8)},
            ("(2,)", "(1,)"),
        ),
        (Sequence(BOX3), (np.zeros(3), np.zeros(1)), ("(3,)", "(1,)")),
    ],
    ids=repr,
)
def test_an_observation_of_another_shape_is_refused_never_broadcast(space, value, shapes):
    batch = allocate(space, 3)
    expected, got = map(re.escape, shapes)
    with pytest.raises(InvalidObservation, match=rf"sub-env 1: .*shape {expected}, got shape {got}"):
        write_row(space, batch, 1, value)
    with pytest.raises(InvalidObservation, match=rf"sub-env 2: .*shape {expected}, got shape {got}"):
        copy_row(space, value, 2)


def test_a_ragged_observation_is_refused():
    with pytest.raises(InvalidObservation, match=r"sub-env 0: expected an observation of shape \(2, 2\), got .*inhomo"):
        concatenate(Box(0, 1, (2, 2)), [[[1.0, 2.0], [3.0]]])


@pytest.mark.parametrize(
    "value",
    [np.zeros((2, 5), np.float32), np.zeros(3, np.float32), 5.0, (np.zeros(3),), np.array(["a", "b"])],
    ids=repr,
)
def test_a_stack_of_features_of_another_shape_is_refused(value):
    space = Sequence(BOX3, stack=True)
    with pytest.raises(InvalidObservation, match="sub-env 1"):
        write_row(space, allocate(space, 2), 1, value)


def test_a_stack_of_features_is_copied_in_the_dtype_of_the_space():
    row = copy_row(Sequence(BOX3, stack=True), np.ones((2, 3), np.float64))
    assert same(row, np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    "space, value",
    [
        (Box(-9, 9, (), np.float32), np.float64(0.5)),
        (Box(-9, 9, (), np.float32), 3),
        (Box(-9, 9, (), np.float32), True),
        (Box(-9, 9, (), np.float32), np.array(0.5, ">f8")),
        (Box(-9, 9, (), np.int8), np.int64(-9)),
        (Box(0, 255, (), np.uint8), 255),
        (Box(0, 2**64 - 1, (), np.uint64), 2**64 - 1),
        (Discrete(3), np.uint64(2)),
        (Discrete(3), np.array(2)),
        (MultiBinary(1), np.array([True])),
    ],
    ids=repr,
)
def test_dtypes_of_the_same_kind_are_cast(space, value):
    batch = concatenate(space, [value])
    assert batch.dtype == space.dtype
    np.testing.assert_array_equal(batch[0], np.asarray(value).astype(space.dtype))


@pytest.mark.parametrize(
    "space, value, dtype",
    [
        (Box(0, 9, (), np.int64), 1.0, "float64"),
        (Box(0, 9, (), np.int64), np.float32(1.0), "float32"),
        (Box(0, 1, (), np.bool_), 1, "int64"),
        (Box(0, 1, ()), 1j, "complex128"),
        (Box(0, 1, ()), "0.5", "<U3"),
        (Box(0, 1, ()), None, "object"),
        (Discrete(3), 1.0, "float64"),
        (Box(-9, 9, (), np.int8), 128, "int64"),
        (Box(0, 255, (), np.uint8), -1, "int64"),
        (Box(-INF, INF, (), np.int64), 2**63, "uint64"),
        (Discrete(3), np.uint64(2**63), "uint64"),
        (Discrete(3), 2**70, "object"),
    ],
    ids=repr,
)
def test_dtypes_of_another_kind_and_integers_that_do_not_fit_are_refused(space, value, dtype):
    message = rf"expected an observation of dtype {space.dtype}, got {dtype}"
    with pytest.raises(InvalidObservation, match=f"sub-env 1: {message}"):
        write_row(space, allocate(space, 2), 1, value)
    with pytest.raises(ValueError, match=rf"x: expected dtype {space.dtype}, got {dtype}"):
        as_batch(space, 1, [value], "x")


PAIR = Dict(a=Discrete(2), b=Discrete(2))


@pytest.mark.parametrize(
    "space, value, expected, got",
    [
        (PAIR, {"a": 0}, "a dict of ['a', 'b']", "a dict of ['a']"),
        (PAIR, {"a": 0, "b": 0, "c": 0}, "a dict of ['a', 'b']", "a dict of ['a', 'b', 'c']"),
        (PAIR, {"a": 0, 1: 0}, "a dict of ['a', 'b']", "a dict of ['1', 'a']"),
        (PAIR, np.zeros(2), "a dict of ['a', 'b']", "an array of shape (2,)"),
        (PAIR, (0, 0), "a dict of ['a', 'b']", "a tuple of 2"),
        (Tuple([Discrete(2)]), (0, 0), "a tuple of 1", "a tuple of 2"),
        (Tuple([Discrete(2)]), (), "a tuple of 1", "a tuple of 0"),
        (Tuple([Discrete(2)]), {0: 0}, "a tuple of 1", "a dict of ['0']"),
        (Tuple([Discrete(2)]), np.zeros(1), "a tuple of 1", "an array of shape (1,)"),
        (MaskedBox(0, 1, max_size=2), {"values": 0}, "a dict of ['mask', 'values']", "a dict of ['values']"),
        (MaskedBox(0, 1, max_size=2), np.zeros(2), "a dict of ['mask', 'values']", "an array of shape (2,)"),
        (Dict(p=PAIR), {"p": 3}, "a dict of ['a', 'b']", "int"),
        (Dict({}), {"a": 0}, "a dict of []", "a dict of ['a']"),
    ],
    ids=repr,
)
def test_another_structure_is_refused(space, value, expected, got):
    message = rf"{re.escape(expected)}, got {re.escape(got)}"
    with pytest.raises(InvalidObservation, match=f"sub-env 1: .*{message}"):
        write_row(space, allocate(space, 2), 1, value)
    with pytest.raises(InvalidObservation, match=f"sub-env 1: .*{message}"):
        copy_row(space, value, 1)
    with pytest.raises(KeyError, match=f"x.*{message}"):
        as_batch(space, 2, value, "x", KeyError)


@pytest.mark.parametrize("space", [Dict([("b", BOX3), ("a", PAIR)]), MaskedBox(0, 1, (), max_size=4)], ids=repr)
def test_as_batch_puts_keys_in_the_order_of_the_space(space):
    batch = concatenate(space, elements(space, 2))
    turned = dict(reversed(batch.items()))
    assert [*as_batch(space, 2, turned)] == [*batch] == [*reversed(turned)]
    assert same(as_batch(space, 2, turned), batch)


def test_what_is_no_sequence_is_refused():
    space = Sequence(Discrete(2))
    with pytest.raises(InvalidObservation, match="sub-env 1: expected a sequence"):
        write_row(space, allocate(space, 2), 1, 5)


@pytest.mark.parametrize(
    "space, value, message",
    [
        (Discrete(2), np.zeros((2, 1), int), r"x: expected shape \(2,\), got shape \(2, 1\)"),
        (Discrete(2), np.zeros(3, int), r"x: expected shape \(2,\), got shape \(3,\)"),
        (Discrete(2), 0, r"x: expected shape \(2,\), got shape \(\)"),
        (BOX3, np.zeros(3), r"x: expected shape \(2, 3\), got shape \(3,\)"),
        (BOX3, [[1.0], [1.0, 2.0]], r"x: expected shape \(2, 3\), got .*inhomogeneous"),
        (Dict(a=BOX3), {"a": np.zeros((3, 3))}, r"x\['a'\]: expected shape \(2, 3\), got shape \(3, 3\)"),
        (Tuple([BOX3]), (np.zeros((3, 3)),), r"x\[0\]: expected shape \(2, 3\), got shape \(3, 3\)"),
        (
            MaskedBox(0, 1, (), max_size=4),
            {"values": np.zeros((2, 4)), "mask": np.zeros((2, 3), np.int8)},
            r"x\['mask'\]: expected shape \(2, 4\), got shape \(2, 3\)",
        ),
        (Sequence(Discrete(2)), [(0,)], r"x: expected a sequence of 2 elements \(num_envs\), got a list of 1"),
        (Sequence(Discrete(2)), np.zeros(2), r"x: expected a sequence of 2 elements .* an array of shape \(2,\)"),
    ],
    ids=repr,
)
def test_as_batch_refuses_what_is_no_batch(space, value, message):
    with pytest.raises(ValueError, match=message):
        as_batch(space, 2, value, "x")
    with pytest.raises(InvalidObservation, match=message):
        as_batch(space, 2, value, "x", InvalidObservation)


@each_fixed_space
def test_as_batch_takes_nested_lists(space):
    batch = concatenate(space, elements(space, 2))
    if not all(array.size for array in arrays_of(batch)):
        return  # A list of empty lists has lost its shape.

    def listed(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return part.tolist()
        return {k: listed(v) for k, v in part.items()} if isinstance(part, dict) else tuple(map(listed, part))

    assert same(as_batch(space, 2, listed(batch)), batch)


@each_fixed_space
def test_a4_as_batch_takes_a_list_of_elements(space):
    for n in (1, 2, 3):
        items = elements(space, n)
        assert same(as_batch(space, n, items), concatenate(space, items))
        with pytest.raises(ValueError, match="x"):
            as_batch(space, n + 1, items, "x")


# -- own_batch ---------------------------------------------------------------------------------------------


class Source:
    """Hands out arrays (3, 2) of ones as an ``_observe()`` might."""

    def __init__(self) -> None:
        self.buffers = Buffers(least=0)
        self.state = np.ones((3, 2))
        self.stored = {"a": np.ones((3, 2)), "b": (np.ones((3, 2)),)}
        self.lent = self.buffers.take((3, 2), np.float64)
        self.lent[:] = 1

    def fresh(self):
        return np.ones((3, 2))

    def attribute(self):
        return self.state

    def view(self):
        return self.state[:]

    def reversed_view(self):
        return self.state[::-1]

    def read_only(self):
        array = np.ones((3, 2))
        array.flags.writeable = False
        self.state = array
        return array

    def not_owning(self):
        return np.frombuffer(bytearray(np.ones((3, 2)).tobytes())).reshape(3, 2)

    def broadcast(self):
        return np.broadcast_to(self.state[0], (3, 2))

    def subclass(self):
        return self.lent.view(np.matrix)

    def dict_that_is_kept(self):
        return self.stored

    def tuple_that_is_kept(self):
        return self.stored["b"]

    def twice_in_one_dict(self):
        return {"a": self.state, "b": self.state}

    def a_view_of_lent_memory(self):
        return self.lent[:]

    def a_part_of_lent_memory(self):
        return {"a": self.lent[1:], "b": self.lent.T}

    def lent_memory_that_is_locked(self):
        self.lent.flags.writeable = False
        return self.lent

    def lent_memory_that_was_taken(self):
        own_batch(self.lent, self.buffers)
        return self.lent

    def lent_memory_as_it_was_taken(self):
        self.state = own_batch(self.lent, self.buffers)
        return self.state


@pytest.mark.parametrize("how", [name for name in vars(Source) if not name.startswith("_")])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a10_own_batch_copies_whatever_is_not_lent_as_a_whole_and_for_the_first_time(how):
    source = Source()
    batch = getattr(source, how)()
    owned = own_batch(batch, source.buffers)
    arrays = arrays_of(owned)
    assert arrays and not share_memory(owned, [batch, source.state, source.stored, source.lent])
    for array in arrays:
        assert type(array) is np.ndarray or how == "subclass"
        assert array.flags.writeable and array.flags.c_contiguous and (array == 1).all()
    for array, other in itertools.combinations(arrays, 2):
        assert not np.shares_memory(array, other)


def test_a10_own_batch_takes_lent_memory_over_once_wherever_it_is():
    buffers = Buffers(least=0)
    lent = [buffers.take((3, 2), np.float64) for _ in range(4)]
    for k, array in enumerate(lent):
        array[:] = k
    owned = own_batch({"a": lent[0], "b": ({"c": lent[1]}, lent[2], lent[0]), "d": lent[3][:]}, buffers)
    taken = [owned["a"], owned["b"][0]["c"], owned["b"][1]]
    for k, array in enumerate(taken):
        assert np.shares_memory(array, lent[k]) and array.flags.writeable and (array == k).all()
        with pytest.raises(ValueError, match="read-only"):
            lent[k][:] = 9
    assert not np.shares_memory(owned["b"][2], lent[0]) and not np.shares_memory(owned["d"], lent[3])
    lent[3][:] = 9  # it was not taken
    assert (owned["b"][2] == 0).all() and (owned["d"] == 3).all()


def test_a10_own_batch_asks_no_reference_who_holds_an_array():
    buffers = Buffers(least=0)
    assert isinstance(own_batch(np.ones((3, 2)), buffers).base, Loan)  # a copy, though nobody else has it
    lent = buffers.take((3, 2), np.float64)
    held = [lent, {"it": lent}, lambda: lent, memoryview(lent)]
    assert np.shares_memory(own_batch(lent, buffers), lent) and len(held) == 4  # none, though others have it


def test_a10_large_copies_go_into_memory_that_is_used_again():
    state, buffers, places = {"a": np.ones(SMALL), "b": np.ones(SMALL, np.int8)}, Buffers(), set()
    for _ in range(20):
        owned = own_batch(state, buffers)
        places |= {array.ctypes.data for array in owned.values()}
    assert len(places) <= 4


@each_space
def test_own_batch_of_what_as_batch_has_just_checked(space):
    """As the native backend calls it: never an array of the simulation."""
    state = concatenate(space, elements(space, 2))
    for buffers in (Buffers(), Buffers(least=0)):
        owned = own_batch(as_batch(space, 2, state), buffers)
        assert same(owned, state)
        assert not share_memory(owned, state)
