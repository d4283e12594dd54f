"""Observations that depend on the episode so far: its time, the observations before, or one of some steps ago."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Any, Generic

import numpy as np

from sekai.arguments import Fixed
from sekai.batching.episodes import resets_itself
from sekai.batching.frames import padding_of
from sekai.batching.infos import FINAL_OBSERVATION
from sekai.batching.layout import batch_space, concatenate, copy_row, iterate
from sekai.checks import check_count
from sekai.env import Env, ObservationWrapper
from sekai.observations import Timing
from sekai.results import ResetResult, StepResult
from sekai.spaces import zero_sample
from sekai.types import ActType


class _EpisodeObservationWrapper(ObservationWrapper[Any, ActType, Any], Generic[ActType]):
    """Shows observations that depend on what its episode has shown before.

    Where an ``AutoReset`` inside begins the next episode, the terminal observation is shown as what came next in the
    old one.
    """

    @abstractmethod
    def _first(self, obs: Any) -> Any:
        """Forget the episode before, and show the first observation of another."""

    def _transform_step(self, result: StepResult[Any]) -> StepResult[Any]:
        info = result.info
        if resets_itself(info):
            info = {**info, FINAL_OBSERVATION: self.observation(info[FINAL_OBSERVATION])}
            observation = self._first(result.observation)
        else:
            observation = self.observation(result.observation)
        return StepResult(observation, result.reward, result.terminated, result.truncated, info)

    def _transform_reset(self, result: ResetResult[Any]) -> ResetResult[Any]:
        return ResetResult(self._first(result.observation), result.info)


class TimeAwareObservation(_EpisodeObservationWrapper[ActType], Generic[ActType]):
    """Shows the number of steps of the episode so far beside each observation.

    It is added to a ``Dict`` under a key, and to a ``Tuple`` as its last part; any other observation becomes a dict of
    ``"obs"`` and ``"time"``. It is an int32 array of shape (1,), or a float32 one of a share of the limit. In a vector
    that is made of all parts it comes last, whatever the key.

    Args:
        env: An env with a limit of steps: a ``TimeLimit`` around it, or that of its spec.
        flatten: Whether all of it becomes one vector (see ``sekai.space_utils.flatten``).
        normalize_time: Whether time is shown as a share of the limit, from 0 to 1.
        dict_time_key: The key, where the observation space is a ``Dict``.

    Attributes:
        max_timesteps: The limit that there was when the env was wrapped, which the observation space tells of. Where
            it is raised later, a step beyond it is an ``InvalidObservation``.
        timesteps: Steps of the episode so far.
        flatten: As given.
        normalize_time: As given.

    Raises:
        ValueError: There is no limit, the key is taken, or what is to be flattened has no fixed length.
    """

    max_timesteps: Any = Fixed()
    flatten: Any = Fixed()
    normalize_time: Any = Fixed()

    def __init__(
        self,
        env: Env[Any, ActType],
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
    ) -> None:
        super().__init__(env)
        where = "TimeAwareObservation"
        self.max_timesteps = _limit_of(env)
        self.flatten, self.normalize_time = bool(flatten), bool(normalize_time)
        self.timesteps = 0
        self._timing = Timing(env.observation_space, self.max_timesteps, flatten, normalize_time, dict_time_key, where)
        self.observation_space = self._timing.space

    def observation(self, obs: Any) -> Any:
        """The next observation of the episode, with its time."""
        self.timesteps += 1
        return self._timed(obs)

    def _first(self, obs: Any) -> Any:
        self.timesteps = 0
        return self._timed(obs)

    def _timed(self, obs: Any) -> Any:
        batch = self._timing(concatenate(self.env.observation_space, [obs]), np.array([self.timesteps]))
        return next(iterate(self.observation_space, batch, 1))


def _limit_of(env: Env[Any, Any]) -> int:
    limit = env.get_attr("max_episode_steps") if env.has_attr("max_episode_steps") else None
    if limit is None and env.spec is not None:
        limit = env.spec.max_episode_steps
    if limit is None:
        raise ValueError(f"TimeAwareObservation: expected an env with a TimeLimit, or a limit in its spec, got {env}")
    return int(limit)


class FrameStackObservation(_EpisodeObservationWrapper[ActType], Generic[ActType]):
    """Shows the last ``stack_size`` observations, oldest first, stacked along a new first axis.

    Of a ``Dict`` or ``Tuple`` each part is stacked. With the first observation of an episode, the places before it hold
    what ``padding_type`` says.

    Args:
        env: An env whose observations have a fixed layout (no ``Sequence``).
        stack_size: How many, at least 1.
        padding_type: "reset" for copies of the first observation, "zero" for zeros (the nearest to them that lies in
            the space, see ``sekai.space_utils.zero_sample``), or an observation.

    Attributes:
        stack_size: As given.
        padding_type: As given.

    Raises:
        TypeError: ``stack_size`` is no integer, or observations have no fixed layout.
        ValueError: ``stack_size`` is below 1, or ``padding_type`` is neither a known word nor in the space.
    """

    stack_size: Any = Fixed()
    padding_type: Any = Fixed()

    def __init__(self, env: Env[Any, ActType], stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(env)
        where, space = "FrameStackObservation", env.observation_space
        self.stack_size = check_count(stack_size, f"{where}: stack_size")
        self.padding_type = padding_type
        self._padding = padding_of(space, padding_type, where)
        self.observation_space = batch_space(space, self.stack_size)
        self._frames: deque[Any] = deque(maxlen=self.stack_size)

    def observation(self, obs: Any) -> Any:
        """The stack with the next observation of the episode on top."""
        space = self.env.observation_space
        self._frames.append(copy_row(space, obs))
        return concatenate(space, self._frames)

    def _first(self, obs: Any) -> Any:
        padding = copy_row(self.env.observation_space, obs) if self._padding is None else self._padding
        self._frames.extend([padding] * self.stack_size)
        return self.observation(obs)


class DelayObservation(_EpisodeObservationWrapper[ActType], Generic[ActType]):
    """Shows each observation ``delay`` steps late, and zeros until the first one of the episode arrives.

    The zeros are those of ``sekai.space_utils.zero_sample``, which lie in the space. An episode's last observations are
    never seen.

    Args:
        env: The env to wrap.
        delay: Steps, at least 0.

    Attributes:
        delay: As given.

    Raises:
        TypeError: ``delay`` is no integer.
        ValueError: It is negative.
    """

    delay: Any = Fixed()

    def __init__(self, env: Env[Any, ActType], delay: int) -> None:
        super().__init__(env)
        self.delay = check_count(delay, "DelayObservation: delay", minimum=0)
        self._waiting: deque[Any] = deque()

    def observation(self, obs: Any) -> Any:
        """The observation of ``delay`` steps ago, now that the next one of the episode has been made."""
        space = self.env.observation_space
        self._waiting.append(copy_row(space, obs))
        return self._waiting.popleft() if len(self._waiting) > self.delay else zero_sample(space)

    def _first(self, obs: Any) -> Any:
        self._waiting.clear()
        return self.observation(obs)
