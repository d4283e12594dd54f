"""What a single result of a vector environment has to be: shapes, dtypes, finite numbers, elements of the space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.batching.infos import FINAL_INFO, FINAL_OBSERVATION, RESET_INFO
from sekai.results import VecResetResult, VecStepResult
from sekai.testing.shown import Result
from sekai.testing.values import describe, show
from sekai.vector import VecEnv


def check_layout(vec: VecEnv[Any, Any], where: str, result: Result) -> Iterator[str]:
    """Problems of structure, shape and dtype, after which nothing can be said of the values."""
    n = vec.num_envs
    yield from _check_batch(layout.allocate(vec.observation_space, n), result.observations, f"{where}: observations")
    if isinstance(result, VecStepResult):
        columns = {
            "rewards": (result.rewards, np.zeros(n)),
            "terminated": (result.terminated, np.zeros(n, np.bool_)),
            "truncated": (result.truncated, np.zeros(n, np.bool_)),
        }
        for name, (got, template) in columns.items():
            yield from _check_batch(template, got, f"{where}: {name}")
    if not isinstance(result.infos, list) or len(result.infos) != n:
        got_infos = f"a list of {len(result.infos)}" if isinstance(result.infos, list) else describe(result.infos)
        yield f"{where}: infos: expected a list of {n} dicts (num_envs), got {got_infos}"
        return
    for row, info in enumerate(result.infos):
        if not isinstance(info, dict) or not all(isinstance(key, str) for key in info):
            yield f"{where}: infos[{row}]: expected a dict whose keys are strings, got {describe(info)} (sub-env {row})"
            return


def _check_batch(template: Any, got: Any, name: str) -> Iterator[str]:
    """Whether a batch is nested, shaped and typed like another one."""
    if isinstance(template, np.ndarray):
        expected = f"{template.dtype} of shape {template.shape}"
        if not isinstance(got, np.ndarray):
            yield f"{name}: expected an array, {expected}, got {describe(got)}"
        elif (got.shape, got.dtype) != (template.shape, template.dtype):
            yield f"{name}: expected {expected}, got {got.dtype} of shape {got.shape}"
    elif isinstance(template, list):
        if not isinstance(got, (list, tuple)) or len(got) != len(template):
            yield f"{name}: expected a list of {len(template)} (num_envs), got {describe(got)}"
    else:
        keys = list(template) if isinstance(template, dict) else list(range(len(template)))
        alike = isinstance(got, type(template)) and len(got) == len(template)
        if not alike or (isinstance(got, dict) and got.keys() != template.keys()):
            yield f"{name}: expected a {type(template).__name__} of {keys}, got {describe(got)}"
            return
        for key in keys:
            yield from _check_batch(template[key], got[key], f"{name}[{key!r}]")


def check_values(vec: VecEnv[Any, Any], where: str, result: Result) -> Iterator[tuple[str, str]]:
    """Problems of the values of a result whose layout is right, each with its kind."""
    for problem in (*_not_finite(result.observations, "observations"), *_outside(vec, result.observations)):
        yield "observations", f"{where}: {problem}"
    if isinstance(result, VecResetResult):
        return
    yield from (("rewards", f"{where}: {problem}") for problem in _not_finite(result.rewards, "rewards"))
    for row, info in enumerate(result.infos):
        ended = bool(result.terminated[row] or result.truncated[row])
        if ended and vec.autoreset:
            missing = [key for key in (FINAL_OBSERVATION, FINAL_INFO, RESET_INFO) if key not in info]
            if missing:
                yield (
                    "autoreset",
                    f"{where}: infos[{row}]: expected {missing} of an episode that has ended, got only the keys "
                    f"{list(info)} (sub-env {row})",
                )
            elif not vec.observation_space.contains(info[FINAL_OBSERVATION]):
                yield (
                    "observations",
                    f"{where}: infos[{row}]['{FINAL_OBSERVATION}']: expected an element of "
                    f"{show(vec.observation_space)}, got {describe(info[FINAL_OBSERVATION])} (sub-env {row})",
                )
        elif not ended and FINAL_OBSERVATION in info:
            yield (
                "autoreset",
                f"{where}: infos[{row}]: expected no '{FINAL_OBSERVATION}' of an episode that goes on (sub-env {row})",
            )


def _not_finite(batch: Any, name: str) -> Iterator[str]:
    """The first number of each array that is not finite."""
    for path, part in layout.named_parts(batch, name):
        if isinstance(part, np.ndarray) and part.dtype.kind in "fc" and not np.isfinite(part).all():
            place = tuple(np.argwhere(~np.isfinite(part))[0].tolist())
            index = ", ".join(map(str, place))
            yield f"{path}[{index}]: expected a finite number, got {part[place]} (sub-env {place[0]})"


def _outside(vec: VecEnv[Any, Any], observations: Any) -> Iterator[str]:
    """The first observation that is no element of the space."""
    if vec.batch_observation_space.contains(observations):
        return
    for row, element in enumerate(layout.iterate(vec.observation_space, observations, vec.num_envs)):
        if not vec.observation_space.contains(element):
            expected = f"expected an element of {show(vec.observation_space)}"
            yield f"observations[{row}]: {expected}, got {describe(element)} (sub-env {row})"
            return
