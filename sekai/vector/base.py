"""VecEnv: the contract of every vector environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import spread_values
from sekai.batching.layout import batch_space
from sekai.errors import AsyncCallPending, ResetRequired, VecEnvClosed
from sekai.mirror import AsyncMirror
from sekai.results import VecResetResult, VecStepResult
from sekai.spaces import Space
from sekai.types import ActType, ObsType, SeedType
from sekai.vector.attributes import read_shared_object, write_shared_object

_VecEnvT = TypeVar("_VecEnvT", bound="VecEnv[Any, Any]")


class VecEnv(AsyncMirror, ABC, Generic[ObsType, ActType]):
    """N copies of an environment behind one ``step()`` and one ``reset()``, which take and give batches.

    ``observation_space`` and ``action_space`` describe one sub-env, ``batch_observation_space`` and
    ``batch_action_space`` all of them.

    **Autoreset** is the default: the step that ends an episode begins the next one, whose first observation it
    shows. How the old one ended is in that sub-env's info: ``final_observation`` and ``final_info``; what its reset
    told is under ``reset_info``.

    **Without autoreset** a sub-env whose episode has ended is frozen. Steps leave it alone, whatever its action, and
    repeat its last observation and flags, with reward 0 and an empty info, until ``reset()``. One that resets itself
    (it shows by a ``final_observation`` in its info) goes on instead.

    A result belongs to the caller: later steps do not change it, and the simulation does not see what is written into
    it.

    ``async_step()`` and ``async_reset()`` are there in every subclass; where they are not written, they run its
    ``step()`` and ``reset()``.

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
            seed: An int, from which every sub-env gets a seed of its own that tells nothing of the others'; or the
                seeds themselves, in a list, a tuple or a 1-D integer array; None lets all streams go on.
            options: A dict that every sub-env is told, or a list of dicts, one for each. They are copied, at any depth;
                what cannot be, such as a lock or an open file, is handed on as it is.

        Raises:
            TypeError: A seed is no integer, or options are no dict.
            ValueError: A seed is negative, or a list has another length than ``num_envs``; nothing has been reset.
            VecEnvClosed: After ``close()``.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all sub-environments and release resources; closing again does nothing.

        An error in closing one keeps no other from being closed; the first is raised at the end.
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

    # -- resets of some sub-envs ---------------------------------------------------------------------------

    def reset_frozen(self, rows: NDArray[np.intp]) -> VecResetResult[Any]:
        """Begin new episodes in some frozen sub-envs, while the others stay where they are.

        For loops that ask for the next episode later than in the step that ends one. Random streams go on, and the
        options are those of ``autoreset_options``.

        Args:
            rows: intp (k,), ascending: sub-envs that are frozen.

        Returns:
            Their first observations, a batch of k, and k infos, both in the order of ``rows``.

        Raises:
            ValueError: One of them is not frozen; nothing has been reset.
            NotImplementedError: This VecEnv resets all its sub-envs or none (see ``resets_frozen``).
            VecEnvClosed: After ``close()``.
        """
        raise NotImplementedError(f"{type(self).__name__}.reset_frozen(): it resets all its sub-envs or none")

    @property
    def resets_frozen(self) -> bool:
        """Whether there is a ``reset_frozen()``, which every backend of the kit has."""
        return type(self).reset_frozen is not VecEnv.reset_frozen

    def _require_frozen(self, rows: NDArray[np.intp]) -> None:
        self._require_open("reset_frozen()")
        running = rows[~self.frozen[rows]]
        if running.size:
            raise ValueError(f"reset_frozen(rows): expected sub-envs that are frozen, got {running.tolist()}")

    # -- sub-env attributes --------------------------------------------------------------------------------

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of every sub-env, or read it if it is no method; found as ``get_attr()`` finds it.

        Where there are no sub-env objects, it is this object's own (see ``NativeVecEnv``).

        Returns:
            One value per sub-env.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call()")
        return read_shared_object(self, method, self.num_envs, args, kwargs, call=True)

    def get_attr(self, name: str) -> list[Any]:
        """An attribute of every sub-env, in the outermost of its wrappers that has it.

        Returns:
            One value per sub-env.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("get_attr()")
        return read_shared_object(self, name, self.num_envs)

    def set_attr(self, name: str, values: list[Any] | Any) -> None:
        """Change an attribute of every sub-env, in the outermost of its wrappers that has it, else in itself.

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
        """The space of the observations of all sub-envs, each part with a first axis of them."""
        return self._batch_space("observation", self.observation_space)

    @property
    def batch_action_space(self) -> Space[Any]:
        """The space of the actions of all sub-envs, each part with a first axis of them."""
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
        try:
            self.close()
            return
        except AsyncCallPending:
            pass
        # There is nobody left to await it, and the error that ended the block is the one to hear of.
        self._give_up_call()
        self.close()

    def _give_up_call(self) -> None:
        """Cancel the call that keeps ``close()`` from closing; only a backend that refuses to close has one."""

    def __repr__(self) -> str:
        name = type(self).__name__ if self.spec is None else f"{type(self).__name__} {self.spec.id}"
        return f"<{name} num_envs={self.num_envs}>"
