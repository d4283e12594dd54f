"""The hooks of a NativeVecEnv, called when its base class would not call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.buffers import Buffers
from sekai.batching.infos import FINAL_OBSERVATION, copy_columns
from sekai.testing.reference import ReferenceRun
from sekai.testing.shown import CallFailed, Shown, calls, copy_shown, difference_between
from sekai.testing.values import name_error, same, show
from sekai.vector import NativeVecEnv, VecEnv

#: Steps between two resets of some rows.
_PERIOD = 5


def check_observing(reference: ReferenceRun) -> list[str]:
    """Look twice after each call: ``_observe()`` has to show the same, and the run to go on as before."""
    with reference.factory.open(reference.num_envs) as vec:
        native = vec.unwrapped
        if not isinstance(native, NativeVecEnv):
            return []
        run = calls(vec, reference.inputs.seeds, reference.inputs.actions)
        for expected, call in zip(reference.shown, run, strict=True):
            shown = copy_shown(vec, call)
            difference = difference_between(expected, shown)
            if difference is not None:
                return [difference.problem(" however often _observe() is called", " after two calls more")]
            if shown.shared_draws != expected.shared_draws:
                return [f"{call.where}: expected _observe() to leave self.rng alone, got draws from it"]
            problem = _look_twice(native, call.where)
            if problem:
                return [problem]
    return []


def _look_twice(native: NativeVecEnv[Any, Any], where: str) -> str:
    """What two looks at the same state show otherwise, as text; empty if they agree."""
    n = native.num_envs
    some = np.arange(0, n, 2)
    first = _observe(native, where, None)
    for name, got, rows in (
        ("_observe()", _observe(native, where, None), range(n)),
        (f"_observe_rows({some.tolist()})", _observe(native, where, some), some.tolist()),
    ):
        for (path, one), (_, other) in zip(layout.named_parts(first, ""), layout.named_parts(got, ""), strict=True):
            for position, row in enumerate(rows):
                if not same(one[row], other[position]):
                    return (
                        f"{where}: {name}{path}: expected {show(one[row])}, as _observe() showed just before, "
                        f"got {show(other[position])} (sub-env {row})"
                    )
    return ""


def _observe(native: NativeVecEnv[Any, Any], where: str, rows: Any) -> Any:
    """A copy of the observations of all rows, or of some."""
    count = native.num_envs if rows is None else len(rows)
    try:
        batch = native._observe() if rows is None else native._observe_rows(rows)
        return layout.copy_batch(layout.as_batch(native.observation_space, count, batch))
    except Exception as error:
        call = "_observe()" if rows is None else f"_observe_rows({rows.tolist()})"
        raise CallFailed(
            f"{where}: {call}: expected a batch of {count} observations, got {name_error(error)}"
        ) from error


def check_left_out(reference: ReferenceRun) -> list[str]:
    """Act against the masks, which are advice: a native env takes every action of its space."""
    inputs = reference.inputs
    with reference.factory.open(reference.num_envs) as vec:
        if not (isinstance(vec.unwrapped, NativeVecEnv) and vec.has_action_mask):
            return []
        try:
            for _ in calls(vec, inputs.seeds, inputs.other_actions):
                pass
        except CallFailed as failure:
            return [f"{failure}, where masks leave actions out: a native env takes every action of its space"]
    return []


def check_early_resets(reference: ReferenceRun) -> list[str]:
    """Listen in on the hooks: ``_step()`` may not reset sub-envs whose episode it ends.

    The base class does that, once it has asked for the terminal observations.
    """
    with reference.factory.open(reference.num_envs) as vec:
        native = vec.unwrapped
        if not isinstance(native, NativeVecEnv):
            return []
        early = _listen(native)
        for call in calls(vec, reference.inputs.seeds, reference.inputs.actions):
            if early:
                row = early[0]
                where = f"{call.where}: infos[{row}]['{FINAL_OBSERVATION}']"
                return [
                    f"{where}: expected the end of the episode, got what follows it, since _step() has called "
                    f"_reset_envs() (sub-env {row})"
                ]
    return []


def _listen(native: NativeVecEnv[Any, Any]) -> list[int]:
    """A list that fills with the sub-envs that ``_step()`` both resets and declares done."""
    step, reset_envs = native._step, native._reset_envs
    reset: list[int] = []
    early: list[int] = []

    def listening_step(actions: Any) -> Any:
        reset.clear()
        outputs = step(actions)
        done = np.asarray(outputs[1], np.bool_) | np.asarray(outputs[2], np.bool_)
        early.extend(row for row in reset if done[row])
        return outputs

    def listening_reset(indices: Any, options: Any) -> None:
        reset.extend(np.asarray(indices).tolist())
        reset_envs(indices, options)

    vars(native).update(_step=listening_step, _reset_envs=listening_reset)
    return early


def check_partial_resets(reference: ReferenceRun) -> list[str]:
    """Reset half of the rows now and then: the others have to go on as before."""
    everyone = range(reference.num_envs)
    for rows in (everyone[1::2], everyone[::2]):
        others = [row for row in everyone if row not in rows]
        if not others or not rows:
            return []
        with reference.factory.open(reference.num_envs) as vec:
            native = vec.unwrapped
            if not isinstance(native, NativeVecEnv):
                return []
            difference = reference.difference(_play_with_resets(reference, vec, native, np.array(rows)), others)
        if difference is not None:
            because = ", since this sub-env has not been reset"
            return [difference.problem(because, f" after _reset_envs({list(rows)})")]
    return []


def _play_with_resets(
    reference: ReferenceRun, vec: VecEnv[Any, Any], native: NativeVecEnv[Any, Any], rows: Any
) -> Iterator[Shown]:
    for number, call in enumerate(calls(vec, reference.inputs.seeds, reference.inputs.actions)):
        yield copy_shown(vec, call)
        if number % _PERIOD == 0:
            state = native.rng.bit_generator.state
            try:
                native._reset_envs(rows, [None] * len(rows))
                where = f"_reset_infos({rows.tolist()})"
                copy_columns(native._reset_infos(rows), len(rows), where, Buffers())
            except Exception as error:
                where = f"{call.where}: _reset_envs({rows.tolist()})"
                raise CallFailed(f"{where}: expected it to reset some sub-envs, got {name_error(error)}") from error
            native.rng.bit_generator.state = state  # what others will draw from it is to stay the same
