"""Policies to measure an agent in the order book against. Each maps a batch of observations to a batch of actions.

``Policy.for_env(vec)`` builds one for a ``LimitOrderBookVecEnv``, on any backend and behind any wrapper that leaves its
observations and actions as they are; ``Policy(...)`` builds one from plain numbers. Each is for one of the market's
kinds of ``actions``. A policy is frozen: it acts by the numbers it was built with, whatever becomes of the env's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count
from sims.checks import check_number, check_range
from sims.market_making.baselines import GLFT, AvellanedaStoikov
from sims.market_making.quotes import LinearQuotes
from sims.order_book import rules
from sims.order_book.fills import FillEstimate, estimate_fills, estimate_volatility
from sims.order_book.reading import read_shared
from sims.policies import RowPolicy


class BookPolicy(RowPolicy):
    """A frozen dataclass that acts by what one observation shows.

    Attributes:
        width: Numbers of an action.
        dtype: Of an action.
    """

    width = 3
    dtype = np.int64


@dataclass(frozen=True, kw_only=True)
class FixedOffset(BookPolicy):
    """A bid and an ask, each at one offset from the opposite best, always. For ``actions="quotes"``.

    Attributes:
        bid: Ticks below the best ask; 0 for no bid.
        ask: Ticks above the best bid; 0 for no ask.
        lots: Of each.
    """

    bid: int = 1
    ask: int = 1
    lots: int = 1

    def __post_init__(self) -> None:
        for name, least in (("bid", 0), ("ask", 0), ("lots", 1)):
            check_count(getattr(self, name), f"FixedOffset({name})", minimum=least)

    @classmethod
    def for_env(cls, vec: Any, offset: int = 1, lots: int = 1) -> FixedOffset:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the order book.
            offset: Of both quotes, ticks.
            lots: Of each quote.

        Raises:
            TypeError: A number is no integer.
            ValueError: The env takes other actions, or none as large as these.
        """
        env = _read_quoting(vec, cls.__name__, lots)
        if offset > env["max_offset"]:
            raise ValueError(
                f"FixedOffset: expected an offset of at most {env['max_offset']} (max_offset), got {offset}"
            )
        return cls(bid=offset, ask=offset, lots=lots)

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.fixed_row, rules.Fixed(self.bid, self.ask, self.lots - 1)


@dataclass(frozen=True, kw_only=True)
class JoinBest(BookPolicy):
    """A bid that joins the best one, and an ask likewise. For ``actions="quotes"``.

    Attributes:
        max_offset: The largest offset that the env takes, ticks, where the spread is wider.
        depth: Levels a side in an observation.
        lots: Of each quote.
    """

    max_offset: int
    depth: int
    lots: int = 1

    def __post_init__(self) -> None:
        _check_counts(self, "max_offset", "depth", "lots")

    @classmethod
    def for_env(cls, vec: Any, lots: int = 1) -> JoinBest:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the order book.
            lots: Of each quote.

        Raises:
            TypeError: A number is no integer.
            ValueError: The env takes other actions, or none as large as these.
        """
        env = _read_quoting(vec, cls.__name__, lots)
        return cls(max_offset=env["max_offset"], depth=env["depth"], lots=lots)

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.join_row, rules.Join(self.max_offset, self.depth, self.lots - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class InventorySkew(BookPolicy):
    """The quotes of a model of market making about the mid, rounded to ticks. For ``actions="quotes"``.

    The model says how far from the mid bid and ask are to be for what is held, both in money. Quotes are at the nearest
    tick, from 1 to ``max_offset`` from the opposite best. The market makes the limit for the inventory hold.

    Attributes:
        model: ``AvellanedaStoikov``, or ``GLFT`` for the long run, of ``sims.market_making``.
        tick_size: Money of a tick and lot.
        max_offset: The largest offset that the env takes, ticks.
        depth: Levels a side in an observation.
        lots: Of each quote.
    """

    model: AvellanedaStoikov | GLFT
    tick_size: float
    max_offset: int
    depth: int
    lots: int = 1
    _parameters: rules.Skew = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_counts(self, "max_offset", "depth", "lots")
        check_range("InventorySkew(tick_size)", check_number(self.tick_size, "InventorySkew(tick_size)"), above=0.0)
        _, quotes = self.model.row_policy() or (None, None)
        if not isinstance(quotes, LinearQuotes):
            raise ValueError(f"InventorySkew(model): expected quotes linear in the inventory, got {self.model!r}")
        parameters = rules.Skew(*map(float, quotes), self.tick_size, self.max_offset, self.depth, self.lots - 1)
        object.__setattr__(self, "_parameters", parameters)

    @classmethod
    def for_env(
        cls,
        vec: Any,
        rule: str = "glft",
        gamma: float | None = None,
        *,
        fills: FillEstimate | None = None,
        volatility: float | None = None,
        lots: int = 1,
        seed: int = 0,
    ) -> InventorySkew:
        """The policy for this VecEnv, by default with what is measured in books like its own.

        Args:
            vec: A VecEnv of the order book.
            rule: "glft", of Guéant, Lehalle and Fernandez-Tapia in the long run; or "avellaneda-stoikov", whose skew
                grows with the time that is left.
            gamma: Absolute risk aversion, per money; None for 0.01 per tick with "glft", and with "avellaneda-stoikov"
                for what has it skew by a tick in 5 lots at the start of an episode.
            fills: Rates of fills, of which ``A`` and ``k`` are taken; None to measure them, ``estimate_fills(vec)``.
            volatility: Of the mid, money per square root of time; None to measure it over an episode,
                ``estimate_volatility(vec)``.
            lots: Of each quote.
            seed: Of what is measured.

        Raises:
            TypeError: A number is none.
            ValueError: The env takes other actions, or none as large as these, or its steps are no fixed time; there is
                no such rule; or see ``estimate_fills``.
        """
        env = _read_quoting(vec, cls.__name__, lots)
        if rule not in ("glft", "avellaneda-stoikov"):
            raise ValueError(f"InventorySkew(rule): expected 'glft' or 'avellaneda-stoikov', got {rule!r}")
        if env["step_by"] != "time":
            raise ValueError(f"InventorySkew: expected steps of a fixed time, got step={env['step_by']!r}")
        fills = estimate_fills(vec, seed=seed) if fills is None else fills
        sigma = float(estimate_volatility(vec, seed=seed).value) if volatility is None else volatility
        horizon = env["n_steps"] * env["step_time"]
        episode = {"horizon": horizon, "n_steps": env["n_steps"], "max_inventory": env["max_inventory"]}
        model: AvellanedaStoikov | GLFT
        if rule == "glft":
            gamma = 0.01 / env["tick_size"] if gamma is None else gamma
            model = GLFT(gamma=gamma, volatility=sigma, arrival_rate=fills.A, fill_decay=fills.k, **episode)
        else:
            gamma = 0.2 * env["tick_size"] / (sigma**2 * horizon) if gamma is None else gamma
            model = AvellanedaStoikov(gamma=gamma, volatility=sigma, fill_decay=fills.k, **episode)
        return cls(model=model, tick_size=env["tick_size"], max_offset=env["max_offset"], depth=env["depth"], lots=lots)

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.skew_row, self._parameters


@dataclass(frozen=True, kw_only=True)
class ImbalanceTaker(BookPolicy):
    """Buys at market where far more is bid than asked at the best prices, and sells where far less is.

    The imbalance is ``(bids - asks) / (bids + asks)`` of the lots at the two. For ``actions="orders"``.

    Attributes:
        threshold: From what imbalance on it buys, and below which negative one it sells; above 0, at most 1.
        limit: Lots that it holds at most, long or short.
        inventory_scale: Lots held where the observation says 1.
        depth: Levels a side in an observation.
    """

    threshold: float
    limit: int
    inventory_scale: float
    depth: int
    width: ClassVar[int] = 4

    def __post_init__(self) -> None:
        _check_counts(self, "limit", "depth")
        check_range("ImbalanceTaker(threshold)", check_number(self.threshold, "threshold"), above=0.0, most=1.0)
        check_range("ImbalanceTaker(inventory_scale)", check_number(self.inventory_scale, "scale"), above=0.0)

    @classmethod
    def for_env(cls, vec: Any, threshold: float = 0.6, limit: int = 1) -> ImbalanceTaker:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the order book.
            threshold: From what imbalance on to trade.
            limit: Lots held at most, long or short.

        Raises:
            TypeError: A number is none.
            ValueError: The env takes other actions, or a number is out of its range.
        """
        env = read_shared(vec, cls.__name__, "orders", "max_inventory", "depth")
        scale = 1.0 if env["max_inventory"] is None else float(env["max_inventory"])
        return cls(threshold=threshold, limit=limit, inventory_scale=scale, depth=env["depth"])

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        scale = float(self.inventory_scale)
        return rules.follow_imbalance_row, rules.Take(float(self.threshold), float(self.limit), scale, self.depth)


@dataclass(frozen=True, kw_only=True, eq=False)
class VWAP(BookPolicy):
    """Works a position off at market in proportion to a profile of volume. For ``actions="execution"``.

    After each step it wants so much to be left as the profile has still to come, in whole lots; what it could not trade
    in one step it makes up for in the next.

    Attributes:
        quantity: Lots to be worked off.
        profile: f8 (n_steps,), volume expected in each step of an episode, at least 0, not all 0.
    """

    quantity: int
    profile: Any
    width: ClassVar[int] = 2
    dtype: ClassVar[type] = np.float32
    _parameters: rules.Schedule = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_count(self.quantity, f"{name}(quantity)")
        profile = np.array(self.profile, np.float64)
        if profile.ndim != 1 or not len(profile):
            raise ValueError(f"{name}(profile): expected volumes (n_steps,), got an array of shape {profile.shape}")
        total = float(profile.sum())
        if not (np.isfinite(total) and (profile >= 0.0).all() and total > 0.0):
            raise ValueError(f"{name}(profile): expected finite volumes of at least 0, not all 0, got {profile}")
        left = np.rint(self.quantity * (1.0 - np.cumsum(profile) / total))
        left[-1] = 0.0
        for array in (profile, left):
            array.flags.writeable = False
        object.__setattr__(self, "profile", profile)
        object.__setattr__(self, "_parameters", rules.Schedule(left, float(self.quantity)))

    @classmethod
    def for_env(cls, vec: Any, profile: Sequence[float] | NDArray[np.float64]) -> VWAP:
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the order book.
            profile: Volumes over an episode, at equal times: as many as there are steps, or fewer, each of which holds
                for an equal share of the steps.

        Raises:
            ValueError: The env takes other actions, or a volume is out of its range, or there are too many.
        """
        env = read_shared(vec, cls.__name__, "execution", "quantity", "n_steps")
        return cls(quantity=env["quantity"], profile=_spread(profile, env["n_steps"]))

    def _rule(self) -> tuple[Callable[[Any, Any, Any], None], Any]:
        return rules.schedule_row, self._parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class TWAP(VWAP):
    """Works a position off at market, evenly over the episode. For ``actions="execution"``."""

    @classmethod
    def for_env(cls, vec: Any) -> TWAP:  # type: ignore[override]
        """The policy for this VecEnv.

        Args:
            vec: A VecEnv of the order book.

        Raises:
            ValueError: The env takes other actions.
        """
        env = read_shared(vec, cls.__name__, "execution", "quantity", "n_steps")
        return cls(quantity=env["quantity"], profile=np.ones(env["n_steps"]))


def _read_quoting(vec: Any, where: str, lots: int) -> dict[str, Any]:
    names = ("max_offset", "max_size", "depth", "tick_size", "step_by", "step_time", "n_steps", "max_inventory")
    env = read_shared(vec, where, "quotes", *names)
    if check_count(lots, f"{where}(lots)") > env["max_size"]:
        raise ValueError(f"{where}: expected at most {env['max_size']} lots (max_size), got {lots}")
    return env


def _check_counts(policy: Any, *names: str) -> None:
    for name in names:
        check_count(getattr(policy, name), f"{type(policy).__name__}({name})")


def _spread(profile: Any, n_steps: int) -> NDArray[np.float64]:
    """A profile of as many volumes as there are steps."""
    volumes = np.asarray(profile, np.float64)
    if volumes.ndim != 1 or not 1 <= len(volumes) <= n_steps:
        raise ValueError(f"VWAP(profile): expected 1 to {n_steps} volumes (n_steps), got an array of {volumes.shape}")
    until = np.interp(
        np.linspace(0.0, 1.0, n_steps + 1), np.linspace(0.0, 1.0, len(volumes) + 1), np.cumsum([0.0, *volumes])
    )
    return np.maximum(np.diff(until), 0.0)


#: Builders of the baselines by the actions that they are for and the names that ``sekai run --policy`` takes; each
#: takes a VecEnv.
POLICIES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "quotes": {
        "fixed-offset": FixedOffset.for_env,
        "join-best": JoinBest.for_env,
        "glft": InventorySkew.for_env,
        "avellaneda-stoikov": partial(InventorySkew.for_env, rule="avellaneda-stoikov"),
    },
    "orders": {"imbalance-taker": ImbalanceTaker.for_env},
    "execution": {"twap": TWAP.for_env},
}
#: Those that measure fills in a simulation of the market first.
SIMULATING = ("glft", "avellaneda-stoikov")
