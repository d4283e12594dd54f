"""Nothing is lost in an order book: orders and lots are counted, and the queues stay whole, whatever an agent does."""

from __future__ import annotations

import numpy as np
import pytest

from sims.order_book import book as books
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, Hawkes, SantaFe

SIZES = (0.5, 0.2, 0.0, 0.3)
#: Each flow, with actions and rules by which orders are refused and evicted too.
MARKETS = {
    "by distance": dict(flow=CST(), actions="quotes", max_size=3, latency=0.3),
    "one lot": dict(flow=CST(theta=0.6), actions="orders", max_size=5, max_orders=40),
    "many": dict(flow=SantaFe(), actions="execution", quantity=500),
    "sizes": dict(flow=SantaFe(lam=0.8, distances=8, mu=2.0, theta=0.3, sizes=SIZES), actions="orders", max_size=9),
    "far away": dict(
        flow=SantaFe(lam=1.0, distances=8, mu=6.0, theta=0.02), actions="orders", ring=32, max_offset=8, max_orders=64
    ),
    "hawkes": dict(flow=Hawkes(), actions="quotes", max_size=9, self_trade="cancel_incoming"),
    "hawkes sizes": dict(
        flow=Hawkes(weights=(1.0, 2.0, 1.0), theta=(0.5, 0.7), sizes=SIZES), actions="orders", max_size=9, ring=64,
        step="messages", step_messages=40, price_limits=(9_990, 10_010),
    ),
}  # fmt: skip
N, MESSAGES = 40, 150_000


def count_resting(book, rules):
    """Walk along all queues of all books: orders and lots that rest, (N, 2)."""
    nodes = book.nodes.astype(np.int64).reshape(N, -1, books.WORDS)
    ring, base = rules.ring, rules.ring + rules.slots
    after, before, level, lots = np.moveaxis(nodes, 2, 0)
    rows = np.arange(N)[:, None]
    numbers = np.arange(nodes.shape[1])
    is_in = np.concatenate(
        [np.ones((N, ring), bool), book.own_price >= 0, numbers[None, base:] < base + book.count[:, None]], axis=1
    )
    assert (before[rows, after] == numbers)[is_in].all()
    assert (after[rows, before] == numbers)[is_in].all()
    at, held, orders = after[:, :ring], np.zeros((N, ring), np.int64), np.zeros((N, ring), np.int64)
    while (is_order := at >= ring).any():
        assert is_in[rows, at].all()
        assert (level[rows, at] == numbers[:ring])[is_order].all()
        assert (lots[rows, at] > 0)[is_order].all()
        held += np.where(is_order, lots[rows, at], 0)
        orders += is_order
        at = np.where(is_order, after[rows, at], at)
    assert (at == numbers[:ring]).all()
    assert (held == lots[:, :ring]).all()
    assert (orders.sum(axis=1) == is_in.sum(axis=1) - ring).all()
    assert (book.bid < book.ask).all()
    return np.stack([orders.sum(axis=1), held.sum(axis=1)], axis=1)


@pytest.mark.filterwarnings("ignore:max_orders")
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.slow if each == "hawkes sizes" else pytest.mark.long) for each in MARKETS],
)
def test_every_order_and_lot_is_accounted_for(name):
    vec = LimitOrderBookVecEnv(N, n_steps=50, **MARKETS[name])
    vec.reset(seed=1)
    vec.batch_action_space.seed(2)
    rules, messages, seen = vec.params.rules, 0, np.zeros((5, 2), np.int64)
    there = count_resting(vec.book, rules)
    while messages < MESSAGES:
        result = vec.step(vec.batch_action_space.sample())
        book, told = vec.book, result.infos.columns
        messages += int(told["messages"].sum())
        resting, begun = count_resting(book, rules), result.dones[:, None]
        there = np.where(begun, resting, there)  # of a new episode, in which nothing has been counted
        came, *went = np.moveaxis(book.tallies, 1, 0)
        np.testing.assert_array_equal(there + came, resting + sum(went))
        assert (book.tallies[result.dones] == 0).all()
        seen += book.tallies.max(axis=0)
        np.testing.assert_allclose(
            told["wealth"], told["cash"] + told["inventory"] * told["mid_price"], rtol=1e-12, atol=1e-9
        )
    assert (seen[: books.REFUSED] > 0).all()
    assert name != "far away" or (seen > 0).all()
