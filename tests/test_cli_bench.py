from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import time

import numpy as np
import pytest
import toy_market
from row_toys import row_toys, up_row
from toy_market import WalkVec

from sekai.batching.info_list import InfoList
from sekai.batching.infos import copy_columns, copy_info
from sekai.cli import building, main
from sekai.cli.benching import bed, profiling, timing
from sekai.cli.benching.profiling import profile
from sekai.cli.benching.report import format_time
from sekai.cli.benching.timing import Block, Cell, Stepper, take_turns
from sekai.kernels import get_num_threads, set_num_threads
from sekai.registry import EnvRegistry
from sekai.spaces import Box
from sekai.vector import VecEnv, VecNormalizeReward
from sekai.vector.native import env as native
from sekai.vector.sub_envs.sub_env import list_infos

WALK, WALK_VEC = "toy_market:Walk", "toy_market:WalkVec"
SHORT = ("--seconds", 0.03)
ALL_WRAPPERS = "statistics,normalize-observation,normalize-reward"
NATIVE_PARTS = ["kernel", "observe", "resets", "infos", "bookkeeping"]
NAP = 0.002  # seconds


class FakeClock:
    """Goes on by itself a little whenever it is read, and for as long as a nap takes; other work takes no time."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        self.time += 1e-6
        return self.time

    def nap(self, seconds=NAP):
        self.time += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = FakeClock()
    for module in (timing, profiling):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


def make_slow_walk():
    """Takes a while for a step, whichever way it is stepped; worker processes need not import this module for it."""

    class SlowWalk(toy_market.Walk):
        def step(self, action):
            time.sleep(NAP)
            return super().step(action)

        async def async_step(self, action):
            await asyncio.sleep(NAP)
            return super().step(action)

    return SlowWalk


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """What the command sees."""
    registry = EnvRegistry()
    monkeypatch.setattr(building, "default_registry", registry)
    registry.register("Walk-v0", WALK, vector_entry_point=WALK_VEC)
    registry.register("OnlyEnv-v0", WALK)
    registry.register("OnlyNative-v0", vector_entry_point=WALK_VEC)
    registry.register("SlowWalk-v0", make_slow_walk())
    return registry


@pytest.fixture(autouse=True)
def threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def run(capsys, *argv):
    """Exit status, stdout and stderr of ``sekai bench``."""
    status = main(["bench", *map(str, argv)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys, *argv):
    status, out, err = run(capsys, *argv, *SHORT, "--json")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 1
    return json.loads(out)


def refuse(capsys, *argv):
    """The one line on stderr with which the command is refused."""
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    return err


def interrupt_at(monkeypatch, call):
    """Ctrl-C in the so-many-th block."""
    blocks = []

    def run_block(self, seconds):
        blocks.append(seconds)
        if len(blocks) == call:
            raise KeyboardInterrupt
        return Block(2, 0.5)

    monkeypatch.setattr(Stepper, "run", run_block)


# -- the grid ----------------------------------------------------------------------------------------------


def test_every_mode_that_the_environment_runs_in(capsys):
    report = run_json(capsys, "Walk-v0", "--num-envs", 2, "--threads", 1, "--workers", 2)
    cells = report.pop("cells")
    assert [(cell["mode"], cell["num_envs"], cell["threads"], cell["workers"]) for cell in cells] == [
        ("native", 2, 1, None),
        ("sync", 2, None, None),
        ("async", 2, None, None),
        ("proc", 2, None, 2),
    ]
    for cell in cells:
        assert cell["first_step_seconds"] > 0 and cell["steps"] >= 5 and cell["profile"] is None
        assert len(cell["rounds"]) == 5
        assert cell["env_steps_per_second"] == pytest.approx(np.median(cell["rounds"]))
        assert cell["seconds_per_step"] == pytest.approx(2 / cell["env_steps_per_second"])
        spread = (max(cell["rounds"]) - min(cell["rounds"])) / 2 / cell["env_steps_per_second"]
        assert cell["spread"] == pytest.approx(spread)
    assert report.pop("machine").keys() == {"system", "cores", "Python", "NumPy", "Numba", "sekai"}
    assert report == {
        "env": "Walk-v0",
        "policy": "random",
        "seed": 0,
        "settings": {},
        "wrappers": [],
        "seconds": 0.03,
        "interrupted": False,
    }


def grid(capsys, *argv):
    report = run_json(capsys, *argv)
    return [(each["mode"], each["num_envs"], each["threads"], each["workers"]) for each in report["cells"]]


def test_the_grid_is_every_combination_in_the_order_given(capsys, monkeypatch):
    monkeypatch.setattr(bed, "usable_cores", lambda: 3)
    assert grid(capsys, "Walk-v0", "--modes", "sync,native", "--num-envs", "3,1,3", "--threads", "1") == [
        ("sync", 3, None, None),
        ("sync", 1, None, None),
        ("native", 3, 1, None),
        ("native", 1, 1, None),
    ]
    assert grid(capsys, "Walk-v0", "--modes", "proc", "--num-envs", "3", "--workers", "2,1") == [
        ("proc", 3, None, 2),
        ("proc", 3, None, 1),
    ]
    assert grid(capsys, "Walk-v0", "--modes", "proc", "--num-envs", "4") == [("proc", 4, None, 3)]


def test_there_are_no_more_workers_than_copies(capsys, monkeypatch):
    monkeypatch.setattr(bed, "usable_cores", lambda: 3)
    assert grid(capsys, "Walk-v0", "--modes", "proc", "--num-envs", "2,1", "--workers", "5,2,1") == [
        ("proc", 2, None, 2),
        ("proc", 2, None, 1),
        ("proc", 1, None, 1),
    ]
    assert grid(capsys, "Walk-v0", "--modes", "proc", "--num-envs", "1") == [("proc", 1, None, 1)]


def test_there_are_no_more_threads_than_copies(capsys):
    numbers = f"1,{get_num_threads()}"
    rows = grid(capsys, "Walk-v0", "--modes", "native", "--num-envs", "1,64", "--threads", numbers)
    assert [row[2] for row in rows] == [1, *sorted({1, get_num_threads()})]


def test_the_default_grid(capsys):
    threads = sorted({1, get_num_threads()})
    cells = grid(capsys, "Walk-v0", "--modes", "native,sync")
    # Batches too small for more than one thread have one row.
    native_cells = [
        *(("native", number, 1, None) for number in (1, 64, 1024)),
        *(("native", 16_384, each, None) for each in threads),
    ]
    assert cells == [*native_cells, *(("sync", number, None, None) for number in (1, 8, 64))]
    only_env = grid(capsys, "OnlyEnv-v0", "--num-envs", 1, "--workers", 1)
    assert [mode for mode, *_ in only_env] == ["sync", "async", "proc"]


def test_by_default_only_modes_that_take_the_settings(capsys):
    assert [mode for mode, *_ in grid(capsys, "Walk-v0", "--num-envs", 1, "--set", "noise=0.5")][0] == "native"
    assert {mode for mode, *_ in grid(capsys, "Walk-v0", "--num-envs", 1, "--set", "noise=0.5")} == {"native"}
    assert "has no argument 'gaol'" in refuse(capsys, "Walk-v0", "--set", "gaol=1")
    assert "has no argument 'noise'" in refuse(capsys, "Walk-v0", "--modes", "native,sync", "--set", "noise=1")


def test_threads_are_those_of_the_cell_and_restored(capsys, monkeypatch):
    seen = set()

    def step(self, actions):
        seen.add(get_num_threads())
        return self.level, self.level > 9, self.level > 9, {}

    monkeypatch.setattr(WalkVec, "_step", step)
    set_num_threads(2)
    before = get_num_threads()  # 1 on a single core
    run_json(capsys, "Walk-v0", "--modes", "native", "--num-envs", 2, "--threads", 1, "--profile")
    assert seen == {1}
    assert get_num_threads() == before


def test_a_policy_of_one_row_acts_as_one_of_a_batch(capsys, monkeypatch):
    monkeypatch.setattr(WalkVec, "policies", {**WalkVec.policies, "rows": lambda vec: up_row})
    common = ("Walk-v0", "--num-envs", 3, "--set", "goal=2", "--seed", 1, "--json")
    returns = {}
    for policy in ("up-to-two", "rows"):
        assert main(["run", *map(str, common), "--steps", "12", "--policy", policy]) == 0
        returns[policy] = json.loads(capsys.readouterr().out)["return_mean"]
    assert returns["rows"] == returns["up-to-two"] == 3.0
    report = run_json(capsys, *common[:-1], *SHORT, "--modes", "native", "--policy", "rows")
    assert report["policy"] == "rows" and report["cells"][0]["steps"] >= 5


def test_settings_wrappers_and_policy_reach_the_environment(capsys, monkeypatch):
    actions, measured = [], []
    step, choose = WalkVec._step, bed.choose_policy

    def record_action(self, batch):
        actions.append(batch.copy())
        assert self.goal == 7
        return step(self, batch)

    def record_vec(vec, *args):
        measured.append(repr(vec))
        return choose(vec, *args)

    monkeypatch.setattr(WalkVec, "_step", record_action)
    monkeypatch.setattr(bed, "choose_policy", record_vec)
    options = ("--modes", "native", "--num-envs", 2, "--threads", 1, "--set", "goal=7")
    report = run_json(capsys, "Walk-v0", *options, "--policy", "up", "--wrap", ALL_WRAPPERS)
    assert (report["policy"], report["settings"]) == ("up", {"goal": 7})
    assert report["wrappers"] == ALL_WRAPPERS.split(",")
    assert len(measured) == 1
    assert measured[0].startswith("<VecNormalizeReward<VecNormalizeObservation<VecRecordEpisodeStatistics<WalkVec")
    assert all((batch == 1).all() for batch in actions)


def test_random_actions_are_few_batches_and_follow_from_the_seed(capsys, monkeypatch, clock):
    runs = []
    step = WalkVec._step

    def record(self, batch):
        clock.nap()
        runs[-1].append(tuple(batch))
        return step(self, batch)

    monkeypatch.setattr(WalkVec, "_step", record)
    for seed in (1, 1, 2):
        runs.append([])
        options = ("--modes", "native", "--num-envs", 40, "--threads", 1, "--seed", seed)
        run_json(capsys, "Walk-v0", *options)
    assert len(set(runs[0])) == 8
    assert runs[0][:8] == runs[1][:8] != runs[2][:8]


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_a_native_market_is_not_asked_for_masks_between_steps(capsys, monkeypatch, mode):
    """The next step would pay for it."""

    def asked(self):
        raise AssertionError("expected nobody to ask")

    monkeypatch.setattr(WalkVec, "_action_mask", asked)
    assert WalkVec(1).has_action_mask
    (cell,) = run_json(capsys, "OnlyNative-v0", "--modes", mode, "--num-envs", 2, "--policy", "random")["cells"]
    assert cell["env_steps_per_second"] > 0


def test_the_first_step_is_told_apart(capsys, monkeypatch, clock):
    step = WalkVec._step
    stepped = set()

    def slow_at_first(self, actions):
        if id(self) not in stepped:
            stepped.add(id(self))
            clock.nap(0.2)
        return step(self, actions)

    monkeypatch.setattr(WalkVec, "_step", slow_at_first)
    (cell,) = run_json(capsys, "Walk-v0", "--modes", "native", "--num-envs", 1, "--threads", 1)["cells"]
    assert cell["first_step_seconds"] >= 0.2
    assert cell["seconds_per_step"] < 0.01


def test_cells_take_turns_in_an_order_that_alternates():
    cells = [Cell("native", number, 1, None) for number in (1, 2, 3)]
    order, ticks = [], []

    def run_block(cell, seconds):
        assert seconds == 0.25
        order.append(cell.num_envs)
        return Block(steps=10 * len(order), seconds=2.0)

    take_turns(cells, run_block, seconds=0.75, rounds=2, progress=ticks.append)
    assert order == [1, 2, 3, 3, 2, 1, 1, 2, 3]
    assert [[block.steps for block in cell.blocks] for cell in cells] == [[60, 70], [50, 80], [40, 90]]
    assert ticks == [1] * 9
    assert cells[2].speeds == [60.0, 135.0] and cells[2].env_steps_per_second == 97.5
    assert cells[2].seconds_per_step == pytest.approx(3 / 97.5)
    assert cells[2].spread == pytest.approx((135 - 60) / 2 / 97.5) and cells[2].steps == 130


def test_a_stepper_steps_once_at_least_and_leaves_the_policy_out(clock):
    vec = WalkVec(2)
    seen = []

    def policy(observations):
        seen.append(observations[0, 0])
        clock.nap(0.02)
        return np.ones(2, dtype=np.int64)

    stepper = Stepper(vec, policy, seed=0)
    block = stepper.run(1e-9)
    assert (block.steps, seen) == (1, [0.0, 1.0])
    assert block.seconds < 0.001
    assert stepper.run(0.05).steps == 3


# -- what is printed ---------------------------------------------------------------------------------------


def test_the_tables(capsys):
    options = ("--modes", "native,proc", "--num-envs", "1,2000", "--threads", 1, "--workers", 2, "--set", "goal=2")
    status, out, err = run(capsys, "Walk-v0", *options, *SHORT, "--policy", "up", "--wrap", "statistics")
    assert (status, err) == (0, "")
    head, table = out.rstrip("\n").split("\n\n")
    assert head.splitlines()[:4] == [
        "env       Walk-v0",
        "policy    up",
        "settings  goal=2",
        "wrappers  statistics",
    ]
    assert re.fullmatch(
        r"machine   \S+ \S+, \d+ cores, Python 3\S+, NumPy \S+, Numba \S+, sekai \S+", head.split("\n")[4]
    )
    lines = table.splitlines()
    assert re.split("  +", lines[0]) == ["mode", "num_envs", "on", "env-steps/s", "a step", "spread", "first step"]
    number, span, share, seconds = r"[\d,]+", r"[\d.e+]+ (?:us|ms|s)", r"\d+%", r"\d+\.\d\d s"
    starts = ["native +1 +1 thread", "native +2,000 +1 thread", "proc +1 +1 worker", "proc +2,000 +2 workers"]
    for line, start in zip(lines[1:], starts, strict=True):
        assert re.fullmatch(f"{start} +{number} +{span} +{share} +{seconds}", line), line
        assert len(line) == len(lines[0]) <= 100


def test_a_time_is_printed_in_a_unit_that_fits():
    assert [format_time(seconds) for seconds in (2.5, 0.0125, 3.456e-5, 2e-7, math.nan)] == [
        *("2.5 s", "12.5 ms", "34.6 us", "0.2 us", "-")
    ]


def test_ctrl_c_prints_what_there_is(capsys, monkeypatch):
    options = ("Walk-v0", "--modes", "native,sync", "--num-envs", "3", "--threads", "1")
    interrupt_at(monkeypatch, 4)  # in the first round, after the cell whose turn comes first
    status, out, err = run(capsys, *options)
    assert (status, err) == (130, "")
    assert out.rstrip().endswith("interrupted")
    rows = [line.split() for line in out.split("\n\n")[1].splitlines()[1:]]
    assert rows[0][:4] == ["native", "3", "1", "thread"] and rows[0][4] == "-"
    assert rows[1][:7] == ["sync", "3", "-", "12", "250", "ms", "-"]
    interrupt_at(monkeypatch, 4)
    status, out, _ = run(capsys, *options, "--json")
    report = json.loads(out)
    assert status == 130 and report["interrupted"]
    assert [cell["env_steps_per_second"] for cell in report["cells"]] == [None, 12.0]


def test_ctrl_c_in_the_profile_prints_the_speeds(capsys, monkeypatch):
    interrupt_at(monkeypatch, 6 + 3)
    status, out, _ = run(capsys, "Walk-v0", "--modes", "sync", "--num-envs", "3", "--profile", "--json")
    (cell,) = json.loads(out)["cells"]
    assert status == 130
    assert (cell["env_steps_per_second"], cell["profile"]) == (12.0, None)


def test_ctrl_c_before_anything_was_measured_prints_nothing(capsys, monkeypatch):
    interrupt_at(monkeypatch, 1)
    assert run(capsys, "Walk-v0") == (130, "", "")


def test_a_progress_bar_is_drawn_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    options = ("--modes", "native", "--num-envs", 2, "--threads", 1, "--profile")
    _, out, err = run(capsys, "Walk-v0", *options, *SHORT)
    assert "/6" in err and "block" in err and "/1" in err and "profile" in err
    assert "/6" not in out


def test_everything_is_closed_whatever_happens(capsys, monkeypatch):
    opened, closed = [], []
    build = building.build_vec_env

    def record(*args):
        opened.append(build(*args))
        return opened[-1]

    monkeypatch.setattr(building, "build_vec_env", record)
    monkeypatch.setattr(WalkVec, "close", lambda self: closed.append(self))
    options = ("Walk-v0", "--modes", "native", "--num-envs", "1,2", "--threads", 1)
    run(capsys, *options, *SHORT, "--profile")
    assert len(opened) == len(closed) == 4
    run(capsys, *options, "--policy", "nope")
    run(capsys, *options, "--set", "autoreset_options={'start': 'x'}")
    interrupt_at(monkeypatch, 5)
    run(capsys, *options)
    assert len(opened) == len(closed) == 8


# -- the profile -------------------------------------------------------------------------------------------


def profile_of(capsys, env_id, *options, num_envs=4):
    """The parts of the only cell, in their order."""
    (cell,) = run_json(capsys, env_id, "--num-envs", num_envs, *options, "--profile")["cells"]
    profile = cell["profile"]
    parts = profile["parts"]
    assert profile["steps"] >= 5 and profile["slowdown"] > 0
    assert profile["seconds_per_step"] == pytest.approx(sum(part["seconds"] for part in parts.values()))
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
    assert all(part["seconds"] >= 0 for part in parts.values())
    return {name: part["share"] for name, part in parts.items()}


NATIVE = ("--modes", "native", "--threads", 1)


def slow(monkeypatch, clock, owner, name):
    function = getattr(owner, name)

    def call(*args, **kwargs):
        clock.nap()
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize(
    "owner, name, part",
    [
        (WalkVec, "_step", "kernel"),
        (WalkVec, "_observe", "observe"),
        (WalkVec, "_observe_rows", "observe"),
        (WalkVec, "_reset_envs", "resets"),
        (WalkVec, "_reset_infos", "resets"),
        (native.inputs, "plain_actions", "bookkeeping"),
        (VecNormalizeReward, "_after_step", "VecNormalizeReward"),
    ],
)
def test_the_profile_finds_what_takes_long(capsys, monkeypatch, clock, owner, name, part):
    slow(monkeypatch, clock, owner, name)
    shares = profile_of(capsys, "Walk-v0", *NATIVE, "--wrap", ALL_WRAPPERS, "--policy", "up", "--set", "goal=1")
    assert list(shares) == [
        *NATIVE_PARTS,
        *("VecRecordEpisodeStatistics", "VecNormalizeObservation", "VecNormalizeReward"),
    ]
    assert max(shares, key=shares.get) == part and shares[part] > 0.5


def test_the_compiled_step_of_a_row_market_is_the_kernel(capsys, registry):
    def make_rows(num_envs, **kwargs):
        return row_toys([[([1.0], 0.0, False, False, {})]] * num_envs, **kwargs)

    registry.register("Rows-v0", vector_entry_point=make_rows)
    shares = profile_of(capsys, "Rows-v0", *NATIVE)
    assert list(shares) == NATIVE_PARTS and shares["kernel"] > 0


@pytest.mark.parametrize("function", [copy_columns, copy_info, list_infos], ids=lambda each: each.__name__)
def test_copies_of_infos_are_a_part_of_their_own(capsys, monkeypatch, clock, function):
    def call(*args):
        clock.nap()
        return function(*args)

    call.__name__ = function.__name__
    for module in [each for name, each in sys.modules.items() if name.startswith("sekai.")]:
        if vars(module).get(function.__name__) is function:
            monkeypatch.setattr(module, function.__name__, call)
    mode = NATIVE if function is copy_columns else ("--modes", "sync")
    assert profile_of(capsys, "Walk-v0", *mode)["infos"] > 0.5


@pytest.mark.parametrize("mode", ["sync", "async", "proc"])
def test_the_time_of_sub_envs(capsys, mode):
    options = ("--modes", mode, "--wrap", "statistics", *(("--workers", 2) if mode == "proc" else ()))
    (cell,) = run_json(capsys, "SlowWalk-v0", "--num-envs", 4, *options, "--profile")["cells"]
    parts = cell["profile"]["parts"]
    infos = [] if mode == "proc" else ["infos"]
    assert list(parts) == ["sub-envs", *infos, "bookkeeping", "VecRecordEpisodeStatistics"]
    # One after the other: four of one process, two of each worker; or all at the same time.
    assert parts["sub-envs"]["seconds"] >= {"sync": 4, "async": 1, "proc": 2}[mode] * NAP


def test_sub_envs_that_wait_together_count_once(clock):
    busy = profiling._Busy()
    with busy:
        clock.nap(1.0)
        with busy:
            clock.nap(1.0)
        clock.nap(1.0)
    clock.nap(1.0)
    with busy:
        clock.nap(1.0)
    assert busy.seconds == pytest.approx(4.0, abs=1e-3)


class PlainVec(VecEnv):
    """A vector environment of another kind than the kit's own."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.observation_space, self.action_space = Box(-1, 1, (1,)), Box(-1, 1, (1,))
        self.inner = WalkVec(num_envs)

    def step(self, actions):
        return self.inner.step(np.ones(self.num_envs, dtype=np.int64))

    def reset(self, *, seed=None, options=None):
        return self.inner.reset(seed=seed, options=options)

    def close(self):
        self.inner.close()


def test_a_vector_environment_of_another_kind_is_one_part(capsys, registry):
    registry.register("Plain-v0", vector_entry_point=PlainVec)
    assert profile_of(capsys, "Plain-v0", *NATIVE) == {"bookkeeping": 1.0}


def test_the_clocks_are_taken_away_again(capsys):
    def names():
        modules = {name: module for name, module in sys.modules.items() if name.startswith("sekai.")}
        return {name: dict(vars(module)) for name, module in modules.items()}, dict(vars(InfoList))

    run_json(capsys, "Walk-v0", "--modes", "native,sync", "--num-envs", 2, "--threads", 1)  # imports all it needs
    before = names()
    run_json(capsys, "Walk-v0", "--modes", "native,sync", "--num-envs", 2, "--threads", 1, "--profile")
    assert names() == before
    vec = WalkVec(2)
    stepper = Stepper(vec, lambda observations: np.ones(2, dtype=np.int64), seed=0)
    attributes = set(vars(vec))
    assert profile(vec, stepper, stepper, seconds=0.01, rounds=1).steps >= 1
    assert set(vars(vec)) == attributes


def test_the_profile_is_printed_below_the_table(capsys):
    options = ("--modes", "native,sync", "--num-envs", "1,2", "--threads", "1", "--profile")
    status, out, err = run(capsys, "Walk-v0", *options, *SHORT)
    assert (status, err) == (0, "")
    blocks = out.rstrip("\n").split("\n\n")[2:]
    titles = [block.splitlines()[0] for block in blocks]
    time_pattern = r"[\d.e+]+ (us|ms|s) a step, \d+\.\d\d times that without the clocks"
    starts = ["native, 1 sub-env, 1 thread", "native, 2 sub-envs, 1 thread", "sync, 1 sub-env", "sync, 2 sub-envs"]
    for title, start in zip(titles, starts, strict=True):
        assert re.fullmatch(f"{start}: {time_pattern}", title)
    lines = blocks[0].splitlines()[1:]
    assert [line.split()[0] for line in lines] == NATIVE_PARTS
    assert all(re.fullmatch(r"  [a-z]+ +\d+\.\d% +[\d.e+-]+ (us|ms|s)", line) for line in lines)


# -- mistakes of the user ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("Wakl-v0",), "no environment is registered as 'Wakl-v0'; did you mean 'Walk-v0'"),
        (("OnlyEnv-v0", "--modes", "native"), "no vector_entry_point"),
        (
            ("Walk-v0", "--modes", "sync,fast"),
            "--modes: expected native, sync, async, proc, ray, or several separated by",
        ),
        (("Walk-v0", "--wrap", "stats"), "--wrap: expected statistics, normalize-observation, normalize-reward, or"),
        (("Walk-v0", "--num-envs", "1,0"), "--num-envs: expected an integer of at least 1, got '0'"),
        (("Walk-v0", "--num-envs", "1, x"), "--num-envs: expected an integer of at least 1, got ' x'"),
        (("Walk-v0", "--num-envs", ""), "--num-envs: expected an integer of at least 1, got ''"),
        (("Walk-v0", "--seconds", "0"), "--seconds: expected a number of seconds above 0, got '0'"),
        (("Walk-v0", "--seconds", "nan"), "--seconds: expected a number of seconds above 0, got 'nan'"),
        (("Walk-v0", "--seconds", "inf"), "--seconds: expected a number of seconds above 0, got 'inf'"),
        (("Walk-v0", "--seconds", "soon"), "--seconds: expected a number of seconds above 0, got 'soon'"),
        (("Walk-v0", "--seed", "-1"), "--seed: expected an integer of at least 0, got '-1'"),
        (("Walk-v0", "--modes", "sync", "--threads", "1"), "--threads: expected native among the modes, got sync"),
        (("Walk-v0", "--modes", "native", "--workers", "1"), "--workers: expected proc among the modes, got native"),
        (("OnlyEnv-v0", "--threads", "1"), "--threads: expected native among the modes, got sync, async, proc"),
        (("Walk-v0", "--threads", "1,100000"), r"--threads: expected at most \d+ \(there are no more\), got 100000"),
        (("Walk-v0", "--policy", "down"), "--policy: expected one of fussy, interrupted, random, up, up-to-two"),
        (("Walk-v0", "--policy", "fussy"), "fussy: expected another market"),
        (("Walk-v0", "--set", "goal"), "--set: expected KEY=VALUE, got 'goal'"),
        (("Walk-v0", "--set", "num_envs=3"), "--set: 'num_envs' cannot be set: use --num-envs"),
        (("Walk-v0", "--set", "max_episode_steps=0"), "max_episode_steps.*at least 1, got 0"),
        (("Walk-v0", "--set", "autoreset_options={'start': 'x'}"), "could not convert string to float: 'x'"),
        (("Walk-v0", "--num-envs", "1000000000000"), r"not enough memory; try fewer sub-envs \(--num-envs\)"),
    ],
)
def test_a_mistake_is_told_in_one_line(capsys, argv, text):
    assert re.search(text, refuse(capsys, *argv))


def test_an_env_that_does_not_reset_itself_cannot_be_measured(capsys, registry):
    registry.register("Still-v0", vector_entry_point=WALK_VEC, kwargs={"autoreset": False})
    assert "Still-v0 is registered with autoreset off" in refuse(capsys, "Still-v0", "--modes", "native")


def test_an_error_inside_the_env_is_shown_whole(monkeypatch):
    def broken(self, actions):
        raise ValueError("a bug of the market")

    monkeypatch.setattr(WalkVec, "_step", broken)
    with pytest.raises(ValueError, match="a bug of the market"):
        main(["bench", "Walk-v0", "--modes", "native"])


def test_right_autoreset_options_are_taken(capsys):
    options = ("--set", "autoreset_options={'start': 2.0}", "--policy", "up", "--num-envs", 1)
    assert {cell["mode"] for cell in run_json(capsys, "Walk-v0", *options)["cells"]} == {"native"}


def test_help_reads_like_a_manual_page(capsys):
    status, out, err = run(capsys, "--help")
    assert (status, err) == (0, "")
    assert out.startswith("usage: sekai bench")
    assert "examples:" in out and "columns:" in out
    assert max(map(len, out.splitlines())) <= 80
    for part in (*NATIVE_PARTS, "sub-envs"):
        assert re.search(f"^  {part} ", out, re.MULTILINE)
