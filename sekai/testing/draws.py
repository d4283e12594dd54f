"""Random draws that no seed of a market reaches."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from sekai.testing.values import same


class GlobalGenerators:
    """Watches the generators of NumPy and Python that every program shares.

    Attributes:
        drawn: By generator the call in which a draw from it was first seen.
    """

    def __init__(self) -> None:
        self.drawn: dict[str, str] = {}
        self._states = _states()

    def look(self, where: str) -> None:
        """Note which of them have moved since the last look."""
        states = _states()
        for name, state in states.items():
            if not same(state, self._states[name]):
                self.drawn.setdefault(name, where)
        self._states = states


def _states() -> dict[str, Any]:
    return {
        "NumPy's global generator (np.random)": np.random.get_state(legacy=False),
        "Python's global generator (random)": random.getstate(),
    }
