"""What every space has in common, over the catalogue and over generated spaces."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces_catalogue import CATALOGUE, draw, each_space, same, samples, seeded, spaces

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

NAMES_IN_REPR = {
    cls.__name__: cls for cls in (Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Sequence, Space, Tuple)
} | {"inf": np.inf, "broadcast_to": np.broadcast_to}


def evaluate(text: str) -> Any:
    dtypes = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool")
    return eval(text, {**NAMES_IN_REPR, **{name: np.dtype(name) for name in dtypes}})


@each_space
def test_samples_are_elements(space):
    space.seed(0)
    for _ in range(50):
        sample = space.sample()
        assert space.contains(sample)
        assert sample in space


@each_space
def test_a_seed_reproduces_the_samples(space):
    space.seed(7)
    first = [space.sample() for _ in range(5)]
    space.seed(7)
    assert same(first, [space.sample() for _ in range(5)])


@each_space
def test_the_seed_returned_reproduces_the_samples(space):
    used = space.seed()
    first = [space.sample() for _ in range(5)]
    assert space.seed(used) == used
    assert same(first, [space.sample() for _ in range(5)])


@each_space
def test_a_generator_is_drawn_from_as_it_is(space):
    first, second = (copy.deepcopy(space) for _ in range(2))
    first.seed(np.random.default_rng(3))
    generator = np.random.default_rng(3)
    second.seed(generator)
    assert same([first.sample() for _ in range(5)], [second.sample() for _ in range(5)])
    if not isinstance(space, (Dict, Tuple)):
        assert second.rng is generator


def test_a_generator_goes_to_all_parts():
    generator = np.random.default_rng(0)
    space = Dict(a=Discrete(9), b=Tuple((Discrete(9), Sequence(Discrete(9)))), seed=generator)
    parts = [space["a"], *space["b"], space["b"][1].feature_space]
    assert all(part.rng is generator for part in parts)
    assert space.seed(generator) == {"a": None, "b": (None, (None, None))}


def test_two_seeds_give_different_samples():
    space = Box(0, 1, (4,))
    assert not same(draw(space, 1), draw(space, 2))


def test_an_unseeded_space_takes_its_seed_from_the_system():
    assert not same(Box(0, 1, (4,)).sample(), Box(0, 1, (4,)).sample())


@pytest.mark.parametrize("seed", [5, np.int64(5), np.uint8(5)])
def test_any_integer_is_a_seed(seed):
    assert Discrete(2).seed(seed) == 5


@each_space
@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [
        (-1, ValueError, r"seed: expected an integer of at least 0, got -1"),
        (1.5, TypeError, r"seed: expected an integer or None, got float"),
        (True, TypeError, r"seed: expected an integer or None, got the bool True"),
        (np.random.RandomState(0), TypeError, r"seed: expected an integer or None, got RandomState"),
    ],
    ids=["negative", "float", "bool", "generator-of-old"],
)
def test_a_bad_seed_is_refused(space, seed, error, text):
    with pytest.raises(error, match=text):
        space.seed(seed)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: Box(0, 1, (3,), seed=seed),
        lambda seed: Discrete(100, seed=seed),
        lambda seed: Discrete(100, seed),
        lambda seed: MultiDiscrete([100, 100], seed=seed),
        lambda seed: MultiBinary(20, seed=seed),
        lambda seed: MaskedBox(0, 1, max_size=5, seed=seed),
        lambda seed: Dict({"a": Discrete(100), "b": Discrete(100)}, seed=seed),
        lambda seed: Tuple([Discrete(100), Discrete(100)], seed=seed),
        lambda seed: Sequence(Discrete(100), seed=seed),
    ],
)
def test_the_constructor_takes_a_seed(make):
    twin = make(None)
    twin.seed(3)
    assert same(make(3).sample(), twin.sample())
    assert same(make(3).sample(), make(3).sample())


def test_rng_is_the_generator_that_samples_are_drawn_from():
    space = Discrete(1000, seed=1)
    twin = Discrete(1000, seed=1)
    assert isinstance(space.rng, np.random.Generator)
    space.rng.random()
    assert [space.sample() for _ in range(4)] != [twin.sample() for _ in range(4)]


@each_space
def test_json_round_trip(space):
    space.seed(1)
    elements = [space.sample() for _ in range(4)]
    text = json.dumps(space.to_jsonable(elements))
    assert same(space.from_jsonable(json.loads(text)), elements)
    assert space.from_jsonable(space.to_jsonable([])) == []


@seeded
@given(st.data())
def test_json_round_trip_of_generated_spaces(data):
    space = data.draw(spaces())
    elements = data.draw(st.lists(samples(space), max_size=3))
    assert all(space.contains(element) for element in elements)
    text = json.dumps(space.to_jsonable(elements))
    assert same(space.from_jsonable(json.loads(text)), elements)


@each_space
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_copies_are_equal_and_continue_the_stream(space, clone):
    space.seed(3)
    space.sample()
    twin = clone(space)
    assert twin == space and twin is not space
    assert same([twin.sample() for _ in range(3)], [space.sample() for _ in range(3)])


@seeded
@given(spaces())
def test_generated_spaces_equal_their_copy_and_their_repr(space):
    assert pickle.loads(pickle.dumps(space)) == space
    assert evaluate(repr(space)) == space


@each_space
def test_repr_evaluates_to_an_equal_space(space):
    assert evaluate(repr(space)) == space


def test_equality_ignores_the_generator():
    assert Discrete(3, seed=1) == Discrete(3, seed=2)
    assert Dict(a=Discrete(2), seed=1) == Dict(a=Discrete(2))


@pytest.mark.parametrize("name", CATALOGUE)
def test_different_spaces_are_unequal(name):
    space = CATALOGUE[name]
    others = [other for other_name, other in CATALOGUE.items() if other_name != name]
    assert all(space != other for other in others)
    assert space != "a space"
    assert space is not None


@each_space
def test_contains_answers_for_anything(space):
    strange = [
        None,
        "text",
        object(),
        1.5,
        {"values": 1, "mask": 2},
        {1: 2},
        [object()],
        np.array("x"),
        np.array([None]),
    ]
    for x in strange:
        assert space.contains(x) is False


@each_space
def test_contains_returns_a_plain_bool(space):
    assert space.contains(zero_sample(space)) is True


def test_a_space_of_ones_own():
    class Text(Space[str]):
        def sample(self, mask: Any = None) -> str:
            return "ab"[self.rng.integers(2)]

        def contains(self, x: Any) -> bool:
            return x in ("a", "b")

    space = Dict(word=Text(seed=1), n=Discrete(2))
    assert space.contains(space.sample())
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable([{"word": "a", "n": 1}])))) == [
        {"word": "a", "n": np.int64(1)}
    ]
    assert Text() == Text()
    assert (Text().shape, Text().dtype) == (None, None)


@pytest.mark.parametrize("method", ["sample", "contains"])
def test_a_space_must_say_what_it_holds(method):
    body = {name: lambda self: None for name in ("sample", "contains") if name != method}
    with pytest.raises(TypeError, match=method):
        type("Partial", (Space,), body)()


class Prices(Space):
    """A user's own space, with whatever attributes."""

    def __init__(self, seed=None, **held):
        super().__init__((2,), np.float64, seed)
        vars(self).update(held)

    def sample(self, mask=None):
        return self.rng.random(2)

    def contains(self, x):
        return True


class Ticked(Box):
    """A user's own kind of box."""

    def __init__(self, tick):
        super().__init__(0, 1)
        self.tick = tick


class Slippery:
    """An object that cannot be compared."""

    def __eq__(self, other):
        raise TypeError("no")

    __hash__ = None


HELD = {
    "number": ({"tick": 1}, {"tick": 2}),
    "array": ({"levels": np.array([1.0, np.nan])}, {"levels": np.array([2.0, np.nan])}),
    "shape": ({"levels": np.zeros(2)}, {"levels": np.zeros((2, 1))}),
    "nested": ({"a": [{"b": (np.arange(3), "x")}]}, {"a": [{"b": (np.arange(3), "y")}]}),
    "objects": ({"a": np.array([1, "x"], object)}, {"a": np.array([1, "y"], object)}),
    "space": ({"inner": Box(0, 1)}, {"inner": Box(0, 2)}),
    "own_space": ({"inner": Ticked(1)}, {"inner": Ticked(2)}),
    "nan": ({"tick": float("nan")}, {"tick": 0.0}),
    "more": ({"tick": 1}, {"tick": 1, "lot": 2}),
    "function": ({"rule": len}, {"rule": max}),
}


@pytest.mark.parametrize("held, others", HELD.values(), ids=HELD)
def test_a5_spaces_of_a_user_s_class_are_equal_if_they_hold_the_same(held, others):
    space, twin, other = Prices(seed=1, **held), Prices(seed=2, **copy.deepcopy(held)), Prices(**others)
    space.sample()
    assert space == twin and not space != twin and hash(space) == hash(twin)
    assert space == pickle.loads(pickle.dumps(space)) == copy.deepcopy(space)
    assert space != other and other != space
    assert len({space, twin, other}) == 2


def test_a5_what_a_class_keeps_in_slots_counts():
    class Slotted(Space):
        __slots__ = ("n",)

        def __init__(self, n):
            self.n = n

        def sample(self, mask=None):
            return self.n

        def contains(self, x):
            return x == self.n

    assert Slotted(1) == Slotted(1) != Slotted(2)


def test_a5_so_are_those_of_a_class_derived_from_one_of_the_kit():
    assert Ticked(1) == Ticked(1) != Ticked(2)
    assert Ticked(1) != Box(0, 1) and Box(0, 1) != Ticked(1)
    assert Dict(a=Ticked(1)) == Dict(a=Ticked(1)) != Dict(a=Ticked(2))


def test_a5_generators_do_not_count_and_what_cannot_be_compared_is_the_same_as_itself_alone():
    for kind in (np.random.default_rng, np.random.RandomState, np.random.PCG64, random.Random):
        assert Prices(drawer=kind(1)) == Prices(drawer=kind(2)) != Prices(drawer=3)
    one = Slippery()
    assert Prices(held=one) == Prices(held=one) != Prices(held=Slippery())
    assert Prices(held=object()) != Prices(held=object())


def test_a5_a_value_that_is_cached_does_not_count():
    class Cached(Prices):
        @functools.cached_property
        def total(self):
            return self.a + 1

    space = Cached(a=1)
    assert space.total == 2 and space == Cached(a=1)


@each_space
def test_a5_equal_spaces_have_one_hash(space):
    assert hash(space) == hash(copy.deepcopy(space)) and space in {copy.deepcopy(space)}
