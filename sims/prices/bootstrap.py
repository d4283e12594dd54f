"""Returns drawn from a real history, in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import int64

from sekai.kernels import jit, maths, streams
from sims.checks import check_range
from sims.prices.model import MOST_LOG, ArrayCheck, NoState

if TYPE_CHECKING:
    from sims.data import PriceHistory


class Place(NamedTuple):
    """What a row has besides its price.

    Attributes:
        next: The return of the next step, unless a block begins there.
    """

    next: np.int64


def check(model: BlockBootstrap) -> None:
    """ValueError for returns that are none, or blocks that are shorter than a return."""
    _check_returns(model.log_returns)
    check_range("mean_block", model.mean_block, least=1.0)


@ArrayCheck
def _check_returns(log_returns: Any) -> None:
    returns = np.asarray(log_returns)
    if returns.ndim != 1 or not returns.size:
        raise ValueError(f"log_returns: expected an array of at least one return, got shape {returns.shape}")
    good = np.abs(returns) <= MOST_LOG  # False for nan
    if not good.all():
        k = int(good.argmin())
        raise ValueError(f"log_returns: expected finite log returns of at most {MOST_LOG:g}, got {returns[k]} at {k}")


@jit
def derive(model: Any, dt: float) -> NoState:
    """Nothing follows from the time of a step."""
    return NoState()


@jit
def begin(model: Any, derived: Any, state: Place, random: Any, i: int, price: float) -> None:
    """Draw the return that an episode begins with."""
    n = len(model.log_returns)
    state.next[i] = min(int64(streams.uniform(random, i) * n), n - 1)


@jit
def move(model: Any, derived: Any, state: Place, random: Any, i: int, price: float) -> Any:
    """Draw the price a step later."""
    word_0, word_1, word_2, word_3 = streams.random_words(random, i)
    n = len(model.log_returns)
    drawn = min(int64(streams.uniform64_of(word_2, word_3) * n), n - 1)
    begins = streams.uniform64_of(word_0, word_1) * model.mean_block < 1.0
    place = drawn if begins else state.next[i]
    state.next[i] = place + 1 if place + 1 < n else 0
    return price * maths.exp(model.log_returns[place])


class BlockBootstrap(NamedTuple):
    """The log returns of a history, in blocks of random lengths.

    The stationary bootstrap of Politis and Romano (1994), "The stationary bootstrap", Journal of the American
    Statistical Association 89. In each step a block begins with the chance ``1 / mean_block``, at a return drawn
    uniformly; else the return is the one that follows the last in the history, where the first follows the last of all.
    So lengths of blocks are geometric, each return is as likely as the others in each step, and what a return depends
    on in the history it depends on within a block. Exact. A step is one bar of the history, whatever time the market
    says it takes. All sub-envs share the array.

    Attributes:
        log_returns: (m,), log returns, oldest first.
        mean_block: Mean length of a block, returns, at least 1; 1 draws each return by itself.
    """

    log_returns: np.ndarray
    mean_block: float = 20.0

    State, Derived, is_positive = Place, NoState, True
    check = staticmethod(check)
    derive, begin, move = staticmethod(derive), staticmethod(begin), staticmethod(move)

    @classmethod
    def from_history(cls, history: PriceHistory, mean_block: Any = 20.0) -> BlockBootstrap:
        """Of the closes of a history.

        Args:
            history: As ``sims.data.load_history`` gives it: at least two bars.
            mean_block: Mean length of a block, bars.
        """
        return cls(np.diff(np.log(history.close)), mean_block)
