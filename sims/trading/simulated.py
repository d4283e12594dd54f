"""``Trading-v0`` with a price model: every episode of every account draws a path of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy import float32, float64
from numpy.typing import NDArray

from sekai.kernels import jit
from sekai.vector import KernelVecEnv, column, part_of
from sekai.vector.kernel import signature_of_either
from sims.bars import check_simulated, derive_row, is_at_limit, within_limits
from sims.prices import Geometric, check_class, check_model, is_nearly_model
from sims.trading import market
from sims.trading.env import TradingVecEnv
from sims.trading.plot import plot_trading


class SimulatedTradingParams(NamedTuple):
    """What one bar is, costs and pays. See ``SimulatedTradingVecEnv`` for the market itself.

    Attributes:
        prices: A model of ``sims.prices`` whose prices stay above 0.
        lookback: Returns in the observation, bars, at least 1.
        episode_length: Steps (bars) after which an episode is truncated, at least 1.
        actions: ``"discrete"`` (0 short, 1 flat, 2 long) or ``"weight"`` (a number in [-1, 1]).
        transaction_cost: Fraction of the value traded, in [0, 1).
        borrow_rate: Per bar, fraction of the value of a short position, in [0, 1).
        execution: ``"close"``, the last one seen, or None for that; a model has no opens.
        reward: ``"log_growth"`` of wealth or its simple ``"return"``.
        bar_time: The time of a bar, in the unit that the model's parameters count in, above 0.
        initial_price: The price at which a path begins, ``lookback`` bars before the episode, 1e-30 to 1e30.
    """

    prices: tuple = Geometric(drift=0.05, volatility=0.2)  # type: ignore[type-arg]
    lookback: int = 32
    episode_length: int = 252
    actions: str = "discrete"
    transaction_cost: float = 1e-3
    borrow_rate: float = 0.0
    execution: Any = None
    reward: str = "log_growth"
    bar_time: float = 1.0 / 252.0
    initial_price: float = 100.0


class SimulatedAccount(NamedTuple):
    """One account per sub-env. What is not told here is as in ``sims.trading.market.Account``.

    Attributes:
        price: The last close.
        recent: The last ``lookback`` returns: that of step ``k`` of the episode at ``(k - 1) % lookback``.
        path: The state of the model.
    """

    units: float64
    cash: float64
    price: float64
    wealth: float64
    position: float64
    turnover: float64
    cost: float64
    borrow: float64
    fill_price: float64
    units_traded: float64
    recent: column(float32, "lookback")  # type: ignore[valid-type]
    path: part_of("prices", "State")  # type: ignore[valid-type]


@jit
def move_row(params: Any, derived: Any, state: Any, random: Any, i: int, price: float) -> Any:
    """The close of the next bar."""
    return within_limits(params.prices.move(params.prices, derived.path, state.path, random, i, price), price)


@jit
def reset_row(params: Any, derived: Any, state: Any, random: Any, i: int) -> None:
    """Draw the bars that are seen before the first step, and begin with cash alone."""
    price = params.initial_price
    params.prices.begin(params.prices, derived.path, state.path, random, i, price)
    for k in range(state.recent.shape[1]):
        close = move_row(params, derived, state, random, i, price)
        state.recent[i, k] = close / price - 1.0
        price = close
    market.open_account(state, i, price)


@jit
def step_row(params: Any, derived: Any, state: Any, random: Any, i: int, elapsed: int, action: Any) -> Any:
    """Trade at the last close, and draw the next one; see ``sims.trading.market.hold_row``."""
    price = state.price[i]
    close = move_row(params, derived, state, random, i, price)
    reward, ruined, is_rich = market.hold_row(params, state, i, action, price, close)
    state.recent[i, elapsed % state.recent.shape[1]] = close / price - 1.0
    return reward, ruined, elapsed + 1 >= params.episode_length or is_rich or is_at_limit(close)


@jit
def observe_row(state: Any, i: int, elapsed: int, observation: NDArray[float32]) -> None:
    """Write the returns of the last ``lookback`` bars, oldest first, then the weight held."""
    lookback = state.recent.shape[1]
    oldest = elapsed % lookback
    for k in range(lookback - oldest):
        observation[k] = state.recent[i, oldest + k]
    for k in range(oldest):
        observation[lookback - oldest + k] = state.recent[i, k]
    observation[lookback] = state.position[i]


def check(params: SimulatedTradingParams) -> None:
    """Refuse what is out of its range.

    Raises:
        TypeError: Something is of another type.
        ValueError: Something is out of its range, or the model's prices may fall to 0.
    """
    check_simulated(params)
    market.check_terms(params._replace(execution="close"))
    check_model("prices", params.prices, dt=params.bar_time, positive=True)


class SimulatedTradingVecEnv(KernelVecEnv[NDArray[np.float32], Any]):
    """Trade one asset whose prices a model draws: ``TradingVecEnv`` without a history.

    The account, its actions, rewards and infos are those of ``TradingVecEnv`` with ``execution="close"``. The prices
    are drawn from the sub-env's own stream, bar by bar, so that all episodes are independent of each other: a path
    begins at ``initial_price`` and in the model's initial state, and runs for the ``lookback`` bars that the first
    observation shows before the episode begins.

    Episode: terminated at ruin, and truncated after ``episode_length`` steps, or when wealth has grown beyond 1e100, or
    the price has come to a bound of [1e-38, 1e38], in which it is kept, as are a bar's factors.

    Infos: as of ``TradingVecEnv``, without ``bar``, since there is no history to be somewhere on.

    Args:
        num_envs: Number of accounts.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them; the market takes none.
        **params: The fields of ``SimulatedTradingParams``. A number, those of the model too, may be given as one for
            all sub-envs, one for each, or ``Randomized``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range.
    """

    Params, State = SimulatedTradingParams, SimulatedAccount
    check, derive_row = check, derive_row
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = market.observation_space, market.action_space
    infos = ("price", "wealth", "position", "turnover", "cost", "borrow", "fill_price", "units_traded")
    reset_infos = ("price", "wealth", "position")

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[dict[str, Callable[..., Callable[[Any], NDArray[Any]]]]] = TradingVecEnv.policies
    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_trading)

    @property
    def details(self) -> dict[str, str]:
        """What ``sekai info`` shows besides: the model, and where trades are made."""
        return {"prices": f"drawn from {self.params.prices}", "execution": "close"}


def make_trading(num_envs: int, *, prices: Any = None, **params: Any) -> KernelVecEnv[Any, Any]:
    """``Trading-v0``: along a history, or with a price model along paths that it draws.

    Args:
        num_envs: Number of accounts.
        prices: A model for a ``SimulatedTradingVecEnv``; what ``TradingVecEnv`` reads for that.
        **params: What that class takes.

    Raises:
        TypeError: As of the class.
        ValueError: As of the class.
        OSError: As of the class.
    """
    if not is_nearly_model(prices):
        return TradingVecEnv(num_envs, prices=prices, **params)
    check_class("prices", prices)
    return SimulatedTradingVecEnv(num_envs, prices=prices, **params)


# Of an argument that it does not take, errors name those that it does.
make_trading.__signature__ = signature_of_either(TradingVecEnv, SimulatedTradingVecEnv)  # type: ignore[attr-defined]
