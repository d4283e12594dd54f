"""The native clock: the steps of each sub-env's episode, and the time limit on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import ELAPSED_STEPS
from sekai.checks import check_count


class Clock:
    """The steps of each sub-env's episode, and the time limit on them.

    One number counts the steps of the batch, and each sub-env has the count at which its episode began, so that a step
    costs nothing per sub-env.

    Attributes:
        began: int64 (num_envs,), ``now`` when the episode of each sub-env began.
        limit: Steps after which an episode is truncated; None for no limit.
    """

    def __init__(self, num_envs: int, limit: int | None) -> None:
        """Start at 0; ``limit`` is the number of steps after which an episode is truncated, None for no limit."""
        self.limit = None if limit is None else check_count(limit, "max_episode_steps")
        self.live_in(np.zeros(1, dtype=np.int64), np.zeros(num_envs, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def live_in(self, now: NDArray[np.int64], began: NDArray[np.int64], limit: NDArray[np.int64]) -> None:
        """Go on in other memory, int64: (1,) and (num_envs,), which hold the same, and (1,) for the limit or 0."""
        self._now = now
        self.began = began
        self._limit = limit
        self._write_limit()

    def change_limit(self, limit: int) -> None:
        """Another limit where there is one, from the next step on."""
        self.limit = check_count(limit, "max_episode_steps")
        self._write_limit()

    def _write_limit(self) -> None:
        self._limit[0] = 0 if self.limit is None else min(self.limit, 2**63 - 1)

    @property
    def now(self) -> int:
        """The steps of the batch so far."""
        return int(self._now[0])

    @property
    def elapsed(self) -> NDArray[np.int64]:
        """int64 (num_envs,): the steps that each sub-env has taken in its episode."""
        return self.now - self.began

    def restart(self, indices: NDArray[np.intp]) -> None:
        """New episodes of some sub-envs."""
        self.began[indices] = self.now

    def tick(
        self, frozen: NDArray[np.bool_] | None, truncated: NDArray[np.bool_], columns: dict[str, NDArray[Any]]
    ) -> None:
        """Count a step, and apply the limit to flags and infos in place.

        Args:
            frozen: bool (num_envs,), the sub-envs whose steps do not count; None for none.
            truncated: bool (num_envs,), set where the limit is reached.
            columns: The info columns, to which the elapsed steps are added if there is a limit.
        """
        self._now[0] += 1
        if frozen is not None:
            self.began += frozen
        if self.limit is not None:
            elapsed = self.elapsed
            truncated |= elapsed >= self.limit
            columns[ELAPSED_STEPS] = elapsed
