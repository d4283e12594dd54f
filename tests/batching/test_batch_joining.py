"""Parts of a batch as one: what the parts of a native env tell is what the whole tells."""

import numpy as np
import pytest
from toys import NativeToy
from vector.backends import assert_same

from sekai.batching.info_list import InfoList
from sekai.batching.inputs import even_slices
from sekai.batching.joining import join, join_columns, join_infos

CUTS = [[(0, 5)], [(0, 2), (2, 5)], [(0, 1), (1, 2), (2, 4), (4, 5)]]


def script(length, name):
    steps = [([float(k)], 1.0, k == length, False, {"k": k, "name": name * k}) for k in range(1, length + 1)]
    return steps


SCRIPTS = [script(2, "a"), script(1, "bc"), script(3, "d"), script(2, "efg"), script(1, "h")]


def told(scripts, autoreset, steps=4):
    vec = NativeToy(scripts, i0={"began": 7}, autoreset=autoreset)
    vec.reset()
    for _ in range(steps):
        yield vec.step(np.zeros(len(scripts), int)).infos


@pytest.mark.parametrize("cuts", CUTS, ids=len)
@pytest.mark.parametrize("autoreset", [True, False])
def test_infos_of_parts_are_those_of_the_whole(cuts, autoreset):
    parts = zip(*(told(SCRIPTS[start:stop], autoreset) for start, stop in cuts), strict=True)
    for whole, each in zip(told(SCRIPTS, autoreset), parts, strict=True):
        joined = join_infos(each)
        assert isinstance(joined, InfoList)
        assert_same(whole.done, joined.done)
        assert_same({**whole.columns}, {**joined.columns})
        assert_same(whole.absent, joined.absent) if whole.absent is not None else None
        if autoreset:
            for key in ("final_observation", "final_info", "reset_info"):
                assert_same(whole.final(key), joined.final(key))
        assert list(joined) == list(whole)


def test_what_was_added_to_infos_stays_with_its_rows():
    first, second = (InfoList.of_columns(n, {"x": np.arange(n)}) for n in (2, 3))
    first.set_items("more", [1], ["one"])
    second.set_items("more", np.array([0, 2]), ["two", "three"])
    assert list(join_infos([first, second])) == [
        {"x": 0},
        {"x": 1, "more": "one"},
        {"x": 0, "more": "two"},
        {"x": 1},
        {"x": 2, "more": "three"},
    ]


@pytest.mark.parametrize(
    "other",
    [
        [{"x": 5}],
        InfoList.of_columns(1, {"x": np.array([5.0])}),
        InfoList.of_columns(1, {"y": np.array([5])}),
        InfoList.of_columns(1, {"x": np.array([[5]])}),
    ],
    ids=["dicts", "dtype", "key", "shape"],
)
def test_where_columns_differ_the_dicts_are_joined(other):
    one = InfoList.of_columns(1, {"x": np.array([1])})
    joined = join_infos([one, other])
    assert type(joined) is list and joined == [{"x": 1}, *other]
    assert type(joined[1]) is dict and type(joined[0]["x"]) is int


def test_joined_arrays_are_fresh_and_can_be_written_to():
    parts = [np.arange(3.0), np.arange(2.0)]
    items = np.empty(1, object)
    items[0] = np.zeros(2)
    for part in (*parts, items[0]):
        part.flags.writeable = False
    for joined in (join(parts, parts[0]), join(parts[:1], parts[0]), join_columns([{"x": parts[0]}])["x"]):
        joined[0] = 9.0
    join_columns([{"x": items}])["x"][0][0] = 9.0
    join([[items[0]]], [items[0]])[0][0] = 9.0
    assert parts[0][0] == items[0][0] == 0.0


def test_strings_of_any_length_are_joined():
    columns = join_columns([{"name": np.array(["a"])}, {"name": np.array(["longer"])}])
    assert columns["name"].tolist() == ["a", "longer"]


@pytest.mark.parametrize(("n", "parts", "sizes"), [(7, 3, [3, 2, 2]), (4, 4, [1] * 4), (5, 1, [5]), (6, 3, [2, 2, 2])])
def test_even_slices(n, parts, sizes):
    slices = even_slices(n, parts)
    assert [part.stop - part.start for part in slices] == sizes
    assert np.concatenate([np.arange(n)[part] for part in slices]).tolist() == list(range(n))
