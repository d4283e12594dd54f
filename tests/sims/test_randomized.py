"""Parameters that may differ between sub-envs: what is valid, and what becomes of it."""

from __future__ import annotations

import dataclasses
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sekai.vector import Randomized
from sims.parameters import check_numbers


def test_a_range_of_any_real_numbers_becomes_floats():
    for low, high in ((1, 2), (1.0, 2.0), (np.float32(1), np.int64(2)), (Fraction(1), Decimal(2))):
        bounds = Randomized(low, high)
        assert (bounds.low, bounds.high) == (1.0, 2.0)
        assert type(bounds.low) is type(bounds.high) is float
    assert Randomized(low=-3, high=-3) == Randomized(-3.0, -3.0)


def test_ranges_are_values():
    bounds = Randomized(1, 2)
    assert bounds == Randomized(1.0, 2.0) != Randomized(1.0, 3.0)
    assert hash(bounds) == hash(Randomized(1.0, 2.0))
    assert repr(bounds) == "Randomized(low=1.0, high=2.0)"
    assert pickle.loads(pickle.dumps(bounds)) == bounds
    with pytest.raises(dataclasses.FrozenInstanceError):
        bounds.low = 0.0


@pytest.mark.parametrize(
    ("low", "high", "error", "text"),
    [
        (2, 1, ValueError, "expected finite low <= high, got 2.0 and 1.0"),
        (np.nan, 1, ValueError, "expected finite low <= high, got nan and 1.0"),
        (0, np.nan, ValueError, "expected finite low <= high, got 0.0 and nan"),
        (0, np.inf, ValueError, "expected finite low <= high, got 0.0 and inf"),
        (-np.inf, 0, ValueError, "expected finite low <= high, got -inf and 0.0"),
        (0, 10**400, ValueError, "expected finite low <= high, got 0.0 and inf"),
        (True, 2, TypeError, "expected numbers, got True and 2"),
        ("1", 2, TypeError, "expected numbers, got '1' and 2"),
        (1, None, TypeError, "expected numbers, got 1 and None"),
        (1, 2j, TypeError, "expected numbers, got 1 and 2j"),
        ([1], 2, TypeError, "expected numbers, got [1] and 2"),
        (np.zeros(2), 2, TypeError, "expected numbers, got array([0., 0.]) and 2"),
    ],
)
def test_bad_bounds_are_refused(low, high, error, text):
    with pytest.raises(error, match=re.escape(f"Randomized(low, high): {text}")):
        Randomized(low, high)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), Fraction(2), Decimal(2), np.float64(2)])
def test_a_number_becomes_a_float(value):
    checked = check_numbers(value, "p")
    assert checked == 2.0 and type(checked) is float


@pytest.mark.parametrize(
    "value", [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3]), np.array([1, 2, 3], np.float32), np.arange(1, 7)[:3]]
)
def test_several_become_a_column_of_their_own(value):
    checked = check_numbers(value, "p")
    assert checked.dtype == np.float64 and checked.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        checked[0] = 9.0


def test_a_column_does_not_follow_the_array_it_came_in():
    given = np.array([1.0, 2.0])
    checked = check_numbers(given, "p")
    given[:] = 9.0
    assert checked.tolist() == [1.0, 2.0] and given.flags.writeable


def test_one_and_the_same_number_counts_as_the_number():
    assert check_numbers([4], "p") == check_numbers(np.full(3, 4), "p") == 4.0


@pytest.mark.parametrize(
    ("value", "limits", "text"),
    [
        (0, {"above": 0.0}, "expected a finite number above 0, got 0.0"),
        (-1, {"least": 0.0}, "expected a finite number of at least 0, got -1.0"),
        (np.nan, {}, "expected a finite number, got nan"),
        (np.inf, {"above": 0.0}, "expected a finite number above 0, got inf"),
        (10**400, {}, "expected a finite number, got inf"),
        ([1.0, 2.0, -1.0], {"least": 0.0}, "expected a finite number of at least 0, got -1.0 (sub-env 2)"),
        ([1.0, np.nan], {}, "expected a finite number, got nan (sub-env 1)"),
        ([], {}, "expected one number per sub-env, got an array of shape (0,)"),
        ([[1.0], [2.0]], {}, "expected one number per sub-env, got an array of shape (2, 1)"),
        ([[1.0], [2.0, 3.0]], {}, "expected one number per sub-env, got [[1.0], [2.0, 3.0]]"),
    ],
)
def test_what_is_out_of_range_is_refused(value, limits, text):
    with pytest.raises(ValueError, match=re.escape(f"p: {text}")):
        check_numbers(value, "p", **limits)


@pytest.mark.parametrize("limits", [{"above": 1.0}, {"least": 1.0}])
def test_the_range_is_open_or_closed_as_it_says(limits):
    assert check_numbers(1.0 + 1e-15, "p", **limits) > 1.0
    if "least" in limits:
        assert check_numbers([1.0, 2.0], "p", **limits).tolist() == [1.0, 2.0]
    else:
        with pytest.raises(ValueError, match=r"p: expected a finite number above 1, got 1.0 \(sub-env 0\)"):
            check_numbers([1.0, 2.0], "p", **limits)


@pytest.mark.parametrize(
    "value",
    [
        "1",
        None,
        True,
        np.True_,
        1j,
        {1: 2},
        np.array(1.0),
        np.timedelta64(1, "D"),
        object(),
        range(3),
        Randomized(0, 1),
    ],
)
def test_what_is_no_number_is_refused(value):
    text = f"p: expected a number, or one per sub-env, got {value!r}"
    with pytest.raises(TypeError, match=re.escape(text)):
        check_numbers(value, "p")


@pytest.mark.parametrize("value", [["a", "b"], [True, False], [1j], [None, 1.0], [Randomized(0, 1)]])
def test_several_of_what_is_no_number_are_refused(value):
    with pytest.raises(TypeError, match="p: expected numbers, got "):
        check_numbers(value, "p")
