"""Sub-envs that are Env objects: one row each of the batch, and what every backend made of rows shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.batching.episodes import RowEpisode
from sekai.batching.infos import snapshot_info
from sekai.env import Env
from sekai.errors import ResetRequired, SpaceMismatch
from sekai.results import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.spaces import Space
from sekai.types import ActType, InfoDict, ObsType, OptionsType, SeedType
from sekai.vector.base import VecEnv

_ResultT = TypeVar("_ResultT", StepResult[Any], ResetResult[Any])

EnvFn = Callable[[], Env[Any, Any]]


class EnvRow:
    """One Env and its episode: what a backend steps, in this process or in a worker.

    Args:
        env: The sub-env.
        index: Its index in the batch, which errors name.
        autoreset: Whether it is reset when its episode ends.
        autoreset_options: The options of those resets.
    """

    __slots__ = ("env", "index", "_autoreset_options", "_episode", "_running")

    def __init__(
        self,
        env: Env[Any, Any],
        index: int,
        autoreset: bool,
        autoreset_options: inputs.AutoresetOptions,
    ) -> None:
        self.env = env
        self.index = index
        self._autoreset_options = autoreset_options
        self._episode = RowEpisode(env.observation_space, index, autoreset)
        self._running = False

    @property
    def frozen(self) -> bool:
        """Whether the sub-env has finished and waits for a reset."""
        return self._episode.frozen

    def reset(self, seed: SeedType, options: OptionsType) -> ResetResult[Any]:
        """Reset the sub-env."""
        self._running = False
        result = self._expect(ResetResult, self.env.reset(seed=seed, options=options))
        self._running = True
        self._episode.begin()
        return result

    async def async_reset(self, seed: SeedType, options: OptionsType) -> ResetResult[Any]:
        """As ``reset()``, through the sub-env's ``async_reset()``."""
        self._running = False
        result = self._expect(ResetResult, await self.env.async_reset(seed=seed, options=options))
        self._running = True
        self._episode.begin()
        return result

    def step(self, action: Any) -> StepResult[Any]:
        """Step the sub-env, and reset it if its episode ended; a frozen one only repeats itself."""
        if not self._running:
            return self._stand_still()
        result = self.env.step(action)
        if result.__class__ is not StepResult:
            self._expect(StepResult, result)
        if not (result.terminated or result.truncated):
            return result
        self._running = False  # until what an end asks for is through
        if self._episode.end(result):
            restart = self._expect(ResetResult, self.env.reset(options=self._restart_options()))
            self._episode.restart(restart.observation, restart.info)
        self._running = not self._episode.frozen
        return self._episode.outcome

    async def async_step(self, action: Any) -> StepResult[Any]:
        """As ``step()``, through the sub-env's ``async_step()`` and ``async_reset()``."""
        if not self._running:
            return self._stand_still()
        result = self._expect(StepResult, await self.env.async_step(action))
        if not (result.terminated or result.truncated):
            return result
        self._running = False  # until what an end asks for is through
        if self._episode.end(result):
            restart = self._expect(ResetResult, await self.env.async_reset(options=self._restart_options()))
            self._episode.restart(restart.observation, restart.info)
        self._running = not self._episode.frozen
        return self._episode.outcome

    def call(self, method: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a method of the sub-env, or read an attribute, found through its wrapper stack."""
        value = self.env.get_attr(method)
        if callable(value):
            return value(*args, **kwargs)
        if args or kwargs:
            raise TypeError(f"call({method!r}): it is no method of {self.env}, but arguments were given")
        return value

    def _stand_still(self) -> StepResult[Any]:
        """What a frozen sub-env shows; ResetRequired if it is between two episodes."""
        if not self._episode.frozen:
            raise ResetRequired(f"sub-env {self.index}: no reset has worked since its last episode; call reset()")
        return self._episode.repeat()

    def _expect(self, kind: type[_ResultT], result: Any) -> _ResultT:
        if not isinstance(result, kind):
            raise TypeError(f"sub-env {self.index}: expected {self.env} to return a {kind.__name__}, got {result!r}")
        return result

    def _restart_options(self) -> OptionsType:
        return inputs.autoreset_option(self._autoreset_options, self.index)


class RowBatch:
    """The fresh arrays of one result, filled row by row.

    A row is copied the moment it is written, so that sub-envs may reuse, and even share, their arrays.
    """

    __slots__ = ("_space", "_observations", "_rewards", "_terminated", "_truncated", "_infos")

    def __init__(self, space: Space[Any], num_envs: int) -> None:
        self._space = space
        self._observations = layout.allocate(space, num_envs)
        self._rewards = [0.0] * num_envs
        self._terminated = np.zeros(num_envs, dtype=np.bool_)
        self._truncated = np.zeros(num_envs, dtype=np.bool_)
        self._infos: list[InfoDict] = [{} for _ in range(num_envs)]

    def write_step(self, row: int, step: StepResult[Any]) -> None:
        """Take in what row ``row`` shows after a step.

        Raises:
            InvalidObservation: The observation is another than the space's.
            TypeError: The reward is no number.
        """
        self._rewards[row] = step.reward if isinstance(step.reward, float) else _number(step.reward, row)
        if step.terminated:
            self._terminated[row] = True
        if step.truncated:
            self._truncated[row] = True
        if step.info:
            self._infos[row] = snapshot_info(step.info)
        layout.write_row(self._space, self._observations, row, step.observation)

    def step_rows(self, rows: Sequence[EnvRow], actions: Sequence[Any]) -> None:
        """``write_step`` of the step of every row, in order.

        For vectors it is spelled out, since the calls would take a good part of the time of a cheap sub-env.
        """
        vectors = layout.vectors(self._observations)
        if vectors is None:
            for row, action in zip(rows, actions, strict=True):
                self.write_step(row.index, row.step(action))
            return
        memory, places = vectors
        for row, action in zip(rows, actions, strict=True):
            index = row.index
            step = row.step(action)
            reward = step.reward
            self._rewards[index] = reward if reward.__class__ is float else _number(reward, index)
            if step.terminated:
                self._terminated[index] = True
            if step.truncated:
                self._truncated[index] = True
            if step.info:
                self._infos[index] = snapshot_info(step.info)
            try:
                memory[places[index]] = step.observation
            except (TypeError, ValueError):
                layout.write_row(self._space, self._observations, index, step.observation)

    def write_reset(self, row: int, reset: ResetResult[Any]) -> None:
        """Take in what row ``row`` shows after a reset."""
        self._infos[row] = snapshot_info(reset.info)
        layout.write_row(self._space, self._observations, row, reset.observation)

    def step_result(self) -> VecStepResult[Any]:
        """The filled batch as the result of a step."""
        rewards = np.array(self._rewards, dtype=np.float64)
        return VecStepResult(self._observations, rewards, self._terminated, self._truncated, self._infos)

    def reset_result(self) -> VecResetResult[Any]:
        """The filled batch as the result of a reset."""
        return VecResetResult(self._observations, self._infos)


def _number(reward: Any, row: int) -> float:
    if np.ndim(reward) or np.asarray(reward).dtype.kind not in "fiub":
        raise TypeError(f"sub-env {row}: expected a number as its reward, got {reward!r}")
    return float(reward)


def build_rows(env_fns: Sequence[EnvFn], autoreset: bool, autoreset_options: inputs.AutoresetOptions) -> list[EnvRow]:
    """Build every sub-env and check that they fit together.

    If anything fails, what was built is closed before the error propagates.

    Raises:
        TypeError: An env_fn is not callable or gives no Env.
        ValueError: There is no env_fn, or two gave the same object.
        SpaceMismatch: The spaces of a sub-env differ from those of sub-env 0.
    """
    env_fns = list(env_fns)
    if not env_fns:
        raise ValueError("env_fns: expected at least one callable, got none")
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise TypeError(f"env_fns[{index}]: expected a callable that builds an Env, got {env_fn!r}")
    built: list[Env[Any, Any]] = []
    seen: dict[int, int] = {}
    try:
        for index, env_fn in enumerate(env_fns):
            env = env_fn()
            if not isinstance(env, Env):
                raise TypeError(f"env_fns[{index}]: expected it to build a sekai.Env, got {type(env).__name__}")
            if id(env.unwrapped) in seen:
                raise ValueError(
                    f"env_fns[{index}] gave the same env object as env_fns[{seen[id(env.unwrapped)]}]; "
                    f"each must build one of its own"
                )
            seen[id(env.unwrapped)] = index
            built.append(env)
            _check_spaces(built[0], env, index)
    except BaseException:
        close_envs(built, reraise=False)
        raise
    return [EnvRow(env, index, autoreset, autoreset_options) for index, env in enumerate(built)]


def _check_spaces(first: Env[Any, Any], env: Env[Any, Any], index: int) -> None:
    for kind in ("observation_space", "action_space"):
        expected, got = getattr(first, kind), getattr(env, kind)
        if got != expected:
            raise SpaceMismatch(f"sub-env {index}: expected the {kind} of sub-env 0, {expected!r}, got {got!r}")


def close_envs(envs: Sequence[Env[Any, Any]], *, reraise: bool = True) -> None:
    """Close every sub-env; the first error is re-raised once all are closed, unless ``reraise`` is False."""
    first: BaseException | None = None
    for env in envs:
        try:
            env.close()
        except BaseException as error:
            first = first or error
    if first is not None and reraise:
        raise first


class RowVecEnv(VecEnv[ObsType, ActType]):
    """What the backends whose sub-envs live in this process share: everything but the order of their calls.

    Attributes:
        envs: The sub-envs.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        autoreset: bool,
        autoreset_options: inputs.AutoresetOptions,
    ) -> None:
        self.autoreset = bool(autoreset)
        self._rows = build_rows(env_fns, self.autoreset, inputs.check_autoreset_options(autoreset_options))
        self.envs: list[Env[Any, Any]] = [row.env for row in self._rows]
        self.num_envs = len(self._rows)
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self.metadata = self.envs[0].metadata

    def _step_inputs(self, actions: Any) -> list[Any]:
        """One action per row, or the reason why there is no step to take."""
        self._require_reset()
        batch = inputs.check_actions(self.action_space, self.num_envs, actions)
        # A copy, so that a sub-env may keep its action while the caller reuses the batch.
        batch = layout.copy_batch(batch)
        return list(layout.iterate(self.action_space, batch, self.num_envs))

    def _reset_inputs(self, seed: Any, options: Any) -> list[tuple[SeedType, OptionsType]]:
        """One seed and one options dict per row, or the reason why there is no reset."""
        self._require_open("reset()")
        seeds = inputs.spread_seeds(seed, self.num_envs)
        pairs = list(zip(seeds, inputs.spread_options(options, self.num_envs), strict=True))
        self._has_reset = False
        return pairs

    def _new_batch(self) -> RowBatch:
        return RowBatch(self.observation_space, self.num_envs)

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array([row.frozen for row in self._rows], dtype=np.bool_)

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method (or read an attribute) on each sub-environment, found through its wrapper stack.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call()")
        return [row.call(method, args, kwargs) for row in self._rows]

    def get_attr(self, name: str) -> list[Any]:
        """Get an attribute from each sub-environment, searching its wrapper stack.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("get_attr()")
        return [env.get_attr(name) for env in self.envs]

    def set_attr(self, name: str, values: list[Any] | Any) -> None:
        """Set an attribute on each sub-environment (one value, or a list of ``num_envs``).

        The value goes to the outermost layer of each sub-env's wrapper stack that has the attribute.

        Raises:
            AttributeError: There is no such name; nothing is added.
            ValueError: A list has another length than ``num_envs``.
        """
        self._require_open("set_attr()")
        spread = inputs.spread_values(name, values, self.num_envs)
        for env in self.envs:  # all have it, or none is changed
            if not env.has_attr(name):
                env.get_attr(name)
        for env, value in zip(self.envs, spread, strict=True):
            env.set_attr(name, value)

    def close(self) -> None:
        """Close all sub-environments; closing again does nothing.

        Every one is closed even if closing another raises; the first such error is re-raised afterwards.
        """
        if not self._closed:
            self._closed = True
            close_envs(self.envs)
