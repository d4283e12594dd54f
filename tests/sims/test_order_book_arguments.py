"""What ``LimitOrderBook-v0`` says of arguments that make no sense, and that it never hangs."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from sekai.vector import Randomized
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, Hawkes, SantaFe
from sims.order_book.start import StartBook

N = 3
NO_ALPHA = ((0.0,) * 4,) * 4


def start(**orders):
    return {"initial_book": StartBook(**orders)}


#: Arguments, and what is said of them.
WRONG = [
    (start(bids=[(5, 1)], asks=[(5, 1)]), "initial_book: expected bids below asks, got 5 and 5"),
    (start(bids=[(7, 1), (-5, 1)]), "initial_book.bids[1]: expected a price from 1 to 1073741824, "),
    (start(bids=[(50, 1)], asks=[(500, 1)]), "initial_book.bids[0]: expected a price"),
    (start(asks=[(5, 0)]), "initial_book.asks[0]: expected 1 to 65535 lots at a price, got 0"),
    (
        start(asks=[(5, 65_000), (5, 600)]),
        "initial_book.asks[1]: expected 1 to 65535 lots at a price, got 600",
    ),
    (start(own=[(7, 5, 1)]), "initial_book.own[0]: expected a free slot below 2, got 7"),
    (start(bids=[(9, 1)] * 4, own=[(0, 9, 1), (0, 8, 1)]), "initial_book.own[1]: expected a free slot below 2, got 0"),
    (
        start(bids=[(9, 1)], own=[(0, 9, 30), (1, 8, 21)]),
        "initial_book.own: expected at most 50 lots to buy, which max_inventory=50 leaves, got 51",
    ),
    (
        start(asks=[(9, 1)], own=[(0, 9, 2)]) | {"max_inventory": [9, 1, 2]},
        "initial_book.own: expected at most 1 lots to sell, which max_inventory=1 leaves, got 2 (sub-env 1)",
    ),
    (
        start(bids=[(9, 1)], own=[(0, 8, 31)]) | {"actions": "execution", "quantity": 20},
        "initial_book.own: expected at most 30 lots to buy, which max_inventory=50 leaves, got 31",
    ),
    (
        start(bids=[(9, 1)], own=[(0, 8, 71)]) | {"actions": "execution", "quantity": 20, "direction": "buy"},
        "initial_book.own: expected at most 70 lots to buy, which max_inventory=50 leaves, got 71",
    ),
    ({"record_messages": -1}, "record_messages: expected a finite number of at least 0, got -1"),
    ({"initial_book": [(1, 2)]}, "initial_book: expected a StartBook or None, got [(1, 2)]"),
    ({"flow": "CST"}, "flow: expected a CST, SantaFe or Hawkes, got 'CST'"),
    ({"step_by": "time"}, "step_by: expected it to be told by step, got 'time'"),
    ({"max_offset": "far"}, "max_offset: expected an integer, got str"),
    (
        {"initial_book": StartBook(bids=[(9999, 1)], own=[(0, 9998, 1)]), "warm_up": 1.0},
        "initial_book.own: expected none with a warm-up",
    ),
    ({"step_time": 0.1, "latency": 0.3, "max_pending": 3}, "max_pending: expected at least 4"),
    ({"flow": CST(lam=(1.0, math.nan))}, "flow.lam: expected numbers from 0 to 1e+12, got nan at [1]"),
    ({"flow": CST(lam=(-1.0,))}, "flow.lam: expected numbers from 0 to 1e+12, got -1.0 at [0]"),
    ({"flow": CST(lam=1.0)}, "flow.lam: expected 1 to 1024 numbers, got an array of shape ()"),
    ({"flow": CST(lam="fast")}, "flow.lam: expected numbers, got 'fast'"),
    ({"flow": CST(lam=(0.0, 0.0))}, "flow.lam: expected limit orders at a rate above 0"),
    ({"flow": CST(mu=math.nan)}, "flow.mu: expected a number from 0 to 1e+12, got nan"),
    ({"flow": CST(theta=0.0)}, "flow.theta: expected a rate above 0, as a book without cancels grows without bound"),
    ({"flow": CST(theta=(0.5, math.inf))}, "flow.theta: expected numbers from 0 to 1e+12, got inf at [1]"),
    ({"flow": CST(sizes=(0.0, 0.0))}, "flow.sizes: expected a probability above 0, got none"),
    ({"flow": SantaFe(distances=0)}, "flow.distances: expected 1 to 1024 ticks, got 0"),
    (
        {"flow": Hawkes(alpha=((5.0,) * 4,) * 4)},
        "flow.alpha: expected a branching matrix alpha / beta with a spectral ",
    ),
    ({"flow": Hawkes(alpha=NO_ALPHA, mu=(0, 0, 1, 1))}, "flow.mu: expected limit orders at a rate above 0"),
    ({"flow": Hawkes(beta=0.0)}, "flow.beta: expected a finite number above 0, got 0.0"),
    ({"flow": Hawkes(mu=(1, 1, 1))}, "flow.mu: expected 4 numbers, one for each kind of order, got 3"),
    ({"flow": Hawkes(), "mu": 2.0}, "mu: expected none with a Hawkes flow"),
    ({"mu": [1.0, -1.0, 1.0]}, "mu: expected a finite number of at least 0, got -1.0 (sub-env 1)"),
    ({"mu": math.nan}, "mu: expected a finite number, got nan"),
    ({"theta_factor": Randomized(0.0, 1.0)}, "theta_factor: expected a finite number above 0, got 0.0"),
    ({"price_limits": 5}, "price_limits: expected (lowest, highest) or None, got 5"),
    ({"price_limits": (9, 4)}, "price_limits: expected the lowest price below the highest, got 9 and 4"),
    ({"price_limits": (-5, 10)}, "lowest_price: expected a finite number of at least 1, got -5"),
    ({"price_limits": (1, 4)}, "start_price: expected bid and ask within the price limits 1 to 4"),
    ({"latency": -1.0}, "latency: expected a finite number of at least 0, got -1.0"),
    (
        {"latency": [0.0, 1.0, 100.0]},
        "max_pending: expected at least 101, the actions under way with a latency of 100",
    ),
    ({"latency_law": "normal"}, "latency_law: expected 'fixed' or 'exponential' or 'uniform', got 'normal'"),
    ({"maker_fee": 2.0}, "maker_fee: expected a finite number of at most 1, got 2.0"),
    ({"fee_per_lot": math.nan}, "fee_per_lot: expected a finite number, got nan"),
    (
        {"fee_per_lot": -0.1, "inventory_penalty": -1.0},
        "inventory_penalty: expected a finite number of at least 0",
    ),
    ({"max_size": 70_000}, "max_size: expected a finite number of at most 65535, got 70000"),
    ({"ring": 100}, "ring: expected a power of two of at least 80, 4 times the largest offset, got 100"),
    ({"max_orders": 70_000}, "ring, slots, max_orders: expected at most 65536 together, got 70130"),
    ({"slots": 1}, "slots: expected at least 2 with actions='quotes', got 1"),
    ({"step": "day"}, "step: expected 'time' or 'messages', got 'day'"),
    ({"step_time": 1e300}, "step_time: expected at most 1e+08 events in a step, got 1e+300"),
    ({"warm_up": 1e300}, "warm_up: expected at most 1e+07 events, got 1e+300 of time"),
    ({"flow": CST(theta=1e-9), "max_orders": 999}, "warm_up: expected at most 1e+07 events, got 2e+10 of time"),
    ({"warm_up_once": "yes"}, "warm_up_once: expected True or False, got 'yes'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_makes_no_sense_is_named(number):
    arguments, said = WRONG[number]
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        LimitOrderBookVecEnv(N, **arguments)


@pytest.mark.parametrize(
    ("arguments", "orders", "pool"),
    [
        ({"lam_factor": 100.0}, "5987.51", 256),
        ({"theta_factor": [1.0, 0.01, 1.0]}, "5591.51", 256),
        ({"lam_factor": Randomized(1.0, 50.0)}, "2991.75", 256),
        ({"max_orders": 8}, "55.9151", 8),
        ({"flow": CST(theta=(1.0, 0.0))}, "inf", 32_768),
    ],
)
def test_rates_by_which_a_book_fills_up_are_warned_of(arguments, orders, pool):
    said = f"max_orders: expected as many as a book comes to hold by its rates, {orders} in the long run, got {pool}: "
    with pytest.warns(UserWarning, match=re.escape(said)):
        LimitOrderBookVecEnv(N, warm_up=0.0, **arguments)


def test_the_pool_has_room_for_what_the_rates_make_of_a_book():
    for flow in (CST(), SantaFe(), Hawkes()):
        LimitOrderBookVecEnv(N, flow=flow, warm_up=0.0)  # without a warning


@pytest.mark.form
def test_a_step_ends_though_no_order_is_ever_taken():
    flow = CST(lam=(0.0, 0.0, 0.0, 0.0, 1.0))  # five ticks away, where no order may rest
    vec = LimitOrderBookVecEnv(
        2, flow=flow, price_limits=(10_000, 10_001), step="messages", step_messages=100, warm_up_once=False, warm_up=1.0
    )
    vec.reset(seed=1)
    told = vec.step(np.zeros((2, 3), np.int64)).infos.columns
    assert (told["messages"] == 0).all() and (told["refused"] > 1000).all()


@pytest.mark.long
def test_no_event_is_lost_in_a_long_step():
    vec = LimitOrderBookVecEnv(50, step_time=1000.0, warm_up=5.0, max_pending=1)
    vec.reset(seed=1)
    messages = vec.step(np.zeros((50, 3), np.int64)).infos.columns["messages"]
    error = messages.std() / np.sqrt(len(messages))
    lost = 100.0  # the book begins with fewer orders
    assert abs(messages.mean() - 1000.0 * 4.0 * sum(CST().lam)) < 4.0 * error + lost


def test_own_orders_as_large_as_the_inventory_limit_leaves_are_taken():
    for own in ([(0, 9, 50), (1, 12, 50)], [(0, 9, 20), (1, 8, 30)]):
        LimitOrderBookVecEnv(N, **start(bids=[(9, 1)], asks=[(12, 1)], own=own))
    LimitOrderBookVecEnv(N, max_inventory=None, **start(bids=[(9, 1)], own=[(0, 9, 500)]))
