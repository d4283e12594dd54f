"""AsyncVecEnv: the sub-envs concurrently on an event loop."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import AutoresetOptions
from sekai.mirror import LoopRunning
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots import Snapshot
from sekai.types import ActType, ObsType, OptionsType, SeedType
from sekai.vector.guard import CallGuard
from sekai.vector.interrupts import LoopInterrupts
from sekai.vector.sub_envs.in_process import InProcessVecEnv
from sekai.vector.sub_envs.sub_env import EnvFn, SubEnv

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")


class AsyncVecEnv(InProcessVecEnv[ObsType, ActType]):
    """Sub-envs that wait at the same time, on an event loop.

    For sub-envs that write ``async_step()`` and ``async_reset()``: live feeds, simulators behind a network. One that
    computes in ``step()`` keeps the others waiting, as under ``SyncVecEnv``.

    A coroutine awaits ``vec.async_step()`` and ``vec.async_reset()``. For other code ``step()`` and ``reset()`` do so
    on a loop of this object's own, which cannot be entered where one is running already.

    A call waits for every sub-env, also when one raises (the first error, in the order of the sub-envs, is then
    raised) or when the call is cancelled (each sub-env's coroutine is), so that nothing runs on behind the next one.

    Args:
        env_fns: Each gives one sub-env when it is called. Where one fails, those built before it are closed.
        autoreset: Whether the step that ends an episode begins the next one (see ``VecEnv``).
        autoreset_options: The options of the resets that autoreset makes: a dict, or a callable of the sub-env's
            index; None passes none.

    Raises:
        SpaceMismatch: The sub-envs' spaces differ.
        TypeError: An env_fn gives no Env.
        ValueError: There is no env_fn, or two gave the same object.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        autoreset: bool = True,
        autoreset_options: AutoresetOptions = None,
    ) -> None:
        super().__init__(env_fns, autoreset=autoreset, autoreset_options=autoreset_options)
        self._begin_without_loop()

    def _begin_without_loop(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard = CallGuard(type(self).__name__)
        self._running_sub_envs: asyncio.Future[Any] | None = None
        self._leaving = False

    def __getstate__(self) -> dict[str, Any]:
        """What a copy begins with: the sub-envs. The private loop is not part of it; a copy makes one of its own."""
        with self._guard("__getstate__()"):
            state = self.__dict__.copy()
        for name in ("_loop", "_guard", "_running_sub_envs", "_leaving"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin_without_loop()

    def snapshot(self, indices: Any = None) -> Snapshot:
        """The state of sub-envs (see ``VecEnv.snapshot``).

        Raises:
            AsyncCallPending: A call is still running.
        """
        with self._guard("snapshot()"):
            return super().snapshot(indices)

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        with self._guard("reseed()"):
            super()._reseed(rows, seeds, whole)

    def restore(self, snapshot: Snapshot, indices: Any = None, *, parameters: str = "match") -> None:
        """Let sub-envs go on from a snapshot (see ``VecEnv.restore``).

        Raises:
            AsyncCallPending: A call is still running.
        """
        with self._guard("restore()"):
            super().restore(snapshot, indices, parameters=parameters)

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Run ``async_step()`` on the private event loop.

        Raises:
            RuntimeError: An event loop is running in this thread; await ``async_step()`` there.
        """
        return self._run("step", lambda: self._step(actions))

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Run ``async_reset()`` on the private event loop.

        Raises:
            RuntimeError: An event loop is running in this thread; await ``async_reset()`` there.
        """
        return self._run("reset", lambda: self._reset(seed, options))

    def _reset_some(self, rows: NDArray[np.intp], inputs: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        return self._run("reset_envs", lambda: self._async_reset_some(rows, inputs))

    async def async_step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs concurrently (see ``VecEnv.step``).

        Raises:
            AsyncCallPending: An earlier call is still running.
        """
        with self._guard("step()"):
            return await self._step(actions)

    async def async_reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs concurrently (see ``VecEnv.reset``).

        Raises:
            AsyncCallPending: An earlier call is still running.
        """
        with self._guard("reset()"):
            return await self._reset(seed, options)

    def close(self) -> None:
        """Close all sub-envs and the private event loop; closing again does nothing.

        At the end of a ``with`` block a call that is still running is cancelled first.

        Raises:
            AsyncCallPending: A call is still running.
        """
        with nullcontext() if self._leaving else self._guard("close()"):
            try:
                super().close()
            finally:
                if self._loop is not None and not self._loop.is_closed():
                    # In a thread, since this one may be inside a loop of the caller's.
                    thread = threading.Thread(target=_wind_up, args=(self._loop,))
                    thread.start()
                    thread.join()

    async def _step(self, actions: Any) -> VecStepResult[Any]:
        row_actions = self._step_inputs(actions)
        batch = self._new_batch()

        async def step_sub_env(sub_env: SubEnv, action: Any) -> None:
            batch.write_step(sub_env.index, await sub_env.async_step(action))

        await self._gather(map(step_sub_env, self._sub_envs, row_actions))
        return batch.step_result()

    async def _reset(self, seed: Any, options: Any) -> VecResetResult[Any]:
        row_inputs = self._reset_inputs(seed, options)
        batch = self._new_batch()

        async def reset_sub_env(sub_env: SubEnv, row_seed: Any, row_options: Any) -> None:
            batch.write_reset(sub_env.index, await sub_env.async_reset(row_seed, row_options))

        seeds, row_options = zip(*row_inputs, strict=True)
        await self._gather(map(reset_sub_env, self._sub_envs, seeds, row_options))
        self._has_reset = True
        return batch.reset_result()

    async def _async_reset_some(
        self, rows: NDArray[np.intp], inputs: list[tuple[SeedType, OptionsType]]
    ) -> VecResetResult[Any]:
        batch = self._new_batch()

        async def reset_sub_env(row: int, given: tuple[SeedType, OptionsType]) -> None:
            batch.write_reset(row, await self._sub_envs[row].async_reset(*given))

        await self._gather(map(reset_sub_env, rows.tolist(), inputs))
        return batch.rows_result(rows)

    async def _gather(self, coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Wait until every coroutine has ended, even when one raises or this call is cancelled."""
        import asyncio

        self._running_sub_envs = running = asyncio.gather(*coroutines, return_exceptions=True)
        if self._leaving:
            running.cancel()
        try:
            outcomes = await running
        finally:
            self._running_sub_envs = None
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _give_up_call(self) -> None:
        """Cancel the call that is running; wait for its end if that is in another thread, whose loop goes on."""
        self._leaving = True
        running = self._running_sub_envs
        if running is not None:
            loop = running.get_loop()
            if not loop.is_running() or loop is _loop_of_this_thread():
                with suppress(RuntimeError):  # the loop is closed, and the call will not go on
                    running.cancel()
                return
            loop.call_soon_threadsafe(running.cancel)
        self._guard.wait()

    def _run(self, name: str, call: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine on the private loop until it, and all it started, has ended."""
        import asyncio

        if _loop_of_this_thread() is not None:
            raise LoopRunning(
                f"AsyncVecEnv.{name}() was called inside a running event loop; use `await vec.async_{name}(...)`"
            )
        with self._guard(f"{name}()"):
            self._require_open(f"{name}()")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Without it a VecEnv that is dropped unclosed leaves its loop's selector and sockets to a warning.
                weakref.finalize(self, self._loop.close)
            with LoopInterrupts(self._loop) as interrupts:
                task = self._loop.create_task(call())
                interrupts.cancel_by_interrupt(task)
                try:
                    return self._loop.run_until_complete(task)
                except BaseException:
                    _settle(self._loop, task)
                    raise


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _settle(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Let a call wind up of which an interrupt in a sub-env has ended the loop, however often there is another."""
    import asyncio

    while True:
        with suppress(KeyboardInterrupt, SystemExit):
            while not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.wait([task]))
            # The loop may still be about to hear that the call is over, and would stop the next one for it.
            loop.stop()
            loop.run_forever()
            return


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Let what sub-envs have left running on a loop end, then close it."""
    import asyncio

    async def cancel_all() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()

    try:
        loop.run_until_complete(cancel_all())
    finally:
        loop.close()
