"""Markets of rows against what one would write by hand, and against gymnasium's CartPole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import ModuleType

import numpy as np
import pytest
from by_hand import Reversion
from cart_pole import CartPoleVecEnv
from rounds import ratio, take_turns

import sekai
from sekai.kernels import get_num_threads, set_num_threads
from sims.market_making import MarketMakingVecEnv

pytestmark = pytest.mark.bench

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def one_thread():
    before = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


def readme_market():
    """The class of the README's example, and the number of lines that it takes."""
    text = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = [
        each for each in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "VecEnv(K" in each
    ]
    source = block[: block.index("sekai.register(")]
    module = sys.modules.setdefault("readme", ModuleType("readme"))  # where named tuples are looked up
    exec(source, vars(module))
    return module.ReversionVecEnv, sum(bool(line.strip()) for line in source.splitlines())


@pytest.mark.parametrize(("num_envs", "aim"), [(16_384, "at least 0.8"), (1024, "at least 0.5")])
def test_the_readme_s_market_against_a_loop_by_hand(num_envs, aim, report):
    market, lines = readme_market()
    vec, hand = market(num_envs), Reversion(num_envs)
    vec.reset(seed=0)
    actions = np.arange(num_envs) % 3
    sides = {"sekai": lambda: vec.step(actions), "by hand": lambda: hand.step(actions)}
    times = take_turns(sides, rounds=15, block=0.1)
    share = f"{1 / ratio(times, 'sekai', 'by hand'):.2f}"
    report(
        f"README's market ({lines} lines), step() of {num_envs:,}, share of a loop by hand", times, *sides, aim, share
    )


def test_cart_pole_against_gymnasium_s_arrays(report):
    import gymnasium

    n = 16_384
    theirs = gymnasium.make_vec("CartPole-v1", n, vectorization_mode="vector_entry_point")
    ours = CartPoleVecEnv(n, max_episode_steps=500)
    theirs.reset(seed=0)
    ours.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = iter([rng.integers(0, 2, n) for _ in range(64)] * 10_000)
    sides = {"sekai": lambda: ours.step(next(actions)), "gymnasium": lambda: theirs.step(next(actions))}
    times = take_turns(sides, rounds=11, block=0.1)
    share = f"{1 / ratio(times, 'sekai', 'gymnasium'):.1f} x"
    report("CartPole, 16,384 envs, against gymnasium's one NumPy step of all", times, *sides, "at least 5 x", share)


def test_cart_pole_against_gymnasium_s_processes(report):
    import gymnasium

    n = 16
    theirs = gymnasium.make_vec("CartPole-v1", n, vectorization_mode="async")
    ours = CartPoleVecEnv(n, max_episode_steps=500)
    try:
        theirs.reset(seed=0)
        ours.reset(seed=0)
        actions = np.arange(n) % 2
        sides = {"sekai": lambda: ours.step(actions), "gymnasium": lambda: theirs.step(actions)}
        times = take_turns(sides, rounds=11, block=0.1)
    finally:
        theirs.close()
    share = f"{1 / ratio(times, 'sekai', 'gymnasium'):.0f} x"
    report(f"CartPole, {n} envs, against gymnasium's AsyncVectorEnv", times, *sides, "", share)


@pytest.mark.parametrize(("how", "aim"), [("native", "1"), ("sekai.make", "1.5")])
def test_one_env_against_a_cart_pole(how, aim, report):
    import gymnasium

    cart_pole = gymnasium.make("CartPole-v1").unwrapped
    cart_pole.reset(seed=0)
    actions = np.full((1, 2), 0.6, dtype=np.float32)
    if how == "native":
        vec = MarketMakingVecEnv(1)
        vec.reset(seed=0)
        step = lambda: vec.step(actions)  # noqa: E731
    else:
        env = sekai.make("MarketMaking-v0", n_steps=2**31 - 1)
        env.reset(seed=0)
        step = lambda: env.step(actions[0])  # noqa: E731

    def step_cart_pole():
        if cart_pole.step(1)[2]:
            cart_pole.state, cart_pole.steps_beyond_terminated = np.zeros(4), None

    times = take_turns({"MarketMaking-v0": step, "CartPole-v1": step_cart_pole}, rounds=21, block=0.05)
    report(f"a step of one quoting market, {how}, against CartPole-v1 unwrapped", times, *times, aim)


#: Prints the seconds from an imported market to its first step, and those of a step written by hand.
FIRST_STEPS = """
import sys
from time import perf_counter
sys.path.insert(0, {here!r})
import numpy as np
{imports}
start = perf_counter()
{code}
print(perf_counter() - start)
"""
OURS = (
    "from sims.market_making import MarketMakingVecEnv",
    ("vec = MarketMakingVecEnv(1024)\nvec.reset(seed=0)\nvec.step(np.full((1024, 2), 0.6, np.float32))"),
)
BY_HAND = "from by_hand import first_quoting_step", "first_quoting_step()"


def test_first_step_against_compiling_a_step_by_hand(tmp_path, report):
    times = {"sekai": [], "by hand": []}
    for turn in range(5):
        for name, (imports, code) in zip(times, (OURS, BY_HAND), strict=True):
            environ = {**os.environ, "SEKAI_CACHE_DIR": str(tmp_path / f"{turn} {name}")}
            script = FIRST_STEPS.format(here=str(HERE), imports=imports, code=code)
            run = subprocess.run(
                [sys.executable, "-c", script], env=environ, check=True, capture_output=True, text=True
            )
            times[name].append(float(run.stdout))
    what = "quoting market made, reset and stepped, nothing compiled yet, against compiling a step by hand"
    seconds = ", ".join(f"{median(each):.1f} s" for each in times.values())
    report(f"{what} ({seconds})", times, *times, "at most 2")
