"""``check_vec_env`` holds a market's compiled step against its ``step()``."""

from __future__ import annotations

import re
from functools import partial

import pytest
import rolled_markets as markets
from broken_markets import NestedVec
from findings import COMPILED, N_STEPS, like

from sekai.testing import check_vec_env
from sekai.vector.compiled_step import CompiledStep

#: What is found in each; see ``like``.
FAULTS = {
    markets.RolledRewards: "compiled rollout, step 1: rewards[0]: expected #, as step() gives, got # (sub-env 0)",
    markets.RolledObservations: "compiled rollout, step 1: observations[0, 0]: expected #, as step() gives, got # "
    "(sub-env 0)",
    markets.RolledFlags: "compiled rollout, step #: truncated[#]: expected False, as step() gives, got True "
    "(sub-env #)",
    markets.RolledInfoColumns: "compiled rollout, step 1: infos['level'][0]: expected #, as step() gives, got # "
    "(sub-env 0)",
    markets.RolledFinals: "compiled rollout, step #: infos[#]['final_observation']: expected array(#), "
    "as step() gives, got array(#) (sub-env #)",
    markets.RolledActions: "compiled rollout, step 1: actions[0, 0]: expected #, as step() gives, got 0.0 (sub-env 0)",
    markets.RolledAcceptance: "compiled rollout: action array([nan], dtype=float32): expected it to be refused, "
    "as by step(), got it accepted",
    markets.RolledRefusal: "compiled rollout: expected 1000 steps, got InvalidAction: rollout, step #: "
    "expected an action that step() takes, got [#] (sub-env #)",
    markets.RolledBlocks: "compiled rollout, step 1: rewards[1050]: expected #, as step() gives, got # (sub-env 1050)",
    markets.RolledThreads: "compiled rollout on 2 threads, step 1: rewards[#]: expected #, as step() gives, got # "
    "(sub-env #)",
    markets.RolledStreams: "after a compiled rollout, step 1000: streams.counter[0]: expected #, "
    "as after so many calls of step(), got # (sub-env 0)",
    markets.RolledState: "after a compiled rollout, step 1000: _observe()[0, 1]: expected #, "
    "as after so many calls of step(), got # (sub-env 0)",
    markets.RolledAfterwards: "after a compiled rollout, step 1001: observations[0, 0]: expected #, "
    "as after so many calls of step(), got # (sub-env 0)",
    markets.RolledStuck: "after a rollout, step 1000: expected no error, got #Error: #",
    markets.RolledOtherInfos: "compiled_step(): expected info columns that step() gives, got ['price']",
    markets.RolledDict: "compiled_step(): expected a CompiledStep whose infos are a named tuple, got CompiledStep(#",
    markets.RolledNever: "compiled_step(): expected a CompiledStep or None, got KeyError: 'level'",
}


@pytest.mark.slow
def test_a_market_with_a_compiled_step_has_no_problems():
    assert check_vec_env(markets.RolledVec) == []
    assert check_vec_env(markets.RolledVec, num_envs=1, n_steps=1) == []


#: Each is compiled for itself, some twice; those that are not here are slow tests.
FEW = (markets.RolledRewards, markets.RolledThreads, markets.RolledStreams, markets.RolledOtherInfos)
EACH_FAULT = [market if market in FEW else pytest.param(market, marks=pytest.mark.slow) for market in FAULTS]


@pytest.mark.parametrize("market", EACH_FAULT, ids=lambda market: market.__name__)
def test_a_fault_of_a_compiled_step_is_named(market):
    findings = check_vec_env(market, n_steps=N_STEPS)
    assert len(findings) == COMPILED, findings
    assert all(re.match(like(FAULTS[market]), finding) for finding in findings)


def test_every_market_with_a_compiled_step_is_looked_at():
    rolled = {each for each in vars(markets).values() if isinstance(each, type) and issubclass(each, markets.RolledVec)}
    assert rolled == {markets.RolledVec} | FAULTS.keys()


def test_a_time_limit_of_the_check_does_not_hide_the_compiled_step():
    findings = check_vec_env(markets.RolledRewards, n_steps=2)
    assert len(findings) == COMPILED
    assert all(re.match(like(FAULTS[markets.RolledRewards]), each) for each in findings)


def test_a_time_limit_of_the_market_leaves_no_compiled_step():
    assert check_vec_env(partial(markets.RolledRewards, max_episode_steps=9), n_steps=N_STEPS) == []


def test_compiled_steps_are_for_spaces_of_one_array():
    class Rolled(NestedVec):
        def _compiled_step(self):
            return CompiledStep(None, (), (), 0, markets.OtherInfos(self.age))

    findings = check_vec_env(Rolled, n_steps=N_STEPS)
    message = "compiled_step(): expected None, since a batch of Dict(#) is not one array, got a CompiledStep"
    assert len(findings) == COMPILED
    assert all(re.match(like(message), each) for each in findings)
