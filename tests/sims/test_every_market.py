"""What holds for every environment that is registered here, by whichever package."""

from __future__ import annotations

import pytest

import sekai
import sims

MARKETS = {"LimitOrderBook-v0", "MarketMaking-v0", "OptimalExecution-v0", "Portfolio-v0", "Trading-v0"}


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
    assert MARKETS <= set(problems)
    assert problems == dict.fromkeys(problems, [])


@pytest.mark.slow
def test_nor_does_the_checker_of_many_at_once():
    problems = {}
    for spec in sekai.all_specs():

        def factory(num_envs, max_episode_steps=None, id=spec.id, **vector_kwargs):
            return sekai.make_vec(id, num_envs, max_episode_steps=max_episode_steps, vector_kwargs=vector_kwargs)

        findings = sekai.check_vec_env(factory)
        problems[spec.id] = [finding for finding in findings if not finding.startswith("hint: ")]
    assert MARKETS <= set(problems)
    assert problems == dict.fromkeys(problems, [])
