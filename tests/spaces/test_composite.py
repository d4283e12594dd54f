from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from spaces_catalogue import same

from sekai.spaces import Box, Dict, Discrete, MultiBinary, Tuple

A, B = Discrete(1000), Box(0, 1, (2,))


# --- Dict


def test_a_dict_keeps_the_order_given():
    assert list(Dict({"b": A, "a": B})) == ["b", "a"]
    assert list(Dict({"b": A}, a=B)) == ["b", "a"]
    assert list(Dict(z=A, y=B).sample()) == ["z", "y"]
    assert list(Dict([("b", A), ("a", B)])) == ["b", "a"]


def test_a_dict_is_a_mapping_of_its_spaces():
    space = Dict({"b": A, "a": B})
    assert isinstance(space, Mapping)
    assert space["b"] is A and space.spaces["a"] is B
    assert (list(space.keys()), list(space.values()), len(space)) == (["b", "a"], [A, B], 2)
    assert dict(space.items()) == {"b": A, "a": B}
    assert space.get("c") is None
    with pytest.raises(KeyError, match="c"):
        space["c"]
    assert (space.shape, space.dtype) == (None, None)


def test_the_views_of_a_dict_are_those_of_its_spaces():
    a, b = Discrete(2), Box(0, 1)
    space = Dict({"a": a, "b": b})
    assert "a" in space.keys() and "c" not in space.keys()
    assert space.keys() & {"a", "c"} == {"a"} and space.keys() == {"a", "b"} and space.keys() - {"a"} == {"b"}
    assert b in space.values() and Discrete(7) not in space.values() and len(space.values()) == 2
    assert ("a", a) in space.items() and ("a", b) not in space.items() and ("c", a) not in space.items()
    assert dict(space) == {"a": a, "b": b} and space.get("c") is None
    assert list(reversed(space.keys())) == ["b", "a"]


def test_a_dict_does_not_follow_the_mapping_it_was_made_from():
    mapping = {"a": A}
    space = Dict(mapping)
    mapping["b"] = B
    assert list(space) == ["a"]


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "text"),
    [
        (({1: A},), {}, TypeError, r"Dict: expected keys that are strings, got 1"),
        (({"a": 3},), {}, TypeError, r"Dict: expected a space under key 'a', got int"),
        ((), {"a": {"b": A}}, TypeError, r"Dict: expected a space under key 'a', got dict"),
        (({"a": A},), {"a": B}, ValueError, r"Dict: key 'a' is given twice"),
        (([("a", A), ("a", B)],), {}, ValueError, r"Dict: key 'a' is given twice"),
        ((3,), {}, TypeError, r"Dict: expected a mapping or pairs of key and space, got 3"),
        (([A],), {}, TypeError, r"Dict: expected a mapping or pairs"),
    ],
)
def test_bad_arguments_of_a_dict(arguments, keywords, error, text):
    with pytest.raises(error, match=text):
        Dict(*arguments, **keywords)


def test_a_dict_contains_exactly_its_keys():
    space = Dict(a=Discrete(2), b=Discrete(3))
    assert space.contains({"a": 1, "b": 2})
    assert space.contains({"b": 2, "a": 1})
    assert not space.contains({"a": 1})
    assert not space.contains({"a": 1, "b": 2, "c": 0})
    assert not space.contains({"a": 2, "b": 2})
    assert not space.contains([("a", 1), ("b", 2)])
    assert "a" not in space  # ``in`` asks for elements, as in every space


def test_equality_of_dicts_ignores_the_order_of_keys():
    assert Dict(a=A, b=B) == Dict(b=B, a=A)
    assert Dict(a=A, b=B) != Dict(a=A)
    assert Dict(a=A) != Dict(b=A)
    assert Dict(a=A) != {"a": A}


def test_masks_of_a_dict():
    space = Dict(a=Discrete(3), b=MultiBinary(2))
    mask = {"a": np.array([0, 0, 1], np.int8), "b": np.array([1, 0], np.int8)}
    assert same(space.sample(mask), {"a": np.int64(2), "b": np.array([1, 0], np.int8)})
    assert space.sample({"a": mask["a"], "b": None})["a"] == 2
    with pytest.raises(ValueError, match=r"Dict.sample mask: expected the keys \['a', 'b'\], got \['a'\]"):
        space.sample({"a": None})
    with pytest.raises(TypeError, match="Dict.sample mask: expected a dict of masks, got tuple"):
        space.sample((None, None))
    with pytest.raises(ValueError, match=r"Discrete.sample mask: expected shape \(3,\), got \(\)"):
        space.sample({"a": 1, "b": None})


def test_seeds_of_a_dict():
    space = Dict(a=Discrete(10**9), b=Discrete(10**9))
    used = space.seed(3)
    assert list(used) == ["a", "b"]
    assert used["a"] != used["b"]
    alone = Discrete(10**9, seed=used["b"])
    assert [space.sample()["b"] for _ in range(3)] == [alone.sample() for _ in range(3)]
    assert space.seed({"b": 1, "a": 1}) == {"a": 1, "b": 1}
    assert len(set(space.sample().values())) == 1
    assert space.seed(4) != used
    with pytest.raises(ValueError, match=r"Dict.seed: expected the keys \['a', 'b'\], got \['a'\]"):
        space.seed({"a": 1})
    with pytest.raises(TypeError, match="seed: expected an integer or None, got str"):
        space.seed({"a": 1, "b": "x"})


def test_children_of_one_kind_are_independent():
    space = Tuple([Box(0, 1, (1000,), np.float64) for _ in range(3)], seed=0)
    correlation = np.corrcoef(np.stack(space.sample()))
    assert np.abs(correlation - np.eye(3)).max() < 0.12


def test_neighbouring_seeds_share_no_child_seed():
    spaces = [Tuple([A] * 10) for _ in range(10)]
    used = [seed for i, space in enumerate(spaces) for seed in space.seed(i)]
    assert len(set(used)) == 100


# --- Tuple


def test_a_tuple_is_a_sequence_of_its_spaces():
    space = Tuple([A, B])
    assert isinstance(space, Sequence)
    assert space.spaces == (A, B)
    assert (space[0], space[-1], len(space), list(space)) == (A, B, 2, [A, B])
    assert space[:1] == (A,)
    assert space.index(B) == 1
    with pytest.raises(IndexError):
        space[2]
    assert Tuple(part for part in (A, B)) == space


@pytest.mark.parametrize(
    ("spaces", "text"),
    [
        ([A, 3], r"Tuple: expected a space at position 1, got int"),
        (3, r"Tuple: expected a sequence of spaces, got int"),
        ({"a": A}, r"Tuple: expected a sequence of spaces, got dict"),
        (Dict(a=A), r"Tuple: expected a sequence of spaces, got Dict"),
    ],
)
def test_bad_arguments_of_a_tuple(spaces, text):
    with pytest.raises(TypeError, match=text):
        Tuple(spaces)


def test_a_tuple_contains_tuples_and_lists_of_its_length():
    space = Tuple((Discrete(2), Discrete(3)))
    assert space.contains((1, 2)) and space.contains([1, 2])
    assert not space.contains((1,)) and not space.contains((1, 2, 0))
    assert not space.contains((2, 1))
    assert not space.contains(np.array([1, 2]))
    assert isinstance(space.sample(), tuple)


def test_equality_of_tuples():
    assert Tuple((A, B)) == Tuple([A, B])
    assert Tuple((A, B)) != Tuple((B, A))
    assert Tuple((A, B)) != Tuple((A,))
    assert Tuple((A,)) != (A,)


def test_the_masks_of_a_tuple_may_be_a_list():
    assert Tuple((Discrete(3), MultiBinary(2))).sample([[0, 0, 1], [1, 0]])[0] == 2


def test_masks_of_a_tuple():
    space = Tuple((Discrete(3), Discrete(3)))
    assert space.sample((np.array([0, 0, 1], np.int8), np.array([0, 1, 0], np.int8))) == (2, 1)
    assert space.sample((None, np.array([0, 1, 0], np.int8)))[1] == 1
    with pytest.raises(ValueError, match="Tuple.sample mask: expected 2 masks, got 1"):
        space.sample((None,))
    with pytest.raises(TypeError, match="Tuple.sample mask: expected a tuple of masks, got ndarray"):
        space.sample(np.zeros((2, 3), np.int8))


@pytest.mark.parametrize("kind", [tuple, list])
def test_seeds_of_a_tuple(kind):
    space = Tuple((Discrete(10**9), Discrete(10**9)))
    assert space.seed(kind([5, 5])) == (5, 5)
    first, second = space.sample()
    assert first == second
    with pytest.raises(ValueError, match="Tuple.seed: expected 2 seeds, got 3"):
        space.seed(kind([1, 2, 3]))


def test_seeds_follow_the_structure():
    space = Dict(a=Tuple((A, B)), b=A)
    used = space.seed({"a": (1, 2), "b": 3})
    assert used == {"a": (1, 2), "b": 3}
    assert set(space.seed(0)) == {"a", "b"} and len(space.seed(0)["a"]) == 2


def test_repr():
    assert repr(Dict({"b": Discrete(2), "a": Discrete(3)})) == "Dict({'b': Discrete(2), 'a': Discrete(3)})"
    assert repr(Tuple((Discrete(2),))) == "Tuple((Discrete(2),))"
