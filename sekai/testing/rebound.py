"""Row functions that give the name of what they are to write into to something else, so that nothing is written."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

from sekai.vector import KernelVecEnv

#: What is written into, by row function.
_WRITTEN_INTO = {"observe_row": "observation", "mask_row": "mask"}
#: What has names of its own.
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def rebound_hints(market: type) -> list[str]:
    """Hints at row functions of a ``KernelVecEnv`` class that assign to the bare name of what they are to write into.

    The source tells; where there is none, nothing does. A name that is read first may well be given to a part of what
    it was, ``mask = mask[0]``, so only an assignment that comes first counts.
    """
    if not issubclass(market, KernelVecEnv):
        return []
    hints = []
    for row, argument in _WRITTEN_INTO.items():
        kernel = getattr(market, row, None)
        place = _rebinding(getattr(kernel, "py_func", kernel), argument)
        if place is not None:
            hints.append(
                f"{market.__name__}.{row} ({place}): assigns to the name {argument}, which leaves the array as it "
                f"was; write into it, {argument}[...] = ..."
            )
    return hints


def _rebinding(function: Any, argument: str) -> str | None:
    """The file and line in which a function assigns to an argument before it has done anything else with it."""
    try:
        lines, start = inspect.getsourcelines(function)
        tree = ast.parse(dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            uses = (use for statement in node.body for use in _uses(statement, argument))
            line, is_assignment = next(uses, (0, False))
            return f"{inspect.getsourcefile(function)}, line {start + line - 1}" if is_assignment else None
    return None


def _uses(node: ast.AST, name: str) -> Iterator[tuple[int, bool]]:
    """The lines in which a name is used, in the order of evaluation, and whether each use gives it to something."""
    if isinstance(node, ast.Name):
        if node.id == name:
            yield node.lineno, isinstance(node.ctx, ast.Store)
        return
    # An array is changed in place by "*=", and a name of an inner scope is another one.
    is_other = isinstance(node, (ast.AugAssign, *_SCOPES))
    value = getattr(node, "value", None)  # of an assignment comes first
    for child in sorted(ast.iter_child_nodes(node), key=lambda child: child is not value):
        for line, is_assignment in _uses(child, name):
            yield line, is_assignment and not is_other
