from __future__ import annotations

import numpy as np
import pytest
from script_env import ScriptEnv, ends_after

from sekai.wrappers import AutoReset, TimeLimit


def test_the_info_of_every_step_counts(drive):
    env = TimeLimit(ScriptEnv(ends_after(9)), 3)
    assert "elapsed_steps" not in drive.reset(env).info
    results = [drive.step(env) for _ in range(3)]
    assert [result.info["elapsed_steps"] for result in results] == [1, 2, 3]
    assert [result.truncated for result in results] == [False, False, True]
    assert not any(result.terminated for result in results)
    assert env.elapsed_steps == 3


def test_past_the_limit_it_stays_truncated(drive):
    env = TimeLimit(ScriptEnv(ends_after(9)), 1)
    drive.reset(env)
    results = [drive.step(env) for _ in range(3)]
    assert all(result.truncated for result in results)
    assert results[-1].info["elapsed_steps"] == 3


def test_a_reset_starts_the_count_again(drive):
    env = TimeLimit(ScriptEnv(ends_after(9)), 2)
    drive.reset(env)
    drive.step(env)
    drive.reset(env)
    assert env.elapsed_steps == 0
    assert not drive.step(env).truncated and drive.step(env).truncated


def test_terminated_and_truncated_in_one_step(drive):
    """Case 2.1: neither flag is folded into the other."""
    env = TimeLimit(ScriptEnv(ends_after(3)), 3)
    drive.reset(env)
    result = [drive.step(env) for _ in range(3)][-1]
    assert result.terminated and result.truncated and result.info["elapsed_steps"] == 3


def test_the_envs_own_truncation_stays(drive):
    env = TimeLimit(ScriptEnv([([1.0], 0.0, False, True, {})]), 5)
    drive.reset(env)
    assert drive.step(env).truncated


def test_a_key_of_that_name_is_replaced_in_a_copy(drive):
    info = {"elapsed_steps": "own", "a": 1}
    env = TimeLimit(ScriptEnv([([1.0], 0.0, False, False, info)]), 5)
    drive.reset(env)
    assert drive.step(env).info == {"elapsed_steps": 1, "a": 1}
    assert info == {"elapsed_steps": "own", "a": 1}


def test_the_count_restarts_when_an_env_inside_resets_itself(drive):
    with pytest.warns(UserWarning, match="^TimeLimit around AutoReset: expected AutoReset outermost, got it inside"):
        env = TimeLimit(AutoReset(ScriptEnv(ends_after(2))), 3)
    drive.reset(env)
    results = [drive.step(env) for _ in range(5)]
    assert [result.info["elapsed_steps"] for result in results] == [1, 2, 1, 2, 1]
    assert not any(result.truncated for result in results)


def test_inside_autoreset_the_final_info_has_the_count(drive):
    env = AutoReset(TimeLimit(ScriptEnv(ends_after(9)), 2))
    drive.reset(env)
    results = [drive.step(env) for _ in range(4)]
    assert [result.truncated for result in results] == [False, True, False, True]
    assert results[1].info["final_info"] == {"elapsed_steps": 2} and results[1].info["elapsed_steps"] == 2


@pytest.mark.parametrize("limit", [0, -1, np.int64(-3)])
def test_the_limit_is_at_least_1(limit):
    with pytest.raises(ValueError, match=f"^TimeLimit: max_episode_steps: expected at least 1, got {limit}$"):
        TimeLimit(ScriptEnv(ends_after(1)), limit)


@pytest.mark.parametrize("limit", [1.0, True, np.True_, None, "3"])
def test_the_limit_is_an_integer(limit):
    with pytest.raises(TypeError, match="^TimeLimit: max_episode_steps: expected an integer, got "):
        TimeLimit(ScriptEnv(ends_after(1)), limit)


def test_numpy_integers_are_limits():
    limit = TimeLimit(ScriptEnv(ends_after(1)), np.int64(4)).max_episode_steps
    assert limit == 4 and type(limit) is int


def test_a3_another_limit_holds_from_the_next_step_on_and_is_checked():
    env = TimeLimit(ScriptEnv(ends_after(9)), 5)
    env.reset()
    assert not env.step(0).truncated
    for wrong, error in ((0, ValueError), (1.5, TypeError), (None, TypeError)):
        with pytest.raises(error, match="^TimeLimit: max_episode_steps: expected"):
            env.set_attr("max_episode_steps", wrong)
    env.set_attr("max_episode_steps", 2)
    assert env.max_episode_steps == 2 and env.step(0).truncated
