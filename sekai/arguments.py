"""Arguments of a constructor that go on as attributes: what becomes of another value.

The value is in the object's own dictionary, where pickles, copies and snapshots find it. Neither class has a
``__get__``, so that it is read from there as fast as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Fixed:
    """An attribute that is assigned once, since other things were made of it.

    Raises:
        AttributeError: On an assignment after the first.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, owner: Any, value: Any) -> None:
        if self.name in vars(owner):
            raise AttributeError(
                f"{type(owner).__name__}.{self.name}: expected it to stay {vars(owner)[self.name]!r}, as it was built, "
                f"got {value!r}; build another one"
            )
        vars(owner)[self.name] = value


class Checked:
    """An attribute that may be changed, for the steps from then on, to what the constructor would take.

    Args:
        check: Called with the object and a value, gives the value to keep, or raises the error of the constructor.
    """

    def __init__(self, check: Callable[[Any, Any], Any]) -> None:
        self.check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)[self.name] = self.check(owner, value)
