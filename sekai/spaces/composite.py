"""``Dict`` and ``Tuple``: spaces made of named or numbered parts."""

from __future__ import annotations

import collections.abc
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from functools import cached_property
from typing import Any, overload

import numpy as np

from sekai.seeding import make_seed_sequence
from sekai.spaces.space import Space, name_instead


class Container:
    """What ``Dict`` and ``Tuple`` share."""

    @cached_property
    def flat_dtype(self) -> np.dtype[Any]:
        """The dtype of ``flatten(space, x)``."""
        from sekai.spaces.flatten import flatten_space  # which knows all spaces, and so imports this module

        return flatten_space(self).dtype  # type: ignore[arg-type]


class Dict(Container, Space[dict[str, Any]], Mapping[str, Space[Any]]):
    """Dicts with a value from one space under each key; also a mapping from key to space.

    Keys keep the order in which they were given, which is the order of samples and of flattened vectors;
    equality does not depend on it.

    ``sample(mask)`` takes a dict with a mask (or None) for every key. ``seed(seed)`` also takes a dict with a
    seed for every key. ``x in space`` asks for an element; for a key, ask ``key in space.keys()``.

    Args:
        mapping: Space by key, or pairs of key and space.
        seed: Seeds the parts.
        **spaces: More spaces by key.

    Attributes:
        spaces: Space by key.

    Raises:
        TypeError: A key is no string, or a value no space.
        ValueError: A key is given twice.
    """

    def __init__(
        self,
        mapping: Mapping[str, Space[Any]] | Iterable[tuple[str, Space[Any]]] | None = None,
        seed: Any = None,
        **spaces: Space[Any],
    ) -> None:
        pairs = [] if mapping is None else _pairs(mapping)
        self.spaces: dict[str, Space[Any]] = {}
        for key, space in (*pairs, *spaces.items()):
            if not isinstance(key, str):
                raise TypeError(f"Dict: expected keys that are strings, got {key!r}")
            if not isinstance(space, Space):
                got = name_instead(space, type(space).__name__)
                raise TypeError(f"Dict: expected a space under key {key!r}, got {got}")
            if key in self.spaces:
                raise ValueError(f"Dict: key {key!r} is given twice")
            self.spaces[key] = space
        super().__init__(seed=seed)

    def seed(self, seed: Any = None) -> dict[str, Any]:
        """Seed every part: with independent seeds derived from an int, or with a dict of one seed per key.

        A generator becomes the one that all parts draw from.

        Returns:
            The seed used under each key.

        Raises:
            TypeError: A seed is no integer.
            ValueError: A seed is negative, or the dict has other keys.
        """
        if isinstance(seed, Mapping):
            _check_keys(seed, self.spaces, "Dict.seed")
            return {key: space.seed(seed[key]) for key, space in self.spaces.items()}
        seeds = spread_seed(super().seed(seed), seed, len(self.spaces))
        return {key: space.seed(part) for (key, space), part in zip(self.spaces.items(), seeds, strict=True)}

    def sample(self, mask: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Draw a dict, each value from its space.

        Raises:
            TypeError: The mask is no dict.
            ValueError: The mask has other keys.
        """
        if mask is None:
            return {key: space.sample() for key, space in self.spaces.items()}
        if not isinstance(mask, Mapping):
            raise TypeError(f"Dict.sample mask: expected a dict of masks, got {type(mask).__name__}")
        _check_keys(mask, self.spaces, "Dict.sample mask")
        return {key: space.sample(mask[key]) for key, space in self.spaces.items()}

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a dict with exactly these keys, each value in its space."""
        return (
            isinstance(x, dict)
            and x.keys() == self.spaces.keys()
            and all(space.contains(x[key]) for key, space in self.spaces.items())
        )

    def to_jsonable(self, samples: Iterable[Any]) -> list[dict[str, Any]]:
        """One dict of plain data per element."""
        return self._by_key(list(samples), "to_jsonable")

    def from_jsonable(self, samples: Iterable[Any]) -> list[dict[str, Any]]:
        """The dicts that ``to_jsonable`` wrote."""
        return self._by_key(list(samples), "from_jsonable")

    def _by_key(self, samples: list[Any], method: str) -> list[dict[str, Any]]:
        columns = [getattr(space, method)([x[key] for x in samples]) for key, space in self.spaces.items()]
        return [{key: column[i] for key, column in zip(self.spaces, columns, strict=True)} for i in range(len(samples))]

    # Those of Mapping would ask ``key in self``, which asks for an element.
    def keys(self) -> KeysView[str]:
        """A view of the keys."""
        return self.spaces.keys()

    def values(self) -> ValuesView[Space[Any]]:
        """A view of the spaces."""
        return self.spaces.values()

    def items(self) -> ItemsView[str, Space[Any]]:
        """A view of the pairs of key and space."""
        return self.spaces.items()

    def __getitem__(self, key: str) -> Space[Any]:
        return self.spaces[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def __repr__(self) -> str:
        return f"Dict({self.spaces!r})"


class Tuple(Container, Space[tuple[Any, ...]], collections.abc.Sequence[Space[Any]]):
    """Tuples with a value from one space at each position; also a sequence of the spaces.

    ``sample(mask)`` takes a tuple with a mask (or None) for every part. ``seed(seed)`` also takes a tuple or
    list with a seed for every part. ``contains`` takes tuples and lists.

    Args:
        spaces: The parts.
        seed: Seeds the parts.

    Attributes:
        spaces: The parts, a tuple.

    Raises:
        TypeError: A part is no space.
    """

    def __init__(self, spaces: Iterable[Space[Any]], seed: Any = None) -> None:
        if not isinstance(spaces, Iterable) or isinstance(spaces, (Mapping, str)):
            raise TypeError(f"Tuple: expected a sequence of spaces, got {type(spaces).__name__}")
        self.spaces: tuple[Space[Any], ...] = tuple(spaces)
        for i, space in enumerate(self.spaces):
            if not isinstance(space, Space):
                got = name_instead(space, type(space).__name__)
                raise TypeError(f"Tuple: expected a space at position {i}, got {got}")
        super().__init__(seed=seed)

    def seed(self, seed: Any = None) -> tuple[Any, ...]:
        """Seed every part: with independent seeds derived from an int, or with a tuple of one seed per part.

        A generator becomes the one that all parts draw from.

        Returns:
            The seed used for each part.

        Raises:
            TypeError: A seed is no integer.
            ValueError: A seed is negative, or there are more or fewer seeds than parts.
        """
        if isinstance(seed, (tuple, list)):
            _check_length(seed, self.spaces, "Tuple.seed", "seeds")
            return tuple(space.seed(part) for space, part in zip(self.spaces, seed, strict=True))
        seeds = spread_seed(super().seed(seed), seed, len(self.spaces))
        return tuple(space.seed(part) for space, part in zip(self.spaces, seeds, strict=True))

    def sample(self, mask: tuple[Any, ...] | list[Any] | None = None) -> tuple[Any, ...]:
        """Draw a tuple, each value from its space.

        Raises:
            TypeError: The mask is neither a tuple nor a list.
            ValueError: The mask has more or fewer entries than there are parts.
        """
        if mask is None:
            return tuple([space.sample() for space in self.spaces])
        if not isinstance(mask, (tuple, list)):
            raise TypeError(f"Tuple.sample mask: expected a tuple of masks, got {type(mask).__name__}")
        _check_length(mask, self.spaces, "Tuple.sample mask", "masks")
        return tuple(space.sample(part) for space, part in zip(self.spaces, mask, strict=True))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple or list of this length, each value in its space."""
        return (
            isinstance(x, (tuple, list))
            and len(x) == len(self.spaces)
            and all(space.contains(part) for space, part in zip(self.spaces, x, strict=True))
        )

    def to_jsonable(self, samples: Iterable[Any]) -> list[list[Any]]:
        """One list of plain data per element."""
        return [list(row) for row in self._by_part(list(samples), "to_jsonable")]

    def from_jsonable(self, samples: Iterable[Any]) -> list[tuple[Any, ...]]:
        """The tuples that ``to_jsonable`` wrote."""
        return self._by_part(list(samples), "from_jsonable")

    def _by_part(self, samples: list[Any], method: str) -> list[tuple[Any, ...]]:
        columns = [getattr(space, method)([x[part] for x in samples]) for part, space in enumerate(self.spaces)]
        return [tuple(column[i] for column in columns) for i in range(len(samples))]

    @overload
    def __getitem__(self, index: int) -> Space[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Space[Any], ...]: ...
    def __getitem__(self, index: int | slice) -> Space[Any] | tuple[Space[Any], ...]:
        return self.spaces[index]

    def __iter__(self) -> Iterator[Space[Any]]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def __repr__(self) -> str:
        return f"Tuple({self.spaces!r})"


def spread_seed(used: int | None, given: Any, count: int) -> list[Any]:
    """The seeds of the parts of a container: derived from its own, or the generator that it was given."""
    return [given] * count if used is None else list(make_seed_sequence(used, count))


def _pairs(mapping: Any) -> list[tuple[Any, Any]]:
    if isinstance(mapping, Mapping):
        return list(mapping.items())
    try:
        return [(key, space) for key, space in mapping]
    except (TypeError, ValueError):
        raise TypeError(f"Dict: expected a mapping or pairs of key and space, got {mapping!r}") from None


def _check_keys(given: Mapping[str, Any], spaces: Mapping[str, Any], where: str) -> None:
    if given.keys() != spaces.keys():
        raise ValueError(f"{where}: expected the keys {list(spaces)}, got {list(given)}")


def _check_length(given: collections.abc.Sequence[Any], spaces: tuple[Any, ...], where: str, what: str) -> None:
    if len(given) != len(spaces):
        raise ValueError(f"{where}: expected {len(spaces)} {what}, got {len(given)}")
