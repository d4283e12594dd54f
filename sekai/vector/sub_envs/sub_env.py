"""Sub-envs that are Env objects: one row each of the batch, and what every backend made of rows shares."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.batching.episodes import RowEpisode
from sekai.batching.infos import copy_info
from sekai.batching.masks import batch_of_masks
from sekai.checks import did_you_mean
from sekai.env import Env, Wrapper
from sekai.errors import ResetRequired, SpaceMismatch
from sekai.results import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.snapshots.agreement import dumps
from sekai.snapshots.attributes import is_of_kit
from sekai.spaces import Space
from sekai.types import InfoDict, OptionsType, SeedType

if TYPE_CHECKING:
    from sekai.vector.base import VecEnv

_ResultT = TypeVar("_ResultT", StepResult[Any], ResetResult[Any])

EnvFn = Callable[[], Env[Any, Any]]


class SubEnv:
    """One Env and its episode: what a backend steps, in this process or in a worker.

    Args:
        env: The sub-env.
        index: Its index in the batch, which errors name.
        autoreset: Whether it is reset when its episode ends.
        autoreset_options: The options of those resets.
    """

    __slots__ = ("env", "index", "running", "_autoreset_options", "_episode")

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
        self.running = False

    @property
    def frozen(self) -> bool:
        """Whether the sub-env has finished and waits for a reset."""
        return self._episode.frozen

    def reset(self, seed: SeedType, options: OptionsType) -> ResetResult[Any]:
        """Reset the sub-env."""
        self.running = False
        result = self._expect(ResetResult, self.env.reset(seed=seed, options=options))
        self.running = True
        self._episode.begin()
        return result

    async def async_reset(self, seed: SeedType, options: OptionsType) -> ResetResult[Any]:
        """As ``reset()``, through the sub-env's ``async_reset()``."""
        self.running = False
        result = self._expect(ResetResult, await self.env.async_reset(seed=seed, options=options))
        self.running = True
        self._episode.begin()
        return result

    def step(self, action: Any) -> StepResult[Any]:
        """Step the sub-env, and reset it if its episode ended; a frozen one only repeats itself."""
        return self.take_in(self.env.step(action)) if self.running else self.stand_still()

    def take_in(self, result: StepResult[Any]) -> StepResult[Any]:
        """What the sub-env shows after a step that gave this result."""
        if result.__class__ is not StepResult:
            self._expect(StepResult, result)
        if not (result.terminated or result.truncated):
            return result
        self.running = False  # until what an end asks for is through
        _check_info(result.info, self.index)
        if self._episode.end(result):
            restart = self._expect(ResetResult, self.env.reset(options=self.restart_options()))
            _check_info(restart.info, self.index)
            self._episode.restart(restart.observation, restart.info)
        self.running = not self._episode.frozen
        return self._episode.outcome

    async def async_step(self, action: Any) -> StepResult[Any]:
        """As ``step()``, through the sub-env's ``async_step()`` and ``async_reset()``."""
        if not self.running:
            return self.stand_still()
        result = self._expect(StepResult, await self.env.async_step(action))
        if not (result.terminated or result.truncated):
            return result
        self.running = False  # until what an end asks for is through
        _check_info(result.info, self.index)
        if self._episode.end(result):
            restart = self._expect(ResetResult, await self.env.async_reset(options=self.restart_options()))
            _check_info(restart.info, self.index)
            self._episode.restart(restart.observation, restart.info)
        self.running = not self._episode.frozen
        return self._episode.outcome

    def keep(self) -> bytes:
        """The state of the sub-env and of its episode."""
        episode = self._episode
        outcome = episode.outcome if episode.frozen else None
        return dumps((self.env.snapshot(), self.running, episode.frozen, outcome), f"sub-env {self.index}: snapshot()")

    def put_back(self, kept: bytes) -> Callable[[], None]:
        """Look at what ``keep()`` gave, of this or another sub-env, and return what restores it.

        Raises:
            ValueError: It cannot be read, or is of another env; nothing has changed.
        """
        where = f"restore(snapshot), sub-env {self.index}"
        try:
            snapshot, running, frozen, outcome = pickle.loads(kept)
        except Exception as error:
            raise ValueError(f"{where}: expected what snapshot() gave, got what cannot be read: {error}") from error
        if frozen and self._episode.autoreset:
            raise ValueError(f"{where}: expected one that is not frozen, since autoreset leaves none so")
        restore = self.env._restorer(snapshot)

        def commit() -> None:
            restore()
            self.running, self._episode.frozen = running, frozen
            if frozen:
                self._episode.outcome = outcome

        return commit

    @property
    def may_refuse(self) -> bool:
        """Whether an env or a wrapper restores by itself, and may raise when it is about to."""
        return any(not is_of_kit(type(layer).restore) for layer in self.env._snapshot_layers)

    @property
    def has_state(self) -> bool:
        """Whether it is in an episode, or has ended one: else it has to be reset in any case."""
        return self.running or self._episode.frozen

    @property
    def kind(self) -> str:
        """The classes of the env and the wrappers around it, from the outside in."""
        layers = self.env if isinstance(self.env, Wrapper) else [self.env]
        return " ".join(f"{type(layer).__module__}.{type(layer).__qualname__}" for layer in layers)

    def call(self, method: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a method of the sub-env, or read an attribute, found through its wrapper stack."""
        value = self.env.get_attr(method)
        if callable(value):
            return value(*args, **kwargs)
        if args or kwargs:
            raise TypeError(f"call({method!r}): it is no method of {self.env}, but arguments were given")
        return value

    def stand_still(self) -> StepResult[Any]:
        """What a frozen sub-env shows; ResetRequired if it is between two episodes."""
        if not self._episode.frozen:
            raise ResetRequired(f"sub-env {self.index}: no reset has worked since its last episode; call reset()")
        return self._episode.repeat()

    def require_attr(self, name: str) -> None:
        """AttributeError if no layer of the sub-env has the attribute, with names that are near it."""
        if not self.env.has_attr(name):
            known = self.env._settable_names()
            if name in known:
                self.env.get_attr(name)  # a property that fails says why
            hint = did_you_mean(name, known)
            raise AttributeError(f"set_attr: sub-env {self.index}: {self.env} has no attribute {name!r}{hint}")

    def set_attr(self, name: str, value: Any, force: bool) -> None:
        """Change an attribute of the sub-env, or by ``force`` create it."""
        if force:
            self.env.set_attr(name, value, force=True)
        else:  # an env with a set_attr() of its own may know of nothing else
            self.env.set_attr(name, value)

    def _expect(self, kind: type[_ResultT], result: Any) -> _ResultT:
        if not isinstance(result, kind):
            raise TypeError(f"sub-env {self.index}: expected {self.env} to return a {kind.__name__}, got {result!r}")
        return result

    def restart_options(self) -> OptionsType:
        """The options with which autoreset resets it."""
        return inputs.autoreset_option(self._autoreset_options, self.index)


class RowBatch:
    """The arrays of one result while they are filled row by row.

    A row is copied the moment it is written, so that sub-envs may reuse, and even share, their arrays.

    Args:
        space: The space of one observation.
        observations: The batch of observations to write into.
        rewards: float64 (num_envs,).
        terminated: bool (num_envs,), False at first.
        truncated: bool (num_envs,), False at first.

    Attributes:
        observations: The batch of observations.
        infos: The infos that are not empty, by row.
    """

    __slots__ = ("_space", "observations", "_rewards", "_terminated", "_truncated", "infos")

    def __init__(
        self,
        space: Space[Any],
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> None:
        self._space = space
        self.observations = observations
        self._rewards = rewards
        self._terminated = terminated
        self._truncated = truncated
        self.infos: dict[int, InfoDict] = {}

    @classmethod
    def around(cls, space: Space[Any], observations: Any, num_envs: int) -> RowBatch:
        """A batch of these observations, of which results are copies, and with columns of its own."""
        terminated, truncated = np.zeros(num_envs, dtype=np.bool_), np.zeros(num_envs, dtype=np.bool_)
        return cls(space, observations, np.zeros(num_envs), terminated, truncated)

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
        info = step.info
        if info.__class__ is not dict:
            _check_info(info, row)
        if info:
            self.infos[row] = copy_info(info)
        layout.write_row(self._space, self.observations, row, step.observation)

    def step_sub_envs(
        self,
        sub_envs: Sequence[SubEnv],
        actions: Sequence[Any],
        failed: Callable[[int, BaseException], None] | None = None,
    ) -> None:
        """``write_step`` of the step of every sub-env, in order.

        For vectors it is spelled out, since the calls would take a good part of the time of a cheap sub-env.

        Args:
            sub_envs: The sub-envs.
            actions: One action each.
            failed: Told the index and the error of each one that fails, before the others go on; None lets the first
                error propagate.
        """
        memory, places = layout.vectors(self.observations) or (None, [])
        rewards, terminated, truncated, infos = self._rewards, self._terminated, self._truncated, self.infos
        for sub_env, action in zip(sub_envs, actions, strict=True):
            index = sub_env.index
            try:
                if memory is None:
                    self.write_step(index, sub_env.step(action))
                    continue
                step = sub_env.env.step(action) if sub_env.running else sub_env.stand_still()
                if step.__class__ is not StepResult or step.terminated or step.truncated:
                    if sub_env.running:
                        step = sub_env.take_in(step)
                    if step.terminated:
                        terminated[index] = True
                    if step.truncated:
                        truncated[index] = True
                reward = step.reward
                rewards[index] = reward if isinstance(reward, float) else _number(reward, index)
                info = step.info
                if info.__class__ is not dict:
                    _check_info(info, index)
                if info:
                    infos[index] = copy_info(info)
                try:
                    memory[places[index]] = step.observation
                except (TypeError, ValueError):
                    layout.write_row(self._space, self.observations, index, step.observation)
            except BaseException as error:
                if failed is None:
                    raise
                failed(index, error)

    def write_reset(self, row: int, reset: ResetResult[Any]) -> None:
        """Take in what row ``row`` shows after a reset."""
        _check_info(reset.info, row)
        if reset.info:
            self.infos[row] = copy_info(reset.info)
        layout.write_row(self._space, self.observations, row, reset.observation)

    def step_result(self) -> VecStepResult[Any]:
        """The filled batch as the result of a step."""
        infos = list_infos(self.infos, len(self._rewards))
        observations = layout.copy_batch(self.observations)
        return VecStepResult(observations, self._rewards, self._terminated, self._truncated, infos)

    def reset_result(self) -> VecResetResult[Any]:
        """The filled batch as the result of a reset."""
        return VecResetResult(layout.copy_batch(self.observations), list_infos(self.infos, len(self._rewards)))

    def rows_result(self, rows: NDArray[np.intp]) -> VecResetResult[Any]:
        """Some rows of the batch as the result of a reset of these."""
        infos = [self.infos.get(row, {}) for row in rows.tolist()]
        return VecResetResult(layout.take(self.observations, rows), infos)


def masks_of_sub_envs(vec: VecEnv[Any, Any]) -> Any:
    """The ``action_mask()`` of a VecEnv whose sub-envs are Env objects, which are asked one by one."""
    vec._require_open("action_mask()")
    if not vec.has_action_mask:
        return None
    vec._require_begun("action_mask()")
    return batch_of_masks(vec.action_space, vec.call("action_mask"), "action_mask()")


def list_infos(infos: Mapping[int, InfoDict], num_envs: int) -> list[InfoDict]:
    """One info per row, empty where there is none."""
    listed: list[InfoDict] = [{} for _ in range(num_envs)]
    for row, info in infos.items():
        listed[row] = info
    return listed


def _check_info(info: Any, row: int) -> None:
    if not isinstance(info, Mapping):
        raise TypeError(f"sub-env {row}: expected a dict as its info, got {info!r}")


def _number(reward: Any, row: int) -> float:
    if np.ndim(reward) or np.asarray(reward).dtype.kind not in "fiub":
        raise TypeError(f"sub-env {row}: expected a number as its reward, got {reward!r}")
    return float(reward)


def check_env_fns(env_fns: Sequence[EnvFn]) -> list[EnvFn]:
    """The env_fns as a list; ValueError if there is none, TypeError if one is not callable."""
    env_fns = list(env_fns)
    if not env_fns:
        raise ValueError("env_fns: expected at least one callable, got none")
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise TypeError(f"env_fns[{index}]: expected a callable that builds an Env, got {env_fn!r}")
    return env_fns


def build_sub_envs(
    env_fns: Sequence[EnvFn], autoreset: bool, autoreset_options: inputs.AutoresetOptions, start: int = 0
) -> list[SubEnv]:
    """Build every sub-env and check that they fit together.

    If anything fails, what was built is closed before the error propagates.

    Args:
        env_fns: Callables that each build one.
        autoreset: Whether a sub-env is reset when its episode ends.
        autoreset_options: The options of those resets.
        start: The index of the first one.

    Raises:
        TypeError: An env_fn gives no Env.
        ValueError: Two gave the same object.
        SpaceMismatch: The spaces of a sub-env differ from those of the first.
    """
    built: list[Env[Any, Any]] = []
    seen: dict[int, int] = {}
    try:
        for index, env_fn in enumerate(env_fns, start):
            env = env_fn()
            if not isinstance(env, Env):
                raise TypeError(f"env_fns[{index}]: expected it to build a sekai.Env, got {type(env).__name__}")
            same = id(env.unwrapped._simulated)
            if same in seen:
                raise ValueError(
                    f"env_fns[{index}] gave the same env object as env_fns[{seen[same]}]; "
                    f"each must build one of its own"
                )
            seen[same] = index
            built.append(env)
            for kind in ("observation_space", "action_space"):
                check_same_space(kind, getattr(built[0], kind), getattr(env, kind), index, start)
    except BaseException:
        close_envs(built, reraise=False)
        raise
    return [SubEnv(env, index, autoreset, autoreset_options) for index, env in enumerate(built, start)]


def check_same_space(kind: str, expected: Space[Any], got: Space[Any], index: int, first: int = 0) -> None:
    """SpaceMismatch if the space of sub-env ``index`` is not that of sub-env ``first``."""
    if got != expected:
        raise SpaceMismatch(f"sub-env {index}: expected the {kind} of sub-env {first}, {expected!r}, got {got!r}")


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
