"""Whether a row depends on anything but its own seed and actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.testing.native import check_partial_resets
from sekai.testing.reference import ReferenceRun
from sekai.testing.shown import play


def check_independence(reference: ReferenceRun) -> list[str]:
    """The first dependence that shows: a fault that makes rows depend on each other shows in most of these checks."""
    for check in (check_partial_resets, _check_other_actions, _check_other_seeds, _check_alone):
        problems = check(reference)
        if problems:
            return problems
    return []


def _check_other_actions(reference: ReferenceRun) -> list[str]:
    """Let all rows but one act otherwise."""
    inputs = reference.inputs
    if inputs.refused:
        return []
    with reference.factory.open(reference.num_envs) as vec:
        for row in range(reference.num_envs):
            actions = [_mix(other, own, row) for own, other in zip(inputs.actions, inputs.other_actions, strict=True)]
            difference = reference.difference(play(vec, inputs.seeds, actions), [row])
            if difference is not None:
                return [difference.problem(" whatever the other sub-envs do", " when they act otherwise")]
    return []


def _mix(others: Any, own: Any, row: int) -> Any:
    """A batch of actions of which one row is taken from another batch."""
    batch = layout.copy_batch(others)
    layout.put(batch, slice(row, row + 1), layout.take(own, np.array([row])))
    return batch


def _check_other_seeds(reference: ReferenceRun) -> list[str]:
    """Give one row another seed: none of the others may notice."""
    inputs = reference.inputs
    if inputs.refused:
        return []
    with reference.factory.open(reference.num_envs) as vec:
        for neighbour in range(reference.num_envs):
            others = [row for row in range(reference.num_envs) if row != neighbour]
            seeds = [seed + (row == neighbour) for row, seed in enumerate(inputs.seeds)]
            difference = reference.difference(play(vec, seeds, inputs.actions), others)
            if difference is not None:
                return [difference.problem(f" whatever the seed of sub-env {neighbour}", " with another one")]
    return []


def _check_alone(reference: ReferenceRun) -> list[str]:
    """Play each row in a VecEnv of its own."""
    inputs = reference.inputs
    with reference.factory.open(1) as vec:
        for row in range(reference.num_envs):
            actions = [layout.take(batch, np.array([row])) for batch in inputs.actions]
            difference = reference.difference(play(vec, [inputs.seeds[row]], actions), [row], [0])
            if difference is not None:
                alone = replace(difference, expected=difference.got, got=difference.expected)
                because = ", as in a VecEnv of 1 with this seed and these actions"
                return [alone.problem(because, f" in one of {reference.num_envs}")]
    return []
