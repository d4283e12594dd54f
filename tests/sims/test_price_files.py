"""Prices in the files and frames that people have: each is read right, or refused with what to do."""

from __future__ import annotations

import datetime
import gzip
import pickle
import re
import sys

import numpy as np
import pandas as pd
import pytest

from sims.data import as_history

CLOSE = [100.0, 101.5, 99.0, 102.0]
OPEN = [99.5, 100.5, 101.0, 99.5]
DAYS = ["2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"]
MINUTES = ["2024-01-05T23:58", "2024-01-05T23:59", "2024-01-08T00:00", "2024-01-08T00:05"]  # with a gap


def lines_of(header, rows, separator=","):
    return "\n".join([header, *(separator.join(map(str, row)) for row in rows)]) + "\n"


def bars(dates, *more):
    """Rows of date, open, high, low, close and what else there is."""
    return [(day, o, 110, 90, c, *more) for day, o, c in zip(dates, OPEN, CLOSE, strict=True)]


def days(form):
    return [datetime.date.fromisoformat(day).strftime(form) for day in DAYS]


def minutes(form):
    return [datetime.datetime.fromisoformat(minute).strftime(form) for minute in MINUTES]


def unix(unit):
    return np.array(MINUTES, f"datetime64[{unit}]").astype(np.int64).tolist()


def split(dates, times):
    return [f"{day}\t{time}" for day, time in zip(dates, times, strict=True)]


def split_at(minute):
    """A day, and its hours and minutes as a number."""
    day, time = minute.split("T")
    return day, int(time.replace(":", ""))


BINANCE = "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume"
#: A file, and the dates in it, None for none.
FILES = {
    "Yahoo": (
        lines_of(
            "Date,Open,High,Low,Close,Adj Close,Volume",
            [(d, o, 110, 90, c, c, 5) for d, o, c in zip(DAYS, OPEN, CLOSE, strict=True)],
        ),
        DAYS,
    ),
    "Stooq": (lines_of("Date,Open,High,Low,Close,Volume", bars(DAYS, 12.5)), DAYS),
    "Stooq ASCII": (
        lines_of(
            "<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>,<OPENINT>",
            [
                ("SPX", 5, d, t, o, 110, 90, c, 7, 0)
                for d, t, o, c in zip(minutes("%Y%m%d"), minutes("%H%M%S"), OPEN, CLOSE, strict=True)
            ],
        ),
        MINUTES,
    ),
    "Binance, milliseconds": (lines_of(BINANCE, bars(unix("ms"), 1.5, 1704499199999, 3.0, 2, 1.0)), MINUTES),
    "Binance, microseconds": (lines_of(BINANCE, bars(unix("us"), 1.5, 1704499199999999, 3.0, 2, 1.0)), MINUTES),
    "Dukascopy": (
        lines_of("Gmt time,Open,High,Low,Close,Volume", bars(minutes("%d.%m.%Y %H:%M:%S.000"), 1.5)),
        MINUTES,
    ),
    "Dukascopy, local time": (
        lines_of("Local time,Open,High,Low,Close,Volume", bars(minutes("%d.%m.%Y %H:%M:%S.000 GMT+0200"), 1.5)),
        (np.array(MINUTES, "datetime64[m]") - np.timedelta64(2, "h")).astype(str).tolist(),
    ),
    "MetaTrader 5": (
        lines_of(
            "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>",
            bars(split(minutes("%Y.%m.%d"), minutes("%H:%M:%S")), 7, 0, 1),
            "\t",
        ),
        MINUTES,
    ),
    "MetaTrader 5, days": (
        lines_of("<DATE>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>", bars(days("%Y.%m.%d"), 7), "\t"),
        DAYS,
    ),
    "Kaggle, an unnamed index": (
        lines_of("Unnamed: 0,Date,Open,High,Low,Close", [(i, *row) for i, row in enumerate(bars(DAYS))]),
        DAYS,
    ),
    "Kaggle, bitcoin": (
        lines_of("Timestamp,Open,High,Low,Close,Volume_(BTC)", bars([f"{t}.0" for t in unix("s")], "")),
        MINUTES,
    ),
    "to_csv with an unnamed index": (lines_of(",open,high,low,close", bars(DAYS)), DAYS),
    "semicolons": (lines_of("DateTime;OPEN;HIGH;LOW;CLOSE", bars(minutes("%Y%m%d %H%M%S")), ";"), MINUTES),
    "Alpha Vantage, newest first": (lines_of("timestamp,open,high,low,close", bars(DAYS)[::-1]), DAYS),
    "offsets": (lines_of("time,open,high,low,close", bars(minutes("%Y-%m-%dT%H:%M:%SZ"))), MINUTES),
    "days as digits with an unnamed index, newest first": (
        lines_of(",open,high,low,close", bars(days("%Y%m%d"))[::-1]),
        DAYS,
    ),
    "Unix times with an unnamed index": (lines_of(",open,high,low,close", bars(unix("ms"))), MINUTES),
    "times without their zeros": (
        lines_of("date,time,open,close", [(*split_at(m), o, c) for m, o, c in zip(MINUTES, OPEN, CLOSE, strict=True)]),
        MINUTES,
    ),
    "Tushare, newest first": (
        lines_of("ts_code,trade_date,open,high,low,close", [("X", *row) for row in bars(days("%Y%m%d"))[::-1]]),
        DAYS,
    ),
    "moments as digits": (lines_of("date,open,high,low,close", bars(minutes("%Y%m%d%H%M"))), MINUTES),
    "moments as digits, with seconds": (lines_of("time,open,high,low,close", bars(minutes("%Y%m%d%H%M%S"))), MINUTES),
    "moments as digits, with milliseconds": (
        lines_of("time,open,high,low,close", bars(minutes("%Y%m%d%H%M%S000"))),
        MINUTES,
    ),
    "days that were numbers with holes": (lines_of("date,open,high,low,close", bars(days("%Y%m%d.0"))), DAYS),
    "slashes": (lines_of("date,open,high,low,close", bars(days("%Y/%m/%d"))), DAYS),
    "without dates": (lines_of("open,high,low,close,name", [(*row[1:], "x") for row in bars(DAYS)]), None),
}


def same(dates, expected):
    return dates is None if expected is None else (dates == np.array(expected, "datetime64")).all()


@pytest.mark.parametrize(("text", "dates"), FILES.values(), ids=FILES)
def test_c1_c2_files_are_read_right_by_both_readers_to_the_bit(tmp_path, monkeypatch, text, dates):
    path = tmp_path / "bars.csv"
    path.write_text(text)
    quick = as_history(path)
    monkeypatch.setitem(sys.modules, "pandas", None)  # as where it is not installed
    careful = as_history(path)
    for history in (quick, careful):
        assert history.close.tolist() == CLOSE and history.open.tolist() == OPEN and history.execution == "open"
        assert same(history.date, dates) and history.columns["close"].strip("<>").lower() == "close"
    assert quick.describe() == careful.describe() and quick.notes == careful.notes
    assert dates is None or quick.date.dtype == careful.date.dtype


def test_c5_any_float_is_read_alike_with_and_without_pandas(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    close = 10.0 ** rng.uniform(-8, 8, 3000) * rng.random(3000)
    texts = [repr(x) if i % 3 else f"{x:.25e}" if i % 2 else f"{x:.12f}" for i, x in enumerate(close.tolist())]
    texts = [text if float(text) > 0 else "1" for text in texts]
    path = tmp_path / "bars.csv"
    path.write_text("close,open,note\n" + "\n".join(f"{text}, {text} ,n" for text in texts))
    quick = as_history(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    careful = as_history(path)
    expected = np.array([float(text) for text in texts])
    for column in (quick.close, quick.open, careful.close, careful.open):
        assert column.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("date,close,x\n2024-01-04,1,2\n2024-01-05,2\n2024-01-08,3,4\n", "line 3: expected 3 fields, got 2"),
        ("date,close,x\n2024-01-04,1,2\n2024-01-05,2,3,4\n2024-01-08,3,4\n", "line 3: expected 3 fields, got 4"),
        (
            "date,close\n2024-01-04,1\n\n2024-01-05,x\n",
            "line 4, column 'close': expected a finite price above 0, got 'x'",
        ),
        ("date,close\n2024-01-04,1\n   \n2024-01-05,2\n", "line 3: expected 2 fields, got 1"),
        ("close\nTrue\nTrue\n", "line 2, column 'close': expected a finite price above 0, got 'True'"),
        ("date,close\n2024-01-04,1\n2024-01-05x,2\n", "line 3, column 'date': expected a date such as"),
        ("date,close\n2024-01-04,1\n2024-01-04,2\n", "line 3, column 'date': expected a date after 2024-01-04, got"),
        ("date,close\n1704067200,1\n1704067200.5,2\n", "line 3, column 'date': expected a date such as"),
        ("date,time,close\n2024-01-04,09:30,1\n2024-01-04,25:00,2\n", "line 3, column 'time': expected a time of day"),
        ("date,close\n2024-02-29,1\n2023-02-29,2\n", "line 3, column 'date': expected a date such as"),
        ("date,close\n,1\n2024-01-02,2\n", "line 2, column 'date': expected a date such as"),
        ("date,time,close\n2024-01-02,,1\n2024-01-02,09:30,2\n", "line 2, column 'time': expected a time of day"),
        ("date,close\n202402290930,1\n202302290930,2\n", "line 3, column 'date': expected a date such as"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_alike_with_and_without_pandas(tmp_path, monkeypatch, text, error):
    path = tmp_path / "bars.csv"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(ValueError, match=re.escape(f"{path}, {error}")):
            as_history(path)
        monkeypatch.setitem(sys.modules, "pandas", None)


REFUSED = {
    "two closes": ({"Close": CLOSE, "close": CLOSE}, "expected one column 'close', got 'Close', 'close'"),
    "no closes": (
        {"Date": DAYS, "Price": CLOSE},
        "got the columns 'Date', 'Price': name the one that holds the prices",
    ),
    "another name for dates": (
        {"Day": DAYS, "close": CLOSE},
        "expected dates in a column 'date', got 'Day', which looks",
    ),
    "dates in words": ({"When": ["Jan 04, 2024"] * 4, "close": CLOSE}, "got 'When', which looks like dates"),
    "other opens": ({"bidOpen": OPEN, "Bid Open": OPEN, "close": CLOSE}, "expected opens in a column 'open', got"),
    "adjusted closes": (
        {"close": CLOSE, "adjClose": [50.0, *CLOSE[1:]]},
        "index 0, column 'adjClose': expected 100.0, as in column 'close', got 50.0: say which to trade at, price='cl",
    ),
    "two symbols": ({"date": DAYS[:2] * 2, "close": CLOSE}, "index 2, column 'date': expected a date after 2024-01-05"),
    "month or day first": ({"date": ["01/04/2024"] * 4, "close": CLOSE}, "other forms are read by pandas.to_datetime"),
    "decimal commas": (
        {"close": ["100,5"] * 4},
        "got '100,5' (with a decimal point, and without signs and separators)",
    ),
    "dollars": ({"Close/Last": ["$100.5"] * 4}, "got '$100.5' (with a decimal point, and without signs"),
    "missing prices": ({"close": [1.0, np.nan, 2.0]}, "got nan (leave such rows out)"),
    "half a day": (
        {"date": DAYS, "time": ["09:30 AM"] * 4, "close": CLOSE},
        "index 0, column 'time': expected a time of day such as 09:30:00, got '09:30 AM'",
    ),
    "no time at all": (
        {"date": DAYS, "time": [""] * 4, "close": CLOSE},
        "expected a time of day such as 09:30:00, got ''",
    ),
    "the end of a day": (
        {"date": DAYS, "time": [930, 945, 1000, 2400], "close": CLOSE},
        "column 'time': expected a time of day such as 09:30:00, got 2400",
    ),
    "nanoseconds of long ago": (
        {"date": ["1600-01-01", "2020-01-01 00:00:00.000000001"], "close": CLOSE[:2]},
        "a Unix time, got '1600-01-01' (other forms are read by",
    ),
    "nanoseconds alone": ({"date": ["1600-01-01 00:00:00.000000001"] * 2, "close": CLOSE[:2]}, "got '1600-01-01 00:00"),
    "nanoseconds in a column of times": (
        {"date": ["1600-01-01"] * 2, "time": ["09:30:00.000000001", "09:31"], "close": CLOSE[:2]},
        "index 0, column 'date': expected a date that a time in nanoseconds can have, got '1600-01-01'",
    ),
    "some zones": ({"date": [DAYS[0], DAYS[1] + "T00:00Z"], "close": CLOSE[:2]}, "all dates with a time zone or none"),
}


@pytest.mark.parametrize(("table", "text"), REFUSED.values(), ids=REFUSED)
def test_c1_c2_what_cannot_be_read_is_refused_by_name(table, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        as_history(table)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"PAR1....", "got a Parquet file: hand in pandas.read_parquet(path)"),
        (b"PK\x03\x04....", "got a ZIP archive or an Excel sheet: unpack it"),
        (pickle.dumps({"close": CLOSE}), "got a pickle: hand in pandas.read_pickle(path)"),
        (
            b"1704499080000,99.5,1,2,100.0\n",
            "line 1: expected the names of the columns, got values ('1704499080000,99.5",
        ),
        (b"2024.01.04,00:00,99.5\n2024.01.05,00:00,99.5\n", "line 1: expected the names of the columns, got values"),
        (
            b"sep=;\ndate;close\n2024-01-04;1\n",
            "line 1: expected the names of the columns, got 'sep=;', which is a word",
        ),
        (b"\xef\xbb\xbfSEP=,\r\ndate,close\r\n", "got 'SEP=,', which is a word to Excel alone: leave this line out"),
        ("date,close\n".encode("utf-16-le"), "got UTF-16 without a byte order mark, or no text: write it as UTF-8"),
        (gzip.compress("date\n".encode("utf-16-be"), mtime=0), "got UTF-16 without a byte order mark, or no text"),
        (
            b"Price,Close\nTicker,AAPL\nDate,\n2024-01-04,1.0\n",
            "hand in pandas.read_csv(path, header=[0, 1], index_col=0)",
        ),
    ],
)
def test_c2_files_of_another_kind_are_refused_with_what_to_do(tmp_path, raw, text):
    path = tmp_path / "bars"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=re.escape(text)):
        as_history(path)


def test_a_file_in_utf16_is_read_as_metatrader_writes_it(tmp_path):
    path = tmp_path / "bars.csv.gz"
    path.write_bytes(gzip.compress(FILES["MetaTrader 5"][0].encode("utf-16"), mtime=0))
    assert as_history(path).close.tolist() == CLOSE and same(as_history(path).date, MINUTES)


# -- dates under other names -------------------------------------------------------------------------------

NEWEST = DAYS[::-1]
#: Dates, newest first, which nothing but their values tells.
UNNAMED = {
    "days as text": [day.replace("-", "") for day in NEWEST],
    "days": [int(day.replace("-", "")) for day in NEWEST],
    "days of floats with a hole": [np.nan, *(float(day.replace("-", "")) for day in NEWEST[1:])],
    "moments": [int(day.replace("-", "")) * 10_000 + 930 for day in NEWEST],
    **{
        f"Unix times in {unit}": np.array(NEWEST, f"M8[{unit}]").astype(int).tolist()
        for unit in ("s", "ms", "us", "ns")
    },
    "a hole first": [None, *NEWEST[1:]],
    "a blank first": ["", *NEWEST[1:]],
    "a month in letters": ["09Jan2024", "08Jan2024", "05Jan2024", "04Jan2024"],
    "a month between": ["2024/Jan/09", "2024/Jan/08", "2024/Jan/05", "2024/Jan/04"],
    "the day of the week": ["Tue Jan 9 2024", "Mon Jan 8 2024", "Fri Jan 5 2024", "Thu Jan 4 2024"],
    "as C writes it": ["Tue Jan  9 09:30:00 2024"] * 4,
    "months": ["2024-04", "2024-03", "2024-02", "2024-01"],
    "weeks": ["2024-W04", "2024-W03", "2024-W02", "2024-W01"],
    "quarters": ["2024Q4", "2024Q3", "2024Q2", "2024Q1"],
}


@pytest.mark.parametrize("cells", UNNAMED.values(), ids=UNNAMED)
def test_c1_dates_under_a_name_that_is_not_read_are_refused_by_name(tmp_path, cells):
    frame = pd.DataFrame({"t": cells, "close": CLOSE})
    path = tmp_path / "bars.csv"
    frame.to_csv(path, index=False)
    for prices in ({"t": cells, "close": CLOSE}, frame, path):
        with pytest.raises(
            ValueError, match="expected dates in a column 'date', got 't', which looks like dates: call"
        ):
            as_history(prices)
    with pytest.raises(ValueError, match="'Datum'"):
        as_history(frame.set_index(pd.Index(cells, name="Datum"))[["close"]])


@pytest.mark.parametrize(
    "name",
    ["trade_date", "TradeDate", "datadate", "DlyCalDt", "Dates", "Exchange Date", "window_start", "YYYYMMDD"],
)
def test_c1_dates_are_read_under_the_names_that_vendors_give_them(name):
    for cells in (UNNAMED["days"], UNNAMED["days as text"], NEWEST):
        history = as_history({name: cells, "close": CLOSE})
        assert history.close.tolist() == CLOSE[::-1] and same(history.date, DAYS) and history.columns["date"] == name
    table = {"trade_date": ["20240105"] * 2, "time": ["09:30", "09:31"], "close": CLOSE[:2]}
    assert same(as_history(table).date, ["2024-01-05T09:30", "2024-01-05T09:31"])


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("n", [0, 1, 2, 3]),
        ("n", [3, 2, 1, 0]),
        ("year", [2021, 2022, 2023, 2024]),
        ("code", [20240104, 20240105, 20240199, 20240201]),
        ("code", [1_500_000_000, 1_400_000_000, 1_600_000_000, 1_300_000_000]),
        ("shares", [1_500_000_000] * 4),
        ("x", [1_500_000_000] * 4),
        ("x", [1.5e9, 1.6e9, 1.7e9, 1.8e9 + 0.5]),
        ("Quote Volume", [1_500_000_000, 1_600_000_000, 1_700_000_000, 1_800_000_000]),
        ("volume_today", [1_500_000_000, 1_400_000_000, 1_600_000_000, 1_300_000_000]),
        ("high", [120_000_000, 130_000_000, 140_000_000, 150_000_000]),
        ("name", ["x", "2024-01-05", "", None]),
        ("pairs", [(1, 2), (3, 4), (5, 6), (7, 8)]),
        ("flag", [True, False, True, True]),
    ],
)
def test_c1_other_numbers_are_no_dates(tmp_path, name, cells):
    path = tmp_path / "bars.csv"
    frame = pd.DataFrame({name: cells, "close": CLOSE})
    frame.to_csv(path, index=False)
    for prices in ({name: cells, "close": CLOSE}, frame, path):
        assert as_history(prices).date is None


def test_c1_rows_out_of_order_are_no_way_around_where_a_name_means_dates():
    for cells in ([20240105, 20240104, 20240105, 20240104], ["20240105", "20240104"] * 2, [1704412800, 1704326400] * 2):
        with pytest.raises(ValueError, match="got 'Handelsdatum', which looks like dates"):
            as_history({"Handelsdatum": cells, "close": CLOSE})


def test_c1_times_since_the_start_are_no_dates():
    since = pd.to_timedelta([3, 2, 1, 0], "D")
    for index in (since, since.rename("since")):
        with pytest.raises(ValueError, match=r"prices, index 0, column '(index|since)': expected a date such as"):
            as_history(FRAME.set_axis(index))
    with pytest.raises(ValueError, match="got 'since', which looks like dates"):
        as_history(FRAME.assign(since=since))


@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_c1_moments_as_digits_are_no_unix_times(make):
    for form in ("%Y%m%d%H%M", "%Y%m%d%H%M%S"):
        for convert in (int, str):
            assert same(
                as_history({"date": make(list(map(convert, minutes(form)))), "close": make(CLOSE)}).date, MINUTES
            )
    # Milliseconds get another digit in 1973 and in 2001: those between are told by the others.
    days_in_ms = np.arange("1972-01-01", "2024-01-01", dtype="M8[D]")[800:].astype("M8[ms]").astype(int)
    for convert in (int, str):
        dates = as_history(
            {"date": make(list(map(convert, days_in_ms.tolist()))), "close": np.ones(len(days_in_ms))}
        ).date
        assert (dates.astype("M8[ms]").astype(int) == days_in_ms).all()


# -- frames ------------------------------------------------------------------------------------------------

STAMPS = pd.to_datetime(DAYS)
FRAME = pd.DataFrame({"Open": OPEN, "Close": CLOSE})
INDEXES = {
    "text named date": pd.Index(DAYS, name="date"),
    "text without a name": pd.Index(DAYS),
    "datetime.date": pd.Index([stamp.date() for stamp in STAMPS], name="Day"),
    "periods": pd.PeriodIndex(DAYS, freq="D"),
    "stamps of another name": pd.DatetimeIndex(DAYS, name="when"),
    "objects": pd.Index(list(STAMPS), dtype=object),
    "nanoseconds": pd.Index(STAMPS.astype("datetime64[ns]").astype("int64"), name="timestamp"),
    "a time zone": STAMPS.tz_localize("UTC"),
    "days as numbers": pd.Index([int(day.replace("-", "")) for day in DAYS]),
    "days as digits": pd.Index([day.replace("-", "") for day in DAYS]),
    "Unix times": pd.Index(STAMPS.astype("datetime64[s]").astype("int64")),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_c1_an_index_of_dates_is_read_and_checked(index):
    frame = FRAME.set_axis(index)
    for shown in (frame, frame.iloc[::-1], pickle.loads(pickle.dumps(frame)), frame.reset_index(names="Date")):
        history = as_history(shown)
        assert history.close.tolist() == CLOSE and history.open.tolist() == OPEN and same(history.date, DAYS)
    for closes in (frame["Close"], {"Close": frame["Close"]}, {"Close": frame["Close"].iloc[::-1]}):
        history = as_history(closes)
        assert history.close.tolist() == CLOSE and same(history.date, DAYS) and history.execution == "close"
    for wrong in ([0, 2, 1, 3], [0, 1, 1, 2], [0, 1, 2, 3, 0, 1, 2, 3]):
        with pytest.raises(ValueError, match=r"prices, index \d, column '.*': expected a date after 2024"):
            as_history(frame.iloc[wrong])
        with pytest.raises(ValueError, match=r"prices, index \d, column '.*': expected a date after 2024"):
            as_history(frame["Close"].iloc[wrong])


def test_c1_rows_that_came_newest_first_are_named_as_they_came():
    table = {"Date": DAYS[::-1], "close": [*CLOSE[:2], -1.0, CLOSE[3]]}
    with pytest.raises(ValueError, match=r"prices, index 2, column 'close': .* got -1.0"):
        as_history(table)
    table["close"][2] = 3.0
    history = as_history(table)
    assert history.close.tolist() == table["close"][::-1]
    assert history.notes[0] == "rows came newest first, and have been turned around"


def test_c1_days_that_follow_each_other_are_dates_though_pandas_makes_a_range_of_them(tmp_path):
    path = tmp_path / "bars.csv"
    path.write_text(",close\n20200103,3\n20200102,2\n20200101,1\n")
    for prices in (path, pd.read_csv(path), pd.read_csv(path, index_col=0), pd.read_csv(path, index_col=0)["close"]):
        history = as_history(prices)
        assert history.close.tolist() == [1.0, 2.0, 3.0] and same(
            history.date, ["2020-01-01", "2020-01-02", "2020-01-03"]
        )


def test_c2_columns_of_one_asset_as_yfinance_has_them_are_read_and_of_several_refused():
    frame = FRAME.set_axis(STAMPS)
    frame.columns = pd.MultiIndex.from_product([frame.columns, ["AAPL"]], names=["Price", "Ticker"])
    assert as_history(frame).columns == {"close": "Close", "open": "Open", "date": "index"}
    with pytest.raises(ValueError, match=r"one level of names of columns, got 2 \(Price, Ticker\).*frame.xs\('TICKER'"):
        as_history(pd.concat([frame, frame.rename(columns={"AAPL": "MSFT"})], axis=1))
    stacked = pd.concat({"AAPL": FRAME, "MSFT": FRAME})
    with pytest.raises(ValueError, match="one level of the index, got 2"):
        as_history(stacked)


def test_c1_numbers_of_rows_are_no_dates(tmp_path):
    path = tmp_path / "bars.csv"
    FRAME.to_csv(path)
    many = pd.RangeIndex(0, 20_240_132, 6_746_710)[::-1]  # 20240130, which could be a day, down to 0
    for prices in (FRAME, FRAME.iloc[::-1], FRAME.set_axis(many), dict(FRAME.set_axis(many)), path, pd.read_csv(path)):
        assert as_history(prices).date is None


def test_c1_named_dates_come_before_a_nameless_column_that_could_hold_some(tmp_path):
    frame = FRAME.assign(Date=DAYS).set_axis([20240101, 20240102, 20240103, 20240104])
    path = tmp_path / "bars.csv"
    frame.to_csv(path)
    for prices in (frame, frame.reset_index(), path):
        assert as_history(prices).columns["date"] == "Date" and same(as_history(prices).date, DAYS)
    closes = as_history({"index": [2e8, 1e8], "close": CLOSE[:2]}, price="index")
    assert closes.close.tolist() == [2e8, 1e8] and closes.date is None


@pytest.mark.parametrize(
    ("times", "read"),
    [
        ([930, 945, 1000, 1600], ["09:30", "09:45", "10:00", "16:00"]),
        ([0, 5, 130, 2359], ["00:00", "00:05", "01:30", "23:59"]),
        ([0, 500, 93000, 160000], ["00:00:00", "00:05:00", "09:30:00", "16:00:00"]),
        ([930.0, 945.0, 1000.0, 1600.0], ["09:30", "09:45", "10:00", "16:00"]),
        (["930", "945", "1000", "1600"], ["09:30", "09:45", "10:00", "16:00"]),
        (["000930", "000945", "001000", "001600"], ["00:09:30", "00:09:45", "00:10:00", "00:16:00"]),
        (["9:30", "9:45:30", "10:00", "16:00"], ["09:30", "09:45:30", "10:00", "16:00"]),
        ([datetime.time(9, 30), datetime.time(9, 45), "10:00", 1600], ["09:30", "09:45", "10:00", "16:00"]),
    ],
)
@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_c2_times_of_day_are_read_as_they_were_meant(tmp_path, times, read, make):
    expected = [f"2024-01-04T{time}" for time in read]
    table = {"date": make([DAYS[0]] * 4), "time": make(times), "close": make(CLOSE)}
    path = tmp_path / "bars.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    for prices in (table, pd.DataFrame(table), *([path] if make is list and times[0] != 930.0 else ())):
        assert as_history(prices).date.tolist() == np.array(expected, "datetime64").tolist()


def test_c2_a_column_that_tells_the_moment_comes_before_a_time_that_is_none():
    table = {"timestamp": MINUTES, "date": DAYS, "time": ["09:30 AM"] * 4, "close": CLOSE}
    assert same(as_history(table).date, MINUTES)


class FakeColumn:
    """A column of polars or Arrow, as far as it is used."""

    def __init__(self, name, values):
        self.name, self.values = name, values

    def to_numpy(self):
        return np.asarray(self.values)


class FakePolars:
    def __init__(self, columns):
        self.held = columns

    def get_columns(self):
        return [FakeColumn(*item) for item in self.held.items()]


class FakeArrow:
    def __init__(self, columns):
        self.held, self.column_names = columns, list(columns)

    def column(self, name):
        return FakeColumn(name, self.held[name])


@pytest.mark.parametrize("make", [FakePolars, FakeArrow])
def test_c2_polars_frames_and_arrow_tables(make):
    history = as_history(
        make({"Date": np.array(DAYS, "datetime64[ms]"), "Open": OPEN, "Close": CLOSE, "Name": ["x"] * 4})
    )
    assert history.close.tolist() == CLOSE and history.open.tolist() == OPEN and same(history.date, DAYS)
    assert as_history(FakeColumn("close", CLOSE)).close.tolist() == CLOSE


def test_c2_rows_and_lazy_frames_are_refused_with_what_to_do():
    for rows in ([[1704499080000, "1.0"]] * 3, [{"close": 1.0}] * 3):
        with pytest.raises(TypeError, match=r"got rows, each a (list|dict): hand in pandas\.DataFrame\(rows"):
            as_history(rows)
    lazy = type("LazyFrame", (), {"collect": lambda self: None})()
    with pytest.raises(TypeError, match=r"got LazyFrame: hand in \.collect\(\) of it"):
        as_history(lazy)


# -- choices -----------------------------------------------------------------------------------------------


def test_c2_adjusted_closes_take_the_opens_with_them():
    adjusted = [close * factor for close, factor in zip(CLOSE, [0.5, 0.5, 0.9, 1.0], strict=True)]
    table = {"Open": OPEN, "Close": CLOSE, "Adj Close": adjusted}
    assert as_history(table, price="close").open.tolist() == OPEN
    history = as_history(table, price="adj_close")
    assert history.close.tolist() == adjusted and history.columns["close"] == "Adj Close"
    np.testing.assert_allclose(history.open, np.array(OPEN) * [0.5, 0.5, 0.9, 1.0], rtol=1e-15)
    assert "opens are adjusted by the factor of the closes" in history.notes
    own = as_history({**table, "Adj Open": [1.0, 2.0, 3.0, 4.0]}, price="Adj Close")
    assert own.open.tolist() == [1.0, 2.0, 3.0, 4.0]
    del table["Close"]
    with pytest.raises(ValueError, match=r"expected a column 'close' beside 'Adj Close', by which 'Open' could be adj"):
        as_history(table, price="adj_close")
    for kind in (np.float32, np.int64, np.longdouble):
        closes = np.array(CLOSE).astype(kind)
        assert as_history({"close": closes, "adj_close": closes}).close.tolist() == closes.tolist()
        with pytest.raises(ValueError, match=r"index 3, column 'adj_close': expected 102"):
            as_history({"close": closes, "adj_close": closes - [0, 0, 0, 1]})
    same_closes = as_history({"close": CLOSE, "adj_close": [str(close) for close in CLOSE]})
    assert same_closes.columns == {"close": "close"}


@pytest.mark.parametrize(
    "names", ["1. open,4. close", "<OPEN>,<CLOSE>", "Open*,Close*", "OPEN_PRICE,Close/Last", "open ,  close"]
)
def test_c2_names_may_have_signs_and_numbers_around_them(names):
    history = as_history(dict(zip(names.split(","), (OPEN, CLOSE), strict=True)))
    assert (history.open.tolist(), history.close.tolist()) == (OPEN, CLOSE)


def test_c2_any_column_can_be_named_as_the_price():
    assert as_history({"Price": CLOSE, "close": OPEN}, price="price").close.tolist() == CLOSE
    with pytest.raises(ValueError, match=r"expected a column 'mid' \(price\), got the columns 'close'"):
        as_history({"close": CLOSE}, price="mid")
    with pytest.raises(TypeError, match="price: expected the name of a column, got 3"):
        as_history({"close": CLOSE}, price=3)
    with pytest.raises(ValueError, match="price, zero_volume: expected None with a PriceHistory"):
        as_history(as_history(CLOSE), price="close")


def test_c2_what_was_read_is_told():
    history = as_history({"DATE": DAYS, "CLOSE": CLOSE})
    assert history.describe() == {
        "bars": "4, 2024-01-04 to 2024-01-09",
        "columns": "close from 'CLOSE', date from 'DATE'",
        "notes": "there are no opens: trades are at the close just seen",
    }
    assert as_history(CLOSE).notes[0] == "there are no dates: rows are taken to be oldest first"
    again = pickle.loads(pickle.dumps(history))
    assert again.describe() == history.describe() and again.execution == "close"


def test_c3_what_is_in_a_column_that_is_not_used_does_not_matter(tmp_path):
    table = {"date": DAYS, "close": CLOSE, "high": [np.nan, None, "x", -1], "Dividends": ["", "nan", "2", "null"]}
    assert as_history(table).close.tolist() == CLOSE
    path = tmp_path / "bars.csv"
    path.write_text(lines_of(",".join(table), zip(*table.values(), strict=True)))
    assert as_history(path).close.tolist() == CLOSE
    assert as_history({"close": CLOSE, "volume": [np.nan, None, "1.2M", 3]}).close.tolist() == CLOSE


@pytest.mark.parametrize("volume", [[5, 0, 7, 0], [5.0, 0.0, np.nan, 0.0], ["5", "0", "7", "0.0"]])
def test_c3_bars_without_volume_need_a_choice(volume):
    table = {"date": DAYS, "open": OPEN, "close": CLOSE, "Volume": volume}
    for dated in (table, {name: column[::-1] for name, column in table.items()}):
        with pytest.raises(
            ValueError, match=r"column 'Volume': .* got 2 bars with a volume of 0 of 4: say whether one can"
        ):
            as_history(dated)
        traded, dropped = (as_history(dated, zero_volume=choice) for choice in ("trade", "drop"))
        assert traded.close.tolist() == CLOSE and "2 bars with a volume of 0 can be traded as any other" in traded.notes
        assert dropped.close.tolist() == CLOSE[::2] and dropped.open.tolist() == OPEN[::2]
        assert same(dropped.date, DAYS[::2]) and "2 bars with a volume of 0 have been left out" in dropped.notes
    with pytest.raises(ValueError, match="zero_volume: expected 'trade' or 'drop', got 'hold'"):
        as_history(table, zero_volume="hold")


def test_c3_prices_of_bars_that_are_dropped_do_not_matter():
    table = {"close": [1.0, 0.0, 3.0], "open": [1.0, np.nan, 3.0], "vol": [1, 0, 2]}
    assert as_history(table, zero_volume="drop").close.tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match=r"index 1, column 'close': expected a finite price above 0, got 0.0"):
        as_history(table, zero_volume="trade")


def test_c3_volumes_that_are_all_0_tell_nothing():
    history = as_history({"close": CLOSE, "Volume": [0] * 4})
    assert len(history) == 4 and "'Volume' is 0 in every bar, and tells nothing" in history.notes


@pytest.mark.parametrize("name", ["Adjusted", "Settle", "close_adjusted"])
def test_c2_opens_follow_the_closes_that_are_asked_for_whatever_these_are_called(name):
    table = {"Open": [9.0, 19.0], "Close": [10.0, 20.0], name: [5.0, 10.0]}
    history = as_history(table, price=name)
    assert history.close.tolist() == [5.0, 10.0] and history.open.tolist() == [4.5, 9.5]
    assert "opens are adjusted by the factor of the closes" in history.notes
