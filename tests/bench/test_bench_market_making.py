"""The quoting market against the speed limit: the same step as a hand-vectorised C loop, built on the spot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pytest
from rounds import take_turns

import sekai
from sekai.kernels import get_num_threads, set_num_threads
from sims.market_making import FixedSpread, MarketMakingVecEnv

pytestmark = pytest.mark.bench

SOURCE = Path(__file__).with_name("mm_limit.c")
ROUNDS = 9
SECONDS = 0.15
ROLLED_STEPS = 512

both = pytest.mark.parametrize("num_threads", [1, 2])


@pytest.fixture(scope="session")
def limit(tmp_path_factory):
    """``limit(threads, num_envs)``: seconds that the C loop takes per step of all."""
    program = tmp_path_factory.mktemp("limit") / "mm_limit"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    subprocess.run(["gcc", *flags, str(SOURCE), "-o", str(program), "-lm"], check=True)

    def measure(threads: int, num_envs: int) -> float:
        command = [str(program), str(threads), str(num_envs), str(SECONDS)]
        return num_envs / float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return measure


@pytest.fixture(autouse=True)
def threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def stepping(num_envs, wrap=lambda vec: vec):
    """A call that makes one step; episodes end at different steps, as in the C loop."""
    market = MarketMakingVecEnv(num_envs)
    vec = wrap(market)
    vec.reset(seed=0)
    market.episode_clock.began[:] -= np.arange(num_envs) % 200
    actions = np.full((num_envs, 2), 0.6, dtype=np.float32)
    return lambda: vec.step(actions)


def seconds_per_call(call):
    calls, start = 0, perf_counter()
    while perf_counter() - start < SECONDS:
        call()
        calls += 1
    return (perf_counter() - start) / calls


def against(limit, call, num_threads, num_envs, steps=1):
    """Seconds per step of both, in rounds in which they take turns."""
    set_num_threads(num_threads)
    for _ in range(3 if steps > 1 else 250):
        call()
    times = {"sekai": [], "C loop": []}
    for _ in range(ROUNDS):
        times["sekai"].append(seconds_per_call(call) / steps)
        times["C loop"].append(limit(num_threads, num_envs))
    return times


def speed(times):
    """How fast the first is, as a share of the second."""
    return f"{median(b / a for a, b in zip(times['sekai'], times['C loop'], strict=True)):.2f}"


@both
def test_step(limit, num_threads, report):
    times = against(limit, stepping(16_384), num_threads, 16_384)
    what = f"MarketMaking-v0 step(), 16,384 envs, {num_threads} thread(s), share of the C loop"
    report(what, times, "sekai", "C loop", "0.85 and 0.75", speed(times))


def test_step_of_1024(limit, report):
    times = against(limit, stepping(1024), 1, 1024)
    what = "MarketMaking-v0 step(), 1,024 envs, 1 thread, share of the C loop"
    report(what, times, "sekai", "C loop", "0.45", speed(times))


@both
def test_step_through_wrappers(limit, num_threads, report):
    def wrap(vec):
        return sekai.VecNormalizeReward(sekai.VecNormalizeObservation(sekai.VecRecordEpisodeStatistics(vec)))

    times = against(limit, stepping(16_384, wrap), num_threads, 16_384)
    what = f"the same through statistics and both normalisers, {num_threads} thread(s)"
    report(what, times, "sekai", "C loop", "0.4 and 0.3", speed(times))


@both
@pytest.mark.parametrize("memory", ["fresh memory", "the memory of the one before"])
def test_compiled_rollout(limit, memory, num_threads, report):
    vec = MarketMakingVecEnv(16_384)
    policy = FixedSpread.for_env(vec, half_spread=0.6)
    kept = []

    def call():
        out = kept.pop() if kept else None
        record = sekai.rollout(vec, policy, ROLLED_STEPS, seed=0, progress=False, out=out)
        if memory != "fresh memory":
            kept.append(record)

    times = against(limit, call, num_threads, 16_384, steps=ROLLED_STEPS)
    what = f"compiled rollout of {ROLLED_STEPS} steps in {memory}, 16,384 envs, {num_threads} thread(s), "
    report(f"{what}share of the C loop", times, "sekai", "C loop", "0.8 and 0.75", speed(times))


@both
@pytest.mark.parametrize("num_envs", [1024, 4096, 65_536, 262_144])
def test_cost_per_env(num_envs, num_threads, report):
    set_num_threads(num_threads)
    times = take_turns({"n": stepping(num_envs), "16,384": stepping(16_384)}, rounds=11, block=SECONDS)
    ratio = median(a / num_envs / (b / 16_384) for a, b in zip(times["n"], times["16,384"], strict=True))
    what = f"cost per env, {num_envs:,} envs against 16,384, {num_threads} thread(s)"
    report(what, times, "n", "16,384", "0.8 to 1.25", f"{ratio:.2f}")


@pytest.mark.parametrize("num_envs", [1, 512, 1024, 2048, 4096, 8192])
def test_two_threads_against_one(num_envs, report):
    call = stepping(num_envs)

    def on(num_threads):
        def run():
            set_num_threads(num_threads)
            for _ in range(50):  # so that threads stay awake, as they do in a training loop
                call()

        return run

    times = take_turns({"2 threads": on(2), "1 thread": on(1)}, rounds=15)
    report(f"50 steps of {num_envs:,} envs, 2 threads against 1", times, "2 threads", "1 thread", "at most 1")


FIRST_STEP = """
from time import perf_counter
import numpy as np
from sims.market_making import MarketMakingVecEnv
vec = MarketMakingVecEnv(8192)
vec.reset(seed=0)
actions = np.zeros((8192, 2), dtype=np.float32)
start = perf_counter()
vec.step(actions)
print(perf_counter() - start)
"""


def test_first_step(tmp_path, report):
    times = {"fresh": [], "warm": []}
    for turn in range(3):
        environ = {**os.environ, "SEKAI_CACHE_DIR": str(tmp_path / str(turn))}
        for kind in times:
            run = subprocess.run(
                [sys.executable, "-c", FIRST_STEP], env=environ, check=True, capture_output=True, text=True
            )
            times[kind].append(float(run.stdout))
    what = "first step() of 8,192 envs: nothing compiled yet, against compiled code on disk"
    report(
        what, times, "fresh", "warm", "10 s and 1 s", f"{median(times['fresh']):.1f} s, {median(times['warm']):.2f} s"
    )
