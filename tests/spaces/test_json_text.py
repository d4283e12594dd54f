"""Spaces saved as JSON and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from spaces_catalogue import each_space, seeded, spaces

from sekai.space_utils import flatten_space, space_from_json, space_to_json
from sekai.spaces import Box, Dict, Discrete, MaskedBox, Space


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


def test_an_infinite_fill_value_is_read_back():
    space = MaskedBox(0, 1, max_size=2, fill_value=-np.inf)
    text = space_to_json(space)
    json.loads(text, parse_constant=refuse)
    assert space_from_json(text) == space


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "space_from_json: expected what space_to_json wrote, got '', which is no JSON: Expecting value"),
        ('{"type": "Box", ', r"got '\{\"type\": \"Box\", ', which is no JSON: "),
        ("[]", r'space_from_json\(text\): expected an object with a "type" of Box, .*, Sequence, got \[\]'),
        ("3", r'space_from_json\(text\): expected an object with a "type" of .*, got 3'),
        ("{}", 'expected an object with a "type" of Box, .*, got {}'),
        ('{"type": ["Box"]}', 'expected an object with a "type" of'),
        ('{"type": "Percent"}', "expected an object with a \"type\" of Box, .*, got {'type': 'Percent'}"),
        ('{"type": "Discrete", "m": 3}', "Discrete: expected the fields n, start, got m"),
        ('{"type": "Discrete"}', "Discrete: expected the fields n, start, got none"),
        ('{"type": "Dict", "spaces": [["a", 1]]}', r"space_from_json\(text\)\['a'\]: expected an object with"),
        ('{"type": "Dict", "spaces": [["a"]]}', r"Dict spaces: expected pairs of a key and a space, got \['a'\]"),
        ('{"type": "Dict", "spaces": {"a": 1}}', "Dict spaces: expected a list, got {'a': 1}"),
        ('{"type": "Tuple", "spaces": 1}', "Tuple spaces: expected a list, got 1"),
        (
            '{"type": "Box", "low": false, "high": 0.5, "shape": [1], "dtype": "bool"}',
            "Box high: expected true, false, 1 or 0, got 0.5",
        ),
    ],
)
def test_what_is_no_space(text, message):
    with pytest.raises(ValueError, match=message):
        space_from_json(text)


def test_what_is_no_text():
    with pytest.raises(TypeError, match="space_from_json: expected a text, got NoneType"):
        space_from_json(None)


#: Of each type all that is written, and what is in turn put in the place of one of its numbers.
WRITTEN = {
    "Box": {"low": 0, "high": [1, 1], "shape": [2], "dtype": "int8"},
    "Discrete": {"n": 3, "start": 1},
    "MultiDiscrete": {"nvec": [2, 3], "start": 0, "dtype": "int64", "shape": [2]},
    "MultiBinary": {"n": [2, 3]},
    "MaskedBox": {
        "low": 0.0, "high": 1.0, "shape": [1], "dtype": "float32", "max_size": 2, "fill_value": 0.0, "batch_shape": [],
    },
    "Sequence": {"feature_space": {"type": "Discrete", "n": 3, "start": 0}, "max_length": 2, "stack": False},
}  # fmt: skip


@pytest.mark.parametrize(
    "kind, field, value, message",
    [
        ("Box", "low", 0.5, "Box low: expected whole numbers that fit int8, got 0.5"),
        ("Box", "low", "x", """Box low: expected a number, "inf" or "-inf", got 'x'"""),
        ("Box", "low", "nan", """Box low: expected a number, "inf" or "-inf", got 'nan'"""),
        ("Box", "low", None, 'Box low: expected a number, "inf" or "-inf", got None'),
        ("Box", "low", True, 'Box low: expected a number, "inf" or "-inf", got True'),
        ("Box", "high", [1, False], 'Box high: expected a number, "inf" or "-inf", got False'),
        ("Box", "high", [1, 200], "Box high: expected values that fit int8, got 200"),
        ("Box", "high", [1, 1, 1], r"Box high: expected a number or shape \(2,\), got shape \(3,\)"),
        ("Box", "high", [[1], [1, 1]], "Box high: expected a number or an array of numbers"),
        ("Box", "high", -1, "expected low <= high everywhere, got 0 > -1"),
        ("Box", "shape", 2, "Box shape: expected a list, got 2"),
        ("Box", "shape", None, "Box shape: expected a list, got None"),
        ("Box", "shape", [2.0], "Box shape: axis 0 of the shape: expected an integer, got float"),
        ("Box", "shape", [True], "Box shape: axis 0 of the shape: expected an integer, got the bool True"),
        ("Box", "dtype", None, "Box dtype: expected the name of one, got None"),
        ("Box", "dtype", "whole", "Box dtype: expected bool, an integer or a float dtype, got 'whole'"),
        ("Discrete", "n", 2.7, "Discrete n: expected an integer, got float"),
        ("Discrete", "n", True, "Discrete n: expected an integer, got the bool True"),
        ("Discrete", "n", 0, "Discrete n: expected at least 1, got 0"),
        ("Discrete", "start", 1.0, "Discrete start: expected an integer, got float"),
        ("Discrete", "start", "1", "Discrete start: expected an integer, got str"),
        ("MultiDiscrete", "nvec", [2.7, 3], "MultiDiscrete nvec: expected integers, got 2.7"),
        ("MultiDiscrete", "nvec", [2, True], "MultiDiscrete nvec: expected integers, got True"),
        ("MultiDiscrete", "nvec", [2, 2**63], "MultiDiscrete nvec: expected one integer, .* that fit int64"),
        ("MultiDiscrete", "nvec", [2, 3, 4], r"nvec: expected one integer, or some of shape \(2,\), .*\[2, 3, 4\]"),
        ("MultiDiscrete", "nvec", [[2], [2, 3]], r"nvec: expected one integer, or some of shape \(2,\)"),
        ("MultiDiscrete", "nvec", 0, "MultiDiscrete nvec: expected at least 1 everywhere, got 0"),
        ("MultiDiscrete", "start", 1.5, "MultiDiscrete start: expected integers, got 1.5"),
        ("MultiDiscrete", "start", "1", "MultiDiscrete start: expected integers, got '1'"),
        ("MultiDiscrete", "shape", [2.5], "MultiDiscrete shape: axis 0 of the shape: expected an integer, got float"),
        ("MultiDiscrete", "dtype", "float32", "MultiDiscrete dtype: expected an integer dtype"),
        ("MultiBinary", "n", 2.5, "MultiBinary n: expected a list, got 2.5"),
        ("MultiBinary", "n", True, "MultiBinary n: expected an integer, got the bool True"),
        ("MultiBinary", "n", [2, 3.0], "MultiBinary n: axis 1 of the shape: expected an integer, got float"),
        ("MultiBinary", "n", {}, "MultiBinary n: expected a list, got {}"),
        ("MaskedBox", "high", "high", """MaskedBox high: expected a number, "inf" or "-inf", got 'high'"""),
        ("MaskedBox", "max_size", 2.5, "MaskedBox max_size: expected an integer, got float"),
        ("MaskedBox", "max_size", True, "MaskedBox max_size: expected an integer, got the bool True"),
        ("MaskedBox", "fill_value", None, 'MaskedBox fill_value: expected a number, "inf" or "-inf", got None'),
        ("MaskedBox", "fill_value", True, 'MaskedBox fill_value: expected a number, "inf" or "-inf", got True'),
        ("MaskedBox", "fill_value", [0], r"MaskedBox fill_value: expected a number, got \[0\]"),
        ("MaskedBox", "batch_shape", [1.5], "MaskedBox batch_shape: axis 0 of the shape: expected an integer"),
        ("MaskedBox", "shape", "1", "MaskedBox shape: expected a list, got '1'"),
        ("Sequence", "max_length", 2.5, "Sequence max_length: expected an integer, got float"),
        ("Sequence", "max_length", True, "Sequence max_length: expected an integer, got the bool True"),
        ("Sequence", "stack", "false", "Sequence stack: expected true or false, got 'false'"),
        ("Sequence", "stack", 1, "Sequence stack: expected true or false, got 1"),
        ("Sequence", "feature_space", {}, r'space_from_json\(text\).feature_space: expected an object with a "type"'),
    ],
)
def test_no_number_is_made_into_another(kind, field, value, message):
    written = {"type": kind, **WRITTEN[kind]}
    assert json.loads(space_to_json(space_from_json(json.dumps(written)))).keys() == written.keys()
    wrong = json.dumps({**written, field: value})
    with pytest.raises(ValueError, match=message) as error:
        space_from_json(wrong)
    assert str(error.value).startswith("space_from_json(text)")
    inside = f'{{"type": "Tuple", "spaces": [{{"type": "Dict", "spaces": [["a", {wrong}]]}}]}}'
    with pytest.raises(ValueError, match=r"^space_from_json\(text\)\[0\]\['a'\]"):
        space_from_json(inside)
