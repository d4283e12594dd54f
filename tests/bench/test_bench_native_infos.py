"""What 8 info columns cost a native env, 16,384 sub-envs, when nobody reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rounds import take_turns

from sekai import Box, Discrete, NativeVecEnv
from sekai.kernels import jit

pytestmark = pytest.mark.bench

NUM_ENVS = 16_384
NUM_COLUMNS = 8


@jit
def advance(old, actions, new, observations, rewards):
    """Eight state columns one step on; ``new`` may be ``old``."""
    for i in range(actions.shape[0]):
        total = 0.0
        for k in range(len(old)):
            x = old[k][i] + 0.01 * (actions[i] + k - old[k][i])
            new[k][i] = x
            total += x
        rewards[i] = total
        observations[i, 0] = new[0][i]
        observations[i, 1] = new[1][i]


class Columns(NativeVecEnv):
    """Carries eight state columns on, in place or in fresh arrays, and tells them in its infos or does not."""

    def __init__(self, *, fresh, infos):
        super().__init__(NUM_ENVS, Box(-np.inf, np.inf, (2,), np.float32), Discrete(2))
        self.fresh, self.with_infos = fresh, infos
        self.state = tuple(np.zeros(NUM_ENVS) for _ in range(NUM_COLUMNS))
        self.observations = np.zeros((NUM_ENVS, 2), dtype=np.float32)

    def _reset_envs(self, indices, options):
        self.state = tuple(np.zeros(NUM_ENVS) for _ in range(NUM_COLUMNS))

    def _observe(self):
        return self.observations

    def _step(self, actions):
        rewards, flags = np.empty(NUM_ENVS), np.zeros(NUM_ENVS, dtype=np.bool_)
        old = self.state
        new = tuple(self._new_array(np.float64) for _ in old) if self.fresh else old
        advance(old, actions, new, self.observations, rewards)
        self.state = new
        return rewards, flags, flags, self._columns() if self.with_infos else {}

    def _columns(self):
        return {f"column_{k}": column for k, column in enumerate(self.state)}


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "live"])
def test_infos_nobody_reads(fresh, report):
    with_infos, without = Columns(fresh=fresh, infos=True), Columns(fresh=fresh, infos=False)
    actions = np.arange(NUM_ENVS) % 2
    with_infos.reset(seed=0)
    without.reset(seed=0)
    for _ in range(20):
        result, plain = with_infos.step(actions), without.step(actions)
        assert np.array_equal(result.observations, plain.observations)
        assert np.array_equal(result.rewards, plain.rewards)
        assert list(result.infos.columns) == [f"column_{k}" for k in range(NUM_COLUMNS)]
        assert plain.infos.columns == {}
        for column, state in zip(result.infos.columns.values(), without.state, strict=True):
            assert np.array_equal(column, state)
    times = take_turns(
        {"8 columns": lambda: with_infos.step(actions), "none": lambda: without.step(actions)}, rounds=31
    )
    kind, aim = ("fresh read-only columns", "at most 1.05") if fresh else ("live columns, copied", "")
    report(f"native infos, {NUM_ENVS} envs, {kind}", times, "8 columns", "none", aim)


#: A market that does nothing but tell live state, in a process that has not used memory for anything else before.
IDLE = """
import json, sys
sys.path.insert(0, {here!r})
import numpy as np
import sekai
from rounds import take_turns

n = 16_384


class Idle(sekai.NativeVecEnv):
    def __init__(self, columns):
        super().__init__(n, sekai.Box(-np.inf, np.inf, (2,)), sekai.Discrete(2))
        self.seen, self.told = np.zeros((n, 2), np.float32), [np.zeros(n) for _ in range(columns)]
        self.count, self.phase = 0, np.arange(n) % 200

    def _reset_envs(self, indices, options):
        self.seen[indices] = 0

    def _observe(self):
        return self.seen.copy()

    def _step(self, actions):
        self.count += 1
        self.seen += 1
        infos = {{f"k{{j}}": column for j, column in enumerate(self.told)}}
        return np.ones(n), np.zeros(n, bool), self.phase == self.count % 200, infos


actions = np.zeros(n, np.int64)
idle, telling = Idle(0), Idle(8)
idle.reset(seed=0), telling.reset(seed=0)
sources, used = [np.zeros(n) for _ in range(8)], [np.ones(n) for _ in range(8)]


def copy_beside():
    idle.step(actions)
    for source, to in zip(sources, used):
        np.copyto(to, source)


print(json.dumps(take_turns({{"told": lambda: telling.step(actions), "copied beside": copy_beside}}, rounds=31)))
"""


def test_live_columns_cost_what_copies_into_used_memory_cost(report):
    script = IDLE.format(here=str(Path(__file__).parent))
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    times = json.loads(run.stdout)
    what = f"8 live info columns, {NUM_ENVS} idle envs, against none and 8 copies into used memory"
    report(what, times, "told", "copied beside", "at most 1.2")
