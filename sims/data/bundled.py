"""The real price histories that the kit ships; the README beside them has their source, licence and checks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sims.data.csv_files import open_csv
from sims.data.history import PriceHistory, as_history

NAMES = ("nasdaq", "sp500")
"""The histories that ``load`` and ``load_history`` know."""

_ROW = np.dtype(
    [
        ("date", "datetime64[D]"),
        ("open", np.float64),
        ("high", np.float64),
        ("low", np.float64),
        ("close", np.float64),
        ("adj_close", np.float64),
        ("volume", np.int64),
    ]
)


def load(name: str) -> NDArray[np.void]:
    """The table of a bundled history of daily prices, for a look at its columns.

    A market takes ``load_history``, or the name: what the table alone cannot tell, that the S&P 500 trades at closes
    and why, and that the days without a volume on the NASDAQ can be traded, comes only with that.

    Args:
        name: ``"sp500"`` (S&P 500) or ``"nasdaq"`` (NASDAQ Composite).

    Returns:
        A read-only structured array of one row per trading day, oldest first, with ``date`` datetime64[D]; ``open``,
        ``high``, ``low``, ``close``, ``adj_close`` float64, index points; ``volume`` int64, shares. The same array
        at every call.

    Raises:
        ValueError: No history has this name.
    """
    if name not in NAMES:
        raise ValueError(f"sims.data.load: expected one of {', '.join(map(repr, NAMES))}, got {name!r}")
    return _load(name)


def load_history(name: str, *, price: str | None = None, zero_volume: str | None = None) -> PriceHistory:
    """A bundled history as a market takes it, with what to know of it in its ``notes``.

    The S&P 500 trades at closes unless a market is told otherwise: most of its opens are the close of the day before.

    Args:
        name: ``"sp500"`` or ``"nasdaq"``.
        price: As for ``as_history``.
        zero_volume: As for ``as_history``; None for ``"trade"``, since the prices of the two days without a volume on
            the NASDAQ are those of full days.

    Raises:
        ValueError: No history has this name, or an argument is none of its choices.
    """
    history = as_history(load(name), price=price, zero_volume="trade" if zero_volume is None else zero_volume)
    told = _TOLD[name]
    return replace(history, execution=told.execution, notes=(told.name, *history.notes, *told.notes))


def read_history(prices: Any, *, price: str | None = None, zero_volume: str | None = None) -> PriceHistory:
    """The prices a user has, or the name of a bundled history.

    Args:
        prices: What ``as_history`` takes, or a name that ``load_history`` knows.
        price: As for ``as_history``.
        zero_volume: As for ``as_history``.

    Raises:
        TypeError: As for ``as_history``.
        ValueError: As for ``as_history``.
        OSError: As for ``as_history``.
    """
    read = load_history if isinstance(prices, str) and prices in NAMES else as_history
    return read(prices, price=price, zero_volume=zero_volume)


class _Told(NamedTuple):
    name: str
    execution: str
    notes: tuple[str, ...] = ()


_TOLD = {
    "nasdaq": _Told("NASDAQ Composite, daily", "open"),
    "sp500": _Told(
        "S&P 500, daily",
        "close",
        (
            "trades are at the close just seen, since the open in this file is the close of the day before, and so not "
            "a price at which anybody could have traded, on 40% of all days (95 to 98% of them in 1999 to 2005)",
        ),
    ),
}


@cache
def _load(name: str) -> NDArray[np.void]:
    columns = open_csv(Path(__file__).with_name(f"{name}_daily.csv.gz")).read_carefully().columns
    table: NDArray[Any] = np.empty(len(columns["date"]), dtype=_ROW)
    for key in _ROW.names or ():
        table[key] = np.array(columns[key]).astype(_ROW[key])
    table.flags.writeable = False
    return table
