"""How often an own order is executed by its distance from the mid, measured in the book, for models that quote by it.

Models of market making take an order to be executed at a rate ``A exp(-k delta)`` at a distance ``delta`` from the mid
(Avellaneda and Stoikov 2008, "High-frequency trading in a limit order book", Quantitative Finance 8(3)). In a book that
rate is nothing that is given: it follows from queues, flows and how often quotes are renewed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count
from sekai.estimates import Estimate
from sekai.seeding import make_seed_sequence
from sims.order_book.parameters import LimitOrderBookParams
from sims.order_book.reading import read_shared

if TYPE_CHECKING:
    from sims.order_book.env import LimitOrderBookVecEnv

#: An inventory limit that no run comes to.
_NO_LIMIT = 2**40


@dataclass(frozen=True, eq=False)
class FillEstimate:
    """Rates at which own orders of one lot are executed, and the curve ``A exp(-k delta)`` that is fitted to them.

    A rate is ``-ln(1 - p) / step_time``, where ``p`` is the share of steps in which the order was executed: the maximum
    likelihood where the rate is the same throughout a step. The curve is fitted to the logarithms of the rates by
    weighted least squares; of one rate there is none, and it is NaN. How well it fits is told by ``chi_square``, not by
    the errors of ``A`` and ``k``: those say how far measuring anew would move them.

    Attributes:
        offsets: i8 (D,), from the opposite best, ticks.
        distances: f8 (D,), mean distance from the mid when the quotes were sent, money.
        rates: f8 (D,), per time.
        errors: f8 (D,), their standard errors, from how sub-envs differ.
        A: Of the curve, per time.
        k: Of the curve, per money.
        A_error: Standard error of ``A``.
        k_error: Standard error of ``k``.
        chi_square: The sum of squares of what the curve leaves of the logarithms, in standard errors; about D - 2 where
            the rates do fall exponentially.
    """

    offsets: NDArray[np.int64]
    distances: NDArray[np.float64]
    rates: NDArray[np.float64]
    errors: NDArray[np.float64]
    A: float
    k: float
    A_error: float
    k_error: float
    chi_square: float

    def curve(self, distances: Any) -> Any:
        """The fitted rate at distances from the mid, money: per time."""
        return self.A * np.exp(-self.k * np.asarray(distances, np.float64))


def estimate_fills(
    vec: Any, offsets: Sequence[int] | None = None, steps: int = 1000, *, num_envs: int = 256, seed: int = 0
) -> FillEstimate:
    """Measure how often an own order of one lot is executed that is kept at an offset from the opposite best.

    A market of the same parameters is run, half of its sub-envs with a bid alone and half with an ask, which is renewed
    at every step as an action of quotes is; ``vec`` itself is left as it is. The order is the only one of the agent.

    Args:
        vec: A VecEnv of the simulated order book, on any backend, with ``actions="quotes"`` and steps of a fixed time.
        offsets: Ticks from the opposite best; None for 1 to 5, as far as the env's ``max_offset`` goes.
        steps: Of each sub-env for each offset.
        num_envs: Sub-envs of that market, at least 4.
        seed: Of the runs.

    Returns:
        The rates, and the curve.

    Raises:
        TypeError: An offset or a number is no integer.
        ValueError: An offset is none of the env's, or there twice; the env has other actions or steps, or sub-envs that
            differ; or at an offset all steps or none brought a fill, where there is no rate.
    """
    where = "estimate_fills"
    params = _read_params(vec, where)
    chosen = _check_offsets(offsets, params.max_offset)
    steps = check_count(steps, f"{where}(steps)")
    num_envs = check_count(num_envs, f"{where}(num_envs)", minimum=4)
    copy = _copy(params, num_envs, steps)
    shares = np.empty((len(chosen), num_envs))
    distances = np.empty(len(chosen))
    rows = np.arange(num_envs)
    for k, (offset, seed_of) in enumerate(zip(chosen.tolist(), make_seed_sequence(seed, len(chosen)), strict=True)):
        actions = np.zeros((num_envs, 3), np.int64)
        actions[rows, rows % 2] = offset
        filled, spread = np.zeros(num_envs), 0.0
        infos = copy.reset(seed=seed_of).infos
        for _ in range(steps):
            spread += infos.column("spread").mean()
            infos = copy.step(actions).infos
            filled += infos.column("bought") + infos.column("sold") > 0
        shares[k] = filled / steps
        distances[k] = params.tick_size * (offset - 0.5 * spread / steps)
    p = shares.mean(axis=1)
    for offset, share in zip(chosen.tolist(), p.tolist(), strict=True):
        if not 0.0 < share < 1.0:
            raise ValueError(
                f"{where}: expected fills at offset {offset} in some steps but not in all, got a share of {share:g}; "
                f"take {'more steps or smaller offsets' if share == 0.0 else 'a shorter step_time'}"
            )
    rates = -np.log1p(-p) / params.step_time
    errors = shares.std(axis=1, ddof=1) / math.sqrt(num_envs) / (1.0 - p) / params.step_time
    return FillEstimate(chosen, distances, rates, errors, *fit_curve(distances, rates, errors))


def fit_curve(
    distances: NDArray[np.float64], rates: NDArray[np.float64], errors: NDArray[np.float64]
) -> tuple[float, float, float, float, float]:
    """The curve ``A exp(-k delta)`` through rates with errors: least squares of the logarithms, weighted by these.

    Args:
        distances: f8 (D,), no two the same.
        rates: f8 (D,), above 0.
        errors: f8 (D,), above 0.

    Returns:
        ``A``, ``k``, their standard errors, and the sum of squares that is left; NaN for one rate.
    """
    if len(rates) < 2:
        return math.nan, math.nan, math.nan, math.nan, math.nan
    weights = (rates / errors) ** 2  # of the logarithms
    design = np.stack([np.ones_like(distances), -distances], axis=1)
    covariance = np.linalg.inv(design.T @ (weights[:, np.newaxis] * design))
    log_a, k = covariance @ (design.T @ (weights * np.log(rates)))
    left = np.log(rates) - design @ np.array([log_a, k])
    a = math.exp(log_a)
    log_a_error, k_error = np.sqrt(np.diag(covariance))
    return a, float(k), a * float(log_a_error), float(k_error), float(weights @ left**2)


def estimate_volatility(vec: Any, steps: int | None = None, *, num_envs: int = 1024, seed: int = 0) -> Estimate:
    """Measure how far the mid moves within a time, without the agent; ``vec`` itself is left as it is.

    It is ``sqrt(E[(change of the mid)^2] / time)``. The mid of a book is no Brownian motion: over a few events it
    bounces between queues, so that the number depends on the time.

    Args:
        vec: As for ``estimate_fills``.
        steps: Steps of that time; None for those of an episode.
        num_envs: Sub-envs of a market of the same parameters, at least 2.
        seed: Of the run.

    Returns:
        Money per square root of time, and its standard error.

    Raises:
        TypeError: A number is no integer.
        ValueError: As for ``estimate_fills``.
    """
    where = "estimate_volatility"
    params = _read_params(vec, where)
    steps = check_count(params.n_steps if steps is None else steps, f"{where}(steps)")
    num_envs = check_count(num_envs, f"{where}(num_envs)", minimum=2)
    copy = _copy(params, num_envs, steps)
    no_quotes = np.zeros((num_envs, 3), np.int64)
    before = np.array(copy.reset(seed=seed).infos.column("mid_price"))
    for _ in range(steps):
        infos = copy.step(no_quotes).infos
    squares = (infos.column("mid_price") - before) ** 2 / (steps * params.step_time)
    volatility = math.sqrt(squares.mean())
    error = float(squares.std(ddof=1)) / math.sqrt(num_envs)
    return Estimate(volatility, 0.5 * error / volatility if volatility else 0.0)


def _read_params(vec: Any, where: str) -> LimitOrderBookParams:

    shared = read_shared(vec, where, "quotes")
    if shared.keys() != set(LimitOrderBookParams._fields):
        raise ValueError(f"{where}: expected a LimitOrderBookVecEnv, whose flow makes as many books as one likes")
    params = LimitOrderBookParams(**shared)
    if params.step_by != "time":
        raise ValueError(f"{where}: expected steps of a fixed time, got step={params.step_by!r}")
    return params


def _copy(params: LimitOrderBookParams, num_envs: int, steps: int) -> LimitOrderBookVecEnv:
    """So many sub-envs with these parameters, whose episodes outlast the steps, and with all the room for inventory."""
    from sims.order_book.env import LimitOrderBookVecEnv

    limit = None if params.max_inventory is None else _NO_LIMIT
    changes = {"n_steps": steps + 1, "max_inventory": limit}
    return LimitOrderBookVecEnv.of_rules(num_envs, **params._asdict() | changes)


def _check_offsets(offsets: Sequence[int] | None, most: int) -> NDArray[np.int64]:
    where = "estimate_fills(offsets)"
    if offsets is None:
        offsets = range(1, min(5, most) + 1)
    chosen = [check_count(offset, where) for offset in offsets]
    if not chosen or len(set(chosen)) < len(chosen) or max(chosen) > most:
        raise ValueError(f"{where}: expected different ones of 1 to {most} ticks (max_offset), got {chosen}")
    return np.array(chosen, np.int64)
