from __future__ import annotations

import json

import numpy as np
import pytest
from script_env import LINE, ScriptEnv, ends_after

from sekai.spaces import Box, Dict, Discrete, MaskedBox, Sequence, Tuple
from sekai.stats import ExponentialMovingStats
from sekai.wrappers import AutoReset, NormalizeObservation, NormalizeReward, TimeLimit


def script_of(*values, reward=0.0):
    return [([value], reward, False, False, {}) for value in values]


# -- observations ------------------------------------------------------------------------------------------


def test_observations_are_normalised_by_what_was_seen(drive):
    env = NormalizeObservation(ScriptEnv(script_of(4.0, 8.0)), epsilon=0.0)
    assert drive.reset(env).observation == pytest.approx([0.0])
    assert drive.step(env).observation == pytest.approx([1.0], rel=1e-3)
    values = np.array([0.0, 4.0, 8.0])
    assert drive.step(env).observation == pytest.approx([4.0 / values.std()], rel=1e-3)
    assert env.obs_rms.count == pytest.approx(3.0, abs=1e-3)
    assert env.obs_rms.mean == pytest.approx([4.0], rel=1e-3)


def test_a_large_offset_does_not_drown_the_variance(drive):
    """Case 8.4: float32 observations 1e6 + {0, 1, 2}."""
    space = Box(-np.inf, np.inf, (1,))
    values = [np.float32([1e6 + k]) for k in range(3)]
    inner = ScriptEnv([(v, 0.0, False, False, {}) for v in values[1:]], space, first=values[0])
    env = NormalizeObservation(inner)
    drive.reset(env)
    drive.step(env)
    assert drive.step(env).observation == pytest.approx([1.2247], abs=1e-3)
    env.update_running_mean = False
    assert drive.reset(env).observation == pytest.approx([-1.2247], abs=1e-3)
    assert drive.step(env).observation == pytest.approx([0.0], abs=1e-3)


def test_final_observations_are_normalised_but_not_counted(drive):
    """Case 8.1: known mean 2 and variance 4, final observation [6.]."""
    env = NormalizeObservation(AutoReset(ScriptEnv(script_of(2.0) + [([6.0], 0.0, True, False, {})])))
    env.update_running_mean = False
    env.obs_rms.mean, env.obs_rms.var = np.array([2.0]), np.array([4.0])
    drive.reset(env)
    drive.step(env)
    result = drive.step(env)
    assert result.info["final_observation"] == pytest.approx([2.0])
    assert result.observation == pytest.approx([-1.0])
    assert env.obs_rms.mean == [2.0]

    env.update_running_mean = True
    count = env.obs_rms.count
    for k in range(1, 5):
        drive.step(env)
        assert env.obs_rms.count == pytest.approx(count + k)


def test_reset_observations_count(drive):
    env = NormalizeObservation(ScriptEnv(ends_after(1)))
    drive.reset(env)
    drive.reset(env)
    assert env.obs_rms.count == pytest.approx(2.0, abs=1e-3)


def test_freezing_the_statistics(drive):
    env = NormalizeObservation(ScriptEnv(script_of(4.0)))
    drive.reset(env)
    before = env.state_dict()
    env.update_running_mean = False
    drive.step(env)
    drive.reset(env)
    assert env.state_dict() == before


@pytest.mark.parametrize("stats", ["running", "ewm"])
def test_nested_observations(drive, stats):
    space = Dict(
        {
            "x": Box(0.0, 9.0, (2,)),
            "t": Tuple((Discrete(3), Box(0, 9, (), np.int64))),
            "m": MaskedBox(0.0, 9.0, (1,), max_size=2, fill_value=5.0),
            "s": Sequence(Box(0.0, 1.0, (1,)), max_length=3),
        }
    )
    space.seed(0)
    samples = [space.sample() for _ in range(6)]
    inner = ScriptEnv([(sample, 0.0, False, False, {}) for sample in samples], space, first=samples[0])
    env = NormalizeObservation(inner, stats=stats, clip=3.0)
    observations = [drive.reset(env).observation] + [drive.step(env).observation for _ in samples]
    for observation in observations:
        assert env.observation_space.contains(observation)
        assert np.abs(observation["x"]).max() <= 3.0
    for observation, sample in zip(observations[1:], samples, strict=True):
        assert observation["t"][0] == sample["t"][0] and len(observation["s"]) == len(sample["s"])
        np.testing.assert_array_equal(observation["m"]["mask"], sample["m"]["mask"])
        empty = sample["m"]["mask"] == 0
        assert (observation["m"]["values"][empty] == 5.0).all()
    assert env.obs_rms["t"][0] is None and env.obs_rms["s"] is None


def test_options(drive):
    env = NormalizeObservation(ScriptEnv(script_of(1.0)), stats="ewm", halflife=5.0, clip=0.25)
    assert isinstance(env.obs_rms, ExponentialMovingStats) and env.obs_rms.halflife == 5.0
    assert env.observation_space == Box(-0.25, 0.25, (1,), np.float64)
    drive.reset(env)
    assert drive.step(env).observation == [0.25]
    assert env.unwrapped.observation_space == LINE
    with pytest.raises(ValueError, match="expected 'running' or 'ewm'"):
        NormalizeObservation(ScriptEnv(script_of(1.0)), stats="mean")


def test_the_observation_is_a_new_array(drive):
    shared = np.array([3.0])
    inner = ScriptEnv([(shared, 0.0, False, False, {})], first=shared)
    env = NormalizeObservation(inner)
    drive.reset(env)
    result = drive.step(env)
    result.observation[:] = 99.0
    assert shared == [3.0] and drive.step(env).observation == pytest.approx([0.0])


def test_observation_state_round_trip(drive):
    """Case 8.10: a state is plain data and does not change."""
    env = NormalizeObservation(ScriptEnv(script_of(1.0, 5.0)))
    drive.reset(env)
    state = env.state_dict()
    text = json.dumps(state)
    drive.step(env)
    assert json.dumps(state) == text
    twin = NormalizeObservation(ScriptEnv(script_of(1.0)))
    twin.load_state_dict(json.loads(text))
    assert twin.state_dict() == state
    with pytest.raises(ValueError, match="kind"):
        NormalizeObservation(ScriptEnv(script_of(1.0)), stats="ewm").load_state_dict(state)
    with pytest.raises(ValueError, match="shape"):
        wide = ScriptEnv(script_of(1.0), observation_space=Box(0, 1, (2,)))
        NormalizeObservation(wide).load_state_dict(state)


# -- rewards -----------------------------------------------------------------------------------------------


def test_rewards_are_scaled_by_the_std_of_the_discounted_return(drive):
    env = NormalizeReward(ScriptEnv(script_of(*range(9), reward=2.0)), gamma=0.5, epsilon=0.0)
    drive.reset(env)
    rewards = [drive.step(env).reward for _ in range(4)]
    returns = np.array([2.0, 3.0, 3.5, 3.75])
    assert rewards[1:] == pytest.approx([2.0 / returns[:n].std() for n in (2, 3, 4)], rel=1e-3)
    assert env.return_rms.mean == pytest.approx(returns.mean(), rel=1e-3)
    assert type(rewards[0]) is float


@pytest.mark.parametrize("autoreset", [True, False])
def test_the_return_starts_again_at_truncation_and_reset(drive, autoreset):
    """Case 8.7: gamma 1, reward 1, truncated at 2: the return goes 1, 2, 1, 2."""
    limited = TimeLimit(ScriptEnv(ends_after(9)), 2)
    env = NormalizeReward(AutoReset(limited) if autoreset else limited, gamma=1.0)
    drive.reset(env)
    for k in range(4):
        drive.step(env)
        if k == 1 and not autoreset:
            drive.reset(env)
    assert env.return_rms.count == pytest.approx(4.0, abs=1e-3)
    assert env.return_rms.mean == pytest.approx(1.5, rel=1e-3)
    assert env.return_rms.var == pytest.approx(0.25, rel=1e-3)


def test_a_reset_in_mid_episode_zeroes_the_return_and_keeps_the_statistics(drive):
    env = NormalizeReward(ScriptEnv(ends_after(9)), gamma=1.0)
    drive.reset(env)
    drive.step(env)
    state = env.state_dict()
    drive.reset(env)
    assert env.state_dict() == state
    drive.step(env)
    assert env.return_rms.mean == pytest.approx(1.0) and env.return_rms.var == pytest.approx(0.0, abs=1e-3)


def test_freezing_the_reward_statistics(drive):
    env = NormalizeReward(ScriptEnv(script_of(1.0, reward=6.0)))
    env.return_rms.mean, env.return_rms.var = np.array(0.0), np.array(9.0)
    env.update_running_mean = False
    before = env.state_dict()
    drive.reset(env)
    assert drive.step(env).reward == pytest.approx(2.0)
    assert env.state_dict() == before


def test_reward_state_round_trip(drive):
    env = NormalizeReward(ScriptEnv(ends_after(5)))
    drive.reset(env)
    drive.step(env)
    state = json.loads(json.dumps(env.state_dict()))
    twin = NormalizeReward(ScriptEnv(ends_after(5)))
    twin.load_state_dict(state)
    assert twin.state_dict() == env.state_dict()
    with pytest.raises(ValueError, match="expected the keys"):
        twin.load_state_dict({})


def test_a_gamma_above_1_is_refused():
    with pytest.raises(ValueError, match=r"expected a gamma in \[0, 1\], got 2"):
        NormalizeReward(ScriptEnv(ends_after(1)), gamma=2)
