"""InProcessVecEnv: what the backends whose sub-envs live in this process share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.env import Env
from sekai.types import ActType, ObsType, OptionsType, SeedType
from sekai.vector.base import VecEnv
from sekai.vector.sub_envs.sub_env import EnvFn, RowBatch, build_sub_envs, check_env_fns, close_envs


class InProcessVecEnv(VecEnv[ObsType, ActType]):
    """What the backends whose sub-envs live in this process share: everything but the order of their calls.

    Attributes:
        envs: The sub-envs.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        autoreset: bool,
        autoreset_options: inputs.AutoresetOptions,
    ) -> None:
        self.autoreset = bool(autoreset)
        options = inputs.check_autoreset_options(autoreset_options)
        self._sub_envs = build_sub_envs(check_env_fns(env_fns), self.autoreset, options)
        self.envs: list[Env[Any, Any]] = [sub_env.env for sub_env in self._sub_envs]
        self.num_envs = len(self._sub_envs)
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self.metadata = self.envs[0].metadata

    def _step_inputs(self, actions: Any) -> list[Any]:
        """One action per sub-env, or the reason why there is no step to take."""
        self._require_reset()
        batch = inputs.check_actions(self.action_space, self.num_envs, actions)
        # A copy, so that a sub-env may keep its action while the caller reuses the batch.
        batch = layout.copy_batch(batch)
        return list(layout.iterate(self.action_space, batch, self.num_envs))

    def _reset_inputs(self, seed: Any, options: Any) -> list[tuple[SeedType, OptionsType]]:
        """One seed and one options dict per sub-env, or the reason why there is no reset."""
        self._require_open("reset()")
        pairs = inputs.spread_resets(seed, options, self.num_envs)
        self._has_reset = False
        return pairs

    def _new_batch(self) -> RowBatch:
        return RowBatch.fresh(self.observation_space, self.num_envs)

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array([sub_env.frozen for sub_env in self._sub_envs], dtype=np.bool_)

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method (or read an attribute) on each sub-environment, found through its wrapper stack.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call()")
        return [sub_env.call(method, args, kwargs) for sub_env in self._sub_envs]

    def get_attr(self, name: str) -> list[Any]:
        """An attribute of every sub-env, in the outermost of its wrappers that has it.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("get_attr()")
        return [env.get_attr(name) for env in self.envs]

    def set_attr(self, name: str, values: list[Any] | Any) -> None:
        """Change an attribute of every sub-env (see ``VecEnv.set_attr``).

        Raises:
            AttributeError: There is no such name; nothing is added.
            ValueError: A list has another length than ``num_envs``.
        """
        self._require_open("set_attr()")
        spread = inputs.spread_values(name, values, self.num_envs)
        for sub_env in self._sub_envs:  # all have it, or none is changed
            sub_env.require_attr(name)
        for env, value in zip(self.envs, spread, strict=True):
            env.set_attr(name, value)

    def close(self) -> None:
        """Close all sub-environments; closing again does nothing.

        Every one is closed even if closing another raises; the first such error is re-raised afterwards.
        """
        if not self._closed:
            self._closed = True
            close_envs(self.envs)
