"""``PortfolioVecEnv`` and its like through the vector contract."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re

import numpy as np
import pytest
from test_portfolio_kernel import ASSETS, BARS, LOOKBACK, make_env, make_panel

import sekai
from sekai.errors import InvalidAction
from sekai.spaces import Box
from sims.data import PricePanel
from sims.portfolio import (
    EqualWeight,
    PortfolioVecEnv,
    SimulatedPortfolioVecEnv,
    StrictPortfolioVecEnv,
    StrictSimulatedPortfolioVecEnv,
    make_portfolio,
)
from sims.prices import Brownian, CorrelatedGeometric, Geometric

STEP_INFOS = {
    *("price", "wealth", "weights", "cash", "turnover", "cost", "borrow", "interest", "fill_price", "units_traded"),
    "bar",
}
RESET_INFOS = {"price", "wealth", "weights", "cash", "bar"}


def make_strict(**params):
    default = {"lookback": LOOKBACK, "episode_length": np.full(2, BARS // 4), "autoreset": False}
    default |= {"shorts": True, "max_leverage": 2.0, "prices": make_panel(gaps=True)}
    return make_portfolio(2, **{**default, **params})


def weights(*rows):
    return np.array(rows, np.float32)


# -- what it is -------------------------------------------------------------------------------------------


def test_the_default_is_the_two_indices_at_closes():
    env = make_portfolio(3)
    assert type(env) is PortfolioVecEnv and env.assets == ("sp500", "nasdaq")
    assert env.observation_space.shape == (33 * 2,) and env.action_space == Box(0.0, 1.0, (2,), np.float32)
    assert env.params.execution == env.details["execution"] == "close"
    assert env.details["assets"] == "sp500, nasdaq" and "5,031" in env.details["bars"]
    assert env.closes.shape == (5031, 2) and not env.closes.flags.writeable
    assert env.get_attr("history_clock") == ["bar"] * 3


def test_spaces_follow_from_assets_limits_and_gaps():
    env = make_env(2, shorts=True, max_leverage=2.0)
    assert env.action_space == Box(-2.0, 2.0, (ASSETS,), np.float32)
    assert env.observation_space.shape == ((LOOKBACK + 1) * ASSETS + ASSETS,)
    assert env.observation_space.low[-1] == 0.0 and env.observation_space.high[-1] == 1.0
    assert make_env(2, make_panel()).observation_space.shape == ((LOOKBACK + 1) * ASSETS,)


def test_observations_are_the_last_returns_the_weights_and_what_is_listed():
    panel = make_panel(gaps=True)
    env = make_env(2, panel, shorts=True, max_leverage=2.0)
    seen = env.reset(options=[{"start": 9}, {"start": 21}]).observations
    assert env.batch_observation_space.contains(seen)
    filled = panel.close.copy()
    filled[20:23, 1] = filled[19, 1]
    for row, bar in ((0, 9), (1, 21)):
        before, after = filled[bar - 3 : bar], filled[bar - 2 : bar + 1]
        returns = np.nan_to_num(after / before - 1.0)  # the second asset has its first close in bar 8
        expected = [*returns.ravel(), 0.0, 0.0, 0.0, 1.0, 0.5 if bar == 9 else 0.0, 1.0]  # 2 of 4 closes
        np.testing.assert_array_equal(seen[row], np.array(expected, np.float32))
    seen = env.step(weights([0.5, 0.2, -0.3], [0.1, 0.9, 0.4])).observations
    np.testing.assert_array_equal(seen[:, -6:-3], env.weights.astype(np.float32))
    assert env.weights[1, 1] == 0.0  # not listed, and so not bought


def test_infos():
    env = make_env(2, shorts=True, max_leverage=2.0)
    reset = env.reset(options={"start": 10})
    assert all(set(info) == RESET_INFOS for info in reset.infos)
    infos = env.step(weights([0.5, 0.2, -0.3], [0.0, 0.0, 0.0])).infos
    assert all(set(info) == STEP_INFOS for info in infos)
    assert (type(infos[0]["bar"]), infos[0]["bar"], infos[0]["price"].shape) == (int, 11, (ASSETS,))
    assert infos[1]["turnover"] == infos[1]["cost"] == 0.0 < infos[0]["cost"]
    kept = {key: np.array(column) for key, column in infos.columns.items()}
    env.step(weights([0.1, 0.1, 0.1], [1.0, 0.0, 0.0]))
    for key, column in kept.items():
        np.testing.assert_array_equal(infos.columns[key], column)


def test_an_asset_that_leaves_while_it_is_held_is_sold_at_its_last_close():
    for execution, leaves in (("open", 29), ("close", 29)):
        panel = make_panel(gaps=True)  # the third has its last close in bar 29
        env = make_env(1, panel, execution=execution, shorts=True, max_leverage=2.0, transaction_cost=0.01)
        env.reset(options={"start": leaves - 1})
        env.step(weights([0.0, 0.0, 0.5]))
        units, cash = env.units[0, 2], env.cash[0]
        info = env.step(weights([0.0, 0.0, 0.5])).infos[0]
        value = units * panel.close[29, 2]
        assert env.units[0].tolist() == [0.0, 0.0, 0.0] and info["price"][2] == panel.close[29, 2]
        if execution == "open":  # in the trade, whatever was asked for
            np.testing.assert_allclose(env.cash[0], cash + 0.99 * value)
            np.testing.assert_allclose(info["cost"], 0.01 * value)
        else:  # it is still traded at bar 29's close, and gone by the end of the next bar
            at, half = cash + value, 0.5 * (cash + value)
            left = (at - 0.01 * value) / (1.0 - 0.005) if value > half else (at + 0.01 * value) / 1.005
            np.testing.assert_allclose(info["cost"], at - left + 0.01 * 0.5 * left)
            assert env.cash[0] == env.wealth[0]
        assert info["units_traded"][2] == -units


def test_copies_and_pickles_go_their_own_way():
    env = make_env(2, shorts=True, max_leverage=2.0)
    env.reset(seed=0)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        bar = env.bar
        left, right = (each.step(weights([0.5, 0.2, -0.3], [0.1, 0.2, 0.3])) for each in (copy.deepcopy(env), twin))
        np.testing.assert_array_equal(left.observations, right.observations)
        assert env.bar.tolist() == bar.tolist()
        with pytest.raises(ValueError, match="read-only"):
            twin.closes[0] = 1.0


def test_starts_are_drawn_from_all_on_which_an_episode_fits():
    env = make_env(400, shorts=True, max_leverage=2.0)
    env.reset(seed=0)
    assert set(env.bar) == set(range(LOOKBACK, BARS - BARS // 4))
    with pytest.raises(ValueError, match=r"start: expected an integer in \[3, 38\], got 39"):
        env.reset(options={"start": 39})


# -- what is refused -----------------------------------------------------------------------------------------


def test_weights_beyond_the_limit_are_scaled_or_refused():
    asked = weights([1.0, -1.0, 2.0], [0.5, 0.0, -1.5])
    env, strict = make_strict(), make_strict(limits="refuse")
    assert (type(env), type(strict)) == (PortfolioVecEnv, StrictPortfolioVecEnv)
    for each in (env, strict):
        each.reset(options={"start": 10})
    env.step(asked)
    with pytest.raises(
        InvalidAction, match=re.escape("sum to at most 2 (max_leverage), got [ 1. -1.  2.], 4 (sub-env 0)")
    ):
        strict.step(asked)
    assert strict.bar.tolist() == [10, 10]  # nothing has changed
    scaled = asked / np.array([[2.0], [1.0]], np.float32)
    strict.step(scaled)
    np.testing.assert_array_equal(env.wealth, strict.wealth)
    with pytest.raises(InvalidAction, match="expected an element of .*, of finite numbers"):
        strict.step(asked * np.float32(np.nan))
    with pytest.raises(InvalidAction, match="sub-env 1"):
        asyncio.run(strict.async_step(asked[::-1]))
    third = np.float32(2.0 / 3.0)
    strict.step(weights([third, third, third], [0.0, 0.0, 0.0]))  # more than 2 by rounding alone


def test_unlisted_assets_are_made_zero_or_refused():
    strict = make_strict(unlisted="refuse")
    strict.reset(options=[{"start": 19}, {"start": 20}])
    with pytest.raises(
        InvalidAction,
        match=re.escape("a weight of 0 of 'b', which is not listed in bar 20, got 0.25 (sub-env 1)"),
    ):
        strict.step(weights([0.0, 0.25, 0.0], [0.0, 0.25, 0.0]))
    strict.step(weights([0.0, 0.25, 0.0], [0.25, 0.0, 0.25]))
    assert strict.units[0].tolist() == [0.0, 0.0, 0.0]  # which nobody could have known: sold in bar 20


def test_weights_that_are_made_zero_do_not_count():
    strict = make_strict(limits="refuse", unlisted="zero")
    strict.reset(options={"start": 20})
    asked = weights([1.0, 1.0, 1.0], [0.0, 2.0, 0.0])  # the second asset is not listed
    strict.step(asked)
    assert (strict.units[:, 1] == 0.0).all() and strict.weights[0, [0, 2]].sum() > 1.5
    strict.reset(options={"start": 19})
    with pytest.raises(InvalidAction, match="sum to at most 2"):
        strict.step(asked)


def test_frozen_sub_envs_are_not_looked_at():
    strict = make_strict(limits="refuse", unlisted="refuse", episode_length=np.array([1, 5]))
    strict.reset(options={"start": 10})
    strict.step(np.zeros((2, ASSETS), np.float32))
    assert strict.frozen.tolist() == [True, False]
    strict.step(weights([2.0, 2.0, 2.0], [0.0, 0.0, 0.0]))


@pytest.mark.form
def test_softmax_actions_are_weights_of_assets_and_cash():
    panel = make_panel(gaps=True)
    env, other = make_env(2, panel, actions="softmax", transaction_cost=0.01), make_env(2, panel, transaction_cost=0.01)
    assert env.action_space == Box(-5.0, 5.0, (ASSETS + 1,), np.float32)
    logits = weights([0.0, 0.0, 0.0, 0.0], [5.0, -5.0, 2.5, 5.0])
    expected = np.exp(logits.astype(np.float64))
    expected /= expected.sum(axis=1, keepdims=True)
    for start in (10, 21):  # in bar 21 the second asset is not listed: its share stays in cash
        for each, action in ((env, logits), (other, expected[:, :ASSETS].astype(np.float32))):
            each.reset(options={"start": start})
            each.step(action)
        np.testing.assert_allclose(env.weights, other.weights, rtol=1e-6)
        np.testing.assert_allclose(env.cash, other.cash, rtol=1e-6)
    with pytest.raises(ValueError, match="expected an env with actions='weights', got 'softmax'"):
        EqualWeight.for_env(env)


def test_descriptions_of_many_assets_are_short():
    model = CorrelatedGeometric(np.full(30, 0.1), np.full(30, 0.2), np.eye(30))
    env = SimulatedPortfolioVecEnv(1, prices=model)
    assert env.get_attr("assets")[0][-1] == "asset 29" and len(env.details["prices"]) < 250
    assert "drift=array of shape (30,)" in env.details["prices"]
    panel = PricePanel(np.ones((9, 30)))
    assert panel.describe()["assets"].endswith("asset 7, and 22 more")


def test_histories_alone_and_models_alone():
    for prices in (Geometric(), CorrelatedGeometric(), Geometric):
        with pytest.raises(TypeError, match="prices: expected histories, got (.|\n)* is for SimulatedPortfolioVecEnv"):
            PortfolioVecEnv(2, prices=prices)
    with pytest.raises(TypeError, match="prices: expected a model of one price, got CorrelatedGeometric"):
        sekai.make_vec("Trading-v0", 2, prices=CorrelatedGeometric())


@pytest.mark.form
def test_a_rollout_of_the_strict_form_goes_step_by_step():
    with make_portfolio(2, limits="refuse") as strict, make_portfolio(2) as env:
        assert not strict.can_roll and env.can_roll
        records = [
            sekai.rollout(each, EqualWeight.for_env(each), 5, seed=0, progress=False, infos=("wealth",))
            for each in (strict, env)
        ]
    np.testing.assert_array_equal(records[0].infos["wealth"], records[1].infos["wealth"])


WRONG = [
    ({"transaction_cost": 1.0}, ValueError, r"transaction_cost: expected a number in \[0, 1\), got 1.0"),
    ({"transaction_cost": [0.1, -0.1]}, ValueError, r"transaction_cost: .* got -0.1 \(sub-env 1\)"),
    ({"transaction_cost": 0.5, "max_leverage": 2.0}, ValueError, "transaction_cost: expected less than 1 / max"),
    ({"max_leverage": 0.0}, ValueError, "max_leverage: expected a finite number above 0, got 0.0"),
    ({"cash_rate": -0.1}, ValueError, "cash_rate: expected a number in"),
    ({"loan_rate": 1.0}, ValueError, "loan_rate: expected a number in"),
    ({"borrow_rate": 2.0}, ValueError, "borrow_rate: expected a number in"),
    ({"shorts": "yes"}, TypeError, "shorts: expected a bool, got 'yes'"),
    ({"reward": "log"}, ValueError, "reward: expected 'log_growth' or 'return', got 'log'"),
    ({"execution": "last"}, ValueError, "execution: expected 'open' or 'close', got 'last'"),
    ({"prices": np.ones((9, 2)), "execution": "open"}, ValueError, "execution='open': expected prices with opens"),
    ({"prices": np.ones((9, 2))}, ValueError, r"prices: expected at least 285 bars .* got 9"),
    ({"lookback": 0}, ValueError, "lookback"),
    ({"episode_length": 0}, ValueError, "episode_length"),
    ({"limits": "clip"}, ValueError, "limits: expected 'scale' or 'refuse', got 'clip'"),
    ({"unlisted": "skip"}, ValueError, "unlisted: expected 'zero' or 'refuse', got 'skip'"),
    ({"prices": Brownian()}, ValueError, "prices: expected a model whose prices stay above 0, got Brownian"),
    ({"prices": Geometric(), "execution": "open"}, ValueError, "execution='open': expected 'close', since a price"),
    ({"prices": Geometric(), "bar_time": 0.0}, ValueError, "bar_time: expected a finite number above 0"),
    ({"prices": Geometric(volatility=-1.0)}, ValueError, "prices.volatility"),
    ({"prices": Geometric}, TypeError, r"prices: expected an instance, Geometric\(\), got the class"),
    ({"prices": "sp500"}, ValueError, r"prices: expected several assets, .* hand in \['sp500'\]"),
    ({"max_leverage": 1e39}, ValueError, "max_leverage: expected .* at most 1e[+]30"),
    ({"actions": "logits"}, ValueError, "actions: expected 'weights' or 'softmax', got 'logits'"),
    ({"actions": "softmax", "shorts": True}, ValueError, "actions='softmax': expected shorts=False"),
    ({"actions": "softmax", "limits": "refuse"}, ValueError, "actions='softmax': expected limits='scale'"),
    ({"weights": 1}, TypeError, "unexpected keyword argument 'weights'"),
]


@pytest.mark.parametrize(
    ("params", "error", "message"), WRONG, ids=[f"{n}-{'-'.join(each[0])}" for n, each in enumerate(WRONG)]
)
def test_arguments_that_are_wrong(params, error, message):
    with pytest.raises(error, match=message):
        make_portfolio(2, **params)


def test_a_model_makes_another_market_of_the_same_name():
    env = make_portfolio(2, prices=CorrelatedGeometric())
    assert type(env) is SimulatedPortfolioVecEnv and not hasattr(env, "history_clock")
    assert "drawn from CorrelatedGeometric" in env.details["prices"]
    strict = make_portfolio(2, prices=CorrelatedGeometric(), limits="refuse")
    assert type(strict) is StrictSimulatedPortfolioVecEnv
    assert make_portfolio(2, prices=Geometric()).action_space.shape == (1,)


@pytest.mark.form
def test_a_panel_of_one_asset_is_a_trading_market():
    from sims.trading import TradingVecEnv

    panel = make_panel()
    closes = panel.close[:, 0]
    params = {"lookback": 2, "episode_length": 20, "transaction_cost": 0.01, "borrow_rate": 0.001}
    one = PortfolioVecEnv(4, prices=PricePanel(closes[:, None]), shorts=True, **params)
    other = TradingVecEnv(4, prices=closes, actions="weight", **params)
    assert (one.reset(seed=3).observations == other.reset(seed=3).observations).all()
    for _ in range(10):
        asked = np.random.default_rng(0).uniform(-1.0, 1.0, (4, 1)).astype(np.float32)
        left, right = one.step(asked), other.step(asked)
        np.testing.assert_allclose(left.rewards, right.rewards, rtol=1e-12, atol=1e-15)
    assert one.bar.tolist() == other.bar.tolist()
