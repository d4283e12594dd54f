"""Actions that come late, stick, or are repeated."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Any, ClassVar, Generic

import numpy as np

from sekai.actions import ActionCheck
from sekai.arguments import Checked, Fixed
from sekai.batching.episodes import resets_itself
from sekai.batching.infos import copy_value
from sekai.batching.inputs import check_sticking, draw_seeds, initial_action_of
from sekai.checks import check_count
from sekai.env import ActionWrapper, Env, Wrapper
from sekai.results import ResetResult, StepResult
from sekai.types import ActType, ObsType, OptionsType, SeedType


class _EpisodeActionWrapper(ActionWrapper[ObsType, Any, Any], Generic[ObsType]):
    """Hands on actions that depend on those before in the episode."""

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_check",)

    def __init__(self, env: Env[ObsType, Any]) -> None:
        super().__init__(env)
        self._check = ActionCheck(env.action_space)

    @abstractmethod
    def _begin(self) -> None:
        """Forget the actions of the episode before."""

    def step(self, action: Any) -> StepResult[ObsType]:
        """Step the inner env with the action that is due."""
        return self._look(self.env.step(self.action(action)))

    async def async_step(self, action: Any) -> StepResult[ObsType]:
        """``step()``, through the inner env's ``async_step()``."""
        return self._look(await self.env.async_step(self.action(action)))

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the inner env, and forget the actions before."""
        result = self.env.reset(seed=seed, options=options)
        self._begin()
        return result

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """``reset()``, through the inner env's ``async_reset()``."""
        result = await self.env.async_reset(seed=seed, options=options)
        self._begin()
        return result

    def _look(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        if resets_itself(result.info):
            self._begin()
        return result


class DelayAction(_EpisodeActionWrapper[ObsType], Generic[ObsType]):
    """Hands each action to the env ``delay`` steps late: latency.

    Until the first one of an episode arrives, the env is stepped with ``initial_action``. Its zeros need not mean that
    nothing is done: where 0 of a ``Discrete(3)`` is to sell, the first steps of each episode sell. An action that is
    infinite or not in the action space is refused when it is chosen (``InvalidAction``), and not once it arrives.

    Args:
        env: The env to wrap.
        delay: Steps, at least 0.
        initial_action: An element of the action space; None for its zeros (see ``sekai.space_utils.zero_sample``).

    Attributes:
        delay: As given.
        initial_action: The element.

    Raises:
        TypeError: ``delay`` is no integer.
        ValueError: It is negative, or the initial action not in the action space.
    """

    delay: Any = Fixed()
    initial_action: Any = Fixed()

    def __init__(self, env: Env[ObsType, Any], delay: int, *, initial_action: Any = None) -> None:
        super().__init__(env)
        self.delay = check_count(delay, "DelayAction: delay", minimum=0)
        self.initial_action = initial_action_of(env.action_space, initial_action, "DelayAction")
        self._waiting: deque[Any] = deque()
        self._begin()

    def action(self, action: Any) -> Any:
        """The action of ``delay`` steps ago, now that the next one has been chosen.

        Raises:
            InvalidAction: That one is infinite or not in the action space; nothing has changed.
        """
        self._check.one(action, "DelayAction: step(action)")
        self._waiting.append(copy_value(action))
        return self._waiting.popleft()

    def _begin(self) -> None:
        self._waiting.clear()
        self._waiting.extend(copy_value(self.initial_action) for _ in range(self.delay))


class StickyAction(_EpisodeActionWrapper[ObsType], Generic[ObsType]):
    """Repeats, with some probability, the action before in place of the one that was chosen.

    Machado et al. (2018), "Revisiting the Arcade Learning Environment", section 5.2, where it sticks for one step; here
    it may for several. The first action of an episode is always taken. Chances come from a stream of random numbers
    beside the env's own, which the seed of a reset begins, so that the env draws what it would without. With the same
    seed the same steps stick as in a row of ``VecStickyAction``. An action that is infinite or not in the action space
    is refused (``InvalidAction``), also where the one before sticks.

    Args:
        env: The env to wrap.
        repeat_action_probability: In [0, 1): of an action sticking, in each step in which none does already.
        repeat_action_duration: For how many steps it does, or the least and the most of which one is drawn each time.

    Attributes:
        repeat_action_probability: As given; another one holds from the next step on.
        repeat_action_duration_range: The least and the most steps, likewise.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The probability is outside [0, 1), a duration outside [1, 2**31), or the least above the most.
    """

    repeat_action_probability: Any = Checked(lambda self, given: check_sticking(given, 1, type(self).__name__)[0])
    repeat_action_duration_range: Any = Checked(lambda self, given: check_sticking(0, given, type(self).__name__)[1])

    def __init__(
        self,
        env: Env[ObsType, Any],
        repeat_action_probability: float,
        repeat_action_duration: int | tuple[int, int] = 1,
    ) -> None:
        super().__init__(env)
        self.repeat_action_probability = repeat_action_probability
        self.repeat_action_duration_range = repeat_action_duration
        self._last: Any = None
        self._has_last = np.zeros(1, np.bool_)
        self._left = np.zeros(1, np.int64)  # steps for which the last action goes on sticking
        self._stuck, self._frozen = np.zeros(1, np.bool_), np.zeros(1, np.bool_)
        from sekai.kernels.streams import draw_streams

        self._key, self._counter = draw_streams(1)
        # Of another one inside, with the same seed, the draws are others.
        inside = [*env] if isinstance(env, Wrapper) else []
        self._upper = np.uint64(1 + sum(isinstance(layer, StickyAction) for layer in inside))

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the inner env, forget the actions before, and begin another stream if there is a seed."""
        drawn = _seed_beside(seed)
        result = super().reset(seed=seed, options=options)
        self._begin_stream(drawn)
        return result

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """``reset()``, through the inner env's ``async_reset()``."""
        drawn = _seed_beside(seed)
        result = await super().async_reset(seed=seed, options=options)
        self._begin_stream(drawn)
        return result

    def reseed(self, seed: SeedType) -> None:
        """Let the inner env, and what sticks, go on with other random streams."""
        drawn = _seed_beside(seed)
        super().reseed(seed)
        self._begin_stream(drawn)

    def action(self, action: Any) -> Any:
        """The action, or the one before.

        Raises:
            InvalidAction: The action is infinite or not in the action space; nothing has changed, nothing was drawn.
        """
        from sekai.kernels.sticking import choose_stuck  # which only those need that have such a wrapper

        self._check.one(action, "StickyAction: step(action)")
        least, most = self.repeat_action_duration_range
        state = self._key, self._counter, self._frozen, self._has_last, self._left, self._stuck
        choose_stuck(*state, self._upper, self.repeat_action_probability, least, most)
        if not self._stuck[0]:
            self._last = copy_value(action)
            return action
        return copy_value(self._last)

    def _begin(self) -> None:
        self._last = None
        self._has_last[:], self._left[:] = False, 0

    def _begin_stream(self, seed: int | None) -> None:
        """Begin the stream of a seed; None goes on with the one there is."""
        from sekai.kernels.streams import make_streams

        if seed is not None:
            self._key[:], self._counter[:] = make_streams([seed])


def _seed_beside(seed: SeedType) -> int | None:
    """What a seed gives a stream beside the env's own; a generator is left to the env, which has not seen it yet."""
    drawn: int | None = draw_seeds([seed], 1, beside=True)[0]
    return drawn


class RepeatAction(ActionWrapper[ObsType, ActType, ActType], Generic[ObsType, ActType]):
    """Steps the env several times with each action, and shows the last of these steps with the sum of their rewards.

    It stops at the step that ends an episode. The mask of the env inside holds for the first of the steps alone, so
    that there is none of an action that is taken several times.

    Args:
        env: The env to wrap.
        num_repeats: How many times, at least 1.

    Attributes:
        num_repeats: As given; another one holds from the next step on.

    Raises:
        TypeError: ``num_repeats`` is no integer.
        ValueError: It is below 1.
    """

    num_repeats: Any = Checked(lambda self, given: check_count(given, f"{type(self).__name__}: num_repeats"))

    def __init__(self, env: Env[ObsType, ActType], num_repeats: int) -> None:
        super().__init__(env)
        self.num_repeats = num_repeats

    def action(self, action: ActType) -> ActType:
        """The action that each of the steps takes: the one that was chosen."""
        return action

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the env up to ``num_repeats`` times."""
        action = self.action(action)
        result = self.env.step(action)
        total = float(result.reward)
        for _ in range(self.num_repeats - 1):
            if result.done:
                break
            result = self.env.step(action)
            total += float(result.reward)
        return StepResult(result.observation, total, result.terminated, result.truncated, result.info)

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the env's ``async_step()``."""
        action = self.action(action)
        result = await self.env.async_step(action)
        total = float(result.reward)
        for _ in range(self.num_repeats - 1):
            if result.done:
                break
            result = await self.env.async_step(action)
            total += float(result.reward)
        return StepResult(result.observation, total, result.terminated, result.truncated, result.info)
