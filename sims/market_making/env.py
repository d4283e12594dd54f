"""``MarketMaking-v0``: N market makers, each quoting its own market."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.errors import InvalidAction
from sekai.spaces import Box
from sekai.types import InfoArrays
from sekai.vector import NativeVecEnv, shared
from sekai.vector.compiled_step import CompiledStep
from sims.market_making import baselines
from sims.market_making.compiled import RollingColumns, StepInfos, roll_market_making
from sims.market_making.kernels import advance_market_making
from sims.market_making.params import PER_ENV, MarketMakingParams
from sims.market_making.plot import plot_market_making
from sims.market_making.records import JUMPS, Outcome, Rates, State
from sims.market_making.terms import derive_rates, make_terms, observation_space
from sims.parameter_values import ParameterInForce, ParameterValues
from sims.parameters import Parameter


class MarketMakingVecEnv(NativeVecEnv[NDArray[np.float32], NDArray[np.float32]]):
    """Quote a bid and an ask about a mid that moves at random, and live with the inventory that the fills leave.

    One simulator for the models of Avellaneda and Stoikov (2008), "High-frequency trading in a limit order book",
    Quantitative Finance 8(3); Guéant, Lehalle and Fernandez-Tapia (2013), "Dealing with the inventory risk",
    Mathematics and Financial Economics 7; and Cartea and Jaimungal (Cartea, Jaimungal and Penalva 2015, "Algorithmic
    and High-Frequency Trading", chapter 10). With S the mid, c the cash, q the inventory, W = c + q S the wealth and
    dt = T/N, in this order:

    1. the agent sees S[t] and q[t] and chooses a bid and an ask distance from the mid, db and da;
    2. at each side at most one order for one unit arrives and fills, at S[t] - db or S[t] + da, with probability
       ``min(1, A exp(-k d) dt)`` ("linear") or ``1 - exp(-A exp(-k d) dt)`` ("exact"). Both sides may fill. A side at
       its inventory limit is not quoted; both are decided from q[t];
    3. the mid moves to S[t+1]: with z standard normal,

        - "brownian": ``S + mu dt + sigma sqrt(dt) z``;
        - "geometric": ``S exp((mu - sigma^2/2) dt + sigma sqrt(dt) z)``;
        - "ou": ``m + (S - m) e + sigma sqrt((1 - e^2)/(2 kappa)) z`` with ``e = exp(-kappa dt)``, the exact transition
          of ``dS = kappa (m - S) dt + sigma dB``;
        - "jumps" (Merton 1976, "Option pricing when underlying stock returns are discontinuous"): the geometric step,
          compensated by ``-lambda (E[J] - 1) dt``, times a Poisson number (mean ``lambda dt``) of independent
          log-normal factors J;

    4. the clock advances;
    5. reward and observation use S[t+1].

    Hence ``W[t+1] - W[t] = (fills at the bid) db + (fills at the ask) da + q[t+1] (S[t+1] - S[t])``.

    Observation: float32 (2,): ``q / max_inventory`` (q itself where there is no limit) and the fraction of time left,
    ``1 - t/N``; with ``observe="full"`` (4,): also ``S/S0 - 1`` and the cash.

    Action: float32 (2,), the distances db and da in price; they may be negative.

    Reward: "pnl" ``W[t+1] - W[t]``; "running_penalty" that minus ``phi q[t+1]^2 dt``, and minus ``alpha q[N]^2`` in the
    last step; "exp_utility" ``-exp(-gamma W[N])`` in the last step, else 0.

    Episode: starts with cash and inventory 0, is truncated after N steps and never terminated.

    Infos, of a step and a reset: ``mid_price``, ``inventory``, ``cash``, ``wealth`` (also attributes); of a step
    ``bid_filled`` and ``ask_filled`` as well. Every draw comes from ``streams``: a sub-env's numbers depend on its seed
    alone.

    The four parameters that may differ between sub-envs are attributes too, and ``set_attr`` changes them from the next
    step on. A ``Randomized`` one is drawn by every sub-env at each reset, and until then the middle of its range.

    Args:
        num_envs: Number of sub-envs.
        initial_price: ``S0``, above 0; one number, one per sub-env (N,), or ``Randomized(low, high)``.
        volatility: ``sigma``, at least 0, likewise: price per square root of time ("brownian", "ou"), or a fraction of
            the price per square root of time ("geometric", "jumps").
        horizon: ``T``, time.
        n_steps: ``N``, steps of an episode.
        arrival_rate: ``A``, orders per time and side at a distance of 0; one number, one per sub-env, or a range.
        fill_decay: ``k``, per price, likewise.
        max_inventory: Units held at most, long or short; None for no limit.
        fill_rule: "linear" or "exact".
        clip_quotes: Whether distances below 0 count as 0.
        midprice: "brownian", "geometric", "ou" or "jumps".
        reward: "pnl", "running_penalty" or "exp_utility".
        observe: "basic" or "full".
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it; it is no end of the market's own, so
            that nothing is paid for it.
        drift: ``mu``: price per time ("brownian"), or a fraction of the price per time ("geometric", "jumps").
        mean_reversion: ``kappa`` of "ou", per time.
        mean_price: ``m`` of "ou"; None for the initial price.
        jump_rate: ``lambda`` of "jumps", per time; at most 100 per step.
        jump_mean: Mean of ``log J``.
        jump_sd: Standard deviation of ``log J``.
        inventory_penalty: ``phi``, reward per time and unit of inventory squared.
        terminal_penalty: ``alpha``, reward per unit of inventory squared at the end.
        risk_aversion: ``gamma``, per unit of wealth.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them; the market takes none.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, or there is not one value per sub-env.
    """

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[dict[str, Callable[..., Callable[[Any], NDArray[Any]]]]] = baselines.POLICIES
    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_market_making)

    def __init__(
        self,
        num_envs: int,
        *,
        initial_price: Parameter = 100.0,
        volatility: Parameter = 2.0,
        horizon: float = 1.0,
        n_steps: int = 200,
        arrival_rate: Parameter = 140.0,
        fill_decay: Parameter = 1.5,
        max_inventory: int | None = 50,
        fill_rule: str = "linear",
        clip_quotes: bool = False,
        midprice: str = "brownian",
        reward: str = "pnl",
        observe: str = "basic",
        autoreset: bool = True,
        max_episode_steps: int | None = None,
        drift: float = 0.0,
        mean_reversion: float = 1.0,
        mean_price: float | None = None,
        jump_rate: float = 0.0,
        jump_mean: float = 0.0,
        jump_sd: float = 0.0,
        inventory_penalty: float = 0.01,
        terminal_penalty: float = 0.001,
        risk_aversion: float = 0.1,
        autoreset_options: Any = None,
    ) -> None:
        params = MarketMakingParams(
            initial_price=initial_price,
            volatility=volatility,
            arrival_rate=arrival_rate,
            fill_decay=fill_decay,
            horizon=horizon,
            n_steps=n_steps,
            max_inventory=max_inventory,
            fill_rule=fill_rule,
            clip_quotes=clip_quotes,
            midprice=midprice,
            reward=reward,
            observe=observe,
            drift=drift,
            mean_reversion=mean_reversion,
            mean_price=mean_price,
            jump_rate=jump_rate,
            jump_mean=jump_mean,
            jump_sd=jump_sd,
            inventory_penalty=inventory_penalty,
            terminal_penalty=terminal_penalty,
            risk_aversion=risk_aversion,
        )
        super().__init__(
            num_envs,
            observation_space(params),
            Box(-np.inf, np.inf, (2,), np.float32),
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._params = params
        self._terms = make_terms(params)
        self._values = ParameterValues(num_envs, PER_ENV, {name: getattr(params, name) for name in PER_ENV})
        self._rates = self._make_rates()
        self._state = self._start_state(np.arange(self.num_envs))
        self._not_frozen = np.zeros(self.num_envs, dtype=np.bool_)
        self._observations: NDArray[np.float32]
        self._first_observation = np.eye(1, *self.observation_space.shape, 1, dtype=np.float32)[0]  # all time is left

    # -- what there is to read -----------------------------------------------------------------------------

    @property
    @shared
    def params(self) -> MarketMakingParams:
        """The terms of the market, as given or changed since."""
        return self._params

    @property
    def mid_price(self) -> NDArray[np.float64]:
        """float64 (N,): the mid of each sub-env."""
        return self._now("mid")

    @property
    def inventory(self) -> NDArray[np.float64]:
        """float64 (N,): units held, negative when short."""
        return self._now("inventory")

    @property
    def cash(self) -> NDArray[np.float64]:
        """float64 (N,): cash, 0 at the start of an episode."""
        return self._now("cash")

    @property
    def wealth(self) -> NDArray[np.float64]:
        """float64 (N,): cash and the inventory at the mid."""
        return self._now("wealth")

    initial_price = ParameterInForce(
        "The mid at the start of an episode: one number for all sub-envs, or float64 (N,)."
    )
    volatility = ParameterInForce("The volatility in force: one number for all sub-envs, or float64 (N,).")
    arrival_rate = ParameterInForce("The arrival rate in force: one number for all sub-envs, or float64 (N,).")
    fill_decay = ParameterInForce("The fill decay in force: one number for all sub-envs, or float64 (N,).")

    @property
    @shared
    def parameter_values(self) -> ParameterValues:
        """The four parameters that may differ between sub-envs, as they are now."""
        return self._values

    def change_parameter(self, name: str, value: Any) -> None:
        """Set one of them from the next step on; TypeError or ValueError for what is no value of it."""
        checked = self._values.change(name, value)
        self._params = dataclasses.replace(self._params, **{name: checked})
        self._rates = self._make_rates()

    def _make_rates(self) -> Rates:
        """The parameters as the kernel takes them: scalars, or columns if any of them is one."""
        rates = derive_rates(self._params, self._values.now)
        return (
            Rates(*(np.array(np.broadcast_to(rate, self.num_envs)) for rate in rates)) if self._values.differ else rates
        )

    def _draw_parameters(self, indices: NDArray[np.intp]) -> None:
        self._values.draw(self.streams, indices)
        for column, values in zip(self._rates, derive_rates(self._params, self._values.at(indices)), strict=True):
            column[indices] = values

    # -- the hooks -----------------------------------------------------------------------------------------

    def _reset_envs(self, indices: NDArray[np.intp], options: Sequence[dict[str, Any] | None]) -> None:
        for index, option in zip(indices, options, strict=True) if any(options) else ():
            if option:
                raise ValueError(
                    f"reset(options=...), sub-env {index}: expected no options, got {sorted(map(str, option))}"
                )
        if self._values.ranges:
            self._draw_parameters(indices)
        # The state is left as it is: the clock tells that these rows begin, here as in the kernel.
        if len(indices) == self.num_envs:
            self._observations = self._new_array(np.float32, *self.observation_space.shape)
        self._observations[indices] = self._first_observation

    def _reset_infos(self, indices: NDArray[np.intp]) -> InfoArrays:
        state = self._start_state(indices)
        return {"mid_price": state.mid, "inventory": state.inventory, "cash": state.cash, "wealth": state.wealth}

    def _observe(self) -> NDArray[np.float32]:
        return self._observations

    def _observe_rows(self, indices: NDArray[np.intp]) -> NDArray[np.float32]:
        return self._observations.take(indices, axis=0)

    def _step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], InfoArrays]:
        new_array, float64 = self._new_array, np.float64
        new = State(new_array(float64), new_array(float64), new_array(float64), new_array(float64))
        outcome = Outcome(
            reward=new_array(float64),
            truncated=new_array(np.bool_),
            bid_filled=new_array(np.bool_),
            ask_filled=new_array(np.bool_),
            invalid=new_array(np.bool_),
            observations=new_array(np.float32, *self.observation_space.shape),
        )
        clock = self.episode_clock
        advance_market_making(
            self._terms,
            self._rates,
            self.streams,
            np.ascontiguousarray(actions),
            clock.began,
            clock.now,
            self._not_frozen if self.autoreset else self.frozen,
            not self.autoreset,
            self._state,
            new,
            outcome,
        )
        if np.count_nonzero(outcome.invalid):  # quicker than any()
            self._refuse(actions, outcome.invalid)
        infos = {
            "mid_price": new.mid,
            "inventory": new.inventory,
            "cash": new.cash,
            "wealth": new.wealth,
            "bid_filled": outcome.bid_filled,
            "ask_filled": outcome.ask_filled,
        }
        for column in infos.values():
            column.setflags(write=False)  # so that the base need not copy it, and the next step can read it as it was
        self._state = new
        self._observations = outcome.observations
        return outcome.reward, np.zeros(self.num_envs, dtype=np.bool_), outcome.truncated, infos

    def _compiled_step(self) -> CompiledStep | None:
        if self._values.ranges:  # they are drawn at resets, in the shell
            return None
        flags = np.zeros(self.num_envs, dtype=np.bool_)
        state = self._state
        return CompiledStep(
            advance=roll_market_making,
            shared=self._terms,
            columns=RollingColumns(self._rates, self.streams, self.episode_clock.began),
            now=self.episode_clock.now,
            infos=StepInfos(state.mid, state.inventory, state.cash, state.wealth, bid_filled=flags, ask_filled=flags),
        )

    def _absorb(self, observations: NDArray[np.float32], infos: StepInfos) -> None:
        self._observations = np.array(observations)
        self._state = State(*map(np.array, (infos.mid_price, infos.inventory, infos.cash, infos.wealth)))
        for column in self._state:
            column.setflags(write=False)

    def _refuse(self, actions: NDArray[np.float32], invalid: NDArray[np.bool_]) -> None:
        """Say whose action is wrong; the step has not happened."""
        stepped = np.ones(self.num_envs, dtype=np.bool_) if self.autoreset else ~self.frozen
        self.streams.counter[stepped] -= np.uint64(2 if self._terms.move == JUMPS else 1)
        index = int(np.argmax(invalid))
        raise InvalidAction(f"step(actions): expected two finite distances, got {actions[index]}{self.where(index)}")

    # -- state ---------------------------------------------------------------------------------------------

    def _now(self, name: str) -> NDArray[np.float64]:
        """A column of the state as it is now: after the reset in the rows that have not been stepped since."""
        fresh = self.episode_clock.elapsed == 0
        values = np.array(getattr(self._state, name))
        values[fresh] = getattr(self._start_state(np.flatnonzero(fresh)), name)
        return values

    def _start_state(self, indices: NDArray[np.intp]) -> State:
        """The state in which some sub-envs begin an episode."""
        price = self._values.now["initial_price"]
        mid, nothing = np.empty(len(indices)), np.zeros(len(indices))
        mid[:] = price if isinstance(price, float) else price.take(indices)
        mid.flags.writeable = nothing.flags.writeable = False
        return State(mid, inventory=nothing, cash=nothing, wealth=nothing)
