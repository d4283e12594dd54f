"""What callers hand in: one seed, options dict, value and action per sub-env, and every way of getting it wrong."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.batching.inputs import (
    autoreset_option,
    check_actions,
    check_autoreset_options,
    hold_actions,
    merge_seeds,
    spread_options,
    spread_seeds,
    spread_values,
)
from sekai.batching.layout import iterate
from sekai.seeding import make_seed_sequence
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence, Tuple

seeded = settings(derandomize=True, deadline=None, max_examples=150, database=None)


def no_rng() -> np.random.Generator:
    raise AssertionError("the current stream was drawn from")


def spread(seed: Any, n: int) -> list[Any]:
    return spread_seeds(seed, n)


def merge(seed: Any, n: int) -> Any:
    return merge_seeds(seed, n, no_rng)


def stream(seed: Any, n: int, rng: Any = no_rng) -> list[int]:
    """The first words of what a seed gives."""
    return merge_seeds(seed, n, rng).generate_state(4, np.uint64).tolist()


both = pytest.mark.parametrize("take_in", [spread, merge])


# -- seeds, one per sub-env or one for all -----------------------------------------------------------------


@both
@pytest.mark.parametrize("seed", [True, False, np.True_, np.array(True), 1.0, np.float64(1), "1", b"1", {}, {1, 2}, 1j])
def test_a_seed_that_is_no_integer_is_refused(take_in, seed):
    with pytest.raises(TypeError, match=r"reset\(seed=\.\.\.\): expected an integer or None, got"):
        take_in(seed, 2)


@both
@pytest.mark.parametrize("seed", [True, np.False_, 1.0, np.float32(1), "1", [1], np.array([1]), (1,)])
def test_an_entry_that_is_no_integer_is_refused_naming_the_sub_env(take_in, seed):
    for seeds in ([0, seed], (0, seed), [None, seed]):
        with pytest.raises(TypeError, match=r"reset\(seed=\.\.\.\), sub-env 1: expected an integer or None, got"):
            take_in(seeds, 2)


@both
@pytest.mark.parametrize("seed", [-1, np.int64(-1), np.int8(-128), np.array(-1)])
def test_a_negative_seed_is_refused(take_in, seed):
    with pytest.raises(ValueError, match=r"reset\(seed=\.\.\.\): expected an integer of at least 0, got -"):
        take_in(seed, 2)
    with pytest.raises(ValueError, match=r"reset\(seed=\.\.\.\), sub-env 1: expected an integer of at least 0, got -"):
        take_in([3, seed], 2)


@both
def test_negative_entries_of_an_array_are_refused(take_in):
    with pytest.raises(ValueError, match="sub-env 1: expected an integer of at least 0, got -2"):
        take_in(np.array([1, -2]), 2)


@both
@pytest.mark.parametrize("seeds", [[1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), [None] * 3, [-1, True, "x"]])
def test_a_list_of_another_length_is_refused_before_its_entries_are_looked_at(take_in, seeds):
    with pytest.raises(ValueError, match=re.escape("reset(seed=...): expected 4 seeds (num_envs), got 3")):
        take_in(seeds, 4)


@both
@pytest.mark.parametrize("empty", [[], (), np.array([]), np.array([], int)])
def test_no_seeds_at_all_are_refused(take_in, empty):
    with pytest.raises(ValueError, match=re.escape("expected 2 seeds (num_envs), got 0")):
        take_in(empty, 2)


@both
@pytest.mark.parametrize(
    "array, got",
    [
        (np.zeros((2, 1), int), "shape (2, 1) of dtype int64"),
        (np.array([True, False]), "shape (2,) of dtype bool"),
        (np.array([1.0, 2.0]), "shape (2,) of dtype float64"),
        (np.array(["1", "2"]), "shape (2,) of dtype <U1"),
    ],
)
def test_an_array_that_is_no_list_of_integers_is_refused(take_in, array, got):
    with pytest.raises(TypeError, match=re.escape(f"reset(seed=...): expected a 1-D integer array, got {got}")):
        take_in(array, 2)


@both
def test_one_generator_for_all_is_refused(take_in):
    with pytest.raises(TypeError, match=r"reset\(seed=\.\.\.\): expected an integer or None, got Generator"):
        take_in(np.random.default_rng(0), 2)


# -- spread_seeds ------------------------------------------------------------------------------------------


def test_no_seed_continues_every_stream():
    assert spread_seeds(None, 3) == [None, None, None]


@pytest.mark.parametrize("seed", [7, np.int64(7), np.uint8(7), np.array(7)])
def test_an_integer_derives_independent_seeds(seed):
    assert spread_seeds(seed, 3) == make_seed_sequence(7, 3)


def test_neighbouring_integers_share_no_seed():
    every = [seed for base in range(50) for seed in spread_seeds(base, 8)]
    assert len(set(every)) == len(every)


def test_derived_seeds_do_not_depend_on_how_many_there_are():
    assert spread_seeds(3, 8)[:2] == spread_seeds(3, 2)


@pytest.mark.parametrize(
    "seeds", [[1, 2], (1, 2), np.array([1, 2]), [np.uint32(1), 2], np.array([1, 2], np.uint8), np.array([1, 2], object)]
)
def test_a_list_gives_each_sub_env_its_own_seed_as_a_plain_int(seeds):
    spread = spread_seeds(seeds, 2)
    assert spread == [1, 2]
    assert [type(seed) for seed in spread] == [int, int]


def test_a_seed_of_any_size_is_kept_whole():
    assert spread_seeds([2**200, np.uint64(2**64 - 1)], 2) == [2**200, 2**64 - 1]
    assert len(set(spread_seeds(2**200, 4))) == 4


def test_entries_may_be_none_or_generators():
    rng = np.random.default_rng(0)
    spread = spread_seeds([None, rng, 5], 3)
    assert spread[0] is None and spread[1] is rng and spread[2] == 5
    assert spread_seeds(np.array([None, 4], object), 2) == [None, 4]


def test_the_list_handed_in_is_not_handed_on():
    seeds = [1, 2]
    assert spread_seeds(seeds, 2) is not seeds
    assert seeds == [1, 2]


# -- merge_seeds -------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2**130), min_size=1, max_size=6))
def test_the_words_of_a_list_are_those_of_each_seed_behind_their_number(seeds):
    words: list[int] = []
    for seed in seeds:
        own = [seed >> 32 * k & 0xFFFFFFFF for k in range(max(1, -(-seed.bit_length() // 32)))]
        words += [len(own), *own]
    expected = np.random.SeedSequence(words, spawn_key=(len(seeds),)).generate_state(4, np.uint64).tolist()
    assert merge_seeds(seeds, len(seeds), no_rng).generate_state(4, np.uint64).tolist() == expected
    small = [seed % 2**64 for seed in seeds]
    one, other = (merge_seeds(given, len(seeds), no_rng) for given in (small, np.array(small, np.uint64)))
    assert one.generate_state(4).tolist() == other.generate_state(4).tolist()


@pytest.mark.parametrize("seeds", [None, [None] * 3, (None,) * 3, np.array([None] * 3)])
def test_no_seed_and_only_none_go_on_with_the_current_stream(seeds):
    assert merge_seeds(seeds, 3, no_rng) is None


@pytest.mark.parametrize("seed", [7, np.int64(7), np.uint8(7), np.array(7)])
def test_an_integer_is_the_seed_of_the_shared_stream(seed):
    assert stream(seed, 3) == np.random.SeedSequence(7).generate_state(4, np.uint64).tolist()


def test_kinds_of_list_do_not_matter():
    assert stream([1, 2], 2) == stream((1, 2), 2) == stream(np.array([1, 2], np.uint8), 2)


SEEDS = st.integers(0, 3) | st.integers(2**32 - 2, 2**32 + 2) | st.integers(2**64 - 2, 2**64 + 2) | st.integers(0)


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.lists(SEEDS, min_size=n, max_size=n)] * 2)))
@seeded
def test_different_lists_give_different_streams_and_equal_ones_the_same(lists):
    a, b = lists
    assert (stream(a, len(a)) == stream(b, len(b))) == (a == b)


@pytest.mark.parametrize(
    "a, b",
    [
        ([0, 1], [1, 0]),
        ([0, 0], [0, 2**32]),
        ([2**32, 0], [0, 1]),
        ([1, 2**32 + 1], [1 + 2**32, 1]),
        ([0, 0, 1], [0, 1, 0]),
        ([1], [1 + 2**32]),
        ([5], [5, 0]),
        ([0], [0, 0]),
    ],
)
def test_words_do_not_run_into_each_other(a, b):
    assert stream(a, len(a)) != stream(b, len(b))


@given(st.lists(SEEDS, min_size=1, max_size=4), SEEDS)
@seeded
def test_a_list_and_an_integer_give_different_streams(seeds, seed):
    assert stream(seeds, len(seeds)) != stream(seed, len(seeds))


@pytest.mark.parametrize("seed, seeds", [(1, [0]), (1 + (5 << 32), [5]), (1 + (1 << 64), [0, 0])])
def test_an_integer_made_of_the_words_of_a_list_gives_another_stream(seed, seeds):
    assert stream(seed, len(seeds)) != stream(seeds, len(seeds))


def test_a_none_entry_contributes_a_draw_from_the_current_stream():
    rng = np.random.default_rng(0)
    draw = int(copy.deepcopy(rng).integers(2**63))
    assert stream([3, None], 2, lambda: rng) == stream([3, draw], 2)
    assert rng.random() == np.random.Generator(np.random.PCG64(0).advance(1)).random()


def test_each_none_entry_draws_anew():
    rng = np.random.default_rng(0)
    first = stream([3, None, None], 3, lambda: rng)
    assert first != stream([3, None, None], 3, lambda: rng)
    fresh = np.random.default_rng(0)
    assert first == stream([3, None, None], 3, lambda: fresh)


def test_a_refused_list_draws_nothing():
    for seeds, error in (([None, -1], ValueError), ([None, True], TypeError), ([None], ValueError)):
        with pytest.raises(error):
            merge_seeds(seeds, 2, no_rng)


def test_a_generator_in_a_list_for_a_shared_stream_is_refused():
    with pytest.raises(TypeError, match="sub-env 1: expected an integer or None, got Generator"):
        merge_seeds([1, np.random.default_rng(0)], 2, no_rng)


# -- options -----------------------------------------------------------------------------------------------


def test_no_options():
    assert spread_options(None, 2) == [None, None]


def test_one_dict_is_copied_for_each_sub_env():
    options = {"start": 3}
    spread = spread_options(options, 2)
    assert spread == [options, options]
    spread[0]["start"] = 4
    assert spread[1] == options == {"start": 3}


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_holds_one_dict_or_none_each(kind):
    options = {"start": 3}
    spread = spread_options(kind([options, None, {}]), 3)
    assert spread == [options, None, {}]
    assert spread[0] is not options


def test_an_empty_dict_is_not_none():
    assert spread_options({}, 2) == [{}, {}]


@pytest.mark.parametrize("options", [3, "start", {"a"}, np.array([None, None]), iter([None, None])])
def test_options_of_another_type_are_refused(options):
    with pytest.raises(TypeError, match=rf"reset\(options=\.\.\.\): .* got {type(options).__name__}"):
        spread_options(options, 2)


@pytest.mark.parametrize("options", [[], [None], [{}] * 3, ({},)])
def test_options_of_another_number_are_refused(options):
    message = f"reset(options=...): expected 2 options (num_envs), got {len(options)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        spread_options(options, 2)


def test_an_entry_that_is_no_dict_is_refused():
    with pytest.raises(TypeError, match=r"reset\(options=\.\.\.\): .* sub-env 1, got list"):
        spread_options([None, []], 2)


# -- autoreset options -------------------------------------------------------------------------------------


def test_autoreset_options_are_none_a_dict_or_a_function_of_the_index():
    assert autoreset_option(check_autoreset_options(None), 1) is None
    options = {"start": 3}
    given = autoreset_option(check_autoreset_options(options), 1)
    assert given == options and given is not options
    assert autoreset_option(check_autoreset_options(lambda i: {"start": i}), 2) == {"start": 2}
    assert autoreset_option(check_autoreset_options(lambda i: None), 2) is None


@pytest.mark.parametrize("options", [3, [{}], "x"])
def test_other_autoreset_options_are_refused(options):
    with pytest.raises(
        TypeError, match=f"autoreset_options: expected a dict, a callable .* got {type(options).__name__}"
    ):
        check_autoreset_options(options)


def test_what_a_function_gives_as_autoreset_options_is_checked():
    with pytest.raises(TypeError, match=r"autoreset_options\(2\): expected a dict or None, got int"):
        autoreset_option(lambda i: i, 2)


# -- values ------------------------------------------------------------------------------------------------


def test_a_list_of_values_is_one_each():
    assert spread_values("k", [1, 2], 2) == [1, 2]


@pytest.mark.parametrize("value", [5, None, "ab", (1, 2), np.array([1, 2]), {"a": 1}, range(2)])
def test_any_other_value_is_for_all(value):
    spread = spread_values("k", value, 2)
    assert len(spread) == 2
    assert all(one is value for one in spread)


@pytest.mark.parametrize("values", [[], [1], [1, 2, 3]])
def test_values_of_another_number_are_refused(values):
    message = f"set_attr('k'): expected 2 values (num_envs), got a list of {len(values)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        spread_values("k", values, 2)


# -- actions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actions", [[0, 1], (0, 1), np.array([0, 1]), np.array([0, 1], np.int8), [np.int64(0), 1]])
def test_actions_come_in_the_dtype_of_the_space(actions):
    checked = check_actions(Discrete(2), 2, actions)
    assert checked.dtype == np.int64
    np.testing.assert_array_equal(checked, [0, 1])


def test_actions_that_fit_are_not_copied():
    actions = np.zeros((2, 3), np.float32)
    assert check_actions(Box(0, 1, (3,)), 2, actions) is actions


@pytest.mark.parametrize(
    "space, actions, message",
    [
        (Discrete(2), np.zeros((2, 1), int), "step(actions): expected shape (2,), got shape (2, 1)"),
        (Discrete(2), [0, 1, 0], "step(actions): expected shape (2,), got shape (3,)"),
        (Discrete(2), 1, "step(actions): expected shape (2,), got shape ()"),
        (Discrete(2), None, "step(actions): expected shape (2,), got shape ()"),
        (Discrete(2), [0.0, 1.0], "step(actions): expected dtype int64, got float64"),
        (Discrete(2), [0, None], "step(actions): expected dtype int64, got object"),
        (Box(0, 1, (3,)), np.zeros(3), "step(actions): expected shape (2, 3), got shape (3,)"),
        (Box(0, 1, (1,)), np.zeros(2), "step(actions): expected shape (2, 1), got shape (2,)"),
        (MultiDiscrete([2, 2]), [[0], [0]], "step(actions): expected shape (2, 2), got shape (2, 1)"),
        (Dict(a=Discrete(2)), {"a": [0]}, "step(actions)['a']: expected shape (2,), got shape (1,)"),
        (
            Dict(a=Discrete(2)),
            [{"a": 0}, {"b": 1}],
            "step(actions), sub-env 1: expected an element that is a dict of ['a'], got a dict of ['b']",
        ),
        (
            Tuple([Discrete(2)]),
            ([0, 1], [0, 1]),
            "step(actions): expected a batch that is a tuple of 1, got a tuple of 2",
        ),
        (Sequence(Discrete(2)), [(0,)], "step(actions): expected a sequence of 2 elements (num_envs), got a list of 1"),
    ],
    ids=repr,
)
def test_actions_that_are_no_batch_are_refused(space, actions, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_actions(space, 2, actions)


@pytest.mark.parametrize(
    "space, old, new",
    [
        (Discrete(9), np.array([1, 2, 3]), np.array([4, 5, 6])),
        (Box(0, 9, (2,)), np.full((3, 2), 1.0, np.float32), np.full((3, 2), 4.0, np.float32)),
        (Dict(a=Discrete(9)), {"a": np.array([1, 2, 3])}, {"a": np.array([4, 5, 6])}),
        (Tuple([Discrete(9)]), (np.array([1, 2, 3]),), (np.array([4, 5, 6]),)),
        (Sequence(Discrete(9)), [(1,), (), (3, 3)], [(4, 4), (5,), ()]),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("mask", [[False, True, False], [False] * 3, [True] * 3])
def test_frozen_sub_envs_keep_the_action_they_acted_with_last(space, old, new, mask):
    kept_old, kept_new = copy.deepcopy(old), copy.deepcopy(new)
    merged = hold_actions(new, old, np.array(mask))
    rows = zip(mask, iterate(space, merged), iterate(space, kept_old), iterate(space, kept_new), strict=True)
    for frozen, got, before, now in rows:
        np.testing.assert_equal(got, before if frozen else now)
    np.testing.assert_equal(old, kept_old)
    np.testing.assert_equal(new, kept_new)
    if isinstance(merged, np.ndarray):
        assert not np.shares_memory(merged, old) and not np.shares_memory(merged, new)
