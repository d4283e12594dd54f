"""VecEnv: the contract of every vector environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import check_rows, row_seeds, spread_options, spread_values
from sekai.batching.layout import batch_space
from sekai.checks import did_you_mean
from sekai.errors import AsyncCallPending, ResetRequired, VecEnvClosed
from sekai.mirror import AsyncMirror
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots import Snapshot
from sekai.snapshots.agreement import names_of_classes
from sekai.snapshots.snapshot import Kept
from sekai.spaces import Space
from sekai.types import ActType, ObsType, OptionsType, SeedType
from sekai.vector.attributes import read_shared_object, settable_names, write_shared_object
from sekai.vector.examination import examine

_VecEnvT = TypeVar("_VecEnvT", bound="VecEnv[Any, Any]")


class VecEnv(AsyncMirror, ABC, Generic[ObsType, ActType]):
    """N sub-envs behind one ``step()`` and one ``reset()``, which take and give batches.

    ``observation_space`` and ``action_space`` describe one sub-env, ``batch_observation_space`` and
    ``batch_action_space`` all of them.

    **Autoreset** is the default: the step that ends an episode begins the next one, whose first observation it
    shows. How the old one ended is in that sub-env's info: ``final_observation`` and ``final_info``; what its reset
    told is under ``reset_info``.

    **Without autoreset** a sub-env whose episode has ended is frozen. Steps leave it alone, whatever its action, and
    repeat its last observation and flags, with reward 0 and an empty info, until ``reset()``. One that resets itself
    (it shows by a ``final_observation`` in its info) goes on instead.

    A result belongs to the caller: later steps do not change it, and the simulation does not see what is written into
    it.

    ``async_step()`` and ``async_reset()`` are there in every subclass; where they are not written, they run its
    ``step()`` and ``reset()``.

    Attributes:
        num_envs: The number N of sub-envs.
        observation_space: The space of one sub-env's observations.
        action_space: The space of one sub-env's actions.
        autoreset: Whether sub-envs are reset when their episode ends.
        metadata: Anything that holds for every instance of the class.
        spec: The registry's ``EnvSpec`` this was made from, None without one.
    """

    num_envs: int
    observation_space: Space[ObsType]
    action_space: Space[ActType]
    autoreset: bool = True
    metadata: dict[str, Any] = {}
    spec: Any = None

    _closed: bool = False
    _has_reset: bool = False
    _batch_spaces: dict[str, tuple[Space[Any], Space[Any]]] | None = None

    # -- the contract --------------------------------------------------------------------------------------

    @abstractmethod
    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs with a batch of actions.

        Args:
            actions: A batch of ``num_envs`` actions, nested like ``batch_action_space``.

        Raises:
            ResetRequired: Before the first ``reset()``.
            ValueError: The number, shape or dtype of the actions is wrong; no sub-env has been stepped.
            VecEnvClosed: After ``close()``.
        """

    @abstractmethod
    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs.

        Args:
            seed: An int, from which every sub-env gets a seed of its own that tells nothing of the others'; or the
                seeds themselves, in a list, a tuple or a 1-D integer array; None lets all streams go on.
            options: A dict that every sub-env is told, or a list of dicts, one for each. They are copied, at any depth;
                what cannot be, such as a lock or an open file, is handed on as it is.

        Raises:
            TypeError: A seed is no integer, or options are no dict.
            ValueError: A seed is negative, or a list has another length than ``num_envs``; nothing has been reset.
            VecEnvClosed: After ``close()``.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all sub-envs and release resources; closing again does nothing.

        An error in closing one keeps no other from being closed; the first is raised at the end.
        """

    if TYPE_CHECKING:  # AsyncMirror provides them; here are their types

        async def async_step(self, actions: Any) -> VecStepResult[Any]:
            """Async step; the default runs ``step()``."""

        async def async_reset(
            self,
            *,
            seed: list[SeedType] | SeedType = None,
            options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
        ) -> VecResetResult[Any]:
            """Async reset; the default runs ``reset()``."""

    # -- action masks --------------------------------------------------------------------------------------

    def action_mask(self) -> Any:
        """Which actions make sense now in each sub-env, fresh arrays; None where there are no masks.

        Returns:
            A batch of elements of ``sekai.space_utils.mask_space(action_space)``, int8 (num_envs, n) for a
            ``Discrete``, nested like the action space for others. Where a sub-env says None, everything is allowed. For
            a frozen sub-env it is of no use.

        Raises:
            ResetRequired: Before the first ``reset()``, where there are masks.
            TypeError: What a sub-env says is no mask.
            ValueError: It has another shape or other values than a mask.
            VecEnvClosed: After ``close()``.
        """
        self._require_open("action_mask()")
        return None

    @property
    def has_action_mask(self) -> bool:
        """Whether ``action_mask()`` has something to say, known before the first reset."""
        return type(self).action_mask is not VecEnv.action_mask

    # -- resets of some sub-envs ---------------------------------------------------------------------------

    def reset_envs(
        self,
        indices: Any,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Begin new episodes in some sub-envs, also in the middle of one, while the others stay where they are.

        An episode that is cut short is dropped: nothing records it. A frozen sub-env goes on again.

        Args:
            indices: Which: their numbers, one number, or a mask.
            seed: An int gives each the seed that ``reset(seed=...)`` would; a list holds one for each of them; None
                lets their streams go on. The generator ``rng`` that the sub-envs of a ``NativeVecEnv`` share goes on in
                any case.
            options: A dict for all of them, or a list of one for each.

        Returns:
            Their first observations, a batch of as many, and their infos, both in the order of the indices.

        Raises:
            ResetRequired: Before the first ``reset()``.
            TypeError: A seed is no integer, options are no dict, or indices no integers.
            ValueError: There is no such sub-env, one is named twice, a seed is negative, or a list has another length
                than ``indices``; nothing has been reset.
            NotImplementedError: This VecEnv resets all its sub-envs or none (see ``resets_some``).
            VecEnvClosed: After ``close()``.
        """
        self._require_open("reset_envs()")
        self._require_begun("reset_envs()")
        rows = check_rows(indices, self.num_envs, "reset_envs(indices=...)", distinct=True)
        seeds = row_seeds(seed, rows, self.num_envs)
        return self._reset_some(rows, list(zip(seeds, spread_options(options, len(rows)), strict=True)))

    def _reset_some(self, rows: NDArray[np.intp], inputs: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        """Begin new episodes in some sub-envs, each with a seed and options."""
        raise NotImplementedError(f"{type(self).__name__}.reset_envs(): it resets all its sub-envs or none")

    def reset_frozen(self, rows: NDArray[np.intp]) -> VecResetResult[Any]:
        """Begin new episodes in some frozen sub-envs, while the others stay where they are.

        For loops that ask for the next episode later than in the step that ends one. Random streams go on, and the
        options are those of ``autoreset_options``.

        Args:
            rows: intp (k,), ascending: sub-envs that are frozen.

        Returns:
            Their first observations, a batch of k, and k infos, both in the order of ``rows``.

        Raises:
            ValueError: One of them is not frozen; nothing has been reset.
            NotImplementedError: This VecEnv resets all its sub-envs or none (see ``resets_some``).
            VecEnvClosed: After ``close()``.
        """
        self._require_frozen(rows)
        return self._reset_some(rows, [(None, options) for options in self._autoreset_options_of(rows)])

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        """The options of autoreset of some sub-envs."""
        raise NotImplementedError(f"{type(self).__name__}.reset_frozen(): it resets all its sub-envs or none")

    @property
    def resets_some(self) -> bool:
        """Whether there are ``reset_envs()`` and ``reset_frozen()``, which every backend of the kit has."""
        return type(self)._reset_some is not VecEnv._reset_some

    def _require_frozen(self, rows: NDArray[np.intp]) -> None:
        self._require_open("reset_frozen()")
        running = rows[~self.frozen[rows]]
        if running.size:
            raise ValueError(f"reset_frozen(rows): expected sub-envs that are frozen, got {running.tolist()}")

    # -- snapshots -----------------------------------------------------------------------------------------

    def snapshot(self, indices: Any = None) -> Snapshot:
        """The state of sub-envs, streams of random numbers and parameters drawn included, as data.

        Args:
            indices: Which: their numbers, one number, or a mask; None for all.

        Raises:
            ResetRequired: Before the first ``reset()``.
            TypeError: An attribute cannot be kept (a socket, a lock), or is altered by steps and is no array with an
                entry per sub-env; the message names it (see ``NativeVecEnv``).
            ValueError: There is no such sub-env, or the sub-envs share a generator that has been drawn from, and can
                only be kept all together.
            NotImplementedError: This VecEnv, or a wrapper around it, does not say what its state is.
            VecEnvClosed: After ``close()``.
        """
        self._require_open("snapshot()")
        self._require_begun("snapshot()")
        rows = check_rows(indices, self.num_envs, "snapshot(indices=...)")
        if not self._is_examined:
            examine(self)
        kept = self._keep_layers(rows, indices is None)
        return Snapshot(self._snapshot_market, (self.observation_space, self.action_space), kept)

    def restore(self, snapshot: Snapshot, indices: Any = None, *, parameters: str = "match") -> None:
        """Let sub-envs go on from a snapshot: with the same actions they then show the same, bit for bit.

        It may come from other sub-envs, another process, or another VecEnv of the same market with the same wrappers.
        Of a snapshot of all sub-envs that is restored to all, what they share (a generator, statistics of wrappers) is
        put back too, and else left alone.

        Args:
            snapshot: Of as many sub-envs as are restored, or of one for all of them.
            indices: Which sub-envs: their numbers, one number, or a mask; None for all.
            parameters: "match": parameters that sub-envs have of their own are part of their state, and those of the
                whole market have to be those of the snapshot; or "keep": this VecEnv's stay as they are. Arrays that
                functions of a row read have to be of the snapshot's shapes all the same, and what a market refuses
                with the episodes of the snapshot (see ``held_parameters``) is refused.

        Raises:
            TypeError: It is no Snapshot.
            ValueError: It is of another market, or other wrappers, spaces, parameters or a number of sub-envs that does
                not fit; nothing has changed.
            ResetRequired: It is for a part of the sub-envs, before the first ``reset()``.
            VecEnvClosed: After ``close()``.
        """
        self._restorer(snapshot, indices, parameters)()

    def _restorer(self, snapshot: Snapshot, indices: Any, parameters: str) -> Callable[[], None]:
        """Look at what is to be restored, and return what does it; raises what ``restore()`` does."""
        self._require_open("restore()")
        where = "restore(snapshot)"
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"{where}: expected a Snapshot, got {snapshot!r}")
        if parameters not in ("match", "keep"):
            raise ValueError(f"restore(parameters=...): expected 'match' or 'keep', got {parameters!r}")
        rows = check_rows(indices, self.num_envs, "restore(indices=...)", distinct=True)
        count, size = len(rows), len(snapshot)
        if size != 1 and size != count:
            expected = "1 sub-env" if count == 1 else f"1 or {count} sub-envs"
            raise ValueError(f"{where}: expected one of {expected}, got one of {size}")
        snapshot.require_of(self._snapshot_market, (self.observation_space, self.action_space), where)
        snapshot.require_complete(where)
        if not self._is_examined:
            examine(self)
        if count < self.num_envs:
            self._require_begun("restore() of some sub-envs")
        kept = snapshot.kept
        is_whole = kept.whole is not None and size == count == self.num_envs
        is_whole = is_whole and (indices is None or count == 1 or bool((rows == np.arange(count)).all()))
        if kept.whole is not None and not is_whole:
            if snapshot.shares_generator:
                expected = "expected all its sub-envs in their order, which share a generator that has been drawn from"
                raise ValueError(f"{where}: {expected}, got {rows.tolist()}")
            kept = kept._replace(whole=None)
        commit = self._restorer_of_layers(rows, kept, parameters == "keep")
        market = self.unwrapped
        if market._has_reset:
            return commit

        def begin() -> None:
            commit()
            market._has_reset = True

        return begin

    def reseed(self, seed: list[SeedType] | SeedType, indices: Any = None) -> None:
        """Let sub-envs go on, in the middle of their episodes, with other streams of random numbers.

        For futures that part: sub-envs that go on from one snapshot go on with one stream, each a copy of the others.

        Args:
            seed: As ``reset_envs(seed=...)`` takes it: an int gives each the stream that ``reset(seed=...)`` would; a
                list holds one for each of them; None lets a stream go on.
            indices: Which sub-envs: their numbers, one number, or a mask; None for all. The generator ``rng`` that the
                sub-envs of a ``NativeVecEnv`` share is seeded with all of them alone.

        Raises:
            ResetRequired: Before the first ``reset()``.
            TypeError: A seed is no integer.
            ValueError: There is no such sub-env, one is named twice, a seed is negative, or a list has another length
                than there are sub-envs.
            NotImplementedError: A sub-env does not draw from ``Env.rng``, or this VecEnv has no streams to seed.
            VecEnvClosed: After ``close()``.
        """
        self._require_open("reseed()")
        self._require_begun("reseed()")
        rows = check_rows(indices, self.num_envs, "reseed(indices=...)", distinct=True)
        seeds = row_seeds(seed, rows, self.num_envs)
        self._reseed(rows, seeds, seed if indices is None else None)

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        """Give some sub-envs other streams.

        Args:
            rows: The sub-envs.
            seeds: One seed for each.
            whole: The seed as it was given for all sub-envs; None where it is for some.
        """
        raise NotImplementedError(f"{type(self).__name__}.reseed(): it does not say what its streams are")

    _is_examined: bool = False

    #: Arrays with an entry per sub-env that a copy's reset and steps have left as they were.
    _untouched: frozenset[str] = frozenset()

    #: Whether sub-envs are rows of arrays: a step of a copy is seen by nobody else then.
    _has_numbers_alone: bool = False

    def _snapshot_others(self) -> dict[str, Any]:
        """Fingerprints of the attributes that a snapshot takes to stay as they are."""
        return {}

    def _snapshot_arrays(self) -> dict[str, NDArray[Any]]:
        """The attributes that a snapshot takes for state, live."""
        return {}

    @property
    def _snapshot_layers(self) -> list[VecEnv[Any, Any]]:
        """This VecEnv or, of a wrapper, that inside and all around it, from the inside out."""
        return [self]

    @property
    def _snapshot_market(self) -> tuple[str, ...]:
        """What a snapshot is of, from the inside out."""
        return names_of_classes(type(self))

    def _keep_layers(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        """What all layers keep of some sub-envs (see ``_snapshot_keep``)."""
        return self._snapshot_keep(rows, is_whole)

    def _restorer_of_layers(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        """Look at what all layers have kept, and return what restores it (see ``_snapshot_restorer``)."""
        return self._snapshot_restorer(rows, kept, keep_parameters)

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        """What this layer keeps of some sub-envs; ``is_whole`` where a snapshot is of all of them."""
        raise NotImplementedError(f"{type(self).__name__}.snapshot(): it does not say what its state is")

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        """Look at what is to be restored, and return what does it.

        Args:
            rows: intp (k,), the sub-envs.
            kept: What this layer had kept of k sub-envs, or of one for all k; ``whole`` is None where a snapshot of all
                is not restored to all.
            keep_parameters: Whether this layer's parameters stay.

        Raises:
            ValueError: It does not fit; nothing has changed.
        """
        raise NotImplementedError(f"{type(self).__name__}.restore(): it does not say what its state is")

    def _observe_now(self) -> Any:
        """What the sub-envs show now, a batch of the caller's own, and nothing moves on.

        A frozen one shows how its episode ended.

        Raises:
            NotImplementedError: It is shown in results alone.
        """
        raise NotImplementedError(f"{type(self).__name__}: it does not say what its sub-envs show between two steps")

    def _require_begun(self, call: str) -> None:
        if not self.unwrapped._has_reset:
            raise ResetRequired(f"{type(self).__name__}.{call}: call reset() first")

    # -- sub-env attributes --------------------------------------------------------------------------------

    def call_at(self, indices: Any, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """``call()`` for some sub-envs.

        Where there are no sub-env objects, the method is called once, and what it gives for the others is left out.

        Args:
            indices: Which: their numbers, none of them twice, one number, or a mask.
            method: The name.
            *args: What the method is called with.
            **kwargs: What the method is called with.

        Returns:
            One value for each of them.

        Raises:
            AttributeError: There is no such name.
            ValueError: There is no such sub-env, or one is named twice.
        """
        rows = check_rows(indices, self.num_envs, "call_at(indices, ...)", distinct=True)
        found = self.call(method, *args, **kwargs)
        return [found[row] for row in rows.tolist()]

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of every sub-env, or read it if it is no method; found as ``get_attr()`` finds it.

        Where there are no sub-env objects, it is this object's own (see ``NativeVecEnv``).

        Returns:
            One value per sub-env.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call()")
        return read_shared_object(self, method, self.num_envs, args, kwargs, call=True)

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        """An attribute of sub-envs, in the outermost of its wrappers that has it.

        Args:
            name: The attribute.
            indices: Which sub-envs: their numbers, one number, or a mask; None for all.

        Returns:
            One value per sub-env.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("get_attr()")
        rows = check_rows(indices, self.num_envs, "get_attr(indices=...)")
        found = self._read_attr(name)
        return found if indices is None else [found[row] for row in rows.tolist()]

    def _read_attr(self, name: str) -> list[Any]:
        """An attribute of every sub-env."""
        return read_shared_object(self, name, self.num_envs)

    def set_attr(self, name: str, values: list[Any] | Any, indices: Any = None, *, force: bool = False) -> None:
        """Change an attribute of sub-envs, in the outermost of its wrappers that has it, else in itself.

        Args:
            name: The attribute.
            values: A list holds one value per sub-env; anything else, a tuple or array too, is one value for all.
            indices: Which sub-envs: their numbers, one number, or a mask; None for all.
            force: Where sub-envs are ``Env`` objects (``SyncVecEnv``, ``AsyncVecEnv``, ``ProcVecEnv``), create it where
                there is none, in the outermost wrapper. Elsewhere a new attribute would have no effect, and there is
                none.

        Raises:
            AttributeError: There is no such name; nothing is added, and names that are near it are told.
            ValueError: A list has another length than there are sub-envs to change.
        """
        self._require_open("set_attr()")
        if indices is None:
            self._write_attr(name, values)
            return
        rows = check_rows(indices, self.num_envs, "set_attr(indices=...)", distinct=True)
        spread = spread_values(name, values, len(rows), "indices")
        try:
            every = self._read_attr(name)
        except AttributeError as error:
            hint = did_you_mean(name, settable_names(self))
            raise AttributeError(f"set_attr({name!r}, indices=...): {error}{hint}") from error
        for row, value in zip(rows.tolist(), spread, strict=True):
            every[row] = value
        self._write_attr(name, every)

    def _write_attr(self, name: str, values: list[Any] | Any) -> None:
        """Change an attribute of every sub-env."""
        write_shared_object(self, name, values, spread_values(name, values, self.num_envs))

    # -- what follows from it ------------------------------------------------------------------------------

    @property
    def batch_observation_space(self) -> Space[Any]:
        """The space of the observations of all sub-envs, each part with a first axis of them."""
        return self._batch_space("observation", self.observation_space)

    @property
    def batch_action_space(self) -> Space[Any]:
        """The space of the actions of all sub-envs, each part with a first axis of them."""
        return self._batch_space("action", self.action_space)

    def _batch_space(self, kind: str, space: Space[Any]) -> Space[Any]:
        """The batch of a space; the same object as long as the space is, so that seeding it lasts."""
        if self._batch_spaces is None:
            self._batch_spaces = {}
        known, batched = self._batch_spaces.get(kind, (None, None))
        if known is not space or batched is None:
            batched = batch_space(space, self.num_envs)
            self._batch_spaces[kind] = (space, batched)
        return batched

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.zeros(self.num_envs, dtype=np.bool_)

    @property
    def closed(self) -> bool:
        """Whether ``close()`` has been called."""
        return self._closed

    @property
    def unwrapped(self) -> VecEnv[Any, Any]:
        """The vector environment inside all vector wrappers."""
        return self

    def _require_open(self, call: str) -> None:
        if self._closed:
            raise VecEnvClosed(f"{type(self).__name__}.{call}: this vector environment is closed")

    def _require_reset(self) -> None:
        self._require_open("step()")
        if not self._has_reset:
            raise ResetRequired(f"{type(self).__name__}.step(): call reset() first")

    def __enter__(self: _VecEnvT) -> _VecEnvT:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
            return
        except AsyncCallPending:
            pass
        # There is nobody left to await it, and the error that ended the block is the one to hear of.
        self._give_up_call()
        self.close()

    def _give_up_call(self) -> None:
        """Cancel the call that keeps ``close()`` from closing; only a backend that refuses to close has one."""

    def __repr__(self) -> str:
        name = type(self).__name__ if self.spec is None else f"{type(self).__name__} {self.spec.id}"
        return f"<{name} num_envs={self.num_envs}>"
