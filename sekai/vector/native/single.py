"""A native vector environment of one, as a single environment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.infos import FINAL_INFO, FINAL_OBSERVATION
from sekai.batching.inputs import draw_seed
from sekai.batching.masks import rows_of_masks
from sekai.env import Env
from sekai.errors import InvalidAction, InvalidObservation
from sekai.results import ResetResult, StepResult
from sekai.seeding import check_seed
from sekai.snapshots import Snapshot
from sekai.types import OptionsType, SeedType
from sekai.vector.attributes import settable_names
from sekai.vector.base import VecEnv
from sekai.vector.kernel import KernelVecEnv


class SingleEnv(Env[Any, Any]):
    """A native env of one as a single env, so that a market is written once.

    It gives the same numbers as the native env with ``num_envs=1``, and one that draws from ``streams`` alone the same
    as any of many: ``reset(seed=s)`` begins what a sub-env does whose seed is ``s``. Attributes and methods it lacks
    are those of the native env, as ``get_attr`` and ``call`` give them for one sub-env; ``set_attr`` changes the native
    env. The random streams are the native env's: ``reset(seed=...)`` seeds them, and a generator given as seed
    contributes one draw to them.

    A native env that cannot be told to leave an ended episode alone has begun the next one by then. The last step
    shows the end all the same, but attributes are those of the new episode, which the next ``reset()`` replaces.

    Args:
        factory: Returns the native env. Called as ``factory(1, autoreset=False)``, or as ``factory(1)`` where it
            does not take ``autoreset``.

    Attributes:
        vec: The native env.

    Raises:
        TypeError: The factory returned something that is no ``VecEnv``.
        ValueError: It returned another number of sub-envs than one.
    """

    def __init__(self, factory: Callable[..., VecEnv[Any, Any]]) -> None:
        vec = _build(factory)
        if not isinstance(vec, VecEnv):
            raise TypeError(f"SingleEnv: expected a VecEnv from {factory!r}, got {type(vec).__name__}")
        if vec.num_envs != 1:
            vec.close()
            raise ValueError(f"SingleEnv: expected 1 sub-env from {factory!r}, got {vec.num_envs}")
        self.vec = vec
        self.observation_space = vec.observation_space
        self.action_space = vec.action_space
        self._alone = isinstance(vec, KernelVecEnv) and vec.steps_alone
        self._end: StepResult[Any] | None = None  # of an episode after which the native env has reset itself

    def step(self, action: Any) -> StepResult[Any]:
        """Step the native env with a batch of one.

        Raises:
            InvalidAction: The action's shape, dtype or structure is another than the action space's.
        """
        try:
            actions = layout.batch_of_one(self.action_space, action)
        except InvalidObservation as error:
            raise InvalidAction(
                f"step(action): expected an element of {self.action_space!r}, got {action!r}"
            ) from error
        if self._end is not None:
            observation = layout.copy_row(self.observation_space, self._end.observation)
            return StepResult(observation, 0.0, self._end.terminated, self._end.truncated, {})
        if self._alone:
            return self.vec.step_alone(actions)  # type: ignore[attr-defined, no-any-return]
        result = self.vec.step(actions)
        reward, terminated, truncated = result.rewards[0], result.terminated[0], result.truncated[0]
        observation, info = self._first(result.observations), result.infos[0]
        if self.vec.autoreset and (terminated or truncated):
            final, info = info[FINAL_OBSERVATION], info[FINAL_INFO]
            observation = layout.copy_row(self.observation_space, final)
        step = StepResult(observation, float(reward), bool(terminated), bool(truncated), info)
        if self.vec.autoreset and step.done:
            self._end = StepResult(
                layout.copy_row(self.observation_space, observation), 0.0, step.terminated, step.truncated, {}
            )
        return step

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[Any]:
        """Reset the native env."""
        if isinstance(seed, np.random.Generator):
            seed = draw_seed(seed)
        if seed is not None:
            self._rng_seed = seed = check_seed(seed, "reset(seed=...)")
        # A list: the seed of the one sub-env, as it is; an int would have one derived from it.
        result = self.vec.reset(seed=None if seed is None else [seed], options=[options])
        self._end = None
        return ResetResult(self._first(result.observations), result.infos[0])

    def reseed(self, seed: SeedType) -> None:
        """Let the native env go on with the streams that ``reset(seed=seed)`` begins; None changes none."""
        if isinstance(seed, np.random.Generator):
            seed = draw_seed(seed)
        if seed is not None:
            self._rng_seed = seed = check_seed(seed, "reseed(seed)")
            self.vec.reseed([seed])

    def snapshot(self) -> Snapshot:
        """The state of the native env.

        Raises:
            NotImplementedError: It has begun the next episode itself, behind the end of one.
        """
        if self._end is not None:
            raise NotImplementedError(f"{self}.snapshot(): expected an episode under way, got one that has ended")
        return self.vec.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of one sub-env of the market, which a batch of them may have made.

        Raises:
            TypeError: It is no Snapshot.
            ValueError: It is of another market or of several sub-envs; nothing has changed.
        """
        self.vec.restore(snapshot)
        self._end = None

    def _restorer(self, snapshot: Any) -> Callable[[], None]:
        if type(self).restore is not SingleEnv.restore or type(self.vec).restore is not VecEnv.restore:
            return partial(self.restore, snapshot)
        restore = self.vec._restorer(snapshot, None, "match")

        def commit() -> None:
            restore()
            self._end = None

        return commit

    def action_mask(self) -> Any:
        """The mask of the native env; of one that has begun the next episode itself, that of the new one."""
        masks = self.vec.action_mask()
        return None if masks is None else rows_of_masks(self.action_space, masks, 1)[0]

    @property
    def has_action_mask(self) -> bool:
        """Whether the native env has masks."""
        return self.vec.has_action_mask

    def close(self) -> None:
        """Close the native env."""
        self.vec.close()

    @property
    def _simulated(self) -> Any:
        return self.vec.unwrapped

    @property
    def _rng(self) -> np.random.Generator:  # type: ignore[override]
        return self.vec.get_attr("rng")[0]  # type: ignore[no-any-return]

    def _set_rng(self, seed: SeedType) -> int | None:
        if seed is not None:
            raise TypeError("rng: the random stream of a native env is set by reset(seed=...) alone")
        return self._rng_seed

    def set_attr(self, name: str, value: Any, *, force: bool = False) -> None:
        """Change an attribute of the native env.

        Args:
            name: The attribute.
            value: What it becomes.
            force: Where the native env has none of this name, create one of this object, to be read.

        Raises:
            AttributeError: The native env has none of this name, and ``force`` is not given.
        """
        if force and not self.has_attr(name):
            super().set_attr(name, value, force=True)
        else:  # to a VecEnv a list is one value per sub-env
            self.vec.set_attr(name, [value] if isinstance(value, list) else value)

    def _settable_names(self) -> set[str]:
        return settable_names(self.vec.unwrapped)

    def _first(self, observations: Any) -> Any:
        row = next(layout.iterate(self.observation_space, observations, 1))
        return layout.copy_row(self.observation_space, row)

    def __getattr__(self, name: str) -> Any:
        # `vec` itself is missing while the env is being built or unpickled.
        if name == "vec" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self.vec.get_attr(name)[0]
        return partial(self._call, name) if isinstance(value, MethodType) else value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the native env, if that has it, since it is read there; else one of this object."""
        own = name.startswith("_") or name in self.__dict__ or hasattr(type(self), name) or "vec" not in self.__dict__
        if own or name not in self._settable_names():
            super().__setattr__(name, value)
        else:
            self.set_attr(name, value)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.vec.call(method, *args, **kwargs)[0]


def _build(factory: Callable[..., Any]) -> Any:
    """The native env, told to leave ended episodes alone if it can be.

    Trying is the one way to know: a ``**kwargs`` in the signature may be handed on to what takes no ``autoreset``.
    """
    try:
        return factory(1, autoreset=False)
    except TypeError as error:
        if "'autoreset'" not in str(error):
            raise
    return factory(1)
