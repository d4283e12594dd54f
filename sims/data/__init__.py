"""The small real price histories the kit ships, and ``PriceHistory``, the form in which a market takes prices.

Source, licence and checks of the files are in the README beside them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.data.history import PriceHistory, as_history
from sims.data.table import read_csv

__all__ = ["NAMES", "PriceHistory", "as_history", "load"]

#: The histories that ``load`` knows.
NAMES = ("nasdaq", "sp500")

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
    """A bundled history of daily prices.

    Args:
        name: ``"sp500"`` (S&P 500) or ``"nasdaq"`` (NASDAQ Composite).

    Returns:
        A read-only structured array of one row per trading day, oldest first: ``date`` datetime64[D]; ``open``,
        ``high``, ``low``, ``close``, ``adj_close`` float64, index points; ``volume`` int64, shares. The same array
        at every call.

    Raises:
        ValueError: No history has this name.
    """
    if name not in NAMES:
        raise ValueError(f"sims.data.load: expected one of {', '.join(map(repr, NAMES))}, got {name!r}")
    return _load(name)


@cache
def _load(name: str) -> NDArray[np.void]:
    columns = read_csv(Path(__file__).with_name(f"{name}_daily.csv.gz")).columns
    table: NDArray[Any] = np.empty(len(columns["date"]), dtype=_ROW)
    for key in _ROW.names or ():
        table[key] = np.array(columns[key]).astype(_ROW[key])
    table.flags.writeable = False
    return table
