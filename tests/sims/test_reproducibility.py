"""Every market that is registered here gives the same numbers however it is run.

The numbers of a sub-env follow from its seed and its actions: not from how many others there are, on which backend they
run, on how many threads, or which part of a batch it belongs to.
"""

from __future__ import annotations

import numpy as np
import pytest
from vector.backends import assert_same

import sekai
import sims
from sekai.batching import layout
from sekai.kernels import get_num_threads, set_num_threads
from sekai.kernels.threads import always_used
from sims.data import PricePanel
from sims.market_making import Randomized
from sims.order_book.flows import Hawkes
from sims.prices import Brownian, CorrelatedGeometric

if not sekai.all_specs():  # where the package is not installed, nothing announces its markets
    sims.register_envs()

#: Opens and closes of three assets, one of which pauses twice.
_PRICES = 100.0 * np.exp(np.random.default_rng(0).normal(0.0, 0.4, (80, 3)).cumsum(axis=0))
_PRICES[20:30, 1] = _PRICES[50:60, 1] = np.nan
PORTFOLIO = PricePanel(_PRICES[1::2], ["a", "b", "c"], _PRICES[0::2])

#: Beside its defaults, what makes a market do all it can within a few steps.
SETTINGS = {
    "LimitOrderBook-v0": [
        {
            "flow": Hawkes(weights=[1.0, 2.0, 1.0], theta=[0.5, 0.7], sizes=[0.5, 0.2, 0.0, 0.3]),
            "n_steps": 5,
            "actions": "orders",
            "max_offset": 3,
            "max_size": 4,
            "rate_factor": Randomized(0.5, 2.0),
            "theta_factor": Randomized(0.5, 2.0),
            "warm_up": 2.0,
            "step": "messages",
            "step_messages": 5,
            "latency": Randomized(0.05, 0.2),
            "latency_law": "exponential",
            "max_pending": 2,
            "taker_fee": 1e-4,
            "max_inventory": 3,
        }
    ],
    "MarketMaking-v0": [
        {
            "n_steps": 5,
            "midprice": "jumps",
            "volatility": Randomized(0.1, 0.3),
            "jump_rate": 5.0,
            "jump_sd": 0.1,
            "arrival_rate": Randomized(5.0, 9.0),
            "fill_decay": 0.5,
            "max_inventory": 2,
            "fill_rule": "exact",
            "reward": "running_penalty",
            "observe": "full",
        }
    ],
    "OptimalExecution-v0": [
        {
            "n_steps": 5,
            "units": Randomized(5e4, 1e5),
            "prices": Brownian(volatility=Randomized(0.1, 0.5)),
            "transient_impact": 1e-6,
            "resilience": Randomized(0.0, 2.0),
            "volume_profile": [1.0, 3.0, 0.5, 2.0, 1.0],
            "actions": "rate",
            "reward": "bps",
            "risk_aversion": 1e-6,
            "risk_volatility": 0.8,
        }
    ],
    "Portfolio-v0": [
        {
            # Three assets, one of which pauses; prices that ruin whoever is short, so that sub-envs end at other times.
            "prices": PORTFOLIO,
            "episode_length": 5,
            "lookback": 2,
            "shorts": True,
            "max_leverage": 2.0,
            "transaction_cost": Randomized(0.0, 0.01),
            "borrow_rate": 1e-3,
            "reward": "return",
        },
        {"prices": CorrelatedGeometric(jump_rate=50.0, jump_sd=[0.2]), "episode_length": 5, "lookback": 3},
    ],
    "Trading-v0": [
        {
            # Prices that ruin whoever is short, so that sub-envs end at different times.
            "prices": np.exp(np.random.default_rng(0).normal(0.0, 0.7, 40).cumsum()).tolist(),
            "episode_length": 5,
            "lookback": 3,
            "actions": "weight",
            "borrow_rate": 1e-3,
            "reward": "return",
        }
    ],
}
SLOW, LONG = pytest.mark.slow, pytest.mark.long

#: What takes long to compile, by market and settings; as they come, all are among the tests of every market.
MARKS = {
    ("LimitOrderBook-v0", 0): LONG,
    ("LimitOrderBook-v0", 1): LONG,
    ("MarketMaking-v0", 1): SLOW,
    ("OptimalExecution-v0", 1): LONG,
    ("Portfolio-v0", 1): LONG,
    ("Portfolio-v0", 2): LONG,
}


#: Each market as it comes, with episodes made short, and as above.
CASES = [
    pytest.param(spec.id, settings, id=f"{spec.id}-{number}", marks=MARKS.get((spec.id, number), ()))
    for spec in sekai.all_specs()
    for number, settings in enumerate([{"max_episode_steps": 5}, *SETTINGS.get(spec.id, [])])
]
each_case = pytest.mark.parametrize(("id", "settings"), CASES)


def each_case_and_mode(slow):
    """Each case with and without autoreset; ``slow(case, autoreset)``: the marks of slow ones.

    Each is compiled by itself.
    """
    cases = [
        pytest.param(
            *case.values,
            autoreset,
            id=f"{'autoreset' if autoreset else 'freezing'}-{case.id}",
            marks=[*case.marks, *slow(case.id, autoreset)],
        )
        for autoreset in (True, False)
        for case in CASES
    ]
    return pytest.mark.parametrize(("id", "settings", "autoreset"), cases)


#: Markets as they come freeze among the slow tests alone.
quick_modes = each_case_and_mode(lambda case, autoreset: [SLOW] * (case.endswith("-0") and not autoreset))
#: On several threads one market is quick, and the others are slow as they come: another loop is compiled.
quick_threads = each_case_and_mode(
    lambda case, autoreset: ([] if case == "Trading-v0-0" else [SLOW]) if case.endswith("-0") and autoreset else [LONG]
)

#: In worker processes, each of which loads all that is compiled, one market is quick.
each_case_of_processes = pytest.mark.parametrize(
    ("id", "settings"),
    [
        pytest.param(*case.values, id=case.id, marks=[*case.marks, *([] if case.id == "Trading-v0-0" else [SLOW])])
        for case in CASES
    ],
)

STEPS = 12


def make(id, settings, num_envs, mode="native", **vector_kwargs):
    return sekai.make_vec(id, num_envs, vectorization_mode=mode, vector_kwargs=vector_kwargs, **settings)


def make_seeds(num_envs):
    """Some small, some beyond what a stream has bits for."""
    seeds = np.random.default_rng(num_envs).integers(2**62, size=num_envs).tolist()
    seeds[-1] = 2**70 + 1
    return seeds


def sample_actions(vec, steps=STEPS):
    space = vec.batch_action_space
    space.seed(7)
    return [space.sample() for _ in range(steps)]


def play(vec, actions, seed, again=None):
    """The results of a reset and the steps after it, and of another reset in the middle of the last episode."""
    with vec:
        results = [vec.reset(seed=seed)]
        results += [vec.step(batch) for batch in actions]
        return [*results, vec.reset(seed=again), vec.step(actions[0])]


def take_rows(result, rows):
    """Some rows of a result, as plain values."""
    shown = [layout.take(result.observations, np.asarray(rows))]
    if hasattr(result, "rewards"):
        shown += [getattr(result, name)[rows] for name in ("rewards", "terminated", "truncated")]
    return [*shown, [dict(result.infos[row]) for row in rows]]


def assert_same_rows(left, right, rows=None, rows_right=None):
    """The results of two runs, in some rows; all of them by default."""
    everyone = range(len(left[0].infos))
    rows = list(everyone) if rows is None else rows
    rows_right = rows if rows_right is None else rows_right
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert_same(take_rows(one, rows), take_rows(other, rows_right))


def count_ends(results):
    return sum(int(result.dones.sum()) for result in results if hasattr(result, "rewards"))


def test_no_registered_market_is_left_out():
    covered = {case.values[0] for case in CASES}
    assert covered == {spec.id for spec in sekai.all_specs()}
    assert {"LimitOrderBook-v0", "MarketMaking-v0", "Portfolio-v0", "Trading-v0"} <= covered
    assert set(SETTINGS) <= covered


@each_case
def test_a_single_env_is_a_row_of_the_native_one(id, settings):
    seeds = make_seeds(3)
    native = make(id, settings, 3)
    actions = sample_actions(native)
    results = play(native, actions, seeds)
    ended = 0
    for row, seed in enumerate(seeds):
        with sekai.make(id, **settings) as env:
            begun = env.reset(seed=seed)
            assert_same([begun.observation, begun.info], [results[0].observations[row], results[0].infos[row]])
            for batch, result in zip(actions, results[1:-2], strict=True):
                step = env.step(next(layout.iterate(env.action_space, layout.take(batch, np.array([row])), 1)))
                assert (step.reward, step.terminated, step.truncated) == (
                    result.rewards[row],
                    result.terminated[row],
                    result.truncated[row],
                )
                observation, info = step.observation, step.info
                if step.done:
                    begun, ended = env.reset(), ended + 1
                    info = {**info, "final_observation": observation, "final_info": info, "reset_info": begun.info}
                    observation = begun.observation
                assert_same([observation, info], [result.observations[row], result.infos[row]])
    assert ended >= 6


@pytest.mark.parametrize("num_envs", [1, 2, 7, 64])
@quick_modes
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_backends_of_this_process_agree(mode, id, settings, autoreset, num_envs):
    native = make(id, settings, num_envs, autoreset=autoreset)
    steps = STEPS if num_envs < 64 else 6
    actions = sample_actions(native, steps)
    # The second reset goes on with the streams of all sub-envs, or of all but the first.
    for seed, again in ((3, None), (make_seeds(num_envs), [5, *[None] * (num_envs - 1)])):
        expected = play(make(id, settings, num_envs, autoreset=autoreset), actions, seed, again)
        got = play(make(id, settings, num_envs, mode, autoreset=autoreset), actions, seed, again)
        assert_same_rows(expected, got)
        assert count_ends(expected) > 0


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("num_envs", "autoreset"),
    [
        (7, True),
        *(pytest.param(*each, marks=SLOW) for each in [(7, False), (1, True)]),
        *(pytest.param(*each, marks=LONG) for each in [(2, False), (64, True)]),
    ],
)
@each_case_of_processes
def test_worker_processes_agree(id, settings, num_envs, autoreset):
    native = make(id, settings, num_envs, autoreset=autoreset)
    actions = sample_actions(native, 7)
    expected = play(native, actions, 11)
    proc = make(id, settings, num_envs, "proc", num_workers=2, autoreset=autoreset)
    assert_same_rows(expected, play(proc, actions, 11))
    assert count_ends(expected) > 0


@each_case
@pytest.mark.parametrize("num_envs", [64, pytest.param(1000, marks=pytest.mark.compiled)])
def test_a_row_is_what_it_would_be_among_others(id, settings, num_envs):
    seeds = make_seeds(num_envs)
    rows = sorted({0, 1, num_envs // 3, num_envs - 2, num_envs - 1})
    native = make(id, settings, num_envs)
    actions = sample_actions(native)
    few = [layout.take(batch, np.array(rows)) for batch in actions]
    many = play(native, actions, seeds)
    for mode in ("native", "sync"):
        picked = play(make(id, settings, len(rows), mode), few, [seeds[row] for row in rows])
        assert_same_rows(many, picked, rows, list(range(len(rows))))


@quick_modes
@pytest.mark.parametrize("cuts", [[1], [63], [32], [7, 8, 40], [10, 20, 30, 50, 60]])
def test_a_batch_may_be_cut_anywhere(id, settings, autoreset, cuts):
    whole = make(id, settings, 64, autoreset=autoreset)
    seeds, actions = make_seeds(64), sample_actions(whole, 8)
    expected = play(whole, actions, seeds)
    for lo, hi in zip([0, *cuts], [*cuts, 64], strict=True):
        rows = np.arange(lo, hi)
        part = make(id, settings, hi - lo, autoreset=autoreset)
        got = play(part, [layout.take(batch, rows) for batch in actions], seeds[lo:hi])
        assert_same_rows(expected, got, rows.tolist(), list(range(hi - lo)))


@pytest.fixture
def threads():
    before = get_num_threads()
    with always_used():
        yield set_num_threads
    set_num_threads(before)


@pytest.mark.compiled
@quick_threads
def test_threads_change_nothing(id, settings, autoreset, threads):
    num_envs = 10_000  # from 8192 on a batch is spread over threads
    seeds = make_seeds(num_envs)
    actions = sample_actions(make(id, settings, num_envs))
    runs = []
    for count in (1, 2):
        threads(count)
        runs.append(play(make(id, settings, num_envs, autoreset=autoreset), actions, seeds))
    for one, two in zip(*runs, strict=True):
        assert_same([one.observations], [two.observations])
        assert one.infos.columns.keys() == two.infos.columns.keys()
        for key, column in one.infos.columns.items():
            np.testing.assert_array_equal(column, two.infos.columns[key])
        if hasattr(one, "rewards"):
            for name in ("rewards", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    rows = [0, 1023, 1024, 2499, 2500, 4999]
    few = play(
        make(id, settings, len(rows), autoreset=autoreset),
        [layout.take(batch, np.array(rows)) for batch in actions],
        [seeds[row] for row in rows],
    )
    assert_same_rows(runs[1], few, rows, list(range(len(rows))))
