"""The exact figures of the order book, by the market as users make it: 4 standard errors at 200,000 samples.

Every sample is a book of its own, which begins with given orders or has been warmed up by itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference_order_book import (
    few_prices_law,
    fill_chance,
    hawkes_rate,
    hawkes_variance,
    queue_law,
    race,
    wait_law,
    wait_mean,
)

from sims.order_book import hawkes
from sims.order_book.book import CAME, ORDERS
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, Hawkes, SantaFe
from sims.order_book.start import StartBook

slow, long = pytest.mark.slow, pytest.mark.long
LAM, MU, THETA = 1.85, 0.94, 0.71
#: Prices outside of the two bests are refused, so that each side is one queue.
TWO = dict(flow=CST(lam=(LAM,), mu=MU, theta=THETA), price_limits=(1, 2), start_price=1, max_offset=1)
#: What an observation of one level a side begins with: its distance and lots, of the bids and of the asks.
BIDS, ASKS = 1, 3
ONE_LEVEL = dict(levels="ticks", depth=1)


def is_mean(samples, expected, error=0.0):
    """Whether independent samples have a mean, within 4 standard errors; ``error``: the standard error of the mean."""
    samples = np.asarray(samples, np.float64)
    bound = 4.0 * np.hypot(samples.std() / np.sqrt(len(samples)), error)
    assert abs(samples.mean() - expected) <= bound, (samples.mean(), expected, bound)


def is_variance(samples, expected):
    is_mean((samples - samples.mean()) ** 2, expected)


def no_action(vec):
    return np.zeros((vec.num_envs, *vec.action_space.shape), vec.batch_action_space.dtype)


def make_queues(num_envs, **more):
    return LimitOrderBookVecEnv(num_envs, **TWO, **ONE_LEVEL, warm_up_once=False, **more)


def check_queues(samples):
    law = queue_law(LAM, MU, THETA)
    is_mean(samples, law @ np.arange(len(law)))
    for length in range(5):
        is_mean(samples == length, law[length])


@slow
def test_queues_at_the_best_are_birth_death_chains():
    vec, found = make_queues(20_000), []
    for k in range(5):
        seen = vec.reset(seed=1 if k == 0 else None).observations
        found += [seen[:, BIDS], seen[:, ASKS]]
    check_queues(np.concatenate(found))


def first_to_happen(vec, what, seeds):
    """For each book, which of some events comes first, one message after another.

    Args:
        vec: A market whose step is a message.
        what: ``what(result)``: for each event whether it has happened, (num_envs,).
        seeds: One for each time that all books are begun.
    """
    found = []
    for seed in seeds:
        vec.reset(seed=seed)
        first, times, action = np.full(vec.num_envs, -1), np.zeros(vec.num_envs), no_action(vec)
        while (first < 0).any():
            happened = what(vec.step(action))
            for k, each in enumerate(happened):
                now = (first < 0) & each
                first[now], times[now] = k, vec.clock.time[now]
        found.append((first, times))
    return np.concatenate([first for first, _ in found]), np.concatenate([times for _, times in found])


def make_race(num_envs, bids, asks, own=(), **more):
    orders = dict(bids=[(1, 1)] * bids, asks=[(2, 1)] * asks, own=own)
    return LimitOrderBookVecEnv(
        num_envs,
        **TWO,
        **ONE_LEVEL,
        **more,
        initial_book=StartBook(**orders),
        warm_up=0.0,
        step="messages",
        n_steps=10**6,
    )


@long
@pytest.mark.parametrize(("bids", "asks"), [(1, 2), (2, 1), (3, 2), (5, 4)])
def test_which_queue_is_used_up_first(bids, asks):
    first, _ = first_to_happen(
        make_race(50_000, bids, asks),
        lambda result: (result.observations[:, BIDS] == 0, result.observations[:, ASKS] == 0),
        seeds=range(4),
    )
    is_mean(first == 1, race(LAM, MU, THETA)[bids, asks])


@long
@pytest.mark.parametrize("asks", [1, 2, 4])
@pytest.mark.parametrize("ahead", [0, 2])
def test_an_own_order_fills_before_the_asks_are_used_up(ahead, asks):
    first, _ = first_to_happen(
        make_race(50_000, ahead, asks, own=[(0, 1, 1)], actions="orders", slots=1),
        lambda result: (result.infos.columns["bought"] > 0, result.observations[:, ASKS] == 0),
        seeds=range(4),
    )
    is_mean(first == 0, fill_chance(LAM, MU, THETA, ahead)[ahead, asks])


@long
@pytest.mark.parametrize("ahead", [0, 2])
def test_how_long_an_own_order_waits(ahead):
    _, times = first_to_happen(
        make_race(50_000, ahead, 3, own=[(0, 1, 1)], actions="orders", slots=1),
        lambda result: (result.infos.columns["bought"] > 0,),
        seeds=range(4),
    )
    is_mean(times, wait_mean(MU, THETA, ahead))
    is_mean(times <= 2.0, wait_law(MU, THETA, ahead, 2.0))


@slow
def test_the_book_of_four_prices():
    flow = CST(lam=(0.6, 0.4, 0.3), mu=0.5, theta=1.0)
    vec = LimitOrderBookVecEnv(
        50_000, flow=flow, price_limits=(1, 4), start_price=2, max_offset=3, warm_up_once=False, **ONE_LEVEL
    )
    law = few_prices_law(flow.lam, flow.mu, flow.theta, prices=4, bid=2, ask=3, most=19)
    found = []
    for k in range(4):
        begun = vec.reset(seed=2 if k == 0 else None)
        columns = begun.infos.columns["spread"], begun.observations[:, BIDS], vec.book.count
        found.append((*columns, vec.step(no_action(vec)).infos.columns["messages"]))
    spreads, bids, orders, messages = (np.concatenate(each) for each in zip(*found, strict=True))
    is_mean(spreads, law.mean_spread)
    is_mean(spreads == 1, law.spread_one)
    is_mean(bids == 0, law.bids_empty)
    is_mean(orders, law.mean_orders)
    is_mean(messages, law.events)


SCENARIOS = {
    1: (
        CST(lam=[1.92 * i**-0.52 for i in range(1, 21)], theta=0.6),
        (1.2684, 0.0010),
        (2.3542, 0.0021),
        (0.7761, 0.0041),
    ),
    2: (SantaFe(), (5.4140, 0.0082), (1.7513, 0.0023), None),
}


@long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios_keep_their_identities_and_agree_with_other_programs(scenario):
    flow, spread, lots, variance = SCENARIOS[scenario]
    vec = LimitOrderBookVecEnv(
        10_000 if scenario == 1 else 2_500, flow=flow, warm_up_once=False, tick_size=1.0, **ONE_LEVEL
    )
    total = sum(flow.lam) if scenario == 1 else flow.lam * flow.distances
    mids, found = [vec.reset(seed=3).infos.columns["mid_price"]], []
    for _ in range(20):
        step = vec.step(no_action(vec))
        told = step.infos.columns
        mids.append(told["mid_price"])
        best = 0.5 * (step.observations[:, BIDS] + step.observations[:, ASKS])
        found.append((told["spread"], best, vec.book.count, told["messages"]))
    spreads, bests, orders, messages = (np.mean(each, axis=0) for each in zip(*found, strict=True))
    is_mean(orders, 2.0 * (total - flow.mu) / flow.theta)
    is_mean(messages, 4.0 * total)
    is_mean(spreads, *spread)
    is_mean(bests, *lots)
    if variance is not None:
        is_mean(np.mean(np.diff(mids, axis=0) ** 2, axis=0), *variance)


@long
def test_all_rates_times_two_is_half_of_the_time():
    runs = []
    for factor in (1.0, 2.0):
        vec = LimitOrderBookVecEnv(
            50, rate_factor=factor, step_time=1.0 / factor, latency=0.25 / factor, warm_up_once=False
        )
        begun = vec.reset(seed=4)
        vec.batch_action_space.seed(1)
        actions = [vec.batch_action_space.sample() for _ in range(40)]
        runs.append([begun.observations, *(vec.step(action).observations for action in actions)])
    for one, two in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, two)


#: Orders to buy alone excite, and those alone.
ALONE = Hawkes(
    mu=(1.0, 0.0, 0.0, 0.0), alpha=((0.5, 0, 0, 0), *[(0, 0, 0, 0)] * 3), beta=1.0, weights=(1.0,), theta=1.0
)


@long
@pytest.mark.parametrize("time", [1.0, 10.0])
def test_counts_of_orders_that_excite_themselves(time):
    vec = LimitOrderBookVecEnv(50_000, flow=ALONE, step_time=time, warm_up_once=False, max_offset=1)
    counts = []
    for k in range(4):
        vec.reset(seed=5 if k == 0 else None)
        vec.step(no_action(vec))
        counts.append(vec.book.tallies[:, CAME, ORDERS])
    counts = np.concatenate(counts)
    is_mean(counts, time * hawkes_rate(1.0, 0.5, 1.0))
    is_variance(counts, hawkes_variance(1.0, 0.5, 1.0, time))


@long
def test_their_compensators_increments_are_exponential():
    vec = LimitOrderBookVecEnv(40, flow=ALONE, step="messages", n_steps=10**6, max_offset=1)
    vec.reset(seed=6)
    excitation, start = vec.clock.excitation[:, :1], vec.clock.excited
    came, times = [vec.book.tallies[:, CAME, ORDERS]], []
    for _ in range(2000):
        vec.step(no_action(vec))
        came.append(vec.book.tallies[:, CAME, ORDERS])
        times.append(vec.clock.time)
    is_order = np.diff(came, axis=0) > 0
    increments = []
    for row in range(vec.num_envs):
        when = np.array(times)[is_order[:, row], row]
        kinds = np.zeros(len(when), np.int64)
        increments += hawkes.compensator_increments(
            when, kinds, [1.0], [[0.5]], 1.0, excitation=excitation[row], start=float(start[row])
        )
    x = np.sort(np.concatenate(increments))
    law, ranks = -np.expm1(-x), np.arange(len(x) + 1) / len(x)
    distance = max((ranks[1:] - law).max(), (law - ranks[:-1]).max())
    # Kolmogorov's law: what is this far from it has a probability of 6e-5, that of 4 standard errors.
    assert len(x) > 30_000 and distance * np.sqrt(len(x)) < 2.28


@slow
def test_episodes_begin_in_the_long_run_from_books_that_were_warmed_up_once():
    """With the books that all envs share, within the error of their number, and right from the first step."""
    flow = Hawkes(
        mu=(1, 1, 0.1, 0.1), alpha=((2, 2, 0, 0), (2, 2, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)), beta=5.0,
        weights=(1.0, 1.0, 1.0), theta=1.0,
    )  # fmt: skip
    vec = LimitOrderBookVecEnv(8192, flow=flow, step_time=0.1, n_steps=10)
    vec.reset(seed=3)
    excitation = [(each.excitation * np.exp(5.0 * each.excited)).sum() for each in vec.get_attr("clock")]
    rates = hawkes.stationary_rates(flow.mu, flow.alpha, flow.beta)
    among = np.std(excitation) / 32.0  # of 1,024 books
    is_mean(excitation, (rates - np.array(flow.mu)).sum(), among)
    vec.step(no_action(vec))
    came = np.array([book.tallies[CAME, ORDERS] for book in vec.get_attr("book")])
    is_mean(came, 0.1 * rates[:2].sum(), came.std() / 32.0)


@long
def test_the_spread_of_books_that_were_warmed_up_once():
    vec = LimitOrderBookVecEnv(16_384, flow=SantaFe())
    spread = vec.reset(seed=1).infos.column("spread")
    is_mean(spread, 5.4140, np.hypot(0.0082, np.std(spread) / 32.0))
