"""What the README shows is run as it is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.strip().splitlines()[-1][:40])
def test_examples_run(code):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_the_example_of_a_market_stays_short():
    market = next(code for code in blocks("python") if "NativeVecEnv)" in code)
    definition = market[market.index("@jit") : market.index("vec = ")]
    assert len(definition.strip().splitlines()) <= 40


def test_ci_runs_both_commands_as_printed():
    patterns = re.findall(r"grep -E '(.*)' README.md", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert len(patterns) == 2
    for pattern in patterns:
        commands = [line for line in README.splitlines() if re.search(pattern, line)]
        assert len(commands) == 1
        assert commands[0] in "".join(blocks("bash"))
