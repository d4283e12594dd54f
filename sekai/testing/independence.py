"""Whether a row depends on anything but its own seed and actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.testing.native import check_partial_resets
from sekai.testing.outcomes import play
from sekai.testing.trial import Trial


def check_independence(trial: Trial) -> list[str]:
    """The first dependence that shows: a fault that makes rows depend on each other shows in most of these checks."""
    for check in (check_partial_resets, _check_other_actions, _check_other_seeds, _check_alone):
        problems = check(trial)
        if problems:
            return problems
    return []


def _check_other_actions(trial: Trial) -> list[str]:
    """Let all rows but one act otherwise."""
    drive = trial.drive
    with trial.market.open(trial.num_envs) as vec:
        for row in range(trial.num_envs):
            actions = [_mix(other, own, row) for own, other in zip(drive.actions, drive.other_actions, strict=True)]
            difference = trial.difference(play(vec, drive.seeds, actions), [row])
            if difference is not None:
                return [difference.problem(" whatever the other sub-envs do", " when they act otherwise")]
    return []


def _mix(others: Any, own: Any, row: int) -> Any:
    """A batch of actions of which one row is taken from another batch."""
    batch = layout.copy_batch(others)
    layout.put(batch, slice(row, row + 1), layout.take(own, np.array([row])))
    return batch


def _check_other_seeds(trial: Trial) -> list[str]:
    """Give one row another seed: none of the others may notice."""
    drive = trial.drive
    with trial.market.open(trial.num_envs) as vec:
        for neighbour in range(trial.num_envs):
            others = [row for row in range(trial.num_envs) if row != neighbour]
            seeds = [seed + (row == neighbour) for row, seed in enumerate(drive.seeds)]
            difference = trial.difference(play(vec, seeds, drive.actions), others)
            if difference is not None:
                return [difference.problem(f" whatever the seed of sub-env {neighbour}", " with another one")]
    return []


def _check_alone(trial: Trial) -> list[str]:
    """Play each row in a VecEnv of its own."""
    drive = trial.drive
    with trial.market.open(1) as vec:
        for row in range(trial.num_envs):
            actions = [layout.take(batch, np.array([row])) for batch in drive.actions]
            difference = trial.difference(play(vec, [drive.seeds[row]], actions), [row], [0])
            if difference is not None:
                alone = replace(difference, expected=difference.got, got=difference.expected)
                because = ", as in a VecEnv of 1 with this seed and these actions"
                return [alone.problem(because, f" in one of {trial.num_envs}")]
    return []
