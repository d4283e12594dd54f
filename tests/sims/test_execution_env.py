"""``ExecutionVecEnv`` through the vector contract, and what it refuses."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest

import sekai
from sekai.errors import InvalidAction
from sekai.spaces import Box
from sekai.vector import Randomized
from sims.execution import ExecutionParams, ExecutionVecEnv
from sims.prices import Brownian, Heston, NoState

PARTS = ("spread", "temporary", "permanent", "transient", "noise")
RESET_INFOS = {"price", "unaffected_price", "units_left"}
STEP_INFOS = RESET_INFOS | {"units_traded", "fill_price", "shortfall", *(f"{part}_cost" for part in PARTS)}


class Lottery(NamedTuple):
    """A part that is no model of a price."""

    volatility: float = 1.0
    State, Derived = NoState, NoState


def shares(num_envs, share):
    return np.full((num_envs, 1), share, np.float32)


# -- what it is --------------------------------------------------------------------------------------------


def test_defaults():
    params = ExecutionVecEnv(2).params
    assert isinstance(params, ExecutionParams)
    assert (params.units, params.initial_price, params.horizon, params.n_steps, params.dt) == (1e6, 50.0, 5.0, 50, 0.1)
    assert (params.half_spread, params.temporary_impact, params.permanent_impact) == (0.0625, 2.5e-6, 2.5e-7)
    assert params.prices == Brownian(volatility=0.95) and params.transient_impact == 0.0
    assert (params.side, params.actions, params.reward, params.risk_aversion) == ("sell", "share", "currency", 0.0)


def test_by_its_id():
    spec = sekai.EnvSpec("OptimalExecution-v0", vector_entry_point="sims.execution.env:ExecutionVecEnv")
    with spec.make(n_steps=3) as env:
        assert env.reset(seed=0).observation.tolist() == [1.0, 1.0, 0.0, 0.0]
        result = env.step(np.array([0.25], np.float32))
        assert env.units_left == result.info["units_left"] == 750_000.0
        assert env.params.n_steps == 3


def test_what_is_observed():
    env = ExecutionVecEnv(4, n_steps=3, transient_impact=1e-6)
    assert env.action_space == Box(0.0, 1.0, (1,), np.float32)
    assert env.observation_space.shape == (4,) and env.observation_space.dtype == np.float32
    begun = env.reset(seed=0)
    assert begun.observations.tolist() == [[1.0, 1.0, 0.0, 0.0]] * 4
    for step in range(1, 4):
        result = env.step(shares(4, 0.4))
        seen = result.observations if step < 3 else result.infos.final("final_observation")
        assert env.batch_observation_space.contains(np.asarray(seen, np.float32))
        told = result.infos.columns
        np.testing.assert_allclose(seen[:, 0], told["units_left"] / 1e6, rtol=1e-6)
        np.testing.assert_allclose(seen[:, 1], 1.0 - step / 3, rtol=1e-6)
        np.testing.assert_allclose(seen[:, 2], 100.0 * (50.0 - told["price"]) / 50.0, rtol=1e-6)
        impact = 50.0 - told["price"] - (50.0 - told["unaffected_price"]) - 2.5e-7 * (1e6 - told["units_left"])
        np.testing.assert_allclose(seen[:, 3], 100.0 * impact / 50.0, atol=1e-6)
    profiled = ExecutionVecEnv(4, n_steps=3, volume_profile=[1.0, 1.0, 2.0])
    assert profiled.observation_space.shape == (5,)


def test_infos():
    env = ExecutionVecEnv(2, n_steps=2)
    assert list(env.reset(seed=0).infos) == [{"price": 50.0, "unaffected_price": 50.0, "units_left": 1e6}] * 2
    first, last = (env.step(shares(2, 0.5)).infos for _ in range(2))
    assert all(set(info) == STEP_INFOS for info in first)
    assert first[0]["units_traded"] == -5e5 and first[0]["fill_price"] == pytest.approx(50.0 - 0.0625 - 0.5)
    assert set(last[0]["reset_info"]) == RESET_INFOS and set(last[0]["final_info"]) == STEP_INFOS
    assert env.units_left.tolist() == [1e6, 1e6] and env.shortfall.tolist() == [0.0, 0.0]


def test_an_episode_ends_when_nothing_is_left():
    env = ExecutionVecEnv(3, n_steps=3)
    env.reset(seed=0)
    ends = [env.step(np.array([[share], [0.0], [0.9]], np.float32)) for share in (0.5, 1.0, 0.5)]
    assert [result.terminated.tolist() for result in ends] == [[False] * 3, [True, False, False], [False, True, True]]
    assert not any(result.truncated.any() for result in ends)


@pytest.mark.form
def test_a_time_limit_on_top_leaves_the_rest_where_it_is():
    env = ExecutionVecEnv(1, n_steps=5, max_episode_steps=2, prices=Brownian(volatility=0.0))
    env.reset(seed=0)
    results = [env.step(shares(1, 0.25)) for _ in range(2)]
    assert results[1].truncated.all() and not results[1].terminated.any()
    assert results[1].infos.columns["units_left"].tolist() == [562_500.0]


def test_a_changed_order_is_that_of_the_next_episode():
    env = ExecutionVecEnv(2, n_steps=3)
    env.reset(seed=0)
    env.step(shares(2, 0.5))
    env.set_attr("units", 1e5)
    env.set_attr("initial_price", 40.0)
    told = env.step(shares(2, 0.5)).infos.columns
    assert told["units_left"].tolist() == [250_000.0] * 2
    assert (told["shortfall"] < 2e6).all()  # still of the price at which it began
    result = env.step(shares(2, 0.5))
    assert result.infos.final("reset_info")["units_left"].tolist() == [1e5] * 2
    assert env.price.tolist() == [40.0] * 2 and result.observations[:, 0].tolist() == [1.0] * 2


def test_a_price_below_zero_is_traded_at():
    """Where noise takes it there; a price that were stopped would have another mean."""
    env = ExecutionVecEnv(64, n_steps=3, prices=Brownian(volatility=100.0))
    env.reset(seed=0)
    env.step(shares(64, 0.1))
    found = env.price
    assert (found < 0.0).any()
    told = env.step(shares(64, 0.1)).infos.columns
    paid = found - 0.0625 + 2.5e-6 / (5.0 / 3.0) * told["units_traded"]
    np.testing.assert_allclose(told["fill_price"], paid, rtol=1e-12)


# -- what it refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"units": 0.0}, "units: expected a finite number above 0, got 0.0"),
        ({"units": [1e6, -1.0]}, "units: expected a finite number above 0, got -1.0 (sub-env 1)"),
        ({"initial_price": -5.0}, "initial_price: expected a finite number above 0"),
        ({"horizon": 0.0}, "horizon: expected a finite number above 0"),
        ({"n_steps": 0}, "n_steps: expected a finite number of at least 1, got 0"),
        ({"horizon": 5e-324}, "horizon / n_steps: expected a finite number of at least 1e-30, got 0.0"),
        ({"half_spread": -0.1}, "half_spread: expected a finite number of at least 0"),
        ({"temporary_impact": -1e-9}, "temporary_impact: expected a finite number of at least 0"),
        ({"permanent_impact": Randomized(-1.0, 0.0)}, "permanent_impact: expected a finite number of at least 0"),
        ({"transient_impact": -1e-9}, "transient_impact: expected a finite number of at least 0"),
        ({"resilience": -1.0}, "resilience: expected a finite number of at least 0"),
        ({"risk_aversion": -1.0}, "risk_aversion: expected a finite number of at least 0"),
        ({"risk_volatility": -1.0}, "risk_volatility: expected a finite number of at least 0"),
        ({"side": "hold"}, "side: expected 'sell' or 'buy', got 'hold'"),
        ({"actions": "units"}, "actions: expected 'share' or 'rate', got 'units'"),
        ({"reward": "pnl"}, "reward: expected 'currency' or 'bps', got 'pnl'"),
        ({"prices": Brownian(volatility=-1.0)}, "prices.volatility: expected a finite number of at least 0"),
        ({"prices": Brownian(volatility=[1.0, -1.0])}, "got -1.0 (sub-env 1)"),
        ({"n_steps": 3, "volume_profile": [1.0, 2.0]}, "volume_profile: expected 3 volumes (n_steps), got an array of"),
        (
            {"n_steps": 2, "volume_profile": [1.0, 0.0]},
            "volume_profile: expected finite volumes above 0, got 0.0 in sl",
        ),
        (
            {"n_steps": 2, "volume_profile": [np.nan, 1.0]},
            "volume_profile: expected finite volumes above 0, got nan in",
        ),
        (
            {"prices": Heston(), "risk_aversion": 1e-6},
            "risk_volatility: expected a number where there is a risk_aversion and prices are not Brownian, got None",
        ),
        (
            {"temporary_impact": 2.5e-4},
            "half_spread, temporary_impact, permanent_impact, transient_impact: expected impacts that leave the price "
            "above 0, got 50 (initial_price) - 50.3125 for an even sale of 1e+06 units",
        ),
        ({"permanent_impact": [1e-6, 6e-5]}, "- 60.5625 for an even sale of 1e+06 units (sub-env 1)"),
        ({"transient_impact": 6e-5}, "expected impacts that leave the price above 0, got 50 (initial_price) - 60.8125"),
        ({"half_spread": 50.0}, "expected impacts that leave the price above 0, got 50 (initial_price) - 50.75"),
        ({"units": Randomized(1e6, 1e8)}, "expected impacts that leave the price above 0"),
        # Beyond these a cost, or what is divided by, would leave the range of a float64.
        ({"units": 1e200, "side": "buy"}, "units: expected a finite number of at most 1e+30, got 1e+200"),
        ({"units": 1e-200}, "units: expected a finite number of at least 1e-30, got 1e-200"),
        ({"initial_price": 1e-200}, "initial_price: expected a finite number of at least 1e-30, got 1e-200"),
        ({"permanent_impact": 1e200, "side": "buy"}, "permanent_impact: expected a finite number of at most 1e+30"),
        ({"risk_aversion": 1e300}, "risk_aversion: expected a finite number of at most 1e+30"),
        ({"risk_volatility": 1e200}, "risk_volatility: expected a finite number of at most 1e+30"),
        ({"prices": Brownian(volatility=1e200)}, "prices.volatility: expected a finite number of at most 1e+30"),
        (
            {"n_steps": 2, "volume_profile": [1e300, 1e-320]},
            "volume_profile: expected volumes of at least 1e-30 times their mean, got 1e-320 in slice 1",
        ),
    ],
)
def test_what_is_out_of_its_range_is_refused_by_name(terms, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ExecutionVecEnv(2, **terms)


def test_what_is_of_another_type_is_refused_by_name():
    for terms, message in (
        ({"units": "many"}, "units: expected a number"),
        ({"prices": (1.0, 2.0)}, "prices: expected"),
        ({"prices": Lottery()}, "prices: expected a price model"),
        ({"volume_profile": "flat"}, "volume_profile: expected an array or None"),
        ({"n_steps": 2.5}, "n_steps: expected an integer"),
        ({"speed": 1.0}, "speed"),
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            ExecutionVecEnv(2, **terms)


def test_an_impact_that_a_purchase_makes_is_not_too_large():
    ExecutionVecEnv(2, side="buy", temporary_impact=5e-4, permanent_impact=6e-5)


def test_what_only_a_slice_that_is_too_large_would_pay_is_not_refused():
    """Halving the time of a slice changes nothing for who trades evenly; who sells all at once, sells below 0."""
    env = ExecutionVecEnv(2, n_steps=100, prices=Brownian(volatility=0.0))
    env.reset(seed=0)
    told = env.step(shares(2, 1.0)).infos.columns
    np.testing.assert_allclose(told["fill_price"], 50.0 - 0.0625 - 2.5e-6 * 1e6 / 0.05)
    assert (told["fill_price"] < 0.0).all()


def test_what_a_change_makes_impossible_is_refused_and_changes_nothing():
    env = ExecutionVecEnv(2, n_steps=3)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="temporary_impact: expected a finite number of at least 0"):
        env.set_attr("temporary_impact", -1.0)
    with pytest.raises(ValueError, match="expected impacts that leave the price above 0"):
        env.set_attr("units", 1e9)
    with pytest.raises(AttributeError, match="side: expected it to stay as it was"):
        env.set_attr("side", "buy")
    assert (env.units, env.temporary_impact) == (1e6, 2.5e-6)


def test_impacts_that_orders_under_way_could_not_pay_are_refused_until_they_are_over():
    env = ExecutionVecEnv(2, n_steps=3)
    env.reset(seed=0)
    env.set_attr("units", 1e3)
    with pytest.raises(ValueError, match=re.escape("for an even sale of 1e+06 units (sub-env 0)")):
        env.set_attr("permanent_impact", 1e-3)
    assert env.permanent_impact == 2.5e-7
    env.step(shares(2, 1.0))  # the next orders are the small ones
    env.set_attr("permanent_impact", 1e-3)
    assert env.permanent_impact == 1e-3 and env.units_left.tolist() == [1e3, 1e3]


@pytest.mark.parametrize("share", [-0.01, 1.01, np.nan, np.inf])
def test_an_action_that_is_no_share_is_refused_and_nothing_has_happened(share):
    env = ExecutionVecEnv(2, n_steps=3)
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match=re.escape("(sub-env 1)")):
        env.step(np.array([[0.5], [share]], np.float32))
    assert env.units_left.tolist() == [1e6, 1e6]
