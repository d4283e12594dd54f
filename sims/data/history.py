"""``PriceHistory``, the checked form of the prices a user hands to a market, and how it is made from theirs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import as_real, check_choice
from sims.data import dates
from sims.data.columns import find_columns
from sims.data.csv_files import open_csv
from sims.data.frames import as_table, is_path
from sims.data.table import Table, show

#: The note of a history whose dates came with a time zone.
CONVERTED = "dates have been converted to UTC"
#: Prices lie within ``1 / LIMIT`` and ``LIMIT``, and none is more than ``LIMIT`` times the one before: so returns fit
#: into float32, and a market can compute with units and wealth without leaving float64.
LIMIT = 1e38

_COLUMNS = ("close", "open", "date")


@dataclass(frozen=True, eq=False)
class PriceHistory:
    """Prices of one asset, bar by bar, oldest first.

    Whatever is given is checked, and copied into read-only arrays. ``as_history`` also takes tables and files.

    Attributes:
        close: float64 (T,), read-only, the last price of each bar, T at least 2.
        open: float64 (T,), read-only, the first price of each bar; None where it is not known.
        date: datetime64 (T,), read-only, strictly increasing; None where it is not known.
        execution: The price at which a market trades unless it is told: ``"open"`` of the next bar, or the ``"close"``
            just seen. Where it is not given, the open if there are opens.
        columns: Which column of what was read each of "close", "open", "date", "time" and "volume" came from.
        notes: What there is to know of these prices before one trades on them, a sentence each.

    Raises:
        ValueError: As for ``as_history``; or ``execution`` is neither, or "open" without opens.
    """

    close: NDArray[np.float64]
    open: NDArray[np.float64] | None = None
    date: NDArray[np.datetime64] | None = None
    execution: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in _COLUMNS if getattr(self, name) is not None}
        table = Table(given, "PriceHistory")
        if "close" not in given:
            raise ValueError(f"PriceHistory: expected a column 'close', got the columns {', '.join(given) or 'none'}")
        cells = _read_cells(table, {name: name for name in given})
        made: dict[str, Any] = _check_columns(table, {name: name for name in given}, cells)
        made["execution"] = self.execution
        if self.execution is None:
            made["execution"] = "close" if self.open is None else "open"
        check_choice("PriceHistory, execution", made["execution"], ("open", "close"))
        if made["execution"] == "open" and self.open is None:
            raise ValueError("PriceHistory, execution='open': expected opens, got closes alone")
        made["columns"] = MappingProxyType(dict(self.columns))
        made["notes"] = tuple(self.notes)
        # The record is frozen for its users; here its fields are still being made.
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.close)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and unpickled arrays are writeable, so that copies of this have to be made anew.
        return type(self), (self.close, self.open, self.date, self.execution, dict(self.columns), self.notes)

    def describe(self) -> dict[str, str]:
        """What was read, in words: "bars", "columns" and "notes", those that there are."""
        bars = f"{len(self):,}"
        if self.date is not None:
            bars += f", {self.date[0]} to {self.date[-1]}"
        told = {"bars": bars}
        if self.columns:
            told["columns"] = ", ".join(f"{name} from {column!r}" for name, column in self.columns.items())
        if self.notes:
            told["notes"] = "; ".join(self.notes)
        return told


def as_history(prices: Any, *, price: str | None = None, zero_volume: str | None = None) -> PriceHistory:
    """The prices a user has, checked and copied.

    Args:
        prices: One of

            - a 1-D array, list or pandas Series of closes;
            - a table with a column of closes and, if they are known, of opens, dates and volumes: a NumPy structured
              array, a mapping of arrays, a frame of pandas or polars, or an Arrow table. What is in its other columns
              does not matter;
            - the path of a CSV file, gzipped or not, whose first line names these columns, with commas, semicolons,
              tabs or bars between them;
            - a ``PriceHistory``, which is handed back.

            Columns are found by their usual names, in any case and with any signs around them: ``close``, ``open``,
            ``volume``; ``date``, ``datetime``, ``timestamp``, ``time`` (beside ``date`` the time of day) and the like.
            A column without a name and the index of a pandas object count where they hold dates.
            ``PriceHistory.columns`` tells what was found.

            Prices are real numbers or their text. Dates are days or times, as datetime objects, datetime64, text (year,
            month, day, or with dots also day, month, year), digits (20240131, 202401310930, 20240131093000) or Unix
            times; with a time zone they are converted to UTC. What looks like dates in a column of another name is
            refused where there are no others.
            Times of day are 09:30:00, 9:30, or numbers: 930 is half past nine, unless one in the column has more than
            four digits, as 93000.
            Rows are oldest first, or newest first, which are turned around.
        price: The column of closes, by name: needed where adjusted closes beside the closes differ from them
            (``"close"`` or ``"adj_close"``), or where it is called otherwise. Where a column ``close`` stands beside
            it, opens are adjusted by the same factor, unless there are adjusted ones.
        zero_volume: What to do with bars in which nothing was traded, where others have a volume: ``"trade"`` at their
            prices as at any others, or ``"drop"`` them from the history, so that nobody trades there. There is no
            default.

    Raises:
        TypeError: It is none of these.
        ValueError: A price is no number (as a bool, a masked value or a date is none), not above 0, outside
            [1e-38, 1e38], or more than 1e38 times the price before it (close to close, close to open or open to
            close); a date is no date or not after the one before; a column is missing, ambiguous or of another length;
            some volumes are 0 and ``zero_volume`` is not given; there are fewer than 2 rows; or the file is no CSV
            file. The message names row and column: the line of a file, or the index in an array.
        OSError: The file cannot be read: FileNotFoundError where there is none.
    """
    if zero_volume is not None:
        check_choice("zero_volume", zero_volume, ("trade", "drop"))
    if price is not None and not isinstance(price, str):
        raise TypeError(f"price: expected the name of a column, got {price!r}")
    if isinstance(prices, PriceHistory):
        if price is not None or zero_volume is not None:
            raise ValueError("price, zero_volume: expected None with a PriceHistory, whose columns have been read")
        return prices
    if not is_path(prices):
        table = as_table(prices)
        roles = find_columns(
            table.columns,
            lambda name: dates.first_given(_unused_cells(table, name)),
            lambda name: _unused_cells(table, name),
            where=table.where,
            price=price,
            index=table.index,
        )
        return make_history(table, roles, zero_volume)
    file = open_csv(prices)
    if file.first and file.first[0].strip() == "Ticker":
        raise ValueError(
            f"{file.where}, line 2: expected prices, got tickers, as yfinance writes them above prices: hand in "
            "pandas.read_csv(path, header=[0, 1], index_col=0)"
        )
    read_carefully = functools.cache(file.read_carefully)

    def cells(name: str) -> NDArray[Any]:
        return read_carefully().cells(name)

    def first(name: str) -> Any:
        cell = dates.first_given(file.first[file.names.index(name) :][:1])
        return dates.first_given(cells(name)) if cell is None else cell

    roles = find_columns(file.names, first, cells, where=file.where, price=price)
    texts = [roles[role] for role in ("date", "time") if role in roles]
    quick = file.read_quickly([name for name in roles.values() if name not in texts], texts)
    if quick is not None:
        try:
            return make_history(quick, roles, zero_volume)
        except ValueError:
            pass  # the careful reader names the line
    return make_history(read_carefully(), roles, zero_volume)


def _unused_cells(table: Table, column: Any) -> NDArray[Any]:
    """The cells of a column that may not be needed; none where it has not one axis."""
    try:
        return table.cells(column)
    except ValueError:
        return np.empty(0)


def make_history(table: Table, roles: Mapping[str, Any], zero_volume: str | None) -> PriceHistory:
    """A history of the columns that have been found.

    Args:
        table: The columns.
        roles: Names of columns by what they are, as ``find_columns`` gives them.
        zero_volume: As for ``as_history``.

    Raises:
        ValueError: As for ``as_history``.
    """
    cells = _read_cells(table, roles)
    notes: list[str] = []
    order = np.arange(len(cells["close"]))
    if "date" in cells:
        cells["date"], is_utc = _read_dates(table, roles, cells)
        if is_utc:
            notes.append(CONVERTED)
        days = cells["date"]
        if len(days) > 1 and (days[1:] < days[:-1]).all():
            order = order[::-1]
            notes.append("rows came newest first, and have been turned around")
    else:
        notes.append("there are no dates: rows are taken to be oldest first")
    if "volume" in cells:
        order = order[_may_trade(table, roles["volume"], cells["volume"][order], order, zero_volume, notes)]
    if len(order) != len(cells["close"]) or (len(order) > 1 and order[0] > order[1]):
        cells = {role: column[order] for role, column in cells.items()}
        table = table._replace(rows=order if table.rows is None else np.asarray(table.rows)[order])
    _choose_closes(table, roles, cells)
    if "unadjusted" in roles:
        raw = _read_prices(table, roles["unadjusted"], cells["unadjusted"])
        opens = _read_prices(table, roles["open"], cells["open"])
        with np.errstate(over="ignore", under="ignore"):
            cells["open"] = opens * (_read_prices(table, roles["close"], cells["close"]) / raw)
        notes.append("opens are adjusted by the factor of the closes")
    if "open" not in roles:
        notes.append("there are no opens: trades are at the close just seen")
    columns = _check_columns(table, roles, {role: cells[role] for role in _COLUMNS if role in cells})
    used = {role: str(roles[role]) for role in ("close", "open", "date", "time", "volume") if role in roles}
    return PriceHistory(**columns, columns=used, notes=tuple(notes))


def _read_cells(table: Table, roles: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The columns as arrays of one length."""
    cells = {role: table.cells(column) for role, column in roles.items()}
    rows = len(cells["close"])
    for role, column in cells.items():
        if len(column) != rows:
            raise ValueError(
                f"{table.where}, column {str(roles[role])!r}: expected {rows} rows, as in column "
                f"{str(roles['close'])!r}, got {len(column)}"
            )
    return cells


def _check_columns(
    table: Table, roles: Mapping[str, Any], cells: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The columns of a ``PriceHistory`` that there are, checked, copied and read-only."""
    columns: dict[str, NDArray[Any]] = {}
    for role in ("close", "open"):
        if role in cells:
            columns[role] = _read_prices(table, roles[role], cells[role])
    if "date" in cells:
        columns["date"], _ = _read_dates(table, roles, {"date": cells["date"]})
        _check_order(table, roles["date"], columns["date"])
    for column in columns.values():
        column.flags.writeable = False
    close = columns["close"]
    if len(close) < 2:
        raise ValueError(f"{table.where}, column {str(roles['close'])!r}: expected at least 2 rows, got {len(close)}")
    _check_rises(table, close[:-1], "close", close[1:], roles["close"], 1)
    if "open" in columns:
        _check_rises(table, close[:-1], "close", columns["open"][1:], roles["open"], 1)
        _check_rises(table, columns["open"], "open", close, roles["close"], 0)
    return columns


# -- prices ------------------------------------------------------------------------------------------------


def _read_prices(table: Table, column: Any, cells: NDArray[Any]) -> NDArray[np.float64]:
    prices = _parse_numbers(cells)
    for wrong, expected in (
        (~((prices > 0.0) & (prices < np.inf)), "a finite price above 0"),
        ((prices < 1.0 / LIMIT) | (prices > LIMIT), f"a price in [{1.0 / LIMIT:g}, {LIMIT:g}]"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            got = f"{show(cells[row])}{_remedy(cells[row], prices[row])}"
            raise ValueError(f"{table.cell(row, column)}: expected {expected}, got {got}")
    return prices


def _remedy(cell: Any, price: float) -> str:
    if isinstance(cell, str) and any(sign in cell for sign in ",$%"):
        return " (with a decimal point, and without signs and separators)"
    return " (leave such rows out)" if np.isnan(price) else ""


def _parse_numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers or their text as new float64, nan for what is neither."""
    if cells.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # a long double may hold more than a float64
            return cells.astype(np.float64)
    if cells.dtype.kind == "O" and all(type(cell) is str for cell in cells):
        try:
            return np.array(list(map(float, cells)))
        except ValueError:
            pass  # one by one, then
    return np.array([_parse_number(cell) for cell in cells], dtype=np.float64)


def _parse_number(cell: Any) -> float:
    """The number, or nan for what is none."""
    if isinstance(cell, str):
        try:
            return float(cell)
        except ValueError:
            return np.nan
    number = as_real(cell)
    return np.nan if number is None else number


def _check_rises(
    table: Table, before: NDArray[np.float64], of: str, after: NDArray[np.float64], column: Any, first: int
) -> None:
    """Refuse rises beyond the limit; ``first`` is the row of the first price in ``after``."""
    wrong = after / LIMIT > before
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"{table.cell(i + first, column)}: expected at most {LIMIT:g} times the {of} before it, {before[i]}, "
            f"got {after[i]}"
        )


def _choose_closes(table: Table, roles: Mapping[str, Any], cells: Mapping[str, NDArray[Any]]) -> None:
    """Refuse adjusted closes beside others unless they are the same."""
    if "adjusted" not in roles:
        return
    close, adjusted = (_parse_numbers(cells[role]) for role in ("close", "adjusted"))
    differs = close != adjusted
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"{table.cell(row, roles['adjusted'])}: expected {show(cells['close'][row])}, as in column "
            f"{str(roles['close'])!r}, got {show(cells['adjusted'][row])}: say which to trade at, price='close' or "
            "price='adj_close' (dividends and splits taken out, of opens as well)"
        )


# -- volumes -----------------------------------------------------------------------------------------------


def _may_trade(
    table: Table,
    column: Any,
    cells: NDArray[Any],
    rows: NDArray[np.int64],
    zero_volume: str | None,
    notes: list[str],
) -> NDArray[np.bool_]:
    """Which bars stay; what is no number is no volume of 0."""
    empty = _parse_numbers(cells) == 0.0
    count = int(np.count_nonzero(empty))
    if count == 0:
        return ~empty
    if count == len(empty):
        notes.append(f"{str(column)!r} is 0 in every bar, and tells nothing")
        return empty
    bars = f"{count:,} bars with a volume of 0" if count > 1 else "1 bar with a volume of 0"
    if zero_volume is None:
        raise ValueError(
            f"{table.cell(int(rows[np.argmax(empty)]), column)}: expected a volume above 0, got {bars} of "
            f"{len(empty):,}: say whether one can trade there, zero_volume='trade' (at their prices) or 'drop' "
            "(without these bars)"
        )
    if zero_volume == "trade":
        notes.append(f"{bars} can be traded as any other")
        return np.ones(len(empty), dtype=bool)
    notes.append(f"{bars} {'have' if count > 1 else 'has'} been left out")
    return ~empty


# -- dates -------------------------------------------------------------------------------------------------


def _read_dates(
    table: Table, roles: Mapping[str, Any], cells: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.datetime64], bool]:
    """Dates, with the time of day where that has a column of its own; and whether they had a time zone."""
    column = roles["date"]
    moments, zoned = dates.read_dates(cells["date"])
    _refuse_date(table, column, cells["date"], np.isnat(moments), f"{dates.EXPECTED}, got ", f" ({dates.REMEDY})")
    is_zoned = bool(zoned.any()) or column in table.in_utc
    if zoned.any():
        _refuse_date(table, column, cells["date"], zoned != zoned[0], "all dates with a time zone or none, got ", "")
    if "time" in cells:
        times = dates.read_times(cells["time"])
        wrong = np.isnat(times)
        remedy = f" (write it so, or leave the column out where {str(column)!r} tells the moment)"
        _refuse_date(table, roles["time"], cells["time"], wrong, "a time of day such as 09:30:00, got ", remedy)
        wrong = moments != moments.astype("datetime64[D]")
        _refuse_date(table, column, cells["date"], wrong, f"a day, beside a column {str(roles['time'])!r}, got ", "")
        days, moments = moments, moments + times
        wrong = moments.astype("datetime64[D]") != days
        _refuse_date(table, column, cells["date"], wrong, "a date that a time in nanoseconds can have, got ", "")
    return moments, is_zoned


def _refuse_date(
    table: Table, column: Any, cells: NDArray[Any], wrong: NDArray[np.bool_], expected: str, remedy: str
) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{table.cell(row, column)}: expected {expected}{show(cells[row])}{remedy}")


def _check_order(table: Table, column: Any, moments: NDArray[np.datetime64]) -> None:
    unsorted = moments[1:] <= moments[:-1]
    if unsorted.any():
        row = int(np.argmax(unsorted)) + 1
        raise ValueError(
            f"{table.cell(row, column)}: expected a date after {moments[row - 1]}, got {moments[row]} (rows have to be "
            "of one asset, in order, and each once)"
        )
