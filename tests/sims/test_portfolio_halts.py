"""Assets that pause: a position stays, others trade around it, and what it is worth shows when it trades again."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_portfolio_kernel import ASSETS, BARS, make_env, make_panel

from sekai.kernels import jit
from sims.data import PricePanel
from sims.portfolio import BuyAndHold
from sims.portfolio.costs import share_wealth

NAN = float("nan")
EXECUTIONS = ("open", "close")


def flat_panel(*, opens=None, **missing):
    """All at 100, but for what ``b`` and the like do: a dict of slices and prices."""
    close = np.full((BARS, ASSETS), 100.0)
    for name, changes in missing.items():
        for where, price in changes.items():
            close[slice(*where), "abc".index(name)] = price
    return PricePanel(close, ["a", "b", "c"], close if opens is None else opens)


def play(env, rows, start):
    """The env after each of some steps from a bar."""
    env.reset(options={"start": start})
    for row in rows:
        env.step(np.tile(np.array(row, np.float32), (env.num_envs, 1)))
        yield env


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_wealth_over_a_halt_shows_the_fall_at_reopening(execution):
    panel = flat_panel(b={(12, 15): NAN, (15, None): 10.0})
    env = make_env(1, panel, execution=execution, shorts=True, max_leverage=2.0, transaction_cost=0.0)
    wealth = [float(each.wealth[0]) for each in play(env, [[0.5, 0.5, 0.0]] * 8, 8)]
    np.testing.assert_allclose(wealth, [1.0] * 6 + [0.55] * 2)


@pytest.mark.form
def test_what_is_held_is_held_through_halts():
    close = make_panel(0.02, seed=7).close.copy()
    for k in range(ASSETS):
        close[12 + 6 * k : 14 + 6 * k, k] = np.nan
    env = make_env(2, PricePanel(close), transaction_cost=0.01)
    env.set_attr("episode_length", 25)
    policy, seen = BuyAndHold.for_env(env), env.reset(options={"start": 8}).observations
    units = env.units
    for step in range(25):
        result = env.step(policy(seen))
        seen = result.observations
        units = env.units if step == 0 else units
        np.testing.assert_allclose(env.units, units, rtol=1e-5)
        assert step == 0 or result.infos.columns["turnover"].max() < 1e-6
    assert (np.abs(result.infos.columns["cash"]) < 1e-5).all()


def test_others_are_traded_around_what_does_not_trade():
    panel = flat_panel(b={(12, 15): NAN})
    env = make_env(1, panel, execution="close", shorts=True, max_leverage=2.0, transaction_cost=0.01)
    rows = [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.5, -0.5, -0.5], [1.8, 0.0, 0.6], [0.0, 0.0, 0.0]]
    held, costs = [], []
    for each in play(env, rows, 10):
        held.append(each.units[0] * 100.0)
        costs.append(1.0 - float(each.wealth[0]))
    bought = 1.0 / 1.01
    np.testing.assert_allclose(held[0], [0.0, bought, 0.0])
    np.testing.assert_allclose(held[1], np.array([1.0, 1.0, 0.0]) * (1.0 - costs[1]))  # after bar 11 it still trades
    b = held[1][1]
    for row in (2, 3):  # as much of the others as twice the wealth leaves
        assert held[row][1] == b
        np.testing.assert_allclose(np.abs(held[row]).sum(), 2.0 * (1.0 - costs[row]))
    np.testing.assert_allclose(held[2][[0, 2]] / held[2][0], [1.0, -1.0 / 3.0])
    np.testing.assert_allclose(held[3][[0, 2]] / held[3][0], [1.0, 1.0 / 3.0])
    np.testing.assert_allclose(held[4], [0.0, b, 0.0], atol=1e-15)  # after bar 14 it is still missing


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_units_traded_tell_all_trades(execution):
    panel = flat_panel(b={(12, 14): NAN}, c={(16, None): NAN})
    env = make_env(1, panel, execution=execution, shorts=True, max_leverage=2.0, transaction_cost=0.01)
    env.reset(options={"start": 9})
    units = np.zeros(ASSETS)
    for _ in range(9):
        units += env.step(np.array([[0.3, 0.3, 0.3]], np.float32)).infos.columns["units_traded"][0]
        np.testing.assert_allclose(env.units[0], units, atol=1e-15)
    assert units[2] == pytest.approx(0.0, abs=1e-15) and units[1] > 0.0


def test_what_opens_next_does_not_show_in_the_weights_of_others():
    full, asked = flat_panel(), np.array([[1.0, 1.0, 0.0]], np.float32)
    halted, gone = flat_panel(b={(11, 12): NAN}), flat_panel(b={(11, None): NAN})
    for panel in (full, halted, gone):
        close = panel.close.copy()
        close[0, 2] = np.nan  # so that all are of the form with gaps
        env = make_env(1, PricePanel(close, None, close), execution="open", transaction_cost=0.0)
        env.reset(options={"start": 10})
        env.step(asked)
        assert env.units[0, 0] == pytest.approx(0.005)


solve = jit(share_wealth.py_func) if hasattr(share_wealth, "py_func") else share_wealth
pairs = st.lists(st.tuples(st.floats(-3.0, 3.0), st.floats(-1.0, 1.0)), min_size=1, max_size=4)


@given(pairs, st.floats(0.0, 0.3), st.floats(0.01, 10.0), st.floats(0.5, 3.0), st.floats(0.01, 6.0))
@settings(max_examples=150, deadline=None)
def test_the_wealth_left_beside_fixed_positions_solves_its_equation(pairs, rate, above, most, fixed):
    held, asked = (np.array([column], dtype=np.float64) for column in zip(*pairs, strict=True))
    asked *= min(1.0, most / max(float(np.abs(asked).sum()), 1e-9))
    wealth, weights = rate * float(np.abs(held).sum()) + above, asked.copy()
    base, traded = solve(wealth, fixed, held, weights, 0, rate, most)
    left, positions = wealth - rate * traded, weights[0] * base
    scale = 1e-12 * (wealth + fixed + float(np.abs(held).sum())) * max(1.0, most)
    # In exact numbers, of the positions that follow from what is left.
    gross = sum(Fraction(float(abs(w))) for w in asked[0])
    room = Fraction(left)
    if gross > 0:
        room = min(room, max((Fraction(most) * Fraction(left) - Fraction(fixed)) / gross, Fraction(0)))
    np.testing.assert_allclose(positions, [float(Fraction(float(w)) * room) for w in asked[0]], atol=scale)
    paid = sum(abs(Fraction(float(w)) * room - Fraction(float(u))) for w, u in zip(asked[0], held[0], strict=True))
    assert float(abs(Fraction(left) + Fraction(rate) * paid - Fraction(wealth))) < scale
    assert left > 0.0 and (gross == 0 or np.abs(positions).sum() + fixed <= max(most * left, fixed) + scale)
