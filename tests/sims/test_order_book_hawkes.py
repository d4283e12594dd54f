"""Moments and residuals of processes that excite each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive_order_book import HawkesFlow, NaiveBook, NaiveMarket, make_tables
from reference_order_book import hawkes_rate, hawkes_variance

from sims.order_book.hawkes import (
    branching_matrix,
    burn_in_time,
    compensator_increments,
    count_covariance,
    spectral_radius,
    stationary_rates,
)

MU = [0.9, 0.6, 0.3, 0.2]
ALPHA = [[0.5, 0.1, 0.0, 0.4], [0.1, 0.5, 0.4, 0.0], [0.2, 0.0, 0.3, 0.1], [0.0, 0.2, 0.1, 0.3]]
BETA = 1.5


def test_the_branching_matrix_and_its_spectral_radius():
    assert branching_matrix([[1.0, 2.0], [0.0, 3.0]], 2.0).tolist() == [[0.5, 1.0], [0.0, 1.5]]
    assert spectral_radius([[0.5, 1.0], [0.0, 0.25]]) == 0.5
    assert spectral_radius([[0.0, 2.0], [2.0, 0.0]]) == pytest.approx(2.0)


def test_one_stream_is_the_univariate_process():
    assert stationary_rates([1.0], [[0.5]], 1.0) == [hawkes_rate(1.0, 0.5, 1.0)]
    for time in (0.0, 1e-3, 1.0, 10.0, 1e4):
        assert count_covariance([1.0], [[0.5]], 1.0, time)[0, 0] == pytest.approx(
            hawkes_variance(1.0, 0.5, 1.0, time), rel=1e-9
        )


def test_streams_that_share_all_their_excitation_add_up_to_the_univariate_process():
    # Whichever stream an event is of, it adds 0.1 + 0.4 to the sum of the intensities.
    alpha = [[0.1, 0.1], [0.4, 0.4]]
    assert stationary_rates([0.3, 0.7], alpha, 1.0).sum() == pytest.approx(2.0)
    for time in (1.0, 10.0):
        assert count_covariance([0.3, 0.7], alpha, 1.0, time).sum() == pytest.approx(
            hawkes_variance(1.0, 0.5, 1.0, time)
        )


def test_the_covariances_grow_in_the_long_run_as_the_spectrum_at_zero_says():
    # Hawkes (1971), equation 14 at a frequency of 0: (I - G)**-1 D (I - G')**-1.
    inverse = np.linalg.inv(np.eye(4) - branching_matrix(ALPHA, BETA))
    rates = stationary_rates(MU, ALPHA, BETA)
    growth = (count_covariance(MU, ALPHA, BETA, 300.0) - count_covariance(MU, ALPHA, BETA, 200.0)) / 100.0
    assert growth == pytest.approx(inverse @ np.diag(rates) @ inverse.T, rel=1e-6)


def test_streams_without_excitation_are_poisson_processes():
    assert count_covariance([2.0, 3.0], np.zeros((2, 2)), 1.0, 5.0) == pytest.approx(np.diag([10.0, 15.0]))


def test_rates_that_grow_without_bound_are_refused():
    for call in (stationary_rates, burn_in_time):
        with pytest.raises(ValueError, match=r"expected a spectral radius of alpha / beta below 1, got 1$"):
            call([1.0], [[2.0]], 2.0)


@pytest.mark.parametrize("error", [1e-2, 1e-4])
def test_the_burn_in_of_one_stream_has_a_closed_form(error):
    # The bias exp(-(beta - alpha) t) (rate - mu) is half of the rate at first.
    assert burn_in_time([1.0], [[0.5]], 1.0, error) == pytest.approx(math.log(0.5 / error) / 0.5, rel=1e-8)


def test_a_process_without_excitation_needs_no_burn_in():
    assert burn_in_time([1.0, 0.0], np.zeros((2, 2)), 1.0) == 0.0


def test_after_the_burn_in_the_mean_intensities_are_that_close_to_the_stationary_ones():
    time, rates = burn_in_time(MU, ALPHA, BETA), stationary_rates(MU, ALPHA, BETA)
    means, steps = np.array(MU), 20_000
    drift = np.array(ALPHA) - BETA * np.eye(4)
    for _ in range(steps):  # Heun's method for the differential equation of the means
        slope = drift @ means + BETA * np.array(MU)
        ahead = drift @ (means + slope * time / steps) + BETA * np.array(MU)
        means = means + 0.5 * (slope + ahead) * time / steps
    assert np.max(1.0 - means / rates) == pytest.approx(1e-4, rel=1e-3)


def test_compensator_increments_by_hand():
    # At 1 an event of stream 0, at 3 one of stream 1, at 4 one of stream 0.
    first, second = compensator_increments(
        [1.0, 3.0, 4.0], [0, 1, 0], [0.5, 0.25], [[0.2, 0.0], [0.4, 0.1]], 1.0, excitation=[0.0, 0.3]
    )
    assert first == pytest.approx([0.5, 3.0 * 0.5 + 0.2 * (1.0 - math.exp(-3.0))])
    assert second == pytest.approx([3.0 * 0.25 + 0.3 * (1.0 - math.exp(-3.0)) + 0.4 * (1.0 - math.exp(-2.0))])


def test_the_increments_of_a_simulated_flow_are_exponential_with_mean_one():
    excitation = [0.7, 0.5, 0.4, 0.3]
    flow = HawkesFlow(MU, ALPHA, BETA, 0.2, make_tables([1.0, 1.0]), excitation=excitation)
    events = [event for event in NaiveMarket(NaiveBook(100, 101), flow, key=4).run(until=400.0) if event.kind < 4]
    times, kinds = [event.time for event in events], [event.kind for event in events]
    for increments in compensator_increments(times, kinds, MU, ALPHA, BETA, excitation):
        count = len(increments)
        assert count > 200
        # Kolmogorov-Smirnov, at a level of 1e-5: Massart (1990), sqrt(log(2 / level) / (2 n)).
        law = -np.expm1(-np.sort(increments))
        distance = max((np.arange(1, count + 1) / count - law).max(), (law - np.arange(count) / count).max())
        assert distance < math.sqrt(math.log(2e5) / (2 * count))
        following = np.corrcoef(increments[:-1], increments[1:])[0, 1]
        assert abs(following) < 4.5 / math.sqrt(count)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": [[1.0, 2.0]]}, r"alpha: expected a square matrix, got an array of shape \(1, 2\)"),
        ({"alpha": [[-1.0]]}, r"alpha: expected finite numbers of at least 0, got \[\[-1.0\]\]"),
        ({"alpha": [[math.nan]]}, "alpha: expected finite numbers"),
        ({"beta": 0.0}, "beta: expected a finite number above 0, got 0.0"),
        ({"mu": [1.0, 2.0]}, r"mu: expected shape \(1,\), as alpha has it, got \(2,\)"),
        ({"kinds": [0, 1]}, r"kinds: expected integers from 0 to 0, got \[0 1\]"),
        ({"kinds": [0]}, r"times, kinds: expected two of one length, got shapes \(2,\) and \(1,\)"),
        ({"times": [2.0, 1.0]}, "times: expected ascending ones from start=0.0 on, got 1.0 in row 1"),
        ({"times": [1.0, math.nan]}, "times: expected ascending ones from start=0.0 on, got nan in row 1"),
        ({"start": 1.5}, "times: expected ascending ones from start=1.5 on, got 1.0 in row 0"),
    ],
    ids=["not-square", "negative", "nan", "beta", "mu", "kind", "length", "falling", "nan-time", "before-start"],
)
def test_what_does_not_fit_is_refused(change, message):
    good = {"times": [1.0, 2.0], "kinds": [0, 0], "mu": [1.0], "alpha": [[0.5]], "beta": 1.0}
    with pytest.raises(ValueError, match=message):
        compensator_increments(**{**good, **change})
