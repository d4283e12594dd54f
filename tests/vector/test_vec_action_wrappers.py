"""Actions of a batch that come late or stick."""

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from backends import assert_same, both_modes
from toys import Draws, NativeToy, T, Toy, fns

import sekai
from sekai import (
    Box,
    Dict,
    Discrete,
    InvalidAction,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    SyncVecEnv,
    Tuple,
)
from sekai.batching import layout
from sekai.kernels import streams

ACTIONS = Dict({"size": Box(-1.0, 1.0, (2,)), "side": Discrete(50)})
here = pytest.mark.parametrize("backend", ["sync", "native"])


class Recording(Toy):
    """Keeps the actions of all steps."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.actions = []

    def step(self, action):
        self.actions.append(layout.copy_row(self.action_space, action))
        return super().step(action)


class NativeRecording(NativeToy):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.taken = [[] for _ in range(self.num_envs)]

    def _step(self, actions):
        for row, action in enumerate(layout.iterate(self.action_space, actions, self.num_envs)):
            if not self.frozen[row]:
                self.taken[row].append(layout.copy_row(self.action_space, action))
        return super()._step(actions)


def recording(backend, *scripts, act=ACTIONS, **kwargs):
    if backend == "native":
        return NativeRecording(scripts, act=act, **kwargs)
    return SyncVecEnv(fns(*scripts, cls=Recording, act=act), **kwargs)


def taken(vec):
    """What each sub-env has been stepped with."""
    return vec.unwrapped.taken if isinstance(vec.unwrapped, NativeRecording) else vec.get_attr("actions")


def batches(space, n, count):
    space = layout.batch_space(space, n)
    space.seed(0)
    return [space.sample() for _ in range(count)]


# -- VecDelayAction ----------------------------------------------------------------------------------------


@here
@both_modes
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_late_actions_are_those_of_each_env(backend, autoreset, delay):
    scripts = [T(2), T(9), T(4)]
    initial = {"size": np.float32([0.5, -0.5]), "side": 7}
    vec = sekai.VecDelayAction(recording(backend, *scripts, autoreset=autoreset), delay, initial_action=initial)
    envs = fns(*scripts, cls=Recording, act=ACTIONS)
    expected = SyncVecEnv(
        [lambda env=env: sekai.DelayAction(env(), delay, initial_action=initial) for env in envs], autoreset=autoreset
    )
    with vec, expected:
        assert vec.delay == delay
        for rows in ([], [1], [0, 2]):
            assert_same(expected.reset().observations, vec.reset().observations)
            for step, actions in enumerate(batches(ACTIONS, 3, 7)):
                if step == 4 and rows:
                    assert_same(expected.reset_envs(rows).observations, vec.reset_envs(rows).observations)
                assert_same(expected.step(actions), vec.step(actions))
            assert_same(expected.get_attr("actions"), taken(vec))


def test_actions_are_kept_as_they_were_chosen():
    with sekai.VecDelayAction(recording("native", T(9), T(9), act=Box(0.0, 9.0, (1,))), 1) as vec:
        vec.reset()
        actions = np.float32([[1.0], [2.0]])
        vec.step(actions)
        actions[:] = 5.0
        vec.step(actions)
        assert [np.squeeze(each).tolist() for each in taken(vec)] == [[0.0, 1.0], [0.0, 2.0]]


WRAPPED = {
    "latency": lambda v: sekai.VecDelayAction(v, 2),
    "sticky": lambda v: sekai.VecStickyAction(v, 0.5, (1, 3)),
    "both": lambda v: sekai.VecStickyAction(sekai.VecDelayAction(v, 1), 0.5),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_a_wrong_batch_is_refused_before_anything_else(wrap):
    good, *following = batches(ACTIONS, 2, 8)
    with wrap(recording("native", T(99), T(99))) as vec, wrap(recording("native", T(99), T(99))) as other:
        for each in (vec, other):
            each.reset(seed=0)
            each.step(good)
        for wrong in ({**good, "side": good["side"][:1]}, {"side": good["side"]}, 3):
            with pytest.raises(ValueError, match=r"^step\(actions\)"):
                vec.step(wrong)
        for actions in following:
            vec.step(actions), other.step(actions)
        assert_same(taken(other), taken(vec))


class Portfolio(Box):
    """Weights, which have a sum."""

    def contains(self, x):
        return super().contains(x) and abs(np.sum(x) - 1) < 1e-6

    def sample(self, mask=None):
        weights = super().sample(mask) + np.float32(0.1)
        return weights / weights.sum()


SPACES = {
    "of one's own": (Portfolio(0, 1, (3,)), np.ones(3, np.float32)),
    "numbers": (Box(-1.0, 1.0, (2,)), np.float32([0, np.nan])),
    "other bounds": (Box(np.float32([-1, 0]), np.float32([1, 4])), np.float32([2, 2])),
    "open": (Box(-np.inf, np.inf, ()), np.float32(np.nan)),
    "choice": (Discrete(3, start=1), 0),
    "choices": (MultiDiscrete([2, 3]), [1, 3]),
    "small": (MultiDiscrete([2, 3], np.uint8), [2, 0]),
    "bits": (MultiBinary(2), [0, 2]),
    "parts": (Dict(a=Tuple([Discrete(2), Box(0, 9, (1,))]), b=Discrete(2)), {"a": (1, np.float32([10])), "b": 0}),
    "set": (MaskedBox(0, 1, (2,), max_size=3), {"values": np.ones((3, 2), np.float32), "mask": np.int8([1, 1, 0])}),
    "sequence": (Sequence(Discrete(3)), (1, 2, 3)),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize(("space", "wrong"), SPACES.values(), ids=SPACES)
@both_modes
def test_a_batch_with_an_action_that_is_not_in_the_space_is_refused_before_anything_else(wrap, space, wrong, autoreset):
    vec, other = (wrap(recording("sync", T(99), T(2), T(99), act=space, autoreset=autoreset)) for _ in range(2))
    space.seed(0)
    with vec, other:
        vec.reset(seed=0), other.reset(seed=0)
        for step in range(9):
            rows = [space.sample() for _ in range(3)]
            good = [rows[0], rows[1] if autoreset or step < 2 else wrong, rows[2]]
            with pytest.raises(InvalidAction, match=r"^step\(actions\), sub-env 2: expected an element of "):
                vec.step(as_given(space, [*good[:2], wrong]))
            assert_same(other.step(as_given(space, rows)), vec.step(as_given(space, good)))
        assert_same(taken(other), taken(vec))


def as_given(space, rows):
    """A batch of actions, as arrays where they have a fixed layout."""
    return layout.concatenate(space, rows) if layout.has_fixed_layout(space) else rows


@pytest.mark.parametrize("high", [4.0, [4.0, 5.0]], ids=["alike", "each its own"])
def test_wide_batches_are_looked_at_to_the_end(high):
    n, act = 40_000, Box(0.0, np.float32(high), (2,))
    with sekai.VecDelayAction(recording("native", *[LONG] * n, act=act), 1) as vec:
        for row in (0, 16_384, n - 1):
            actions = np.zeros((n, 2), np.float32)
            actions[row, 1] = 5.5
            with pytest.raises(InvalidAction, match=rf"^step\(actions\), sub-env {row}: expected an element of "):
                vec.step(actions)


QUOTES = {
    "native": lambda: sekai.VecDelayAction(sekai.make_vec("MarketMaking-v0", 1), 2),
    "between": lambda: sekai.VecDelayAction(sekai.VecStickyAction(sekai.make_vec("MarketMaking-v0", 1), 0.5), 2),
    "sub-env": lambda: sekai.VecDelayAction(SyncVecEnv([lambda: sekai.make("MarketMaking-v0")]), 2),
    "single": lambda: SyncVecEnv([lambda: sekai.DelayAction(sekai.make("MarketMaking-v0"), 2)]),
}


@pytest.mark.parametrize("make", QUOTES.values(), ids=QUOTES)
def test_infinite_numbers_are_refused_when_they_are_given(make):
    with make() as vec:
        assert vec.action_space.contains(np.float32([0.5, np.inf]))
        vec.reset(seed=0)
        with pytest.raises(InvalidAction, match="expected an element of .*, of finite numbers, got array"):
            vec.step(np.float32([[0.5, np.inf]]))


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@both_modes
def test_snapshots_keep_actions_on_their_way(wrap, autoreset):
    scripts = [T(3), T(40), T(5)]
    vec, other = (wrap(recording("sync", *scripts, autoreset=autoreset)) for _ in range(2))
    first, second = np.split(np.arange(12), 2)
    given = batches(ACTIONS, 3, 12)
    with vec, other:
        vec.reset(seed=5)
        for k in first:
            vec.step(given[k])
        kept = pickle.loads(pickle.dumps(vec.snapshot()))
        expected = [vec.step(given[k]) for k in second]
        other.restore(kept)  # which has never been reset
        assert_same(expected, [other.step(given[k]) for k in second])
        assert_same(taken(vec), taken(other))
        other.restore(kept)
        other.restore(kept[1], 2)
        for k in second:
            other.step(layout.take(given[k], np.array([0, 1, 1])))
        assert_same(taken(other)[1], taken(other)[2])


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_async_steps_are_the_same(wrap):
    given = batches(ACTIONS, 2, 9)

    async def run(vec):
        await vec.async_reset(seed=3)
        for actions in given:
            await vec.async_step(actions)
        return taken(vec)

    with wrap(recording("sync", T(4), T(99))) as vec, wrap(recording("sync", T(4), T(99))) as other:
        vec.reset(seed=3)
        for actions in given:
            vec.step(actions)
        assert_same(taken(vec), asyncio.run(run(other)))


# -- VecStickyAction ---------------------------------------------------------------------------------------

MANY = Discrete(10**6)
LONG = T(450)


def counted(vec, steps, seed=None, reset=True):
    """What every sub-env is stepped with when the k-th action is k, by step."""
    if reset:
        vec.reset(seed=seed)
    begin = [len(each) for each in taken(vec)]
    for k in range(steps):
        vec.step(np.full(vec.num_envs, k))
    return [np.array(each[start:]).tolist() for start, each in zip(begin, taken(vec), strict=True)]


@pytest.mark.parametrize("duration", [1, (2, 4)], ids=str)
def test_actions_stick_as_often_and_as_long_as_they_should(duration):
    n, steps = 40, 200
    with sekai.VecStickyAction(recording("native", *[LONG] * n, act=MANY), 0.25, duration) as vec:
        assert vec.repeat_action_duration_range == ((1, 1) if duration == 1 else duration)
        acted = np.array(counted(vec, steps, seed=0))
    free = acted == np.arange(steps)
    assert free[:, 0].all()
    np.testing.assert_array_equal(acted, np.maximum.accumulate(np.where(free, np.arange(steps), 0), axis=1))
    begun = [np.flatnonzero(row) for row in free]
    runs = np.concatenate([np.diff(row) - 1 for row in begun])
    if duration == 1:
        assert 0.23 < 1 - free[:, 1:].mean() < 0.27  # 8 thousand draws
        assert abs((~free[:, 1:-1] & ~free[:, 2:]).mean() - 0.0625) < 0.01  # each by itself
    else:
        assert runs[runs > 0].min() == 2 and {2, 3, 4} <= set(runs.tolist())
        once = runs[(runs > 0) & (runs < 4)]  # what is shorter than two in a row can be
        assert 0.4 < (once == 2).mean() < 0.6


@here
@both_modes
def test_the_same_sticks_as_in_single_envs(backend, autoreset):
    scripts = [T(9), T(40), T(5)]
    vec = sekai.VecStickyAction(recording(backend, *scripts, autoreset=autoreset), 0.5, (1, 3))
    envs = fns(*scripts, cls=Recording, act=ACTIONS)
    expected = SyncVecEnv([lambda env=env: sekai.StickyAction(env(), 0.5, (1, 3)) for env in envs], autoreset=autoreset)
    with vec, expected:
        for seed, rows in ((3, []), (None, [1]), ([4, None, 5], [0, 2])):
            expected.reset(seed=seed), vec.reset(seed=seed)
            for step, actions in enumerate(batches(ACTIONS, 3, 14)):
                if step == 8 and rows:
                    seeds = [None, 6][: len(rows)]
                    expected.reset_envs(rows, seed=seeds), vec.reset_envs(rows, seed=seeds)
                assert_same(expected.step(actions), vec.step(actions))
            assert_same(expected.get_attr("actions"), taken(vec))


@here
def test_what_sticks_depends_on_the_seed_of_a_sub_env_alone(backend):
    def stuck(n, seed, probability=0.5):
        with sekai.VecStickyAction(recording(backend, *[LONG] * n, act=MANY), probability) as vec:
            return counted(vec, 30, seed)

    three = stuck(3, [7, 8, 9])
    assert three[0] != three[1] != three[2]
    assert stuck(1, [8]) == three[1:2]
    assert stuck(4, [9, 8, 7, 6])[:3] == three[::-1]
    assert stuck(2, 5) == stuck(2, sekai.make_seed_sequence(5, 2))
    assert stuck(2, None) != stuck(2, None)
    generators = [np.random.default_rng(seed) for seed in (1, 2)]
    if backend == "sync":
        assert stuck(2, generators) == stuck(2, [np.random.default_rng(seed) for seed in (1, 2)])


def test_streams_go_on_or_begin_anew():
    with sekai.VecStickyAction(recording("native", LONG, LONG, act=MANY), 0.5) as vec:
        first = counted(vec, 30, [1, 2])
        second = counted(vec, 30)
        assert first != second
        assert counted(vec, 30, [1, 2]) == first
        assert counted(vec, 30) == second
        vec.reset_envs([1], seed=[2])
        vec.reset_envs([0])
        mixed = counted(vec, 30, reset=False)
        assert mixed[1] == first[1] and mixed[0] not in (first[0], second[0])
        vec.reset(seed=[3, 4])
        vec.reseed([2], [1])
        assert counted(vec, 30, reset=False)[1] == first[1]


@pytest.mark.parametrize(
    "make", [SyncVecEnv, lambda env_fns: sekai.ProcVecEnv(env_fns, num_workers=1)], ids=["sync", "proc"]
)
def test_one_around_sub_envs_that_have_one_draws_by_itself(make):
    def within():
        return sekai.StickyAction(Recording(LONG, act=MANY), 0.5)

    def twice():
        return sekai.StickyAction(within(), 0.5)

    with sekai.VecStickyAction(make([within] * 2), 0.5) as vec, SyncVecEnv([twice] * 2) as expected:
        for each in (vec, expected):
            each.reset(seed=1)
            for k in range(60):
                each.step([k, k])
        assert vec.get_attr("actions") == expected.get_attr("actions")


def test_a_snapshot_of_another_initial_action_is_refused():
    act = Box(-1.0, 1.0, (2000,))  # more than is printed
    initial = np.zeros(2000, np.float32)
    other = initial.copy()
    other[1000] = 0.5
    vec, same, another = (
        sekai.VecDelayAction(recording("sync", LONG, act=act), 1, initial_action=each)
        for each in (initial, initial, other)
    )
    with vec, same, another:
        vec.reset()
        same.restore(vec.snapshot())
        with pytest.raises(ValueError, match="VecDelayAction: initial_action: expected array float32"):
            another.restore(vec.snapshot())


class NativeDraws(NativeToy):
    """Rewards are draws from the streams of the sub-envs."""

    def _step(self, actions):
        _, terminated, truncated, columns = super()._step(actions)
        drawn = [streams.uniform(self.streams, row) for row in range(self.num_envs)]
        return np.array(drawn), terminated, truncated, columns


def generators():
    """One for two of three sub-envs, or two over the same numbers."""
    first, other = np.random.default_rng(3), np.random.default_rng(4)
    return [first, 7, first], [np.random.Generator(other.bit_generator), other, 7]


SEEDS = {"integer": lambda: 3, "one given twice": lambda: generators()[0], "two over one": lambda: generators()[1]}
BEGINNINGS = {
    "reset": lambda vec, seed: vec.reset(seed=seed),
    "async_reset": lambda vec, seed: asyncio.run(vec.async_reset(seed=seed)),
    "reset_envs": lambda vec, seed: [vec.reset(seed=1), vec.reset_envs([0, 1, 2], seed=seed)],
    "reseed": lambda vec, seed: [vec.reset(seed=1), vec.reseed(seed)],
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
@pytest.mark.parametrize("make_seed", SEEDS.values(), ids=SEEDS)
@here
def test_the_market_draws_what_it_would_without(backend, make_seed, begin):
    def make():
        return NativeDraws([LONG] * 3) if backend == "native" else SyncVecEnv([Draws] * 3)

    with make() as bare, sekai.VecStickyAction(make(), 0.9) as sticky:
        seeds = make_seed(), make_seed()
        begin(bare, seeds[0]), begin(sticky, seeds[1])
        for _ in range(9):
            assert bare.step([0, 1, 0]).rewards.tolist() == sticky.step([0, 1, 0]).rewards.tolist()
        for one, other in zip(*seeds, strict=True) if isinstance(seeds[0], list) else ():
            if isinstance(one, np.random.Generator):
                assert one.random() == other.random()  # which have been drawn from as often


@here
def test_sub_envs_that_are_given_one_generator_do_not_stick_together(backend):
    generator = np.random.default_rng(5)
    with sekai.VecStickyAction(recording(backend, LONG, LONG, act=MANY), 0.5) as vec:
        one, other = counted(vec, 60, [generator, generator])
    assert one != other


@both_modes
def test_sticking_ends_with_the_episode_and_frozen_sub_envs_draw_nothing(autoreset):
    vec = sekai.VecStickyAction(recording("native", T(3), LONG, act=MANY, autoreset=autoreset), 0.9, 10)
    alone = sekai.VecStickyAction(recording("native", LONG, act=MANY), 0.9, 10)
    with vec, alone:
        acted = counted(vec, 12, [1, 2])
        assert acted[1] == counted(alone, 12, [2])[0]
        assert acted[0][::3] == ([0, 3, 6, 9] if autoreset else [0])
        if not autoreset:
            again = counted(vec, 3)[0]
            short = sekai.VecStickyAction(recording("native", T(3), act=MANY, autoreset=False), 0.9, 10)
            counted(short, 3, [1])
            assert again == counted(short, 3)[0]


def test_one_around_another_draws_by_itself():
    with sekai.VecStickyAction(recording("native", LONG, act=MANY), 0.5) as one:
        single = np.array(counted(one, 400, [1])[0])
    with sekai.VecStickyAction(sekai.VecStickyAction(recording("native", LONG, act=MANY), 0.5), 0.5) as two:
        double = np.array(counted(two, 400, [1])[0])
    assert (single != np.arange(400)).mean() < 0.58 < 0.68 < (double != np.arange(400)).mean()
