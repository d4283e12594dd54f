"""SyncVecEnv: the sub-envs one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.inputs import AutoresetOptions
from sekai.results import VecResetResult, VecStepResult
from sekai.types import ActType, ObsType, OptionsType, SeedType
from sekai.vector.sub_envs.in_process import InProcessVecEnv
from sekai.vector.sub_envs.sub_env import EnvFn


class SyncVecEnv(InProcessVecEnv[ObsType, ActType]):
    """Sub-envs one after another, in this process: the right one where a step takes less than a message.

    Args:
        env_fns: Each gives one sub-env when it is called. Where one fails, those built before it are closed.
        autoreset: Whether the step that ends an episode begins the next one (see ``VecEnv``).
        copy: Taken for the sake of older code, and without effect: observations are the caller's in any case.
        autoreset_options: The options of the resets that autoreset makes: a dict, or a callable of the sub-env's
            index; None passes none.

    Raises:
        SpaceMismatch: The sub-envs' spaces differ.
        TypeError: An env_fn gives no Env.
        ValueError: There is no env_fn, or two gave the same object.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        autoreset: bool = True,
        copy: bool = True,
        autoreset_options: AutoresetOptions = None,
    ) -> None:
        super().__init__(env_fns, autoreset=autoreset, autoreset_options=autoreset_options)

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs, in order, with a batch of actions (see ``VecEnv.step``).

        An exception of a sub-env propagates as it is: those before it have been stepped, those after it have not.
        """
        row_actions = self._step_inputs(actions)
        batch = self._new_batch()
        batch.step_sub_envs(self._sub_envs, row_actions)
        return batch.step_result()

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs, in order (see ``VecEnv.reset``)."""
        row_inputs = self._reset_inputs(seed, options)
        batch = self._new_batch()
        for sub_env, (row_seed, row_options) in zip(self._sub_envs, row_inputs, strict=True):
            batch.write_reset(sub_env.index, sub_env.reset(row_seed, row_options))
        self._has_reset = True
        return batch.reset_result()

    def _reset_some(self, rows: NDArray[np.intp], inputs: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        batch = self._new_batch()
        for row, (seed, options) in zip(rows.tolist(), inputs, strict=True):
            batch.write_reset(row, self._sub_envs[row].reset(seed, options))
        return batch.rows_result(rows)
