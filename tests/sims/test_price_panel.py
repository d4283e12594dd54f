"""Prices of several assets: files, tables with a column per asset, and how they are joined."""

from __future__ import annotations

import copy
import gzip
import math
import pickle

import numpy as np
import pytest

from sims.data import PANELS, PriceHistory, PricePanel, as_panel, load, load_panel

NAN = math.nan


def days(first, count):
    return np.datetime64(first) + np.arange(count)


def history(first="2024-01-01", count=4, scale=1.0, opens=False):
    closes = scale * np.arange(1.0, count + 1.0)
    return PriceHistory(closes, closes + 0.5 if opens else None, days(first, count))


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


# -- joining -------------------------------------------------------------------------------------------------


def test_common_days_are_those_that_all_have():
    panel = as_panel({"a": history(), "b": history("2024-01-03", 5, 10.0)})
    assert panel.assets == ("a", "b") and panel.execution == "close" and panel.open is None
    assert panel.date.tolist() == days("2024-01-03", 2).tolist()
    assert panel.close.tolist() == [[3.0, 10.0], [4.0, 20.0]]
    assert panel.listed.all() and len(panel) == 2
    assert "a: 2 of 4 bars are left out, which others have not" in panel.notes


def test_all_days_are_those_that_any_has():
    panel = as_panel({"a": history(count=2), "b": history("2024-01-04", 2)}, join="all")
    np.testing.assert_array_equal(panel.close, [[1, NAN], [2, NAN], [NAN, 1], [NAN, 2]])
    assert panel.date.tolist() == [*days("2024-01-01", 2).tolist(), *days("2024-01-04", 2).tolist()]


def test_opens_are_there_where_all_have_them():
    panel = as_panel({"a": history(opens=True), "b": history(opens=True, scale=2.0)})
    assert panel.execution == "open" and panel.open.tolist() == [[k + 0.5, 2 * k + 0.5] for k in (1, 2, 3, 4)]
    assert as_panel({"a": history(opens=True), "b": history()}).open is None


def test_days_of_other_precisions_are_the_same_days():
    dates = days("2024-01-01", 3).astype("datetime64[ns]")
    panel = as_panel({"a": history(), "b": PriceHistory([1.0, 2.0, 3.0], date=dates)})
    assert len(panel) == 3


@pytest.mark.parametrize("join", ["common", "all"])
def test_histories_without_dates_are_joined_row_by_row(join):
    panel = as_panel({"a": PriceHistory([1.0, 2.0]), "b": [3.0, 4.0]} | {"c": {"close": [5.0, 6.0]}}, join=join)
    assert panel.close.tolist() == [[1, 3, 5], [2, 4, 6]] and panel.date is None


def test_the_bundled_panel():
    panel = load_panel("indices")
    assert PANELS["indices"] == panel.assets == ("sp500", "nasdaq")
    assert panel.execution == "close" and panel.open is not None
    for k, name in enumerate(panel.assets):
        np.testing.assert_array_equal(panel.close[:, k], load(name)["close"])
        np.testing.assert_array_equal(panel.date, load(name)["date"])
    with pytest.raises(ValueError, match="expected one of 'indices', got 'sp500'"):
        load_panel("sp500")


# -- files and tables ----------------------------------------------------------------------------------------


def test_several_files(tmp_path):
    write(tmp_path / "one.csv", "date,open,close\n2024-01-01,1,2\n2024-01-02,3,4\n2024-01-03,5,6\n")
    write(tmp_path / "two.csv.gz", "Date;Close\n2024-01-03;30\n2024-01-02;20\n")  # newest first
    paths = [tmp_path / "one.csv", str(tmp_path / "two.csv.gz")]
    panel = as_panel(paths)
    assert panel.assets == ("one", "two") and panel.close.tolist() == [[4, 20], [6, 30]]
    assert as_panel(dict(zip("xy", paths, strict=True))).assets == ("x", "y")
    with pytest.raises(ValueError, match="files of different names, got 'one' twice"):
        as_panel([paths[0], paths[0]])
    with pytest.raises(FileNotFoundError, match="none.csv"):
        as_panel([tmp_path / "none.csv"])


def test_a_file_with_a_column_per_asset(tmp_path):
    path = write(tmp_path / "wide.csv", "date,AAA,BBB\n2024-01-01,1,\n2024-01-02,2,20\n\n2024-01-03,NaN,30\n")
    panel = as_panel(path)
    assert panel.assets == ("AAA", "BBB") and panel.date.tolist() == days("2024-01-01", 3).tolist()
    np.testing.assert_array_equal(panel.close, [[1, NAN], [2, 20], [NAN, 30]])
    path.write_text("date,AAA,BBB\n2024-01-01,1,\n2024-01-02,2,20\n\n2024-01-03,-3,30\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"wide.csv, line 5, column 'AAA': expected a finite price above 0, got '-3'"):
        as_panel(path)


def test_tables_in_memory():
    expected = [[1, NAN], [2, 20], [3, 30]]
    dates = days("2024-01-01", 3)
    for table in (
        {"date": dates, "a": [1.0, 2.0, 3.0], "b": [None, 20.0, 30.0]},
        {"a": [1.0, 2.0, 3.0], "b": np.array([NAN, 20.0, 30.0])},
        np.array([(1, NAN), (2, 20), (3, 30)], [("a", "f8"), ("b", "f8")]),
        np.array(expected),
        expected,
    ):
        panel = as_panel(table)
        np.testing.assert_array_equal(panel.close, expected)
        assert (panel.date is not None) == (isinstance(table, dict) and "date" in table)
    assert panel.assets == ("asset 0", "asset 1")
    np.testing.assert_array_equal(as_panel(np.array(expected), join="common").close, expected[1:])


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": [1.0, 2.0, 3.0], "b": [NAN, 20.0, 30.0]}, index=pandas.to_datetime(days("2024-01-01", 3))
    )
    panel = as_panel(frame)
    np.testing.assert_array_equal(panel.close, frame.to_numpy())
    assert panel.date[0] == np.datetime64("2024-01-01")
    apart = as_panel({"a": frame["a"], "b": frame["b"].dropna()})  # each with dates of its own
    assert apart.close.tolist() == [[2.0, 20.0], [3.0, 30.0]]


@pytest.mark.parametrize("order", [("Price", "Ticker"), ("Ticker", "Price")])
def test_frames_of_several_tickers(order):
    """As yfinance writes them, with either level first."""
    pandas = pytest.importorskip("pandas")
    columns = {("Close", "A"): [2.0, 3.0, 4.0], ("Close", "B"): [NAN, 20.0, 30.0]}
    columns |= {("Open", "A"): [1.0, 2.0, 3.0], ("Open", "B"): [NAN, 10.0, 20.0]}
    frame = pandas.DataFrame(columns, index=pandas.to_datetime(days("2024-01-01", 3)))
    frame.columns = frame.columns.set_names(["Price", "Ticker"]).reorder_levels(order)
    panel = as_panel(frame)
    assert panel.assets == ("A", "B") and panel.execution == "open"
    np.testing.assert_array_equal(panel.close, [[2, NAN], [3, 20], [4, 30]])
    np.testing.assert_array_equal(panel.open, [[1, NAN], [2, 10], [3, 20]])
    assert as_panel(frame, join="common").listed.all()


def test_a_table_of_one_asset_is_one_asset(tmp_path):
    table = {"open": [1.0, 2.0], "close": [1.5, 2.5], "volume": [5, 0]}
    with pytest.raises(ValueError, match="asset 'asset': .* zero_volume"):
        as_panel(table)
    panel = as_panel(table, zero_volume="trade")
    assert panel.assets == ("asset",) and panel.close.tolist() == [[1.5], [2.5]] and panel.open.tolist() == [[1], [2]]
    path = write(tmp_path / "gold.csv", "date,close,adj_close\n2024-01-01,1,2\n2024-01-02,3,4\n")
    assert as_panel(path, price="adj_close").close.tolist() == [[2], [4]] and as_panel(path, price="close").assets == (
        "gold",
    )


def test_a_panel_is_handed_back():
    panel = PricePanel([[1.0], [2.0]])
    assert as_panel(panel) is panel
    with pytest.raises(ValueError, match="expected None with a PricePanel"):
        as_panel(panel, join="all")


def test_a_panel_is_read_only_and_so_are_its_copies():
    panel = as_panel({"a": history(opens=True), "b": history(opens=True)})
    for each in (panel, copy.deepcopy(panel), pickle.loads(pickle.dumps(panel))):
        for name in ("close", "open", "date"):
            assert not getattr(each, name).flags.writeable
        assert each.assets == ("a", "b") and each.notes == panel.notes and each.execution == "open"
    closes = np.ones((3, 2))
    kept = PricePanel(closes)
    closes[0] = 7.0
    assert kept.close[0, 0] == 1.0
    assert kept.describe() == {"assets": "asset 0, asset 1", "bars": "3"}


# -- what is refused -----------------------------------------------------------------------------------------

UNSORTED = {"date": ["2024-01-01", "2024-01-03", "2024-01-02"], "close": [1.0, 2.0, 3.0]}
TWICE = {"date": ["2024-01-01", "2024-01-02", "2024-01-02"], "close": [1.0, 2.0, 3.0]}
WRONG = {
    "unsorted": (
        {"a": history(), "b": UNSORTED},
        {},
        "asset 'b': prices, index 2, column 'date': expected a date after",
    ),
    "duplicated": (
        {"a": history(), "b": TWICE},
        {},
        "asset 'b': prices, index 2, column 'date': expected a date after",
    ),
    "disjoint": (
        {"a": history(), "b": history("2025-01-01")},
        {},
        "at least 2 bars that all assets have, got 0: 'a' has 2024-01-01 to 2024-01-04, 'b' has 2025-01-01 to",
    ),
    "hardly overlapping": ({"a": history(), "b": history("2024-01-04")}, {}, "at least 2 bars .* got 1: 'a' has"),
    "dates of one alone": ({"a": history(), "b": {"close": [1.0, 2.0]}}, {}, "got 'a' with, 'b' without"),
    "lengths": ({"a": PriceHistory([1.0, 2.0]), "b": PriceHistory([1.0] * 3)}, {}, "different lengths by, got none"),
    "join": ({"a": history()}, {"join": "any"}, "join: expected 'common' or 'all', got 'any'"),
    "negative": (
        {"a": [1.0, 2.0, 3.0], "b": [1.0, NAN, -1.0]},
        {},
        "index 2, column 'b': expected a finite price above 0",
    ),
    "text": ({"a": [1.0, 2.0], "b": ["1", "x"]}, {}, "index 1, column 'b': expected a finite price above 0, got 'x'"),
    "one price": ({"a": [1.0, 2.0], "b": [1.0, None]}, {}, "column 'b': expected at least 2 prices, got 1"),
    "other length": ({"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]}, {}, "column 'b': expected 2 rows, got 3"),
    "no asset": ({"date": days("2024-01-01", 3)}, {}, r"expected a column of closes per asset, got \['date'\]"),
    "price": ({"a": [1.0, 2.0], "b": [1.0, 2.0]}, {"price": "a"}, "price, zero_volume: expected None with a column"),
    "unsorted table": (
        {"date": ["2024-01-01", "2024-01-03", "2024-01-02"], "a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]},
        {},
        "index 2, column 'date': expected a date after",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_prices_that_are_wrong(name):
    prices, arguments, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        as_panel(prices, **arguments)


CLOSE = [[1.0, 2.0], [3.0, NAN], [5.0, 6.0]]
MADE_WRONG = {
    "shape": (([1.0, 2.0],), {}, r"close: expected the shape \(T, K\), got \(2,\)"),
    "ragged": (([[1.0, 2.0], [3.0]],), {}, r"close: expected rows of one length \(T, K\)"),
    "names": ((CLOSE, ["a", "a"]), {}, r"assets: expected 2 different names, got \['a', 'a'\]"),
    "opens": ((CLOSE,), {"open": CLOSE[:2]}, r"open: expected the shape \(3, 2\), got \(2, 2\)"),
    "an open without a close": (
        (CLOSE, ["a", "b"]),
        {"open": np.ones((3, 2))},
        "asset 'b', index 1: expected an open and a close, or neither",
    ),
    "nothing listed": (([[1.0], [NAN], [2.0]],), {}, "index 1: expected at least one asset with a close, got none"),
    "price": (([[1.0, 2.0], [3.0, NAN], [5.0, 0.0]], ["a", "b"]), {}, "asset 'b', index 2, column 'close': .* got 0"),
    "rise": (([[1e-30], [1e30]],), {}, "asset 'asset 0', index 1, column 'close': expected at most 1e[+]38 times"),
    "dates": ((CLOSE,), {"date": days("2024-01-01", 2)}, r"date: expected 3 dates, got the shape \(2,\)"),
    "order": ((CLOSE,), {"date": days("2024-01-01", 3)[::-1]}, "index 1, column 'date': expected a date after"),
    "execution": ((CLOSE,), {"execution": "open"}, "execution='open': expected opens, got closes alone"),
}


@pytest.mark.parametrize("name", MADE_WRONG)
def test_panels_that_are_wrong(name):
    given, named, message = MADE_WRONG[name]
    with pytest.raises(ValueError, match=message):
        PricePanel(*given, **named)


def test_frames_that_are_wrong():
    pandas = pytest.importorskip("pandas")
    dated = pandas.Series([1.0, 2.0, 3.0], index=pandas.to_datetime(days("2024-01-01", 3)))
    shifted = {"a": pandas.Series([1.0, 2.0]), "b": pandas.Series([1.0, 2.0], index=[1, 2])}
    long = pandas.DataFrame({"date": [*days("2024-01-01", 2)] * 2, "ticker": list("aabb"), "close": [1.0, 2.0] * 2})
    for prices, message in (
        (
            {"a": dated.tz_localize("Asia/Tokyo"), "b": {"date": days("2024-01-01", 3), "close": dated.to_numpy()}},
            "zone",
        ),
        (pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=[1, "1"]), "assets of different names, got '1' twice"),
        (
            pandas.concat({1: dated, "1": dated}, axis=1).pipe(lambda f: pandas.concat({"Close": f}, axis=1)),
            "'1' twice",
        ),
        (shifted, r"Series of one index, got 'a' and 'b' .* pandas.DataFrame\(prices\)"),
        (long, r"by the column 'ticker': hand in frame.pivot\(index='date', columns='ticker', values='close'\)"),
        (long.set_index(["date", "ticker"]), r"2 levels \(date, ticker\): hand in frame\['close'\].unstack\(\)"),
        (long.set_index(["date", "ticker"])["close"], r"hand in prices.unstack\(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            as_panel(prices)
    with pytest.raises(TypeError, match="hand in {name: prices}"):
        as_panel([dated, dated])
    assert as_panel(long.set_index(["date", "ticker"])["close"].unstack()).assets == ("a", "b")


def test_bars_without_any_price_are_left_out():
    for prices in (
        [[1.0, 2.0], [NAN, NAN], [3.0, NAN], [4.0, 5.0]],
        {"a": [1.0, NAN, 3.0, 4.0], "b": [2.0, NAN, NAN, 5.0]},
    ):
        panel = as_panel(prices)
        np.testing.assert_array_equal(panel.close, [[1, 2], [3, NAN], [4, 5]])
        assert "1 bar without any price left out" in panel.notes
    assert any(
        "not listed in 1 bar between its first and its last, over which it is held" in each for each in panel.notes
    )


@pytest.mark.parametrize(
    ("name", "message"), [("indices", r"load_panel\('indices'\)"), ("sp500", r"hand in \['sp500'\]")]
)
def test_names_that_are_no_table(name, message):
    with pytest.raises(ValueError, match=message):
        as_panel(name)


def test_masked_prices_are_missing():
    closes = np.ma.array([[1.0, 2.0], [3.0, 99.0], [5.0, 6.0]], mask=[[0, 0], [0, 1], [0, 0]])
    for panel in (PricePanel(closes), as_panel(closes), as_panel({"a": closes[:, 0], "b": closes[:, 1]})):
        np.testing.assert_array_equal(panel.close, [[1, 2], [3, NAN], [5, 6]])


def test_types_that_are_wrong():
    with pytest.raises(TypeError, match="PricePanel, close: expected numbers .* got bool"):
        PricePanel([[True], [True]])
    with pytest.raises(ValueError, match="column 'b': expected a finite price above 0, got True"):
        as_panel({"a": [1.0, 2.0], "b": [True, True]})
    with pytest.raises(TypeError, match="PricePanel, close: expected numbers"):
        PricePanel([["x"]])
    with pytest.raises(TypeError, match="asset 'b': .* got int"):
        as_panel({"a": history(), "b": 3})
