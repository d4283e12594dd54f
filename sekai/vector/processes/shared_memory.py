"""The shared memory of a ProcVecEnv: one block with the arrays of a batch, seen by parent and workers alike."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.spaces import Space

#: Every array begins on a cache line of its own, so that workers do not slow each other down.
_ALIGNMENT = 64

#: Windows hands no file descriptors to a process that is being started.
AVAILABLE = os.name == "posix"


class SharedFile:
    """A file without a name that parent and workers map.

    It is handed to the workers as they start, empty, and grows once they have told which spaces they have. Since it
    has no name, nothing of it is left when its processes are gone, however they went.
    """

    def __init__(self, fd: int | None = None) -> None:
        """Make a file, or take over the descriptor of one."""
        self.fd = _nameless_file() if fd is None else fd

    def map(self, size: int) -> mmap.mmap:
        """The first ``size`` bytes as memory; the file grows to hold them."""
        if os.fstat(self.fd).st_size < size:
            os.ftruncate(self.fd, size)
        return mmap.mmap(self.fd, size)

    def close(self) -> None:
        """Give the descriptor back; what is mapped stays mapped."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import DupFd

        return _take_over, (DupFd(self.fd),)


def _take_over(duplicate: Any) -> SharedFile:
    return SharedFile(duplicate.detach())


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sekai")
    import tempfile

    fd, path = tempfile.mkstemp(prefix="sekai-")
    os.unlink(path)
    return fd


class Block:
    """The arrays of a batch of ``num_envs`` rows, in shared memory or in this process alone.

    Parent and workers build it from the same arguments and so find the same arrays at the same places.

    Attributes:
        observations: The batch of observations; None where their space has no fixed layout.
        actions: The batch of actions; None where their space has no fixed layout.
        rewards: float64 (num_envs,).
        terminated: bool (num_envs,).
        truncated: bool (num_envs,).
        frozen: bool (num_envs,), the rows that wait for a reset.
    """

    def __init__(
        self,
        file: SharedFile | None,
        num_envs: int,
        observation_space: Space[Any] | None,
        action_space: Space[Any] | None,
    ) -> None:
        """Map the file.

        Args:
            file: The file; None for arrays of this process.
            num_envs: The number of rows.
            observation_space: The space of one observation; None to leave observations out.
            action_space: The space of one action; None to leave actions out.
        """
        arena = _Arena(None)
        self._allocate(arena, num_envs, observation_space, action_space)
        if file is not None:
            self._allocate(_Arena(file.map(max(1, arena.used))), num_envs, observation_space, action_space)

    def _allocate(
        self, arena: _Arena, n: int, observation_space: Space[Any] | None, action_space: Space[Any] | None
    ) -> None:
        self.observations = None if observation_space is None else layout.allocate(observation_space, n, arena.new)
        self.actions = None if action_space is None else layout.allocate(action_space, n, arena.new)
        self.rewards = arena.new((n,), np.dtype(np.float64))
        self.terminated, self.truncated, self.frozen = (arena.new((n,), np.dtype(np.bool_)) for _ in range(3))


class _Arena:
    """Hands out arrays one behind the other in some memory, or, without one, counts what they would take."""

    def __init__(self, memory: mmap.mmap | None) -> None:
        self._memory = memory
        self.used = 0

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        start = self.used
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.used += -(-size // _ALIGNMENT) * _ALIGNMENT
        if self._memory is None:
            return np.zeros(shape, dtype)
        array: NDArray[Any] = np.ndarray(shape, dtype, buffer=self._memory, offset=start if size else 0)
        return array
