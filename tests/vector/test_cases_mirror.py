"""Async methods that follow the sync ones, in every backend and wrapper."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from backends import assert_same, both_modes, scripted
from toys import NCount, T, fns

from sekai import (
    AsyncVecEnv,
    SyncVecEnv,
    VecActionWrapper,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecObservationWrapper,
    VecRecordEpisodeStatistics,
    VecRewardWrapper,
    VecStepResult,
    VecWrapper,
)
from sekai.vector import ProcVecEnv


def run(v, n=3):
    async def main():
        return [await v.async_reset(), *[await v.async_step([0] * v.num_envs) for _ in range(n)]]

    return asyncio.run(main())


class StepOnly:
    """Mixin: a step of its own."""

    def step(self, actions):
        self.calls = getattr(self, "calls", 0) + 1
        return super().step(actions)


class ResetOnly:
    def reset(self, **kwargs):
        self.calls = getattr(self, "calls", 0) + 1
        return super().reset(**kwargs)


class Negative(VecRewardWrapper):
    def reward(self, rewards):
        return -rewards


class Plain(VecObservationWrapper):
    def observation(self, obs):
        return obs


class Flip(VecActionWrapper):
    def action(self, actions):
        return 1 - np.asarray(actions)


KINDS = {
    "base": VecWrapper,
    "observation": Plain,
    "reward": Negative,
    "action": Flip,
    "statistics": VecRecordEpisodeStatistics,
    "normalize_observation": VecNormalizeObservation,
    "normalize_reward": VecNormalizeReward,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("backend", ["sync", "native", "proc"])
def test_async_follows_a_wrapper_that_overrides_only_the_sync_method(backend, kind):
    for mixin, expected in ((StepOnly, 3), (ResetOnly, 1)):
        cls = type("Mine", (mixin, kind), {})
        with cls(scripted(backend, T(2), T(3))) as v:
            run(v)
            assert v.calls == expected
    body = type("Mine", (kind,), {"step": lambda self, actions: 5, "reset": lambda self, **kwargs: 6})
    with body(scripted(backend, T(2))) as v:
        assert run(v, 1) == [6, 5]
    grandchild = type("Grand", (body,), {})
    with grandchild(scripted(backend, T(2))) as v:
        assert run(v, 1) == [6, 5]


@pytest.mark.parametrize("base", [SyncVecEnv, AsyncVecEnv, ProcVecEnv, NCount])
def test_async_follows_a_backend_that_overrides_only_the_sync_method(base):
    body = type("Mine", (base,), {"step": lambda self, actions: 5, "reset": lambda self, **kwargs: 6})
    with body([2]) if base is NCount else body(fns(T(2))) as v:
        assert run(v, 1) == [6, 5]


@pytest.mark.parametrize("base", [SyncVecEnv, ProcVecEnv, NCount])
def test_async_runs_an_override_that_calls_the_inherited_method(base):
    mine = type("Mine", (StepOnly, ResetOnly, base), {})
    with mine([2, 3]) if base is NCount else mine(fns(T(2), T(3))) as v:
        results = run(v)
        assert v.calls == 4
        assert results[-1].observations[1].tolist() == [0.0]


def minus(result, fee):
    return VecStepResult(result.observations, result.rewards - fee, result.terminated, result.truncated, result.infos)


def taxed(base):
    """A class on ``base`` that changes rewards through step() alone, and one on it that does so through both."""

    class Fee(base):
        def step(self, actions):
            return minus(super().step(actions), 1)

    class Tax(Fee):
        def step(self, actions):
            return minus(super().step(actions), 10)

        async def async_step(self, actions):
            return minus(await super().async_step(actions), 10)

    return Tax


@pytest.mark.parametrize(
    "kind", [VecWrapper, Negative, Plain, SyncVecEnv, ProcVecEnv, NCount], ids=lambda k: k.__name__
)
def test_a1_every_class_changes_the_rewards_once(kind):
    def build():
        if issubclass(kind, VecWrapper):
            return taxed(kind)(scripted("sync", T(5), T(5)))
        return taxed(kind)([5, 5]) if kind is NCount else taxed(kind)(fns(T(5), T(5)))

    with build() as v:
        v.reset()
        there = v.step([0, 0]).rewards
        assert there.tolist() == [(-1 if kind is Negative else 1) - 11] * 2
        assert run(v, 1)[-1].rewards.tolist() == there.tolist()


@pytest.mark.parametrize("way", ["step", "reset"])
@pytest.mark.parametrize("wrap", ["wrapper", "backend", "below", "above"])
def test_a15_a_sync_override_around_an_async_vec_env_says_who_lacks_what(way, wrap):
    mine = {"step": StepOnly, "reset": ResetOnly}[way]
    kind = type("Mine", (mine, AsyncVecEnv if wrap == "backend" else VecWrapper), {})
    with kind(fns(T(2))) if wrap == "backend" else kind(AsyncVecEnv(fns(T(2)))) as v:
        outer = Plain(v) if wrap == "below" else VecWrapper(Plain(v)) if wrap == "above" else v
        message = rf"Mine\.async_{way}\(\): {mine.__name__} overrides {way}\(\) and not async_{way}\(\)"
        with pytest.raises(RuntimeError, match=message):
            run(outer, 1)
        v.reset()
        assert v.step([0]).observations.tolist() == [[1.0]]  # the sync API is there


def test_async_of_an_async_vec_env_stays_concurrent_inside_wrappers_that_override_both():
    class Both(VecWrapper):
        def step(self, actions):
            raise AssertionError("the sync one")

        async def async_step(self, actions):
            return await self.venv.async_step(actions)

    with VecRecordEpisodeStatistics(Both(AsyncVecEnv(fns(T(2), T(3))))) as v:
        results = run(v, 2)
        assert results[-1].infos[0]["episode"].episode_length == 2


@both_modes
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_sync_and_async_of_a_wrapper_give_the_same(kind, autoreset):
    with (
        kind(AsyncVecEnv(fns(T(1), T(3)), autoreset=autoreset)) as a,
        kind(SyncVecEnv(fns(T(1), T(3)), autoreset=autoreset)) as b,
    ):
        for expected, got in zip([b.reset(), *[b.step([0, 1]) for _ in range(5)]], run_mixed(a), strict=True):
            for result in (expected, got):
                for info in result.infos:
                    info.pop("episode", None)
            assert_same(expected, got)


def run_mixed(v):
    async def main():
        return [await v.async_reset(), *[await v.async_step([0, 1]) for _ in range(5)]]

    return asyncio.run(main())
