"""The tests that CI runs once more without compilation are all that could tell."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: What calls kernels only in other processes, not as kernels, or finds nothing without compilation.
APART = {
    "tests/test_check_bounds.py",
    "tests/compat/test_gymnasium_next_step.py",
    "tests/compat/test_ray_rollout.py",
    "tests/test_cli_bench.py",
    "tests/test_docs.py",
    "tests/test_readme.py",
    "tests/test_ci.py",
    "tests/vector/test_proc.py",
}


def test_every_test_of_kernels_also_runs_without_compilation():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = re.findall(r"^NUMBA_DISABLE_JIT=1 (?:.*\\\n)*.*$", script, re.MULTILINE)
    run = re.findall(r"\btests/[\w/.]+", command)
    assert all((ROOT / path).exists() for path in run)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        of_kernels = re.search(r"^\s*(?:from|import) (?:sekai\.kernels|numba)\b|DISABLE_JIT", text, re.MULTILINE)
        if of_kernels and not name.startswith("tests/bench/") and name not in APART:
            assert any(name.startswith(each) for each in run), f"{name}: not among those that .ci/run runs so"


def test_the_files_that_the_configuration_of_the_tests_names_are_there():
    names = re.findall(r'"([\w/]+\.py)"', (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    assert len(names) > 20
    assert [name for name in names if not (ROOT / "tests" / name).exists()] == []


def test_the_documentation_is_built_so_that_a_warning_fails():
    (command,) = re.findall(r"^.*\bmkdocs build\b.*$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert "--strict" in command
    assert "--quiet" not in command and " -q" not in command  # which leaves warnings uncounted
