"""Spaces of sekai as gymnasium's and back: the same elements, samples and seeds that the other side takes."""

from __future__ import annotations

import copy
import pickle
import re

import gymnasium
import numpy as np
import pytest
import toy_market
from gymnasium import spaces as gym_spaces
from hypothesis import given, settings
from row_toys import RowToys
from spaces_catalogue import CATALOGUE, FIXED, same, seeded, spaces

import sekai
from sekai.compat.gymnasium import from_gymnasium_space, to_gymnasium_space
from sekai.space_utils import batch_space, flatdim
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiDiscrete, Sequence, Space, Tuple

#: Gymnasium has no counterpart.
REFUSED = {"multi-discrete-int8", "multi-discrete-scalar", "multi-discrete-scalar-int8"}
#: Gymnasium describes them, but fails to sample from them.
UNSAMPLED = {"box-uint64", "box-extremes"}

each = pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in REFUSED])
each_sampled = pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in REFUSED | UNSAMPLED])


@each
def test_there_and_back_is_the_same_space(name):
    space = CATALOGUE[name]
    there = to_gymnasium_space(space)
    assert isinstance(there, gym_spaces.Space)
    assert from_gymnasium_space(there) == space


@each
def test_samples_of_sekai_are_elements_for_gymnasium(name):
    space = copy.deepcopy(CATALOGUE[name])
    space.seed(1)
    there = to_gymnasium_space(space)
    for _ in range(20):
        assert space.sample() in there


@each_sampled
def test_samples_of_gymnasium_are_elements_for_sekai(name):
    space = CATALOGUE[name]
    there = to_gymnasium_space(space)
    there.seed(1)
    for _ in range(20):
        sample = there.sample()
        assert sample in space
        assert sample in there


@each_sampled
def test_seeds_repeat_samples(name):
    there = to_gymnasium_space(CATALOGUE[name])
    used = there.seed(3)
    first = there.sample()
    there.seed(3)
    assert same(first, there.sample())
    there.seed(used)
    assert same(first, there.sample())


@each
def test_the_seeds_that_one_side_returns_are_taken_by_the_other(name):
    space = copy.deepcopy(CATALOGUE[name])
    there = to_gymnasium_space(space)
    for seed in (7, None):
        space.seed(there.seed(seed))
        there.seed(space.seed(seed))


@given(spaces())
@settings(seeded, max_examples=60)
def test_any_space_there_and_back(space):
    try:
        there = to_gymnasium_space(space)
    except ValueError as refused:
        assert "MultiDiscrete" in str(refused)
        return
    assert from_gymnasium_space(there) == space
    assert space.sample() in there


@pytest.mark.parametrize("name", sorted(FIXED.keys() - REFUSED - UNSAMPLED))
def test_a_batch_holds_the_batches_of_the_other_side(name):
    space = CATALOGUE[name]
    here, there = batch_space(space, 3), gymnasium.vector.utils.batch_space(to_gymnasium_space(space), 3)
    here.seed(1)
    there.seed(1)
    for _ in range(5):
        assert here.sample() in there
        assert there.sample() in here


@pytest.mark.parametrize(
    "space",
    [
        gym_spaces.Box(np.float32([-1, -np.inf]), np.float32([np.inf, 3])),
        gym_spaces.Box(0, 255, (2, 2), np.uint8),
        gym_spaces.Discrete(4, start=-2),
        gym_spaces.MultiDiscrete([[2, 3]], start=[[1, -1]]),
        gym_spaces.MultiBinary(3),
        gym_spaces.MultiBinary([2, 3]),
        gym_spaces.Dict(b=gym_spaces.Discrete(2), a=gym_spaces.Tuple([gym_spaces.Discrete(3)])),
        gym_spaces.Sequence(gym_spaces.Box(0, 1, (2,)), stack=True),
    ],
    ids=repr,
)
def test_gymnasium_s_spaces_there_and_back(space):
    assert to_gymnasium_space(from_gymnasium_space(space)) == space


def test_integers_without_a_bound_stay_so():
    there = to_gymnasium_space(Box(np.array([-np.inf, 0]), np.array([5, np.inf]), dtype=np.int64))
    assert there.bounded_below.tolist() == [False, True]
    assert there.bounded_above.tolist() == [True, False]
    assert there.is_bounded("below") is False
    large = Box(np.array([2**60 + 1]), np.array([2**60 + 3]), dtype=np.int64)
    assert to_gymnasium_space(large).low.tolist() == [2**60 + 1]
    assert from_gymnasium_space(to_gymnasium_space(large)).high.tolist() == [2**60 + 3]


def test_the_parts_of_a_dict_keep_their_order():
    space = Dict(b=Discrete(2), a=Discrete(3))
    assert list(to_gymnasium_space(space).sample()) == ["b", "a"]
    assert list(from_gymnasium_space(to_gymnasium_space(space))) == ["b", "a"]


def test_a_generator_is_not_shared():
    for space in (CATALOGUE["masked-box"], CATALOGUE["sequence-short"], CATALOGUE["dict-nested"]):
        space = copy.deepcopy(space)
        space.seed(5)
        twin = copy.deepcopy(space)
        there = to_gymnasium_space(space)
        for _ in range(3):
            there.sample()
            there.seed(8)
            from_gymnasium_space(there).sample()
        assert same(space.sample(), twin.sample())


def test_two_conversions_do_not_draw_alike():
    space = Sequence(Box(0, 1, (3,)), max_length=5)
    space.seed(1)
    drawn = [[to_gymnasium_space(space).sample() for _ in range(8)] for _ in range(2)]
    assert not same(*drawn)


# -- MaskedBox ---------------------------------------------------------------------------------------------

BOOK = MaskedBox(1.0, 9.0, (2,), max_size=3, fill_value=-1.0)


def test_a_masked_box_is_a_dict_of_values_and_mask():
    there = to_gymnasium_space(BOOK)
    assert isinstance(there, gym_spaces.Dict)
    assert list(there.spaces) == ["values", "mask"]
    assert there["mask"] == gym_spaces.MultiBinary((3,))
    assert there["values"].shape == (3, 2)
    assert (there["values"].low == -1).all() and (there["values"].high == 9).all()  # empty slots too
    assert gym_spaces.flatten(there, there.sample()).shape == (9,)


def test_a_masked_box_contains_only_what_it_does_in_sekai():
    there = to_gymnasium_space(BOOK)
    good = BOOK.pack([[1.0, 2.0]], slots=[1])
    assert good in there
    other = copy.deepcopy(good)
    other["values"][0] = 5.0  # an empty slot
    assert other not in there
    other = copy.deepcopy(good)
    other["values"][1] = -1.0  # an occupied one, out of bounds
    assert other not in there


def test_a_masked_box_is_sampled_with_the_mask_of_sekai():
    there = to_gymnasium_space(BOOK)
    assert there.sample(np.array([1, 0, 1], np.int8))["mask"].tolist() == [1, 0, 1]
    nested = to_gymnasium_space(Dict(book=BOOK, side=Discrete(2)))
    assert nested.sample({"book": np.array([0, 1, 0], np.int8), "side": None})["book"]["mask"].tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="MaskedBoxDict.sample: expected no probability, got 0.5"):
        there.sample(probability=0.5)


@pytest.mark.parametrize("space", [BOOK, Sequence(BOOK, max_length=2), Tuple((BOOK, Discrete(2)))], ids=repr)
def test_they_can_be_pickled_copied_and_compared(space):
    there = to_gymnasium_space(space)
    there.seed(2)
    for twin in (pickle.loads(pickle.dumps(there)), copy.deepcopy(there)):
        assert twin == there
        assert same(twin.sample(), copy.deepcopy(there).sample())
    assert there == to_gymnasium_space(space)
    assert there != to_gymnasium_space(MaskedBox(1.0, 9.0, (2,), max_size=4, fill_value=-1.0))
    assert repr(BOOK) in repr(there)


# -- Sequence ----------------------------------------------------------------------------------------------


def test_a_sequence_without_limit_is_gymnasium_s_own():
    there = to_gymnasium_space(Sequence(Box(0, 1, (2,)), stack=True))
    assert type(there) is gym_spaces.Sequence
    assert there.stack


def test_a_limit_on_the_length_is_kept():
    there = to_gymnasium_space(Sequence(Discrete(4), max_length=2))
    assert isinstance(there, gym_spaces.Sequence)
    assert there.feature_space == gym_spaces.Discrete(4)
    assert max(len(there.sample()) for _ in range(50)) == 2
    assert (1, 2) in there
    assert (1, 2, 3) not in there
    assert len(there.sample(mask=(1, None))) == 1


# -- what there is none of ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "space",
    [
        gym_spaces.Text(3),
        gym_spaces.Graph(gym_spaces.Discrete(2), None),
        gym_spaces.OneOf([gym_spaces.Discrete(2)]),
        Discrete(2),
        3,
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_without_a_counterpart_are_refused(space):
    with pytest.raises(TypeError, match="from_gymnasium_space: expected a Box, Discrete, .* of gymnasium, got"):
        from_gymnasium_space(space)


def test_other_spaces_of_sekai_are_refused():
    class Own(Space):
        def sample(self, mask=None):
            return 1

        def contains(self, x):
            return x == 1

    for space in (Own(), gym_spaces.Discrete(2)):
        with pytest.raises(TypeError, match="to_gymnasium_space: expected a space of sekai.spaces, got"):
            to_gymnasium_space(space)


def test_multi_discretes_that_gymnasium_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="expected at least one axis, got shape \\(\\)"):
        to_gymnasium_space(MultiDiscrete(3))
    with pytest.raises(ValueError, match="expected counts that fit int8, got 200"):
        to_gymnasium_space(MultiDiscrete([200, 3], dtype=np.int8, start=[-100, 0]))


def test_floats_of_more_than_64_bits_are_refused():
    with pytest.raises(TypeError, match="from_gymnasium_space: Box dtype: expected .* at most 64 bits"):
        from_gymnasium_space(gym_spaces.Box(np.longdouble([0]), np.longdouble([1]), dtype=np.longdouble))


def test_a_space_of_gymnasium_where_one_of_sekai_is_expected_is_named():
    other = gym_spaces.Discrete(3)

    class Own(gym_spaces.Discrete):
        pass

    class Bare(toy_market.Walk):
        action_space = other

    class Market(toy_market.WalkVec):
        def __init__(self):
            sekai.NativeVecEnv.__init__(self, 2, Box(0.0, 1.0, (1,)), other)

    by_class = r"expected .*pace.*, got a gymnasium\.spaces\.discrete\.Discrete \(.*\.from_gymnasium_space .*\)$"
    for call in (lambda: Dict(a=other), lambda: Tuple([other]), lambda: Sequence(other), lambda: flatdim(other)):
        with pytest.raises(TypeError, match=by_class):
            call()
    with pytest.raises(TypeError, match=by_class):
        Market()
    (problem,) = sekai.check_env(Bare())
    assert re.search(by_class, problem)
    with pytest.raises(TypeError, match=r"Own \(sekai\.compat\.gymnasium\.from_gymnasium_space"):
        Tuple([Own(3)])
    for space in (other, lambda params: other):
        with pytest.raises(TypeError, match=by_class):
            type("Odd", (RowToys,), {"action_space": space})(2)
