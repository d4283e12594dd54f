"""``import sekai`` against ``import numpy``, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from rounds import take_turns

import sekai

pytestmark = pytest.mark.bench

ROOT = Path(sekai.__file__).parents[1]


def run(statement: str) -> str:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", f"{statement}; import numpy; print(numpy.__file__)"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True)
    return done.stdout


def test_import_time(report):
    assert run("import sekai") == run("import numpy")
    times = take_turns(
        {"import sekai": lambda: run("import sekai"), "import numpy": lambda: run("import numpy")}, rounds=21, block=0.0
    )
    over = median(a - b for a, b in zip(times["import sekai"], times["import numpy"], strict=True))
    report(
        "a fresh interpreter", times, "import sekai", "import numpy", "at most +60 ms", value=f"{over * 1e3:+.0f} ms"
    )
