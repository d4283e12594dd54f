"""The policies that come with the order book, and the fill rates they quote by, against figures found otherwise."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from reference_order_book import fill_chance as reference_chance
from reference_order_book import queue_law

import sekai
from sims.data import load_lobster
from sims.market_making import GLFT, AvellanedaStoikov
from sims.order_book import (
    CST,
    TWAP,
    VWAP,
    FixedOffset,
    ImbalanceTaker,
    InventorySkew,
    JoinBest,
    LimitOrderBookParams,
    LimitOrderBookVecEnv,
    ReplayVecEnv,
    estimate_fills,
    estimate_volatility,
    fill_chance,
    measure_fill_chances,
)
from sims.order_book.baselines import POLICIES
from sims.order_book.fills import FillEstimate, fit_curve

TICK, DEPTH, LIMIT, N_STEPS = 0.01, 5, 50, 200
EPISODE = {"horizon": 200.0, "n_steps": N_STEPS, "max_inventory": LIMIT}
LADDER = {"tick_size": TICK, "max_offset": 10, "depth": DEPTH}


def skew(model):
    return InventorySkew(model=model, **LADDER)


def glft(gamma=1.0):
    return GLFT(gamma=gamma, volatility=0.01, arrival_rate=0.8, fill_decay=127.0, **EPISODE)


def avellaneda_stoikov():
    return AvellanedaStoikov(gamma=0.5, volatility=0.01, fill_decay=127.0, **EPISODE)


EVERY_KIND = {
    "fixed": lambda: FixedOffset(bid=2, ask=3, lots=4),
    "join-best": lambda: JoinBest(max_offset=4, depth=DEPTH, lots=2),
    "glft": lambda: skew(glft()),
    "avellaneda-stoikov": lambda: skew(avellaneda_stoikov()),
    "imbalance-taker": lambda: ImbalanceTaker(threshold=0.6, limit=2, inventory_scale=50, depth=DEPTH),
    "twap": lambda: TWAP(quantity=100, profile=np.ones(N_STEPS)),
    "vwap": lambda: VWAP(quantity=100, profile=np.arange(1.0, N_STEPS + 1.0)),
}


def observe(spread=1, imbalance=0.0, held=0, scale=LIMIT, step=0, n_steps=N_STEPS):
    """What the market shows, (N, 30), float32 as it rounds it; of the levels and own orders there is noise."""
    spread, imbalance, held, step = np.broadcast_arrays(spread, imbalance, held, step)
    shown = np.random.default_rng(0).uniform(1, 9, (spread.size, 4 * DEPTH + 10)).astype(np.float32)
    shown[:, 4 * DEPTH], shown[:, 4 * DEPTH + 1] = spread, imbalance
    shown[:, -2], shown[:, -1] = np.float32(held) / np.float32(scale), np.float32(n_steps - step) / np.float32(n_steps)
    return shown


class Told:
    """Stands for any VecEnv of the order book or wrapper of one: what a policy's builder may ask."""

    def __init__(self, *changes, **shared):
        params = LimitOrderBookParams(flow=CST(), **shared)
        self.params = [params._replace(**change) for change in changes] or [params] * 3

    def get_attr(self, name):
        assert name == "params"
        return list(self.params)


# -- what they do ------------------------------------------------------------------------------------------


def test_a_fixed_offset_and_the_best_prices():
    assert FixedOffset(bid=2, ask=0, lots=3)(observe([1, 5])).tolist() == [[2, 0, 2]] * 2
    policy = JoinBest(max_offset=4, depth=DEPTH)
    assert policy(observe([1, 3, 4, 9])).tolist() == [[1, 1, 0], [3, 3, 0], [4, 4, 0], [4, 4, 0]]


@pytest.mark.parametrize("make", [glft, avellaneda_stoikov])
def test_a_model_s_distances_from_the_mid_become_the_nearest_ticks(make):
    held, spread, step = (grid.ravel() for grid in np.meshgrid([-50, -7, -1, 0, 3, 20], [1, 2, 3, 8], [0, 120, 199]))
    actions = skew(make())(observe(spread, held=held, step=step))
    for got, q, s, t in zip(actions.tolist(), held.tolist(), spread.tolist(), step.tolist(), strict=True):
        for side, distance in enumerate(make().quotes(q, t)):
            exact = distance / TICK + s / 2  # in ticks, from the opposite best
            assert 1 <= got[side] <= 10
            assert abs(got[side] - min(max(exact, 1.0), 10.0)) <= 0.5
    assert (actions[:, 2] == 0).all()


def test_glft_by_hand():
    """``c1 = ln(1 + gamma/k) / gamma`` and ``w`` of the long run, at 12 lots: the bid moves away, the ask in."""
    gamma, k, a, sigma = 10.0, 127.0, 0.8, 0.01
    c1 = math.log(1 + gamma / k) / gamma
    w = math.sqrt(sigma**2 * gamma / (2 * k * a) * (1 + gamma / k) ** (1 + k / gamma))
    bid, ask = c1 + 25 * w / 2, c1 - 23 * w / 2
    assert (round(bid / TICK, 2), round(ask / TICK, 2)) == (5.42, -3.53)
    # 2 ticks of half a spread on top: 7.42 and -1.53, of which the least is taken that does not cross.
    assert skew(glft(gamma))(observe(4, held=12)).tolist() == [[7, 1, 0]]


def test_the_taker_goes_with_the_imbalance_up_to_its_limit():
    policy = ImbalanceTaker(threshold=0.6, limit=2, inventory_scale=50, depth=DEPTH)
    imbalance = np.array([0.7, 0.59, -0.59, -0.7, 0.7, 0.7, -0.7, -0.7])
    held = np.array([0, 0, 0, 0, 1, 2, -2, -1])
    actions = policy(observe(imbalance=imbalance, held=held))
    buy, sell = 3, 4
    assert actions[:, 0].tolist() == [buy, 0, 0, sell, buy, 0, 0, sell]
    assert not actions[:, 1:].any()


def test_schedules_leave_what_the_profile_has_still_to_come():
    policy = VWAP(quantity=10, profile=[3.0, 1.0, 0.0, 1.0])  # to be left: 4, 2, 2, 0
    step, held = np.array([0, 1, 1, 2, 3, 3]), np.array([10, 4, 7, 2, 2, -5])
    shares = policy(observe(held=held, scale=10, step=step, n_steps=4))
    np.testing.assert_allclose(shares[:, 0], [6 / 10, 2 / 4, 5 / 7, 0.0, 1.0, 1.0], rtol=1e-6)
    assert not shares[:, 1].any() and shares.dtype == np.float32
    ahead = policy(observe(held=[3, 0], scale=10, step=[0, 3], n_steps=4))
    assert ahead.tolist() == [[0.0, 0.0]] * 2  # nothing is traded back, and nothing of nothing
    even = TWAP(quantity=10, profile=np.ones(5))
    held = np.arange(10, 0, -2)
    np.testing.assert_allclose(even(observe(held=held, scale=10, step=np.arange(5), n_steps=5))[:, 0], 2 / held)


def test_a_short_profile_holds_for_equal_shares_of_the_steps():
    policy = VWAP.for_env(Told(actions="execution", n_steps=6, quantity=90), [1.0, 3.0, 5.0])
    np.testing.assert_allclose(policy.profile / policy.profile.sum(), np.array([1, 1, 3, 3, 5, 5]) / 18)
    np.testing.assert_allclose(TWAP.for_env(Told(actions="execution")).profile, np.ones(200))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_one_row_at_a_time_a_batch_and_another_process_do_the_same(kind):
    policy = EVERY_KIND[kind]()
    rng = np.random.default_rng(1)
    shown = observe(
        rng.integers(1, 12, 200), rng.uniform(-1, 1, 200), rng.integers(-60, 61, 200), step=rng.integers(0, 201, 200)
    )
    shown.flags.writeable = False
    actions = policy(shown)
    row, parameters = policy.row_policy()
    one = np.empty(actions.shape[1], actions.dtype)
    for k in range(0, 200, 7):
        row(parameters, shown[k], one)
        assert one.tolist() == actions[k].tolist()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(policy))(shown), actions)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.lots = 3


# -- built from an env ---------------------------------------------------------------------------------------

FILLS = FillEstimate(*(np.ones(1, np.int64),) * 4, A=0.8, k=127.0, A_error=0.0, k_error=0.0, chi_square=0.0)


def test_the_env_gives_what_a_policy_is_not_told():
    vec = Told(max_inventory=20, step_time=0.5, n_steps=40, max_offset=7, depth=3, max_size=2)
    assert FixedOffset.for_env(vec, 7, lots=2) == FixedOffset(bid=7, ask=7, lots=2)
    assert JoinBest.for_env(vec) == JoinBest(max_offset=7, depth=3)
    policy = InventorySkew.for_env(vec, fills=FILLS, volatility=0.02)
    assert (policy.tick_size, policy.max_offset, policy.depth) == (0.01, 7, 3)
    assert (
        policy.model.row_policy()[1]
        == GLFT(
            gamma=1.0, volatility=0.02, arrival_rate=0.8, fill_decay=127.0, horizon=20.0, n_steps=40, max_inventory=20
        ).row_policy()[1]
    )
    policy = InventorySkew.for_env(vec, "avellaneda-stoikov", fills=FILLS, volatility=0.02)
    bid, ask = policy.model.quotes(np.array([0, 5]), 0)
    np.testing.assert_allclose([bid[1] - bid[0], ask[0] - ask[1]], TICK)  # a tick in 5 lots
    taker = ImbalanceTaker.for_env(Told(actions="orders", max_inventory=None))
    assert taker.inventory_scale == 1.0


@pytest.mark.parametrize(("wanted", "name"), [(wanted, name) for wanted in POLICIES for name in POLICIES[wanted]])
def test_each_says_which_actions_it_is_for(wanted, name):
    other = "execution" if wanted == "quotes" else "quotes"
    with pytest.raises(ValueError, match=rf"^\w+: expected an env with actions='{wanted}', got '{other}'$"):
        POLICIES[wanted][name](Told(actions=other))


@pytest.mark.parametrize(
    ("actions", "names"),
    [
        ("quotes", ["fixed-offset", "join-best", "glft", "avellaneda-stoikov"]),
        ("orders", ["imbalance-taker"]),
        ("execution", ["twap"]),
    ],
)
def test_a_market_offers_those_for_its_actions(actions, names):
    vec = LimitOrderBookVecEnv(1, actions=actions, warm_up=0.0)
    assert list(vec.policies) == names
    replayed = ReplayVecEnv(1, flow=load_lobster(), actions=actions, n_steps=5, step="messages")
    assert list(replayed.policies) == names[:2]
    assert list(vec.get_attr("policies")[0]) == names  # as ``sekai info`` and ``sekai run`` read them


def test_what_does_not_fit_the_env_is_refused():
    vec = Told()
    with pytest.raises(ValueError, match=r"FixedOffset: expected an offset of at most 10 \(max_offset\), got 11"):
        FixedOffset.for_env(vec, 11)
    with pytest.raises(ValueError, match=r"JoinBest: expected at most 1 lots \(max_size\), got 2"):
        JoinBest.for_env(vec, lots=2)
    with pytest.raises(ValueError, match=r"InventorySkew\(rule\): expected 'glft' or 'avellaneda-stoikov', got 'as'"):
        InventorySkew.for_env(vec, "as")
    with pytest.raises(ValueError, match="InventorySkew: expected steps of a fixed time, got step='messages'"):
        InventorySkew.for_env(Told(step_by="messages"), fills=FILLS, volatility=0.01)
    with pytest.raises(ValueError, match="JoinBest: expected one max_offset for all sub-envs, got 3 and others"):
        JoinBest.for_env(Told({"max_offset": 3}, {"max_offset": 4}))
    with pytest.raises(ValueError, match=r"JoinBest: expected one depth for all sub-envs, got array\(\[3, 4\]\)"):
        JoinBest.for_env(Told(depth=np.array([3, 4])))
    with pytest.raises(ValueError, match=r"InventorySkew\(model\): expected quotes linear in the inventory, got GLFT"):
        skew(dataclasses.replace(glft(), finite_horizon=True))
    with pytest.raises(
        ValueError, match=r"VWAP\(profile\): expected 1 to 2 volumes \(n_steps\), got an array of \(3,\)"
    ):
        VWAP.for_env(Told(actions="execution", n_steps=2), [1.0, 2.0, 3.0])
    for profile in ([0.0, 0.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match=r"VWAP\(profile\): expected finite volumes of at least 0, not all 0, got"):
            VWAP(quantity=1, profile=profile)
    with pytest.raises(ValueError, match=r"ImbalanceTaker\(threshold\)"):
        ImbalanceTaker(threshold=0.0, limit=1, inventory_scale=1.0, depth=1)


# -- in the market -------------------------------------------------------------------------------------------


@pytest.mark.compiled  # without compilation
@pytest.mark.parametrize("name", ["fixed-offset", "join-best", "glft", "avellaneda-stoikov"])
def test_quotes_are_valid_and_stand_where_the_policy_means_them_to(name):
    vec = LimitOrderBookVecEnv(60, step_time=1e-9)  # so that nothing happens before the quotes are seen
    given = {"fills": FILLS, "volatility": 0.01} if name in ("glft", "avellaneda-stoikov") else {}
    policy = vec.policies[name](vec, **given)
    seen = vec.reset(seed=3).observations
    actions = policy(seen)
    assert vec.batch_action_space.contains(actions)
    shown = vec.step(actions).observations
    spread, apart = seen[:, 20], actions[:, 0] + actions[:, 1] > seen[:, 20]
    assert apart.sum() > 30
    # Own orders as they are seen: by their offset from the opposite best, which may be the other own one.
    new_spread = np.minimum(np.minimum(actions[:, 0], actions[:, 1]), spread)
    new_spread = np.where(apart, np.minimum(new_spread, actions[:, 0] + actions[:, 1] - spread), new_spread)
    np.testing.assert_array_equal(shown[apart, 20], new_spread[apart])
    own_bid, own_ask = shown[apart, 22], -shown[apart, 25]
    np.testing.assert_array_equal(own_bid + own_ask - shown[apart, 20], (actions[:, 0] + actions[:, 1] - spread)[apart])


def exact_fill_share(lam, mu, theta, step_time, steps, longest=12):
    """The mean share of steps with a fill of an own order that joins the end of a queue when it has none in it.

    A Markov chain of (orders ahead, orders behind), and of orders without the own one once that is executed, from the
    stationary law on. Its matrix of a step is the exponential of the rates.
    """
    waiting = [(k, j) for k in range(longest + 1) for j in range(longest + 1 - k)]
    index = {state: n for n, state in enumerate([*waiting, *range(longest + 1)])}
    rates = np.zeros((len(index), len(index)))
    for state, n in index.items():
        orders = sum(state) if isinstance(state, tuple) else state
        moves = []
        if isinstance(state, tuple):
            k, j = state
            moves = [((k, j + 1), lam), ((k, j - 1), j * theta), ((k - 1, j), k * theta + mu)] if k else [
                ((k, j + 1), lam), ((k, j - 1), j * theta), (j, mu)
            ]  # fmt: skip
        else:
            moves = [(state + 1, lam), (state - 1, state * theta + (mu if state else 0.0))]
        for target, rate in moves:
            if target in index and rate and (orders < longest or rate is not lam):
                rates[n, index[target]] += rate
                rates[n, n] -= rate
    step = np.linalg.matrix_power(np.eye(len(index)) + rates * step_time / 2**20, 2**20)
    law = np.zeros(len(index))
    law[[index[n] for n in range(longest + 1)]] = queue_law(lam, mu, theta, longest)
    shares = []
    for _ in range(steps):
        for n in range(longest + 1):  # put back behind all
            law[index[n, 0]] += law[index[n]]
            law[index[n]] = 0.0
        law = law @ step
        shares.append(law[len(waiting) :].sum())
    return np.mean(shares)


@pytest.mark.compiled
@pytest.mark.parametrize("step_time", [0.3, 2.0])
def test_fill_rates_of_a_book_of_two_prices_are_exact(step_time):
    lam, mu, theta = 1.85, 0.94, 0.71
    # Of the form and the sizes of the default flow, so that nothing is compiled anew; all orders are 1 tick away.
    flow, sizes = CST(lam=(lam, *np.zeros(19)), mu=mu, theta=(theta, 0.5)), {"ring": 128, "max_orders": 256}
    vec = LimitOrderBookVecEnv(2, flow=flow, price_limits=(10_000, 10_001), step_time=step_time, **sizes)
    estimate = estimate_fills(vec, [1], steps=400, num_envs=60, seed=1)
    share = exact_fill_share(lam, mu, theta, step_time, 400)
    exact = -math.log(1.0 - share) / step_time
    assert 0.0 < estimate.errors[0] < 0.02 * exact
    assert abs(estimate.rates[0] - exact) < 4.0 * estimate.errors[0]
    assert estimate.distances.tolist() == pytest.approx([0.005])
    assert math.isnan(estimate.A) and math.isnan(estimate.k)


@pytest.mark.compiled
def test_fills_of_the_default_book_fall_with_the_distance_and_scale_with_the_tick():
    vec = LimitOrderBookVecEnv(2)
    vec.reset(seed=0)
    before = vec.book.nodes.copy()
    estimate = estimate_fills(vec, [1, 2, 3], steps=300, num_envs=60)
    assert (np.diff(estimate.rates) < 0.0).all() and (np.diff(estimate.distances) > 0.0).all()
    np.testing.assert_allclose(estimate.curve(estimate.distances), estimate.rates, rtol=0.2)
    np.testing.assert_array_equal(vec.book.nodes, before)  # the env is left as it is
    coarse = estimate_fills(LimitOrderBookVecEnv(2, tick_size=1.0), [1, 2, 3], steps=300, num_envs=60)
    np.testing.assert_allclose([coarse.A, coarse.k], [estimate.A, estimate.k / 100], rtol=1e-9)
    fine, rough = (
        estimate_volatility(LimitOrderBookVecEnv(2, tick_size=tick), 50, num_envs=60) for tick in (0.01, 1.0)
    )
    np.testing.assert_allclose(rough, 100 * np.array(fine), rtol=1e-9)
    assert 0.007 < fine.value < 0.013 and 0.0 < fine.standard_error < 0.002


def test_the_curve_goes_through_rates_that_are_exponential():
    distances = np.array([0.5, 1.0, 2.0, 4.0])
    rates = 140.0 * np.exp(-1.5 * distances)
    a, k, _, _, chi_square = fit_curve(distances, rates, 0.1 * rates)
    np.testing.assert_allclose([a, k], [140.0, 1.5])
    assert chi_square < 1e-20


def test_errors_of_the_curve_by_hand():
    distances, rates, errors = np.array([1.0, 3.0]), np.array([8.0, 2.0]), np.array([0.4, 0.2])
    a, k, a_error, k_error, _ = fit_curve(distances, rates, errors)
    assert k == pytest.approx(math.log(4.0) / 2.0) and a == pytest.approx(16.0)
    # Of the logarithms .05 and .1: k is half of their difference, ln A is 1.5 of the first less half of the second.
    assert k_error == pytest.approx(math.hypot(0.05, 0.1) / 2.0)
    assert a_error == pytest.approx(16.0 * math.hypot(1.5 * 0.05, 0.5 * 0.1))


def test_fill_chances_by_another_program():
    lam, mu, theta = 1.85, 0.94, 0.71
    chances = fill_chance(lam, mu, theta, 3, 6)
    np.testing.assert_allclose(chances, reference_chance(lam, mu, theta, 3)[:, :7], rtol=1e-9)
    assert [f"{chances[0, m]:.10f}" for m in (1, 2, 4)] == ["0.5025454760", "0.6980010343", "0.8482902631"]
    assert f"{chances[2, 1]:.10f}" == "0.2914608427"


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match=r"estimate_fills\(offsets\): expected different ones of 1 to 10 ticks"):
        estimate_fills(Told(), [1, 11])
    with pytest.raises(ValueError, match=r"got \[2, 2\]"):
        estimate_fills(Told(), [2, 2])
    with pytest.raises(TypeError, match=r"estimate_fills\(offsets\)"):
        estimate_fills(Told(), [1.5])
    with pytest.raises(ValueError, match="estimate_volatility: expected steps of a fixed time, got step='messages'"):
        estimate_volatility(Told(step_by="messages"))
    with pytest.raises(ValueError, match="estimate_fills: expected one mu for all sub-envs, got 1.0 and others"):
        estimate_fills(Told({"mu": 1.0}, {"mu": 2.0}))
    other = Told()
    other.params = [NamedTuple("Others", [("actions", str)])("quotes")]  # such as a market that replays a tape
    with pytest.raises(ValueError, match="estimate_fills: expected a LimitOrderBookVecEnv, whose flow makes as many"):
        estimate_fills(other)


@pytest.mark.compiled
def test_an_offset_without_fills_has_no_rate():
    vec = LimitOrderBookVecEnv(2)
    with pytest.raises(
        ValueError, match="at offset 10 in some steps but not in all, got a share of 0; take more steps"
    ):
        estimate_fills(vec, [10], steps=2, num_envs=4)


# -- other kinds of actions, each compiled for itself ----------------------------------------------------------


@pytest.mark.long
@pytest.mark.compiled
def test_market_orders_with_the_imbalance_in_the_market():
    vec = LimitOrderBookVecEnv(200, actions="orders")
    policy = ImbalanceTaker.for_env(vec, threshold=0.5, limit=3)
    record = sekai.rollout(vec, policy.__call__, 150, seed=1, infos=("inventory", "bought", "sold"), progress=False)
    held = record.infos["inventory"]
    assert held.min() == -3 and held.max() == 3
    wanted = record.observations[..., 21] >= 0.5
    before = np.vstack([np.zeros((1, 200)), held[:-1]])
    np.testing.assert_array_equal(record.infos["bought"] > 0, wanted & (before < 3))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("direction", ["sell", pytest.param("buy", marks=pytest.mark.long)])
def test_a_schedule_is_kept_in_the_market(direction):
    vec = LimitOrderBookVecEnv(200, actions="execution", quantity=100, direction=direction)
    for policy in (TWAP.for_env(vec), VWAP.for_env(vec, [3.0, 1.0, 1.0, 3.0])):
        record = sekai.rollout(vec, policy.__call__, 199, seed=2, infos=("inventory",), progress=False)
        left = np.rint(100 * (1.0 - np.cumsum(policy.profile) / policy.profile.sum()))[:199]
        held = np.abs(record.infos["inventory"])
        assert np.abs(held.mean(axis=1) - left).max() < 0.2  # but where a side is empty for a while
        assert (held >= left[:, np.newaxis]).all()


@pytest.mark.long
@pytest.mark.compiled
def test_chances_of_fills_in_a_book_of_two_prices_are_exact():
    measured = measure_fill_chances([0, 2], [1, 2, 4], num_envs=20_000, seed=3)
    exact = [[0.5025454760, 0.6980010343, 0.8482902631], [0.2914608427, 0.4654245715, 0.6564446727]]
    np.testing.assert_allclose(measured.exact, exact, atol=1e-10)
    assert (np.abs(measured.chances - measured.exact) < 4.0 * measured.errors).all()
    assert (measured.errors < 0.004).all()


@pytest.mark.slow
@pytest.mark.compiled
def test_an_inventory_skew_carries_less_risk_than_the_best_fixed_offset():
    vec = LimitOrderBookVecEnv(2000)
    fixed, skewed = (
        sekai.rollout(vec, policy.__call__, N_STEPS, seed=5, progress=False).episode_returns
        for policy in (FixedOffset.for_env(vec, 1), InventorySkew.for_env(vec))
    )
    assert skewed.std() < 0.4 * fixed.std()
    assert skewed.mean() > fixed.mean() - 4.0 * math.hypot(skewed.std(), fixed.std()) / math.sqrt(2000)
