"""``Portfolio-v0`` by what it is told: along histories or with a model, and taking any weights or refusing some."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs
from sekai.errors import InvalidAction
from sekai.results import VecStepResult
from sekai.vector import KernelVecEnv
from sekai.vector.kernel import signature_of_either
from sims.checks import check_choice
from sims.portfolio.env import PortfolioVecEnv
from sims.portfolio.simulated import SimulatedPortfolioVecEnv
from sims.prices import check_class, is_nearly_model

#: What becomes of weights beyond ``max_leverage``, and of those of assets that are not listed.
LIMITS, UNLISTED = ("scale", "refuse"), ("zero", "refuse")
#: By how much, relatively, float32 weights may sum to more than they must.
_ROUNDING = 1e-6


class _Strict(KernelVecEnv[NDArray[np.float32], Any]):
    """A market that refuses weights before it steps."""

    def __init__(self, num_envs: int, *, limits: str = "refuse", unlisted: str = "refuse", **others: Any) -> None:
        if others.get("actions", "weights") != "weights":
            raise ValueError(
                f"actions={others['actions']!r}: expected limits='scale' and unlisted='zero', since only weights are "
                "refused"
            )
        self.limits = check_choice("limits", limits, LIMITS)
        self.unlisted = check_choice("unlisted", unlisted, UNLISTED)
        super().__init__(num_envs, **others)

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs with a batch of actions (see ``VecEnv.step``).

        Raises:
            InvalidAction: An action breaks a limit, or buys an asset that is not listed.
        """
        self._require_reset()
        actions = inputs.check_actions(self.action_space, self.num_envs, actions)
        weights = np.where(self.frozen[:, None], 0.0, np.abs(actions.astype(np.float64)))
        weights = self._listed_of(weights, actions)
        if self.limits == "refuse":
            gross, most = weights.sum(axis=1), self.params.max_leverage
            wrong = gross > most * (1.0 + _ROUNDING)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise InvalidAction(
                    f"step(actions): expected weights that without their signs sum to at most {most:g} "
                    f"(max_leverage), got {actions[row]}, {gross[row]:.7g}{self.where(row)}"
                )
        return super().step(actions)

    def _listed_of(self, weights: NDArray[np.float64], actions: NDArray[np.float32]) -> NDArray[np.float64]:
        """The weights that count. Of a model, all assets are listed."""
        return weights


class StrictPortfolioVecEnv(_Strict, PortfolioVecEnv):
    """A ``PortfolioVecEnv`` that refuses weights which that one scales, or makes 0.

    A step refuses them with ``InvalidAction``, before anything has changed. They are looked at in plain Python, so that
    a rollout takes it step by step.

    Args:
        num_envs: Number of accounts.
        limits: "refuse" weights that without their signs sum to more than ``max_leverage`` (beyond the rounding of
            float32, 1e-6 of it), or "scale" them.
        unlisted: "refuse" weights other than 0 of assets that are not listed in the last bar seen, or make them
            "zero". A position in one that pauses stays in any case, and one in an asset that has had its last close is
            sold in any case.
        **others: What ``PortfolioVecEnv`` takes.

    Raises:
        TypeError: As for ``PortfolioVecEnv``.
        ValueError: As for ``PortfolioVecEnv``.
        OSError: As for ``PortfolioVecEnv``.
    """

    def _listed_of(self, weights: NDArray[np.float64], actions: NDArray[np.float32]) -> NDArray[np.float64]:
        bars = self.bar
        wrong = (weights > 0.0) & ~self.panel.listed[bars]
        if self.unlisted == "refuse" and wrong.any():
            row, k = np.argwhere(wrong)[0].tolist()
            raise InvalidAction(
                f"step(actions): expected a weight of 0 of {self.assets[k]!r}, which is not listed in bar {bars[row]}, "
                f"got {actions[row, k]}{self.where(row)}"
            )
        return np.where(wrong, 0.0, weights)


class StrictSimulatedPortfolioVecEnv(_Strict, SimulatedPortfolioVecEnv):
    """A ``SimulatedPortfolioVecEnv`` that refuses weights which that one scales; see ``StrictPortfolioVecEnv``.

    Args:
        num_envs: Number of accounts.
        limits: See ``StrictPortfolioVecEnv``.
        unlisted: See ``StrictPortfolioVecEnv``; all assets are listed.
        **others: What ``SimulatedPortfolioVecEnv`` takes.

    Raises:
        TypeError: As for ``SimulatedPortfolioVecEnv``.
        ValueError: As for ``SimulatedPortfolioVecEnv``.
    """


def make_portfolio(
    num_envs: int, *, prices: Any = None, limits: str = "scale", unlisted: str = "zero", **params: Any
) -> KernelVecEnv[Any, Any]:
    """``Portfolio-v0``: along histories or with a price model; taking any weights, or refusing some.

    Args:
        num_envs: Number of accounts.
        prices: A model for a ``SimulatedPortfolioVecEnv``; what ``PortfolioVecEnv`` reads for that.
        limits: What becomes of weights that without their signs sum to more than ``max_leverage``: "scale" them down,
            all by the same factor, or "refuse" them.
        unlisted: What becomes of weights of assets that are not listed: "zero", or "refuse" them.
        **params: What that class takes.

    Raises:
        TypeError: As of the class.
        ValueError: As of the class.
        OSError: As of the class.
    """
    check_choice("limits", limits, LIMITS)
    check_choice("unlisted", unlisted, UNLISTED)
    is_drawn = is_nearly_model(prices)
    if is_drawn:
        check_class("prices", prices, several=True)
    if (limits, unlisted) == ("scale", "zero"):
        return (SimulatedPortfolioVecEnv if is_drawn else PortfolioVecEnv)(num_envs, prices=prices, **params)
    made = StrictSimulatedPortfolioVecEnv if is_drawn else StrictPortfolioVecEnv
    return made(num_envs, prices=prices, limits=limits, unlisted=unlisted, **params)


def _signature() -> inspect.Signature:
    """What any of the classes takes."""
    whole = signature_of_either(PortfolioVecEnv, StrictPortfolioVecEnv, SimulatedPortfolioVecEnv)
    defaults = {"limits": LIMITS[0], "unlisted": UNLISTED[0]}
    given = [each.replace(default=defaults.get(name, each.default)) for name, each in whole.parameters.items()]
    return whole.replace(parameters=given)


# Of an argument that it does not take, errors name those that it does.
make_portfolio.__signature__ = _signature()  # type: ignore[attr-defined]
