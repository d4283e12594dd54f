"""Shards of a rollout as Ray tasks, against the same rollout here in blocks; and what memory they take.

``SEKAI_BENCH_ROWS`` says how many markets, 1,000,000 by default.
"""

from __future__ import annotations

import os
import resource
from importlib.util import find_spec
from time import perf_counter

import pytest
from compat.ray_cluster import ray_started

import sekai
from sekai.shards.rolling import ShardedWork
from sims.market_making import AvellanedaStoikov, MarketMakingVecEnv

pytestmark = [pytest.mark.bench, pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")]

ROWS = int(os.environ.get("SEKAI_BENCH_ROWS", 1_000_000))
STEPS, WORKERS, BLOCK, ROUNDS = 200, 2, 16_384, 3


def mean_reward(record):
    return float(record.rewards.mean())


def peak(record):
    """The most memory that a worker has taken, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.fixture(scope="module")
def policy():
    policy = AvellanedaStoikov.for_env(MarketMakingVecEnv(1))
    with ray_started(num_cpus=WORKERS):
        distributed(policy, 40_000)
        in_blocks(policy, 40_000)
        yield policy


def distributed(policy, rows, summarise=mean_reward):
    from sekai.compat.ray import rollout

    return rollout("MarketMaking-v0", policy, STEPS, num_envs=rows, seed=0, summarise=summarise)


def in_blocks(policy, rows):
    """One market of a block's size, reset again and again: the quickest way to do it here, on all cores."""
    vec, record, means = MarketMakingVecEnv(BLOCK), None, []
    for block in range(-(-rows // BLOCK)):
        record = sekai.rollout(vec, policy, STEPS, seed=block, progress=False, out=record)
        means.append(mean_reward(record))
    return means


def in_shards(policy, rows):
    """What tasks do, here one after another."""
    sharded = ShardedWork("MarketMaking-v0", policy, STEPS, num_envs=rows, seed=0, summarise=mean_reward)
    return [mean for _, mean in sharded.each()]


def test_throughput(policy):
    best: dict[str, float] = {}
    ratios = []
    for _ in range(ROUNDS):
        took = {}
        for function in (distributed, in_blocks, in_shards):
            start = perf_counter()
            function(policy, ROWS)
            took[function.__name__] = perf_counter() - start
            best[function.__name__] = min(took[function.__name__], best.get(function.__name__, 1e9))
        blocks = -(-ROWS // BLOCK) * BLOCK / ROWS  # the last one is whole
        ratios.append(took["in_blocks"] / blocks / took["distributed"])
    for name, seconds in best.items():
        print(f"{name}: {ROWS * STEPS / seconds / 1e6:.1f} million env-steps a second ({seconds:.2f} s)")
    print(f"distributed against blocks, each round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def test_memory_does_not_grow_with_the_rows(policy):
    for rows in (ROWS // 10, ROWS):
        print(
            f"{rows:,} rows: at most {max(distributed(policy, rows, peak)):.0f} MB in a worker, {peak(None):.0f} here"
        )
