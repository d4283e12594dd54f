"""An Env as a gymnasium Env."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.infos import copy_info
from sekai.compat.gymnasium.infos import gymnasium_statistics
from sekai.compat.gymnasium.spaces import to_gymnasium_space
from sekai.compat.gymnasium.specs import gymnasium_spec
from sekai.compat.masks import ACTION_MASKS, flat_mask, has_flat_masks
from sekai.env import Env


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """A sekai ``Env`` as a ``gymnasium.Env``; see ``to_gymnasium``.

    An attribute that the env has and gymnasium's ``Env`` has not is the env's own, to be read and to be assigned. One
    whose name begins with an underscore is the adapter's.

    Args:
        env: The env, wrappers included.

    Attributes:
        sekai_env: The env.
        render_mode: The env's own; None for one that draws nothing.
        spec: From which ``gymnasium.make`` builds the env anew, without wrappers put around it by hand; None for an
            env that comes from no registry.

    Raises:
        TypeError: ``env`` is no ``Env``, or one of its spaces has no counterpart.
    """

    def __init__(self, env: Env[Any, Any]) -> None:
        if not isinstance(env, Env):
            raise TypeError(f"to_gymnasium: expected a sekai.Env (for a VecEnv: to_gymnasium_vector), got {env!r}")
        self.observation_space = to_gymnasium_space(env.observation_space)
        self.action_space = to_gymnasium_space(env.action_space)
        draws = env.has_attr("render")
        self.metadata = {"render_modes": [], **env.metadata} if draws else {**env.metadata, "render_modes": []}
        self.render_mode = env.get_attr("render_mode") if draws and env.has_attr("render_mode") else None
        self.spec = None if env.spec is None else gymnasium_spec(env.spec, env.spec.kwargs)
        self.sekai_env = env  # last: from now on, what the env has is assigned to it

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the env.

        Returns:
            Observation, reward, terminated, truncated, info, all copies, the observation in the dtypes of its space,
            the ``EpisodeStats`` of ``RecordEpisodeStatistics`` as gymnasium's "r", "l" and "t".
        """
        step = self.sekai_env.step(action)
        observation = layout.copy_row(self.sekai_env.observation_space, step.observation)
        info = copy_info(gymnasium_statistics(step.info))
        return observation, float(step.reward), bool(step.terminated), bool(step.truncated), info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env; the seed means what it does in sekai: the same seed, the same episode."""
        reset = self.sekai_env.reset(seed=seed, options=options)
        return layout.copy_row(self.sekai_env.observation_space, reset.observation), copy_info(reset.info)

    def render(self) -> Any:
        """What the env draws; None of one that draws nothing."""
        return self.sekai_env.get_attr("render")() if self.sekai_env.has_attr("render") else None

    def close(self) -> None:
        """Close the env."""
        self.sekai_env.close()

    @property
    def np_random(self) -> np.random.Generator:
        """The env's own generator, ``sekai_env.rng``."""
        return self.sekai_env.rng

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.sekai_env.rng = value

    @property
    def np_random_seed(self) -> int:
        """The seed of the last seeded reset; -1 before it, or if the generator was set."""
        seed = self.sekai_env.rng_seed
        return -1 if seed is None else seed

    @property
    def _np_random(self) -> np.random.Generator:  # type: ignore[override]
        return self.sekai_env.rng  # gymnasium's check_env compares what is here

    def __getattr__(self, name: str) -> Any:
        # Protocols (pickle, copy) look for private names, `sekai_env` itself being missing meanwhile.
        if name == "sekai_env" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == ACTION_MASKS and has_flat_masks(self.sekai_env):
            return self._action_masks
        return self.sekai_env.get_attr(name)

    def _action_masks(self) -> NDArray[np.bool_]:
        return flat_mask(self.sekai_env)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.startswith("_") or name in self.__dict__ or hasattr(type(self), name)
        if own or "sekai_env" not in self.__dict__ or not self.sekai_env.has_attr(name):
            super().__setattr__(name, value)
        else:
            self.sekai_env.set_attr(name, value)


def to_gymnasium(env: Env[Any, Any]) -> GymnasiumEnv:
    """A sekai ``Env`` as a real ``gymnasium.Env``.

    The numbers are the env's own: ``reset(seed=s)`` begins the same episode in both. Attributes and methods that
    gymnasium's ``Env`` lacks are those of the env (``get_wrapper_attr`` and ``set_wrapper_attr`` find them too), and
    ``np_random`` is its ``rng``.

    Of an env with masks of the actions of a ``Discrete``, ``MultiDiscrete`` or ``MultiBinary`` there is a method
    ``action_masks()``, as ``sb3_contrib.MaskablePPO`` looks for it: one array of bools, of several choices one mask
    after another, of an element of a ``MultiBinary`` whether it may be 0 and whether it may be 1.

    Args:
        env: The env, wrappers included.

    Raises:
        TypeError: ``env`` is no ``Env``, or one of its spaces has no counterpart.
    """
    return GymnasiumEnv(env)
