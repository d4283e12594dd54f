"""Where the compiled step of a row market writes what it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import Buffers
from sekai.batching.slab import Column, Slab

if TYPE_CHECKING:
    from sekai.kernels.market import Market

#: The memory of results of so few sub-envs comes from the allocator, and that of more is lent.
_FEW = 2048

_BYTES = np.dtype(np.uint8)


class Results:
    """The memory of rewards, flags, observations and infos.

    Args:
        market: What the step is compiled from.
        num_envs: How many sub-envs.
    """

    def __init__(self, market: Market, num_envs: int) -> None:
        n = num_envs
        flags = [Column("rewards", np.dtype(np.float64))]
        flags += [Column(name, np.dtype(np.bool_)) for name in ("terminated", "truncated")]
        slab = Slab.of(flags)
        self._are_few = n < _FEW
        self._buffers = Buffers(least=0)
        # Rewards and flags are lent together, and so are infos: each loan costs a microsecond.
        self._flags = [((n,), each.dtype, start) for each, start in slab.places(n)]
        self._flags_size = slab.nbytes(n)
        self._seen = [((n, *part.shape), part.dtype) for part in market.observations.parts]
        places = market.told_slab.places(n)
        told = zip(market.told, places, strict=True)
        self._told = [(key, (n, *each.shape), each.dtype, start) for key, (each, start) in told]
        self._told_size = market.told_slab.nbytes(n)

    def new(self) -> list[NDArray[Any]]:
        """Memory for one step: rewards, the two flags, each array of observations; and the bytes of infos."""
        if self._are_few:
            arrays = [np.empty(shape, dtype) for shape, dtype, _ in self._flags]
            arrays += [np.empty(shape, dtype) for shape, dtype in self._seen]
            arrays.append(np.empty(self._told_size, _BYTES))
            return arrays
        take = self._buffers.take
        flags = take((self._flags_size,), _BYTES)
        arrays = [np.ndarray(shape, dtype, flags, start) for shape, dtype, start in self._flags]
        arrays += [take(shape, dtype) for shape, dtype in self._seen]
        arrays.append(take((self._told_size,), _BYTES) if self._told_size else np.empty(0, _BYTES))
        return arrays

    def told(self, memory: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Infos by their keys, over their bytes."""
        return {key: np.ndarray(shape, dtype, memory, start) for key, shape, dtype, start in self._told}
