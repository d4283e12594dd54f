from __future__ import annotations

import pytest
from script_env import ScriptEnv, ends_after

from sekai.errors import ResetRequired
from sekai.wrappers import OrderEnforcing


def test_a_step_before_the_first_reset_is_refused(drive):
    inner = ScriptEnv(ends_after(2))
    env = OrderEnforcing(inner)
    assert env.has_reset is False
    with pytest.raises(ResetRequired, match=r"<OrderEnforcing<ScriptEnv>>: expected a reset\(\) first"):
        drive.step(env)
    assert inner.k == 0


def test_after_a_reset_steps_pass(drive):
    env = OrderEnforcing(ScriptEnv(ends_after(2)))
    drive.reset(env, seed=1)
    assert env.has_reset is True
    assert drive.step(env).observation == [1.0]
    assert drive.step(env).terminated


def test_a_reset_that_fails_does_not_count(drive):
    env = OrderEnforcing(ScriptEnv(ends_after(2)))
    with pytest.raises(ValueError, match="at least 0"):
        drive.reset(env, seed=-1)
    assert env.has_reset is False
