"""Batches flattened into one array, a row for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import Buffers
from sekai.batching.layout import iterate
from sekai.errors import InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flatdim, flatten

#: Columns that are written one by one: quicker than a loop over the few numbers of each row.
_FEW = 8


def flatten_batch(space: Space[Any], flat: Box, batch: Any, n: int, buffers: Buffers | None = None) -> NDArray[Any]:
    """The elements of a batch as ``flatten`` gives them, in a new array.

    Args:
        space: The space of one element.
        flat: ``flatten_space(space)``.
        batch: A batch of it.
        n: The number of elements.
        buffers: Where a large array comes from.

    Returns:
        An array (n, flatdim(space)) of the dtype of ``flat``.

    Raises:
        InvalidObservation: A number lies outside a ``Discrete`` or ``MultiDiscrete``.
    """
    shape = (n, *flat.shape)
    out = np.empty(shape, flat.dtype) if buffers is None else buffers.take(shape, flat.dtype)
    _write(space, batch, out)
    return out


def _write(space: Space[Any], batch: Any, out: NDArray[Any]) -> None:
    """Write a batch into the columns of an array (n, flatdim(space))."""
    n = len(out)
    if isinstance(space, (Dict, Tuple)):
        begin = 0
        for key, part in space.items() if isinstance(space, Dict) else enumerate(space):
            end = begin + flatdim(part)
            _write(part, batch[key], out[:, begin:end])
            begin = end
    elif isinstance(space, (Box, MultiBinary)):
        rows = batch.reshape(out.shape)
        if out.shape[1] > _FEW:
            out[...] = rows
        else:
            for column in range(out.shape[1]):
                out[:, column] = rows[:, column]
    elif isinstance(space, (Discrete, MultiDiscrete)):
        counts = np.atleast_1d(space.nvec.ravel() if isinstance(space, MultiDiscrete) else space.n)
        # In int64: a small dtype may hold the values, but not their distance from the start.
        indices = batch.astype(np.int64).reshape(n, len(counts)) - np.asarray(space.start, np.int64).ravel()
        wrong = ((indices < 0) | (indices >= counts)).any(axis=1)
        if wrong.any():
            raise InvalidObservation(f"flatten: expected elements of {space}, got {batch[wrong.argmax()]}")
        out[...] = 0
        out[np.arange(n)[:, None], indices + (np.cumsum(counts) - counts)] = 1
    else:
        for row, element in enumerate(iterate(space, batch, n)):
            out[row] = flatten(space, element)
