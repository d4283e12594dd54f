"""Whether an env goes on from a snapshot as it went on when the snapshot was made."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from sekai.batching.episodes import resets_itself
from sekai.env import Env
from sekai.snapshots.agreement import dumps
from sekai.testing.restoring import CANNOT_BE_KEPT, STEPS, attributes_of, layers_of
from sekai.testing.values import describe, name_error, same


def check_env_restoring(env: Env[Any, Any], actions: Sequence[Any], seed: int, expected: Sequence[Any]) -> list[str]:
    """Take a snapshot on the way, go on, go back, and go on again.

    Args:
        env: The env.
        actions: One for every step of a run.
        seed: Of its reset.
        expected: What each reset and step of that run showed.
    """
    at = len(actions) // 2
    where = f"snapshot() after step {at}"
    try:
        env.reset(seed=seed)
        begun = 1 + len(_play(env, actions[:at]))
        try:
            kept = env.snapshot()
        except CANNOT_BE_KEPT as error:
            return [
                f"hint: {where}: expected all that decides what comes next, got {name_error(error)}; "
                "so going back to it was not seen"
            ]
        copied = pickle.loads(dumps(kept, where))
        before, later = attributes_of(layers_of(env)), actions[at : at + STEPS]
        shown = _play(env, later)
        if not same(shown, list(expected[begun : begun + len(shown)])):
            return [f"{where}: expected the env to go on as it does without, {_difference(expected[begun:], shown)}"]
        for snapshot, name in ((kept, f"restore() of step {at}"), (copied, f"restore() of step {at}, pickled")):
            where = name
            env.reset(seed=seed + 1)
            _play(env, later)
            env.restore(snapshot)
            after = attributes_of(layers_of(env))
            again = _play(env, later)
            if not same(shown, again):
                missed = sorted({key[1] for key in {*before, *after} if before.get(key) != after.get(key)})
                named = f"; not put back: {', '.join(missed)}" if missed else ""
                return [f"{where}: expected the env to go on as before, {_difference(shown, again)}{named}"]
    except Exception as error:
        return [f"{where}: expected no error, got {name_error(error)}"]
    return []


def _play(env: Env[Any, Any], actions: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What steps show, and the resets between episodes, as ``check_env`` keeps it."""
    shown: list[tuple[Any, ...]] = []
    for action in actions:
        result = env.step(deepcopy(action))
        shown.append((deepcopy(result.observation), result.reward, result.terminated, result.truncated))
        if result.done and not resets_itself(result.info):
            shown.append((deepcopy(env.reset().observation),))
    return shown


def _difference(expected: Sequence[Any], got: Sequence[Any]) -> str:
    for number, (one, other) in enumerate(zip(expected, got, strict=False), start=1):
        if not same(one, other):
            return f"got: result {number} after it is {describe(other)}, not {describe(one)}"
    return "got another number of episodes"
