"""What the author of a kernel imports. Importing this package imports numba; ``import sekai`` does not."""

from __future__ import annotations

from sekai.kernels import maths, streams
from sekai.kernels.batch import jit_batch
from sekai.kernels.columns import item_at
from sekai.kernels.jit import jit
from sekai.kernels.rowviews import prefetch, scratch
from sekai.kernels.threads import get_num_threads, set_num_threads
from sekai.kernels.warming import warm_up

__all__ = [
    "get_num_threads",
    "item_at",
    "jit",
    "jit_batch",
    "maths",
    "prefetch",
    "scratch",
    "set_num_threads",
    "streams",
    "warm_up",
]
