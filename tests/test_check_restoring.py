"""Snapshots as ``check_vec_env`` and ``check_env`` see them: what a market forgets, spoils, or cannot keep."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
import toy_market
from broken_markets import GoodVec
from findings import like, the_only_finding
from masked_envs import CorridorVec

from sekai import Env, ResetResult, StepResult, TimeLimit
from sekai.spaces import Box, Discrete
from sekai.testing import check_env, check_vec_env
from sekai.vector import ProcVecEnv, SyncVecEnv, VecWrapper

pytestmark = pytest.mark.usefixtures("narrow")


class Biased(GoodVec):
    """No fault: what it pushes with adds up."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.bias = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        self.bias[indices] = 0.0

    def _push(self, actions):
        self.bias += 0.1 * actions[:, 0]
        return super()._push(actions) + self.bias


class Forgets(Biased):
    snapshot_ignores = ("bias",)


class LeavesOut(Biased):
    def _snapshot_rows(self, indices):
        return {name: column for name, column in super()._snapshot_rows(indices).items() if name != "bias"}


class Moves(Biased):
    def _snapshot_rows(self, indices):
        self.bias += 0.1
        return super()._snapshot_rows(indices)


class TakesTheFirst(Biased):
    """Gives as many rows as it is asked for, but others."""

    def _snapshot_rows(self, indices):
        return super()._snapshot_rows(np.arange(len(indices)))


class GivesItsOwnArrays(Biased):
    def _snapshot_rows(self, indices):
        return {
            **super()._snapshot_rows(indices),
            "bias": self.bias[:] if len(indices) == self.num_envs else self.bias[indices],
        }


class PutsThemFirst(Biased):
    def _restore_rows(self, indices, rows):
        super()._restore_rows(np.arange(len(indices)), rows)


class Touches(Biased):
    """Restores more rows than it is told to."""

    def _restore_rows(self, indices, rows):
        self.bias[:] = 0.0
        super()._restore_rows(indices, rows)


class OneForAll(Biased):
    """Gives every row what the first one has where there are as many rows as sub-envs and all alike."""

    def _restore_rows(self, indices, rows):
        super()._restore_rows(indices, rows)
        if np.ptp(rows["age"]) == 0 and len(indices) == self.num_envs > 1:
            self.bias[:] = np.arange(self.num_envs)


class Late(Biased):
    """Has an array that the first step makes."""

    def _push(self, actions):
        self.pushed = np.array(actions)
        return super()._push(actions)


class Seasons(Biased):
    """Counts what a snapshot takes to stay, but not in the steps in which that is looked at."""

    season = 0

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        if len(indices) == self.num_envs:
            self.steps = 0

    def _push(self, actions):
        self.season += self.age.max() == 9
        return super()._push(actions)


class Functions(Biased):
    def _snapshot_rows(self, indices):
        column = np.empty(len(indices), object)
        column[:] = [lambda: None] * len(indices)
        return {**super()._snapshot_rows(indices), "rule": column}


class Thaws(Biased):
    """Forgets who is frozen."""

    def _restore_ends(self, rows, columns):
        if not self.autoreset:
            columns = {**columns, "frozen": np.zeros_like(columns["frozen"])}
        super()._restore_ends(rows, columns)


#: What is found in each; see ``like``.
FAULTS = {
    Forgets: "step #: observations[0, 0]: expected #, as before, got # after restore() of step 10; "
    "not put back: Forgets.bias (sub-env 0)",
    LeavesOut: "step #: observations[0, 0]: expected #, as before, got # after restore() of step 10; "
    "not put back: LeavesOut.bias (sub-env 0)",
    Moves: "step #: observations[0, 0]: expected # whether or not snapshot() is called before, got # (sub-env 0)",
    TakesTheFirst: "snapshot([1, 3]) of step 10: expected what snapshot() has of these sub-envs, "
    "got another state.age, state.bias, state.level",
    GivesItsOwnArrays: "snapshot() of step 10: expected it to stay as it was made, got another state.bias later on",
    PutsThemFirst: "step #: observations[#, 0]: expected #, as before, got # after restore() of sub-envs [0, 2] of "
    "step 10 to [3, 1] (sub-env #)",
    Touches: "step #: observations[#, 0]: expected #, since this sub-env has not been restored, got # after restore() "
    "of sub-envs [0, 2] of step 10 to [3, 1] (sub-env #)",
    OneForAll: "step #: observations[2, 0]: expected #, as before, got # after restore() of sub-env 2 of step 10 "
    "to all (sub-env 2)",
    Late: "restore() of step 10: expected it to go on from there, got ValueError: restore(snapshot): "
    "the layout of its columns: state.pushed: expected none, got float32 (1,)",
    Seasons: "restore() of step 10: expected it to go on from there, got ValueError: restore(snapshot): "
    "season: expected #, got #",
    Functions: "snapshot() after step 10: expected one that can be pickled, got #",
    Thaws: "autoreset=False, step #: observations[#, 0]: expected #, as before, got # after restore() of step # "
    "(sub-env #)",
}


def check(factory):
    return the_only_finding(factory, num_envs=4)


@pytest.mark.parametrize("market", FAULTS, ids=lambda market: market.__name__)
def test_a_fault_is_named(market):
    assert re.match(like(FAULTS[market]), check(market))


def test_a_market_without_one_has_no_finding():
    assert check_vec_env(Biased, num_envs=4, n_steps=20) == check_vec_env(Biased, num_envs=1, n_steps=1) == []


@pytest.mark.parametrize("autoreset", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_episodes_of_a_few_steps_bring_no_false_alarm(limit, autoreset):
    def build(num_envs, **given):
        return CorridorVec(num_envs, **{"max_episode_steps": limit, "autoreset": autoreset, **given})

    for num_envs in (1, 2, 4):
        found = check_vec_env(build, num_envs=num_envs, n_steps=2 * num_envs)
        assert [each for each in found if not each.startswith("hint: accepts")] == []


# -- what cannot be kept ---------------------------------------------------------------------------------------


class Records(Biased):
    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.history = []

    def _push(self, actions):
        self.history.append(float(actions[0, 0]))
        return super()._push(actions)


class Untold(VecWrapper):
    def _snapshot_rows(self, indices):
        raise NotImplementedError("not yet")


class Walk(Env):
    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)

    def __init__(self):
        self.x = 0.0

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.x = 0.0
        return ResetResult(np.array([self.x]), {})

    def step(self, action):
        self.x += self.rng.normal() + action
        return StepResult(np.array([self.x]), self.x, abs(self.x) > 4.0, False, {})


class Locked(Walk):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (Records, "TypeError: snapshot(): Records.history: expected state in arrays with a first axis of num_envs, #"),
        (lambda num_envs, **given: Untold(Biased(num_envs, **given)), "NotImplementedError: not yet"),
        (
            lambda num_envs, **given: SyncVecEnv([Locked] * num_envs, **given),
            "TypeError: snapshot(): Locked.lock: expected what can be pickled, got #",
        ),
        pytest.param(
            lambda num_envs, **given: ProcVecEnv([Locked] * num_envs, num_workers=1, **given),
            "TypeError: snapshot(): Locked.lock: expected what can be pickled, got #",
            marks=pytest.mark.long,  # it takes many processes
        ),
    ],
    ids=["altered", "wrapper", "sync", "proc"],
)
def test_what_cannot_be_kept_is_a_hint(factory, reason):
    hint = f"hint: snapshot() after step 5: expected a Snapshot, got {reason}; so going back to it was not seen"
    assert re.match(like(hint), the_only_finding(factory, num_envs=1, n_steps=10))


# -- env objects -----------------------------------------------------------------------------------------------


class WalkForgets(Walk):
    snapshot_ignores = ("x",)


class WalkInItsClass(Walk):
    """Its state is all instances'."""

    at = 0.0

    def reset(self, *, seed=None, options=None):
        type(self).at = 0.0
        return super().reset(seed=seed)

    def step(self, action):
        type(self).at += float(action)
        result = super().step(action)
        return StepResult(result.observation, type(self).at, result.terminated, False, {})


class WalkDraws(Walk):
    def snapshot(self):
        self.rng.normal()
        return super().snapshot()


class WalkLive(Walk):
    """Gives what it goes on to write into."""

    def __init__(self):
        self.track = [0.0]

    def snapshot(self):
        return self.track, self.rng.bit_generator.state

    def restore(self, snapshot):
        self.track, self.rng.bit_generator.state = snapshot
        self.x = self.track[0]

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.track = [self.x]
        return result

    def step(self, action):
        result = super().step(action)
        self.track[0] = self.x
        return result


class WalkRefuses(Walk):
    def restore(self, snapshot):
        raise KeyError("x")


#: What is found in each; see ``like``.
FAULTS_OF_ENVS = {
    WalkForgets: "restore() of step 10: expected the env to go on as before, got: result 1 after it is #, not #; "
    "not put back: WalkForgets.x",
    WalkInItsClass: "restore() of step 10: expected the env to go on as before, got: result # after it is #, not #",
    WalkDraws: "snapshot() after step 10: expected the env to go on as it does without, got: result 1 after it is #",
    WalkLive: "restore() of step 10: expected the env to go on as before, got: result 1 after it is #, not #",
    WalkRefuses: "restore() of step 10: expected no error, got KeyError: 'x'",
}


@pytest.mark.parametrize("env", FAULTS_OF_ENVS, ids=lambda env: env.__name__)
def test_a_fault_of_an_env_is_named(env):
    (problem,) = check_env(env(), n_steps=20)
    assert re.match(like(FAULTS_OF_ENVS[env]), problem)
    (problem,) = check_env(TimeLimit(env(), 6), n_steps=20)
    assert re.match(like(FAULTS_OF_ENVS[env]), problem)


def test_an_env_without_one_has_no_finding():
    for env in (Walk(), TimeLimit(Walk(), 3), toy_market.Walk()):
        assert check_env(env, n_steps=20) == check_env(env, n_steps=1) == []


def test_an_env_that_cannot_be_kept_is_a_hint():
    hint = "hint: snapshot() after step 10: expected all that decides what comes next, got TypeError: snapshot(): "
    hint += "Locked.lock: expected what can be pickled, got #; so going back to it was not seen"
    (found,) = check_env(Locked(), n_steps=20)
    assert re.match(like(hint), found)


def test_state_of_envs_one_by_one_that_is_missed():
    def build(num_envs, **given):
        return SyncVecEnv([WalkForgets] * num_envs, **given)

    expected = "step #: observations[0, 0]: expected #, as before, got # after restore() of step 10; "
    assert re.match(like(expected + "not put back: WalkForgets.x (sub-env 0)"), check(build))
