"""The one place that names numba's flags.

Policy of every kernel of the kit:

- ``error_model="numpy"``: a division by zero gives inf or nan, compiled or not, as NumPy has it.
- No fastmath: with it NaN checks silently fail and sums change with the compiler's mood.
- No cache on disk: numba does not notice edits in a callee of another file.
- Bounds checks on demand: set ``NUMBA_BOUNDSCHECK=1``. ``NUMBA_DISABLE_JIT=1`` runs the plain functions.
- Types: float64 state, int64 counters, bool flags; an observation is cast once, when it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


@overload
def jit(function: Kernel, /) -> Kernel: ...
@overload
def jit(*, parallel: bool = False) -> Callable[[Kernel], Kernel]: ...
def jit(function: Any = None, /, *, parallel: bool = False) -> Any:
    """Compile a function of arrays and scalars under the kit's policy, at its first call.

    Use it bare (``@jit``) or with an option (``@jit(parallel=True)``).

    Args:
        function: The kernel.
        parallel: Whether ``numba.prange`` loops run on several threads. Such a loop may write rows, but neither
            sum across them nor raise.
    """
    compiler = numba.njit(error_model="numpy", parallel=parallel)
    return compiler if function is None else compiler(function)
