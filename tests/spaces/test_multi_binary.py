from __future__ import annotations

import numpy as np
import pytest

from sekai.spaces import MultiBinary


@pytest.mark.parametrize(
    ("n", "shape", "kept"),
    [
        (3, (3,), 3),
        (np.int64(3), (3,), 3),
        ((2, 3), (2, 3), (2, 3)),
        ([2, 3], (2, 3), (2, 3)),
        (np.array([4]), (4,), (4,)),
    ],
)
def test_shape(n, shape, kept):
    space = MultiBinary(n)
    assert (space.shape, space.n, space.dtype) == (shape, kept, np.dtype(np.int8))


@pytest.mark.parametrize(
    ("n", "error", "text"),
    [
        (0, ValueError, r"MultiBinary n: expected at least 1, got 0"),
        ((2, 0), ValueError, r"MultiBinary n: expected every axis to be at least 1, got \(2, 0\)"),
        ((2, -1), ValueError, r"MultiBinary n: axis 1 of the shape"),
        (2.0, TypeError, r"MultiBinary n: expected an integer, got float"),
        ((2.0,), TypeError, r"axis 0 of the shape: expected an integer, got float"),
        ("3", TypeError, r"MultiBinary n"),
    ],
)
def test_bad_arguments(n, error, text):
    with pytest.raises(error, match=text):
        MultiBinary(n)


def test_both_values_are_equally_likely_in_every_place():
    space = MultiBinary((2, 3), seed=0)
    x = np.array([space.sample() for _ in range(4000)])
    assert x.dtype == np.int8
    assert set(np.unique(x)) == {0, 1}
    assert np.abs(x.mean(axis=0) - 0.5).max() < 0.03


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.bool_])
def test_contains_integers_and_bools(dtype):
    assert MultiBinary(3).contains(np.array([0, 1, 1], dtype)) is True


@pytest.mark.parametrize(
    "x",
    [np.array([0, 1, 2], np.int8), np.array([0, -1, 1]), np.zeros(4, np.int8), np.zeros(3), None]
    + [[0, 1, 2], [0, 1], [0.0, 1.0, 1.0], [0, 1, [1]], ["0", "1", "1"], {0, 1, 2}, 1],
)
def test_does_not_contain(x):
    assert MultiBinary(3).contains(x) is False


@pytest.mark.parametrize("x", [[0, 1, 1], (0, 1, 1), [False, True, np.int8(1)]])
def test_contains_lists_and_tuples(x):
    assert MultiBinary(3).contains(x) is True
    assert MultiBinary((2, 3)).contains([x, x]) is True


def test_without_axes_an_element_is_a_number_or_an_array():
    space = MultiBinary((), seed=0)
    for x in (space.sample(), np.int8(1), np.bool_(True), np.array(0), 1, True):
        assert space.contains(x) is True
    for x in (np.int8(2), 2, 0.0, np.float32(1.0), [1], np.array([1])):
        assert space.contains(x) is False
    assert isinstance(space.sample(), np.ndarray)
    assert space.sample(np.array(1, np.int8)) == 1


def test_a_mask_fixes_elements_and_2_leaves_them_free():
    space = MultiBinary(4, seed=0)
    mask = np.array([0, 1, 2, 2], np.int8)
    x = np.array([space.sample(mask) for _ in range(200)])
    assert (x[:, 0] == 0).all() and (x[:, 1] == 1).all()
    assert 0.3 < x[:, 2].mean() < 0.7 and 0.3 < x[:, 3].mean() < 0.7
    assert mask.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (np.zeros(3), TypeError, r"MultiBinary.sample mask: expected bools or integers, got dtype float64"),
        (np.zeros((3, 1), np.int8), ValueError, r"expected shape \(3,\), got \(3, 1\)"),
        (np.array([0, 1, 3], np.int8), ValueError, r"expected values 0, 1 or 2, got \[0, 1, 3\]"),
    ],
)
def test_bad_masks(mask, error, text):
    with pytest.raises(error, match=text):
        MultiBinary(3).sample(mask)


def test_equality_and_repr():
    assert MultiBinary(3) == MultiBinary((3,))
    assert MultiBinary(3) != MultiBinary(4)
    assert repr(MultiBinary(3)) == "MultiBinary(3)"
    assert repr(MultiBinary([3, 2])) == "MultiBinary((3, 2))"
