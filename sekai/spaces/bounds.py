"""Bounds of an array, element by element: what ``Box``, ``MaskedBox`` and ``MultiDiscrete`` are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.checks import as_integers
from sekai.spaces.space import check_shape

#: Arrays with more elements than this are written in a shortened form.
_REPR_SIZE = 64


class Bounds:
    """A lower and an upper bound, both inclusive, for each element of an array; immutable.

    A bound that repeats along an axis is stored once for that axis, so the bounds of a batch of a million
    rows take the memory of one row. Bounds are equal when all four arrays are: an integer without a bound is
    drawn in another way than one bounded by the limit of its dtype. Use ``Bounds.parse`` to make one from a
    user's arguments.

    Args:
        shape: Shape of the bounded array.
        dtype: Its dtype: bool, an integer or a float of at most 64 bits.
        low: Lower bounds in ``dtype``, of a shape that broadcasts to ``shape``.
        high: Upper bounds, likewise.
        bounded_below: bool, where ``low`` is a bound that was asked for and not infinite.
        bounded_above: bool, likewise for ``high``.

    Attributes:
        low: Read-only view of the lower bounds in full shape; ``high``, ``bounded_below`` and
            ``bounded_above`` likewise.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        low: NDArray[Any],
        high: NDArray[Any],
        bounded_below: NDArray[np.bool_],
        bounded_above: NDArray[np.bool_],
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self._stored = tuple(np.asarray(array) for array in (low, high, bounded_below, bounded_above))
        for array in self._stored:
            array.setflags(write=False)
        self._low, self._high = self._stored[:2]
        self.low, self.high, self.bounded_below, self.bounded_above = (
            np.broadcast_to(array, shape) for array in self._stored
        )

    @classmethod
    def parse(cls, low: Any, high: Any, shape: Any, dtype: DTypeLike, where: str) -> Bounds:
        """Bounds from scalars or arrays, with every check on them.

        Args:
            low: A number or an array; ``-inf`` for no bound, also in the bounds of a signed integer.
            high: A number or an array; ``inf`` for no bound, also in the bounds of an integer.
            shape: The shape, or None to take it from the bounds: that of the arrays, ``(1,)`` for two
                numbers.
            dtype: The dtype.
            where: What the error messages call the owner.

        Raises:
            TypeError: The dtype or a bound is not numeric.
            ValueError: A bound is NaN, has the wrong shape or does not fit the dtype, or low exceeds high.
        """
        dtype = check_dtype(dtype, where)
        low_array, high_array = _as_array(low, f"{where} low"), _as_array(high, f"{where} high")
        if shape is not None:
            shape = check_shape(shape, f"{where} shape")
        else:
            shape = _infer_shape(low, low_array, high, high_array, where)
        for name, array in (("low", low_array), ("high", high_array)):
            if array.ndim and array.shape != shape:
                raise ValueError(f"{where} {name}: expected a number or shape {shape}, got shape {array.shape}")
        low_array, below = _cast(low, compact(low_array), dtype, -1, f"{where} low")
        high_array, above = _cast(high, compact(high_array), dtype, +1, f"{where} high")
        crossed = low_array > high_array
        if crossed.any():
            at = np.argwhere(np.broadcast_to(crossed, shape))
            index = tuple(at[0].tolist()) if len(at) else ()
            got = f"{np.broadcast_to(low_array, shape)[index]} > {np.broadcast_to(high_array, shape)[index]}"
            raise ValueError(f"{where}: expected low <= high everywhere, got {got} at index {index}")
        return cls(shape, dtype, low_array, high_array, below, above)

    def expand(self, lead: tuple[int, ...]) -> Bounds:
        """The bounds of a batch: these, for arrays with axes ``lead`` in front."""
        return Bounds(lead + self.shape, self.dtype, *self._stored)

    def ravel(self) -> Bounds:
        """The bounds of the raveled arrays."""
        same = all(array.size == 1 for array in self._stored)
        views = (self.low, self.high, self.bounded_below, self.bounded_above)
        flat = [array.reshape(()) for array in self._stored] if same else [view.ravel() for view in views]
        return Bounds((math.prod(self.shape),), self.dtype, *flat)

    def widen(self, value: Any) -> Bounds:
        """Bounds moved out where they have to be for ``value`` to be within them."""
        low, high, below, above = self._stored
        return Bounds(self.shape, self.dtype, np.minimum(low, value), np.maximum(high, value), below, above)

    @staticmethod
    def join(parts: Sequence[Bounds]) -> Bounds:
        """The bounds of 1-D arrays put one after another, in the dtype that holds all of them.

        Beside floats, integers count for what their bounds are, not for what their dtype could hold; and so do uint64
        and signed ones beside each other, for which NumPy has no integer dtype.
        """
        floats = [part.dtype for part in parts if part.dtype.kind == "f"]
        dtype = np.result_type(*(floats or [part.dtype for part in parts]))
        if floats:
            dtype = np.result_type(dtype, *(part.dtype for part in parts if not part.fits(dtype)))
        elif dtype.kind == "f":
            wide = [
                np.dtype(kind) for kind in (np.int64, np.uint64) if all(part.fits(np.dtype(kind)) for part in parts)
            ]
            dtype = wide[0] if wide else dtype
        low, high = (np.concatenate([getattr(part, side).astype(dtype) for part in parts]) for side in ("low", "high"))
        below = np.concatenate([part.bounded_below for part in parts])
        above = np.concatenate([part.bounded_above for part in parts])
        return Bounds(low.shape, dtype, low, high, below, above)

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether a dtype, of floats or integers, holds every number within the bounds as it is."""
        if self.dtype.kind == "f" or 0 in self.shape:
            return 0 in self.shape or bool(np.can_cast(self.dtype, dtype))
        if dtype.kind == "f":
            most: int = 2 ** (int(np.finfo(dtype).nmant) + 1)
            least = -most
        else:
            least, most = _integer_limits(dtype)
        return least <= int(self._low.min()) and int(self._high.max()) <= most

    def contain(self, x: Any) -> bool:
        """Whether ``x`` is an array of this shape, of a dtype that casts safely to this one, in bounds.

        It may also be a (nested) list or tuple, or for shape ``()`` a number. These have no dtype: what
        counts is that a float is given to a float dtype only, and in bounds once it has been rounded to it.
        """
        if not isinstance(x, (np.ndarray, np.generic)):
            return self._contain_plain(x)
        if x.shape != self.shape or (x.dtype != self.dtype and not np.can_cast(x.dtype, self.dtype)):
            return False
        return bool(self.inside(x).all())

    def inside(self, x: Any) -> Any:
        """bool, shape of ``x``: which elements are in bounds; NaN never is. ``x`` may have leading axes."""
        return (x >= self._low) & (x <= self._high)

    def _contain_plain(self, x: Any) -> bool:
        array = None if isinstance(x, bool) and self.dtype.kind != "b" else array_of(x)
        if array is None or array.shape != self.shape:
            return False
        if array.size and array.dtype.kind not in {"b": "b", "f": "biuf"}.get(self.dtype.kind, "biu"):
            return False
        if self.dtype.kind != "f":
            return bool(self.inside(array).all())
        with np.errstate(over="ignore"):
            cast = array.astype(self.dtype)
        return bool((self.inside(cast) & (np.isinf(cast) == np.isinf(array))).all())

    @property
    def rest(self) -> NDArray[Any]:
        """Zeros, moved to the nearest bound where 0 lies outside."""
        return np.asarray(np.clip(np.zeros(self.shape, dtype=self.dtype), self.low, self.high))

    def nearest(self, x: NDArray[Any]) -> NDArray[Any]:
        """The array of this dtype within bounds that is nearest to ``x``, an array of this shape without NaN."""
        low, high = self._low, self._high
        if self.dtype.kind == "f":
            below, above = x < low, x > high
        else:  # where a float is compared, a bound may have been rounded up to it
            x = np.rint(x) if x.dtype.kind == "f" else x
            below, above = x <= low, x >= high
        with np.errstate(over="ignore"):
            inside = np.where(below | above, x.dtype.type(0), x).astype(self.dtype)
        return np.where(below, low, np.where(above, high, inside))

    @property
    def all_bounded(self) -> tuple[bool, bool]:
        """Whether every element has a lower bound, and whether every element has an upper bound."""
        empty = 0 in self.shape
        return empty or bool(self._stored[2].all()), empty or bool(self._stored[3].all())

    def sample(self, rng: np.random.Generator, lead: tuple[int, ...] = ()) -> NDArray[Any]:
        """Draw an array of shape ``(*lead, *shape)``.

        Elements are uniform between two bounds; beside one bound the distance to it is exponential with mean
        1; without bounds they are standard normal (rounded down to an integer, for integers).
        """
        shape = lead + self.shape
        if self.dtype.kind == "f":
            return self._sample_floats(rng, shape)
        return self._sample_integers(rng, shape)

    def _sample_floats(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        half_low, half_span, low, high = self._float_plan
        both, below, above, free = self._kinds
        if both is not None:
            # Half the bounds: the whole distance between two of them may exceed the largest float.
            x = rng.random(shape)
            x *= half_span
            x += half_low
            x *= 2.0
        else:
            x = np.empty(shape)
        if below is not None:
            np.copyto(x, low + rng.standard_exponential(shape), where=below)
        if above is not None:
            np.copyto(x, high - rng.standard_exponential(shape), where=above)
        if free is not None:
            np.copyto(x, rng.standard_normal(shape), where=free)
        # Rounding may have led out by one unit. The bounds are exact in the dtype, so the cast cannot.
        np.maximum(x, low, out=x)
        np.minimum(x, high, out=x)
        return x.astype(self.dtype, copy=False)

    def _sample_integers(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        both, below, above, free = self._kinds
        low, high, room = self._integer_plan
        if both is not None:
            x = np.asarray(rng.integers(low, high, size=shape, dtype=self.dtype.type, endpoint=True))
        else:
            x = np.empty(shape, dtype=self.dtype)
        if below is not None:
            distance = np.minimum(_floor(rng.standard_exponential(shape)), room)
            np.copyto(x, low + distance.astype(self.dtype), where=below)
        if above is not None:
            distance = np.minimum(_floor(rng.standard_exponential(shape)), room)
            np.copyto(x, high - distance.astype(self.dtype), where=above)
        if free is not None:
            np.copyto(x, _floor(rng.standard_normal(shape)).astype(self.dtype), where=free)
        return x

    @cached_property
    def _kinds(self) -> tuple[Any, Any, Any, Any]:
        """Where elements are bounded on both sides, only below, only above, not at all; None for nowhere."""
        _, _, below, above = self._stored
        kinds = (below & above, below & ~above, ~below & above, ~(below | above))
        return tuple(kind if kind.any() else None for kind in kinds)  # type: ignore[return-value]

    @cached_property
    def _float_plan(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Half of low, half the distance to high, and low and high cut to finite numbers; all float64.

        The first two serve the elements that are bounded on both sides.
        """
        limits = np.finfo(self.dtype)
        low = np.maximum(self._low.astype(np.float64), float(limits.min))
        high = np.minimum(self._high.astype(np.float64), float(limits.max))
        half_low = np.where(np.isinf(self._low), 0.0, low / 2)
        half_high = np.where(np.isinf(self._high), 0.0, high / 2)
        return half_low, half_high - half_low, low, high

    @cached_property
    def _integer_plan(self) -> tuple[Any, Any, Any]:
        """Low, high, and the distance between them, cut at a million.

        Low and high are Python ints where they are the same everywhere, which are faster to draw from.
        """
        low, high = self._low, self._high
        if self.dtype.kind == "b":
            room: Any = 1
        else:
            # Wraps to the true distance, which may not fit a signed integer.
            distance = high.astype(np.uint64) - low.astype(np.uint64)
            room = np.minimum(distance, 1_000_000).astype(np.int64)
        if low.size == 1 and high.size == 1 and self._kinds[1] is None and self._kinds[2] is None:
            return low.item(), high.item(), room
        return low, high, room

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Bounds)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and (
                0 in self.shape
                or all(bool((mine == its).all()) for mine, its in zip(self._stored, other._stored, strict=True))
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled in full shape, the views would become writable copies.
        return Bounds, (self.shape, self.dtype, *self._stored)

    def describe(self) -> tuple[str, str]:
        """Low and high as Python source: one number when all elements share it."""
        low, high = self.as_given()
        return describe_array(low, self.shape, scalar=True), describe_array(high, self.shape, scalar=True)

    def as_given(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Low and high, which broadcast to the shape; a missing bound of an integer is infinite, beside Python ints."""
        low, high = self._low, self._high
        if self.dtype.kind in "iu":
            low = np.where(self._stored[2], low.astype(object), -np.inf)
            high = np.where(self._stored[3], high.astype(object), np.inf)
        return low, high


def check_dtype(dtype: DTypeLike, where: str) -> np.dtype[Any]:
    """The dtype, once it is known to be bool, an integer or a float of at most 64 bits.

    Raises:
        TypeError: It is another.
    """
    try:
        checked = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{where} dtype: expected bool, an integer or a float dtype, got {dtype!r}") from None
    if dtype is None or checked.kind not in "biuf" or checked.itemsize > 8:
        got = "None" if dtype is None else checked
        raise TypeError(f"{where} dtype: expected bool, an integer or a float of at most 64 bits, got {got}")
    native: np.dtype[Any] = checked.newbyteorder("=")
    return native


def compact(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` with each axis along which it repeats (stride 0) cut to length 1."""
    if 0 not in array.strides:
        return array
    pairs = zip(array.shape, array.strides, strict=True)
    return array[tuple(slice(1) if stride == 0 and n > 1 else slice(None) for n, stride in pairs)]


def array_of(x: Any) -> Any:
    """``x`` if it is of NumPy, the array of a list, a tuple or a number; None if that has no numeric dtype."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x
    if not isinstance(x, (list, tuple, int, float)):
        return None
    try:
        array = _as_array(x, "array_of")
    except (TypeError, ValueError):
        return None
    integers = as_integers(x) if array.dtype.kind == "f" else None
    return array if integers is None else integers


def describe_array(array: NDArray[Any], shape: tuple[int, ...], *, scalar: bool = False) -> str:
    """A compact ``array`` broadcast to ``shape`` as Python source: a number if allowed, a list or a summary.

    It evaluates back (with numpy's names in scope) unless more than 64 different entries make that
    impractical.
    """
    if scalar and array.size == 0:
        return "0"
    if scalar and bool((array == array.flat[0]).all()):
        return repr(plain_numbers(array.flat[0]))
    full = np.broadcast_to(array, shape)
    if full.size <= _REPR_SIZE:
        return repr(plain_numbers(full))
    if array.size <= _REPR_SIZE:
        return f"broadcast_to({plain_numbers(array)}, {shape})"
    return np.array2string(full, threshold=_REPR_SIZE, edgeitems=2, separator=", ").replace("\n", "")


def plain_numbers(array: Any) -> Any:
    """Numbers, or nested lists of them, that an array of its dtype holds as they are: -1.2 for that of float32."""
    if isinstance(array, np.ndarray):
        if array.ndim:
            return [plain_numbers(part) for part in array]
        array = array[()]
    if isinstance(array, np.floating):
        short = float(str(array))
        return short if type(array)(short) == array else array.item()
    return array.item() if isinstance(array, np.generic) else array


def _as_array(bound: ArrayLike, where: str) -> NDArray[Any]:
    try:
        array = np.asarray(bound)
        if array.dtype.hasobject and all(isinstance(each, (int, float, np.number)) for each in array.flat):
            # NumPy has no integer dtype for the largest Python ints, a float dtype may still hold them.
            array = array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{where}: expected values that fit a dtype, got {bound!r}") from None
    except ValueError:
        raise TypeError(f"{where}: expected a number or an array of numbers, got {bound!r}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{where}: expected a number or an array of numbers, got {bound!r}")
    return array


def _infer_shape(low: Any, low_array: NDArray[Any], high: Any, high_array: NDArray[Any], where: str) -> tuple[int, ...]:
    shapes = {
        array.shape
        for bound, array in ((low, low_array), (high, high_array))
        if array.ndim or isinstance(bound, np.ndarray)
    }
    if len(shapes) > 1 and () in shapes:
        shapes.remove(())
    if len(shapes) > 1:
        raise ValueError(f"{where}: expected low and high of one shape, got {low_array.shape} and {high_array.shape}")
    return shapes.pop() if shapes else (1,)


def _cast(
    given: Any, bound: NDArray[Any], dtype: np.dtype[Any], side: int, where: str
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """One side's bounds in ``dtype``, and where they are finite; ``side`` is -1 for low, +1 for high.

    Args:
        given: As the user wrote them.
        bound: The same as NumPy reads them.
        dtype: The dtype.
        side: Which side.
        where: What error messages call it.
    """
    floating = bound.dtype.kind == "f"
    if floating and np.isnan(bound).any():
        raise ValueError(f"{where}: expected numbers, got NaN")
    infinite = np.isinf(bound) if floating else np.zeros(bound.shape, dtype=np.bool_)
    if (infinite & (bound == -side * np.inf)).any():
        raise ValueError(f"{where}: expected no {-side * np.inf}, it would leave the space empty")
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = bound.astype(dtype)
        if (np.isinf(cast) & ~infinite).any():
            raise ValueError(f"{where}: expected values that fit {dtype}, got {bound[np.isinf(cast) & ~infinite][0]}")
        return cast, ~infinite
    least, most = _integer_limits(dtype)
    if infinite.any() and (dtype.kind == "b" or (side < 0 and dtype.kind == "u")):
        raise ValueError(f"{where}: {dtype} has no values without bound, got {side * np.inf}")
    if floating and not (isinstance(given, np.ndarray) and given.dtype != object):
        # Beside an infinity, or one that fits uint64 alone, NumPy reads integers as floats, which rounds them.
        exact = np.array(given, dtype=object)
        for index, number in np.ndenumerate(exact):
            exact[index] = number.item() if isinstance(number, np.generic) else number
    else:
        exact = bound
    finite = exact[~infinite]
    if floating:
        # ``most + 1`` is a power of two and so exact as a float, which ``most`` itself need not be.
        fits = (finite == np.floor(finite)) & (finite >= float(least)) & (finite < float(most + 1))
        if not fits.all():
            raise ValueError(f"{where}: expected whole numbers that fit {dtype}, got {bound[~infinite][~fits][0]}")
    elif finite.size and (int(finite.min()) < least or int(finite.max()) > most):
        worst = finite.min() if int(finite.min()) < least else finite.max()
        raise ValueError(f"{where}: expected values that fit {dtype}, got {worst}")
    cast = np.full(bound.shape, least if side < 0 else most, dtype=dtype)
    cast[~infinite] = finite
    return cast, ~infinite


def _integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _floor(x: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.floor(x).astype(np.int64)
