"""Tables of other libraries. None of them is imported: whoever hands in a frame has done that."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sims.data.columns import plain_name
from sims.data.dates import first_given, is_date, looks_like_date
from sims.data.table import Table


def as_table(prices: Any) -> Table:
    """Prices in memory as columns.

    Args:
        prices: Closes, or a table: see ``sims.data.as_history``.

    Raises:
        TypeError: It is neither.
        ValueError: It has several levels of names, as a table of several assets has.
    """
    pandas = sys.modules.get("pandas")
    if isinstance(prices, Mapping):
        if pandas is not None and any(is_dated(column) for column in prices.values()):
            return _from_pandas(pandas, pandas.DataFrame(dict(prices)))  # which brings them to the same dates
        return Table(prices)
    if isinstance(prices, np.ndarray) and prices.dtype.names is not None:
        return Table({name: prices[name] for name in prices.dtype.names})
    if pandas is not None and isinstance(prices, pandas.DataFrame):
        return _from_pandas(pandas, prices)
    if pandas is not None and isinstance(prices, pandas.Series):
        return _from_pandas(pandas, prices.to_frame("close"))
    if isinstance(prices, (np.ndarray, Sequence)) and not isinstance(prices, (str, bytes, bytearray)):
        if isinstance(prices, Sequence) and len(prices) and isinstance(prices[0], (Mapping, list, tuple)):
            raise TypeError(
                f"prices: expected closes (1-D) or columns, got rows, each a {type(prices[0]).__name__}: "
                "hand in pandas.DataFrame(rows, columns=[...])"
            )
        return Table({"close": prices})
    if hasattr(prices, "column_names") and hasattr(prices, "column"):  # an Arrow table
        return Table({name: prices.column(name).to_numpy() for name in prices.column_names})
    if hasattr(prices, "get_columns"):  # a polars frame
        return Table({column.name: column.to_numpy() for column in prices.get_columns()})
    if hasattr(prices, "to_numpy"):  # a column of either
        return Table({"close": prices.to_numpy()})
    remedy = ": hand in .collect() of it" if hasattr(prices, "collect") else ""
    raise TypeError(
        "prices: expected closes (1-D), a table with a column 'close' or the path of a CSV file, "
        f"got {type(prices).__name__}{remedy}"
    )


def refuse_other_indices(columns: Mapping[Any, Any]) -> None:
    """Refuse Series whose rows are not the same ones, which positions alone would join.

    Raises:
        ValueError: They are not.
    """
    pandas = sys.modules.get("pandas")
    series = {} if pandas is None else {k: each for k, each in columns.items() if isinstance(each, pandas.Series)}
    for name, each in series.items():
        first = next(iter(series))
        if not each.index.equals(series[first].index):
            raise ValueError(
                f"prices: expected Series of one index, got {str(first)!r} and {str(name)!r} with different ones: "
                "hand in pandas.DataFrame(prices), which joins them by it"
            )


def refuse_long(prices: Any) -> None:
    """Refuse a table of pandas with a row for each date and asset, with what makes one of it with a column per asset.

    Raises:
        ValueError: It is one.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(prices, (pandas.DataFrame, pandas.Series)):
        return
    if prices.index.nlevels > 1:
        what = "prices" if isinstance(prices, pandas.Series) else "frame['close']"
        raise ValueError(
            f"prices: expected a row per bar and a column of closes per asset, got an index of {prices.index.nlevels} "
            f"levels ({', '.join(map(str, prices.index.names))}): hand in {what}.unstack()"
        )


def split_frame(prices: Any) -> dict[str, Any] | None:
    """The frames of several assets, out of one of pandas with two levels of columns, as yfinance has it.

    Rows in which an asset has nothing at all are left out of its frame.

    Returns:
        They, by the names of the assets; None for anything else.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(prices, pandas.DataFrame) or prices.columns.nlevels != 2:
        return None
    for level in (0, 1):
        if {"close", "adj_close"} & set(map(plain_name, prices.columns.get_level_values(level))):
            names = prices.columns.get_level_values(1 - level).unique()
            return unique_names((name, prices.xs(name, axis=1, level=1 - level).dropna(how="all")) for name in names)
    return None


def unique_names(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Assets by their names, which are text from here on.

    Raises:
        ValueError: Two names are the same text.
    """
    found: dict[str, Any] = {}
    for name, each in pairs:
        if str(name) in found:
            raise ValueError(f"prices: expected assets of different names, got {str(name)!r} twice")
        found[str(name)] = each
    return found


def is_path(prices: Any) -> bool:
    """Whether prices are the path of a file."""
    return isinstance(prices, (str, os.PathLike))


def is_dated(column: Any) -> bool:
    """Whether a column is a Series of pandas with dates of its own."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(column, pandas.Series):
        return False
    return _has_dates(pandas, column.index) or _may_be_dates(pandas, column.index)


def _has_dates(pandas: Any, index: Any) -> bool:
    """Whether these are dates beyond doubt."""
    # Times since nobody knows when are refused as dates, as which they are meant.
    return isinstance(index, (pandas.DatetimeIndex, pandas.PeriodIndex, pandas.TimedeltaIndex)) or looks_like_date(
        first_given(index)
    )


def _may_be_dates(pandas: Any, index: Any) -> bool:
    """Whether these are days such as 20240131 or Unix times."""
    if not is_date(first_given(index)):
        return False
    # Numbers of rows, the last row first, may begin with what could be a day, but end at 0. Three days in a row, on the
    # other hand, are a range as well once `read_csv` has read them.
    return not isinstance(index, pandas.RangeIndex) or is_date(index[-1])


def _from_pandas(pandas: Any, frame: Any) -> Table:
    names = frame.columns
    for level in reversed(range(names.nlevels)):
        if names.nlevels > 1 and names.get_level_values(level).nunique() == 1:  # of one asset, as yfinance has it
            names = names.droplevel(level)
    for axis, what, remedy in (
        (names, "names of columns", "frame.xs('TICKER', axis=1, level=...)"),
        (frame.index, "the index", "frame.xs('TICKER', level=...), or frame.reset_index()"),
    ):
        if axis.nlevels > 1:
            raise ValueError(
                f"prices: expected one level of {what}, got {axis.nlevels} ({', '.join(map(str, axis.names))}): "
                f"of several assets, hand in one, as in {remedy}"
            )
    if not names.is_unique:
        raise ValueError(f"prices: expected every column to be named once, got {list(map(str, names))}")
    held = {name: frame.iloc[:, k] for k, name in enumerate(names)}
    index = frame.index
    has_dates = _has_dates(pandas, index)
    name = "index" if index.name is None or index.name in held else index.name
    if index.name is None:
        is_held = has_dates or _may_be_dates(pandas, index)
    else:
        is_held = has_dates or plain_name(index.name) not in map(plain_name, names)
    if is_held:
        held[name] = index
    in_utc = [each for each, column in held.items() if isinstance(column.dtype, pandas.DatetimeTZDtype)]
    columns = {each: _values(pandas, column) for each, column in held.items()}
    return Table(columns, index=name if has_dates else None, in_utc=in_utc)


def _values(pandas: Any, column: Any) -> Any:
    """The cells of a column or an index: periods by their start, moments with a time zone in UTC."""
    if isinstance(column.dtype, pandas.PeriodDtype):
        return pandas.Index(column).to_timestamp().to_numpy()
    if isinstance(column.dtype, pandas.DatetimeTZDtype):
        return pandas.Index(column).tz_convert(None).to_numpy()
    return column.to_numpy()
