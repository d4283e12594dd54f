"""The step of the quoting market over columns of N sub-envs.

Prices, cash and wealth are in one currency, inventories in units. Row ``i`` of every column belongs to sub-env ``i``;
no row looks at another. A step is a few loops over a block of rows, each of them simple enough to be vectorised: what
can be done in 32 bits (random words, fills, the normal variate) apart from the float64 state.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import bool_, float32, float64, int64
from numpy.typing import NDArray

from sekai.kernels import item_at, jit, jit_batch, maths, streams
from sekai.kernels.streams import Streams
from sims.market_making.records import AFFINE, JUMPS, Outcome, Rates, State, Terms

_INF = float32(np.inf)
#: Blocks of random words that a step draws, with and without jumps.
_TWO_BLOCKS, _ONE_BLOCK = np.uint64(2), np.uint64(1)


@jit
def fill_chance(distance: float32, intensity: float32, decay: float32, linear: bool) -> Any:
    """The probability that a quote fills within a step, f4; the linear rule's may exceed 1."""
    rate = intensity * maths.exp(-decay * distance)
    return rate if linear else -maths.expm1(-rate)


@jit(inline=False)
def read_quotes(
    actions: NDArray[float32],
    least: Any,
    bid: NDArray[float32],
    ask: NDArray[float32],
    invalid: NDArray[bool_],
) -> None:
    """Take the distances apart.

    Args:
        actions: f4 (n, 2), distances of bid and ask.
        least: f4; distances below it count as it.
        bid: f4 (at least n,), written.
        ask: f4 (at least n,), written.
        invalid: bool (n,), written: whether a distance is not finite.
    """
    flat = actions.reshape(-1)  # by one index: the compiler reads pairs of it many at a time, rows of two it does not
    for i in range(len(invalid)):
        b, a = flat[2 * i], flat[2 * i + 1]
        invalid[i] = not ((abs(b) < _INF) & (abs(a) < _INF))
        bid[i] = b if b > least else least
        ask[i] = a if a > least else least


@jit(inline=False)
def draw_words(random: Streams, drawn: Any, words: NDArray[np.uint32]) -> None:
    """Draw four words for each row, into ``words``, u4 (4, at least n), and count ``drawn`` blocks as drawn."""
    word_0, word_1, word_2, word_3 = words[0], words[1], words[2], words[3]
    for i in range(len(random.key)):
        counter = random.counter[i]
        word_0[i], word_1[i], word_2[i], word_3[i] = streams.philox(random.key[i], counter)
        random.counter[i] = counter + drawn


@jit(inline=False)
def fill_quotes(
    words: NDArray[np.uint32],
    rates: Rates,
    linear: bool,
    bid: NDArray[float32],
    ask: NDArray[float32],
    bid_hit: NDArray[float32],
    ask_hit: NDArray[float32],
    variate: NDArray[float32],
) -> None:
    """Turn words into what they decide; all arrays f4 (n,) but ``words``, u4 (4, n).

    Args:
        words: Random words.
        rates: Of ``n`` rows.
        linear: Which rule.
        bid: Distances of the bid.
        ask: Distances of the ask.
        bid_hit: Written: 1 where an order meets the bid, else 0.
        ask_hit: Written, likewise.
        variate: Written, standard normal.
    """
    # Two loops: in one, there are too few registers for all that is under way.
    word_0, word_1, word_2, word_3 = words[0], words[1], words[2], words[3]
    for i in range(len(bid)):
        intensity, decay = item_at(rates.intensity, i), item_at(rates.decay, i)
        bid_hit[i] = float32(streams.uniform_of(word_0[i]) <= fill_chance(bid[i], intensity, decay, linear))
        ask_hit[i] = float32(streams.uniform_of(word_1[i]) <= fill_chance(ask[i], intensity, decay, linear))
    for i in range(len(bid)):
        variate[i] = maths.normal(word_2[i], word_3[i])


@jit
def start_mid(rates: Rates, mid: float64, began: int, now: int, i: int) -> float:
    """The mid before a step: the initial price if the episode has just begun."""
    return item_at(rates.initial_price, i) if began == now else mid


@jit
def jump_log_factor(key: Any, counter: Any, jumps: float, mean: float, sd: float) -> float:
    """The log of the factor by which all jumps of a step move the mid.

    Given their number, a Poisson variate, it is normal with that many times the mean and the variance of one.
    """
    word_0, word_1, word_2, word_3 = streams.philox(key, counter)
    count = streams.poisson_of(streams.uniform64_of(word_0, word_1), jumps)
    return count * mean + math.sqrt(float64(count)) * sd * float64(maths.normal(word_2, word_3))


@jit(inline=False)
def move_mid(
    terms: Terms,
    rates: Rates,
    old: NDArray[float64],
    began: NDArray[int64],
    now: int,
    variate: NDArray[float32],
    key: NDArray[np.uint64],
    counter: NDArray[np.uint64],
    new: NDArray[float64],
) -> None:
    """Move the mid by one step.

    Args:
        terms: The terms.
        rates: Of ``n`` rows.
        old: f8 (n,), the mid before.
        began: i8 (n,), the count of steps at which each episode began.
        now: That count now.
        variate: f4 (at least n,), standard normal.
        key: u8 (n,), of the streams.
        counter: u8 (n,), the block before it is that of the jumps; left as it is.
        new: f8 (n,), written.
    """
    if terms.move == AFFINE:
        for i in range(len(new)):
            mid = start_mid(rates, old[i], began[i], now, i)
            step = item_at(rates.shift, i) + item_at(rates.scale, i) * float64(variate[i])
            new[i] = terms.keep * mid + step
    elif terms.move == JUMPS:
        for i in range(len(new)):
            mid = start_mid(rates, old[i], began[i], now, i)
            step = item_at(rates.shift, i) + item_at(rates.scale, i) * float64(variate[i])
            jumps = jump_log_factor(key[i], counter[i] - _ONE_BLOCK, terms.jumps, terms.jump_mean, terms.jump_sd)
            new[i] = mid * maths.exp(step + jumps)  # one factor: two may be 0 and infinite
    else:
        for i in range(len(new)):
            mid = start_mid(rates, old[i], began[i], now, i)
            new[i] = mid * maths.exp(item_at(rates.shift, i) + item_at(rates.scale, i) * float64(variate[i]))


@jit_batch(shared="terms now freezing")
def advance_market_making(
    terms: Terms,
    rates: Rates,
    random: Streams,
    actions: NDArray[float32],
    began: NDArray[int64],
    now: int,
    frozen: NDArray[bool_],
    freezing: bool,
    old: State,
    new: State,
    outcome: Outcome,
) -> None:
    """Advance every sub-env by one step.

    In this order: each side that is not at its inventory limit is quoted at its distance from the mid, and fills or
    does not; the mid moves; the clock advances; reward and observation are taken at the new mid.

    Args:
        terms: The terms.
        rates: What may differ between rows.
        random: The streams; each row draws one block, two with jumps.
        actions: f4 (N, 2), distances of bid and ask from the mid.
        began: i8 (N,), the count of steps at which each episode began; a row whose episode begins now starts with its
            initial price and nothing in hand, whatever ``old`` holds.
        now: That count now.
        frozen: bool (N,), rows that stay as they are; read only if ``freezing``.
        freezing: Whether there may be any.
        old: The state before, read only.
        new: The state after, written.
        outcome: Written.
    """
    n = len(began)
    scratch = np.empty((5, n), dtype=float32)
    bid, ask, bid_hit, ask_hit, variate = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    words = np.empty((4, n), dtype=np.uint32)
    read_quotes(actions, float32(terms.least_distance), bid, ask, outcome.invalid)
    drawn = _TWO_BLOCKS if terms.move == JUMPS else _ONE_BLOCK
    draw_words(random, drawn, words)
    if terms.linear_fills:  # outside the loop, which neither form would leave vectorised
        fill_quotes(words, rates, True, bid, ask, bid_hit, ask_hit, variate)
    else:
        fill_quotes(words, rates, False, bid, ask, bid_hit, ask_hit, variate)
    move_mid(terms, rates, old.mid, began, now, variate, random.key, random.counter, new.mid)
    for i in range(n):
        fresh = began[i] == now
        inventory = 0.0 if fresh else old.inventory[i]
        mid = start_mid(rates, old.mid[i], began[i], now, i)
        cash = 0.0 if fresh else old.cash[i]
        bought = float64(bid_hit[i]) if inventory < terms.max_inventory else 0.0
        sold = float64(ask_hit[i]) if inventory > -terms.max_inventory else 0.0
        wealth = cash + inventory * mid
        inventory += bought - sold
        cash += sold * (mid + float64(ask[i])) - bought * (mid - float64(bid[i]))
        new.inventory[i] = inventory
        new.cash[i] = cash
        after = cash + inventory * new.mid[i]
        new.wealth[i] = after
        outcome.reward[i] = after - wealth
        outcome.bid_filled[i] = bought != 0.0
        outcome.ask_filled[i] = sold != 0.0
    observe_market_making(terms, rates, new, began, now + 1, outcome.observations, outcome.truncated)
    reward_inventory(terms, new, outcome)
    if freezing:
        hold_frozen(frozen, drawn, random, old, new, outcome)


@jit(inline=False)
def reward_inventory(terms: Terms, new: State, outcome: Outcome) -> None:
    """Turn profits and losses, in ``outcome.reward``, f8 (n,), into the reward asked for.

    Args:
        terms: The terms.
        new: The state after the step, of ``n`` rows.
        outcome: Of ``n`` rows.
    """
    if terms.risk_aversion > 0.0:
        for i in range(len(outcome.reward)):
            utility = -maths.exp(-terms.risk_aversion * new.wealth[i])
            outcome.reward[i] = utility if outcome.truncated[i] else 0.0
    elif terms.running_penalty > 0.0 or terms.terminal_penalty > 0.0:
        for i in range(len(outcome.reward)):
            penalty = terms.running_penalty + (terms.terminal_penalty if outcome.truncated[i] else 0.0)
            outcome.reward[i] -= penalty * new.inventory[i] * new.inventory[i]


@jit(inline=False)
def hold_frozen(frozen: NDArray[bool_], drawn: Any, random: Streams, old: State, new: State, outcome: Outcome) -> None:
    """Take a step back in the rows that are frozen.

    Args:
        frozen: bool (n,).
        drawn: u8, the blocks that each row has drawn.
        random: The streams of ``n`` rows, moved back.
        old: The state before the step, of ``n`` rows.
        new: The state after it, written.
        outcome: Of ``n`` rows, written.
    """
    for i in range(len(frozen)):
        if frozen[i]:
            random.counter[i] -= drawn
            new.mid[i] = old.mid[i]
            new.inventory[i] = old.inventory[i]
            new.cash[i] = old.cash[i]
            new.wealth[i] = old.wealth[i]
            outcome.bid_filled[i] = False
            outcome.ask_filled[i] = False


@jit(inline=False)
def observe_market_making(
    terms: Terms,
    rates: Rates,
    state: State,
    began: NDArray[int64],
    now: int,
    observations: NDArray[float32],
    truncated: NDArray[bool_],
) -> None:
    """Write what every sub-env sees, and whose episode is over.

    Args:
        terms: The terms.
        rates: Of ``n`` rows.
        state: Of ``n`` rows.
        began: i8 (n,), the count of steps at which each episode began.
        now: That count now.
        observations: f4 (n, 2 or 4), written: inventory, the fraction of time left; price relative to the initial one,
            cash.
        truncated: bool (n,), written.
    """
    scale, n_steps = float32(terms.inventory_scale), float32(terms.n_steps)
    flat, width = observations.reshape(-1), observations.shape[1]
    end = now - terms.n_steps
    if width == 2:
        for i in range(len(began)):
            left = began[i] - end
            flat[2 * i] = float32(state.inventory[i]) / scale
            flat[2 * i + 1] = float32(np.int32(left)) / n_steps
            truncated[i] = left <= 0
    else:
        for i in range(len(began)):
            left = began[i] - end
            flat[4 * i] = float32(state.inventory[i]) / scale
            flat[4 * i + 1] = float32(np.int32(left)) / n_steps
            flat[4 * i + 2] = state.mid[i] / item_at(rates.initial_price, i) - 1.0
            flat[4 * i + 3] = state.cash[i]
            truncated[i] = left <= 0
