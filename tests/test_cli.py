from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import toy_market
from masked_envs import Corridor, CorridorVec
from toy_market import WalkVec

import sekai
from sekai.cli import building, listing, main
from sekai.cli import run as run_module
from sekai.cli.common import CommandError
from sekai.cli.options import parse_settings
from sekai.cli.rollout import EpisodeLog
from sekai.estimates import estimate_mean
from sekai.registry import EnvRegistry
from sekai.spaces import Box
from sekai.vector import Randomized

ROOT = Path(__file__).parents[1]
WALK, WALK_VEC = "toy_market:Walk", "toy_market:WalkVec"


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """What the command sees: Walk-v0 in both forms, OnlyEnv-v0 without a native one."""
    registry = EnvRegistry()
    for module in (building, listing):
        monkeypatch.setattr(module, "default_registry", registry)
    registry.register("Walk-v0", WALK, vector_entry_point=WALK_VEC)
    registry.register("OnlyEnv-v0", WALK)
    return registry


def run(capsys, *argv):
    """Exit status, stdout and stderr of the command."""
    status = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys, *argv):
    status, out, err = run(capsys, *argv, "--json")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 1
    return json.loads(out)


def refuse(capsys, *argv):
    """The one line on stderr with which the command is refused."""
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    return err


# -- run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["native", "sync", "async", "proc"])
def test_run_reports_every_episode_that_ended(capsys, mode):
    # Three steps up, with rewards 1, 2, 3: every episode returns 6 after 3 steps. 10 steps hold 3 of them each.
    report = run_json(
        capsys, "run", "Walk-v0", "--num-envs", 4, "--steps", 10, "--policy", "up", "--mode", mode, "--seed", 1
    )
    speed, first = report.pop("env_steps_per_second"), report.pop("first_step_seconds")
    assert speed > 0 and first > 0
    assert report == {
        "env": "Walk-v0",
        "mode": mode,
        "policy": "up",
        "seed": 1,
        "settings": {},
        "num_envs": 4,
        "steps": 10,
        "env_steps": 40,
        "episodes": 12,
        "return_mean": 6.0,
        "return_sd": 0.0,
        "return_standard_error": 0.0,
        "return_standard_error_by": "independent episodes",
        "length_mean": 3.0,
        "terminated_share": 1.0,
        "truncated_share": 0.0,
        "interrupted": False,
    }


def test_run_prints_a_table(capsys):
    status, out, err = run(
        capsys, "run", "Walk-v0", "--num-envs", 4, "--steps", 10, "--policy", "up", "--set", "goal=2"
    )
    assert (status, err) == (0, "")
    rows = {line[:12].strip(): line[12:].strip() for line in out.splitlines()}
    speed = rows.pop("env-steps/s")
    assert "first two steps, which may compile, left out" in speed
    assert int(rows.pop("seed")) >= 0  # drawn, since none was given
    assert float(speed.split()[0].replace(",", "")) > 0
    assert rows == {
        "env": "Walk-v0",
        "mode": "native",
        "policy": "up",
        "settings": "goal=2",
        "num_envs": "4",
        "steps": "10 (40 env-steps)",
        "episodes": "20",
        "return, mean": "3 (standard error 0, of independent episodes)",
        "return, sd": "0",
        "length, mean": "2",
        "terminated": "100.0%",
        "truncated": "0.0%",
    }


def test_the_policy_sees_the_latest_observations(capsys):
    argv = ("run", "Walk-v0", "--num-envs", 2, "--steps", 20, "--policy", "up-to-two", "--set")
    assert run_json(capsys, *argv, "goal=3")["episodes"] == 0
    assert run_json(capsys, *argv, "goal=2")["episodes"] == 20


def test_run_uses_the_modes_make_vec_would(capsys):
    short = ("--num-envs", 2, "--steps", 1)
    assert run_json(capsys, "run", "Walk-v0", *short)["mode"] == "native"
    assert run_json(capsys, "run", "OnlyEnv-v0", *short)["mode"] == "sync"


def test_run_defaults_to_many_copies_and_steps(capsys):
    report = run_json(capsys, "run", "Walk-v0")
    assert (report["num_envs"], report["steps"], report["policy"]) == (1024, 1000, "random")


def test_statistics_agree_with_those_of_the_episodes_themselves(capsys, registry):
    arguments = {"noise": 0.5, "goal": 4.0, "max_episode_steps": 6}
    settings = [word for key, value in arguments.items() for word in ("--set", f"{key}={value}")]
    report = run_json(
        capsys, "run", "Walk-v0", "--num-envs", 5, "--steps", 40, "--policy", "up", "--seed", 3, *settings
    )
    assert report["settings"] == arguments
    vec = registry.make_vec("Walk-v0", 5, **arguments)
    vec.reset(seed=3)
    returns, episodes = np.zeros(5), []
    for _ in range(40):
        result = vec.step(np.ones(5, dtype=np.int64))
        returns += result.rewards
        for i in np.flatnonzero(result.dones):
            episodes.append((returns[i], result.infos[i]["final_info"]["elapsed_steps"], result.truncated[i]))
            returns[i] = 0.0
    totals, lengths, truncated = map(np.array, zip(*episodes, strict=True))
    assert report["episodes"] == len(episodes) > 20
    assert report["return_mean"] == pytest.approx(totals.mean())
    assert report["return_sd"] == pytest.approx(totals.std(ddof=1))
    assert report["return_standard_error"] == pytest.approx(totals.std(ddof=1) / np.sqrt(len(episodes)))
    assert report["length_mean"] == pytest.approx(lengths.mean())
    assert report["truncated_share"] == pytest.approx(truncated.mean())
    assert 0 < truncated.mean() < 1


def test_episodes_counts_exactly_the_first_that_end(capsys):
    report = run_json(capsys, "run", "Walk-v0", "--num-envs", 4, "--episodes", 6, "--policy", "up")
    assert (report["episodes"], report["steps"]) == (6, 6)  # 4 end at step 3, 4 more at step 6


def test_the_log_keeps_the_first_episodes_in_the_order_of_step_and_sub_env():
    log = EpisodeLog(3, limit=3)
    no = np.zeros(3, dtype=bool)
    told = [{}] * 3
    assert log.add(np.array([1.0, 10.0, 100.0]), np.array([False, True, False]), no, told) == 1
    ended, cut = np.array([True, False, True]), np.array([True, False, False])
    assert log.add(np.array([2.0, 20.0, 200.0]), ended, cut, told) == 2
    assert log.add(np.array([4.0, 40.0, 400.0]), ~no, no, told) == 3
    assert log.count == 6
    summary = log.summary()
    assert summary["episodes"] == 3
    assert summary["return_mean"] == pytest.approx((10 + 3 + 300) / 3)
    assert summary["length_mean"] == pytest.approx((1 + 2 + 2) / 3)
    assert (summary["terminated_share"], summary["truncated_share"]) == (1.0, pytest.approx(1 / 3))


def test_an_episode_without_the_clock_is_on_no_history():
    log = EpisodeLog(2, clock="bar")
    no = np.zeros(2, dtype=bool)
    log.add(np.array([1.0, 2.0]), ~no, no, [{"bar": 1}, {"bar": 50}])
    assert log.summary()["return_standard_error_by"] == "blocks of the history"
    log.add(np.array([3.0, 4.0]), ~no, no, [{"bar": 2}, {}])
    summary = log.summary()
    assert summary["return_standard_error_by"] == "independent episodes"
    assert summary["return_standard_error"] == pytest.approx(np.sqrt(5 / 3) / 2)


class WindowsVec(sekai.NativeVecEnv):
    """Episodes are windows of 20 steps of one history of 400 rewards."""

    history_clock = "bar"
    rewards = np.random.default_rng(5).normal(size=400)

    def __init__(self, num_envs, **kwargs):
        space = Box(-9, 9, (1,), np.float64)
        super().__init__(num_envs, space, sekai.Discrete(2), max_episode_steps=20, **kwargs)
        self.bar = np.zeros(num_envs, np.int64)

    def _reset_envs(self, indices, options):
        self.bar[indices] = self.rng.integers(0, 380, len(indices))

    def _observe(self):
        return np.zeros((self.num_envs, 1))

    def _step(self, actions):
        self.bar += 1
        no = np.zeros(self.num_envs, bool)
        return self.rewards[self.bar - 1], no, no.copy(), {"bar": self.bar.copy()}


def test_d3_the_error_of_windows_of_one_history_is_by_its_blocks(capsys, registry):
    registry.register("Windows-v0", vector_entry_point=WindowsVec)
    argv = ("run", "Windows-v0", "--num-envs", 50, "--steps", 205, "--seed", 4)
    report = run_json(capsys, *argv)
    record = sekai.rollout(WindowsVec(50), lambda seen: np.zeros(50, np.int64), 205, seed=4, progress=False)
    assert record.episode_lengths.tolist() == [20] * 500 and record.infos == {}
    sums = np.append(0.0, np.cumsum(WindowsVec.rewards))
    starts = record.episode_starts
    assert record.episode_returns == pytest.approx(sums[starts + 20] - sums[starts])
    mean, error = estimate_mean(record.episode_returns, starts, record.episode_lengths)
    assert (report["return_mean"], report["return_standard_error"]) == pytest.approx((mean, error), rel=1e-12)
    assert report["return_standard_error_by"] == "blocks of the history"
    assert error > 3.0 * report["return_sd"] / np.sqrt(500)
    assert f"(standard error {error:.2g}, by blocks of the history)" in run(capsys, *argv)[1]


def test_d7_without_an_episode_there_are_dashes_and_a_word(capsys):
    out = run(capsys, "run", "Walk-v0", "--num-envs", 2, "--steps", 1, "--policy", "up")[1]
    assert "nan" not in out
    rows = {line[:12].strip(): line[12:].strip() for line in out.splitlines()}
    assert rows["episodes"] == "none has ended; give more --steps"
    assert [rows[name] for name in ("return, mean", "return, sd", "length, mean", "terminated")] == ["-"] * 4
    assert rows["env-steps/s"].startswith("- (first two steps")


def test_no_episode_is_null_in_json(capsys):
    argv = ("run", "Walk-v0", "--num-envs", 2, "--steps", 1, "--policy", "up")
    report = run_json(capsys, *argv)
    assert report["episodes"] == 0
    for key in ("return_mean", "return_sd", "return_standard_error", "length_mean", "terminated_share"):
        assert report[key] is None
    assert report["env_steps_per_second"] is None  # the only step is the one left out


def test_one_episode_has_a_mean_but_no_spread(capsys):
    report = run_json(capsys, "run", "Walk-v0", "--num-envs", 1, "--steps", 3, "--policy", "up")
    assert (report["episodes"], report["return_mean"]) == (1, 6.0)
    assert report["return_sd"] is None and report["return_standard_error"] is None


def test_a_seed_repeats_the_run_random_actions_included(capsys):
    argv = ("run", "Walk-v0", "--num-envs", 8, "--steps", 30, "--set", "noise=1.0", "--seed")
    means = [run_json(capsys, *argv, seed)["return_mean"] for seed in (5, 5, 6)]
    assert means[0] == means[1] != means[2]


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_random_actions_are_such_as_the_masks_allow(capsys, registry, monkeypatch, mode):
    """The env refuses others, and for the native form one that holds them has to raise nothing."""

    class Strict(CorridorVec):
        def _step(self, actions):
            assert self._action_mask()[np.arange(self.num_envs), actions].all()
            return super()._step(actions)

    monkeypatch.setattr("masked_envs.CorridorVec", Strict)
    registry.register("Corridor-v0", "masked_envs:Corridor", vector_entry_point="masked_envs:CorridorVec")
    report = run_json(capsys, "run", "Corridor-v0", "--num-envs", 8, "--steps", 50, "--seed", 3, "--mode", mode)
    assert report["env_steps"] == 400
    if mode == "sync":
        report = run_json(capsys, "bench", "Corridor-v0", "--num-envs", 8, "--seconds", 0.01, "--modes", mode)
        assert [cell["num_envs"] for cell in report["cells"]] == [8]


class Stuck(Corridor):
    """Leaves nothing after two steps."""

    def action_mask(self):
        return [0, 0, 0] if self.k == 2 else super().action_mask()


class StuckVec(CorridorVec):
    def _action_mask(self):
        return super()._action_mask() & (self.elapsed_steps + np.arange(self.num_envs) < 3)[:, None]


@pytest.mark.parametrize(("mode", "row"), [("native", 1), ("sync", 0)])
def test_a_mask_that_leaves_nothing_is_told_in_one_line(capsys, registry, mode, row):
    registry.register("Stuck-v0", f"{__name__}:Stuck", vector_entry_point=f"{__name__}:StuckVec")
    found = refuse(capsys, "run", "Stuck-v0", "--num-envs", 2, "--steps", 50, "--seed", 3, "--mode", mode)
    expected = "action_mask(): expected at least one element to be left, got none in sub-env"
    assert found == f"sekai: error: Stuck-v0, --policy random, step 3: {expected} {row}\n"


def test_set_takes_python_literals_and_else_text(capsys):
    report = run_json(
        capsys,
        *("run", "Walk-v0", "--num-envs", 1, "--steps", 1),
        *("--set", "shift=[1, 2.5, None]", "--set", "goal=1e3", "--set", "start=-2"),
    )
    assert report["settings"] == {"shift": [1, 2.5, None], "goal": 1000.0, "start": -2}
    for text in ("data/a=b.csv", "plain", "1 +", ""):
        report = run_json(capsys, "run", "Walk-v0", "--num-envs", 1, "--steps", 1, "--set", f"shift={text}")
        assert report["settings"] == {"shift": text}


def test_d6_two_numbers_are_a_range_to_draw_from():
    given = ["a=1:3", "b=-0.5:1e-3", "c='1:3'", "d=09:30", "e=data:x.csv", "f=a:1", "g=:3", "h={1: 3}", "i=1:2:3"]
    assert parse_settings(given) == {
        **{"a": Randomized(1.0, 3.0), "b": Randomized(-0.5, 0.001), "c": "1:3", "d": "09:30", "e": "data:x.csv"},
        **{"f": "a:1", "g": ":3", "h": {1: 3}, "i": "1:2:3"},
    }
    with pytest.raises(
        CommandError, match=r"--set: a=3:1: Randomized\(low, high\): expected finite low <= high, got 3"
    ):
        parse_settings(["a=3:1"])


def test_a_setting_that_json_lacks_is_written_as_text(capsys):
    report = run_json(capsys, "run", "Walk-v0", "--num-envs", 1, "--steps", 1, "--set", "shift={1}")
    assert report["settings"] == {"shift": "{1}"}


def test_ctrl_c_prints_what_was_measured_so_far(capsys):
    argv = ("run", "Walk-v0", "--num-envs", 2, "--steps", 100, "--policy", "interrupted")
    status, out, err = run(capsys, *argv)
    assert (status, err) == (130, "")
    assert "3 (6 env-steps), interrupted" in out
    status, out, _ = run(capsys, *argv, "--json")
    report = json.loads(out)
    assert status == 130
    assert (report["steps"], report["episodes"], report["interrupted"]) == (3, 2, True)


def test_ctrl_c_before_anything_was_measured_exits_alike(capsys, monkeypatch, registry):
    def build(num_envs):
        raise KeyboardInterrupt

    registry.register("Slow-v0", vector_entry_point=build)
    assert run(capsys, "run", "Slow-v0") == (130, "", "")


def test_the_env_is_closed_whatever_happens(capsys, monkeypatch):
    closed = []
    monkeypatch.setattr(WalkVec, "close", lambda self: closed.append(self))
    run(capsys, "run", "Walk-v0", "--steps", 1)
    run(capsys, "run", "Walk-v0", "--steps", 1, "--policy", "nope")
    run(capsys, "info", "Walk-v0")
    assert len(closed) == 3


def test_an_error_inside_the_env_is_shown_whole(capsys, monkeypatch):
    def broken(self, actions):
        raise ValueError("a bug of the market")

    monkeypatch.setattr(WalkVec, "_step", broken)
    with pytest.raises(ValueError, match="a bug of the market"):
        main(["run", "Walk-v0"])


def test_a_progress_bar_is_drawn_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    _, out, err = run(capsys, "run", "Walk-v0", "--num-envs", 2, "--steps", 9, "--policy", "up")
    assert "/9" in err and "step" in err
    assert "/9" not in out
    _, _, err = run(capsys, "run", "Walk-v0", "--num-envs", 2, "--episodes", 8, "--policy", "up")
    assert "/8" in err and "episode" in err


def test_d7_a_check_shows_its_runs_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    status, out, err = run(capsys, "check", "Walk-v0", "--steps", 5)
    assert status == 0 and "no problems found" in out
    assert "run" in err and "run" not in out


def test_d7_info_shows_every_part_of_a_dict_space(capsys, registry):
    wide = Box(-np.arange(60.0), np.arange(60.0), dtype=np.float64)
    parts = {f"part_{k}": wide if k == 3 else Box(-1.0, 1.0, (k,), np.float64) for k in range(1, 9)}
    space = sekai.Dict({**parts, "inner": sekai.Tuple([sekai.Discrete(7), sekai.Dict({"deep": sekai.Discrete(9)})])})

    class Wide(WindowsVec):
        def __init__(self, num_envs):
            sekai.NativeVecEnv.__init__(self, num_envs, space, sekai.Discrete(2))

    registry.register("Wide-v0", vector_entry_point=Wide)
    out = " ".join(run(capsys, "info", "Wide-v0")[1].split())
    for name, part in parts.items():
        if name != "part_3":
            assert f"{name!r}: {part!r}" in out
    assert "'part_3': Box(" in out and "'inner': Tuple(Discrete(7), Dict({'deep': Discrete(9)}))" in out
    assert run_json(capsys, "info", "Wide-v0")["observation_space"] == repr(space)


def test_without_tqdm_a_terminal_shows_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    status, _, err = run(capsys, "run", "Walk-v0", "--num-envs", 2, "--steps", 9)
    assert (status, err) == (0, "")


# -- mistakes of the user ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("run", "Wakl-v0"), "sekai: error: no environment is registered as 'Wakl-v0'; did you mean 'Walk-v0'"),
        (("run", "Walk v0"), "environment id: expected the form"),
        (("info", "Walk-v7"), "did you mean 'Walk-v0'"),
        (("run", "Walk-v0", "--set", "goal"), "--set: expected KEY=VALUE, got 'goal'"),
        (("run", "Walk-v0", "--set", "=3"), "--set: expected KEY=VALUE, got '=3'"),
        (("run", "Walk-v0", "--set", "go-al=3"), "--set: expected KEY=VALUE"),
        (("run", "Walk-v0", "--set", "goal=3", "--set", "goal=4"), "--set: 'goal' was given twice"),
        (("run", "Walk-v0", "--set", "num_envs=3"), "--set: 'num_envs' cannot be set: use --num-envs"),
        (("run", "Walk-v0", "--set", "autoreset=False"), "--set: 'autoreset' cannot be set"),
        (
            ("run", "Walk-v0", "--set", "gaol=3"),
            "--set: Walk-v0 has no argument 'gaol' (did you mean 'goal'?); "
            "it has: goal, start, noise, max_episode_steps, shift, autoreset_options",
        ),
        (("run", "Walk-v0", "--mode", "sync", "--set", "noise=1"), "has no argument 'noise'; it has: goal, start"),
        (("info", "Walk-v0", "--set", "gaol=3"), "has no argument 'gaol'"),
        (("run", "Walk-v0", "--set", "max_episode_steps=0"), "max_episode_steps .*at least 1, got 0"),
        (
            ("run", "Walk-v0", "--policy", "down"),
            "--policy: expected one of fussy, interrupted, random, up, up-to-two, got 'down'",
        ),
        (("run", "Walk-v0", "--policy", "fussy"), "fussy: expected another market"),
        (("run", "OnlyEnv-v0", "--mode", "native"), "no vector_entry_point"),
        (("run", "Walk-v0", "--mode", "fast"), "sekai run: error: argument --mode: invalid choice: 'fast'"),
        (("run", "Walk-v0", "--num-envs", "0"), "--num-envs: expected an integer of at least 1, got '0'"),
        (("run", "Walk-v0", "--steps", "ten"), "--steps: expected an integer of at least 1, got 'ten'"),
        (("run", "Walk-v0", "--seed", "-1"), "--seed: expected an integer of at least 0, got '-1'"),
        (("run", "Walk-v0", "--steps", "1", "--episodes", "1"), "not allowed with argument"),
        (("run", "Walk-v0", "--num-envs", "1000000000000"), "not enough memory; try fewer sub-envs (--num-envs)"),
        (("run", "OnlyEnv-v0", "--num-envs", "1000000000000"), "not enough memory; try fewer sub-envs (--num-envs)"),
        (
            ("run", "Walk-v0", "--num-envs", "1" + "0" * 30),
            "argument --num-envs: expected at most 1,099,511,627,776, got",
        ),
        (("check", "Walk-v0", "--num-envs", "1" + "0" * 30), "argument --num-envs: expected at most 1,099,511,627,776"),
        (
            ("run", "Walk-v0", "--set", "autoreset_options={'start': 'x'}"),
            "sekai: error: could not convert string to float: 'x'",
        ),
        (("run", "Walk-v0", "--mode", "sync", "--set", "autoreset_options={}"), "no argument 'autoreset_options'"),
        (("check", "Wakl-v0"), "no environment is registered as 'Wakl-v0'; did you mean 'Walk-v0'"),
        (("check", "Walk-v0", "--set", "gaol=3"), "has no argument 'gaol' (did you mean 'goal'?); it has: goal, start"),
        (("check", "OnlyEnv-v0", "--set", "noise=3"), "has no argument 'noise'; it has: goal, start"),
        (("check", "Walk-v0", "--set", "max_episode_steps=0"), "max_episode_steps .*at least 1, got 0"),
        (("check", "Walk-v0", "--set", "autoreset=False"), "--set: 'autoreset' cannot be set"),
        (
            ("check", "Walk-v0", "--set", "autoreset_options={}"),
            "--set: 'autoreset_options' cannot be set: every reset",
        ),
        (("check", "Walk-v0", "--num-envs", "0"), "--num-envs: expected an integer of at least 1, got '0'"),
        (("check", "Walk-v0", "--steps", "0"), "--steps: expected an integer of at least 1, got '0'"),
        (("check", "Walk-v0", "--seed", "x"), "--seed: expected an integer of at least 0, got 'x'"),
        (("run",), "the following arguments are required: ENV_ID"),
        ((), "sekai: error: the following arguments are required: VERB"),
        (("walk",), "invalid choice: 'walk'"),
    ],
)
def test_a_mistake_is_told_in_one_line(capsys, argv, text):
    import re

    assert re.search(re.sub(r"([()?])", r"\\\1", text), refuse(capsys, *argv))


@pytest.fixture
def market_file(registry, tmp_path, monkeypatch):
    """A module in the current folder, not on Python's path, that registers Filed-v0 when it is imported."""
    (tmp_path / "market_file.py").write_text(
        "import test_cli\ntest_cli.REGISTRY[0].register('Filed-v0', 'toy_market:Walk')\n"
    )
    monkeypatch.setitem(sys.modules, "test_cli", sys.modules[__name__])
    monkeypatch.setattr(sys.modules[__name__], "REGISTRY", [registry], raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield "market_file:Filed-v0"
    sys.modules.pop("market_file", None)


@pytest.mark.parametrize("argv", [("run", "--steps", 2), ("info",), ("check", "--num-envs", 3, "--steps", 12)])
def test_an_id_may_name_the_module_that_registers_it(capsys, market_file, argv):
    verb, *options = argv
    report = run_json(capsys, verb, market_file, *options)
    assert "Filed-v0" in (report.get("env"), report.get("id"))


@pytest.mark.parametrize("verb", ["run", "info", "check", "bench"])
def test_a_module_that_is_not_there_is_a_mistake_of_the_user(capsys, verb, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert "environment 'no_such:Walk-v0': the module 'no_such' cannot be" in refuse(capsys, verb, "no_such:Walk-v0")
    assert "name it too ('my_module:Wander-v0')" in refuse(capsys, verb, "Wander-v0")


def as_function(vec):
    """A policy itself, where something that builds one is expected."""
    return (vec[:, 0] < 2).astype(np.int64)


@pytest.mark.parametrize("verb", ["run", "bench"])
@pytest.mark.parametrize(
    ("offered", "text"),
    [
        (as_function, "it raised TypeError: 'WalkVec' object is not subscriptable"),
        (lambda observations: observations.mean(axis=1), "it raised AttributeError: "),
        (lambda vec: np.ones(vec.num_envs), "it returned ndarray"),
    ],
)
def test_a_policy_in_the_place_of_what_builds_it_is_told(capsys, monkeypatch, verb, offered, text):
    monkeypatch.setattr(WalkVec, "policies", {"mine": offered})
    argv = ("Walk-v0", "--policy", "mine", *(("--modes", "native") if verb == "bench" else ()))
    err = refuse(capsys, verb, *argv)
    assert "--policy mine: policies['mine']: expected a function that takes the VecEnv and returns a policy" in err
    assert text in err


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_actions_of_another_shape_name_the_policy(capsys, monkeypatch, verb):
    monkeypatch.setattr(WalkVec, "policies", {"wide": lambda vec: lambda observations: np.ones((vec.num_envs, 2))})
    argv = ("Walk-v0", "--policy", "wide", *(("--modes", "native") if verb == "bench" else ()))
    assert "sekai: error: --policy wide: " in (err := refuse(capsys, verb, *argv))
    assert "expected" in err and "2)" in err


def test_policies_that_workers_cannot_send_are_those_of_the_class(capsys, registry):
    registry.register("Lambdas-v0", "toy_market:Lambdas")
    registry.register("MadeInside-v0", "toy_market:MadeInside")
    short = ("--num-envs", 2, "--steps", 3, "--mode", "proc", "--workers", 1)
    for policy in ("up", "random"):
        assert run_json(capsys, "run", "Lambdas-v0", *short, "--policy", policy)["policy"] == policy
    err = refuse(capsys, "run", "MadeInside-v0", *short, "--policy", "up")
    assert "expected one of random, got 'up'; its `policies` cannot be sent by worker processes" in err
    err = refuse(capsys, "run", "MadeInside-v0", "--mode", "sync", "--policy", "upp")
    assert "expected one of random, up, got 'upp' (did you mean 'up'?)" in err


@pytest.mark.parametrize("mode", ["native", "sync", "proc"])
def test_it_is_said_where_policies_are_looked_for(capsys, registry, mode):
    registry.register("Corridor-v0", Corridor, vector_entry_point=CorridorVec)
    err = refuse(capsys, "run", "Corridor-v0", "--policy", "up", "--num-envs", 2, "--mode", mode)
    assert "expected one of random, got 'up'; others are looked for in an attribute `policies`" in err


def test_a_mistyped_argument_of_an_env_that_hands_arguments_on(capsys, registry):
    class Steep(WalkVec):
        def __init__(self, num_envs, *, slope=1.0, **kwargs):
            super().__init__(num_envs, **kwargs)

    registry.register("Steep-v0", vector_entry_point=Steep)
    for verb in ("run", "check"):
        err = refuse(capsys, verb, "Steep-v0", "--set", "gaol=2")
        assert "'Steep-v0' has no argument 'gaol' (did you mean 'goal'?); it has: slope, goal, start" in err
    assert "has no argument 'gaol'" in run_json(capsys, "info", "Steep-v0", "--set", "gaol=2")["not_built"]


def test_an_entry_point_that_cannot_be_imported_is_a_mistake_of_the_user(capsys, registry):
    registry.register("Far-v0", "no_such_module:Env")
    assert "'no_such_module:Env' cannot be imported" in refuse(capsys, "run", "Far-v0")
    assert "'no_such_module:Env' cannot be imported" in refuse(capsys, "info", "Far-v0")


def test_an_env_that_does_not_reset_itself_cannot_be_run(capsys, registry):
    registry.register("Still-v0", vector_entry_point=WALK_VEC, kwargs={"autoreset": False})
    assert "Still-v0 is registered with autoreset off" in refuse(capsys, "run", "Still-v0")


def test_right_autoreset_options_reach_the_env(capsys):
    settings = ("--set", "autoreset_options={'start': 2.0}", "--policy", "up")
    report = run_json(capsys, "run", "Walk-v0", "--num-envs", 1, "--steps", 5, *settings)
    assert report["episodes"] == 3  # 1, 2, 3; then 3; then 3


@pytest.mark.parametrize("policies", [3, None, "up", ["up"], {1: toy_market.always_up}, {"up": 3}])
def test_policies_that_are_something_else_are_no_policies(capsys, monkeypatch, policies):
    monkeypatch.setattr(WalkVec, "policies", policies)
    assert run_json(capsys, "run", "Walk-v0", "--steps", 2)["policy"] == "random"
    assert run_json(capsys, "info", "Walk-v0")["policies"] == ["random"]
    assert "--policy: expected one of random, got 'up'" in refuse(capsys, "run", "Walk-v0", "--policy", "up")


def test_an_env_without_policies_runs_at_random(capsys, monkeypatch):
    monkeypatch.delattr(WalkVec, "policies")
    assert run_json(capsys, "run", "Walk-v0", "--steps", 2)["policy"] == "random"
    assert "--policy: expected one of random, got 'up'" in refuse(capsys, "run", "Walk-v0", "--policy", "up")


# -- check -------------------------------------------------------------------------------------------------

QUICK = ("--num-envs", 3, "--steps", 12)
SHARED = (
    "draws come from self.rng, shared by all sub-envs, so row i depends on num_envs; "
    "self.streams gives each sub-env its own"
)


def test_check_finds_nothing_in_a_good_env(capsys):
    status, out, err = run(capsys, "check", "OnlyEnv-v0")
    assert (status, err) == (0, "")
    assert out == "OnlyEnv-v0 (sync): 7 sub-envs, 100 steps, seed 0\nno problems found\n"


def test_check_tells_hints_apart(capsys):
    status, out, err = run(capsys, "check", "Walk-v0", *QUICK, "--seed", 4, "--set", "noise=0.5")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == ["Walk-v0 (native): 3 sub-envs, 12 steps, seed 4, noise=0.5", "no problems found", "hints:"]
    assert SHARED in " ".join(line[2:] for line in lines[3:])
    assert lines[3].startswith("- ") and max(map(len, lines)) <= 100


def test_check_exits_with_one_when_there_is_a_problem(capsys, monkeypatch):
    monkeypatch.setattr(WalkVec, "_observe", lambda self: np.full((self.num_envs, 1), np.nan))
    status, out, err = run(capsys, "check", "Walk-v0", *QUICK)
    assert (status, err) == (1, "")
    assert "\n1 problem found:\n- reset: observations[0, 0]: expected a finite number, got nan (sub-env 0)\n" in out


def test_check_keeps_the_lines_of_a_message_and_drops_its_colours(capsys, monkeypatch):
    def step(self, actions):
        raise ValueError("a\x1b[1mkernel\x1b[0m failed:\n\n    \x1b[31mx = y[0]\x1b[0m\n    ^\n" + "word " * 40)

    monkeypatch.setattr(WalkVec, "_step", step)
    status, out, _ = run(capsys, "check", "Walk-v0", *QUICK)
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if "akernel failed:" in line)
    assert status == 1 and lines[start].startswith("- ")
    assert lines[start + 1 : start + 4] == ["", "      x = y[0]", "      ^"]
    assert lines[start + 4].startswith("  word word") and lines[start + 5].startswith("  word")
    assert max(map(len, lines)) <= 100
    report = json.loads(run(capsys, "check", "Walk-v0", *QUICK, "--json")[1])
    assert "\x1b" not in out + report["problems"][0] and "\n    x = y[0]\n" in report["problems"][0]


def test_check_counts_one_copy(capsys):
    assert run(capsys, "check", "OnlyEnv-v0", "--num-envs", 1, "--steps", 1)[1].startswith(
        "OnlyEnv-v0 (sync): 1 sub-env, 1 step, seed 0\n"
    )


def test_no_message_has_colours(capsys, registry):
    def build(num_envs):
        raise TypeError("\x1b[1mno\x1b[0m")

    registry.register("Colourful-v0", vector_entry_point=build)
    assert refuse(capsys, "run", "Colourful-v0") == "sekai: error: no\n"
    assert run_json(capsys, "info", "Colourful-v0")["not_built"] == "TypeError: no"


def test_check_prints_json(capsys, monkeypatch):
    def step(self, actions):
        return self.level * np.nan, self.level > 9, self.level > 9, {}

    monkeypatch.setattr(WalkVec, "_step", step)
    status, out, err = run(capsys, "check", "Walk-v0", *QUICK, "--set", "goal=5", "--json")
    assert (status, err) == (1, "")
    report = json.loads(out)
    assert all(isinstance(hint, str) and not hint.startswith("hint") for hint in report.pop("hints"))
    assert report == {
        "env": "Walk-v0",
        "mode": "native",
        "settings": {"goal": 5},
        "num_envs": 3,
        "steps": 12,
        "seed": 0,
        "problems": ["step 1: rewards[0]: expected a finite number, got nan (sub-env 0)"],
    }


def test_check_looks_at_a_single_env_first(capsys, monkeypatch):
    monkeypatch.setattr(toy_market.Walk, "step", lambda self, action: None)
    report = json.loads(run(capsys, "check", "OnlyEnv-v0", *QUICK, "--json")[1])
    assert report["problems"] == ["a single env: step 1: expected a StepResult, got None (NoneType)"]


def test_check_looks_at_copies_of_a_single_env(capsys, registry):
    class Crowd(toy_market.Walk):
        """Goes up by what all copies have moved since the last reset of one."""

        moved = 0

        def reset(self, *, seed=None, options=None):
            Crowd.moved = 0
            return super().reset(seed=seed, options=options)

        def step(self, action):
            Crowd.moved += int(action)
            return super().step(Crowd.moved)

    registry.register("Crowd-v0", Crowd)
    report = json.loads(run(capsys, "check", "Crowd-v0", *QUICK, "--json")[1])
    assert (report["mode"], len(report["problems"])) == ("sync", 1)
    assert "whatever the other sub-envs do, got" in report["problems"][0]


def test_check_goes_on_to_copies_of_an_env_that_cannot_be_kept(capsys, registry):
    class Held(toy_market.Walk):
        def reset(self, *, seed=None, options=None):
            self.lock = threading.Lock()
            return super().reset(seed=seed, options=options)

    registry.register("Held-v0", Held)
    status, out, _ = run(capsys, "check", "Held-v0", *QUICK, "--json")
    report = json.loads(out)
    assert (status, report["problems"]) == (0, [])
    wheres = ("a single env: snapshot() after step 6: expected", "snapshot() after step 6: expected a Snapshot")
    for where, hint in zip(wheres, report["hints"], strict=True):
        assert hint.startswith(where) and "TypeError: snapshot(): Held.lock: expected what can be pickled" in hint


def test_b7_check_looks_for_indexes_beyond_arrays(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("sekai.cli.check.check_vec_env", lambda factory, **given: asked.append((factory, given)) or [])
    assert run(capsys, "check", "Walk-v0", *QUICK)[0] == 0
    [(factory, given)] = asked
    assert given["check_bounds"]
    sent = pickle.loads(pickle.dumps(factory))  # whatever shows how far it is, to the process that checks
    assert sent(2, autoreset=False).num_envs == 2


def test_check_ends_episodes_that_would_not_end(capsys):
    assert run_json(capsys, "check", "OnlyEnv-v0", *QUICK, "--set", "goal=1000")["hints"] == []
    report = run_json(capsys, "check", "Walk-v0", *QUICK, "--set", "goal=1000")
    assert report["problems"] == [] and SHARED in report["hints"]


# -- info and list -----------------------------------------------------------------------------------------


def test_info_shows_what_is_known_of_an_env(capsys, registry):
    registry.register("lab/Walk-v3", WALK, vector_entry_point=WALK_VEC, max_episode_steps=9, kwargs={"goal": 5})
    facts = run_json(capsys, "info", "lab/Walk")
    assert facts == {
        "id": "lab/Walk-v3",
        "namespace": "lab",
        "name": "Walk",
        "version": 3,
        "entry_point": WALK,
        "vector_entry_point": WALK_VEC,
        "max_episode_steps": 9,
        "reward_threshold": None,
        "nondeterministic": False,
        "kwargs": {"goal": 5},
        "additional_wrappers": [],
        "modes": ["native", "sync", "async", "proc"],
        "parameters": {
            "entry_point": {"goal": "3", "start": "0.0"},
            "vector_entry_point": {
                "num_envs": None,
                "goal": "3",
                "start": "0.0",
                "noise": "0.0",
                "autoreset": "True",
                "max_episode_steps": "None",
                "shift": "None",
                "autoreset_options": "None",
            },
        },
        "observation_space": repr(toy_market.OBSERVATION),
        "action_space": repr(toy_market.ACTION),
        "policies": ["random", "up", "up-to-two", "interrupted", "fussy"],
        "details": {},
        "not_built": None,
    }


def test_info_prints_a_table(capsys):
    status, out, err = run(capsys, "info", "Walk-v0")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0] == "id                   Walk-v0"
    assert "namespace            -" in lines
    assert "entry_point          toy_market:Walk(goal=3, start=0.0)" in lines
    start = lines.index(
        "vector_entry_point   toy_market:WalkVec(num_envs, goal=3, start=0.0, noise=0.0, autoreset=True,"
    )
    assert lines[start + 1] == " " * 21 + "max_episode_steps=None, shift=None, autoreset_options=None)"
    assert f"observation_space    {toy_market.OBSERVATION!r}" in lines
    assert "policies             random, up, up-to-two, interrupted, fussy" in lines


def test_the_table_shows_a_long_repr_on_one_line_and_json_does_whole(capsys, registry):
    wide = Box(-np.arange(33.0), np.arange(33.0), dtype=np.float64)

    def build(num_envs, rows="x" * 300, prices=np.zeros((9, 9)), **kwargs):  # noqa: B008 - a default to be shown
        vec = WalkVec(num_envs)
        vec.observation_space = wide
        return vec

    registry.register("Wide-v0", vector_entry_point=build, kwargs={"prices": np.zeros((40, 40)), "name": "y" * 300})
    lines = run(capsys, "info", "Wide-v0")[1].splitlines()
    names = [line.partition(" ")[0] for line in lines]
    for name in ("observation_space", "kwargs", "action_space"):
        index = names.index(name)
        assert len(lines[index]) <= 100
        assert names[index + 1]  # no line below it belongs to it
    shown = lines[names.index("observation_space")]
    assert shown.startswith("observation_space    Box([") and shown.endswith("(33,), float64)") and " ... " in shown
    assert len("".join(lines)) < 1200
    assert run_json(capsys, "info", "Wide-v0")["observation_space"] == repr(wide)


def test_c2_info_shows_what_a_market_tells_of_itself(capsys, monkeypatch):
    told = {"columns": "close from 'Adj Close'", "id": "another", "rows": 3}
    monkeypatch.setattr(WalkVec, "details", told, raising=False)
    assert run_json(capsys, "info", "Walk-v0")["details"] == {name: told[name] for name in ("columns", "id")}
    lines = run(capsys, "info", "Walk-v0")[1].splitlines()
    assert "columns              close from 'Adj Close'" in lines and lines[0] == "id                   Walk-v0"
    monkeypatch.setattr(WalkVec, "details", "nothing of the kind")
    assert run_json(capsys, "info", "Walk-v0")["details"] == {}


def test_info_names_every_policy_however_many(capsys, monkeypatch):
    names = [f"policy-number-{number}" for number in range(40)]
    monkeypatch.setattr(WalkVec, "policies", dict.fromkeys(names, toy_market.always_up))
    assert ", ".join(names) in " ".join(run(capsys, "info", "Walk-v0")[1].split())


@pytest.mark.parametrize("error", [RuntimeError("no licence"), KeyError("no licence"), SystemExit("no licence")])
def test_info_shows_the_facts_of_an_env_that_cannot_be_built(capsys, registry, error):
    def build(num_envs, speed=1.0, max_episode_steps=None):
        raise error

    registry.register("Broken-v0", vector_entry_point=build, max_episode_steps=7)
    facts = run_json(capsys, "info", "Broken-v0")
    assert facts["not_built"] == f"{type(error).__name__}: {error}"
    assert (facts["max_episode_steps"], facts["observation_space"], facts["policies"]) == (7, None, [])
    status, out, err = run(capsys, "info", "Broken-v0")
    assert (status, err) == (0, "")
    assert "speed=1.0" in out
    assert out.rstrip().endswith("no licence") or out.rstrip().endswith("no licence'")


def test_info_tells_why_an_env_could_not_be_built_and_takes_its_arguments(capsys, registry):
    def needy(num_envs, *, width):
        vec = WalkVec(num_envs)
        vec.observation_space = Box(0.0, 1.0, (width,))
        return vec

    registry.register("Needy-v0", vector_entry_point=needy)
    facts = run_json(capsys, "info", "Needy-v0")
    assert "width" in facts["not_built"]
    assert facts["observation_space"] is None
    assert facts["parameters"]["vector_entry_point"] == {"num_envs": None, "width": None}
    assert "give arguments with --set" in run(capsys, "info", "Needy-v0")[1]
    assert "(4,)" in run_json(capsys, "info", "Needy-v0", "--set", "width=4")["observation_space"]


def test_info_of_an_entry_point_that_takes_anything(capsys, registry):
    registry.register("Any-v0", lambda *args, **kwargs: toy_market.Walk(**kwargs))
    facts = run_json(capsys, "info", "Any-v0", "--set", "goal=3")
    assert facts["parameters"]["entry_point"] == {"*args": None, "**kwargs": None}
    assert facts["modes"] == ["sync", "async", "proc"]
    assert facts["entry_point"].startswith("test_cli:")


def test_list_shows_every_env(capsys, registry):
    registry.register_namespace("lab", lambda: None)
    status, out, err = run(capsys, "list")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "OnlyEnv-v0  toy_market:Walk",
        "Walk-v0     toy_market:Walk, toy_market:WalkVec (native)",
        "lab/...  (loaded at the first look-up)",
    ]
    assert run_json(capsys, "list") == {
        "environments": [
            {"id": "OnlyEnv-v0", "entry_point": WALK, "vector_entry_point": None, "max_episode_steps": None},
            {"id": "Walk-v0", "entry_point": WALK, "vector_entry_point": WALK_VEC, "max_episode_steps": None},
        ],
        "lazy_namespaces": ["lab"],
    }


@pytest.mark.parametrize("argv", [(), ("list",), ("info",), ("run",), ("check",)])
def test_help_reads_like_a_manual_page(capsys, argv):
    status, out, err = run(capsys, *argv, "--help")
    assert (status, err) == (0, "")
    assert "examples:" in out
    assert out.startswith("usage: sekai")
    assert max(map(len, out.splitlines())) <= 110


def test_the_version_is_that_of_the_package(capsys):
    assert run(capsys, "--version") == (0, f"sekai {sekai.__version__}\n", "")
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{sekai.__version__}"\n' in pyproject


# -- the process -------------------------------------------------------------------------------------------


def announce_toy_market(folder):
    """What the environment of a process needs to find the toy market as a plug-in."""
    info = folder / "toy_market-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-market\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sekai.envs]\ntoy = toy_plugin:register_envs\n")
    (folder / "toy_plugin.py").write_text(
        "from sekai.registry import register\n"
        "def register_envs():\n    register('Walk-v0', vector_entry_point='toy_market:WalkVec')\n"
    )
    return {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests", folder)))}


def python_m_sekai(tmp_path, *argv, **environment):
    return subprocess.run(
        [sys.executable, "-m", "sekai", *argv],
        env={**announce_toy_market(tmp_path), **environment},
        capture_output=True,
        encoding="utf-8",
    )


def test_python_m_sekai_runs_an_env_of_an_installed_package(tmp_path):
    done = python_m_sekai(tmp_path, "run", "Walk-v0", "--num-envs", "4", "--steps", "10", "--policy", "up", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["episodes"], report["return_mean"]) == (12, 6.0)


def test_python_m_sekai_exits_with_the_status(tmp_path):
    done = python_m_sekai(tmp_path, "run", "Walk-v0", "--policy", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "sekai: error: --policy: expected one of fussy, interrupted, random, up, up-to-two, got 'nope'\n"
    )


SHORT = "run Walk-v0 --num-envs 2 --steps 3"


def in_a_shell(tmp_path, command):
    """A command line in which SEKAI stands for the command."""
    line = command.replace("SEKAI", f"{sys.executable} -m sekai")
    return subprocess.run(["sh", "-c", line], env=announce_toy_market(tmp_path), capture_output=True, text=True)


@pytest.mark.parametrize("verb", ["info Walk-v0", "list", SHORT, "--help", "--version"])
def test_a_reader_who_leaves_early_hears_nothing_more(tmp_path, verb):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "sekai", *verb.split()],
        env=announce_toy_market(tmp_path),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("verb", ["info Walk-v0", "list --json", SHORT, "run --help", "--version"])
def test_output_that_cannot_be_written_is_told_in_one_line(tmp_path, verb):
    done = in_a_shell(tmp_path, f"SEKAI {verb} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "sekai: error: cannot write the output: No space left on device\n")


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (f"SEKAI {SHORT} 2>&-", 0),
        ("SEKAI run Nope 2>&-", 2),
        ("SEKAI run 2>&-", 2),
        ("SEKAI run Nope 2> /dev/full", 2),
        ("SEKAI run 2> /dev/full", 2),
        ("SEKAI list >&-", 0),
        (f"SEKAI {SHORT} >&- 2>&-", 0),
    ],
)
def test_streams_may_be_closed_or_full(tmp_path, command, status):
    done = in_a_shell(tmp_path, command)
    assert (done.returncode, done.stderr) == (status, "")
    assert ("env-steps/s" in done.stdout) is (command == f"SEKAI {SHORT} 2>&-")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_characters_the_terminal_lacks_are_escaped(tmp_path, environment):
    done = python_m_sekai(tmp_path, *SHORT.split(), "--set", "shift=Börse", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() and "settings      shift='B" in done.stdout


def test_characters_the_terminal_has_are_left_alone(tmp_path):
    done = python_m_sekai(tmp_path, *SHORT.split(), "--set", "shift=Börse", PYTHONIOENCODING="utf-8")
    assert "shift='Börse'" in done.stdout


def test_a_broken_pipe_inside_an_env_is_no_broken_pipe_of_the_output(capsys, monkeypatch):
    def broken(self, actions):
        raise BrokenPipeError("of a worker")

    monkeypatch.setattr(WalkVec, "_step", broken)
    with pytest.raises(BrokenPipeError, match="of a worker"):
        main(["run", "Walk-v0"])


def test_workers_of_mode_proc(capsys):
    report = run_json(capsys, "run", "Walk-v0", "--num-envs", 3, "--steps", 4, "--mode", "proc", "--workers", 2)
    assert report["mode"] == "proc" and report["env_steps"] == 12
    assert main(["run", "Walk-v0", "--workers", "2", "--mode", "sync"]) == 2
    assert "--workers: expected --mode proc beside it, got sync" in capsys.readouterr().err


@pytest.mark.parametrize(("asked", "workers"), [((), 3), (("--workers", 2), 2)])
def test_mode_proc_has_a_worker_for_each_core(capsys, monkeypatch, asked, workers):
    given = []

    def build(spec, num_envs, mode, vector_kwargs, wrappers, env_kwargs):
        given.append(vector_kwargs)
        return WalkVec(num_envs)

    monkeypatch.setattr(run_module, "usable_cores", lambda: 3)
    monkeypatch.setattr(building, "build_vec_env", build)
    run_json(capsys, "run", "Walk-v0", "--steps", 1, "--mode", "proc", *asked)
    run_json(capsys, "run", "Walk-v0", "--steps", 1, "--mode", "sync")
    assert given == [{"num_workers": workers}, None]
    assert "one for each core" in " ".join(run(capsys, "run", "--help")[1].split())
