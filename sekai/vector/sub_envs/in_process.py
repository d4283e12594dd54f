"""InProcessVecEnv: what the backends whose sub-envs live in this process share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.env import Env
from sekai.snapshots.snapshot import Kept
from sekai.types import ActType, ObsType, OptionsType, SeedType
from sekai.vector.base import VecEnv
from sekai.vector.sub_envs.restoring import keep_envs, read_envs, restore_all
from sekai.vector.sub_envs.sub_env import (
    EnvFn,
    RowBatch,
    build_sub_envs,
    check_env_fns,
    close_envs,
    masks_of_sub_envs,
)


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
        self._shown = layout.allocate(self.observation_space, self.num_envs)  # of which results are copies

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
        return RowBatch.around(self.observation_space, self._shown, self.num_envs)

    def _observe_now(self) -> Any:
        return layout.copy_batch(self._shown)

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            self.envs[row].reseed(seed)

    @property
    def _snapshot_market(self) -> tuple[str, ...]:
        return (self._sub_envs[0].kind,)

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        states = [self._sub_envs[row].keep() for row in rows.tolist()]
        return keep_envs(states, self.observation_space, self._shown, rows, is_whole)

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        states, shown = read_envs(kept, self.observation_space, len(rows), keep_parameters)
        sub_envs = [self._sub_envs[row] for row in rows.tolist()]
        prepared = [(sub_env, sub_env.put_back(state)) for sub_env, state in zip(sub_envs, states, strict=True)]

        def commit() -> None:
            restore_all(prepared, any(sub_env.may_refuse for sub_env in sub_envs))
            layout.put(self._shown, rows, shown)

        return commit

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array([sub_env.frozen for sub_env in self._sub_envs], dtype=np.bool_)

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        return [self._sub_envs[row].restart_options() for row in rows.tolist()]

    def action_mask(self) -> Any:
        """Which actions make sense now in each sub-env (see ``VecEnv.action_mask``)."""
        return masks_of_sub_envs(self)

    @property
    def has_action_mask(self) -> bool:
        """Whether a sub-env has an ``action_mask()``."""
        return any(env.has_action_mask for env in self.envs)

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method (or read an attribute) on each sub-env, found through its wrapper stack.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call()")
        return [sub_env.call(method, args, kwargs) for sub_env in self._sub_envs]

    def call_at(self, indices: Any, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """``call()`` for some sub-envs alone.

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("call_at()")
        rows = inputs.check_rows(indices, self.num_envs, "call_at(indices, ...)", distinct=True)
        return [self._sub_envs[row].call(method, args, kwargs) for row in rows.tolist()]

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        """An attribute of sub-envs (see ``VecEnv.get_attr``).

        Raises:
            AttributeError: There is no such name.
        """
        self._require_open("get_attr()")
        rows = inputs.check_rows(indices, self.num_envs, "get_attr(indices=...)")
        return [self.envs[row].get_attr(name) for row in rows.tolist()]

    def set_attr(self, name: str, values: list[Any] | Any, indices: Any = None, *, force: bool = False) -> None:
        """Change an attribute of sub-envs (see ``VecEnv.set_attr``).

        Raises:
            AttributeError: There is no such name; nothing is added.
            ValueError: A list has another length than there are sub-envs to change.
        """
        self._require_open("set_attr()")
        rows = inputs.check_rows(indices, self.num_envs, "set_attr(indices=...)", distinct=True).tolist()
        spread = inputs.spread_values(name, values, len(rows), "num_envs" if indices is None else "indices")
        for row in () if force else rows:  # all have it, or none is changed
            self._sub_envs[row].require_attr(name)
        for row, value in zip(rows, spread, strict=True):
            self._sub_envs[row].set_attr(name, value, force)

    def close(self) -> None:
        """Close all sub-envs; closing again does nothing.

        Every one is closed even if closing another raises; the first such error is re-raised afterwards.
        """
        if not self._closed:
            self._closed = True
            close_envs(self.envs)
