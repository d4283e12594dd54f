"""The files that compiled kernels are kept in: whole or not there, read only as they were written, and not without end.

A file begins with the digest of all that follows: one bit that a disk or another program has changed would be run as
machine code. Then comes what its successor knows it by, see ``Origin``, and then what is kept.

Other processes write, read and remove files of the same folder at any time, so that one that is gone is no error.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".kernel"

#: The most that all files of a folder may take, in bytes: some thousand kernels. Those used last stay.
MOST_BYTES = 512 * 2**20

_BYTES = hashlib.sha256().digest_size

#: What names of files of the kit look like, whole ones and those that are being written.
_OURS = re.compile(r"-[0-9a-f]{40}\.kernel(-\d+-[0-9a-f]{8}\.tmp)?$")


class Origin(NamedTuple):
    """Where a kernel comes from: a file of the same kernel and another edition of its sources is of no more use.

    Attributes:
        kernel: Digest of the kernel's name and the paths of the source files it is made from.
        edition: Digest of what is in those files.
    """

    kernel: bytes
    edition: bytes


def read(path: Path) -> bytes | None:
    """What a file keeps; None if it is not as it was written.

    Raises:
        OSError: There is no such file, or it cannot be read.
    """
    data = memoryview(path.read_bytes())
    if hashlib.sha256(data[_BYTES:]).digest() != data[:_BYTES]:
        return None
    try:
        os.utime(path)  # the time of its last use, which no system notes whenever a file is read
    except OSError:  # somebody else's file
        pass
    return bytes(data[3 * _BYTES :])


def write(path: Path, kept: bytes, origin: Origin) -> None:
    """Keep something in a file, and remove those that it makes useless, or for which there is no room any more.

    Raises:
        OSError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join((*origin, kept))
    # Put in its place at once, whoever else writes it at the same time. What open() makes has the mode that the umask
    # leaves: a folder that one user fills may be meant for others.
    unfinished = path.with_name(f"{path.name}-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with open(unfinished, "xb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _tidy(path, origin)


def _tidy(written: Path, origin: Origin) -> None:
    """Remove the predecessors of a file, and those used longest ago as long as all take too much."""
    name = written.name.rpartition("-")[0]
    found = []
    for entry in os.scandir(written.parent):
        if _OURS.search(entry.name):  # the folder may be anybody's
            try:
                if entry.name.rpartition("-")[0] == name and _is_predecessor(entry.path, origin):
                    os.unlink(entry.path)
                    continue
                stat = entry.stat()
            except OSError:  # gone, or not ours to touch
                continue
            found.append((stat.st_mtime_ns, stat.st_size, entry.path))
    too_much = sum(size for _, size, _ in found) - MOST_BYTES
    for _, size, path in sorted(found):
        if too_much <= 0:
            return
        try:
            os.unlink(path)
        except OSError:
            continue
        too_much -= size


def _is_predecessor(path: str, origin: Origin) -> bool:
    with open(path, "rb") as file:
        file.seek(_BYTES)
        return file.read(_BYTES) == origin.kernel and file.read(_BYTES) != origin.edition
