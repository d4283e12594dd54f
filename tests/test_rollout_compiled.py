"""Rollouts in one compiled loop give the numbers that a loop over ``step()`` gives."""

from __future__ import annotations

import re

import numba
import numpy as np
import pytest
from toys import BOX1, NativeToy
from vector.backends import assert_same

import sekai
from sekai import Dict
from sekai.errors import InvalidAction, ResetRequired
from sekai.kernels import get_num_threads, jit, set_num_threads
from sims.market_making import AvellanedaStoikov, CarteaJaimungal, FixedSpread, MarketMakingVecEnv, Randomized
from sims.trading import TradingVecEnv

FIELDS = (
    "observations actions rewards terminated truncated frozen last_observations final_indices final_observations"
).split()


@jit
def lean(observation, action):
    """Quotes further away on the side that would add to the inventory."""
    action[0] = 0.6 + 0.5 * observation[0]
    action[1] = 0.6 - 0.5 * observation[0]


@jit
def follow(observation, action):
    """Long after a rise, short after a fall."""
    last = observation[-2]
    action[0] = 2 if last > 0.0 else 0


@jit
def half_weight(observation, action):
    action[0] = 0.5


@jit
def refuse_late(observation, action):
    action[0] = 0.7
    action[1] = np.nan if observation[1] < np.float32(0.5) else 0.7


class StepByStep:
    """The same policy, in a form that keeps it from being rolled out in compiled code."""

    def __init__(self, policy, vec):
        self.policy, self.vec = policy, vec

    def __call__(self, observations):
        if not hasattr(self.policy, "is_kernel"):
            return self.policy(observations)
        shape = (len(observations), *self.vec.action_space.shape)
        actions = np.zeros(shape, dtype=self.vec.action_space.dtype)
        for observation, action in zip(observations, actions.reshape(len(observations), -1), strict=True):
            self.policy(observation, action)
        return actions


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.slow)], ids=["1 thread", "2 threads"])
def threads(request):
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


MARKETS = {
    "brownian": lambda n: MarketMakingVecEnv(n, n_steps=20),
    "limited": lambda n: MarketMakingVecEnv(n, n_steps=20, max_episode_steps=7),
    "drawn": lambda n: MarketMakingVecEnv(n, n_steps=20, volatility=Randomized(1.0, 2.0)),
    "full": lambda n: MarketMakingVecEnv(n, n_steps=7, observe="full", max_inventory=2, reward="running_penalty"),
    "jumps": lambda n: MarketMakingVecEnv(
        n, n_steps=20, midprice="jumps", volatility=0.02, jump_rate=9.0, jump_sd=0.01, reward="exp_utility"
    ),
    "columns": lambda n: MarketMakingVecEnv(n, n_steps=20, volatility=np.linspace(1.0, 2.0, n), fill_rule="exact"),
    "ou": lambda n: MarketMakingVecEnv(n, n_steps=20, midprice="ou", clip_quotes=True, max_inventory=None),
}
POLICIES = {
    "brownian": lambda vec: CarteaJaimungal.for_env(vec),
    "limited": lambda vec: lean,
    "drawn": lambda vec: lean,
    "full": lambda vec: lean,
    "jumps": lambda vec: lean,
    "columns": lambda vec: FixedSpread.for_env(vec, half_spread=0.7),
    "ou": lambda vec: AvellanedaStoikov.for_env(vec),
}


def assert_rolls_as_it_steps(make, policy_of, num_envs, num_steps, infos, action):
    vec, twin = make(num_envs), make(num_envs)
    policy = policy_of(vec)
    rolled = sekai.rollout(vec, policy, num_steps, seed=5, infos=infos, progress=False)
    stepped = sekai.rollout(twin, StepByStep(policy, twin), num_steps, seed=5, infos=infos, progress=False)
    for name in FIELDS:
        assert_same(getattr(stepped, name), getattr(rolled, name), name)
    assert_same(stepped.infos, rolled.infos, "infos")
    for _ in range(3):  # it goes on from there as if it had been stepped
        assert_same(twin.step(action), vec.step(action))
    assert_same(twin.get_attr("streams"), vec.get_attr("streams"))
    assert_same(twin.elapsed_steps, vec.elapsed_steps)


@pytest.mark.parametrize(
    "market",
    [name if name == "drawn" else pytest.param(name, marks=pytest.mark.slow) for name in MARKETS],
)
def test_market_making(market):
    action = np.full((5, 2), 0.7, dtype=np.float32)
    assert_rolls_as_it_steps(MARKETS[market], POLICIES[market], 5, 150, ("mid_price", "ask_filled"), action)


@pytest.mark.compiled
@pytest.mark.parametrize("num_steps", [1, 65, 130])
def test_many_rows_in_any_number_of_steps(num_steps, threads):
    action = np.full((5000, 2), 0.7, dtype=np.float32)
    assert_rolls_as_it_steps(MARKETS["drawn"], POLICIES["drawn"], 5000, num_steps, ("mid_price", "ask_filled"), action)


@pytest.mark.parametrize("discrete", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_trading(discrete):
    def make(n):
        return TradingVecEnv(n, lookback=4, episode_length=11, actions="discrete" if discrete else "weight")

    action = np.ones(6, dtype=np.int64) if discrete else np.full((6, 1), 0.25, dtype=np.float32)
    policy = follow if discrete else half_weight
    infos = ("price", "wealth", "position", "turnover", "cost", "borrow", "bar")
    assert_rolls_as_it_steps(make, lambda vec: policy, 6, 80, infos, action)


def test_what_cannot_be_rolled_out_is_stepped():
    """No autoreset, options by sub-env, another backend, a wrapper: the numbers of the row policy all the same."""
    makers = [
        lambda: MarketMakingVecEnv(3, n_steps=20, autoreset=False),
        lambda: MarketMakingVecEnv(3, n_steps=20, autoreset_options=lambda i: None),
        lambda: sekai.make_vec("MarketMaking-v0", 3, vectorization_mode="sync", n_steps=20),
        lambda: sekai.VecNormalizeReward(MarketMakingVecEnv(3, n_steps=20)),
    ]
    for make in makers:
        vec, twin = make(), make()
        rolled = sekai.rollout(vec, lean, 50, seed=1, progress=False)
        stepped = sekai.rollout(twin, StepByStep(lean, twin), 50, seed=1, progress=False)
        assert not (isinstance(vec, MarketMakingVecEnv) and vec.can_roll)
        for name in FIELDS:
            assert_same(getattr(stepped, name), getattr(rolled, name), name)


def test_an_action_that_step_would_refuse():
    vec = MarketMakingVecEnv(4, n_steps=20)
    with pytest.raises(InvalidAction, match=r"sub-env 0"):
        sekai.rollout(vec, refuse_late, 50, seed=0, progress=False)


@jit
def forgetful(observation, action):
    action[0] = 0.6
    if observation[1] > np.float32(0.5):
        action[1] = 0.6


@jit
def forgetful_choice(observation, action):
    if observation[-1] == 0.0:
        action[0] = 2


def test_an_item_that_a_policy_leaves_out_in_some_rows_is_no_number_of_before():
    for options in ({}, {"autoreset": False}):  # in one loop, and step by step
        vec = MarketMakingVecEnv(3, n_steps=20, **options)
        with pytest.raises(InvalidAction, match=r"got \[0\.6 +nan\]"):
            sekai.rollout(vec, forgetful, 20, seed=0, progress=False)
    vec = TradingVecEnv(3, lookback=4, episode_length=11, actions="discrete")
    with pytest.raises(InvalidAction, match=r"-9223372036854775808"):
        sekai.rollout(vec, forgetful_choice, 100, seed=0, progress=False)


@jit
def refuse_in_some_rows(observation, action):
    action[0] = 0.7
    action[1] = np.nan if observation[0] > np.float32(0.07) else 0.7


@pytest.mark.compiled
def test_the_earliest_refused_action_is_named(threads):
    vec = MarketMakingVecEnv(5000)
    with pytest.raises(InvalidAction) as stepped:
        sekai.rollout(vec, StepByStep(refuse_in_some_rows, vec), 40, seed=3, progress=False)
    row = re.search(r"\(sub-env \d+\)", str(stepped.value))[0]
    with pytest.raises(InvalidAction, match=f"expected .*, got .*{re.escape(row)}"):
        sekai.rollout(vec, refuse_in_some_rows, 40, seed=3, progress=False)


def test_an_interrupted_rollout_has_to_be_reset(monkeypatch):
    """Ctrl-C during compiled code is raised when that has returned, before what it did is taken over."""
    if not hasattr(lean, "py_func"):
        return  # it is stepped one by one then
    vec = MarketMakingVecEnv(5, n_steps=20)

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sekai.vector.kernel.rolling.Rolling._refuse", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sekai.rollout(vec, lean, 300, progress=False)
    with pytest.raises(ResetRequired):
        vec.step(np.zeros((5, 2), dtype=np.float32))
    again = sekai.rollout(vec, lean, 30, seed=2, progress=False)
    fresh = sekai.rollout(MarketMakingVecEnv(5, n_steps=20), lean, 30, seed=2, progress=False)
    assert np.array_equal(again.rewards, fresh.rewards)


def test_a_market_that_steps_otherwise_than_its_parent_is_stepped():
    class Taxed(MarketMakingVecEnv):
        def _step(self, actions):
            rewards, *rest = super()._step(actions)
            return rewards - 5.0, *rest

    class Named(MarketMakingVecEnv):
        name = "as quick as its parent"

    plain, taxed = (
        sekai.rollout(kind(3, n_steps=20), lean, 30, seed=1, progress=False) for kind in (MarketMakingVecEnv, Taxed)
    )
    assert np.array_equal(taxed.rewards, plain.rewards - 5.0)
    assert not Taxed(3).can_roll and Named(3).can_roll


@pytest.mark.compiled
def test_memory_of_an_earlier_rollout_is_written_over(threads):
    vec = MarketMakingVecEnv(5000, n_steps=20)
    keys = ("mid_price", "ask_filled")
    used = sekai.rollout(vec, lean, 100, seed=1, infos=keys, progress=False)
    memory = [array.ctypes.data for array in (used.observations, used.rewards, *used.infos.values())]
    again = sekai.rollout(vec, lean, 100, seed=2, infos=keys, progress=False, out=used)
    assert [array.ctypes.data for array in (again.observations, again.rewards, *again.infos.values())] == memory
    fresh = sekai.rollout(vec, lean, 100, seed=2, infos=keys, progress=False)
    stepped = sekai.rollout(vec, StepByStep(lean, vec), 100, seed=2, infos=keys, progress=False, out=again)
    for record in (fresh, stepped):
        for name in (*FIELDS, "infos"):
            assert_same(getattr(record, name), getattr(again, name), name)


@jit
def writing(observation, action):
    observation[0] = 1.0
    action[0] = action[1] = 0.6


def test_a_policy_of_rows_cannot_write_into_what_it_sees():
    for options in ({}, {"autoreset": False}):
        with pytest.raises((TypeError, ValueError, numba.TypingError), match="(?i)read-?only"):
            sekai.rollout(MarketMakingVecEnv(2, **options), writing, 3, progress=False)


def test_what_the_market_shows_after_a_compiled_rollout():
    vec = MarketMakingVecEnv(3, n_steps=20)
    record = sekai.rollout(vec, lean, 30, seed=1, progress=False)
    assert_same(record.last_observations, vec._observe())


class ByRows:
    """A policy of rows that cannot be called."""

    def row_policy(self):
        return lean_by, (0.5,)


@jit
def lean_by(parameters, observation, action):
    action[0] = 0.6 + parameters[0] * observation[0]
    action[1] = 0.6 - parameters[0] * observation[0]


def test_what_has_nothing_but_a_row_policy():
    vec = MarketMakingVecEnv(3, n_steps=20)
    got = sekai.rollout(vec, ByRows(), 30, seed=1, progress=False)
    assert np.array_equal(got.actions, sekai.rollout(vec, lean, 30, seed=1, progress=False).actions)
    unlike = MarketMakingVecEnv(3, n_steps=20, autoreset_options=lambda i: None)
    stepped = sekai.rollout(unlike, ByRows(), 30, seed=1, progress=False)
    assert np.array_equal(got.actions, stepped.actions)


def test_a_policy_of_rows_needs_arrays():
    toy = NativeToy([[({"x": np.zeros(1)}, 0.0, True, False, {})]], obs=Dict({"x": BOX1}), r0={"x": np.zeros(1)})
    with pytest.raises(TypeError, match="needs observations of one array each, got the space Dict"):
        sekai.rollout(toy, lean, 3, progress=False)


def test_what_a_row_policy_raises_goes_through():
    class Broken(ByRows):
        def row_policy(self):
            raise ValueError("no such table")

    with pytest.raises(ValueError, match="no such table"):
        sekai.rollout(MarketMakingVecEnv(2), Broken(), 3, progress=False)


def test_after_a_refused_action_the_env_has_to_be_reset():
    vec = MarketMakingVecEnv(4, n_steps=20)
    with pytest.raises(InvalidAction):
        sekai.rollout(vec, refuse_late, 50, seed=0, progress=False)
    if hasattr(refuse_late, "py_func"):  # stepped one by one, it is still where the last good step left it
        with pytest.raises(ResetRequired):
            vec.step(np.zeros((4, 2), dtype=np.float32))
    again = sekai.rollout(vec, lean, 30, seed=2, progress=False)
    fresh = sekai.rollout(MarketMakingVecEnv(4, n_steps=20), lean, 30, seed=2, progress=False)
    assert np.array_equal(again.rewards, fresh.rewards)


def test_a_policy_with_a_parameter_for_each_sub_env_is_called_with_batches():
    vec = MarketMakingVecEnv(3, n_steps=20)
    record = sekai.rollout(vec, FixedSpread(half_spread=np.array([0.1, 0.2, 0.3])), 4, seed=0, progress=False)
    assert record.actions[2, :, 0].tolist() == [np.float32(0.1), np.float32(0.2), np.float32(0.3)]


def test_an_info_that_the_market_does_not_have():
    with pytest.raises(KeyError, match="nothing"):
        sekai.rollout(MarketMakingVecEnv(2), lean, 5, seed=0, infos=("nothing",), progress=False)


def test_progress_is_told(monkeypatch):
    advances = []
    import contextlib

    @contextlib.contextmanager
    def bar(*args, **kwargs):
        yield advances.append

    monkeypatch.setattr("sekai.rollouts.run.progress_bar", bar)
    sekai.rollout(MarketMakingVecEnv(2), lean, 150, seed=0)
    assert sum(advances) == 150
