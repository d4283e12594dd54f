"""Every notebook runs from clean, and shows the outputs of such a run."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__).parents[1].joinpath("notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.slow


def test_they_are_numbered_from_0():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{k:02}_" for k in range(len(NOTEBOOKS))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # what Jupyter's own machinery warns of is not ours
def test_a_notebook_runs_from_clean(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    committed = [bool(cell.get("outputs")) for cell in notebook.cells if cell.cell_type == "code"]
    assert any(committed), "expected the outputs of a run in the file"
    assert "pip install" in notebook.cells[0].source, "expected the first cell to say what has to be installed"
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [bool(cell.get("outputs")) for cell in notebook.cells if cell.cell_type == "code"]
    assert printed == committed
