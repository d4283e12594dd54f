"""What a finished sub-env looks like: the autoreset and the freezing rule, for one row and for a mask.

With autoreset, a sub-env that finishes an episode is reset in the same step: its observation is the first of the
new episode, and its info carries the terminal observation, the step's info and the reset's. Without, it is frozen
until the next reset: its final observation, reward 0, its final flags and an empty info. A sub-env that resets
itself, so that its info carries a terminal observation, is neither reset again nor frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.infos import (
    FINAL_INFO,
    FINAL_OBSERVATION,
    RESET_INFO,
    InfoList,
    column_item,
    snapshot_info,
)
from sekai.spaces import Space
from sekai.types import InfoDict

#: (observation, reward, terminated, truncated, info) of one sub-env's step.
Step: TypeAlias = tuple[Any, float, bool, bool, InfoDict]


def ended_info(info: InfoDict, final_observation: Any, reset_info: InfoDict) -> InfoDict:
    """The info of the step that ended an episode under autoreset.

    Args:
        info: The step's own info, a snapshot.
        final_observation: The terminal observation, a snapshot.
        reset_info: The reset's info, a snapshot.

    Returns:
        The step's keys at the top level, and the three keys of the rule; the step's info whole below "final_info".
    """
    return {**info, FINAL_OBSERVATION: final_observation, FINAL_INFO: info, RESET_INFO: reset_info}


def resets_itself(info: Mapping[str, Any]) -> bool:
    """Whether the sub-env has begun its next episode by itself, e.g. wrapped in AutoReset."""
    return FINAL_OBSERVATION in info


# -- one row -----------------------------------------------------------------------------------------------


class RowEpisode:
    """The rule for one sub-env.

    Call ``begin`` after a reset and ``advance`` with each step; when that returns True, reset the sub-env and call
    ``restart``. ``outcome`` is what the sub-env then shows; while ``frozen``, it shows that again and is not
    stepped.
    """

    __slots__ = ("space", "row", "autoreset", "frozen", "outcome", "_ended")

    def __init__(self, space: Space[Any], row: int, autoreset: bool) -> None:
        """Make the state of row ``row`` of a batch."""
        self.space = space
        self.row = row
        self.autoreset = autoreset
        self.frozen = False
        self.outcome: Step
        self._ended: tuple[Any, float, bool, bool, InfoDict]

    def begin(self) -> None:
        """A reset has begun a new episode."""
        self.frozen = False

    def advance(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: InfoDict) -> bool:
        """Take in a step.

        Returns:
            True when the sub-env is to be reset now.
        """
        info = snapshot_info(info)
        self.outcome = (observation, reward, terminated, truncated, info)
        if not (terminated or truncated) or resets_itself(info):
            return False
        final = layout.copy_row(self.space, observation, self.row)
        if self.autoreset:
            self._ended = (final, reward, terminated, truncated, info)
            return True
        self.outcome = (final, reward, terminated, truncated, info)
        self.frozen = True
        return False

    def restart(self, observation: Any, info: InfoDict) -> None:
        """Take in the reset that ``advance`` asked for."""
        final, reward, terminated, truncated, step_info = self._ended
        self.outcome = (
            observation,
            reward,
            terminated,
            truncated,
            ended_info(step_info, final, snapshot_info(info)),
        )

    def repeat(self) -> Step:
        """What a frozen sub-env shows."""
        observation, _, terminated, truncated, _ = self.outcome
        return observation, 0.0, terminated, truncated, {}


# -- a mask ------------------------------------------------------------------------------------------------


class MaskEpisodes:
    """The rule for a batch.

    Call ``begin`` after a reset. In a step: ``freeze_step`` on what the simulation computed, ``ended`` for the rows
    to be reset, ``infos`` for their infos, and ``freeze_observations`` on the observations.

    Attributes:
        frozen: bool (num_envs,), the frozen rows.
    """

    def __init__(self, space: Space[Any], num_envs: int, autoreset: bool) -> None:
        """Make the state of ``num_envs`` rows whose observations are elements of ``space``."""
        self.space = space
        self.num_envs = num_envs
        self.autoreset = autoreset
        self.frozen = np.zeros(num_envs, dtype=np.bool_)
        self._frozen_before: NDArray[np.bool_] | None = None
        self._held = HeldRows()
        self._terminated = np.zeros(num_envs, dtype=np.bool_)
        self._truncated = np.zeros(num_envs, dtype=np.bool_)

    def begin(self) -> None:
        """A reset of all rows has begun new episodes."""
        self.frozen = np.zeros(self.num_envs, dtype=np.bool_)

    def freeze_step(
        self, rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """Give frozen rows reward 0 and their final flags, in place, and freeze the rows that have just ended.

        Returns:
            The rows whose episode ended in this step, ascending.
        """
        if self.autoreset:
            return np.flatnonzero(terminated | truncated)
        before = self.frozen
        self._frozen_before = before if before.any() else None
        rewards[before] = 0.0
        terminated[before] = self._terminated[before]
        truncated[before] = self._truncated[before]
        self._terminated, self._truncated = terminated.copy(), truncated.copy()
        self.frozen = terminated | truncated
        return np.flatnonzero(self.frozen & ~before)

    def infos(self, columns: dict[str, NDArray[Any]], ended: NDArray[np.intp], rows: EndedBatch | None) -> InfoList:
        """The infos of a step: empty for frozen rows, and with the keys of the rule for rows that were reset."""
        absent = None if self.autoreset else self._frozen_before
        return InfoList(self.num_envs, columns, done=ended, ended=rows, absent=absent)

    def freeze_observations(self, observations: Any, ended: NDArray[np.intp]) -> None:
        """Show frozen rows their final observation, in place, and hold those of the rows that have just ended."""
        if not self.autoreset:
            self._held.show(observations, self._frozen_before)
            self._held.hold(observations, ended)


class EndedBatch:
    """What a batch of rows adds to its infos when autoreset resets them, built into a dict only when one is read."""

    __slots__ = ("space", "observations", "reset_columns")

    def __init__(self, space: Space[Any], observations: Any, reset_columns: dict[str, NDArray[Any]]) -> None:
        """Take over the batch of terminal observations and the reset's info columns, one row per ended row."""
        self.space = space
        self.observations = observations
        self.reset_columns = reset_columns

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
        """Hold nothing; the first batch of which rows are held gives the arrays."""
        self._rows: Any = None

    def hold(self, observations: Any, rows: NDArray[np.intp]) -> None:
        """Keep copies of some rows of a batch."""
        if rows.size:
            if self._rows is None:
                self._rows = layout.copy_batch(observations)
            layout.put(self._rows, rows, layout.take(observations, rows))

    def show(self, observations: Any, frozen: NDArray[np.bool_] | None) -> None:
        """Write the kept rows into a batch, in place."""
        if frozen is not None and self._rows is not None:
            rows = np.flatnonzero(frozen)
            layout.put(observations, rows, layout.take(self._rows, rows))
