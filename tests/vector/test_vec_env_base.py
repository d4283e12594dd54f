"""A VecEnv written from scratch: what it gets from the base class."""

import asyncio

import numpy as np
import pytest

from sekai import (
    Box,
    Discrete,
    VecEnv,
    VecEnvClosed,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecResetResult,
    VecStepResult,
)


class Counter(VecEnv):
    """Counts to three in every sub-env, and starts again by itself."""

    metadata = {"name": "counter"}

    def __init__(self, num_envs=3):
        self.num_envs = num_envs
        self.observation_space, self.action_space = Box(0, 3, (1,), np.float64), Discrete(2)
        self.count = np.zeros(num_envs)

    def step(self, actions):
        self.count += 1
        done = self.count == 3
        infos = [{"final_observation": np.array([3.0]), "final_info": {}, "reset_info": {}} if d else {} for d in done]
        self.count[done] = 0
        return VecStepResult(self.count[:, None].copy(), np.ones(self.num_envs), done, np.zeros_like(done), infos)

    def reset(self, *, seed=None, options=None):
        self.count[:] = 0
        return VecResetResult(self.count[:, None].copy(), [{} for _ in range(self.num_envs)])

    def close(self):
        self._closed = True

    def doubled(self, plus=0):
        return 2 * self.count + plus


def test_the_three_abstract_methods_are_enough():
    vec = Counter()
    assert vec.batch_observation_space == Box(0, 3, (3, 1), np.float64)
    assert vec.batch_action_space.sample().shape == (3,)
    assert vec.autoreset and not vec.frozen.any() and vec.frozen.shape == (3,)
    assert vec.unwrapped is vec and vec.spec is None and not vec.closed
    assert repr(vec) == "<Counter num_envs=3>"
    assert vec.metadata == {"name": "counter"}
    with vec:
        vec.reset()
    assert vec.closed


def test_async_methods_run_the_sync_ones():
    vec = Counter()

    async def play():
        first = await vec.async_reset(seed=1)
        return first, await vec.async_step([0, 0, 0])

    first, second = asyncio.run(play())
    assert first.observations.tolist() == [[0.0]] * 3 and second.observations.tolist() == [[1.0]] * 3


def test_attributes_are_its_own():
    vec = Counter()
    vec.reset()
    vec.step([0, 0, 0])
    assert vec.get_attr("count") == [1.0, 1.0, 1.0]
    assert vec.call("doubled", plus=1) == [3.0, 3.0, 3.0]
    vec.set_attr("count", [0, 1, 2])
    assert vec.step([0, 0, 0]).terminated.tolist() == [False, False, True]
    with pytest.raises(AttributeError, match="nope"):
        vec.set_attr("nope", 1)
    vec.close()
    with pytest.raises(VecEnvClosed):
        vec.get_attr("count")


def test_wrappers_go_around_it():
    vec = VecNormalizeReward(VecRecordEpisodeStatistics(Counter()), gamma=1.0)
    vec.reset()
    for _ in range(3):
        result = vec.step([0, 0, 0])
    assert [info["episode"].episode_return for info in result.infos] == [3.0, 3.0, 3.0]
    assert vec.returns.tolist() == [0.0, 0.0, 0.0]
    assert [s.episode_length for s in vec.tracker.episodes] == [3, 3, 3]


def test_the_batch_space_follows_the_space():
    vec = Counter()
    before = vec.batch_action_space
    assert vec.batch_action_space is before
    vec.action_space = Discrete(5)
    assert vec.batch_action_space is not before and vec.batch_action_space.nvec.tolist() == [5, 5, 5]
