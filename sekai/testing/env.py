"""check_env: what an environment does that the contract of ``Env`` does not allow."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Coroutine, Sequence
from copy import deepcopy
from numbers import Real
from typing import Any

import numpy as np

from sekai.batching.episodes import resets_itself
from sekai.env import Env
from sekai.errors import ResetRequired
from sekai.results import ResetResult, StepResult
from sekai.spaces import Space
from sekai.spaces.space import name_instead
from sekai.testing.actions import draw_actions
from sekai.testing.values import describe, holds_lists, name_error, same

_SPACES = ("observation_space", "action_space")

#: How many episodes have to be alike before an env is said to begin its random stream again and again.
_ALIKE = 8


def check_env(
    env: Env[Any, Any],
    *,
    n_steps: int = 100,
    seed: int = 0,
    check_determinism: bool = True,
    check_async: bool = True,
) -> list[str]:
    """Find out what an env does that the contract of ``Env`` does not allow.

    The env is stepped with random actions, of those that its ``action_mask()`` allows, several times from
    ``reset(seed=...)`` on, once of these through its async methods on an event loop of their own, and is neither
    closed nor left in any particular state. Infos are not compared between runs, since they may hold times. Where
    nothing else is wrong, a snapshot is taken on the way, and what follows a ``restore()`` is held against what
    followed before.

    A ``NormalizeObservation`` or ``NormalizeReward`` around the env learns from every run, so that no run
    repeats another, which is reported. Check the env inside it, or set ``update_running_mean = False`` first.

    Args:
        env: The env.
        n_steps: Steps of each run; episodes that end in between are followed by a ``reset()``.
        seed: Seeds the env and the actions.
        check_determinism: Whether runs and what follows snapshots are compared; not for an env that shows something
            else each time, such as a live feed.
        check_async: Whether the async methods are run.

    Returns:
        The problems found, each a sentence that says where, what was expected and what came; a problem that
        comes up at several steps is told once. What begins with "hint: " is no problem: that the env cannot be
        kept in a snapshot, and why, or that the name of a method is nearly one that is looked for. Empty when there
        is nothing to tell.
    """
    if not isinstance(env, Env):
        return [f"expected an Env, got {describe(env)}{_remedy(env)}"]
    problems = _check_spaces(env)
    if problems:
        return problems
    actions = draw_actions(env, n_steps, seed)
    spaces = {name: deepcopy(getattr(env, name)) for name in _SPACES}
    numpy_state, python_state = pickle.dumps(np.random.get_state()), random.getstate()
    first = _Run(env, spaces, actions, seed)
    if check_determinism:
        again = _Run(env, spaces, actions, seed)
        other = _Run(env, spaces, actions, seed + 1)
    problems = list(first.problems.values())
    if pickle.dumps(np.random.get_state()) != numpy_state or random.getstate() != python_state:
        problems.append("expected every random draw to come from env.rng, got draws from a global generator")
    if not first.completed:
        return problems
    if not check_determinism:
        if check_async:
            run = _run_async(env, spaces, actions, seed)
            problems += [f"async_reset() and async_step(): {problem}" for problem in run.new_problems(first)]
            if not run.completed:
                return problems
        return problems + _check_step_after_end(env, actions, seed)
    difference = again.difference(first)
    if difference:
        problems.append(
            f"reset(seed={seed}): expected the same seed and actions to give the same run, got: {difference}"
        )
    if not again.completed:
        return problems
    if env.has_action_mask and not difference:
        difference = _Run(env, spaces, first.actions, seed).difference(first)
        if difference:
            problems.append(f"expected the same run whether or not action_mask() is called, got: {difference}")
    if not other.completed:
        return problems + [f"with seed {seed + 1}: {problem}" for problem in other.problems.values()]
    if not other.seeded and not again.differs_from(other):
        problems.append(
            f"reset(seed={seed + 1}): expected the seed to reach _set_rng(), got rng_seed {env.rng_seed!r} "
            f"and the same run as with seed {seed}"
        )
    if not other.seeded:
        problems += _check_own_stream(env, actions, seed)
    if check_async and not difference:
        run = _run_async(env, spaces, actions, seed)
        difference = run.difference(first)
        if difference:
            problems.append(
                "async_reset() and async_step(): expected the same run as through reset() and step(), "
                f"got: {difference}"
            )
        if not run.completed:
            return problems
    problems += _check_step_after_end(env, actions, seed)
    if problems:
        return problems
    from sekai.testing.env_restoring import check_env_restoring  # here, to keep `import sekai` quick
    from sekai.testing.unread import unread_hints

    hints = [f"hint: {hint}" for hint in unread_hints(env.unwrapped)]
    return check_env_restoring(env, actions, seed, first.outcomes) + hints


def _remedy(wrong: Any) -> str:
    """What to do about what is no Env."""
    from sekai.vector import VecEnv  # here, to keep `import sekai` quick

    kind = wrong if isinstance(wrong, type) else type(wrong)
    if issubclass(kind, VecEnv):
        factory = kind.__name__ if isinstance(wrong, type) else "factory"
        return f"; check_vec_env({factory}) is for environments that are a VecEnv"
    return f"; check_env({kind.__name__}()) takes an object" if issubclass(kind, Env) else ""


def _check_spaces(env: Env[Any, Any]) -> list[str]:
    problems = []
    for name in _SPACES:
        space = getattr(env, name, None)
        if not isinstance(space, Space):
            problems.append(f"{name}: expected a Space, got {name_instead(space, describe(space))}")
            continue
        try:
            copied = pickle.loads(pickle.dumps(space))
        except Exception as error:
            problems.append(f"{name}: expected a space that can be pickled, got {name_error(error)}")
            continue
        if copied != space:
            problems.append(f"{name}: expected a pickled copy to equal {space!r}, got {copied!r}")
    return problems


class _Run:
    """One run of an env from a seed on, and the problems that show within it.

    Attributes:
        actions: What each step took.
        outcomes: Per reset and step a copy of everything but the info.
        seeded: Whether the first reset left the seed in the env's ``_rng_seed``.
        problems: The first problem of each kind.
        completed: Whether the run went to its end.

    Args:
        env: The env.
        spaces: Its two spaces by name, as they have to stay.
        actions: One for every step.
        seed: Of the first reset.
        finish: Runs the coroutines of the env's async methods; None for a run through the sync ones.
    """

    def __init__(
        self,
        env: Env[Any, Any],
        spaces: dict[str, Space[Any]],
        actions: Sequence[Any],
        seed: int,
        finish: Callable[[Coroutine[Any, Any, Any]], Any] | None = None,
    ) -> None:
        self.env = env
        self.spaces = spaces
        self.finish = finish
        self.actions: list[Any] = []
        self.outcomes: list[tuple[Any, ...]] = []
        self.problems: dict[str, str] = {}
        self.seeded = False
        self.completed = False
        self._shown: Any = None  # the last observation, as the env returned it
        self._stream: Any = None  # the env's generator since the last seed
        where = f"reset(seed={seed})"
        try:
            if not self._reset(where, seed):
                return
            self.seeded = env.rng_seed == seed
            for i in range(len(actions)):
                where = f"the action of step {i + 1}"  # which may be one that the env's mask allows
                action = actions[i]
                self.actions.append(action)
                where = f"step {i + 1}"
                ended = self._step(where, action)
                if ended is None:
                    return
                where = f"reset() after step {i + 1}"
                if ended and not self._reset(where, None):
                    return
            where = "reset() at the end"  # an episode may last longer than the run
            if not self._reset(where, None):
                return
        except Exception as error:
            self._add("error", f"{where}: expected a result, got {name_error(error)}")
            return
        self.completed = True

    def difference(self, expected: _Run) -> str:
        """How this run fails to repeat one that was completed, as text; empty if it does not."""
        return self.differs_from(expected) or "; ".join(self.new_problems(expected))

    def new_problems(self, other: _Run) -> list[str]:
        """The problems of kinds that did not show in another run."""
        return [problem for kind, problem in self.problems.items() if kind not in other.problems]

    def differs_from(self, other: _Run) -> str:
        """Where two runs part, as text; empty if they do not."""
        for i, (mine, others) in enumerate(zip(self.outcomes, other.outcomes, strict=False)):
            if not same(mine, others):
                return f"result {i} is {describe(mine)} in one run and {describe(others)} in the other"
        return ""

    def _reset(self, where: str, seed: int | None) -> bool:
        env = self.env
        result = env.reset(seed=seed) if self.finish is None else self.finish(env.async_reset(seed=seed))
        if seed is not None:
            self._stream = env._rng
        self._check_kept(where)
        self._check_alias(where)
        if not isinstance(result, ResetResult):
            self._add("result", f"{where}: expected a ResetResult, got {describe(result)}")
            return False
        self._check_observation(where, result.observation)
        self._check_info(where, result.info)
        self._keep(result.observation)
        return True

    def _step(self, where: str, action: Any) -> bool | None:
        """Whether the episode is to be followed by a reset; None when the run cannot go on."""
        given = deepcopy(action)
        result = self.env.step(given) if self.finish is None else self.finish(self.env.async_step(given))
        self._check_kept(where)
        if not same(given, action):
            self._add(
                "action",
                f"{where}: expected the action to stay {describe(action)}, got it changed to {describe(given)}",
            )
        self._check_alias(where)
        if not isinstance(result, StepResult):
            self._add("result", f"{where}: expected a StepResult, got {describe(result)}")
            return None
        self._check_observation(where, result.observation)
        self._check_info(where, result.info)
        reward = result.reward
        if not isinstance(reward, Real) or isinstance(reward, (bool, np.bool_)) or not np.isfinite(reward):
            self._add("reward", f"{where}: expected a finite real number as reward, got {describe(reward)}")
        for name in ("terminated", "truncated"):
            flag = getattr(result, name)
            if not isinstance(flag, (bool, np.bool_)):
                self._add(name, f"{where}: expected a bool as {name}, got {describe(flag)}")
        self._keep(result.observation, reward, result.terminated, result.truncated)
        return bool(result.done) and not _resets_itself(result)

    def _check_kept(self, where: str) -> None:
        """Check what neither a step nor a reset without a seed may replace: the spaces and the generator."""
        for name, expected in self.spaces.items():
            space = getattr(self.env, name)
            if space != expected:
                self._add(name, f"{where}: expected {name} to stay {expected!r}, got {space!r}")
        if self._stream is None:  # no draw so far
            self._stream = self.env._rng
        elif self.env._rng is not self._stream:
            self._stream = self.env._rng
            self._add("stream", f"{where}: expected the random stream to go on without a seed, got a new generator")

    def _keep(self, observation: Any, *others: Any) -> None:
        self._shown = observation
        self.outcomes.append((deepcopy(observation), *others))

    def _check_alias(self, where: str) -> None:
        if self.outcomes and not same(self._shown, self.outcomes[-1][0]):
            self._add(
                "alias",
                f"{where}: expected the observation returned before to stay as it was, got it changed from "
                f"{describe(self.outcomes[-1][0])} to {describe(self._shown)}",
            )

    def _check_observation(self, where: str, observation: Any) -> None:
        space = self.spaces["observation_space"]
        if not space.contains(observation):
            self._add("observation", f"{where}: expected an observation in {space!r}, got {describe(observation)}")
        elif holds_lists(space, observation):
            self._add("observation", f"{where}: expected an observation of arrays, got {describe(observation)}")

    def _check_info(self, where: str, info: Any) -> None:
        if not isinstance(info, dict):
            self._add("info", f"{where}: expected a dict as info, got {describe(info)}")
        elif not all(isinstance(key, str) for key in info):
            keys = [key for key in info if not isinstance(key, str)]
            self._add("info", f"{where}: expected info keys that are strings, got {keys}")

    def _add(self, kind: str, problem: str) -> None:
        self.problems.setdefault(kind, problem)


def _run_async(env: Env[Any, Any], spaces: dict[str, Space[Any]], actions: Sequence[Any], seed: int) -> _Run:
    """A run through ``async_reset()`` and ``async_step()``."""
    import asyncio  # here, to keep `import sekai` quick
    from threading import Thread

    def run() -> None:
        loop = asyncio.new_event_loop()
        try:
            runs.append(_Run(env, spaces, actions, seed, loop.run_until_complete))
        finally:
            loop.close()

    runs: list[_Run] = []
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run()
    else:  # a thread can run one loop only, and a notebook's does so already
        thread = Thread(target=run)
        thread.start()
        thread.join()
    return runs[0]


def _check_own_stream(env: Env[Any, Any], actions: Sequence[Any], seed: int) -> list[str]:
    """Find out whether a stream other than ``env.rng`` begins again with every ``reset()``.

    Only episodes tell. If all of some seeds give episodes of their own, those that go on from one seed
    should not all be alike.
    """
    try:
        seeded = [_episode(env, actions, seed + i) for i in range(_ALIKE)]
        if any(same(episode, seeded[0]) for episode in seeded[1:]):
            return []
        first = _episode(env, actions, None)
        alike = all(same(_episode(env, actions, None), first) for _ in range(_ALIKE - 1))
    except Exception as error:
        return [f"a further run: expected no error, got {name_error(error)}"]
    return ["reset() without a seed: expected the random stream to go on, got the same episode each time"] * alike


def _episode(env: Env[Any, Any], actions: Sequence[Any], seed: int | None) -> list[Any]:
    """What an episode shows, up to its end or that of the actions."""
    shown = [deepcopy(env.reset(seed=seed).observation)]
    for action in actions:
        result = env.step(deepcopy(action))
        shown.append((deepcopy(result.observation), result.reward))
        if result.done:
            break
    return shown


def _check_step_after_end(env: Env[Any, Any], actions: Sequence[Any], seed: int) -> list[str]:
    """Step once past the end of an episode, if one ends: a result or ``ResetRequired``, nothing else.

    An env with a mask may refuse what the mask leaves out, which may be everything then.
    """
    if env.has_action_mask:
        return []
    where, expected = "a further run", "no error"
    try:
        env.reset(seed=seed)
        for action in actions:
            result = env.step(deepcopy(action))
            if result.done and not _resets_itself(result):
                where, expected = "step() after the end of an episode", "a StepResult or ResetRequired"
                result = env.step(deepcopy(action))
                if not isinstance(result, StepResult):
                    return [f"{where}: expected {expected}, got {describe(result)}"]
                break
    except ResetRequired:
        return []
    except Exception as error:
        return [f"{where}: expected {expected}, got {name_error(error)}"]
    return []


def _resets_itself(result: StepResult[Any]) -> bool:
    return isinstance(result.info, dict) and resets_itself(result.info)
