"""``Trading-v0`` by its id, on every backend in this process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sekai
import sims

ARGUMENTS = {"lookback": 5, "episode_length": 6, "transaction_cost": 2e-3, "borrow_rate": 1e-4}


@pytest.fixture(autouse=True)
def registered():
    """Where the package is not installed, nothing announces its markets."""
    if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()


def test_registering_imports_no_market():
    code = "import sys, sims; sims.register_envs(); print([m for m in ('numba', 'sims.trading') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_spec_is_native():
    spec = sekai.spec("Trading-v0")
    assert spec.vector_entry_point == "sims.trading.simulated:make_trading"
    with sekai.make_vec("Trading-v0", num_envs=2) as vec:
        assert type(vec.unwrapped).__name__ == "TradingVecEnv"
        assert vec.get_attr("lookback") == [32, 32]


@pytest.mark.parametrize("autoreset", [True, False])
@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_backends_agree_exactly_on_named_starts(mode, autoreset):
    options = [{"start": 100}, {"start": 2000}, {"start": 5027}]  # the last one ends early, with the history
    vector_kwargs = {"autoreset": autoreset, "autoreset_options": {"start": 400}}
    native, other = (
        sekai.make_vec("Trading-v0", num_envs=3, vectorization_mode=name, vector_kwargs=vector_kwargs, **ARGUMENTS)
        for name in ("native", mode)
    )
    rng = np.random.default_rng(0)
    with native, other:
        left, right = (vec.reset(options=options) for vec in (native, other))
        np.testing.assert_array_equal(left.observations, right.observations)
        for _ in range(15):
            actions = rng.integers(0, 3, 3)
            left, right = (vec.step(actions) for vec in (native, other))
            for name in ("observations", "rewards", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
            for info, same in zip(left.infos, right.infos, strict=True):
                assert set(info) == set(same)
                final = [one.pop("final_observation", np.empty(0)) for one in (info, same)]
                np.testing.assert_array_equal(*final)
                assert info == same


@pytest.mark.parametrize("mode", ["native", "sync", "async"])
@pytest.mark.parametrize("name", ["buy-and-hold", "always-flat", "momentum"])
def test_policies_are_found_through_the_backend(mode, name):
    with sekai.make_vec("Trading-v0", num_envs=2, vectorization_mode=mode, **ARGUMENTS) as vec:
        policy = vec.get_attr("policies")[0][name](vec)
        actions = policy(vec.reset(seed=0).observations)
        assert vec.batch_action_space.contains(actions)
        vec.step(actions)


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_c2_adjusted_closes_and_c3_bars_without_volume_need_a_choice_by_any_way_in(tmp_path, mode):
    close = np.exp(np.random.default_rng(0).normal(0.0, 0.02, 60).cumsum())
    volume = np.where(np.arange(60) == 7, 0, 5)
    frame = {"Open": 1.01 * close, "Close": close, "Adj Close": close / 2, "Volume": volume}
    path = tmp_path / "bars.csv"
    rows = ["\t".join(frame), *("\t".join(map(str, row)) for row in zip(*frame.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")

    def make(**kwargs):
        return sekai.make_vec("Trading-v0", 2, vectorization_mode=mode, prices=str(path), **ARGUMENTS, **kwargs)

    with pytest.raises(ValueError, match=r"line 9, column 'Volume': expected a volume above 0.*zero_volume='trade'"):
        make()
    with pytest.raises(ValueError, match=r"line 2, column 'Adj Close': .*say which to trade at, price='close' or"):
        make(zero_volume="trade")
    with make(price="adj_close", zero_volume="drop") as vec:
        history = vec.get_attr("history")[1]
        assert history.columns == {"close": "Adj Close", "open": "Open", "volume": "Volume"}
        np.testing.assert_array_equal(history.close, np.delete(close / 2, 7))
        np.testing.assert_allclose(history.open, np.delete(1.01 * close / 2, 7), rtol=1e-15)
        assert vec.get_attr("execution") == ["open"] * 2
