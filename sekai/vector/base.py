"""VecEnv: the contract of every vector environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import spread_values
from sekai.batching.layout import batch_space
from sekai.errors import ResetRequired, VecEnvClosed
from sekai.mirror import AsyncMirror
from sekai.results import VecResetResult, VecStepResult
from sekai.spaces import Space
from sekai.types import ActType, ObsType, SeedType
from sekai.vector.attributes import read_shared_object, write_shared_object

_VecEnvT = TypeVar("_VecEnvT", bound="VecEnv[Any, Any]")


class VecEnv(AsyncMirror, ABC, Generic[ObsType, ActType]):
    """Abstract base for vectorised environments.

    Runs N environments in parallel and returns batched results. ``observation_space`` and ``action_space`` are
    always the single-env spaces, ``batch_observation_space`` and ``batch_action_space`` the batched ones.

    **Autoreset** (on by default): when a sub-env finishes an episode it is reset in the same ``step()`` call. The
    returned observation for that env is the first observation of the new episode; the terminal observation and
    info are in ``infos[i]["final_observation"]`` and ``infos[i]["final_info"]``, and the reset info in
    ``infos[i]["reset_info"]``.

    **Without autoreset**, a sub-env that finishes an episode is frozen until the next ``reset()``: it is not
    stepped again and its action is ignored, and every later ``step()`` returns, for it, its final observation,
    reward 0, its final flags and an empty info. A sub-env that resets itself (its info carries
    ``final_observation``) is not frozen.

    Results are snapshots: no later step changes them, and writing into them never changes the simulation.

    Every VecEnv has ``async_step()`` and ``async_reset()``; by default they run the sync methods, also those of a
    subclass that overrides only these.

    Attributes:
        num_envs: The number N of sub-envs.
        observation_space: The space of one sub-env's observations.
        action_space: The space of one sub-env's actions.
        autoreset: Whether sub-envs are reset when their episode ends.
        metadata: Anything that holds for every instance of the class.
        spec: The registry's ``EnvSpec`` this was made from, None without one.
    """

    num_envs: int
    observation_space: Space[ObsType]
    action_space: Space[ActType]
    autoreset: bool = True
    metadata: dict[str, Any] = {}
    spec: Any = None

    _closed: bool = False
    _has_reset: bool = False
    _batch_spaces: dict[str, tuple[Space[Any], Space[Any]]] | None = None

    # -- the contract --------------------------------------------------------------------------------------

    @abstractmethod
    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all environments with a batch of actions.

        Args:
            actions: A batch of ``num_envs`` actions, nested like ``batch_action_space``.

        Raises:
            ResetRequired: Before the first ``reset()``.
            ValueError: The number, shape or dtype of the actions is wrong; no sub-env has been stepped.
            VecEnvClosed: After ``close()``.
        """

    @abstractmethod
    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all environments.

        Args:
            seed: An int derives one independent seed per sub-env; a list (a tuple, a 1-D integer array) gives each
                sub-env its own seed; None continues each sub-env's RNG stream.
            options: One dict for all sub-envs, or a list with one per sub-env. Each gets a copy, at any depth; what
                cannot be copied, such as a lock or an open file, is handed on as it is.

        Raises:
            TypeError: A seed is no integer, or options are no dict.
            ValueError: A seed is negative, or a list has another length than ``num_envs``; nothing has been reset.
            VecEnvClosed: After ``close()``.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all sub-environments and release resources; closing again does nothing.

        Every sub-env is closed even if closing another one raises; the first such error is re-raised once
        everything is released.
        """

    if TYPE_CHECKING:  # AsyncMirror provides them; here are their types

        async def async_step(self, actions: Any) -> VecStepResult[Any]:
            """Async step; the default runs ``step()``."""

        async def async_reset(
            self,
            *,
            seed: list[SeedType] | SeedType = None,
            options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
        ) -> VecResetResult[Any]:
            """Async reset; the default runs ``reset()``."""

    # -- sub-env attributes --------------------------------------------------------------------------------

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method (or read an attribute) on each sub-environment.

        Like ``get_attr()``, the name is looked up through each sub-env's wrapper stack. A VecEnv without sub-env
        objects looks on itself, as ``NativeVecEnv`` documents.

        Returns:
            One value per sub-env.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call()")
        return read_shared_object(self, method, self.num_envs, args, kwargs, call=True)

    def get_attr(self, name: str) -> list[Any]:
        """Get an attribute from each sub-environment, searching its wrapper stack.

        Returns:
            One value per sub-env.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("get_attr()")
        return read_shared_object(self, name, self.num_envs)

    def set_attr(self, name: str, values: list[Any] | Any) -> None:
        """Set an attribute on each sub-environment (one value, or a list of ``num_envs``).

        The value goes to the outermost layer of each sub-env's wrapper stack that has the attribute.

        Args:
            name: The attribute.
            values: A list holds one value per sub-env; anything else, a tuple or array too, is one value for all.

        Raises:
            AttributeError: There is no such name; nothing is added.
            ValueError: A list has another length than ``num_envs``.
        """
        self._require_open("set_attr()")
        write_shared_object(self, name, values, spread_values(name, values, self.num_envs))

    # -- what follows from it ------------------------------------------------------------------------------

    @property
    def batch_observation_space(self) -> Space[Any]:
        """The space of a batched observation, with a leading ``num_envs`` axis."""
        return self._batch_space("observation", self.observation_space)

    @property
    def batch_action_space(self) -> Space[Any]:
        """The space of a batched action, with a leading ``num_envs`` axis."""
        return self._batch_space("action", self.action_space)

    def _batch_space(self, kind: str, space: Space[Any]) -> Space[Any]:
        """The batch of a space; the same object as long as the space is, so that seeding it lasts."""
        if self._batch_spaces is None:
            self._batch_spaces = {}
        known, batched = self._batch_spaces.get(kind, (None, None))
        if known is not space or batched is None:
            batched = batch_space(space, self.num_envs)
            self._batch_spaces[kind] = (space, batched)
        return batched

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.zeros(self.num_envs, dtype=np.bool_)

    @property
    def closed(self) -> bool:
        """Whether ``close()`` has been called."""
        return self._closed

    @property
    def unwrapped(self) -> VecEnv[Any, Any]:
        """The vector environment inside all vector wrappers."""
        return self

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise VecEnvClosed(f"{type(self).__name__}.{call}: this vector environment is closed")

    def _require_reset(self) -> None:
        self._require_open("step()")
        if not self._has_reset:
            raise ResetRequired(f"{type(self).__name__}.step(): call reset() first")

    def __enter__(self: _VecEnvT) -> _VecEnvT:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__ if self.spec is None else f"{type(self).__name__} {self.spec.id}"
        return f"<{name} num_envs={self.num_envs}>"
