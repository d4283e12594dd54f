from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

#: Tests that need more than the extra "test" installs, and what they need; `.ci/run` installs all of it.
NEEDS = {
    **{
        f"compat/test_gymnasium_{part}.py": ("gymnasium",)
        for part in ("env", "from_vector", "next_step", "registration", "reset_mask", "spaces", "vector")
    },
    "compat/test_cart_pole.py": ("gymnasium",),
    "compat/test_stable_baselines3.py": ("stable_baselines3", "sb3_contrib"),
    "compat/test_torch.py": ("torch",),
    "compat/test_torchrl.py": ("torchrl", "gymnasium"),
    "compat/test_train_sb3.py": ("stable_baselines3",),
    "sims/test_metrics.py": ("empyrical",),
    "sims/test_plots.py": ("matplotlib",),
    "test_cli_plot.py": ("matplotlib",),
    "test_docs.py": ("gymnasium", "matplotlib", "stable_baselines3", "torch", "torchrl"),
    "test_notebooks.py": ("nbclient", "ipykernel", "matplotlib", "stable_baselines3"),
    "test_sekai_plots.py": ("matplotlib",),
}
collect_ignore = [name for name, modules in NEEDS.items() if not all(map(find_spec, modules))]


def pytest_report_header() -> list[str]:
    return [f"left out: {name}, which needs {', '.join(NEEDS[name])}" for name in collect_ignore]


#: Tests of processes, signals and threads: one after another on one worker, so that they have a core beside them.
PROCESSES = ("vector/test_proc.py", "vector/test_cases_threads.py", "kernels/test_threads.py")


def pytest_configure(config: pytest.Config) -> None:
    # A script's background jobs ignore Ctrl-C, and so would the tests that press it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Compiled kernels are this checkout's, shared by the workers of a run, which inherit the variable.
    if "SEKAI_CACHE_DIR" not in os.environ and hasattr(config, "cache"):
        os.environ["SEKAI_CACHE_DIR"] = str(config.cache.mkdir("kernels"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file goes to one worker, so that what it compiles and builds is made once.

    xdist's own groups are not in force under pytest 9.2 (pytest-xdist issue 1386).
    """
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            name = nodeid.partition("::")[0].removeprefix("tests/")
            return "processes" if name in PROCESSES else name

    config.option.loadscopereorder = False  # as they were collected, not the files with the most tests first
    return Files(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First, so that no worker is left with them at the end: it is the longest of all groups.
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).as_posix() not in PROCESSES)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """``check_vec_env`` with a wide batch of some hundred rows: for faults that neither blocks nor threads bring."""
    monkeypatch.setattr("sekai.testing.examination.count_rows", lambda reference, kernels: 300)
