"""The random streams of a NativeVecEnv: those that the seeds of the sub-envs name, drawn from and read one by one."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
from backends import assert_same
from toys import NCount

from sekai import Box, Discrete, NativeVecEnv, SyncVecEnv, VecEnv, VecRecordEpisodeStatistics
from sekai.kernels import jit, streams
from sekai.kernels.streams import Streams, key_of_seed, make_streams
from sekai.registry import EnvRegistry
from sekai.seeding import make_seed_sequence
from sekai.vector.native.single import SingleEnv


@jit
def throw(made, sides, out):
    for i in range(len(out)):
        out[i] = streams.integers(made, i, 1, sides + 1)


@jit
def throw_some(made, indices, sides, out):
    for i in indices:
        out[i] = streams.integers(made, i, 1, sides + 1)


class Dice(NativeVecEnv):
    """Each step throws a die; an episode ends with a six, and begins with a throw too."""

    def __init__(self, num_envs, *, sides=6, autoreset=True):
        super().__init__(num_envs, Box(1, sides, (1,), np.int64), Discrete(2), autoreset=autoreset)
        self.sides = sides
        self.shown = np.zeros(num_envs, np.int64)

    def _reset_envs(self, indices, options):
        throw_some(self.streams, indices, self.sides, self.shown)

    def _reset_infos(self, indices):
        return {"began_with": self.shown[indices]}

    def _observe(self):
        return self.shown[:, None]

    def _step(self, actions):
        before = self.shown.copy()
        throw(self.streams, self.sides, self.shown)
        self.shown[self.frozen] = before[self.frozen]
        return self.shown * 1.0, self.shown == self.sides, np.zeros(self.num_envs, bool), {"shown": self.shown}


class Still(NCount):
    """Draws nothing."""

    def __init__(self, num_envs, **kwargs):
        super().__init__([3] * num_envs, **kwargs)


class LentDice(Dice):
    """Throws into memory that the kit has lent."""

    def _step(self, actions):
        shown = self._new_array(np.int64)
        throw(self.streams, self.sides, shown)
        self.shown[:] = shown
        rewards = self._new_array(np.float64)
        rewards[:] = shown
        return rewards, shown == self.sides, np.zeros(self.num_envs, bool), {"shown": shown}

    def _observe(self):
        observations = self._new_array(np.int64, 1)
        observations[:, 0] = self.shown
        return observations


def state(vec):
    return vec.streams.key.tolist(), vec.streams.counter.tolist()


# -- which streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "seeds"),
    [
        (5, make_seed_sequence(5, 3)),
        (np.int64(5), make_seed_sequence(5, 3)),
        (2**70, make_seed_sequence(2**70, 3)),
        ([7, 8, 9], [7, 8, 9]),
        ((7, 8, 9), [7, 8, 9]),
        (np.array([7, 8, 9]), [7, 8, 9]),
        ([0, 2**64 - 1, 2**64 + 3], [0, 2**64 - 1, 2**64 + 3]),
        (np.array([0, 2**64 - 1, 5], np.uint64), [0, 2**64 - 1, 5]),
    ],
    ids=str,
)
@pytest.mark.parametrize("touched", [False, True])
def test_the_seed_of_a_sub_env_names_its_stream(seed, seeds, touched):
    vec = Still(3)
    if touched:
        assert isinstance(vec.streams, Streams)
    vec.reset(seed=seed)
    assert state(vec) == ([key_of_seed(each) for each in seeds], [0, 0, 0])


def test_unseeded_each_has_a_stream_of_its_own():
    keys = {key for _ in range(3) for key in Still(4).streams.key.tolist()}
    assert len(keys) == 12
    vec = Still(2)
    before = state(vec)
    vec.reset()
    assert state(vec) == before and vec.streams is vec.streams


#: Resets one after another.
RESETS = [
    [5],
    [5, None],
    [5, 6],
    [5, [1, 2, 3]],
    [[1, 2, 3], 5],
    [5, [None, 1, None]],
    [5, [None, 1, None], [2, None, None], [None, 3, None]],
    [[1, 2, 3], [None, None, None], [None, 9, None]],
    [[1, 2, 3], [None, 9, 8], (7, None, None)],
    [5, None, [None, 7, None], None, [None, None, np.int64(8)], 6, [None, 2**80, None]],
    [np.array([1, 2, 3]), [None, 2, None]],
]


@pytest.mark.parametrize("resets", RESETS, ids=str)
def test_resets_before_the_streams_are_asked_for_are_not_lost(resets):
    early, late = Still(3), Still(3)
    early.streams  # noqa: B018
    for seed in resets:
        early.reset(seed=seed)
        late.reset(seed=seed)
    assert state(early) == state(late)


@pytest.mark.parametrize("seed", [[1, 2], np.array([1, 2]), np.array(1)], ids=["list", "array", "scalar array"])
def test_what_is_done_to_a_seed_afterwards_changes_nothing(seed):
    early, late = Still(2), Still(2)
    early.reset(seed=seed)
    expected = state(early)
    late.reset(seed=seed)
    if isinstance(seed, list):
        seed[0] = 9
    else:
        seed[...] = 9
    assert state(late) == expected


def test_none_goes_on_with_a_stream():
    vec = Dice(3)
    vec.reset(seed=[1, 2, 3])
    for _ in range(5):
        vec.step([0, 0, 0])
    key, counter = state(vec)
    assert key == [1, 2, 3] and min(counter) >= 6
    vec.reset(seed=[None, 2, None])
    after = vec.streams.counter.copy()
    assert after[0] > counter[0] and after[1] < counter[1] and after[2] > counter[2]
    again = Dice(3)
    again.reset(seed=[5, 2, 5])
    assert vec.shown[1] == again.shown[1] and after[1] == again.streams.counter[1]
    vec.reset()
    assert (vec.streams.counter > after).all() and vec.streams.key.tolist() == [1, 2, 3]


def test_autoreset_goes_on_with_a_stream():
    vec, alone = Dice(4, sides=2), make_streams([1, 2, 3, 4])
    shown, thrown = vec.reset(seed=[1, 2, 3, 4]).observations[:, 0], np.zeros(4, np.int64)
    throw(alone, 2, thrown)
    assert shown.tolist() == thrown.tolist()
    ends = 0
    for _ in range(30):
        result = vec.step([0] * 4)
        throw(alone, 2, thrown)
        final = [
            info.get("final_observation", row)[0] for info, row in zip(result.infos, result.observations, strict=True)
        ]
        assert final == thrown.tolist()
        ended = np.flatnonzero(result.terminated)
        ends += len(ended)
        throw_some(alone, ended, 2, thrown)
        assert result.observations[:, 0].tolist() == thrown.tolist()
    assert ends > 30 and state(vec) == (alone.key.tolist(), alone.counter.tolist())


@pytest.mark.parametrize(
    ("seed", "error"),
    [([1, -2, 3], ValueError), ([1, 2], ValueError), (-1, ValueError), ([1, 2.5, 3], TypeError), (True, TypeError)],
)
def test_a_seed_that_is_refused_changes_no_stream(seed, error):
    vec = Dice(3)
    vec.reset(seed=[1, 2, 3])
    before = state(vec)
    with pytest.raises(error, match="seed"):
        vec.reset(seed=seed)
    assert state(vec) == before


def test_streams_nobody_asks_for_cost_nothing(monkeypatch):
    monkeypatch.setattr("sekai.batching.inputs.make_seed_sequence", None)
    vec = Still(3)
    vec.reset(seed=5)
    vec.reset(seed=[1, None, 3])
    size = len(pickle.dumps(vec))
    for seeds in (lambda k: [None, k, None], lambda k: k):
        for k in range(100):
            vec.reset(seed=seeds(k))
            vec.step([0, 0, 0])
        assert len(pickle.dumps(vec)) < size + 100


def test_e1_a_frozen_row_draws_nothing_though_its_step_is_the_first_to_ask():
    class Late(NCount):
        def _step(self, actions):
            if self.frozen.any():
                for row in range(self.num_envs):
                    streams.uniform(self.streams, row)
            return super()._step(actions)

    vec = Late([1, 9], autoreset=False)
    vec.reset(seed=0)
    for _ in range(2):
        vec.step([0, 0])
    assert vec.streams.counter.tolist() == [0, 1]


def test_streams_nobody_asks_for_import_nothing():
    code = """
    import sys
    import numpy as np
    from sekai import Box, Discrete, NativeVecEnv

    class Still(NativeVecEnv):
        def _reset_envs(self, indices, options): pass
        def _observe(self): return np.zeros((2, 1))
        def _step(self, actions): return np.zeros(2), np.ones(2, bool), np.zeros(2, bool), {}

    vec = Still(2, Box(-1, 1, (1,), np.float64), Discrete(2))
    vec.reset(seed=3)
    vec.step([0, 0])
    vec.reset(seed=[None, 1])
    vec.get_attr("num_envs")
    print("numba" in sys.modules)
    vec.streams
    print("numba" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# -- reading them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("wrap", [lambda vec: vec, VecRecordEpisodeStatistics], ids=["bare", "wrapped"])
def test_each_sub_env_has_its_row(num_envs, wrap):
    vec = Dice(num_envs)
    vec.reset(seed=4)
    vec.step([0] * num_envs)
    rows = wrap(vec).get_attr("streams")
    assert [type(row) for row in rows] == [Streams] * num_envs
    assert [int(row.key) for row in rows] == vec.streams.key.tolist()
    assert [int(row.counter) for row in rows] == vec.streams.counter.tolist()


def test_what_was_read_is_a_snapshot():
    vec = Dice(3)
    vec.reset(seed=4)
    before = state(vec)
    rows = vec.get_attr("streams")
    for row in rows:
        for value in row:
            assert np.ndim(value) == 0
            if isinstance(value, np.ndarray):
                value[...] = 0
    assert state(vec) == before
    vec.step([0] * 3)
    assert [int(row.counter) for row in rows] == before[1] != vec.streams.counter.tolist()


def test_streams_cannot_be_replaced():
    with pytest.raises(AttributeError):
        Dice(2).set_attr("streams", None)


def test_a_copy_goes_on_alike():
    vec = Dice(3)
    vec.reset(seed=4)
    copy = pickle.loads(pickle.dumps(vec))
    for _ in range(10):
        assert_same(vec.step([0] * 3), copy.step([0] * 3))


def test_a10_kernels_may_draw_into_lent_memory():
    lent, plain = LentDice(5000), Dice(5000)
    lent.reset(seed=4), plain.reset(seed=4)
    kept = []
    for _ in range(20):
        kept.append((lent.step([0] * 5000), plain.step([0] * 5000)))
        assert_same(*kept[-1])
    for got, expected in kept:
        assert_same(expected, got)
    assert state(lent) == state(plain)


# -- alone and among others ----------------------------------------------------------------------------------

SEEDS = [
    11,
    [3, 2**64 - 1, 0, 2**100, 7],
    [None, 5, None, None, 5],
    None,
    [None] * 5,
]


def test_native_and_sync_draw_alike_whatever_the_seeds():
    native: VecEnv = Dice(5)
    sync = SyncVecEnv([partial(SingleEnv, Dice)] * 5)
    for seed in SEEDS:
        assert_same(native.reset(seed=seed), sync.reset(seed=seed))
        for _ in range(20):
            got, expected = native.step([1] * 5), sync.step([1] * 5)
            assert_same(got.observations, expected.observations)
            assert_same(got.rewards, expected.rewards)
            assert_same(got.terminated, expected.terminated)
            assert_same(list(got.infos), expected.infos)


def test_a_single_env_is_any_row_of_many():
    registry = EnvRegistry()
    registry.register("Dice-v0", vector_entry_point=Dice)
    seeds = [3, 2**64 - 1, 0, 2**100, 7]
    vec = Dice(5, autoreset=False)
    batch = [vec.reset(seed=seeds), *(vec.step([0] * 5) for _ in range(15))]
    for i, seed in enumerate(seeds):
        with registry.make("Dice-v0") as env:
            one = env.reset(seed=seed)
            assert one.observation.tolist() == batch[0].observations[i].tolist()
            assert one.info == batch[0].infos[i]
            assert int(env.streams.key) == key_of_seed(seed)
            for result in batch[1:]:
                step = env.step(0)
                assert step.observation.tolist() == result.observations[i].tolist()
                assert (step.reward, step.terminated) == (result.rewards[i], result.terminated[i])
                assert step.info == result.infos[i]
                if step.done:
                    break


@pytest.mark.parametrize("cut", [1, 3])
def test_shards_draw_what_the_whole_does(cut):
    seeds = [9, 8, 7, 6, 5]
    whole, left, right = Dice(5), Dice(cut), Dice(5 - cut)
    results = whole.reset(seed=seeds), left.reset(seed=seeds[:cut]), right.reset(seed=seeds[cut:])
    for _ in range(20):
        assert results[0].observations.tolist() == [
            *results[1].observations.tolist(),
            *results[2].observations.tolist(),
        ]
        results = whole.step([0] * 5), left.step([0] * cut), right.step([0] * (5 - cut))


def test_a2_a_generator_in_a_list_contributes_a_draw_to_the_streams():
    generator, twin = np.random.default_rng(5), np.random.default_rng(5)
    vec = Still(3)
    vec.reset(seed=[1, 2, 3])
    vec.streams.counter[2] = 7
    vec.reset(seed=[generator, 2, None])
    first = int(twin.integers(2**63))
    assert state(vec) == ([key_of_seed(each) for each in (first, 2, 3)], [0, 0, 7])
    vec.reset(seed=[generator, None, generator])  # one that is there twice is drawn from twice
    second, third = (int(twin.integers(2**63)) for _ in range(2))
    assert state(vec)[0] == [key_of_seed(each) for each in (second, 2, third)]
    for wrong in ([generator, -1, 3], [generator, 2], [generator, 2, "3"], generator):
        with pytest.raises((TypeError, ValueError), match="seed"):
            vec.reset(seed=wrong)
    assert generator.bit_generator.state == twin.bit_generator.state  # nothing was drawn for those


def test_a2_sync_and_native_draw_the_same_from_a_generator():
    seeds = [[np.random.default_rng(5), 2, 9] for _ in range(2)]
    sync = SyncVecEnv([lambda: SingleEnv(Dice)] * 3)
    native = Dice(3)
    sync.reset(seed=seeds[0]), native.reset(seed=seeds[1])
    for _ in range(5):
        np.testing.assert_array_equal(sync.step([0] * 3).rewards, native.step([0] * 3).rewards)
