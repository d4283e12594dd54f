"""``sekai run --plot``: that the picture is of the run, as the market draws it, and what it says when it cannot be."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from row_toys import up_row
from toy_market import Walk, WalkVec

from sekai import Rollout
from sekai.cli import building, main
from sekai.cli import plot as plot_module
from sekai.plots import plot_rollout
from sekai.plots.canvas import new_figure
from sekai.registry import EnvRegistry

PNG = b"\x89PNG"
SHORT = ("--num-envs", 4, "--steps", 10)


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    registry = EnvRegistry()
    monkeypatch.setattr(building, "default_registry", registry)
    registry.register("Walk-v0", "toy_market:Walk", vector_entry_point="toy_market:WalkVec")
    registry.register("Quotes-v0", vector_entry_point="sims.market_making.market:MarketMakingVecEnv")
    registry.register("Trades-v0", vector_entry_point="sims.trading.env:TradingVecEnv")
    return registry


@pytest.fixture
def drawn(monkeypatch):
    """The rollouts that the market has been given to draw; its figures stand in for the market's."""
    drawn = []

    def plot(record):
        drawn.append((record, new_figure(2.0, 2.0)))
        return drawn[-1][1]

    for market in (Walk, WalkVec):
        monkeypatch.setattr(market, "plot_rollout", staticmethod(plot), raising=False)
    return drawn


def run(capsys, *argv):
    """Exit status, stdout and stderr of the command."""
    status = main(["run", *map(str, argv)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys, *argv):
    status, out, err = run(capsys, *argv, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_a_market_without_a_picture_gets_that_of_any_rollout(capsys, tmp_path, monkeypatch):
    figures, path = [], tmp_path / "out.png"
    monkeypatch.setattr(plot_module, "plot_rollout", lambda record: figures.append(plot_rollout(record)) or figures[0])
    status, out, err = run(capsys, "Walk-v0", *SHORT, "--plot", path)
    assert (status, err) == (0, "")
    assert "episodes" in out
    assert path.read_bytes().startswith(PNG)
    assert [axes.get_title(loc="left") for axes in figures[0].axes] == ["Episode returns", "Reward over time"]


@pytest.mark.parametrize("mode", ["native", "sync", "async"])
def test_the_picture_is_of_the_run(capsys, tmp_path, drawn, mode):
    argv = ("Walk-v0", *SHORT, "--steps", 30, "--set", "goal=4", "--seed", 5, "--mode", mode)
    expected = run_json(capsys, *argv)
    report = run_json(capsys, *argv, "--plot", tmp_path / "out.png")
    for key in ("return_mean", "return_sd", "episodes", "length_mean"):
        assert report[key] == expected[key]
    ((record, figure),) = drawn
    assert isinstance(record, Rollout) and (record.num_steps, record.num_envs) == (30, 4)
    assert len(record.episode_returns) == report["episodes"] > 0
    assert record.episode_returns.mean() == pytest.approx(report["return_mean"])
    assert list(record.infos) == ["level"]  # not what autoreset adds
    assert record.infos["level"][0].tolist() == record.rewards[0].tolist()
    assert figure.get_suptitle() == "Walk-v0, policy random, seed 5, 30 steps of 4 sub-envs"
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_what_autoreset_adds_to_a_first_step_is_not_kept(capsys, tmp_path, drawn, mode):
    argv = ("Walk-v0", *SHORT, "--policy", "up", "--set", "goal=1", "--mode", mode, "--plot", tmp_path / "out.png")
    assert run_json(capsys, *argv)["episodes"] == 40
    assert list(drawn[0][0].infos) == ["level"]


def test_a_name_in_the_title_is_no_formula(capsys, tmp_path, drawn, monkeypatch):
    monkeypatch.setattr(WalkVec, "policies", {r"$\frac$": WalkVec.policies["up"]})
    run_json(capsys, "Walk-v0", *SHORT, "--policy", r"$\frac$", "--seed", 5, "--plot", tmp_path / "out.png")
    assert drawn[0][1].get_suptitle() == r"Walk-v0, policy $\frac$, seed 5, 10 steps of 4 sub-envs"


def test_the_picture_of_a_native_market_with_noise_is_of_the_run(capsys, tmp_path, drawn):
    argv = ("Walk-v0", *SHORT, "--steps", 40, "--policy", "up", "--set", "noise=0.5", "--plot", tmp_path / "out.png")
    report = run_json(capsys, *argv)
    assert report["return_mean"] == pytest.approx(drawn[0][0].episode_returns.mean())


def test_worker_processes_hand_over_the_picture(capsys, tmp_path):
    path = tmp_path / "out.svg"
    argv = ("Walk-v0", "--num-envs", 2, "--steps", 8, "--mode", "proc", "--workers", 1, "--plot", path)
    assert run_json(capsys, *argv)["mode"] == "proc"
    assert "<svg" in path.read_text(encoding="utf-8")


def test_without_a_seed_one_is_drawn_and_told(capsys, tmp_path, drawn):
    argv = ("Walk-v0", *SHORT, "--plot", tmp_path / "out.png")
    reports = [run_json(capsys, *argv) for _ in range(2)]
    assert reports[0]["seed"] != reports[1]["seed"]
    again = run_json(capsys, "Walk-v0", *SHORT, "--seed", reports[0]["seed"])
    assert again["return_mean"] == reports[0]["return_mean"]
    assert drawn[0][0].rewards.tolist() != drawn[1][0].rewards.tolist()
    assert f"seed {reports[1]['seed']}," in drawn[1][1].get_suptitle()
    assert isinstance(run_json(capsys, "Walk-v0", *SHORT)["seed"], int)


def test_so_many_episodes_are_drawn_from_as_many_steps(capsys, tmp_path, drawn):
    argv = ("Walk-v0", "--num-envs", 4, "--episodes", 6, "--policy", "up", "--plot", tmp_path / "out.png")
    assert run_json(capsys, *argv)["steps"] == drawn[0][0].num_steps == 6


@pytest.mark.parametrize(
    ("copies", "steps", "shape"), [(4, 10, (10, 2)), (1, 10, (10, 1)), (2, 10, (10, 2)), (4, 50, (25, 1))]
)
def test_a_run_that_is_too_long_is_drawn_with_fewer_copies(capsys, tmp_path, drawn, monkeypatch, copies, steps, shape):
    monkeypatch.setattr(plot_module, "MOST_STEPS", 25)
    report = run_json(capsys, "Walk-v0", "--num-envs", copies, "--steps", steps, "--plot", tmp_path / "out.png")
    assert report["env_steps"] == copies * steps
    record, figure = drawn[0]
    assert record.rewards.shape == shape
    many = "1 sub-env" if shape[1] == 1 else f"{shape[1]} sub-envs"
    assert figure.get_suptitle().endswith(f" {shape[0]} steps of {many}")


def test_a_policy_that_remembers_begins_anew(capsys, tmp_path, drawn, monkeypatch):
    def patient(vec):
        calls = []

        def policy(observations):
            calls.append(1)
            return np.full(vec.num_envs, len(calls) % 3 == 0, dtype=np.int64)

        return policy

    monkeypatch.setattr(WalkVec, "policies", {"patient": patient})
    argv = ("Walk-v0", *SHORT, "--policy", "patient", "--set", "goal=9", "--plot", tmp_path / "out.png")
    run_json(capsys, *argv)
    assert drawn[0][0].actions[:, 0].tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("plot", [None, "picture.png", {"up": len}])
def test_a_picture_that_is_something_else_is_none(capsys, tmp_path, monkeypatch, plot):
    monkeypatch.setattr(WalkVec, "plot_rollout", plot, raising=False)
    run_json(capsys, "Walk-v0", *SHORT, "--plot", tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)


def test_a_policy_of_one_row_is_drawn(capsys, tmp_path, drawn, monkeypatch):
    monkeypatch.setattr(WalkVec, "policies", {"rows": lambda vec: up_row})
    run_json(capsys, "Walk-v0", *SHORT, "--policy", "rows", "--set", "goal=3", "--plot", tmp_path / "out.png")
    ((record, _),) = drawn
    assert record.actions[:, 0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("env_id", "policy", "titles"),
    [
        ("Quotes-v0", "glft", "Price, quotes and fills|Inventory|Wealth|Drawdown: .*"),
        ("Trades-v0", "momentum", "Price and trades|Position|Wealth|Drawdown: .*"),
        ("Trades-v0", "random", "Price and trades|Position|Wealth|Drawdown: .*"),
    ],
)
def test_the_markets_of_sims_draw_themselves(capsys, tmp_path, monkeypatch, env_id, policy, titles):
    from matplotlib.figure import Figure

    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **kwargs: figures.append(self) or save(self, *args))
    run_json(capsys, env_id, "--num-envs", 3, "--steps", 60, "--policy", policy, "--plot", tmp_path / "out.png")
    found = "|".join(axes.get_title(loc="left") for axes in figures[0].axes[2:])
    assert re.fullmatch(titles.replace("|", r"\|"), found)
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)


# -- what may go wrong -------------------------------------------------------------------------------------


@pytest.fixture
def no_run(monkeypatch):
    """A market whose being built fails the test."""
    monkeypatch.setattr(building, "build_vec_env", lambda *args: pytest.fail("something was run"))


def refuse(capsys, *argv):
    """The one line on stderr with which the command is refused."""
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize("name", ["out", "out.xyz", "png", ".png", "", "out.pgf"])
def test_a_file_whose_ending_is_no_picture_s_is_refused_at_once(capsys, tmp_path, monkeypatch, no_run, name):
    monkeypatch.chdir(tmp_path)
    err = refuse(capsys, "Walk-v0", "--plot", name)
    assert "--plot: expected a file that ends in " in err and ".png" in err and f"got {name!r}" in err


def test_a_folder_that_is_not_there_is_refused_at_once(capsys, tmp_path, no_run):
    assert "--plot: expected a file in a folder that exists, got" in refuse(
        capsys, "Walk-v0", "--plot", tmp_path / "nowhere" / "out.png"
    )


def test_without_matplotlib_the_extra_is_named_at_once(capsys, tmp_path, monkeypatch, no_run):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert 'pip install ".[plot]" in the clone' in refuse(capsys, "Walk-v0", "--plot", tmp_path / "out.png")


def test_a_file_that_cannot_be_written_is_told_after_the_statistics(capsys, tmp_path):
    (tmp_path / "out.png").mkdir()
    status, out, err = run(capsys, "Walk-v0", *SHORT, "--plot", tmp_path / "out.png")
    assert status == 2
    assert "episodes" in out
    assert err.startswith("sekai: error: ") and "Is a directory" in err and len(err.splitlines()) == 1


def test_after_ctrl_c_nothing_is_drawn(capsys, tmp_path, drawn):
    status, out, err = run(capsys, "Walk-v0", "--policy", "interrupted", "--plot", tmp_path / "out.png")
    assert (status, err) == (130, "")
    assert "interrupted" in out
    assert drawn == [] and not (tmp_path / "out.png").exists()


def test_an_error_of_the_market_s_picture_is_shown_whole(capsys, tmp_path, monkeypatch):
    def plot(record):
        raise ValueError("a bug of the picture")

    monkeypatch.setattr(WalkVec, "plot_rollout", staticmethod(plot), raising=False)
    with pytest.raises(ValueError, match="a bug of the picture"):
        run(capsys, "Walk-v0", *SHORT, "--plot", tmp_path / "out.png")


def test_what_is_drawn_from_is_closed(capsys, tmp_path, drawn, monkeypatch):
    closed = []
    monkeypatch.setattr(WalkVec, "close", lambda self: closed.append(self))
    run(capsys, "Walk-v0", *SHORT, "--plot", tmp_path / "out.png")
    assert len(closed) == 2


def test_the_manual_explains_it(capsys):
    with_help = run(capsys, "--help")[1]
    assert "--plot FILE" in with_help and ".[plot]" in with_help
