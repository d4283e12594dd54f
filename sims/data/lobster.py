"""Pairs of files in the format of LOBSTER (lobsterdata.com): messages, and the book after each of them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import check_count
from sims.data.lobster_text import read_integers
from sims.data.tape import BOOK, MESSAGE, Tape
from sims.data.tape_messages import Origin

#: Rows that are made text at once.
_BLOCK = 50_000


def read_lobster(
    message: str | os.PathLike[str],
    orderbook: str | os.PathLike[str],
    *,
    levels: int | None = None,
    tick: int | None = None,
    notes: tuple[str, ...] = (),
) -> Tape:
    """A pair of LOBSTER's files, once it is seen to agree with itself.

    Args:
        message: The path of the messages, gzipped or not, without a header: time in seconds after midnight (read
            exactly, to the nanosecond), type, order id, size, price, direction. What a seventh column holds does not
            matter.
        orderbook: The path of the books: ask price, ask size, bid price, bid size, level by level; row k is the book
            after message k.
        levels: How many levels a side to read of those in the file; None for all. Messages at prices below them stay
            in the tape.
        tick: As for ``Tape``.
        notes: As for ``Tape``.

    Returns:
        A ``Tape``, which tells what is checked.

    Raises:
        TypeError: An argument is none of these.
        ValueError: A file is torn, is not of this format or has fewer levels; one is longer than the other; or a row
            does not follow from the row before and its message. The error names file and line, what was expected and
            what came.
        OSError: A file cannot be read: FileNotFoundError where there is none.

    Examples:
        >>> tape = read_lobster("message_10.csv", "orderbook_10.csv")  # doctest: +SKIP
        >>> tape
        Tape(400,391 messages, 10 levels a side, 09:30:00.004 to 15:59:59.913, tick 100)
    """
    if levels is not None:
        levels = check_count(levels, "levels")
    origin = Origin(os.fspath(message), os.fspath(orderbook), "line", 1)
    messages = read_integers(message, lambda found: 6 if found in (6, 7) else None, "6 or 7", times=True)

    def count_columns(found: int) -> int | None:
        if levels is not None and found % 4 == 0 and found < 4 * levels:
            raise ValueError(f"{origin.orderbook}: expected at least levels={levels} levels, got {found // 4}")
        return None if found % 4 else 4 * (levels or found // 4)

    books = read_integers(orderbook, count_columns, "4 a level", times=False)
    if len(messages) != len(books):
        (least, shorter), (most, longer) = sorted([(len(messages), origin.message), (len(books), origin.orderbook)])
        raise ValueError(f"{longer}, line {least + 1}: expected as many lines as in {shorter}, {least}, got {most}")
    columns: dict[str, Any] = {name: messages[:, i] for i, name in enumerate(MESSAGE)}
    columns |= {name: books[:, i::4] for i, name in enumerate(BOOK)}
    return Tape(**columns, tick=tick, notes=notes, origin=origin)


def write_lobster(
    tape: Tape | Mapping[str, ArrayLike], message: str | os.PathLike[str], orderbook: str | os.PathLike[str]
) -> None:
    """Write a tape as a pair of LOBSTER's files, which ``read_lobster`` reads back to equal columns.

    Args:
        tape: A ``Tape``, or its columns by name, which are checked as those of one.
        message: The path of the messages; gzipped where it ends in ".gz". A file that is there is overwritten.
        orderbook: The path of the books.

    Raises:
        TypeError: As for ``Tape``.
        ValueError: As for ``Tape``; or a column is missing, or one too many.
        OSError: A file cannot be written.
    """
    if not isinstance(tape, Tape):
        names = [*MESSAGE, *BOOK]
        if sorted(tape) != sorted(names):
            raise ValueError(
                f"write_lobster(tape=...): expected a Tape, or the columns {', '.join(names)}, got "
                f"{', '.join(map(str, tape)) or 'none'}"
            )
        columns: dict[str, Any] = {name: np.asarray(tape[name]) for name in names}
        tape = Tape(**columns)
    with _open(message) as file:
        for start in range(0, len(tape), _BLOCK):
            parts = [getattr(tape, name)[start : start + _BLOCK].tolist() for name in MESSAGE]
            for time, *rest in zip(*parts, strict=True):
                file.write(b"%d.%09d,%d,%d,%d,%d,%d\n" % (*divmod(time, 10**9), *rest))
    with _open(orderbook) as file:
        for start in range(0, len(tape), _BLOCK):
            sides: list[NDArray[Any]] = [getattr(tape, name)[start : start + _BLOCK] for name in BOOK]
            for row in np.stack(sides, axis=2).reshape(-1, 4 * tape.levels).tolist():
                file.write(",".join(map(str, row)).encode() + b"\n")


def _open(path: str | os.PathLike[str]) -> IO[bytes]:
    # The same bytes whenever they are written: without the time.
    return gzip.GzipFile(path, "wb", mtime=0) if Path(path).suffix == ".gz" else open(path, "wb")  # type: ignore[return-value]
