"""``LimitOrderBook-v0`` with a tape, against its plain twin, the rule of fills, and rows worked out by hand."""

from __future__ import annotations

import random

import numba
import numpy as np
import pytest
from naive_replay import replay
from naive_replay_env import NaiveReplay
from synthetic_lobster import BUY, CENT, SELL, Exchange, get_pair

import sekai
import sims
from sekai.kernels import get_num_threads, set_num_threads
from sims.data import Tape, read_lobster
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.replay import ReplayParams, ReplayVecEnv, check
from sims.order_book.tape_book import TapeRules

NOTHING, LIMIT_BUY, LIMIT_SELL, MARKET_BUY, MARKET_SELL, CANCEL = range(6)
DEPTH = 5
#: It is compiled for forms of its own; without compilation it is quick.
pytestmark = [] if numba.config.DISABLE_JIT else [pytest.mark.slow]

#: What is compiled once for most tests, with tapes of five levels.
MAIN = dict(actions="orders", slots=2, step="messages", max_inventory=None, max_offset=40, max_size=400)


def read(folder, make="deep", seed=1):
    return read_lobster(*get_pair(make, seed).write(folder))


def make(tape, num_envs=1, **params):
    given = dict(MAIN, n_steps=len(tape) - 1) | params
    return ReplayVecEnv(num_envs, flow=tape, **given)


# -- the twin ------------------------------------------------------------------------------------------------

#: Actions, and what else is compiled by itself.
CHOICES = {
    "orders": dict(MAIN, latency=0.01, maker_fee=-2e-4, taker_fee=3e-4, fee_per_lot=1e-3, step_messages=2),
    "quotes": dict(n_steps=60, step_time=0.7, max_size=300, max_inventory=900, latency=0.9, taker_fee=3e-4),
    "slots": dict(MAIN, slots=4, max_size=9000, max_offset=12, levels="ticks", reward="inventory_penalty", depth=7),
    "incoming": dict(MAIN, slots=4, max_offset=3, self_trade="cancel_incoming", latency=0.02, max_pending=2),
    "execution": dict(actions="execution", slots=1, step="messages", step_messages=5, quantity=5000, reward="shortfall",
                      at_end="mark", n_steps=80),
}  # fmt: skip
TAPES = [("deep", 1), ("thin", 2), ("thin", 1)]
#: With other numbers of levels, and so compiled by itself.
OTHERS = [("all told", 1), ("one level", 1), ("one level", 2), ("ten levels, 7 columns", 1)]


def cases():
    for name in CHOICES:
        for tape, seed in [*TAPES, *(OTHERS if name == "slots" else ())]:
            marks = () if name == "orders" else pytest.mark.long
            yield pytest.param(name, tape, seed, marks=marks, id=f"{name}-{tape}-{seed}")


@pytest.mark.parametrize("name, tape_name, seed", list(cases()))
def test_any_actions_have_the_twins_effect(tmp_path, name, tape_name, seed):
    tape, given = read(tmp_path, tape_name, seed), CHOICES[name]
    steps = min(given.get("n_steps", 150), (len(tape) - 1) // given.get("step_messages", 1))
    given = given | dict(n_steps=steps)
    vec = ReplayVecEnv(1, flow=tape, **given)
    rng, traded = np.random.default_rng(seed), 0
    for _ in range(2):
        start = int(rng.integers(len(tape) - 1))
        result = vec.reset(seed=0, options={"start": start})
        settings = {key: value for key, value in given.items() if key not in ("max_size", "max_offset")}
        twin = NaiveReplay(tape, start, tick_size=tape.tick / 10_000, **settings)
        assert np.array_equal(result.observations[0], twin.observe())
        done = False
        while not done:
            if given.get("actions") == "execution":
                action = (0.15 * rng.random(2)).astype(np.float32)
            else:
                action = np.array([rng.integers(n) for n in vec.action_space.nvec])
            result = vec.step(action[None])
            observation, reward, terminated, truncated, infos = twin.step(action)
            told = result.infos[0]
            done = terminated or truncated
            assert {key: told[key] for key in infos} == infos, f"step {twin.elapsed}"
            assert told["evicted"] == 0
            assert (result.rewards[0], result.terminated[0], result.truncated[0]) == (reward, terminated, truncated)
            seen = result.observations[0] if not done else told["final_observation"]
            assert np.array_equal(seen, observation), f"step {twin.elapsed}"
            traded += infos["bought"] + infos["sold"]
    assert traded > 0


# -- the file as it was, and the rule of fills ---------------------------------------------------------------


def books_seen(result, tape):
    """The levels that observations show, as (price in ticks, lots), for each sub-env: bids, asks."""
    infos = result.infos.columns
    twice_mid = np.round(2e4 * infos["mid_price"] / tape.tick).astype(int)
    bids, asks = (twice_mid - infos["spread"]) // 2, (twice_mid + infos["spread"]) // 2
    seen = result.observations.astype(int)
    rows = []
    for bid, ask, of in zip(bids, asks, seen, strict=True):
        offsets, lots = of[: 4 * DEPTH].reshape(2, 2, DEPTH)[:, 0], of[: 4 * DEPTH].reshape(2, 2, DEPTH)[:, 1]
        prices = [ask - offsets[0], bid + offsets[1]]
        rows.append([[(p, n) for p, n in zip(*side, strict=True) if n] for side in zip(prices, lots, strict=True)])
    return rows


def levels_of(tape, row):
    sides = [(tape.bid_price, tape.bid_size), (tape.ask_price, tape.ask_size)]
    return [
        [(p // tape.tick, n) for p, n in zip(prices[row].tolist(), lots[row].tolist(), strict=True) if n]
        for prices, lots in sides
    ]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("tape_name", ["deep", "thin"])
def test_all_rows_of_the_file_are_seen(tmp_path, tape_name, seed):
    tape = read(tmp_path, tape_name, seed)
    vec = make(tape)
    assert books_seen(vec.reset(seed=0, options={"start": 0}), tape)[0] == levels_of(tape, 0)
    for row in range(1, len(tape) - 1):  # the last one ends the episode
        assert books_seen(vec.step([[NOTHING, 0, 0, 0]]), tape)[0] == levels_of(tape, row), f"row {row}"


@pytest.mark.parametrize("tape_name, seed", TAPES)
def test_an_order_put_before_one_that_is_executed_fills_at_its_first_execution(tmp_path, tape_name, seed):
    tape, num_envs = read(tmp_path, tape_name, seed), 60
    first, actions = {}, {}
    for k in np.flatnonzero((tape.kind == 4) & (tape.ref >= 1)).tolist():
        first.setdefault(int(tape.ref[k]), k)
    vec = make(tape, num_envs)
    for start in first:
        bid, ask = (levels_of(tape, start - 1)[side] for side in (0, 1))
        side, price = int(tape.direction[start]), int(tape.price[start]) // tape.tick
        if bid and ask:
            offset = ask[0][0] - price if side == BUY else price - bid[0][0]
            actions[start] = [LIMIT_BUY if side == BUY else LIMIT_SELL, offset, 0, 0]
    assert len(actions) > 40 and all(0 < offset <= 40 for _, offset, _, _ in actions.values())
    starts = list(actions)
    for part in (starts[k : k + num_envs] for k in range(0, len(starts), num_envs)):
        rows = [*part, *[part[0]] * (num_envs - len(part))]
        vec.reset(seed=0, options=[{"start": start - 1} for start in rows])
        batch, filled = np.array([actions[start] for start in rows]), np.zeros(num_envs, int)
        for step in range(max(first[start] - start for start in part) + 1):
            infos = vec.step(batch if step == 0 else np.zeros_like(batch)).infos.columns
            just = (infos["bought"] + infos["sold"] > 0) & (filled == 0)
            filled[just] = np.array(rows)[just] + step
        assert filled.tolist() == [first[start] for start in rows]
        for start in part[::7]:
            side = int(tape.direction[start])
            assert replay(tape, start, side, int(tape.price[start]))[0] == [(first[start], 1)]


# -- by hand -------------------------------------------------------------------------------------------------


def exchange():
    """Asks of 50 at 103, twice 20 at 102; bids of 30 at 100, 40 at 98 ticks."""
    made = Exchange(random.Random(0), levels=5, tell_all=False, columns=6)
    orders = [made.add(side, price * CENT, lots) for side, price, lots in (
        (SELL, 102, 20), (SELL, 102, 20), (SELL, 103, 50), (BUY, 100, 30), (BUY, 98, 40),
    )]  # fmt: skip
    made.is_open = True
    made.tell(7, 0, 0, 1, -1, None)  # trading is open: the first row
    return made, orders


def tape_of(made, folder):
    made.pair.message, made.pair.orderbook = "".join(made.lines), "".join(made.rows)
    return read_lobster(*made.pair.write(folder), tick=CENT)


def run(tape, *actions, **params):
    """The infos of each step, of one message, and the books seen after it; at first those of the reset."""
    vec = make(tape, n_steps=len(tape) - 1, at_end="close", **params)
    result = vec.reset(seed=0, options={"start": 0})
    told, seen = [result.infos[0]], [books_seen(result, tape)[0]]
    for k in range(len(tape) - 2):
        result = vec.step([actions[k] if k < len(actions) else (NOTHING, 0, 0, 0)])
        told.append(result.infos[0])
        seen.append(books_seen(result, tape)[0])
    return told, seen


def test_what_a_market_order_takes_is_no_longer_seen_until_it_leaves_the_file(tmp_path):
    made, (first, second, third, *_) = exchange()
    made.tell(5, 0, 10, 101 * CENT, 1, None)  # nothing of ours
    late = made.add(SELL, 102 * CENT, 7)  # behind
    made.take(2, late, 3)  # which leaves what was taken
    made.take(4, first, 15)
    made.take(3, second, 20)
    made.take(4, first, 5)
    made.take(4, late, 4)
    made.take(3, third, 10)
    made.tell(7, 0, 0, -1, -1, None)
    told, seen = run(tape_of(made, tmp_path), (MARKET_BUY, 0, 59, 0), taker_fee=1e-3, fee_per_lot=0.01)
    assert [book[1] for book in seen] == [
        [(102, 40), (103, 50)],
        [(103, 30)],  # 40 at 102 and 20 at 103
        [(102, 7), (103, 30)],
        [(102, 4), (103, 30)],
        [(102, 4), (103, 30)],  # 25 of the 29 there are taken
        [(102, 4), (103, 30)],  # 5 of the 9
        [(102, 4), (103, 30)],
        [(103, 30)],
        [(103, 30)],  # 10 of the 20 are left to leave
    ]
    assert all(book[0] == [(100, 30), (98, 40)] for book in seen)
    value = 1.02 * 40 + 1.03 * 20
    assert told[1]["bought"] == 60 and told[1]["fees"] == pytest.approx(1e-3 * value + 0.6, rel=1e-12)
    assert told[1]["cash"] == pytest.approx(-value - told[1]["fees"], rel=1e-12)
    assert [each["bought"] + each["sold"] for each in told[2:]] == [0] * 7


def test_an_order_better_than_the_files_best_fills_first_at_any_execution_or_crossing_order(tmp_path):
    made, (first, *_, bid, _) = exchange()
    made.take(4, first, 20)  # of the other side
    made.take(4, bid, 8)
    made.tell(5, 0, 5, 100 * CENT + 50, 1, None)  # hidden, at a worse price
    made.tell(5, 0, 5, 101 * CENT + 50, 1, None)  # at a better one
    made.tell(6, -1, 50, 100 * CENT, -1, None)  # a cross is somewhere else
    made.add(SELL, 101 * CENT, 9)  # meets it
    made.add(SELL, 101 * CENT, 4)
    made.tell(7, 0, 0, -1, -1, None)
    told, seen = run(tape_of(made, tmp_path), (LIMIT_BUY, 1, 29, 0), maker_fee=-1e-3)  # 30 at 101
    assert [each["bought"] for each in told[1:]] == [0, 8, 5, 0, 0, 9, 4]
    assert told[2]["fees"] == pytest.approx(-1e-3 * 8 * 1.01, rel=1e-12)
    assert seen[1][0][0] == (101, 30) and seen[-1] == [[(101, 4), (100, 22), (98, 40)], [(102, 20), (103, 50)]]


def test_orders_at_one_price_are_filled_in_turn_by_no_more_than_the_message_has(tmp_path):
    made, (*_, bid, _) = exchange()
    made.tell(7, 0, 0, 1, -1, None)
    late = made.add(BUY, 100 * CENT, 50)
    made.take(4, bid, 30)
    made.take(4, late, 12)
    made.take(4, late, 12)
    made.tell(7, 0, 0, -1, -1, None)
    orders = (LIMIT_BUY, 2, 9, 0), (LIMIT_BUY, 2, 9, 1)  # both of 10, the second behind the first
    told, seen = run(tape_of(made, tmp_path), *orders)
    assert [each["bought"] for each in told[1:]] == [0, 0, 0, 12, 8]
    assert [book[0][0] for book in seen[1:]] == [(100, 40), (100, 100), (100, 70), (100, 46), (100, 26)]


def test_a_limit_order_may_cross_up_to_its_price_and_rests_with_what_is_left(tmp_path):
    made, _ = exchange()
    for _ in range(3):
        made.tell(7, 0, 0, 1, -1, None)
    told, seen = run(tape_of(made, tmp_path), (LIMIT_BUY, 0, 59, 0))  # 60 at 102, of which there are 40
    assert told[1]["bought"] == 40 and seen[1] == [[(102, 20), (100, 30), (98, 40)], [(103, 50)]]
    assert told[1]["spread"] == 1


def test_own_orders_do_not_trade_with_each_other(tmp_path):
    made, _ = exchange()
    for _ in range(4):
        made.tell(7, 0, 0, 1, -1, None)
    told, seen = run(tape_of(made, tmp_path), (LIMIT_BUY, 1, 9, 0), (MARKET_SELL, 0, 34, 0))
    assert seen[1][0][0] == (101, 10)
    assert seen[2][0] == [(98, 35)] and told[2]["sold"] == 35 and told[2]["bought"] == 0


def test_no_more_is_taken_than_is_displayed(tmp_path):
    made, _ = exchange()
    for _ in range(4):
        made.tell(7, 0, 0, 1, -1, None)
    told, seen = run(tape_of(made, tmp_path), (MARKET_BUY, 0, 399, 0), (MARKET_BUY, 0, 0, 0))
    assert [each["bought"] for each in told[1:]] == [90, 0, 0]
    assert [book[1] for book in seen] == [[(102, 40), (103, 50)], [], [], []]
    assert told[-1]["spread"] == 3  # to where the best ask was


@pytest.mark.long  # a book of one level is compiled by itself
def test_of_many_levels_out_of_view_the_oldest_is_forgotten_and_counted(tmp_path):
    made = Exchange(random.Random(0), levels=1, tell_all=False, columns=6)
    made.add(BUY, 100 * CENT, 10)
    made.add(SELL, 230 * CENT, 10)
    made.is_open = True
    orders = [made.add(SELL, price * CENT, 10) for price in range(220, 200, -1)]
    for order in reversed(orders):
        made.take(3, order, 10)
    made.tell(7, 0, 0, 1, -1, None)
    told, seen = run(tape_of(made, tmp_path), *[(MARKET_BUY, 0, 0, 0)] * 20)
    assert [each["bought"] for each in told[1:]] == [1] * 20 + [0] * 19
    assert [each["evicted"] for each in told[1:]] == [0] * 18 + [1, 1] + [0] * 19  # 18 levels are remembered
    assert [book[1] for book in seen[20:]] == [
        *([(price, 9)] for price in range(202, 219)), [(219, 10)], [(220, 10)], [(230, 10)],
    ]  # fmt: skip


def test_actions_arrive_after_the_latency(tmp_path):
    made, _ = exchange()
    for wait in (0.2, 0.2, 0.2, 0.2, 0.2, 0.2):
        made.time += int(wait * 1e9)
        made.tell(5, 0, 1, 101 * CENT, 1, None)
    told, seen = run(tape_of(made, tmp_path), (LIMIT_BUY, 3, 4, 0), latency=0.5)
    there = [dict(book[0]).get(99, 0) for book in seen]
    assert there == [0, 0, 0, 5, 5, 5]  # with the third message, at 0.6 s
    assert [each["bought"] for each in told[1:]] == [0] * 5


# -- what must not matter ------------------------------------------------------------------------------------


def play(vec, seeds, steps, *, starts=None, columns=slice(None)):
    """Observations, rewards and wealth of random actions, drawn for each sub-env by its seed."""
    options = None if starts is None else [{"start": start} for start in starts]
    result = vec.reset(seed=list(seeds), options=options)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    seen = [result.observations[columns]]
    for _ in range(steps):
        actions = [[rng.integers(n) for n in (6, 41, 400, 2)] for rng in rngs]
        result = vec.step(actions)
        seen += [result.observations[columns], result.rewards[columns]]
        told = [[info[key] for key in ("wealth", "cash", "inventory", "fees")] for info in result.infos]
        seen.append(np.array(told)[columns])
    return seen


def assert_same(some, others):
    assert all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))


def test_a_sub_env_depends_on_its_seed_alone(tmp_path):
    tape = read(tmp_path)
    given = dict(n_steps=30, step_messages=3, latency=0.05)
    alone = play(make(tape, 1, **given), [7], 70)
    among = play(make(tape, 5, **given), [1, 2, 7, 3, 4], 70, columns=slice(2, 3))
    assert_same(alone, among)


def test_starts_are_drawn_from_all_after_which_an_episode_fits(tmp_path):
    tape = read(tmp_path)
    vec = make(tape, 50, n_steps=len(tape) - 4)
    rows = set()
    for seed in range(4):
        vec.reset(seed=seed)
        rows |= {book.row for book in vec.get_attr("book")}
    assert rows == {0, 1, 2, 3}


def test_wealth_is_cash_and_inventory_and_rewards_add_up_to_it(tmp_path):
    vec = make(read(tmp_path), 3, n_steps=60, step_messages=4, taker_fee=1e-3, maker_fee=-1e-4)
    before = vec.reset(seed=1).infos.columns
    rng, rewards = np.random.default_rng(0), np.zeros(3)
    for _ in range(59):
        result = vec.step(np.stack([rng.integers(n, size=3) for n in (6, 41, 400, 2)], axis=1))
        told = result.infos.columns
        assert np.array_equal(told["wealth"], told["cash"] + told["inventory"] * told["mid_price"])
        quiet = (told["bought"] == 0) & (told["sold"] == 0)
        assert np.array_equal(told["cash"][quiet], before["cash"][quiet])
        assert np.array_equal(told["inventory"], before["inventory"] + told["bought"] - told["sold"])
        before, rewards = told, rewards + result.rewards
    np.testing.assert_allclose(rewards, before["wealth"], rtol=1e-9, atol=1e-9)


def test_what_comes_later_changes_nothing_before(tmp_path):
    tape, cut = read(tmp_path), 400
    names = ("time", "kind", "order_id", "size", "price", "direction", "ask_price", "ask_size", "bid_price", "bid_size")
    columns = {name: getattr(tape, name).copy() for name in names}
    columns["time"][cut:] += 10**12
    columns["kind"][cut:], columns["size"][cut:], columns["direction"][cut:] = 5, 77, 1
    columns["price"][cut:] = 123_400
    for name in names[6:]:
        columns[name][cut:] = columns[name][cut - 1]
    other, starts = Tape(**columns, tick=tape.tick), [0, 50, 200]
    steps = (cut - 1 - starts[-1]) // 3
    given = dict(n_steps=200, step_messages=3, latency=0.05)
    both = [play(make(each, 3, **given), [1, 2, 3], steps, starts=starts) for each in (tape, other)]
    assert_same(*both)
    longer = [play(make(each, 3, **given), [1, 2, 3], steps + 1, starts=starts) for each in (tape, other)]
    assert not np.array_equal(longer[0][-3], longer[1][-3])


@pytest.mark.long
def test_threads_change_nothing(tmp_path):
    tape, before = read(tmp_path), get_num_threads()
    try:
        runs = []
        for threads in (1, 2):
            set_num_threads(threads)
            runs.append(play(make(tape, 200, n_steps=40, step_messages=3), range(200), 60))
    finally:
        set_num_threads(before)
    assert_same(*runs)


@pytest.fixture
def registered():
    """Where the package is not installed, nothing announces its markets."""
    if "LimitOrderBook-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "proc"])
def test_backends_change_nothing(tmp_path, registered, mode):
    tape = read(tmp_path)
    given = MAIN | dict(n_steps=60, step_messages=3)
    native = play(sekai.make_vec("LimitOrderBook-v0", 3, flow=tape, **given), [1, 2, 3], 50)
    with sekai.make_vec("LimitOrderBook-v0", 3, vectorization_mode=mode, flow=tape, **given) as vec:
        assert_same(native, play(vec, [1, 2, 3], 50))


@pytest.mark.long
@pytest.mark.parametrize(
    "name, actions", [("join-best", "quotes"), ("imbalance-taker", "orders"), ("twap", "execution")]
)
def test_baselines_of_the_simulated_market_trade_in_it(tmp_path, name, actions):
    vec = ReplayVecEnv(3, flow=read(tmp_path), actions=actions, n_steps=20, step="messages", step_messages=10)
    record = sekai.rollout(vec, vec.policies[name](vec), 60, seed=0, infos=("bought", "sold"), progress=False)
    assert record.infos["bought"].sum() + record.infos["sold"].sum() > 0


@pytest.mark.long
@pytest.mark.parametrize("actions", ["quotes", "orders", "execution"])
def test_the_checker_finds_no_problem(tmp_path, actions):
    tape = read(tmp_path)

    def factory(num_envs, **more):
        given = dict(flow=tape, actions=actions, n_steps=20, latency=0.1, latency_law="exponential", step_time=0.5)
        return ReplayVecEnv(num_envs, **given | more)

    findings = [each for each in sekai.check_vec_env(factory) if not each.startswith("hint: ")]
    assert findings == []


# -- what it is told -----------------------------------------------------------------------------------------


def test_the_flow_says_which_market_is_made(tmp_path, registered):
    tape = read(tmp_path)
    with sekai.make_vec("LimitOrderBook-v0", 2, flow=tape, n_steps=5) as vec:
        assert isinstance(vec.unwrapped, ReplayVecEnv) and vec.get_attr("tick_size") == [tape.tick / 10_000] * 2
    with sekai.make_vec("LimitOrderBook-v0", 2, warm_up=0.0) as vec:
        assert isinstance(vec.unwrapped, LimitOrderBookVecEnv)
    with pytest.raises(TypeError, match=r"LimitOrderBook-v0.*has no argument 'latencie' \(did you mean 'latency'"):
        sekai.make_vec("LimitOrderBook-v0", 2, flow=tape, latencie=1.0)
    with pytest.raises(TypeError, match=r"or a CST, SantaFe, Hawkes or sims.data.Tape, got \('message.csv'"):
        sekai.make_vec("LimitOrderBook-v0", 2, flow=("message.csv", "orderbook.csv"))
    with pytest.raises(TypeError, match="lam_factor"):
        sekai.make_vec("LimitOrderBook-v0", 2, flow=tape, lam_factor=2.0)


def test_parameters_are_those_of_the_simulated_market():
    theirs = LimitOrderBookVecEnv.Params._field_defaults
    ours = {name: value for name, value in ReplayParams._field_defaults.items() if name != "rules"}
    assert ours == {name: theirs[name] for name in ours}
    assert ReplayVecEnv.infos == (*LimitOrderBookVecEnv.infos, "book.row")
    assert ReplayVecEnv.State._fields == LimitOrderBookVecEnv.State._fields


@pytest.mark.parametrize(
    "params, error, words",
    [
        (dict(flow=5), TypeError, "flow: expected a sims.data.Tape to be replayed, got 5"),
        (dict(n_steps=1000), ValueError, "as long as an episode, 1000 steps of 1 messages after the first, got"),
        (dict(step="time", n_steps=10**6), ValueError, r"at least as long as an episode, 1000000 steps of 1 s, got \d"),
        (dict(step="time", n_steps=5, latency=1e9), ValueError, r"max_pending: expected at least 1e\+09"),
        (dict(latency=-1.0), ValueError, "latency: expected a finite number of at least 0, got -1"),
        (dict(latency=np.nan), ValueError, "latency: expected a finite number, got nan"),
        (dict(max_size=0), ValueError, "max_size: expected a finite number of at least 1, got 0"),
        (dict(tick_size=0.0), ValueError, "tick_size: expected a finite number above 0"),
        (dict(slots=0), ValueError, "slots: expected a finite number of at least 1, got 0"),
        (dict(self_trade="both"), ValueError, "self_trade: expected 'cancel_resting' or 'cancel_incoming', got 'both'"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, dict) else "",
)
def test_what_is_no_market_is_refused(tmp_path, params, error, words):
    with pytest.raises(error, match=words):
        ReplayVecEnv(1, **dict(MAIN, flow=read(tmp_path), n_steps=10) | params)


def test_a_tape_without_an_order_or_with_too_many_ticks_is_refused():
    row = dict(time=[0, 1], kind=[7, 7], order_id=[0, 0], size=[0, 0], price=[-1, 1], direction=[-1, -1])
    none = dict(ask_price=[[9999999999]] * 2, bid_price=[[-9999999999]] * 2, ask_size=[[0]] * 2, bid_size=[[0]] * 2)
    with pytest.raises(ValueError, match="flow: expected a Tape with an order in one of its books, got none"):
        ReplayVecEnv(1, flow=Tape(**row, **none), step="messages", n_steps=1)
    high = none | dict(ask_price=[[9_000_000_001]] * 2, ask_size=[[1]] * 2)
    with pytest.raises(ValueError, match="flow: expected prices below 1073741823 ticks of 1, got 9000000001"):
        ReplayVecEnv(1, flow=Tape(**row, **high), step="messages", n_steps=1)


@pytest.mark.parametrize("start", [-2, 10**6])
def test_a_start_that_is_none_is_refused(tmp_path, start):
    vec = make(read(tmp_path), n_steps=5)
    with pytest.raises(ValueError, match=rf"start: expected an integer in \[0, \d+\], or -1 for any, got {start}"):
        vec.reset(options={"start": start})


def test_room_for_no_more_levels_than_can_be_in_view_is_refused(tmp_path):
    tape = read(tmp_path)
    params, least = ReplayVecEnv(1, **dict(MAIN, flow=tape, n_steps=10)).params, 2 * tape.levels + 1
    check(params._replace(rules=TapeRules(most_taken=least)))
    with pytest.raises(ValueError, match=f"most_taken: expected a finite number of at least {least}, got {least - 1}"):
        check(params._replace(rules=TapeRules(most_taken=least - 1)))
