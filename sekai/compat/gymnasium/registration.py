"""Markets by name in gymnasium: ``gymnasium.make("sekai/MarketMaking-v0")``."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from sekai.compat.gymnasium.env import GymnasiumEnv
from sekai.compat.gymnasium.specs import gymnasium_spec
from sekai.compat.gymnasium.vector import GymnasiumVectorEnv, check_mode
from sekai.registry import make, make_vec
from sekai.registry import spec as find_spec
from sekai.registry.specs import NO_LIMIT


def register_with_gymnasium(id: str) -> str:
    """Make a registered market known to ``gymnasium.make`` and ``gymnasium.make_vec``.

    ``gymnasium.make`` builds one environment as ``sekai.make`` does, its time limit being gymnasium's ``TimeLimit``.
    ``gymnasium.make_vec`` builds a ``GymnasiumVectorEnv`` of what ``sekai.make_vec`` gives, the native one where there
    is one; with ``vectorization_mode="sync"`` or ``"async"`` it is gymnasium's own of single environments. All have
    next-step autoreset by default, which is what gymnasium's loops, and RLlib's, expect of an environment that they
    make; ``autoreset_mode="SameStep"`` gives the other one. Keyword arguments and ``max_episode_steps`` (-1 for none)
    are passed on. Registering a market again changes nothing.

    Worker processes find the market by its id: what is neither announced by an installed package nor registered at the
    top of the script is unknown to those that are not forked.

    Args:
        id: The id in sekai.

    Returns:
        The id in gymnasium, ``"sekai/MarketMaking-v0"`` for ``"MarketMaking-v0"``; an id with a namespace stays as it
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


def make_env(sekai_id: str, *, render_mode: str | None = None, **kwargs: Any) -> GymnasiumEnv:
    """What ``gymnasium.make`` calls: one environment, whose time limit gymnasium puts around it.

    Raises:
        TypeError: A render mode was asked for that the environment takes no argument for: libraries which ask for one
            where they can, as Stable-Baselines3 does, go on without it after this error alone.
    """
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return GymnasiumEnv(make(sekai_id, max_episode_steps=NO_LIMIT, **kwargs))


def make_vector_env(
    sekai_id: str,
    num_envs: int = 1,
    *,
    max_episode_steps: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    render_mode: str | None = None,
    **kwargs: Any,
) -> GymnasiumVectorEnv:
    """What ``gymnasium.make_vec`` calls: ``num_envs`` environments that step together, with their time limit.

    Raises:
        TypeError: A render mode was given that the environment takes no argument for.
        ValueError: There is no such autoreset mode.
    """
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    mode = check_mode(autoreset_mode)
    if mode is AutoresetMode.NEXT_STEP:
        kwargs["vector_kwargs"] = {"autoreset": False, **kwargs.get("vector_kwargs", {})}
    vec = make_vec(sekai_id, num_envs, max_episode_steps=max_episode_steps, **kwargs)
    return GymnasiumVectorEnv(vec, autoreset_mode=mode)
