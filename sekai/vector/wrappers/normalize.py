"""Normalising the observations and the rewards of a VecEnv."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.batching.infos import FINAL_OBSERVATION
from sekai.normalization import DiscountedReturn, ObservationNormalizer
from sekai.results import VecResetResult, VecStepResult
from sekai.stats import RunningMeanStd, StatsKind
from sekai.types import ActType, ObsType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecObservationWrapper, VecWrapper


class VecNormalizeObservation(VecObservationWrapper[Any, ActType, Any]):
    """Centres and scales observations by what all sub-envs have shown so far.

    What ``NormalizeObservation`` is for one env. In any space, every Box is normalised, a MaskedBox in the slots that
    are taken, and the rest left as it is. Observations of resets count, but not those of frozen sub-envs, nor samples
    that hold a value that is not finite. The last ones of episodes, in infos, are normalised without counting.

    Args:
        venv: The VecEnv to wrap.
        epsilon: Added to the variance before its square root divides.
        stats: "running" for mean and variance of everything seen, "ewm" for exponentially weighted ones.
        halflife: Vector steps after which an observation counts half ("ewm" only).
        clip: Normalised values are clipped to [-clip, clip]; None for no clipping.

    Attributes:
        update_running_mean: Set it to False to freeze the statistics.
    """

    def __init__(
        self,
        venv: VecEnv[Any, ActType],
        epsilon: float = 1e-08,
        *,
        stats: StatsKind = "running",
        halflife: float = 1000.0,
        clip: float | None = None,
    ) -> None:
        super().__init__(venv)
        self._normalizer = ObservationNormalizer(
            venv.observation_space, kind=stats, halflife=halflife, epsilon=epsilon, clip=clip
        )
        self.observation_space = self._normalizer.space
        self.update_running_mean = True

    snapshot_ignores = ("_normalizer", "update_running_mean")

    def _snapshot_others(self) -> dict[str, Any]:
        own = {name: getattr(self._normalizer, name) for name in ("kind", "epsilon", "clip")}
        return {**super()._snapshot_others(), **own}

    def _snapshot_whole(self) -> dict[str, Any]:
        return {"statistics": self.state_dict()}

    def _restore_whole(self, whole: dict[str, Any]) -> None:
        self.load_state_dict(whole["statistics"])

    def observation(self, obs: Any) -> Any:
        """Update the statistics with a batch of observations, unless they are frozen, and normalise it."""
        if self.update_running_mean:
            if self._repeated is None:
                return self._normalizer.learn_and_normalize(obs, None, self._buffers)[0]
            self._normalizer.update(obs, ~self._repeated)
        return self._normalizer.normalize(obs, self._buffers)

    def final_observation(self, obs: Any) -> Any:
        """Normalise one terminal observation, without updating the statistics."""
        batch = layout.concatenate(self.venv.observation_space, [obs])
        return next(layout.iterate(self.observation_space, self._normalizer.normalize(batch), 1))

    def _final_observations(self, batch: Any, n: int) -> Any:
        return self._normalizer.normalize(batch)

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        own, kit, infos = type(self), VecNormalizeObservation, result.infos
        hooks = "observation", "_final_observations", "_observe_step", "_transform_finals"
        is_own = all(getattr(own, hook) is getattr(kit, hook) for hook in hooks)
        if not (is_own and self.update_running_mean) or not (
            isinstance(infos, InfoList) and infos.has_final_observations and infos.done.size
        ):
            return super()._after_step(result, frozen)
        # Terminal observations in the same call: by themselves a few of them take as long as thousands of the others.
        batch = self._taken_in(result.observations, self.num_envs)
        finals = self._taken_in(infos.final(FINAL_OBSERVATION), infos.done.size)
        observations, finals = self._normalizer.learn_and_normalize(batch, finals, self._buffers)
        observations = layout.own_batch(observations, self._buffers)
        self._replace_finals(infos, finals)
        return VecStepResult(observations, result.rewards, result.terminated, result.truncated, infos)

    @property
    def obs_rms(self) -> Any:
        """The running statistics (nested like the observation space)."""
        return self._normalizer.stats

    def state_dict(self) -> Any:
        """The normalisation statistics as plain data."""
        return self._normalizer.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Restore statistics saved by ``state_dict()``, of any number of sub-envs.

        Raises:
            ValueError: They are of another shape or kind.
        """
        self._normalizer.load_state_dict(state)


class VecNormalizeReward(VecWrapper[ObsType, ActType, ObsType, ActType]):
    """Divides rewards by the standard deviation of the discounted returns that led up to them.

    What ``NormalizeReward`` is for one env, after ``VecNormalize`` of OpenAI baselines. A return begins again with its
    sub-env's next episode. Frozen sub-envs do not count, and their reward stays 0. A reward that is
    not finite does not count either, and is shown as it comes.

    Args:
        venv: The VecEnv to wrap.
        gamma: The discount of the return.
        epsilon: Added to the variance before its square root divides.

    Attributes:
        update_running_mean: Set it to False to freeze the statistics.
    """

    def __init__(self, venv: VecEnv[ObsType, ActType], gamma: float = 0.99, epsilon: float = 1e-08) -> None:
        super().__init__(venv)
        self._returns = DiscountedReturn(self.num_envs, gamma, epsilon)
        self.update_running_mean = True

    snapshot_ignores = ("_returns", "update_running_mean")

    def _snapshot_others(self) -> dict[str, Any]:
        return {**super()._snapshot_others(), "gamma": self._returns.gamma, "epsilon": self._returns.epsilon}

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        return super()._snapshot_rows(indices) | {"returns": self._returns.returns.take(indices)}

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        self._returns.returns[indices] = rows.pop("returns")
        super()._restore_rows(indices, rows)

    def _snapshot_whole(self) -> dict[str, Any]:
        return {"statistics": self.state_dict()}

    def _restore_whole(self, whole: dict[str, Any]) -> None:
        self.load_state_dict(whole["statistics"])

    @property
    def return_rms(self) -> RunningMeanStd:
        """The running statistics of the discounted returns."""
        return self._returns.return_rms

    @property
    def returns(self) -> NDArray[np.float64]:
        """float64 (num_envs,), a copy: the discounted return of each sub-env's episode so far."""
        return np.array(self._returns.returns)

    def state_dict(self) -> Any:
        """The normalisation statistics as plain data."""
        return self._returns.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Restore statistics saved by ``state_dict()``, of any number of sub-envs.

        Raises:
            ValueError: They are of another shape or kind.
        """
        self._returns.load_state_dict(state)

    def _after_step(self, result: VecStepResult[Any], frozen: NDArray[np.bool_] | None) -> VecStepResult[Any]:
        live = None if frozen is None else ~frozen
        rewards = self._returns.step(result.rewards, result.dones, live, learn=self.update_running_mean)
        return VecStepResult(result.observations, rewards, result.terminated, result.truncated, result.infos)

    def _after_reset(self, result: VecResetResult[Any]) -> VecResetResult[Any]:
        self._returns.reset()
        return result

    def _after_reset_some(self, result: VecResetResult[Any], rows: NDArray[np.intp]) -> VecResetResult[Any]:
        self._returns.returns[rows] = 0.0
        return result
