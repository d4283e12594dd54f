"""The step of the quoting market: against the naive twin, the wealth identity, and each row on its own."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_market_making import NaiveMarketMaker

from sekai.kernels import get_num_threads, set_num_threads
from sekai.kernels.threads import always_used
from sims.market_making import MarketMakingVecEnv, Randomized

PER_ENV = ("initial_price", "volatility", "arrival_rate", "fill_decay")

#: A market in which everything happens within a few steps: a third of all quotes fill, some surely, prices jump.
TERMS = {
    "initial_price": 100.0,
    "volatility": 3.0,
    "arrival_rate": 14.0,
    "fill_decay": 1.5,
    "horizon": 0.75,
    "n_steps": 7,
    "max_inventory": None,
    "fill_rule": "linear",
    "clip_quotes": False,
    "midprice": "brownian",
    "reward": "pnl",
    "observe": "basic",
    "drift": 0.3,
    "mean_reversion": 2.0,
    "mean_price": 101.0,
    "jump_rate": 9.0,
    "jump_mean": -0.03,
    "jump_sd": 0.1,
    "inventory_penalty": 0.05,
    "terminal_penalty": 0.02,
    "risk_aversion": 0.1,
}
CHOICES = {
    "fill_rule": ("linear", "exact"),
    "clip_quotes": (False, True),
    "midprice": ("brownian", "geometric", "ou", "jumps"),
    "reward": ("pnl", "running_penalty", "exp_utility"),
    "observe": ("basic", "full"),
    "max_inventory": (None, 5),
}
#: Each is compiled for itself. Of all choices, one for each way the mid moves, in which every other choice is made
#: twice or more: the last by default, and all four with the slow tests; without compilation all choices there are.
FEW = [
    dict(zip(CHOICES, each, strict=True))
    for each in [
        ("linear", False, "brownian", "pnl", "basic", 5),
        ("exact", True, "geometric", "running_penalty", "full", None),
        ("linear", True, "ou", "exp_utility", "full", 5),
        ("exact", False, "jumps", "running_penalty", "basic", None),
    ]
]
ALL = [dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())]


def pairs_of(choices):
    return {pair for pair in itertools.combinations(choices.items(), 2)}


def choose_pairs():
    """Choices in which every two values of different names come together, as few as a greedy search finds."""
    left, chosen = set().union(*map(pairs_of, ALL)), []
    while left:
        chosen.append(max(ALL, key=lambda each: len(pairs_of(each) & left)))
        left -= pairs_of(chosen[-1])
    return chosen


PAIRS = choose_pairs()

#: Where compiled, one choice for each way in which parameters are given.
LAST = FEW if numba.config.DISABLE_JIT else FEW[3:]

#: The parameters that may differ, three rows: as numbers, as columns, and drawn.
GIVEN = {
    "scalars": {},
    "columns": {
        "initial_price": [90.0, 100.0, 123.4],
        "volatility": [0.0, 0.2, 3.0],
        "arrival_rate": [14.0, 14.0, 5.0],
        "fill_decay": [1.5, 0.0, 2.0],
    },
    "drawn": {"volatility": Randomized(0.1, 0.5), "arrival_rate": Randomized(9.0, 14.0)},
}
#: Without compilation all choices of a market of numbers, and every pair of choices where they are given otherwise.
IN_PLAIN_PYTHON = {"scalars": ALL, "columns": PAIRS, "drawn": PAIRS}
each_choice = pytest.mark.parametrize(
    ("given_as", "choices"),
    [
        *((given, IN_PLAIN_PYTHON[given] if numba.config.DISABLE_JIT else LAST) for given in GIVEN),
        pytest.param("scalars", FEW, marks=pytest.mark.slow),
        *(pytest.param(given, PAIRS if given == "scalars" else FEW, marks=pytest.mark.long) for given in GIVEN),
    ],
    ids=[*(f"{given}-few" for given in GIVEN), "scalars-some", *(f"{given}-many" for given in GIVEN)],
)
SEEDS = [3, 2**40 + 1, 2**64 - 5]


def random_distances(rng, steps, rows):
    """float32 (steps, rows, 2), some of them negative. Rows 0 and 1 reach an inventory limit: one buys, one sells."""
    distances = rng.uniform(-0.6, 1.4, (steps, rows, 2)).astype(np.float32)
    distances[:, 0] = [-2.0, 4.0]
    distances[:, 1] = [4.0, -2.0]
    return distances


def terms_of(choices, given_as="scalars"):
    """Some choices, with parameters given in a way."""
    terms = {**TERMS, **choices, **GIVEN[given_as]}
    if choices["midprice"] in ("geometric", "jumps") and given_as == "scalars":
        terms["volatility"] = 0.3
    return terms


def make_twins(terms, seeds):
    """One twin per seed, whose parameters are those of a row."""
    twins = []
    for row, seed in enumerate(seeds):
        own = dict(terms)
        for name in PER_ENV:
            value = terms[name]
            if isinstance(value, list):
                own[name] = value[row]
            elif isinstance(value, Randomized):
                own[name] = (value.low, value.high)
        twins.append(NaiveMarketMaker(seed, **own))
    return twins


def follow(terms, seeds, actions, **arguments):
    """Step an env and its twins, and compare all there is; returns how many episodes ended and sides filled."""
    env = MarketMakingVecEnv(len(seeds), **terms, **arguments)
    twins = make_twins(terms, seeds)
    begun = env.reset(seed=seeds)
    for i, twin in enumerate(twins):
        observation, info = twin.reset()
        assert begun.observations[i].tolist() == observation, terms
        assert begun.infos[i] == info, terms
    ended = filled = 0
    for batch in actions:
        result = env.step(batch)
        assert not result.terminated.any()
        for i, twin in enumerate(twins):
            reward, over, info = twin.step(batch[i])
            got = result.infos[i]
            assert result.rewards[i] == reward, terms
            assert result.truncated[i] == over, terms
            final = twin.observation()
            if over:
                assert got.pop("final_observation").tolist() == final, terms
                assert got.pop("final_info") == info, terms
                final, begun_info = twin.reset()
                assert got.pop("reset_info") == begun_info, terms
            assert result.observations[i].tolist() == final, terms
            assert got == info, terms
            ended += over
            filled += info["bid_filled"] + info["ask_filled"]
        for name in ("mid_price", "inventory", "cash", "wealth"):
            assert env.get_attr(name) == [twin.info()[name] for twin in twins], terms
        assert env.streams.counter.tolist() == [twin.counter for twin in twins], terms
    return ended, filled


@each_choice
def test_equals_the_naive_twin_bit_for_bit(given_as, choices):
    rng = np.random.default_rng(0)
    ended = filled = 0
    for each in choices:
        counts = follow(terms_of(each, given_as), SEEDS, random_distances(rng, 15, 3))
        ended, filled = ended + counts[0], filled + counts[1]
    assert ended == len(choices) * 3 * 2
    assert 0.2 * len(choices) * 90 < filled < 0.8 * len(choices) * 90


def test_the_few_choices_are_all_there_are():
    for name, values in CHOICES.items():
        assert {each[name] for each in FEW} == set(values)
    assert len(PAIRS) < 20


def test_equals_the_naive_twin_over_long_episodes_and_far_counters():
    terms = {**terms_of(FEW[3], "drawn"), "n_steps": 60, "horizon": 6.0}
    ended, _ = follow(terms, SEEDS, random_distances(np.random.default_rng(1), 150, 3))
    assert ended == 6


def test_the_stream_goes_on_past_the_lower_half_of_the_counter():
    terms = terms_of(FEW[3])
    env, [twin] = MarketMakingVecEnv(1, **terms), make_twins(terms, [7])
    env.reset(seed=[7])
    twin.reset()
    env.streams.counter[:] = twin.counter = 2**32 - 3
    for batch in random_distances(np.random.default_rng(2), 6, 3)[:, 2:]:
        result = env.step(batch)
        assert result.rewards[0] == twin.step(batch[0])[0]
    assert env.streams.counter[0] == twin.counter == 2**32 + 9


@pytest.mark.parametrize("choices", [pytest.param(FEW[0], marks=pytest.mark.form), FEW[3]], ids=["brownian", "jumps"])
def test_a_frozen_row_keeps_its_state_and_draws_nothing(choices):
    terms = terms_of(choices)
    env, twins = MarketMakingVecEnv(3, **terms, autoreset=False), make_twins(terms, SEEDS)
    env.reset(seed=SEEDS)
    for twin in twins:
        twin.reset()
    for batch in random_distances(np.random.default_rng(3), 7, 3):
        result = env.step(batch)
        rewards = [twin.step(action)[0] for twin, action in zip(twins, batch, strict=True)]
        assert result.rewards.tolist() == rewards
    assert result.truncated.all() and env.frozen.all()
    for batch in random_distances(np.random.default_rng(4), 3, 3):
        again = env.step(batch)
        assert again.rewards.tolist() == [0.0] * 3 and again.truncated.all() and list(again.infos) == [{}] * 3
        np.testing.assert_array_equal(again.observations, result.observations)
        assert env.get_attr("wealth") == [twin.wealth for twin in twins]
        assert env.get_attr("mid_price") == [twin.mid for twin in twins]
        assert env.streams.counter.tolist() == [twin.counter for twin in twins]
    env.reset()  # and the streams go on from there
    for twin in twins:
        twin.reset()
    for batch in random_distances(np.random.default_rng(5), 7, 3):
        assert env.step(batch).rewards.tolist() == [
            twin.step(action)[0] for twin, action in zip(twins, batch, strict=True)
        ]


# -- wealth -----------------------------------------------------------------------------------------------


def check_wealth(env, actions, clip):
    """The identity, from infos and actions alone: what is earned at the quotes, and on what is held."""
    before = dict(env.reset(seed=0).infos.columns)
    for batch in actions:
        infos = env.step(batch).infos
        now = {name: np.array(column) for name, column in infos.columns.items()}
        bid, ask = np.maximum(batch, 0.0 if clip else -np.inf).astype(np.float64).T
        earned = now["bid_filled"] * bid + now["ask_filled"] * ask
        held = now["inventory"] * (now["mid_price"] - before["mid_price"])
        most = [np.abs(earned), np.abs(held)]
        for state in (before, now):
            units = np.maximum(1.0, np.abs(state["inventory"]))  # one unit is traded at about the mid
            most += [np.abs(state["cash"]), units * np.abs(state["mid_price"])]
        error = (now["wealth"] - before["wealth"]) - (earned + held)
        assert (np.abs(error) <= 1e-15 * sum(most)).all()
        np.testing.assert_array_equal(now["wealth"], now["cash"] + now["inventory"] * now["mid_price"])
        change = now["bid_filled"].astype(float) - now["ask_filled"]
        np.testing.assert_array_equal(now["inventory"] - before["inventory"], change)
        if env.params.max_inventory is not None:
            assert (np.abs(now["inventory"]) <= env.params.max_inventory).all()
        before = now
        if infos.done.size:
            reset = infos.final("reset_info")
            for name, column in reset.items():
                before[name] = np.array(now[name])
                before[name][infos.done] = column


@each_choice
def test_wealth_changes_by_what_the_quotes_and_the_inventory_earn(given_as, choices):
    actions = random_distances(np.random.default_rng(6), 10, 3)
    for each in choices:
        check_wealth(MarketMakingVecEnv(3, **terms_of(each, given_as)), actions, each["clip_quotes"])


amounts = st.floats(0.0, 1e6) | st.sampled_from([0.0, 1e-300, 1e-9, 1.0])
distances = st.floats(-3.0, 3.0, width=32) | st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1e30, -1e30])


@settings(deadline=None, max_examples=150)
@given(
    parameters=st.fixed_dictionaries(
        {
            "initial_price": st.floats(1e-6, 1e6),
            "volatility": amounts,
            "arrival_rate": amounts,
            "fill_decay": st.floats(0.0, 1e3) | st.just(0.0),
            "horizon": st.floats(1e-6, 1e3),
            "n_steps": st.sampled_from([1, 2, 200]),
            "drift": st.floats(-10.0, 10.0),
            "mean_reversion": st.floats(1e-3, 1e3),
            "mean_price": st.floats(-1e3, 1e3),
            "jump_sd": st.floats(0.0, 2.0),
        }
    ),
    choices=st.sampled_from(LAST),
    limit=st.sampled_from([1, 2]),
    quotes=st.lists(st.tuples(distances, distances), min_size=8, max_size=8),
    columns=st.booleans(),
)
def test_wealth_holds_for_the_strangest_parameters(parameters, choices, limit, quotes, columns):
    parameters |= choices
    if choices["max_inventory"] is not None:
        parameters["max_inventory"] = limit
    if parameters["midprice"] in ("geometric", "jumps"):
        parameters["volatility"] = min(parameters["volatility"], 5.0 / parameters["horizon"] ** 0.5)
        parameters["drift"] /= max(1.0, parameters["horizon"])
    if columns:
        parameters |= {name: [parameters[name]] * 2 for name in PER_ENV}
        parameters["volatility"][1] = 0.0
    env = MarketMakingVecEnv(2, jump_rate=parameters["n_steps"] / parameters["horizon"], **parameters)
    actions = np.array(quotes, dtype=np.float32).reshape(4, 2, 2)
    with np.errstate(all="ignore"):  # under NUMBA_DISABLE_JIT, NumPy's scalars would warn
        check_wealth(env, actions, parameters["clip_quotes"])


# -- rows -------------------------------------------------------------------------------------------------


def outcomes(seeds, actions, **terms):
    """Everything that comes out of these rows, as arrays (steps, N, ...)."""
    env = MarketMakingVecEnv(len(seeds), **terms)
    env.reset(seed=seeds)
    steps = [env.step(batch) for batch in actions]
    columns = [np.stack([step.infos.columns[name] for step in steps]) for name in steps[0].infos.columns]
    shown = [np.stack([getattr(step, name) for step in steps]) for name in ("observations", "rewards", "truncated")]
    return [*columns, *shown]


def columns_of(terms, rows):
    """The same parameters, those that may differ as one number for each row."""
    return terms | {name: np.full(rows, float(terms[name])) for name in PER_ENV}


@pytest.mark.parametrize(
    "choices",
    [each if each in LAST else pytest.param(each, marks=pytest.mark.form) for each in FEW],
    ids=[each["midprice"] for each in FEW],
)
def test_rows_are_independent(choices):
    rng = np.random.default_rng(7)
    rows = 33
    seeds = rng.integers(2**62, size=rows).tolist()
    actions = random_distances(rng, 9, rows)
    terms = terms_of(choices)
    decay = np.where(np.arange(rows) != 5, TERMS["fill_decay"], 0.1)
    base = outcomes(seeds, actions, **terms)

    order = rng.permutation(rows)
    moved = outcomes([seeds[row] for row in order], actions[:, order], **terms)
    for column, permuted in zip(base, moved, strict=True):
        np.testing.assert_array_equal(column[:, order], permuted)

    others = np.arange(rows) != 5
    other_actions = actions.copy()
    other_actions[:, 5] = -9.0
    for changed in (
        outcomes([*seeds[:5], 1, *seeds[6:]], actions, **terms),
        outcomes(seeds, other_actions, **terms),
        outcomes(seeds, actions, **columns_of(terms, rows) | {"fill_decay": decay}),
    ):
        for column, other in zip(base, changed, strict=True):
            np.testing.assert_array_equal(column[:, others], other[:, others])
        assert any((column[:, 5] != other[:, 5]).any() for column, other in zip(base, changed, strict=True))

    for row in (0, 5, rows - 1):
        for column, alone in zip(base, outcomes(seeds[row : row + 1], actions[:, row : row + 1], **terms), strict=True):
            np.testing.assert_array_equal(column[:, row : row + 1], alone)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("choices", "given_as"),
    [
        # Another loop is compiled for each.
        pytest.param(
            each, given_as, marks=pytest.mark.slow if (each, given_as) == (FEW[3], "columns") else pytest.mark.long
        )
        for each in FEW
        for given_as in ("scalars", "columns")
    ],
    ids=[f"{each['midprice']}-{given_as}" for each in FEW for given_as in ("scalars", "columns")],
)
def test_neither_blocks_nor_threads_change_a_row(choices, given_as):
    rng = np.random.default_rng(8)
    rows, some = 10_001, [0, 1023, 1024, 2047, 2048, 4999, 5000, 5001, 9999, 10_000]
    seeds = rng.integers(2**62, size=rows).tolist()
    actions = random_distances(rng, 8, rows)
    terms = few = terms_of(choices)
    if given_as == "columns":
        terms = columns_of(terms, rows) | {"volatility": rng.uniform(0.0, 0.5, rows)}
        few = terms | {name: terms[name][some] for name in PER_ENV}
    expected = outcomes([seeds[row] for row in some], actions[:, some], **few)
    before = get_num_threads()
    try:
        runs = []
        for threads in (1, 2):
            set_num_threads(threads)
            with always_used():
                runs.append(outcomes(seeds, actions, **terms))
    finally:
        set_num_threads(before)
    for one, two, rows_alone in zip(*runs, expected, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one[:, some], rows_alone)
