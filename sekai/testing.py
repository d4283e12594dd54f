"""The contract of an environment as a public test kit."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from copy import deepcopy
from numbers import Real
from typing import Any

import numpy as np

from sekai.batching.episodes import resets_itself
from sekai.env import Env
from sekai.errors import ResetRequired
from sekai.results import ResetResult, StepResult
from sekai.spaces import Space


def check_env(env: Env[Any, Any], *, n_steps: int = 100, seed: int = 0) -> list[str]:
    """Find out what an env does that the contract of ``Env`` does not allow.

    The env is stepped with random actions, several times from ``reset(seed=...)`` on, and is neither closed
    nor left in any particular state. Infos are not compared between runs, since they may hold times.

    Args:
        env: The env.
        n_steps: Steps of each run; episodes that end in between are followed by a ``reset()``.
        seed: Seeds the env and the actions.

    Returns:
        The problems found, each a sentence that says where, what was expected and what came; a problem that
        comes up at several steps is told once. Empty when there are none.
    """
    if not isinstance(env, Env):
        return [f"expected an Env, got {_describe(env)}"]
    problems = _check_spaces(env)
    if problems:
        return problems
    space = deepcopy(env.action_space)
    space.seed(seed)
    actions = [space.sample() for _ in range(n_steps)]

    numpy_state, python_state = pickle.dumps(np.random.get_state()), random.getstate()
    first = _Run(env, actions, seed)
    again = _Run(env, actions, seed)
    other = _Run(env, actions, seed + 1)
    problems = list(first.problems.values())
    if pickle.dumps(np.random.get_state()) != numpy_state or random.getstate() != python_state:
        problems.append("expected every random draw to come from env.rng, got draws from a global generator")
    if not first.completed:
        return problems
    problems += _compare(first, again, seed)
    if not again.completed:
        return problems
    if not other.completed:
        return problems + [f"with seed {seed + 1}: {problem}" for problem in other.problems.values()]
    if not other.seeded and not again.differs_from(other):
        problems.append(
            f"reset(seed={seed + 1}): expected the seed to reach _set_rng(), got _rng_seed {env._rng_seed!r} "
            f"and the same run as with seed {seed}"
        )
    return problems + _check_step_after_end(env, actions, seed)


def _check_spaces(env: Env[Any, Any]) -> list[str]:
    problems = []
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, Space):
            problems.append(f"{name}: expected a Space, got {_describe(space)}")
            continue
        try:
            copied = pickle.loads(pickle.dumps(space))
        except Exception as error:
            problems.append(f"{name}: expected a space that can be pickled, got {_name(error)}")
            continue
        if copied != space:
            problems.append(f"{name}: expected a pickled copy to equal {space!r}, got {copied!r}")
    return problems


class _Run:
    """One run of an env from a seed on, and the problems that show within it.

    Attributes:
        outcomes: Per reset and step a copy of everything but the info.
        seeded: Whether the first reset left the seed in the env's ``_rng_seed``.
        problems: The first problem of each kind.
        completed: Whether the run went to its end.
    """

    def __init__(self, env: Env[Any, Any], actions: Sequence[Any], seed: int) -> None:
        self.env = env
        self.outcomes: list[tuple[Any, ...]] = []
        self.problems: dict[str, str] = {}
        self.seeded = False
        self.completed = False
        self._shown: Any = None  # the last observation, as the env returned it
        where = f"reset(seed={seed})"
        try:
            if not self._reset(where, seed):
                return
            self.seeded = env._rng_seed == seed
            for i, action in enumerate(actions):
                where = f"step {i + 1}"
                ended = self._step(where, action)
                if ended is None:
                    return
                where = f"reset() after step {i + 1}"
                if ended and not self._reset(where, None):
                    return
        except Exception as error:
            self._add("error", f"{where}: expected a result, got {_name(error)}")
            return
        self.completed = True

    def differs_from(self, other: _Run) -> str:
        """Where two runs part, as text; empty if they do not."""
        for i, (mine, others) in enumerate(zip(self.outcomes, other.outcomes, strict=False)):
            if not _same(mine, others):
                return f"result {i} is {_describe(mine)} in one run and {_describe(others)} in the other"
        return ""

    def _reset(self, where: str, seed: int | None) -> bool:
        result = self.env.reset(seed=seed)
        self._check_alias(where)
        if not isinstance(result, ResetResult):
            self._add("result", f"{where}: expected a ResetResult, got {_describe(result)}")
            return False
        self._check_observation(where, result.observation)
        self._check_info(where, result.info)
        self._keep(result.observation)
        return True

    def _step(self, where: str, action: Any) -> bool | None:
        """Whether the episode is to be followed by a reset; None when the run cannot go on."""
        given = deepcopy(action)
        result = self.env.step(given)
        if not _same(given, action):
            self._add(
                "action",
                f"{where}: expected the action to stay {_describe(action)}, got it changed to {_describe(given)}",
            )
        self._check_alias(where)
        if not isinstance(result, StepResult):
            self._add("result", f"{where}: expected a StepResult, got {_describe(result)}")
            return None
        self._check_observation(where, result.observation)
        self._check_info(where, result.info)
        reward = result.reward
        if not isinstance(reward, Real) or isinstance(reward, (bool, np.bool_)) or not np.isfinite(reward):
            self._add("reward", f"{where}: expected a finite real number as reward, got {_describe(reward)}")
        for name in ("terminated", "truncated"):
            flag = getattr(result, name)
            if not isinstance(flag, (bool, np.bool_)):
                self._add(name, f"{where}: expected a bool as {name}, got {_describe(flag)}")
        self._keep(result.observation, reward, result.terminated, result.truncated)
        return bool(result.done) and not resets_itself(result.info)

    def _keep(self, observation: Any, *others: Any) -> None:
        self._shown = observation
        self.outcomes.append((deepcopy(observation), *others))

    def _check_alias(self, where: str) -> None:
        if self.outcomes and not _same(self._shown, self.outcomes[-1][0]):
            self._add(
                "alias",
                f"{where}: expected the observation returned before to stay as it was, got it changed from "
                f"{_describe(self.outcomes[-1][0])} to {_describe(self._shown)}",
            )

    def _check_observation(self, where: str, observation: Any) -> None:
        space = self.env.observation_space
        if not space.contains(observation):
            self._add(
                "observation",
                f"{where}: expected an observation in {space!r}, got {_describe(observation)}",
            )

    def _check_info(self, where: str, info: Any) -> None:
        if not isinstance(info, dict):
            self._add("info", f"{where}: expected a dict as info, got {_describe(info)}")
        elif not all(isinstance(key, str) for key in info):
            keys = [key for key in info if not isinstance(key, str)]
            self._add("info", f"{where}: expected info keys that are strings, got {keys}")

    def _add(self, kind: str, problem: str) -> None:
        self.problems.setdefault(kind, problem)


def _compare(first: _Run, again: _Run, seed: int) -> list[str]:
    difference = first.differs_from(again)
    if difference or not again.completed:
        reason = difference or "; ".join(again.problems.values())
        return [f"reset(seed={seed}): expected the same seed and actions to give the same run, got: {reason}"]
    return []


def _check_step_after_end(env: Env[Any, Any], actions: Sequence[Any], seed: int) -> list[str]:
    """Step once past the end of an episode, if one ends: a result or ``ResetRequired``, nothing else."""
    where, expected = "a further run", "no error"
    try:
        env.reset(seed=seed)
        for action in actions:
            result = env.step(deepcopy(action))
            if result.done and not resets_itself(result.info):
                where, expected = "step() after the end of an episode", "a StepResult or ResetRequired"
                result = env.step(deepcopy(action))
                if not isinstance(result, StepResult):
                    return [f"{where}: expected {expected}, got {_describe(result)}"]
                break
    except ResetRequired:
        return []
    except Exception as error:
        return [f"{where}: expected {expected}, got {_name(error)}"]
    return []


def _same(a: Any, b: Any) -> bool:
    """Deep equality in which types count and NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, (np.ndarray, np.generic, float)):
        x, y = np.asarray(a), np.asarray(b)
        return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
    return bool(a == b)


def _describe(value: Any) -> str:
    text = repr(value)
    if len(text) > 200:
        text = text[:200] + "..."
    if isinstance(value, np.ndarray):
        return f"{text} (shape {value.shape}, {value.dtype})"
    return f"{text} ({type(value).__name__})"


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
