"""Policies to measure a market maker against. Each maps a batch of observations to a batch of quotes.

``Policy.for_env(vec)`` builds one for a ``MarketMakingVecEnv``, on any backend and behind any wrapper that leaves its
observations and actions as they are; ``Policy(...)`` builds one from plain numbers. A policy is frozen: it quotes by
the numbers it was built with, whatever becomes of the env's.

The models have a mid that is an arithmetic Brownian motion, fills in continuous time, and the symbols of
``sims.market_making.closed_forms``, where the sources stand. No quote is clipped. At an inventory limit the market
leaves out one side, whose distance here means nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.market_making.closed_forms import fill_intensity, log_values, long_run_skew, static_half_spread
from sims.market_making.policy import InventoryPolicy, QuotingPolicy, TabulatedPolicy
from sims.market_making.policy_parameters import read_market, read_parameter
from sims.market_making.quotes import LinearQuotes, TabulatedQuotes
from sims.parameters import Numbers, check_numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedSpread(QuotingPolicy):
    """Both quotes at one distance from the mid, always.

    Attributes:
        half_spread: The distance, price; or one per sub-env, (N,).
    """

    half_spread: Numbers

    @classmethod
    def for_env(cls, vec: Any, half_spread: Any = None, *, fill_decay: Any = None) -> FixedSpread:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the quoting market.
            half_spread: The distance; None for ``1/k``, where the gain expected per time and side,
                ``d A exp(-k d)``, is largest: the optimum of a quoter who minds no risk.
            fill_decay: ``k``, where the half-spread is None; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range.
        """
        if half_spread is None:
            decay = read_parameter(vec, cls.__name__, "fill_decay", per_env=True) if fill_decay is None else fill_decay
            half_spread = 1.0 / check_numbers(decay, f"{cls.__name__}: fill_decay", above=0.0)
        return cls(half_spread=half_spread)

    def _make_plan(self) -> LinearQuotes:
        return LinearQuotes(self.half_spread, 0.0, 0.0, 0.0, horizon=1.0, n_steps=1.0, inventory_scale=1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class AvellanedaStoikov(InventoryPolicy):
    """Quotes about a reservation price that moves against the inventory, less so as the horizon comes near.

    The reservation price is ``r = S - q gamma sigma^2 (T - t)``, the spread
    ``gamma sigma^2 (T - t) + (2/gamma) ln(1 + gamma/k)``, and the quotes ``r -/+ spread / 2``.

    The paper's "symmetric" benchmark quotes, about S, the mean of that spread over the time steps t = 0..N-1, in which
    ``T - t`` is ``T (N + 1) / (2 N)`` on average: 1.49177 at gamma = 0.1 in the market's defaults.

    Attributes:
        gamma: Absolute risk aversion, per unit of wealth; it and the next two may be one per sub-env, (N,).
        volatility: ``sigma``, price per square root of time.
        fill_decay: ``k``, per price.
        symmetric: Whether to quote the constant spread about the mid.
    """

    gamma: Numbers
    volatility: Numbers
    fill_decay: Numbers
    symmetric: bool = False

    @classmethod
    def for_env(
        cls,
        vec: Any,
        gamma: Any = 0.1,
        symmetric: bool = False,
        *,
        volatility: Any = None,
        fill_decay: Any = None,
    ) -> AvellanedaStoikov:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the quoting market.
            gamma: Absolute risk aversion, per unit of wealth.
            symmetric: Whether to quote the constant spread about the mid.
            volatility: ``sigma``, price per square root of time; None for the env's.
            fill_decay: ``k``; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range.
        """
        market = read_market(vec, cls.__name__, volatility=volatility, fill_decay=fill_decay)
        return cls(gamma=gamma, symmetric=symmetric, **market)

    def _make_plan(self) -> LinearQuotes:
        half_spread = static_half_spread(self.gamma, self.fill_decay)
        risk = self.gamma * self.volatility**2
        if self.symmetric:
            mean_time_left = self.horizon * (self.n_steps + 1) / (2 * self.n_steps)
            return self._linear(half_spread=half_spread + 0.5 * risk * mean_time_left)
        return self._linear(half_spread=half_spread, half_spread_rate=0.5 * risk, skew_rate=risk)


@dataclass(frozen=True, kw_only=True, eq=False)
class GLFT(TabulatedPolicy):
    """Optimal quotes for exponential utility and an inventory limit, of Guéant, Lehalle and Fernandez-Tapia.

    With ``c1 = ln(1 + gamma/k) / gamma`` and
    ``w = sqrt(sigma^2 gamma / (2 k A) (1 + gamma/k)^(1 + k/gamma))``, the long-run quotes, far from the horizon, are
    ``c1 + (2q + 1) w/2`` (bid) and ``c1 - (2q - 1) w/2`` (ask). With a finite horizon they are
    ``c1 + ln(v[q] / v[q+1]) / k`` and ``c1 + ln(v[q] / v[q-1]) / k``, where
    ``v' = (k gamma sigma^2 / 2) q^2 v[q] - A (1 + gamma/k)^-(1 + k/gamma) (v[q-1] + v[q+1])`` back from v(T) = 1.

    Attributes:
        gamma: Absolute risk aversion, per unit of wealth; it and the next three may be one per sub-env, (N,).
        volatility: ``sigma``, price per square root of time.
        arrival_rate: ``A``, orders per time and side.
        fill_decay: ``k``, per price.
        finite_horizon: Whether to look up the quotes for the time left, instead of the long-run ones.
    """

    gamma: Numbers
    volatility: Numbers
    arrival_rate: Numbers
    fill_decay: Numbers
    finite_horizon: bool = False

    @classmethod
    def for_env(
        cls,
        vec: Any,
        gamma: Any = 0.1,
        finite_horizon: bool = False,
        *,
        grid_limit: int | None = None,
        volatility: Any = None,
        arrival_rate: Any = None,
        fill_decay: Any = None,
    ) -> GLFT:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the quoting market.
            gamma: Absolute risk aversion, per unit of wealth.
            finite_horizon: Whether to look up the quotes for the time left, instead of the long-run ones.
            grid_limit: The inventory limit of the model; None for the env's. For a finite horizon only.
            volatility: ``sigma``, price per square root of time; None for the env's.
            arrival_rate: ``A``; None for the env's.
            fill_decay: ``k``; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range; or, with a
                finite horizon, there is no limit, or more than 64 tables would be needed.
        """
        market = read_market(vec, cls.__name__, volatility=volatility, arrival_rate=arrival_rate, fill_decay=fill_decay)
        return cls(gamma=gamma, finite_horizon=finite_horizon, grid_limit=grid_limit, **market)

    def _make_plan(self) -> LinearQuotes | TabulatedQuotes:
        if self.finite_horizon:
            return self._tabulated(self.gamma, self.volatility, self.arrival_rate, self.fill_decay)
        skew = long_run_skew(self.gamma, self.volatility, self.arrival_rate, self.fill_decay)
        half_spread = static_half_spread(self.gamma, self.fill_decay) + 0.5 * skew
        return self._linear(half_spread=half_spread, skew=skew)

    def _solve(self, limit: int, *parameters: float) -> tuple[NDArray[np.float64], float]:
        gamma, volatility, arrival_rate, fill_decay = parameters
        log_v = log_values(
            penalty=0.5 * fill_decay * gamma * volatility**2,
            intensity=float(fill_intensity(gamma, arrival_rate, fill_decay)),
            terminal=np.zeros(limit + 1),
            horizon=self.horizon,
            n_steps=self.n_steps,
        )
        return log_v / fill_decay, float(static_half_spread(gamma, fill_decay))


@dataclass(frozen=True, kw_only=True, eq=False)
class CarteaJaimungal(TabulatedPolicy):
    """Optimal quotes for wealth less a running and a final penalty on the inventory.

    They maximise the mean of ``W(T) - alpha q(T)^2 - phi * integral of q^2 dt`` under an inventory limit:
    ``1/k + h[q] - h[q+1]`` (bid) and ``1/k + h[q] - h[q-1]`` (ask), where ``h = ln(w) / k`` and
    ``w(t) = exp(M (T - t)) z`` with ``M[q, q] = -phi k q^2``, ``M[q, q-1] = M[q, q+1] = A/e`` and
    ``z[q] = exp(-alpha k q^2)``. What can be gained is ``cash + q S + h(t, q)``: see ``value``.

    Attributes:
        phi: Running penalty, price per time and squared unit; it and the next three may be one per sub-env, (N,).
        alpha: Final penalty, price per squared unit.
        arrival_rate: ``A``, orders per time and side.
        fill_decay: ``k``, per price.
    """

    phi: Numbers
    alpha: Numbers
    arrival_rate: Numbers
    fill_decay: Numbers

    @classmethod
    def for_env(
        cls,
        vec: Any,
        phi: Any = 0.01,
        alpha: Any = 0.001,
        *,
        grid_limit: int | None = None,
        arrival_rate: Any = None,
        fill_decay: Any = None,
    ) -> CarteaJaimungal:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the quoting market.
            phi: Running penalty, price per time and squared unit.
            alpha: Final penalty, price per squared unit.
            grid_limit: The inventory limit of the model; None for the env's.
            arrival_rate: ``A``; None for the env's.
            fill_decay: ``k``; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range; or there is no
                limit, or more than 64 tables would be needed.
        """
        market = read_market(vec, cls.__name__, arrival_rate=arrival_rate, fill_decay=fill_decay)
        return cls(phi=phi, alpha=alpha, grid_limit=grid_limit, **market)

    def value(self, inventory: Any, step: Any = 0) -> Any:
        """The part ``h(t, q)`` of the value ``cash + q S + h(t, q)``, for inventories within the limit.

        Args:
            inventory: Units held, whole numbers: one, or (N,).
            step: Time step, 0 to n_steps: one, or (N,).

        Returns:
            float64, or float64 (N,), a price.
        """
        units, row = np.abs(np.asarray(inventory, np.int64)), np.asarray(step, np.int64)
        return self._values[self._table, row, units]

    def _make_plan(self) -> TabulatedQuotes:
        return self._tabulated(self.phi, self.alpha, self.arrival_rate, self.fill_decay)

    def _solve(self, limit: int, *parameters: float) -> tuple[NDArray[np.float64], float]:
        phi, alpha, arrival_rate, fill_decay = parameters
        log_w = log_values(
            penalty=phi * fill_decay,
            intensity=arrival_rate * math.exp(-1.0),
            terminal=-alpha * fill_decay * np.arange(limit + 1.0) ** 2,
            horizon=self.horizon,
            n_steps=self.n_steps,
        )
        return log_w / fill_decay, 1.0 / fill_decay


#: Builders of the baselines by the names that ``sekai run --policy`` takes; each takes a VecEnv.
POLICIES: dict[str, Callable[[Any], QuotingPolicy]] = {
    "fixed-spread": FixedSpread.for_env,
    "avellaneda-stoikov": AvellanedaStoikov.for_env,
    "avellaneda-stoikov-symmetric": partial(AvellanedaStoikov.for_env, symmetric=True),
    "glft": GLFT.for_env,
    "cartea-jaimungal": CarteaJaimungal.for_env,
}
