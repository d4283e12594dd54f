"""What a market offers to the command: the policies that ``--policy`` can name, and details."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from sekai.batching import layout
from sekai.checks import did_you_mean
from sekai.cli.common import CommandError
from sekai.cli.options import RANDOM
from sekai.errors import SekaiError
from sekai.registry.build import entry_point_of
from sekai.registry.entry_points import load_entry_point
from sekai.rollouts.compiled import as_row_policy
from sekai.seeding import make_seed_sequence, np_random

if TYPE_CHECKING:
    from sekai.vector import VecEnv

#: From a batch of observations to a batch of actions.
Policy: TypeAlias = Callable[[Any], Any]
#: Builds a policy for a VecEnv.
PolicyFactory: TypeAlias = Callable[[Any], Policy]

_EXPECTED = "expected a function that takes the VecEnv and returns a policy, a function from observations to actions"


def policies_of(vec: VecEnv[Any, Any]) -> dict[str, PolicyFactory]:
    """The policies a market offers, by name; none if its ``policies`` are something else (insurance has them too)."""
    return {name: build for name, build in _offered(vec, "policies") if callable(build)}


def details_of(vec: VecEnv[Any, Any]) -> dict[str, str]:
    """What a market tells of itself, in words by name; nothing if its ``details`` are something else."""
    return {name: text for name, text in _offered(vec, "details") if isinstance(text, str)}


def _offered(vec: VecEnv[Any, Any], attribute: str) -> list[tuple[str, Any]]:
    """The items of a mapping that is an attribute of the market, those with a name."""
    try:
        offered = vec.get_attr(attribute)[0]
    except AttributeError:
        return []
    except SekaiError:  # a worker process cannot send every function
        offered = _in_the_class(vec, attribute)
    if not isinstance(offered, Mapping):
        return []
    return [(name, value) for name, value in offered.items() if isinstance(name, str)]


def _in_the_class(vec: VecEnv[Any, Any], attribute: str) -> Any:
    """The attribute as it stands in the class that sub-envs in worker processes are made of; None where it is none."""
    if vec.spec is None:
        return None
    made_by = load_entry_point(entry_point_of(vec.spec, "proc"), vec.spec.id)
    return getattr(made_by, attribute, None) if isinstance(made_by, type) else None


def choose_policy(vec: VecEnv[Any, Any], name: str, seed: int | None) -> Policy:
    """The policy of this name, built for the environment.

    Args:
        vec: The environment.
        name: ``RANDOM``, or one that the environment offers.
        seed: Of random actions; None for entropy of the system.

    Raises:
        CommandError: There is no such policy, it does not fit this environment, or what is offered builds none. The
            policy raises it for actions that are no batch of this environment's, and random actions for masks that
            are none or leave nothing.
    """
    policy = build_policy(vec, name, seed)
    if name == RANDOM:
        return policy
    if getattr(policy, "is_kernel", False):  # what can be called for a batch checks more than its compiled row does
        try:
            policy = as_row_policy(policy, vec) or policy
        except TypeError as error:
            raise CommandError(f"--policy {name}: {error}") from error
    return _checked(policy, vec, f"--policy {name}: actions")


def build_policy(vec: VecEnv[Any, Any], name: str, seed: int | None) -> Policy:
    """The policy as the environment builds it (see ``choose_policy``): one of rows, say, which can be compiled."""
    offered: dict[str, PolicyFactory] = {**policies_of(vec), RANDOM: partial(_random_policy, seed=seed)}
    if name not in offered:
        hint = did_you_mean(name, offered) or (_why_none(vec) if len(offered) == 1 else "")
        raise CommandError(f"--policy: expected one of {', '.join(sorted(offered))}, got {name!r}{hint}")
    where = f"--policy {name}: policies[{name!r}]"
    try:
        policy = offered[name](vec)
    # Where it is the policy itself, which takes observations, it may raise anything.
    except Exception as error:
        raise CommandError(f"{where}: {_EXPECTED}; it raised {type(error).__name__}: {error}") from error
    if not callable(policy):
        raise CommandError(f"{where}: {_EXPECTED}; it returned {type(policy).__name__}")
    return policy


def _why_none(vec: VecEnv[Any, Any]) -> str:
    """What an error message says of an environment that seems to offer no policies."""
    try:
        vec.get_attr("policies")
    except AttributeError:
        pass
    except SekaiError:
        return "; its `policies` cannot be sent by worker processes, of which --mode sync has none"
    return (
        "; others are looked for in an attribute `policies` of the environment's class, a dict of functions that take "
        "the VecEnv and return a policy"
    )


def _checked(policy: Policy, vec: VecEnv[Any, Any], where: str) -> Policy:
    """The policy, whose name stands in the message when its actions have another shape, dtype or structure."""

    def act(observations: Any) -> Any:
        return layout.as_batch(vec.action_space, vec.num_envs, policy(observations), where, CommandError)

    return act


def _random_policy(vec: VecEnv[Any, Any], seed: int | None) -> Policy:
    """Random actions, of those that the masks allow where the environment has some."""
    if not vec.has_action_mask:
        return any_actions(vec, seed)
    from sekai.vector.random_actions import random_actions

    rng, _ = np_random(_seed_of_actions(seed))
    steps = itertools.count(1)

    def act(observations: Any) -> Any:
        step = next(steps)
        try:
            return random_actions(vec, rng)
        except (TypeError, ValueError) as error:  # a mask that is none, or leaves nothing
            name = vec.spec.id if vec.spec is not None else repr(vec)
            raise CommandError(f"{name}, --policy {RANDOM}, step {step}: {error}") from error

    return act


def any_actions(vec: VecEnv[Any, Any], seed: int | None) -> Policy:
    """Random actions of the whole space, whatever masks leave out.

    Args:
        vec: The environment.
        seed: See ``choose_policy``.
    """
    space, derived = vec.batch_action_space, _seed_of_actions(seed)
    if derived is not None:
        space.seed(derived)
    return lambda observations: space.sample()


def _seed_of_actions(seed: int | None) -> int | None:
    """The seed that random actions are drawn from; None for one of the system's."""
    # Not the seed itself: actions must not follow the numbers the environment draws.
    return None if seed is None else make_seed_sequence(seed, 1)[0]
