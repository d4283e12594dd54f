"""The bundled histories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sims.data


@pytest.mark.parametrize(("name", "percent"), [("sp500", 104.124), ("nasdaq", 200.504)])
def test_load_gives_the_checked_history(name, percent):
    table = sims.data.load(name)
    assert table.shape == (5031,)
    assert table.dtype.names == ("date", "open", "high", "low", "close", "adj_close", "volume")
    assert table["date"].dtype == np.dtype("datetime64[D]")
    assert (str(table["date"][0]), str(table["date"][-1])) == ("1999-01-04", "2018-12-31")
    assert round(100 * (table["close"][-1] / table["close"][0] - 1), 3) == percent
    assert (table["low"] <= table["close"]).all() and (table["close"] <= table["high"]).all()
    assert np.count_nonzero(table["volume"] == 0) == {"sp500": 0, "nasdaq": 2}[name]


@pytest.mark.parametrize("name", sims.data.NAMES)
def test_every_named_history_passes_as_history(name):
    table = sims.data.load(name)
    history = sims.data.load_history(name)
    np.testing.assert_array_equal(history.close, table["close"])
    np.testing.assert_array_equal(history.open, table["open"])
    np.testing.assert_array_equal(history.date, table["date"])


def test_load_gives_one_read_only_array():
    table = sims.data.load("sp500")
    assert sims.data.load("sp500") is table
    with pytest.raises(ValueError, match="read-only"):
        table["close"][0] = 1.0


@pytest.mark.parametrize("load", [sims.data.load, sims.data.load_history])
@pytest.mark.parametrize("name", ["dax", "../sp500", "", None])
def test_load_names_what_it_has(name, load):
    with pytest.raises(ValueError, match=r"expected one of 'nasdaq', 'sp500', got "):
        load(name)


def test_c4_opens_of_the_sp500_are_stale_and_it_trades_at_closes():
    stale = {}
    for name in sims.data.NAMES:
        table = sims.data.load(name)
        same, year = table["open"][1:] == table["close"][:-1], table["date"][1:].astype("datetime64[Y]").astype(str)
        stale[name] = [same.mean(), *(same[year == str(each)].mean() for each in range(1999, 2006))]
    assert stale["sp500"][0] == pytest.approx(0.4, abs=0.01) and 0.94 < min(stale["sp500"][1:])
    assert max(stale["sp500"]) < 0.985 and max(stale["nasdaq"]) < 0.01
    sp500, nasdaq = sims.data.load_history("sp500"), sims.data.load_history("nasdaq")
    assert (sp500.execution, nasdaq.execution) == ("close", "open")
    assert sp500.open is not None and any(
        "the open in this file is the close of the day before" in n for n in sp500.notes
    )
    readme = (Path(sims.data.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert "40%" in readme and "95 to 98%" in readme and 'execution="close"' in readme


def test_c3_the_two_days_without_a_volume_on_the_nasdaq_can_be_traded_or_left_out():
    table = sims.data.load("nasdaq")
    with pytest.raises(
        ValueError, match=r"index 4114, column 'volume': .* 2 bars with a volume of 0 of 5,031: say whet"
    ):
        sims.data.as_history(table)
    assert len(sims.data.load_history("nasdaq")) == 5031
    left = sims.data.load_history("nasdaq", zero_volume="drop")
    np.testing.assert_array_equal(left.close, table["close"][table["volume"] > 0])


def test_importing_sims_and_its_data_imports_no_numba():
    code = "import sys, sims, sims.data; sims.data.load('sp500'); print({'numba', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", sims.data.NAMES)
def test_c4_the_advice_for_a_name_leads_to_a_history_with_its_execution(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as told:
        sims.data.as_history(name)
    assert "sims.data.load_history(" in str(told.value) and "sims.data.load(" not in str(told.value)
    assert sims.data.load_history(name).execution == {"sp500": "close", "nasdaq": "open"}[name]
    assert "load_history" in sims.data.load.__doc__
