"""Simulated books written as a pair of LOBSTER's files: read back, and against the market that made them."""

from __future__ import annotations

import numpy as np
import pytest
from naive_replay import replay

from sims.data import read_lobster, write_lobster
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, Hawkes, SantaFe
from sims.order_book.record import record_tape
from sims.order_book.start import StartBook

pytestmark = pytest.mark.long  # each flow is compiled by itself

#: With a ring so small that orders are evicted, and one where sides are often empty.
FLOWS = {
    "unit": dict(flow=CST(lam=[1.92 * i**-0.52 for i in range(1, 9)], theta=0.6), max_offset=8),
    "sizes": dict(flow=SantaFe(lam=0.8, distances=8, mu=2.0, theta=0.3, sizes=[0.5, 0.2, 0.0, 0.3]), ring=64),
    "tight": dict(flow=SantaFe(lam=1.0, distances=8, mu=6.0, theta=0.05), ring=32, max_offset=8, max_orders=96),
    "thin": dict(flow=SantaFe(lam=0.05, distances=8, mu=0.3, theta=0.4), ring=32, max_offset=8, warm_up=20.0),
    "hawkes": dict(flow=Hawkes(), warm_up=5.0),
}


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("levels", [3, 40])
def test_a_recorded_book_is_a_pair_of_files_that_agrees_with_itself(tmp_path, name, levels):
    tape = record_tape(500, seed=3, levels=levels, **FLOWS[name])
    paths = tmp_path / "message.csv", tmp_path / "orderbook.csv"
    write_lobster(tape, *paths)
    back = read_lobster(*paths, tick=tape.tick)
    for column in ("time", "kind", "order_id", "size", "price", "direction", "ref", "ask_price", "bid_size"):
        assert np.array_equal(getattr(tape, column), getattr(back, column))
    assert len(tape) >= 500 and {1, 3, 4} <= set(tape.kind.tolist())


@pytest.mark.parametrize("name", ["unit", "sizes"])
def test_it_is_the_book_of_a_sub_env_of_that_seed(name):
    """At the end of steps of a fixed time, of which the recorder knows nothing."""
    tape = record_tape(400, seed=11, levels=60, **FLOWS[name])
    vec = LimitOrderBookVecEnv(2, step_time=0.25, n_steps=10**6, depth=8, **FLOWS[name])
    vec.reset(seed=[5, 11])
    seconds = tape.time / 1e9 - 34_200
    for step in range(1, int(seconds[-1] / 0.25)):
        infos, row = vec.step(np.zeros((2, 3), int)).infos[1], int(np.searchsorted(seconds, 0.25 * step)) - 1
        if row >= 0 and tape.bid_size[row, 0] and tape.ask_size[row, 0]:
            assert infos["spread"] == (tape.ask_price[row, 0] - tape.bid_price[row, 0]) // tape.tick
            twice_mid = (tape.ask_price[row, 0] + tape.bid_price[row, 0]) // tape.tick
            assert infos["mid_price"] == pytest.approx(0.5 * 0.01 * twice_mid, rel=1e-12)


@pytest.mark.parametrize("name", ["sizes", "tight"])
def test_orders_are_executed_in_the_order_in_which_they_came(name):
    tape, first = record_tape(600, seed=1, levels=40, **FLOWS[name]), {}
    for k in np.flatnonzero((tape.kind == 4) & (tape.ref >= 1)).tolist():
        first.setdefault(int(tape.ref[k]), k)
    assert len(first) > 40
    for start, expected in first.items():
        fills, _ = replay(tape, start, int(tape.direction[start]), int(tape.price[start]))
        assert fills == [(expected, 1)], f"an order before message {start}"


def test_what_cannot_be_recorded_is_refused():
    start = StartBook(bids=[(99, 1)], asks=[(101, 1)], own=[(0, 98, 1)])
    with pytest.raises(ValueError, match="initial_book: expected no own orders, as nobody trades"):
        record_tape(10, seed=0, initial_book=start, warm_up=0.0)
    with pytest.raises(ValueError, match="messages: expected"):
        record_tape(0, seed=0)
