"""What ``LimitOrderBook-v0`` can be told, and what of it makes no sense."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sims.checks import check_choice, check_range
from sims.order_book import actions, hawkes, views
from sims.order_book.book import BUY, MOST_LOTS, MOST_NODES, SELL, BookRules
from sims.order_book.flows import expected_orders, mean_rates, most_offset, read_flow, slowest_theta
from sims.order_book.start import Start, read_start

STEPS = ("time", "messages")
LATENCIES = ("fixed", "exponential", "uniform")
REWARDS = ("wealth", "inventory_penalty", "shortfall")
ENDS = ("close", "mark")
DIRECTIONS = ("sell", "buy")

#: Lifetimes of an order that a book is let run for before an episode, unless it is told otherwise.
_LIFETIMES = 20.0
#: Events of a warm-up and of a step at most, by the rates.
_MOST_WARM_UP, _MOST_EVENTS = 1e7, 1e8
#: Messages of a step at most; where none comes it is given up after 64 times as many events.
_MOST_MESSAGES = 2**20
#: Messages of an episode of which a sub-env keeps a record at most.
_MOST_RECORDED = 2**24
#: Of money a tick, a lot, or a lot squared.
_MOST_MONEY = 1e12
#: Steps of an episode, levels a side and actions under way at most.
_MOST_STEPS, _MOST_LEVELS, _MOST_PENDING = 2**31 - 1, 2**15, 2**16


class LimitOrderBookParams(NamedTuple):
    """What comes in, what an agent can do, and what it is paid for. See ``LimitOrderBookVecEnv`` for the market itself.

    Attributes:
        flow: What the background does: a ``CST``, ``SantaFe`` or ``Hawkes``.
        mu: Market orders a side and time, instead of the flow's; None for that. Not for a ``Hawkes``.
        lam_factor: What all rates of limit orders are multiplied by, above 0. Not for a ``Hawkes``.
        theta_factor: What all rates of cancels are multiplied by, above 0.
        rate_factor: What all rates are multiplied by, above 0: time passes so much quicker.
        rules: What a book holds and refuses, a ``BookRules``; ``LimitOrderBookVecEnv`` makes it of its arguments.
        start_price: The best bid of an empty book at the start, ticks; the best ask is one above.
        initial_book: A ``StartBook`` to start from; None for an empty book.
        warm_up: How long the background acts before an episode begins, time at factors of 1; None for 20 times as long
            as an order lives on average where cancels are rarest, or for 0 with an initial book, to begin with that.
        warm_up_once: Whether books are warmed up once for all, one of which a sub-env draws at a reset and goes on
            from; else anew at every reset, as it is where rates differ between sub-envs or are drawn.
        decorrelate: How long the background acts before an episode that begins from one of those books, time at factors
            of 1; None for as long as an order lives on average where cancels are rarest.
        step_by: What a step is: a fixed "time" or a fixed number of "messages".
        step_time: That time; another one holds from the next reset on.
        step_messages: That number.
        n_steps: Steps of an episode.
        actions: "quotes", "orders" or "execution".
        max_offset: The largest offset of an own order from the opposite best, ticks.
        max_size: The largest own order, lots.
        latency: Time from an action to its arrival, on average.
        latency_law: Whether it is "fixed", "exponential", or "uniform" from 0 to twice that.
        max_pending: Actions that may be under way.
        tick_size: Money of a tick and lot; another one holds from the next reset on.
        maker_fee: Paid for own resting orders that are executed, a fraction of the value; negative for a rebate.
        taker_fee: Paid for own orders that execute others, likewise.
        fee_per_lot: Paid for each lot bought or sold, money.
        max_inventory: Lots held at most, long or short; None for no limit.
        quantity: Lots to be worked off with "execution"; a side of the default book has some 25.
        direction: Whether to "sell" or to "buy" them.
        at_end: What becomes of what is held after the last step: "close" it at market, or "mark" it at the mid.
        reward: "wealth", "inventory_penalty" or "shortfall".
        inventory_penalty: Of that reward, money per time and lot squared; with 200 times as much as it is by itself, it
            is best not to trade in the default book.
        levels: Whether an observation has the best "occupied" levels, or the best "ticks".
        depth: How many a side.
    """

    flow: Any
    mu: float | None = None
    lam_factor: float = 1.0
    theta_factor: float = 1.0
    rate_factor: float = 1.0
    rules: BookRules = BookRules()
    start_price: int = 10_000
    initial_book: Any = None
    warm_up: float | None = None
    decorrelate: float | None = None
    warm_up_once: Any = True
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


def check(params: LimitOrderBookParams) -> None:
    """TypeError and ValueError for what is none, or is out of its range."""
    flow = read_flow(params.flow)
    check_agent(params)
    for name in ("lam_factor", "theta_factor", "rate_factor"):
        check_range(name, getattr(params, name), above=0.0)
    for name in ("max_orders", "lowest_price"):
        check_range(name, getattr(params.rules, name), least=1)
    check_range("record_messages", params.rules.record_messages, least=0, most=_MOST_RECORDED)
    if params.decorrelate is not None:
        check_range("decorrelate", params.decorrelate, least=0.0)
    if not isinstance(params.warm_up_once, bool):
        raise TypeError(f"warm_up_once: expected True or False, got {params.warm_up_once!r}")
    if params.rules.lowest_price >= params.rules.highest_price:
        got = f"{params.rules.lowest_price} and {params.rules.highest_price}"
        raise ValueError(f"price_limits: expected the lowest price below the highest, got {got}")
    if params.mu is not None:
        check_range("mu", params.mu, least=0.0)
    if params.warm_up is not None:
        check_range("warm_up", params.warm_up, least=0.0)
    if flow.excites and (params.mu is not None or params.lam_factor != 1.0):
        name, got = ("lam_factor", params.lam_factor) if params.mu is None else ("mu", params.mu)
        instead = "Hawkes(mu=...) and rate_factor change its rates"
        raise ValueError(
            f"{name}: expected none with a Hawkes flow, whose rates excite each other ({instead}), got {got}"
        )
    least = 4 * max(most_offset(params.flow), params.max_offset)
    if params.rules.ring < least or params.rules.ring & (params.rules.ring - 1):
        raise ValueError(
            f"ring: expected a power of two of at least {least}, 4 times the largest offset, got {params.rules.ring}"
        )
    nodes = params.rules.ring + params.rules.slots + params.rules.max_orders
    if nodes > MOST_NODES:
        raise ValueError(f"ring, slots, max_orders: expected at most {MOST_NODES} together, got {nodes}")
    limits, trades = mean_rates(params.flow, params.mu)
    if limits <= 0.0:
        where = "flow.mu" if flow.excites else "flow.lam"
        raise ValueError(f"{where}: expected limit orders at a rate above 0, as a book without them stands still")
    if flow.theta <= 0.0:
        raise ValueError("flow.theta: expected a rate above 0, as a book without cancels grows without bound")
    if not params.rules.lowest_price <= params.start_price < params.rules.highest_price <= 2**30:
        raise ValueError(
            f"start_price: expected bid and ask within the price limits {params.rules.lowest_price} to "
            f"{params.rules.highest_price}, at most {2**30}, got {params.start_price} and {params.start_price + 1}"
        )
    _check_own(params, read_start(params.initial_book, params))
    if params.initial_book is not None and params.initial_book.own and warm_up_of(params) > 0.0:
        raise ValueError(
            "initial_book.own: expected none with a warm-up, in which they would be executed before an episode begins"
        )
    # What would take hours is a mistake.
    for name, time in (("warm_up", warm_up_of(params)), ("decorrelate", decorrelate_of(params))):
        events = events_of(params, time) / min(1.0, params.theta_factor)
        if events > _MOST_WARM_UP:
            raise ValueError(f"{name}: expected at most {_MOST_WARM_UP:g} events, got {time:g} of time, {events:.3g}")
    events = events_of(params, params.step_time * params.rate_factor)
    if params.step_by == "time" and events > _MOST_EVENTS:
        raise ValueError(
            f"step_time: expected at most {_MOST_EVENTS:g} events in a step, got {params.step_time:g}, {events:.3g}"
        )


def _check_own(params: Any, start: Start) -> None:
    """ValueError where the own orders of the initial book could carry the inventory past its limit."""
    if params.max_inventory is None:
        return
    inventory = 0
    if params.actions == "execution":
        inventory = params.quantity if params.direction == "sell" else -params.quantity
    for side, name, held in ((BUY, "buy", inventory), (SELL, "sell", -inventory)):
        room = max(params.max_inventory - held, 0)
        lots = int(start.lots[(start.slots >= 0) & (start.sides == side)].sum())
        if lots > room:
            raise ValueError(
                f"initial_book.own: expected at most {room} lots to {name}, which max_inventory={params.max_inventory} "
                f"leaves, got {lots}"
            )


def events_of(params: Any, time: float) -> float:
    """Events in so much time at a rate factor of 1, in the long run."""
    flow, (limits, trades) = read_flow(params.flow), mean_rates(params.flow, params.mu)
    orders = expected_orders(params.flow, params.mu, params.lam_factor, params.theta_factor)
    cancels = params.theta_factor * flow.theta * min(orders, params.rules.max_orders)
    return time * (2.0 * (params.lam_factor * limits + trades) + cancels)


def decorrelate_of(params: Any) -> float:
    """How long the background acts between a book that has been warmed up and an episode, time at factors of 1."""
    return 1.0 / slowest_theta(params.flow) if params.decorrelate is None else float(params.decorrelate)


def warm_up_of(params: Any) -> float:
    """How long books are warmed up, time at factors of 1."""
    if params.warm_up is not None:
        return float(params.warm_up)
    if params.initial_book is not None:
        return 0.0
    flow = read_flow(params.flow)
    time = _LIFETIMES / slowest_theta(params.flow)
    return max(time, hawkes.burn_in_time(flow.base, flow.alpha, flow.beta)) if flow.excites else time


def check_agent(params: Any) -> None:
    """TypeError and ValueError for what is out of its range of what an agent can do and is paid for."""
    check_range("step_time", params.step_time, above=0.0)
    check_range("latency", params.latency, least=0.0)
    check_range("tick_size", params.tick_size, above=0.0, most=_MOST_MONEY)
    check_range("inventory_penalty", params.inventory_penalty, least=0.0, most=_MOST_MONEY)
    check_range("fee_per_lot", params.fee_per_lot, least=-_MOST_MONEY, most=_MOST_MONEY)
    for name in ("maker_fee", "taker_fee"):
        check_range(name, getattr(params, name), above=-1.0, most=1.0)
    for name, most in (
        ("step_messages", _MOST_MESSAGES),
        ("n_steps", _MOST_STEPS),
        ("max_offset", MOST_NODES // 4),
        ("max_size", MOST_LOTS),
        ("max_pending", _MOST_PENDING),
        ("quantity", 2**31),
        ("depth", _MOST_LEVELS),
    ):
        check_range(name, getattr(params, name), least=1, most=most)
    check_range("slots", params.rules.slots, least=1)
    if params.max_inventory is not None:
        check_range("max_inventory", params.max_inventory, least=1)
    check_choice("self_trade", params.rules.self_trade, ("cancel_resting", "cancel_incoming"))
    check_choice("step", params.step_by, STEPS)
    check_choice("actions", params.actions, actions.ACTIONS)
    check_choice("latency_law", params.latency_law, LATENCIES)
    check_choice("direction", params.direction, DIRECTIONS)
    check_choice("at_end", params.at_end, ENDS)
    check_choice("reward", params.reward, REWARDS)
    check_choice("levels", params.levels, views.LEVELS)
    slots = {"quotes": 2, "execution": 1, "orders": 1}[params.actions]
    if params.rules.slots < slots:
        raise ValueError(f"slots: expected at least {slots} with actions={params.actions!r}, got {params.rules.slots}")
    if params.step_by == "time" and params.latency_law == "fixed":
        under_way = math.floor(params.latency / params.step_time + 1e-9) + 1.0
        if under_way > params.max_pending:
            raise ValueError(
                f"max_pending: expected at least {under_way:g}, the actions under way with a latency of "
                f"{params.latency:g} and steps of {params.step_time:g}, got {params.max_pending}"
            )


def default_slots(kind: str) -> int:
    """Own orders that actions of a kind need: 2 for quotes."""
    return {"execution": 1, "orders": 4}.get(kind, 2)
