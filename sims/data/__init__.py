"""The small real price histories the kit ships, and ``PriceHistory``, the form in which a market takes prices.

``PricePanel`` holds those of several assets on common bars. ``read_lobster`` reads messages and order books, which
``Tape`` holds; ``load_lobster`` a small synthetic pair of files. Source, licence and checks of the files are in the
README beside them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sims.data.bundled import NAMES, load, load_history
from sims.data.history import PriceHistory, as_history
from sims.data.lobster import read_lobster, write_lobster
from sims.data.panel import PricePanel
from sims.data.reading import PANELS, as_panel, load_panel
from sims.data.tape import Tape

__all__ = [
    "NAMES",
    "PANELS",
    "PriceHistory",
    "PricePanel",
    "Tape",
    "as_history",
    "as_panel",
    "load",
    "load_history",
    "load_lobster",
    "load_panel",
    "read_lobster",
    "write_lobster",
]


@cache
def load_lobster() -> Tape:
    """The bundled pair of LOBSTER's files, which is synthetic: made by a program, of no real stock.

    Returns:
        A ``Tape`` of 2,000 messages and 10 levels a side. The same at every call.
    """
    message, orderbook = (Path(__file__).with_name(f"synthetic_{name}_10.csv.gz") for name in ("message", "orderbook"))
    return read_lobster(message, orderbook, notes=("synthetic messages, made by a program, of no real stock",))
