"""What a wrapper was built with, as its attributes: another value holds from then on, or is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from script_env import LINE, ScriptEnv, ends_after

import sekai
from sekai.spaces import Box, Dict

NAMED = Dict(a=LINE, b=Box(0, 9, (2,), np.int64))


def one(space=LINE, first=(0.0,)):
    return sekai.TimeLimit(ScriptEnv(ends_after(99), space, first=first), 50)


def many(space=LINE):
    return sekai.SyncVecEnv([lambda: one(space)] * 2)


#: By name: the class's arguments behind the env, the attribute, its value, another one.
FIXED = {
    "FrameStackObservation.stack_size": ((2,), 2, 4),
    "FrameStackObservation.padding_type": ((2,), "reset", "zero"),
    "DelayObservation.delay": ((3,), 3, 1),
    "DelayAction.delay": ((3,), 3, 1),
    "DelayAction.initial_action": ((3,), 0, 1),
    "TimeAwareObservation.max_timesteps": ((), 50, 60),
    "TimeAwareObservation.flatten": ((), True, False),
    "TimeAwareObservation.normalize_time": ((True, True), True, False),
    "DtypeObservation.dtype": ((np.float32,), np.dtype(np.float32), np.dtype(np.float64)),
    "FilterObservation.filter_keys": ((["b"],), ("b",), ("a",)),
}
each_fixed = pytest.mark.parametrize(
    "kind, name, args, value, other", [(*key.split("."), *each) for key, each in FIXED.items()], ids=FIXED
)


def space_for(kind):
    return NAMED if kind == "FilterObservation" else LINE


@each_fixed
def test_what_other_things_were_made_of_stays(kind, name, args, value, other):
    space = space_for(kind)
    wrapped = getattr(sekai, kind)(one(space), *args)
    expected = rf"{kind}\.{name}: expected it to stay .*, as it was built, got .*; build another one"
    for change in (lambda: wrapped.set_attr(name, other), lambda: setattr(wrapped, name, other)):
        with pytest.raises(AttributeError, match=expected):
            change()
    with pytest.raises(AttributeError, match=rf"Vec{expected}"):
        setattr(getattr(sekai, f"Vec{kind}")(many(space), *args), name, other)
    for each in (wrapped, copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        assert getattr(each, name) == each.get_attr(name) == value
        with pytest.raises(AttributeError, match=expected):
            setattr(each, name, other)


@each_fixed
def test_a_batch_of_many_tells_the_same(kind, name, args, value, other):
    vec = getattr(sekai, f"Vec{kind}")(many(space_for(kind)), *args)
    assert getattr(vec, name) == value


class Named(sekai.FrameStackObservation):
    """Keeps what it is built with before its base does, and after."""

    def __init__(self, env, stack_size):
        self.stack_size = stack_size
        super().__init__(env, stack_size)
        self.stack_size = stack_size


class Bounded(sekai.ClipReward):
    def __init__(self, env, most):
        self.max_reward = most
        super().__init__(env, -most, most)


def test_a_subclass_may_say_it_again():
    env = Named(one(), 3)
    assert env.stack_size == 3 and env.reset().observation.shape == (3, 1)
    env.set_attr("stack_size", 3)
    clipped = Bounded(one(), 0.5)
    clipped.reset()
    assert clipped.step(0).reward == 0.5


def test_no_backend_changes_what_stays():
    env_fns = [lambda: sekai.DelayObservation(one(), 3)] * 2
    for vec in (sekai.SyncVecEnv(env_fns), sekai.AsyncVecEnv(env_fns)):
        with vec, pytest.raises(AttributeError, match=r"DelayObservation\.delay: expected it to stay 3"):
            vec.set_attr("delay", 1)
    with sekai.ProcVecEnv(env_fns) as vec:
        with pytest.raises(sekai.VecEnvWorkerError, match=r"DelayObservation\.delay: expected it to stay 3"):
            vec.set_attr("delay", 1)
        assert vec.get_attr("delay") == [3, 3]


def test_a_snapshot_of_another_delay_is_restored_whole():
    late, later = sekai.DelayObservation(one(), 1), sekai.DelayObservation(one(), 2)
    late.reset(), later.reset()
    later.step(0)
    late.restore(later.snapshot())
    assert late.delay == 2
    assert [late.step(0).observation.tolist() for _ in range(3)] == [[0.0], [1.0], [2.0]]


# -- what may be changed -----------------------------------------------------------------------------------


def test_another_number_of_repeats():
    env = sekai.RepeatAction(one(), 3)
    env.reset()
    assert env.step(0).observation.tolist() == [3.0]
    env.set_attr("num_repeats", 2)
    assert env.step(0).observation.tolist() == [5.0]
    for wrong, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="RepeatAction: num_repeats"):
            env.set_attr("num_repeats", wrong)
    assert env.num_repeats == 2


def test_a_bound_of_each_sub_env_stays_with_it():
    vec = sekai.VecClipReward(many(), [-1, -2], [0.25, 0.5])
    vec.reset()
    with pytest.raises(ValueError, match="read-only"):
        vec.min_reward[0] = 5.0
    vec.restore(vec.snapshot([1]), [0])
    assert vec.max_reward.tolist() == [0.25, 0.5]
    assert vec.step([0, 0]).rewards.tolist() == [0.25, 0.5]
    other = sekai.VecClipReward(many(), [-1, -2], [0.25, 0.75])
    with pytest.raises(ValueError, match="max_reward"):
        other.restore(vec.snapshot())


def test_other_bounds_of_rewards():
    env, vec = sekai.ClipReward(one(), -1, 0.5), sekai.VecClipReward(many(), -1, 0.5)
    for each in (env, vec):
        each.reset()
        each.max_reward = 0.75
    assert env.step(0).reward == 0.75 and vec.step([0, 0]).rewards.tolist() == [0.75, 0.75]
    for each in (env, vec):
        with pytest.raises(ValueError, match="ClipReward: expected min_reward <= max_reward, got 2.0 and 0.75"):
            each.min_reward = 2
        with pytest.raises(ValueError, match="ClipReward: expected min_reward <= max_reward, got -1.0 and nan"):
            each.max_reward = np.nan
        each.max_reward = None
        with pytest.raises(ValueError, match="ClipReward: expected a min_reward or a max_reward, got neither"):
            each.min_reward = None
        assert (each.min_reward, each.max_reward) == (-1.0, None)


def test_other_chances_of_sticking():
    env, vec = sekai.StickyAction(one(), 0.0), sekai.VecStickyAction(many(), 0.0)
    for each in (env, vec):
        each.repeat_action_probability = 0.5
        each.repeat_action_duration_range = 3
        assert (each.repeat_action_probability, each.repeat_action_duration_range) == (0.5, (3, 3))
        with pytest.raises(ValueError, match="StickyAction: expected a repeat_action_probability of at least 0"):
            each.repeat_action_probability = 30
        with pytest.raises(ValueError, match=r"StickyAction: expected a repeat_action_duration \(least, most\)"):
            each.repeat_action_duration_range = (4, 2)
    env.reset(seed=1)
    acted = []
    for k in range(40):
        env.step(k % 2)
        acted.append(env.unwrapped.last_action)
    assert acted != [k % 2 for k in range(40)]
