"""Prices as users have them, and what is refused."""

from __future__ import annotations

import datetime
import gzip
import re

import numpy as np
import pandas as pd
import pytest

from sims.data import PriceHistory, as_history, load

CLOSE = [100.0, 101.5, 99.0, 102.0]
OPEN = [99.5, 100.5, 101.0, 99.5]
DATE = ["1999-01-04", "1999-01-05", "1999-01-07", "1999-01-08"]


def write_csv(path, columns, newline="\n"):
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_bytes((newline.join(rows) + newline).encode())
    return path


def structured():
    table = np.zeros(4, dtype=[("date", "datetime64[D]"), ("open", "f8"), ("close", "f8"), ("volume", "i8")])
    table["date"], table["open"], table["close"] = DATE, OPEN, CLOSE
    return table


FULL_TABLES = {
    "structured": structured,
    "dict of lists": lambda: {"date": DATE, "open": OPEN, "close": CLOSE},
    "dict of arrays": lambda: {k: np.array(v) for k, v in {"date": DATE, "open": OPEN, "close": CLOSE}.items()},
    "dict with date objects": lambda: {
        "date": [datetime.date.fromisoformat(day) for day in DATE],
        "open": OPEN,
        "close": CLOSE,
    },
    "frame": lambda: pd.DataFrame({"date": pd.to_datetime(DATE), "open": OPEN, "close": CLOSE, "note": "x"}),
    "frame of strings": lambda: pd.DataFrame({"date": DATE, "open": OPEN, "close": CLOSE}),
    "frame indexed by date": lambda: pd.DataFrame({"open": OPEN, "close": CLOSE}, index=pd.to_datetime(DATE)),
    "frame of series": lambda: {
        "date": pd.Series(DATE, index=[7, 8, 9, 10]),
        "open": pd.Series(OPEN),
        "close": pd.Series(CLOSE),
    },
}
CLOSES = {
    "list": lambda: CLOSE,
    "tuple": lambda: tuple(CLOSE),
    "array": lambda: np.array(CLOSE),
    "float32 array": lambda: np.array(CLOSE, dtype=np.float32),
    "strings": lambda: [str(price) for price in CLOSE],
    "series": lambda: pd.Series(CLOSE, index=[3, 4, 5, 6]),
    "dict": lambda: {"close": CLOSE},
}


@pytest.mark.parametrize("make", FULL_TABLES.values(), ids=FULL_TABLES)
def test_tables_give_closes_opens_and_dates(make):
    history = as_history(make())
    assert history.close.tolist() == CLOSE and history.close.dtype == np.float64
    assert history.open.tolist() == OPEN and history.open.dtype == np.float64
    assert history.date.astype("datetime64[D]").astype(str).tolist() == DATE
    assert len(history) == 4


@pytest.mark.parametrize("make", CLOSES.values(), ids=CLOSES)
def test_closes_alone_are_enough(make):
    history = as_history(make())
    assert history.close.tolist() == CLOSE
    assert history.open is None and history.date is None


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("as_text", [False, True])
def test_csv_files(tmp_path, compress, newline, as_text):
    path = write_csv(tmp_path / "prices.csv", {"date": DATE, "open": OPEN, "close": CLOSE, "volume": [0] * 4}, newline)
    if compress:
        path.write_bytes(gzip.compress(path.read_bytes()))
    history = as_history(str(path) if as_text else path)
    assert (history.close.tolist(), history.open.tolist()) == (CLOSE, OPEN)
    assert history.date.astype(str).tolist() == DATE


def test_csv_with_a_byte_order_mark_and_blank_lines(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_bytes(b"\xef\xbb\xbfclose\n1.5\n\n2.5\n")
    assert as_history(path).close.tolist() == [1.5, 2.5]


def test_times_within_a_day_are_kept_apart():
    history = as_history({"date": ["1999-01-04 09:30", "1999-01-04 09:31"], "close": [1.0, 2.0]})
    assert history.date[1] - history.date[0] == np.timedelta64(1, "m")


def test_a_history_is_a_read_only_copy_and_passes_as_it_is():
    source = np.array(CLOSE)
    history = as_history({"date": DATE, "open": OPEN, "close": source})
    source[0] = 7.0
    assert history.close[0] == 100.0
    for array in (history.close, history.open, history.date):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(AttributeError):
        history.close = source
    assert isinstance(history, PriceHistory) and as_history(history) is history


BAD_PRICES = [("nan", "nan"), ("inf", "inf"), ("0.0", "0.0"), ("-3.5", "-3.5"), ("null", "'null'"), ("", "''")]


@pytest.mark.parametrize(("written", "shown"), BAD_PRICES)
@pytest.mark.parametrize("column", ["open", "close"])
def test_a_bad_price_in_a_file_is_refused_by_line_and_column(tmp_path, written, shown, column):
    columns = {"date": DATE, "open": OPEN, "close": CLOSE}
    columns[column] = [*columns[column][:2], written, columns[column][3]]
    path = write_csv(tmp_path / "prices.csv", columns)
    shown = shown if shown.startswith("'") else f"'{shown}'"  # a file holds text
    expected = f"{path}, line 4, column '{column}': expected a finite price above 0, got {shown}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        as_history(path)


@pytest.mark.parametrize(
    ("value", "shown"), [(np.nan, "nan"), (-np.inf, "-inf"), (0.0, "0.0"), (None, "None"), ("x", "'x'"), ([1], "[1]")]
)
def test_a_bad_price_in_memory_is_refused_by_index_and_column(value, shown):
    expected = f"prices, index 1, column 'close': expected a finite price above 0, got {shown}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        as_history([100.0, value, 99.0])


def test_a_missing_price_in_a_frame_is_refused():
    frame = pd.DataFrame({"close": pd.array([1.0, None, 2.0], dtype="Float64")})
    with pytest.raises(ValueError, match=r"prices, index 1, column 'close': expected a finite price above 0, got "):
        as_history(frame)


def test_the_line_counts_blank_lines(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("close\n1.0\n\n\n0\n")
    with pytest.raises(ValueError, match=r"line 5, column 'close': .* got '0'"):
        as_history(path)


@pytest.mark.parametrize(
    ("dates", "row", "text"),
    [
        ([*DATE[:2], DATE[0], DATE[3]], 2, "expected a date after 1999-01-05, got 1999-01-04"),
        ([DATE[0], DATE[0], *DATE[2:]], 1, "expected a date after 1999-01-04, got 1999-01-04"),
        ([DATE[0], "soon", *DATE[2:]], 1, "expected an ISO date without a time zone, got 'soon'"),
        ([DATE[0], "", *DATE[2:]], 1, "expected an ISO date without a time zone, got ''"),
        ([DATE[0], "19990105", *DATE[2:]], 1, "expected an ISO date without a time zone, got '19990105'"),
        ([DATE[0], "1999-01-05T00:00Z", *DATE[2:]], 1, "expected an ISO date without a time zone, got '1999-01-05T"),
    ],
)
def test_bad_dates_are_refused_by_row_and_column(tmp_path, dates, row, text):
    columns = {"date": dates, "close": CLOSE}
    with pytest.raises(ValueError, match=re.escape(f"prices, index {row}, column 'date': {text}")):
        as_history(columns)
    path = write_csv(tmp_path / "prices.csv", columns)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line {row + 2}, column 'date': {text}")):
        as_history(path)


@pytest.mark.parametrize("dates", [[19990104, 19990105], [None, None], np.array(["NaT", "NaT"], "datetime64[D]")])
def test_what_is_no_date_is_refused(dates):
    with pytest.raises(ValueError, match=r"prices, index 0, column 'date': expected an ISO date"):
        as_history({"date": dates, "close": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"Close": CLOSE, "open": OPEN}, "prices: expected a column 'close', got the columns 'Close', 'open'"),
        ({}, "prices: expected a column 'close', got the columns none"),
        (load("sp500")[["open", "high"]], "prices: expected a column 'close', got the columns 'open', 'high'"),
        ({"close": CLOSE, "open": OPEN[:3]}, "prices, column 'open': expected 4 rows, as in column 'close', got 3"),
        ({"close": CLOSE, "date": DATE[:3]}, "prices, column 'date': expected 4 rows, as in column 'close', got 3"),
        (np.ones((4, 2)), "prices, column 'close': expected one axis, got the shape (4, 2)"),
        (np.array(3.0), "prices, column 'close': expected one axis, got the shape ()"),
        ([100.0], "prices, column 'close': expected at least 2 rows, got 1"),
        ([], "prices, column 'close': expected at least 2 rows, got 0"),
    ],
)
def test_bad_tables_are_refused(table, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        as_history(table)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ": expected a column 'close', got the columns none"),
        (b"date,close\n", ", column 'close': expected at least 2 rows, got 0"),
        (b"date,price\n1999-01-04,1\n", ": expected a column 'close', got the columns 'date', 'price'"),
        (b"date,close\n1999-01-04,1\n1999-01-05\n", ", line 3: expected 2 fields, got 1"),
        (b"close,close\n1,2\n", ", line 1: expected every column to be named once, got ['close', 'close']"),
        (b"\xff\xfe\x00", ": expected a UTF-8 CSV file, gzipped or not: "),
        (b"\x1f\x8bnonsense", ": expected a UTF-8 CSV file, gzipped or not: "),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, raw, text):
    path = tmp_path / "prices.csv"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=re.escape(f"{path}{text}")):
        as_history(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        as_history(tmp_path / "prices.csv")


@pytest.mark.parametrize("prices", [None, 3.0, object(), iter(CLOSE)])
def test_anything_else_is_a_type_error(prices):
    with pytest.raises(TypeError, match=r"prices: expected closes \(1-D\), a table .*, got "):
        as_history(prices)
