"""The line between a ProcVecEnv and one of its workers: whole messages, one system call each where they are small."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Whether connections and processes are file descriptors that can be read, written and polled.
DESCRIPTORS = os.name == "posix"

#: Seconds for which a side that waits asks again and again before it goes to sleep, where it has a core of its own:
#: waking it up takes longer than most of what it then does. As many workers spin as there are cores beside the
#: parent's, and the parent only if all do: a process that spins on a core that another needs makes both slower.
SPIN = 100e-6

_HEADER = 8
_CHUNK = 1 << 16


class Line:
    """One end of a duplex connection.

    ``multiprocessing``'s own framing takes two reads for a message; here the common one takes one, and no more Python
    than that needs. Where a connection is no file descriptor, as on Windows, it is that framing all the same.

    Args:
        connection: The end of a ``multiprocessing.Pipe()``; the line closes it.
        spin: Whether ``receive()`` spins before it sleeps.

    Attributes:
        connection: The same.
        fd: Its file descriptor.
        pending: What has been read beyond the last message.
    """

    def __init__(self, connection: Connection, spin: bool = False) -> None:
        self.connection = connection
        self.pending = b""
        self.fd = connection.fileno()
        self._poll: Any = None
        if spin and DESCRIPTORS:
            self._poll = select.poll()
            self._poll.register(self.fd, select.POLLIN)

    def send(self, message: bytes) -> None:
        """Send a message; OSError when the other side is gone."""
        if not DESCRIPTORS:
            self.connection.send_bytes(message)
            return
        framed = len(message).to_bytes(_HEADER, "little") + message
        sent = os.write(self.fd, framed)
        while sent < len(framed):
            sent += os.write(self.fd, memoryview(framed)[sent:])

    def receive(self) -> bytes:
        """Wait for a message; EOFError when the other side is gone."""
        if not DESCRIPTORS:
            return self.connection.recv_bytes()
        if self._poll is not None and not self.pending:
            end_of_spin = time.perf_counter() + SPIN
            while not self._poll.poll(0) and time.perf_counter() < end_of_spin:
                pass
        buffer = self.pending or self._read()
        while len(buffer) < _HEADER:
            buffer += self._read()
        end = _HEADER + int.from_bytes(buffer[:_HEADER], "little")
        if len(buffer) < end:
            parts, size = [buffer], len(buffer)
            while size < end:
                parts.append(self._read())
                size += len(parts[-1])
            buffer = b"".join(parts)
        self.pending = buffer[end:]
        return buffer[_HEADER:end]

    def has_message(self) -> bool:
        """Whether there is something to receive without waiting, be it that the other side is gone."""
        return bool(self.pending) or self.connection.poll()

    def close(self) -> None:
        """Hang up; closing again does nothing."""
        self.connection.close()

    def _read(self) -> bytes:
        data = os.read(self.fd, _CHUNK)
        if not data:
            raise EOFError
        return data
