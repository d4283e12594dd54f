"""The exact figures of the order book: by linear algebra, to the digits that are printed.

The Poisson rates of the first group are the estimates for Sky Perfect by Cont, Stoikov and Talreja (2010), table 2, at
the offset of one tick.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference_order_book import (
    few_prices_law,
    fill_chance,
    hawkes_rate,
    hawkes_variance,
    queue_law,
    race,
    wait_law,
    wait_mean,
)

LAM, MU, THETA = 1.85, 0.94, 0.71


def printed(value, digits=10):
    """As close as a number with that many decimals can be to what it was rounded from."""
    return pytest.approx(value, rel=0.0, abs=0.5000001 * 10.0**-digits)


def test_a_queue_at_the_best_has_the_law_of_a_birth_death_chain():
    law = queue_law(LAM, MU, THETA)
    expected = [0.2531590606, 0.2838450073, 0.2225056201, 0.1340831913, 0.0656227259]
    assert [*law[:5]] == [printed(p) for p in expected]
    assert law @ np.arange(len(law)) == printed(1.6168584745)


@pytest.mark.parametrize(
    ("bids", "asks", "chance"), [(1, 2, 0.3351729534), (2, 1, 0.6648270466), (3, 2, 0.5931129650), (5, 4, 0.5476625111)]
)
def test_the_race_of_two_queues(bids, asks, chance):
    assert race(LAM, MU, THETA)[bids, asks] == printed(chance)


@pytest.mark.parametrize(
    ("ahead", "chances"),
    [(0, [0.5025454760, 0.6980010343, 0.8482902631]), (2, [0.2914608427, 0.4654245715, 0.6564446727])],
)
def test_the_chance_of_a_fill_before_the_asks_are_used_up(ahead, chances):
    found = fill_chance(LAM, MU, THETA, ahead)[ahead]
    assert [found[1], found[2], found[4]] == [printed(p) for p in chances]


@pytest.mark.parametrize(
    ("ahead", "mean", "within_2"), [(0, 1.0638297872, 0.8474098942), (2, 2.0936192069, 0.5592441216)]
)
def test_the_wait_for_a_fill(ahead, mean, within_2):
    assert wait_mean(MU, THETA, ahead) == printed(mean)
    assert wait_law(MU, THETA, ahead, 2.0) == printed(within_2)


def test_the_book_of_four_prices():
    law = few_prices_law((0.6, 0.4, 0.3), 0.5, 1.0, prices=4, bid=2, ask=3, most=19)
    assert law.mean_spread == printed(1.4300140167)
    assert law.spread_one == printed(0.6573417230)
    assert law.bids_empty == printed(0.4853508408)
    assert law.mean_orders == printed(1.5699194085)
    assert law.events == printed(4.1691371355)


def test_the_book_of_four_prices_with_at_most_nine_orders_at_each():
    # The figures that are handed round: they differ from the exact ones in the ninth decimal, by this bound.
    law = few_prices_law((0.6, 0.4, 0.3), 0.5, 1.0, prices=4, bid=2, ask=3, most=22, longest=9)
    assert law.mean_spread == printed(1.4300140169)
    assert law.spread_one == printed(0.6573417229)
    assert law.bids_empty == printed(0.4853508409)
    assert law.mean_orders == printed(1.5699194030)
    assert law.events == printed(4.1691371242)


def test_a_book_of_two_prices_is_two_queues():
    law = few_prices_law((LAM,), MU, THETA, prices=2, bid=1, ask=2, most=24)
    one = queue_law(LAM, MU, THETA)
    assert law.bids_empty == pytest.approx(one[0], abs=1e-9)
    assert law.mean_orders == pytest.approx(2.0 * one @ np.arange(len(one)), abs=1e-8)
    assert law.mean_spread == pytest.approx(1.0, abs=1e-12)


def test_what_goes_in_comes_out_where_neither_side_is_ever_empty():
    scenario_1 = 1.92 * np.arange(1, 21) ** -0.52
    for lam, mu, theta, orders, events in (
        (scenario_1, 0.94, 0.6, printed(43.82874498, 8), printed(56.3545, 4)),
        (np.ones(50), 10.0, 0.2, 400.0, 200.0),
    ):
        assert 2.0 * (lam.sum() - mu) / theta == orders
        assert 4.0 * lam.sum() == events


def test_a_hawkes_process_has_its_rate_and_the_variance_of_its_counts():
    assert hawkes_rate(1.0, 0.5, 1.0) == 2.0
    assert hawkes_variance(1.0, 0.5, 1.0, 1.0) == printed(3.27837, 5)
    assert hawkes_variance(1.0, 0.5, 1.0, 10.0) == printed(68.0809, 4)
