"""What the wrappers around a batch of quoting markets add to its step."""

from __future__ import annotations

import numpy as np
import pytest
from rounds import take_turns

import sekai
from sims.market_making import MarketMakingVecEnv

pytestmark = pytest.mark.bench

MANY = 16_384


def stepped(wrap, num_envs=MANY, n_steps=200):
    """A step of a wrapped batch, whose result is dropped before the next, and its observations."""
    vec = wrap(MarketMakingVecEnv(num_envs, n_steps=n_steps))
    vec.reset(seed=0)
    actions = np.full((num_envs, 2), 0.6, dtype=np.float32)
    return (lambda: vec.step(actions)), vec.step(actions).observations


@pytest.mark.parametrize("stack_size", [4, 16])
def test_stacking_against_one_copy_of_the_stack(stack_size, report):
    # Without ends, where a function of observations is called for each sub-env by itself.
    wrapped, observations = stepped(lambda vec: sekai.VecTransformObservation(vec, lambda obs: obs), n_steps=10**6)
    stacking, stacks = stepped(lambda vec: sekai.VecFrameStackObservation(vec, stack_size), n_steps=10**6)
    assert stacks.shape == (MANY, stack_size, *observations.shape[1:])
    target = np.zeros_like(stacks)

    def with_a_copy():
        wrapped()
        np.copyto(target, stacks)

    times = take_turns({"stacked": stacking, "any wrapper, and np.copyto": with_a_copy}, rounds=31)
    what = f"a step of {MANY:,} quoting markets, in stacks of {stack_size}, {stacks.nbytes / 1e6:.1f} MB"
    report(what, times, "stacked", "any wrapper, and np.copyto", "1")


@pytest.mark.parametrize("n, shape, dtype", [(8192, 10, "float32"), (8192, 64, "float32"), (128, (84, 84), "uint8")])
@pytest.mark.parametrize("stack_size", [4, 16])
def test_stacking_by_itself(stack_size, n, shape, dtype, report):
    from sekai.batching.buffers import Buffers
    from sekai.batching.frames import FrameRows

    new, buffers = np.full((n, *np.atleast_1d(shape)), 7, dtype), Buffers()
    frames = FrameRows(n, stack_size, new.shape[1:], new.dtype)
    stacks = frames.push(new, buffers).copy()
    target = np.zeros_like(stacks)
    times = take_turns({"push": lambda: frames.push(new, buffers), "copy": lambda: np.copyto(target, stacks)})
    what = f"{n:,} stacks of {stack_size} of {shape} {dtype}, {stacks.nbytes / 1e6:.1f} MB"
    report(what, times, "push", "copy", f"{1 + 1 / stack_size:.2f}, with the new frames")


def bounded(vec):
    """The same, said to be between bounds."""
    space = sekai.Box(-1e6, 1e6, vec.observation_space.shape, vec.observation_space.dtype)
    return sekai.VecTransformObservation(vec, lambda obs: obs, space)


def acting(vec):
    """The same, said to take actions between bounds."""
    vec.action_space = sekai.Box(0.0, np.float32([1, 2]), (2,), np.float32)
    return vec


WRAPPERS = {
    "VecClipReward": lambda vec: sekai.VecClipReward(vec, -1, 1),
    "VecTransformObservation": lambda vec: sekai.VecTransformObservation(vec, lambda obs: obs),
    "VecRescaleObservation": lambda vec: sekai.VecRescaleObservation(bounded(vec), -1, [1, 2]),
    "VecDtypeObservation": lambda vec: sekai.VecDtypeObservation(vec, np.float64),
    "VecFlattenObservation": sekai.VecFlattenObservation,
    "VecClipAction": lambda vec: sekai.VecClipAction(acting(vec)),
    "VecRescaleAction": lambda vec: sekai.VecRescaleAction(acting(vec), -1, 1),
    "VecTimeAwareObservation": sekai.VecTimeAwareObservation,
    "VecDelayObservation": lambda vec: sekai.VecDelayObservation(vec, 2),
    "VecDelayAction": lambda vec: sekai.VecDelayAction(vec, 2),
    "VecStickyAction": lambda vec: sekai.VecStickyAction(vec, 0.25),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_against_the_bare_step(name, report):
    bare, _ = stepped(lambda vec: vec)
    wrapped, _ = stepped(WRAPPERS[name])
    times = take_turns({name: wrapped, "bare": bare})
    report(f"{MANY:,} quoting markets, a step", times, name, "bare")
