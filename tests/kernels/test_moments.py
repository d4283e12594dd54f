"""Moments and normalised samples from the kernels: what NumPy gives, bit for bit the same on any number of threads."""

from __future__ import annotations

import itertools
import platform
import re
from fractions import Fraction

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sekai.kernels import get_num_threads, moments, set_num_threads
from sekai.kernels.jit import compile_kernel
from sekai.kernels.moments import column_moments, learn_and_normalize, normalize_columns, step_returns

LARGEST = 1e140
#: Numbers in more blocks than it takes for several threads, and a bit.
MANY = moments.LANES * moments.LENGTH * (moments.PARALLEL_FROM + 3) + 77

dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def on(num_threads, function):
    """What a function gives on some number of threads."""
    before = get_num_threads()
    set_num_threads(num_threads)
    try:
        return function()
    finally:
        set_num_threads(before)


def advance_returns(rewards, live, gamma, returns, largest, dones=None):
    """The moments of returns of which nothing is known yet."""
    dones = np.zeros(len(rewards), np.bool_) if dones is None else dones
    return step_returns(
        rewards, dones, live, gamma, returns, (0.0, 1.0, 0.0, False), largest, 1e-8, np.empty(len(rewards))
    )


def samples_of(n, width, dtype, mean=3.0):
    return np.random.default_rng(n + width).normal(mean, 2.0, (n, width)).astype(dtype)


# -- moments -----------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize(
    ("n", "width"),
    [
        *[(n, 1) for n in (1, 2, 127, 128, 129, 255, 256, 4095, 4096, 4097, 9000)],
        *[(n, 2) for n in (1, 63, 64, 65, 2048, 2049, 5000)],
        *[(700, width) for width in (3, 5, 7, 8, 31, 64)],
        *[(100, width) for width in (65, 127, 128, 129, 200)],
        (33, 1000),
    ],
)
def test_mean_and_variance_of_every_column(n, width, dtype):
    samples = samples_of(n, width, dtype)
    before = samples.copy()
    mean, var, in_range = column_moments(samples.reshape(-1), width, LARGEST)
    exact = samples.astype(np.float64)
    assert mean.shape == var.shape == (width,) and mean.dtype == var.dtype == np.float64 and in_range
    assert_allclose(mean, exact.mean(axis=0), rtol=1e-13)
    assert_allclose(var, exact.var(axis=0), rtol=1e-12)
    assert_array_equal(samples, before)


@pytest.mark.parametrize("mean", [1e6, -1e9, 1e12])
def test_the_variance_survives_a_large_mean(mean):
    samples = mean + np.arange(9000.0) % 7
    exact = [Fraction(value) for value in samples.tolist()]
    center = sum(exact) / len(exact)
    spread = sum((value - center) ** 2 for value in exact) / len(exact)
    got_mean, got_var, _ = column_moments(samples, 1, LARGEST)
    assert_allclose(got_mean, float(center), rtol=1e-15)
    of_the_rounded_mean = np.spacing(abs(mean)) ** 2
    assert_allclose(got_var, float(spread), rtol=1e-13, atol=of_the_rounded_mean)


def test_equal_numbers_have_no_variance():
    mean, var, _ = column_moments(np.full(9000, 2.5), 2, LARGEST)
    assert mean.tolist() == [2.5, 2.5] and var.tolist() == [0.0, 0.0]


def test_a_drift_from_block_to_block_is_variance():
    samples = np.repeat(np.arange(5.0), moments.LANES * moments.LENGTH)
    mean, var, _ = column_moments(samples, 1, LARGEST)
    assert_allclose([mean[0], var[0]], [2.0, 2.0], rtol=1e-14)


@dtypes
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 4999, 9999])
def test_moments_of_what_is_not_finite_are_not_in_range(dtype, value, place):
    samples = samples_of(5000, 2, dtype).reshape(-1)
    samples[place] = value
    mean, var, in_range = column_moments(samples, 2, LARGEST)
    assert not in_range
    other = 1 - place % 2
    assert np.isfinite(mean[other]) and np.isfinite(var[other])


def test_the_range_is_asked_of_means_and_deviations():
    assert column_moments(np.full(3000, 1e140), 1, 1.1e140)[2]
    assert not column_moments(np.full(3000, 1e140), 1, 0.9e140)[2]
    assert not column_moments(np.tile([1e141, -1e141], 1500), 1, LARGEST)[2]
    assert not column_moments(np.full(3000, 1e300), 1, LARGEST)[2]


# -- one result, whatever the threads ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", [1, 2, 3, 100])
def test_moments_do_not_depend_on_the_number_of_threads(dtype, width):
    samples = samples_of(-(-MANY // width), width, dtype).reshape(-1)
    one, two = (on(n, lambda: column_moments(samples, width, LARGEST)) for n in (1, 2))
    assert_array_equal(one[0], two[0])
    assert_array_equal(one[1], two[1])


def test_moments_do_not_depend_on_how_many_blocks_there_are_for_threads(monkeypatch):
    samples = samples_of(9000, 2, np.float32).reshape(-1)
    one = on(1, lambda: column_moments(samples, 2, LARGEST))
    monkeypatch.setattr(moments.block_moments, "parallel_from", 1)
    two = on(2, lambda: column_moments(samples, 2, LARGEST))
    assert_array_equal(one[:2], two[:2])


@pytest.mark.slow  # two forms of a large kernel, which measures its blocks as the one above does
@pytest.mark.parametrize("frozen", [False, True])
def test_returns_do_not_depend_on_the_number_of_threads(frozen):
    rng = np.random.default_rng(0)
    rewards, returns = rng.normal(size=MANY), rng.normal(size=MANY)
    rewards[[5, MANY // 2]] = np.nan
    live = rng.random(MANY) < 0.7 if frozen else None
    results = []
    for n in (1, 2):
        own = returns.copy()
        results.append((on(n, lambda own=own: advance_returns(rewards, live, 0.9, own, LARGEST)), own))
    (one, one_returns), (two, two_returns) = results
    assert one == two
    assert_array_equal(one_returns, two_returns)


@pytest.mark.slow  # two forms of a large kernel
def test_one_pass_does_not_depend_on_the_number_of_threads():
    samples = samples_of(-(-MANY // 2), 2, np.float32).reshape(-1)
    prior = (np.array([1.0, 2.0]), np.array([3.0, 4.0]), 0.25, 0.75)
    others, results = samples[:1000] + 1, []
    for n in (1, 2):
        outs = np.empty_like(samples), np.empty_like(others)
        mean, var = on(n, lambda outs=outs: learn_and_normalize(samples, others, prior, LARGEST, 1e-8, 1.5, *outs))
        results.append((mean, var, *outs))
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


# -- returns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 100, 4096, 10_000])
def test_returns_are_discounted_and_measured(n):
    rng = np.random.default_rng(n)
    rewards, returns = rng.normal(size=n), rng.normal(size=n)
    expected = returns * 0.99 + rewards
    mean, var, count = advance_returns(rewards, None, 0.99, returns, LARGEST)
    assert_array_equal(returns, expected)
    assert count == n
    assert_allclose([mean, var], [expected.mean(), expected.var()], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_not_finite_and_envs_that_stand_still_do_not_count(value):
    n = 10_000
    rng = np.random.default_rng(1)
    rewards, returns, live = rng.normal(size=n), rng.normal(size=n), rng.random(n) < 0.8
    rewards[[0, 4095, 4096, n - 1]] = value
    live[5000:] = True
    moved = live & np.isfinite(rewards)
    expected = np.where(moved, returns * 0.5 + rewards, returns)
    mean, var, count = advance_returns(rewards, live, 0.5, returns, LARGEST)
    assert_array_equal(returns, expected)
    assert count == moved.sum()
    assert_allclose([mean, var], [expected[moved].mean(), expected[moved].var()], rtol=1e-12)


def test_a_block_in_which_nothing_counts():
    n = 3 * moments.LANES * moments.LENGTH
    live = np.arange(n) >= 2 * moments.LANES * moments.LENGTH
    returns = np.zeros(n)
    mean, var, count = advance_returns(np.arange(float(n)), live, 1.0, returns, LARGEST)
    assert count == live.sum()
    assert_allclose([mean, var], [returns[live].mean(), returns[live].var()], rtol=1e-13)
    assert advance_returns(np.ones(n), np.zeros(n, np.bool_), 1.0, returns, LARGEST)[2] == 0
    assert advance_returns(np.full(n, np.nan), None, 1.0, returns, LARGEST)[2] == 0


@pytest.mark.parametrize("n", [100, 10_000])
def test_rewards_are_scaled_by_what_is_known_with_them_and_ended_returns_begin_again(n):
    rng = np.random.default_rng(n)
    rewards, returns, dones, out = rng.normal(size=n), rng.normal(size=n), rng.random(n) < 0.1, np.empty(n)
    expected = returns * 0.9 + rewards
    known = rng.normal(size=500)
    terms = (known.mean(), known.var(), 500.0, True)
    mean, var, count = step_returns(rewards, dones, None, 0.9, returns, terms, LARGEST, 0.5, out)
    every = np.concatenate([known, expected])
    assert count == n
    assert_allclose([mean, var], [every.mean(), every.var()], rtol=1e-12, atol=1e-15)
    assert_allclose(out, rewards / np.sqrt(every.var() + 0.5), rtol=1e-12)
    assert_array_equal(returns, np.where(dones, 0.0, expected))


def test_returns_too_large_go_on_but_do_not_count():
    returns = np.zeros(3000)
    rewards = np.ones(3000)
    rewards[:2] = 1e200, -1e150
    mean, var, count = advance_returns(rewards, None, 1.0, returns, LARGEST)
    assert (mean, var, count) == (1.0, 0.0, 2998)
    assert returns[:3].tolist() == [1e200, -1e150, 1.0]


# -- normalised samples ------------------------------------------------------------------------------------


SHORT, LONG = np.float32, np.float64


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "num_threads"),
    [
        (SHORT, SHORT, 2),
        (LONG, LONG, 1),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in itertools.product((SHORT, LONG), (SHORT, LONG), (1, 2))
            if each not in [(SHORT, SHORT, 2), (LONG, LONG, 1)]
        ),
    ],
)
@pytest.mark.parametrize(
    ("n", "width"), [(1, 1), (9000, 1), (5000, 2), (700, 3), (129, 129), (-(-MANY // 2), 2)], ids=str
)
def test_samples_are_normalised_as_numpy_would(n, width, dtype, out_dtype, num_threads, monkeypatch):
    monkeypatch.setattr(moments.normalize_blocks, "parallel_from", 1)
    samples = samples_of(n, width, dtype)
    rng = np.random.default_rng(0)
    mean, factor = rng.normal(size=width), rng.normal(size=width)
    samples[0], samples[-1, -1], samples[n // 2, 0] = np.inf, np.nan, -np.inf
    out = np.empty(samples.size, out_dtype)
    on(num_threads, lambda: normalize_columns(samples.reshape(-1), mean, factor, out))
    expected = ((samples.astype(np.float64) - mean) * factor).astype(out_dtype)
    assert_array_equal(out.reshape(samples.shape), expected)


def test_samples_are_normalised_in_place():
    samples = samples_of(3000, 2, np.float64).reshape(-1)
    expected = (samples - np.tile([1.0, 2.0], 3000)) * np.tile([3.0, 4.0], 3000)
    normalize_columns(samples, np.array([1.0, 2.0]), np.array([3.0, 4.0]), samples)
    assert_array_equal(samples, expected)


# -- the machine code --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "instruction"),
    [
        ("measure", (np.ones(8, np.float32), np.ones(8), np.ones(8), np.ones(2), np.ones(2)), r"vaddpd"),
        ("measure", (np.ones(8), np.ones(8), np.ones(8), np.ones(1), np.ones(1)), r"vmulpd"),
        ("advance", (np.ones(8), True, 0.5, np.ones(8), 1.0, np.ones(8)), r"vmulpd"),
        ("advance", (np.ones(8), np.ones(8, np.bool_), 0.5, np.ones(8), 1.0, np.ones(8)), r"vaddpd"),
    ],
)
def test_the_loops_are_vectorised(name, arguments, instruction, monkeypatch):
    monkeypatch.setenv("SEKAI_CACHE", "0")
    kernel, types = getattr(moments, name), tuple(map(numba.typeof, arguments))
    if not numba.config.DISABLE_JIT and kernel.stats.cache_hits[types]:
        kernel = compile_kernel(kernel.py_func)  # numba has no assembly of what it read from disk
    kernel(*arguments)
    if numba.config.DISABLE_JIT or platform.machine().lower() not in ("x86_64", "amd64"):
        return
    assembly = kernel.inspect_asm(types)
    assert re.search(rf"^\s+{instruction}\s.*%[yz]mm", assembly, re.MULTILINE)
