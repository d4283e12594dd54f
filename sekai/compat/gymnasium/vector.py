"""A VecEnv as a gymnasium VectorEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sekai.batching.info_list import InfoList
from sekai.batching.inputs import spread_seeds
from sekai.batching.layout import has_fixed_layout
from sekai.compat.gymnasium.infos import ColumnsToInfos, gymnasium_info, holds_columns
from sekai.compat.gymnasium.spaces import conform, to_gymnasium_space
from sekai.compat.gymnasium.specs import gymnasium_spec
from sekai.results import VecResetResult, VecStepResult
from sekai.vector import VecEnv


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A sekai ``VecEnv`` as a ``gymnasium.vector.VectorEnv``; see ``to_gymnasium_vector``.

    Args:
        vec: The vector environment, wrappers included.

    Attributes:
        vec: The vector environment.
        spec: From which ``gymnasium.make_vec`` builds it anew, without wrappers put around it by hand; None for one
            that comes from no registry.

    Raises:
        TypeError: ``vec`` is no ``VecEnv``, or one of its spaces has no counterpart.
        ValueError: ``vec`` has no autoreset.
    """

    def __init__(self, vec: VecEnv[Any, Any]) -> None:
        if not isinstance(vec, VecEnv):
            raise TypeError(f"to_gymnasium_vector: expected a sekai.VecEnv (for an Env: to_gymnasium), got {vec!r}")
        if not vec.autoreset:
            raise ValueError(
                f"to_gymnasium_vector: expected autoreset=True, got {vec!r} without it: gymnasium's mode without "
                "autoreset resets single sub-envs by a mask, where a VecEnv resets all"
            )
        self.vec = vec
        self.num_envs = vec.num_envs
        self.single_observation_space = to_gymnasium_space(vec.observation_space)
        self.single_action_space = to_gymnasium_space(vec.action_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**vec.metadata, "render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.spec = None if vec.spec is None else gymnasium_spec(vec.spec, vec.spec.kwargs)
        self._has_arrays_alone = has_fixed_layout(vec.observation_space)
        self._columns_to_infos = ColumnsToInfos(vec.observation_space, vec.num_envs)
        self._last_seed: Any = None

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step all sub-envs.

        Returns:
            Observations, rewards float64 (N,), terminations bool (N,), truncations bool (N,), infos.
        """
        step = self.vec.step(actions)
        infos = self._infos(step)
        return self._observations(step.observations), step.rewards, step.terminated, step.truncated, infos

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-envs.

        Args:
            seed: As sekai takes it: an int derives independent seeds (gymnasium's own vector envs count up from it), a
                list holds one for each sub-env.
            options: One dict for all sub-envs, or a list of one each. A "reset_mask" has to name all of them.

        Raises:
            ValueError: A "reset_mask" leaves sub-envs out, or seeds or options are not as many as sub-envs.
        """
        reset = self.vec.reset(seed=cast(Any, seed), options=self._reset_options(options))
        self._last_seed = self._last_seed if seed is None else seed
        return self._observations(reset.observations), self._infos(reset)

    def render(self) -> None:
        """Nothing: there are no render modes."""

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

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each sub-env, or read an attribute (see ``VecEnv.call``)."""
        return tuple(self.vec.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each sub-env (see ``VecEnv.get_attr``)."""
        return tuple(self.vec.get_attr(name))

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Change an attribute of each sub-env; a list or tuple holds one value each (see ``VecEnv.set_attr``)."""
        self.vec.set_attr(name, list(values) if isinstance(values, tuple) else values)

    def _reset_options(self, options: Any) -> Any:
        if not isinstance(options, Mapping) or "reset_mask" not in options:
            return options
        mask = np.asarray(options["reset_mask"])
        if mask.shape != (self.num_envs,) or not mask.all():
            raise ValueError(
                f"reset(options=...): expected a reset_mask of {self.num_envs} times True (a VecEnv resets all its "
                f"sub-envs, and those that end by itself), got {mask}"
            )
        return {key: value for key, value in options.items() if key != "reset_mask"} or None

    def _observations(self, batch: Any) -> Any:
        return batch if self._has_arrays_alone else conform(self.observation_space, batch)

    def _infos(self, result: VecStepResult[Any] | VecResetResult[Any]) -> dict[str, Any]:
        infos = result.infos
        if holds_columns(infos):
            return self._columns_to_infos(cast(InfoList, infos))
        ended = result.dones.tolist() if isinstance(result, VecStepResult) else [False] * self.num_envs
        arrays: dict[str, Any] = {}
        for row, info in enumerate(infos):
            arrays = self._add_info(arrays, gymnasium_info(info) if ended[row] else info, row)
        return arrays


def to_gymnasium_vector(vec: VecEnv[Any, Any]) -> GymnasiumVectorEnv:
    """A sekai ``VecEnv`` of any backend as a real ``gymnasium.vector.VectorEnv``, with same-step autoreset.

    Infos are in gymnasium's layout: arrays with a row for each sub-env and a mask beside each, ``final_obs`` and
    ``final_info`` of the sub-envs whose episode ended, their reset's info at the top. Those of a native environment are
    its columns; no dict of a sub-env is built for them. Behind ``VecRecordEpisodeStatistics``, ``infos["episode"]``
    holds "r", "l" and "t", arrays of the returns, lengths and seconds of the episodes that ended.

    Gymnasium's vector wrappers for actions, rewards, infos and ``RecordEpisodeStatistics`` go around it. Those for
    observations refuse same-step autoreset: put sekai's around ``vec`` instead, which transform terminal observations
    as well.

    Args:
        vec: The vector environment, wrappers included.

    Raises:
        TypeError: ``vec`` is no ``VecEnv``, or one of its spaces has no counterpart.
        ValueError: ``vec`` has no autoreset.
    """
    return GymnasiumVectorEnv(vec)
