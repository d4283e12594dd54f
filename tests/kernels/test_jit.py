"""The policy under which kernels are compiled."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from sekai.kernels import jit


@jit
def ratio(a, b):
    """One number by another."""
    return a / b


@jit
def is_nan(x):
    return math.isnan(x)


@jit
def add_up(values):
    total = 0.0
    for value in values:
        total += value
    return total


@jit
def ratios(numerators, denominators, out):
    for i in range(len(out)):
        out[i] = ratio(numerators[i], denominators[i])


def test_a_kernel_computes_what_the_function_does():
    assert ratio(3.0, 4.0) == 0.75 == getattr(ratio, "py_func", ratio)(3.0, 4.0)
    assert (ratio.__name__, ratio.__doc__) == ("ratio", "One number by another.")


def test_a_kernel_may_call_another():
    out = np.zeros(3)
    ratios(np.arange(3.0), np.full(3, 2.0), out)
    assert out.tolist() == [0.0, 0.5, 1.0]


def test_a_division_by_zero_is_numpys():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert ratio(np.float64(1.0), np.float64(0.0)) == np.inf
        assert math.isnan(ratio(np.float64(0.0), np.float64(0.0)))


def test_nan_checks_work():
    assert is_nan(math.nan) and not is_nan(math.inf)


def test_sums_keep_their_order():
    values = np.random.default_rng(0).standard_normal(1000) * 10.0 ** (np.arange(1000) % 12)
    total = 0.0
    for value in values.tolist():
        total += value
    assert add_up(values) == total != math.fsum(values)


def test_there_is_nothing_to_choose():
    with pytest.raises(TypeError, match="parallel"):
        jit(parallel=True)


@pytest.mark.parametrize("switch", ["NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_bounds_are_checked_on_demand_however_many_rows(switch):
    code = """
import numpy as np
from sekai.kernels import jit, jit_batch, set_num_threads

@jit
def read(x, i):
    return x[i]

@jit_batch()
def read_on(x, out):
    for i in range(len(out)):
        out[i] = x[i + 1]

set_num_threads(2)
for kernel, *arguments in ((read, np.zeros(3), 3), *((read_on, np.zeros(n), np.zeros(n)) for n in (3, 10_000))):
    try:
        kernel(*arguments)
    except IndexError:
        print("refused")
"""
    environ = {**os.environ, switch: "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.splitlines() == ["refused"] * 3
