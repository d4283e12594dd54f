"""The loop over rows of the quoting market is vectorised: seen in the machine code, not in a time."""

from __future__ import annotations

import platform
import re

import numba
import numpy as np
import pytest

from sekai.kernels.jit import compile_kernel
from sekai.testing.kernels import find_forms
from sekai.testing.reach import find_kernels
from sims.market_making import MarketMakingVecEnv

PACKED = re.compile(r"^\s+v?\w+[ \t]+.*%[xyz]mm", re.MULTILINE)
#: Arithmetic on packed numbers: products of 32-bit words, roots, products and quotients of floats.
ARITHMETIC = ("pmuludq", "sqrtps", r"mulps|fmadd\w*ps", r"mulpd|fmadd\w*pd", "divps")
#: Names of the C library's functions, which keep a loop from being vectorised.
LIBM = re.compile(r"\b(expf?|exp2f?|logf?|log1pf?|expm1f?|sinf?|cosf?|sincosf?|powf?)\b")

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    "terms",
    [
        {},
        pytest.param(
            {"midprice": "geometric", "volatility": 0.02, "fill_rule": "exact", "reward": "running_penalty"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["brownian", "geometric"],
)
def test_the_step_computes_on_packed_numbers(terms):
    if numba.config.DISABLE_JIT:
        return  # there is no machine code
    vec = MarketMakingVecEnv(4, **terms)
    vec.reset(seed=0)
    vec.step(np.zeros((4, 2), np.float32))
    (assembly,) = [form.compiled.inspect_asm(form.signature) for form in find_forms(find_kernels(vec)) if form.is_batch]
    assert not LIBM.search(assembly)
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return  # the names below are of that architecture
    packed = "\n".join(PACKED.findall(assembly))
    for pattern in ARITHMETIC:
        assert re.search(pattern, packed), f"no packed {pattern}"


def test_a_loop_that_is_not_vectorised_would_be_seen(monkeypatch):
    if numba.config.DISABLE_JIT:
        return

    def chase(x):
        for i in range(1, len(x)):
            x[i] = x[i - 1] * x[i] + 1.0

    kernel = compile_kernel(chase)
    monkeypatch.setenv("SEKAI_CACHE", "0")
    kernel(np.ones(8))
    (assembly,) = kernel.inspect_asm().values()
    assert not re.search(r"mulpd|fmadd\w*pd", assembly)
