"""State that is in the attributes of an object, and which of them it is in."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.snapshots.agreement import fingerprint, is_same
from sekai.snapshots.columns import spread


@functools.lru_cache(maxsize=256)
def ignored(kind: type) -> frozenset[str]:
    """The attributes that a class and its bases say are no state, by ``snapshot_ignores``."""
    found: set[str] = set()
    for each in kind.__mro__:
        names = vars(each).get("snapshot_ignores", ())
        found.update([names] if isinstance(names, str) else names)
    return frozenset(found)


@functools.lru_cache(maxsize=256)
def is_of_kit(method: Any) -> bool:
    """Whether a method is one of the kit's own, not a subclass's."""
    return bool(method.__module__.partition(".")[0] == "sekai")


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    found: dict[str, Any] = owner.__dict__.copy() if hasattr(owner, "__dict__") else {}
    slots = slots_of(owner.__class__)
    if slots:
        found.update((name, getattr(owner, name)) for name in slots if hasattr(owner, name))
    return found


@functools.lru_cache(maxsize=256)
def slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases, as the interpreter has them."""
    found = []
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{each.__name__.lstrip('_')}{name}" if is_private else name)
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


class StateByAttributes:
    """A layer of a VecEnv whose state is those of its attributes that are arrays with an entry per sub-env.

    A subclass that holds state in another way writes ``_snapshot_rows`` and ``_restore_rows``.
    """

    num_envs: Any

    #: Attributes that decide nothing of what is shown next, which snapshots leave out.
    snapshot_ignores: ClassVar[tuple[str, ...]] = ()

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """What a market or a wrapper holds of some sub-envs, as arrays of their own with an entry for each.

        The default has the attributes that are arrays with a first axis of ``num_envs``, and named tuples of such. What
        decides steps, is altered by them and is held in another way is for a subclass to add, with ``_restore_rows``.

        Args:
            indices: intp (k,), the sub-envs.
        """
        arrays, _ = self.__attributes()
        return {name: array.take(indices, axis=0) for name, array in arrays.items()}

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        """Take over what ``_snapshot_rows`` has given of as many sub-envs, perhaps of another env of this class.

        Args:
            indices: intp (k,), the sub-envs.
            rows: By name, arrays with an entry for each.
        """
        arrays, _ = self.__attributes()
        for name, values in rows.items():
            arrays[name][indices] = values

    def _snapshot_arrays(self) -> dict[str, NDArray[Any]]:
        """The attributes that a snapshot takes for state, live; none where a subclass says itself what it holds."""
        return self.__attributes()[0] if is_of_kit(type(self)._snapshot_rows) else {}

    def _snapshot_others(self) -> dict[str, Any]:
        """Fingerprints of the attributes that a snapshot takes to stay as they are, likewise."""
        if not is_of_kit(type(self)._snapshot_rows):
            return {}
        where = f"snapshot(): {type(self).__name__}"
        return {name: fingerprint(value, f"{where}.{name}") for name, value in self.__attributes()[1].items()}

    @staticmethod
    def _snapshot_base_names() -> frozenset[str]:
        """The attributes that are the kit's own, of which it says itself what becomes of them."""
        raise NotImplementedError

    def __attributes(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        kind: Any = type(self)
        known, has_slots = known_names(kind)
        if known.issuperset(self.__dict__) and not has_slots:
            return {}, {}
        return split_attributes(self, sorted(attributes_of(self).keys() - known), self.num_envs)


@functools.lru_cache(maxsize=256)
def known_names(kind: Any) -> tuple[frozenset[str], bool]:
    """The attributes of a class that are the kit's own, or no state; and whether it has attributes in slots."""
    own: frozenset[str] = kind._snapshot_base_names()
    return ignored(kind) | own, bool(slots_of(kind))


def split_attributes(owner: Any, names: Iterable[str], num_envs: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The attributes of an object that are arrays with an entry per sub-env, and the others.

    Of a named tuple of arrays each is one, under the name "attribute.field".
    """
    columns: dict[str, NDArray[Any]] = {}
    others: dict[str, Any] = {}

    def sort(path: str, value: Any) -> None:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            for field, item in zip(value._fields, value, strict=True):
                sort(f"{path}.{field}", item)
        elif isinstance(value, np.ndarray) and value.ndim and len(value) == num_envs and _is_written(value):
            columns[path] = value
        else:
            others[path] = value

    attributes = attributes_of(owner)
    for name in names:
        sort(name, attributes[name])
    return columns, others


def _is_written(array: NDArray[Any]) -> bool:
    """Whether an array may be state of rows: not one that nobody writes to, nor one of objects, which are shared."""
    return array.flags.writeable and not array.dtype.hasobject


def require_untouched(layer: Any, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> None:
    """ValueError where rows of an array would change that nothing has been seen to change.

    What all sub-envs share may have as many entries as there are sub-envs by chance: a table of prices, say, of which
    an entry would be moved to another place.
    """
    for name, array in layer._snapshot_arrays().items():
        if name in layer._untouched and name in columns:
            if not is_same(array[rows], spread(columns[name], len(rows)).astype(array.dtype, copy=False)):
                where = f"restore(snapshot): {type(layer).__name__}.{name}"
                raise ValueError(
                    f"{where}: expected what steps and resets alter, or the same in these rows, got an array that they "
                    f"leave as it is; name it in snapshot_ignores if all sub-envs share it, or say that it is state by "
                    f"_snapshot_rows() and _restore_rows()"
                )
