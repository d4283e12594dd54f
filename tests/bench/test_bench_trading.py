"""Trading-v0 as single envs under SyncVecEnv against the same market as one native env."""

from __future__ import annotations

import numpy as np
import pytest
from rounds import take_turns

import sekai

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("num_envs", [64, 1024])
def test_sync_against_native(num_envs, report):
    native = sekai.make_vec("Trading-v0", num_envs=num_envs, vectorization_mode="native")
    sync = sekai.make_vec("Trading-v0", num_envs=num_envs, vectorization_mode="sync")
    starts = [{"start": 40 + i} for i in range(num_envs)]
    actions = np.random.default_rng(0).integers(3, size=(20, num_envs))
    assert np.array_equal(
        native.reset(seed=0, options=starts).observations, sync.reset(seed=0, options=starts).observations
    )
    for batch in actions:
        ours, theirs = native.step(batch), sync.step(batch)
        assert np.array_equal(ours.observations, theirs.observations)
        assert np.array_equal(ours.rewards, theirs.rewards)
        assert list(ours.infos) == list(theirs.infos)
    times = take_turns({"native": lambda: native.step(actions[0]), "sync": lambda: sync.step(actions[0])}, rounds=9)
    report(f"Trading-v0, {num_envs} envs", times, "sync", "native")
    native.close()
    sync.close()
