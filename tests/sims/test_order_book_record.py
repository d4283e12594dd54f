"""Simulated books written as a pair of LOBSTER's files: read back, and against the plain twin of the market."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from naive_order_book import BUY
from naive_order_book_env import NaiveTrader
from naive_replay import replay

from sims.data import load_lobster, read_lobster, write_lobster
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, Hawkes, SantaFe
from sims.order_book.record import record_tape, recorded_tape
from sims.order_book.replay import ReplayVecEnv
from sims.order_book.start import StartBook

long = pytest.mark.long  # each flow is compiled by itself
in_plain_python = [] if numba.config.DISABLE_JIT else [long]  # quick there
N = 3

#: With a ring so small that orders are evicted, and one where sides are often empty.
FLOWS = {
    "unit": dict(flow=CST(lam=[1.92 * i**-0.52 for i in range(1, 9)], theta=0.6), max_offset=8),
    "sizes": dict(flow=SantaFe(lam=0.8, distances=8, mu=2.0, theta=0.3, sizes=[0.5, 0.2, 0.0, 0.3]), ring=64),
    "tight": dict(flow=SantaFe(lam=1.0, distances=8, mu=6.0, theta=0.05), ring=32, max_offset=8, max_orders=96),
    "thin": dict(flow=SantaFe(lam=0.05, distances=8, mu=0.3, theta=0.4), ring=32, max_offset=8, warm_up=20.0),
    "hawkes": dict(flow=Hawkes(), warm_up=5.0),
}

START = StartBook(
    bids=[(100, 2), (100, 1), (99, 4), (96, 1)], asks=[(102, 1), (103, 3), (103, 1)], own=[(0, 100, 1), (1, 102, 2)]
)
#: Markets that do all that they can; none is warmed up for all, so that the twin begins as they do.
MARKETS = {
    "orders in a tight book": dict(
        flow=Hawkes(weights=[1.0, 2.0, 1.0], sizes=[0.5, 0.2, 0.0, 0.3]), n_steps=120, actions="orders", slots=4,
        max_offset=8, max_size=9, ring=32, max_orders=12, warm_up=0.0, start_price=100, initial_book=START,
        max_inventory=12, latency=[0.0, 0.02, 0.15], step_time=0.05, rate_factor=2.0, theta_factor=0.3,
        record_messages=4000,
    ),
    "quotes": dict(
        flow=CST(theta=0.6), n_steps=100, step="messages", step_messages=3, latency=0.3, latency_law="exponential",
        max_size=3, max_offset=5, max_inventory=5, warm_up=4.0, warm_up_once=False, record_messages=1000,
        self_trade="cancel_incoming",
    ),
    "execution": dict(
        flow=SantaFe(lam=1.0, distances=8, mu=6.0, theta=0.05), ring=32, max_offset=8, max_orders=96, n_steps=12,
        actions="execution", quantity=40, direction="buy", step_time=0.7, warm_up=3.0, warm_up_once=False,
        record_messages=500,
    ),
}  # fmt: skip


def same_when_read_back(tape, folder):
    """Whether the files of a tape pass all checks, and hold its columns."""
    paths = folder / "message.csv", folder / "orderbook.csv"
    write_lobster(tape, *paths)
    back = read_lobster(*paths, tick=tape.tick)
    columns = ("time", "kind", "order_id", "size", "price", "direction", "ref", "ask_price", "bid_price", "bid_size")
    return all(np.array_equal(getattr(tape, name), getattr(back, name)) for name in columns)


def told_by_a_twin(twin, levels, most):
    """The rows of a tape by what a twin has heard."""
    kinds = {"in": 1, "reduced": 2, "cancelled": 3, "evicted": 3, "executed": 4}
    rows, shown = [], [each[:levels] for each in twin.told[0][1]]
    for (time, what, number, lots, price, side), seen in twin.told[1 : 1 + most]:
        seen = [each[:levels] for each in seen]
        if seen != shown:
            direction, nanoseconds = 1 if side == BUY else -1, 34_200 * 10**9 + round(time * 1e9)
            rows.append(((nanoseconds, kinds[what], number, lots, 100 * price, direction), seen))
        shown = seen
    return rows


def rows_of(tape):
    """The rows of a tape in the same form."""
    rows = []
    for k in range(len(tape)):
        sides = []
        for prices, sizes in ((tape.bid_price[k], tape.bid_size[k]), (tape.ask_price[k], tape.ask_size[k])):
            sides.append(
                [(price // 100, lots) for price, lots in zip(prices.tolist(), sizes.tolist(), strict=True) if lots]
            )
        message = tuple(
            int(getattr(tape, name)[k]) for name in ("time", "kind", "order_id", "size", "price", "direction")
        )
        rows.append((message, sides))
    return rows


@pytest.mark.filterwarnings("ignore:max_orders")
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=in_plain_python if each == "orders in a tight book" else long) for each in MARKETS],
)
def test_a_record_is_what_the_twin_has_heard(tmp_path, name):
    vec = LimitOrderBookVecEnv(N, autoreset=False, **MARKETS[name])
    params = [vec.params._replace(latency=float(np.broadcast_to(vec.latency, N)[row])) for row in range(N)]
    twins, most = [NaiveTrader(row + 5, params[row]) for row in range(N)], vec.params.rules.record_messages
    kinds, seen = set(), dict.fromkeys(("refused", "evicted", "bought"), 0)
    for episode in range(2):
        vec.reset(seed=[row + 5 for row in range(N)] if episode == 0 else None)
        for twin in twins:
            twin.reset()
        vec.batch_action_space.seed(episode)
        while not vec.frozen.all():
            batch, frozen = vec.batch_action_space.sample(), vec.frozen
            infos = vec.step(batch).infos
            for row in np.flatnonzero(~frozen):
                twins[row].step(batch[row])
                for each in seen:
                    seen[each] += infos[int(row)][each]
        for row, twin in enumerate(twins):
            for levels in (3, 40):
                tape = recorded_tape(vec, row, levels=levels)
                assert rows_of(tape) == told_by_a_twin(twin, levels, most)
                assert same_when_read_back(tape, tmp_path)
                kinds |= set(tape.kind.tolist())
    if name == "orders in a tight book":
        assert kinds == {1, 2, 3, 4} and all(seen.values())


@long
@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("levels", [3, 40])
def test_a_book_without_an_agent_is_recorded(tmp_path, name, levels):
    tape = record_tape(500, seed=3, levels=levels, **FLOWS[name])
    assert same_when_read_back(tape, tmp_path)
    assert len(tape) == 500 and {1, 3, 4} <= set(tape.kind.tolist())


@long
@pytest.mark.parametrize("name", ["unit", "sizes"])
def test_it_is_the_book_of_a_sub_env_of_that_seed(name):
    """At the end of steps of a fixed time, of which the record knows nothing."""
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


@long
@pytest.mark.parametrize("name", ["sizes", "tight"])
def test_orders_are_executed_in_the_order_in_which_they_came(name):
    tape, first = record_tape(600, seed=1, levels=40, **FLOWS[name]), {}
    for k in np.flatnonzero((tape.kind == 4) & (tape.ref >= 1)).tolist():
        first.setdefault(int(tape.ref[k]), k)
    assert len(first) > 40
    for start, expected in first.items():
        fills, _ = replay(tape, start, int(tape.direction[start]), int(tape.price[start]))
        assert fills == [(expected, 1)], f"an order before message {start}"


@long
def test_what_there_is_no_room_for_is_told():
    vec = LimitOrderBookVecEnv(2, record_messages=50)
    vec.reset(seed=1)
    with pytest.raises(ValueError, match="expected messages since the reset, got none"):
        recorded_tape(vec)
    vec.step(np.tile([1, 1, 0], (2, 1)))
    whole = LimitOrderBookVecEnv(2, record_messages=400)
    whole.reset(seed=1)
    whole.step(np.tile([1, 1, 0], (2, 1)))
    for row in range(2):
        tape = recorded_tape(whole, row, levels=100)
        lost = len(tape) - 50
        with pytest.warns(
            UserWarning, match=f"expected at most 50 messages, the {lost} that followed were not recorded"
        ):
            first = recorded_tape(vec, row, levels=100)
        assert any(f"the {lost} that followed" in note for note in first.notes)
        assert rows_of(first) == rows_of(tape)[:50]


@long
def test_a_record_changes_no_number():
    """Of episodes that begin from books made for all, too."""
    seen = []
    for most in (0, 400):
        vec = LimitOrderBookVecEnv(4, n_steps=7, record_messages=most)
        vec.reset(seed=3)
        vec.batch_action_space.seed(0)
        results = [vec.step(vec.batch_action_space.sample()) for _ in range(20)]
        seen.append([(each.observations.tolist(), each.rewards.tolist()) for each in results])
    assert seen[0] == seen[1]


def test_what_cannot_be_recorded_is_refused():
    start = StartBook(bids=[(99, 1)], asks=[(101, 1)], own=[(0, 98, 1)])
    with pytest.raises(ValueError, match="initial_book: expected no own orders, as nobody trades"):
        record_tape(10, seed=0, initial_book=start, warm_up=0.0)
    with pytest.raises(ValueError, match="messages: expected"):
        record_tape(0, seed=0)
    vec = LimitOrderBookVecEnv(2, warm_up=0.0)
    for market in (vec, ReplayVecEnv(1, flow=load_lobster())):
        with pytest.raises(
            ValueError, match="expected a simulated market made with record_messages=..., got one without"
        ):
            recorded_tape(market)
    for row in (-1, 2):
        with pytest.raises(IndexError, match=f"row: expected a sub-env from 0 to 1, got {row}"):
            recorded_tape(vec, row)
