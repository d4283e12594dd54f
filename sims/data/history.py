"""``PriceHistory``, the checked form of the prices a user hands to a market, and how it is made from theirs."""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import as_real
from sims.data.table import Table, read_csv

#: Prices lie within ``1 / LIMIT`` and ``LIMIT``, and none is more than ``LIMIT`` times the one before: so returns fit
#: into float32, and a market can compute with units and wealth without leaving float64.
LIMIT = 1e38

#: A day, or a time within it. NumPy would also take words ("today"), bare years and months, and time zones.
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:]+([.][0-9]{1,9})?)?")


@dataclass(frozen=True, eq=False)
class PriceHistory:
    """Prices of one asset, bar by bar, oldest first.

    Whatever is given is checked, and copied into read-only arrays. ``as_history`` also takes tables and files.

    Attributes:
        close: float64 (T,), read-only, the last price of each bar, T at least 2.
        open: float64 (T,), read-only, the first price of each bar; None where it is not known.
        date: datetime64 (T,), read-only, strictly increasing; None where it is not known.

    Raises:
        ValueError: As for ``as_history``.
    """

    close: NDArray[np.float64]
    open: NDArray[np.float64] | None = None
    date: NDArray[np.datetime64] | None = None

    def __post_init__(self) -> None:
        given = {"close": self.close, "open": self.open, "date": self.date}
        columns = {name: column for name, column in given.items() if column is not None}
        # The record is frozen for its users; here its fields are still being made.
        for name, column in _read_columns(Table(columns, "PriceHistory")).items():
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.close)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and unpickled arrays are writeable, so that copies of this have to be made anew.
        return type(self), (self.close, self.open, self.date)


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

            Prices are real numbers or their text. Dates are ISO strings (a day, or a time within it), datetime
            objects or datetime64, without a time zone.

    Raises:
        TypeError: It is none of these.
        ValueError: A price is no number (as a bool, a masked value or a date is none), not above 0, outside
            [1e-38, 1e38], or more than 1e38 times the price before it (close to close, close to open or open to
            close); a date is no date or not after the one before; a column is missing or of another length; there
            are fewer than 2 rows; or the file is no CSV file. The message names row and column: the line of a file,
            or the index in an array.
        OSError: The file cannot be read: FileNotFoundError where there is none.
    """
    if isinstance(prices, PriceHistory):
        return prices
    return PriceHistory(**_read_columns(_as_table(prices)))


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
            columns.setdefault("date", prices.index.to_numpy())  # of objects where it has a time zone
        return Table(columns)
    if pandas is not None and isinstance(prices, pandas.Series):
        return Table({"close": prices.to_numpy()})
    if isinstance(prices, (np.ndarray, Sequence)) and not isinstance(prices, (bytes, bytearray)):
        return Table({"close": prices})
    raise TypeError(
        "prices: expected closes (1-D), a table with a column 'close' or the path of a CSV file, "
        f"got {type(prices).__name__}"
    )


def _read_columns(table: Table) -> dict[str, NDArray[Any]]:
    """The columns of a ``PriceHistory`` that the table has, checked, copied and read-only."""
    if "close" not in table.columns:
        found = ", ".join(repr(str(name)) for name in table.columns) or "none"
        raise ValueError(f"{table.where}: expected a column 'close', got the columns {found}")
    columns: dict[str, NDArray[Any]] = {"close": _read_prices(table, "close")}
    if "open" in table.columns:
        columns["open"] = _read_prices(table, "open")
    if "date" in table.columns:
        columns["date"] = _read_dates(table)
    rows = len(columns["close"])
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(
                f"{table.where}, column {name!r}: expected {rows} rows, as in column 'close', got {len(column)}"
            )
        column.flags.writeable = False
    if rows < 2:
        raise ValueError(f"{table.where}, column 'close': expected at least 2 rows, got {rows}")
    close = columns["close"]
    _check_rises(table, close[:-1], "close", close[1:], "close", 1)
    if "open" in columns:
        _check_rises(table, close[:-1], "close", columns["open"][1:], "open", 1)
        _check_rises(table, columns["open"], "open", close, "close", 0)
    return columns


def _read_prices(table: Table, column: str) -> NDArray[np.float64]:
    cells = _cells(table, column)
    if cells.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # a long double may hold more than a float64
            prices = cells.astype(np.float64)
    else:
        prices = np.array([_parse_price(cell) for cell in cells], dtype=np.float64)
    for wrong, expected in (
        (~((prices > 0.0) & (prices < np.inf)), "a finite price above 0"),
        ((prices < 1.0 / LIMIT) | (prices > LIMIT), f"a price in [{1.0 / LIMIT:g}, {LIMIT:g}]"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(f"{table.cell(row, column)}: expected {expected}, got {_show(cells[row])}")
    return prices


def _parse_price(cell: Any) -> float:
    """The price, or nan for what is none."""
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            return np.nan
    price = as_real(cell)
    return np.nan if price is None else price


def _check_rises(
    table: Table, before: NDArray[np.float64], of: str, after: NDArray[np.float64], column: str, first: int
) -> None:
    """Refuse rises beyond the limit; ``first`` is the row of the first price in ``after``."""
    wrong = after / LIMIT > before
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"{table.cell(i + first, column)}: expected at most {LIMIT:g} times the {of} before it, {before[i]}, "
            f"got {after[i]}"
        )


def _read_dates(table: Table) -> NDArray[np.datetime64]:
    cells = _cells(table, "date")
    if cells.dtype.kind == "M":
        dates = np.array(cells)
    else:
        dates = np.array([_parse_date(cell) for cell in cells], dtype="datetime64")
    unknown = np.isnat(dates)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(
            f"{table.cell(row, 'date')}: expected an ISO date without a time zone, got {_show(cells[row])}"
        )
    unsorted = dates[1:] <= dates[:-1]
    if unsorted.any():
        row = int(np.argmax(unsorted)) + 1
        raise ValueError(f"{table.cell(row, 'date')}: expected a date after {dates[row - 1]}, got {dates[row]}")
    return dates


def _parse_date(cell: Any) -> np.datetime64:
    """The date, or NaT for what is none: numbers, words, years or months alone, times with a zone."""
    if isinstance(cell, str):
        is_date = _ISO_DATE.fullmatch(cell) is not None
    elif isinstance(cell, datetime.datetime):
        is_date = cell == cell and cell.tzinfo is None  # NaT of pandas is a datetime, and not equal to itself
    elif isinstance(cell, np.datetime64):
        is_date = np.datetime_data(cell.dtype)[0] not in ("Y", "M")
    else:
        is_date = isinstance(cell, datetime.date)
    try:
        return np.datetime64(cell) if is_date else np.datetime64("NaT", "D")
    except ValueError:  # the 30th of February
        return np.datetime64("NaT", "D")


def _cells(table: Table, column: str) -> NDArray[Any]:
    """The column as an array of one axis, of objects where it has no dtype of its own or something is masked."""
    values = table.columns[column]
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray, memoryview)):
        cells = np.fromiter(values, dtype=object, count=len(values))  # NumPy would make numbers of bools and text
    else:
        cells = np.asarray(values)
    if cells.ndim != 1:
        raise ValueError(f"{table.where}, column {column!r}: expected one axis, got the shape {cells.shape}")
    masked = np.ma.getmask(values)
    if np.any(masked):
        cells = cells.astype(object)
        cells[masked] = "masked"
    return cells


def _show(cell: Any) -> str:
    """A cell as the user wrote it."""
    return repr(str(cell)) if isinstance(cell, str) else str(cell)
