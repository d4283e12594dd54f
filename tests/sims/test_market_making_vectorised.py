"""The loops of the quoting market are vectorised: seen in the machine code, not in a time."""

from __future__ import annotations

import platform
import re

import numba
import numpy as np
import pytest

from sekai.kernels.jit import compile_kernel
from sims.market_making import MarketMakingVecEnv, kernels, records
from sims.market_making.terms import derive_rates, make_terms

N = 4
PACKED = re.compile(r"^\s+v?\w+[ \t]+.*%[xyz]mm", re.MULTILINE)
#: Arithmetic on packed numbers: of single and double precision, and the products of 32-bit words.
ARITHMETIC = {
    "read_quotes": ("cmp|max|blend|and",),
    "draw_words": ("pmuludq",),
    "fill_quotes": (r"mulps|mul\w*ps|fmadd\w*ps", r"sqrtps"),
    "move_mid": (r"mulpd|fmadd\w*pd",),
    "observe_market_making": (r"divps",),
    "reward_inventory": (r"mulpd|fmadd\w*pd",),
}
#: Names of the C library's functions, which keep a loop from being vectorised.
LIBM = re.compile(r"\b(expf?|exp2f?|logf?|log1pf?|expm1f?|sinf?|cosf?|sincosf?|powf?)\b")


def arguments(name):
    vec = MarketMakingVecEnv(N)
    vec.reset(seed=0)
    scratch = np.zeros((5, N), dtype=np.float32)
    words = np.zeros((4, N), dtype=np.uint32)
    flags = np.zeros(N, dtype=np.bool_)
    state = records.State(*(np.zeros(N) for _ in range(4)))
    observations = np.zeros((N, 2), dtype=np.float32)
    outcome = records.Outcome(np.zeros(N), flags, flags.copy(), flags.copy(), flags.copy(), observations)
    terms, rates = make_terms(vec.params), derive_rates(vec.params, vec.parameter_values.now)
    random = vec.streams
    began, step = vec.episode_clock.began, np.uint64(1)
    return {
        "read_quotes": (observations, np.float32(0.0), scratch[0], scratch[1], flags),
        "draw_words": (random, step, words),
        "fill_quotes": (words, rates, True, *scratch),
        "move_mid": (terms, rates, state.mid, began, 0, scratch[4], random.key, random.counter, state.cash),
        "observe_market_making": (terms, rates, state, began, 1, observations, flags),
        "reward_inventory": (terms, state, outcome),
    }[name]


def assembly_of(name, monkeypatch):
    monkeypatch.setenv("SEKAI_CACHE", "0")  # numba has no assembly of what it read from disk
    kernel = compile_kernel(getattr(kernels, name).py_func)
    kernel(*arguments(name))
    (assembly,) = kernel.inspect_asm().values()
    return assembly


@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_stage_of_the_step_computes_on_packed_numbers(name, monkeypatch):
    if numba.config.DISABLE_JIT:
        getattr(kernels, name)(*arguments(name))  # there is no machine code; at least it runs
        return
    assembly = assembly_of(name, monkeypatch)
    assert not LIBM.search(assembly)
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return  # the names below are of that architecture
    packed = "\n".join(PACKED.findall(assembly))
    for pattern in ARITHMETIC[name]:
        assert re.search(pattern, packed), f"{name}: no packed {pattern}"


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
