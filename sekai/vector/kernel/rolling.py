"""Some steps of a compiled rollout of a row market, with a policy of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.errors import InvalidAction
from sekai.vector.kernel.probing import is_action, items_written, say_refused

if TYPE_CHECKING:
    from sekai.vector.kernel.env import KernelVecEnv


class Rolling:
    """Makes steps of a rollout.

    Args:
        vec: The env.
        policy: Compiled, ``policy(parameters, observation, action)``.
        parameters: What it is given.
        infos: The keys to be recorded.

    Raises:
        ValueError: The policy leaves out items of an action.
        IndexError: It writes on behind them.
        TypeError: It cannot be compiled.
    """

    def __init__(self, vec: KernelVecEnv[Any, Any], policy: Any, parameters: Any, infos: tuple[str, ...]) -> None:
        self._vec = vec
        self._check_policy(policy, parameters)
        width = max(vec._bound.market.actions.parts[0].width, 1)
        self._rolling = vec._bound.fused.rollout(policy, parameters, infos, width)
        self._given = (*vec._bound.arrays, *self._rolling.take_apart(parameters))

    def __call__(self, first: int, steps: int, arrays: Sequence[Any], infos: Sequence[Any]) -> list[tuple[int, int]]:
        """Make steps.

        Args:
            first: The number of the first one.
            steps: How many.
            arrays: What they write, as ``sekai.rollouts`` has them.
            infos: An array for each key.

        Returns:
            Where the entries of the episodes that ended begin, and how many there are, for each thread.

        Raises:
            InvalidAction: The policy gave an action that ``step()`` refuses; the env has to be reset then.
        """
        from sekai.kernels.rolling import rolling_threads
        from sekai.kernels.threads import enter, leave

        vec, n = self._vec, self._vec.num_envs
        vec._require_reset()
        vec._has_reset = False  # whatever interrupts the compiled steps, or comes before they are taken over
        num_threads = rolling_threads(n, vec._bound.market.parallel_from)
        seen, last, actions, *flags, ended, when, finals = arrays
        results = [*flags, seen, *infos]
        kept = [ended.ctypes.data, finals.ctypes.data]
        addresses = [array.ctypes.data for array in results]
        bases = np.array([vec._bound.addresses[0], *addresses, *kept], dtype=np.int64)
        strides = np.array([0, *(array.strides[0] for array in results), 0, 0], dtype=np.int64)
        bases[4] += strides[4]  # a step shows what the next one sees
        refused = np.full((num_threads, 2), -1, np.int64)
        passed = (first, steps, seen, last.ctypes.data, actions, bases, strides, when)
        before = enter(num_threads) if num_threads > 1 else 0
        try:
            if before:
                self._rolling.parallel(n, num_threads, *passed, refused, *self._given)
            else:
                refused = refused[:1]
                self._rolling.serial(n, *passed, refused, *self._given)
        except SystemError as error:  # what a thread raised
            raise error.__cause__ or error from None
        except Exception as error:
            vec._bound.fused.explain(error)
            raise
        finally:
            if before:
                leave(before)
        self._refuse(refused[refused[:, 0] >= 0], actions)
        vec._has_reset = True
        return [(steps * (thread * n // len(refused)), int(count)) for thread, count in enumerate(refused[:, 1])]

    def _check_policy(self, policy: Any, parameters: Any) -> None:
        """Refuse a policy of rows that leaves out items of an action, or writes on behind them, in the first row."""
        from sekai.kernels.reasons import is_of_compiler, reason_of

        market = self._vec._bound.market
        [seen], [acted] = market.observations.parts, market.actions.parts
        width, where = max(acted.width, 1), "rollout(policy): action"
        observation = np.asarray(self._vec._observe_rows(np.zeros(1, dtype=np.intp)), seen.dtype).reshape(-1)
        observation.flags.writeable = False

        def act(arrays: list[NDArray[Any]]) -> None:
            try:
                policy(parameters, observation, *arrays)
            except Exception as error:
                if not is_of_compiler(error):
                    raise
                raise TypeError(f"rollout(policy): {policy.__qualname__}: {reason_of(error)}") from None

        [written] = items_written([(acted.dtype, width)], act, where)
        if not written.all():
            raise ValueError(
                f"{where}: expected all of its {width} items to be written, not so item {written.argmin()}"
            )

    def _refuse(self, refused: NDArray[np.int64], actions: NDArray[Any]) -> None:
        """Name the earliest action that was refused, of those of the blocks in which there was one."""
        if not len(refused):
            return
        from sekai.kernels.rolling import unwritten

        vec, step = self._vec, int(refused[:, 0].min())
        for row, action in enumerate(actions[step]):
            if not is_action(vec.action_space, action):
                said = say_refused(vec.action_space, action)
                left = unwritten(action.dtype)
                if np.isin(left, action) or (left != left and np.isnan(action).any()):
                    said += f"; an item that the policy does not write is {left}"
                raise InvalidAction(f"rollout, step {step}: {said}{vec.where(row)}")
