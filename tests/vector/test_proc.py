"""ProcVecEnv: what only worker processes have, and their faults, each really made to happen."""

import asyncio
import contextlib
import copy
import gc
import itertools
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from backends import assert_same, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from proc_envs import (
    FOR_EVER,
    HANG,
    Anything,
    Fails,
    Filed,
    Gambles,
    Gate,
    Misbehaves,
    OneWay,
    Parent,
    Replays,
    Stubborn,
    wait_until,
)
from spaces_catalogue import same, samples, seeded, spaces
from toys import BOX1, INF, Draws, T, Toy, Z, fns

from sekai import (
    AsyncCallPending,
    AutoReset,
    Box,
    Dict,
    Discrete,
    ProcVecEnv,
    ResetResult,
    Sequence,
    SpaceMismatch,
    StepResult,
    SyncVecEnv,
    Tuple,
    VecEnvClosed,
    VecEnvWorkerError,
)
from sekai.vector.processes import pipe

NOTHING, EXIT, SLEEP, LAMBDA, RAISE, KILL, BIG, SYSTEM_EXIT = range(8)

TESTS = Path(__file__).parent


@pytest.fixture
def build():
    made = []

    def build(env_fns, **kwargs):
        made.append(ProcVecEnv(env_fns, **kwargs))
        return made[-1]

    yield build
    for vec in made:
        try:
            vec.close()
        except VecEnvWorkerError:
            pass


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


@pytest.fixture
def patient(monkeypatch):
    """However long it takes until the exit status of a worker that has died is known: it is told."""
    monkeypatch.setattr("sekai.vector.processes.pool._PATIENCE", HANG)


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter if it goes between opening and reading
        return None


def alive(pid):
    return state(pid) not in (None, "Z")


def gone(*pids):
    return not any(map(alive, pids))


def ends_with_close(vec):
    """Whether no worker is left when ``close()`` comes back, which does not wait for what takes for ever."""
    pids = [worker.process.pid for worker in vec._pool.workers]
    start = time.monotonic()
    vec.close()
    took = time.monotonic() - start
    assert took < FOR_EVER / 2
    # It gives those that it kills 5 s to go, which on a busy machine may be too few.
    return gone(*pids) if took < 5.0 else wait_until(lambda: gone(*pids))


def in_time(attempt):
    """What an attempt with a step_timeout gives; where that hits a worker that is merely slow, one with a longer."""
    for seconds in (0.2, 2.0, 20.0):
        try:
            return attempt(seconds)
        except VecEnvWorkerError as error:
            if error.exc_type != "TimeoutError":
                raise
    return attempt(HANG)


def once_in_time(call):
    """What a call gives that a step_timeout may hit, made until it does not."""
    results = []

    def comes_through():
        try:
            results.append(call())
        except VecEnvWorkerError as error:
            if error.exc_type != "TimeoutError":
                raise
        return bool(results)

    assert wait_until(comes_through)
    return results[0]


@contextlib.contextmanager
def stopped(pid):
    """A process that is stopped while the block runs, unless that hangs."""
    go_on = threading.Timer(HANG, os.kill, (pid, signal.SIGCONT))
    go_on.start()
    os.kill(pid, signal.SIGSTOP)
    try:
        assert wait_until(lambda: state(pid) == "T")
        yield
    finally:
        go_on.cancel()
        go_on.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def in_shared_memory():
    return set(os.listdir("/dev/shm"))


# -- signature and arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"num_workers": 0}, ValueError, "num_workers: expected at least 1, got 0"),
        ({"num_workers": 1.5}, TypeError, "num_workers: expected an integer, got float"),
        ({"context": "thread"}, ValueError, "context: expected one of .*forkserver.*, got 'thread'"),
        ({"close_timeout": -1}, ValueError, "close_timeout: expected a number of seconds of at least 0, got -1"),
        ({"close_timeout": None}, TypeError, "close_timeout: expected a number of seconds, got None"),
        ({"step_timeout": "1"}, TypeError, "step_timeout: expected a number of seconds, got '1'"),
        ({"step_timeout": INF}, ValueError, "step_timeout: expected a number of seconds of at least 0, got inf"),
        ({"autoreset_options": 3}, TypeError, "autoreset_options: expected a dict"),
    ],
    ids=str,
)
def test_wrong_arguments(kwargs, error, message):
    before = descriptors()
    with pytest.raises(error, match=message):
        ProcVecEnv(fns(T(1), T(1)), **kwargs)
    assert descriptors() == before


def test_wrong_env_fns():
    with pytest.raises(ValueError, match="expected at least one callable"):
        ProcVecEnv([])
    with pytest.raises(TypeError, match=r"env_fns\[1\]: expected a callable"):
        ProcVecEnv([lambda: Toy(T(1)), 3])
    with pytest.raises(TypeError, match=r"env_fns\[1\]: expected it to build a sekai.Env, got int"):
        ProcVecEnv([lambda: Toy(T(1)), lambda: 3])
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock"):  # cannot be sent, and says so here
        ProcVecEnv([lambda: lock])


def test_shared_memory_is_used_when_the_observation_space_allows(build):
    assert build(fns(T(1), T(1))).shared_memory is True
    assert build(fns(T(1), T(1)), shared_memory=False).shared_memory is False
    ragged = Sequence(Discrete(3))
    script = [((1, 2), 0.0, False, False, {}), ((), 0.0, False, False, {})]
    vec = build(fns(script, script, obs=ragged, r0=()))
    assert vec.shared_memory is False
    vec.reset()
    assert vec.step([0, 0]).observations == [(1, 2), (1, 2)]
    with pytest.raises(ValueError, match="shared_memory=True: expected an observation space of fixed shapes"):
        build(fns(script, obs=ragged, r0=()), shared_memory=True)


@pytest.mark.parametrize(
    ("num_workers", "sizes"), [(None, [1] * 5), (1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (9, [1] * 5)]
)
def test_sub_envs_are_split_evenly(build, num_workers, sizes):
    vec = build([Misbehaves] * 5, num_workers=num_workers)
    assert vec.num_workers == len(sizes)
    pids = vec.call("pid")
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == sizes
    assert os.getpid() not in pids


def test_the_default_start_method_and_daemon(build):
    assert all(worker.process.daemon for worker in build([Misbehaves])._pool.workers)
    vec = build([Parent], daemon=False)
    assert vec.call("child") == [7]  # which a daemonic worker may not have
    with pytest.raises(VecEnvWorkerError, match="daemonic processes are not allowed to have children"):
        build([Parent]).call("child")
    assert type(vec._pool.workers[0].process).__name__ == "ForkServerProcess"


def test_set_attr_changes_all_or_none(build):
    class More(Misbehaves):
        extra = 1

    for num_workers in (None, 2, 1):
        vec = build([More, More, Misbehaves], num_workers=num_workers)
        with pytest.raises(VecEnvWorkerError, match="sub-env 2: AttributeError: .*extra"):
            vec.set_attr("extra", 5)
        assert vec.call("read_extra") == [1, 1, None]


# -- the same results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared_memory", [None, False])
@pytest.mark.parametrize("autoreset", [True, False])
def test_3_3_results_do_not_depend_on_the_workers(build, autoreset, shared_memory):
    def play(vec):
        results = [vec.reset(seed=3)]
        for k in range(20):
            results.append(vec.step([k % 2] * 6))
        results.append(vec.reset(seed=[None, 1, None, 2, None, 3], options=[None, {"a": 1}] * 3))
        return results

    env_fns = [partial(Draws, length) for length in (1, 2, 3, 5, 8, 50)]
    expected = play(SyncVecEnv(env_fns, autoreset=autoreset))
    for num_workers in (None, 1, 2, 3):
        vec = build(env_fns, autoreset=autoreset, num_workers=num_workers, shared_memory=shared_memory)
        assert_same(expected, play(vec))


@given(st.data())
@settings(seeded, max_examples=15)
def test_generated_nested_spaces_give_what_sync_gives(data):
    observation_space, action_space = data.draw(spaces()), data.draw(spaces())
    observations = [[data.draw(samples(observation_space)) for _ in range(3)] for _ in range(3)]
    env_fns = [partial(Replays, observation_space, action_space, rows) for rows in observations]
    kwargs = {"num_workers": data.draw(st.integers(1, 3)), "shared_memory": data.draw(st.sampled_from([None, False]))}
    sync = SyncVecEnv(env_fns)
    sync.batch_action_space.seed(1)
    with ProcVecEnv(env_fns, **kwargs) as vec:
        assert_same(sync.reset(), vec.reset())
        for _ in range(4):
            actions = sync.batch_action_space.sample()
            assert_same(sync.step(actions), vec.step(actions))
            for got, expected in zip(vec.get_attr("action"), sync.get_attr("action"), strict=True):
                assert same(got, expected)


def test_results_are_fresh_arrays(build):
    vec = build(fns(T(9), T(9)))
    first = vec.reset()
    second = vec.step([0, 0])
    vec.step([0, 0])
    assert first.observations.tolist() == [[0.0], [0.0]]
    assert second.observations.tolist() == [[1.0], [1.0]] and second.rewards.tolist() == [1.0, 1.0]
    second.observations[:] = 99
    assert vec.step([0, 0]).observations.tolist() == [[3.0], [3.0]]


def test_5_9_spaces_of_all_workers_are_compared(build):
    for num_workers in (None, 2, 1):
        with pytest.raises(SpaceMismatch, match="sub-env 3: expected the action_space of sub-env"):
            build([*fns(T(1), T(1), T(1)), *fns(T(1), act=Discrete(3))], num_workers=num_workers)


def test_wrapped_and_self_resetting_sub_envs(build):
    vec = build([lambda: AutoReset(Toy(T(1)))] * 2, autoreset=False)
    vec.reset()
    for _ in range(3):
        result = vec.step([0, 0])
        assert result.terminated.all() and not vec.frozen.any()
        assert result.infos[1]["final_observation"].tolist() == [1.0]


def test_local_classes_and_lambdas_travel(build):
    factor = 3.0

    class Local(Toy):
        def triple(self, f):
            return f(factor)

    vec = build([lambda: Local(T(9))])
    assert vec.call("triple", lambda x: x * 2) == [6.0]
    vec.set_attr("script", [[([7.0], 0.0, False, False, {})]])
    vec.reset(options={"f": lambda: 1})
    assert vec.step([0]).observations.tolist() == [[7.0]]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_without_descriptors_as_on_windows(build, monkeypatch, patient):
    def fork(env_fns, **kwargs):
        with pytest.warns(RuntimeWarning, match="fork"):
            return build(env_fns, context="fork", **kwargs)

    # A forked worker has the same module, so that both ends of the line agree.
    monkeypatch.setattr("sekai.vector.processes.pipe.DESCRIPTORS", False)
    sync = SyncVecEnv([partial(Draws, 3)] * 3)
    with fork([partial(Draws, 3)] * 3, num_workers=2, shared_memory=False) as vec:
        assert_same(sync.reset(seed=1), vec.reset(seed=1))
        for _ in range(5):
            assert_same(sync.step([0] * 3), vec.step([0] * 3))
        assert_same(sync.step([0] * 3), asyncio.run(vec.async_step([0] * 3)))
    with fork([Misbehaves] * 2, step_timeout=0.1, close_timeout=0.1) as vec:
        once_in_time(vec.reset)
        with pytest.raises(VecEnvWorkerError, match="TimeoutError"):
            vec.step([NOTHING, SLEEP])
    with fork([Misbehaves] * 2) as vec:
        vec.reset()
        with pytest.raises(VecEnvWorkerError, match="worker 1 .* died with exit status 3"):
            vec.step([NOTHING, EXIT])


# -- one thread each -----------------------------------------------------------------------------------------


def run_with_threads(tmp_path, context, before):
    """What workers say of their threads, and what a later process of the user's own says."""
    ran = run_script(
        tmp_path,
        f"""
        import multiprocessing, warnings

        def ask(queue):
            queue.put(os.environ.get("OMP_NUM_THREADS"))

        def users_own(ctx):
            queue = ctx.Queue()
            process = ctx.Process(target=ask, args=(queue,))
            process.start()
            print(queue.get())
            process.join()

        if __name__ == "__main__":
            warnings.simplefilter("ignore")
            ctx = multiprocessing.get_context({context!r})
            {before}
            vec = ProcVecEnv([Misbehaves] * 2, context={context!r})
            for threads, variables in vec.call("numbers_of_threads"):
                print(threads, variables["OMP_NUM_THREADS"])
            vec.close()
            users_own(ctx)
            print(os.environ.get("OMP_NUM_THREADS"))
        """,
        env={name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")},
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("context", "before"),
    [
        # Every context and everything before it once by default: each starts interpreters.
        pytest.param(context, before, id=f"{id}-{context}", marks=() if (j - k) % 3 == 0 else pytest.mark.slow)
        for j, (id, before) in enumerate(
            [("not first", "users_own(ctx)"), ("numba", "import numba; numba.get_num_threads()"), ("first", "pass")]
        )
        for k, context in enumerate(["forkserver", "fork", "spawn"])
    ],
)
def test_workers_use_one_thread_each_and_nobody_else_does(tmp_path, context, before):
    said = run_with_threads(tmp_path, context, before)
    assert said[-4:] == ["1 1", "1 1", "None", "None"]


@pytest.mark.parametrize(
    "context", ["forkserver", *(pytest.param(each, marks=pytest.mark.slow) for each in ("spawn", "fork"))]
)
def test_unless_the_user_has_set_the_variables(tmp_path, context):
    said = run_with_threads(tmp_path, context, "os.environ.update(OMP_NUM_THREADS='2', NUMBA_NUM_THREADS='2')")
    assert said[:2] == ["2 2", "2 2"] and said[-1] == "2"


# -- exceptions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [None, 1, 2])
def test_9_1_an_exception_in_step(build, num_workers):
    vec = build([lambda: Toy(T(99)), lambda: Toy(T(99)), Fails, lambda: Toy(T(99))], num_workers=num_workers)
    vec.reset()
    vec.step([0] * 4)
    vec.step([0] * 4)
    with pytest.raises(VecEnvWorkerError, match="x") as caught:
        vec.step([0] * 4)
    error = caught.value
    assert error.rank == 2 and error.exc_type.endswith("Unpicklable") and error.message == "x"
    assert 'raise Unpicklable("x", lambda: 0)' in error.remote_traceback and "Unpicklable" in str(error)
    assert vec.step([0] * 4).observations.ravel().tolist() == [4.0, 4.0, 3.0, 4.0]  # the others advanced once
    assert vec.reset().observations.ravel().tolist() == [0.0] * 4


def test_several_at_once_are_all_named(build):
    vec = build([Misbehaves] * 4, num_workers=2)
    vec.reset()
    with pytest.raises(
        VecEnvWorkerError, match=r"sub-env 1: .*bad deed.*also failed: sub-env 3 \(.*bad deed"
    ) as caught:
        vec.step([NOTHING, RAISE, NOTHING, RAISE])
    assert caught.value.rank == 1
    assert vec.step([NOTHING] * 4).observations.ravel().tolist() == [2.0, 1.0, 2.0, 1.0]


def test_an_exception_in_reset_call_and_get_attr(build):
    class BadReset(Misbehaves):
        def reset(self, *, seed=None, options=None):
            if options:
                raise RuntimeError("no such start")
            return super().reset(seed=seed)

    vec = build([Misbehaves, BadReset])
    vec.reset()
    with pytest.raises(VecEnvWorkerError, match="sub-env 1: RuntimeError: no such start"):
        vec.reset(options={"start": 1})
    vec.reset()
    with pytest.raises(VecEnvWorkerError, match="sub-env 0: .*refused"):
        vec.call("refuse")
    with pytest.raises(VecEnvWorkerError, match="has no attribute 'nope'"):
        vec.get_attr("nope")
    with pytest.raises(VecEnvWorkerError, match="sub-env 0: .*its value cannot be pickled"):
        vec.call("lock")
    assert vec.step([0, 0]).rewards.tolist() == [1.0, 1.0]


def test_system_exit_in_a_sub_env_is_an_error_like_any_other(build):
    vec = build([Misbehaves] * 2)
    vec.reset()
    with pytest.raises(VecEnvWorkerError, match="sub-env 1: SystemExit: 5"):
        vec.step([NOTHING, SYSTEM_EXIT])
    vec.step([NOTHING, NOTHING])


@pytest.mark.parametrize("num_workers", [None, 1])
def test_6_5_an_unpicklable_info(build, num_workers):
    vec = build([Misbehaves] * 3, num_workers=num_workers)
    vec.reset()
    with pytest.raises(VecEnvWorkerError, match="sub-env 1: .*its info cannot be pickled") as caught:
        vec.step([NOTHING, LAMBDA, BIG])
    assert caught.value.rank == 1
    result = vec.step([BIG, NOTHING, NOTHING])
    assert result.infos[0]["big"].tolist() == list(range(1000)) and result.infos[1:] == [{}, {}]


@pytest.mark.parametrize("shared_memory", [None, False])
def test_a19_what_cannot_be_read_on_the_other_side_names_its_sub_env(build, shared_memory):
    class Sends(Toy):
        """Sends what it is told to: 0, something that can be pickled only, or something that cannot."""

        sent = {"observation": 0, "info": 0, "value": 0}

        def __init__(self):
            super().__init__(T(99), obs=Anything(), act=Anything())

        def say(self, what):
            return [0, OneWay(), lambda: 0][self.sent[what]]

        def reset(self, *, seed=None, options=None):
            return ResetResult(self.say("observation"), {"x": self.say("info")})

        def step(self, action):
            return StepResult(self.say("observation"), 1.0, False, False, {})

        def value(self):
            return self.say("value")

    nothing = Sends.sent
    vec = build([Sends] * 5, num_workers=2, shared_memory=shared_memory)
    vec.reset()
    for row in (1, 4):
        for what, call in {
            "observation": lambda: vec.step([0] * 5),
            "info": vec.reset,
            "value": lambda: vec.call("value"),
        }.items():
            for kind, fault in enumerate(["unpickled: not here", "pickled: .*lambda"], 1):
                vec.set_attr("sent", [{**nothing, what: kind} if i == row else nothing for i in range(5)])
                with pytest.raises(VecEnvWorkerError, match=f"sub-env {row}: .*its {what} cannot be {fault}"):
                    call()
                vec.set_attr("sent", nothing)
        vec.reset()
        inputs = [OneWay() if i == row else 0 for i in range(5)]
        for give in (vec.step, partial(vec.set_attr, "k"), lambda given: vec.reset(options=[{"x": x} for x in given])):
            with pytest.raises(VecEnvWorkerError, match=f"sub-env {row}: LookupError: not here"):
                give(inputs)
        vec.reset()
        assert len(vec.step([0] * 5).observations) == 5


def test_an_unpicklable_argument_leaves_the_vec_env_usable(build):
    vec = build([Misbehaves] * 2)
    vec.reset()
    for use in (lambda: vec.call("pid", threading.Lock()), lambda: vec.set_attr("k", threading.Lock())):
        with pytest.raises(TypeError, match="lock"):
            use()
    assert vec.step([0, 0]).rewards.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("num_workers", [None, 2])
def test_9_4_an_env_fn_that_raises(tmp_path, num_workers):
    path = tmp_path / "closed"

    def fail():
        raise ValueError("third")

    before = descriptors()
    with pytest.raises(VecEnvWorkerError, match="sub-env 2: ValueError: third") as caught:
        ProcVecEnv(
            [partial(Filed, path, 0), partial(Filed, path, 1), fail, partial(Filed, path, 3)],
            num_workers=num_workers,
            close_timeout=HANG,
        )
    assert caught.value.rank == 2
    # In one worker, nothing after the failing one is built.
    assert sorted(path.read_text().split()) == (["0", "1", "3"] if num_workers is None else ["0", "1"])
    assert descriptors() <= before + 1


def test_errors_in_close_come_once_everything_has_stopped(build, tmp_path):
    path = tmp_path / "closed"

    class Stuck(Filed):
        def close(self):
            super().close()
            raise OSError(f"stuck {self.name}")

    env_fns = [partial(kind, path, rank) for rank, kind in enumerate([Filed, Stuck, Stuck, Filed])]
    vec = build(env_fns, close_timeout=HANG)
    pids = vec.get_attr("name") and [worker.process.pid for worker in vec._pool.workers]
    with pytest.raises(VecEnvWorkerError, match="sub-env 1: OSError: stuck 1.*sub-env 2"):
        vec.close()
    assert sorted(path.read_text().split()) == ["0", "1", "2", "3"]
    assert gone(*pids)
    vec.close()
    with pytest.raises(VecEnvClosed):
        vec.reset()


# -- workers that die or hang --------------------------------------------------------------------------------


@pytest.mark.parametrize("deed", [EXIT, KILL])
def test_9_3_a_worker_that_dies_in_a_step(build, patient, deed):
    vec = build([Misbehaves] * 3, step_timeout=HANG)  # which is told apart from a death that nobody notices
    vec.reset()
    how = "with exit status 3" if deed == EXIT else "of SIGKILL"
    with pytest.raises(VecEnvWorkerError, match=rf"worker 1 \(process \d+, sub-env 1\) died {how}") as caught:
        vec.step([NOTHING, deed, NOTHING])
    assert caught.value.rank == 1
    for use in (lambda: vec.step([0] * 3), vec.reset, lambda: vec.get_attr("k"), lambda: vec.set_attr("k", 0)):
        with pytest.raises(VecEnvWorkerError, match="worker 1"):  # again, at once
            use()
    vec.close()


def test_9_3_a_worker_of_several_names_them_all(build):
    vec = build([Misbehaves] * 3, num_workers=1)
    vec.reset()
    with pytest.raises(VecEnvWorkerError, match=r"sub-envs 0, 1, 2\) died") as caught:
        vec.step([NOTHING, EXIT, NOTHING])
    assert caught.value.rank == 0
    vec.close()


def test_9_3_killed_while_idle(build, patient):
    vec = build([Misbehaves] * 2)
    vec.reset()
    pid = vec.call("pid")[1]
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: gone(pid))
    with pytest.raises(VecEnvWorkerError, match="of SIGKILL") as caught:
        vec.step([0, 0])
    assert caught.value.rank == 1
    vec.close()


@pytest.mark.parametrize("awaited", [False, True], ids=["called", "awaited"])
def test_a_step_timeout_names_the_slow_sub_envs_and_leaves_it_closable(build, awaited):
    def attempt(seconds):
        vec = build([Misbehaves] * 3, step_timeout=seconds, close_timeout=0.1)
        vec.reset()
        start = time.monotonic()
        with pytest.raises(VecEnvWorkerError, match=rf"worker 2 .* took longer than {seconds} s") as caught:
            actions = [NOTHING, NOTHING, SLEEP]
            _ = asyncio.run(vec.async_step(actions)) if awaited else vec.step(actions)
        assert time.monotonic() - start >= seconds
        if caught.value.rank != 2:  # another was not done either
            raise caught.value
        return vec, str(caught.value)

    vec, message = in_time(attempt)
    assert re.match(r"sub-env 2: TimeoutError: worker 2 .* took longer", message) and "also" not in message
    assert ends_with_close(vec)


def test_a_slow_step_that_comes_through_late_is_discarded(build, tmp_path):
    def attempt(seconds):
        gate = Gate(tmp_path / str(seconds))
        vec = build([Misbehaves] * 2, step_timeout=seconds)
        vec.set_attr("gate", gate)
        vec.reset()
        with pytest.raises(VecEnvWorkerError, match="TimeoutError"):
            vec.step([NOTHING, SLEEP])
        gate.open()
        assert vec._pool.workers[1].pipe.connection.poll(HANG)  # it has come
        return vec.step([NOTHING, NOTHING])

    assert in_time(attempt).observations.ravel().tolist() == [2.0, 2.0]


def test_a_large_message_to_a_stopped_worker_does_not_outlast_the_timeout(build):
    vec = build([Misbehaves] * 2, step_timeout=0.2, close_timeout=0.1)
    once_in_time(vec.reset)
    with stopped(vec._pool.workers[0].process.pid):
        with pytest.raises(VecEnvWorkerError, match="sub-env 0: TimeoutError"):
            vec.reset(options=[{"large": np.zeros(10**6)}, None])
        assert vec._pool.workers[0].pipe.unsent
    assert once_in_time(vec.reset).observations.tolist() == [[0.0], [0.0]]  # what was left unsent goes its way


def test_large_messages_both_ways(build):
    vec = build([Misbehaves] * 2, num_workers=1)
    large = np.random.default_rng(1).random(3_000_000)
    vec.call("make_room")
    vec.set_attr("large", large)
    assert all(np.array_equal(value, large) for value in vec.get_attr("large"))

    async def ask():
        return await vec.async_reset(options={"large": large})

    assert asyncio.run(ask()).observations.shape == (2, 1)


def test_a_stopped_worker(build):
    vec = build([Misbehaves] * 2, step_timeout=0.1, close_timeout=0.1)
    once_in_time(vec.reset)
    with stopped(vec._pool.workers[0].process.pid):
        with pytest.raises(VecEnvWorkerError, match="sub-env 0: TimeoutError"):
            vec.step([NOTHING, NOTHING])
        assert ends_with_close(vec)


def test_9_9_close_of_workers_that_hang_and_ignore_sigterm(build, monkeypatch):
    vec = build([Stubborn, Stubborn], close_timeout=0.2)
    waits = []  # how long it is ready to wait; how long it takes is the machine's business too

    def record(owner, name):
        wait = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda seconds: waits.append(seconds) or wait(seconds))

    record(vec._pool._listener, "wait")
    for worker in vec._pool.workers:
        record(worker.process, "join")
    assert ends_with_close(vec)
    *before, _, _ = waits  # the last two are for those that were killed
    assert max(before) < 1.0  # by default they would be given five


def test_9_9_close_from_another_thread_while_a_step_blocks(build, gate):
    vec = build([Misbehaves] * 2, close_timeout=0.1)
    vec.set_attr("gate", gate)
    vec.reset()
    ended = []
    closing = threading.Thread(target=lambda: ended.append(wait_until(gate.reached) and ends_with_close(vec)))
    closing.start()
    with pytest.raises(VecEnvClosed, match="closed while a call was going on"):
        vec.step([NOTHING, SLEEP])
    closing.join(HANG)
    assert ended == [True]


# -- interrupted and overlapping calls -----------------------------------------------------------------------


def test_11_3_a_cancelled_await_leaves_no_stale_data(build, gate):
    vec = build([Misbehaves] * 2)
    vec.set_attr("gate", gate)

    async def play():
        await vec.async_reset()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(vec.async_step([SLEEP, SLEEP]), 0.02)
        first = asyncio.ensure_future(vec.async_reset())
        await asyncio.sleep(0)  # it waits for what was cancelled
        gate.open()
        return await first, await vec.async_step([NOTHING, NOTHING])

    first, second = asyncio.run(play())
    assert first.observations.ravel().tolist() == [0.0, 0.0]
    assert second.observations.ravel().tolist() == [1.0, 1.0]


def test_11_3_overlapping_calls(build, tmp_path):
    vec = build([Misbehaves] * 2)
    gates = [Gate(tmp_path / name) for name in ("of a task", "of a thread")]
    vec.set_attr("gate", gates[0])
    vec.reset()

    async def play():
        first = asyncio.ensure_future(vec.async_step([SLEEP, NOTHING]))
        await asyncio.sleep(0)
        with pytest.raises(AsyncCallPending):
            await vec.async_step([NOTHING, NOTHING])
        gates[0].open()
        return await first

    assert asyncio.run(play()).rewards.tolist() == [1.0, 1.0]
    vec.set_attr("gate", gates[1])
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(vec.step([SLEEP, NOTHING])))
    thread.start()
    assert wait_until(gates[1].reached)
    with pytest.raises(AsyncCallPending, match="an earlier step"):
        vec.step([NOTHING, NOTHING])
    gates[1].open()
    thread.join(HANG)
    assert outcomes[0].observations.ravel().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("shared_memory", [None, False])
def test_errors_that_are_hard_to_tell(build, shared_memory):
    class Odd(Misbehaves):
        def step(self, action):
            raise {
                0: lambda: SyntaxError("m", ("f", 1, 1, 5)),
                1: lambda: BrokenPipeError("of the env"),
                2: lambda: EOFError(),
                3: lambda: ValueError("x" * 10**7),
            }[int(action)]()

    vec = build([Odd] * 2, num_workers=1, shared_memory=shared_memory)
    vec.reset()
    for action, name in enumerate(["SyntaxError", "BrokenPipeError", "EOFError", "ValueError"]):
        with pytest.raises(VecEnvWorkerError) as caught:
            vec.step([action, action])
        assert caught.value.exc_type == name and len(str(caught.value)) < 10**6
    vec.reset()


def test_an_env_fn_that_fails_is_told_before_a_slow_one_is_built():
    def slow():
        time.sleep(FOR_EVER)

    def fail():
        raise ValueError("at once")

    start = time.monotonic()
    with pytest.raises(VecEnvWorkerError, match="sub-env 1: ValueError: at once"):
        ProcVecEnv([slow, fail], close_timeout=0.1)
    assert time.monotonic() - start < FOR_EVER


def test_nothing_is_left_where_a_worker_cannot_be_started(monkeypatch):
    process_class = multiprocessing.get_context("forkserver").Process
    start, pids = process_class.start, []

    def start_one(process):
        if pids:
            raise OSError("there are too many processes")
        start(process)
        pids.append(process.pid)

    monkeypatch.setattr(process_class, "start", start_one)
    with pytest.raises(OSError, match="too many processes"):
        try:
            ProcVecEnv([Misbehaves] * 2, context="forkserver", close_timeout=HANG)
        except OSError:
            assert pids and gone(*pids)  # while the traceback holds the other end of the line
            raise


def test_a_timeout_of_zero_is_closable_at_once(tmp_path):
    path = tmp_path / "closed"
    vec = ProcVecEnv([partial(Filed, path, 0), partial(Filed, path, 1)], step_timeout=0.0, close_timeout=HANG)
    with pytest.raises(VecEnvWorkerError, match="TimeoutError"):
        while True:
            vec.reset()
    start = time.monotonic()
    vec.close()
    assert time.monotonic() - start < HANG  # it came back because they had closed
    assert sorted(path.read_text().split()) == ["0", "1"]


@pytest.mark.parametrize("kwargs", [{}, {"num_workers": 1}, {"shared_memory": False}], ids=str)
def test_frozen_is_known_after_a_step_that_failed(build, kwargs):
    vec = build([lambda: Toy(T(1)), partial(Fails, at=1)], autoreset=False, **kwargs)
    vec.reset()
    with pytest.raises(VecEnvWorkerError):
        vec.step([0, 0])
    assert vec.frozen.tolist() == [True, False]
    assert vec.step([0, 0]).rewards.tolist() == [0.0, 1.0]


def test_an_env_without_spaces_is_named():
    class Bare(Misbehaves):
        def __init__(self):
            super().__init__()
            self.observation_space = property()

        def __getattribute__(self, name):
            if name == "action_space":
                raise AttributeError("no action_space")
            return super().__getattribute__(name)

    with pytest.raises(VecEnvWorkerError, match="sub-env 0: AttributeError: no action_space"):
        ProcVecEnv([Bare])


@pytest.mark.parametrize("step_timeout", [None, HANG], ids=["no-limit", "limit"])
def test_the_event_loop_is_free_while_workers_are_busy(build, gate, step_timeout):
    vec = build([Misbehaves], step_timeout=step_timeout)
    vec.set_attr("gate", gate)

    async def play():
        await vec.async_reset()
        step = asyncio.ensure_future(vec.async_step([SLEEP]))
        while not (gate.reached() or step.done()):
            await asyncio.sleep(0.001)
        assert not step.done()
        gate.open()  # which only a loop that is free comes to
        return await step

    assert asyncio.run(play()).observations.tolist() == [[1.0]]


def test_a_handler_that_raises_in_the_middle_of_calls_never_hangs(tmp_path):
    ran = run_script(
        tmp_path,
        """
        class Alarm(Exception):
            pass

        rung = 0

        def ring(*_):
            global rung
            rung += 1
            raise Alarm

        def step_until_it_rings(vec):
            before = rung
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            try:
                while rung == before:
                    vec.step([6, 0])
            except VecEnvWorkerError:  # the alarm came while a reply was unpickled, which it says has failed
                if rung == before:
                    raise

        if __name__ == "__main__":
            vec = ProcVecEnv([Misbehaves] * 2)
            vec.reset()
            vec.step([6, 0])  # which imports what NumPy puts off: an alarm in there comes out as an error of NumPy's
            signal.signal(signal.SIGALRM, ring)
            while rung < 40:
                vec = vec or ProcVecEnv([Misbehaves] * 2)
                try:
                    assert vec.reset().observations.tolist() == [[0.0], [0.0]]
                except VecEnvWorkerError as error:  # the alarm came in the middle of a message
                    assert error.exc_type == "WorkerDied", error
                    vec.close()
                    vec = None
                    continue
                with contextlib.suppress(Alarm):
                    step_until_it_rings(vec)
            vec.close()
            print(rung)
        """,
    )
    assert (ran.stdout, ran.stderr) == ("40\n", "")


@pytest.mark.slow
def test_a_handler_that_raises_at_any_line_of_a_step_never_hangs(tmp_path):
    """A tracer stands in for the signal: it raises where it is told to, once, at each line in turn.

    In the modules of ``ProcVecEnv`` and its base, it does not: a tracer, unlike a signal, comes between a lock and its
    release.
    """
    ran = run_script(
        tmp_path,
        """
        import inspect
        from sekai.vector.remote import RemoteVecEnv

        class Alarm(Exception):
            pass

        def ring_at(line):
            left = line

            def trace(frame, event, argument):
                nonlocal left
                path = frame.f_code.co_filename
                if event == "line" and path.startswith(folder) and path not in with_locks:
                    left -= 1
                    if left < 0:
                        raise Alarm
                return trace

            return trace

        if __name__ == "__main__":
            folder = os.path.dirname(sys.modules["sekai.vector"].__file__)
            with_locks = {inspect.getfile(kind) for kind in (ProcVecEnv, RemoteVecEnv)}
            vec, line, rang, died = None, 0, True, 0
            while rang:
                vec = vec or ProcVecEnv([Misbehaves] * 2)
                vec.reset()
                rang = False
                sys.settrace(ring_at(line))
                try:
                    vec.step([6, 0])
                except (Alarm, VecEnvWorkerError):
                    rang = True
                finally:
                    sys.settrace(None)
                line += 1
                try:
                    assert vec.reset().observations.tolist() == [[0.0], [0.0]]
                except VecEnvWorkerError as error:  # it came in the middle of a message
                    assert error.exc_type == "WorkerDied", error
                    vec.close()
                    vec, died = None, died + 1
            vec.close()
            print(line > 60, 0 < died < line)
        """,
    )
    assert (ran.stdout, ran.stderr) == ("True True\n", "")


def test_close_while_an_awaited_call_goes_on(build, gate):
    vec = build([Misbehaves] * 2, close_timeout=HANG)
    vec.set_attr("gate", gate)
    vec.reset()
    opening = threading.Timer(0.05, gate.open)

    async def play():
        step = asyncio.ensure_future(vec.async_step([SLEEP, NOTHING]))
        while not (gate.reached() or step.done()):
            await asyncio.sleep(0.001)
        opening.start()
        start = time.monotonic()
        vec.close()
        took = time.monotonic() - start
        with pytest.raises(VecEnvClosed):
            await step
        return took

    assert asyncio.run(play()) < HANG  # it came back because they had closed
    opening.join()


def test_classes_of_the_main_module_go_both_ways(tmp_path):
    ran = run_script(
        tmp_path,
        """
        from dataclasses import dataclass

        if __name__ == "__main__":
            @dataclass
            class Fill:
                price: float

            class Fills(Misbehaves):
                metadata = {"key": lambda x: x}

                def step(self, action):
                    result = super().step(action)
                    result.info["fill"] = Fill(1.5)
                    return result

                def double(self, fill):
                    return Fill(2 * fill.price)

            with ProcVecEnv([Fills] * 2) as vec:
                vec.reset(options={"fill": Fill(3.0)})
                info = vec.step([0, 0]).infos[1]
                assert isinstance(info["fill"], Fill) and info["fill"] == Fill(1.5), info
                assert vec.call("double", Fill(2.0)) == [Fill(4.0)] * 2
            print("both ways")
        """,
    )
    assert (ran.stdout, ran.stderr) == ("both ways\n", "")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_copy_refuses_to_work(build):
    vec = build([Misbehaves])
    vec.reset()
    pid = os.fork()
    if pid == 0:
        try:
            vec.step([0])
        except RuntimeError as error:
            os._exit(0 if "cannot be used in" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert vec.step([0]).observations.tolist() == [[1.0]]


def test_it_cannot_be_pickled(build):
    with pytest.raises(TypeError, match="make another one of its env_fns"):
        copy.deepcopy(build([Misbehaves]))


@pytest.mark.filterwarnings("ignore:ProcVecEnv.context='fork'|This process .* is multi-threaded")
@pytest.mark.parametrize("context", ["forkserver", "fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a13_the_global_generators_of_a_worker_are_its_own(build, context):
    vec = build([Gambles] * 4, context=context, num_workers=2)
    mine = Gambles().draw()
    drawn = [number for row in [*vec.get_attr("at_first"), mine] for number in row]
    assert len(set(drawn)) == len(drawn)
    generator = np.random.default_rng(5)
    state = generator.bit_generator.state
    runs = []
    for seeds in (1, 1, 2, [generator, None, 7, None], [generator, None, 7, None], None):
        vec.reset(seed=seeds)
        runs.append(vec.call("draw"))
    assert runs[0] == runs[1] and runs[3] == runs[4]
    drawn = [number for run in (runs[0], runs[2], runs[3], runs[5]) for row in run for number in row]
    assert len(set(drawn)) == len(drawn)
    assert generator.bit_generator.state == state


@pytest.mark.filterwarnings("ignore:ProcVecEnv.context='fork'|This process .* is multi-threaded")
def test_a13_a_generator_of_another_kind_is_started_as_well(build):
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        vec = build([Gambles] * 2, context="fork")
    finally:
        np.random.set_bit_generator(before)
    first, second = vec.call("draw")
    assert len({*first, *second}) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ProcVecEnv.context='fork'|This process .* is multi-threaded")
def test_a13_torch_has_such_a_generator_too(build):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    vec = build([lambda: Gambles(draw=lambda: torch.rand(3).tolist())] * 2, context="fork")
    at_first = vec.get_attr("at_first")
    assert at_first[0] != at_first[1]
    vec.reset(seed=1)
    seeded = vec.call("draw")
    vec.reset(seed=1)
    assert vec.call("draw") == seeded and seeded[0] != seeded[1]


# -- whole programs ------------------------------------------------------------------------------------------

PREAMBLE = f"""
import contextlib, os, signal, sys, threading, time
from pathlib import Path
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]
import numpy as np
from sekai import ProcVecEnv, VecEnvWorkerError
from proc_envs import Gate, Misbehaves, Stubborn, wait_until
"""


def run_script(tmp_path, body, **kwargs):
    path = tmp_path / "script.py"
    path.write_text(PREAMBLE + textwrap.dedent(body))
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=HANG, **kwargs)


@pytest.mark.parametrize(
    "ending",
    ["vec.close()", "pass", "del vec", "os.environ['KEEP'] = '1'; keep = [vec]"],
    ids=["closed", "left open", "dropped", "kept"],
)
def test_4_8_an_interpreter_that_exits_leaves_nothing(tmp_path, ending):
    shared = in_shared_memory()
    ran = run_script(
        tmp_path,
        f"""
        if __name__ == "__main__":
            vec = ProcVecEnv([Misbehaves] * 3)
            vec.reset(seed=1)
            vec.step([0, 0, 0])
            print(*vec.call("pid"))
            {ending}
        """,
    )
    assert ran.returncode == 0 and ran.stderr == ""
    pids = [int(pid) for pid in ran.stdout.split()]
    assert len(pids) == 3 and wait_until(lambda: gone(*pids))
    assert wait_until(lambda: in_shared_memory() <= shared)  # others come and go there too


def test_an_interpreter_that_exits_with_stubborn_workers(tmp_path):
    ran = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            vec = ProcVecEnv([Stubborn] * 2, close_timeout=0.1)
            vec.reset()
        """,
    )
    assert ran.returncode == 0 and ran.stderr == ""


#: Has the fork server import the main module, as Python does from 3.13.8 on.
LIKE_3_13_8 = (
    "import multiprocessing.spawn as spawn; said = spawn.get_preparation_data; spawn.get_preparation_data = "
    "lambda name: (data := said(name)) | ({'main_path': data.get('init_main_from_path')} if name == 'ignore' else {})"
)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", marks=pytest.mark.slow),
        LIKE_3_13_8,
        pytest.param(
            f"{LIKE_3_13_8}; import multiprocessing; multiprocessing.set_forkserver_preload(['__main__', 'json'])",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["as_it_is", "a14_as_from_3_13_8", "a14_and_told_to"],
)
def test_a_script_without_a_main_guard_fails_fast_with_one_readable_error(tmp_path, before):
    ran = run_script(
        tmp_path,
        f"""
        {before}
        import sekai.vector.processes.pool
        sekai.vector.processes.pool._PATIENCE = {HANG}  # it is told by the workers' exit status
        vec = ProcVecEnv([Misbehaves] * 4)
        """,
    )
    assert ran.returncode == 1
    assert ran.stderr.count("Traceback") == 1
    assert "if __name__ == '__main__':" in ran.stderr


@pytest.mark.parametrize(
    "context, guard",
    [
        ("forkserver", "if __name__ == '__main__':"),
        pytest.param("spawn", "if __name__ == '__main__':", marks=pytest.mark.slow),
        pytest.param("forkserver", "if True:", marks=pytest.mark.slow),
    ],
)
def test_e4_a_script_on_standard_input(context, guard):
    script = f"""
        class Seven(Env):
            observation_space, action_space = Box(-9, 9, (1,), np.float64), Discrete(2)
            def reset(self, *, seed=None, options=None):
                return ResetResult(np.full(1, 7.0), {{}})
            def step(self, action):
                return StepResult(np.full(1, 7.0), 1.0, False, False, {{"file": __name__}})

        {guard}
            with ProcVecEnv([Seven] * 2, context="{context}") as vec:
                print(vec.reset().observations.tolist(), vec.step([0, 1]).infos, __file__)
    """
    imports = "import numpy as np\nfrom sekai import Box, Discrete, Env, ProcVecEnv, ResetResult, StepResult\n"
    ran = subprocess.run(
        [sys.executable, "-"],
        input=imports + textwrap.dedent(script),
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert ran.stderr == ""
    assert ran.stdout == "[[7.0], [7.0]] [{'file': '__main__'}, {'file': '__main__'}] <stdin>\n"


def test_workers_exit_when_the_parent_is_killed(tmp_path):
    ran = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            gate = Gate(Path(__file__).with_name("gate"))
            vec = ProcVecEnv([Misbehaves] * 2, close_timeout=0.1)
            vec.set_attr("gate", gate)
            vec.reset()
            print(*vec.call("pid"), flush=True)

            def kill():
                if wait_until(gate.reached):
                    os.kill(os.getpid(), signal.SIGKILL)

            threading.Thread(target=kill, daemon=True).start()
            vec.step([2, 0])
        """,
    )
    assert ran.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in ran.stdout.split()]
    assert len(pids) == 2 and wait_until(lambda: gone(*pids))


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="workers cannot tell whose end it is")
def test_a18_idle_workers_close_their_sub_envs_when_the_parent_is_killed(tmp_path):
    ran = run_script(
        tmp_path,
        f"""
        from proc_envs import Filed

        def gone(pid):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True

        if __name__ == "__main__":
            path = Path(__file__).with_name("closed")
            vec = ProcVecEnv([lambda i=i: Filed(path, i) for i in range(8)], num_workers=4, close_timeout={HANG})
            vec.reset()
            pids = set(vec.call("pid"))
            vec.step([0] * 8)
            read, write = os.pipe()
            if os.fork() == 0:  # which holds this process's ends of all pipes as long as there are workers
                os.write(write, b"x")
                print(wait_until(lambda: all(map(gone, pids))), flush=True)
                os._exit(0)
            os.read(read, 1)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGKILL, "True\n", "")
    assert sorted(map(int, (tmp_path / "closed").read_text().split())) == list(range(8))


def test_9_6_ctrl_c_to_the_whole_group_then_reset(tmp_path):
    ran = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            vec = ProcVecEnv([Misbehaves] * 3, num_workers=2)
            vec.reset()

            def press(gate):
                if wait_until(gate.reached):
                    os.killpg(0, signal.SIGINT)
                    gate.open()  # only now, so that no step is over before

            for name in "abc":
                gate = Gate(Path(__file__).with_name(name))
                vec.set_attr("gate", gate)
                threading.Thread(target=press, args=(gate,), daemon=True).start()
                try:
                    vec.step([2, 2, 2])
                    print("not interrupted")
                except KeyboardInterrupt:
                    print("interrupted")
                print(vec.reset().observations.ravel().tolist())
                print(vec.step([0, 0, 0]).observations.ravel().tolist())
            vec.close()
        """,
        start_new_session=True,
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["interrupted", "[0.0, 0.0, 0.0]", "[1.0, 1.0, 1.0]"] * 3


def test_ctrl_c_at_any_moment_never_breaks_the_line(tmp_path):
    ran = run_script(
        tmp_path,
        """
        presses = 0

        def press(*_):
            global presses
            presses += 1
            raise KeyboardInterrupt

        if __name__ == "__main__":
            import random
            random.seed(1)
            signal.signal(signal.SIGINT, press)
            vec = ProcVecEnv([Misbehaves] * 4, num_workers=2)
            vec.reset()
            for trial in range(150):
                timer = threading.Timer(random.random() * 0.004, os.kill, (os.getpid(), signal.SIGINT))
                with contextlib.suppress(KeyboardInterrupt):
                    timer.start()
                    while presses == trial:
                        vec.step([6, 0, 6, 0])
                timer.join()
                first = vec.reset().observations.ravel().tolist()
                second = vec.step([6, 0, 0, 0])
                assert first == [0.0] * 4, first
                assert second.observations.ravel().tolist() == [1.0] * 4
                assert second.infos[0]["big"].sum() == 499500 and second.infos[2] == {}
            vec.close()
            print(presses)
        """,
    )
    assert (ran.stdout, ran.stderr) == ("150\n", "")


def test_9_15_parallel_numba_kernels_and_fork(tmp_path):
    ran = run_script(
        tmp_path,
        """
        import warnings
        import numba
        from sekai import Box, Discrete, Env, ResetResult, StepResult

        @numba.njit(parallel=True)
        def total(x):
            s = np.zeros(x.size)
            for i in numba.prange(x.size):
                s[i] = x[i] + 1
            return s

        class Parallel(Env):
            observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(2)
            def reset(self, *, seed=None, options=None):
                return ResetResult(total(np.zeros(1)), {})
            def step(self, action):
                return StepResult(total(np.ones(1)), 0.0, False, False, {})

        def play(context):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    with ProcVecEnv([Parallel] * 2, context=context, num_workers=1) as vec:
                        vec.reset()
                        print(vec.step([0, 0]).observations.ravel().tolist())
                except VecEnvWorkerError as error:
                    print("worker error", error.exc_type)
            print("warned" if any("context='fork'" in str(w.message) for w in caught) else "silent", flush=True)

        if __name__ == "__main__":
            total(np.zeros(8))
            play(None)
            play("fork")
        """,
    )
    default, silent, forked, warned = ran.stdout.splitlines()[-4:]
    assert default == "[2.0, 2.0]" and forked in ("[2.0, 2.0]", "worker error WorkerDied")
    assert (silent, warned) == ("silent", "warned")


# -- nothing left, nothing growing ---------------------------------------------------------------------------


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def cycle(count):
    for _ in range(count):
        with ProcVecEnv([Misbehaves] * 2, close_timeout=HANG) as vec:
            vec.reset()
            vec.step([0, BIG])


def children():
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile has none
            found += (task / "children").read_text().split()
    return sorted(found)


@pytest.mark.parametrize("cycles", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_is_left_of_closed_vec_envs(cycles):
    cycle(2)
    gc.collect()
    before, shared = (descriptors(), threading.active_count(), children()), in_shared_memory()
    cycle(cycles)
    gc.collect()
    assert (descriptors(), threading.active_count(), children()) == before
    assert wait_until(lambda: in_shared_memory() <= shared)  # others come and go there too


@pytest.mark.parametrize(("first", "then"), [(500, 1_500), pytest.param(5_000, 45_000, marks=pytest.mark.slow)])
def test_memory_is_flat_over_many_steps_with_infos(build, first, then):
    vec = build([Misbehaves] * 4, num_workers=2)
    vec.reset()
    actions = [BIG, NOTHING, BIG, NOTHING]
    pids = [os.getpid(), *dict.fromkeys(vec.call("pid"))]
    for _ in range(first):
        vec.step(actions)
    before = [resident(pid) for pid in pids]
    for _ in range(then):
        vec.step(actions)
    grown = [resident(pid) - start for pid, start in zip(pids, before, strict=True)]
    assert max(grown) < 4096  # KiB; a leak of one pickled info a step would be over 10 MiB, or over 150


def test_dict_observations_and_large_ones_through_shared_memory(build):
    space = Dict({"book": Box(-INF, INF, (64, 128), np.float64), "t": Tuple((Discrete(9), Box(0, 1, (0,))))})
    big = {"book": np.arange(64.0 * 128).reshape(64, 128), "t": (4, np.zeros(0, np.float32))}
    script = [(big, 1.0, False, False, {})]
    vec = build(fns(script, script, obs=space, r0=big))
    assert vec.shared_memory
    assert vec.reset().observations["book"].shape == (2, 64, 128)
    assert vec.step([0, 0]).observations["book"][1].tolist() == big["book"].tolist()


def test_scripts_agree_with_sync_under_a_time_limit(build):
    for autoreset in (True, False):
        kwargs = {"autoreset": autoreset, "max_episode_steps": 3}
        sync, proc = (scripted(name, T(2), T(9), **kwargs) for name in ("sync", "proc-grouped"))
        assert_same(sync.reset(), proc.reset())
        for _ in range(7):
            assert_same(sync.step(Z(sync)), proc.step([0, 0]))
        proc.close()
    assert BOX1 == proc.observation_space


# -- before a side that waits goes to sleep --------------------------------------------------------------------


def test_what_has_been_waited_for_in_vain_is_not_waited_for_each_time(monkeypatch):
    now = itertools.count(step=pipe.SPIN / 10)
    monkeypatch.setattr(pipe.time, "perf_counter", lambda: next(now))
    answers, calls = [], []

    def ask():
        calls.append("")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    spin = pipe.Spin(ask)

    def asked(given):
        """How often it asks, and what it gets."""
        calls.clear()
        answers[:] = given
        got = spin()
        return len(calls), got

    assert asked([[], [], ["it"]]) == (3, ["it"])
    in_vain = [asked([[]])[0] > 1 for _ in range(1 + 1 + 1 + 2 + 1 + 4 + 1)]
    assert in_vain == [True, False, True, False, False, True, *[False] * 4, True]
    assert [asked([[], ["it"]])[0] for _ in range(8)] == [1] * 8
    assert asked([["it"]]) == (1, ["it"])  # not in vain
    assert [asked([[]])[0] > 1 for _ in range(3)] == [True, False, True]
