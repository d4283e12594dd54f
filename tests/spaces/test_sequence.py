from __future__ import annotations

import numpy as np
import pytest
from spaces_catalogue import same

from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, Sequence, Space, Tuple

BOX = Box(0, 1, (2,))
TRADE = Dict(price=Box(0, 9, (), np.float64), legs=Tuple((Discrete(5), MaskedBox(1, 2, max_size=2))))


def test_attributes():
    space = Sequence(BOX, max_length=4, stack=True)
    assert (space.feature_space, space.max_length, space.stack) == (BOX, 4, True)
    assert (space.shape, space.dtype) == (None, None)
    assert (Sequence(BOX).max_length, Sequence(BOX).stack) == (None, False)


class Word(Space[str]):
    def sample(self, mask=None):
        return "a"

    def contains(self, x):
        return x == "a"


@pytest.mark.parametrize(
    ("feature", "arguments", "error", "text"),
    [
        (3, {}, TypeError, r"Sequence feature_space: expected a space, got int"),
        (BOX, {"max_length": -1}, ValueError, r"Sequence max_length: expected at least 0, got -1"),
        (BOX, {"max_length": 2.0}, TypeError, r"Sequence max_length: expected an integer, got float"),
        (Sequence(BOX), {"stack": True}, ValueError, r"stack=True\): Sequence.* has elements of many lengths"),
        (Dict(a=Sequence(BOX)), {"stack": True}, ValueError, r"has elements of many lengths"),
        (Tuple(()), {"stack": True}, ValueError, r"Tuple\(\(\)\) has no arrays to stack"),
        (Tuple((BOX, Dict({}))), {"stack": True}, ValueError, r"Dict\({}\) has no arrays to stack"),
        (Word(), {"stack": True}, ValueError, r"has no fixed shape and dtype"),
    ],
)
def test_bad_arguments(feature, arguments, error, text):
    with pytest.raises(error, match=text):
        Sequence(feature, **arguments)


def test_lengths_are_geometric():
    space = Sequence(Discrete(2), seed=0)
    lengths = np.array([len(space.sample()) for _ in range(8000)])
    for k in range(4):
        assert abs((lengths == k).mean() - 0.25 * 0.75**k) < 0.015
    assert abs(lengths.mean() - 3) < 0.15


def test_max_length_cuts_the_samples():
    space = Sequence(Discrete(2), max_length=2, seed=0)
    assert {len(space.sample()) for _ in range(100)} == {0, 1, 2}
    assert Sequence(Discrete(2), max_length=0).sample() == ()


def test_contains_tuples_of_features():
    space = Sequence(Discrete(3), max_length=2)
    assert space.contains(()) and space.contains((1,)) and space.contains((1, 2))
    assert not space.contains((0, 1, 2))
    assert not space.contains((3,))
    assert not space.contains([1])
    assert not space.contains(np.array([1]))


def test_a_stack_of_arrays():
    space = Sequence(BOX, stack=True, seed=0)
    x = space.sample((3, None))
    assert x.shape == (3, 2) and x.dtype == np.float32
    assert space.contains(x)
    assert space.sample((0, None)).shape == (0, 2)
    assert space.contains(np.zeros((0, 2), np.float32))
    assert not space.contains(np.zeros((2, 3), np.float32))
    assert not space.contains(np.full((2, 2), 1.5, np.float32))
    assert not space.contains(np.zeros((2, 2)))
    assert not space.contains((np.zeros(2, np.float32),))
    assert not space.contains(np.float32(0))


def test_a_stack_of_numbers():
    x = Sequence(Discrete(3), stack=True, seed=0).sample((4, None))
    assert x.shape == (4,) and x.dtype == np.int64


def test_a_stack_of_containers():
    space = Sequence(TRADE, stack=True, max_length=4, seed=0)
    x = space.sample((3, None))
    assert x["price"].shape == (3,)
    assert x["legs"][0].shape == (3,)
    assert {key: array.shape for key, array in x["legs"][1].items()} == {"values": (3, 2, 1), "mask": (3, 2)}
    assert space.contains(x)
    assert space.contains(space.sample((0, None)))
    assert not space.contains(space.sample((4, None)) | {"price": x["price"]})
    assert not space.contains({"price": x["price"]})
    assert not space.contains({**x, "legs": x["legs"][:1]})
    assert not space.contains({**x, "legs": (x["legs"][0], {"values": x["legs"][1]["values"]})})
    assert not space.contains({**x, "legs": (x["legs"][0], None)})
    assert not space.contains({**x, "price": x["price"] + 10})


def test_max_length_holds_for_stacks():
    assert not Sequence(BOX, max_length=1, stack=True).contains(np.zeros((2, 2), np.float32))


def test_a_stack_holds_the_features_of_the_tuple():
    features = Sequence(TRADE, seed=5).sample((3, None))
    stacked = Sequence(TRADE, stack=True, seed=5).sample((3, None))
    assert np.array_equal(stacked["price"], [x["price"] for x in features])
    assert np.array_equal(stacked["legs"][0], [x["legs"][0] for x in features])
    assert np.array_equal(stacked["legs"][1]["values"], [x["legs"][1]["values"] for x in features])


@pytest.mark.parametrize("lengths", [2, np.int64(2), np.array(2), np.array([2]), [2]])
def test_a_mask_sets_the_length(lengths):
    space = Sequence(Discrete(3))
    assert {len(space.sample((lengths, None))) for _ in range(10)} == {2}


def test_a_mask_of_lengths_draws_one_of_them():
    space = Sequence(Discrete(3), seed=0)
    lengths = [len(space.sample((np.array([1, 4]), None))) for _ in range(400)]
    assert set(lengths) == {1, 4}
    assert 150 < lengths.count(1) < 250


def test_a_feature_mask_holds_for_every_feature():
    space = Sequence(MultiBinary(2), seed=0)
    x = space.sample((3, np.array([1, 0], np.int8)))
    assert same(x, (np.array([1, 0], np.int8),) * 3)


def test_the_pair_may_be_a_list():
    space = Sequence(Discrete(3), seed=0)
    assert space.sample([2, [0, 1, 0]]) == (1, 1)
    assert len(space.sample([[4], None])) == 4


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (3, TypeError, r"Sequence.sample mask: expected a pair \(lengths, feature mask\), got 3"),
        ((3,), TypeError, r"Sequence.sample mask: expected a pair"),
        ([1, 2, 3], TypeError, r"expected a pair \(lengths, feature mask\), got \[1, 2, 3\]"),
        ((-1, None), ValueError, r"mask of lengths: expected lengths from 0 to 5 \(max_length\), got -1"),
        ((6, None), ValueError, r"mask of lengths: expected lengths from 0 to 5 \(max_length\), got 6"),
        (([1, 6], None), ValueError, r"expected lengths from 0 to 5 \(max_length\), got \[1, 6\]"),
        (([], None), ValueError, r"mask of lengths: expected at least one length, got none"),
        ((1.5, None), TypeError, r"mask of lengths: expected an integer or a 1-D array of integers, got 1.5"),
        (([[1]], None), TypeError, r"mask of lengths: expected an integer or a 1-D array of integers"),
        ((True, None), TypeError, r"mask of lengths: expected an integer or a 1-D array of integers"),
        ((1, np.ones(2, np.int8)), ValueError, r"Discrete.sample mask: expected shape \(3,\), got \(2,\)"),
    ],
)
def test_bad_masks(mask, error, text):
    with pytest.raises(error, match=text):
        Sequence(Discrete(3), max_length=5).sample(mask)


def test_lengths_without_a_limit_are_at_least_0():
    with pytest.raises(ValueError, match=r"expected lengths from 0, got -1"):
        Sequence(Discrete(3)).sample((-1, None))


def test_seeds():
    space = Sequence(Dict(a=Discrete(10**9)))
    lengths, features = space.seed(3)
    assert set(features) == {"a"} and lengths != features["a"]
    assert space.seed((1, {"a": 2})) == (1, {"a": 2})
    first = space.sample((3, None))
    space.seed([1, {"a": 2}])
    assert same(space.sample((3, None)), first)
    with pytest.raises(ValueError, match=r"Sequence.seed: expected 2 seeds \(lengths, features\), got 3"):
        space.seed((1, 2, 3))


def test_features_are_packed():
    assert Sequence(Discrete(3)).pack(iter([np.int64(2), np.int64(0)])) == (2, 0)
    space = Sequence(Dict(a=Box(0, 1, (2,)), b=Discrete(3)), max_length=2, stack=True)
    packed = space.pack([{"a": [0.5, 1.0], "b": 2}])
    assert same(packed, {"a": np.float32([[0.5, 1.0]]), "b": np.array([2])})
    assert space.contains(packed) and space.contains(space.pack([]))


@pytest.mark.parametrize("features", [5, None, np.array(1)], ids=repr)
def test_what_is_no_features_is_not_packed(features):
    with pytest.raises(TypeError, match=r"Sequence.pack: expected several features of Discrete\(3\), got "):
        Sequence(Discrete(3)).pack(features)


@pytest.mark.parametrize(
    ("features", "text"),
    [
        ([0, 1, 2], r"Sequence.pack: expected at most 2 features, got 3"),
        ([0, 3], r"Sequence.pack: expected features in Discrete\(3\), got 3 at 1"),
    ],
    ids=["too many", "of another space"],
)
def test_what_cannot_be_packed(features, text):
    with pytest.raises(ValueError, match=text):
        Sequence(Discrete(3), max_length=2).pack(features)


def test_equality_and_repr():
    assert Sequence(BOX) == Sequence(Box(0, 1, (2,)), seed=1)
    for other in (Sequence(Discrete(2)), Sequence(BOX, max_length=3), Sequence(BOX, stack=True), BOX):
        assert Sequence(BOX) != other
    assert repr(Sequence(Discrete(2))) == "Sequence(Discrete(2))"
    text = "Sequence(Discrete(2), max_length=3, stack=True)"
    assert repr(Sequence(Discrete(2), max_length=3, stack=True)) == text
