"""``Trading-v0`` with a price model: the account of the history, along a path that each episode draws."""

from __future__ import annotations

import numpy as np
import pytest
from naive_prices import NaiveGeometric, NaiveHeston
from naive_trading import NaiveTrader

import sekai
import sims
from sekai.kernels import jit
from sekai.rollouts import history_clock
from sekai.vector import Randomized
from sims.prices import Brownian, Geometric, Heston
from sims.trading import BuyAndHold, Momentum, SimulatedTradingVecEnv, TradingVecEnv

MODEL = Geometric(drift=0.1, volatility=0.8)
TERMS = {"prices": MODEL, "lookback": 4, "episode_length": 9, "actions": "weight", "transaction_cost": 0.01}
#: Each of them draws some 60 bars: ruined by short positions, as the market is a wild one, and with large costs.
WILD = TERMS | {"bar_time": 0.25, "borrow_rate": 0.05, "transaction_cost": 0.2, "reward": "return"}


@pytest.fixture(autouse=True)
def registered():
    """Where the package is not installed, nothing announces its markets."""
    if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()


def random_weights(seed, shape):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(-1.0, 1.0, shape)
    return np.where(rng.random(shape) < 0.3, rng.integers(-1, 2, shape), weights).astype(np.float32)


def play_by_hand(terms, model, twin, seed, weights):
    """What one sub-env sees, gets and tells, step by step, with its episodes one after the other."""
    path, lookback, length = None, terms["lookback"], terms["episode_length"]
    names = ("transaction_cost", "borrow_rate", "reward")
    told = {name: terms[name] for name in names if name in terms}
    counter, records = 0, []
    for weight in weights:
        if path is None:
            prices = twin(model, terms.get("bar_time", 1.0 / 252.0), seed, terms.get("initial_price", 100.0))
            prices.draws.counter += counter
            path = prices.path(lookback)
            trader = NaiveTrader(path, None, lookback, lookback + length, lookback=lookback, **told)
            records.append(("reset", trader.observation()))
        path.append(prices.path(1)[1])
        trader.closes = path
        reward, terminated, truncated, info = trader.step(float(weight))
        del info["bar"]
        records.append((reward, terminated, truncated, info, trader.observation()))
        if terminated or truncated:
            path, counter = None, prices.draws.counter
    return records


@pytest.mark.parametrize("terms", [TERMS, pytest.param(WILD, marks=pytest.mark.form)], ids=["calm", "wild"])
def test_an_account_equals_its_twin_along_the_path_of_the_model(terms):
    steps, seeds = 30, [3, 4, 5, 6, 7, 8]
    weights = random_weights(1, (steps, len(seeds)))
    vec = SimulatedTradingVecEnv(len(seeds), **terms)
    first = vec.reset(seed=seeds)
    results = [vec.step(row[:, None]) for row in weights]
    ends = []
    for i, seed in enumerate(seeds):
        records = play_by_hand(terms, terms["prices"], NaiveGeometric, seed, weights[:, i].tolist())
        assert first.observations[i].tolist() == records.pop(0)[1]
        for result in results:
            reward, terminated, truncated, info, observation = records.pop(0)
            assert (result.rewards[i], result.terminated[i], result.truncated[i]) == (reward, terminated, truncated)
            told = dict(result.infos[i])
            if terminated or truncated:
                assert told.pop("final_observation").tolist() == observation
                assert told.pop("final_info") == info
                told.pop("reset_info")
                ends.append(terminated)
                if records:
                    observation = records.pop(0)[1]
            assert {name: told[name] for name in info} == info
            if records:
                assert result.observations[i].tolist() == observation
    assert len(ends) > 12 and any(ends) == (terms is WILD)


@pytest.mark.form
def test_a_model_with_a_state_and_parameters_that_differ():
    model = Heston(drift=[0.0, 0.2], variance0=0.04, volatility=Randomized(0.2, 0.3))
    terms = TERMS | {"prices": model, "bar_time": 0.02, "initial_price": 50.0}
    vec = SimulatedTradingVecEnv(2, **terms)
    told = vec.reset(seed=[1, 2]).infos.columns["prices.volatility"]
    weights = random_weights(2, (8, 2))
    results = [vec.step(row[:, None]) for row in weights]
    for i in range(2):
        record = model._replace(drift=model.drift[i], volatility=told[i])

        def twin(*arguments):
            made = NaiveHeston(*arguments)
            made.draws.counter = 1  # the parameter was drawn first
            return made

        by_hand = play_by_hand(terms, record, twin, 1 + i, weights[:, i].tolist())[1:]
        assert [result.rewards[i] for result in results] == [each[0] for each in by_hand]
        assert [result.observations[i].tolist() for result in results] == [each[4] for each in by_hand]


def test_the_id_takes_either():
    with sekai.make_vec("Trading-v0", 2, **TERMS) as vec:
        assert isinstance(vec.unwrapped, SimulatedTradingVecEnv)
        assert history_clock(vec) is None  # no two episodes share their prices
        assert vec.get_attr("prices")[0] == MODEL
        assert vec.get_attr("details")[0] == {"prices": f"drawn from {MODEL}", "execution": "close"}
        assert "bar" not in vec.reset(seed=0).infos[0]
        for builder in (BuyAndHold, Momentum):
            policy = builder.for_env(vec)
            assert policy(vec.reset(seed=1).observations).shape == (2, 1)
    with sekai.make_vec("Trading-v0", 2, prices="sp500") as vec:
        assert isinstance(vec.unwrapped, TradingVecEnv) and history_clock(vec) == "bar"


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ({"prices": Brownian()}, ValueError, "prices: expected a model whose prices stay above 0, got Brownian"),
        ({"prices": Geometric(volatility=-1.0)}, ValueError, "prices.volatility: expected .* got -1.0"),
        ({"execution": "open"}, ValueError, "execution='open': expected 'close', since a price model has no opens"),
        ({"execution": "vwap"}, ValueError, "execution: expected 'open' or 'close', got 'vwap'"),
        ({"execution": ""}, ValueError, "execution: expected 'open' or 'close', got ''"),
        ({"execution": False}, ValueError, "execution: expected 'open' or 'close', got False"),
        ({"bar_time": 0.0}, ValueError, "bar_time: expected a finite number above 0, got 0.0"),
        ({"initial_price": 1e31}, ValueError, r"initial_price: expected a finite number of at most 1e\+30"),
        ({"lookback": 0}, ValueError, "lookback: expected"),
        ({"episode_length": 0}, ValueError, "episode_length: expected"),
        ({"transaction_cost": 1.0}, ValueError, r"transaction_cost: expected a number in \[0, 1\), got 1.0"),
        ({"reward": "sharpe"}, ValueError, "reward: expected"),
        ({"zero_volume": "drop"}, TypeError, r"SimulatedTradingVecEnv\(\) got an unexpected keyword argument"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_go_with_a_model_is_refused_by_name(terms, error, message):
    with pytest.raises(error, match=message):
        sekai.make_vec("Trading-v0", 2, **{"prices": MODEL, **terms})


def test_a_misspelt_argument_is_met_by_those_of_either():
    with pytest.raises(TypeError, match=r"no argument 'bartime' \(did you mean 'bar_time'.*execution.*initial_price"):
        sekai.make_vec("Trading-v0", 2, bartime=1.0)
    with pytest.raises(TypeError, match=r"prices: expected a history, got Geometric.*for SimulatedTradingVecEnv"):
        TradingVecEnv(2, prices=MODEL)


@pytest.mark.form
def test_an_episode_ends_where_the_price_leaves_its_range():
    climbing = Geometric(drift=20.0 * 252.0, volatility=0.0)
    vec = SimulatedTradingVecEnv(3, **TERMS | {"prices": climbing, "initial_price": 1e-30})
    vec.reset(seed=0)
    assert vec.step(np.full((3, 1), -1.0, np.float32)).terminated.all()
    vec.reset(seed=0)
    idle = np.zeros((3, 1), np.float32)
    for _ in range(3):
        assert not vec.step(idle).truncated.any()
    result = vec.step(idle)  # eight bars of e^20 from 1e-30, of which four came before the episode
    assert result.truncated.all() and not result.terminated.any() and (result.rewards == 0.0).all()
    assert [info["final_info"]["price"] for info in result.infos] == [1e38] * 3
    assert np.isfinite(result.infos[0]["final_observation"]).all()


@pytest.mark.form
def test_what_is_drawn_later_changes_no_trade():
    first, second = (SimulatedTradingVecEnv(4, **TERMS) for _ in range(2))
    for vec in (first, second):
        vec.reset(seed=2)
        vec.step(np.full((4, 1), 0.5, np.float32))
    second.set_attr("prices", MODEL._replace(volatility=3.0))
    left, right = (vec.step(np.full((4, 1), -0.7, np.float32)).infos.columns for vec in (first, second))
    for name in ("fill_price", "units_traded", "cost", "turnover"):
        np.testing.assert_array_equal(left[name], right[name])
    assert (left["price"] != right["price"]).all() and (left["wealth"] != right["wealth"]).all()


@pytest.mark.long
@pytest.mark.parametrize("mode", [pytest.param("sync", marks=pytest.mark.long), "proc"])
def test_backends_agree(mode):
    kwargs = TERMS | {"prices": Heston(drift=Randomized(0.0, 0.1))}
    native, other = (sekai.make_vec("Trading-v0", 3, vectorization_mode=name, **kwargs) for name in ("native", mode))
    with native, other:
        left, right = (vec.reset(seed=7) for vec in (native, other))
        for row in random_weights(3, (20, 3)):
            np.testing.assert_array_equal(left.observations, right.observations)
            left, right = (vec.step(row[:, None]) for vec in (native, other))
            np.testing.assert_array_equal(left.rewards, right.rewards)
            np.testing.assert_array_equal(left.truncated, right.truncated)


@pytest.mark.long
def test_the_checker_finds_no_problem():
    def factory(num_envs, **kwargs):
        return SimulatedTradingVecEnv(num_envs, **{**TERMS, "prices": Heston()}, **kwargs)

    findings = sekai.check_vec_env(factory)
    assert [each for each in findings if not each.startswith("hint: ")] == []


@pytest.mark.form
def test_a_compiled_rollout_has_the_same_numbers():
    @jit
    def follow(observation, action):
        action[0] = 1.0 if observation[3] > 0.0 else -0.5

    rolled = sekai.rollout(SimulatedTradingVecEnv(5, **TERMS), follow, 30, seed=0, progress=False)
    vec = sekai.VecWrapper(SimulatedTradingVecEnv(5, **TERMS))
    stepped = sekai.rollout(vec, follow, 30, seed=0, progress=False)
    for name in ("observations", "rewards", "truncated"):
        np.testing.assert_array_equal(getattr(rolled, name), getattr(stepped, name))


@pytest.mark.form
@pytest.mark.compiled
def test_buying_and_holding_grows_as_the_model_says():
    terms = TERMS | {"prices": Geometric(0.05, 0.2), "transaction_cost": 0.0, "episode_length": 63}
    vec = SimulatedTradingVecEnv(4000, **terms)
    record = sekai.rollout(vec, BuyAndHold.for_env(vec), 5 * 63, seed=5, progress=False)
    growth = record.episode_returns
    assert len(growth) == 20_000
    error = growth.std() / np.sqrt(len(growth))
    assert abs(growth.mean() - (0.05 - 0.02) * 63 / 252) < 4.0 * error
    assert growth.std() == pytest.approx(0.2 * np.sqrt(63 / 252), rel=0.03)
