"""Rollouts in one compiled loop, where market and policy allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.errors import InvalidAction
from sekai.rollouts.storage import Storage
from sekai.spaces import Space
from sekai.vector import NativeVecEnv, VecEnv
from sekai.vector.compiled_step import CompiledStep

#: Steps between two looks at Ctrl-C and the progress bar.
_STEPS_AT_ONCE = 64


class RowPolicy:
    """A compiled policy of one row, for batches.

    Args:
        row: Compiled, ``row(parameters, observation, action)``; the observation is read-only.
        parameters: What it is called with: a named tuple of scalars and arrays that all rows share.
        action_space: Of the env, whose actions are one array.

    Attributes:
        row: As given.
        parameters: As given.
    """

    def __init__(self, row: Any, parameters: Any, action_space: Space[Any]) -> None:
        self.row = row
        self.parameters = parameters
        self._action_space = action_space

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The actions for a batch of observations."""
        from sekai.kernels.rolling import batch_of

        observations = observations.view()
        observations.flags.writeable = False  # as in a compiled rollout
        actions: NDArray[Any] = layout.allocate(self._action_space, len(observations), np.empty)
        batch_of(self.row)(self.parameters, observations, actions)
        return actions


def as_row_policy(policy: Any, vec: VecEnv[Any, Any]) -> RowPolicy | None:
    """A policy as one of rows; None for one that is not.

    Args:
        policy: Of rows is a function of an observation and an action, made by ``sekai.kernels.jit``, and what has a
            ``row_policy()`` that gives one with parameters, and those; None where the policy differs between rows.
        vec: The env.

    Raises:
        TypeError: It is one of rows, but an observation or an action is no array.
    """
    row, parameters = None, ()
    if getattr(policy, "is_kernel", False) and _num_parameters(policy) == 2:
        from sekai.kernels.rolling import with_parameters

        row = with_parameters(policy)
    elif callable(getattr(policy, "row_policy", None)):
        row, parameters = policy.row_policy() or (None, ())
    if row is None:
        return None
    for name, space in (("observation", vec.observation_space), ("action", vec.action_space)):
        if not isinstance(layout.allocate(space, 0), np.ndarray):
            raise TypeError(f"rollout(policy): a policy of rows needs {name}s of one array each, got the space {space}")
    return RowPolicy(row, parameters, vec.action_space)


def _num_parameters(kernel: Any) -> int:
    return int(getattr(kernel, "py_func", kernel).__code__.co_argcount)


def compiled_step(vec: VecEnv[Any, Any], policy: RowPolicy, infos: Iterable[str]) -> CompiledStep | None:
    """How the market steps in compiled code; None where it has to be called step by step."""
    if not isinstance(vec, NativeVecEnv) or not hasattr(policy.row, "py_func"):  # NUMBA_DISABLE_JIT leaves none
        return None
    step = vec.compiled_step()
    return step if step is not None and set(infos) <= set(step.infos._fields) else None


def fill_compiled(
    storage: Storage,
    vec: Any,
    policy: RowPolicy,
    step: CompiledStep,
    first_observations: NDArray[Any],
    advance: Callable[[int], Any],
) -> NDArray[Any]:
    """Fill the storage in compiled code; returns the observations after the last step.

    Args:
        storage: To be filled.
        vec: The native market, just reset.
        policy: Of rows.
        step: The market's.
        first_observations: What it shows now.
        advance: Called with numbers of steps as they are made.

    Raises:
        InvalidAction: The policy gave an action that the market refuses; the env has to be reset then.
    """
    from sekai.kernels.rolling import Recording, gather_ends, roll, rolling_threads

    total, num_envs = storage.rewards.shape
    observations = storage.observations
    observations[0] = first_observations
    last: NDArray[Any] = np.empty_like(first_observations)
    at_once = min(_STEPS_AT_ONCE, total)
    recording = Recording(
        observations=observations,
        last_observations=last,
        actions=storage.actions,
        rewards=storage.rewards,
        terminated=storage.terminated,
        truncated=storage.truncated,
        final_observations=np.empty((at_once, *observations.shape[1:]), observations.dtype),
        refused=np.full((rolling_threads(num_envs), 2), -1, dtype=np.int64),
    )
    infos = []
    for key, column in zip(step.infos._fields, step.infos, strict=True):
        if key in storage.columns:
            info = storage.columns[key].room((total + 1, num_envs), column.dtype)
        else:
            info = np.empty((2, num_envs), column.dtype)
        info[0] = column
        infos.append(info)
    indices = np.empty((num_envs, 2), dtype=np.intp)
    done = 0
    while done < total:
        steps = min(at_once, total - done)
        vec.abandon()  # whatever interrupts the compiled steps, or comes before they are taken over
        roll(
            step.advance,
            policy.row,
            done,
            steps,
            step.now + done,
            policy.parameters,
            step.shared,
            step.columns,
            recording,
            type(step.infos)(*infos),
        )
        ended = recording.terminated[done : done + steps] | recording.truncated[done : done + steps]
        count = gather_ends(ended, indices)
        if count > len(indices):
            indices = np.empty((count, 2), dtype=np.intp)
            gather_ends(ended, indices)
        ends = indices[:count]
        if count:
            storage.add_finals(ends + (done, 0), recording.final_observations[ends[:, 0], ends[:, 1]])
        done += steps
        shown = observations[done] if done < total else last
        vec.absorb(steps, ends, shown, type(step.infos)(*(info[done % len(info)] for info in infos)))
        refused = recording.refused[recording.refused[:, 0] >= 0]
        if len(refused):
            at, row = min(map(tuple, refused.tolist()))
            vec.abandon()
            raise InvalidAction(
                f"rollout, step {at}: expected an action that step() takes, "
                f"got {storage.actions[at, row]}{vec.where(row)}"
            )
        advance(steps)
    for key, column in storage.columns.items():
        column.array = infos[step.infos._fields.index(key)][1:]
    return last
