"""Observations on another scale, of another dtype, in part or with the time: for the wrappers of one env and of many.

Each is made for the space of one observation, tells the space of what it makes as ``space``, and takes batches, arrays
with a leading axis of n.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.batching.blocks import RowBlocks
from sekai.batching.buffers import Buffers
from sekai.batching.flat import flatten_batch
from sekai.checks import check_integer
from sekai.errors import InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flatten_space
from sekai.spaces.bounds import check_dtype


class Rescaling:
    """An affine map of every number from the bounds of a box to others.

    A number without a bound on a side has none afterwards: without any it stays as it is, with one it is moved by the
    distance of that bound to the new one. What lies between the bounds lies between the new ones, and what lies outside
    lies outside.

    Args:
        space: Of one observation.
        low: The new lower bound, a number or an array that broadcasts to the shape.
        high: The new upper bound, likewise.
        where: What error messages begin with.

    Attributes:
        space: Of one rescaled observation.

    Raises:
        TypeError: The space is no ``Box`` of floats.
        ValueError: A new bound is NaN, not below the other one, infinite where the old one is not or the other way
            round, of another shape, or further from the other one than the largest float.
    """

    def __init__(self, space: Space[Any], low: ArrayLike, high: ArrayLike, where: str) -> None:
        if not isinstance(space, Box) or space.dtype.kind != "f":
            raise TypeError(f"{where}: expected an observation space that is a Box of floats, got {space}")
        new_low, new_high = (_bound(bound, space, where) for bound in (low, high))
        if not (new_low < new_high).all():
            raise ValueError(f"{where}: expected min_obs < max_obs, got {low!r} and {high!r}")
        below, above = np.isfinite(space.low), np.isfinite(space.high)
        if (np.isfinite(new_low) != below).any() or (np.isfinite(new_high) != above).any():
            expected = "expected new bounds that are infinite where those of the observation space are, and only there"
            raise ValueError(f"{where}: {expected}, got {low!r} and {high!r} for {space}")
        self.space = Box(new_low, new_high, space.shape, space.dtype)
        old, new = (
            (each_low.astype(np.float64), each_high.astype(np.float64))
            for each_low, each_high in ((space.low, space.high), (new_low, new_high))
        )
        both = below & above
        with np.errstate(over="ignore"):
            width, new_width = (np.where(both, ends[1], 1.0) - np.where(both, ends[0], 0.0) for ends in (old, new))
        if not (np.isfinite(width).all() and np.isfinite(new_width).all()):
            expected = "expected bounds whose distance is a number, before and after"
            raise ValueError(f"{where}: {expected}, got {low!r} and {high!r} for {space}")
        # Of a number that cannot vary there is only the lower bound.
        factor = np.divide(new_width, width, out=np.ones(space.shape), where=width > 0)
        origin, target = (np.where(below, ends[0], np.where(above, ends[1], 0.0)) for ends in (old, new))
        self._terms = RowBlocks(origin, factor, target, *new, space.low, space.high)

    def __call__(self, batch: NDArray[Any], buffers: Buffers | None = None) -> NDArray[Any]:
        """The batch on the other scale, in a new array."""
        dtype = self.space.dtype
        out = np.empty(batch.shape, dtype) if buffers is None else buffers.take(batch.shape, dtype)
        flat, result = np.ascontiguousarray(batch).reshape(-1), out.reshape(-1)
        for block, (origin, factor, target, low, high, least, most) in self._terms.of(flat.size):
            part = flat[block]
            scaled = part.astype(np.float64)
            scaled -= origin
            scaled *= factor
            scaled += target
            inside: Any = (part >= least) & (part <= most)
            inside = True if inside.all() else inside
            # Rounding is not to lead out of the space. (Several times as quick as np.clip with arrays.)
            np.maximum(scaled, low, out=scaled, where=inside)
            np.minimum(scaled, high, out=scaled, where=inside)
            result[block] = scaled
        return out


def _bound(bound: ArrayLike, space: Box, where: str) -> NDArray[Any]:
    array = np.asarray(bound)
    if array.dtype.kind not in "iuf" or np.isnan(array).any():
        raise ValueError(f"{where}: expected bounds that are numbers, got {bound!r}")
    try:
        with np.errstate(over="ignore"):  # too large a number is infinite
            return np.broadcast_to(array.astype(space.dtype), space.shape)
    except ValueError:
        raise ValueError(f"{where}: expected bounds of shape {space.shape}, got shape {array.shape}") from None


class Casting:
    """Numbers in another dtype.

    Args:
        space: Of one observation.
        dtype: The other dtype.
        where: What error messages begin with.

    Attributes:
        space: Of one cast observation: a ``Box``; a ``MultiDiscrete`` stays one in an integer dtype.

    Raises:
        TypeError: The space is none of ``Box``, ``Discrete``, ``MultiDiscrete`` and ``MultiBinary``, or the dtype is no
            number's.
        ValueError: A bound of the space does not fit the dtype.
    """

    def __init__(self, space: Space[Any], dtype: DTypeLike, where: str) -> None:
        self.dtype = dtype = check_dtype(dtype, where)
        self._limits = _limits_of(dtype)
        self._where = where
        if isinstance(space, MultiDiscrete) and dtype.kind in "iu":
            self.space: Space[Any] = MultiDiscrete(space.nvec, dtype=dtype, start=space.start)
            return
        if isinstance(space, Box):
            low, high = space.low, space.high
        elif isinstance(space, (Discrete, MultiDiscrete)):
            count = space.n if isinstance(space, Discrete) else space.nvec
            low, high = np.asarray(space.start), np.asarray(space.start + count - 1)
        elif isinstance(space, MultiBinary):
            low, high = np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
        else:
            kinds = "Box, Discrete, MultiDiscrete or MultiBinary"
            raise TypeError(f"{where}: expected an observation space that is a {kinds}, got {space}")
        self.space = Box(_cast_bound(low, dtype, where), _cast_bound(high, dtype, where), low.shape, dtype)

    def __call__(self, batch: NDArray[Any], buffers: Buffers | None = None) -> NDArray[Any]:
        """The batch in the other dtype, in a new array.

        Raises:
            InvalidObservation: A number has no place among the integers of the dtype or is NaN, or is beyond the
                greatest float; infinities and NaN stay floats.
        """
        if batch.size and not np.can_cast(batch.dtype, self.dtype):
            least, most = batch.min().item(), batch.max().item()  # Python compares these with integers exactly
            low, high = self._limits
            if self.dtype.kind != "f":
                if not (least > low - 1 and most < high + 1):
                    raise self._misfit(f"some from {least} to {most}")
            elif not (least >= low and most <= high):
                self._require_finite(batch)
        out = np.empty(batch.shape, self.dtype) if buffers is None else buffers.take(batch.shape, self.dtype)
        np.copyto(out, batch, casting="unsafe")
        return out

    def _require_finite(self, batch: NDArray[Any]) -> None:
        """InvalidObservation where a number, and no infinity, is infinite in the dtype, a float."""
        with np.errstate(over="ignore"):
            lost = np.isfinite(batch) & np.isinf(batch.astype(self.dtype))
        if lost.any():
            raise self._misfit(batch[lost][0])

    def _misfit(self, got: Any) -> InvalidObservation:
        return InvalidObservation(f"{self._where}: expected numbers that fit {self.dtype}, got {got}")


def _limits_of(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the greatest number of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _cast_bound(bound: NDArray[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """A bound as the dtype rounds it; infinities stay."""
    finite = np.isfinite(bound)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = bound.astype(dtype)
        fits = np.isfinite(cast) == finite
    else:
        limits = _limits_of(dtype)
        whole = np.where(finite, bound, 0)
        inside = (whole >= limits[0]) & (whole <= limits[1])
        if bound.dtype.kind == "f":  # whose largest integer of 64 bits is one too large
            inside &= whole < float(limits[1] + 1)
            whole = np.trunc(whole)
        fits = inside
        cast = np.where(inside, whole, 0).astype(dtype)
        if not finite.all():
            cast = np.where(finite, cast.astype(object), bound.astype(object))
    if not np.all(fits):
        raise ValueError(f"{where}: expected bounds that fit {dtype}, got {bound[~fits].flat[0]}")
    return cast


class Filtering:
    """Some parts of a dict or tuple.

    Args:
        space: Of one observation.
        keys: The keys of a ``Dict``, or the positions in a ``Tuple``, in the order in which they are shown.
        where: What error messages begin with.

    Attributes:
        space: Of what is left.
        keys: The keys, or the positions from 0 on, in that order.

    Raises:
        TypeError: The space is neither a ``Dict`` nor a ``Tuple``, or the keys are no list of such.
        ValueError: There are no keys, a key is not in the space, or one is given twice.
    """

    def __init__(self, space: Space[Any], keys: Iterable[str | int], where: str) -> None:
        if not isinstance(space, (Dict, Tuple)):
            raise TypeError(f"{where}: expected an observation space that is a Dict or a Tuple, got {space}")
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise TypeError(f"{where}: expected filter_keys in a list or tuple, got {keys!r}")
        names: list[Any] = list(keys)
        if isinstance(space, Tuple):
            places = range(len(space))
            given = [check_integer(key, f"{where}: filter_keys") for key in names]
            wrong = [key for key in given if not -len(space) <= key < len(space)]
            names = [places[key] for key in given if key not in wrong]
            known = f"positions in a tuple of {len(space)}"
        else:
            wrong = [key for key in names if not isinstance(key, Hashable) or key not in space.keys()]
            known = f"keys among {list(space)}"
        if wrong or not names or len(set(names)) < len(names):
            raise ValueError(f"{where}: filter_keys: expected different {known}, at least one, got {keys!r}")
        self.keys = tuple(names)
        self._is_dict = isinstance(space, Dict)
        parts = [space[key] for key in names]
        self.space = Dict(zip(names, parts, strict=True)) if self._is_dict else Tuple(parts)

    def __call__(self, observation: Any) -> Any:
        """The parts that are left, of one observation or of a batch, not copied."""
        if self._is_dict:
            return {key: observation[key] for key in self.keys}
        return tuple([observation[key] for key in self.keys])


class Timing:
    """Observations with the time of the episode beside them.

    Args:
        space: Of one observation.
        limit: Steps of an episode at most.
        flatten: Whether all of it becomes one vector.
        normalize_time: Whether the time is shown as a share of the limit.
        time_key: The key of the time where the space is a ``Dict``.
        where: What error messages begin with.

    Attributes:
        space: Of one such observation.

    Raises:
        ValueError: The key is taken.
    """

    def __init__(
        self, space: Space[Any], limit: int, flatten: bool, normalize_time: bool, time_key: str, where: str
    ) -> None:
        time: Space[Any] = Box(0.0, 1.0, (1,)) if normalize_time else Box(0, limit, (1,), np.int32)
        self._kind = type(space) if isinstance(space, (Dict, Tuple)) else None
        if isinstance(space, Dict):
            if time_key in space.keys():
                raise ValueError(f"{where}: expected a dict_time_key that {space} does not have, got {time_key!r}")
            joined: Space[Any] = Dict({**space.spaces, time_key: time})
        elif isinstance(space, Tuple):
            joined = Tuple([*space, time])
        else:
            joined = Dict({"obs": space, "time": time})
        self._joined = joined
        self._limit = limit
        self._normalizes = normalize_time
        self._where = where
        self._key = time_key
        self._flat = flatten_space(joined) if flatten else None
        self.space: Space[Any] = joined if self._flat is None else self._flat

    def __call__(self, batch: Any, times: NDArray[np.int64], buffers: Buffers | None = None) -> Any:
        """A batch with the times, int64 (n,), beside it, in new arrays where it is flattened.

        Raises:
            InvalidObservation: A time is beyond the limit, so that it is not in the space.
        """
        if times.max(initial=0) > self._limit:
            raise InvalidObservation(
                f"{self._where}: expected at most {self._limit} steps in an episode, the limit that there was when it "
                f"was wrapped, got {times.max()}; change the limit before it is wrapped, or wrap it anew"
            )
        if self._normalizes:
            time: NDArray[Any] = (times / self._limit).astype(np.float32)[:, None]
        else:
            time = times.astype(np.int32)[:, None]
        if self._kind is Dict:
            joined: Any = {**batch, self._key: time}
        elif self._kind is Tuple:
            joined = (*batch, time)
        else:
            joined = {"obs": batch, "time": time}
        return joined if self._flat is None else flatten_batch(self._joined, self._flat, joined, len(times), buffers)
