"""What the author of a kernel imports. Importing this package imports numba; ``import sekai`` does not."""

from __future__ import annotations

from sekai.kernels.batch import item_at, jit_batch
from sekai.kernels.jit import jit
from sekai.kernels.threads import get_num_threads, set_num_threads
from sekai.kernels.warming import warm_up

__all__ = ["get_num_threads", "item_at", "jit", "jit_batch", "set_num_threads", "warm_up"]
