"""The bundled histories."""

from __future__ import annotations

import subprocess
import sys

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
    history = sims.data.as_history(table)
    np.testing.assert_array_equal(history.close, table["close"])
    np.testing.assert_array_equal(history.open, table["open"])
    np.testing.assert_array_equal(history.date, table["date"])


def test_load_gives_one_read_only_array():
    table = sims.data.load("sp500")
    assert sims.data.load("sp500") is table
    with pytest.raises(ValueError, match="read-only"):
        table["close"][0] = 1.0


@pytest.mark.parametrize("name", ["dax", "../sp500", "", None])
def test_load_names_what_it_has(name):
    with pytest.raises(ValueError, match=r"expected one of 'nasdaq', 'sp500', got "):
        sims.data.load(name)


def test_importing_sims_and_its_data_imports_no_numba():
    code = "import sys, sims, sims.data; sims.data.load('sp500'); print({'numba', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
