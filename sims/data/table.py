"""``Table``, columns of prices before they are checked, and how a CSV file becomes one."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Table(NamedTuple):
    """Columns as they came, unchecked, with what an error calls them.

    Attributes:
        columns: The columns by name.
        where: The file, or "prices".
        lines: The line of the file on which each row ends; None for what came from memory.
    """

    columns: Mapping[str, Any]
    where: str = "prices"
    lines: Sequence[int] | None = None

    def cell(self, row: int, column: str) -> str:
        """What an error calls a cell."""
        place = f"index {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.where}, {place}, column {column!r}"


def read_csv(path: str | os.PathLike[str]) -> Table:
    """The columns of a CSV file (UTF-8, gzipped or not, the first line names them) as lists of strings.

    Raises:
        ValueError: It is no such file, names a column twice, or has a row of another length than the first.
        OSError: It cannot be read: FileNotFoundError where there is none.
    """
    where = os.fspath(path)
    raw = _read_file(where)
    try:
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: expected a UTF-8 CSV file, gzipped or not: {error}") from error
    # Strict, so that a quote that is never closed does not swallow the rest of the file.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    read = 0
    try:
        header = [name.strip() for name in next(reader, [])]
        if len(set(header)) < len(header):
            raise ValueError(f"{where}, line 1: expected every column to be named once, got {header}")
        read = reader.line_num
        for row in reader:
            read = reader.line_num
            if not row:  # a blank line
                continue
            if len(row) != len(header):
                raise ValueError(f"{where}, line {read}: expected {len(header)} fields, got {len(row)}")
            rows.append(row)
            lines.append(read)
    except csv.Error as error:  # where its row begins: a quote that is never closed is noticed only far below
        raise ValueError(f"{where}, line {read + 1}: expected comma-separated fields: {error}") from error
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    return Table(columns, where, lines)


def _read_file(where: str) -> bytes:
    advice = "expected the path of a CSV file, or the prices themselves (the bundled ones: sims.data.load('sp500'))"
    try:
        return Path(where).read_bytes()
    except OSError as error:
        raise type(error)(f"prices: cannot read {where!r} ({error.strerror}): {advice}") from error
    except ValueError as error:  # no path at all
        raise ValueError(f"prices: cannot read {where!r} ({error}): {advice}") from error
