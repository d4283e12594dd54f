"""What the verbs share: mistakes of the user, output, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from sekai.errors import SekaiError

TABLE_WIDTH = 100

# What colours text on a terminal.
_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class CommandError(Exception):
    """A mistake of the user, to be told in one line."""


class OutputClosed(Exception):
    """Whoever read the output has gone."""


@contextmanager
def mistakes_of_the_user() -> Iterator[None]:
    """Turn what a wrong id or a wrong argument raises into a ``CommandError``."""
    try:
        yield
    except (SekaiError, ImportError, OSError, OverflowError, TypeError, ValueError) as error:
        raise CommandError(str(error)) from error


def emit(text: str) -> None:
    """Print what the user asked for. Characters that the output cannot hold are written as escapes.

    Raises:
        OutputClosed: Nobody reads it any more.
        CommandError: It cannot be written.
    """
    if sys.stdout is None:  # closed by the shell: `>&-`
        return
    try:
        print(_encodable(text, sys.stdout), flush=True)
    except BrokenPipeError as error:
        _give_up(sys.stdout)
        raise OutputClosed from error
    except OSError as error:
        _give_up(sys.stdout)
        raise CommandError(f"cannot write the output: {error.strerror or error}") from error


def complain(text: str) -> None:
    """Print an error message, if there is somewhere to print it to."""
    if sys.stderr is None:  # closed by the shell: `2>&-`
        return
    try:
        print(_encodable(text, sys.stderr), file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _give_up(stream: TextIO) -> None:
    """Let the interpreter flush what is left in the stream at exit without failing again."""
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream that is no file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def format_table(rows: Mapping[str, str]) -> str:
    """Two columns, names and values; a long value goes on below itself."""
    indent = max(map(len, rows)) + 2
    lines = []
    for name, value in rows.items():
        pieces = textwrap.wrap(value, TABLE_WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        lines.append(f"{name:<{indent}}" + ("\n" + " " * indent).join(pieces))
    return "\n".join(lines)


def format_columns(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if position == 0 else text.rjust(width)
            for position, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def without_codes(text: str) -> str:
    """The text without the escape sequences of colours, which Numba puts into its messages where it can."""
    return _CODES.sub("", text)


def number_of(number: int, one: str, several: str) -> str:
    """A number of things as text."""
    return f"{number:,} {one if number == 1 else several}"


def shorten(text: str, most: int) -> str:
    """The text on one line, its middle left out (between words, if it has any) past ``most`` characters."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head, tail = text[: most // 2 - 2], text[len(text) - (most // 2 - 3) :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"


def format_settings(settings: Mapping[str, Any]) -> str:
    """Arguments as they would stand in a call."""
    return ", ".join(f"{key}={value!r}" for key, value in settings.items()) or "-"


def to_json(data: Any) -> str:
    """One line of JSON; a number that is not finite becomes null, anything JSON lacks its repr."""
    return json.dumps(_finite(data), allow_nan=False, default=repr)


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [_finite(value) for value in data]
    return data
