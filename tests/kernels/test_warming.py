"""warm_up compiles what a market needs."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from toy_market import WalkVec

from sekai.cli import rollout
from sekai.kernels import get_num_threads, jit_batch, set_num_threads, warm_up
from sekai.kernels.threads import always_used, are_measured


def test_it_builds_steps_and_closes(monkeypatch):
    built = []

    def factory(num_envs):
        built.append(WalkVec(num_envs))
        return built[-1]

    before = get_num_threads()
    try:
        set_num_threads(1)
        assert warm_up(factory) > 0.0
        assert [vec.num_envs for vec in built] == [1]
        set_num_threads(2)
        warm_up(factory, num_envs=5)
        assert [vec.num_envs for vec in built] == [1, 1, 5][: len(built)]
    finally:
        set_num_threads(before)
    assert all(vec.closed for vec in built)


@jit_batch
def move(level, actions):
    for i in range(len(level)):
        level[i] += actions[i]


class CompiledWalkVec(WalkVec):
    def _step(self, actions):
        move(self.level, actions)
        return super()._step(np.zeros_like(actions))


def forms():
    return [] if numba.config.DISABLE_JIT else [list(each.signatures) for each in move.dispatchers]


def test_what_it_has_compiled_need_not_be_again():
    before = get_num_threads()
    try:
        set_num_threads(2)
        warm_up(CompiledWalkVec)
        compiled = forms()
        assert numba.config.DISABLE_JIT or list(map(len, compiled)) == [1, int(get_num_threads() > 1)]
        with always_used():
            for num_envs in (1, 8192):
                vec = CompiledWalkVec(num_envs)
                vec.reset(seed=0)
                vec.step(np.ones(num_envs, np.int64))
        assert forms() == compiled
    finally:
        set_num_threads(before)


@pytest.mark.parametrize(("has_kernels", "left_out"), [(False, 1), (True, 2)])
def test_the_speed_of_a_run_leaves_out_the_steps_that_compile(monkeypatch, has_kernels, left_out):
    """The first on several threads where any may be, the second on one; by a clock that only a step moves on."""
    now, measured = [0.0], []

    class Slow(WalkVec):
        def _step(self, actions):
            now[0] += 100.0 if len(measured) < left_out else 0.5
            measured.append(are_measured())
            return super()._step(actions)

    monkeypatch.setattr(rollout, "perf_counter", lambda: now[0])
    ends = dict(seed=0, steps=6, episodes=None, progress=lambda added: None)
    run = rollout.roll_out(Slow(3), lambda observations: np.ones(3, np.int64), **ends, has_kernels=has_kernels)
    assert measured == [not has_kernels] + 5 * [True]
    assert run.env_steps_per_second == 3 / 0.5
    assert run.first_step_seconds == 100.0 * left_out
