"""Training with Stable-Baselines3: any VecEnv as one of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.infos import EPISODE, FINAL_INFO, FINAL_OBSERVATION, RESET_INFO
from sekai.checks import check_integer
from sekai.compat.masks import ACTION_MASKS, flat_masks, has_flat_masks
from sekai.compat.sub_envs import render_modes
from sekai.env import Wrapper
from sekai.seeding import make_seed_sequence
from sekai.tracking import EpisodeStats
from sekai.types import InfoDict, SeedType
from sekai.vector import VecEnv, VecRecordEpisodeStatistics, VecWrapper
from sekai.vector.sub_envs.in_process import InProcessVecEnv
from sekai.wrappers import RecordEpisodeStatistics

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv as SB3VecEnv
except ModuleNotFoundError as error:
    if error.name != "stable_baselines3":  # it is there, what it needs itself is not
        raise
    expected = 'Stable-Baselines3: pip install ".[sb3]" in the clone'
    raise ImportError(f"sekai.compat.stable_baselines3 needs {expected}") from error

from sekai.compat.sb3_spaces import from_sb3, to_sb3, to_sb3_space  # need Gymnasium, which Stable-Baselines3 brings

#: What stands for the info an episode ended with, in the infos of the kit alone.
_KEYS_OF_THE_KIT = (FINAL_OBSERVATION, FINAL_INFO, RESET_INFO)


class SekaiSB3VecEnv(SB3VecEnv):
    """A Stable-Baselines3 ``VecEnv`` over any sekai one, on any backend and behind any wrapper.

    Observations, rewards (float64) and dones are those of ``vec.step()``, not copied. ``seed(s)`` makes the next
    ``reset()`` one with ``vec.reset(seed=s)``, so that a run has the same numbers here as without this class.

    Policies need two things told otherwise than in sekai. The values of a ``Discrete`` or ``MultiDiscrete`` are counted
    from 0, in actions and in observations, whatever its ``start`` is; and a ``MaskedBox`` is a ``Dict`` of "slots" (its
    "values") and "mask".

    The info of a sub-env whose episode ended holds all that the step told, with ``terminal_observation``,
    ``TimeLimit.truncated`` and, behind ``VecRecordEpisodeStatistics``, the ``episode`` that Stable-Baselines3 logs;
    what the reset told is in ``reset_infos``. The info of any other sub-env holds ``info_keys`` alone: a dict of
    everything for each of thousands of sub-envs, most of which nobody reads, takes longer than the step of a native
    market.

    Attributes and methods of sub-envs are looked up as ``vec.get_attr()`` and ``vec.call()`` do. With ``indices``,
    ``set_attr()`` changes the sub-envs named alone, and ``env_method()`` calls these alone, or calls a native
    environment, which is one object, once and picks their values. ``env_is_wrapped()`` does not see the wrappers of
    sub-envs in worker processes.

    ``sb3_contrib.MaskablePPO`` takes its masks from ``action_masks``: what ``vec.action_mask()`` says of the actions of
    a ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``, or else the method or attribute of this name of the sub-envs,
    or of a native environment, bool (num_envs, n).

    Args:
        vec: The VecEnv, with autoreset.
        info_keys: What the info of a sub-env whose episode goes on holds of what the step told; None for all of it.

    Attributes:
        vec: The VecEnv.
        reset_infos: What the last reset of each sub-env told, one dict each.

    Raises:
        TypeError: ``vec`` is no VecEnv.
        ValueError: It does not reset sub-envs whose episode has ended; or Gymnasium has no such space.
    """

    def __init__(self, vec: VecEnv[Any, Any], *, info_keys: Iterable[str] | None = ()) -> None:
        if not isinstance(vec, VecEnv):
            raise TypeError(f"SekaiSB3VecEnv(vec): expected a sekai VecEnv, got {type(vec).__name__}")
        if not vec.autoreset:
            raise ValueError("SekaiSB3VecEnv(vec): expected a VecEnv with autoreset, got one with autoreset=False")
        self.vec = vec
        self._info_keys = None if info_keys is None else tuple(info_keys)
        self._next_seed: SeedType = None
        self._next_options: Any = None
        self._actions: NDArray[Any] | None = None
        self._built = time.monotonic()
        super().__init__(vec.num_envs, to_sb3_space(vec.observation_space), to_sb3_space(vec.action_space))
        self.metadata: dict[str, Any] = {**vec.metadata, "render_modes": self._render_modes()}

    # -- episodes ------------------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seed the next ``reset()``.

        Args:
            seed: As ``vec.reset(seed=seed)`` takes it: one independent seed per sub-env is derived from it. None lets
                every random stream go on.

        Returns:
            The seed of each sub-env.
        """
        self._next_seed = seed
        return [None] * self.num_envs if seed is None else list(make_seed_sequence(seed, self.num_envs))

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Give options to the next ``reset()``: one dict for all sub-envs, or a list with one each."""
        self._next_options = options

    def reset(self) -> Any:
        """Reset every sub-env, with the seed and options given before.

        Returns:
            The batch of first observations.
        """
        result = self.vec.reset(seed=self._next_seed, options=self._next_options)
        self._next_seed = self._next_options = None
        self.reset_infos = list(result.infos)
        return to_sb3(self.vec.observation_space, result.observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions of the step that ``step_wait()`` makes."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], list[InfoDict]]:
        """Make the step.

        Returns:
            The batch of observations, rewards float64 (N,), dones bool (N,), and one info per sub-env.
        """
        actions, self._actions = self._actions, None
        result = self.vec.step(from_sb3(self.vec.action_space, actions))
        dones = result.dones
        infos = _running_infos(result.infos, self._info_keys)
        for row in dones.nonzero()[0].tolist():
            cut_off = bool(result.truncated[row] and not result.terminated[row])
            infos[row] = self._ended_info(row, result.infos[row], cut_off)
        return to_sb3(self.vec.observation_space, result.observations), result.rewards, dones, infos

    def _ended_info(self, row: int, info: InfoDict, cut_off: bool) -> InfoDict:
        self.reset_infos[row] = info.get(RESET_INFO, {})
        told = {key: value for key, value in info.items() if key not in _KEYS_OF_THE_KIT}
        if isinstance(told.get(EPISODE), EpisodeStats):
            stats = told[EPISODE]
            seconds = stats.end_time - self._built
            told[EPISODE] = {"r": stats.episode_return, "l": stats.episode_length, "t": seconds}
        final = to_sb3(self.vec.observation_space, info[FINAL_OBSERVATION])
        return {**told, "terminal_observation": final, "TimeLimit.truncated": cut_off}

    def close(self) -> None:
        """Close the VecEnv."""
        self.vec.close()

    def _render_modes(self) -> list[str]:
        """What ``render()`` takes: frames can be shown as well."""
        if self.render_mode is None:
            return []
        return ["human", "rgb_array"] if self.render_mode == "rgb_array" else [self.render_mode]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """What each sub-env draws, for ``render()`` and ``VecVideoRecorder``.

        Returns:
            uint8 (height, width, 3) each; None of sub-envs whose ``render_mode`` is not "rgb_array".
        """
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return self.env_method("render")

    # -- sub-envs ------------------------------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Get an attribute of some sub-envs.

        Raises:
            AttributeError: There is no such name.
            IndexError: There is no such sub-env.
            TypeError: ``indices`` are no integers.
        """
        rows = self._rows(indices)
        if attr_name == ACTION_MASKS and has_flat_masks(self.vec):  # asked for before there is a state
            return [partial(self._action_mask, row) for row in rows]
        if attr_name == "render_mode":  # which Stable-Baselines3 asks for, and warns of sub-envs without one
            values = render_modes(self.vec)
            return [values[row] for row in rows]
        return self.vec.get_attr(attr_name, rows)

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Set an attribute of some sub-envs to one value.

        Raises:
            AttributeError: There is no such name.
            IndexError: There is no such sub-env.
            TypeError: ``indices`` are no integers.
        """
        rows = sorted({*self._rows(indices)})
        if len(rows) == self.num_envs:
            # To the VecEnv a list is one value each.
            self.vec.set_attr(attr_name, [value] * self.num_envs if isinstance(value, list) else value)
        else:
            self.vec.set_attr(attr_name, [value] * len(rows), indices=rows)

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of some sub-envs (or read an attribute); as often as each is named, as Stable-Baselines3 does.

        Raises:
            AttributeError: There is no such name.
            IndexError: There is no such sub-env.
            TypeError: ``indices`` are no integers.
        """
        rows = self._rows(indices)
        if method_name == ACTION_MASKS and has_flat_masks(self.vec):
            return list(self.action_masks()[rows])
        rounds = [rows] if len({*rows}) == len(rows) else [[row] for row in rows]
        return [
            value
            for together in rounds
            for value in self.vec.call_at(together, method_name, *method_args, **method_kwargs)
        ]

    def action_masks(self) -> NDArray[np.bool_]:
        """The masks of all sub-envs, bool (num_envs, n); ``env_method("action_masks")`` gives those of some.

        Raises:
            AttributeError: ``vec`` has none of the actions of a ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``.
        """
        return flat_masks(self.vec)

    def _action_mask(self, row: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.action_masks()[row]
        return mask

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Whether some sub-envs, or the VecEnv as a whole, are wrapped in a wrapper of the kit.

        Stable-Baselines3 asks for its own ``Monitor`` before it reads ``info["episode"]``: a wrapper that records
        episode statistics stands for it.
        """
        rows = self._rows(indices)
        classes: tuple[type[Any], ...] = (wrapper_class,)
        if issubclass(wrapper_class, Monitor):
            classes = (VecRecordEpisodeStatistics, RecordEpisodeStatistics)
        layer = self.vec
        while isinstance(layer, VecWrapper):
            if isinstance(layer, classes):
                return [True] * len(rows)
            layer = layer.venv
        if not isinstance(layer, InProcessVecEnv):
            return [False] * len(rows)
        envs = [layer.envs[row] for row in rows]
        return [isinstance(env, Wrapper) and any(isinstance(inner, classes) for inner in env) for env in envs]

    def _rows(self, indices: int | Iterable[int] | None) -> list[int]:
        """The sub-envs that SB3's ``indices`` name; negative ones count from the end."""
        if indices is None:
            return list(range(self.num_envs))
        given = [indices] if isinstance(indices, (int, np.integer)) else indices
        if not isinstance(given, Iterable):
            raise TypeError(f"indices: expected an integer, integers or None, got {indices!r}")
        rows = range(self.num_envs)
        try:
            return [rows[check_integer(row, "indices", "integers")] for row in given]
        except IndexError:
            raise IndexError(f"indices: expected sub-envs below {self.num_envs} (num_envs), got {indices}") from None


def _running_infos(infos: list[InfoDict], keys: tuple[str, ...] | None) -> list[InfoDict]:
    """One info per sub-env that holds these keys, as far as there are such; everything for None."""
    if keys is None:
        return list(infos)
    if not keys:
        return [{} for _ in range(len(infos))]
    return [{key: info[key] for key in keys if key in info} for info in infos]
