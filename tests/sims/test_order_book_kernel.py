"""The compiled book and its background against the plain twin, event by event, bit for bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from naive_order_book import BUY, MARKET_SELL, HawkesFlow, NaiveBook, NaiveMarket, PoissonFlow, check_tables

import sekai
from sekai.kernels import jit
from sekai.vector import KernelVecEnv
from sims.order_book import book as books
from sims.order_book import events, flows

CALM = flows.CST(lam=[1.92 * i**-0.52 for i in range(1, 9)], theta=0.6)
FLOWS = {
    "unit": CALM,
    "by distance": flows.CST(lam=flows.CST().lam[:8]),
    "sizes": flows.SantaFe(lam=0.8, distances=8, mu=2.0, theta=0.3, sizes=[0.5, 0.2, 0.0, 0.3]),
    "sizes by distance": flows.CST(lam=[2.0, 1.0, 0.0, 0.5, 1.0], theta=[0.9, 0.3, 0.0, 0.2], sizes=[0.6, 0.4]),
    "hawkes": flows.Hawkes(weights=[3.0, 2.0, 1.0, 1.0, 0.5]),
    "hawkes sizes": flows.Hawkes(weights=[1.0, 2.0, 1.0], theta=[0.5, 0.7], sizes=[0.3, 0.0, 0.7]),
    "thin": flows.SantaFe(lam=0.05, distances=8, mu=0.3, theta=0.4),  # sides are often empty
}
#: A ring so small that the best moves away from what rests, and a pool that is soon full.
SIZES = {"roomy": dict(max_orders=256, ring=128, slots=3), "tight": dict(max_orders=24, ring=32, slots=3)}
NOTHING, MARKET, CANCEL, REPLACE = range(4)
WHAT = list(enumerate(("in", "executed", "cancelled", "refused", "evicted")))


class Params(NamedTuple):
    flow: Any
    lam_factor: float = 1.0
    theta_factor: float = 1.0
    scale: float = 1.0
    rules: books.BookRules = books.BookRules()


class State(NamedTuple):
    book: books.Book
    clock: events.Clock
    taken: np.int64
    value: np.int64


class Tables(NamedTuple):
    flow: flows.FlowTables


def prepare(params):
    return Tables(flows.read_flow(params.flow))


@jit
def rates_of(params, flow):
    scale = params.scale
    return events.Rates(
        scale * params.lam_factor * flow.lam, scale * flow.mu, scale * params.theta_factor * flow.theta, scale
    )


@jit
def reset_row(params, derived, state, random, i):
    books.clear_row(params.rules, state.book, i, 1000, 1001)
    events.begin_clock(state.book, state.clock, random, i, derived.flow, rates_of(params, derived.flow))
    state.taken[i] = state.value[i] = 0


@jit
def step_row(params, derived, state, random, i, action):
    """An own order, then the background."""
    what, slot, side, price, lots, messages = action.order
    book = state.book
    state.taken[i] = state.value[i] = 0
    if what == MARKET:
        opposite = books.SELL if side == books.BUY else books.BUY
        state.taken[i], state.value[i], _ = books.take_row(params.rules, book, i, opposite, lots, 0, True)
    elif what == CANCEL:
        books.cancel_row(params.rules, book, i, slot, lots)
    elif what == REPLACE:
        state.taken[i], state.value[i] = books.replace_row(params.rules, book, i, slot, side, price, lots)
    rates = rates_of(params, derived.flow)
    events.advance_row(params.rules, book, state.clock, random, i, derived.flow, rates, action.until[0], messages)
    return 0.0, False, False


@jit
def observe_row(params, state, i, observation):
    """Each own order: its side, lots, and what is ahead of it."""
    for slot in range(params.rules.slots):
        observation[slot, 0] = books.own_side(state.book, i, slot)
        observation[slot, 1] = books.own_lots(params.rules, state.book, i, slot)
        observation[slot, 2] = 0
        if state.book.own_price[i, slot] >= 0:
            observation[slot, 2] = books.queue_ahead(params.rules, state.book, i, slot)


class BookVecEnv(KernelVecEnv):
    Params, State, prepare, infos = Params, State, prepare, ("taken", "value")
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space = sekai.Box(-1, 2**30, (3, 3), np.int64)
    action_space = sekai.Dict(
        {"order": sekai.Box(-(2**50), 2**50, (6,), np.int64), "until": sekai.Box(0.0, events.NEVER, (1,), np.float64)}
    )


class Kernel:
    """One compiled book with a background."""

    def __init__(self, flow, seed, factors=(1.0, 1.0, 1.0), price_limits=(1, 2**30), **more):
        lam, theta, scale = factors
        self.ring, self.slots = more["ring"], more["slots"]
        rules = books.BookRules(lowest_price=price_limits[0], highest_price=price_limits[1], **more)
        self.vec = BookVecEnv(1, flow=flow, rules=rules, lam_factor=lam, theta_factor=theta, scale=scale)
        self.own = self.vec.reset(seed=[seed]).observations[0].tolist()
        self.read()

    def read(self):
        self.book, self.clock = self.vec.get_attr("book")[0], self.vec.get_attr("clock")[0]

    def run(self, until=events.NEVER, messages=2**40, order=(0, 0, 0, 0, 0)):
        action = {"order": np.array([[*order, messages]]), "until": np.array([[float(until)]])}
        result = self.vec.step(action)
        self.own = result.observations[0].tolist()
        self.read()
        return result.infos[0]["taken"], result.infos[0]["value"]

    def queue(self, price):
        nodes = self.book.nodes.reshape(-1, books.WORDS)
        k, found = int(nodes[price % self.ring, books.NEXT]), []
        while k >= self.ring:
            found.append((int(nodes[k, books.LOTS]), k - self.ring if k < self.ring + self.slots else None))
            k = int(nodes[k, books.NEXT])
        return found


def twin_of(flow, seed, factors=(1.0, 1.0, 1.0), **size):
    read = flows.read_flow(flow)
    lam, theta, scale = factors
    offsets = (read.accept_offset, read.drawn_offset[1::2] - 1)
    sizes = (read.accept_size, read.drawn_size[1::2] - 1) if read.has_sizes else None
    if read.excites:
        made = HawkesFlow(
            flow.mu, flow.alpha, flow.beta, flow.theta, offsets, sizes, theta_factor=theta, rate_factor=scale
        )
    else:
        made = PoissonFlow(
            read.lam, flow.mu, flow.theta, offsets, sizes, lam_factor=lam, theta_factor=theta, rate_factor=scale
        )
    book = NaiveBook(
        1000, 1001, orders=size["max_orders"], ring=size["ring"], slots=size["slots"],
        price_limits=size.get("price_limits"), self_trade=size.get("self_trade", "cancel_resting"),
    )  # fmt: skip
    return NaiveMarket(book, made, seed)


def assert_same(kernel, twin):
    book, clock, naive = kernel.book, kernel.clock, twin.book
    assert (book.bid, book.ask, book.count) == (naive.bid, naive.ask, naive.n)
    assert (clock.time, clock.due, clock.messages) == (twin.clock, twin.due, twin.messages)
    reach = kernel.ring // 2
    for price in range(naive.ask - reach + 1, naive.bid + reach):
        assert kernel.queue(price) == naive.queue(price), price
    for slot, (side, lots, ahead) in enumerate(kernel.own):
        own = naive.own(slot)
        assert (side, int(book.own_price[slot]), lots) == (own or (-1, -1, 0))
        assert ahead == (naive.queue_ahead(slot) if own else 0)
    tallies = {f"{of}_{what}": int(book.tallies[k, j]) for j, of in enumerate(("orders", "lots")) for k, what in WHAT}
    assert tallies == naive.tallies
    naive.check()


def draw_own_order(random, naive, ring):
    """A random own order, and what the twin does with it: the fills."""
    slot, side, lots = int(random.integers(3)), int(random.integers(2)), int(random.integers(1, 4))
    offset = int(random.integers(-2, 5 if random.integers(4) else ring // 4))
    offset = offset if random.integers(20) else -ring // 2 - offset  # out of reach, if nothing is there to stop it
    price = naive.ask - offset if side == BUY else naive.bid + offset
    what, own = random.integers(5), naive.own(slot)
    if what == 0:
        return (MARKET, slot, side, price, lots), naive.market_order(side, lots)
    if what == 1:
        naive.cancel(slot)
        return (CANCEL, slot, side, price, books.MOST_LOTS), []
    if own is None:
        return (REPLACE, slot, side, price, lots), naive.place(slot, side, price, lots)
    price = own[1] if what == 2 else price  # often the same one, with fewer lots or more
    return (REPLACE, slot, own[0], price, lots), naive.replace(slot, price, lots)


#: Each choice is compiled by itself, for ten seconds: the one with most in it among the slow tests.
CHOICES = [
    ("hawkes sizes", "tight", "cancel_resting"),
    ("by distance", "tight", "cancel_incoming"),
    ("unit", "roomy", "cancel_resting"),
    ("thin", "tight", "cancel_incoming"),
    ("sizes", "tight", "cancel_resting"),
    ("sizes by distance", "roomy", "cancel_incoming"),
    ("hawkes", "roomy", "cancel_incoming"),
]
QUICK = () if numba.config.DISABLE_JIT else pytest.mark.slow
CASES = [
    pytest.param(*each, marks=QUICK if each == CHOICES[0] else pytest.mark.form, id=" ".join(each)) for each in CHOICES
]
each_choice = pytest.mark.parametrize(("name", "size", "rule"), CASES)


@each_choice
def test_the_background_is_the_twins(name, size, rule):
    kernel, twin = (make(name, size, seed=5, self_trade=rule) for make in (make_kernel, make_twin))
    for k in range(1, 60):
        if k % 2:
            kernel.run(messages=7)
            twin.run(messages=7)
        else:
            kernel.run(until=twin.clock + 0.3)
            twin.run(until=twin.clock + 0.3)
        assert_same(kernel, twin)
    assert twin.messages > 200


def make_kernel(name, size, seed, **more):
    return Kernel(FLOWS[name], seed, **SIZES[size], **more)


def make_twin(name, size, seed, **more):
    return twin_of(FLOWS[name], seed, **SIZES[size], **more)


@each_choice
def test_own_orders_are_the_twins(name, size, rule):
    more = dict(self_trade=rule, price_limits=(960, 1045), factors=(1.0, 0.7, 1.3))
    kernel, twin = (make(name, size, seed=11, **more) for make in (make_kernel, make_twin))
    random = np.random.default_rng(3)
    totals = dict.fromkeys(("bought", "bought_value", "sold", "sold_value"), 0)
    for _ in range(250):
        order, fills = draw_own_order(random, twin.book, kernel.ring)
        until = twin.clock + 0.25
        taken = kernel.run(until, order=order)
        assert taken == (sum(each.lots for each in fills), sum(each.lots * each.price for each in fills))
        for event in twin.run(until):
            for fill in event.fills:
                if fill.slot is not None:
                    side = "bought" if event.kind == MARKET_SELL else "sold"
                    totals[side] += fill.lots
                    totals[f"{side}_value"] += fill.lots * fill.price
        assert_same(kernel, twin)
        assert kernel.book.fills.reshape(-1).tolist() == list(totals.values())
    assert totals["bought"] + totals["sold"] > 10


@pytest.mark.slow
def test_a_tight_book_evicts_and_refuses():
    kernel = Kernel(flows.SantaFe(lam=1.0, distances=8, mu=6.0, theta=0.01), 2, max_orders=24, ring=32, slots=3)
    kernel.run(messages=20_000)
    assert kernel.book.tallies[books.EVICTED, 0] > 0 and kernel.book.tallies[books.REFUSED, 0] > 0


@each_choice
def test_time_cut_into_steps_changes_nothing(name, size, rule):
    whole, cut = (make_kernel(name, size, seed=9, self_trade=rule) for _ in range(2))
    whole.run(until=10.0)
    for k in range(1, 1001):
        cut.run(until=k * 0.01)
    pairs = zip((*whole.book, *whole.clock), (*cut.book, *cut.clock), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.compiled  # without compilation, takes long
@each_choice
@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_from_where_all_rates_change_time_passes_otherwise_and_nothing_else_is_different(name, size, rule, factor):
    """Some way between two events; a factor that is a power of two leaves little to rounding."""
    for seed in range(20):
        plain, changed = (make_kernel(name, size, seed=seed, self_trade=rule) for _ in range(2))
        for kernel in (plain, changed):
            kernel.run(until=1.7)
        changed.vec.set_attr("scale", factor)
        plain.run(until=1.7 + 12.0), changed.run(until=1.7 + 12.0 / factor)
        assert all(np.array_equal(a, b) for a, b in zip(plain.book, changed.book, strict=True))
        assert plain.clock.messages == changed.clock.messages > 0


@pytest.mark.parametrize("count", [1, 2, 5, 20, 64, 100])
def test_alias_tables_have_the_law_of_their_weights(count):
    weights = np.random.default_rng(count).random(count)
    weights[count // 2 :: 3] = 0.0 if count > 2 else weights[count // 2 :: 3]
    _, accept, drawn = flows.alias_table(weights)
    assert (drawn[::2] == np.arange(1, len(accept) + 1)).all()
    check_tables(accept, drawn[1::2] - 1, weights)
