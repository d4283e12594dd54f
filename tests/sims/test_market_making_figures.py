"""The figures of the quoting market: published ones, closed forms, and the exact law of a policy's outcome.

Over n independent paths a mean is to lie within 4 sd / sqrt(n), a standard deviation within 4 sd / sqrt(2 n) and a
probability within 4 sqrt(p (1 - p) / n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from sekai.kernels import get_num_threads, set_num_threads
from sims.market_making import GLFT, AvellanedaStoikov, CarteaJaimungal, FixedSpread, MarketMakingVecEnv
from sims.market_making.closed_forms import fill_intensity, log_values

pytestmark = pytest.mark.compiled

PATHS = 20_000
SIGMA, ARRIVAL_RATE, FILL_DECAY = 2.0, 140.0, 1.5  # the market's defaults


@pytest.fixture(autouse=True)
def one_thread():
    """No thread waits for another that has to share its core."""
    before = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


def check_mean(sample, mean, sd):
    assert abs(np.mean(sample) - mean) <= 4.0 * sd / math.sqrt(len(sample)), (np.mean(sample), mean, sd)


def check_sd(sample, sd):
    assert abs(np.std(sample) - sd) <= 4.0 * sd / math.sqrt(2 * len(sample)), (np.std(sample), sd)


def check_probability(hits, p):
    error = 4.0 * math.sqrt(p * (1.0 - p) / np.size(hits))
    assert abs(np.mean(hits) - p) <= error, (np.mean(hits), p)


def normal_cdf(z):
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def fill_chance(distance, rule, intensity=ARRIVAL_RATE / 200, decay=FILL_DECAY):
    """The probability of a fill within a step; the intensity is that of orders per step."""
    rate = intensity * np.exp(-decay * np.asarray(distance, np.float64))
    return np.minimum(1.0, rate) if rule == "linear" else -np.expm1(-rate)


def play(env, policy, seed=0):
    """One episode of every path: the sums of rewards, and the info columns at its end."""
    observations, total = env.reset(seed=seed).observations, np.zeros(env.num_envs)
    for _ in range(env.params.n_steps):
        result = env.step(policy(observations))
        observations = result.observations
        total += result.rewards
    assert result.truncated.all()
    return total, result.infos.columns


# -- the exact law of what a policy earns -------------------------------------------------------------------


@dataclass
class Law:
    """What a policy comes to that quotes by the inventory and the step, in a market of steps, without sampling.

    The mid is a martingale with independent normal moves, so that a recursion over the inventory alone gives them.
    """

    mean: float
    sd: float
    sd_inventory: float
    penalised: float  # mean wealth less the penalties
    utility: float  # mean of -exp(-gamma wealth)


def exact_law(quotes, rule, n_steps, grid, phi=0.0, alpha=0.0, gamma=0.0):
    """The law of a policy's outcome in the default market but for the number of steps.

    Args:
        quotes: Called with inventories and a step; gives distances of bid and ask.
        rule: The fill rule.
        n_steps: Steps of the episode, which lasts 1.
        grid: The inventory limit, or one that is out of reach.
        phi: Running penalty.
        alpha: Final penalty.
        gamma: Risk aversion.
    """
    q, dt = np.arange(-grid, grid + 1.0), 1.0 / n_steps
    variance = SIGMA**2 * dt * q**2  # of what holding q earns in a step
    first, second, utility = np.zeros(len(q)), np.zeros(len(q)), -np.ones(len(q))
    penalised, chances = -alpha * q**2, []
    for step in reversed(range(n_steps)):
        bid, ask = quotes(q, step)
        buys, sells = (fill_chance(distance, rule, ARRIVAL_RATE * dt) for distance in (bid, ask))
        buys[-1] = sells[0] = 0.0
        chances.append((buys, sells))
        terms = np.zeros((4, len(q)))
        for bought in (0, 1):
            for sold in (0, 1):
                p = (buys if bought else 1.0 - buys) * (sells if sold else 1.0 - sells)
                gain, units = bought * bid + sold * ask, bought - sold
                ahead = [np.roll(column, -units) for column in (first, second, penalised, utility, variance, q)]
                terms += p * np.array(
                    [
                        gain + ahead[0],
                        gain**2 + ahead[4] + 2.0 * gain * ahead[0] + ahead[1],
                        gain - phi * dt * ahead[5] ** 2 + ahead[2],
                        np.exp(-gamma * gain + 0.5 * gamma**2 * ahead[4]) * ahead[3],
                    ]
                )
        first, second, penalised, utility = terms
    chance = (q == 0.0).astype(float)
    for buys, sells in reversed(chances):
        up, down = chance * buys * (1.0 - sells), chance * sells * (1.0 - buys)
        chance = chance - up - down + np.roll(up, 1) + np.roll(down, -1)
    assert chance[0] + chance[-1] < 1e-9  # the edge is out of reach
    sd_inventory = math.sqrt(np.sum(chance * q**2))
    return Law(first[grid], math.sqrt(second[grid] - first[grid] ** 2), sd_inventory, penalised[grid], utility[grid])


def check_law(env, policy, law):
    _, end = play(env, policy)
    check_mean(end["wealth"], law.mean, law.sd)
    check_sd(end["wealth"], law.sd)
    check_mean(end["inventory"], 0.0, law.sd_inventory)
    check_sd(end["inventory"], law.sd_inventory)


# -- item 1 -----------------------------------------------------------------------------------------------


def constant_spread_law(d, rule="linear", n_steps=200):
    """By hand: mean and sd of the final wealth, sd of the final inventory."""
    p = float(fill_chance(d, rule, ARRIVAL_RATE / n_steps))
    spread = p * (1.0 - p)
    variance = 2 * n_steps * spread * d**2 + SIGMA**2 / n_steps * spread * n_steps * (n_steps + 1)
    return 2 * n_steps * p * d, math.sqrt(variance), math.sqrt(2 * n_steps * spread)


@pytest.mark.parametrize("rule", ["linear", pytest.param("exact", marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [0.3, 0.745885, 2.0])
def test_a_constant_half_spread(d, rule):
    mean, sd, sd_inventory = constant_spread_law(d, rule)
    law = exact_law(lambda q, step: (np.full(len(q), d), np.full(len(q), d)), rule, 200, 100)
    assert (law.mean, law.sd, law.sd_inventory) == pytest.approx((mean, sd, sd_inventory), rel=1e-9)
    env = MarketMakingVecEnv(PATHS, max_inventory=None, fill_rule=rule)
    check_law(env, FixedSpread(half_spread=d), law)


def test_the_printed_figures_of_a_constant_half_spread():
    assert [f"{value:.3f}" for value in constant_spread_law(0.745885)] == ["68.223", "13.456", "8.399"]


# -- item 2 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "symmetric", "figures"),
    [
        ("linear", False, (64.93, 6.51, 2.94)),
        ("linear", True, (68.223, 13.456, 8.399)),
        pytest.param("exact", False, (57.22, 6.34, 3.02), marks=pytest.mark.slow),
    ],
)
def test_the_table_of_avellaneda_and_stoikov(rule, symmetric, figures):
    env = MarketMakingVecEnv(PATHS, max_inventory=None, fill_rule=rule)
    policy = AvellanedaStoikov.for_env(env, gamma=0.1, symmetric=symmetric)
    assert f"{np.mean([sum(policy.quotes(0, step)) for step in range(200)]):.2f}" == "1.49"
    law = exact_law(lambda q, step: np.broadcast_arrays(*policy.quotes(q, step), q)[:2], rule, 200, 100)
    check_law(env, policy, law)
    # The figures are of as many paths as here.
    mean, sd, sd_inventory = figures
    assert abs(law.mean - mean) <= 4.0 * law.sd / math.sqrt(PATHS)
    assert abs(law.sd - sd) <= 4.0 * law.sd / math.sqrt(2 * PATHS)
    assert abs(law.sd_inventory - sd_inventory) <= 4.0 * law.sd_inventory / math.sqrt(2 * PATHS)


@pytest.mark.parametrize(("symmetric", "printed"), [(False, (65.0, 6.6, 0.08, 2.9)), (True, (68.4, 12.7, 0.26, 8.4))])
def test_the_printed_table_is_as_near_as_its_1000_paths_allow(symmetric, printed):
    policy = AvellanedaStoikov.for_env(MarketMakingVecEnv(1, max_inventory=None), gamma=0.1, symmetric=symmetric)
    law = exact_law(lambda q, step: np.broadcast_arrays(*policy.quotes(q, step), q)[:2], "linear", 200, 100)
    mean, sd, mean_inventory, sd_inventory = printed
    assert abs(law.mean - mean) <= 4.0 * law.sd / math.sqrt(1000) + 0.05
    assert abs(law.sd - sd) <= 4.0 * law.sd / math.sqrt(2000) + 0.05
    assert abs(mean_inventory) <= 4.0 * law.sd_inventory / math.sqrt(1000)
    assert abs(law.sd_inventory - sd_inventory) <= 4.0 * law.sd_inventory / math.sqrt(2000) + 0.05


# -- items 3 and 4, played --------------------------------------------------------------------------------


@pytest.mark.slow
def test_cartea_and_jaimungal_gain_their_value_function():
    n_steps, paths, phi, alpha = 1000, 10_000, 0.01, 0.001
    env = MarketMakingVecEnv(
        paths,
        n_steps=n_steps,
        max_inventory=100,
        fill_rule="exact",
        reward="running_penalty",
        inventory_penalty=phi,
        terminal_penalty=alpha,
    )
    policy = CarteaJaimungal.for_env(env, phi=phi, alpha=alpha)
    value = float(policy.value(0, 0))
    assert f"{value:.8f}" == "68.25583476"
    laws = [
        exact_law(policy_of(env, CarteaJaimungal, steps, phi, alpha), "exact", steps, 100, phi, alpha)
        for steps in (n_steps // 2, n_steps)
    ]
    gained, _ = play(env, policy)
    check_mean(gained, laws[1].penalised, np.std(gained))
    check_discretisation([law.penalised for law in laws], value, ARRIVAL_RATE / math.e / n_steps)


@pytest.mark.slow
def test_glft_gains_its_value_function():
    n_steps, paths, gamma = 1000, 10_000, 0.1
    env = MarketMakingVecEnv(paths, n_steps=n_steps, fill_rule="exact", reward="exp_utility", risk_aversion=gamma)
    policy = GLFT.for_env(env, gamma=gamma, finite_horizon=True)
    log_v = log_values(
        penalty=0.5 * FILL_DECAY * gamma * SIGMA**2,
        intensity=float(fill_intensity(gamma, ARRIVAL_RATE, FILL_DECAY)),
        terminal=np.zeros(51),
        horizon=1.0,
        n_steps=1,
    )
    value = float(log_v[0, 0]) / FILL_DECAY  # the wealth for sure that is worth as much
    laws = [
        exact_law(policy_of(env, GLFT, steps, gamma, True), "exact", steps, 50, gamma=gamma)
        for steps in (n_steps // 2, n_steps)
    ]
    utility, _ = play(env, policy)
    check_mean(utility, laws[1].utility, np.std(utility))
    worth = [-math.log(-law.utility) / gamma for law in laws]
    check_discretisation(worth, value, ARRIVAL_RATE * (1.0 + gamma / FILL_DECAY) ** (-FILL_DECAY / gamma) / n_steps)


def policy_of(env, kind, n_steps, *arguments):
    """The quotes of a policy for the same market with another number of steps."""
    other = MarketMakingVecEnv(1, n_steps=n_steps, max_inventory=env.params.max_inventory, fill_rule="exact")
    return kind.for_env(other, *arguments).quotes


def check_discretisation(gains, value, orders):
    """What is gained in steps against the limit of continuous time.

    At most one order per side and step fills, so that up to the share ``orders / 2`` of all fills is lost, ``orders``
    being their mean number per step and side. With steps twice as long it is twice that, up to the second order.
    """
    coarse, fine = gains
    assert 0.8 * value * orders / 2 < value - fine < value * orders / 2
    assert abs(2.0 * fine - coarse - value) < value * orders**2


# -- item 5 -----------------------------------------------------------------------------------------------


def test_the_stationary_law_of_the_inventory():
    p = float(fill_chance(0.7, "linear"))
    assert f"{p:.6f}" == "0.244956"
    inside = 1.0 / (9.0 + 2.0 * (1.0 - p))
    assert [f"{chance:.7f}" for chance in (inside, (1.0 - p) * inside)] == ["0.0951467", "0.0718399"]
    # From 0 the slowest part of the law that is symmetric falls by 6% a step: nothing is left of it after 500.
    env = MarketMakingVecEnv(2 * PATHS, max_inventory=5, n_steps=500, horizon=2.5)
    _, end = play(env, FixedSpread(half_spread=0.7))
    counts = {int(q): np.mean(end["inventory"] == q) for q in np.unique(end["inventory"])}
    assert sorted(counts) == list(range(-5, 6))
    for q in counts:
        check_probability(end["inventory"] == q, (1.0 - p) * inside if abs(q) == 5 else inside)


# -- fills ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["linear", pytest.param("exact", marks=pytest.mark.slow)])
@pytest.mark.parametrize("distance", [-0.5, 0.0, 0.3, 0.7, 1.5, 4.0])
def test_fill_frequencies(rule, distance):
    env = MarketMakingVecEnv(PATHS, max_inventory=None, fill_rule=rule, n_steps=200)
    p = fill_chance(distance, rule)
    env.reset(seed=1)
    actions = np.full((PATHS, 2), [distance, 0.7], np.float32)
    fills = [env.step(actions).infos.columns for _ in range(10)]
    bid, ask = (np.concatenate([columns[name] for columns in fills]) for name in ("bid_filled", "ask_filled"))
    other = fill_chance(0.7, rule)
    check_probability(bid, p)
    check_probability(ask, other)
    check_probability(bid & ask, p * other)  # each side by itself
    assert bid.all() == (p == 1.0)


def test_small_chances_are_right_to_the_last_digit_that_can_be_seen():
    env = MarketMakingVecEnv(PATHS, max_inventory=None, arrival_rate=140.0, n_steps=200)
    env.reset(seed=2)
    actions = np.full((PATHS, 2), 6.0, np.float32)  # 8.6e-5
    fills = sum(int(env.step(actions).infos.columns["bid_filled"].sum()) for _ in range(200))
    expected = 200 * PATHS * float(fill_chance(6.0, "linear"))
    assert abs(fills - expected) <= 4.0 * math.sqrt(expected)


# -- the mid ----------------------------------------------------------------------------------------------

T, START = 0.6, 50.0


def final_mids(n_steps, paths=PATHS, seed=0, **terms):
    env = MarketMakingVecEnv(paths, initial_price=START, horizon=T, n_steps=n_steps, arrival_rate=0.0, **terms)
    _, end = play(env, lambda observations: np.zeros((paths, 2), np.float32), seed)
    assert not end["inventory"].any()
    return end["mid_price"]


def check_normal(sample, mean, sd):
    check_mean(sample, mean, sd)
    check_sd(sample, sd)
    for z in (-2.5, -1.0, 0.0, 0.5, 2.0, 3.0):
        check_probability(sample < mean + z * sd, normal_cdf(z))


@pytest.mark.parametrize("n_steps", [1, 3, 50])
def test_the_law_of_a_brownian_mid(n_steps):
    mids = final_mids(n_steps, volatility=2.0, drift=-3.0)
    check_normal(mids, START - 3.0 * T, 2.0 * math.sqrt(T))


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 3, 50])
def test_the_law_of_a_geometric_mid(n_steps):
    mids = final_mids(n_steps, midprice="geometric", volatility=0.4, drift=0.25)
    variance = 0.4**2 * T
    check_normal(np.log(mids), math.log(START) + 0.25 * T - 0.5 * variance, math.sqrt(variance))
    mean = START * math.exp(0.25 * T)
    check_mean(mids, mean, mean * math.sqrt(math.expm1(variance)))


@pytest.mark.slow
@pytest.mark.parametrize("mean_price", [None, 47.0])
@pytest.mark.parametrize("kappa", [0.5, 20.0])  # on its way, and where it stays
@pytest.mark.parametrize("n_steps", [1, 4, 50])
def test_the_law_of_a_mean_reverting_mid(n_steps, kappa, mean_price):
    mids = final_mids(n_steps, midprice="ou", volatility=2.0, mean_reversion=kappa, mean_price=mean_price, drift=9.0)
    centre = START if mean_price is None else mean_price
    mean = centre + (START - centre) * math.exp(-kappa * T)
    check_normal(mids, mean, 2.0 * math.sqrt((1.0 - math.exp(-2.0 * kappa * T)) / (2.0 * kappa)))


@pytest.mark.slow
def test_a_mean_reverting_mid_forgets_at_its_rate():
    kappa, paths = 3.0, PATHS
    env = MarketMakingVecEnv(paths, midprice="ou", mean_reversion=kappa, horizon=4.0, n_steps=8, arrival_rate=0.0)
    env.reset(seed=3)
    mids = [env.step(np.zeros((paths, 2), np.float32)).infos.columns["mid_price"] - 100.0 for _ in range(8)]
    keep = math.exp(-kappa * 0.5)
    correlation = np.corrcoef(mids[-2], mids[-1])[0, 1]
    assert abs(correlation - keep) <= 4.0 * (1.0 - keep**2) / math.sqrt(paths)
    rest = mids[-1] - keep * mids[-2]
    check_mean(rest * mids[-2], 0.0, np.std(rest) * np.std(mids[-2]))


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 3, 50])
def test_the_law_of_a_mid_with_jumps(n_steps):
    rate, m, s, sigma, mu = 15.0, -0.04, 0.06, 0.2, 0.3
    mids = final_mids(n_steps, midprice="jumps", volatility=sigma, drift=mu, jump_rate=rate, jump_mean=m, jump_sd=s)
    first, second = math.expm1(m + s**2 / 2), math.exp(2 * m + 2 * s**2) - 2 * math.exp(m + s**2 / 2) + 1
    mean = START * math.exp(mu * T)
    check_mean(mids, mean, mean * math.sqrt(math.expm1((sigma**2 + rate * second) * T)))
    log_mean = math.log(START) + (mu - sigma**2 / 2 - rate * first + rate * m) * T
    log_sd = math.sqrt((sigma**2 + rate * (m**2 + s**2)) * T)
    check_mean(np.log(mids), log_mean, log_sd)
    check_sd(np.log(mids), log_sd)


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 5])
def test_the_number_of_jumps_is_a_poisson_one(n_steps):
    rate, m = 4.0, 0.1
    mids = final_mids(n_steps, midprice="jumps", volatility=0.0, jump_rate=rate, jump_mean=m)
    counts = (np.log(mids / START) + rate * math.expm1(m) * T) / m
    assert np.abs(counts - np.rint(counts)).max() < 1e-10
    for k in range(8):
        check_probability(np.rint(counts) == k, math.exp(-rate * T) * (rate * T) ** k / math.factorial(k))


def test_the_mid_does_not_move_with_the_fills():
    """Between independent columns of n a correlation has a standard deviation of 1 / sqrt(n)."""
    env = MarketMakingVecEnv(PATHS, max_inventory=None)
    env.reset(seed=4)
    actions = np.full((PATHS, 2), 0.3, np.float32)
    for _ in range(3):
        before = env.mid_price
        infos = env.step(actions).infos.columns
        move = infos["mid_price"] - before
        for name in ("bid_filled", "ask_filled"):
            assert abs(np.corrcoef(move, infos[name])[0, 1]) <= 4.0 / math.sqrt(PATHS)
        assert abs(np.corrcoef(infos["bid_filled"], infos["ask_filled"])[0, 1]) <= 4.0 / math.sqrt(PATHS)


# -- rewards ----------------------------------------------------------------------------------------------


def play_wealths(**terms):
    """An episode's rewards summed, with the wealths and the inventories of its steps, (N + 1, paths)."""
    env = MarketMakingVecEnv(50, n_steps=40, max_inventory=3, **terms)
    env.reset(seed=5)
    rng, total = np.random.default_rng(5), np.zeros(50)
    wealth, inventory = [np.zeros(50)], [np.zeros(50)]
    for _ in range(40):
        result = env.step(rng.uniform(0.0, 1.0, (50, 2)))
        total += result.rewards
        wealth.append(result.infos.columns["wealth"])
        inventory.append(result.infos.columns["inventory"])
    return total, np.array(wealth), np.array(inventory)


@pytest.mark.slow
def test_the_rewards_of_an_episode_add_up():
    total, wealth, inventory = play_wealths()
    assert np.abs(inventory).max() == 3
    np.testing.assert_allclose(total, wealth[-1], rtol=0.0, atol=1e-9)
    penalised, same, _ = play_wealths(reward="running_penalty", inventory_penalty=0.3, terminal_penalty=0.7)
    np.testing.assert_array_equal(same, wealth)  # whatever is paid for, the market is the same
    penalty = 0.3 / 40 * (inventory[1:] ** 2).sum(axis=0) + 0.7 * inventory[-1] ** 2
    np.testing.assert_allclose(penalised, wealth[-1] - penalty, rtol=0.0, atol=1e-9)
    utility, same, _ = play_wealths(reward="exp_utility", risk_aversion=0.2)
    np.testing.assert_array_equal(same, wealth)
    np.testing.assert_allclose(utility, -np.exp(-0.2 * wealth[-1]), rtol=1e-14)


@pytest.mark.slow
def test_a_penalty_of_nothing_is_no_penalty():
    total, _, _ = play_wealths()
    for phi, alpha in ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5)):
        penalised, wealth, inventory = play_wealths(
            reward="running_penalty", inventory_penalty=phi, terminal_penalty=alpha
        )
        penalty = phi / 40 * (inventory[1:] ** 2).sum(axis=0) + alpha * inventory[-1] ** 2
        np.testing.assert_allclose(penalised, total - penalty, rtol=0.0, atol=1e-9)
