"""Observations on another scale, of another dtype, in part, or padded to one length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.arguments import Fixed
from sekai.batching.layout import concatenate, copy_row
from sekai.checks import check_count
from sekai.env import Env, ObservationWrapper
from sekai.errors import InvalidObservation
from sekai.observations import Casting, Filtering, Rescaling
from sekai.spaces import Box, Dict, MaskedBox, Sequence, Space, Tuple
from sekai.types import ActType


class RescaleObservation(ObservationWrapper[NDArray[Any], ActType, NDArray[Any]], Generic[ActType]):
    """Maps observations from the bounds of the env's observation space to ``[min_obs, max_obs]``.

    The map is affine in every number. One without a bound on a side keeps that: the new bound there is infinite too,
    and the number is moved along with its other bound, or stays as it is if it has none. Nothing is clipped: what an
    env shows outside its bounds lies outside the new ones.

    Args:
        env: An env whose observation space is a ``Box`` of floats; ``DtypeObservation`` makes one of integers.
        min_obs: What becomes the lower bound; a number, or an array that broadcasts to the observation's shape.
        max_obs: What becomes the upper bound; above ``min_obs`` everywhere.

    Raises:
        TypeError: The observation space is no ``Box`` of floats.
        ValueError: The new bounds are not ascending, of another shape, infinite elsewhere than the env's, or further
            apart than the largest float.
    """

    def __init__(self, env: Env[NDArray[Any], ActType], min_obs: ArrayLike, max_obs: ArrayLike) -> None:
        super().__init__(env)
        self._rescale = Rescaling(env.observation_space, min_obs, max_obs, "RescaleObservation")
        self.observation_space = self._rescale.space

    def observation(self, obs: NDArray[Any]) -> NDArray[Any]:
        """The observation on the other scale."""
        rescaled: NDArray[Any] = self._rescale(concatenate(self.env.observation_space, [obs]))[0]
        return rescaled


class DtypeObservation(ObservationWrapper[Any, ActType, Any], Generic[ActType]):
    """Shows observations in another dtype.

    Floats become integers by dropping what is behind the point, as do their bounds.

    Args:
        env: An env whose observation space is a ``Box``, ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``. All
            become a ``Box``, but a ``MultiDiscrete`` stays one in an integer dtype.
        dtype: bool, an integer or a float of at most 64 bits.

    Attributes:
        dtype: The ``numpy.dtype``.

    Raises:
        TypeError: The observation space is another, or the dtype no number's.
        ValueError: A bound of the space does not fit the dtype.
    """

    dtype: Any = Fixed()

    def __init__(self, env: Env[Any, ActType], dtype: DTypeLike) -> None:
        super().__init__(env)
        self._cast = Casting(env.observation_space, dtype, "DtypeObservation")
        self.dtype = self._cast.dtype
        self.observation_space = self._cast.space

    def observation(self, obs: Any) -> Any:
        """The observation in the other dtype.

        Raises:
            InvalidObservation: A number has no place among the integers of the dtype or is NaN, or is beyond the
                greatest float; infinities and NaN stay floats.
        """
        return self._cast(concatenate(self.env.observation_space, [obs]))[0]


class FilterObservation(ObservationWrapper[Any, ActType, Any], Generic[ActType]):
    """Shows some parts of a dict or tuple of observations.

    Args:
        env: An env whose observation space is a ``Dict`` or a ``Tuple``.
        filter_keys: The keys, or the positions, of what is shown, in that order.

    Attributes:
        filter_keys: A tuple of the keys, or of the positions from 0 on.

    Raises:
        TypeError: The observation space is another, or ``filter_keys`` no list of keys.
        ValueError: There are none, one is not in the space, or is given twice.
    """

    filter_keys: Any = Fixed()

    def __init__(self, env: Env[Any, ActType], filter_keys: Iterable[str | int]) -> None:
        super().__init__(env)
        self._filter = Filtering(env.observation_space, filter_keys, "FilterObservation")
        self.filter_keys = self._filter.keys
        self.observation_space = self._filter.space

    def observation(self, obs: Any) -> Any:
        """The parts that are shown."""
        return self._filter(obs)


class PadSequenceObservation(ObservationWrapper[Any, ActType, Any], Generic[ActType]):
    """Shows sequences of any length as sets of one size with a mask (``MaskedBox``), which have a place in a batch.

    The features come first, in their order, then ``fill_value`` in the slots that are left. Every ``Sequence`` in a
    ``Dict`` or ``Tuple``, however nested, is padded; other parts stay as they are.

    Args:
        env: An env whose observation space is, or holds, a ``Sequence`` of ``Box`` features.
        max_length: The number of slots; None for the ``max_length`` of each sequence's space.
        fill_value: What slots hold that are not taken.

    Raises:
        TypeError: The observation space holds no ``Sequence``, or one whose features are no ``Box``.
        ValueError: A sequence has no ``max_length`` of its own and none was given, or the one given is below 1.
    """

    def __init__(self, env: Env[Any, ActType], max_length: int | None = None, fill_value: float = 0.0) -> None:
        super().__init__(env)
        where = "PadSequenceObservation"
        limit = None if max_length is None else check_count(max_length, f"{where}: max_length")
        self.observation_space = _map_sequences(lambda space: _padded(space, limit, fill_value), env.observation_space)
        if self.observation_space is env.observation_space:
            raise TypeError(f"{where}: expected an observation space with a Sequence, got {env.observation_space}")

    def observation(self, obs: Any) -> Any:
        """The observation with its sequences padded.

        Raises:
            InvalidObservation: A sequence is longer than there are slots, or the shape, dtype or structure of something
                is another than the space's. Bounds are not looked at: features outside of theirs, and NaN, stay.
        """
        space = self.env.observation_space
        return _pad(space, self.observation_space, copy_row(space, obs))


def _map_sequences(function: Callable[[Sequence], Space[Any]], space: Space[Any]) -> Space[Any]:
    """The space with other spaces in place of sequences; the same one if there are none."""
    if isinstance(space, Sequence):
        return function(space)
    if isinstance(space, Dict):
        named = {key: _map_sequences(function, part) for key, part in space.items()}
        return space if all(part is space[key] for key, part in named.items()) else Dict(named)
    if isinstance(space, Tuple):
        parts = [_map_sequences(function, part) for part in space]
        return space if all(part is old for part, old in zip(parts, space, strict=True)) else Tuple(parts)
    return space


def _padded(space: Sequence, limit: int | None, fill_value: float) -> MaskedBox:
    where, feature = "PadSequenceObservation", space.feature_space
    if not isinstance(feature, Box):
        raise TypeError(f"{where}: expected sequences of Box features, got {space}")
    if limit is None and space.max_length is None:
        raise ValueError(f"{where}: expected a max_length, since {space} has none")
    size = space.max_length if limit is None else limit
    assert size is not None
    bounds = feature.bounds
    low, high = (
        np.where(bounded, bound.astype(object), sign * np.inf)
        for bounded, bound, sign in ((bounds.bounded_below, bounds.low, -1), (bounds.bounded_above, bounds.high, 1))
    )
    return MaskedBox(low, high, feature.shape, max_size=size, dtype=feature.dtype, fill_value=fill_value)


def _pad(space: Space[Any], padded: Space[Any], obs: Any) -> Any:
    if isinstance(padded, MaskedBox) and isinstance(space, Sequence):
        if len(obs) > padded.max_size:
            expected = f"expected a sequence of at most {padded.max_size}"
            raise InvalidObservation(f"PadSequenceObservation: {expected}, got one of {len(obs)}")
        values = np.reshape(np.asarray(obs, padded.dtype), (len(obs), *padded.shape))
        return padded.pack(values)
    if isinstance(space, Dict) and isinstance(padded, Dict):
        return {key: _pad(part, padded[key], obs[key]) for key, part in space.items()}
    if isinstance(space, Tuple) and isinstance(padded, Tuple):
        return tuple(_pad(part, padded[k], obs[k]) for k, part in enumerate(space))
    return obs
