"""``Portfolio-v0`` with a price model: every episode of every account draws paths of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy import float32, float64
from numpy.typing import NDArray

from sekai.kernels import jit
from sekai.spaces import Box
from sekai.vector import KernelVecEnv, column, part_of, shared
from sims.bars import MAX_WEALTH, check_simulated, derive_row, is_at_limit, reward_of, within_limits
from sims.portfolio import account, market
from sims.portfolio.baselines import MODEL_POLICIES
from sims.portfolio.plot import plot_portfolio
from sims.prices import CorrelatedGeometric, check_model, describe_model


class SimulatedPortfolioParams(NamedTuple):
    """What one bar is, costs and pays. See ``SimulatedPortfolioVecEnv`` for the market itself.

    Attributes:
        prices: A model of several prices, ``CorrelatedGeometric``, or for one asset any model of
            ``sims.prices`` whose prices stay above 0.
        lookback: See ``PortfolioParams``.
        episode_length: Steps (bars) after which an episode is truncated, at least 1.
        actions: See ``PortfolioParams``, as of all that come before ``bar_time``.
        shorts: See there.
        max_leverage: See there.
        transaction_cost: See there.
        cash_rate: See there.
        loan_rate: See there.
        borrow_rate: See there.
        execution: ``"close"``, the last one seen, or None for that; a model has no opens.
        reward: See there.
        bar_time: The time of a bar, in the unit that the model's parameters count in, above 0.
        initial_price: The price of each asset at which its path begins, ``lookback`` bars before the episode, 1e-30 to
            1e30.
    """

    prices: tuple = CorrelatedGeometric()  # type: ignore[type-arg]
    lookback: int = 32
    episode_length: int = 252
    actions: str = "weights"
    shorts: Any = False
    max_leverage: float = 1.0
    transaction_cost: float = 1e-3
    cash_rate: float = 0.0
    loan_rate: float = 0.0
    borrow_rate: float = 0.0
    execution: Any = None
    reward: str = "log_growth"
    bar_time: float = 1.0 / 252.0
    initial_price: float = 100.0


def count_assets(params: Any) -> int:
    """The number K of assets: 1 of a model of one price."""
    counts = getattr(params.prices, "count_assets", None)  # the kit hands in what notes which fields are read
    return 1 if counts is None else int(counts(params.prices))


class SimulatedAccount(NamedTuple):
    """One account per sub-env. What is not told here is as in ``sims.portfolio.market.Account``.

    Attributes:
        price: The last closes.
        recent: The last ``lookback`` returns: those of step ``k`` of the episode at ``(k - 1) % lookback``.
        path: The state of the model.
    """

    cash: float64
    wealth: float64
    units: column(float64, count_assets)  # type: ignore[valid-type]
    price: column(float64, count_assets)  # type: ignore[valid-type]
    weights: column(float64, count_assets)  # type: ignore[valid-type]
    turnover: float64
    cost: float64
    borrow: float64
    interest: float64
    fill_price: column(float64, count_assets)  # type: ignore[valid-type]
    units_traded: column(float64, count_assets)  # type: ignore[valid-type]
    recent: column(float32, "lookback", count_assets)  # type: ignore[valid-type]
    path: part_of("prices", "State")  # type: ignore[valid-type]


class NoFactors(NamedTuple):
    """What a model of one price works out once per market."""


class Shared(NamedTuple):
    """What all sub-envs share.

    Attributes:
        factors: What the model works out once.
        is_several: Whether it is a model of several prices.
        has_gaps: False: all assets are always listed.
    """

    factors: Any
    is_several: bool
    has_gaps: bool = False


# -- one row -----------------------------------------------------------------------------------------------


@jit
def move_row(params: Any, derived: Any, state: Any, random: Any, i: int, slot: int) -> bool:
    """Move the prices by a bar, and keep the returns in a slot; whether all are inside their limits.

    Prices before are read from ``fill_price``.
    """
    if derived.is_several:
        prices = state.price[i]
        params.prices.move_all(params.prices, derived.path, derived.factors, state.path, random, i, prices)
    else:
        state.price[i, 0] = params.prices.move(params.prices, derived.path, state.path, random, i, state.price[i, 0])
    inside = True
    for k in range(state.price.shape[1]):
        before = state.fill_price[i, k]
        close = within_limits(state.price[i, k], before)
        inside = inside and not is_at_limit(close)
        state.price[i, k] = close
        state.recent[i, slot, k] = close / before - 1.0
    return inside


@jit
def reset_row(params: Any, derived: Any, state: Any, random: Any, i: int) -> None:
    """Draw the bars that are seen before the first step, and begin with cash alone."""
    for k in range(state.price.shape[1]):
        state.price[i, k] = params.initial_price
    if derived.is_several:
        prices = state.price[i]
        params.prices.begin_all(params.prices, derived.path, derived.factors, state.path, random, i, prices)
    else:
        params.prices.begin(params.prices, derived.path, state.path, random, i, params.initial_price)
    for slot in range(state.recent.shape[1]):
        for k in range(state.price.shape[1]):
            state.fill_price[i, k] = state.price[i, k]
        move_row(params, derived, state, random, i, slot)
    account.open_account(state, i, state.price, i)


@jit
def step_row(params: Any, derived: Any, state: Any, random: Any, i: int, elapsed: int, action: Any) -> Any:
    """Trade at the last closes, and draw the next ones; see ``sims.portfolio.market.step_row``."""
    before, traded = account.trade_row(params, derived, state, i, action, state.price, i)
    inside = move_row(params, derived, state, random, i, elapsed % state.recent.shape[1])
    growth = account.mark_row(params, derived, state, i, state.price, i, before, traded)
    wealth = state.wealth[i]
    is_over = elapsed + 1 >= params.episode_length or wealth > MAX_WEALTH or not inside
    return reward_of(growth, params), wealth <= 0.0, is_over


@jit
def observe_row(state: Any, i: int, elapsed: int, observation: NDArray[float32]) -> None:
    """Write the returns of the last ``lookback`` bars, oldest first, then the weights held."""
    lookback, assets = state.recent.shape[1], state.recent.shape[2]
    oldest, at = elapsed % lookback, 0
    for slot in range(oldest, lookback):
        for k in range(assets):
            observation[at] = state.recent[i, slot, k]
            at += 1
    for slot in range(oldest):
        for k in range(assets):
            observation[at] = state.recent[i, slot, k]
            at += 1
    for k in range(assets):
        observation[at + k] = state.weights[i, k]


# -- all rows ----------------------------------------------------------------------------------------------


def check(params: SimulatedPortfolioParams) -> None:
    """Refuse what is out of its range.

    Raises:
        TypeError: Something is of another type.
        ValueError: Something is out of its range, or the model's prices may fall to 0.
    """
    check_simulated(params)
    market.check_terms(params)
    check_model("prices", params.prices, dt=params.bar_time, positive=True, several=True)


def prepare(params: Any) -> Shared:
    """What the model works out once."""
    make = getattr(params.prices, "prepare", None)
    return Shared(NoFactors(), False) if make is None else Shared(make(params.prices), True)


def observation_space(params: SimulatedPortfolioParams) -> Box:
    """Returns and weights."""
    return market.space_of_seen(count_assets(params), params.lookback, False)


def action_space(params: SimulatedPortfolioParams) -> Box:
    """A weight of each asset."""
    return market.space_of_weights(params, count_assets(params))


class SimulatedPortfolioVecEnv(KernelVecEnv[NDArray[np.float32], Any]):
    """Hold a portfolio of assets whose prices a model draws: ``PortfolioVecEnv`` without histories.

    The account, its actions, rewards and infos are those of ``PortfolioVecEnv`` with ``execution="close"``, of assets
    that are always listed. The prices are drawn from the sub-env's own stream, bar by bar, so that all episodes are
    independent of each other: a path begins at ``initial_price`` and in the model's initial state, and runs for the
    ``lookback`` bars that the first observation shows before the episode begins.

    Episode: terminated at ruin, and truncated after ``episode_length`` steps, or when wealth has grown beyond 1e100, or
    a price has come to a bound of [1e-38, 1e38], in which it is kept, as are a bar's factors.

    Infos: as of ``PortfolioVecEnv``, without ``bar``, since there is no history to be somewhere on.

    Args:
        num_envs: Number of accounts.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them; the market takes none.
        **params: The fields of ``SimulatedPortfolioParams``. A number, those of the model too, may be given as one for
            all sub-envs, one for each, or ``Randomized``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range.
    """

    Params, State = SimulatedPortfolioParams, SimulatedAccount
    check, prepare, derive_row = check, prepare, derive_row
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = observation_space, action_space
    infos = (
        *("price", "wealth", "weights", "cash", "turnover", "cost", "borrow", "interest", "fill_price"),
        "units_traded",
    )
    reset_infos = ("price", "wealth", "weights", "cash")

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[dict[str, Callable[..., Any]]] = MODEL_POLICIES
    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_portfolio)

    @property
    def details(self) -> dict[str, str]:
        """What ``sekai info`` shows besides: the model, and where trades are made."""
        return {"prices": f"drawn from {describe_model(self.params.prices)}", "execution": "close"}

    @property
    @shared
    def assets(self) -> tuple[str, ...]:
        """The names of the K assets: "asset 0" and so on."""
        return tuple(f"asset {k}" for k in range(count_assets(self.params)))
