"""What the tests of the gymnasium adapters share: a gymnasium env, the markets there are, and equality."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import sekai
import sims

if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:  # where the package is not installed
    sims.register_envs()

#: Every market that is registered.
MARKETS = [spec.id for spec in sekai.all_specs()]

each_market = pytest.mark.parametrize("market", MARKETS)


class Drifting(gymnasium.Env):
    """Observes draws from its own stream and ends at random; its infos have keys of many kinds, not always the same."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, end=0.3, render_mode=None):
        self.end = end
        self.steps = 0
        self.resets = 0
        self.last_options = None
        self.last_action = None
        self.closed = 0

    def observe(self):
        return self.np_random.normal(size=2).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.resets += 1
        self.last_options = options
        return self.observe(), {"start": float(self.np_random.random()), "both": 0.0}

    def step(self, action):
        self.steps += 1
        self.last_action = action
        terminated, truncated = bool(self.np_random.random() < self.end), self.steps >= 5
        info = {"steps": self.steps, "both": float(self.steps), "name": "drift", "nested": {"half": self.steps / 2}}
        if self.steps % 2:
            info["odd"] = True
        return self.observe(), float(self.np_random.random()), terminated, truncated, info

    def twice(self, value, plus=0):
        return 2 * value + plus + self.steps

    def close(self):
        self.closed += 1


#: What gymnasium's checker advises against; a market may have spaces without bounds all the same.
ADVICE = (
    "A Box .* space (minimum|maximum) value is -?infinity",
    "For Box action spaces, we recommend",
    "Not able to test alternative render modes",
)


def check_with_gymnasium(env):
    """Gymnasium's checker, every warning of which but the advice above fails the test."""
    with warnings.catch_warnings():
        for advice in ADVICE:
            warnings.filterwarnings("ignore", f".*{advice}")
        check_env(env)


def assert_same(expected, got, where="it"):
    """Equal values in equal containers, dtypes and shapes included, at any depth."""
    if hasattr(expected, "infos"):
        for name in type(expected).__slots__ or type(expected).__mro__[1].__slots__:
            assert_same(getattr(expected, name), getattr(got, name), f"{where}.{name}")
    elif isinstance(expected, dict):
        assert isinstance(got, dict), where
        assert sorted(expected) == sorted(got), where
        for key in expected:
            assert_same(expected[key], got[key], f"{where}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert type(expected) is type(got) or isinstance(expected, list) is isinstance(got, list), where
        assert len(expected) == len(got), where
        for i, (left, right) in enumerate(zip(expected, got, strict=True)):
            assert_same(left, right, f"{where}[{i}]")
    elif isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray), where
        assert (expected.dtype, expected.shape) == (got.dtype, got.shape), where
        if expected.dtype == object:
            assert_same(list(expected.flat), list(got.flat), where)
        else:
            np.testing.assert_array_equal(expected, got, err_msg=where)
    else:
        assert expected == got, where
