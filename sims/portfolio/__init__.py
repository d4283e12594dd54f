"""Portfolios of several assets and cash, along real price histories or prices that a model draws.

Importing this package imports numba.
"""

from __future__ import annotations

from sims.portfolio.baselines import BuyAndHold, EqualWeight, Merton, MinimumVariance, Momentum
from sims.portfolio.env import PortfolioVecEnv
from sims.portfolio.market import PortfolioParams
from sims.portfolio.simulated import SimulatedPortfolioParams, SimulatedPortfolioVecEnv
from sims.portfolio.strict import StrictPortfolioVecEnv, StrictSimulatedPortfolioVecEnv, make_portfolio

__all__ = [
    "BuyAndHold",
    "EqualWeight",
    "Merton",
    "MinimumVariance",
    "Momentum",
    "PortfolioParams",
    "PortfolioVecEnv",
    "SimulatedPortfolioParams",
    "SimulatedPortfolioVecEnv",
    "StrictPortfolioVecEnv",
    "StrictSimulatedPortfolioVecEnv",
    "make_portfolio",
]
