"""Trajectories of the quoting market, kept in ``golden_market_making.json``, that no change of the code may move.

Each run there names the env's arguments, the seed of the sub-env and its actions; ``steps`` holds, per step, what the
names in ``columns`` say. They were written by the naive twin, and the env agrees with it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from naive_market_making import NaiveMarketMaker

from sims.market_making import MarketMakingVecEnv

RUNS = json.loads(Path(__file__).with_name("golden_market_making.json").read_text(encoding="utf-8"))


def agree(got, expected):
    return got == pytest.approx(expected, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, id=id, marks=[pytest.mark.slow] * (id != "brownian")) for id, run in RUNS.items()],
)
def test_the_env_follows_the_golden_trajectory(run):
    # Other sub-envs have other seeds and act otherwise, so that a row that looks at another shows.
    row, rng = 2, np.random.default_rng(0)
    env = MarketMakingVecEnv(5, **run["env"])
    env.reset(seed=[run["seed"] if i == row else i for i in range(5)])
    for action, expected in zip(run["actions"], run["steps"], strict=True):
        actions = rng.uniform(-1.0, 2.0, (5, 2)).astype(np.float32)
        actions[row] = action
        result = env.step(actions)
        got = {"reward": result.rewards[row], **result.infos[row]}
        assert agree([float(got[name]) for name in run["columns"]], expected)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_naive_twin_follows_the_golden_trajectory(run):
    terms = {**MarketMakingVecEnv.Params._field_defaults, **run["env"]}
    twin = NaiveMarketMaker(run["seed"], **terms)
    twin.reset()
    for action, expected in zip(run["actions"], run["steps"], strict=True):
        reward, over, info = twin.step(action)
        got = {"reward": reward, **info}
        assert agree([float(got[name]) for name in run["columns"]], expected)
        if over:
            twin.reset()


def test_the_trajectories_cover_the_choices():
    for name in ("midprice", "fill_rule", "reward"):
        assert (
            len({run["env"].get(name) for run in RUNS.values()}) == {"midprice": 4, "fill_rule": 2, "reward": 3}[name]
        )
    for run in RUNS.values():
        filled = np.array(run["steps"])[:, [run["columns"].index(name) for name in ("bid_filled", "ask_filled")]]
        assert 0.1 < filled.mean() < 0.9
