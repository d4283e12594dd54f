"""Market makers trained by Stable-Baselines3 earn more, for the risk they take, than those with a fixed quote."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import sekai
from sekai.compat.stable_baselines3 import SekaiSB3VecEnv
from sims.market_making import FixedSpread
from sims.order_book import FixedOffset, LimitOrderBookVecEnv

#: Of the score ``mean(W) - gamma/2 var(W)`` of the final wealth: to second order the certainty equivalent of an
#: exponential utility of risk aversion gamma, the one of Avellaneda and Stoikov's tables.
GAMMA = 0.1
#: By how much the score is to be better: it is 59.3 for a fixed half-spread, wherever that is, and 65.2 for the optimal
#: quotes of Guéant, Lehalle and Fernandez-Tapia.
MARGIN = 5.0
EPISODES, N_STEPS = 10_000, 200


class Quotes(sekai.VecActionWrapper):
    """Distances from 0 to 1.4, twice the best fixed half-spread, of actions from -1 to 1."""

    action_space = sekai.Box(-1.0, 1.0, (2,))

    def action(self, actions):
        return 0.7 * (actions + 1)


def score(policy, *wrappers):
    vec = sekai.make_vec("MarketMaking-v0", EPISODES)
    for wrapper in wrappers:
        vec = wrapper(vec)
    wealth = sekai.rollout(vec, policy, N_STEPS, seed=1, infos=("wealth",), progress=False).infos["wealth"][-1]
    return wealth.mean() - GAMMA / 2 * wealth.var()


@pytest.mark.train
def test_ppo_beats_the_fixed_half_spread():
    torch.set_num_threads(1)
    # What the variance of the wealth costs, step by step: holding q for dt adds (sigma q)^2 dt to it.
    vec = sekai.make_vec(
        "MarketMaking-v0", 1024, reward="running_penalty", inventory_penalty=GAMMA / 2 * 2.0**2, terminal_penalty=0.0
    )
    env = VecNormalize(SekaiSB3VecEnv(Quotes(vec)))
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=50,
        batch_size=5120,
        n_epochs=4,
        learning_rate=1e-3,
        gae_lambda=0.9,
        policy_kwargs={"log_std_init": -1.0},
        seed=0,
        device="cpu",
    )
    model.learn(1_200_000)

    def policy(observations):
        return np.asarray(model.predict(env.normalize_obs(observations), deterministic=True)[0])

    fixed = score(FixedSpread.for_env(vec))
    trained = score(policy, Quotes)
    print(f"score: {trained:.2f} trained, {fixed:.2f} with a fixed half-spread")
    assert fixed == pytest.approx(59.3, abs=0.5)
    assert trained > fixed + MARGIN


#: An order book whose agent is paid a fifth of a tick for what others take of it, and pays for what it holds, squared.
BOOK = {
    "max_offset": 3,
    "max_inventory": 3,
    "maker_fee": -2e-5,
    "reward": "inventory_penalty",
    "inventory_penalty": 5e-4,
}


def book_returns(policy):
    """The returns of an episode of as many books: the profit, closed at market at the end, less the penalty."""
    vec = LimitOrderBookVecEnv(EPISODES, **BOOK)
    return sekai.rollout(vec, policy, N_STEPS, seed=1, progress=False).episode_returns


@pytest.mark.train
def test_ppo_beats_the_best_fixed_quote_in_an_order_book():
    torch.set_num_threads(1)
    vec = LimitOrderBookVecEnv(512, **BOOK)
    env = VecNormalize(SekaiSB3VecEnv(vec))
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=40,
        batch_size=1024,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=0.97,
        gae_lambda=0.95,
        seed=0,
        device="cpu",
    )
    model.learn(1_638_400)

    def policy(observations):
        return np.asarray(model.predict(env.normalize_obs(observations), deterministic=True)[0])

    # No quote at all is a fixed one too, and returns 0.
    fixed = [book_returns(FixedOffset.for_env(vec, offset)) for offset in (1, 2, 3)] + [np.zeros(EPISODES)]
    best, trained = max(fixed, key=np.mean), book_returns(policy)
    # As of independent books; that seeds are the same can only bring the two means closer together.
    error = np.sqrt((best.var() + trained.var()) / EPISODES)
    print(f"return: {trained.mean():.4f} trained, {best.mean():.4f} with the best fixed quote, +- {error:.4f}")
    assert trained.mean() > best.mean() + 5.0 * error


def masked_returns(choose, num_envs=500):
    """As ``book_returns``, of a policy that is given observations and masks, and takes nothing that is left out."""
    vec = LimitOrderBookVecEnv(num_envs, **BOOK)
    observations, returns = vec.reset(seed=1).observations, np.zeros(num_envs)
    for _ in range(N_STEPS):
        masks = vec.action_mask()
        actions = choose(observations, masks)
        assert all(mask[np.arange(num_envs), actions[:, choice]].all() for choice, mask in enumerate(masks))
        result = vec.step(actions)
        observations, returns = result.observations, returns + result.rewards
    return returns


@pytest.mark.slow  # a quarter of a minute, so that CI runs it
def test_maskable_ppo_learns_in_an_order_book_what_its_inventory_limit_leaves():
    torch.set_num_threads(1)
    env = VecNormalize(SekaiSB3VecEnv(LimitOrderBookVecEnv(256, **BOOK)))
    model = MaskablePPO(
        "MlpPolicy",
        env,
        n_steps=40,
        batch_size=1024,
        n_epochs=4,
        learning_rate=1e-3,
        gamma=0.97,
        gae_lambda=0.95,
        seed=0,
        device="cpu",
    )
    model.learn(102_400)
    rng = np.random.default_rng(0)

    def at_random(observations, masks):
        return np.stack([(rng.random(mask.shape) * mask).argmax(axis=1) for mask in masks], axis=1)

    def policy(observations, masks):
        masks = np.concatenate(masks, axis=1)
        return model.predict(env.normalize_obs(observations), deterministic=True, action_masks=masks)[0]

    untrained, trained = masked_returns(at_random), masked_returns(policy)
    error = trained.std() / np.sqrt(len(trained))
    print(f"return: {trained.mean():.3f} +- {error:.3f} trained, {untrained.mean():.3f} at random")
    assert trained.mean() > 5.0 * error > 0.0 > untrained.mean()  # no quote at all returns 0
