"""Where the compiled step of a row market writes what it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import Buffers
from sekai.batching.slab import Column, Slab

if TYPE_CHECKING:
    from sekai.kernels.market import Market

#: Of so few sub-envs, results are copied out of the env's own memory; those of more are written where they are lent.
_FEW = 2048

_BYTES = np.dtype(np.uint8)


class Results:
    """The memory of rewards, flags, observations and infos.

    Args:
        market: What the step is compiled from.
        num_envs: How many sub-envs.

    Attributes:
        are_few: Whether a step writes into ``scratch`` and ``told``, to be copied, or into memory that is lent.
        scratch: Rewards, the two flags, and each array of observations; empty where they are lent.
        told: Infos by their keys, likewise.
        addresses: Of these arrays, as the compiled step is told them; 0 where they are lent.
    """

    def __init__(self, market: Market, num_envs: int) -> None:
        n = num_envs
        self.are_few = n < _FEW
        layout = [
            ("rewards", (n,), np.dtype(np.float64)),
            ("terminated", (n,), np.dtype(np.bool_)),
            ("truncated", (n,), np.dtype(np.bool_)),
            *((f"seen{k}", (n, *part.shape), part.dtype) for k, part in enumerate(market.observations.parts)),
        ]
        self.scratch: list[NDArray[Any]] = []
        self.told: dict[str, NDArray[Any]] = {}
        if self.are_few:
            self.scratch = [np.zeros(shape, dtype) for _, shape, dtype in layout]
            memory = market.told_slab.allocate(n)
            self.told = dict(zip(market.told, market.told_slab.views(memory, n).values(), strict=True))
            self.addresses = [array.ctypes.data for array in (*self.scratch, memory)]
            self._memory = memory  # of which there may be no view
            return
        # Rewards and flags are lent together, and so are infos: each loan costs a microsecond.
        groups = [layout[:3], *([each] for each in layout[3:])]
        slabs = [Slab.of(Column(name, dtype, shape[1:]) for name, shape, dtype in group) for group in groups]
        slabs.append(market.told_slab)
        places = [
            (k, start, (n, *each.shape), each.dtype) for k, slab in enumerate(slabs) for each, start in slab.places(n)
        ]
        self._buffers = Buffers(least=0)
        self._sizes = [slab.nbytes(n) for slab in slabs]
        self._arrays = places[: len(layout)]
        self._infos = list(zip(market.told, places[len(layout) :], strict=True))
        self._starts = [(k, start) for k, start, *_ in self._arrays] + [(len(slabs) - 1, 0)]
        self.addresses = [0] * len(self._starts)

    def lend(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[NDArray[np.uint8]]]:
        """Memory for one step.

        Args:
            addresses: What the compiled step is told, the first of which is that of the market's memory.

        Returns:
            The same with those of results behind it; and the memory.
        """
        slabs = [self._buffers.take((size,), _BYTES) for size in self._sizes]
        loans: list[Any] = [slab.base for slab in slabs]
        bases = [loan.address for loan in loans]
        addresses = addresses.copy()
        addresses[1 : 1 + len(self._starts)] = [bases[k] + start for k, start in self._starts]
        return addresses, slabs

    def over(self, slabs: list[NDArray[np.uint8]]) -> tuple[list[NDArray[Any]], dict[str, NDArray[Any]]]:
        """The arrays over memory that was lent, ordered as ``scratch`` is, and infos."""
        arrays = [np.ndarray(shape, dtype, slabs[k], start) for k, start, shape, dtype in self._arrays]
        infos = {key: np.ndarray(shape, dtype, slabs[k], start) for key, (k, start, shape, dtype) in self._infos}
        return arrays, infos
