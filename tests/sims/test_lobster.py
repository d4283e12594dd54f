"""Pairs of LOBSTER's files are read as they are, and written as they were."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import pickle
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from synthetic_lobster import BUY, MAKES, NO_ASK, NO_BID, PAIRS, SELL, Pair, get_pair

import sims.data
from sims.data import Tape, read_lobster, write_lobster

MESSAGE = ("time", "kind", "order_id", "size", "price", "direction")
BOOK = ("ask_price", "ask_size", "bid_price", "bid_size")


def read_text(pair):
    """The columns of a pair, as plain Python reads its text."""
    messages = [line.split(",") for line in pair.message.splitlines()]
    rows = [[int(cell) for cell in line.split(",")] for line in pair.orderbook.splitlines()]
    columns = {name: [int(line[i]) for line in messages] for i, name in enumerate(MESSAGE) if i}
    columns["time"] = [int(Decimal(line[0]) * 10**9) for line in messages]
    return columns | {name: [row[i::4] for row in rows] for i, name in enumerate(BOOK)}


# Reading.


@pytest.mark.parametrize("make, seed", PAIRS)
def test_a_pair_is_read_as_it_is(tmp_path, make, seed):
    pair = get_pair(make, seed)
    tape = read_lobster(*pair.write(tmp_path))
    for name, column in read_text(pair).items():
        np.testing.assert_array_equal(getattr(tape, name), column, err_msg=name)
    assert len(tape) == len(pair.books) and tape.levels == MAKES[make]["levels"] and tape.tick == 100
    dtypes = {name: getattr(tape, name).dtype.str[1:] for name in (*MESSAGE, *BOOK, "ref")}
    small = {"kind": "i1", "direction": "i1", "size": "i4", "ask_size": "i4", "bid_size": "i4"}
    assert dtypes == {name: small.get(name, "i8") for name in dtypes}


@pytest.mark.parametrize("make, seed", PAIRS)
def test_ref_is_the_message_that_submitted_the_order(tmp_path, make, seed):
    pair = get_pair(make, seed)
    tape = read_lobster(*pair.write(tmp_path))
    news = {int(tape.order_id[k]): k for k in range(len(tape)) if tape.kind[k] == 1}
    expected = [news.get(int(tape.order_id[k]), -1) if tape.kind[k] <= 4 else -1 for k in range(len(tape))]
    assert tape.ref.tolist() == expected
    known = [k for k in range(len(tape)) if tape.ref[k] >= 0]
    assert [tape.ref[k] for k in known] == [pair.submitted[int(tape.order_id[k])] for k in known]


def test_the_pairs_have_what_files_have(tmp_path):
    """What the tests of this file rest on."""
    kinds, seen = set(), set()
    for make, seed in PAIRS:
        pair = get_pair(make, seed)
        tape = read_lobster(*pair.write(tmp_path))
        kinds |= set(tape.kind.tolist())
        seen |= {"none" for name in BOOK[1::2] if (getattr(tape, name) == 0).any()}
        seen |= {"out of view" for visible in pair.in_view if visible is False}
        for k in range(1, len(tape)):
            sweep = tape.kind[k] == tape.kind[k - 1] == 4 and tape.time[k] == tape.time[k - 1]
            if sweep and tape.price[k] != tape.price[k - 1] and tape.direction[k] == tape.direction[k - 1]:
                seen.add("sweep")
            if tape.kind[k] in (2, 3, 4) and tape.ref[k] < 0:
                seen.add("from the start" if pair.submitted[int(tape.order_id[k])] < 0 else "came out of view")
    assert kinds == {1, 2, 3, 4, 5, 6, 7}
    assert seen == {"none", "out of view", "sweep", "from the start", "came out of view"}


@pytest.mark.parametrize("make", MAKES)
def test_the_synthetic_books_are_those_of_the_true_orders(make):
    pair = get_pair(make, 1)
    levels = MAKES[make]["levels"]
    for book, line in zip(pair.books, pair.orderbook.splitlines(), strict=True):
        numbers = [int(cell) for cell in line.split(",")]
        for side, missing, found in ((SELL, NO_ASK, numbers[:2]), (BUY, NO_BID, numbers[2:4])):
            queues = book[side]
            best = (min if side == SELL else max)(queues, default=missing)
            assert found == [best, sum(shares for _, shares in queues.get(best, ()))]
        assert sum(abs(price) != NO_ASK for price in numbers[0::4]) == min(levels, len(book[SELL]))
        assert len(book[BUY]) == 0 or len(book[SELL]) == 0 or max(book[BUY]) < min(book[SELL])


@pytest.mark.parametrize("levels", [1, 3])
def test_fewer_levels_can_be_read(tmp_path, levels):
    paths = get_pair("deep", 1).write(tmp_path)
    tape, whole = read_lobster(*paths, levels=levels), read_lobster(*paths)
    for name in BOOK:
        np.testing.assert_array_equal(getattr(tape, name), getattr(whole, name)[:, :levels])
    np.testing.assert_array_equal(tape.ref, whole.ref)
    assert tape.levels == levels


@pytest.mark.parametrize(
    "change, suffix",
    [
        (lambda text: text, ".csv.gz"),
        (lambda text: text.replace("\n", "\r\n"), ".csv"),
        (lambda text: text.replace("\n", "\r\n"), ".gz"),
    ],
    ids=["gzipped", "Windows", "gzipped, Windows"],
)
def test_other_forms_of_the_same_files_are_read_alike(tmp_path, change, suffix):
    pair = get_pair("deep", 2)
    expected = read_lobster(*pair.write(tmp_path))
    changed = dataclasses.replace(pair, message=change(pair.message), orderbook=change(pair.orderbook))
    assert_same(read_lobster(*map(str, changed.write(tmp_path, suffix))), expected)


@pytest.mark.parametrize("size", [7, 1000])
def test_files_of_many_blocks_are_read_alike(tmp_path, monkeypatch, size):
    paths = get_pair("deep", 1).write(tmp_path)
    expected = read_lobster(*paths)
    monkeypatch.setattr("sims.data.lobster_text._BLOCK", size)
    monkeypatch.setattr("sims.data.tape_books._BLOCK", 7)
    assert_same(read_lobster(*paths), expected)


TIMES = {
    "34200.000000001": 34_200_000_000_001,
    "34200.017459617": 34_200_017_459_617,
    "57599.999999999": 57_599_999_999_999,
    "34200.1896": 34_200_189_600_000,
    "34200.5": 34_200_500_000_000,
    "36023": 36_023_000_000_000,
    "34200.12345678900": 34_200_123_456_789,
    "0.000000000": 0,
}


@pytest.mark.parametrize("text", TIMES)
def test_times_are_exact(tmp_path, text):
    paths = Pair(f"{text},1,5,10,1000000,1\n", "1000100,7,1000000,10\n").write(tmp_path)
    assert read_lobster(*paths).time.tolist() == [TIMES[text]]


@pytest.mark.parametrize(
    "prices, tick",
    [((1000100, 1000000), 100), ((1000400, 1000000), 100), ((1000150, 1000000), 50), ((1000101, 1000000), 1)],
)
def test_the_tick_is_a_cent_or_less(tmp_path, prices, tick):
    paths = Pair(f"34200.0,1,5,10,{prices[1]},1\n", f"{prices[0]},7,{prices[1]},10\n").write(tmp_path)
    assert read_lobster(*paths).tick == tick
    assert read_lobster(*paths, tick=1).tick == 1


def test_the_tick_is_that_of_prices_that_come_into_view(tmp_path):
    paths = Pair(
        "34200.0,1,5,10,1000000,1\n34200.0,3,5,10,1000000,1\n", "1000100,7,1000000,10\n1000100,7,999950,5\n"
    ).write(tmp_path)
    assert read_lobster(*paths).tick == 50


def test_trades_with_hidden_orders_may_be_between_ticks(tmp_path):
    paths = Pair("34200.0,1,5,10,1000000,1\n34200.0,5,0,1,1000050,1\n", "1000100,7,1000000,10\n" * 2).write(tmp_path)
    assert read_lobster(*paths).tick == 100


def test_a_cross_without_a_trade_has_no_price(tmp_path):
    paths = Pair("34200.0,6,-1,0,0,-1\n34200.1,6,-1,500,1000050,-1\n", "1000100,7,1000000,10\n" * 2).write(tmp_path)
    assert read_lobster(*paths).price.tolist() == [0, 1000050]


# A tape.


def test_a_tape_is_read_only_and_says_what_it_is(tmp_path):
    tape = read_lobster(*get_pair("deep", 1).write(tmp_path), notes=("a note",))
    assert re.fullmatch(
        r"Tape\(7\d\d messages, 5 levels a side, 09:30:00\.\d{3} to 10:00:\d\d\.\d{3}, tick 100\)", repr(tape)
    )
    assert tape.notes == ("a note",)
    for name in (*MESSAGE, *BOOK, "ref"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(tape, name)[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        tape.tick = 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda tape: pickle.loads(pickle.dumps(tape))])
def test_copies_of_a_tape_are_read_only_as_well(tmp_path, again):
    tape = read_lobster(*get_pair("thin", 1).write(tmp_path), tick=50, notes=("a note",))
    copied = again(tape)
    assert_same(copied, tape)
    assert not copied.ask_price.flags.writeable and not copied.ref.flags.writeable
    assert (copied.tick, copied.notes) == (50, ("a note",))


def test_a_tape_keeps_what_it_was_given(tmp_path):
    columns = columns_of(read_lobster(*get_pair("deep", 1).write(tmp_path)))
    mine = {name: column.copy() for name, column in columns.items()}
    tape = Tape(**mine)
    mine["price"][:] = 0
    np.testing.assert_array_equal(tape.price, columns["price"])


@pytest.mark.parametrize(
    "change, error, told",
    [
        (dict(time=np.array([0.5])), TypeError, "Tape, column 'time': expected integers, got the dtype float64"),
        (dict(time=np.array([True])), TypeError, "column 'time': expected integers, got the dtype bool"),
        (dict(time=np.array([], int)), ValueError, r"column 'time': expected the shape \(T,\), T >= 1, got \(0,\)"),
        (dict(size=np.array([1, 2])), ValueError, r"column 'size': expected the shape \(1,\), got \(2,\)"),
        (dict(ask_price=np.array([1])), ValueError, r"'ask_price': expected the shape \(T, L\), L >= 1, got \(1,\)"),
        (dict(bid_size=np.array([[1, 2]])), ValueError, r"'bid_size': expected the shape \(1, 1\), got \(1, 2\)"),
        (dict(size=np.array([2**31])), ValueError, "row 0, column 'size': expected an integer .*, got 2147483648"),
        (dict(kind=np.array([257])), ValueError, "Tape, row 0, column 'kind': .* from -128 to 127, got 257"),
        (dict(tick=0), ValueError, "tick: expected at least 1, got 0"),
        (dict(tick=0.5), TypeError, "tick: expected an integer, got float"),
        (dict(tick=300), ValueError, "Tape, row 0: expected prices that are multiples of the tick 300"),
    ],
)
def test_columns_that_are_no_tape_are_refused(change, error, told):
    given = dict(time=[0], kind=[1], order_id=[5], size=[10], price=[1000000], direction=[1])
    given |= dict(ask_price=[[1000100]], ask_size=[[7]], bid_price=[[1000000]], bid_size=[[10]])
    columns = {name: np.array(column) for name, column in given.items()}
    assert len(Tape(**columns)) == 1
    with pytest.raises(error, match=told):
        Tape(**{**columns, **change})


# Writing.


def columns_of(tape):
    return {name: getattr(tape, name) for name in (*MESSAGE, *BOOK)}


def assert_same(tape, expected):
    for name in (*MESSAGE, *BOOK, "ref"):
        np.testing.assert_array_equal(getattr(tape, name), getattr(expected, name), err_msg=name, strict=True)


@pytest.mark.parametrize("make, seed", PAIRS)
def test_what_is_written_is_read_back(tmp_path, make, seed):
    pair = get_pair(make, seed)
    tape = read_lobster(*pair.write(tmp_path))
    write_lobster(tape, tmp_path / "m.csv", str(tmp_path / "o.csv"))
    assert_same(read_lobster(tmp_path / "m.csv", tmp_path / "o.csv"), tape)
    assert (tmp_path / "m.csv").read_text() == pair.message.replace(",null", "")
    assert (tmp_path / "o.csv").read_text() == pair.orderbook


def test_columns_are_written_gzipped_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("sims.data.lobster._BLOCK", 100)
    pair = get_pair("deep", 1)
    tape = read_lobster(*pair.write(tmp_path))
    paths = tmp_path / "m.csv.gz", tmp_path / "o.csv.gz"
    write_lobster({name: column.tolist() for name, column in columns_of(tape).items()}, *paths)
    assert all(path.read_bytes()[4:8] == bytes(4) for path in paths)  # no time, by which the files would differ
    assert [gzip.decompress(path.read_bytes()).decode() for path in paths] == [pair.message, pair.orderbook]


def test_only_what_is_a_tape_is_written(tmp_path):
    columns = columns_of(read_lobster(*get_pair("deep", 1).write(tmp_path)))
    paths = tmp_path / "m.csv", tmp_path / "o.csv"
    with pytest.raises(ValueError, match="expected a Tape, or the columns time, kind, .*, got time"):
        write_lobster({"time": columns["time"]}, *paths)
    with pytest.raises(ValueError, match="Tape, row 0: expected a size of at least 1"):
        write_lobster({**columns, "size": 0 * columns["size"]}, *paths)
    assert not any(path.exists() for path in paths)


# The bundled pair.


def test_the_bundled_pair_is_read_and_says_that_it_is_synthetic():
    tape = sims.data.load_lobster()
    assert sims.data.load_lobster() is tape
    assert 1900 <= len(tape) <= 2200 and tape.levels == 10
    assert any("synthetic" in note for note in tape.notes)
    folder = Path(sims.data.__file__).parent
    sizes = [path.stat().st_size for path in folder.glob("synthetic_*_10.csv.gz")]
    assert len(sizes) == 2 and sum(sizes) < 150_000
    told = (folder / "README.md").read_text(encoding="utf-8")
    assert all(path.name in told for path in folder.glob("*.csv.gz")) and "synthetic" in told
