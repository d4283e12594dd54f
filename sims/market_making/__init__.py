"""Quoting a bid and an ask about a moving mid. Importing this package imports numba."""

from __future__ import annotations

from sims.market_making.baselines import GLFT, AvellanedaStoikov, CarteaJaimungal, FixedSpread
from sims.market_making.env import MarketMakingVecEnv
from sims.market_making.params import MarketMakingParams
from sims.parameters import Randomized

__all__ = [
    "GLFT",
    "AvellanedaStoikov",
    "CarteaJaimungal",
    "FixedSpread",
    "MarketMakingParams",
    "MarketMakingVecEnv",
    "Randomized",
]
