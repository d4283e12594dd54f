"""Kernels over rows: the same numbers serially, in parallel and in plain Python, whatever the rows are given as."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sekai.kernels import get_num_threads, item_at, jit, jit_batch, set_num_threads

BLOCK, PARALLEL_FROM = 16, 40
SIZES = [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, PARALLEL_FROM - 1, PARALLEL_FROM, PARALLEL_FROM + 1, 1000, 10_000]

small = {"block": BLOCK, "parallel_from": PARALLEL_FROM}


class Book(NamedTuple):
    bid: Any
    ask: Any


class Account(NamedTuple):
    book: Book
    cash: Any


@jit
def midpoint(low, high):
    return 0.5 * (low + high)


@jit_batch(shared="prices terms", **small)
def settle(account, columns, weights, prices, terms, factor, bonus, out, wide):
    for i in range(len(out)):
        mid = midpoint(account.book.bid[i], account.book.ask[i])
        level = item_at(account.cash, i) + columns[0][i] * mid - columns[1][0][i]
        for k in range(len(prices)):
            level += np.sqrt(prices[k]) * weights[i, k] / 3.0
            wide[i, k] = level
        if bonus is not None:
            level += 1e-3
        out[i] = level * factor + terms.bid[0] - terms.ask


@jit_batch(**small)
def shift(x, out):
    for i in range(len(out)):
        out[i] = x[i] + 0.1


shift_rows = shift.kernel


@jit_batch(**small)
def shift_twice(x, between, out):
    shift_rows(x, between)
    shift_rows(between, out)


@jit_batch(shared=["table"], **small)
def look_up(position, table, out):
    for i in range(len(out)):
        out[i] = table[position[i]]


@pytest.fixture(autouse=True)
def threads():
    """Gives the number of threads back."""
    before = get_num_threads()
    yield
    set_num_threads(before)


def settle_arguments(n):
    rng = np.random.default_rng(n)
    account = Account(Book(rng.random(n), rng.random(n)), rng.random(n))
    terms = Book(np.array([0.3, 9.0]), 0.7)
    rows = (rng.random(n), (rng.random(n),))
    return [
        account,
        rows,
        rng.random((n, 3)),
        rng.random(3),
        terms,
        1.7,
        None,
        np.full(n, np.nan),
        np.full((n, 3), 9.0),
    ]


# -- the same numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_serial_parallel_and_plain_python_agree_to_the_bit(n):
    expected = settle_arguments(n)
    settle.py_func(*expected)
    for num_threads in (1, 2):
        set_num_threads(num_threads)
        arguments = settle_arguments(n)
        assert settle(*arguments) is None
        assert_array_equal(arguments[-2], expected[-2], strict=True)
        assert_array_equal(arguments[-1], expected[-1], strict=True)
        for given, kept in zip(arguments[:-2], expected[:-2], strict=True):
            assert str(given) == str(kept)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_every_row_is_done_once(num_threads):
    set_num_threads(num_threads)

    @jit_batch(**small)
    def count(seen):
        for i in range(len(seen)):
            seen[i] += 1

    for n in SIZES:
        seen = np.zeros(n, dtype=np.int64)
        count(seen)
        assert (seen == 1).all()


N = 100
ROWS = np.random.default_rng(1).random((N, 3))


@jit_batch(**small)
def combine(x, weights, bonus, out):
    for i in range(len(out)):
        out[i] = item_at(x, i) * weights[i, 1]
        if bonus is not None:
            out[i] += bonus


@pytest.mark.parametrize(
    ("x", "weights", "bonus"),
    [
        (0.5, ROWS, None),
        (np.float64(0.5), ROWS, 2.0),
        (ROWS[:, 0], np.asfortranarray(ROWS), None),
        (ROWS[::-1, 0].copy()[::-1], np.repeat(ROWS, 2, axis=0)[::2], 2),
        (np.arange(N), np.arange(3 * N).reshape(N, 3) % 2 == 0, True),
    ],
    ids=["a scalar", "a NumPy scalar", "Fortran's order", "strided", "integers and flags"],
)
def test_rows_may_be_given_as(x, weights, bonus):
    serial, parallel, expected = np.zeros(N), np.zeros(N), np.zeros(N)
    combine.py_func(x, weights, bonus, expected)
    set_num_threads(1)
    combine(x, weights, bonus, serial)
    set_num_threads(2)
    combine(x, weights, bonus, parallel)
    assert_array_equal(serial, expected)
    assert_array_equal(parallel, expected)


def test_rows_may_be_read_only():
    x, out = np.arange(float(N)), np.zeros(N)
    x.flags.writeable = False
    shift(x, out)
    assert_array_equal(out, x + 0.1)


def test_tuples_may_be_of_any_structure():
    set_num_threads(1)

    @jit_batch(**small)
    def first_of(columns, out):
        for i in range(len(out)):
            out[i] = columns[0][i]

    n = 50
    rows = np.arange(n, dtype=float)
    for columns in ((rows,), (rows, rows), (rows, (rows, 2.0)), (rows, (rows, rows, rows)), Book(rows, None)):
        out = np.zeros(n)
        first_of(columns, out)
        assert_array_equal(out, rows)


def test_every_array_in_a_tuple_is_a_column():
    set_num_threads(1)

    @jit_batch(**small)
    def last_of(columns, out):
        for i in range(len(out)):
            out[i] = columns[-1][-1][i]

    n = 50
    rows = np.arange(n, dtype=float)
    for columns in ((rows, (rows, 2 * rows)), (rows, (rows, rows, 3 * rows))):
        out = np.zeros(n)
        last_of(columns, out)
        assert_array_equal(out, columns[-1][-1])


def test_a_shared_array_of_another_length_is_whole_in_every_block():
    for num_threads in (1, 2):
        set_num_threads(num_threads)
        position, table, out = np.arange(100)[::-1].copy(), np.arange(1000.0), np.zeros(100)
        look_up(position, table, out)
        assert_array_equal(out, position)


def test_a_kernel_is_called_from_another_by_its_kernel():
    for n in (5, 100):
        x, between, out = np.arange(float(n)), np.zeros(n), np.zeros(n)
        shift_twice(x, between, out)
        assert_array_equal(between, x + 0.1)
        assert_array_equal(out, x + 0.1 + 0.1)


def test_the_function_is_there_as_it_was_written():
    def advance(x):
        """Move on."""

    kernel = jit_batch(block=8, parallel_from=99)(advance)
    assert kernel.py_func is advance
    assert (kernel.__name__, kernel.__doc__, kernel.block, kernel.parallel_from) == ("advance", "Move on.", 8, 99)


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 100])
def test_columns_of_different_lengths_are_refused_before_anything_is_done(n):
    out = np.zeros(n + 1)
    message = rf"shift: expected as many rows in each array, got {{'x': \[{n}\], 'out': \[{n + 1}\]}}"
    with pytest.raises(ValueError, match=message):
        shift(np.zeros(n), out)
    assert not out.any()
    arguments = settle_arguments(n)
    arguments[0] = Account(Book(np.zeros(n), np.zeros(n - 1)), 0.0)
    with pytest.raises(ValueError, match=rf"settle: .*'account': \[{n - 1}, {n}\]"):
        settle(*arguments)


def test_another_number_of_arguments_is_refused():
    with pytest.raises(TypeError, match=r"shift: expected 2 arguments \('x', 'out'\), got 1"):
        shift(np.zeros(3))
    with pytest.raises(TypeError, match=r"shift: expected 2 arguments \('x', 'out'\), got 3"):
        shift(np.zeros(3), np.zeros(3), np.zeros(3))


def test_arguments_without_rows_are_refused():
    with pytest.raises(ValueError, match="shift: expected an array in 'x' or 'out', got none"):
        shift(1.0, 2.0)
    with pytest.raises(ValueError, match="look_up: expected an array in 'position' or 'out', got none"):
        look_up(1, np.zeros(3), None)


def test_a_list_is_no_column():
    with pytest.raises(TypeError, match="shift: x: expected an array, a scalar or a tuple of them, got list"):
        shift([0.0] * 100, np.zeros(100))
    with pytest.raises(TypeError, match="settle: account: expected an array, a scalar or a tuple of them, got list"):
        settle(Account(Book([0.0], np.zeros(1)), 0.0), *settle_arguments(1)[1:])


@pytest.mark.parametrize("value", [{"price": 1.0}, object()], ids=["dict", "object"])
def test_what_numba_has_no_type_for_is_refused(value):
    with pytest.raises(TypeError, match=f"look_up: table: expected an array, .*, got {type(value).__name__}"):
        look_up(np.zeros(3, dtype=np.int64), value, np.zeros(3))
    with pytest.raises(TypeError, match=f"shift: x: expected an array, .*, got {type(value).__name__}"):
        shift(value, np.zeros(3))


def test_a_shared_argument_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"jit_batch\(shared=\.\.\.\): .*shift has no argument 'y'"):
        jit_batch(shared="x y")(shift.py_func)


def test_a_kernel_without_an_argument_with_rows_is_refused():
    with pytest.raises(ValueError, match=r"jit_batch\(shared=\.\.\.\): expected .*shift to have an argument with rows"):
        jit_batch(shared=("x", "out"))(shift.py_func)


@pytest.mark.parametrize("name", ["block", "parallel_from"])
@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)])
def test_sizes_are_counts(name, value, error):
    with pytest.raises(error, match=rf"jit_batch\({name}=\.\.\.\): expected "):
        jit_batch(**{name: value})


@pytest.mark.parametrize("n", [3, 100])
def test_what_does_not_compile_says_why(n):
    @jit_batch(**small)
    def wrong(x):
        for i in range(len(x)):
            x[i] = nowhere(x[i])  # noqa: F821

    with pytest.raises(NameError if numba.config.DISABLE_JIT else numba.TypingError, match="nowhere") as raised:
        wrong(np.zeros(n))
    if not numba.config.DISABLE_JIT:
        line = wrong.py_func.__code__.co_firstlineno
        assert f"wrong ({__file__}, line {line}): " in str(raised.value) and "drivers" not in str(raised.value)


def test_fields_named_like_those_of_other_arguments():
    class Inner(NamedTuple):
        c: np.ndarray

    class Outer(NamedTuple):
        b: Inner
        b_c: np.ndarray

    @jit_batch(**small)
    def add(a, a_b, a_0, out):
        for i in range(len(out)):
            out[i] = a.b.c[i] + 10 * a.b_c[i] + 100 * a_b.c[i] + 1000 * a_0.c[i]

    for count in (3, 100):
        ones, out = np.ones(count), np.zeros(count)
        add(Outer(Inner(ones), 2 * ones), Inner(3 * ones), Inner(4 * ones), out)
        assert (out == 4321.0).all()


# -- threads and processes -----------------------------------------------------------------------------------


def test_the_users_number_of_numba_threads_is_left_alone():
    most = numba.config.NUMBA_NUM_THREADS
    before = numba.get_num_threads()
    try:
        for users in {1, most}:
            numba.set_num_threads(users)
            for num_threads in (1, 2):
                set_num_threads(num_threads)
                shift(np.zeros(100), np.zeros(100))
                assert numba.get_num_threads() == users
                with pytest.raises(ValueError, match="rows"):
                    shift(np.zeros(100), np.zeros(99))
                assert numba.get_num_threads() == users
    finally:
        numba.set_num_threads(before)


def test_two_threads_may_call_kernels_at_the_same_time():
    set_num_threads(2)
    start, wrong = threading.Barrier(2), []

    def work(offset):
        x, out = np.arange(3000.0) + offset, np.zeros(3000)
        start.wait()
        for _ in range(100):
            out[:] = 0.0
            shift(x, out)
            if not (out == x + 0.1).all():
                wrong.append(offset)

    workers = [threading.Thread(target=work, args=(offset,)) for offset in (0.0, 1e6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def run(code, **environ):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environ},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_bounds_are_checked_on_demand_however_many_rows():
    code = """
    import numpy as np
    from sekai.kernels import jit_batch, set_num_threads

    @jit_batch()
    def read_on(x, out):
        for i in range(len(out)):
            out[i] = x[i + 1]

    set_num_threads(2)
    for n in (3, 10_000):
        try:
            read_on(np.zeros(n), np.zeros(n))
        except IndexError:
            print("refused")
    """
    assert run(code, NUMBA_BOUNDSCHECK="1") == ["refused", "refused"]


def test_two_threads_at_once_where_numba_can_only_run_one():
    code = """
    import threading
    import numba
    import numpy as np
    from sekai.kernels import jit_batch, set_num_threads

    @jit_batch(block=16, parallel_from=40)
    def shift(x, out):
        for i in range(len(out)):
            out[i] = x[i] + 1.0

    def work():
        start.wait()
        for _ in range(200):
            out = np.zeros(20_000)
            shift(np.ones(20_000), out)
            sums.append(out.sum())

    set_num_threads(2)
    start, sums = threading.Barrier(2), []
    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sums == [40_000.0] * 400, bool(numba.config.DISABLE_JIT) or numba.threading_layer() == "workqueue")
    """
    assert run(code, NUMBA_THREADING_LAYER="workqueue") == ["True True"]


@jit_batch(block=16)
def shift_far(x, out):
    for i in range(len(out)):
        out[i] = x[i] + 0.1


def test_large_batches_are_spread_where_that_is_quicker_and_numbers_do_not_tell():
    set_num_threads(2)
    x = np.arange(20_000.0)
    for fewer in range(40):  # no two numbers of rows are the same
        out = np.zeros(20_000 - fewer)
        shift_far(x[fewer:], out)
        assert (out == x[fewer:] + 0.1).all()
    compiled = [bool(each.overloads) for each in shift_far.dispatchers] if not numba.config.DISABLE_JIT else [True] * 2
    assert compiled == [True, True]  # both ways have been tried


@pytest.mark.parametrize("n", [3, 100])
def test_what_a_kernel_raises_is_the_same_on_one_thread_and_on_two(n):
    @jit_batch(**small)
    def refuse(x):
        for i in range(len(x)):
            if x[i] > 0.0:
                raise ValueError("above 0")

    set_num_threads(2)
    with pytest.raises(ValueError, match="above 0"):
        refuse(np.ones(n))


def test_used_bare_or_with_options():
    @jit_batch
    def bare(x, out):
        for i in range(len(out)):
            out[i] = x[i] + 0.1

    for kernel in (bare, jit_batch()(bare.py_func)):
        out = np.zeros(3)
        kernel(np.ones(3), out)
        assert out.tolist() == [1.1] * 3


def test_a_forked_process_runs_kernels_after_its_parent_ran_them_on_threads():
    code = """
    import multiprocessing, warnings
    import numpy as np
    from sekai.kernels import get_num_threads, jit_batch, set_num_threads

    @jit_batch(block=16, parallel_from=40)
    def shift(x, out):
        for i in range(len(out)):
            out[i] = x[i] + 1.0

    def work(wanted):
        set_num_threads(wanted)
        out = np.zeros(10_000)
        shift(np.ones(10_000), out)
        return get_num_threads(), int(out.sum())

    warnings.simplefilter("ignore")
    set_num_threads(2)
    before = work(2)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map_async(work, [1, 2]).get(timeout=60), work(2) == before == (2, 20000))
    """
    assert run(code) == ["[(1, 20000), (1, 20000)] True"]


@jit_batch(shared="n")
def named_like_the_driver(n, num_threads, start, stop, lo, hi, thread):
    for i in range(len(start)):
        thread[i] = n * (num_threads[i] + start[i] + stop[i] + lo[i] + hi[i])


@pytest.mark.parametrize("count", [3, 10_000])
def test_arguments_may_have_any_name(count):
    columns = [np.full(count, float(k)) for k in range(5)]
    out = np.zeros(count)
    named_like_the_driver(2.0, *columns, out)
    assert (out == 20.0).all()
