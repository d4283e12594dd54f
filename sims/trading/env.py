"""``Trading-v0``: N accounts trading one asset along a history of its prices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_integer
from sekai.errors import InvalidAction
from sekai.spaces import Box, Discrete, Space
from sekai.types import InfoArrays
from sekai.vector import NativeVecEnv, shared
from sekai.vector.compiled_step import CompiledStep
from sims.data import NAMES, PriceHistory, as_history, load
from sims.trading.baselines import AlwaysFlat, BuyAndHold, Momentum
from sims.trading.compiled import RollingColumns, StepInfos, roll_trading
from sims.trading.kernels import START_WEALTH, advance_trading, begin_episodes, observe_trading
from sims.trading.params import TradingParams, choose_execution
from sims.trading.plot import plot_trading
from sims.trading.records import Account, Game, Market, Outcome, Terms


class TradingVecEnv(NativeVecEnv[NDArray[np.float32], Any]):
    """Trade one asset along a price history: every sub-env is an account somewhere on the same history.

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
    ``borrow``, ``bar`` (int64 index of the new bar). Of a reset: ``price``, ``wealth``, ``position``, ``bar``.
    Wealth, costs and positions count in the wealth at the start of the episode.

    Args:
        num_envs: Number of accounts.
        prices: The history: closes, a table, the path of a CSV file (see ``sims.data.as_history``), or the name of a
            bundled one, "sp500" or "nasdaq"; None for the S&P 500, 1999 to 2018.
        lookback: Returns in the observation, bars, at least 1.
        episode_length: Steps (bars) of an episode, at least 1; None for the end of the history, from a start drawn
            uniformly all the same.
        actions: ``"discrete"`` or ``"weight"``.
        transaction_cost: Fraction of the value traded, in [0, 1).
        borrow_rate: Per bar, fraction of the value of a short position at the execution price, in [0, 1).
        execution: ``"open"`` or ``"close"``; None for ``"open"`` where the history has opens, else ``"close"``.
        reward: ``"log_growth"`` or ``"return"``.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, the prices are not valid, or the history is too short.
        OSError: The file of prices cannot be read: FileNotFoundError where there is none.
    """

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[dict[str, Callable[..., Callable[[Any], NDArray[Any]]]]] = {
        "buy-and-hold": BuyAndHold.for_env,
        "always-flat": AlwaysFlat.for_env,
        "momentum": Momentum.for_env,
    }
    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_trading)

    def __init__(
        self,
        num_envs: int,
        *,
        prices: Any = None,
        lookback: int = 32,
        episode_length: int | None = 252,
        actions: str = "discrete",
        transaction_cost: float = 1e-3,
        borrow_rate: float = 0.0,
        execution: str | None = None,
        reward: str = "log_growth",
        autoreset: bool = True,
        max_episode_steps: int | None = None,
        autoreset_options: Any = None,
    ) -> None:
        prices = "sp500" if prices is None else prices
        history = as_history(load(prices) if isinstance(prices, str) and prices in NAMES else prices)
        params = TradingParams(
            lookback=lookback,
            episode_length=episode_length,
            actions=actions,
            transaction_cost=transaction_cost,
            borrow_rate=borrow_rate,
            execution=choose_execution(execution, history),
            reward=reward,
        )
        self._history = history
        self._params = params
        self._last_start = params.last_start(history)
        super().__init__(
            num_envs,
            _observation_space(params.lookback),
            Discrete(3) if params.actions == "discrete" else Box(-1.0, 1.0, (1,), np.float32),
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._market = _make_market(history, params.execution)
        self._none_frozen = np.zeros(self.num_envs, dtype=np.bool_)
        self._game = Game(
            market=self._market,
            terms=Terms(params.transaction_cost, params.borrow_rate, params.reward == "log_growth"),
            discrete=params.actions == "discrete",
            first_start=params.lookback,
            last_start=self._last_start,
            length=len(history) if params.episode_length is None else params.episode_length,
        )
        self._account = Account(
            bar=np.full(self.num_envs, params.lookback, dtype=np.int64),
            end=np.full(self.num_envs, params.lookback, dtype=np.int64),
            units=np.zeros(self.num_envs),
            cash=np.full(self.num_envs, START_WEALTH),
            wealth=np.full(self.num_envs, START_WEALTH),
            weight=np.zeros(self.num_envs),
        )

    @property
    def params(self) -> TradingParams:
        """The terms of the market."""
        return self._params

    @property
    def history(self) -> PriceHistory:
        """The prices all sub-envs trade on."""
        return self._history

    @property
    def lookback(self) -> int:
        """Returns in the observation."""
        return self._params.lookback

    @property
    @shared
    def closes(self) -> NDArray[np.float64]:
        """float64 (T,), read-only: the closes of the history, the same for every sub-env."""
        return self._history.close

    @property
    def bar(self) -> NDArray[np.int64]:
        """int64 (N,): the last bar whose close each sub-env has seen."""
        return np.array(self._account.bar)

    @property
    def price(self) -> NDArray[np.float64]:
        """float64 (N,): the close of that bar."""
        return self._market.close[self._account.bar]

    @property
    def wealth(self) -> NDArray[np.float64]:
        """float64 (N,): wealth at that close, 1.0 at the start of an episode."""
        return np.array(self._account.wealth)

    @property
    def position(self) -> NDArray[np.float64]:
        """float64 (N,): the weight held at that close, 0 at ruin."""
        return np.array(self._account.weight)

    def _reset_envs(self, indices: NDArray[np.intp], options: Sequence[dict[str, Any] | None]) -> None:
        named = [
            (row, self._read_start(int(index), option))
            for row, (index, option) in enumerate(zip(indices, options, strict=True))
            if option
        ]
        starts = np.full(len(indices), -1, dtype=np.int64)
        for row, start in named:
            starts[row] = start
        begin_episodes(self._game, self._account, self.streams, indices, starts)

    def _read_start(self, index: int, option: dict[str, Any]) -> int:
        """The start that the options of one sub-env name."""
        where = f"reset(options=...), sub-env {index}"
        unknown = [key for key in option if key != "start"]
        if unknown:
            raise ValueError(f"{where}: expected the key 'start', got {unknown[0]!r}")
        bar = check_integer(option["start"], f"{where}: start")
        first, last = self.lookback, len(self._history) - 2
        if not first <= bar <= last:
            raise ValueError(f"{where}: start: expected an integer in [{first}, {last}], got {bar}")
        return bar

    def _reset_infos(self, indices: NDArray[np.intp]) -> InfoArrays:
        account = self._account
        bar = account.bar[indices]
        return {
            "price": self._market.close[bar],
            "wealth": account.wealth[indices],
            "position": account.weight[indices],
            "bar": bar,
        }

    def _observe(self) -> NDArray[np.float32]:
        observations = self._new_array(np.float32, self.lookback + 1)
        observe_trading(self._market.returns, self._account.bar, self._account.weight, observations)
        return observations

    def _observe_rows(self, indices: NDArray[np.intp]) -> NDArray[np.float32]:
        observations = np.empty((len(indices), self.lookback + 1), dtype=np.float32)
        account = self._account
        observe_trading(self._market.returns, account.bar[indices], account.weight[indices], observations)
        return observations

    def _step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], InfoArrays]:
        weights = self._read_weights(actions)
        outcome = Outcome.zeros(self.num_envs)
        frozen = self._none_frozen if self.autoreset else self.frozen
        account = self._account
        advance_trading(self._market, self._game.terms, account, weights, frozen, outcome)
        infos = {
            "price": outcome.price,
            "wealth": account.wealth.copy(),
            "position": account.weight.copy(),
            "turnover": outcome.turnover,
            "cost": outcome.cost,
            "borrow": outcome.borrow,
            "bar": account.bar.copy(),
        }
        for column in infos.values():
            column.setflags(write=False)  # so that the base need not copy it
        return outcome.reward, outcome.terminated, outcome.truncated, infos

    def _compiled_step(self) -> CompiledStep:
        account, zeros = self._account, np.zeros(self.num_envs)
        return CompiledStep(
            advance=roll_trading,
            shared=self._game,
            columns=RollingColumns(account, self.streams),
            now=self.episode_clock.now,
            infos=StepInfos(
                price=zeros,
                wealth=account.wealth,
                position=account.weight,
                turnover=zeros,
                cost=zeros,
                borrow=zeros,
                bar=account.bar,
            ),
        )

    def _read_weights(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        """The weights wanted, float64 (N,), or InvalidAction before anything has changed."""
        if self._params.actions == "discrete":
            weights = actions - 1.0
            expected = "0 (short), 1 (flat) or 2 (long)"
        else:
            weights = actions[:, 0].astype(np.float64)
            expected = "a weight in [-1, 1]"
        valid = np.abs(weights) <= 1.0  # False for NaN
        if np.count_nonzero(valid) < len(valid):  # quicker than valid.all()
            index = int(np.argmin(valid))
            raise InvalidAction(f"step(actions): expected {expected}, got {actions[index]}{self.where(index)}")
        return weights


def _observation_space(lookback: int) -> Space[Any]:
    """Returns above -1 (float32 may round to it), then a weight, which falls without bound as a short loses."""
    low = np.full(lookback + 1, -1.0, dtype=np.float32)
    high = np.full(lookback + 1, np.inf, dtype=np.float32)
    low[-1], high[-1] = -np.inf, 1.0
    return Box(low, high, dtype=np.float32)


def _make_market(history: PriceHistory, execution: str) -> Market:
    close = history.close
    opens = history.open if execution == "open" else None
    returns = (close[1:] / close[:-1] - 1.0).astype(np.float32)
    returns.flags.writeable = False
    return Market(close, execution=close[:-1] if opens is None else opens[1:], returns=returns)
