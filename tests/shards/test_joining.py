"""Rollouts of shards, put together: what the rollout of all rows at once is, bit for bit."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from shards.records import assert_identical, in_shards
from toys import BOX1, T, Toy

import sekai
import sims
from sekai import Box, Dict, Discrete, Env, Sequence, StepResult, SyncVecEnv, VecNormalizeObservation
from sekai.kernels import jit
from sekai.rollouts import Rollout
from sekai.shards.rolling import PerShard, ShardedWork
from sekai.spaces import MaskedBox
from sekai.vector import NativeVecEnv
from sims.market_making import MarketMakingVecEnv

MARKETS = ("LimitOrderBook-v0", "MarketMaking-v0", "OptimalExecution-v0", "Portfolio-v0", "Trading-v0")


@pytest.fixture(autouse=True)
def registered():
    if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()


def first_policy(vec):
    return next(iter(vec.policies.values()))(vec)


def stepped(vec):
    """The same, called with batches: compiling the rollouts of all markets takes a minute."""
    policy = first_policy(vec)
    return lambda observations: policy(observations)


@pytest.mark.parametrize("id, build", [*((id, stepped) for id in MARKETS), ("MarketMaking-v0", first_policy)])
@pytest.mark.parametrize("num_envs, size", [(7, 1), (7, 3), (11, 4), (5, 5)])
def test_every_market(id, build, num_envs, size):
    limit = {"max_episode_steps": 9}
    vec = sekai.make_vec(id, num_envs, **limit)
    infos = (*vec.told,)
    whole = sekai.rollout(vec, build(vec), 25, seed=5, infos=infos)
    assert len(whole.final_indices) >= 2 * num_envs
    got = in_shards(id, PerShard(build), 25, num_envs, infos, seed=5, shard_size=size, kwargs=limit)
    assert_identical(whole, got)


@jit
def quote(observation, action):
    action[0] = 0.5 + 0.1 * observation[0]
    action[1] = 0.6


@pytest.mark.parametrize("backwards", [True, False])
def test_one_policy_for_all_shards_and_arguments_of_rows(backwards):
    numbers = np.linspace(1.0, 3.0, 10)
    whole = sekai.rollout(MarketMakingVecEnv(10, volatility=numbers, n_steps=7), quote, 20, seed=1, infos=["wealth"])
    kwargs = {"volatility": numbers, "n_steps": 7}
    got = in_shards("MarketMaking-v0", quote, 20, 10, ["wealth"], backwards, seed=1, shard_size=3, kwargs=kwargs)
    assert_identical(whole, got)


@pytest.mark.parametrize("of", [None, 2], ids=["all", "one for all"])
def test_it_goes_on_from_a_snapshot(of):
    vec = MarketMakingVecEnv(8, n_steps=9)
    sekai.rollout(vec, quote, 5, seed=3)
    start = vec.snapshot(of)
    whole = sekai.rollout(vec, quote, 12, start=start)
    got = in_shards(lambda rows: MarketMakingVecEnv(len(rows), n_steps=9), quote, 12, 8, start=start, shard_size=3)
    assert got.continued.all()
    assert_identical(whole, got)


def test_without_autoreset():
    vec = MarketMakingVecEnv(5, n_steps=4, autoreset=False)
    whole = sekai.rollout(vec, quote, 7, seed=3, infos=["wealth", "inventory"])
    kwargs = {"n_steps": 4, "vector_kwargs": {"autoreset": False}}
    infos = ["wealth", "inventory"]
    got = in_shards("MarketMaking-v0", quote, 7, 5, infos, seed=3, shard_size=2, kwargs=kwargs)
    assert whole.frozen.any() and np.isnan(whole.infos["inventory"]).any()
    assert_identical(whole, got)


def test_options_of_rows():
    options = [{"start": 40 + 3 * k} for k in range(6)]
    vec = sekai.make_vec("Trading-v0", 6)
    policy = PerShard(vec.policies["momentum"])
    whole = sekai.rollout(vec, vec.policies["momentum"](vec), 5, seed=0, options=options)
    assert whole.history is not None
    assert_identical(whole, in_shards("Trading-v0", policy, 5, 6, seed=0, options=options, shard_size=4))


# -- infos that only some rows tell, and of mixed types ----------------------------------------------------------


def scripts(*told):
    """The scripts of sub-envs that in step t tell ``told[i][t]``; None tells nothing."""
    return [
        [([float(t)], 1.0, False, False, {} if value is None else {"x": value}) for t, value in enumerate(each)]
        for each in told
    ]


def toys(rows, told):
    return SyncVecEnv([lambda script=script: Toy(script) for script in scripts(*told)[rows.start : rows.stop]])


def still(observations):
    return np.zeros(len(observations), int)


@pytest.mark.parametrize(
    "told",
    [
        [(1, 2), (3, 4), (5, 6)],
        [(1, 2), (3.5, 4), (5, 6)],
        [(True, False), (True, 2), (1, 1.5)],
        [(1, None), (3, 4), (5, 6)],
        [(None, None), (3, 4), (5, 6)],
        [(1.0, 2.0), (None, 4.0), (None, None)],
        [("a", "b"), ("longer", "c"), ("", "longest of all")],
        [("a", "b"), (None, "c"), ("d", None)],
        [("a\0", "b"), ("c", "d"), ("e", "f")],
        [(1, 2), ("a", 3), (2.5, None)],
        [(1, 2), (np.float32(0.5), np.float32(1.5)), (np.int8(3), 4)],
        [(np.float32(1), np.float32(2)), (np.float32(3), np.float32(4)), (np.float32(5), "x")],
        [(2**70, 1), (2, 3), (4, 5)],
        [(2**63, 1), (2**63, 3), (2**63, 5)],
        [(np.arange(2), np.ones(2)), (np.ones(2), np.arange(2)), (np.arange(2), np.arange(2))],
        [(np.arange(2), np.arange(3)), (np.arange(2), None), (np.arange(2), np.arange(2))],
        [([1, 2], [3, 4]), ([1, 2], [3, 4.5]), ([5, 6], [7, 8])],
        [({"a": 1}, {"a": 2}), (None, 3), ((1, 2), [3])],
        [(np.array(1), np.array(2)), (1, 2), (np.array(1), 2)],
        [(np.datetime64("2020-01-01"),) * 2, (np.datetime64("2020-01-01T01"),) * 2, (np.datetime64("2021"), None)],
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1, 2])
def test_info_columns_are_of_the_dtype_of_the_whole(told, size):
    whole = sekai.rollout(toys(range(3), told), still, 2, infos=["x"], seed=0)
    got = in_shards(lambda rows: toys(rows, told), still, 2, 3, ["x"], seed=0, shard_size=size)
    assert_identical(whole, got)


def test_a_key_that_no_row_has_in_the_first_step():
    told = [(None, 1), (None, 2), (None, 3)]
    with pytest.raises(KeyError, match=r"no info 'x' in the first step; there are \[\]"):
        in_shards(lambda rows: toys(rows, told), still, 2, 3, ["x"], seed=0, shard_size=2)


# -- histories ---------------------------------------------------------------------------------------------------


class Along(Toy):
    history_clock = "at"


class AlongAnother(Toy):
    history_clock = "bar"


class Nowhere(Toy):
    pass


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("others", [Along, AlongAnother, Nowhere])
def test_a_history_is_one_where_all_shards_name_it(others, tells):
    script = [([1.0], 1.0, t == 2, False, {"at": 5 + t, "bar": 6 + t} if tells else {}) for t in range(3)] * 2

    def make(rows):
        kinds = ([Along] * 3 + [others] * 3)[rows.start : rows.stop]
        return SyncVecEnv([lambda kind=kind: kind(script) for kind in kinds])

    whole = sekai.rollout(make(range(6)), still, 3, seed=0)
    assert (whole.history is not None) == (others is Along and tells)
    assert_identical(whole, in_shards(make, still, 3, 6, seed=0, shard_size=2))


# -- spaces ------------------------------------------------------------------------------------------------------


class Nested(Env):
    """Draws what it shows; row k ends after 2 + k % 3 steps."""

    observation_space = Dict(
        {
            "price": Box(-np.inf, np.inf, (2,), np.float32),
            "book": MaskedBox(0.0, 1.0, max_size=3),
            "trades": Sequence(Box(0.0, 1.0, (1,))),
            "side": Discrete(3, start=-1),
        }
    )
    action_space = Dict({"a": Discrete(3), "b": Box(-1.0, 1.0, (2,))})

    def __init__(self, length):
        self.length = length

    def _show(self):
        self.observation_space.seed(int(self.rng.integers(2**32)))
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.k = 0
        return sekai.ResetResult(self._show(), {})

    def step(self, action):
        self.k += 1
        return StepResult(self._show(), float(self.rng.normal()), self.k == self.length, False, {"k": self.k})


def test_nested_spaces_and_those_without_a_layout():
    def make(rows):
        return SyncVecEnv([lambda k=k: Nested(2 + k % 3) for k in rows])

    def act(observations):
        price = observations["price"]
        return {"a": (price[:, 0] > 0).astype(int), "b": np.clip(price, -1.0, 1.0)}

    whole = sekai.rollout(make(range(7)), act, 8, seed=3, infos=["k"])
    assert len(whole.final_indices) > 14
    assert_identical(whole, in_shards(make, act, 8, 7, ["k"], seed=3, shard_size=3))


def test_shards_of_other_spaces_are_refused():
    def make(rows):
        space = BOX1 if rows.start == 0 else Box(-np.inf, np.inf, (1,), np.float32)
        return SyncVecEnv([lambda: Toy(T(3), obs=space)] * len(rows))

    with pytest.raises(
        ValueError, match=r"rows 2 to 3: observations: expected what other rows have, float64 .*float32"
    ):
        in_shards(make, still, 2, 4, backwards=False, seed=0, shard_size=2)


# -- rows that depend on each other ------------------------------------------------------------------------------


class Sharing(NativeVecEnv):
    """Draws for all sub-envs at once."""

    def __init__(self, num_envs, draws=True):
        super().__init__(num_envs, BOX1, Discrete(2))
        self.draws, self.x = draws, np.zeros((num_envs, 1))

    def _reset_envs(self, indices, options):
        self.x[indices] = 0.0

    def _observe(self):
        return self.x

    def _step(self, actions):
        self.x[:, 0] += self.rng.normal(size=self.num_envs) if self.draws else 1.0
        return self.x[:, 0], np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool), {}


def test_a_market_that_draws_from_its_generator_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"rollout, rows 4 to 5: expected a market that draws from self.streams.*Sharing"
    ):
        in_shards(lambda rows: Sharing(len(rows)), still, 3, 6, seed=0, shard_size=2)
    in_shards(lambda rows: Sharing(len(rows), draws=False), still, 3, 6, seed=0, shard_size=2)


def test_as_one_shard_it_has_the_numbers_of_the_whole():
    whole = sekai.rollout(Sharing(6), still, 3, seed=0)
    assert_identical(whole, in_shards(lambda rows: Sharing(len(rows)), still, 3, 6, seed=0, shard_size=6))


def test_so_is_a_wrapper_that_gathers_statistics_over_rows():
    def make(rows, update=True):
        vec = VecNormalizeObservation(Sharing(len(rows), draws=False))
        vec.update_running_mean = update
        return vec

    with pytest.raises(ValueError, match="got VecNormalizeObservation, which gathers statistics over all of them"):
        in_shards(make, still, 3, 6, seed=0, shard_size=2)
    in_shards(lambda rows: make(rows, update=False), still, 3, 6, seed=0, shard_size=2)


# -- summaries ---------------------------------------------------------------------------------------------------


def test_summaries_come_in_the_order_of_shards_from_records_of_one_memory():
    addresses = []

    def summarise(record):
        addresses.append(record.rewards.ctypes.data)
        return record.rewards.sum(axis=0)

    sharded = ShardedWork("MarketMaking-v0", quote, 9, num_envs=11, seed=4, shard_size=3, summarise=summarise)
    found = list(sharded.each())
    assert [rows for rows, _ in found] == [range(0, 3), range(3, 6), range(6, 9), range(9, 11)]
    whole = sekai.rollout(MarketMakingVecEnv(11), quote, 9, seed=4)
    assert_identical(whole.rewards.sum(axis=0), np.concatenate([sums for _, sums in found]))
    assert len(set(addresses[:3])) == 1


def test_work_in_the_memory_of_other_work():
    memory, found, expected = {}, [], []
    for steps, infos in [(9, ["wealth"]), (9, ["inventory"]), (9, []), (8, [])]:

        def summarise(record):
            return [record.rewards.sum(), record.infos]

        given = {"num_envs": 4, "seed": 4, "infos": infos}
        sharded = ShardedWork("MarketMaking-v0", quote, steps, summarise=summarise, **given)
        found.append(pickle.dumps(sharded.work.do(sharded.shard(0), memory)))
        record = sekai.rollout(MarketMakingVecEnv(4), quote, steps, seed=4, infos=infos)
        expected.append(pickle.dumps(summarise(record)))
    assert found == expected


@pytest.mark.parametrize("summarise", [None, lambda record: record], ids=["records", "summaries that are the record"])
def test_what_is_handed_back_has_memory_of_its_own(summarise):
    sharded = ShardedWork("MarketMaking-v0", quote, 9, num_envs=8, seed=4, shard_size=4, summarise=summarise)
    records = [record for _, record in sharded.each()]
    whole = sekai.rollout(MarketMakingVecEnv(8), quote, 9, seed=4)
    assert_identical(whole.rewards, np.concatenate([record.rewards for record in records], axis=1))


def yielding(record):
    yield record.rewards.sum()


@pytest.mark.parametrize(
    "summarise, text",
    [
        (yielding, r"rollout\(summarise=...\): expected a function that returns a value, got a generator"),
        (lambda record: threading.Lock(), r"summarise=...\), rows 0 to 1: expected what can be pickled, got <"),
    ],
    ids=["generator", "lock"],
)
def test_what_cannot_be_handed_back(summarise, text):
    with pytest.raises(TypeError, match=text):
        list(ShardedWork("MarketMaking-v0", quote, 4, num_envs=4, shard_size=2, summarise=summarise).each())


def test_the_record_of_a_shard_is_the_rollout_of_its_rows():
    sharded = ShardedWork("MarketMaking-v0", quote, 4, num_envs=4, seed=4, shard_size=2)
    record = sharded.work.do(sharded.shard(1))
    assert isinstance(record, Rollout)
    assert_identical(sekai.rollout(MarketMakingVecEnv(4), quote, 4, seed=4).rewards[:, 2:].copy(), record.rewards)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"summarise": 3}, "summarise=...\\): expected a function"),
        ({"infos": "x"}, "infos=...\\): expected a sequence"),
    ],
    ids=["summarise", "infos"],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(TypeError, match=text):
        ShardedWork("MarketMaking-v0", quote, 4, num_envs=4, **arguments)
    with pytest.raises(TypeError, match="expected a function of a VecEnv, got 3"):
        PerShard(3)
