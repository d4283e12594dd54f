"""ProcVecEnv against SyncVecEnv, gymnasium's AsyncVectorEnv and, where it is installed, Stable-Baselines3's."""

from __future__ import annotations

import importlib.util
from functools import partial
from time import perf_counter

import numpy as np
import pytest
from proc_twins import Computes, Image, Ours, Pole, Work, gymnasium_twin
from rounds import ratio, take_turns

from sekai import ProcVecEnv, SyncVecEnv

pytestmark = pytest.mark.bench


def others(dynamics, num_envs):
    """The step of each other library's process backend, and what closes it."""
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode

    env_fns = [partial(gymnasium_twin, dynamics)] * num_envs
    gym = AsyncVectorEnv(env_fns, shared_memory=True, autoreset_mode=AutoresetMode.SAME_STEP)
    gym.reset(seed=0)
    yield "gymnasium", gym.step, gym
    if importlib.util.find_spec("stable_baselines3"):
        from stable_baselines3.common.vec_env import SubprocVecEnv

        sb3 = SubprocVecEnv(env_fns)
        sb3.reset()
        yield "SB3", sb3.step, sb3


def ours(dynamics, num_envs, num_workers):
    vec = ProcVecEnv([partial(Ours, dynamics)] * num_envs, num_workers=num_workers)
    vec.reset(seed=0)
    return vec


@pytest.mark.parametrize(
    ("dynamics", "num_envs", "aim"), [(Pole, 8, "at most 0.2"), (Pole, 2, "at most 0.33"), (Image, 8, "at most 0.33")]
)
def test_proc_against_others(dynamics, num_envs, aim, report):
    actions = np.arange(num_envs) % 2
    vecs = {workers: ours(dynamics, num_envs, workers) for workers in (1, 2)}
    sides = {f"{workers} worker(s)": partial(vec.step, actions) for workers, vec in vecs.items()}
    closing = list(vecs.values())
    theirs = []
    for name, step, vec in others(dynamics, num_envs):
        sides[name] = partial(step, actions)
        closing.append(vec)
        theirs.append(name)
        observations = step(actions)[0]
        for ours_vec in vecs.values():
            assert np.array_equal(ours_vec.reset().observations[:, 0], vecs[1].reset().observations[:, 0])
            assert observations.shape == ours_vec.step(actions).observations.shape
    times = take_turns(sides, rounds=21, block=0.03)
    for other in theirs:
        for workers in (2, 1):
            report(f"ProcVecEnv, {num_envs} x {dynamics.__name__}", times, f"{workers} worker(s)", other, aim)
    for vec in closing:
        vec.close()


def test_proc_against_sync_on_a_millisecond_of_work(report):
    actions = np.arange(8) % 2
    proc = ours(Work, 8, 2)
    sync = SyncVecEnv([partial(Ours, Work)] * 8)
    assert np.array_equal(proc.reset(seed=0).observations, sync.reset(seed=0).observations)
    assert np.array_equal(proc.step(actions).observations, sync.step(actions).observations)
    times = take_turns({"2 workers": partial(proc.step, actions), "sync": partial(sync.step, actions)}, block=0.05)
    speedup = 1 / ratio(times, "2 workers", "sync")
    report("ProcVecEnv, 8 x 1 ms", times, "2 workers", "sync", "1.8 times as fast", value=f"{speedup:.2f} x")
    proc.close()


def chosen(dynamics, num_envs, actions):
    """One whose number of workers has been found out."""
    vec = ours(dynamics, num_envs, "auto")
    end = perf_counter() + 20.0
    number, since = vec.num_workers, 0
    while since < 100 and perf_counter() < end:  # no number is tried for as many steps
        vec.step(actions)
        number, since = vec.num_workers, since + 1 if vec.num_workers == number else 0
    return vec


def rounds_of(seconds):
    """How many rounds of ``Computes`` take so long."""
    start = perf_counter()
    for _ in range(200):
        Computes(1000).compute()
    return max(1, round(1000 * seconds * 200 / (perf_counter() - start)))


@pytest.mark.parametrize("work", [20e-6, 100e-6, 500e-6, 5e-3], ids=lambda work: f"{work * 1e6:.0f} us")
def test_auto_is_about_as_quick_as_the_best_number(work, report):
    actions = np.arange(8) % 2
    dynamics = partial(Computes, rounds_of(work))
    vecs = {f"{workers} worker(s)": ours(dynamics, 8, workers) for workers in (1, 2)}
    vecs["auto"] = chosen(dynamics, 8, actions)
    times = take_turns({name: partial(vec.step, actions) for name, vec in vecs.items()}, rounds=21, block=0.06)
    best = min(vecs.keys() - {"auto"}, key=lambda name: ratio(times, name, "auto"))
    what = f"ProcVecEnv, 8 x {work * 1e6:.0f} us, num_workers='auto' ({vecs['auto'].num_workers} chosen)"
    report(what, times, "auto", best, "at most 1.1")
    for vec in vecs.values():
        vec.close()


def test_auto_against_gymnasium(report):
    actions = np.arange(8) % 2
    vec = chosen(Pole, 8, actions)
    name, step, theirs = next(others(Pole, 8))
    times = take_turns({"auto": partial(vec.step, actions), name: partial(step, actions)}, rounds=21, block=0.03)
    report("ProcVecEnv, 8 x Pole, num_workers='auto'", times, "auto", name, "at most 0.2")
    for each in (vec, theirs):
        each.close()
