"""The plain Python order book itself: its rules by example, its invariants, and its laws against exact ones.

Samples have a fixed seed and are to lie within 4.5 standard errors.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from naive_order_book import (
    BUY,
    BUY_LIMIT,
    CANCEL,
    MARKET_BUY,
    MOST_LOTS,
    NOTHING,
    SELL,
    Fill,
    HawkesFlow,
    NaiveBook,
    NaiveMarket,
    PoissonFlow,
    check_tables,
    law_of_tables,
    look_up,
    make_tables,
)
from reference_order_book import (
    few_prices_law,
    fill_chance,
    hawkes_rate,
    queue_law,
    race,
    wait_law,
    wait_mean,
)

LAM, MU, THETA = 1.85, 0.94, 0.71
FIRST_TICK = make_tables([1.0])
SANTA_FE = [1.92 * i**-0.52 for i in range(1, 21)]
SIZES = [0.5, 0.3, 0.2]


def book_of(*orders, bid=100, ask=101, **terms):
    """A book of background orders (side, price, lots)."""
    book = NaiveBook(bid, ask, **terms)
    for order in orders:
        assert book.add(*order)
    return book


def tallies(book, what="orders"):
    return {key.partition("_")[2]: n for key, n in book.tallies.items() if n and key.startswith(what)}


def check_mean(sample, mean, sd=None):
    sd = np.std(sample, ddof=1) if sd is None else sd
    assert abs(np.mean(sample) - mean) <= 4.5 * sd / math.sqrt(len(sample)), (np.mean(sample), mean)


def check_chance(hits, p):
    check_mean(hits, p, math.sqrt(p * (1.0 - p)))


# -- rules -------------------------------------------------------------------------------------------------


def test_orders_are_filled_by_price_and_then_by_time():
    book = book_of((SELL, 102, 3), (SELL, 101, 1), (SELL, 101, 2), (BUY, 99, 5))
    fills, left = book.take(SELL, 5)
    assert fills == [Fill(101, 1, None, False), Fill(101, 2, None, False), Fill(102, 2, None, False)]
    assert (left, book.ask, book.levels()) == (0, 102, ([(99, 5)], [(102, 1)]))
    assert tallies(book) == {"in": 4, "executed": 2}
    assert tallies(book, "lots") == {"in": 11, "executed": 5}


def test_a_market_order_takes_what_there_is():
    book = book_of((BUY, 99, 2), (BUY, 97, 1))
    fills, left = book.take(BUY, 7)
    assert [fill.price for fill in fills] == [99, 97] and left == 4
    assert (book.bid, book.empty(BUY)) == (97, True)
    assert book.take(BUY, 1) == ([], 1)


def test_an_empty_side_keeps_its_reference_until_an_order_comes_on_either_side_of_it():
    for price in (95, 100):
        book = book_of((BUY, 98, 1))
        book.take(BUY, 1)
        assert book.bid == 98
        book.add(BUY, price, 1)
        assert book.bid == price


def test_a_partial_fill_and_a_reduction_keep_the_place_in_the_queue():
    book = book_of((SELL, 101, 4))
    book.place(0, SELL, 101, 5)
    book.add(SELL, 101, 1)
    assert book.queue_ahead(0) == 4
    book.take(SELL, 6)
    book.replace(0, 101, 2)
    assert book.queue(101) == [(2, 0), (1, None)]
    assert book.queue_ahead(0) == 0
    assert tallies(book, "lots") == {"in": 10, "executed": 6, "cancelled": 1}
    assert tallies(book) == {"in": 3, "executed": 1}


@pytest.mark.parametrize(("price", "lots"), [(101, 6), (102, 5), (102, 1)], ids=["more", "elsewhere", "less-elsewhere"])
def test_any_other_replacement_goes_to_the_tail(price, lots):
    book = book_of((SELL, 102, 1))
    book.place(0, SELL, 101, 5)
    book.add(SELL, 101, 1)
    book.replace(0, price, lots)
    assert book.queue(price)[-1] == (lots, 0)
    assert tallies(book) == {"in": 4, "cancelled": 1}


def test_a_replacement_by_the_same_order_changes_nothing():
    book = book_of()
    book.place(0, SELL, 101, 5)
    book.add(SELL, 101, 1)
    book.replace(0, 101, 5)
    assert book.queue(101) == [(5, 0), (1, None)]
    assert tallies(book) == {"in": 2}


def test_a_limit_order_that_crosses_takes_up_to_its_price_and_rests_with_what_is_left():
    book = book_of((SELL, 101, 1), (SELL, 102, 1), (SELL, 104, 1))
    assert [fill.price for fill in book.place(0, BUY, 103, 5)] == [101, 102]
    assert (book.bid, book.ask, book.own(0)) == (103, 104, (BUY, 103, 3))


@pytest.mark.parametrize(("side", "price", "bid", "ask"), [(BUY, 105, 105, 106), (SELL, 96, 95, 96)])
def test_the_reference_of_an_empty_side_gives_way_to_an_own_order(side, price, bid, ask):
    book = NaiveBook(100, 101)
    book.place(0, side, price, 1)
    assert (book.bid, book.ask) == (bid, ask)
    book.check()


@pytest.mark.parametrize(
    ("rule", "fills", "rests", "asks"),
    [("cancel_resting", [101, 101], (BUY, 101, 2), []), ("cancel_incoming", [101], None, [(101, 4)])],
)
def test_an_own_order_does_not_trade_with_another(rule, fills, rests, asks):
    book = book_of((SELL, 101, 1), self_trade=rule)
    book.place(0, SELL, 101, 3)
    book.add(SELL, 101, 1)
    assert [fill.price for fill in book.place(1, BUY, 101, 4)] == fills
    assert book.own(1) == rests
    assert book.levels()[1] == asks
    assert tallies(book, "lots").get("cancelled", 0) == (3 if rule == "cancel_resting" else 0)
    book.check()


def test_what_does_not_fit_is_refused_and_counted():
    book = book_of((BUY, 100, MOST_LOTS - 1), orders=2, price_limits=(98, 103))
    for order in ((BUY, 100, 2), (BUY, 97, 1), (SELL, 104, 1)):
        assert not book.add(*order)
    assert book.add(BUY, 100, 1)  # which fills the pool
    assert not book.add(BUY, 99, 1)
    book.place(0, BUY, 99, 1)  # not of the pool
    assert book.own(0) == (BUY, 99, 1)
    assert tallies(book) == {"in": 7, "refused": 4}
    assert tallies(book, "lots")["refused"] == 5
    book.check()


@pytest.mark.parametrize(("side", "price"), [(BUY, 101 - 16), (SELL, 100 + 16)])
def test_an_order_out_of_the_rings_reach_is_refused(side, price):
    book = NaiveBook(100, 101, ring=32)
    assert not book.add(side, price, 1)
    assert book.add(side, price + (1 if side == BUY else -1), 1)
    book.check()


def test_the_last_order_of_the_pool_moves_into_the_place_of_one_that_goes():
    book = book_of((BUY, 100, 1), (BUY, 99, 2), (SELL, 101, 3), (SELL, 102, 4))
    book.take(BUY, 1)
    assert [order.lots for order in book.pool] == [4, 2, 3]
    book.remove(book.pool[2])
    assert [order.lots for order in book.pool] == [4, 2]


def test_a_falling_bid_evicts_far_asks_the_nearest_first():
    book = book_of((SELL, 101, 1), (SELL, 114, 3), (SELL, 113, 2), (SELL, 114, 4), (BUY, 100, 5), (BUY, 97, 6), ring=32)
    book.add(BUY, 97, 7)
    book.add(BUY, 97, 8)
    book.place(0, SELL, 114, 9)
    book.take(BUY, 5)  # the bid falls to 97, the reach to 112
    assert book.levels() == ([(97, 21)], [(101, 1)])
    assert book.own(0) is None
    # 8 has come into the place of 5, then 7 into that of 2, 6 of 3, 8 of 4.
    assert [order.lots for order in book.pool] == [1, 6, 7, 8]
    assert tallies(book) == {"in": 9, "executed": 1, "evicted": 4}
    assert tallies(book, "lots")["evicted"] == 18
    book.check()


def test_a_rising_ask_evicts_far_bids_the_nearest_first():
    book = book_of((BUY, 100, 1), (SELL, 101, 4), (BUY, 86, 3), (BUY, 88, 2), (SELL, 104, 5), (SELL, 104, 6), ring=32)
    book.add(SELL, 104, 7)
    book.take(SELL, 4)
    assert book.levels() == ([(100, 1)], [(104, 18)])
    # 7 has come into the place of 4, then 6 into that of 2, 5 of 3.
    assert [order.lots for order in book.pool] == [1, 7, 5, 6]
    assert tallies(book) == {"in": 7, "executed": 1, "evicted": 2}
    book.check()


# -- tables ------------------------------------------------------------------------------------------------


def test_tables_have_the_law_they_were_made_for_and_others_are_found_out():
    for weights in ([1.0], SANTA_FE, [0.0, 0.0, 3.0]):
        accept, alias = make_tables(weights)
        check_tables(accept, alias, weights)
        law = law_of_tables(accept, alias)
        assert sum(law) == 1
    with pytest.raises(AssertionError, match="index 0"):
        check_tables(accept, alias, [1e-7, 0.0, 3.0])


def test_the_law_of_tables_is_that_of_what_is_looked_up():
    accept, alias = make_tables([0.2, 0.5, 0.3])
    words = range(0, 2**32, 104_729)
    found = np.bincount([look_up(word, accept, alias) for word in words], minlength=4) / len(words)
    assert found == pytest.approx([float(p) for p in law_of_tables(accept, alias)], abs=1e-4)


# -- invariants --------------------------------------------------------------------------------------------


def expected_fills(book, side, lots):
    """What an own market order takes, from the book as it is seen."""
    fills = []
    for price, _ in book.levels()[side]:
        for resting, slot in book.queue(price):
            if slot is not None and book.self_trade == "cancel_incoming":
                return fills
            if lots and slot is None:
                fills.append(Fill(price, min(lots, resting), None, True))
                lots -= fills[-1].lots
    return fills


def flow_of(kind, sizes=None):
    offsets = make_tables(SANTA_FE)
    if kind == "poisson":
        return PoissonFlow(SANTA_FE, 0.94, [0.6, 0.5, 0.4], offsets, sizes)
    alpha = [[0.3 if j == k else 0.1 for j in range(4)] for k in range(4)]
    return HawkesFlow([8.0, 8.0, 0.5, 0.5], alpha, 1.0, 0.4, offsets, sizes)


@pytest.mark.parametrize("rule", ["cancel_resting", "cancel_incoming"])
@pytest.mark.parametrize("kind", ["poisson", "hawkes"])
def test_a_fuzzed_market_keeps_its_invariants(kind, rule):
    rng = random.Random(f"{kind} {rule}")
    flow = flow_of(kind, make_tables(SIZES, 64))
    book = NaiveBook(100, 101, orders=50, ring=64, slots=4, self_trade=rule, price_limits=(60, 150))
    market = NaiveMarket(book, flow, key=rng.randrange(2**64))
    for _ in range(600):
        slot, lots, price = rng.randrange(4), rng.randrange(1, 12), rng.randrange(book.bid - 40, book.ask + 40)
        act = rng.randrange(10)
        if act == 0 and book.own(slot) is None:
            book.place(slot, rng.randrange(2), price, lots)
        elif act == 1:
            book.cancel(slot)
        elif act == 2:
            book.replace(slot, price, lots)
        elif act == 3:
            side = rng.randrange(2)
            expected = expected_fills(book, 1 - side, lots)
            assert book.market_order(side, lots) == expected
        else:
            market.run(until=market.clock + rng.expovariate(20.0))
        book.check()
        assert market.due >= market.clock or act < 4
    assert all(tallies(book)[how] for how in ("refused", "cancelled", "executed", "evicted"))


@pytest.mark.parametrize("kind", ["poisson", "hawkes"])
def test_cutting_time_into_steps_changes_nothing(kind):
    def play(steps):
        market = NaiveMarket(NaiveBook(100, 101, orders=512), flow_of(kind), key=3)
        events = []
        for step in range(1, steps + 1):
            events += market.run(until=4.0 * step / steps)
        assert market.clock == 4.0
        return events, market.book.levels(), market.due, market.counter

    assert play(1) == play(100)
    assert len(play(1)[0]) > 100


def test_a_run_of_messages_ends_with_the_last_of_them():
    flow = PoissonFlow([LAM], MU, THETA, FIRST_TICK)
    market = NaiveMarket(NaiveBook(100, 101, price_limits=(100, 101)), flow, key=5)
    events = market.run(messages=100)
    assert sum(event.message for event in events) == 100 < len(events)
    assert market.messages == 100 and events[-1].message and market.clock == events[-1].time


def test_a_factor_on_all_rates_is_another_unit_of_time():
    def play(factor):
        flow = PoissonFlow(SANTA_FE, 0.94, 0.6, make_tables(SANTA_FE), rate_factor=factor)
        return NaiveMarket(NaiveBook(100, 101), flow, key=6).run(messages=300)

    assert [event._replace(time=event.time * 4.0) for event in play(4.0)] == play(1.0)


def test_a_book_without_flow_stands_still():
    market = NaiveMarket(NaiveBook(100, 101), PoissonFlow([0.0], 0.0, 0.0, FIRST_TICK), key=1)
    assert market.run(until=7.0) == [] and market.clock == 7.0
    assert market.run(messages=1) == []


# -- laws --------------------------------------------------------------------------------------------------


def two_prices(key, *, bids=0, asks=0, own_after=None):
    """A market of two prices with some orders in its queues, and perhaps an own bid behind some."""
    book = NaiveBook(100, 101, price_limits=(100, 101))
    for _ in range(bids):
        book.add(BUY, 100, 1)
    for _ in range(asks):
        book.add(SELL, 101, 1)
    if own_after is not None:
        book.place(0, BUY, 100, 1)
    return NaiveMarket(book, PoissonFlow([LAM], MU, THETA, FIRST_TICK), key)


def test_the_queues_of_two_prices_are_birth_death_chains():
    law = queue_law(LAM, MU, THETA)
    lengths = []
    for key in range(250):
        market = two_prices(key)
        market.run(until=8.0)
        lengths += [market.book.volume(BUY, 100), market.book.volume(SELL, 101)]
    lengths = np.array(lengths)
    for size in range(4):
        check_chance(lengths == size, law[size])
    check_mean(lengths, law @ np.arange(len(law)))


def test_the_race_of_two_queues():
    hits = []
    for key in range(400):
        market = two_prices(key, bids=3, asks=2)
        while not (market.book.empty(BUY) or market.book.empty(SELL)):
            market.next_event()
        hits.append(market.book.empty(SELL))
    check_chance(hits, race(LAM, MU, THETA)[3, 2])


def test_an_own_order_fills_before_the_asks_are_used_up_with_the_exact_chance_and_in_its_time():
    hits, waits = [], []
    for key in range(400):
        market = two_prices(key, bids=2, asks=2, own_after=2)
        while market.book.own(0) and not market.book.empty(SELL):
            market.next_event()
        hits.append(market.book.own(0) is None)
        while market.book.own(0):  # whatever the asks do, it waits as long
            market.next_event()
        waits.append(market.clock)
    check_chance(hits, fill_chance(LAM, MU, THETA, 2)[2, 2])
    check_mean(waits, wait_mean(MU, THETA, 2))
    check_chance(np.array(waits) <= 2.0, wait_law(MU, THETA, 2, 2.0))


def test_the_book_of_four_prices():
    lam = (0.6, 0.4, 0.3)
    law = few_prices_law(lam, 0.5, 1.0, prices=4, bid=2, ask=3, most=9, error=1e-8)
    offsets = make_tables(lam)
    spreads, no_bids, orders, messages = [], [], [], []
    for key in range(300):
        market = NaiveMarket(NaiveBook(2, 3, price_limits=(1, 4)), PoissonFlow(lam, 0.5, 1.0, offsets), key)
        market.run(until=6.0)
        spreads.append(market.book.ask - market.book.bid)
        no_bids.append(market.book.empty(BUY))
        orders.append(market.book.n)
        before = market.messages
        market.run(until=8.0)
        messages.append(market.messages - before)
    check_mean(spreads, law.mean_spread)
    check_chance(np.array(spreads) == 1, law.spread_one)
    check_chance(no_bids, law.bids_empty)
    check_mean(orders, law.mean_orders)
    check_mean(messages, 2.0 * law.events)


def test_cancels_by_distance_come_at_their_rates():
    # One bid at each of the distances 1, 2 and 5; the last rate given holds beyond.
    first, theta = [], (0.5, 2.0, 1.0)
    for key in range(400):
        book = book_of((BUY, 100, 1), (BUY, 99, 2), (BUY, 96, 3))
        market = NaiveMarket(book, PoissonFlow([0.0], 0.0, theta, FIRST_TICK), key)
        market.run(messages=1)
        first.append(6 - sum(lots for _, lots in book.levels()[0]))
    for lots, rate in enumerate(theta, 1):
        check_chance(np.array(first) == lots, rate / sum(theta))


def test_an_own_market_order_leaves_the_rest_of_the_flow_at_its_rate():
    # Two of the orders are left by it at time 0.5, of which the first goes after half of an order's mean time.
    waits = []
    for key in range(300):
        market = NaiveMarket(book_of(*[(BUY, 100, 1)] * 8), PoissonFlow([0.0], 0.0, 0.1, FIRST_TICK), key)
        market.run(until=0.5)
        left = market.book.n
        market.book.market_order(SELL, left - 2)
        market.run(messages=1)
        waits.append(market.clock - 0.5)
    check_mean(waits, 5.0, 5.0)


def test_sizes_have_their_law_at_whatever_offset():
    market = NaiveMarket(NaiveBook(100, 101, orders=4096), flow_of("poisson", make_tables(SIZES, 64)), key=11)
    sizes, offsets = [], []
    while len(sizes) < 1500:
        ask = market.book.ask
        if market.next_event().kind == BUY_LIMIT:
            order = market.book.pool[-1]
            sizes.append(order.lots)
            offsets.append(ask - order.price)
    sizes, near = np.array(sizes), np.array(offsets) <= 3
    for lots, chance in enumerate(SIZES, 1):
        check_chance(sizes[near] == lots, chance)
        check_chance(sizes[~near] == lots, chance)
    check_chance(near, sum(SANTA_FE[:3]) / sum(SANTA_FE))


def test_a_hawkes_stream_has_its_rate_and_excites_only_whom_it_should():
    # Buy limits excite themselves and market buys; alpha is (to, from).
    alpha = np.zeros((4, 4))
    alpha[BUY_LIMIT, BUY_LIMIT], alpha[MARKET_BUY, BUY_LIMIT] = 0.5, 0.25
    flow = HawkesFlow([1.0, 0.0, 0.0, 0.0], alpha, 1.0, 0.2, FIRST_TICK, excitation=[1.0, 0.0, 0.0, 0.5])
    span = 600.0
    events = NaiveMarket(NaiveBook(100, 101, price_limits=(90, 110)), flow, key=2).run(until=span)
    kinds = np.bincount([event.kind for event in events], minlength=6)
    rate = hawkes_rate(1.0, 0.5, 1.0)
    # The counts' variance grows by rate / (1 - branching)**2, Hawkes (1971).
    assert abs(kinds[BUY_LIMIT] - rate * span) <= 4.5 * math.sqrt(rate / 0.25 * span)
    ratio = kinds[MARKET_BUY] / kinds[BUY_LIMIT]
    assert abs(ratio - 0.25) <= 4.5 * math.sqrt(0.25 / kinds[BUY_LIMIT])
    assert kinds[1] == kinds[2] == 0 < min(kinds[CANCEL], kinds[NOTHING])
