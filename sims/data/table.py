"""``Table``, columns of prices before they are checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Table(NamedTuple):
    """Columns as they came, unchecked, with what an error calls them.

    Attributes:
        columns: The columns by name.
        where: The file, or "prices".
        rows: The number of each row in an error; None for its index.
        row: What an error calls a row: its "index", or the "line" of a file on which it ends.
        index: The name of the column that was the index of a frame and holds its dates; None without one.
        in_utc: The names of columns whose dates had a time zone, and have been converted to UTC.
    """

    columns: Mapping[Any, Any]
    where: str = "prices"
    rows: Sequence[int] | NDArray[np.int64] | None = None
    row: str = "index"
    index: Any = None
    in_utc: Collection[Any] = ()

    def cell(self, row: int, column: Any) -> str:
        """What an error calls a cell."""
        number = row if self.rows is None else self.rows[row]
        return f"{self.where}, {self.row} {number}, column {str(column)!r}"

    def cells(self, column: Any) -> NDArray[Any]:
        """A column as an array of one axis, of objects where it has no dtype of its own or something is masked.

        Raises:
            ValueError: It has another number of axes.
        """
        values = self.columns[column]
        if isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray, memoryview)):
            cells = np.fromiter(values, dtype=object, count=len(values))  # NumPy would make numbers of bools and text
        else:
            cells = np.asarray(values)
        if cells.ndim != 1:
            raise ValueError(f"{self.where}, column {str(column)!r}: expected one axis, got the shape {cells.shape}")
        masked = np.ma.getmask(values)
        if np.any(masked):
            cells = cells.astype(object)
            cells[masked] = "masked"
        return cells


def show(cell: Any) -> str:
    """A cell as the user wrote it."""
    return repr(str(cell)) if isinstance(cell, str) else str(cell)
