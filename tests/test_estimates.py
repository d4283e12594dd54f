"""Means over episodes, and whether their standard errors are what means do spread by."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from sekai.estimates import estimate_mean


def windows(rng, steps, length, count, noise=0.0):
    """Sums over windows of independent steps of one history, and where they start."""
    sums = np.append(0.0, np.cumsum(rng.normal(size=steps)))
    starts = rng.integers(0, steps - length + 1, count)
    return sums[starts + length] - sums[starts] + noise * rng.normal(size=count), starts


@pytest.mark.parametrize(
    ("length", "count", "noise"),
    [(50, 3000, 0.0), (20, 20, 0.0), (5, 200, 0.0), (50, 1000, 20.0), (90, 3000, 0.0)],
    ids=["dense", "few", "hardly overlapping", "a random policy", "long"],
)
def test_d3_the_error_of_windows_of_one_history_is_the_spread_of_their_means(length, count, noise):
    rng = np.random.default_rng(3)
    means, errors = [], []
    for _ in range(300):
        values, starts = windows(rng, 1000, length, count, noise)
        mean, error = estimate_mean(values, starts, np.full(count, length))
        means.append(mean), errors.append(error)
    # Of 300 means the spread is known to 4%, and of the errors one is off by up to 50%.
    assert math.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(means), rel=0.17)


def test_d3_the_error_is_not_given_where_it_would_be_far_too_small():
    rng = np.random.default_rng(4)
    within = []
    for _ in range(600):
        values, starts = windows(rng, 1000, 90, 1000)
        mean, error = estimate_mean(values, starts, np.full(1000, 90))
        within.append(abs(mean) <= 1.96 * error)  # NaN is not within
    assert np.mean(within) > 0.85  # known to 1.3%
    values, starts = windows(rng, 1000, 150, 1000)  # longer than a tenth
    assert math.isnan(estimate_mean(values, starts, np.full(1000, 150)).standard_error)
    assert estimate_mean(np.arange(5), np.arange(5) * 100, np.full(5, 3)).standard_error > 0.0
    assert math.isnan(estimate_mean(np.arange(4), np.arange(4) * 100, np.full(4, 3)).standard_error)


def test_independent_episodes_have_the_error_of_a_sample():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    assert estimate_mean(values) == (4.0, pytest.approx(values.std(ddof=1) / 2.0))
    assert estimate_mean(values.astype(np.int64)) == estimate_mean(values.tolist()) == estimate_mean(values)


def test_windows_far_apart_are_nearly_independent():
    values = np.random.default_rng(0).normal(size=400)
    apart = estimate_mean(values, np.arange(400) * 50, np.full(400, 5)).standard_error
    assert 1.0 < apart / estimate_mean(values).standard_error < 1.12  # see the module on its "tenth at most"


def test_it_does_not_matter_where_the_history_begins_nor_in_which_order_episodes_come():
    values, starts = windows(np.random.default_rng(1), 1000, 20, 500)
    lengths, back = np.full(500, 20), np.arange(500)[::-1]
    expected = estimate_mean(values, starts, lengths)
    assert estimate_mean(values, starts + 10**9, lengths) == expected
    assert estimate_mean(values[back], starts[back], lengths) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("starts", "length"),
    [([7] * 5, 3), ([0, 1, 2, 3, 4], 3), ([5], 1), ([0, 2, 4, 8, 16], 100)],
    ids=["one start", "one block", "one episode", "longer than the history"],
)
def test_a_history_of_too_few_episodes_tells_no_error(starts, length):
    mean, error = estimate_mean(np.arange(len(starts)), starts, [length] * len(starts))
    assert mean == np.mean(np.arange(len(starts))) and math.isnan(error)


def test_of_none_there_is_no_mean():
    assert all(map(math.isnan, estimate_mean([0.0][:0])))
    assert all(map(math.isnan, estimate_mean(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))))
    assert estimate_mean([3.0])[0] == 3.0 and math.isnan(estimate_mean([3.0])[1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((["a"],), TypeError, "estimate_mean(values): expected real numbers"),
        ((np.ones((2, 2)),), ValueError, "estimate_mean(values): expected one of each episode (k,), got shape (2, 2)"),
        (
            ([1.0, 2.0], [0.5, 1.5], [1, 1]),
            TypeError,
            "estimate_mean(starts): expected real numbers, got dtype float64",
        ),
        (([1.0, 2.0], [0], [1, 1]), ValueError, "(starts): expected one of each of 2 episodes, got shape (1,)"),
        (([1.0, 2.0], [0, 1], 3), ValueError, "(lengths): expected one of each of 2 episodes, got shape ()"),
        (([1.0, 2.0], [0, 1], [1, 0]), ValueError, "estimate_mean(lengths): expected at least 1, got 0"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        estimate_mean(*arguments)
