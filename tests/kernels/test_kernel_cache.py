"""Compiled kernels on disk: found again by the next process, and never after anything they are made of has changed."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest

from sekai.kernels import jit
from sekai.kernels.files import Origin, read, write

# Where nothing is compiled, there is nothing to keep.
pytestmark = pytest.mark.compiled


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A fresh folder for compiled kernels."""
    monkeypatch.setenv("SEKAI_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("SEKAI_CACHE", raising=False)
    return tmp_path / "kernels"


class Project:
    """Modules of a user: written, imported as a fresh process would, and edited."""

    def __init__(self, folder):
        self.folder = folder
        self.times = itertools.count(1_000_000_000)

    def write(self, **sources):
        for name, source in sources.items():
            path = self.folder / f"{name}.py"
            path.write_text(textwrap.dedent(source))
            time = next(self.times)  # long ago: a file that has just been edited is looked at with suspicion
            os.utime(path, (time, time))

    def load(self, name="market"):
        self.forget()
        return importlib.import_module(name)

    def forget(self):
        for path in self.folder.glob("*.py"):
            sys.modules.pop(path.stem, None)
        importlib.invalidate_caches()


@pytest.fixture
def project(tmp_path, monkeypatch, folder):
    (tmp_path / "project").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "project")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    project = Project(tmp_path / "project")
    yield project
    project.forget()


#: Imports Numba once; then forks processes that run what it is sent, as fresh ones would.
NURSERY = """
import json, os, signal, sys, warnings
import numba, numpy
from numba.core import config
import sekai.kernels

numba.njit(lambda: 0)()  # which loads what compiling takes, and registers nothing
for line in sys.stdin:
    code, environ, copies = json.loads(line)
    children = []
    for _ in range(copies):
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about fork, beside NumPy's threads
            child = os.fork()
        if not child:
            signal.alarm(120)
            os.dup2(theirs, 1), os.dup2(theirs, 2)
            os.environ.update(environ)
            config.reload_config()
            exec(code)
            sys.stdout.flush()
            os._exit(0)  # which leaves out taking down all that was imported
        os.close(theirs)
        children.append((child, open(ours)))
    print(json.dumps([(out.read(), os.waitpid(child, 0)[1]) for child, out in children]), flush=True)
os._exit(0)
"""


def environ_of_a_user():
    """Without what the tests run under."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SEKAI_", "NUMBA_"))}


@pytest.fixture(scope="module")
def forked():
    """What code prints, as JSON, in a process that has imported Numba and the kit, and nothing else; or in several."""
    command = [sys.executable, "-B", "-c", NURSERY]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ_of_a_user()
    ) as nursery:

        def run(code, folder, *, copies=None, **environ):
            request = [code, {"SEKAI_CACHE_DIR": str(folder), **environ}, copies or 1]
            nursery.stdin.write(json.dumps(request) + "\n")
            nursery.stdin.flush()
            printed, statuses = zip(*json.loads(nursery.stdout.readline()), strict=True)
            assert not any(statuses), "".join(printed)
            results = list(map(json.loads, printed))
            return results if copies else results[0]

        yield run
        nursery.stdin.close()


def hits(kernel):
    """How many compiled forms of a kernel came from the disk."""
    dispatchers = getattr(kernel, "dispatchers", [kernel])
    return sum(sum(each.stats.cache_hits.values()) for each in dispatchers)


def files(folder):
    """The files by name, with what tells one from another that is put in its place."""
    return {path.name: path.stat().st_ino for path in folder.iterdir()} if folder.exists() else {}


# -- edits ---------------------------------------------------------------------------------------------------

#: Of each: the modules, the one that is edited, what is replaced in it, and what ``market.f(1.0)`` gives before and
#: after.
EDITS = {
    "its own code": (
        {"market": "from sekai.kernels import jit\n@jit\ndef f(x):\n    return x + 2.0\n"},
        ("market", "x + 2.0", "x * 7.0"),
        (3.0, 7.0),
    ),
    "a helper in another file": (
        {
            "helpers": "from sekai.kernels import jit\n@jit\ndef g(x):\n    return x + 2.0\n",
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("helpers", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "a helper of a helper": (
        {
            "deeper": "import numba\n@numba.njit\ndef h(x):\n    return x + 2.0\n",
            "helpers": "import deeper\nimport numba\n@numba.njit\ndef g(x):\n    return deeper.h(x)\n",
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("deeper", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "a function of a module": (
        {
            "helpers": "from sekai.kernels import jit\n@jit\ndef g(x):\n    return x + 2.0\n",
            "market": "import helpers\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return helpers.g(x)\n",
        },
        ("helpers", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "a constant of a module": (
        {
            "helpers": "STEP = 2.0\n",
            "market": "import helpers\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return x + helpers.STEP\n",
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "an imported constant": (
        {
            "helpers": "STEP = 2.0\n",
            "market": "from helpers import STEP\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return x + STEP\n",
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "an array of constants": (
        {
            "helpers": "import numpy as np\nSTEPS = np.array([1.0, 2.0, 3.0])\n",
            "market": """
            from helpers import STEPS
            from sekai.kernels import jit
            @jit
            def f(x):
                return x + STEPS[1]
            """,
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "a default": (
        {
            "helpers": "STEP = 2.0\n",
            "market": """
            from helpers import STEP
            from sekai.kernels import jit
            @jit
            def f(x, step=STEP):
                return x + step
            """,
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "a closure": (
        {
            "helpers": "STEP = 2.0\n",
            "market": """
            import helpers
            from sekai.kernels import jit
            def make(step):
                @jit
                def g(x):
                    return x + step
                return g
            f = make(helpers.STEP)
            """,
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "a module in a closure": (
        {
            "helpers": "STEP = 2.0\n",
            "market": """
            from sekai.kernels import jit
            def make():
                import helpers
                @jit
                def g(x):
                    return x + helpers.STEP
                return g
            f = make()
            """,
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "a function in a tuple": (
        {
            "helpers": """
            from sekai.kernels import jit
            @jit
            def plus(x):
                return x + 2.0
            """,
            "market": """
            from helpers import plus
            from sekai.kernels import jit
            RULES = (plus, "plus")
            @jit
            def f(x):
                return RULES[0](x)
            """,
        },
        ("helpers", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "the order of a named tuple's fields": (
        {
            "helpers": """
            from typing import NamedTuple
            class Terms(NamedTuple):
                low: float
                high: float
            """,
            "market": """
            from helpers import Terms
            from sekai.kernels import jit
            TERMS = Terms(2.0, 6.0)
            @jit
            def f(x):
                return x + TERMS.low
            """,
        },
        ("helpers", "    low: float\n    high: float", "    high: float\n    low: float"),
        (3.0, 7.0),
    ),
    "the value of an enum's member": (
        {
            "helpers": "from enum import IntEnum\nclass Side(IntEnum):\n    BUY = 2\n",
            "market": "from helpers import Side\nfrom sekai.kernels import jit\n"
            "@jit\ndef f(x):\n    return x + Side.BUY.value\n",
        },
        ("helpers", "BUY = 2", "BUY = 6"),
        (3.0, 7.0),
    ),
    "a module of a module": (
        {
            "deeper": "STEP = 2.0\n",
            "helpers": "import deeper\n",
            "market": """
            import helpers
            from sekai.kernels import jit
            @jit
            def f(x):
                return x + helpers.deeper.STEP
            """,
        },
        ("deeper", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "another module of the same name": (
        {
            "helpers": "import math as m\n",
            "market": """
            import helpers
            from sekai.kernels import jit
            @jit
            def f(x):
                return helpers.m.sqrt(x - 2.0)
            """,
        },
        ("helpers", "import math as m", "import cmath as m"),
        (np.nan, 1j),
    ),
    "an overload": (
        {
            "helpers": """
            from numba.extending import overload
            def g(x):
                raise RuntimeError
            @overload(g)
            def compiled_g(x):
                return lambda x: x + 2.0
            """,
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("helpers", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "what an overload calls": (
        {
            "deeper": "from sekai.kernels import jit\n@jit\ndef h(x):\n    return x + 2.0\n",
            "helpers": """
            from deeper import h
            from numba.extending import overload
            def g(x):
                raise RuntimeError
            @overload(g)
            def compiled_g(x):
                return lambda x: h(x)
            """,
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("deeper", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "what an intrinsic generates": (
        {
            "helpers": """
            from numba import types
            from numba.extending import intrinsic
            @intrinsic
            def g(typing, x):
                def generate(context, builder, signature, args):
                    return builder.fadd(args[0], context.get_constant(types.float64, 2.0))
                return types.float64(types.float64), generate
            """,
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "a lowering, which no bytecode leads to": (
        {
            "helpers": """
            from numba import types
            from numba.extending import lower_builtin, type_callable
            def g(x):
                raise RuntimeError
            @type_callable(g)
            def type_g(context):
                return lambda x: types.float64
            @lower_builtin(g, types.float64)
            def lower_g(context, builder, signature, args):
                return builder.fadd(args[0], context.get_constant(types.float64, 2.0))
            """,
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("helpers", "2.0", "6.0"),
        (3.0, 7.0),
    ),
    "a ufunc": (
        {
            "helpers": "import numba\n@numba.vectorize\ndef g(x):\n    return x + 2.0\n",
            "market": "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
        },
        ("helpers", "x + 2.0", "x + 6.0"),
        (3.0, 7.0),
    ),
    "the options that a helper is compiled with": (
        {
            "deeper": "ERRORS = 'numpy'\n",
            "helpers": """
            import numba
            from deeper import ERRORS
            @numba.njit(error_model=ERRORS)
            def g(x):
                return x / (x - 1.0)
            """,
            "market": """
            from helpers import g
            from sekai.kernels import jit
            @jit
            def f(x):
                try:
                    return g(x)
                except Exception:
                    return 7.0
            """,
        },
        ("deeper", "'numpy'", "'python'"),
        (np.inf, 7.0),
    ),
}


def same(result, expected):
    return result == expected or np.isnan(result) and np.isnan(expected)


@pytest.mark.filterwarnings("ignore:.*First-class function type")
@pytest.mark.parametrize(("modules", "edit", "results"), EDITS.values(), ids=EDITS)
def test_an_edit_anywhere_is_seen(project, modules, edit, results):
    (edited, old, new), (before, after) = edit, results
    project.write(**modules)
    market = project.load()
    assert same(market.f(1.0), before) and hits(market.f) == 0
    market = project.load()
    assert same(market.f(1.0), before) and hits(market.f) == 1
    source = (project.folder / f"{edited}.py").read_text()
    assert old in source
    project.write(**{edited: source.replace(old, new)})
    market = project.load()
    assert same(market.f(1.0), after) and hits(market.f) == 0
    market = project.load()
    assert same(market.f(1.0), after) and hits(market.f) == 1
    project.write(**{edited: source})
    market = project.load()
    assert same(market.f(1.0), before)  # whether or not what was compiled then is still there


#: Of each: its module, and what a kernel calls it by, so that it gives 2.0 for an array of zeros.
EXTENSIONS = {
    "a function of NumPy": ("@overload(np.rot90)\ndef form(x):\n    return lambda x: x[0] + 2.0\n", "np.rot90(x)"),
    "one that Numba has a form of": ("@overload(np.dot)\ndef form(x):\n    return lambda x: x[0] + 2.0\n", "np.dot(x)"),
    "a method": (
        "@overload_method(types.Array, 'total')\ndef form(x):\n    return lambda x: x[0] + 2.0\n",
        "x.total()",
    ),
    "an attribute": (
        "@overload_attribute(types.Array, 'first')\ndef form(x):\n    return lambda x: x[0] + 2.0\n",
        "x.first",
    ),
    "a function of math": (
        """
        @overload(math.sqrt)
        def form(x):
            if isinstance(x, types.Array):
                return lambda x: x[0] + 2.0
        """,
        "math.sqrt(x)",
    ),
    "a built-in function": (
        """
        @overload(float)
        def form(x):
            if isinstance(x, types.Array):
                return lambda x: x[0] + 2.0
        """,
        "float(x)",
    ),
    "what getattr reads": ("K = 2.0\n", "getattr(what_getattr_reads, 'K')"),
    "an operator": (
        """
        @overload(operator.matmul)
        def form(x, y):
            if isinstance(y, types.Float):
                return lambda x, y: x[0] + 2.0
        """,
        "x @ 1.0",
    ),
}


def test_an_edit_of_what_extends_numpy_or_a_type_is_seen(project, folder, forked):
    """In a process each, since Numba has no way to take back what has been registered."""
    imports = """
    import math
    import operator
    import numpy as np
    from numba import types
    from numba.extending import overload, overload_attribute, overload_method
    """
    names = list(EXTENSIONS)
    modules = {
        re.sub(r"\W", "_", name): textwrap.dedent(imports) + textwrap.dedent(source)
        for name, (source, _) in EXTENSIONS.items()
    }
    market = f"import math, {', '.join(modules)}\nimport numpy as np\nfrom sekai.kernels import jit\n"
    for k, (_, call) in enumerate(EXTENSIONS.values()):
        market += f"@jit\ndef f{k}(x):\n    return {call}\n"
    project.write(**modules, market=market)

    def run(positions):
        show = f"""
import json, sys
sys.path.insert(0, {str(project.folder)!r})
import market, numpy
kernels = [getattr(market, f"f{{k}}") for k in {positions}]
print(json.dumps([[f(numpy.zeros(1)), sum(f.stats.cache_hits.values())] for f in kernels]))
"""
        return {names[k]: found for k, found in zip(positions, forked(show, folder), strict=True)}

    every = list(range(len(names)))
    assert run(every) == {name: [2.0, 0] for name in names}
    assert run(every) == {name: [2.0, 1] for name in names}
    # Any kernel may use an operator, so that an edit of one is seen in all: it comes last, and alone.
    *others, operator = modules
    project.write(**{name: modules[name].replace("2.0", "7.0") for name in others})
    assert run(every) == {name: [7.0, 0] if name != "an operator" else [2.0, 1] for name in names}
    project.write(**{operator: modules[operator].replace("2.0", "7.0")})
    assert run(every[-1:]) == {"an operator": [7.0, 0]}


def test_the_fields_of_an_argument_are_part_of_its_type(project):
    fields = "    low: float\n    high: float\n"
    project.write(
        helpers=f"from typing import NamedTuple\nclass Terms(NamedTuple):\n{fields}",
        market="from sekai.kernels import jit\n@jit\ndef f(terms):\n    return terms.low\n",
    )
    market = project.load()
    assert market.f(importlib.import_module("helpers").Terms(2.0, 6.0)) == 2.0
    market = project.load()
    assert market.f(importlib.import_module("helpers").Terms(2.0, 6.0)) == 2.0 and hits(market.f) == 1
    swapped = "    high: float\n    low: float\n"
    project.write(helpers=f"from typing import NamedTuple\nclass Terms(NamedTuple):\n{swapped}")
    market = project.load()
    assert market.f(importlib.import_module("helpers").Terms(2.0, 6.0)) == 6.0


@pytest.mark.parametrize("member", ["staticmethod(grow)", "2.0"], ids=["function", "constant"])
def test_what_the_class_of_an_argument_has_besides_its_fields_is_part_of_its_type(project, member):
    helpers = """
    from typing import NamedTuple
    from sekai.kernels import jit
    @jit
    def grow(x):
        return 2.0 * x
    class Terms(NamedTuple):
        low: float
        member = {member}
    """
    read = "terms.member(terms.low)" if "grow" in member else "terms.member * terms.low"
    project.write(
        helpers=helpers.format(member=member),
        market=f"from sekai.kernels import jit\n@jit\ndef f(terms):\n    return {read}\n",
    )
    market = project.load()
    assert market.f(importlib.import_module("helpers").Terms(3.0)) == 6.0
    market = project.load()
    assert market.f(importlib.import_module("helpers").Terms(3.0)) == 6.0 and hits(market.f) == 1
    project.write(helpers=helpers.format(member=member).replace("2.0", "7.0"))
    market = project.load()
    assert market.f(importlib.import_module("helpers").Terms(3.0)) == 21.0


def test_functions_that_are_exchanged_in_the_class_of_an_argument_are_compiled_anew(project):
    laws = """
    from sekai.kernels import jit
    @jit
    def two(x):
        return 2.0 * x
    @jit
    def three(x):
        return 3.0 * x
    """
    project.write(laws=laws)
    part = """
    from typing import NamedTuple
    import laws
    class Terms(NamedTuple):
        low: float
        ask, bid, mid = staticmethod(laws.three), staticmethod(laws.{bid}), staticmethod(laws.two)
    """
    kernels = """
    from sekai.kernels import jit
    @jit
    def g(terms):
        return terms.bid(terms.low)
    @jit
    def f(terms):
        return g(terms)
    """
    project.write(part=part.format(bid="two"), market=kernels)
    market = project.load()
    terms = importlib.import_module("part").Terms
    assert market.f(terms(1.0)) == 2.0
    project.write(part=part.format(bid="three"))
    market = project.load()
    terms = importlib.import_module("part").Terms
    assert market.f(terms(1.0)) == 3.0
    # Nor is anything kept of one whose functions are exchanged while the process runs.
    market.g(terms(1.0))
    terms.bid = staticmethod(importlib.import_module("laws").two)
    another = project.load()
    another.g(terms(1.0))
    project.write(part=part.format(bid="two"))
    market = project.load()
    assert market.f(importlib.import_module("part").Terms(1.0)) == 2.0


def test_both_forms_of_a_batch_kernel_are_loaded_until_a_helper_is_edited(project, folder, forked):
    kernel = """
    from helpers import g
    from sekai.kernels import jit_batch
    @jit_batch(block=2, parallel_from=4)
    def f(x, out):
        for i in range(len(out)):
            out[i] = g(x[i])
    """
    helper = "from sekai.kernels import jit\n@jit\ndef g(x):\n    return x + 2.0\n"
    show = f"""
import json, sys
sys.path.insert(0, {str(project.folder)!r})
import market
import numpy as np

def result(n):
    out = np.zeros(n)
    try:
        market.f(np.ones(n), out)
    except TypeError:
        return "refused"
    return out.tolist()

results = [result(3), result(8)]
print(json.dumps([results, [sum(each.stats.cache_hits.values()) for each in market.f.dispatchers]]))
"""
    project.write(helpers=helper, market=kernel)
    expected = [[3.0] * 3, [3.0] * 8]
    assert forked(show, folder) == [expected, [0, 0]]
    written = files(folder)
    assert {name.rpartition("-")[0] for name in written} == {"g", "f", "f_serial", "f_parallel"}
    # One that was not forked has everything at other addresses.
    environ = {**environ_of_a_user(), "SEKAI_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-Bc", show], capture_output=True, text=True, timeout=600, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [expected, [1, 1]]
    assert files(folder) == written
    project.write(helpers=helper.replace("2.0", "'text'"))  # which takes less time than to compile it anew
    assert forked(show, folder) == [["refused", "refused"], [0, 0]]


def test_a_global_that_changed_under_a_compiled_helper_is_not_passed_on(folder):
    """As in a notebook, where a cell is run again: no file tells the functions apart."""
    helper = "from sekai.kernels import jit\n@jit\ndef g(x):\n    return x + STEP\n"
    kernel = "@jit\ndef f(x):\n    return g(x)\n"

    def run(source, scope):
        exec(compile(source, "<cell>", "exec"), scope)

    first = {"__name__": "notebook", "STEP": 2.0}
    run(helper, first)
    assert first["g"](1.0) == 3.0  # from now on the compiled g has this step
    run("STEP = 6.0", first)
    run(kernel, first)
    assert first["f"](1.0) == 3.0
    second = {"__name__": "notebook", "STEP": 6.0}
    run(helper, second)
    run(kernel, second)
    assert second["f"](1.0) == 7.0
    assert hits(second["f"]) == 0
    third = {"__name__": "notebook", "STEP": 6.0}
    run(helper, third)
    run(kernel, third)
    assert third["f"](1.0) == 7.0
    assert hits(third["f"]) == 1


def test_a_file_written_only_now_is_known_when_it_is_imported(project):
    (project.folder / "market.py").write_text("from sekai.kernels import jit\n@jit\ndef f(x):\n    return x + 2.0\n")
    assert project.load().f(1.0) == 3.0
    market = project.load()
    assert market.f(1.0) == 3.0 and hits(market.f) == 1
    (project.folder / "market.py").write_text("# Another file by now.")
    assert market.f(1) == 3


def test_a_file_edited_after_it_was_imported_does_not_pass_for_what_was_compiled(project):
    helpers = """
    from numba.extending import overload
    def g(x):
        raise RuntimeError
    def body(x):
        return x + 2.0
    @overload(g)
    def compiled_g(x):
        return lambda x: x + 2.0
    """
    lowered = EDITS["a lowering, which no bytecode leads to"][0]
    for source in (helpers, lowered["helpers"]):
        project.write(helpers=source, market=lowered["market"])
        market = project.load()
        (project.folder / "helpers.py").write_text(textwrap.dedent(source.replace("2.0", "6.0")))
        assert market.f(1.0) == 3.0
        assert project.load().f(1.0) == 7.0


def test_what_cannot_be_looked_into_is_compiled_each_time_and_no_error(project, folder):
    """An object that has another's place, as an overload has: of Numba's, only functions are known to the cache."""
    helpers = """
    from numba.extending import overload
    def g(x):
        raise RuntimeError
    class Form:
        __name__ = "form"
        def __call__(self, x):
            return lambda x: x + 2.0
    overload(g)(Form())
    """
    kernel = "from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n"
    project.write(helpers=helpers, market=kernel, other=kernel.replace("g(x)", "x + 2.0"))
    assert project.load().f(1.0) == 3.0
    assert not files(folder)
    assert project.load("other").f(1.0) == 3.0 and len(files(folder)) == 1  # which does not call it


def test_what_cannot_be_described_is_compiled_each_time(project, folder):
    helpers = "import numba\n@numba.cfunc('float64(float64)')\ndef g(x):\n    return x + 2.0\n"
    project.write(
        helpers=helpers,
        market="from helpers import g\nfrom sekai.kernels import jit\n@jit\ndef f(x):\n    return g(x)\n",
    )
    assert project.load().f(1.0) == 3.0
    assert not files(folder)
    project.write(helpers=helpers.replace("2.0", "6.0"))
    assert project.load().f(1.0) == 7.0


# -- the folder ----------------------------------------------------------------------------------------------


@pytest.fixture
def doubling():
    """Fresh kernels, none compiled yet; they are the same ones each time."""

    def make():
        @jit
        def double(x):
            return 2.0 * x

        return double

    return make


def test_the_name_of_a_file_begins_with_the_kernels(doubling, folder):
    assert doubling()(2.0) == 4.0
    (name,) = files(folder)
    assert re.fullmatch(r"doubling__locals__make__locals__double-[0-9a-f]{40}\.kernel", name)


def test_each_form_has_its_file(doubling, folder):
    kernel = doubling()
    kernel(2.0), kernel(2), kernel(np.float32(2.0)), kernel(3.0)
    assert len(files(folder)) == 3
    again = doubling()
    assert (again(2), again(2.0)) == (4.0, 4.0) and hits(again) == 2


@pytest.mark.parametrize("off", ["0", "off", "False", " no "])
def test_the_cache_can_be_turned_off(doubling, folder, monkeypatch, off):
    monkeypatch.setenv("SEKAI_CACHE", off)
    kernels = [doubling(), doubling()]
    assert [kernel(2.0) for kernel in kernels] == [4.0, 4.0]
    assert hits(kernels[1]) == 0 and not folder.exists()


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(doubling, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEKAI_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    kernels = [doubling(), doubling()]
    assert [kernel(2.0) for kernel in kernels] == [4.0, 4.0]
    assert hits(kernels[1]) == 0


def flipped(whole, bit):
    """The bytes with one bit changed."""
    spoilt = bytearray(whole)
    spoilt[bit // 8] ^= 1 << bit % 8
    return bytes(spoilt)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path, whole: path.write_bytes(whole[: len(whole) // 2]),
        lambda path, whole: path.write_bytes(b""),
        lambda path, whole: path.write_bytes(b"garbage" * 1000),
        lambda path, whole: path.write_bytes(b"\x80\x04N."),  # a pickle of None
        lambda path, whole: path.write_bytes(whole[:-200] + bytes(200)),
        lambda path, whole: path.write_bytes(whole[:4096] + bytes(4096) + whole[8192:]),
        lambda path, whole: path.write_bytes(flipped(whole, 8 * whole.index(b"\x7fELF") + 8 * 2000 + 3)),
    ],
    ids=["half a file", "empty", "garbage", "another pickle", "a spoilt end", "a page of zeros", "a bit of its code"],
)
def test_b3_a_spoilt_file_is_replaced(doubling, folder, spoil):
    doubling()(2.0)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    spoil(path, whole)
    kernel = doubling()
    assert kernel(2.0) == 4.0 and hits(kernel) == 0
    kernel = doubling()
    assert kernel(2.0) == 4.0 and hits(kernel) == 1


def test_b3_no_damage_to_a_file_goes_unseen(doubling, folder):
    doubling()(2.0)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    kept = read(path)
    assert kept and whole.endswith(kept)
    damaged = [flipped(whole, bit) for bit in range(5, 8 * len(whole), 1999)]
    damaged += [whole[:page] + bytes(4096) + whole[page + 4096 :] for page in range(0, len(whole) - 4096, 4096)]
    damaged += [whole[:length] for length in range(0, len(whole), 997)] + [whole[:-1], whole + b"\0"]
    assert len(damaged) > 50
    for each in damaged:
        path.write_bytes(each)
        assert read(path) is None
    path.write_bytes(whole)
    assert read(path) == kept


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)], ids=oct)
def test_b2_files_have_the_mode_that_the_umask_leaves(doubling, folder, umask, mode):
    before = os.umask(umask)
    try:
        doubling()(2.0)
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == mode
    assert folder.stat().st_mode & 0o777 == mode | mode >> 2 & 0o111  # who may read it may look into it


@pytest.mark.parametrize("name", ["SEKAI_CACHE_DIR", "HOME"])
def test_b4_a_user_without_a_home_goes_without(doubling, monkeypatch, name):
    monkeypatch.setenv("SEKAI_CACHE_DIR", "~somebody-who-is-not-there/k" if name == "SEKAI_CACHE_DIR" else "~/k")
    if name == "HOME":  # neither named nor, for this user, listed
        monkeypatch.delenv("HOME")
        monkeypatch.setattr("posixpath.expanduser", lambda path: path)
        monkeypatch.setattr("ntpath.expanduser", lambda path: path)
    kernels = [doubling(), doubling()]
    assert [kernel(2.0) for kernel in kernels] == [4.0, 4.0]
    assert hits(kernels[1]) == 0 and kernels[0].stats.cache_path is None


def test_b8_the_files_of_a_kernel_go_when_its_successor_is_written(project, folder):
    source = "from sekai.kernels import jit\n@jit\ndef f(x):\n    return x + 2.0\n"
    closures = """
    from sekai.kernels import jit
    def make(step):
        @jit
        def f(x):
            return x + step
        return f
    """
    project.write(market=source, other=source, closures=closures)
    market, other, make = project.load(), project.load("other"), importlib.import_module("closures").make
    market.f(1.0), market.f(1)
    old = set(files(folder))
    other.f(1.0)  # of the same name
    make(1.0)(1.0), make(2.0)(1.0)  # of the same name and place, and both in use
    kept = set(files(folder)) - old
    assert (len(old), len(kept)) == (2, 2 + 1)
    project.write(market=source.replace("2.0", "6.0"))
    market = project.load()
    assert market.f(1.0) == 7.0
    new = set(files(folder)) - kept
    assert len(new) == 1 and not new & old
    market.f(1)
    assert len(set(files(folder)) - kept) == 2


def test_b8_an_edit_of_a_helper_makes_successors_too(project, folder):
    modules, (edited, old, new), _ = EDITS["a helper in another file"]
    project.write(**modules)
    project.load().f(1.0)
    before = files(folder)
    project.write(**{edited: modules[edited].replace(old, new)})
    project.load().f(1.0)
    names, names_before = (sorted(name.partition("-")[0] for name in each) for each in (files(folder), before))
    assert names == names_before
    assert not files(folder).keys() & before.keys()


def named(kernel, k):
    """What a file of the cache is called."""
    return f"{kernel}-{k:040x}.kernel"


def test_b8_what_was_used_longest_ago_goes_when_all_takes_too_much(doubling, folder, monkeypatch):
    kernel = doubling()
    written = []
    for value in (2.0, 2, np.float32(2.0)):
        kernel(value)
        written += set(files(folder)) - set(written)
    sizes = {name: (folder / name).stat().st_size for name in written}
    for age, name in enumerate(written):
        os.utime(folder / name, (1000 + age, 1000 + age))
    killed = folder / f"{named('f', 0)}-1-0123abcd.tmp"  # what a process that was killed has left
    killed.write_bytes(bytes(100))
    os.utime(killed, (999, 999))
    others = {"notes.txt", "model.tmp", "rbf.kernel"}  # of other programs, and older
    for name in others:
        (folder / name).write_text("none of the kit's")
        os.utime(folder / name, (1, 1))
    again = doubling()
    again(2.0)
    assert hits(again) == 1  # which makes the first one the last that was used
    monkeypatch.setattr("sekai.kernels.files.MOST_BYTES", sum(sizes.values()) + 200)
    again(np.int8(2))
    (newest,) = set(files(folder)) - set(written) - others
    assert set(files(folder)) == {written[0], written[2], newest, *others}
    assert [kernel(2) for kernel in (doubling(), doubling())] == [4, 4]  # and a file that went is written again


def test_b8_files_that_others_remove_at_the_same_time_are_no_error(folder, monkeypatch):
    """Each file is gone by the time it is looked at, or cannot be removed."""
    folder.mkdir()
    for k in range(3):
        (folder / named("f", k)).write_bytes(bytes(100))
    monkeypatch.setattr("sekai.kernels.files.MOST_BYTES", 0)

    def refuse(path):
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr("sekai.kernels.files.os.unlink", refuse)
        write(folder / named("f", 9), b"code", Origin(bytes(32), bytes(32)))
    assert read(folder / named("f", 9)) == b"code"
    (folder / named("gone", 1)).symlink_to(folder / "nowhere")  # listed, and not there
    write(folder / named("gone", 2), b"code", Origin(bytes(32), bytes(32)))
    assert not any(path.is_file() for path in folder.iterdir())


def test_a_folder_in_the_place_of_a_file_is_put_up_with(doubling, folder):
    doubling()(2.0)
    (path,) = folder.iterdir()
    path.unlink()
    path.mkdir()
    assert doubling()(2.0) == 4.0
    assert list(folder.iterdir()) == [path]


# -- processes -----------------------------------------------------------------------------------------------


READ = """
import json
import numpy as np
from sekai.kernels import jit

@jit
def read(x, i):
    return x[i]

read(np.zeros(3), 1)
try:
    end = read(np.zeros(4), 4) is None
except IndexError:
    end = "refused"
print(json.dumps([end, sum(read.stats.cache_hits.values())]))
"""

ANOTHER_NUMBA = """
import importlib, numba, sekai.kernels.cache
numba.__version__ = "0.0.1"
importlib.reload(sekai.kernels.cache)
"""


def test_code_is_for_one_version_and_the_same_settings(folder, forked):
    assert forked(READ, folder) == [False, 0]
    assert forked(READ, folder) == [False, 1]
    assert forked(READ, folder, NUMBA_NUM_THREADS="1") == [False, 1]  # which changes no code
    assert forked(READ, folder, NUMBA_OPT="1") == [False, 0]
    assert forked(ANOTHER_NUMBA + READ, folder) == [False, 0]
    assert forked(READ, folder, NUMBA_BOUNDSCHECK="1") == ["refused", 0]


def test_the_folder_is_in_numbas_if_it_has_no_name_of_its_own(doubling, tmp_path, monkeypatch):
    monkeypatch.setenv("SEKAI_CACHE_DIR", "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    kernel, expected = doubling(), tmp_path / "numba" / "sekai"
    assert kernel(2.0) == 4.0 and kernel.stats.cache_path == str(expected)
    assert len(files(expected)) == 1


@pytest.mark.parametrize(
    ("platform", "within"),
    [("linux", [".cache", "sekai", "kernels"]), ("darwin", ["Library", "Caches", "sekai", "kernels"])],
)
def test_else_it_is_in_the_users(doubling, tmp_path, monkeypatch, platform, within):
    for name in ("SEKAI_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert doubling().stats.cache_path == str(tmp_path.joinpath(*within))


ROWS = """
import json
import numpy as np
from sekai.kernels import jit, jit_batch

@jit
def pick(x, i):
    return x[i]

@jit_batch()
def triple(x, out):
    for i in range(len(out)):
        out[i] = 3.0 * pick(x, i)

out = np.zeros(3)
triple(np.ones(3), out)
print(json.dumps([out.tolist(), [sum(each.stats.cache_hits.values()) for each in triple.dispatchers]]))
"""


def test_processes_that_compile_at_once_leave_what_the_next_one_loads(folder, forked):
    assert [out for out, _ in forked(ROWS, folder, copies=2)] == [[3.0] * 3] * 2
    written = files(folder)
    assert {name.rpartition("-")[0] for name in written} == {"pick", "triple", "triple_serial"}
    assert all(name.endswith(".kernel") for name in written)
    assert forked(ROWS, folder) == [[3.0] * 3, [1, 0]]
    assert files(folder) == written


OF_ONE_NAME = """
import json
from sekai.kernels import jit

LINES = "".join("    x = 0.5 * x + step\\n" for _ in range(300))  # more than is inlined

def make(step):
    scope = dict(step=step, __name__="__main__")
    exec("def walk(x):\\n" + LINES + "    return x\\n", scope)
    scope["walk"] = jit(inline=False)(scope["walk"])
    exec("def twice(x):\\n    return walk(x) + walk(x + 1.0)\\n", scope)
    return jit(scope["twice"])

kernels = [make(step) for step in {steps}]
print(json.dumps([[twice(0.0), sum(twice.stats.cache_hits.values())] for twice in kernels]))
"""


def test_kernels_of_one_name_that_two_processes_compiled_are_told_apart(folder, forked):
    # Numba counts the functions of each process from one, and names compiled code by that.
    for step in (1.0, 2.0):
        assert forked(OF_ONE_NAME.format(steps=[step]), folder) == [[4.0 * step, 0]]
    assert forked(OF_ONE_NAME.format(steps=[1.0, 2.0]), folder) == [[4.0, 1], [8.0, 1]]


NAMED_TUPLES = """
import json
from typing import NamedTuple
import numpy as np
from sekai.kernels import jit, jit_batch

class Book(NamedTuple):
    bid: np.ndarray
    ask: np.ndarray

@jit
def spread(book):
    return book.ask[0] - book.bid[0]

@jit_batch()
def spreads(book, out):
    for i in range(len(out)):
        out[i] = book.ask[i] - book.bid[i]

book, out = Book(np.array([1.0]), np.array([3.5])), np.zeros(1)
spreads(book, out)
print(json.dumps([spread(book), out.tolist()]))
"""


def test_named_tuples_of_the_main_module_work_in_every_process(folder, forked):
    assert forked(NAMED_TUPLES, folder) == [2.5, [2.5]]
    # Kept, it would come back with a class of its own, since nobody can import this one.
    assert not [name for name in files(folder) if name.startswith("spread-")]
    assert forked(NAMED_TUPLES, folder) == [2.5, [2.5]]


MARKET = """
import numpy as np
from sekai import Box, Discrete, Env, ResetResult, StepResult
from sekai.kernels import jit_batch

@jit_batch()
def advance(step, level):
    for i in range(len(level)):
        level[i] += step

class Drift(Env):
    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(9)

    def reset(self, *, seed=None, options=None):
        self.level = np.zeros(1)
        return ResetResult(self.level.copy(), {})

    def step(self, action):
        advance(float(action), self.level)
        return StepResult(self.level.copy(), 0.0, False, False, {})
"""

WORKERS = """
import json, sys, warnings
import numpy as np
from market import Drift, advance
from sekai.vector import ProcVecEnv

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # about fork
    with ProcVecEnv([Drift] * 2, context=sys.argv[1]) as vec:
        vec.reset()
        levels = [vec.step([1, 2]).observations[:, 0].tolist() for _ in range(2)]
    advance(1.0, np.zeros(1))
    print(json.dumps([levels, [sum(each.stats.cache_hits.values()) for each in advance.dispatchers]]))
"""


@pytest.mark.parametrize("context", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_workers_that_compile_at_once_leave_what_their_parent_loads(project, folder, forked, context):
    project.write(market=MARKET, workers=WORKERS)
    code = f"""
import runpy, sys
sys.argv[1:] = [{context!r}]
sys.path.insert(0, {str(project.folder)!r})
runpy.run_path({str(project.folder / "workers.py")!r}, run_name="__main__")
"""
    assert forked(code, folder) == [[[1.0, 2.0], [2.0, 4.0]], [1, 0]]
    assert all(name.endswith(".kernel") for name in files(folder))


SENT = """
import json, pickle
import numpy as np
shift, double = pickle.loads({pickled!r})
out = np.zeros(3)
shift(np.ones(3), 6.0, out)
out[2] = double(out[2])
print(json.dumps([out.tolist(), [sum(each.stats.cache_hits.values()) for each in (shift.dispatchers[0], double)]]))
"""


OF_A_SCRIPT = """
from sekai.kernels import jit, jit_batch

@jit_batch(shared="step")
def shift(x, step, out):
    for i in range(len(out)):
        out[i] = x[i] + step

@jit
def double(x):
    return 2.0 * x
"""


def test_kernels_that_are_sent_to_another_process_are_compiled_there_and_kept(folder, forked):
    import cloudpickle

    scope = {"__name__": "__main__"}
    exec(OF_A_SCRIPT, scope)
    code = SENT.format(pickled=cloudpickle.dumps([scope["shift"], scope["double"]]))
    assert forked(code, folder) == [[7.0, 7.0, 14.0], [0, 0]]
    assert forked(code, folder) == [[7.0, 7.0, 14.0], [1, 1]]
