"""The policies that come with the quoting market: what they quote, and from where they know it."""

from __future__ import annotations

import dataclasses
import pickle
import re
from decimal import Decimal, localcontext
from types import SimpleNamespace

import numpy as np
import pytest

from sekai import SyncVecEnv, VecRecordEpisodeStatistics
from sekai.vector import Randomized
from sekai.vector.native.single import SingleEnv
from sims.market_making import MarketMakingVecEnv
from sims.market_making.baselines import GLFT, POLICIES, AvellanedaStoikov, CarteaJaimungal, FixedSpread
from sims.market_making.closed_forms import log_values, long_run_skew, static_half_spread
from sims.market_making.policy import MAX_TABLES

MARKET = {"volatility": 2.0, "arrival_rate": 140.0, "fill_decay": 1.5}
EPISODE = {"horizon": 1.0, "n_steps": 200, "max_inventory": 50}


def avellaneda_stoikov(**changes):
    return AvellanedaStoikov(**{"gamma": 0.1, "volatility": 2.0, "fill_decay": 1.5, **EPISODE, **changes})


def glft(**changes):
    return GLFT(**{"gamma": 0.1, **MARKET, **EPISODE, **changes})


def published_glft(**changes):
    """The parameters of the paper."""
    paper = {"gamma": 0.01, "volatility": 0.3, "arrival_rate": 0.9, "fill_decay": 0.3, "horizon": 600.0}
    return glft(**{**paper, "max_inventory": 30, **changes})


def cartea_jaimungal(**changes):
    parameters = {"phi": 0.01, "alpha": 0.001, "arrival_rate": 140.0, "fill_decay": 1.5}
    return CarteaJaimungal(**{**parameters, **EPISODE, "max_inventory": 100, **changes})


EVERY_KIND = {
    "fixed": lambda: FixedSpread(half_spread=0.7),
    "avellaneda-stoikov": avellaneda_stoikov,
    "symmetric": lambda: avellaneda_stoikov(symmetric=True),
    "no limit": lambda: avellaneda_stoikov(max_inventory=None),
    "long run": glft,
    "finite": lambda: glft(finite_horizon=True),
    "wider grid": lambda: glft(finite_horizon=True, grid_limit=60),
    "no limit, a grid": lambda: cartea_jaimungal(max_inventory=None, grid_limit=20),
    "cartea-jaimungal": cartea_jaimungal,
}


def observe(policy, inventory, step):
    """What the env shows at units held and a time step, (N, 2), float32 as the env rounds it."""
    scale = getattr(policy, "max_inventory", None) or 1
    n_steps = getattr(policy, "n_steps", 200)
    inventory, step = np.broadcast_arrays(inventory, step)
    return np.stack([inventory / scale, 1 - step / n_steps], axis=-1).astype(np.float32)


def digits(values, places):
    return [f"{value:.{places}f}" for value in np.ravel(values)]


# Figures of the papers.


def test_avellaneda_stoikov_figures():
    policy = avellaneda_stoikov()
    assert digits([sum(policy.quotes(0, step)) for step in (0, 200)], 9) == ["1.690770423", "1.290770423"]
    bid, ask = policy.quotes([0, 1, -3], 0)
    np.testing.assert_allclose((ask - bid) / 2, [0.0, -0.4, 1.2], rtol=1e-12)  # reservation price less the mid
    np.testing.assert_allclose(bid + ask, 1.690770423, rtol=1e-9)


def test_symmetric_avellaneda_stoikov_quotes_the_mean_spread_over_the_steps_of_an_episode():
    policy = avellaneda_stoikov(symmetric=True)
    bid, ask = policy.quotes([0, 7, -50], [0, 100, 199])
    assert bid.tolist() == ask.tolist() == [bid[0]] * 3
    assert digits([2 * bid[0], bid[0]], 5) == ["1.49177", "0.74589"] and digits(bid[0], 6) == ["0.745885"]
    over_steps = [sum(avellaneda_stoikov().quotes(0, step)) for step in range(200)]
    np.testing.assert_allclose(2 * bid[0], np.mean(over_steps), rtol=1e-12)


def test_glft_figures_of_the_long_run():
    assert digits(static_half_spread(0.01, 0.3), 9) == ["3.278982282"]
    assert digits(long_run_skew(0.01, 0.3, 0.9, 0.3), 6) == ["0.067866"]
    policy = published_glft()
    assert digits(policy.quotes(0), 6) == ["3.312915", "3.312915"]
    assert digits(policy.quotes(10), 6) == ["3.991574", "2.634257"]
    assert digits(np.add(*policy.quotes(np.arange(-30, 31))), 6) == ["6.625830"] * 61


def test_glft_figures_of_a_finite_horizon():
    policy = published_glft(finite_horizon=True)
    assert digits(policy.quotes(0), 6) == ["3.313045", "3.313045"]
    assert digits(policy.quotes(10), 6) == ["3.992933", "2.632802"]
    np.testing.assert_array_equal(policy.quotes(np.arange(-30, 31), 200), static_half_spread(0.01, 0.3))
    wide = published_glft(finite_horizon=True, max_inventory=100)
    assert digits([wide.quotes(q)[0] for q in (-100, 40)], 12) == ["-2.762203414267", "5.964227825507"]


@pytest.mark.parametrize("n_steps", [1, 37, 600])
def test_time_steps_are_exact_whatever_their_length(n_steps):
    policy = published_glft(finite_horizon=True, max_inventory=100, n_steps=n_steps)
    assert digits([policy.quotes(q)[0] for q in (-100, 40)], 10) == ["-2.7622034143", "5.9642278255"]


def test_cartea_jaimungal_figures():
    policy = cartea_jaimungal()
    assert digits(policy.value(0), 8) == ["68.25583476"]
    assert digits(policy.quotes(0), 5) == ["0.67214", "0.67214"]
    other = cartea_jaimungal(arrival_rate=50.0, fill_decay=2.0)
    assert digits(other.value(0), 8) == ["18.21929052"]
    np.testing.assert_allclose(policy.value([3, -3], 200), [-0.009, -0.009], rtol=1e-12)
    bid, ask = policy.quotes([4, -4], 200)
    np.testing.assert_allclose(bid, 1 / 1.5 + 0.001 * np.array([9, -7]), rtol=1e-12)
    np.testing.assert_allclose(ask, bid[::-1], rtol=0)


def test_a_fixed_spread_is_risk_neutral_unless_told():
    distances = np.linspace(0.01, 3, 300)
    gain = distances * np.exp(-1.5 * distances)
    policy = FixedSpread.for_env(Recording())
    assert policy.half_spread == 1 / 1.5
    assert abs(distances[np.argmax(gain)] - policy.half_spread) <= 0.01
    assert FixedSpread.for_env(Recording(), 0.7)(np.zeros((3, 2), np.float32)).tolist() == [[np.float32(0.7)] * 2] * 3


# The equation behind the tables, solved in other ways.


def exact_log_values(penalty, intensity, terminal, horizon, n_steps):
    """The same by Taylor's series of the plain matrix, all q, 60 digits; 40 terms, for steps of norm 1 or so."""
    with localcontext() as context:
        context.prec = 60
        limit = len(terminal) - 1
        diagonal = [-Decimal(penalty) * q * q for q in range(-limit, limit + 1)]
        off = Decimal(intensity)
        v = [Decimal(float(terminal[abs(q)])).exp() for q in range(-limit, limit + 1)]
        rows = [v]
        dt = Decimal(horizon) / n_steps
        for _ in range(n_steps):
            term, total = v, list(v)
            for n in range(1, 41):
                edged = [Decimal(0), *term, Decimal(0)]
                term = [
                    (diagonal[i] * edged[i + 1] + off * (edged[i] + edged[i + 2])) * dt / n for i in range(len(term))
                ]
                total = [a + b for a, b in zip(total, term, strict=True)]
            v = total
            rows.append(v)
        return np.array([[float(x.ln()) for x in row[limit:]] for row in rows[::-1]])


@pytest.mark.parametrize(
    ("penalty", "intensity", "final", "horizon", "n_steps", "limit"),
    [
        (1.35e-4, 0.326, 0.0, 60.0, 60, 20),
        (0.015, 51.5, 0.0015, 0.2, 20, 6),
        (0.3, 50.0, 0.0, 0.1, 10, 8),
        (2.0, 0.5, 3.0, 1.0, 40, 5),
        (0.0, 1.0, 0.0, 1.0, 2, 1),
        (0.0, 3.0, 12.0, 1.0, 10, 4),
    ],
)
def test_log_values_against_a_series_in_many_digits(penalty, intensity, final, horizon, n_steps, limit):
    terminal = -final * np.arange(limit + 1.0) ** 2
    values = log_values(penalty, intensity, terminal, horizon, n_steps)
    exact = exact_log_values(penalty, intensity, terminal, horizon, n_steps)
    np.testing.assert_allclose(values, exact, rtol=1e-13, atol=1e-13)


def test_glft_against_an_eigendecomposition_where_that_works():
    policy = published_glft(finite_horizon=True, max_inventory=10, n_steps=4)
    gamma, sigma, arrival_rate, k = 0.01, 0.3, 0.9, 0.3
    q = np.arange(-10, 11)
    off = arrival_rate * (1 + gamma / k) ** -(1 + k / gamma)
    matrix = np.diag(-k * gamma * sigma**2 / 2 * q**2.0) + off * (np.eye(21, k=1) + np.eye(21, k=-1))
    rates, vectors = np.linalg.eigh(matrix)
    for step in range(5):
        v = vectors @ (np.exp(rates * 600 * (1 - step / 4)) * (vectors.T @ np.ones(21)))
        c1 = np.log(1 + gamma / k) / gamma
        bid, ask = policy.quotes(q, step)
        np.testing.assert_allclose(bid[:-1], np.log(v[:-1] / v[1:]) / k + c1, rtol=1e-9)
        np.testing.assert_allclose(ask[1:], np.log(v[1:] / v[:-1]) / k + c1, rtol=1e-9)


def test_cartea_jaimungal_value_solves_its_nonlinear_equation():
    """``h' = phi q^2 - sum over both sides of A exp(-k d) / k`` with d the quotes, by Runge-Kutta back from T."""
    phi, alpha, arrival_rate, k, limit, n_steps = 0.01, 0.001, 140.0, 1.5, 30, 2_000
    policy = cartea_jaimungal(max_inventory=limit, n_steps=4)
    q = np.arange(-limit, limit + 1)

    def slope(h):  # of h in the time left
        gain = arrival_rate / k * np.exp(-1.0 + k * np.diff(h))  # from a bid at q = -limit..limit - 1
        loss = arrival_rate / k * np.exp(-1.0 - k * np.diff(h))  # from an ask at q = 1 - limit..limit
        return -phi * q**2 + np.append(gain, 0.0) + np.insert(loss, 0, 0.0)

    h = -alpha * q**2.0
    dt = 1.0 / n_steps
    for step in range(n_steps + 1):
        if step % 500 == 0:
            np.testing.assert_allclose(policy.value(q, 4 - step // 500), h, rtol=1e-9, atol=1e-9)
        a = slope(h)
        b = slope(h + dt / 2 * a)
        c = slope(h + dt / 2 * b)
        h = h + dt / 6 * (a + 2 * b + 2 * c + slope(h + dt * c))


def test_log_values_leave_no_residual():
    """Differences in time of order 4, against the right-hand side of ``v' / v``."""
    penalty, intensity, dt = 0.3, 50.0, 1 / 2_000
    log_v = log_values(penalty, intensity, np.zeros(31), 0.1, 200)
    slope = (log_v[:-4] - 8 * log_v[1:-3] + 8 * log_v[3:-1] - log_v[4:]) / (12 * dt)
    v = np.exp(log_v)
    expected = penalty * np.arange(1, 30) ** 2 - intensity * (v[:, :-2] + v[:, 2:]) / v[:, 1:-1]
    # Away from the limit at T, where the value bends too sharply for differences.
    np.testing.assert_allclose(slope[:150, :-1][:, 1:], expected[2:152], rtol=1e-6)


@pytest.mark.parametrize(
    "policy",
    [
        lambda: cartea_jaimungal(alpha=5.0, max_inventory=300, n_steps=20),  # final weights down to exp(-675000)
        lambda: cartea_jaimungal(phi=1.0, max_inventory=50),
        lambda: cartea_jaimungal(phi=0.0, alpha=0.0),
        lambda: cartea_jaimungal(phi=0.0, alpha=1e6),  # at once, not after some e^(alpha k) terms
        lambda: published_glft(finite_horizon=True, horizon=20_000.0, n_steps=10),
        lambda: glft(gamma=1e-9, finite_horizon=True),
        lambda: glft(gamma=50.0, volatility=0.01, finite_horizon=True),
        lambda: glft(volatility=0.0, finite_horizon=True),
        lambda: glft(finite_horizon=True, max_inventory=1, n_steps=1),
    ],
)
def test_tables_stay_finite_and_fall_with_the_inventory_at_the_ask(policy):
    policy = policy()
    q = np.arange(-policy.max_inventory + 1, policy.max_inventory)
    for step in (0, policy.n_steps // 2, policy.n_steps - 1):
        bid, ask = policy.quotes(q, step)
        assert np.isfinite(bid).all() and np.isfinite(ask).all()
        assert (np.diff(ask) <= 1e-12).all() and (np.diff(bid) >= -1e-12).all()


def test_log_values_refuse_what_would_never_end():
    with pytest.raises(
        ValueError, match=r"\) \* horizon of at most 1e\+06, got \(1e\+03 \* 100\^2 \+ 1\) \* 1; take a"
    ):
        log_values(1000.0, 1.0, np.zeros(101), 1.0, 10)
    with pytest.raises(ValueError, match=r"at most 1e\+06, got \(0 \* 2\^2 \+ 50\) \* 1e\+05; take a smaller"):
        log_values(0.0, 50.0, np.zeros(3), 1e5, 10)
    with pytest.raises(ValueError, match=r"expected terminal values of at most 1e\+12, got 4e\+12; take a smaller"):
        log_values(0.0, 50.0, -1e12 * np.arange(3.0) ** 2, 1.0, 10)
    with pytest.raises(ValueError, match="expected an intensity above 0, got 0.0"):
        log_values(1.0, 0.0, np.zeros(3), 1.0, 10)


@pytest.mark.parametrize(
    "policy",
    [
        lambda: avellaneda_stoikov(volatility=1e200),
        lambda: glft(volatility=1e200, finite_horizon=True),
        lambda: glft(gamma=1e-320),
        lambda: glft(gamma=1e300, fill_decay=1e-10),
    ],
)
def test_parameters_whose_quotes_are_no_numbers_are_refused(policy):
    with pytest.raises(ValueError, match=r"^\w+: expected parameters that give finite actions, got \w+\(.*volatility="):
        policy()


# What holds for every policy.


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_ask_is_the_bid_of_the_opposite_inventory(kind):
    policy = EVERY_KIND[kind]()
    inventory = np.arange(-70, 71)
    for step in (0, 63, 199, 200):
        bid, ask = policy.quotes(inventory, step)
        np.testing.assert_array_equal(ask, policy.quotes(-inventory, step)[0])
        assert np.isfinite(bid).all()


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_quotes_of_a_batch_are_those_of_the_units_and_the_step_it_shows(kind):
    policy = EVERY_KIND[kind]()
    inventory, step = (grid.ravel() for grid in np.meshgrid(np.arange(-50, 51), np.arange(201)))
    observations = observe(policy, inventory, step)
    actions = policy(observations)
    assert actions.dtype == np.float32 and actions.shape == (len(inventory), 2)
    expected = np.stack(policy.quotes(inventory, step), axis=1).astype(np.float32)
    np.testing.assert_array_equal(actions, expected)
    full = np.hstack([observations, np.full((len(inventory), 2), 9.0, np.float32)])
    np.testing.assert_array_equal(policy(full), expected)
    np.testing.assert_array_equal(policy(observations.astype(np.float64)), expected)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_compiled_row_gives_the_same_bits(kind):
    policy = EVERY_KIND[kind]()
    quote_row, parameters = policy.row_policy()
    inventory, step = (grid.ravel() for grid in np.meshgrid(np.arange(-70, 71), np.arange(201)))
    observations = observe(policy, inventory, step)
    # Beyond any env: time that is over or has not begun, inventory without bounds.
    beyond = np.array([[0.0, -0.5], [0.0, 1.5], [1e6, 0.5], [-1e6, 0.5]], np.float32)
    observations = np.vstack([observations, beyond])
    rows = np.empty((len(observations), 2), np.float32)
    for observation, action in zip(observations, rows, strict=True):
        quote_row(parameters, observation, action)
    np.testing.assert_array_equal(rows.view(np.uint32), policy(observations).view(np.uint32))


def test_no_observation_reads_beyond_a_table():
    policy = cartea_jaimungal(max_inventory=5)
    quote_row, parameters = policy.row_policy()
    action = np.empty(2, np.float32)
    for level, time_left in ((np.nan, 0.5), (0.0, np.nan), (np.inf, -np.inf), (-np.inf, np.inf)):
        observation = np.array([level, time_left], np.float32)
        quote_row(parameters, observation, action)
        assert action.tolist() == policy(observation[None])[0].tolist()
        assert np.isfinite(action).all()


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_policies_are_frozen_and_can_be_sent_to_another_process(kind):
    policy = EVERY_KIND[kind]()
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.horizon = 2.0
    observations = observe(policy, np.arange(-5, 6), 17)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(policy))(observations), policy(observations))


def test_tables_are_read_only():
    _, parameters = cartea_jaimungal().row_policy()
    with pytest.raises(ValueError, match="read-only"):
        parameters.bid[:] = 0.0


# Limits, in which one model becomes another.


def test_without_risk_aversion_every_policy_quotes_the_risk_neutral_distance():
    q = np.arange(-20, 21)
    tiny = 1e-9
    np.testing.assert_allclose(avellaneda_stoikov(gamma=tiny).quotes(q), 1 / 1.5, atol=1e-6)
    np.testing.assert_allclose(avellaneda_stoikov(gamma=tiny, symmetric=True).quotes(q), 1 / 1.5, atol=1e-8)
    np.testing.assert_allclose(glft(gamma=1e-16).quotes(q), 1 / 1.5, atol=1e-6)
    np.testing.assert_allclose(glft(volatility=0.0).quotes(q), static_half_spread(0.1, 1.5), rtol=1e-15)
    # At the limit it pays to hold room for the next order even so; hence far from it, and near the end.
    finite = glft(gamma=tiny, finite_horizon=True, max_inventory=100)
    np.testing.assert_allclose(finite.quotes(q, 190), 1 / 1.5, atol=1e-6)
    finite = cartea_jaimungal(phi=0.0, alpha=0.0)
    np.testing.assert_allclose(finite.quotes(q, 190), 1 / 1.5, atol=1e-6)


def test_glft_becomes_cartea_jaimungal_as_risk_aversion_goes_to_0_at_a_fixed_penalty():
    q, step = (grid.ravel() for grid in np.meshgrid(np.arange(-50, 51), np.arange(201)))
    gamma, phi = 1e-9, 0.01
    utility = glft(gamma=gamma, volatility=np.sqrt(2 * phi / gamma), finite_horizon=True)
    penalty = cartea_jaimungal(phi=phi, alpha=0.0, max_inventory=50)
    np.testing.assert_allclose(utility.quotes(q, step), penalty.quotes(q, step), rtol=1e-7)


def test_finite_glft_comes_near_its_long_run_far_from_the_horizon_and_the_limit():
    q = np.arange(-10, 11)
    finite = published_glft(finite_horizon=True, max_inventory=100)
    np.testing.assert_allclose(finite.quotes(q), published_glft().quotes(q), atol=2e-3)


# One number per sub-env.

DIFFERING = {
    "half_spread": [0.5, 0.7, 0.9],
    "gamma": [0.05, 0.1, 0.2],
    "phi": [0.01, 0.02, 0.01],
    "alpha": [0.0, 0.001, 0.1],
    "volatility": np.array([1.0, 2.0, 3.0]),
    "arrival_rate": np.array([140.0, 70.0, 140.0]),
    "fill_decay": np.array([1.5, 1.0, 2.0]),
}


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (lambda **changes: FixedSpread(**{"half_spread": 0.7, **changes}), ["half_spread"]),
        (avellaneda_stoikov, ["gamma", "volatility", "fill_decay"]),
        (lambda **changes: avellaneda_stoikov(symmetric=True, **changes), ["gamma", "volatility", "fill_decay"]),
        (glft, ["gamma", "volatility", "arrival_rate", "fill_decay"]),
        (
            lambda **changes: glft(finite_horizon=True, n_steps=20, **changes),
            ["gamma", "volatility", "arrival_rate", "fill_decay"],
        ),
        (
            lambda **changes: cartea_jaimungal(n_steps=20, max_inventory=60, **changes),
            ["phi", "alpha", "arrival_rate", "fill_decay"],
        ),
    ],
    ids=["fixed", "avellaneda-stoikov", "symmetric", "long run", "finite", "cartea-jaimungal"],
)
def test_one_number_per_sub_env_quotes_as_each_number_alone(policy, names):
    for chosen in [*([name] for name in names), names]:
        together = policy(**{name: DIFFERING[name] for name in chosen})
        alone = [policy(**{name: DIFFERING[name][i] for name in chosen}) for i in range(3)]
        for inventory in (-50, -7, 0, 12):
            observations = observe(together, [inventory, inventory + 1, inventory + 2], [0, 10, 19])
            expected = [alone[i](observations[i : i + 1])[0] for i in range(3)]
            np.testing.assert_array_equal(together(observations), expected)
        assert together.row_policy() is None
        with pytest.raises(ValueError, match=r"expected observations of 3 sub-envs \(one \w+ each\), got 4"):
            together(np.zeros((4, 2), np.float32))


def test_value_per_sub_env():
    policy = cartea_jaimungal(phi=[0.01, 0.02, 0.01])
    expected = [cartea_jaimungal(phi=phi).value(q, 9) for phi, q in ((0.01, 3), (0.02, -4), (0.01, 5))]
    assert policy.value([3, -4, 5], 9).tolist() == expected


def test_an_array_of_one_and_the_same_number_counts_as_the_number():
    policy = glft(volatility=np.full(7, 2.0), finite_horizon=True)
    assert policy.volatility == 2.0
    policy.row_policy()
    assert policy(np.zeros((3, 2), np.float32)).shape == (3, 2)


def test_parameters_per_sub_env_do_not_follow_the_array_they_came_in():
    volatility = np.array([1.0, 2.0])
    policy = avellaneda_stoikov(volatility=volatility)
    before = policy(np.ones((2, 2), np.float32))
    volatility[:] = 9.0
    np.testing.assert_array_equal(policy(np.ones((2, 2), np.float32)), before)
    assert not policy.volatility.flags.writeable


def test_as_many_numbers_in_each_parameter():
    with pytest.raises(ValueError, match=r"expected as many numbers .* \{'volatility': 2, 'fill_decay': 3\}"):
        avellaneda_stoikov(volatility=[1.0, 2.0], fill_decay=[1.0, 2.0, 3.0])


def test_too_many_tables_are_refused():
    volatility = np.linspace(1, 2, MAX_TABLES + 1)
    with pytest.raises(ValueError, match="GLFT: expected at most 64 different sets of parameters.* got 65"):
        glft(volatility=volatility, finite_horizon=True)
    assert glft(volatility=volatility).quotes(0)[0].shape == (65,)


# Built from an env.


class Recording:
    """Stands for any VecEnv of the quoting market or wrapper of one: what a policy's builder may ask."""

    def __init__(self, num_envs=3, **changes):
        self.params = [SimpleNamespace(**{**MARKET, **EPISODE, "midprice": "brownian", **changes})] * num_envs

    def get_attr(self, name):
        assert name == "params"
        return list(self.params)


def test_the_env_gives_what_the_policy_is_not_told():
    vec = Recording(volatility=3.0, n_steps=10, max_inventory=None)
    policy = AvellanedaStoikov.for_env(vec, gamma=0.2, symmetric=True)
    assert repr(policy) == (
        "AvellanedaStoikov(horizon=1.0, n_steps=10, max_inventory=None, gamma=0.2, volatility=3.0, fill_decay=1.5, "
        "symmetric=True)"
    )
    assert AvellanedaStoikov.for_env(vec).gamma == 0.1
    policy = GLFT.for_env(vec, gamma=0.2, finite_horizon=True, grid_limit=7)
    assert (policy.gamma, policy.volatility, policy.arrival_rate, policy.grid_limit) == (0.2, 3.0, 140.0, 7)
    policy = CarteaJaimungal.for_env(Recording(horizon=2.0), phi=0.1, alpha=0.2)
    assert (policy.phi, policy.alpha, policy.horizon, policy.max_inventory) == (0.1, 0.2, 2.0, 50)


BUILDERS = {
    "fixed": (FixedSpread.for_env, ["fill_decay"]),
    "avellaneda-stoikov": (AvellanedaStoikov.for_env, ["volatility", "fill_decay"]),
    "glft": (GLFT.for_env, ["volatility", "arrival_rate", "fill_decay"]),
    "cartea-jaimungal": (CarteaJaimungal.for_env, ["arrival_rate", "fill_decay"]),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_a_parameter_that_is_drawn_anew_has_to_be_given(name):
    build, parameters = BUILDERS[name]
    for parameter in parameters:
        vec = Recording(**{parameter: Randomized(1, 3)})
        with pytest.raises(
            ValueError, match=rf"\w+: {parameter} is drawn anew .*Randomized\(low=1.0, high=3.0\).* {parameter}=..."
        ):
            build(vec)
        given = build(vec, **{parameter: 1.25})
        told = build(Recording(**{parameter: 1.25}))
        np.testing.assert_array_equal(given.quotes([3, 4, 5], 7), told.quotes([3, 4, 5], 7))
    unseen = {other: Randomized(1, 3) for other in MARKET if other not in parameters}
    build(Recording(**unseen))
    FixedSpread.for_env(Recording(fill_decay=Randomized(1, 3)), half_spread=0.5)


@pytest.mark.parametrize("name", BUILDERS)
def test_sub_envs_may_differ(name):
    build, parameters = BUILDERS[name]
    differing = {parameter: DIFFERING[parameter] for parameter in parameters}
    native = build(Recording(**differing))
    # The same market as single envs of their own, each with a record of its own.
    singles = Recording()
    singles.params = [Recording(**{key: values[i] for key, values in differing.items()}).params[0] for i in range(3)]
    observations = observe(native, [1, 2, 3], [0, 1, 2])
    np.testing.assert_array_equal(native(observations), build(singles)(observations))
    alone = [
        build(Recording(**{key: values[i] for key, values in differing.items()}))(observations[i : i + 1])[0]
        for i in range(3)
    ]
    np.testing.assert_array_equal(native(observations), alone)


@pytest.mark.parametrize(("name", "other"), [("horizon", 2.0), ("n_steps", 100), ("max_inventory", None)])
def test_sub_envs_of_different_episodes_are_refused(name, other):
    vec = Recording()
    vec.params[1] = Recording(**{name: other}).params[0]
    with pytest.raises(ValueError, match=f"AvellanedaStoikov: expected sub-envs of one {name}, got "):
        AvellanedaStoikov.for_env(vec)


def test_a_table_needs_a_limit():
    vec = Recording(max_inventory=None)
    for build in (CarteaJaimungal.for_env, lambda *args, **given: GLFT.for_env(*args, finite_horizon=True, **given)):
        with pytest.raises(ValueError, match="expected a grid_limit, the largest inventory to quote for"):
            build(vec)
        policy = build(vec, grid_limit=20)
        inventory = np.array([-25, -20, 20, 25, 4])
        actions = policy(observe(policy, inventory, 3))
        np.testing.assert_array_equal(actions[[0, 3]], actions[[1, 2]])
        within = build(Recording(max_inventory=20))
        np.testing.assert_array_equal(actions[4:], within(observe(within, 4, 3)[None]))
    GLFT.for_env(vec)


def test_policies_offered_by_name():
    policies = pickle.loads(pickle.dumps(POLICIES))
    built = {name: build(Recording()) for name, build in policies.items()}
    assert {name: type(policy) for name, policy in built.items()} == {
        "fixed-spread": FixedSpread,
        "avellaneda-stoikov": AvellanedaStoikov,
        "avellaneda-stoikov-symmetric": AvellanedaStoikov,
        "glft": GLFT,
        "cartea-jaimungal": CarteaJaimungal,
    }
    assert [built[name].symmetric for name in ("avellaneda-stoikov", "avellaneda-stoikov-symmetric")] == [False, True]


@pytest.mark.parametrize(
    ("build", "changes", "error", "message"),
    [
        (avellaneda_stoikov, {"gamma": 0.0}, ValueError, "gamma: expected a finite number above 0, got 0.0"),
        (avellaneda_stoikov, {"volatility": [1.0, -1.0]}, ValueError, r"of at least 0, got -1.0 \(sub-env 1\)"),
        (
            avellaneda_stoikov,
            {"fill_decay": np.nan},
            ValueError,
            "fill_decay: expected a finite number above 0, got nan",
        ),
        (avellaneda_stoikov, {"gamma": "0.1"}, TypeError, "gamma: expected a number, .* got '0.1'"),
        (avellaneda_stoikov, {"gamma": np.ones((2, 2))}, ValueError, "expected one number per sub-env, got an array"),
        (avellaneda_stoikov, {"gamma": ["a", "b"]}, TypeError, "gamma: expected numbers, got"),
        (avellaneda_stoikov, {"gamma": True}, TypeError, "gamma: expected a number, .* got True"),
        (avellaneda_stoikov, {"volatility": Randomized(1, 3)}, TypeError, r"got Randomized\(low=1.0, high=3.0\)"),
        (avellaneda_stoikov, {"horizon": 0.0}, ValueError, "horizon: expected a finite number above 0, got 0"),
        (avellaneda_stoikov, {"horizon": [1.0, 1.0]}, TypeError, "horizon: expected a number, got"),
        (avellaneda_stoikov, {"n_steps": 0}, ValueError, "n_steps: expected at least 1, got 0"),
        (avellaneda_stoikov, {"max_inventory": 0}, ValueError, "max_inventory: expected at least 1, got 0"),
        (glft, {"arrival_rate": 0.0}, ValueError, "arrival_rate: expected a finite number above 0"),
        (glft, {"grid_limit": 1.5}, TypeError, "GLFT: grid_limit: expected an integer, got float"),
        (cartea_jaimungal, {"phi": -0.1}, ValueError, "CarteaJaimungal: phi: expected a finite number of at least 0"),
        (cartea_jaimungal, {"alpha": np.inf}, ValueError, "alpha: expected a finite number of at least 0, got inf"),
        (FixedSpread, {"half_spread": np.inf}, ValueError, "half_spread: expected a finite number, got inf"),
    ],
)
def test_parameters_are_checked(build, changes, error, message):
    with pytest.raises(error, match=message):
        build(**changes)


# In the market itself.

MARKETS = {
    "defaults": {},
    "full": {"observe": "full"},
    "no limit": {"max_inventory": None},
    "per sub-env": {"volatility": [1.0, 2.0, 3.0, 1.0], "fill_decay": [1.5, 1.5, 2.0, 1.5], "max_inventory": 5},
    "geometric": {"midprice": "geometric", "volatility": 0.02, "max_inventory": 3},
}


def build_all(vec, terms):
    """Every policy that the market offers, and what else its builders make, by name."""
    limit = {"grid_limit": 20} if terms.get("max_inventory", 50) is None else {}
    built = {name: build(vec) for name, build in vec.get_attr("policies")[0].items() if name != "cartea-jaimungal"}
    built["cartea-jaimungal"] = CarteaJaimungal.for_env(vec, **limit)
    built["finite"] = GLFT.for_env(vec, finite_horizon=True, **limit)
    return built


#: Those of the others are compiled for themselves.
each_market = pytest.mark.parametrize(
    "market",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in ("full", "geometric", "no limit"))) for each in MARKETS],
)


@each_market
def test_policies_quote_by_what_the_market_holds(market):
    terms = {"n_steps": 10, **MARKETS[market]}
    vec = MarketMakingVecEnv(4, **terms)
    for policy in build_all(vec, terms).values():
        observations = vec.reset(seed=3).observations
        for step in range(10):
            actions = policy(observations)
            assert vec.batch_action_space.contains(actions)
            expected = policy.quotes(np.array(vec.get_attr("inventory")), step)
            np.testing.assert_array_equal(actions, np.stack(np.broadcast_arrays(*expected), axis=1).astype(np.float32))
            observations = vec.step(actions).observations


@each_market
def test_policies_are_the_same_on_every_backend_and_behind_wrappers(market):
    terms = {"n_steps": 10, **MARKETS[market]}
    native = MarketMakingVecEnv(4, **terms)

    def own(index):
        values = {key: value[index] if isinstance(value, list) else value for key, value in terms.items()}
        return lambda: SingleEnv(lambda num_envs, **kwargs: MarketMakingVecEnv(num_envs, **values, **kwargs))

    singles = SyncVecEnv([own(index) for index in range(4)])
    wrapped = VecRecordEpisodeStatistics(MarketMakingVecEnv(4, **terms))
    observations = native.reset(seed=0).observations
    expected = {name: policy(observations) for name, policy in build_all(native, terms).items()}
    for vec in (singles, wrapped):
        for name, policy in build_all(vec, terms).items():
            np.testing.assert_array_equal(policy(observations), expected[name])
    singles.close()


def test_the_volatility_of_a_mid_that_moves_by_fractions_is_taken_at_the_initial_price():
    terms = {"midprice": "jumps", "initial_price": [50.0, 100.0], "volatility": 0.02}
    assert AvellanedaStoikov.for_env(MarketMakingVecEnv(2, **terms)).volatility.tolist() == [1.0, 2.0]
    terms["initial_price"] = Randomized(50, 100)
    with pytest.raises(ValueError, match=r"initial_price is drawn anew .* give the volatility .* volatility=..."):
        AvellanedaStoikov.for_env(MarketMakingVecEnv(2, **terms))
    assert AvellanedaStoikov.for_env(MarketMakingVecEnv(2, **terms), volatility=1.5).volatility == 1.5
    FixedSpread.for_env(MarketMakingVecEnv(2, **terms))


@pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 3, 2)], ids=str)
def test_what_is_no_batch_of_observations(shape):
    expected = f"FixedSpread: expected observations of shape (N, 2) or (N, 4), got {shape}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        FixedSpread(half_spread=1.0)(np.ones(shape, np.float32))
