"""Step a vector environment with a policy and keep account of every episode; ``sekai.rollout`` keeps every step too."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.info_list import InfoList
from sekai.estimates import estimate_mean
from sekai.rollouts import history_clock

if TYPE_CHECKING:
    from sekai.vector import VecEnv


@dataclass
class EpisodeLog:
    """The episodes that have ended, in the order of the step and then of the sub-env.

    Attributes:
        num_envs: Number of sub-envs.
        limit: How many episodes to keep at most; None for all.
        clock: The key of the info that says where on one history a sub-env is; None where there is no such history,
            and as soon as an episode ends without that info.
        count: How many have ended, those beyond the limit included.
    """

    num_envs: int
    limit: int | None = None
    clock: str | None = None
    count: int = 0
    _ended: list[tuple[NDArray[Any], ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)

    def add(
        self,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> int:
        """Take one step of every sub-env into account.

        Args:
            rewards: float64 (N,).
            terminated: bool (N,).
            truncated: bool (N,).
            infos: What the step told.

        Returns:
            How many episodes ended.
        """
        self._returns += rewards
        self._lengths += 1
        done = np.flatnonzero(terminated | truncated)
        if len(done):
            began = np.zeros(len(done), np.int64)
            if self.clock is not None:
                told = infos.column(self.clock) if isinstance(infos, InfoList) else None
                now = [infos[row].get(self.clock) for row in done.tolist()] if told is None else told[done].tolist()
                if None in now:
                    self.clock = None
                else:
                    began = np.asarray(now) - self._lengths[done]
            self._ended.append((self._returns[done], self._lengths[done], terminated[done], truncated[done], began))
            self._returns[done] = 0.0
            self._lengths[done] = 0
            self.count += len(done)
        return len(done)

    def summary(self) -> dict[str, Any]:
        """Statistics of the episodes kept; NaN where there are too few of them."""
        columns = [np.concatenate(parts)[: self.limit] for parts in zip(*self._ended, strict=True)]
        returns, lengths, terminated, truncated, began = columns or [np.empty(0, np.int64)] * 5
        by_history = self.clock is not None
        mean = estimate_mean(returns, began, lengths) if by_history else estimate_mean(returns)
        return {
            "episodes": len(returns),
            "return_mean": mean.value,
            "return_sd": float(returns.std(ddof=1)) if len(returns) > 1 else math.nan,
            "return_standard_error": mean.standard_error,
            "return_standard_error_by": "blocks of the history" if by_history else "independent episodes",
            "length_mean": _mean(lengths),
            "terminated_share": _mean(terminated),
            "truncated_share": _mean(truncated),
        }


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else math.nan


@dataclass
class Run:
    """What came of a run.

    Attributes:
        log: The episodes.
        steps: Steps of the whole vector.
        left_out: How many steps at the beginning may compile kernels, and do not count in the speed.
        first_step_seconds: Time in ``reset()`` and those steps.
        step_seconds: Time in the later calls of ``step()``; neither the policy nor the account is in it.
        interrupted: Whether Ctrl-C ended it.
    """

    log: EpisodeLog
    steps: int = 0
    left_out: int = 1
    first_step_seconds: float = math.nan
    step_seconds: float = 0.0
    interrupted: bool = False

    @property
    def env_steps_per_second(self) -> float:
        """Steps of sub-envs per second of ``step()``, of those that are not left out; NaN where there are none."""
        return (self.steps - self.left_out) * self.log.num_envs / self.step_seconds if self.step_seconds else math.nan


def roll_out(
    vec: VecEnv[Any, Any],
    policy: Callable[[Any], Any],
    *,
    seed: int | None,
    steps: int | None,
    episodes: int | None,
    progress: Callable[[int], Any],
    has_kernels: bool = False,
) -> Run:
    """Run a policy until enough steps are made or episodes have ended, or Ctrl-C.

    Args:
        vec: A VecEnv with autoreset on.
        policy: From a batch of observations to a batch of actions.
        seed: Of the first reset.
        steps: Steps of the whole vector; None for no such end.
        episodes: Episodes, of which exactly the first so many are kept; None for no such end.
        progress: Called after each step with the steps, or else the episodes, that it added.
        has_kernels: Whether steps may be compiled twice, for one thread and for several. The first step then runs on
            several threads where any later one may, and the second on one; the speed is that of the steps after them.
    """
    run = Run(EpisodeLog(vec.num_envs, limit=episodes, clock=history_clock(vec)), left_out=2 if has_kernels else 1)
    try:
        start = perf_counter()
        observations = vec.reset(seed=seed).observations
        run.first_step_seconds = perf_counter() - start
        while (steps is None or run.steps < steps) and (episodes is None or run.log.count < episodes):
            actions = policy(observations)
            start = perf_counter()
            with _on_threads() if has_kernels and run.steps == 0 else nullcontext():
                result = vec.step(actions)
            elapsed = perf_counter() - start
            if run.steps < run.left_out:
                run.first_step_seconds += elapsed
            else:
                run.step_seconds += elapsed
            run.steps += 1
            ended = run.log.add(result.rewards, result.terminated, result.truncated, result.infos)
            observations = result.observations
            progress(1 if episodes is None else ended)
    except KeyboardInterrupt:
        run.interrupted = True
    return run


def _on_threads() -> AbstractContextManager[None]:
    """Kernels are spread over threads where they ever may be; without any there is nothing to be imported for it."""
    threads = sys.modules.get("sekai.kernels.threads")
    return nullcontext() if threads is None else threads.always_used()
