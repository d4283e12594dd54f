"""``LimitOrderBook-v0`` as a whole against its plain twin, bit for bit, in runs of random actions."""

from __future__ import annotations

from fractions import Fraction

import numba
import numpy as np
import pytest
from naive_order_book_env import NaiveTrader

import sekai
from sims.order_book.book import CAME, CANCELLED, EVICTED, EXECUTED, REFUSED
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, Hawkes, SantaFe
from sims.order_book.start import StartBook

form = pytest.mark.form  # what compiles a choice of the market that no other test has
N = 3

START = StartBook(
    bids=[(100, 2), (100, 1), (99, 4), (96, 1)], asks=[(102, 1), (103, 3), (103, 1)], own=[(0, 100, 1), (1, 102, 2)]
)
SIZES = (0.5, 0.2, 0.0, 0.3)
#: Markets that do all that they can within a few dozen steps.
MARKETS = {
    # Of the form of the defaults, which other tests compile too.
    "as it comes": dict(
        n_steps=30, step_time=0.5, latency=0.8, max_inventory=3, maker_fee=-1e-4, taker_fee=3e-4, fee_per_lot=0.001,
    ),
    "quotes": dict(
        flow=CST(lam=CST().lam[:8]), initial_book=START, start_price=100, warm_up=0.0, n_steps=30,
        latency=[0.0, 0.13, 1.7], step_time=0.5, max_size=3, max_offset=5, max_inventory=4, maker_fee=-1e-4,
        taker_fee=3e-4, fee_per_lot=0.001,
        reward="inventory_penalty",
    ),
    "orders": dict(
        flow=SantaFe(lam=0.8, distances=8, mu=2.0, theta=0.3, sizes=SIZES), warm_up=3.0, warm_up_once=False,
        start_price=20, price_limits=(14, 30), n_steps=25, actions="orders", slots=3, max_offset=6, max_size=4,
        latency=0.4, latency_law="exponential", max_pending=2, step="messages", step_messages=3, at_end="mark",
        levels="ticks", depth=4, lam_factor=[1.0, 0.7, 1.3], rate_factor=[1.0, 2.0, 0.5], max_inventory=None,
        self_trade="cancel_incoming", taker_fee=1e-3,
    ),
    "execution": dict(
        flow=Hawkes(weights=[3.0, 2.0, 1.0, 1.0, 0.5]), n_steps=12, actions="execution", quantity=40, direction="buy",
        step_time=0.7, latency=0.3, latency_law="uniform", reward="shortfall", at_end="mark", taker_fee=1e-3, depth=3,
        max_orders=64, warm_up=10.0,
    ),
    "execution from nothing": dict(
        flow=SantaFe(lam=0.3, distances=8, mu=2.0, theta=0.05), n_steps=12, actions="execution", quantity=9,
        warm_up=0.0, step_time=3.0, reward="shortfall", ring=32, max_offset=8, max_orders=24, levels="ticks",
    ),
    "orders in a tight book": dict(
        flow=Hawkes(weights=[1.0, 2.0, 1.0], theta=[0.5, 0.7], sizes=SIZES), n_steps=40, actions="orders", slots=4,
        max_offset=8, max_size=9, ring=32, max_orders=12, warm_up=0.0, start_price=5, max_inventory=12, latency=0.02,
        step_time=0.05, rate_factor=2.0, theta_factor=[0.3, 1.0, 2.0], fee_per_lot=-0.001,
    ),
    "messages one by one": dict(
        flow=CST(theta=0.6), n_steps=150, step="messages", latency=0.05, max_pending=4, max_size=2, max_inventory=3,
        mu=[0.0, 3.0, 9.0], warm_up=4.0, warm_up_once=False, at_end="close", maker_fee=1e-4,
    ),
}  # fmt: skip
#: Two in which every word is that the others have are compiled by the slow tests.
SLOW = [] if numba.config.DISABLE_JIT else [pytest.mark.slow]
MARKS = {"as it comes": [], "orders": SLOW, "execution": pytest.mark.slow}  # which takes long in plain Python
each_market = pytest.mark.parametrize("name", [pytest.param(each, marks=MARKS.get(each, form)) for each in MARKETS])
ROWS = ("latency", "lam_factor", "theta_factor", "rate_factor", "mu")


def draw_actions(vec, steps, seed=0):
    vec.batch_action_space.seed(seed)
    return [vec.batch_action_space.sample() for _ in range(steps)]


def params_of(vec, row):
    """The parameters of a row."""
    params = vec.params
    own = {name: getattr(params, name)[row] for name in ROWS if isinstance(getattr(params, name), np.ndarray)}
    return params._replace(**own)


def begin(vec, twins, rows):
    """Begin episodes of twins, from the book that the market has begun with where that is one made for all."""
    if vec.params.warm_up_once and vec.params.warm_up != 0.0:
        books, clocks, counters = vec.get_attr("book"), vec.get_attr("clock"), vec.streams.counter
        return [twins[row].adopt(books[row], clocks[row], int(counters[row])) for row in rows]
    return [twins[row].reset() for row in rows]


def assert_same_state(vec, twins):
    for row, (book, clock, twin) in enumerate(zip(vec.get_attr("book"), vec.get_attr("clock"), twins, strict=True)):
        market, plain = twin.market, twin.market.book
        assert (clock.time, clock.messages) == (market.clock, market.messages), row
        assert (book.bid, book.ask, book.count) == (plain.bid, plain.ask, plain.n), row
        expected = dict(plain.tallies)
        for k, what in (
            (CAME, "in"),
            (EXECUTED, "executed"),
            (CANCELLED, "cancelled"),
            (REFUSED, "refused"),
            (EVICTED, "evicted"),
        ):
            for j, how in enumerate(("orders", "lots")):
                base = twin.came[how] if k == CAME else 0
                assert book.tallies[k, j] == expected[f"{how}_{what}"] - base, (row, what, how)


def assert_wealth_is_exact(twin, info):
    """Cash from fills less fees, and the inventory at the mid, to 1e-9 of the value traded."""
    book, tick = twin.market.book, Fraction(twin.params.tick_size)
    exact = twin.exact + info["inventory"] * tick * (book.bid + book.ask) / 2
    held = abs(info["inventory"]) * info["mid_price"]  # of which some may have been there from the start
    assert abs(Fraction(info["wealth"]) - exact) <= 1e-9 * (twin.turnover + held)


@pytest.mark.filterwarnings("ignore:max_orders")
@each_market
def test_the_market_is_its_twins(name):
    vec = LimitOrderBookVecEnv(N, **MARKETS[name])
    twins = [NaiveTrader(row + 5, params_of(vec, row)) for row in range(N)]
    got = vec.reset(seed=[row + 5 for row in range(N)])
    for row, (observation, info) in enumerate(begin(vec, twins, range(N))):
        assert got.observations[row].tolist() == observation.tolist()
        assert dict(got.infos[row]) == info
    seen = dict.fromkeys(("bought", "sold", "cut", "dropped", "refused", "evicted"), 0)
    for batch in draw_actions(vec, 3 * vec.params.n_steps):
        got = vec.step(batch)
        ended = []
        for row, twin in enumerate(twins):
            observation, reward, done, over, info = twin.step(batch[row])
            told = dict(got.infos[row])
            assert got.rewards[row] == reward
            assert (got.terminated[row], got.truncated[row]) == (done, over)
            for each in seen:
                seen[each] += info[each]
            if done or over:
                ended.append(row)
                told, last = told["final_info"], told["final_observation"]
            else:
                last = got.observations[row]
            assert last.tolist() == observation.tolist()
            assert {key: told[key] for key in info} == info
            assert_wealth_is_exact(twin, info)
        for row, (observation, info) in zip(ended, begin(vec, twins, ended), strict=True):
            assert got.observations[row].tolist() == observation.tolist()
            assert dict(got.infos[row]["reset_info"]) == info
        assert_same_state(vec, twins)
    assert seen["bought"] + seen["sold"] > 0


@pytest.mark.slow
@pytest.mark.compiled
def test_time_cut_into_steps_changes_no_book():
    books = []
    for cuts in (1, 10, 100):
        vec = LimitOrderBookVecEnv(4, step_time=10.0 / cuts)
        vec.reset(seed=3)
        for _ in range(cuts):
            vec.step(np.zeros((4, 3), np.int64))
        books.append([*vec.book, vec.clock.messages])
    for cut in books[1:]:
        for one, other in zip(books[0], cut, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    "actions", ["quotes", *(pytest.param(each, marks=pytest.mark.long) for each in ("orders", "execution"))]
)
def test_the_checker_finds_no_problem(actions):
    def factory(num_envs, **settings):
        return LimitOrderBookVecEnv(num_envs, actions=actions, n_steps=20, latency=0.3, taker_fee=1e-4, **settings)

    findings = sekai.check_vec_env(factory)
    assert [each for each in findings if not each.startswith("hint: ")] == []


def test_a_latency_of_whole_steps_arrives_at_the_end_of_one():
    """Whatever rounding makes of the sum of the two times: .1 + .2 is more than .3."""
    vec = LimitOrderBookVecEnv(1, step_time=0.1, latency=0.1, n_steps=200)
    vec.reset(seed=1)
    for _ in range(199):
        vec.step(np.array([[1, 1, 0]]))
        assert vec.get_attr("pending")[0].count == 0


def test_another_step_and_another_tick_hold_from_the_next_episode_on():
    vec = LimitOrderBookVecEnv(1, step_time=0.5, latency=0.0, n_steps=20)
    vec.reset(seed=1)
    quotes = np.array([[1, 1, 0]])
    for step in range(1, 20):
        if step == 10:
            vec.set_attr("step_time", 2.0)
            vec.set_attr("tick_size", 1.0)
        info = vec.step(quotes).infos[0]
        assert vec.get_attr("clock")[0].time == 0.5 * step
        assert info["mid_price"] < 1000.0
    assert vec.step(quotes).infos[0]["reset_info"]["mid_price"] > 1000.0
    vec.step(quotes)
    assert vec.get_attr("clock")[0].time == 2.0


def test_a_flow_may_be_told_by_its_name():
    named, plain = LimitOrderBookVecEnv(1, flow="cst"), LimitOrderBookVecEnv(1)
    assert named.params.flow == CST() and named.params == plain.params
