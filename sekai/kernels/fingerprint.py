"""What a compiled function is made of, as texts that change whenever it does.

They come from the functions in memory, whose bytecode, constants, defaults and options, whose closures and globals, and
whose overloads are followed through every function they reach; and, for what those do not tell, from the files they
were read from. What cannot be described is ``Unknown``: then nothing is kept.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import os
import sys
import time
import types as python_types
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numba.core import types
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from sekai.kernels.constants import Constant, ConstantType, class_members
from sekai.kernels.extensions import EXTENSIONS, is_versioned
from sekai.kernels.files import Origin


class Unknown(Exception):
    """Something that a kernel reaches and that cannot be told apart from its next version."""


class Description(NamedTuple):
    """What a function is made of.

    Attributes:
        texts: They change with anything that its compiled code depends on.
        origin: Where it comes from.
    """

    texts: list[str]
    origin: Origin


def describe(function: Any, kinds: Iterable[Any] = ()) -> Description:
    """What the compiled code of a function depends on.

    Args:
        function: The function.
        kinds: The types of its arguments: of named tuples it may call what their classes have.

    Raises:
        Unknown: It reaches something that cannot be described, or that is no longer what it was when it may have been
            compiled.
    """
    cpu_target.typing_context.refresh()  # so that it knows all overloads
    EXTENSIONS.look()
    plain = _plain(function)
    waiting = [plain]
    texts: list[str] = []
    for each in _classes_of(kinds):
        for name, member in _members_of(each).items():
            if getattr(member, "is_kernel", False):
                waiting.append(_plain(member))
                texts.append(_describe_member(each, name, member))
    seen: set[int] = set()
    sources: set[tuple[str, str]] = set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            parts = _Parts(each)
            if _COMPILED_FROM.setdefault(each, parts) != parts:
                raise Unknown(f"{each.__module__}.{each.__qualname__}, which has changed")
            texts += parts.texts
            sources.update(parts.sources)
            waiting += parts.functions
    paths = sorted({path for path, _ in sources})
    kernel = _digest_of(f"{plain.__module__}.{plain.__qualname__}", *paths)
    return Description(texts, Origin(kernel, _digest_of(*map(repr, sorted(sources)))))


def _digest_of(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "backslashreplace")).digest()


class _Parts:
    """What one function is made of.

    Attributes:
        texts: Descriptions of its code, its source file and the values that it reaches.
        sources: The paths and digests of its source files.
        functions: The Python functions that it reaches.
    """

    def __init__(self, function: python_types.FunctionType) -> None:
        self.functions: list[python_types.FunctionType] = []
        self.sources = _sources_of(function)
        self.texts = [f"{function.__module__}.{function.__qualname__}", *(digest for _, digest in self.sources)]
        replacements = _replacements(function)
        if replacements is None:
            self.texts += _describe_code(function.__code__)
        for name, value in _reached(function) if replacements is None else replacements:
            self.texts += [name, *self._describe(value)]
        for form in EXTENSIONS.of_names(_attribute_names(function.__code__)):
            self.texts += ["extension", *self._describe(form)]
        # Any code may use an operator, without a name.
        self.functions += map(_plain, EXTENSIONS.of_operators())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and (self.texts, self.functions) == (other.texts, other.functions)

    def _describe(self, value: Any) -> Iterator[str]:
        plain = _plain(value)
        if isinstance(plain, python_types.FunctionType):
            yield f"function {plain.__module__}.{plain.__qualname__} {getattr(value, 'targetoptions', None)}"
            if not is_versioned(plain.__module__):
                self.functions.append(plain)
            else:
                for form in EXTENSIONS.of_function(value):
                    yield from self._describe(form)
        elif isinstance(value, (tuple, list)):
            yield f"{type(value).__name__} {len(value)} {getattr(value, '_fields', None)}"
            for item in value:
                yield from self._describe(item)
        elif isinstance(value, types.Type):
            yield from describe_type(value)
        elif _is_named_tuple(value):
            yield _describe_value(value)
            for name, member in _members_of(value).items():
                yield name
                yield from self._describe(member)
        else:
            yield _describe_value(value)
            for form in EXTENSIONS.of_function(value):
                yield from self._describe(form)


#: What each function was made of when it was described first, which is before it was compiled: its compiled forms, in
#: this process, stay those even if its globals change.
_COMPILED_FROM: WeakKeyDictionary[Any, _Parts] = WeakKeyDictionary()


def _plain(value: Any) -> Any:
    """The Python function inside a dispatcher or an intrinsic; anything else as it is."""
    if not isinstance(value, python_types.FunctionType):
        for name in ("py_func", "_defn", "__wrapped__"):
            inner = getattr(value, name, None)
            if isinstance(inner, python_types.FunctionType):
                return inner
    return value


def _describe_code(code: python_types.CodeType) -> Iterator[str]:
    yield repr((code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_argcount, code.co_kwonlyargcount))
    yield repr(getattr(code, "co_exceptiontable", b""))
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            yield from _describe_code(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _reached(function: python_types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The defaults, the closure and the globals of a function, with the attributes it may read from modules."""
    yield "defaults", (function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items())))
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield from _reached_by_name(name, cell.cell_contents, code)
        except ValueError:  # it has no value yet
            raise Unknown(name) from None
    for name in sorted(_global_names(code)):
        if name in function.__globals__:
            yield from _reached_by_name(name, function.__globals__[name], code)
        elif EXTENSIONS.of_function(getattr(builtins, name, None)):
            yield name, getattr(builtins, name)


def _reached_by_name(name: str, value: Any, code: python_types.CodeType) -> Iterator[tuple[str, Any]]:
    if isinstance(value, python_types.ModuleType):
        yield name, value.__name__
        yield from _reached_in_modules(value, code)
    else:
        yield name, value


def _reached_in_modules(module: python_types.ModuleType, code: python_types.CodeType) -> Iterator[tuple[str, Any]]:
    """What a module, and the modules it has, have under any name that the code reads an attribute by."""
    attributes = sorted(_attribute_names(code))
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        each = waiting.pop()
        if each.__name__ in seen:
            continue
        seen.add(each.__name__)
        for attribute in attributes:
            value = getattr(each, attribute, None)
            if isinstance(value, python_types.ModuleType):
                yield f"{each.__name__}.{attribute}", value.__name__
                waiting.append(value)
            elif value is not None and (not is_versioned(each.__name__) or EXTENSIONS.of_function(value)):
                yield f"{each.__name__}.{attribute}", value


def _replacements(function: python_types.FunctionType) -> list[tuple[str, Any]] | None:
    """The overloads that Numba compiles in the place of a function; None if it has none, nor another form, for it."""
    try:
        kind = cpu_target.typing_context.resolve_value_type(function)
    except (ValueError, NumbaError):
        return None
    forms = [getattr(template, "_overload_func", None) for template in getattr(kind, "templates", ())]
    return [("overload", form) for form in forms if form is not None]


def _nested(code: python_types.CodeType) -> Iterator[python_types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            yield from _nested(constant)


@cache
def _global_names(code: python_types.CodeType) -> set[str]:
    return {
        step.argval
        for each in _nested(code)
        for step in dis.get_instructions(each)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and isinstance(step.argval, str)
    }


@cache
def _attribute_names(code: python_types.CodeType) -> set[str]:
    names = {name for each in _nested(code) for name in each.co_names}
    if "getattr" in names:  # which takes a constant as a name
        names |= {constant for each in _nested(code) for constant in each.co_consts if isinstance(constant, str)}
    return names


#: What the class of each named tuple had besides its fields when it was described first.
_MEMBERS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def _members_of(kind: Any) -> dict[str, Any]:
    """What ``class_members`` finds; ``Unknown`` if it is no longer what it was when it may have been compiled."""
    members = class_members(kind)
    if _MEMBERS.setdefault(kind, members) != members:
        raise Unknown(f"{kind.__module__}.{kind.__qualname__}, which has changed")
    return members


def _describe_member(kind: Any, name: str, member: Any) -> str:
    plain, options = _plain(member), getattr(member, "targetoptions", None)
    return f"{kind.__qualname__}.{name} is {plain.__module__}.{plain.__qualname__} {options}"


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _classes_of(kinds: Iterable[Any]) -> Iterator[Any]:
    """The classes of the named tuples among some types, and of those in them."""
    for each in kinds:
        if isinstance(each, types.BaseNamedTuple):
            yield each.instance_class
        if isinstance(each, types.BaseTuple):
            yield from _classes_of(each)


def _describe_value(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, np.dtype)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype} {value.shape} {value.strides} {digest}"
    if isinstance(value, Constant):
        return repr(value)
    if isinstance(value, Enum):
        return f"{_describe_value(type(value))} {value.name}"
    if isinstance(value, type):
        parts = [getattr(value, name, None) for name in ("_fields", "_field_defaults", "__members__")]
        if any(part is not None for part in parts) or is_versioned(value.__module__):
            return f"class {value.__module__}.{value.__qualname__} {parts}"
    if isinstance(value, np.ufunc) or type(value).__module__.startswith("llvmlite."):
        return f"{type(value).__name__} {value}"
    if isinstance(value, python_types.BuiltinFunctionType) or type(value).__module__ == "numpy":
        if is_versioned(getattr(value, "__module__", None)):
            return f"{type(value).__name__} {value.__module__}.{value.__name__}"
    raise Unknown(f"a {type(value).__qualname__}")


#: Types that a text tells all about.
_PLAIN_TYPES = (
    ConstantType,
    types.Array,
    types.Boolean,
    types.Literal,
    types.NoneType,
    types.NPDatetime,
    types.NPTimedelta,
    types.Number,
    types.Omitted,
    types.Record,
    types.UnicodeType,
)


def describe_type(each: Any) -> Iterator[str]:
    """An argument type, with the names that its text leaves out."""
    yield str(each)
    if isinstance(each, types.BaseNamedTuple):
        if not is_importable(each.instance_class):  # pickled by value, it would come back as another class
            raise Unknown(str(each))
        yield _describe_value(each.instance_class)
        members = _members_of(each.instance_class)
        yield repr({name: member for name, member in members.items() if not getattr(member, "is_kernel", False)})
    if isinstance(each, types.BaseTuple):
        for inner in each:
            yield from describe_type(inner)
    elif isinstance(each, types.Optional):
        yield from describe_type(each.type)
    elif not isinstance(each, _PLAIN_TYPES):
        raise Unknown(str(each))


def is_importable(named: Any) -> bool:
    """Whether another process finds the same class or function under its name."""
    found: Any = sys.modules.get(named.__module__)
    for name in named.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is named and named.__module__ != "__main__"


# -- the files that functions come from --------------------------------------------------------------------

_SOURCES: WeakKeyDictionary[Any, list[tuple[str, str]]] = WeakKeyDictionary()

#: Files that have changed since may not be what was imported.
_BEGAN = time.time_ns()


def remember_sources(function: python_types.FunctionType) -> None:
    """Take note of a function's source files while they are being imported, before anybody edits them."""
    _SOURCES[function] = [(path, _digest(path, stat.st_mtime_ns, stat.st_size)) for path, stat in _files_of(function)]


def _sources_of(function: python_types.FunctionType) -> list[tuple[str, str]]:
    """Paths and digests of a function's source files.

    They stand for what its code does not tell: the options of its decorators, and what Numba's low-level extensions,
    written beside it, make of it.
    """
    if function not in _SOURCES:
        if any(stat.st_mtime_ns > _BEGAN for _, stat in _files_of(function)):
            raise Unknown(f"{function.__module__}.{function.__qualname__}, whose file was edited")
        remember_sources(function)
    return _SOURCES[function]


def _files_of(function: python_types.FunctionType) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a function's code and of its module; not all functions come from one."""
    module = getattr(sys.modules.get(function.__module__), "__file__", None)
    for path in sorted({function.__code__.co_filename, module or ""}):
        if os.path.isfile(path):
            yield path, os.stat(path)


@cache
def _digest(path: str, changed: int, size: int) -> str:
    """The digest of a version of a file, which is not read again if time and size of the last change are the same."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:  # whoever imported it took the bytecode beside it
        return ""
