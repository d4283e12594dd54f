"""The law of ``LimitOrderBook-v0``: what a sub-env has, and what a step does to it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, uint64
from numpy.typing import NDArray

from sekai.kernels import jit, streams
from sekai.spaces import Box
from sims.order_book import account as accounts
from sims.order_book import actions, tape_events, venue, views
from sims.order_book.account import Pending
from sims.order_book.book import (
    BUY,
    EVICTED,
    MOST_LOTS,
    ORDERS,
    REFUSED,
    SELL,
    Book,
    add_row,
    begin_log,
    clear_row,
    clear_tallies,
    prefetch_row,
)
from sims.order_book.events import NEVER, Clock, Rates, advance_row, begin_clock, prefetch_event
from sims.order_book.flows import FlowTables


class Shared(NamedTuple):
    """What follows for all sub-envs.

    Attributes:
        flow: The background.
        warm_up: How long books are warmed up before an episode, time at factors of 1.
        decorrelate: How long the background acts between one that has been and an episode.
        starts: u2 (S, words): the nodes of books for which that has been done; S is 0 where it is done at each reset.
        start_bests: i8 (S, 3): bid, ask and number of orders of each.
        start_excitation: f8 (S, 4): of each, of a Hawkes flow, when an episode begins.
        given_prices: i8 (G,): the orders of the initial book, ticks.
        given_lots: i8 (G,).
        given_slots: i8 (G,): of own ones, -1 else.
        given_sides: i8 (G,).
        bid: The reference of the bid side before them, ticks.
        ask: Of the ask side.
    """

    flow: FlowTables
    warm_up: float
    decorrelate: float
    starts: NDArray[np.uint16]
    start_bests: NDArray[np.int64]
    start_excitation: NDArray[np.float64]
    given_prices: NDArray[np.int64]
    given_lots: NDArray[np.int64]
    given_slots: NDArray[np.int64]
    given_sides: NDArray[np.int64]
    bid: int
    ask: int


class State(NamedTuple):
    """What a sub-env has.

    Attributes:
        book: The book.
        clock: When the background acts.
        pending: The agent's actions under way.
        mid_price: Half the way from the best bid to the best ask, money.
        spread: From the best bid to the best ask, ticks.
        cash: Money.
        inventory: Lots held, negative when short.
        wealth: Cash and the inventory at the mid, money.
        bought: Lots bought in the last step.
        sold: Lots sold in it.
        fees: Paid in it, money; negative for a rebate.
        messages: Events of the background that changed the book in it.
        refused: Orders of anyone in it that did not fit into the book.
        evicted: Orders of anyone in it that the best moved too far away from.
        cut: Own lots in it that the inventory limit left out.
        dropped: Own actions in it that found too many under way.
        turnover: Value traded in this episode, money.
        marked: What the reward is counted from, money.
        arrival: The mid at the start, money.
        tick: Money of a tick and lot in this episode.
        span: Time of a step in this episode.
    """

    book: Book
    clock: Clock
    pending: Pending
    mid_price: np.float64
    spread: np.int64
    cash: np.float64
    inventory: np.int64
    wealth: np.float64
    bought: np.int64
    sold: np.int64
    fees: np.float64
    messages: np.int64
    refused: np.int64
    evicted: np.int64
    cut: np.int64
    dropped: np.int64
    turnover: np.float64
    marked: np.float64
    arrival: np.float64
    tick: np.float64
    span: np.float64


@jit(allocates=False)
def rates_of(params: Any, flow: Any) -> Rates:
    """The rates of a row."""
    scale = params.rate_factor
    mu = flow.mu if params.mu is None else params.mu
    return Rates(scale * params.lam_factor * flow.lam, scale * mu, scale * params.theta_factor * flow.theta, scale)


@jit(allocates=False)
def take_start(params: Any, derived: Any, state: Any, random: Any, i: int) -> bool:
    """Put up the book that an episode begins with; whether it has been warmed up."""
    book, clock = state.book, state.clock
    rates = rates_of(params, derived.flow)
    count = len(derived.starts)
    if count > 0:
        k = streams.integers(random, i, 0, count)
        clear_row(params.rules, book, i, derived.start_bests[k, 0], derived.start_bests[k, 1])
        for j in range(derived.starts.shape[1]):
            book.nodes[i, j] = derived.starts[k, j]
        book.count[i] = derived.start_bests[k, 2]
        begin_clock(book, clock, random, i, derived.flow, rates)
        for j in range(4):
            clock.excitation[i, j] = derived.start_excitation[k, j]
        return True
    random.counter[i] += uint64(1)  # else an episode without an event would be followed by the same one again
    clear_row(params.rules, book, i, derived.bid, derived.ask)
    for k in range(len(derived.given_prices)):
        side, price, lots = derived.given_sides[k], derived.given_prices[k], derived.given_lots[k]
        add_row(params.rules, book, i, side, price, lots, derived.given_slots[k])
    begin_clock(book, clock, random, i, derived.flow, rates)
    return False


@jit(allocates=False)
def reset_row(params: Any, derived: Any, state: Any, random: Any, i: int) -> None:
    """Begin an episode: a book, and an agent with nothing, or with what it is to work off."""
    book, clock = state.book, state.clock
    is_warm = take_start(params, derived, state, random, i)
    # A time, not a number of messages: right after a message a book is not what it is at any time.
    until = (derived.decorrelate if is_warm else derived.warm_up) / (params.rate_factor * min(1.0, params.theta_factor))
    if until > 0.0:
        advance_row(params.rules, book, clock, random, i, derived.flow, rates_of(params, derived.flow), until, 2**62)
        now = clock.time[i]
        clock.time[i], clock.due[i], clock.excited[i] = 0.0, clock.due[i] - now, clock.excited[i] - now
        clock.messages[i] = 0
    clear_tallies(book, i)
    begin_log(params.rules, book, i)
    begin_account(params, state, book, random, i)


@jit(allocates=False)
def begin_account(params: Any, state: Any, book: Any, random: Any, i: int) -> None:
    """Begin an episode of the agent: with nothing, or with what it is to work off."""
    account, pending = state, state.pending
    inventory = 0
    if params.actions == "execution":
        inventory = params.quantity if params.direction == "sell" else -params.quantity
    account.tick[i], account.span[i] = params.tick_size, params.step_time
    accounts.open_account(account, i, inventory)
    accounts.clear_pending(pending, random, i)
    accounts.mark(params, account, book, i)
    account.messages[i] = account.refused[i] = account.evicted[i] = 0
    account.arrival[i] = account.mid_price[i]
    account.marked[i] = account.wealth[i]


@jit(allocates=False)
def advance(params: Any, derived: Any, book: Any, clock: Any, random: Any, i: int, until: float, most: int) -> None:
    """Let the background act, or the file go on, until a time, or until so many messages have come."""
    if params.rules.replays:
        tape_events.advance_row(params.rules, book, clock, i, until, most)
    else:
        rates = rates_of(params, derived.flow)
        advance_row(params.rules, book, clock, random, i, derived.flow, rates, until, most)


@jit(allocates=False)
def close_out(params: Any, account: Any, book: Any, i: int) -> None:
    """Cancel own orders, and trade what is held at market as far as there is anything to trade with."""
    for slot in range(params.rules.slots):
        venue.cancel_row(params.rules, book, i, slot, MOST_LOTS)
    held = account.inventory[i]
    side = SELL if held > 0 else BUY
    taken, value = venue.take_row(params.rules, book, i, BUY if held > 0 else SELL, abs(held))
    accounts.trade(params, account, i, side, taken, value, params.taker_fee)


@jit(allocates=False)
def step_row(
    params: Any, derived: Any, state: Any, random: Any, i: int, elapsed: int, action: Any
) -> tuple[float, bool, bool]:
    """Send an action, let the background act, carry out what arrives; see ``LimitOrderBookVecEnv``."""
    book, clock, account, pending = venue.book_of(params.rules, derived, state), state.clock, state, state.pending
    if not params.rules.replays:
        prefetch_row(params.rules, book, i + 1)
        prefetch_event(params.rules, book, clock, i + 1)
    accounts.begin_step(account, i)
    place = accounts.send(params, account, pending, random, i, clock.time[i])
    if place >= 0:
        actions.keep_action(params, pending.action[i, place], action)
    began, messages = clock.time[i], clock.messages[i]
    refused, evicted = book.tallies[i, REFUSED, ORDERS], book.tallies[i, EVICTED, ORDERS]
    end, soon, most = NEVER, NEVER, params.step_messages
    if params.step_by == "time":
        # What arrives at the end but for rounding arrives at the end.
        end, soon, most = float64(elapsed + 1) * account.span[i], (float64(elapsed + 1) + 1e-9) * account.span[i], 2**62
    goal = clock.messages[i] + most
    while True:
        first, arrives = pending.first[i], NEVER
        if pending.count[i] > 0:
            arrives = pending.arrives[i, first]
            arrives = min(arrives, end) if arrives <= soon else arrives
        until, left = min(end, arrives), goal - clock.messages[i]
        if until > clock.time[i] and left > 0:
            advance(params, derived, book, clock, random, i, until, left)
            accounts.settle(params, account, book, i)
        if arrives > clock.time[i]:
            break
        venue.set_time(params.rules, book, i, clock.time[i])
        actions.carry_out(params, account, book, i, pending.action[i, first])
        pending.first[i] = (first + 1) % params.max_pending
        pending.count[i] -= 1
    over = elapsed + 1 >= params.n_steps
    if params.rules.replays:
        over |= tape_events.is_over(book, i)
    done = params.actions == "execution" and account.inventory[i] == 0
    if over and params.at_end == "close":
        venue.set_time(params.rules, book, i, clock.time[i])
        close_out(params, account, book, i)
    accounts.mark(params, account, book, i)
    account.messages[i] = clock.messages[i] - messages
    account.refused[i] = book.tallies[i, REFUSED, ORDERS] - refused
    account.evicted[i] = book.tallies[i, EVICTED, ORDERS] - evicted
    price = account.mid_price[i]
    if params.reward == "shortfall" and not (over and params.at_end == "mark"):
        price = account.arrival[i]
    worth = account.cash[i] + float64(account.inventory[i]) * price
    reward = worth - account.marked[i]
    account.marked[i] = worth
    if params.reward == "inventory_penalty":
        held = float64(account.inventory[i])
        reward -= params.inventory_penalty * held * held * (clock.time[i] - began)
    return reward, done, over


@jit(allocates=False)
def observe_row(params: Any, derived: Any, state: Any, i: int, elapsed: int, observation: Any) -> None:
    """The book, the own orders, what is held, and the time left; see ``LimitOrderBookVecEnv``."""
    book = venue.book_of(params.rules, derived, state)
    at = views.observe_levels(params, book, i, observation)
    at = views.observe_own(params, book, i, observation, at)
    unit = params.quantity if params.actions == "execution" else params.max_inventory
    held = float32(state.inventory[i])
    observation[at] = held if unit is None else held / float32(unit)
    observation[at + 1] = float32(params.n_steps - elapsed) / float32(params.n_steps)


def observation_space(params: Any) -> Box:
    """As many numbers as the levels and the own orders take."""
    return Box(-math.inf, math.inf, (views.count_items(params) + 2,), float32)


#: What a reset tells, and a step besides.
RESET_INFOS = ("mid_price", "spread", "cash", "inventory", "wealth")
INFOS = (*RESET_INFOS, "bought", "sold", "fees", "messages", "refused", "evicted", "cut", "dropped")
