"""Pictures of any rollout: what the lines and bars say, and that nothing but a figure is left behind."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pictures import check_layout, is_png, labels, line, make_rollout
from toy_market import WalkVec, always_up

import sekai
from sekai.estimates import estimate_mean
from sekai.plots import canvas, plot_learning_curve, plot_returns, plot_rollout
from sekai.plots.rewards import draw_rewards

RNG_SEED = 7


def normal(mean, sd, count):
    return mean + sd * np.random.default_rng(RNG_SEED).standard_normal(count)


# -- returns -----------------------------------------------------------------------------------------------


def bars(axes):
    """Heights and edges of each distribution, by its outline."""
    drawn = [patch.get_data() for patch in axes.patches if not patch.get_fill()]
    return [(data.values, data.edges) for data in drawn]


def test_bars_are_shares_of_the_episodes():
    axes = plot_returns([1.0] * 6 + [9.0] * 2).axes[0]
    ((heights, edges),) = bars(axes)
    assert (edges[0], edges[-1]) == (1.0, 9.0)
    assert heights[0] == 0.75 and heights[-1] == 0.25 and heights.sum() == 1.0
    assert axes.get_xlabel().startswith("return of an episode") and axes.get_ylabel() == "share of episodes"


def test_the_mean_is_drawn_and_told_with_its_error():
    returns = normal(65.0, 6.6, 1000)
    axes = plot_returns(returns).axes[0]
    (mean,) = axes.lines
    assert mean.get_xdata() == pytest.approx([returns.mean()] * 2)
    error = returns.std(ddof=1) / np.sqrt(1000)
    assert labels(axes) == [
        f"mean {returns.mean():.2f} ± {error:.2f}, sd {returns.std(ddof=1):.3g}, 1,000 independent episodes"
    ]


def test_policies_share_their_bins_and_can_be_told_apart():
    named = {name: normal(10.0 * i, 1.0 + i, 200) for i, name in enumerate(["PPO", "fixed", "random"])}
    axes = plot_returns(named).axes[0]
    drawn = bars(axes)
    assert len(drawn) == 3
    for heights, edges in drawn:
        np.testing.assert_array_equal(edges, drawn[0][1])
        assert heights.sum() == pytest.approx(1.0)
    assert [label.split(":")[0] for label in labels(axes)] == ["PPO", "fixed", "random"]
    assert len({(each.get_color(), each.get_linestyle()) for each in axes.lines}) == 3
    # As fine as suits the narrowest.
    assert np.diff(drawn[0][1])[0] < 1.0


def test_a_rollout_shows_its_finished_episodes():
    with WalkVec(4) as vec:
        record = sekai.rollout(vec, always_up(vec), 10, progress=False)
    axes = plot_returns({"up": record}).axes[0]
    assert labels(axes) == ["up: mean 6 ± 0, sd 0, 12 independent episodes"]
    assert axes.lines[0].get_xdata() == pytest.approx([6.0, 6.0])


@pytest.mark.parametrize(
    ("returns", "label"),
    [
        ([3.0], "return 3, 1 episode"),
        ([3.0, 3.0], "mean 3 ± 0, sd 0, 2 independent episodes"),
        ([1e20, 1e20], "mean 1e+20 ± 0, sd 0, 2 independent episodes"),
        ([0.0, 0.0, 0.0], "mean 0 ± 0, sd 0, 3 independent episodes"),
        ([1.0, 2.0, np.nan, np.inf], "mean 1.50 ± 0.50, sd 0.707, 2 independent episodes, 2 not finite, left out"),
        (
            np.ma.array([1.0, 2.0, 9.0], mask=[False, False, True]),
            "mean 1.50 ± 0.50, sd 0.707, 2 independent episodes, 1 not finite, left out",
        ),
        ([-1e-7, 1e-7], "mean 0.00000000 ± 0.00000010, sd 1.41e-07, 2 independent episodes"),
        ([0.0, 1e9], "mean 500,000,000 ± 500,000,000, sd 7.07e+08, 2 independent episodes"),
        (np.arange(3), "mean 1.00 ± 0.58, sd 1, 3 independent episodes"),
    ],
)
def test_few_and_odd_returns(returns, label):
    figure = plot_returns(returns)
    assert labels(figure.axes[0]) == [label]
    assert bars(figure.axes[0])[0][0].sum() == pytest.approx(1.0)
    check_layout(figure)


@pytest.mark.parametrize(
    ("returns", "text"),
    [
        ([], "no episode has ended"),
        ({"a": [], "b": np.empty(0)}, "no episode has ended"),
        ({}, "no episode has ended"),
        ({"a": [], "b": [np.nan]}, "no return is finite"),
    ],
)
def test_no_returns_are_said_to_be_none(returns, text):
    figure = plot_returns(returns)
    assert [each.get_text() for each in figure.axes[0].texts] == [text]
    check_layout(figure)


def test_one_of_some_policies_may_have_no_episodes():
    axes = plot_returns({"PPO": [], "A2C": [np.inf], "fixed": [1.0, 2.0]}).axes[0]
    assert labels(axes) == [
        "PPO: no episode has ended",
        "A2C: 1 not finite, left out",
        "fixed: mean 1.50 ± 0.50, sd 0.707, 2 independent episodes",
    ]


def test_wild_returns_do_not_ask_for_more_bins_than_there_is_room_for():
    axes = plot_returns(np.append(normal(0.0, 1.0, 1000), 1e9)).axes[0]
    assert len(bars(axes)[0][0]) <= 60


def test_returns_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="plot_returns: expected real numbers, got dtype"):
        plot_returns(["a"])
    with pytest.raises(ValueError, match=r"plot_returns\('PPO'\): expected the returns of episodes \(k,\), got shape"):
        plot_returns({"PPO": np.ones((2, 2))})


# -- rewards -----------------------------------------------------------------------------------------------


def drawn_rewards(record):
    axes = canvas.new_figure(5.0, 4.0).subplots()
    draw_rewards(axes, record)
    return axes


def band(axes):
    """The lower and upper edge of the band, by their place."""
    (vertices,) = (path.vertices for path in axes.collections[0].get_paths())
    return {x: (vertices[vertices[:, 0] == x, 1].min(), vertices[vertices[:, 0] == x, 1].max()) for x in vertices[:, 0]}


def test_rewards_are_averaged_over_sub_envs():
    rewards = np.array([[1.0, 3.0], [0.0, 0.0], [-1.0, 2.0]])
    axes = drawn_rewards(make_rollout(rewards))
    x, y = line(axes, "mean over sub-envs")
    assert x.tolist() == [0.5, 1.5, 2.5] and y.tolist() == [2.0, 0.0, 0.5]
    # A sample of 1 and 3: standard deviation sqrt(2), standard error 1.
    assert band(axes)[0.5] == pytest.approx((0.0, 4.0))
    assert band(axes)[1.5] == (0.0, 0.0)


def test_a_long_rollout_is_averaged_over_intervals():
    rewards = np.random.default_rng(0).standard_normal((1001, 3))
    x, y = line(drawn_rewards(make_rollout(rewards)), "mean over sub-envs and 6 steps")
    assert len(x) == 167 and x[0] == 3.0 and x[-1] == 996 + 2.5
    assert y[0] == pytest.approx(rewards[:6].mean()) and y[-1] == pytest.approx(rewards[996:].mean())


def test_steps_that_repeat_an_end_do_not_count():
    frozen = np.array([[False, False], [True, False], [True, True]])
    axes = drawn_rewards(make_rollout(np.array([[1.0, 3.0], [0.0, 4.0], [0.0, 0.0]]), frozen=frozen))
    np.testing.assert_array_equal(line(axes, "mean over sub-envs")[1], [2.0, 4.0, np.nan])


@pytest.mark.parametrize(("shape", "reward"), [((5, 1), 1.0), ((1, 1), 1.0), ((3, 2), np.nan), ((3, 2), np.inf)])
def test_rewards_without_a_spread_or_a_mean_can_be_drawn(shape, reward):
    assert is_png(plot_rollout(make_rollout(np.full(shape, reward))))


def test_a_rollout_on_one_page():
    with WalkVec(4, noise=0.5) as vec:
        record = sekai.rollout(vec, always_up(vec), 50, seed=0, progress=False)
    figure = plot_rollout(record)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Episode returns", "Reward over time"]
    check_layout(figure)
    assert is_png(figure)


# -- learning curves ---------------------------------------------------------------------------------------


def test_a_learning_curve_of_one_run():
    axes = plot_learning_curve({"PPO": ([100, 200, 300, 400], [0, 2, 4, 9])}, window=3).axes[0]
    x, y = line(axes, "PPO")
    assert x.tolist() == [100, 200, 300, 400] and y == pytest.approx([0, 1, 2, 5])
    assert axes.lines[0].get_ydata().tolist() == [0, 2, 4, 9] and axes.lines[0].get_alpha() < 0.5
    assert "mean of the last 3" in axes.get_ylabel()


def test_a_window_forgets_what_has_left_it():
    axes = plot_learning_curve({"PPO": ([1, 2, 3, 4], [1e17, 1, 1, 1])}, window=2).axes[0]
    assert line(axes, "PPO")[1].tolist()[2:] == [1.0, 1.0]


def test_a_window_longer_than_the_curve():
    axes = plot_learning_curve({"PPO": ([1, 2], [2, 4])}, window=9).axes[0]
    assert line(axes, "PPO")[1].tolist() == [2.0, 3.0]


def test_a_learning_curve_without_a_window_is_the_returns():
    axes = plot_learning_curve({"PPO": ([1, 2, 2], [5.0, 3.0, 4.0])}).axes[0]
    assert len(axes.lines) == 1 and line(axes, "PPO")[1].tolist() == [5.0, 3.0, 4.0]
    assert axes.get_ylabel() == "return of an episode"


def test_a_learning_curve_of_some_runs():
    returns = np.array([[1.0, 3.0], [4.0, 8.0]])
    axes = plot_learning_curve({"PPO": ([10, 20], returns)}).axes[0]
    assert line(axes, "PPO: mean of 2 runs, ± 2 standard errors")[1].tolist() == [2.0, 6.0]
    assert band(axes) == {10.0: pytest.approx((0.0, 4.0)), 20.0: pytest.approx((2.0, 10.0))}
    assert line(plot_learning_curve({"one": ([1], [[2.0]])}).axes[0], "one: mean of 1 run, ± 2")[1] == [2.0]


def test_baselines_are_levels():
    figure = plot_learning_curve(
        {"PPO": ([1, 2], [0.0, 70.0]), "A2C": ([1, 2], [0.0, 60.0])}, baselines={"fixed": 62.123, "random": -3}
    )
    axes = figure.axes[0]
    assert labels(axes) == ["PPO", "A2C", "fixed: 62.12", "random: -3"]
    assert line(axes, "fixed")[1].tolist() == [62.123, 62.123]
    assert len({each.get_color() for each in axes.lines}) == 4
    check_layout(figure)


@pytest.mark.parametrize(
    ("curve", "error", "text"),
    [
        (
            ([1, 2], [1.0]),
            ValueError,
            r"expected steps \(k,\) and returns \(k,\) or \(k, R > 0\), got shapes \(2,\) and",
        ),
        (([1, 2, 3], np.ones((3, 0))), ValueError, r"got shapes \(3,\) and \(3, 0\)"),
        (([[1]], [1.0]), ValueError, "got shapes"),
        (([1, 2, 1], [1.0, 2.0, 3.0]), ValueError, "expected steps that never fall, got 1"),
        (([1, 2], [1.0, np.nan]), ValueError, "expected finite numbers"),
        (([1, 2], np.ma.array([1.0, 2.0], mask=[False, True])), ValueError, "expected finite numbers"),
        ((["a"], [1.0]), TypeError, "expected real numbers, got dtype"),
        ([1.0, 2.0, 3.0], TypeError, r"expected a pair \(steps, returns\), got list"),
        (3, TypeError, r"expected a pair \(steps, returns\), got int"),
    ],
)
def test_a_curve_of_another_kind_is_refused(curve, error, text):
    with pytest.raises(error, match=rf"^plot_learning_curve\('PPO'\): .*{text}"):
        plot_learning_curve({"PPO": curve})


@pytest.mark.parametrize(
    ("level", "error", "text"),
    [
        ("a", TypeError, "expected real numbers, got dtype"),
        ([1.0, 2.0], ValueError, r"expected one finite number, got \[1.0, 2.0\]"),
        (np.nan, ValueError, "expected one finite number, got nan"),
    ],
)
def test_a_baseline_of_another_kind_is_refused(level, error, text):
    with pytest.raises(error, match=rf"^plot_learning_curve\(baselines=\{{'fixed': ...\}}\): {text}"):
        plot_learning_curve({}, baselines={"fixed": level})


def test_curves_and_baselines_have_names():
    with pytest.raises(TypeError, match=r"plot_learning_curve\(curves\): expected a mapping from names, got tuple"):
        plot_learning_curve(([1, 2], [3.0, 4.0]))
    with pytest.raises(TypeError, match=r"plot_learning_curve\(baselines\): expected a mapping from names, got list"):
        plot_learning_curve({}, baselines=[1.0])


def test_no_curve_is_said_to_be_none():
    figure = plot_learning_curve({})
    assert [each.get_text() for each in figure.axes[0].texts] == ["no curve was given"]
    assert figure.axes[0].get_legend() is None
    check_layout(figure)


def test_a_window_has_a_return_in_it():
    with pytest.raises(ValueError, match=r"plot_learning_curve\(window\): expected at least 1, got 0"):
        plot_learning_curve({}, window=0)


# -- figures -----------------------------------------------------------------------------------------------


def test_many_lines_can_be_told_apart():
    looks = [tuple(canvas.line_of(number).values()) for number in range(24)]
    assert len(set(looks)) == 24
    for before, after in zip(looks, looks[1:], strict=False):
        assert before[0] != after[0] and before[1] != after[1]  # in black and white too


# Too long, or what Matplotlib would read as formulas, leave out, or draw in two lines; and how the legend has them.
ODD_NAMES = {
    "x" * 170: "x" * 13 + " ... " + "x" * 13,
    "a$b$_x^": "a$b$_x^",
    r"$\frac$": r"$\frac$",
    "_own": " _own",
    "a\nb": "a b",
}


def test_names_are_shown_as_they_are():
    drawn = {
        "returns": plot_returns(dict.fromkeys(ODD_NAMES, [1.0, 2.0])),
        "curves": plot_learning_curve(dict.fromkeys(ODD_NAMES, ([1, 2], [1.0, 2.0]))),
        "levels": plot_learning_curve({}, baselines=dict.fromkeys(ODD_NAMES, 1.0)),
    }
    for figure in drawn.values():
        assert [label.split(":")[0] for label in labels(figure.axes[0])] == list(ODD_NAMES.values())
        check_layout(figure)
        assert is_png(figure)


@pytest.mark.parametrize("count", [1, 5, 25, 60])
def test_axes_keep_their_size_however_many_lines_there_are(count):
    names = [f"policy number {number}" for number in range(count)]
    for figure in (
        plot_returns({name: normal(0.0, 1.0, 50) for name in names}),
        plot_learning_curve({name: ([1, 2], [3.0, 4.0]) for name in names}),
        plot_learning_curve({name: ([1, 2], [[3.0, 4.0], [5.0, 6.0]]) for name in names}),
    ):
        check_layout(figure)
        assert len(labels(figure.axes[0])) == count
        assert figure.axes[0].get_position().height * figure.get_figheight() > 3.0


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        ImportError, match=r'plots need matplotlib, pip install "\.\[plot\]" in the clone: .*matplotlib'
    ):
        plot_returns([1.0])


def test_figures_leave_no_global_state_behind():
    code = (
        "import sys, io, sekai.plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "figure = sekai.plots.plot_returns([1.0, 2.0])\n"
        "figure.savefig(io.BytesIO())\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_d3_returns_on_one_history_have_the_error_of_its_blocks():
    rewards = np.random.default_rng(0).normal(size=(100, 1)) * np.ones(200)
    ends = [(step, env) for step in range(9, 100, 10) for env in range(200)]
    history = np.arange(1, 101)[:, None] * np.ones(200, np.int64)  # all are at one place
    record = make_rollout(rewards, ends=ends, history=history)
    label = labels(plot_returns(record).axes[0])[0]
    mean, error = estimate_mean(record.episode_returns, record.episode_starts, record.episode_lengths)
    assert record.episode_starts.tolist() == [start for start in range(0, 100, 10) for _ in range(200)]
    assert label == f"mean {mean:.1f} ± {error:.1f} by blocks of history, sd 3.43, 2,000 episodes"
    short = make_rollout(rewards[:10], ends=ends[:200], history=history[:10])
    assert "(no error: short history)" in labels(plot_returns(short).axes[0])[0]
    band = labels(plot_rollout(record).axes[1])[1]
    assert band == "± 2 standard errors (independent rewards)"
    assert labels(plot_rollout(make_rollout(rewards, ends=ends)).axes[1])[1] == "± 2 standard errors"
