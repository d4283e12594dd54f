"""What the README shows is run as it is printed."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def market_block():
    (code,) = blocks("python")
    return code


def run(code):
    script = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=600)
    assert script.returncode == 0, script.stderr
    return script.stdout.splitlines()


def texts():
    """Every file that a user reads, code and its messages included."""
    kinds = ("*.md", "*.py", "*.ipynb", "*.yml")
    folders = (ROOT / name for name in (".docs", "notebooks", "sekai", "sims"))
    return [ROOT / "README.md", *(path for folder in folders for kind in kinds for path in sorted(folder.rglob(kind)))]


def test_e5_only_the_clone_is_installed_from():
    """On the public index the name is another project's."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", pyproject, re.MULTILINE | re.DOTALL)
    known = set(re.findall(r"^([\w-]+) = ", table[1], re.MULTILINE))
    seen = set()
    for path in texts():
        text = path.read_text(encoding="utf-8").replace('\\"', '"')
        where = path.relative_to(ROOT)
        assert not re.search(r"\bsekai\[[a-z]", text), f"{where}: expected '.[...]' for an extra, got 'sekai[...]'"
        commands = re.findall(r"(?:pip|uv add|uv pip|pipx) install ([^`\n]*)", text)
        for command in commands:
            names = [word.strip("'\"") for word in command.split()]
            assert "sekai" not in names, f"{where}: expected '.' for this project, got {command!r}"
            for extras in re.findall(r"\.\[([^\]]+)\]", command):
                seen.update(extras.split(","))
                assert {*extras.split(",")} <= {*known, "..."}, (
                    f"{where}: expected extras of pyproject.toml, got {extras}"
                )
    assert {"plot", "sb3", "torch", "torchrl", "gymnasium", "cli", "docs"} <= seen


def test_the_example_of_a_market_stays_short():
    market = market_block()
    definition = market[market.index("class Params") : market.index("vec = ")]
    assert len(definition.strip().splitlines()) <= 40


@pytest.mark.slow
def test_the_example_of_a_market_has_no_problems_and_refuses_what_is_no_action():
    tries = """
    for actions in [1, 7, 1], [1, 1, -1]:
        vec = ReversionVecEnv(3)
        vec.reset(seed=0)
        try:
            vec.step(np.array(actions))
        except sekai.InvalidAction as error:
            print(error)
    """
    assert run(market_block() + textwrap.dedent(tries))[-3:] == [
        "[]",
        "step(actions): expected an element of Discrete(3), got 7 (sub-env 1)",
        "step(actions): expected an element of Discrete(3), got -1 (sub-env 2)",
    ]


def test_links_into_the_repository_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", README)
    assert len(links) >= 3
    for path, anchor in links:
        target = ROOT / path
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings]


def test_it_is_read_in_a_sitting():
    assert len(README.encode()) <= 10_000


def test_ci_runs_both_commands_as_printed():
    patterns = re.findall(r"grep -E '(.*)' README.md", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert len(patterns) == 2
    for pattern in patterns:
        commands = [line for line in README.splitlines() if re.search(pattern, line)]
        assert len(commands) == 1
        assert commands[0] in "".join(blocks("bash"))
