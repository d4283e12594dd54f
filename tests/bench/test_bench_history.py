"""A CSV of a million minute bars as a PriceHistory, against pandas reading the file into a frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rounds import take_turns

from sims.data import as_history

pytestmark = pytest.mark.bench

ROWS = 1_000_000


@pytest.mark.parametrize("form", ["ISO dates", "Unix times", "MetaTrader"])
def test_a_million_minute_bars(form, report, tmp_path):
    rng = np.random.default_rng(0)
    close = np.round(100.0 * np.exp(rng.normal(0.0, 1e-4, ROWS).cumsum()), 4)
    date = pd.date_range("2010-01-01", periods=ROWS, freq="min")
    bars = {"open": np.round(close * 1.0001, 4), "high": close, "low": close, "close": close}
    dates = {
        "ISO dates": {"date": date.strftime("%Y-%m-%d %H:%M:%S")},
        "Unix times": {"timestamp": date.astype("datetime64[ms]").astype("int64")},
        "MetaTrader": {"<DATE>": date.strftime("%Y.%m.%d"), "<TIME>": date.strftime("%H:%M:%S")},
    }[form]
    separator = "\t" if form == "MetaTrader" else ","
    path = tmp_path / "bars.csv"
    pd.DataFrame({**dates, **bars, "volume": rng.integers(1, 1000, ROWS)}).to_csv(path, index=False, sep=separator)
    history = as_history(path)
    assert history.close.tolist() == close.tolist() and (history.date == date.to_numpy()).all()
    sides = {"as_history": lambda: as_history(path), "pandas": lambda: pd.read_csv(path, sep=separator)}
    report(f"1,000,000 bars, CSV, {form}", take_turns(sides, rounds=5), "as_history", "pandas", "2")
