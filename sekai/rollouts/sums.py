"""EpisodeSums: what is to be known of the episodes of many rollouts, in memory that does not grow with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.estimates import error_by_history
from sekai.rollouts.record import Rollout


@dataclass(frozen=True)
class EpisodeSums:
    """Sums over the episodes that ended in a rollout, or in several; of none without arguments.

    Attributes:
        count: How many ended.
        return_mean: The mean of their returns, NaN of none.
        return_squares: The sum of squared deviations from that.
        num_steps: The sum of their lengths.
        longest: The length of the longest.
        terminated: How many were terminated.
        truncated: How many were truncated.
        by_history: Whether all are somewhere on one history (see ``Rollout.history``).
        first: The place on it where the earliest began.
        counts: int64 (S,), how many began there and at each place behind; of no history (0,).
        sums: float64 (S,), the sum of the returns of these.

    Examples:
        >>> sums = rollout(..., summarise=EpisodeSums.of, combine=EpisodeSums.join)
        >>> sums.summary()["return_mean"]
    """

    count: int = 0
    return_mean: float = math.nan
    return_squares: float = 0.0
    num_steps: int = 0
    longest: int = 0
    terminated: int = 0
    truncated: int = 0
    by_history: bool = False
    first: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    sums: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))

    @classmethod
    def of(cls, record: Rollout) -> EpisodeSums:
        """Those of one rollout."""
        ends, returns, lengths = record.episode_ends, record.episode_returns, record.episode_lengths
        starts, count = record.episode_starts, len(returns)
        mean = float(returns.mean()) if count else math.nan
        on_history = starts is not None and count > 0
        first = int(starts.min()) if on_history else 0  # type: ignore[union-attr]
        places = starts - first if on_history else np.empty(0, np.int64)  # type: ignore[operator]
        return cls(
            count=count,
            return_mean=mean,
            return_squares=float(((returns - mean) ** 2).sum()),
            num_steps=int(lengths.sum()),
            longest=int(lengths.max(initial=0)),
            terminated=int(np.count_nonzero(record.terminated[tuple(ends.T)])),
            truncated=int(np.count_nonzero(record.truncated[tuple(ends.T)])),
            by_history=starts is not None,
            first=first,
            counts=np.bincount(places).astype(np.int64),
            sums=np.bincount(places, returns if on_history else places).astype(np.float64),
        )

    @classmethod
    def join(cls, parts: Sequence[EpisodeSums]) -> EpisodeSums:
        """The sums of several rollouts, added up in their order.

        Raises:
            ValueError: There are none.
        """
        if not parts:
            raise ValueError("EpisodeSums.join(parts): expected at least one, got none")
        some = [part for part in parts if part.count] or [parts[0]]
        count, mean, squares = 0, 0.0, 0.0
        for part in some:
            difference, total = part.return_mean - mean, count + part.count
            if part.count:
                mean += difference * part.count / total
                squares += part.return_squares + difference**2 * count * part.count / total
                count = total
        by_history = all(part.by_history for part in parts)
        first = min(part.first for part in some)
        room = max(part.first + len(part.counts) for part in some) - first if by_history else 0
        counts, sums = np.zeros(room, np.int64), np.zeros(room)
        for part in some if by_history else ():
            places = slice(part.first - first, part.first - first + len(part.counts))
            counts[places] += part.counts
            sums[places] += part.sums
        return cls(
            count=count,
            return_mean=mean if count else math.nan,
            return_squares=squares,
            num_steps=sum(part.num_steps for part in parts),
            longest=max(part.longest for part in parts),
            terminated=sum(part.terminated for part in parts),
            truncated=sum(part.truncated for part in parts),
            by_history=by_history,
            first=first if by_history else 0,
            counts=counts,
            sums=sums,
        )

    def summary(self) -> dict[str, Any]:
        """Statistics of the episodes by name; NaN where there are too few of them.

        The standard error of the mean return is that of independent episodes, or by blocks of the history where all
        are on one (see ``sekai.estimates``).
        """
        count = self.count
        sd = math.sqrt(self.return_squares / (count - 1)) if count > 1 else math.nan
        error = sd / math.sqrt(count) if count else math.nan
        if self.by_history and count:
            error = error_by_history(self.counts, self.sums - self.return_mean * self.counts, self.longest)
        return {
            "episodes": count,
            "return_mean": self.return_mean,
            "return_sd": sd,
            "return_standard_error": error,
            "return_standard_error_by": "blocks of the history" if self.by_history else "independent episodes",
            "length_mean": self.num_steps / count if count else math.nan,
            "terminated_share": self.terminated / count if count else math.nan,
            "truncated_share": self.truncated / count if count else math.nan,
        }
