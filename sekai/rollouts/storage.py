"""Storage: the arrays of a rollout while they are filled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.episodes import ended_observations
from sekai.batching.infos import FINAL_OBSERVATION
from sekai.batching.joining import join
from sekai.batching.nested import named_parts
from sekai.errors import InvalidObservation
from sekai.results import VecStepResult
from sekai.rollouts.info_column import InfoColumn
from sekai.rollouts.parts import room_for, room_of, write_step
from sekai.rollouts.record import Rollout
from sekai.vector import VecEnv


class Storage:
    """The arrays of a rollout, allocated once; ``Rollout`` says what is in them.

    Only the terminal observations, whose number nobody knows beforehand, are collected step by step.

    Args:
        vec: What is recorded.
        observations: The batch of first observations, like which all others are.
        num_steps: The number T of steps.
        infos: The keys of the infos to keep.
        out: A rollout whose memory is to be taken; None for fresh memory.
        clock: The key of the info that is kept as the history; None for no history.
        continued: bool (N,), the sub-envs that are in an episode already; None after a reset.
        column: What takes in the infos of one key.

    Attributes:
        clock: As given.
        columns: The infos that are kept, by their keys.
        terminated: bool (T, N), False so far; so ``frozen``.

    Raises:
        ValueError: ``out`` is of another number of steps or sub-envs, or of other spaces.
    """

    def __init__(
        self,
        vec: VecEnv[Any, Any],
        observations: Any,
        num_steps: int,
        infos: Iterable[str],
        out: Rollout | None,
        clock: str | None,
        continued: NDArray[np.bool_] | None = None,
        column: type[InfoColumn] = InfoColumn,
    ) -> None:
        self.num_steps = num_steps
        shape = (num_steps, vec.num_envs)

        def used(name: str) -> Any:
            return getattr(out, name, None)

        def flags(name: str) -> NDArray[np.bool_]:
            if out is None:
                return np.zeros(shape, dtype=np.bool_)  # memory that nobody has touched, where none is set
            room = room_of(name, shape, np.bool_, used(name))
            room[...] = False
            return room

        actions = layout.allocate(vec.action_space, vec.num_envs)
        self.rewards: NDArray[np.float64] = room_of("rewards", shape, np.float64, used("rewards"))
        self.observations = room_for("observations", observations, num_steps, used("observations"))
        self.actions = room_for("actions", actions, num_steps, used("actions"))
        self.truncated = room_of("truncated", shape, np.bool_, used("truncated"))
        self.terminated, self.frozen = flags("terminated"), flags("frozen")
        self._keys, self.clock = list(infos), clock
        kept = dict.fromkeys(self._keys if clock is None else [*self._keys, clock])
        columns = {} if out is None else self._columns_of(out, kept)
        self.columns = {key: column(key, num_steps, columns.get(key)) for key in kept}
        self._space = vec.observation_space
        self._autoreset = vec.autoreset
        self._continued = continued
        self._final_indices: list[NDArray[np.intp]] = []
        self._final_observations: list[Any] = []

    def _columns_of(self, out: Rollout, keys: Iterable[Any]) -> dict[Any, NDArray[Any]]:
        """The infos of another rollout that have memory of their own, which is not taken for anything else.

        A history is one of the infos where its clock is; and what a rollout holds of infos is its owner's to change.
        """
        batches = [self.rewards, self.observations, self.actions, self.truncated, self.terminated, self.frozen]
        taken = [part for batch in batches for _, part in named_parts(batch, "") if isinstance(part, np.ndarray)]
        columns = {}
        for key in keys:
            used = out.infos.get(key, out.history if key == self.clock else None)
            if isinstance(used, np.ndarray) and not any(np.may_share_memory(used, each) for each in taken):
                columns[key] = used
                taken.append(used)
        return columns

    def write_observations(self, step: int, observations: Any) -> None:
        """Copy what the policy is about to see."""
        write_step(self.observations, step, observations)

    def write_actions(self, step: int, actions: Any) -> None:
        """Copy what it does, a batch in the dtypes of the action space."""
        write_step(self.actions, step, actions)

    def write_result(self, step: int, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> None:
        """Copy what came of it.

        Args:
            step: Which step.
            result: What ``vec.step()`` returned.
            frozen: bool (N,), the sub-envs that the step only repeated; None where autoreset leaves none.

        Raises:
            InvalidObservation: With autoreset, a sub-env's episode ended without a terminal observation.
            KeyError: It is the first step, and no sub-env has one of the infos.
        """
        self.rewards[step] = result.rewards
        self.terminated[step] = result.terminated
        self.truncated[step] = result.truncated
        if frozen is not None:
            self.frozen[step] = frozen
        for key, column in list(self.columns.items()):
            try:
                column.write(step, result.infos)
            except KeyError:
                if key in self._keys:
                    raise
                del self.columns[key]  # a clock that nobody has asked for and no sub-env tells: no history
        rows, observations = ended_observations(self._space, result)
        if self._autoreset and rows.size < np.count_nonzero(result.dones):
            row = min({*np.flatnonzero(result.dones).tolist()} - {*rows.tolist()})
            raise InvalidObservation(
                f"step {step}: sub-env {row}: expected {FINAL_OBSERVATION!r} in the info of the step that ended its "
                f"episode, since autoreset is on, got {sorted(result.infos[row])}"
            )
        if rows.size:
            self.add_finals(np.column_stack([np.full(rows.size, step), rows]), observations)

    def add_finals(self, indices: NDArray[np.intp], observations: Any) -> None:
        """Take over a batch of terminal observations, after all earlier ones; step and sub-env of each, (k, 2)."""
        self._final_indices.append(indices)
        self._final_observations.append(observations)

    def rollout(self, last_observations: Any) -> Rollout:
        """The filled arrays as a record, with what the policy would see next."""
        infos = {key: self.columns[key].array for key in self._keys}
        clock = None if self.clock is None else self.columns.get(self.clock)
        return self.record(last_observations, infos, history_of(clock, self.frozen))

    def record(
        self, last_observations: Any, infos: dict[str, NDArray[Any]], history: NDArray[Any] | None = None
    ) -> Rollout:
        """The filled arrays with infos, and a history, as they are given."""
        return Rollout(
            observations=self.observations,
            actions=self.actions,
            rewards=self.rewards,
            terminated=self.terminated,
            truncated=self.truncated,
            frozen=self.frozen,
            last_observations=layout.copy_batch(last_observations),
            final_indices=np.concatenate([np.empty((0, 2), dtype=np.intp), *self._final_indices]),
            final_observations=join(self._final_observations, last_observations),
            infos=infos,
            history=history,
            continued=self._continued,
        )


def history_of(column: InfoColumn | None, frozen: NDArray[np.bool_]) -> NDArray[Any] | None:
    """The column of the clock, if every step has told it.

    Args:
        column: The column, filled; None where there is none.
        frozen: bool (T, N).
    """
    if column is None or column.array.ndim != 2 or column.array.dtype.kind not in "iuf":
        return None
    # Integers have become float64 where a step has not told it, which only a frozen sub-env may leave out.
    if column.array.dtype.kind == "f" and np.isnan(column.array[~frozen]).any():
        return None
    return column.array
