"""Policies to measure a trader against. Each maps a batch of observations to a batch of actions.

``Policy.for_env(vec)`` builds one for a ``TradingVecEnv``, on any backend and behind any wrapper that leaves its
observations and actions as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box, Discrete

#: How far rounding to float32 moves a number, as a fraction of it; with a little room for float64's own.
_HALF_ULP = 0.5001 * float(np.finfo(np.float32).eps)

PolicyT = TypeVar("PolicyT", bound="ConstantWeight")


def takes_discrete_actions(vec: Any) -> bool:
    """Whether a trading env takes 0, 1, 2 (short, flat, long) rather than a weight.

    Args:
        vec: A VecEnv.

    Raises:
        ValueError: Its action space is neither ``Discrete(3)`` nor a ``Box`` of shape (1,).
    """
    space = vec.action_space
    if isinstance(space, Discrete) and (space.n, space.start) == (3, 0):
        return True
    if isinstance(space, Box) and space.shape == (1,):
        return False
    raise ValueError(f"policy: expected the action space Discrete(3) or a Box of shape (1,), got {space}")


def weights_to_actions(weights: NDArray[np.float64], discrete: bool) -> NDArray[Any]:
    """The actions that ask for these weights.

    Args:
        weights: (N,), in [-1, 1]; one of -1, 0, 1 if ``discrete``.
        discrete: Whether the env takes 0, 1, 2.

    Returns:
        int64 (N,) if ``discrete``, else float32 (N, 1).
    """
    return weights.astype(np.int64) + 1 if discrete else weights.astype(np.float32)[:, None]


@dataclass(frozen=True)
class ConstantWeight:
    """One and the same weight, always; a subclass says which.

    Attributes:
        discrete: Whether the env takes 0, 1, 2.
    """

    discrete: bool
    weight: ClassVar[float]

    @classmethod
    def for_env(cls: type[PolicyT], vec: Any) -> PolicyT:
        """The policy for this VecEnv."""
        return cls(takes_discrete_actions(vec))

    def __call__(self, observations: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Actions for observations (N, lookback + 1)."""
        return weights_to_actions(np.full(len(observations), self.weight), self.discrete)


class BuyAndHold(ConstantWeight):
    """All in, always."""

    weight = 1.0


class AlwaysFlat(ConstantWeight):
    """All cash, always."""

    weight = 0.0


@dataclass(frozen=True)
class Momentum:
    """Long while the asset has risen over the last ``window`` bars, else flat, or short if ``short``.

    Time-series momentum in the sense of Moskowitz, Ooi and Pedersen (2012), "Time series momentum", Journal of
    Financial Economics 104: the position follows the sign of the asset's own past return,
    ``prod(1 + r) - 1`` over the window. A return of 0 leaves it flat: observed returns are rounded to float32, so that
    one is 0 which is no more than that rounding may make of it (some 1e-8 of a window of 32 days).

    Attributes:
        discrete: Whether the env takes 0, 1, 2.
        window: Bars, at least 1 and at most the env's lookback.
        short: Whether to be short after a fall.
    """

    discrete: bool
    window: int
    short: bool = False

    @classmethod
    def for_env(cls, vec: Any, window: int | None = None, short: bool = False) -> Momentum:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv.
            window: Bars; None for the env's whole lookback.
            short: Whether to be short after a fall.

        Raises:
            ValueError: The window is below 1 or longer than the lookback.
        """
        lookback = int(vec.get_attr("lookback")[0])
        if window is None:
            window = lookback
        if not 1 <= window <= lookback:
            raise ValueError(f"momentum: expected a window of 1 to {lookback} bars (lookback), got {window}")
        return cls(takes_discrete_actions(vec), window, short)

    def __call__(self, observations: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Actions for observations (N, lookback + 1)."""
        returns = np.asarray(observations, dtype=np.float64)[:, -1 - self.window : -1]
        factors = 1.0 + returns
        growth = np.prod(factors, axis=1)
        # Each return is off by up to half a unit in its last place, and moves the product by so much over its factor.
        with np.errstate(all="ignore"):  # a return of -1
            rounding = _HALF_ULP * growth * np.sum(np.abs(returns) / factors, axis=1)
        change = growth - 1.0
        weights = np.where(np.abs(change) <= rounding, 0.0, np.sign(change))
        return weights_to_actions(weights if self.short else np.maximum(weights, 0.0), self.discrete)
