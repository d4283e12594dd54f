"""The policy under which kernels are compiled."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from sekai.kernels import jit, prefetch, scratch
from sekai.kernels.jit import uncached


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


ROOM = 8


@jit(allocates=False)
def reversed_sum(values):
    """The sum of the first values, each times its place in an array of its own."""
    room, places = scratch(ROOM, np.float64), scratch(ROOM, np.int32)
    for k in range(ROOM):
        room[ROOM - 1 - k], places[k] = values[k], k
    total = 0.0
    for k in range(ROOM):
        total += room[k] * places[k]
    return total


@jit(allocates=False)
def two_sums(values):
    return reversed_sum(values) - reversed_sum(values[1:])


def test_scratch_is_an_array_of_the_function_alone():
    values = np.arange(9.0) ** 2
    first, second = ((values[k : k + ROOM][::-1] * np.arange(ROOM)).sum() for k in (0, 1))
    assert (reversed_sum(values), two_sums(values)) == (first, first - second)


@pytest.mark.compiled
def test_the_size_of_scratch_is_in_the_source():
    @jit
    def of_size(n):
        return scratch(n, np.float64)[0]

    with pytest.raises(numba.TypingError, match="scratch: expected a number of items that is in the source"):
        of_size(3)


@pytest.mark.compiled
@pytest.mark.parametrize("count, dtype", [(0, np.float64), (-1, np.float64), (2**20, np.int8), (8, "f8")], ids=str)
def test_scratch_is_no_more_than_a_stack_holds(count, dtype):
    @jit
    def make():
        return scratch(count, dtype)[0]

    with pytest.raises(numba.TypingError, match="scratch: expected"):
        make()


def test_prefetch_changes_nothing():
    @jit
    def first(values):
        prefetch(values, 2)
        return values[0]

    assert first(np.arange(3.0)) == 0.0


@pytest.mark.compiled
def test_prefetch_takes_one_axis_in_a_row():
    @jit
    def ask(values):
        prefetch(values, 0)

    for values in (np.zeros((2, 2)), np.zeros(4)[::2]):
        with pytest.raises(numba.TypingError, match="prefetch: expected a C-contiguous array of one axis"):
            ask(values)


@jit
def halves(values):
    return values[: len(values) // 2]


@jit(allocates=False)
def same(values):
    return values


@jit(allocates=False)
def first_of_same(values):
    return same(values)[0]


@pytest.mark.compiled
def test_arrays_are_returned_among_functions_that_count_alike():
    values = np.arange(4.0)
    assert first_of_same(values) == 0.0

    @jit(allocates=False)
    def uncounted(values):
        return halves(values)[0]

    @jit
    def counted(values):
        return same(values)[0]

    for function, message in ((uncounted, "halves: expected .* got allocates=True"), (counted, "same: .*=False")):
        with pytest.raises(numba.TypingError, match=message):
            function(values)
    with pytest.raises(TypeError, match="same: jit.allocates=False.: expected .* from compiled code alone"):
        same(values)


@pytest.mark.compiled
def test_a_function_that_allocates_cannot_say_that_it_does_not():
    @jit(allocates=False)
    def make(n):
        return np.zeros(n).sum()

    with pytest.raises(numba.TypingError, match=r"np\.zeros"):
        make(3)


@jit
def item(values, k):
    return values[k]


@jit
def second_of(a):
    return item((a, 1.5, True), 1)


def test_a_helper_reads_an_item_of_a_mixed_tuple():
    assert second_of(np.zeros(2)) == 1.5


@pytest.mark.compiled
def test_a_number_in_the_source_is_compiled_as_any_other():
    @jit
    def twice(x):
        return x + x

    twice = uncached(twice)

    @jit
    def of_both(x):
        return twice(1) + twice(2) + twice(x)

    assert uncached(of_both)(3) == 12
    assert len(twice.signatures) == 1


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
