"""How a market's kernels were compiled, read from what numba says of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sekai.testing.reach import Kernels

#: How LLVM names numba's own generators, which no seed of a market reaches.
_GLOBAL_DRAWS = re.compile(r"@numba_get_(np|py)_random_state")
_GENERATORS = {"np": "np.random", "py": "random"}

#: An instruction of AVX or later; where there is none, the lack of wide arithmetic says nothing.
_AVX = re.compile(r"^\s+v\w+\s.*%[xyz]mm", re.MULTILINE)
#: Arithmetic on a single number.
_SCALAR = re.compile(r"^\s+v(?:add|sub|mul|div|sqrt|min|max|fn?m(?:add|sub)\d+)s[sd]\s", re.MULTILINE)
#: Arithmetic on all the numbers of a wide register at once.
_WIDE = re.compile(
    r"^\s+v(?:(?:add|sub|mul|div|sqrt|min|max|fn?m(?:add|sub)\d+)p[sd]|p(?:add|sub|mul|min|max|sll|srl|sra)\w*)\s"
    r".*%[yz]mm",
    re.MULTILINE,
)
#: What is called, by its name or through a register that its address is put into.
_SYMBOL = re.compile(r"\$(\w+), %r|call\w*\s+(\w+)")
_LIBM = frozenset(
    name + suffix
    for name in (
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp2 expm1 fmod hypot lgamma log log10 "
        "log1p log2 pow sin sincos sinh tan tanh tgamma"
    ).split()
    for suffix in ("", "f")
)
#: The digits of an integer are counted so where one is written into a text: that of an error, as Numba raises it too.
_LOG10 = re.compile(r"(%\S+) = [^\n]*call double @(?:llvm\.)?log10(?:\.f64)?\(double (?:\w+ )*(%[^\s)]+)\)")


class Form(NamedTuple):
    """A kernel compiled for some argument types, in a state that can be looked into.

    Attributes:
        name: The kernel's.
        compiled: Numba's dispatcher.
        signature: The argument types.
        is_batch: Whether it is the serial form of a kernel that ``jit_batch`` made.
    """

    name: str
    compiled: Any
    signature: Any
    is_batch: bool


def compiles() -> bool:
    """Whether kernels are compiled; NUMBA_DISABLE_JIT leaves them the functions they are."""
    from sekai.kernels import jit

    def probe(x: float) -> float:
        return x

    return jit(probe) is not probe


def find_forms(kernels: Kernels) -> list[Form]:
    """Every compiled form of the kernels, but for the parallel ones of batch kernels, which differ in threads only."""
    single = [(kernel, kernel, False) for kernel in kernels.dispatchers]
    batch = [(kernel, each, True) for kernel in kernels.batches for each in kernel.dispatchers]
    return [
        Form(kernel.py_func.__name__, *inspectable, is_batch)
        for kernel, dispatcher, is_batch in single + batch
        if not (is_batch and dispatcher.targetoptions["parallel"])
        for inspectable in _inspectable(dispatcher)
    ]


def _inspectable(dispatcher: Any) -> Iterator[tuple[Any, Any]]:
    for signature, overload in list(dispatcher.overloads.items()):
        from_disk = overload.metadata is None  # and so cannot be looked into
        yield _compile_again(dispatcher, signature) if from_disk else dispatcher, signature


@lru_cache(maxsize=64)
def _compile_again(dispatcher: Any, signature: Any) -> Any:
    from sekai.kernels.jit import uncached  # here, to keep `import sekai` quick

    again = uncached(dispatcher)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first compilation has given them
        again.compile(signature)
    return again


def check_kernels(kernels: Kernels, forms: list[Form]) -> list[str]:
    """Kernels that are not compiled as they were meant to be."""
    problems = [
        f"{name}(): expected a compiled function by its name, got a plain Python one; compile it with "
        "sekai.kernels.jit or jit_batch, or give it another name"
        for name in kernels.plain
    ]
    for form in forms:
        overload = form.compiled.overloads[form.signature]
        if overload.objectmode:
            problems.append(f"{form.name}(): expected a kernel compiled to machine code, got one in object mode")
        elif form.compiled.targetoptions.get("parallel"):
            if not overload.metadata["parfor_diagnostics"].count_parfors():
                problems.append(
                    f"{form.name}(): expected a loop that runs in parallel (parallel=True), got none; it takes "
                    "numba.prange with neither raise nor assert inside"
                )
    return list(dict.fromkeys(problems))


def global_draws(forms: list[Form]) -> dict[str, str]:
    """Numba's own generators by name, each with the first kernel that draws from it."""
    drawn: dict[str, str] = {}
    for form in forms:
        for kind in _GLOBAL_DRAWS.findall(form.compiled.inspect_llvm(form.signature)):
            drawn.setdefault(f"numba's own generator ({_GENERATORS[kind]} in a kernel)", f"{form.name}()")
    return drawn


def vectorisation_hints(forms: list[Form]) -> list[str]:
    """What keeps the loop over rows of a batch kernel from working on many rows at once."""
    hints = []
    for form in forms:
        assembly = form.compiled.inspect_asm(form.signature) if form.is_batch else ""
        if not _AVX.search(assembly):
            continue
        found = {symbol for match in _SYMBOL.finditer(assembly) for symbol in match.groups()}
        called = ", ".join(sorted(found & _LIBM - ({"log10"} if _only_counts_digits(form) else set())))
        if _WIDE.search(assembly) is None and (called or _SCALAR.search(assembly)):  # not one that only copies
            reason = f"; it calls {called} of the C library" if called else ""
            hints.append(f"{form.name}(): no arithmetic on wide registers, so its loop is not vectorised{reason}")
        elif called:
            hints.append(f"{form.name}(): its loop calls {called} of the C library, one row after another")
    return list(dict.fromkeys(hints))


def _only_counts_digits(form: Form) -> bool:
    """Whether every log10 in the loop is that of an integer, rounded down."""
    code = form.compiled.inspect_llvm(form.signature)
    calls = _LOG10.findall(code)
    return bool(calls) and all(
        re.search(rf"{re.escape(argument)} = [us]itofp ", code)
        and re.search(rf"call double @(?:llvm\.)?floor(?:\.f64)?\(double (?:\w+ )*{re.escape(result)}\)", code)
        for result, argument in calls
    )
