"""``Space``, the abstract base of every space, and the argument checks that spaces share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.checks import check_count
from sekai.seeding import check_seed, np_random

T_co = TypeVar("T_co", covariant=True)


class Space(ABC, Generic[T_co]):
    """A set of values, with a way to draw from it and to tell whether it holds a value.

    Spaces are equal when they are of one class and hold the same, also in attributes of a user's own class: numbers,
    text, arrays, spaces and containers of them by value, anything else as its own ``==`` says, which for most objects
    is identity. Generators do not count. Spaces are hashable, and can be pickled and deep-copied, generator included.

    Args:
        shape: Shape of an element, None when an element is not one array.
        dtype: Dtype of an element, None when an element is not one array.
        seed: Seeds the generator that ``sample()`` draws from, or is it; None leaves it to the operating system.

    Attributes:
        shape: As given, a tuple of ints.
        dtype: As given, a ``numpy.dtype``.
    """

    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None

    def __init__(self, shape: Iterable[int] | None = None, dtype: DTypeLike | None = None, seed: Any = None) -> None:
        self.shape = None if shape is None else check_shape(shape, type(self).__name__)
        self.dtype = None if dtype is None else np.dtype(dtype)
        self._rng: np.random.Generator | None = None
        if seed is not None:
            self.seed(seed)

    @property
    def rng(self) -> np.random.Generator:
        """The generator that ``sample()`` draws from, made from system entropy when never seeded."""
        if self._rng is None:
            self._rng, _ = np_random()
        return self._rng

    def seed(self, seed: Any = None) -> Any:
        """Start the generator afresh.

        Args:
            seed: An integer of at least 0, or None for one from the operating system; or a
                ``numpy.random.Generator``, which is drawn from as it is, by all parts of a container. A container
                also takes the structure of seeds that it returns.

        Returns:
            The seed used, which makes the same samples when it is passed in again; an int, or for a container
            the seeds of its parts. None for a generator.

        Raises:
            TypeError: The seed is neither an integer, a generator nor None.
            ValueError: The seed is negative.
        """
        checked = seed
        if seed is not None and not isinstance(seed, np.random.Generator):
            checked = check_seed(seed, f"{type(self).__name__}.seed")
        self._rng, used = np_random(checked)
        return used

    @abstractmethod
    def sample(self, mask: Any = None) -> T_co:
        """Draw an element at random.

        Args:
            mask: Restricts what is drawn, in the form that the class describes. Arrays may hold bools or integers of
                any size, and be nested lists or tuples.

        Raises:
            TypeError: The mask has another type or dtype than the class describes.
            ValueError: The mask has another shape or other values, or leaves nothing to draw.
        """

    @abstractmethod
    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an element of the space."""

    def __contains__(self, x: Any) -> bool:
        return self.contains(x)

    def to_jsonable(self, samples: Iterable[Any]) -> list[Any]:
        """Elements as plain data that ``json.dumps`` takes, one entry per element."""
        return list(samples)

    def from_jsonable(self, samples: Iterable[Any]) -> list[Any]:
        """The elements that ``to_jsonable`` wrote."""
        return list(samples)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        return are_equal(self._attributes(), other._attributes())

    def __hash__(self) -> int:
        # What a class adds may not be hashable; spaces that differ in that alone are told apart by ``==``.
        return hash((type(self), getattr(self, "shape", None), getattr(self, "dtype", None)))

    #: Attributes that follow from others and may be written in several ways.
    _uncompared: tuple[str, ...] = ()

    def _attributes(self) -> dict[str, Any]:
        """What tells this space from others of its class."""
        kind = type(self)
        left_out = ("_rng", *kind._uncompared)
        slots = {name for each in kind.__mro__ for name in _slots(each) if hasattr(self, name)}
        held = {name: getattr(self, name) for name in slots} | vars(self)
        return {
            name: value
            for name, value in held.items()
            if name not in left_out and not isinstance(getattr(kind, name, None), cached_property)
        }


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, at any depth; arrays entry by entry, NaN as equal to itself.

    What cannot be compared is the same if it is one object; of two generators nothing is compared.
    """
    if one is other:
        return True
    for kind, same in _SAME.items():
        if isinstance(one, kind):
            return type(one) is type(other) and same(one, other)
    if _is_generator(one) and _is_generator(other):
        return True
    try:
        return bool(one == other) or bool(one != one and other != other)
    except Exception:  # a data frame, or another that has no one answer
        return False


def _is_generator(value: Any) -> bool:
    # By name: both modules take their time to be imported.
    return any(
        kind.__module__ == "random" or kind.__module__.startswith("numpy.random.") for kind in type(value).__mro__
    )


def _same_dicts(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return one.keys() == other.keys() and all(are_equal(value, other[key]) for key, value in one.items())


def _same_sequences(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(are_equal, one, other))


def _same_arrays(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind not in "biufcmM":
        return are_equal(one.tolist(), other.tolist())
    return bool(((one == other) | ((one != one) & (other != other))).all())


_SAME: dict[Any, Callable[[Any, Any], bool]] = {
    dict: _same_dicts,
    (list, tuple): _same_sequences,
    np.ndarray: _same_arrays,
}


def check_shape(shape: Any, where: str) -> tuple[int, ...]:
    """``shape`` as a tuple of plain ints.

    Raises:
        TypeError: It is not an iterable of integers.
        ValueError: An axis is negative.
    """
    if not isinstance(shape, Iterable) or isinstance(shape, (str, bytes)):
        raise TypeError(f"{where}: expected a shape, a tuple of integers, got {shape!r}")
    return tuple(check_count(axis, f"{where}: axis {i} of the shape", minimum=0) for i, axis in enumerate(shape))


def check_mask(mask: Any, shape: tuple[int, ...], highest: int, where: str) -> NDArray[np.int8]:
    """A mask as an int8 array, once it is known to be of ``shape`` with values 0 to ``highest``.

    Args:
        mask: An array of bools or integers, or nested lists or tuples of them.
        shape: What it has to have.
        highest: Its greatest value.
        where: What error messages call it.

    Raises:
        TypeError: It holds something else than bools and integers.
        ValueError: It has another shape or other values.
    """
    try:
        array = np.asarray(mask)
    except ValueError:  # rows of several lengths
        raise ValueError(f"{where}: expected shape {shape}, got rows of several lengths: {mask!r}") from None
    if array.dtype.kind not in "biu" and (array.size or isinstance(mask, np.ndarray)):
        raise TypeError(f"{where}: expected bools or integers, got {_kind_of(mask)}")
    if array.shape != shape:
        raise ValueError(f"{where}: expected shape {shape}, got {array.shape}")
    if ((array < 0) | (array > highest)).any():
        allowed = " or ".join(", ".join(map(str, range(highest + 1))).rsplit(", ", 1))
        raise ValueError(f"{where}: expected values {allowed}, got {np.unique(array).tolist()}")
    return array.astype(np.int8, copy=False)


def _kind_of(mask: Any) -> str:
    return f"dtype {mask.dtype}" if isinstance(mask, np.ndarray) else repr(mask)


def allowed_of(mask: Any, n: int, where: str) -> NDArray[np.intp]:
    """The positions of ones in a mask of ``n`` values of which one is to be drawn.

    Raises:
        TypeError: See ``check_mask``.
        ValueError: See ``check_mask``; or there is no one in it.
    """
    allowed = np.flatnonzero(check_mask(mask, (n,), 1, where))
    if not allowed.size:
        raise ValueError(f"{where}: expected at least one value that may be drawn, got zeros only")
    return allowed


def name_instead(value: Any, otherwise: str) -> str:
    """What an error message says has come where a space was expected: of gymnasium's, which look alike, whose it is.

    Args:
        value: What has come.
        otherwise: How the message shows anything else.
    """
    kind = type(value)
    if not any(each.__module__.startswith("gymnasium.") and each.__name__ == "Space" for each in kind.__mro__):
        return otherwise
    remedy = "sekai.compat.gymnasium.from_gymnasium_space makes one of sekai of it"
    return f"a {kind.__module__}.{kind.__qualname__} ({remedy})"
