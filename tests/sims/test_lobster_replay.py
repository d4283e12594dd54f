"""What a tape tells suffices for exact fills of own orders, against the true queues of the synthetic exchange."""

from __future__ import annotations

import random

import numpy as np
import pytest
from naive_replay import replay
from synthetic_lobster import BUY, NO_ASK, PAIRS, SELL, get_pair

from sims.data import Tape, read_lobster


@pytest.mark.parametrize("make, seed, levels", [*((*pair, None) for pair in PAIRS), ("deep", 1, 1), ("deep", 1, 3)])
def test_an_order_put_before_one_that_is_executed_fills_at_its_first_execution(tmp_path, make, seed, levels):
    tape = read_lobster(*get_pair(make, seed).write(tmp_path), levels=levels)
    first = {}
    for k in np.flatnonzero((tape.kind == 4) & (tape.ref >= 1)).tolist():
        first.setdefault(int(tape.ref[k]), k)
    assert len(first) > 60
    for start, expected in first.items():
        fills, _ = replay(tape, start, int(tape.direction[start]), int(tape.price[start]))
        assert fills == [(expected, 1)], f"an order before message {start}"


def test_that_holds_for_orders_whose_price_leaves_the_view_and_comes_back(tmp_path):
    tape = read_lobster(*get_pair("one level", 1).write(tmp_path))
    executed = np.flatnonzero((tape.kind == 4) & (tape.ref >= 1)).tolist()
    returned = {}
    for k in executed:
        start = int(tape.ref[k])
        side = tape.bid_price if tape.direction[k] == BUY else tape.ask_price
        if (side[start:k, 0] != tape.price[k]).any():
            returned.setdefault(start, k)
    assert len(returned) >= 10
    for start in returned:
        expected = min(k for k in executed if tape.ref[k] == start)
        assert replay(tape, start, int(tape.direction[start]), int(tape.price[start]))[0] == [(expected, 1)]


@pytest.mark.parametrize("make, seed", PAIRS)
def test_places_in_the_queue_are_those_of_the_true_book(tmp_path, make, seed):
    """In a level that stays in view exactly; in one that has left it never too near to the front."""
    pair = get_pair(make, seed)
    tape = read_lobster(*pair.write(tmp_path))
    rng = random.Random(seed)
    exact = 0
    for _ in range(40):
        start, direction = rng.randrange(1, len(tape)), rng.choice((BUY, SELL))
        side = tape.bid_price if direction == BUY else tape.ask_price
        price = int(rng.choice(side[start - 1].tolist()))
        if abs(price) == NO_ASK:
            continue
        fills, ahead = replay(tape, start, direction, price)
        filled = fills[0][0] if fills else None
        before = {number for number, _ in pair.books[start - 1][direction][price]}
        true_fill = find_fill(tape, start, direction, price, before)
        is_seen = True
        for k, shares in enumerate(ahead, start - 1):
            queue = pair.books[k][direction].get(price, ())
            true = sum(each for number, each in queue if number in before)
            is_seen = is_seen and (direction * (price - side[k, -1]) >= 0)
            assert shares == true if is_seen else shares >= true
            if true_fill is not None and k + 1 >= true_fill:
                break
        if is_seen:
            assert filled == true_fill
            exact += true_fill is not None
        else:
            assert filled is None or (true_fill is not None and filled >= true_fill)
    assert exact >= 3


def find_fill(tape, start, direction, price, before):
    """When an order fills that has just these orders ahead of it at its price."""
    for k in range(start, len(tape)):
        of_side, gap = tape.direction[k] == direction, direction * (int(tape.price[k]) - price)
        if tape.kind[k] in (4, 5) and of_side and gap < 0:
            return k
        if tape.kind[k] == 4 and of_side and gap == 0 and int(tape.order_id[k]) not in before:
            return k
        if tape.kind[k] == 5 and of_side and gap == 0:
            return k
        if tape.kind[k] == 1 and tape.direction[k] == -direction and gap <= 0:
            return k
    return None


def test_a_large_order_fills_bit_by_bit():
    """Against lots worked out by hand."""
    rows = [  # a bid of 30 at 100 and one of 20 at 99; the asks are far
        ((1, 9, 1, 500, -1), ((100, 30), (99, 20))),
        ((1, 1, 10, 100, 1), ((100, 40), (99, 20))),  # behind the own order, which is placed before it
        ((2, 1, 4, 100, 1), ((100, 36), (99, 20))),  # which changes nothing for it
        ((4, 7, 25, 100, 1), ((100, 11), (99, 20))),
        ((3, 7, 5, 100, 1), ((100, 6), (99, 20))),
        ((4, 1, 6, 100, 1), ((99, 20), (98, 5))),  # 6 of it
        ((5, 0, 3, 101, 1), ((99, 20), (98, 5))),  # hidden, and better
        ((5, 0, 3, 99, 1), ((99, 20), (98, 5))),  # hidden, and worse: 3
        ((4, 8, 15, 99, 1), ((99, 5), (98, 5))),  # worse: 15
        ((1, 2, 50, 100, -1), ((99, 5), (98, 5))),  # an offer that meets it: 1 is left
    ]
    messages = np.array([message for message, _ in rows]).T
    columns = dict(zip(("kind", "order_id", "size", "price", "direction"), messages, strict=True))
    bids = np.array([bids for _, bids in rows])
    asks = np.array([[(500, 1), (600, 1)]] * (len(rows) - 1) + [[(100, 50), (500, 1)]])
    sides = dict(bid_price=bids[:, :, 0], bid_size=bids[:, :, 1], ask_price=asks[:, :, 0], ask_size=asks[:, :, 1])
    tape = Tape(time=np.arange(len(rows)), **columns, **sides)
    fills, ahead = replay(tape, 1, 1, 100, 25)
    assert fills == [(5, 6), (7, 3), (8, 15), (9, 1)]
    assert ahead == [30, 30, 30, 5, 0, 0, 0, 0, 0]
