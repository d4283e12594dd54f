"""``MarketMakingVecEnv`` through the vector contract; its numbers are in the tests of the kernel and the figures."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest

import sekai
from sekai.errors import InvalidAction, ResetRequired
from sekai.spaces import Box
from sims.market_making import MarketMakingParams, MarketMakingVecEnv, Randomized
from sims.market_making.baselines import POLICIES

STATE = ("mid_price", "inventory", "cash", "wealth")
PARAMETERS = ("initial_price", "volatility", "arrival_rate", "fill_decay")
DEFAULTS = {"initial_price": 100.0, "volatility": 2.0, "arrival_rate": 140.0, "fill_decay": 1.5}
RESET_INFOS, STEP_INFOS = set(STATE), {*STATE, "bid_filled", "ask_filled"}

form = pytest.mark.form  # what compiles a choice of the market that no other test has
#: The parameters, those of which little else can go wrong without compilation alone: each is compiled by itself.
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "volatility" else form) for name in PARAMETERS]
)

#: At these distances an order fills for sure, and never.
SURE, NEVER = -3.0, 1e6


def random_actions(steps, num_envs, seed=0):
    return np.random.default_rng(seed).uniform(-0.2, 1.0, (steps, num_envs, 2)).astype(np.float32)


def play(env, actions, seed=0):
    """Everything that comes out, as arrays (steps, N, ...)."""
    env.reset(seed=seed)
    steps = [env.step(batch) for batch in actions]
    shown = [np.stack([getattr(step, name) for step in steps]) for name in ("observations", "rewards", "truncated")]
    return [*shown, *(np.stack([step.infos.columns[name] for step in steps]) for name in steps[0].infos.columns)]


def no_warnings():
    """Of NumPy's scalars, which stand in for compiled code under NUMBA_DISABLE_JIT, about numbers beyond the range."""
    return np.errstate(all="ignore")


def assert_same(left, right):
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


# -- what it is -------------------------------------------------------------------------------------------


def test_defaults():
    params = MarketMakingVecEnv(2).params
    assert isinstance(params, MarketMakingParams)
    assert {name: getattr(params, name) for name in PARAMETERS} == DEFAULTS
    assert (params.horizon, params.n_steps, params.dt, params.max_inventory) == (1.0, 200, 0.005, 50)
    assert (params.fill_rule, params.midprice, params.reward, params.observe) == ("linear", "brownian", "pnl", "basic")
    assert params.clip_quotes is False and params.drift == 0.0


def test_by_its_id():
    spec = sekai.EnvSpec("MarketMaking-v0", vector_entry_point="sims.market_making.market:MarketMakingVecEnv")
    with spec.make(n_steps=3) as env:
        observation = env.reset(seed=0).observation
        assert observation.tolist() == [0.0, 1.0]
        result = env.step([0.5, 0.5])
        assert type(env.mid_price) is np.float64 and env.mid_price == result.info["mid_price"]
        assert env.params.n_steps == 3
    assert MarketMakingVecEnv.policies is POLICIES


@pytest.mark.parametrize(
    ("terms", "low", "high"),
    [
        ({}, [-1, 0], [1, 1]),
        pytest.param({"max_inventory": None}, [-np.inf, 0], [np.inf, 1], marks=form),
        pytest.param({"observe": "full"}, [-1, 0, -np.inf, -np.inf], [1, 1, np.inf, np.inf], marks=form),
        pytest.param(
            {"observe": "full", "midprice": "jumps"}, [-1, 0, -1, -np.inf], [1, 1, np.inf, np.inf], marks=form
        ),
    ],
)
def test_spaces_and_observations_in_them(terms, low, high):
    env = MarketMakingVecEnv(3, **{"n_steps": 5, "volatility": 0.5, **terms})
    assert env.observation_space == Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)
    assert env.action_space == Box(-np.inf, np.inf, (2,), np.float32)
    seen = env.reset(seed=0).observations
    start = [[0.0, 1.0] + [0.0] * (len(low) - 2)] * 3
    assert seen.dtype == np.float32 and seen.tolist() == start
    assert env.batch_observation_space.contains(seen)
    for step in range(12):
        result = env.step([[SURE, NEVER], [NEVER, SURE], [0.3, 0.3]])
        assert env.batch_observation_space.contains(result.observations)
        left = 5 - (step + 1) % 5
        np.testing.assert_array_equal(result.observations[:, 1], np.float32(left) / np.float32(5))
        if left == 5:
            assert result.observations.tolist() == start


@form
def test_what_is_observed():
    env = MarketMakingVecEnv(4, observe="full", max_inventory=8, initial_price=[50.0, 100.0, 150.0, 200.0])
    env.reset(seed=0)
    for batch in random_actions(30, 4):
        result = env.step(batch)
        columns = result.infos.columns
        np.testing.assert_array_equal(result.observations[:, 0], columns["inventory"].astype(np.float32) / 8)
        relative = columns["mid_price"] / env.initial_price - 1.0
        np.testing.assert_array_equal(result.observations[:, 2], relative.astype(np.float32))
        np.testing.assert_array_equal(result.observations[:, 3], columns["cash"].astype(np.float32))
    assert np.abs(result.observations[:, 0]).max() > 0.0


def test_infos():
    env = MarketMakingVecEnv(2, n_steps=2)
    reset = env.reset(seed=0)
    assert list(reset.infos) == [{"mid_price": 100.0, "inventory": 0.0, "cash": 0.0, "wealth": 0.0}] * 2
    first, last = (env.step([[SURE, NEVER], [NEVER, SURE]]).infos for _ in range(2))
    assert all(set(info) == STEP_INFOS for info in first)
    assert [type(first[0][name]) for name in ("mid_price", "inventory", "bid_filled")] == [float, float, bool]
    assert [(info["bid_filled"], info["ask_filled"], info["inventory"]) for info in first] == [
        (True, False, 1.0),
        (False, True, -1.0),
    ]
    assert first[0]["cash"] == -103.0 and first[1]["cash"] == 97.0
    assert set(last[0]["reset_info"]) == RESET_INFOS and last[0]["reset_info"]["mid_price"] == 100.0
    assert last[0]["inventory"] == 2.0


def test_attributes_per_sub_env():
    env = MarketMakingVecEnv(3, n_steps=4)
    env.reset(seed=0)
    for batch in random_actions(4, 3):
        infos = env.step(batch).infos
        if not infos.done.size:
            for name in STATE:
                assert env.get_attr(name) == [info[name] for info in infos]
    assert infos.done.tolist() == [0, 1, 2]
    for name in STATE:
        assert env.get_attr(name) == [info["reset_info"][name] for info in infos]
    assert env.get_attr("params") == [env.params] * 3
    assert env.get_attr("volatility") == [2.0] * 3


def test_attributes_cannot_reach_the_state():
    env = MarketMakingVecEnv(2, volatility=[1.0, 2.0])
    env.reset(seed=0)
    env.step(random_actions(1, 2)[0])
    for name in (*STATE, "volatility"):
        getattr(env, name)[:] = 7e7
        assert (getattr(env, name) != 7e7).all()
    for name in STATE:
        with pytest.raises(AttributeError):
            env.set_attr(name, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        env.params.volatility[0] = 1.0
    for name in ("gamma", "sigma"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            env.set_attr(name, 1)
    for name, value in {"reward": "exp_utility", "max_inventory": 3, "clip_quotes": True}.items():
        with pytest.raises(AttributeError, match=f"{name}: expected it to stay as it was"):
            env.set_attr(name, value)


def test_step_before_reset():
    with pytest.raises(ResetRequired):
        MarketMakingVecEnv(1).step([[0.5, 0.5]])


# -- quotes -----------------------------------------------------------------------------------------------


def test_both_sides_are_decided_from_the_inventory_before_either_fills():
    env = MarketMakingVecEnv(1, max_inventory=1)
    env.reset(seed=0)
    quotes = [(SURE, SURE), (SURE, NEVER), (SURE, NEVER), (SURE, SURE), (NEVER, SURE), (NEVER, SURE), (SURE, SURE)]
    fills = [
        [(info["bid_filled"], info["ask_filled"], info["inventory"]) for info in env.step([q]).infos][0] for q in quotes
    ]
    assert fills == [
        (True, True, 0.0),
        (True, False, 1.0),
        (False, False, 1.0),  # at the limit
        (False, True, 0.0),  # there is room now, but there was none when it was quoted
        (False, True, -1.0),
        (False, False, -1.0),
        (True, False, 0.0),
    ]


@form
@pytest.mark.parametrize("fill_rule", ["linear", "exact"])
def test_clipped_quotes_are_at_the_mid(fill_rule):
    terms = {"fill_rule": fill_rule, "arrival_rate": 100.0}
    terms["tell_quotes"] = False  # which clipped quotes are by themselves
    clipped, free, zero = (MarketMakingVecEnv(8, **terms, clip_quotes=clip) for clip in (True, False, False))
    actions = np.tile(np.float32([-0.4, -0.0]), (20, 8, 1))
    assert_same(play(clipped, actions), play(zero, np.zeros_like(actions)))
    assert (play(free, actions)[-2] != play(clipped, actions)[-2]).any()
    inside = np.abs(random_actions(20, 8))
    assert_same(play(clipped, inside), play(free, inside))


@pytest.mark.parametrize("fill_rule", ["linear", pytest.param("exact", marks=form)])
def test_without_orders_nothing_fills_at_any_distance(fill_rule):
    env = MarketMakingVecEnv(2, arrival_rate=0.0, fill_rule=fill_rule)
    env.reset(seed=0)
    with no_warnings():
        for distance in (0.0, -1.0, -1e30, 1e30):
            columns = env.step(np.full((2, 2), distance)).infos.columns
            assert not columns["bid_filled"].any() and not columns["ask_filled"].any()


def test_without_decay_the_distance_does_not_matter():
    near, far = (MarketMakingVecEnv(8, fill_decay=0.0, arrival_rate=80.0) for _ in range(2))
    fills = [play(env, np.full((30, 8, 2), distance, np.float32))[-2:] for env, distance in ((near, 0.1), (far, 50.0))]
    assert_same(*fills)
    assert 0.2 < fills[0][0].mean() < 0.6


def test_without_volatility_a_mid_stands_still():
    env = MarketMakingVecEnv(2, volatility=0.0)
    env.reset(seed=0)
    for batch in random_actions(10, 2):
        assert env.step(batch).infos.columns["mid_price"].tolist() == [100.0, 100.0]


# -- episodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_an_episode_is_truncated_after_its_steps_and_never_terminated(n_steps):
    env = MarketMakingVecEnv(3, n_steps=n_steps)
    env.reset(seed=0)
    for step in range(1, 11):
        result = env.step(np.full((3, 2), 0.5))
        assert result.truncated.tolist() == [step % n_steps == 0] * 3 and not result.terminated.any()


def test_sub_envs_end_where_they_began():
    env = MarketMakingVecEnv(2, n_steps=3)
    env.reset(seed=0)
    env.step([[SURE, NEVER]] * 2)
    env.reset()  # in the middle of an episode
    assert env.wealth.tolist() == [0.0, 0.0] and env.mid_price.tolist() == [100.0, 100.0]
    assert [env.step([[SURE, NEVER]] * 2).truncated.tolist() for _ in range(3)] == [
        [False] * 2,
        [False] * 2,
        [True] * 2,
    ]


@form
def test_a_time_limit_on_top_ends_an_episode_but_pays_nothing():
    terms = {"reward": "running_penalty", "inventory_penalty": 0.0, "terminal_penalty": 5.0, "volatility": 0.0}
    for limit, rewards in ((2, [-3.0, -3.0, -3.0, -3.0]), (3, [-3.0, -3.0, -3.0 - 5.0 * 9.0, -3.0])):
        env = MarketMakingVecEnv(1, n_steps=3, max_episode_steps=limit, **terms)
        env.reset(seed=0)
        results = [env.step([[SURE, NEVER]]) for _ in range(4)]
        assert [result.rewards[0] for result in results] == rewards
        assert [result.truncated[0] for result in results] == [step % limit == 0 for step in range(1, 5)]
        assert [result.infos[0]["elapsed_steps"] for result in results] == [(step % limit) + 1 for step in range(4)]
    env = MarketMakingVecEnv(1, n_steps=3, max_episode_steps=2, reward="exp_utility")
    env.reset(seed=0)
    assert [env.step([[SURE, NEVER]]).rewards[0] for _ in range(6)] == [0.0] * 6


def test_without_autoreset_the_end_stays():
    env = MarketMakingVecEnv(2, n_steps=2, autoreset=False)
    env.reset(seed=0)
    env.step([[SURE, NEVER]] * 2)
    end = env.step([[SURE, NEVER]] * 2)
    wealth, counter = env.wealth, env.streams.counter.copy()
    for _ in range(3):
        again = env.step([[np.nan, np.inf]] * 2)  # whatever a frozen sub-env is told
        np.testing.assert_array_equal(again.observations, end.observations)
        assert again.rewards.tolist() == [0.0, 0.0] and again.truncated.all() and list(again.infos) == [{}, {}]
        np.testing.assert_array_equal(env.wealth, wealth)
        np.testing.assert_array_equal(env.streams.counter, counter)
    assert env.reset().observations.tolist() == [[0.0, 1.0]] * 2


def test_sub_envs_frozen_at_different_times():
    """A time limit of one's own cannot be had, so that the clock of one row is set forward."""
    env, free = (MarketMakingVecEnv(3, n_steps=4, autoreset=False) for _ in range(2))
    for each in (env, free):
        each.reset(seed=1)
    env.episode_clock.began[1] -= 2  # as if it had begun two steps earlier
    for step, batch in enumerate(random_actions(4, 3)):
        result, same = env.step(batch), free.step(batch)
        assert env.frozen.tolist() == [step == 3, step >= 1, step == 3]
        np.testing.assert_array_equal(result.rewards[[0, 2]], same.rewards[[0, 2]])
        np.testing.assert_array_equal(result.observations[[0, 2]], same.observations[[0, 2]])
        assert env.streams.counter.tolist() == [step + 1, min(step + 1, 2), step + 1]


@form
@pytest.mark.parametrize("empty", [None, {}, [None, {}, None]])
def test_there_are_no_options(empty):
    env = MarketMakingVecEnv(3, n_steps=1)
    env.reset(options=empty)
    with pytest.raises(ValueError, match=re.escape("reset(options=...), sub-env 1: expected no options, got 'start'")):
        env.reset(options=[None, {"start": 3, "b": 1}, None])
    env = MarketMakingVecEnv(3, n_steps=1, autoreset_options=lambda i: {"x": 1} if i == 2 else None)
    env.reset()
    with pytest.raises(ValueError, match=re.escape("sub-env 2: expected no options, got 'x'")):
        env.step(np.zeros((3, 2)))


# -- actions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", [True, pytest.param(False, marks=form)])
@pytest.mark.parametrize("midprice", ["brownian", pytest.param("jumps", marks=form)])
@pytest.mark.parametrize("bad", [[0.5, np.nan], [np.inf, 0.5], [0.5, -np.inf], [np.nan, np.nan]])
def test_a_distance_that_is_not_finite_is_refused_and_nothing_has_happened(bad, midprice, autoreset):
    terms = {"midprice": midprice, "jump_rate": 100.0, "n_steps": 3, "autoreset": autoreset}
    env, free = (MarketMakingVecEnv(3, **terms, volatility=Randomized(0.1, 0.3)) for _ in range(2))
    for each in (env, free):
        each.reset(seed=0)
    batches = random_actions(3, 3)
    for step, batch in enumerate(batches):
        spoilt = batch.copy()
        spoilt[1:] = bad
        state = {name: getattr(env, name) for name in (*STATE, "volatility", "elapsed_steps", "frozen")}
        counter = env.streams.counter.copy()
        expected = "expected an element of Box(-inf, inf, (2,), float32), of finite numbers"
        text = f"step(actions): {expected}, got {spoilt[1]} (sub-env 1)"
        for _ in range(2):
            with no_warnings(), pytest.raises(InvalidAction, match=re.escape(text)):
                env.step(spoilt)
        for name, value in state.items():
            np.testing.assert_array_equal(getattr(env, name), value)
        np.testing.assert_array_equal(env.streams.counter, counter)
        left, right = env.step(batch), free.step(batch)
        np.testing.assert_array_equal(left.observations, right.observations)
        np.testing.assert_array_equal(left.rewards, right.rewards)
        assert list(left.infos.columns) == list(right.infos.columns)
        assert_same(left.infos.columns.values(), right.infos.columns.values())
        assert left.truncated.tolist() == [step == 2] * 3


def test_a_refused_step_leaves_the_streams_of_frozen_sub_envs_too():
    env = MarketMakingVecEnv(3, n_steps=4, autoreset=False)
    env.reset(seed=1)
    env.episode_clock.began[1] -= 2  # as if it had begun two steps earlier
    for batch in random_actions(3, 3):
        env.step(batch)
    assert env.frozen.tolist() == [False, True, False] and env.streams.counter.tolist() == [3, 2, 3]
    with pytest.raises(InvalidAction, match="sub-env 2"):
        env.step([[0.5, 0.5], [np.nan, 0.5], [0.5, np.nan]])
    assert env.streams.counter.tolist() == [3, 2, 3]


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.zeros((3, 1)), np.zeros((3, 2, 1)), np.zeros(6), 0.0])
def test_actions_of_another_shape_are_refused(bad):
    env = MarketMakingVecEnv(3)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=re.escape("step(actions): expected shape (3, 2), got")):
        env.step(bad)
    assert env.elapsed_steps.tolist() == [0, 0, 0] and not env.streams.counter.any()


def test_actions_that_are_no_real_numbers_are_refused():
    env = MarketMakingVecEnv(1)
    env.reset(seed=0)
    for bad in ([["a", "b"]], [[1j, 0]]):
        with pytest.raises(ValueError, match=re.escape("step(actions): expected dtype float32, got")):
            env.step(bad)


@pytest.mark.parametrize(
    "form",
    [
        lambda batch: batch.astype(np.float64),
        np.asfortranarray,
        lambda batch: np.repeat(batch, 2, axis=0)[::2],
        lambda batch: np.concatenate([batch, batch], axis=1)[:, 2:],
        lambda batch: batch[:, ::-1].copy()[:, ::-1],
        lambda batch: batch.astype(">f4"),
        lambda batch: batch.tolist(),
        lambda batch: [tuple(row) for row in batch],
    ],
)
def test_actions_of_any_form(form):
    actions = random_actions(4, 6)
    plain = play(MarketMakingVecEnv(6), actions)
    assert_same(plain, play(MarketMakingVecEnv(6), [form(batch) for batch in actions]))


def test_whole_distances_may_be_integers():
    assert_same(*(play(MarketMakingVecEnv(2), np.ones((4, 2, 2), dtype)) for dtype in (np.int64, np.float32)))


@pytest.mark.parametrize("autoreset", [True, False])
def test_actions_are_read_and_never_kept_or_written(autoreset):
    env, free = (MarketMakingVecEnv(4, n_steps=3, autoreset=autoreset) for _ in range(2))
    for each in (env, free):
        each.reset(seed=0)
    for batch in random_actions(7, 4):
        given = batch.copy()
        given.flags.writeable = False
        result = env.step(given)
        given.flags.writeable = True
        np.testing.assert_array_equal(given, batch)
        given[:] = np.nan
        np.testing.assert_array_equal(result.rewards, free.step(batch).rewards)


# -- parameters -------------------------------------------------------------------------------------------


@EACH
def test_an_array_is_one_number_for_each(name):
    values = np.array([0.5, 1.0, 2.0]) * DEFAULTS[name]
    env = MarketMakingVecEnv(3, **{name: values})
    seeds, actions = [11, 12, 13], random_actions(8, 3)
    together = play(env, actions, seeds)
    for row, value in enumerate(values.tolist()):
        alone = MarketMakingVecEnv(1, **{name: value})
        assert_same(
            [column[:, row : row + 1] for column in together], play(alone, actions[:, row : row + 1], [seeds[row]])
        )
    assert env.get_attr(name) == getattr(env.params, name).tolist() == values.tolist()
    values[:] = 77.0
    assert env.get_attr(name)[0] == 0.5 * DEFAULTS[name]


@EACH
def test_an_array_of_one_and_the_same_number_is_that_number(name):
    actions = random_actions(8, 3)
    assert_same(
        *(play(MarketMakingVecEnv(3, **{name: value}), actions) for value in ([DEFAULTS[name]] * 3, DEFAULTS[name]))
    )


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_changes_from_the_next_step_on(name):
    """It then is as if it had been so all the time, but for what has happened."""
    env, before, after = (
        MarketMakingVecEnv(3, n_steps=6, **{name: value})
        for value in (DEFAULTS[name], DEFAULTS[name], DEFAULTS[name] / 2)
    )
    for each in (env, before, after):
        each.reset(seed=0)
    batches = random_actions(12, 3)
    for batch in batches[:4]:
        env.step(batch), before.step(batch), after.step(batch)
    env.set_attr(name, DEFAULTS[name] / 2)
    assert env.get_attr(name) == [DEFAULTS[name] / 2] * 3 and getattr(env.params, name) == DEFAULTS[name] / 2
    changed, same, other = (each.step(batches[4]).infos.columns for each in (env, before, after))
    if name == "initial_price":  # which only a new episode asks for
        np.testing.assert_array_equal(changed["mid_price"], same["mid_price"])
    elif name == "volatility":
        moves = changed["mid_price"] - 100.0, same["mid_price"] - 100.0, other["mid_price"] - 100.0
        assert (moves[0] != moves[1]).all() and (moves[0] != moves[2]).all()
    else:
        np.testing.assert_array_equal(changed["bid_filled"], other["bid_filled"])
        np.testing.assert_array_equal(changed["ask_filled"], other["ask_filled"])
    env.step(batches[5]), after.step(batches[5])
    for batch in batches[6:]:  # a new episode
        left, right = env.step(batch), after.step(batch)
        np.testing.assert_array_equal(left.rewards, right.rewards)
        np.testing.assert_array_equal(left.infos.columns["mid_price"], right.infos.columns["mid_price"])
        np.testing.assert_array_equal(left.observations, right.observations)


@EACH
def test_a_list_sets_one_for_each_sub_env(name):
    values = [DEFAULTS[name], 2.0 * DEFAULTS[name], 0.5 * DEFAULTS[name]]
    env = MarketMakingVecEnv(3)
    env.reset(seed=0)
    env.set_attr(name, values)
    assert env.get_attr(name) == values and getattr(env.params, name).tolist() == values
    actions = random_actions(5, 3)
    assert_same(play(env, actions), play(MarketMakingVecEnv(3, **{name: values}), actions))
    env.set_attr(name, DEFAULTS[name])
    assert env.get_attr(name) == [DEFAULTS[name]] * 3
    assert_same(play(env, actions), play(MarketMakingVecEnv(3), actions))


@pytest.mark.parametrize("start", [2.0, [1.0, 2.0, 3.0], Randomized(1, 2)])
@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        (-1.0, ValueError, "volatility: expected a finite number of at least 0, got -1.0"),
        (np.nan, ValueError, "volatility: expected a finite number, got nan"),
        ([1.0, 2.0, -1.0], ValueError, "volatility: expected a finite number of at least 0, got -1.0 (sub-env 2)"),
        ("2", TypeError, "volatility: expected "),
        (None, TypeError, "volatility: expected "),
        ([1.0, 2.0], ValueError, "set_attr('volatility'): expected 3 values (num_envs), got a list of 2"),
    ],
)
def test_a_bad_value_changes_nothing(start, bad, error, text):
    env, free = (MarketMakingVecEnv(3, volatility=start, n_steps=3) for _ in range(2))
    for each in (env, free):
        each.reset(seed=0)
    with pytest.raises(error, match=re.escape(text)):
        env.set_attr("volatility", bad)
    with pytest.raises(ValueError, match=re.escape("volatility: expected 3 values (num_envs), got 2")):
        env.volatility = [1.0, 2.0]
    np.testing.assert_array_equal(env.params.volatility, free.params.volatility)
    for batch in random_actions(7, 3):
        np.testing.assert_array_equal(env.step(batch).rewards, free.step(batch).rewards)
        np.testing.assert_array_equal(env.volatility, free.volatility)


# -- parameters that are drawn ----------------------------------------------------------------------------

RANGES = {
    "initial_price": Randomized(80, 120),
    "volatility": Randomized(1, 3),
    "arrival_rate": Randomized(100, 180),
    "fill_decay": Randomized(1, 2),
}


def draw(env, name, resets=5, seed=0):
    """A parameter after each of some resets, (resets, N)."""
    drawn = []
    for reset in range(resets):
        env.reset(seed=seed if reset == 0 else None)
        drawn.append(getattr(env, name))
    return np.array(drawn)


@EACH
def test_a_range_is_drawn_from_uniformly_at_each_reset(name):
    bounds, num_envs = RANGES[name], 1000
    env = MarketMakingVecEnv(num_envs, **{name: bounds})
    drawn = draw(env, name)
    assert getattr(env.params, name) is bounds
    assert ((drawn >= bounds.low) & (drawn <= bounds.high)).all()
    tenths = np.floor(10.0 * (drawn - bounds.low) / (bounds.high - bounds.low)).ravel()
    counts = np.bincount(tenths.astype(int), minlength=10)
    expected = drawn.size / 10
    assert np.sum((counts - expected) ** 2 / expected) < 27.9  # chi-square of 9: once in a thousand
    assert len(np.unique(drawn)) == drawn.size
    for one, next_one in zip(drawn, drawn[1:], strict=False):
        assert abs(np.corrcoef(one, next_one)[0, 1]) < 4.0 / num_envs**0.5  # from one episode to the next
        assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 4.0 / num_envs**0.5  # and from one sub-env to the next


@form
def test_drawn_parameters_are_independent_of_each_other():
    env = MarketMakingVecEnv(1000, **RANGES)
    env.reset(seed=1)
    correlations = np.corrcoef([getattr(env, name) for name in PARAMETERS])
    assert np.abs(correlations - np.eye(4)).max() < 4.0 / 1000**0.5


@EACH
def test_what_is_drawn_follows_from_the_seed_of_the_sub_env_alone(name):
    seeds = [5, 6, 7, 8]
    together = draw(MarketMakingVecEnv(4, **{name: RANGES[name]}), name, seed=seeds)
    np.testing.assert_array_equal(together, draw(MarketMakingVecEnv(4, **{name: RANGES[name]}), name, seed=seeds))
    alone = draw(MarketMakingVecEnv(1, **{name: RANGES[name]}), name, seed=[7])
    np.testing.assert_array_equal(together[:, 2:3], alone)
    other = draw(MarketMakingVecEnv(4, **{name: RANGES[name]}), name, seed=[5, 6, 9, 8])
    assert (together[:, 2] != other[:, 2]).all()
    np.testing.assert_array_equal(np.delete(together, 2, axis=1), np.delete(other, 2, axis=1))


@form
def test_a_drawn_parameter_is_in_force_and_drawn_anew_at_autoreset():
    env = MarketMakingVecEnv(5, n_steps=3, **RANGES)
    reset = env.reset(seed=3)
    assert [info["mid_price"] for info in reset.infos] == env.get_attr("initial_price") == env.get_attr("mid_price")
    before = [getattr(env, name) for name in PARAMETERS]
    np.testing.assert_array_equal([reset.infos.columns[name] for name in PARAMETERS], before)
    episode = []
    for batch in random_actions(3, 5):
        np.testing.assert_array_equal([getattr(env, name) for name in PARAMETERS], before)
        result = env.step(batch)
        episode.append(result.rewards)
    after = [getattr(env, name) for name in PARAMETERS]
    assert (np.array(before) != np.array(after)).all()
    np.testing.assert_array_equal([result.infos.columns[name] for name in PARAMETERS], before)
    np.testing.assert_array_equal([result.infos.final("reset_info")[name] for name in PARAMETERS], after)
    assert [info["reset_info"]["mid_price"] for info in result.infos] == env.get_attr("initial_price")
    # Its rewards are those of a market whose parameters were given, once its streams stand where these stood.
    given = MarketMakingVecEnv(5, n_steps=3, **dict(zip(PARAMETERS, before, strict=True)))
    given.reset(seed=3)
    given.streams.counter[:] = 4
    for batch, rewards in zip(random_actions(3, 5), episode, strict=True):
        np.testing.assert_array_equal(given.step(batch).rewards, rewards)


@form
def test_only_the_sub_envs_that_are_reset_draw():
    env = MarketMakingVecEnv(3, n_steps=4, max_episode_steps=4, **RANGES)
    env.reset(seed=0)
    env.episode_clock.began[1] -= 2  # as if it had begun two steps earlier
    before = env.volatility
    env.step(np.zeros((3, 2)))
    env.step(np.zeros((3, 2)))
    assert (env.volatility != before).tolist() == [False, True, False]


def test_before_the_first_reset_a_drawn_parameter_is_in_the_middle():
    env = MarketMakingVecEnv(2, volatility=Randomized(1, 3))
    assert env.get_attr("volatility") == [2.0, 2.0]


def test_a_range_of_one_number_is_that_number():
    env = MarketMakingVecEnv(4, volatility=Randomized(2, 2))
    env.reset(seed=0)
    assert env.get_attr("volatility") == [2.0] * 4


@pytest.mark.parametrize("start", [2.0, [1.0, 2.0, 3.0], Randomized(5, 6)])
def test_a_range_may_be_set_and_taken_back(start):
    env = MarketMakingVecEnv(3, volatility=start)
    env.set_attr("volatility", Randomized(1, 3))
    assert env.params.volatility == Randomized(1, 3)
    direct = draw(MarketMakingVecEnv(3, volatility=Randomized(1, 3)), "volatility")
    np.testing.assert_array_equal(draw(env, "volatility"), direct)
    env.set_attr("volatility", 2.5)
    assert env.get_attr("volatility") == [2.5] * 3
    env.reset()
    assert env.get_attr("volatility") == [2.5] * 3


def test_the_order_in_which_ranges_were_set_does_not_matter():
    direct, later = MarketMakingVecEnv(3, **RANGES), MarketMakingVecEnv(3)
    for name in reversed(PARAMETERS):
        later.set_attr(name, RANGES[name])
    for env in (direct, later):
        env.reset(seed=0)
    for name in PARAMETERS:
        np.testing.assert_array_equal(getattr(direct, name), getattr(later, name))


def test_setting_one_parameter_leaves_the_others_as_drawn():
    env = MarketMakingVecEnv(3, **RANGES)
    env.reset(seed=0)
    before = {name: getattr(env, name) for name in PARAMETERS}
    env.set_attr("volatility", 2.0)
    for name in ("initial_price", "arrival_rate", "fill_decay"):
        np.testing.assert_array_equal(getattr(env, name), before[name])


# -- what is returned -------------------------------------------------------------------------------------


def scribble(array):
    """Write into an array, or into what it was made of, if it lets anybody."""
    if array.flags.writeable:
        array[...] = True if array.dtype == bool else 1e9


@pytest.mark.parametrize("num_envs", [1, 5, pytest.param(2_500, marks=[pytest.mark.compiled, pytest.mark.slow])])
@pytest.mark.parametrize("autoreset", [True, pytest.param(False, marks=form)])
def test_writing_into_what_is_returned_changes_nothing(autoreset, num_envs):
    env, free = (MarketMakingVecEnv(num_envs, n_steps=3, autoreset=autoreset, observe="full") for _ in range(2))
    begun, same = env.reset(seed=0), free.reset(seed=0)
    scribble(begun.observations)
    for column in begun.infos.columns.values():
        scribble(column)
    for batch in random_actions(8, num_envs):
        result, same = env.step(batch), free.step(batch)
        for name in ("observations", "rewards", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(result, name), getattr(same, name))
            scribble(getattr(result, name))
        assert_same(result.infos.columns.values(), same.infos.columns.values())
        for column in result.infos.columns.values():
            scribble(column)
        if autoreset and result.infos.done.size:
            assert_same(*(each.final("final_observation") for each in (result.infos, same.infos)))
            scribble(result.infos.final("final_observation"))
        for name in STATE:
            np.testing.assert_array_equal(getattr(env, name), getattr(free, name))
            scribble(getattr(env, name))


@pytest.mark.parametrize(
    "num_envs",
    [1, 5, pytest.param(2_500, marks=[pytest.mark.compiled, pytest.mark.slow])],
    ids=["one", "few", "recycled memory"],
)
@pytest.mark.parametrize("autoreset", [True, pytest.param(False, marks=form)])
def test_what_is_returned_never_changes(autoreset, num_envs):
    env = MarketMakingVecEnv(num_envs, n_steps=4, autoreset=autoreset, volatility=Randomized(1, 2))
    held = []
    for run in range(3):
        held.append(parts(env.reset(seed=run)))
        for step, batch in enumerate(random_actions(10, num_envs)):
            taken = parts(env.step(batch))
            if step % 3:  # the others are let go at once, so that their memory is used again
                held.append(taken)
    for arrays, copies in held:
        assert_same(arrays, copies)


def parts(result):
    """All arrays of a result, and copies of them."""
    arrays = [result.observations, *result.infos.columns.values()]
    if hasattr(result, "rewards"):
        arrays += [result.rewards, result.terminated, result.truncated]
        if "final_observation" in result.infos[0]:
            arrays += [result.infos.final("final_observation"), *result.infos.final("reset_info").values()]
    return arrays, [array.copy() for array in arrays]


@pytest.mark.parametrize("num_envs", [2, pytest.param(2_500, marks=[pytest.mark.compiled, pytest.mark.slow])])
def test_a_deep_copy_goes_its_own_way(num_envs):
    env = MarketMakingVecEnv(num_envs, n_steps=3, volatility=Randomized(1, 2))
    env.reset(seed=0)
    actions = random_actions(8, num_envs)
    env.step(actions[0])
    twin = copy.deepcopy(env)
    expected = [env.step(batch).rewards for batch in actions]
    got = [twin.step(batch).rewards for batch in actions]
    assert_same(expected, got)


@pytest.mark.long
@pytest.mark.compiled
def test_a_hundred_thousand():
    num_envs, some = 100_000, [0, 1, 49_999, 50_000, 99_999]
    env = MarketMakingVecEnv(num_envs, n_steps=3, observe="full", volatility=Randomized(1, 2))
    few = MarketMakingVecEnv(len(some), n_steps=3, observe="full", volatility=Randomized(1, 2))
    seeds = np.arange(num_envs) + 17
    actions = random_actions(5, num_envs)
    many, few = play(env, actions, seeds), play(few, actions[:, some], seeds[some])
    assert_same([column[:, some] for column in many], few)


# -- construction -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARAMETERS)
def test_as_many_values_as_sub_envs(name):
    text = f"{name}: expected 3 values (num_envs), got 2"
    with pytest.raises(ValueError, match=re.escape(text)):
        MarketMakingVecEnv(3, **{name: [DEFAULTS[name]] * 2})


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        ({"num_envs": 0}, ValueError, "num_envs: expected at least 1, got 0"),
        ({"num_envs": 2.0}, TypeError, "num_envs: expected an integer, got float"),
        ({"initial_price": 0}, ValueError, "initial_price: expected a finite number above 0, got 0.0"),
        ({"initial_price": [-1.0]}, ValueError, "initial_price: expected a finite number above 0, got -1.0"),
        (
            {"initial_price": Randomized(0, 1)},
            ValueError,
            "initial_price: expected a finite number above 0, got 0.0",
        ),
        *(
            ({name: -1e-9}, ValueError, f"{name}: expected a finite number of at least 0, got -1e-09")
            for name in PARAMETERS[1:]
        ),
        *(({name: "2"}, TypeError, f"{name}: expected a number, one per sub-env, or") for name in PARAMETERS),
        *(({name: None}, TypeError, f"{name}: expected a number, one per sub-env, or") for name in PARAMETERS),
        *(({name: True}, TypeError, f"{name}: expected a number, one per sub-env, or") for name in PARAMETERS),
        *(({name: np.inf}, ValueError, f"{name}: expected a finite number") for name in PARAMETERS),
        *(({name: [[1.0]]}, ValueError, f"{name}: expected one number per sub-env, got") for name in PARAMETERS),
        *(({name: [True]}, TypeError, f"{name}: expected a number, one per sub-env, or") for name in PARAMETERS),
        ({"horizon": 0.0}, ValueError, "horizon: expected a finite number above 0, got 0.0"),
        ({"horizon": np.inf}, ValueError, "horizon: expected a finite number, got inf"),
        ({"n_steps": 0}, ValueError, "n_steps: expected a finite number of at least 1, got 0"),
        ({"n_steps": 2**31}, ValueError, "n_steps: expected a finite number of at most 2.14748e+09, got 2147483648"),
        ({"n_steps": 10.0}, TypeError, "n_steps: expected an integer, got float"),
        ({"n_steps": None}, TypeError, "n_steps: expected an integer, or one per sub-env, got None"),
        ({"max_inventory": 0}, ValueError, "max_inventory: expected a finite number of at least 1, got 0"),
        ({"max_inventory": 10**400}, ValueError, "max_inventory: expected an integer of 64 bits, got 1000"),
        ({"max_inventory": np.inf}, TypeError, "max_inventory: expected an integer, got float"),
        (
            {"max_inventory": True},
            TypeError,
            "max_inventory: expected an integer, or one per sub-env or None, got True",
        ),
        ({"fill_rule": "sure"}, ValueError, "fill_rule: expected 'linear' or 'exact', got 'sure'"),
        ({"fill_rule": None}, TypeError, "fill_rule: expected a string, got None"),
        ({"clip_quotes": 1}, TypeError, "clip_quotes: expected a bool, got 1"),
        ({"clip_quotes": "no"}, TypeError, "clip_quotes: expected a bool, got 'no'"),
        (
            {"midprice": "heston"},
            ValueError,
            "midprice: expected 'brownian' or 'geometric' or 'ou' or 'jumps', got 'heston'",
        ),
        (
            {"reward": "profit"},
            ValueError,
            "reward: expected 'pnl' or 'running_penalty' or 'exp_utility', got 'profit'",
        ),
        ({"observe": ["full"]}, TypeError, "observe: expected a string, got ['full']"),
        ({"drift": np.nan}, ValueError, "drift: expected a finite number, got nan"),
        ({"mean_reversion": 0.0}, ValueError, "mean_reversion: expected a finite number above 0, got 0.0"),
        ({"mean_price": "100"}, TypeError, "mean_price: expected a number, one per sub-env, or"),
        ({"mean_price": np.inf}, ValueError, "mean_price: expected a finite number, got inf"),
        ({"jump_rate": -1.0}, ValueError, "jump_rate: expected a finite number of at least 0, got -1.0"),
        ({"jump_rate": 20_001.0}, ValueError, "jump_rate: expected at most 100 jumps per step, got 100.005"),
        ({"jump_mean": None}, TypeError, "jump_mean: expected a number, one per sub-env, or"),
        ({"jump_mean": 701.0}, ValueError, "jump_mean, jump_sd: expected jump_mean + jump_sd^2 / 2"),
        ({"jump_sd": 1e200}, ValueError, "jump_mean, jump_sd: expected jump_mean + jump_sd^2 / 2"),
        ({"jump_sd": -0.1}, ValueError, "jump_sd: expected a finite number of at least 0, got -0.1"),
        (
            {"inventory_penalty": -1.0},
            ValueError,
            "inventory_penalty: expected a finite number of at least 0, got -1.0",
        ),
        ({"terminal_penalty": np.nan}, ValueError, "terminal_penalty: expected a finite number, got nan"),
        ({"risk_aversion": 0}, ValueError, "risk_aversion: expected a finite number above 0, got 0.0"),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps: expected at least 1, got 0"),
        ({"autoreset_options": 3}, TypeError, "autoreset_options: expected a dict, a callable"),
    ],
)
def test_bad_arguments_are_refused(argument, error, text):
    with pytest.raises(error, match=re.escape(text)):
        MarketMakingVecEnv(**{"num_envs": 1, **argument})


def test_arguments_are_named():
    with pytest.raises(TypeError, match="positional"):
        MarketMakingVecEnv(1, 100.0)
    with pytest.raises(TypeError, match="sigma"):
        MarketMakingVecEnv(1, sigma=2.0)


#: Plain Python warns where numbers leave their range on purpose.
compiled = [pytest.mark.slow, pytest.mark.compiled]


@pytest.mark.parametrize(
    "terms",
    [
        {"fill_decay": 1e300},
        {"arrival_rate": 1e300},
        pytest.param({"arrival_rate": [1e300]}, marks=form),
        pytest.param({"volatility": 1e200, "midprice": "geometric"}, marks=compiled),
        {"horizon": 1e308},
        {"horizon": 5e-324},
        {"n_steps": 2**31 - 1},
        {"max_inventory": 2**53},
        pytest.param({"mean_reversion": 1e308, "midprice": "ou"}, marks=compiled),
    ],
)
def test_the_most_extreme_parameters_allowed_give_no_nan(terms):
    env = MarketMakingVecEnv(1, **terms)
    env.reset(seed=0)
    for distance in (0.0, 1.0, -1.0):
        with no_warnings():
            result = env.step(np.full((1, 2), distance))
        assert not np.isnan(result.observations).any() and not np.isnan(result.rewards).any()
        assert env.batch_observation_space.contains(result.observations)


# -- messages and absurd values ------------------------------------------------------------------------------


def test_a_market_of_one_names_no_sub_env():
    """It may be a sub-env of another vector env, which counts it otherwise."""
    with pytest.raises(InvalidAction, match=r"got \[nan nan\]$"):
        one = MarketMakingVecEnv(1)
        one.reset(seed=0)
        one.step(np.full((1, 2), np.nan))


def test_one_range_is_for_all_sub_envs():
    vec = MarketMakingVecEnv(2)
    with pytest.raises(ValueError, match=r"volatility: expected one Randomized\(low, high\) for all sub-envs, got"):
        vec.set_attr("volatility", [Randomized(1, 2), Randomized(3, 4)])
    vec.set_attr("volatility", [Randomized(1, 2)] * 2)
    assert vec.params.volatility == Randomized(1, 2) and vec.volatility.tolist() == [1.5, 1.5]


def test_bools_are_no_numbers_whatever_was_there_before():
    vec = MarketMakingVecEnv(3)
    for before in (2.0, [1.0, 2.0, 3.0]):
        vec.set_attr("volatility", before)
        for value in (True, [True] * 3):
            with pytest.raises(TypeError, match="volatility: expected"):
                vec.set_attr("volatility", value)


@form
def test_a_price_that_jumps_from_nothing_is_a_number():
    """The two factors of such a step are 0 and infinite."""
    vec = MarketMakingVecEnv(
        3, midprice="jumps", jump_rate=100.0, n_steps=1, volatility=0.1, jump_mean=8.0, jump_sd=0.1
    )
    vec.reset(seed=0)
    result = vec.step(np.full((3, 2), 0.5))
    assert np.isfinite(result.infos.columns["mid_price"]).all() and np.isfinite(result.rewards).all()
