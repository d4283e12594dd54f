"""Optimal schedules of an order, and what any schedule costs: mean and variance.

A schedule trades ``n[0], ..., n[N-1]`` units at the times ``0, tau, ..., (N-1) tau`` with ``tau = T/N``; ``x[k]`` units
are left before slice ``k``. It is given here as shares, ``n[k] / x[k]``, of which the last is 1. Symbols, with the
names of ``ExecutionParams`` behind them: ``X`` (``units``), ``sigma`` (volatility, price per square root of time),
``eps`` (``half_spread``), ``eta`` (``temporary_impact``), ``gamma`` (``permanent_impact``), ``kappa``
(``transient_impact``), ``rho`` (``resilience``), ``lambda`` (``risk_aversion``).

Sources: Almgren and Chriss (2001), "Optimal execution of portfolio transactions", Journal of Risk 3; Obizhaeva and Wang
(2013), "Optimal trading strategy and supply/demand dynamics", Journal of Financial Markets 16; Cartea, Jaimungal and
Penalva (2015), "Algorithmic and High-Frequency Trading", chapter 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import check_number, check_range
from sims.execution.volumes import relative_volumes
from sims.parameters import Numbers

#: The rate times the horizon below which a trajectory is a line to the last bit.
_FLAT = 1e-8


def expected_cost(
    slices: Any,
    dt: float,
    *,
    half_spread: float = 0.0,
    temporary_impact: float = 0.0,
    permanent_impact: float = 0.0,
    transient_impact: float = 0.0,
    resilience: float = 0.0,
    volume_profile: Any = None,
) -> Any:
    """The mean shortfall of a schedule where the unaffected price is a martingale.

    It is the sum over the slices of ``n[k] (eps + eta n[k] / (tau w[k]) + gamma sum of n[j] + kappa (n[k] / 2 + sum of
    n[j] exp(-rho tau (k - j))))``, the inner sums over the slices ``j`` before ``k``. Without transient impact and
    volumes that is Almgren and Chriss's ``gamma X^2 / 2 + eps X + (eta - gamma tau / 2) / tau sum of n[k]^2``.

    Args:
        slices: Units of the slices, (..., N), at least 0.
        dt: ``tau``, the time of a slice.
        half_spread: Price.
        temporary_impact: Price per rate (units per time).
        permanent_impact: Price per unit.
        transient_impact: Price per unit.
        resilience: Per time.
        volume_profile: (N,), the volumes of the slices, above 0, in any unit, of which ``w`` are multiples of the mean;
            None for as much in every slice.

    Returns:
        float64 (...), money.

    Raises:
        TypeError: Something is no number.
        ValueError: Something is out of its range, or slices are one number.
    """
    where = "expected_cost"
    traded, dt = _read_slices(slices, where), _read_dt(dt, where)
    half_spread, temporary_impact, permanent_impact, transient_impact, resilience = (
        _read_number(value, f"{where}: {name}")
        for name, value in (
            ("half_spread", half_spread),
            ("temporary_impact", temporary_impact),
            ("permanent_impact", permanent_impact),
            ("transient_impact", transient_impact),
            ("resilience", resilience),
        )
    )
    n_steps = traded.shape[-1]
    volumes = 1.0 if volume_profile is None else relative_volumes(volume_profile, n_steps, f"{where}: volume_profile")
    pushed, decay = np.zeros_like(traded), np.exp(-resilience * dt)
    for k in range(1, n_steps if transient_impact else 0):
        pushed[..., k] = (pushed[..., k - 1] + traded[..., k - 1]) * decay
    own = temporary_impact / (dt * volumes) + 0.5 * transient_impact
    earlier = np.cumsum(traded, axis=-1) - traded
    moved = half_spread + own * traded + permanent_impact * earlier + transient_impact * pushed
    return np.sum(traded * moved, axis=-1)


def cost_variance(slices: Any, dt: float, volatility: float) -> Any:
    """The variance of the shortfall of a schedule where the unaffected price is a Brownian motion.

    ``sigma^2 tau`` times the sum of the squares of what each slice leaves (Almgren and Chriss).

    Args:
        slices: Units of the slices, (..., N).
        dt: ``tau``, the time of a slice.
        volatility: Price per square root of time.

    Returns:
        float64 (...), money squared.

    Raises:
        TypeError: Something is no number.
        ValueError: Something is out of its range, or slices are one number.
    """
    where = "cost_variance"
    traded, dt = _read_slices(slices, where), _read_dt(dt, where)
    volatility = _read_number(volatility, f"{where}: volatility")
    left = traded.sum(axis=-1, keepdims=True) - np.cumsum(traded, axis=-1)
    return np.square(volatility) * dt * np.sum(left[..., :-1] ** 2, axis=-1)


def _read_slices(slices: Any, where: str) -> NDArray[np.float64]:
    traded = np.asarray(slices)
    if traded.dtype.kind not in "iuf":
        raise TypeError(f"{where}: slices: expected numbers, got {slices!r}")
    if not (traded.ndim and traded.shape[-1]):
        raise ValueError(f"{where}: slices: expected an array of shape (..., N), got one of shape {traded.shape}")
    if not ((traded >= 0) & (traded < np.inf)).all():
        raise ValueError(f"{where}: slices: expected finite numbers of at least 0, got {slices!r}")
    return traded.astype(np.float64)


def _read_dt(value: Any, where: str) -> float:
    number = check_number(value, f"{where}: dt")
    check_range(f"{where}: dt", number, above=0.0)
    return number


def _read_number(value: Any, where: str) -> float:
    number = check_number(value, where)
    check_range(where, number, least=0.0)
    return number


def slices_of(shares: Any) -> NDArray[np.float64]:
    """The slices that shares of what is left make of an order of 1, (..., N)."""
    shares = np.asarray(shares, dtype=np.float64)
    before = np.cumprod(1.0 - shares[..., :-1], axis=-1)
    return shares * np.concatenate([np.ones_like(shares[..., :1]), before], axis=-1)


def shares_of(slices: Any) -> NDArray[np.float64]:
    """What is traded as shares of what is left, (..., N), from slices of any unit, above 0."""
    slices = np.asarray(slices, dtype=np.float64)
    return slices / np.cumsum(slices[..., ::-1], axis=-1)[..., ::-1]


def urgency(
    risk_aversion: Numbers, volatility: Numbers, temporary_impact: Numbers, permanent_impact: Numbers, dt: Numbers
) -> Any:
    """Almgren and Chriss's ``K``, per time.

    It solves ``2 (cosh(K tau) - 1) = lambda sigma^2 tau^2 / (eta - gamma tau / 2)``.
    """
    eta = temporary_impact - 0.5 * permanent_impact * dt
    return 2.0 * np.arcsinh(0.5 * np.sqrt(risk_aversion * volatility**2 / eta) * dt) / dt


def almgren_chriss_shares(rate: Numbers, horizon: Numbers, n_steps: int) -> NDArray[np.float64]:
    """The shares of ``x[k] = X sinh(K (T - k tau)) / sinh(K T)``, which make ``E + lambda V`` least.

    Args:
        rate: ``K``, see ``urgency``: one number or (E,).
        horizon: Time: one number or (E,).
        n_steps: ``N``.

    Returns:
        float64 (N,) or (E, N).
    """
    return _decaying_shares(rate, horizon, n_steps, start=1.0, turn=-1.0, line=0.0)


def obizhaeva_wang_shares(resilience: Numbers, horizon: Numbers, n_steps: int) -> NDArray[np.float64]:
    """The shares that cost least under transient impact alone: the first and the last slice are equal, and the rest.

    With ``a = exp(-rho tau)``: ``n[0] = n[N-1] = X / (2 + (N - 2)(1 - a))``, and ``(1 - a) n[0]`` between. The impact
    that is left between two of them is always the same. A permanent impact ``gamma`` changes nothing where the
    temporary one is ``eta = gamma tau / 2``, which puts half of a slice's own into its price: both then cost ``gamma
    X^2 / 2``, whatever the schedule.

    Args:
        resilience: ``rho``: one number or (E,).
        horizon: Time: one number or (E,).
        n_steps: ``N``.

    Returns:
        float64 (N,) or (E, N).
    """
    slices = np.ones((*np.broadcast(resilience, horizon).shape, n_steps))
    slices[..., 1:-1] = np.expand_dims(-np.expm1(-np.asarray(resilience) * horizon / n_steps), -1)
    if n_steps > 1:  # without resilience all between is 0, and half is left for the last
        return shares_of(slices)
    return slices


def cartea_jaimungal_shares(
    running_penalty: Numbers,
    terminal_penalty: Numbers | None,
    temporary_impact: Numbers,
    permanent_impact: Numbers,
    horizon: Numbers,
    n_steps: int,
) -> NDArray[np.float64]:
    """The shares of the inventory ``Q(k tau)`` that is optimal in continuous time, with penalties for holding it.

    With ``g = sqrt(phi / eta)``, ``s = sqrt(phi eta)`` and ``a = alpha - gamma / 2``, ``Q(t)`` is in proportion to
    ``s cosh(g (T - t)) + a sinh(g (T - t))``. It makes the mean of the cost least, with ``phi`` times the integral of
    ``Q^2`` and ``alpha Q(T)^2`` on top. What is left at T, the last slice trades.

    Args:
        running_penalty: ``phi``, price per unit and time.
        terminal_penalty: ``alpha``, price per unit, at least ``gamma / 2``; None for infinite.
        temporary_impact: ``eta``, above 0.
        permanent_impact: ``gamma``.
        horizon: Time.
        n_steps: ``N``.

    Returns:
        float64 (N,), or (E, N) where something is (E,).
    """
    rate = np.sqrt(running_penalty / temporary_impact)
    if terminal_penalty is None:
        return _decaying_shares(rate, horizon, n_steps, start=1.0, turn=-1.0, line=0.0)
    final = terminal_penalty - 0.5 * permanent_impact
    spring = np.sqrt(running_penalty * temporary_impact)
    # Without a running penalty Q(t) is in proportion to eta / a + T - t.
    with np.errstate(divide="ignore"):
        line = np.where(final > 0.0, temporary_impact / np.where(final > 0.0, final, 1.0), np.inf)
    return _decaying_shares(rate, horizon, n_steps, start=spring + final, turn=spring - final, line=line)


def _decaying_shares(
    rate: Numbers, horizon: Numbers, n_steps: int, *, start: Any, turn: Any, line: Any
) -> NDArray[np.float64]:
    """Shares of what falls as ``start exp(K (T - t)) + turn exp(-K (T - t))``; as ``line + T - t`` where K is 0.

    All exponents are negative, so that a large rate does no harm.
    """
    rate, horizon, start, turn, line = (
        np.expand_dims(each, -1) for each in np.broadcast_arrays(rate, horizon, start, turn, line)
    )
    before = horizon * (np.arange(n_steps, 0, -1) / n_steps)
    after = horizon * (np.arange(n_steps - 1, -1, -1) / n_steps)
    with np.errstate(invalid="ignore", divide="ignore"):
        straight = np.where(np.isinf(line), 1.0, (line + after) / (line + before))
        # start + turn exp(-2 K t), without cancellation where turn is -start
        bent = np.exp(-rate * horizon / n_steps) * (start + turn + turn * np.expm1(-2.0 * rate * after))
        bent = bent / (start + turn + turn * np.expm1(-2.0 * rate * before))
    # What hardly falls may seem to rise by a rounding error.
    shares = np.clip(1.0 - np.where(rate * horizon < _FLAT, straight, bent), 0.0, 1.0)
    shares[..., -1] = 1.0
    return shares
