"""``MarketMaking-v0``: N market makers, each quoting its own market."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy import float32, float64

from sekai.kernels import jit, maths, streams
from sekai.spaces import Box
from sekai.vector import KernelVecEnv, NoPart, part_of
from sims.checks import check_choice, check_range
from sims.market_making import baselines
from sims.market_making.plot import plot_market_making
from sims.prices import (
    Brownian,
    Geometric,
    MertonJumps,
    OrnsteinUhlenbeck,
    brownian,
    check_model,
    geometric,
    merton,
    ornstein_uhlenbeck,
)

FILL_RULES = ("linear", "exact")
MIDPRICES = ("brownian", "geometric", "ou", "jumps")
REWARDS = ("pnl", "running_penalty", "exp_utility")
OBSERVATIONS = ("basic", "full")

#: The steps that are left are counted in 32 bits, and units in float64.
_MOST_STEPS, _MOST_INVENTORY = 2**31 - 1, 2**53
#: Jumps per step; their number is found by counting up to it.
_MOST_JUMPS = 100.0
_LARGEST = float(np.finfo(np.float32).max)


class MarketMakingParams(NamedTuple):
    """How the mid moves, how orders arrive and what is paid for. See ``MarketMakingVecEnv`` for the market itself.

    Attributes:
        initial_price: ``S0``, the mid at the start of an episode, above 0.
        volatility: ``sigma``, at least 0: price per square root of time ("brownian", "ou"), or a fraction of the price
            per square root of time ("geometric", "jumps"). A model has parameters of its own instead: with one, neither
            this nor those from ``drift`` to ``jump_sd`` count.
        horizon: ``T``, the time an episode lasts, above 0.
        n_steps: ``N``, its steps, 1 to 2**31 - 1.
        arrival_rate: ``A``, orders per time and side at a distance of 0, at least 0.
        fill_decay: ``k``, per price, at least 0.
        max_inventory: Units held at most, long or short, 1 to 2**53; None for no limit.
        fill_rule: "linear" or "exact".
        clip_quotes: Whether distances below 0 count as 0.
        midprice: "brownian", "geometric", "ou" or "jumps", or a model of ``sims.prices``.
        reward: "pnl", "running_penalty" or "exp_utility".
        observe: "basic" or "full".
        tell_quotes: Whether infos tell the quotes that stood, which makes a step of many sub-envs slower by a fifth;
            None for where ``clip_quotes`` makes them others than were asked for.
        drift: ``mu``: price per time ("brownian"), or a fraction of the price per time ("geometric", "jumps").
        mean_reversion: ``kappa`` of "ou", per time, above 0.
        mean_price: ``m`` of "ou"; None for the initial price.
        jump_rate: ``lambda`` of "jumps", per time, at least 0, at most 100 per step.
        jump_mean: Mean of ``log J``.
        jump_sd: Standard deviation of ``log J``, at least 0.
        inventory_penalty: ``phi`` of "running_penalty", reward per time and unit of inventory squared, at least 0.
        terminal_penalty: ``alpha`` of "running_penalty", reward per unit of inventory squared at the end, at least 0.
        risk_aversion: ``gamma`` of "exp_utility", per unit of wealth, above 0.
    """

    initial_price: float = 100.0
    volatility: float = 2.0
    horizon: float = 1.0
    n_steps: int = 200
    arrival_rate: float = 140.0
    fill_decay: float = 1.5
    max_inventory: int | None = 50
    fill_rule: str = "linear"
    clip_quotes: bool = False
    midprice: str | tuple = "brownian"
    reward: str = "pnl"
    observe: str = "basic"
    tell_quotes: bool | None = None
    drift: float = 0.0
    mean_reversion: float = 1.0
    mean_price: float | None = None
    jump_rate: float = 0.0
    jump_mean: float = 0.0
    jump_sd: float = 0.0
    inventory_penalty: float = 0.01
    terminal_penalty: float = 0.001
    risk_aversion: float = 0.1

    @property
    def dt(self) -> float:
        """The time of one step."""
        return self.horizon / self.n_steps


def check(params: MarketMakingParams) -> None:
    """ValueError for what is out of its range."""
    for name in ("initial_price", "horizon", "mean_reversion", "risk_aversion"):
        check_range(name, getattr(params, name), above=0.0)
    for name in (
        *("volatility", "arrival_rate", "fill_decay", "jump_rate", "jump_sd"),
        *("inventory_penalty", "terminal_penalty"),
    ):
        check_range(name, getattr(params, name), least=0.0)
    check_range("n_steps", params.n_steps, least=1, most=_MOST_STEPS)
    if params.max_inventory is not None:
        check_range("max_inventory", params.max_inventory, least=1, most=_MOST_INVENTORY)
    check_choice("fill_rule", params.fill_rule, FILL_RULES)
    if isinstance(params.midprice, str):
        check_choice("midprice", params.midprice, MIDPRICES)
    else:
        check_model("midprice", params.midprice, dt=params.dt)
    check_choice("reward", params.reward, REWARDS)
    check_choice("observe", params.observe, OBSERVATIONS)
    if params.jump_rate * params.dt > _MOST_JUMPS:
        jumps = params.jump_rate * params.dt
        raise ValueError(f"jump_rate: expected at most {_MOST_JUMPS:g} jumps per step, got {jumps:g}")
    merton.check_mean_factor(params.jump_mean, params.jump_sd)


# -- what follows from the parameters ----------------------------------------------------------------------


class Limits(NamedTuple):
    """What follows for all sub-envs.

    Attributes:
        most: Units that may be held, infinite where there is no limit.
        unit: Units that an observation counts in, 1 where there is no limit.
        tells_quotes: Whether infos tell the quotes.
        has_model: Whether a model moves the mid.
    """

    most: float
    unit: float
    tells_quotes: bool
    has_model: bool


def prepare(params: MarketMakingParams) -> Limits:
    """The limits, whether quotes are told, and whether there is a model."""
    limit = params.max_inventory
    most, unit = (math.inf, 1.0) if limit is None else (float(limit), float(limit))
    tells_quotes = params.clip_quotes if params.tell_quotes is None else params.tell_quotes
    return Limits(most, unit, tells_quotes, not isinstance(params.midprice, str))


#: What a reset tells.
RESET_INFOS = ("mid_price", "inventory", "cash", "wealth")


def infos(params: MarketMakingParams) -> tuple[str, ...]:
    """What a step tells."""
    quotes = ("bid_price", "ask_price") if prepare(params).tells_quotes else ()
    return (*RESET_INFOS, "bid_filled", "ask_filled", *quotes)


class Rates(NamedTuple):
    """What follows per step.

    Attributes:
        keep: What "ou" multiplies the mid by.
        shift: What a step adds to the mid, or to its log, on average; without a model.
        scale: The standard deviation of that.
        intensity: ``A dt``, orders per side at a distance of 0.
        decay: ``k``, per price.
        jumps: Mean number of jumps.
        running_penalty: Reward per unit of inventory squared.
        path: What the model derives.
    """

    keep: np.float64
    shift: np.float64
    scale: np.float64
    intensity: np.float32
    decay: np.float32
    jumps: np.float64
    running_penalty: np.float64
    path: part_of("midprice", "Derived")


@jit
def derive_row(params: MarketMakingParams) -> Rates:
    """The rates of one sub-env."""
    dt, sigma = params.horizon / params.n_steps, params.volatility
    if params.midprice == "brownian":
        step = brownian.derive(Brownian(params.drift, sigma), dt)
        return rates_of(params, dt, 1.0, step.shift, step.scale, NoPart())
    if params.midprice == "geometric":
        step = geometric.derive(Geometric(params.drift, sigma), dt)
        return rates_of(params, dt, 1.0, step.shift, step.scale, NoPart())
    if params.midprice == "ou":
        mean = params.initial_price if params.mean_price is None else params.mean_price
        reverting = ornstein_uhlenbeck.derive(OrnsteinUhlenbeck(mean, params.mean_reversion, sigma), dt)
        return rates_of(params, dt, reverting.keep, reverting.shift, reverting.scale, NoPart())
    if params.midprice == "jumps":
        model = MertonJumps(params.drift, sigma, params.jump_rate, params.jump_mean, params.jump_sd)
        jumping = merton.derive(model, dt)
        return rates_of(params, dt, 1.0, jumping.shift, jumping.scale, NoPart())
    return rates_of(params, dt, 1.0, 0.0, 0.0, params.midprice.derive(params.midprice, dt))


@jit
def rates_of(params: Any, dt: float, keep: float, shift: float, scale: float, path: Any) -> Rates:
    """The rates, with those of the mid."""
    intensity, decay = min(params.arrival_rate * dt, _LARGEST), min(params.fill_decay, _LARGEST)
    jumps, penalty = params.jump_rate * dt, params.inventory_penalty * dt
    return Rates(keep, shift, scale, float32(intensity), float32(decay), jumps, penalty, path)


def observation_space(params: MarketMakingParams) -> Box:
    """Inventory within its limit, a fraction, a return and cash."""
    most = math.inf if params.max_inventory is None else 1.0
    low, high = [-most, 0.0], [most, 1.0]
    if params.observe == "full":
        named = isinstance(params.midprice, str)
        positive = params.midprice in ("geometric", "jumps") if named else params.midprice.is_positive
        low += [-1.0 if positive else -math.inf, -math.inf]
        high += [math.inf, math.inf]
    return Box(np.array(low, dtype=np.float32), np.array(high, dtype=np.float32), dtype=np.float32)


# -- rows --------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """What a sub-env has.

    Attributes:
        mid_price: The mid, price.
        inventory: Units held, negative when short.
        cash: Price.
        wealth: Cash and the inventory at the mid.
        bid_filled: Whether the last step bought a unit.
        ask_filled: Whether it sold one.
        bid_price: What the last step bid, price: the mid it began with, less the distance that counted; 0 where infos
            do not tell it.
        ask_price: What it asked, likewise.
        path: The state of the model.
    """

    mid_price: np.float64
    inventory: np.float64
    cash: np.float64
    wealth: np.float64
    bid_filled: np.bool_
    ask_filled: np.bool_
    bid_price: np.float64
    ask_price: np.float64
    path: part_of("midprice", "State")


@jit
def reset_row(params: Any, derived: Any, state: State, random: Any, i: int) -> None:
    """Begin an episode at the initial price, with nothing in hand."""
    state.mid_price[i] = params.initial_price
    state.inventory[i] = state.cash[i] = state.wealth[i] = 0.0
    state.bid_filled[i] = state.ask_filled[i] = False
    if derived.has_model:
        params.midprice.begin(params.midprice, derived.path, state.path, random, i, params.initial_price)


@jit
def fill_chance(distance: Any, derived: Any, linear: bool) -> Any:
    """The probability that a quote fills within a step, f4; the linear rule's may exceed 1."""
    rate = derived.intensity * maths.exp(-derived.decay * distance)
    return rate if linear else -maths.expm1(-rate)


@jit
def jump_log_factor(params: Any, derived: Any, random: Any, i: int) -> Any:
    """The log of the factor by which all jumps of a step move the mid."""
    word_0, word_1, word_2, word_3 = streams.random_words(random, i)
    count = streams.poisson_of(streams.uniform64_of(word_0, word_1), derived.jumps)
    return merton.log_factor(params, count, float64(maths.normal(word_2, word_3)))


@jit
def step_row(params: Any, derived: Any, state: State, random: Any, i: int, elapsed: int, action: Any) -> Any:
    """Quote, fill, move the mid; see ``MarketMakingVecEnv``."""
    bid, ask = action[0], action[1]
    if params.clip_quotes:
        bid, ask = max(bid, float32(0.0)), max(ask, float32(0.0))
    word_0, word_1, word_2, word_3 = streams.random_words(random, i)
    linear = params.fill_rule == "linear"
    # As numbers, not as branches: the loop over rows stays one that the compiler vectorises.
    hit = float32(streams.uniform_of(word_0) <= fill_chance(bid, derived, linear))
    lift = float32(streams.uniform_of(word_1) <= fill_chance(ask, derived, linear))
    mid, inventory, cash = state.mid_price[i], state.inventory[i], state.cash[i]
    bought = float64(hit) if inventory < derived.most else 0.0
    sold = float64(lift) if inventory > -derived.most else 0.0
    before = cash + inventory * mid
    bid_price, ask_price = mid - float64(bid), mid + float64(ask)
    inventory += bought - sold
    cash += sold * ask_price - bought * bid_price

    z = float64(maths.normal(word_2, word_3))
    if derived.has_model:
        mid = params.midprice.move(params.midprice, derived.path, state.path, random, i, mid)
    elif params.midprice == "brownian":
        mid = brownian.advance(derived, mid, z)
    elif params.midprice == "ou":
        mid = ornstein_uhlenbeck.advance(derived, mid, z)
    elif params.midprice == "geometric":
        mid = geometric.advance(derived, mid, z)
    else:
        mid = merton.advance(derived, mid, z, jump_log_factor(params, derived, random, i))

    wealth = cash + inventory * mid
    state.mid_price[i], state.inventory[i], state.cash[i], state.wealth[i] = mid, inventory, cash, wealth
    state.bid_filled[i], state.ask_filled[i] = bought != 0.0, sold != 0.0
    if derived.tells_quotes:
        state.bid_price[i], state.ask_price[i] = bid_price, ask_price
    over = elapsed + 1 >= params.n_steps
    reward = wealth - before
    if params.reward == "running_penalty":
        penalty = derived.running_penalty + (params.terminal_penalty if over else 0.0)
        reward -= penalty * inventory * inventory
    elif params.reward == "exp_utility":
        reward = -maths.exp(-params.risk_aversion * wealth) if over else 0.0
    return reward, False, over


@jit
def observe_row(params: Any, derived: Any, state: State, i: int, elapsed: int, observation: Any) -> None:
    """Inventory and the fraction of time left; all there is: the return since the start and the cash as well."""
    observation[0] = float32(state.inventory[i]) / float32(derived.unit)
    observation[1] = float32(np.int32(params.n_steps - elapsed)) / float32(params.n_steps)
    if params.observe == "full":
        observation[2] = state.mid_price[i] / params.initial_price - 1.0
        observation[3] = state.cash[i]


@jit
def mask_row(derived: Any, state: State, i: int, mask: Any) -> None:
    """Leave out the side that is not quoted."""
    inventory = state.inventory[i]
    if inventory >= derived.most:
        mask[0] = 0
    if inventory <= -derived.most:
        mask[1] = 0


class MarketMakingVecEnv(KernelVecEnv[Any, Any]):
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
        - a model of ``sims.prices``: as that says, with draws of its own;

    4. the clock advances;
    5. reward and observation use S[t+1].

    Hence ``W[t+1] - W[t] = (fills at the bid) db + (fills at the ask) da + q[t+1] (S[t+1] - S[t])``.

    Observation: float32 (2,): ``q / max_inventory`` (q itself where there is no limit) and the fraction of time left,
    ``1 - t/N``; with ``observe="full"`` (4,): also ``S/S0 - 1`` and the cash.

    Action: float32 (2,), the distances db and da in price; they may be negative.

    Mask, ``action_mask()`` int8 (2,): 0 for the distance of a side at its limit, db at ``max_inventory`` and da at
    ``-max_inventory``, else 1; None where there is no limit. A distance that is left out may be any, 0 too, at which
    ``space.sample(mask)`` rests: no draw, fill, price, reward or observation depends on it.

    Reward: "pnl" ``W[t+1] - W[t]``; "running_penalty" that minus ``phi q[t+1]^2 dt``, and minus ``alpha q[N]^2`` in the
    last step; "exp_utility" ``-exp(-gamma W[N])`` in the last step, else 0.

    Episode: starts with cash and inventory 0, is truncated after N steps and never terminated.

    Infos, of a step and a reset: ``mid_price``, ``inventory``, ``cash``, ``wealth`` (also attributes), and every
    parameter that is ``Randomized``; of a step ``bid_filled`` and ``ask_filled`` (one unit each) as well, and with
    ``tell_quotes`` also ``bid_price`` and ``ask_price``, the quotes that stood, at which fills were made: S[t] - db and
    S[t] + da, with the distances that counted (at a side's limit, where it would have stood). Every draw comes from
    ``streams``: a sub-env's numbers depend on its seed alone.

    Parameters are those of ``MarketMakingParams``. They are attributes too, and ``set_attr`` changes numbers from the
    next step on (the initial price from the next reset on). A number may be given as one for all sub-envs, one for
    each, or ``Randomized``: drawn by every sub-env at each reset, and until then the middle of its range.

    Args:
        num_envs: Number of sub-envs.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them; the market takes none.
        **params: The fields of ``MarketMakingParams``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, or there is not one value per sub-env.
    """

    Params, State = MarketMakingParams, State
    check, prepare, derive_row = check, prepare, derive_row
    reset_row, step_row, observe_row, mask_row = reset_row, step_row, observe_row, mask_row
    observation_space = observation_space
    action_space = Box(-np.inf, np.inf, (2,), np.float32)
    reset_infos = RESET_INFOS
    infos = infos

    #: Builders of the policies offered by name; each takes a VecEnv of this market.
    policies: ClassVar[Any] = baselines.POLICIES
    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_market_making)

    @property
    def has_action_mask(self) -> bool:
        """Whether ``action_mask()`` says something: where there is an inventory limit."""
        return super().has_action_mask and self.params.max_inventory is not None
