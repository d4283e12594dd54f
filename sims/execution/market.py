"""The law of ``OptimalExecution-v0``: what one order can be told, what is left of it, and what a slice of it costs.

Prices, rates and impacts count in money per unit, costs in money.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64

from sekai.kernels import jit
from sekai.spaces import Box
from sekai.vector import part_of
from sims.checks import check_choice, check_range
from sims.execution.volumes import relative_volumes
from sims.prices import Brownian, check_model

_CHOICES = {"side": ("sell", "buy"), "actions": ("share", "rate"), "reward": ("currency", "bps")}
#: Slices are counted in 32 bits.
_MOST_STEPS = 2**31 - 1
_IMPACTS = ("half_spread", "temporary_impact", "permanent_impact", "transient_impact")
#: Between these, whatever they are and whenever they change, no cost leaves the range of a float64.
_LEAST, _MOST = 1e-30, 1e30
#: What moves of the price are observed in.
_PER_CENT = 100.0


class ExecutionParams(NamedTuple):
    """The order, how trading moves the price and what is paid for. See ``ExecutionVecEnv`` for the market itself.

    Attributes:
        units: ``X``, the size of the order, above 0; it, ``S0``, the time of a slice, impacts and risks are at most
            1e30, the first three at least 1e-30.
        initial_price: ``S0``, the price at the start of an episode, above 0.
        horizon: ``T``, the time there is, above 0.
        n_steps: ``N``, slices, 1 to 2**31 - 1.
        side: "sell" or "buy".
        prices: The model of the unaffected price, of ``sims.prices``.
        half_spread: ``eps``, price, at least 0.
        temporary_impact: ``eta``, price per rate (units per time), at least 0.
        permanent_impact: ``gamma``, price per unit, at least 0.
        transient_impact: ``kappa``, price per unit, at least 0: what a trade moves the price for a while.
        resilience: ``rho``, per time, at least 0: the rate at which that is made good.
        volume_profile: float64 (N,), the volumes expected in the slices, above 0, in any unit: the temporary impact is
            divided by each as a multiple of their mean. None for as much in every slice.
        actions: "share" or "rate".
        reward: "currency" or "bps".
        risk_aversion: ``lambda``, per money, at least 0: what is paid for the variance of the next move of what is
            left.
        risk_volatility: ``sigma`` of that variance, price per square root of time, at least 0; None for the volatility
            of a ``Brownian`` price.
    """

    units: float = 1e6
    initial_price: float = 50.0
    horizon: float = 5.0
    n_steps: int = 50
    side: Any = "sell"  # no row function reads it, so that both are one to the compiler
    prices: tuple = Brownian(volatility=0.95)
    half_spread: float = 0.0625
    temporary_impact: float = 2.5e-6
    permanent_impact: float = 2.5e-7
    transient_impact: float = 0.0
    resilience: float = 10.0
    volume_profile: np.ndarray | None = None
    actions: str = "share"
    reward: str = "currency"
    risk_aversion: float = 0.0
    risk_volatility: float | None = None

    @property
    def dt(self) -> float:
        """The time of one slice."""
        return self.horizon / self.n_steps


def check(params: ExecutionParams) -> None:
    """Refuse what is out of its range.

    Raises:
        ValueError: It is; the message names it.
    """
    for name in ("units", "initial_price", "horizon"):
        check_range(name, getattr(params, name), above=0.0)
    check_range("n_steps", params.n_steps, least=1, most=_MOST_STEPS)
    for name, number in (
        *((name, getattr(params, name)) for name in ("units", "initial_price")),
        ("horizon / n_steps", params.dt),
    ):
        check_range(name, number, least=_LEAST, most=_MOST)
    check_model("prices", params.prices, dt=params.dt)
    volatility = _risk_volatility(params)
    for name, number in (
        *((name, getattr(params, name)) for name in (*_IMPACTS, "resilience", "risk_aversion")),
        *([] if volatility is None else [volatility]),
    ):
        check_range(name, number, least=0.0)
        check_range(name, number, most=_MOST)
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(params, name), choices)
    if params.risk_aversion > 0.0 and volatility is None:
        raise ValueError(
            "risk_volatility: expected a number where there is a risk_aversion and prices are not Brownian, got None"
        )
    if params.volume_profile is not None:
        relative_volumes(params.volume_profile, params.n_steps, "volume_profile")
    _check_impact(params)


def _risk_volatility(params: ExecutionParams) -> tuple[str, float] | None:
    """What the volatility of the risk is called, and it; None where there is none."""
    if params.risk_volatility is not None:
        return "risk_volatility", params.risk_volatility
    return ("prices.volatility", params.prices.volatility) if _is_brownian(params.prices) else None


def _check_impact(params: ExecutionParams) -> None:
    """Refuse impacts that take the price of a sale to 0 however evenly it is made.

    To sell in less even slices may do so under others, too; such a slice is then sold below 0.
    """
    lasting = params.permanent_impact + params.transient_impact
    paid = params.half_spread + params.units * (lasting + params.temporary_impact / params.horizon)
    if params.side == "sell" and not paid < params.initial_price:
        raise ValueError(
            f"{', '.join(_IMPACTS)}: expected impacts that leave the price above 0, got {params.initial_price:g} "
            f"(initial_price) - {paid:g} for an even sale of {params.units:g} units"
        )


# -- what follows from the parameters ----------------------------------------------------------------------


class Slices(NamedTuple):
    """What follows for all sub-envs.

    Attributes:
        volumes: f8 (N,), the volume of each slice as a multiple of their mean; (1,) where there is no profile.
        sign: 1.0 to buy, -1.0 to sell.
        is_brownian: Whether the model of the price is ``Brownian``, whose volatility the risk counts by itself.
    """

    volumes: np.ndarray
    sign: float
    is_brownian: bool


def _is_brownian(prices: Any) -> bool:
    return prices.move is Brownian.move


def prepare(params: ExecutionParams) -> Slices:
    """The volumes of the slices."""
    profile = params.volume_profile
    volumes = np.ones(1) if profile is None else relative_volumes(profile, params.n_steps, "volume_profile")
    return Slices(volumes, 1.0 if params.side == "buy" else -1.0, _is_brownian(params.prices))


class Rates(NamedTuple):
    """What follows per slice.

    Attributes:
        temporary: ``eta / tau``, price per unit.
        decay: What a slice leaves of a transient impact.
        risk: ``lambda tau``, per money and time.
        prices: What follows from the model of the price.
    """

    temporary: np.float64
    decay: np.float64
    risk: np.float64
    prices: part_of("prices", "Derived")  # noqa: F821


@jit
def derive_row(params: Any) -> Rates:
    """The rates of one sub-env."""
    dt = params.horizon / params.n_steps
    return Rates(
        temporary=params.temporary_impact / dt,
        decay=math.exp(-params.resilience * dt),
        risk=params.risk_aversion * dt,
        prices=params.prices.derive(params.prices, dt),
    )


def observation_space(params: ExecutionParams) -> Box:
    """Two fractions, two moves of the price, and the volume of the next slice where there is a profile."""
    has_profile = params.volume_profile is not None
    low = [0.0, 0.0, -math.inf, 0.0] + [0.0] * has_profile
    high = [1.0, 1.0, math.inf, math.inf] + [math.inf] * has_profile
    return Box(np.array(low, dtype=np.float32), np.array(high, dtype=np.float32), dtype=np.float32)


# -- rows --------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """One order per sub-env.

    Attributes:
        arrival_price: The price at the start of the episode, of which the shortfall is counted.
        order_units: Units of the order, at the start of the episode.
        unaffected_price: What the price would be without the trades.
        permanent: How far they have moved it for good, in their own direction, price.
        transient: How far they have moved it for a while, likewise.
        price: Where it is: what the next slice is traded about.
        units_left: Units that are left.
        units_traded: Units bought in the last step, negative for sold.
        fill_price: What each of them was traded at, on average; where the step traded none, the price before it with
            half the spread.
        shortfall: What all that was traded has cost more, or brought in less, than at the arrival price, money: the sum
            of its parts, which follow.
        spread_cost: What of it is the half spread.
        temporary_cost: What of it is the temporary impact.
        permanent_cost: What of it is the permanent impact of earlier slices.
        transient_cost: What of it is transient impact, of the slices' own and of earlier ones.
        noise_cost: What of it is the move of the unaffected price.
        path: What the model of the price keeps beside it.
    """

    arrival_price: np.float64
    order_units: np.float64
    unaffected_price: np.float64
    permanent: np.float64
    transient: np.float64
    price: np.float64
    units_left: np.float64
    units_traded: np.float64
    fill_price: np.float64
    shortfall: np.float64
    spread_cost: np.float64
    temporary_cost: np.float64
    permanent_cost: np.float64
    transient_cost: np.float64
    noise_cost: np.float64
    path: part_of("prices", "State")  # noqa: F821


#: What a reset tells, and what a step does.
RESET_INFOS = ("price", "unaffected_price", "units_left")
PARTS = ("spread_cost", "temporary_cost", "permanent_cost", "transient_cost", "noise_cost")
INFOS = (*RESET_INFOS, "units_traded", "fill_price", "shortfall", *PARTS)


@jit
def reset_row(params: Any, derived: Any, state: Order, random: Any, i: int) -> None:
    """Begin an episode with the whole order, at the initial price."""
    state.arrival_price[i] = state.unaffected_price[i] = state.price[i] = params.initial_price
    state.order_units[i] = state.units_left[i] = params.units
    state.permanent[i] = state.transient[i] = 0.0
    state.units_traded[i], state.fill_price[i], state.shortfall[i] = 0.0, params.initial_price, 0.0
    state.spread_cost[i] = state.temporary_cost[i] = state.permanent_cost[i] = 0.0
    state.transient_cost[i] = state.noise_cost[i] = 0.0
    params.prices.begin(params.prices, derived.prices, state.path, random, i, params.initial_price)


@jit
def variance_of(params: Any, derived: Any) -> Any:
    """The variance per time of the price, of which the risk is counted."""
    if params.risk_volatility is not None:
        return params.risk_volatility * params.risk_volatility
    if derived.is_brownian:
        return params.prices.volatility * params.prices.volatility
    return 0.0


@jit
def step_row(params: Any, derived: Any, state: Order, random: Any, i: int, elapsed: int, action: Any) -> Any:
    """Trade a slice, then let the price move; see ``ExecutionVecEnv``."""
    left, order, arrival = state.units_left[i], state.order_units[i], state.arrival_price[i]
    asked = float64(action[0])
    traded = asked * left if params.actions == "share" else min(asked * order, left)
    traded = left if elapsed + 1 >= params.n_steps else traded

    sign, temporary = derived.sign, derived.temporary
    if params.volume_profile is not None:
        temporary /= derived.volumes[min(elapsed, len(derived.volumes) - 1)]
    unaffected, permanent, transient = state.unaffected_price[i], state.permanent[i], state.transient[i]
    own = temporary * traded
    pushed = transient + 0.5 * params.transient_impact * traded  # on average over the units of the slice
    fill = state.price[i] + sign * (params.half_spread + own + (pushed - transient))
    bought = sign * traded
    cost = bought * (fill - arrival)
    state.units_traded[i], state.fill_price[i] = bought, fill
    state.spread_cost[i] += traded * params.half_spread
    state.temporary_cost[i] += traded * own
    state.permanent_cost[i] += traded * permanent
    state.transient_cost[i] += traded * pushed
    state.noise_cost[i] += bought * (unaffected - arrival)
    impact = state.spread_cost[i] + state.temporary_cost[i] + state.permanent_cost[i] + state.transient_cost[i]
    state.shortfall[i] = impact + state.noise_cost[i]

    left -= traded
    unaffected = params.prices.move(params.prices, derived.prices, state.path, random, i, unaffected)
    permanent += params.permanent_impact * traded
    transient = (transient + params.transient_impact * traded) * derived.decay
    state.units_left[i] = left
    state.unaffected_price[i], state.permanent[i], state.transient[i] = unaffected, permanent, transient
    state.price[i] = unaffected + sign * (permanent + transient)
    paid = cost + derived.risk * left * left * variance_of(params, derived)
    if params.reward == "bps":
        paid *= 1e4 / (order * arrival)
    return -paid, left <= 0.0, False


@jit
def observe_row(params: Any, derived: Any, state: Order, i: int, elapsed: int, observation: Any) -> None:
    """What is left, the time left, and how far the price is away."""
    arrival, sign = state.arrival_price[i], derived.sign
    observation[0] = state.units_left[i] / state.order_units[i]
    observation[1] = float32(np.int32(max(params.n_steps - elapsed, 0))) / float32(params.n_steps)
    observation[2] = _PER_CENT * (sign * state.price[i] - sign * arrival) / arrival  # 0.0 at the start, not -0.0
    observation[3] = _PER_CENT * state.transient[i] / arrival
    if params.volume_profile is not None:
        here = elapsed < len(derived.volumes)
        observation[4] = derived.volumes[elapsed if here else 0] if here else 0.0
