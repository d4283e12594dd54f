"""The step of the execution market: against the naive twin, the identity of costs, and what is known when."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest
from naive_execution import PARTS, NaiveExecution

from sekai.testing.kernels import find_forms, vectorisation_hints
from sekai.testing.reach import find_kernels
from sekai.vector import Randomized
from sims.execution import ExecutionVecEnv
from sims.prices import Brownian, Heston

SEEDS = [3, 2**40 + 1, 2**64 - 5]

#: Numbers that make everything matter: an impact of some per cent of the price, and noise of as much.
NUMBERS = {
    "units": 1e4,
    "initial_price": 20.0,
    "horizon": 3.0,
    "n_steps": 6,
    "side": "sell",
    "half_spread": 0.05,
    "temporary_impact": 3e-5,
    "permanent_impact": 2e-5,
    "transient_impact": 4e-5,
    "resilience": 0.7,
    "risk_aversion": 1e-3,
}
PROFILE = [1.0, 5.0, 2.0, 3.0, 0.5, 4.0]
#: What is compiled by itself, as few as there can be.
PLAIN = {"volume_profile": None, "actions": "share", "reward": "currency", "risk_volatility": None}
OTHER = {"volume_profile": PROFILE, "actions": "rate", "reward": "bps", "risk_volatility": 0.8}
#: The parameters that may differ, three rows: as numbers, as columns, and drawn.
GIVEN = {
    "numbers": {},
    "columns": {"units": [1e4, 2e4, 5e3], "temporary_impact": [0.0, 1e-5, 3e-5], "volatility": [0.0, 0.5, 0.9]},
    "drawn": {"units": Randomized(5e3, 1e4), "volatility": Randomized(0.1, 0.5), "resilience": Randomized(0.0, 2.0)},
}


def make(num_envs=3, *, volatility=0.6, drift=0.1, **terms):
    return ExecutionVecEnv(
        num_envs, prices=Brownian(volatility=volatility, drift=drift), **{**NUMBERS, **PLAIN, **terms}
    )


def make_twins(seeds, **terms):
    terms = {**NUMBERS, **PLAIN, "volatility": 0.6, "drift": 0.1, **terms}
    # Drawn in the order of the parameters.
    order = list(dict.fromkeys(["units", "initial_price", "horizon", "n_steps", "side", "volatility", *terms]))
    twins = []
    for row, seed in enumerate(seeds):
        own = {}
        for name in order:
            value = terms[name]
            if isinstance(value, Randomized):
                value = (value.low, value.high)
            elif isinstance(value, list) and name != "volume_profile":
                value = value[row]
            own[name] = value
        twins.append(NaiveExecution(seed, **own))
    return twins


def random_shares(steps, num_envs, seed=0, most=0.6):
    shares = np.random.default_rng(seed).uniform(0.0, most, (steps, num_envs, 1)).astype(np.float32)
    shares[::4, -1] = 0.0
    return shares


@pytest.mark.parametrize(
    ("choices", "given", "side"),
    [
        (PLAIN, "numbers", "buy"),
        pytest.param(PLAIN, "columns", "sell", marks=pytest.mark.form),
        pytest.param(OTHER, "drawn", "sell", marks=pytest.mark.form),
    ],
    ids=["plain-numbers", "plain-columns", "other-drawn"],
)
def test_equals_the_naive_twin_bit_for_bit(choices, given, side):
    terms = {**choices, **GIVEN[given], "side": side}
    env, twins = make(**terms), make_twins(SEEDS, **terms)
    begun = env.reset(seed=SEEDS)
    for i, twin in enumerate(twins):
        observation, info = twin.reset()
        assert begun.observations[i].tolist() == observation
        assert begun.infos[i] == info
    actions, ended = random_shares(20, 3), 0
    actions[2, 0] = 1.0  # an end before the last slice
    for batch in actions:
        result = env.step(batch)
        assert not result.truncated.any()
        for i, twin in enumerate(twins):
            reward, over, info = twin.step(batch[i])
            got, seen = result.infos[i], twin.observation()
            assert (result.rewards[i], result.terminated[i]) == (reward, over)
            if over:
                assert got.pop("final_observation").tolist() == seen
                assert got.pop("final_info") == info
                seen, begun_info = twin.reset()
                assert got.pop("reset_info") == begun_info
            assert result.observations[i].tolist() == seen
            assert got == info
            ended += over
        assert env.streams.counter.tolist() == [int(twin.random.counter[0]) for twin in twins]
    assert ended >= 3 * 3


@pytest.mark.parametrize("side", ["sell", "buy"])
@pytest.mark.parametrize(
    ("choices", "given"),
    [(PLAIN, "numbers"), pytest.param(OTHER, "drawn", marks=pytest.mark.form)],
    ids=["plain", "other"],
)
def test_the_parts_add_up_to_the_shortfall_at_every_step(choices, given, side):
    env = make(64, side=side, **choices, **GIVEN[given])
    env.reset(seed=0)
    order, left, paid = env.units, env.units_left, np.zeros(64)
    for batch in random_shares(6, 64, seed=1, most=0.16):  # an end with the last slice, not before
        told = env.step(batch).infos.columns
        paid += told["units_traded"] * told["fill_price"]
        bought = {"sell": -1.0, "buy": 1.0}[side] * (order - told["units_left"])
        against_start = paid - bought * NUMBERS["initial_price"]
        notional = NUMBERS["initial_price"] * order
        np.testing.assert_array_equal(sum(told[f"{part}_cost"] for part in PARTS), told["shortfall"])
        assert (np.abs(against_start - told["shortfall"]) <= 1e-12 * notional).all()
        assert (told["units_left"] <= left).all() and (np.abs(told["units_traded"]) <= left).all()
        left = told["units_left"]
    assert (left == 0.0).all()
    assert all(np.ptp(told[f"{part}_cost"]) > 0.0 for part in PARTS[1:])
    assert told["spread_cost"] == pytest.approx(order * NUMBERS["half_spread"], rel=1e-12)


def test_the_rewards_of_an_episode_are_its_shortfall_and_its_risk():
    env, plain = make(8), make(8, risk_aversion=0.0)
    for each in (env, plain):
        each.reset(seed=0)
    paid = np.zeros(8)
    for batch in random_shares(6, 8):
        result, free = env.step(batch), plain.step(batch)
        paid -= free.rewards
        left = result.infos.columns["units_left"]
        assert (free.rewards - result.rewards) == pytest.approx(1e-3 * 0.6**2 * 0.5 * left**2, rel=1e-9, abs=1e-8)
    assert free.terminated.all() and not free.truncated.any()
    assert paid == pytest.approx(free.infos.columns["shortfall"], rel=1e-12)


@pytest.mark.form
def test_basis_points_are_of_the_order_at_the_initial_price():
    env = make(8, **{**OTHER, **GIVEN["drawn"]}, risk_aversion=0.0)
    env.reset(seed=0)
    order, total = env.units, np.zeros(8)
    for batch in random_shares(6, 8, most=0.16):
        result = env.step(batch)
        total += result.rewards
    shortfall = result.infos.columns["shortfall"]
    assert total == pytest.approx(-1e4 * shortfall / (order * NUMBERS["initial_price"]), rel=1e-12)


@pytest.mark.form
def test_what_an_episode_has_drawn_is_told():
    env = make(500, **{**OTHER, **GIVEN["drawn"]}, drift=0.0)
    begun = env.reset(seed=0).infos.columns
    assert (begun["units"] == begun["units_left"]).all() and np.ptp(begun["units"]) > 4e3
    assert np.ptp(begun["prices.volatility"]) > 0.35 and np.ptp(begun["resilience"]) > 1.8
    told = env.step(np.zeros((500, 1), np.float32)).infos.columns
    moves = np.abs(told["price"] - NUMBERS["initial_price"]) / told["prices.volatility"]
    assert abs(np.corrcoef(moves, told["prices.volatility"])[0, 1]) < 0.2


@pytest.mark.form
def test_the_largest_and_the_least_of_everything_leave_all_finite():
    for order, impact in ((1e30, 1e30), (1e-30, 1e30), (1e30, 0.0), (1e-30, 0.0)):
        terms = dict.fromkeys(("half_spread", "temporary_impact", "permanent_impact", "transient_impact"), impact)
        drawn = {name: Randomized(value, value) for name, value in (("units", order), ("resilience", impact))}
        terms |= {"risk_aversion": impact, "risk_volatility": 1e30, "volume_profile": [1e29, *[1.0] * 5], "side": "buy"}
        env = make(**{**OTHER, **drawn, **terms}, initial_price=1e-30, horizon=1e-29, volatility=Randomized(0.0, 0.5))
        env.reset(seed=0)
        for _ in range(6):
            with np.errstate(over="ignore"):  # a price that far away is no float32: it is seen as infinite
                result = env.step(np.full((3, 1), 0.2, np.float32))
            assert np.isfinite(result.rewards).all()
            assert all(np.isfinite(told).all() for told in result.infos.columns.values() if told.dtype == np.float64)


@pytest.mark.form
def test_volumes_of_any_size_are_multiples_of_their_mean():
    env = make(**{**OTHER, **GIVEN["drawn"], "volume_profile": [1e308] * 6})
    assert env.reset(seed=0).observations[:, 4].tolist() == [1.0] * 3


def test_what_a_slice_pays_does_not_depend_on_the_price_after_it():
    """The noise of the step, and all later ones, replaced by noise a thousand times as large."""
    env, other = make(), make()
    batches = random_shares(6, 3)
    for step in range(5):
        for each in (env, other):
            each.reset(seed=1)
            for batch in batches[:step]:
                each.step(batch)
        other.set_attr("prices", Brownian(volatility=600.0, drift=-50.0))
        result, garbage = env.step(batches[step]), other.step(batches[step])
        for name in ("units_traded", "fill_price", "shortfall", "units_left", *(f"{part}_cost" for part in PARTS)):
            np.testing.assert_array_equal(result.infos.columns[name], garbage.infos.columns[name], name)
        assert (np.abs(result.infos.columns["price"] - garbage.infos.columns["price"]) > 1.0).all()
        other.set_attr("prices", Brownian(volatility=0.6, drift=0.1))


@pytest.mark.parametrize(
    ("choices", "given", "ends"),
    [(PLAIN, "numbers", 6), pytest.param(OTHER, "drawn", 2, marks=pytest.mark.form)],
    ids=["share", "rate"],
)
def test_no_slice_sells_more_than_there_is_and_the_last_sells_the_rest(choices, given, ends):
    env = make(3, **choices, **GIVEN[given])
    env.reset(seed=0)
    left = env.units_left
    for step, share in enumerate([0.7, 0.7, 0.0, 1e-7, 0.0, 0.0][:ends], start=1):
        result = env.step(np.full((3, 1), share, np.float32))
        told = result.infos.columns
        assert (told["units_left"] >= 0.0).all() and (-told["units_traded"] <= left).all()
        np.testing.assert_array_equal(told["units_left"], left + told["units_traded"])
        assert result.terminated.tolist() == [step == ends] * 3 and not result.truncated.any()
        left = told["units_left"]
    assert (left == 0.0).all()
    assert result.infos.final("final_observation")[:, 0].tolist() == [0.0] * 3


def test_a_purchase_is_a_sale_in_the_mirror():
    """Where the price goes the other way, which is what a negative drift does to a price without noise."""
    sale, purchase = make(side="sell", volatility=0.0, drift=-0.3), make(side="buy", volatility=0.0, drift=0.3)
    for each in (sale, purchase):
        each.reset(seed=0)
    for batch in random_shares(6, 3):
        one, two = sale.step(batch), purchase.step(batch)
        assert one.rewards == pytest.approx(two.rewards, rel=1e-9)
        np.testing.assert_allclose(one.observations, two.observations, rtol=1e-5)


@pytest.mark.form
def test_any_model_of_the_price_is_the_unaffected_one():
    """Two orders under one seed, of which one moves the price, and one hardly trades."""
    terms = {**NUMBERS, "prices": Heston(), "risk_volatility": 2.0}
    large, small = ExecutionVecEnv(3, **terms), ExecutionVecEnv(3, **{**terms, "units": 1e-3})
    for each in (large, small):
        each.reset(seed=5)
    begun, large_cost = large.path.variance, 0.0
    for batch in random_shares(5, 3, most=0.3) + np.float32(0.1):
        result, before = large.step(batch), large_cost
        one, two = result.infos.columns, small.step(batch).infos.columns
        large_cost, risk = one["shortfall"], 1e-3 * 2.0**2 * 0.5 * one["units_left"] ** 2
        np.testing.assert_allclose(result.rewards, before - large_cost - risk, rtol=1e-9)
        np.testing.assert_array_equal(one["unaffected_price"], two["unaffected_price"])
        assert (one["price"] < two["price"] - 0.01).all()
        assert two["price"] == pytest.approx(two["unaffected_price"], rel=1e-8)
    assert (begun > 0.0).all() and (large.path.variance != begun).all()


@pytest.mark.compiled
@pytest.mark.long
def test_the_loop_over_rows_is_vectorised():
    """All of its columns would take more comparisons of their addresses than LLVM allows by itself."""
    env = make()
    env.reset(seed=0)
    env.step(random_shares(1, 3)[0])
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return  # the names below are of that architecture
    forms = [form for form in find_forms(find_kernels(env)) if form.is_batch]
    assert forms and vectorisation_hints(forms) == []
    for form in forms:  # the random words are products of 32-bit words, eight at a time
        assert re.search(r"pmuludq.*%[xyz]mm", form.compiled.inspect_asm(form.signature))
