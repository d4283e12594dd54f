"""Trajectories on bundled histories, kept in ``golden_trading.json``, that no change of the code may move.

Each run there names the env's arguments, the bar it starts on and its actions; ``steps`` holds, per step, what the
names in ``columns`` say. They were written by this env and agree with the naive twin. The run "as it comes" is of the
default history and the default price of execution, which its twin is told: opens of the NASDAQ.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from naive_trading import NaiveTrader

import sims.data
from sims.trading import TradingVecEnv

RUNS = json.loads(Path(__file__).with_name("golden_trading.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "run",
    # Weights are compiled by themselves.
    [pytest.param(run, id=id, marks=[pytest.mark.slow] * id.startswith("weights")) for id, run in RUNS.items()],
)
def test_the_env_follows_the_golden_trajectory(run):
    # Other sub-envs start elsewhere and act otherwise, so that a row that looks at another shows.
    env = TradingVecEnv(5, **run["env"])
    rng = np.random.default_rng(0)
    row = 2
    env.reset(options=[{"start": run["start"] if i == row else 100 + i} for i in range(5)])
    assert len(run["actions"]) == len(run["steps"])
    for action, expected in zip(run["actions"], run["steps"], strict=True):
        actions = rng.integers(0, 3, 5) if env.params.actions == "discrete" else rng.uniform(-1, 1, (5, 1))
        actions[row] = action
        result = env.step(actions)
        got = {"reward": result.rewards[row], **result.infos[row]}
        assert [got[name] for name in run["columns"]] == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_naive_twin_follows_the_golden_trajectory(run):
    terms = {"prices": "nasdaq", "execution": "open", **run["env"]}
    table = sims.data.load(terms["prices"])
    twin = NaiveTrader(
        table["close"],
        table["open"] if terms["execution"] == "open" else None,
        run["start"],
        len(table) - 1,
        transaction_cost=terms["transaction_cost"],
        borrow_rate=terms["borrow_rate"],
        reward=terms["reward"],
    )
    for action, expected in zip(run["actions"], run["steps"], strict=True):
        weight = float(np.float32(action[0])) if terms["actions"] == "weight" else action - 1.0
        reward, _, _, info = twin.step(weight)
        got = {"reward": reward, **info}
        assert [got[name] for name in run["columns"]] == pytest.approx(expected, rel=1e-12, abs=1e-15)
