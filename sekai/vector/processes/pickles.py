"""Pickles of one thing after the other, where it matters which of them cannot be read."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator
from typing import Any


def dump_each(values: Iterable[Any], pickler: Any = pickle.Pickler) -> bytes:
    """Pickle some values one after the other; what several of them hold is written once.

    Args:
        values: The values.
        pickler: The class that pickles them.
    """
    buffer = io.BytesIO()
    writer = pickler(buffer, pickle.HIGHEST_PROTOCOL)
    for value in values:
        writer.dump(value)
    return buffer.getvalue()


def load_each(pickled: bytes) -> Iterator[Any]:
    """The values of ``dump_each()``, each read when it is asked for; there is no next one after one that fails."""
    buffer = io.BytesIO(pickled)
    reader = pickle.Unpickler(buffer)
    while buffer.tell() < len(pickled):
        yield reader.load()
