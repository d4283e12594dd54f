"""The policies that come with the trading market."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sekai.spaces import Box, Discrete
from sims.trading import AlwaysFlat, BuyAndHold, Momentum, TradingVecEnv

CLOSES = 100.0 + np.arange(40.0)


class Recording:
    """Stands for any VecEnv or wrapper: what a policy's builder may ask."""

    def __init__(self, action_space, lookback=4):
        self.action_space = action_space
        self.lookback = lookback

    def get_attr(self, name):
        return [getattr(self, name)] * 2


def make_env(actions="discrete", closes=CLOSES, **kwargs):
    return TradingVecEnv(3, prices=closes, lookback=4, episode_length=10, actions=actions, **kwargs)


def observe(returns, weight=0.5):
    return np.array([[*row, weight] for row in returns], np.float32)


@pytest.mark.parametrize("name", ["buy-and-hold", "always-flat", "momentum"])
@pytest.mark.parametrize("kind", ["discrete", pytest.param("weight", marks=pytest.mark.slow)])
def test_every_policy_offered_plays(kind, name):
    env = make_env(kind)
    policy = env.get_attr("policies")[0][name](env)
    observations = env.reset(seed=0).observations
    for _ in range(12):
        actions = policy(observations)
        assert env.batch_action_space.contains(actions)
        observations = env.step(actions).observations


@pytest.mark.parametrize(("policy", "weight"), [(BuyAndHold, 1.0), (AlwaysFlat, 0.0)])
def test_constant_policies(policy, weight):
    observations = observe([[0.1, -0.1]] * 3)
    assert policy.for_env(Recording(Discrete(3)))(observations).tolist() == [1 + weight] * 3
    assert policy.for_env(Recording(Box(-1, 1, (1,))))(observations).tolist() == [[weight]] * 3


def test_constant_policies_differ_by_their_class():
    assert BuyAndHold(True) == BuyAndHold(True) != BuyAndHold(False)
    assert BuyAndHold(True) != AlwaysFlat(True)
    assert repr(AlwaysFlat.for_env(Recording(Discrete(3)))) == "AlwaysFlat(discrete=True)"


def test_buy_and_hold_trades_once():
    env = make_env(autoreset=False)
    policy = BuyAndHold.for_env(env)
    observations = env.reset(seed=0).observations
    turnover = []
    for _ in range(10):
        result = env.step(policy(observations))
        observations = result.observations
        turnover.append(result.infos[0]["turnover"])
    assert turnover[0] > 0.99 and turnover[1:] == [0.0] * 9


def test_momentum_follows_the_compounded_return_of_its_window():
    # -50% and +60% sum to a gain and compound to a loss; the last row stands still.
    observations = observe([[9.0, 0.1, 0.2], [9.0, -0.5, 0.6], [-0.9, 0.3, -0.1], [1.0, 0.0, 0.0]])
    vec = Recording(Discrete(3), lookback=3)
    assert Momentum.for_env(vec, window=2)(observations).tolist() == [2, 1, 2, 1]
    assert Momentum.for_env(vec, window=2, short=True)(observations).tolist() == [2, 0, 2, 1]
    assert Momentum.for_env(vec)(observations).tolist() == [2, 2, 1, 2]
    weights = Momentum.for_env(Recording(Box(-1, 1, (1,)), lookback=3), window=2, short=True)(observations)
    assert weights.dtype == np.float32 and weights.tolist() == [[1.0], [-1.0], [1.0], [0.0]]


def test_d5_momentum_is_flat_where_the_price_is_what_it_was():
    # Back at the first price, by returns that float32 cannot hold: their product is some 1e-8 away from 1.
    rng = np.random.default_rng(0)
    closes = np.round(rng.uniform(50.0, 150.0, (500, 33)), 2)
    closes[:, -1] = closes[:, 0]
    returns = closes[:, 1:] / closes[:, :-1] - 1.0
    vec = Recording(Discrete(3), lookback=32)
    same = observe(returns)
    assert (np.prod(1.0 + same[:, :-1].astype(np.float64), axis=1) < 1.0).sum() > 100
    for short in (False, True):
        assert Momentum.for_env(vec, short=short)(same).tolist() == [1] * 500
    # A cent is more than rounding.
    for cent, action in ((0.01, 2), (-0.01, 0)):
        closes[:, -1] = closes[:, 0] + cent
        moved = observe(closes[:, 1:] / closes[:, :-1] - 1.0)
        assert Momentum.for_env(vec, short=True)(moved).tolist() == [action] * 500


def test_momentum_on_rising_and_falling_prices():
    for closes, action in ((CLOSES, 2), (CLOSES[::-1].copy(), 1)):
        env = make_env(closes=closes)
        policy = Momentum.for_env(env)
        assert policy(env.reset(seed=0).observations).tolist() == [action] * 3


@pytest.mark.parametrize("window", [0, 5])
def test_momentum_needs_a_window_within_the_lookback(window):
    with pytest.raises(ValueError, match=rf"expected a window of 1 to 4 bars \(lookback\), got {window}"):
        Momentum.for_env(make_env(), window=window)


@pytest.mark.parametrize("space", [Discrete(2), Box(-1, 1, (2,)), Discrete(3, start=1)])
@pytest.mark.parametrize("policy", [BuyAndHold, AlwaysFlat, Momentum])
def test_another_market_is_refused(policy, space):
    with pytest.raises(ValueError, match=r"policy: expected the action space Discrete\(3\) or a Box of shape \(1,\)"):
        policy.for_env(Recording(space))


def test_policies_can_be_sent_to_another_process():
    policies = pickle.loads(pickle.dumps(TradingVecEnv.policies))
    assert {name: build(make_env()) for name, build in policies.items()} == {
        "buy-and-hold": BuyAndHold(discrete=True),
        "always-flat": AlwaysFlat(discrete=True),
        "momentum": Momentum(discrete=True, window=4),
    }
