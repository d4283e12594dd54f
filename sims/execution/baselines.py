"""Policies to measure an execution against: schedules that are known at the start.

``Policy.for_env(vec)`` builds one for an ``ExecutionVecEnv``, on any backend and behind any wrapper that leaves its
observations and actions as they are; ``Policy(...)`` builds one from plain numbers. A policy is frozen: it trades by
the numbers it was built with, whatever becomes of the env's. Each is optimal in its own model, whose symbols and
sources stand in ``sims.execution.closed_forms``; what else the env has, a policy does not see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.execution import closed_forms
from sims.execution.policy import SchedulePolicy, read_schedule
from sims.execution.volumes import relative_volumes
from sims.parameters import Numbers, read_numbers, read_records
from sims.prices.volatility import volatility_factors

#: Almgren and Chriss's risk aversion in their example, per money.
_RISK_AVERSION = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class TWAP(SchedulePolicy):
    """As much in every slice.

    It has the least mean shortfall where the unaffected price is a martingale, there is neither transient impact nor a
    volume profile, and ``eta > gamma tau / 2``.
    """

    @classmethod
    def for_env(cls, vec: Any) -> TWAP:
        """The policy for this VecEnv.

        Raises:
            ValueError: Sub-envs differ in their slices.
        """
        return cls(**read_schedule(vec, cls.__name__))

    def _make_shares(self) -> NDArray[np.float64]:
        return closed_forms.shares_of(np.ones(self.n_steps))


@dataclass(frozen=True, kw_only=True, eq=False)
class VWAP(SchedulePolicy):
    """Slices in proportion to the volumes that are expected: least temporary impact where that is divided by them.

    Attributes:
        profile: The volume of each slice, above 0, in any unit; kept as a read-only float64 (N,), multiples of their
            mean.
    """

    profile: Any

    @classmethod
    def for_env(cls, vec: Any, profile: Any = None) -> VWAP:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the market.
            profile: The volume of each slice; None for the env's ``volume_profile``.

        Raises:
            TypeError: Volumes are no numbers.
            ValueError: There is none, sub-envs differ in it or in their slices, or a volume is not above 0.
        """
        if profile is None:
            first, *others = (record.volume_profile for record in read_records(vec))
            if first is None or not all(np.array_equal(first, other) for other in others):
                raise ValueError(f"{cls.__name__}: expected a profile, or an env with one volume_profile, got {first}")
            profile = first
        return cls(profile=profile, **read_schedule(vec, cls.__name__))

    def _make_shares(self) -> NDArray[np.float64]:
        volumes = relative_volumes(self.profile, self.n_steps, f"{type(self).__name__}: profile")
        object.__setattr__(self, "profile", volumes)
        return closed_forms.shares_of(volumes)


@dataclass(frozen=True, kw_only=True, eq=False)
class AlmgrenChriss(SchedulePolicy):
    """The least ``E + lambda V`` of the shortfall under temporary and permanent impact: that of ``TWAP`` at 0.

    Attributes:
        horizon: ``T``, time; it and the next four may be one per sub-env, (E,).
        risk_aversion: ``lambda``, per money.
        volatility: ``sigma``, price per square root of time.
        temporary_impact: ``eta``, above ``gamma tau / 2``.
        permanent_impact: ``gamma``.
    """

    horizon: Numbers
    risk_aversion: Numbers
    volatility: Numbers
    temporary_impact: Numbers
    permanent_impact: Numbers = 0.0

    @classmethod
    def for_env(
        cls,
        vec: Any,
        risk_aversion: Any = None,
        *,
        volatility: Any = None,
        temporary_impact: Any = None,
        permanent_impact: Any = None,
    ) -> AlmgrenChriss:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the market.
            risk_aversion: ``lambda``, per money; None for the env's, or 1e-6 where that is 0.
            volatility: ``sigma``, price per square root of time; None for the env's ``risk_volatility``, or else that
                of the model of its price, taken at the initial price where it is a fraction of the price.
            temporary_impact: ``eta``; None for the env's.
            permanent_impact: ``gamma``; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range.
        """
        return cls(
            risk_aversion=_read_risk_aversion(vec, cls.__name__) if risk_aversion is None else risk_aversion,
            volatility=_read_volatility(vec, cls.__name__) if volatility is None else volatility,
            **_read(vec, cls.__name__, temporary_impact=temporary_impact, permanent_impact=permanent_impact),
        )

    def _make_shares(self) -> NDArray[np.float64]:
        dt = self.horizon / self.n_steps
        spare = self.temporary_impact - 0.5 * self.permanent_impact * dt
        if not np.all(spare > 0.0):
            raise ValueError(
                f"{type(self).__name__}: expected a temporary_impact above permanent_impact * horizon / n_steps / 2, "
                f"got {self}"
            )
        rate = closed_forms.urgency(
            self.risk_aversion, self.volatility, self.temporary_impact, self.permanent_impact, dt
        )
        return closed_forms.almgren_chriss_shares(rate, self.horizon, self.n_steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class ObizhaevaWang(SchedulePolicy):
    """The least mean shortfall under transient impact: a large slice at either end, and equal ones between.

    Attributes:
        horizon: ``T``, time; it and the next may be one per sub-env, (E,).
        resilience: ``rho``, per time.
    """

    horizon: Numbers
    resilience: Numbers

    @classmethod
    def for_env(cls, vec: Any, resilience: Any = None) -> ObizhaevaWang:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the market.
            resilience: ``rho``, per time; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range.
        """
        return cls(**_read(vec, cls.__name__, resilience=resilience))

    def _make_shares(self) -> NDArray[np.float64]:
        return closed_forms.obizhaeva_wang_shares(self.resilience, self.horizon, self.n_steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class CarteaJaimungal(SchedulePolicy):
    """The liquidation that is optimal in continuous time, with penalties for what is held and what is left at the end.

    Attributes:
        horizon: ``T``, time; it and the next four may be one per sub-env, (E,).
        running_penalty: ``phi``, price per unit and time.
        terminal_penalty: ``alpha``, price per unit, at least half the permanent impact; None for infinite.
        temporary_impact: ``eta``, above 0.
        permanent_impact: ``gamma``.
    """

    horizon: Numbers
    running_penalty: Numbers
    temporary_impact: Numbers
    permanent_impact: Numbers = 0.0
    terminal_penalty: Numbers | None = None

    @classmethod
    def for_env(
        cls,
        vec: Any,
        running_penalty: Any = None,
        terminal_penalty: Any = None,
        *,
        temporary_impact: Any = None,
        permanent_impact: Any = None,
    ) -> CarteaJaimungal:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the market.
            running_penalty: ``phi``, price per unit and time; None for ``lambda sigma^2``, with the risk aversion and
                the volatility that ``AlmgrenChriss.for_env`` takes.
            terminal_penalty: ``alpha``, price per unit; None for infinite.
            temporary_impact: ``eta``; None for the env's.
            permanent_impact: ``gamma``; None for the env's.

        Raises:
            ValueError: A parameter of the env is drawn at each episode; or a number is out of its range.
        """
        if running_penalty is None:
            asked = "running_penalty"
            volatility = _read_volatility(vec, cls.__name__, asked)
            running_penalty = _read_risk_aversion(vec, cls.__name__, asked) * np.square(volatility)
        return cls(
            running_penalty=running_penalty,
            terminal_penalty=terminal_penalty,
            **_read(vec, cls.__name__, temporary_impact=temporary_impact, permanent_impact=permanent_impact),
        )

    def _make_shares(self) -> NDArray[np.float64]:
        name = type(self).__name__
        if not np.all(np.asarray(self.temporary_impact) > 0.0):
            raise ValueError(f"{name}: expected a temporary_impact above 0, got {self.temporary_impact}")
        if self.terminal_penalty is not None and not np.all(self.terminal_penalty >= 0.5 * self.permanent_impact):
            raise ValueError(
                f"{name}: expected a terminal_penalty of at least half the permanent_impact, got "
                f"{self.terminal_penalty} and {self.permanent_impact}"
            )
        return closed_forms.cartea_jaimungal_shares(
            self.running_penalty,
            self.terminal_penalty,
            self.temporary_impact,
            self.permanent_impact,
            self.horizon,
            self.n_steps,
        )


def _read(vec: Any, where: str, **given: Any) -> dict[str, Any]:
    """The horizon and the slices of an env, and of some parameters what is given, or else the env's."""
    read = {name: read_numbers(vec, where, name) if value is None else value for name, value in given.items()}
    return {"horizon": read_numbers(vec, where, "horizon"), **read, **read_schedule(vec, where)}


def _read_volatility(vec: Any, where: str, asked: str = "volatility") -> Any:
    """The volatility that an env's risk counts: its ``risk_volatility``, or else that of the model of its price.

    Args:
        vec: A VecEnv of the market.
        where: What the error message calls the reader.
        asked: The parameter of the reader that it is for.

    Returns:
        A number or float64 (E,): price per square root of time; that of a model which moves by a fraction of its price
        is taken at the initial price.

    Raises:
        ValueError: It is drawn at each episode, or there is none.
    """

    def factors(record: Any) -> dict[str, Any]:
        if record.risk_volatility is not None:
            return {"risk_volatility": record.risk_volatility}
        return volatility_factors(record.prices, "prices", record.initial_price, where, asked)

    return read_numbers(vec, where, asked, factors)


def _read_risk_aversion(vec: Any, where: str, asked: str = "risk_aversion") -> Any:
    """The risk aversion of an env, per money; 1e-6 where none of its sub-envs has any."""
    found = read_numbers(vec, where, asked, lambda record: {"risk_aversion": record.risk_aversion})
    return found if np.any(found) else _RISK_AVERSION


#: Builders of the baselines by the names that ``sekai run --policy`` takes; each takes a VecEnv.
POLICIES: dict[str, Callable[[Any], SchedulePolicy]] = {
    "twap": TWAP.for_env,
    "vwap": VWAP.for_env,
    "almgren-chriss": AlmgrenChriss.for_env,
    "obizhaeva-wang": ObizhaevaWang.for_env,
    "cartea-jaimungal": CarteaJaimungal.for_env,
}
