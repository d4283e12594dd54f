"""The paths of a rollout's episodes: what measures are taken of, and means over them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.checks import as_numbers
from sekai.estimates import Estimate, estimate_mean
from sekai.rollouts import Rollout

_MeasureT = TypeVar("_MeasureT", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False, repr=False)
class Episodes:
    """The paths of k episodes, of any lengths, in the order of ``Rollout.episode_ends``.

    ``len()``, indices and loops give single paths; ``np.asarray()`` all of them, (T, k), if they are of one length.

    Attributes:
        paths: Of each, float64 (L + 1,) of its L steps, or (L,) without a first value.
        lengths: int64 (k,), their steps.
        starts: int64 (k,), where on the history that all share they began; None for independent ones.
    """

    paths: tuple[NDArray[np.float64], ...]
    lengths: NDArray[np.int64]
    starts: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        return iter(self.paths)

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        return self.paths[index]

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> NDArray[Any]:
        if len(set(self.lengths.tolist())) != 1:
            found = f"{self.lengths.min()} to {self.lengths.max()} steps" if len(self) else "none"
            raise ValueError(f"Episodes: expected episodes of one length, to make one array of them, got {found}")
        return np.stack(self.paths, axis=1, dtype=dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} episodes>"

    def mean(self, values: ArrayLike) -> Estimate:
        """The mean over episodes of what was measured of each, and its standard error.

        It is that of independent episodes, or, of episodes on one history, by blocks of that history: NaN where it
        holds too few that lie apart (see ``sekai.estimates``).

        Args:
            values: (k,), of each episode; a NaN among them makes the mean NaN.

        Raises:
            TypeError: They are no numbers, or an ``Estimate``, whose ``value`` they are.
            ValueError: There is not one of each episode.
        """
        if isinstance(values, Estimate):
            raise TypeError("Episodes.mean(values): expected numbers, got an Estimate; hand in its .value")
        measured = as_numbers(values, "Episodes.mean(values)")
        if measured.shape != (len(self),):
            raise ValueError(
                f"Episodes.mean(values): expected one of each of {len(self)} episodes, got shape {measured.shape}"
            )
        return estimate_mean(measured, self.starts, None if self.starts is None else self.lengths)


def episodes(record: Rollout, info: str, *, start: float | ArrayLike | str | None) -> Episodes:
    """Cut a rollout into the paths of its episodes. One that has not ended is left out.

    Where episodes end early by what they earn, as by ruin, those left out are the survivors, and a mean over the others
    is off, by more than its standard error tells, unless the rollout is many times as long as an episode may be.

    Args:
        record: The rollout, with the info.
        info: What a path is of, e.g. "wealth": one number each step, what it was after the step.
        start: What it was before the first step, which no step tells: one number, one per sub-env (N,), or the key of
            an info in the rollout that tells it (as ``initial_price`` does where it is drawn). None for paths without,
            as of what is traded in each step, or of what is left of episodes that a rollout with ``start=`` goes on
            with.

    Raises:
        TypeError: ``record`` is no rollout, or ``start`` holds no numbers.
        ValueError: The rollout does not hold an info, or not as one number each; ``start`` has another shape, or is
            given though an episode of the rollout has begun before it.

    Examples:
        >>> paths = episodes(record, "wealth", start=1.0)
        >>> paths.mean(max_drawdown(paths))
    """
    if not isinstance(record, Rollout):
        raise TypeError(f"episodes(record): expected a Rollout, got {type(record).__name__}")
    column = _column(record, info)
    if start is not None and not record.episode_is_whole.all():
        raise ValueError(
            f"episodes(start): expected None of a record that begins in the middle of episodes, since no step tells "
            f"what {info!r} was before it, got {start!r}"
        )
    lengths, ends = record.episode_lengths, record.episode_ends
    stops, envs = ends[:, 0] + 1, ends[:, 1]
    if isinstance(start, str):
        firsts: Any = _column(record, start)[stops - lengths, envs]
    elif start is not None:
        given = as_numbers(start, "episodes(start)")
        if given.shape not in ((), (record.num_envs,)):
            expected = f"expected a number, or one per sub-env ({record.num_envs},)"
            raise ValueError(f"episodes(start): {expected}, got shape {given.shape}")
        firsts = np.broadcast_to(given, record.num_envs)[envs]
    paths = [
        column[stop - length : stop, env].astype(np.float64)
        for stop, length, env in zip(stops.tolist(), lengths.tolist(), envs.tolist(), strict=True)
    ]
    if start is not None:
        paths = [np.append(float(first), path) for first, path in zip(firsts, paths, strict=True)]
    return Episodes(tuple(paths), lengths, record.episode_starts)


def _column(record: Rollout, info: str) -> NDArray[Any]:
    if info not in record.infos:
        raise ValueError(
            f"episodes: expected the info {info!r} in the rollout, got {sorted(record.infos)}; "
            f"ask for it: sekai.rollout(..., infos=({info!r}, ...))"
        )
    column = record.infos[info]
    if column.ndim != 2 or column.dtype.kind not in "biuf":
        found = f"dtype {column.dtype} and shape {column.shape[2:]}"
        raise ValueError(f"episodes: expected one number of the info {info!r} in each step, got {found}")
    return column


def of_each_episode(measure: _MeasureT) -> _MeasureT:
    """Let a measure that is one number of a path take ``Episodes``: those of each length go into it together."""
    name = next(iter(inspect.signature(measure).parameters))

    @functools.wraps(measure)
    def measured(*args: Any, **kwargs: Any) -> Any:
        if not args and name in kwargs:
            args = (kwargs.pop(name),)
        if not args or not isinstance(args[0], Episodes):
            return measure(*args, **kwargs)
        first, *others = args
        parts, order = [], []
        for length in np.unique(first.lengths).tolist() or [1]:  # of no episodes, an array of none
            rows = np.flatnonzero(first.lengths == length)
            chosen = {
                key: _side_by_side(value, rows, length) if isinstance(value, Episodes) else value
                for key, value in kwargs.items()
            }
            parts.append(measure(_side_by_side(first, rows, length), *others, **chosen))
            order.append(rows)
        back = np.argsort(np.concatenate(order))
        if isinstance(parts[0], Estimate):
            return Estimate(*(np.concatenate(each)[back] for each in zip(*parts, strict=True)))
        return np.concatenate(parts)[back]

    return measured  # type: ignore[return-value]


def _side_by_side(paths: Episodes, rows: NDArray[np.intp], length: int) -> NDArray[np.float64]:
    """The paths of some episodes of one length, (T, k)."""
    return np.stack([paths[row] for row in rows], axis=1) if len(rows) else np.empty((length + 1, 0))
