"""``LimitOrderBook-v0`` with ``flow=`` a tape: the messages of a file as they came, with an agent among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy import int64

from sekai.kernels import jit, streams
from sekai.vector import KernelVecEnv
from sims.checks import check_range
from sims.data import Tape
from sims.order_book import actions, market, parameters, tape_book, venue
from sims.order_book.baselines import POLICIES, SIMULATING
from sims.order_book.env import LimitOrderBookVecEnv
from sims.order_book.flows import CST, FLOWS, Hawkes, SantaFe
from sims.order_book.tape_book import File, TapeOrders, TapeRules
from sims.order_book.tape_events import TapeClock, find_row
from sims.order_book.tape_file import check_tape, read_tape

#: Nanoseconds of a second.
_SECOND = 1e9


class ReplayParams(NamedTuple):
    """What is replayed, what an agent can do, and what it is paid for.

    Attributes:
        flow: The ``sims.data.Tape``.
        rules: What a sub-env has of its own; ``ReplayVecEnv`` makes it of its arguments.
        step_by: What a step is: a fixed "time" or a fixed number of "messages".
        step_time: That time, seconds.
        step_messages: That number.
        n_steps: Steps of an episode.
        actions: "quotes", "orders" or "execution".
        max_offset: The largest offset of an own order from the opposite best, ticks.
        max_size: The largest own order, shares.
        latency: Seconds from an action to its arrival, on average.
        latency_law: Whether it is "fixed", "exponential", or "uniform" from 0 to twice that.
        max_pending: Actions that may be under way.
        tick_size: Money of a tick and share.
        maker_fee: Paid for own resting orders that are executed, a fraction of the value; negative for a rebate.
        taker_fee: Paid for own orders that execute others, likewise.
        fee_per_lot: Paid for each share bought or sold, money.
        max_inventory: Shares held at most, long or short; None for no limit.
        quantity: Shares to be worked off with "execution".
        direction: Whether to "sell" or to "buy" them.
        at_end: What becomes of what is held after the last step: "close" it at market, or "mark" it at the mid.
        reward: "wealth", "inventory_penalty" or "shortfall".
        inventory_penalty: Of that reward, money per second and share squared.
        levels: Whether an observation has the best "occupied" levels, or the best "ticks".
        depth: How many a side.
    """

    flow: Any
    rules: TapeRules = TapeRules()
    step_by: str = "time"
    step_time: float = 1.0
    step_messages: int = 1
    n_steps: int = 200
    actions: str = "quotes"
    max_offset: int = 10
    max_size: int = 1
    latency: float = 0.0
    latency_law: str = "fixed"
    max_pending: int = 8
    tick_size: float = 0.01
    maker_fee: float = 0.0
    taker_fee: float = 0.0
    fee_per_lot: float = 0.0
    max_inventory: int | None = 50
    quantity: int = 20
    direction: str = "sell"
    at_end: str = "close"
    reward: str = "wealth"
    inventory_penalty: float = 5e-5
    levels: str = "occupied"
    depth: int = 5


#: What a sub-env has: a ``market.State`` with the book and the clock of a replay.
ReplayState = NamedTuple(  # type: ignore[misc]
    "ReplayState",
    [
        (name, {"book": TapeOrders, "clock": TapeClock}.get(name, kind))
        for name, kind in get_type_hints(market.State).items()
    ],
)


class ReplayStart(NamedTuple):
    """What a reset can be told.

    Attributes:
        start: The message after which to begin; -1 for one drawn uniformly from all after which a whole episode fits.
    """

    start: int = -1


class Shared(NamedTuple):
    """What follows for all sub-envs: the file."""

    file: File


def check(params: ReplayParams) -> None:
    """TypeError and ValueError for what is none, is out of its range, or asks for more than the tape has."""
    check_tape(params.flow)
    parameters.check_agent(params)
    # Where one is forgotten for another, it has to be one that is out of view.
    check_range("most_taken", params.rules.most_taken, least=2 * params.flow.levels + 1)
    messages, seconds = len(params.flow) - 1, float(params.flow.time[-1] - params.flow.time[0]) / _SECOND
    if params.step_by == "time":
        needed, span, got = 1, f"{params.n_steps} steps of {params.step_time:g} s", f"{seconds:g} s"
        is_short = np.round(params.n_steps * params.step_time * _SECOND) > np.round(seconds * _SECOND)
    else:
        needed, is_short = params.n_steps * params.step_messages, False
        span, got = f"{params.n_steps} steps of {params.step_messages} messages after the first", f"{messages}"
    if is_short or messages < needed:
        raise ValueError(f"flow: expected a Tape at least as long as an episode, {span}, got {got}")


def check_options(params: ReplayParams, options: ReplayStart) -> None:
    """Refuse a start that is none, or after which no message is left."""
    last = len(params.flow) - 2
    if not -1 <= options.start <= last:
        raise ValueError(f"start: expected an integer in [0, {last}], or -1 for any, got {options.start}")


def prepare(params: Any) -> Shared:
    """The tape as row functions read it."""
    return Shared(read_tape(params.flow))


@jit
def _last_start(params: Any, time: Any) -> Any:
    """The last row after which a whole episode fits."""
    last = int64(len(time) - 1)
    if params.step_by == "messages":
        return last - params.n_steps * params.step_messages
    span = int64(np.round(params.n_steps * params.step_time * _SECOND))
    return min(find_row(time, 0, time[last] - span), last - 1)


@jit(allocates=False)
def reset_row(params: Any, derived: Any, state: Any, random: Any, i: int, options: Any) -> None:
    """Begin an episode somewhere in the file, with an agent with nothing, or with what it is to work off.

    A start is drawn even where one is named, so that naming one moves no later draw.
    """
    file, book, clock = derived.file, venue.book_of(params.rules, derived, state), state.clock
    drawn = streams.integers(random, i, 0, _last_start(params, file.time) + 1)
    start = int64(options.start) if options.start >= 0 else int64(drawn)
    tape_book.clear_row(params.rules, book, i, start)
    clock.time[i], clock.messages[i], clock.start[i] = 0.0, 0, file.time[start]
    market.begin_account(params, state, book, random, i)


class ReplayVecEnv(KernelVecEnv[Any, Any]):
    """Trade in the order book of a file: ``LimitOrderBook-v0`` with ``flow=`` a ``sims.data.Tape``.

    **The file does not react.** Its messages come as they came, whatever the agent does; nobody sees the agent's
    orders, and nobody misses what it has taken. This is a historical replay: good for orders that are small beside
    those of the file, and nothing to learn market impact from.

    Actions, latency, fees, observations, rewards and infos are those of ``LimitOrderBookVecEnv``; lots are shares,
    times are seconds, and a tick is that of the tape. All sub-envs share the tape, and each is somewhere in it. Of the
    lots ahead of an own order an observation has -1 as long as its price has not been in view.

    An own order that rests is executed, at its own price, by

    - a message of the other side that would have met it;
    - an execution of the file at a worse price, of a displayed order or a hidden one; and of a hidden one at its price;
    - an execution at its own price of an order that was submitted after it, or of any when nobody is ahead of it;

    and by no more shares than the message has, which the best own order gets first. Ahead of it is what was displayed
    at its price when it came, less what leaves of that. Of an order that came while its price was out of view the file
    does not tell when; if such a one is cancelled, it counts as behind. No more is ever ahead than is displayed.

    An own order that does not rest takes displayed shares at the prices of the file, level by level as far as those in
    view; a limit order that would rest beyond them is refused. What was taken is no longer seen; the messages of the
    file by which shares leave that were there take away those first, and find what is left of the level, never less
    than none. Of levels out of view that is remembered as far as there is room for 16 more than can be in view; one
    that has to be forgotten, and may be back as it was, is "evicted".

    An episode begins after a message drawn uniformly from all after which a whole one fits, or after the one that
    ``reset(options={"start": k})`` names, and is truncated after ``n_steps`` or with the last message. In a halt there
    are no executions in the file, and so none of own orders that rest.

    Args:
        num_envs: Number of sub-envs.
        flow: The tape.
        step: What a step is: a fixed "time" (``step_time``, seconds) or a number of "messages" (``step_messages``).
        slots: As of ``LimitOrderBookVecEnv``.
        self_trade: As of ``BookRules``.
        tick_size: Money of a tick and share; None for dollars.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them.
        **params: The other fields of ``ReplayParams``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, there is not one value per sub-env, or the tape is shorter than an
            episode.
    """

    Params, State, Options = ReplayParams, ReplayState, ReplayStart
    check, check_options, prepare = check, check_options, prepare
    reset_row, step_row, observe_row = reset_row, market.step_row, market.observe_row
    mask_row = actions.mask_row
    observation_space, action_space = market.observation_space, actions.action_space
    parallel_from = 64
    infos, reset_infos = (*market.INFOS, "book.row"), (*market.RESET_INFOS, "book.row")
    plot_rollout = LimitOrderBookVecEnv.plot_rollout

    def __init__(
        self,
        num_envs: int,
        *,
        flow: Any,
        step: str = "time",
        slots: int | None = None,
        self_trade: str = "cancel_resting",
        tick_size: Any = None,
        **params: Any,
    ) -> None:
        check_tape(flow)
        if slots is None:
            slots = parameters.default_slots(params.get("actions", ""))
        if tick_size is None:
            tick_size = flow.tick / 10_000
        rules = TapeRules(slots, 2 * flow.levels + 16, self_trade)
        super().__init__(num_envs, flow=flow, rules=rules, step_by=step, tick_size=tick_size, **params)

    @property
    def has_action_mask(self) -> bool:
        """Whether ``action_mask()`` says something (see ``LimitOrderBookVecEnv``)."""
        return super().has_action_mask and actions.has_mask(self.params)

    @property
    def policies(self) -> dict[str, Callable[[Any], Any]]:
        """Builders of the policies offered by name, those of ``LimitOrderBookVecEnv`` that simulate nothing first."""
        return {name: build for name, build in POLICIES[self.actions].items() if name not in SIMULATING}


def make_order_book(num_envs: int, *, flow: Any = None, **params: Any) -> KernelVecEnv[Any, Any]:
    """``LimitOrderBook-v0``: a market that is simulated, or with a ``sims.data.Tape`` as ``flow`` one that is replayed.

    Args:
        num_envs: Number of sub-envs.
        flow: A tape for a ``ReplayVecEnv``; a ``CST``, ``SantaFe``, ``Hawkes`` or None for a ``LimitOrderBookVecEnv``.
        **params: What that class takes.

    Raises:
        TypeError: The flow is none of these; or as of the class.
        ValueError: As of the class.
    """
    if not isinstance(flow, (Tape, CST, SantaFe, Hawkes, type(None))) and (
        not isinstance(flow, str) or flow not in FLOWS
    ):
        names = ", ".join(map(repr, FLOWS))
        raise TypeError(f"flow: expected {names}, or a CST, SantaFe, Hawkes or sims.data.Tape, got {flow!r}")
    made = ReplayVecEnv if isinstance(flow, Tape) else LimitOrderBookVecEnv
    return made(num_envs, flow=flow, **params)


# Of an argument that it does not take, errors name those that it does.
make_order_book.__signature__ = LimitOrderBookVecEnv.__signature__  # type: ignore[attr-defined]
