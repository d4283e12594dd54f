"""Spaces for every test: a catalogue by name, hypothesis strategies, and equality of elements.

``@each_space`` runs a test over the catalogue, ``@given(spaces())`` over generated nested ones; ``fixed=True`` leaves
out what has elements of many lengths. Seed a space before sampling from it: the catalogue is shared.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from sekai.spaces import (
    Box,
    Dict,
    Discrete,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Space,
    Tuple,
    zero_sample,
)

#: For ``@given``: the same examples in every run, and none fails for being slow.
seeded = settings(derandomize=True, deadline=None, database=None)

INF = np.inf
F64_MAX = float(np.finfo(np.float64).max)

CATALOGUE: dict[str, Space[Any]] = {
    "discrete": Discrete(3),
    "discrete-one": Discrete(1),
    "discrete-negative-start": Discrete(3, start=-1),
    "discrete-far-start": Discrete(3, start=2**63 - 3),
    "box-default": Box(0.0, 1.0),
    "box-scalar": Box(-1.0, 1.0, ()),
    "box-float32": Box(-1.0, 1.0, (3,)),
    "box-float64": Box(-1.0, 1.0, (2, 3), np.float64),
    "box-float16": Box(-1.0, 1.0, (2,), np.float16),
    "box-extremes": Box(-F64_MAX, F64_MAX, (4,), np.float64),
    "box-point": Box(0.1, 0.1, (2,)),
    "box-unbounded": Box(-INF, INF, (1,), np.float64),
    "box-below": Box(2.0, INF, (2,)),
    "box-above": Box(-INF, -2.0, (2,)),
    "box-mixed-bounds": Box(np.array([0.0, -INF, -INF, 5.0]), np.array([1.0, 0.0, INF, INF])),
    "box-uint8-image": Box(0, 255, (4, 4, 3), np.uint8),
    "box-int8": Box(-128, 127, (5,), np.int8),
    "box-int64-everything": Box(-INF, INF, (2,), np.int64),
    "box-int32-mixed": Box(np.array([0, -INF, -INF, 5]), np.array([1, 0, INF, INF]), dtype=np.int32),
    "box-uint64": Box(2**63, 2**64 - 1, (2,), np.uint64),
    "box-bool": Box(False, True, (3,), np.bool_),
    "box-zero-size": Box(0.0, 1.0, (0,)),
    "box-zero-size-2d": Box(0.0, 1.0, (0, 3)),
    "box-broadcast-bounds": Box(np.broadcast_to(np.float32([0.0, 1.0]), (100, 2)), 2.0),
    "multi-discrete": MultiDiscrete([2, 3, 4]),
    "multi-discrete-2d": MultiDiscrete([[2, 3], [4, 1]]),
    "multi-discrete-start": MultiDiscrete([[2, 3], [4, 1]], start=[[-1, 0], [5, 9]]),
    "multi-discrete-int8": MultiDiscrete([200, 3], dtype=np.int8, start=[-100, 0]),
    "multi-discrete-scalar": MultiDiscrete(3),
    "multi-discrete-scalar-int8": MultiDiscrete(200, dtype=np.int8, start=-100),
    "multi-binary": MultiBinary(5),
    "multi-binary-scalar": MultiBinary(()),
    "multi-binary-2d": MultiBinary((3, 2)),
    "masked-box": MaskedBox(0.0, 1.0, (2,), max_size=4),
    "masked-box-scalars": MaskedBox(-INF, INF, (), max_size=3, dtype=np.float64),
    "masked-box-fill-outside": MaskedBox(np.array([1.0, 2.0]), 3.0, max_size=3, fill_value=-7.0),
    "masked-box-int": MaskedBox(1, 9, (2, 2), max_size=2, dtype=np.int32),
    "masked-box-batch": MaskedBox(1.0, 2.0, (2,), max_size=3, batch_shape=(2, 4)),
    "dict": Dict({"b": Box(-1.0, 1.0, (2,)), "a": Discrete(4)}),
    "dict-nested": Dict(
        position=Dict(side=Discrete(3, start=-1), size=Box(0, 1, ())),
        book=MaskedBox(0.0, 9.0, (2,), max_size=3),
        legs=Tuple((MultiDiscrete([2, 2]), MultiBinary(2))),
    ),
    "dict-zero-size": Dict({"e": Box(0, 1, (0,)), "x": Box(-INF, INF, (1,), np.float64)}),
    "dict-empty": Dict({}),
    "tuple": Tuple((Discrete(3), Discrete(4))),
    "tuple-nested": Tuple((Tuple((Box(0, 1, (2,)), Discrete(2))), Dict(a=MultiBinary(3)))),
    "tuple-empty": Tuple(()),
    "sequence": Sequence(Box(0.0, 1.0, (2,))),
    "sequence-short": Sequence(Discrete(4), max_length=2),
    "sequence-stacked": Sequence(Box(0.0, 1.0, (2,)), stack=True),
    "sequence-stacked-dict": Sequence(
        Dict(price=Box(0, 9, (), np.float64), size=Tuple((Discrete(5), MaskedBox(1, 2, max_size=2)))),
        max_length=4,
        stack=True,
    ),
    "sequence-of-sequences": Sequence(Sequence(Discrete(2), max_length=3), max_length=3),
    "dict-of-sequence": Dict(trades=Sequence(Box(0, 1, (2,)), max_length=3), cash=Box(-INF, INF, ())),
}


def has_fixed_layout(space: Space[Any]) -> bool:
    """Whether every element is made of arrays of the same shapes: no ``Sequence`` anywhere."""
    if isinstance(space, Dict):
        return all(has_fixed_layout(part) for part in space.values())
    if isinstance(space, Tuple):
        return all(has_fixed_layout(part) for part in space)
    return not isinstance(space, Sequence)


FIXED: dict[str, Space[Any]] = {name: space for name, space in CATALOGUE.items() if has_fixed_layout(space)}


def _parametrize(catalogue: dict[str, Space[Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("space", [pytest.param(space, id=name) for name, space in catalogue.items()])


#: Decorators: the test gets each space of the catalogue (that has a fixed layout) as ``space``.
each_space = _parametrize(CATALOGUE)
each_fixed_space = _parametrize(FIXED)


def same(a: Any, b: Any) -> bool:
    """Whether two elements (or batches) are equal in structure, type, dtype, shape and every value."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (np.ndarray, np.generic)):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def draw(space: Space[Any], seed: int) -> Any:
    """The sample that a seed gives, leaving the space as it is."""
    twin = copy.deepcopy(space)
    twin.seed(seed)
    return twin.sample()


def samples(space: Space[Any]) -> st.SearchStrategy[Any]:
    """Elements of ``space``: its ``zero_sample`` and random ones."""
    random = st.integers(0, 2**32 - 1).map(lambda seed: draw(space, seed))
    return st.builds(zero_sample, st.just(space)) | random


def spaces(*, fixed: bool = False, max_leaves: int = 6) -> st.SearchStrategy[Space[Any]]:
    """Nested spaces; with ``fixed=True`` only those without a ``Sequence``."""

    def extend(parts: st.SearchStrategy[Space[Any]]) -> st.SearchStrategy[Space[Any]]:
        keys = st.sampled_from(["a", "b", "c", "key with spaces"])
        containers = st.dictionaries(keys, parts, max_size=3).map(Dict) | st.lists(parts, max_size=3).map(Tuple)
        return containers if fixed else containers | _sequences(parts)

    return st.recursive(leaf_spaces(), extend, max_leaves=max_leaves)


def leaf_spaces() -> st.SearchStrategy[Space[Any]]:
    """Spaces that are no containers."""
    discretes = st.builds(Discrete, st.integers(1, 5), start=st.integers(-3, 3))
    binaries = st.builds(MultiBinary, st.integers(1, 4) | st.lists(st.integers(1, 3), max_size=2))
    return st.one_of(discretes, binaries, boxes(), multi_discretes(), masked_boxes())


_SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Boxes of any shape (axes of size 0 too), dtype and boundedness."""
    shape = draw(_SHAPES)
    low, high, dtype = draw(_bounds(shape))
    return Box(low, high, shape, dtype)


@st.composite
def masked_boxes(draw: st.DrawFn) -> MaskedBox:
    """Masked boxes, of one set."""
    shape = draw(st.lists(st.integers(0, 2), max_size=2).map(tuple))
    low, high, dtype = draw(_bounds(shape))
    fill_value = draw(st.sampled_from([0, 1] if dtype in ("uint8", "bool") else [0, -1, 7]))
    return MaskedBox(low, high, shape, max_size=draw(st.integers(1, 4)), dtype=dtype, fill_value=fill_value)


@st.composite
def multi_discretes(draw: st.DrawFn) -> MultiDiscrete:
    """Multi-discrete spaces of up to three axes."""
    shape = draw(st.lists(st.integers(1, 3), max_size=3).map(tuple))
    nvec = _fill(draw, st.integers(1, 4), shape)
    start = draw(st.none() | st.just("start"))
    dtype = draw(st.sampled_from(["int64", "int8"]))
    return MultiDiscrete(nvec, dtype, start=start and _fill(draw, st.integers(-5, 5), shape))


def _fill(draw: st.DrawFn, elements: st.SearchStrategy[Any], shape: tuple[int, ...]) -> Any:
    size = math.prod(shape)
    return np.array(draw(st.lists(elements, min_size=size, max_size=size))).reshape(shape)


@st.composite
def _bounds(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, Any, str]:
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int64", "int8", "uint8", "bool"]))
    if dtype == "bool":
        lows, widths = [0], [0, 1]
    elif dtype == "uint8":
        lows, widths = [0, 3], [0, 1, 200, INF]
    elif dtype.startswith("int"):
        lows, widths = [-3, 0, 5, -INF], [0, 1, 100, INF]
    else:
        lows, widths = [-2.5, 0.0, 0.1, 5.0, -INF], [0.0, 0.3, 100.0, INF]
    pairs = st.tuples(st.sampled_from(lows), st.sampled_from(widths)).map(_interval)
    if draw(st.booleans()):
        return (*draw(pairs), dtype)
    size = math.prod(shape)
    both = np.array(draw(st.lists(pairs, min_size=size, max_size=size)), dtype=float).reshape(*shape, 2)
    return both[..., 0], both[..., 1], dtype


def _interval(pair: tuple[float, float]) -> tuple[float, float]:
    low, width = pair
    return low, (width if low == -INF else low + width)


@st.composite
def _sequences(draw: st.DrawFn, parts: st.SearchStrategy[Space[Any]]) -> Space[Any]:
    feature = draw(parts)
    max_length = draw(st.none() | st.integers(0, 3))
    if draw(st.booleans()):
        try:
            return Sequence(feature, max_length=max_length, stack=True)
        except ValueError:
            pass  # It holds something that does not stack.
    return Sequence(feature, max_length=max_length)
