"""Sums over episodes of many rollouts: the statistics of all of them at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sekai
from sekai.cli.rollout import EpisodeLog
from sekai.rollouts import EpisodeSums
from sims.execution import ExecutionVecEnv
from sims.market_making import MarketMakingVecEnv
from sims.trading import BuyAndHold, TradingVecEnv


def still(vec):
    return lambda observations: vec.batch_action_space.sample() * 0


def records(market, policy, **kwargs):
    vec = market(6, **kwargs)
    return [sekai.rollout(vec, policy(vec), 700, seed=seed) for seed in (1, 2, 3)]


def logged(rollouts):
    """The account that ``sekai run`` keeps, of the sub-envs of all of them side by side."""
    parts = []
    for record in rollouts:
        ends = tuple(record.episode_ends.T)
        starts = record.episode_starts
        flags = record.terminated[ends], record.truncated[ends]
        began = np.zeros(len(ends[0]), np.int64) if starts is None else starts
        parts.append((record.episode_returns, record.episode_lengths, *flags, began))
    clock = "bar" if rollouts[0].history is not None else None
    return EpisodeLog(1, clock=clock, _ended=parts).summary()


@pytest.mark.parametrize(
    "market, policy, kwargs",
    [
        (MarketMakingVecEnv, still, {"n_steps": 40}),
        (ExecutionVecEnv, still, {"n_steps": 9}),
        (TradingVecEnv, BuyAndHold.for_env, {"episode_length": 60}),
        (TradingVecEnv, BuyAndHold.for_env, {"episode_length": 500}),
        (MarketMakingVecEnv, still, {"n_steps": 2000}),
    ],
    ids=["quotes", "execution", "history", "few on a history", "none"],
)
def test_they_are_those_of_all_episodes_at_once(market, policy, kwargs):
    rollouts = records(market, policy, **kwargs)
    got = EpisodeSums.join([EpisodeSums.of(record) for record in rollouts]).summary()
    expected = logged(rollouts)
    assert list(got) == list(expected)
    for name, value in expected.items():
        assert got[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9, nan_ok=True)), name


def test_a_rollout_off_the_history_takes_it_from_all():
    on, off = records(TradingVecEnv, BuyAndHold.for_env, episode_length=60)[0], records(MarketMakingVecEnv, still)[0]
    joined = EpisodeSums.join([EpisodeSums.of(on), EpisodeSums.of(off)])
    assert not joined.by_history and joined.summary()["return_standard_error_by"] == "independent episodes"
    assert math.isfinite(joined.summary()["return_standard_error"])


def test_of_none():
    with pytest.raises(ValueError, match="expected at least one, got none"):
        EpisodeSums.join([])
