"""Compiled kernels on disk, in a folder of their own, where no edit can leave stale code behind.

Numba's own cache looks at one source file, so that an edit in a helper of another file goes unnoticed; and processes
that compile for the first time at once may overwrite each other's files. Here the name of a file says all that the
code in it was made from: what the function's bytecode, that of every function it reaches, their constants and
globals, the versions of Python, Numba and LLVM, the processor, the options and the argument types amount to. A file
is written whole or not at all, and one that cannot be read is as good as none.

The folder is ``SEKAI_CACHE_DIR``, else ``sekai`` in ``NUMBA_CACHE_DIR``, else the user's cache folder.
``SEKAI_CACHE=0`` turns the cache off.
"""

from __future__ import annotations

import dis
import hashlib
import os
import pickle
import sys
import tempfile
import types as python_types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config, types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

#: Modules whose functions are known by their version.
_VERSIONED = ("numba", "numpy", "llvmlite", "math", "builtins", "operator", "cmath", "typing", "collections", "abc")

#: Counted up with every change of the policy that ``sekai.kernels.jit`` compiles under.
_POLICY = 1

_VERSIONS = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)


def cache_folder() -> Path | None:
    """The folder that compiled kernels are kept in; None if they are not."""
    if os.environ.get("SEKAI_CACHE", "1").strip().lower() in ("0", "off", "false", "no"):
        return None
    named = os.environ.get("SEKAI_CACHE_DIR")
    if named:
        return Path(named)
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "sekai"
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sekai" / "kernels"


class Unknown(Exception):
    """Something that a kernel reaches and that cannot be told apart from its next version."""


class KernelCache(NullCache):  # type: ignore[misc]
    """What Numba asks for the compiled forms of one function.

    Args:
        function: The Python function.
        options: What it is compiled with, beside its argument types.
    """

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self._function = function
        self._options = options

    @property
    def cache_path(self) -> str | None:
        """The folder, for Numba's statistics."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for the argument types, or None."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        if path is None:
            return None
        try:
            payload = pickle.loads(path.read_bytes())
            compiled = CompileResult._rebuild(target_context, *payload)
            return compiled if compiled.signature.args == tuple(sig) else None
        except Exception:  # no such file, or one that is no good: the function is compiled anew
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form, if it can be kept."""
        if data.lifted or data.library.has_dynamic_globals or data.objectmode:
            return
        path = self._path(sig, data.codegen)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, dumps(data._reduce()))
        except Exception:  # a folder that cannot be written to, a full disk: the next process compiles again
            return

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        folder = cache_folder()
        if folder is None:
            return None
        try:
            digest = hashlib.sha256()
            for part in (
                *_VERSIONS,
                repr(codegen.magic_tuple()),
                repr(sorted(self._options.items())),
                repr((_POLICY, config.BOUNDSCHECK, config.OPT, config.DEBUGINFO_DEFAULT, config.LOOP_VECTORIZE)),
                *(text for each in getattr(sig, "args", sig) for text in _describe_type(each)),
                *describe(self._function),
            ):
                digest.update(part.encode("utf-8", "backslashreplace"))
                digest.update(b"\0")
        except Unknown:
            return None
        name = "".join(each if each.isalnum() else "_" for each in self._function.__qualname__)
        return folder / f"{name[-60:]}-{digest.hexdigest()[:40]}.kernel"


def _write_whole(path: Path, data: bytes) -> None:
    """Put a file in its place at once, whoever else writes it at the same time."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


# -- what a function is made of ----------------------------------------------------------------------------


def describe(function: Any) -> Iterator[str]:
    """Texts that change with anything that the compiled code of a function depends on.

    Raises:
        Unknown: It reaches something that cannot be described.
    """
    seen: set[int] = set()
    waiting = [_plain(function)]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield f"{each.__module__}.{each.__qualname__}"
        yield from _describe_code(each.__code__)
        for name, value in _reached(each):
            yield name
            plain = _plain(value)
            if isinstance(plain, python_types.FunctionType):
                if not _versioned(plain.__module__):
                    waiting.append(plain)
            else:
                yield _describe_value(value)


def _plain(value: Any) -> Any:
    """The Python function inside a dispatcher or an intrinsic; anything else as it is."""
    for name in ("py_func", "_defn", "__wrapped__"):
        inner = getattr(value, name, None)
        if isinstance(inner, python_types.FunctionType):
            return inner
    return value


def _versioned(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _VERSIONED


def _describe_code(code: python_types.CodeType) -> Iterator[str]:
    yield repr((code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_argcount, code.co_kwonlyargcount))
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
        yield name, cell.cell_contents
    for name in sorted(_global_names(code)):
        if name not in function.__globals__:
            continue  # a builtin, or an attribute of this name
        value = function.__globals__[name]
        if not isinstance(value, python_types.ModuleType):
            yield name, value
        elif not _versioned(value.__name__):
            yield from _reached_in_module(value, code)


def _reached_in_module(module: python_types.ModuleType, code: python_types.CodeType) -> Iterator[tuple[str, Any]]:
    for name in sorted(_attribute_names(code)):
        value = getattr(module, name, None)
        if isinstance(value, python_types.ModuleType):
            if not _versioned(value.__name__):
                raise Unknown(f"{module.__name__}.{name}")
        elif value is not None:
            yield f"{module.__name__}.{name}", value


def _nested(code: python_types.CodeType) -> Iterator[python_types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            yield from _nested(constant)


def _global_names(code: python_types.CodeType) -> set[str]:
    return {
        step.argval
        for each in _nested(code)
        for step in dis.get_instructions(each)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and isinstance(step.argval, str)
    }


def _attribute_names(code: python_types.CodeType) -> set[str]:
    return {name for each in _nested(code) for name in each.co_names}


def _describe_value(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, np.dtype)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array {value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, type):
        fields = getattr(value, "_fields", None)
        if fields is not None or _versioned(value.__module__):
            return f"class {value.__module__}.{value.__qualname__} {fields}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} {[_describe_value(item) for item in value]}"
    if isinstance(value, types.Type):
        return f"type {value}"
    if isinstance(value, (np.ufunc, python_types.BuiltinFunctionType)) or _versioned(type(value).__module__):
        return f"{type(value).__name__} {getattr(value, '__name__', value)}"
    raise Unknown(repr(value))


def _describe_type(each: Any) -> Iterator[str]:
    """An argument type, with the names that its text leaves out."""
    yield str(each)
    if isinstance(each, types.BaseNamedTuple):
        if not _importable(each.instance_class):  # pickled by value, it would come back as another class
            raise Unknown(str(each))
        yield _describe_value(each.instance_class)
    if isinstance(each, types.BaseTuple):
        for inner in each:
            yield from _describe_type(inner)
    elif isinstance(each, types.Dispatcher):
        raise Unknown(str(each))


def _importable(kind: type) -> bool:
    """Whether another process finds the same class under its name."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind and kind.__module__ != "__main__"
