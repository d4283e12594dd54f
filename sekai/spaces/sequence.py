"""``Sequence``: any number of elements of one space."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sekai.checks import check_count
from sekai.spaces.composite import Dict, Tuple, spread_seed
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.space import Space, name_instead

#: The chance that a sample ends before its next feature: 3 features on average.
_STOP = 0.25


class Sequence(Space[Any]):
    """Sequences of features from one space, of any length from 0 to ``max_length``.

    An element is a tuple of features. With ``stack=True`` it is the features stacked along a new first axis:
    one array ``(k, *shape)`` for features that are arrays or numbers, dicts and tuples of such arrays for
    ``Dict``, ``Tuple`` and ``MaskedBox`` features.

    ``sample()`` draws the length from a geometric distribution with mean 3, cut at ``max_length``.
    ``sample(mask)`` takes a pair, a tuple or list: the length (an int), the allowed lengths (a 1-D array of different
    ints, drawn from uniformly) or None; and a mask for every feature, or None.

    Args:
        feature_space: The space of one feature.
        max_length: The greatest length; None for no limit.
        stack: Whether an element is stacked.
        seed: Seeds the lengths and the features.

    Attributes:
        feature_space: As given.
        max_length: As given.
        stack: As given.

    Raises:
        TypeError: ``feature_space`` is no space, or ``max_length`` no integer.
        ValueError: ``max_length`` is negative, or features that cannot be stacked are to be.
    """

    def __init__(
        self,
        feature_space: Space[Any],
        *,
        max_length: int | None = None,
        stack: bool = False,
        seed: Any = None,
    ) -> None:
        if not isinstance(feature_space, Space):
            got = name_instead(feature_space, type(feature_space).__name__)
            raise TypeError(f"Sequence feature_space: expected a space, got {got}")
        self.feature_space = feature_space
        self.max_length = None if max_length is None else check_count(max_length, "Sequence max_length", minimum=0)
        self.stack = bool(stack)
        if self.stack:
            _check_stackable(feature_space)
        super().__init__(seed=seed)

    def seed(self, seed: Any = None) -> tuple[int | None, Any]:
        """Seed the lengths and the features: with seeds derived from an int, or with a pair of seeds.

        A generator becomes the one that both are drawn from.

        Returns:
            The seed of the lengths and the seed of the features.

        Raises:
            TypeError: A seed is no integer.
            ValueError: A seed is negative, or there are not two of them.
        """
        if isinstance(seed, (tuple, list)):
            if len(seed) != 2:
                raise ValueError(f"Sequence.seed: expected 2 seeds (lengths, features), got {len(seed)}")
            lengths, features = seed
        else:
            lengths, features = spread_seed(super().seed(seed), seed, 2)
        return super().seed(lengths), self.feature_space.seed(features)

    def sample(self, mask: tuple[Any, Any] | list[Any] | None = None) -> Any:
        """Draw a length, then that many features.

        Raises:
            TypeError: The mask is no pair, or a length no integer.
            ValueError: A length is negative or above ``max_length``, or no length is allowed.
        """
        if mask is not None and not (isinstance(mask, (tuple, list)) and len(mask) == 2):
            raise TypeError(f"Sequence.sample mask: expected a pair (lengths, feature mask), got {mask!r}")
        lengths, feature_mask = (None, None) if mask is None else mask
        features = tuple([self.feature_space.sample(feature_mask) for _ in range(self._draw_length(lengths))])
        return stack_features(self.feature_space, features) if self.stack else features

    def _draw_length(self, lengths: Any) -> int:
        if lengths is None:
            length = int(self.rng.geometric(_STOP)) - 1
            return length if self.max_length is None else min(length, self.max_length)
        allowed = np.asarray(lengths)
        where = "Sequence.sample mask of lengths"
        if allowed.ndim > 1 or (allowed.size and allowed.dtype.kind not in "iu"):
            raise TypeError(f"{where}: expected an integer or a 1-D array of integers, got {lengths!r}")
        if not allowed.size:
            raise ValueError(f"{where}: expected at least one length, got none")
        if allowed.min() < 0 or (self.max_length is not None and allowed.max() > self.max_length):
            limit = "" if self.max_length is None else f" to {self.max_length} (max_length)"
            raise ValueError(f"{where}: expected lengths from 0{limit}, got {allowed.tolist()}")
        return int(allowed if allowed.ndim == 0 else self.rng.choice(allowed))

    def pack(self, features: Iterable[Any]) -> Any:
        """An element made of some features, a tuple or a stack of them.

        Args:
            features: Elements of ``feature_space``, at most ``max_length``.

        Raises:
            TypeError: They are no features, in a tuple, a list or an array.
            ValueError: There are more, or one of them is not in ``feature_space``.
        """
        try:
            each = iter(features)
        except TypeError:
            raise TypeError(
                f"Sequence.pack: expected several features of {self.feature_space!r}, got {features!r}"
            ) from None
        parts = tuple(each)
        if self.max_length is not None and len(parts) > self.max_length:
            raise ValueError(f"Sequence.pack: expected at most {self.max_length} features, got {len(parts)}")
        for i, feature in enumerate(parts):
            if not self.feature_space.contains(feature):
                raise ValueError(f"Sequence.pack: expected features in {self.feature_space!r}, got {feature!r} at {i}")
        return stack_features(self.feature_space, parts) if self.stack else parts

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple (or a stack) of features, of an allowed length."""
        if self.stack:
            features = unstack_features(self.feature_space, x)
            if features is None:
                return False
        elif isinstance(x, tuple):
            features = list(x)
        else:
            return False
        if self.max_length is not None and len(features) > self.max_length:
            return False
        return all(self.feature_space.contains(feature) for feature in features)

    def to_jsonable(self, samples: Iterable[Any]) -> list[list[Any]]:
        """One list of features, as plain data, per element."""
        if self.stack:
            samples = [unstack_features(self.feature_space, sample) for sample in samples]
        return [self.feature_space.to_jsonable(sample) for sample in samples]

    def from_jsonable(self, samples: Iterable[Any]) -> list[Any]:
        """The elements that ``to_jsonable`` wrote."""
        features = [tuple(self.feature_space.from_jsonable(sample)) for sample in samples]
        return [stack_features(self.feature_space, sample) for sample in features] if self.stack else list(features)

    def __repr__(self) -> str:
        limit = "" if self.max_length is None else f", max_length={self.max_length}"
        return f"Sequence({self.feature_space!r}{limit}{', stack=True' if self.stack else ''})"


def stack_features(space: Space[Any], features: Iterable[Any]) -> Any:
    """Features of ``space`` stacked along a new first axis, in the structure of the space."""
    features = list(features)
    if isinstance(space, Dict):
        return {key: stack_features(part, [x[key] for x in features]) for key, part in space.items()}
    if isinstance(space, Tuple):
        return tuple(stack_features(part, [x[i] for x in features]) for i, part in enumerate(space))
    if isinstance(space, MaskedBox):
        return {
            "values": _stack([x["values"] for x in features], space.values_shape, space.dtype),
            "mask": _stack([x["mask"] for x in features], space.mask_shape, np.dtype(np.int8)),
        }
    assert space.shape is not None and space.dtype is not None
    return _stack(features, space.shape, space.dtype)


def unstack_features(space: Space[Any], x: Any) -> list[Any] | None:
    """The features in a stack, None when ``x`` does not have the structure of one."""
    if isinstance(space, Dict):
        if not isinstance(x, dict) or x.keys() != space.spaces.keys():
            return None
        columns = [unstack_features(part, x[key]) for key, part in space.items()]
        rows = _rows(columns)
        return None if rows is None else [dict(zip(space, row, strict=True)) for row in rows]
    if isinstance(space, Tuple):
        if not isinstance(x, tuple) or len(x) != len(space):
            return None
        return _rows([unstack_features(part, value) for part, value in zip(space, x, strict=True)])
    if isinstance(space, MaskedBox):
        if not isinstance(x, dict) or x.keys() != {"values", "mask"}:
            return None
        values = _unstack(x["values"], space.values_shape)
        rows = _rows([values, _unstack(x["mask"], space.mask_shape)])
        return None if rows is None else [{"values": row[0], "mask": row[1]} for row in rows]
    assert space.shape is not None
    return _unstack(x, space.shape)


def _stack(arrays: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    out = np.empty((len(arrays), *shape), dtype=dtype)
    for i, array in enumerate(arrays):
        out[i] = array
    return out


def _unstack(x: Any, shape: tuple[int, ...]) -> list[Any] | None:
    if not isinstance(x, np.ndarray) or x.ndim == 0 or x.shape[1:] != shape:
        return None
    return list(x)


def _rows(columns: list[list[Any] | None]) -> list[Any] | None:
    """Rows from columns of one length; None when a column is missing or the lengths differ."""
    present = [column for column in columns if column is not None]
    if len(present) < len(columns) or len({len(column) for column in present}) != 1:
        return None
    return list(zip(*present, strict=True))


def _check_stackable(space: Space[Any]) -> None:
    """Refuse features whose stack would not be arrays of known shape.

    Raises:
        ValueError: The space is or holds a ``Sequence``, an empty container or a space without shape and
            dtype.
    """
    if isinstance(space, (Dict, Tuple)):
        if not len(space):
            raise ValueError(f"Sequence(stack=True): {space!r} has no arrays to stack, so its length would be lost")
        for part in space.values() if isinstance(space, Dict) else space:
            _check_stackable(part)
    elif isinstance(space, Sequence):
        raise ValueError(f"Sequence(stack=True): {space!r} has elements of many lengths, which cannot be stacked")
    elif space.shape is None or space.dtype is None:
        raise ValueError(f"Sequence(stack=True): {space!r} has no fixed shape and dtype, so it cannot be stacked")
