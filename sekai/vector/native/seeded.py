"""The random streams of a native environment, made when somebody first asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import spread_seeds
from sekai.seeding import spawn_seeds

if TYPE_CHECKING:
    from sekai.kernels.streams import Streams


class SeededStreams:
    """One random stream per sub-env, seeded as ``reset(seed=...)`` says.

    A market that does not draw from them pays for none: no seed is derived and nothing is imported.
    """

    def __init__(self, num_envs: int) -> None:
        """Begin unseeded, each stream one that no other run draws."""
        self._num_envs = num_envs
        self._streams: Streams | None = None
        self._memory: Streams | None = None
        self._resets: list[Any] = []  # seeds of resets that have not reached the streams yet

    def live_in(self, key: NDArray[np.uint64], counter: NDArray[np.uint64]) -> None:
        """Go on in other memory, uint64 (num_envs,) each, which holds the same if they have been asked for."""
        from sekai.kernels.streams import Streams

        self._memory = Streams(key, counter)
        if self._streams is not None:
            self._streams = self._memory

    def reseed(self, seed: Any) -> None:
        """Take in the seed of a reset, which has been checked; None, or a None in a list, goes on with a stream."""
        if seed is None:
            return
        if isinstance(seed, np.ndarray) and seed.dtype == np.uint64 and seed.ndim:
            seed = seed.copy()  # keys of streams as they are, the quick way for many
        elif isinstance(seed, (list, tuple, np.ndarray)):
            seed = np.asarray(seed, dtype=object).tolist()  # a copy; of an array without axes, its integer
        if not isinstance(seed, list) or None not in seed:
            self._resets.clear()
        elif self._resets and isinstance(self._resets[-1], (list, np.ndarray)):  # not to pile up if nobody asks
            seed = [old if new is None else new for old, new in zip(self._resets.pop(), seed, strict=True)]
        self._resets.append(seed)
        if self._streams is not None:
            self.get()

    def reseed_some(self, rows: NDArray[np.intp], seeds: Sequence[Any]) -> None:
        """Take in the seeds of a reset of some sub-envs, which have been checked; None goes on with a stream."""
        every: list[Any] = [None] * self._num_envs
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            every[row] = seed
        if any(seed is not None for seed in seeds):
            self.reseed(every)

    def counters(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """A copy of how far the streams of some rows have been drawn, for ``put_back()``."""
        if self._streams is None:
            return np.zeros(rows.size, dtype=np.uint64)
        drawn: NDArray[np.uint64] = self.get().counter[rows]
        return drawn

    def put_back(self, rows: NDArray[np.intp], counters: NDArray[np.uint64]) -> None:
        """Let the streams of some rows go on from where they were, also if nobody had asked for them by then."""
        if self._streams is not None:
            self._streams.counter[rows] = counters

    def get(self) -> Streams:
        """The streams, live."""
        if self._streams is not None and not self._resets:
            return self._streams
        from sekai.kernels.streams import draw_streams, make_streams

        if self._streams is None:
            streams = draw_streams(self._num_envs)
            if self._memory is not None:
                self._memory.key[:], self._memory.counter[:] = streams
                streams = self._memory
            self._streams = streams
        for seed in self._resets:
            rows: Any = slice(None)
            if isinstance(seed, np.ndarray):
                fresh = make_streams(seed)
            elif isinstance(seed, list):
                seeds = spread_seeds(seed, self._num_envs)
                rows = [row for row, each in enumerate(seeds) if each is not None]
                fresh = make_streams(seeds[row] for row in rows)
            else:
                fresh = make_streams(spawn_seeds(int(seed), self._num_envs))
            self._streams.key[rows] = fresh.key
            self._streams.counter[rows] = fresh.counter
        self._resets.clear()
        return self._streams
