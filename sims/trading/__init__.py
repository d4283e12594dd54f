"""Trading one asset along a real price history. Importing this package imports numba."""

from __future__ import annotations

from sims.trading.baselines import AlwaysFlat, BuyAndHold, Momentum
from sims.trading.env import TradingVecEnv
from sims.trading.market import TradingParams

__all__ = ["AlwaysFlat", "BuyAndHold", "Momentum", "TradingParams", "TradingVecEnv"]
