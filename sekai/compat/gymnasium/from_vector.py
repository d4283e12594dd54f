"""A gymnasium VectorEnv as a VecEnv.

Gymnasium has three modes of what becomes of a sub-env whose episode has ended, sekai has two: with autoreset it is
reset in the same step, without it is frozen. What is made of what:

==========  =================================================  =====================================================
mode        ``autoreset=True``                                 ``autoreset=False``
==========  =================================================  =====================================================
SAME_STEP   as it is                                           its end is held; the sub-env goes on unseen
DISABLED    the sub-env is reset in the same step, by a mask   the same, after a reset by a mask in the next step
NEXT_STEP   the same, if it is a bare ``SyncVectorEnv`` or     the same
            ``AsyncVectorEnv``; else refused
==========  =================================================  =====================================================

Other vector environments with next-step autoreset are refused: nothing but a further step of all sub-envs would reset
the one that ended, and gymnasium promises no reset by a mask in this mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.batching.episodes import MaskEpisodes, ended_info
from sekai.batching.infos import EPISODE, FINAL_INFO
from sekai.compat.gymnasium.infos import FINAL_OBS, rows_of
from sekai.compat.gymnasium.spaces import conform, from_gymnasium_space
from sekai.compat.gymnasium.specs import LIMIT_OF_TIME_LIMIT, MAX_EPISODE_STEPS
from sekai.errors import InvalidObservation
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots.snapshot import Kept
from sekai.types import InfoDict, OptionsType, SeedType
from sekai.vector import VecEnv
from sekai.vector.attributes import read_shared_object, write_shared_object


class _NewEpisodes(NamedTuple):
    """What some sub-envs show whose episode has ended and that have been reset, one entry each."""

    final_observations: Any
    final_infos: list[InfoDict]
    observations: Any
    reset_infos: list[InfoDict]


class VecEnvFromGymnasium(VecEnv[Any, Any]):
    """A ``gymnasium.vector.VectorEnv`` as a sekai ``VecEnv``; see ``from_gymnasium_vector``.

    Args:
        envs: The gymnasium vector environment, wrappers included.
        autoreset: Reset sub-envs when their episode ends, or freeze them (see ``VecEnv``).
        autoreset_mode: The mode of ``envs``; None reads ``envs.metadata["autoreset_mode"]``.

    Attributes:
        gymnasium_vec: The gymnasium vector environment.

    Raises:
        TypeError: ``envs`` is no ``VectorEnv``, or one of its spaces has no counterpart.
        ValueError: The mode is unknown, or next-step autoreset cannot be made same-step.
    """

    def __init__(
        self,
        envs: gymnasium.vector.VectorEnv[Any, Any, Any],
        *,
        autoreset: bool = True,
        autoreset_mode: AutoresetMode | str | None = None,
    ) -> None:
        if not isinstance(envs, gymnasium.vector.VectorEnv):
            expected = "expected a gymnasium.vector.VectorEnv (for an Env: from_gymnasium)"
            raise TypeError(f"from_gymnasium_vector: {expected}, got {envs!r}")
        self.gymnasium_vec = envs
        self.num_envs = envs.num_envs
        self.observation_space = from_gymnasium_space(envs.single_observation_space)
        self.action_space = from_gymnasium_space(envs.single_action_space)
        self.metadata = envs.metadata
        self.autoreset = bool(autoreset)
        self._mode = _check_mode(envs, autoreset_mode)
        if self._mode is AutoresetMode.NEXT_STEP and autoreset:
            if not isinstance(envs, (SyncVectorEnv, AsyncVectorEnv)):
                raise ValueError(
                    f"from_gymnasium_vector: expected same-step (or no) autoreset, got next-step autoreset of "
                    f"{envs!r}, which cannot reset a sub-env in the step that ends its episode; build it with "
                    "autoreset_mode=AutoresetMode.SAME_STEP, or pass autoreset=False to freeze ended sub-envs"
                )
        self._waiting = np.zeros(self.num_envs, dtype=np.bool_)  # frozen sub-envs that take no step before a reset
        self._episodes = MaskEpisodes(self.num_envs, self.autoreset)
        self._last_actions: Any = None

    # -- the contract --------------------------------------------------------------------------------------

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs with a batch of actions (see ``VecEnv.step``)."""
        self._require_reset()
        actions = self._hold(inputs.check_actions(self.action_space, self.num_envs, actions))
        envs = self.gymnasium_vec
        if self._waiting.any():
            envs.reset(options={"reset_mask": self._waiting})
        batch, rewards, terminated, truncated, arrays = envs.step(conform(envs.action_space, actions))
        observations = self._copy(batch)
        infos = rows_of(arrays, self.num_envs)
        rewards = np.array(rewards, dtype=np.float64)
        terminated, truncated = np.array(terminated, dtype=np.bool_), np.array(truncated, dtype=np.bool_)
        ended = np.flatnonzero(terminated | truncated)
        if ended.size and (self.autoreset or self._mode is AutoresetMode.SAME_STEP):
            self._has_reset = False  # until the reset is through: sub-envs are between two episodes
            self._show(ended, self._begin(ended, observations, infos), observations, infos)
            self._has_reset = True
        if not self.autoreset:
            if self._mode is AutoresetMode.DISABLED:
                self._waiting = terminated | truncated
            for row in np.flatnonzero(self._episodes.frozen):
                infos[row] = {}
        self._episodes.freeze_step(rewards, terminated, truncated)
        self._episodes.freeze_observations(observations)
        return VecStepResult(observations, rewards, terminated, truncated, infos)

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs.

        Args:
            seed: An int derives one seed for each sub-env of a ``SyncVectorEnv`` or ``AsyncVectorEnv`` (wrapped or
                not), as for every ``VecEnv``; any other vector environment gets it as it is. A list holds one each, if
                the vector environment takes a list.
            options: One dict for all sub-envs.

        Raises:
            TypeError: A seed is no integer (a generator is none), or options are no dict.
            ValueError: A seed is negative, a list has another length than ``num_envs``, or options hold "reset_mask".
            VecEnvClosed: After ``close()``.
        """
        self._require_open("reset()")
        seeds = self._seeds(seed)
        _check_options(options)
        self._has_reset = False
        batch, arrays = self.gymnasium_vec.reset(seed=seeds, options=inputs.copy_options(options))
        observations = self._copy(batch)
        self._waiting = np.zeros(self.num_envs, dtype=np.bool_)
        self._episodes.begin()
        self._has_reset = True
        return VecResetResult(observations, rows_of(arrays, self.num_envs))

    @property
    def resets_some(self) -> bool:
        """Whether there is a ``reset_envs()``: where gymnasium promises a reset by a mask, or is known to make one."""
        is_bare = isinstance(self.gymnasium_vec, (SyncVectorEnv, AsyncVectorEnv))
        return is_bare or self._mode is AutoresetMode.DISABLED

    def reset_envs(
        self,
        indices: Any,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Begin new episodes in some sub-envs, by a mask (see ``VecEnv.reset_envs``).

        Args:
            indices: Which: their numbers, one number, or a mask.
            seed: As ``VecEnv.reset_envs`` takes it; no generators.
            options: One dict for all of them.

        Raises:
            NotImplementedError: The vector environment is neither a bare ``SyncVectorEnv`` or ``AsyncVectorEnv`` nor
                one without autoreset, of which alone gymnasium promises it.
        """
        _check_options(options)
        return super().reset_envs(indices, seed=seed, options=options)

    def _reset_some(self, rows: NDArray[np.intp], given: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        if not self.resets_some:
            return super()._reset_some(rows, given)
        if any(options != given[0][1] for _, options in given):
            raise TypeError("reset_envs(options=...): expected one dict for all sub-envs, got several")
        seeds: list[SeedType] = [None] * self.num_envs
        for row, (seed, _) in zip(rows.tolist(), given, strict=True):
            seeds[row] = seed
        if not rows.size:
            return VecResetResult(layout.allocate(self.observation_space, 0), [])
        mask = np.zeros(self.num_envs, dtype=np.bool_)
        mask[rows] = True
        checked = None if all(seed is None for seed in seeds) else self._seeds(seeds)
        options = {**(given[0][1] or {}), "reset_mask": mask}
        self._has_reset = False
        batch, arrays = self.gymnasium_vec.reset(seed=checked, options=options)
        begun, infos = layout.take(self._copy(batch), rows), rows_of(arrays, self.num_envs)
        self._waiting = self._waiting & ~mask
        self._episodes.thaw(rows)
        self._has_reset = True
        return VecResetResult(begun, [infos[row] for row in rows.tolist()])

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        return [None] * len(rows)

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        raise NotImplementedError(f"snapshot(): {self.gymnasium_vec!r} does not say what its state is")

    def close(self) -> None:
        """Close the gymnasium vector environment; closing again does nothing."""
        if not self._closed:
            self._closed = True
            self.gymnasium_vec.close()

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array(self._episodes.frozen)

    # -- sub-env attributes --------------------------------------------------------------------------------

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method, or read an attribute, of every sub-env (see ``VecEnv.call``)."""
        self._require_open("call()")
        base = self._base(method)
        if hasattr(base, "call"):
            return list(base.call(method, *args, **kwargs))
        return read_shared_object(base, method, self.num_envs, args, kwargs, call=True)

    def _read_attr(self, name: str) -> list[Any]:
        try:
            return self._read_attr_of(name)
        except AttributeError:
            limits = self._limits() if name == MAX_EPISODE_STEPS else None
            if limits is None:
                raise
            return limits

    def _read_attr_of(self, name: str) -> list[Any]:
        base = self._base(name)
        return list(base.get_attr(name)) if hasattr(base, "get_attr") else read_shared_object(base, name, self.num_envs)

    def _limits(self) -> list[Any] | None:
        """The limits of steps of the ``TimeLimit`` of every sub-env, or that of the spec; None where there is none."""
        try:
            return self._read_attr_of(LIMIT_OF_TIME_LIMIT)
        except AttributeError:
            spec = self.gymnasium_vec.spec
            limit = None if spec is None else spec.max_episode_steps
            return None if limit is None else [limit] * self.num_envs

    def _write_attr(self, name: str, values: list[Any] | Any) -> None:
        spread = inputs.spread_values(name, values, self.num_envs)
        base = self._base(name)
        if hasattr(base, "set_attr"):
            base.set_attr(name, spread if isinstance(values, tuple) else values)  # to gymnasium one value each as well
        else:
            write_shared_object(base, name, values, spread)

    def _base(self, name: str) -> Any:
        """The innermost vector environment; of one that holds sub-envs, each is known to have the attribute.

        What has no ``call``, ``get_attr`` and ``set_attr`` of its own, as gymnasium asks of nobody, stands for all its
        sub-envs.
        """
        base = self.gymnasium_vec.unwrapped
        if isinstance(base, (SyncVectorEnv, AsyncVectorEnv)):
            # Asked first: an AttributeError in a worker would close an AsyncVectorEnv.
            for row, found in enumerate(base.call("has_wrapper_attr", name)):
                if not found:
                    raise AttributeError(f"sub-env {row}: {base!r} has no attribute {name!r}")
        return base

    # -- the parts of a step -------------------------------------------------------------------------------

    def _hold(self, actions: Any) -> Any:
        """The actions, a frozen sub-env's being the one it acted with last, in fresh arrays."""
        frozen = self._episodes.frozen
        if frozen.any():
            actions = inputs.hold_actions(actions, self._last_actions, frozen)
        else:
            actions = layout.copy_batch(actions)
        self._last_actions = actions
        return actions

    def _copy(self, batch: Any) -> Any:
        checked = layout.as_batch(
            self.observation_space, self.num_envs, batch, f"observations of {self.gymnasium_vec!r}", InvalidObservation
        )
        return layout.copy_batch(checked)

    def _begin(self, ended: NDArray[np.intp], observations: Any, infos: list[InfoDict]) -> _NewEpisodes:
        """The end and the new beginning of some sub-envs, by a reset where they have not been reset yet."""
        if self._mode is AutoresetMode.SAME_STEP:
            return self._read_ends(ended, observations, infos)
        mask = np.zeros(self.num_envs, dtype=np.bool_)
        mask[ended] = True
        finals = layout.take(observations, ended)
        batch, arrays = self.gymnasium_vec.reset(options={"reset_mask": mask})
        reset_infos = rows_of(arrays, self.num_envs)
        rows = ended.tolist()
        begun = layout.take(self._copy(batch), ended)
        return _NewEpisodes(finals, [infos[row] for row in rows], begun, [reset_infos[row] for row in rows])

    def _read_ends(self, ended: NDArray[np.intp], observations: Any, infos: list[InfoDict]) -> _NewEpisodes:
        """The same of sub-envs that same-step autoreset has reset."""
        finals, final_infos, reset_infos = [], [], []
        for row in ended.tolist():
            info = dict(infos[row])
            if FINAL_OBS not in info:
                raise InvalidObservation(
                    f"sub-env {row}: expected {FINAL_OBS!r} in the infos of {self.gymnasium_vec!r}, since its episode "
                    f"ended under same-step autoreset, got {sorted(info)}"
                )
            finals.append(layout.copy_row(self.observation_space, info.pop(FINAL_OBS), row))
            final = dict(info.pop(FINAL_INFO, {}))
            if EPISODE not in final and _is_statistics(info.get(EPISODE)):
                final[EPISODE] = info.pop(EPISODE)  # RecordEpisodeStatistics writes it beside the reset's info
            final_infos.append(final)
            reset_infos.append(info)
        batch = layout.concatenate(self.observation_space, finals)
        return _NewEpisodes(batch, final_infos, layout.take(observations, ended), reset_infos)

    def _show(self, ended: NDArray[np.intp], new: _NewEpisodes, observations: Any, infos: list[InfoDict]) -> None:
        """Write into a step's observations and infos what becomes of the sub-envs that ended, in place."""
        if not self.autoreset:
            layout.put(observations, ended, new.final_observations)
            for row, info in zip(ended.tolist(), new.final_infos, strict=True):
                infos[row] = info
            return
        layout.put(observations, ended, new.observations)
        finals = layout.iterate(self.observation_space, new.final_observations, ended.size)
        ends = zip(ended.tolist(), new.final_infos, finals, new.reset_infos, strict=True)
        for row, info, final, reset_info in ends:
            infos[row] = ended_info(info, final, reset_info)

    def _seeds(self, seed: Any) -> Any:
        """Seeds as the vector environment takes them."""
        if seed is None:
            return None
        seeds = inputs.spread_seeds(seed, self.num_envs)
        for row, each in enumerate(seeds):
            if isinstance(each, np.random.Generator):
                raise TypeError(f"reset(seed=...), sub-env {row}: expected an integer or None, got {each!r}")
        one_each = isinstance(self.gymnasium_vec.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        is_list = isinstance(seed, (Sequence, np.ndarray)) and np.ndim(seed) == 1
        return seeds if one_each or is_list else int(seed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.gymnasium_vec!r}>"


def _check_options(options: Any) -> None:
    """The error of options that are not one dict for all sub-envs."""
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"reset(options=...): expected one dict for all sub-envs, got {type(options).__name__}")
    if options is not None and "reset_mask" in options:
        raise ValueError("reset(options=...): expected no 'reset_mask': reset() resets all, reset_envs() some sub-envs")


def _is_statistics(value: Any) -> bool:
    """Whether it is what gymnasium's ``RecordEpisodeStatistics`` tells of an episode, and no info of the env's own."""
    return isinstance(value, dict) and {"r", "l", "t"} <= value.keys()


def _check_mode(envs: gymnasium.vector.VectorEnv[Any, Any, Any], given: AutoresetMode | str | None) -> AutoresetMode:
    mode = envs.metadata.get("autoreset_mode") if given is None else given
    if mode is None:
        raise ValueError(
            f"from_gymnasium_vector: expected metadata['autoreset_mode'] of {envs!r} to say what becomes of sub-envs "
            "whose episode ends, got nothing; pass autoreset_mode="
        )
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ValueError(f"from_gymnasium_vector: autoreset_mode: expected one of {known}, got {mode!r}") from None


def from_gymnasium_vector(
    envs: gymnasium.vector.VectorEnv[Any, Any, Any],
    *,
    autoreset: bool = True,
    autoreset_mode: AutoresetMode | str | None = None,
) -> VecEnvFromGymnasium:
    """A ``gymnasium.vector.VectorEnv`` as a sekai ``VecEnv``, whatever its autoreset mode.

    With autoreset, the sub-env whose episode ends is reset in the same step, exactly as ``SyncVecEnv`` would: same-step
    autoreset is that already; without autoreset, and of a bare ``SyncVectorEnv`` or ``AsyncVectorEnv`` with next-step
    autoreset, it is reset by ``reset(options={"reset_mask": ...})``.

    Without autoreset it is frozen: what it shows is held, while it goes on unseen in the steps that others take. That
    (and the reset that same-step autoreset has made) moves its random stream on, which the next ``reset()`` without a
    seed continues.

    ``get_attr("max_episode_steps")`` tells the limits of steps, also where only a ``TimeLimit`` or the spec knows them.

    ``reset_envs()`` is there of a bare ``SyncVectorEnv`` or ``AsyncVectorEnv``, and of any vector environment without
    autoreset, of which gymnasium promises a reset by a mask; snapshots are not.

    Args:
        envs: The gymnasium vector environment, wrappers included.
        autoreset: Reset sub-envs when their episode ends, or freeze them (see ``VecEnv``).
        autoreset_mode: The mode of ``envs``; None reads ``envs.metadata["autoreset_mode"]``.

    Raises:
        TypeError: ``envs`` is no ``VectorEnv``, or one of its spaces has no counterpart.
        ValueError: There is no mode, or an unknown one; or ``autoreset=True`` and next-step autoreset of anything but a
            bare ``SyncVectorEnv`` or ``AsyncVectorEnv``: it cannot reset a sub-env in the step that ends its episode.
    """
    return VecEnvFromGymnasium(envs, autoreset=autoreset, autoreset_mode=autoreset_mode)
