"""Observations of many that depend on the episodes so far: their time, those before, or those of some steps ago."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.arguments import Fixed
from sekai.batching import layout
from sekai.batching.episodes import ended_observations
from sekai.batching.frames import DelayLine, FrameRows, padding_of
from sekai.batching.info_list import InfoList
from sekai.batching.infos import FINAL_OBSERVATION
from sekai.checks import check_count
from sekai.observations import Timing
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots.agreement import fingerprint
from sekai.spaces import zero_sample
from sekai.types import ActType, InfoDict
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecObservationWrapper


class _VecEpisodeObservationWrapper(VecObservationWrapper[Any, ActType, Any]):
    """Shows observations that depend on what the episode of each sub-env has shown before."""

    @abstractmethod
    def _begin(self, rows: NDArray[np.intp], first: Any) -> None:
        """Forget the episodes of some sub-envs; ``observation()`` takes in their first observations next."""

    @abstractmethod
    def _first(self, rows: NDArray[np.intp], first: Any) -> Any:
        """Forget the episodes of some sub-envs, and take in and show their first observations, a batch of as many."""

    @abstractmethod
    def _last(self, rows: NDArray[np.intp], final: Any) -> Any:
        """Show the terminal observations of some sub-envs, a batch of as many; nothing changes."""

    @abstractmethod
    def _shown(self) -> Any:
        """What has been shown last, in fresh arrays; of frozen sub-envs anything."""

    def final_observation(self, obs: Any) -> Any:
        """Not there: what a terminal observation is shown as depends on the sub-env whose it is.

        Raises:
            NotImplementedError: Always.
        """
        name = f"{type(self).__name__}.final_observation()"
        raise NotImplementedError(f"{name}: expected a sub-env beside the observation, whose episode it ends")

    def _observe_now(self) -> Any:
        observations = self._shown()
        if self._held is not None:
            self._held.write(observations, self.venv.frozen)
        return observations

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        rows, finals = ended_observations(self.venv.observation_space, result)
        if rows.size:
            first = layout.take(self._taken_in(result.observations, self.num_envs), rows)
            last = self._given_out(self._last(rows, self._taken_in(finals, rows.size)), rows.size, "observation")
            self._begin(rows, first)
        observations = self._observe_step(result, frozen)
        if rows.size:
            self._show_last(result.infos, rows, last)
        elif isinstance(result.infos, InfoList):
            self._transform_finals(result.infos)  # none, but of the other space
        return VecStepResult(observations, result.rewards, result.terminated, result.truncated, result.infos)

    def _show_last(self, infos: list[InfoDict], rows: NDArray[np.intp], last: Any) -> None:
        if isinstance(infos, InfoList) and infos.has_final_observations and infos.done.size == rows.size:
            infos.replace_final_observations(self.observation_space, last)
            if infos.is_untouched:
                return
        for row, final in zip(rows.tolist(), layout.iterate(self.observation_space, last, rows.size), strict=True):
            infos[row][FINAL_OBSERVATION] = layout.copy_row(self.observation_space, final)

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        self._begin(np.arange(self.num_envs), self._taken_in(result.observations, self.num_envs))
        return super()._after_reset(result)

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        first = self._first(rows, self._taken_in(result.observations, len(rows)))
        return VecResetResult(layout.copy_batch(first), result.infos)


class VecTimeAwareObservation(_VecEpisodeObservationWrapper[ActType]):
    """Shows the number of steps of each episode so far beside its observations.

    What ``TimeAwareObservation`` is for one env, with the same spaces.

    Args:
        venv: A VecEnv with a limit of steps, the same for all sub-envs: its own, theirs, or that of its spec.
        flatten: Whether all of it becomes one vector for each sub-env (see ``sekai.space_utils.flatten``).
        normalize_time: Whether time is shown as a share of the limit, from 0 to 1.
        dict_time_key: The key, where the observation space is a ``Dict``.

    Attributes:
        max_timesteps: The limit that there was when the VecEnv was wrapped, which the observation space tells of. Where
            it is raised later, a step beyond it is an ``InvalidObservation``.
        flatten: As given.
        normalize_time: As given.

    Raises:
        ValueError: There is no limit, or there are several; the key is taken, or what is to be flattened has no fixed
            length.
    """

    max_timesteps: Any = Fixed()
    flatten: Any = Fixed()
    normalize_time: Any = Fixed()

    def __init__(
        self,
        venv: VecEnv[Any, ActType],
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
    ) -> None:
        super().__init__(venv)
        where = "VecTimeAwareObservation"
        self.max_timesteps = _limit_of(venv)
        self.flatten, self.normalize_time = bool(flatten), bool(normalize_time)
        self._timesteps: NDArray[np.int64] = np.zeros(self.num_envs, np.int64)
        self._timing = Timing(venv.observation_space, self.max_timesteps, flatten, normalize_time, dict_time_key, where)
        self.observation_space = self._timing.space

    # The space and the limit tell what it does.
    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_timing", "flatten", "normalize_time")

    @property
    def timesteps(self) -> NDArray[np.int64]:
        """int64 (num_envs,), a copy: the steps of each sub-env's episode so far."""
        return np.array(self._timesteps)

    def observation(self, obs: Any) -> Any:
        """The next batch of observations, with their times."""
        self._timesteps += 1 if self._repeated is None else ~self._repeated
        return self._timing(obs, self._timesteps, self._buffers)

    def _begin(self, rows: NDArray[np.intp], first: Any) -> None:
        self._timesteps[rows] = -1

    def _first(self, rows: NDArray[np.intp], first: Any) -> Any:
        self._timesteps[rows] = 0
        return self._timing(first, self._timesteps[rows])

    def _last(self, rows: NDArray[np.intp], final: Any) -> Any:
        return self._timing(final, self._timesteps[rows] + 1)

    def _shown(self) -> Any:
        inner = self._taken_in(self.venv._observe_now(), self.num_envs)
        return layout.copy_batch(self._timing(inner, self._timesteps))


def _limit_of(venv: VecEnv[Any, Any]) -> int:
    try:
        limits = set(venv.get_attr("max_episode_steps"))
    except AttributeError:
        limits = {None}
    if limits == {None} and venv.spec is not None:
        limits = {venv.spec.max_episode_steps}
    if None in limits or len(limits) > 1:
        got = "none" if limits == {None} else f"{sorted(map(str, limits))}"
        raise ValueError(f"VecTimeAwareObservation: expected one limit of steps for all sub-envs of {venv}, got {got}")
    return int(limits.pop())


class VecFrameStackObservation(_VecEpisodeObservationWrapper[ActType]):
    """Shows the last ``stack_size`` observations of each sub-env, oldest first, stacked along an axis after the first.

    What ``FrameStackObservation`` is for one env: a batch of arrays (N, *shape) becomes one of (N, stack_size, *shape).
    A step writes the newest observations and makes one copy of the stacks, which is the result.

    Args:
        venv: A VecEnv whose observations have a fixed layout (no ``Sequence``).
        stack_size: How many, at least 1.
        padding_type: What stands before the first observation of an episode: "reset" for copies of it, "zero" for
            zeros, or an observation.

    Attributes:
        stack_size: As given.
        padding_type: As given.

    Raises:
        TypeError: ``stack_size`` is no integer, or observations have no fixed layout.
        ValueError: ``stack_size`` is below 1, or ``padding_type`` is neither a known word nor in the space.
    """

    stack_size: Any = Fixed()
    padding_type: Any = Fixed()

    def __init__(self, venv: VecEnv[Any, ActType], stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(venv)
        where, space = "VecFrameStackObservation", venv.observation_space
        k = check_count(stack_size, f"{where}: stack_size")
        self.stack_size = k
        self.padding_type = padding_type
        padding = padding_of(space, padding_type, where)
        self._padding = None if padding is None else _constant(layout.concatenate(space, [padding]))
        self.observation_space = layout.batch_space(space, k)
        empty = layout.allocate(space, 0)
        self._frames = layout.map_parts(lambda part: FrameRows(self.num_envs, k, part.shape[1:], part.dtype), empty)

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_frames", "_padding", "padding_type")

    def _snapshot_others(self) -> dict[str, Any]:
        padding = [] if self._padding is None else layout.named_parts(self._padding, "padding")
        return {**super()._snapshot_others(), **{name: fingerprint(part, name) for name, part in padding}}

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        frames = layout.columns_of(self.observation_space, self._windows(), indices, "last frames")
        return super()._snapshot_rows(indices) | frames

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        frames = layout.batch_of(self.observation_space, rows, "last frames", len(indices))
        layout.put(self._windows(), indices, frames)
        super()._restore_rows(indices, {name: rows[name] for name in rows if not name.startswith("last frames")})

    def observation(self, obs: Any) -> Any:
        """The stacks with the next batch of observations on top."""
        return layout.map_parts(lambda part, frames: frames.push(part, self._buffers), obs, self._frames)

    def _windows(self) -> Any:
        """The stacks, live."""
        return layout.map_parts(lambda frames: frames.window, self._frames)

    def _begin(self, rows: NDArray[np.intp], first: Any) -> None:
        before = first if self._padding is None else self._padding
        layout.map_parts(lambda part, frames: frames.fill(rows, part), before, self._frames)

    def _first(self, rows: NDArray[np.intp], first: Any) -> Any:
        self._begin(rows, first)
        return layout.map_parts(lambda part, frames: frames.replace_newest(rows, part), first, self._frames)

    def _last(self, rows: NDArray[np.intp], final: Any) -> Any:
        return layout.map_parts(lambda part, frames: frames.with_next(rows, part), final, self._frames)

    def _shown(self) -> Any:
        return layout.copy_batch(self._windows())


def _constant(batch: Any) -> Any:
    """A batch that nobody will write to."""
    for _, part in layout.named_parts(batch, ""):
        part.flags.writeable = False
    return batch


class VecDelayObservation(_VecEpisodeObservationWrapper[ActType]):
    """Shows each observation ``delay`` steps late, and zeros until the first one of an episode arrives.

    What ``DelayObservation`` is for one env.

    Args:
        venv: The VecEnv to wrap.
        delay: Steps, at least 0.

    Attributes:
        delay: As given.

    Raises:
        TypeError: ``delay`` is no integer.
        ValueError: It is negative.
    """

    delay: Any = Fixed()

    def __init__(self, venv: VecEnv[Any, ActType], delay: int) -> None:
        super().__init__(venv)
        self.delay = check_count(delay, "VecDelayObservation: delay", minimum=0)
        space = venv.observation_space
        self._line = DelayLine(space, self.num_envs, self.delay, zero_sample(space))
        self._now = layout.allocate(space, self.num_envs)  # what has been shown last

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_line", "_now")

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        now = layout.columns_of(self.observation_space, self._now, indices, "delayed now")
        return super()._snapshot_rows(indices) | now | self._line.keep(indices, "delayed by")

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        self._line.put_back(indices, rows, "delayed by")
        layout.put(self._now, indices, layout.batch_of(self.observation_space, rows, "delayed now", len(indices)))
        super()._restore_rows(indices, {name: rows[name] for name in rows if not name.startswith("delayed ")})

    def observation(self, obs: Any) -> Any:
        """The batch of observations of ``delay`` steps ago, now that the next one has been made."""
        self._now = self._line.exchange(obs)
        return self._line.copy(self._now)

    def _begin(self, rows: NDArray[np.intp], first: Any) -> None:
        self._line.empty(rows)

    def _first(self, rows: NDArray[np.intp], first: Any) -> Any:
        self._line.empty(rows)
        shown = self._line.exchange_some(rows, first)
        layout.put(self._now, rows, shown)
        return shown

    def _last(self, rows: NDArray[np.intp], final: Any) -> Any:
        return self._line.oldest(rows, final)

    def _shown(self) -> Any:
        return layout.copy_batch(self._now)
