"""Quoting a bid and an ask about a moving mid. Importing this package imports numba."""

from __future__ import annotations

from sekai.vector import Randomized
from sims.market_making.baselines import GLFT, AvellanedaStoikov, CarteaJaimungal, FixedSpread
from sims.market_making.market import MarketMakingParams, MarketMakingVecEnv

__all__ = [
    "GLFT",
    "AvellanedaStoikov",
    "CarteaJaimungal",
    "FixedSpread",
    "MarketMakingParams",
    "MarketMakingVecEnv",
    "Randomized",
]
