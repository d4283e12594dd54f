"""Arrays whose memory is used again: never while anybody can still see it."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.batching.buffers import SMALL, Buffers, is_recycled

#: Ways to keep sight of an array (n, 4) of int64 other than by itself. Each is read back by ``np.asarray``.
HOLDS = {
    "itself": lambda array: array,
    "a slice": lambda array: array[1:],
    "a slice of a slice": lambda array: array[::2][1:, 1:3],
    "a column": lambda array: array[:, 2],
    "a view of it backwards": lambda array: array[::-1],
    "another shape": lambda array: array.reshape(2, -1),
    "its transpose": lambda array: array.T,
    "another dtype": lambda array: array.view(np.uint64),
    "a diagonal": lambda array: array.diagonal(),
    "a broadcast": lambda array: np.broadcast_to(array[0], (3, 4)),
    "a memoryview": memoryview,
    "a slice of a memoryview": lambda array: memoryview(array)[1:],
    "a buffer": lambda array: np.frombuffer(array, np.int64),
    "a list of rows": list,
    "a tuple": lambda array: (array,),
    "a pickled copy": lambda array: pickle.loads(pickle.dumps(array)),
    "a copy": copy.copy,
    "an iterator's row": lambda array: next(iter(array)),
    "a subclass": lambda array: array.view(np.matrix),
}

SHAPES = [(4, 4), (8, 4), (2, 8)]  # of two sizes

actions = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from(SHAPES), st.sampled_from(sorted(HOLDS))),
        st.tuples(st.just("drop"), st.integers(0, 100), st.none()),
        st.tuples(st.just("hold on"), st.integers(0, 100), st.sampled_from(["itself", "a memoryview"])),
    ),
    max_size=60,
)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@settings(max_examples=300, deadline=None)
@given(actions)
def test_nothing_that_is_still_seen_changes(actions):
    buffers, held = Buffers(least=0), []
    for number, (action, what, how) in enumerate(actions):
        if action == "take":
            array = buffers.take(what, np.int64)
            array[...] = number
            held.append((number, HOLDS[how](array if what[1] == 4 else array.reshape(4, 4))))
            del array
        elif held and action == "drop":
            del held[what % len(held)]
        elif held:
            expected, hold = held[what % len(held)]
            if isinstance(hold, np.ndarray):
                held.append((expected, HOLDS[how](hold)))
            del hold
        for expected, hold in held:
            assert (np.asarray(hold) == expected).all()


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_whatever_sees_a_part_of_it_keeps_it(hold):
    buffers = Buffers(least=0)
    array = buffers.take((4, 4), np.int64)
    array[...] = 1
    kept = hold(array)
    del array
    others = [buffers.take((4, 4), np.int64) for _ in range(5)]
    for other in others:
        other[...] = 2
    assert (np.asarray(kept) == 1).all()


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_nobody_sees_it():
    buffers = Buffers(least=0)
    seen, last = set(), []
    for _ in range(50):
        last = [*last[-2:], buffers.take((8, 1000), np.float64)]  # as results are: the last few are held
        seen.add(address(last[-1]))
    assert len(seen) <= 5


def test_memory_is_used_again_for_another_shape_of_the_same_size():
    buffers = Buffers(least=0)
    first = address(buffers.take((100, 8), np.float64))
    assert address(buffers.take((1600,), np.float32)) == first
    assert address(buffers.take((100, 9), np.float64)) != first


def test_what_was_held_for_long_is_used_again_at_last():
    buffers = Buffers(least=0)
    held = [buffers.take((1000,), np.float64) for _ in range(10)]
    places = {address(array) for array in held}
    held.clear()
    again = [buffers.take((1000,), np.float64) for _ in range(10)]
    assert {address(array) for array in again} == places


def test_no_more_than_a_few_are_kept_however_many_there_were():
    size = 100_000
    buffers = Buffers(least=0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        held = [buffers.take((size,), np.uint8) for _ in range(200)]
        assert tracemalloc.get_traced_memory()[0] - before > 200 * size
        held.clear()
        for _ in range(100):
            buffers.take((size,), np.uint8)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 33 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.int64, bool, "datetime64[s]", "U3", [("a", "i4"), ("b", "f8")]]
)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (5, 3), (0, 3), (SMALL,)], ids=str)
def test_arrays_are_ordinary_ones(shape, dtype):
    buffers = Buffers(least=0)
    for _ in range(3):
        array = buffers.take(shape, dtype)
        assert type(array) is np.ndarray
        assert array.shape == shape and array.dtype == np.dtype(dtype)
        assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
        assert address(array) % 64 == 0


@pytest.mark.parametrize("dtype", [object, [("a", object), ("b", "f8")]], ids=str)
def test_objects_get_memory_of_their_own(dtype):
    buffers = Buffers(least=0)
    array = buffers.take((SMALL,), dtype)
    assert array.shape == (SMALL,) and array.dtype == dtype and not is_recycled(array)
    array[...] = np.zeros(1, dtype)
    assert array[:3].tolist() == np.zeros(3, dtype).tolist()


def test_only_whole_arrays_are_known_again():
    array = Buffers(least=0).take((4, 4), np.float64)
    assert is_recycled(array)
    for other in (array[1:], array.reshape(16), array.T, array.copy(), np.empty((4, 4)), np.empty((4, 4))[1:]):
        assert not is_recycled(other)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_shares_nothing_and_carries_nothing(duplicate):
    buffers = Buffers(least=0)
    places = {address(buffers.take((SMALL,), np.uint8)) for _ in range(3)}
    assert len(pickle.dumps(buffers)) < 200
    other = duplicate(buffers)
    arrays = [other.take((SMALL,), np.uint8) for _ in range(5)]
    assert not places & {address(array) for array in arrays}


def test_small_arrays_come_from_the_allocator():
    buffers = Buffers()
    assert not is_recycled(buffers.take((SMALL // 8 - 1,), np.float64))
    assert is_recycled(buffers.take((SMALL // 8,), np.float64))
    assert copy.deepcopy(Buffers(least=5)).take((5,), np.uint8).base is not None
