"""What the documentation shows is run, and what the packages export is in it."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / ".docs"
PAGES = {path.relative_to(DOCS / "pages").as_posix(): path for path in sorted((DOCS / "pages").rglob("*.md"))}
REFERENCE = "\n".join(path.read_text(encoding="utf-8") for name, path in PAGES.items() if name.startswith("api/"))

#: A block of Python, and the library without which it cannot run: ```python title="needs gymnasium"
BLOCK = re.compile(r'^```python(?: title="needs (?P<needs>\w+)")?\n(?P<code>.*?)^```$', re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"# prints (.*)$", re.MULTILINE)

#: TorchRL warns of its own classes when its collectors are imported.
TORCHRL_WARNS = "ignore:Creating :DeprecationWarning"

#: Names that are explained in the text of a page, not by a docstring of their own.
EXPLAINED = {
    "all_specs",
    "deregister",
    "make",
    "make_vec",
    "pprint_registry",
    "register",
    "register_namespace",
    "space_utils",
    "spec",
}


def blocks(text):
    return list(BLOCK.finditer(text))


def script_of(text):
    """The blocks that can run here, each on the lines that it has on the page."""
    lines = [""] * len(text.splitlines())
    for block in blocks(text):
        if block["needs"] is None or find_spec(block["needs"]):
            start = text.count("\n", 0, block.start("code"))
            code = block["code"].splitlines()
            lines[start : start + len(code)] = code
    return "\n".join(lines) + "\n"


def run_page(folder, name, text):
    """Run the blocks of a page in a process of their own; what they print, and what they say they do."""
    script = folder / (name.replace("/", "_").replace("-", "_").removesuffix(".md") + ".py")
    script.write_text(script_of(text), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-W", TORCHRL_WARNS, str(script)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines(), PRINTS.findall(script.read_text(encoding="utf-8"))


#: Pages whose examples compile several markets of their own.
SLOW = {"guides/order-book.md", "guides/portfolio.md", "guides/prices.md"}
WITH_EXAMPLES = [name for name, path in PAGES.items() if blocks(path.read_text(encoding="utf-8"))]


@pytest.mark.compiled  # without compilation
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in WITH_EXAMPLES]
)
def test_the_examples_of_a_page_run_and_print_what_they_say(tmp_path, name):
    printed, promised = run_page(tmp_path, name, PAGES[name].read_text(encoding="utf-8"))
    assert printed == promised


#: The training at full length: a block that is marked ``py``, so that it is run with fewer steps.
TRAINING = "guides/from-stable-baselines3.md"


@pytest.mark.compiled
@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="needs stable_baselines3")
def test_the_training_runs():
    (code,) = re.findall(r"^```py\n(.*?)^```", PAGES[TRAINING].read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert "torch.set_num_threads(1)" in code  # or else it takes several times what the page says
    for long, short in (("1_200_000", "51_200"), ("10_000", "100")):
        assert code.count(long) == 1
        code = code.replace(long, short)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert 30.0 < float(run.stdout.splitlines()[-1]) < 70.0


def test_no_other_block_is_left_out():
    marked = {
        name for name, path in PAGES.items() if re.search(r"^```py$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert marked == {TRAINING}


def test_blocks_keep_their_lines_and_wait_for_their_library():
    text = 'Words.\n\n```python\nx = 1\n```\n\n```python title="needs no_such_library"\nimport no_such_library\n```\n'
    text += '```python title="needs json"\nprint(x)  # prints 1\n```\n```bash\nls\n```\n'
    assert script_of(text).splitlines()[3] == "x = 1"
    assert script_of(text).splitlines()[10] == "print(x)  # prints 1"
    assert "no_such_library" not in script_of(text) and "ls" not in script_of(text)


def test_a_page_that_prints_something_else_would_be_seen(tmp_path):
    printed, promised = run_page(tmp_path, "page.md", "```python\nprint(2)  # prints 3\n```\n")
    assert (printed, promised) == (["2"], ["3"])
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_page(tmp_path, "page.md", "```python\n1 / 0\n```\n")


@pytest.mark.parametrize("name", list(PAGES))
def test_every_block_of_python_is_one_that_is_run(name):
    text = PAGES[name].read_text(encoding="utf-8")
    assert len(re.findall(r"^```.*python", text, re.MULTILINE)) == len(blocks(text))


def test_every_page_is_in_the_navigation():
    navigation = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"- {name}\n" not in navigation] == []


@pytest.mark.parametrize(
    "package",
    "sekai sekai.vector sekai.space_utils sekai.kernels sekai.kernels.maths sekai.testing "
    "sekai.plots sims.execution sims.market_making sims.order_book sims.portfolio sims.trading sims.prices sims.data "
    "sims.metrics sims.plots".split(),
)
def test_every_public_name_is_in_the_reference(package):
    module = importlib.import_module(package)
    missing = [
        name
        for name in module.__all__
        if name not in EXPLAINED and not re.search(rf"(?:[.\[ ]){re.escape(name)}(?:[,\]\s]|$)", REFERENCE)
    ]
    assert missing == []


def test_the_table_of_kernels_names_all_that_the_package_exports():
    table = PAGES["api/kernels.md"].read_text(encoding="utf-8")
    first_columns = " ".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))
    assert [name for name in importlib.import_module("sekai.kernels").__all__ if f"`{name}`" not in first_columns] == []


def test_names_that_are_only_explained_are_in_the_text():
    assert [name for name in EXPLAINED if f"`sekai.{name}`" not in REFERENCE] == []


def test_the_command_page_shows_every_verb(capsys):
    from sekai.cli import main

    main(["--help"])
    verbs = re.findall(r"^    (\w+) +\w", capsys.readouterr().out, re.MULTILINE)
    assert {"list", "run"} <= set(verbs)
    page = PAGES["guides/command.md"].read_text(encoding="utf-8")
    assert re.findall(r"<!-- help: sekai (\w+) -->", page) == verbs


@pytest.mark.skipif(find_spec("griffe") is None, reason="needs griffe")
def test_a_named_tuple_is_shown_with_the_defaults_of_its_fields():
    import griffe

    from sims.trading import TradingParams

    extensions = griffe.load_extensions(str(DOCS / "named_tuples.py"))
    module = griffe.load("sims.trading.market", search_paths=[ROOT], extensions=extensions)
    _, *fields = module["TradingParams"].parameters
    assert [field.name for field in fields] == list(TradingParams._fields)
    shown = {field.name: eval(str(field.default)) for field in fields if field.default is not None}
    assert shown == TradingParams._field_defaults
