"""The policies that ``--policy`` can name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sekai.cli.common import CommandError, Policy, PolicyFactory, mistakes_of_the_user, policies_of
from sekai.seeding import make_seed_sequence

if TYPE_CHECKING:
    from sekai.vector import VecEnv

#: The policy that every environment has.
RANDOM = "random"


def choose_policy(vec: VecEnv[Any, Any], name: str, seed: int | None) -> Policy:
    """The policy of this name, built for the environment.

    Args:
        vec: The environment.
        name: ``RANDOM``, or one that the environment offers.
        seed: Of random actions; None for entropy of the system.

    Raises:
        CommandError: There is no such policy, or it does not fit this environment.
    """
    offered: dict[str, PolicyFactory] = {**policies_of(vec), RANDOM: partial(_random_policy, seed=seed)}
    if name not in offered:
        raise CommandError(f"--policy: expected one of {', '.join(sorted(offered))}, got {name!r}")
    with mistakes_of_the_user():
        return offered[name](vec)


def _random_policy(vec: VecEnv[Any, Any], seed: int | None) -> Policy:
    space = vec.batch_action_space
    if seed is not None:
        # Not the seed itself: actions must not follow the numbers the environment draws.
        space.seed(make_seed_sequence(seed, 1)[0])
    return lambda observations: space.sample()
