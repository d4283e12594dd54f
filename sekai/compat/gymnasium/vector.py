"""A VecEnv as a gymnasium VectorEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.batching.inputs import spread_seeds
from sekai.batching.layout import has_fixed_layout
from sekai.compat.gymnasium.infos import ColumnsToInfos, gymnasium_info, holds_columns
from sekai.compat.gymnasium.spaces import conform, to_gymnasium_space
from sekai.compat.gymnasium.specs import gymnasium_spec
from sekai.compat.masks import ACTION_MASKS, flat_masks, has_flat_masks
from sekai.compat.sub_envs import render_modes
from sekai.results import VecResetResult, VecStepResult
from sekai.vector import VecEnv

_NO_ROWS = np.empty(0, dtype=np.intp)


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A sekai ``VecEnv`` as a ``gymnasium.vector.VectorEnv``; see ``to_gymnasium_vector``.

    Args:
        vec: The vector environment, wrappers included.
        autoreset_mode: Same-step or next-step.

    Attributes:
        vec: The vector environment.
        spec: From which ``gymnasium.make_vec`` builds it anew, without wrappers put around it by hand; None for one
            that comes from no registry.

    Raises:
        TypeError: ``vec`` is no ``VecEnv``, or one of its spaces has no counterpart.
        ValueError: The mode is another, or ``vec`` cannot serve it.
    """

    def __init__(self, vec: VecEnv[Any, Any], *, autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP) -> None:
        if not isinstance(vec, VecEnv):
            raise TypeError(f"to_gymnasium_vector: expected a sekai.VecEnv (for an Env: to_gymnasium), got {vec!r}")
        mode = check_mode(autoreset_mode)
        if mode is AutoresetMode.SAME_STEP and not vec.autoreset:
            raise ValueError(
                f"to_gymnasium_vector: expected autoreset=True, got {vec!r} without it, which can have "
                "autoreset_mode='NextStep'"
            )
        if mode is AutoresetMode.NEXT_STEP and not vec.resets_some:
            raise ValueError(
                f"to_gymnasium_vector(autoreset_mode={mode.value!r}): expected a VecEnv that resets single sub-envs "
                f"(reset_frozen), got {vec!r}; a class with a reset() of its own has to say what that is"
            )
        if mode is AutoresetMode.NEXT_STEP and vec.autoreset:
            raise ValueError(
                f"to_gymnasium_vector(autoreset_mode={mode.value!r}): expected a VecEnv made with autoreset=False, as "
                f"by make_vec(..., vector_kwargs={{'autoreset': False}}), got {vec!r} with it"
            )
        self.vec = vec
        self._resets_next = mode is AutoresetMode.NEXT_STEP
        self.num_envs = vec.num_envs
        self.single_observation_space = to_gymnasium_space(vec.observation_space)
        self.single_action_space = to_gymnasium_space(vec.action_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = render_modes(vec)[0]
        modes = [] if self.render_mode is None else vec.metadata.get("render_modes", [self.render_mode])
        self.metadata = {**vec.metadata, "render_modes": modes, "autoreset_mode": mode}
        if vec.spec is not None:
            kwargs = {key: value for key, value in vec.spec.kwargs.items() if key != "autoreset"}
            self.spec = gymnasium_spec(vec.spec, {**kwargs, "autoreset_mode": mode.value})
        self._has_arrays_alone = has_fixed_layout(vec.observation_space)
        self._columns_to_infos = ColumnsToInfos(vec.observation_space, vec.num_envs)
        self._last_seed: Any = None

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step all sub-envs.

        Returns:
            Observations, rewards float64 (N,), terminations bool (N,), truncations bool (N,), infos.

        Raises:
            ValueError: Under next-step autoreset, a sub-env began its next episode by itself.
        """
        rows = self.vec.frozen.nonzero()[0] if self._resets_next else _NO_ROWS
        step = self.vec.step(actions)
        begun = None
        if rows.size:
            begun = self.vec.reset_frozen(rows)
            layout.put(step.observations, rows, begun.observations)
            step.terminated[rows] = step.truncated[rows] = False
        if self._resets_next:
            by_itself = (step.dones & ~self.vec.frozen).nonzero()[0]
            if by_itself.size:
                raise ValueError(
                    f"step(actions): expected sub-envs that wait for next-step autoreset, got one that has begun its "
                    f"next episode by itself (sub-env {by_itself[0]}), as behind AutoReset"
                )
        infos = self._infos(step, rows, begun)
        return self._observations(step.observations), step.rewards, step.terminated, step.truncated, infos

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-envs, or those of a mask.

        Args:
            seed: As sekai takes it: an int derives independent seeds (gymnasium's own vector envs count up from it), a
                list holds one for each sub-env.
            options: One dict for all sub-envs, or a list of one each. A dict may hold a "reset_mask", bool (N,): the
                sub-envs that are reset, whether their episode has ended or not, by seeds and what else is in the dict.
                The others stay where they are; what they showed last is shown again, and infos say nothing of them.

        Raises:
            ResetRequired: Before the first reset, a "reset_mask" leaves sub-envs out.
            TypeError: A "reset_mask" is no array of bools.
            ValueError: It is of another shape, or names none; or seeds or options are not as many as sub-envs.
            NotImplementedError: A "reset_mask" leaves sub-envs out, and ``vec`` resets all or none (see
                ``VecEnv.resets_some``), or a layer of it, which is named, does not say what it shows between two steps.
        """
        mask, options = self._split_options(options)
        if mask is not None and not mask.all():
            return self._reset_some(mask.nonzero()[0], seed, options)
        reset = self.vec.reset(seed=cast(Any, seed), options=options)
        self._last_seed = self._last_seed if seed is None else seed
        return self._observations(reset.observations), self._infos(reset, _NO_ROWS, None)

    def _reset_some(self, rows: NDArray[np.intp], seed: Any, options: Any) -> tuple[Any, dict[str, Any]]:
        seeds = spread_seeds(seed, self.num_envs)
        self.vec._require_begun("reset(options={'reset_mask': ...})")
        observations = self.vec._observe_now()
        begun = self.vec.reset_envs(rows, seed=[seeds[row] for row in rows], options=options)
        layout.put(observations, rows, begun.observations)
        self._last_seed = spread_seeds(self._last_seed, self.num_envs)
        for row in rows.tolist():
            self._last_seed[row] = self._last_seed[row] if seeds[row] is None else seeds[row]
        shown = VecResetResult(observations, InfoList.of_columns(self.num_envs))
        return self._observations(observations), self._infos(shown, rows, begun)

    def render(self) -> tuple[Any, ...] | None:
        """What each sub-env draws; None where they have no render mode."""
        return None if self.render_mode is None else self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Close the vector environment; ``close()`` calls it."""
        self.vec.close()

    def __del__(self) -> None:
        """Leave the vector environment open, where gymnasium 1.1 would close it: it may be in use elsewhere."""

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The ``rng`` of each sub-env; of a native environment the one that they share."""
        return tuple(self.vec.get_attr("rng"))

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each sub-env in the last seeded reset; -1 where there was none."""
        seeds = spread_seeds(self._last_seed, self.num_envs)
        return tuple(seed if isinstance(seed, int) else -1 for seed in seeds)

    def action_masks(self) -> NDArray[np.bool_]:
        """The masks of all sub-envs, bool (N, n), each as ``to_gymnasium`` has it; ``call("action_masks")`` one by one.

        Raises:
            AttributeError: There are none, or the actions are not those of a ``Discrete``, ``MultiDiscrete`` or
                ``MultiBinary``.
        """
        return flat_masks(self.vec)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each sub-env, or read an attribute (see ``VecEnv.call``).

        Raises:
            AttributeError: There is no such name, in worker processes too.
        """
        if name == ACTION_MASKS and has_flat_masks(self.vec):
            return tuple(flat_masks(self.vec))
        return tuple(self.vec.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each sub-env (see ``VecEnv.get_attr``).

        Raises:
            AttributeError: There is no such name, in worker processes too.
        """
        return tuple(self.vec.get_attr(name))

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Change an attribute of each sub-env; a list or tuple holds one value each (see ``VecEnv.set_attr``).

        Raises:
            AttributeError: There is no such name, in worker processes too.
        """
        self.vec.set_attr(name, list(values) if isinstance(values, tuple) else values)

    def _split_options(self, options: Any) -> tuple[NDArray[np.bool_] | None, Any]:
        """The mask of the sub-envs to be reset, None for all, and the options for them."""
        if not isinstance(options, Mapping) or "reset_mask" not in options:
            return None, options
        mask, where = options["reset_mask"], "reset(options={'reset_mask': ...})"
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"{where}: expected an array of bools, got {mask!r}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(f"{where}: expected shape ({self.num_envs},) (num_envs), at least one True, got {mask}")
        return mask, {key: value for key, value in options.items() if key != "reset_mask"} or None

    def _observations(self, batch: Any) -> Any:
        return batch if self._has_arrays_alone else conform(self.observation_space, batch)

    def _infos(
        self,
        result: VecStepResult[Any] | VecResetResult[Any],
        rows: NDArray[np.intp],
        begun: VecResetResult[Any] | None,
    ) -> dict[str, Any]:
        """The infos of a step or a reset, and of the resets of some rows that belong to the step."""
        infos = result.infos
        resets = None if begun is None else begun.infos
        if holds_columns(infos) and (resets is None or holds_columns(resets)):
            return self._columns_to_infos(cast(InfoList, infos), rows, cast("InfoList | None", resets))
        if resets is not None:
            infos = list(infos)
            for row, info in zip(rows.tolist(), resets, strict=True):
                infos[row] = info
        ended = result.dones.tolist() if isinstance(result, VecStepResult) else [False] * self.num_envs
        arrays: dict[str, Any] = {}
        for row, info in enumerate(infos):
            arrays = self._add_info(arrays, gymnasium_info(info) if ended[row] else info, row)
        return arrays


def to_gymnasium_vector(
    vec: VecEnv[Any, Any], *, autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP
) -> GymnasiumVectorEnv:
    """A sekai ``VecEnv`` of any backend as a real ``gymnasium.vector.VectorEnv``.

    With same-step autoreset, that of every ``VecEnv``, the step which ends an episode returns the first observation of
    the next one, and the terminal one in its infos. With next-step autoreset, gymnasium's own default, that step
    returns the terminal observation; the sub-env takes no part in the next step, which resets it and returns the first
    observation, reward 0 and the reset's info, whatever its action. Whoever assumes one mode and is given the other
    takes a step for a reset, or a reset for a step: what a loop assumes is for its documentation to say, ``metadata``
    says what it got.

    Infos are in gymnasium's layout: arrays with a row for each sub-env and a mask beside each. Under same-step
    autoreset there are ``final_obs`` and ``final_info`` of the sub-envs whose episode ended, and their reset's info at
    the top. Those of a native environment are its columns; no dict of a sub-env is built for them. Behind
    ``VecRecordEpisodeStatistics``, ``infos["episode"]`` holds "r", "l" and "t", arrays of the returns, lengths and
    seconds of the episodes that ended.

    Gymnasium's vector wrappers for actions, rewards, infos and ``RecordEpisodeStatistics`` go around it. Those for
    observations refuse same-step autoreset: put sekai's around ``vec`` instead, which transform terminal observations
    as well.

    Args:
        vec: The vector environment, wrappers included. For next-step autoreset it is one made without autoreset:
            sub-envs that have ended are frozen, until they are reset one step later. A native environment of hooks is
            still given all rows, as ``NativeVecEnv`` says, and has to leave frozen ones as they are.
        autoreset_mode: Same-step or next-step.

    Raises:
        TypeError: ``vec`` is no ``VecEnv``, or one of its spaces has no counterpart.
        ValueError: The mode is another; same-step autoreset is asked of a ``vec`` without autoreset, or next-step
            autoreset of one with it, or of one that cannot reset single sub-envs (see ``VecEnv.resets_some``).
    """
    return GymnasiumVectorEnv(vec, autoreset_mode=autoreset_mode)


def check_mode(mode: Any) -> AutoresetMode:
    """The mode, given as such or by its text; ValueError if it is none of the two."""
    known = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP
    for each in known:
        if mode is each or mode == each.value:
            return each
    expected = " or ".join(repr(each.value) for each in known)
    raise ValueError(f"to_gymnasium_vector: autoreset_mode: expected {expected}, got {mode!r}")
