"""Dates as files and libraries write them.

Text is a day (``2024-01-31``, ``2024.01.31``, ``2024/01/31``, ``20240131``, ``31.01.2024``), with a time of day or not
(``09:30``, ``09:30:00.5``, ``093000``, behind a space or a T), with a time zone or not (``Z``, ``+02:00``, ``UTC``,
``GMT+0200``). Numbers are days (20240131), moments (202401310930, and with seconds or milliseconds behind that) or Unix
times, whose size says whether they count seconds, milliseconds, microseconds or nanoseconds. Days and months in an
order that only their writer knows (``01/02/2024``) are no dates.

Times of day in a column of their own are ``09:30``, ``9:30``, ``09:30:00.5``, ``0930`` or ``093000``. Of those without
colons libraries make numbers, which have lost their zeros (930, 93000): a column in which none has more than four
digits is in hours and minutes, any other in hours, minutes and seconds.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TEXT = re.compile(
    r"(?:(?P<y>[0-9]{4})(?P<sep>[-./]?)(?P<m>[0-9]{2})(?P=sep)(?P<d>[0-9]{2})"
    r"|(?P<d2>[0-9]{2})[.](?P<m2>[0-9]{2})[.](?P<y2>[0-9]{4}))"
    r"(?:[T ](?P<h>[0-9]{2})(?:(?P<colon>:?)(?P<min>[0-9]{2})(?:(?P=colon)(?P<s>[0-9]{2})(?:[.](?P<f>[0-9]{1,9}))?)?)?"
    r"(?P<zone>Z| ?(?:UTC|GMT)?(?P<sign>[-+])(?P<zh>[0-9]{2})(?::?(?P<zm>[0-9]{2}))?| ?(?:UTC|GMT))?)?"
)
_TIME = re.compile(r"([0-9]{2})(:?)([0-9]{2})(?:\2([0-9]{2})(?:[.]([0-9]{1,9}))?)?")
#: Numbers as text, days as well where a library has made "20240131.0" of them.
_NUMBER = re.compile(r"[0-9]{9,19}(?:[.]0*)?|[0-9]{8}[.]0*")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_YEAR = r"(?:19|20|21)[0-9]{2}"
#: Text that means a date to whoever wrote it, readable here or not.
_LOOKS = re.compile(
    # 2024-01-03, 1/3/24; 3-Jan-24, with a month in any language
    r"[0-9]{1,4}([-./])[0-9]{1,2}\1[0-9]{1,4}([T ].*)?|[0-9]{1,2}[- ]?[a-z]{3,9}[- ,]+[0-9]{2,4}.*"
    # Jan 3, 2024; Wed Jan 3 09:30:00 2024; Wed, 3 Jan 2024
    rf"|(?:[a-z]{{3,9}}[.,]? +)?[a-z]{{3,9}}[. ]+[0-9]{{1,2}},? +(?:[0-9:.]+ +)?{_YEAR}.*"
    r"|[a-z]{3,9}[.,]? +[0-9]{1,2}[- ][a-z]{3,9}[- ][0-9]{2,4}.*"
    # 03Jan2024, 03/Jan/2024; Jan-03-2024, Jan 2024; 2024/Jan/03, 2024Jan
    rf"|[0-9]{{1,2}}[-/. ]?{_MONTH}[-/., ]*[0-9]{{2,4}}.*|{_MONTH}[-/., ]*(?:[0-9]{{1,2}}[-/., ]+)?{_YEAR}.*"
    rf"|{_YEAR}[-/. ]?{_MONTH}(?:[-/. ]?[0-9]{{1,2}}.*)?"
    # 2024-01, 2024M01, 01/2024; 2024-W03-1; 2024Q3, Q3 2024; the day of a year, 2024-003
    rf"|{_YEAR}(?:[-/]|-?m)(?:0?[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])[-/]{_YEAR}|{_YEAR}-?w[0-9]{{2}}(?:-?[1-7])?"
    rf"|{_YEAR}[- ]?q[1-4]|q[1-4][- ]?{_YEAR}|{_YEAR}-[0-3][0-9]{{2}}|{_YEAR}年.*",
    re.IGNORECASE,
)
_MISSING = ("", "-", "nan", "nat", "na", "n/a", "<na>", "null", "none", "masked")

#: From what size on a Unix time counts in which unit: seconds since 1973.
_UNITS = ((10**17, "ns"), (10**14, "us"), (10**11, "ms"), (10**8, "s"))
#: Moments as digits: from when on, until when, and how many digits that are. As Unix times these would be in 1976 or
#: after 2570.
_MOMENTS = (
    (1900_01_01_0000, 2200_12_31_2359, 12),
    (1900_01_01_000000, 2200_12_31_235959, 14),
    (1900_01_01_000000_000, 2200_12_31_235959_999, 17),
)
#: A float64 holds every integer up to here.
_EXACT = 2**53

EXPECTED = "a date such as 2024-01-31, 2024-01-31 09:30:00, 31.01.2024 or a Unix time"
REMEDY = "other forms are read by pandas.to_datetime(column, format=...)"

_NAT = np.datetime64("NaT", "D")
_NO_TIME = np.timedelta64("NaT", "s")


def looks_like_date(cell: Any) -> bool:
    """Whether this is a date beyond doubt, or text that was meant to be one; numbers are not."""
    if isinstance(cell, str):
        text = cell.strip()
        return _LOOKS.fullmatch(text) is not None or (not text.isdigit() and _TEXT.fullmatch(text) is not None)
    return isinstance(cell, (datetime.date, np.datetime64))


def first_given(cells: Iterable[Any]) -> Any:
    """The first cell that is not missing, bytes as text; None where all are."""
    given = (cell for cell in cells if not _is_missing(cell))
    return next((cell.decode("latin-1") if isinstance(cell, bytes) else cell for cell in given), None)


def are_dates(cells: NDArray[Any], *, in_order: bool) -> bool:
    """Whether all these, but for missing ones, are days or moments as numbers, or Unix times, from 1900 to 2200.

    Args:
        cells: A column, of any dtype.
        in_order: Whether they also have to rise or to fall from the first to the last, as other numbers hardly do.
    """
    moments, _ = read_dates(cells[np.array([not _is_missing(cell) for cell in cells], dtype=bool)])
    if len(moments) == 0 or np.isnat(moments).any():
        return False
    years = moments.astype("datetime64[Y]")
    if (years < np.datetime64("1900")).any() or (years > np.datetime64("2200")).any():
        return False
    rises, falls = (moments[1:] >= moments[:-1]).all(), (moments[1:] <= moments[:-1]).all()
    return not in_order or bool(rises != falls)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, bytes):
        cell = cell.decode("latin-1")
    if isinstance(cell, (float, np.floating)):
        return bool(np.isnan(cell))
    if isinstance(cell, (int, np.integer)):
        return False
    return str(cell).strip().lower() in _MISSING  # NA, NaT and None as well


def is_date(cell: Any) -> bool:
    """Whether this can be read as a date, as 20240131 and Unix times can."""
    return not np.isnat(_parse_date(cell)[0])


def is_time(cell: Any) -> bool:
    """Whether this can be read as a time of day."""
    return not np.isnat(read_times(np.array([cell], dtype=object)))[0]


def read_dates(cells: NDArray[Any]) -> tuple[NDArray[np.datetime64], NDArray[np.bool_]]:
    """Dates, and which of them had a time zone, and are in UTC now; NaT for what is none."""
    quick = None
    if cells.dtype.kind == "M":
        quick = np.array(cells), False
    elif cells.dtype.kind in "iuf":
        quick = _from_numbers(cells)
    elif cells.dtype.kind == "S":
        quick = _from_text(cells)
    elif cells.dtype.kind == "U" or (cells.dtype.kind == "O" and all(type(cell) is str for cell in cells)):
        quick = _from_text(_as_bytes(cells))
    elif cells.dtype.kind == "O" and all(type(cell) in (int, float) for cell in cells):
        numbers = np.array(list(cells))
        quick = _from_numbers(numbers) if numbers.dtype.kind in "iuf" else None  # integers may be too large for any
    if quick is not None:
        return quick[0], np.full(len(cells), quick[1])
    pairs = [_parse_date(cell) for cell in _listed(cells)]
    dates = np.array([date for date, _ in pairs], dtype="datetime64")
    if len({date.dtype for date, _ in pairs}) > 1:  # in the finest unit of all, years far from 1970 may wrap around
        dates[[made.astype(date.dtype) != date for made, (date, _) in zip(dates, pairs, strict=True)]] = "NaT"
    return dates, np.array([zoned for _, zoned in pairs], dtype=bool)


def read_times(cells: NDArray[Any]) -> NDArray[np.timedelta64]:
    """Times of day; NaT for what is none."""
    if cells.dtype.kind == "S" and len(cells):
        day = np.broadcast_to(np.frombuffer(b"1970-01-01T", np.uint8), (len(cells), 11))
        quick = _from_text(_texts(np.concatenate([day, _characters(cells)], axis=1)))
        if quick is not None:
            return quick[0] - np.datetime64("1970-01-01")
    if cells.dtype.kind in "iuf":  # there are few different ones
        numbers, places = np.unique(cells, return_inverse=True)
        return read_times(numbers.astype(object))[places]
    texts = [_time_as_text(cell) for cell in _listed(cells)]
    different = set(texts)
    digits = 4 if all(len(text) <= 4 for text in different if text.isdecimal()) else 6
    known = {text: _parse_time(text, digits) for text in different}
    return np.array([known[text] for text in texts], dtype="timedelta64")


def _as_bytes(cells: NDArray[Any]) -> NDArray[np.bytes_]:
    """Texts in ASCII; none of them where there are others."""
    try:
        return cells.astype(bytes)
    except UnicodeEncodeError:
        return np.empty(0, dtype="S1")


def _listed(cells: NDArray[Any]) -> list[Any]:
    """Cells one by one, bytes as text."""
    return [cell.decode("latin-1") for cell in cells] if cells.dtype.kind == "S" else list(cells)


def _parse_date(cell: Any) -> tuple[np.datetime64, bool]:
    """The date, or NaT for what is none, and whether it had a time zone."""
    zoned = False
    try:
        if isinstance(cell, str):
            return _parse_text(cell.strip())
        if isinstance(cell, datetime.datetime) and cell == cell:  # NaT of pandas is a datetime, unlike itself
            zoned = cell.tzinfo is not None
            return np.datetime64(cell.astimezone(datetime.timezone.utc).replace(tzinfo=None) if zoned else cell), zoned
        if isinstance(cell, np.datetime64):
            return (_NAT if np.datetime_data(cell.dtype)[0] in ("Y", "M") else cell), False
        if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
            return np.datetime64(cell), False
        if isinstance(cell, (int, float, np.integer, np.floating)) and not isinstance(cell, (bool, np.timedelta64)):
            numbers = _from_numbers(np.array([cell]))
            return (_NAT if numbers is None else numbers[0][0]), False
    except (ValueError, OverflowError):  # the 30th of February
        pass
    return _NAT, False


def _parse_text(cell: str) -> tuple[np.datetime64, bool]:
    if _NUMBER.fullmatch(cell):
        numbers = _from_numbers(np.array([int(cell.partition(".")[0])]))
        return (_NAT if numbers is None else numbers[0][0]), False
    found = _TEXT.fullmatch(cell)
    if found is None:
        return _NAT, False
    iso = "".join(before + found[name] for before, name in _as_iso(found))
    date = np.datetime64(iso)
    if date.astype("datetime64[D]") != np.datetime64(iso[:10]):  # nanoseconds end in 2262
        return _NAT, False
    if found["zone"] is None:
        return date, False
    if found["sign"] is None:
        return date, True
    minutes = int(found["zh"]) * 60 + int(found["zm"] or 0)
    return date - np.timedelta64(minutes if found["sign"] == "+" else -minutes, "m"), True


def _as_iso(found: re.Match[str]) -> list[tuple[str, str]]:
    """What a date is put together from, as NumPy reads it: names of groups, each with what is before it."""
    names = ("y", "m", "d") if found["y"] is not None else ("y2", "m2", "d2")
    parts = [*zip(("", "-", "-"), names, strict=True), ("T", "h"), (":", "min"), (":", "s"), (".", "f")]
    return [(before, name) for before, name in parts if found[name] is not None]


def _from_numbers(numbers: NDArray[Any]) -> tuple[NDArray[np.datetime64], bool] | None:
    """Days or Unix times, all of one kind; None for anything else."""
    if not len(numbers) or (numbers.dtype.kind == "f" and not (np.abs(numbers) <= _EXACT).all()):
        return None
    whole = numbers.astype(np.int64)
    if (whole != numbers).any():
        return None
    low, high = int(whole.min()), int(whole.max())
    if 1000_01_01 <= low and high <= 9999_12_31:
        return _from_text(whole.astype("S8"))
    for least, most, digits in _MOMENTS:
        if least <= low and high <= most:
            return _from_digits(whole, digits)
    for least, unit in _UNITS:
        if low >= least:
            return (whole.astype(f"datetime64[{unit}]"), False) if high < least * 1000 or unit == "ns" else None
    return None


def _from_digits(numbers: NDArray[np.int64], digits: int) -> tuple[NDArray[np.datetime64], bool] | None:
    """Moments without anything between their parts."""
    characters = _characters(numbers.astype(f"S{digits}"))
    parts = [characters[:, :8], np.full((len(numbers), 1), ord("T"), np.uint8), characters[:, 8:14]]
    if digits > 14:
        parts += [np.full((len(numbers), 1), ord("."), np.uint8), characters[:, 14:]]
    return _from_text(_texts(np.concatenate(parts, axis=1)))


def _from_text(cells: NDArray[np.bytes_]) -> tuple[NDArray[np.datetime64], bool] | None:
    """Dates that are all written alike, as the first is: all at once. None for others, which are read one by one."""
    if len(cells) == 0 or not cells.dtype.itemsize:
        return None
    if not cells[0].isascii():
        return None
    first = cells[0].decode()
    characters = _characters(cells)
    characters, rest = characters[:, : len(first)], characters[:, len(first) :]
    least = np.frombuffer(re.sub("[0-9]", "0", first).encode(), np.uint8)
    most = np.frombuffer(re.sub("[0-9]", "9", first).encode(), np.uint8)
    if rest.any() or (characters < least).any() or (characters > most).any():
        return _from_numbers(cells.astype(np.int64)) if _are_unix(cells) else None
    if _NUMBER.fullmatch(first):
        return None if "." in first else _from_numbers(cells.astype(np.int64))
    found = _TEXT.fullmatch(first)
    if found is None:
        return None
    pieces = []
    for before, name in _as_iso(found):
        pieces.append(np.broadcast_to(np.frombuffer(before.encode(), np.uint8), (len(cells), len(before))))
        pieces.append(characters[:, slice(*found.span(name))])
    try:
        dates = _texts(np.concatenate(pieces, axis=1)).astype("datetime64")
        if np.datetime_data(dates.dtype)[0] == "ns":  # which end in 2262
            days = _texts(np.concatenate(pieces[:6], axis=1)).astype("datetime64[D]")
            if (dates.astype("datetime64[D]") != days).any():
                return None
    except ValueError:  # there is no such day
        return None
    if found["zone"] is None or found["sign"] is None:
        return dates, found["zone"] is not None

    def number(name: str) -> NDArray[np.int64]:
        tens, ones = (characters[:, found.start(name) + k].astype(np.int64) - ord("0") for k in (0, 1))
        return 10 * tens + ones

    minutes = 60 * number("zh") + (0 if found["zm"] is None else number("zm"))
    return dates - (minutes if found["sign"] == "+" else -minutes).astype("timedelta64[m]"), True


def _are_unix(cells: NDArray[np.bytes_]) -> bool:
    """Whether these are digits alone, too many for a day: their unit shows only where all are seen together."""
    characters = _characters(cells)
    is_digit = (characters >= ord("0")) & (characters <= ord("9"))
    return 9 <= characters.shape[1] <= 18 and bool(is_digit[:, :9].all() and (is_digit | (characters == 0)).all())


def _characters(cells: NDArray[np.bytes_]) -> NDArray[np.uint8]:
    """Texts as an array of two axes, a row for each."""
    return np.ascontiguousarray(cells).view(np.uint8).reshape(len(cells), -1)


def _texts(characters: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """The way back."""
    return np.ascontiguousarray(characters).view(f"S{characters.shape[1]}")[:, 0]


def _time_as_text(cell: Any) -> str:
    """A time of day as text; empty for what is neither text nor a number nor a time."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, datetime.time):
        return cell.isoformat()
    is_number = isinstance(cell, (int, float, np.integer, np.floating)) and not isinstance(cell, bool)
    return str(int(cell)) if is_number and np.isfinite(cell) and cell == int(cell) else ""


def _parse_time(text: str, digits: int) -> np.timedelta64:
    """The time of day, NaT for what is none; ``digits`` is how many one without colons had before it lost its zeros."""
    if text.isdecimal() and (text == "0" or text[0] != "0"):
        text = text.zfill(digits)
    found = _TIME.fullmatch(f"0{text}" if text[1:2] == ":" else text)
    if found is None:
        return _NO_TIME
    hour, _, minute, second, fraction = found.groups()
    iso = f"1970-01-01T{hour}:{minute}" + (f":{second}" if second else "") + (f".{fraction}" if fraction else "")
    try:
        moment = np.datetime64(iso)
    except ValueError:
        return _NO_TIME
    return moment - moment.astype("datetime64[D]")
