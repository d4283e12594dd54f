"""What adapters ask the sub-envs of a VecEnv for."""

from __future__ import annotations

from typing import Any

from sekai.vector import VecEnv


def render_modes(vec: VecEnv[Any, Any]) -> list[Any]:
    """The ``render_mode`` of each sub-env, None for all where they have none, as they draw nothing."""
    try:
        return vec.get_attr("render_mode")
    except AttributeError:
        return [None] * vec.num_envs
