"""``Trading-v0``: N accounts trading one asset along a history of its prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.vector import KernelVecEnv, shared
from sims.data import PriceHistory
from sims.data.bundled import read_history
from sims.prices import is_nearly_model
from sims.trading import market
from sims.trading.baselines import AlwaysFlat, BuyAndHold, Momentum
from sims.trading.plot import plot_trading


class TradingVecEnv(KernelVecEnv[NDArray[np.float32], Any]):
    """Trade one asset along a price history: every sub-env is an account somewhere on the same history.

    With a price model instead, ``Trading-v0`` is a ``SimulatedTradingVecEnv``.

    One step is one bar. Between steps the agent stands at the close of bar ``i``, with everything up to that close
    seen. It names the weight ``w`` it wants: the value of its position over its wealth. In this order:

    1. the account trades at the execution price ``P``: the open of bar ``i + 1``, so that the old position earns the
       gap from close to open, or the close of bar ``i`` itself. With ``W`` the wealth and ``u`` the position at
       ``P``, the position becomes the ``x`` for which ``x = w * (W - transaction_cost * |x - u|)``, so that the
       weight holds exactly after the cost. If ``W <= transaction_cost * |u|``, just when no such trade would leave
       any wealth, the position is closed instead, and the account is ruined;
    2. a short position pays ``borrow_rate * |x|`` in cash;
    3. the position is held to the close of bar ``i + 1``, and the account is marked there.

    Hence, with ``n`` the units held before and ``m`` after the trade,
    ``wealth' - wealth = n * (P - close[i]) + m * (close[i + 1] - P) - cost - borrow``.

    Observation: float32 (lookback + 1,), the simple returns of the last ``lookback`` bars up to bar ``i``, oldest
    first, then the weight held, at the close of bar ``i``.

    Action: 0 short, 1 flat, 2 long (weights -1, 0, 1), or with ``actions="weight"`` an array (1,) of a weight in
    [-1, 1].

    Reward: ``log(wealth' / wealth)``, with the ratio floored at 1e-6 so that ruin costs ``log(1e-6)``, about -13.8,
    and not infinity; or with ``reward="return"`` ``wealth' / wealth - 1``.

    Episode: starts flat with wealth 1 on a bar drawn uniformly from all on which a whole episode fits into the
    history, or on the one that ``reset(options={"start": i})`` names, ``lookback <= i <= T - 2`` for T bars. It is
    terminated at ruin, wealth at or below 0, and truncated after ``episode_length`` steps, with the last bar, or when
    wealth has grown beyond 1e100, before float64 runs out.

    Infos, of a step: ``price`` (close of the new bar), ``wealth``, ``position`` (weight held), ``turnover`` (value
    traded over wealth, both at the execution price before costs; 0 if the gap ruined the account), ``cost``,
    ``borrow``, ``fill_price`` (``P``, whether or not anything was traded), ``units_traded`` (bought, negative for
    sold), ``bar`` (int64 index of the new bar). Of a reset: ``price``, ``wealth``, ``position``, ``bar``. Of both:
    every parameter that is ``Randomized``. Wealth, costs and positions count in the wealth at the start of the episode.

    Args:
        num_envs: Number of accounts.
        prices: The history: closes, a table, the path of a CSV file (see ``sims.data.as_history``), or the name of a
            bundled one, "nasdaq" or "sp500"; None for the NASDAQ Composite, 1999 to 2018.
        lookback: Returns in the observation, bars, at least 1.
        episode_length: Steps (bars) of an episode, at least 1, for all sub-envs or one each; None for the end of the
            history, from a start drawn uniformly all the same.
        actions: ``"discrete"`` or ``"weight"``.
        transaction_cost: Fraction of the value traded, in [0, 1). One number, one per sub-env, or a
            ``sekai.vector.Randomized``.
        borrow_rate: Per bar, fraction of the value of a short position at the execution price, in [0, 1). Given like
            ``transaction_cost``.
        execution: ``"open"`` or ``"close"``; None for what the history says: ``"open"`` where it has opens, but
            ``"close"`` on "sp500", whose opens are no prices (``history.notes`` says why).
        reward: ``"log_growth"`` or ``"return"``.
        price: The column of closes: see ``sims.data.as_history``.
        zero_volume: ``"trade"`` or ``"drop"``, what to do with bars in which nothing was traded: see
            ``sims.data.as_history``.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, the prices are not valid, or the history is too short.
        OSError: The file of prices cannot be read: FileNotFoundError where there is none.
    """

    Params, State, Options = market.TradingParams, market.Account, market.Start
    reset_row, step_row, observe_row = market.reset_row, market.step_row, market.observe_row
    prepare, check, check_options = market.prepare, market.check, market.check_options
    observation_space, action_space = market.observation_space, market.action_space
    infos = ("price", "wealth", "position", "turnover", "cost", "borrow", "fill_price", "units_traded", "bar")
    reset_infos = ("price", "wealth", "position", "bar")

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[dict[str, Callable[..., Callable[[Any], NDArray[Any]]]]] = {
        "buy-and-hold": BuyAndHold.for_env,
        "always-flat": AlwaysFlat.for_env,
        "momentum": Momentum.for_env,
    }
    #: The info that says where on the history an account is; errors of means over episodes follow from it.
    history_clock = "bar"
    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_trading)

    def __init__(
        self,
        num_envs: int,
        *,
        prices: Any = None,
        execution: str | None = None,
        price: str | None = None,
        zero_volume: str | None = None,
        **others: Any,
    ) -> None:
        # What was given is read here, once: parameters are checked and prepared again whenever one is changed.
        if is_nearly_model(prices):
            raise TypeError(f"prices: expected a history, got {prices}: a model is for SimulatedTradingVecEnv")
        history = read_history("nasdaq" if prices is None else prices, price=price, zero_volume=zero_volume)
        if execution is None:
            execution = history.execution
        super().__init__(num_envs, prices=history, execution=execution, **others)

    @property
    def history(self) -> PriceHistory:
        """The prices all sub-envs trade on, with the columns they came from and what there is to know of them."""
        history: PriceHistory = self.params.prices
        return history

    @property
    def details(self) -> dict[str, str]:
        """What ``sekai info`` shows besides: the history that was read, and where trades are made."""
        return {**self.history.describe(), "execution": self.params.execution}

    @property
    @shared
    def closes(self) -> NDArray[np.float64]:
        """float64 (T,), read-only: the closes of the history, the same for every sub-env."""
        return self.history.close
