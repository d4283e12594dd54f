"""Whether a vector environment has taken over what its builder asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.vector.base import VecEnv
from sekai.vector.native.env import NativeVecEnv


def unheeded(vec: VecEnv[Any, Any], asked: Mapping[str, Any]) -> str | None:
    """What a vector env was asked for and has not, in words; None if nothing.

    The class of a market that takes ``**kwargs`` and does not hand them on loses them without an error.

    Args:
        vec: The vector env.
        asked: Arguments that it was built with. Of all of them, ``autoreset`` and ``max_episode_steps`` are looked at,
            and of a native env ``autoreset_options``.
    """
    base = vec.unwrapped
    has: dict[str, Any] = {"autoreset": base.autoreset}
    if isinstance(base, NativeVecEnv):
        has["max_episode_steps"] = base.episode_clock.limit  # not an attribute that the market itself may have
        has["autoreset_options"] = base.autoreset_options_given
    elif asked.get("max_episode_steps") is not None:
        has["max_episode_steps"] = _limit_of_sub_envs(vec)
    for name, value in has.items():
        wanted = asked.get(name)
        if wanted is None:
            continue
        # Options may have been made into others on the way, but not into none.
        if value is None if name == "autoreset_options" else value != wanted:
            whose = "its __init__" if isinstance(base, NativeVecEnv) else "what makes it"
            to = "super().__init__()" if isinstance(base, NativeVecEnv) else "it or its sub-envs"
            return (
                f"expected {type(base).__name__} to have {name}={wanted!r}, got {value!r}; "
                f"{whose} has to hand {name} on to {to}"
            )
    return None


def _limit_of_sub_envs(vec: VecEnv[Any, Any]) -> Any:
    """The time limit that all sub-envs have; None if some have none."""
    try:
        limits = vec.get_attr("max_episode_steps")
    except AttributeError:
        return None
    return limits[0] if len(set(limits)) == 1 else limits
