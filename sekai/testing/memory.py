"""Whether what a market returns, or was given, is memory that its simulation still uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.results import VecStepResult
from sekai.testing.reference import ReferenceRun
from sekai.testing.shown import Call, Shown, calls, copy_shown
from sekai.vector import VecEnv


def check_writes(reference: ReferenceRun) -> list[str]:
    """Write into everything that a call returned or was given, once it is over: the run has to go on as before."""
    problem = _try_writes(reference, "what the call before returned", _everything)
    if not problem:
        return []
    named = (_try_writes(reference, name, arrays_of) for name, arrays_of in _KINDS.items())
    return [next(filter(None, named), problem)]


def _try_writes(reference: ReferenceRun, name: str, arrays_of: Callable[[Call], Iterator[Any]]) -> str:
    """What becomes of the run when these arrays are written into, as text; empty if nothing does."""
    with reference.factory.open(reference.num_envs) as vec:
        difference = reference.difference(_play_with_writes(reference, vec, arrays_of))
    return difference.problem(f" whatever the caller writes into {name}") if difference else ""


def _play_with_writes(
    reference: ReferenceRun, vec: VecEnv[Any, Any], arrays_of: Callable[[Call], Iterator[Any]]
) -> Iterator[Shown]:
    for call in calls(vec, reference.inputs.seeds, reference.inputs.actions):
        yield copy_shown(vec, call)
        for array in arrays_of(call):
            if isinstance(array, np.ndarray) and array.flags.writeable and array.ndim and array.dtype != object:
                # Other numbers, yet not senseless ones: a market may use what it shares as an index.
                array[...] = array + 1 if array.dtype.kind in "fc" else np.roll(array, 1, axis=0)


def _observations(call: Call) -> Iterator[Any]:
    return (part for _, part in layout.named_parts(call.result.observations, ""))


def _rewards_and_flags(call: Call) -> Iterator[Any]:
    if isinstance(call.result, VecStepResult):
        yield from (call.result.rewards, call.result.terminated, call.result.truncated)


def _infos(call: Call) -> Iterator[Any]:
    infos = call.result.infos
    if isinstance(infos, InfoList):
        yield from infos.columns.values()
    for row in range(len(infos)):
        for _, part in layout.named_parts(infos[row], ""):
            yield part


def _actions(call: Call) -> Iterator[Any]:
    return (part for _, part in layout.named_parts(call.actions, ""))


def _masks(call: Call) -> Iterator[Any]:
    return (part for _, part in layout.named_parts(call.masks, ""))


def _everything(call: Call) -> Iterator[Any]:
    for arrays_of in _KINDS.values():
        yield from arrays_of(call)


_KINDS = {
    "the observations of the call before": _observations,
    "the rewards and flags of the call before": _rewards_and_flags,
    "the infos of the call before": _infos,
    "the actions of the call before": _actions,
    "the masks of the call before": _masks,
}
