"""What the baselines share: they quote by the units held and the time step, for a batch or one row."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sims.market_making.policy_parameters import CHECKS
from sims.market_making.quotes import LinearQuotes, QuoteRow, TabulatedQuotes, read_observation
from sims.parameters import Numbers
from sims.policies import ParametricPolicy

#: The most tables that one policy works out; each takes about a tenth of a second, and often some hundred KB.
MAX_TABLES = 64


class QuotingPolicy(ParametricPolicy):
    """A frozen dataclass whose quotes depend on the units held and the time step alone.

    Actions are float32 (N, 2): distances of the bid and the ask from the mid, price; they may be negative.
    """

    checks = CHECKS
    widths = (2, 4)

    _plan: LinearQuotes | TabulatedQuotes

    @abstractmethod
    def _make_plan(self) -> LinearQuotes | TabulatedQuotes:
        """What the policy quotes by, from its checked parameters."""

    def quotes(self, inventory: Any, step: Any = 0) -> tuple[Any, Any]:
        """Distances of the bid and the ask from the mid, before they are rounded to float32.

        Args:
            inventory: Units held, whole numbers: one, or (N,).
            step: Time step, 0 to n_steps: one, or (N,).

        Returns:
            Two float64, or float64 (N,), prices.
        """
        return self._plan.distances(np.asarray(inventory, np.float64), np.asarray(step, np.float64))

    def _act(self, observations: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        level, time_left = observations[:, 0].astype(np.float64), observations[:, 1].astype(np.float64)
        inventory, step = read_observation(self._plan, level, time_left)
        actions = np.empty((len(observations), 2), dtype=np.float32)
        actions[:, 0], actions[:, 1] = self._plan.distances(inventory, step)
        return actions

    def _row(self) -> QuoteRow:
        return self._plan.quote_row


@dataclass(frozen=True, kw_only=True, eq=False)
class InventoryPolicy(QuotingPolicy):
    """A policy for which the units held and the time step matter.

    Attributes:
        horizon: Time of an episode.
        n_steps: Steps of an episode.
        max_inventory: The env's inventory limit, units, of which an observation has the fraction; None where there is
            no limit and an observation has the units themselves.
    """

    horizon: float
    n_steps: int
    max_inventory: int | None

    @property
    def _inventory_scale(self) -> float:
        return 1.0 if self.max_inventory is None else float(self.max_inventory)

    def _linear(
        self, half_spread: Numbers, half_spread_rate: Numbers = 0.0, skew: Numbers = 0.0, skew_rate: Numbers = 0.0
    ) -> LinearQuotes:
        return LinearQuotes(
            half_spread=half_spread,
            half_spread_rate=half_spread_rate,
            skew=skew,
            skew_rate=skew_rate,
            horizon=self.horizon,
            n_steps=float(self.n_steps),
            inventory_scale=self._inventory_scale,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TabulatedPolicy(InventoryPolicy):
    """A policy that may work out its quotes at once, for every step and inventory.

    Attributes:
        grid_limit: The inventory limit of the model, units; None for ``max_inventory``. Beyond it the quotes are those
            at the limit.
    """

    grid_limit: int | None = None
    _values: NDArray[np.float64] = field(init=False, repr=False)  # (M, n_steps + 1, limit + 1), price: M tables
    _table: int | NDArray[np.intp] = field(init=False, repr=False)  # which of them each sub-env has

    @abstractmethod
    def _solve(self, limit: int, *parameters: float) -> tuple[NDArray[np.float64], float]:
        """The value ``h``, float64 (n_steps + 1, limit + 1) for q = 0..limit, and the half-spread of no risk.

        The bid is ``half_spread + h[q] - h[q + 1]``.
        """

    def _tabulated(self, *parameters: Numbers) -> TabulatedQuotes:
        """One table for each set of parameters that some sub-env has."""
        name = type(self).__name__
        limit = self.max_inventory if self.grid_limit is None else self.grid_limit
        if limit is None:
            raise ValueError(f"{name}: expected a grid_limit, the largest inventory to quote for, as the env has none")
        rows = np.stack(np.broadcast_arrays(*map(np.atleast_1d, parameters)), axis=1)
        sets, tables = np.unique(rows, axis=0, return_inverse=True)
        if len(sets) > MAX_TABLES:
            raise ValueError(
                f"{name}: expected at most {MAX_TABLES} different sets of parameters, for each takes a table, "
                f"got {len(sets)}"
            )
        solutions = [self._solve(limit, *one) for one in sets.tolist()]
        values = np.stack([value for value, _ in solutions])
        bid = np.stack([_bid_distances(*solution) for solution in solutions])
        values.flags.writeable = bid.flags.writeable = False
        table = tables.reshape(-1) if self._per_env() else 0
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_table", table)
        return TabulatedQuotes(
            bid=bid,
            table=table,
            limit=limit,
            n_steps=float(self.n_steps),
            inventory_scale=self._inventory_scale,
        )


def _bid_distances(value: NDArray[np.float64], half_spread: float) -> NDArray[np.float64]:
    """Distances (n_steps + 1, 2 limit + 1) for q = -limit..limit; the market quotes no bid at the limit."""
    mirrored = np.concatenate([value[:, :0:-1], value], axis=1)
    distances = half_spread - np.diff(mirrored, axis=1)
    return np.concatenate([distances, distances[:, -1:]], axis=1)
