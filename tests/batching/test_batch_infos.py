"""InfoList against the plain list it stands for, its columns, and the way from info dicts to arrays."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import json
import operator
import pickle
import random
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.batching.buffers import SMALL, Buffers, Loan
from sekai.batching.episodes import EndedBatch
from sekai.batching.info_list import InfoList, stack_infos
from sekai.batching.infos import (
    column_item,
    copy_columns,
    copy_info,
    copy_value,
)
from sekai.spaces import Box, Dict, Discrete

BOX1 = Box(-np.inf, np.inf, (1,), np.float64)
seeded = settings(derandomize=True, deadline=None, max_examples=150, database=None)


def objects(*values: Any) -> np.ndarray[Any, Any]:
    """An object column of the values as they are."""
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def rows(*indices: int) -> np.ndarray[Any, Any]:
    return np.array(indices, dtype=np.intp)


class Unread(np.ndarray):
    """A column of which nobody may read a single row."""

    def item(self, *args: Any) -> Any:
        raise AssertionError("a dict was built")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            raise AssertionError("a dict was built")
        return super().__getitem__(key)


def unread(values: Any) -> Any:
    return np.asarray(values).view(Unread)


class NeverApplied:
    """Ended rows whose dicts nobody may build."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def apply(self, info: Any, position: int) -> Any:
        raise AssertionError("a dict was built")

    def final(self, key: str) -> Any:
        return self.values[key]

    def replace_observations(self, space: Any, observations: Any) -> NeverApplied:
        return NeverApplied({**self.values, "final_observation": observations})


# -- an InfoList in every state beside the plain list it stands for ------------------------------------------

COLUMNS = {"n": np.array([1, 2, 3]), "f": np.array([0.5, 1.5, 2.5], np.float32), "s": np.array(["a", "bb", ""])}
PLAIN = [{"n": 1, "f": 0.5, "s": "a"}, {"n": 2, "f": 1.5, "s": "bb"}, {"n": 3, "f": 2.5, "s": ""}]


def of_columns():
    return InfoList.of_columns(3, COLUMNS), copy.deepcopy(PLAIN)


def of_nothing():
    return InfoList.of_columns(3), [{}, {}, {}]


def of_no_rows():
    return InfoList.of_columns(0, {"n": np.array([])}), []


def with_ended():
    final = EndedBatch(Discrete(9), np.array([7, 8]), {"start": np.array([5, 6])})
    plain = copy.deepcopy(PLAIN)
    for row, observation, start in ((0, np.int64(7), 5), (2, np.int64(8), 6)):
        step = dict(plain[row])
        plain[row] |= {"final_observation": observation, "final_info": step, "reset_info": {"start": start}}
    return InfoList.of_columns(3, COLUMNS, done=rows(0, 2), ended=final), plain


def with_absent():
    return InfoList.of_columns(3, COLUMNS, absent=np.array([False, True, False])), [
        PLAIN[0].copy(),
        {},
        PLAIN[2].copy(),
    ]


def with_items():
    infos, plain = of_columns()
    infos.set_items("episode", [2, 0], ["second", "zeroth"])
    plain[2]["episode"], plain[0]["episode"] = "second", "zeroth"
    return infos, plain


def with_one_read():
    infos, plain = with_ended()
    infos[1]["written"] = plain[1]["written"] = 9
    return infos, plain


def become_a_list():
    infos, plain = with_ended()
    infos.append({"n": 4})
    plain.append({"n": 4})
    infos.reverse()
    plain.reverse()
    return infos, plain


STATES = {
    make.__name__: make
    for make in (
        of_columns,
        of_nothing,
        of_no_rows,
        with_ended,
        with_absent,
        with_items,
        with_one_read,
        become_a_list,
    )
}
each_state = pytest.mark.parametrize("make", STATES.values(), ids=STATES)


def outcome(function: Any, *args: Any) -> Any:
    """What a call gives, or the kind of error that it raises."""
    try:
        return function(*args)
    except (TypeError, ValueError, LookupError, StopIteration) as error:
        return type(error)


@dataclasses.dataclass
class Record:
    infos: list[Any]


def match_sequence(infos: Any) -> Any:
    match infos:
        case [first, *others]:
            return first, others
        case []:
            return "empty"
        case _:
            return "no sequence"


def onto_a_slice(infos: Any) -> Any:
    plain = [1, 2, 3]
    plain[1:2] = infos
    return plain


def extended(infos: Any) -> Any:
    plain = [1]
    plain.extend(infos)
    plain += infos
    return plain


def jsonable(value: Any) -> Any:
    return value.item()  # the terminal observations are NumPy integers


READS = {
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "numpy index": lambda x: x[np.int64(1)],
    "too far": lambda x: x[7],
    "too far back": lambda x: x[-7],
    "by name": lambda x: x["n"],
    "by float": lambda x: x[1.0],
    "whole slice": lambda x: x[:],
    "part": lambda x: x[1:],
    "backwards": lambda x: x[::-1],
    "last two": lambda x: x[-2:],
    "every other": lambda x: x[::2],
    "empty slice": lambda x: x[5:],
    "type of a slice": lambda x: type(x[:]),
    "iteration": lambda x: [info for info in x],
    "enumerate": lambda x: list(enumerate(x)),
    "next": lambda x: next(iter(x)),
    "zip": lambda x: list(zip(range(3), x, strict=False)),
    "zip of itself": lambda x: list(zip(x, x, strict=True)),
    "map": lambda x: list(map(len, x)),
    "filter": lambda x: [info["n"] for info in x if "final_info" in info],
    "unpacking": lambda x: (lambda first, *others: (first, others))(*x),
    "star": lambda x: [*x, *x],
    "match": match_sequence,
    "len": len,
    "bool": bool,
    "list": list,
    "tuple": tuple,
    "deque": collections.deque,
    "reversed": lambda x: list(reversed(x)),
    "sorted": lambda x: sorted(x, key=lambda info: -info.get("n", 0)),
    "max": lambda x: max(x, key=lambda info: info.get("n", 0)),
    "any": lambda x: any("n" in info for info in x),
    "in": lambda x: [{"n": 2, "f": 1.5, "s": "bb"} in x, {} in x, 5 in x],
    "index": lambda x: x.index({"n": 2, "f": 1.5, "s": "bb"}),
    "index from": lambda x: x.index({"n": 2, "f": 1.5, "s": "bb"}, 2),
    "count": lambda x: [x.count({}), x.count(PLAIN[1])],
    "add": lambda x: x + [{"more": 1}],
    "add to": lambda x: [{"more": 1}] + x,
    "add to itself": lambda x: x + x,
    "add a tuple": lambda x: x + (1,),
    "add to a tuple": lambda x: (1,) + x,
    "sum": lambda x: sum([x, x], []),
    "times": lambda x: x * 2,
    "times from the left": lambda x: 2 * x,
    "chain": lambda x: list(itertools.chain(x, x)),
    "onto a slice": onto_a_slice,
    "extended": extended,
    "itemgetter": lambda x: operator.itemgetter(0, 1)(x),
    "reduce": lambda x: functools.reduce(lambda count, info: count + len(info), x, 0),
    "sample": lambda x: random.Random(0).sample(x, 2),
    "choice": lambda x: random.Random(0).choice(x),
    "repr": repr,
    "str": str,
    "format": lambda x: f"{x}",
    "json": lambda x: json.dumps(x, default=jsonable),
    "json indent": lambda x: json.dumps(x, indent=2, default=jsonable),
    "json inside": lambda x: json.dumps({"infos": x}, default=jsonable),
    "json without a rule for numpy": json.dumps,
    "copy": lambda x: x.copy(),
    "type of copy": lambda x: type(x.copy()),
    "copy.copy": lambda x: list(copy.copy(x)),
    "copy.deepcopy": lambda x: list(copy.deepcopy(x)),
    **{
        f"pickle {protocol}": lambda x, protocol=protocol: list(pickle.loads(pickle.dumps(x, protocol)))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "array of objects": lambda x: np.array(x, dtype=object).tolist(),
    "dataclass as dict": lambda x: list(dataclasses.asdict(Record(x))["infos"]),
    "dataclass as tuple": lambda x: list(dataclasses.astuple(Record(x))[0]),
    "is a list": lambda x: isinstance(x, list),
    "hash": hash,
    "equal to its list": lambda x: [x == list(x), list(x) == x, x != list(x), list(x) != x],
    "equal to itself": lambda x: [x == x, x != x],
    "equal to others": lambda x: [x == [], [] == x, x != [{}], x == tuple(x), x == None, x != 5],  # noqa: E711
    "equal to anything": lambda x: [x == mock.ANY, mock.ANY == x],
    "equal to a copy": lambda x: [x == copy.deepcopy(list(x)), x == [*x, {}]],
    "compared": lambda x: [x < [*x, {}], x <= list(x), x > [], x >= [*x, {}], [] < x, [*x, {}] > x],
    "compared with other dicts": lambda x: x < [{"other": 1}],
    "stacked": lambda x: {key: column.tolist() for key, column in stack_infos(x).items()},
}


@each_state
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_way_of_reading_a_list_works(make, read):
    infos, plain = make()
    assert outcome(read, infos) == outcome(read, plain)
    assert infos == plain  # reading changed nothing


MUTATIONS = {
    "append": lambda x: x.append({"n": 4}),
    "insert": lambda x: x.insert(1, {"n": 4}),
    "extend": lambda x: x.extend([{"n": 4}]),
    "extend by itself": lambda x: x.extend(x),
    "pop": lambda x: x.pop(),
    "pop first": lambda x: x.pop(0),
    "remove": lambda x: x.remove(PLAIN[1]),
    "clear": lambda x: x.clear(),
    "reverse": lambda x: x.reverse(),
    "sort": lambda x: x.sort(key=lambda info: -info.get("n", 0)),
    "sort dicts": lambda x: x.sort(),
    "assign": lambda x: operator.setitem(x, 1, {"new": 1}),
    "assign last": lambda x: operator.setitem(x, -1, {"new": 1}),
    "assign too far": lambda x: operator.setitem(x, 9, {"new": 1}),
    "assign a slice": lambda x: operator.setitem(x, slice(1, 3), [{"new": 1}]),
    "delete": lambda x: operator.delitem(x, 0),
    "delete a slice": lambda x: operator.delitem(x, slice(None, None, 2)),
    "shuffle": lambda x: random.Random(1).shuffle(x),
    "iadd": lambda x: len(operator.iadd(x, [{"n": 4}])),
    "imul": lambda x: len(operator.imul(x, 2)),
    "write to a dict": lambda x: operator.setitem(x[1], "new", 1),
    "replace while iterating": lambda x: [operator.setitem(x, i, {**info, "new": 1}) for i, info in enumerate(x)],
    "write while looking up": lambda x: [operator.setitem(info, "place", x.index(info)) for info in x],
    "write while looking up, backwards": lambda x: [operator.setitem(info, "known", info in x) for info in reversed(x)],
    "update all": lambda x: [info.update(new=1) for info in x],
}


@each_state
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_every_way_of_changing_a_list_works(make, mutate):
    infos, plain = make()
    assert outcome(mutate, infos) == outcome(mutate, plain)
    assert infos == plain
    assert len(infos) == len(plain)
    assert repr(infos) == repr(plain)


TWO = {
    "add": operator.add,
    "iadd": lambda x, y: list(operator.iadd(x, y)),
    "extend": lambda x, y: (x.extend(y), list(x)),
    "onto a slice": lambda x, y: (operator.setitem(x, slice(1, 2), y), list(x)),
    "equal": operator.eq,
    "not equal": operator.ne,
    "less": operator.lt,
    "at most": operator.le,
    "more": operator.gt,
    "at least": operator.ge,
    "sum": lambda x, y: sum([x, y], []),
    "zip": lambda x, y: list(zip(x, y, strict=True)),
}


@pytest.mark.parametrize("other", [of_columns, of_nothing, of_no_rows, with_ended, with_absent])
@pytest.mark.parametrize("make", [of_columns, of_no_rows, with_one_read, become_a_list])
@pytest.mark.parametrize("operation", TWO.values(), ids=TWO)
def test_two_of_them_work_together(make, other, operation):
    (a, plain_a), (b, plain_b) = make(), other()
    assert outcome(operation, a, b) == outcome(operation, plain_a, plain_b)


def test_comparisons_of_two_lists_of_the_same_beginning():
    def infos(n):
        return InfoList.of_columns(n, {"a": np.arange(n)})

    assert infos(2) < infos(3)
    assert infos(2) <= infos(2)
    assert infos(3) > infos(2)
    assert infos(2) >= infos(2)
    assert not infos(2) < infos(2)


# -- one dict, the same ever after ---------------------------------------------------------------------------


READERS = {
    "index": lambda x, i: x[i],
    "negative index": lambda x, i: x[i - len(x)],
    "slice": lambda x, i: x[i:][0],
    "iteration": lambda x, i: list(x)[i],
    "reversed": lambda x, i: list(reversed(x))[len(x) - 1 - i],
    "copy": lambda x, i: x.copy()[i],
    "copy.copy": lambda x, i: copy.copy(x)[i],
    "sum": lambda x, i: (x + [])[i],
    "sum from the left": lambda x, i: ([] + x)[i],
    "unpacking": lambda x, i: [*x][i],
    "array": lambda x, i: np.array(x, dtype=object)[i],
    "sorted": lambda x, i: sorted(x, key=lambda info: info["n"])[i],
    "times": lambda x, i: (x * 2)[i],
}


@pytest.mark.parametrize("before", READERS.values(), ids=READERS)
@pytest.mark.parametrize("after", READERS.values(), ids=READERS)
def test_a_dict_is_the_same_object_however_it_is_read(before, after):
    infos, _ = with_ended()
    first = before(infos, 1)
    first["written"] = 1
    assert after(infos, 1) is first
    assert infos[1] is first


@pytest.mark.parametrize(
    "change",
    [lambda x: {} in x, lambda x: x.append({}), lambda x: repr(x), lambda x: x.reverse() or x.reverse()],
)
def test_a_dict_stays_the_same_object_when_the_list_is_changed(change):
    infos, _ = with_ended()
    handed_out = infos[1]
    infos[2]["written"] = 1
    change(infos)
    assert infos[1] is handed_out
    assert infos[2]["written"] == 1


def test_an_iterator_gives_the_dicts_of_the_list_whatever_is_done_meanwhile():
    infos, _ = of_columns()
    for info in infos:
        info["seen"] = info in infos
    assert [info["seen"] for info in infos] == [True] * 3


def test_an_iterator_sees_what_is_appended_meanwhile():
    infos, plain = of_columns()
    for each in (infos, plain):
        for info in each:
            if len(each) < 5:
                each.append({"after": info["n"]})
    assert infos == plain


def test_rows_do_not_share_a_dict():
    infos = InfoList.of_columns(2)
    infos[0]["a"] = 1
    assert infos == [{"a": 1}, {}]


def test_a_copy_has_dicts_of_its_own_when_it_is_deep():
    for copied in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        infos, plain = with_one_read()
        twin = copied(infos)
        infos[0]["a"] = infos[1]["a"] = 1
        assert list(twin) == plain


def test_a_deep_copy_keeps_what_was_written_and_the_columns():
    infos, _ = with_one_read()
    infos.set_items("episode", infos.done.tolist(), [1, 2])
    for twin in (copy.deepcopy(infos), pickle.loads(pickle.dumps(infos))):
        np.testing.assert_equal(twin.columns, infos.columns)
        np.testing.assert_array_equal(twin.done, [0, 2])
        assert twin.final("episode") == [1, 2]
        assert twin[1]["written"] == 9


def test_values_of_a_dict_are_plain_python_where_python_has_the_type():
    columns = {
        "bool": np.array([True]),
        "int": np.array([3], np.int8),
        "float": np.array([0.5], np.float32),
        "complex": np.array([1j]),
        "str": np.array(["abc"]),
        "bytes": np.array([b"abc"]),
    }
    info = InfoList.of_columns(1, columns)[0]
    assert info == {"bool": True, "int": 3, "float": 0.5, "complex": 1j, "str": "abc", "bytes": b"abc"}
    assert [type(value) for value in info.values()] == [bool, int, float, complex, str, bytes]
    assert type(InfoList.of_columns(1, {"time": np.array(["2020-01-01"], "M8[D]")})[0]["time"]) is np.datetime64


@pytest.mark.parametrize(
    "column, write",
    [
        (np.zeros((2, 3)), lambda value: operator.setitem(value, 0, 9)),
        (objects({"a": 1}, {}), lambda value: value.update(a=9)),
        (objects([1, [2]], []), lambda value: value[1].append(9)),
        (objects(np.zeros(2), np.zeros(3)), lambda value: operator.setitem(value, 0, 9)),
        (objects([1], [2]).reshape(2, 1), lambda value: value[0].append(9)),
        (np.zeros(2, [("x", float)]), lambda value: operator.setitem(value, "x", 9)),
    ],
    ids=["array", "dict", "list", "arrays", "objects in two axes", "record"],
)
def test_writing_into_a_value_of_a_dict_leaves_the_columns_alone(column, write):
    kept = copy.deepcopy(column)
    infos = InfoList.of_columns(2, {"v": column})
    write(infos[0]["v"])
    np.testing.assert_equal(infos.columns["v"].tolist(), kept.tolist())


# -- columns, done, final, set_items -------------------------------------------------------------------------


def test_columns_and_done_are_there_without_any_dict():
    infos = InfoList.of_columns(
        3, {"n": unread([1, 2, 3])}, done=rows(0, 2), ended=NeverApplied({"reset_info": {"a": 1}})
    )
    np.testing.assert_array_equal(np.asarray(infos.columns["n"]), [1, 2, 3])
    assert infos.done.tolist() == [0, 2]
    assert len(infos) == 3 and bool(infos)
    assert infos.has_final_observations
    infos.set_items("episode", [0, 2], ["a", "b"])
    infos.replace_final_observations(Discrete(9), np.array([4, 5]))
    assert infos.final("episode") == ["a", "b"]
    np.testing.assert_array_equal(infos.final("final_observation"), [4, 5])
    np.testing.assert_array_equal(infos.final("n"), [1, 3])
    np.testing.assert_array_equal(infos.final("final_info")["n"], [1, 3])
    assert infos.final("reset_info") == {"a": 1}


def test_final_gives_the_values_of_the_ended_rows_in_order():
    infos, plain = with_ended()
    infos.set_items("episode", [2, 0], ["second", "zeroth"])
    assert infos.final("episode") == ["zeroth", "second"]
    np.testing.assert_array_equal(infos.final("final_observation"), [7, 8])
    np.testing.assert_equal(infos.final("reset_info"), {"start": np.array([5, 6])})
    np.testing.assert_equal(infos.final("final_info"), {key: column[[0, 2]] for key, column in COLUMNS.items()})
    np.testing.assert_array_equal(infos.final("n"), [1, 3])


def test_final_without_autoreset_has_no_keys_of_the_rule():
    infos = InfoList.of_columns(2, {"n": np.array([1, 2])}, done=rows(1))
    assert not infos.has_final_observations
    np.testing.assert_array_equal(infos.final("n"), [2])
    for key in ("final_observation", "final_info", "reset_info", "nope"):
        with pytest.raises(KeyError, match=rf"no info '{key}' at the ended rows; there are \['n'\]"):
            infos.final(key)


def test_final_of_a_key_that_not_every_ended_row_has_names_the_key():
    infos = InfoList.of_columns(3, done=rows(0, 2))
    infos.set_items("episode", [0], ["zeroth"])
    with pytest.raises(KeyError, match="episode"):
        infos.final("episode")


def test_items_set_over_a_column_count_in_final_as_in_the_dicts():
    infos = InfoList.of_columns(3, {"n": np.array([1, 2, 3])}, done=rows(0, 2))
    infos.set_items("n", [0], [99])
    assert list(infos.final("n")) == [99, 3]
    assert [infos[row]["n"] for row in (0, 2)] == [99, 3]


def test_items_reach_dicts_built_before_and_after():
    for read_before in (True, False):
        infos, _ = of_columns()
        handed_out = infos[1] if read_before else None
        infos.set_items("episode", iter([1, 2]), iter(["a", "b"]))
        assert infos[1]["episode"] == "a" and infos[2]["episode"] == "b"
        assert "episode" not in infos[0]
        assert handed_out is None or infos[1] is handed_out
        infos.append({})
        infos.set_items("later", [0], [5])
        assert infos[0]["later"] == 5


class Asked(list):
    """Notes which items are asked for."""

    def __init__(self, items):
        super().__init__(items)
        self.asked = []

    def __getitem__(self, index):
        self.asked.append(index)
        return super().__getitem__(index)


def test_items_for_an_array_of_rows_are_asked_for_when_they_are_read():
    infos, values = with_ended()[0], Asked(["zeroth", "second"])
    infos.set_items("episode", infos.done, values)
    assert values.asked == [] and len(infos.extras["episode"]) == 2
    assert infos[2]["episode"] == "second" and "episode" not in infos[1]
    assert values.asked == [1]
    assert infos.final("episode") == ["zeroth", "second"]
    assert dict(infos.extras["episode"]) == {0: "zeroth", 2: "second"}
    assert pickle.loads(pickle.dumps(infos))[0]["episode"] == "zeroth"
    infos.set_items("episode", rows(1), ["first"])
    assert [info["episode"] for info in infos] == ["zeroth", "first", "second"]


@pytest.mark.parametrize("given", [[0, 1], rows(0, 1)], ids=["list", "array"])
def test_a_row_for_every_value(given):
    with pytest.raises(ValueError, match="zip"):
        of_columns()[0].set_items("k", given, [1])


def test_replaced_final_observations_show_in_the_dicts_and_in_final():
    infos, _ = with_ended()
    space = Dict(x=BOX1)
    infos.replace_final_observations(space, {"x": np.array([[0.5], [1.5]])})
    np.testing.assert_equal(infos.final("final_observation"), {"x": np.array([[0.5], [1.5]])})
    for row, value in ((0, 0.5), (2, 1.5)):
        np.testing.assert_equal(infos[row]["final_observation"], {"x": np.array([value])})
        assert infos[row]["final_info"] == PLAIN[row]
    assert "final_observation" not in infos[1]


def test_dicts_that_were_read_are_known_and_keep_their_final_observations():
    """Somebody may have written to them: whoever replaces the others goes through these one by one."""
    infos, _ = with_ended()
    assert infos.read_final() == []
    infos[1]["written"] = 1
    infos[2]["final_observation"] = 5
    infos.replace_final_observations(Discrete(9), np.array([3, 4]))
    (read,) = infos.read_final()
    assert read is infos[2]
    assert read["final_observation"] == 5
    assert infos[0]["final_observation"] == 3


def test_each_ended_row_gets_its_own_terminal_observation():
    final = EndedBatch(Discrete(9), np.array([5, 6, 7]), {"r": np.array([8, 9, 10])})
    infos = InfoList.of_columns(7, done=rows(1, 4, 5), ended=final)
    expected = {1: (5, 8), 4: (6, 9), 5: (7, 10)}
    for row in (5, 0, 1, 6, 4, 3, 2):
        info = infos[row]
        assert (row in expected) == bool(info)
        if info:
            assert (info["final_observation"], info["reset_info"]["r"]) == expected[row]


def test_replacing_twice_keeps_the_last():
    infos, _ = with_ended()
    for value in (3, 4):
        infos.replace_final_observations(Discrete(9), np.array([value, value]))
    assert [infos[row]["final_observation"] for row in (0, 2)] == [4, 4]


def test_absent_rows_are_empty_and_can_be_written_to():
    infos, _ = with_absent()
    assert infos[1] == {}
    infos.set_items("episode", [1], [5])
    assert infos[1] == {"episode": 5}
    infos[1]["own"] = 6
    assert infos[1] == {"episode": 5, "own": 6}


def test_columns_of_the_caller_may_get_new_keys_afterwards():
    columns = {"n": np.array([1])}
    infos = InfoList.of_columns(1, columns)
    columns["late"] = np.array([2])
    assert infos[0] == {"n": 1}


# -- random operations ---------------------------------------------------------------------------------------

KEYS = st.sampled_from(["n", "s", "new", "final_observation"])
VALUES = st.integers(0, 3) | st.sampled_from(["x", None])
INDEX = st.integers(-6, 6)
NEW = st.dictionaries(KEYS, VALUES, max_size=2)


def operations() -> st.SearchStrategy[Any]:
    """Names and arguments of what can be done to a list of dicts."""
    slices = st.builds(slice, st.none() | INDEX, st.none() | INDEX, st.sampled_from([None, 1, 2, -1]))
    return st.one_of(
        st.tuples(st.just("read"), INDEX),
        st.tuples(st.just("slice"), slices),
        st.tuples(st.just("write"), INDEX, KEYS, VALUES),
        st.tuples(st.just("delete key"), INDEX, KEYS),
        st.tuples(st.just("set_items"), INDEX, KEYS, VALUES),
        st.tuples(st.just("append"), NEW),
        st.tuples(st.just("insert"), INDEX, NEW),
        st.tuples(st.just("extend"), st.lists(NEW, max_size=2)),
        st.tuples(st.just("assign"), INDEX, NEW),
        st.tuples(st.just("assign slice"), slices, st.lists(NEW, max_size=2)),
        st.tuples(st.just("delete"), INDEX),
        st.tuples(st.just("pop"), INDEX),
        st.tuples(st.just("remove"), NEW),
        st.tuples(st.just("contains"), NEW),
        st.tuples(st.just("reverse")),
        st.tuples(st.just("sort")),
        st.tuples(st.just("add")),
        st.tuples(st.just("iterate")),
        st.tuples(st.just("next")),
        st.tuples(st.just("stack")),
        st.tuples(st.just("len")),
        st.tuples(st.just("repr")),
    )


class Pair:
    """An InfoList and the plain list, going through the same operations."""

    def __init__(self, infos: InfoList, plain: list[Any]) -> None:
        self.lists: tuple[Any, Any] = infos, plain
        self.iterators: tuple[Any, Any] = iter(infos), iter(plain)
        self.handed_out: list[tuple[Any, Any]] = []

    def do(self, name: str, *args: Any) -> None:
        mine, plain = self.lists
        if name == "set_items":
            row, key, value = args
            if 0 <= row < min(3, len(plain)):
                mine.set_items(key, [row], [value])
                plain[row][key] = value
            return
        if name == "iterate":
            self.iterators = iter(mine), iter(plain)
            return
        results = [
            outcome(getattr(self, "_" + name.replace(" ", "_")), each, iterator, *copy.deepcopy(args))
            for each, iterator in zip(self.lists, self.iterators, strict=True)
        ]
        np.testing.assert_equal(results[0], results[1])
        if name in ("read", "next", "pop") and isinstance(results[1], dict):
            self.handed_out.append((results[0], results[1]))

    def check(self) -> None:
        mine, plain = self.lists
        assert list(mine) == plain
        for mine_dict, plain_dict in self.handed_out:
            assert mine_dict == plain_dict
            assert [each is mine_dict for each in mine] == [each is plain_dict for each in plain]

    _read = staticmethod(lambda x, _, i: x[i])
    _slice = staticmethod(lambda x, _, part: x[part])
    _write = staticmethod(lambda x, _, i, key, value: operator.setitem(x[i], key, value))
    _delete_key = staticmethod(lambda x, _, i, key: x[i].pop(key))
    _append = staticmethod(lambda x, _, new: x.append(new))
    _insert = staticmethod(lambda x, _, i, new: x.insert(i, new))
    _extend = staticmethod(lambda x, _, new: x.extend(new))
    _assign = staticmethod(lambda x, _, i, new: operator.setitem(x, i, new))
    _assign_slice = staticmethod(lambda x, _, part, new: operator.setitem(x, part, new))
    _delete = staticmethod(lambda x, _, i: operator.delitem(x, i))
    _pop = staticmethod(lambda x, _, i: x.pop(i))
    _remove = staticmethod(lambda x, _, new: x.remove(new))
    _contains = staticmethod(lambda x, _, new: new in x)
    _reverse = staticmethod(lambda x, _: x.reverse())
    _sort = staticmethod(lambda x, _: x.sort(key=lambda info: str(info.get("n"))))
    _add = staticmethod(lambda x, _: x + x[:1])
    _next = staticmethod(lambda x, iterator: next(iterator))
    _stack = staticmethod(lambda x, _: {key: column.tolist() for key, column in stack_infos(x).items()})
    _len = staticmethod(lambda x, _: (len(x), bool(x)))
    _repr = staticmethod(lambda x, _: repr(x))


@given(
    st.sampled_from([of_columns, of_nothing, with_ended, with_absent, with_items]),
    st.lists(operations(), max_size=12),
)
@settings(seeded, max_examples=400)
def test_any_sequence_of_operations_agrees_with_the_plain_list(make, steps):
    pair = Pair(*make())
    for step in steps:
        pair.do(*step)
    pair.check()


# -- stack_infos ---------------------------------------------------------------------------------------------


def test_stack_infos_of_plain_dicts():
    """Case 6.3."""
    stacked = stack_infos([{"a": 1, "s": "x", "n": None, "only": 3}, {"a": 2.5, "s": "longer", "n": None}])
    assert list(stacked) == ["a", "s", "n"]
    np.testing.assert_array_equal(stacked["a"], [1.0, 2.5])
    assert stacked["s"].tolist() == ["x", "longer"] and stacked["s"].dtype.kind == "U"
    assert stacked["n"].dtype == object and stacked["n"].tolist() == [None, None]


def test_stack_infos_of_nothing():
    assert stack_infos([]) == {}
    assert stack_infos(InfoList.of_columns(0, {"a": np.array([])})) == {}
    assert stack_infos([{}, {"a": 1}]) == {}


@pytest.mark.parametrize(
    "values, expected",
    [
        ([1, 2], np.array([1, 2])),
        ([True, False], np.array([True, False])),
        ([True, 2], np.array([1, 2])),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([1, 1j], np.array([1, 1j])),
        ([np.float32(1), np.float32(2)], np.array([1, 2], np.float32)),
        ([np.int8(1), 2.5], np.array([1, 2.5])),
        (["a", "bbb"], np.array(["a", "bbb"])),
        ([b"a", b"bbb"], np.array([b"a", b"bbb"])),
        ([np.arange(2), np.arange(2)], np.array([[0, 1], [0, 1]])),
        ([np.arange(2), np.array([0.5, 1])], np.array([[0, 1], [0.5, 1]])),
        ([[1, 2], (3, 4)], np.array([[1, 2], [3, 4]])),
        ([["a"], ["bbb"]], np.array([["a"], ["bbb"]])),
        ([[], []], np.empty((2, 0))),
        ([np.array(1), np.array(2)], np.array([1, 2])),
        (
            [np.datetime64("2020-01-01"), np.datetime64("2020-01-02T03")],
            np.array(["2020-01-01T00", "2020-01-02T03"], "M8[h]"),
        ),
        ([np.zeros(2, [("x", float)])] * 2, np.zeros((2, 2), [("x", float)])),
    ],
    ids=repr,
)
def test_alike_values_become_one_array(values, expected):
    stacked = stack_infos([{"v": value} for value in values])["v"]
    assert stacked.dtype == expected.dtype
    np.testing.assert_array_equal(stacked, expected)


@pytest.mark.parametrize(
    "values",
    [
        [None, None],
        [None, 1],
        [1, "a"],
        ["a", b"a"],
        [True, "a"],
        [{"a": 1}, {"a": 1}],
        [{1}, {2}],
        [np.zeros(2), np.zeros(3)],
        [np.zeros(2), np.zeros((2, 1))],
        [[1], [1, 2]],
        [[1, [2, 3]], [1, [2, 3]]],
        [np.zeros(2), None],
        [np.zeros(2), 1.0],
        [[1], ["a"]],
        [(100, "buy"), (1, "sell")],
        [["a", None], ["b", None]],
        [b"a\0", b"b"],
        ["a\0", "b"],
        [np.zeros(1, [("x", float)]), np.zeros(1, [("y", float), ("z", int)])],
        [np.array([1], "m8[D]"), np.array([1], "m8[Y]")],
        [np.array(["a"]), np.array([1])],
        [2**70, "a"],
    ],
    ids=repr,
)
def test_values_that_are_not_alike_keep_their_values(values):
    """In an object array, or in one whose entries are equal to what went in."""
    stacked = stack_infos([{"v": value} for value in values])["v"]
    assert stacked.shape[0] == len(values)
    assert stacked.dtype == object
    for got, value in zip(stacked.tolist(), values, strict=True):
        np.testing.assert_equal(got, value if stacked.ndim == 1 else list(value))


def test_stacked_arrays_are_fresh():
    array = np.zeros(2)
    stacked = stack_infos([{"v": array}])
    stacked["v"][0, 0] = 5
    assert not array.any()
    infos = InfoList.of_columns(2, {"n": np.array([1, 2])})
    stack_infos(infos)["n"][0] = 99
    assert infos.columns["n"].tolist() == [1, 2]
    assert infos[0] == {"n": 1}


@pytest.mark.parametrize("done", [rows(), rows(1), rows(0, 2)])
def test_stacking_columns_builds_no_dict(done):
    infos = InfoList.of_columns(
        3, {"n": unread([1, 2, 3]), "v": unread(np.zeros((3, 2)))}, done=done, ended=NeverApplied({})
    )
    infos.set_items("episode", done.tolist(), ["x"] * len(done))
    stacked = stack_infos(infos)
    assert stacked.keys() == {"n", "v"}
    np.testing.assert_array_equal(np.asarray(stacked["n"]), [1, 2, 3])


def test_stacking_columns_builds_no_dict_when_all_rows_end_without_autoreset():
    infos = InfoList.of_columns(2, {"n": unread([1, 2])}, done=rows(0, 1))
    np.testing.assert_array_equal(np.asarray(stack_infos(infos)["n"]), [1, 2])


def test_stacking_with_frozen_rows_builds_no_dict():
    assert stack_infos(InfoList.of_columns(2, {"n": unread([1, 2])}, absent=np.array([True, False]))) == {}


NAN = float("nan")
RULE_KEYS = ["final_observation", "final_info", "reset_info"]
COLUMN_VALUES = {
    "float32": lambda n: np.arange(n, dtype=np.float32) / 2,
    "nan": lambda n: np.where(np.arange(n) % 2, NAN, 1.0),
    "int8": lambda n: np.arange(n, dtype=np.int8),
    "bool": lambda n: np.arange(n) % 2 == 0,
    "str": lambda n: np.array(["abc"[: i % 4] for i in range(n)]),
    "vector": lambda n: np.arange(2 * n, dtype=np.float32).reshape(n, 2),
    "dict": lambda n: objects(*({"k": i} for i in range(n))),
    "dict of arrays": lambda n: objects(*({"k": np.arange(i + 2)} for i in range(n))),
    "list of arrays": lambda n: objects(*([np.arange(i + 2)] for i in range(n))),
    "none": lambda n: objects(*([None] * n)),
    "time": lambda n: np.arange(n).astype("M8[D]"),
}
WRITES = st.sampled_from([NAN, 1.0, 0, "abc", None, True, np.float64(0.5)]) | st.builds(lambda: np.zeros(2))


@st.composite
def written_infos(draw: st.DrawFn) -> Callable[[], InfoList]:
    """An InfoList of any kind, with some of its dicts read and some of those changed; unseen, since a repr reads."""
    n = draw(st.integers(1, 4))
    row = st.integers(0, n - 1)
    key = st.sampled_from([*"abc", *RULE_KEYS])
    kinds = draw(st.dictionaries(key, st.sampled_from(list(COLUMN_VALUES)), max_size=3))
    done = np.array(sorted(draw(st.sets(row))), dtype=np.intp)
    autoreset = draw(st.booleans())
    ended = EndedBatch(BOX1, np.ones((len(done), 1)), {"r": np.arange(len(done))}) if autoreset else None
    absent = None
    if not autoreset:
        absent = draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n).map(np.array))
        if absent is not None:
            done = np.array([i for i in done if not absent[i]], dtype=np.intp)
    columns = {name: COLUMN_VALUES[kind](n) for name, kind in kinds.items()}
    infos = InfoList.of_columns(n, columns, done=done, ended=ended, absent=absent)
    written = key | st.just("episode")
    for _ in range(draw(st.integers(0, 2))):
        given_rows = draw(st.sampled_from([list(range(n)), done.tolist()]) | st.lists(row, unique=True))
        infos.set_items(draw(written), given_rows, [draw(WRITES) for _ in given_rows])
    for i in draw(st.lists(row, max_size=3)):
        action = draw(st.sampled_from(["read", "write", "write", "delete", "in place"]))
        info = infos[i]
        name = draw(st.sampled_from(sorted(info)) | written if info else written)
        if action == "write":
            info[name] = draw(WRITES)
        elif action == "delete":
            info.pop(name, None)
        elif action == "in place" and isinstance(info.get(name), (dict, np.ndarray, list)):
            value = info[name]
            if isinstance(value, dict):
                value["changed"] = 1
            elif isinstance(value, list):
                value.append(1)
            else:
                value += 1
    return lambda: infos


def stacks_of(infos: InfoList) -> tuple[dict[str, Any], dict[str, Any]]:
    from_columns = stack_infos(infos)
    return from_columns, stack_infos(list(infos))


@given(written_infos())
@settings(seeded, max_examples=400)
def test_stacking_an_info_list_gives_what_stacking_its_dicts_gives(make):
    got, expected = stacks_of(make())
    assert got.keys() == expected.keys()
    for key, column in expected.items():
        assert (got[key].dtype == object) == (column.dtype == object)
        np.testing.assert_equal(got[key].tolist(), column.tolist())


@pytest.mark.parametrize("kind", COLUMN_VALUES)
def test_the_dtype_of_a_stack_does_not_depend_on_who_read_what(kind):
    """Training code sees one dtype, whether dicts were read, everyone ended or not."""
    column = COLUMN_VALUES[kind](3)
    final = EndedBatch(BOX1, np.ones((3, 1)), {})
    lists = [
        InfoList.of_columns(3, {"v": column}),
        InfoList.of_columns(3, {"v": column}, done=rows(0, 1, 2), ended=final),
        InfoList.of_columns(3, {"v": column}),
    ]
    list(lists[2])
    first, *others = [stack_infos(infos)["v"].dtype for infos in lists]
    assert others == [first] * 2
    assert first == column.dtype or column.dtype == object


@pytest.mark.parametrize(
    "column, value",
    [
        (np.array([1.0, 2.0]), NAN),
        (np.array([NAN, 2.0]), 1.0),
        (np.array([1, 2]), 1.5),
        (np.array([1, 2]), True),
        (np.array(["a", "b"]), "longer"),
        (np.array([[1, 2], [3, 4]]), np.array([9, 9])),
        (np.array([[1, 2], [3, 4]]), np.array([9, 9, 9])),
        (np.array([[1, 2], [3, 4]]), np.array([1.0, 2.0])),
        (objects({"k": np.arange(2)}, {}), {"k": np.arange(3)}),
    ],
    ids=repr,
)
def test_a_value_written_into_a_dict_is_stacked(column, value):
    infos = InfoList.of_columns(2, {"v": column})
    infos[0]["v"] = value
    got, expected = stacks_of(infos)
    assert got["v"].dtype == expected["v"].dtype
    np.testing.assert_equal(got["v"].tolist(), expected["v"].tolist())


def test_items_set_over_a_column_are_stacked():
    infos = InfoList.of_columns(2, {"n": np.array([1, 2])})
    infos.set_items("n", [0], [99])
    np.testing.assert_array_equal(stack_infos(infos)["n"], [99, 2])


def test_items_set_for_all_rows_are_stacked():
    infos = InfoList.of_columns(2, {"n": np.array([1, 2])})
    infos.set_items("k", [0, 1], [3, 4])
    np.testing.assert_array_equal(stack_infos(infos)["k"], [3, 4])


def test_a_column_named_like_a_key_of_the_rule_is_stacked_as_the_dicts_show_it():
    infos = InfoList.of_columns(
        2, {"reset_info": np.array([1, 2])}, done=rows(0), ended=EndedBatch(BOX1, np.ones((1, 1)), {})
    )
    assert stack_infos(infos)["reset_info"].tolist() == [{}, 2]


def test_a_dict_of_arrays_that_was_read_does_not_stop_stacking():
    infos = InfoList.of_columns(2, {"v": objects({"k": np.arange(2)}, {"k": np.arange(2)})})
    infos[0]
    np.testing.assert_equal(stack_infos(infos)["v"].tolist(), [{"k": np.arange(2)}, {"k": np.arange(2)}])


# -- snapshots -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Own:
    """Something the kit knows nothing about."""

    value: Any = 0


Point = collections.namedtuple("Point", "x")


@pytest.mark.parametrize(
    "value, write",
    [
        (np.zeros(2), lambda value: operator.setitem(value, 0, 9)),
        ({"a": {"b": np.zeros(2)}}, lambda value: operator.setitem(value["a"]["b"], 0, 9)),
        ({"a": 1}, lambda value: operator.setitem(value, "b", 9)),
        ([1, [2]], lambda value: value[1].append(9)),
        (([1],), lambda value: value[0].append(9)),
        ({1}, lambda value: value.add(9)),
        (objects([1], {}), lambda value: value[0].append(9)),
        (objects(np.zeros(2), np.zeros(2)), lambda value: operator.setitem(value[0], 0, 9)),
        (objects([1, 2], [3, 4]).reshape(2, 1), lambda value: value[0, 0].append(9)),
        (np.array({"a": 1}, dtype=object), lambda value: value[()].update(a=9)),
        (np.zeros(2, [("x", float)])[0], lambda value: operator.setitem(value, "x", 9)),
        (collections.OrderedDict(a=[1]), lambda value: value["a"].append(9)),
        (collections.defaultdict(list, a=[1]), lambda value: value["b"].append(9)),
        (Point(np.zeros(1)), lambda value: operator.setitem(value.x, 0, 9)),
        (collections.deque([[1]]), lambda value: value[0].append(9)),
        (Own([1]), lambda value: value.value.append(9)),
    ],
    ids=[
        "array",
        "nested",
        "dict",
        "list",
        "tuple",
        "set",
        "objects",
        "arrays in objects",
        "objects in two axes",
        "object without axes",
        "record",
        "ordered dict",
        "default dict",
        "named tuple",
        "deque",
        "own class",
    ],
)
def test_a_snapshot_does_not_change_with_what_it_was_taken_of(value, write):
    kept = copy.deepcopy(value)
    snapshot = copy_info({"v": value})["v"]
    assert type(snapshot) is type(value)
    write(value)
    plain = [each.tolist() if isinstance(each, np.ndarray) else each for each in (snapshot, kept)]
    np.testing.assert_equal(*plain)


def test_a_record_of_a_structured_array_is_a_copy_in_a_snapshot():
    """Indexing such an array gives a view: the next step would write into the info of this one."""
    state = np.zeros(2, [("x", float)])
    snapshot = copy_value(state[0])
    state["x"] = 5
    assert snapshot["x"] == 0


@pytest.mark.parametrize("value", [1, 1.5, True, "a", b"a", None, np.float32(1), np.datetime64("2020-01-01"), len, Own])
def test_what_cannot_be_written_to_is_handed_on_as_it_is(value):
    assert copy_value(value) is value


@pytest.mark.parametrize("value", [threading.Lock(), (i for i in range(3)), open])
def test_what_cannot_be_copied_is_handed_on_as_it_is(value):
    assert copy_info({"v": value})["v"] is value
    assert copy_value([value])[0] is value


@pytest.mark.parametrize("info", [{}, None])
def test_the_snapshot_of_no_info_is_an_empty_dict_of_its_own(info):
    snapshot = copy_info(info)
    assert snapshot == {} and snapshot is not info


def test_columns_are_copied():
    columns = {"a": np.array([1, 2]), "o": objects([1], [2]), "b": np.zeros((2, 3))}
    copied = copy_columns(columns, 2, "x", Buffers())
    columns["a"][0] = columns["b"][0, 0] = 9
    columns["o"][0].append(9)
    columns["new"] = np.zeros(2)
    np.testing.assert_array_equal(copied["a"], [1, 2])
    assert copied["o"].tolist() == [[1], [2]]
    assert not copied["b"].any()
    assert list(copied) == ["a", "o", "b"]


def test_lists_become_columns():
    copied = copy_columns({"a": [1, 2], "s": ["x", "longer"]}, 2, "x", Buffers())
    np.testing.assert_array_equal(copied["a"], [1, 2])
    assert InfoList.of_columns(2, copied) == [{"a": 1, "s": "x"}, {"a": 2, "s": "longer"}]


def locked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("num_rows", [2, SMALL])
@pytest.mark.parametrize("dtype", [float, np.int8, "U9", "S9", "datetime64[s]", [("a", "i4"), ("b", "f8")]], ids=str)
def test_a10_columns_that_are_not_lent_are_copied_whatever_can_be_done_with_them(dtype, num_rows):
    state = np.zeros(num_rows, dtype)
    columns = {
        "itself": state,
        "view": state[:],
        "backwards": state[::-1],
        "locked view": locked(state[:]),
        "locked": locked(np.zeros(num_rows, dtype)),
        "broadcast": np.broadcast_to(state[:1], num_rows),
    }
    copied = copy_columns(columns, num_rows, "x", Buffers())
    assert list(copied) == list(columns)
    for key, column in copied.items():
        assert column.flags.writeable and column.dtype == state.dtype
        assert not any(np.shares_memory(column, other) for other in columns.values()), key
        column[:] = np.ones((), dtype)
    assert (state == np.zeros((), dtype)).all() and (columns["locked"] == np.zeros((), dtype)).all()


def test_a10_a_lent_column_is_taken_over_once_and_cannot_be_written_to_afterwards():
    buffers = Buffers(least=0)
    lent = buffers.take((2,), np.float64)
    lent[:] = 1, 2
    copied = copy_columns({"first": lent, "again": lent, "row": lent[:]}, 2, "x", buffers)
    assert np.shares_memory(copied["first"], lent) and copied["first"].flags.writeable
    assert not np.shares_memory(copied["again"], lent) and not np.shares_memory(copied["row"], lent)
    with pytest.raises(ValueError, match="read-only"):
        lent[0] = 9
    assert [column.tolist() for column in copied.values()] == [[1, 2]] * 3


def test_a10_large_columns_are_copied_into_memory_that_is_used_again():
    column, buffers, places = np.arange(SMALL), Buffers(), set()
    for _ in range(20):
        copied = copy_columns({"a": column}, SMALL, "x", buffers)["a"]
        assert isinstance(copied.base, Loan) and copied.tolist() == column.tolist()
        places.add(copied.ctypes.data)
    assert len(places) <= 2


@pytest.mark.parametrize("num_rows", [2, SMALL])
def test_a10_objects_are_copied_however_deep(num_rows):
    items = objects(*([k] for k in range(num_rows)))
    copied = copy_columns({"items": items, "locked": locked(items[:])}, num_rows, "x", Buffers())
    items[0].append(9)
    items[1] = None
    assert copied["items"][:2].tolist() == copied["locked"][:2].tolist() == [[0], [1]]


@pytest.mark.parametrize(
    "column, shape",
    [
        (np.zeros(3), r"\(3,\)"),
        (np.zeros((1, 2)), r"\(1, 2\)"),
        (np.float64(1), r"\(\)"),
        (5, r"\(\)"),
        ([], r"\(0,\)"),
    ],
)
def test_a_column_of_another_length_is_refused(column, shape):
    message = rf"Env\._step\(\): expected info column 'k' with a first axis of 2, got shape {shape}"
    with pytest.raises(ValueError, match=message):
        copy_columns({"a": np.zeros(2), "k": column}, 2, "Env._step()", Buffers())


def test_a_ragged_column_is_refused_naming_its_key():
    with pytest.raises(ValueError, match=r"Env\._step\(\): .*'k'"):
        copy_columns({"k": [[1], [1, 2]]}, 2, "Env._step()", Buffers())


def test_the_row_of_a_column_is_a_copy():
    column = np.zeros((2, 3))
    item = column_item(column, 1)
    item[:] = 9
    assert item.shape == (3,)
    assert not column.any()
    assert column_item(np.array([1.5, 2.5]), 1) == 2.5
    assert column_item(objects(None, {"a": 1}), 1) == {"a": 1}
