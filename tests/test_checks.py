from __future__ import annotations

import numpy as np
import pytest

from sekai.checks import as_numbers, check_count, check_integer, check_seconds
from sims.checks import check_number


@pytest.mark.parametrize("check", [check_count, check_integer])
@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_an_integer_becomes_a_plain_int(check, value):
    checked = check(value, "num_envs")
    assert checked == 3 and type(checked) is int


@pytest.mark.parametrize("check", [check_count, check_integer])
@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, [3], np.array([3])])
def test_what_is_no_integer_is_refused(check, value):
    with pytest.raises(TypeError, match="^num_workers: expected an integer, got "):
        check(value, "num_workers")


def test_the_message_asks_for_what_the_caller_says():
    with pytest.raises(TypeError, match="^seed: expected an integer or None, got str$"):
        check_integer("3", "seed", "an integer or None")
    with pytest.raises(TypeError, match="^seed: expected an integer or None, got the bool True$"):
        check_integer(True, "seed", "an integer or None")


def test_an_integer_may_be_negative_and_of_any_size():
    assert check_integer(-(2**70), "start") == -(2**70)


@pytest.mark.parametrize(("value", "minimum"), [(0, 1), (-1, 1), (np.int64(-5), 0), (1, 2)])
def test_a_count_below_the_minimum_is_refused(value, minimum):
    with pytest.raises(ValueError, match=f"^num_envs: expected at least {minimum}, got {value}$"):
        check_count(value, "num_envs", minimum)


def test_the_minimum_is_a_count_and_is_1_by_default():
    assert (check_count(0, "n", minimum=0), check_count(2, "n", minimum=2), check_count(1, "n")) == (0, 2, 1)
    with pytest.raises(ValueError, match="n: expected at least 1, got 0"):
        check_count(0, "n")


@pytest.mark.parametrize("value", [0, 3, 0.5, np.float32(0.5), np.int8(3)])
def test_seconds_become_a_plain_float(value):
    checked = check_seconds(value, "close_timeout")
    assert checked == value and type(checked) is float


def test_seconds_beyond_what_a_system_can_wait_for_are_cut_to_it():
    assert check_seconds(10**400, "close_timeout") == check_seconds(1e300, "close_timeout") == 1e6


@pytest.mark.parametrize("value", [None, True, np.True_, "1", [1.0], 1j, np.complex64(1)])
def test_what_is_no_number_of_seconds_is_refused(value):
    with pytest.raises(TypeError, match="^step_timeout: expected a number of seconds, got "):
        check_seconds(value, "step_timeout")


@pytest.mark.parametrize("value", [-1, -0.1, np.inf, -np.inf, np.nan])
def test_seconds_that_nothing_can_wait_for_are_refused(value):
    with pytest.raises(ValueError, match="^step_timeout: expected a number of seconds of at least 0, got "):
        check_seconds(value, "step_timeout")


def test_numbers_keep_their_dtype_and_are_not_copied():
    for dtype in (np.int8, np.uint64, np.float32, np.float64):
        values = np.ones(3, dtype=dtype)
        assert as_numbers(values, "x") is values
    assert as_numbers([True], "x", "biuf").dtype == np.bool_


@pytest.mark.parametrize("values", ["a", [1j], [None], [True], np.array(["2020"], "M8[Y]"), np.zeros(2, "f8,i4")])
def test_what_is_no_real_number_is_refused(values):
    with pytest.raises(TypeError, match=r"^measure\(wealth\): expected real numbers, got dtype "):
        as_numbers(values, "measure(wealth)")


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_masked_numbers_are_nan(dtype):
    values = np.ma.array([1, 2, 3], mask=[False, True, False], dtype=dtype)
    np.testing.assert_array_equal(as_numbers(values, "x"), [1.0, np.nan, 3.0])
    assert values.data.tolist() == [1, 2, 3]
    assert as_numbers(np.ma.array([1, 2]), "x").dtype.kind == "i"  # nothing is masked


def test_a_number_is_finite_and_real():
    assert [check_number(value, "x") for value in (1, np.float32(0.5))] == [1.0, 0.5]
    for value in ("1", None, True, 1j, [1.0]):
        with pytest.raises(TypeError, match="^rate: expected a number, got "):
            check_number(value, "rate")
    for value in (np.nan, np.inf, 10**400):
        with pytest.raises(ValueError, match="^rate: expected a finite number, got "):
            check_number(value, "rate")
