"""Which column of a table is what, by the names that files and libraries give them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.data.dates import are_dates, is_date, is_time, looks_like_date

#: Names as ``plain_name`` gives them, the first of which that a table has is taken.
_NAMES = {
    "close": ("close", "close_price", "closing_price", "close_last"),
    "adj_close": ("adj_close", "adjclose", "adjusted_close", "adj_close_price"),
    "open": ("open", "open_price", "opening_price"),
    "adj_open": ("adj_open", "adjopen", "adjusted_open"),
    # Where quotes are counted too, it is those: MetaTrader writes 0 for the volume of currencies.
    "volume": ("tickvol", "tick_volume", "volume", "vol"),
}
#: Days as vendors of data call them.
_DAYS = (
    *("date", "dates", "trade_date", "tradedate", "trading_date", "tradingdate", "trading_day", "exchange_date"),
    *("quote_date", "price_date", "datadate", "dlycaldt", "caldt", "trddt", "yyyymmdd"),
)
#: Dates: what tells the time within a day before what may tell the day alone.
_DATES = (
    *("datetime", "date_time", "timestamp", "open_time", "opentime", "gmt_time", "local_time", "utc_time"),
    *("window_start", "date", "time", "unix", "epoch", *_DAYS[1:]),
)
#: Names of what may be dates in any order, and of other numbers, which may look like dates for a while.
_MEANS_DATE = re.compile("date|time|day|stamp|datum")
_MEANS_NUMBER = re.compile(
    "vol|amount|amt|turnover|value|cap|share|trades|count|interest|money|quantity|qty|notional|obv"
    "|open|high|low|close|price|vwap|average|bid|ask|settle"
)
#: What an index without a name is called once it is a column.
_NAMELESS = ("", "unnamed_0", "index")
_NO_OPENS = {"time", "interest", "int"}


def plain_name(name: Any) -> str:
    """A column's name in small letters and underscores, without a number before it: "<OPEN>" is "open"."""
    return re.sub(r"^[0-9]+_(?=[a-z])", "", re.sub(r"[\W_]+", "_", str(name).lower()).strip("_"))


def find_columns(
    names: Iterable[Any],
    first: Callable[[Any], Any],
    cells: Callable[[Any], NDArray[Any]],
    *,
    where: str,
    price: str | None,
    index: Any = None,
) -> dict[str, Any]:
    """The columns that a history is made from.

    Args:
        names: The names of all columns.
        first: From a name to the first cell of the column that is not missing, None without one.
        cells: From a name to all cells of the column, which is asked for only where it matters.
        where: What an error calls the table.
        price: The column of closes that is asked for, as it is called or by ``plain_name``; None for "close".
        index: The column that is known to hold the dates; None for none.

    Returns:
        Names of columns by what they are: "close", and those there are of "open", "date", "time" (of day), "volume".
        Besides, where closes are adjusted, "unadjusted", their column before that, by which opens have to follow; and
        "adjusted", adjusted closes that are not asked for, beside the closes, without a word that these are.

    Raises:
        ValueError: There are no closes, there are two of something, or what looks like dates or opens is not named so.
    """
    listed = list(names)
    plain, pick = _by_plain_name(listed, where)
    found = {"close": _pick_closes(listed, plain, pick, where, price)}
    adjusted = pick(_NAMES["adj_close"])
    is_adjusted = found["close"] == adjusted
    opens = pick(_NAMES["adj_open"]) if is_adjusted else None
    if opens is None:
        opens = pick(_NAMES["open"])
        beside = pick(_NAMES["close"])
        # Whatever closes are called that were asked for: those that the opens belong to stand beside them.
        if opens is not None and (is_adjusted or beside not in (None, found["close"])):
            found["unadjusted"] = beside
            if beside is None:
                raise ValueError(
                    f"{where}: expected a column 'close' beside {str(adjusted)!r}, by which {str(opens)!r} could be "
                    "adjusted as well: add it, or leave out the opens"
                )
    if opens is None:
        looks = [name for key, name in plain.items() if _means_opens(key, is_adjusted)]
        if looks:
            raise ValueError(
                f"{where}: expected opens in a column 'open', got {', '.join(repr(str(name)) for name in looks)}: call "
                "the one that holds them 'open', or leave it out, so that trades are at closes"
            )
    else:
        found["open"] = opens
    if price is None and not is_adjusted and adjusted is not None:
        found["adjusted"] = adjusted
    volume = pick(_NAMES["volume"])
    if volume is not None:
        found["volume"] = volume
    others = [name for name in listed if name not in found.values()]
    found.update(_find_dates(others, plain, pick, first, cells, where, index))
    return found


def find_dates(
    names: Iterable[Any],
    first: Callable[[Any], Any],
    cells: Callable[[Any], NDArray[Any]],
    *,
    where: str,
    index: Any = None,
) -> dict[str, Any]:
    """The columns of "date" and "time" (of day), those that there are; arguments are those of ``find_columns``.

    Raises:
        ValueError: There are two of something, or what looks like dates is not named so.
    """
    listed = list(names)
    return _find_dates(listed, *_by_plain_name(listed, where), first, cells, where, index)


def _by_plain_name(names: list[Any], where: str) -> tuple[dict[str, Any], Callable[[Sequence[str]], Any]]:
    """Names by their plain names, and what picks the first of some plain names that there is."""
    plain: dict[str, Any] = {}
    doubles = set()
    for name in names:
        key = plain_name(name)
        if key in plain:
            doubles.add(key)
        plain.setdefault(key, name)

    def pick(keys: Sequence[str]) -> Any:
        key = next((key for key in keys if key in plain), None)
        if key in doubles:
            both = ", ".join(repr(str(name)) for name in names if plain_name(name) == key)
            raise ValueError(f"{where}: expected one column {key!r}, got {both}: leave out all but one")
        return None if key is None else plain[key]

    return plain, pick


def _pick_closes(
    names: list[Any], plain: dict[str, Any], pick: Callable[[Sequence[str]], Any], where: str, price: str | None
) -> Any:
    got = f"got the columns {', '.join(repr(str(name)) for name in names) or 'none'}"
    if price is None:
        closes = pick(_NAMES["close"])
        if closes is None:
            remedy = ": name the one that holds the prices, price='...'" if names else ""
            raise ValueError(f"{where}: expected a column 'close', {got}{remedy}")
        return closes
    exact = [name for name in names if str(name) == price]
    if exact:
        return exact[0]
    key = plain_name(price)
    closes = pick(next((keys for keys in _NAMES.values() if key in keys), (key,)))
    if closes is None:
        raise ValueError(f"{where}: expected a column {price!r} (price), {got}")
    return closes


def _means_opens(key: str, is_adjusted: bool) -> bool:
    words = set(key.split("_"))
    return bool(words & {"open", "opens", "opening", "bidopen", "askopen"}) and not (
        words & _NO_OPENS or (key in _NAMES["adj_open"] and not is_adjusted)
    )


def _find_dates(
    names: list[Any],
    plain: dict[str, Any],
    pick: Callable[[Sequence[str]], Any],
    first: Callable[[Any], Any],
    cells: Callable[[Any], NDArray[Any]],
    where: str,
    index: Any,
) -> dict[str, Any]:
    if index is not None:
        return {"date": index}
    day, time, date = pick(_DAYS), pick(["time"]), pick(_DATES)
    # What is no time of day is refused where it is read, unless there is a better column than these two.
    if day is not None and time is not None and (date is day or is_time(first(time))):
        return {"date": day, "time": time}
    if date is None:
        nameless = [plain[key] for key in _NAMELESS if key in plain and plain[key] in names]
        date = next((name for name in nameless if looks_like_date(first(name)) or is_date(first(name))), None)
    if date is not None:
        return {"date": date}
    looks = [name for name in names if looks_like_date(first(name)) or _may_be_dates(name, first, cells)]
    if looks:
        raise ValueError(
            f"{where}: expected dates in a column 'date', got {', '.join(repr(str(name)) for name in looks)}, which "
            "looks like dates: call it 'date', or leave it out"
        )
    return {}


def _may_be_dates(name: Any, first: Callable[[Any], Any], cells: Callable[[Any], NDArray[Any]]) -> bool:
    """Whether a column of numbers, or digits, is one of days, moments or Unix times by all that can be told."""
    key = plain_name(name)
    means_date, means_number = (pattern.search(key) is not None for pattern in (_MEANS_DATE, _MEANS_NUMBER))
    if means_number and not means_date:
        return False
    cell = first(name)
    if isinstance(cell, (np.timedelta64, datetime.timedelta)):
        return True
    return is_date(cell) and are_dates(cells(name), in_order=means_number or not means_date)
