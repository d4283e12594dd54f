"""The attributes that a row market has by its parameters and by the columns of its state."""

from __future__ import annotations

from typing import Any


class MarketAttribute:
    """An attribute of a market that is a field of ``Params`` or of ``State``.

    Args:
        name: Of the field.
    """

    _of: str  # which of the two, in the market's definition
    _reader: str  # the market's method that reads one

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, market: Any, owner: type) -> Any:
        if market is None:
            return self
        if self._name not in getattr(market._definition, self._of).fields:  # a subclass has others
            raise AttributeError(f"{type(market).__name__!r} object has no attribute {self._name!r}")
        return getattr(market, self._reader)(self._name)


class ParameterAttribute(MarketAttribute):
    """One that is a parameter, as it is in force.

    Args:
        name: Of the parameter.
        is_shared: Whether it is an array, or an object, that all sub-envs share.
    """

    _of, _reader = "params", "_read_parameter"

    def __init__(self, name: str, is_shared: bool) -> None:
        super().__init__(name)
        self._sekai_shared = is_shared
        self.__doc__ = f"The parameter ``{name}`` in force: one value for all sub-envs, or one each (num_envs,)."

    def __set__(self, market: Any, value: Any) -> None:
        market._change_parameter(self._name, value)


class ColumnAttribute(MarketAttribute):
    """One that is a column of the state: a copy where it is read."""

    _of, _reader = "state", "_read_column"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__doc__ = f"The column ``{name}`` of the state, (num_envs, ...), a copy; of a part, a record of them."

    def __set__(self, market: Any, value: Any) -> None:
        # Row functions rely on what they have written: an index, say, is within its array.
        raise AttributeError(
            f"{self._name}: expected it to be changed by step() and reset() alone; it is a state column"
        )
