"""What a snapshot of sub-envs is."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.snapshots.agreement import layout_of, require_equal
from sekai.snapshots.columns import SlabColumns
from sekai.spaces import Space

#: The name under which what has been drawn from a generator that all sub-envs share is kept.
RNG = "rng"
#: The name under which the seed of such a generator is kept while nothing has been drawn from it.
SEED_OF_RNG = "seed of rng"


class Kept(NamedTuple):
    """What one layer of a VecEnv, itself or a wrapper around it, keeps of some sub-envs.

    Attributes:
        columns: One entry for each of them, by name.
        shared: What is the same for all sub-envs and no step changes, by name, never written to: where it is restored
            it has to agree.
        whole: What all sub-envs share and steps change, by name; None of a part of them.
    """

    columns: Mapping[str, NDArray[Any]]
    shared: dict[str, Any]
    whole: dict[str, Any] | None


class Snapshot:
    """The state of some sub-envs, from which they, or others, go on after ``VecEnv.restore()``.

    It is data: it can be pickled, compared, indexed (``snapshot[3]``, a slice, a list or mask of rows) and joined with
    others of the same market (``Snapshot.concatenate``), and nothing that happens later changes it.

    Attributes:
        market: The name of the VecEnv's class, and those of the wrappers around it, from the inside out.
        observation_space: Of one sub-env.
        action_space: Of one sub-env.
    """

    def __init__(self, market: tuple[str, ...], spaces: tuple[Space[Any], Space[Any]], kept: Kept) -> None:
        """What ``VecEnv.snapshot()`` makes of what its layers keep, whose columns are read-only from here on."""
        self.market = market
        self.observation_space, self.action_space = spaces
        self.kept = kept
        if type(kept.columns) is not SlabColumns:
            _freeze(kept.columns)

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """By name, arrays with one entry per sub-env, read-only. Of sub-envs that are Env objects, bytes."""
        return self.kept.columns

    @property
    def shared(self) -> Mapping[str, Any]:
        """By name, what the sub-envs have in common and no step changes, read-only.

        Parameters of the whole market, say; arrays and objects stand as digests.
        """
        return MappingProxyType(self.kept.shared)

    @property
    def whole(self) -> dict[str, Any] | None:
        """By name, what the sub-envs have in common and steps change; None of a part of them.

        The generator of a ``NativeVecEnv``, say, or statistics of wrappers.
        """
        return self.kept.whole

    @classmethod
    def concatenate(cls, snapshots: Sequence[Snapshot]) -> Snapshot:
        """The sub-envs of several snapshots in one.

        Raises:
            TypeError: One is none.
            ValueError: There are none, or they are of different markets or parameters.
        """
        first = next(iter(snapshots), None)
        if first is None:
            raise ValueError("Snapshot.concatenate(snapshots): expected at least one snapshot, got none")
        for k, each in enumerate(snapshots):
            where = f"Snapshot.concatenate(snapshots): snapshot {k}"
            if not isinstance(each, Snapshot):
                raise TypeError(f"{where}: expected a Snapshot, got {each!r}")
            each.require(first, where)
            if each.shares_generator:
                raise ValueError(f"{where}: expected sub-envs of their own, got some that share a generator")
            require_equal(first.shared, each.shared, where)
        columns = {name: np.concatenate([each.columns[name] for each in snapshots]) for name in first.columns}
        return cls(first.market, first._spaces, Kept(columns, first.kept.shared, None))

    def require(self, other: Snapshot, where: str) -> None:
        """ValueError if it is of another market, other spaces or another layout than ``other``."""
        self.require_of(other.market, other._spaces, where)
        require_equal(other.layout, self.layout, where)

    def require_of(self, market: tuple[str, ...], spaces: tuple[Space[Any], Space[Any]], where: str) -> None:
        """ValueError if it is of another market or other spaces."""
        if self.market == market and self.observation_space is spaces[0] and self.action_space is spaces[1]:
            return
        if self.market != market:
            raise ValueError(f"{where}: expected one of {' in '.join(market)}, got one of {' in '.join(self.market)}")
        for name, expected, got in zip(("observation_space", "action_space"), spaces, self._spaces, strict=True):
            if expected != got:
                raise ValueError(f"{where}: {name}: expected {expected}, got {got}")

    @property
    def shares_generator(self) -> bool:
        """Whether the sub-envs share a generator that has been drawn from, and can be restored all together only."""
        whole = self.kept.whole
        return whole is not None and RNG in whole

    def require_complete(self, where: str) -> None:
        """ValueError if a column has another number of entries than there are sub-envs."""
        if type(self.kept.columns) is SlabColumns:
            return
        for name, column in self.columns.items():
            if len(column) != len(self):
                raise ValueError(f"{where}: {name}: expected {len(self)} entries, got {len(column)}")

    @property
    def layout(self) -> dict[str, str]:
        """The dtype of each column and the shape of an entry: its version, which does not depend on the package's."""
        return layout_of(self.columns)

    @property
    def nbytes(self) -> int:
        """The memory of its columns, bytes."""
        return sum(
            sum(map(_size, column.tolist())) if column.dtype == object else column.nbytes
            for column in self.columns.values()
        )

    @property
    def _spaces(self) -> tuple[Space[Any], Space[Any]]:
        return self.observation_space, self.action_space

    def __len__(self) -> int:
        columns = self.kept.columns
        return columns.places.count if type(columns) is SlabColumns else len(next(iter(columns.values())))

    def __getitem__(self, rows: Any) -> Snapshot:
        """A snapshot of some of the sub-envs; of one, for a number.

        Raises:
            IndexError: There is no such sub-env.
            ValueError: The sub-envs share a generator that has been drawn from, and belong together.
        """
        if self.shares_generator:
            raise ValueError(f"{self!r}[{rows!r}]: expected all of them, since they share a generator")
        picked = np.atleast_1d(np.arange(len(self))[rows])
        columns: Mapping[str, NDArray[Any]]
        if type(self.columns) is SlabColumns:
            columns = self.columns.take(picked)
        else:
            columns = {name: column[picked] for name, column in self.columns.items()}
        return Snapshot(self.market, self._spaces, Kept(columns, self.kept.shared, None))

    def __iter__(self) -> Iterator[Snapshot]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether it holds the same, bit for bit."""
        if not isinstance(other, Snapshot):
            return NotImplemented
        named = ("market", "observation_space", "action_space", "layout", "shared")
        is_same = all(getattr(self, name) == getattr(other, name) for name in named)
        return (
            is_same
            and self._changed == other._changed
            and all(
                column.tolist() == other.columns[name].tolist()
                if column.dtype == object
                else column.tobytes() == other.columns[name].tobytes()
                for name, column in self.columns.items()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _changed(self) -> dict[str, Any]:
        """What all sub-envs share and steps have changed; no seed, which shards have each of their own."""
        return {name: value for name, value in (self.whole or {}).items() if name != SEED_OF_RNG}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _freeze(self.columns)  # which a copy of it is not

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} sub-env{'s' * (len(self) != 1)} of {' in '.join(self.market)}>"


def _freeze(columns: Mapping[str, NDArray[Any]]) -> None:
    for column in columns.values():
        column.flags.writeable = False


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else len(pickle.dumps(value))
