"""What the author of a kernel imports. Importing this package imports numba; ``import sekai`` does not."""

from __future__ import annotations

from sekai.kernels.jit import jit

__all__ = ["jit"]
