"""The first run of a market: everything that a single run can show to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.inputs import merge_seeds
from sekai.batching.masks import rows_with_any
from sekai.spaces import mask_space
from sekai.testing.draws import GlobalGenerators
from sekai.testing.reference import Inputs
from sekai.testing.results import check_layout, check_values
from sekai.testing.shown import (
    MASKS,
    Call,
    CallFailed,
    Difference,
    Shown,
    calls,
    copy_shown,
    difference_between,
)
from sekai.testing.values import same, show
from sekai.vector import VecEnv


@dataclass
class Recording:
    """One run.

    Attributes:
        shown: What each call returned.
        problems: The first problem of each kind.
        completed: Whether the run went to its end.
        draws_shared: Whether the sub-envs drew from one generator.
        global_draws: By global generator that the run drew from, the call in which it did so first.
    """

    shown: list[Shown] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    completed: bool = False
    draws_shared: bool = False
    global_draws: dict[str, str] = field(default_factory=dict)


def record(vec: VecEnv[Any, Any], inputs: Inputs) -> Recording:
    """Run a VecEnv and look at each result, and at what becomes of it."""
    recording = Recording()
    generators = GlobalGenerators()
    try:
        _run(vec, inputs, recording, generators)
    except CallFailed as failure:
        recording.problems["call"] = str(failure)
    recording.global_draws = generators.drawn
    if recording.shown:
        recording.draws_shared = _draws_shared(inputs, recording.shown)
    return recording


def _run(vec: VecEnv[Any, Any], inputs: Inputs, recording: Recording, generators: GlobalGenerators) -> None:
    problems = recording.problems
    kept: list[Call] = []
    for call in calls(vec, inputs.seeds, inputs.actions):
        generators.look(call.where)
        wrong_layout = list(check_layout(vec, call.where, call.result))
        for number, problem in enumerate(wrong_layout):
            problems[f"layout {number}"] = problem
        if wrong_layout:
            return
        for kind, problem in check_values(vec, call.where, call.result):
            problems.setdefault(kind, problem)
        _check_actions(call, inputs, len(kept), problems)
        if call.masks is not None:
            _check_masks(vec, call, problems)
        if kept:
            _check_kept(vec, kept[-1], recording.shown[-1], call.where, problems)
        recording.shown.append(copy_shown(vec, call))
        kept.append(call)
    for call, shown in zip(kept, recording.shown, strict=True):
        _check_kept(vec, call, shown, "the last step", problems)
    recording.completed = True


def _check_actions(call: Call, inputs: Inputs, number: int, problems: dict[str, str]) -> None:
    """Whether the market has left the caller's actions alone."""
    if call.actions is None:
        return
    given = dict(layout.named_parts(inputs.actions[number - 1], "actions"))
    for name, part in layout.named_parts(call.actions, "actions"):
        if not same(part, given[name]):
            rows = [row for row in range(len(part)) if not same(part[row], given[name][row])]
            change = Difference(f"{call.where}: {name}[{rows[0]}]", rows[0], given[name][rows[0]], part[rows[0]])
            problems.setdefault("actions", change.problem(" to stay as the caller gave it"))


def _check_masks(vec: VecEnv[Any, Any], call: Call, problems: dict[str, str]) -> None:
    """Whether masks are of int8, and leave every sub-env that acts something to do."""
    for name, part in layout.named_parts(call.masks, f"{call.where}: {MASKS}"):
        if part.dtype != np.int8:
            problems.setdefault("masks", f"{name}: expected arrays of dtype int8, got {part.dtype}")
    idle = np.flatnonzero(~rows_with_any(vec.action_space, vec.num_envs, call.masks) & ~vec.frozen)
    if idle.size:
        row = int(idle[0])
        mask = show(next(iter(layout.iterate(mask_space(vec.action_space), layout.take(call.masks, idle[:1])))))
        expected = "expected at least one action to be left"
        problems.setdefault("masks", f"{call.where}: {MASKS}[{row}]: {expected}, got {mask} (sub-env {row})")


def _check_kept(vec: VecEnv[Any, Any], call: Call, shown: Shown, now: str, problems: dict[str, str]) -> None:
    """Whether what a call returned is still what it was."""
    again = copy_shown(vec, call)
    changes = [
        Difference(f"{call.where}: infos[{row}]", row, info, changed)
        for row, (info, changed) in enumerate(zip(shown.infos, again.infos, strict=True))
        if not same(info, changed)
    ]
    for change in filter(None, (difference_between(shown, again), *changes)):
        problems.setdefault("alias", change.problem(" to stay as it was returned", f" after {now}"))


def _draws_shared(inputs: Inputs, shown: list[Shown]) -> bool:
    """Whether the generator that a native env's sub-envs share has moved from where the seeds put it."""
    states = [each.shared_draws for each in shown]
    if states[0] is None:
        return False
    seeded = merge_seeds(inputs.seeds, len(inputs.seeds), np.random.default_rng)
    return any(state != np.random.default_rng(seeded).bit_generator.state for state in states)
