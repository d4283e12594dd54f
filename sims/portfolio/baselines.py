"""Policies to measure a portfolio against. Each maps a batch of observations to a batch of weights.

``Policy.for_env(vec)`` builds one for a ``PortfolioVecEnv``, on any backend and behind any wrapper that leaves its
observations and actions as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count
from sekai.vector import Randomized
from sims.checks import check_number, check_range
from sims.policies import RowPolicy
from sims.portfolio import rules
from sims.prices import CorrelatedGeometric, Geometric
from sims.prices.correlated import check_correlation

PolicyT = TypeVar("PolicyT", bound="WindowPolicy")


@dataclass(frozen=True, kw_only=True)
class PortfolioPolicy(RowPolicy):
    """A policy of weights.

    Attributes:
        assets: The number K of assets.
        lookback: Bars in an observation.
        tells_listed: Whether an observation tells for how long assets are listed.
        max_leverage: The most that weights without their signs may sum to.
        shorts: Whether weights may be negative.
    """

    assets: int
    lookback: int
    tells_listed: bool = False
    max_leverage: float = 1.0
    shorts: bool = False
    dtype = np.float32

    def __post_init__(self) -> None:
        name = type(self).__name__
        for each in ("assets", "lookback"):
            check_count(getattr(self, each), f"{name}({each})")
        check_range(f"{name}(max_leverage)", check_number(self.max_leverage, f"{name}(max_leverage)"), above=0.0)

    @property
    def width(self) -> int:  # type: ignore[override]
        """Numbers of an action, one of each asset."""
        return self.assets

    @classmethod
    def for_env(cls, vec: Any) -> Any:
        """The policy for this VecEnv."""
        return cls(**_read(vec))

    def _layout(self, window: int | None = None) -> rules.Layout:
        window = self.lookback if window is None else window
        return rules.Layout(
            self.assets, self.lookback, int(self.tells_listed), float(self.max_leverage), int(self.shorts), window
        )


class EqualWeight(PortfolioPolicy):
    """The same weight of each asset that is listed, rebalanced in every step."""

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.equal_row, self._layout()


class BuyAndHold(PortfolioPolicy):
    """The same weight of each asset that is listed at the start, and then whatever it comes to.

    It asks for the weights it sees, rounded to float32, so that some 1e-8 of the wealth is traded in each step; where
    trades are at opens, also by as much as weights move from the close to them. What is got for an asset that leaves
    stays in cash; once all have left, it begins anew with those that are listed then.
    """

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.hold_row, self._layout()


@dataclass(frozen=True, kw_only=True)
class WindowPolicy(PortfolioPolicy):
    """A policy that looks at the last returns.

    Attributes:
        window: Bars, at least 1 and at most ``lookback``; None for all.
    """

    window: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is None:
            object.__setattr__(self, "window", self.lookback)
        if not 1 <= check_count(self.window, f"{type(self).__name__}(window)") <= self.lookback:
            raise ValueError(
                f"{type(self).__name__}(window): expected 1 to {self.lookback} bars (lookback), got {self.window}"
            )

    @classmethod
    def for_env(cls: type[PolicyT], vec: Any, window: int | None = None) -> PolicyT:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv.
            window: Bars; None for the env's whole lookback.

        Raises:
            ValueError: The window is below 1 or longer than the lookback.
        """
        return cls(**_read(vec), window=window)


class Momentum(WindowPolicy):
    """An equal share of each asset that has risen over the window, and where there are shorts, less of one that fell.

    Time-series momentum in the sense of Moskowitz, Ooi and Pedersen (2012), "Time series momentum", Journal of
    Financial Economics 104, as ``sims.trading.Momentum``, with a K-th of the wealth for each of K assets. What is
    neither bought nor sold stays in cash, and an asset without a close in each bar of the window is neither.
    """

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.momentum_row, self._layout(self.window)


class MinimumVariance(WindowPolicy):
    """The weights of which the last returns had the least sample variance (Markowitz 1952, "Portfolio selection").

    Without shorts they are the best of weights of at least 0, and sum to 1, or to ``max_leverage`` if that is less.
    With shorts they are the best of all that sum to 1; if without their signs those sum to more than ``max_leverage``,
    all are scaled down to that, and sum to less than 1. Either is found exactly, but for rounding, after a millionth of
    the mean variance has been added to each, so that there is one solution.

    An asset counts if it has a close in each bar of the window, and the one before; where none does, all stays in cash.
    Where no price has moved, the weights are equal; one that does not move beside others that do takes nearly all.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.assets > rules.MOST_ASSETS:
            raise ValueError(f"MinimumVariance: expected at most {rules.MOST_ASSETS} assets, got {self.assets}")
        if self._layout(self.window).window < 2:
            raise ValueError("MinimumVariance(window): expected at least 2 bars, of which there is a variance, got 1")

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.minimum_variance_row, self._layout(self.window)


@dataclass(frozen=True, kw_only=True, eq=False)
class Merton(PortfolioPolicy):
    """The constant weights that are best in the long run for known drifts and volatilities.

    ``C^-1 (mu - r) / gamma`` with the covariances ``C``, of assets that follow geometric Brownian motions and are
    traded continuously without costs (Merton 1969, "Lifetime portfolio selection under uncertainty", Review of
    Economics and Statistics 51). A risk aversion of 1 is log utility, whose weights are Kelly's: they make wealth
    grow fastest, by ``r + (mu - r)' C^-1 (mu - r) / 2`` (Kelly 1956, "A new interpretation of information rate").

    Attributes:
        drift: ``mu``, of each asset: mean growth as a fraction per time.
        volatility: Of each asset, per square root of time, above 0.
        correlation: (K, K), symmetric, 1 on the diagonal, positive definite; None for none.
        rate: ``r`` of cash, per time.
        risk_aversion: ``gamma``, above 0.
        weights: float64 (K,), what follows. Where the env has no shorts, 0 is asked for in place of what is below it;
            and what without its signs sums to more than the leverage is asked for scaled down, all by the same factor.

    Raises:
        ValueError: A number is out of range, there is not one for each asset, or the correlations are singular.
    """

    drift: Any
    volatility: Any
    correlation: Any = None
    rate: float = 0.0
    risk_aversion: float = 1.0
    weights: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        drift, volatility = (_per_asset(getattr(self, each), each, self.assets) for each in ("drift", "volatility"))
        rate = check_number(self.rate, "Merton(rate)")
        aversion = check_number(self.risk_aversion, "Merton(risk_aversion)")
        check_range("Merton(risk_aversion)", aversion, above=0.0)
        for each in volatility:
            check_range("Merton(volatility)", each, above=0.0)
        correlation = np.eye(self.assets) if self.correlation is None else np.asarray(self.correlation, np.float64)
        if correlation.shape != (self.assets, self.assets):
            raise ValueError(
                f"Merton(correlation): expected the shape {(self.assets, self.assets)}, got {correlation.shape}"
            )
        try:
            check_correlation(correlation)
        except ValueError as error:
            raise ValueError(f"Merton({str(error).replace(':', '):', 1)}") from None
        if np.linalg.matrix_rank(correlation, hermitian=True) < self.assets:
            raise ValueError("Merton(correlation): expected a matrix that can be inverted, got one without full rank")
        weights = np.linalg.solve(correlation * np.outer(volatility, volatility), drift - rate) / aversion
        object.__setattr__(self, "weights", weights)

    @classmethod
    def for_env(cls, vec: Any, **known: Any) -> Merton:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv.
            **known: The other attributes. Those that are not given are taken from the env: drifts, volatilities and
                correlations from its model, if that is a ``CorrelatedGeometric`` or a ``Geometric``, and the rate from
                its ``cash_rate`` over its ``bar_time``. Of histories, whose bars are of no known time, the rate is one
                per bar, and drifts and volatilities have to be too, unless a rate is given.

        Raises:
            ValueError: As for the class; or drifts and volatilities are not given, which no history tells; or what is
                taken from the env differs between sub-envs or episodes, as these weights do not.
        """
        model = vec.get_attr("prices")[0]
        found: dict[str, Any] = {}
        if not {"drift", "volatility"} <= set(known) and hasattr(model, "derive"):
            if type(model) not in (Geometric, CorrelatedGeometric) or getattr(model, "jump_rate", 0.0):
                raise ValueError(f"merton: expected a model of geometric Brownian motions without jumps, got {model}")
        if type(model) in (Geometric, CorrelatedGeometric):
            names = [each for each in ("drift", "volatility", "correlation") if hasattr(model, each)]
            found = {name: _constant(vec, f"prices.{name}") for name in names if name not in known}
        if "rate" not in known:
            found["rate"] = _constant(vec, "cash_rate") / (
                _constant(vec, "bar_time") if hasattr(model, "derive") else 1.0
            )
        found |= known
        if "drift" not in found or "volatility" not in found:
            raise ValueError(
                "merton: expected drift and volatility of each asset, Merton.for_env(vec, drift=..., volatility=...), "
                "which a history does not tell"
            )
        return cls(**_read(vec), **found)

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        weights = self.weights if self.shorts else np.maximum(self.weights, 0.0)
        weights = weights / max(1.0, float(np.abs(weights).sum()) / self.max_leverage)
        rounded = weights.astype(np.float32)
        most = np.float32(self.max_leverage)  # the box ends there, whichever way that was rounded
        return rules.constant_row, rules.Constant(np.clip(rounded, -most, most))


#: Builders of the policies offered by name.
POLICIES: dict[str, Callable[..., Any]] = {
    "equal-weight": EqualWeight.for_env,
    "buy-and-hold": BuyAndHold.for_env,
    "momentum": Momentum.for_env,
    "minimum-variance": MinimumVariance.for_env,
}
#: Those and what takes drifts and volatilities from the env's model.
MODEL_POLICIES: dict[str, Callable[..., Any]] = {**POLICIES, "merton": Merton.for_env}


def _read(vec: Any) -> dict[str, Any]:
    """What a policy has to know of an env."""
    if (actions := vec.get_attr("actions")[0]) != "weights":
        raise ValueError(f"policies of Portfolio-v0: expected an env with actions='weights', got {actions!r}")
    told = {name: vec.get_attr(name)[0] for name in ("lookback", "shorts", "max_leverage")}
    (assets,), (seen,) = vec.action_space.shape, vec.observation_space.shape
    told = {
        "lookback": int(told["lookback"]),
        "shorts": bool(told["shorts"]),
        "max_leverage": float(told["max_leverage"]),
    }
    return {**told, "assets": assets, "tells_listed": seen > (told["lookback"] + 1) * assets}


def _constant(vec: Any, path: str) -> Any:
    """A parameter of an env, ``cash_rate`` or ``prices.drift``, that is the same in all sub-envs and episodes."""
    name, _, part = path.partition(".")
    each = [getattr(value, part) if part else value for value in vec.get_attr(name)]
    given = [getattr(record, name) for record in vec.get_attr("params")]
    drawn = [
        value for value in (getattr(value, part) if part else value for value in given) if isinstance(value, Randomized)
    ]
    if drawn or not all(np.array_equal(value, each[0]) for value in each):
        got = drawn[0] if drawn else each
        raise ValueError(f"merton: expected one {path} for all sub-envs and episodes, or one that is told, got {got}")
    return each[0]


def _per_asset(value: Any, name: str, assets: int) -> NDArray[np.float64]:
    try:
        numbers = np.broadcast_to(np.asarray(value, np.float64), (assets,))
    except (TypeError, ValueError):
        raise ValueError(f"Merton({name}): expected a number for each of {assets} assets, got {value!r}") from None
    for number in numbers:
        check_number(float(number), f"Merton({name})")
    return numbers
