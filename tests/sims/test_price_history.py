"""Prices as users have them, and what is refused."""

from __future__ import annotations

import copy
import datetime
import gzip
import pickle
import re
from decimal import Decimal

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
    "array of strings": lambda: np.array([str(price) for price in CLOSE]),
    "objects": lambda: np.array(CLOSE, dtype=object),
    "decimals": lambda: [Decimal(str(price)) for price in CLOSE],
    "NumPy scalars": lambda: [np.float32(price) for price in CLOSE],
    "nullable": lambda: {"close": pd.array(CLOSE, dtype="Float64")},
    "nothing masked": lambda: np.ma.array(CLOSE, mask=[False] * 4),
    "memory": lambda: memoryview(np.array(CLOSE)),
    "long doubles": lambda: np.array(CLOSE, dtype=np.longdouble),
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
        path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
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


BAD_CELLS = [
    (np.nan, "nan"),
    (-np.inf, "-inf"),
    (0.0, "0.0"),
    (None, "None"),
    ("x", "'x'"),
    ([1], "[1]"),
    (True, "True"),
    (np.True_, "True"),
    (1j, "1j"),
    (np.complex128(1), "(1+0j)"),
    (b"1", "b'1'"),
    (np.datetime64("1999-01-04"), "1999-01-04"),
    (np.timedelta64(1, "D"), "1 days"),
    (datetime.date(1999, 1, 4), "1999-01-04"),
    (np.ma.masked, "--"),
    (np.array([1.0]), "[1.]"),
    (pd.NA, "<NA>"),
    (10**400, "1000"),
    (np.longdouble("inf"), "inf"),
    (np.finfo(np.longdouble).max, ""),
    (Decimal("sNaN"), "sNaN"),
]


@pytest.mark.parametrize(("value", "shown"), BAD_CELLS)
def test_a_bad_price_in_memory_is_refused_by_index_and_column(value, shown):
    expected = f"prices, index 1, column 'close': expected a finite price above 0, got {shown}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        as_history([100.0, value, 99.0])


@pytest.mark.parametrize(
    ("closes", "shown"),
    [
        (np.array([True, True]), "True"),
        (np.array([1 + 0j, 2]), "(1+0j)"),
        (np.array([b"1", b"2"]), "b'1'"),
        (np.array(["1999-01-04", "1999-01-05"], "datetime64[D]"), "1999-01-04"),
        (np.array([1, 2], "timedelta64[D]"), "1 days"),
        (np.array([True, 2.0], dtype=object), "True"),
        (np.array(["", "2.0"]), "''"),
        (np.array([np.finfo(np.longdouble).max, 1.0], dtype=np.longdouble), ""),
        (np.ma.array([1.0, 2.0], mask=[True, False]), "'masked'"),
        (np.ma.array([1.0, 2.0], mask=True), "'masked'"),
        (np.array([(1,)] * 2, dtype=[("a", "i8")]), "(1,)"),
    ],
)
@pytest.mark.parametrize("column", ["open", "close"])
def test_a_column_of_what_are_no_prices_is_refused(closes, shown, column):
    expected = re.escape(f"prices, index 0, column '{column}': expected a finite price above 0, got {shown}")
    with pytest.raises(ValueError, match=expected):
        as_history({"close": [1.0, 2.0], column: closes})
    with pytest.raises(ValueError, match=expected.replace("prices,", "PriceHistory,")):
        PriceHistory(**{"close": np.ones(2), column: closes})


def test_a_masked_field_of_a_table_is_refused():
    table = np.ma.array(structured(), mask=np.zeros(4, [(name, bool) for name in structured().dtype.names]))
    assert as_history(table).open.tolist() == OPEN
    table["open"][2] = np.ma.masked
    with pytest.raises(ValueError, match=r"prices, index 2, column 'open': expected .*, got 'masked'"):
        as_history(table)
    table = np.ma.array(np.array(DATE, "datetime64[D]"), mask=[False, True, False, False])
    with pytest.raises(ValueError, match=r"prices, index 1, column 'date': expected a date .*, got 'masked'"):
        as_history({"close": CLOSE, "date": table})


OUTSIDE = "expected a price in [1e-38, 1e+38], got "


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"close": [1e-308, 1e308]}, f"index 0, column 'close': {OUTSIDE}1e-308"),
        ({"close": [1.0, 1e39]}, f"index 1, column 'close': {OUTSIDE}1e+39"),
        ({"close": [1.0, 5e-324]}, f"index 1, column 'close': {OUTSIDE}5e-324"),
        ({"close": [1.0, 1.0], "open": [1.0, 1e300]}, f"index 1, column 'open': {OUTSIDE}1e+300"),
        (
            {"close": [1.0, 1e-20, 1e20]},
            "index 2, column 'close': expected at most 1e+38 times the close before it, 1e-20, got 1e+20",
        ),
        (
            {"close": [1.0, 1e-20, 1.0], "open": [1.0, 1.0, 1e20]},
            "index 2, column 'open': expected at most 1e+38 times the close before it, 1e-20, got 1e+20",
        ),
        (
            {"close": [1.0, 1e20], "open": [1.0, 1e-20]},
            "index 1, column 'close': expected at most 1e+38 times the open before it, 1e-20, got 1e+20",
        ),
    ],
)
def test_prices_too_far_apart_for_floating_point_are_refused(tmp_path, table, text):
    with pytest.raises(ValueError, match=re.escape(f"prices, {text}")):
        as_history(table)
    with pytest.raises(ValueError, match=re.escape(f"PriceHistory, {text}")):
        PriceHistory(**table)
    path = write_csv(tmp_path / "prices.csv", table)
    line = re.sub(r"index (\d)", lambda found: f"line {int(found[1]) + 2}", text)
    with pytest.raises(ValueError, match=re.escape(f"{path}, {line.split(', got')[0]}")):
        as_history(path)


@pytest.mark.parametrize("closes", [[1e-38, 1.0, 1e38, 1e-38], [1e-19, 1e19]])
def test_the_widest_prices_allowed(closes):
    history = as_history({"close": closes, "open": closes})
    assert history.close.tolist() == closes
    assert np.isfinite((history.close[1:] / history.close[:-1]).astype(np.float32)).all()


def test_a_missing_price_in_a_frame_is_refused():
    frame = pd.DataFrame({"close": pd.array([1.0, None, 2.0], dtype="Float64")})
    with pytest.raises(ValueError, match=r"prices, index 1, column 'close': expected a finite price above 0, got "):
        as_history(frame)


def test_the_line_counts_blank_lines(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("close\n1.0\n\n\n0\n")
    with pytest.raises(ValueError, match=r"line 5, column 'close': .* got '0'"):
        as_history(path)


NO_DATE = "expected a date such as 2024-01-31, 2024-01-31 09:30:00, 31.01.2024 or a Unix time"


@pytest.mark.parametrize(
    ("dates", "row", "text"),
    [
        ([*DATE[:2], DATE[0], DATE[3]], 2, "expected a date after 1999-01-05, got 1999-01-04"),
        ([DATE[0], DATE[0], *DATE[2:]], 1, "expected a date after 1999-01-04, got 1999-01-04"),
        ([DATE[0], "soon", *DATE[2:]], 1, f"{NO_DATE}, got 'soon'"),
        ([DATE[0], "", *DATE[2:]], 1, f"{NO_DATE}, got ''"),
        ([DATE[0], "today", *DATE[2:]], 1, f"{NO_DATE}, got 'today'"),
        ([DATE[0], "now", *DATE[2:]], 1, f"{NO_DATE}, got 'now'"),
        ([DATE[0], "NaT", *DATE[2:]], 1, f"{NO_DATE}, got 'NaT'"),
        ([DATE[0], "1999-01", *DATE[2:]], 1, f"{NO_DATE}, got '1999-01'"),
        ([DATE[0], "1999-02-30", *DATE[2:]], 1, f"{NO_DATE}, got '1999-02-30'"),
        ([DATE[0], "1999-01-05 25:00", *DATE[2:]], 1, f"{NO_DATE}, got '1999-01-05 25"),
        (
            [DATE[0], "1999-01-05T00:00+01", *DATE[2:]],
            1,
            "expected all dates with a time zone or none, got '1999-01-05T",
        ),
        (
            [DATE[0], "01/05/1999", *DATE[2:]],
            1,
            f"{NO_DATE}, got '01/05/1999' (other forms are read by pandas.to_datetime",
        ),
        ([DATE[0], "1999/01-05", *DATE[2:]], 1, f"{NO_DATE}, got '1999/01-05'"),
        ([DATE[0], "1999-01-05T00:00Z", *DATE[2:]], 1, "expected all dates with a time zone or none, got '1999-01-05T"),
    ],
)
def test_bad_dates_are_refused_by_row_and_column(tmp_path, dates, row, text):
    columns = {"date": dates, "close": CLOSE}
    with pytest.raises(ValueError, match=re.escape(f"prices, index {row}, column 'date': {text}")):
        as_history(columns)
    path = write_csv(tmp_path / "prices.csv", columns)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line {row + 2}, column 'date': {text}")):
        as_history(path)


NO_DATES = [
    [19990104.5, 19990105],
    [1999, 2000],
    [12.5, np.inf],
    [None, None],
    [pd.NaT, pd.NaT],
    [True, True],
    [["1999-01-04"], "1999-01-05"],
    [np.datetime64("1999"), np.datetime64("2000")],
    np.array([1, 2], "timedelta64[D]"),
    np.array(["NaT", "NaT"], "datetime64[D]"),
]


@pytest.mark.parametrize("dates", NO_DATES)
def test_what_is_no_date_is_refused(dates):
    with pytest.raises(ValueError, match=r"prices, index 0, column 'date': expected a date"):
        as_history({"date": dates, "close": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            {"Prices": CLOSE, "open": OPEN},
            "prices: expected a column 'close', got the columns 'Prices', 'open': name the",
        ),
        ({}, "prices: expected a column 'close', got the columns none"),
        (load("sp500")[["open", "high"]], "prices: expected a column 'close', got the columns 'open', 'high'"),
        ({"close": CLOSE, "open": OPEN[:3]}, "prices, column 'open': expected 4 rows, as in column 'close', got 3"),
        ({"close": CLOSE, "date": DATE[:3]}, "prices, column 'date': expected 4 rows, as in column 'close', got 3"),
        ({"close": "123"}, "prices, column 'close': expected one axis, got the shape ()"),
        ({"close": CLOSE, "date": "1999-01-04"}, "prices, column 'date': expected one axis, got the shape ()"),
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
        (b'close\n1.0\n"2.0\n3.0\n', ", line 3: expected comma-separated fields: unexpected end of data"),
        (b'close\n1.0\n"' + b"2.0\n" * 40_000, ", line 3: expected comma-separated fields: field larger"),
        (b'"clo', ", line 1: expected comma-separated fields: unexpected end of data"),
        (b'close\n1.0\n"2"0\n', ", line 3: expected comma-separated fields: "),
        (gzip.compress(b"close\n1.0\n2.0\n", mtime=0)[:-9], ": expected a UTF-8 CSV file, gzipped or not: "),
        (b"\x1f\x8bnonsense", ": expected a UTF-8 CSV file, gzipped or not: "),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, raw, text):
    path = tmp_path / "prices.csv"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=re.escape(f"{path}{text}")):
        as_history(path)


def test_a_gzip_file_with_a_bit_flipped_is_refused_by_name_or_holds_the_same_prices(tmp_path):
    path = tmp_path / "prices.csv.gz"
    good = gzip.compress(b"close\n" + "\n".join(map(str, CLOSE * 5)).encode(), mtime=0)
    refused = 0
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            path.write_bytes(bad)
            try:
                assert as_history(path).close.tolist() == CLOSE * 5
            except ValueError as error:
                assert str(error).startswith(str(path))
                refused += 1
    assert refused > 4 * len(good)


@pytest.mark.parametrize(("name", "error"), [("prices.csv", FileNotFoundError), (".", IsADirectoryError)])
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(tmp_path, name, error):
    text = f"prices: cannot read '{tmp_path / name}' ("
    with pytest.raises(
        error, match=re.escape(text) + r".*expected the path of a CSV file, .*prices='sp500'.*load_history\('sp500'\)"
    ):
        as_history(tmp_path / name)


@pytest.mark.parametrize("name", ["sp500", "", "a\0b"])
def test_a_text_that_is_no_path_is_refused_with_what_to_do(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((OSError, ValueError), match=re.escape(f"prices: cannot read {name!r} (")):
        as_history(name)


ZONED = pd.to_datetime(DATE).tz_localize("America/New_York")


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"close": CLOSE}, index=ZONED),
        pd.DataFrame({"close": CLOSE, "date": ZONED}),
        {"close": CLOSE, "date": list(ZONED)},
        {"close": CLOSE, "date": [moment.to_pydatetime() for moment in ZONED]},
    ],
    ids=["index", "column", "Timestamps", "datetimes"],
)
def test_c2_dates_with_a_time_zone_are_in_utc(table):
    history = as_history(table)
    assert history.date.astype("datetime64[m]").astype(str).tolist() == [f"{day}T05:00" for day in DATE]
    assert "dates have been converted to UTC" in history.notes


# -- a PriceHistory made by hand --------------------------------------------------------------------------


def test_a_history_made_by_hand_is_a_checked_read_only_copy():
    close, date = np.array([1, 2, 3]), np.array(DATE[:3], "datetime64[D]")
    history = PriceHistory(close, [1.0, 1.5, 2.5], date)
    close[0], date[0] = 7, date[2]
    assert history.close.tolist() == [1.0, 2.0, 3.0] and history.close.dtype == np.float64
    assert history.open.tolist() == [1.0, 1.5, 2.5] and str(history.date[0]) == DATE[0]
    for array in (history.close, history.open, history.date):
        assert not array.flags.writeable and array.flags.owndata
    assert PriceHistory(history.close).open is None


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {"close": np.arange(1.0, 9), "open": np.arange(1.0, 3)},
            "PriceHistory, column 'open': expected 8 rows, as in column 'close', got 2",
        ),
        (
            {"close": CLOSE, "date": DATE[:3]},
            "PriceHistory, column 'date': expected 4 rows, as in column 'close', got 3",
        ),
        ({"close": np.ones((2, 2))}, "PriceHistory, column 'close': expected one axis, got the shape (2, 2)"),
        ({"close": 3.0}, "PriceHistory, column 'close': expected one axis, got the shape ()"),
        ({"close": [1.0]}, "PriceHistory, column 'close': expected at least 2 rows, got 1"),
        ({"close": None}, "PriceHistory: expected a column 'close', got the columns none"),
        ({"close": [1.0, np.nan]}, "PriceHistory, index 1, column 'close': expected a finite price above 0, got nan"),
        (
            {"close": CLOSE, "date": DATE[::-1]},
            "PriceHistory, index 1, column 'date': expected a date after 1999-01-08",
        ),
    ],
)
def test_a_bad_history_made_by_hand_is_refused(columns, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        PriceHistory(**columns)


@pytest.mark.parametrize("remake", [copy.copy, copy.deepcopy, lambda history: pickle.loads(pickle.dumps(history))])
@pytest.mark.parametrize("table", [{"close": CLOSE}, {"close": CLOSE, "open": OPEN, "date": DATE}])
def test_a_copy_of_a_history_is_read_only_too(remake, table):
    history = as_history(table)
    again = remake(history)
    for name in ("close", "open", "date"):
        left, right = getattr(history, name), getattr(again, name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype and not right.flags.writeable


@pytest.mark.parametrize("prices", [None, 3.0, object(), iter(CLOSE), b"prices.csv", bytearray(b"12"), {1.0, 2.0}])
def test_anything_else_is_a_type_error(prices):
    with pytest.raises(TypeError, match=r"prices: expected closes \(1-D\), a table .*, got "):
        as_history(prices)
