"""Numbers of the closed-form market-making models that the baselines quote by.

Symbols, with the names of ``MarketMakingParams`` behind them: ``sigma`` (``volatility``, price per square root of
time), ``A`` (``arrival_rate``, orders per time and side), ``k`` (``fill_decay``, per price), ``gamma`` (absolute risk
aversion, per unit of wealth), ``q`` (units held), ``T`` (``horizon``) and ``t`` (time).

Sources: Avellaneda and Stoikov (2008), "High-frequency trading in a limit order book", Quantitative Finance 8(3);
Guéant, Lehalle and Fernandez-Tapia (2013), "Dealing with the inventory risk", Mathematics and Financial Economics 7;
Cartea, Jaimungal and Penalva (2015), "Algorithmic and High-Frequency Trading", chapter 10.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sims.parameters import Numbers

#: The largest ``(penalty L^2 + intensity) horizon`` that ``log_values`` takes: some ten seconds of work.
MAX_WORK = 1e6
#: The largest value at the horizon that it takes, beside which a float64 still tells the terms of a series apart.
MAX_TERMINAL = 1e12
#: What is smaller than this beside a sum is below the rounding of a float64.
_LOG_NEGLIGIBLE = float(np.log(np.finfo(np.float64).eps / 2.0))


def static_half_spread(gamma: Numbers, fill_decay: Numbers) -> Numbers:
    """Half-spread of a quoter who carries no inventory risk, ``ln(1 + gamma/k) / gamma``; price.

    It tends to the risk-neutral ``1/k`` as gamma goes to 0.
    """
    return np.log1p(gamma / fill_decay) / gamma


def fill_intensity(gamma: Numbers, arrival_rate: Numbers, fill_decay: Numbers) -> Numbers:
    """Rate at which GLFT's value spreads over inventories, ``A (1 + gamma/k)^-(1 + k/gamma)``; per time.

    It tends to the risk-neutral ``A/e`` as gamma goes to 0.
    """
    return arrival_rate * np.exp(-(1.0 + fill_decay / gamma) * np.log1p(gamma / fill_decay))


def long_run_skew(gamma: Numbers, volatility: Numbers, arrival_rate: Numbers, fill_decay: Numbers) -> Numbers:
    """How far GLFT's long-run quotes move per unit held, price.

    ``sqrt(sigma^2 gamma / (2 k A) (1 + gamma/k)^(1 + k/gamma))``
    """
    intensity = fill_intensity(gamma, arrival_rate, fill_decay)
    return volatility * np.sqrt(gamma / (2.0 * fill_decay * intensity))


def log_values(
    penalty: float, intensity: float, terminal: NDArray[np.float64], horizon: float, n_steps: int
) -> NDArray[np.float64]:
    """The logarithm of ``v``, where ``v' = penalty q^2 v[q] - intensity (v[q-1] + v[q+1])``, back from the horizon.

    With ``v`` 0 beyond the inventory limit L. Both GLFT and Cartea-Jaimungal come down to this linear equation. Each
    time step is exact: uniformisation (Jensen, 1953) writes the exponential of the matrix as a series in which every
    term is positive, so nothing cancels, and logarithms keep the tails that float64 could not hold. An
    eigendecomposition returns negative values there. The result is right to about 1e-14, relative or absolute.

    The series takes some ``(penalty L^2 + intensity) horizon + 25 n_steps`` terms, of 10 microseconds at L = 100.

    Args:
        penalty: Per time and squared unit, at least 0.
        intensity: Per time, above 0.
        terminal: float64 (L + 1,): ``log v`` at the horizon for q = 0..L, L at least 1; the same for -q.
        horizon: Time.
        n_steps: Equal steps to the horizon.

    Returns:
        float64 (n_steps + 1, L + 1): ``log v`` at the start of each step, and at the horizon, for q = 0..L.

    Raises:
        ValueError: The intensity is 0, ``(penalty L^2 + intensity) horizon`` is above ``MAX_WORK``, or a terminal value
            above ``MAX_TERMINAL``.
    """
    dt = horizon / n_steps
    q = np.arange(len(terminal), dtype=np.float64)
    if not dt * intensity > 0.0:
        raise ValueError(f"log_values: expected an intensity above 0, got {intensity}")
    # More than the penalty asks for: were there nothing on the diagonal, every other term would be large, by a factor
    # that grows exponentially with the slope of the values.
    rate = penalty * q[-1] ** 2 + intensity
    if not rate * horizon <= MAX_WORK:
        raise ValueError(
            f"log_values: expected (penalty * limit^2 + intensity) * horizon of at most {MAX_WORK:.0e}, got "
            f"({penalty:.3g} * {len(terminal) - 1}^2 + {intensity:.3g}) * {horizon:.3g}; take a smaller limit"
        )
    if not np.abs(terminal).max() <= MAX_TERMINAL:
        raise ValueError(
            f"log_values: expected terminal values of at most {MAX_TERMINAL:.0e}, got {np.abs(terminal).max():.3g}; "
            "take a smaller terminal penalty (alpha) or limit"
        )
    with np.errstate(divide="ignore"):
        stay = np.log(dt * (rate - penalty * q**2))
    hop = np.log(dt * intensity)
    values = np.empty((n_steps + 1, len(terminal)))
    values[-1] = terminal
    up = np.full(len(terminal), -np.inf)
    down = np.full(len(terminal), -np.inf)
    for step in reversed(range(n_steps)):
        # Weights relative to the values at the end of the step, so that the series starts from ones.
        slope = np.diff(values[step + 1])
        up[:-1] = hop + slope
        down[1:] = hop - slope
        up[0] += np.log(2.0)  # from 0 to 1, and to -1, whose value is the same
        values[step] = values[step + 1] + (_log_exponential(stay, up, down) - rate * dt)
    return values


def _log_exponential(
    stay: NDArray[np.float64], up: NDArray[np.float64], down: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The logarithm of ``exp(B) 1`` for the tridiagonal, nonnegative matrix B with these logarithms.

    If each entry of a term is at most ``r < 1`` times that of the term before, so it is from there on, and what
    follows the term adds up to at most ``r / (1 - r)`` times it. The series ends where that is negligible everywhere.
    """
    edged = np.full(len(stay) + 2, -np.inf)  # the term, with an empty neighbour on either side
    term = edged[1:-1]
    term[:] = 0.0
    total = np.zeros(len(stay))
    n, finished = 0, False
    while not finished:
        n += 1
        following = np.logaddexp(stay + term, np.logaddexp(up + edged[2:], down + edged[:-2])) - np.log(n)
        total = np.logaddexp(total, following)
        ratio = np.max(following - term)
        if ratio < 0.0:
            rest = np.max(following - total) + ratio - np.log(-np.expm1(ratio))
            finished = bool(rest < _LOG_NEGLIGIBLE)
        term[:] = following
    return total
