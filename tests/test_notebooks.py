"""Every notebook runs from clean, and shows the outputs of such a run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.compiled


def test_they_are_numbered_from_0():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{k:02}_" for k in range(len(NOTEBOOKS))]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] * (path.stem == "05_order_book")) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
@pytest.mark.filterwarnings("ignore")  # what Jupyter's own machinery warns of is not ours
def test_a_notebook_runs_from_clean(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    committed = [bool(cell.get("outputs")) for cell in notebook.cells if cell.cell_type == "code"]
    assert any(committed), "expected the outputs of a run in the file"
    says_what_it_needs = re.search(r"`pip install .*jupyterlab`", notebook.cells[0].source)
    assert says_what_it_needs, "expected the first cell to say what has to be installed, Jupyter too"
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [bool(cell.get("outputs")) for cell in notebook.cells if cell.cell_type == "code"]
    assert printed == committed


def test_the_market_that_is_written_has_no_problems():
    notebook = nbformat.read(FOLDER / "01_write_your_own_market.ipynb", as_version=4)
    assert "no problems\n" in [output.get("text") for cell in notebook.cells for output in cell.get("outputs", ())]


def test_what_is_shown_of_futures_is_no_luck():
    notebook = nbformat.read(FOLDER / "06_what_if.ipynb", as_version=4)
    shown = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    ratios = [float(each) for each in re.findall(r"variance ratio ([\d.]+)", shown)]
    assert len(ratios) == 3 and min(ratios) > 1.0 and max(ratios) > 10.0
    gain, error = map(float, re.search(r"gain ([\d.]+) \+- ([\d.]+)", shown).groups())
    assert gain > 4.0 * error > 0.0


def test_the_script_shows_no_mean_of_no_episodes():
    settings = "Settings(total_steps=1024, num_envs=64, num_steps=8, minibatch_size=256)"
    code = f"import ppo_torch; ppo_torch.train(ppo_torch.{settings})"
    run = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("no episode has ended yet") == 2
    assert "nan" not in run.stdout
