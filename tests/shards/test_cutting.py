"""What of all rows' arguments, seeds and options a shard gets."""

from __future__ import annotations

import inspect
import pickle

import cloudpickle
import numpy as np
import pytest
from toys import NativeToy, T

import sekai
import sims
from sekai.registry import EnvSpec
from sekai.seeding import make_seed_sequence
from sekai.shards import Resets, ShardMaker, split_rows
from sekai.vector import Randomized
from sekai.vector.kernel import signature_of_either
from sims.market_making import MarketMakingVecEnv
from sims.prices import Geometric
from sims.trading import TradingVecEnv
from sims.trading.simulated import SimulatedTradingVecEnv

N = 20


@pytest.fixture(autouse=True)
def registered():
    if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()


def build(rows, id, **kwargs):
    """The env of some rows, from what has been pickled."""
    return cloudpickle.loads(cloudpickle.dumps(ShardMaker(id, N, kwargs).of(rows)))()


@pytest.mark.parametrize(
    "num_envs, size, steps, expected",
    [
        *((7, 3, 9, [3, 3, 1]), (6, 3, 9, [3, 3]), (2, 5, 9, [2]), (1, 1, 9, [1]), (20_000, None, 1, [16384, 3616])),
        *((17_000, None, 256, [16384, 616]), (9000, None, 512, [8192, 808]), (5000, None, 10**9, [4096, 904])),
    ],
)
def test_all_shards_but_the_last_are_of_one_size(num_envs, size, steps, expected):
    rows = split_rows(num_envs, size, steps)
    assert [len(each) for each in rows] == expected
    assert [row for each in rows for row in each] == list(range(num_envs))


@pytest.mark.parametrize("arguments, named", [((0, 3), "num_envs"), ((3, 0), "shard_size")])
def test_sizes_below_one(arguments, named):
    with pytest.raises(ValueError, match=f"{named}: expected at least 1, got 0"):
        split_rows(*arguments, 9)


# -- arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, list, tuple])
def test_numbers_of_each_row_are_cut_with_them(kind):
    numbers = np.linspace(1.0, 3.0, N)
    vec = build(range(3, 6), "MarketMaking-v0", volatility=kind(numbers.tolist()), arrival_rate=Randomized(100, 140))
    assert vec.num_envs == 3
    assert vec.volatility.tolist() == numbers[3:6].tolist()
    assert vec.params.arrival_rate == Randomized(100, 140)


def test_those_in_a_price_model_too():
    numbers = np.linspace(0.1, 0.2, N)
    model = Geometric(drift=0.01, volatility=numbers)
    for id, name in (("MarketMaking-v0", "midprice"), ("Trading-v0", "prices"), ("OptimalExecution-v0", "prices")):
        part = getattr(build(range(18, 20), id, **{name: model}).params, name)
        assert part.drift == 0.01 and part.volatility.tolist() == numbers[18:].tolist()


def test_an_array_that_rows_share_is_not_cut_though_it_is_as_long():
    closes, volumes = np.linspace(10.0, 12.0, N), np.linspace(1.0, 2.0, N)
    vec = build(range(2, 5), "Trading-v0", prices=closes, lookback=2, episode_length=5)
    assert vec.closes.tolist() == closes.tolist()
    vec = build(range(2, 5), "OptimalExecution-v0", volume_profile=volumes, n_steps=N)
    assert vec.volume_profile.tolist() == volumes.tolist()


def test_arguments_of_a_registration_and_of_the_vector_class_are_cut_alike():
    numbers = np.arange(1.0, N + 1)
    spec = EnvSpec("Own-v0", vector_entry_point=MarketMakingVecEnv, kwargs={"volatility": numbers})
    vec = build(range(4, 6), spec, vector_kwargs={"arrival_rate": numbers})
    assert vec.volatility.tolist() == vec.arrival_rate.tolist() == [5.0, 6.0]


def test_not_one_number_for_each_row():
    with pytest.raises(ValueError, match=r"volatility: expected 20 values \(num_envs\), got 21"):
        build(range(2), "MarketMaking-v0", volatility=np.ones(N + 1))


def make_quietly(num_envs, **kwargs):
    return MarketMakingVecEnv(num_envs, **kwargs)


class Holder:
    def __init__(self, values):
        self.values = values


@pytest.mark.parametrize(
    "value",
    [np.ones(N), [1.0] * N, {"a": [1.0] * N}, [[1.0], np.ones((2, N))], Holder(np.ones(N))],
    ids=["array", "list", "in a dict", "in a list", "in an object"],
)
def test_what_an_entry_point_says_nothing_of_is_refused_rather_than_guessed(value):
    spec = EnvSpec("Quiet-v0", vector_entry_point=make_quietly)
    with pytest.raises(ValueError, match=r"volatility: expected .* got 20 entries .* lambda rows: sekai.make_vec"):
        build(range(2), spec, volatility=value)


def test_what_cannot_differ_between_rows_is_not_refused():
    spec = EnvSpec("Quiet-v0", vector_entry_point=make_quietly)
    assert build(range(2), spec, volatility=2.5, fill_rule="linear", drift=0.0).volatility == 2.5


def test_one_shard_of_all_rows_gets_what_was_given():
    spec = EnvSpec("Quiet-v0", vector_entry_point=make_quietly)
    assert build(range(N), spec, volatility=np.arange(1.0, N + 1)).volatility.tolist() == list(range(1, N + 1))


def test_a_function_may_have_the_signature_of_the_markets_that_it_chooses_from():
    def choose(num_envs, *, prices=None, **params):
        market = SimulatedTradingVecEnv if isinstance(prices, Geometric) else TradingVecEnv
        return market(num_envs, prices=prices, **params)

    spec = EnvSpec("Either-v0", vector_entry_point=choose)
    costs = np.linspace(0.0, 0.01, N)
    with pytest.raises(ValueError, match="transaction_cost: expected an argument of which 'Either-v0' says"):
        build(range(2), spec, transaction_cost=costs)
    choose.__signature__ = signature_of_either(TradingVecEnv, SimulatedTradingVecEnv)
    drawn = build(range(2, 4), spec, transaction_cost=costs, prices=Geometric(0.0, costs + 0.1))
    lengths = np.arange(3, 3 + N)  # which may be None along a history, and in a model may not
    along = build(range(2, 4), spec, transaction_cost=costs, prices=costs + 1.0, lookback=2, episode_length=lengths)
    assert drawn.transaction_cost.tolist() == along.transaction_cost.tolist() == costs[2:4].tolist()
    assert drawn.params.prices.volatility.tolist() == (costs + 0.1)[2:4].tolist()
    assert len(along.closes) == N and along.episode_length.tolist() == [5, 6]
    assert list(inspect.signature(choose).parameters)[0] == "num_envs"


def test_options_of_autoreset_are_told_the_row_of_the_whole():
    vec = build(range(5, 8), "Trading-v0", lookback=2, vector_kwargs={"autoreset_options": lambda i: {"start": i}})
    assert [vec.autoreset_options_given(i) for i in range(3)] == [{"start": 5}, {"start": 6}, {"start": 7}]


def test_single_envs_take_arguments_as_they_are():
    closes = np.linspace(10.0, 11.0, N)
    vec = build(range(3), "Trading-v0", vectorization_mode="sync", prices=closes, lookback=2, episode_length=3)
    assert vec.num_envs == 3 and len(vec.call("closes")[0]) == N


def test_a_callable_takes_the_rows():
    seen = []

    def make(rows):
        seen.append(rows)
        return MarketMakingVecEnv(len(rows))

    assert ShardMaker(make, N).of(range(4, 9))().num_envs == 5
    assert seen == [range(4, 9)]


@pytest.mark.parametrize(
    "make, kwargs, error, text",
    [
        (lambda rows: MarketMakingVecEnv(2), None, ValueError, r"rows 4 to 8: expected a VecEnv of 5 sub-envs, got 2"),
        (lambda rows: None, None, TypeError, r"rows 4 to 8: expected a VecEnv, got NoneType"),
        (MarketMakingVecEnv, None, TypeError, r"expected an id, or a callable of the rows such as lambda rows"),
        (7, None, TypeError, r"rollout\(make\): expected an id, or a callable .* got 7"),
        (lambda rows: None, {"a": 1}, TypeError, r"kwargs=...\): expected none with a callable, got \['a'\]"),
        ("Missing-v0", None, sekai.EnvNotFound, "Missing-v0"),
        ("Trading-v0", {"vectorization_mode": "many"}, ValueError, "vectorization_mode"),
    ],
    ids=["number", "none", "class", "int", "kwargs", "id", "mode"],
)
def test_what_builds_no_shard(make, kwargs, error, text):
    with pytest.raises(error, match=text):
        ShardMaker(make, N, kwargs).of(range(4, 9))()


# -- seeds, options, snapshots ---------------------------------------------------------------------------------


def arguments(resets, *rows):
    return resets.of(range(*rows)).arguments()


@pytest.mark.parametrize("seed", [7, 2**128 - 1, 2**200 + 3])
def test_rows_have_the_seeds_of_the_whole(seed):
    resets, every = Resets(N, seed=seed), make_seed_sequence(seed, N)
    assert arguments(resets, 3, 6)["seed"].tolist() == every[3:6]
    assert arguments(resets, N)["seed"] == seed
    assert arguments(Resets(N, seed=every), 3, 6)["seed"] == every[3:6]


def test_what_is_sent_of_a_seed_does_not_grow_with_the_rows():
    sizes = {len(pickle.dumps(Resets(10**6, seed=7).of(range(5, stop)))) for stop in (1000, 60_000)}
    assert max(sizes) - min(sizes) < 8


def test_no_seed_is_drawn_once():
    resets = Resets(N)
    assert arguments(resets, 2)["seed"].tolist() == arguments(resets, 2)["seed"].tolist()
    assert arguments(Resets(N), 2)["seed"].tolist() != arguments(resets, 2)["seed"].tolist()
    some = Resets(3, seed=[1, None, 2**70])
    assert arguments(some, 2)["seed"] == arguments(some, 2)["seed"]
    assert arguments(some, 2)["seed"][0] == 1 and arguments(some, 2, 3)["seed"] == [2**70]


def test_options_of_each_row_are_cut():
    each = [{"start": k} for k in range(N)]
    assert arguments(Resets(N, options=each), 3, 5)["options"] == each[3:5]
    assert arguments(Resets(N, options={"start": 1}), 3, 5)["options"] == {"start": 1}


def test_a_snapshot_is_cut_or_everybody_s():
    vec = MarketMakingVecEnv(N)
    vec.reset(seed=0)
    assert arguments(Resets(N, start=vec.snapshot()), 3, 5)["start"] == vec.snapshot()[3:5]
    assert arguments(Resets(N, start=vec.snapshot(2)), 3, 5)["start"] == vec.snapshot(2)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"seed": -1}, ValueError, "seed=...\\): expected an integer of at least 0, got -1"),
        ({"seed": [1, 2]}, ValueError, "expected 20 seeds"),
        ({"seed": [np.random.default_rng(0)] * N}, TypeError, "got a generator for sub-env 0"),
        ({"options": [{}]}, ValueError, "expected 20 options"),
        ({"options": 3}, TypeError, "expected a dict, None or a list of them, got int"),
        ({"start": 3}, TypeError, "expected a Snapshot or None, got 3"),
    ],
    ids=["negative", "few", "generators", "few options", "no options", "no snapshot"],
)
def test_wrong_resets(arguments, error, text):
    with pytest.raises(error, match=text):
        Resets(N, **arguments)


def test_a_snapshot_leaves_no_room_for_a_seed_and_has_to_fit():
    vec = MarketMakingVecEnv(3)
    vec.reset(seed=0)
    with pytest.raises(ValueError, match="seed=...\\): expected None with start=, which makes no reset, got 4"):
        Resets(3, seed=4, start=vec.snapshot())
    with pytest.raises(ValueError, match=r"expected 20 sub-envs \(num_envs\) or 1, got 3"):
        Resets(N, start=vec.snapshot())


def test_a_native_env_is_seeded_alike_by_an_array_and_by_a_list():
    seeds = make_seed_sequence(3, 4)
    for other in (np.array(seeds, np.uint64), tuple(seeds), np.array(seeds, object)):
        one, two = (NativeToy([T(3)] * 4) for _ in range(2))
        one.reset(seed=seeds)
        two.reset(seed=other)
        assert one.streams.key.tolist() == two.streams.key.tolist() == seeds
        assert one.rng.integers(2**63, size=4).tolist() == two.rng.integers(2**63, size=4).tolist()
