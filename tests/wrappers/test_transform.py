from __future__ import annotations

import numpy as np
import pytest
from script_env import LINE, ScriptEnv, ends_after

from sekai.errors import InvalidAction
from sekai.spaces import Box, Dict, Discrete, flatten, flatten_space
from sekai.wrappers import (
    AutoReset,
    ClipAction,
    ClipReward,
    FlattenObservation,
    RescaleAction,
    TransformObservation,
    TransformReward,
)


def env_with_actions(space):
    return ScriptEnv(ends_after(99), action_space=space)


# -- observations ------------------------------------------------------------------------------------------


def test_transform_observation(drive):
    func = np.negative
    env = TransformObservation(AutoReset(ScriptEnv(ends_after(2), first=(7.0,))), func)
    assert env.func is func and env.observation_space is LINE
    assert drive.reset(env).observation == [-7.0]
    assert drive.step(env).observation == [-1.0]
    result = drive.step(env)
    assert result.observation == [-7.0] and result.info["final_observation"] == [-2.0]


def test_transform_observation_with_a_new_space():
    space = Box(0.0, 1.0, (2,), np.float64)
    env = TransformObservation(ScriptEnv(ends_after(2)), lambda obs: np.repeat(obs, 2), space)
    assert env.observation_space is space and env.unwrapped.observation_space is LINE
    assert env.reset().observation in space


def test_flatten_observation(drive):
    space = Dict({"x": Box(0.0, 9.0, (2, 2)), "side": Discrete(3)})
    space.seed(0)
    first, last = space.sample(), space.sample()
    env = FlattenObservation(AutoReset(ScriptEnv([(last, 0.0, True, False, {})], space, first=first)))
    assert env.observation_space == flatten_space(space)
    np.testing.assert_array_equal(drive.reset(env).observation, flatten(space, first))
    result = drive.step(env)
    assert result.observation in env.observation_space
    np.testing.assert_array_equal(result.info["final_observation"], flatten(space, last))


# -- rewards -----------------------------------------------------------------------------------------------


def test_transform_reward(drive):
    env = TransformReward(ScriptEnv(ends_after(2, reward=-3.0)), abs)
    assert env.func is abs
    drive.reset(env)
    result = drive.step(env)
    assert result.reward == 3.0 and result.observation == [1.0] and not result.done
    assert drive.step(env).terminated


@pytest.mark.parametrize(
    "bounds, expected",
    [
        ((-1, 2), [-1, 0.5, 2]),
        ((None, 0.25), [-3, 0.25, 0.25]),
        ((0, None), [0, 0.5, 9]),
        ((np.array(-1), np.float32([2])), [-1, 0.5, 2]),
        ((None, [1]), [-3, 0.5, 1]),
    ],
    ids=str,
)
def test_clip_reward(drive, bounds, expected):
    env = ClipReward(ScriptEnv([([0.0], reward, False, False, {}) for reward in (-3.0, 0.5, 9)]), *bounds)
    assert [env.min_reward, env.max_reward] == [bound if bound is None else np.squeeze(bound) for bound in bounds]
    drive.reset(env)
    rewards = [drive.step(env).reward for _ in range(3)]
    assert rewards == expected and all(type(reward) is float for reward in rewards)


@pytest.mark.parametrize(
    "bounds, error, message",
    [
        ((), ValueError, "expected a min_reward or a max_reward, got neither"),
        ((2, 1), ValueError, "expected min_reward <= max_reward, got 2.0 and 1.0"),
        ((np.nan, 1), ValueError, "expected min_reward <= max_reward"),
        ((np.array(2), np.array([1])), ValueError, "expected min_reward <= max_reward, got 2.0 and 1.0"),
        ((np.array(np.nan), None), ValueError, "expected min_reward <= max_reward"),
        ((None, "1"), TypeError, "max_reward: expected a number or None, got '1'"),
        ((True, 1), TypeError, "min_reward: expected a number or None, got True"),
        ((np.array(["1"]), 1), TypeError, "min_reward: expected a number or None, got array"),
        ((np.zeros(2), 1), ValueError, r"min_reward: expected a number, got shape \(2,\)"),
        ((np.zeros((1, 1)), 1), ValueError, r"min_reward: expected a number, got shape \(1, 1\)"),
    ],
    ids=["none", "order", "nan", "order of arrays", "array of nan", "text", "bool", "texts", "several", "matrix"],
)
def test_wrong_bounds_of_rewards(bounds, error, message):
    with pytest.raises(error, match=f"^ClipReward: {message}"):
        ClipReward(ScriptEnv(ends_after(1)), *bounds)


# -- actions -----------------------------------------------------------------------------------------------


def test_clip_action(drive):
    inner_space = Box(np.float32([-1.0, 0.0]), np.float32([1.0, np.inf]))
    env = ClipAction(env_with_actions(inner_space))
    assert env.action_space == Box(-np.inf, np.inf, (2,))
    drive.reset(env)
    action = np.array([-3.0, -4.0])
    drive.step(env, action)
    assert env.unwrapped.last_action.tolist() == [-1.0, 0.0]
    assert env.unwrapped.last_action in inner_space and action.tolist() == [-3.0, -4.0]
    drive.step(env, np.float32([0.5, 7.0]))
    assert env.unwrapped.last_action.tolist() == [0.5, 7.0]


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.int8, -128, 127), (np.uint8, 0, 255), (np.bool_, False, True)])
def test_clip_action_on_integers_takes_the_whole_range(dtype, low, high):
    env = ClipAction(env_with_actions(Box(0, 1, (1,), dtype)))
    assert env.action_space == Box(low, high, (1,), dtype)
    env.reset()
    env.step(np.array([high]))
    assert env.unwrapped.last_action.tolist() == [1] and env.unwrapped.last_action.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rescale_action_is_affine_and_exact_at_both_ends(drive, dtype):
    low, high = np.array([-0.1, 3.0], dtype), np.array([0.7, 3.3], dtype)
    inner_space = Box(low, high, dtype=dtype)
    env = RescaleAction(env_with_actions(inner_space), -1.0, [1.0, 5.0])
    assert env.action_space == Box(np.array([-1, -1], dtype), np.array([1, 5], dtype), dtype=dtype)
    drive.reset(env)
    seen = []
    for action in ([-1.0, -1.0], [1.0, 5.0], [0.0, 2.0]):
        drive.step(env, np.array(action, dtype))
        seen.append(env.unwrapped.last_action)
        assert seen[-1] in inner_space and seen[-1].dtype == dtype
    np.testing.assert_array_equal(seen[0], low)
    np.testing.assert_array_equal(seen[1], high)
    np.testing.assert_allclose(seen[2], [0.3, 3.15], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rescaled_actions_stay_in_the_inner_space(dtype):
    inner_space = Box(np.array([0.1, -1e30, 0.3], dtype), np.array([0.1, 1e30, 0.4], dtype), dtype=dtype)
    env = RescaleAction(env_with_actions(inner_space), -1.0, 1.0)
    env.reset()
    env.action_space.seed(0)
    for _ in range(200):
        env.step(env.action_space.sample())
        assert env.unwrapped.last_action in inner_space


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reverse_action_goes_back(dtype):
    low, high = np.array([-0.1, 3.0, -1e30], dtype), np.array([0.7, 3.0, 1e30], dtype)
    env = RescaleAction(env_with_actions(Box(low, high, dtype=dtype)), -1.0, [1.0, 5.0, 2.0])
    assert env.reverse_action(low).tolist() == [-1.0, -1.0, -1.0]
    assert env.reverse_action(high).tolist() == [1.0, -1.0, 2.0]  # the second leaves no choice
    env.action_space.seed(0)
    for _ in range(50):
        action = env.action_space.sample()
        back = env.reverse_action(env.action(action))
        assert back in env.action_space and back.dtype == dtype
        np.testing.assert_allclose(back[[0, 2]], action[[0, 2]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("action", [[1.5], [-0.1], [0.5, 0.5]], ids=str)
def test_reverse_action_refuses_what_the_env_would_not_take(action):
    env = RescaleAction(env_with_actions(Box(0.0, 1.0, (1,))), -1.0, 1.0)
    with pytest.raises(InvalidAction, match=r"^RescaleAction.reverse_action: expected an action "):
        env.reverse_action(np.float32(action))


@pytest.mark.parametrize("action", [[1.5], [-1.1], [np.inf]])
def test_rescale_action_refuses_actions_outside(drive, action):
    env = RescaleAction(env_with_actions(Box(0.0, 1.0, (1,))), -1.0, 1.0)
    drive.reset(env)
    with pytest.raises(InvalidAction, match=r"RescaleAction: expected an action in Box\(-1.0, 1.0.*got \["):
        drive.step(env, np.float32(action))
    assert env.unwrapped.last_action is None


@pytest.mark.parametrize("wrap", [ClipAction, lambda env: RescaleAction(env, -1.0, 1.0)])
@pytest.mark.parametrize(
    ("action", "got"),
    [
        (np.array([0.5]), r"of shape \(2,\), got shape \(1,\)"),
        (0.5, r"of shape \(2,\), got shape \(\)"),
        (np.zeros((1, 2)), r"of shape \(2,\), got shape \(1, 2\)"),
        (np.zeros((3, 2)), r"of shape \(2,\), got shape \(3, 2\)"),
        (np.zeros(0), r"of shape \(2,\), got shape \(0,\)"),
        ([0.5, [0.5]], r"of shape \(2,\), got "),
        (None, r"of shape \(2,\), got shape \(\)"),
        (["a", "b"], r"of numbers, got \['a', 'b'\]"),
        ([None, 0.5], r"of numbers, got \[None, 0.5\]"),
    ],
)
def test_actions_are_never_broadcast(drive, wrap, action, got):
    env = wrap(env_with_actions(Box(0.0, 1.0, (2,))))
    drive.reset(env)
    with pytest.raises(InvalidAction, match=rf"(Clip|Rescale)Action: expected an action {got}"):
        drive.step(env, action)
    assert env.unwrapped.last_action is None


def test_action_wrappers_take_lists_and_numbers_of_the_right_shape(drive):
    for wrap in (ClipAction, lambda env: RescaleAction(env, 0.0, 1.0)):
        env = wrap(env_with_actions(Box(0.0, 1.0, (2,))))
        drive.reset(env)
        drive.step(env, [0.5, 1])
        assert env.unwrapped.last_action.tolist() == [0.5, 1.0]
        env = wrap(env_with_actions(Box(0.0, 1.0, ())))
        drive.reset(env)
        drive.step(env, 0.5)
        assert env.unwrapped.last_action == 0.5 and env.unwrapped.last_action.shape == ()


def test_clip_action_refuses_nan(drive):
    env = ClipAction(env_with_actions(Box(0, 9, (2,), np.int64)))
    drive.reset(env)
    with pytest.raises(InvalidAction, match="ClipAction: expected an action of numbers, got"):
        drive.step(env, np.array([1.0, np.nan]))


def test_action_wrappers_want_a_suitable_box():
    for wrap in (ClipAction, lambda env: RescaleAction(env, -1, 1)):
        with pytest.raises(TypeError, match=r"expected a Box action space, got Discrete\(2\)"):
            wrap(env_with_actions(Discrete(2)))
    with pytest.raises(TypeError, match="RescaleAction: expected an action space of floats"):
        RescaleAction(env_with_actions(Box(0, 5, (1,), np.int64)), -1, 1)
    with pytest.raises(ValueError, match="RescaleAction: expected a bounded action space"):
        RescaleAction(env_with_actions(Box(0.0, np.inf, (1,))), -1, 1)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1.0, -1.0), (-np.inf, 1.0), (np.nan, 1.0)])
def test_rescale_action_wants_finite_ascending_bounds(low, high):
    with pytest.raises(ValueError, match="RescaleAction: expected finite min_action < max_action"):
        RescaleAction(env_with_actions(Box(0.0, 1.0, (2,))), low, high)


def test_rescale_action_wants_bounds_of_the_actions_shape():
    with pytest.raises(ValueError, match="broadcast"):
        RescaleAction(env_with_actions(Box(0.0, 1.0, (2,))), [0.0, 0.0, 0.0], 1.0)
