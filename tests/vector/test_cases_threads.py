"""Case 3.8: random numbers beside parallel kernels. (Apart, so that no worker process imports numba for nothing.)"""

from __future__ import annotations

import numpy as np
import pytest
from backends import assert_same
from toys import BOX1

from sekai import Discrete, NativeVecEnv
from sekai.kernels import get_num_threads, jit_batch, set_num_threads


@jit_batch(block=2, parallel_from=1)
def jump(x, noise):
    for i in range(len(x)):
        x[i] = 0.5 * x[i] + noise[i]


class Jump(NativeVecEnv):
    """A parallel kernel whose noise is drawn from ``self.rng`` beforehand."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, BOX1, Discrete(2), **kwargs)
        self.x = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.x[indices] = self.rng.standard_normal(len(indices))

    def _observe(self):
        return self.x[:, None]

    def _step(self, actions):
        jump(self.x, self.rng.standard_normal(self.num_envs))
        ended = self.x > 1.5
        return self.x, ended, np.zeros(self.num_envs, bool), {"x": self.x}


@pytest.fixture
def with_threads():
    """Run a call with a number of threads; fewer where the machine has not that many."""
    before = get_num_threads()

    def run(n, call, *args, **kwargs):
        set_num_threads(n)
        try:
            return call(*args, **kwargs)
        finally:
            set_num_threads(before)

    return run


def test_3_8_draws_do_not_depend_on_threads_nor_on_other_envs(with_threads):
    actions = np.zeros(64, int)
    with Jump(64) as alone:
        expected = [alone.reset(seed=4), *(alone.step(actions) for _ in range(20))]
    with Jump(64) as one, Jump(64) as two:
        ones, twos = [with_threads(1, one.reset, seed=4)], [with_threads(2, two.reset, seed=4)]
        for k in range(20):
            ones.append(with_threads(1, one.step, actions))
            twos.append(with_threads(2, two.step, actions))
            np.random.seed(k)  # noqa: NPY002 - the global generator is nobody's
            with Jump(3) as third:  # building and stepping another disturbs neither
                third.reset(seed=k)
                third.step(actions[:3])
        assert_same(expected, ones)
        assert_same(expected, twos)
        assert any(result.infos.done.size for result in ones[1:])
