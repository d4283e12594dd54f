"""``import sekai`` stays light: what it loads beyond numpy, seen from a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sekai

ROOT = Path(sekai.__file__).parents[1]


def modules_added_by(statement: str, after: str = "import numpy") -> set[str]:
    """The modules that ``statement`` loads in a fresh interpreter that has run ``after``."""
    code = (
        f"import sys\n{after}\nbefore = set(sys.modules)\n{statement}\n"
        "added = sorted(set(sys.modules) - before)\nimport json\nprint(json.dumps(added))"
    )
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(run.stdout))


@pytest.fixture(scope="module")
def added() -> set[str]:
    return modules_added_by("import sekai")


@pytest.mark.parametrize(
    "name",
    "numba llvmlite pandas cloudpickle tqdm gymnasium matplotlib torch sims sekai.kernels sekai.cli "
    "asyncio multiprocessing logging json importlib.metadata".split(),
)
def test_import_sekai_does_not_load(added, name):
    assert [module for module in added if module == name or module.startswith(f"{name}.")] == []


def test_import_sekai_loads_the_public_api(added):
    assert {"sekai.spaces", "sekai.vector.native.env", "sekai.registry"} <= added


def test_import_sekai_loads_little_beside_itself(added):
    others = {module.partition(".")[0] for module in added} - {"sekai", "numpy"}
    assert len(others) <= 20, sorted(others)


def test_a_heavy_import_would_be_seen():
    assert "json.decoder" in modules_added_by("import json")


def test_importing_sims_loads_no_market_and_no_numba():
    added = modules_added_by("import sims")
    assert "sims" in added
    assert [module for module in added if module.startswith(("sims.", "numba"))] == []
