"""How elements of a space become arrays with a leading axis: the only place that knows.

A batch of n elements is laid out by the kind of its space:

==========================================  ==========================================================
space                                       batch
==========================================  ==========================================================
Box, Discrete, MultiDiscrete, MultiBinary   one array (n, *shape)
MaskedBox                                   dict of two arrays, "values" and "mask"
Dict, Tuple                                 dict, tuple of batches
Sequence, any other space                   list of n elements (no fixed layout)
==========================================  ==========================================================
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import copy_value
from sekai.batching.nested import batch_length
from sekai.batching.nested import copy_batch as copy_batch
from sekai.batching.nested import map_parts as map_parts
from sekai.batching.nested import named_parts as named_parts
from sekai.batching.nested import own_batch as own_batch
from sekai.batching.nested import put as put
from sekai.batching.nested import take as take
from sekai.checks import as_integers
from sekai.errors import InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Sequence, Space, Tuple
from sekai.spaces.sequence import stack_features, unstack_features


class _Array(NamedTuple):
    """One of the arrays a MaskedBox is made of; stands for a space wherever only shape and dtype matter."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


_ARRAYS = (Box, Discrete, MultiDiscrete, MultiBinary, _Array)


def _fields(space: Any) -> dict[Any, Any] | None:
    """The parts of a space whose batch is a container, by key or position; None for any other space."""
    if type(space) in _ARRAYS:  # the common case first: isinstance is slow on abstract classes
        return None
    if isinstance(space, Dict):
        return dict(space.items())
    if isinstance(space, Tuple):
        return dict(enumerate(space))
    if isinstance(space, MaskedBox):
        return {
            "values": _Array(space.values_shape, space.dtype),
            "mask": _Array(space.mask_shape, np.dtype(np.int8)),
        }
    return None


def _is_array(space: Any) -> bool:
    return type(space) in _ARRAYS or isinstance(space, _ARRAYS)


def _batch_shape(leaf: Any, n: int) -> tuple[int, ...]:
    return (n, *leaf.shape)


def _container(space: Any, parts: dict[Any, Any]) -> Any:
    return tuple(parts.values()) if isinstance(space, Tuple) else parts


# -- spaces ------------------------------------------------------------------------------------------------


def has_fixed_layout(space: Space[Any]) -> bool:
    """Whether every element of the space has the same arrays, so that a batch fits one block of memory."""
    fields = _fields(space)
    if fields is None:
        return _is_array(space)
    return all(has_fixed_layout(part) for part in fields.values())


def batch_space(space: Space[Any], n: int) -> Space[Any]:
    """The space of a batch of ``n`` elements, with a leading axis.

    Args:
        space: The space of one element.
        n: The length of the leading axis.

    Returns:
        Box, MaskedBox, Dict and Tuple keep their kind, Discrete and MultiDiscrete become MultiDiscrete (starts
        included), MultiBinary one with a leading axis, and a space without a fixed layout a Tuple of ``n`` copies.
    """
    if isinstance(space, Box):
        return Box.from_bounds(space.bounds.expand((n,)))
    if isinstance(space, Discrete):
        return MultiDiscrete(np.full(n, space.n), start=np.full(n, space.start))
    if isinstance(space, MultiDiscrete):
        shape = (n, *space.shape)
        nvec, start = np.broadcast_to(space.nvec, shape), np.broadcast_to(space.start, shape)
        return MultiDiscrete(nvec, dtype=space.dtype, start=start)
    if isinstance(space, MultiBinary):
        return MultiBinary((n, *space.shape))
    if isinstance(space, MaskedBox):
        return space.expand((n,))
    if isinstance(space, Dict):
        return Dict({key: batch_space(part, n) for key, part in space.items()})
    if isinstance(space, Tuple):
        return Tuple([batch_space(part, n) for part in space])
    from copy import deepcopy

    batched = Tuple([deepcopy(space) for _ in range(n)])
    batched.seed()  # else all copies would draw the same
    return batched


# -- writing -----------------------------------------------------------------------------------------------


def allocate(space: Space[Any], n: int, new: Callable[..., NDArray[Any]] = np.zeros) -> Any:
    """A batch of ``n`` rows to write into.

    Args:
        space: The space of one element.
        n: The number of rows.
        new: Makes each array, given its shape and dtype; by default they start at zero. Rows without a fixed layout
            start at None.
    """
    fields = _fields(space)
    if fields is not None:
        return _container(space, {key: allocate(part, n, new) for key, part in fields.items()})
    if _is_array(space):
        return new(_batch_shape(space, n), np.dtype(space.dtype))
    return [None] * n


def write_row(space: Space[Any], out: Any, row: int, value: Any) -> None:
    """Copy one element into row ``row`` of a batch.

    Args:
        space: The space of one element.
        out: A batch as ``allocate`` gives it.
        row: Which row; also the sub-env that errors name.
        value: The element. Its shape must be the space's (it is never broadcast) and its dtype of the same kind.

    Raises:
        InvalidObservation: The shape, dtype or structure is another than the space's.
    """
    if isinstance(out, np.ndarray):
        if value.__class__ is np.ndarray and value.shape == space.shape and value.dtype == space.dtype:
            out[row] = value
        else:
            out[row] = _element(space, value, row)
    elif isinstance(out, list):
        out[row] = copy_row(space, value, row)
    else:
        fields = _fields(space)
        assert fields is not None
        _check_structure(space, fields, value, f"sub-env {row}: expected an observation", InvalidObservation)
        for key, part in fields.items():
            write_row(part, out[key], row, value[key])


def vectors(batch: Any) -> tuple[memoryview, list[slice]] | None:
    """A batch of vectors as one stretch of memory and the place of each in it; None for any other batch.

    ``memory[place] = value`` compares dtype and shape and copies in one call, in half the time of doing so one by one.
    It raises TypeError or ValueError where they differ; ``write_row`` then converts the value, or says what is wrong.
    """
    if batch.__class__ is np.ndarray and batch.ndim == 2 and batch.dtype.kind in "fi":
        flat: Any = batch.reshape(-1)
        return memoryview(flat), _places(*batch.shape)
    return None


@lru_cache(maxsize=64)
def _places(n: int, size: int) -> list[slice]:
    return [slice(row * size, (row + 1) * size) for row in range(n)]


def copy_row(space: Space[Any], value: Any, row: int = 0) -> Any:
    """A copy of one element, in the space's dtypes, checked as ``write_row`` checks it."""
    fields = _fields(space)
    if fields is not None:
        _check_structure(space, fields, value, f"sub-env {row}: expected an observation", InvalidObservation)
        return _container(space, {key: copy_row(part, value[key], row) for key, part in fields.items()})
    if _is_array(space):
        element = _element(space, value, row)
        return element[()] if element.ndim == 0 else element.copy()
    if isinstance(space, Sequence):
        features = unstack_features(space.feature_space, value) if space.stack else value
        if not isinstance(features, (tuple, list)):
            raise InvalidObservation(f"sub-env {row}: expected a sequence of {space!r}, got {_describe(value)}")
        copied = tuple(copy_row(space.feature_space, feature, row) for feature in features)
        return stack_features(space.feature_space, copied) if space.stack else copied
    return copy_value(value)


def concatenate(space: Space[Any], items: SequenceOf[Any], out: Any = None) -> Any:
    """The batch of some elements, in fresh arrays.

    Args:
        space: The space of one element.
        items: The elements.
        out: A batch of ``len(items)`` rows to write into instead of fresh arrays.

    Raises:
        InvalidObservation: An item's shape, dtype or structure is another than the space's.
    """
    batch = allocate(space, len(items)) if out is None else out
    for row, item in enumerate(items):
        write_row(space, batch, row, item)
    return batch


def batch_of_one(space: Space[Any], item: Any) -> Any:
    """The batch of one element: over its memory if it is an array that fits already.

    Raises:
        InvalidObservation: Its shape, dtype or structure is another than the space's.
    """
    if item.__class__ is np.ndarray and _is_array(space) and item.dtype == space.dtype and item.shape == space.shape:
        return item[None]
    return concatenate(space, [item])


def _element(leaf: Any, value: Any, row: int) -> NDArray[Any]:
    """A value as an array of the leaf's dtype; InvalidObservation where that would change it."""
    if np.ma.is_masked(value):
        raise InvalidObservation(f"sub-env {row}: expected an observation without masked entries, got {value!r}")
    try:
        array = _as_array(value, leaf)
    except ValueError as error:  # ragged
        raise InvalidObservation(f"sub-env {row}: expected an observation of shape {leaf.shape}, got {error}") from None
    if array.shape != leaf.shape:
        raise InvalidObservation(
            f"sub-env {row}: expected an observation of shape {leaf.shape}, got shape {array.shape}"
        )
    cast = _cast(array, leaf.dtype)
    if cast is None:
        raise InvalidObservation(
            f"sub-env {row}: expected an observation of dtype {leaf.dtype}, "
            f"got {array.dtype}, which does not convert without loss"
        )
    return cast


def _as_array(value: Any, leaf: Any) -> NDArray[Any]:
    """A value as NumPy reads it, but integers for an integer dtype as what they are."""
    array = np.asarray(value)
    integers = as_integers(value) if array.dtype.kind == "f" and leaf.dtype.kind in "iu" else None
    return array if integers is None else integers


def _cast(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """The array in another dtype of the same kind; None where the kinds differ or an integer does not fit."""
    if array.dtype == dtype:
        return array
    if array.size == 0 and array.dtype == np.float64:  # what an empty list becomes
        return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        cast = array.astype(dtype)
        return cast if np.array_equal(cast, array) else None
    return array.astype(dtype) if np.can_cast(array.dtype, dtype, "same_kind") else None


def _check_structure(space: Any, fields: dict[Any, Any], value: Any, where: str, error: type[Exception]) -> None:
    if isinstance(space, Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(fields):
            raise error(f"{where} that is a tuple of {len(fields)}, got {_describe(value)}")
    elif not isinstance(value, dict) or value.keys() != fields.keys():
        raise error(f"{where} that is a dict of {sorted(fields)}, got {_describe(value)}")


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict of {sorted(map(str, value))}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


# -- whole batches -----------------------------------------------------------------------------------------


def fits(space: Any, n: int, value: Any) -> bool:
    """Whether a value is a batch of ``n`` elements as it is: arrays of its shapes and dtypes, nested like the space.

    A quick look at all arrays, and at none of their numbers. Keys have the space's order too, which is that of all
    batches. Where it says False, ``as_batch`` may still make one.
    """
    kind = space.__class__
    if value.__class__ is np.ndarray:
        return kind in _ARRAYS and value.dtype == space.dtype and value.shape == (n, *space.shape)
    if kind is Dict:
        spaces = space.spaces
        if value.__class__ is dict and [*value] == [*spaces]:
            return all([fits(part, n, value[key]) for key, part in spaces.items()])
    elif kind is Tuple:
        spaces = space.spaces
        if value.__class__ is tuple and len(value) == len(spaces):
            return all([fits(part, n, each) for part, each in zip(spaces, value, strict=True)])
    elif kind is MaskedBox and value.__class__ is dict:
        fields = _fields(space)
        assert fields is not None
        if [*value] == [*fields]:
            return all([fits(part, n, value[key]) for key, part in fields.items()])
    return False


def as_batch(space: Space[Any], n: int, value: Any, what: str = "a batch", error: type[Exception] = ValueError) -> Any:
    """A value as a batch of ``n`` elements in the space's dtypes; arrays that already fit are not copied.

    Args:
        space: The space of one element.
        n: The expected number of rows.
        value: Arrays, or what ``numpy.asarray`` takes, nested like the space. A list is always one element each: of a
            ``Tuple`` space, tuples of ``n`` and lists of ``n`` would else be taken for each other.
        what: What the error message calls it.
        error: The exception to raise.

    Raises:
        ValueError: (or ``error``) A shape, dtype or structure is another than that of the batch, or entries are masked.
    """
    if fits(space, n, value):
        return value
    fields = _fields(space)
    if fields is not None:
        if isinstance(value, list):
            if len(value) != n:
                raise error(f"{what}: expected a list of {n} elements (num_envs), got {len(value)}")
            for row, item in enumerate(value):
                _check_structure(space, fields, item, f"{what}, sub-env {row}: expected an element", error)
            value = {key: [item[key] for item in value] for key in fields}
        else:
            _check_structure(space, fields, value, f"{what}: expected a batch", error)
        parts = {key: as_batch(part, n, value[key], f"{what}[{key!r}]", error) for key, part in fields.items()}
        return _container(space, parts)
    if not _is_array(space):
        if not isinstance(value, (tuple, list)) or len(value) != n:
            raise error(f"{what}: expected a sequence of {n} elements (num_envs), got {_describe(value)}")
        return list(value)
    shape = _batch_shape(space, n)
    if np.ma.is_masked(value):
        raise error(f"{what}: expected numbers of shape {shape}, got a masked array with masked entries")
    try:
        array = _as_array(value, space)
    except ValueError as ragged:
        raise error(f"{what}: expected shape {shape}, got {ragged}") from None
    if array.shape != shape:
        raise error(f"{what}: expected shape {shape}, got shape {array.shape}")
    cast = _cast(array, np.dtype(space.dtype))
    if cast is None:
        raise error(f"{what}: expected dtype {space.dtype}, got {array.dtype}, which does not convert without loss")
    return cast


def iterate(space: Space[Any], batch: Any, n: int | None = None) -> Iterator[Any]:
    """The elements of a batch in order; their arrays are views of it.

    Args:
        space: The space of one element.
        batch: The batch.
        n: The number of elements; only needed for a container without parts, whose batch cannot tell.
    """
    fields = _fields(space)
    if fields is None:
        return iter(batch)
    if not fields:
        return iter([_container(space, {})] * (n or 0))
    n = batch_length(batch) if n is None else n
    columns = [iterate(part, batch[key], n) for key, part in fields.items()]
    if isinstance(space, Tuple):
        return zip(*columns, strict=True)
    return (dict(zip(fields, parts, strict=True)) for parts in zip(*columns, strict=True))


def split(space: Space[Any], batch: Any, sizes: SequenceOf[int]) -> list[Any]:
    """The batch cut into consecutive batches of the given sizes, as views.

    Raises:
        ValueError: The sizes do not add up to the length of the batch.
    """
    stops = np.cumsum([0, *sizes]).tolist()
    fields = _fields(space)
    if fields is not None:
        columns = {key: split(part, batch[key], sizes) for key, part in fields.items()}
        return [
            _container(space, {key: column[piece] for key, column in columns.items()}) for piece in range(len(sizes))
        ]
    if stops[-1] != len(batch):
        raise ValueError(f"split: expected sizes that add up to {len(batch)}, got {list(sizes)}")
    return [batch[start:stop] for start, stop in zip(stops[:-1], stops[1:], strict=True)]


def stack(space: Space[Any], rows: SequenceOf[Any]) -> Any:
    """The batch of some elements in whatever shape and dtype they share, nested like the space.

    For elements that a user's function has made, which may not keep to the space's dtype.
    """
    fields = _fields(space)
    if fields is not None:
        return _container(space, {key: stack(part, [row[key] for row in rows]) for key, part in fields.items()})
    return np.stack([np.asarray(row) for row in rows]) if _is_array(space) else list(rows)


def columns_of(space: Space[Any], batch: Any, rows: NDArray[np.intp], name: str) -> dict[str, NDArray[Any]]:
    """Some rows of a batch as named columns, fresh arrays; elements without a fixed layout are pickled into bytes.

    Args:
        space: Of one element.
        batch: The batch; None for one of zeros.
        rows: Which rows.
        name: What the names of the columns begin with.
    """
    taken = allocate(space, len(rows)) if batch is None else take(batch, rows)
    columns = {}
    for path, part in named_parts(taken, name):
        columns[path] = part
        if isinstance(part, list):
            columns[path] = np.empty(len(part), object)
            columns[path][:] = [pickle.dumps(each) for each in part]
    return columns


def batch_of(space: Space[Any], columns: Mapping[str, NDArray[Any]], name: str, count: int) -> Any:
    """The batch of ``count`` elements that ``columns_of`` made columns of."""
    batch = allocate(space, count)
    for path, part in named_parts(batch, name):
        part[:] = [pickle.loads(each) for each in columns[path]] if isinstance(part, list) else columns[path]
    return batch
