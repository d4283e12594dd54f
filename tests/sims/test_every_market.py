"""What holds for every environment that is registered here, by whichever package."""

from __future__ import annotations

import pytest

import sekai
import sims


@pytest.fixture(autouse=True)
def registered():
    """Where the package is not installed, nothing announces its markets."""
    if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()


def test_the_checker_finds_no_problem_in_any():
    problems = {}
    for spec in sekai.all_specs():
        with sekai.make(spec.id) as env:
            problems[spec.id] = sekai.check_env(env)
    assert "Trading-v0" in problems
    assert problems == dict.fromkeys(problems, [])
