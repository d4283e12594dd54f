"""Kernels over rows: the same numbers serially, in parallel and in plain Python, whatever the rows are given as."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from typing import Any, NamedTuple

import cloudpickle
import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sekai import Box, Discrete, NativeVecEnv
from sekai.kernels import get_num_threads, item_at, jit, jit_batch, set_num_threads

BLOCK, PARALLEL_FROM = 16, 40
SIZES = [2, 7, BLOCK - 1, BLOCK, BLOCK + 1, PARALLEL_FROM - 1, PARALLEL_FROM, PARALLEL_FROM + 1, 1000, 10_000]

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
def settle(account, columns, weights, prices, terms, factor, bonus, fee, out, wide):
    for i in range(len(out)):
        mid = midpoint(account.book.bid[i], account.book.ask[i])
        level = item_at(account.cash, i) + columns[0][i] * mid - columns[1][0][i]
        if columns[1][1][i]:
            level -= item_at(columns[2], i)
        for k in range(len(prices)):
            level += np.sqrt(prices[k]) * weights[i, k] / 3.0
            wide[i, k] += level  # so that a row that is done twice shows
        if bonus is not None:
            level += 1e-3
        if fee is not None:
            level -= fee
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
    """Rows given in all the ways there are, from the two on that it takes for NumPy to call a column strided."""
    rng = np.random.default_rng(n)
    strided = rng.random(2 * n)[::-2]
    strided.flags.writeable = False
    return [
        Account(Book(strided, rng.random(n)), rng.random(n)),
        (rng.random(n), (rng.random(n), np.arange(n) % 3 == 0), 0.25),
        np.asfortranarray(rng.integers(9, size=(n, 3))),
        rng.random(3),
        Book(np.array([0.3, 9.0]), 0.7),
        np.float64(1.7),
        None,
        2,
        np.full(n, np.nan),
        np.full((n, 3), 9.0),
    ]


# -- the same numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_serial_parallel_and_plain_python_do_every_row_once_and_agree_to_the_bit(n):
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


@pytest.mark.parametrize("n", [0, 1])
def test_there_may_be_no_rows_or_one(n):
    for num_threads in (1, 2):
        set_num_threads(num_threads)
        x, out = np.full(n, 2.0), np.zeros(n)
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
    for columns in ((rows,), (rows, rows), Book(rows, None)):
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
    for columns in ((rows, (rows, 2 * rows)), (rows, (rows, 2.0, 3 * rows))):
        out = np.zeros(n)
        last_of(columns, out)
        assert_array_equal(out, columns[-1][-1])


def test_a_shared_array_of_another_length_is_whole_in_every_block():
    set_num_threads(1)
    position, table, out = np.arange(100)[::-1].copy(), np.arange(1000.0), np.zeros(100)
    look_up(position, table, out)
    assert_array_equal(out, position)


def test_a_kernel_is_called_from_another_by_its_kernel():
    set_num_threads(1)
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
    account, other = arguments[0], settle_arguments(n - 1)[0]
    arguments[0] = Account(Book(account.book.bid, other.book.ask), account.cash)
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

    with pytest.raises(NameError if numba.config.DISABLE_JIT else TypeError, match="nowhere") as raised:
        wrong(np.zeros(n))
    if not numba.config.DISABLE_JIT:
        line = wrong.py_func.__code__.co_firstlineno
        assert f"wrong ({__file__}, line {line}): " in str(raised.value) and "drivers" not in str(raised.value)


def plain_helper(x):
    return x


@pytest.mark.compiled
def test_what_does_not_compile_is_told_in_one_line_with_its_source():
    @jit_batch
    def assigns(account, x):
        for i in range(len(x)):
            account.cash = x[i]

    @jit_batch
    def misspells(account, x):
        for i in range(len(x)):
            x[i] = account.book.bids[i]

    @jit_batch
    def calls(account, x):
        for i in range(len(x)):
            x[i] = plain_helper(x[i])

    x = np.zeros(3)
    for kernel, after, reason in (
        (assigns, 3, "expected no assignment to a field of a named tuple, got one to Account.cash; .*account.cash ="),
        (misspells, 3, r"Book has no field 'bids', expected one of: bid, ask \(.*x\[i\] = account.book.bids\[i\]\)"),
        (calls, 3, "plain_helper is a plain Python function, expected one compiled by sekai.kernels.jit"),
    ):
        with pytest.raises(TypeError) as raised:
            kernel(Account(Book(x, x), x), x)
        message, line = str(raised.value), kernel.py_func.__code__.co_firstlineno
        assert re.match(rf"{kernel.__name__} \(.*test_jit_batch\.py, line {line}\): {reason}", message), message
        assert f"(test_jit_batch.py, line {line + after}: " in message and "\n" not in message


class Inner(NamedTuple):
    c: Any


class Outer(NamedTuple):
    b: Inner
    b_c: Any


@jit_batch(shared="n num_threads lo", **small)
def named_like_the_driver(n, num_threads, start, stop, lo, hi, a, a_b, a_0, thread):
    for i in range(len(thread)):
        thread[i] = n * (num_threads + start[i] + item_at(stop, i) + lo + item_at(hi, i))
        thread[i] += 100 * a.b.c[i] + 1000 * a.b_c[i] + 10_000 * a_b.c[i] + 100_000 * a_0.c[i]


def test_arguments_and_their_fields_may_have_any_name():
    set_num_threads(2)  # for the form with more names of its own
    start, b, b_c, c, other_c, out = (np.full(100, float(k)) for k in range(6))
    named_like_the_driver(2.0, 6.0, start, 7.0, 8.0, 9.0, Outer(Inner(b), b_c), Inner(c), Inner(other_c), out)
    assert (out == 432_160.0).all()


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
    """What a fresh process prints, which may import this file, and with it kernels from the disk."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__), **environ},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_two_threads_at_once_where_numba_can_only_run_one():
    code = """
    import threading
    import numba
    import numpy as np
    from sekai.kernels import set_num_threads
    from test_jit_batch import shift

    def work():
        start.wait()
        for _ in range(200):
            out = np.zeros(20_000)
            shift(np.ones(20_000), out)
            right.append((out == 1.1).all())

    set_num_threads(2)
    start, right = threading.Barrier(2), []
    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(right == [True] * 400, bool(numba.config.DISABLE_JIT) or numba.threading_layer() == "workqueue")
    """
    assert run(code, NUMBA_THREADING_LAYER="workqueue") == ["True True"]


shift_far = jit_batch(block=BLOCK)(shift.py_func)


def test_large_batches_are_spread_where_that_is_quicker_and_numbers_do_not_tell():
    set_num_threads(2)
    x = np.arange(20_000.0)
    for fewer in range(40):  # no two numbers of rows are the same
        out = np.zeros(20_000 - fewer)
        shift_far(x[fewer:], out)
        assert (out == x[fewer:] + 0.1).all()
    compiled = [bool(each.overloads) for each in shift_far.dispatchers] if not numba.config.DISABLE_JIT else [True] * 2
    assert compiled == [True, True]  # both ways have been tried


@jit_batch(**small)
def refuse(x):
    for i in range(len(x)):
        if x[i] > 0.0:
            raise ValueError("above 0")


@pytest.mark.parametrize("n", [3, 100])
def test_what_a_kernel_raises_is_the_same_on_one_thread_and_on_two(n):
    set_num_threads(2)
    with pytest.raises(ValueError, match="above 0"):
        refuse(np.ones(n))


def test_used_bare_or_with_options():
    for kernel in (jit_batch(shift.py_func), jit_batch()(shift.py_func)):
        out = np.zeros(3)
        kernel(np.ones(3), out)
        assert out.tolist() == [1.1] * 3


def test_a_forked_process_runs_kernels_after_its_parent_ran_them_on_threads():
    code = """
    import multiprocessing, warnings
    import numpy as np
    from sekai.kernels import get_num_threads, set_num_threads
    from test_jit_batch import shift

    def work(wanted):
        set_num_threads(wanted)
        out = np.zeros(10_000)
        shift(np.ones(10_000), out)
        return get_num_threads(), int((out == 1.1).sum())

    warnings.simplefilter("ignore")
    set_num_threads(2)
    before = work(2)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map_async(work, [1, 2]).get(timeout=600), work(2) == before == (2, 10000))
    """
    assert run(code) == ["[(1, 10000), (1, 10000)] True"]


# -- copies and pickles --------------------------------------------------------------------------------------------


class Shifter(NativeVecEnv):
    """A market that holds its kernel."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, Box(-np.inf, np.inf, (), np.float64), Discrete(2), **kwargs)
        self.advance = shift
        self.level = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.level[indices] = 0.0

    def _observe(self):
        return self.level

    def _step(self, actions):
        self.advance(self.level, self.level)
        return self.level, np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool), {}


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: cloudpickle.loads(cloudpickle.dumps(value)),
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_b1_a_copy_of_a_kernel_is_itself(duplicate):
    @jit_batch(shared="step")
    def of_no_module(x, step, out):
        for i in range(len(out)):
            out[i] = x[i] + step

    assert duplicate(shift) is shift
    assert duplicate(of_no_module) is of_no_module
    assert duplicate({"kernel": shift})["kernel"] is shift


def test_b1_a_kernel_is_pickled_by_its_name():
    assert b"test_jit_batch" in pickle.dumps(shift) and len(pickle.dumps(shift)) < 60


@pytest.mark.parametrize("duplicate", [COPIES["deepcopy"], COPIES["pickle"]], ids=["deepcopy", "pickle"])
def test_b1_a_market_may_hold_a_kernel(duplicate):
    vec = Shifter(3)
    vec.reset()
    vec.step([0, 1, 0])
    again = duplicate(vec)
    assert again.advance is shift
    assert again.step([0, 1, 0]).rewards.tolist() == vec.step([0, 1, 0]).rewards.tolist() == [0.2] * 3


def test_a_kernel_is_made_from_a_plain_function():
    if numba.config.DISABLE_JIT:
        pytest.skip("what is not compiled is a plain function")
    for again in (jit, jit_batch):
        with pytest.raises(TypeError, match=r"expected a plain Python function, got .*midpoint"):
            again(midpoint)
