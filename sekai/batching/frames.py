"""What batches held some steps ago: the last frames of every row, and batches that come out later than they went in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.buffers import Buffers
from sekai.batching.infos import copy_value
from sekai.spaces import Space, zero_sample

#: Bytes of stacks that are written to and copied at once, so that they are in a cache in between. With fewer the calls
#: count, a microsecond each. What is left above a copy's time is the new frames, and the lines of the window they stand
#: in, which go back to memory: loops compiled for it take as long.
_BLOCK = 1 << 19


def padding_of(space: Space[Any], padding_type: Any, where: str) -> Any:
    """The element that stands before the first one of an episode; None for the first itself.

    Raises:
        TypeError: Elements of the space have no fixed layout.
        ValueError: It is neither "reset" nor "zero" nor an element of the space.
    """
    if not layout.has_fixed_layout(space):
        raise TypeError(f"{where}: expected observations of a fixed layout, got {space}")
    if isinstance(padding_type, str):
        if padding_type in ("reset", "zero"):
            return None if padding_type == "reset" else zero_sample(space)
    elif space.contains(padding_type):
        return layout.copy_row(space, padding_type)
    expected = f"expected a padding_type of 'reset', 'zero' or an element of {space}"
    raise ValueError(f"{where}: {expected}, got {padding_type!r}")


class FrameRows:
    """The last k frames of each of n rows, oldest first, as one array of a batch has them.

    The rows' frames lie one after the other in a stretch of memory, and the window that shows them is moved on by one
    frame in every step: what was a row's oldest place is then the newest of the row before it. So a step writes the
    new frames alone, and what it gives away is a single copy of contiguous memory.

    Args:
        n: Rows.
        k: Frames of each.
        shape: The shape of a frame.
        dtype: Its dtype.
    """

    def __init__(self, n: int, k: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._shape = (n, k, *shape)
        self._size = int(np.prod(shape, dtype=np.int64))
        # Once the window has reached the end it is copied back to the beginning: the longer, the rarer.
        self._spare = min(256, max(8, n * k))
        self._memory = np.zeros((n * k + self._spare + 1) * self._size, dtype)  # one more, for what comes next
        self._at = 0

    @property
    def window(self) -> NDArray[Any]:
        """The frames, live, (n, k, *shape)."""
        return self._window_at(self._at)

    def _window_at(self, at: int) -> NDArray[Any]:
        n, k = self._shape[:2]
        begin = at * self._size
        return self._memory[begin : begin + n * k * self._size].reshape(self._shape)

    def fill(self, rows: NDArray[np.intp], frames: NDArray[Any]) -> None:
        """Put one frame in all places of some rows.

        Args:
            rows: Intp (m,).
            frames: A frame for each, (m, *shape), or one for all, (1, *shape).
        """
        k = self._shape[1]
        stacks = np.empty((len(rows), *self._shape[1:]), self._memory.dtype)
        if stacks.size:
            self._items(stacks, 1).reshape(-1, k)[...] = self._items(frames, 1)[:, None]
            self._items(self.window, k)[rows] = self._items(stacks, k)

    def replace_newest(self, rows: NDArray[np.intp], frames: NDArray[Any]) -> NDArray[Any]:
        """Put frames, (m, *shape), in the newest place of some rows: a copy of all their frames, (m, k, *shape)."""
        self.window[rows, -1] = frames
        return self.window.take(rows, axis=0)

    def with_next(self, rows: NDArray[np.intp], frames: NDArray[Any]) -> NDArray[Any]:
        """What the frames of some rows would be with these, (m, *shape), as the newest; nothing changes.

        Returns:
            (m, k, *shape), a fresh array.
        """
        stacks = self._window_at(self._at + 1).take(rows, axis=0)
        if stacks.size:
            k = self._shape[1]
            self._items(stacks, 1)[k - 1 :: k] = self._items(frames, 1)
        return stacks

    def _items(self, frames: NDArray[Any], count: int) -> NDArray[Any]:
        """Frames as one axis of items of ``count`` frames each, which are copied several times as fast as numbers."""
        item = np.dtype((np.void, count * self._size * self._memory.itemsize))
        return np.ascontiguousarray(frames, self._memory.dtype).reshape(-1).view(item)

    def push(self, frames: NDArray[Any], buffers: Buffers) -> NDArray[Any]:
        """Take in the next frame of every row.

        Args:
            frames: (n, *shape).
            buffers: Where the result comes from.

        Returns:
            A copy of the frames, (n, k, *shape).
        """
        n, k = self._shape[:2]
        size, memory = self._size, self._memory
        self._at += 1
        if self._at > self._spare:
            begin, kept = self._at * size, (n * k - 1) * size  # all but the newest, which is to come
            memory[:kept] = memory[begin : begin + kept]
            self._at = 0
        stacks = buffers.take(self._shape, memory.dtype)
        if not stacks.size:
            return stacks
        window, flat = self.window.reshape(-1), stacks.reshape(-1)
        newest, new = self._items(window, 1)[k - 1 :: k], self._items(frames, 1)
        rows = max(1, _BLOCK // (k * new.itemsize))
        for begin in range(0, n, rows):
            end = min(begin + rows, n)
            newest[begin:end] = new[begin:end]
            flat[begin * k * size : end * k * size] = window[begin * k * size : end * k * size]
        return stacks


class DelayLine:
    """Batches that come out some calls after they went in.

    Args:
        space: The space of one element.
        n: The number of elements.
        delay: Calls, at least 0.
        initial: The element that comes out before any that went in.
    """

    def __init__(self, space: Space[Any], n: int, delay: int, initial: Any) -> None:
        self._space = space
        self._initial = layout.concatenate(space, [initial])
        everyone = np.zeros(n, np.intp)
        self._batches = [layout.take(self._initial, everyone) for _ in range(delay)]  # of which the next is the first
        self._buffers = Buffers()

    def exchange(self, batch: Any) -> Any:
        """Put a batch in, of which a copy is kept, and get the oldest out, which is nobody else's."""
        self._batches.append(self.copy(batch))
        return self._batches.pop(0)

    def exchange_some(self, rows: NDArray[np.intp], batch: Any) -> Any:
        """``exchange`` for rows of which nothing is on its way, while the others stay as they are."""
        shown = self.oldest(rows, batch)
        if self._batches:
            layout.put(self._batches[-1], rows, batch)
        return shown

    def oldest(self, rows: NDArray[np.intp], batch: Any) -> Any:
        """What ``exchange`` would give of some rows, of which a batch is put in; nothing changes."""
        return layout.take(self._batches[0], rows) if self._batches else batch

    def empty(self, rows: NDArray[np.intp]) -> None:
        """Forget what went in for some rows."""
        initial = layout.take(self._initial, np.zeros(len(rows), np.intp))
        for batch in self._batches:
            layout.put(batch, rows, initial)

    def keep(self, rows: NDArray[np.intp], name: str) -> dict[str, NDArray[Any]]:
        """Columns, by names that begin with ``name``, of what is on its way for some rows."""
        columns: dict[str, NDArray[Any]] = {}
        for age, batch in enumerate(self._batches):
            columns |= layout.columns_of(self._space, batch, rows, f"{name} {age}")
        return columns

    def put_back(self, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]], name: str) -> None:
        """Let rows be as they were when ``keep`` made the columns."""
        for age, batch in enumerate(self._batches):
            layout.put(batch, rows, layout.batch_of(self._space, columns, f"{name} {age}", len(rows)))

    def copy(self, batch: Any) -> Any:
        """A copy of a batch, nobody else's."""
        return layout.map_parts(self._copy_part, batch)

    def _copy_part(self, part: Any) -> Any:
        if not isinstance(part, np.ndarray):
            return [copy_value(each) for each in part]
        copied = self._buffers.take(part.shape, part.dtype)
        copied[...] = part
        return copied
