from __future__ import annotations

import signal
from importlib.util import find_spec

#: Tests that need more than the extra "test" installs, and what they need; `.ci/run` installs all of it.
NEEDS = {
    **{
        f"compat/test_gymnasium_{part}.py": ("gymnasium",)
        for part in ("env", "from_vector", "registration", "spaces", "vector")
    },
    "compat/test_stable_baselines3.py": ("stable_baselines3", "sb3_contrib"),
    "compat/test_torch.py": ("torch",),
    "compat/test_torchrl.py": ("torchrl",),
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


def pytest_configure() -> None:
    # A script's background jobs ignore Ctrl-C, and so would the tests that press it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
