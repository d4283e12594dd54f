"""A market maker trained by Stable-Baselines3 earns more, for the risk it takes, than one with a fixed half-spread."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import sekai
from sekai.compat.stable_baselines3 import SekaiSB3VecEnv
from sims.market_making import FixedSpread

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
