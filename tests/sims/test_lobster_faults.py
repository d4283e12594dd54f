"""Pairs of LOBSTER's files that are torn, or do not agree with themselves, are refused with file and line."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest
from synthetic_lobster import MAKES, Pair, get_pair

from sims.data import read_lobster

GOOD_MESSAGES = [
    "34200.000000000,1,11,100,999900,1",
    "34200.000000001,1,12,50,1000100,-1",  # inserts a level
    "34200.000000001,4,12,20,1000100,-1",
    "34200.000000002,2,11,40,999900,1",
    "34201.500000000,3,12,30,1000100,-1",  # removes it, another comes into view
    "34202.000000000,5,11,10,1000050,1",  # its id means nothing
    "34203.000000000,7,0,0,-1,-1",
    "34204.000000000,7,0,0,1,-1",
    "34205.000000000,3,3,70,999800,1",  # from before the first row; none is left below
]
GOOD_ROWS = [
    "1000200,10,999900,100,1000300,20,999800,70",
    "1000100,50,999900,100,1000200,10,999800,70",
    "1000100,30,999900,100,1000200,10,999800,70",
    "1000100,30,999900,60,1000200,10,999800,70",
    "1000200,10,999900,60,1000300,25,999800,70",
    "1000200,10,999900,60,1000300,25,999800,70",
    "1000200,10,999900,60,1000300,25,999800,70",
    "1000200,10,999900,60,1000300,25,999800,70",
    "1000200,10,999900,60,1000300,25,-9999999999,0",
]

M, B = "message.csv", "orderbook.csv"
#: The file and the line that the error names; file, line and column of what is put in, and that (None: the cell goes),
#: once or several times; and words of the error. The first line is line 1.
FAULTS = [
    (M, 3, (M, 3, 1, "34200.0000000011"), "expected seconds with at most 9 decimals, got '34200.0000000011'"),
    (M, 3, (M, 3, 1, "3.42e4"), "column 1: expected seconds .*, got '3.42e4'"),
    (M, 3, (M, 3, 1, "-1.0"), "column 1: expected seconds .*, got '-1.0'"),
    (M, 3, (M, 3, 1, "34200.-1"), "column 1: expected seconds .*, got '34200.-1'"),
    (M, 3, (M, 3, 1, "nan"), "column 1: expected seconds .*, got 'nan'"),
    (M, 3, (M, 3, 1, ""), "column 1: expected seconds .*, got ''"),
    (M, 1, (M, 1, 2, "type"), "column 2: expected an integer of at most 18 digits, got 'type'"),
    (M, 4, (M, 4, 4, "40.0"), "column 4: expected an integer .*, got '40.0'"),
    (M, 4, (M, 4, 4, " 40"), "column 4: expected an integer .*, got ' 40'"),
    (M, 4, (M, 4, 4, "+40"), "column 4: expected an integer .*, got '\\+40'"),
    (M, 4, (M, 4, 6, "-"), "column 6: expected an integer .*, got '-'"),
    (M, 4, (M, 4, 3, "1234567890123456789"), "column 3: expected an integer of at most 18 digits"),
    (B, 4, (B, 4, 4, "x"), "column 4: expected an integer .*, got 'x'"),
    (B, 4, (B, 4, 4, "1\0"), "column 4: expected an integer"),
    (M, 5, (M, 5, 6, "-1,9"), "expected 6 columns, got 7"),
    (B, 5, (B, 5, 8, "70,1", B, 6, 8, None), "expected 8 columns, got 9"),  # as many as there should be in all
    (M, 5, (M, 5, 6, None), "expected 6 columns, got 5"),
    (B, 5, (B, 5, 8, None), "expected 8 columns, got 7"),
    (B, 1, (B, 1, 8, None), "expected 4 a level columns, got 7"),
    (M, 1, (M, 1, 6, None), "expected 6 or 7 columns, got 5"),
    (M, 4, (M, 4, 1, "34200.000000000"), "expected times that never fall, got 34200.000000000 s after 34200.000000001"),
    (M, 6, (M, 6, 2, "8"), "expected a type from 1 to 7, got 8"),
    (M, 6, (M, 6, 2, "0"), "expected a type from 1 to 7, got 0"),
    (M, 4, (M, 4, 4, "0"), "expected a size of at least 1 .*, got 0 in a message of type 2"),
    (M, 1, (M, 1, 4, "-100"), "expected a size of at least 1 .*, got -100"),
    (M, 6, (M, 6, 4, "0"), "expected a size of at least 1 .*, got 0 in a message of type 5"),
    (M, 7, (M, 7, 4, "-1"), "expected a size of at least 1 .*, got -1 in a message of type 7"),
    (M, 1, (M, 1, 4, "4294967396"), "column 'size': expected an integer from -2147483648 to 2147483647"),
    (M, 4, (M, 4, 5, "0"), "expected a price above 0 .*, got 0"),
    (M, 6, (M, 6, 5, "-5"), "expected a price above 0 .*, got -5"),
    (M, 4, (M, 4, 5, "9999999999"), "expected a price above 0 .*, got 9999999999"),
    (M, 6, (M, 6, 2, "6", M, 6, 5, "0"), "expected a price above 0 .*, got 0 in a message of type 6"),
    (M, 7, (M, 7, 5, "2"), "expected a price .* of halts -1, 0 or 1, got 2"),
    (M, 4, (M, 4, 6, "0"), "expected the direction 1 or -1, got 0"),
    (M, 7, (M, 7, 6, "2"), "expected the direction 1 or -1, got 2"),
    (B, 3, (B, 3, 1, "999900"), "expected an ask above the bid, got the ask 999900 and the bid 999900"),
    (B, 3, (B, 3, 3, "1000150"), "expected an ask above the bid"),
    (B, 3, (B, 3, 1, "1000300"), "ask 2: expected prices from the best on, got 10 at 1000200 below 30 at 1000300"),
    (B, 3, (B, 3, 5, "1000100"), "ask 2: expected prices from the best on"),
    (B, 3, (B, 3, 3, "-9999999999"), "bid 1: expected a size of at least 1, of 0 where there is none, got 100 at"),
    (B, 9, (B, 9, 8, "5"), "bid 2: expected a size of .*, of 0 where there is none, got 5 at -9999999999"),
    (B, 3, (B, 3, 6, "0"), "ask 2: expected a size of at least 1, .*, got 0 at 1000200"),
    (B, 3, (B, 3, 6, "-3"), "ask 2: expected a size of at least 1, .*, got -3 at 1000200"),
    (B, 3, (B, 3, 7, "0"), "bid 2: expected a price above 0, or -9999999999 for none, got 70 at 0"),
    (B, 3, (B, 3, 7, "-999800"), "bid 2: expected a price above 0"),
    (B, 3, (B, 3, 5, "-1"), "ask 2: expected a price above 0, or 9999999999 for none"),
    # Messages that contradict each other.
    (M, 2, (M, 2, 3, "11"), "expected an id of its own for a new order, got 11, which was submitted in line 1"),
    (M, 4, (M, 4, 5, "999800"), "order 11: expected the price 999900, at which it was submitted in line 1, got 999800"),
    (M, 4, (M, 4, 6, "-1"), "order 11: expected the direction 1, at which it was submitted in line 1, got -1"),
    (M, 5, (M, 5, 4, "31"), "order 12: expected at most 50 shares to leave, .* in line 2, got 51 by here"),
    (M, 3, (M, 2, 3, "14", M, 5, 2, "1", M, 5, 3, "12"), "expected a new order before what .*, got it in line 5"),
    # Messages and books that do.
    (
        B,
        2,
        (M, 2, 4, "51"),
        "expected 51 at 1000100 as ask 1, got 50 at .*after the message 1,12,51,1000100,-1",
    ),
    (B, 3, (B, 3, 2, "31"), "expected 30 at 1000100 as ask 1, got 31 at 1000100"),
    (B, 3, (B, 3, 8, "71"), "expected 70 at 999800 as bid 2, got 71 at 999800"),
    (B, 4, (M, 4, 2, "1", M, 4, 3, "13"), "expected 140 at 999900 as bid 1, got 60 at 999900"),
    (B, 6, (B, 6, 4, "50"), "expected 60 at 999900 as bid 1, got 50 at 999900 .*after the message 5,11,10,1000050,1"),
    (B, 7, (B, 7, 4, "50"), "expected 60 at 999900 as bid 1, got 50"),
    (B, 9, (M, 9, 5, "999850"), "expected at least 70 shares at 999850 on the bid side, got 0"),
    (B, 9, (M, 9, 4, "71"), "expected at least 71 shares at 999800 on the bid side, got 70"),
    (B, 9, (M, 9, 4, "69"), "expected 1 at 999800 as bid 2, got no level"),
    (B, 9, (M, 9, 6, "-1"), "expected at least 70 shares at 999800 on the ask side, got 0"),
]


def write(folder, messages=GOOD_MESSAGES, rows=GOOD_ROWS):
    return Pair(*("".join(f"{line}\n" for line in lines) for lines in (messages, rows))).write(folder)


def test_the_lines_that_faults_are_put_into_are_good(tmp_path):
    assert read_lobster(*write(tmp_path)).ref.tolist() == [0, 1, 1, 0, 1, -1, -1, -1, -1]


@pytest.mark.parametrize("file, line, edits, told", FAULTS, ids=[f"{f} {i}" for i, (f, *_) in enumerate(FAULTS)])
def test_a_fault_is_named_with_its_file_and_line(tmp_path, file, line, edits, told):
    texts = {M: list(GOOD_MESSAGES), B: list(GOOD_ROWS)}
    for target, at, column, value in zip(*(edits[i::4] for i in range(4)), strict=True):
        cells = texts[target][at - 1].split(",")
        cells[column - 1 : column] = [] if value is None else [value]
        texts[target][at - 1] = ",".join(cells)
    paths = write(tmp_path, texts[M], texts[B])
    with pytest.raises(ValueError) as error:
        read_lobster(*paths)
    words = str(error.value)
    assert words.startswith(f"{tmp_path / file}, line {line}") and re.search(told, words), words


NEWLINE = "expected a line that ends in a newline, got half a line"


@pytest.mark.parametrize(
    "message, orderbook, told",
    [
        ("", "1,1,1,1\n", "message.csv: expected a line for each message, got an empty file"),
        (f"{GOOD_MESSAGES[0]}\n", "", "orderbook.csv: expected a line for each message, got an empty file"),
        ("\n", "1,1,1,1\n", "message.csv, line 1: expected 6 or 7 columns, got 1"),
        (f"{GOOD_MESSAGES[0]}\n\n", f"{GOOD_ROWS[0]}\n", r"message.csv, line 2: expected 6 columns, got 1 \(''\)"),
        (GOOD_MESSAGES[0], f"{GOOD_ROWS[0]}\n", rf"message.csv, line 1: {NEWLINE} \('34200.000000000,1,11,.*'\): if"),
        (f"{GOOD_MESSAGES[0]}\n", f"{GOOD_ROWS[0]}\n10002", rf"orderbook.csv, line 2: {NEWLINE} \('10002'\)"),
        (
            "".join(f"{line}\n" for line in GOOD_MESSAGES[:2]),
            f"{GOOD_ROWS[0]}\n",
            "message.csv, line 2: expected as many lines as in .*orderbook.csv, 1, got 2",
        ),
        (
            f"{GOOD_MESSAGES[0]}\n",
            "".join(f"{line}\n" for line in GOOD_ROWS[:3]),
            "orderbook.csv, line 2: expected as many lines as in .*message.csv, 1, got 3",
        ),
    ],
    ids=["no messages", "no books", "a blank", "a blank line", "half", "half a row", "more messages", "more books"],
)
def test_torn_and_unequal_files_are_refused(tmp_path, message, orderbook, told):
    paths = Pair(message, orderbook).write(tmp_path)
    with pytest.raises(ValueError, match=told):
        read_lobster(*paths)


def test_a_torn_gzip_file_is_refused(tmp_path):
    message, orderbook = get_pair("deep", 1).write(tmp_path, ".csv.gz")
    orderbook.write_bytes(orderbook.read_bytes()[:-900])
    with pytest.raises(ValueError, match=r"orderbook.csv.gz, line 1 or below: cannot be unpacked"):
        read_lobster(message, orderbook)


@pytest.mark.parametrize("line", [1, 350, 700])
def test_a_fault_in_any_block_has_its_line(tmp_path, monkeypatch, line):
    monkeypatch.setattr("sims.data.lobster_text._BLOCK", 1000)
    pair = get_pair("deep", 1)
    rows = pair.orderbook.splitlines(keepends=True)
    rows[line - 1] = rows[line - 1].replace(",", ",?", 1)
    paths = dataclasses.replace(pair, orderbook="".join(rows)).write(tmp_path)
    with pytest.raises(ValueError, match=rf"orderbook.csv, line {line}, column 2: expected an integer"):
        read_lobster(*paths)


@pytest.mark.parametrize("make", ["deep", "thin", "all told"])
def test_a_book_with_any_number_changed_is_refused(tmp_path, monkeypatch, make):
    monkeypatch.setattr("sims.data.tape_books._BLOCK", 100)
    pair = get_pair(make, 1)
    paths = pair.write(tmp_path)
    rows = [[int(cell) for cell in line.split(",")] for line in pair.orderbook.splitlines()]
    rng = random.Random(make)
    for _ in range(60):
        row, column = rng.randrange(len(rows) - 1), rng.randrange(4 * MAKES[make]["levels"])
        changed = [list(each) for each in rows]
        changed[row][column] += rng.choice((-1, 1))
        paths[1].write_text("".join(",".join(map(str, each)) + "\n" for each in changed))
        with pytest.raises(ValueError) as error:
            read_lobster(*paths)
        # A level that has just come into view is as its row says: the next one tells.
        lines = re.match(rf"{re.escape(str(paths[1]))}, line (\d+)", str(error.value))
        assert lines is not None and int(lines[1]) - row in (1, 2), str(error.value)


def test_a_pair_with_a_message_left_out_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sims.data.tape_books._BLOCK", 6)
    pair = get_pair("deep", 2)
    messages, rows = (text.splitlines(keepends=True) for text in (pair.message, pair.orderbook))
    rng = random.Random(0)
    for _ in range(30):
        row = rng.randrange(1, len(rows) - 1)
        if rows[row] == rows[row - 1]:
            continue  # nothing changed
        paths = [tmp_path / "left_message.csv", tmp_path / "left_orderbook.csv"]
        for path, lines in zip(paths, (messages, rows), strict=True):
            path.write_text("".join(lines[:row] + lines[row + 1 :]))
        with pytest.raises(ValueError, match=rf"left_orderbook.csv, line {row + 1}: expected"):
            read_lobster(*paths)


def test_no_level_comes_into_view_where_all_were(tmp_path):
    messages = ["34200.0,1,1,10,100,1", "34200.0,3,1,10,100,1"]
    assert len(read_lobster(*write(tmp_path, messages, ["200,5,100,10", "200,5,90,30"]))) == 2
    rows = ["200,5,100,10,300,5,-9999999999,0", "200,5,90,30,300,5,-9999999999,0"]
    with pytest.raises(ValueError, match="line 2: expected no level as bid 1, got 30 at 90"):
        read_lobster(*write(tmp_path, messages, rows))


@pytest.mark.parametrize("levels, told", [(6, "at least levels=6 levels, got 5"), (0, "levels: .* at least 1, got 0")])
def test_levels_that_are_not_there_are_refused(tmp_path, levels, told):
    with pytest.raises(ValueError, match=told):
        read_lobster(*get_pair("deep", 1).write(tmp_path), levels=levels)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_lobster(tmp_path / M, tmp_path / B)
