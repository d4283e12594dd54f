"""Files of integers between commas: a quick reader of blocks of lines, and a careful one that says what is wrong."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

#: Bytes that are read at once.
_BLOCK = 4_000_000
#: The most digits that int64 has room for, whatever they are.
_DIGITS = 18

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_TIME = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9})0*)?")
_GZIP = b"\x1f\x8b"


def read_integers(
    path: str | os.PathLike[str], count_columns: Callable[[int], int | None], expected: str, *, times: bool
) -> NDArray[np.int64]:
    """The columns of a file.

    Args:
        path: Of a file, gzipped or not, every line of which has as many columns as the first.
        count_columns: Given how many columns there are, how many of them to read from the left on; None where there
            should be others.
        expected: How many there should be, in words.
        times: Whether the first column holds seconds with at most 9 decimals, which become nanoseconds.

    Raises:
        ValueError: The file is empty or torn, or something in it is no number: the error names the line and the column.
        OSError: It cannot be read.
    """
    where = os.fspath(path)
    parts: list[NDArray[np.int64]] = []
    columns = used = line = 0
    for block in _read_blocks(where):
        if not columns:
            columns = block[: block.index(b"\n")].count(b",") + 1
            found = count_columns(columns)
            if found is None:
                raise ValueError(f"{where}, line 1: expected {expected} columns, got {columns}")
            used = found
        rows = _read_quickly(block, columns, used, times)
        if rows is None:
            rows = _read_carefully(where, line + 1, block, columns, used, times)
        parts.append(rows)
        line += len(rows)
    if not parts:
        raise ValueError(f"{where}: expected a line for each message, got an empty file")
    return np.concatenate(parts)


def _read_blocks(where: str) -> Iterator[bytes]:
    """What is in a file, in blocks of whole lines."""
    rest, lines = b"", 0
    with open(where, "rb") as raw:
        is_zipped = raw.read(2) == _GZIP
        raw.seek(0)
        file: IO[bytes] = gzip.GzipFile(fileobj=raw) if is_zipped else raw  # type: ignore[assignment]
        while True:
            try:
                read = file.read(_BLOCK)
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"{where}, line {lines + 1} or below: cannot be unpacked: {error}") from error
            if not read:
                break
            head, newline, tail = read.rpartition(b"\n")
            if newline:
                yield (rest + head + newline).replace(b"\r\n", b"\n")
                lines += head.count(b"\n") + 1
                rest = b""
            rest += tail
    if rest:
        raise ValueError(
            f"{where}, line {lines + 1}: expected a line that ends in a newline, got half a line ({_show(rest)}): if "
            "nothing of it is missing, end it with one"
        )


def _read_quickly(block: bytes, columns: int, used: int, times: bool) -> NDArray[np.int64] | None:
    """The rows of some lines; None where one is not as it should be, or asks for care."""
    padding = b" " * _DIGITS  # so that nothing is read before the first byte
    text = np.frombuffer(padding + block, np.uint8)
    places = np.flatnonzero((text == ord(",")) | (text == ord("\n")))
    if len(places) % columns:
        return None
    starts = np.append(len(padding), places[:-1] + 1).reshape(-1, columns)
    ends = places.reshape(-1, columns)
    if not ((text[ends] == ord("\n")) == (np.arange(columns) == columns - 1)).all():
        return None
    starts, ends = starts[:, :used], ends[:, :used]
    if not times:
        return _parse(text, starts, ends)
    numbers = _parse(text, starts[:, 1:], ends[:, 1:])
    seconds = _parse_times(text, starts[:, 0], ends[:, 0])
    return None if numbers is None or seconds is None else np.column_stack([seconds, numbers])


def _parse_times(
    text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Nanoseconds of seconds that all have decimals."""
    dots = np.flatnonzero(text == ord("."))
    if len(dots) != len(starts):
        return None
    decimals = ends - dots - 1
    if (dots - starts > 9).any() or (decimals > 9).any() or (text[starts] == ord("-")).any():
        return None
    if (text[dots + 1] == ord("-")).any():
        return None
    whole, fraction = _parse(text, starts, dots), _parse(text, dots + 1, ends)
    return None if whole is None or fraction is None else whole * 10**9 + fraction * 10 ** (9 - decimals)


def _parse(text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The integers that stand between places of a text; None where there is something else."""
    is_negative = text[starts] == ord("-")
    lengths = ends - starts - is_negative
    if lengths.size == 0:
        return np.zeros(lengths.shape, np.int64)
    if lengths.min() < 1 or lengths.max() > _DIGITS:
        return None
    values = np.zeros(lengths.shape, np.int64)
    for place in range(lengths.max()):
        digits = text[ends - (place + 1)] - np.uint8(ord("0"))  # which makes large numbers of other characters
        digits[lengths <= place] = 0
        if digits.max() > 9:
            return None
        values += digits.astype(np.int64) * 10**place
    return np.where(is_negative, -values, values)


def _read_carefully(where: str, first: int, block: bytes, columns: int, used: int, times: bool) -> NDArray[np.int64]:
    """The rows of some lines, one by one.

    Raises:
        ValueError: One has another number of columns, or something else than a number.
    """
    rows = []
    for line, text in enumerate(block.split(b"\n")[:-1], first):
        fields = text.decode("latin-1").split(",")
        if len(fields) != columns:
            raise ValueError(f"{where}, line {line}: expected {columns} columns, got {len(fields)} ({_show(text)})")
        row = []
        for i, cell in enumerate(fields[:used]):
            is_time = times and i == 0
            found = (_TIME if is_time else _INTEGER).fullmatch(cell)
            if found is None:
                kind = "seconds with at most 9 decimals" if is_time else f"an integer of at most {_DIGITS} digits"
                raise ValueError(f"{where}, line {line}, column {i + 1}: expected {kind}, got {cell!r}")
            row.append(int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0")) if is_time else int(cell))
        rows.append(row)
    return np.array(rows, np.int64)


def _show(text: bytes) -> str:
    """The beginning of a line."""
    return repr(text[:60].decode("latin-1").strip() + ("..." if len(text) > 60 else ""))
