"""What a finished sub-env looks like: the autoreset and the freezing rule, for one row and for a mask.

With autoreset, a sub-env that finishes an episode is reset in the same step: its observation is the first of the
new episode, and its info carries the terminal observation, the step's info and the reset's. Without, it is frozen
until the next reset: its final observation, reward 0, its final flags and an empty info. A sub-env that resets
itself, so that its info carries a terminal observation, is neither reset again nor frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.batching.infos import (
    FINAL_INFO,
    FINAL_OBSERVATION,
    RESET_INFO,
    column_item,
    copy_info,
    copy_value,
)
from sekai.results import StepResult, VecStepResult
from sekai.spaces import Space
from sekai.types import InfoDict


def ended_info(info: InfoDict, final_observation: Any, reset_info: InfoDict) -> InfoDict:
    """The info of the step that ended an episode under autoreset.

    Args:
        info: The step's own info, a copy.
        final_observation: The terminal observation, a copy.
        reset_info: The reset's info, a copy.

    Returns:
        The step's keys at the top level, and the three keys of the rule; the step's info whole below "final_info".
    """
    return {**info, FINAL_OBSERVATION: final_observation, FINAL_INFO: info, RESET_INFO: reset_info}


def resets_itself(info: Mapping[str, Any]) -> bool:
    """Whether the sub-env has begun its next episode by itself, e.g. wrapped in AutoReset."""
    return FINAL_OBSERVATION in info


def ended_observations(space: Space[Any], result: VecStepResult[Any]) -> tuple[NDArray[np.intp], Any]:
    """The sub-envs that have begun a new episode in a step, and the terminal observations of their old one.

    On a native vector env no info dict is built for it.

    Args:
        space: The observation space of the VecEnv.
        result: What its step returned.

    Returns:
        intp (k,), ascending, and a batch of k observations in that order; none without autoreset.
    """
    infos = result.infos
    rows = begun_rows(result)
    if isinstance(infos, InfoList) and infos.has_final_observations and not infos.read_final():
        return rows, infos.final(FINAL_OBSERVATION)
    finals = [infos[row][FINAL_OBSERVATION] for row in rows.tolist()]
    return rows, layout.stack(space, finals) if finals else layout.allocate(space, 0)


def begun_rows(result: VecStepResult[Any]) -> NDArray[np.intp]:
    """Intp (k,), ascending: the sub-envs that have begun a new episode in a step.

    On a native vector env no info dict is built for it.

    Args:
        result: What the step returned.
    """
    infos = result.infos
    if isinstance(infos, InfoList) and infos.has_final_observations and not infos.read_final():
        return infos.done
    done = infos.done if isinstance(infos, InfoList) and infos.is_untouched else result.dones.nonzero()[0]
    return np.array([row for row in done.tolist() if resets_itself(infos[row])], dtype=np.intp)


# -- one row -----------------------------------------------------------------------------------------------


class RowEpisode:
    """The rule for one sub-env.

    Call ``begin`` after a reset. When a step has ended an episode, call ``end`` with it; if that returns True, reset
    the sub-env and call ``restart``. ``outcome`` is then what the sub-env shows; while ``frozen``, it shows
    ``outcome`` again and again and is not stepped.
    """

    __slots__ = ("space", "row", "autoreset", "frozen", "outcome")

    def __init__(self, space: Space[Any], row: int, autoreset: bool) -> None:
        """Make the state of row ``row`` of a batch."""
        self.space = space
        self.row = row
        self.autoreset = autoreset
        self.frozen = False
        self.outcome: StepResult[Any]

    def begin(self) -> None:
        """A reset has begun a new episode."""
        self.frozen = False

    def end(self, step: StepResult[Any]) -> bool:
        """Take in the step that ended an episode.

        Returns:
            True when the sub-env is to be reset now.
        """
        if resets_itself(step.info):
            self.outcome = step
            return False
        final = layout.copy_row(self.space, step.observation, self.row)
        info = copy_info(step.info)
        reward = copy_value(step.reward)
        self.outcome = StepResult(final, reward, bool(step.terminated), bool(step.truncated), info)
        self.frozen = not self.autoreset
        return self.autoreset

    def restart(self, observation: Any, info: InfoDict) -> None:
        """Take in the reset that ``end`` asked for."""
        step = self.outcome
        merged = ended_info(step.info, step.observation, copy_info(info))
        self.outcome = StepResult(observation, step.reward, step.terminated, step.truncated, merged)

    def repeat(self) -> StepResult[Any]:
        """What a frozen sub-env shows."""
        return StepResult(self.outcome.observation, 0.0, self.outcome.terminated, self.outcome.truncated, {})


# -- a mask ------------------------------------------------------------------------------------------------


class MaskEpisodes:
    """The rule for a batch.

    Call ``begin`` after a reset. In a step: ``freeze_step`` on what the simulation computed, ``ended`` for the rows
    to be reset, ``infos`` for their infos, and ``freeze_observations`` on the observations.

    Attributes:
        frozen: bool (num_envs,), the frozen rows.
    """

    def __init__(self, num_envs: int, autoreset: bool) -> None:
        """Make the state of ``num_envs`` rows."""
        self.num_envs = num_envs
        self.autoreset = autoreset
        self.frozen = np.zeros(num_envs, dtype=np.bool_)
        self._frozen_before = self.frozen
        self._held = HeldRows()
        self._terminated = np.zeros(num_envs, dtype=np.bool_)
        self._truncated = np.zeros(num_envs, dtype=np.bool_)

    def keep(self, space: Space[Any], rows: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """Columns of what some rows show while they are frozen; none with autoreset."""
        if self.autoreset:
            return {}
        flags = (("frozen", self.frozen), ("terminated", self._terminated), ("truncated", self._truncated))
        columns = {name: flag[rows] for name, flag in flags}
        return columns | keep_held(self._held, space, rows, self.num_envs, "shown")

    def put_back(self, space: Space[Any], rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> None:
        """Let rows be as they were when ``keep`` made the columns."""
        if not self.autoreset:
            self.frozen, self._terminated, self._truncated = (
                _with_rows(before, rows, columns[name])
                for name, before in (
                    ("frozen", self.frozen),
                    ("terminated", self._terminated),
                    ("truncated", self._truncated),
                )
            )
            put_held_back(self._held, space, rows, columns, self.num_envs, "shown")

    def begin(self) -> None:
        """A reset of all rows has begun new episodes."""
        self._held.release()
        self.frozen = np.zeros(self.num_envs, dtype=np.bool_)

    def thaw(self, rows: NDArray[np.intp]) -> None:
        """A reset of some frozen rows has begun new episodes there."""
        self.frozen = self.frozen.copy()  # what the last step held on to stays
        self.frozen[rows] = False

    def freeze_step(
        self, rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """Give frozen rows reward 0 and their final flags, in place, and freeze the rows that have just ended.

        Returns:
            The rows whose episode ended in this step, ascending.
        """
        if self.autoreset:
            return (terminated | truncated).nonzero()[0]
        before = self.frozen
        self._frozen_before = before
        rewards[before] = 0.0
        terminated[before] = self._terminated[before]
        truncated[before] = self._truncated[before]
        self._terminated, self._truncated = terminated.copy(), truncated.copy()
        self.frozen = terminated | truncated
        return np.flatnonzero(self.frozen & ~before)

    def infos(self, columns: dict[str, NDArray[Any]], ended: NDArray[np.intp], rows: EndedBatch | None) -> InfoList:
        """The infos of a step: empty for frozen rows, and with the keys of the rule for rows that were reset."""
        absent = None if self.autoreset or not self._frozen_before.any() else self._frozen_before
        return InfoList.of_columns(self.num_envs, columns, done=ended, ended=rows, absent=absent)

    def show_frozen(self, observations: Any) -> None:
        """Write into a batch what frozen rows show, in place, between two steps."""
        self._held.write(observations, self.frozen)

    def freeze_observations(self, observations: Any) -> None:
        """Show frozen rows their final observation, in place."""
        if not self.autoreset:
            self._held.show(observations, self._frozen_before, self.frozen)


class EndedBatch:
    """What a batch of rows adds to its infos when autoreset resets them, built into a dict only when one is read."""

    __slots__ = ("space", "observations", "reset_columns")

    def __init__(self, space: Space[Any], observations: Any, reset_columns: dict[str, NDArray[Any]]) -> None:
        """Take over the batch of terminal observations and the reset's info columns, one row per ended row."""
        self.space = space
        self.observations = observations
        self.reset_columns = reset_columns

    def __reduce__(self) -> Any:  # for the pickle protocols that know no slots
        return EndedBatch, (self.space, self.observations, self.reset_columns)

    def apply(self, info: InfoDict, position: int) -> InfoDict:
        """The info of the ``position``-th ended row."""
        row = np.array([position])
        final = next(layout.iterate(self.space, layout.take(self.observations, row), 1))
        reset = {key: column_item(column, position) for key, column in self.reset_columns.items()}
        return ended_info(info, final, reset)

    def final(self, key: str) -> Any:
        """The terminal observations or the reset's info columns; KeyError for any other key."""
        return {FINAL_OBSERVATION: self.observations, RESET_INFO: self.reset_columns}[key]

    def replace_observations(self, space: Space[Any], observations: Any) -> EndedBatch:
        """The same with other terminal observations."""
        return EndedBatch(space, observations, self.reset_columns)


class HeldRows:
    """The final observations of frozen rows, shown again and again whatever is computed for them."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._rows: Any = None
        self._held: NDArray[np.bool_] | None = None

    def release(self) -> None:
        """Hold nothing any more: a reset has begun new episodes."""
        self._held = None

    def get(self, num_envs: int) -> tuple[NDArray[np.bool_], Any]:
        """Bool (num_envs,), the rows that are held, and the batch that they are of, None if none is."""
        if self._held is None:
            return np.zeros(num_envs, dtype=np.bool_), None
        return self._held, self._rows

    def put(self, held: NDArray[np.bool_], batch: Any) -> None:
        """Hold other rows from now on; mask and batch are taken over."""
        self._held, self._rows = (held, batch) if held.any() else (None, None)

    def write(self, observations: Any, frozen: NDArray[np.bool_]) -> None:
        """Write those of the held rows that are frozen, bool (n,), into a batch, in place."""
        if self._held is not None:
            rows = np.flatnonzero(self._held & frozen)
            layout.put(observations, rows, layout.take(self._rows, rows))

    def show(self, observations: Any, before: NDArray[np.bool_], now: NDArray[np.bool_]) -> None:
        """Write the held rows into a batch, in place, and hold those that are frozen from now on.

        Args:
            observations: The batch that a step gave.
            before: bool (n,), the rows that were frozen before the step.
            now: bool (n,), the rows that are frozen after it.
        """
        self.write(observations, before)
        self._held = now if now.any() else None
        self._rows = layout.copy_batch(observations) if now.any() else None


def keep_held(
    held: HeldRows, space: Space[Any], rows: NDArray[np.intp], num_envs: int, name: str
) -> dict[str, NDArray[Any]]:
    """Columns, by names that begin with ``name``, of whether some rows are held and what they show."""
    mask, batch = held.get(num_envs)
    return {f"{name} is held": mask[rows], **layout.columns_of(space, batch, rows, name)}


def put_held_back(
    held: HeldRows,
    space: Space[Any],
    rows: NDArray[np.intp],
    columns: Mapping[str, NDArray[Any]],
    num_envs: int,
    name: str,
) -> None:
    """Hold what ``keep_held`` made columns of."""
    mask, batch = held.get(num_envs)
    batch = layout.allocate(space, num_envs) if batch is None else layout.copy_batch(batch)
    layout.put(batch, rows, layout.batch_of(space, columns, name, len(rows)))
    held.put(_with_rows(mask, rows, columns[f"{name} is held"]), batch)


def _with_rows(array: NDArray[Any], rows: NDArray[np.intp], values: NDArray[Any]) -> NDArray[Any]:
    changed: NDArray[Any] = array.copy()  # what a step has handed on stays
    changed[rows] = values
    return changed
