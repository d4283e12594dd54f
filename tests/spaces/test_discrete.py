from __future__ import annotations

import numpy as np
import pytest

from sekai.spaces import Discrete


def test_attributes():
    space = Discrete(5, start=-2)
    assert (space.n, space.start, space.shape, space.dtype) == (5, -2, (), np.dtype(np.int64))
    assert type(Discrete(np.int32(5)).n) is int


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n": 0}, ValueError, r"Discrete n: expected at least 1, got 0"),
        ({"n": -3}, ValueError, r"Discrete n: expected at least 1, got -3"),
        ({"n": 2.0}, TypeError, r"Discrete n: expected an integer, got float"),
        ({"n": True}, TypeError, r"Discrete n: expected an integer, got the bool True"),
        ({"n": [2]}, TypeError, r"Discrete n: expected an integer"),
        ({"n": 2, "start": 0.5}, TypeError, r"Discrete start: expected an integer, got float"),
        ({"n": 3, "start": 2**63 - 2}, ValueError, r"Discrete: expected elements that fit int64"),
        ({"n": 3, "start": -(2**63) - 1}, ValueError, r"Discrete: expected elements that fit int64"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        Discrete(**arguments)


@pytest.mark.parametrize("start", [0, -1, 7, 2**63 - 3, -(2**63)])
def test_samples_are_int64_and_equally_likely(start):
    space = Discrete(3, start=start, seed=0)
    drawn = [space.sample() for _ in range(6000)]
    assert {type(x) for x in drawn} == {np.int64}
    counts = [drawn.count(start + i) for i in range(3)]
    assert sum(counts) == 6000
    assert min(counts) > 1850


@pytest.mark.parametrize("x", [-1, 0, 1, np.int64(1), np.int8(-1), np.uint8(1), np.array(1), np.array(0, np.uint64)])
def test_contains(x):
    assert Discrete(3, start=-1).contains(x) is True


@pytest.mark.parametrize(
    "x",
    [-2, 2, np.int64(2), np.array(2), 10**30, 0.0, np.float64(0), np.array(0.0), np.array([0]), [0], "0", None]
    + [True, np.bool_(True), np.array(True)],
)
def test_does_not_contain(x):
    assert Discrete(3, start=-1).contains(x) is False


def test_a_mask_restricts_the_samples():
    space = Discrete(4, start=10, seed=0)
    drawn = [space.sample(np.array([0, 1, 0, 1], np.int8)) for _ in range(1000)]
    assert {type(x) for x in drawn} == {np.int64}
    assert set(drawn) == {11, 13}
    assert 400 < drawn.count(11) < 600


def test_masks_may_be_of_bools_and_integers_of_any_size():
    for mask in ([0, 0, 1], (False, False, True), np.array([0, 0, 1]), np.array([0, 0, 1], np.uint8)):
        assert Discrete(3, start=10).sample(mask) == 12


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        ([1.0, 1.0, 1.0], TypeError, r"Discrete.sample mask: expected bools or integers, got \[1.0, 1.0, 1.0\]"),
        (np.ones(3), TypeError, r"Discrete.sample mask: expected bools or integers, got dtype float64"),
        ("any", TypeError, r"expected bools or integers, got 'any'"),
        ([[1, 1], [1]], ValueError, r"expected shape \(3,\), got rows of several lengths"),
        (np.zeros(3, np.int8), ValueError, r"expected at least one value that may be drawn, got zeros only"),
        ([256, 256, 256], ValueError, r"expected values 0 or 1, got \[256\]"),
        (np.ones(4, np.int8), ValueError, r"expected shape \(3,\), got \(4,\)"),
        (np.array([0, 1, 2], np.int8), ValueError, r"expected values 0 or 1, got \[0, 1, 2\]"),
        (np.array([0, -1, 0], np.int8), ValueError, r"expected values 0 or 1, got \[-1, 0\]"),
    ],
)
def test_bad_masks(mask, error, text):
    with pytest.raises(error, match=text):
        Discrete(3).sample(mask)


def test_equality_and_repr():
    assert Discrete(3) == Discrete(3, start=0)
    assert Discrete(3) != Discrete(4)
    assert Discrete(3) != Discrete(3, start=1)
    assert repr(Discrete(3)) == "Discrete(3)"
    assert repr(Discrete(3, start=-1)) == "Discrete(3, start=-1)"


def test_json_holds_plain_ints():
    (value,) = Discrete(3).to_jsonable([np.int64(2)])
    assert type(value) is int
    (back,) = Discrete(3).from_jsonable([value])
    assert type(back) is np.int64
