"""Rates, variances and residuals of counting processes that excite each other with exponential kernels.

Stream ``k`` of ``K`` has the intensity ``mu[k] + sum over events (j, s) before t of alpha[k, j] exp(-beta (t - s))``:
the multivariate process of Hawkes (1971), "Spectra of some self-exciting and mutually exciting point processes",
Biometrika 58(1). With ``beta`` the same for all of them the intensities alone are a Markov process, so that its moments
follow from the matrix ``A = alpha - beta I``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.checks import check_number, check_range

__all__ = [
    "branching_matrix",
    "burn_in_time",
    "compensator_increments",
    "count_covariance",
    "spectral_radius",
    "stationary_rates",
]


def branching_matrix(alpha: Any, beta: float) -> NDArray[np.float64]:
    """The mean number of events of stream ``k`` that an event of stream ``j`` sets off directly: ``alpha / beta``.

    Args:
        alpha: (K, K), what an event of the second index adds to the intensity of the first; at least 0.
        beta: The rate at which that decays, per unit of time; above 0.

    Returns:
        float64 (K, K).

    Raises:
        TypeError: ``beta`` is no number.
        ValueError: A number is not finite or out of range, or ``alpha`` is not square.
    """
    jumps = _as_array("alpha", alpha)
    if jumps.ndim != 2 or jumps.shape[0] != jumps.shape[1]:
        raise ValueError(f"alpha: expected a square matrix, got an array of shape {jumps.shape}")
    decay = check_number(beta, "beta")
    check_range("beta", decay, above=0.0)
    return jumps / decay


def spectral_radius(matrix: Any) -> float:
    """The largest absolute value of a square matrix's eigenvalues; the process is stationary if it is below 1."""
    return float(np.abs(np.linalg.eigvals(np.asarray(matrix, np.float64))).max())


def stationary_rates(mu: Any, alpha: Any, beta: float) -> NDArray[np.float64]:
    """The mean intensities in the long run: ``(I - alpha / beta)**-1 mu``, Hawkes (1971).

    Args:
        mu: (K,), the base rates; at least 0.
        alpha: See ``branching_matrix``.
        beta: See ``branching_matrix``.

    Returns:
        float64 (K,).

    Raises:
        TypeError: See ``branching_matrix``.
        ValueError: See there; or the spectral radius of the branching matrix is 1 or more, or the shape of ``mu`` does
            not fit it.
    """
    branching = branching_matrix(alpha, beta)
    base = _as_array("mu", mu)
    if base.shape != branching.shape[:1]:
        raise ValueError(f"mu: expected shape {branching.shape[:1]}, as alpha has it, got {base.shape}")
    radius = spectral_radius(branching)
    if radius >= 1.0:
        raise ValueError(f"alpha, beta: expected a spectral radius of alpha / beta below 1, got {radius:.6g}")
    rates: NDArray[np.float64] = np.linalg.solve(np.eye(len(base)) - branching, base).astype(np.float64)
    return rates


def count_covariance(mu: Any, alpha: Any, beta: float, time: float) -> NDArray[np.float64]:
    """The covariances of the numbers of events within a time, of a stationary process.

    With ``D`` the diagonal matrix of the stationary rates, the intensities' covariance ``S`` solves
    ``A S + S A' + alpha D alpha' = 0``, an event at one time and the intensities a time ``u`` later have the covariance
    density ``exp(A u) (S + alpha D)``, and that twice integrated, with its transpose, comes to ``D time`` on top.

    Args:
        mu: See ``stationary_rates``.
        alpha: See ``branching_matrix``.
        beta: See ``branching_matrix``.
        time: At least 0.

    Returns:
        float64 (K, K), whose diagonal the variances are.

    Raises:
        TypeError: See ``branching_matrix``; or ``time`` is no number.
        ValueError: See ``stationary_rates``; or ``time`` is out of range.
    """
    rates = stationary_rates(mu, alpha, beta)
    span = check_number(time, "time")
    check_range("time", span, least=0.0)
    jumps, one = np.asarray(alpha, np.float64), np.eye(len(rates))
    drift = jumps - beta * one
    noise = (jumps * rates) @ jumps.T
    both = np.kron(drift, one) + np.kron(one, drift)  # S as a vector, row by row
    intensities = np.linalg.solve(both, -noise.ravel()).reshape(noise.shape)
    # The integral of (time - u) exp(A u) over u from 0 to time.
    weights = np.linalg.solve(drift @ drift, _propagator(jumps, beta, span) - one - drift * span)
    later = weights @ (intensities + jumps * rates)
    covariance: NDArray[np.float64] = np.diag(rates * span) + later + later.T
    return covariance


def burn_in_time(mu: Any, alpha: Any, beta: float, error: float = 1e-4) -> float:
    """How long a process without a past has to run until its mean intensities are stationary.

    Its means are below the stationary ones by ``exp(A t) (rates - mu)``, which falls in every stream.

    Args:
        mu: See ``stationary_rates``.
        alpha: See ``branching_matrix``.
        beta: See ``branching_matrix``.
        error: By how much of its stationary rate each stream's mean intensity may then be too low.

    Returns:
        The least such time.

    Raises:
        TypeError: See ``branching_matrix``; or ``error`` is no number.
        ValueError: See ``stationary_rates``; or ``error`` is not above 0.
    """
    rates = stationary_rates(mu, alpha, beta)
    allowed = check_number(error, "error")
    check_range("error", allowed, above=0.0)
    jumps = np.asarray(alpha, np.float64)
    missing = np.maximum(rates - np.asarray(mu, np.float64), 0.0)

    def done(time: float) -> bool:
        return bool(np.all(_propagator(jumps, beta, time) @ missing <= allowed * rates))

    if done(0.0):
        return 0.0
    early, late = 0.0, 1.0 / beta
    while not done(late):
        early, late = late, 2.0 * late
    while late - early > 1e-9 * late:
        middle = 0.5 * (early + late)
        early, late = (early, middle) if done(middle) else (middle, late)
    return late


def compensator_increments(
    times: Any, kinds: Any, mu: Any, alpha: Any, beta: float, excitation: Any = None, start: float = 0.0
) -> list[NDArray[np.float64]]:
    """Each stream's intensity, integrated from each of its events to the next.

    If the events are of this process, these are independent and exponential with mean 1, in all streams: the theorem of
    random time change, Brown and Nair (1988), "A simple proof of the multivariate random time change theorem for point
    processes", Journal of Applied Probability 25(1).

    Args:
        times: (n,), of the events of all streams; ascending, none before ``start``.
        kinds: Integers (n,), the stream of each.
        mu: (K,), the base rates; at least 0.
        alpha: See ``branching_matrix``.
        beta: See ``branching_matrix``.
        excitation: (K,), by how much the intensities are above ``mu`` at ``start``; None for a process without a past.
        start: From which on the intensity is integrated to a stream's first event.

    Returns:
        For each stream float64, as long as it has events.

    Raises:
        TypeError: See ``branching_matrix``; or ``start`` is no number.
        ValueError: See there; or a shape does not fit, the times fall or lie before ``start``, or a kind is no stream.
    """
    branching = branching_matrix(alpha, beta)
    streams = len(branching)
    jumps, base = np.asarray(alpha, np.float64), _as_array("mu", mu)
    above = np.zeros(streams) if excitation is None else _as_array("excitation", excitation)
    for name, values in (("mu", base), ("excitation", above)):
        if values.shape != (streams,):
            raise ValueError(f"{name}: expected shape {(streams,)}, as alpha has it, got {values.shape}")
    when, which = np.asarray(times, np.float64), np.asarray(kinds)
    if when.ndim != 1 or when.shape != which.shape:
        raise ValueError(f"times, kinds: expected two of one length, got shapes {when.shape} and {which.shape}")
    if which.size and (which.dtype.kind not in "iu" or which.min() < 0 or which.max() >= streams):
        raise ValueError(f"kinds: expected integers from 0 to {streams - 1}, got {np.unique(which)}")
    steps = np.diff(when, prepend=check_number(start, "start"))
    if not np.all(steps >= 0.0):  # NaN too
        row = int(np.argmin(steps >= 0.0))
        raise ValueError(f"times: expected ascending ones from start={start} on, got {when[row]} in row {row}")
    increments: list[list[float]] = [[] for _ in range(streams)]
    integrated = np.zeros(streams)  # since each stream's last event
    for step, kind in zip(steps.tolist(), which.tolist(), strict=True):
        integrated += base * step + above * (-math.expm1(-beta * step) / beta)
        above = above * math.exp(-beta * step) + jumps[:, kind]
        increments[kind].append(float(integrated[kind]))
        integrated[kind] = 0.0
    return [np.array(stream) for stream in increments]


def _as_array(name: str, values: Any) -> NDArray[np.float64]:
    """An array of finite numbers of at least 0."""
    array = np.asarray(values, np.float64)
    if not array.size or not np.all(np.isfinite(array) & (array >= 0.0)):
        raise ValueError(f"{name}: expected finite numbers of at least 0, got {values!r}")
    return array


def _propagator(jumps: NDArray[np.float64], beta: float, time: float) -> NDArray[np.float64]:
    """``exp((jumps - beta I) time)``, by its series over a short time, squared as often as it takes.

    No sum in it has terms of both signs, so that small entries are as accurate as large ones.
    """
    size = max(float(jumps.sum(axis=1).max()), beta) * time
    halvings = max(0, math.ceil(math.log2(size)) + 1) if size > 0.0 else 0
    short = time / 2.0**halvings
    term = np.eye(len(jumps))
    total: NDArray[np.float64] = term.copy()
    for power in range(1, 18):  # 0.5**18 / 18! is below 1e-21
        term = term @ jumps * (short / power)
        total += term
    total *= math.exp(-beta * short)
    for _ in range(halvings):
        total = total @ total
    return total
