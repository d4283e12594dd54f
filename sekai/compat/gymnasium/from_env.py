"""A gymnasium Env as an Env."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sekai.batching.inputs import copy_options
from sekai.compat.gymnasium.env import GymnasiumEnv
from sekai.compat.gymnasium.spaces import conform, from_gymnasium_space
from sekai.compat.gymnasium.specs import LIMIT_OF_TIME_LIMIT, MAX_EPISODE_STEPS
from sekai.compat.masks import ACTION_MASKS, mask_of_flat
from sekai.env import Env
from sekai.results import ResetResult, StepResult
from sekai.seeding import check_seed, np_random
from sekai.spaces import Discrete, MultiBinary, MultiDiscrete
from sekai.types import OptionsType, SeedType


class EnvFromGymnasium(Env[Any, Any]):
    """A ``gymnasium.Env`` as a sekai ``Env``; see ``from_gymnasium``.

    An attribute that a layer of the gymnasium env has and sekai's ``Env`` has not is that layer's, to be read and to be
    assigned. One whose name begins with an underscore is the adapter's.

    Args:
        env: The gymnasium env, wrappers included.

    Attributes:
        gymnasium_env: The gymnasium env.

    Raises:
        TypeError: ``env`` is no ``gymnasium.Env``, or one of its spaces has no counterpart.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        if not isinstance(env, gymnasium.Env):
            expected = "expected a gymnasium.Env (for a VectorEnv: from_gymnasium_vector)"
            raise TypeError(f"from_gymnasium: {expected}, got {env!r}")
        self.observation_space = from_gymnasium_space(env.observation_space)
        self.action_space = from_gymnasium_space(env.action_space)
        self.metadata = env.metadata
        self.gymnasium_env = env  # last: from now on, what the gymnasium env has is assigned to it

    def step(self, action: Any) -> StepResult[Any]:
        """Step the gymnasium env."""
        env = self.gymnasium_env
        observation, reward, terminated, truncated, info = env.step(conform(env.action_space, action))
        return StepResult(observation, float(reward), bool(terminated), bool(truncated), info)

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[Any]:
        """Reset the gymnasium env, with the seed as it is; a generator becomes its ``np_random``.

        The options are copied: gymnasium envs are used to taking theirs apart.
        """
        if isinstance(seed, np.random.Generator):
            self._rng, seed = seed, None
        elif seed is not None:
            seed = check_seed(seed, "reset(seed=...)")
        observation, info = self.gymnasium_env.reset(seed=seed, options=copy_options(options))
        return ResetResult(observation, info)

    def action_mask(self) -> Any:
        """What the ``action_masks()`` of the gymnasium env says; None where it has none."""
        if not self.has_action_mask:
            return None
        flat = self.gymnasium_env.get_wrapper_attr(ACTION_MASKS)()
        return mask_of_flat(self.action_space, flat, f"action_masks() of {self.gymnasium_env}")

    @property
    def has_action_mask(self) -> bool:
        """Whether the gymnasium env has ``action_masks()``, and a space of which they are known to be flat arrays."""
        is_flat = isinstance(self.action_space, (Discrete, MultiDiscrete, MultiBinary))
        return is_flat and self.gymnasium_env.has_wrapper_attr(ACTION_MASKS)

    def close(self) -> None:
        """Close the gymnasium env."""
        self.gymnasium_env.close()

    @property
    def max_episode_steps(self) -> Any:
        """The limit of steps: an attribute of this name of the gymnasium env, else its ``TimeLimit``'s or its spec's.

        AttributeError where there is none. Only the attribute can be changed.
        """
        env = self.gymnasium_env
        limit = env.get_wrapper_attr(MAX_EPISODE_STEPS) if env.has_wrapper_attr(MAX_EPISODE_STEPS) else None
        if limit is None and env.has_wrapper_attr(LIMIT_OF_TIME_LIMIT):
            limit = env.get_wrapper_attr(LIMIT_OF_TIME_LIMIT)
        if limit is None and env.spec is not None:
            limit = env.spec.max_episode_steps
        if limit is None:
            raise AttributeError(f"{self} has no attribute {MAX_EPISODE_STEPS!r}: no time limit")
        return limit

    @max_episode_steps.setter
    def max_episode_steps(self, limit: Any) -> None:
        if not self.gymnasium_env.has_wrapper_attr(MAX_EPISODE_STEPS):
            expected = "expected an attribute of the gymnasium env, which has none of this name"
            raise AttributeError(f"{MAX_EPISODE_STEPS}: {expected}, got {self}; for another limit wrap a TimeLimit")
        self.gymnasium_env.set_wrapper_attr(MAX_EPISODE_STEPS, limit)

    @property
    def _simulated(self) -> Any:
        base = self.gymnasium_env.unwrapped
        return base.sekai_env.unwrapped._simulated if isinstance(base, GymnasiumEnv) else base

    @property
    def _rng(self) -> np.random.Generator:
        return self.gymnasium_env.unwrapped.np_random

    @_rng.setter
    def _rng(self, generator: np.random.Generator) -> None:
        self.gymnasium_env.unwrapped.np_random = generator

    @property
    def _rng_seed(self) -> int | None:  # type: ignore[override]
        seed = self.gymnasium_env.unwrapped.np_random_seed
        return None if seed == -1 else seed  # which stands for a generator that was given

    def _set_rng(self, seed: SeedType) -> int | None:
        if isinstance(seed, np.random.Generator):
            self._rng = seed
        elif seed is not None:
            raise TypeError("rng: the random stream of a gymnasium env is seeded by reset(seed=...) alone")
        return self._rng_seed

    def reseed(self, seed: SeedType) -> None:
        """Give the gymnasium env the ``np_random`` that ``reset(seed=seed)`` begins; None changes nothing."""
        if seed is not None:
            self._rng = np_random(seed)[0]

    def set_attr(self, name: str, value: Any, *, force: bool = False) -> None:
        """Change an attribute, of the outermost layer of the gymnasium env that has it where sekai's ``Env`` has not.

        Args:
            name: The attribute.
            value: What it becomes.
            force: Where no layer has it, create it in this object, to be read.

        Raises:
            AttributeError: No layer has it, and ``force`` is not given.
        """
        if self.has_attr(name):
            setattr(self, name, value)
        else:
            super().set_attr(name, value, force=force)

    def _settable_names(self) -> set[str]:
        return super()._settable_names() | {name for name in dir(self.gymnasium_env.unwrapped) if name[0] != "_"}

    def __getattr__(self, name: str) -> Any:
        # Protocols (pickle, copy) look for private names, `gymnasium_env` itself being missing meanwhile.
        if name == "gymnasium_env" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.gymnasium_env.get_wrapper_attr(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.startswith("_") or name in self.__dict__ or hasattr(type(self), name)
        if own or "gymnasium_env" not in self.__dict__ or not self.gymnasium_env.has_wrapper_attr(name):
            super().__setattr__(name, value)
        else:
            self.gymnasium_env.set_wrapper_attr(name, value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.gymnasium_env}>"


def from_gymnasium(env: gymnasium.Env[Any, Any]) -> EnvFromGymnasium:
    """A ``gymnasium.Env`` as a sekai ``Env``, for ``SyncVecEnv``, ``ProcVecEnv`` and every wrapper.

    The numbers are the gymnasium env's own: ``reset(seed=s)`` begins the same episode in both. An integer seed of a
    ``VecEnv`` gives its sub-envs seeds of 64 bits; an env that takes no more than 32 wants a list of seeds instead.
    Attributes and methods that sekai's ``Env`` lacks are those of the gymnasium env, ``render()`` among them, and
    ``rng`` is its ``np_random``. Its ``action_masks()``, where a layer has them, are the ``action_mask()``, and its
    limit of steps is ``max_episode_steps``.

    Args:
        env: The gymnasium env, wrappers included.

    Raises:
        TypeError: ``env`` is no ``gymnasium.Env``, or one of its spaces has no counterpart.
    """
    return EnvFromGymnasium(env)
