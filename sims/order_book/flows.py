"""What the background of a book does: rates by distance, sizes, and orders that excite each other.

All rates are per unit of time. ``read_flow`` makes of a flow what row functions read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sims.order_book import hawkes

#: Slots of an alias table at most, so that 22 of the 32 bits of a word are left to choose within one.
MOST_SLOTS = 1024
_ALL = 2**32 - 1
#: A rate at most, so that sums of them stay finite.
_MOST_RATE = 1e12

#: A law of sizes: the lots of an order by their probabilities, 1 lot first; they are made to sum to 1.
Sizes: TypeAlias = "Sequence[float] | NDArray[np.float64] | None"


class _Frozen:
    """What keeps the sequences that a flow is given as tuples, so that nobody changes it and equal ones are one."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if isinstance(value, (list, np.ndarray)):
                object.__setattr__(self, each.name, _as_tuple(value))


def _as_tuple(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, kw_only=True)
class CST(_Frozen):
    """Limit orders, market orders and cancels, all Poisson, of Cont, Stoikov and Talreja (2010).

    "A stochastic model for order book dynamics", Operations Research 58(3). The rates that stand here unless others
    are given are their estimates for Sky Perfect Communications (table 2), a unit being the average size of a limit
    order: ``lam(i)`` of the distances 1 to 5 as estimated, and beyond by their power law ``1.92 i^-0.52``.

    Attributes:
        lam: Limit orders a side by their distance from the opposite best, 1 tick first.
        mu: Market orders a side.
        theta: Cancels of every resting order; or by its distance from the opposite best, 1 tick first, beyond the last
            of which the last one holds.
        sizes: Weights of 1, 2, ... lots, for limit and market orders, made to sum to 1; None for 1 lot always.
    """

    lam: Sequence[float] = (1.85, 1.51, 1.09, 0.88, 0.77, *(1.92 * i**-0.52 for i in range(6, 21)))
    mu: float = 0.94
    theta: float | Sequence[float] = (0.71, 0.81, 0.68, 0.56, 0.47)
    sizes: Sizes = None


@dataclass(frozen=True, kw_only=True)
class SantaFe(_Frozen):
    """Limit orders at one rate for all distances, of Smith, Farmer, Gillemot and Krishnamurthy (2003).

    "Statistical theory of the continuous double auction", Quantitative Finance 3.

    Attributes:
        lam: Limit orders a side at each distance.
        distances: The distances from the opposite best, 1 to this many ticks.
        mu: Market orders a side.
        theta: Cancels of every resting order.
        sizes: As of ``CST``.
    """

    lam: float = 1.0
    distances: int = 50
    mu: float = 10.0
    theta: float = 0.2
    sizes: Sizes = None


@dataclass(frozen=True, kw_only=True)
class Hawkes(_Frozen):
    """Limit and market orders of either side that excite each other, a Hawkes process of four kinds.

    The kinds, in this order: limit orders to buy, to sell, market orders to sell, to buy. Of kind ``k`` there are
    ``mu[k] + sum over events of kind j before t of alpha[k][j] exp(-beta (t - their time))`` per time at ``t``. Every
    resting order is cancelled at rate ``theta``, as of ``CST``.

    Attributes:
        mu: Of each kind, what comes by itself.
        alpha: (4, 4): what an event of kind ``j`` adds to kind ``k``, at ``[k][j]``.
        beta: How fast that wears off.
        weights: Of the distances of limit orders from the opposite best, 1 tick first; they are made to sum to 1.
        theta: Cancels of every resting order, as of ``CST``.
        sizes: As of ``CST``.
    """

    mu: Sequence[float] = (6.0, 6.0, 0.6, 0.6)
    alpha: Sequence[Sequence[float]] = (
        (2.0, 0.5, 0.5, 1.0),
        (0.5, 2.0, 1.0, 0.5),
        (0.1, 0.2, 2.0, 0.2),
        (0.2, 0.1, 0.2, 2.0),
    )
    beta: float = 5.0
    weights: Sequence[float] = tuple(1.92 * i**-0.52 for i in range(1, 21))
    theta: float | Sequence[float] = 0.6
    sizes: Sizes = None


Flow: TypeAlias = "CST | SantaFe | Hawkes"

#: Flows as they are by themselves, by the names that a shell may give.
FLOWS: dict[str, Flow] = {"cst": CST(), "santa-fe": SantaFe(), "hawkes": Hawkes()}


class FlowTables(NamedTuple):
    """A flow as row functions read it.

    Attributes:
        excites: Whether orders excite each other.
        has_sizes: Whether there is a law of sizes.
        by_distance: Whether cancels depend on the distance.
        lam: Limit orders a side, of all distances.
        mu: Market orders a side.
        theta: Cancels of every order, the greatest of all distances.
        offset_bits: Bits of a word that name a slot of the alias table of offsets, see ``alias_table``.
        accept_offset: u4 (2^offset_bits,).
        drawn_offset: i4 (2 * 2^offset_bits,), ticks.
        size_bits: Of the table of sizes, likewise.
        accept_size: u4.
        drawn_size: i4, lots.
        accept_cancel: u8 (D,): below what a word stands for a cancel, by distance.
        base: f8 (4,), ``mu`` of the kinds.
        alpha: f8 (4, 4).
        beta: How fast excitation wears off.
    """

    excites: bool
    has_sizes: bool
    by_distance: bool
    lam: float
    mu: float
    theta: float
    offset_bits: int
    accept_offset: NDArray[np.uint32]
    drawn_offset: NDArray[np.int32]
    size_bits: int
    accept_size: NDArray[np.uint32]
    drawn_size: NDArray[np.int32]
    accept_cancel: NDArray[np.uint64]
    base: NDArray[np.float64]
    alpha: NDArray[np.float64]
    beta: float


def most_offset(flow: Flow) -> int:
    """The largest distance of a limit order from the opposite best, ticks."""
    if isinstance(flow, SantaFe):
        return flow.distances
    return len(flow.weights if isinstance(flow, Hawkes) else flow.lam)


def mean_rates(flow: Flow, mu: float | None = None) -> tuple[float, float]:
    """Limit and market orders a side and time in the long run.

    Args:
        flow: The flow.
        mu: The market orders, instead of the flow's; None for those.
    """
    tables = read_flow(flow)
    if isinstance(flow, Hawkes):
        rates = hawkes.stationary_rates(tables.base, tables.alpha, tables.beta)
        return 0.5 * float(rates[0] + rates[1]), 0.5 * float(rates[2] + rates[3])
    return tables.lam, tables.mu if mu is None else mu


def slowest_theta(flow: Flow) -> float:
    """The least rate of cancels above 0 at any distance."""
    theta = np.atleast_1d(np.asarray(flow.theta, dtype=np.float64))
    return float(theta[theta > 0.0].min())


def expected_orders(flow: Flow, mu: float | None = None, lam_factor: float = 1.0, theta_factor: float = 1.0) -> float:
    """Background orders of a book in the long run, at most: as if neither side were ever empty, and all cancels slow.

    Args:
        flow: The flow.
        mu: See ``mean_rates``.
        lam_factor: What the rates of limit orders are multiplied by.
        theta_factor: What those of cancels are multiplied by.

    Returns:
        Orders; infinite where those at some distance are never cancelled.
    """
    limits, trades = mean_rates(flow, mu)
    slowest = theta_factor * float(np.min(flow.theta))
    return 2.0 * max(lam_factor * limits - trades, 0.0) / slowest if slowest else math.inf


def read_flow(flow: Any) -> FlowTables:
    """A flow as row functions read it.

    Raises:
        TypeError: It is none.
        ValueError: A number is out of its range; the message names it.
    """
    if not isinstance(flow, (CST, SantaFe, Hawkes)):
        raise TypeError(f"flow: expected a CST, SantaFe or Hawkes, got {flow!r}")
    return _tables_of(flow)


@functools.lru_cache(maxsize=64)  # asked for once for each sub-env, if parameters differ between them
def _tables_of(flow: Flow) -> FlowTables:
    """What ``read_flow`` returns."""
    if isinstance(flow, SantaFe):
        count = flow.distances
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_SLOTS:
            raise ValueError(f"flow.distances: expected 1 to {MOST_SLOTS} ticks, got {count!r}")
        _check_rate(flow.lam, "flow.lam")
        weights = np.full(count, float(flow.lam))
    elif isinstance(flow, CST):
        weights = _numbers(flow.lam, "flow.lam", MOST_SLOTS)
    else:
        weights = _numbers(flow.weights, "flow.weights", MOST_SLOTS)
        if not weights.any():
            raise ValueError("flow.weights: expected one above 0, got none")
    theta = np.atleast_1d(_numbers(np.atleast_1d(flow.theta), "flow.theta", MOST_SLOTS))
    base, alpha, beta, mu = np.zeros(4), np.zeros((4, 4)), 0.0, 0.0
    if isinstance(flow, Hawkes):
        base, alpha, beta = check_hawkes(flow.mu, flow.alpha, flow.beta)
    else:
        mu = _check_rate(flow.mu, "flow.mu")
    has_sizes = flow.sizes is not None
    sizes = _numbers(flow.sizes, "flow.sizes", MOST_SLOTS) if has_sizes else np.ones(1)
    if not sizes.any():
        raise ValueError("flow.sizes: expected a probability above 0, got none")
    offset_bits, accept_offset, drawn_offset = alias_table(weights)
    size_bits, accept_size, drawn_size = alias_table(sizes)
    greatest = float(theta.max())
    return FlowTables(
        excites=isinstance(flow, Hawkes),
        has_sizes=has_sizes,
        by_distance=bool(np.any(theta != greatest)),
        lam=float(weights.sum()),
        mu=mu,
        theta=greatest,
        offset_bits=offset_bits,
        accept_offset=accept_offset,
        drawn_offset=drawn_offset,
        size_bits=size_bits,
        accept_size=accept_size,
        drawn_size=drawn_size,
        accept_cancel=np.floor((theta / greatest if greatest else theta) * 2.0**32).astype(np.uint64),
        base=base,
        alpha=alpha,
        beta=beta,
    )


def alias_table(weights: NDArray[np.float64]) -> tuple[int, NDArray[np.uint32], NDArray[np.int32]]:
    """The table from which one word draws ``k`` from 1 up, in proportion to ``weights[k - 1]``.

    The first bits of the word name a slot. The rest, as the upper bits of 32, draws the slot's own number if it is
    below what the slot accepts, else its alias. Walker (1977), "An efficient method for generating discrete random
    variables with general distributions", ACM TOMS 3(3); made as by Vose (1991), IEEE Transactions on Software
    Engineering 17(9).

    Args:
        weights: f8 (n,), at least 0; where all are 0 they count as equal, since nothing is drawn.

    Returns:
        The number of the first bits; what each slot accepts, u4; and what is drawn, i4: at ``2 slot`` its own number,
        at ``2 slot + 1`` its alias.
    """
    bits = max(1, math.ceil(math.log2(len(weights))))
    slots = 2**bits
    left = np.zeros(slots)
    left[: len(weights)] = weights if weights.any() else 1.0
    left *= slots / left.sum()
    accept, alias = np.full(slots, _ALL, np.uint32), np.arange(slots)
    small, large = [k for k in range(slots) if left[k] < 1.0], [k for k in range(slots) if left[k] >= 1.0]
    while small and large:
        k, of = small.pop(), large[-1]
        accept[k], alias[k] = int(left[k] * _ALL), of
        left[of] -= 1.0 - left[k]
        if left[of] < 1.0:
            small.append(large.pop())
    drawn = np.stack([np.arange(slots), alias], axis=1).reshape(-1) + 1
    return bits, accept, drawn.astype(np.int32)


def check_hawkes(mu: Any, alpha: Any, beta: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The numbers of a Hawkes process, as float64.

    Raises:
        ValueError: A shape or a number is out of its range, or the process grows without bound.
    """
    base = _numbers(mu, "flow.mu", 4)
    if len(base) != 4:
        raise ValueError(f"flow.mu: expected 4 numbers, one for each kind of order, got {len(base)}")
    matrix = np.array(alpha, dtype=np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or (matrix < 0.0).any():
        raise ValueError(f"flow.alpha: expected (4, 4) finite numbers of at least 0, got {alpha!r}")
    decay = _check_rate(beta, "flow.beta")
    if not decay:
        raise ValueError(f"flow.beta: expected a finite number above 0, got {beta}")
    radius = float(np.abs(np.linalg.eigvals(matrix / decay)).max())
    if radius >= 1.0:
        raise ValueError(
            f"flow.alpha: expected a branching matrix alpha / beta with a spectral radius below 1, as events otherwise "
            f"grow without bound, got {radius:g}"
        )
    return base, matrix, decay


def _numbers(values: Any, where: str, most: int) -> NDArray[np.float64]:
    try:
        row = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where}: expected numbers, got {values!r}") from None
    if row.ndim != 1 or not 1 <= row.size <= most:
        raise ValueError(f"{where}: expected 1 to {most} numbers, got an array of shape {row.shape}")
    good = (row >= 0.0) & (row <= _MOST_RATE)  # none of which NaN is
    if not good.all():
        k = int(np.argmin(good))
        raise ValueError(f"{where}: expected numbers from 0 to {_MOST_RATE:g}, got {row[k]} at [{k}]")
    return row


def _check_rate(value: Any, where: str) -> float:
    if not (isinstance(value, (int, float, np.number)) and 0.0 <= value <= _MOST_RATE):
        raise ValueError(f"{where}: expected a number from 0 to {_MOST_RATE:g}, got {value!r}")
    return float(value)
