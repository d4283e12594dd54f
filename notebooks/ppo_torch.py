"""PPO in one file, on 1,024 market makers at once.

    python notebooks/ppo_torch.py --total-steps 1500000

It needs PyTorch, ``pip install ".[torch]"`` in the clone, and takes half a minute on one core. Proximal policy
optimisation is that of Schulman et al. (2017), arXiv:1707.06347, with the generalised advantages of Schulman et al.
(2016), arXiv:1506.02438. Everything is on the page, to be read and changed; the market comes as tensors from
``sekai.compat.torch.TorchVecEnv``, whose arrays nobody copies on the way.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import nn

import sekai
from sekai.compat.torch import TorchVecEnv
from sims.market_making import GLFT, AvellanedaStoikov, FixedSpread

#: Of the score ``mean(W) - risk_aversion/2 var(W)`` of the final wealth W, the certainty equivalent to second order.
RISK_AVERSION = 0.1
VOLATILITY = 2.0


@dataclass(frozen=True)
class Settings:
    """What can be set on the command line."""

    total_steps: int = 1_500_000  # of all sub-envs together
    num_envs: int = 1024
    num_steps: int = 50  # of each sub-env between two updates
    num_epochs: int = 4
    minibatch_size: int = 5120
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.9
    clip: float = 0.2
    value_weight: float = 0.5
    max_gradient: float = 0.5
    hidden: int = 64
    initial_std: float = 0.4  # of the quotes, in units of half the largest distance
    largest_distance: float = 1.4  # of a quote from the mid, price; twice the best fixed half-spread
    seed: int = 0
    device: str = "cpu"


class Agent(nn.Module):
    """A normal distribution of two actions about 0, and a value, each from a small network of its own."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.mean = network(2, settings.hidden, 2, output_gain=0.01)
        self.value = network(2, settings.hidden, 1, output_gain=1.0)
        self.log_std = nn.Parameter(torch.full((2,), math.log(settings.initial_std)))
        self.scale = settings.largest_distance / 2

    def policy(self, observations: torch.Tensor) -> torch.distributions.Independent:
        """The distribution of actions, (N, 2)."""
        normal = torch.distributions.Normal(self.mean(observations), self.log_std.exp())
        return torch.distributions.Independent(normal, 1)

    def quotes(self, actions: torch.Tensor) -> torch.Tensor:
        """Distances from the mid, 0 to the largest, of actions from -1 to 1; price."""
        return self.scale * (1.0 + actions.clamp(-1.0, 1.0))


def network(inputs: int, hidden: int, outputs: int, output_gain: float) -> nn.Sequential:
    """Two hidden layers of tanh, orthogonal at first."""
    layers = [nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)]
    for layer, gain in zip(layers, (math.sqrt(2.0), math.sqrt(2.0), output_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


@dataclass
class Batch:
    """T steps of N sub-envs: all an update needs, (T * N, ...)."""

    observations: torch.Tensor
    actions: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


@torch.no_grad()
def collect(
    vec: TorchVecEnv, agent: Agent, observations: torch.Tensor, settings: Settings
) -> tuple[Batch, torch.Tensor]:
    """Make some steps; also returns what the agent sees next."""
    shape = settings.num_steps, vec.num_envs
    kept = {name: torch.empty(*shape, 2, device=vec.device) for name in ("observations", "actions")}
    names = "log_probs", "rewards", "values", "next_values", "going_on"
    kept |= {name: torch.empty(shape, device=vec.device) for name in names}
    for step in range(settings.num_steps):
        policy = agent.policy(observations)
        actions = policy.sample()
        result = vec.step(agent.quotes(actions))
        kept["observations"][step] = observations
        kept["actions"][step] = actions
        kept["log_probs"][step] = policy.log_prob(actions)
        kept["rewards"][step] = result.rewards
        kept["values"][step] = agent.value(observations).squeeze(-1)
        # An episode that is cut off would have gone on from its last observation; one that is over is worth nothing.
        kept["next_values"][step] = agent.value(result.next_observations()).squeeze(-1) * ~result.terminated
        kept["going_on"][step] = ~result.dones
        observations = result.observations
    advantages = generalised_advantages(
        kept["rewards"], kept["values"], kept["next_values"], kept["going_on"], settings.gamma, settings.gae_lambda
    )
    steps = kept["observations"], kept["actions"], kept["log_probs"], advantages, advantages + kept["values"]
    return Batch(*(each.flatten(0, 1) for each in steps)), observations


def generalised_advantages(
    rewards: torch.Tensor,
    values: torch.Tensor,
    next_values: torch.Tensor,
    going_on: torch.Tensor,
    gamma: float,
    gae_lambda: float,
) -> torch.Tensor:
    """How much better each step did than the value said, (T, N).

    Args:
        rewards: (T, N).
        values: (T, N), of what the agent saw.
        next_values: (T, N), of what the step led to, 0 where an episode was over.
        going_on: (T, N), 0.0 where an episode ended, else 1.0.
        gamma: The discount of a step.
        gae_lambda: The weight of the steps after it.
    """
    errors = rewards + gamma * next_values - values
    advantages = torch.empty_like(errors)
    following = torch.zeros_like(errors[0])
    for step in reversed(range(len(errors))):
        following = errors[step] + gamma * gae_lambda * going_on[step] * following
        advantages[step] = following
    return advantages


def update(agent: Agent, optimizer: torch.optim.Optimizer, batch: Batch, settings: Settings) -> None:
    """Improve the policy and the value on some steps, minibatch by minibatch."""
    for _ in range(settings.num_epochs):
        for rows in torch.randperm(len(batch.actions), device=batch.actions.device).split(settings.minibatch_size):
            observations, advantages = batch.observations[rows], batch.advantages[rows]
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            ratio = (agent.policy(observations).log_prob(batch.actions[rows]) - batch.log_probs[rows]).exp()
            clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
            policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
            value_loss = (agent.value(observations).squeeze(-1) - batch.returns[rows]).square().mean()
            optimizer.zero_grad()
            (policy_loss + settings.value_weight * value_loss).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings.max_gradient)
            optimizer.step()


def train(settings: Settings) -> Callable[[np.ndarray], np.ndarray]:
    """Train an agent; a policy that maps a batch of the market's observations to a batch of quotes."""
    torch.manual_seed(settings.seed)
    market = sekai.make_vec(
        "MarketMaking-v0",
        settings.num_envs,
        volatility=VOLATILITY,
        reward="running_penalty",  # what the variance of the wealth costs, as it comes about
        inventory_penalty=RISK_AVERSION / 2 * VOLATILITY**2,
        terminal_penalty=0.0,
    )
    statistics = sekai.VecRecordEpisodeStatistics(market, deque_size=settings.num_envs)
    normalized = sekai.VecNormalizeObservation(statistics)
    vec = TorchVecEnv(sekai.VecNormalizeReward(normalized, settings.gamma), settings.device)
    agent = Agent(settings).to(vec.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=settings.learning_rate, eps=1e-5)
    observations = vec.reset(seed=settings.seed).observations
    steps_per_update = settings.num_steps * settings.num_envs
    start = time.perf_counter()
    for number in range(1, settings.total_steps // steps_per_update + 1):
        batch, observations = collect(vec, agent, observations, settings)
        update(agent, optimizer, batch, settings)
        seconds = time.perf_counter() - start
        ended = statistics.tracker.summary()
        print(
            f"{number * steps_per_update:>9,} steps, {number * steps_per_update / seconds:>7,.0f} a second: "
            + (f"mean return {ended['mean_return']:6.2f}, " if ended["num_episodes"] else "no episode has ended yet, ")
            + f"std {agent.log_std.exp().mean().item():.3f}"
        )

    @torch.no_grad()
    def policy(observations: np.ndarray) -> np.ndarray:
        seen = torch.as_tensor(normalized.obs_rms.normalize(observations), dtype=torch.float32, device=vec.device)
        return agent.quotes(agent.mean(seen)).cpu().numpy()

    return policy


def score(policy: Callable[[np.ndarray], np.ndarray], num_episodes: int = 10_000) -> tuple[float, float, float]:
    """Score, mean and standard deviation of the final wealth over new episodes."""
    market = sekai.make_vec("MarketMaking-v0", num_episodes, volatility=VOLATILITY)
    n_steps = market.get_attr("params")[0].n_steps
    wealth = sekai.rollout(market, policy, n_steps, seed=1, infos=("wealth",), progress=False).infos["wealth"][-1]
    return wealth.mean() - RISK_AVERSION / 2 * wealth.var(), wealth.mean(), wealth.std()


def main() -> None:
    """Train, and compare with the baselines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for setting in fields(Settings):
        name = "--" + setting.name.replace("_", "-")
        parser.add_argument(name, type=type(setting.default), default=setting.default, help="(%(default)s)")
    settings = Settings(**vars(parser.parse_args()))
    torch.set_num_threads(1)  # for networks this small several times as fast as one thread per core
    trained = train(settings)
    market = sekai.make_vec("MarketMaking-v0", 1, volatility=VOLATILITY)
    policies = {
        "trained": trained,
        "fixed half-spread": FixedSpread.for_env(market),
        "Avellaneda-Stoikov": AvellanedaStoikov.for_env(market, gamma=RISK_AVERSION),
        "GLFT": GLFT.for_env(market, gamma=RISK_AVERSION),
    }
    for name, policy in policies.items():
        print("{:<20} score {:6.2f}   wealth {:6.2f} +- {:5.2f}".format(name, *score(policy)))


if __name__ == "__main__":
    main()
