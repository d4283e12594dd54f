from __future__ import annotations

import gc
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
        for part in (
            "env",
            "from_vector",
            "names",
            "next_step",
            "registration",
            "reset_mask",
            "spaces",
            "vector",
            "wrappers",
        )
    },
    "compat/test_cart_pole.py": ("gymnasium",),
    "compat/test_stable_baselines3.py": ("stable_baselines3", "sb3_contrib"),
    "compat/test_torch.py": ("torch",),
    "compat/test_torchrl.py": ("torchrl", "gymnasium"),
    "compat/test_train_sb3.py": ("stable_baselines3", "sb3_contrib"),
    "bench/test_bench_ray_vec_env.py": ("ray",),
    "compat/test_ray_losses.py": ("ray",),
    "compat/test_ray_rollout.py": ("ray",),
    "compat/test_ray_vec_env.py": ("ray",),
    "vector/test_ray_contract.py": ("ray",),
    "sims/test_metrics.py": ("empyrical",),
    "sims/test_plots.py": ("matplotlib",),
    "test_cli_plot.py": ("matplotlib",),
    "test_docs.py": ("gymnasium", "matplotlib", "ray", "stable_baselines3", "torch", "torchrl"),
    "test_notebooks.py": ("nbclient", "ipykernel", "matplotlib", "stable_baselines3"),
    "test_sekai_plots.py": ("matplotlib",),
}
collect_ignore = [name for name, modules in NEEDS.items() if not all(map(find_spec, modules))]


def pytest_report_header() -> list[str]:
    return [f"left out: {name}, which needs {', '.join(NEEDS[name])}" for name in collect_ignore]


#: Tests of processes, signals and threads: one after another on one worker, so that they have a core beside them.
PROCESSES = ("vector/test_proc.py", "vector/test_cases_threads.py", "kernels/test_threads.py")

#: What is begun first, the longest first, so that no worker is left alone with one at the end: those, and what of the
#: rest takes more than some eight seconds (`pytest --durations=0` tells).
FIRST = (
    *PROCESSES,
    "vector/test_kernel_env.py",
    "compat/test_gymnasium_env.py",
    "sims/test_trading_env.py",
    "sims/test_reproducibility.py",
    "compat/test_gymnasium_from_vector.py",
    "vector/test_snapshots.py",
    "vector/test_contract.py",
    "test_check_vec_env.py",
    "vector/test_native.py",
    "test_rollout_compiled.py",
    "sims/test_every_market.py",
    "test_readme.py",
    "vector/test_cases_observations.py",
    "vector/test_cases_episodes.py",
    "kernels/test_kernel_cache.py",
    "vector/test_cases_wrappers.py",
    "sims/test_trading_kernel.py",
    "sims/test_market_making_kernel.py",
    "vector/test_kernel_open_parts.py",
    "vector/test_cases_seeds_inputs.py",
    "sims/test_market_making_env.py",
    "sims/test_market_making_baselines.py",
    "kernels/test_moments.py",
    "kernels/test_jit_batch.py",
    "sims/test_portfolio_env.py",
)


def pytest_configure(config: pytest.Config) -> None:
    # Cycles are looked for seldom: a compiler makes so many objects that it would take an eighth of all time.
    gc.set_threshold(20_000, 20, 20)
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
    here = Path(__file__).parent
    order = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(here).as_posix(), len(FIRST)))
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="takes long, or finds nothing, without compilation"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for no cycles among what was imported and collected, which stays to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """``check_vec_env`` with a wide batch of some hundred rows: for faults that neither blocks nor threads bring."""
    monkeypatch.setattr("sekai.testing.examination.count_rows", lambda reference, kernels: 300)
