"""Which way the imports point: vector -> batching -> spaces, sims -> sekai, never back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Of the kit and of the markets, these packages and modules may import nothing but what is listed.
ONLY = {
    "sekai.types": (),
    "sekai.errors": (),
    "sekai.checks": (),
    "sekai.arguments": (),
    "sekai.cores": (),
    "sekai.progress": (),
    "sekai.seeding": ("sekai.checks", "sekai.types", "sekai.errors"),
    "sekai.results": ("sekai.types",),
    "sekai.spaces": ("sekai.spaces", "sekai.seeding", "sekai.checks", "sekai.types", "sekai.errors"),
    "sekai.batching": (
        "sekai.batching",
        "sekai.spaces",
        "sekai.results",
        "sekai.seeding",
        "sekai.checks",
        "sekai.types",
        "sekai.errors",
    ),
    "sekai.kernels": (
        "sekai.kernels",
        "sekai.batching.slab",
        "sekai.seeding",
        "sekai.checks",
        "sekai.cores",
        "sekai.types",
        "sekai.errors",
    ),
    "sekai.stats": ("sekai.kernels", "sekai.checks"),
    "sekai.normalization": ("sekai.stats", "sekai.batching", "sekai.spaces", "sekai.checks"),
    "sekai.actions": ("sekai.batching", "sekai.spaces", "sekai.checks", "sekai.errors"),
    "sekai.observations": ("sekai.batching", "sekai.spaces", "sekai.checks", "sekai.errors"),
    "sekai.estimates": ("sekai.checks",),
    "sekai.tracking": ("sekai.checks", "sekai.types"),
    "sekai.plots": ("sekai.plots", "sekai.rollouts", "sekai.estimates", "sekai.checks"),
    "sims.prices": ("sims.prices", "sims.checks", "sims.data", "sekai.kernels"),
    "sims.metrics": ("sims.metrics", "sims.checks", "sekai.rollouts", "sekai.estimates", "sekai.checks"),
    "sims.plots": ("sims.plots", "sims.metrics", "sekai.plots", "sekai.rollouts", "sekai.checks"),
}
#: These may import anything but what is listed.
NEVER = {
    "sekai": ("sims", "pandas", "tests"),
    "sekai.env": ("sekai.wrappers", "sekai.vector", "sekai.registry", "sekai.rollouts", "sekai.testing", "sekai.cli"),
    "sekai.wrappers": ("sekai.vector", "sekai.registry", "sekai.rollouts", "sekai.testing", "sekai.cli"),
    "sekai.vector": (
        "sekai.plots",
        "sekai.wrappers",
        "sekai.registry",
        "sekai.rollouts",
        "sekai.shards",
        "sekai.testing",
        "sekai.cli",
    ),
    "sekai.rollouts": (
        "sekai.plots",
        "sekai.env",
        "sekai.wrappers",
        "sekai.registry",
        "sekai.shards",
        "sekai.testing",
        "sekai.cli",
    ),
    "sekai.registry": ("sekai.plots", "sekai.rollouts", "sekai.shards", "sekai.testing", "sekai.cli"),
    "sekai.shards": ("sekai.plots", "sekai.testing", "sekai.cli"),
    "sekai.compat": ("sekai.cli", "sekai.testing"),
    "sekai.testing": ("sekai.plots", "sekai.cli", "sekai.compat"),
    "sims": ("sekai.cli", "sekai.testing", "tests"),
}
#: What compiles in numba, and its flags: sekai.kernels.jit alone names them.
COMPILERS = {
    "CPUDispatcher",
    "njit",
    "jit",
    "jit_module",
    "vectorize",
    "guvectorize",
    "cfunc",
    "stencil",
    "generated_jit",
}
FLAGS = {"fastmath", "error_model", "boundscheck", "nopython", "nogil", "forceobj", "looplift"}


def modules(root: Path) -> dict[str, Path]:
    """Every module of both packages, by its dotted name."""
    found = {}
    for package in ("sekai", "sims"):
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: frozenset[str] = frozenset(), of_types: bool = False) -> set[str]:
    """The modules that a file imports when it runs, at its top or in a function; also those of types alone if asked."""
    found = set()
    waiting = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += [*node.orelse, *(node.body if of_types else [])]
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected absolute imports, got a relative one in line {node.lineno}"
            # `from sekai.batching import layout` imports a module, `from sekai.spaces import Box` a name of one.
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (members & known) | ({node.module} if members - known else set())
        waiting += ast.iter_child_nodes(node)
    return found


def inside(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


MODULES = modules(ROOT)
KNOWN = frozenset(MODULES)


def offences(layer: str, offends) -> list[str]:
    members = [name for name in MODULES if inside(name, (layer,))]
    assert members, f"there is no {layer} any more"
    return [
        f"{name} imports {target}"
        for name in members
        for target in sorted(imports(MODULES[name], KNOWN))
        if offends(target)
    ]


@pytest.mark.parametrize("layer", ONLY)
def test_a_lower_layer_imports_only_what_lies_below(layer):
    assert offences(layer, lambda name: inside(name, ("sekai", "sims")) and not inside(name, ONLY[layer])) == []


@pytest.mark.parametrize("layer", NEVER)
def test_arrows_point_one_way(layer):
    assert offences(layer, lambda name: inside(name, NEVER[layer])) == []


#: What stands beside each other in the kit, packages and modules.
PARTS = sorted({".".join(name.split(".")[:2]) for name in MODULES if name.startswith("sekai.")})


def test_no_two_parts_of_the_kit_import_each_other():
    """Not for type checkers either: what two need belongs below both."""
    reached = {
        part: {
            ".".join(target.split(".")[:2])
            for name in MODULES
            if inside(name, (part,))
            for target in imports(MODULES[name], KNOWN, of_types=True)
            if inside(target, ("sekai",))
        }
        - {part, "sekai"}
        for part in PARTS
    }
    pairs = sorted(
        (part, other) for part in PARTS for other in reached[part] if part < other and part in reached.get(other, ())
    )
    assert pairs == []


@pytest.mark.parametrize(
    "layer, below",
    [("sekai.vector", "sekai.batching"), ("sekai.batching", "sekai.spaces"), ("sims", "sekai.kernels")],
)
def test_the_arrows_there_are_get_seen(layer, below):
    assert offences(layer, lambda name: inside(name, (below,)))


def test_only_the_kernels_import_numba():
    found = offences("sekai", lambda name: inside(name, ("numba", "llvmlite")))
    assert found and all(line.startswith("sekai.kernels") for line in found), found


def test_nothing_of_the_kit_imports_its_adapters():
    found = offences("sekai", lambda name: inside(name, ("sekai.compat",)))
    assert found and all(line.startswith("sekai.compat") for line in found), found


def test_only_the_adapters_import_the_libraries_they_adapt_to():
    found = offences(
        "sekai",
        lambda name: inside(name, ("gymnasium", "ray", "stable_baselines3", "torch", "torchrl", "tensordict")),
    )
    assert found and all(line.startswith("sekai.compat") for line in found), found


def test_only_one_file_names_numba_s_compilers_and_flags():
    named = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = set()
            if isinstance(node, ast.ImportFrom) and node.module and inside(node.module, ("numba",)):
                names = {alias.name for alias in node.names} & COMPILERS
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "numba":
                names = {node.attr} & COMPILERS
            elif isinstance(node, ast.Call):
                names = {keyword.arg for keyword in node.keywords} & FLAGS
            if names:
                named.setdefault(module, set()).update(names)
    assert list(named) == ["sekai.kernels.jit"], named
    assert named["sekai.kernels.jit"] >= {"CPUDispatcher", "error_model"}


def test_imports_are_found_wherever_they_run(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "import numpy as np, a.b\n"
        "from sekai.batching import layout\n"
        "from sekai.spaces import Box\n"
        "if TYPE_CHECKING:\n"
        "    import never\n"
        "else:\n"
        "    import always\n"
        "def function():\n"
        "    if True:\n"
        "        from sims import data\n"
    )
    assert imports(path, KNOWN) == {
        "typing",
        "numpy",
        "a.b",
        "sekai.batching.layout",
        "sekai.spaces",
        "always",
        "sims.data",
    }


def test_relative_imports_are_refused(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("from . import env\n")
    with pytest.raises(AssertionError, match="expected absolute imports"):
        imports(path)
