"""CSV files of prices: a careful reader, which can say what is wrong with a file, and a quick one by way of pandas.

Both give the same numbers to the bit: each text is rounded to the nearest float64. What the quick one is not sure to
read as the careful one does, it leaves to that.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sims.data.table import Table

_DELIMITERS = ",;\t|"
#: Bytes from which on importing pandas takes less time than it saves.
_LARGE = 2_000_000
_VALUE = re.compile(r"[-+]?[0-9][-+0-9.:/ T_eEZ]*")

#: What files that are no text begin with, and what to do about them.
_OTHERS = {
    b"PK\x03\x04": "a ZIP archive or an Excel sheet: unpack it, or hand in pandas.read_excel(path)",
    b"PAR1": "a Parquet file: hand in pandas.read_parquet(path)",
    b"ARROW1": "a Feather file: hand in pandas.read_feather(path)",
    b"\x80": "a pickle: hand in pandas.read_pickle(path)",
    b"BZh": "compressed by bzip2: hand in pandas.read_csv(path)",
    b"\xfd7zXZ": "compressed by xz: hand in pandas.read_csv(path)",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard: hand in pandas.read_csv(path)",
}


class CsvFile(NamedTuple):
    """A CSV file, its first line read.

    Attributes:
        where: Its path.
        raw: What is in it, unpacked.
        encoding: Of its text.
        delimiter: What is between its fields: a comma, a semicolon, a tab or a bar, whichever the first line has most.
        names: The names of its columns, without the spaces around them.
        first: Its first row; empty where it has none, or one of another length than ``names``.
    """

    where: str
    raw: bytes
    encoding: str
    delimiter: str
    names: list[str]
    first: list[str]

    def read_carefully(self) -> Table:
        """All columns, as lists of strings.

        Raises:
            ValueError: A row has another length than the first, or a quote is left open.
        """
        reader = _reader(self.raw, self.encoding, self.delimiter)
        rows: list[list[str]] = []
        lines: list[int] = []
        read = 0
        try:
            next(reader, None)
            read = reader.line_num
            for row in reader:
                read = reader.line_num
                if not row:  # a blank line
                    continue
                if len(row) != len(self.names):
                    raise ValueError(f"{self.where}, line {read}: expected {len(self.names)} fields, got {len(row)}")
                rows.append(row)
                lines.append(read)
        except csv.Error as error:  # where its row begins: a quote that is never closed is noticed only far below
            raise _misread(self.where, read + 1, self.delimiter, error) from error
        return Table({name: [row[i] for row in rows] for i, name in enumerate(self.names)}, self.where, lines, "line")

    def read_quickly(self, numbers: Collection[str], texts: Collection[str]) -> Table | None:
        """Some columns, as arrays of float64, bytes, or int64 for Unix times, by the parser of pandas.

        Args:
            numbers: The names of the columns of numbers.
            texts: The names of the columns of dates and times. Of any other column only that it is there is seen.

        Returns:
            None without pandas; for a file so small that to import it would take longer than to read it; and for one
            that asks for care: with quotes, blank lines, rows of another length, longer texts than in the first row, or
            anything else than a number in a column of numbers.
        """
        if not self.first or self.encoding != "utf-8-sig" or b'"' in self.raw or b"\0" in self.raw:
            return None
        if not all(cell for name, cell in zip(self.names, self.first, strict=True) if name in texts):
            return None  # how the dates below are written cannot be told
        pandas = _import_pandas() if len(self.raw) >= _LARGE else sys.modules.get("pandas")
        if pandas is None:
            return None
        kinds = {
            i: "f8" if name in numbers else _date_kind(cell) if name in texts else "S1"
            for i, (name, cell) in enumerate(zip(self.names, self.first, strict=True))
        }
        if not all(_is_number(self.first[i]) for i, kind in kinds.items() if kind == "f8"):  # "True" is one to pandas
            return None
        # To the nearest float64, as `float` does, which newer releases do in any case.
        release = tuple(int(part) for part in pandas.__version__.split(".")[:2])
        exact = {} if release >= (3, 1) else {"float_precision": "round_trip"}
        try:
            frame = pandas.read_csv(
                io.BytesIO(self.raw),
                sep=self.delimiter,
                header=0,
                names=list(kinds),
                index_col=False,
                dtype=kinds,
                na_filter=False,
                **exact,
            )
        except ValueError:  # of which ParserError is one
            return None
        columns = {i: frame[i].to_numpy() for i in kinds}
        tail = self.raw[-100:]
        if len(frame) != self.raw.count(b"\n") - tail[len(tail.rstrip(b"\r\n")) :].count(b"\n"):
            return None  # there are blank lines, or others end in another way
        if any(_ends(columns[i]).any() for i, kind in kinds.items() if kind not in ("f8", "i8", "S1")):
            return None  # as long as can be: perhaps cut short
        last = columns[len(kinds) - 1]
        if last.dtype.kind == "S" and (last == b"").any():
            return None  # a row may be too short
        return Table({self.names[i]: columns[i] for i, kind in kinds.items() if kind != "S1"}, self.where)


def open_csv(path: str | os.PathLike[str]) -> CsvFile:
    """Read a file and what its first line says.

    Args:
        path: Of a text file, UTF-8 or with a byte order mark UTF-16, gzipped or not, whose first line names columns.

    Raises:
        ValueError: It is no such file, or names a column twice.
        OSError: It cannot be read: FileNotFoundError where there is none.
    """
    where = os.fspath(path)
    raw, encoding = _unpack(where, _read_file(where))
    line = io.TextIOWrapper(io.BytesIO(raw), encoding).readline()
    if re.match("sep=", line, re.IGNORECASE):
        raise ValueError(
            f"{where}, line 1: expected the names of the columns, got {line.strip()!r}, which is a word to Excel "
            "alone: leave this line out"
        )
    delimiter = max(_DELIMITERS, key=line.count)
    reader = _reader(raw, encoding, delimiter)
    try:
        names = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise _misread(where, 1, delimiter, error) from error
    if len(set(names)) < len(names):
        raise ValueError(f"{where}, line 1: expected every column to be named once, got {names}")
    if names and all(_VALUE.fullmatch(name) for name in names):
        example = "date,open,high,low,close,volume".replace(",", delimiter)
        raise ValueError(
            f"{where}, line 1: expected the names of the columns, got values ({line.strip()[:60]!r}): put a line such "
            f"as {example!r} above it"
        )
    try:
        first = next((row for row in reader if row), [])
    except csv.Error:
        first = []  # the careful reader tells where
    return CsvFile(where, raw, encoding, delimiter, names, first if len(first) == len(names) else [])


def _reader(raw: bytes, encoding: str, delimiter: str) -> Any:
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding, newline="")
    # Strict, so that a quote that is never closed does not swallow the rest of the file.
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _import_pandas() -> Any:
    """The library; None where it is not installed."""
    try:
        import pandas
    except ImportError:
        return None
    return pandas


def _date_kind(cell: str) -> str:
    """How a column of dates is read that begins with this."""
    return "i8" if cell.isdigit() and 9 <= len(cell) <= 18 else f"S{len(cell.encode()) + 1}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ends(texts: NDArray[np.bytes_]) -> NDArray[np.uint8]:
    """The last byte of each text that its array has room for."""
    return np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), -1)[:, -1]


def _misread(where: str, line: int, delimiter: str, error: Exception) -> ValueError:
    fields = "comma-separated fields" if delimiter == "," else f"fields separated by {delimiter!r}"
    return ValueError(f"{where}, line {line}: expected {fields}: {error}")


def _unpack(where: str, raw: bytes) -> tuple[bytes, str]:
    """What a file holds, and its encoding, in which it can be read."""
    expected = f"{where}: expected a UTF-8 CSV file, gzipped or not"
    for start, remedy in _OTHERS.items():
        if raw.startswith(start):
            raise ValueError(f"{expected}, got {remedy}")
    try:
        raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        if b"\0" in raw[:2]:
            raise ValueError(f"{expected}, got UTF-16 without a byte order mark, or no text: write it as UTF-8")
        encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        if not raw.isascii():
            raw.decode(encoding)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{expected}: {error}") from error
    return raw, encoding


def _read_file(where: str) -> bytes:
    advice = (
        "expected the path of a CSV file, or the prices themselves (the bundled ones: prices='sp500' in a market, "
        "sims.data.load_history('sp500') elsewhere)"
    )
    try:
        return Path(where).read_bytes()
    except OSError as error:
        raise type(error)(f"prices: cannot read {where!r} ({error.strerror}): {advice}") from error
    except ValueError as error:  # no path at all
        raise ValueError(f"prices: cannot read {where!r} ({error}): {advice}") from error
