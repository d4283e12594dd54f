"""Spaces saved as JSON and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from spaces_catalogue import each_space, seeded, spaces

from sekai.space_utils import flatten_space, space_from_json, space_to_json
from sekai.spaces import Box, Dict, Discrete, Space


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


@each_space
def test_a_space_is_read_back(space):
    text = space_to_json(space)
    json.loads(text, parse_constant=refuse)
    assert space_from_json(text) == space


@seeded
@given(spaces())
def test_generated_spaces_are_read_back(space):
    assert space_from_json(space_to_json(space)) == space


def test_the_order_of_keys_is_kept():
    space = Dict([("b", Discrete(2)), ("a", Box(0, 1))])
    text = json.dumps(json.loads(space_to_json(space)), sort_keys=True)
    assert list(space_from_json(text)) == ["b", "a"]
    assert flatten_space(space_from_json(text)) == flatten_space(space)


def test_bounds_are_short():
    assert space_to_json(Box(-1.2, np.inf, (10, 10))) == (
        '{"type": "Box", "low": -1.2, "high": "inf", "shape": [10, 10], "dtype": "float32"}'
    )


class Percent(Space[float]):
    def sample(self, mask=None):
        return 50.0

    def contains(self, x):
        return True


class OwnBox(Box):
    """Would be read back as a Box."""


@pytest.mark.parametrize("space", [Percent(), OwnBox(0, 1), Dict(a=Percent())], ids=["own", "subclass", "part"])
def test_classes_of_others_are_refused(space):
    with pytest.raises(TypeError, match="space_to_json: expected one of Box, Discrete"):
        space_to_json(space)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type": "Percent"}',
        '{"type": "Discrete", "m": 3}',
        '{"type": "Dict", "spaces": [["a", 1]]}',
        '{"type": "Discrete", "n": 0}',
        '{"type": "Box", "low": 1, "high": 0, "shape": [1], "dtype": "float32"}',
    ],
    ids=["empty", "list", "no type", "unknown type", "other fields", "no space", "no elements", "crossed"],
)
def test_what_is_no_space(text):
    with pytest.raises(ValueError, match="expected|Expecting"):
        space_from_json(text)
