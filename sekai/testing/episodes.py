"""The end of an episode: what autoreset makes of it and what freezing does, each held against the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.batching.infos import FINAL_OBSERVATION, RESET_INFO
from sekai.testing.reference import ReferenceRun, VecEnvFactory
from sekai.testing.shown import (
    MASKS,
    Call,
    CallFailed,
    Difference,
    Shown,
    calls,
    copy_shown,
    difference_between,
    masks_of,
    play,
)
from sekai.testing.values import name_error, same, show
from sekai.vector import VecEnv

#: Steps that a VecEnv is watched for after its last sub-env was frozen.
_WATCHED = 5


def check_autoreset(reference: ReferenceRun, frozen: VecEnvFactory) -> list[str]:
    """Play each row alone, with autoreset and with a ``reset()`` by hand after each end.

    Args:
        reference: The run to compare with.
        frozen: The same market with autoreset off.
    """
    inputs = reference.inputs
    with reference.factory.open(1) as vec, frozen.open(1) as by_hand:
        if by_hand.autoreset:
            return ["factory(1, autoreset=False): expected autoreset to be off, got a VecEnv with autoreset True"]
        for row in range(reference.num_envs):
            actions = [layout.take(batch, np.array([row])) for batch in inputs.actions]
            seeds = [inputs.seeds[row]]
            played = list(_play_by_hand(by_hand, seeds, actions))
            for expected, got in zip(played, play(vec, seeds, actions), strict=True):
                # The end first: if a market resets itself too early, that is where it says so best.
                difference = difference_between(replace(expected, parts={}), replace(got, parts={}))
                how = ", as the episode ends with autoreset=False"
                if difference is None:
                    difference = difference_between(expected, got)
                    how = ", as after a reset() by hand with autoreset=False"
                if difference is not None:
                    return [f"alone, {difference.problem(how, sub_env=row)}"]
    return []


def _play_by_hand(vec: VecEnv[Any, Any], seeds: list[int], actions: list[Any]) -> Iterator[Shown]:
    """What autoreset has to show, by means of a VecEnv of one that has none."""
    for call in calls(vec, seeds, actions):
        shown = copy_shown(vec, call)
        if shown.done and not shown.ends:  # else the sub-env has reset itself
            try:
                first = vec.reset()
            except Exception as error:
                where = f"reset() after {call.where} with autoreset=False"
                raise CallFailed(f"{where}: expected a VecResetResult, got {name_error(error)}") from error
            end = {FINAL_OBSERVATION: _element(vec, call.result.observations, 0)}
            if isinstance(first.infos, InfoList):
                end[RESET_INFO] = first.infos[0]
            observed = dict(layout.named_parts(first.observations, "observations"))
            masks = masks_of(vec, f"reset() after {call.where} with autoreset=False")
            observed |= {} if masks is None else dict(layout.named_parts(masks, MASKS))
            shown = replace(shown, parts={**shown.parts, **observed}, ends={0: end})
        yield shown


def _element(vec: VecEnv[Any, Any], observations: Any, row: int) -> Any:
    """A copy of the observation of one row."""
    elements = list(layout.iterate(vec.observation_space, observations, vec.num_envs))
    return layout.copy_row(vec.observation_space, elements[row])


def early_reset_hints(reference: ReferenceRun) -> list[str]:
    """Says so if every episode seems to end with the observation that the next one begins with."""
    ends = moves = 0
    for before, shown in zip(reference.shown, reference.shown[1:], strict=False):
        for row, end in shown.ends.items():
            final = dict(layout.named_parts(end[FINAL_OBSERVATION], "observations"))
            if not all(same(part, shown.parts[name][row]) for name, part in final.items()):
                return []
            ends += 1
            moves += not all(same(part, before.parts[name][row]) for name, part in final.items())
    if not moves:
        return []
    return [
        f"each of the {ends} episodes that ended shows as its {FINAL_OBSERVATION} what the next one begins with; "
        "is it taken after a reset?"
    ]


def check_freezing(reference: ReferenceRun, frozen: VecEnvFactory, *, compare: bool) -> list[str]:
    """Run with autoreset off: each row shows its end again and again, the others go on as with autoreset.

    Args:
        reference: The run to compare with.
        frozen: The same market with autoreset off.
        compare: Whether to hold the rows against its own up to their end.
    """
    with frozen.open(reference.num_envs) as vec:
        watch = _Freezing(reference, vec, compare)
        try:
            return [f"autoreset=False, {problem}" for problem in watch.problems()][:1]
        except CallFailed as failure:
            rows = f" while sub-envs {sorted(watch.ends)} were frozen" if watch.ends else ""
            return [f"autoreset=False, {failure}{rows}"]


class _Freezing:
    """A run of a VecEnv with autoreset off.

    Attributes:
        ends: By row what its last step showed.
    """

    def __init__(self, reference: ReferenceRun, vec: VecEnv[Any, Any], compare: bool) -> None:
        self.reference = reference
        self.vec = vec
        self.compare = compare
        self.ends: dict[int, Shown] = {}

    def problems(self) -> Iterator[str]:
        """Problems as they come up."""
        inputs, vec, n = self.reference.inputs, self.vec, self.reference.num_envs
        watched = 0
        for expected, call in zip(self.reference.shown, calls(vec, inputs.seeds, inputs.actions), strict=True):
            shown = copy_shown(vec, call)
            if shown.ends:  # sub-envs that reset themselves are not frozen
                return
            for row in self.ends:
                yield from self._check_frozen(call, shown, row)
            if self.compare:
                yield from self._check_running(expected, call, shown)
            self.ends |= {row: shown for row in shown.done if row not in self.ends}
            if np.flatnonzero(vec.frozen).tolist() != sorted(self.ends):
                shown = np.flatnonzero(vec.frozen).tolist()
                yield f"{call.where}: frozen: expected sub-envs {sorted(self.ends)} to be frozen, got {shown}"
            watched += len(self.ends) == n
            if watched > _WATCHED:
                break
        again = next(iter(calls(vec, inputs.seeds, ())))
        difference = difference_between(self.reference.shown[0], copy_shown(vec, again))
        if difference is not None:
            yield difference.problem(", as before sub-envs were frozen")

    def _check_frozen(self, call: Call, shown: Shown, row: int) -> Iterator[str]:
        """A frozen row has to show its end, no reward and an empty info."""
        held = _without(self.ends[row], "infos", MASKS)
        held.parts["rewards"] = np.zeros(self.reference.num_envs)
        difference = difference_between(held, _without(shown, "infos", MASKS), [row])
        if difference is not None:
            yield difference.problem(" of a frozen sub-env")
        info = call.result.infos[row]
        if info:
            expected = "expected an empty dict of a frozen sub-env"
            yield f"{call.where}: infos[{row}]: {expected}, got {show(info)} (sub-env {row})"

    def _check_running(self, expected: Shown, call: Call, shown: Shown) -> Iterator[str]:
        """A row that is not frozen has to show what it does with autoreset, its end included."""
        if self.reference.draws_shared and expected.shared_draws != shown.shared_draws:
            self.compare = False  # autoreset has drawn the starts of new episodes
            return
        running = [row for row in range(shown.num_envs) if row not in self.ends]
        ending = [row for row in running if row in shown.done]
        difference = difference_between(expected, shown, [row for row in running if row not in ending])
        if difference is None:
            with_autoreset, without = (
                _without(replace(each, ends={}), "observations", MASKS) for each in (expected, shown)
            )
            difference = difference_between(with_autoreset, without, ending)
        if difference is not None:
            yield difference.problem(", as with autoreset")
            return
        for row in ending:
            final = layout.copy_row(self.vec.observation_space, expected.ends[row][FINAL_OBSERVATION])
            shown = _element(self.vec, call.result.observations, row)
            if not same(final, shown):
                end = Difference(f"{call.where}: observations[{row}]", row, final, shown)
                yield end.problem(f", the {FINAL_OBSERVATION} under autoreset")
                return


def _without(shown: Shown, *kinds: str) -> Shown:
    """What was shown, without the parts whose names begin with one of these."""
    return replace(shown, parts={name: part for name, part in shown.parts.items() if not name.startswith(kinds)})
