"""The law of the trading market: against the naive twin, the sizing formula, and each row on its own."""

from __future__ import annotations

import itertools
import math
from types import FunctionType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_trading import NaiveTrader

from sekai.kernels.streams import Streams
from sims.bars import GROWTH_FLOOR, Start, reward_of
from sims.data import as_history
from sims.trading import TradingParams, TradingVecEnv
from sims.trading.market import (
    Account,
    hold_row,
    observe_row,
    prepare,
    reset_row,
    step_row,
    trade_row,
)

BARS, ROWS, LOOKBACK = 40, 24, 4

# (standard deviation of a bar's log return, transaction cost, borrow rate): calm, dear, and ruinous for shorts
#: Each of these is compiled for itself, and the others are run without compilation.
QUICK = [("log_growth", "discrete", None), ("return", "weight", 7)]
SETTINGS = [(0.01, 0.0, 0.0), (0.02, 1e-3, 1e-4), (0.6, 0.3, 0.05)]


def interpreted(kernel, **callees):
    """A kernel in plain Python, and those that it calls by these names."""
    plain = getattr(kernel, "py_func", kernel)
    return FunctionType(plain.__code__, {**plain.__globals__, **callees})


def random_prices(rng, sd):
    """Opens and closes: each open off the close before, each close off its open."""
    moves = np.exp(sd * rng.standard_normal((BARS, 2)))
    path = 100.0 * np.cumprod(moves.ravel())
    return {"open": path[0::2].copy(), "close": path[1::2].copy()}


def random_weights(rng, shape):
    """A third of them -1, 0 or 1, and many repeated."""
    weights = rng.uniform(-1.0, 1.0, shape)
    corner = rng.random(shape) < 0.4
    weights[corner] = rng.integers(-1, 2, int(corner.sum()))
    return weights.astype(np.float32)


def read_account(env):
    return Account(*(getattr(env, name) for name in Account._fields))


def play(prices, starts, weights, lengths=None, **params):
    """Step until every row is done or the weights (steps, N) run out. Rows that are done are frozen.

    Yields the account after the reset and after each step, that step's result, and who was frozen before it.
    """
    env = TradingVecEnv(
        len(starts),
        prices=prices,
        lookback=LOOKBACK,
        episode_length=lengths,
        actions="weight",
        autoreset=False,
        **params,
    )
    env.reset(options=[{"start": int(start)} for start in starts])
    yield read_account(env), None, env.frozen
    for row in weights:
        frozen = env.frozen
        result = env.step(row[:, None])
        yield read_account(env), result, frozen
        if env.frozen.all():
            return


def play_random(seed, sd, cost, borrow, execution="open", reward="log_growth"):
    rng = np.random.default_rng(seed)
    prices = random_prices(rng, sd)
    starts, lengths = rng.integers(LOOKBACK, BARS - 1, ROWS), rng.integers(1, 30, ROWS)
    weights = random_weights(rng, (BARS, ROWS))
    params = {"transaction_cost": cost, "borrow_rate": borrow, "execution": execution, "reward": reward}
    return prices, starts, lengths, weights, params, list(play(prices, starts, weights, lengths, **params))


@pytest.mark.parametrize(
    ("execution", "reward"),
    [
        ("open", "log_growth"),
        ("close", "return"),
        pytest.param("open", "return", marks=pytest.mark.form),
        pytest.param("close", "log_growth", marks=pytest.mark.form),
    ],
)
@pytest.mark.parametrize(("sd", "cost", "borrow"), SETTINGS)
def test_equals_the_naive_twin_bit_for_bit(sd, cost, borrow, execution, reward):
    ruined = ended = 0
    for seed in range(5):
        prices, starts, lengths, weights, params, steps = play_random(seed, sd, cost, borrow, execution, reward)
        opens = prices["open"] if execution == "open" else None
        ends = np.minimum(starts + lengths, BARS - 1)
        del params["execution"]
        twins = [
            NaiveTrader(prices["close"], opens, int(starts[i]), int(ends[i]), lookback=LOOKBACK, **params)
            for i in range(ROWS)
        ]
        for row, (account, result, frozen) in zip(weights, steps[1:], strict=False):
            for i in np.flatnonzero(~frozen):
                reward_i, terminated, truncated, info = twins[i].step(float(row[i]))
                assert result.rewards[i] == reward_i
                assert (result.terminated[i], result.truncated[i]) == (terminated, truncated)
                assert {name: getattr(account, name)[i] for name in info} == info
                assert {name: result.infos[i][name] for name in info} == info
                assert result.observations[i].tolist() == twins[i].observation()
                ruined += terminated
                ended += terminated or truncated
    assert ended == 5 * ROWS
    assert (ruined > 0) == (sd > 0.1)  # the ruinous setting does what it is there for


@pytest.mark.parametrize(
    ("reward", "actions", "length"),
    [
        each if each in QUICK else pytest.param(*each, marks=pytest.mark.form)
        for each in itertools.product(["log_growth", "return"], ["discrete", "weight"], [None, 7])
    ],
)
@pytest.mark.parametrize(("sd", "cost", "borrow"), SETTINGS)
def test_compiled_equals_interpreted(sd, cost, borrow, reward, actions, length):
    rng = np.random.default_rng(3)
    params = TradingParams(as_history(random_prices(rng, sd)), LOOKBACK, length, actions, cost, borrow, "open", reward)
    env = TradingVecEnv(ROWS, autoreset=False, **params._asdict())
    env.reset(seed=4)
    random = Streams(np.array(env.streams.key), np.zeros(ROWS, np.uint64))
    state = Account(*(np.zeros(ROWS, getattr(env, name).dtype) for name in Account._fields))
    derived, observation = prepare(params), np.empty(LOOKBACK + 1, np.float32)
    for i in range(ROWS):
        interpreted(reset_row)(params, derived, state, random, i, Start())
    np.testing.assert_array_equal(random.counter, env.streams.counter)
    weights = random_weights(rng, (BARS, ROWS, 1))
    step = interpreted(step_row, hold_row=interpreted(hold_row, reward_of=interpreted(reward_of)))
    frozen = np.zeros(ROWS, bool)
    for batch in weights if actions == "weight" else np.sign(weights[..., 0]).astype(np.int64) + 1:
        for left, right in zip(read_account(env), state, strict=True):
            np.testing.assert_array_equal(left, right)
        result = env.step(batch)
        for i in np.flatnonzero(~frozen):
            told = step(params, derived, state, i, batch[i])
            assert (result.rewards[i], result.terminated[i], result.truncated[i]) == told
            interpreted(observe_row)(derived, state, i, observation)
            np.testing.assert_array_equal(result.observations[i], observation)
        frozen = env.frozen
    assert frozen.all()


@pytest.mark.parametrize("execution", ["open", pytest.param("close", marks=pytest.mark.form)])
@pytest.mark.parametrize(("sd", "cost", "borrow"), SETTINGS)
def test_wealth_changes_by_what_the_positions_earn_less_the_costs(sd, cost, borrow, execution):
    prices, *_, steps = play_random(11, sd, cost, borrow, execution)
    opens, closes = prices["open"], prices["close"]
    before = steps[0][0]
    for account, _, frozen in steps[1:]:
        live = ~frozen
        old, new = before.bar[live], account.bar[live]
        price = opens[new] if execution == "open" else closes[old]
        held = before.units[live] * (price - closes[old])
        earned = account.units[live] * (closes[new] - price)
        growth = account.wealth[live] - before.wealth[live]
        scale = np.maximum(1.0, np.abs(account.units[live]) * np.maximum(price, closes[new]))
        error = growth - (held + earned - account.cost[live] - account.borrow[live])
        assert (np.abs(error) <= 1e-12 * scale).all()
        before = account


def test_a_frozen_row_keeps_its_state_and_reads_no_price_past_the_end():
    *_, steps = play_random(7, 0.02, 1e-3, 0.0)
    seen = 0
    for (before, *_), (account, result, frozen) in zip(steps[1:], steps[2:], strict=False):
        for old, new in zip(before, account, strict=True):
            np.testing.assert_array_equal(old[frozen], new[frozen])
        assert not result.rewards[frozen].any()
        assert all(result.infos[i] == {} for i in np.flatnonzero(frozen))
        seen += int(frozen.sum())
    assert seen > ROWS


@pytest.mark.form
@pytest.mark.parametrize("execution", ["open", "close"])
def test_no_observation_depends_on_a_later_price(execution):
    rng = np.random.default_rng(5)
    prices = random_prices(rng, 0.02)
    now = 20
    spoilt = {name: column.copy() for name, column in prices.items()}
    for column in spoilt.values():
        column[now + 1 :] = rng.uniform(1.0, 1e6, BARS - now - 1)
    weights = random_weights(rng, (BARS, ROWS))
    params = {"transaction_cost": 1e-3, "borrow_rate": 1e-4, "execution": execution}
    runs = [list(play(each, [LOOKBACK] * ROWS, weights, **params))[1:] for each in (prices, spoilt)]
    steps = now - LOOKBACK
    for (left, one, _), (right, other, _) in list(zip(*runs, strict=False))[:steps]:
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(left.wealth, right.wealth)
    assert (runs[0][steps][1].observations != runs[1][steps][1].observations).any()  # the very next bar is spoilt


def outcomes(weights, starts, prices):
    """Everything that comes out of playing these rows, as arrays (steps, N, ...)."""
    steps = list(play(prices, starts, weights, transaction_cost=1e-3, borrow_rate=1e-4))[1:]
    told = [
        (*account, result.rewards, result.terminated, result.truncated, result.observations)
        for account, result, _ in steps
    ]
    return [np.stack(column) for column in zip(*told, strict=True)]


def test_rows_are_independent():
    rng = np.random.default_rng(2)
    prices = random_prices(rng, 0.02)
    starts = rng.integers(LOOKBACK, 10, 64)
    weights = random_weights(rng, (20, 64))
    base = outcomes(weights, starts, prices)

    order = rng.permutation(64)
    for column, permuted in zip(base, outcomes(weights[:, order], starts[order], prices), strict=True):
        np.testing.assert_array_equal(column[:, order], permuted)

    changed = weights.copy()
    changed[:, 3] = -changed[:, 3]
    others = np.arange(64) != 3
    differing = 0
    for column, other in zip(base, outcomes(changed, starts, prices), strict=True):
        np.testing.assert_array_equal(column[:, others], other[:, others])
        differing += (column[:, 3] != other[:, 3]).any()
    assert differing > 0

    for column, alone in zip(base, outcomes(weights[:, :1], starts[:1], prices), strict=True):
        np.testing.assert_array_equal(column[:, :1], alone)


amounts = st.floats(-1e3, 1e3).map(lambda x: x if abs(x) > 1e-6 else 0.0)


@settings(deadline=None)
@given(
    units=amounts,
    wealth=st.floats(1e-3, 1e3),
    price=st.floats(1e-2, 1e4),
    weight=st.floats(-1.0, 1.0),
    rate=st.floats(0.0, 0.9),
)
def test_the_weight_asked_for_holds_after_the_cost(units, wealth, price, weight, rate):
    before = units * price
    cash = wealth - before
    wealth = cash + before  # as the account has it
    if wealth <= rate * abs(before):
        return  # closed out, see below
    new_units, new_cash, traded, cost = trade_row(units, cash, price, weight, rate)
    after = new_units * price
    scale = wealth + abs(before)
    assert abs(after - weight * (new_cash + after)) <= 1e-12 * scale
    assert abs(traded - abs(after - before)) <= 1e-12 * scale
    assert cost == rate * traded
    assert abs(new_cash + after + cost - wealth) <= 1e-12 * scale


def test_a_weight_that_holds_already_trades_nothing():
    assert trade_row(0.02, 0.0, 50.0, 1.0, 0.1) == (0.02, 0.0, 0.0, 0.0)
    assert trade_row(0.0, 1.0, 50.0, 0.0, 0.1) == (0.0, 1.0, 0.0, 0.0)


def test_all_in_by_hand():
    # 1 = x + 0.25 * x, so x = 0.8, which at 50 buys 0.016 units; going short, 0.25 * x is lost and x = 1 - 0.25 * x.
    for weight, units, cash in ((1.0, 0.016, 0.0), (-1.0, -0.016, 1.6)):
        traded = trade_row(0.0, 1.0, 50.0, weight, 0.25)
        assert traded == pytest.approx((units, cash, 0.8, 0.2), rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("weight", [-1.0, 0.0, 1.0])
def test_an_account_ruined_by_the_gap_is_closed_out(weight):
    # Short 1 unit against 1.5 of cash; the price has jumped to 2.
    units, cash, traded, cost = trade_row(-1.0, 1.5, 2.0, weight, 0.1)
    assert (units, traded, cost) == (0.0, 2.0, 0.2)
    assert cash == 1.5 - 2.0 - 0.2


@settings(deadline=None)
@given(
    position=st.floats(-1e3, -1e-3),
    share=st.one_of(st.floats(-1.0, 2.0), st.floats(1.0 - 1e-14, 1.0 + 1e-14)),
    price=st.floats(1e-2, 1e4),
    weight=st.floats(-1.0, 1.0),
    rate=st.floats(0.0, 0.9),
)
def test_no_trade_turns_a_position_over_or_keeps_one_at_ruin(position, share, price, weight, rate):
    # Wealth is about that share of what it costs to close the position.
    units = position / price
    cash = share * rate * -position - units * price
    new_units, new_cash, traded, cost = trade_row(units, cash, price, weight, rate)
    assert new_units * weight >= 0.0
    if cash + units * price <= rate * abs(units * price):
        assert new_units == 0.0 and new_cash <= 0.0
        assert (traded, cost) == (-(units * price), rate * -(units * price))
    if new_cash + new_units * price <= 0.0:
        assert new_units == 0.0


@pytest.mark.parametrize("weight", [-1.0, -0.5, 0.0, 1.0])
def test_an_account_that_cannot_pay_for_its_way_out_is_closed_out(weight):
    # Short 1 unit against 2.5 of cash at a price of 2: the 0.5 of wealth is exactly the cost of buying it back.
    assert trade_row(-1.0, 2.5, 2.0, weight, 0.25) == (0.0, 0.0, 2.0, 0.5)
    # A little more wealth, and there is some left for the weight asked for.
    units, cash, _, _ = trade_row(-1.0, 2.75, 2.0, weight, 0.25)
    assert cash + units * 2.0 > 0.0 and units * 2.0 == pytest.approx(weight * (cash + units * 2.0), rel=1e-15)


def test_rounding_keeps_no_position_at_ruin():
    # Wealth is an ulp above the cost of closing, and after a trade to a weight of 1/2 rounding leaves less than 0.
    units, cash, _, _ = trade_row(-8.624873904085112, 11.212336075310645, 1.0, 0.5, 0.3)
    assert units == 0.0 and cash < 0.0


@pytest.mark.form
@pytest.mark.parametrize(
    ("close", "weight", "growth"), [(150.0, 1.0, 1.5), (200.0, -1.0, 0.0), (700.0, -1.0, -5.0), (1e-7, 1.0, 1e-9)]
)
def test_rewards(close, weight, growth):
    for reward, expected in (("log_growth", math.log(max(growth, GROWTH_FLOOR))), ("return", growth - 1.0)):
        env = TradingVecEnv(
            1,
            prices=[100.0, 100.0, close],
            lookback=1,
            episode_length=1,
            actions="weight",
            transaction_cost=0.0,
            reward=reward,
        )
        env.reset()
        result = env.step(np.float32([[weight]]))
        assert result.rewards.tolist() == [pytest.approx(expected, rel=1e-15)]
        assert result.terminated.tolist() == [growth <= 0.0]
