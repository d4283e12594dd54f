"""Pictures of a market: that lines, markers and stairs lie where prices, fills and wealth were."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from pictures import check_layout, is_png, labels, line, make_rollout, points

import sekai
from sims import plots
from sims.execution import ExecutionVecEnv
from sims.execution.plot import plot_execution
from sims.market_making import FixedSpread, MarketMakingVecEnv
from sims.market_making.plot import plot_market_making
from sims.order_book import FillChances, FillEstimate, JoinBest, LimitOrderBookVecEnv, fill_chance
from sims.order_book.plot import plot_book, plot_fill_chances, plot_fills, plot_order_book
from sims.portfolio import EqualWeight
from sims.portfolio.plot import plot_portfolio
from sims.trading import Momentum, TradingVecEnv
from sims.trading.plot import plot_trades, plot_trading

QUOTING = ("mid_price", "inventory", "wealth", "bid_filled", "ask_filled")
TRADING = ("price", "position", "wealth", "turnover", "fill_price", "units_traded")


def quoting():
    """Two sub-envs, five steps: sub-env 0 has an episode of three and two of another, sub-env 1 has all five of one."""
    mid = np.array([[101.0, 50.0], [102.0, 51.0], [100.0, 52.0], [201.0, 53.0], [202.0, 54.0]])
    distances = np.array([0.5, 0.25]) * np.arange(1, 6)[:, None, None] * np.ones((5, 2, 1))
    fills = np.zeros((5, 2), dtype=bool)
    return make_rollout(
        np.ones((5, 2)),
        ends=[(2, 0), (4, 1)],
        actions=distances,
        mid_price=mid,
        bid_filled=fills | (np.arange(10).reshape(5, 2) == 2),  # step 1 of sub-env 0
        ask_filled=fills | (np.arange(10).reshape(5, 2) % 4 == 0),  # steps 0, 2, 4 of sub-env 0
        inventory=np.array([[-1, 0], [0, 0], [-1, 0], [0, 0], [-1, 0]]),
        wealth=np.array([[1.0, 1.0], [3.0, 2.0], [-1.0, 3.0], [0.5, 4.0], [0.25, 5.0]]),
    )


# -- quotes and fills --------------------------------------------------------------------------------------


def test_quotes_lie_about_the_mid_that_the_policy_saw():
    axes = plots.plot_quotes(quoting()).axes[0]
    times, mid = line(axes, "mid")
    assert times.tolist() == [1, 2, 3] and mid.tolist() == [101, 102, 100]
    # What was asked for in step 1 was about the mid at time 1, and so on; the mid before step 0 is not known.
    times, bid = line(axes, "bid")
    assert times.tolist() == [1, 2] and bid.tolist() == [101 - 1.0, 102 - 1.5]
    assert line(axes, "ask")[1].tolist() == [101 + 0.5, 102 + 0.75]
    for name in ("bid", "mid", "ask"):
        assert next(each for each in axes.lines if each.get_label() == name).get_drawstyle() == "steps-post"


def test_fills_lie_on_their_quotes():
    axes = plots.plot_quotes(quoting()).axes[0]
    assert points(axes, "bought").tolist() == [[1.5, 100.0]]
    assert points(axes, "sold").tolist() == [[2.5, 102.75]]
    assert labels(axes) == ["ask", "mid", "bid", "bought", "sold"]


def test_a_price_at_the_start_shows_the_first_step_too():
    axes = plots.plot_quotes(quoting(), start=100.0).axes[0]
    times, bid = line(axes, "bid")
    assert times.tolist() == [0, 1, 2] and bid[0] == 99.5
    assert line(axes, "mid")[1].tolist() == [100, 101, 102, 100]
    assert points(axes, "sold").tolist() == [[0.5, 100.25], [2.5, 102.75]]


def test_d2_fills_lie_at_the_prices_they_were_made_at_also_where_quotes_were_clipped():
    record = quoting()
    mid = np.array([100.0, 101.0, 102.0, 200.0, 201.0])  # before each step
    record.infos["bid_price"] = mid[:, np.newaxis] * np.ones(2)  # clipped
    record.infos["ask_price"] = record.infos["bid_price"] + 0.75
    record.actions[..., 0] = -5.0
    axes = plots.plot_quotes(record).axes[0]
    times, bid = line(axes, "bid")
    assert times.tolist() == [0, 1, 2] and bid.tolist() == [100, 101, 102]  # the first one without a start, too
    assert line(axes, "ask")[1].tolist() == [100.75, 101.75, 102.75]
    assert points(axes, "bought").tolist() == [[1.5, 101]]
    assert points(axes, "sold").tolist() == [[0.5, 100.75], [2.5, 102.75]]


def test_other_episodes_and_sub_envs():
    axes = plots.plot_quotes(quoting(), episode=1).axes[0]
    assert line(axes, "mid")[1].tolist() == [201, 202]
    assert points(axes, "sold").tolist() == [[1.5, 201 + 5 * 0.25]]
    assert axes.get_xlabel() == "step of episode 1 of sub-env 0, which has not ended"
    assert axes.get_xlim() == (0, 2)
    axes = plots.plot_quotes(quoting(), env=-1, episode=-1).axes[0]
    assert line(axes, "mid")[1].tolist() == [50, 51, 52, 53, 54]
    assert axes.get_xlabel() == "step of episode 0 of sub-env 1"


def test_bought_and_sold_differ_in_shape_and_colour():
    axes = plots.plot_quotes(quoting(), start=100.0).axes[0]
    bought, sold = (next(each for each in axes.collections if each.get_label() == name) for name in ("bought", "sold"))
    assert not np.array_equal(bought.get_paths()[0].vertices, sold.get_paths()[0].vertices)
    assert bought.get_facecolor().tolist() != sold.get_facecolor().tolist()


# -- trades ------------------------------------------------------------------------------------------------


def trading(units_traded, position, turnover):
    """The price rises by 1 in each step, and trades are made half a unit below its end."""
    shape = (len(position), 1)
    return make_rollout(
        np.ones(shape),
        units_traded=np.reshape(units_traded, shape),
        fill_price=9.5 + np.arange(len(position)).reshape(shape),
        price=10.0 + np.arange(len(position)).reshape(shape),
        position=np.reshape(position, shape),
        turnover=np.reshape(turnover, shape),
        wealth=np.linspace(1.0, 2.0, len(position)).reshape(shape),
    )


def test_trades_are_as_large_as_what_was_traded():
    # Long; still long; short; bought back a little of what it grew to, though it fell to less after; flat.
    record = trading([0.1, 0.0, -0.2, 0.01, 0.1], [1.0, 1.0, -1.1, -1.2, 0.0], [1.0, 0.0, 2.0, 0.1, 1.2])
    axes = plot_trades(record).axes[0]
    assert line(axes, "price")[1].tolist() == [10, 11, 12, 13, 14]
    assert points(axes, "bought").tolist() == [[0.5, 9.5], [3.5, 12.5], [4.5, 13.5]]
    assert points(axes, "sold").tolist() == [[2.5, 11.5]]
    bought = next(each for each in axes.collections if each.get_label() == "bought").get_sizes()
    assert bought[1] / bought[0] == pytest.approx(0.1) and bought[2] == bought[0]


@pytest.mark.compiled
def test_d1_trades_point_where_units_went_though_the_price_moved_before_the_execution():
    # Always short: a close above the one before leaves it shorter than wanted, a gap decides what it has to trade.
    rng = np.random.default_rng(0)
    close = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, 300)))
    table = {"close": close, "open": np.append(100.0, close[:-1]) * np.exp(rng.normal(0.0, 0.02, 300))}
    with sekai.make_vec("Trading-v0", 1, prices=table, execution="open") as vec:
        short = np.zeros(1, dtype=np.int64)
        infos = (*TRADING, "bar")
        record = sekai.rollout(vec, lambda seen: short, 252, seed=0, infos=infos, progress=False)
    told = {key: column[:, 0] for key, column in record.infos.items()}
    units = told["position"] * told["wealth"] / told["price"]
    change = np.diff(units, prepend=0.0)
    assert told["units_traded"] == pytest.approx(change, abs=1e-12)
    assert told["fill_price"].tolist() == table["open"][told["bar"]].tolist()
    axes = plot_trades(record).axes[0]
    for side, steps in (("bought", change > 1e-9), ("sold", change < -1e-9)):
        assert steps.sum() > 80
        expected = np.column_stack([np.flatnonzero(steps) + 0.5, told["fill_price"][steps]])
        np.testing.assert_array_equal(points(axes, side), expected)


# -- inventory and wealth ----------------------------------------------------------------------------------


def test_inventory_is_held_until_the_next_step():
    axes = plots.plot_inventory(quoting(), start=0).axes[0]
    stairs = axes.lines[1]
    assert stairs.get_drawstyle() == "steps-post"
    assert stairs.get_xdata().tolist() == [0, 1, 2, 3] and stairs.get_ydata().tolist() == [0, -1, 0, -1]
    assert (axes.get_title(loc="left"), axes.get_ylabel()) == ("Inventory", "units")
    axes = plots.plot_inventory(trading([0.1], [0.5], [1.0]), inventory="position").axes[0]
    assert (axes.get_title(loc="left"), axes.get_ylabel()) == ("Position", "share of wealth")
    assert axes.lines[1].get_xdata().tolist() == [1]


def test_wealth_its_peak_and_its_drawdown():
    above, below = plots.plot_wealth(quoting(), start=0.0, relative=False).axes
    times, wealth = line(above, "wealth")
    assert times.tolist() == [0, 1, 2, 3] and wealth.tolist() == [0, 1, 3, -1]
    assert line(above, "peak")[1].tolist() == [0, 1, 3, 3]
    assert below.lines[0].get_ydata().tolist() == [0, 0, 0, -4]
    assert below.get_title(loc="left") == "Drawdown: 4 at the deepest, 1 steps at the longest"
    assert above.get_ylabel() == "profit and loss"
    assert above.get_xlim() == below.get_xlim() == (0, 3)
    assert below.get_xlabel() == "step of episode 0 of sub-env 0"


def test_drawdown_as_a_fraction():
    above, below = plots.plot_wealth(quoting(), episode=1).axes
    assert line(above, "wealth")[1].tolist() == [0.5, 0.25]
    assert below.lines[0].get_ydata().tolist() == [0, -0.5]
    assert below.get_title(loc="left") == "Drawdown: 50.0% at the deepest, 1 steps at the longest"
    below.figure.draw_without_rendering()
    assert below.get_yticklabels()[0].get_text().endswith("%")
    with pytest.raises(ValueError, match=r"drawdown\(wealth\): expected wealth above 0 .* give relative=False"):
        plots.plot_wealth(quoting(), start=0.0)


def test_wealth_beside_the_asset():
    record = trading([0.1, 0.0, 0.0], [1.0] * 3, [1.0, 0.0, 0.0])
    for start, first in ((None, 1.0), (5.0, 1.0)):
        above = plots.plot_wealth(record, start=start, benchmark="price").axes[0]
        times, held = line(above, "asset, held")
        assert times.tolist() == [1, 2, 3]
        assert held == pytest.approx(first * np.array([10, 11, 12]) / 10)


# -- the markets -------------------------------------------------------------------------------------------


def panels(figure):
    return [axes.get_title(loc="left").split(":")[0] for axes in figure.axes]


@pytest.mark.parametrize("num_steps", [450, 50, 1])
def test_a_rollout_of_the_quoting_market(num_steps):
    with sekai.make_vec("MarketMaking-v0", 8) as vec:
        record = sekai.rollout(vec, FixedSpread.for_env(vec), num_steps, seed=0, infos=QUOTING, progress=False)
    figure = plot_market_making(record, env=3)
    right, left = panels(figure)[:2], panels(figure)[2:]
    assert right == ["Episode returns", "Reward over time"]
    assert left == ["Price, quotes and fills", "Inventory", "Wealth", "Drawdown"]
    length = min(num_steps, 200)
    for axes in figure.axes[2:]:
        assert axes.get_xlim() == (0, length)
    assert line(figure.axes[4], "wealth")[1].tolist() == [0.0, *record.infos["wealth"][:length, 3]]
    check_layout(figure)


def test_fills_of_the_quoting_market_were_paid_for_at_the_quotes_drawn():
    infos = (*QUOTING, "cash")
    with sekai.make_vec("MarketMaking-v0", 2) as vec:
        record = sekai.rollout(vec, FixedSpread.for_env(vec), 100, seed=1, infos=infos, progress=False)
    axes = plots.plot_quotes(record, start=100.0).axes[0]
    paid, got = points(axes, "bought"), points(axes, "sold")
    assert len(paid) > 15 and len(got) > 15
    assert record.infos["cash"][-1, 0] == pytest.approx(got[:, 1].sum() - paid[:, 1].sum(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("tell_quotes", [None, True])
def test_d2_the_market_tells_the_quotes_that_stood_also_where_they_are_clipped(tell_quotes):
    clip = tell_quotes is None
    with sekai.make_vec("MarketMaking-v0", 1, clip_quotes=clip, tell_quotes=tell_quotes) as vec:
        quotes = np.array([[-0.5, 0.25]], dtype=np.float32)  # the bid is above the mid
        infos = (*QUOTING, "cash", "bid_price", "ask_price")
        record = sekai.rollout(vec, lambda seen: quotes, 100, seed=1, infos=infos, progress=False)
    told = {key: column[:, 0] for key, column in record.infos.items()}
    before = np.append(100.0, told["mid_price"][:-1])
    assert told["bid_price"] == pytest.approx(before + (0.0 if clip else 0.5))
    paid, got = (told[f"{side}_filled"] * told[f"{side}_price"] for side in ("bid", "ask"))
    assert np.diff(told["cash"], prepend=0.0) == pytest.approx(got - paid, abs=1e-9)
    axes = plots.plot_quotes(record).axes[0]
    assert line(axes, "bid")[1].tolist() == told["bid_price"].tolist()
    for side, name in (("bid", "bought"), ("ask", "sold")):
        assert points(axes, name)[:, 1].tolist() == told[f"{side}_price"][told[f"{side}_filled"]].tolist()
        assert len(points(axes, name)) > 10


@pytest.mark.parametrize(("num_steps", "actions"), [(300, "discrete"), (20, "weight"), (1, "discrete")])
def test_a_rollout_of_the_trading_market(num_steps, actions):
    with sekai.make_vec("Trading-v0", 4, actions=actions) as vec:
        policy = Momentum.for_env(vec, short=True)
        record = sekai.rollout(vec, policy, num_steps, seed=0, infos=TRADING, progress=False)
    figure = plot_trading(record)
    assert panels(figure)[2:] == ["Price and trades", "Position", "Wealth", "Drawdown"]
    check_layout(figure)


def test_a_ruined_account_can_be_drawn():
    prices = np.repeat([1.0, 3.0], 10)  # whoever is short when it triples is ruined
    with sekai.make_vec("Trading-v0", 4, prices=prices, lookback=2, episode_length=None) as vec:
        short = np.zeros(4, dtype=np.int64)
        record = sekai.rollout(vec, lambda observations: short, 40, seed=0, infos=TRADING, progress=False)
    ruined = record.terminated[tuple(record.episode_ends.T)]
    step, env = record.episode_ends[ruined][0]
    episode = np.count_nonzero(record.episode_ends[:, 1][record.episode_ends[:, 0] < step] == env)
    figure = plot_trading(record, env=env, episode=episode)
    assert "Drawdown: 100.0% at the deepest" in figure.axes[-1].get_title(loc="left")
    check_layout(figure)


def holding(price, weights):
    """One sub-env that holds two assets, or more."""
    steps = len(price)
    return make_rollout(
        np.ones((steps, 1)),
        price=np.reshape(price, (steps, 1, -1)),
        weights=np.reshape(weights, (steps, 1, -1)),
        wealth=np.linspace(1.0, 2.0, steps).reshape(steps, 1),
    )


def test_prices_and_weights_of_a_portfolio():
    record = holding([[0, 50], [10, 60], [30, 45]], [[0, 0.5], [0.25, 0.5], [0.5, -0.5]])
    figure = plot_portfolio(record, assets=["gold", "_oil"])
    assert panels(figure)[2:] == ["Prices", "Weights", "Wealth", "Drawdown"]
    prices, held = figure.axes[2:4]
    assert np.isnan(line(prices, "gold")[1][0]) and line(prices, "gold")[1][1:].tolist() == [
        1,
        3,
    ]  # from its listing on
    assert line(prices, " _oil")[1].tolist() == [1, 1.2, 0.9]
    assert [each.get_ydata().tolist() for each in held.lines[1:]] == [[0, 0.25, 0.5], [0.5, 0.5, -0.5]]
    assert [each.get_color() for each in held.lines[1:]] == [each.get_color() for each in prices.lines]
    check_layout(figure)


def test_prices_of_a_portfolio_begin_where_it_first_trades():
    record = holding([[0, 50], [10, 60], [30, 45]], np.full((3, 2), 0.5))
    record.infos["fill_price"] = np.array([[0, 40], [10, 50], [20, 60]], np.float64).reshape(3, 1, 2)
    prices = plot_portfolio(record).axes[2]
    assert line(prices, "asset 1")[0].tolist() == [0, 1, 2, 3]
    assert line(prices, "asset 1")[1].tolist() == [1, 1.25, 1.5, 1.125]
    for names in (["gold"], ["gold", "oil", "tin"]):
        with pytest.raises(ValueError, match=r"plot\(assets\): expected 2 names, one of each asset, got \['gold'"):
            plot_portfolio(record, assets=names)


def test_of_many_assets_those_are_drawn_that_are_held_most():
    weights = np.tile(np.linspace(0.0, 0.2, 10), (3, 1))
    figure = plot_portfolio(holding(np.ones((3, 10)), weights))
    assert panels(figure)[2:4] == ["Prices, 6 of 10", "Weights, 6 of 10"]
    assert [each.get_label() for each in figure.axes[2].lines] == [f"asset {k}" for k in range(4, 10)]


def test_a_rollout_of_the_portfolio_market():
    with sekai.make_vec("Portfolio-v0", 2) as vec:
        infos = ("price", "weights", "wealth")
        record = sekai.rollout(vec, EqualWeight.for_env(vec), 20, seed=0, infos=infos, progress=False)
        figure = vec.get_attr("plot_rollout")[0](record)
    assert [each.get_label() for each in figure.axes[2].lines] == ["sp500", "nasdaq"]
    check_layout(figure)
    with pytest.raises(ValueError, match="expected a row of numbers of the info 'weights' in each step"):
        plot_portfolio(make_rollout(np.ones((2, 1)), weights=np.ones((2, 1))))


@pytest.mark.parametrize("market", [MarketMakingVecEnv, TradingVecEnv])
@pytest.mark.parametrize("mode", ["native", "sync", "async", "proc"])
def test_markets_offer_their_picture_on_every_backend(market, mode):
    env_id = {MarketMakingVecEnv: "MarketMaking-v0", TradingVecEnv: "Trading-v0"}[market]
    with sekai.make_vec(env_id, 2, vectorization_mode=mode) as vec:
        assert vec.get_attr("plot_rollout") == [market.plot_rollout] * 2
    assert market.plot_rollout in (plot_market_making, plot_trading)


# -- the order book ----------------------------------------------------------------------------------------

BOOK = ("mid_price", "cash", "fees", "bought", "sold", "inventory", "wealth")


def order_book():
    """One sub-env, four steps, two levels a side: the bid is 100 ticks, its ask 102, of half a unit of money each.

    Levels of 3 and 1 lots at 100 and 98, of 2 lots at 102; then all are a tick higher. An own bid of 1 lot with 2 lots
    ahead of it rests at 100, an own ask alone at 103.
    """
    seen = np.zeros((4, 1, 18))
    seen[:, 0] = [*(2, 4), *(3, 1), *(2, 0), *(2, 0), 2, 0.2, *(2, 1, 2), *(-3, 1, 0), *(0, 1)]
    seen[3, 0, 10:13] = 0.0  # the bid has gone
    record = make_rollout(
        np.ones((4, 1)),
        actions=np.zeros((4, 1, 3)),
        mid_price=np.array([[50.5], [50.5], [51.0], [51.0]]),
        cash=np.array([[0.0], [-50.25], [1.25], [1.0]]),  # bought for 50 and a fee; sold at 51.75; both for a fee
        fees=np.array([[0.0], [0.25], [0.25], [0.25]]),
        bought=np.array([[0], [1], [0], [1]]),
        sold=np.array([[0], [0], [1], [1]]),
        inventory=np.array([[0], [1], [0], [0]]),
        wealth=np.array([[0.0], [0.25], [1.25], [1.0]]),
    )
    return dataclasses.replace(record, observations=seen, last_observations=seen[-1])


@pytest.mark.parametrize("tick_size", [0.5, np.array([0.5])])
def test_a_book_is_drawn_where_its_levels_and_own_orders_are(tick_size):
    figure = plot_book(order_book(), depth=2, tick_size=tick_size)
    axes, queue = figure.axes[:2]
    (image,) = axes.images
    # States at times 1, 2, 3; prices from 98 to 103 ticks, the half of which are money.
    assert image.get_extent() == [1.0, 4.0, 48.75, 51.75]
    shown = np.ma.filled(image.get_array(), np.nan)
    early, late = [1, np.nan, 3, np.nan, 2, np.nan], [np.nan, 1, np.nan, 3, np.nan, 2]
    np.testing.assert_array_equal(shown, np.array([early, early, late]).T)
    times, bid = line(axes, "own bid")
    assert times.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(bid, [50.0, 50.0, np.nan])
    assert line(axes, "own ask")[1].tolist() == [51.5, 51.5, 52.0]
    assert line(axes, "mid")[1].tolist() == [50.5, 50.5, 51.0]
    assert points(axes, "bought").tolist() == [[1.5, 50.0], [3.5, 51.0]]  # the price paid, and the mid for both sides
    assert points(axes, "sold").tolist() == [[2.5, 51.75], [3.5, 51.0]]
    np.testing.assert_array_equal(line(queue, "own bid")[1], [2, 2, np.nan])
    assert line(queue, "own ask")[1].tolist() == [0, 0, 0]
    check_layout(figure)


def test_a_page_of_the_order_book():
    figure = plot_order_book(order_book(), depth=2, tick_size=0.5)
    assert panels(figure)[2:6] == [
        "Depth, own orders and trades",
        "Inventory",
        "Wealth",
        "Drawdown",
    ]
    assert figure.axes[-1].get_ylabel() == "lots at a price"
    check_layout(figure)


def test_a_book_without_orders_or_of_one_step_can_be_drawn():
    empty = order_book()
    empty.observations[:, :, :16] = 0.0
    for record in (empty, order_book()):
        for plot in (plot_book, plot_order_book):
            check_layout(plot(record, depth=2, tick_size=0.5))
    short = make_rollout(np.ones((1, 1)), **{name: np.ones((1, 1)) for name in BOOK})
    short = dataclasses.replace(short, observations=order_book().observations[:1])
    check_layout(plot_book(short, depth=2, tick_size=0.5))


def test_observations_of_another_book():
    for depth in (3, 5):
        with pytest.raises(
            ValueError, match=rf"expected observations of an order book with {depth} levels .* depth=...\)"
        ):
            plot_book(order_book(), depth=depth)
    with pytest.raises(ValueError, match="expected the info 'fees' in the rollout"):
        record = order_book()
        del record.infos["fees"]
        plot_book(record, depth=2)


# -- execution ---------------------------------------------------------------------------------------------

COSTS = ("spread_cost", "temporary_cost", "permanent_cost", "transient_cost", "noise_cost")


def execution():
    """One sub-env, three steps of a sale of 100 units, of which it makes one large, none and one small."""
    told = {
        "price": [50.0, 49.0, 51.0],
        "units_left": [20.0, 20.0, 0.0],
        "units_traded": [-80.0, 0.0, -20.0],
        "fill_price": [49.5, 49.75, 48.5],
        "shortfall": [40.0, 40.0, 70.0],
        **dict.fromkeys(COSTS, [10.0, 10.0, 17.5]),
        "transient_cost": [0.0, 0.0, 0.0],
        "noise_cost": [10.0, 10.0, 17.5],
    }
    return make_rollout(np.ones((3, 1)), **{name: np.reshape(column, (3, 1)) for name, column in told.items()})


def test_a_page_of_an_execution():
    figure = plot_execution(execution())
    assert panels(figure)[2:6] == ["Price and trades", "What is left of the order", "Shortfall so far", "Slices"]
    price, left, costs, slices = figure.axes[2:6]
    assert points(price, "sold").tolist() == [[0.5, 49.5], [2.5, 48.5]] and points(price, "bought").size == 0
    sold = next(each for each in price.collections if each.get_label() == "sold").get_sizes()
    assert sold[1] / sold[0] == pytest.approx(0.25)
    assert [values.tolist() for values in line(price, "price")] == [[0.0, 1.0, 2.0, 3.0], [50.0, 50.0, 49.0, 51.0]]
    assert left.lines[-1].get_ydata().tolist() == [100.0, 20.0, 20.0, 0.0]
    assert line(costs, "all")[1].tolist() == [0.0, 40.0, 40.0, 70.0]
    assert line(costs, "noise")[1].tolist() == [0.0, 10.0, 10.0, 17.5]
    assert labels(costs) == ["spread", "temporary", "permanent", "noise", "all"]  # what there is none of is left out
    assert [bar.get_height() for bar in slices.patches] == [-80.0, 0.0, -20.0]
    check_layout(figure)


def test_a_rollout_of_the_execution_market():
    with ExecutionVecEnv(8, n_steps=6, transient_impact=1e-6) as vec:
        policy, infos = vec.policies["almgren-chriss"](vec), vec.infos
        record = sekai.rollout(sekai.VecWrapper(vec), policy, 12, seed=0, infos=infos, progress=False)
    assert is_png(plot_execution(record, env=3, episode=1))
    check_layout(plot_execution(record))
    del record.infos["fill_price"]
    with pytest.raises(ValueError, match="expected the info 'fill_price' in the rollout"):
        plot_execution(record)


def test_fill_rates_lie_beside_their_curve():
    distances = np.array([0.5, 1.5])
    rates = 2.0 * np.exp(-3.0 * distances)
    estimate = FillEstimate(np.array([1, 2]), distances, rates, 0.1 * rates, 2.0, 3.0, 0.1, 0.2, 0.0)
    figure = plot_fills(estimate)
    times, curve = line(figure.axes[0], "2 exp(-3 distance)")
    np.testing.assert_allclose(curve, 2.0 * np.exp(-3.0 * times))
    assert labels(figure.axes[0]) == ["2 exp(-3 distance)", "measured"]
    check_layout(figure)
    alone = dataclasses.replace(estimate, A=np.nan, k=np.nan)
    assert labels(plot_fills(alone).axes[0]) == ["measured"]


def test_chances_of_fills_lie_beside_the_exact_ones():
    ahead, opposite = np.array([0, 1, 2]), np.array([1, 4])
    exact = fill_chance(1.85, 0.94, 0.71, 2, 4)[:, opposite]
    figure = plot_fill_chances(FillChances(ahead, opposite, exact + 0.01, np.full((3, 2), 0.01), exact))
    assert labels(figure.axes[0]) == ["exact, 1 opposite", "exact, 4 opposite", "measured"]
    assert line(figure.axes[0], "exact, 4")[1].tolist() == exact[:, 1].tolist()
    check_layout(figure)


@pytest.mark.slow
@pytest.mark.compiled
def test_the_order_book_offers_its_picture_with_its_levels_and_ticks():
    vec = LimitOrderBookVecEnv(4, tick_size=0.5)
    record = sekai.rollout(vec, JoinBest.for_env(vec), 250, seed=0, infos=BOOK, progress=False)
    figure = vec.get_attr("plot_rollout")[0](record)
    axes = figure.axes[2]
    low, high = axes.images[0].get_extent()[2:]
    mids = record.infos["mid_price"][:199, 0]
    assert low < mids.min() and mids.max() < high and high - low < 100 * 0.5
    bids, asks = line(axes, "own bid")[1], line(axes, "own ask")[1]
    assert np.nanmax(bids - mids) < 0.0 < np.nanmin(asks - mids)
    np.testing.assert_allclose(bids[np.isfinite(bids)] % 0.5, 0.0, atol=1e-9)
    check_layout(figure)


# -- every picture -----------------------------------------------------------------------------------------

PICTURES = {
    "quotes": lambda: plots.plot_quotes(quoting(), start=100.0),
    "inventory": lambda: plots.plot_inventory(quoting()),
    "profit": lambda: plots.plot_wealth(quoting(), start=0.0, relative=False),
    "wealth": lambda: plots.plot_wealth(quoting(), episode=1),
    "trades": lambda: plot_trades(trading([0.1, 0.0, 0.0], [1.0] * 3, [1.0, 0.0, 0.0])),
    "benchmark": lambda: plots.plot_wealth(trading([0.1, 0.0, 0.0], [1.0] * 3, [1.0, 0, 0]), benchmark="price"),
    "returns": lambda: plots.plot_returns({"one": quoting(), "other": [4.0, 5.0]}),
    "learning": lambda: plots.plot_learning_curve({"PPO": ([1, 2], [3, 4])}, baselines={"fixed": 3.5}),
}


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_overlaps_and_every_axis_says_what_it_shows(name):
    figure = PICTURES[name]()
    check_layout(figure)
    assert is_png(figure)
    for axes in figure.axes:
        assert axes.get_title(loc="left") and axes.get_ylabel()
    assert figure.axes[-1].get_xlabel()


def test_a_rollout_is_left_as_it_is():
    record = quoting()
    for array in record.to_dict().values():
        array.flags.writeable = False
    plot_market_making(record)
    plot_trading(trading([0.1, 0.0, 0.0], [1.0] * 3, [1.0, 0.0, 0.0]))


def test_importing_the_pictures_does_not_import_matplotlib():
    code = (
        "import sys, sims.plots\nassert not [name for name in sys.modules if name.startswith(('matplotlib', 'numba'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- mistakes ----------------------------------------------------------------------------------------------

OF_AN_EPISODE = [
    plots.plot_quotes,
    plot_trades,
    plots.plot_inventory,
    plots.plot_wealth,
    plot_market_making,
    plot_trading,
]


@pytest.mark.parametrize("plot", OF_AN_EPISODE)
def test_an_episode_that_is_not_there(plot):
    with pytest.raises(ValueError, match=r"plot\(env\): expected an index of the 2 sub-envs in the rollout, got 2"):
        plot(quoting(), env=2)
    with pytest.raises(ValueError, match=r"plot\(episode\): expected an index of the 1 episodes of sub-env 1, got -2"):
        plot(quoting(), env=1, episode=-2)
    with pytest.raises(TypeError, match=r"plot\(episode\): expected an integer, got float"):
        plot(quoting(), episode=0.0)


@pytest.mark.parametrize("plot", OF_AN_EPISODE)
def test_an_info_that_was_not_kept(plot):
    with pytest.raises(ValueError, match=r"expected the info '.*' in the rollout, got \['x'\]; ask for it: sekai.roll"):
        plot(make_rollout(np.ones((3, 1)), x=np.ones((3, 1))))


def test_an_info_that_is_no_number():
    for column in (np.ones((3, 1, 2)), np.full((3, 1), "a"), np.full((3, 1), None)):
        with pytest.raises(
            ValueError, match=r"one number of the info 'wealth' in each step, got dtype .* and shape \("
        ):
            plots.plot_wealth(make_rollout(np.ones((3, 1)), wealth=column))


def test_actions_of_another_market():
    with pytest.raises(ValueError, match=r"plot: expected actions of shape \(2,\), got \(\)"):
        plots.plot_quotes(make_rollout(np.ones((3, 1)), mid_price=np.ones((3, 1))))


def test_the_last_episode_of_a_frozen_sub_env_is_its_only_one():
    frozen = np.array([[False], [False], [True], [True]])
    record = make_rollout(np.ones((4, 1)), ends=[(1, 0), (2, 0), (3, 0)], frozen=frozen, wealth=np.ones((4, 1)))
    assert line(plots.plot_wealth(record, episode=-1).axes[0], "wealth")[0].tolist() == [1, 2]
    with pytest.raises(ValueError, match="expected an index of the 1 episodes of sub-env 0, got 1"):
        plots.plot_wealth(record, episode=1)
