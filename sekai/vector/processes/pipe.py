"""The pipe between a ProcVecEnv and one of its workers: whole messages, one system call each where they are small."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Whether connections and processes are file descriptors that can be read, written and polled.
DESCRIPTORS = os.name == "posix"

#: Seconds for which a side that waits asks again and again before it goes to sleep, where it has a core of its own:
#: waking it up takes longer than most of what it then does. As many workers spin as there are cores beside the
#: parent's, and the parent only if all do: a process that spins on a core that another needs makes both slower.
SPIN = 100e-6
#: How often in a row it goes to sleep at once, at most, where spinning has come to nothing.
_MOST_SLEEPS = 64

_HEADER = 8
_CHUNK = 1 << 16


class PipeClosed(Exception):
    """The other side of a pipe is gone. An exception of its own, since user code may raise EOFError or OSError."""


class Spin:
    """Asking again and again before going to sleep, where that pays.

    Whether a side does have a core of its own, the system decides, anew all the time; and where the other one takes
    longer than the spin, waking up is little beside it. So after a spin that came to nothing the next wait is a sleep
    at once, and the more of them did so in a row, the more waits are: 1, 2, 4, up to 64.
    """

    def __init__(self, ask: Callable[[], list[Any]]) -> None:
        """Wait with ``ask``, which gives something once there is something."""
        self._ask = ask
        self._sleeps = 0
        self._next_sleeps = 1

    def __call__(self) -> list[Any]:
        """What asking gives, as soon as that is something, or else in the end."""
        come = self._ask()
        if self._sleeps:
            self._sleeps -= 1
            return come
        end = time.perf_counter() + SPIN
        while not come and time.perf_counter() < end:
            come = self._ask()
        if come:
            self._next_sleeps = 1
        else:
            self._sleeps = self._next_sleeps
            self._next_sleeps = min(2 * self._next_sleeps, _MOST_SLEEPS)
        return come


class Pipe:
    """One end of a duplex connection.

    ``multiprocessing``'s own framing takes two reads for a message; here the common one takes one, and no more Python
    than that needs. Where a connection is no file descriptor, as on Windows, it is that framing all the same.

    Args:
        connection: The end of a ``multiprocessing.Pipe()``; the pipe closes it.
        blocking: Whether ``send()`` waits until all is sent, and ``receive()`` for a whole message. If not, they do
            what can be done at once, and what is unsent is sent by ``flush()``.
        spin: Whether ``receive()`` spins before it sleeps.

    Attributes:
        connection: The same.
        unsent: Whether part of a message is still to be sent.
    """

    def __init__(self, connection: Connection, *, blocking: bool = True, spin: bool = False) -> None:
        self.connection = connection
        self.unsent = False
        self._fd = connection.fileno()
        self._blocking = blocking
        self._out: Any = b""
        self._in: list[bytes] = []
        self._size = 0  # of what has been read
        self._spin: Spin | None = None
        if DESCRIPTORS and not blocking:
            os.set_blocking(self._fd, False)
        if DESCRIPTORS and spin:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            self._spin = Spin(partial(poll.poll, 0))

    def send(self, message: bytes) -> None:
        """Send a message; PipeClosed when the other side is gone."""
        if not DESCRIPTORS:
            try:
                self.connection.send_bytes(message)
            except OSError as error:
                raise PipeClosed from error
            return
        framed = len(message).to_bytes(_HEADER, "little") + message
        self._out = memoryview(bytes(self._out) + framed if self.unsent else framed)
        self.flush()

    def flush(self) -> None:
        """Send what is unsent, as far as that can be done at once."""
        try:
            while self._out:
                self._out = self._out[os.write(self._fd, self._out) :]
        except BlockingIOError:
            pass
        except OSError as error:
            raise PipeClosed from error
        self.unsent = len(self._out) > 0

    def receive(self) -> bytes | None:
        """The next message; None if there is no whole one and the pipe is not blocking.

        Raises:
            PipeClosed: The other side is gone.
        """
        if not DESCRIPTORS:
            return self._receive_framed()
        if self._spin is not None and not self._in:
            self._spin()
        message = self._take()
        while message is None:
            try:
                data = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                return None
            except OSError as error:
                raise PipeClosed from error
            if not data:
                raise PipeClosed
            self._in.append(data)
            self._size += len(data)
            message = self._take()
            if not self._blocking:
                break
        return message

    def _take(self) -> bytes | None:
        """A whole message of what has been read."""
        if self._size < _HEADER:
            return None
        if len(self._in[0]) < _HEADER:
            self._in = [b"".join(self._in)]
        end = _HEADER + int.from_bytes(self._in[0][:_HEADER], "little")
        if self._size < end:
            return None
        read = self._in[0] if len(self._in) == 1 else b"".join(self._in)
        rest = read[end:]
        self._in, self._size = [rest] if rest else [], len(rest)
        return read[_HEADER:end]

    def _receive_framed(self) -> bytes | None:
        try:
            if not self._blocking and not self.connection.poll():
                return None
            return self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise PipeClosed from error

    def cut(self) -> None:
        """End the pipe for whoever holds either end of it, and at once for who waits for a message here."""
        if DESCRIPTORS:
            with socket.socket(fileno=os.dup(self._fd)) as line, suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up; closing again does nothing."""
        self.connection.close()
