"""What a step costs through RayVecEnv, beside ProcVecEnv: a message to each shard and back."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from compat.ray_cluster import ray_started
from proc_twins import Image, Ours, Pole, Work
from rounds import take_turns

from sekai import ProcVecEnv, SyncVecEnv
from sekai.compat.ray import RayVecEnv

pytestmark = pytest.mark.bench

NUM_ENVS = 8


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with ray_started() as cluster:
        yield cluster


def rows_of(dynamics, rows):
    return SyncVecEnv([partial(Ours, dynamics)] * len(rows))


@pytest.mark.parametrize("dynamics", [Pole, Image, Work], ids=lambda each: each.__name__)
def test_ray_beside_proc(dynamics, report):
    proc = ProcVecEnv([partial(Ours, dynamics)] * NUM_ENVS, num_workers=2)
    vecs = {"Proc, 2 workers": proc}
    for shards in (1, 2, 4):
        vecs[f"Ray, {shards} shard(s)"] = RayVecEnv(partial(rows_of, dynamics), NUM_ENVS, num_shards=shards)
    kept = "Ray, 2 shard(s), none kept"
    vecs[kept] = RayVecEnv(partial(rows_of, dynamics), NUM_ENVS, num_shards=2, snapshot_every=0)
    actions = np.arange(NUM_ENVS) % 2
    first = proc.reset(seed=0)
    for vec in vecs.values():
        assert np.array_equal(vec.reset(seed=0).observations, first.observations)
    times = take_turns({name: partial(vec.step, actions) for name, vec in vecs.items()}, rounds=15, block=0.1)
    for name in vecs:
        report(f"step of {NUM_ENVS} x {dynamics.__name__}", times, name, "Proc, 2 workers")
    for vec in vecs.values():
        vec.close()
