"""Trading in an order book of individual orders. Importing this package imports numba."""

from __future__ import annotations

from sekai.vector import Randomized
from sims.order_book.baselines import TWAP, VWAP, FixedOffset, ImbalanceTaker, InventorySkew, JoinBest
from sims.order_book.book import BookRules
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.fills import FillEstimate, estimate_fills, estimate_volatility
from sims.order_book.flows import CST, Hawkes, SantaFe
from sims.order_book.parameters import LimitOrderBookParams
from sims.order_book.queue_laws import FillChances, fill_chance, measure_fill_chances
from sims.order_book.record import record_tape, recorded_tape
from sims.order_book.replay import ReplayParams, ReplayVecEnv
from sims.order_book.start import StartBook

__all__ = [
    "CST",
    "TWAP",
    "VWAP",
    "BookRules",
    "FillChances",
    "FillEstimate",
    "FixedOffset",
    "Hawkes",
    "ImbalanceTaker",
    "InventorySkew",
    "JoinBest",
    "LimitOrderBookParams",
    "LimitOrderBookVecEnv",
    "Randomized",
    "ReplayParams",
    "ReplayVecEnv",
    "SantaFe",
    "StartBook",
    "estimate_fills",
    "estimate_volatility",
    "fill_chance",
    "measure_fill_chances",
    "record_tape",
    "recorded_tape",
]
