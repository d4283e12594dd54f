"""Policies that work off an order: how they read an env, batches and rows, and rollouts."""

from __future__ import annotations

import re

import numpy as np
import pytest

import sekai
from sekai.vector import Randomized
from sims.execution import (
    TWAP,
    VWAP,
    AlmgrenChriss,
    CarteaJaimungal,
    ExecutionParams,
    ExecutionVecEnv,
    ObizhaevaWang,
)
from sims.prices import Brownian, Geometric, Heston

BUILDERS = {
    "twap": TWAP.for_env,
    "almgren-chriss": AlmgrenChriss.for_env,
    "obizhaeva-wang": ObizhaevaWang.for_env,
    "cartea-jaimungal": CarteaJaimungal.for_env,
}
each_policy = pytest.mark.parametrize("name", BUILDERS)
PROFILE = [4.0, 2.0, 1.0, 1.0, 2.0]


class Told:
    """What a policy reads of a ``VecEnv``, which would be compiled for each kind of parameters."""

    def __init__(self, **terms):
        lists = {name: np.array(value) for name, value in terms.items() if isinstance(value, list)}
        self.params = ExecutionParams(**{**terms, **lists})

    def get_attr(self, name):
        return [getattr(self, name)] * 2


def test_policies_by_name():
    assert ExecutionVecEnv(1).policies == {**BUILDERS}
    assert list(ExecutionVecEnv(1, n_steps=5, volume_profile=PROFILE).policies) == ["twap", "vwap", *list(BUILDERS)[1:]]
    assert list(sekai.VecRecordEpisodeStatistics(ExecutionVecEnv(2)).get_attr("policies")[1]) == list(BUILDERS)


@each_policy
def test_a_policy_trades_its_slices(name):
    env = ExecutionVecEnv(3, n_steps=5)
    policy = BUILDERS[name](env)
    planned, seen = policy.slices(1e6), env.reset(seed=0).observations
    assert planned.sum() == pytest.approx(1e6) and (planned > 0.0).all()
    for k in range(5):
        result = env.step(policy(seen))
        seen = result.observations
        np.testing.assert_allclose(-result.infos.columns["units_traded"], planned[k], rtol=2e-6)


def test_the_shares_and_rates_of_a_policy_are_of_the_same_slices():
    left = 1.0 - np.arange(5) / 5
    seen = np.stack([np.ones(5), left, np.zeros(5), np.zeros(5)], axis=1).astype(np.float32)
    for make in (
        lambda **terms: TWAP(n_steps=5, **terms),
        lambda **terms: VWAP(n_steps=5, profile=PROFILE, **terms),
        lambda **terms: ObizhaevaWang(n_steps=5, horizon=2.0, resilience=1.0, **terms),
    ):
        rates, shares = make(actions="rate")(seen)[:, 0], make()(seen)[:, 0]
        np.testing.assert_allclose(rates, make().slices(), rtol=1e-6)
        np.testing.assert_allclose(rates, shares * np.append(1.0, np.cumprod(1.0 - shares[:-1])), rtol=1e-5)
        assert shares[-1] == 1.0


@each_policy
def test_a_batch_and_a_row_act_alike_bit_for_bit(name):
    policy = BUILDERS[name](ExecutionVecEnv(1))
    row, plan = policy.row_policy()
    rng = np.random.default_rng(0)
    seen = rng.uniform(0.0, 1.0, (200, 4)).astype(np.float32)
    seen[:51, 1] = np.float32(50 - np.arange(51)) / np.float32(50)
    seen[-1, 1] = np.nan
    batch, action = policy(seen), np.empty(1, np.float32)
    for observation, acted in zip(seen, batch, strict=True):
        row(plan, observation, action)
        assert action == acted and 0.0 <= action[0] <= 1.0
    assert batch.dtype == np.float32 and batch.shape == (200, 1)


def test_numbers_per_sub_env_make_a_policy_for_each():
    env = ExecutionVecEnv(3, n_steps=5, temporary_impact=[2.5e-6, 5e-6, 1e-5], units=1e5)
    policy = AlmgrenChriss.for_env(env, 1e-5)
    assert policy.row_policy() is None and policy.slices(1e5).shape == (3, 5)
    acts = policy(np.ones((3, 4), np.float32))
    for i, impact in enumerate([2.5e-6, 5e-6, 1e-5]):
        one = AlmgrenChriss.for_env(env, 1e-5, temporary_impact=impact)
        assert acts[i] == one(np.ones((1, 4), np.float32))[0]
        np.testing.assert_allclose(policy.slices()[i], one.slices())
    with pytest.raises(ValueError, match=re.escape("expected observations of 3 sub-envs (one temporary_impact each)")):
        policy(np.ones((2, 4), np.float32))


def test_what_a_policy_takes_from_the_env():
    env = Told(n_steps=7, horizon=3.0, prices=Brownian(volatility=0.4), resilience=2.0)
    policy = AlmgrenChriss.for_env(env, 1e-5)
    assert (policy.n_steps, policy.horizon, policy.volatility, policy.temporary_impact) == (7, 3.0, 0.4, 2.5e-6)
    assert ObizhaevaWang.for_env(env).resilience == 2.0
    assert CarteaJaimungal.for_env(env).running_penalty == pytest.approx(1e-6 * 0.16)
    geometric = Told(prices=Geometric(volatility=np.array([0.01, 0.02])))
    np.testing.assert_allclose(AlmgrenChriss.for_env(geometric).volatility, [0.5, 1.0])
    assert TWAP.for_env(Told(n_steps=[3, 3])).n_steps == 3
    told = Told(prices=Geometric(), risk_volatility=0.7, actions="rate")
    assert (AlmgrenChriss.for_env(told).volatility, AlmgrenChriss.for_env(told).actions) == (0.7, "rate")
    profile = Told(n_steps=5, volume_profile=PROFILE)
    np.testing.assert_allclose(VWAP.for_env(profile).slices(), np.array(PROFILE) / 10.0)
    np.testing.assert_allclose(VWAP.for_env(Told(n_steps=3), [1, 1, 2]).slices(), [0.25, 0.25, 0.5])


def test_the_risk_aversion_of_a_policy_is_that_of_the_env():
    for given, taken in ((0.0, 1e-6), (3e-6, 3e-6), ([0.0, 0.0], 1e-6), ([0.0, 2e-6], [0.0, 2e-6])):
        env = Told(risk_aversion=given, prices=Brownian(volatility=0.5))
        np.testing.assert_array_equal(AlmgrenChriss.for_env(env).risk_aversion, taken)
        np.testing.assert_allclose(CarteaJaimungal.for_env(env).running_penalty, np.multiply(taken, 0.25))
    assert AlmgrenChriss.for_env(env, 5e-6).risk_aversion == 5e-6
    assert AlmgrenChriss.for_env(env, 0.0).risk_aversion == 0.0


@pytest.mark.parametrize("rate", [1e-9, 1.0, 1e4, 1e9])
def test_extreme_risk_aversion_is_no_harm(rate):
    slices = AlmgrenChriss(n_steps=40, horizon=2.0, risk_aversion=rate, volatility=1.0, temporary_impact=1e-3).slices()
    assert np.isfinite(slices).all() and (slices >= 0.0).all() and slices.sum() == pytest.approx(1.0)
    assert (np.diff(slices) <= 1e-15).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TWAP(n_steps=0), "TWAP: n_steps: expected at least 1, got 0"),
        (lambda: TWAP(n_steps=3, actions="units"), "TWAP: actions: expected 'share' or 'rate'"),
        (lambda: VWAP(n_steps=3, profile=[1.0, 2.0]), "VWAP: profile: expected 3 volumes (n_steps), got an array of"),
        (lambda: VWAP.for_env(Told()), "VWAP: expected a profile, or an env with one volume_profile"),
        (lambda: AlmgrenChriss.for_env(Told(), -1.0), "AlmgrenChriss: risk_aversion: expected a finite"),
        (
            lambda: AlmgrenChriss.for_env(Told(temporary_impact=1e-9)),
            "AlmgrenChriss: expected a temporary_impact above permanent_impact * horizon / n_steps / 2",
        ),
        (
            lambda: AlmgrenChriss.for_env(Told(prices=Heston())),
            "AlmgrenChriss: expected the volatility to go by, for_env(..., volatility=...), since prices is a Heston",
        ),
        (
            lambda: CarteaJaimungal.for_env(Told(prices=Heston())),
            "CarteaJaimungal: expected the running_penalty to go by, for_env(..., running_penalty=...), since prices",
        ),
        (
            lambda: AlmgrenChriss.for_env(Told(risk_aversion=Randomized(0.0, 1e-6))),
            "AlmgrenChriss: risk_aversion is drawn anew at each episode",
        ),
        (
            lambda: AlmgrenChriss.for_env(Told(), volatility=1e200),
            "AlmgrenChriss: expected parameters that give finite actions, got AlmgrenChriss(",
        ),
        (lambda: VWAP(n_steps=2, profile=[[1.0], [1.0, 2.0]]), "VWAP: profile: expected 2 volumes (n_steps), got [[1"),
        (
            lambda: VWAP(n_steps=2, profile=[1e-320, 1e300]),
            "VWAP: profile: expected volumes of at least 1e-30 times their mean, got 1e-320 in slice 0",
        ),
        (
            lambda: AlmgrenChriss.for_env(Told(prices=Brownian(volatility=Randomized(0.1, 0.2)))),
            "AlmgrenChriss: prices.volatility is drawn anew at each episode",
        ),
        (
            lambda: ObizhaevaWang.for_env(Told(resilience=Randomized(0.1, 0.2))),
            "ObizhaevaWang: resilience is drawn anew at each episode",
        ),
        (lambda: TWAP.for_env(Told(n_steps=[3, 4])), "TWAP: expected sub-envs of one n_steps"),
        (
            lambda: CarteaJaimungal.for_env(Told(temporary_impact=0.0)),
            "CarteaJaimungal: expected a temporary_impact above 0, got 0.0",
        ),
        (
            lambda: CarteaJaimungal.for_env(Told(), terminal_penalty=1e-9),
            "CarteaJaimungal: expected a terminal_penalty of at least half the permanent_impact, got 1e-09",
        ),
    ],
)
def test_what_a_policy_cannot_be_built_from(build, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


@pytest.mark.parametrize("profile", ["ab", [1.0, 2j], [True, False]], ids=["text", "complex", "bools"])
def test_volumes_that_are_no_numbers(profile):
    with pytest.raises(TypeError, match="VWAP: profile: expected numbers, got"):
        VWAP(n_steps=2, profile=profile)


def test_volumes_are_a_copy_of_any_size():
    given = np.array([1e308, 1e308])
    policy = VWAP(n_steps=2, profile=given)
    given[0] = 1.0
    assert policy.slices().tolist() == [0.5, 0.5] and policy.profile.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        policy.profile[0] = 2.0


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 6), (1, 2, 4)], ids=str)
def test_what_is_no_batch_of_observations(shape):
    policy = TWAP(n_steps=3)
    expected = f"TWAP: expected observations of shape (N, 4) or (N, 5), got {shape}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        policy(np.ones(shape, np.float32))


@pytest.mark.compiled
@pytest.mark.long
def test_a_compiled_rollout_is_the_stepped_one():
    vec = ExecutionVecEnv(5, n_steps=7, prices=Brownian(volatility=0.3), transient_impact=1e-6)
    policy = AlmgrenChriss.for_env(vec, 1e-6, volatility=0.95)
    told = ("units_left", "shortfall", "price")
    rolled = sekai.rollout(vec, policy, 20, seed=0, infos=told, progress=False)
    stepped = sekai.rollout(sekai.VecWrapper(vec), policy, 20, seed=0, infos=told, progress=False)
    for name in ("observations", "actions", "rewards", "terminated", "final_observations", "last_observations"):
        np.testing.assert_array_equal(getattr(rolled, name), getattr(stepped, name), name)
    for name in told:
        np.testing.assert_array_equal(rolled.infos[name], stepped.infos[name], name)
    assert vec.can_roll and len(rolled.episode_ends) == 10
