"""Arguments of a constructor that go on as attributes: what becomes of another value.

The value is in the object's own dictionary, where pickles, copies and snapshots find it. Neither class has a
``__get__``, so that it is read from there as fast as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Fixed:
    """An attribute that stays what it is first, since other things were made of it.

    Raises:
        AttributeError: On an assignment of something else.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, owner: Any, value: Any) -> None:
        before = vars(owner).setdefault(self.name, value)
        if not _is_equal(before, value):
            raise AttributeError(
                f"{type(owner).__name__}.{self.name}: expected it to stay {before!r}, as it was built, got {value!r}; "
                f"build another one"
            )


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


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two values are known to be the same; of arrays only one and the same is."""
    try:
        return one is other or bool(one == other)
    except ValueError:
        return False
