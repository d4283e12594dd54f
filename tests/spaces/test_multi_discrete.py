from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from sekai.spaces import MultiDiscrete


def ones(*lengths):
    return tuple(np.ones(n, np.int8) for n in lengths)


def test_attributes():
    space = MultiDiscrete([[2, 3], [4, 1]], start=[[0, -1], [5, 9]])
    assert (space.shape, space.dtype) == ((2, 2), np.dtype(np.int64))
    assert space.nvec.tolist() == [[2, 3], [4, 1]]
    assert space.start.tolist() == [[0, -1], [5, 9]]
    assert MultiDiscrete([2, 3], np.int32).start.dtype == np.int32


@pytest.mark.parametrize("clone", [lambda x: x, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_arrays_are_read_only_and_their_own(clone):
    nvec, start = np.array([2, 3]), np.array([0, 1])
    space = clone(MultiDiscrete(nvec, start=start))
    nvec[:], start[:] = 9, 9
    assert (space.nvec.tolist(), space.start.tolist()) == ([2, 3], [0, 1])
    for array in (space.nvec, space.start):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"nvec": [2, 0]}, ValueError, r"MultiDiscrete nvec: expected at least 1 everywhere, got 0"),
        ({"nvec": [2.0, 3.0]}, TypeError, r"MultiDiscrete nvec: expected integers, got \[2.0, 3.0\]"),
        ({"nvec": [True]}, TypeError, r"MultiDiscrete nvec: expected integers"),
        ({"nvec": "ab"}, TypeError, r"MultiDiscrete nvec: expected integers"),
        ({"nvec": [[1, 2], [3]]}, TypeError, r"MultiDiscrete nvec: expected integers"),
        ({"nvec": [2**63]}, ValueError, r"MultiDiscrete nvec: expected values that fit int64"),
        ({"nvec": [2, 3], "start": [0]}, ValueError, r"start: expected the shape of nvec \(2,\), got \(1,\)"),
        ({"nvec": [2, 3], "start": 0}, ValueError, r"start: expected the shape of nvec \(2,\), got \(\)"),
        ({"nvec": [2], "start": [0.5]}, TypeError, r"MultiDiscrete start: expected integers"),
        ({"nvec": [2], "start": [2**63 - 1]}, ValueError, r"expected start \+ nvec - 1 to fit int64"),
        ({"nvec": [2], "dtype": np.float32}, TypeError, r"MultiDiscrete dtype: expected an integer dtype"),
        ({"nvec": [2], "dtype": bool}, TypeError, r"MultiDiscrete dtype: expected an integer dtype"),
        ({"nvec": [2], "dtype": None}, TypeError, r"MultiDiscrete dtype: .* got None"),
        ({"nvec": [2], "dtype": "nothing"}, TypeError, r"MultiDiscrete dtype: .* got 'nothing'"),
        ({"nvec": [200], "dtype": np.int8}, ValueError, r"MultiDiscrete high: expected values that fit int8, got 199"),
        ({"nvec": [2], "start": [-1], "dtype": np.uint8}, ValueError, r"MultiDiscrete low: .* fit uint8, got -1"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        MultiDiscrete(**arguments)


def test_every_value_is_equally_likely():
    space = MultiDiscrete([[2, 3], [4, 1]], start=[[0, -1], [5, 9]], seed=0)
    x = np.array([space.sample() for _ in range(6000)])
    assert x.dtype == np.int64
    for index in np.ndindex(2, 2):
        n, start = space.nvec[index], space.start[index]
        values, counts = np.unique(x[(slice(None), *index)], return_counts=True)
        assert values.tolist() == list(range(start, start + n))
        assert np.abs(counts * n / 6000 - 1).max() < 0.1


def test_contains():
    space = MultiDiscrete([2, 3], start=[0, -1])
    assert space.contains(np.array([1, 1])) is True
    assert space.contains(np.array([0, -1], np.int8)) is True


@pytest.mark.parametrize(
    "x",
    [np.array([2, 0]), np.array([0, -2]), np.array([0, 0, 0]), np.array([0.0, 0.0]), np.array([True, False])]
    + [[2, 0], [0, 0, 0], [0.0, 0.0], [True, False], [0, [0]], ["0", "0"], {0, 1}, 0, None],
)
def test_does_not_contain(x):
    assert MultiDiscrete([2, 3], start=[0, -1]).contains(x) is False


@pytest.mark.parametrize("x", [[1, -1], (1, 1), [np.int8(0), 0]])
def test_contains_lists_and_tuples(x):
    assert MultiDiscrete([2, 3], start=[0, -1]).contains(x) is True
    assert MultiDiscrete([2, 3], np.int8, start=[0, -1]).contains(x) is True
    assert MultiDiscrete([[2, 3]] * 2, start=[[0, -1]] * 2).contains([x, x]) is True


def test_without_axes_an_element_is_an_integer_or_an_array():
    space = MultiDiscrete(3, np.int32, seed=0)
    for x in (space.sample(), np.int32(2), np.int8(2), np.array(2, np.int32), 2):
        assert space.contains(x) is True
    for x in (np.int32(3), np.int64(2), 3, 2.0, True, np.bool_(True), np.float32(2.0), [2], np.array([2], np.int32)):
        assert space.contains(x) is False
    assert isinstance(space.sample(), np.ndarray)
    assert space.sample(np.array([0, 0, 1], np.int8)) == 2


def test_contains_wants_a_dtype_that_casts_safely():
    assert not MultiDiscrete([2, 3], np.int32).contains(np.array([0, 0], np.int64))


def test_masks_restrict_the_samples():
    space = MultiDiscrete([[2, 3], [4, 1]], start=[[0, -1], [5, 9]], seed=0)
    mask = (
        (np.array([0, 1], np.int8), np.array([1, 0, 1], np.int8)),
        [[0, 0, 0, True], np.array([1])],
    )
    x = np.array([space.sample(mask) for _ in range(100)])
    assert set(x[:, 0, 0]) == {1}
    assert set(x[:, 0, 1]) == {-1, 1}
    assert set(x[:, 1, 0]) == {8}
    assert set(x[:, 1, 1]) == {9}
    assert space.contains(x[0])


def test_masks_of_a_range_wider_than_half_the_dtype():
    space = MultiDiscrete([200], np.int8, start=[-100], seed=0)
    mask = np.zeros(200, np.int8)
    mask[199] = 1
    assert space.sample((mask,)).tolist() == [99]


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (np.array(1), TypeError, r"mask: expected tuples nested 2 deep, got ndarray at depth 0"),
        ((ones(2, 3), {0: 1}), TypeError, r"expected tuples nested 2 deep, got dict at depth 1"),
        ((ones(2, 3),), ValueError, r"expected 2 entries at depth 0, got 1"),
        ((ones(2, 3), ones(4)), ValueError, r"expected 2 entries at depth 1, got 1"),
        ((ones(2, 3), ones(4, 2)), ValueError, r"element \(1, 1\): expected shape \(1,\), got \(2,\)"),
        ((ones(2, 3), (np.ones(4), np.ones(1))), TypeError, r"element \(1, 0\): expected bools or integers"),
        ((ones(2, 3), (np.zeros(4, bool), *ones(1))), ValueError, r"element \(1, 0\): expected at least one value"),
        ((ones(2, 3), (np.full(4, 2, np.int8), *ones(1))), ValueError, r"element \(1, 0\): expected values 0 or 1"),
    ],
)
def test_bad_masks(mask, error, text):
    with pytest.raises(error, match=text):
        MultiDiscrete([[2, 3], [4, 1]]).sample(mask)


def test_equality_and_repr():
    assert MultiDiscrete([2, 3]) == MultiDiscrete(np.array([2, 3]), start=[0, 0])
    assert MultiDiscrete([2, 3]) != MultiDiscrete([2, 4])
    assert MultiDiscrete([2, 3]) != MultiDiscrete([2, 3], start=[0, 1])
    assert MultiDiscrete([2, 3]) != MultiDiscrete([2, 3], np.int32)
    assert repr(MultiDiscrete([2, 3])) == "MultiDiscrete([2, 3])"
    assert repr(MultiDiscrete([2], np.int8, start=[1])) == "MultiDiscrete([2], dtype=int8, start=[1])"


def test_broadcast_arrays_cost_one_row():
    space = MultiDiscrete(np.broadcast_to([2, 3], (10**12, 2)), start=np.broadcast_to(5, (10**12, 2)))
    assert space.nvec.strides == (0, 8) and space.start.strides == (0, 0)
    assert space == pickle.loads(pickle.dumps(space))
    assert len(repr(space)) < 120


def test_empty_arrays():
    space = MultiDiscrete([])
    assert space.shape == (0,)
    assert space.sample().shape == (0,)
    assert space.contains(np.zeros(0, np.int64))
