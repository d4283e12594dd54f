"""Compiled kernels on disk, in a folder of their own, where no edit can leave stale code behind.

Numba's own cache looks at one source file, so that an edit in a helper of another file goes unnoticed; and processes
that compile for the first time at once may overwrite each other's files. Here the name of a file says all that the
code in it was made from: what the function and every function it reaches are made of (see
``sekai.kernels.fingerprint``), the versions of Python, Numba and LLVM, the processor, the options and the argument
types amount to. A file that is not what was written is as good as none (see ``sekai.kernels.files``), and so is a
folder that cannot be written to.

The folder is ``SEKAI_CACHE_DIR``, else ``sekai`` in ``NUMBA_CACHE_DIR``, else the user's cache folder.
``SEKAI_CACHE=0`` turns the cache off.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from sekai.kernels import files
from sekai.kernels.fingerprint import Description, Unknown, describe, describe_type, remember_sources

#: Counted up with every change of the policy that ``sekai.kernels.jit`` compiles under.
_POLICY = 7

#: Of Numba's settings, those that change what it compiles.
_SETTINGS = (
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "ENABLE_AVX",
    "LLVM_REFPRUNE_FLAGS",
    "LLVM_REFPRUNE_PASS",
    "LOOP_VECTORIZE",
    "OPT",
    "SLP_VECTORIZE",
    "USING_SVML",
)

_VERSIONS = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)


def _number_apart() -> None:
    """Let Numba number functions from a place that no other process begins at.

    Compiled code goes by the name, the argument types and the number of its function, and what several processes have
    compiled is loaded into one: of two functions of one name and number, the first would be called for both.
    """
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(8), "big"))


#: Whether Numba numbers them as it did; else nothing can be kept.
_ARE_NUMBERED = hasattr(FunctionIdentity, "_unique_ids")
_number_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_apart)


def cache_folder() -> Path | None:
    """The folder that compiled kernels are kept in; None if they are not."""
    if not _ARE_NUMBERED:
        return None
    if os.environ.get("SEKAI_CACHE", "1").strip().lower() in ("0", "off", "false", "no"):
        return None
    named = os.environ.get("SEKAI_CACHE_DIR")
    try:
        if named:
            return Path(named).expanduser()
        if config.CACHE_DIR:
            return Path(config.CACHE_DIR) / "sekai"
        return _users_folder() / "sekai" / "kernels"
    except RuntimeError:  # a user without a home
        return None


def _users_folder() -> Path:
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


class KernelCache(NullCache):  # type: ignore[misc]
    """What Numba asks for the compiled forms of one function.

    Args:
        function: The Python function.
        options: What it is compiled with, beside its argument types.
    """

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self._function = function
        self._options = options
        remember_sources(function)

    @property
    def cache_path(self) -> str | None:
        """The folder, for Numba's statistics."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for the argument types, or None."""
        target_context.refresh()
        try:
            path, _ = self._place(sig, target_context.codegen())
            kept = files.read(path)
            if kept is None:
                return None
            compiled = CompileResult._rebuild(target_context, *pickle.loads(kept))
            return compiled if compiled.signature.args == tuple(sig) else None
        except Exception:  # no such file, or one that is no good: the function is compiled anew
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form, if it can be kept."""
        if data.lifted or data.library.has_dynamic_globals or data.objectmode:
            return
        try:
            path, description = self._place(sig, data.codegen)
            files.write(path, dumps(data._reduce()), description.origin)
        except Exception:  # a folder that cannot be written to, a full disk: the next process compiles again
            return

    def _place(self, sig: Any, codegen: Any) -> tuple[Path, Description]:
        """The file of a compiled form, and what its function is made of.

        Raises:
            Exception: Nothing is kept, or not this: ``Unknown``, or whatever comes of looking at a user's objects.
        """
        folder = cache_folder()
        if folder is None:
            raise Unknown("no folder")
        kinds = getattr(sig, "args", sig)
        description = describe(self._function, kinds)
        digest = hashlib.sha256()
        for part in (
            *_VERSIONS,
            repr(codegen.magic_tuple()),
            repr(sorted(self._options.items())),
            repr((_POLICY, [getattr(config, name, None) for name in _SETTINGS])),
            *(text for each in kinds for text in describe_type(each)),
            *description.texts,
        ):
            digest.update(part.encode("utf-8", "backslashreplace"))
            digest.update(b"\0")
        name = "".join(each if each.isalnum() else "_" for each in self._function.__qualname__)
        return folder / f"{name[-60:]}-{digest.hexdigest()[:40]}{files.SUFFIX}", description
