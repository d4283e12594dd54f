"""Snapshots of the quoting market against copying their bytes once, and of one row against a step of one env."""

from __future__ import annotations

import numpy as np
import pytest
from rounds import take_turns

import sekai
from sims.market_making import MarketMakingVecEnv

pytestmark = pytest.mark.bench

MANY = 16_384


def begun(num_envs, **kwargs):
    """A VecEnv after some steps, and the actions of one more."""
    vec = MarketMakingVecEnv(num_envs, **kwargs)
    vec.reset(seed=0)
    actions = np.full((num_envs, 2), 0.6, dtype=np.float32)
    for _ in range(20):
        vec.step(actions)
    return vec, actions


def used_memory(size):
    """Memory that has been written to: what is only zeros is one page of the system's, read again and again."""
    return np.ones(size, np.uint8)


@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
def test_many_against_their_bytes(autoreset, report):
    vec, _ = begun(MANY, autoreset=autoreset)
    kept = vec.snapshot()
    source, target = used_memory(kept.nbytes), used_memory(kept.nbytes)

    def back_and_forth():
        vec.restore(vec.snapshot())

    times = take_turns(
        {
            "snapshot()": vec.snapshot,
            "restore()": lambda: vec.restore(kept),
            "both": back_and_forth,
            "copy": lambda: np.copyto(target, source),
            "copy into fresh memory": source.copy,
        }
    )
    how = "autoreset" if autoreset else "freezing"
    what = f"{MANY:,} quoting markets, {how}, {kept.nbytes / 1e6:.1f} MB, against copying them once"
    for side in ("snapshot()", "restore()", "both"):
        report(what, times, side, "copy", "at most 3")
    report(what, times, "snapshot()", "copy into fresh memory")
    assert vec.snapshot() == kept


def test_a_branch_of_one_state_into_many(report):
    vec, _ = begun(MANY)
    row, size = vec.snapshot(5), vec.snapshot().nbytes
    source, target = used_memory(size), used_memory(size)
    times = take_turns(
        {
            "restore()": lambda: vec.restore(row),
            "reseed(0)": lambda: vec.reseed(0),
            "reset(seed=0)": lambda: vec.reset(seed=0),
            "copy": lambda: np.copyto(target, source),
        }
    )
    report(f"one state into {MANY:,}, against copying them once", times, "restore()", "copy")
    report(f"other streams for {MANY:,}, against a reset", times, "reseed(0)", "reset(seed=0)")


@pytest.mark.parametrize("num_envs", [1, MANY])
def test_one_row_against_a_step_of_one_env(num_envs, report):
    vec, _ = begun(num_envs)
    alone, actions = begun(1)
    row = num_envs // 2
    kept = vec.snapshot(row)
    times = take_turns(
        {
            "snapshot(i)": lambda: vec.snapshot(row),
            "restore(..., i)": lambda: vec.restore(kept, row),
            "step": lambda: alone.step(actions),
        }
    )
    for side in ("snapshot(i)", "restore(..., i)"):
        report(f"one row of {num_envs:,}, against a step of one env", times, side, "step", "at most 1")


def test_one_env_object_against_its_step(report):
    env = sekai.make("MarketMaking-v0")
    env.reset(seed=0)
    action = np.full(2, 0.6, dtype=np.float32)
    kept = env.snapshot()
    times = take_turns(
        {"snapshot()": env.snapshot, "restore()": lambda: env.restore(kept), "step": lambda: env.step(action)}
    )
    for side in ("snapshot()", "restore()"):
        report("sekai.make: one env, against its step", times, side, "step", "at most 1")
