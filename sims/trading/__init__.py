"""Trading one asset along a real price history, or along prices that a model draws.

Importing this package imports numba.
"""

from __future__ import annotations

from sims.trading.baselines import AlwaysFlat, BuyAndHold, Momentum
from sims.trading.env import TradingVecEnv
from sims.trading.market import TradingParams
from sims.trading.simulated import SimulatedTradingParams, SimulatedTradingVecEnv, make_trading

__all__ = [
    "AlwaysFlat",
    "BuyAndHold",
    "Momentum",
    "SimulatedTradingParams",
    "SimulatedTradingVecEnv",
    "TradingParams",
    "TradingVecEnv",
    "make_trading",
]
