"""Why Numba cannot compile a function, in one line that its author can read."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable
from typing import Any

from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

#: What Numba says of a global, or of a variable of an outer function, that it makes no constant of.
_OUTSIDE = (
    r"The use of a (?:reflected )?(?P<kind>\w+).* type, assigned to variable '(?P<name>\w+)' in globals, is not supp",
    r"Untyped global name '(?P<name>\w+)':\s*Cannot determine Numba type of <class '(?:.*\.)?(?P<kind>(?!Undef)\w+)'>",
    r"OverloadSelector object at \w+>, \((?P<kind>\w+)[^$]*lowering \"\S+ = (?:global|freevar)\((?P<name>\w+): ",
)


def being_compiled(error: BaseException) -> list[Any]:
    """The Python functions that were being compiled when an exception was raised, the innermost one last.

    None for what a compiled function raises when it runs. Not all that the compiler raises is Numba's own.
    """
    return [
        frame.f_locals["self"].py_func
        for frame in _frames(error)
        if frame.f_code.co_name == "compile" and isinstance(frame.f_locals.get("self"), Dispatcher)
    ]


def is_of_compiler(error: BaseException) -> bool:
    """Whether an exception says that something cannot be compiled."""
    return isinstance(error, NumbaError) or bool(being_compiled(error))


def reason_of(error: Exception, records: Iterable[Any] = ()) -> str:
    """What the compiler has against a function, and the line that it is about.

    Args:
        error: What it raised.
        records: Classes of named tuples whose fields are worth being told.
    """
    text = re.sub(r"\x1b\[\d*m", "", str(error))  # without the colours that it has where there is colorama
    text = re.sub(r"Failed in nopython mode pipeline \(step: [^\n]*\)\n|\. Raised from None", "", text)
    return f"{_message(error, text, {each.__name__: each for each in records})}{_line(error, text)}"


def name_of_type(kind: Any) -> str:
    """A Numba type as an author knows it."""
    if isinstance(kind, types.BaseTuple):
        return f"({', '.join(map(name_of_type, kind))}{',' if len(kind) == 1 else ''})"
    if isinstance(kind, types.Optional):
        return f"{name_of_type(kind.type)} or None"
    if isinstance(kind, types.Array):
        return f"an array of {kind.dtype}"
    if isinstance(kind, (types.Boolean, types.BooleanLiteral)):
        return "bool"
    if isinstance(kind, types.Literal):
        return name_of_type(kind.literal_type)
    return {"none": "None", "unicode_type": "str"}.get(str(kind), str(kind))


def _frames(error: BaseException) -> Iterable[Any]:
    entry: Any = error.__traceback__
    while entry is not None:
        yield entry.tb_frame
        entry = entry.tb_next


def _message(error: Exception, text: str, records: dict[str, Any]) -> str:
    unknown = re.search(r"Unknown attribute '(\w+)' of type (\w+)\(", text)
    if unknown and unknown[2] in records:
        fields = ", ".join(records[unknown[2]]._fields)
        return f"{unknown[2]} has no field {unknown[1]!r}, expected one of: {fields or 'none'}"
    assigned = re.search(r"No definition for lowering (\w+)\(.*\)\.(\w+) = ", text)
    if assigned:
        got = f"expected no assignment to a field of a named tuple, got one to {assigned[1]}.{assigned[2]}"
        return f"{got}; what it has for row i, if it is a column, is {assigned[2]}[i]"
    plain = re.search(r"Untyped global name '(\w+)':\s*Cannot determine Numba type of <class 'function'>", text)
    if plain:
        return f"{plain[1]} is a plain Python function, expected one compiled by sekai.kernels.jit"
    outside = next((found for found in (re.search(form, text) for form in _OUTSIDE) if found), None)
    if outside:
        kind = {"List": "list", "Set": "set"}.get(outside["kind"], outside["kind"])
        got = f"{outside['name']}, from outside the function, is of type {kind}, which compiled code cannot read"
        return f"{got}: expected a number, a tuple of numbers or a NumPy array there, or a field of the parameters"
    no_form = re.search(r"No implementation of function .*found for signature:\s*>>> ([^\n]+)", text)
    if no_form:
        return f"there is no {no_form[1]} in compiled code"
    message = " ".join(re.split(r"\n\s*File \"|\n\s*During: ", text, maxsplit=1)[0].split())
    return message if isinstance(error, NumbaError) else f"{type(error).__name__}: {message}"


def _line(error: Exception, text: str) -> str:
    """The line, from Numba's text or from what it was compiling."""
    found = re.search(r'File "([^"\n]+)", line (\d+):\n(?:.*\n)*?(.+)\n\s*\^', text)
    lowered = re.search(r'During: lowering "[^\n]*" at ([^\n]+) \((\d+)\)', text)
    if lowered and not (found and found.start() < lowered.start()):
        return _place(lowered[1], int(lowered[2]), linecache.getline(lowered[1], int(lowered[2])))
    if found:
        return _place(found[1], int(found[2]), found[3])
    for frame in reversed(list(_frames(error))):
        loc = getattr(frame.f_locals.get("inst"), "loc", None)
        if loc is not None and loc.line:
            return _place(loc.filename, loc.line, linecache.getline(loc.filename, loc.line))
    return ""


def _place(file: str, line: int, source: str) -> str:
    return f" ({os.path.basename(file)}, line {line}: {source.strip()})"
