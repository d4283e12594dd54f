"""warm_up compiles what a market needs."""

from __future__ import annotations

import numba
from toy_market import WalkVec

from sekai.kernels import get_num_threads, set_num_threads, warm_up


def test_it_builds_steps_and_closes(monkeypatch):
    built = []

    def factory(num_envs):
        built.append(WalkVec(num_envs))
        return built[-1]

    before = get_num_threads()
    try:
        set_num_threads(1)
        assert warm_up(factory) > 0.0
        assert [vec.num_envs for vec in built] == [1]
        set_num_threads(2)
        warm_up(factory, num_envs=5)
        assert [vec.num_envs for vec in built] == [1, 1, 5][: len(built)]
    finally:
        set_num_threads(before)
    assert all(vec.closed for vec in built)


def test_what_it_has_compiled_need_not_be_again():
    from sims.market_making import MarketMakingVecEnv
    from sims.market_making.kernels import advance_market_making

    warm_up(lambda num_envs: MarketMakingVecEnv(num_envs, observe="full"), num_envs=3)
    if not numba.config.DISABLE_JIT:
        assert any(dispatcher.signatures for dispatcher in advance_market_making.dispatchers)
