"""Arrays whose memory is used again: never while anybody can still see it."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.batching.buffers import SMALL, Buffers, Loan

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
    "a field of a record": lambda array: array.view([("a", np.int64), ("b", np.int64)])["b"],
    "what DLPack gives": np.from_dlpack,
    "another array of its loan": lambda array: np.asarray(array.base),
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


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a10_memory_is_used_again_after_the_last_view_is_gone(hold):
    buffers = Buffers(least=0)
    array = buffers.take((4, 4), np.int64)
    place, kept = address(array), hold(array)
    del array
    del kept
    assert address(buffers.take((4, 4), np.int64)) == place


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
        is_of_numbers = array.dtype.kind in "biufc"  # strings, dates and records are the allocator's
        assert isinstance(array.base, Loan) is is_of_numbers
        assert address(array) % 64 == 0 or not isinstance(array.base, Loan)


@pytest.mark.parametrize("dtype", [object, [("a", object), ("b", "f8")]], ids=str)
def test_objects_get_memory_of_their_own(dtype):
    buffers = Buffers(least=0)
    array = buffers.take((SMALL,), dtype)
    assert array.shape == (SMALL,) and array.dtype == dtype and not isinstance(array.base, Loan)
    array[...] = np.zeros(1, dtype)
    assert array[:3].tolist() == np.zeros(3, dtype).tolist()


def test_only_whole_arrays_are_known_again():
    array = Buffers(least=0).take((4, 4), np.float64)
    assert isinstance(array.base, Loan)
    for other in (array[1:], array.reshape(16), array.T, array.copy(), np.empty((4, 4)), np.empty((4, 4))[1:]):
        assert not isinstance(other.base, Loan)


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
    assert not isinstance(buffers.take((SMALL // 8 - 1,), np.float64).base, Loan)
    assert isinstance(buffers.take((SMALL // 8,), np.float64).base, Loan)
    assert copy.deepcopy(Buffers(least=5)).take((5,), np.uint8).base is not None


# -- whose memory it is ------------------------------------------------------------------------------------


def overlap(arrays):
    return any(np.shares_memory(a, b) for a, b in itertools.combinations(arrays, 2))


def locked(array):
    array.flags.writeable = False
    return array


def test_a10_a_lent_array_is_taken_over_once():
    buffers = Buffers(least=0)
    lent = buffers.take((4, 4), np.int64)
    lent[...] = 1
    owned, again, yet_again = (buffers.own(lent) for _ in range(3))
    assert address(owned) == address(lent) and not overlap([owned, again, yet_again])
    owned[...], again[...] = 2, 3
    assert (yet_again == 1).all() and not overlap([owned, buffers.own(owned)])


def test_a10_who_made_what_was_taken_over_cannot_write_to_it_any_more():
    buffers = Buffers(least=0)
    lent = buffers.take((4, 4), np.int64)
    lent[...] = 1
    owned = buffers.own(lent)
    for write in (
        lambda: lent.fill(9),
        lambda: np.add(lent, 1, out=lent),
        lambda: lent[1:].fill(9),
        lambda: memoryview(lent).cast("B").__setitem__(0, 9),
        lambda: lent.setflags(write=True),
    ):
        with pytest.raises((ValueError, TypeError), match="read-only|WRITEABLE"):
            write()
    assert (owned == 1).all() and owned.flags.writeable


@pytest.mark.parametrize(
    "of",
    [
        lambda array: array[:],
        lambda array: array[1:],
        lambda array: array.T,
        lambda array: array.reshape(2, 8),
        lambda array: array.view(np.uint64),
        lambda array: np.frombuffer(array, np.int64),
        lambda array: np.asarray(memoryview(array)),
        lambda array: np.from_dlpack(array),
        lambda array: locked(array),
        lambda array: array.copy(),
        lambda array: np.broadcast_to(array[0], (4, 4)),
        lambda array: np.asfortranarray(array),
        lambda array: pickle.loads(pickle.dumps(array)),
    ],
)
def test_a10_anything_but_the_whole_of_what_was_lent_is_copied(of):
    buffers = Buffers(least=0)
    lent = buffers.take((4, 4), np.int64)
    lent[...] = 1
    other = of(lent)
    owned = buffers.own(other)
    assert not overlap([owned, lent]) and not overlap([owned, other])
    assert owned.flags.writeable and owned.flags.c_contiguous
    assert owned.tolist() == other.tolist() and owned.dtype == other.dtype


def test_what_other_buffers_lent_is_taken_over_too_and_goes_back_to_them():
    buffers, others = Buffers(least=0), Buffers(least=0)
    place = address(owned := buffers.own(others.take((4, 4), np.int64)))
    del owned
    assert address(others.take((4, 4), np.int64)) == place


@pytest.mark.parametrize("size", [5, SMALL])
@pytest.mark.parametrize("dtype", [float, object, "U3", [("a", object), ("b", "f8")]], ids=str)
def test_copies_of_what_is_small_or_no_number_are_copies_all_the_same(dtype, size):
    buffers, array = Buffers(), np.ones(size, dtype)
    for copied in buffers.own(array), buffers.copy(array), buffers.copy(array[::-1]):
        assert copied.tolist() == array.tolist() and copied.dtype == array.dtype
        assert not np.shares_memory(copied, array)
        assert isinstance(copied.base, Loan) is (size == SMALL and dtype is float)


def test_a10_memory_comes_back_when_what_was_taken_over_and_what_was_lent_are_gone():
    buffers = Buffers(least=0)
    lent = buffers.take((4, 4), np.int64)
    place, owned = address(lent), buffers.own(lent)
    del owned
    assert address(buffers.take((4, 4), np.int64)) != place
    del lent
    assert address(buffers.take((4, 4), np.int64)) == place


def test_a10_more_memories_of_one_size_than_are_kept():
    buffers = Buffers(least=0)
    for _ in range(3):
        held = [buffers.take((1000,), np.int64) for _ in range(100)]
        for number, array in enumerate(held):
            array[...] = number
        assert not overlap(held) and all((array == number).all() for number, array in enumerate(held))
        places = {address(array) for array in held}
        held.clear()
        del array
        held = [buffers.take((1000,), np.int64) for _ in range(32)]
        assert {address(array) for array in held} <= places  # the others have gone


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a10_copies_of_arrays_have_memory_of_their_own_and_keep_none(duplicate):
    buffers = Buffers(least=0)
    array = buffers.take((4, 4), np.int64)
    array[...] = 1
    place, other = address(array), duplicate(array)
    assert not isinstance(other.base, Loan) and not overlap([array, other])
    del array
    again = buffers.take((4, 4), np.int64)
    again[...] = 2
    assert address(again) == place and (other == 1).all()


def test_a10_what_is_kept_outlives_the_buffers():
    buffers = Buffers(least=0)
    held = [buffers.take((1000,), np.int64) for _ in range(5)]
    for number, array in enumerate(held):
        array[...] = number
    del buffers
    gc.collect()
    assert all((array == number).all() for number, array in enumerate(held))
    held.pop(0)
    assert not overlap([*held, np.zeros(1000, np.int64)])


def test_a10_garbage_that_refers_to_itself_gives_back_once_it_is_collected():
    buffers = Buffers(least=0)
    loop = [buffers.take((1000,), np.int64)]
    place = address(loop[0])
    loop.append(loop)
    del loop
    gc.collect()
    assert address(buffers.take((1000,), np.int64)) == place


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_a10_a_tracer_that_holds_every_frame_and_argument_keeps_memory_and_no_more(install):
    buffers, held, kept, seen = Buffers(least=0), [], [], set()

    def hold(frame, event, argument):
        held.append((frame, dict(frame.f_locals), argument))
        return hold

    before = sys.gettrace() if install is sys.settrace else sys.getprofile()
    install(hold)
    try:
        for number in range(40):
            kept.append(buffers.own(buffers.take((1000,), np.int64)))
            kept[-1][...] = number
            kept.append(buffers.copy(kept[-1]))
            seen |= {address(array) for array in kept[-2:]}
            if number % 3:
                del kept[-2:]
    finally:
        install(before)
    assert len(held) > 200 and len(seen) == 80  # all of it is seen still
    assert [array[0] for array in kept] == [array[-1] for array in kept] == [k for k in range(0, 40, 3) for _ in "ab"]
    assert not overlap(kept)
    held.clear()
    gc.collect()
    assert address(buffers.take((1000,), np.int64)) in seen - {address(array) for array in kept}


def test_a10_other_threads_may_give_back_and_take():
    buffers, errors, going = Buffers(least=0), [], threading.Event()
    passed_on = [[] for _ in range(4)]

    def work(number):
        random, mine = np.random.default_rng(number), []
        for step in range(1500):
            array = buffers.take((500,), np.int64)
            array[...] = value = number * 10_000 + step
            owned = buffers.own(array)
            del array
            mine.append((value, owned))
            passed_on[(number + 1) % 4].append((value, owned))  # of which the next thread is the last to let go
            del owned
            if len(mine) > random.integers(1, 50):
                del mine[: random.integers(1, len(mine))]
            if len(passed_on[number]) > 20:
                del passed_on[number][:10]
            if any((array != value).any() for value, array in mine[:5] + passed_on[number][:5]):
                errors.append(step)
        going.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        going.set()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors


# -- shapes and kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("integer", [np.uint8, np.int16, np.uint16, np.int64])
def test_sizes_are_not_those_of_a_small_integer_that_wraps_around(integer):
    buffers = Buffers()
    for count in (2, 3, 100):  # 3 * 5000 numbers are 54464 bytes in 16 bits: enough to be lent, and too few
        array = buffers.take((5000, integer(count)), np.float64)
        array[...] = 0
        assert array.shape == (5000, count) and isinstance(array.base, Loan)
        place = address(array)
        del array
        assert address(buffers.take((5000, count), np.float64)) == place


def test_shapes_that_there_are_none_of_are_refused():
    buffers = Buffers(least=0)
    for shape in ((-1,), (-300, -300)):
        with pytest.raises(ValueError, match="negative dimensions"):
            buffers.take(shape, np.float64)
    with pytest.raises(TypeError):
        buffers.take((2.0, 3), np.float64)


def test_sizes_that_go_on_changing_keep_no_memory_for_ever():
    buffers, hot = Buffers(), set()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for rows in range(1000):
            buffers.take((100_000 + rows,), np.uint8)
            hot.add(address(buffers.take((SMALL,), np.uint8)))
        assert tracemalloc.get_traced_memory()[0] - before < 70 * 100_000
    finally:
        tracemalloc.stop()
    held = [buffers.take((SMALL + rows % 3,), np.uint8) for rows in range(300)]
    assert not overlap(held[::7]) and len(hot) < 40


def test_a_loan_that_was_interrupted_before_it_began_ends_without_a_word(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    Loan.__new__(Loan)
    assert not said
