"""Price models, each for any market: named tuples of parameters, with the law of a row as functions of the class.

``sims.prices.model`` says what a model is, for who writes one. Importing this package imports numba.
"""

from __future__ import annotations

from sims.prices.bootstrap import BlockBootstrap
from sims.prices.brownian import Brownian
from sims.prices.correlated import CorrelatedGeometric
from sims.prices.garch import Garch
from sims.prices.geometric import Geometric
from sims.prices.heston import Heston
from sims.prices.merton import MertonJumps
from sims.prices.model import (
    NoState,
    PriceModel,
    SeveralPricesModel,
    begin_without_state,
    check_class,
    check_model,
    describe_model,
    is_model,
    is_model_of_several,
    is_nearly_model,
)
from sims.prices.ornstein_uhlenbeck import LogOrnsteinUhlenbeck, OrnsteinUhlenbeck
from sims.prices.regimes import RegimeSwitching, transition_of_rates

__all__ = [
    "BlockBootstrap",
    "Brownian",
    "CorrelatedGeometric",
    "Garch",
    "Geometric",
    "Heston",
    "LogOrnsteinUhlenbeck",
    "MertonJumps",
    "NoState",
    "OrnsteinUhlenbeck",
    "PriceModel",
    "RegimeSwitching",
    "SeveralPricesModel",
    "begin_without_state",
    "check_class",
    "check_model",
    "describe_model",
    "is_model",
    "is_model_of_several",
    "is_nearly_model",
    "transition_of_rates",
]
