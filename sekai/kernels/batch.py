"""Kernels over rows: one function, compiled serially and in parallel.

The loop over rows is the author's, ``for i in range(len(column))``, over arrays that start at row 0: the compiler
vectorises it. What is here cuts the rows into blocks that fit a processor's cache, hands each block to the function
as slices, and spreads the blocks over threads where there are enough rows. As no row looks at another, the numbers do
not depend on any of it.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Generic, TypeVar, cast, overload
from uuid import uuid4
from weakref import WeakValueDictionary

import numba
import numpy as np
from numba.core.serialize import dumps

from sekai.checks import check_count
from sekai.kernels import threads
from sekai.kernels.columns import has_rows, lengths, rows_between
from sekai.kernels.fields import Fields, structure
from sekai.kernels.fingerprint import is_importable
from sekai.kernels.jit import compile_kernel
from sekai.kernels.reasons import is_of_compiler, reason_of
from sekai.kernels.thread_choice import ThreadChoice

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Rows that are worked on at once: few enough for some twenty columns of them to stay in a core's cache.
BLOCK = 1024

#: Fewer rows than this are not worth a second thread, whoever has woken it up.
PARALLEL_FROM = 8192

#: Then no kernel runs on several threads, which no exception leaves.
BOUNDS_ARE_CHECKED = bool(numba.config.BOUNDSCHECK)


@overload
def jit_batch(function: Kernel, /) -> Kernel: ...
@overload
def jit_batch(
    *, shared: str | Iterable[str] = (), block: int = BLOCK, parallel_from: int | None = None
) -> Callable[[Kernel], Kernel]: ...
def jit_batch(
    function: Any = None,
    /,
    *,
    shared: str | Iterable[str] = (),
    block: int = BLOCK,
    parallel_from: int | None = None,
) -> Any:
    """Compile a kernel over rows. Use it bare (``@jit_batch``) or with options, as ``sekai.kernels.jit``.

    Of the kernel's arguments, arrays have the rows as their first axis, as have the arrays in a tuple or a named
    tuple; scalars, and the arguments named in ``shared``, are the same for every row. A call splits the rows into
    blocks, and calls the kernel with the slices of each. The kernel writes results into arrays it is given, and
    returns nothing.

    Args:
        function: The kernel.
        shared: Names of the arguments whose arrays are not rows; one string may hold several, as in ``"prices terms"``.
        block: Rows that the kernel gets at once, at most; 1024 if nothing is said.
        parallel_from: From how many rows on a call is spread over ``sekai.kernels.get_num_threads()`` threads. None:
            from 8192 on where that is quicker, by the times of the calls.

    Returns:
        The compiled kernel, or a decorator. The kernel raises ValueError when arrays are of different lengths or there
        is none, and TypeError when a list stands where rows are expected.

    Raises:
        TypeError: ``block`` or ``parallel_from`` is no integer.
        ValueError: One of them is below 1; ``shared`` names what the kernel does not have, or leaves nothing else.

    Examples:
        >>> @jit_batch
        ... def advance_walk(level, step, out):
        ...     for i in range(len(level)):
        ...         out[i] = level[i] + step[i]
    """
    names = tuple(shared.split()) if isinstance(shared, str) else tuple(shared)
    block = check_count(block, "jit_batch(block=...)")
    if parallel_from is not None:
        parallel_from = check_count(parallel_from, "jit_batch(parallel_from=...)")

    def decorate(function: Kernel) -> Kernel:
        return cast(Kernel, BatchKernel(function, names, block, parallel_from))

    return decorate if function is None else decorate(function)


class Spread:
    """A function over rows that is called on one thread, or on several where that is worth it.

    Args:
        serial: Called as ``(n, *args)``, on one thread.
        parallel: Called as ``(n, num_threads, *args)``, on several.
        parallel_from: From how many rows on it may be.
        is_measured: Whether it is then only where that is quicker, by the times of the calls.
        explain: Given what a call raises, it may raise something that says more.

    Attributes:
        parallel_from: As given.
        py_func: The plain function that runs on one thread.
        dispatchers: What numba compiles it, and that on several, to.
    """

    def __init__(
        self,
        serial: Callable[..., Any],
        parallel: Callable[..., Any],
        parallel_from: int = PARALLEL_FROM,
        is_measured: bool = True,
        explain: Callable[[Exception], None] | None = None,
    ) -> None:
        self._explain = explain
        self._serial = serial
        self._parallel = parallel
        self.py_func = getattr(serial, "py_func", serial)
        self.dispatchers = [serial, parallel]
        self.parallel_from = parallel_from
        self._is_measured = is_measured
        # By the digits of the number of rows and the number of threads.
        self._choices: defaultdict[tuple[int, int], ThreadChoice] = defaultdict(ThreadChoice)

    def __call__(self, n: int, *args: Any) -> Any:
        """Call it for ``n`` rows."""
        try:
            num_threads = threads.get_num_threads()
            if num_threads == 1 or n < self.parallel_from or BOUNDS_ARE_CHECKED:
                return self._serial(n, *args)
            return self._call(n, num_threads, args)
        except Exception as error:
            if self._explain is not None:
                self._explain(error)
            raise

    def _call(self, n: int, num_threads: int, args: tuple[Any, ...]) -> Any:
        if not (self._is_measured and threads.are_measured()):
            return self._call_parallel(n, num_threads, args)
        choice = self._choices[n.bit_length(), num_threads]
        parallel = choice.parallel
        start = perf_counter()
        result = self._call_parallel(n, num_threads, args) if parallel else self._serial(n, *args)
        choice.record(parallel, (perf_counter() - start) / n)
        return result

    def _call_parallel(self, n: int, num_threads: int, args: tuple[Any, ...]) -> Any:
        before = threads.enter(num_threads)
        if not before:
            return self._serial(n, *args)
        try:
            return self._parallel(n, num_threads, *args)
        except SystemError as error:  # what a thread raised
            raise error.__cause__ or error from None
        finally:
            threads.leave(before)


class BatchKernel(Generic[Kernel]):
    """A kernel over rows, as ``jit_batch`` makes it.

    Attributes:
        py_func: The function, as written.
        kernel: It compiled for one block of rows, to be called from other kernels.
        block: Rows that the kernel gets at once, at most.
        parallel_from: From how many rows on a call may be spread over threads.
        is_measured: Whether it is then only where that is quicker.
    """

    def __init__(self, function: Kernel, shared: tuple[str, ...], block: int, parallel_from: int | None) -> None:
        names = tuple(inspect.signature(function).parameters)
        for name in shared:
            if name not in names:
                raise ValueError(f"jit_batch(shared=...): {function.__qualname__} has no argument {name!r}")
        functools.update_wrapper(self, function)
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        self.py_func = function
        self.kernel = compile_kernel(function)
        self.block = block
        self.parallel_from = PARALLEL_FROM if parallel_from is None else parallel_from
        self.is_measured = parallel_from is None
        self._id = ""
        self._names = names
        self._rows = tuple(position for position, name in enumerate(names) if name not in shared)
        if not self._rows:
            raise ValueError(f"jit_batch(shared=...): expected {function.__qualname__} to have an argument with rows")
        self._array = self._rows[0]  # where the last call had an array
        self._drivers: dict[tuple[Any, ...], Drivers] = {}

    def __call__(self, *args: Any) -> None:
        """Run the kernel over all rows."""
        kinds = tuple(map(type, args))
        drivers = self._drivers.get(kinds)
        if drivers is None:
            drivers = self._find_drivers(args, kinds)
        column = args[self._array]
        n = len(column) if column.__class__ is np.ndarray and column.ndim else self._count(args)
        try:
            fits = drivers.spread(n, *args)
        except Exception as error:
            if is_of_compiler(error):
                self._compile_alone(args)
            raise
        if not fits:
            found = {self._names[position]: sorted(set(lengths(args[position]))) for position in self._rows}
            raise ValueError(f"{self.__name__}: expected as many rows in each array, got {found}")

    def __copy__(self) -> BatchKernel[Kernel]:
        return self  # as a function does

    def __deepcopy__(self, memo: Any) -> BatchKernel[Kernel]:
        return self

    def __reduce__(self) -> Any:
        """By name, as a function, where another process finds it by that; else its function as Numba pickles one."""
        if is_importable(self):
            return self.__qualname__
        shared = tuple(name for position, name in enumerate(self._names) if position not in self._rows)
        parallel_from = None if self.is_measured else self.parallel_from
        self._id = self._id or uuid4().hex
        _SENT[self._id] = self
        return _rebuild, (self._id, dumps((self.py_func, shared, self.block, parallel_from)))

    @property
    def dispatchers(self) -> list[Any]:
        """What numba has compiled so far, a serial and a parallel form for each structure of arguments."""
        return [each for drivers in self._drivers.values() for each in (drivers.serial, drivers.parallel)]

    def _count(self, args: tuple[Any, ...]) -> int:
        """The number of rows."""
        for position in self._rows:
            if isinstance(args[position], np.ndarray) and args[position].ndim:
                self._array = position
                return len(args[position])
        for position in self._rows:
            for length in lengths(args[position]):
                return length
        names = " or ".join(repr(self._names[position]) for position in self._rows)
        raise ValueError(f"{self.__name__}: expected an array in {names}, got none")

    def _find_drivers(self, args: tuple[Any, ...], kinds: tuple[type, ...]) -> Drivers:
        """The drivers for the structure of some arguments, which their types tell unless there are plain tuples."""
        if len(args) != len(self._names):
            raise TypeError(f"{self.__name__}: expected {len(self._names)} arguments {self._names}, got {len(args)}")
        key = tuple(map(structure, args)) if any(map(_has_plain_tuple, args)) else kinds
        drivers = self._drivers.get(key)
        if drivers is None:
            for position, name in enumerate(self._names):
                self._check_type(name, args[position], position in self._rows)
            drivers = self._drivers[key] = Drivers(self, self._names, self._rows, args)
        return drivers

    def _compile_alone(self, args: tuple[Any, ...]) -> None:
        """Compile the kernel for some arguments, and let it raise: its own errors name its lines, not the drivers'."""
        if hasattr(self.kernel, "compile"):
            rows = (rows_between(arg, 0, 0) if k in self._rows else arg for k, arg in enumerate(args))
            code = self.py_func.__code__
            try:
                # Anew, since what has failed once keeps its error, to which the drivers have added.
                compile_kernel(self.py_func).compile(tuple(map(numba.typeof, rows)))
            except Exception as error:
                where = f"{self.__name__} ({code.co_filename}, line {code.co_firstlineno})"
                records = [each for arg in args for each in _records(arg)]
                raise TypeError(f"{where}: {reason_of(error, records)}") from None

    def _check_type(self, name: str, value: Any, are_rows: bool) -> None:
        """Refuse what Numba has no type for, and a list of rows, which would be the same in each block."""
        if isinstance(value, tuple):
            for item in value:
                self._check_type(name, item, are_rows)
            return
        try:
            numba.typeof(value)
            fits = not (are_rows and isinstance(value, list))
        except ValueError:
            fits = False
        if not fits:
            expected = "expected an array, a scalar or a tuple of them"
            raise TypeError(f"{self.__name__}: {name}: {expected}, got {type(value).__name__}")


#: Kernels that were pickled with their function, which a process compiles once however often they are sent to it.
_SENT: WeakValueDictionary[str, BatchKernel[Any]] = WeakValueDictionary()


def _rebuild(id: str, pickled: bytes) -> BatchKernel[Any]:
    kernel = _SENT.get(id)
    if kernel is None:
        kernel = _SENT[id] = BatchKernel(*pickle.loads(pickled))
        kernel._id = id
    return kernel


def _records(value: Any) -> list[Any]:
    """The classes of named tuples in an argument."""
    if not isinstance(value, tuple):
        return []
    own = [type(value)] if hasattr(value, "_fields") else []
    return own + [each for item in value for each in _records(item)]


def _has_plain_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and (not hasattr(value, "_fields") or any(map(_has_plain_tuple, value)))


class Drivers:
    """The serial and the parallel loop over blocks for one structure of arguments.

    Their source is written here, since Numba has neither ``*args`` that keep their names nor loops over the fields of a
    named tuple.

    Attributes:
        serial: Numba's dispatcher of the loop on one thread.
        parallel: The same on several.
        spread: Calls one of the two, as ``(n, *args)``.
    """

    def __init__(
        self, batch: BatchKernel[Any], names: tuple[str, ...], rows: tuple[int, ...], args: tuple[Any, ...]
    ) -> None:
        scope: dict[str, Any] = {
            "__name__": batch.__module__,
            "_kernel": batch.kernel,
            "_rows": rows_between,
            "_fits": has_rows,
            "_prange": numba.prange,
        }
        # Numbered, so that none is called as a field of another or as a variable here is.
        arguments = [f"arg{position}_{name}" for position, name in enumerate(names)]
        flat, given, passed, checks = [], [], [], []
        for position, (name, value) in enumerate(zip(arguments, args, strict=True)):
            fields = Fields(name, value, scope)
            are_rows = position in rows
            flat += fields.names
            given.append(fields.taken_apart)
            passed.append(fields.put_together("_rows({}, lo, hi)" if are_rows else "{}"))
            checks += [f"_fits({field}, n)" for field in fields.names if are_rows]
        source = f"""
def serial(n, {", ".join(flat)}):
    if not ({" and ".join(checks)}):
        return False
    for lo in range(0, n, {batch.block}):
        hi = min(lo + {batch.block}, n)
        _kernel({", ".join(passed)})
    return True

def parallel(n, num_threads, {", ".join(flat)}):
    if not ({" and ".join(checks)}):
        return False
    for thread in _prange(num_threads):
        start = thread * n // num_threads
        stop = (thread + 1) * n // num_threads
        for lo in range(start, stop, {batch.block}):
            hi = min(lo + {batch.block}, stop)
            _kernel({", ".join(passed)})
    return True

def call_serial(n, {", ".join(arguments)}):
    return _serial(n, {", ".join(given)})

def call_parallel(n, num_threads, {", ".join(arguments)}):
    return _parallel(n, num_threads, {", ".join(given)})
"""
        exec(compile(source, f"<drivers of {batch.__qualname__}>", "exec"), scope)
        for name in ("serial", "parallel"):
            scope[name].__qualname__ = f"{batch.__qualname__}_{name}"
        self.serial = scope["_serial"] = compile_kernel(scope["serial"])
        self.parallel = scope["_parallel"] = compile_kernel(scope["parallel"], parallel=True)
        self.spread = Spread(scope["call_serial"], scope["call_parallel"], batch.parallel_from, batch.is_measured)
