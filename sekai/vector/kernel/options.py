"""What resets of a row market are told, as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.checks import as_real, check_integer


class ResetOptions:
    """The options that a market knows of.

    Args:
        kind: Its class ``Options``; None for no options.
        dtypes: Of the fields of that, in their order.
        check: Raises ValueError where a record of them is out of range; None for no check.
    """

    def __init__(self, kind: Any, dtypes: Sequence[Any], check: Callable[[Any], None] | None) -> None:
        self._kind = kind
        self._check = check
        values = () if kind is None else (kind._field_defaults[name] for name in kind._fields)
        names = () if kind is None else kind._fields
        self._defaults = [(name, np.array([v], dtype)) for name, v, dtype in zip(names, values, dtypes, strict=True)]

    def defaults(self) -> dict[str, NDArray[Any]]:
        """A column of one entry for each option, for all resets."""
        return dict(self._defaults)

    def columns(
        self, options: Sequence[dict[str, Any] | None], where: str, indices: Any = None
    ) -> dict[str, NDArray[Any]]:
        """The options of some resets, one entry for each of them.

        Args:
            options: As they were given.
            where: What error messages call them.
            indices: The sub-envs they are for; None where one stands for all.

        Raises:
            TypeError: A value is no number.
            ValueError: There is no such option, or a value is out of range.
        """
        columns = {name: np.repeat(default, len(options)) for name, default in self._defaults}
        for row, given in enumerate(options):
            if given:
                place = where if indices is None else f"{where}, sub-env {int(indices[row])}"
                for key, value in given.items():
                    if key not in columns:
                        expected = f"one of the keys {list(columns)}" if columns else "no options"
                        raise ValueError(f"{place}: expected {expected}, got {key!r}")
                    columns[key][row] = _number(value, columns[key][row], f"{place}: {key}")
                if self._check is not None and self._kind is not None:
                    try:
                        self._check(self._kind(**{name: column[row].item() for name, column in columns.items()}))
                    except ValueError as error:
                        raise ValueError(f"{place}: {error}") from None
        return columns


def _number(value: Any, default: Any, where: str) -> Any:
    """A value as a number of the kind of its default."""
    if default.dtype.kind == "f":
        number = as_real(value)
        if number is None:
            raise TypeError(f"{where}: expected a number, got {value!r}")
        if not np.isfinite(number) and np.isfinite(default):
            raise ValueError(f"{where}: expected a finite number, got {value!r}")
        return number
    integer = check_integer(value, where)
    bounds = np.iinfo(default.dtype)
    if not bounds.min <= integer <= bounds.max:
        raise ValueError(f"{where}: expected an integer of {bounds.bits} bits, got {integer}")
    return integer
