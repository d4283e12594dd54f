"""The one place that names numba's flags.

Policy of every kernel of the kit:

- ``error_model="numpy"``: a division by zero gives inf or nan, compiled or not, as NumPy has it.
- No fastmath: with it NaN checks silently fail and sums change with the compiler's mood. Where a fused multiply-add
  pays, ``maths.fma`` asks for it by name, so that a row gets the same bits wherever it stands.
- Loops over float32 and float64 are vectorised for the former, in all that Numba compiles in the process.
- Row functions are inlined into their callers whatever their size, since a call that is left in a loop keeps it from
  being vectorised.
- Compiled code is kept on disk (see ``sekai.kernels.cache``).
- Bounds checks on demand: set ``NUMBA_BOUNDSCHECK=1``. ``NUMBA_DISABLE_JIT=1`` runs the plain functions.
- Types: float64 state, int64 counters, bool flags; an observation is cast once, when it is written.
- Threads: see ``sekai.kernels.threads``; one function gives the serial and the parallel form, see
  ``sekai.kernels.batch``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

import llvmlite.binding
import numba
from numba.core import types
from numba.core.caching import NullCache
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack

from sekai.kernels.cache import KernelCache
from sekai.kernels.constants import KernelCompiler

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# By itself LLVM takes vectors of as many items as the widest numbers of a loop ask for, and does float32 beside float64
# in vectors that are half empty. There is no switch of one function; an LLVM that does not know this one ignores it.
llvmlite.binding.set_option("", "--vectorizer-maximize-bandwidth")
# A loop over columns begins with a check that no two of them overlap, and is not vectorised where that takes more
# comparisons than this: by itself 128, which 16 columns exceed. A block of rows is long enough for many more.
llvmlite.binding.set_option("", "--vectorize-memory-check-threshold=1024")


@overload
def jit(function: Kernel, /) -> Kernel: ...
@overload
def jit(*, inline: bool = True, allocates: bool = True) -> Callable[[Kernel], Kernel]: ...
def jit(function: Any = None, /, *, inline: bool = True, allocates: bool = True) -> Any:
    """Compile a function of arrays and scalars under the kit's policy, at its first call.

    For the functions of one row that kernels are made of, and for kernels that run on one thread. A kernel over rows
    that may run on several is ``sekai.kernels.jit_batch``'s. Use it bare (``@jit``) or with an option.

    Args:
        function: The kernel.
        inline: Whether it becomes part of every compiled function that calls it. A function of one row has to, or it
            keeps the loop it is called in from being vectorised; one with a loop of its own is compiled faster without.
        allocates: Whether it may make arrays. One that does not counts no references to those it is given, which takes
            a function that passes arrays on in a loop a nanosecond each. If it returns an array that it was given, only
            functions that do not allocate either may call it, and it calls none that allocates and returns an array:
            both are refused.
    """

    def decorate(function: Any) -> Any:
        compiled = compile_kernel(function, inline=inline, allocates=allocates)
        # To be known by, compiled or not, and in the process that it is sent to.
        function.is_kernel = compiled.is_kernel = True
        return compiled

    return decorate if function is None else decorate(function)


def compile_kernel(function: Any, *, inline: bool = False, parallel: bool = False, allocates: bool = True) -> Any:
    """A function under the policy, as numba's dispatcher; under ``NUMBA_DISABLE_JIT`` the function itself.

    Args:
        function: The Python function.
        inline: Whether it becomes part of every compiled function that calls it.
        parallel: Whether its ``numba.prange`` loops run on several threads. Such a loop may write rows, but neither
            sum across them nor raise.
        allocates: Whether it may make arrays.

    Raises:
        TypeError: It is no plain Python function.
    """
    if not inspect.isfunction(function):
        raise TypeError(f"jit(function): expected a plain Python function, got {function!r}")
    if numba.config.DISABLE_JIT:
        return function
    options = dict(error_model="numpy", forceinline=inline, parallel=parallel, nopython=True, boundscheck=None)
    options["_nrt"] = allocates  # said in any case: a function that says nothing takes it over from its caller
    return KernelDispatcher(function, targetoptions=options)


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """Numba's dispatcher of a function under the policy, under which it also comes out of a pickle.

    Args:
        function: The Python function.
        locals: Types of variables, as Numba has it.
        targetoptions: Numba's options.
        pipeline_class: Numba's compiler.
    """

    def __init__(
        self, function: Any, locals: Any = None, targetoptions: Any = None, pipeline_class: Any = KernelCompiler
    ) -> None:
        super().__init__(function, locals=locals, targetoptions=targetoptions, pipeline_class=pipeline_class)
        kept_apart = {name: targetoptions[name] for name in ("forceinline", "parallel", "_nrt")}
        self._cache = KernelCache(function, kept_apart)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How a compiled function calls it: a number in the source is a number, not a function of its own for each.

        Raises:
            TypingError: It returns arrays, and one of the two functions counts references to them, the other does not.
        """
        plain = tuple(map(types.unliteral, args))
        try:
            found, args = super().get_call_template(plain, kws), plain
        except TypingError:
            if plain == tuple(args):
                raise
            # What is only known of the number itself: the item of a mixed tuple, say.
            found = super().get_call_template(args, kws)
        caller = ConfigStack.top_or_none()
        counts = self.targetoptions["_nrt"]
        if caller is not None and bool(caller.nrt) != counts and self._returns_arrays(args):
            expected = "expected a function that returns an array to be called from one that says the same of allocates"
            raise TypingError(f"{self.py_func.__qualname__}: {expected}, got allocates={counts}")
        return found

    def _returns_arrays(self, args: tuple[Any, ...]) -> bool:
        compiled = self.overloads.get(args)
        return compiled is not None and _has_array(compiled.signature.return_type)

    def add_overload(self, cres: Any) -> None:
        """Take in what was compiled, but for what Python is not to call, since nobody counts what that returns."""
        if not self.targetoptions["_nrt"] and _has_array(cres.signature.return_type):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        result = super()._compile_for_args(*args, **kws)
        if not self.targetoptions["_nrt"] and self._returns_arrays(tuple(map(self.typeof_pyval, args))):
            where = f"{self.py_func.__qualname__}: jit(allocates=False)"
            raise TypeError(f"{where}: expected one that returns arrays to be called from compiled code alone")
        return result

    @classmethod
    def _rebuild(cls, py_func: Any, **states: Any) -> Any:
        return py_func if numba.config.DISABLE_JIT else super()._rebuild(py_func=py_func, **states)


def _has_array(kind: Any) -> bool:
    """Whether a value of a Numba type is an array, or holds one."""
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(map(_has_array, kind)))


def uncached(dispatcher: Any) -> Any:
    """Another dispatcher of a function, compiled or to be compiled as it is, which keeps nothing and loads nothing.

    Args:
        dispatcher: Numba's, under the policy or not.
    """
    compiler = dispatcher._compiler.pipeline_class
    another = type(dispatcher)(dispatcher.py_func, targetoptions=dispatcher.targetoptions, pipeline_class=compiler)
    another._cache = NullCache()
    return another
