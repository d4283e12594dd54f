"""Batches of actions that are clipped, or on another scale, against those of the single wrappers."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from backends import assert_same, both_modes, scripted
from toys import T, Toy, fns

import sekai
from sekai import Box, Discrete, InvalidAction, SyncVecEnv

PLANE = Box(np.float32([-0.1, 3.0]), np.float32([0.7, 3.3]))
BOXES = {
    "plane": PLANE,
    "doubles": Box(np.array([-0.1, -1e300]), np.array([0.7, 1e300]), dtype=np.float64),
    "no choice": Box(np.float32([1, 0]), np.float32([1, 2])),
    "one bound": Box(-1.0, 3.0, (2, 2)),
    "number": Box(-1.0, 3.0, ()),
    "widest": Box(np.finfo(np.float64).min, np.finfo(np.float64).max, (2,), np.float64),
    "nothing": Box(0.0, 1.0, (0,)),
}
WHOLE = {
    "int8": Box(-3, 9, (2,), np.int8),
    "int64": Box(np.int64([-(2**63), 2**62 + 1]), np.int64([2**63 - 1, 2**62 + 3]), dtype=np.int64),
    "uint64": Box(np.uint64([0, 2**63 + 1]), np.uint64([2**64 - 1, 2**63 + 3]), dtype=np.uint64),
    "bool": Box(0, 1, (2,), np.bool_),
}
OPEN = Box(np.float32([-1.0, -np.inf]), np.float32([np.inf, np.inf]))

#: The wrapper of one env and of many.
CLIP = sekai.ClipAction, sekai.VecClipAction
RESCALE = (
    lambda e, low=-1.0, high=2.0: sekai.RescaleAction(e, low, high),
    lambda v, low=-1.0, high=2.0: sekai.VecRescaleAction(v, low, high),
)
CASES = {
    **{f"clip {name}": (space, *CLIP) for name, space in {**BOXES, **WHOLE, "open": OPEN}.items()},
    **{f"rescale {name}": (space, *RESCALE) for name, space in BOXES.items()},
}
each_case = pytest.mark.parametrize(("space", "single", "vector"), CASES.values(), ids=CASES)
each_wrapper = pytest.mark.parametrize(("single", "vector"), [CLIP, RESCALE], ids=["clip", "rescale"])
LENGTHS = 4, 99, 6


def last_actions(vec):
    """What each sub-env of a batch of toys was stepped with."""
    return [np.asarray(action) for action in vec.get_attr("last_action")]


def pair(space, single, vector, autoreset=True):
    """The vector wrapper around toys, and a SyncVecEnv of toys in the single wrapper."""
    scripts = [T(length) for length in LENGTHS]
    vec = SyncVecEnv(fns(*scripts, act=space), autoreset=autoreset)
    envs = fns(*scripts, act=space)
    return vector(vec), SyncVecEnv([lambda env=env: single(env()) for env in envs], autoreset=autoreset)


def given(space, wrapped, count=9):
    """Batches of actions that the wrapper takes: of its space, and where it takes them far outside the one inside."""
    rng = np.random.default_rng(0)
    shape = (3, *space.shape)
    if wrapped.is_bounded() and space.dtype.kind == "f":
        return [np.array([wrapped.sample() for _ in range(3)]).reshape(shape) for _ in range(count)]
    if space.dtype.kind != "f":
        low, high = wrapped.low.flat[0], wrapped.high.flat[0]
        return [rng.integers(low, high, shape, space.dtype, endpoint=True) for _ in range(count)]
    return [rng.normal(size=shape) * 10.0 ** rng.integers(0, 20) for _ in range(count)]


@each_case
@both_modes
def test_a_batch_arrives_as_that_of_each_env_would(space, single, vector, autoreset):
    vec, expected = pair(space, single, vector, autoreset)
    with vec, expected:
        assert vec.action_space == expected.action_space and not vec.has_action_mask
        assert vec.batch_action_space.shape == (3, *space.shape)
        vec.action_space.seed(3)
        expected.reset(), vec.reset()
        for step, actions in enumerate(given(space, vec.action_space)):
            if step == 7:
                assert_same(expected.reset_envs([0]), vec.reset_envs([0]))
            before = actions.copy()
            assert_same(expected.step(actions), vec.step(actions))
            assert_same(last_actions(expected), last_actions(vec))
            assert all(action in space for action in last_actions(vec))
            assert_same(before, actions)


@each_wrapper
def test_native_envs_get_one_array_of_their_dtype(single, vector):
    vec, expected = pair(PLANE, single, vector)
    native = vector(scripted("native", *[T(99)] * 3, act=PLANE))
    with vec, expected, native:
        vec.reset(), native.reset()
        for actions in (*given(PLANE, vec.action_space), [[-1.0, 2.0]] * 3, [(0, 1), (1, 0), (2, 2)]):
            vec.step(actions), asyncio.run(native.async_step(actions))
            assert_same(np.array(last_actions(vec)), native.unwrapped.last_action)


@pytest.mark.parametrize("space", BOXES.values(), ids=BOXES)
def test_rescaled_batches_are_exact_at_both_ends_and_go_back(space):
    with sekai.VecRescaleAction(SyncVecEnv(fns(*[T(9)] * 3, act=space)), -1.0, 2.0) as vec:
        low, high = (np.stack([bound] * 3) for bound in (space.low, space.high))
        ends = np.full_like(low, -1.0), np.full_like(low, 2.0)
        assert_same(low, vec.action(ends[0])), assert_same(high, vec.action(ends[1]))
        assert_same(ends[0], vec.reverse_action(low))
        assert_same(np.where(low == high, ends[0], ends[1]).astype(space.dtype), vec.reverse_action(high))
        single = sekai.RescaleAction(Toy(T(9), act=space), -1.0, 2.0)
        actions = np.stack([space.sample() for _ in range(3)])
        assert_same(np.stack([single.reverse_action(action) for action in actions]), vec.reverse_action(actions))
        np.testing.assert_allclose(vec.action(vec.reverse_action(actions)), actions, rtol=1e-4, atol=1e-5)


def test_batches_of_thousands_are_those_of_each_row():
    n, space = 20_000, Box(np.float32([0, -1, 2]), np.float32([1, 5, 9]))
    actions = np.random.default_rng(0).uniform(-1, 2, (n, 3)).astype(np.float32)
    with scripted("native", *[T(2)] * n, act=space) as vec:
        clip, rescale = sekai.VecClipAction(vec), sekai.VecRescaleAction(vec, -1, [2, 3, 4])
        assert_same(np.clip(actions, space.low, space.high), clip.action(actions))
        share = (actions.astype(np.float64) + 1) / [3, 4, 5]
        np.testing.assert_allclose(rescale.action(actions), space.low + share * (space.high - space.low), rtol=1e-6)
        np.testing.assert_allclose(rescale.reverse_action(rescale.action(actions)), actions, rtol=1e-5, atol=1e-5)
        one = rescale.action(actions)
        other = rescale.action(actions[::-1])
        assert_same(one[::-1], other)  # neither has been written to by the other
        actions[19_999, 2] = 4.5
        with pytest.raises(
            InvalidAction, match=r"^VecRescaleAction: step\(actions\), sub-env 19999: .* got \[.* 4\.5 *\]"
        ):
            rescale.action(actions)


WRONG = {
    "shape": (
        np.zeros((3, 1)),
        r"VecClipAction: step\(actions\): expected actions of shape \(3, 2\), got shape \(3, 1\)",
    ),
    "number": (np.zeros((2, 2)), r"expected actions of shape \(3, 2\), got shape \(2, 2\)"),
    "one": (np.zeros(2), r"expected actions of shape \(3, 2\), got shape \(2,\)"),
    "ragged": ([[0.0, 0.0], [0.0], [0.0]], r"expected actions of shape \(3, 2\), got "),
    "text": ([["a", "b"]] * 3, r"expected actions of numbers, got"),
    "hidden": (np.ma.masked_greater(np.arange(6.0).reshape(3, 2), 4), r"expected actions of numbers, got"),
    "nan": (np.float32([[0, 0], [0, np.nan], [0, 0]]), r"step\(actions\), sub-env 1: expected an action"),
}


@each_wrapper
@pytest.mark.parametrize(("actions", "message"), WRONG.values(), ids=WRONG)
def test_wrong_batches_are_refused_before_anything_is_stepped(single, vector, actions, message):
    vec, expected = pair(PLANE, single, vector)
    with vec, expected:
        vec.reset()
        name = type(vec).__name__
        with pytest.raises(InvalidAction, match=message.replace("VecClipAction", name)):
            vec.step(actions)
        assert vec.get_attr("n_step") == [0, 0, 0]


def test_what_lies_outside_is_refused_by_the_sub_env_that_it_is_of():
    with sekai.VecRescaleAction(SyncVecEnv(fns(*[T(9)] * 3, act=PLANE)), -1.0, 1.0) as vec:
        vec.reset()
        with pytest.raises(
            InvalidAction, match=r"^VecRescaleAction: step\(actions\), sub-env 2: expected an action in "
        ):
            vec.step([[0, 0], [1, 1], [0, 1.5]])
        with pytest.raises(InvalidAction, match=r"^VecRescaleAction.reverse_action, sub-env 0: expected an action in "):
            vec.reverse_action(np.zeros((3, 2)))
        assert vec.get_attr("n_step") == [0, 0, 0]


@each_wrapper
def test_the_actions_of_frozen_sub_envs_may_be_anything(single, vector):
    vec, other = (vector(SyncVecEnv(fns(T(1), T(9), act=PLANE), autoreset=False)) for _ in range(2))
    with vec, other:
        vec.reset(), other.reset()
        for junk in (0.5, np.nan, 1e9):
            assert_same(other.step([[0.5, 0.5], [1, 1]]), vec.step([[junk, junk], [1, 1]]))
        assert_same(last_actions(other), last_actions(vec))


def test_only_boxes_have_bounds():
    vec = SyncVecEnv(fns(T(1), act=Discrete(2)))
    with vec:
        for wrap in (sekai.VecClipAction, lambda v: sekai.VecRescaleAction(v, -1, 1)):
            with pytest.raises(TypeError, match=r"^Vec(Clip|Rescale)Action: expected a Box action space, got Discrete"):
                wrap(vec)
    for space, bounds, message in (
        (Box(0, 5, (1,), np.int64), (-1, 1), "expected an action space of floats"),
        (OPEN, (-1, 1), "expected a bounded action space"),
        (PLANE, (1, 1), "expected finite min_action < max_action, got 1 and 1"),
    ):
        with SyncVecEnv(fns(T(1), act=space)) as vec, pytest.raises((TypeError, ValueError), match=message):
            sekai.VecRescaleAction(vec, *bounds)


class Resting(Toy):
    def action_mask(self):
        return [0, 1]


def test_masks_are_those_of_the_single_wrappers():
    vec = SyncVecEnv(fns(T(3), T(3), cls=Resting, act=PLANE))
    with vec:
        vec.reset()
        clip = sekai.VecClipAction(vec)
        assert clip.has_action_mask and clip.action_mask().tolist() == [[0, 1], [0, 1]]
        rescale = sekai.VecRescaleAction(vec, -1, 1)
        assert not rescale.has_action_mask
        with pytest.raises(NotImplementedError, match=r"VecRescaleAction.action_mask\(\)"):
            rescale.action_mask()


@each_wrapper
def test_snapshots_go_through(single, vector):
    vec, expected = pair(PLANE, single, vector)
    other, expected_other = pair(PLANE, single, vector)
    with vec, expected, other, expected_other:
        vec.reset()
        first, *following = given(PLANE, vec.action_space)
        vec.step(first)
        other.restore(vec.snapshot())
        for actions in following:
            assert_same(vec.step(actions), other.step(actions))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_of_any_size_are_mapped_to_each_other(dtype):
    """The distance of two bounds may be beyond the largest number."""
    limits = np.finfo(dtype)
    env = sekai.RescaleAction(Toy(T(1), act=Box(-1.0, 3.0, (3,), dtype)), limits.min, limits.max)
    assert env.action(np.array([limits.min, 0, limits.max], dtype)).tolist() == [-1, 1, 3]
    assert env.reverse_action(np.array([-1, 1, 3], dtype)).tolist() == [limits.min, 0, limits.max]


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_clipped_to_integers_is_a_bound_or_what_it_was(name):
    space = WHOLE[name]
    env, vec = sekai.ClipAction(Toy(T(1), act=space)), sekai.VecClipAction(SyncVecEnv(fns(T(1), act=space)))
    for far in (1e300, np.inf, 2.0**64):
        assert env.action(np.array([far, far])).tolist() == space.high.tolist()
        assert env.action(np.array([-far, -far])).tolist() == space.low.tolist()
        assert vec.action([[-far, far]]).tolist() == [[space.low[0], space.high[1]]]
    for dtype, number in ((np.int64, -(2**63)), (np.int64, 2**62 + 2), (np.uint64, 2**63 + 2), (np.uint64, 2**64 - 1)):
        expected = [min(max(number, int(low)), int(high)) for low, high in zip(space.low, space.high, strict=True)]
        assert [int(each) for each in env.action(np.array([number, number], dtype))] == expected
