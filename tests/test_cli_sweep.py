"""``sekai sweep``: a line for each combination of settings, the same however shards are run."""

from __future__ import annotations

import csv
import json

import pytest

import sekai
from sekai.cli import building, main
from sekai.cli.options import parse_sweep
from sekai.registry import EnvRegistry
from sekai.vector import Randomized


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    registry = EnvRegistry()
    monkeypatch.setattr(building, "default_registry", registry)
    registry.register("Walk-v0", "toy_market:Walk", vector_entry_point="toy_market:WalkVec")
    registry.register("Trading-v0", vector_entry_point="sims.trading.simulated:make_trading")
    registry.register("Quotes-v0", vector_entry_point="sims.market_making.market:MarketMakingVecEnv")
    registry.register("Still-v0", "toy_market:Walk", vector_entry_point=frozen)
    return registry


def frozen(num_envs, **kwargs):
    return sekai.SyncVecEnv([lambda: sekai.make(sekai.EnvSpec("W-v0", "toy_market:Walk"))] * num_envs, autoreset=False)


def run(capsys, *argv):
    status = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def sweep(capsys, *argv):
    status, out, err = run(capsys, "sweep", *argv, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def refuse(capsys, *argv):
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "") and len(err.splitlines()) == 1
    return err


UP = ("--policy", "up", "--num-envs", 5, "--steps", 12)


@pytest.mark.parametrize("mode, size", [("native", 5), ("sync", 2)])
def test_a_line_for_each_combination_in_order(capsys, mode, size):
    report = sweep(capsys, "Walk-v0", "--over", "goal=2,3", "--mode", mode, *UP, "--seed", 1, "--shard-size", size)
    lines = report.pop("results")
    assert report == {
        "env": "Walk-v0",
        "mode": mode,
        "policy": "up",
        "seed": 1,
        "settings": {},
        "num_envs": 5,
        "steps": 12,
        "interrupted": False,
    }
    assert [(line["over"], line["episodes"], line["length_mean"]) for line in lines] == [
        ({"goal": 2}, 30, 2.0),
        ({"goal": 3}, 20, 3.0),
    ]
    assert [line["return_mean"] for line in lines] == [3.0, 6.0]
    assert [line["return_standard_error"] for line in lines] == [0.0, 0.0]


def test_all_combinations_of_several(capsys):
    argv = ("Quotes-v0", "--over", "volatility=1,2", "--over", "n_steps=5,10", "--num-envs", 3, "--steps", 10)
    lines = sweep(capsys, *argv, "--policy", "glft", "--set", "arrival_rate=100", "--seed", 0)["results"]
    assert [line["over"] for line in lines] == [
        {"volatility": volatility, "n_steps": n_steps} for volatility in (1, 2) for n_steps in (5, 10)
    ]
    assert [line["episodes"] for line in lines] == [6, 3, 6, 3]


@pytest.mark.parametrize("env, policy", [("Trading-v0", "momentum"), ("Quotes-v0", "glft")])
def test_it_tells_what_a_run_tells_whatever_the_shards(capsys, env, policy):
    setting = "episode_length=40" if env == "Trading-v0" else "n_steps=40"
    common = ("--policy", policy, "--num-envs", 9, "--steps", 200, "--seed", 2)
    status, out, _ = run(capsys, "run", env, *common, "--set", setting, "--json")
    expected = json.loads(out)
    for size in (4, 9):
        [line] = sweep(capsys, env, *common, "--over", setting, "--shard-size", size)["results"]
        for name in set(line) - {"over"}:
            is_number = isinstance(line[name], float)
            assert line[name] == (pytest.approx(expected[name], rel=1e-9) if is_number else expected[name]), name


@pytest.mark.parametrize(
    "text, expected",
    [
        ("volatility=1,2.5", [1, 2.5]),
        ("midprice=brownian,geometric", ["brownian", "geometric"]),
        ("midprice='brownian','a, b'", ["brownian", "a, b"]),
        ("mean_price=None,1", [None, 1]),
        ("volatility=1:2,2:3", [Randomized(1, 2), Randomized(2, 3)]),
        ("volatility=[1, 2],[3, 4]", [[1, 2], [3, 4]]),
        ("volatility=1", [1]),
    ],
)
def test_values(text, expected):
    assert parse_sweep([text]) == {text.partition("=")[0]: expected}


def test_copies_that_share_a_generator_are_one_shard(capsys):
    argv = ("sweep", "Walk-v0", "--over", "goal=2", *UP)
    assert "WalkVec, which draws from self.rng" in refuse(capsys, *argv, "--shard-size", 2)
    assert run(capsys, *argv, "--shard-size", 5)[0] == 0


def test_random_actions_differ_between_shards_and_are_repeated(capsys):
    argv = ("Walk-v0", "--over", "goal=2", "--num-envs", 10, "--steps", 50, "--seed", 3, "--shard-size", 5)
    argv = (*argv, "--mode", "sync")
    one, again = (sweep(capsys, *argv) for _ in range(2))
    half = sweep(capsys, *argv[:4], 5, *argv[5:])["results"][0]
    assert one == again
    assert one["results"][0]["episodes"] != 2 * half["episodes"]


def test_the_table_and_the_file(capsys, tmp_path):
    path = tmp_path / "sweep.csv"
    status, out, err = run(capsys, "sweep", "Walk-v0", "--over", "goal=2,20", *UP, "--csv", path)
    assert (status, err) == (0, "")
    title, *lines = out.split("\n\n")[1].splitlines()
    assert title.split("  ")[0] == "goal" and "standard error" in title
    assert lines[0].split()[:2] == ["2", "30"] and lines[1].split()[:3] == ["20", "0", "-"]
    with path.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["goal"], first["episodes"], first["return_mean"]) == ("2", "30", "3.0")
    assert (second["goal"], second["episodes"], second["return_mean"]) == ("20", "0", "")


def test_an_interrupted_sweep_prints_the_lines_that_are_whole(capsys, monkeypatch):
    from sekai.cli.sharded import ShardedRun

    inner, calls = ShardedRun.run, []

    def stop(self, settings):
        calls.append(settings)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return inner(self, settings)

    monkeypatch.setattr(ShardedRun, "run", stop)
    status, out, _ = run(capsys, "sweep", "Walk-v0", "--over", "goal=2,3", *UP, "--json")
    report = json.loads(out)
    assert status == 130 and report["interrupted"] and [line["over"] for line in report["results"]] == [{"goal": 2}]


@pytest.mark.parametrize(
    "argv, text",
    [
        (["sweep", "Walk-v0"], "--over"),
        (["sweep", "Walk-v0", "--over", "goal"], "--over: expected KEY=VALUE,VALUE,..., got 'goal'"),
        (["sweep", "Walk-v0", "--over", "goal=1", "--over", "goal=2"], "--over: 'goal' was given twice"),
        (["sweep", "Walk-v0", "--over", "goal=1", "--set", "goal=2"], "expected arguments that --set does not give"),
        (["sweep", "Walk-v0", "--over", "gaol=1"], "has no argument 'gaol'"),
        (["sweep", "Walk-v0", "--over", "num_envs=1"], "use --num-envs"),
        (["sweep", "Walk-v0", "--over", "goal=1", "--policy", "none"], "--policy: expected one of"),
        (["sweep", "Walk-v0", "--over", "goal=1", "--csv", "/nowhere/x.csv"], "No such file"),
        (["sweep", "Walk-v0", "--over", "goal=1", "--address", "auto"], "--address: expected --distributed beside it"),
        (["sweep", "Still-v0", "--over", "goal=1"], "registered with autoreset off"),
        (["run", "Walk-v0", "--address", "auto"], "--address: expected --distributed beside it"),
        (["run", "Walk-v0", "--shard-size", "4"], "--shard-size: expected --distributed beside it"),
        (["run", "Walk-v0", "--distributed", "--episodes", "4"], "--episodes: expected no --distributed beside it"),
        (["run", "Walk-v0", "--distributed", "--plot", "x.png"], "--plot: expected no --distributed beside it"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else None,
)
def test_mistakes(capsys, argv, text):
    assert text in refuse(capsys, *argv)
