"""Working off an order in slices. Importing this package imports numba."""

from __future__ import annotations

from sims.execution.baselines import TWAP, VWAP, AlmgrenChriss, CarteaJaimungal, ObizhaevaWang
from sims.execution.closed_forms import cost_variance, expected_cost
from sims.execution.env import ExecutionVecEnv
from sims.execution.market import ExecutionParams

__all__ = [
    "TWAP",
    "VWAP",
    "AlmgrenChriss",
    "CarteaJaimungal",
    "ExecutionParams",
    "ExecutionVecEnv",
    "ObizhaevaWang",
    "cost_variance",
    "expected_cost",
]
