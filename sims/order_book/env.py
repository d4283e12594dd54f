"""``LimitOrderBookVecEnv``: the class, and the books that its episodes begin from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count
from sekai.vector import KernelVecEnv
from sims.order_book import actions
from sims.order_book.baselines import POLICIES
from sims.order_book.book import ANY_PRICE, BookRules, count_words
from sims.order_book.flows import CST, FLOWS, expected_orders, most_offset, read_flow
from sims.order_book.market import (
    INFOS,
    RESET_INFOS,
    Shared,
    State,
    observation_space,
    observe_row,
    reset_row,
    step_row,
)
from sims.order_book.parameters import (
    LimitOrderBookParams,
    check,
    decorrelate_of,
    default_slots,
    events_of,
    warm_up_of,
)
from sims.order_book.plot import plot_order_book
from sims.order_book.start import read_start

#: Books that episodes begin from: at most, at least (and without compilation, where they would take minutes), and what
#: they may take of events and bytes.
_STARTS, _FEWEST_STARTS, _START_EVENTS, _START_BYTES = 1024, 64, 2e7, 1 << 24
#: The seeds from which they are made, whatever the seed of an env, and for how many sets of parameters they are kept.
_START_SEED, _MOST_MADE = 0x5EED_0B00C, 32
#: Orders that a book holds unless it is told otherwise, at most.
_MOST_ORDERS = 32_768


def prepare(params: Any) -> Shared:
    """The flow, and the books that episodes begin from."""
    flow, start = read_flow(params.flow), read_start(params.initial_book, params)
    if (start.lots[start.slots < 0] > 1).any():  # else every order of the background is taken to be one lot
        flow = flow._replace(has_sizes=True)
    warm_up = warm_up_of(params)
    starts = _start_books(params) if params.warm_up_once and warm_up > 0.0 else None
    none = np.zeros((0, count_words(params)), np.uint16), np.zeros((0, 3), np.int64), np.zeros((0, 4))
    return Shared(flow, warm_up, decorrelate_of(params), *(starts or none), *start)


#: What decides what the books are that episodes begin from.
_OF_START = ("flow", "mu", "lam_factor", "theta_factor", "rate_factor", "start_price", "initial_book", "warm_up")
_STARTS_MADE: dict[Any, tuple[NDArray[Any], ...]] = {}


def _start_books(params: Any) -> tuple[NDArray[Any], ...] | None:
    """Books to begin from, the same for the same parameters; None where rates differ between sub-envs or are drawn."""
    shared = {}
    for name in LimitOrderBookParams._fields:
        try:
            shared[name] = getattr(params, name)
        except ValueError:  # not one value for all
            if name in _OF_START:
                return None
    rules = BookRules(*(getattr(params.rules, name) for name in BookRules._fields))._replace(record_messages=0)
    key = (rules, *(shared[name] for name in _OF_START))
    if key not in _STARTS_MADE:
        if len(_STARTS_MADE) >= _MOST_MADE:
            del _STARTS_MADE[next(iter(_STARTS_MADE))]
        # With all that they share, so that nothing is compiled that is not needed anyway.
        events = events_of(params, warm_up_of(params)) / min(1.0, params.theta_factor)
        most = min(_START_EVENTS / events, _START_BYTES / (2 * count_words(params)))
        count = _FEWEST_STARTS if numba.config.DISABLE_JIT else int(min(_STARTS, max(_FEWEST_STARTS, most)))
        vec = LimitOrderBookVecEnv.of_rules(count, **shared | {"rules": rules, "warm_up_once": False, "latency": 0.0})
        vec.reset(seed=[_START_SEED + k for k in range(count)])
        books, clocks = vec.get_attr("book"), vec.get_attr("clock")
        nodes = np.stack([book.nodes for book in books])
        bests = np.array([(book.bid, book.ask, book.count) for book in books], dtype=np.int64)
        # It holds for the time of the last event, and fades since then.
        fade = -read_flow(params.flow).beta * params.rate_factor
        excitation = np.stack([clock.excitation * math.exp(fade * (clock.time - clock.excited)) for clock in clocks])
        _STARTS_MADE[key] = nodes, bests, excitation
    return _STARTS_MADE[key]


class LimitOrderBookVecEnv(KernelVecEnv[Any, Any]):
    """Trade in a book of individual orders, with exact queues, latency and fees, among orders that come at random.

    Prices are whole ticks, sizes whole lots. Orders are executed by price, and at a price in the order in which they
    came. The background (``flow``) sends limit orders at distances from the opposite best, market orders, which walk
    through the levels as far as they reach, and cancels, each at its rates in continuous time; see
    ``sims.order_book.CST``, ``SantaFe`` and ``Hawkes``. A side without orders keeps its last best
    price as the reference for distances.

    A step, of ``step_time`` or of ``step_messages`` messages (events that change the book):

    1. the agent's action is sent, and arrives after ``latency``, not before an earlier one;
    2. the background acts up to the time at which an action arrives, which is then carried out on the book as it is
       there, and so on to the end of the step;
    3. in the last step own orders are cancelled and what is held is traded at market (``at_end="close"``), or it is
       taken at the mid ("mark").

    Action, by ``actions``:

    - "quotes", MultiDiscrete (3,): the offset of a bid (0 for none, else 1 to ``max_offset`` ticks below the best ask),
      of an ask likewise, and the size less 1, lots. Both replace what stood: the same price and size keeps its place in
      the queue, fewer lots at the same price too. Two that would cross each other are put side by side in the middle;
    - "orders", MultiDiscrete (4,): a kind (0 none, 1 limit to buy, 2 limit to sell, 3 market to buy, 4 market to sell,
      5 cancel), the offset of a limit order from the opposite best (0: at it, so that it is executed at once as far as
      it can be), its size less 1, and the slot whose order it takes the place of, or cancels;
    - "execution", float32 (2,), shares: the position of ``quantity`` lots, long to ``direction="sell"``, is to be
      worked off. Of what is left the first share is traded at market, of what is then left the second waits at the own
      best price. An episode terminates when nothing is left.

    An order that could carry the inventory past ``max_inventory``, if all own orders of its side were executed, is cut.
    Quotes and kinds of orders of which nothing would be left are left out in ``action_mask()``.

    Observation, float32 (4 depth + 2 + 3 slots + 2,): of the bids, best first, ``depth`` offsets from the best ask in
    ticks and then as many volumes in lots, 0 where there are no more; of the asks likewise; the spread in ticks; the
    imbalance of the best volumes, (bid - ask) / (bid + ask); of each own order its offset from the opposite best (below
    0 to sell), its lots, and the lots ahead of it in its queue; the inventory as a fraction of ``max_inventory`` (of
    ``quantity`` with "execution", in lots where there is no limit); the fraction of steps left.

    Reward, money: "wealth", its change, cash and inventory at the mid; "inventory_penalty", that less
    ``inventory_penalty`` times the squared inventory and the time; "shortfall", the change of cash and inventory at the
    price at the start, so that an episode's sum is what was gained against that price.

    Episode: begins with a book that has been let run for ``warm_up`` (see the guide "Trade in an order book"), and is
    truncated after ``n_steps``.

    Infos of a step and a reset: the "mid_price" in money and the "spread" in ticks, "cash", "inventory" (lots) and
    "wealth", as they stand. Infos of a step, of what happened within it: lots "bought" and "sold", "fees" in money,
    "messages" of the background; orders "refused" and "evicted" by the book, of anyone; own lots "cut" by the inventory
    limit; own actions "dropped" since too many were under way. None of these is summed over the steps of an episode.

    Args:
        num_envs: Number of sub-envs.
        flow: What the background does; None for a ``CST`` with its published rates, and "cst", "santa-fe" and "hawkes"
            for each flow as it is by itself. ``sekai.make_vec`` also takes a ``sims.data.Tape``, a LOBSTER file to be
            replayed: see ``ReplayVecEnv``.
        step: What a step is: a fixed "time" (``step_time``) or a number of "messages" (``step_messages``).
        price_limits: The lowest and the highest price of resting orders, ticks; None for any above 0.
        ring: See ``BookRules``; None for what the flow and ``max_offset`` need.
        max_orders: None for four times as many as the flow leaves in the long run.
        slots: None for what the actions need: 2 of "quotes", 1 of "execution", 4 of "orders".
        self_trade: See ``BookRules``.
        record_messages: Of how many messages of an episode each sub-env keeps a record, 48 bytes each, for
            ``recorded_tape``; 0 for none. An order that executes several is as many messages.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them; the market takes none.
        **params: The other fields of ``LimitOrderBookParams``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, or there is not one value per sub-env.
    """

    Params, State = LimitOrderBookParams, State
    check, prepare = check, prepare
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    mask_row = actions.mask_row
    observation_space, action_space = observation_space, actions.action_space
    parallel_from = 64
    infos = INFOS
    reset_infos = RESET_INFOS

    def __init__(
        self,
        num_envs: int,
        *,
        flow: Any = None,
        step: str = "time",
        price_limits: tuple[int, int] | None = None,
        ring: int | None = None,
        max_orders: int | None = None,
        slots: int | None = None,
        self_trade: str = "cancel_resting",
        record_messages: int = 0,
        **params: Any,
    ) -> None:
        for name, instead in (("step_by", "step"), ("rules", "ring, max_orders, slots, price_limits and self_trade")):
            if name in params:
                raise TypeError(f"{name}: expected it to be told by {instead}, got {params[name]!r}")
        flow = FLOWS.get(flow, flow) if isinstance(flow, str) else CST() if flow is None else flow
        read_flow(flow)  # says what is wrong with it
        if price_limits is not None and not (isinstance(price_limits, (tuple, list)) and len(price_limits) == 2):
            raise TypeError(f"price_limits: expected (lowest, highest) or None, got {price_limits!r}")
        if ring is None:
            offset = params.get("max_offset", LimitOrderBookParams._field_defaults["max_offset"])
            offset = max(most_offset(flow), check_count(offset, "max_offset"))
            ring = max(64, _power_of_two(4 * offset))
        if max_orders is None:
            max_orders = max(64, _power_of_two(min(4.0 * expected_orders(flow), _MOST_ORDERS)))
        if slots is None:
            slots = default_slots(params.get("actions", ""))
        rules = BookRules(max_orders, ring, slots, *(price_limits or ANY_PRICE), self_trade, record_messages)
        super().__init__(num_envs, flow=flow, rules=rules, step_by=step, **params)
        self._warn_of_growth()

    def _warn_of_growth(self) -> None:
        """Warn of rates by which books fill up, so that orders are refused."""
        most, fullest = self.params.rules.max_orders, 0.0
        for params, _ in self._values.combinations():
            orders = expected_orders(params.flow, params.mu, params.lam_factor, params.theta_factor)
            fullest = max(fullest, orders)
        if fullest > most:
            warnings.warn(
                f"max_orders: expected as many as a book comes to hold by its rates, {fullest:.6g} in the long run, "
                f"got {most}: a full book refuses the orders that come (see the info 'refused')",
                stacklevel=3,
            )

    @property
    def has_action_mask(self) -> bool:
        """Whether ``action_mask()`` says something: of "quotes" and "orders", where there is an inventory limit."""
        return super().has_action_mask and actions.has_mask(self.params)

    @property
    def policies(self) -> dict[str, Callable[[Any], Any]]:
        """Builders of the policies offered by name, those for its actions; each takes a VecEnv of this market."""
        return POLICIES[self.actions]

    @property
    def plot_rollout(self) -> Callable[..., Any]:
        """How a rollout of it is drawn, ``sims.order_book.plot.plot_order_book`` with its levels and ticks."""
        return partial(plot_order_book, depth=self.depth, tick_size=self.tick_size)

    @classmethod
    def of_rules(cls, num_envs: int, **params: Any) -> LimitOrderBookVecEnv:
        """The market made from the fields of ``LimitOrderBookParams`` as they are.

        Args:
            num_envs: Number of sub-envs.
            **params: The fields.
        """
        rules = params.pop("rules")
        return cls(
            num_envs,
            step=params.pop("step_by"),
            price_limits=(rules.lowest_price, rules.highest_price),
            ring=rules.ring,
            max_orders=rules.max_orders,
            slots=rules.slots,
            self_trade=rules.self_trade,
            record_messages=rules.record_messages,
            **params,
        )


def _power_of_two(least: float) -> int:
    """The least power of two of at least a number."""
    return 2 ** max(0, math.ceil(math.log2(max(least, 1.0))))
