"""The policy under which kernels are compiled."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from sekai.kernels import jit


@jit
def ratio(a, b):
    return a / b


@jit
def is_nan(x):
    return math.isnan(x)


@jit(parallel=True)
def double_rows(values, out):
    for i in numba.prange(len(values)):
        out[i] = 2.0 * values[i]


def test_a_kernel_computes_what_the_function_does():
    assert ratio(3.0, 4.0) == 0.75 == getattr(ratio, "py_func", ratio)(3.0, 4.0)
    assert ratio.__name__ == "ratio"


def test_a_division_by_zero_is_numpys():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert ratio(np.float64(1.0), np.float64(0.0)) == np.inf
        assert math.isnan(ratio(np.float64(0.0), np.float64(0.0)))


def test_nan_checks_work():
    assert is_nan(math.nan) and not is_nan(math.inf)


def test_parallel_is_an_option():
    values, out = np.arange(5.0), np.zeros(5)
    double_rows(values, out)
    assert out.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("switch", ["NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_bounds_are_checked_on_demand(switch):
    code = (
        "import numpy as np\n"
        "from sekai.kernels import jit\n"
        "@jit\n"
        "def read(x, i): return x[i]\n"
        "try: read(np.zeros(3), 3)\n"
        "except IndexError: print('refused')\n"
    )
    environ = {**os.environ, switch: "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.strip() == "refused"
