"""``PriceHistory``, the checked form of the prices a user hands to a market, and how it is made from theirs."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PriceHistory:
    """Prices of one asset, bar by bar, oldest first. ``as_history`` makes one, and checks it.

    Attributes:
        close: float64 (T,), read-only, the last price of each bar, finite and above 0.
        open: float64 (T,), read-only, the first price of each bar; None where it is not known.
        date: datetime64 (T,), read-only, strictly increasing; None where it is not known.
    """

    close: NDArray[np.float64]
    open: NDArray[np.float64] | None = None
    date: NDArray[np.datetime64] | None = None

    def __len__(self) -> int:
        return len(self.close)


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


def as_history(prices: Any) -> PriceHistory:
    """The prices a user has, checked and copied.

    Args:
        prices: One of

            - a 1-D array, list or pandas Series of closes;
            - a table with a column ``close`` and, if they are known, ``open`` and ``date`` (other columns are
              ignored): a NumPy structured array, a mapping of arrays, or a pandas DataFrame (whose dates may also be
              its index);
            - the path of a CSV file, gzipped or not, whose first line names these columns;
            - a ``PriceHistory``, which is handed back.

            Dates are ISO strings, datetime objects or datetime64, without a time zone.

    Raises:
        TypeError: It is none of these.
        ValueError: A price is not finite or not above 0, a date is no date or not after the one before, a column
            is missing or of another length, or there are fewer than 2 rows. The message names row and column:
            the line of a file, or the index in an array.
        FileNotFoundError: There is no such file.
    """
    if isinstance(prices, PriceHistory):
        return prices
    table = _as_table(prices)
    columns = table.columns
    if "close" not in columns:
        found = ", ".join(repr(str(name)) for name in columns) or "none"
        raise ValueError(f"{table.where}: expected a column 'close', got the columns {found}")
    close = _read_prices(table, "close")
    opens = _read_prices(table, "open") if "open" in columns else None
    date = _read_dates(table) if "date" in columns else None
    for name, column in (("open", opens), ("date", date)):
        if column is not None and len(column) != len(close):
            raise ValueError(
                f"{table.where}, column {name!r}: expected {len(close)} rows, as in column 'close', got {len(column)}"
            )
    if len(close) < 2:
        raise ValueError(f"{table.where}, column 'close': expected at least 2 rows, got {len(close)}")
    return PriceHistory(close, opens, date)


def read_csv(path: str | os.PathLike[str]) -> Table:
    """The columns of a CSV file (UTF-8, gzipped or not, the first line names them) as lists of strings.

    Raises:
        ValueError: It is no such file, names a column twice, or has a row of another length than the first.
        FileNotFoundError: There is no such file.
    """
    where = os.fspath(path)
    raw = Path(path).read_bytes()
    try:
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: expected a UTF-8 CSV file, gzipped or not: {error}") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(reader, [])]
    if len(set(header)) < len(header):
        raise ValueError(f"{where}, line 1: expected every column to be named once, got {header}")
    rows: list[list[str]] = []
    lines: list[int] = []
    for row in reader:
        if not row:  # a blank line
            continue
        if len(row) != len(header):
            raise ValueError(f"{where}, line {reader.line_num}: expected {len(header)} fields, got {len(row)}")
        rows.append(row)
        lines.append(reader.line_num)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    return Table(columns, where, lines)


def _as_table(prices: Any) -> Table:
    if isinstance(prices, (str, os.PathLike)):
        return read_csv(prices)
    if isinstance(prices, Mapping):
        return Table(prices)
    if isinstance(prices, np.ndarray) and prices.dtype.names is not None:
        return Table({name: prices[name] for name in prices.dtype.names})
    pandas = sys.modules.get("pandas")  # whoever hands in a frame has imported it
    if pandas is not None and isinstance(prices, pandas.DataFrame):
        columns = {name: prices[name].to_numpy() for name in prices.columns}
        if isinstance(prices.index, pandas.DatetimeIndex):
            columns.setdefault("date", prices.index.values)
        return Table(columns)
    if pandas is not None and isinstance(prices, pandas.Series):
        return Table({"close": prices.to_numpy()})
    if isinstance(prices, (np.ndarray, Sequence)):
        return Table({"close": prices})
    raise TypeError(
        "prices: expected closes (1-D), a table with a column 'close' or the path of a CSV file, "
        f"got {type(prices).__name__}"
    )


def _read_prices(table: Table, column: str) -> NDArray[np.float64]:
    values = table.columns[column]
    try:
        prices = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        prices = np.array([_parse_price(value) for value in values])
    _check_one_axis(table, column, prices)
    wrong = np.flatnonzero(~((prices > 0.0) & (prices < np.inf)))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"{table.cell(row, column)}: expected a finite price above 0, got {_show(values, row)}")
    prices.flags.writeable = False
    return prices


def _parse_price(value: Any) -> float:
    """The price, or nan for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _read_dates(table: Table) -> NDArray[np.datetime64]:
    values = table.columns["date"]
    dates = np.array(values)
    if dates.dtype.kind != "M":
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns about time zones
            dates = np.array([_parse_date(value) for value in values], dtype="datetime64")
    _check_one_axis(table, "date", dates)
    unknown = np.flatnonzero(np.isnat(dates))
    if len(unknown):
        row = int(unknown[0])
        raise ValueError(
            f"{table.cell(row, 'date')}: expected an ISO date without a time zone, got {_show(values, row)}"
        )
    unsorted = np.flatnonzero(dates[1:] <= dates[:-1])
    if len(unsorted):
        row = int(unsorted[0]) + 1
        raise ValueError(f"{table.cell(row, 'date')}: expected a date after {dates[row - 1]}, got {dates[row]}")
    dates.flags.writeable = False
    return dates


def _parse_date(value: Any) -> np.datetime64:
    """The date, or NaT for what is none: numbers, words, years or months alone."""
    if not isinstance(value, (str, datetime.date, np.datetime64)):
        return np.datetime64("NaT")
    try:
        date = np.datetime64(value)
    except (ValueError, Warning):
        return np.datetime64("NaT")
    # A bare number such as 19990104 is a year to NumPy.
    return np.datetime64("NaT") if np.datetime_data(date.dtype)[0] in ("Y", "M") else date


def _check_one_axis(table: Table, column: str, array: NDArray[Any]) -> None:
    if array.ndim != 1:
        raise ValueError(f"{table.where}, column {column!r}: expected one axis, got the shape {array.shape}")


def _show(values: Any, row: int) -> str:
    """A cell as the user wrote it."""
    value = np.array(values, dtype=object)[row]
    return repr(value) if isinstance(value, str) else str(value)
