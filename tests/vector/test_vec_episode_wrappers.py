"""Vector wrappers of observations, rewards and actions against the single ones, in each sub-env of a SyncVecEnv."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from backends import assert_same, both_modes, scribble, scripted
from toys import INF, T, Toy, fns

import sekai
from sekai import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, SyncVecEnv, TimeLimit, Tuple
from sekai.batching.buffers import Buffers
from sekai.batching.frames import FrameRows
from sekai.batching.layout import take

PLANE = Box(np.float32([0.0, -1.0]), np.float32([10.0, 3.0]))
BOOK = MaskedBox(-INF, INF, (1,), max_size=3, dtype=np.float64)
NESTED = Dict(
    {
        "b": Box(-9, 9, (2, 2), np.float64),
        "a": Tuple((Discrete(4, start=-1), MultiDiscrete([2, 3]), MultiBinary(2))),
        "book": BOOK,
    }
)
LIMIT = 4


def script(space, length, seed):
    """A script of drawn observations and rewards."""
    space.seed(seed)
    draws = np.random.default_rng(seed).normal(size=length) * 3.0
    return [(space.sample(), float(draws[k]), k + 1 == length, False, {"k": k}) for k in range(length)]


def first_of(space):
    space.seed(99)
    return space.sample()


#: By name: the space, and the wrapper of one env and of many.
CASES = {
    "clip_reward": (PLANE, lambda e: sekai.ClipReward(e, -1.0, 2.0), lambda v: sekai.VecClipReward(v, -1.0, 2.0)),
    "clip_reward_above": (PLANE, lambda e: sekai.ClipReward(e, None, 0), lambda v: sekai.VecClipReward(v, None, 0)),
    "rescale": (
        PLANE,
        lambda e: sekai.RescaleObservation(e, [-1, 0], 1),
        lambda v: sekai.VecRescaleObservation(v, [-1, 0], 1),
    ),
    "dtype": (
        PLANE,
        lambda e: sekai.DtypeObservation(e, np.int16),
        lambda v: sekai.VecDtypeObservation(v, np.int16),
    ),
    "dtype_of_numbers": (
        Discrete(5, start=2),
        lambda e: sekai.DtypeObservation(e, np.float64),
        lambda v: sekai.VecDtypeObservation(v, np.float64),
    ),
    "filter": (
        NESTED,
        lambda e: sekai.FilterObservation(e, ["book", "a"]),
        lambda v: sekai.VecFilterObservation(v, ["book", "a"]),
    ),
    "flatten": (PLANE, sekai.FlattenObservation, sekai.VecFlattenObservation),
    "flatten_parts": (NESTED, sekai.FlattenObservation, sekai.VecFlattenObservation),
    "time": (PLANE, sekai.TimeAwareObservation, sekai.VecTimeAwareObservation),
    "time_of_parts": (
        NESTED,
        lambda e: sekai.TimeAwareObservation(e, normalize_time=True),
        lambda v: sekai.VecTimeAwareObservation(v, normalize_time=True),
    ),
    "time_in_a_dict": (
        NESTED,
        lambda e: sekai.TimeAwareObservation(e, flatten=False, dict_time_key="clock"),
        lambda v: sekai.VecTimeAwareObservation(v, flatten=False, dict_time_key="clock"),
    ),
    "time_in_a_tuple": (
        Tuple((PLANE, Discrete(2))),
        lambda e: sekai.TimeAwareObservation(e, False, True),
        lambda v: sekai.VecTimeAwareObservation(v, False, True),
    ),
    "stack": (
        PLANE,
        lambda e: sekai.FrameStackObservation(e, 3),
        lambda v: sekai.VecFrameStackObservation(v, 3),
    ),
    "stack_of_one": (
        Discrete(3),
        lambda e: sekai.FrameStackObservation(e, 1),
        lambda v: sekai.VecFrameStackObservation(v, 1),
    ),
    "stack_of_parts": (
        NESTED,
        lambda e: sekai.FrameStackObservation(e, 2, padding_type="zero"),
        lambda v: sekai.VecFrameStackObservation(v, 2, padding_type="zero"),
    ),
    "stack_on_a_given_one": (
        PLANE,
        lambda e: sekai.FrameStackObservation(e, 3, padding_type=np.float32([7, 2])),
        lambda v: sekai.VecFrameStackObservation(v, 3, padding_type=np.float32([7, 2])),
    ),
    "delay": (NESTED, lambda e: sekai.DelayObservation(e, 2), lambda v: sekai.VecDelayObservation(v, 2)),
    "delay_by_nothing": (PLANE, lambda e: sekai.DelayObservation(e, 0), lambda v: sekai.VecDelayObservation(v, 0)),
    "stack_of_delayed": (
        PLANE,
        lambda e: sekai.FrameStackObservation(sekai.DelayObservation(e, 1), 2),
        lambda v: sekai.VecFrameStackObservation(sekai.VecDelayObservation(v, 1), 2),
    ),
}
each_case = pytest.mark.parametrize("case", CASES)

#: Every case as rows and natively, and on the other backends those in which most goes on.
BACKENDS = [(backend, case) for backend in ("sync", "native") for case in CASES]
BACKENDS += [
    ("proc", "stack_of_parts"),
    ("proc", "flatten_parts"),
    ("async", "stack_of_parts"),
    ("async", "time_of_parts"),
    ("async", "delay"),
]
each_backend = pytest.mark.parametrize("backend, case", [pytest.param(*each, id="-".join(each)) for each in BACKENDS])


def pair(case, backend="sync", autoreset=True, lengths=(2, 9, 3)):
    """The vector wrapper around a backend, and what it is to show: a SyncVecEnv of envs in the single wrapper."""
    space, single, vector = CASES[case]
    scripts = [script(space, length, seed) for seed, length in enumerate(lengths)]
    first = first_of(space)
    vec = scripted(
        backend, *scripts, obs=space, r0=first, i0={"k": -1}, max_episode_steps=LIMIT, autoreset=autoreset
    )  # fmt: skip
    envs = fns(*scripts, obs=space, r0=first, i0={"k": -1})
    expected = SyncVecEnv([lambda env=env: single(TimeLimit(env(), LIMIT)) for env in envs], autoreset=autoreset)
    return vector(vec), expected


def same_spaces(vec, expected):
    assert vec.observation_space == expected.observation_space
    assert vec.batch_observation_space == expected.batch_observation_space


@each_backend
@both_modes
def test_a_batch_shows_what_each_env_would(backend, case, autoreset):
    vec, expected = pair(case, backend, autoreset)
    with vec, expected:
        assert vec.observation_space == expected.observation_space
        assert vec.batch_observation_space == expected.batch_observation_space
        for length in (7, 2, 1):
            assert_same(expected.reset(), vec.reset())
            for _ in range(length):
                got = vec.step([0, 1, 0])
                assert_same(expected.step([0, 1, 0]), got)
                assert got.observations in vec.batch_observation_space


@each_case
@both_modes
def test_resets_of_some(case, autoreset):
    vec, expected = pair(case, "native", autoreset)
    with vec, expected:
        assert_same(expected.reset(), vec.reset())
        for rows in ([2], [0, 1], [], [1]):
            assert_same(expected.reset_envs(rows), vec.reset_envs(rows))
            for _ in range(3):
                assert_same(expected.step([0, 1, 0]), vec.step([0, 1, 0]))


@each_case
@both_modes
def test_what_is_written_into_results_changes_nothing(case, autoreset):
    vec, expected = pair(case, "native", autoreset)
    with vec, expected:
        expected.reset(), scribble(vec.reset())
        for _ in range(6):
            got = vec.step([0, 1, 0])
            assert_same(expected.step([0, 1, 0]), got)
            scribble(got)


@each_case
@both_modes
def test_snapshots_keep_what_is_known_of_each_episode(case, autoreset):
    vec, other = pair(case, "sync", autoreset)[0], pair(case, "sync", autoreset, lengths=(1, 1, 1))[0]
    with vec, other:
        vec.reset()
        for _ in range(3):
            vec.step([0, 1, 0])
        kept = vec.snapshot()
        assert pickle.loads(pickle.dumps(kept)) == kept
        following = [vec.step([0, 1, 0]) for _ in range(6)]
        other.restore(kept)  # which has never been reset
        again = other.snapshot()
        for name in kept.columns:
            if ": " in name:  # of the wrapper: pickled envs are not the same to the byte
                assert_same(kept.columns[name], again.columns[name], name)
        assert_same(following, [other.step([0, 1, 0]) for _ in range(6)])
        other.restore(kept)
        other.restore(kept[1], 2)
        for _ in range(6):
            result = other.step([0, 0, 0])
            one, two = ([take(result.observations, np.array([row])), result.infos[row]] for row in (1, 2))
            assert_same(one, two)


@each_case
def test_snapshots_go_from_a_copy_to_another(case):
    vec, other = pair(case)[0], pair(case)[0]
    with vec, other:
        vec.reset()
        copied = pickle.loads(pickle.dumps(vec))
        copied.step([0, 1, 0])
        other.restore(copied.snapshot())
        assert_same(copied.step([0, 1, 0]), other.step([0, 1, 0]))


class Counting(sekai.VecFrameStackObservation):
    """Has state of its own whose names begin as those of what the kit keeps."""

    def __init__(self, venv):
        super().__init__(venv, 2)
        self.frames, self.frames_seen, self.shown, self.shown_before = np.zeros((4, venv.num_envs))

    def observation(self, obs):
        for count in (self.frames, self.frames_seen, self.shown, self.shown_before):
            count += 1
        return super().observation(obs)


class CountingLate(sekai.VecDelayObservation):
    def __init__(self, venv):
        super().__init__(venv, 1)
        self.delayed, self.delayed_by = np.zeros((2, venv.num_envs))

    def observation(self, obs):
        self.delayed += 1
        self.delayed_by += 1
        return super().observation(obs)


@pytest.mark.parametrize("kind", [Counting, CountingLate])
@both_modes
def test_snapshots_keep_what_a_subclass_adds_under_any_name(kind, autoreset):
    with kind(scripted("native", T(9), T(9), autoreset=autoreset)) as vec:
        vec.reset()
        vec.step([0, 0])
        kept = vec.snapshot()
        names = [name for name in vars(vec) if name.startswith(("frames", "shown", "delayed"))]
        before = {name: getattr(vec, name).tolist() for name in names}
        vec.step([0, 0])
        vec.restore(kept)
        assert len(names) in (2, 4) and {name: getattr(vec, name).tolist() for name in names} == before


def test_parts_at_other_places_are_refused():
    space = Tuple([Discrete(3)] * 3)

    def built(places):
        return sekai.VecFilterObservation(scripted("sync", T(9), obs=space, r0=(0, 1, 2)), places)

    with built([0, 1]) as vec, built([-3, 1]) as same, built([0, 2]) as other:
        vec.reset()
        same.restore(vec.snapshot())
        with pytest.raises(ValueError, match=r"VecFilterObservation: filter_keys: expected \(0, 2\), got \(0, 1\)"):
            other.restore(vec.snapshot())


def take_a_snapshot_into(wrap, into):
    """Restore a snapshot of one wrapper into another around the same envs."""
    script_of_1 = script(PLANE, 5, 0)
    with wrap(scripted("sync", script_of_1, obs=PLANE, r0=first_of(PLANE))) as vec:
        vec.reset()
        with into(scripted("sync", script_of_1, obs=PLANE, r0=first_of(PLANE))) as other:
            other.restore(vec.snapshot())


def test_a_snapshot_of_another_wrapper_is_refused():
    def stack(k, padding_type="reset"):
        return lambda v: sekai.VecFrameStackObservation(v, k, padding_type=padding_type)

    take_a_snapshot_into(stack(3, "zero"), stack(3, "zero"))
    with pytest.raises(ValueError, match=r"observation_space: expected Box.*\(4, 2\).*got Box.*\(3, 2\)"):
        take_a_snapshot_into(stack(3), stack(4))
    with pytest.raises(ValueError, match="VecFrameStackObservation: padding: expected none, got array"):
        take_a_snapshot_into(stack(3, "zero"), stack(3))
    with pytest.raises(ValueError, match="the layout of its columns"):
        take_a_snapshot_into(lambda v: sekai.VecDelayObservation(v, 1), lambda v: sekai.VecDelayObservation(v, 2))
    with pytest.raises(ValueError, match="VecClipReward: max_reward: expected 2.0, got 1.0"):
        take_a_snapshot_into(lambda v: sekai.VecClipReward(v, 0, 1), lambda v: sekai.VecClipReward(v, 0, 2))


@both_modes
def test_a_window_of_frames_that_has_gone_a_long_way(autoreset):
    """Further than its memory reaches, with episodes of all lengths."""
    lengths = [3, 5, 700, 1]
    single = [[([float(k)], 0.0, k == n, False, {}) for k in range(1, n + 1)] for n in lengths]
    with sekai.VecFrameStackObservation(scripted("native", *single, autoreset=autoreset), 4) as vec:
        stacked = SyncVecEnv(
            [lambda env=env: sekai.FrameStackObservation(env(), 4) for env in fns(*single)], autoreset=autoreset
        )
        assert_same(stacked.reset(), vec.reset())
        for k in range(600):
            assert_same(stacked.step([0] * 4), vec.step([0] * 4), f"step {k}")


def test_many_frames_in_several_blocks():
    n, k, width = 1900, 5, 33  # 1.25 MB of stacks
    rng = np.random.default_rng(0)
    frames = FrameRows(n, k, (width,), np.dtype(np.float32))
    buffers, given = Buffers(), [np.zeros((n, width), np.float32)] * k
    for _ in range(40):
        given.append(rng.random((n, width), dtype=np.float32))
        stacks = frames.push(given[-1], buffers)
        np.testing.assert_array_equal(stacks, np.stack(given[-k:], axis=1))
        assert stacks.flags.c_contiguous and not np.shares_memory(stacks, frames.window)


@pytest.mark.parametrize("shape", [(0,), (2, 0), ()], ids=str)
def test_frames_without_numbers_and_of_one(shape):
    frames = FrameRows(2, 3, shape, np.dtype(bool))
    for _ in range(30):
        assert frames.push(np.ones((2, *shape), bool), Buffers()).shape == (2, 3, *shape)
        frames.fill(np.array([1]), np.ones((1, *shape), bool))
        assert frames.with_next(np.array([1, 0]), np.ones((2, *shape), bool)).shape == (2, 3, *shape)


@pytest.mark.parametrize("n, k", [(1, 1), (3, 1), (1, 4), (3, 2), (4, 3)])
def test_frames_of_some_rows_against_lists(n, k):
    """At each place of the window, the last one of the memory too."""
    rng = np.random.default_rng(n * k)
    frames, buffers = FrameRows(n, k, (2,), np.dtype(np.int32)), Buffers()
    kept = np.zeros((n, k, 2), np.int32)
    for step in range(100):
        new = rng.integers(1000, size=(n, 2), dtype=np.int32)
        rows = rng.permutation(n)[: rng.integers(n + 1)]
        one_each = rng.integers(1000, size=(len(rows), 2), dtype=np.int32)
        following = [[*kept[row][1:], frame] for row, frame in zip(rows, one_each, strict=True)]
        assert frames.with_next(rows, one_each).tolist() == np.reshape(following, (len(rows), k, 2)).tolist()
        np.testing.assert_array_equal(frames.window, kept)
        if step % 3 == 0:
            before = one_each if step % 2 else one_each[:1]  # one for all
            if len(before):
                frames.fill(rows, before)
                kept[rows] = before[:, None]
        elif step % 3 == 1:
            kept[rows, -1] = one_each
            assert frames.replace_newest(rows, one_each).tolist() == kept[rows].tolist()
        kept = np.concatenate([kept[:, 1:], new[:, None]], axis=1)
        np.testing.assert_array_equal(frames.push(new, buffers), kept)


# -- arguments ---------------------------------------------------------------------------------------------


def test_the_limit_of_steps():
    assert sekai.VecTimeAwareObservation(scripted("native", T(9), max_episode_steps=7)).max_timesteps == 7
    different = SyncVecEnv([lambda n=n: TimeLimit(Toy(T(9)), n) for n in (3, 4)])
    with pytest.raises(ValueError, match=r"expected one limit of steps for all sub-envs.*got \['3', '4'\]"):
        sekai.VecTimeAwareObservation(different)
    for backend in ("native", "sync"):
        with pytest.raises(ValueError, match=r"expected one limit of steps for all sub-envs of .*, got none"):
            sekai.VecTimeAwareObservation(scripted(backend, T(9)))


@pytest.mark.parametrize("backend", ["native", "sync"])
@both_modes
def test_a_limit_that_is_raised_later(backend, autoreset):
    venv = scripted(backend, T(1), T(9), max_episode_steps=3, autoreset=autoreset)
    with sekai.VecTimeAwareObservation(venv, normalize_time=True) as vec:
        vec.reset()
        vec.set_attr("max_episode_steps", 5)
        for _ in range(3):
            assert vec.step([0, 0]).observations in vec.batch_observation_space
        expected = "VecTimeAwareObservation: expected at most 3 steps in an episode, .* when it was wrapped, got 4"
        with pytest.raises(sekai.InvalidObservation, match=expected):
            vec.step([0, 0])


class Broken(Toy):
    @property
    def max_episode_steps(self):
        raise RuntimeError("no connection")


@pytest.mark.parametrize(
    "env_fn, error, message",
    [
        (lambda: Broken(T(9)), sekai.VecEnvWorkerError, "no connection"),
        (lambda: Toy(T(9)), ValueError, "expected one limit of steps .*, got none"),
    ],
    ids=["broken", "none"],
)
def test_a_limit_that_a_worker_fails_to_tell(env_fn, error, message):
    with sekai.ProcVecEnv([env_fn]) as vec, pytest.raises(error, match=message):
        sekai.VecTimeAwareObservation(vec)


def test_timesteps_of_each():
    with sekai.VecTimeAwareObservation(scripted("native", T(2), T(5), max_episode_steps=7)) as vec:
        vec.reset()
        for _ in range(3):
            vec.step([0, 0])
        assert vec.timesteps.tolist() == [1, 3]
        with pytest.raises(NotImplementedError, match="expected a sub-env beside the observation"):
            vec.final_observation(np.zeros(1))


WRONG = {
    "stack_size": (lambda v: sekai.VecFrameStackObservation(v, 0), ValueError, "VecFrameStackObservation: stack_size"),
    "padding": (lambda v: sekai.VecFrameStackObservation(v, 2, padding_type="one"), ValueError, "got 'one'"),
    "delay": (
        lambda v: sekai.VecDelayObservation(v, -1),
        ValueError,
        "VecDelayObservation: delay: expected at least 0",
    ),
    "latency": (lambda v: sekai.VecDelayAction(v, 1.5), TypeError, "VecDelayAction: delay: expected an integer"),
    "initial": (lambda v: sekai.VecDelayAction(v, 1, initial_action=9), ValueError, "expected an initial_action in"),
    "sticky": (lambda v: sekai.VecStickyAction(v, 1.0), ValueError, "VecStickyAction: expected a repeat_action_prob"),
    "rewards": (sekai.VecClipReward, ValueError, "VecClipReward: expected a min_reward or a max_reward, got neither"),
    "rewards of another number": (
        lambda v: sekai.VecClipReward(v, np.zeros(3)),
        ValueError,
        r"VecClipReward: min_reward: expected a number, or an array of shape \(1,\) \(num_envs\), got shape \(3,\)",
    ),
    "rescale": (lambda v: sekai.VecRescaleObservation(v, 0, 1), ValueError, "expected new bounds that are infinite"),
    "filter": (lambda v: sekai.VecFilterObservation(v, ["a"]), TypeError, "VecFilterObservation: expected an obs"),
}


@pytest.mark.parametrize("wrap, error, message", WRONG.values(), ids=WRONG)
def test_arguments_are_refused(wrap, error, message):
    with pytest.raises(error, match=message):
        wrap(scripted("native", T(1)))


@both_modes
def test_rewards_have_bounds_of_their_own(autoreset):
    scripts = [script(PLANE, length, seed) for seed, length in enumerate((2, 9, 3))]
    envs = fns(*scripts, obs=PLANE, r0=first_of(PLANE))
    bounds = [(-1.0, 0.5), (0.25, 0.25), (-2.0, 1.0)]
    low, high = (np.array(each, np.float32) for each in zip(*bounds, strict=True))
    expected = SyncVecEnv(
        [lambda env=env, pair=pair: sekai.ClipReward(env(), *pair) for env, pair in zip(envs, bounds, strict=True)],
        autoreset=autoreset,
    )
    vec, other, above = (
        sekai.VecClipReward(SyncVecEnv(envs, autoreset=autoreset), *pair)
        for pair in ((low, high), (low, high), (None, list(high)))
    )
    low[:] = 9  # which is the caller's
    with vec, other, expected, above:
        for each in (vec, expected, above):
            each.reset()
        kept = vec.snapshot()
        for _ in range(7):
            got = expected.step([0, 0, 0]).rewards
            assert vec.step([0, 0, 0]).rewards.tolist() == got.tolist()
            assert (above.step([0, 0, 0]).rewards <= np.maximum(high, 0)).all()
        other.restore(kept)
        assert other.min_reward.tolist() == [-1.0, 0.25, -2.0] and above.min_reward is None


def test_sequences_cannot_be_stacked_or_flattened():
    space = sekai.Sequence(Box(0, 1, (2,)))
    with pytest.raises(ValueError, match="no vector of fixed length fits it"):
        sekai.VecFlattenObservation(scripted("sync", T(1), obs=space))
    with pytest.raises(TypeError, match="VecFrameStackObservation: expected observations of a fixed layout"):
        sekai.VecFrameStackObservation(scripted("sync", T(1), obs=space), 2)


def test_sequences_can_come_late():
    space = sekai.Sequence(Discrete(9))
    script_of_3 = [((k,) * k, 0.0, k == 3, False, {}) for k in (1, 2, 3)]
    with sekai.VecDelayObservation(scripted("sync", script_of_3, obs=space, r0=()), 1) as vec:
        shown = [vec.reset().observations, *(vec.step([0]).observations for _ in range(4))]
        assert shown == [[()], [()], [(1,)], [()], [()]]
