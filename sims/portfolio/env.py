"""``Portfolio-v0``: N accounts, each holding K assets and cash along common bars."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.vector import KernelVecEnv, shared
from sims.bars import Start
from sims.data import PANELS, PricePanel, as_panel, load_panel
from sims.portfolio import market
from sims.portfolio.baselines import POLICIES
from sims.portfolio.plot import plot_portfolio
from sims.prices import is_nearly_model


class PortfolioVecEnv(KernelVecEnv[NDArray[np.float32], Any]):
    """Hold a portfolio of K assets and cash: every sub-env is an account somewhere on the same histories.

    One step is one bar. Between steps the agent stands at the close of bar ``i``, with everything up to that close
    seen. It names the weight ``w_k`` it wants of each asset, the value of the position over wealth; the rest,
    ``1 - sum_k w_k``, is cash, owed if it is negative. In this order:

    1. weights of assets that are not listed in bar ``i`` become 0; if the weights without their signs sum to more than
       ``max_leverage``, all are scaled down until they sum to that (``make_portfolio`` also has a market that refuses
       both). Of an asset that then does not open in bar ``i + 1`` the share stays in cash;
    2. the account trades at the execution prices ``P``: the opens of bar ``i + 1``, so that the old positions earn the
       gap from close to open, or the closes of bar ``i`` themselves. With ``W`` the wealth and ``u_k`` the positions at
       ``P``, wealth becomes the ``x`` for which ``x = W - transaction_cost * sum_k |w_k x - u_k|``, and positions
       ``w_k x``, so that the weights hold exactly after the cost. If ``W <= transaction_cost * sum_k |u_k|``, just when
       no such trade would leave any wealth, all positions are closed instead, and the account is ruined;
    3. cash held earns ``cash_rate``, cash owed pays ``loan_rate``, and short positions pay ``borrow_rate`` of their
       value at ``P``;
    4. the positions are held to the closes of bar ``i + 1``, and the account is marked there. From now on weights
       drift with the prices until the next trade.

    Hence, with ``n_k`` the units held before and ``m_k`` after the trade, ``wealth' - wealth = sum_k (n_k * (P_k -
    close_k[i]) + m_k * (close_k[i + 1] - P_k)) - cost - borrow + interest``.

    An asset is listed in a bar in which it has a close. Between two closes it may pause (a halt, a holiday of its own):
    a position is kept, marked at the last close, and not traded, neither after a bar without a close nor, at opens,
    into one; whatever weight is asked for, ``w_k x`` is what it comes to, and it costs nothing. Others are traded
    around it: if their weights leave it no room within ``max_leverage`` of x, they are scaled down, all by the same
    factor, until they do, or to 0. What prices have done meanwhile shows in wealth where it trades again. An account
    that cannot pay for its way out is closed all the same.

    An asset that is held and has had its last close is sold at that close in the next bar, and pays the cost of that
    sale: in the trade at the opens, whatever weight was asked for, or, where trades are at closes, at the end of the
    step. In the formula above its close is the last one, and ``m_k`` is 0. What tells a pause from the end is the
    history that follows; observations do not until then.

    Observation: float32, the simple returns of the last ``lookback`` bars up to bar ``i``, oldest first, of each bar
    those of all K assets (0 where an asset has no close, since its last close otherwise); then the K weights held, at
    the closes of bar ``i``; then, where some asset is anywhere not listed, K numbers, of each the closes in a row up to
    bar ``i`` over ``lookback + 1``, at most 1: above 0 it is listed, and at 1 all returns that are seen are returns.

    Action: float32 (K,), the weights, in [0, ``max_leverage``], or with ``shorts`` in [-``max_leverage``,
    ``max_leverage``]. With ``actions="softmax"`` float32 (K + 1,), logits in [-5, 5] of the weights of the K assets
    and, last, of cash: ``w_k = exp(a_k) / sum_j exp(a_j)``. Those are above 0 and sum to less than 1, so that there are
    neither shorts nor loans, and nothing is scaled unless ``max_leverage`` is below 1; what an asset that is not listed
    would get stays in cash.

    Reward: ``log(wealth' / wealth)``, with the ratio floored at 1e-6 so that ruin costs ``log(1e-6)``, about -13.8,
    and not infinity; or with ``reward="return"`` ``wealth' / wealth - 1``.

    Episode: starts in cash with wealth 1 on a bar drawn uniformly from all on which a whole episode fits into the
    histories, or on the one that ``reset(options={"start": i})`` names, ``lookback <= i <= T - 2`` for T bars. It is
    terminated at ruin, wealth at or below 0, and truncated after ``episode_length`` steps, with the last bar, or when
    wealth has grown beyond 1e100, before float64 runs out.

    Infos, of a step: ``price`` (K,) (closes of the new bar, the last ones of assets not listed, 0 before the first),
    ``wealth``, ``weights`` (K,) (held at these closes), ``cash``, ``turnover`` (value traded over wealth, both at the
    execution prices before costs, and what was sold for having had its last close; 0 if the gap ruined the account),
    ``cost``, ``borrow``, ``interest``, ``fill_price`` (K,) (``P``, whether or not anything was traded),
    ``units_traded`` (K,) (bought in the step, negative for sold, with what was sold for having had its last close),
    ``bar`` (int64 index of the new bar). Of a reset: ``price``, ``wealth``, ``weights``, ``cash``, ``bar``. Of both:
    every parameter that is ``Randomized``.

    Args:
        num_envs: Number of accounts.
        prices: The histories: files, a table with a column per asset (see ``sims.data.as_panel``), or the name of a
            bundled panel; None for "indices", the S&P 500 and the NASDAQ Composite, 1999 to 2018.
        lookback: Bars whose returns are in the observation, at least 1.
        episode_length: Steps (bars) of an episode, at least 1, for all sub-envs or one each; None for the end of the
            histories, from a start drawn uniformly all the same.
        actions: ``"weights"`` or ``"softmax"``, with which agents whose actions are near 0 at first begin with equal
            parts of all assets and cash.
        shorts: Whether weights may be negative; not with "softmax".
        max_leverage: The most that weights without their signs may sum to, above 0, at most 1e30.
        transaction_cost: Fraction of the value traded, in [0, 1), below 1 / ``max_leverage``. One number, one per
            sub-env, or a ``sekai.vector.Randomized``.
        cash_rate: Per bar, fraction of cash held, in [0, 1). Given like ``transaction_cost``, and so are the next two.
        loan_rate: Per bar, fraction of cash owed, in [0, 1).
        borrow_rate: Per bar, fraction of the value of short positions at the execution prices, in [0, 1).
        execution: ``"open"`` or ``"close"``; None for what the panel says: ``"open"`` where it has opens that are
            prices.
        reward: ``"log_growth"`` or ``"return"``.
        join: Which bars there are: see ``sims.data.as_panel``.
        price: The column of closes of each asset: see ``sims.data.as_history``.
        zero_volume: ``"trade"`` or ``"drop"``, what to do with bars in which nothing was traded: see
            ``sims.data.as_history``.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, the prices are not valid, or the histories are too short.
        OSError: A file of prices cannot be read: FileNotFoundError where there is none.
    """

    Params, State, Options = market.PortfolioParams, market.Account, Start
    reset_row, step_row, observe_row = market.reset_row, market.step_row, market.observe_row
    prepare, check, check_options = market.prepare, market.check, market.check_options
    observation_space, action_space = market.observation_space, market.action_space
    infos = (
        *("price", "wealth", "weights", "cash", "turnover", "cost", "borrow", "interest", "fill_price"),
        *("units_traded", "bar"),
    )
    reset_infos = ("price", "wealth", "weights", "cash", "bar")

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[dict[str, Callable[..., Any]]] = POLICIES
    #: The info that says where on the history an account is; errors of means over episodes follow from it.
    history_clock = "bar"

    def __init__(
        self,
        num_envs: int,
        *,
        prices: Any = None,
        execution: str | None = None,
        join: str | None = None,
        price: str | None = None,
        zero_volume: str | None = None,
        **others: Any,
    ) -> None:
        # What was given is read here, once: parameters are checked and prepared again whenever one is changed.
        if is_nearly_model(prices):
            raise TypeError(f"prices: expected histories, got {prices!r}: a model is for SimulatedPortfolioVecEnv")
        prices = "indices" if prices is None else prices
        if isinstance(prices, str) and prices in PANELS:
            prices = load_panel(prices)
        panel = as_panel(prices, join=join, price=price, zero_volume=zero_volume)
        if execution is None:
            execution = panel.execution
        super().__init__(num_envs, prices=panel, execution=execution, **others)

    @property
    def plot_rollout(self) -> Callable[..., Any]:
        """How ``sekai run --plot`` draws a rollout, ``plot_portfolio`` with the names of the assets."""
        return partial(plot_portfolio, assets=self.panel.assets)

    @property
    def panel(self) -> PricePanel:
        """The prices all sub-envs trade on, with the names of the assets and what there is to know of them."""
        panel: PricePanel = self.params.prices
        return panel

    @property
    def details(self) -> dict[str, str]:
        """What ``sekai info`` shows besides: the histories that were read, and where trades are made."""
        return {**self.panel.describe(), "execution": self.params.execution}

    @property
    @shared
    def closes(self) -> NDArray[np.float64]:
        """float64 (T, K), read-only: the closes of the histories, the same for every sub-env."""
        return self.panel.close

    @property
    @shared
    def assets(self) -> tuple[str, ...]:
        """The names of the K assets."""
        return tuple(self.panel.assets or ())
