"""Batches of actions that come late, or stick."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.actions import ActionCheck
from sekai.arguments import Checked, Fixed
from sekai.batching import layout
from sekai.batching.episodes import begun_rows
from sekai.batching.frames import DelayLine
from sekai.batching.inputs import check_sticking, draw_seeds, initial_action_of
from sekai.checks import check_count
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots.agreement import fingerprint
from sekai.types import ObsType, OptionsType, SeedType
from sekai.vector.base import VecEnv
from sekai.vector.native.seeded import SeededStreams
from sekai.vector.wrappers.base import VecActionWrapper


class _VecEpisodeActionWrapper(VecActionWrapper[ObsType, Any, Any]):
    """Hands on actions that depend on those before in the episode of each sub-env."""

    def __init__(self, venv: VecEnv[ObsType, Any]) -> None:
        super().__init__(venv)
        self._check = ActionCheck(venv.action_space, self.num_envs)

    @abstractmethod
    def _begin(self, rows: NDArray[np.intp]) -> None:
        """Forget the actions before of some sub-envs."""

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        rows = begun_rows(result)
        if rows.size:
            self._begin(rows)
        return result

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        self._begin(np.arange(self.num_envs))
        return result

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        self._begin(rows)
        return result


class VecDelayAction(_VecEpisodeActionWrapper[ObsType]):
    """Hands each action on ``delay`` steps late, as ``DelayAction`` does for one env: latency.

    Until the first one of its episode arrives, a sub-env is stepped with ``initial_action``. Its zeros need not mean
    that nothing is done: where 0 of a ``Discrete(3)`` is to sell, the first steps of each episode sell. Of actions that
    are infinite or not in the action space, those of frozen sub-envs left aside, the whole batch is refused
    (``InvalidAction``) when it is given.

    Args:
        venv: The VecEnv to wrap.
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

    def __init__(self, venv: VecEnv[ObsType, Any], delay: int, *, initial_action: Any = None) -> None:
        super().__init__(venv)
        self.delay = check_count(delay, "VecDelayAction: delay", minimum=0)
        self.initial_action = initial_action_of(venv.action_space, initial_action, "VecDelayAction")
        self._line = DelayLine(venv.action_space, self.num_envs, self.delay, self.initial_action)

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("initial_action", "_check", "_line")

    def _snapshot_others(self) -> dict[str, Any]:
        initial = layout.named_parts(layout.concatenate(self.action_space, [self.initial_action]), "initial_action")
        return {**super()._snapshot_others(), **{name: fingerprint(part, name) for name, part in initial}}

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        return super()._snapshot_rows(indices) | self._line.keep(indices, "delayed by")

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        self._line.put_back(indices, rows, "delayed by")
        super()._restore_rows(indices, {name: rows[name] for name in rows if not name.startswith("delayed by")})

    def action(self, actions: Any) -> Any:
        """The batch of actions of ``delay`` steps ago, now that the next one has been chosen.

        Raises:
            ValueError: The number, shape, dtype or structure of the actions is wrong; nothing has changed.
            InvalidAction: One of them is infinite or not in the action space; nothing has changed.
        """
        return self._line.exchange(self._check.batch(actions, self._frozen_before()))

    def _begin(self, rows: NDArray[np.intp]) -> None:
        self._line.empty(rows)


class VecStickyAction(_VecEpisodeActionWrapper[ObsType]):
    """Repeats, with some probability, a sub-env's action before in place of the one that was chosen.

    What ``StickyAction`` is for one env, and the same with the same seed. Each sub-env has a stream of random numbers
    for it, beside its own, which the seed of its reset begins: what sticks depends on that and on the steps since, not
    on the other sub-envs, and the market draws what it would without. Of actions that are infinite or not in the action
    space, those of frozen sub-envs left aside, the whole batch is refused (``InvalidAction``), also where those before
    stick.

    Args:
        venv: The VecEnv to wrap.
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
        venv: VecEnv[ObsType, Any],
        repeat_action_probability: float,
        repeat_action_duration: int | tuple[int, int] = 1,
    ) -> None:
        super().__init__(venv)
        self.repeat_action_probability = repeat_action_probability
        self.repeat_action_duration_range = repeat_action_duration
        n = self.num_envs
        self._last = layout.allocate(venv.action_space, n)
        self._has_last: NDArray[np.bool_] = np.zeros(n, np.bool_)
        self._left: NDArray[np.int64] = np.zeros(n, np.int64)  # steps for which the last action goes on sticking
        self._key, self._counter = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        self._streams = SeededStreams(n)
        self._streams.live_in(self._key, self._counter)
        self._streams.get()
        # Of another one inside, also in the sub-envs, with the same seeds, the draws are others.
        inside = sum(isinstance(layer, VecStickyAction) for layer in venv._snapshot_layers)
        kinds = venv.unwrapped._snapshot_market[0].split()
        self._upper = 1 + inside + kinds.count("sekai.wrappers.action.StickyAction")

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_check", "_last", "_streams")

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        last = layout.columns_of(self.action_space, self._last, indices, "last action")
        return super()._snapshot_rows(indices) | last

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        layout.put(self._last, indices, layout.batch_of(self.action_space, rows, "last action", len(indices)))
        super()._restore_rows(indices, {name: rows[name] for name in rows if not name.startswith("last action")})

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset the wrapped VecEnv and the streams."""
        drawn = draw_seeds(seed, self.num_envs, beside=True)  # before the sub-envs draw from generators
        result = super().reset(seed=seed, options=options)
        self._streams.reseed(drawn)
        return result

    async def async_reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """``reset()``, through the wrapped VecEnv's ``async_reset()``."""
        drawn = draw_seeds(seed, self.num_envs, beside=True)
        result = await super().async_reset(seed=seed, options=options)
        self._streams.reseed(drawn)
        return result

    def _reset_some(self, rows: NDArray[np.intp], inputs: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        drawn = draw_seeds([seed for seed, _ in inputs], len(rows), beside=True)
        result = super()._reset_some(rows, inputs)
        self._streams.reseed_some(rows, drawn)
        return result

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        drawn = draw_seeds(seeds, len(rows), beside=True)
        super()._reseed(rows, seeds, whole)
        self._streams.reseed_some(rows, drawn)

    def _observe_now(self) -> Any:
        return self.venv._observe_now()

    def action(self, actions: Any) -> Any:
        """The batch of actions, with those before in the rows where they stick.

        Raises:
            ValueError: The number, shape, dtype or structure of the actions is wrong; nothing has changed.
            InvalidAction: One of them is infinite or not in the action space; nothing has changed, nothing was drawn.
        """
        from sekai.kernels.sticking import choose_stuck  # which only those need that have such a wrapper

        frozen = self._frozen_before()
        given = self._check.batch(actions, frozen)
        stuck = np.empty(self.num_envs, np.bool_)
        least, most = self.repeat_action_duration_range
        choose_stuck(
            self._key,
            self._counter,
            np.zeros(self.num_envs, np.bool_) if frozen is None else frozen,
            self._has_last,
            self._left,
            stuck,
            np.uint64(self._upper),
            self.repeat_action_probability,
            least,
            most,
        )
        rows = stuck.nonzero()[0]
        if rows.size:
            given = layout.copy_batch(given)
            layout.put(given, rows, layout.take(self._last, rows))
        layout.put(self._last, slice(None), given)
        return given

    def _begin(self, rows: NDArray[np.intp]) -> None:
        self._has_last[rows] = False
        self._left[rows] = 0
