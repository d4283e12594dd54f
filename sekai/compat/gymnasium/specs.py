"""What gymnasium's registry knows of a market."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import EnvSpec as GymnasiumSpec

from sekai.registry import EnvSpec

#: The attribute that tells the limit of steps, and the one in which gymnasium's ``TimeLimit`` has it.
MAX_EPISODE_STEPS = "max_episode_steps"
LIMIT_OF_TIME_LIMIT = "_max_episode_steps"
#: The namespace of markets that have none of their own.
NAMESPACE = "sekai"


def gymnasium_id(spec: EnvSpec) -> str:
    """The id in gymnasium: ``sekai/Name-v0`` for ``Name-v0``; an id with a namespace stays as it is."""
    return spec.id if spec.namespace else f"{NAMESPACE}/{spec.id}"


def gymnasium_spec(spec: EnvSpec, kwargs: Mapping[str, Any]) -> GymnasiumSpec:
    """A spec from which ``gymnasium.make`` and ``gymnasium.make_vec`` build the market, registered there or not.

    It holds text and numbers beside ``kwargs``, so that it can be written as JSON where these can.

    Args:
        spec: What sekai's registry knows of the market.
        kwargs: The arguments to build it with, in addition to those registered.
    """
    return GymnasiumSpec(
        id=gymnasium_id(spec),
        entry_point="sekai.compat.gymnasium.registration:make_env",
        vector_entry_point="sekai.compat.gymnasium.registration:make_vector_env",
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
        max_episode_steps=spec.max_episode_steps,
        kwargs={"sekai_id": spec.id, **kwargs},
    )
