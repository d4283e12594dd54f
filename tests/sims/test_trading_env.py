"""``TradingVecEnv`` through the vector contract."""

from __future__ import annotations

import copy
import itertools
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from naive_trading import NaiveTrader

import sims.data
from sekai.errors import InvalidAction
from sekai.spaces import Box, Discrete
from sekai.vector import Randomized
from sims.trading import TradingVecEnv

STEP_INFOS = {"price", "wealth", "position", "turnover", "cost", "borrow", "fill_price", "units_traded", "bar"}
RESET_INFOS = {"price", "wealth", "position", "bar"}

#: What else a number of the market may be.
REST = "one per sub-env, or Randomized(low, high)"


def make_table(bars=60, sd=0.02, seed=0):
    """Opens and closes of a random walk, as a table."""
    moves = np.exp(sd * np.random.default_rng(seed).standard_normal((bars, 2)))
    path = 100.0 * np.cumprod(moves.ravel())
    return {"open": path[0::2].copy(), "close": path[1::2].copy()}


#: Each of these is compiled for itself, and the others are run without compilation.
QUICK = [("discrete", "open", "log_growth"), ("weight", "close", "return")]


def make_env(num_envs, **kwargs):
    return TradingVecEnv(
        num_envs, **{"prices": make_table(), "lookback": 4, "episode_length": 10, "borrow_rate": 1e-4, **kwargs}
    )


def random_actions(env, rng, steps):
    if isinstance(env.action_space, Discrete):
        return rng.integers(0, 3, (steps, env.num_envs))
    return rng.uniform(-1.0, 1.0, (steps, env.num_envs, 1)).astype(np.float32)


def as_weight(action):
    return float(action[0]) if np.ndim(action) else float(action) - 1.0


# -- what it is -------------------------------------------------------------------------------------------


def test_spaces():
    env = TradingVecEnv(3)
    returns, weight = (np.full(32, -1.0), np.full(32, np.inf)), (-np.inf, 1.0)
    low, high = (np.append(a, b).astype(np.float32) for a, b in zip(returns, weight, strict=True))
    assert env.observation_space == Box(low, high, dtype=np.float32)
    assert env.action_space == Discrete(3)
    assert TradingVecEnv(3, actions="weight").action_space == Box(-1.0, 1.0, (1,), np.float32)


def test_observations_are_the_last_returns_and_the_weight_held():
    env = make_env(2)
    table = make_table()
    observations = env.reset(options=[{"start": 4}, {"start": 20}]).observations
    assert env.batch_observation_space.contains(observations)
    for row, bar in ((0, 4), (1, 20)):
        returns = [table["close"][j] / table["close"][j - 1] - 1.0 for j in range(bar - 3, bar + 1)]
        np.testing.assert_array_equal(observations[row], np.array([*returns, 0.0], np.float32))
    observations = env.step([2, 0]).observations
    assert env.batch_observation_space.contains(observations)
    np.testing.assert_array_equal(observations[:, -1], np.array(env.position, np.float32))
    np.testing.assert_array_equal(observations[1, 3], np.float32(table["close"][21] / table["close"][20] - 1.0))


def test_infos():
    env = make_env(2)
    reset = env.reset(options={"start": 4})
    assert all(set(info) == RESET_INFOS for info in reset.infos)
    assert reset.infos[1] == {"price": make_table()["close"][4], "wealth": 1.0, "position": 0.0, "bar": 4}
    infos = env.step([2, 0]).infos
    assert all(set(info) == STEP_INFOS for info in infos)
    assert [type(infos[0][key]) for key in ("price", "bar")] == [float, int]
    assert infos[0]["bar"] == 5 and infos[0]["price"] == make_table()["close"][5]
    assert infos[0]["cost"] > 0.0 == infos[0]["borrow"] and infos[1]["borrow"] > 0.0


def test_returned_infos_are_snapshots():
    env = make_env(2)
    env.reset(seed=0)
    infos = env.step([2, 0]).infos
    columns = {key: column.copy() for key, column in infos.columns.items()}
    env.step([0, 2])
    env.reset(seed=1)
    for key, column in columns.items():
        np.testing.assert_array_equal(infos.columns[key], column)


def test_attributes_per_sub_env_and_of_the_market():
    bars = 12
    env = make_env(bars, prices=make_table(bars), episode_length=3)
    env.reset(options=[{"start": 4 + i % 4} for i in range(bars)])
    infos = env.step(np.full(bars, 2)).infos
    assert env.get_attr("bar") == [info["bar"] for info in infos]
    for name in ("wealth", "position", "price"):
        assert env.get_attr(name) == [info[name] for info in infos]
    for closes in env.get_attr("closes"):  # as long as there are sub-envs, and yet the same for each
        np.testing.assert_array_equal(closes, make_table(bars)["close"])
    assert env.get_attr("lookback") == [4] * bars
    assert env.history.open.tolist() == make_table(bars)["open"].tolist()
    assert env.params.execution == "open"


def test_attributes_cannot_reach_the_state():
    env = make_env(2)
    env.reset(seed=0)
    for name in ("wealth", "position", "price", "bar"):
        getattr(env, name)[:] = 7
        assert (getattr(env, name) != 7).all()
    for name, value in (("prices", [1.0, 2.0]), ("history", None), ("closes", np.ones(60))):
        with pytest.raises(AttributeError):
            env.set_attr(name, value)
    with pytest.raises(AttributeError, match=r"wealth: expected it to be changed by step\(\) and reset\(\) alone"):
        env.set_attr("wealth", np.ones(2))
    with pytest.raises(ValueError, match="read-only"):
        env.closes[0] = 1.0


def test_a_deep_copy_goes_its_own_way():
    env = make_env(2)
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    with pytest.raises(ValueError, match="read-only"):
        twin.closes[0] = 1.0
    bar = env.bar
    left, right = env.step([0, 2]), twin.step([0, 2])
    np.testing.assert_array_equal(left.observations, right.observations)
    env.step([1, 1])
    assert twin.bar.tolist() == (bar + 1).tolist()


@pytest.mark.parametrize("actions", ["discrete", pytest.param("weight", marks=pytest.mark.form)])
@pytest.mark.parametrize("autoreset", [True, False])
def test_actions_are_read_and_never_kept_or_written(actions, autoreset):
    env = make_env(3, actions=actions, autoreset=autoreset)
    env.reset(options={"start": 20})
    batch = random_actions(env, np.random.default_rng(0), 1)[0]
    given = batch.copy()
    result = env.step(batch)
    np.testing.assert_array_equal(batch, given)
    position, infos = env.position, list(result.infos)
    batch[:] = 1
    np.testing.assert_array_equal(env.position, position)
    assert list(result.infos) == infos
    batch.flags.writeable = False
    env.step(batch)


# -- the market -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "execution", "reward"),
    [
        each if each in QUICK else pytest.param(*each, marks=pytest.mark.form)
        for each in itertools.product(["discrete", "weight"], ["open", "close"], ["log_growth", "return"])
    ],
)
def test_episodes_equal_the_naive_twin_bit_for_bit(actions, execution, reward):
    table = make_table(80, sd=0.3)
    env = make_env(16, prices=table, actions=actions, execution=execution, reward=reward, transaction_cost=0.01)
    costs = {"transaction_cost": 0.01, "borrow_rate": 1e-4, "reward": reward, "lookback": 4}

    def twin(info):
        opens = table["open"] if execution == "open" else None
        return NaiveTrader(table["close"], opens, info["bar"], info["bar"] + 10, **costs)

    twins = [twin(info) for info in env.reset(seed=3).infos]
    ruined = 0
    for batch in random_actions(env, np.random.default_rng(1), 60):
        result = env.step(batch)
        for i, action in enumerate(batch):
            reward_i, terminated, truncated, info = twins[i].step(as_weight(action))
            done = terminated or truncated
            got = result.infos[i]
            assert result.rewards[i] == reward_i
            assert (result.terminated[i], result.truncated[i]) == (terminated, truncated)
            assert {key: got[key] for key in STEP_INFOS} == info
            observation = got["final_observation"] if done else result.observations[i]
            assert observation.tolist() == twins[i].observation()
            if done:
                assert got["final_info"] == info
                twins[i] = twin(got["reset_info"])
            ruined += terminated
    assert ruined > 0


def test_always_long_earns_the_whole_history():
    table = sims.data.load("sp500")
    env = make_env(1, prices="sp500", episode_length=None, transaction_cost=0.0, autoreset=False)
    env.reset(options={"start": 32})
    total, steps, done = 0.0, 0, False
    while not done:
        result = env.step([2])
        total, steps, done = total + result.rewards[0], steps + 1, bool(result.dones[0])
    expected = table["close"][-1] / table["close"][32]
    assert steps == 5031 - 1 - 32 and result.truncated[0] and not result.terminated[0]
    assert env.wealth[0] == pytest.approx(expected, rel=1e-9)
    assert total == pytest.approx(math.log(expected), rel=1e-9)


def test_the_old_position_earns_the_gap_and_the_new_one_the_day():
    prices = {"open": [*[100.0] * 6, 120.0], "close": [*[100.0] * 6, 150.0]}
    for execution, wealth in (("open", 1.2), ("close", 1.0)):
        env = make_env(1, prices=prices, episode_length=2, transaction_cost=0.0, execution=execution)
        env.reset(options={"start": 4})
        env.step([2])
        assert env.step([1]).infos[0]["wealth"] == pytest.approx(wealth, rel=1e-15)


@pytest.mark.parametrize(
    ("reward", "expected"), [("log_growth", math.log(1e-6)), pytest.param("return", -1.5, marks=pytest.mark.form)]
)
def test_ruin_terminates(reward, expected):
    prices = [*[100.0] * 5, 250.0, 250.0]
    env = make_env(2, prices=prices, episode_length=2, transaction_cost=0.0, borrow_rate=0.0, reward=reward)
    env.reset(options={"start": 4})
    result = env.step([0, 1])
    assert result.terminated.tolist() == [True, False]
    assert result.rewards.tolist() == [expected, 0.0]
    assert result.infos[0]["wealth"] == -0.5 and result.infos[0]["position"] == 0.0
    assert result.infos[0]["final_observation"].tolist() == [0.0, 0.0, 0.0, 1.5, 0.0]
    assert env.wealth.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("action", [0, 1, 2])
def test_a_short_that_cannot_pay_for_its_way_out_is_ruined_and_does_not_come_back(action):
    prices = [*[1.0] * 5, 1.9989, 8.0, 8.0]
    env = make_env(1, prices=prices, episode_length=3, borrow_rate=0.0, transaction_cost=1e-3, autoreset=False)
    env.reset(options={"start": 4})
    twin = NaiveTrader(prices, None, 4, 7, transaction_cost=1e-3)
    result = env.step([0])
    twin.step(-1.0)
    assert 0.0 < env.wealth[0] < -1e-3 * env.position[0] * env.wealth[0]  # less than it costs to buy back
    assert not result.terminated[0]
    result = env.step([action])
    reward, terminated, _, info = twin.step(action - 1.0)
    assert result.terminated[0] and terminated
    assert (result.rewards[0], result.infos[0]) == (math.log(1e-6), info) and reward == math.log(1e-6)
    assert env.wealth[0] < 0.0 and env.position[0] == 0.0
    assert env.batch_observation_space.contains(result.observations)


@pytest.mark.form
def test_wealth_beyond_all_bounds_truncates():
    env = TradingVecEnv(
        1, prices=[1.0, 1.0, 1e38] * 6, lookback=1, episode_length=None, transaction_cost=0.0, autoreset=False
    )
    env.reset(options={"start": 1})
    wealth = []
    for action in (2, 1, 1, 2, 1, 1, 2):
        result = env.step([action])
        wealth.append(env.wealth[0])
    assert wealth == pytest.approx([1e38, 1e38, 1e38, 1e76, 1e76, 1e76, 1e114], rel=1e-12)
    assert result.truncated[0] and not result.terminated[0] and env.bar[0] == 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("actions", ["discrete", "weight"])
@pytest.mark.parametrize("cost", [0.0, 1e-3, 0.9])
def test_everything_stays_finite_on_the_wildest_prices_allowed(cost, actions, seed):
    rng = np.random.default_rng(seed)
    path = [0.0]  # log10, each at most 38 above the one before
    for _ in range(199):
        path.append(rng.uniform(-38.0, min(38.0, path[-1] + 37.9)))
    opens, closes = 10.0 ** np.array(path[0::2]), 10.0 ** np.array(path[1::2])
    closes[2:] = np.minimum(closes[2:], closes[1:-1] * 1e37)
    env = make_env(64, prices={"open": opens, "close": closes}, transaction_cost=cost, actions=actions)
    env.reset(seed=seed)
    for batch in random_actions(env, rng, 60):
        result = env.step(batch)
        assert np.isfinite(result.observations).all() and env.batch_observation_space.contains(result.observations)
        assert np.isfinite(result.rewards).all()
        assert all(np.isfinite(column).all() for column in result.infos.columns.values())


@pytest.mark.form
def test_costs_by_hand():
    env = TradingVecEnv(
        2,
        prices=[1.0, 1.0, 1.0],
        lookback=1,
        episode_length=1,
        transaction_cost=0.25,
        borrow_rate=0.125,
        reward="return",
    )
    env.reset()
    result = env.step([2, 0])
    # 1 = x + 0.25 x in a purchase; short, x = 1 - 0.25 x, and the borrow is an eighth of x.
    assert [info["cost"] for info in result.infos] == pytest.approx([0.2, 0.2], rel=1e-15)
    assert [info["borrow"] for info in result.infos] == pytest.approx([0.0, 0.1], rel=1e-15)
    assert [info["turnover"] for info in result.infos] == pytest.approx([0.8, 0.8], rel=1e-15)
    assert result.rewards.tolist() == pytest.approx([-0.2, -0.3], rel=1e-14)


@pytest.mark.parametrize("execution", ["open", pytest.param("close", marks=pytest.mark.form)])
def test_no_observation_depends_on_a_later_price(execution):
    now, table = 30, make_table()
    spoilt = {key: column.copy() for key, column in table.items()}
    for column in spoilt.values():
        column[now + 1 :] = np.random.default_rng(8).uniform(1.0, 1e6, len(column) - now - 1)
    envs = [make_env(8, prices=prices, episode_length=40, execution=execution) for prices in (table, spoilt)]
    starts = [{"start": 10}] * 8
    left, right = (env.reset(options=starts).observations for env in envs)
    np.testing.assert_array_equal(left, right)
    actions = random_actions(envs[0], np.random.default_rng(9), now - 10 + 1)
    for batch in actions[:-1]:
        left, right = (env.step(batch) for env in envs)
        np.testing.assert_array_equal(left.observations, right.observations)
        np.testing.assert_array_equal(left.rewards, right.rewards)
    left, right = (env.step(actions[-1]) for env in envs)
    assert (left.observations[:, -2] != right.observations[:, -2]).all()


def test_sub_envs_do_not_touch_each_other():
    actions = random_actions(make_env(64), np.random.default_rng(4), 9)
    options = [{"start": 4 + i % 40} for i in range(64)]
    many, one = make_env(64), make_env(1)
    many.reset(options=options)
    one.reset(options=options[:1])
    for batch in actions:
        left, right = many.step(batch), one.step(batch[:1])
        np.testing.assert_array_equal(left.observations[:1], right.observations)
        assert left.rewards[0] == right.rewards[0] and left.infos[0] == right.infos[0]


# -- episodes ---------------------------------------------------------------------------------------------


def test_random_starts_cover_all_bars_on_which_an_episode_fits():
    env = make_env(2000, prices=make_table(20), lookback=4, episode_length=10)
    env.reset(seed=0)
    assert np.unique(env.bar).tolist() == [4, 5, 6, 7, 8, 9]
    whole = make_env(2000, prices=make_table(20), lookback=4, episode_length=None)
    whole.reset(seed=0)
    assert np.unique(whole.bar).tolist() == list(range(4, 19))


def test_seeds_fix_the_starts_and_named_starts_do_not_move_them():
    env = make_env(8)
    env.reset(seed=5)
    drawn = env.bar
    env.reset(seed=5)
    np.testing.assert_array_equal(env.bar, drawn)
    env.reset(seed=5, options=[None, {"start": 7}, {}, *[None] * 5])
    np.testing.assert_array_equal(env.bar, [drawn[0], 7, *drawn[2:]])
    env.reset(seed=6)
    assert (env.bar != drawn).any()


@pytest.mark.parametrize(
    ("length", "start", "steps"),
    [(10, 4, 10), (10, 55, 4), pytest.param(None, 50, 9, marks=pytest.mark.form), (1, 58, 1)],
)
def test_episodes_end_after_their_length_or_with_the_history(length, start, steps):
    env = make_env(1, episode_length=length)
    env.reset(options={"start": start})
    flags = [env.step([1]).truncated[0] for _ in range(steps)]
    assert flags == [False] * (steps - 1) + [True]


def test_autoreset_draws_a_new_start_or_takes_the_one_named():
    env = make_env(4, episode_length=1)
    env.reset(options={"start": 30})
    infos = env.step([2] * 4).infos
    assert [info["bar"] for info in infos] == [31] * 4
    assert set(infos[0]["reset_info"]) == RESET_INFOS
    assert env.get_attr("bar") == [info["reset_info"]["bar"] for info in infos]
    assert env.wealth.tolist() == [1.0] * 4
    assert infos[0]["cost"] > 0.0 == env.cost[0] == env.turnover[0] == env.borrow[0]  # of the new episode
    named = make_env(4, episode_length=1, autoreset_options=lambda i: {"start": 20 + i})
    named.reset(seed=0)
    named.step([2] * 4)
    assert named.bar.tolist() == [20, 21, 22, 23]


def test_frozen_sub_envs_keep_their_state_past_the_end_of_the_history():
    env = make_env(3, autoreset=False, episode_length=None)
    env.reset(options=[{"start": 57}, {"start": 58}, {"start": 40}])
    env.step([2, 2, 2])
    wealth, bar = env.wealth, env.bar
    assert env.frozen.tolist() == [False, True, False]
    for step in range(10):
        result = env.step([0, 0, 0])
        assert env.bar.tolist() == [59, 59, 42 + step]
        assert env.wealth[1] == wealth[1] and env.bar[1] == bar[1]
        assert result.infos[1] == {} and result.rewards[1] == 0.0 and result.truncated[1]
    assert env.reset(seed=0).infos[1]["wealth"] == 1.0


@pytest.mark.form
def test_a_time_limit_on_top():
    env = make_env(2, max_episode_steps=3)
    env.reset(options={"start": 4})
    results = [env.step([2, 2]) for _ in range(3)]
    assert [result.truncated.tolist() for result in results] == [[False] * 2, [False] * 2, [True] * 2]
    assert results[-1].infos[0]["elapsed_steps"] == 3


@pytest.mark.parametrize(
    ("start", "error", "text"),
    [
        *((start, ValueError, f"expected an integer in [4, 58], got {start}") for start in (3, 59, -1)),
        *((start, ValueError, f"expected an integer of 64 bits, got {start}") for start in (10**30, -(10**30))),
        (4.0, TypeError, "expected an integer, got float"),
        (np.nan, TypeError, "expected an integer, got float"),
        (True, TypeError, "expected an integer, got the bool True"),
        (None, TypeError, "expected an integer, got NoneType"),
        ("4", TypeError, "expected an integer, got str"),
    ],
)
def test_a_bad_start_is_refused_before_anything_changes(start, error, text):
    env = make_env(3)
    env.reset(seed=0)
    env.step([2, 2, 2])
    bar, wealth, state = env.bar, env.wealth, env.rng.bit_generator.state
    with pytest.raises(error, match=re.escape(f"reset(options=...), sub-env 1: start: {text}")):
        env.reset(options=[{"start": 9}, {"start": start}, None])
    np.testing.assert_array_equal(env.bar, bar)
    np.testing.assert_array_equal(env.wealth, wealth)
    assert env.rng.bit_generator.state == state


@pytest.mark.parametrize("option", [{"begin": 4}, {"start": 4, "stop": 9}])
def test_an_unknown_option_is_refused(option):
    unknown = [key for key in option if key != "start"][0]
    text = f"reset(options=...), sub-env 2: expected one of the keys ['start'], got {unknown!r}"
    with pytest.raises(ValueError, match=re.escape(text)):
        make_env(3).reset(options=[None, None, option])


def test_true_is_no_start_even_where_1_is():
    with pytest.raises(TypeError, match=r"reset\(options=...\): start: expected an integer, got the bool True"):
        make_env(1, lookback=1).reset(options={"start": True})


@pytest.mark.parametrize("start", [4, 58, np.int32(9)])
def test_the_starts_at_both_ends_are_good(start):
    env = make_env(1)
    env.reset(options={"start": start})
    assert env.bar.tolist() == [start]


# -- actions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bad", "text"),
    [
        ("discrete", 3, "Discrete(3), got 3 (sub-env 1)"),
        ("discrete", -1, "Discrete(3), got -1 (sub-env 1)"),
        ("weight", [1.5], "Box(-1.0, 1.0, (1,), float32), of finite numbers, got [1.5] (sub-env 1)"),
        ("weight", [np.nan], "Box(-1.0, 1.0, (1,), float32), of finite numbers, got [nan] (sub-env 1)"),
        ("weight", [-np.inf], "Box(-1.0, 1.0, (1,), float32), of finite numbers, got [-inf] (sub-env 1)"),
    ],
)
def test_an_action_outside_the_space_is_refused_before_anything_changes(kind, bad, text):
    env = make_env(3, actions=kind)
    good = 2 if kind == "discrete" else [0.5]
    env.reset(seed=0)
    env.step([good] * 3)
    wealth, bar = env.wealth, env.bar
    with pytest.raises(InvalidAction, match=re.escape(f"step(actions): expected an element of {text}")):
        env.step([good, bad, good])
    np.testing.assert_array_equal(env.wealth, wealth)
    np.testing.assert_array_equal(env.bar, bar)
    env.step([good] * 3)
    np.testing.assert_array_equal(env.bar, bar + 1)


def test_a_bad_action_for_a_frozen_sub_env_is_ignored():
    env = make_env(2, autoreset=False, episode_length=None)
    env.reset(options=[{"start": 58}, {"start": 30}])
    env.step([2, 2])
    env.step([9, 2])
    assert env.bar.tolist() == [59, 32]


def test_discrete_actions_are_the_weights_minus_one_zero_and_one():
    discrete, weight = make_env(3), make_env(3, actions="weight")
    for env in (discrete, weight):
        env.reset(options={"start": 10})
    for _ in range(5):
        left = discrete.step([0, 1, 2])
        right = weight.step([[-1.0], [0.0], [1.0]])
        np.testing.assert_array_equal(left.rewards, right.rewards)
        np.testing.assert_array_equal(left.observations, right.observations)
    assert left.rewards[1] == 0.0


# -- construction -----------------------------------------------------------------------------------------


def test_prices_may_come_in_any_form(tmp_path):
    table = sims.data.load("nasdaq")
    path = tmp_path / "closes.csv"
    path.write_text("close\n" + "\n".join(map(str, table["close"])) + "\n")
    bundled = TradingVecEnv(1)
    assert bundled.closes.tolist() == table["close"].tolist() and bundled.params.execution == "open"
    for prices in (table["close"], list(table["close"]), path, str(path)):
        env = TradingVecEnv(1, prices=prices)
        assert env.closes.tolist() == table["close"].tolist() and env.params.execution == "close"


def test_the_execution_asked_for_is_taken():
    assert make_env(1, execution="close").params.execution == "close"
    assert make_env(1, execution="open").params.execution == "open"
    with pytest.raises(ValueError, match=r"execution='open': expected prices with a column 'open', got closes alone"):
        make_env(1, prices=make_table()["close"], execution="open")


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        ({"lookback": 0}, ValueError, "lookback: expected at least 1, got 0"),
        ({"lookback": 2.5}, TypeError, "lookback: expected an integer, got float"),
        ({"lookback": True}, TypeError, "lookback: expected an integer, or one per sub-env, got True"),
        ({"lookback": [4, 5]}, ValueError, "lookback: expected one value for all sub-envs, since TradingVecEnv.obs"),
        ({"episode_length": 0}, ValueError, "episode_length: expected at least 1, got 0"),
        ({"episode_length": [9, 0]}, ValueError, "episode_length: expected at least 1, got 0 (sub-env 1)"),
        ({"episode_length": "10"}, TypeError, "episode_length: expected an integer, or one per sub-env or None, got "),
        ({"actions": "continuous"}, ValueError, "actions: expected 'discrete' or 'weight', got 'continuous'"),
        ({"transaction_cost": 1.0}, ValueError, "transaction_cost: expected a number in [0, 1), got 1.0"),
        ({"transaction_cost": -1e-3}, ValueError, "transaction_cost: expected a number in [0, 1), got -0.001"),
        ({"transaction_cost": np.nan}, ValueError, "transaction_cost: expected a finite number, got nan"),
        *(
            ({"transaction_cost": bad}, TypeError, f"transaction_cost: expected a number, {REST}, got {bad!r}")
            for bad in (None, "0.1", False, 0j, b"0", np.timedelta64(0, "D"), {})
        ),
        ({"transaction_cost": np.False_}, TypeError, f"transaction_cost: expected a number, {REST}, got False"),
        ({"transaction_cost": 10**400}, ValueError, "transaction_cost: expected a finite number, got 1000"),
        ({"transaction_cost": [0.0, 0.0, 0.0]}, ValueError, "transaction_cost: expected 2 values (num_envs), got 3"),
        (
            {"transaction_cost": [0.0, 1.0]},
            ValueError,
            "transaction_cost: expected a number in [0, 1), got 1.0 (sub-env 1)",
        ),
        (
            {"transaction_cost": Randomized(0.5, 1.0)},
            ValueError,
            "transaction_cost: expected a number in [0, 1), got 1.0 (the upper end of ",
        ),
        ({"borrow_rate": True}, TypeError, f"borrow_rate: expected a number, {REST}, got True"),
        ({"borrow_rate": 1.0}, ValueError, "borrow_rate: expected a number in [0, 1), got 1.0"),
        ({"borrow_rate": -1.0}, ValueError, "borrow_rate: expected a number in [0, 1), got -1.0"),
        ({"borrow_rate": np.inf}, ValueError, "borrow_rate: expected a finite number, got inf"),
        ({"actions": np.array(["discrete", "weight"])}, TypeError, "actions: expected a string, got array("),
        ({"execution": np.array(["open", "close"])}, ValueError, "execution: expected 'open' or 'close', got array("),
        ({"execution": {"open": 1}}, ValueError, "execution: expected 'open' or 'close', got {'open': 1}"),
        ({"execution": "vwap"}, ValueError, "execution: expected 'open' or 'close', got 'vwap'"),
        ({"reward": "sharpe"}, ValueError, "reward: expected 'log_growth' or 'return', got 'sharpe'"),
        ({"reward": ["return"]}, TypeError, "reward: expected a string, got ['return']"),
        (
            {"episode_length": 56},
            ValueError,
            "prices: expected at least 61 bars (lookback 4 + 56 steps of an episode + 1), got 60",
        ),
        (
            {"episode_length": None, "lookback": 59},
            ValueError,
            "prices: expected at least 61 bars (lookback 59 + 1 step of an episode + 1), got 60",
        ),
        ({"prices": [1.0, np.nan]}, ValueError, "prices, index 1, column 'close': expected a finite price above 0"),
        ({"num_envs": 0}, ValueError, "num_envs: expected at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused(argument, error, text):
    with pytest.raises(error, match=re.escape(text)):
        make_env(**{"num_envs": 2, **argument})


def test_an_execution_that_is_no_name_is_refused_with_closes_alone():
    for execution in (np.array(["open", "close"]), ["open"]):
        with pytest.raises(ValueError, match=r"execution: expected 'open' or 'close', got "):
            make_env(1, prices=make_table()["close"], execution=execution)


@pytest.mark.parametrize("cost", [0, 0.25, np.float32(0.25), np.int64(0), Fraction(1, 4), Decimal("0.25")])
def test_a_cost_may_be_any_real_number(cost):
    params = make_env(1, transaction_cost=cost, borrow_rate=cost).params
    assert params.transaction_cost == float(cost) and type(params.transaction_cost) is float
    assert params.borrow_rate == float(cost) and type(params.borrow_rate) is float


@pytest.mark.parametrize("argument", [{"episode_length": 55}, {"episode_length": None, "lookback": 58}])
def test_the_longest_that_fits(argument):
    env = make_env(4, **argument)
    env.reset(seed=0)
    assert np.unique(env.bar).tolist() == [argument.get("lookback", 4)]


def test_bundled_histories_by_name():
    for name in sims.data.NAMES:
        assert TradingVecEnv(1, prices=name).closes.tolist() == sims.data.load(name)["close"].tolist()
    with pytest.raises(FileNotFoundError, match="prices: cannot read 'dax'.*bundled"):
        TradingVecEnv(1, prices="dax")


def test_c4_the_nasdaq_is_the_default_and_the_sp500_trades_at_closes_unless_told():
    default, sp500 = TradingVecEnv(1), TradingVecEnv(1, prices="sp500")
    assert default.history.notes[0].startswith("NASDAQ") and default.params.execution == "open"
    assert sp500.params.execution == "close" and "the close of the day before" in sp500.history.notes[-1]
    assert TradingVecEnv(1, prices="sp500", execution="open").params.execution == "open"
    assert sp500.details["execution"] == "close" and sp500.details["notes"] == "; ".join(sp500.history.notes)


# -- sub-envs that differ ---------------------------------------------------------------------------------


@pytest.mark.form
def test_costs_and_lengths_may_differ_between_sub_envs():
    differing = {"transaction_cost": [0.0, 1e-3, 0.3], "borrow_rate": [1e-3, 0.0, 0.1], "episode_length": [5, 8, 3]}
    env = make_env(3, **differing)
    singles = [make_env(1, **{name: values[i] for name, values in differing.items()}) for i in range(3)]
    seeds = [3, 4, 5]
    shown = env.reset(seed=seeds)
    for i, single in enumerate(singles):
        np.testing.assert_array_equal(single.reset(seed=[seeds[i]]).observations[0], shown.observations[i])
    for batch in random_actions(env, np.random.default_rng(2), 20):
        result = env.step(batch)
        for i, single in enumerate(singles):
            alone = single.step(batch[i : i + 1])
            np.testing.assert_array_equal(alone.observations[0], result.observations[i])
            assert (alone.rewards[0], alone.truncated[0]) == (result.rewards[i], result.truncated[i])
            assert alone.infos[0]["cost"] == result.infos[i]["cost"]


def test_d6_a_cost_may_be_drawn_at_each_reset_and_is_told():
    env = make_env(200, transaction_cost=Randomized(0.1, 0.2), episode_length=1, autoreset_options={"start": 9})
    reset = env.reset(seed=0)
    drawn = env.transaction_cost
    assert reset.infos.columns["transaction_cost"].tolist() == drawn.tolist()
    assert ((drawn >= 0.1) & (drawn <= 0.2)).all() and len(np.unique(drawn)) == 200
    infos = env.step(np.full(200, 2)).infos  # 1 = x + cost * x
    assert infos.columns["cost"].tolist() == pytest.approx((drawn / (1.0 + drawn)).tolist(), rel=1e-12)
    assert infos.columns["transaction_cost"].tolist() == drawn.tolist()
    assert infos.final("reset_info")["transaction_cost"].tolist() == env.transaction_cost.tolist()
    assert (env.transaction_cost != drawn).all()


def test_costs_can_be_changed_and_the_rest_is_fixed():
    env = make_env(2)
    env.reset(options={"start": 9})
    env.set_attr("transaction_cost", [0.0, 0.25])
    assert [info["cost"] for info in env.step([2, 2]).infos] == pytest.approx([0.0, 0.2], rel=1e-15)
    with pytest.raises(ValueError, match=r"transaction_cost: expected a number in \[0, 1\), got 1.0 \(sub-env 1\)"):
        env.set_attr("transaction_cost", [0.0, 1.0])
    assert env.get_attr("transaction_cost") == [0.0, 0.25]
    for name, value in (("lookback", 5), ("execution", "close"), ("actions", "weight"), ("reward", "return")):
        with pytest.raises(AttributeError, match=f"{name}: expected it to stay as it was"):
            env.set_attr(name, value)


def test_options_of_autoresets_are_checked_when_the_env_is_made():
    with pytest.raises(ValueError, match=r"autoreset_options: start: expected an integer in \[4, 58\], got 59"):
        make_env(2, autoreset_options={"start": 59})
