"""The prices of several assets as a user has them: files, a table with a column per asset, or what the kit ships."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import check_choice
from sims.data import dates
from sims.data.bundled import NAMES, read_history
from sims.data.columns import find_dates, plain_name
from sims.data.csv_files import open_csv
from sims.data.frames import as_table, is_dated, is_path, refuse_long, refuse_other_indices, split_frame, unique_names
from sims.data.history import PriceHistory, make_history
from sims.data.panel import JOINS, PricePanel, as_matrix, join_histories
from sims.data.table import Table

PANELS = {"indices": ("sp500", "nasdaq")}
"""The panels that ``load_panel`` knows, and the bundled histories that each is made of."""

#: Names of a column that says whose prices a row has, in small letters.
_ASSET = {"ticker", "tickers", "symbol", "symbols", "asset", "instrument", "name", "code", "isin", "permno", "sid"}
#: What stands for a price that is missing, in small letters.
_MISSING = {"", "nan", "none", "nat", "<na>", "na", "n/a", "null", "masked"}


def load_panel(name: str) -> PricePanel:
    """A panel of bundled histories, on the days that all of them have.

    Args:
        name: ``"indices"``, the S&P 500 and the NASDAQ Composite, 1999 to 2018, traded at closes, since the opens of
            the former are stale.

    Raises:
        ValueError: No panel has this name.
    """
    if name not in PANELS:
        raise ValueError(f"sims.data.load_panel: expected one of {', '.join(map(repr, PANELS))}, got {name!r}")
    return as_panel({each: each for each in PANELS[name]})


def as_panel(
    prices: Any, *, join: str | None = None, price: str | None = None, zero_volume: str | None = None
) -> PricePanel:
    """The prices of several assets, checked, joined and copied.

    Args:
        prices: One of

            - a mapping from the name of each asset to its prices: the path of a CSV file, a table, a pandas Series with
              dates, whatever ``as_history`` takes, or the name of a bundled history;
            - a list of paths of CSV files, each named by its file;
            - a table with a column of closes per asset and, if they are known, one of dates, in any form that
              ``as_history`` takes, or the path of such a CSV file. Where the column ``close`` is there, it is one asset
              with its opens, closes and volumes instead. A frame of pandas may have two levels of columns, as yfinance
              writes them for several tickers;
            - an array (T, K) of closes;
            - a ``PricePanel``, which is handed back.

            Prices and dates are written as for ``as_history``. In a table with a column per asset NaN, None and empty
            cells are missing values: the asset is not listed there. Bars without any price are left out, and noted.

            Bars are joined by their dates alone. Where assets close at different hours of one date, as in Tokyo and New
            York, a row shows closes that were not known at the same time, and whoever trades at the earlier ones looks
            ahead: date each bar by the moment of its close, or shift the later market's by a bar.
        join: Which bars there are, ``"common"`` (those that all assets have) or ``"all"`` (those that any has, an asset
            not being listed in the others). None for "common" where assets come with bars of their own, and "all" in
            one table of all assets. Joined are the same dates; without dates the same rows.
        price: As for ``as_history``, of assets that come with tables of their own.
        zero_volume: Likewise.

    Raises:
        TypeError: It is none of these.
        ValueError: As for ``as_history``, with the asset named; or an asset has fewer than 2 prices, names are not
            different, only some assets have dates, or dates with a time zone, there are fewer than 2 common bars, a
            table has a row per date and asset, or ``prices`` is the name of a bundled panel or of one history.
        OSError: A file cannot be read: FileNotFoundError where there is none.
    """
    if join is not None:
        check_choice("join", join, JOINS)
    if isinstance(prices, PricePanel):
        if (join, price, zero_volume) != (None, None, None):
            raise ValueError("join, price, zero_volume: expected None with a PricePanel, which has been joined")
        return prices
    _refuse_names(prices)
    refuse_long(prices)
    frames = split_frame(prices)
    several = _several(prices) if frames is None else frames
    if several is not None:
        default = "common" if frames is None else "all"
        return join_histories(
            {name: _read_asset(name, each, price, zero_volume) for name, each in several.items()}, join or default
        )
    table = _read_table(prices)
    if "close" in map(plain_name, table.columns):
        _refuse_long_table(table)
        name = _stem(prices) if is_path(prices) else "asset"
        return join_histories({name: _read_asset(name, prices, price, zero_volume)}, join or "common")
    if (price, zero_volume) != (None, None):
        raise ValueError("price, zero_volume: expected None with a column of closes per asset")
    return _split(table, join or "all")


def _refuse_names(prices: Any) -> None:
    """Refuse the name of something bundled that is no table of several assets."""
    if isinstance(prices, str) and prices in PANELS:
        raise ValueError(f"prices: expected prices, got the name of a bundled panel: hand in load_panel({prices!r})")
    if isinstance(prices, str) and prices in NAMES:
        raise ValueError(
            f"prices: expected several assets, got the name of one bundled history, {prices!r}: hand in "
            f"[{prices!r}], or with more of them"
        )


def _refuse_long_table(table: Table) -> None:
    """Refuse a table with closes of several assets below each other."""
    for name in table.columns:
        if plain_name(name) in _ASSET and len({str(cell) for cell in table.cells(name)}) > 1:
            raise ValueError(
                f"{table.where}: expected a column of closes per asset, got closes of several below each other, by the "
                f"column {str(name)!r}: hand in frame.pivot(index='date', columns={str(name)!r}, values='close')"
            )


def _several(prices: Any) -> dict[str, Any] | None:
    """The prices of each asset by its name; None where they are columns of one table."""
    if isinstance(prices, Mapping):
        if prices and not all(_is_column(each) for each in prices.values()):
            return unique_names(prices.items())
        refuse_other_indices(prices)
        return None
    if not isinstance(prices, Sequence) or isinstance(prices, (str, bytes)) or not prices:
        return None
    if any(hasattr(each, "iloc") for each in prices):
        raise TypeError(
            "prices: expected the names of assets whose prices are in a list, got none: hand in {name: prices}"
        )
    if not all(map(is_path, prices)):
        return None
    names = [_stem(path) for path in prices]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"prices: expected files of different names, got {name!r} twice: hand in {{name: path}}")
    return dict(zip(names, prices, strict=True))


def _stem(path: str | os.PathLike[str]) -> str:
    return Path(path).name.removesuffix(".gz").removesuffix(".csv")


def _is_column(values: Any) -> bool:
    """Whether these are cells of a table, not an asset's own prices."""
    if is_path(values) or isinstance(values, (Mapping, PriceHistory)) or is_dated(values):
        return False
    return getattr(values, "ndim", 1) == 1 and getattr(getattr(values, "dtype", None), "names", None) is None


def _read_asset(name: str, prices: Any, price: str | None, zero_volume: str | None) -> PriceHistory:
    try:
        return read_history(prices, price=price, zero_volume=zero_volume)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"asset {name!r}: {error}") from error


def _read_table(prices: Any) -> Table:
    if is_path(prices):
        return open_csv(prices).read_carefully()
    if isinstance(prices, (list, tuple)) and len(prices) and isinstance(prices[0], (list, tuple, np.ndarray)):
        prices = as_matrix("close", prices)
    if isinstance(prices, np.ndarray) and prices.ndim == 2:
        columns = prices.T
        return Table({f"asset {k}": column for k, column in enumerate(columns)})
    return as_table(prices)


def _split(table: Table, join: str) -> PricePanel:
    """A table with a column per asset, as the histories of each, and these joined."""
    roles = find_dates(
        table.columns,
        lambda name: dates.first_given(table.cells(name)),
        table.cells,
        where=table.where,
        index=table.index,
    )
    shared = {name: table.cells(name) for name in roles.values()}
    length = len(next(iter(shared.values()))) if shared else None
    histories: dict[str, PriceHistory] = {}
    rows: dict[str, NDArray[np.int64]] = {}
    for column in table.columns:
        if column in shared:
            continue
        cells = table.cells(column)
        length = len(cells) if length is None else length
        if len(cells) != length:
            raise ValueError(f"{table.where}, column {str(column)!r}: expected {length} rows, got {len(cells)}")
        there = np.flatnonzero(~_missing(cells))
        if len(there) < 2:
            raise ValueError(f"{table.where}, column {str(column)!r}: expected at least 2 prices, got {len(there)}")
        numbers = there if table.rows is None else np.asarray(table.rows)[there]
        cut = {name: each[there] for name, each in shared.items()} | {column: cells[there]}
        own = table._replace(columns=cut, rows=numbers)
        history = make_history(own, {"close": column, **roles}, None)
        if str(column) in histories:
            raise ValueError(f"{table.where}: expected assets of different names, got {str(column)!r} twice")
        histories[str(column)] = PriceHistory(history.close, None, history.date)
        rows[str(column)] = there
    if not histories:
        raise ValueError(f"{table.where}: expected a column of closes per asset, got {list(map(str, table.columns))}")
    panel = join_histories(histories, join, rows)
    empty = (length or 0) - len(functools.reduce(np.union1d, rows.values()))
    if not empty:
        return panel
    return replace(panel, notes=(*panel.notes, f"{empty:,} bar{'s' * (empty > 1)} without any price left out"))


def _missing(cells: NDArray[Any]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind != "O" and cells.dtype.kind not in "SU":
        return np.zeros(len(cells), dtype=bool)
    return np.array([str(cell).strip().lower() in _MISSING for cell in cells], dtype=bool)
