"""The kernels of the trading market: against the naive twin, the sizing formula, and each row on its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_trading import NaiveTrader

from sims.trading.kernels import (
    GROWTH_FLOOR,
    advance_trading,
    observe_trading,
    reward_row,
    trade_row,
)
from sims.trading.records import Account, Market, Outcome, Terms

BARS, ROWS, LOOKBACK = 40, 24, 3

# (standard deviation of a bar's log return, transaction cost, borrow rate): calm, dear, and ruinous for shorts
SETTINGS = [(0.01, 0.0, 0.0), (0.02, 1e-3, 1e-4), (0.6, 0.3, 0.05)]


def interpreted(kernel):
    return getattr(kernel, "py_func", kernel)


def random_prices(rng, sd):
    """Opens and closes: each open off the close before, each close off its open."""
    moves = np.exp(sd * rng.standard_normal((BARS, 2)))
    path = 100.0 * np.cumprod(moves.ravel())
    return path[0::2].copy(), path[1::2].copy()


def make_market(opens, closes, at_open):
    returns = (closes[1:] / closes[:-1] - 1.0).astype(np.float32)
    return Market(closes, opens[1:].copy() if at_open else closes[:-1].copy(), returns)


def new_account(starts, ends):
    n = len(starts)
    return Account(
        np.array(starts, np.int64), np.array(ends, np.int64), np.zeros(n), np.ones(n), np.ones(n), np.zeros(n)
    )


def random_weights(rng, shape):
    """A third of them -1, 0 or 1, and many repeated."""
    weights = rng.uniform(-1.0, 1.0, shape)
    corner = rng.random(shape) < 0.4
    weights[corner] = rng.integers(-1, 2, int(corner.sum()))
    return weights


def play(market, terms, account, weights, advance=advance_trading, observe=observe_trading):
    """Step until every row is done or the weights (steps, N) run out. Rows that are done are frozen.

    Yields the account, the outcome, the observations and who was frozen, copied.
    """
    n = weights.shape[1]
    frozen = np.zeros(n, bool)
    for row in weights:
        outcome = Outcome.zeros(n)
        advance(market, terms, account, row, frozen, outcome)
        observations = np.empty((n, LOOKBACK + 1), np.float32)
        observe(market.returns, account.bar, account.weight, observations)
        yield Account(*map(np.copy, account)), outcome, observations, frozen.copy()
        frozen |= outcome.terminated | outcome.truncated
        if frozen.all():
            return


def play_random(seed, sd, cost, borrow, at_open=True, log_growth=True, **kernels):
    rng = np.random.default_rng(seed)
    opens, closes = random_prices(rng, sd)
    starts = rng.integers(LOOKBACK, BARS - 1, ROWS)
    ends = np.minimum(starts + rng.integers(1, 30, ROWS), BARS - 1)
    weights = random_weights(rng, (BARS, ROWS))
    market, terms = make_market(opens, closes, at_open), Terms(cost, borrow, log_growth)
    steps = list(play(market, terms, new_account(starts, ends), weights, **kernels))
    return opens, closes, starts, ends, weights, steps


@pytest.mark.parametrize("log_growth", [True, False])
@pytest.mark.parametrize("at_open", [True, False])
@pytest.mark.parametrize(("sd", "cost", "borrow"), SETTINGS)
def test_equals_the_naive_twin_bit_for_bit(sd, cost, borrow, at_open, log_growth):
    ruined = ended = 0
    for seed in range(5):
        opens, closes, starts, ends, weights, steps = play_random(seed, sd, cost, borrow, at_open, log_growth)
        twins = [
            NaiveTrader(
                closes,
                opens if at_open else None,
                int(starts[i]),
                int(ends[i]),
                transaction_cost=cost,
                borrow_rate=borrow,
                reward="log_growth" if log_growth else "return",
                lookback=LOOKBACK,
            )
            for i in range(ROWS)
        ]
        for row, (account, outcome, observations, frozen) in zip(weights, steps, strict=False):
            for i in np.flatnonzero(~frozen):
                reward, terminated, truncated, info = twins[i].step(float(row[i]))
                assert outcome.reward[i] == reward
                assert (outcome.terminated[i], outcome.truncated[i]) == (terminated, truncated)
                assert account.bar[i] == info["bar"] and outcome.price[i] == info["price"]
                assert account.wealth[i] == info["wealth"] and account.weight[i] == info["position"]
                assert outcome.turnover[i] == info["turnover"]
                assert (outcome.cost[i], outcome.borrow[i]) == (info["cost"], info["borrow"])
                assert observations[i].tolist() == twins[i].observation()
                ruined += terminated
                ended += terminated or truncated
    assert ended == 5 * ROWS
    assert (ruined > 0) == (sd > 0.1)  # the ruinous setting does what it is there for


@pytest.mark.parametrize(("sd", "cost", "borrow"), SETTINGS)
def test_compiled_equals_interpreted(sd, cost, borrow):
    *_, compiled = play_random(3, sd, cost, borrow)
    *_, plain = play_random(
        3, sd, cost, borrow, advance=interpreted(advance_trading), observe=interpreted(observe_trading)
    )
    assert len(compiled) == len(plain)
    for left, right in zip(compiled, plain, strict=True):
        for a, b in zip((*left[0], *left[1], *left[2:]), (*right[0], *right[1], *right[2:]), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("at_open", [True, False])
@pytest.mark.parametrize(("sd", "cost", "borrow"), SETTINGS)
def test_wealth_changes_by_what_the_positions_earn_less_the_costs(sd, cost, borrow, at_open):
    opens, closes, starts, ends, _, steps = play_random(11, sd, cost, borrow, at_open)
    before = new_account(starts, ends)
    for account, outcome, _, frozen in steps:
        live = ~frozen
        old, new = before.bar[live], account.bar[live]
        price = opens[new] if at_open else closes[old]
        held = before.units[live] * (price - closes[old])
        earned = account.units[live] * (closes[new] - price)
        growth = account.wealth[live] - before.wealth[live]
        scale = np.maximum(1.0, np.abs(account.units[live]) * np.maximum(price, closes[new]))
        error = growth - (held + earned - outcome.cost[live] - outcome.borrow[live])
        assert (np.abs(error) <= 1e-12 * scale).all()
        before = account


def test_a_frozen_row_keeps_its_state_and_outcome_and_reads_no_price_past_the_end():
    *_, steps = play_random(7, 0.02, 1e-3, 0.0)
    (before, _, _, _), *later = steps
    seen = 0
    for account, outcome, _, frozen in later:
        for old, new in zip(before, account, strict=True):
            np.testing.assert_array_equal(old[frozen], new[frozen])
        for column in outcome:
            assert not column[frozen].any()
        seen += int(frozen.sum())
        before = account
    assert seen > ROWS


@pytest.mark.parametrize("at_open", [True, False])
def test_no_observation_depends_on_a_later_price(at_open):
    rng = np.random.default_rng(5)
    opens, closes = random_prices(rng, 0.02)
    now = 20
    spoilt = [prices.copy() for prices in (opens, closes)]
    for prices in spoilt:
        prices[now + 1 :] = rng.uniform(1.0, 1e6, BARS - now - 1)
    starts, ends = np.full(ROWS, LOOKBACK), np.full(ROWS, BARS - 1)
    weights = random_weights(rng, (BARS, ROWS))
    runs = [
        list(play(make_market(*prices, at_open), Terms(1e-3, 1e-4, True), new_account(starts, ends), weights))
        for prices in ((opens, closes), spoilt)
    ]
    steps = now - LOOKBACK
    for (left, _, seen, _), (right, _, seen_too, _) in list(zip(*runs, strict=False))[:steps]:
        np.testing.assert_array_equal(seen, seen_too)
        np.testing.assert_array_equal(left.wealth, right.wealth)
    assert (runs[0][steps][2] != runs[1][steps][2]).any()  # the very next bar is spoilt


def outcomes(weights, starts, market):
    """Everything that comes out of playing these rows, as arrays (steps, N, ...)."""
    account = new_account(starts, np.full(len(starts), BARS - 1))
    steps = play(market, Terms(1e-3, 1e-4, True), account, weights)
    return [np.stack(column) for column in zip(*[(*a, *o, seen) for a, o, seen, _ in steps], strict=True)]


def test_rows_are_independent():
    rng = np.random.default_rng(2)
    market = make_market(*random_prices(rng, 0.02), at_open=True)
    starts = rng.integers(LOOKBACK, 10, 64)
    weights = random_weights(rng, (20, 64))
    base = outcomes(weights, starts, market)

    order = rng.permutation(64)
    for column, permuted in zip(base, outcomes(weights[:, order], starts[order], market), strict=True):
        np.testing.assert_array_equal(column[:, order], permuted)

    changed = weights.copy()
    changed[:, 3] = -changed[:, 3]
    others = np.arange(64) != 3
    differing = 0
    for column, other in zip(base, outcomes(changed, starts, market), strict=True):
        np.testing.assert_array_equal(column[:, others], other[:, others])
        differing += (column[:, 3] != other[:, 3]).any()
    assert differing > 0

    for column, alone in zip(base, outcomes(weights[:, :1], starts[:1], market), strict=True):
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


def test_rewards():
    assert reward_row(2.0, 3.0, True) == math.log(1.5)
    assert reward_row(2.0, 3.0, False) == 0.5
    for after in (0.0, -5.0, 1e-9):
        assert reward_row(2.0, after, True) == math.log(GROWTH_FLOOR)
    assert reward_row(2.0, -1.0, False) == -1.5
