"""CartPole as a market of rows is gymnasium's CartPole, step for step."""

import gymnasium
import numpy as np
import pytest
from bench.cart_pole import CartPoleVecEnv, State

import sekai


def start_of(state):
    return dict(zip(State._fields, map(float, state), strict=True))


def columns_of(vec):
    return np.array([getattr(vec, name)[0] for name in State._fields])


@pytest.fixture(scope="module")
def theirs():
    return gymnasium.make("CartPole-v1").unwrapped


def test_an_episode_is_the_same_to_its_end(theirs):
    rng, vec = np.random.default_rng(0), CartPoleVecEnv(1, autoreset=False)
    for episode in range(40):
        theirs.reset(seed=episode)
        vec.reset(options=start_of(theirs.state))
        for _ in range(500):
            action = int(rng.integers(2))
            observation, reward, terminated, *_ = theirs.step(action)
            result = vec.step(np.array([action]))
            assert result.observations.dtype == np.float32 and result.observations[0].tolist() == observation.tolist()
            assert (result.rewards[0], result.terminated[0], result.truncated[0]) == (reward, terminated, False)
            assert np.abs(columns_of(vec) - theirs.state).max() <= 1e-12
            if terminated:
                break
        assert terminated


def test_a_long_run_is_the_same_from_start_to_start(theirs):
    vec, steps = CartPoleVecEnv(1, autoreset=False), 0
    theirs.reset(seed=3)
    for _ in range(20):
        vec.reset(options=start_of(theirs.state))
        for _ in range(50):
            # Lean against the fall: such an episode does not end by itself.
            action = int(theirs.state[2] + theirs.state[3] + 0.1 * theirs.state[0] + 0.2 * theirs.state[1] > 0.0)
            observation, *_ = theirs.step(action)
            assert vec.step(np.array([action])).observations[0].tolist() == observation.tolist()
            assert np.abs(columns_of(vec) - theirs.state).max() <= 1e-12
            steps += 1
            assert not vec.frozen[0]
    assert steps == 1000


def test_a_start_is_drawn_as_there():
    starts = CartPoleVecEnv(20_000).reset(seed=0).observations
    assert (np.abs(starts) <= 0.05).all()
    sd = 0.1 / 12**0.5
    assert (np.abs(starts.mean(axis=0)) < 5 * sd / 20_000**0.5).all()
    assert np.allclose(starts.std(axis=0), sd, rtol=0.02)
    assert np.abs(np.corrcoef(starts.T) - np.eye(4)).max() < 5 / 20_000**0.5


def test_spaces_are_the_same(theirs):
    assert np.array_equal(CartPoleVecEnv.observation_space.high, theirs.observation_space.high)
    assert np.array_equal(CartPoleVecEnv.observation_space.low, theirs.observation_space.low)
    assert CartPoleVecEnv.action_space.n == theirs.action_space.n


def test_it_has_no_faults():
    assert sekai.check_vec_env(CartPoleVecEnv) == []
