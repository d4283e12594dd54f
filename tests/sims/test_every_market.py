"""What holds for every environment that is registered here, by whichever package."""

from __future__ import annotations

import pytest

import sekai
import sims

if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:  # where the package is not installed
    sims.register_envs()

MARKETS = [spec.id for spec in sekai.all_specs()]


def test_those_of_sims_are_among_them():
    expected = {"LimitOrderBook-v0", "MarketMaking-v0", "OptimalExecution-v0", "Portfolio-v0", "Trading-v0"}
    assert expected <= set(MARKETS)


@pytest.mark.parametrize("market", MARKETS)
def test_the_checker_finds_no_problem_in_any(market):
    with sekai.make(market) as env:
        assert sekai.check_env(env) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "market",
    # Of an order book so many forms are compiled for the checker that they take a minute.
    [pytest.param(each, marks=pytest.mark.long) if each == "LimitOrderBook-v0" else each for each in MARKETS],
)
def test_nor_does_the_checker_of_many_at_once(market):
    def factory(num_envs, max_episode_steps=None, **vector_kwargs):
        return sekai.make_vec(market, num_envs, max_episode_steps=max_episode_steps, vector_kwargs=vector_kwargs)

    findings = sekai.check_vec_env(factory)
    assert [finding for finding in findings if not finding.startswith("hint: ")] == []
