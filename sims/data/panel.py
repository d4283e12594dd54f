"""``PricePanel``, the prices of several assets on common bars, and how it is joined from those of each."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import check_choice
from sims.data.history import CONVERTED, PriceHistory, make_history
from sims.data.table import Table

#: Which bars a joined panel has: those that all assets have, or those that any has.
JOINS = ("common", "all")
#: Assets, and notes, that a description names.
_MOST_NAMED = 8


@dataclass(frozen=True, eq=False)
class PricePanel:
    """Prices of K assets, bar by bar, oldest first. An asset is listed in a bar in which it has a close.

    A missing close between two others is a pause, in which a market keeps a position at its last close; after the last
    close an asset has left, and is sold.

    Whatever is given is checked, and copied into read-only arrays. ``as_panel`` also takes tables and files.

    Attributes:
        close: float64 (T, K), read-only, the last price of each bar, NaN where the asset is not listed; T at least 2.
        assets: The names of the assets, all different; of those without names "asset 0" and so on.
        open: float64 (T, K), read-only, the first price of each bar, NaN where the asset is not listed; None where
            opens are not known.
        date: datetime64 (T,), read-only, strictly increasing; None where it is not known.
        execution: The price at which a market trades unless it is told: ``"open"`` of the next bar, or the ``"close"``
            just seen. Where it is not given, the open if there are opens.
        notes: What there is to know of these prices before one trades on them, a sentence each.

    Raises:
        TypeError: Something is of the wrong type.
        ValueError: A price is none (see ``as_history``), there is an open without a close or the other way round, an
            asset has fewer than 2 prices, a bar has none, dates are not in order, names are not different, or
            ``execution`` is neither, or "open" without opens. The message names asset and row.
    """

    close: NDArray[np.float64]
    assets: Sequence[str] | None = None
    open: NDArray[np.float64] | None = None
    date: NDArray[np.datetime64] | None = None
    execution: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        made: dict[str, Any] = {"close": as_matrix("close", self.close)}
        bars, count = made["close"].shape
        names = [f"asset {k}" for k in range(count)] if self.assets is None else list(map(str, self.assets))
        if len(names) != count or len(set(names)) != count or not count:
            raise ValueError(f"PricePanel, assets: expected {count} different names, got {names}")
        made["assets"] = tuple(names)
        if self.open is not None:
            made["open"] = as_matrix("open", self.open)
            if made["open"].shape != (bars, count):
                raise ValueError(f"PricePanel, open: expected the shape {(bars, count)}, got {made['open'].shape}")
        listed = ~np.isnan(made["close"])
        if not listed.any(axis=1).all():
            row = int(np.argmin(listed.any(axis=1)))
            raise ValueError(
                f"PricePanel, index {row}: expected at least one asset with a close, got none (as_panel leaves such "
                "bars out)"
            )
        if self.date is not None and np.shape(self.date) != (bars,):
            raise ValueError(f"PricePanel, date: expected {bars} dates, got the shape {np.shape(self.date)}")
        for k, name in enumerate(names):
            cells = {role: made[role][:, k] for role in ("close", "open") if role in made}
            _check_asset(name, cells)
        if self.date is not None:
            made["date"] = PriceHistory(np.ones(bars), date=self.date).date
        for role in ("close", "open"):
            if role in made:
                made[role].flags.writeable = False
        made["execution"] = self.execution or ("close" if self.open is None else "open")
        check_choice("PricePanel, execution", made["execution"], ("open", "close"))
        if made["execution"] == "open" and self.open is None:
            raise ValueError("PricePanel, execution='open': expected opens, got closes alone")
        made["notes"] = tuple(self.notes)
        # The record is frozen for its users; here its fields are still being made.
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.close)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and unpickled arrays are writeable, so that copies of this have to be made anew.
        return type(self), (self.close, self.assets, self.open, self.date, self.execution, self.notes)

    @property
    def listed(self) -> NDArray[np.bool_]:
        """Bool (T, K): where an asset has a close."""
        return ~np.isnan(self.close)

    def describe(self) -> dict[str, str]:
        """What was read, in words: "assets", "bars" and "notes", those that there are."""
        bars = f"{len(self):,}"
        if self.date is not None:
            bars += f", {self.date[0]} to {self.date[-1]}"
        names = list(self.assets or ())
        more = [f"and {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED + 1 else []
        told = {"assets": ", ".join(names[:_MOST_NAMED] + more if more else names), "bars": bars}
        if self.notes:
            more = (
                [f"and {len(self.notes) - _MOST_NAMED} more (panel.notes)"] if len(self.notes) > _MOST_NAMED + 1 else []
            )
            told["notes"] = "; ".join([*(self.notes[:_MOST_NAMED] if more else self.notes), *more])
        return told


def join_histories(
    histories: Mapping[str, PriceHistory], join: str, rows: Mapping[str, NDArray[np.int64]] | None = None
) -> PricePanel:
    """The panel of some assets.

    Args:
        histories: Of each asset.
        join: "common" for the bars that all have, "all" for those that any has.
        rows: The numbers of the rows of histories without dates, by which they are joined; None for all rows of
            histories that have to be of one length then.

    Raises:
        ValueError: Some histories have dates and others have not, or with a time zone and without, histories without
            dates differ in length, or there are fewer than 2 common bars.
    """
    zoned = [name for name, each in histories.items() if CONVERTED in each.notes]
    if zoned and len(zoned) < len(histories):
        other = next(name for name in histories if name not in zoned)
        raise ValueError(
            f"prices: expected dates with a time zone of all assets or of none, got {zoned[0]!r} with, {other!r} "
            "without: of daily bars, take the days alone, as in frame.tz_localize(None)"
        )
    keys = _keys(histories, rows)
    grid = functools.reduce(np.intersect1d if join == "common" else np.union1d, keys.values())
    if len(grid) < 2:
        spans = ", ".join(f"{name!r} has {key[0]} to {key[-1]}" for name, key in keys.items())
        raise ValueError(f"prices: expected at least 2 bars that all assets have, got {len(grid)}: {spans}")
    roles = ("close", "open") if all(each.open is not None for each in histories.values()) else ("close",)
    columns = {role: np.full((len(grid), len(histories)), np.nan) for role in roles}
    notes = []
    for k, (name, history) in enumerate(histories.items()):
        shared = np.isin(keys[name], grid)
        at = np.searchsorted(grid, keys[name][shared])
        for role, column in columns.items():
            column[at, k] = getattr(history, role)[shared]
        notes += [f"{name}: {note}" for note in history.notes]
        lost, gaps = int(np.count_nonzero(~shared)), int(at[-1] - at[0] + 1 - len(at))
        if lost:
            notes.append(f"{name}: {lost:,} of {len(shared):,} bars are left out, which others have not")
        if gaps:
            notes.append(
                f"{name}: not listed in {gaps:,} bar{'s' * (gaps > 1)} between its first and its last, over which "
                "it is held at its last close"
            )
    closes = "close" in {each.execution for each in histories.values()}
    dated = all(each.date is not None for each in histories.values())
    return PricePanel(
        columns["close"],
        tuple(histories),
        columns.get("open"),
        grid if dated else None,
        "close" if closes or "open" not in columns else "open",
        tuple(notes),
    )


def _keys(
    histories: Mapping[str, PriceHistory], rows: Mapping[str, NDArray[np.int64]] | None
) -> dict[str, NDArray[Any]]:
    """What each asset's bars are joined by."""
    undated = [name for name, each in histories.items() if each.date is None]
    if not undated:
        return {name: np.asarray(each.date) for name, each in histories.items()}
    dated = [name for name in histories if name not in undated]
    if dated:
        raise ValueError(
            f"prices: expected dates of all assets or of none, got {dated[0]!r} with, {undated[0]!r} without"
        )
    if rows is not None:
        return dict(rows)
    lengths = {name: len(each) for name, each in histories.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"prices: expected dates to join histories of different lengths by, got none: {lengths}")
    return {name: np.arange(length) for name, length in lengths.items()}


def as_matrix(name: str, values: Any) -> NDArray[np.float64]:
    """A copy with a row per bar, NaN where something is masked."""
    try:
        given = np.asanyarray(values)
    except ValueError:  # ragged
        raise ValueError(f"PricePanel, {name}: expected rows of one length (T, K), got {values!r}") from None
    if given.dtype.kind not in "iufOU":
        raise TypeError(f"PricePanel, {name}: expected numbers (T, K), got {given.dtype}")
    try:
        matrix = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise TypeError(f"PricePanel, {name}: expected numbers (T, K), got {values!r}") from error
    if matrix.ndim != 2:
        raise ValueError(f"PricePanel, {name}: expected the shape (T, K), got {matrix.shape}")
    matrix[np.ma.getmaskarray(given)] = np.nan
    return matrix


def _check_asset(name: str, cells: dict[str, NDArray[np.float64]]) -> None:
    """Refuse prices that are none, or an open without a close."""
    where = f"prices, asset {name!r}"
    listed = ~np.isnan(cells["close"])
    if "open" in cells:
        differs = np.isnan(cells["open"]) == listed
        if differs.any():
            row = int(np.argmax(differs))
            got = {role: float(column[row]) for role, column in cells.items()}
            raise ValueError(f"{where}, index {row}: expected an open and a close, or neither, got {got}")
    present = {role: column[listed] for role, column in cells.items()}
    make_history(Table(present, where, np.flatnonzero(listed)), {role: role for role in present}, None)
