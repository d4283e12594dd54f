"""``check_vec_env(..., check_bounds=True)``: an index beyond an array of a kernel is named, with kernel and line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sekai import Box, Discrete, NativeVecEnv
from sekai.kernels import item_at, jit, jit_batch
from sekai.testing import check_vec_env
from sekai.vector import KernelVecEnv

# Where nothing is compiled, the first run of a market raises.
pytestmark = pytest.mark.compiled

PRICES = np.arange(6.0)


@jit
def price_row(prices, age):
    return item_at(prices, age)  # read beyond


@jit_batch(shared="prices")
def advance_reading(prices, age, level):
    for i in range(len(level)):
        age[i] += 1
        level[i] = price_row(prices, age[i])


@jit_batch(shared="prices")
def advance_writing(prices, age, level):
    for i in range(len(level)):
        age[i] += 1
        prices[age[i]] = level[i]  # written beyond


class Reads(NativeVecEnv):
    """Its episodes end a step after its prices do."""

    kernel = advance_reading

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, Box(-np.inf, np.inf, (), np.float64), Discrete(2), **kwargs)
        self.age, self.level, self.prices = np.zeros(num_envs, np.int64), np.zeros(num_envs), PRICES.copy()
        print("a market that prints")

    def _reset_envs(self, indices, options):
        self.age[indices] = 0

    def _observe(self):
        return self.level

    def _step(self, actions):
        self.kernel(self.prices, self.age, self.level)
        return self.level, self.age >= len(PRICES), np.zeros(self.num_envs, bool), {}


class Writes(Reads):
    kernel = advance_writing


class State(NamedTuple):
    total: np.float64


@jit
def reset_row(state, i):
    state.total[i] = 0.0


@jit
def step_row(state, i, action):
    state.total[i + 1] += action  # the next row's
    return state.total[i], False, False


@jit
def observe_row(state, i, observation):
    observation[0] = state.total[i]


class NextRow(KernelVecEnv):
    State = State
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = Box(-np.inf, np.inf, (), np.float64), Discrete(2)


@jit
def step_sometimes(state, i, action):
    if action == 1:
        over = False
    return state.total[i], over, False  # whatever is there


class NoFlag(NextRow):
    step_row = step_sometimes


#: Of each the call, and what is said of the index, the kernel and its line.
FAULTS = {
    Reads: ("step 6", "index 6 is out of bounds for axis 0 with size 6", price_row, "# read beyond"),
    Writes: ("step 6", "index 6 is out of bounds for axis 0 with size 6", advance_writing, "# written beyond"),
    NextRow: ("step 1", "index 7 is out of bounds for axis 0 with size 7", step_row, "# the next row's"),
}


@pytest.mark.parametrize(
    "market",
    [pytest.param(Reads, marks=pytest.mark.slow), Writes, pytest.param(NextRow, marks=pytest.mark.slow)],
    ids=lambda market: market.__name__,
)
def test_b7_an_index_beyond_an_array_is_named_with_kernel_and_line(market):
    call, message, kernel, mark = FAULTS[market]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number, source = next((k, line.strip()) for k, line in enumerate(lines, 1) if line.endswith("  " + mark))
    place = f"in {kernel.__name__}() ({__file__}, line {number}: {source})"
    expected = f"{call}: expected indexes within their arrays, got IndexError: {message}, {place}"
    assert check_vec_env(market, check_bounds=True) == [expected]


@pytest.mark.slow
def test_b5_a_flag_that_is_not_written_is_named():
    (problem,) = check_vec_env(NoFlag, check_bounds=True)
    expected = "step 1: expected variables that have a value where they are read, got UnboundLocalError: .*'over'.*"
    line = r"in step_sometimes\(\) \(.*: return state.total\[i\], over, False  # whatever is there\)"
    assert re.fullmatch(f"{expected}, {line}", problem)


@pytest.mark.slow
def test_b7_a_market_of_a_notebook_is_sent_to_the_other_process():
    class Here(Reads):
        def _step(self, actions):
            return super()._step(actions)

    (problem,) = check_vec_env(lambda n, **kwargs: Here(n, **kwargs), check_bounds=True)
    assert re.match("step 6: expected indexes within their arrays, got IndexError", problem)


@pytest.mark.slow
def test_b7_what_cannot_be_sent_is_a_hint(monkeypatch):
    class Short(Reads):
        def _step(self, actions):
            self.age[self.age == len(PRICES) - 2] = -1
            return super()._step(actions)

    stream = sys.stderr
    with monkeypatch.context() as patch:
        patch.setattr("sekai.testing.examination.count_rows", lambda reference, kernels: 30)
        findings = check_vec_env(lambda n, **kwargs: stream and Short(n, **kwargs), n_steps=10, check_bounds=True)
    (hint,) = [each for each in findings if "indexes" in each]
    assert hint.startswith(
        "hint: the kernels could not be run without compilation, so their indexes were not checked: TypeError"
    )


def test_b7_without_kernels_there_is_no_other_process(monkeypatch):
    class Plain(NativeVecEnv):
        def __init__(self, num_envs, **kwargs):
            super().__init__(num_envs, Box(-9, 9, (1,)), Discrete(2), **kwargs)

        def _reset_envs(self, indices, options):
            pass

        def _observe(self):
            return np.zeros((self.num_envs, 1), np.float32)

        def _step(self, actions):
            return np.zeros(self.num_envs), actions > 0, np.zeros(self.num_envs, bool), {}

    monkeypatch.setattr("subprocess.run", None)
    monkeypatch.setattr("sekai.testing.examination.count_rows", lambda reference, kernels: 30)
    findings = check_vec_env(Plain, n_steps=10, check_bounds=True)
    assert not [each for each in findings if "indexes" in each]
