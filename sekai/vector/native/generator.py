"""The generator that the sub-envs of a native environment share, made when somebody first asks for it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.snapshots.agreement import dumps
from sekai.snapshots.parts import OfParts
from sekai.snapshots.snapshot import RNG, SEED_OF_RNG

_WHOLE = "expected all sub-envs at once, since they share the generator rng, which has been drawn from"


class SharedGenerator:
    """One generator for draws of all sub-envs at once; before any seed, one of the system's entropy."""

    def __init__(self) -> None:
        self._generator: np.random.Generator | None = None
        self._seed: np.random.SeedSequence | None = None
        self._pickled_seed: bytes | None = None  # the one above, as snapshots hold it

    def get(self) -> np.random.Generator:
        """The generator, live."""
        if self._generator is None:
            self._generator = self._begun()
        return self._generator

    def reseed(self, seed: np.random.SeedSequence | None) -> None:
        """Begin anew; None goes on."""
        if seed is not None:
            self._generator, self._seed, self._pickled_seed = None, seed, None

    @property
    def is_drawn(self) -> bool:
        """Whether anything has come from it; looking at it is not enough."""
        return self._generator is not None and pickle.dumps(self._generator) != pickle.dumps(self._begun())

    def state(self) -> bytes | None:
        """Where it is, for ``go_back()``; None where nobody has asked for it since it was seeded."""
        return None if self._generator is None else pickle.dumps(self._generator)

    def go_back(self, state: bytes | None) -> None:
        """Go on from where ``state()`` was."""
        self._generator = None if state is None else pickle.loads(state)

    def keep(self, rows: NDArray[np.intp], is_whole: bool) -> dict[str, Any] | None:
        """What of it a snapshot of some sub-envs holds, by name; None unless ``is_whole``, where it is of all of them.

        Raises:
            ValueError: It has been drawn from, and the snapshot is of some of them.
        """
        if self._generator is not None and self.is_drawn:  # without a call where nobody has asked for it
            if not is_whole:
                raise ValueError(f"snapshot(indices=...): {_WHOLE}, got {rows.tolist()}")
            return {RNG: dumps(self._generator, "snapshot(): rng")}
        if not is_whole:
            return None
        if self._pickled_seed is None:
            self._pickled_seed = dumps(self._made_seed(), "snapshot(): rng")
        return {SEED_OF_RNG: self._pickled_seed}

    def restorer(self, rows: NDArray[np.intp], whole: Mapping[str, Any] | None) -> Callable[[], None]:
        """Look at what ``keep()`` gave, and return what goes on from there.

        Args:
            rows: The sub-envs that are restored.
            whole: What all sub-envs share; None where some are restored, which leaves it alone.

        Raises:
            ValueError: It does not fit; nothing has changed.
        """
        if whole is None:
            if self.is_drawn:
                raise ValueError(f"restore(snapshot): {_WHOLE}, got {rows.tolist()}")
            return _nothing
        drawn, seed = whole.get(RNG), whole.get(SEED_OF_RNG)
        if drawn is None and (seed is None or (self._generator is None and seed == self._pickled_seed)):
            return _nothing
        if isinstance(drawn, OfParts):
            expected = f"expected one generator, got those of {len(drawn.values)} parts"
            raise ValueError(f"restore(snapshot): {RNG}: {expected}")
        seed = seed.values[0] if isinstance(seed, OfParts) else seed

        def commit() -> None:
            self._generator, self._seed, self._pickled_seed = None, None, None
            if drawn is not None:
                self._generator = pickle.loads(drawn)
            elif seed is not None:
                self._seed, self._pickled_seed = pickle.loads(seed), seed

        return commit

    def _made_seed(self) -> np.random.SeedSequence:
        if self._seed is None:
            self._seed = np.random.SeedSequence()
        return self._seed

    def _begun(self) -> np.random.Generator:
        return np.random.default_rng(copy.deepcopy(self._made_seed()))


def _nothing() -> None:
    pass
