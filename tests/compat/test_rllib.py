"""RLlib on a native market: it trains, and loses no transition; in an environment of its own (see `.ci/run`)."""

import numpy as np
import pytest
from compat.ray_cluster import ray_started

pytest.importorskip("tree", reason="RLlib is not installed")

from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402

from sekai.compat.gymnasium import register_with_gymnasium  # noqa: E402

pytestmark = pytest.mark.filterwarnings(r"ignore:::ray\.")

LENGTH, NUM_ENVS = 20, 8


@pytest.fixture(scope="module")
def algorithm():
    with ray_started():
        config = (
            PPOConfig()
            .environment(register_with_gymnasium("MarketMaking-v0"), env_config={"n_steps": LENGTH})
            .env_runners(
                num_env_runners=0,
                num_envs_per_env_runner=NUM_ENVS,
                gym_env_vectorize_mode="vector_entry_point",  # the native one; next-step autoreset, as RLlib needs
            )
            .training(train_batch_size=400, minibatch_size=200, num_epochs=1)
            .debugging(seed=0)
        )
        algorithm = config.build_algo()
        yield algorithm
        algorithm.stop()


def test_e1_episodes_are_whole(algorithm):
    episodes = algorithm.env_runner.sample(num_episodes=3 * NUM_ENVS, random_actions=True)
    assert [len(episode) for episode in episodes if episode.is_done] == [LENGTH] * 3 * NUM_ENVS
    for episode in episodes:
        assert len(episode.get_observations()) == LENGTH + 1
        times = episode.get_observations()[:, -1]
        assert np.allclose(np.diff(times), times[1] - times[0]), times  # each step of the market once


def test_ppo_trains_on_a_native_market(algorithm):
    native = algorithm.env_runner.env.unwrapped.vec
    assert native.num_envs == NUM_ENVS and type(native).__name__ == "MarketMakingVecEnv"
    before = algorithm.get_weights()["default_policy"]
    for _ in range(2):
        result = algorithm.train()
    after = algorithm.get_weights()["default_policy"]
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    assert all(np.isfinite(weights).all() for weights in after.values())
    assert np.isfinite(result["env_runners"]["episode_return_mean"])
