"""``ProcVecEnv(num_workers="auto")``: how the number is found, and that sub-envs move without a change of numbers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from backends import assert_same

from sekai import Box, Discrete, Env, ProcVecEnv, ResetResult, StepResult, SyncVecEnv, VecEnvClosed, VecEnvWorkerError
from sekai.vector.processes.worker_choice import WorkerChoice


def numbers_tried(choice, seconds_of, limit=10_000):
    """The numbers of workers that steps were made with, until one is chosen."""
    tried = [choice.number]
    for _ in range(limit):
        if choice.is_final:
            return tried
        choice.record(seconds_of(choice.number))
        if choice.number != tried[-1]:
            tried.append(choice.number)
    raise AssertionError("no number was ever chosen")


def shared_work(work, waking):
    """Seconds of a step whose work is shared without loss, and that wakes up so many processes."""
    return lambda number: work / number + waking * number


@pytest.mark.parametrize(
    ("num_envs", "cores", "work", "waking", "expected"),
    [
        (8, 1, 0.04, 0.0, [1]),  # nothing to choose
        (1, 8, 0.04, 0.0, [1]),
        (8, 2, 30e-6, 5e-6, [1]),  # not worth a trial
        (8, 2, 160e-6, 20e-6, [1, 2]),
        (8, 2, 160e-6, 100e-6, [1, 2, 1]),  # tried, and worse
        (8, 8, 300e-6, 10e-6, [1, 2, 4, 8, 4]),
        (8, 64, 40e-3, 100e-6, [1, 8]),  # each has milliseconds: straight to the most
        (6, 5, 3e-3, 10e-6, [1, 2, 4]),  # with 4 and with 5 workers one has two sub-envs
    ],
)
def test_the_number_of_the_quickest_steps_is_found(num_envs, cores, work, waking, expected):
    assert numbers_tried(WorkerChoice(num_envs, cores), shared_work(work, waking)) == expected


def test_a_few_slow_steps_change_nothing():
    choice, count = WorkerChoice(8, 2), 0

    def seconds(number):
        nonlocal count
        count += 1
        return 1e-3 / number + (0.02 if count % 7 == 0 else 0.0)

    assert numbers_tried(choice, seconds) == [1, 2]


def test_a_slow_stretch_of_short_steps_changes_nothing():
    """As of a core that something else has for some milliseconds: many steps, but little time."""
    choice, steps = WorkerChoice(8, 2), 0
    while not choice.is_final:
        steps += 1
        choice.record(500e-6 if steps <= 40 else 30e-6)
    assert choice.times.keys() == {1} and choice.times[1] == 30e-6


def test_long_steps_are_measured_a_few_times():
    choice, steps = WorkerChoice(4, 2), 0
    while not choice.is_final:
        choice.record(3.0 / choice.number)
        steps += 1
    assert choice.number == 2 and steps < 20


# -- moving ------------------------------------------------------------------------------------------------


class Told:
    """Instead of a ``WorkerChoice``: so many workers from step 4, 8, ... on, whatever they take."""

    def __init__(self, num_envs, num_cores):
        self.number, self.steps, self.is_final = 1, 0, False

    def record(self, seconds):
        self.steps += 1
        if not self.is_final and self.steps % 4 == 0:
            self.number = [2, 3, 1][(self.steps // 4 - 1) % 3]

    def settle(self, number):
        self.number, self.is_final = number, True


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr("sekai.vector.processes.proc.WorkerChoice", Told)


class Walks(Env):
    """Draws from its stream, and ends after some steps; writes a line into a file when it is built and closed."""

    def __init__(self, log, length):
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (2,)), Discrete(3)
        self.log, self.length, self.steps, self.scale = str(log), length, 0, 1.0
        self._write("built")

    def _write(self, what):
        with open(self.log, "a") as file:
            file.write(what + "\n")

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.steps = 0
        return ResetResult(np.zeros(2, np.float32), {"begun": True})

    def step(self, action):
        self.steps += 1
        shown = (self.scale * self.rng.normal(size=2) + action).astype(np.float32)
        return StepResult(shown, float(shown.sum()), False, self.steps == self.length, {"steps": self.steps})

    def close(self):
        self._write("closed")


@pytest.mark.parametrize("autoreset", [True, False])
@pytest.mark.parametrize("shared_memory", [None, False])
def test_numbers_are_the_same_wherever_sub_envs_are(told, tmp_path, autoreset, shared_memory):
    log = tmp_path / "log"
    env_fns = [lambda length=length: Walks(log, length) for length in (3, 5, 30, 50)]
    beside = [lambda length=length: Walks(tmp_path / "beside", length) for length in (3, 5, 30, 50)]
    before = len(multiprocessing.active_children())
    options = {"autoreset": autoreset}
    with (
        ProcVecEnv(env_fns, num_workers="auto", shared_memory=shared_memory, **options) as vec,
        SyncVecEnv(beside, **options) as expected,
    ):
        assert vec.num_workers == 1
        space = vec.action_space
        vec.batch_action_space.seed(1)
        actions = expected.batch_action_space
        actions.seed(1)
        assert_same(vec.reset(seed=5), expected.reset(seed=5))
        for each in (vec, expected):
            each.set_attr("scale", [1.0, 2.0, 3.0, 4.0])
        numbers = []
        for _ in range(14):
            chosen = actions.sample()
            assert np.array_equal(vec.batch_action_space.sample(), chosen)
            assert_same(vec.step(chosen), expected.step(chosen))
            assert np.array_equal(vec.frozen, expected.frozen)
            numbers.append(vec.num_workers)
        assert numbers == [1] * 4 + [2] * 4 + [3] * 4 + [1] * 2
        assert vec.action_space is space
        assert len(multiprocessing.active_children()) - before == 1
        assert vec.get_attr("scale") == [1.0, 2.0, 3.0, 4.0]
    lines = log.read_text().splitlines()
    assert lines.count("built") == lines.count("closed") == 16


class Locked(Walks):
    """Holds what cannot be kept."""

    def __init__(self, log, length):
        super().__init__(log, length)
        self.lock = threading.Lock()


class BuiltOnce(Walks):
    """Takes something that there is once."""

    def __init__(self, log, length):
        open(f"{log}.once", "x").close()
        super().__init__(log, length)


class OtherObservations(Walks):
    """Has another observation space when it is built again."""

    def __init__(self, log, length):
        super().__init__(log, length)
        if Path(log).read_text().count("built") > 1:
            self.observation_space = Box(-np.inf, np.inf, (3,))


class OtherActions(Walks):
    """Has another action space when it is built again."""

    def __init__(self, log, length):
        super().__init__(log, length)
        if Path(log).read_text().count("built") > 1:
            self.action_space = Discrete(7)


@pytest.mark.parametrize(
    ("kind", "told_of"),
    [
        (Locked, "lock"),
        (BuiltOnce, "once"),
        (OtherObservations, r"same observation_space again, .* got Box\(-inf, inf, \(3,\)"),
        (OtherActions, r"same action_space again, Discrete\(3\), got Discrete\(7\)"),
    ],
    ids=["locked", "built_once", "other_observations", "other_actions"],
)
def test_what_cannot_move_stays_and_goes_on(told, tmp_path, kind, told_of):
    def build(folder):
        folder.mkdir()
        return [lambda k=k: kind(folder / f"log{k}", 50) for k in range(3)]

    before = len(multiprocessing.active_children())
    with (
        ProcVecEnv(build(tmp_path / "proc"), num_workers="auto") as vec,
        SyncVecEnv(build(tmp_path / "sync")) as expected,
    ):
        assert_same(vec.reset(seed=5), expected.reset(seed=5))
        actions = np.array([0, 1, 2])
        for _ in range(4):
            assert_same(vec.step(actions), expected.step(actions))
        stays = "the number of workers stays at 1, since sub-envs cannot move to others: .*" + told_of
        with pytest.warns(RuntimeWarning, match=stays) as warned:
            assert_same(vec.step(actions), expected.step(actions))
        assert [each.filename for each in warned] == [__file__]  # of the line that made the step
        for _ in range(6):
            assert_same(vec.step(actions), expected.step(actions))
        assert vec.num_workers == 1
        assert len(multiprocessing.active_children()) - before == 1


# -- what comes while it changes ---------------------------------------------------------------------------


class BuiltSlowly(Walks):
    """Waits for a file when it is built again."""

    def __init__(self, log, length):
        if os.path.exists(log):
            self._wait(f"{log}.go")
        super().__init__(log, length)

    def _wait(self, go):
        Path(go.replace(".go", ".waits")).touch()
        until = time.monotonic() + 60
        while not os.path.exists(go) and time.monotonic() < until:
            time.sleep(0.01)


def moving_at_the_next_step(folder, **kwargs):
    """A VecEnv, and a function that waits until its sub-envs are being built again, in the next step."""
    env_fns = [lambda k=k: BuiltSlowly(folder / f"log{k}", 50) for k in range(3)]
    vec = ProcVecEnv(env_fns, num_workers="auto", **kwargs)
    vec.reset(seed=5)
    for _ in range(4):
        vec.step([0, 1, 2])

    def wait():
        while not (folder / "log0.waits").exists():
            time.sleep(0.01)

    return vec, wait


def lines_of(folder):
    return [(folder / f"log{k}").read_text().split() for k in range(3)]


def test_closed_by_another_thread_while_it_changes(told, tmp_path):
    before = set(multiprocessing.active_children())
    vec, wait = moving_at_the_next_step(tmp_path, close_timeout=2.0)
    raised = []

    def step():
        with pytest.raises(VecEnvClosed) as caught:
            vec.step([0, 1, 2])
        raised.append(caught)

    thread = threading.Thread(target=step)
    thread.start()
    wait()
    vec.close()
    thread.join()
    assert raised and vec.closed
    assert set(multiprocessing.active_children()) == before
    assert lines_of(tmp_path) == [["built", "closed"]] * 3


def send(number, wait):
    """Send the main thread a signal once there is what to wait for."""

    def run():
        wait()
        signal.pthread_kill(threading.main_thread().ident, number)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_closed_by_a_signal_while_it_changes(told, tmp_path):
    before = set(multiprocessing.active_children())
    vec, wait = moving_at_the_next_step(tmp_path, close_timeout=2.0)
    previous = signal.signal(signal.SIGTERM, lambda *_: vec.close())
    try:
        thread = send(signal.SIGTERM, wait)
        with pytest.raises(VecEnvClosed):
            vec.step([0, 1, 2])
        thread.join()
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert set(multiprocessing.active_children()) == before
    assert lines_of(tmp_path) == [["built", "closed"]] * 3


def test_interrupted_while_it_changes(told, tmp_path):
    before = set(multiprocessing.active_children())
    vec, wait = moving_at_the_next_step(tmp_path, close_timeout=0.5)
    beside = [lambda k=k: Walks(tmp_path / "beside", 50) for k in range(3)]
    with vec, SyncVecEnv(beside) as expected:
        expected.reset(seed=5)
        for _ in range(4):
            expected.step([0, 1, 2])
        thread = send(signal.SIGINT, wait)
        with pytest.raises(KeyboardInterrupt):
            vec.step([0, 1, 2])
        thread.join()
        assert vec.num_workers == 1
        assert len(set(multiprocessing.active_children()) - before) == 1
        for k in range(3):
            (tmp_path / f"log{k}.go").touch()
        for _ in range(4):
            assert_same(expected.step([0, 1, 2]), vec.step([0, 1, 2]))
        assert vec.num_workers == 2
    assert set(multiprocessing.active_children()) == before


def test_new_workers_that_die_leave_the_old_ones(told, tmp_path):
    before = set(multiprocessing.active_children())
    vec, wait = moving_at_the_next_step(tmp_path, close_timeout=0.5)
    old = set(multiprocessing.active_children())

    def kill():
        wait()
        for worker in set(multiprocessing.active_children()) - old:
            worker.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with vec, pytest.warns(RuntimeWarning, match="the number of workers stays at 1, .* died of SIGKILL"):
        assert np.isfinite(vec.step([0, 1, 2]).observations).all()
        thread.join()
        assert vec.num_workers == 1 and set(multiprocessing.active_children()) == old
    assert set(multiprocessing.active_children()) == before


def test_an_old_worker_that_has_died_is_told_of(told, tmp_path):
    before = set(multiprocessing.active_children())
    vec, _ = moving_at_the_next_step(tmp_path, close_timeout=0.5)
    (worker,) = set(multiprocessing.active_children()) - before
    worker.kill()
    worker.join()
    with vec:
        for _ in range(2):
            with pytest.raises(VecEnvWorkerError, match="died of SIGKILL"):  # and no warning
                vec.step([0, 1, 2])
    assert set(multiprocessing.active_children()) == before


class ClosesBadly(Walks):
    """Cannot be closed the first time."""

    def close(self):
        super().close()
        if Path(self.log).read_text().count("closed") == 1:
            raise RuntimeError("it cannot let go")


def test_old_sub_envs_that_cannot_be_closed_are_told_of_and_the_new_ones_go_on(told, tmp_path):
    with ProcVecEnv([lambda k=k: ClosesBadly(tmp_path / f"log{k}", 50) for k in range(2)], num_workers="auto") as vec:
        vec.reset(seed=5)
        for _ in range(4):
            vec.step([0, 1])
        with pytest.raises(VecEnvWorkerError, match="sub-env 0: RuntimeError: it cannot let go"):
            vec.step([0, 1])
        assert vec.num_workers == 2
        assert [info["steps"] for info in vec.step([0, 1]).infos] == [5, 5]
