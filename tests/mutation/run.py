"""Change the kit in one place at a time, and see whether a test fails: ``python tests/mutation/run.py --help``.

A mutant is one small change of the source: a comparison the other way, another number, a call left out.
``targets.json`` says which files are changed, how many mutants of each are drawn, and which tests look at them: each
entry what follows ``pytest``, with variables of the environment before it, a run of its own, one after another. All of
them have to pass without a mutant. A mutant is killed when one of those tests fails, or does not end, also when it is
tried again by itself with three times as long; one that survives them may meet the whole suite.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
WHOLE = ["-n logical tests"]
HANGS = "did not end"
COPIED = ("sekai", "sims", "tests", "notebooks", "README.md", "pyproject.toml", ".ci", ".docs", "LICENSE")

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATIONS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip


class Mutant(NamedTuple):
    """A change of one file.

    Attributes:
        path: The file, relative to the tree.
        start: Where the change begins, a position in its bytes.
        stop: Where what is replaced ends.
        text: What it is replaced by.
        line: Of the start, from 1.
    """

    path: str
    start: int
    stop: int
    text: str
    line: int

    def apply(self, source: bytes) -> bytes:
        """The changed file."""
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def describe(self, source: bytes) -> str:
        """One line for people."""
        old = " ".join(source[self.start : self.stop].decode().split())
        return f"{self.path}:{self.line}: {old[:60]!r} -> {self.text!r}"


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every mutant of a file, in the order of the file; none in docstrings, annotations and what only types read."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    found = []
    for node, text, between in _changes(ast.parse(source)):
        if between is not None:  # an operator stands between two nodes
            left, right = between
            start, stop = at(left.end_lineno, left.end_col_offset), at(right.lineno, right.col_offset)
            gap = source[start:stop].decode()
            old = _operator_in(gap)
            if old is None:
                continue
            offset = gap.index(old)
            start, stop = start + offset, start + offset + len(old)
        else:
            start, stop = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        found.append(Mutant(path, start, stop, text, source.count(b"\n", 0, start) + 1))
    unique = {(each.start, each.stop, each.text): each for each in found}
    return [unique[key] for key in sorted(unique)]


def _operator_in(gap: str) -> str | None:
    """The operator in the source between two operands; None where there is more than that."""
    words = gap.replace("(", " ").replace(")", " ").strip()
    return words if words and "#" not in gap and words in gap else None


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, tuple[ast.AST, ast.AST] | None]]:
    """Nodes and what they are replaced by; or two nodes between which an operator is."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # Neither annotations nor decorators: @overload and the like.
            waiting += node.body + node.args.defaults + [each for each in node.args.kw_defaults if each is not None]
        elif isinstance(node, ast.AnnAssign):
            waiting += [node.value] if node.value is not None else []
        elif isinstance(node, (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)):
            pass  # the words of an error are the tests' that match them
        else:
            waiting += ast.iter_child_nodes(node)
        yield from _changes_of(node)


def _changes_of(node: ast.AST) -> Iterator[tuple[ast.AST, str, tuple[ast.AST, ast.AST] | None]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield node, COMPARISONS[type(node.ops[0])], (node.left, node.comparators[0])
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        yield node, OPERATIONS[type(node.op)], (node.left, node.right)
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield node, "or" if isinstance(node.op, ast.And) else "and", (left, right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node, f"({ast.unparse(node.operand)})", None
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        yield node, str(not node.value) if type(node.value) is bool else repr(node.value + 1), None
    elif isinstance(node, (ast.If, ast.While)):
        if isinstance(node, ast.If):
            yield node.test, "True", None
        yield node.test, "False", None
    elif isinstance(node, ast.IfExp):
        yield node, f"({ast.unparse(node.body)})", None
        yield node, f"({ast.unparse(node.orelse)})", None
    elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)):
        yield node, "pass", None
    elif isinstance(node, ast.AugAssign):
        yield node, "pass", None
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield node.value, "None", None


def draw(root: Path, targets: list[dict], seed: int) -> list[Mutant]:
    """The sample: of each target as many as it says, the same for the same source and seed."""
    drawn: list[Mutant] = []
    for target in targets:
        every = [mutant for path in target["files"] for mutant in mutants_of(path, (root / path).read_bytes())]
        generator = random.Random(f"{seed} {target['name']}")
        drawn += sorted(generator.sample(every, min(target["mutants"], len(every))))
    return drawn


class Bench:
    """A copy of the tree, in which one mutant after another is tried.

    Args:
        root: The tree.
        tests: The tree whose tests are run; another one to compare two suites.
        folder: Where the copy goes.
    """

    def __init__(self, root: Path, tests: Path, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source = (tests if name in ("tests", "pyproject.toml", "README.md") else root) / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, folder / name)

    def passes(self, runs: list[str], bounds: dict[str, float]) -> tuple[bool, str]:
        """Run tests until one fails.

        Args:
            runs: Each what follows ``pytest``, after variables of the environment.
            bounds: Of each run, in seconds: after that it never ends.

        Returns:
            Whether all passed, and the last words of the last run.
        """
        words = "nothing"
        for run in runs:
            passed, words = self._run(run, bounds[run])
            if not passed:
                return False, words
        return True, words

    def _run(self, run: str, seconds: float) -> tuple[bool, str]:
        arguments = shlex.split(run)
        variables = {}
        while "=" in arguments[0]:
            name, _, variables[name] = arguments.pop(0).partition("=")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
        environ = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SEKAI_CACHE_DIR": str(self.folder.parent / "kernels"),  # named by what they are made of: fit for all
            **variables,
        }
        process = subprocess.Popen(
            command, cwd=self.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, HANGS
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what a mutant left running
            except ProcessLookupError:
                pass
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return process.returncode == 0, (failed or output.splitlines() or ["nothing"])[-1]

    def find_bounds(self, runs: list[str]) -> dict[str, float]:
        """How long each run may take, in seconds, by how long it takes without a mutant and with nothing compiled.

        Raises:
            SystemExit: A run fails as it is, or does not end within an hour: it would kill every mutant.
        """
        bounds = {}
        for run in runs:
            began = time.monotonic()
            passed, words = self.passes([run], {run: 3600.0})
            took = time.monotonic() - began
            if not passed:
                raise SystemExit(f"pytest {run}: fails without a mutant: {words}")
            print(f"pytest {run}: {took:.0f} s without a mutant", flush=True)
            bounds[run] = 60.0 + 4.0 * took
        return bounds

    def try_one(self, mutant: Mutant, runs: list[str], bounds: dict[str, float]) -> tuple[bool, str]:
        """Whether a mutant is killed, and by what."""
        path = self.folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(mutant.apply(source))
        try:
            passed, words = self.passes(runs, bounds)
        finally:
            path.write_bytes(source)
        return not passed, words


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=9, help="of the sample")
    parser.add_argument("--only", default="", help="a target's name: no others")
    parser.add_argument("--tests", type=Path, help="another tree, whose tests are run instead of this one's")
    parser.add_argument("--from", dest="earlier", type=Path, help="results of an earlier run: try its survivors alone")
    parser.add_argument("--at-once", type=int, default=2, help="mutants tried at the same time")
    parser.add_argument("--whole-suite", action="store_true", help="run the whole suite instead of the map's tests")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"), help="where the results go")
    options = parser.parse_args()
    root = HERE.parent.parent
    targets = [each for each in json.loads((HERE / "targets.json").read_text()) if options.only in ("", each["name"])]
    runs_of = {path: target["tests"] for target in targets for path in target["files"]}
    name_of = {path: target["name"] for target in targets for path in target["files"]}
    mutants = draw(root, targets, options.seed)
    if options.earlier:
        survived = {tuple(each["mutant"]) for each in json.loads(options.earlier.read_text()) if not each["killed"]}
        mutants = [each for each in mutants if tuple(each) in survived]
    runs_of = {path: WHOLE if options.whole_suite else runs_of[path] for path in {each.path for each in mutants}}
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    hanging: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    results: list[dict] = []

    def work(bench: Bench, waiting: queue.SimpleQueue[Mutant], bounds: dict[str, float], last: bool) -> None:
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            killed, words = bench.try_one(mutant, runs_of[mutant.path], bounds)
            line = mutant.describe((root / mutant.path).read_bytes())
            if words == HANGS and not last:
                hanging.put(mutant)
                print(f"to be tried again, {HANGS}: {line}", flush=True)
                continue
            results.append({"mutant": mutant, "line": line, "killed": killed, "by": words})
            fate = "killed" if killed else "SURVIVED"
            print(f"{len(results)}/{len(mutants)} {fate} {line}  {words[:100]}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        benches = [Bench(root, options.tests or root, Path(folder) / str(k)) for k in range(options.at_once)]
        bounds = benches[0].find_bounds(list(dict.fromkeys(run for runs in runs_of.values() for run in runs)))
        threads = [threading.Thread(target=work, args=(bench, waiting, bounds, False)) for bench in benches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        work(benches[0], hanging, {run: 3.0 * seconds for run, seconds in bounds.items()}, True)
    options.out.write_text(json.dumps(sorted(results, key=lambda each: each["line"]), indent=1))
    tried, killed = (
        Counter(name_of[each["mutant"].path] for each in results if not only_killed or each["killed"])
        for only_killed in (False, True)
    )
    for name in tried:
        print(f"{name:20} {killed[name]:4} of {tried[name]:4} killed")
    print(f"{'all':20} {killed.total():4} of {tried.total():4} killed")


if __name__ == "__main__":
    main()
