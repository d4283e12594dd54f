"""The kernels that a market reaches: found in the code of its class, in the functions that calls, and so on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

from sekai.vector import KernelVecEnv


@dataclass
class Kernels:
    """What a market computes with.

    Attributes:
        batches: What ``jit_batch`` made.
        dispatchers: What else numba compiles.
        plain: Names of plain functions that are called as kernels are: ``advance_<market>`` or ``<thing>_row``.
    """

    batches: list[Any] = field(default_factory=list)
    dispatchers: list[Any] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)


def find_kernels(market: Any) -> Kernels:
    """The kernels that an object's class and attributes reach, but for those of the kit itself."""
    classes = type(market).__mro__
    homes = {_package(each.__module__) for each in classes} - {"sekai", *sys.stdlib_module_names}
    kernels = Kernels()
    seen: dict[int, Any] = {}
    waiting: list[Any] = [*classes, *vars(market).values()]
    if isinstance(market, KernelVecEnv):
        kernels.batches.append(market.compiled_step)
        waiting += market.row_functions
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen[id(value)] = value
        package = _package(getattr(value, "__module__", None))
        if package == "sekai":
            continue
        if hasattr(value, "py_func"):
            found = kernels.batches if hasattr(value, "dispatchers") else kernels.dispatchers
            found.append(value)
            waiting += _reached(value.py_func)
        elif package not in homes:
            continue
        elif isinstance(value, FunctionType):
            if value.__name__.startswith("advance_") or value.__name__.endswith("_row"):
                kernels.plain.append(value.__name__)
            waiting += _reached(value)
        elif isinstance(value, type):
            for member in map(_function_of, vars(value).values()):
                waiting += [member] if hasattr(member, "py_func") else _reached(member)
        else:
            waiting.append(type(value))
    return kernels


def _package(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def _function_of(member: Any) -> Any:
    """The function inside a property, cached_property, staticmethod or classmethod."""
    for holder in ("fget", "func", "__func__"):
        member = getattr(member, holder, None) or member
    return member


def _reached(function: Any) -> Iterator[Any]:
    """What a function's code names: globals, attributes of modules, and what it closes over."""
    if not isinstance(function, FunctionType):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    names = set(_names(function.__code__))
    for name in sorted(names):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from (vars(value)[attribute] for attribute in sorted(names) if attribute in vars(value))
        elif value is not None:
            yield value


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
