"""Markets by name in gymnasium: ``gymnasium.make("sekai/MarketMaking-v0")``."""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.compat.gymnasium.env import GymnasiumEnv
from sekai.compat.gymnasium.specs import gymnasium_spec
from sekai.compat.gymnasium.vector import GymnasiumVectorEnv
from sekai.registry import make, make_vec
from sekai.registry import spec as find_spec
from sekai.registry.specs import NO_LIMIT


def register_with_gymnasium(id: str) -> str:
    """Make a registered market known to ``gymnasium.make`` and ``gymnasium.make_vec``.

    ``gymnasium.make`` builds one environment as ``sekai.make`` does, its time limit being gymnasium's ``TimeLimit``.
    ``gymnasium.make_vec`` builds a ``GymnasiumVectorEnv`` of what ``sekai.make_vec`` gives, the native one where there
    is one; with ``vectorization_mode="sync"`` or ``"async"`` it is gymnasium's own of single environments. Keyword
    arguments and ``max_episode_steps`` (-1 for none) are passed on. Registering a market again changes nothing.

    Worker processes find the market by its id: what is neither announced by an installed package nor registered at the
    top of the script is unknown to those that are not forked.

    Args:
        id: The id in sekai.

    Returns:
        The id in gymnasium: ``"sekai/MarketMaking-v0"`` for ``"MarketMaking-v0"``; an id with a namespace stays as it
        is.

    Raises:
        EnvNotFound: Nothing is registered under the id in sekai.
    """
    spec = gymnasium_spec(find_spec(id), {})
    if gymnasium.registry.get(spec.id) != spec:
        gymnasium.register(
            id=spec.id,
            entry_point=spec.entry_point,
            vector_entry_point=spec.vector_entry_point,
            reward_threshold=spec.reward_threshold,
            nondeterministic=spec.nondeterministic,
            max_episode_steps=spec.max_episode_steps,
            kwargs=spec.kwargs,
        )
    return spec.id


def make_env(sekai_id: str, *, render_mode: None = None, **kwargs: Any) -> GymnasiumEnv:
    """What ``gymnasium.make`` calls: one environment, whose time limit gymnasium puts around it.

    Raises:
        ValueError: A render mode was asked for.
    """
    _refuse_render_mode(sekai_id, render_mode)
    return GymnasiumEnv(make(sekai_id, max_episode_steps=NO_LIMIT, **kwargs))


def make_vector_env(
    sekai_id: str,
    num_envs: int = 1,
    *,
    max_episode_steps: int | None = None,
    render_mode: None = None,
    **kwargs: Any,
) -> GymnasiumVectorEnv:
    """What ``gymnasium.make_vec`` calls: ``num_envs`` environments that step together, with their time limit.

    Raises:
        ValueError: A render mode was asked for.
    """
    _refuse_render_mode(sekai_id, render_mode)
    return GymnasiumVectorEnv(make_vec(sekai_id, num_envs, max_episode_steps=max_episode_steps, **kwargs))


def _refuse_render_mode(sekai_id: str, render_mode: Any) -> None:
    if render_mode is not None:
        raise ValueError(f"{sekai_id}: expected render_mode None, since a market draws nothing, got {render_mode!r}")
