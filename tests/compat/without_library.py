"""What an adapter says where its library is not installed."""

from __future__ import annotations

import subprocess
import sys

_BLOCK = """
import sys

class NotInstalled:
    def find_spec(self, name, *_):
        if name == {library!r}:
            raise ModuleNotFoundError("No module named {library}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


def error_of_import(module: str, library: str) -> str:
    """The last line that ``import module`` prints in an interpreter without the library."""
    code = _BLOCK.format(library=library) + f"import {module}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    return run.stderr.strip().splitlines()[-1]
