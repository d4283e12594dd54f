"""RemoteVecEnv: what the backends have in common whose sub-envs are somewhere else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs
from sekai.results import VecResetResult, VecStepResult
from sekai.types import ActType, ObsType, SeedType
from sekai.vector.base import VecEnv
from sekai.vector.failures import Failure, worker_error
from sekai.vector.guard import CallGuard


class RemoteVecEnv(VecEnv[ObsType, ActType]):
    """Sub-envs in workers, each of which holds some neighbours: processes here, or shards on other machines.

    Every call is commands to workers and their answers, and one call goes on at a time. Which commands those are, and
    what is made of the answers, a backend says in what is abstract here.

    A backend sets when it is made: ``_pool``, whose ``exchange(commands, timeout)`` sends each worker its command and
    waits for the answers, and whose ``settle(timeout)`` waits for those that an interrupted call has left (both with an
    ``async_`` form, and raising what ``step()`` does); ``_guard``; ``_step_timeout``, the seconds that a call may take,
    None for no limit; and ``_stop``, which closes the sub-envs, ends the workers, and returns what went wrong in that.
    """

    #: What ``_ask_rows`` is told for a call of a method, and for reading an attribute.
    _CALL: ClassVar[Any]
    _GET_ATTR: ClassVar[Any]

    _pool: Any
    _guard: CallGuard
    _step_timeout: float | None
    _stop: Callable[[], list[Failure]]

    # -- what a backend says -------------------------------------------------------------------------------

    @abstractmethod
    def _step_commands(self, actions: Any) -> Sequence[Any]:
        """What each worker is told for a step; raises what the contract says of actions, and without a reset."""

    @abstractmethod
    def _step_result(self, answers: list[Any]) -> VecStepResult[Any]:
        """What comes of that."""

    @abstractmethod
    def _reset_commands(self, seed: Any, options: Any) -> Sequence[Any]:
        """What each worker is told for a reset; raises what the contract says of its arguments."""

    @abstractmethod
    def _reset_result(self, answers: list[Any]) -> VecResetResult[Any]:
        """What comes of that."""

    @abstractmethod
    def _ask_rows(self, name: str, rows: NDArray[np.intp], command: Any, *general: Any) -> list[Any]:
        """The values of some sub-envs for a command with these arguments, in the order of ``rows``."""

    def _keeping_what_came(self) -> AbstractContextManager[None]:
        """Around each exchange: for what is to be known of the others also when a sub-env has failed."""
        return nullcontext()

    # -- steps ---------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs, each worker its own (see ``VecEnv.step``).

        Raises:
            VecEnvWorkerError: A sub-env failed, or a worker was lost or took longer than ``step_timeout``.
            AsyncCallPending: An earlier call is still running, in another thread or task.
        """
        self._require_open("step()")
        with self._guard("step()"):
            self._require_open("step()")
            self._pool.settle(self._step_timeout)
            commands = self._step_commands(actions)
            with self._keeping_what_came():
                answers = self._pool.exchange(commands, self._step_timeout)
            return self._step_result(answers)

    async def async_step(self, actions: Any) -> VecStepResult[Any]:
        """``step()``, with the event loop free while the workers are busy."""
        self._require_open("step()")
        with self._guard("step()"):
            self._require_open("step()")
            await self._pool.async_settle(self._step_timeout)
            commands = self._step_commands(actions)
            with self._keeping_what_came():
                answers = await self._pool.async_exchange(commands, self._step_timeout)
            return self._step_result(answers)

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs (see ``VecEnv.reset``).

        Raises:
            VecEnvWorkerError: A sub-env failed, or a worker was lost or took longer than ``step_timeout``.
            AsyncCallPending: An earlier call is still running, in another thread or task.
        """
        self._require_open("reset()")
        with self._guard("reset()"):
            self._require_open("reset()")
            commands = self._reset_commands(seed, options)
            self._pool.settle(self._step_timeout)
            self._has_reset = False
            with self._keeping_what_came():
                answers = self._pool.exchange(commands, self._step_timeout)
            return self._reset_result(answers)

    async def async_reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """``reset()``, with the event loop free while the workers are busy."""
        self._require_open("reset()")
        with self._guard("reset()"):
            self._require_open("reset()")
            commands = self._reset_commands(seed, options)
            await self._pool.async_settle(self._step_timeout)
            self._has_reset = False
            with self._keeping_what_came():
                answers = await self._pool.async_exchange(commands, self._step_timeout)
            return self._reset_result(answers)

    # -- attributes ----------------------------------------------------------------------------------------

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method (or read an attribute) on each sub-env (see ``VecEnv.call``).

        Raises:
            VecEnvAttributeError: There is no such name.
            VecEnvWorkerError: The call failed, or its value cannot be pickled.
        """
        self._require_open("call()")
        return self._ask_rows("call()", np.arange(self.num_envs), self._CALL, (method, args, kwargs))

    def call_at(self, indices: Any, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """``call()`` for some sub-envs alone.

        Raises:
            VecEnvAttributeError: There is no such name.
            VecEnvWorkerError: The call failed, or its value cannot be pickled.
        """
        self._require_open("call_at()")
        rows = inputs.check_rows(indices, self.num_envs, "call_at(indices, ...)", distinct=True)
        return self._ask_rows("call_at()", rows, self._CALL, (method, args, kwargs))

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        """An attribute of sub-envs (see ``VecEnv.get_attr``).

        Raises:
            VecEnvAttributeError: There is no such name.
            VecEnvWorkerError: Its value cannot be read or pickled.
        """
        self._require_open("get_attr()")
        rows = inputs.check_rows(indices, self.num_envs, "get_attr(indices=...)")
        return self._ask_rows("get_attr()", rows, self._GET_ATTR, name)

    def _exchange(self, name: str, *rounds: Sequence[Any]) -> list[Any]:
        """Make a call of some rounds of commands; the answers of the workers to the last one."""
        self._require_open(name)
        with self._guard(name):
            self._require_open(name)
            self._pool.settle(self._step_timeout)
            answers: list[Any] = []
            for commands in rounds:
                answers = self._pool.exchange(commands, self._step_timeout)
            return answers

    # -- the rest ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every sub-env and end the workers; those that have not after ``close_timeout`` seconds are killed.

        Closing again does nothing.

        Raises:
            VecEnvWorkerError: A sub-env could not be closed, the first of those; all workers have ended.
        """
        if self._closed:
            return
        self._closed = True
        failures = self._stop()
        if failures:
            raise worker_error(failures)
