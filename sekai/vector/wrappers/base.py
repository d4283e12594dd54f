"""VecWrapper and its three kinds."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.buffers import Buffers
from sekai.batching.episodes import HeldRows, keep_held, put_held_back
from sekai.batching.info_list import InfoList
from sekai.batching.infos import FINAL_OBSERVATION
from sekai.delegation import FromInner, require_no_mask
from sekai.errors import InvalidObservation
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots.agreement import differing, is_same, names_of_classes, require_columns, require_equal
from sekai.snapshots.attributes import StateByAttributes, is_of_kit, require_untouched
from sekai.snapshots.columns import spread
from sekai.snapshots.layers import join_layers, prefixes_of, split_layers
from sekai.snapshots.snapshot import Kept
from sekai.spaces import Space
from sekai.types import ActType, InfoDict, ObsType, OptionsType, SeedType, WActType, WObsType
from sekai.vector.base import VecEnv

#: The attributes that a wrapper has by the classes of this module.
_OWN_NAMES = frozenset(
    {
        *("venv", "observation_space", "action_space", "_batch_spaces", "_is_examined", "_untouched"),
    }
)

#: What the columns of what frozen sub-envs show are called: as no attribute of a subclass can be.
_HELD = "shown while frozen"


class VecWrapper(StateByAttributes, VecEnv[WObsType, WActType], Generic[WObsType, WActType, ObsType, ActType]):
    """A VecEnv around another one, which it passes everything on to; base of those that change something.

    What a subclass does not assign or write is the inner one's: the two spaces (of one sub-env, here too) and all
    public attributes, ``step()`` and ``reset()`` and their async forms, so that sub-envs that wait go on doing so
    together. ``get_attr()``, ``set_attr()`` and ``call()`` reach the sub-envs.

    Args:
        venv: The VecEnv to wrap, kept as ``.venv``.

    Raises:
        TypeError: ``venv`` is no VecEnv.
    """

    num_envs: Any = FromInner("venv")
    observation_space: Any = FromInner("venv")
    action_space: Any = FromInner("venv")
    autoreset: Any = FromInner("venv")
    metadata: Any = FromInner("venv")
    spec: Any = FromInner("venv")

    def __init__(self, venv: VecEnv[ObsType, ActType]) -> None:
        if not isinstance(venv, VecEnv):
            raise TypeError(f"{type(self).__name__}: expected a VecEnv, got {type(venv).__name__}")
        self.venv: VecEnv[Any, Any] = venv

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step the wrapped VecEnv."""
        frozen = self._frozen_before()
        return self._after_step(self.venv.step(actions), frozen)

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset the wrapped VecEnv."""
        return self._after_reset(self.venv.reset(seed=seed, options=options))

    def _reset_some(self, rows: NDArray[np.intp], inputs: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        if not self.resets_some:
            return super()._reset_some(rows, inputs)
        return self._after_reset_some(self.venv._reset_some(rows, inputs), rows)

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        return self.venv._autoreset_options_of(rows)

    @property
    def resets_some(self) -> bool:
        """Whether there is a ``reset_envs()``: not where ``reset()`` is a subclass's own, which it would pass by."""
        own = type(self)
        changes_some = not is_of_kit(own._after_reset_some)
        is_own = own.reset is not VecWrapper.reset or not (is_of_kit(own._after_reset) or changes_some)
        is_passed_by = is_own and own._reset_some is VecWrapper._reset_some
        return not is_passed_by and self.venv.resets_some

    async def async_step(self, actions: Any) -> VecStepResult[Any]:
        """Step the wrapped VecEnv through its ``async_step()``."""
        frozen = self._frozen_before()
        return self._after_step(await self.venv.async_step(actions), frozen)

    async def async_reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset the wrapped VecEnv through its ``async_reset()``."""
        return self._after_reset(await self.venv.async_reset(seed=seed, options=options))

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        """What becomes of a step's result, on the way of both APIs.

        Args:
            result: What the wrapped VecEnv returned.
            frozen: bool (num_envs,), the sub-envs that the step only repeated; None where autoreset leaves none.
        """
        return result

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        """What becomes of a reset's result, on the way of both APIs."""
        return result

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        """What becomes of the result of a reset of some rows, which has an entry for each of them."""
        return result

    # -- snapshots

    @property
    def _snapshot_layers(self) -> list[VecEnv[Any, Any]]:
        return [*self.venv._snapshot_layers, self]

    @property
    def _snapshot_market(self) -> tuple[str, ...]:
        return (*self.venv._snapshot_market, *names_of_classes(type(self)))

    def _keep_layers(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        layers = self._snapshot_layers
        return join_layers(prefixes_of(layers), [layer._snapshot_keep(rows, is_whole) for layer in layers])

    def _restorer_of_layers(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        layers = self._snapshot_layers
        parts = zip(layers, split_layers(prefixes_of(layers), kept), strict=True)
        commits = [layer._snapshot_restorer(rows, part, keep_parameters) for layer, part in parts]

        def commit() -> None:
            for each in commits:
                each()

        return commit

    def _snapshot_whole(self) -> dict[str, Any]:
        """What all sub-envs share and steps change, as data."""
        return {}

    def _restore_whole(self, whole: dict[str, Any]) -> None:
        """Take over what ``_snapshot_whole`` has given."""

    @staticmethod
    def _snapshot_base_names() -> frozenset[str]:
        """The attributes of the base classes' own."""
        return _OWN_NAMES

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        return Kept(self._snapshot_rows(rows), self._snapshot_others(), self._snapshot_whole() if is_whole else None)

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        require_columns(self._snapshot_rows(rows[:0]), kept.columns)
        if not keep_parameters:
            require_equal(self._snapshot_others(), kept.shared, f"restore(snapshot): {type(self).__name__}")
        if kept.whole is None:
            require_untouched(self, rows, kept.columns)

        def commit() -> None:
            self._restore_rows(rows, {name: spread(column, len(rows)) for name, column in kept.columns.items()})
            if kept.whole is not None:
                self._restore_whole(kept.whole)

        return commit

    def _observe_now(self) -> Any:
        """What the sub-envs show now (see ``VecEnv._observe_now``).

        Raises:
            NotImplementedError: The wrapped VecEnv does not say, or a subclass has a ``reset()`` of its own, whose
                observations may be others.
        """
        own = type(self)
        if own.reset is not VecWrapper.reset or not is_of_kit(own._after_reset):
            expected = "expected an _observe_now() beside a reset() of its own, to say what its sub-envs show now"
            raise NotImplementedError(f"{own.__name__}: {expected}")
        return self.venv._observe_now()

    def action_mask(self) -> Any:
        """Which actions make sense now in each sub-env of the wrapped VecEnv."""
        return self.venv.action_mask()

    @property
    def has_action_mask(self) -> bool:
        """Whether the wrapper or the wrapped VecEnv has masks."""
        return type(self).action_mask is not VecWrapper.action_mask or self.venv.has_action_mask

    def close(self) -> None:
        """Close the wrapped VecEnv."""
        self.venv.close()

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method, or read an attribute, of every sub-env."""
        return self.venv.call(method, *args, **kwargs)

    def call_at(self, indices: Any, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """``call()`` for some sub-envs alone."""
        return self.venv.call_at(indices, method, *args, **kwargs)

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        self.venv._reseed(rows, seeds, whole)

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        """Get an attribute from sub-envs."""
        return self.venv.get_attr(name, indices)

    def set_attr(self, name: str, values: list[Any] | Any, indices: Any = None, *, force: bool = False) -> None:
        """Set an attribute on sub-envs."""
        if force:
            self.venv.set_attr(name, values, indices, force=True)
        else:  # a class written by hand may know of nothing else
            self.venv.set_attr(name, values, indices)

    @property
    def batch_observation_space(self) -> Space[Any]:
        """The space of the observations of all sub-envs, each part with a first axis of them."""
        if self.observation_space is self.venv.observation_space:
            return self.venv.batch_observation_space
        return super().batch_observation_space

    @property
    def batch_action_space(self) -> Space[Any]:
        """The space of the actions of all sub-envs, each part with a first axis of them."""
        if self.action_space is self.venv.action_space:
            return self.venv.batch_action_space
        return super().batch_action_space

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return self.venv.frozen

    @property
    def closed(self) -> bool:
        """Whether ``close()`` has been called."""
        return self.venv.closed

    @property
    def unwrapped(self) -> VecEnv[Any, Any]:
        """The vector environment inside all vector wrappers."""
        return self.venv.unwrapped

    def _give_up_call(self) -> None:
        self.venv._give_up_call()

    def _frozen_before(self) -> NDArray[np.bool_] | None:
        """The sub-envs that the next step will only repeat; None where autoreset leaves none."""
        return None if self.venv.autoreset else self.venv.frozen

    def __getattr__(self, name: str) -> Any:
        # Private and dunder names are looked up by pickle, copy and NumPy, and `venv` itself is missing meanwhile.
        if name == "venv" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if any(name in provider.__dict__ for provider in type(self).__mro__):
            object.__getattribute__(self, name)  # a property that failed: with its own error
        return getattr(self.venv, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.venv!r}>"


class VecObservationWrapper(VecWrapper[WObsType, ActType, ObsType, ActType], ABC, Generic[WObsType, ActType, ObsType]):
    """Shows other observations than the VecEnv inside: ``observation()`` of each batch.

    Those at the end of an episode, in infos, pass through ``final_observation()``, so that a value function is
    asked about what a policy would have seen. What a frozen sub-env shows was transformed once, when its episode ended.

    What comes in is a batch of the inner observation space, and what is made of it one of the wrapper's own, which a
    subclass assigns where it is another: of its shapes, and of dtypes of the same kind, which become the space's.
    Anything else is an ``InvalidObservation`` of the step or the reset. The numbers are not looked at.
    """

    #: bool (num_envs,), the rows of the batch at hand that only repeat what was shown before; None for none.
    _repeated: NDArray[np.bool_] | None = None
    _held: HeldRows | None = None
    _no_finals: Any = None

    def __init__(self, venv: VecEnv[ObsType, ActType]) -> None:
        super().__init__(venv)
        self._buffers = Buffers()

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_buffers", "_held", "_no_finals", "_repeated")

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        columns = super()._snapshot_rows(indices)
        if not self.autoreset:
            held = HeldRows() if self._held is None else self._held
            columns |= keep_held(held, self.observation_space, indices, self.num_envs, _HELD)
        return columns

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        if not self.autoreset:
            self._held = HeldRows() if self._held is None else self._held
            put_held_back(self._held, self.observation_space, indices, rows, self.num_envs, _HELD)
            rows = {name: column for name, column in rows.items() if not name.startswith(_HELD)}
        super()._restore_rows(indices, rows)

    def _observe_now(self) -> Any:
        """What the sub-envs show now (see ``VecEnv._observe_now``): nothing is counted a second time."""
        inner = super()._observe_now()
        everyone = np.arange(self.num_envs)
        before, others = self._snapshot_rows(everyone), self._snapshot_others()
        if type(self).final_observation is VecObservationWrapper.final_observation:
            observations = layout.copy_batch(self._observe(inner, self.num_envs))
        else:
            observations = layout.copy_batch(self._observe_finals(inner, self.num_envs))
        after = self._snapshot_rows(everyone)
        is_still = all(is_same(column, after[name]) for name, column in before.items())
        if not is_still or differing(others, self._snapshot_others()):
            self._restore_rows(everyone, before)
            expected = "expected an observation() that shows the same again, got one that counts what it is given"
            raise NotImplementedError(f"{type(self).__name__}: {expected}; write _observe_now() beside it")
        if self._held is not None:
            self._held.write(observations, self.venv.frozen)
        return observations

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = {"observation", "final_observation", "_final_observations"}
        if "_final_observations" not in next(vars(kind) for kind in cls.__mro__ if names & vars(kind).keys()):
            # What a base has for whole batches does not know of these.
            cls._final_observations = VecObservationWrapper._final_observations  # type: ignore[method-assign]

    @abstractmethod
    def observation(self, obs: Any) -> Any:
        """Transform a batch of observations, arrays of shape (N, *obs_shape)."""

    def final_observation(self, obs: Any) -> Any:
        """What ``observation()`` makes of one sub-env's last observation of an episode, as a batch of one.

        For a subclass to write where that is not it: where rows of a batch are not transformed alike and one by one, or
        where something is counted that these should not count in. What was shown before a snapshot and is asked for
        after ``restore()`` passes through it likewise.
        """
        batch = layout.concatenate(self.venv.observation_space, [obs])
        return next(layout.iterate(self.observation_space, self.observation(batch), 1))

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        observations = self._observe_step(result, frozen)
        self._transform_finals(result.infos)
        return VecStepResult(observations, result.rewards, result.terminated, result.truncated, result.infos)

    def _observe_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> Any:
        """The observations of a step, transformed; frozen sub-envs show what they showed before."""
        self._repeated = frozen
        try:
            observations = layout.own_batch(self._observe(result.observations, self.num_envs), self._buffers)
        finally:
            self._repeated = None
        if frozen is not None:
            if self._held is None:
                self._held = HeldRows()
            self._held.show(observations, frozen, self.venv.frozen)
        return observations

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        if self._held is not None:
            self._held.release()
        observations = self._observe(result.observations, self.num_envs)
        return VecResetResult(layout.own_batch(observations, self._buffers), result.infos)

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        buffers, self._buffers = self._buffers, Buffers(least=sys.maxsize)  # as many sizes as there are: none is kept
        try:
            observations = layout.own_batch(self._observe(result.observations, len(rows)), self._buffers)
        finally:
            self._buffers = buffers
        return VecResetResult(observations, result.infos)

    def _observe(self, batch: Any, n: int) -> Any:
        """``observation()`` of a batch of ``n``, both in the layouts of their spaces."""
        if not layout.fits(self.venv.observation_space, n, batch):  # here already: it is the way of every step
            batch = self._taken_in(batch, n)
        shown = self.observation(batch)
        return shown if layout.fits(self.observation_space, n, shown) else self._given_out(shown, n, "observation")

    def _observe_finals(self, batch: Any, n: int) -> Any:
        """``_final_observations()`` of a batch of ``n``, likewise."""
        return self._given_out(self._final_observations(self._taken_in(batch, n), n), n, "final_observation")

    def _taken_in(self, batch: Any, n: int) -> Any:
        """A batch of ``n`` that the wrapped VecEnv shows, once it is known to be one of its space."""
        what = f"{type(self).__name__}: observations of {type(self.venv).__name__}"
        return layout.as_batch(self.venv.observation_space, n, batch, what, InvalidObservation)

    def _given_out(self, batch: Any, n: int, method: str) -> Any:
        """A batch of ``n`` that a method has made, once it is known to be one of the wrapper's space."""
        what = f"{type(self).__name__}.{method}()"
        try:
            return layout.as_batch(self.observation_space, n, batch, what, InvalidObservation)
        except InvalidObservation as error:
            remedy = "where it shows others, give it the observation_space of these"
            raise InvalidObservation(f"{error}; {remedy}") from None

    def _transform_finals(self, infos: list[InfoDict]) -> None:
        if not isinstance(infos, InfoList):
            self._transform_read(infos)
        elif infos.has_final_observations:
            if infos.done.size:
                batch = self._observe_finals(infos.final(FINAL_OBSERVATION), infos.done.size)
            else:
                if self._no_finals is None:
                    self._no_finals = layout.allocate(self.observation_space, 0)
                batch = self._no_finals  # of no rows, so that nobody can write to it
            self._replace_finals(infos, batch)

    def _replace_finals(self, infos: InfoList, batch: Any) -> None:
        """Put a batch of terminal observations, transformed, into infos; dicts that are built already get their own."""
        infos.replace_final_observations(self.observation_space, batch)
        self._transform_read(infos.read_final())

    def _transform_read(self, infos: list[InfoDict]) -> None:
        for info in infos:
            if FINAL_OBSERVATION in info:
                batch = self._given_out([self.final_observation(info[FINAL_OBSERVATION])], 1, "final_observation")
                info[FINAL_OBSERVATION] = next(layout.iterate(self.observation_space, batch, 1))

    def _final_observations(self, batch: Any, n: int) -> Any:
        """Transform a batch of ``n`` terminal observations, row by row; for transforms that can do better."""
        return [self.final_observation(row) for row in layout.iterate(self.venv.observation_space, batch, n)]


class VecRewardWrapper(VecWrapper[ObsType, ActType, ObsType, ActType], ABC, Generic[ObsType, ActType]):
    """Applies a transformation to every batch of rewards; the reward of a frozen sub-env stays 0."""

    @abstractmethod
    def reward(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Transform a batch of rewards, float64 (N,)."""

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        rewards = np.array(self.reward(result.rewards), dtype=np.float64)
        if rewards.shape != (self.num_envs,):
            raise ValueError(f"{type(self).__name__}.reward(): expected shape ({self.num_envs},), got {rewards.shape}")
        if frozen is not None:
            rewards[frozen] = 0.0
        return VecStepResult(result.observations, rewards, result.terminated, result.truncated, result.infos)


class VecActionWrapper(VecWrapper[ObsType, WActType, ObsType, ActType], ABC, Generic[ObsType, WActType, ActType]):
    """Applies a transformation to every batch of actions."""

    @abstractmethod
    def action(self, actions: Any) -> Any:
        """The batch of actions as the wrapped VecEnv takes it."""

    def action_mask(self) -> Any:
        """None, as long as the wrapped VecEnv has no masks; for a subclass to write where it has.

        Raises:
            NotImplementedError: The wrapped VecEnv has masks, which are of the actions that come out of ``action()``.
        """
        require_no_mask(self, self.venv)

    @property
    def has_action_mask(self) -> bool:
        """Whether a subclass says what the masks of the actions that it takes are."""
        return type(self).action_mask is not VecActionWrapper.action_mask

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step the wrapped VecEnv with the transformed actions."""
        return super().step(self.action(actions))

    async def async_step(self, actions: Any) -> VecStepResult[Any]:
        """``step()``, through the wrapped VecEnv's ``async_step()``."""
        return await super().async_step(self.action(actions))
